//! Background chatter: what hosts say to their neighbourhood by themselves, and what means nothing
//! beyond it.

use super::{PacketInfo, parse, protocol};
use core::net::{IpAddr, Ipv4Addr};

/// A kind of background chatter.
///
/// All of it asks or tells the hosts of one network something. Carried across a narrow link it
/// costs line time and finds nobody: answers don't come back, or name addresses that the other side
/// can't use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Chatter {
    /// Addresses asked for or offered on the local network: DHCP (RFC 2131), DHCPv6 (RFC 8415).
    /// What a relay forwards to one server is none.
    Dhcp,
    /// IPv4 group membership (RFC 3376).
    Igmp,
    /// OSPF and RIP of IPv6, whose routers have link-local addresses only (RFC 5340 section 4.2.1,
    /// RFC 2080 section 2.1). Beyond an Ethernet nobody reaches these: no router there becomes a
    /// neighbour, and routes by them would lead nowhere. On a link without Ethernet it is none.
    LinkRouting,
    /// Link-local multicast name resolution (RFC 4795).
    Llmnr,
    /// Multicast DNS (RFC 6762).
    Mdns,
    /// IPv6 group membership (RFC 2710, RFC 3810), and the search for who routes groups (RFC 4286).
    Mld,
    /// IPv6 neighbour solicitation and advertisement (RFC 4861), inverse ones (RFC 3122), and
    /// redirects of both versions.
    NeighbourDiscovery,
    /// NetBIOS name and datagram service (RFC 1002).
    Netbios,
    /// Router solicitation and advertisement (RFC 4861, in IPv4 RFC 1256), and the certificates of
    /// routers (RFC 3971).
    RouterDiscovery,
    /// Simple service discovery of UPnP.
    Ssdp,
    /// Web services discovery.
    WsDiscovery,
    /// Anything else to every host of the network: 255.255.255.255, which no router forwards
    /// (RFC 1812 section 5.3.5.1).
    Broadcast,
}

impl Chatter {
    /// All kinds, in the order of the arrays indexed by them.
    pub const ALL: [Self; 12] = [
        Self::Dhcp,
        Self::Igmp,
        Self::LinkRouting,
        Self::Llmnr,
        Self::Mdns,
        Self::Mld,
        Self::NeighbourDiscovery,
        Self::Netbios,
        Self::RouterDiscovery,
        Self::Ssdp,
        Self::WsDiscovery,
        Self::Broadcast,
    ];

    /// The word in configuration, tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dhcp => "dhcp",
            Self::Igmp => "igmp",
            Self::LinkRouting => "link-routing",
            Self::Llmnr => "llmnr",
            Self::Mdns => "mdns",
            Self::Mld => "mld",
            Self::NeighbourDiscovery => "neighbour-discovery",
            Self::Netbios => "netbios",
            Self::RouterDiscovery => "router-discovery",
            Self::Ssdp => "ssdp",
            Self::WsDiscovery => "ws-discovery",
            Self::Broadcast => "broadcast",
        }
    }

    /// The kind that a packet is; `None` if it is ordinary traffic. `info` is what was read from
    /// `bytes`.
    pub fn of(bytes: &[u8], info: &PacketInfo) -> Option<Self> {
        const IGMP: u8 = 2;
        let to_all = info.dst == IpAddr::V4(Ipv4Addr::BROADCAST);
        let named = match info.protocol {
            IGMP if info.dst.is_ipv4() => Some(Self::Igmp),
            protocol::ICMP if info.dst.is_ipv4() => message(bytes).and_then(Self::of_icmp),
            protocol::ICMPV6 if info.dst.is_ipv6() => message(bytes).and_then(Self::of_icmpv6),
            protocol::OSPF if is_link_local(info.src) => Some(Self::LinkRouting),
            protocol::UDP => info
                .ports
                .filter(|ports| ports.1 == RIPNG_PORT && is_link_local(info.src))
                .map(|_| Self::LinkRouting)
                .or_else(|| {
                    let to_many = to_all || info.dst.is_multicast();
                    info.ports.and_then(|ports| Self::of_udp(ports, to_many))
                }),
            _ => None,
        };
        named.or_else(|| to_all.then_some(Self::Broadcast))
    }

    fn of_udp(ports: (u16, u16), to_many: bool) -> Option<Self> {
        match ports.1 {
            // Names of Windows hosts go by these ports only, to all or to one.
            137 | 138 => Some(Self::Netbios),
            67 | 68 | 546 | 547 if to_many => Some(Self::Dhcp),
            5355 if to_many => Some(Self::Llmnr),
            5353 if to_many || ports.0 == 5353 => Some(Self::Mdns),
            1900 if to_many => Some(Self::Ssdp),
            3702 if to_many => Some(Self::WsDiscovery),
            _ => None,
        }
    }

    const fn of_icmp(kind: u8) -> Option<Self> {
        match kind {
            5 => Some(Self::NeighbourDiscovery),
            9 | 10 => Some(Self::RouterDiscovery),
            _ => None,
        }
    }

    const fn of_icmpv6(kind: u8) -> Option<Self> {
        match kind {
            130..=132 | 143 | 151..=153 => Some(Self::Mld),
            133 | 134 | 148 | 149 => Some(Self::RouterDiscovery),
            135..=137 | 141 | 142 => Some(Self::NeighbourDiscovery),
            _ => None,
        }
    }
}

const RIPNG_PORT: u16 = 521;

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The type of an ICMP message of either version.
fn message(bytes: &[u8]) -> Option<u8> {
    let layout = parse::layout(bytes).ok()?;
    let begins = !layout.info.later_fragment;
    layout.segment(bytes).first().copied().filter(|_| begins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{PING4, UDP6, ipv4, ipv6};
    use crate::ip::{build_ospf3_hello, build_udp};
    use alloc::vec::Vec;
    use core::net::Ipv6Addr;

    fn kind(bytes: &[u8]) -> Option<Chatter> {
        Chatter::of(bytes, &PacketInfo::parse(bytes).unwrap())
    }

    fn udp(src_port: u16, dst: &str, dst_port: u16) -> Option<Chatter> {
        let dst: IpAddr = dst.parse().unwrap();
        let src = if dst.is_ipv4() {
            "10.1.0.2"
        } else {
            "fd00:1::2"
        };
        let src: IpAddr = src.parse().unwrap();
        let mut out = Vec::new();
        let ends = ((src, src_port).into(), (dst, dst_port).into());
        assert!(build_udp(
            ends.0,
            ends.1,
            0,
            1,
            0,
            0,
            b"who is there",
            &mut out
        ));
        kind(&out)
    }

    #[test]
    fn what_hosts_say_to_everybody_is_told_by_group_and_port() {
        assert_eq!(udp(5353, "224.0.0.251", 5353), Some(Chatter::Mdns));
        assert_eq!(udp(40_000, "ff02::fb", 5353), Some(Chatter::Mdns));
        assert_eq!(udp(5353, "10.2.0.2", 5353), Some(Chatter::Mdns));
        assert_eq!(udp(40_000, "224.0.0.252", 5355), Some(Chatter::Llmnr));
        assert_eq!(udp(40_000, "239.255.255.250", 1900), Some(Chatter::Ssdp));
        assert_eq!(udp(40_000, "ff02::c", 1900), Some(Chatter::Ssdp));
        assert_eq!(
            udp(40_000, "239.255.255.250", 3702),
            Some(Chatter::WsDiscovery)
        );
        assert_eq!(udp(137, "10.2.0.255", 137), Some(Chatter::Netbios));
        assert_eq!(udp(138, "10.2.0.2", 138), Some(Chatter::Netbios));
        assert_eq!(udp(68, "255.255.255.255", 67), Some(Chatter::Dhcp));
        assert_eq!(udp(546, "ff02::1:2", 547), Some(Chatter::Dhcp));
        assert_eq!(
            udp(17_500, "255.255.255.255", 17_500),
            Some(Chatter::Broadcast)
        );
    }

    #[test]
    fn routers_with_link_local_addresses_alone_are_told_by_protocol_and_source() {
        let mut out = Vec::new();
        let own: IpAddr = "fe80::9".parse().unwrap();
        let routers: IpAddr = "ff02::9".parse().unwrap();
        let mut rip = |src: IpAddr, dst: IpAddr, port: u16| {
            out.clear();
            let ends = ((src, 521).into(), (dst, port).into());
            assert!(build_udp(
                ends.0,
                ends.1,
                48,
                1,
                0,
                0,
                &[2, 1, 0, 0],
                &mut out
            ));
            kind(&out)
        };
        assert_eq!(rip(own, routers, 521), Some(Chatter::LinkRouting));
        assert_eq!(rip(own, routers, 522), None);
        // A request of a monitor that is a hop away (RFC 2080 section 2.4.1).
        assert_eq!(
            rip(
                "fd00:1::2".parse().unwrap(),
                "fd00:2::2".parse().unwrap(),
                521
            ),
            None
        );
        let mut hello = Vec::new();
        assert!(build_ospf3_hello(
            "fe80::9".parse().unwrap(),
            10,
            &mut hello
        ));
        assert_eq!(kind(&hello), Some(Chatter::LinkRouting));
        // A virtual link's is from a global address.
        hello[8..24].copy_from_slice(&Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 2).octets());
        assert_eq!(kind(&hello), None);
    }

    #[test]
    fn what_is_meant_for_one_or_for_a_route_is_none() {
        // A unicast query to a server on that port, a relayed DHCP message, OLSR, RIP.
        assert_eq!(udp(40_000, "10.2.0.2", 5353), None);
        assert_eq!(udp(67, "10.2.0.2", 67), None);
        assert_eq!(udp(698, "224.0.0.109", 698), None);
        assert_eq!(udp(520, "224.0.0.9", 520), None);
        assert_eq!(udp(40_000, "10.2.0.2", 1900), None);
        assert_eq!(kind(PING4), None);
        assert_eq!(kind(UDP6), None);
        // OSPF.
        assert_eq!(kind(&ipv4(&[], 0, 89, &[2, 1])), None);
    }

    #[test]
    fn icmpv6_and_igmp_are_told_by_type() {
        let icmp = |kind: u8| [kind, 0, 0, 0, 0, 0, 0, 0];
        let of = |number| kind(&ipv6(58, &icmp(number)));
        for (numbers, expected) in [
            (&[128, 129, 1, 155][..], None),
            (&[130, 131, 132, 143, 151, 153], Some(Chatter::Mld)),
            (&[133, 134, 148, 149], Some(Chatter::RouterDiscovery)),
            (&[135, 136, 137, 141], Some(Chatter::NeighbourDiscovery)),
        ] {
            assert!(numbers.iter().all(|number| of(*number) == expected));
        }
        let of = |number| kind(&ipv4(&[], 0, 1, &icmp(number)));
        for (numbers, expected) in [
            (&[0, 3, 8, 11][..], None),
            (&[9, 10], Some(Chatter::RouterDiscovery)),
            (&[5], Some(Chatter::NeighbourDiscovery)),
        ] {
            assert!(numbers.iter().all(|number| of(*number) == expected));
        }
        assert_eq!(kind(&ipv6(58, &[])), None);
        assert_eq!(
            kind(&ipv4(&[], 0, 2, &[0x22, 0, 0, 0])),
            Some(Chatter::Igmp)
        );
        // A listener report as a kernel sends it: behind a hop-by-hop header with a router alert.
        let report = [&[58, 0, 5, 2, 0, 0, 1, 0][..], &icmp(143)].concat();
        assert_eq!(kind(&ipv6(0, &report)), Some(Chatter::Mld));
    }
}
