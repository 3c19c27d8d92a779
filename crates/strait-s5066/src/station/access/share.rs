//! How crowded the air is, and which station has it.

use strait_core::Instant;

use super::rule::Csma;
use crate::address::Address;

/// A station's knowledge of how crowded the air is, and of the station on it.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// How often the number of slots, or of rounds of them, is doubled.
    pub(super) crowding: u32,
    /// Whether a D_PDU of the last received transmission was understood; none was received since
    /// this station's own if absent.
    pub(super) understood: Option<bool>,
    /// The station that had the air last, if known: a station that answers doesn't count.
    pub(super) last: Option<Address>,
    /// Sender and receiver of the last transmission, if it was more than data without ARQ, which
    /// has no answer.
    way: Option<(Address, Address)>,
    /// The received transmission began in the slot for an answer to the one before.
    pub(super) answers: bool,
    /// The station that had the air isn't known: so many transmissions weren't understood, each an
    /// answer to the one before.
    unknown: u32,
    /// The peer with which answers alternate, and since when.
    pub(super) exchange: Option<(usize, Instant)>,
    /// By turns: since when each transmission was from or for this station, and the next came at
    /// once.
    pub(super) held: Option<Instant>,
    /// With slots of stations: since when every turn for which no station waited was this
    /// station's.
    pub(super) begun: Option<Instant>,
    /// With slots of stations: that was long, and the slots of all others precede this station's
    /// until its next turn, or this moment.
    pub(super) lets_in: Option<Instant>,
    /// When all know of the end of the last transmission, this station's or another's.
    pub(super) ended: Instant,
}

impl Share {
    /// A D_PDU of the received transmission was understood, data without ARQ if it is `plain`.
    pub(super) fn note(&mut self, from: Address, to: Address, plain: bool) {
        if self.understood.replace(true) != Some(true) {
            let lost_track = self.last.is_none() && self.answers;
            self.note_turn(from, to, plain);
            let unknown = core::mem::take(&mut self.unknown);
            if lost_track && unknown % 2 == 1 && !to.is_group() {
                // It answers the beginning of the exchange, or an answer to an answer to that.
                self.last = Some(to);
            }
        } else if !plain {
            self.way = Some((from, to));
        }
    }

    /// A transmission went from one to another.
    pub(super) fn note_turn(&mut self, from: Address, to: Address, plain: bool) {
        let way = core::mem::replace(&mut self.way, (!plain).then_some((from, to)));
        if way != Some((to, from)) || self.last.is_none() {
            self.last = Some(from);
        }
    }

    /// A transmission of this station, `own`, is over that began `since`.
    pub(super) fn note_own(&mut self, own: Address, since: Instant) {
        if self.last == Some(own) {
            self.begun.get_or_insert(since);
            self.lets_in = None;
        }
    }

    /// A transmission that wasn't understood at all is over. Two stations that are nearer to each
    /// other than to this one may be too fast for it; if it was an answer, the same station has the
    /// air.
    pub(super) fn note_garbled(&mut self) {
        match self.way {
            Some((from, to)) if self.answers => self.way = Some((to, from)),
            _ => {
                let before = if self.answers { self.unknown } else { 0 };
                self.lose_track();
                self.unknown = before + 1;
            }
        }
    }

    /// The last transmission isn't known.
    pub(super) const fn lose_track(&mut self) {
        (self.last, self.way, self.unknown) = (None, None, 0);
    }

    /// The next attempt is among twice as many slots.
    pub(super) fn crowd(&mut self, csma: Csma) {
        self.crowding += u32::from(csma.slots_drawn(self.crowding) < csma.slots_max);
    }
}
