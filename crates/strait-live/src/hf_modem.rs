//! A port over an HF modem with a data port (MIL-STD-188-110D Appendix A) over TCP, or with the
//! same packets in datagrams, where what one of them says may get lost.
//!
//! The node plans its turns. This arms the modem, starts it, and asks the node for each block's
//! octets shortly before the modem needs them, by the times of the configuration: the modem itself
//! would take all at once, and nothing could go before them any more.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use strait_core::id::{ClassId, NeighbourId};
use strait_core::node::{FrameMeta, PortEvent, PortState, Room, TxMeta};
use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_node::config::{HfModem, ModemTransport};
use strait_wire::modem_port::{
    DATA_OCTETS_MAX, DATAGRAM_DATA_MAX, ModemPacket, ModemReader, Order, TxState, VERSION,
};

use crate::error::Error;
use crate::port_io::{IoCounts, PortIo, Received, Sent};
use crate::tcp_line::TcpLine;
use crate::udp_line::UdpLine;

/// A modem as a port.
pub(crate) struct ModemPort {
    config: HfModem,
    line: Box<dyn PortIo>,
    reader: ModemReader,
    /// What the modem said that the node hasn't been told: a read's worth at most.
    came: VecDeque<Came>,
    /// The modem has greeted, and takes commands.
    ready: bool,
    carrier: bool,
    /// The rate of the transmission that it told of last, and of the octets that were given last.
    heard_bit_s: Option<u32>,
    given_bit_s: Option<u32>,
    turn: Option<Sending>,
    counts: IoCounts,
    heard: Instant,
    said: Instant,
}

/// A modem that has been silent for so long is gone.
const WATCHDOG: Duration = Duration::from_secs(30);
/// A terminal that has nothing to say gives a sign of life this often.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// How old a transmission is at least of which datagrams say that it isn't under way.
const UNDER_WAY: Duration = Duration::from_secs(1);

enum Came {
    /// By which rate, as far as the modem said.
    Octets(Vec<u8>, Option<u32>),
    Event(PortEvent),
}

/// A turn under way.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// When its first block begins, as far as known.
    data: Instant,
    mode: Mode,
    blocks: u32,
    octets: usize,
    began: Instant,
    /// The modem said that it began.
    told: bool,
}

impl ModemPort {
    /// A port that isn't open yet.
    pub(crate) fn new(config: HfModem) -> Self {
        Self {
            line: match config.transport {
                ModemTransport::Tcp => Box::new(TcpLine::new(config.address)),
                ModemTransport::Udp => Box::new(UdpLine::new(config.address, hello())),
            },
            config,
            reader: ModemReader::default(),
            came: VecDeque::new(),
            ready: false,
            carrier: false,
            heard_bit_s: None,
            given_bit_s: None,
            turn: None,
            counts: IoCounts::default(),
            heard: Instant::ZERO,
            said: Instant::ZERO,
        }
    }

    fn in_datagrams(&self) -> bool {
        self.config.transport == ModemTransport::Udp
    }

    fn forget(&mut self) {
        self.reader.reset();
        self.came.clear();
        (self.ready, self.carrier, self.turn) = (false, false, None);
    }

    fn say(&mut self, now: Instant, packets: &[u8]) -> io::Result<()> {
        let meta = TxMeta::to_peer(ClassId(0));
        self.said = now;
        self.line.transmit(now, &meta, packets).map(|_| ())
    }

    /// Takes what the modem said, and answers what it asks.
    fn take(&mut self, now: Instant, octets: &[u8]) -> io::Result<()> {
        let mut answers = Vec::new();
        let in_datagrams = self.in_datagrams();
        self.heard = now;
        let Self {
            reader,
            came,
            ready,
            carrier,
            heard_bit_s,
            turn,
            counts,
            ..
        } = self;
        let fed = reader.feed(octets, |packet| match packet {
            ModemPacket::Connect { version } => {
                ModemPacket::ConnectAck { version }.emit(&mut answers);
            }
            ModemPacket::Probe | ModemPacket::KeepAlive => packet.emit(&mut answers),
            ModemPacket::InitialSetup { .. } => *ready = true,
            ModemPacket::Carrier { on, rate_bit_s, .. } => {
                if on && rate_bit_s > 0 {
                    *heard_bit_s = Some(rate_bit_s);
                }
                if on != *carrier {
                    *carrier = on;
                    came.push_back(Came::Event(PortEvent::Carrier(on)));
                }
            }
            ModemPacket::RxData { octets, .. } => {
                came.push_back(Came::Octets(octets.to_vec(), *heard_bit_s));
            }
            ModemPacket::TxStatus {
                state: TxState::Started,
                ..
            } => turn.iter_mut().for_each(|turn| turn.told = true),
            ModemPacket::TxStatus { state, .. }
                if turn.is_some_and(|turn| turn.is_over(state, now, in_datagrams)) =>
            {
                *turn = None;
                came.push_back(Came::Event(PortEvent::Drained));
            }
            ModemPacket::Nack { .. } | ModemPacket::Error { .. } => counts.refused += 1,
            _ => {}
        });
        match fed {
            // The next datagram begins with a packet again.
            Err(_) if in_datagrams => {
                self.counts.strangers += 1;
                self.reader.reset();
            }
            Err(error) => {
                let message = error.to_string();
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            Ok(()) if in_datagrams => self.reader.reset(),
            Ok(()) => {}
        }
        if !answers.is_empty() {
            self.say(now, &answers)?;
        }
        Ok(())
    }

    fn next(&mut self, buffer: &mut [u8]) -> Option<Received> {
        Some(match self.came.pop_front()? {
            Came::Event(event) => Received::Event(event),
            Came::Octets(came, heard_bit_s) => {
                self.given_bit_s = heard_bit_s;
                let octets = came.len().min(buffer.len());
                buffer[..octets].copy_from_slice(&came[..octets]);
                Received::Frame {
                    from: NeighbourId::PEER,
                    octets,
                }
            }
        })
    }

    /// Begins a turn.
    fn key_up(&self, now: Instant, meta: &TxMeta, octets: usize, out: &mut Vec<u8>) -> Sending {
        let asked = meta.turn.and_then(|turn| turn.mode);
        let possible = |mode: &Mode| mode.block_bits > 0 && mode.rate_bit_s > 0;
        let mode = asked.filter(possible).unwrap_or(self.config.mode);
        let planned = meta.turn.map(|turn| turn.blocks);
        let blocks = planned.unwrap_or_else(|| mode.blocks_for(octets));
        ModemPacket::Arm.emit(out);
        let setup = ModemPacket::TxSetup {
            rate_bit_s: mode.rate_bit_s,
            block_bits: mode.block_bits,
        };
        setup.emit(out);
        ModemPacket::Start.emit(out);
        Sending {
            data: now + self.config.lead_in,
            mode,
            blocks: blocks.max(1),
            octets: 0,
            began: now,
            told: false,
        }
    }
}

/// What a terminal begins with.
fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    ModemPacket::Connect { version: VERSION }.emit(&mut hello);
    hello
}

impl Sending {
    /// Whether a status says that it is over. In datagrams one may be of before the transmission,
    /// and what began it may have got lost.
    fn is_over(&self, state: TxState, now: Instant, in_datagrams: bool) -> bool {
        let old = now >= self.began + UNDER_WAY;
        match state {
            TxState::Flushed => !in_datagrams || self.told || old,
            TxState::Armed => in_datagrams && old,
            _ => false,
        }
    }

    const fn limit(&self) -> usize {
        self.mode.octets_in(self.blocks)
    }

    fn at(&self, bits: u64) -> Instant {
        self.data + self.mode.time_of_bits(bits)
    }
}

impl PortIo for ModemPort {
    fn open(&mut self, now: Instant) -> Result<PortState, Error> {
        self.line.open(now)?;
        self.forget();
        (self.heard, self.said) = (now, now);
        if !self.in_datagrams() {
            // A connection that is lost at once shows itself to the next read.
            let _ = self.say(now, &hello());
        }
        let mode = self.config.mode;
        let longest = mode.octets_in(self.config.blocks_max);
        Ok(PortState {
            tx_rate: mode.line_rate(),
            rx_rate: mode.line_rate(),
            frame_octets_max: u32::try_from(longest).unwrap_or(u32::MAX),
            block: mode.block(),
            latency: self.config.decode,
        })
    }

    fn close(&mut self) {
        self.line.close();
        self.forget();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.fd()
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        if !self.ready || self.line.holds() {
            return Err(None);
        }
        let Some(turn) = &self.turn else {
            return Ok(Room {
                octets: self.config.mode.octets_in(self.config.blocks_max),
                starts: now + self.config.lead_in,
                until: None,
            });
        };
        if turn.octets >= turn.limit() {
            return Err(None);
        }
        let block_bits = u64::from(turn.mode.block_bits);
        let block = turn.octets as u64 * 8 / block_bits;
        let load = turn.at(block * block_bits) - self.config.ahead;
        if now < load {
            return Err(Some(load));
        }
        Ok(Room {
            octets: turn.limit() - turn.octets,
            starts: turn.at(turn.octets as u64 * 8),
            until: Some(turn.at(u64::from(turn.blocks) * block_bits)),
        })
    }

    fn transmit(&mut self, now: Instant, meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let mut out = Vec::new();
        let begins = self.turn.is_none();
        let mut turn = match self.turn {
            Some(turn) => turn,
            None => self.key_up(now, meta, octets.len(), &mut out),
        };
        let room = turn.limit().saturating_sub(turn.octets);
        let mut octets = octets[..octets.len().min(room)].to_vec();
        if meta.turn.is_none_or(|turn| turn.last) {
            // The turn has the length that was announced.
            octets.resize(room, 0);
        }
        let (mut first, mut left) = (begins, octets.len());
        let most = match self.config.transport {
            ModemTransport::Tcp => DATA_OCTETS_MAX,
            ModemTransport::Udp => DATAGRAM_DATA_MAX,
        };
        for piece in octets.chunks(most) {
            left -= piece.len();
            let last = left == 0 && octets.len() == room;
            let data = ModemPacket::TxData {
                order: Order::of(first, last),
                octets: piece,
            };
            data.emit(&mut out);
            first = false;
        }
        turn.octets += octets.len();
        self.turn = Some(turn);
        self.say(now, &out)?;
        Ok(Sent::Taken)
    }

    fn holds(&self) -> bool {
        self.line.holds()
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.line.flush(now)
    }

    fn drained(&mut self, now: Instant) -> bool {
        self.turn.is_none() && self.line.drained(now)
    }

    fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(received) = self.next(buffer) {
            return Ok(received);
        }
        let Received::Frame { octets, .. } = self.line.receive(now, buffer)? else {
            return Ok(Received::Nothing);
        };
        let said = buffer[..octets].to_vec();
        self.take(now, &said)?;
        Ok(self.next(buffer).unwrap_or(Received::Skipped))
    }

    fn wake(&self) -> Option<Instant> {
        let speaks = self.ready || self.in_datagrams();
        let life = speaks.then_some(self.said + KEEP_ALIVE);
        life.into_iter().chain([self.heard + WATCHDOG]).min()
    }

    fn tick(&mut self, now: Instant) -> io::Result<()> {
        if now >= self.heard + WATCHDOG {
            let kind = io::ErrorKind::TimedOut;
            return Err(io::Error::new(kind, "the modem says nothing any more"));
        }
        if now < self.said + KEEP_ALIVE {
            return Ok(());
        }
        let mut life = Vec::new();
        match (self.ready, self.in_datagrams()) {
            // A modem that has much to tell asks for none, and takes who is silent as gone.
            (true, _) => ModemPacket::KeepAlive.emit(&mut life),
            (false, true) => life = hello(),
            (false, false) => return Ok(()),
        }
        self.say(now, &life)
    }

    fn meta(&self) -> FrameMeta {
        FrameMeta {
            rate_bit_s: self.given_bit_s,
            ..FrameMeta::default()
        }
    }

    fn counts(&self) -> IoCounts {
        self.counts
    }
}

#[cfg(test)]
#[path = "hf_modem_tests.rs"]
mod tests;
