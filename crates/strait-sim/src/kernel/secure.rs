//! TLS of a gateway's connections, by the records of [`strait_hosts::tls`].

use std::collections::VecDeque;

use strait_core::node::Held;
use strait_core::tls::{RECORD_OCTETS_MAX, TlsFault};
use strait_core::{Duration, Instant};
use strait_hosts::tls::Session;
use strait_tcp::TcpEndpoint;

/// Octets read from the endpoint at a time.
const CHUNK_OCTETS: usize = 4096;

pub(super) struct Secure {
    pub(super) session: Session,
    /// How long it may take until both are secured, and until when, once the connection is there.
    pub(super) patience: Duration,
    pub(super) until: Option<Instant>,
    /// Of what waits to be sent, the first so many octets go in the clear.
    clear: usize,
    /// Records that the endpoint hasn't taken.
    wire: Vec<u8>,
    /// Octets that went before it began.
    before: u64,
    /// Octets of the connection so far: in all, and of these clear ones.
    made: u64,
    sealed: u64,
    /// Where each record with clear octets ends, in the same two counts.
    ends: VecDeque<(u64, u64)>,
    /// Clear octets that the other side has acknowledged.
    acked: u64,
    ours_ended: bool,
}

impl Secure {
    /// Behind `given` octets in the clear, of which the last `clear` wait.
    pub(super) const fn new(
        session: Session,
        given: u64,
        clear: usize,
        patience: Duration,
    ) -> Self {
        Self {
            session,
            patience,
            until: None,
            clear,
            wire: Vec::new(),
            before: given,
            made: given,
            sealed: given,
            ends: VecDeque::new(),
            acked: 0,
            ours_ended: false,
        }
    }

    /// Hands over what the endpoint takes of what waits; whether that was all, with its end if that
    /// is `ending`.
    pub(super) fn push(
        &mut self,
        endpoint: &mut dyn TcpEndpoint,
        unsent: &mut Vec<u8>,
        held: Held,
        ending: bool,
    ) -> bool {
        if self.clear > 0 {
            let taken = endpoint.send(&unsent[..self.clear]);
            unsent.drain(..taken);
            self.clear -= taken;
        }
        if self.clear > 0 {
            return false;
        }
        loop {
            let out = self.session.take_out();
            self.made += out.len() as u64;
            self.wire.extend(out);
            let taken = endpoint.send(&self.wire);
            self.wire.drain(..taken);
            if !self.wire.is_empty() || !self.session.is_secured() {
                return false;
            }
            if !unsent.is_empty() {
                self.seal(unsent, held);
            } else if ending && !self.ours_ended {
                self.ours_ended = true;
                self.session.close();
            } else {
                return self.ours_ended;
            }
        }
    }

    /// A record of what waits, as long as the live driver makes them.
    fn seal(&mut self, unsent: &mut Vec<u8>, held: Held) {
        let portion = (held.outbound as usize / 4).clamp(1024, RECORD_OCTETS_MAX);
        let rest = unsent.split_off(portion.min(unsent.len()));
        let content = std::mem::replace(unsent, rest);
        self.session.seal(&content);
        let out = self.session.take_out();
        self.made += out.len() as u64;
        self.sealed += content.len() as u64;
        self.wire.extend(out);
        self.ends.push_back((self.made, self.sealed));
    }

    /// Of `octets` of the connection that the other side has acknowledged, those that were clear.
    pub(super) fn clear_of(&mut self, octets: u64) -> u64 {
        while let Some((_, sealed)) = self.ends.pop_front_if(|(made, _)| *made <= octets) {
            self.acked = sealed;
        }
        // What went before it began counts as it is.
        self.acked.max(octets.min(self.before))
    }

    /// Reads records as long as nothing clear waits in `ahead`, and it takes so many octets.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(
        &mut self,
        endpoint: &mut dyn TcpEndpoint,
        ahead: &mut Vec<u8>,
        room: usize,
    ) -> Result<(), TlsFault> {
        let mut chunk = [0; CHUNK_OCTETS];
        while ahead.is_empty() || ahead.len() < room {
            let octets = endpoint.recv(&mut chunk);
            if octets == 0 {
                break;
            }
            self.take(&chunk[..octets], ahead)?;
        }
        // An end that nobody said is somebody else's, perhaps.
        let cut = endpoint.is_drained() && !self.session.has_ended();
        if cut {
            Err(TlsFault::Truncated)
        } else {
            Ok(())
        }
    }

    /// What the other side hears when something is wrong: behind what it would have heard.
    pub(super) fn last_words(mut self) -> Vec<u8> {
        self.wire.extend(self.session.take_out());
        self.wire
    }

    /// Takes records.
    pub(super) fn take(&mut self, octets: &[u8], ahead: &mut Vec<u8>) -> Result<(), TlsFault> {
        let taken = self.session.take(octets);
        ahead.extend(self.session.take_clear());
        taken
    }
}
