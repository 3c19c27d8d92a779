//! The link file: a medium between two ends, as text with units.
//!
//! What stands at the top level holds for both directions; `[reverse]` overrides single keys for
//! the direction from b to a.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::framing::Framing;
use strait_core::rate::LineRate;
use strait_core::time::Duration;
use strait_core::units::{BitRate, Decibels, Share, Time};

use crate::Side;
use crate::hf::{HfConfig, KeyedBy};

/// A link file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// What the medium carries.
    pub kind: LinkKind,
    /// Serial: signalling rate in baud.
    pub baud: Option<u64>,
    /// Serial: start, data, parity and stop bits, or a clock.
    pub framing: Option<Framing>,
    /// Frames: bit rate. HF: that of the waveform.
    pub rate: Option<BitRate>,
    /// Frames: the longest frame in octets; 1500 if not given.
    pub frame_octets_max: Option<u32>,
    /// One-way propagation; none if not given.
    pub delay: Option<Time>,
    /// Frames: extra delay, uniform between 0 and this. Order is kept.
    pub jitter: Option<Time>,
    /// Emulator only: frames that may wait before the line; 50 if not given.
    pub queue: Option<u32>,
    /// Probability that a bit of the line is inverted.
    pub bit_errors: Option<Share>,
    /// HF: mean signal-to-noise ratio at the receiver, in the waveform's bandwidth. Errors follow
    /// from it by `hf.channel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snr: Option<Decibels>,
    /// Frames: probability that a frame is lost.
    pub loss: Option<Share>,
    /// Frames: loss in bursts, instead of `loss`.
    pub burst_loss: Option<BurstLoss>,
    /// Frames: probability that a frame arrives twice.
    pub duplicate: Option<Share>,
    /// Frames: probability that a frame is held back for `reorder_delay`.
    pub reorder: Option<Share>,
    /// Frames: how long a reordered frame is held back.
    pub reorder_delay: Option<Time>,
    /// Times in which the medium carries nothing, in order. The ports don't learn of them.
    pub outage: Option<Vec<Outage>>,
    /// Changes of the rate, in order.
    pub change: Option<Vec<Change>>,
    /// Only one side at a time may send.
    #[serde(default)]
    pub half_duplex: bool,
    /// Half duplex: time between the end of one side's transmission, as heard by the other, and
    /// the start of that one's.
    pub turnaround: Option<Time>,
    /// Half duplex: how long a side keeps the medium while the other one waits for it. If not
    /// given: one frame, or the time of 256 octets on a serial line.
    pub turn_max: Option<Time>,
    /// Overrides for the direction from b to a.
    pub reverse: Option<Direction>,
    /// HF: the channel, the modems and the radios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hf: Option<HfConfig>,
    /// Emulator only: what the two ends are attached to.
    pub ends: Option<Ends>,
}

/// What a medium carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// A stream of octets, each between start and stop bits.
    Serial,
    /// Frames of eight bits an octet.
    Frames,
    /// Blocks of a modem's waveform over a radio channel that several stations share.
    Hf,
}

/// What a kind is, it says itself: whoever adds one answers for it here.
impl LinkKind {
    /// Whether it carries a stream of octets, whose frames begin and end anywhere.
    pub const fn carries_octets(self) -> bool {
        match self {
            Self::Serial | Self::Hf => true,
            Self::Frames => false,
        }
    }

    /// Whether each octet stands between start and stop bits, at a rate in baud.
    pub const fn is_serial(self) -> bool {
        match self {
            Self::Serial => true,
            Self::Frames | Self::Hf => false,
        }
    }

    /// Whether any number of stations share it, not two ends.
    pub const fn is_shared(self) -> bool {
        match self {
            Self::Hf => true,
            Self::Serial | Self::Frames => false,
        }
    }

    /// Whether what is sent may be lost without a word in the link file.
    pub const fn is_lossy(self) -> bool {
        match self {
            Self::Hf => true,
            Self::Serial | Self::Frames => false,
        }
    }

    /// The word in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Frames => "frames",
            Self::Hf => "hf",
        }
    }
}

/// The keys of [`LinkConfig`] that can differ between directions.
///
/// In `[reverse]` they override those at the top level. Lists replace lists. `loss` here replaces
/// `burst_loss` there, and the other way round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the keys mean what they mean in LinkConfig")]
pub struct Direction {
    pub baud: Option<u64>,
    pub rate: Option<BitRate>,
    pub frame_octets_max: Option<u32>,
    pub delay: Option<Time>,
    pub jitter: Option<Time>,
    pub queue: Option<u32>,
    pub bit_errors: Option<Share>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snr: Option<Decibels>,
    pub loss: Option<Share>,
    pub burst_loss: Option<BurstLoss>,
    pub duplicate: Option<Share>,
    pub reorder: Option<Share>,
    pub reorder_delay: Option<Time>,
    pub outage: Option<Vec<Outage>>,
    pub change: Option<Vec<Change>>,
}

/// Loss in bursts: a medium that is in a good or a bad state and may change between any two frames
/// (Gilbert 1960, Elliott 1963). It starts good.
///
/// The share of frames met in the bad state is `enter` / (`enter` + `leave`), and a stay there
/// lasts 1 / `leave` frames on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoss {
    /// Probability of a change from good to bad after a frame.
    pub enter: Share,
    /// Probability of a change from bad to good after a frame.
    pub leave: Share,
    /// Probability of loss in the good state.
    #[serde(default = "never")]
    pub loss_good: Share,
    /// Probability of loss in the bad state.
    #[serde(default = "always")]
    pub loss_bad: Share,
}

const fn never() -> Share {
    Share(0.0)
}

const fn always() -> Share {
    Share(1.0)
}

/// A time in which the medium carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Its begin, since the link's beginning.
    pub at: Time,
    /// Its length.
    pub lasts: Time,
}

/// A change of the rate. What is being sent at that moment still ends at the old one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When, since the link's beginning.
    pub at: Time,
    /// Serial: the new signalling rate in baud.
    pub baud: Option<u64>,
    /// Frames: the new bit rate.
    pub rate: Option<BitRate>,
}

/// What the two ends of an emulated link are attached to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// `pty:LINKPATH`, `udp:LOCAL->PEER` or `tun:NAME`.
    pub a: String,
    /// As `a`.
    pub b: String,
}

impl LinkConfig {
    /// Frames that wait in the emulator before the line, if the link file doesn't say.
    pub const QUEUE: u32 = 50;
    /// Longest frame in octets, if the link file doesn't say.
    pub const FRAME_OCTETS_MAX: u32 = 1500;

    /// A serial line of `baud` with 8N1 framing and nothing wrong with it.
    pub fn serial(baud: u64) -> Self {
        Self {
            baud: Some(baud),
            framing: Some(Framing::ASYNC_8N1),
            ..Self::plain(LinkKind::Serial)
        }
    }

    /// An HF channel in 3 kHz with short blocks and nothing wrong with it.
    pub fn hf(rate_bit_s: u64) -> Self {
        Self {
            rate: Some(BitRate(rate_bit_s)),
            hf: Some(HfConfig::default()),
            ..Self::plain(LinkKind::Hf)
        }
    }

    /// A link for frames of up to 1500 octets with nothing wrong with it.
    pub fn frames(rate_bit_s: u64, delay: Duration) -> Self {
        Self {
            rate: Some(BitRate(rate_bit_s)),
            delay: Some(Time(delay)),
            ..Self::plain(LinkKind::Frames)
        }
    }

    const fn plain(kind: LinkKind) -> Self {
        Self {
            kind,
            baud: None,
            framing: None,
            rate: None,
            frame_octets_max: None,
            delay: None,
            jitter: None,
            queue: None,
            bit_errors: None,
            snr: None,
            loss: None,
            burst_loss: None,
            duplicate: None,
            reorder: None,
            reorder_delay: None,
            outage: None,
            change: None,
            half_duplex: false,
            turnaround: None,
            turn_max: None,
            reverse: None,
            hf: None,
            ends: None,
        }
    }

    /// The keys that hold for what `from` sends: at side A those at the top level, at side B with
    /// the overrides of `[reverse]`.
    pub fn direction(&self, from: Side) -> Direction {
        let over = match (from, &self.reverse) {
            (Side::B, Some(reverse)) => reverse.clone(),
            _ => Direction::default(),
        };
        let loss_over = over.loss.is_some() || over.burst_loss.is_some();
        Direction {
            baud: over.baud.or(self.baud),
            rate: over.rate.or(self.rate),
            frame_octets_max: over.frame_octets_max.or(self.frame_octets_max),
            delay: over.delay.or(self.delay),
            jitter: over.jitter.or(self.jitter),
            queue: over.queue.or(self.queue),
            bit_errors: over.bit_errors.or(self.bit_errors),
            snr: over.snr.or(self.snr),
            loss: if loss_over { over.loss } else { self.loss },
            burst_loss: if loss_over {
                over.burst_loss
            } else {
                self.burst_loss
            },
            duplicate: over.duplicate.or(self.duplicate),
            reorder: over.reorder.or(self.reorder),
            reorder_delay: over.reorder_delay.or(self.reorder_delay),
            outage: over.outage.or_else(|| self.outage.clone()),
            change: over.change.or_else(|| self.change.clone()),
        }
    }

    /// Frames that may wait in the emulator before the line, in the direction that `from` sends.
    pub fn queue_frames(&self, from: Side) -> usize {
        self.direction(from).queue.unwrap_or(Self::QUEUE) as usize
    }

    /// Whether it carries a stream of octets, whose frames begin and end anywhere.
    pub const fn carries_octets(&self) -> bool {
        self.kind.carries_octets()
    }

    /// Whether radios send when nodes begin a turn, not whenever there are octets.
    #[must_use]
    pub fn is_keyed_by_turns(&self) -> bool {
        let by_data = |hf: &HfConfig| hf.keyed_by == KeyedBy::Data;
        match self.kind {
            LinkKind::Hf => !self.hf.as_ref().is_some_and(by_data),
            LinkKind::Serial | LinkKind::Frames => false,
        }
    }

    /// How long octets take to arrive from when they have left at the line's rate, at the least and
    /// at the most, in the direction that `from` sends. (An outage may add to it.)
    pub fn way_delay(&self, from: Side) -> (Duration, Duration) {
        let keys = self.direction(from);
        let given = |time: Option<Time>| time.map_or(Duration::ZERO, |time| time.0);
        let delay = given(keys.delay);
        let (least, most) = self
            .hf
            .as_ref()
            .map_or_else(Default::default, |hf| hf.block_delay(self, from));
        let extra = given(keys.jitter) + given(keys.reorder_delay);
        (delay + least, delay + most + extra)
    }

    /// The rate at the link's beginning, in the direction that `from` sends.
    pub fn line_rate(&self, from: Side) -> LineRate {
        let way = self.direction(from);
        self.rate_of(way.baud, way.rate)
    }

    /// The line's rate from the key that belongs to its kind.
    pub(crate) fn rate_of(&self, baud: Option<u64>, rate: Option<BitRate>) -> LineRate {
        match self.kind {
            LinkKind::Serial => {
                let framing = self.framing.unwrap_or(Framing::ASYNC_8N1);
                LineRate::new(baud.unwrap_or(0), framing.bits_per_octet())
            }
            LinkKind::Frames | LinkKind::Hf => LineRate::new(rate.map_or(0, |rate| rate.0), 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_overrides_single_keys() {
        let config = LinkConfig {
            loss: Some(Share(0.1)),
            reverse: Some(Direction {
                rate: Some(BitRate(2400)),
                burst_loss: Some(BurstLoss {
                    enter: Share(0.1),
                    leave: Share(0.5),
                    loss_good: never(),
                    loss_bad: always(),
                }),
                ..Direction::default()
            }),
            ..LinkConfig::frames(9600, Duration::from_millis(5))
        };
        assert_eq!(config.line_rate(Side::A), LineRate::new(9600, 8));
        assert_eq!(config.line_rate(Side::B), LineRate::new(2400, 8));
        let back = config.direction(Side::B);
        assert_eq!(back.delay, config.delay);
        assert_eq!((back.loss, back.burst_loss.is_some()), (None, true));
        assert_eq!(config.direction(Side::A).loss, Some(Share(0.1)));
    }
}
