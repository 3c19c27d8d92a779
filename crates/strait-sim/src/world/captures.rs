//! Records of what every port sends.

use std::collections::BTreeMap;

use strait_core::PortId;

use super::{Attach, Body, World};
use crate::capture::{Captures, Carries};
use crate::segment::GATEWAY;

impl World {
    /// Records what every port sends.
    pub fn capture(&mut self) {
        let ports = self
            .slots
            .iter()
            .map(|slot| (slot.name.as_str(), slot.ports.len()));
        let kinds = |node: usize, port: usize| {
            let Some(link) = self.slots[node].ports[port].links.first() else {
                return (String::from("unattached"), Carries::Packets);
            };
            let link = &self.fabric.links[*link];
            let body = |end: &Attach| &self.slots[end.node.0].body;
            let plain = |end: &Attach| !matches!(body(end), Body::Gateway { .. });
            let ethernet =
                |end: &Attach| end.port == GATEWAY && matches!(body(end), Body::Segment(_));
            let carries = if link.ends.iter().any(ethernet) {
                Carries::Ethernet
            } else if port == PortId::HOST.index()
                || link.ends.iter().any(plain)
                || self.slots[node].ports[port].sends_raw()
            {
                Carries::Packets
            } else if link.config.is_keyed_by_turns() {
                Carries::DPdus
            } else if link.config.kind.carries_octets() {
                let urgent = self.slots[node].ports[port].device.urgent;
                Carries::Octets { urgent }
            } else if self.slots[node].ports[port].device.hops {
                Carries::Hops
            } else {
                Carries::Frames
            };
            (link.name.clone(), carries)
        };
        self.fabric.captures = Some(Captures::new(ports, kinds));
    }

    /// The captures: a file name and its octets for each node.
    pub fn take_captures(&mut self) -> BTreeMap<String, Vec<u8>> {
        self.fabric
            .captures
            .take()
            .map(Captures::finish)
            .unwrap_or_default()
    }
}
