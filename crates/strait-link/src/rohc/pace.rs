//! When a context's content is said whole: at its start, at changes, when the other end asks, and
//! from time to time.

use super::Settings;

/// What the next packet has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// Everything: IR.
    Whole,
    /// Everything that changes: IR-DYN.
    Dynamic,
    /// What the other end can't tell by itself.
    Changes,
}

/// The pace at which one context is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Packets that say a change.
    pub(super) repeats: u8,
    whole_left: u8,
    dynamic_left: u8,
    /// The sequence number of the first packet that said what is being repeated.
    since: u32,
    /// Packets since one said everything, and since one said everything that changes, or since the
    /// other end has answered: as long as it does, it asks for what it misses.
    after_whole: u32,
    after_dynamic: u32,
    /// The other end has answered: it asks if it misses anything.
    confirmed: bool,
    /// How much oftener everything is said while it hasn't.
    hurry: u32,
}

impl Pace {
    /// The pace of a context that the other end knows nothing of, from the packet `sequence` on.
    pub(super) const fn new(repeats: u8, sequence: u32) -> Self {
        Self {
            repeats,
            whole_left: repeats,
            dynamic_left: 0,
            since: sequence,
            after_whole: 0,
            after_dynamic: 0,
            confirmed: false,
            hurry: 1,
        }
    }

    /// Says what changes from now on in `repeats` packets.
    pub(super) const fn repeating(self, repeats: u8) -> Self {
        Self { repeats, ..self }
    }

    /// Says everything `hurry` times as often while nobody has answered.
    pub(super) const fn hurried(self, hurry: u32) -> Self {
        Self { hurry, ..self }
    }

    /// Says everything again from the packet `next` on, as after the other end has lost all.
    pub(super) const fn begin_again(&mut self, next: u32) {
        self.whole_left = self.repeats;
        self.since = next;
    }

    /// Says everything once more, for whoever can't ask.
    pub(super) const fn remind(&mut self) {
        if self.whole_left == 0 {
            self.whole_left = 1;
        }
    }

    /// Says all that changes once more, if the other end has ever answered: it does to that.
    pub(super) const fn ask(&mut self) {
        if self.confirmed && self.dynamic_left == 0 {
            self.dynamic_left = 1;
        }
    }

    /// The last packet said everything.
    pub(super) const fn has_said_whole(&self) -> bool {
        self.after_whole == 0
    }

    /// Says what changes again from the packet `next` on.
    pub(super) const fn repeat_dynamic(&mut self, next: u32) {
        self.dynamic_left = self.repeats;
        self.since = next;
    }

    /// The other end lacks what changes: says it again from the packet `next` on. If it has never
    /// answered to this context, what it has under that number may be another's, so everything.
    pub(super) const fn answer_nack(&mut self, next: u32) {
        if self.confirmed {
            self.repeat_dynamic(next);
        } else {
            self.begin_again(next);
        }
    }

    /// What is being said from the packet `next` on isn't to be taken for said before.
    pub(super) const fn say_since(&mut self, next: u32) {
        self.since = next;
    }

    /// The other end has taken in the packet `sequence`; says whether that ends the repeating.
    pub(super) const fn confirm(&mut self, sequence: u32) -> bool {
        self.confirmed = true;
        self.after_whole = 0;
        self.after_dynamic = 0;
        if (sequence.wrapping_sub(self.since) as i16) < 0 {
            return false;
        }
        self.whole_left = 0;
        self.dynamic_left = 0;
        true
    }

    /// What the next packet has to say; takes it for said.
    pub(super) const fn advance(&mut self, settings: &Settings) -> Say {
        let (rarer, oftener) = if self.confirmed {
            (Settings::CONFIRMED_RARER, 1)
        } else {
            (1, self.hurry)
        };
        if self.whole_left == 0 {
            if self.after_whole >= settings.refresh_whole.saturating_mul(rarer) / oftener {
                self.whole_left = 1;
                // Nothing has come back for that long: there may be no way back any more.
                self.confirmed = false;
            } else if self.dynamic_left == 0
                && self.after_dynamic >= settings.refresh_dynamic.saturating_mul(rarer) / oftener
            {
                self.dynamic_left = 1;
            }
        }
        self.after_whole += 1;
        self.after_dynamic += 1;
        if self.whole_left > 0 {
            self.whole_left -= 1;
            self.after_whole = 0;
            self.after_dynamic = 0;
            Say::Whole
        } else if self.dynamic_left > 0 {
            self.dynamic_left -= 1;
            self.after_dynamic = 0;
            Say::Dynamic
        } else {
            Say::Changes
        }
    }

    /// The packet `sequence` says all that changes after all, as compressed headers can't say what
    /// it has to.
    pub(super) const fn fall_back(&mut self, sequence: u32) {
        self.dynamic_left = self.repeats - 1;
        self.after_dynamic = 0;
        self.since = sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rohc::Cids;

    #[test]
    fn everything_is_said_repeatedly_and_then_rarely() {
        let settings = Settings {
            refresh_whole: 100,
            refresh_dynamic: 30,
            ..Settings::new(Cids::Small(15))
        };
        let mut pace = Pace::new(3, 7);
        let mut said: [u32; 3] = [0; 3];
        for packet in 0..300 {
            let say = pace.advance(&settings);
            assert!(packet >= 3 || say == Say::Whole);
            said[say as usize] += 1;
        }
        assert_eq!(said[Say::Whole as usize], 3 + 2);
        assert_eq!(said[Say::Dynamic as usize], 3 + 3 + 3);
        assert!(pace.confirm(8));
        let rare = (0..399).filter(|_| pace.advance(&settings) == Say::Whole);
        assert!(rare.count() <= 1);
    }

    #[test]
    fn a_reminder_is_one_packet() {
        let settings = Settings::new(Cids::Small(15));
        let mut pace = Pace::new(2, 0);
        pace.remind();
        let mut said = || (pace.advance(&settings), pace.has_said_whole());
        assert_eq!(
            [said(), said(), said()],
            [
                (Say::Whole, true),
                (Say::Whole, true),
                (Say::Changes, false)
            ]
        );
        pace.remind();
        assert_eq!(pace.advance(&settings), Say::Whole);
        assert_eq!(pace.advance(&settings), Say::Changes);
    }

    #[test]
    fn an_acknowledgement_of_what_came_before_ends_nothing() {
        let settings = Settings::new(Cids::Small(15));
        let mut pace = Pace::new(4, 100);
        assert!(!pace.confirm(99));
        assert_eq!(pace.advance(&settings), Say::Whole);
        assert!(pace.confirm(100));
        assert_eq!(pace.advance(&settings), Say::Changes);
        pace.repeat_dynamic(102);
        assert!(!pace.confirm(101));
        assert_eq!(pace.advance(&settings), Say::Dynamic);
    }
}
