//! What must always hold, and what tests need to know.

use strait_core::Duration;

use super::timers::Alarm;
use super::{Endpoint, State};
use crate::receive::Receiver;
use crate::ring::Ring;

impl Endpoint {
    /// Asserts what must always hold, the limits of memory among it.
    pub(crate) fn check(&self) {
        self.board.check(self.agreed.sack);
        if let Some(last) = self.board.queue.back() {
            assert_eq!(
                (self.board.queue[0].seq, last.end),
                (self.tx.una, self.tx.next)
            );
        }
        assert!(self.window.segments > 0);
        self.events.check();
        let most = self.config.send_octets;
        assert!(self.tx.held() <= most);
        assert!(self.tx.ring.octets() <= Ring::octets_max(most));
        // New segments have a limit; those that are cut for a narrower path are no smaller than
        // that allows.
        let segments = most / 16 + 64 + most / Self::SEGMENT_MIN;
        assert!(self.board.queue.len() <= segments);
        self.rx.check();
        let most = Receiver::octets_max(self.rx.capacity_max, self.rx.scale);
        assert!(self.rx.unread() as u64 <= most);
        assert!(self.rx.ring.octets() <= Ring::octets_max(most as usize));
    }

    /// The number behind everything that was sent.
    pub(crate) const fn sent_to(&self) -> u64 {
        self.tx.next
    }

    /// Octets that the application may read.
    pub(crate) const fn unread(&self) -> usize {
        self.rx.unread()
    }

    /// Whether the other end has every octet.
    pub(crate) const fn is_all_acked(&self) -> bool {
        self.tx.una >= self.tx.end
    }

    /// Whether there is nothing to do but to hear from the other end or from the application: an
    /// open connection without a timer, if nothing asks for the other end's life.
    pub(crate) fn only_listens(&self) -> bool {
        let open = matches!(self.state, State::Established | State::CloseWait);
        open && !self.config.keep_alive && self.tx.una == self.stream_end()
    }

    /// For how long the other end may be silent before the connection ends, from when it was last
    /// heard or the application last did something; `None`: for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let profile = &self.profile;
        let (most, give_up) = (profile.rto.max.0, self.give_up());
        // It is given up when a timer runs out after that, of which the first doesn't count.
        let time = |limit: Duration| limit.checked_add(2 * most);
        match self.state {
            State::Closed | State::Listen => None,
            State::SynSent | State::SynReceived => {
                let retries =
                    profile.syn.retries.max(profile.syn.answer_retries) + profile.syn.linear;
                time(give_up.min(most * retries))
            }
            State::TimeWait => Some(profile.time_wait.0),
            State::FinWait2 => Some(profile.fin_wait.0),
            _ if self.tx.una < self.tx.next => match profile.data_retries {
                0 => time(give_up),
                retries => time(give_up.min(most * retries)),
            },
            _ if self.tx.next < self.stream_end() || self.timers.is(Alarm::Persist) => {
                time(give_up)
            }
            _ if self.config.keep_alive => {
                let probes = profile.keep_alive.interval.0 * (profile.keep_alive.probes + 1);
                Some(profile.keep_alive.idle.0 + probes)
            }
            _ => None,
        }
    }
}
