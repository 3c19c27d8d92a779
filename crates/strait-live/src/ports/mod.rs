//! What moves octets between a port and a device or socket. It knows no protocol.

pub mod hf_modem;
pub mod kiss;
pub(crate) mod no_medium;
pub mod pty;
pub mod raw_ip;
pub mod serial;
pub mod tcp_line;
pub mod tun;
pub mod udp;

use std::io;
use std::os::fd::BorrowedFd;

use strait_core::id::{NeighbourId, TxId};
use strait_core::node::{FrameMeta, Notice, PortEvent, PortState, Room, TxMeta};
use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant};

use crate::error::Error;

/// The state of a port whose octets go to this host's own programs or modems: faster than anything
/// behind it.
pub(crate) const fn unpaced() -> PortState {
    let rate = LineRate::new(1_000_000_000, 8);
    PortState {
        tx_rate: rate,
        rx_rate: rate,
        frame_octets_max: u32::MAX,
        block: Duration::ZERO,
        latency: Duration::ZERO,
        notice: Notice::NONE,
    }
}

/// A port's attachment to a real medium.
///
/// The event loop owns its life: it opens it, closes it when an operation fails with an error
/// (the device is gone), and tries to open it again each second. Errors that concern one frame
/// only are no errors here but a [`Sent::Refused`] or a [`Received::Skipped`].
pub trait PortIo {
    /// Makes the device ready. Called again after [`PortIo::close`]; on an open port it changes
    /// nothing.
    ///
    /// # Errors
    /// The device can't be had now; the error says what would help.
    fn open(&mut self, now: Instant) -> Result<PortState, Error>;

    /// Lets go of the device.
    fn close(&mut self);

    /// The descriptor to wait on; `None` while closed.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// What the medium can take now.
    ///
    /// # Errors
    /// Nothing; the moment to ask again, if it is known. Without one, room comes when what is
    /// held has been flushed.
    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>>;

    /// The same when the next `committed` octets are fixed. A line that is paced by time takes them
    /// all, so that what is urgent suffers from no late wake-up.
    ///
    /// # Errors
    /// As those of [`PortIo::room`].
    fn room_for(&mut self, now: Instant, _committed: usize) -> Result<Room, Option<Instant>> {
        self.room(now)
    }

    /// When there is room for a further neighbour, after room that wasn't for all.
    fn room_again(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// By neighbour, the rate of the way to it, where each has one of its own.
    fn neighbour_rates(&self) -> &[LineRate] {
        &[]
    }

    /// Puts octets on the medium; never more than the room that was given.
    ///
    /// # Errors
    /// The device is gone.
    fn transmit(&mut self, now: Instant, meta: &TxMeta, octets: &[u8]) -> io::Result<Sent>;

    /// Whether octets were pulled that the device had no space for.
    fn holds(&self) -> bool;

    /// The descriptor became writable while octets are held: pass them on.
    ///
    /// # Errors
    /// The device is gone.
    fn flush(&mut self, now: Instant) -> io::Result<()>;

    /// Whether everything pulled has left.
    fn drained(&mut self, now: Instant) -> bool;

    /// Takes the next frame or octets from the medium into `buffer`.
    ///
    /// # Errors
    /// The device is gone.
    fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Received>;

    /// Whether [`PortIo::receive`] has something to give that its descriptor doesn't tell of.
    fn has_more(&self) -> bool {
        false
    }

    /// When [`PortIo::tick`] is to be called while it is open.
    fn wake(&self) -> Option<Instant> {
        None
    }

    /// It is `now`.
    ///
    /// # Errors
    /// The device is gone.
    fn tick(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    /// What the medium knows of the frame that it gave last.
    fn meta(&self) -> FrameMeta {
        FrameMeta::default()
    }

    /// The interface by which the host's kernel hands packets to it, if it is such a port.
    fn interface(&self) -> Option<&str> {
        None
    }

    /// What it has found out of the device, in a few words.
    fn found(&self) -> Option<Found> {
        None
    }

    /// What happened below the node's eyes.
    fn counts(&self) -> IoCounts;
}

/// What a port has found out of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// In a few words.
    pub text: &'static str,
    /// Something is missing that would serve better.
    pub lacks: bool,
}

/// What became of octets given to a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The medium has them, or will have as soon as its device has space.
    Taken,
    /// This frame could not be sent; the next may.
    Refused,
}

/// What came from a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many octets from a neighbour, at the beginning of the buffer.
    Frame {
        /// Who sent it.
        from: NeighbourId,
        /// Its length.
        octets: usize,
    },
    /// The medium tells of itself: a carrier, or that all has left.
    Event(PortEvent),
    /// A transmission has left; what became of it, the medium doesn't tell.
    Left {
        /// The number that it had.
        id: TxId,
        /// For whom it was.
        to: NeighbourId,
    },
    /// Something that the node must not see; it is counted.
    Skipped,
    /// Nothing more now.
    Nothing,
}

/// Counters below a node: they survive a device that comes and goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Frames from an address that is no neighbour, and packets that aren't of our protocol.
    pub strangers: u64,
    /// Packets by which the host's kernel looks after the interface itself.
    pub chatter: u64,
    /// Transmissions that the system refused.
    pub refused: u64,
    /// Most octets that a device ever reported as written and not sent.
    pub backlog_octets_max: u64,
}

/// Whether an error of a read or write means «not now».
pub fn is_not_now(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
