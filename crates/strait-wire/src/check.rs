//! Frame checks: the two cyclic redundancy checks that our own framing uses.
//!
//! Table lookup over sixteen octets at a time; the tables are made at compile time.

use crc::{CRC_16_IBM_SDLC, CRC_32_ISO_HDLC, Crc, Table};

static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_IBM_SDLC);
static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// CRC-16/IBM-SDLC, the 16-bit frame check sequence of X.25 and RFC 1662 appendix C.2.
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    CRC16.checksum(bytes)
}

/// CRC-32/ISO-HDLC, the 32-bit frame check sequence of RFC 1662 appendix C.3 and of Ethernet.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    CRC32.checksum(bytes)
}

/// CRC-16/IBM-SDLC over octets that arrive in pieces. Its state is two octets, free to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc16Sum(u16);

impl Crc16Sum {
    /// The sum over no octets.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Takes in the next octets.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        // The state kept is the finished check; the register is that before the final inversion,
        // and the library wants it unreflected.
        let register = (self.0 ^ CRC_16_IBM_SDLC.xorout).reverse_bits();
        let mut digest = CRC16.digest_with_initial(register);
        digest.update(bytes);
        self.0 = digest.finalize();
        self
    }

    /// The check over all octets so far; more may follow.
    #[must_use]
    pub const fn finish(&self) -> u16 {
        self.0
    }
}

/// CRC-32/ISO-HDLC over octets that arrive in pieces. Its state is four octets, free to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc32Sum(u32);

impl Crc32Sum {
    /// The sum over no octets.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Takes in the next octets.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        let register = (self.0 ^ CRC_32_ISO_HDLC.xorout).reverse_bits();
        let mut digest = CRC32.digest_with_initial(register);
        digest.update(bytes);
        self.0 = digest.finalize();
        self
    }

    /// The check over all octets so far; more may follow.
    #[must_use]
    pub const fn finish(&self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// The catalogue's check string.
    const NINE: &[u8] = b"123456789";

    #[test]
    fn the_catalogue_values_come_out() {
        assert_eq!(crc16(NINE), 0x906e);
        assert_eq!(crc32(NINE), 0xcbf4_3926);
        assert_eq!((crc16(b""), crc32(b"")), (0, 0));
    }

    #[test]
    fn a_frame_with_its_check_leaves_the_residue_of_rfc_1662() {
        let mut short = Vec::from(NINE);
        short.extend_from_slice(&crc16(NINE).to_le_bytes());
        assert_eq!(!crc16(&short), 0xf0b8);
        let mut long = Vec::from(NINE);
        long.extend_from_slice(&crc32(NINE).to_le_bytes());
        assert_eq!(!crc32(&long), 0xdebb_20e3);
    }

    #[test]
    fn sums_chain() {
        assert_eq!(
            Crc32Sum::new().update(b"1234").update(b"56789").finish(),
            0xcbf4_3926
        );
        assert_eq!(
            Crc16Sum::new()
                .update(b"1")
                .update(b"")
                .update(&NINE[1..])
                .finish(),
            0x906e
        );
    }

    proptest! {
        #[test]
        fn pieces_give_the_sum_of_the_whole(bytes: Vec<u8>, cut: usize) {
            let (left, right) = bytes.split_at(cut % (bytes.len() + 1));
            prop_assert_eq!(Crc16Sum::new().update(left).update(right).finish(), crc16(&bytes));
            prop_assert_eq!(Crc32Sum::new().update(left).update(right).finish(), crc32(&bytes));
        }
    }
}
