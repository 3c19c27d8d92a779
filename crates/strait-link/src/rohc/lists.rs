//! Compressed lists of extension headers (RFC 3095 section 5.8): what a decompressor keeps to read
//! them, and the one form in which a compressor says them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::envelope::{List, take_header};
use super::numbers::Cursor;

/// The most items of a compressed list: its count has four bits.
const ITEMS_MAX: usize = 15;
/// Places of items that are kept. A number has seven bits, but there are few kinds of header.
const PLACES: usize = 16;
/// Lists that are kept to refer to, the newest.
const REFERENCES_MAX: usize = 4;

/// What a decompressor keeps to read one kind of list.
#[derive(Clone, Debug, Default)]
struct Table {
    /// Headers by their places.
    items: [Option<List>; PLACES],
    /// Lists by their generations, as places of their items, oldest first.
    references: Vec<(u8, Vec<u8>)>,
}

/// The lists of the outer IP header and of the inner one.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    tables: [Option<Box<Table>>; 2],
}

/// Which IP header a list is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Outer,
    Inner,
}

/// Reads lists from one packet. What they change is kept apart until the packet's check says that
/// it is right.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    known: &'a Tables,
    fresh: Option<Tables>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(known: &'a Tables) -> Self {
        Self { known, fresh: None }
    }

    /// What is known now.
    pub(super) fn into_tables(self) -> Tables {
        self.fresh.unwrap_or_else(|| self.known.clone())
    }

    /// What is known once the packet turned out right, if it is any news.
    pub(super) fn into_news(self) -> Option<Tables> {
        self.fresh
    }

    /// Reads a list of the dynamic chain. An octet of zero says that it is `last` as before: that
    /// is how others mean it, and a list that has become empty has a generation with them.
    pub(super) fn read_or_keep(
        &mut self,
        of: Of,
        last: List,
        rest: &mut Cursor<'_>,
    ) -> Option<List> {
        if rest.0.first() == Some(&0) {
            rest.u8()?;
            return Some(last);
        }
        self.read(of, rest)
    }

    /// Reads a list.
    pub(super) fn read(&mut self, of: Of, rest: &mut Cursor<'_>) -> Option<List> {
        let known = self.known;
        let fresh = self.fresh.get_or_insert_with(|| known.clone());
        fresh.tables[of as usize].get_or_insert_default().read(rest)
    }
}

impl Table {
    fn read(&mut self, rest: &mut Cursor<'_>) -> Option<List> {
        let first = rest.u8()?;
        let (wide, low) = (first & 0x10 != 0, first & 0x0f);
        let generation = (first & 0x20 != 0).then(|| rest.u8());
        let places = match first >> 6 {
            0 => {
                let places = Places::after(None, wide, usize::from(low), rest)?;
                self.take_items(&places, rest)?
            }
            1 => {
                let reference = self.reference(rest)?;
                self.insert(&reference, wide, low, rest)?
            }
            2 => {
                let reference = self.reference(rest)?;
                remove(reference, rest)?
            }
            _ => {
                let reference = self.reference(rest)?;
                let left = remove(reference, rest)?;
                self.insert(&left, wide, low, rest)?
            }
        };
        let mut list = List::default();
        for &place in &places {
            list.push(self.items[usize::from(place)]?.octets())?;
        }
        if let Some(generation) = generation {
            self.keep(generation?, places);
        }
        Some(list)
    }

    /// Keeps a list to refer to, unless its generation is there.
    fn keep(&mut self, generation: u8, places: Vec<u8>) {
        if self.references.iter().any(|&(own, _)| own == generation) {
            return;
        }
        if self.references.len() == REFERENCES_MAX {
            self.references.remove(0);
        }
        self.references.push((generation, places));
    }

    /// The list that the next octet refers to; an empty one may not be (RFC 4815 section 5.7).
    fn reference(&self, rest: &mut Cursor<'_>) -> Option<Vec<u8>> {
        let generation = rest.u8()?;
        let mut references = self.references.iter();
        let (_, places) = references.find(|&&(own, _)| own == generation)?;
        (!places.is_empty()).then(|| places.clone())
    }

    /// The insertion scheme (section 5.8.6.2).
    fn insert(
        &mut self,
        reference: &[u8],
        wide: bool,
        low: u8,
        rest: &mut Cursor<'_>,
    ) -> Option<Vec<u8>> {
        let (mask, bits) = read_mask(rest)?;
        let count = mask.count_ones() as usize;
        let places = Places::after(Some(low), wide, count, rest)?;
        let mut inserted = self.take_items(&places, rest)?.into_iter();
        let mut kept = reference.iter().copied();
        let mut list = Vec::new();
        for bit in (0..bits).rev() {
            let next = if mask >> bit & 1 != 0 {
                inserted.next()
            } else {
                kept.next()
            };
            list.extend(next);
        }
        (list.len() <= ITEMS_MAX).then_some(list)
    }

    /// Takes the headers that go with places from behind them.
    fn take_items(&mut self, places: &Places, rest: &mut Cursor<'_>) -> Option<Vec<u8>> {
        for &(place, said) in &places.0 {
            if said {
                let mut item = List::default();
                item.push(take_header(rest)?)?;
                self.items[usize::from(place)] = Some(item);
            }
        }
        Some(places.0.iter().map(|&(place, _)| place).collect())
    }
}

/// Places of items, and whether the items themselves follow.
struct Places(Vec<(u8, bool)>);

impl Places {
    /// Reads `count` of them, with eight bits or four; if four, the first of them may be the low
    /// bits of an octet before.
    fn after(before: Option<u8>, wide: bool, count: usize, rest: &mut Cursor<'_>) -> Option<Self> {
        let mut places = Vec::new();
        if wide {
            for &octet in rest.take(count)? {
                places.push((octet & 0x7f, octet & 0x80 != 0));
            }
        } else {
            let mut nibbles: Vec<u8> = before.into_iter().collect();
            let missing = count.saturating_sub(nibbles.len());
            for &octet in rest.take(missing.div_ceil(2))? {
                nibbles.extend([octet >> 4, octet & 0x0f]);
            }
            let nibbles = nibbles.into_iter().take(count);
            places.extend(nibbles.map(|nibble| (nibble & 7, nibble & 8 != 0)));
        }
        let there = |&(place, _): &(u8, bool)| usize::from(place) < PLACES;
        places.iter().all(there).then_some(Self(places))
    }
}

/// A bit mask of seven bits or fifteen, the first bit highest.
fn read_mask(rest: &mut Cursor<'_>) -> Option<(u16, u32)> {
    let first = rest.u8()?;
    if first & 0x80 == 0 {
        return Some((u16::from(first), 7));
    }
    let second = rest.u8()?;
    Some((u16::from_be_bytes([first & 0x7f, second]), 15))
}

/// The removal scheme (section 5.8.6.3).
fn remove(reference: Vec<u8>, rest: &mut Cursor<'_>) -> Option<Vec<u8>> {
    let (mask, bits) = read_mask(rest)?;
    let removed = |at: usize| {
        let at = u32::try_from(at).unwrap_or(bits);
        at < bits && mask >> (bits - 1 - at) & 1 != 0
    };
    let items = reference.into_iter().enumerate();
    Some(
        items
            .filter(|&(at, _)| !removed(at))
            .map(|(_, place)| place)
            .collect(),
    )
}

/// Appends a list with every item whole: the generic scheme without a generation (section 5.8.6.1).
/// Nothing refers to it later, so nothing can be lost of it.
pub(super) fn put(list: &List, out: &mut Vec<u8>) {
    let count = list.headers().count();
    out.push(count as u8);
    for pair in (0..count as u8).step_by(2) {
        let second = pair + 1;
        let second = if usize::from(second) < count {
            0x8 | second
        } else {
            0
        };
        out.push((0x8 | pair) << 4 | second);
    }
    out.extend_from_slice(list.octets());
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: [u8; 8] = [0, 0, 1, 4, 7, 0, 0, 1];
    const DESTINATION: [u8; 8] = [60, 0, 1, 4, 9, 0, 0, 1];
    const ROUTING: [u8; 8] = [43, 0, 4, 0, 0, 0, 0, 0];

    fn list(headers: &[[u8; 8]]) -> List {
        let mut list = List::default();
        for header in headers {
            list.push(header).expect("room");
        }
        list
    }

    /// Reads lists one after the other; each is there whole.
    fn read(tables: &mut Tables, pieces: &[&[u8]]) -> Option<List> {
        let octets = pieces.concat();
        let mut rest = Cursor(&octets);
        let mut reader = Reader::new(tables);
        let list = reader.read_or_keep(Of::Inner, List::default(), &mut rest)?;
        assert!(rest.0.is_empty());
        if let Some(news) = reader.into_news() {
            *tables = news;
        }
        Some(list)
    }

    #[test]
    fn what_is_said_whole_is_read() {
        for headers in [
            &[][..],
            &[HOP],
            &[HOP, DESTINATION],
            &[HOP, ROUTING, DESTINATION],
        ] {
            let said = list(headers);
            let mut octets = Vec::new();
            put(&said, &mut octets);
            assert_eq!(read(&mut Tables::default(), &[&octets]), Some(said));
        }
    }

    #[test]
    fn each_scheme_makes_its_list_of_items_and_of_lists_before() {
        let mut tables = Tables::default();
        // Two new items in the places 0 and 1, as generation 5.
        let first = read(&mut tables, &[&[0x22, 5, 0x89], &HOP, &DESTINATION]);
        assert_eq!(first, Some(list(&[HOP, DESTINATION])));
        // The same without them; eight bits a place.
        let again = read(&mut tables, &[&[0x12, 1, 0]]);
        assert_eq!(again, Some(list(&[DESTINATION, HOP])));
        // One more between them: insertion into 5, as generation 6.
        let inserted = read(&mut tables, &[&[0x6a, 6, 5, 0b010_0000], &ROUTING]);
        assert_eq!(inserted, Some(list(&[HOP, ROUTING, DESTINATION])));
        // Removal of the first of 6.
        let removed = read(&mut tables, &[&[0x80, 6, 0b100_0000]]);
        assert_eq!(removed, Some(list(&[ROUTING, DESTINATION])));
        // Removal of the last two, then insertion ahead of what is left.
        let both = read(&mut tables, &[&[0xc2, 6, 0b011_0000, 0b100_0000]]);
        assert_eq!(both, Some(list(&[ROUTING, HOP])));
    }

    #[test]
    fn what_was_never_said_is_not_made_up() {
        let mut tables = Tables::default();
        // A place without an item, a generation without a list, an item that is no header.
        for octets in [
            &[0x01, 0x30][..],
            &[0x80, 1, 0x40],
            &[0x01, 0x80, 17, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(read(&mut tables, &[octets]), None);
        }
    }
}
