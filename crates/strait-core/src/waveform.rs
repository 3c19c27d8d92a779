//! Waveforms of HF modems: which rates there are, and how many bits an interleaver block has.
//!
//! A modem sends whole blocks. Both the medium and the node that plans its turn go by these tables:
//! MIL-STD-188-110D Appendix D (the public counterpart of STANAG 5069), its Appendix C (STANAG
//! 4539) and the serial tone of MIL-STD-188-110A. Block sizes above 3 kHz follow from the rate:
//! a block there lasts as long as at 3 kHz.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rate::LineRate;
use crate::time::Duration;

/// A family of waveforms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// MIL-STD-188-110A serial tone: 75 … 2400 bit/s.
    #[serde(rename = "110a")]
    M110A,
    /// STANAG 4539, MIL-STD-188-110B Appendix C: 3200 … 9600 bit/s.
    #[serde(rename = "4539")]
    S4539,
    /// MIL-STD-188-110D Appendix D: 75 … 16,000 bit/s in 3 kHz, up to 240 kbit/s in 48 kHz.
    #[default]
    #[serde(rename = "110d")]
    M110D,
}

/// How far a block spreads its bits over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interleaver {
    /// About 0.12 s.
    UltraShort,
    /// STANAG 4539 only: 0.36 s.
    VeryShort,
    /// About 0.5 s; 0.6 s in 110A, 1.08 s in 4539.
    #[default]
    Short,
    /// About 2 s.
    Medium,
    /// About 8 s; 4.8 s in 110A, 4.32 s in 4539.
    Long,
    /// STANAG 4539 only: 8.64 s.
    VeryLong,
}

/// Bandwidth of a channel in kilohertz: `"3 kHz"`. 110D has 3, 6, 9, 12, 15, 18, 21, 24, 30, 36, 42
/// and 48; the others 3 alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "alloc::string::String", into = "alloc::string::String")]
pub struct Bandwidth {
    /// Kilohertz.
    pub khz: u8,
}

/// A bandwidth that no waveform has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no waveform is so wide: write \"3 kHz\", or 6, 9, 12, 15, 18, 21, 24, 30, 36, 42, 48 kHz")]
pub struct BandwidthError;

impl Default for Bandwidth {
    fn default() -> Self {
        Self { khz: 3 }
    }
}

impl FromStr for Bandwidth {
    type Err = BandwidthError;

    fn from_str(text: &str) -> Result<Self, BandwidthError> {
        let number = text.trim().strip_suffix("kHz").map(str::trim);
        let khz = number.and_then(|number| number.parse().ok());
        khz.filter(|khz| ROWS.iter().any(|row| row.0 == *khz))
            .map(|khz| Self { khz })
            .ok_or(BandwidthError)
    }
}

impl TryFrom<alloc::string::String> for Bandwidth {
    type Error = BandwidthError;

    fn try_from(text: alloc::string::String) -> Result<Self, BandwidthError> {
        text.parse()
    }
}

impl From<Bandwidth> for alloc::string::String {
    fn from(width: Bandwidth) -> Self {
        alloc::format!("{width}")
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kHz", self.khz)
    }
}

/// What a modem sends by: a rate and the size of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Bits each second.
    pub rate_bit_s: u32,
    /// Bits in an interleaver block.
    pub block_bits: u32,
}

impl Mode {
    /// Eight bits an octet, as on any synchronous line.
    pub const fn line_rate(self) -> LineRate {
        LineRate::new(self.rate_bit_s as u64, 8)
    }

    /// How long `bits` take, rounded up.
    pub const fn time_of_bits(self, bits: u64) -> Duration {
        let rate = if self.rate_bit_s == 0 {
            1
        } else {
            self.rate_bit_s as u128
        };
        let ns = (bits as u128 * 1_000_000_000).div_ceil(rate);
        Duration::from_nanos(if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        })
    }

    /// How long a block lasts, rounded up.
    pub const fn block(self) -> Duration {
        self.time_of_bits(self.block_bits as u64)
    }

    /// Whole octets that `blocks` carry.
    pub const fn octets_in(self, blocks: u32) -> usize {
        (self.block_bits as u64 * blocks as u64 / 8) as usize
    }

    /// The fewest blocks that carry `octets`.
    pub const fn blocks_for(self, octets: usize) -> u32 {
        let bits = octets as u64 * 8;
        let block = if self.block_bits == 0 {
            1
        } else {
            self.block_bits as u64
        };
        let blocks = bits.div_ceil(block);
        if blocks > u32::MAX as u64 {
            u32::MAX
        } else {
            blocks as u32
        }
    }
}

/// One waveform of a family, as the family numbers it, with what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waveform {
    /// Rate and block.
    pub mode: Mode,
    /// The signal-to-noise ratio, in decibels in the waveform's own bandwidth, at which one bit in
    /// 100,000 is wrong on a channel with noise alone.
    pub awgn_db: i8,
    /// The same on the fading channel of two paths, 2 ms apart, that each spread by 1 Hz; `None`
    /// where the standard asks for none.
    pub poor_db: Option<i8>,
}

impl Waveform {
    /// Whether it needs a better signal than another one, over noise alone or over two fading
    /// paths.
    #[must_use]
    pub fn needs_more_than(&self, other: &Self) -> bool {
        let poor_db = |it: &Self| it.poor_db.unwrap_or(i8::MAX);
        self.awgn_db > other.awgn_db || poor_db(self) > poor_db(other)
    }
}

/// Octets of 110D's blocks in 3 kHz, ultra-short to long, and its masks: by waveform number, 2400
/// bit/s (number 13) between 5 and 6.
const NARROW: [(u32, [u32; 4], i8, Option<i8>); 14] = [
    (75, [5, 5, 18, 72], -6, Some(-1)),
    (150, [3, 12, 48, 192], -3, Some(3)),
    (300, [6, 24, 96, 384], 0, Some(5)),
    (600, [8, 32, 128, 512], 3, Some(7)),
    (1200, [16, 64, 256, 1024], 5, Some(10)),
    (1600, [24, 96, 384, 1536], 6, Some(11)),
    (2400, [36, 144, 576, 2304], 6, Some(11)),
    (3200, [48, 192, 768, 3072], 9, Some(14)),
    (4800, [72, 288, 1152, 4608], 13, Some(19)),
    (6400, [96, 384, 1536, 6144], 16, Some(23)),
    (8000, [120, 480, 1920, 7680], 19, Some(27)),
    (9600, [144, 576, 2304, 9216], 21, Some(31)),
    (12_000, [240, 960, 3840, 15_360], 24, None),
    (16_000, [320, 1280, 5120, 20_480], 30, None),
];

/// Rates of waveforms 0 to 12 by bandwidth in kilohertz; 0 where there is none.
type Row = (u8, [u32; 13]);

const ROWS: [Row; 12] = [
    (
        3,
        [
            75, 150, 300, 600, 1200, 1600, 3200, 4800, 6400, 8000, 9600, 12_000, 16_000,
        ],
    ),
    (
        6,
        [
            150, 300, 600, 1200, 2400, 3200, 6400, 9600, 12_800, 16_000, 19_200, 24_000, 32_000,
        ],
    ),
    (
        9,
        [
            300, 600, 1200, 2400, 0, 4800, 9600, 14_400, 19_200, 24_000, 28_800, 36_000, 48_000,
        ],
    ),
    (
        12,
        [
            300, 600, 1200, 2400, 4800, 6400, 12_800, 19_200, 25_600, 32_000, 38_400, 48_000,
            64_000,
        ],
    ),
    (
        15,
        [
            300, 600, 1200, 2400, 4800, 8000, 16_000, 24_000, 32_000, 40_000, 48_000, 57_600,
            76_800,
        ],
    ),
    (
        18,
        [
            600, 1200, 2400, 4800, 0, 9600, 19_200, 28_800, 38_400, 48_000, 57_600, 72_000, 90_000,
        ],
    ),
    (
        21,
        [
            300, 600, 1200, 2400, 4800, 9600, 19_200, 28_800, 38_400, 48_000, 57_600, 76_800,
            115_200,
        ],
    ),
    (
        24,
        [
            600, 1200, 2400, 4800, 9600, 12_800, 25_600, 38_400, 51_200, 64_000, 76_800, 96_000,
            120_000,
        ],
    ),
    (
        30,
        [
            600, 1200, 2400, 4800, 9600, 16_000, 32_000, 48_000, 64_000, 80_000, 96_000, 120_000,
            160_000,
        ],
    ),
    (
        36,
        [
            1200, 2400, 4800, 9600, 12_800, 19_200, 38_400, 57_600, 76_800, 96_000, 115_200,
            144_000, 192_000,
        ],
    ),
    (
        42,
        [
            1200, 2400, 4800, 9600, 14_400, 19_200, 38_400, 57_600, 76_800, 96_000, 115_200,
            160_000, 192_000,
        ],
    ),
    (
        48,
        [
            1200, 2400, 4800, 9600, 16_000, 24_000, 48_000, 72_000, 96_000, 120_000, 144_000,
            192_000, 240_000,
        ],
    ),
];

/// Place in [`NARROW`] of the waveform with each number from 0 to 12.
const PLACES: [usize; 13] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13];

/// The waveform of a rate; `None` if the family has none, or no such interleaver.
pub fn find(
    family: Family,
    bandwidth: Bandwidth,
    interleaver: Interleaver,
    rate_bit_s: u32,
) -> Option<Waveform> {
    match family {
        Family::M110D => wide(bandwidth, interleaver, rate_bit_s),
        Family::M110A | Family::S4539 if bandwidth.khz != 3 => None,
        Family::M110A => {
            let block_ms = match interleaver {
                Interleaver::Short => 600,
                Interleaver::Long => 4800,
                _ => return None,
            };
            let known = matches!(rate_bit_s, 75 | 150 | 300 | 600 | 1200 | 2400);
            known.then(|| timed(rate_bit_s, block_ms))?
        }
        Family::S4539 => {
            let block_ms = match interleaver {
                Interleaver::UltraShort => 120,
                Interleaver::VeryShort => 360,
                Interleaver::Short => 1080,
                Interleaver::Medium => 2160,
                Interleaver::Long => 4320,
                Interleaver::VeryLong => 8640,
            };
            let known = matches!(rate_bit_s, 3200 | 4800 | 6400 | 8000 | 9600);
            known.then(|| timed(rate_bit_s, block_ms))?
        }
    }
}

/// The rates that a family has in a bandwidth, lowest first.
pub fn rates(family: Family, bandwidth: Bandwidth) -> impl Iterator<Item = u32> {
    let interleaver = Interleaver::Short;
    let row = ROWS.iter().find(|row| row.0 == bandwidth.khz);
    let all = row.into_iter().flat_map(|row| row.1);
    // In 3 kHz 2400 bit/s lies between waveforms 5 and 6.
    let extra = (bandwidth.khz == 3).then_some(2400);
    let below = all.clone().filter(|rate| *rate < 2400);
    let above = all.filter(move |rate| *rate >= 2400 && Some(*rate) != extra);
    let rates = below.chain(extra).chain(above).filter(|rate| *rate > 0);
    rates.filter(move |rate| find(family, bandwidth, interleaver, *rate).is_some())
}

fn wide(bandwidth: Bandwidth, interleaver: Interleaver, rate_bit_s: u32) -> Option<Waveform> {
    let row = ROWS.iter().find(|row| row.0 == bandwidth.khz)?;
    let known = |rate: &u32| *rate == rate_bit_s && *rate > 0;
    let number = row.1.iter().position(known);
    let extra = bandwidth.khz == 3 && rate_bit_s == 2400;
    let place = if extra { 6 } else { PLACES[number?] };
    let (rate, octets, awgn_db, poor_db) = NARROW[place];
    let depth = match interleaver {
        Interleaver::UltraShort => 0,
        Interleaver::Short => 1,
        Interleaver::Medium => 2,
        Interleaver::Long => 3,
        Interleaver::VeryShort | Interleaver::VeryLong => return None,
    };
    let bits = u64::from(octets[depth]) * 8 * u64::from(rate_bit_s) / u64::from(rate);
    let block_bits = bits as u32;
    Some(Waveform {
        mode: Mode {
            rate_bit_s,
            block_bits,
        },
        awgn_db,
        poor_db,
    })
}

/// A waveform in 3 kHz whose blocks last so long. What it needs is what 110D's of the same rate
/// needs.
fn timed(rate_bit_s: u32, block_ms: u32) -> Option<Waveform> {
    let (.., awgn_db, poor_db) = *NARROW.iter().find(|row| row.0 == rate_bit_s)?;
    let block_bits = rate_bit_s * block_ms / 1000;
    Some(Waveform {
        mode: Mode {
            rate_bit_s,
            block_bits,
        },
        awgn_db,
        poor_db,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    const WIDE: Bandwidth = Bandwidth { khz: 48 };

    fn mode(khz: u8, interleaver: Interleaver, rate: u32) -> Option<Mode> {
        let bandwidth = Bandwidth { khz };
        find(Family::M110D, bandwidth, interleaver, rate).map(|it| it.mode)
    }

    #[test]
    fn blocks_have_the_standard_s_sizes() {
        let short = |khz, rate| mode(khz, Interleaver::Short, rate).map(|mode| mode.block_bits);
        // 9600 bit/s: 0.48 s of 576 octets; 300 bit/s: 0.64 s of 24.
        assert_eq!(short(3, 9600), Some(576 * 8));
        assert_eq!(short(3, 300), Some(24 * 8));
        assert_eq!(
            mode(3, Interleaver::Long, 75).map(Mode::block),
            Some(Duration::from_millis(7680))
        );
        // 75 bit/s has no ultra-short block of its own: 40 bits are 0.533 … s.
        let least = mode(3, Interleaver::UltraShort, 75).unwrap();
        assert_eq!(least.block(), Duration::from_nanos(533_333_334));
        // 240 kbit/s in 48 kHz lasts as long as 16 kbit/s in 3 kHz.
        assert_eq!(short(48, 240_000), Some(19_200 * 8));
        assert_eq!(
            mode(48, Interleaver::Short, 240_000).map(Mode::block),
            Some(Duration::from_millis(640))
        );
        assert_eq!([short(3, 9601), short(9, 0), short(6, 75)], [None; 3]);
    }

    #[test]
    fn older_families_have_their_own_blocks() {
        let narrow = Bandwidth::default();
        let old = |interleaver, rate| find(Family::M110A, narrow, interleaver, rate);
        let bits = |found: Option<Waveform>| found.map(|it| it.mode.block_bits);
        assert_eq!(bits(old(Interleaver::Short, 75)), Some(45));
        assert_eq!(bits(old(Interleaver::Long, 2400)), Some(11_520));
        assert_eq!(old(Interleaver::Medium, 75), None);
        assert_eq!(old(Interleaver::Short, 9600), None);
        let fast = find(Family::S4539, narrow, Interleaver::UltraShort, 9600);
        assert_eq!(bits(fast), Some(1152));
        assert_eq!(find(Family::S4539, WIDE, Interleaver::Short, 9600), None);
    }

    #[test]
    fn rates_stand_in_order_and_can_be_found() {
        let narrow: Vec<u32> = rates(Family::M110D, Bandwidth::default()).collect();
        assert_eq!(narrow.len(), 14);
        assert!(narrow.is_sorted() && narrow.contains(&2400));
        for row in &ROWS {
            let bandwidth = Bandwidth { khz: row.0 };
            for rate in rates(Family::M110D, bandwidth) {
                for interleaver in [
                    Interleaver::UltraShort,
                    Interleaver::Short,
                    Interleaver::Long,
                ] {
                    let found = mode(row.0, interleaver, rate).unwrap();
                    assert!(found.block_bits > 0 && found.rate_bit_s == rate);
                }
            }
            assert_eq!(bandwidth.to_string().parse(), Ok(bandwidth));
        }
        let old: Vec<u32> = rates(Family::M110A, Bandwidth::default()).collect();
        assert_eq!(old, [75, 150, 300, 600, 1200, 2400]);
        for wrong in ["", "3", "4 kHz", "3 MHz", "-3 kHz"] {
            assert!(wrong.parse::<Bandwidth>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn octets_and_blocks_agree() {
        let odd = Mode {
            rate_bit_s: 75,
            block_bits: 45,
        };
        assert_eq!(
            [0, 1, 2, 8].map(|blocks| odd.octets_in(blocks)),
            [0, 5, 11, 45]
        );
        assert_eq!(
            [0, 1, 5, 6, 11, 12].map(|octets| odd.blocks_for(octets)),
            [0, 1, 1, 2, 2, 3]
        );
        assert_eq!(odd.time_of_bits(45), Duration::from_millis(600));
    }
}
