//! The packets of MIL-STD-188-110D Appendix A written and read from its text, with nothing of ours:
//! what tests play another maker's modem and terminal by.
#![allow(
    dead_code,
    reason = "a modem's tests use one part, a terminal's the other"
)]

use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The CRC, bit by bit as A.5.3 has it.
pub(super) fn crc(octets: &[u8]) -> [u8; 2] {
    let mut crc = 0u16;
    for octet in octets {
        for bit in 0..8 {
            let out = crc & 1 ^ u16::from(octet >> bit & 1);
            crc >>= 1;
            if out == 1 {
                crc ^= 0x9299;
            }
        }
    }
    crc.to_be_bytes()
}

/// A packet over TCP.
pub(super) fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u16).to_be_bytes();
    let mut packet = vec![0x49, 0x50, 0x55, kind, size[0], size[1]];
    packet.extend(crc(&packet));
    if !payload.is_empty() {
        packet.extend(payload);
        packet.extend(crc(payload));
    }
    packet
}

/// A packet of type DATA with a command.
pub(super) fn data(payload: &[u8]) -> Vec<u8> {
    packet(0, payload)
}

pub(super) fn connect(version: u8) -> Vec<u8> {
    packet(1, &[version])
}

pub(super) fn connect_ack(version: u8) -> Vec<u8> {
    packet(2, &[version])
}

pub(super) const ARM: u8 = 1;
pub(super) const START: u8 = 2;
pub(super) const PROBE: u8 = 11;

pub(super) const FLUSHED: u8 = 1;
pub(super) const NOT_READY: u8 = 2;
pub(super) const READY: u8 = 3;
pub(super) const STARTED: u8 = 4;
pub(super) const DRAINING: u8 = 5;
pub(super) const FORCED: u8 = 6;

fn numbers(command: &[u8], numbers: &[u32]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|it| it.to_be_bytes());
    data(&command.iter().copied().chain(numbers).collect::<Vec<u8>>())
}

/// A status of the transmitter: state, space, fill, critical milliseconds and octets.
pub(super) fn tx_status(state: u8, rest: [u32; 4]) -> Vec<u8> {
    numbers(&[5, state], &rest)
}

pub(super) fn carrier(on: u8, rate_bit_s: u32, block_bits: u32) -> Vec<u8> {
    numbers(&[8, on], &[rate_bit_s, block_bits])
}

pub(super) fn tx_setup(rate_bit_s: u32, block_bits: u32) -> Vec<u8> {
    numbers(&[9], &[rate_bit_s, block_bits])
}

/// An initial set-up: the flag for synchronous, and the four codes behind it.
pub(super) fn initial_setup(line: [u8; 5]) -> Vec<u8> {
    let mut payload = vec![10];
    payload.extend([15u32, 0, 5000].iter().flat_map(|it| it.to_be_bytes()));
    payload.extend(line);
    data(&payload)
}

/// Octets to send or received, with a packet's order and number.
pub(super) fn octets(order: u8, id: u8, octets: &[u8]) -> Vec<u8> {
    data(&[&[0, order], &[id; 12][..], octets].concat())
}

/// The next packet of a stream: its type and payload.
pub(super) fn read(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut header = [0; 8];
    stream.read_exact(&mut header).unwrap();
    assert_eq!(header[..3], [0x49, 0x50, 0x55]);
    assert_eq!(header[6..], crc(&header[..6]));
    let size = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut payload = vec![0; size];
    if size > 0 {
        let mut check = [0; 2];
        stream.read_exact(&mut payload).unwrap();
        stream.read_exact(&mut check).unwrap();
        assert_eq!(check, crc(&payload));
    }
    (header[3], payload)
}

/// Whether the other side has hung up, once all that it said was read.
pub(super) fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A datagram of a session.
pub(super) fn datagram(kind: u8, session: u32, payload: &[u8]) -> Vec<u8> {
    let session = session.to_be_bytes();
    let mut octets = vec![0x10 | kind, session[1], session[2], session[3]];
    octets.extend(payload);
    octets.extend(crc(&octets));
    octets
}

/// The next datagram: its type, session and payload.
pub(super) fn hear(socket: &UdpSocket) -> (u8, u32, Vec<u8>) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 2048];
    let octets = socket.recv(&mut buffer).unwrap();
    let (all, check) = buffer[..octets].split_at(octets - 2);
    assert_eq!(check, crc(all));
    assert_eq!(all[0] >> 4, 1, "the version");
    let session = u32::from_be_bytes([0, all[1], all[2], all[3]]);
    (all[0] & 15, session, all[4..].to_vec())
}
