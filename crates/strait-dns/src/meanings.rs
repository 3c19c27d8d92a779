//! What partners mean by addresses ahead of answers.
//!
//! A question says by which address its name goes at the partner; its answer is what is meant by
//! that from then on. What comes for an address that nobody has told waits, and the partner is
//! asked for it: after a start of this side, or where the question was lost.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use strait_core::{Duration, Instant};

/// Addresses of all partners, at most, and of these such that nobody has told.
const MEANINGS_MAX: usize = 16_384;
const STRANGE_MAX: usize = 64;
/// How long what comes for an address may be ahead of the question that tells of it.
const AHEAD: Duration = Duration::from_secs(1);
/// The pause before the second question for one address; it is twice as long each time.
const PAUSE: Duration = Duration::from_secs(10);
/// How long an address stays strange, and one whose answer is under way may.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// How long a meaning holds at least, be its answer's life shorter: programs keep it for longer.
const LIFE_LEAST: Duration = Duration::from_secs(300);

/// What is meant by an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// This one.
    Address(IpAddr),
    /// Nobody: the name has no address.
    Nobody,
    /// That isn't known yet.
    Unknown,
}

#[derive(Debug)]
struct Meaning {
    meant: Meant,
    /// Until when that holds.
    until: Instant,
    /// When the partner is to be asked for it, and how long the pause is then.
    asks: Option<Instant>,
    pause: Duration,
    /// Somebody has used it since that was looked at.
    touched: bool,
    /// The partner has told its name.
    told: bool,
    used: u64,
}

impl Meaning {
    /// When it is forgotten.
    fn over(&self) -> Instant {
        match self.meant {
            Meant::Unknown => self.until,
            _ => self.until + FORGOTTEN,
        }
    }
}

/// All of them, by partner and address.
#[derive(Debug, Default)]
pub(crate) struct Meanings {
    all: BTreeMap<(usize, Ipv4Addr), Meaning>,
    uses: u64,
    /// When they were looked at last.
    tended: Instant,
}

impl Meanings {
    /// What a partner means by an address.
    pub(crate) fn meant(&mut self, now: Instant, partner: usize, address: Ipv4Addr) -> Meant {
        self.uses += 1;
        let Some(meaning) = self.all.get_mut(&(partner, address)) else {
            let strange = self.all.values().filter(|it| !it.told).count();
            if strange < STRANGE_MAX {
                self.put((partner, address), now, false);
            }
            return Meant::Unknown;
        };
        (meaning.used, meaning.touched) = (self.uses, true);
        meaning.meant
    }

    /// Whether a partner has told which name goes by an address.
    pub(crate) fn is_told(&self, partner: usize, address: Ipv4Addr) -> bool {
        let meaning = self.all.get(&(partner, address));
        meaning.is_some_and(|it| it.told)
    }

    /// A partner tells by which address a name goes; its answer is under way.
    pub(crate) fn tell(&mut self, now: Instant, partner: usize, address: Ipv4Addr) {
        match self.all.get_mut(&(partner, address)) {
            Some(meaning) => (meaning.told, meaning.asks) = (true, None),
            None => self.put((partner, address), now, true),
        }
    }

    fn put(&mut self, place: (usize, Ipv4Addr), now: Instant, told: bool) {
        if self.all.len() >= MEANINGS_MAX {
            let oldest = self.all.iter().min_by_key(|(_, it)| it.used);
            let oldest = oldest.map(|(place, _)| *place);
            oldest.into_iter().for_each(|it| {
                self.all.remove(&it);
            });
        }
        let meaning = Meaning {
            meant: Meant::Unknown,
            until: now + FORGOTTEN,
            asks: (!told).then_some(now + AHEAD),
            pause: PAUSE,
            touched: false,
            told,
            used: self.uses,
        };
        self.all.insert(place, meaning);
    }

    /// The answer for a name that goes by an address.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        (partner, address): (usize, Ipv4Addr),
        meant: Option<IpAddr>,
        life_s: u32,
    ) {
        if let Some(meaning) = self.all.get_mut(&(partner, address)) {
            let life = Duration::from_secs(u64::from(life_s));
            (meaning.asks, meaning.pause) = (None, PAUSE);
            (meaning.meant, meaning.until) = match meant {
                Some(real) => (Meant::Address(real), now + life.max(LIFE_LEAST)),
                None => (Meant::Nobody, now + life),
            };
        }
    }

    /// Addresses that partners are asked for now.
    pub(crate) fn tend(&mut self, now: Instant) -> Vec<(usize, Ipv4Addr)> {
        self.tended = now;
        self.all.retain(|_, it| now < it.over());
        for meaning in self.all.values_mut().filter(|it| it.until <= now) {
            // Somebody uses it still: what it meant holds until it is known anew.
            if core::mem::take(&mut meaning.touched) {
                meaning.until = now + FORGOTTEN;
                meaning.asks = Some(now);
            }
        }
        let due = self.all.iter_mut();
        let due = due.filter(|(_, it)| it.asks.is_some_and(|at| at <= now));
        let asked = due.map(|(place, it)| {
            it.asks = Some(now + it.pause);
            it.pause *= 2;
            *place
        });
        asked.collect()
    }

    /// When there is something to do.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let each = self.all.values();
        let due = each.flat_map(|it| {
            let used = Some(it.until).filter(|until| it.touched && *until > self.tended);
            it.asks.into_iter().chain(used).chain([it.over()])
        });
        due.min()
    }

    /// Asserts that limits hold.
    pub(crate) fn check(&self) {
        assert!(self.all.len() <= MEANINGS_MAX, "too many addresses");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec;

    const X: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
    const REAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn what_is_told_and_answered_is_meant() {
        let mut meanings = Meanings::default();
        meanings.tell(at(0), 0, X);
        assert_eq!(meanings.meant(at(0), 0, X), Meant::Unknown);
        meanings.settle(at(10), (0, X), Some(REAL), 60);
        assert_eq!(meanings.meant(at(10), 0, X), Meant::Address(REAL));
        // Another partner means something else.
        assert_eq!(meanings.meant(at(10), 1, X), Meant::Unknown);
        meanings.settle(at(20), (1, X), None, 5);
        assert_eq!(meanings.meant(at(20), 1, X), Meant::Nobody);
        assert_eq!(meanings.tend(at(500)), vec![]);
    }

    #[test]
    fn a_strange_address_is_asked_for_after_a_while_and_seldom() {
        let mut meanings = Meanings::default();
        meanings.meant(at(0), 0, X);
        assert_eq!(meanings.wake(), Some(at(1000)));
        assert_eq!(meanings.tend(at(999)), vec![]);
        assert_eq!(meanings.tend(at(1000)), vec![(0, X)]);
        assert_eq!(meanings.tend(at(10_999)), vec![]);
        assert_eq!(meanings.tend(at(11_000)), vec![(0, X)]);
        // Whoever is told of it asks no more.
        meanings.tell(at(12_000), 0, X);
        meanings.meant(at(30_000), 0, X);
        assert_eq!(meanings.tend(at(30_000)), vec![]);
        meanings.tend(at(120_000));
        assert!(meanings.all.is_empty());
    }

    #[test]
    fn what_is_in_use_still_means_the_same_until_it_is_known_anew() {
        let mut meanings = Meanings::default();
        meanings.tell(at(0), 0, X);
        meanings.settle(at(0), (0, X), Some(REAL), 1);
        assert_eq!(meanings.meant(at(299_999), 0, X), Meant::Address(REAL));
        assert_eq!(meanings.tend(at(299_999)), vec![]);
        assert_eq!(meanings.meant(at(300_000), 0, X), Meant::Address(REAL));
        assert_eq!(meanings.tend(at(300_000)), vec![(0, X)]);
        // The partner is asked a few times; nobody uses it any more.
        assert_eq!(meanings.wake(), Some(at(310_000)));
        for s in [310, 330, 370, 450] {
            assert_eq!(meanings.tend(at(s * 1000)), vec![(0, X)], "{s}");
        }
        assert_eq!(meanings.wake(), Some(at(540_000)));
        meanings.tend(at(540_000));
        assert!(meanings.all.is_empty());
    }

    #[test]
    fn addresses_by_chance_are_few() {
        let mut meanings = Meanings::default();
        for n in 0..1000 {
            meanings.meant(at(0), 0, Ipv4Addr::from(0xc613_0000 + n));
        }
        assert_eq!(meanings.all.len(), STRANGE_MAX);
        for n in 0..MEANINGS_MAX as u32 + 9 {
            meanings.tell(at(1), 1, Ipv4Addr::from(0xc613_0000 + n));
        }
        meanings.check();
    }
}
