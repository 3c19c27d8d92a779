//! Whether a network really kept two hosts from opening a connection for as long as they are bound
//! to try: on a line of 300 bit/s a SYN takes three seconds for each hop, and a second behind it
//! is a repeat already.
//!
//! Judged from what the hosts put on their ports and what was delivered to them, not from anything
//! that the endpoints say of themselves.

use std::collections::BTreeMap;
use std::net::IpAddr;

use strait_core::{Duration, Fate, Instant};
use strait_sim::{Built, NodeIndex, World};
use strait_wire::ip::{PacketInfo, TcpFlags, digest, tcp_header};
use strait_wire::pcapng::{Block, Reader};

/// How long an answer to a SYN may be waited for: repeats after 1, 2, 4, 8, 16 and 32 s, and 64 s
/// more. Profiles that repeat the first at even gaps, or begin at 3 s, wait longer.
const OPENER: Duration = Duration::from_secs(127);
/// How long the answer's acknowledgement may: the same with one repeat fewer.
const ANSWERER: Duration = Duration::from_secs(63);

/// Both ends of a connection, the one that opened it first.
type Ends = [(IpAddr, u16); 2];

/// A segment of a handshake as a host sent it.
struct Sent {
    at: Instant,
    flags: TcpFlags,
    digest: u64,
}

/// What one end sent, and where.
#[derive(Default)]
struct End {
    node: Option<NodeIndex>,
    sent: Vec<Sent>,
}

/// All that hosts sent by TCP, and when packets were delivered where.
pub(crate) struct Openings {
    connections: BTreeMap<Ends, [End; 2]>,
    delivered: BTreeMap<(usize, u64), Instant>,
}

impl Openings {
    /// Reads the captures of a world that has kept its fates.
    pub(crate) fn of(built: &mut Built) -> Self {
        let world = built.world_mut();
        let captures = world.take_captures();
        let mut openings = Self {
            connections: BTreeMap::new(),
            delivered: first_deliveries(world),
        };
        for (index, name) in world.names().enumerate() {
            let node = NodeIndex(index);
            let file = captures.get(&format!("{name}.pcapng"));
            if let Some(octets) = file.filter(|_| world.host(node).is_some()) {
                openings.read(node, octets);
            }
        }
        openings
    }

    fn read(&mut self, node: NodeIndex, octets: &[u8]) {
        for block in Reader::new(octets) {
            let Ok(Block::Packet(packet)) = block else {
                continue;
            };
            let headers = PacketInfo::parse(packet.bytes).ok();
            let (Some(info), Some(tcp)) = (headers, tcp_header(packet.bytes)) else {
                continue;
            };
            let (Some(ports), Some(at_ns)) = (info.ports, packet.time_ns) else {
                continue;
            };
            let (from, to) = ((info.src, ports.0), (info.dst, ports.1));
            // The listening ends have the lower ports.
            let opener = from.1 > to.1;
            let ends = if opener { [from, to] } else { [to, from] };
            let end = &mut self.connections.entry(ends).or_default()[usize::from(!opener)];
            end.node = Some(node);
            end.sent.push(Sent {
                at: Instant::from_nanos(at_ns),
                flags: tcp.flags,
                digest: digest(packet.bytes),
            });
        }
    }

    /// Connections to this port that the network kept from being opened.
    pub(crate) fn prevented(&self, port: u16) -> usize {
        let to = self
            .connections
            .iter()
            .filter(|(ends, _)| ends[1].1 == port);
        let prevented = |[opener, answerer]: &&[End; 2]| {
            let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
            let is_syn = |flags: TcpFlags| flags.contains(syn) && !flags.contains(ack);
            let is_answer = |flags: TcpFlags| flags.contains(syn) && flags.contains(ack);
            let is_last = |flags: TcpFlags| !flags.contains(syn) && flags.contains(ack);
            self.is_overdue((opener, is_syn), (answerer, is_answer), OPENER)
                || self.is_overdue((answerer, is_answer), (opener, is_last), ANSWERER)
        };
        to.map(|(_, ends)| ends).filter(prevented).count()
    }

    /// One end asked for at least half of `patience` (its last wait is the other half), the other
    /// answered if anything came to it, and no answer came back within `patience`.
    fn is_overdue(
        &self,
        (asks, question): (&End, impl Fn(TcpFlags) -> bool),
        (answers, answer): (&End, impl Fn(TcpFlags) -> bool),
        patience: Duration,
    ) -> bool {
        let questions = || asks.sent.iter().filter(|sent| question(sent.flags));
        let replies = || answers.sent.iter().filter(|sent| answer(sent.flags));
        let (Some(first), Some(last)) = (questions().next(), questions().last()) else {
            return false;
        };
        let came = |sent: &Sent, to: &End| {
            let node = to.node.map(|node| node.0)?;
            self.delivered.get(&(node, sent.digest)).copied()
        };
        let heard = questions().any(|sent| came(sent, answers).is_some());
        let answered = replies().next().is_some();
        let back = replies().filter_map(|sent| came(sent, asks)).min();
        last.at.since(first.at) * 2 >= patience - Duration::from_secs(1)
            && (answered || !heard)
            && back.is_none_or(|at| at.since(first.at) >= patience)
    }
}

fn first_deliveries(world: &World) -> BTreeMap<(usize, u64), Instant> {
    let mut first = BTreeMap::new();
    for entry in world.fates() {
        let record = &entry.record;
        if matches!(record.fate, Fate::Delivered(_)) {
            first
                .entry((entry.node.0, record.digest))
                .or_insert(record.ended);
        }
    }
    first
}
