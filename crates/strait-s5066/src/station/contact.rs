//! Contact with one peer: whether it answers questions, and when its turn is.

use strait_core::{Duration, Instant};

use crate::rate::MET_MAX;

/// Others go before a peer that isn't there for the time that an answer takes, doubled so often.
const WAY_DOUBLED_MAX: u32 = 3;

/// Where a question to a peer stands, for which there is time until the next transmission ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Question {
    /// Nothing was asked.
    #[default]
    None,
    /// The peer acknowledged this station's data nevertheless.
    Told,
    /// This station's last transmission requires an answer.
    Asked,
    /// The peer has answered since.
    Answered,
}

impl Question {
    /// Whether an answer is waited for, or has come that was.
    pub(super) const fn was_asked(self) -> bool {
        matches!(self, Self::Asked | Self::Answered)
    }

    /// Whether the peer reported its receptions.
    pub(super) const fn was_answered(self) -> bool {
        matches!(self, Self::Told | Self::Answered)
    }

    const fn of(asked: bool, answered: bool) -> Self {
        match (asked, answered) {
            (false, false) => Self::None,
            (false, true) => Self::Told,
            (true, false) => Self::Asked,
            (true, true) => Self::Answered,
        }
    }
}

/// Whether a peer is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Presence {
    /// It was heard, or hasn't been asked yet.
    #[default]
    There,
    /// Its link, or calls to it, were given up, and it wasn't heard since.
    Silent,
}

/// The evidence of a peer's presence.
#[derive(Debug, Default)]
pub(super) struct Contact {
    question: Question,
    presence: Presence,
    /// Turns without an answer, and when the first of them was missed.
    unanswered: u32,
    missed_at: Instant,
    /// Those of them since it used the link last in which it could have answered.
    unheard: u32,
    /// It didn't answer, and others go before it until then.
    rests_until: Option<Instant>,
    /// When the last turn for it began that was more than a brief answer.
    turn_at: Instant,
}

impl Contact {
    /// Something left for it that `asks` for an answer, or doesn't.
    pub(super) fn say(&mut self, asks: bool) {
        self.question = Question::of(asks || self.question.was_asked(), false);
    }

    /// It reported its receptions.
    pub(super) fn hear_answer(&mut self) {
        self.question = Question::of(self.question.was_asked(), true);
    }

    /// The time for its answer is over; whether one was waited for.
    pub(super) fn end_waiting(&mut self) -> bool {
        let before = self.question;
        self.question = Question::of(false, before.was_answered());
        before.was_asked()
    }

    /// A transmission of others is over, and with it the time for an answer.
    pub(super) fn take_question(&mut self) -> Question {
        core::mem::take(&mut self.question)
    }

    /// Whether an answer is waited for.
    pub(super) const fn is_asked(&self) -> bool {
        self.question.was_asked()
    }

    /// It addressed this station.
    pub(super) const fn hear(&mut self) {
        (self.presence, self.rests_until) = (Presence::There, None);
    }

    /// It uses the link.
    pub(super) const fn hear_use(&mut self) {
        self.unheard = 0;
    }

    /// It is in contact: turns without an answer are counted anew.
    pub(super) const fn note(&mut self) {
        (self.unanswered, self.unheard) = (0, 0);
    }

    /// A turn wasn't answered. It is `kept` from that where another began first: it listens, and
    /// lets others end. Gives the number of turns in a row.
    pub(super) fn miss(&mut self, now: Instant, kept: bool) -> u32 {
        if self.unanswered == 0 {
            self.missed_at = now;
        }
        self.unanswered += 1;
        self.unheard += u32::from(!kept);
        self.unanswered
    }

    /// Its link, or calls to it, are given up.
    pub(super) const fn give_up(&mut self) {
        self.presence = Presence::Silent;
    }

    /// How long none has been answered.
    pub(super) fn missed_for(&self, now: Instant) -> Duration {
        match self.unanswered {
            0 => Duration::ZERO,
            _ => now.since(self.missed_at),
        }
    }

    /// Turns without an answer.
    pub(super) const fn unanswered(&self) -> u32 {
        self.unanswered
    }

    #[cfg(test)]
    pub(super) const fn unheard(&self) -> u32 {
        self.unheard
    }

    /// Whether its link, or calls to it, were given up, and it wasn't heard since.
    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.presence, Presence::Silent)
    }

    /// Whether so many turns without an answer are enough to consider its link lost. A peer that
    /// uses the link meanwhile has it, and counts its own turns; one that never answers is given up
    /// nevertheless.
    pub(super) const fn is_lost(&self, unanswered_max: u32) -> bool {
        self.unheard >= unanswered_max || self.unanswered >= unanswered_max.saturating_mul(2)
    }

    /// Whether it isn't there, as far as is known: a peer with a link may have collided a few times
    /// in a row, and this shows how crowded the air is.
    pub(super) const fn is_absent(&self, linked: bool) -> bool {
        let met = linked && self.unanswered <= MET_MAX;
        self.unanswered > 0 && !met || self.is_silent()
    }

    /// When others go before it, if it isn't there: it had a turn not long ago.
    pub(super) fn gives_way_until(&self, answer_time: Duration) -> Instant {
        self.turn_at + answer_time * (1 << self.unanswered.min(WAY_DOUBLED_MAX))
    }

    /// A turn for it begins that is more than a brief answer.
    pub(super) const fn begin_turn(&mut self, now: Instant) {
        self.turn_at = now;
    }

    /// When that was.
    pub(super) const fn turn_at(&self) -> Instant {
        self.turn_at
    }

    /// Until when others go before it, as it didn't answer.
    pub(super) const fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// Others go before it until then.
    pub(super) const fn rest(&mut self, until: Option<Instant>) {
        self.rests_until = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each state of a question by each event that may befall it.
    #[test]
    fn a_question_is_asked_answered_and_over() {
        use Question::{Answered, Asked, None, Told};
        type Event = fn(&mut Contact);
        let say: Event = |it| it.say(false);
        let ask: Event = |it| it.say(true);
        let answer: Event = Contact::hear_answer;
        let wait: Event = |it| assert_eq!(it.is_asked(), it.end_waiting());
        let end: Event = |it| {
            let question = it.question;
            assert_eq!(it.take_question(), question);
        };
        for (before, after) in [
            (None, [None, Asked, Told, None, None]),
            (Told, [None, Asked, Told, Told, None]),
            (Asked, [Asked, Asked, Answered, None, None]),
            (Answered, [Asked, Asked, Answered, Told, None]),
        ] {
            for (event, after) in [say, ask, answer, wait, end].into_iter().zip(after) {
                let mut contact = Contact {
                    question: before,
                    ..Contact::default()
                };
                event(&mut contact);
                assert_eq!(contact.question, after, "from {before:?}");
            }
        }
    }

    /// Whether a peer counts as absent, by what befell it, without a link and with one.
    #[test]
    fn a_peer_is_absent_once_it_is_silent_and_there_once_it_speaks() {
        let missed = |times: u32| {
            let mut contact = Contact::default();
            let turns = (0..times)
                .map(|_| contact.miss(Instant::ZERO, false))
                .last();
            assert_eq!(turns.unwrap_or(0), times);
            contact
        };
        for (times, alone, linked) in [(0, false, false), (1, true, false), (2, true, false)] {
            let contact = missed(times);
            let absent = [false, true].map(|linked| contact.is_absent(linked));
            assert_eq!(absent, [alone, linked], "{times}");
        }
        let mut contact = missed(MET_MAX + 1);
        assert!(contact.is_absent(true));
        contact.note();
        assert!(!contact.is_absent(false));
        contact.give_up();
        assert!(contact.is_absent(true));
        // That it is in contact doesn't say that it spoke.
        contact.note();
        assert!(contact.is_absent(true));
        contact.rest(Some(Instant::from_secs(1)));
        contact.hear();
        assert!(!contact.is_absent(true) && contact.rests_until().is_none());
    }

    #[test]
    fn a_link_is_lost_after_so_many_turns_or_twice_as_many_if_it_is_used() {
        let mut contact = Contact::default();
        for turn in 1..=5 {
            assert_eq!(contact.miss(Instant::ZERO, false), turn);
        }
        assert!(!contact.is_lost(6));
        contact.miss(Instant::ZERO, false);
        assert!(contact.is_lost(6));
        contact.hear_use();
        assert_eq!(
            (0..5).map(|_| contact.miss(Instant::ZERO, true)).last(),
            Some(11)
        );
        assert!(!contact.is_lost(6));
        contact.miss(Instant::ZERO, true);
        assert!(contact.is_lost(6), "it never answered");
    }

    #[test]
    fn others_go_before_who_is_absent_the_longer_the_more_often_it_kept_silent() {
        let second = Duration::from_secs(1);
        let mut contact = Contact::default();
        contact.begin_turn(Instant::from_secs(10));
        let ends = [1, 2, 3, 4].map(|_| {
            contact.miss(Instant::ZERO, false);
            contact.gives_way_until(second)
        });
        assert_eq!(ends, [12, 14, 18, 18].map(Instant::from_secs));
    }
}
