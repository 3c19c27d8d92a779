//! Where what the DNS proxy knows is kept: one value, to which is appended, and which is written
//! anew when it is twice as long as what may be known.

use alloc::vec;
use alloc::vec::Vec;

use strait_core::node::{Owner, StoreError, StoreOp, Ticket};
use strait_core::storage::LOAD_OCTETS_MAX;
use strait_core::{Duration, Effect, Instant};
use strait_dns::Near;

/// The value.
pub(super) const KEY: &[u8] = b"dns/known";
/// How much time is between two batches: names come together, and flash wears out.
const PAUSE: Duration = Duration::from_secs(10);

/// What is being read from the storage.
#[derive(Debug)]
struct Loading {
    offset: u64,
    /// What has come and is no whole entry yet.
    rest: Vec<u8>,
}

/// The value, and what is under way to it or from it.
#[derive(Debug)]
pub(super) struct Store {
    owner: Owner,
    /// Octets of all that may be known.
    octets_max: u64,
    /// Octets of the value.
    length: u64,
    loading: Option<Loading>,
    /// The value is to be written anew.
    anew: bool,
    tickets: u64,
    awaits: bool,
    next: Instant,
}

impl Store {
    /// A store that finds a value of so many octets.
    pub(super) fn new(owner: Owner, octets_max: u64, length: u64) -> Self {
        Self {
            owner,
            octets_max,
            length,
            loading: (length > 0).then(|| Loading {
                offset: 0,
                rest: Vec::new(),
            }),
            anew: false,
            tickets: 0,
            awaits: false,
            next: Instant::ZERO,
        }
    }

    const fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.awaits = true;
        Ticket {
            owner: self.owner,
            n: self.tickets,
        }
    }

    /// What it asks of the storage now.
    pub(super) fn tend(&mut self, now: Instant, near: &mut Near) -> Option<Effect> {
        if self.awaits {
            return None;
        }
        if let Some(offset) = self.loading.as_ref().map(|it| it.offset) {
            return Some(Effect::Load {
                ticket: self.ticket(),
                key: KEY.to_vec(),
                offset,
                octets: LOAD_OCTETS_MAX,
            });
        }
        let unsaved = near.memory().unsaved_octets() as u64;
        if unsaved == 0 || now < self.next {
            return None;
        }
        self.next = now + PAUSE;
        let anew = core::mem::take(&mut self.anew) || self.length + unsaved > 2 * self.octets_max;
        let op = if anew {
            let all = near.memory_mut().saved(now);
            self.length = all.len() as u64;
            StoreOp::Put(KEY.to_vec(), all)
        } else {
            self.length += unsaved;
            StoreOp::Append(KEY.to_vec(), near.memory_mut().take_unsaved())
        };
        Some(Effect::Store {
            ticket: self.ticket(),
            batch: vec![op],
        })
    }

    /// A batch is there, or isn't: then all is written anew.
    pub(super) const fn hear_stored(&mut self, result: Result<(), StoreError>) {
        self.awaits = false;
        if result.is_err() {
            self.anew = true;
        }
    }

    /// A chunk of the value, or none.
    pub(super) fn hear_loaded(
        &mut self,
        now: Instant,
        result: Result<Option<&[u8]>, StoreError>,
        near: &mut Near,
    ) {
        self.awaits = false;
        let Some(mut loading) = self.loading.take() else {
            return;
        };
        let chunk = result.ok().flatten().unwrap_or_default();
        loading.offset += chunk.len() as u64;
        loading.rest.extend_from_slice(chunk);
        let taken = near.memory_mut().restore(now, &loading.rest);
        loading.rest.drain(..taken);
        if !chunk.is_empty() && loading.offset < self.length {
            self.loading = Some(loading);
        } else if !loading.rest.is_empty() || chunk.is_empty() {
            // What is appended behind an entry that is cut short couldn't be read.
            self.anew = true;
        }
    }

    /// When it has something to ask.
    pub(super) fn wake(&self, near: &Near) -> Option<Instant> {
        let waits = !self.awaits && self.loading.is_none() && near.memory().unsaved_octets() > 0;
        waits.then_some(self.next)
    }
}
