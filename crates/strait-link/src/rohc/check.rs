//! The three checks of robust header compression (RFC 3095 section 5.9): CRC-8 over packets that
//! carry whole contexts, CRC-7 and CRC-3 over the header that a compressed one stands for.

use crc::{CRC_3_ROHC, CRC_7_ROHC, CRC_8_ROHC, Crc, Table};
use strait_wire::ip::verify_transport_checksum;

use super::envelope::inner_packet;
use super::fields::{Fields, Spans};

static CRC3: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_3_ROHC);
static CRC7: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_7_ROHC);
static CRC8: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_8_ROHC);

/// CRC-8 over the octets of `pieces`, one after the other.
pub(super) fn crc8(pieces: &[&[u8]]) -> u8 {
    over(&CRC8, pieces)
}

/// Whether a packet's transport checksum is right; `None` if it has none that could be wrong. UDP
/// may leave its own out over IPv6, too (RFC 6935 section 5). In a tunnel it is the inner packet's.
pub(super) fn transport_sum(packet: &[u8]) -> Option<bool> {
    let packet = inner_packet(packet);
    let right = verify_transport_checksum(packet)?;
    (right || !lacks_checksum(packet)).then_some(right)
}

/// Whether the UDP checksum is left out.
fn lacks_checksum(packet: &[u8]) -> bool {
    let read = Fields::read_ip(packet);
    read.is_some_and(|(fields, udp)| fields.protocol == 17 && udp.get(6..8) == Some(&[0, 0]))
}

/// The checks over the fields of a header that stay from packet to packet: those that change come
/// behind them, so that one sum does for many packets (RFC 3095 section 5.9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    crc3: u8,
    crc7: u8,
}

impl Sums {
    /// Of an uncompressed header.
    pub(super) fn of(header: &[u8], spans: Spans) -> Self {
        let stays = spans.stays(header);
        Self {
            crc3: over(&CRC3, &stays),
            crc7: over(&CRC7, &stays),
        }
    }

    /// CRC-7 over an uncompressed header with the same fields.
    pub(super) fn crc7(self, header: &[u8], spans: Spans) -> u8 {
        // The sum runs from the lowest bit, its beginning is given from the highest.
        on(&CRC7, self.crc7.reverse_bits() >> 1, &spans.changes(header))
    }

    /// CRC-3 over an uncompressed header with the same fields.
    pub(super) fn crc3(self, header: &[u8], spans: Spans) -> u8 {
        on(&CRC3, self.crc3.reverse_bits() >> 5, &spans.changes(header))
    }
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
    on(crc, crc.algorithm.init, pieces)
}

fn on(crc: &'static Crc<u8, Table<16>>, initial: u8, pieces: &[&[u8]]) -> u8 {
    let mut digest = crc.digest_with_initial(initial);
    for piece in pieces {
        digest.update(piece);
    }
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_goes_on_where_another_ended() {
        let octets: [u8; 40] = core::array::from_fn(|at| (at * 37) as u8);
        for cut in 0..=octets.len() {
            let (front, back) = octets.split_at(cut);
            let (crc3, crc7) = (over(&CRC3, &[front]), over(&CRC7, &[front]));
            let whole = (plain_crc3(&octets), plain_crc7(&octets));
            let third = on(&CRC3, crc3.reverse_bits() >> 5, &[back]);
            let seventh = on(&CRC7, crc7.reverse_bits() >> 1, &[back]);
            assert_eq!((third, seventh), whole, "{cut}");
        }
    }
}
