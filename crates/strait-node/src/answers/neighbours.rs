//! Hosts beyond the links that are known to be there.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use strait_core::{Duration, Instant};

use super::{Learned, Validity};
use crate::route::Hop;

/// When each host was heard.
#[derive(Debug)]
pub(super) struct Neighbours {
    valid: Duration,
    entries: BTreeMap<IpAddr, Entry>,
    /// When as many hosts as ever may be asked at once.
    rested_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    by: Hop,
    /// Last, also after its end: who was heard before is no surprise.
    heard: Option<Validity>,
    /// It isn't asked for a sign again before.
    again: Instant,
}

impl Neighbours {
    /// Hosts that fit; an entry takes about 60 octets.
    pub(super) const ENTRIES_MAX: usize = 1024;
    /// Time between two questions across the link for a host: a round trip on most, and no more
    /// than hosts themselves ask on an Ethernet.
    pub(super) const AGAIN: Duration = Duration::from_secs(1);
    /// Hosts asked at once; after them one each [`Self::AGAIN`]. A sweep over a network's addresses
    /// on the Ethernet must not fill the line.
    pub(super) const ASKED_MAX: u32 = 8;

    pub(super) const fn new(valid: Duration) -> Self {
        Self {
            valid,
            entries: BTreeMap::new(),
            rested_at: Instant::ZERO,
        }
    }

    /// A host was heard.
    pub(super) fn hear(&mut self, now: Instant, src: IpAddr, by: Hop, learned: &mut Learned) {
        let again = self.last(src, by).is_some();
        let heard = Some(Validity::begin(now, self.valid, again));
        learned.stored += u64::from(!self.is_there(now, src, by));
        if !self.entries.contains_key(&src) {
            learned.displaced += self.make_place();
        }
        let again = now;
        self.entries.insert(src, Entry { by, heard, again });
    }

    pub(super) fn is_there(&self, now: Instant, address: IpAddr, by: Hop) -> bool {
        self.last(address, by).is_some_and(|heard| heard.holds(now))
    }

    /// The last word of a host that came by this hop.
    fn last(&self, address: IpAddr, by: Hop) -> Option<Validity> {
        let entry = self.entries.get(&address).filter(|entry| entry.by == by);
        entry.and_then(|entry| entry.heard)
    }

    /// Whether a host may be asked for a sign now; takes note that it is.
    pub(super) fn ask(&mut self, now: Instant, address: IpAddr, by: Hop) -> bool {
        if let Some(entry) = self.entries.get(&address)
            && now < entry.again
        {
            return false;
        }
        let rested_at = self.rested_at.max(now) + Self::AGAIN;
        if rested_at.since(now) > Self::AGAIN * Self::ASKED_MAX {
            return false;
        }
        self.rested_at = rested_at;
        if !self.entries.contains_key(&address) {
            self.make_place();
        }
        let entry = Entry {
            by,
            heard: self.last(address, by),
            again: now + Self::AGAIN,
        };
        self.entries.insert(address, entry);
        true
    }

    /// Takes hosts for silent by where they were heard and who they are; says how many weren't.
    pub(super) fn forget(&mut self, which: impl Fn(Hop, IpAddr) -> bool) -> u64 {
        let mut known = 0;
        for (address, entry) in &mut self.entries {
            if which(entry.by, *address) {
                known += u64::from(entry.heard.take().is_some());
            }
        }
        known
    }

    /// Gives up the entry that would end first, if there is no place for another; says whether that
    /// was of a host heard.
    fn make_place(&mut self) -> u64 {
        if self.entries.len() < Self::ENTRIES_MAX {
            return 0;
        }
        let until = |entry: &Entry| entry.heard.map(|heard| heard.until);
        let first = self.entries.iter().min_by_key(|(_, entry)| until(entry));
        let address = first.map(|(address, _)| *address);
        let gone = address.and_then(|address| self.entries.remove(&address));
        u64::from(gone.is_some_and(|entry| entry.heard.is_some()))
    }
}
