//! An end that is an HF modem with a data port (MIL-STD-188-110D Appendix A) over TCP, or with the
//! same packets in datagrams, for one program at a time.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_wire::modem_port::{
    DATA_OCTETS_MAX, DATAGRAM_DATA_MAX, ModemPacket, ModemReader, Order, TxState, VERSION,
    datagrams,
};

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
    line: Line,
    reader: ModemReader,
    /// What the program hasn't taken yet.
    pending: Vec<u8>,
    own: Mode,
    session: Session,
}

/// How its program reaches it.
enum Line {
    Tcp {
        listener: TcpListener,
        stream: Option<TcpStream>,
    },
    Udp {
        socket: UdpSocket,
        peer: Option<SocketAddr>,
    },
}

impl Line {
    /// A program is there.
    const fn is_connected(&self) -> bool {
        match self {
            Self::Tcp { stream, .. } => stream.is_some(),
            Self::Udp { peer, .. } => peer.is_some(),
        }
    }

    const fn data_octets_max(&self) -> usize {
        match self {
            Self::Tcp { .. } => DATA_OCTETS_MAX,
            Self::Udp { .. } => DATAGRAM_DATA_MAX,
        }
    }
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
            line: Line::Tcp {
                listener,
                stream: None,
            },
            reader: ModemReader::default(),
            pending: Vec::new(),
            own,
            session: Session::default(),
        })
    }

    /// The same in datagrams.
    pub(super) fn over_udp(address: SocketAddr, own: Mode) -> Result<Self, Error> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().doing(|| format!("listen at UDP {address}"))?;
        Ok(Self {
            address: socket.local_addr().unwrap_or(address),
            line: Line::Udp { socket, peer: None },
            reader: ModemReader::default(),
            pending: Vec::new(),
            own,
            session: Session::default(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Tcp { listener, stream } => {
                let stream = stream.as_ref();
                stream.map_or_else(|| listener.as_fd(), AsFd::as_fd)
            }
            Line::Udp { socket, .. } => socket.as_fd(),
        }
    }

    pub(super) const fn holds(&self) -> bool {
        !self.pending.is_empty()
    }

    /// When it has something to say whatever happens.
    pub(super) fn wake(&self) -> Option<Instant> {
        let connected = self.line.is_connected();
        connected.then(|| self.session.said + KEEP_ALIVE)
    }

    /// It is `now`.
    pub(super) fn tick(&mut self, now: Instant) -> io::Result<()> {
        if !self.line.is_connected() {
            return Ok(());
        }
        if now >= self.session.heard + WATCHDOG {
            self.hang_up();
        } else if now >= self.session.said + KEEP_ALIVE {
            self.give_sign_of_life(now);
        }
        self.flush()
    }

    /// In datagrams, with what may have got lost before.
    fn give_sign_of_life(&mut self, now: Instant) {
        let lossy = matches!(self.line, Line::Udp { .. });
        if !lossy || !self.session.ready {
            return self.say(now, &ModemPacket::KeepAlive);
        }
        let state = self.session.state.unwrap_or(TxState::Flushed);
        self.say(now, &status(state));
        let unknown = Mode {
            rate_bit_s: 0,
            block_bits: 0,
        };
        self.say(now, &carrier(self.session.carrier, unknown));
    }

    /// Takes what the program says; its wishes in their order.
    pub(super) fn read(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Vec<Wish>> {
        let mut wishes = Vec::new();
        let read = match &mut self.line {
            Line::Tcp { stream: None, .. } => {
                self.accept(now)?;
                return Ok(wishes);
            }
            Line::Tcp {
                stream: Some(stream),
                ..
            } => match stream.read(buffer) {
                Ok(0) => None,
                Ok(octets) => Some(octets),
                Err(error) if is_not_now(&error) => return Ok(wishes),
                Err(_) => None,
            },
            Line::Udp { socket, .. } => match socket.recv_from(buffer) {
                Ok((octets, from)) if self.knows(now, from, &buffer[..octets], &mut wishes) => {
                    Some(octets)
                }
                // Nobody's, or word that nobody took a datagram.
                _ => return Ok(wishes),
            },
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
        if matches!(self.line, Line::Udp { .. }) {
            // The next datagram begins with a packet again.
            self.reader.reset();
        } else if fed.is_err() {
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
        let Line::Tcp { listener, stream } = &mut self.line else {
            return Ok(());
        };
        let (accepted, _) = match listener.accept() {
            Err(error) if is_not_now(&error) => return Ok(()),
            other => other?,
        };
        accepted.set_nonblocking(true)?;
        accepted.set_nodelay(true)?;
        *stream = Some(accepted);
        self.meet(now);
        self.flush()
    }

    fn meet(&mut self, now: Instant) {
        self.session = Session {
            heard: now,
            carrier: self.session.carrier,
            ..Session::default()
        };
        self.say(now, &ModemPacket::Connect { version: VERSION });
    }

    /// Whether a datagram is of the modem's program: who says that it connects, is that from then
    /// on.
    fn knows(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        wishes: &mut Vec<Wish>,
    ) -> bool {
        let connects = matches!(
            ModemPacket::parse(datagram),
            Ok(Some((ModemPacket::Connect { .. }, _)))
        );
        if connects {
            self.end_turn(wishes);
            self.hang_up();
            self.meet(now);
        }
        let Line::Udp { peer, .. } = &mut self.line else {
            return false;
        };
        if connects {
            *peer = Some(from);
        }
        *peer == Some(from)
    }

    /// Whoever keyed up is gone: the turn ends with what there is.
    fn end_turn(&mut self, wishes: &mut Vec<Wish>) {
        if self.session.state == Some(TxState::Started) {
            wishes.push(Wish::Send(Vec::new(), true));
        }
    }

    fn hang_up(&mut self) {
        match &mut self.line {
            Line::Tcp { stream, .. } => *stream = None,
            Line::Udp { peer, .. } => *peer = None,
        }
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
        for octets in octets.chunks(self.line.data_octets_max()) {
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
            let stream = match &mut self.line {
                Line::Tcp {
                    stream: Some(stream),
                    ..
                } => stream,
                Line::Udp {
                    socket,
                    peer: Some(peer),
                } => {
                    for datagram in datagrams(&self.pending) {
                        // What nobody takes is lost, as it may be on its way.
                        let _ = socket.send_to(datagram, *peer);
                    }
                    self.pending.clear();
                    return Ok(());
                }
                Line::Tcp { .. } | Line::Udp { .. } => {
                    self.pending.clear();
                    return Ok(());
                }
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
            ModemPacket::Arm if self.state != Some(TxState::Started) => {
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
        let kind = match self.line {
            Line::Tcp { .. } => "modem",
            Line::Udp { .. } => "modem-udp",
        };
        write!(f, "{kind}:{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn octets(packets: &[ModemPacket<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        packets.iter().for_each(|packet| packet.emit(&mut out));
        out
    }

    /// What a program says, and the wishes that follow.
    fn says(port: &mut DataPort, program: &UdpSocket, now: Instant, packets: &[u8]) -> Vec<Wish> {
        program.send_to(packets, port.address).unwrap();
        let mut fds = [nix::poll::PollFd::new(
            port.fd(),
            nix::poll::PollFlags::POLLIN,
        )];
        assert_eq!(nix::poll::poll(&mut fds, 5000u16), Ok(1));
        port.read(now, &mut [0; 4096]).unwrap()
    }

    fn hears(program: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 4096];
        let heard = program.recv(&mut buffer).unwrap();
        buffer[..heard].to_vec()
    }

    #[test]
    fn in_datagrams_the_last_program_that_connects_has_the_modem() {
        let own = Mode {
            rate_bit_s: 2400,
            block_bits: 288,
        };
        let mut port = DataPort::over_udp(([127, 0, 0, 1], 0).into(), own).unwrap();
        let [first, second] = [0, 1].map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(WATCHDOG)).unwrap();
            socket
        });
        let connect = octets(&[ModemPacket::Connect { version: VERSION }]);
        let go = octets(&[ModemPacket::Arm, ModemPacket::Start]);
        // Nobody has connected.
        assert_eq!(says(&mut port, &first, at(0), &go), []);
        assert_eq!(port.wake(), None);
        assert_eq!(says(&mut port, &first, at(0), &connect), []);
        let greeting = [
            ModemPacket::Connect { version: VERSION },
            ModemPacket::ConnectAck { version: VERSION },
        ];
        assert_eq!(hears(&first), octets(&greeting));
        says(&mut port, &first, at(1), &octets(&[ModemPacket::Probe]));
        hears(&first);
        assert_eq!(says(&mut port, &first, at(2), &go).len(), 2);
        hears(&first);
        // Its sign of life repeats how things are.
        port.tell_carrier(at(3), true, None).unwrap();
        hears(&first);
        port.tick(at(2003)).unwrap();
        let unknown = Mode {
            rate_bit_s: 0,
            block_bits: 0,
        };
        let life = [status(TxState::Started), carrier(true, unknown)];
        assert_eq!(hears(&first), octets(&life));
        // Another's words count from its connect on; the transmission ends.
        let data = octets(&[ModemPacket::TxData {
            order: Order::Only,
            octets: &[1],
        }]);
        assert_eq!(says(&mut port, &second, at(2004), &data), []);
        let over = Wish::Send(Vec::new(), true);
        assert_eq!(says(&mut port, &second, at(2005), &connect), [over]);
        assert_eq!(hears(&second), octets(&greeting));
        assert_eq!(says(&mut port, &first, at(2006), &data), []);
        // A silent one is gone.
        port.tick(at(2005) + WATCHDOG).unwrap();
        assert_eq!(port.wake(), None);
    }
}
