//! Partners as this side sees them: whom to ask for a name, the ways there, and what they keep
//! fresh.

use alloc::vec::Vec;

use hickory_proto::rr::Name;
use strait_core::Instant;

use crate::cache::Key;
use crate::watched::Watches;
use crate::way::{LinkState, Way};

/// All of them; behind the last is this gateway itself.
#[derive(Debug)]
pub(crate) struct Partners {
    zones: Vec<Vec<Name>>,
    ways: Vec<Way>,
    watches: Vec<Watches>,
}

impl Partners {
    /// Those that are asked for names of these zones.
    pub(crate) fn new(zones: Vec<Vec<Name>>) -> Self {
        Self {
            ways: (0..=zones.len()).map(|_| Way::default()).collect(),
            watches: zones.iter().map(|_| Watches::default()).collect(),
            zones,
        }
    }

    /// This gateway itself.
    pub(crate) const fn own(&self) -> usize {
        self.zones.len()
    }

    /// The one with the longest zone that a name is in.
    pub(crate) fn of(&self, name: &Name) -> Option<usize> {
        let zones = self.zones.iter().enumerate();
        let all = zones.flat_map(|(at, zones)| zones.iter().map(move |zone| (zone, at)));
        let own = all.filter(|(zone, _)| zone.zone_of(name));
        let longest = own.max_by_key(|(zone, at)| (zone.num_labels(), usize::MAX - at));
        longest.map(|(_, at)| at)
    }

    pub(crate) fn way(&self, partner: usize) -> Way {
        self.ways.get(partner).copied().unwrap_or_default()
    }

    pub(crate) fn way_mut(&mut self, partner: usize) -> Option<&mut Way> {
        self.ways.get_mut(partner)
    }

    pub(crate) fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// How it is with the link to one.
    pub(crate) fn set_link(&mut self, partner: usize, link: Option<LinkState>) {
        if let Some(way) = self.ways.get_mut(partner) {
            way.link = link;
        }
    }

    /// What one keeps fresh; nothing by this gateway itself.
    pub(crate) fn watches(&self, partner: usize) -> Option<&Watches> {
        self.watches.get(partner)
    }

    pub(crate) fn watches_mut(&mut self, partner: usize) -> Option<&mut Watches> {
        self.watches.get_mut(partner)
    }

    /// How many names are kept fresh.
    pub(crate) fn watched(&self) -> u64 {
        self.watches.iter().map(|it| it.len() as u64).sum()
    }

    /// Whether one keeps something fresh.
    pub(crate) fn keep(&self, now: Instant, key: &Key) -> bool {
        let kept = |it: &Watches| it.keeps(now, &key.name, key.kind);
        key.care.is_usual() && self.watches.iter().any(kept)
    }

    /// What is to be said to one of that.
    pub(crate) fn poll_quiet(&mut self, now: Instant, partner: usize) -> Option<Vec<u8>> {
        self.ways.get(partner)?.link?;
        self.watches.get_mut(partner)?.poll_frame(now)
    }

    pub(crate) fn tend(&mut self, now: Instant) {
        self.watches.iter_mut().for_each(|it| it.tend(now));
    }

    pub(crate) fn wake(&self) -> Option<Instant> {
        let ways = self.watches.iter().zip(&self.ways);
        let linked = ways.filter(|(_, way)| way.link.is_some());
        linked.filter_map(|(it, _)| it.wake()).min()
    }

    pub(crate) fn check(&self) {
        self.watches.iter().for_each(Watches::check);
    }
}
