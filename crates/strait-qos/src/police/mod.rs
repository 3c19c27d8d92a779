//! Policers: which packets may enter a class, and how the rest is marked or dropped.
//!
//! A policer keeps no packets: it judges each on arrival, so it costs no delay, and a class behind
//! one never queues more than the policer lets through.

pub mod config;

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::units::{BitRate, Octets};
use strait_core::{ClassId, Duration, Instant, Packet};

pub use self::config::PoliceConfig;
use self::config::{Action, When};
use crate::dscp::Dscp;
use crate::policy::Class;

/// A policer's verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colour {
    /// Within the committed burst.
    Green,
    /// Within the excess burst.
    Yellow,
    /// More than that.
    Red,
}

/// Thousand million parts of a bit: the yield of a rate in bit/s in a nanosecond.
type NanoBits = u128;

const fn nano_bits(octets: u64) -> NanoBits {
    octets as u128 * 8_000_000_000
}

/// Tokens that come at a rate up to a limit. The kernel's `act_police` counts them as time; counted
/// in parts of a bit nothing is ever rounded.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate_bit_s: u64,
    most: NanoBits,
    level: NanoBits,
    at: Instant,
}

impl Bucket {
    const fn new(rate: BitRate, burst: Octets) -> Self {
        let most = nano_bits(burst.0);
        Self {
            rate_bit_s: rate.0,
            most,
            level: most,
            at: Instant::ZERO,
        }
    }

    /// Adds the tokens since the last time, and returns those that didn't fit.
    fn fill(&mut self, now: Instant) -> NanoBits {
        let elapsed = now.since(self.at);
        self.at = self.at.max(now);
        let level = self.level + elapsed.as_nanos() * u128::from(self.rate_bit_s);
        self.level = level.min(self.most);
        level - self.level
    }

    const fn holds(&self, cost: NanoBits) -> bool {
        cost <= self.level
    }

    const fn take(&mut self, cost: NanoBits) {
        self.level = self.level.saturating_sub(cost);
    }
}

/// How packets are measured.
#[derive(Clone, Debug)]
enum Meter {
    /// One rate, or two that both must hold; excess packets are charged to neither.
    Single {
        bucket: Bucket,
        peak: Option<Bucket>,
    },
    /// RFC 2697: the overflow of the first bucket fills the second.
    SingleRate { committed: Bucket, excess: Bucket },
    /// RFC 2698.
    TwoRate { committed: Bucket, peak: Bucket },
}

impl Meter {
    fn new(config: &PoliceConfig) -> Self {
        match config {
            PoliceConfig::Bucket(config) => Self::Single {
                bucket: Bucket::new(config.rate, config.burst_or_default()),
                peak: config
                    .peak_rate
                    .map(|rate| Bucket::new(rate, config.peak_burst_or_default())),
            },
            PoliceConfig::SrTcm(config) => Self::SingleRate {
                committed: Bucket::new(config.rate, config.burst),
                excess: Bucket::new(config.rate, config.excess_burst),
            },
            PoliceConfig::TrTcm(config) => Self::TwoRate {
                committed: Bucket::new(config.rate, config.burst),
                peak: Bucket::new(config.peak_rate, config.peak_burst),
            },
        }
    }

    /// The colour of a packet of so many octets that arrives with the colour `before`.
    fn measure(&mut self, now: Instant, octets: u64, before: Colour) -> Colour {
        let cost = nano_bits(octets);
        match self {
            Self::Single { bucket, peak } => {
                bucket.fill(now);
                let peak_holds = peak.as_mut().is_none_or(|peak| {
                    peak.fill(now);
                    peak.holds(cost)
                });
                if !peak_holds || !bucket.holds(cost) {
                    return Colour::Red;
                }
                bucket.take(cost);
                if let Some(peak) = peak {
                    peak.take(cost);
                }
                Colour::Green
            }
            Self::SingleRate { committed, excess } => {
                let overflow = committed.fill(now);
                excess.level = (excess.level + overflow).min(excess.most);
                if before == Colour::Green && committed.holds(cost) {
                    committed.take(cost);
                    Colour::Green
                } else if before <= Colour::Yellow && excess.holds(cost) {
                    excess.take(cost);
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            Self::TwoRate { committed, peak } => {
                committed.fill(now);
                peak.fill(now);
                if before == Colour::Red || !peak.holds(cost) {
                    return Colour::Red;
                }
                peak.take(cost);
                if before == Colour::Yellow || !committed.holds(cost) {
                    return Colour::Yellow;
                }
                committed.take(cost);
                Colour::Green
            }
        }
    }
}

/// The treatment of packets of a colour, with other classes found.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Pass,
    Drop,
    Mark(Dscp),
    Class { class: ClassId, mark: Option<u8> },
}

impl Outcome {
    fn new(action: &Action, classes: &[Class]) -> Self {
        match action {
            Action::Pass => Self::Pass,
            Action::Drop => Self::Drop,
            Action::Mark(dscp) => Self::Mark(*dscp),
            Action::Class(name) => {
                let mut numbered = (0..).zip(classes);
                let other = numbered.find(|(_, class)| class.name == *name);
                // A compiled policy has none that isn't there.
                other.map_or(Self::Pass, |(number, other)| Self::Class {
                    class: ClassId(number),
                    mark: other.mark,
                })
            }
        }
    }
}

/// The policer of one class at one port.
#[derive(Clone, Debug)]
struct Policer {
    meter: Meter,
    /// By colour.
    outcomes: [Outcome; 3],
    when: When,
    /// Code points of packets that arrive yellow and red; `None` if colours don't count.
    before: Option<[Vec<Dscp>; 2]>,
}

impl Policer {
    fn new(config: &PoliceConfig, classes: &[Class]) -> Self {
        Self {
            meter: Meter::new(config),
            outcomes: config.actions().map(|action| Outcome::new(action, classes)),
            when: config.when(),
            before: config.colours_before(),
        }
    }

    fn colour_before(&self, packet: &Packet) -> Colour {
        let is = |among: &Vec<Dscp>| among.iter().any(|dscp| dscp.number() == packet.info().dscp);
        match &self.before {
            Some([_, red]) if is(red) => Colour::Red,
            Some([yellow, _]) if is(yellow) => Colour::Yellow,
            _ => Colour::Green,
        }
    }
}

/// The policers of one port's classes; nothing where none has one.
#[derive(Clone, Debug)]
pub struct Policers {
    classes: Box<[Option<Box<Policer>>]>,
}

impl Policers {
    /// Policers for these classes, numbered by their order; their buckets are full.
    #[must_use]
    pub fn new(classes: &[Class]) -> Self {
        let policer = |class: &Class| {
            let config = class.police.as_ref()?;
            Some(Box::new(Policer::new(config, classes)))
        };
        let any = classes.iter().any(|class| class.police.is_some());
        let limited = classes.iter().filter(|_| any);
        Self {
            classes: limited.map(policer).collect(),
        }
    }

    /// Whether the class's policer judges only while packets wait.
    #[must_use]
    pub fn asks_for_congestion(&self, class: ClassId) -> bool {
        let policer = self.classes.get(class.index()).and_then(Option::as_deref);
        policer.is_some_and(|policer| policer.when == When::Congested)
    }

    /// Judges a packet that arrives at the port, and marks it or changes its class by its colour.
    /// `congested` is whether it would have to wait there.
    ///
    /// `None` if nothing judges it; else its colour, and whether it may pass.
    pub fn judge(
        &mut self,
        now: Instant,
        congested: bool,
        packet: &mut Packet,
    ) -> Option<(Colour, bool)> {
        let policer = self.classes.get_mut(packet.class.index())?.as_mut()?;
        if policer.when == When::Congested && !congested {
            return None;
        }
        let before = policer.colour_before(packet);
        let colour = policer.meter.measure(now, packet.octets() as u64, before);
        match policer.outcomes[colour as usize] {
            Outcome::Pass => {}
            Outcome::Drop => return Some((colour, false)),
            Outcome::Mark(dscp) => packet.set_dscp(dscp.number()),
            Outcome::Class { class, mark } => {
                packet.class = class;
                if let Some(mark) = mark {
                    packet.set_dscp(mark);
                }
            }
        }
        Some((colour, true))
    }
}

/// The octets that a rate brings in a time, in whole octets.
fn octets_in(rate: BitRate, time: Duration) -> u64 {
    (u128::from(rate.0) * time.as_nanos() / 8_000_000_000) as u64
}

#[cfg(test)]
#[path = "police_tests.rs"]
mod tests;
