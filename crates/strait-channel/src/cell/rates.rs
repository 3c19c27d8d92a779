//! Rates among which cards choose: how far each is understood, and which one is next.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use strait_core::chance::Stream;
use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant, nanos};

use super::config::{Adapt, CellConfig};

/// Bit errors of DBPSK are `exp(-snr) / 2`; at this ratio of signal to noise 8 % of frames of 1024
/// octets have one, which is how IEEE 802.11-2020 clause 15.4.8.2 states a receiver's sensitivity.
const SNR_AT_REACH: f64 = 10.8;

/// Failures in a row after which ARF takes a lower rate, and successes after which it tries a
/// higher one (Kamerman and Monteban, «WaveLAN-II», 1997).
const ARF_FAILURES: u32 = 2;
const ARF_SUCCESSES: u32 = 10;

/// Minstrel's interval of statistics, what of them it keeps, one frame in how many samples another
/// rate, tries at each rate of its chain, and what share of success is as good as any.
const INTERVAL: Duration = Duration::from_millis(100);
const KEPT: f64 = 0.75;
const SAMPLES: u64 = 10;
const CHAIN_TRIES: u32 = 2;
const GOOD: f64 = 0.95;
/// Octets of the frame by which Minstrel compares rates.
const USUAL_OCTETS: u64 = 1200;

/// One rate.
#[derive(Clone, Debug)]
struct Rate {
    rate: LineRate,
    reach: f64,
}

/// The rates of a cell, and what each card knows of each receiver.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    /// In ascending order.
    table: Vec<Rate>,
    adapt: Adapt,
    path_loss: f64,
    preamble: Duration,
    cards: BTreeMap<(usize, usize), Card>,
}

impl Rates {
    /// Those up to `most`; `None` if the cell has one.
    pub(super) fn of(config: &CellConfig, most: LineRate) -> Option<Self> {
        let rates = config.rates();
        let rates = rates.iter().map(|it| Rate {
            rate: LineRate::new(it.rate.0, 8),
            reach: it.reach,
        });
        let mut table: Vec<Rate> = rates.filter(|it| it.rate.bit_s() <= most.bit_s()).collect();
        table.sort_by_key(|it| it.rate.bit_s());
        (!table.is_empty()).then(|| Self {
            table,
            adapt: config.adapt,
            path_loss: config.path_loss,
            preamble: config.times()[2],
            cards: BTreeMap::new(),
        })
    }

    /// The share of frames with a bit error at so many metres; none at a rate of which nothing is
    /// known.
    pub(super) fn loss(&self, rate: LineRate, octets: u64, metres: f64) -> f64 {
        let Some(it) = self.table.iter().find(|it| it.rate == rate) else {
            return 0.0;
        };
        let snr = SNR_AT_REACH * libm::pow(it.reach / metres.max(1e-3), self.path_loss);
        let bit = 0.5 * libm::exp(-snr);
        1.0 - libm::pow(1.0 - bit, 8.0 * octets as f64)
    }

    /// The rate of a card's next try of its frame for a receiver, and its number.
    pub(super) fn pick(
        &mut self,
        now: Instant,
        seed: u64,
        pair: (usize, usize),
        tries: u32,
    ) -> (LineRate, usize) {
        let count = self.table.len();
        let adapt = self.adapt;
        let card = self.cards.entry(pair);
        let card = card.or_insert_with(|| match adapt {
            Adapt::Arf => Card::Arf(Arf::new(count)),
            Adapt::Minstrel => Card::Minstrel(Box::new(Minstrel::new(seed, pair, count))),
        });
        let number = match card {
            Card::Arf(arf) => arf.rate,
            Card::Minstrel(it) => {
                if tries == 0 {
                    let preamble = self.preamble;
                    let takes = |it: &Rate| nanos(preamble + it.rate.time_for(USUAL_OCTETS)) as f64;
                    let times: Vec<f64> = self.table.iter().map(takes).collect();
                    it.plan(now, &times);
                }
                it.chain[(tries / CHAIN_TRIES).min(3) as usize]
            }
        };
        (self.table[number].rate, number)
    }

    /// Whether a try at this rate was acknowledged.
    pub(super) fn tell(&mut self, pair: (usize, usize), number: usize, ok: bool) {
        match self.cards.get_mut(&pair) {
            Some(Card::Arf(arf)) => arf.tell(self.table.len(), ok),
            Some(Card::Minstrel(it)) => it.tell(number, ok),
            None => {}
        }
    }
}

/// What a card knows of a receiver.
#[derive(Clone, Debug)]
enum Card {
    Arf(Arf),
    Minstrel(Box<Minstrel>),
}

#[derive(Clone, Debug)]
struct Arf {
    rate: usize,
    good: u32,
    bad: u32,
    /// The rate is new: one failure is enough.
    probes: bool,
}

impl Arf {
    const fn new(rates: usize) -> Self {
        Self {
            rate: rates - 1,
            good: 0,
            bad: 0,
            probes: false,
        }
    }

    fn tell(&mut self, rates: usize, ok: bool) {
        if ok {
            (self.good, self.bad, self.probes) = (self.good + 1, 0, false);
            if self.good >= ARF_SUCCESSES && self.rate + 1 < rates {
                (self.rate, self.good, self.probes) = (self.rate + 1, 0, true);
            }
            return;
        }
        (self.good, self.bad) = (0, self.bad + 1);
        if self.probes || self.bad >= ARF_FAILURES {
            self.rate = self.rate.saturating_sub(1);
            (self.bad, self.probes) = (0, false);
        }
    }
}

/// What came of a rate: tries and acknowledgements, older ones counting ever less, so that an
/// interval with few of them moves little.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    tries: f64,
    good: f64,
    /// Of the interval.
    new: (u32, u32),
}

impl Tried {
    /// The share of tries that were acknowledged; 0 before the first.
    fn share(&self) -> f64 {
        self.good / self.tries.max(1.0)
    }

    fn settle(&mut self) {
        let (tries, good) = core::mem::take(&mut self.new);
        if tries > 0 {
            self.tries = KEPT * self.tries + f64::from(tries);
            self.good = KEPT * self.good + f64::from(good);
        }
    }
}

/// In the manner of Linux's Minstrel: tries are counted by rate, now and then another one is
/// sampled, and a frame goes by a chain of rates.
#[derive(Clone, Debug)]
struct Minstrel {
    rates: Vec<Tried>,
    chain: [usize; 4],
    settled: Instant,
    samples: Stream,
}

impl Minstrel {
    fn new(seed: u64, (from, to): (usize, usize), rates: usize) -> Self {
        Self {
            rates: alloc::vec![Tried::default(); rates],
            chain: [0; 4],
            settled: Instant::ZERO,
            samples: Stream::new(seed, &format!("cell.{from}.{to}.rates")),
        }
    }

    fn tell(&mut self, number: usize, ok: bool) {
        let it = &mut self.rates[number];
        it.new.0 += 1;
        it.new.1 += u32::from(ok);
    }

    /// The chain of a new frame.
    fn plan(&mut self, now: Instant, times: &[f64]) {
        if now.since(self.settled) >= INTERVAL {
            self.settled = now;
            self.rates.iter_mut().for_each(Tried::settle);
        }
        let yields = |number: &usize| {
            let share = self.rates[*number].share();
            if share < 0.1 {
                0.0
            } else {
                share / times[*number]
            }
        };
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by(|a, b| yields(b).total_cmp(&yields(a)));
        let best = order[0];
        let sure = order.iter().find(|it| self.rates[**it].share() >= GOOD);
        let most = |a: &&usize, b: &&usize| {
            let share = |it: &usize| self.rates[*it].share();
            share(a).total_cmp(&share(b))
        };
        let sure = sure.or_else(|| order.iter().max_by(most));
        let sure = *sure.unwrap_or(&best);
        let second = *order.get(1).unwrap_or(&best);
        self.chain = [best, second, sure, 0];
        if times.len() > 1 && self.samples.below(SAMPLES) == 0 {
            let other = self.samples.below(times.len() as u64 - 1) as usize;
            let sample = other + usize::from(other >= best);
            // A slower one is worth no more than a second try.
            if times[sample] < times[best] {
                self.chain = [sample, best, sure, 0];
            } else {
                self.chain[1] = sample;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use strait_core::units::BitRate;

    use super::super::config::Rate as RateKeys;
    use super::*;

    fn rates(adapt: Adapt) -> Rates {
        let row = |mbit_s: u64, reach: f64| RateKeys {
            rate: BitRate(mbit_s * 1_000_000),
            reach,
        };
        let config = CellConfig {
            rates: alloc::vec![row(11, 100.0), row(2, 200.0), row(1, 250.0)],
            adapt,
            ..CellConfig::default()
        };
        Rates::of(&config, LineRate::new(11_000_000, 8)).unwrap()
    }

    const PAIR: (usize, usize) = (0, 1);

    #[test]
    fn a_frame_of_the_stated_length_is_lost_in_eight_of_a_hundred_at_the_reach() {
        let it = rates(Adapt::Arf);
        let loss = |octets, metres| it.loss(LineRate::new(11_000_000, 8), octets, metres);
        assert!(
            (loss(1024, 100.0) - 0.08).abs() < 0.002,
            "{}",
            loss(1024, 100.0)
        );
        assert!(loss(1024, 80.0) < 1e-4 && loss(1024, 120.0) > 0.99);
        assert!(loss(14, 100.0) < 0.002);
        assert_eq!(it.loss(LineRate::new(5_500_000, 8), 1024, 1000.0), 0.0);
    }

    #[test]
    fn arf_falls_after_two_failures_and_rises_after_ten_successes() {
        let mut it = rates(Adapt::Arf);
        let rate = |it: &mut Rates| it.pick(Instant::ZERO, 1, PAIR, 0).1;
        let tell = |it: &mut Rates, times: u32, ok| {
            (0..times).for_each(|_| it.tell(PAIR, 0, ok));
            it.pick(Instant::ZERO, 1, PAIR, 0).1
        };
        assert_eq!(rate(&mut it), 2);
        assert_eq!(tell(&mut it, 1, false), 2);
        assert_eq!(tell(&mut it, 1, true), 2);
        assert_eq!(tell(&mut it, 2, false), 1);
        assert_eq!(tell(&mut it, 9, true), 1);
        assert_eq!(tell(&mut it, 1, true), 2);
        // The first frame at the new rate fails.
        assert_eq!(tell(&mut it, 1, false), 1);
        assert_eq!(tell(&mut it, 1, false), 1);
        assert_eq!(tell(&mut it, 1, false), 0);
        assert_eq!(tell(&mut it, 20, false), 0);
    }

    #[test]
    fn minstrel_finds_the_rate_that_yields_most_and_leaves_one_that_fails() {
        let mut it = rates(Adapt::Minstrel);
        let share = |works: [f64; 3], it: &mut Rates, from: u64| {
            let mut chance = Stream::new(from, "air");
            let mut at_best = 0;
            for frame in 0..2000u64 {
                let now = Instant::from_millis((from * 2000 + frame) * 5);
                for tries in 0..8 {
                    let (_, number) = it.pick(now, 1, PAIR, tries);
                    let ok = chance.happens(works[number]);
                    it.tell(PAIR, number, ok);
                    at_best += u32::from(tries == 0 && number == 2);
                    if ok {
                        break;
                    }
                }
            }
            f64::from(at_best) / 2000.0
        };
        // Of 11 Mbit/s half is more than all of 2.
        assert!(share([1.0, 1.0, 0.5], &mut it, 0) > 0.85);
        let falls = share([1.0, 1.0, 0.05], &mut it, 1);
        assert!(falls < 0.15, "{falls}");
        assert!(share([1.0, 1.0, 1.0], &mut it, 2) > 0.85);
    }
}
