//! A small fast hash, the same on every machine and in every version.
//!
//! Run hashes, packet identities and journals are compared across machines and releases, so the
//! function is ours and fixed by known answers. It spreads well; it resists no adversary.

/// Odd multipliers: the fractional parts of π, e, √2 and √3 in binary, last bit set.
const LANES: [u64; 4] = [
    0x243f_6a88_85a3_08d3,
    0xb7e1_5162_8aed_2a6b,
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
];

/// Octets that one step of all lanes takes.
const STEP_OCTETS: usize = 32;

/// The upper and the lower half of the 128-bit product, folded together by exclusive or.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product >> 64) as u64 ^ product as u64
}

/// The next word of a lane: the state stays part of the result even where the product is zero.
#[inline]
const fn absorb(state: u64, word: u64, multiplier: u64) -> u64 {
    fold(state ^ word, multiplier).wrapping_add(state.rotate_left(23))
}

/// Up to eight octets as a little-endian word, filled up with zeros.
#[inline]
fn word(octets: &[u8]) -> u64 {
    if let Some(full) = octets.first_chunk::<8>() {
        return u64::from_le_bytes(*full);
    }
    octets
        .iter()
        .rev()
        .fold(0, |value, octet| (value << 8) | u64::from(*octet))
}

/// Hashes `bytes` to 64 bits, under `seed`.
///
/// The octets are read as little-endian words of eight; word *i* goes to lane *i* mod 4, and the
/// last word is filled up with zeros. A lane starts as `seed` exclusive-or its multiplier and
/// absorbs a word by `fold((state ^ word) × multiplier) + rotl(state, 23)`, where *fold* is the
/// exclusive or of both halves of the 128-bit product. At last one state, `fold((length ^ m3) ×
/// m1)` to begin with, takes in the lanes: it absorbs each under that lane's multiplier, and what
/// comes out becomes `fold((state ^ m2) × m0)`.
#[must_use]
pub fn hash64(seed: u64, bytes: &[u8]) -> u64 {
    let [m0, m1, m2, m3] = LANES;
    let (mut a, mut b, mut c, mut d) = (seed ^ m0, seed ^ m1, seed ^ m2, seed ^ m3);
    let (steps, rest) = bytes.as_chunks::<STEP_OCTETS>();
    for step in steps {
        a = absorb(a, word(&step[0..8]), m0);
        b = absorb(b, word(&step[8..16]), m1);
        c = absorb(c, word(&step[16..24]), m2);
        d = absorb(d, word(&step[24..32]), m3);
    }
    let mut lanes = [a, b, c, d];
    for ((lane, multiplier), octets) in lanes.iter_mut().zip(LANES).zip(rest.chunks(8)) {
        *lane = absorb(*lane, word(octets), multiplier);
    }
    let length = bytes.len() as u64;
    lanes
        .iter()
        .zip(LANES)
        .fold(fold(length ^ m3, m1), |state, (lane, multiplier)| {
            fold(absorb(state, *lane, multiplier) ^ m2, m0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn known_answers_never_change() {
        // Computed by another program from the description above.
        let ramp: Vec<u8> = (0..=255).collect();
        assert_eq!(
            [
                hash64(0, b""),
                hash64(1, b""),
                hash64(0, b"strait"),
                hash64(7, &ramp)
            ],
            [
                0x2741_2c63_4aec_9521,
                0x59ea_9c42_68f7_d415,
                0xbb19_6070_46fe_caa5,
                0xa048_665f_4527_3653
            ]
        );
    }

    #[test]
    fn every_length_and_every_bit_counts() {
        let mut seen = Vec::new();
        let zeros = [0_u8; 100];
        for length in 0..=zeros.len() {
            seen.push(hash64(0, &zeros[..length]));
        }
        for bit in 0..800 {
            let mut one = zeros;
            one[bit / 8] ^= 1 << (bit % 8);
            seen.push(hash64(0, &one));
        }
        seen.sort_unstable();
        let all = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    #[test]
    fn a_flipped_input_bit_flips_about_half_of_the_hash() {
        let base = [0x5a_u8; 61];
        let mut flips = 0;
        for bit in 0..488 {
            let mut other = base;
            other[bit / 8] ^= 1 << (bit % 8);
            flips += (hash64(3, &base) ^ hash64(3, &other)).count_ones();
        }
        let mean = f64::from(flips) / 488.0;
        assert!((30.0..34.0).contains(&mean), "{mean}");
    }
}
