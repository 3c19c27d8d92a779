//! Limits of the waiting packets of a class.

use super::config::QueueConfig;
use super::{FAIR_PACKETS_LEAST, FAIR_WAIT};
use crate::policy::Class;
use crate::wait::PACKET_OCTETS_MAX;

/// Limits of the waiting packets of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets.
    pub packets: u32,
    /// Octets.
    pub octets: u64,
    /// Senders here fill whatever there is, and wait for it.
    is_elastic: bool,
}

impl Limits {
    /// A flow crosses several links, and repetitions on them take a second round trip. If less
    /// waits than flows take in their own round trip, the line is idle after each loss.
    const TRIPS: u64 = 4;
    /// Flows that limits have room for, where more have more.
    const FLOWS: u64 = 8;
    /// Of a round trip's worth, the part within the memory: 3 s of 10 Mbit/s.
    const TRIPS_OCTETS_MAX: u64 = 4_000_000;

    /// A class's own.
    #[must_use]
    pub fn of(class: &Class) -> Self {
        let is_fair = matches!(class.queue, QueueConfig::Fair(_));
        Self {
            packets: class.packets,
            octets: class.octets.unwrap_or(u64::MAX),
            is_elastic: is_fair && class.age.is_none_or(|age| age >= FAIR_WAIT),
        }
    }

    /// The same before a link that repeats its losses and takes so many octets in a round trip: a
    /// `fair` queue holds some round trips' worth at least. An age below that of elastic traffic is
    /// the useful life of a packet, and then limits stay.
    #[must_use]
    pub fn over(self, trip_octets: u64) -> Self {
        let packets = u64::from(self.packets);
        let own = self.octets.min(packets * PACKET_OCTETS_MAX).max(1);
        let least = trip_octets.saturating_mul(Self::TRIPS);
        let least = least.min(Self::TRIPS_OCTETS_MAX);
        if !self.is_elastic || least <= own {
            return self;
        }
        let packets = packets.saturating_mul(least) / own;
        Self {
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            octets: self.octets.max(least),
            ..self
        }
    }

    /// The same among so many flows: a `fair` queue holds for each enough later packets to report a
    /// loss to its sender. One with fewer waits for a timeout, and at the end the line waits for
    /// it. A class whose own limits are below that for [`Self::FLOWS`] is meant to be so short.
    pub(super) fn among(self, flows: usize, mtu_octets: u32) -> Self {
        let usual = Self::FLOWS * FAIR_PACKETS_LEAST;
        let is_short = u64::from(self.packets) < usual
            || self.octets < usual.saturating_mul(mtu_octets.into());
        if !self.is_elastic || is_short {
            return self;
        }
        let packets = u64::try_from(flows).map_or(0, |flows| flows * FAIR_PACKETS_LEAST);
        let octets = packets.saturating_mul(mtu_octets.into());
        Self {
            packets: u32::try_from(packets).map_or(self.packets, |least| self.packets.max(least)),
            octets: self.octets.max(octets.min(Self::TRIPS_OCTETS_MAX)),
            ..self
        }
    }

    /// The most that they become before any link.
    pub(super) fn most(self) -> Self {
        self.over(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClassConfig;
    use crate::{Policy, PolicyConfig};
    use strait_core::Duration;
    use strait_core::units::{Octets, Time};

    fn limits(queue: &str, age_s: u64, octets: Option<u64>) -> Limits {
        let class = ClassConfig {
            packets: Some(200),
            octets: octets.map(Octets),
            age: Some(Time(Duration::from_secs(age_s))),
            queue: toml::from_str(&alloc::format!("kind = \"{queue}\"")).unwrap(),
            ..ClassConfig::new("data")
        };
        let config = PolicyConfig {
            classes: alloc::vec![class],
            default: Some("data".into()),
            ..PolicyConfig::default()
        };
        Limits::of(&Policy::compile(&config).unwrap().classes()[0])
    }

    #[test]
    fn a_fair_queue_holds_four_round_trips_at_least() {
        let own = limits("fair", 60, Some(96_000));
        assert_eq!(own.over(24_000), own);
        let more = own.over(24_001);
        assert_eq!((more.packets, more.octets), (200, 96_004));
        let long = own.over(140_000);
        assert_eq!((long.packets, long.octets), (1166, 560_000));
        assert_eq!(own.over(u64::MAX).octets, Limits::TRIPS_OCTETS_MAX);
        // Of the longest packets, without a limit of its own.
        let unlimited = limits("fair", 60, None);
        assert_eq!(unlimited.over(75_000), unlimited);
        assert_eq!(unlimited.over(150_000).packets, 400);
        assert_eq!(unlimited.over(150_000).octets, u64::MAX);
    }

    #[test]
    fn a_fair_queue_holds_eight_packets_a_flow() {
        let own = limits("fair", 60, Some(96_000));
        assert_eq!(own.among(8, 1500), own);
        let more = own.among(9, 1500);
        assert_eq!((more.packets, more.octets), (200, 108_000));
        let many = own.among(256, 1500);
        assert_eq!((many.packets, many.octets), (2048, 3_072_000));
        // A class that has room for less than eight such flows keeps its limits.
        assert_eq!(own.among(256, 1501), own);
        assert_eq!(limits("fair", 60, None).among(256, 9000).packets, 2048);
        for other in [
            limits("fair", 60, Some(95_999)),
            limits("fair", 29, Some(96_000)),
            limits("fifo", 60, Some(96_000)),
        ] {
            assert_eq!(other.among(256, 1500), other);
        }
    }

    #[test]
    fn what_is_of_use_for_less_and_other_queues_keep_theirs() {
        for own in [
            limits("fair", 29, Some(32_000)),
            limits("fifo", 60, Some(96_000)),
        ] {
            assert_eq!(own.over(140_000), own);
        }
        assert_ne!(
            limits("fair", 30, Some(32_000)).over(140_000).octets,
            32_000
        );
    }
}
