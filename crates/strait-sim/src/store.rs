//! Stable storage of a simulated node.

use std::collections::BTreeMap;

use strait_core::chance::Stream;
use strait_core::node::{StoreError, StoreOp, Ticket};
use strait_core::{Duration, Instant};

/// Values by key, and the batches that are not on stable storage yet.
#[derive(Debug, Default)]
pub(crate) struct Store {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// By ticket, with the moment at which they are.
    pending: BTreeMap<u64, (Instant, Vec<StoreOp>)>,
}

/// Time until a batch is stable: that of a small synchronous write to flash storage.
const LATENCY: Duration = Duration::from_millis(2);

impl Store {
    /// Begins to store a batch; returns when it is stable.
    pub(crate) fn begin(&mut self, now: Instant, ticket: Ticket, batch: Vec<StoreOp>) -> Instant {
        let stable_at = now + LATENCY;
        self.pending.insert(ticket.0, (stable_at, batch));
        stable_at
    }

    /// Makes a batch stable; nothing if a crash has decided about it. The node's next life may have
    /// begun another under the same number: that one's own time has to come.
    pub(crate) fn complete(
        &mut self,
        now: Instant,
        ticket: u64,
    ) -> Option<(Ticket, Result<(), StoreError>)> {
        self.pending
            .get(&ticket)
            .filter(|(stable_at, _)| *stable_at <= now)?;
        let (_, batch) = self.pending.remove(&ticket)?;
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
            assert!(store.complete(Instant::from_secs(1), 1).is_none());
        }
        assert_eq!(seen, [true, true]);
    }

    #[test]
    fn a_ticket_used_again_waits_for_its_own_time() {
        let mut store = Store::default();
        let batch = || vec![StoreOp::Put(b"k".to_vec(), b"new".to_vec())];
        let first_at = store.begin(Instant::ZERO, Ticket(1), Vec::new());
        store.crash(&mut Stream::new(1, "crash"));
        let second_at = store.begin(Instant::from_nanos(1), Ticket(1), batch());
        assert_eq!(store.complete(first_at, 1), None);
        assert!(store.read(b"k", 0).is_empty());
        assert_eq!(store.complete(second_at, 1), Some((Ticket(1), Ok(()))));
        assert_eq!(store.read(b"k", 0), b"new");
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
        let stable_at = Instant::ZERO + LATENCY;
        assert_eq!(store.complete(stable_at, 1), Some((Ticket(1), Ok(()))));
        assert_eq!(store.read(b"k", 1), b"bc");
        assert!(store.read(b"k", 9).is_empty());
    }
}
