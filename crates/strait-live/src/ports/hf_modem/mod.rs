//! A port over an HF modem with a LAN data port (MIL-STD-188-110D Appendix A): the terminal's side,
//! over TCP or in datagrams.
//!
//! The node plans its turns. This arms the modem, gives it three blocks, starts it, and asks the
//! node for each other block's octets shortly before the modem needs them, by the times of the
//! configuration: the modem itself would take all at once, and nothing could go before them any
//! more.

pub mod control;
mod tcp;
pub mod transfer;
mod udp;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use strait_core::id::NeighbourId;
use strait_core::id::Neighbours;
use strait_core::node::{FrameMeta, PortEvent, PortState, Room, TxMeta};
use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_node::config::{HfModem, ModemTransport};

use self::tcp::TcpModem;
use self::udp::UdpModem;
use crate::error::{Doing, Error};
use crate::ports::{IoCounts, PortIo, Received, Sent};

/// A modem as a port.
pub(crate) struct ModemPort {
    config: HfModem,
    modem: Box<dyn Modem>,
    /// What the modem said that the node hasn't been told: a read's worth at most.
    heard: VecDeque<Heard>,
    carrier: bool,
    /// The rate of the octets that were given last.
    given_bit_s: Option<u32>,
    turn: Option<Sending>,
    /// Whether the modem has ever been ready since it was opened, and when to try again if not.
    was_ready: bool,
    failures: u32,
    not_before: Instant,
    problem: String,
    counts: IoCounts,
}

/// How long the node may take to give all that it has for them.
const GATHERING: Duration = Duration::from_millis(10);
/// Pauses before a modem that lets nobody in is tried again: a second at first, twice as long each
/// time, and so many different ones.
const PAUSES: u32 = 5;

/// A modem that has been silent for so long is gone (A.5.1.2.2, A.5.2.6.2).
const WATCHDOG: Duration = Duration::from_secs(30);
/// How long a modem that hears nobody may take to change its waveform, and to begin.
const START_MAX: Duration = Duration::from_secs(10);

/// An error from a moment on.
fn in_time(now: Instant, until: Instant, message: &str) -> io::Result<()> {
    if now < until {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// What a modem said.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// Others' power is there, or gone.
    Carrier(bool),
    /// By which rate, as far as the modem said.
    Octets(Vec<u8>, Option<u32>),
    /// The transmission has begun.
    Started,
    /// It is over, or comes to nothing.
    Over,
}

/// How a modem is talked to.
trait Modem {
    /// Begins to talk; all that was said before is forgotten.
    fn open(&mut self, now: Instant) -> Result<(), Error>;

    /// An `open` that failed goes on: the next one finds out what came of it.
    fn is_opening(&self) -> bool;

    fn close(&mut self);

    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// It takes transmissions.
    fn is_ready(&self) -> bool;

    /// Takes what it said; false if there was nothing to read.
    fn read(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        heard: &mut VecDeque<Heard>,
    ) -> io::Result<bool>;

    /// A transmission by this mode, as far as the modem can be told.
    fn begin(&mut self, now: Instant, mode: Mode) -> io::Result<()>;

    /// Its octets; whether they are the last.
    fn send(&mut self, now: Instant, octets: &[u8], last: bool) -> io::Result<()>;

    /// By when the modem needs more, and up to how many octets of the transmission in all.
    fn needs(&self) -> Option<(Instant, usize)>;

    /// How much earlier than a block begins its octets have to go, beyond what a LAN takes.
    fn holds_back(&self, mode: Mode) -> Duration;

    fn holds(&self) -> bool;

    fn flush(&mut self, now: Instant) -> io::Result<()>;

    fn wake(&self) -> Option<Instant>;

    fn tick(&mut self, now: Instant, heard: &mut VecDeque<Heard>) -> io::Result<()>;

    /// Packets that were none, and data that the modem refused.
    fn counts(&self) -> (u64, u64);
}

/// A turn under way.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// When its first block begins, as far as known.
    data: Instant,
    mode: Mode,
    blocks: u32,
    /// Blocks that the modem is given before it starts.
    start_blocks: u32,
    octets: usize,
    keyed: Instant,
    /// The node had nothing for a block: the transmission ends before it.
    ended: bool,
}

impl ModemPort {
    /// A port that isn't open yet.
    pub(crate) fn new(config: HfModem) -> Self {
        Self {
            modem: match config.transport {
                ModemTransport::Tcp => Box::new(TcpModem::new(config)),
                ModemTransport::Udp => Box::new(UdpModem::new(config)),
            },
            config,
            heard: VecDeque::new(),
            carrier: false,
            given_bit_s: None,
            turn: None,
            was_ready: false,
            failures: 0,
            not_before: Instant::ZERO,
            problem: String::new(),
            counts: IoCounts::default(),
        }
    }

    fn forget(&mut self) {
        self.heard.clear();
        (self.carrier, self.turn) = (false, None);
    }

    /// A modem that isn't there, or hangs up before it is ready, is left alone for longer each
    /// time.
    fn pause(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + Duration::from_secs(1 << (self.failures.min(PAUSES) - 1));
    }

    fn opened(&mut self, now: Instant) -> Result<(), Error> {
        if now >= self.not_before {
            let Err(error) = self.modem.open(now) else {
                return Ok(());
            };
            self.problem = error.to_string();
            // A modem that lets us in hangs up if it isn't greeted soon.
            if !self.modem.is_opening() {
                self.pause(now);
            }
        }
        let problem = io::Error::other(self.problem.clone());
        Err(problem).doing(|| format!("use the modem at {}", self.config.address))
    }

    /// What of the modem's words concerns the node.
    fn next(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Received> {
        loop {
            match self.heard.pop_front()? {
                Heard::Carrier(on) if on == self.carrier => {}
                Heard::Carrier(on) => {
                    self.carrier = on;
                    return Some(Received::Event(PortEvent::Carrier(on)));
                }
                Heard::Octets(came, heard_bit_s) => {
                    self.given_bit_s = heard_bit_s;
                    let octets = came.len().min(buffer.len());
                    buffer[..octets].copy_from_slice(&came[..octets]);
                    let from = NeighbourId::PEER;
                    return Some(Received::Frame { from, octets });
                }
                Heard::Started => {
                    if let Some(turn) = &mut self.turn {
                        turn.data = turn.data.max(now + self.config.lead_in);
                    }
                }
                Heard::Over if self.turn.take().is_some() => {
                    return Some(Received::Event(PortEvent::Drained));
                }
                Heard::Over => {}
            }
        }
    }

    /// The modem's state after it has been heard or has had time.
    fn settle(&mut self, now: Instant, done: io::Result<()>) -> io::Result<()> {
        if self.modem.is_ready() {
            (self.was_ready, self.failures) = (true, 0);
        }
        done.inspect_err(|error| {
            if !self.was_ready {
                self.problem = error.to_string();
                self.pause(now);
            }
        })
    }

    /// Begins a turn.
    fn key_up(&self, now: Instant, meta: &TxMeta, octets: usize) -> Sending {
        let asked = meta.turn.and_then(|turn| turn.mode);
        let possible = |mode: &Mode| mode.block_bits > 0 && mode.rate_bit_s > 0;
        let mode = asked.filter(possible).unwrap_or(self.config.mode);
        let planned = meta.turn.map(|turn| turn.blocks);
        let blocks = planned.unwrap_or_else(|| mode.blocks_for(octets));
        Sending {
            data: now + self.config.lead_in,
            mode,
            blocks: blocks.max(1),
            start_blocks: self.config.start_blocks,
            octets: 0,
            keyed: now,
            ended: false,
        }
    }

    /// What the node doesn't write by the time that the modem needs it. Of the blocks before the
    /// start that are zeros, so that those that follow still can be written; later ones, and a
    /// transmission of no more than these, end with what there is.
    fn top_up(&mut self, now: Instant) -> io::Result<()> {
        let ahead = self.config.ahead;
        let Some(turn) = &mut self.turn else {
            return Ok(());
        };
        if turn.due(ahead).is_none_or(|due| now < due) {
            return Ok(());
        }
        let first = turn.mode.octets_in(turn.start_blocks);
        if turn.octets < first && turn.blocks > turn.start_blocks {
            let zeros = vec![0; first - turn.octets];
            turn.octets = first;
            return self.modem.send(now, &zeros, false);
        }
        turn.ended = true;
        self.modem.send(now, &[], true)
    }
}

impl Sending {
    const fn limit(&self) -> usize {
        self.mode.octets_in(self.blocks)
    }

    fn at(&self, bits: u64) -> Instant {
        self.data + self.mode.time_of_bits(bits)
    }

    /// When the next octets are to be asked for.
    fn load(&self, ahead: Duration) -> Instant {
        let block_bits = u64::from(self.mode.block_bits);
        let block = self.octets as u64 * 8 / block_bits;
        if block < u64::from(self.start_blocks) {
            return Instant::ZERO;
        }
        self.at(block * block_bits) - ahead
    }

    /// When it is too late for the node to write what comes next.
    fn due(&self, ahead: Duration) -> Option<Instant> {
        if self.ended || self.octets >= self.limit() {
            return None;
        }
        let load = self.load(ahead / 2);
        Some(load.max(self.keyed + GATHERING))
    }
}

impl PortIo for ModemPort {
    fn open(&mut self, now: Instant) -> Result<PortState, Error> {
        self.opened(now)?;
        self.forget();
        self.was_ready = false;
        let mode = self.config.mode;
        let longest = mode.octets_in(self.config.blocks_max);
        Ok(PortState {
            tx_rate: mode.line_rate(),
            rx_rate: mode.line_rate(),
            frame_octets_max: u32::try_from(longest).unwrap_or(u32::MAX),
            block: mode.block(),
            latency: self.config.decode,
            notice: self.config.notice,
        })
    }

    fn close(&mut self) {
        self.modem.close();
        self.forget();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.modem.fd()
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        if !self.modem.is_ready() || self.modem.holds() {
            return Err(None);
        }
        let Some(turn) = &self.turn else {
            return Ok(Room {
                octets: self.config.mode.octets_in(self.config.blocks_max),
                starts: now + self.config.lead_in,
                until: None,
                to: Neighbours::ALL,
            });
        };
        if turn.ended || turn.octets >= turn.limit() {
            return Err(None);
        }
        let ahead = self.config.ahead;
        let mut load = turn.load(ahead + self.modem.holds_back(turn.mode));
        if let Some((by, octets)) = self.modem.needs()
            && turn.octets < octets
        {
            load = load.min(by - ahead);
        }
        if now < load {
            return Err(Some(load));
        }
        Ok(Room {
            octets: turn.limit() - turn.octets,
            starts: turn.at(turn.octets as u64 * 8),
            until: Some(turn.at(u64::from(turn.blocks) * u64::from(turn.mode.block_bits))),
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, now: Instant, meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let mut turn = match self.turn {
            Some(turn) => turn,
            None => {
                let turn = self.key_up(now, meta, octets.len());
                self.modem.begin(now, turn.mode)?;
                turn
            }
        };
        if turn.ended {
            return Ok(Sent::Refused);
        }
        let room = turn.limit().saturating_sub(turn.octets);
        let mut octets = octets[..octets.len().min(room)].to_vec();
        if meta.turn.is_none_or(|turn| turn.last) {
            // The turn has the length that was announced.
            octets.resize(room, 0);
        }
        turn.octets += octets.len();
        self.turn = Some(turn);
        self.modem.send(now, &octets, octets.len() == room)?;
        Ok(Sent::Taken)
    }

    fn holds(&self) -> bool {
        self.modem.holds()
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.modem.flush(now)
    }

    fn drained(&mut self, _now: Instant) -> bool {
        self.turn.is_none() && !self.modem.holds()
    }

    fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(received) = self.next(now, buffer) {
            return Ok(received);
        }
        let read = self.modem.read(now, buffer, &mut self.heard);
        let some = *read.as_ref().unwrap_or(&false);
        self.settle(now, read.map(|_| ()))?;
        match self.next(now, buffer) {
            Some(received) => Ok(received),
            None if some => Ok(Received::Skipped),
            None => Ok(Received::Nothing),
        }
    }

    fn wake(&self) -> Option<Instant> {
        let due = self.turn.and_then(|turn| turn.due(self.config.ahead));
        due.into_iter().chain(self.modem.wake()).min()
    }

    fn tick(&mut self, now: Instant) -> io::Result<()> {
        let ticked = self.modem.tick(now, &mut self.heard);
        self.settle(now, ticked)?;
        self.top_up(now)
    }

    fn meta(&self) -> FrameMeta {
        FrameMeta {
            rate_bit_s: self.given_bit_s,
            ..FrameMeta::default()
        }
    }

    fn counts(&self) -> IoCounts {
        let (strangers, refused) = self.modem.counts();
        IoCounts {
            strangers,
            refused,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests;
