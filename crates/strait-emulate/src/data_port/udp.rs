//! A modem's data port in datagrams (MIL-STD-188-110D A.5.2). Who holds the connection to its
//! control has the modem: datagrams go to and come from that address and port.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use strait_core::time::{Duration, Instant};
use strait_live::error::{Doing, Error};
use strait_live::ports::hf_modem::control::{ControlPort, Controlled};
use strait_live::ports::hf_modem::transfer::{Came, Inbound, Outbound, any_number};
use strait_wire::modem_port::udp::{Datagram, Errors, Share, Status, UdpPacket, UdpTxState};

use super::radio::{QUEUE_OCTETS_MAX, Radio};
use super::{ModemSide, Wish};

/// How often the terminal is asked whether it is there (A.5.2.6.2).
const PING: Duration = Duration::from_secs(5);
/// From a terminal that hasn't answered for so long nothing is taken.
const WATCHDOG: Duration = Duration::from_secs(30);
/// A terminal that has been silent for so long in its session may have begun another one. It is
/// asked more often whether it is there.
const SESSION: Duration = Duration::from_secs(6);
/// How often the terminal hears how things are at least (A.5.2.4.1).
const STATUS: Duration = Duration::from_millis(500);
/// Blocks that start a transmission by themselves.
const BLOCKS_BEFORE_START: u32 = 3;
/// The command that ends a reception (Table A-XVI).
const ABORT: u8 = 1;
/// Packets of which the jitter is told.
const STAMPS: usize = 100;

/// The port.
pub(super) struct UdpSide {
    socket: UdpSocket,
    control: ControlPort,
    peer: Option<SocketAddr>,
    /// The session, and when the terminal was last heard in it.
    session: Option<u32>,
    heard: Instant,
    state: UdpTxState,
    errors: Errors,
    inbound: Inbound,
    /// Came before the start, and whether they are all.
    queued: Vec<u8>,
    whole: bool,
    hold_off: bool,
    /// The transmission that ended before its time: nothing more of it is taken.
    ended: Option<u16>,
    outbound: Option<Outbound>,
    /// Of receptions.
    transfers: u16,
    aborted: bool,
    lateness: Lateness,
    /// What was told last.
    told: Status,
    status_said: Instant,
    pinged: Instant,
    answered: Instant,
}

/// How late packets come against their stamps.
#[derive(Debug, Default)]
struct Lateness {
    last: Option<(i64, i64)>,
    differences: VecDeque<i64>,
}

impl Lateness {
    fn note(&mut self, now: Instant, stamp_ms: u32) {
        let came = (now.as_nanos() / 1_000_000) as i64;
        let sent = i64::from(stamp_ms);
        if let Some((last_came, last_sent)) = self.last.replace((came, sent)) {
            if self.differences.len() == STAMPS {
                self.differences.pop_front();
            }
            self.differences
                .push_back((came - last_came) - (sent - last_sent));
        }
    }

    /// The standard deviation, in milliseconds.
    fn jitter_ms(&self) -> u16 {
        let count = self.differences.len().max(1) as f64;
        let mean = self.differences.iter().sum::<i64>() as f64 / count;
        let square = |it: &i64| (*it as f64 - mean).powi(2);
        let variance = self.differences.iter().map(square).sum::<f64>() / count;
        variance.sqrt().round().min(f64::from(u16::MAX)) as u16
    }
}

impl UdpSide {
    pub(super) fn open(address: SocketAddr) -> Result<Self, Error> {
        let control = ControlPort::open(address)?;
        let bind = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(control.address()?)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: bind().doing(|| format!("listen at UDP {address}"))?,
            control,
            peer: None,
            session: None,
            heard: Instant::ZERO,
            state: UdpTxState::Flushed,
            errors: Errors::default(),
            inbound: Inbound::default(),
            queued: Vec::new(),
            whole: false,
            hold_off: false,
            ended: None,
            outbound: None,
            transfers: any_number() as u16,
            aborted: false,
            lateness: Lateness::default(),
            told: Status::default(),
            status_said: Instant::ZERO,
            pinged: Instant::ZERO,
            answered: Instant::ZERO,
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.control.address()
    }

    fn say(&self, packet: UdpPacket<'_>) {
        let Some((peer, session)) = self.peer.zip(self.session) else {
            return;
        };
        let octets = Datagram { session, packet }.emit();
        // What nobody takes is lost, as it may be on its way.
        let _ = self.socket.send_to(&octets, peer);
    }

    fn serve_control(&mut self, now: Instant, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        for told in self.control.serve() {
            match told {
                Controlled::Taken(peer) => {
                    self.begin_session(radio, wishes);
                    (self.peer, self.session) = (Some(peer), None);
                    (self.pinged, self.answered) = (now, now);
                }
                Controlled::Left => {
                    self.begin_session(radio, wishes);
                    (self.peer, self.session) = (None, None);
                    radio.reset();
                }
                Controlled::Set(mode) => radio.mode = mode,
            }
        }
    }

    /// What was under way with the terminal isn't any more.
    fn begin_session(&mut self, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        self.inbound = Inbound::default();
        (self.ended, self.outbound) = (None, None);
        self.lateness = Lateness::default();
        self.drain(radio, wishes);
    }

    /// The transmission ends with what there is.
    fn drain(&mut self, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        self.queued.clear();
        match self.state {
            UdpTxState::Started => {
                radio.give(0, true);
                wishes.push(Wish::Send(Vec::new(), true));
                self.state = UdpTxState::Draining;
            }
            UdpTxState::Queueing => self.state = UdpTxState::Flushed,
            UdpTxState::Flushed | UdpTxState::Draining => {}
        }
        self.inbound.finish(&mut Vec::new());
        self.ended = self.inbound.transfer();
    }

    fn take(&mut self, now: Instant, octets: &[u8], radio: &mut Radio, wishes: &mut Vec<Wish>) {
        let Ok(Datagram { session, packet }) = Datagram::parse(octets) else {
            return;
        };
        if self.session != Some(session) {
            // A datagram may be late, or another's.
            if self.session.is_some() && now < self.heard + SESSION {
                return;
            }
            // Another session begins anew, whatever was before (A.5.2.3, A.5.2.6.2).
            self.session = Some(session);
            self.begin_session(radio, wishes);
            self.answered = now;
        }
        self.heard = now;
        match packet {
            UdpPacket::Ping => self.say(UdpPacket::PingReply),
            UdpPacket::PingReply => self.answered = now,
            UdpPacket::StatusRequest => self.say_status(now, radio),
            UdpPacket::Command { number, command } => {
                if command == ABORT {
                    self.aborted = radio.carrier;
                    self.end_reception(now);
                }
                self.say(UdpPacket::CommandAck { number });
            }
            UdpPacket::Data(share) => self.take_share(now, &share, radio, wishes),
            // What a modem says.
            UdpPacket::Status(_) | UdpPacket::CommandAck { .. } => {}
        }
    }

    fn take_share(
        &mut self,
        now: Instant,
        share: &Share<'_>,
        radio: &mut Radio,
        wishes: &mut Vec<Wish>,
    ) {
        if self.is_deaf(now) || self.ended == Some(share.transfer) {
            return;
        }
        if self.inbound.transfer() != Some(share.transfer) && self.state == UdpTxState::Flushed {
            (self.whole, self.errors) = (false, Errors::default());
            self.lateness = Lateness::default();
        }
        self.hold_off = share.hold_off;
        self.lateness.note(now, share.stamp_ms);
        let came = self.inbound.take(now, share, radio.mode.rate_bit_s);
        self.follow(now, came, radio, wishes);
    }

    /// What came of the transmission goes to the radio.
    fn follow(&mut self, now: Instant, came: Vec<Came>, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        for came in came {
            match came {
                Came::Octets(octets) => self.queue(now, octets, radio, wishes),
                Came::Lost => return self.drain(radio, wishes),
                Came::Ended => self.whole = true,
            }
        }
        if self.state == UdpTxState::Queueing {
            self.start(now, radio, wishes);
        }
        if self.whole && self.state == UdpTxState::Started {
            radio.give(0, true);
            wishes.push(Wish::Send(Vec::new(), true));
            self.state = UdpTxState::Draining;
        }
    }

    fn queue(&mut self, now: Instant, octets: Vec<u8>, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        if self.fill(now, radio) + octets.len() > QUEUE_OCTETS_MAX {
            self.errors.tx_overrun = true;
            return self.drain(radio, wishes);
        }
        match self.state {
            UdpTxState::Started => {
                radio.give(octets.len(), false);
                wishes.push(Wish::Send(octets, false));
            }
            UdpTxState::Flushed | UdpTxState::Queueing => {
                self.state = UdpTxState::Queueing;
                self.queued.extend(octets);
            }
            UdpTxState::Draining => {}
        }
    }

    /// Begins to send, once there is enough (A.5.2.6.5).
    fn start(&mut self, now: Instant, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        let enough = self.queued.len() >= radio.mode.octets_in(BLOCKS_BEFORE_START);
        if !radio.can_start() || !(self.whole || enough && !self.hold_off) {
            return;
        }
        radio.key_up(now);
        self.end_reception(now);
        let octets = std::mem::take(&mut self.queued);
        radio.give(octets.len(), false);
        wishes.push(Wish::KeyUp(Some(radio.mode)));
        wishes.push(Wish::Send(octets, false));
        self.state = UdpTxState::Started;
    }

    /// A block that begins now isn't full: the transmission ends behind it.
    fn watch_queue(&mut self, now: Instant, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        let critical = radio.turn.and_then(|turn| turn.critical());
        if self.state == UdpTxState::Started && critical.is_some_and(|(at, _)| now >= at) {
            self.errors.tx_underrun = true;
            self.drain(radio, wishes);
        }
    }

    /// Nothing is taken from a terminal that doesn't answer (A.5.2.6.2).
    fn is_deaf(&self, now: Instant) -> bool {
        now >= self.answered + WATCHDOG
    }

    fn fill(&self, now: Instant, radio: &Radio) -> usize {
        let on_air = radio.turn.map_or(0, |turn| turn.queued(now));
        self.queued.len() + usize::try_from(on_air).unwrap_or(usize::MAX)
    }

    fn status(&self, now: Instant, radio: &Radio) -> Status {
        let fill = self.fill(now, radio);
        let free = QUEUE_OCTETS_MAX.saturating_sub(fill);
        let heard = radio.heard();
        Status {
            number: self.told.number,
            transfer: self.inbound.transfer().unwrap_or_default(),
            errors: self.errors,
            receives: self.outbound.is_some(),
            carrier: radio.hears() && !self.aborted,
            state: self.state,
            in_control: self.peer.is_some(),
            dropped: u16::try_from(self.inbound.dropped).unwrap_or(u16::MAX),
            jitter_ms: self.lateness.jitter_ms(),
            queued_octets: u32::try_from(fill).unwrap_or(u32::MAX),
            free_octets: u32::try_from(free).unwrap_or(u32::MAX),
            rx_bit_s: heard.rate_bit_s,
            rx_block_bits: heard.block_bits,
            tx_bit_s: radio.mode.rate_bit_s,
            tx_block_bits: radio.mode.block_bits,
        }
    }

    fn say_status(&mut self, now: Instant, radio: &Radio) {
        let mut status = self.status(now, radio);
        status.number = status.number.wrapping_add(1);
        (self.told, self.status_said) = (status, now);
        self.say(UdpPacket::Status(status));
    }

    /// Says how things are if they are otherwise than it said.
    fn say_news(&mut self, now: Instant, radio: &Radio) {
        if self.status(now, radio) != self.told {
            self.say_status(now, radio);
        }
    }

    fn end_reception(&mut self, now: Instant) {
        let stamp_ms = (now.as_nanos() / 1_000_000) as u32;
        if let Some(outbound) = self.outbound.take() {
            outbound.end(stamp_ms, &mut |share| self.say(UdpPacket::Data(share)));
        }
    }
}

impl ModemSide for UdpSide {
    fn kind(&self) -> &'static str {
        "modem-udp"
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.control.fds().chain([self.socket.as_fd()]).collect()
    }

    fn holds(&self) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn wake(&self, radio: &Radio) -> Option<Instant> {
        self.peer?;
        let started = self.state == UdpTxState::Started;
        let critical = radio.turn.filter(|_| started).and_then(|it| it.critical());
        let all = critical.map(|it| it.0).into_iter();
        all.chain(self.inbound.wake())
            .chain([self.status_said + STATUS, self.pinged + PING])
            .min()
    }

    fn tick(&mut self, now: Instant, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        if self.peer.is_none() {
            return;
        }
        self.watch_queue(now, radio, wishes);
        let came = self.inbound.tick(now);
        self.follow(now, came, radio, wishes);
        if self.is_deaf(now) {
            self.drain(radio, wishes);
        }
        if now >= self.pinged + PING {
            self.pinged = now;
            self.say(UdpPacket::Ping);
        }
        self.say_news(now, radio);
        if now >= self.status_said + STATUS {
            self.say_status(now, radio);
        }
    }

    fn read(
        &mut self,
        now: Instant,
        radio: &mut Radio,
        buffer: &mut [u8],
        wishes: &mut Vec<Wish>,
    ) -> io::Result<()> {
        self.serve_control(now, radio, wishes);
        // One of another address is nobody's.
        while let Ok((octets, from)) = self.socket.recv_from(buffer) {
            if self.peer == Some(from) {
                let octets = buffer[..octets].to_vec();
                self.take(now, &octets, radio, wishes);
            }
        }
        self.say_news(now, radio);
        Ok(())
    }

    fn tell_carrier(&mut self, now: Instant, radio: &Radio) {
        self.aborted &= radio.carrier;
        if !radio.carrier {
            self.end_reception(now);
        }
        self.say_news(now, radio);
    }

    fn tell_drained(&mut self, now: Instant, radio: &Radio) {
        if self.state != UdpTxState::Queueing {
            self.state = UdpTxState::Flushed;
        }
        self.say_news(now, radio);
    }

    fn tell_octets(&mut self, now: Instant, radio: &Radio, octets: &[u8]) -> bool {
        if self.session.is_none() || self.aborted || radio.turn.is_some() {
            return false;
        }
        let mut outbound = self.outbound.take().unwrap_or_else(|| {
            self.transfers = self.transfers.wrapping_add(1);
            Outbound::new(self.transfers, radio.heard, true)
        });
        let stamp_ms = (now.as_nanos() / 1_000_000) as u32;
        outbound.give(stamp_ms, octets, &mut |share| {
            self.say(UdpPacket::Data(share));
        });
        self.outbound = Some(outbound);
        self.say_news(now, radio);
        true
    }
}
