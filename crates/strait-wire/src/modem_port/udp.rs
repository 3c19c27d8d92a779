//! Datagrams between a modem and its terminal (MIL-STD-188-110D A.5.2).
//!
//! ```text
//!   version (4 bits), type (4)  session (24)  payload  CRC of all before (16)
//! ```

use alloc::vec::Vec;

use super::CRC;
use super::fec::{Code, SHARE_OCTETS_MAX};

/// The longest datagram (A.5.2.2).
pub const DATAGRAM_OCTETS_MAX: usize = 1226;

/// The version of the protocol (A.5.2.3).
const VERSION: u8 = 1;

/// A session's number has 24 bits.
pub const SESSION_MAX: u32 = 0xff_ffff;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The session that it belongs to, 24 bits.
    pub session: u32,
    /// What it says.
    pub packet: UdpPacket<'a>,
}

/// What a datagram says (Table A-X).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPacket<'a> {
    /// Is somebody there?
    Ping,
    /// Yes.
    PingReply,
    /// From the terminal: say how things are.
    StatusRequest,
    /// From the modem: how things are.
    Status(Status),
    /// A share of a set of data.
    Data(Share<'a>),
    /// From the modem: to be carried out, and acknowledged with its number.
    Command {
        /// Counts commands; a repetition has the same.
        number: u16,
        /// 1: stop receiving.
        command: u8,
    },
    /// From the modem: a command came.
    CommandAck {
        /// Its number.
        number: u16,
    },
}

/// How a modem is (A.5.2.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Counts them, modulo 65536.
    pub number: u16,
    /// The transfer that is sent.
    pub transfer: u16,
    /// What went wrong.
    pub errors: Errors,
    /// The receiver gives octets to the terminal.
    pub receives: bool,
    /// It hears a transmission.
    pub carrier: bool,
    /// What the transmitter does.
    pub state: UdpTxState,
    /// The terminal has control, and may send.
    pub in_control: bool,
    /// Packets of the transfer that were missing.
    pub dropped: u16,
    /// Standard deviation of how late packets come, in milliseconds.
    pub jitter_ms: u16,
    /// Octets that wait.
    pub queued_octets: u32,
    /// Octets for which there is room.
    pub free_octets: u32,
    /// What is received: bits each second, 24 bits.
    pub rx_bit_s: u32,
    /// Bits in its blocks, 24 bits.
    pub rx_block_bits: u32,
    /// What is sent: bits each second, 24 bits.
    pub tx_bit_s: u32,
    /// Bits in its blocks, 24 bits.
    pub tx_block_bits: u32,
}

impl Status {
    /// Whether it was sent after another one: a repeated one was, too (A.5.2.4.1).
    pub const fn is_after(&self, other: u16) -> bool {
        (self.number.wrapping_sub(other) as i16) >= 0
    }
}

/// What went wrong at a modem (Table A-XI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// The terminal sent too fast; the transfer ended.
    pub tx_overrun: bool,
    /// Octets came too late, or not at all; the transfer ended.
    pub tx_underrun: bool,
    /// Received octets found no room.
    pub rx_overrun: bool,
    /// Received octets ran out.
    pub rx_underrun: bool,
    /// Data came from a terminal without control.
    pub not_in_control: bool,
}

/// What a modem's transmitter does (Table A-XIV).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpTxState {
    /// Nothing.
    #[default]
    Flushed,
    /// It gathers octets.
    Queueing,
    /// It sends.
    Started,
    /// It sends the last of it.
    Draining,
}

/// One packet's part of a set (A.5.2.4.2, A.5.2.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share<'a> {
    /// The transfer.
    pub transfer: u16,
    /// Counts the transfer's packets, modulo 65536.
    pub number: u16,
    /// The modem is not to begin by itself.
    pub hold_off: bool,
    /// Of the transfer's last set.
    pub last: bool,
    /// Of its first set.
    pub first: bool,
    /// The code of its set.
    pub code: Code,
    /// From the modem, in a first set: by what it receives, rate and bits of a block.
    pub received_by: Option<(u32, u32)>,
    /// When it was sent, in milliseconds of a clock of the sender's.
    pub stamp_ms: u32,
    /// The octets.
    pub octets: &'a [u8],
}

/// Why octets are no datagram of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UdpError {
    /// Too short or too long.
    #[error("no datagram has so many octets")]
    Length,
    /// The check is wrong.
    #[error("its check is wrong")]
    Check,
    /// Of another version, or of a type or with fields that this one doesn't have.
    #[error("not of this protocol")]
    Unknown,
}

impl<'a> Datagram<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// It is none; it is to be ignored.
    pub fn parse(octets: &'a [u8]) -> Result<Self, UdpError> {
        if octets.len() > DATAGRAM_OCTETS_MAX {
            return Err(UdpError::Length);
        }
        let (all, check) = octets.split_last_chunk::<2>().ok_or(UdpError::Length)?;
        let (header, payload) = all.split_first_chunk::<4>().ok_or(UdpError::Length)?;
        if CRC.checksum(all) != u16::from_be_bytes(*check) {
            return Err(UdpError::Check);
        }
        let [first, session @ ..] = *header;
        if first >> 4 != VERSION {
            return Err(UdpError::Unknown);
        }
        let packet = UdpPacket::parse(first & 15, payload).ok_or(UdpError::Unknown)?;
        let session = number(&session);
        Ok(Self { session, packet })
    }

    /// The datagram's octets. Of a share that is longer than [`SHARE_OCTETS_MAX`] only so many.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(DATAGRAM_OCTETS_MAX);
        out.push(0);
        put24(&mut out, self.session);
        let kind = self.packet.payload(&mut out);
        out[0] = VERSION << 4 | kind;
        let check = CRC.checksum(&out);
        out.extend_from_slice(&check.to_be_bytes());
        out
    }
}

impl<'a> UdpPacket<'a> {
    fn parse(kind: u8, payload: &'a [u8]) -> Option<Self> {
        Some(match (kind, payload) {
            (1, []) => Self::Ping,
            (2, []) => Self::PingReply,
            (3, []) => Self::StatusRequest,
            (4, _) => Self::Status(Status::parse(payload.try_into().ok()?)?),
            (5 | 6, _) => Self::Data(Share::parse(kind == 6, payload)?),
            (7, [high, low, command, _]) => Self::Command {
                number: u16::from_be_bytes([*high, *low]),
                command: *command,
            },
            (8, [high, low, _, _]) => Self::CommandAck {
                number: u16::from_be_bytes([*high, *low]),
            },
            _ => return None,
        })
    }

    /// Appends the payload; returns the type.
    fn payload(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::Ping => return 1,
            Self::PingReply => return 2,
            Self::StatusRequest => return 3,
            Self::Status(status) => {
                status.emit(out);
                return 4;
            }
            Self::Data(share) => share.emit(out),
            Self::Command { number, command } => {
                out.extend_from_slice(&number.to_be_bytes());
                out.extend_from_slice(&[*command, 0]);
                return 7;
            }
            Self::CommandAck { number } => {
                out.extend_from_slice(&number.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
                return 8;
            }
        }
        5 + u8::from(matches!(self, Self::Data(share) if share.received_by.is_some()))
    }
}

impl Status {
    fn parse(octets: &[u8; 32]) -> Option<Self> {
        let at = |from: usize, octets_there: usize| number(&octets[from..from + octets_there]);
        let (errors, state) = (octets[6], octets[7]);
        let error = |bit: u8| errors >> bit & 1 == 1;
        Some(Self {
            number: at(0, 2) as u16,
            transfer: at(2, 2) as u16,
            errors: Errors {
                tx_overrun: error(0),
                tx_underrun: error(1),
                rx_overrun: error(2),
                rx_underrun: error(3),
                not_in_control: error(4),
            },
            receives: match state >> 5 & 3 {
                0 => false,
                1 => true,
                _ => return None,
            },
            carrier: state >> 4 & 1 == 1,
            state: *UdpTxState::ALL.get(usize::from(state >> 1 & 7))?,
            in_control: state & 1 == 1,
            dropped: at(8, 2) as u16,
            jitter_ms: at(10, 2) as u16,
            queued_octets: at(12, 4),
            free_octets: at(16, 4),
            rx_bit_s: at(20, 3),
            rx_block_bits: at(23, 3),
            tx_bit_s: at(26, 3),
            tx_block_bits: at(29, 3),
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.transfer.to_be_bytes());
        let it = &self.errors;
        let errors = [
            it.tx_overrun,
            it.tx_underrun,
            it.rx_overrun,
            it.rx_underrun,
            it.not_in_control,
        ];
        let errors = errors
            .iter()
            .rev()
            .fold(0, |all, it| all << 1 | u8::from(*it));
        let state = u8::from(self.receives) << 5
            | u8::from(self.carrier) << 4
            | (self.state as u8) << 1
            | u8::from(self.in_control);
        out.extend_from_slice(&[0, 0, errors, state]);
        out.extend_from_slice(&self.dropped.to_be_bytes());
        out.extend_from_slice(&self.jitter_ms.to_be_bytes());
        out.extend_from_slice(&self.queued_octets.to_be_bytes());
        out.extend_from_slice(&self.free_octets.to_be_bytes());
        for number in [
            self.rx_bit_s,
            self.rx_block_bits,
            self.tx_bit_s,
            self.tx_block_bits,
        ] {
            put24(out, number);
        }
    }
}

impl UdpTxState {
    const ALL: [Self; 4] = [Self::Flushed, Self::Queueing, Self::Started, Self::Draining];
}

impl<'a> Share<'a> {
    /// What the FEC and interleaver types must be: Reed-Solomon with erasures, by octets.
    const TYPES: u8 = 0x11;

    fn parse(enhanced: bool, payload: &'a [u8]) -> Option<Self> {
        let (head, rest) = payload.split_first_chunk::<10>()?;
        let (between, rest) = rest.split_at_checked(if enhanced { 6 } else { 2 })?;
        let (stamp, octets) = rest.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([head[8], head[9]]));
        if head[5] != Self::TYPES || length != octets.len() || length > SHARE_OCTETS_MAX {
            return None;
        }
        Some(Self {
            transfer: number(&head[..2]) as u16,
            number: number(&head[2..4]) as u16,
            hold_off: head[4] & 4 != 0,
            last: head[4] & 2 != 0,
            first: head[4] & 1 != 0,
            code: Code::new(head[6], head[7])?,
            received_by: enhanced.then(|| (number(&between[..3]), number(&between[3..]))),
            stamp_ms: u32::from_be_bytes(*stamp),
            octets,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let octets = &self.octets[..self.octets.len().min(SHARE_OCTETS_MAX)];
        out.extend_from_slice(&self.transfer.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        let control =
            u8::from(self.hold_off) << 2 | u8::from(self.last) << 1 | u8::from(self.first);
        out.extend_from_slice(&[control, Self::TYPES, self.code.n(), self.code.k()]);
        out.extend_from_slice(&(octets.len() as u16).to_be_bytes());
        match self.received_by {
            Some((rate, block)) => {
                put24(out, rate);
                put24(out, block);
            }
            None => out.extend_from_slice(&[0, 0]),
        }
        out.extend_from_slice(&self.stamp_ms.to_be_bytes());
        out.extend_from_slice(octets);
    }
}

/// A number of up to four octets.
fn number(octets: &[u8]) -> u32 {
    octets
        .iter()
        .fold(0, |number, octet| number << 8 | u32::from(*octet))
}

/// Appends a number of 24 bits; a greater one as the greatest.
fn put24(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.min(SESSION_MAX).to_be_bytes()[1..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn checked(octets: &[u8]) -> Vec<u8> {
        [octets, &CRC.checksum(octets).to_be_bytes()].concat()
    }

    const STATUS: Status = Status {
        number: 0x0102,
        transfer: 0x0304,
        errors: Errors {
            tx_overrun: false,
            tx_underrun: true,
            rx_overrun: false,
            rx_underrun: false,
            not_in_control: true,
        },
        receives: true,
        carrier: true,
        state: UdpTxState::Draining,
        in_control: true,
        dropped: 5,
        jitter_ms: 6,
        queued_octets: 7,
        free_octets: 8,
        rx_bit_s: 2400,
        rx_block_bits: 0x01_0203,
        tx_bit_s: 9600,
        tx_block_bits: 4608,
    };

    /// A.5.2.2, A.5.2.3, Figures A-11 and A-12, Table A-X.
    #[test]
    fn datagrams_have_a_version_a_type_a_session_and_a_check() {
        for (packet, head, payload) in [
            (UdpPacket::Ping, 0x11, &[][..]),
            (UdpPacket::PingReply, 0x12, &[]),
            (UdpPacket::StatusRequest, 0x13, &[]),
            (
                UdpPacket::Command {
                    number: 258,
                    command: 1,
                },
                0x17,
                &[1, 2, 1, 0],
            ),
            (UdpPacket::CommandAck { number: 258 }, 0x18, &[1, 2, 0, 0]),
        ] {
            let session = 0x0a_0b0c;
            let octets = checked(&[&[head, 0x0a, 0x0b, 0x0c], payload].concat());
            assert_eq!(Datagram { session, packet }.emit(), octets);
            assert_eq!(Datagram::parse(&octets), Ok(Datagram { session, packet }));
        }
        // The check of «1» is known from the interface over TCP.
        assert_eq!(checked(b"1"), [b'1', 0x1c, 0x81]);
    }

    /// A.5.2.4.1, Figures A-13 to A-15, Tables A-XI to A-XIV.
    #[test]
    fn a_status_has_these_octets() {
        let packet = UdpPacket::Status(STATUS);
        let octets = Datagram { session: 1, packet }.emit();
        let expected = [
            0x14, 0, 0, 1, 1, 2, 3, 4, 0, 0, 0b1_0010, 0b011_0111, 0, 5, 0, 6, 0, 0, 0, 7, 0, 0, 0,
            8, 0, 0x09, 0x60, 1, 2, 3, 0, 0x25, 0x80, 0, 0x12, 0,
        ];
        assert_eq!(octets, checked(&expected));
        let parsed = Datagram::parse(&octets).unwrap();
        assert_eq!(parsed.packet, packet);
        // Reserved states are none.
        for wrong in [0b100_0000, 0b1000] {
            let mut reserved = expected;
            reserved[11] = wrong;
            assert_eq!(Datagram::parse(&checked(&reserved)), Err(UdpError::Unknown));
        }
    }

    /// A.5.2.4.1: numbers count modulo 65536; one that is behind is older.
    #[test]
    fn a_status_is_after_another_within_half_of_all_numbers() {
        let numbered = |number| Status { number, ..STATUS };
        assert!(numbered(0).is_after(0xffff));
        assert!(numbered(5).is_after(5));
        assert!(numbered(0x8000).is_after(1));
        assert!(!numbered(0x8001).is_after(1));
        assert!(!numbered(4).is_after(5));
    }

    /// A.5.2.4.2 and A.5.2.4.3, Figures A-16 to A-18, Table A-XV.
    #[test]
    fn shares_have_these_octets() {
        let mut share = Share {
            transfer: 0x0102,
            number: 0x0304,
            hold_off: false,
            last: true,
            first: false,
            code: Code::new(7, 4).unwrap(),
            received_by: None,
            stamp_ms: 0x0506_0708,
            octets: b"AE",
        };
        let emit = |share: Share<'_>| {
            let packet = UdpPacket::Data(share);
            Datagram { session: 9, packet }.emit()
        };
        let plain = [
            0x15, 0, 0, 9, 1, 2, 3, 4, 2, 0x11, 7, 4, 0, 2, 0, 0, 5, 6, 7, 8, b'A', b'E',
        ];
        assert_eq!(emit(share), checked(&plain));
        share.received_by = Some((2400, 1152));
        (share.first, share.hold_off) = (true, true);
        let enhanced = [
            0x16, 0, 0, 9, 1, 2, 3, 4, 7, 0x11, 7, 4, 0, 2, 0, 9, 0x60, 0, 4, 0x80, 5, 6, 7, 8,
            b'A', b'E',
        ];
        assert_eq!(emit(share), checked(&enhanced));
        assert_eq!(
            Datagram::parse(&checked(&enhanced)).unwrap().packet,
            UdpPacket::Data(share)
        );
        // Another code or interleaver, a code that can't be, another length: ignored.
        for (at, wrong) in [(9, 0x21), (9, 0x12), (10, 16), (11, 7), (11, 0), (13, 3)] {
            let mut other = plain;
            other[at] = wrong;
            assert_eq!(
                Datagram::parse(&checked(&other)),
                Err(UdpError::Unknown),
                "{at}"
            );
        }
    }

    /// A.5.2.2: 1226 octets at most; A.5.2.6.3: what fails the check, is of another version or
    /// type, or of a wrong format, is ignored.
    #[test]
    fn what_is_none_is_ignored() {
        let longest = Share {
            transfer: 0,
            number: 0,
            hold_off: false,
            last: false,
            first: false,
            code: Code::new(8, 5).unwrap(),
            received_by: Some((1, 1)),
            stamp_ms: 0,
            octets: &[1; SHARE_OCTETS_MAX + 1],
        };
        let packet = UdpPacket::Data(longest);
        let octets = Datagram { session: 1, packet }.emit();
        assert_eq!(octets.len(), DATAGRAM_OCTETS_MAX);
        assert!(Datagram::parse(&octets).is_ok());
        let long = vec![0x11; DATAGRAM_OCTETS_MAX + 1];
        assert_eq!(Datagram::parse(&long), Err(UdpError::Length));
        assert_eq!(Datagram::parse(&[0x11, 0, 0, 0, 0]), Err(UdpError::Length));
        assert_eq!(
            Datagram::parse(&[0x11, 0, 0, 1, 0, 0]),
            Err(UdpError::Check)
        );
        for head in [0x01, 0x21, 0x10, 0x19, 0x1f] {
            let octets = checked(&[head, 0, 0, 1]);
            assert_eq!(Datagram::parse(&octets), Err(UdpError::Unknown));
        }
        assert_eq!(
            Datagram::parse(&checked(&[0x11, 0, 0, 1, 7])),
            Err(UdpError::Unknown)
        );
        assert_eq!(
            Datagram::parse(&checked(&[0x14, 0, 0, 1, 7])),
            Err(UdpError::Unknown)
        );
    }

    proptest! {
        #[test]
        fn no_octets_make_it_fail(payload in prop::collection::vec(any::<u8>(), 0..80), kind: u8) {
            let _ = Datagram::parse(&payload);
            let octets = checked(&[&[0x10 | kind & 15, 1, 2, 3], &payload[..]].concat());
            if let Ok(parsed) = Datagram::parse(&octets) {
                let again = parsed.emit();
                prop_assert_eq!(Datagram::parse(&again), Ok(parsed));
            }
        }
    }
}
