//! The three checks of robust header compression (RFC 3095 section 5.9): CRC-8 over packets that
//! carry whole contexts, CRC-7 and CRC-3 over the header that a compressed one stands for.

use crc::{CRC_3_ROHC, CRC_7_ROHC, CRC_8_ROHC, Crc, Table};

use super::fields::Spans;

static CRC3: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_3_ROHC);
static CRC7: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_7_ROHC);
static CRC8: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_8_ROHC);

/// CRC-8 over the octets of `pieces`, one after the other.
pub(super) fn crc8(pieces: &[&[u8]]) -> u8 {
    over(&CRC8, pieces)
}

/// CRC-7 over an uncompressed header.
pub(super) fn crc7(header: &[u8], spans: Spans) -> u8 {
    over(&CRC7, &spans.pieces(header))
}

/// CRC-3 over an uncompressed header.
pub(super) fn crc3(header: &[u8], spans: Spans) -> u8 {
    over(&CRC3, &spans.pieces(header))
}

/// CRC-7 over octets as they lie.
pub(super) fn plain_crc7(header: &[u8]) -> u8 {
    over(&CRC7, &[header])
}

/// CRC-3 over octets as they lie.
pub(super) fn plain_crc3(header: &[u8]) -> u8 {
    over(&CRC3, &[header])
}

fn over(crc: &'static Crc<u8, Table<16>>, pieces: &[&[u8]]) -> u8 {
    let mut digest = crc.digest();
    for piece in pieces {
        digest.update(piece);
    }
    digest.finalize()
}
