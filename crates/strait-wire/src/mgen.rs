//! The message of MGEN 5, the traffic generator of the Naval Research Laboratory: what its flows
//! carry in UDP datagrams and, one after the other, in TCP streams.
//!
//! Follows the section «MGEN Message Payload» of the MGEN 5.0 user's guide; flags and checksum are
//! as MGEN 5.02b sends them. All fields are big-endian. The length tells which of the optional
//! fields are there: a message may end anywhere after its destination.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

use crate::bytes::{array_at, u16_at, u32_at};
use crate::check::crc32;

/// The only version of the message that MGEN 4 and 5 send.
pub const VERSION: u8 = 2;
/// The shortest message, with an IPv4 destination.
pub const OCTETS_MIN: usize = 28;
/// The longest message in a datagram that MGEN takes.
pub const UDP_OCTETS_MAX: usize = 8192;
/// The shortest message in a stream: all fields fit whatever the addresses are.
pub const TCP_OCTETS_MIN: usize = 76;
/// The longest piece of a message in a stream, by its field for the length. A longer message is cut
/// into such pieces.
pub const PIECE_OCTETS_MAX: usize = u16::MAX as usize;

/// More pieces of the same message follow.
pub const FLAG_CONTINUES: u8 = 0x01;
/// The last of several pieces.
pub const FLAG_END: u8 = 0x02;
/// The last four octets are a checksum.
pub const FLAG_CHECKSUM: u8 = 0x04;
/// Nothing of the message follows that isn't in this buffer; in every datagram.
pub const FLAG_LAST_BUFFER: u8 = 0x08;

const FIXED_OCTETS: usize = 20;
const CHECKSUM_OCTETS: usize = 4;
/// 999 degrees and -999 m, which MGEN sends for an unknown place.
const NOWHERE: [u32; 3] = [70_740_000, 70_740_000, -999_i32 as u32];

/// Why octets are no MGEN message. The words are those of MGEN's `RERR` lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MgenError {
    /// Too short, or of another length than it says.
    #[error("length")]
    Length,
    /// The version isn't 2.
    #[error("version")]
    Version,
    /// The checksum doesn't fit the octets before it.
    #[error("checksum")]
    Checksum,
    /// The destination is no IPv4 or IPv6 address.
    #[error("dstAddr")]
    Destination,
}

/// When a message was sent, on the sender's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SentAt {
    /// Seconds since 1970, UTC.
    pub seconds: u32,
    /// Microseconds of the second.
    pub micros: u32,
}

impl SentAt {
    /// From nanoseconds since 1970; fractions of a microsecond are left out, and seconds wrap in
    /// 2106.
    pub const fn from_ns(ns: u64) -> Self {
        Self {
            seconds: (ns / 1_000_000_000) as u32,
            micros: (ns % 1_000_000_000 / 1000) as u32,
        }
    }

    /// Nanoseconds since 1970.
    pub const fn as_ns(self) -> u64 {
        self.seconds as u64 * 1_000_000_000 + self.micros as u64 * 1000
    }
}

/// Where the sender was. The fields are as they stand in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// (Degrees north + 180) · 60,000.
    pub latitude: u32,
    /// (Degrees east + 180) · 60,000.
    pub longitude: u32,
    /// Metres.
    pub altitude: i32,
    /// 0 invalid, 1 stale, 2 current.
    pub status: u8,
}

impl Position {
    /// What a sender without a receiver for satellite navigation says.
    pub const UNKNOWN: Self = Self {
        latitude: NOWHERE[0],
        longitude: NOWHERE[1],
        altitude: NOWHERE[2] as i32,
        status: 0,
    };
}

/// A message, or one piece of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `FLAG_…`.
    pub flags: u8,
    /// The script's number of the flow.
    pub flow: u32,
    /// The message's number within its flow, modulo 2^32.
    pub sequence: u32,
    /// When it was sent.
    pub sent: SentAt,
    /// Where to.
    pub dst: SocketAddr,
    /// What the sender takes for its own address, if it says so.
    pub host: Option<SocketAddr>,
    /// Where the sender was, if there is room to say so.
    pub position: Option<Position>,
    /// The user's own octets.
    pub data: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message without anything optional.
    pub const fn new(flow: u32, sequence: u32, sent: SentAt, dst: SocketAddr) -> Self {
        Self {
            flags: FLAG_LAST_BUFFER,
            flow,
            sequence,
            sent,
            dst,
            host: None,
            position: Some(Position::UNKNOWN),
            data: &[],
        }
    }

    /// Octets of the shortest message to an address of this family.
    pub const fn octets_min(ipv4: bool) -> usize {
        if ipv4 { OCTETS_MIN } else { OCTETS_MIN + 12 }
    }

    /// Reads a message that is all of `bytes`: a datagram's payload, or a piece that
    /// [`piece_octets`] has found the end of. What is cut off of the optional fields isn't there.
    ///
    /// # Errors
    /// What MGEN would call it: length, version, checksum or destination.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MgenError> {
        let fixed = bytes
            .first_chunk::<FIXED_OCTETS>()
            .ok_or(MgenError::Length)?;
        if fixed[2] != VERSION {
            return Err(MgenError::Version);
        }
        if bytes.len() != usize::from(u16::from_be_bytes([fixed[0], fixed[1]])) {
            return Err(MgenError::Length);
        }
        let flags = fixed[3];
        let fields = if flags & FLAG_CHECKSUM == 0 {
            bytes
        } else {
            checked(bytes)?
        };
        let word = |at| u32_at(fixed, at).unwrap_or_default();
        let (dst, end) = destination(fields)?;
        let mut message = Message {
            flags,
            flow: word(4),
            sequence: word(8),
            sent: SentAt {
                seconds: word(12),
                micros: word(16),
            },
            dst,
            host: None,
            position: None,
            data: &[],
        };
        message.read_options(fields.get(end..).unwrap_or_default());
        Ok(message)
    }

    fn read_options(&mut self, rest: &'a [u8]) {
        let Some((host, octets)) = address(rest) else {
            return;
        };
        self.host = host;
        let rest = rest.get(octets..).unwrap_or_default();
        let word = |at| u32_at(rest, at);
        let (Some(latitude), Some(longitude), Some(altitude), Some(status)) =
            (word(0), word(4), word(8), rest.get(12))
        else {
            return;
        };
        self.position = Some(Position {
            latitude,
            longitude,
            altitude: altitude as i32,
            status: *status,
        });
        let octets = u16_at(rest, 14).map_or(0, usize::from);
        self.data = rest.get(16..16 + octets).unwrap_or_default();
    }

    /// Writes the message to `out`, whose content it replaces, with zeros up to `octets`. Optional
    /// fields that find no room are left out, as MGEN does. With [`FLAG_CHECKSUM`], the checksum
    /// ends it.
    ///
    /// # Errors
    /// [`MgenError::Length`] if the fields that have to be there need more room, or `octets` is
    /// more than [`PIECE_OCTETS_MAX`].
    pub fn emit(&self, octets: usize, out: &mut Vec<u8>) -> Result<(), MgenError> {
        let checksum = self.flags & FLAG_CHECKSUM != 0;
        let room = octets.saturating_sub(if checksum { CHECKSUM_OCTETS } else { 0 });
        let Ok(length) = u16::try_from(octets) else {
            return Err(MgenError::Length);
        };
        if room < Self::octets_min(self.dst.is_ipv4()) {
            return Err(MgenError::Length);
        }
        out.clear();
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&[VERSION, self.flags]);
        for word in [
            self.flow,
            self.sequence,
            self.sent.seconds,
            self.sent.micros,
        ] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        put_address(Some(self.dst), out);
        self.put_options(room, out);
        out.resize(room, 0);
        if checksum {
            let sum = crc32(out);
            out.extend_from_slice(&sum.to_be_bytes());
        }
        Ok(())
    }

    /// Optional fields as long as there is room for the next one.
    fn put_options(&self, room: usize, out: &mut Vec<u8>) {
        let mut last = out.len();
        put_address(self.host, out);
        if out.len() > room {
            return out.truncate(last);
        }
        last = out.len();
        let place = self.position.unwrap_or(Position::UNKNOWN);
        for word in [place.latitude, place.longitude, place.altitude as u32] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&[place.status, 0]);
        if out.len() > room {
            return out.truncate(last);
        }
        last = out.len();
        if let Ok(octets) = u16::try_from(self.data.len()) {
            out.extend_from_slice(&octets.to_be_bytes());
            out.extend_from_slice(self.data);
        }
        if out.len() > room {
            out.truncate(last);
        }
    }
}

/// The octets before the checksum, if it fits them.
fn checked(bytes: &[u8]) -> Result<&[u8], MgenError> {
    let (fields, sum) = bytes
        .split_last_chunk::<CHECKSUM_OCTETS>()
        .ok_or(MgenError::Length)?;
    if crc32(fields) == u32::from_be_bytes(*sum) {
        Ok(fields)
    } else {
        Err(MgenError::Checksum)
    }
}

/// The destination of a message and where it ends.
fn destination(fields: &[u8]) -> Result<(SocketAddr, usize), MgenError> {
    let rest = fields.get(FIXED_OCTETS..).unwrap_or_default();
    let kind = *rest.get(2).ok_or(MgenError::Length)?;
    match address(rest) {
        Some((Some(dst), octets)) => Ok((dst, FIXED_OCTETS + octets)),
        Some((None, _)) => Err(MgenError::Destination),
        None if matches!(kind, 1 | 2) => Err(MgenError::Length),
        None => Err(MgenError::Destination),
    }
}

/// Port, kind, length and address: the address if it is one, and the octets of it all. `None` if
/// it is cut off or contradicts itself.
fn address(bytes: &[u8]) -> Option<(Option<SocketAddr>, usize)> {
    let port = u16_at(bytes, 0)?;
    let ip: IpAddr = match (bytes.get(2)?, bytes.get(3)?) {
        (0, octets) => return Some((None, 4 + usize::from(*octets))),
        (1, 4) => Ipv4Addr::from(array_at::<4>(bytes, 4)?).into(),
        (2, 16) => Ipv6Addr::from(array_at::<16>(bytes, 4)?).into(),
        _ => return None,
    };
    let octets = if ip.is_ipv4() { 8 } else { 20 };
    Some((Some(SocketAddr::new(ip, port)), octets))
}

fn put_address(address: Option<SocketAddr>, out: &mut Vec<u8>) {
    let port = address.map_or(0, |address| address.port());
    out.extend_from_slice(&port.to_be_bytes());
    match address.map(|address| address.ip()) {
        None => out.extend_from_slice(&[0, 0]),
        Some(IpAddr::V4(ip)) => {
            out.extend_from_slice(&[1, 4]);
            out.extend_from_slice(&ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            out.extend_from_slice(&[2, 16]);
            out.extend_from_slice(&ip.octets());
        }
    }
}

/// How many octets the piece at the beginning of a stream has; `None` if its length isn't there
/// yet.
///
/// # Errors
/// [`MgenError::Length`] for a length that no piece can have: the stream is lost then, as nothing
/// tells where the next piece begins.
pub fn piece_octets(stream: &[u8]) -> Result<Option<usize>, MgenError> {
    match u16_at(stream, 0).map(usize::from) {
        Some(octets) if octets < OCTETS_MIN => Err(MgenError::Length),
        octets => Ok(octets),
    }
}

/// The lengths of the pieces of a message of `octets` in a stream, in order: as long as possible,
/// the last one never below [`TCP_OCTETS_MIN`].
pub fn pieces(octets: u64) -> impl Iterator<Item = (usize, u8)> {
    let (most, least) = (PIECE_OCTETS_MAX as u64, TCP_OCTETS_MIN as u64);
    let mut left = octets;
    core::iter::from_fn(move || {
        let now = match left {
            0 => return None,
            _ if left <= most => left,
            // What remains has to hold the fields of a last piece.
            _ => most.min(left.saturating_sub(least)),
        };
        let flag = match (now == octets, now == left) {
            (true, _) => 0,
            (_, true) => FLAG_END,
            _ => FLAG_CONTINUES,
        };
        left -= now;
        Some((now as usize, flag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    /// The first 52 octets of a message of 100 octets that MGEN 5.02b sent to 127.0.0.1/6001 as
    /// flow 7, from port 5555.
    const SENT_BY_MGEN: [u8; 52] = [
        0x00, 0x64, 0x02, 0x08, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x01, 0x6b, 0x01, 0x20,
        0x21, 0x00, 0x0b, 0x29, 0x19, 0x17, 0x71, 0x01, 0x04, 0x7f, 0x00, 0x00, 0x01, 0x00, 0x00,
        0x00, 0x00, 0x04, 0x37, 0x68, 0x20, 0x04, 0x37, 0x68, 0x20, 0xff, 0xff, 0xfc, 0x19, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    ];

    fn of_mgen() -> Vec<u8> {
        let mut bytes = SENT_BY_MGEN.to_vec();
        bytes.resize(100, 0);
        bytes
    }

    fn message() -> Message<'static> {
        let sent = SentAt {
            seconds: 0x6b01_2021,
            micros: 731_417,
        };
        Message::new(7, 1, sent, "127.0.0.1:6001".parse().unwrap())
    }

    #[test]
    fn a_message_of_mgen_read_and_written() {
        let bytes = of_mgen();
        assert_eq!(Message::parse(&bytes), Ok(message()));
        let mut out = vec![9];
        message().emit(100, &mut out).unwrap();
        assert_eq!(out, bytes);
        assert_eq!(SentAt::from_ns(message().sent.as_ns()), message().sent);
    }

    #[test]
    fn the_shortest_message_has_no_option() {
        let mut out = Vec::new();
        message().emit(28, &mut out).unwrap();
        assert_eq!(out[..2], [0, 28]);
        assert_eq!(out[2..], of_mgen()[2..28]);
        let read = Message::parse(&out).unwrap();
        assert_eq!((read.host, read.position, read.data.len()), (None, None, 0));
        assert_eq!(message().emit(27, &mut out), Err(MgenError::Length));
        let to_v6 = Message {
            dst: "[::1]:6001".parse().unwrap(),
            ..message()
        };
        assert_eq!(to_v6.emit(39, &mut out), Err(MgenError::Length));
        to_v6.emit(40, &mut out).unwrap();
        assert_eq!(Message::parse(&out).unwrap().dst, to_v6.dst);
        assert_eq!(message().emit(65_536, &mut out), Err(MgenError::Length));
    }

    #[test]
    fn options_that_find_no_room_are_left_out() {
        let full = Message {
            host: Some("192.0.2.2:5555".parse().unwrap()),
            data: &[0xab, 0xcd],
            ..message()
        };
        let mut out = Vec::new();
        for (octets, host, position, data) in [
            (35, false, false, 0),
            (36, true, false, 0),
            (49, true, false, 0),
            (50, true, true, 0),
            (53, true, true, 0),
            (54, true, true, 2),
        ] {
            full.emit(octets, &mut out).unwrap();
            let read = Message::parse(&out).unwrap();
            assert_eq!(
                (read.host.is_some(), read.data.len()),
                (host, data),
                "{octets}"
            );
            // Zeros where the place would be read as one if there are enough of them.
            assert_eq!(read.position == full.position, position, "{octets}");
        }
    }

    #[test]
    fn the_checksum_is_that_of_mgen() {
        // The end of a message of MGEN 5.02b with the option `txcheck`.
        let mut bytes = of_mgen();
        bytes[3] = 0x0c;
        bytes[8..20].copy_from_slice(&[0, 0, 0, 0, 0x6b, 0x01, 0x20, 0x40, 0x00, 0x01, 0xc6, 0x92]);
        bytes[96..].copy_from_slice(&[0x85, 0x05, 0xe2, 0xf0]);
        let read = Message::parse(&bytes).unwrap();
        let mut out = Vec::new();
        read.emit(100, &mut out).unwrap();
        assert_eq!(out, bytes);
        bytes[50] ^= 1;
        assert_eq!(Message::parse(&bytes), Err(MgenError::Checksum));
    }

    #[test]
    fn what_is_wrong_has_mgens_words() {
        let bytes = of_mgen();
        let told = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            Message::parse(&bytes).map(|_| ())
        };
        assert_eq!(told(&|b| b[2] = 1), Err(MgenError::Version));
        assert_eq!(told(&|b| b.truncate(99)), Err(MgenError::Length));
        assert_eq!(told(&|b| b.truncate(19)), Err(MgenError::Length));
        assert_eq!(told(&|b| b[22] = 3), Err(MgenError::Destination));
        assert_eq!(told(&|b| b[22] = 0), Err(MgenError::Destination));
        assert_eq!(
            told(&|b| {
                b.truncate(27);
                b[1] = 27;
            }),
            Err(MgenError::Length)
        );
        assert_eq!(alloc::format!("{}", MgenError::Destination), "dstAddr");
    }

    #[test]
    fn a_long_message_is_cut_as_mgen_cuts_it() {
        let cut = |octets| pieces(octets).collect::<Vec<_>>();
        assert_eq!(cut(100), [(100, 0)]);
        assert_eq!(cut(65_535), [(65_535, 0)]);
        assert_eq!(cut(100_000), [(65_535, 1), (34_465, 2)]);
        assert_eq!(cut(65_536), [(65_460, 1), (76, 2)]);
        assert_eq!(piece_octets(&[0]), Ok(None));
        assert_eq!(piece_octets(&[0, 28]), Ok(Some(28)));
        assert_eq!(piece_octets(&[0, 27]), Err(MgenError::Length));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(mut bytes: Vec<u8>, fits: bool) {
            if fits && bytes.len() > 3 {
                let length = (bytes.len() as u16).to_be_bytes();
                bytes[..3].copy_from_slice(&[length[0], length[1], VERSION]);
            }
            let _ = Message::parse(&bytes);
            let _ = piece_octets(&bytes);
        }

        #[test]
        fn a_written_message_reads_back(
            flow: u32, sequence: u32, ns in 0..4_000_000_000_000_000_000_u64, ipv4: bool,
            checksum: bool, data in prop::collection::vec(any::<u8>(), 0..40),
            octets in 76..300_usize,
        ) {
            let dst = if ipv4 { "10.1.2.3:5" } else { "[fd00::1]:9" };
            let dst = dst.parse().unwrap();
            let mut message = Message::new(flow, sequence, SentAt::from_ns(ns), dst);
            message.flags |= if checksum { FLAG_CHECKSUM } else { 0 };
            message.data = &data;
            let mut out = Vec::new();
            message.emit(octets, &mut out).unwrap();
            prop_assert_eq!(out.len(), octets);
            let read = Message::parse(&out).unwrap();
            if read.data.is_empty() {
                message.data = &[];
            }
            prop_assert_eq!(read, message);
        }

        #[test]
        fn pieces_add_up(octets in 76..2_000_000_u64) {
            let cut: Vec<_> = pieces(octets).collect();
            prop_assert_eq!(cut.iter().map(|(octets, _)| *octets as u64).sum::<u64>(), octets);
            prop_assert!(cut.iter().all(|(octets, _)| (76..=PIECE_OCTETS_MAX).contains(octets)));
        }
    }
}
