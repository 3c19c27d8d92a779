//! Stable storage of a simulated node.

use std::collections::BTreeMap;

use strait_core::chance::Stream;
use strait_core::node::{StoreError, StoreOp, Ticket};
use strait_core::{Duration, Instant};

/// Values by key, and the batches that are not on stable storage yet.
#[derive(Debug, Default)]
pub(crate) struct Store {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// By number, in the order in which they were begun.
    pending: BTreeMap<u64, (Ticket, Vec<StoreOp>)>,
    /// Batches begun so far.
    begun: u64,
}

/// Time until a batch is stable: that of a small synchronous write to flash storage.
const LATENCY: Duration = Duration::from_millis(2);

impl Store {
    /// Begins to store a batch; returns its number, and when it is stable.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        ticket: Ticket,
        batch: Vec<StoreOp>,
    ) -> (u64, Instant) {
        let number = self.begun;
        self.begun += 1;
        self.pending.insert(number, (ticket, batch));
        (number, now + LATENCY)
    }

    /// Makes a batch stable; nothing if a crash has decided about it.
    pub(crate) fn complete(&mut self, number: u64) -> Option<(Ticket, Result<(), StoreError>)> {
        let (ticket, batch) = self.pending.remove(&number)?;
        self.apply(batch);
        Some((ticket, Ok(())))
    }

    fn apply(&mut self, batch: Vec<StoreOp>) {
        for op in batch {
            match op {
                StoreOp::Put(key, value) => {
                    self.values.insert(key, value);
                }
                StoreOp::Append(key, more) => self.values.entry(key).or_default().extend(more),
                StoreOp::Delete(key) => {
                    self.values.remove(&key);
                }
            }
        }
    }

    /// The node has crashed: each batch that was not acknowledged is stored whole or lost whole.
    pub(crate) fn crash(&mut self, chance: &mut Stream) {
        for (_, (_, batch)) in std::mem::take(&mut self.pending) {
            if chance.happens(0.5) {
                self.apply(batch);
            }
        }
    }

    /// A value from `offset` on; empty if there is none.
    pub(crate) fn read(&self, key: &[u8], offset: u64) -> Vec<u8> {
        let value = self.values.get(key).map_or(&[][..], Vec::as_slice);
        let offset = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(value.len());
        value[offset..].to_vec()
    }

    /// Everything stored.
    pub(crate) fn contents(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.values
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use strait_core::node::Owner;

    use super::*;

    const TICKET: Ticket = Ticket {
        owner: Owner(0),
        n: 1,
    };

    #[test]
    fn a_crash_applies_a_batch_whole_or_not_at_all() {
        let mut seen = [false; 2];
        for seed in 0..32 {
            let mut store = Store::default();
            let put = |key: &[u8]| StoreOp::Put(key.to_vec(), b"x".to_vec());
            store.begin(Instant::ZERO, TICKET, vec![put(b"a"), put(b"b")]);
            store.crash(&mut Stream::new(seed, "crash"));
            let stored = store.contents().len();
            assert!(stored == 0 || stored == 2);
            seen[stored / 2] = true;
            assert!(store.complete(0).is_none());
        }
        assert_eq!(seen, [true, true]);
    }

    #[test]
    fn a_batch_of_a_former_life_says_nothing_to_the_next_that_uses_its_ticket() {
        let mut store = Store::default();
        let batch = || vec![StoreOp::Put(b"k".to_vec(), b"new".to_vec())];
        let (first, _) = store.begin(Instant::ZERO, TICKET, Vec::new());
        store.crash(&mut Stream::new(1, "crash"));
        let (second, _) = store.begin(Instant::from_nanos(1), TICKET, batch());
        assert_eq!(store.complete(first), None);
        assert!(store.read(b"k", 0).is_empty());
        assert_eq!(store.complete(second), Some((TICKET, Ok(()))));
        assert_eq!(store.read(b"k", 0), b"new");
    }

    #[test]
    fn values_are_read_from_any_offset() {
        let mut store = Store::default();
        let (number, _) = store.begin(
            Instant::ZERO,
            TICKET,
            vec![StoreOp::Append(b"k".to_vec(), b"abc".to_vec())],
        );
        assert!(store.read(b"k", 0).is_empty());
        assert_eq!(store.complete(number), Some((TICKET, Ok(()))));
        assert_eq!(store.read(b"k", 1), b"bc");
        assert!(store.read(b"k", 9).is_empty());
    }
}
