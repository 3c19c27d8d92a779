//! The keys of an HF channel: `[hf]` in a link file of `kind = "hf"`.

use serde::{Deserialize, Serialize};
use strait_core::time::Duration;
use strait_core::units::Time;
use strait_core::waveform::{self, Bandwidth, Family, Interleaver, Mode, Waveform};

use crate::Side;
use crate::config::LinkConfig;
use crate::validate::{Key, LinkError};

/// A radio channel between two stations, and the modems and radios at both.
///
/// The stations of all links that end at one port share that port's radio: three links between
/// three ports are one channel with three stations, and two that lack the third have a station in
/// the middle whose neighbours don't hear each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HfConfig {
    /// Which waveforms: `110d` (the default), `4539`, `110a`. The rate chooses one of them.
    pub family: Family,
    /// The channel's width.
    pub bandwidth: Bandwidth,
    /// How far blocks spread their bits over time.
    pub interleaver: Interleaver,
    /// From keying to power on the air; 200 ms if not given.
    pub turnaround: Option<Time>,
    /// What receivers find a transmission by; 240 ms if not given.
    pub preamble: Option<Time>,
    /// From the end of a block to its octets at the receiver; the length of a block if not given.
    pub decode: Option<Time>,
    /// How long power has to be there, or to be gone, before a modem says so; 300 ms if not given.
    pub carrier_detect: Option<Time>,
    /// The longest turn, without its preamble; 127.5 s if not given, the most that a D_PDU can
    /// announce (STANAG 5066 Annex C.3.2.3).
    pub turn_max: Option<Time>,
    /// A block's octets are taken this long before it begins; 20 ms if not given.
    pub lead: Option<Time>,
    /// Whether modems mark the end with 32 bits of their own (110A: and 144 that flush its code),
    /// in a block more if need be. Data links that plan whole blocks do without.
    pub end_of_message: bool,
    /// Who keys the transmitter.
    pub keyed_by: KeyedBy,
}

/// Who keys the transmitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyedBy {
    /// The node: it plans its turns, and nothing keeps it from talking over others.
    #[default]
    Node,
    /// The modem, when octets come, for as long as they do: a modem behind a serial line. It waits
    /// for a silent channel, and after its own turn a while longer than others.
    Data,
}

/// What a station's modem and radio do, with everything looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modem {
    pub(super) waveform: Waveform,
    pub(super) turnaround: Duration,
    pub(super) preamble: Duration,
    pub(super) decode: Option<Duration>,
    pub(super) carrier_detect: Duration,
    pub(super) turn_max: Duration,
    pub(super) lead: Duration,
    pub(super) end_bits: u32,
    pub(super) keyed_by: KeyedBy,
}

impl Modem {
    /// The modem of the station at `side`; `None` without `[hf]` or such a waveform.
    pub(super) fn new(config: &LinkConfig, side: Side) -> Option<Self> {
        let hf = config.hf.as_ref()?;
        let given =
            |time: Option<Time>, ms| time.map_or_else(|| Duration::from_millis(ms), |time| time.0);
        Some(Self {
            waveform: hf.waveform(config, side)?,
            turnaround: given(hf.turnaround, 200),
            preamble: given(hf.preamble, 240),
            decode: hf.decode.map(|time| time.0),
            carrier_detect: given(hf.carrier_detect, 300),
            turn_max: given(hf.turn_max, 127_500),
            lead: given(hf.lead, 20),
            end_bits: match (hf.end_of_message, hf.family) {
                (false, _) => 0,
                (true, Family::M110A) => 32 + 144,
                (true, _) => 32,
            },
            keyed_by: hf.keyed_by,
        })
    }

    /// How long a receiver takes for a block of `mode`.
    pub(super) fn decode(&self, mode: Mode) -> Duration {
        self.decode.unwrap_or_else(|| mode.block())
    }

    /// Blocks of the longest turn: one at least.
    pub(super) fn blocks_max(&self, mode: Mode) -> u32 {
        let ns = self.turn_max.as_nanos();
        let bits = ns * u128::from(mode.rate_bit_s) / 1_000_000_000;
        let blocks = bits / u128::from(mode.block_bits.max(1));
        u32::try_from(blocks).unwrap_or(u32::MAX).max(1)
    }
}

impl HfConfig {
    /// The waveform that the station at `side` sends by.
    pub fn waveform(&self, config: &LinkConfig, side: Side) -> Option<Waveform> {
        let rate = u32::try_from(config.direction(side).rate?.0).ok()?;
        waveform::find(self.family, self.bandwidth, self.interleaver, rate)
    }

    /// The shortest and the longest time from when an octet has left, at the line's rate, to its
    /// arrival, both without propagation: those of a block's last octet and of its first.
    pub fn block_delay(&self, config: &LinkConfig, side: Side) -> (Duration, Duration) {
        let Some(modem) = Modem::new(config, side) else {
            return (Duration::ZERO, Duration::ZERO);
        };
        let mode = modem.waveform.mode;
        let least = modem.decode(mode);
        (least, least + mode.block())
    }

    /// Checks what the types of the keys can't say.
    pub(crate) fn validate(&self, config: &LinkConfig) -> Result<(), LinkError> {
        for side in Side::BOTH {
            let key = |name| Key {
                reverse: side == Side::B,
                name,
            };
            if config.direction(side).rate.is_none() {
                let remedy = "write the waveform's rate, like rate = \"9600 bit/s\"";
                return Err(LinkError::Missing {
                    key: key("rate"),
                    remedy,
                });
            }
            if self.waveform(config, side).is_none() {
                let remedy = "no waveform of `hf.family` has this rate in `hf.bandwidth` with this \
                              `hf.interleaver`; in 3 kHz 110d has 75, 150, 300, 600, 1200, 1600, \
                              2400, 3200, 4800, 6400, 8000, 9600, 12000 and 16000 bit/s";
                return Err(LinkError::Value {
                    key: key("rate"),
                    remedy,
                });
            }
        }
        let possible = self.turn_max.is_none_or(|time| time.0 > Duration::ZERO);
        let key = Key {
            reverse: false,
            name: "hf.turn_max",
        };
        let remedy = "it must be above 0";
        if possible {
            Ok(())
        } else {
            Err(LinkError::Value { key, remedy })
        }
    }
}
