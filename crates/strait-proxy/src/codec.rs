//! Datagrams of a session as octets.
//!
//! ```text
//! octet 0          version (high four bits, 2) and kind (low four bits)
//! 1 … 4            hello: the token that the receiver chose, 0 if it is unknown; else that and the
//!                  sender's, turned left by 13 bits, combined by exclusive or
//! hello (0)        5 … 8 the token that the sender chose, then the lowest stream that it
//!                  still opens; then networks to the end
//! items (1)        the datagram's number, then items to the end
//! answers (2)      items to the end: it has no number, and nobody acknowledges it
//! ```
//!
//! Numbers have seven bits an octet, the lowest first; the high bit says that another follows.
//! An item begins with its kind in the low four bits. Bit 7 says that its stream was opened by the
//! datagram's sender, bit 6 of data that the stream's direction ends behind it.
//!
//! ```text
//! open (1)         stream, code point, family (4 or 6), client, its port, server, its port
//! accept (2)       stream
//! data (3)         stream, offset, length, octets
//! credit (4)       stream, the offset below which octets are taken
//! reset (5)        stream, error
//! ack (6)          ranges − 1; the highest number received, the numbers before it in its range;
//!                  then for each further range the missing numbers above it − 1, its
//!                  numbers − 1
//! network (7)      family, length of the prefix, address: who is behind the sender
//! ```
//!
//! Errors are numbered as on Linux.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use strait_core::prefix::Prefix;

/// Octets in front of a numbered datagram's items, at most: first octet, token, number.
pub const HEADER_OCTETS_MAX: usize = 5 + NUMBER_OCTETS_MAX;
/// The most octets of a number.
pub const NUMBER_OCTETS_MAX: usize = 9;
/// Octets of an item without contents, at most: an open in IPv6.
pub const ITEM_OCTETS_MAX: usize = 1 + NUMBER_OCTETS_MAX + 2 + 36;
/// Networks in a hello: it is no longer than every link carries.
pub const NETWORKS_MAX: usize = 32;
/// Ranges in one acknowledgement.
pub const ACK_RANGES_MAX: usize = 32;

/// Another layout is another version, and so is another form of what streams carry
/// ([`pack`](crate::pack)) or another dictionary of it.
const VERSION: u8 = 2 << 4;
const HELLO: u8 = 0;
const ITEMS: u8 = 1;
const ANSWERS: u8 = 2;

const OPEN: u8 = 1;
const ACCEPT: u8 = 2;
const DATA: u8 = 3;
const CREDIT: u8 = 4;
const RESET: u8 = 5;
const ACK: u8 = 6;
const NETWORK: u8 = 7;

const SENDERS: u8 = 1 << 7;
const END: u8 = 1 << 6;

/// A stream, as one of both gateways calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Who has the key opened the stream.
    pub ours: bool,
    /// Its number among those that this side opened.
    pub n: u32,
}

/// The ends of the connection that a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Who connects; an unspecified address, port 0, if that is the sender itself. It is of the
    /// server's family.
    pub client: SocketAddr,
    /// To whom.
    pub server: SocketAddr,
}

/// What a datagram begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Who the sender is.
    Hello {
        /// The receiver's token, 0 if the sender doesn't know it.
        to: u32,
        /// The sender's.
        from: u32,
        /// The sender's streams before this one are over, or the receiver knows them.
        first: u32,
    },
    /// Items.
    Items {
        /// The tokens of both.
        to: u32,
        /// The datagram's number; `None` if it isn't acknowledged.
        number: Option<u64>,
    },
}

/// A part of a datagram. Keys are the sender's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A new stream of the sender's.
    Open {
        /// Its number.
        n: u32,
        /// The code point of its client's packets.
        dscp: u8,
        /// Who wants whom.
        ends: Ends,
    },
    /// A stream of the receiver's has its connection.
    Accept {
        /// The stream's number.
        n: u32,
    },
    /// Octets of a stream.
    Data {
        /// Which.
        key: Key,
        /// The place of the first of them.
        offset: u64,
        /// Nothing follows them.
        end: bool,
        /// They themselves.
        octets: &'a [u8],
    },
    /// How much of a stream may be sent.
    Credit {
        /// Which.
        key: Key,
        /// Octets before this place.
        limit: u64,
    },
    /// A stream is gone.
    Reset {
        /// Which.
        key: Key,
        /// Why.
        error: u16,
    },
    /// Who is behind the sender; in hellos alone.
    Network(Prefix),
    /// Numbers that were received: ranges of first and last, the highest first.
    Ack(Vec<(u64, u64)>),
}

/// Octets that are still to be read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn octets(&mut self, count: usize) -> Option<&'a [u8]> {
        let (octets, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(octets)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.octets(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for at in 0..NUMBER_OCTETS_MAX {
            let octet = self.octet()?;
            number |= u64::from(octet & 0x7f) << (7 * at);
            if octet & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn ip(&mut self, family: u8) -> Option<IpAddr> {
        Some(match family {
            4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)),
            _ => return None,
        })
    }

    fn address(&mut self, family: u8) -> Option<SocketAddr> {
        let ip = self.ip(family)?;
        Some(SocketAddr::new(ip, u16::from_be_bytes(self.array()?)))
    }

    fn network(&mut self) -> Option<Prefix> {
        let (family, length) = (self.octet()?, self.octet()?);
        Prefix::new(self.ip(family)?, length)
    }

    fn ack(&mut self) -> Option<Vec<(u64, u64)>> {
        let further = self.octet()?;
        if usize::from(further) >= ACK_RANGES_MAX {
            return None;
        }
        let mut last = self.number()?;
        let mut first = last.checked_sub(self.number()?)?;
        let mut ranges = Vec::from([(first, last)]);
        for _ in 0..further {
            last = first.checked_sub(self.number()?)?.checked_sub(2)?;
            first = last.checked_sub(self.number()?)?;
            ranges.push((first, last));
        }
        Some(ranges)
    }

    /// The next item; `Ok(None)` behind the last, an error where the octets are none.
    pub fn item(&mut self) -> Result<Option<Item<'a>>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        self.read_item().map(Some).ok_or(Malformed)
    }

    fn read_item(&mut self) -> Option<Item<'a>> {
        let first = self.octet()?;
        let key = |n: u32| Key {
            ours: first & SENDERS != 0,
            n,
        };
        Some(match first & 0x0f {
            OPEN => {
                let n = self.small()?;
                let dscp = Some(self.octet()?).filter(|dscp| *dscp < 64)?;
                let family = self.octet()?;
                let (client, server) = (self.address(family)?, self.address(family)?);
                let ends = Ends { client, server };
                Item::Open { n, dscp, ends }
            }
            ACCEPT => Item::Accept { n: self.small()? },
            DATA => {
                let key = key(self.small()?);
                let offset = self.number()?;
                let length = usize::try_from(self.number()?).ok()?;
                Item::Data {
                    key,
                    offset,
                    end: first & END != 0,
                    octets: self.octets(length)?,
                }
            }
            CREDIT => Item::Credit {
                key: key(self.small()?),
                limit: self.number()?,
            },
            RESET => Item::Reset {
                key: key(self.small()?),
                error: u16::try_from(self.number()?).ok()?,
            },
            ACK => Item::Ack(self.ack()?),
            NETWORK => Item::Network(self.network()?),
            _ => return None,
        })
    }
}

/// Octets that are no datagram, or no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A datagram's head, and its items.
pub fn read(bytes: &[u8]) -> Result<(Head, Reader<'_>), Malformed> {
    read_head(bytes).ok_or(Malformed)
}

fn read_head(bytes: &[u8]) -> Option<(Head, Reader<'_>)> {
    let mut reader = Reader(bytes);
    let first = reader.octet()?;
    let to = u32::from_be_bytes(reader.array()?);
    let head = match first ^ VERSION {
        HELLO => {
            let from = u32::from_be_bytes(reader.array()?);
            let first = reader.small()?;
            (from != 0).then_some(Head::Hello { to, from, first })?
        }
        ITEMS => Head::Items {
            to,
            number: Some(reader.number()?),
        },
        ANSWERS => Head::Items { to, number: None },
        _ => return None,
    };
    Some((head, reader))
}

/// Begins a datagram.
pub fn write_head(head: Head, out: &mut Vec<u8>) {
    let (kind, to) = match head {
        Head::Hello { to, .. } => (HELLO, to),
        Head::Items {
            to,
            number: Some(_),
        } => (ITEMS, to),
        Head::Items { to, number: None } => (ANSWERS, to),
    };
    out.push(VERSION | kind);
    out.extend_from_slice(&to.to_be_bytes());
    match head {
        Head::Hello { from, first, .. } => {
            out.extend_from_slice(&from.to_be_bytes());
            write_number(u64::from(first), out);
        }
        Head::Items { number, .. } => number.into_iter().for_each(|it| write_number(it, out)),
    }
}

/// Adds an item.
pub fn write_item(item: &Item<'_>, out: &mut Vec<u8>) {
    let first = |kind: u8, key: &Key| kind | if key.ours { SENDERS } else { 0 };
    match item {
        Item::Open { n, dscp, ends } => {
            out.push(OPEN);
            write_number(u64::from(*n), out);
            out.push(*dscp);
            out.push(if ends.server.is_ipv4() { 4 } else { 6 });
            for end in [ends.client, ends.server] {
                match end.ip() {
                    IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                    IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
                }
                out.extend_from_slice(&end.port().to_be_bytes());
            }
        }
        Item::Accept { n } => {
            out.push(ACCEPT);
            write_number(u64::from(*n), out);
        }
        Item::Data {
            key,
            offset,
            end,
            octets,
        } => {
            out.push(first(DATA, key) | if *end { END } else { 0 });
            write_number(u64::from(key.n), out);
            write_number(*offset, out);
            write_number(octets.len() as u64, out);
            out.extend_from_slice(octets);
        }
        Item::Credit { key, limit } => {
            out.push(first(CREDIT, key));
            write_number(u64::from(key.n), out);
            write_number(*limit, out);
        }
        Item::Reset { key, error } => {
            out.push(first(RESET, key));
            write_number(u64::from(key.n), out);
            write_number(u64::from(*error), out);
        }
        Item::Network(network) => {
            out.push(NETWORK);
            out.push(if network.address.is_ipv4() { 4 } else { 6 });
            out.push(network.length);
            match network.address {
                IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
            }
        }
        Item::Ack(ranges) => write_ack(ranges, out),
    }
}

fn write_ack(ranges: &[(u64, u64)], out: &mut Vec<u8>) {
    out.push(ACK);
    out.push(ranges.len().min(ACK_RANGES_MAX).saturating_sub(1) as u8);
    let mut before: Option<u64> = None;
    for (first, last) in ranges.iter().take(ACK_RANGES_MAX) {
        write_number(before.map_or(*last, |before| before - last - 2), out);
        write_number(last - first, out);
        before = Some(*first);
    }
}

pub(crate) fn write_number(mut number: u64, out: &mut Vec<u8>) {
    debug_assert!(number < 1 << (7 * NUMBER_OCTETS_MAX), "no offset grows so");
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number that is all of these octets.
pub(crate) fn read_number(octets: &[u8]) -> Option<u64> {
    let mut reader = Reader(octets);
    reader.number().filter(|_| reader.0.is_empty())
}

/// Octets in front of a datagram's items, if it has this number.
pub(crate) const fn header_octets(number: u64) -> usize {
    5 + number_octets(number)
}

/// Octets of a number.
pub(crate) const fn number_octets(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
