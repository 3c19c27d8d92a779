//! What lies around the IP header that a profile is about: another IP header ahead of it, as in a
//! tunnel, and IPv6 extension headers behind either.

use alloc::vec::Vec;

use super::fields::Fields;
use super::numbers::Cursor;

/// Protocol numbers (RFC 5237 registry) of headers that lists hold, and of IP itself.
mod protocol {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const IPV4: u8 = 4;
    pub(super) const IPV6: u8 = 41;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const DESTINATION: u8 = 60;
}

/// IPv6 extension headers, one after the other. Each says its own number where a packet has the
/// next one's, as items of compressed lists do (RFC 3095 section 5.8.4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct List {
    octets: [u8; Self::OCTETS_MAX],
    used: u8,
}

impl List {
    /// Of longer lists what has no room is payload: every context keeps room for two.
    const OCTETS_MAX: usize = 56;
    /// The most headers that a compressor puts into a list; others take no more for TCP.
    const HEADERS_MAX: usize = 3;

    const EMPTY: Self = Self {
        octets: [0; Self::OCTETS_MAX],
        used: 0,
    };

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.used)]
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The headers one by one.
    pub(super) fn headers(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = Cursor(self.octets());
        core::iter::from_fn(move || take_header(&mut rest))
    }

    /// Takes one more header, which says its own number. `None` if there is no room.
    pub(super) fn push(&mut self, header: &[u8]) -> Option<()> {
        let used = usize::from(self.used);
        let room = self.octets.get_mut(used..used + header.len())?;
        room.copy_from_slice(header);
        self.used = (used + header.len()) as u8;
        Some(())
    }

    /// Takes the headers at the front of `rest`, the first of which has this number; gives the
    /// number of what follows them.
    fn read(&mut self, mut next: u8, rest: &mut Cursor<'_>) -> u8 {
        for _ in 0..Self::HEADERS_MAX {
            let mut behind = *rest;
            let start = usize::from(self.used);
            let taken = take_header_of(next, &mut behind);
            let Some(header) = taken.filter(|header| self.push(header).is_some()) else {
                break;
            };
            self.octets[start] = next;
            next = header[0];
            *rest = behind;
        }
        next
    }

    /// Appends number and length of the header that follows each, and all of those that never
    /// change, ahead of `next` (RFC 6846 section 6.3.3).
    pub(super) fn put_static(&self, next: u8, out: &mut Vec<u8>) {
        let numbers = self.headers().skip(1).map(|header| header[0]);
        for (header, next) in self.headers().zip(numbers.chain([next])) {
            out.extend_from_slice(&[next, header[1]]);
            if header[0] == protocol::ROUTING {
                out.extend_from_slice(&header[2..]);
            }
        }
    }

    /// Reads that of headers of which the first has the number `next`; gives the number of what
    /// follows them.
    pub(super) fn read_static(mut next: u8, chain: &mut Cursor<'_>) -> Option<(Self, u8)> {
        let mut list = Self::EMPTY;
        while is_listed(next) {
            let [behind, units]: [u8; 2] = chain.array()?;
            let mut header = [0; Self::OCTETS_MAX];
            let header = header.get_mut(..8 + 8 * usize::from(units))?;
            (header[0], header[1]) = (next, units);
            if next == protocol::ROUTING {
                let value = chain.take(header.len() - 2)?;
                header[2..].copy_from_slice(value);
            }
            list.push(header)?;
            next = behind;
        }
        Some((list, next))
    }

    /// Appends what may change of the headers.
    pub(super) fn put_dynamic(&self, out: &mut Vec<u8>) {
        let headers = self.headers();
        for header in headers.filter(|header| header[0] != protocol::ROUTING) {
            out.extend_from_slice(&header[2..]);
        }
    }

    /// Reads that.
    pub(super) fn read_dynamic(&mut self, chain: &mut Cursor<'_>) -> Option<()> {
        let mut list = Self::EMPTY;
        for known in self.headers() {
            let mut header = [0; Self::OCTETS_MAX];
            let header = &mut header[..known.len()];
            header.copy_from_slice(known);
            if header[0] != protocol::ROUTING {
                header[2..].copy_from_slice(chain.take(known.len() - 2)?);
            }
            list.push(header)?;
        }
        *self = list;
        Some(())
    }

    /// The number of the first header; `next` if there is none.
    pub(super) fn first(&self, next: u8) -> u8 {
        self.octets().first().copied().unwrap_or(next)
    }

    /// Appends the headers as a packet has them, the last one ahead of `next`.
    fn emit(&self, next: u8, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.octets());
        let mut at = start;
        let lengths = self.headers().map(<[u8]>::len);
        for length in lengths {
            out[at] = out.get(at + length).copied().unwrap_or(next);
            at += length;
        }
    }
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl core::fmt::Debug for List {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.octets().fmt(to)
    }
}

/// Whether a list holds headers of this number.
const fn is_listed(number: u8) -> bool {
    matches!(
        number,
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION
    )
}

/// Whether an IP header follows one that says this protocol.
pub(super) const fn is_ip(number: u8) -> bool {
    matches!(number, protocol::IPV4 | protocol::IPV6)
}

/// The packet behind an IP header ahead of it; else the packet itself.
pub(super) fn inner_packet(packet: &[u8]) -> &[u8] {
    let next = match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(9),
        Some(6) => packet.get(6),
        _ => None,
    };
    if !next.is_some_and(|&next| is_ip(next) || is_listed(next)) {
        return packet;
    }
    match Fields::read_ip(packet) {
        Some((fields, inner)) if is_ip(fields.protocol) => inner,
        _ => packet,
    }
}

/// Takes a header that says its own number.
pub(super) fn take_header<'a>(rest: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let &number = rest.0.first()?;
    take_header_of(number, rest)
}

fn take_header_of<'a>(number: u8, rest: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let &units = rest.0.get(1)?;
    let octets = 8 + 8 * usize::from(units);
    is_listed(number).then(|| rest.take(octets))?
}

/// What lies around one IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    /// The IP header ahead of it.
    pub(super) outer: Option<Outer>,
    /// Extension headers behind that one.
    pub(super) outer_list: List,
    /// Extension headers behind the header itself.
    pub(super) list: List,
}

/// An IP header ahead of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    pub(super) v6: bool,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    flow_label: u32,
    pub(super) id: u16,
    pub(super) dont_fragment: bool,
    src: [u8; 16],
    dst: [u8; 16],
}

/// What never changes of an envelope, in one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    listed: bool,
    /// Version, flow label and addresses of the outer header.
    outer: Option<(bool, u32, [u8; 16], [u8; 16])>,
}

impl Envelope {
    /// There is nothing around.
    pub(super) const fn is_empty(&self) -> bool {
        self.outer.is_none() && self.list.is_empty()
    }

    pub(super) const fn clear_lists(&mut self) {
        self.list = List::EMPTY;
        self.outer_list = List::EMPTY;
    }

    pub(super) const fn cover(&self) -> Cover {
        Cover {
            listed: !self.list.is_empty() || !self.outer_list.is_empty(),
            outer: match self.outer {
                Some(outer) => Some((outer.v6, outer.flow_label, outer.src, outer.dst)),
                None => None,
            },
        }
    }

    /// Whether static chains of TCP say the same extension headers.
    pub(super) fn lists_as(&self, other: &Self) -> bool {
        let said = |envelope: &Self| {
            let mut out = Vec::new();
            envelope.outer_list.put_static(0, &mut out);
            envelope.list.put_static(0, &mut out);
            out
        };
        self.list == other.list && self.outer_list == other.outer_list || said(self) == said(other)
    }

    /// The same but for what changes with every packet.
    pub(super) fn stays_as(&self, other: &Self) -> bool {
        let mut same = *self;
        same.take_id(other);
        same == *other
    }

    /// Takes the outer identification of another.
    pub(super) const fn take_id(&mut self, of: &Self) {
        if let (Some(outer), Some(of)) = (&mut self.outer, &of.outer) {
            outer.id = of.id;
        }
    }

    /// Octets ahead of the header itself.
    pub(super) const fn octets_ahead(&self) -> usize {
        match self.outer {
            Some(Outer { v6, .. }) => (if v6 { 40 } else { 20 }) + self.outer_list.used as usize,
            None => 0,
        }
    }
}

impl Fields {
    /// Reads an IP header and the extension headers behind it.
    pub(super) fn read_ip(packet: &[u8]) -> Option<(Self, &[u8])> {
        let mut fields = Self::default();
        let rest = match packet.first()? >> 4 {
            4 => fields.read_v4(packet)?,
            6 => fields.read_v6(packet)?,
            _ => return None,
        };
        let mut rest = Cursor(rest);
        if fields.v6 {
            fields.protocol = fields.envelope.list.read(fields.protocol, &mut rest);
        }
        Some((fields, rest.0))
    }

    /// Whether the header that follows this one is of IP and of this version.
    pub(super) const fn carries(&self, v6: bool) -> bool {
        self.protocol == if v6 { protocol::IPV6 } else { protocol::IPV4 }
    }

    /// These fields with a header ahead of them, which has none itself.
    pub(super) const fn behind(mut self, outer: &Self) -> Self {
        self.envelope.outer = Some(Outer {
            v6: outer.v6,
            traffic_class: outer.traffic_class,
            hop_limit: outer.hop_limit,
            flow_label: outer.flow_label,
            id: outer.id,
            dont_fragment: outer.dont_fragment,
            src: outer.src,
            dst: outer.dst,
        });
        self.envelope.outer_list = outer.envelope.list;
        self
    }

    /// The header ahead of this one.
    pub(super) fn outer(&self) -> Option<Self> {
        let outer = self.envelope.outer?;
        Some(Self {
            v6: outer.v6,
            traffic_class: outer.traffic_class,
            hop_limit: outer.hop_limit,
            protocol: if self.v6 {
                protocol::IPV6
            } else {
                protocol::IPV4
            },
            flow_label: outer.flow_label,
            id: outer.id,
            dont_fragment: outer.dont_fragment,
            src: outer.src,
            dst: outer.dst,
            envelope: Envelope {
                list: self.envelope.outer_list,
                ..Envelope::default()
            },
            ..Self::default()
        })
    }

    /// Octets of the IP header and of the extension headers behind it.
    pub(super) const fn ip_octets(&self) -> usize {
        (if self.v6 { 40 } else { 20 }) + self.envelope.list.used as usize
    }

    /// Appends the IP headers of a packet of `whole` octets. `false`, and nothing is appended, if
    /// no packet is that long.
    pub(super) fn emit_ip(&self, whole: usize, out: &mut Vec<u8>) -> bool {
        if let Some(outer) = self.outer() {
            let ahead = outer.ip_octets();
            return outer.emit_ip(whole, out) && self.emit_own_ip(whole - ahead, out);
        }
        self.emit_own_ip(whole, out)
    }

    fn emit_own_ip(&self, whole: usize, out: &mut Vec<u8>) -> bool {
        let told = if self.v6 { whole - 40 } else { whole };
        let Ok(length) = u16::try_from(told) else {
            return false;
        };
        if self.v6 {
            self.emit_v6(self.envelope.list.first(self.protocol), length, out);
            self.envelope.list.emit(self.protocol, out);
        } else {
            self.emit_v4(length, out);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_as_it_was() {
        let headers = [
            &[60, 0, 1, 2, 3, 4, 5, 6][..],
            &[43, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
            &[17, 0, 4, 1, 0, 0, 0, 0],
        ]
        .concat();
        let behind = [&headers[..], &[9; 8]].concat();
        let mut list = List::default();
        let mut rest = Cursor(&behind[..]);
        assert_eq!(list.read(0, &mut rest), 17);
        assert_eq!(rest.0, [9; 8]);
        let firsts: Vec<u8> = list.headers().map(|header| header[0]).collect();
        assert_eq!(firsts, [0, 60, 43]);
        let mut out = Vec::new();
        list.emit(17, &mut out);
        assert_eq!((out, list.first(17)), (headers, 0));
        assert_eq!(List::default().first(17), 17);
    }

    #[test]
    fn what_has_no_room_in_a_list_is_left() {
        let long = |units: u8| [&[17, units][..], &[0; 64]].concat();
        for (octets, next) in [
            (&long(6)[..], 17),
            (&long(7), 0),
            (&[17], 0),
            (&[17, 1, 0], 0),
        ] {
            let mut list = List::default();
            let mut rest = Cursor(octets);
            assert_eq!(list.read(0, &mut rest), next);
            assert_eq!(octets.len() - rest.0.len(), list.octets().len());
        }
        let many = [60, 0, 0, 0, 0, 0, 0, 0].repeat(4);
        let mut list = List::default();
        let mut rest = Cursor(&many);
        assert_eq!((list.read(60, &mut rest), rest.0.len()), (60, 8));
    }

    #[test]
    fn the_chains_of_tcp_say_a_list_in_two_parts() {
        let hop = [0, 0, 1, 4, 7, 0, 0, 1];
        let routing = [43, 0, 4, 0, 1, 2, 3, 4];
        let mut list = List::default();
        for header in [&hop, &routing] {
            list.push(header).expect("room");
        }
        let (mut unchanging, mut changing) = (Vec::new(), Vec::new());
        list.put_static(6, &mut unchanging);
        list.put_dynamic(&mut changing);
        assert_eq!(unchanging, [43, 0, 6, 0, 4, 0, 1, 2, 3, 4]);
        assert_eq!(changing, hop[2..]);
        let (mut read, next) = List::read_static(0, &mut Cursor(&unchanging)).expect("a list");
        assert_eq!(next, 6);
        assert_eq!(read.read_dynamic(&mut Cursor(&changing)), Some(()));
        assert_eq!(read, list);
        assert!(List::read_static(0, &mut Cursor(&[6, 7])).is_none());
    }
}
