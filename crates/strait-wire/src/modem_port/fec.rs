//! What protects datagrams against loss: a shortened Reed-Solomon code over nibbles whose symbols
//! lie in as many packets (MIL-STD-188-110D A.5.2.5), and the mark at the end of a transmission.
//!
//! A set of `n` packets carries `k` of data: packet `n - k + c` has the octets `c`, `c + k`, … of
//! the data, the first `n - k` have parities. Any `k` of them bring all back. The high nibbles of
//! the octets at one place are a codeword, the low ones another.
//!
//! The code's roots are the powers 1 to `n - k` of `x` in GF(16) modulo x⁴ + x + 1, and a symbol's
//! power of x is the number of its packet: the usual form of such codes. What isn't lost doesn't
//! depend on it, as data go as they are.

use alloc::vec;
use alloc::vec::Vec;

/// Most data in a packet (A.5.2.4.2).
pub const SHARE_OCTETS_MAX: usize = 1200;

/// What follows the user's data (A.5.2.5.2). Zeros fill up what remains of the last set.
pub const END_MARK: [u8; 8] = [0x4b, 0x65, 0xa5, 0xb2, 0x26, 0xd2, 0xd3, 0x69];

/// How long a codeword is, and how many of its symbols are data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    n: u8,
    k: u8,
}

impl Code {
    /// A code that can be; `None` if a codeword would be longer than the field allows, or without
    /// data or parity.
    pub const fn new(n: u8, k: u8) -> Option<Self> {
        if n <= 15 && k >= 1 && k < n {
            Some(Self { n, k })
        } else {
            None
        }
    }

    /// Table A-XVII, and which share of a set goes into each packet by Table A-XXI: a tenth of
    /// a second of data in each set, from 32,000 bit/s on a 25th.
    pub const fn for_rate(rate_bit_s: u32) -> (Self, usize) {
        let (n, k, divisor) = match rate_bit_s {
            0..=2400 => (6, 2, 160),
            2401..=28_800 => (7, 4, 320),
            _ => (8, 5, 1000),
        };
        let share = rate_bit_s.div_ceil(divisor) as usize;
        let share = if share == 0 { 1 } else { share };
        let share = if share > SHARE_OCTETS_MAX {
            SHARE_OCTETS_MAX
        } else {
            share
        };
        (Self { n, k }, share)
    }

    /// Packets of a set.
    pub const fn n(self) -> u8 {
        self.n
    }

    /// Packets that are enough.
    pub const fn k(self) -> u8 {
        self.k
    }

    /// Octets of data in a set with so many in each packet.
    pub const fn set_octets(self, share: usize) -> usize {
        self.k as usize * share
    }

    /// The packets of a set; data that don't fill it are followed by zeros.
    pub fn encode(self, data: &[u8], share: usize) -> Vec<Vec<u8>> {
        let (n, k) = (usize::from(self.n), usize::from(self.k));
        let mut packets = vec![vec![0; share]; n];
        for (at, octet) in data.iter().take(k * share).enumerate() {
            packets[n - k + at % k][at / k] = *octet;
        }
        let known: Vec<usize> = (n - k..n).collect();
        for missing in 0..n - k {
            packets[missing] = self.restore(missing, &known, &packets);
        }
        packets
    }

    /// The data of a set; `None` if too few of its packets are there, or not all as long.
    pub fn decode(self, packets: &[Option<Vec<u8>>]) -> Option<Vec<u8>> {
        let (n, k) = (usize::from(self.n), usize::from(self.k));
        let there = |at: &usize| packets.get(*at).is_some_and(Option::is_some);
        let known: Vec<usize> = (0..n).rev().filter(there).take(k).collect();
        let share = packets.get(*known.first()?)?.as_ref()?.len();
        let long = |at: &usize| packets[*at].as_ref().is_some_and(|it| it.len() == share);
        if known.len() < k || !known.iter().all(long) {
            return None;
        }
        let all: Vec<Vec<u8>> = (0..n)
            .map(|at| packets.get(at).cloned().flatten().unwrap_or_default())
            .collect();
        let columns = (n - k..n).map(|at| match known.contains(&at) {
            true => all[at].clone(),
            false => self.restore(at, &known, &all),
        });
        let columns: Vec<Vec<u8>> = columns.collect();
        let octets = (0..k * share).map(|at| columns[at % k][at / k]);
        Some(octets.collect())
    }

    /// One packet of a set from `k` others.
    fn restore(self, missing: usize, known: &[usize], packets: &[Vec<u8>]) -> Vec<u8> {
        let share = known.first().map_or(0, |at| packets[*at].len());
        let mut restored = vec![0; share];
        for (at, weight) in known.iter().zip(self.weights(missing, known)) {
            for (sum, octet) in restored.iter_mut().zip(&packets[*at]) {
                *sum ^= times(weight, octet >> 4) << 4 | times(weight, octet & 15);
            }
        }
        restored
    }

    /// With which factors the `known` symbols make up a missing one. The other missing ones drop
    /// out of the parity checks: the polynomial whose zeros are at their places is such a check.
    fn weights(self, missing: usize, known: &[usize]) -> Vec<u8> {
        let others: Vec<usize> = (0..usize::from(self.n))
            .filter(|at| *at != missing && !known.contains(at))
            .collect();
        // Each sum of parity checks weighs place i by x^i times a polynomial in x^i.
        let weight = |at: usize| {
            let factors = others.iter().map(|other| power(at) ^ power(*other));
            factors.fold(power(at), times)
        };
        let own = inverse(weight(missing));
        known.iter().map(|at| times(weight(*at), own)).collect()
    }
}

/// x^`exponent`.
fn power(exponent: usize) -> u8 {
    (0..exponent % 15).fold(1, |product, _| times(product, 2))
}

/// The product in GF(16) modulo x⁴ + x + 1.
fn times(left: u8, right: u8) -> u8 {
    let mut product = 0;
    for bit in (0..4).rev() {
        product <<= 1;
        if product & 16 != 0 {
            product ^= 0b1_0011;
        }
        if right >> bit & 1 != 0 {
            product ^= left;
        }
    }
    product
}

/// 1 divided by what isn't 0.
fn inverse(of: u8) -> u8 {
    (0..13).fold(of, |product, _| times(product, of))
}

/// The user's data of a stream that has ended: what stands before the end mark and the zeros behind
/// it. Without a mark, all.
pub fn before_end_mark(octets: &[u8]) -> &[u8] {
    let filled = octets.iter().rev().take_while(|octet| **octet == 0).count();
    let end = octets.len() - filled;
    octets[..end].strip_suffix(&END_MARK).unwrap_or(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A.5.2.5.1, Table A-XVIII and A-XIX: which octet lies in which packet.
    #[test]
    fn data_lie_in_columns_behind_the_parities() {
        let code = Code::new(7, 4).unwrap();
        let packets = code.encode(b"ABCDEFGH", 2);
        assert_eq!(packets.len(), 7);
        let data: Vec<&[u8]> = packets[3..].iter().map(Vec::as_slice).collect();
        assert_eq!(data, [b"AE", b"BF", b"CG", b"DH"]);
        // Each codeword vanishes at x, x² and x³; its symbols are read with the packet's number as
        // power.
        for row in [0, 1] {
            for shift in [4, 0] {
                for root in 1..=3 {
                    let symbol = |at: usize| packets[at][row] >> shift & 15;
                    let sum = (0..7).fold(0, |sum, at| sum ^ times(symbol(at), power(at * root)));
                    assert_eq!(sum, 0);
                }
            }
        }
    }

    /// A.5.2.5.1: packets 2, 5 and 6 of seven are lost, and the data come out whole.
    #[test]
    fn three_of_seven_may_be_lost() {
        let code = Code::new(7, 4).unwrap();
        let mut packets: Vec<Option<Vec<u8>>> =
            code.encode(b"ABCDEFGH", 2).into_iter().map(Some).collect();
        for lost in [1, 4, 5] {
            packets[lost] = None;
        }
        assert_eq!(code.decode(&packets).as_deref(), Some(&b"ABCDEFGH"[..]));
        packets[0] = None;
        assert_eq!(code.decode(&packets), None);
    }

    /// Table A-XVII and Table A-XXI.
    #[test]
    fn the_code_goes_by_the_rate() {
        let table = [
            (50, 6, 2, 1),
            (75, 6, 2, 1),
            (150, 6, 2, 1),
            (300, 6, 2, 2),
            (600, 6, 2, 4),
            (1200, 6, 2, 8),
            (1800, 6, 2, 12),
            (2400, 6, 2, 15),
            (3200, 7, 4, 10),
            (3600, 7, 4, 12),
            (4800, 7, 4, 15),
            (7680, 7, 4, 24),
            (9600, 7, 4, 30),
            (28_800, 7, 4, 90),
            (32_000, 8, 5, 32),
            (38_400, 8, 5, 39),
            (51_200, 8, 5, 52),
            (76_800, 8, 5, 77),
            (384_000, 8, 5, 384),
        ];
        for (rate, n, k, share) in table {
            let code = Code::new(n, k).unwrap();
            assert_eq!(Code::for_rate(rate), (code, share), "{rate}");
        }
        assert_eq!(Code::for_rate(0).1, 1);
        assert_eq!(Code::for_rate(u32::MAX).1, SHARE_OCTETS_MAX);
        for (n, k) in [(16, 2), (7, 7), (7, 0), (0, 0), (255, 254)] {
            assert_eq!(Code::new(n, k), None);
        }
    }

    /// A.5.2.5.2.
    #[test]
    fn the_end_mark_and_zeros_behind_it_are_no_data() {
        let marked = [&b"data\0"[..], &END_MARK, &[0; 5]].concat();
        assert_eq!(before_end_mark(&marked), b"data\0");
        assert_eq!(before_end_mark(&END_MARK), b"");
        assert_eq!(before_end_mark(b"data\0\0"), b"data\0\0");
        assert_eq!(before_end_mark(b""), b"");
    }

    #[test]
    fn each_element_has_an_inverse() {
        for of in 1..16 {
            assert_eq!(times(of, inverse(of)), 1);
        }
        // x⁴ = x + 1.
        assert_eq!(power(4), 3);
        assert_eq!(power(15), 1);
    }

    proptest! {
        #[test]
        fn any_k_of_n_are_enough(
            n in 2u8..=15, k in 1u8..15, share in 1usize..20, seed: u64, lost: u16,
        ) {
            let code = Code::new(n, k.min(n - 1)).unwrap();
            let octet = |at: usize| (seed.rotate_left(at as u32) as u8).wrapping_add(at as u8);
            let data: Vec<u8> = (0..code.set_octets(share)).map(octet).collect();
            let mut packets: Vec<Option<Vec<u8>>> =
                code.encode(&data, share).into_iter().map(Some).collect();
            for (at, packet) in packets.iter_mut().enumerate() {
                if lost >> at & 1 == 1 {
                    *packet = None;
                }
            }
            let there = packets.iter().flatten().count();
            let decoded = code.decode(&packets);
            prop_assert_eq!(decoded.is_some(), there >= usize::from(code.k()));
            if let Some(decoded) = decoded {
                prop_assert_eq!(decoded, data);
            }
        }
    }
}
