//! Ethernet frames, and what is said in them about addresses and routers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arbitrary::{Result, Unstructured};
use strait_node::ethernet::Station;
use strait_wire::ethernet::{ARP, Arp, Frame, IPV4, IPV6, Mac, put_header};
use strait_wire::ip::{self, Discovery, Neighbour, PacketInfo, Periodic};

use crate::gateway::{address, packet};

/// Octets as a frame: each message that reads is built, and reads back as the same.
pub fn ethernet(data: &[u8]) {
    let Some(frame) = Frame::parse(data) else {
        assert!(data.len() < 14);
        return;
    };
    let text = frame.dst.to_string();
    assert_eq!(text.parse(), Ok(frame.dst));
    if let Some(arp) = Arp::parse(frame.payload).filter(|_| frame.ether_type == ARP) {
        let built = arp.frame(frame.dst);
        let again = Frame::parse(&built).and_then(|frame| Arp::parse(frame.payload));
        assert_eq!(again, Some(arp));
    }
    let Some(packet) = frame.packet() else {
        return;
    };
    assert!(packet.len() <= frame.payload.len());
    let info = PacketInfo::parse(packet);
    match (Discovery::parse(packet), info) {
        (Some(Discovery::Neighbour(message)), Ok(info)) => neighbour(&message, info.src, info.dst),
        (Some(_), Err(error)) => panic!("no packet, but a message: {error}"),
        _ => {}
    }
    if let Ok(info) = info {
        let periodic = Periodic::of(packet, &info);
        assert!(periodic.is_none_or(|periodic| periodic.interval_s > 0));
        assert!(Periodic::same(packet, packet) || packet.len() < 20);
    }
}

fn neighbour(message: &Neighbour, src: IpAddr, dst: IpAddr) {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (src, dst) else {
        panic!("neighbour discovery is of IPv6");
    };
    let mut built = Vec::new();
    assert!(message.build(src, dst, &mut built));
    let again = Discovery::parse(&built);
    assert_eq!(again, Some(Discovery::Neighbour(*message)));
}

const STATIONS: [Mac; 4] = [
    Mac([2, 0, 0, 0, 0, 1]),
    Mac([2, 0, 0, 0, 0, 2]),
    Mac([2, 0, 0, 0, 0, 3]),
    Mac::BROADCAST,
];

fn station(u: &mut Unstructured<'_>) -> Result<Mac> {
    Ok(match u.int_in_range(0..=4)? {
        4 => Mac(u.arbitrary()?),
        known => STATIONS[known],
    })
}

fn ipv4(u: &mut Unstructured<'_>) -> Result<Ipv4Addr> {
    Ok(match address(u)? {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    })
}

fn ipv6(u: &mut Unstructured<'_>) -> Result<Ipv6Addr> {
    Ok(match address(u)? {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => Ipv6Addr::UNSPECIFIED,
    })
}

/// A frame as stations send them: a packet, a question or answer about an address, a question for
/// routers, a hello.
pub fn frame(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (dst, src) = (station(u)?, station(u)?);
    let mut out = Vec::new();
    match u.int_in_range(0..=5)? {
        0 => {
            let arp = Arp {
                asks: u.arbitrary()?,
                sender: (src, ipv4(u)?),
                target: (station(u)?, ipv4(u)?),
            };
            return Ok(arp.frame(dst));
        }
        1 => {
            put_header(dst, src, IPV6, &mut out);
            let message = Neighbour {
                asks: u.arbitrary()?,
                target: ipv6(u)?,
                mac: u.arbitrary::<Option<[u8; 6]>>()?.map(Mac),
                router: u.arbitrary()?,
                solicited: u.arbitrary()?,
                overrides: u.arbitrary()?,
            };
            message.build(ipv6(u)?, ipv6(u)?, &mut out);
        }
        2 => {
            put_header(dst, src, IPV6, &mut out);
            ip::build_router_solicitation(ipv6(u)?, src, &mut out);
        }
        3 => {
            put_header(dst, src, IPV4, &mut out);
            ip::build_ospf_hello(ipv4(u)?, u.arbitrary()?, &[ipv4(u)?], &mut out);
        }
        _ => {
            let packet = packet(u)?;
            let v6 = packet.first().is_some_and(|first| first >> 4 == 6);
            put_header(dst, src, if v6 { IPV6 } else { IPV4 }, &mut out);
            out.extend_from_slice(&packet);
        }
    }
    Ok(out)
}

/// Frames of each kind.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut a = Station::new(STATIONS[0]);
    let names = ["arp", "neighbour", "routers"].map(String::from);
    a.ask([10, 2, 0, 2].into(), Some([10, 1, 0, 1].into()));
    a.ask(IpAddr::V6(Ipv6Addr::LOCALHOST), None);
    a.ask_routers();
    let frames = std::iter::from_fn(|| a.next_frame(usize::MAX));
    let mut seeds: Vec<_> = names.into_iter().zip(frames).collect();
    let mut hello = Vec::new();
    put_header(STATIONS[3], STATIONS[1], IPV4, &mut hello);
    ip::build_ospf_hello([10, 1, 0, 2].into(), 10, &[], &mut hello);
    seeds.push(("hello".into(), hello));
    seeds
}
