//! Media in the world: which port is which station, and what nodes are told of them.

use std::collections::BTreeMap;

use strait_channel::hf::StationStats;
use strait_channel::{Heard, LinkConfig, Medium, MediumEvent, PathId, Side, StationId};
use strait_core::keys::KeyError;
use strait_core::node::{DownCause, FrameMeta, PortEvent, PortState};
use strait_core::rate::LineRate;
use strait_core::{Input, Instant, NeighbourId, PortId, TxMeta};

use super::device::Told;
use super::{Attach, Body, Fabric, NodeIndex, Port, World};
use crate::event::What;
use crate::few::Few;

/// A medium and who is on it. What each frame meets comes first, in a line of the processor's
/// cache.
#[repr(C, align(64))]
pub(super) struct Shared {
    pub(super) medium: Box<dyn Medium>,
    /// By station: its port, and the number that its node has for who is across, if that is one.
    ports: Few<Attach>,
    /// The moment for which a [`What::Medium`] is planned.
    planned: Option<Instant>,
    /// On a medium of many, the numbers that a station's node has for others.
    known: BTreeMap<(StationId, StationId), NeighbourId>,
    /// The kind and name under which links share it; lines have none.
    key: Option<(&'static str, String)>,
}

/// A port's place on a medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attached {
    medium: u32,
    /// Who is across; `None` where all on the medium are.
    pub(super) to: Option<NeighbourId>,
    pub(super) station: StationId,
}

impl Attached {
    /// The medium's number.
    pub(super) const fn medium(&self) -> usize {
        self.medium as usize
    }

    /// By what number somebody hears it here that is sent to `to`; `None` if nobody does.
    pub(super) fn reaches(&self, to: NeighbourId) -> Option<NeighbourId> {
        match self.to {
            Some(own) => (to == own || to == NeighbourId::ALL).then_some(own),
            None => Some(to),
        }
    }
}

/// Frames, or chunks of octets, on their way to a node.
#[derive(Default)]
pub(super) struct Flight {
    frames: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Flight {
    /// Puts octets on their way.
    fn keep(&mut self, bytes: &mut Vec<u8>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Vec::new());
            self.frames.len() as u32 - 1
        });
        std::mem::swap(&mut self.frames[index as usize], bytes);
        index
    }

    /// The octets of what has arrived.
    pub(super) fn open(&mut self, frame: u32) -> Vec<u8> {
        std::mem::take(&mut self.frames[frame as usize])
    }

    /// It is taken in; its buffer serves again.
    pub(super) fn end(&mut self, frame: u32, mut bytes: Vec<u8>) {
        bytes.clear();
        self.frames[frame as usize] = bytes;
        self.free.push(frame);
    }

    /// How many there are.
    pub(super) fn frames(&self) -> usize {
        self.frames.len() - self.free.len()
    }
}

impl Fabric {
    /// Puts a frame on a medium; takes its buffer if `last` says that nobody else needs it.
    pub(super) fn send(
        &mut self,
        now: Instant,
        at: &Attached,
        meta: &TxMeta,
        frame: &mut Vec<u8>,
        last: bool,
    ) {
        let mut copy;
        let frame = if last {
            frame
        } else {
            copy = frame.clone();
            &mut copy
        };
        let Self {
            media,
            events,
            flight,
            ..
        } = self;
        let Shared { medium, ports, .. } = &mut media[at.medium()];
        let mut deliver = |at, station: StationId, octets: &mut Vec<u8>| {
            let to = ports[station.0];
            let what = What::Arrival {
                port: to.port,
                from: to.neighbour,
                frame: flight.keep(octets),
            };
            events.push(at, to.node.0, what);
        };
        medium.transmit(now, at.station, meta, frame, &mut deliver);
        self.plan_medium(at.medium());
    }

    /// Plans to look after a medium when something happens there next.
    pub(super) fn plan_medium(&mut self, number: usize) {
        let Shared {
            medium, planned, ..
        } = &mut self.media[number];
        let Some(at) = medium.next_event() else {
            return;
        };
        if planned.is_none_or(|planned| at < planned) {
            *planned = Some(at);
            self.events.push(at, 0, What::Medium(number as u32));
        }
    }
}

impl World {
    pub(super) fn port_mut(&mut self, end: Attach) -> &mut Port {
        &mut self.slots[end.node.0].ports[end.port.index()]
    }

    /// Adds a line between two ports.
    pub(super) fn join_line(
        &mut self,
        name: &str,
        config: &LinkConfig,
        ends: [Attach; 2],
    ) -> Result<(usize, PathId), KeyError> {
        let line = config.medium(name, self.fabric.seed)?;
        let number = self.add_medium(None, line);
        for (station, end) in ends.into_iter().enumerate() {
            self.attach(number, StationId(station), end, Some(end.neighbour));
        }
        Ok((number, PathId(0)))
    }

    /// Makes both ends stations of a shared medium, if they aren't, and lays a path between them.
    pub(super) fn join_shared(
        &mut self,
        shared: Option<&str>,
        name: &str,
        config: &LinkConfig,
        ends: [Attach; 2],
    ) -> Result<(usize, PathId), KeyError> {
        let key = Some((config.kind.name(), shared.unwrap_or_default().to_owned()));
        let seed = self.fabric.seed;
        let number = match self.fabric.media.iter().position(|it| it.key == key) {
            Some(number) => number,
            None => self.add_medium(key, config.medium(name, seed)?),
        };
        let mut stations = [StationId(0); 2];
        for side in Side::BOTH {
            stations[side.index()] = self.station(number, config, side, ends[side.index()])?;
        }
        let shared = &mut self.fabric.media[number];
        let path = shared.medium.add_path(stations, config, name, seed)?;
        let [a, b] = stations;
        shared.known.insert((a, b), ends[0].neighbour);
        shared.known.insert((b, a), ends[1].neighbour);
        shared.medium.introduce(a, ends[0].neighbour, b);
        shared.medium.introduce(b, ends[1].neighbour, a);
        Ok((number, path))
    }

    fn station(
        &mut self,
        number: usize,
        config: &LinkConfig,
        side: Side,
        end: Attach,
    ) -> Result<StationId, KeyError> {
        let mut attached = self.port_mut(end).attached.iter();
        if let Some(at) = attached.find(|at| at.medium() == number) {
            return Ok(at.station);
        }
        let name = format!("{} {}", self.slots[end.node.0].name, end.port.0);
        let seed = self.fabric.seed;
        let medium = &mut self.fabric.media[number].medium;
        let station = medium.add_station(config, side, &name, seed)?;
        let all = Attach {
            neighbour: NeighbourId::PEER,
            ..end
        };
        self.attach(number, station, all, None);
        Ok(station)
    }

    fn add_medium(
        &mut self,
        key: Option<(&'static str, String)>,
        medium: Box<dyn Medium>,
    ) -> usize {
        self.fabric.media.push(Shared {
            key,
            medium,
            ports: Few::default(),
            known: BTreeMap::new(),
            planned: None,
        });
        self.fabric.media.len() - 1
    }

    fn attach(&mut self, medium: usize, station: StationId, end: Attach, to: Option<NeighbourId>) {
        self.fabric.media[medium].ports.push(end);
        self.port_mut(end).attached.push(Attached {
            medium: medium as u32,
            to,
            station,
        });
    }

    /// Tells a node that begins what its port has.
    pub(super) fn bring_port_up(&mut self, node: usize, port: PortId) {
        let attached = &self.slots[node].ports[port.index()].attached;
        let cause = match attached.is_empty() {
            true => DownCause::Device,
            false => DownCause::Carrier,
        };
        self.raise(node, port, cause);
        let media = &self.fabric.media;
        let mut attached = self.slots[node].ports[port.index()].attached.iter();
        if attached.any(|at| media[at.medium()].medium.carrier(at.station)) {
            let event = PortEvent::Carrier(true);
            self.give(node, Input::Port { port, event });
        }
    }

    /// Tells a node that a port is up, and who isn't there, or that it is down.
    fn raise(&mut self, node: usize, port: PortId, cause: DownCause) {
        let state = self.port_state(node, port);
        let event = state.map_or(PortEvent::Down(cause), PortEvent::Up);
        self.slots[node].ports[port.index()].up = state.is_some();
        self.give(node, Input::Port { port, event });
        let Some(state) = state else {
            return;
        };
        let (now, media) = (self.fabric.now, &self.fabric.media);
        let attached = &self.slots[node].ports[port.index()].attached;
        let away = |at: &&Attached| media[at.medium()].medium.state(now, at.station).is_none();
        let away: Vec<_> = attached.iter().filter(away).map(|at| at.to).collect();
        for to in away.into_iter().flatten() {
            let event = PortEvent::Neighbour(to, false);
            self.give(node, Input::Port { port, event });
        }
        let rates = self.rates(node, port);
        if rates.iter().any(|(_, rate)| *rate != state.tx_rate) {
            self.tell_rates(node, port, &rates);
        }
    }

    /// Rates towards those of several neighbours that each have a medium.
    fn rates(&self, node: usize, port: PortId) -> Vec<(NeighbourId, LineRate)> {
        let (now, media) = (self.fabric.now, &self.fabric.media);
        let attached = &self.slots[node].ports[port.index()].attached;
        if attached.len() < 2 {
            return Vec::new();
        }
        let rate = |at: &Attached| {
            let state = media[at.medium()].medium.state(now, at.station)?;
            Some((at.to?, state.tx_rate))
        };
        attached.iter().filter_map(rate).collect()
    }

    fn tell_rates(&mut self, node: usize, port: PortId, rates: &[(NeighbourId, LineRate)]) {
        for (to, rate) in rates {
            let event = PortEvent::NeighbourRate(*to, *rate);
            self.give(node, Input::Port { port, event });
        }
    }

    fn port_state(&self, node: usize, port: PortId) -> Option<PortState> {
        let (now, port) = (self.fabric.now, &self.slots[node].ports[port.index()]);
        let state = |at: &Attached| self.fabric.media[at.medium()].medium.state(now, at.station);
        let state = port.attached.iter().find_map(state)?;
        let around = port.envelope_octets() as u32;
        Some(PortState {
            frame_octets_max: state.frame_octets_max.saturating_sub(around),
            ..state
        })
    }

    /// Tells nodes what happens on a medium at this moment.
    pub(super) fn attend(&mut self, number: usize) {
        let now = self.fabric.now;
        self.fabric.media[number].planned.take_if(|at| *at == now);
        while let Some(event) = self.fabric.media[number].medium.poll(now) {
            self.tell(number, event);
        }
        self.fabric.plan_medium(number);
    }

    fn tell(&mut self, medium: usize, event: MediumEvent) {
        let Attach {
            node: NodeIndex(node),
            port,
            neighbour,
        } = self.fabric.media[medium].ports[event.station.0];
        let called = |other: StationId| {
            let known = &self.fabric.media[medium].known;
            known
                .get(&(event.station, other))
                .copied()
                .unwrap_or(neighbour)
        };
        let event = match event.what {
            Heard::Frame(from, octets) => {
                if let Body::Dead { .. } = self.slots[node].body {
                    self.fabric.missed += 1;
                }
                let input = Input::Frame {
                    port,
                    from: called(from),
                    bytes: &octets,
                    meta: FrameMeta::default(),
                };
                self.give(node, input);
                return self.settle(node);
            }
            Heard::Octets(octets, meta) => {
                if let Body::Dead { .. } = self.slots[node].body {
                    self.fabric.missed += 1;
                }
                let input = Input::Frame {
                    port,
                    from: neighbour,
                    bytes: &octets,
                    meta,
                };
                self.give(node, input);
                return self.settle(node);
            }
            Heard::Done { id, to, ok } => {
                let ok = match self.slots[node].ports[port.index()].device.told {
                    Told::Fate => Some(ok),
                    Told::Left => None,
                    Told::Nothing => return self.settle(node),
                };
                self.give(node, Input::TxDone { port, id, to, ok });
                return self.settle(node);
            }
            Heard::Carrier(on) => Some(PortEvent::Carrier(on)),
            Heard::Drained => Some(PortEvent::Drained),
            Heard::Changed => self.port_state(node, port).map(PortEvent::Changed),
            Heard::Neighbour(other, there) => {
                let to = called(other);
                let (was, is) = (
                    self.slots[node].ports[port.index()].up,
                    self.port_state(node, port).is_some(),
                );
                if was != is {
                    self.raise(node, port, DownCause::Carrier);
                }
                (was && is).then_some(PortEvent::Neighbour(to, there))
            }
        };
        let Some(event) = event else {
            return self.settle(node);
        };
        self.give(node, Input::Port { port, event });
        if let PortEvent::Changed(_) | PortEvent::Neighbour(_, true) = event {
            let rates = self.rates(node, port);
            self.tell_rates(node, port, &rates);
        }
        self.settle(node);
    }

    /// Every radio's node and port, and what it did and met on the air.
    pub fn radios(&self) -> impl Iterator<Item = (&str, PortId, &StationStats)> {
        let stations = self.fabric.media.iter().flat_map(|shared| {
            let ports = shared.ports.iter().enumerate();
            ports.filter_map(|(station, end)| {
                let stats = shared.medium.station_stats(StationId(station))?;
                Some((end, stats))
            })
        });
        stations.map(|(end, stats)| (self.slots[end.node.0].name.as_str(), end.port, stats))
    }

    /// A node's stations fall silent with it.
    pub(super) fn silence(&mut self, node: usize) {
        let now = self.fabric.now;
        for port in &self.slots[node].ports {
            for at in port.attached.iter() {
                self.fabric.media[at.medium()]
                    .medium
                    .silence(now, at.station);
                self.fabric.plan_medium(at.medium());
            }
        }
    }
}
