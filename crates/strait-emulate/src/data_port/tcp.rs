//! A modem's data port over TCP (MIL-STD-188-110D A.5.1).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use strait_core::time::{Duration, Instant};
use strait_live::error::{Doing, Error};
use strait_live::ports::hf_modem::control::{ControlPort, Controlled};
use strait_live::ports::is_not_now;
use strait_wire::modem_port::{
    DATA_OCTETS_MAX, InitialSetup, ModemPacket, ModemReader, NackCause, Order, PacketId, TxState,
    TxStatus, VERSION,
};

use super::radio::{QUEUE_OCTETS_MAX, Radio};
use super::{ModemSide, Wish};

/// Octets that a program may leave unread; what comes on top of them is lost.
const PENDING_OCTETS_MAX: usize = 1 << 20;
/// How long a program's greeting, and its answer to ours, may take (A.5.1.2.1).
const GREETING_MAX: Duration = Duration::from_secs(3);
/// How long the answer to a probe may.
const PROBE_MAX: Duration = Duration::from_secs(6);
/// A sign of life goes out this often (A.5.1.2.2), and so does the state of a transmission
/// (A.5.1.2.5, step 8).
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// A program that has been silent for so long is gone.
const WATCHDOG: Duration = Duration::from_secs(30);
/// How often a full queue is looked at.
const STALL: Duration = Duration::from_millis(20);
/// The latency that a connection may have.
const LATENCY_MS_MAX: u32 = 5000;

/// The port.
pub(super) struct TcpSide {
    listener: TcpListener,
    control: Option<ControlPort>,
    stream: Option<TcpStream>,
    reader: ModemReader,
    /// What the program hasn't taken yet.
    pending: Vec<u8>,
    session: Session,
}

/// What is known of the program that is connected.
#[derive(Debug)]
struct Session {
    greeting: Greeting,
    state: TxState,
    /// Came before the start, and whether they are all.
    queued: Vec<u8>,
    whole: bool,
    /// The transmission's first packet came.
    begun: bool,
    /// The last packet of data.
    last_id: PacketId,
    /// What it was told of the carrier, and whether it takes the reception that there is.
    carrier: bool,
    aborted: bool,
    /// Octets of the reception were given.
    receives: bool,
    given: u64,
    heard: Instant,
    said: Instant,
    status_said: Instant,
    /// When the queue was found full: nothing is read until it is looked at again.
    stalled: Option<Instant>,
}

/// How far both sides have greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    /// Since when the program's greeting and its answer to ours are waited for.
    Waits {
        since: Instant,
        connected: bool,
        acknowledged: bool,
    },
    /// Since when the answer to the probe is.
    Probed(Instant),
    Done,
}

impl Session {
    fn new(now: Instant) -> Self {
        Self {
            greeting: Greeting::Waits {
                since: now,
                connected: false,
                acknowledged: false,
            },
            state: TxState::Flushed,
            queued: Vec::new(),
            whole: false,
            begun: false,
            last_id: PacketId::default(),
            carrier: false,
            aborted: false,
            receives: false,
            given: 0,
            heard: now,
            said: now,
            status_said: now,
            stalled: None,
        }
    }

    fn is_ready(&self) -> bool {
        self.greeting == Greeting::Done
    }

    fn sends(&self) -> bool {
        matches!(
            self.state,
            TxState::Started | TxState::Draining | TxState::DrainingForced
        )
    }
}

/// The connection is to end; whether the program is told of an error.
struct Ends(bool);

impl TcpSide {
    pub(super) fn open(address: SocketAddr, control: Option<SocketAddr>) -> Result<Self, Error> {
        let listen = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Ok(Self {
            listener: listen().doing(|| format!("listen at TCP {address}"))?,
            control: control.map(ControlPort::open).transpose()?,
            stream: None,
            reader: ModemReader::default(),
            pending: Vec::new(),
            session: Session::new(Instant::ZERO),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    fn say(&mut self, now: Instant, packet: &ModemPacket<'_>) {
        self.session.said = now;
        packet.emit(&mut self.pending);
    }

    fn say_status(&mut self, now: Instant, radio: &Radio) {
        let status = self.status(now, radio);
        self.session.status_said = now;
        self.say(now, &ModemPacket::TxStatus(status));
    }

    fn status(&self, now: Instant, radio: &Radio) -> TxStatus {
        let state = self.session.state;
        let queued = self.queued(now, radio);
        let free = u32::try_from(QUEUE_OCTETS_MAX.saturating_sub(queued)).unwrap_or(u32::MAX);
        let critical = radio.turn.and_then(|turn| turn.critical());
        let critical = critical.filter(|_| state == TxState::Started);
        let (critical_ms, critical_octets) = critical.map_or((0, 0), |(at, octets)| {
            let ms = u32::try_from(at.since(now).as_millis()).unwrap_or(u32::MAX);
            (ms, u32::try_from(octets).unwrap_or(u32::MAX))
        });
        TxStatus {
            queued_octets: u32::try_from(queued).unwrap_or(u32::MAX),
            critical_ms,
            critical_octets,
            ..TxStatus::of(state, free)
        }
    }

    fn queued(&self, now: Instant, radio: &Radio) -> usize {
        let on_air = radio.turn.map_or(0, |turn| turn.queued(now));
        self.session.queued.len() + usize::try_from(on_air).unwrap_or(usize::MAX)
    }

    /// Without room for the longest packet, the program's octets stay where they are (A.5.1.2.5,
    /// step 10).
    fn has_room(&self, now: Instant, radio: &Radio) -> bool {
        self.queued(now, radio) + DATA_OCTETS_MAX <= QUEUE_OCTETS_MAX
    }

    /// What the program is to know of the radio's receiver now (A.5.1.2.6).
    fn follow_carrier(&mut self, now: Instant, radio: &Radio) {
        self.session.aborted &= radio.carrier;
        let on = radio.hears() && !self.session.aborted;
        if !self.session.is_ready() {
            return;
        }
        if on != self.session.carrier {
            if !on {
                self.end_reception(now);
            }
            self.say_carrier(now, radio);
        }
        if self.session.state == TxState::ArmedNotReady && radio.can_start() {
            self.session.state = TxState::Armed;
            self.say_status(now, radio);
        }
    }

    /// The reception's last packet.
    fn end_reception(&mut self, now: Instant) {
        if std::mem::take(&mut self.session.receives) {
            self.say_data(now, Order::Last, &[]);
        }
    }

    fn say_data(&mut self, now: Instant, order: Order, octets: &[u8]) {
        self.session.given += 1;
        let mut id = PacketId::default();
        id[4..].copy_from_slice(&self.session.given.to_be_bytes());
        self.say(now, &ModemPacket::Data { order, id, octets });
    }

    fn accept(&mut self, now: Instant) {
        while let Ok((stream, _)) = self.listener.accept() {
            // A second program is turned away (A.4.1).
            let quiet = stream
                .set_nonblocking(true)
                .and_then(|()| stream.set_nodelay(true));
            if self.stream.is_none() && quiet.is_ok() {
                self.stream = Some(stream);
                self.reader.reset();
                self.pending.clear();
                self.session = Session::new(now);
                self.say(now, &ModemPacket::Connect { version: VERSION });
            }
        }
    }

    fn hang_up(&mut self, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        self.flush();
        self.stream = None;
        self.pending.clear();
        self.reader.reset();
        // Whoever keyed up is gone: the transmission ends with what there is.
        if radio.turn.is_some_and(|turn| !turn.closed) {
            radio.give(0, true);
            wishes.push(Wish::Send(Vec::new(), true));
        }
        self.session = Session::new(self.session.said);
    }

    fn take(
        &mut self,
        now: Instant,
        packet: ModemPacket<'_>,
        radio: &mut Radio,
        wishes: &mut Vec<Wish>,
    ) -> Result<(), Ends> {
        match packet {
            ModemPacket::Error => return Err(Ends(false)),
            ModemPacket::Connect { .. } | ModemPacket::ConnectAck { .. } => {
                return self.greet(now, packet);
            }
            ModemPacket::Invalid => return Err(Ends(true)),
            _ => self.session.heard = now,
        }
        match (self.session.greeting, packet) {
            (_, ModemPacket::KeepAlive) => {}
            (Greeting::Probed(at), ModemPacket::Probe) => self.introduce(now, at, radio),
            (Greeting::Waits { .. } | Greeting::Probed(_), _) => return Err(Ends(true)),
            (Greeting::Done, packet) => return self.obey(now, packet, radio, wishes),
        }
        Ok(())
    }

    /// The greetings, and the probe that follows them (A.5.1.2.1).
    fn greet(&mut self, now: Instant, packet: ModemPacket<'_>) -> Result<(), Ends> {
        let Greeting::Waits {
            since,
            mut connected,
            mut acknowledged,
        } = self.session.greeting
        else {
            return Err(Ends(true));
        };
        match packet {
            ModemPacket::Connect { version: VERSION } if !connected => {
                connected = true;
                self.say(now, &ModemPacket::ConnectAck { version: VERSION });
            }
            ModemPacket::ConnectAck { version: VERSION } if !acknowledged => acknowledged = true,
            // Another version, or a greeting too many.
            _ => return Err(Ends(false)),
        }
        self.session.greeting = Greeting::Waits {
            since,
            connected,
            acknowledged,
        };
        if connected && acknowledged {
            self.session.greeting = Greeting::Probed(now);
            self.say(now, &ModemPacket::Probe);
        }
        Ok(())
    }

    /// Says how things are, once the probe is answered.
    fn introduce(&mut self, now: Instant, probed: Instant, radio: &Radio) {
        self.session.greeting = Greeting::Done;
        let round_trip = now.since(probed).as_millis();
        let setup = InitialSetup {
            round_trip_ms: u32::try_from(round_trip).unwrap_or(u32::MAX),
            latency_ms_min: 0,
            latency_ms_max: LATENCY_MS_MAX,
            synchronous: true,
            asynchronous: [0; 4],
        };
        self.say(now, &ModemPacket::InitialSetup(setup));
        self.say_setup(now, radio);
        let flushed = TxStatus::of(TxState::Flushed, QUEUE_OCTETS_MAX as u32);
        self.say(now, &ModemPacket::TxStatus(flushed));
        self.say_carrier(now, radio);
    }

    fn say_setup(&mut self, now: Instant, radio: &Radio) {
        let setup = ModemPacket::TxSetup {
            rate_bit_s: radio.mode.rate_bit_s,
            block_bits: radio.mode.block_bits,
        };
        self.say(now, &setup);
    }

    fn say_carrier(&mut self, now: Instant, radio: &Radio) {
        let on = radio.hears() && !self.session.aborted;
        self.session.carrier = on;
        let heard = if on { radio.heard() } else { NOBODY };
        let carrier = ModemPacket::Carrier {
            on,
            rate_bit_s: heard.rate_bit_s,
            block_bits: heard.block_bits,
        };
        self.say(now, &carrier);
    }

    fn obey(
        &mut self,
        now: Instant,
        packet: ModemPacket<'_>,
        radio: &mut Radio,
        wishes: &mut Vec<Wish>,
    ) -> Result<(), Ends> {
        match packet {
            ModemPacket::Arm => {
                if self.session.state == TxState::Flushed {
                    self.session.state = match radio.can_start() {
                        true => TxState::Armed,
                        false => TxState::ArmedNotReady,
                    };
                    self.session.queued.clear();
                    (self.session.whole, self.session.begun) = (false, false);
                }
                self.say_status(now, radio);
            }
            ModemPacket::Data { order, id, octets } => {
                if let Err(cause) = self.queue(order, id, octets, radio, wishes) {
                    self.say(now, &ModemPacket::Nack { cause, id });
                } else if self.session.sends() {
                    self.say_status(now, radio);
                }
            }
            ModemPacket::Start => {
                if self.session.state == TxState::Armed {
                    self.start(now, radio, wishes);
                } else {
                    self.say_status(now, radio);
                }
            }
            ModemPacket::RequestStatus => self.say_status(now, radio),
            ModemPacket::AbortRx => {
                self.session.aborted = radio.carrier;
                self.follow_carrier(now, radio);
            }
            // The answer to a probe that nobody sent.
            ModemPacket::Probe => {}
            _ => return Err(Ends(true)),
        }
        Ok(())
    }

    /// Takes octets to send (A.5.1.1.6).
    fn queue(
        &mut self,
        order: Order,
        id: PacketId,
        octets: &[u8],
        radio: &mut Radio,
        wishes: &mut Vec<Wish>,
    ) -> Result<(), NackCause> {
        let session = &mut self.session;
        match session.state {
            TxState::Flushed | TxState::Draining => return Err(NackCause::NotArmed),
            TxState::DrainingForced => return Err(NackCause::Underrun),
            _ if order.is_first() && session.begun => return Err(NackCause::SecondFirst),
            _ if !order.is_first() && !session.begun => return Err(NackCause::NoFirst),
            // What follows the last packet belongs to no transmission.
            _ if session.whole => return Err(NackCause::NotArmed),
            _ => {}
        }
        (session.begun, session.last_id) = (true, id);
        session.whole = order.is_last();
        if session.state == TxState::Started {
            radio.give(octets.len(), session.whole);
            wishes.push(Wish::Send(octets.to_vec(), session.whole));
            if session.whole {
                session.state = TxState::Draining;
            }
        } else {
            session.queued.extend_from_slice(octets);
        }
        Ok(())
    }

    fn start(&mut self, now: Instant, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        radio.key_up(now);
        self.session.state = TxState::Started;
        let octets = std::mem::take(&mut self.session.queued);
        radio.give(octets.len(), self.session.whole);
        wishes.push(Wish::KeyUp(Some(radio.mode)));
        wishes.push(Wish::Send(octets, self.session.whole));
        // Its receiver hears nobody while it sends (A.5.1.2.7).
        self.follow_carrier(now, radio);
        self.say_status(now, radio);
        if self.session.whole {
            self.session.state = TxState::Draining;
            self.say_status(now, radio);
        }
    }

    /// A block that begins now isn't full: the transmission ends behind it (A.5.1.2.5, step 11).
    fn watch_queue(&mut self, now: Instant, radio: &mut Radio) {
        let critical = radio.turn.and_then(|turn| turn.critical());
        if self.session.state != TxState::Started || critical.is_none_or(|(at, _)| now < at) {
            return;
        }
        radio.give(0, true);
        self.session.state = TxState::DrainingForced;
        let id = self.session.last_id;
        let cause = NackCause::Underrun;
        self.say(now, &ModemPacket::Nack { cause, id });
        self.say_status(now, radio);
    }

    /// When silence of the program is too long.
    fn patience(&self) -> Instant {
        match self.session.greeting {
            Greeting::Waits { since, .. } => since + GREETING_MAX,
            Greeting::Probed(since) => since + PROBE_MAX,
            Greeting::Done => self.session.heard + WATCHDOG,
        }
    }

    /// When it has to say something, if it says nothing before.
    fn next_word(&self) -> Instant {
        let life = self.session.said + KEEP_ALIVE;
        match self.session.sends() {
            true => life.min(self.session.status_said + KEEP_ALIVE),
            false => life,
        }
    }

    fn serve_control(&mut self, now: Instant, radio: &mut Radio) {
        let told = self.control.as_mut().map(ControlPort::serve);
        for told in told.unwrap_or_default() {
            match told {
                Controlled::Set(mode) => radio.mode = mode,
                Controlled::Left => radio.reset(),
                Controlled::Taken(_) => continue,
            }
            if self.session.is_ready() {
                self.say_setup(now, radio);
                self.say_carrier(now, radio);
            }
        }
    }

    /// Reads once; `None` if the program hung up.
    fn read_once(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let Some(stream) = &mut self.stream else {
            return Some(0);
        };
        match stream.read(buffer) {
            Ok(0) => None,
            Ok(octets) => Some(octets),
            Err(error) if is_not_now(&error) => Some(0),
            Err(_) => None,
        }
    }
}

/// What is told of a carrier that isn't there.
const NOBODY: strait_core::waveform::Mode = strait_core::waveform::Mode {
    rate_bit_s: 0,
    block_bits: 0,
};

impl ModemSide for TcpSide {
    fn kind(&self) -> &'static str {
        "modem"
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let control = self.control.iter().flat_map(ControlPort::fds);
        let reads = self.session.stalled.is_none() || self.holds();
        let stream = self.stream.as_ref().filter(|_| reads).map(AsFd::as_fd);
        stream
            .into_iter()
            .chain([self.listener.as_fd()])
            .chain(control)
            .collect()
    }

    fn holds(&self) -> bool {
        !self.pending.is_empty()
    }

    fn flush(&mut self) {
        while let Some(stream) = self.stream.as_mut().filter(|_| !self.pending.is_empty()) {
            match stream.write(&self.pending) {
                Ok(written) if written > 0 => drop(self.pending.drain(..written)),
                Err(error) if is_not_now(&error) => return,
                // The next read finds it gone.
                _ => self.pending.clear(),
            }
        }
    }

    fn wake(&self, radio: &Radio) -> Option<Instant> {
        self.stream.as_ref()?;
        let started = self.session.state == TxState::Started;
        let critical = radio.turn.filter(|_| started).and_then(|it| it.critical());
        let stalled = self.session.stalled.map(|at| at + STALL);
        let all = critical.map(|it| it.0).into_iter().chain(stalled);
        all.chain([self.patience(), self.next_word()]).min()
    }

    fn tick(&mut self, now: Instant, radio: &mut Radio, wishes: &mut Vec<Wish>) {
        if self.stream.is_none() {
            return;
        }
        self.watch_queue(now, radio);
        self.session.stalled = (!self.has_room(now, radio)).then_some(now);
        if self.session.stalled.is_some() {
            // Its words stand behind octets that found no room.
            self.session.heard = now;
        }
        if now >= self.patience() {
            self.hang_up(radio, wishes);
        } else if now >= self.next_word() {
            match (self.session.is_ready(), self.session.sends()) {
                (true, true) => self.say_status(now, radio),
                (true, false) => self.say(now, &ModemPacket::KeepAlive),
                (false, _) => self.session.said = now,
            }
        }
    }

    fn read(
        &mut self,
        now: Instant,
        radio: &mut Radio,
        buffer: &mut [u8],
        wishes: &mut Vec<Wish>,
    ) -> io::Result<()> {
        self.serve_control(now, radio);
        self.accept(now);
        if self.session.stalled.is_some() {
            return Ok(());
        }
        let most = buffer.len().min(DATA_OCTETS_MAX);
        let Some(octets) = self.read_once(&mut buffer[..most]) else {
            self.hang_up(radio, wishes);
            return Ok(());
        };
        let mut reader = std::mem::take(&mut self.reader);
        let mut done = Ok(());
        reader.feed(&buffer[..octets], |packet| {
            if done.is_ok() {
                done = self.take(now, packet, radio, wishes);
            }
        });
        self.reader = reader;
        if let Err(Ends(tells)) = done {
            if tells {
                self.say(now, &ModemPacket::Error);
            }
            self.hang_up(radio, wishes);
        }
        Ok(())
    }

    fn tell_carrier(&mut self, now: Instant, radio: &Radio) {
        self.follow_carrier(now, radio);
    }

    fn tell_drained(&mut self, now: Instant, radio: &Radio) {
        if self.session.sends() {
            self.session.state = TxState::Flushed;
            if self.session.is_ready() {
                self.say_status(now, radio);
            }
        }
        self.follow_carrier(now, radio);
    }

    fn tell_octets(&mut self, now: Instant, radio: &Radio, octets: &[u8]) -> bool {
        let takes = self.session.is_ready() && radio.turn.is_none() && !self.session.aborted;
        if !takes || self.pending.len() > PENDING_OCTETS_MAX {
            return false;
        }
        for piece in octets.chunks(DATA_OCTETS_MAX) {
            let first = !std::mem::replace(&mut self.session.receives, true);
            self.say_data(now, Order::of(first, false), piece);
        }
        true
    }
}
