//! Where a packet's source may lie. What comes by a link has to lie beyond it, as far as routes
//! tell (RFC 2827, RFC 3704 section 2), and nobody has an address that means something else to each
//! host (RFC 1812 section 5.3.7). What comes by a host side doesn't lie at another one.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strait_core::{Packet, PortId};
use strait_wire::ip::Chatter;

use super::Gateway;
use crate::config::{HostConfig, HostKind};
use crate::route::{Hop, Prefix, is_of_the_link};

impl Gateway {
    /// Whether a packet says of itself what can't be where it came from.
    pub(super) fn has_wrong_source(
        &self,
        packet: &Packet,
        chatter: Option<Chatter>,
        from: Hop,
    ) -> bool {
        let info = packet.info();
        if self.is_host(from) {
            return self.has_several_hosts && self.lies_at_another(info.src, from.port);
        }
        // Who asks for an address has none yet. Unless the port lets such chatter pass, it doesn't
        // come this far.
        let asks = info.src.is_unspecified() && chatter.is_some();
        (is_nobodys(info.src) && !asks)
            || (is_nobodys(info.dst) && !info.dst.is_multicast() && info.dst != Ipv4Addr::BROADCAST)
            || self.own.iter().any(|(own, _)| own.address == info.src)
            || self.is_of_station(info.src)
            // Routers on both sides of a link may share one network and say there who they are.
            || (!is_local_group(info.dst) && self.lies_elsewhere(info.src, from.port))
    }

    /// Whether routes tell that an address doesn't lie behind the port that it came by.
    fn lies_elsewhere(&self, src: IpAddr, by: PortId) -> bool {
        if self.ports[by.index()].queue.takes_any_source() || is_of_the_link(src) {
            return false;
        }
        if self.is_near(src) {
            return true;
        }
        // Routes that change by themselves lead there and back by different ways, and by a port
        // that no route names there may be no way back at all.
        match self.told_by_route(src).filter(|_| self.fixed) {
            None => false,
            Some((_, hop)) if self.is_host(hop) => true,
            Some((_, hop)) => hop.port != by && self.routes.names(by),
        }
    }

    /// The route that tells where an address lies. One to everywhere tells nothing.
    fn told_by_route(&self, address: IpAddr) -> Option<(Prefix, Hop)> {
        let route = self.routes.matching(address);
        route.filter(|(prefix, _)| prefix.length > 0)
    }

    /// Whether an address is of a network at a host side, no part of which lies elsewhere.
    fn is_near(&self, address: IpAddr) -> bool {
        let length = (self.told_by_route(address)).map_or(0, |(prefix, _)| prefix.length);
        let mut near = self.near.iter();
        near.any(|(near, _)| near.contains(address) && near.length > length)
    }

    /// The host side at which an address lies, as far as that is known.
    fn lies_at(&self, address: IpAddr) -> Option<PortId> {
        if is_of_the_link(address) {
            return None;
        }
        if let Some((_, side)) = self.own.iter().find(|(own, _)| own.address == address) {
            return Some(*side);
        }
        let told = self.told_by_route(address);
        let length = told.map_or(0, |(prefix, _)| prefix.length);
        let near = self.near.iter().filter(|(near, _)| near.contains(address));
        let near = near.max_by_key(|(near, _)| near.length);
        let near = near.filter(|(near, _)| near.length > length);
        let routed = || Some(told?.1).filter(|hop| self.is_host(*hop));
        near.map_or_else(|| routed().map(|hop| hop.port), |(_, side)| Some(*side))
    }

    /// Whether an address that came by a host side lies at another one. TUN interfaces are all of
    /// one kernel, which chooses by destination.
    fn lies_at_another(&self, src: IpAddr, by: PortId) -> bool {
        let is_lan = |side: PortId| self.lans.contains(&side);
        let lies_at = self.lies_at(src).filter(|side| *side != by);
        lies_at.is_some_and(|side| is_lan(side) || is_lan(by))
    }

    /// Whether a packet takes a hop here. Hosts on both sides of a link may share one network, and
    /// the gateways stand for each other's; what another router on the Ethernet hands over to a
    /// link takes one, as from link to link, or from one host side to another. What routers say to
    /// neighbours has none to spare.
    pub(super) fn counts_hop(&self, packet: &Packet, from: Hop, hop: Hop) -> bool {
        let info = packet.info();
        let handed = || {
            let lies_here = || self.lies_at(info.src) == Some(from.port);
            self.is_ethernet(from) && !lies_here() && !is_local_group(info.dst)
        };
        match (self.is_host(from), self.is_host(hop)) {
            (true, false) => handed(),
            (from_host, to_host) => from_host == to_host,
        }
    }

    pub(super) fn is_ethernet(&self, hop: Hop) -> bool {
        self.lans.contains(&hop.port)
    }

    pub(super) const fn has_ethernet(&self) -> bool {
        !self.lans.is_empty()
    }

    /// Whether a packet is one that no router passes on (RFC 3927 section 7, RFC 4291 section
    /// 2.5.6). A line between two TUN interfaces is one link; an Ethernet, or another line, is
    /// another. What goes to a group of the link stays at its host side, too.
    pub(super) fn stays_on_link(&self, packet: &Packet, from: Hop, hop: Option<Hop>) -> bool {
        let info = packet.info();
        let of_the_link = is_of_the_link(info.src) || is_of_the_link(info.dst);
        let leaves = || match hop {
            Some(hop) => {
                let alike = self.is_host(from) == self.is_host(hop);
                alike || self.is_ethernet(from) || self.is_ethernet(hop)
            }
            None => self.has_ethernet(),
        };
        if hop.is_some_and(|hop| self.is_between_hosts(from, hop)) {
            return of_the_link || is_local_group(info.dst);
        }
        of_the_link && !info.dst.is_multicast() && leaves()
    }
}

/// Networks at a host side: those that the configuration tells, and of an Ethernet the own ones.
/// On a TUN interface the network of an own address is as a rule the line itself.
pub(super) fn near((port, host): (PortId, &HostConfig)) -> Vec<(Prefix, PortId)> {
    let own = host.addresses.iter().filter(|_| host.kind == HostKind::Tap);
    let all = own.chain(&host.networks);
    all.map(|network| (*network, port)).collect()
}

/// Groups that no router passes on (RFC 5771 section 4, RFC 4291 section 2.7).
fn is_local_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]) || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast() && v6.segments()[0] & 0xf <= 2,
    }
}

/// Whether an address is no single host's on any network.
fn is_nobodys(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_nobodys_v4(v4),
        IpAddr::V6(v6) => is_nobodys_v6(v6),
    }
}

/// This network, loopback, groups, all (RFC 6890 section 2.2.2).
fn is_nobodys_v4(address: Ipv4Addr) -> bool {
    let this_network = address.octets()[0] == 0;
    this_network || address.is_loopback() || address.is_multicast() || address.is_broadcast()
}

/// Unspecified, loopback and groups; IPv4 addresses as programs write them, which are on no wire
/// (RFC 4291 section 2.5.5); and 6to4 (RFC 3056) and translated ones (RFC 6052) of such addresses.
fn is_nobodys_v6(address: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => true,
        [0x2002, high, low, ..] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_nobodys_v4(v4(high, low))
        }
        _ => address.is_multicast(),
    }
}
