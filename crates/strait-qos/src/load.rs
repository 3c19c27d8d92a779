//! A load for measuring how fast a port classifies, queues and schedules. It holds no clock: its
//! user has one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use strait_core::fate::{Ledger, Origin};
use strait_core::rate::{Burst, LineRate};
use strait_core::{ClassId, Fate, Instant, NeighbourId, PortId};
use strait_wire::ip::{PacketInfo, build_udp};

use crate::config::{PolicyConfig, RuleConfig};
use crate::dscp::Dscp;
use crate::leaf::Site;
use crate::matching::{List, PortRange};
use crate::policy::{Policy, PolicyError};
use crate::scheduler::{Open, Scheduler};
use crate::tree::Tree;

/// Flows that the packets belong to.
const FLOWS: u16 = 64;
/// Packets that wait all the time.
pub const BACKLOG: u32 = 1000;
/// Rules before the preset's fifteen.
const RULES: u16 = 8;
/// Sizes of packets that voice, video and bulk have (Gulder and Déziel, table 3).
const SIZES: [usize; 3] = [168, 948, 1298];
/// Twice the tree's guarantees: half of all is borrowed.
const LINE: LineRate = LineRate::new(1_000_000, 8);

/// The tree of the preset `insc-1b` (fourteen leaves in four levels of token buckets) with 23
/// rules, at a line that is always busy. Whenever a packet leaves, another of its class arrives, so
/// that 1000 always wait, of 64 flows.
pub struct Load {
    policy: Policy,
    tree: Tree,
    ledger: Ledger,
    line: Burst,
    now: Instant,
    /// By class: the packets of its flows, to be offered in turn.
    flows: Vec<VecDeque<Vec<u8>>>,
}

fn flow(number: u16, dscp: Dscp) -> Vec<u8> {
    let end = |host, port| {
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host);
        SocketAddr::new(IpAddr::V6(address), port)
    };
    let octets = SIZES[usize::from(number) % SIZES.len()];
    let payload = alloc::vec![0; octets - 48];
    let (src, dst) = (end(number, 30_000 + number), end(0xff, 40_000));
    let mut bytes = Vec::with_capacity(octets);
    build_udp(src, dst, dscp.number(), 64, 0, 0, &payload, &mut bytes);
    bytes
}

/// Its policy: rules that never match before those of the preset.
#[must_use]
pub fn policy() -> PolicyConfig {
    let own = |number| RuleConfig {
        class: Some("be".into()),
        source_port: List::from([PortRange::single(1000 + number)]),
        ..RuleConfig::default()
    };
    PolicyConfig {
        preset: Some("insc-1b".into()),
        rules: (0..RULES).map(own).collect(),
        ..PolicyConfig::default()
    }
}

impl Load {
    /// The port with its backlog.
    pub fn new() -> Result<Self, PolicyError> {
        let policy = Policy::compile(&policy())?;
        let mut tree = Tree::new(&policy, Site::default());
        tree.set_line_rate(LINE);
        let now = Instant::from_secs(1);
        tree.advance(now);
        let mut load = Self {
            flows: policy.classes().iter().map(|_| VecDeque::new()).collect(),
            policy,
            tree,
            ledger: Ledger::default(),
            line: Burst::new(LINE, now),
            now,
        };
        load.add_flows();
        load.fill();
        Ok(load)
    }

    /// Spreads the flows over the code points of the tree.
    fn add_flows(&mut self) {
        let assured = (1..=4).flat_map(|class| (1..=3).map(move |drop| Dscp::af(class, drop)));
        let dscps: Vec<Dscp> = assured.chain([Dscp::EF, Dscp::DF]).collect();
        for (number, dscp) in (0..FLOWS).zip(dscps.into_iter().cycle()) {
            let bytes = flow(number, dscp);
            let class = PacketInfo::parse(&bytes).map(|info| self.policy.classify(&info).class);
            let flows = class.ok().and_then(|it| self.flows.get_mut(it.index()));
            flows.into_iter().for_each(|it| it.push_back(bytes.clone()));
        }
    }

    /// Offers packets of every class until enough wait.
    fn fill(&mut self) {
        // Full classes refuse some.
        for round in 0..20 * BACKLOG {
            if self.tree.total().packets == BACKLOG {
                break;
            }
            self.offer(ClassId((round % self.flows.len() as u32) as u8));
        }
    }

    /// As many packets as wait, of every class in turn, but no more of one than its limit.
    #[must_use]
    pub fn packets(&self) -> Vec<&[u8]> {
        let mut packets = Vec::new();
        for round in 0.. {
            let before = packets.len();
            for (flows, class) in self.flows.iter().zip(self.policy.classes()) {
                let next = (round < class.packets).then(|| flows.get(round as usize % flows.len()));
                let more = packets.len() < BACKLOG as usize;
                packets.extend(next.flatten().filter(|_| more).map(Vec::as_slice));
            }
            if packets.len() == before {
                break;
            }
        }
        packets
    }

    /// Packets that wait.
    #[must_use]
    pub fn backlog(&self) -> u32 {
        self.tree.total().packets
    }

    /// Takes a packet of the class in: a copy of its octets, parsed, classified, queued.
    fn offer(&mut self, class: ClassId) {
        let mut bytes = self.ledger.spare();
        let Some(flows) = self.flows.get_mut(class.index()) else {
            return;
        };
        if let Some(flow) = flows.pop_front() {
            bytes.extend_from_slice(&flow);
            flows.push_back(flow);
        }
        let Ok(mut packet) = self.ledger.admit(self.now, bytes, Origin::Port(PortId(0))) else {
            return;
        };
        packet.class = self.policy.classify(packet.info()).class;
        if let Err((packet, fate)) = self.tree.enqueue(self.now, packet) {
            let bytes = self.ledger.close(self.now, packet, fate);
            self.ledger.keep_spare(bytes);
        }
    }

    /// Lets one packet leave when the line is free and the tree allows; its class.
    fn send(&mut self) -> Option<ClassId> {
        self.discard();
        let head = match self.tree.head(&Open) {
            Some(head) => head,
            None => {
                self.now = self.tree.starts(&Open)?;
                self.discard();
                self.tree.head(&Open)?
            }
        };
        let packet = self.tree.take(self.now, head)?;
        self.tree.charge(head.class, head.octets);
        let ended = self.line.push(self.now, u64::from(head.octets));
        let fate = Fate::Forwarded {
            port: PortId(1),
            to: NeighbourId::PEER,
        };
        let bytes = self.ledger.close(ended, packet, fate);
        self.ledger.keep_spare(bytes);
        while self.ledger.poll().is_some() {}
        self.now = ended;
        Some(head.class)
    }

    fn discard(&mut self) {
        while let Some((packet, fate)) = self.tree.discard(self.now) {
            let bytes = self.ledger.close(self.now, packet, fate);
            self.ledger.keep_spare(bytes);
        }
    }

    /// Lets so many packets leave, each followed by another; how many did.
    pub fn pass(&mut self, packets: u64) -> u64 {
        let mut passed = 0;
        while passed < packets
            && let Some(class) = self.send()
        {
            self.offer(class);
            passed += 1;
        }
        passed
    }
}

/// The least that any queue does: octets copied in, waiting behind 1000 others, and out.
#[derive(Default)]
pub struct BareQueue {
    waiting: VecDeque<Vec<u8>>,
}

impl BareQueue {
    /// Passes so many packets of the same sizes; the octets of the last, to be looked at.
    pub fn pass(&mut self, packets: u64) -> usize {
        let texts = SIZES.map(|octets| alloc::vec![0; octets]);
        let mut last = 0;
        for text in texts.iter().cycle().take(packets as usize) {
            let full = self.waiting.len() == BACKLOG as usize;
            let mut bytes = full.then(|| self.waiting.pop_front()).flatten();
            let bytes = bytes.get_or_insert_default();
            last = bytes.len();
            bytes.clear();
            bytes.extend_from_slice(text);
            self.waiting.push_back(core::mem::take(bytes));
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_stays_and_every_class_has_its_turn() {
        let mut load = Load::new().unwrap();
        assert_eq!(load.backlog(), BACKLOG);
        assert!(load.policy.classes().len() == 14 && policy().expand().unwrap().rules.len() >= 20);
        assert_eq!(load.flows.iter().map(VecDeque::len).sum::<usize>(), 64);
        let mut seen = alloc::vec![0u32; 14];
        for _ in 0..5000 {
            let class = load.send().unwrap();
            seen[class.index()] += 1;
            load.offer(class);
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
        assert_eq!(load.backlog(), BACKLOG);
        assert_eq!(load.ledger.held(), u64::from(BACKLOG));
        load.tree.check();
        assert_eq!(load.packets().len(), BACKLOG as usize);
    }
}
