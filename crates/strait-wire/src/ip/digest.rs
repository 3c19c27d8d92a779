//! A packet's identity along its path.

use alloc::vec::Vec;

use super::edit::mss_fields;
use super::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS};
use crate::hash::hash64;

/// Seeds of the three kinds of octets, so that none is taken for another.
const SEED_IPV4: u64 = 4;
const SEED_IPV6: u64 = 6;
const SEED_OTHER: u64 = 0;

/// Octets of the longest packet that is looked at for a SYN: the headers and all options of one,
/// with extension headers to spare.
const SYN_OCTETS_MAX: usize = 256;

/// A 64-bit hash over everything that routers leave alone: the same packet has the same digest at
/// every hop, another one has another.
///
/// Taken as zero are of IPv4 type of service (DSCP and ECN), time to live and header checksum; of
/// IPv6 traffic class and hop limit; of a TCP SYN with up to 256 octets the checksum
/// and the maximum segment size, which a gateway may lower. Other options and extension headers
/// count in full. Fragments are packets of their own. Octets that are no packet are hashed as they
/// are.
///
/// The result is [`hash64`] of the octets after the fixed header, seeded with that of the fixed
/// header.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    if bytes.len() <= SYN_OCTETS_MAX
        && let Some(fields) = mss_fields(bytes)
    {
        let mut syn = Vec::from(bytes);
        for at in fields {
            syn[at..at + 2].fill(0);
        }
        return of_octets(&syn);
    }
    of_octets(bytes)
}

fn of_octets(bytes: &[u8]) -> u64 {
    match bytes.first().map(|octet| octet >> 4) {
        Some(4) => masked::<IPV4_HEADER_OCTETS>(bytes, SEED_IPV4, |head| {
            head[1] = 0;
            head[8] = 0;
            head[10] = 0;
            head[11] = 0;
        }),
        Some(6) => masked::<IPV6_HEADER_OCTETS>(bytes, SEED_IPV6, |head| {
            head[0] &= 0xf0;
            head[1] &= 0x0f;
            head[7] = 0;
        }),
        _ => None,
    }
    .unwrap_or_else(|| hash64(SEED_OTHER, bytes))
}

#[inline]
fn masked<const N: usize>(bytes: &[u8], seed: u64, mask: impl FnOnce(&mut [u8; N])) -> Option<u64> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    let mut head = *head;
    mask(&mut head);
    Some(hash64(hash64(seed, &head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{PING4, UDP6};
    use crate::ip::{decrement_hop_limit, set_dscp};
    use proptest::prelude::*;

    #[test]
    fn known_answers_never_change() {
        // Computed by another program from the descriptions here and of the hash.
        assert_eq!(
            [digest(PING4), digest(UDP6), digest(b"\x45"), digest(b"")],
            [
                0x4dae_08a5_80fb_e754,
                0x6e09_3108_5c9b_adc1,
                0x457f_3240_eb51_40a2,
                0x2741_2c63_4aec_9521
            ]
        );
    }

    #[test]
    fn what_routers_change_doesnt_count() {
        for sample in [PING4, UDP6] {
            let mut changed = Vec::from(sample);
            set_dscp(&mut changed, 46);
            assert!(decrement_hop_limit(&mut changed));
            assert_ne!(changed, sample);
            assert_eq!(digest(&changed), digest(sample));
        }
    }

    #[test]
    fn every_other_bit_counts() {
        // Octet, and the bits of it that routers may change.
        let free4 = [(1, 0xff), (8, 0xff), (10, 0xff), (11, 0xff)];
        let free6 = [(0, 0x0f), (1, 0xf0), (7, 0xff)];
        for (sample, free) in [(PING4, &free4[..]), (UDP6, &free6[..])] {
            for bit in 0..sample.len() * 8 {
                let (octet, mask) = (bit / 8, 1_u8 << (bit % 8));
                let mut other = Vec::from(sample);
                other[octet] ^= mask;
                let ignored = free
                    .iter()
                    .any(|(at, bits)| *at == octet && bits & mask != 0);
                assert_eq!(digest(&other) == digest(sample), ignored, "bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_octets_have_one(bytes: Vec<u8>, ipv4: bool) {
            let _ = digest(&bytes);
            let first = if ipv4 { 0x45 } else { 0x60 };
            let _ = digest(&[&[first], &bytes[..]].concat());
        }
    }
}
