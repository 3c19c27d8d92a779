//! A modem in datagrams (MIL-STD-188-110D A.5.2), as its terminal sees it. A connection to its
//! control says who the terminal is: datagrams come from the same address and port.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_node::config::HfModem;
use strait_wire::modem_port::udp::{Datagram, SESSION_MAX, Status, UdpPacket, UdpTxState};

use super::control::Control;
use super::transfer::{Came, Inbound, Outbound, any_number, fit};
use super::{Heard, Modem, START_MAX, WATCHDOG, in_time};
use crate::error::{Doing, Error};
use crate::ports::is_not_now;

/// How often the other side is asked whether it is there (A.5.2.6.2).
const PING: Duration = Duration::from_secs(5);
/// How often a modem that has told nothing is asked how it is, and how long.
const ASK: Duration = Duration::from_secs(1);
const READY_MAX: Duration = Duration::from_secs(10);
/// A modem that has been silent for so long in its session may have begun another one. Statuses
/// come twice a second.
const SESSION: Duration = Duration::from_secs(1);
/// How old a transmission is at least of which an idle modem says that it got lost. Statuses come
/// twice a second.
const UNDER_WAY: Duration = Duration::from_millis(1500);

/// The modem.
pub(super) struct UdpModem {
    config: HfModem,
    control: Control,
    socket: Option<UdpSocket>,
    /// The session, and when the modem was last heard in it.
    session: u32,
    heard: Option<Instant>,
    status: Option<Status>,
    transfer: u16,
    outgoing: Option<Outgoing>,
    inbound: Inbound,
    heard_bit_s: Option<u32>,
    opened: Instant,
    asked: Instant,
    pinged: Instant,
    answered: Instant,
    strangers: u64,
    refused: u64,
}

/// A transmission.
#[derive(Debug)]
struct Outgoing {
    mode: Mode,
    began: Instant,
    stage: Stage,
    /// Octets that weren't sent, and whether they are the last.
    waiting: Vec<u8>,
    whole: bool,
    out: Option<Outbound>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The modem is to be idle, and to send by the mode.
    Waits,
    /// Octets go to it.
    Given,
    /// It sends.
    Started,
}

impl UdpModem {
    pub(super) fn new(config: HfModem) -> Self {
        Self {
            control: Control::new(config.control.unwrap_or(config.address)),
            config,
            socket: None,
            session: 0,
            heard: None,
            status: None,
            transfer: any_number() as u16,
            outgoing: None,
            inbound: Inbound::default(),
            heard_bit_s: None,
            opened: Instant::ZERO,
            asked: Instant::ZERO,
            pinged: Instant::ZERO,
            answered: Instant::ZERO,
            strangers: 0,
            refused: 0,
        }
    }

    /// A socket at the address and port of the control's connection.
    fn bind(&self) -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(self.control.local_address()?)?;
        socket.set_nonblocking(true)?;
        socket.connect(self.config.address)?;
        Ok(socket)
    }

    fn say(&mut self, packet: UdpPacket<'_>) {
        let session = self.session;
        let octets = Datagram { session, packet }.emit();
        // What isn't taken is lost, as it may be on its way.
        if let Some(socket) = &self.socket
            && socket.send(&octets).is_err()
        {
            self.refused += 1;
        }
    }

    fn take(&mut self, now: Instant, octets: &[u8], heard: &mut VecDeque<Heard>) {
        let Ok(Datagram { session, packet }) = Datagram::parse(octets) else {
            self.strangers += 1;
            return;
        };
        if session != self.session && !self.renew(now, session, heard) {
            return;
        }
        self.heard = Some(now);
        match packet {
            UdpPacket::Ping => self.say(UdpPacket::PingReply),
            UdpPacket::PingReply => self.answered = now,
            UdpPacket::Status(status) => self.follow(now, status, heard),
            UdpPacket::Data(share) => {
                let (rate, _) = share.received_by.unwrap_or_default();
                if rate > 0 {
                    self.heard_bit_s = Some(rate);
                }
                let rate = self.heard_bit_s.unwrap_or(self.config.mode.rate_bit_s);
                let came = self.inbound.take(now, &share, rate);
                self.tell(came, heard);
            }
            UdpPacket::CommandAck { .. } => {}
            UdpPacket::StatusRequest | UdpPacket::Command { .. } => self.strangers += 1,
        }
    }

    /// The modem has begun another session (A.5.2.3): what was under way isn't any more. False as
    /// long as it speaks in the known one: a datagram may be late, or another's.
    fn renew(&mut self, now: Instant, session: u32, heard: &mut VecDeque<Heard>) -> bool {
        if self.heard.is_some_and(|at| now < at + SESSION) {
            return false;
        }
        self.session = session;
        self.inbound = Inbound::default();
        self.status = None;
        if self.outgoing.take().is_some() {
            heard.push_back(Heard::Over);
        }
        true
    }

    fn tell(&mut self, came: Vec<Came>, heard: &mut VecDeque<Heard>) {
        for came in came {
            match came {
                Came::Octets(octets) => heard.push_back(Heard::Octets(octets, self.heard_bit_s)),
                Came::Lost => self.strangers += 1,
                Came::Ended => {}
            }
        }
    }

    fn follow(&mut self, now: Instant, status: Status, heard: &mut VecDeque<Heard>) {
        let known = self.status;
        if known.is_some_and(|known| !status.is_after(known.number)) {
            return;
        }
        self.status = Some(status);
        let erred = status.errors.tx_overrun || status.errors.tx_underrun;
        let before = known.is_some_and(|it| it.errors.tx_overrun || it.errors.tx_underrun);
        self.refused += u64::from(erred && !before);
        if known.is_none_or(|known| known.carrier != status.carrier) {
            heard.push_back(Heard::Carrier(status.carrier));
        }
        if let Some(outgoing) = &mut self.outgoing {
            match outgoing.follows(now, self.transfer, &status) {
                Some(Heard::Started) => {
                    outgoing.stage = Stage::Started;
                    heard.push_back(Heard::Started);
                }
                Some(over) => {
                    self.outgoing = None;
                    heard.push_back(over);
                }
                None => {}
            }
        }
        self.proceed(now);
    }

    /// Sends what can be sent.
    fn proceed(&mut self, now: Instant) {
        let (status, ours) = (self.status, self.control.is_ours());
        let Some(outgoing) = &mut self.outgoing else {
            return;
        };
        if outgoing.stage == Stage::Waits {
            let Some(status) = status.filter(|it| it.in_control) else {
                return;
            };
            let sends_by = (status.tx_bit_s, status.tx_block_bits);
            let set = sends_by == (outgoing.mode.rate_bit_s, outgoing.mode.block_bits);
            if status.state != UdpTxState::Flushed || ours && !set {
                return;
            }
            outgoing.stage = Stage::Given;
            outgoing.began = now;
        }
        let stamp_ms = now.as_nanos() / 1_000_000;
        let stamp_ms = stamp_ms as u32;
        let waiting = std::mem::take(&mut outgoing.waiting);
        let mut datagrams = Vec::new();
        let session = self.session;
        let mut emit = |share: strait_wire::modem_port::udp::Share<'_>| {
            let packet = UdpPacket::Data(share);
            datagrams.push(Datagram { session, packet }.emit());
        };
        if let Some(out) = &mut outgoing.out {
            out.give(stamp_ms, &waiting, &mut emit);
        }
        if outgoing.whole
            && let Some(out) = outgoing.out.take()
        {
            out.end(stamp_ms, &mut emit);
        }
        if let Some(socket) = &self.socket {
            let lost = datagrams.iter().filter(|it| socket.send(it).is_err());
            self.refused += lost.count() as u64;
        }
    }
}

impl Outgoing {
    /// What a status says of the transmission: that it began or is over. One may be of before it,
    /// and all that began it may have got lost.
    fn follows(&self, now: Instant, transfer: u16, status: &Status) -> Option<Heard> {
        let own = status.transfer == transfer;
        let old = now >= self.began + UNDER_WAY;
        match (self.stage, status.state) {
            (Stage::Given, UdpTxState::Started | UdpTxState::Draining) if own => {
                Some(Heard::Started)
            }
            (Stage::Started, UdpTxState::Flushed) if own => Some(Heard::Over),
            (Stage::Given, UdpTxState::Flushed) if own || old => Some(Heard::Over),
            (Stage::Started, _) if !own && old => Some(Heard::Over),
            _ => None,
        }
    }
}

impl Modem for UdpModem {
    fn open(&mut self, now: Instant) -> Result<(), Error> {
        let address = self.config.address;
        self.control.open(now)?;
        match self.bind().doing(|| format!("reach UDP {address}")) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => {
                self.control.close();
                return Err(error);
            }
        }
        self.session = any_number() as u32 & SESSION_MAX;
        (self.heard, self.status, self.outgoing) = (None, None, None);
        (self.inbound, self.heard_bit_s) = (Inbound::default(), None);
        (self.opened, self.asked, self.pinged, self.answered) = (now, now, now, now);
        self.say(UdpPacket::StatusRequest);
        Ok(())
    }

    fn is_opening(&self) -> bool {
        self.control.is_opening()
    }

    fn close(&mut self) {
        self.control.close();
        (self.socket, self.status, self.outgoing) = (None, None, None);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    fn is_ready(&self) -> bool {
        self.status.is_some_and(|status| status.in_control)
    }

    fn read(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        heard: &mut VecDeque<Heard>,
    ) -> io::Result<bool> {
        let Some(socket) = &self.socket else {
            return Ok(false);
        };
        match socket.recv(buffer) {
            Ok(octets) => {
                let octets = buffer[..octets].to_vec();
                self.take(now, &octets, heard);
                Ok(true)
            }
            Err(error) if is_not_now(&error) => Ok(false),
            // Word that nobody took a datagram; the control's connection says whether the modem is
            // gone.
            Err(_) => Ok(true),
        }
    }

    fn begin(&mut self, now: Instant, mode: Mode) -> io::Result<()> {
        self.control.listen(now)?;
        self.transfer = self.transfer.wrapping_add(1);
        if self.control.is_ours() {
            self.control.set(now, mode)?;
        }
        self.outgoing = Some(Outgoing {
            mode,
            began: now,
            stage: Stage::Waits,
            waiting: Vec::new(),
            whole: false,
            out: Some(Outbound::new(self.transfer, mode, false)),
        });
        Ok(())
    }

    fn send(&mut self, now: Instant, octets: &[u8], last: bool) -> io::Result<()> {
        if let Some(outgoing) = self.outgoing.as_mut().filter(|it| !it.whole) {
            outgoing.waiting.extend_from_slice(octets);
            outgoing.whole = last;
        }
        self.proceed(now);
        Ok(())
    }

    fn needs(&self) -> Option<(Instant, usize)> {
        None
    }

    fn holds_back(&self, mode: Mode) -> Duration {
        let (_, _, whole) = fit(mode);
        // What doesn't fill a set goes with the next block.
        if whole { Duration::ZERO } else { mode.block() }
    }

    fn holds(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    fn wake(&self) -> Option<Instant> {
        let asks = (!self.is_ready()).then_some(self.asked + ASK);
        let all = asks.into_iter().chain(self.inbound.wake());
        all.chain([self.pinged + PING]).min()
    }

    fn tick(&mut self, now: Instant, heard: &mut VecDeque<Heard>) -> io::Result<()> {
        self.control.listen(now)?;
        let message = "the modem no longer answers pings";
        in_time(now, self.answered + WATCHDOG, message)?;
        if !self.is_ready() {
            let message = "the modem doesn't give control to this terminal";
            in_time(now, self.opened + READY_MAX, message)?;
        }
        if let Some(it) = self.outgoing.as_ref().filter(|it| it.stage == Stage::Waits) {
            let message = "the modem accepts no transmission";
            in_time(now, it.began + START_MAX, message)?;
        }
        let came = self.inbound.tick(now);
        self.tell(came, heard);
        if now >= self.pinged + PING {
            self.pinged = now;
            self.say(UdpPacket::Ping);
        }
        if !self.is_ready() && now >= self.asked + ASK {
            self.asked = now;
            self.say(UdpPacket::StatusRequest);
        }
        Ok(())
    }

    fn counts(&self) -> (u64, u64) {
        (self.strangers, self.refused)
    }
}
