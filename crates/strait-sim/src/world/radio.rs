//! Ports with a radio: what they put on the air, and what they hear.

use strait_channel::hf::{Air, Heard, PathId, StationId, StationStats};
use strait_channel::{Line, LinkConfig, LinkError, LinkKind, Side};
use strait_core::node::{FrameMeta, PortEvent};
use strait_core::{Input, Instant, NeighbourId, PortId, TxMeta};

use super::{Attach, Body, Fabric, World};
use crate::event::What;

/// What a link is made of.
pub(super) enum Medium {
    Line(Box<Line>),
    Path(PathId),
}

/// All radios of the world.
#[derive(Default)]
pub(super) struct Radio {
    pub(super) air: Air,
    /// By station: its port.
    ports: Vec<Attach>,
    /// The moment for which a [`What::Air`] is planned.
    planned: Option<Instant>,
}

impl Fabric {
    /// Puts octets on the air.
    pub(super) fn on_air(&mut self, now: Instant, station: StationId, meta: TxMeta, octets: &[u8]) {
        self.radio.air.transmit(now, station, meta.turn, octets);
        self.plan_air();
    }

    /// Plans to listen when something happens next.
    pub(super) fn plan_air(&mut self) {
        let Some(at) = self.radio.air.next_event() else {
            return;
        };
        if self.radio.planned.is_none_or(|planned| at < planned) {
            self.radio.planned = Some(at);
            self.events.push(at, 0, What::Air);
        }
    }
}

impl World {
    /// A line, or a path between radios.
    pub(super) fn medium(
        &mut self,
        name: &str,
        config: &LinkConfig,
        ends: [Attach; 2],
    ) -> Result<Medium, LinkError> {
        if config.kind == LinkKind::Hf {
            return self.join_radio(name, config, ends).map(Medium::Path);
        }
        let line = Line::new(config, name, self.fabric.seed)?;
        Ok(Medium::Line(Box::new(line)))
    }

    /// Gives both ends their radios, if they have none, and lays a path between them.
    fn join_radio(
        &mut self,
        name: &str,
        config: &LinkConfig,
        ends: [Attach; 2],
    ) -> Result<PathId, LinkError> {
        let mut stations = [StationId(0); 2];
        for side in Side::BOTH {
            stations[side.index()] = self.station(config, side, ends[side.index()])?;
        }
        let seed = self.fabric.seed;
        self.fabric.radio.air.add_path(stations, config, name, seed)
    }

    fn station(
        &mut self,
        config: &LinkConfig,
        side: Side,
        end: Attach,
    ) -> Result<StationId, LinkError> {
        self.reserve_ports(end.node, end.port.0 + 1);
        let slot = &mut self.slots[end.node.0];
        let port = &mut slot.ports[end.port.index()];
        if let Some(station) = port.station {
            return Ok(station);
        }
        let name = format!("{} {}", slot.name, end.port.0);
        let radio = &mut self.fabric.radio;
        let station = radio
            .air
            .add_station(config, side, &name, self.fabric.seed)?;
        port.station = Some(station);
        radio.ports.push(end);
        Ok(station)
    }

    /// Tells nodes what happens on the air at this moment.
    pub(super) fn hear(&mut self, now: Instant) {
        if self.fabric.radio.planned == Some(now) {
            self.fabric.radio.planned = None;
        }
        while let Some(event) = self.fabric.radio.air.poll(now) {
            let Attach { node, port, .. } = self.fabric.radio.ports[event.station.0];
            let node = node.0;
            let told = |event| Input::Port { port, event };
            let mode = self.fabric.radio.air.mode_heard(event.station);
            match &event.what {
                Heard::Octets(octets, snr_centi_db) => {
                    if let Body::Dead { .. } = self.slots[node].body {
                        self.fabric.missed += 1;
                    }
                    let input = Input::Frame {
                        port,
                        // Who sends is in the octets, if anywhere.
                        from: NeighbourId::PEER,
                        bytes: octets,
                        meta: FrameMeta {
                            damaged: false,
                            snr_centi_db: *snr_centi_db,
                            rate_bit_s: mode.map(|mode| mode.rate_bit_s),
                        },
                    };
                    self.give(node, input);
                }
                Heard::Carrier(on) => self.give(node, told(PortEvent::Carrier(*on))),
                Heard::Drained => self.give(node, told(PortEvent::Drained)),
            }
            self.settle(node);
        }
        self.fabric.plan_air();
    }

    /// Every radio's node and port, and what it did and met on the air.
    pub fn radios(&self) -> impl Iterator<Item = (&str, PortId, &StationStats)> {
        let Radio { air, ports, .. } = &self.fabric.radio;
        ports.iter().enumerate().map(|(number, end)| {
            let stats = air.station_stats(StationId(number));
            (self.slots[end.node.0].name.as_str(), end.port, stats)
        })
    }

    /// A node's radios fall silent with it.
    pub(super) fn silence(&mut self, node: usize) {
        let stations = self.slots[node]
            .ports
            .iter()
            .filter_map(|port| port.station);
        for station in stations {
            self.fabric.radio.air.cut(self.fabric.now, station);
        }
        self.fabric.plan_air();
    }
}
