//! Hears the groups of anybody.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::error::{Doing, Error};
use strait_live::poll::wait_to_read;
use strait_live::signals::StopRequests;
use strait_traffic::pair::Receiver;

use crate::stamped_udp::Udp;

/// What a receiver has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams that came.
    pub datagrams: u64,
    /// Answers sent.
    pub answers: u64,
    /// Errors of the system on the way.
    pub errors: u64,
}

/// A receiver that listens.
#[derive(Debug)]
pub struct Listening {
    socket: Udp,
    address: SocketAddr,
    receiver: Receiver<SocketAddr>,
    tally: Tally,
}

/// Datagrams taken before a request to stop is looked at.
const DATAGRAMS_AT_ONCE: usize = 256;

impl Listening {
    /// Listens on an address; with port 0, on a free one. Answers go with a code point.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn bind(local: SocketAddr, dscp: u8) -> Result<Self, Error> {
        let doing = || format!("listen on UDP {local}");
        let socket = Udp::bind(local, dscp).doing(doing)?;
        let address = socket.local().doing(doing)?;
        Ok(Self {
            socket,
            address,
            receiver: Receiver::default(),
            tally: Tally::default(),
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until it is asked to stop, or until the given time by the kernel's monotonic clock.
    ///
    /// # Errors
    /// The system's poll fails.
    pub fn run(mut self, mut stop: StopRequests, until: Option<Instant>) -> Result<Tally, Error> {
        let mut answer = Vec::new();
        loop {
            let now = monotonic();
            if stop.take() > 0 || until.is_some_and(|until| until <= now) {
                return Ok(self.tally);
            }
            // An hour, so that the system's times don't overflow.
            let left = until.map_or(Duration::MAX, |until| until.since(now));
            let patience = left.min(Duration::from_secs(3600));
            wait_to_read(&[stop.as_fd(), self.socket.as_fd()], patience)
                .doing(|| "wait for datagrams")?;
            for _ in 0..DATAGRAMS_AT_ONCE {
                if !self.take(&mut answer) {
                    break;
                }
            }
        }
    }

    /// Takes one datagram; false if there is none.
    fn take(&mut self, answer: &mut Vec<u8>) -> bool {
        answer.clear();
        let peer = match self.socket.receive() {
            Ok(Some(came)) => {
                self.tally.datagrams += 1;
                let peer = came.peer;
                let receiver = &mut self.receiver;
                peer.filter(|peer| receiver.handle(came.at, *peer, came.octets, answer))
            }
            Ok(None) => return false,
            Err(_) => {
                self.tally.errors += 1;
                None
            }
        };
        if let Some(peer) = peer {
            match self.socket.send_to(answer, peer) {
                Ok(()) => self.tally.answers += 1,
                Err(_) => self.tally.errors += 1,
            }
        }
        true
    }
}
