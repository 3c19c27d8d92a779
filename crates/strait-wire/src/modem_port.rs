//! The data port of an HF modem over TCP: packets between a modem and the terminal (DTE) that uses
//! it, as in MIL-STD-188-110D Appendix A.
//!
//! ```text
//!   49 50 55  type  payload size  CRC of these  payload  CRC of the payload, if there is one
//! ```
//!
//! Sizes, numbers and CRCs (CRC-16/IBM-3740) are big-endian. Layouts follow an open implementation
//! of the interface, as the standard's own text isn't at hand.

use alloc::vec::Vec;

use crc::{CRC_16_IBM_3740, Crc, Table};

const CRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_IBM_3740);

const PREAMBLE: [u8; 3] = [0x49, 0x50, 0x55];
const HEADER_OCTETS: usize = 8;
const CRC_OCTETS: usize = 2;

/// The longest payload.
pub const PAYLOAD_OCTETS_MAX: usize = 4086;

/// The most data in one packet: a command and an order stand before them.
pub const DATA_OCTETS_MAX: usize = PAYLOAD_OCTETS_MAX - 2;

/// The version of the interface that modems and terminals name.
pub const VERSION: u8 = 12;

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
    /// From the modem, and back, for the round-trip time.
    Probe,
    /// Shows that somebody is there.
    KeepAlive,
    /// Octets to send.
    TxData {
        /// Their place in the transmission.
        order: Order,
        /// The octets.
        octets: &'a [u8],
    },
    /// Octets that were received.
    RxData {
        /// Their place in the transmission.
        order: Order,
        /// The octets.
        octets: &'a [u8],
    },
    /// Make ready to send.
    Arm,
    /// Key up, and send what there is.
    Start,
    /// How sending goes.
    TxStatus {
        /// What the modem does.
        state: TxState,
        /// Octets that wait.
        queued_octets: u32,
        /// Octets for which there is room.
        free_octets: u32,
    },
    /// Octets to send were refused.
    Nack {
        /// 1: too late, 2: not armed, 3: no room.
        reason: u8,
    },
    /// Whether the modem hears a transmission.
    Carrier {
        /// It does.
        on: bool,
        /// Rate of it, if known, else 0.
        rate_bit_s: u32,
        /// Bits in its blocks.
        block_bits: u32,
    },
    /// Say how sending goes.
    RequestStatus,
    /// By what the next transmission goes.
    TxSetup {
        /// Bits each second.
        rate_bit_s: u32,
        /// Bits in a block.
        block_bits: u32,
    },
    /// What the modem found of the connection, in milliseconds; it is synchronous.
    InitialSetup {
        /// Round-trip time.
        round_trip_ms: u32,
        /// The most that it bears.
        latency_ms_max: u32,
        /// The least that it expects.
        latency_ms_min: u32,
    },
    /// Stop sending.
    AbortTx,
    /// Stop receiving.
    AbortRx,
    /// Something is wrong with what came.
    Error {
        /// Which.
        code: u8,
    },
    /// Another packet, of a type or a command that isn't known.
    Other,
}

/// The place of octets in a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Its first ones.
    First,
    /// Others.
    Continuation,
    /// Its last ones.
    Last,
    /// All of it.
    Only,
}

impl Order {
    /// By whether the octets are the first and the last.
    pub const fn of(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, false) => Self::First,
            (false, false) => Self::Continuation,
            (false, true) => Self::Last,
            (true, true) => Self::Only,
        }
    }

    /// Whether none follow.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }

    const fn parse(octet: u8) -> Self {
        match octet {
            0 => Self::First,
            2 => Self::Last,
            3 => Self::Only,
            _ => Self::Continuation,
        }
    }
}

/// What a modem's transmitter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxState {
    /// Nothing, and nothing waits.
    Flushed,
    /// It gets ready.
    Arming,
    /// It is ready.
    Armed,
    /// It sends.
    Started,
    /// It sends the last of it.
    Draining,
    /// It ends because octets came too late.
    Underrun,
}

impl TxState {
    const ALL: [Self; 6] = [
        Self::Flushed,
        Self::Arming,
        Self::Armed,
        Self::Started,
        Self::Draining,
        Self::Underrun,
    ];
}

/// Why octets are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModemPortError {
    /// They don't begin as one.
    #[error("no packet begins here")]
    Preamble,
    /// A check is wrong.
    #[error("a check is wrong")]
    Check,
    /// The payload is longer than any.
    #[error("the payload is too long")]
    TooLong,
}

impl<'a> ModemPacket<'a> {
    /// The packet at the beginning of `octets` and its length; `None` until it is whole.
    ///
    /// # Errors
    /// What stands there is none. A stream can't be read further.
    pub fn parse(octets: &'a [u8]) -> Result<Option<(Self, usize)>, ModemPortError> {
        let known = octets.len().min(PREAMBLE.len());
        if octets[..known] != PREAMBLE[..known] {
            return Err(ModemPortError::Preamble);
        }
        let Some((header, rest)) = octets.split_first_chunk::<HEADER_OCTETS>() else {
            return Ok(None);
        };
        if CRC.checksum(&header[..6]) != u16::from_be_bytes([header[6], header[7]]) {
            return Err(ModemPortError::Check);
        }
        let size = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if size > PAYLOAD_OCTETS_MAX {
            return Err(ModemPortError::TooLong);
        }
        if size == 0 {
            return Ok(Some((Self::of(header[3], &[]), HEADER_OCTETS)));
        }
        let Some((payload, rest)) = rest.split_at_checked(size) else {
            return Ok(None);
        };
        let Some(check) = rest.first_chunk::<CRC_OCTETS>() else {
            return Ok(None);
        };
        if CRC.checksum(payload) != u16::from_be_bytes(*check) {
            return Err(ModemPortError::Check);
        }
        let length = HEADER_OCTETS + size + CRC_OCTETS;
        Ok(Some((Self::of(header[3], payload), length)))
    }

    fn of(kind: u8, payload: &'a [u8]) -> Self {
        match (kind, payload) {
            (1, [version]) => Self::Connect { version: *version },
            (2, [version]) => Self::ConnectAck { version: *version },
            (3, []) => Self::Probe,
            (4, []) => Self::KeepAlive,
            (4, [command, rest @ ..]) => Self::command(*command, rest),
            (0xff, [code]) => Self::Error { code: *code },
            _ => Self::Other,
        }
    }

    fn command(command: u8, rest: &'a [u8]) -> Self {
        let number = |at: usize| {
            let octets = rest.get(at..).and_then(<[u8]>::first_chunk);
            octets.map_or(0, |octets| u32::from_be_bytes(*octets))
        };
        match (command, rest) {
            (1, [order, octets @ ..]) => Self::TxData {
                order: Order::parse(*order),
                octets,
            },
            (2, [order, octets @ ..]) => Self::RxData {
                order: Order::parse(*order),
                octets,
            },
            (3, []) => Self::Arm,
            (4, []) => Self::Start,
            (5, [state, ..]) if rest.len() == 13 => match TxState::ALL.get(usize::from(*state)) {
                Some(state) => Self::TxStatus {
                    state: *state,
                    queued_octets: number(1),
                    free_octets: number(5),
                },
                None => Self::Other,
            },
            (6, [reason]) => Self::Nack { reason: *reason },
            (7, [state, ..]) if rest.len() == 9 => Self::Carrier {
                on: *state != 0,
                rate_bit_s: number(1),
                block_bits: number(5),
            },
            (8, []) => Self::RequestStatus,
            (9, _) if rest.len() == 8 => Self::TxSetup {
                rate_bit_s: number(0),
                block_bits: number(4),
            },
            (0x0a, _) if rest.len() == 17 => Self::InitialSetup {
                round_trip_ms: number(0),
                latency_ms_max: number(4),
                latency_ms_min: number(8),
            },
            (0x0b, []) => Self::AbortTx,
            (0x0c, []) => Self::AbortRx,
            _ => Self::Other,
        }
    }

    /// Appends the packet. Of data that are longer than [`DATA_OCTETS_MAX`] only so many; nothing
    /// for [`ModemPacket::Other`].
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
        let data = |out: &mut Vec<u8>, command: u8, order: Order, octets: &[u8]| {
            out.extend_from_slice(&[command, order as u8]);
            out.extend_from_slice(&octets[..octets.len().min(DATA_OCTETS_MAX)]);
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
            Self::Probe => return Some(3),
            Self::KeepAlive => {}
            Self::TxData { order, octets } => data(out, 1, order, octets),
            Self::RxData { order, octets } => data(out, 2, order, octets),
            Self::Arm => out.push(3),
            Self::Start => out.push(4),
            Self::TxStatus {
                state,
                queued_octets,
                free_octets,
            } => put(out, &[5, state as u8], &[queued_octets, free_octets, 0]),
            Self::Nack { reason } => out.extend_from_slice(&[6, reason]),
            Self::Carrier {
                on,
                rate_bit_s,
                block_bits,
            } => put(out, &[7, u8::from(on)], &[rate_bit_s, block_bits]),
            Self::RequestStatus => out.push(8),
            Self::TxSetup {
                rate_bit_s,
                block_bits,
            } => put(out, &[9], &[rate_bit_s, block_bits]),
            Self::InitialSetup {
                round_trip_ms,
                latency_ms_max,
                latency_ms_min,
            } => {
                put(
                    out,
                    &[0x0a],
                    &[round_trip_ms, latency_ms_max, latency_ms_min],
                );
                // Synchronous; the four keys of asynchronous data don't matter then.
                out.extend_from_slice(&[1, 8, 1, 0, 0]);
            }
            Self::AbortTx => out.push(0x0b),
            Self::AbortRx => out.push(0x0c),
            Self::Error { code } => {
                out.push(code);
                return Some(0xff);
            }
            Self::Other => return None,
        }
        Some(4)
    }
}

/// The most octets of packets in a datagram, and of data in one of its packets: none is to be cut
/// on its way.
pub const DATAGRAM_OCTETS_MAX: usize = 1200;
/// The same of data in a packet.
pub const DATAGRAM_DATA_MAX: usize = 1024;

/// Parts packets that follow each other into datagrams, whole packets each.
pub fn datagrams(packets: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packets;
    core::iter::from_fn(move || {
        let mut octets = 0;
        while octets < rest.len() {
            let next = packet_octets(&rest[octets..]);
            if octets > 0 && octets + next > DATAGRAM_OCTETS_MAX {
                break;
            }
            octets += next;
        }
        let (datagram, later) = rest.split_at(octets);
        rest = later;
        (!datagram.is_empty()).then_some(datagram)
    })
}

/// Octets of the first packet, as its header says.
fn packet_octets(packets: &[u8]) -> usize {
    let size = packets.get(4..6);
    let size = size.map_or(0, |size| {
        usize::from(u16::from_be_bytes([size[0], size[1]]))
    });
    let checked = if size > 0 { size + CRC_OCTETS } else { 0 };
    (HEADER_OCTETS + checked).min(packets.len())
}

/// Finds packets in a stream that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct ModemReader {
    held: Vec<u8>,
}

impl ModemReader {
    /// Takes the next octets; `tell` gets each whole packet.
    ///
    /// # Errors
    /// The stream can't be read further: what comes isn't this protocol.
    pub fn feed(
        &mut self,
        octets: &[u8],
        mut tell: impl FnMut(ModemPacket<'_>),
    ) -> Result<(), ModemPortError> {
        // Never more than one packet and a read's worth.
        self.held.extend_from_slice(octets);
        let mut at = 0;
        while let Some((packet, length)) = ModemPacket::parse(&self.held[at..])? {
            tell(packet);
            at += length;
        }
        self.held.drain(..at);
        Ok(())
    }

    /// Forgets what has come.
    pub fn reset(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn datagrams_hold_whole_packets_as_many_as_fit() {
        let data = |octets: usize| {
            let mut out = Vec::new();
            ModemPacket::TxData {
                order: Order::Only,
                octets: &vec![7; octets],
            }
            .emit(&mut out);
            out
        };
        let arm = octets(ModemPacket::Arm);
        // A packet of data has 12 octets around it, and this one fills a datagram with the first.
        let full = data(DATAGRAM_OCTETS_MAX - 12 - arm.len());
        let packets = [&arm[..], &full, &arm, &data(DATAGRAM_DATA_MAX), &arm].concat();
        let parts: Vec<usize> = datagrams(&packets).map(<[u8]>::len).collect();
        assert_eq!(
            parts,
            [DATAGRAM_OCTETS_MAX, DATAGRAM_DATA_MAX + 12 + 2 * arm.len()]
        );
        assert_eq!(
            datagrams(&packets).flatten().copied().collect::<Vec<u8>>(),
            packets
        );
        // One octet more, and it goes by itself.
        let long = data(DATAGRAM_OCTETS_MAX - 12 - arm.len() + 1);
        let packets = [&arm[..], &long].concat();
        assert_eq!(datagrams(&packets).count(), 2);
        assert_eq!(datagrams(&[]).count(), 0);
        assert_eq!(datagrams(&[0x49]).count(), 1);
    }

    fn octets(packet: ModemPacket<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        packet.emit(&mut out);
        out
    }

    const ALL: [ModemPacket<'_>; 18] = [
        ModemPacket::Connect { version: 12 },
        ModemPacket::ConnectAck { version: 12 },
        ModemPacket::Probe,
        ModemPacket::KeepAlive,
        ModemPacket::TxData {
            order: Order::First,
            octets: b"hello",
        },
        ModemPacket::RxData {
            order: Order::Only,
            octets: b"",
        },
        ModemPacket::Arm,
        ModemPacket::Start,
        ModemPacket::TxStatus {
            state: TxState::Started,
            queued_octets: 5,
            free_octets: 70_000,
        },
        ModemPacket::Nack { reason: 3 },
        ModemPacket::Carrier {
            on: true,
            rate_bit_s: 9600,
            block_bits: 4608,
        },
        ModemPacket::RequestStatus,
        ModemPacket::TxSetup {
            rate_bit_s: 240_000,
            block_bits: 153_600,
        },
        ModemPacket::InitialSetup {
            round_trip_ms: 3,
            latency_ms_max: 5000,
            latency_ms_min: 100,
        },
        ModemPacket::AbortTx,
        ModemPacket::AbortRx,
        ModemPacket::Error { code: 1 },
        ModemPacket::TxData {
            order: Order::Last,
            octets: &[7; DATA_OCTETS_MAX],
        },
    ];

    #[test]
    fn packets_have_these_octets() {
        assert_eq!(CRC.checksum(b"123456789"), 0x29b1);
        let probe = octets(ModemPacket::Probe);
        let check = CRC.checksum(b"\x49\x50\x55\x03\x00\x00").to_be_bytes();
        assert_eq!(
            probe,
            [b"\x49\x50\x55\x03\x00\x00".as_slice(), &check].concat()
        );
        let data = octets(ModemPacket::TxData {
            order: Order::Last,
            octets: b"hi",
        });
        assert_eq!(data[3..6], [4, 0, 4]);
        assert_eq!(data[8..12], [1, 2, b'h', b'i']);
        assert_eq!(data[12..], CRC.checksum(&data[8..12]).to_be_bytes());
        let status = octets(ALL[8]);
        assert_eq!(
            status[8..],
            [
                &[5, 3][..],
                &[0, 0, 0, 5, 0, 1, 0x11, 0x70, 0, 0, 0, 0],
                &status[22..]
            ]
            .concat()
        );
        assert!(octets(ModemPacket::Other).is_empty());
    }

    #[test]
    fn what_is_written_reads_back_in_any_pieces() {
        let stream: Vec<u8> = ALL.into_iter().flat_map(octets).collect();
        for piece in [1, 3, 1000, stream.len()] {
            let (mut reader, mut count) = (ModemReader::default(), 0);
            for chunk in stream.chunks(piece) {
                let told = reader.feed(chunk, |packet| {
                    assert_eq!(packet, ALL[count]);
                    count += 1;
                });
                assert_eq!(told, Ok(()));
            }
            assert_eq!(count, ALL.len());
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let mut wrong = octets(ModemPacket::Arm);
        wrong[8] ^= 1;
        assert_eq!(ModemPacket::parse(&wrong), Err(ModemPortError::Check));
        wrong[5] ^= 1;
        assert_eq!(ModemPacket::parse(&wrong), Err(ModemPortError::Check));
        assert_eq!(
            ModemPacket::parse(b"\x49\x51"),
            Err(ModemPortError::Preamble)
        );
        let mut long = vec![0x49, 0x50, 0x55, 4, 0x0f, 0xf7];
        long.extend(CRC.checksum(&long).to_be_bytes());
        assert_eq!(ModemPacket::parse(&long), Err(ModemPortError::TooLong));
        assert_eq!(ModemPacket::parse(&[]), Ok(None));
        // A known packet with an unknown state is another.
        let mut status = vec![5, 9];
        status.extend([0; 12]);
        assert_eq!(ModemPacket::of(4, &status), ModemPacket::Other);
    }

    proptest! {
        #[test]
        fn no_octets_make_it_fail(octets in prop::collection::vec(any::<u8>(), 0..64), kind: u8) {
            let _ = ModemPacket::parse(&octets);
            // Behind a header that is right.
            let mut packet = vec![0x49, 0x50, 0x55, kind, 0, octets.len() as u8];
            packet.extend(CRC.checksum(&packet).to_be_bytes());
            packet.extend(&octets);
            packet.extend(CRC.checksum(&octets).to_be_bytes());
            let parsed = ModemPacket::parse(&packet);
            prop_assert!(parsed.is_ok_and(|found| found.is_some()));
        }
    }
}
