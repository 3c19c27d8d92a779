//! What every port sent, as pcapng: one file a node, one interface a port.

use std::collections::BTreeMap;

use strait_core::node::TxMeta;
use strait_core::{Instant, PortId};
use strait_wire::octets::Unstuffer;
use strait_wire::pcapng::{self, linktype};
use strait_wire::segment::SegmentCheck;
use strait_wire::urgent::Interleaved;

/// Octets of a frame that are kept.
const SNAP_OCTETS: usize = 65_535;

struct Port {
    linktype: u16,
    octets: Octets,
}

/// How the octets of a port's pulls, single ones on an octet stream, become records.
enum Octets {
    /// Each pull is one.
    Records,
    /// Each frame is one.
    Frames(Unstuffer),
    /// The octets as they are, up to the end of each frame of either kind: an urgent one stands
    /// inside another.
    Line { ends: Interleaved, held: Vec<u8> },
}

impl Octets {
    fn of(carries: Carries) -> Self {
        match carries {
            Carries::Packets
            | Carries::Ethernet
            | Carries::Frames
            | Carries::Hops
            | Carries::DPdus => Self::Records,
            Carries::Octets { urgent: None } => Self::Frames(Unstuffer::new(SNAP_OCTETS)),
            Carries::Octets {
                urgent: Some(check),
            } => Self::Line {
                ends: Interleaved::new(SNAP_OCTETS, Some(check)),
                held: Vec::new(),
            },
        }
    }

    /// Takes what was pulled, and tells the records that it makes whole.
    fn feed(&mut self, octets: &[u8], mut tell: impl FnMut(&[u8])) {
        match self {
            Self::Records => tell(octets),
            Self::Frames(frames) => frames.feed(octets, |frame| {
                if let Ok(frame) = frame {
                    tell(frame);
                }
            }),
            Self::Line { ends, held } => {
                for octet in octets {
                    held.push(*octet);
                    let mut ended = held.len() == SNAP_OCTETS;
                    ends.feed(&[*octet], |_| ended = true);
                    if ended {
                        tell(held);
                        held.clear();
                    }
                }
            }
        }
    }
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
    /// Ethernet frames.
    Ethernet,
    /// Our link frames.
    Frames,
    /// Frames of reliable hops.
    Hops,
    /// D_PDUs of STANAG 5066, one a pull.
    DPdus,
    /// Our link frames on an octet stream, which may have urgent frames with this check.
    Octets { urgent: Option<SegmentCheck> },
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
                    Carries::Ethernet => linktype::ETHERNET,
                    Carries::Hops => linktype::USER3,
                    Carries::DPdus => linktype::STANAG_5066_D_PDU,
                    Carries::Frames | Carries::Octets { urgent: None } => linktype::USER0,
                    Carries::Octets { urgent: Some(_) } => linktype::USER2,
                };
                pcapng::interface(&mut file, linktype, SNAP_OCTETS as u32, &link);
                let octets = Octets::of(carries);
                Port { linktype, octets }
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
        if octets.is_empty() {
            return;
        }
        let capture = &mut self.nodes[node];
        let entry = &mut capture.ports[port.index()];
        let comment = (entry.linktype != linktype::RAW).then(|| format!("class {}", meta.class.0));
        let file = &mut capture.file;
        entry.octets.feed(octets, |frame: &[u8]| {
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
        });
    }

    /// The files, by name.
    pub(crate) fn finish(self) -> BTreeMap<String, Vec<u8>> {
        self.nodes
            .into_iter()
            .map(|node| (format!("{}.pcapng", node.name), node.file))
            .collect()
    }
}
