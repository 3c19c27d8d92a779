//! What a station makes of silence: of turns that nobody answered, and of a peer that isn't there.

use strait_core::{Duration, Instant};

use super::{Phase, Station};
use crate::link::State;
use crate::rate::MET_MAX;

/// In a net, the pause behind rows of calls without an answer is so many times as long in the end.
const PAUSES_MAX: u32 = 2;

/// Others go before a peer that isn't there for the time that an answer takes, doubled so often.
const WAY_DOUBLED_MAX: u32 = 3;

impl<T> Station<T> {
    /// Who was to answer and didn't.
    pub(super) fn miss_answers(&mut self, now: Instant) {
        for number in 0..self.peers.len() {
            if core::mem::take(&mut self.peers[number].awaited) {
                self.miss_answer(now, number, false);
                let wait = self.wait_after_silence(now, number);
                self.phase = Phase::Quiet(now + wait);
            }
        }
    }

    /// A turn wasn't answered. A peer is `kept` from that where another began first: it listens,
    /// and lets others end.
    pub(super) fn miss_answer(&mut self, now: Instant, number: usize, kept: bool) {
        let (unanswered_max, silence) = (self.unanswered_max(), self.round());
        let nodes = self.nodes();
        let peer = &mut self.peers[number];
        self.stats.unanswered += 1;
        peer.unanswered += 1;
        peer.unheard += u32::from(!kept);
        peer.expedited.miss_answer();
        let unanswered = peer.unanswered;
        match peer.link.state {
            State::Calling { tries, .. } if tries >= self.settings.calls_max => {
                peer.link.forget();
                (peer.silent, peer.refusals) = (true, 0);
                peer.rows += 1;
                // There, the air is of use to others.
                let times = if nodes > 1 {
                    peer.rows.min(PAUSES_MAX)
                } else {
                    1
                };
                peer.paused_until = Some(now + self.settings.call_pause * times);
                self.stats.links_lost += 1;
            }
            State::Calling { .. } => self.call(number),
            State::Breaking { tries: 3.., .. } => self.forget_link(number),
            State::Breaking { .. } => peer.link.break_again(now, silence),
            State::Made { .. } if peer.is_lost(unanswered_max) => {
                peer.silent = true;
                self.lose_link(number);
            }
            // A call would end what the caller has sent by the link.
            State::Made { .. } if peer.link.asks_caller() => peer.link.ask_again(),
            State::Made { .. } => peer.send.probe(),
            State::Idle => {}
        }
        self.miss_rate(now, number, unanswered);
    }

    /// What a station waits that wasn't answered by a peer. What is to be said to one that isn't
    /// there waits the longer the more often it kept silent; nobody else waits for that.
    pub(super) fn wait_after_silence(&mut self, now: Instant, number: usize) -> Duration {
        let wait = self.wait_with(number);
        if !self.is_absent(number) {
            return wait;
        }
        self.peers[number].rests_until = Some(now + wait);
        self.rest_after_silence()
    }

    /// Whether a peer, as far as is known, isn't there: who has a link may have met others a few
    /// times in a row, and the air is as crowded as that says.
    pub(super) fn is_absent(&self, number: usize) -> bool {
        let peer = &self.peers[number];
        let met = peer.link.is_made() && peer.unanswered <= MET_MAX;
        peer.unanswered > 0 && !met || peer.silent
    }

    /// Whether others go before a peer: it isn't there, and had a turn not long ago.
    pub(super) fn gives_way(&self, number: usize) -> bool {
        let peer = &self.peers[number];
        let times = 1 << peer.unanswered.min(WAY_DOUBLED_MAX);
        self.is_absent(number) && self.now < peer.turn_at + self.answer_time() * times
    }

    /// Lets go on with peers that have rested, with slots in one that is this station's.
    pub(super) fn end_rests(&mut self, now: Instant) {
        for number in 0..self.peers.len() {
            let until = self.peers[number].rests_until.filter(|until| *until <= now);
            let Some(until) = until else { continue };
            let slot = self.slot_from(until);
            let free = self.phase == Phase::Free;
            self.peers[number].rests_until = (free && slot > now).then_some(slot);
        }
    }

    /// Its owner has nothing for a peer: calls that it doesn't answer aren't repeated, and the next
    /// goes on with their row.
    pub fn end_calls(&mut self, number: usize) {
        let Some(peer) = self.peers.get_mut(number) else {
            return;
        };
        let held = peer.send.held() + peer.expedited.held();
        let needed = held > 0 || self.exclusive == Some(number);
        let under_way = peer.awaited || self.on_air.is_some_and(|it| it.peer == number);
        if peer.link.is_calling() && !needed && !under_way {
            peer.link.put_off_calls();
        }
    }
}
