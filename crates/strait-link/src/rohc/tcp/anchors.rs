//! Identifications by few bits, between anchors.
//!
//! Those that a host counts for all its flows together run ahead in each of them. Few low bits then
//! tell one only to whoever has lost few packets, and no transport checksum finds out who has lost
//! more. So a compressor that says them to those alone says an *anchor* from time to time: a common
//! header that says all which no transport checksum covers, though none of it needs to be said. A
//! decompressor that has read one believes few bits only near an identification that it was told.

/// Widths of low bits that are few.
pub(super) const FEW_BITS: u8 = 4;
/// Any of so many packets is enough to read few bits between anchors.
pub(super) const REACH: u16 = 3;
/// The same for more bits.
const REACH_FURTHER: u16 = 8;
/// Packets from one anchor to the next.
const EVERY: u8 = 12;
/// Packets that are anchors at first: nobody may miss that there are any.
const FIRST: u8 = 8;
/// Packets behind an anchor within which there are more of them: seven in a row may be lost.
const MEMORY: u16 = 128;

/// Octets of an anchor's base header.
const OCTETS: usize = super::common::OCTETS + 3;

/// How identifications that count are said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// By bits that any packet of the window is enough to read.
    #[default]
    Bits,
    /// Between anchors.
    Anchored,
    /// Whole, as those without order.
    Whole,
}

/// Which way is the shortest, for a compressor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thrift {
    /// Octets that each way would have cost more than the shortest.
    spent: [usize; 3],
    way: Way,
    packets: u8,
    /// Packets that are anchors yet, and packets since the last.
    first_left: u8,
    since: u8,
}

/// Octets that have to be saved for another way: what it costs to change.
const THRIFT: usize = 48;

impl Thrift {
    /// Takes in what a packet's header has by bits, by bits between anchors, and with the
    /// identification whole.
    pub(super) fn watch(&mut self, mut octets: [usize; 3]) {
        self.packets = (self.packets + 1) % EVERY;
        if self.packets == 0 {
            octets[Way::Anchored as usize] = OCTETS;
        }
        for (spent, octets) in self.spent.iter_mut().zip(octets) {
            *spent += octets;
        }
        let least = self.spent.into_iter().min().unwrap_or(0);
        for spent in &mut self.spent {
            *spent = THRIFT.min(*spent - least);
        }
        if self.spent[self.way as usize] == THRIFT {
            let ways = [Way::Bits, Way::Anchored, Way::Whole];
            let shortest = |way: &Way| self.spent[*way as usize] == 0;
            self.way = ways.into_iter().find(shortest).unwrap_or_default();
            self.first_left = FIRST;
        }
    }

    pub(super) const fn way(&self) -> Way {
        self.way
    }

    /// Of how many packets before any has to be enough to read few bits.
    pub(super) const fn reach(&self) -> u16 {
        match self.way {
            Way::Anchored if self.first_left == 0 => REACH,
            _ => u16::MAX,
        }
    }

    /// Whether the next packet is an anchor.
    pub(super) fn advance(&mut self) -> bool {
        self.since += 1;
        let first = self.first_left > 0;
        let anchor = self.way == Way::Anchored && (first || self.since >= EVERY);
        if anchor || self.way != Way::Anchored {
            self.first_left = self.first_left.saturating_sub(1);
            self.since = 0;
        }
        anchor
    }
}

/// How far a decompressor is from anchors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchorage {
    /// Packets since an anchor, as far as they matter.
    since: u16,
    /// Packets since one whose identification was told.
    adrift: u16,
}

impl Default for Anchorage {
    fn default() -> Self {
        Self {
            since: MEMORY,
            adrift: 0,
        }
    }
}

impl Anchorage {
    /// The same where a chain tells the identification.
    pub(super) const fn told(self) -> Self {
        Self { adrift: 0, ..self }
    }

    /// Whether `width` bits tell an identification `step` packets on.
    pub(super) const fn tells(&self, width: u8, step: u16) -> bool {
        let far = self.adrift.saturating_add(step);
        match width {
            0 => true,
            _ if self.since >= MEMORY && self.adrift == 0 => true,
            1..=FEW_BITS => far <= REACH,
            _ => far <= REACH_FURTHER,
        }
    }

    /// Goes `step` packets on, to one that is an anchor or not, and whose identification was told
    /// or not.
    pub(super) fn go_on(&mut self, step: u16, anchor: bool, told: bool) {
        self.since = match anchor {
            true => 0,
            false => MEMORY.min(self.since.saturating_add(step)),
        };
        self.adrift = match told {
            true => 0,
            false => self.adrift.saturating_add(step),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bits_behind_an_anchor_tell_only_near_what_was_told() {
        let mut anchorage = Anchorage::default();
        assert!(anchorage.tells(3, 16));
        anchorage.go_on(1, true, true);
        for (width, reach) in [(3, REACH), (4, REACH), (5, 8), (8, 8)] {
            assert!(anchorage.tells(width, reach));
            assert!(!anchorage.tells(width, reach + 1));
        }
        anchorage.go_on(2, false, false);
        assert!(anchorage.tells(3, 1));
        assert!(!anchorage.tells(3, 2));
        anchorage.go_on(1, false, true);
        assert!(anchorage.tells(3, REACH));
        assert!(!anchorage.tells(3, REACH + 1));
        assert!(anchorage.tells(0, 16));
    }

    #[test]
    fn anchors_are_forgotten() {
        let mut anchorage = Anchorage::default();
        anchorage.go_on(1, true, true);
        anchorage.go_on(MEMORY - 1, false, true);
        assert!(!anchorage.tells(4, REACH + 1));
        anchorage.go_on(1, false, true);
        assert!(anchorage.tells(4, REACH + 1));
    }

    #[test]
    fn the_shortest_way_is_gone_once_it_has_saved_what_it_costs() {
        let mut thrift = Thrift::default();
        // Two octets a packet, 24 packets.
        for packet in 0..24 {
            assert_eq!(thrift.way(), Way::Bits, "{packet}");
            thrift.watch([6, 6, 4]);
        }
        assert_eq!(thrift.way(), Way::Whole);
        assert!(!thrift.advance());
        // Anchors take 8 octets more once in twelve packets, the others 2 less.
        for _ in 0..100 {
            thrift.watch([6, 2, 4]);
        }
        assert_eq!(thrift.way(), Way::Anchored);
        let anchors: alloc::vec::Vec<bool> = (0..33).map(|_| thrift.advance()).collect();
        let anchor = |&at: &usize| anchors[at];
        let expected = (0..8).chain([19, 31]);
        assert!((0..33).filter(anchor).eq(expected), "{anchors:?}");
    }
}
