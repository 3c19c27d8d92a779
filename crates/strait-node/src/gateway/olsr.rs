//! Routes that the gateways of a mobile network find among themselves.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::fate::Fate;
use strait_core::node::RouteChange;
use strait_core::stats::OlsrStats;
use strait_core::{Instant, NeighbourId, Packet, PortId};
use strait_olsr::{Change, GROUP_V4, GROUP_V6, PORT, Router, Via};
use strait_wire::ip::{build_udp, udp_payload};

use super::Gateway;
use super::services::Around;
use crate::config::{NodeConfig, OlsrConfig};
use crate::route::{Hop, Prefix};

/// What routers say to each other goes before what they route (CS6 of RFC 4594).
const DSCP: u8 = 48;

/// The routers of a gateway, one a family.
#[derive(Debug)]
pub(super) struct Olsr {
    routers: Vec<Router>,
    /// Ways that the node file has: nothing leads elsewhere.
    fixed: BTreeSet<Prefix>,
}

impl Olsr {
    pub(super) fn new(olsr: &OlsrConfig, config: &NodeConfig, seed: u64) -> Self {
        let routers = olsr.routers(config).into_iter().zip(0..);
        let fixed = config.routes.iter().map(|route| route.prefix.network());
        Self {
            routers: routers.map(|(it, n)| Router::new(it, seed ^ n)).collect(),
            fixed: fixed.collect(),
        }
    }

    /// Whether a packet is one of those that routers send to all that hear them.
    pub(super) fn is_for(packet: &Packet) -> bool {
        let info = packet.info();
        let group = info.dst == IpAddr::V4(GROUP_V4) || info.dst == IpAddr::V6(GROUP_V6);
        group && info.ports.is_some_and(|(_, to)| to == PORT)
    }

    fn hear(&mut self, now: Instant, packet: &Packet, from: Hop) {
        let src = packet.info().src;
        let Some((_, payload)) = udp_payload(packet.bytes()) else {
            return;
        };
        let via = Via {
            port: from.port,
            to: from.to,
        };
        let mut routers = self.routers.iter_mut();
        if let Some(router) = routers.find(|it| it.main().is_ipv4() == src.is_ipv4()) {
            router.hear(now, via, src, payload);
        }
    }

    /// A packet came from a neighbour, for whomever.
    fn comes(&mut self, from: Hop) {
        let via = Via {
            port: from.port,
            to: from.to,
        };
        for router in &mut self.routers {
            router.comes(via);
        }
    }

    /// The medium could, or couldn't, deliver a frame.
    pub(super) fn tell(&mut self, now: Instant, port: PortId, to: NeighbourId, ok: bool) {
        for router in &mut self.routers {
            router.tell(now, Via { port, to }, ok);
        }
    }

    /// Does what is due.
    pub(super) fn settle(&mut self, now: Instant, around: &mut Around<'_>) {
        for router in self.routers.iter_mut().filter(|it| it.wake() <= now) {
            router.settle(now);
            while let Some((via, payload)) = router.poll_packet() {
                send(now, router.main(), via, &payload, around);
            }
        }
        around.ledger.stats_mut().olsr = Some(self.stats());
    }

    fn stats(&self) -> OlsrStats {
        let mut routers = self.routers.iter().map(Router::stats);
        let first = routers.next().copied().unwrap_or_default();
        routers.fold(first, |all, it| OlsrStats {
            neighbours: all.neighbours + it.neighbours,
            relays: all.relays + it.relays,
            selectors: all.selectors + it.selectors,
            routes: all.routes + it.routes,
            packets_out: all.packets_out + it.packets_out,
            octets_out: all.octets_out + it.octets_out,
            packets_in: all.packets_in + it.packets_in,
            malformed: all.malformed + it.malformed,
            forwarded: all.forwarded + it.forwarded,
            crowded: all.crowded + it.crowded,
            noticed: all.noticed + it.noticed,
            changes: all.changes + it.changes,
        })
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.routers.iter().map(Router::wake).min()
    }

    /// Routes that changed, but for those of the node file.
    fn take_changes(&mut self) -> Vec<Change> {
        let fixed = &self.fixed;
        let changes = self.routers.iter_mut().flat_map(Router::take_changes);
        changes.filter(|it| !fixed.contains(&it.prefix)).collect()
    }
}

/// Sends a router's packet to all at a port; or a copy to one, where what is for all isn't for each
/// of them anyway.
fn send(now: Instant, main: IpAddr, via: Via, payload: &[u8], around: &mut Around<'_>) {
    let Via { port, to } = via;
    let group = match main {
        IpAddr::V4(_) => GROUP_V4.into(),
        IpAddr::V6(_) => GROUP_V6.into(),
    };
    let ends = (SocketAddr::new(main, PORT), SocketAddr::new(group, PORT));
    let there = &around.ports[port.index()];
    if !there.queue.is_up() || !(main.is_ipv4() || there.queue.carries_v6) {
        return;
    }
    let (all, one) = (there.all(), to != NeighbourId::ALL);
    let each = all != [NeighbourId::ALL];
    let to = match (one, each) {
        (true, true) => return,
        (true, false) => alloc::vec![to],
        (false, _) => all,
    };
    for to in to {
        let mut bytes = Vec::new();
        if build_udp(ends.0, ends.1, DSCP, 1, 0, 0, payload, &mut bytes) {
            around.send(now, bytes, Hop { port, to });
        }
    }
}

/// Takes a packet from another gateway's router, or gives it back.
pub(super) fn hear_router(
    gateway: &mut Gateway,
    now: Instant,
    packet: Packet,
    from: Hop,
) -> Option<Packet> {
    let Some(olsr) = &mut gateway.services.olsr else {
        return Some(packet);
    };
    if gateway.hosts.contains(from.port) {
        return Some(packet);
    }
    if !Olsr::is_for(&packet) {
        olsr.comes(from);
        return Some(packet);
    }
    olsr.hear(now, &packet, from);
    gateway.ledger.close(now, packet, Fate::Absorbed);
    None
}

/// Has a gateway go by the routes that were found.
pub(super) fn take_found(gateway: &mut Gateway, now: Instant) {
    let Some(olsr) = &mut gateway.services.olsr else {
        return;
    };
    let changes = olsr.take_changes();
    if changes.is_empty() {
        return;
    }
    for Change { prefix, via, links } in changes {
        let (address, length) = (prefix.address, prefix.length);
        gateway.change_routes(match via {
            Some(Via { port, to: via }) => RouteChange::Add {
                prefix: address,
                length,
                port,
                via,
            },
            None => RouteChange::Remove {
                prefix: address,
                length,
            },
        });
        gateway.routes.set_beyond(prefix, links.saturating_sub(1));
        gateway.leads.learn(prefix, via.is_some());
    }
    gateway.route_anew(now);
    gateway.look_for_ways(now);
}
