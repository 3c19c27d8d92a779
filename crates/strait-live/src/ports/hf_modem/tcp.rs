//! A modem over TCP (MIL-STD-188-110D A.5.1), as its terminal sees it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use strait_core::id::ClassId;
use strait_core::node::TxMeta;
use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_node::config::HfModem;
use strait_wire::modem_port::{
    DATA_OCTETS_MAX, ModemPacket, ModemReader, Order, PacketId, TxState, TxStatus, VERSION,
};

use super::control::Control;
use super::{Heard, Modem, START_MAX, WATCHDOG, in_time};
use crate::error::Error;
use crate::ports::tcp_line::TcpLine;
use crate::ports::{PortIo, Received};

/// How long the other side's greeting, and its answer to ours, may take (A.5.1.2.1).
const GREETING_MAX: Duration = Duration::from_secs(3);
/// From the greeting to what the modem tells of itself. The standard has a limit for the modem
/// only.
const SETUP_MAX: Duration = Duration::from_secs(10);
/// A terminal that has nothing to say gives a sign of life this often.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// A start that the modem doesn't follow is said again after this (A.5.1.2.5, step 7).
const START_AGAIN: Duration = Duration::from_millis(10);
/// An arming that the modem doesn't follow is (A.5.1.2.5, step 3).
const ARM_AGAIN: Duration = Duration::from_millis(100);

/// The modem.
pub(super) struct TcpModem {
    config: HfModem,
    line: TcpLine,
    control: Option<Control>,
    reader: ModemReader,
    greeting: Greeting,
    /// What it sends by, as far as it said.
    mode: Option<Mode>,
    carrier: bool,
    /// The rate of the transmission that it told of last.
    heard_bit_s: Option<u32>,
    outgoing: Option<Outgoing>,
    /// Packets of data so far.
    sent: u64,
    refused: u64,
    heard: Instant,
    said: Instant,
}

/// How far both sides have greeted.
#[derive(Clone, Copy, Debug, Default)]
struct Greeting {
    began: Instant,
    connected: bool,
    acknowledged: bool,
    set_up: bool,
    /// The transmitter was idle, as it is to begin with.
    ready: bool,
}

/// A transmission.
#[derive(Debug)]
struct Outgoing {
    mode: Mode,
    stage: Stage,
    since: Instant,
    /// Octets that the modem wasn't given, whether they are the last, and whether it knows.
    waiting: Vec<u8>,
    whole: bool,
    closed: bool,
    /// Octets that it was given.
    given: usize,
    needs: Option<(Instant, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The modem is to change its waveform.
    Setting,
    /// To be armed, as soon as it is idle.
    Idle,
    /// It was told to arm, and is again then.
    Arming(Instant),
    /// It takes octets; whether it can start.
    Armed(bool),
    /// It was told to start, and is again then.
    Starting(Instant),
    Started,
    /// All octets were given, or are refused.
    Ending,
}

impl TcpModem {
    pub(super) fn new(config: HfModem) -> Self {
        Self {
            line: TcpLine::new(config.address),
            control: config.control.map(Control::new),
            config,
            reader: ModemReader::default(),
            greeting: Greeting::default(),
            mode: None,
            carrier: false,
            heard_bit_s: None,
            outgoing: None,
            sent: 0,
            refused: 0,
            heard: Instant::ZERO,
            said: Instant::ZERO,
        }
    }

    fn say(&mut self, now: Instant, packets: &[ModemPacket<'_>]) -> io::Result<()> {
        let mut octets = Vec::new();
        packets.iter().for_each(|packet| packet.emit(&mut octets));
        self.said = now;
        let meta = TxMeta::to_peer(ClassId(0));
        self.line.transmit(now, &meta, &octets).map(|_| ())
    }

    /// What the protocol doesn't have is told as such, and ends the connection (A.5.1.2.3).
    fn reject(&mut self, now: Instant, why: &str) -> io::Error {
        let _ = self.say(now, &[ModemPacket::Error]);
        broken(why)
    }

    fn take(
        &mut self,
        now: Instant,
        packet: ModemPacket<'_>,
        heard: &mut VecDeque<Heard>,
    ) -> io::Result<()> {
        let is_data = !matches!(
            packet,
            ModemPacket::Connect { .. }
                | ModemPacket::ConnectAck { .. }
                | ModemPacket::Error
                | ModemPacket::Invalid
        );
        if is_data {
            self.heard = now;
        }
        match packet {
            ModemPacket::Connect { version } if !self.greeting.connected => {
                known(version)?;
                self.greeting.connected = true;
                self.say(now, &[ModemPacket::ConnectAck { version }])
            }
            ModemPacket::ConnectAck { version } if !self.greeting.acknowledged => {
                known(version)?;
                self.greeting.acknowledged = true;
                Ok(())
            }
            ModemPacket::KeepAlive => Ok(()),
            ModemPacket::Error => Err(broken("the modem reports an error in its input")),
            _ if !self.has_greeted() => {
                Err(self.reject(now, "the modem sent something before its greeting"))
            }
            ModemPacket::Probe => self.say(now, &[ModemPacket::Probe]),
            ModemPacket::InitialSetup(setup) if !setup.carries_octets() => Err(broken(
                "the modem's data port is asynchronous with less than 8 data bits: set it to \
                 synchronous",
            )),
            ModemPacket::InitialSetup(_) => {
                self.greeting.set_up = true;
                Ok(())
            }
            ModemPacket::TxSetup {
                rate_bit_s,
                block_bits,
            } => {
                self.set_up(Mode {
                    rate_bit_s,
                    block_bits,
                });
                self.proceed(now)
            }
            ModemPacket::TxStatus(status) => self.follow(now, status, heard),
            ModemPacket::Nack { .. } => {
                self.refused += 1;
                self.stop_giving(heard);
                Ok(())
            }
            ModemPacket::Carrier { on, rate_bit_s, .. } => {
                if on && rate_bit_s > 0 {
                    self.heard_bit_s = Some(rate_bit_s);
                }
                self.carrier = on;
                heard.push_back(Heard::Carrier(on));
                Ok(())
            }
            ModemPacket::Data { octets, .. } => {
                if !octets.is_empty() {
                    heard.push_back(Heard::Octets(octets.to_vec(), self.heard_bit_s));
                }
                Ok(())
            }
            _ => Err(self.reject(now, "the modem sent a message that only terminals send")),
        }
    }

    fn set_up(&mut self, mode: Mode) {
        let known = self.mode.replace(mode);
        let own = self.config.mode;
        if self.config.control.is_none() && mode != own && known != Some(mode) {
            tracing::warn!(
                modem_bit_s = mode.rate_bit_s,
                modem_block_bits = mode.block_bits,
                rate_bit_s = own.rate_bit_s,
                block_bits = own.block_bits,
                "the modem sends by another waveform than that of the node file"
            );
        }
    }

    /// The transmitter's state.
    fn follow(
        &mut self,
        now: Instant,
        status: TxStatus,
        heard: &mut VecDeque<Heard>,
    ) -> io::Result<()> {
        let state = status.state;
        self.greeting.ready |= state == TxState::Flushed;
        let Some(outgoing) = &mut self.outgoing else {
            return Ok(());
        };
        let needs = Duration::from_millis(status.critical_ms.into());
        outgoing.needs = (status.critical_octets > 0).then(|| {
            let octets = usize::try_from(status.critical_octets).unwrap_or(usize::MAX);
            (now + needs, outgoing.given.saturating_add(octets))
        });
        let next = match (outgoing.stage, state) {
            (Stage::Arming(_) | Stage::Armed(_) | Stage::Starting(_), TxState::ArmedNotReady) => {
                Some(Stage::Armed(false))
            }
            (Stage::Arming(_) | Stage::Armed(_), TxState::Armed) => Some(Stage::Armed(true)),
            (Stage::Starting(_), TxState::Started | TxState::Draining) => Some(Stage::Started),
            (
                Stage::Armed(_) | Stage::Starting(_) | Stage::Started | Stage::Ending,
                TxState::Flushed,
            ) => {
                self.outgoing = None;
                heard.push_back(Heard::Over);
                return Ok(());
            }
            (Stage::Starting(_) | Stage::Started, TxState::DrainingForced) => Some(Stage::Ending),
            _ => None,
        };
        if let Some(next) = next.filter(|next| *next != outgoing.stage) {
            if next == Stage::Started {
                heard.push_back(Heard::Started);
            }
            (outgoing.stage, outgoing.since) = (next, now);
        }
        self.proceed(now)
    }

    /// Octets were refused: no others are given.
    fn stop_giving(&mut self, heard: &mut VecDeque<Heard>) {
        let Some(outgoing) = &mut self.outgoing else {
            return;
        };
        match outgoing.stage {
            Stage::Started | Stage::Starting(_) | Stage::Ending => {
                outgoing.stage = Stage::Ending;
                outgoing.waiting.clear();
            }
            _ => {
                self.outgoing = None;
                heard.push_back(Heard::Over);
            }
        }
    }

    /// Says what is to be said next for the transmission.
    fn proceed(&mut self, now: Instant) -> io::Result<()> {
        let Some(outgoing) = &mut self.outgoing else {
            return Ok(());
        };
        if outgoing.stage == Stage::Setting && self.mode == Some(outgoing.mode) {
            (outgoing.stage, outgoing.since) = (Stage::Idle, now);
        }
        let again = matches!(outgoing.stage, Stage::Arming(at) if now >= at);
        if outgoing.stage == Stage::Idle || again {
            outgoing.stage = Stage::Arming(now + ARM_AGAIN);
            return self.say(now, &[ModemPacket::Arm]);
        }
        if matches!(
            outgoing.stage,
            Stage::Armed(_) | Stage::Starting(_) | Stage::Started
        ) {
            self.give(now)?;
        }
        self.start(now)
    }

    /// Gives the modem what waits.
    fn give(&mut self, now: Instant) -> io::Result<()> {
        let Some(outgoing) = &mut self.outgoing else {
            return Ok(());
        };
        let octets = std::mem::take(&mut outgoing.waiting);
        let (mut rest, mut packets) = (&octets[..], Vec::new());
        while !rest.is_empty() || outgoing.whole && !outgoing.closed {
            let (piece, later) = rest.split_at(rest.len().min(DATA_OCTETS_MAX));
            rest = later;
            outgoing.closed = outgoing.whole && rest.is_empty();
            self.sent += 1;
            packets.push(ModemPacket::Data {
                order: Order::of(outgoing.given == 0, outgoing.closed),
                id: number(self.sent),
                octets: piece,
            });
            outgoing.given += piece.len();
        }
        if packets.is_empty() {
            return Ok(());
        }
        self.say(now, &packets)
    }

    /// Starts it, as soon as the modem has enough.
    fn start(&mut self, now: Instant) -> io::Result<()> {
        let Some(outgoing) = &mut self.outgoing else {
            return Ok(());
        };
        let enough = outgoing.mode.octets_in(self.config.start_blocks);
        let due = match outgoing.stage {
            Stage::Armed(true) => outgoing.closed || outgoing.given >= enough,
            Stage::Starting(at) => now >= at,
            _ => false,
        };
        if !due {
            return Ok(());
        }
        if outgoing.stage == Stage::Armed(true) {
            outgoing.since = now;
        }
        outgoing.stage = Stage::Starting(now + START_AGAIN);
        self.say(now, &[ModemPacket::Start])
    }

    /// When silence of the modem is too long.
    fn patience(&self) -> Instant {
        let greeting = &self.greeting;
        match (self.has_greeted(), self.is_ready()) {
            (false, _) => greeting.began + GREETING_MAX,
            (true, false) => greeting.began + SETUP_MAX,
            (true, true) => self.heard + WATCHDOG,
        }
    }

    const fn has_greeted(&self) -> bool {
        self.greeting.connected && self.greeting.acknowledged
    }

    /// An error if something takes too long.
    fn watch(&self, now: Instant) -> io::Result<()> {
        let message = match self.greeting.set_up {
            true => "the modem has become silent",
            false => "the modem's greeting isn't that of MIL-STD-188-110D Appendix A",
        };
        in_time(now, self.patience(), message)?;
        let waits = |it: &&Outgoing| !matches!(it.stage, Stage::Started | Stage::Ending);
        match self.outgoing.as_ref().filter(waits) {
            Some(it) if !self.carrier => {
                in_time(now, it.since + START_MAX, "the modem doesn't arm and start")
            }
            _ => Ok(()),
        }
    }
}

/// A number that no other packet has.
fn number(sent: u64) -> PacketId {
    let mut id = PacketId::default();
    id[4..].copy_from_slice(&sent.to_be_bytes());
    id
}

fn known(version: u8) -> io::Result<()> {
    match version {
        VERSION => Ok(()),
        other => Err(broken(&format!(
            "the modem's data port is of version {other}, not {VERSION}"
        ))),
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Modem for TcpModem {
    fn open(&mut self, now: Instant) -> Result<(), Error> {
        if let Some(control) = &mut self.control {
            control.open(now)?;
        }
        self.line.open(now)?;
        self.reader.reset();
        self.greeting = Greeting {
            began: now,
            ..Greeting::default()
        };
        (self.mode, self.outgoing, self.heard_bit_s) = (None, None, None);
        (self.heard, self.carrier) = (now, false);
        // A connection that is lost at once shows itself to the next read.
        let _ = self.say(now, &[ModemPacket::Connect { version: VERSION }]);
        Ok(())
    }

    fn is_opening(&self) -> bool {
        let control = self.control.as_ref();
        self.line.is_opening() || control.is_some_and(Control::is_opening)
    }

    fn close(&mut self) {
        self.line.close();
        self.outgoing = None;
        self.greeting = Greeting::default();
        if let Some(control) = &mut self.control {
            control.close();
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.fd()
    }

    fn is_ready(&self) -> bool {
        self.greeting.set_up && self.greeting.ready
    }

    fn read(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        heard: &mut VecDeque<Heard>,
    ) -> io::Result<bool> {
        let Received::Frame { octets, .. } = self.line.receive(now, buffer)? else {
            return Ok(false);
        };
        let mut reader = std::mem::take(&mut self.reader);
        let mut done = Ok(());
        reader.feed(&buffer[..octets], |packet| {
            if done.is_ok() {
                done = self.take(now, packet, heard);
            }
        });
        self.reader = reader;
        done.map(|()| true)
    }

    fn begin(&mut self, now: Instant, mode: Mode) -> io::Result<()> {
        let mut stage = Stage::Idle;
        if let Some(control) = &mut self.control {
            control.listen(now)?;
            if control.is_ours() && self.mode != Some(mode) {
                control.set(now, mode)?;
                stage = Stage::Setting;
            }
        }
        self.outgoing = Some(Outgoing {
            mode,
            stage,
            since: now,
            waiting: Vec::new(),
            whole: false,
            closed: false,
            given: 0,
            needs: None,
        });
        self.proceed(now)
    }

    fn send(&mut self, now: Instant, octets: &[u8], last: bool) -> io::Result<()> {
        let Some(outgoing) = &mut self.outgoing else {
            return Ok(());
        };
        if outgoing.stage != Stage::Ending {
            outgoing.waiting.extend_from_slice(octets);
            outgoing.whole |= last;
        }
        self.proceed(now)
    }

    fn needs(&self) -> Option<(Instant, usize)> {
        self.outgoing.as_ref()?.needs
    }

    fn holds_back(&self, _mode: Mode) -> Duration {
        Duration::ZERO
    }

    fn holds(&self) -> bool {
        self.line.holds()
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.line.flush(now)
    }

    fn wake(&self) -> Option<Instant> {
        let again = match self.outgoing.as_ref().map(|it| it.stage) {
            Some(Stage::Arming(at) | Stage::Starting(at)) => Some(at),
            _ => None,
        };
        let life = self.is_ready().then_some(self.said + KEEP_ALIVE);
        let all = again.into_iter().chain(life);
        all.chain([self.patience()]).min()
    }

    fn tick(&mut self, now: Instant, _heard: &mut VecDeque<Heard>) -> io::Result<()> {
        self.watch(now)?;
        if self.is_ready() && now >= self.said + KEEP_ALIVE {
            if let Some(control) = &mut self.control {
                control.listen(now)?;
            }
            self.say(now, &[ModemPacket::KeepAlive])?;
        }
        self.proceed(now)
    }

    fn counts(&self) -> (u64, u64) {
        (self.reader.dropped, self.refused)
    }
}
