//! TCP options as a list of items, each with an index of its kind (RFC 6846 section 6.3).

use alloc::vec::Vec;

use super::super::numbers::{Cursor, low_mask};
use super::{fits, near};

/// Octets that options may have (RFC 9293 section 3.1).
const OCTETS_MAX: usize = 40;
/// Items that a compressed list may have: their number has four bits.
const ITEMS_MAX: usize = 15;

/// Indices of the well-known kinds; above them are those of others.
pub(super) mod index {
    pub(super) const NOP: u8 = 0;
    pub(super) const END: u8 = 1;
    pub(super) const SEGMENT_SIZE: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const TIMESTAMPS: u8 = 4;
    pub(super) const SACK_PERMITTED: u8 = 5;
    pub(super) const SACK: u8 = 6;
    pub(super) const GENERIC: u8 = 7;
}

/// Indices of kinds that aren't well known: 7 to 15.
pub(super) const GENERICS: usize = 9;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Item {
    index: u8,
    at: u8,
    octets: u8,
}

/// The options of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    raw: [u8; OCTETS_MAX],
    octets: u8,
    items: [Item; ITEMS_MAX],
    count: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            raw: [0; OCTETS_MAX],
            octets: 0,
            items: [Item::default(); ITEMS_MAX],
            count: 0,
        }
    }
}

/// The index of a kind with this length; `None` for a well-known kind with a wrong one.
fn index_of(kind: u8, octets: u8) -> Option<u8> {
    Some(match (kind, octets) {
        (2, 4) => index::SEGMENT_SIZE,
        (3, 3) => index::WINDOW_SCALE,
        (4, 2) => index::SACK_PERMITTED,
        (5, 10 | 18 | 26 | 34) => index::SACK,
        (8, 10) => index::TIMESTAMPS,
        (2..=5 | 8, _) => return None,
        _ => index::GENERIC,
    })
}

impl Options {
    /// Reads the options of a header. `None` for what a compressed list can't say: too many, one
    /// kind twice, lengths that are wrong.
    pub(super) fn parse(raw: &[u8]) -> Option<Self> {
        let mut options = Self::default();
        let mut rest = Cursor(raw);
        let mut generics = 0;
        while let Some(&kind) = rest.0.first() {
            let (index, octets) = match kind {
                0 => (index::END, rest.0.len()),
                1 => (index::NOP, 1),
                _ => {
                    let octets = *rest.0.get(1)?;
                    (index_of(kind, octets)?, usize::from(octets))
                }
            };
            let item = rest.take(octets.max(1))?;
            if index == index::END && item.iter().any(|&octet| octet != 0) {
                return None;
            }
            let repeats = |(other, bytes): (u8, &[u8])| other == index && bytes[0] == kind;
            if index != index::NOP && options.items().any(repeats) || octets < 2 && kind > 1 {
                return None;
            }
            generics += usize::from(index == index::GENERIC);
            if generics > GENERICS {
                return None;
            }
            options.push(index, item)?;
        }
        Some(options)
    }

    fn push(&mut self, index: u8, bytes: &[u8]) -> Option<()> {
        let at = usize::from(self.octets);
        let room = self.raw.get_mut(at..at + bytes.len())?;
        let item = self.items.get_mut(usize::from(self.count))?;
        room.copy_from_slice(bytes);
        *item = Item {
            index,
            at: at as u8,
            octets: bytes.len() as u8,
        };
        self.octets += bytes.len() as u8;
        self.count += 1;
        Some(())
    }

    pub(super) fn octets(&self) -> usize {
        usize::from(self.octets)
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.raw[..self.octets()]
    }

    fn taken(&self) -> &[Item] {
        &self.items[..usize::from(self.count)]
    }

    /// Each option: its index and its octets.
    pub(super) fn items(&self) -> impl Iterator<Item = (u8, &[u8])> {
        self.taken().iter().map(|item| (item.index, self.of(item)))
    }

    fn of(&self, item: &Item) -> &[u8] {
        let at = usize::from(item.at);
        &self.raw[at..at + usize::from(item.octets)]
    }

    /// The option with this index.
    fn find(&self, index: u8) -> Option<&[u8]> {
        let item = self.taken().iter().find(|item| item.index == index)?;
        Some(self.of(item))
    }

    /// Whether both have the same kinds in the same order.
    pub(super) fn same_order(&self, other: &Self) -> bool {
        let indices = self.taken().iter().map(|item| item.index);
        indices.eq(other.taken().iter().map(|item| item.index))
    }

    /// Gives kinds that aren't well known indices: those that `kinds` has for them, or the next.
    pub(super) fn number(&mut self, kinds: &mut Kinds) {
        let generics = self.items[..usize::from(self.count)]
            .iter_mut()
            .filter(|item| item.index >= index::GENERIC);
        for item in generics {
            item.index = index::GENERIC + kinds.place(self.raw[usize::from(item.at)]);
        }
    }

    /// Appends the compressed list with every item whole, as dynamic chains have it.
    pub(super) fn put_whole(&self, ack: u32, out: &mut Vec<u8>) {
        self.put_list(ack, |_, _| true, out);
    }

    /// Appends the compressed list; `whole` says which items are in it whole, the others are in
    /// the irregular chain.
    pub(super) fn put_list(&self, ack: u32, whole: impl Fn(u8, &[u8]) -> bool, out: &mut Vec<u8>) {
        let wide = self.taken().iter().any(|item| item.index > 7);
        out.push(u8::from(wide) << 4 | self.count);
        let code = |item: &Item| {
            let present = u8::from(whole(item.index, self.of(item)));
            present << if wide { 7 } else { 3 } | item.index
        };
        if wide {
            out.extend(self.taken().iter().map(code));
        } else {
            for pair in self.taken().chunks(2) {
                out.push(code(&pair[0]) << 4 | pair.get(1).map_or(0, code));
            }
        }
        for (index, bytes) in self.items() {
            if whole(index, bytes) {
                put_item(index, bytes, ack, out);
            }
        }
    }

    /// Reads a compressed list. Items that aren't in it come from `irregular` later: they are told
    /// by their indices alone.
    pub(super) fn read_list(list: &mut Cursor<'_>) -> Option<Plan> {
        let first = list.u8()?;
        let wide = first & 0x10 != 0;
        let mut plan = Plan {
            count: first & 0x0f,
            ..Plan::default()
        };
        let count = usize::from(plan.count);
        let codes = list.take(if wide { count } else { count.div_ceil(2) })?;
        for (at, slot) in plan.items[..count].iter_mut().enumerate() {
            let (code, present) = if wide {
                (codes[at] & 0x0f, codes[at] & 0x80 != 0)
            } else {
                let code = codes[at / 2] >> if at % 2 == 0 { 4 } else { 0 } & 0x0f;
                (code & 7, code & 8 != 0)
            };
            *slot = (code, present);
        }
        Some(plan)
    }

    /// The plan of a packet with the same kinds in the same order, none of them whole.
    pub(super) fn plan(&self) -> Plan {
        let mut plan = Plan {
            count: self.count,
            ..Plan::default()
        };
        for (slot, item) in plan.items.iter_mut().zip(self.taken()) {
            *slot = (item.index, false);
        }
        plan
    }
}

/// The kinds of a list's items, and which of them are in it whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    items: [(u8, bool); ITEMS_MAX],
    count: u8,
}

impl Plan {
    fn items(&self) -> &[(u8, bool)] {
        &self.items[..usize::from(self.count)]
    }

    /// Reads the items that are in the list whole, which follow it.
    pub(super) fn read_whole(&self, list: &mut Cursor<'_>, ack: u32) -> Option<Whole> {
        let mut whole = Whole::default();
        for (at, &(index, present)) in self.items().iter().enumerate() {
            if present {
                whole.items[at] = read_item(index, list, ack)?;
            }
        }
        Some(whole)
    }

    /// Puts the options together: from the list, and from the irregular chain with `table` for
    /// what it leaves out.
    pub(super) fn complete(
        &self,
        whole: &Whole,
        table: &Table,
        chain: &mut Cursor<'_>,
        ack: u32,
    ) -> Option<Options> {
        let mut options = Options::default();
        for (&(index, present), item) in self.items().iter().zip(&whole.items) {
            if present {
                options.push(index, item.bytes())?;
            } else {
                let known = table.items.get(usize::from(index))?;
                let item = read_irregular(index, known.bytes(), chain, ack)?;
                options.push(index, item.bytes())?;
            }
        }
        Some(options)
    }
}

/// The octets of one option.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    bytes: [u8; OCTETS_MAX],
    octets: u8,
}

impl Default for Bytes {
    fn default() -> Self {
        Self {
            bytes: [0; OCTETS_MAX],
            octets: 0,
        }
    }
}

impl Bytes {
    fn of(parts: &[&[u8]]) -> Option<Self> {
        let mut all = Self::default();
        for part in parts {
            all.append(part)?;
        }
        Some(all)
    }

    fn append(&mut self, part: &[u8]) -> Option<()> {
        let at = usize::from(self.octets);
        self.bytes
            .get_mut(at..at + part.len())?
            .copy_from_slice(part);
        self.octets += part.len() as u8;
        Some(())
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.octets)]
    }
}

/// The items of a list that are in it whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole {
    items: [Bytes; ITEMS_MAX],
}

/// What a decompressor knows of each index: the option that came with it last.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    items: [Bytes; 16],
}

impl Table {
    /// Takes note of a packet's options.
    pub(super) fn learn(&mut self, options: &Options) {
        for (index, bytes) in options.items() {
            if let (Some(slot), Some(item)) =
                (self.items.get_mut(usize::from(index)), Bytes::of(&[bytes]))
            {
                *slot = item;
            }
        }
    }
}

/// What a compressor has said of each index: a decompressor keeps it while the option is away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    items: [Bytes; 16],
    /// Packets in a row that had these very octets, and those that had the same kind and length.
    same: [u8; 16],
    alike: [u8; 16],
}

impl Told {
    /// Takes note of the options that a packet says.
    pub(super) fn learn(&mut self, options: &Options) {
        for (index, bytes) in options.items() {
            let at = usize::from(index);
            let Some(item) = Bytes::of(&[bytes]) else {
                continue;
            };
            let count = |packets: u8, goes_on| {
                if goes_on {
                    packets.saturating_add(1)
                } else {
                    1
                }
            };
            let before = core::mem::replace(&mut self.items[at], item);
            self.same[at] = count(self.same[at], before.bytes() == bytes);
            self.alike[at] = count(self.alike[at], before.bytes().get(..2) == bytes.get(..2));
        }
    }

    /// Packets that had this option as it is now.
    pub(super) fn same(&self, index: u8, bytes: &[u8]) -> u8 {
        let at = usize::from(index);
        let same = self.items[at].bytes() == bytes;
        if same { self.same[at] } else { 0 }
    }

    /// Packets after which the irregular chain can say the option.
    pub(super) fn known(&self, index: u8, bytes: &[u8]) -> u8 {
        let at = usize::from(index);
        match index {
            // It is counted from those of the last packets.
            index::TIMESTAMPS => 0,
            index::GENERIC.. if self.items[at].bytes().get(..2) == bytes.get(..2) => self.alike[at],
            _ => self.same(index, bytes),
        }
    }
}

/// The kinds that a compressor has given indices from 7 on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    kinds: [u8; GENERICS],
    next: u8,
}

impl Kinds {
    fn place(&mut self, kind: u8) -> u8 {
        if let Some(at) = self.kinds.iter().position(|&known| known == kind) {
            return at as u8;
        }
        let at = self.next;
        self.kinds[usize::from(at)] = kind;
        self.next = (at + 1) % GENERICS as u8;
        at
    }
}

/// Appends an item as lists have it.
fn put_item(index: u8, bytes: &[u8], ack: u32, out: &mut Vec<u8>) {
    match index {
        index::NOP | index::SACK_PERMITTED => {}
        // The padding's length in bits.
        index::END => out.push(((bytes.len() - 1) * 8).min(0xff) as u8),
        index::SEGMENT_SIZE | index::WINDOW_SCALE | index::TIMESTAMPS => {
            out.extend_from_slice(&bytes[2..]);
        }
        index::SACK => put_sack(bytes, ack, out),
        _ => out.extend_from_slice(bytes),
    }
}

fn read_item(index: u8, list: &mut Cursor<'_>, ack: u32) -> Option<Bytes> {
    match index {
        index::NOP => Bytes::of(&[&[1]]),
        index::END => {
            let padding = usize::from(list.u8()? / 8);
            Bytes::of(&[[0; OCTETS_MAX].get(..padding + 1)?])
        }
        index::SEGMENT_SIZE => Bytes::of(&[&[2, 4], list.take(2)?]),
        index::WINDOW_SCALE => Bytes::of(&[&[3, 3], list.take(1)?]),
        index::TIMESTAMPS => Bytes::of(&[&[8, 10], list.take(8)?]),
        index::SACK_PERMITTED => Bytes::of(&[&[4, 2]]),
        index::SACK => {
            let blocks = list.u8()?;
            read_sack(blocks, list, ack)
        }
        _ => {
            let kind = list.u8()?;
            // The highest bit says that it never changes, which changes are the better answer to.
            let octets = list.u8()? & 0x7f;
            let content = list.take(usize::from(octets).checked_sub(2)?)?;
            Bytes::of(&[&[kind, octets], content])
        }
    }
}

/// What irregular chains say of other kinds' contents.
const UNCHANGED: u8 = 0xff;
const CHANGED: u8 = 0;

/// Whether the irregular chain can say the option to whoever knows `known` of the same index.
pub(super) fn goes_irregular(index: u8, bytes: &[u8], known: &Options) -> bool {
    let Some(known) = known.find(index) else {
        return false;
    };
    match index {
        index::NOP | index::SACK_PERMITTED | index::SACK => true,
        index::END | index::SEGMENT_SIZE | index::WINDOW_SCALE => known == bytes,
        index::TIMESTAMPS => (0..2).all(|which| {
            let (known, value) = (stamp(known, which), stamp(bytes, which));
            fits(known, value, STAMPS[3].0, STAMPS[3].1, u32::MAX)
        }),
        _ => known[..2] == bytes[..2],
    }
}

/// Appends an item as irregular chains have it, for whoever knows the same index of any of
/// `known`, or knows it to be the `same`.
pub(super) fn put_irregular<'a>(
    index: u8,
    bytes: &[u8],
    ack: u32,
    mut known: impl Iterator<Item = &'a Options> + Clone,
    same: bool,
    out: &mut Vec<u8>,
) {
    let mut found = known.clone().filter_map(|options| options.find(index));
    match index {
        index::NOP | index::END | index::SEGMENT_SIZE | index::WINDOW_SCALE => {}
        index::SACK_PERMITTED => {}
        index::TIMESTAMPS => {
            for which in 0..2 {
                let value = stamp(bytes, which);
                let all = |(width, back): (u8, i32)| {
                    found
                        .clone()
                        .all(|known| fits(stamp(known, which), value, width, back, u32::MAX))
                };
                put_stamp(value, all, out);
            }
        }
        index::SACK if found.clone().count() > 0 && found.all(|known| known == bytes) => {
            out.push(0);
        }
        index::SACK => put_sack(bytes, ack, out),
        _ if same || known.all(|known| known.find(index) == Some(bytes)) => out.push(UNCHANGED),
        _ => {
            out.push(CHANGED);
            out.extend_from_slice(&bytes[2..]);
        }
    }
}

fn read_irregular(index: u8, known: &[u8], chain: &mut Cursor<'_>, ack: u32) -> Option<Bytes> {
    match index {
        index::NOP | index::SACK_PERMITTED => read_item(index, chain, ack),
        index::TIMESTAMPS => {
            let known = (known.len() == 10).then_some(known)?;
            let stamps = [read_stamp(known, 0, chain)?, read_stamp(known, 1, chain)?];
            Bytes::of(&[&[8, 10], &stamps[0].to_be_bytes(), &stamps[1].to_be_bytes()])
        }
        index::SACK => match chain.u8()? {
            0 if known.is_empty() => None,
            0 => Bytes::of(&[known]),
            blocks => read_sack(blocks, chain, ack),
        },
        // An option that was never there.
        _ if known.is_empty() => None,
        index::END | index::SEGMENT_SIZE | index::WINDOW_SCALE => Bytes::of(&[known]),
        _ => match chain.u8()? {
            UNCHANGED => Bytes::of(&[known]),
            CHANGED => Bytes::of(&[&known[..2], chain.take(known.len() - 2)?]),
            _ => None,
        },
    }
}

/// Widths of timestamps in one to four octets, and how far below the known one each begins.
const STAMPS: [(u8, i32); 4] = [(7, -1), (14, -1), (21, 0x0004_0000), (29, 0x0400_0000)];
/// The bits ahead of them.
const STAMP_MARKS: [u32; 4] = [0, 0x8000, 0x00c0_0000, 0xe000_0000];

/// Value or echo of timestamps.
fn stamp(bytes: &[u8], which: usize) -> u32 {
    let at = 2 + 4 * which;
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put_stamp(value: u32, fits: impl Fn((u8, i32)) -> bool, out: &mut Vec<u8>) {
    let at = STAMPS.iter().position(|&stamp| fits(stamp)).unwrap_or(3);
    let marked = STAMP_MARKS[at] | value & low_mask(STAMPS[at].0);
    out.extend_from_slice(&marked.to_be_bytes()[3 - at..]);
}

fn read_stamp(known: &[u8], which: usize, chain: &mut Cursor<'_>) -> Option<u32> {
    let bits = chain.sdvl()?;
    let (width, back) = *STAMPS.iter().find(|(width, _)| *width == bits.width)?;
    Some(near(stamp(known, which), bits.value, width, back, u32::MAX))
}

/// Appends a selective acknowledgement: the number of its blocks, and where each begins and ends,
/// counted from what was said before, at first the acknowledgement number.
fn put_sack(bytes: &[u8], ack: u32, out: &mut Vec<u8>) {
    out.push((bytes.len() / 8) as u8);
    let mut base = ack;
    for edge in bytes[2..].chunks_exact(4) {
        let edge = u32::from_be_bytes([edge[0], edge[1], edge[2], edge[3]]);
        let offset = edge.wrapping_sub(base);
        match offset {
            0..0x8000 => out.extend_from_slice(&(offset as u16).to_be_bytes()),
            0x8000..0x40_0000 => {
                out.extend_from_slice(&(0x0080_0000 | offset).to_be_bytes()[1..]);
            }
            0x40_0000..0x2000_0000 => {
                out.extend_from_slice(&(0xc000_0000 | offset).to_be_bytes());
            }
            _ => {
                out.push(0xff);
                out.extend_from_slice(&offset.to_be_bytes());
            }
        }
        base = edge;
    }
}

fn read_sack(blocks: u8, rest: &mut Cursor<'_>, ack: u32) -> Option<Bytes> {
    if !(1..=4).contains(&blocks) {
        return None;
    }
    let mut all = Bytes::of(&[&[5, 2 + 8 * blocks]])?;
    let mut base = ack;
    for _ in 0..2 * blocks {
        let first = u32::from(rest.u8()?);
        let (octets, mut offset) = match first {
            0..0x80 => (1, first),
            0x80..0xc0 => (2, first & 0x3f),
            0xc0..0xe0 => (3, first & 0x1f),
            0xff => (4, 0),
            _ => return None,
        };
        for &octet in rest.take(octets)? {
            offset = offset << 8 | u32::from(octet);
        }
        base = base.wrapping_add(offset);
        all.append(&base.to_be_bytes())?;
    }
    Some(all)
}
