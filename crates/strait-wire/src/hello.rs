//! What the two ends of a link tell each other of themselves, ahead of what else a packet's place
//! carries.
//!
//! ```text
//!   octet  0     1       2      3       4        5 … 8        9 … 12   13, 14
//!       +------+--------+------+-------+-------+-------------+--------+-------+
//!       | 0xF9 | format | least| flags | cids  | incarnation | heard  | mtu   |
//!       +------+--------+------+-------+-------+-------------+--------+-------+
//! ```
//!
//! The first octet begins neither an IP packet nor a packet of robust header compression (RFC 5795
//! section 5.2: it is unused). Numbers are in network byte order.

use alloc::vec::Vec;

/// The first octet.
pub const MARK: u8 = 0xf9;
/// Octets of a hello.
pub const OCTETS: usize = 15;

const COMPRESSES: u8 = 0x01;
const CONFIRMED: u8 = 0x02;
const FAR_TIMESTAMPS: u8 = 0x80;

/// What an end of a link says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The newest format that it speaks.
    pub format: u8,
    /// The oldest one.
    pub format_least: u8,
    /// It compresses headers, and restores them.
    pub compresses: bool,
    /// It knows that the other end has heard this incarnation of it.
    pub confirmed: bool,
    /// It finds timestamps behind a long silence by the transport checksum.
    pub far_timestamps: bool,
    /// The highest number of a context.
    pub cids_max: u8,
    /// Another number after each start: what it knew before is gone.
    pub incarnation: u32,
    /// The other end's incarnation that it has heard; zero if none.
    pub heard: u32,
    /// The largest packet that it takes, in octets.
    pub mtu: u16,
}

impl Hello {
    /// Appends the hello.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.extend_from_slice(&[
            MARK,
            self.format,
            self.format_least,
            flag(self.compresses, COMPRESSES)
                | flag(self.confirmed, CONFIRMED)
                | flag(self.far_timestamps, FAR_TIMESTAMPS),
            self.cids_max,
        ]);
        out.extend_from_slice(&self.incarnation.to_be_bytes());
        out.extend_from_slice(&self.heard.to_be_bytes());
        out.extend_from_slice(&self.mtu.to_be_bytes());
    }

    /// Reads a hello at the front of `octets`, and gives what follows it. `None`: there is none, or
    /// not a whole one. Flags that nobody knows yet have no effect.
    #[must_use]
    pub fn parse(octets: &[u8]) -> Option<(Self, &[u8])> {
        let (hello, rest) = octets.split_first_chunk::<OCTETS>()?;
        let &[
            mark,
            format,
            format_least,
            flags,
            cids_max,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
        ] = hello;
        if mark != MARK {
            return None;
        }
        let hello = Self {
            format,
            format_least,
            compresses: flags & COMPRESSES != 0,
            confirmed: flags & CONFIRMED != 0,
            far_timestamps: flags & FAR_TIMESTAMPS != 0,
            cids_max,
            incarnation: u32::from_be_bytes([a, b, c, d]),
            heard: u32::from_be_bytes([e, f, g, h]),
            mtu: u16::from_be_bytes([i, j]),
        };
        Some((hello, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello {
        format: 2,
        format_least: 1,
        compresses: true,
        confirmed: false,
        far_timestamps: true,
        cids_max: 15,
        incarnation: 0x0102_0304,
        heard: 0xa0b0_c0d0,
        mtu: 1500,
    };

    #[test]
    fn a_hello_literally() {
        let mut octets = Vec::new();
        HELLO.emit(&mut octets);
        let expected = [
            0xf9, 2, 1, 0x81, 15, 1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0, 0x05, 0xdc,
        ];
        assert_eq!(octets, expected);
        octets.push(0x45);
        assert_eq!(Hello::parse(&octets), Some((HELLO, &[0x45][..])));
        for octets_left in 0..OCTETS {
            assert_eq!(Hello::parse(&octets[..octets_left]), None);
        }
        octets[0] = 0xf8;
        assert_eq!(Hello::parse(&octets), None);
    }

    #[test]
    fn flags_that_nobody_knows_have_no_effect() {
        let mut octets = Vec::new();
        HELLO.emit(&mut octets);
        octets[3] |= 0x7c;
        assert_eq!(Hello::parse(&octets), Some((HELLO, &[][..])));
    }
}
