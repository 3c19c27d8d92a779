//! Sockets that can't be had yet, and are tried for again and again.

use std::io;
use std::net::SocketAddr;

use nix::libc;
use strait_core::node::SocketEvent;
use strait_core::time::{Duration, Instant};

/// Pause before an address that can't be had is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Something at an address.
pub(super) trait At {
    /// The address that it has.
    fn at(&self) -> io::Result<SocketAddr>;
}

/// A socket as it is wanted, and what has come of it.
#[derive(Debug)]
pub(super) struct Tried<W, S> {
    pub(super) wanted: W,
    /// The socket, or what keeps it away.
    pub(super) socket: io::Result<S>,
    retry_at: Instant,
}

impl<W, S: At> Tried<W, S> {
    pub(super) fn new(now: Instant, wanted: W, socket: io::Result<S>) -> Self {
        Self {
            wanted,
            socket,
            retry_at: now + PAUSE,
        }
    }

    /// When it is to be tried again.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.socket.is_err().then_some(self.retry_at)
    }

    /// Tries again if it is time; what has changed.
    pub(super) fn again(
        &mut self,
        now: Instant,
        open: impl FnOnce(&W) -> io::Result<S>,
    ) -> Option<SocketEvent> {
        if self.wake().is_none_or(|at| at > now) {
            return None;
        }
        let before = self.event();
        self.retry_at = now + PAUSE;
        self.socket = open(&self.wanted);
        Some(self.event()).filter(|event| *event != before)
    }

    /// What the node is told.
    pub(super) fn event(&self) -> SocketEvent {
        let wrong = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL);
        match self.socket.as_ref().map(At::at) {
            Ok(Ok(address)) => SocketEvent::Bound(address),
            Ok(Err(error)) => SocketEvent::Failed(wrong(&error)),
            Err(error) => SocketEvent::Failed(wrong(error)),
        }
    }
}
