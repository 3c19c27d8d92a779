//! What every port sent, as pcapng: one file a node, one interface a port.

use std::collections::BTreeMap;

use strait_core::node::TxMeta;
use strait_core::{Instant, PortId};
use strait_wire::octets::Unstuffer;
use strait_wire::pcapng::{self, linktype};

/// Octets of a frame that are kept.
const SNAP_OCTETS: usize = 65_535;

struct Port {
    linktype: u16,
    /// Finds the frames of an octet stream, whose pulls are single octets.
    frames: Option<Unstuffer>,
}

struct NodeCapture {
    name: String,
    file: Vec<u8>,
    ports: Vec<Port>,
}

/// The captures of a world.
pub(crate) struct Captures {
    nodes: Vec<NodeCapture>,
}

/// What travels on a port, as far as a capture is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// IP packets.
    Packets,
    /// Our link frames.
    Frames,
    /// Our link frames on an octet stream.
    Octets,
}

impl Captures {
    /// Captures of nodes with names and numbers of ports; `port` tells a port's link and what it
    /// carries.
    pub(crate) fn new<'a>(
        nodes: impl Iterator<Item = (&'a str, usize)>,
        port: impl Fn(usize, usize) -> (String, Carries),
    ) -> Self {
        let capture = |(index, (name, ports)): (usize, (&str, usize))| {
            let mut file = Vec::new();
            pcapng::section(&mut file, "strait");
            let ports = (0..ports).map(|number| {
                let (link, carries) = port(index, number);
                let linktype = match carries {
                    Carries::Packets => linktype::RAW,
                    Carries::Frames | Carries::Octets => linktype::USER0,
                };
                pcapng::interface(&mut file, linktype, SNAP_OCTETS as u32, &link);
                let frames = (carries == Carries::Octets).then(|| Unstuffer::new(SNAP_OCTETS));
                Port { linktype, frames }
            });
            let ports = ports.collect();
            NodeCapture {
                name: name.to_owned(),
                ports,
                file,
            }
        };
        Self {
            nodes: nodes.enumerate().map(capture).collect(),
        }
    }

    /// Records what `port` of a node sends at `now`.
    pub(crate) fn sent(
        &mut self,
        now: Instant,
        node: usize,
        port: PortId,
        meta: TxMeta,
        octets: &[u8],
    ) {
        let capture = &mut self.nodes[node];
        let entry = &mut capture.ports[port.index()];
        let comment =
            (entry.linktype == linktype::USER0).then(|| format!("class {}", meta.class.0));
        let file = &mut capture.file;
        let mut write = |frame: &[u8]| {
            let kept = &frame[..frame.len().min(SNAP_OCTETS)];
            let length = frame.len() as u32;
            pcapng::packet(
                file,
                u32::from(port.0),
                now.as_nanos(),
                kept,
                length,
                comment.as_deref(),
            );
        };
        match &mut entry.frames {
            Some(frames) => frames.feed(octets, |frame| {
                if let Ok(frame) = frame {
                    write(frame);
                }
            }),
            None => write(octets),
        }
    }

    /// The files, by name.
    pub(crate) fn finish(self) -> BTreeMap<String, Vec<u8>> {
        self.nodes
            .into_iter()
            .map(|node| (format!("{}.pcapng", node.name), node.file))
            .collect()
    }
}
