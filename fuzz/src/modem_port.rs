//! What comes by a modem's data port, over TCP and in datagrams.

use strait_wire::modem_port::udp::{Datagram, UdpPacket};
use strait_wire::modem_port::{ModemPacket, Order, PACKET_OCTETS_MAX, Parsed, TxState, TxStatus};

/// Octets of a stream: packets are read one after the other, each is written and read again, and
/// one that isn't whole is none, however little is missing. The same octets as a datagram, too.
pub fn modem_port(data: &[u8]) {
    datagram(data);
    let mut rest = data;
    loop {
        let (packet, length) = match ModemPacket::parse(rest) {
            Parsed::Packet(packet, length) => (packet, length),
            Parsed::Dropped(length) => {
                assert!(length > 0);
                rest = &rest[length..];
                continue;
            }
            Parsed::Part => return,
        };
        assert!(length <= PACKET_OCTETS_MAX);
        assert_eq!(ModemPacket::parse(&rest[..length - 1]), Parsed::Part);
        let mut out = Vec::new();
        packet.emit(&mut out);
        if packet == ModemPacket::Invalid {
            assert!(out.is_empty());
        } else {
            let again = Parsed::Packet(packet, out.len());
            assert_eq!(ModemPacket::parse(&out), again);
        }
        rest = &rest[length..];
    }
}

fn datagram(data: &[u8]) {
    let Ok(datagram) = Datagram::parse(data) else {
        return;
    };
    let again = datagram.emit();
    assert_eq!(Datagram::parse(&again), Ok(datagram));
    if let UdpPacket::Data(share) = datagram.packet {
        // A set that this is all of.
        let packets = vec![Some(share.octets.to_vec()); share.code.n().into()];
        let set = share.code.set_octets(share.octets.len());
        assert!(share.code.decode(&packets).is_none_or(|it| it.len() == set));
    }
}

/// A connection's packets, from its first to a carrier.
pub fn exchange() -> Vec<u8> {
    let mut out = Vec::new();
    for packet in [
        ModemPacket::Connect { version: 12 },
        ModemPacket::Probe,
        ModemPacket::Arm,
        ModemPacket::Data {
            order: Order::Only,
            id: [7; 12],
            octets: b"octets",
        },
        ModemPacket::Start,
        ModemPacket::TxStatus(TxStatus::of(TxState::Started, 65_536)),
        ModemPacket::Carrier {
            on: true,
            rate_bit_s: 1200,
            block_bits: 512,
        },
        ModemPacket::Error,
    ] {
        packet.emit(&mut out);
    }
    out
}
