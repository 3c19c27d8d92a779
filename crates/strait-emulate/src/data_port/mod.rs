//! An end that is an HF modem with a LAN data port (MIL-STD-188-110D Appendix A), over TCP or in
//! datagrams, for one program at a time.

mod radio;
mod tcp;
mod udp;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_live::error::Error;

use self::radio::Radio;
use self::tcp::TcpSide;
use self::udp::UdpSide;

/// What a program wants of its modem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Key up, by this mode.
    KeyUp(Option<Mode>),
    /// Send these octets; whether they are the last.
    Send(Vec<u8>, bool),
}

/// How a modem is reached and what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataPortConfig {
    /// Its data port; in datagrams, its control as well.
    pub(super) address: SocketAddr,
    /// In datagrams.
    pub(super) datagrams: bool,
    /// Over TCP: its control, if it has one.
    pub(super) control: Option<SocketAddr>,
    /// While it receives, it begins no transmission.
    pub(super) receiver_first: bool,
    /// A waveform to begin with.
    pub(super) own: Mode,
    /// From keying to the first block.
    pub(super) lead: Duration,
}

/// The modem.
pub(super) struct DataPort {
    address: SocketAddr,
    radio: Radio,
    side: Box<dyn ModemSide>,
    wishes: Vec<Wish>,
}

/// A protocol's part of a modem. What it wants of the radio goes into the list that it is given.
trait ModemSide {
    fn kind(&self) -> &'static str;

    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    fn holds(&self) -> bool;

    fn flush(&mut self);

    fn wake(&self, radio: &Radio) -> Option<Instant>;

    /// It is `now`.
    fn tick(&mut self, now: Instant, radio: &mut Radio, wishes: &mut Vec<Wish>);

    /// Something came.
    fn read(
        &mut self,
        now: Instant,
        radio: &mut Radio,
        buffer: &mut [u8],
        wishes: &mut Vec<Wish>,
    ) -> io::Result<()>;

    /// The radio hears somebody, or nobody any more.
    fn tell_carrier(&mut self, now: Instant, radio: &Radio);

    /// The transmission is over.
    fn tell_drained(&mut self, now: Instant, radio: &Radio);

    /// A block's octets; false if nobody takes them.
    fn tell_octets(&mut self, now: Instant, radio: &Radio, octets: &[u8]) -> bool;
}

impl DataPort {
    /// A modem at an address.
    pub(super) fn open(config: DataPortConfig) -> Result<Self, Error> {
        let radio = Radio::new(config.own, config.lead, config.receiver_first);
        let (side, address): (Box<dyn ModemSide>, _) = if config.datagrams {
            let side = UdpSide::open(config.address)?;
            let address = side.address();
            (Box::new(side), address)
        } else {
            let side = TcpSide::open(config.address, config.control)?;
            let address = side.address();
            (Box::new(side), address)
        };
        Ok(Self {
            address: address.unwrap_or(config.address),
            radio,
            side,
            wishes: Vec::new(),
        })
    }

    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.side.fds()
    }

    pub(super) fn holds(&self) -> bool {
        self.side.holds()
    }

    /// When it has something to say whatever happens.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.side.wake(&self.radio)
    }

    /// It is `now`; what the program wants of the radio.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Wish> {
        self.side.tick(now, &mut self.radio, &mut self.wishes);
        self.side.flush();
        std::mem::take(&mut self.wishes)
    }

    /// Takes what the program says; its wishes in their order.
    pub(super) fn read(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Vec<Wish>> {
        self.side.tick(now, &mut self.radio, &mut self.wishes);
        let (radio, wishes) = (&mut self.radio, &mut self.wishes);
        self.side.read(now, radio, buffer, wishes)?;
        self.side.flush();
        Ok(std::mem::take(&mut self.wishes))
    }

    /// Others' power is there, by this waveform, or gone.
    pub(super) fn tell_carrier(&mut self, now: Instant, on: bool, mode: Option<Mode>) {
        self.radio.carrier = on;
        self.radio.heard = mode.unwrap_or(self.radio.heard);
        self.side.tell_carrier(now, &self.radio);
        self.side.flush();
    }

    /// The transmission is over.
    pub(super) fn tell_drained(&mut self, now: Instant) {
        self.radio.turn = None;
        self.side.tell_drained(now, &self.radio);
        self.side.flush();
    }

    /// Octets that were received; false if nobody takes them.
    pub(super) fn tell_octets(&mut self, now: Instant, octets: &[u8]) -> bool {
        let taken = self.side.tell_octets(now, &self.radio, octets);
        self.side.flush();
        taken
    }
}

impl fmt::Display for DataPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.side.kind(), self.address)
    }
}

#[cfg(test)]
mod tests;
