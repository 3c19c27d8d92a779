//! Children in strict bands, each band with shares.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Slot;
use super::ring::{Ring, UNITS};
use super::tags::Tags;
use crate::plan::{Discipline, NodeIndex, NodeRates, Plan};
use crate::scheduler::Head;

/// Octets of the smallest turn of a ring: a quarter of a second at 9600 bit/s. Shares don't depend
/// on it, since the excess of a turn is paid from the next.
const QUANTUM_OCTETS: u64 = 256;
/// The longest turn: a thousand of the shortest, so that rates far apart don't make turns of
/// minutes; beyond that, shares fall short of the rates.
const TURN_OCTETS_MAX: u64 = 1000 * QUANTUM_OCTETS;

/// The credit of a turn, where `least` is the smallest share of the band.
fn turn(share: u64, least: u64) -> i64 {
    let units = UNITS.unsigned_abs();
    let credit = u128::from(QUANTUM_OCTETS * units) * u128::from(share) / u128::from(least.max(1));
    let credit = u64::try_from(credit).unwrap_or(u64::MAX);
    credit.min(TURN_OCTETS_MAX * units) as i64
}

/// Octets of a turn, as [`turn`] has them.
pub(crate) fn turn_octets(share: u64, least: u64) -> f64 {
    turn(share, least) as f64 / UNITS as f64
}

/// Strict bands; the sharing within each depends on the discipline.
#[derive(Debug)]
pub(super) struct Bands {
    bands: Box<[Band]>,
    children: Box<[Child]>,
}

#[derive(Debug)]
struct Child {
    node: NodeIndex,
    band: u8,
    /// Credit of its turn, in parts of an octet.
    gain: i64,
    backlogged: bool,
}

#[derive(Debug)]
struct Band {
    order: Order,
    /// How many of its children have something to send.
    backlogged: u32,
}

/// How the children of a band share it.
#[derive(Debug)]
enum Order {
    /// Weighted deficit round robin.
    Turns(Ring),
    /// Virtual finish tags.
    Tags(Tags),
}

impl Bands {
    pub(super) fn new(plan: &Plan, node: NodeIndex) -> Self {
        let (children, discipline) = plan
            .nodes
            .get(node)
            .map_or((&[][..], Discipline::Wdrr), |node| {
                (&node.children, node.discipline)
            });
        let band_of = |child: &NodeIndex| plan.nodes.get(*child).map_or(0, |child| child.band);
        let mut bands: Vec<u8> = children.iter().map(band_of).collect();
        bands.sort_unstable();
        bands.dedup();
        let child = |child: &NodeIndex| Child {
            node: *child,
            band: bands.partition_point(|band| *band < band_of(child)) as u8,
            gain: 1,
            backlogged: false,
        };
        let band = |_: &u8| Band {
            order: match discipline {
                Discipline::Cbwfq => Order::Tags(Tags::new()),
                _ => Order::Turns(Ring::default()),
            },
            backlogged: 0,
        };
        Self {
            children: children.iter().map(child).collect(),
            bands: bands.iter().map(band).collect(),
        }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = (Slot, NodeIndex)> + '_ {
        self.children.iter().map(|child| child.node).enumerate()
    }

    /// Sets the shares.
    pub(super) fn set_rates(&mut self, rates: &[NodeRates]) {
        let share = |child: &Child| rates.get(child.node).map_or(1, |rates| rates.share);
        let shares: Vec<u64> = self.children.iter().map(share).collect();
        for (number, band) in self.bands.iter_mut().enumerate() {
            let members = || {
                let all = self.children.iter().zip(&shares).enumerate();
                all.filter(move |(_, (child, _))| usize::from(child.band) == number)
                    .map(|(slot, (_, share))| (slot, *share))
            };
            let least = members().map(|(_, share)| share).min().unwrap_or(1);
            let sum = members().fold(0u64, |sum, (_, share)| sum.saturating_add(share));
            let gains: Vec<_> = members()
                .map(|(slot, share)| (slot, share, turn(share, least)))
                .collect();
            for (slot, share, gain) in gains {
                match &mut band.order {
                    Order::Turns(ring) => ring.set_gain(slot, gain),
                    Order::Tags(tags) => tags.set_share(slot, share, sum),
                }
                if let Some(child) = self.children.get_mut(slot) {
                    child.gain = gain;
                }
            }
        }
    }

    /// The child has something to send now. A band that was idle forgets all debts.
    pub(super) fn activate(&mut self, slot: Slot) {
        let Some(&Child { band, gain, .. }) = self.children.get(slot) else {
            return;
        };
        let Some(band) = self.bands.get_mut(usize::from(band)) else {
            return;
        };
        let idle = band.backlogged == 0;
        match &mut band.order {
            Order::Turns(ring) => {
                if idle {
                    ring.clear();
                }
                ring.join(slot, gain);
            }
            Order::Tags(tags) => {
                if idle {
                    tags.clear();
                }
                tags.join(slot);
            }
        }
        self.set_backlogged(slot, true);
    }

    /// The child has nothing more.
    pub(super) fn deactivate(&mut self, slot: Slot) {
        self.set_backlogged(slot, false);
    }

    fn set_backlogged(&mut self, slot: Slot, backlogged: bool) {
        let Some(child) = self.children.get_mut(slot) else {
            return;
        };
        let before = core::mem::replace(&mut child.backlogged, backlogged);
        if let Some(band) = self.bands.get_mut(usize::from(child.band)) {
            band.backlogged += u32::from(backlogged);
            band.backlogged -= u32::from(before);
        }
    }

    /// The next of the children's offers.
    pub(super) fn first(&self, mut offer: impl FnMut(NodeIndex) -> Option<Head>) -> Option<Head> {
        let mut offer = |slot: Slot| {
            let child = self.children.get(slot).filter(|child| child.backlogged)?;
            offer(child.node)
        };
        let mut bands = self.bands.iter().filter(|band| band.backlogged > 0);
        bands.find_map(|band| match &band.order {
            Order::Turns(ring) => ring.first(&mut offer),
            Order::Tags(tags) => tags.first(&mut offer),
        })
    }

    pub(super) fn charge(&mut self, slot: Slot, octets: u32) {
        let Some(child) = self.children.get(slot) else {
            return;
        };
        let backlogged = |slot: Slot| {
            let child = self.children.get(slot);
            child.is_some_and(|child| child.backlogged)
        };
        let band = self.bands.get_mut(usize::from(child.band));
        match band.map(|band| &mut band.order) {
            Some(Order::Turns(ring)) => ring.charge(slot, UNITS * i64::from(octets), backlogged),
            Some(Order::Tags(tags)) => tags.charge(slot, octets),
            None => {}
        }
    }

    pub(super) fn check(&self) {
        let busy = self
            .children
            .iter()
            .filter(|child| child.backlogged)
            .count();
        let counted: u32 = self.bands.iter().map(|band| band.backlogged).sum();
        assert_eq!(busy as u32, counted, "the counter is the sum");
        for (slot, child) in self.children.iter().enumerate() {
            let band = self.bands.get(usize::from(child.band));
            let band = band.map(|band| &band.order);
            if let Some(Order::Turns(ring)) = band {
                ring.check();
                assert!(
                    ring.holds(slot) || !child.backlogged,
                    "backlog takes part in turns"
                );
            }
        }
    }
}
