//! The LAN data port of an HF modem, MIL-STD-188-110D Appendix A: what a modem and the one terminal
//! (DTE) that uses it say to each other, over TCP (A.5.1) and in datagrams ([`udp`], A.5.2).
//!
//! ```text
//!   49 50 55  type  payload size  CRC of these  payload  CRC of the payload, if there is one
//! ```
//!
//! Numbers are big-endian (A.4.4).

use alloc::vec::Vec;

use crc::{Algorithm, Crc, Table};

pub mod fec;
pub mod udp;

/// A.5.3: bits go in from the least significant one of the first octet; the register starts at 0.
const ALGORITHM: Algorithm<u16> = Algorithm {
    width: 16,
    poly: 0x9949,
    init: 0,
    refin: true,
    refout: true,
    xorout: 0,
    check: 0x7d01,
    residue: 0,
};

/// The check of headers, payloads and datagrams.
pub(crate) const CRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&ALGORITHM);

const PREAMBLE: [u8; 3] = [0x49, 0x50, 0x55];
const HEADER_OCTETS: usize = 8;
const CRC_OCTETS: usize = 2;

/// The longest packet (A.5.1.1).
pub const PACKET_OCTETS_MAX: usize = 4096;

/// The longest payload.
pub const PAYLOAD_OCTETS_MAX: usize = PACKET_OCTETS_MAX - HEADER_OCTETS - CRC_OCTETS;

/// The most data in one packet: command, order and number stand before them (A.5.1.1.5).
pub const DATA_OCTETS_MAX: usize = PAYLOAD_OCTETS_MAX - 14;

/// The version of the interface (A.5.1.1.2).
pub const VERSION: u8 = 12;

/// The number of a packet of data, by which it is refused (A.5.1.1.5.2).
pub type PacketId = [u8; 12];

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModemPacket<'a> {
    /// Both sides begin with it.
    Connect {
        /// Version of the interface.
        version: u8,
    },
    /// The other side's version is ours.
    ConnectAck {
        /// Version of the interface.
        version: u8,
    },
    /// Something is wrong with what came; the connection ends (A.5.1.2.3).
    Error,
    /// Shows that somebody is there: data without a payload (A.5.1.2.2).
    KeepAlive,
    /// Octets to send, or octets that were received.
    Data {
        /// Their place in the transmission.
        order: Order,
        /// Their number.
        id: PacketId,
        /// The octets.
        octets: &'a [u8],
    },
    /// From the terminal: make ready to send.
    Arm,
    /// From the terminal: key up, and send what there is.
    Start,
    /// From the terminal: say how sending goes.
    RequestStatus,
    /// From the modem: octets to send were refused.
    Nack {
        /// Why.
        cause: NackCause,
        /// Which.
        id: PacketId,
    },
    /// From the modem: how sending goes.
    TxStatus(TxStatus),
    /// From the terminal: stop receiving.
    AbortRx,
    /// From the modem: whether it hears a transmission.
    Carrier {
        /// It does.
        on: bool,
        /// Rate of it; 0 without one.
        rate_bit_s: u32,
        /// Bits in its blocks.
        block_bits: u32,
    },
    /// From the modem: by what it sends.
    TxSetup {
        /// Bits each second.
        rate_bit_s: u32,
        /// Bits in a block.
        block_bits: u32,
    },
    /// From the modem: what it found of the connection, and what octets mean on the air.
    InitialSetup(InitialSetup),
    /// From the modem, and back, for the round-trip time.
    Probe,
    /// A packet with right checks that this interface doesn't have; it is answered by
    /// [`ModemPacket::Error`].
    Invalid,
}

/// How sending goes (A.5.1.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxStatus {
    /// What the transmitter does.
    pub state: TxState,
    /// Octets for which there is room.
    pub free_octets: u32,
    /// Octets that wait.
    pub queued_octets: u32,
    /// Milliseconds until the transmission ends by itself, if no more octets come.
    pub critical_ms: u32,
    /// How many have to come in that time; 0: none.
    pub critical_octets: u32,
}

impl TxStatus {
    /// A transmitter in a state of which nothing else is to be said.
    pub const fn of(state: TxState, free_octets: u32) -> Self {
        Self {
            state,
            free_octets,
            queued_octets: 0,
            critical_ms: 0,
            critical_octets: 0,
        }
    }
}

/// What a modem says of the connection (A.5.1.1.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialSetup {
    /// Round-trip time that it measured, in milliseconds.
    pub round_trip_ms: u32,
    /// The least that it expects.
    pub latency_ms_min: u32,
    /// The most that it bears.
    pub latency_ms_max: u32,
    /// Octets are bits of a synchronous stream; else the modem adds start and stop bits.
    pub synchronous: bool,
    /// Codes for data bits, stop bits, parity and what goes over the air; 0 if synchronous.
    pub asynchronous: [u8; 4],
}

impl InitialSetup {
    /// Whether each octet arrives with all its bits: synchronous, or with 8 data bits.
    pub const fn carries_octets(&self) -> bool {
        self.synchronous || self.asynchronous[0] == 3
    }
}

/// The place of octets in a transmission (A.5.1.1.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Its first ones.
    First = 1,
    /// All of it.
    Only,
    /// Others.
    Continuation,
    /// Its last ones.
    Last,
}

impl Order {
    /// By whether the octets are the first and the last.
    pub const fn of(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, false) => Self::First,
            (true, true) => Self::Only,
            (false, false) => Self::Continuation,
            (false, true) => Self::Last,
        }
    }

    /// Whether none came before.
    pub const fn is_first(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether none follow.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }

    const fn parse(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::First),
            2 => Some(Self::Only),
            3 => Some(Self::Continuation),
            4 => Some(Self::Last),
            _ => None,
        }
    }
}

/// Why octets to send were refused (A.5.1.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackCause {
    /// The transmitter is neither armed nor started.
    NotArmed,
    /// They come too late: the transmission is ending without them.
    Underrun,
    /// The transmission has no first packet yet.
    NoFirst,
    /// It has one already.
    SecondFirst,
}

impl NackCause {
    const ALL: [Self; 4] = [
        Self::NotArmed,
        Self::Underrun,
        Self::NoFirst,
        Self::SecondFirst,
    ];
}

/// What a modem's transmitter does (A.5.1.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxState {
    /// Nothing, and nothing waits.
    Flushed = 1,
    /// It takes octets; it can't start yet.
    ArmedNotReady,
    /// It takes octets, and can start.
    Armed,
    /// It sends.
    Started,
    /// It sends the last of it.
    Draining,
    /// It ends because octets came too late.
    DrainingForced,
}

impl TxState {
    const ALL: [Self; 6] = [
        Self::Flushed,
        Self::ArmedNotReady,
        Self::Armed,
        Self::Started,
        Self::Draining,
        Self::DrainingForced,
    ];

    fn parse(octet: u8) -> Option<Self> {
        Self::ALL.get(usize::from(octet).checked_sub(1)?).copied()
    }
}

/// What stands at the beginning of octets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A packet of so many octets.
    Packet(ModemPacket<'a>, usize),
    /// Nothing: so many octets are to be passed over, as if they had never come (A.5.1.2.3).
    Dropped(usize),
    /// The beginning of a packet.
    Part,
}

impl<'a> ModemPacket<'a> {
    /// What stands at the beginning of `octets`.
    pub fn parse(octets: &'a [u8]) -> Parsed<'a> {
        if let Some(dropped) = before_preamble(octets) {
            return Parsed::Dropped(dropped);
        }
        let Some((header, rest)) = octets.split_first_chunk::<HEADER_OCTETS>() else {
            return Parsed::Part;
        };
        if CRC.checksum(&header[..6]) != u16::from_be_bytes([header[6], header[7]]) {
            return Parsed::Dropped(1);
        }
        let size = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if size > PAYLOAD_OCTETS_MAX {
            return Parsed::Packet(Self::Invalid, HEADER_OCTETS);
        }
        if size == 0 {
            return Parsed::Packet(Self::of(header[3], &[]), HEADER_OCTETS);
        }
        let length = HEADER_OCTETS + size + CRC_OCTETS;
        let Some((payload, check)) = rest.get(..size + CRC_OCTETS).map(|it| it.split_at(size))
        else {
            return Parsed::Part;
        };
        if CRC.checksum(payload).to_be_bytes() != *check {
            return Parsed::Dropped(length);
        }
        Parsed::Packet(Self::of(header[3], payload), length)
    }

    fn of(kind: u8, payload: &'a [u8]) -> Self {
        match (kind, payload) {
            (0, []) => Self::KeepAlive,
            (0, [command, rest @ ..]) => Self::command(*command, rest).unwrap_or(Self::Invalid),
            (1, [version]) => Self::Connect { version: *version },
            (2, [version]) => Self::ConnectAck { version: *version },
            (0xff, _) => Self::Error,
            _ => Self::Invalid,
        }
    }

    fn command(command: u8, rest: &'a [u8]) -> Option<Self> {
        let number = |at: usize| {
            let octets = rest.get(at..)?.first_chunk()?;
            Some(u32::from_be_bytes(*octets))
        };
        let id = || rest.get(1..)?.first_chunk::<12>().copied();
        let whole = match command {
            4 => 13,
            5 | 10 => 17,
            8 => 9,
            9 => 8,
            0 => rest.len(),
            _ => 0,
        };
        if rest.len() != whole {
            return None;
        }
        Some(match command {
            0 => Self::Data {
                order: Order::parse(*rest.first()?)?,
                id: id()?,
                octets: rest.get(13..)?,
            },
            1 => Self::Arm,
            2 => Self::Start,
            3 => Self::RequestStatus,
            4 => Self::Nack {
                cause: *NackCause::ALL.get(usize::from(rest[0]))?,
                id: id()?,
            },
            5 => Self::TxStatus(TxStatus {
                state: TxState::parse(rest[0])?,
                free_octets: number(1)?,
                queued_octets: number(5)?,
                critical_ms: number(9)?,
                critical_octets: number(13)?,
            }),
            6 => Self::AbortRx,
            8 => Self::Carrier {
                on: flag(rest[0])?,
                rate_bit_s: number(1)?,
                block_bits: number(5)?,
            },
            9 => Self::TxSetup {
                rate_bit_s: number(0)?,
                block_bits: number(4)?,
            },
            10 => Self::InitialSetup(InitialSetup {
                round_trip_ms: number(0)?,
                latency_ms_min: number(4)?,
                latency_ms_max: number(8)?,
                synchronous: flag(rest[12])?,
                asynchronous: *rest.last_chunk()?,
            }),
            11 => Self::Probe,
            _ => return None,
        })
    }

    /// Appends the packet. Of data that are longer than [`DATA_OCTETS_MAX`] only so many; nothing
    /// for [`ModemPacket::Invalid`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        let began = out.len();
        out.extend_from_slice(&PREAMBLE);
        out.extend_from_slice(&[0; HEADER_OCTETS - PREAMBLE.len()]);
        let Some(kind) = self.payload(out) else {
            return out.truncate(began);
        };
        let header = began + HEADER_OCTETS;
        let size = out.len() - header;
        out[began + 3] = kind;
        out[began + 4..began + 6].copy_from_slice(&(size as u16).to_be_bytes());
        let check = CRC.checksum(&out[began..began + 6]);
        out[began + 6..header].copy_from_slice(&check.to_be_bytes());
        if size > 0 {
            let check = CRC.checksum(&out[header..]);
            out.extend_from_slice(&check.to_be_bytes());
        }
    }

    /// Appends the payload; returns the packet's type.
    fn payload(&self, out: &mut Vec<u8>) -> Option<u8> {
        let put = |out: &mut Vec<u8>, command: &[u8], numbers: &[u32]| {
            out.extend_from_slice(command);
            out.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        };
        match *self {
            Self::Connect { version } => {
                out.push(version);
                return Some(1);
            }
            Self::ConnectAck { version } => {
                out.push(version);
                return Some(2);
            }
            Self::Error => return Some(0xff),
            Self::KeepAlive => {}
            Self::Data { order, id, octets } => {
                put(out, &[0, order as u8], &[]);
                out.extend_from_slice(&id);
                out.extend_from_slice(&octets[..octets.len().min(DATA_OCTETS_MAX)]);
            }
            Self::Arm => out.push(1),
            Self::Start => out.push(2),
            Self::RequestStatus => out.push(3),
            Self::Nack { cause, id } => {
                put(out, &[4, cause as u8], &[]);
                out.extend_from_slice(&id);
            }
            Self::TxStatus(it) => {
                let numbers = [
                    it.free_octets,
                    it.queued_octets,
                    it.critical_ms,
                    it.critical_octets,
                ];
                put(out, &[5, it.state as u8], &numbers);
            }
            Self::AbortRx => out.push(6),
            Self::Carrier {
                on,
                rate_bit_s,
                block_bits,
            } => put(out, &[8, u8::from(on)], &[rate_bit_s, block_bits]),
            Self::TxSetup {
                rate_bit_s,
                block_bits,
            } => put(out, &[9], &[rate_bit_s, block_bits]),
            Self::InitialSetup(it) => {
                let numbers = [it.round_trip_ms, it.latency_ms_min, it.latency_ms_max];
                put(out, &[10], &numbers);
                put(out, &[u8::from(it.synchronous)], &[]);
                out.extend_from_slice(&it.asynchronous);
            }
            Self::Probe => out.push(11),
            Self::Invalid => return None,
        }
        Some(0)
    }
}

const fn flag(octet: u8) -> Option<bool> {
    match octet {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// How many octets stand before what may be a preamble; `None` if the first one begins it.
fn before_preamble(octets: &[u8]) -> Option<usize> {
    let begins = |at: &usize| {
        let rest = &octets[*at..];
        let known = rest.len().min(PREAMBLE.len());
        rest[..known] == PREAMBLE[..known]
    };
    let at = (0..octets.len()).find(begins).unwrap_or(octets.len());
    (at > 0).then_some(at)
}

/// Finds packets in a stream that comes in pieces. What fails a check is passed over.
#[derive(Clone, Debug, Default)]
pub struct ModemReader {
    held: Vec<u8>,
    /// Times that octets were passed over.
    pub dropped: u64,
}

impl ModemReader {
    /// Takes the next octets; `tell` gets each whole packet.
    pub fn feed(&mut self, octets: &[u8], mut tell: impl FnMut(ModemPacket<'_>)) {
        // Never more than one packet and a read's worth.
        self.held.extend_from_slice(octets);
        let mut at = 0;
        loop {
            match ModemPacket::parse(&self.held[at..]) {
                Parsed::Packet(packet, length) => {
                    tell(packet);
                    at += length;
                }
                Parsed::Dropped(length) => {
                    self.dropped += 1;
                    at += length;
                }
                Parsed::Part => break,
            }
        }
        self.held.drain(..at);
    }

    /// Forgets what has come.
    pub fn reset(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests;
