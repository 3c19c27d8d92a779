//! Requests to stop: from signals, from other threads.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use crate::error::{Doing, Error};

/// Collects requests to stop, and can be waited on.
#[derive(Debug)]
pub struct StopRequests {
    reader: UnixStream,
    writer: Arc<UnixStream>,
}

/// Asks an event loop to stop, from any thread. A second request ends it without draining.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<UnixStream>);

/// As long as it lives, SIGINT and SIGTERM are requests to stop, and so is SIGHUP for a process
/// with a terminal: it must not outlive that with its routes in place. To a process without one,
/// SIGHUP means to read its files anew, which nothing here does: it says so and goes on. Afterwards
/// these signals are ignored: a process that goes on needs its own handlers.
#[derive(Debug)]
pub struct SignalGuard(Vec<SigId>);

/// Requests to stop a program that looks for them now and then.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// SIGINT, which a terminal sends to all its programs.
    interrupted: Arc<AtomicBool>,
    /// SIGTERM or SIGHUP, which are meant for us.
    terminated: Arc<AtomicBool>,
}

impl Stop {
    /// From now on these signals are requests, until the process ends.
    ///
    /// # Errors
    /// The handlers can't be set.
    pub fn on_signals() -> Result<Self, Error> {
        let stop = Self::default();
        let register = |signal, flag: &Arc<AtomicBool>| {
            signal_hook::flag::register(signal, Arc::clone(flag))
                .doing(|| "set the signal handlers")
        };
        register(SIGINT, &stop.interrupted)?;
        register(SIGTERM, &stop.terminated)?;
        register(SIGHUP, &stop.terminated)?;
        Ok(stop)
    }

    /// Asks, from inside.
    pub fn ask(&self) {
        self.terminated.store(true, Ordering::Relaxed);
    }

    /// Whether anybody has asked.
    pub fn is_asked(&self) -> bool {
        self.is_terminated() || self.interrupted.load(Ordering::Relaxed)
    }

    /// Whether anybody has asked otherwise than by the keyboard.
    pub fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::Relaxed)
    }
}

impl StopRequests {
    /// None so far.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new() -> Result<Self, Error> {
        let pair = || -> io::Result<_> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            writer.set_nonblocking(true)?;
            Ok((reader, writer))
        };
        let (reader, writer) = pair().doing(|| "open a socket pair for stop requests")?;
        let writer = Arc::new(writer);
        Ok(Self { reader, writer })
    }

    /// A way to ask.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.writer))
    }

    /// Makes signals of the process requests.
    ///
    /// # Errors
    /// The handlers can't be set.
    pub fn on_signals(&self) -> Result<SignalGuard, Error> {
        let mut guard = SignalGuard(Vec::new());
        let mut stops = vec![SIGINT, SIGTERM];
        if has_terminal() {
            stops.push(SIGHUP);
        } else {
            guard
                .0
                .push(tell_hangups().doing(|| "set the signal handlers")?);
        }
        for signal in stops {
            let writer = self.writer.try_clone();
            let id = writer.and_then(|writer| pipe::register(signal, writer));
            guard.0.push(id.doing(|| "set the signal handlers")?);
        }
        Ok(guard)
    }

    /// The number of requests since the last call.
    pub fn take(&mut self) -> usize {
        let mut octets = [0; 16];
        self.reader.read(&mut octets).unwrap_or(0)
    }
}

/// Whether a terminal controls this process.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Has a line written for each SIGHUP, until it is unregistered.
fn tell_hangups() -> io::Result<SigId> {
    let (mut reader, writer) = UnixStream::pair()?;
    writer.set_nonblocking(true)?;
    let id = pipe::register(SIGHUP, writer)?;
    let tell = move || {
        while let Ok(1..) = reader.read(&mut [0; 16]) {
            tracing::warn!("SIGHUP: files aren't reloaded; restart the gateway to read them");
        }
    };
    thread::Builder::new().name("hangups".into()).spawn(tell)?;
    Ok(id)
}

impl AsFd for StopRequests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Stopper {
    /// Asks once.
    pub fn stop(&self) {
        // A full pipe holds requests enough.
        let _ = (&*self.0).write(&[1]);
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_once() {
        let mut requests = StopRequests::new().unwrap();
        assert_eq!(requests.take(), 0);
        let stopper = requests.stopper();
        stopper.stop();
        stopper.stop();
        assert_eq!(requests.take(), 2);
        assert_eq!(requests.take(), 0);
    }
}
