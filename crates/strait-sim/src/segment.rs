//! An Ethernet between a gateway and its hosts: a switch, and a station for each host that speaks
//! ARP and neighbour discovery for it.

use std::net::IpAddr;

use strait_core::node::{Command, PortEvent};
use strait_core::stats::Stats;
use strait_core::{
    ClassId, DropCause, Duration, Effect, Input, Instant, NeighbourId, Node, Packet, PortId, Room,
    TxMeta, Wake, WakeReason, Want,
};
use strait_node::Prefix;
use strait_node::ethernet::{Claim, Heard, Resolved, Station};
use strait_wire::ethernet::{HEADER_OCTETS, Mac};

use crate::outlets::Outlets;

/// The segment's port towards the gateway, where frames go; all others have a host and packets.
pub(crate) const GATEWAY: PortId = PortId(0);

/// A host as it is on its Ethernet.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its addresses; the rest of their networks is on the same Ethernet.
    pub addresses: Vec<Prefix>,
    /// Who leads out of it, of each family.
    pub routers: Vec<IpAddr>,
}

/// An Ethernet with the stations of its hosts. Hosts reach each other without a word: questions are
/// asked of the gateway alone.
#[derive(Debug)]
pub struct Segment {
    /// Packets, and by which station they leave for the gateway.
    outlets: Outlets<usize>,
    stations: Vec<Attached>,
    survey: Option<Survey>,
}

#[derive(Debug)]
struct Attached {
    station: Station,
    seat: Seat,
}

/// Questions that the first host asks again and again, whether it has something to send or not.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Addresses that it asks for.
    pub targets: Vec<IpAddr>,
    /// Whether it asks for routers, too.
    pub routers: bool,
    /// When it asks first.
    pub next: Instant,
    /// Time between two rounds.
    pub period: Duration,
}

impl Segment {
    /// A segment with a host in each seat: the first is at port 1. `queue_packets` may wait at each
    /// port.
    pub fn new(seats: Vec<Seat>, queue_packets: usize) -> Self {
        let names = (0..=seats.len()).map(|port| format!("port{port}"));
        let attached = |(number, seat): (usize, Seat)| Attached {
            station: Station::new(Mac([2, 0, 0, 1, (number >> 8) as u8, number as u8])),
            seat,
        };
        Self {
            outlets: Outlets::new(names, queue_packets),
            stations: seats.into_iter().enumerate().map(attached).collect(),
            survey: None,
        }
    }

    /// Lets the first host ask without need.
    pub fn survey(&mut self, survey: Survey) {
        self.survey = Some(survey);
    }

    /// A packet of the host at `port`.
    fn take_packet(&mut self, now: Instant, port: PortId, bytes: &[u8]) {
        let Some(packet) = self.outlets.admit(now, port, bytes) else {
            return;
        };
        let dst = packet.info().dst;
        if let Some(local) = self.find(dst) {
            return self
                .outlets
                .enqueue(now, PortId(local as u8 + 1), (local, packet));
        }
        let from = port.index() - 1;
        let Attached { station, seat } = &mut self.stations[from];
        let hop = seat.hop(dst);
        let source = Some(packet.info().src);
        match station.resolve(now, hop, source, packet) {
            Resolved::Goes(packet) => self.outlets.enqueue(now, GATEWAY, (from, packet)),
            Resolved::Waits => {}
            Resolved::Refused(packet) => {
                self.outlets.ledger.drop(now, packet, DropCause::Unresolved);
            }
        }
    }

    /// A frame of the gateway.
    fn take_frame(&mut self, now: Instant, bytes: &[u8]) {
        let mut came = Vec::new();
        for (number, Attached { station, seat }) in self.stations.iter_mut().enumerate() {
            let own = |address: IpAddr| {
                let own = seat.addresses.iter().any(|own| own.address == address);
                if own { Claim::Own } else { Claim::None }
            };
            if let Heard::Packet(packet) = station.hear(now, bytes, own) {
                came.push((number, packet));
            }
            // They had their places already.
            let released = station.released().into_iter();
            let held = released.map(|packet| (number, packet));
            self.outlets.enqueue_held(GATEWAY, held);
        }
        // What is for many is for each; a packet has one fate here, so one of them hears it.
        let Some((number, packet)) = came.into_iter().next() else {
            return;
        };
        if let Some(packet) = self.outlets.admit(now, GATEWAY, packet) {
            self.outlets
                .enqueue(now, PortId(number as u8 + 1), (number, packet));
        }
    }

    fn find(&self, dst: IpAddr) -> Option<usize> {
        let has = |it: &Attached| it.seat.addresses.iter().any(|own| own.address == dst);
        self.stations.iter().position(has)
    }

    fn timeout(&mut self, now: Instant) {
        for Attached { station, .. } in &mut self.stations {
            for packet in station.advance(now) {
                self.outlets.ledger.drop(now, packet, DropCause::Unresolved);
            }
        }
        let (Some(survey), Some(first)) = (&mut self.survey, self.stations.first_mut()) else {
            return;
        };
        if now < survey.next {
            return;
        }
        survey.next += survey.period;
        for target in &survey.targets {
            let like = |own: &&Prefix| own.address.is_ipv4() == target.is_ipv4();
            let source = first.seat.addresses.iter().find(like);
            first.station.ask(*target, source.map(|own| own.address));
        }
        if survey.routers {
            first.station.ask_routers();
        }
    }

    fn port_event(&mut self, now: Instant, port: PortId, event: PortEvent) {
        if matches!(event, PortEvent::Down(_)) && port == GATEWAY {
            for packet in self.stations.iter_mut().flat_map(|it| it.station.clear()) {
                self.outlets.ledger.drop(now, packet, DropCause::PortDown);
            }
        }
        self.outlets.port_event(port, event);
    }

    /// Destroys everything.
    fn stop(&mut self, now: Instant) {
        self.outlets.stop(now);
        for packet in self.stations.iter_mut().flat_map(|it| it.station.clear()) {
            self.outlets.ledger.drop(now, packet, DropCause::Stopped);
        }
    }

    fn words(&self) -> Option<usize> {
        self.stations.iter().find_map(|it| it.station.wants())
    }

    fn pull_word(&mut self, room: Room, out: &mut Vec<u8>) -> Option<TxMeta> {
        let mut stations = self.stations.iter_mut();
        let frame = stations.find_map(|it| it.station.next_frame(room.octets))?;
        out.extend_from_slice(&frame);
        self.outlets.leaves(GATEWAY, room.starts, frame.len());
        Some(TxMeta::to_peer(ClassId(0)))
    }
}

impl Seat {
    /// Whom a packet to `dst` is given to.
    fn hop(&self, dst: IpAddr) -> IpAddr {
        let near = self.addresses.iter().any(|own| own.contains(dst));
        let like = |router: &&IpAddr| router.is_ipv4() == dst.is_ipv4();
        let router = self.routers.iter().find(like).filter(|_| !near);
        router.map_or(dst, |router| *router)
    }
}

impl Node for Segment {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Frame { port, bytes, .. } => {
                self.outlets.came(port, bytes.len());
                if port == GATEWAY {
                    self.take_frame(now, bytes);
                } else {
                    self.take_packet(now, port, bytes);
                }
            }
            Input::Port { port, event } => self.port_event(now, port, event),
            Input::Timeout => self.timeout(now),
            Input::Command(Command::Stop) => self.stop(now),
            _ => {}
        }
    }

    fn wants(&self, id: PortId) -> Option<Want> {
        if !self.outlets.is_up(id) {
            return None;
        }
        let word = self.words().filter(|_| id == GATEWAY);
        let octets = word.or_else(|| self.outlets.next_octets(id))?;
        Some(Want {
            class: ClassId(0),
            octets: octets as u32,
            to: NeighbourId::PEER,
        })
    }

    fn reads(&self, _port: PortId) -> bool {
        true
    }

    fn poll_transmit(
        &mut self,
        _now: Instant,
        id: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        if !self.outlets.is_up(id) {
            return None;
        }
        if id != GATEWAY {
            return self.outlets.send(id, room, out, 0, |_, _, _| {});
        }
        if let Some(meta) = self.pull_word(room, out) {
            return Some(meta);
        }
        let stations = &self.stations;
        let header = |number: &usize, packet: &Packet, out: &mut Vec<u8>| {
            let Attached { station, seat } = &stations[*number];
            station.put_header(seat.hop(packet.info().dst), out);
        };
        self.outlets.send(id, room, out, HEADER_OCTETS, header)
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.outlets.ledger.poll().map(Effect::Fate)
    }

    fn wake(&self) -> Option<Wake> {
        let stations = self.stations.iter().filter_map(|it| it.station.wake());
        let survey = self.survey.as_ref().map(|survey| survey.next);
        let at = stations.chain(survey).min()?;
        Some(Wake {
            at,
            why: WakeReason::Local,
        })
    }

    fn stats(&self) -> &Stats {
        self.outlets.ledger.stats()
    }

    fn check(&self) {
        let held = self.stations.iter().map(|it| it.station.held()).sum();
        self.outlets.check(held);
    }
}
