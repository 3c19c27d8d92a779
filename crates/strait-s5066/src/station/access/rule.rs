//! The rules by which stations share the air.

use strait_core::Duration;

/// How stations share the air.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By the end of each transmission: the addressed station begins at once, with whatever it has.
    /// Made for two.
    #[default]
    Turns,
    /// By slots of each station, counted from the end of the last transmission.
    Slots(Slots),
    /// By slots or times that are drawn after each transmission. Made for many.
    Csma(Csma),
}

impl Access {
    /// The slots of stations, if it is these.
    #[must_use]
    pub const fn slots(self) -> Option<Slots> {
        match self {
            Self::Slots(slots) => Some(slots),
            Self::Turns | Self::Csma(_) => None,
        }
    }
}

/// Turns by slots, as in existing stations: a station that owes an answer gives it at once, all
/// else waits for the station's own slot after the end of the last transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The length of a slot.
    pub length: Duration,
    /// This station's number: it begins after so many slots and one.
    pub number: u32,
    /// The shortest transmission.
    pub turn_min: Duration,
    /// Octets that the modem gets ahead of time: data that arrives during a transmission must be
    /// behind them.
    pub committed_octets: usize,
    /// How long received data takes to its recipient, if separate programs deliver it.
    pub delivery: Duration,
}

impl Slots {
    /// From the end of a transmission to the station's slot.
    pub(super) fn wait(self) -> Duration {
        self.length * self.number.saturating_add(1)
    }
}

/// Listen before transmit for a net of many (Annexes J and K of STANAG 5066). The first slot after
/// a transmission is for its answer; then each station with data waits some more slots, and begins
/// if none has by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Csma {
    /// A station's wait.
    pub order: Order,
    /// The length of a slot: from one station's decision to begin to the detection of its power by
    /// all others. It is never shorter than the time of the station's own modem for that, and to
    /// the first octet.
    pub slot: Duration,
    /// Slots among which is drawn when all is well.
    pub slots: u32,
    /// The most of them: their number is doubled by each collision.
    pub slots_max: u32,
    /// Two that answer each other with data let others in after this time.
    pub exchange: Duration,
}

/// A station's wait before it begins, from the end of the answer's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Whole slots, drawn anew each time.
    Chance,
    /// A time, drawn anew each time from as many slots.
    Jitter,
    /// The slots of those whose turn precedes its own: stations have turns by their addresses,
    /// beginning behind the last sender.
    Address,
}

impl Csma {
    /// Slots to draw from, doubled so often.
    pub(super) fn slots_drawn(self, crowding: u32) -> u32 {
        let slots = u64::from(self.slots.max(1)) << crowding.min(31);
        let most = u64::from(self.slots_max.max(1));
        slots.min(most) as u32
    }
}
