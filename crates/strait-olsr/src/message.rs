//! Packets and messages (RFC 3626 sections 3.3, 5.1, 6.1, 9.1, 12.1 and 18.3).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strait_core::Duration;
use strait_core::prefix::Prefix;
use strait_core::time::nanos;

/// Who is heard; goes no further than one hop.
pub const HELLO: u8 = 1;
/// Whom a relay reaches.
pub const TC: u8 = 2;
/// Further addresses of a node.
pub const MID: u8 = 3;
/// Networks behind a node.
pub const HNA: u8 = 4;

/// How good a node's links are. A type for private use (section 3.4): who doesn't know it passes it
/// on like others.
pub const QUALITY: u8 = 134;

/// Octets of a packet's header.
pub const PACKET_HEADER: usize = 4;

/// What a packet holds can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is: [`HELLO`], [`TC`], or something else that is passed on unread.
    pub kind: u8,
    /// How long what it says holds.
    pub valid: Duration,
    /// Main address of who made it.
    pub originator: IpAddr,
    /// Hops that it may still take.
    pub ttl: u8,
    /// Hops that it has taken.
    pub hops: u8,
    /// Tells its originator's messages apart.
    pub sequence: u16,
}

/// What a neighbour is to the sender of a hello, by the link and by what it does (section 6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkCode {
    /// The link.
    pub link: LinkType,
    /// The neighbour.
    pub neighbour: NeighbourType,
}

/// What a link is (section 6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LinkType {
    /// Nothing is said of it.
    Unspecified,
    /// The neighbour is heard.
    Asymmetric,
    /// Each hears the other.
    Symmetric,
    /// It was there, and isn't any more.
    Lost,
}

/// What a neighbour is (section 6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum NeighbourType {
    /// Not one that hears, too.
    Not,
    /// By some link, each hears the other.
    Symmetric,
    /// It is also a relay of the sender's.
    Relay,
}

impl LinkCode {
    const fn to_octet(self) -> u8 {
        (self.neighbour as u8) << 2 | self.link as u8
    }

    fn from_octet(octet: u8) -> Option<Self> {
        let link = match octet & 3 {
            0 => LinkType::Unspecified,
            1 => LinkType::Asymmetric,
            2 => LinkType::Symmetric,
            _ => LinkType::Lost,
        };
        let neighbour = match octet >> 2 {
            0 => NeighbourType::Not,
            1 => NeighbourType::Symmetric,
            2 => NeighbourType::Relay,
            _ => return None,
        };
        // Each hears the other, and they are no neighbours: such a code is dropped (6.1.1).
        let nonsense = link == LinkType::Symmetric && neighbour == NeighbourType::Not;
        (!nonsense).then_some(Self { link, neighbour })
    }
}

/// A hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// When the next one comes.
    pub interval: Duration,
    /// How much its sender wants to be a relay: 0 never, 7 always.
    pub willingness: u8,
    /// Addresses of neighbours at the interface that it left by.
    pub links: Vec<(LinkCode, IpAddr)>,
}

/// A link to a neighbour, in 255ths of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// The neighbour.
    pub of: IpAddr,
    /// What comes from it.
    pub comes: u8,
    /// What comes to it.
    pub arrives: u8,
}

impl Quality {
    /// The cost of a link that loses nothing.
    pub const LEAST: u32 = 1000;

    /// Transmissions that a frame and its acknowledgement take (ETX), in thousandths.
    pub fn cost(self) -> u32 {
        let each = |share: u8| u32::from(share.max(1));
        Self::LEAST * 255 * 255 / (each(self.comes) * each(self.arrives))
    }
}

/// Time in one octet: a sixteenth of a second times (1 + a/16) 2^b (section 18.3), rounded up.
fn time_octet(time: Duration) -> u8 {
    let units = nanos(time).div_ceil(UNIT_NS / 16).max(16);
    // Of the 60 bits left of it, those above the highest four are the exponent.
    let exponent = units.ilog2() - 4;
    let mantissa = (units >> exponent) + u64::from(units & ((1 << exponent) - 1) > 0);
    let (mantissa, exponent) = match mantissa {
        32.. => (0, exponent + 1),
        _ => (mantissa - 16, exponent),
    };
    match exponent {
        16.. => u8::MAX,
        _ => (mantissa as u8) << 4 | exponent as u8,
    }
}

const fn octet_time(octet: u8) -> Duration {
    let (mantissa, exponent) = (octet >> 4, octet & 15);
    Duration::from_nanos((UNIT_NS / 16 * (16 + mantissa as u64)) << exponent)
}

/// A sixteenth of a second.
const UNIT_NS: u64 = 62_500_000;

/// A message in a packet.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its header.
    pub header: Header,
    /// All its octets, the header with them.
    pub whole: &'a [u8],
    /// What follows the header.
    body: &'a [u8],
    v6: bool,
}

const fn address_octets(v6: bool) -> usize {
    if v6 { 16 } else { 4 }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    let v6 = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(v6).into())
}

fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => out.extend_from_slice(&v4.octets()),
        IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads a packet's payload: its number, and its messages. The first that can't be read ends it.
pub fn parse(packet: &[u8], v6: bool) -> Result<(u16, Vec<Message<'_>>), Malformed> {
    let length = usize::from(be16(packet, 0).ok_or(Malformed)?);
    let number = be16(packet, 2).ok_or(Malformed)?;
    let mut rest = packet.get(PACKET_HEADER..length).ok_or(Malformed)?;
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let message = message(rest, v6).ok_or(Malformed)?;
        rest = &rest[message.whole.len()..];
        messages.push(message);
    }
    Ok((number, messages))
}

fn message(bytes: &[u8], v6: bool) -> Option<Message<'_>> {
    let octets = address_octets(v6);
    let whole = bytes.get(..usize::from(be16(bytes, 2)?))?;
    let behind = 4 + octets;
    let header = Header {
        kind: *whole.first()?,
        valid: octet_time(*whole.get(1)?),
        originator: address(whole.get(4..behind)?)?,
        ttl: *whole.get(behind)?,
        hops: *whole.get(behind + 1)?,
        sequence: be16(whole, behind + 2)?,
    };
    Some(Message {
        header,
        whole,
        body: whole.get(behind + 4..)?,
        v6,
    })
}

impl Message<'_> {
    /// Reads a hello.
    pub fn hello(&self) -> Result<Hello, Malformed> {
        let body = self.body;
        let [_, _, interval, willingness] = *body.first_chunk().ok_or(Malformed)?;
        let mut rest = &body[4..];
        let mut links = Vec::new();
        while !rest.is_empty() {
            let size = usize::from(be16(rest, 2).ok_or(Malformed)?);
            let addresses = rest.get(4..size).ok_or(Malformed)?;
            let code = LinkCode::from_octet(rest[0]);
            let addresses = self.addresses(addresses)?;
            links.extend(code.into_iter().flat_map(|code| {
                let each = addresses.iter();
                each.map(move |address| (code, *address))
            }));
            rest = &rest[size..];
        }
        Ok(Hello {
            interval: octet_time(interval),
            willingness: willingness.min(7),
            links,
        })
    }

    /// Reads whom a relay reaches, with the number of that set.
    pub fn tc(&self) -> Result<(u16, Vec<IpAddr>), Malformed> {
        let number = be16(self.body, 0).ok_or(Malformed)?;
        let addresses = self.body.get(4..).ok_or(Malformed)?;
        Ok((number, self.addresses(addresses)?))
    }

    /// Reads further addresses of the originator's.
    pub fn mid(&self) -> Result<Vec<IpAddr>, Malformed> {
        self.addresses(self.body)
    }

    /// Reads networks behind the originator. One whose mask has holes is left out.
    pub fn hna(&self) -> Result<Vec<Prefix>, Malformed> {
        let addresses = self.addresses(self.body)?;
        let pairs = addresses.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return Err(Malformed);
        }
        let network = |pair: &[IpAddr]| Prefix::new(pair[0], mask_length(pair[1])?);
        Ok(pairs.filter_map(network).map(Prefix::network).collect())
    }

    /// Reads how good the originator's links are.
    pub fn qualities(&self) -> Result<Vec<Quality>, Malformed> {
        let each = self.body.chunks_exact(address_octets(self.v6) + 2);
        if !each.remainder().is_empty() {
            return Err(Malformed);
        }
        let one = |bytes: &[u8]| {
            let (of, [comes, arrives]) = bytes.split_last_chunk()?;
            Some(Quality {
                of: address(of)?,
                comes: *comes,
                arrives: *arrives,
            })
        };
        each.map(|bytes| one(bytes).ok_or(Malformed)).collect()
    }

    fn addresses(&self, bytes: &[u8]) -> Result<Vec<IpAddr>, Malformed> {
        let each = bytes.chunks_exact(address_octets(self.v6));
        if !each.remainder().is_empty() {
            return Err(Malformed);
        }
        each.map(|one| address(one).ok_or(Malformed)).collect()
    }

    /// The message as it goes on: a hop more, and a hop less to go.
    pub fn onward(&self) -> Vec<u8> {
        let mut bytes = self.whole.to_vec();
        let at = 4 + address_octets(self.v6);
        bytes[at] = bytes[at].saturating_sub(1);
        bytes[at + 1] = bytes[at + 1].saturating_add(1);
        bytes
    }
}

fn mask_length(mask: IpAddr) -> Option<u8> {
    let (ones, all) = match mask {
        IpAddr::V4(v4) => (v4.to_bits().leading_ones(), v4.to_bits().count_ones()),
        IpAddr::V6(v6) => (v6.to_bits().leading_ones(), v6.to_bits().count_ones()),
    };
    (ones == all).then_some(ones as u8)
}

fn mask(prefix: Prefix) -> IpAddr {
    let length = u32::from(prefix.length);
    match prefix.address {
        IpAddr::V4(_) => Ipv4Addr::from_bits(!u32::MAX.checked_shr(length).unwrap_or(0)).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(!u128::MAX.checked_shr(length).unwrap_or(0)).into(),
    }
}

/// Octets of a message with this many addresses, and as many again ahead of them in its body.
pub const fn message_octets(v6: bool, ahead: usize, addresses: usize) -> usize {
    8 + address_octets(v6) * (1 + addresses) + ahead
}

fn put_header(header: &Header, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[header.kind, time_octet(header.valid), 0, 0]);
    put_address(header.originator, out);
    out.extend_from_slice(&[header.ttl, header.hops]);
    out.extend_from_slice(&header.sequence.to_be_bytes());
    start
}

/// Puts the size of what begins at `start` where it belongs: behind its first two octets.
fn put_size(start: usize, out: &mut [u8]) {
    let size = (out.len() - start) as u16;
    out[start + 2..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Writes a hello. Links of one code have to be neighbours in its list.
pub fn put_hello(header: &Header, hello: &Hello, out: &mut Vec<u8>) {
    let start = put_header(header, out);
    out.extend_from_slice(&[0, 0, time_octet(hello.interval), hello.willingness]);
    for group in hello.links.chunk_by(|a, b| a.0 == b.0) {
        let begin = out.len();
        out.extend_from_slice(&[group[0].0.to_octet(), 0, 0, 0]);
        for (_, address) in group {
            put_address(*address, out);
        }
        put_size(begin, out);
    }
    put_size(start, out);
}

/// Writes whom a relay reaches.
pub fn put_tc(
    header: &Header,
    number: u16,
    reached: impl Iterator<Item = IpAddr>,
    out: &mut Vec<u8>,
) {
    let start = put_header(header, out);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    reached.for_each(|address| put_address(address, out));
    put_size(start, out);
}

/// Writes networks behind a node.
pub fn put_hna(header: &Header, networks: &[Prefix], out: &mut Vec<u8>) {
    let start = put_header(header, out);
    for network in networks {
        put_address(network.network().address, out);
        put_address(mask(*network), out);
    }
    put_size(start, out);
}

/// Writes how good a node's links are.
pub fn put_qualities(header: &Header, qualities: &[Quality], out: &mut Vec<u8>) {
    let start = put_header(header, out);
    for quality in qualities {
        put_address(quality.of, out);
        out.extend_from_slice(&[quality.comes, quality.arrives]);
    }
    put_size(start, out);
}

/// Puts messages behind a packet's header.
pub fn packet<'a>(number: u16, messages: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = alloc::vec![0; PACKET_HEADER];
    messages.for_each(|message| out.extend_from_slice(message));
    let length = out.len() as u16;
    out[..2].copy_from_slice(&length.to_be_bytes());
    out[2..4].copy_from_slice(&number.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn header(kind: u8, originator: IpAddr) -> Header {
        Header {
            kind,
            valid: Duration::from_secs(6),
            originator,
            ttl: 255,
            hops: 3,
            sequence: 0x0102,
        }
    }

    #[test]
    fn times_are_those_of_section_18_3() {
        // 2 s, 5 s, 6 s, 15 s, 30 s are, without rounding, what the RFC's constants are made of.
        for (time_ms, octet) in [
            (62, 0x00),
            (63, 0x10),
            (2000, 0x05),
            (5000, 0x46),
            (6000, 0x86),
            (15_000, 0xe7),
            (30_000, 0xe8),
        ] {
            assert_eq!(
                time_octet(Duration::from_millis(time_ms)),
                octet,
                "{time_ms}"
            );
        }
        for octet in 0..=u8::MAX {
            assert_eq!(time_octet(octet_time(octet)), octet);
        }
        assert_eq!(time_octet(Duration::MAX), 0xff);
        let above = octet_time(0x46) + Duration::from_nanos(1);
        assert_eq!(time_octet(above), 0x56, "never shorter than meant");
    }

    #[test]
    fn a_hello_is_as_in_section_6_1() {
        let code = |link, neighbour| LinkCode { link, neighbour };
        let hello = Hello {
            interval: Duration::from_secs(2),
            willingness: 3,
            links: alloc::vec![
                (code(LinkType::Asymmetric, NeighbourType::Not), v4(2)),
                (code(LinkType::Symmetric, NeighbourType::Relay), v4(3)),
                (code(LinkType::Symmetric, NeighbourType::Relay), v4(4)),
            ],
        };
        let mut bytes = Vec::new();
        put_hello(&header(HELLO, v4(1)), &hello, &mut bytes);
        let whole = packet(7, core::iter::once(&bytes[..]));
        #[rustfmt::skip]
        assert_eq!(whole, [
            0, 40, 0, 7,
            1, 0x86, 0, 36, 10, 0, 0, 1, 255, 3, 1, 2,
            0, 0, 0x05, 3,
            1, 0, 0, 8, 10, 0, 0, 2,
            10, 0, 0, 12, 10, 0, 0, 3, 10, 0, 0, 4,
        ]);
        let (number, messages) = parse(&whole, false).unwrap();
        assert_eq!((number, messages.len()), (7, 1));
        assert_eq!(messages[0].header, header(HELLO, v4(1)));
        assert_eq!(messages[0].hello(), Ok(hello));
        let onward = messages[0].onward();
        assert_eq!((onward[8], onward[9]), (254, 4));
    }

    #[test]
    fn qualities_are_addresses_and_two_octets_each() {
        let quality = |last, comes, arrives| Quality {
            of: v4(last),
            comes,
            arrives,
        };
        let all = [quality(2, 255, 255), quality(3, 204, 102)];
        assert_eq!(all.map(Quality::cost), [1000, 3125]);
        assert_eq!(quality(4, 0, 255).cost(), 255_000);
        let mut bytes = Vec::new();
        put_qualities(&header(QUALITY, v4(1)), &all, &mut bytes);
        assert_eq!(bytes[12..], [10, 0, 0, 2, 255, 255, 10, 0, 0, 3, 204, 102]);
        let read = |bytes: &[u8]| {
            let whole = packet(1, core::iter::once(bytes));
            let (_, messages) = parse(&whole, false).unwrap();
            messages[0].qualities()
        };
        assert_eq!(read(&bytes), Ok(all.to_vec()));
        bytes.pop();
        bytes[3] -= 1;
        assert_eq!(read(&bytes), Err(Malformed));
    }

    #[test]
    fn other_messages_read_back_in_both_families() {
        for v6 in [false, true] {
            let address = |last: u8| match v6 {
                false => v4(last),
                true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)).into(),
            };
            let network = |length| Prefix::new(address(9), length).unwrap().network();
            let networks = [network(0), network(23), network(32)];
            let mut tc = Vec::new();
            put_tc(
                &header(TC, address(1)),
                5,
                [address(2), address(3)].into_iter(),
                &mut tc,
            );
            let mut hna = Vec::new();
            put_hna(&header(HNA, address(1)), &networks, &mut hna);
            let whole = packet(1, [&tc[..], &hna[..]].into_iter());
            let (_, messages) = parse(&whole, v6).unwrap();
            assert_eq!(
                messages[0].tc(),
                Ok((5, alloc::vec![address(2), address(3)]))
            );
            assert_eq!(messages[1].hna(), Ok(networks.to_vec()));
            assert_eq!(messages[0].whole.len(), message_octets(v6, 4, 2));
        }
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let mut hello = Vec::new();
        let code = LinkCode {
            link: LinkType::Asymmetric,
            neighbour: NeighbourType::Not,
        };
        let said = Hello {
            interval: Duration::from_secs(2),
            willingness: 3,
            links: alloc::vec![(code, v4(2))],
        };
        put_hello(&header(HELLO, v4(1)), &said, &mut hello);
        let whole = packet(1, core::iter::once(&hello[..]));
        for octets in 0..whole.len() {
            let mut cut = whole[..octets].to_vec();
            assert!(parse(&cut, false).is_err());
            if octets > PACKET_HEADER + 4 {
                // Lengths that fit what is there, and say too much of what is inside.
                cut[1] = octets as u8;
                cut[7] = (octets - PACKET_HEADER) as u8;
                let read = parse(&cut, false).map(|(_, all)| all[0].hello());
                assert!(octets == 20 || !matches!(read, Ok(Ok(_))), "{octets}");
            }
        }
        // A message that claims no octets doesn't go on for ever.
        assert!(parse(&[0, 8, 0, 1, 1, 0, 0, 0], false).is_err());
    }
}
