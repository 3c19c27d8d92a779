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
//! Came: in seconds since 1970, 0 where the time wasn't known. Care has a bit for an address ahead
//! of its answer: the body has that.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use hickory_proto::rr::{Name, RecordType};

use crate::body::{Body, Outcome, take};
use crate::cache::Key;
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

/// What was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Something that is known.
    Known(Saved),
    /// The address by which a name goes ahead of its answer.
    Ahead(Name, Ipv4Addr),
}

const VERIFIES: u8 = 1;
const UNCHECKED: u8 = 2;
const AHEAD: u8 = 4;

/// Appends an entry.
pub fn write(key: &Key, body: &Body, came_s: Option<u32>, out: &mut Vec<u8>) {
    write_entry(key, body, came_s, 0, out);
}

/// Appends an address ahead of its answer.
pub fn write_ahead(name: &Name, address: Ipv4Addr, out: &mut Vec<u8>) {
    let key = Key::new(name, RecordType::A, Care::default());
    let body = Body {
        records: Vec::from([address.octets().to_vec()]),
        ..Body::empty(Outcome::Records, 0)
    };
    write_entry(&key, &body, None, AHEAD, out);
}

fn write_entry(key: &Key, body: &Body, came_s: Option<u32>, flags: u8, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&came_s.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&key.kind.to_be_bytes());
    let verifies = if key.care.verifies { VERIFIES } else { 0 };
    let unchecked = if key.care.unchecked { UNCHECKED } else { 0 };
    out.push(verifies | unchecked | flags);
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
pub fn read(octets: &mut &[u8]) -> Option<Option<Entry>> {
    let mut rest = *octets;
    let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
    let (entry, rest) = rest.split_at_checked(length)?;
    *octets = rest;
    Some(read_one(entry))
}

fn read_one(mut entry: &[u8]) -> Option<Entry> {
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
    if !entry.is_empty() {
        return None;
    }
    if care & AHEAD != 0 {
        let address = body.records.first()?.first_chunk::<4>()?;
        return Some(Entry::Ahead(key.name, Ipv4Addr::from(*address)));
    }
    Some(Entry::Known(Saved {
        key,
        body,
        came_s: Some(came_s).filter(|came_s| *came_s > 0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec;

    use proptest::prelude::*;

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
        assert_eq!(read(&mut octets), Some(Some(Entry::Known(all[0].clone()))));
        assert_eq!(read(&mut octets), None);
        let first = out.len() - octets.len() - 1;
        let mut octets = &out[first..];
        assert_eq!(read(&mut octets), Some(Some(Entry::Known(all[1].clone()))));
        assert!(octets.is_empty() && read(&mut octets).is_none());
    }

    #[test]
    fn what_cant_be_read_is_left_out() {
        let mut out = vec![0, 3, 1, 2, 3];
        let right = saved("a.example", None);
        write(&right.key, &right.body, None, &mut out);
        let mut octets = &out[..];
        assert_eq!(read(&mut octets), Some(None));
        assert_eq!(read(&mut octets), Some(Some(Entry::Known(right))));
    }

    #[test]
    fn an_address_ahead_comes_back() {
        let (name, address) = (
            name::parse("a.example").unwrap(),
            Ipv4Addr::new(198, 19, 0, 1),
        );
        let mut out = Vec::new();
        write_ahead(&name, address, &mut out);
        let entry = Some(Entry::Ahead(name, address));
        assert_eq!(read(&mut &out[..]), Some(entry));
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
