//! Stable storage of a simulated node.

use std::collections::BTreeMap;

use strait_core::chance::Stream;
use strait_core::node::{StoreError, StoreOp, Ticket};
use strait_core::{Duration, Instant};

/// Values by key, and the batches that are not on stable storage yet.
#[derive(Debug, Default)]
pub(crate) struct Store {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: BTreeMap<u64, Vec<StoreOp>>,
}

/// Time until a batch is stable: that of a small synchronous write to flash storage.
const LATENCY: Duration = Duration::from_millis(2);

impl Store {
    /// Begins to store a batch; returns when it is stable.
    pub(crate) fn begin(&mut self, now: Instant, ticket: Ticket, batch: Vec<StoreOp>) -> Instant {
        self.pending.insert(ticket.0, batch);
        now + LATENCY
    }

    /// Makes a batch stable; nothing if a crash has decided about it.
    pub(crate) fn complete(&mut self, ticket: u64) -> Option<(Ticket, Result<(), StoreError>)> {
        let batch = self.pending.remove(&ticket)?;
        self.apply(batch);
        Some((Ticket(ticket), Ok(())))
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
        for (_, batch) in std::mem::take(&mut self.pending) {
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
    use super::*;

    #[test]
    fn a_crash_applies_a_batch_whole_or_not_at_all() {
        let mut seen = [false; 2];
        for seed in 0..32 {
            let mut store = Store::default();
            let put = |key: &[u8]| StoreOp::Put(key.to_vec(), b"x".to_vec());
            store.begin(Instant::ZERO, Ticket(1), vec![put(b"a"), put(b"b")]);
            store.crash(&mut Stream::new(seed, "crash"));
            let stored = store.contents().len();
            assert!(stored == 0 || stored == 2);
            seen[stored / 2] = true;
            assert!(store.complete(1).is_none());
        }
        assert_eq!(seen, [true, true]);
    }

    #[test]
    fn values_are_read_from_any_offset() {
        let mut store = Store::default();
        store.begin(
            Instant::ZERO,
            Ticket(1),
            vec![StoreOp::Append(b"k".to_vec(), b"abc".to_vec())],
        );
        assert!(store.read(b"k", 0).is_empty());
        assert_eq!(store.complete(1), Some((Ticket(1), Ok(()))));
        assert_eq!(store.read(b"k", 1), b"bc");
        assert!(store.read(b"k", 9).is_empty());
    }
}
