//! The cost of a frame for each neighbour on a channel that all share.
//!
//! On a channel with one rate for each receiver, or with receivers that need many repetitions, a
//! frame for the far one takes the time of ten for the near ones. A port isn't told these rates: it
//! sees how long the medium is busy with each frame, from when it could begin until the medium is
//! done with it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use strait_core::id::TxId;
use strait_core::time::{Duration, Instant, nanos};
use strait_core::{NeighbourId, Neighbours};
use strait_qos::Costs;

use super::pace::Pace;

/// Frames that a medium holds at most without its times being useless.
const HELD_MAX: usize = 8;
/// About so many of a neighbour's last frames count.
const KEPT: u64 = 32;
/// Frames of a neighbour after which something is known.
const KNOWN: u32 = 8;
/// The least difference that counts: beside other stations' random transmissions, measured costs
/// vary.
const NOTED: f64 = 1.25;
/// Frames are alike in length where they have so many octets or as many more.
const ALIKE: u64 = 128;
/// Links behind the first on which a frame keeps this station from sending: a station three links
/// away doesn't reach those that hear this one.
pub(super) const LINKS: u32 = 2;
/// The most that a frame counts.
const MOST: f64 = 64.0;

/// A frame that the medium has.
#[derive(Clone, Copy, Debug)]
struct Sent {
    id: TxId,
    to: NeighbourId,
    octets: u64,
    at: Instant,
    onward: u8,
}

/// The receiver of a frame, its octets, and how long the medium was busy with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) to: NeighbourId,
    pub(super) octets: u64,
    pub(super) busy: Duration,
    /// Links on its way behind that neighbour.
    pub(super) onward: u8,
}

/// The least time that frames of about a length took, of the last ones and of those before.
#[derive(Clone, Copy, Debug)]
struct Least {
    now: Duration,
    before: Duration,
    frames: u32,
}

impl Least {
    const NONE: Self = Self {
        now: Duration::MAX,
        before: Duration::MAX,
        frames: 0,
    };

    fn add(&mut self, busy: Duration) -> Duration {
        if self.frames >= KEPT as u32 {
            (self.before, self.now, self.frames) = (self.now, Duration::MAX, 0);
        }
        self.now = self.now.min(busy);
        self.frames += 1;
        self.get()
    }

    fn get(&self) -> Duration {
        self.now.min(self.before)
    }
}

/// The times of a neighbour's frames.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    frames: u32,
    nanos: u64,
    octets: u64,
}

impl Taken {
    fn add(&mut self, nanos: u64, octets: u64) {
        self.frames = self.frames.saturating_add(1);
        self.nanos = (self.nanos - self.nanos / KEPT).saturating_add(nanos);
        self.octets = (self.octets - self.octets / KEPT).saturating_add(octets);
    }

    /// Nanoseconds an octet; `None` before enough is known.
    fn cost(&self) -> Option<f64> {
        (self.frames >= KNOWN).then(|| self.nanos as f64 / self.octets.max(1) as f64)
    }
}

/// How long a port's medium is busy with frames for each neighbour.
#[derive(Clone, Debug, Default)]
pub(super) struct Airtime {
    sent: VecDeque<Sent>,
    /// When the medium was done with the frame before.
    done: Instant,
    /// Octets of the longest frame.
    longest: u64,
    taken: Vec<Taken>,
    /// By neighbour and length.
    least: BTreeMap<(NeighbourId, u64), Least>,
    /// Of the only neighbour, where there is one.
    pub(super) pace: Pace,
}

impl Airtime {
    /// The medium has accepted a frame.
    pub(super) fn sends(
        &mut self,
        id: TxId,
        (to, onward): (NeighbourId, u8),
        octets: usize,
        at: Instant,
    ) {
        if self.sent.len() >= HELD_MAX {
            self.sent.pop_front();
        }
        let octets = octets as u64;
        self.longest = self.longest.max(octets);
        self.sent.push_back(Sent {
            id,
            to,
            octets,
            at,
            onward,
        });
    }

    /// It is done with it.
    pub(super) fn ends(&mut self, id: TxId, now: Instant) -> Option<Took> {
        let place = self.sent.iter().position(|sent| sent.id == id)?;
        let sent = self.sent[place];
        let Sent { to, octets, at, .. } = sent;
        self.sent.drain(..=place);
        let began = at.max(self.done);
        self.done = now;
        let busy = now.since(began);
        Some(Took {
            to,
            octets,
            busy,
            onward: sent.onward,
        })
    }

    /// How long others forward the content of such a frame until this station could collide with
    /// them: on the first links of a path no two send at a time. Nothing for packets that end at
    /// the neighbour.
    pub(super) fn relayed(&mut self, took: &Took) -> Option<Duration> {
        let key = (took.to, took.octets / ALIKE);
        let least = self.least.entry(key).or_insert(Least::NONE);
        let least = least.add(took.busy);
        let links = u32::from(took.onward).min(LINKS);
        (links > 0).then(|| least * links)
    }

    /// The least time that a frame of about so many octets took, once one has.
    pub(super) fn least(&self, to: NeighbourId, octets: u64) -> Option<Duration> {
        self.least.get(&(to, octets / ALIKE)).map(Least::get)
    }

    /// Notes the time of a frame. Gives new costs if they differ much from the last ones. Short
    /// frames show the medium's own times, not a rate.
    pub(super) fn counts(&mut self, took: Took, last: &Costs) -> Option<Costs> {
        let Took {
            to, octets, busy, ..
        } = took;
        if to.0 >= Neighbours::TOLD_MAX || 2 * octets < self.longest {
            return None;
        }
        if self.taken.len() <= to.index() {
            self.taken.resize(to.index() + 1, Taken::default());
        }
        self.taken[to.index()].add(nanos(busy), octets);
        let costs = self.costs();
        costs.differ(last).then_some(costs)
    }

    /// By neighbour, how many times that of the cheapest a frame of so many octets costs.
    fn costs(&self) -> Costs {
        let known = self.taken.iter().filter_map(Taken::cost);
        let least = known.fold(f64::INFINITY, f64::min);
        let times = |taken: &Taken| {
            let times = taken.cost().map_or(1.0, |cost| cost / least);
            if times < NOTED { 1.0 } else { times.min(MOST) }
        };
        Costs::new(self.taken.iter().map(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: NeighbourId = NeighbourId(1);

    /// Frames in turns for two neighbours, one of which is always in the medium's hands behind the
    /// one that it sends; the costs at the end.
    fn costs(frames: u32, octets: [usize; 2], micros: [u64; 2]) -> Costs {
        let mut airtime = Airtime::default();
        let mut costs = Costs::default();
        let mut now = Instant::ZERO;
        airtime.sends(TxId(0), (NeighbourId(0), 0), octets[0], now);
        for number in 0..u64::from(frames) {
            let (this, next) = (number as usize % 2, (number + 1) as usize % 2);
            let to = NeighbourId(next as u16);
            airtime.sends(TxId(number + 1), (to, 0), octets[next], now);
            now += Duration::from_micros(micros[this]);
            let took = airtime.ends(TxId(number), now).unwrap();
            if let Some(new) = airtime.counts(took, &costs) {
                costs = new;
            }
        }
        costs
    }

    #[test]
    fn a_frame_costs_what_it_takes_behind_the_one_before() {
        let costs = costs(40, [1000, 1000], [1000, 10_000]);
        let far = costs.times(FAR, 100);
        assert!((990..=1010).contains(&far), "{far}");
        assert_eq!(costs.times(NeighbourId(0), 100), 100);
    }

    #[test]
    fn little_is_known_of_a_few_frames_and_nothing_of_short_ones() {
        assert_eq!(costs(15, [1000, 1000], [1000, 10_000]), Costs::default());
        assert_ne!(costs(16, [1000, 1000], [1000, 10_000]), Costs::default());
        assert_eq!(costs(40, [1000, 499], [1000, 10_000]), Costs::default());
        assert_ne!(costs(40, [1000, 500], [1000, 10_000]), Costs::default());
        // A quarter more may be chance.
        assert_eq!(costs(40, [1000, 1000], [1000, 1240]), Costs::default());
        assert_ne!(costs(40, [1000, 1000], [1000, 1260]), Costs::default());
    }
}
