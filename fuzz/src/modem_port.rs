//! What comes by a modem's data port.

use strait_wire::modem_port::{ModemPacket, Order, PAYLOAD_OCTETS_MAX};

/// Octets of a stream: packets are read one after the other, each is written and read again, and
/// one that isn't whole is none, however little is missing.
pub fn modem_port(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((packet, length))) = ModemPacket::parse(rest) {
        assert!(length <= PAYLOAD_OCTETS_MAX + 10);
        assert!(matches!(ModemPacket::parse(&rest[..length - 1]), Ok(None)));
        let mut out = Vec::new();
        packet.emit(&mut out);
        if packet == ModemPacket::Other {
            assert!(out.is_empty());
        } else {
            assert_eq!(ModemPacket::parse(&out), Ok(Some((packet, out.len()))));
        }
        rest = &rest[length..];
    }
}

/// A connection's packets, from its first to a carrier.
pub fn exchange() -> Vec<u8> {
    let mut out = Vec::new();
    for packet in [
        ModemPacket::Connect { version: 12 },
        ModemPacket::Probe,
        ModemPacket::Arm,
        ModemPacket::TxData {
            order: Order::Only,
            octets: b"octets",
        },
        ModemPacket::Start,
        ModemPacket::Carrier {
            on: true,
            rate_bit_s: 1200,
            block_bits: 512,
        },
        ModemPacket::Error { code: 3 },
    ] {
        packet.emit(&mut out);
    }
    out
}
