//! The link file: a medium between two ends, as text with units.
//!
//! What stands at the top level holds for both directions; `[reverse]` overrides single keys for
//! the direction from b to a.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use strait_core::framing::Framing;
use strait_core::keys::{self, KeyError, KindKey, KindWord as _};
use strait_core::rate::LineRate;
use strait_core::time::Duration;
use strait_core::units::{BitRate, Decibels, Share, Time};

use crate::Side;
use crate::cell::CellConfig;
use crate::hf::{HfConfig, KeyedBy};

/// A link file, sorted out.
///
/// It reads as the keys of both directions, those at its top level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "LinkKeys", into = "LinkKeys")]
pub struct LinkConfig {
    /// What the medium carries.
    pub kind: LinkKind,
    /// What holds for both directions.
    pub both: Direction,
    /// What is otherwise in the direction from b to a.
    pub reverse: Option<Direction>,
    /// Only one side at a time may send.
    pub half_duplex: Option<HalfDuplex>,
    /// Emulator only: what the two ends are attached to.
    pub ends: Option<Ends>,
}

/// What a medium carries, with what only this kind has.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkKind {
    /// A stream of octets, each between start and stop bits, or by a clock.
    Serial(Framing),
    /// Frames of eight bits an octet.
    Frames,
    /// Blocks of a modem's waveform over a radio channel that several stations share.
    Hf(Box<HfConfig>),
    /// Frames of stations that share a channel of packets and listen before they send.
    Cell(Box<CellConfig>),
}

/// How two sides take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HalfDuplex {
    /// Time between the end of one side's transmission, as heard by the other, and the start of
    /// that one's.
    pub turnaround: Option<Time>,
    /// How long a side keeps the medium while the other one waits for it. If not given: one frame,
    /// or the time of 256 octets on a serial line.
    pub turn_max: Option<Time>,
}

impl Deref for LinkConfig {
    type Target = Direction;

    fn deref(&self) -> &Direction {
        &self.both
    }
}

impl DerefMut for LinkConfig {
    fn deref_mut(&mut self) -> &mut Direction {
        &mut self.both
    }
}

/// What a kind is, it says itself: whoever adds one answers for it here.
impl LinkKind {
    /// Whether it carries a stream of octets, whose frames begin and end anywhere.
    pub const fn carries_octets(&self) -> bool {
        match self {
            Self::Serial(_) | Self::Hf(_) => true,
            Self::Frames | Self::Cell(_) => false,
        }
    }

    /// Whether any number of stations share it, not two ends.
    pub const fn is_shared(&self) -> bool {
        match self {
            Self::Hf(_) | Self::Cell(_) => true,
            Self::Serial(_) | Self::Frames => false,
        }
    }

    /// Whether it is a cell of packet radio.
    pub const fn is_cell(&self) -> bool {
        matches!(self, Self::Cell(_))
    }

    /// Whether what is sent may be lost without a word in the link file.
    pub const fn is_lossy(&self) -> bool {
        self.is_shared()
    }

    /// Start, data, parity and stop bits of a serial line, or its clock.
    pub const fn framing(&self) -> Option<Framing> {
        match self {
            Self::Serial(framing) => Some(*framing),
            Self::Frames | Self::Hf(_) | Self::Cell(_) => None,
        }
    }

    const fn word(&self) -> KindWord {
        match self {
            Self::Serial(_) => KindWord::Serial,
            Self::Frames => KindWord::Frames,
            Self::Hf(_) => KindWord::Hf,
            Self::Cell(_) => KindWord::Cell,
        }
    }

    /// The word in files.
    pub fn name(&self) -> &'static str {
        self.word().word()
    }
}

/// A kind as a link file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindWord {
    Serial,
    Frames,
    Hf,
    Cell,
}

impl keys::KindWord for KindWord {
    const OF: &'static str = "link";

    fn word(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Frames => "frames",
            Self::Hf => "hf",
            Self::Cell => "cell",
        }
    }
}

/// Declares the keys that can differ between directions: for the top level of a link file, beside
/// those of the medium as a whole, and for `[reverse]`.
macro_rules! keys_of_directions {
    ($($(#[$meta:meta])* $key:ident: $type:ty,)*) => {
        /// The keys of a direction.
        ///
        /// In `[reverse]` they override those at the top level. Lists replace lists. `loss` there
        /// replaces `burst_loss` here, and the other way round.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Direction {
            $($(#[$meta])* pub $key: Option<$type>,)*
        }

        impl Direction {
            fn overridden_by(&self, other: &Self) -> Self {
                Self { $($key: other.$key.clone().or_else(|| self.$key.clone()),)* }
            }
        }

        /// The keys of a link file as written.
        #[derive(Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct LinkKeys {
            kind: KindWord,
            framing: Option<Framing>,
            $($(#[$meta])* $key: Option<$type>,)*
            #[serde(default)]
            half_duplex: bool,
            turnaround: Option<Time>,
            turn_max: Option<Time>,
            reverse: Option<Direction>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            hf: Option<Box<HfConfig>>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            cell: Option<Box<CellConfig>>,
            ends: Option<Ends>,
        }

        impl LinkKeys {
            fn both(&mut self) -> Direction {
                Direction { $($key: self.$key.take(),)* }
            }
        }

        impl From<LinkConfig> for LinkKeys {
            fn from(link: LinkConfig) -> Self {
                let turns = link.half_duplex.unwrap_or_default();
                let kind = link.kind.word();
                let framing = link.kind.framing();
                let (hf, cell) = match link.kind {
                    LinkKind::Hf(hf) => (Some(hf), None),
                    LinkKind::Cell(cell) => (None, Some(cell)),
                    LinkKind::Serial(_) | LinkKind::Frames => (None, None),
                };
                Self {
                    kind,
                    framing,
                    $($key: link.both.$key,)*
                    half_duplex: link.half_duplex.is_some(),
                    turnaround: turns.turnaround,
                    turn_max: turns.turn_max,
                    reverse: link.reverse,
                    hf,
                    cell,
                    ends: link.ends,
                }
            }
        }
    };
}

keys_of_directions! {
    /// Serial: signalling rate in baud.
    baud: u64,
    /// Frames: bit rate. HF: that of the waveform.
    rate: BitRate,
    /// Frames: the longest frame in octets; 1500 if not given.
    frame_octets_max: u32,
    /// One-way propagation; none if not given.
    delay: Time,
    /// Frames: extra delay, uniform between 0 and this. Order is kept.
    jitter: Time,
    /// Emulator only: frames that may wait before the line; 50 if not given.
    queue: u32,
    /// Probability that a bit of the line is inverted.
    bit_errors: Share,
    /// HF: mean signal-to-noise ratio at the receiver, in the waveform's bandwidth. Errors follow
    /// from it by `hf.channel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snr: Decibels,
    /// Frames: probability that a frame is lost.
    loss: Share,
    /// Frames: loss in bursts, instead of `loss`.
    burst_loss: BurstLoss,
    /// Frames: probability that a frame arrives twice.
    duplicate: Share,
    /// Frames: probability that a frame is held back for `reorder_delay`.
    reorder: Share,
    /// Frames: how long a reordered frame is held back.
    reorder_delay: Time,
    /// Times in which the medium carries nothing, in order. The ports don't learn of them.
    outage: Vec<Outage>,
    /// Changes of the rate, in order.
    change: Vec<Change>,
}

impl LinkKeys {
    fn refuse_misplaced(&self) -> Result<(), KeyError> {
        const TURNS: &str = "is for half_duplex = true";
        use KindWord::{Cell, Frames, Hf, Serial};
        keys::refuse_others(
            self.kind,
            [
                KindKey::new("framing", self.framing.is_some(), &[Serial]),
                KindKey::new("half_duplex", self.half_duplex, &[Serial, Frames])
                    .instead("this kind always is; for `hf` see `hf.turnaround`"),
                KindKey::new("hf", self.hf.is_some(), &[Hf]),
                KindKey::new("cell", self.cell.is_some(), &[Cell]),
            ],
        )?;
        match (self.turnaround, self.turn_max) {
            _ if self.half_duplex => Ok(()),
            (Some(_), _) => Err(KeyError::new("turnaround", TURNS)),
            (_, Some(_)) => Err(KeyError::new("turn_max", TURNS)),
            (None, None) => Ok(()),
        }
    }
}

impl Direction {
    /// Keys that not every kind has: whether they are given, and who has them.
    fn particular(&self) -> [KindKey<KindWord>; 14] {
        use KindWord::{Cell, Frames, Hf, Serial};
        let size = self.frame_octets_max.is_some();
        let errors = "octets are lost by `bit_errors`, `snr` or `[[outage]]`";
        [
            KindKey::new("baud", self.baud.is_some(), &[Serial]).instead("write `rate`"),
            KindKey::new("rate", self.rate.is_some(), &[Frames, Hf, Cell]).instead("write `baud`"),
            KindKey::new("frame_octets_max", size, &[Frames, Cell]),
            KindKey::new("delay", self.delay.is_some(), &[Serial, Frames, Hf]),
            KindKey::new(
                "bit_errors",
                self.bit_errors.is_some(),
                &[Serial, Frames, Hf],
            )
            .instead("frames are lost by `loss`"),
            KindKey::new("outage", self.outage.is_some(), &[Serial, Frames, Hf])
                .instead("stations come and go by `cell.moves`"),
            KindKey::new("jitter", self.jitter.is_some(), &[Frames]),
            KindKey::new("queue", self.queue.is_some(), &[Serial, Frames]),
            KindKey::new("snr", self.snr.is_some(), &[Hf]),
            KindKey::new("loss", self.loss.is_some(), &[Frames, Cell]).instead(errors),
            KindKey::new("burst_loss", self.burst_loss.is_some(), &[Frames]).instead(errors),
            KindKey::new("duplicate", self.duplicate.is_some(), &[Frames]),
            KindKey::new("reorder", self.reorder.is_some(), &[Frames]),
            KindKey::new("reorder_delay", self.reorder_delay.is_some(), &[Frames]),
        ]
    }
}

impl TryFrom<LinkKeys> for LinkConfig {
    type Error = KeyError;

    fn try_from(mut keys: LinkKeys) -> Result<Self, KeyError> {
        keys.refuse_misplaced()?;
        let kind = match keys.kind {
            KindWord::Serial => {
                let why = "needed with kind = \"serial\": write framing = \"8N1\"";
                LinkKind::Serial(keys.framing.ok_or_else(|| KeyError::new("framing", why))?)
            }
            KindWord::Frames => LinkKind::Frames,
            KindWord::Hf => {
                let why = "needed with kind = \"hf\": write the table [hf], which may be empty";
                LinkKind::Hf(keys.hf.take().ok_or_else(|| KeyError::new("hf", why))?)
            }
            KindWord::Cell => {
                let why = "needed with kind = \"cell\": write the table [cell] with its `places`";
                LinkKind::Cell(keys.cell.take().ok_or_else(|| KeyError::new("cell", why))?)
            }
        };
        let link = Self {
            kind,
            both: keys.both(),
            reverse: keys.reverse,
            half_duplex: keys.half_duplex.then_some(HalfDuplex {
                turnaround: keys.turnaround,
                turn_max: keys.turn_max,
            }),
            ends: keys.ends,
        };
        link.validate()?;
        Ok(link)
    }
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
    /// Simulated ports don't hear of it, as of a modem that isn't set to its port's rate.
    #[serde(default)]
    pub unheard: bool,
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

/// No frame stays longer in a card: it has been given up before, whatever others send.
const CARD_TIME_MAX: Duration = Duration::from_secs(600);

impl LinkConfig {
    /// Frames that wait in the emulator before the line, if the link file doesn't say.
    pub const QUEUE: u32 = 50;
    /// Longest frame in octets, if the link file doesn't say.
    pub const FRAME_OCTETS_MAX: u32 = 1500;

    /// A serial line of `baud` with 8N1 framing and nothing wrong with it.
    pub fn serial(baud: u64) -> Self {
        Self::plain(LinkKind::Serial(Framing::ASYNC_8N1)).with(|it| it.baud = Some(baud))
    }

    /// An HF channel in 3 kHz with short blocks and nothing wrong with it.
    pub fn hf(rate_bit_s: u64) -> Self {
        let kind = LinkKind::Hf(Box::default());
        Self::plain(kind).with(|it| it.rate = Some(BitRate(rate_bit_s)))
    }

    /// A cell whose frames for one station have this rate.
    pub fn cell(rate_bit_s: u64, cell: CellConfig) -> Self {
        Self::plain(LinkKind::Cell(Box::new(cell))).with(|it| it.rate = Some(BitRate(rate_bit_s)))
    }

    /// A link for frames of up to 1500 octets with nothing wrong with it.
    pub fn frames(rate_bit_s: u64, delay: Duration) -> Self {
        Self::plain(LinkKind::Frames).with(|it| {
            it.rate = Some(BitRate(rate_bit_s));
            it.delay = Some(Time(delay));
        })
    }

    fn plain(kind: LinkKind) -> Self {
        Self {
            kind,
            both: Direction::default(),
            reverse: None,
            half_duplex: None,
            ends: None,
        }
    }

    /// The same with a change.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The channel, the modems and the radios of HF.
    pub fn hf_config(&self) -> Option<&HfConfig> {
        match &self.kind {
            LinkKind::Hf(hf) => Some(hf),
            LinkKind::Serial(_) | LinkKind::Frames | LinkKind::Cell(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn hf_config_mut(&mut self) -> Option<&mut HfConfig> {
        match &mut self.kind {
            LinkKind::Hf(hf) => Some(hf),
            LinkKind::Serial(_) | LinkKind::Frames | LinkKind::Cell(_) => None,
        }
    }

    /// Settings of a cell, to be changed.
    pub fn cell_config_mut(&mut self) -> Option<&mut CellConfig> {
        match &mut self.kind {
            LinkKind::Cell(cell) => Some(cell),
            LinkKind::Serial(_) | LinkKind::Frames | LinkKind::Hf(_) => None,
        }
    }

    /// The keys that hold for what `from` sends: at side A those at the top level, at side B with
    /// the overrides of `[reverse]`.
    pub fn direction(&self, from: Side) -> Direction {
        let (Side::B, Some(over)) = (from, &self.reverse) else {
            return self.both.clone();
        };
        let mut way = self.both.overridden_by(over);
        if over.loss.is_some() || over.burst_loss.is_some() {
            (way.loss, way.burst_loss) = (over.loss, over.burst_loss);
        }
        way
    }

    /// Refuses keys that belong to other kinds.
    pub(crate) fn refuse_misplaced(&self) -> Result<(), KeyError> {
        let kind = self.kind.word();
        keys::refuse_others(kind, self.both.particular())?;
        let reverse = self.reverse.iter().flat_map(Direction::particular);
        keys::refuse_others(kind, reverse).map_err(|error| error.within("reverse"))
    }

    /// Frames that may wait in the emulator before the line, in the direction that `from` sends.
    pub fn queue_frames(&self, from: Side) -> usize {
        self.direction(from).queue.unwrap_or(Self::QUEUE) as usize
    }

    /// Whether radios send when nodes begin a turn, not whenever there are octets.
    #[must_use]
    pub fn is_keyed_by_turns(&self) -> bool {
        let by_node = |hf: &HfConfig| hf.keyed_by == KeyedBy::Node;
        self.hf_config().is_some_and(by_node)
    }

    /// How long octets take to arrive from when they have left at the line's rate, at the least and
    /// at the most, in the direction that `from` sends. (An outage may add to it.)
    pub fn way_delay(&self, from: Side) -> (Duration, Duration) {
        if let LinkKind::Cell(_) = self.kind {
            return (Duration::ZERO, CARD_TIME_MAX);
        }
        let keys = self.direction(from);
        let given = |time: Option<Time>| time.map_or(Duration::ZERO, |time| time.0);
        let delay = given(keys.delay);
        let (least, most) = self
            .hf_config()
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
        match &self.kind {
            LinkKind::Serial(framing) => LineRate::new(baud.unwrap_or(0), framing.bits_per_octet()),
            LinkKind::Frames | LinkKind::Hf(_) | LinkKind::Cell(_) => {
                LineRate::new(rate.map_or(0, |rate| rate.0), 8)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_overrides_single_keys() {
        let config = LinkConfig::frames(9600, Duration::from_millis(5)).with(|it| {
            it.loss = Some(Share(0.1));
            it.reverse = Some(Direction {
                rate: Some(BitRate(2400)),
                burst_loss: Some(BurstLoss {
                    enter: Share(0.1),
                    leave: Share(0.5),
                    loss_good: never(),
                    loss_bad: always(),
                }),
                ..Direction::default()
            });
        });
        assert_eq!(config.line_rate(Side::A), LineRate::new(9600, 8));
        assert_eq!(config.line_rate(Side::B), LineRate::new(2400, 8));
        let back = config.direction(Side::B);
        assert_eq!(back.delay, config.delay);
        assert_eq!((back.loss, back.burst_loss.is_some()), (None, true));
        assert_eq!(config.direction(Side::A).loss, Some(Share(0.1)));
    }
}
