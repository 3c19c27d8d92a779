//! The two checks of a D_PDU (Annex C).

use crc::{Algorithm, Crc, Table};

/// The header's check: polynomial x^16 + x^15 + x^12 + x^11 + x^8 + x^6 + x^3 + 1.
const HEADER: Algorithm<u16> = Algorithm {
    width: 16,
    poly: 0x9949,
    init: 0,
    refin: true,
    refout: true,
    xorout: 0,
    check: 0x7d01,
    residue: 0,
};

/// The segment's check.
const SEGMENT: Algorithm<u32> = Algorithm {
    width: 32,
    poly: 0x0aa7_25cf,
    init: 0,
    refin: true,
    refout: true,
    xorout: 0,
    check: 0x6738_a384,
    residue: 0,
};

static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&HEADER);
static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&SEGMENT);

/// The check of a header, sent with its low octet first.
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    CRC16.checksum(bytes)
}

/// The check of a segment, sent with its lowest octet first.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    CRC32.checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_both_polynomials_come_out() {
        assert_eq!(crc16(b"123456789"), 0x7d01);
        assert_eq!(crc32(b"123456789"), 0x6738_a384);
        // The example of Annex C.
        let example = [0xf0, 0, 0, 0x47, 0x05, 0x64, 0x02];
        assert_eq!(crc16(&example), 0x1e5f);
        assert_eq!(crc32(&example), 0xf417_8f95);
    }
}
