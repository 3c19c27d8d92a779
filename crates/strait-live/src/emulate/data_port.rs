//! An end that is an HF modem with a data port over TCP (MIL-STD-188-110D Appendix A), for one
//! program at a time.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_wire::modem_port::{DATA_OCTETS_MAX, ModemPacket, ModemReader, Order, TxState, VERSION};

use crate::error::{Doing, Error};
use crate::port_io::is_not_now;

/// Octets that a program may leave unread; what comes on top of them is lost.
const PENDING_OCTETS_MAX: usize = 1 << 20;
/// A sign of life goes out this often.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// A program that has been silent for so long is gone.
const WATCHDOG: Duration = Duration::from_secs(30);

/// What a program wants of its modem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Key up, by this mode.
    KeyUp(Option<Mode>),
    /// Send these octets; whether they are the last.
    Send(Vec<u8>, bool),
}

/// The modem.
pub(super) struct DataPort {
    address: SocketAddr,
    listener: TcpListener,
    stream: Option<TcpStream>,
    reader: ModemReader,
    /// What the program hasn't taken yet.
    pending: Vec<u8>,
    own: Mode,
    session: Session,
}

/// What is known of the program that is connected.
#[derive(Debug, Default)]
struct Session {
    /// Both sides have greeted.
    ready: bool,
    state: Option<TxState>,
    mode: Option<Mode>,
    carrier: bool,
    /// Came before the start, and whether they are all.
    queued: Vec<u8>,
    whole: bool,
    heard: Instant,
    said: Instant,
    probed: Instant,
}

impl DataPort {
    /// A modem at a TCP address, with a waveform to begin with.
    pub(super) fn new(address: SocketAddr, own: Mode) -> Result<Self, Error> {
        let listen = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().doing(|| format!("listen at TCP {address}"))?;
        Ok(Self {
            address: listener.local_addr().unwrap_or(address),
            listener,
            stream: None,
            reader: ModemReader::default(),
            pending: Vec::new(),
            own,
            session: Session::default(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        let stream = self.stream.as_ref();
        stream.map_or_else(|| self.listener.as_fd(), AsFd::as_fd)
    }

    pub(super) const fn holds(&self) -> bool {
        !self.pending.is_empty()
    }

    /// When it has something to say whatever happens.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.stream.as_ref().map(|_| self.session.said + KEEP_ALIVE)
    }

    /// It is `now`.
    pub(super) fn tick(&mut self, now: Instant) -> io::Result<()> {
        if self.stream.is_none() {
            return Ok(());
        }
        if now >= self.session.heard + WATCHDOG {
            self.hang_up();
        } else if now >= self.session.said + KEEP_ALIVE {
            self.say(now, &ModemPacket::KeepAlive);
        }
        self.flush()
    }

    /// Takes what the program says; its wishes in their order.
    pub(super) fn read(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Vec<Wish>> {
        let mut wishes = Vec::new();
        let Some(stream) = &mut self.stream else {
            self.accept(now)?;
            return Ok(wishes);
        };
        let read = match stream.read(buffer) {
            Ok(0) => None,
            Ok(octets) => Some(octets),
            Err(error) if is_not_now(&error) => return Ok(wishes),
            Err(_) => None,
        };
        let Some(octets) = read else {
            self.end_turn(&mut wishes);
            self.hang_up();
            return Ok(wishes);
        };
        self.session.heard = now;
        let (session, own) = (&mut self.session, self.own);
        let mut answers = Vec::new();
        let mut answer = |packet: ModemPacket<'_>| packet.emit(&mut answers);
        let fed = self.reader.feed(&buffer[..octets], |packet| {
            session.take(now, own, packet, &mut answer, &mut wishes);
        });
        self.pending.extend(answers);
        if fed.is_err() {
            ModemPacket::Error { code: 1 }.emit(&mut self.pending);
            // What can be said still is; then the connection ends.
            let _ = self.flush();
            self.end_turn(&mut wishes);
            self.hang_up();
        }
        self.flush()?;
        Ok(wishes)
    }

    fn accept(&mut self, now: Instant) -> io::Result<()> {
        let (stream, _) = match self.listener.accept() {
            Err(error) if is_not_now(&error) => return Ok(()),
            other => other?,
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.stream = Some(stream);
        self.session = Session {
            heard: now,
            carrier: self.session.carrier,
            ..Session::default()
        };
        self.say(now, &ModemPacket::Connect { version: VERSION });
        self.flush()
    }

    /// Whoever keyed up is gone: the turn ends with what there is.
    fn end_turn(&mut self, wishes: &mut Vec<Wish>) {
        if self.session.state == Some(TxState::Started) {
            wishes.push(Wish::Send(Vec::new(), true));
        }
    }

    fn hang_up(&mut self) {
        self.stream = None;
        self.reader.reset();
        self.pending.clear();
        let carrier = self.session.carrier;
        self.session = Session {
            carrier,
            ..Session::default()
        };
    }

    /// Others' power is there, by this waveform, or gone.
    pub(super) fn tell_carrier(
        &mut self,
        now: Instant,
        on: bool,
        mode: Option<Mode>,
    ) -> io::Result<()> {
        self.session.carrier = on;
        let packet = carrier(on, mode.unwrap_or(self.own));
        self.tell(now, &packet)
    }

    /// The transmission is over.
    pub(super) fn tell_drained(&mut self, now: Instant) -> io::Result<()> {
        self.session.state = None;
        self.tell(now, &status(TxState::Flushed))
    }

    /// Octets that were received; false if nobody takes them.
    pub(super) fn tell_octets(&mut self, now: Instant, octets: &[u8]) -> io::Result<bool> {
        if !self.session.ready || self.pending.len() > PENDING_OCTETS_MAX {
            return Ok(false);
        }
        for octets in octets.chunks(DATA_OCTETS_MAX) {
            let order = Order::Continuation;
            self.say(now, &ModemPacket::RxData { order, octets });
        }
        self.flush()?;
        Ok(true)
    }

    fn tell(&mut self, now: Instant, packet: &ModemPacket<'_>) -> io::Result<()> {
        if self.session.ready {
            self.say(now, packet);
        }
        self.flush()
    }

    fn say(&mut self, now: Instant, packet: &ModemPacket<'_>) {
        self.session.said = now;
        packet.emit(&mut self.pending);
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let Some(stream) = &mut self.stream else {
                self.pending.clear();
                return Ok(());
            };
            match stream.write(&self.pending) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(error) if is_not_now(&error) => return Ok(()),
                Err(_) => self.hang_up(),
            }
        }
        Ok(())
    }
}

const fn carrier(on: bool, mode: Mode) -> ModemPacket<'static> {
    ModemPacket::Carrier {
        on,
        rate_bit_s: mode.rate_bit_s,
        block_bits: mode.block_bits,
    }
}

const fn status(state: TxState) -> ModemPacket<'static> {
    ModemPacket::TxStatus {
        state,
        queued_octets: 0,
        free_octets: PENDING_OCTETS_MAX as u32,
    }
}

impl Session {
    fn take(
        &mut self,
        now: Instant,
        own: Mode,
        packet: ModemPacket<'_>,
        answer: &mut impl FnMut(ModemPacket<'_>),
        wishes: &mut Vec<Wish>,
    ) {
        match packet {
            ModemPacket::Connect { version: VERSION } => {
                answer(ModemPacket::ConnectAck { version: VERSION });
            }
            ModemPacket::ConnectAck { version: VERSION } => {
                self.probed = now;
                answer(ModemPacket::Probe);
            }
            ModemPacket::Connect { .. } | ModemPacket::ConnectAck { .. } => {
                answer(ModemPacket::Error { code: 2 });
            }
            ModemPacket::Probe => self.greet(now, own, answer),
            _ if !self.ready => {}
            ModemPacket::Arm if self.state.is_none() => {
                self.queued.clear();
                (self.state, self.whole) = (Some(TxState::Armed), false);
                answer(status(TxState::Armed));
            }
            ModemPacket::TxSetup {
                rate_bit_s,
                block_bits,
            } if self.state != Some(TxState::Started) => {
                self.mode = Some(Mode {
                    rate_bit_s,
                    block_bits,
                });
            }
            ModemPacket::TxData { order, octets } => match self.state {
                Some(TxState::Started) => wishes.push(Wish::Send(octets.to_vec(), order.is_last())),
                Some(TxState::Armed) if self.queued.len() < PENDING_OCTETS_MAX => {
                    self.queued.extend_from_slice(octets);
                    self.whole |= order.is_last();
                }
                Some(_) => answer(ModemPacket::Nack { reason: 3 }),
                None => answer(ModemPacket::Nack { reason: 2 }),
            },
            ModemPacket::Start if self.state == Some(TxState::Armed) => {
                self.state = Some(TxState::Started);
                wishes.push(Wish::KeyUp(self.mode));
                wishes.push(Wish::Send(std::mem::take(&mut self.queued), self.whole));
                answer(status(TxState::Started));
            }
            ModemPacket::Start => answer(ModemPacket::Nack { reason: 2 }),
            ModemPacket::RequestStatus => {
                answer(status(self.state.unwrap_or(TxState::Flushed)));
            }
            ModemPacket::AbortTx if self.state == Some(TxState::Started) => {
                wishes.push(Wish::Send(Vec::new(), true));
            }
            _ => {}
        }
    }

    /// Both sides know each other: says how things are.
    fn greet(&mut self, now: Instant, own: Mode, answer: &mut impl FnMut(ModemPacket<'_>)) {
        if std::mem::replace(&mut self.ready, true) {
            return;
        }
        let round_trip = now.since(self.probed).as_millis();
        answer(ModemPacket::InitialSetup {
            round_trip_ms: u32::try_from(round_trip).unwrap_or(u32::MAX),
            latency_ms_max: 5000,
            latency_ms_min: 0,
        });
        answer(ModemPacket::TxSetup {
            rate_bit_s: own.rate_bit_s,
            block_bits: own.block_bits,
        });
        answer(status(TxState::Flushed));
        answer(carrier(self.carrier, own));
    }
}

impl fmt::Display for DataPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "modem:{}", self.address)
    }
}
