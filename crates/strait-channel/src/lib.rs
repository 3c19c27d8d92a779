//! Media: what they can take, how long it takes, and what they do to it.
//!
//! The simulator drives any [`Medium`] in virtual time, and the live emulator the same ones in real
//! time. Between two ends all is decided when octets are sent: [`Channel::transmit`] returns when
//! they arrive and what became of them, and keeps nothing to deliver. A medium that is shared has
//! an agenda: what becomes of octets depends on what others do until they have arrived.
//!
//! Every random number is a function of seed, link, direction and place: the frame's number for
//! what happens to frames, the position in line time for bit errors. Two systems compared over the
//! same link meet the same channel.
#![no_std]
extern crate alloc;

pub mod cell;
pub mod config;
mod half;
pub mod hf;
mod hit;
mod impair;
mod line;
mod medium;
mod queue;
mod schedule;
mod stats;
mod validate;
mod way;

use strait_core::node::{PortState, Room};
use strait_core::time::Instant;

pub use config::{HalfDuplex, LinkConfig, LinkKind};
pub use line::Line;
pub use medium::{Deliver, Heard, Medium, MediumEvent, PathId, StationId};
pub use queue::{FrameQueue, QueuedFrame};
pub use stats::ChannelStats;

/// One of the two ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end named first.
    A,
    /// The end named second.
    B,
}

impl Side {
    /// Both ends, in the order of [`Side::index`].
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The end across the link.
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// 0 or 1.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A medium between two ends.
///
/// `now` never goes back for one side. It may lag behind the wall clock: a driver in real time that
/// comes late asks for the moment when its octets were ready and the line was free, and so loses no
/// line time.
/// # Examples
///
/// ```
/// use strait_channel::{Channel, Line, LinkConfig, Side};
/// use strait_core::{Duration, Instant};
///
/// let config = LinkConfig::frames(8_000, Duration::from_millis(50));
/// let mut line = Line::new(&config, "satellite", 1)?;
/// let room = line.room(Instant::ZERO, Side::A).expect("a line that nobody uses");
/// let mut frame = [0; 1000];
/// assert!(frame.len() <= room.octets);
/// let sent = line.transmit(Instant::ZERO, Side::A, &mut frame);
/// // 1000 octets take a second; meanwhile the line says when to ask again.
/// assert_eq!(sent.ends, Instant::from_secs(1));
/// assert_eq!(sent.arrival, Some(Instant::from_millis(1050)));
/// assert_eq!(line.room(Instant::from_millis(999), Side::A), Err(Some(sent.ends)));
/// assert!(line.room(sent.ends, Side::A).is_ok());
/// # Ok::<(), strait_core::keys::KeyError>(())
/// ```
pub trait Channel {
    /// What `side` may send now.
    ///
    /// # Errors
    /// When to ask again; `None` if only a scheduled change ([`Channel::next_change`]) or a
    /// transmission of the other side can tell.
    fn room(&mut self, now: Instant, side: Side) -> Result<Room, Option<Instant>>;

    /// Sends octets that fit the room given at the same `now`; bit errors are written into them.
    fn transmit(&mut self, now: Instant, side: Side, octets: &mut [u8]) -> Transmission;

    /// State of the port at `side`; `None` while it is down.
    fn state(&self, now: Instant, side: Side) -> Option<PortState>;

    /// The next scheduled change of either direction strictly after `now`: time to compare
    /// [`Channel::state`] and to ask for room again.
    fn next_change(&self, now: Instant) -> Option<Instant>;

    /// What happened to the octets that `side` sent.
    fn stats(&self, side: Side) -> &ChannelStats;
}

/// What becomes of octets that were put on a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// When the first octet leaves.
    pub starts: Instant,
    /// When the last octet has left.
    pub ends: Instant,
    /// When the last octet has arrived; `None` if they are lost.
    pub arrival: Option<Instant>,
    /// When a second copy has arrived, if there is one.
    pub duplicate: Option<Instant>,
    /// Why they don't arrive.
    pub lost: Option<LossCause>,
    /// Bits of the line that the medium inverted, those around the octets included.
    pub corrupted_bits: u32,
    /// The octet that filled the line before these, where it never rests: the far end gets it
    /// first, once for the whole pause.
    pub fill: Option<u8>,
}

/// Why a medium lost what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossCause {
    /// Independent loss, also in the good state of a medium with bursts of loss.
    Random,
    /// Loss in the bad state of a medium with bursts of loss.
    Burst,
    /// The medium carried nothing at that time.
    Outage,
    /// Both ends, or a third station, sent at once.
    Collision,
    /// The receiver didn't find a transmission in the noise.
    Noise,
}

impl LossCause {
    /// All causes, in the order of arrays indexed by them.
    pub const ALL: [Self; 5] = [
        Self::Random,
        Self::Burst,
        Self::Outage,
        Self::Collision,
        Self::Noise,
    ];

    /// The word in tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Burst => "burst",
            Self::Outage => "outage",
            Self::Collision => "collision",
            Self::Noise => "noise",
        }
    }
}
