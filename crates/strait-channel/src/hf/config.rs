//! The keys of an HF channel: `[hf]` in a link file of `kind = "hf"`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::keys::KeyError;
use strait_core::time::Duration;
use strait_core::units::{Hertz, Time};
use strait_core::waveform::{self, Bandwidth, Family, Interleaver, Mode, Waveform};

use super::fading::{Condition, HfChannel, TracePoint, Variation};
use crate::Side;
use crate::config::LinkConfig;
use crate::validate::require;

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
    /// Blocks of a planned turn that are taken at its key-up, as a modem is given them before it
    /// starts; 3 if not given, as MIL-STD-188-110D A.5.1.2.5 has it.
    pub start_blocks: Option<u32>,
    /// Whether modems mark the end with 32 bits of their own (110A: and 144 that flush its code),
    /// in a block more if need be. Data links that plan whole blocks do without.
    pub end_of_message: bool,
    /// Who keys the transmitter.
    pub keyed_by: KeyedBy,
    /// With `snr`: how errors follow from it. `awgn` if not given.
    pub channel: HfChannel,
    /// Fading: a condition of ITU-R F.1487, in place of `spread` and `doppler`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// Fading: time between the two paths; 2 ms if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Time>,
    /// Fading: how far each path spreads frequencies; 1 Hz if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doppler: Option<Hertz>,
    /// Slow changes around the mean; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation: Option<Variation>,
    /// A trace in place of a mean that stays: for both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<TracePoint>>,
    /// A file with the trace, named relative to the file that names it: lines of seconds and
    /// decibels, separated by a comma or spaces; `#` begins a remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_file: Option<String>,
}

/// A trace that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} is no point of a trace: write seconds and decibels, like 12.5, -3; times rise"
)]
pub struct TraceError {
    /// Which line, from 1 on.
    pub line: usize,
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
    pub(super) start_blocks: u32,
    pub(super) end_bits: u32,
    pub(super) keyed_by: KeyedBy,
}

impl Modem {
    /// The modem of the station at `side`; `None` without `[hf]` or such a waveform.
    pub(super) fn new(config: &LinkConfig, side: Side) -> Option<Self> {
        let hf = config.hf_config()?;
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
            start_blocks: hf.start_blocks.unwrap_or(3),
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

    /// Time between the two paths of a fading channel in seconds, and how far each spreads
    /// frequencies.
    pub(super) fn spreads(&self) -> (f64, Hertz) {
        if let Some(condition) = self.condition {
            let (spread_ms, doppler_hz) = condition.spreads();
            return (spread_ms / 1000.0, Hertz(doppler_hz));
        }
        let spread_s = self.spread.map_or(0.002, |time| time.0.as_secs_f64());
        (spread_s, self.doppler.unwrap_or(Hertz(1.0)))
    }

    /// Takes the content of its `trace_file`.
    ///
    /// # Errors
    /// The first line that is no point, or is before the one above it.
    pub fn read_trace(&mut self, text: &str) -> Result<(), TraceError> {
        let mut points: Vec<TracePoint> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = TraceError { line: number + 1 };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let split = line.find(|c: char| c == ',' || c.is_whitespace());
            let (at, snr) = line.split_at(split.ok_or_else(|| wrong.clone())?);
            let snr = snr.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
            let (Ok(at), Ok(snr)) = (
                alloc::format!("{at} s").parse(),
                alloc::format!("{snr} dB").parse(),
            ) else {
                return Err(wrong);
            };
            let point = TracePoint { at, snr };
            if points.last().is_some_and(|last| last.at >= point.at) {
                return Err(wrong);
            }
            points.push(point);
        }
        if points.is_empty() {
            return Err(TraceError { line: 1 });
        }
        self.trace = Some(points);
        self.trace_file = None;
        Ok(())
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
    pub(crate) fn validate(&self, config: &LinkConfig) -> Result<(), KeyError> {
        for side in Side::BOTH {
            let checked = self.validate_rate(config, side);
            checked.map_err(|error| match side {
                Side::A => error,
                Side::B => error.within("reverse"),
            })?;
        }
        let above = |time: Option<Time>| time.is_none_or(|time| time.0 > Duration::ZERO);
        let doppler = self.doppler.is_none_or(|doppler| doppler.0 > 0.0);
        let variation = self.variation.is_none_or(|it| above(Some(it.time)));
        let remedy = "it must be above 0";
        require("hf.turn_max", above(self.turn_max), remedy)?;
        require("hf.lead", above(self.lead), remedy)?;
        require("hf.doppler", doppler, remedy)?;
        require("hf.variation.time", variation, remedy)?;
        let blocks = self.start_blocks.is_none_or(|it| (1..=16).contains(&it));
        let remedy = "has to be from 1 to 16: blocks that the modem is given before it starts";
        require("hf.start_blocks", blocks, remedy)?;
        self.validate_noise(config)
    }

    fn validate_rate(&self, config: &LinkConfig, side: Side) -> Result<(), KeyError> {
        let given = config.direction(side).rate.is_some();
        let remedy = "needed: the waveform's rate, like rate = \"9600 bit/s\"";
        require("rate", given, remedy)?;
        let remedy = "no waveform of `hf.family` has this rate in `hf.bandwidth` with this \
                      `hf.interleaver`; in 3 kHz 110d has 75, 150, 300, 600, 1200, 1600, 2400, \
                      3200, 4800, 6400, 8000, 9600, 12000 and 16000 bit/s";
        require("rate", self.waveform(config, side).is_some(), remedy)
    }

    /// Keys that are of use with others only.
    fn validate_noise(&self, config: &LinkConfig) -> Result<(), KeyError> {
        let snr = |side: &Side| config.direction(*side).snr.is_some();
        let traced = self.trace.is_some() || self.trace_file.is_some();
        let noisy = traced || Side::BOTH.iter().any(snr);
        let awgn = self.channel == HfChannel::Awgn;
        let fading = self.channel == HfChannel::Fading;
        let own = self.spread.is_some() || self.doppler.is_some();
        let remedy = "it is for links with `snr` or a trace";
        require("hf.channel", awgn || noisy, remedy)?;
        require("hf.variation", self.variation.is_none() || noisy, remedy)?;
        let one = !traced || config.bit_errors.is_none();
        require("hf.trace", one, "choose either `bit_errors` or a trace")?;
        let remedy = "it is for channel = \"fading\"";
        require("hf.condition", self.condition.is_none() || fading, remedy)?;
        require("hf.spread", self.spread.is_none() || fading, remedy)?;
        require("hf.doppler", self.doppler.is_none() || fading, remedy)?;
        let remedy = "choose either `condition` or `spread` and `doppler`";
        require("hf.condition", self.condition.is_none() || !own, remedy)
    }
}
