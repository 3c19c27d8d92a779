//! Packet pairs and trains: what rate a path has left, told by two hosts alone.
//!
//! Datagrams that leave back to back come out of the narrowest link one after the other, so far
//! apart as it needs for one of them, with all that goes before it or between. The separation
//! grows with the size of the datagrams, and the line through many of them gives the rate.
//! [`Prober`] and [`Receiver`] are machines without sockets or clocks: `strait measure pair` gives
//! them real ones, a `pair` traffic of a scenario those of a simulated host.
//!
//! * The receiver tells when each datagram of a group came, by its own clock; only differences are
//!   used, so clocks need not agree.
//! * One group at a time is under way. Pauses between groups are exponentially distributed
//!   (RFC 2330 section 11.1.1), so that periodic cross traffic is met at all its phases; sizes come
//!   in an order by chance in each round, so that a change over time isn't taken for one of size.
//! * The line is a regression by Huber's M-estimator: what lies further off than 1.345 times the
//!   robust standard deviation counts less the further off it is. A burst between two datagrams
//!   bends it little, where a least squares line, shown beside, follows. Unlike a median of
//!   separations it has no bias against periodic packets that fall between some pairs and not
//!   others.
//! * Intervals are 95 %, by the sandwich estimator: the spread may differ with size.

mod fit;
mod prober;
mod receiver;
mod summary;
mod wire;

use std::net::SocketAddr;

use strait_core::Duration;
use strait_core::chance::Stream;

pub use self::fit::{Estimate, Fit};
pub use self::prober::{PairRecord, Prober};
pub use self::receiver::Receiver;
pub use self::summary::{PairSummary, figure};
pub use self::wire::{Datagram, Garbled, HEAD_OCTETS, Head, PACKETS_MAX, Report};

/// Datagrams that leave back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Octets of each as an IP packet.
    pub octets: u32,
    /// How many; two make a pair.
    pub packets: u8,
}

/// Which groups to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairCampaign {
    /// Sizes of the pairs, in octets of the IP packet.
    pub sizes: Vec<u32>,
    /// Pairs of each size.
    pub count: u32,
    /// Datagrams of the largest size in a train.
    pub train: u8,
    /// Trains.
    pub trains: u32,
    /// Mean pause between two groups.
    pub pause: Duration,
    /// How long an answer may take, until the path is known better.
    pub timeout: Duration,
    /// Seed of pauses, order and content.
    pub seed: u64,
}

impl Default for PairCampaign {
    fn default() -> Self {
        Self {
            sizes: Self::SIZES.into(),
            count: 10,
            train: 8,
            trains: 0,
            // Longer than the period of a call.
            pause: Duration::from_millis(500),
            // Two packets at 300 bit/s, and a long way.
            timeout: Duration::from_secs(120),
            seed: 1,
        }
    }
}

impl PairCampaign {
    /// The sizes that are sent if none are said: those of the white paper on the network adapter.
    pub const SIZES: [u32; 11] = [60, 80, 100, 150, 200, 400, 600, 800, 1000, 1200, 1400];
    /// The smallest packet that has room for the head, over IPv6.
    pub const OCTETS_MIN: u32 = 60;
    /// The largest packet; larger ones would be fragmented nearly everywhere.
    pub const OCTETS_MAX: u32 = 9000;
    /// Groups of one campaign: its records and the regression over all of them stay small.
    pub const GROUPS_MAX: usize = 4096;

    /// Whether all numbers are inside their bounds; what they are if not.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let sizes = Self::OCTETS_MIN..=Self::OCTETS_MAX;
        let groups = (self.sizes.len() as u64)
            .saturating_mul(u64::from(self.count))
            .saturating_add(u64::from(self.trains));
        if self.sizes.is_empty() || !self.sizes.iter().all(|octets| sizes.contains(octets)) {
            return Some(("sizes", "at least one, each between 60 B and 9000 B"));
        }
        if !(2..=PACKETS_MAX).contains(&self.train) {
            return Some(("train", "between 2 and 64"));
        }
        if groups == 0 || groups > Self::GROUPS_MAX as u64 {
            return Some((
                "count",
                "so that there are 1 to 4096 pairs and trains altogether",
            ));
        }
        if self.timeout < Duration::from_millis(10) {
            return Some(("timeout", "at least 10 ms"));
        }
        None
    }

    /// The groups in the order in which they go: rounds of one pair of each size, shuffled, with
    /// the trains spread over the rounds.
    pub fn groups(&self) -> Vec<Group> {
        let mut chance = Stream::new(self.seed, "pair.order");
        let largest = self.sizes.iter().copied().max().unwrap_or(Self::OCTETS_MIN);
        let rounds = u64::from(self.count).max(1);
        let mut groups = Vec::new();
        for round in 0..rounds {
            let first = groups.len();
            if self.count > 0 {
                groups.extend(self.sizes.iter().map(|octets| Group {
                    octets: *octets,
                    packets: 2,
                }));
            }
            let by = |round: u64| round * u64::from(self.trains) / rounds;
            groups.extend((by(round)..by(round + 1)).map(|_| Group {
                octets: largest,
                packets: self.train,
            }));
            for left in (first + 1..groups.len()).rev() {
                let other = first + chance.below((left - first + 1) as u64) as usize;
                groups.swap(left, other);
            }
        }
        groups
    }
}

/// Octets of IP and UDP headers on the way to an address.
pub const fn header_octets(to: SocketAddr) -> u32 {
    match to {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}

#[cfg(test)]
mod tests;
