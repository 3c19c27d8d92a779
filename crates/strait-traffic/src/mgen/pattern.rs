//! When the messages of a flow are sent, and how long they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strait_core::chance::Stream;

use super::capture::Cloned;

/// Messages a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// None at all.
    None,
    /// So many.
    PerSecond(f64),
    /// As many as the transport takes.
    Unlimited,
}

impl Rate {
    /// The most messages a second: gaps are whole nanoseconds, and no machine sends faster.
    pub const MAX: f64 = 1e7;

    fn gap_ns(self) -> Option<f64> {
        match self {
            Self::PerSecond(rate) => Some(1e9 / rate),
            Self::None | Self::Unlimited => None,
        }
    }
}

/// A pattern as a script has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Constant gaps.
    Periodic {
        /// How often.
        rate: Rate,
        /// Octets of a message.
        octets: u64,
    },
    /// Exponentially distributed gaps.
    Poisson {
        /// How often, on average.
        rate: Rate,
        /// Octets of a message.
        octets: u64,
    },
    /// Constant gaps T, and each message moved by up to a part of T.
    Jitter {
        /// How often.
        rate: Rate,
        /// Octets of a message.
        octets: u64,
        /// The part, up to 0.5.
        fraction: f64,
    },
    /// Another pattern at times.
    Burst {
        /// Intervals are exponentially distributed, not all alike.
        random: bool,
        /// From the beginning of a burst to that of the next, on average, in s.
        interval_s: f64,
        /// What a burst consists of.
        inner: Box<Self>,
        /// Durations are exponentially distributed, not all alike.
        exponential: bool,
        /// How long a burst is, on average, in s.
        duration_s: f64,
    },
    /// Sizes and gaps of a capture.
    Clone {
        /// The capture's file.
        file: String,
        /// How many times more, after the first; `None` without end.
        repeats: Option<u32>,
    },
}

impl Pattern {
    /// Bursts within bursts. More than a few make no sense, and reading goes one call deeper for
    /// each.
    pub const DEPTH_MAX: usize = 8;

    /// The longest and shortest message that doesn't come from a capture.
    pub fn octets(&self) -> Option<u64> {
        match self {
            Self::Periodic { octets, .. }
            | Self::Poisson { octets, .. }
            | Self::Jitter { octets, .. } => Some(*octets),
            Self::Burst { inner, .. } => inner.octets(),
            Self::Clone { .. } => None,
        }
    }

    /// The rate, of a burst that within it; `None` for a capture.
    pub fn rate(&self) -> Option<Rate> {
        match self {
            Self::Periodic { rate, .. }
            | Self::Poisson { rate, .. }
            | Self::Jitter { rate, .. } => Some(*rate),
            Self::Burst { inner, .. } => inner.rate(),
            Self::Clone { .. } => None,
        }
    }

    /// Adds the names of captures.
    pub(super) fn captures<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        match self {
            Self::Burst { inner, .. } => inner.captures(names),
            Self::Clone { file, .. } => {
                names.insert(file);
            }
            Self::Periodic { .. } | Self::Poisson { .. } | Self::Jitter { .. } => {}
        }
    }
}

/// A message that a pattern asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// After the one before, in ns; 0 for the first.
    pub gap_ns: f64,
    /// Its octets.
    pub octets: u64,
}

/// The messages of a pattern, one after the other. The first is due at once.
#[derive(Clone, Debug)]
pub struct Gaps(State);

#[derive(Clone, Debug)]
enum State {
    Silent,
    Even {
        gap_ns: f64,
        octets: u64,
        law: Law,
        begun: bool,
    },
    Burst(Box<Burst>),
    Cloned {
        messages: Arc<[Cloned]>,
        /// The one that is next.
        next: usize,
        /// How many times more.
        repeats: Option<u32>,
        begun: bool,
    },
}

#[derive(Clone, Copy, Debug)]
enum Law {
    Constant,
    Exponential,
    /// What is left of the last gap goes to the next one.
    Moved {
        fraction: f64,
        left_ns: f64,
    },
}

#[derive(Clone, Debug)]
struct Burst {
    random: bool,
    interval_ns: f64,
    exponential: bool,
    duration_ns: f64,
    /// The inner pattern before its beginning.
    inner: Gaps,
    /// The inner pattern now.
    now: Gaps,
    /// Time of the last message, since the first.
    at_ns: f64,
    start_ns: f64,
    /// The end of the burst; `None` before the first.
    end_ns: Option<f64>,
}

impl Gaps {
    /// A pattern from its beginning. A capture that isn't among `captures` is silent, and so are a
    /// rate of 0 and an unlimited one, which is the driver's to keep.
    pub fn new(pattern: &Pattern, captures: &BTreeMap<String, Arc<[Cloned]>>) -> Self {
        let even = |rate: Rate, octets, law| match rate.gap_ns() {
            Some(gap_ns) => State::Even {
                gap_ns,
                octets,
                law,
                begun: false,
            },
            None => State::Silent,
        };
        Self(match pattern {
            Pattern::Periodic { rate, octets } => even(*rate, *octets, Law::Constant),
            Pattern::Poisson { rate, octets } => even(*rate, *octets, Law::Exponential),
            Pattern::Jitter {
                rate,
                octets,
                fraction,
            } => {
                let (fraction, left_ns) = (*fraction, 0.0);
                even(*rate, *octets, Law::Moved { fraction, left_ns })
            }
            Pattern::Burst {
                random,
                interval_s,
                inner,
                exponential,
                duration_s,
            } => {
                let inner = Self::new(inner, captures);
                State::Burst(Box::new(Burst {
                    random: *random,
                    interval_ns: interval_s * 1e9,
                    exponential: *exponential,
                    duration_ns: duration_s * 1e9,
                    now: inner.clone(),
                    inner,
                    at_ns: 0.0,
                    start_ns: 0.0,
                    end_ns: None,
                }))
            }
            Pattern::Clone { file, repeats } => match captures.get(file) {
                Some(messages) if !messages.is_empty() => State::Cloned {
                    messages: Arc::clone(messages),
                    next: 0,
                    repeats: *repeats,
                    begun: false,
                },
                _ => State::Silent,
            },
        })
    }

    /// The next message; `None` if there is none any more.
    pub fn next(&mut self, chance: &mut Stream) -> Option<Next> {
        match &mut self.0 {
            State::Silent => None,
            State::Even {
                gap_ns,
                octets,
                law,
                begun,
            } => {
                let gap_ns = if std::mem::replace(begun, true) {
                    law.gap_ns(*gap_ns, chance)
                } else {
                    0.0
                };
                let octets = *octets;
                Some(Next { gap_ns, octets })
            }
            State::Burst(burst) => burst.next(chance),
            State::Cloned {
                messages,
                next,
                repeats,
                begun,
            } => {
                if *next >= messages.len() {
                    match repeats {
                        Some(0) => return None,
                        Some(left) => *left -= 1,
                        None => {}
                    }
                    // Again from the start, without the first: nothing says how long after the
                    // last one it would come.
                    *next = 1.min(messages.len() - 1);
                }
                let message = messages[*next];
                *next += 1;
                let first = !std::mem::replace(begun, true);
                // Of a capture with one message, or of several at one moment, a repetition would
                // take no time at all.
                let gap_ns = if first {
                    0.0
                } else {
                    (message.gap_ns as f64).max(1.0)
                };
                Some(Next {
                    gap_ns,
                    octets: u64::from(message.octets),
                })
            }
        }
    }
}

impl Law {
    fn gap_ns(&mut self, mean_ns: f64, chance: &mut Stream) -> f64 {
        match self {
            Self::Constant => mean_ns,
            Self::Exponential => exponential(mean_ns, chance),
            Self::Moved { fraction, left_ns } => {
                let moved = 1.0 + *fraction * (2.0 * chance.unit() - 1.0);
                let own_ns = mean_ns * moved;
                let gap_ns = own_ns + *left_ns;
                *left_ns = mean_ns - own_ns;
                gap_ns.max(0.0)
            }
        }
    }
}

fn exponential(mean: f64, chance: &mut Stream) -> f64 {
    -libm::log(1.0 - chance.unit()) * mean
}

impl Burst {
    /// Bursts that are looked at for one message. More follow each other at once only when the
    /// inner pattern is far slower than the bursts are, and then the message is due anyway.
    const BURSTS_MAX: usize = 1000;

    fn duration_ns(&self, chance: &mut Stream) -> f64 {
        if self.exponential {
            exponential(self.duration_ns, chance)
        } else {
            self.duration_ns
        }
    }

    fn next(&mut self, chance: &mut Stream) -> Option<Next> {
        let Some(mut end_ns) = self.end_ns else {
            let duration_ns = self.duration_ns(chance);
            self.end_ns = Some(duration_ns);
            return self.now.next(chance);
        };
        let inner = self.now.next(chance);
        // An inner pattern that has ended begins again with the next burst.
        let mut at_ns = inner.map_or(f64::INFINITY, |next| self.at_ns + next.gap_ns);
        let mut octets = inner.map_or(0, |next| next.octets);
        for _ in 0..Self::BURSTS_MAX {
            if at_ns < end_ns {
                break;
            }
            let interval_ns = if self.random {
                exponential(self.interval_ns, chance)
            } else {
                self.interval_ns
            };
            self.start_ns += interval_ns;
            let duration_ns = self.duration_ns(chance);
            // A burst that begins before the last one has ended continues it.
            let continues = self.start_ns <= end_ns && inner.is_some();
            if !continues {
                self.now = self.inner.clone();
                let first = self.now.next(chance)?;
                (at_ns, octets) = (self.start_ns.max(self.at_ns), first.octets);
                end_ns = self.start_ns + duration_ns;
                break;
            }
            end_ns = end_ns.max(self.start_ns + duration_ns);
        }
        self.end_ns = Some(end_ns);
        let gap_ns = (at_ns - self.at_ns).max(0.0);
        self.at_ns = at_ns;
        Some(Next { gap_ns, octets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periodic(rate: f64) -> Pattern {
        Pattern::Periodic {
            rate: Rate::PerSecond(rate),
            octets: 100,
        }
    }

    fn times_ms(pattern: &Pattern, count: usize) -> Vec<f64> {
        let mut gaps = Gaps::new(pattern, &BTreeMap::new());
        let mut chance = Stream::new(1, "test");
        let mut at_ns = 0.0;
        let messages = (0..count).map_while(|_| gaps.next(&mut chance));
        messages
            .map(|next| {
                at_ns += next.gap_ns;
                at_ns / 1e6
            })
            .collect()
    }

    fn burst(random: bool, interval_s: f64, inner: Pattern, duration_s: f64) -> Pattern {
        Pattern::Burst {
            random,
            interval_s,
            inner: Box::new(inner),
            exponential: random,
            duration_s,
        }
    }

    #[test]
    fn periodic_gaps_are_alike_and_the_first_message_comes_at_once() {
        assert_eq!(times_ms(&periodic(50.0), 4), [0.0, 20.0, 40.0, 60.0]);
        let none = Pattern::Poisson {
            rate: Rate::None,
            octets: 50,
        };
        assert!(times_ms(&none, 3).is_empty());
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_the_law() {
        let pattern = Pattern::Poisson {
            rate: Rate::PerSecond(100.0),
            octets: 50,
        };
        let times = times_ms(&pattern, 20_001);
        assert!((times[20_000] / 20_000.0 - 10.0).abs() < 0.2, "mean");
        let longer = times.windows(2).filter(|pair| pair[1] - pair[0] > 10.0);
        let share = longer.count() as f64 / 20_000.0;
        assert!((share - (-1.0_f64).exp()).abs() < 0.01, "{share}");
    }

    #[test]
    fn jitter_moves_messages_but_never_for_good() {
        let pattern = Pattern::Jitter {
            rate: Rate::PerSecond(100.0),
            octets: 50,
            fraction: 0.5,
        };
        let times = times_ms(&pattern, 1001);
        for (number, at) in times.iter().enumerate().skip(1) {
            let moved = at - number as f64 * 10.0;
            assert!(moved.abs() <= 5.0 + 1e-6, "{number}: {moved}");
        }
        assert!(times.windows(2).any(|pair| pair[1] - pair[0] < 5.0));
    }

    #[test]
    fn bursts_begin_at_their_interval_and_end_before_their_duration() {
        let pattern = burst(false, 0.1, periodic(50.0), 0.04);
        let times = times_ms(&pattern, 5);
        assert_eq!(times, [0.0, 20.0, 100.0, 120.0, 200.0]);
        // One nanosecond longer, and a third message falls into each.
        let pattern = burst(false, 0.1, periodic(50.0), 0.040_000_001);
        assert_eq!(times_ms(&pattern, 4), [0.0, 20.0, 40.0, 100.0]);
    }

    #[test]
    fn a_burst_longer_than_its_interval_has_no_gap() {
        let pattern = burst(false, 0.1, periodic(20.0), 0.2);
        let expected: Vec<f64> = (0..40).map(|number| f64::from(number) * 50.0).collect();
        assert_eq!(times_ms(&pattern, 40), expected);
    }

    #[test]
    fn bursts_within_bursts() {
        let inner = burst(false, 0.1, periodic(100.0), 0.02);
        let pattern = burst(false, 1.0, inner, 0.15);
        let times = times_ms(&pattern, 6);
        assert_eq!(times, [0.0, 10.0, 100.0, 110.0, 1000.0, 1010.0]);
    }

    #[test]
    fn random_bursts_have_the_stated_means() {
        let pattern = burst(true, 1.0, periodic(1000.0), 0.3);
        let times = times_ms(&pattern, 200_000);
        let starts = times.windows(2).filter(|pair| pair[1] - pair[0] > 1.5);
        let bursts = starts.count() as f64;
        let span_s = times[199_999] / 1e3;
        // Bursts that begin during another continue it: fewer than one a second.
        assert!(
            bursts < span_s && bursts > span_s * 0.6,
            "{bursts} {span_s}"
        );
        // A queue with unlimited servers: on for 1 - exp(-0.3) of the time at most, less as an
        // interval counts from the last beginning.
        let share = 200.0 / span_s;
        assert!((0.2..0.35).contains(&share), "{share}");
    }

    #[test]
    fn a_capture_is_repeated_without_its_first_message() {
        let messages: Arc<[Cloned]> = [(0, 100), (5_000_000, 200), (1_000_000, 28)]
            .map(|(gap_ns, octets)| Cloned { gap_ns, octets })
            .into();
        let captures = BTreeMap::from([(String::from("x.pcap"), messages)]);
        let mut chance = Stream::new(1, "test");
        let mut told = |repeats, count: usize| -> Vec<(f64, u64)> {
            let file = String::from("x.pcap");
            let mut gaps = Gaps::new(&Pattern::Clone { file, repeats }, &captures);
            let next = (0..count).map_while(|_| gaps.next(&mut chance));
            next.map(|next| (next.gap_ns / 1e6, next.octets)).collect()
        };
        let once = [(0.0, 100), (5.0, 200), (1.0, 28)];
        assert_eq!(told(Some(0), 9), once);
        let twice = [once[0], once[1], once[2], once[1], once[2]];
        assert_eq!(told(Some(1), 9), twice);
        assert_eq!(told(None, 9).len(), 9);
    }
}
