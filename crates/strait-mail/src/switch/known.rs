//! Messages that programs brought: a program that got no reply brings its message once more.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use strait_core::Duration;
use strait_core::node::StoreOp;

use crate::command::{MailFrom, RcptTo};

/// Messages that are known at a time.
const KNOWN_MAX: usize = 4096;
/// Of those that nobody brings again any more, so many are forgotten with each that comes.
const OLD_MAX: usize = 4;
/// What storage has of one: all is in the key.
const KNOWN: &[u8] = b"mail/known/";

/// What tells a message: its octets, its envelope and its precedence.
pub(super) type Digest = [u8; 32];

/// A message's octets so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Digesting(Sha256);

impl Digesting {
    pub(super) fn take(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// The whole message, for these, that goes on with this value. The time by which it is to be
    /// there doesn't count: that is shorter each time.
    pub(super) fn end(self, mail: &MailFrom, recipients: &[RcptTo], wire: i8) -> Digest {
        let mut all: Vec<_> = recipients
            .iter()
            .map(|it| format!("{} {} {:?}", it.address, it.notify.text(), it.orcpt))
            .collect();
        all.sort_unstable();
        let by = mail.by.map(|it| (it.returns, it.traced));
        let envelope = format!(
            "{}\n{wire} {:?} {:?} {:?} {by:?}\n{}",
            mail.sender,
            mail.body,
            mail.headers_only,
            mail.envid,
            all.join("\n")
        );
        let text = self.0.finalize();
        Sha256::new()
            .chain_update(text)
            .chain_update(envelope)
            .finalize()
            .into()
    }
}

/// What became of a message that comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// It is being stored.
    Storing,
    /// It was taken by this number.
    Taken(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    digest: Digest,
    id: u64,
    /// Seconds since 1970-01-01; 0 if nobody knew.
    taken_s: u64,
}

/// By their order.
#[derive(Debug)]
pub(super) struct Known {
    /// How long a message is known.
    window_s: u64,
    storing: BTreeMap<u64, Entry>,
    taken: BTreeMap<u64, Entry>,
    next: u64,
}

impl Entry {
    fn key(&self, order: u64) -> Vec<u8> {
        let mut key = format!("{order:020}-{}-{}-", self.id, self.taken_s);
        for octet in self.digest {
            // Writing to a string doesn't fail.
            let _ = write!(key, "{octet:02x}");
        }
        [KNOWN, key.as_bytes()].concat()
    }

    fn parse(key: &[u8]) -> Option<(u64, Self)> {
        let text = core::str::from_utf8(key.strip_prefix(KNOWN)?).ok()?;
        let words: Vec<&str> = text.split('-').collect();
        let [order, id, taken_s, hex] = words[..] else {
            return None;
        };
        let mut digest = Digest::default();
        for (at, octet) in digest.iter_mut().enumerate() {
            *octet = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        let (id, taken_s) = (id.parse().ok()?, taken_s.parse().ok()?);
        let entry = Self {
            digest,
            id,
            taken_s,
        };
        Some((order.parse().ok()?, entry))
    }
}

impl Known {
    /// What storage has of it, and what of that is to be forgotten.
    pub(super) fn restore(window: Duration, stored: &[(Vec<u8>, u64)]) -> (Self, Vec<StoreOp>) {
        let mut taken: BTreeMap<_, _> =
            stored.iter().filter_map(|it| Entry::parse(&it.0)).collect();
        let next = taken.last_key_value().map_or(0, |(order, _)| order + 1);
        let window_s = window.as_secs();
        let gone: Vec<_> = taken.extract_if(.., |_, _| window_s == 0).collect();
        let gone = gone
            .iter()
            .map(|(order, it)| StoreOp::Delete(it.key(*order)));
        let gone = gone.collect();
        let storing = BTreeMap::new();
        let known = Self {
            window_s,
            storing,
            taken,
            next,
        };
        (known, gone)
    }

    /// Whether messages are known at all.
    pub(super) const fn is_on(&self) -> bool {
        self.window_s > 0
    }

    fn is_old(&self, now_s: u64, entry: &Entry) -> bool {
        let timed = now_s > 0 && entry.taken_s > 0;
        timed && now_s > entry.taken_s + self.window_s
    }

    /// What became of a message.
    pub(super) fn find(&self, now_s: u64, digest: &Digest) -> Option<Before> {
        let is = |it: &&Entry| it.digest == *digest;
        if self.storing.values().any(|it| is(&it)) {
            return Some(Before::Storing);
        }
        let found = self.taken.values().rev().find(is)?;
        (!self.is_old(now_s, found)).then_some(Before::Taken(found.id))
    }

    /// A message is being stored: its order, and what is to be stored with it.
    pub(super) fn store(&mut self, now_s: u64, id: u64, digest: Digest) -> (u64, Vec<StoreOp>) {
        let order = self.next;
        self.next += 1;
        let entry = Entry {
            digest,
            id,
            taken_s: now_s,
        };
        let mut batch = alloc::vec![StoreOp::Put(entry.key(order), b"1".to_vec())];
        self.storing.insert(order, entry);
        while batch.len() <= OLD_MAX
            && let Some((order, oldest)) = self.taken.first_key_value()
            && (self.taken.len() >= KNOWN_MAX || self.is_old(now_s, oldest))
        {
            batch.push(StoreOp::Delete(oldest.key(*order)));
            self.taken.pop_first();
        }
        (order, batch)
    }

    /// It is stored, or isn't.
    pub(super) fn stored(&mut self, order: u64, there: bool) {
        if let Some(entry) = self.storing.remove(&order).filter(|_| there) {
            self.taken.insert(order, entry);
        }
    }

    /// Somebody doesn't get this message, and its sender is told: who brings it again means it.
    pub(super) fn forget(&mut self, id: u64) -> Option<StoreOp> {
        let (order, _) = self.taken.iter().find(|it| it.1.id == id)?;
        let order = *order;
        let entry = self.taken.remove(&order)?;
        Some(StoreOp::Delete(entry.key(order)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(100);

    fn known() -> Known {
        Known::restore(WINDOW, &[]).0
    }

    fn take(known: &mut Known, now_s: u64, id: u64) -> Vec<StoreOp> {
        let (order, batch) = known.store(now_s, id, [id as u8; 32]);
        known.stored(order, true);
        batch
    }

    #[test]
    fn a_message_is_known_for_its_time_and_not_a_second_longer() {
        let mut known = known();
        take(&mut known, 1000, 7);
        assert_eq!(known.find(1100, &[7; 32]), Some(Before::Taken(7)));
        assert_eq!(known.find(1101, &[7; 32]), None);
        assert_eq!(known.find(1000, &[8; 32]), None);
        // Nobody knows what time it is.
        assert_eq!(known.find(0, &[7; 32]), Some(Before::Taken(7)));
        let batch = take(&mut known, 1101, 8);
        assert!(matches!(&batch[..], [StoreOp::Put(..), StoreOp::Delete(_)]));
        assert_eq!(known.taken.len(), 1);
    }

    #[test]
    fn as_many_are_known_as_there_is_room_for() {
        let mut known = known();
        for id in 0..KNOWN_MAX as u64 + 10 {
            let batch = take(&mut known, 1000, id);
            assert_eq!(batch.len(), 1 + usize::from(id >= KNOWN_MAX as u64));
        }
        assert_eq!(known.taken.len(), KNOWN_MAX);
    }

    #[test]
    fn what_is_stored_is_known_again() {
        let mut known = known();
        let (order, batch) = known.store(1000, 7, [0xab; 32]);
        assert_eq!(known.find(1000, &[0xab; 32]), Some(Before::Storing));
        known.stored(order, false);
        assert_eq!(known.find(1000, &[0xab; 32]), None);
        let StoreOp::Put(key, _) = &batch[0] else {
            panic!("{batch:?}");
        };
        let stored = [(key.clone(), 1), (b"mail/known/x".to_vec(), 1)];
        let (mut again, gone) = Known::restore(WINDOW, &stored);
        assert!(gone.is_empty());
        assert_eq!(again.find(1000, &[0xab; 32]), Some(Before::Taken(7)));
        assert_eq!(again.next, order + 1);
        assert_eq!(again.forget(7), Some(StoreOp::Delete(key.clone())));
        assert_eq!(again.find(1000, &[0xab; 32]), None);
        let (off, gone) = Known::restore(Duration::ZERO, &stored);
        assert_eq!(gone, [StoreOp::Delete(key.clone())]);
        assert!(!off.is_on());
    }
}
