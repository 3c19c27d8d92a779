//! What is known, as octets that outlive a gateway: entries in a row, the later one of two for the
//! same being right.
//!
//! ```text
//! +---------+---------+---------+------+--------+--------+------+
//! | length  |  came   |  type   | care |  name length, name  | body |
//! |   2 B   |   4 B   |   2 B   | 1 B  |   2 B               |      |
//! +---------+---------+---------+------+---------------------+------+
//! ```
//!
//! Came: in seconds since 1970, 0 where the time wasn't known.

use alloc::vec::Vec;

use hickory_proto::rr::RecordType;
use strait_core::{Duration, Instant};

use crate::body::{Body, take};
use crate::cache::{Cache, Key};
use crate::frame::Care;
use crate::name;

/// Something that is known, and since when in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// What was asked for.
    pub key: Key,
    /// What is known.
    pub body: Body,
    /// When it came, where that was known.
    pub came_s: Option<u32>,
}

const VERIFIES: u8 = 1;
const UNCHECKED: u8 = 2;

/// Appends an entry.
pub fn write(key: &Key, body: &Body, came_s: Option<u32>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&came_s.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&key.kind.to_be_bytes());
    let verifies = if key.care.verifies { VERIFIES } else { 0 };
    let unchecked = if key.care.unchecked { UNCHECKED } else { 0 };
    out.push(verifies | unchecked);
    let mut octets = Vec::new();
    name::write(&key.name, &mut octets);
    out.extend_from_slice(&(octets.len() as u16).to_be_bytes());
    out.extend_from_slice(&octets);
    body.write(RecordType::from(key.kind), out);
    let length = out.len() - start - 2;
    out[start..start + 2].copy_from_slice(&(length as u16).to_be_bytes());
}

/// Takes an entry off `octets`: `None` if there is none that is whole. What can't be read is left
/// out.
pub fn read(octets: &mut &[u8]) -> Option<Option<Saved>> {
    let mut rest = *octets;
    let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
    let (entry, rest) = rest.split_at_checked(length)?;
    *octets = rest;
    Some(read_one(entry))
}

fn read_one(mut entry: &[u8]) -> Option<Saved> {
    let entry = &mut entry;
    let came_s = u32::from_be_bytes(take(entry)?);
    let kind = u16::from_be_bytes(take(entry)?);
    let [care] = take(entry)?;
    let length = usize::from(u16::from_be_bytes(take(entry)?));
    let (octets, rest) = entry.split_at_checked(length)?;
    *entry = rest;
    let key = Key {
        name: name::read(octets)?,
        kind,
        care: Care {
            verifies: care & VERIFIES != 0,
            unchecked: care & UNCHECKED != 0,
        },
    };
    let body = Body::read(RecordType::from(kind), entry)?;
    entry.is_empty().then_some(Saved {
        key,
        body,
        came_s: Some(came_s).filter(|came_s| *came_s > 0),
    })
}

/// What has become known since it was saved last, and when.
#[derive(Debug)]
pub(crate) struct Diary {
    /// Entries, where anything is saved.
    unsaved: Option<Vec<u8>>,
    /// Seconds since 1970 at a moment, where that is known.
    calendar: Option<(Instant, u64)>,
}

impl Diary {
    /// An empty one; with `saves` it takes notes.
    pub(crate) fn new(saves: bool) -> Self {
        Self {
            unsaved: saves.then(Vec::new),
            calendar: None,
        }
    }

    pub(crate) const fn set_calendar(&mut self, now: Instant, since_1970_s: u64) {
        self.calendar = Some((now, since_1970_s));
    }

    fn today_s(&self, now: Instant) -> Option<u32> {
        let (at, seconds) = self.calendar?;
        u32::try_from(seconds + now.since(at).as_secs()).ok()
    }

    /// Something has become known.
    pub(crate) fn note(&mut self, now: Instant, key: &Key, body: &Body) {
        let today_s = self.today_s(now);
        let known = body.is_known() && body.life_s > 0;
        if let Some(unsaved) = self.unsaved.as_mut().filter(|_| known) {
            write(key, body, today_s, unsaved);
        }
    }

    /// What has become known since it was taken last.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.unsaved
            .as_mut()
            .map(core::mem::take)
            .unwrap_or_default()
    }

    /// Octets of that.
    pub(crate) fn octets(&self) -> usize {
        self.unsaved.as_ref().map_or(0, Vec::len)
    }

    /// All that a cache knows.
    pub(crate) fn all(&mut self, now: Instant, cache: &Cache) -> Vec<u8> {
        self.take();
        let mut out = Vec::new();
        for (key, body, fresh) in cache.iter().filter(|(_, body, _)| body.is_known()) {
            let gone = (now + Duration::from_secs(u64::from(body.life_s))).since(fresh);
            // Rather older than it is than younger.
            let gone_s = gone.as_nanos().div_ceil(1_000_000_000);
            let gone_s = u32::try_from(gone_s).unwrap_or(u32::MAX);
            let came_s = self.today_s(now).and_then(|it| it.checked_sub(gone_s));
            write(key, body, came_s, &mut out);
        }
        out
    }

    /// Has a cache take in what was saved; how many of the octets it was.
    pub(crate) fn restore(&self, now: Instant, octets: &[u8], cache: &mut Cache) -> usize {
        let today_s = self.today_s(now);
        let mut rest = octets;
        while let Some(entry) = read(&mut rest) {
            let Some(Saved { key, body, came_s }) = entry else {
                continue;
            };
            let ago_s = today_s
                .zip(came_s)
                .and_then(|(now, came)| now.checked_sub(came));
            let ago = ago_s.map(|it| Duration::from_secs(u64::from(it)));
            cache.restore(now, key, body, ago);
        }
        octets.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec;

    use proptest::prelude::*;

    use crate::body::Outcome;

    fn saved(text: &str, came_s: Option<u32>) -> Saved {
        let care = Care {
            verifies: false,
            unchecked: true,
        };
        Saved {
            key: Key::new(&name::parse(text).unwrap(), RecordType::A, care),
            body: Body {
                outcome: Outcome::Records,
                zone: 0,
                life_s: 288,
                records: vec![vec![192, 0, 2, 1]],
            },
            came_s,
        }
    }

    #[test]
    fn entries_come_back_up_to_one_that_is_cut_short() {
        let all = [saved("a.example", Some(1_800_000_000)), saved(".", None)];
        let mut out = Vec::new();
        for it in &all {
            write(&it.key, &it.body, it.came_s, &mut out);
        }
        let mut octets = &out[..out.len() - 1];
        assert_eq!(read(&mut octets), Some(Some(all[0].clone())));
        assert_eq!(read(&mut octets), None);
        let first = out.len() - octets.len() - 1;
        let mut octets = &out[first..];
        assert_eq!(read(&mut octets), Some(Some(all[1].clone())));
        assert!(octets.is_empty() && read(&mut octets).is_none());
    }

    #[test]
    fn what_cant_be_read_is_left_out() {
        let mut out = vec![0, 3, 1, 2, 3];
        let right = saved("a.example", None);
        write(&right.key, &right.body, None, &mut out);
        let mut octets = &out[..];
        assert_eq!(read(&mut octets), Some(None));
        assert_eq!(read(&mut octets), Some(Some(right)));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut rest = &octets[..];
            let mut before = rest.len() + 1;
            while let Some(_entry) = read(&mut rest) {
                prop_assert!(rest.len() < before);
                before = rest.len();
            }
        }
    }
}
