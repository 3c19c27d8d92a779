//! Numbers, octets, addresses and times, written and read back. Reading is total: `None` for
//! anything that no writer makes.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use strait_core::rate::LineRate;
use strait_core::{Duration, Instant};

/// Appends to a record's body.
pub(super) struct Put<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// Payloads become lengths.
    pub(super) masked: bool,
}

impl Put<'_> {
    pub(super) fn octet(&mut self, value: u8) {
        self.out.push(value);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// A number of either sign, small ones in few octets.
    pub(super) fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    pub(super) fn octets(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// What users said to each other: its length only, if masked.
    pub(super) fn payload(&mut self, bytes: &[u8]) {
        if self.masked {
            self.number(bytes.len() as u64);
        } else {
            self.octets(bytes);
        }
    }

    pub(super) fn duration(&mut self, duration: Duration) {
        self.number(duration.as_secs());
        self.number(u64::from(duration.subsec_nanos()));
    }

    /// A moment by its distance from another.
    pub(super) fn moment(&mut self, from: Instant, at: Instant) {
        self.signed(at.as_nanos().wrapping_sub(from.as_nanos()) as i64);
    }

    pub(super) fn rate(&mut self, rate: LineRate) {
        self.number(rate.bit_s());
        self.octet(rate.bits_per_octet());
    }

    pub(super) fn ip(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.octet(4);
                self.out.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                self.octet(6);
                self.out.extend_from_slice(&address.octets());
            }
        }
    }

    pub(super) fn socket(&mut self, address: SocketAddr) {
        self.ip(address.ip());
        self.number(u64::from(address.port()));
        if let SocketAddr::V6(address) = address {
            self.number(u64::from(address.flowinfo()));
            self.number(u64::from(address.scope_id()));
        }
    }
}

/// Reads a record's body.
#[derive(Clone, Debug)]
pub(super) struct Take<'a> {
    pub(super) rest: &'a [u8],
    pub(super) masked: bool,
    /// Octets of the payload that was read last, masked or not.
    pub(super) payload_octets: usize,
}

impl<'a> Take<'a> {
    pub(super) const fn new(rest: &'a [u8], masked: bool) -> Self {
        Self {
            rest,
            masked,
            payload_octets: 0,
        }
    }

    pub(super) fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.octet()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            let bits = u64::from(octet & 0x7f);
            // The tenth octet has room for one bit only.
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if octet & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number that fits a smaller type.
    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn some(&mut self, octets: usize) -> Option<&'a [u8]> {
        let (some, rest) = self.rest.split_at_checked(octets)?;
        self.rest = rest;
        Some(some)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.some(N)?.try_into().ok()
    }

    pub(super) fn octets(&mut self) -> Option<&'a [u8]> {
        let octets = self.small()?;
        self.some(octets)
    }

    /// Empty if payloads are masked.
    pub(super) fn payload(&mut self) -> Option<&'a [u8]> {
        let octets = self.small()?;
        self.payload_octets = octets;
        self.some(if self.masked { 0 } else { octets })
    }

    pub(super) fn duration(&mut self) -> Option<Duration> {
        let seconds = self.number()?;
        let nanos = self.small::<u32>().filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(seconds, nanos))
    }

    pub(super) fn moment(&mut self, from: Instant) -> Option<Instant> {
        let distance = self.signed()? as u64;
        Some(Instant::from_nanos(from.as_nanos().wrapping_add(distance)))
    }

    pub(super) fn rate(&mut self) -> Option<LineRate> {
        let bit_s = self.number()?;
        Some(LineRate::new(bit_s, self.octet()?))
    }

    pub(super) fn ip(&mut self) -> Option<IpAddr> {
        match self.octet()? {
            4 => Some(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            _ => None,
        }
    }

    pub(super) fn socket(&mut self) -> Option<SocketAddr> {
        let ip = self.ip()?;
        let port = self.small()?;
        Some(match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, port),
            IpAddr::V6(ip) => {
                let flow = self.small()?;
                SocketAddr::V6(SocketAddrV6::new(ip, port, flow, self.small()?))
            }
        })
    }

    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Some(None)
        }
    }

    /// Everything must have been read.
    pub(super) fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}

/// A body, framed: its length before it, a check behind it.
pub(super) fn frame(body: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    Put { out, masked: false }.octets(body);
    let check = strait_wire::check::crc32(&out[start..]);
    out.extend_from_slice(&check.to_le_bytes());
}

/// Octets that a body of `octets` takes when framed.
pub(super) const fn framed_octets(octets: usize) -> usize {
    let bits = usize::BITS - octets.leading_zeros();
    let length = if bits == 0 { 1 } else { bits.div_ceil(7) };
    length as usize + octets + 4
}

/// Takes a framed body off `bytes`; `None` if it isn't whole and sound, and then `bytes` stays.
pub(super) fn unframe<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut take = Take::new(bytes, false);
    let body = take.octets()?;
    let framed = &bytes[..bytes.len() - take.rest.len()];
    let check = u32::from_le_bytes(take.array()?);
    if strait_wire::check::crc32(framed) != check {
        return None;
    }
    *bytes = take.rest;
    Some(body)
}
