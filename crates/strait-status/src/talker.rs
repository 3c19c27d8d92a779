//! Who sends. Addresses are for an operator's eyes: they are in no log and no metrics.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::delay::DelayParts;
use strait_core::flow::{FlowKey, FlowMark};
use strait_core::stats::{FlowTalk, HostTalk, Stats, Talker};
use strait_core::time::Instant;

use crate::Ended;
use crate::describe::described;
use crate::node::{Counts, causes, parts_s};

/// A flow with what its node calls things.
#[derive(Debug)]
pub struct TalkSource<'a> {
    /// The flow.
    pub talker: &'a Talker<FlowKey, FlowTalk>,
    /// The counters of its node.
    pub stats: &'a Stats,
    /// The present.
    pub now: Instant,
}

impl TalkSource<'_> {
    fn port(&self) -> String {
        let port = self.talker.value.port;
        let port = port.and_then(|it| self.stats.ports.get(it.index()));
        port.map_or_else(String::new, |it| it.name.clone())
    }

    /// The class of its packets, once one of them has ended.
    fn class(&self) -> String {
        let value = &self.talker.value;
        let ended = value.talk.packets_in > value.held_packets;
        let class = self.stats.classes.get(value.class.index());
        let class = class.filter(|_| ended);
        class.map_or_else(String::new, |it| it.name.clone())
    }

    fn ended(&self) -> Vec<Ended> {
        let packets = self.talker.value.telling.packets().into_iter();
        packets.map(|it| Ended::new(it, self.stats)).collect()
    }
}

described! {
    /// A flow, whatever port it leaves by, counted while it is among those with the most octets.
    pub struct TalkRow from flow: &TalkSource<'_> {
        /// Its source
        source: String = flow.talker.key.src.to_string();
        /// Its destination
        destination: String = flow.talker.key.dst.to_string();
        /// Its transport protocol
        protocol: u8 = flow.talker.key.protocol;
        /// Ports of source and destination
        ports: Option<(u16, u16)> = match flow.talker.key.mark {
            FlowMark::Ports(from, to) => Some((from, to)),
            FlowMark::Spi(_) | FlowMark::Label(_) => None,
        };
        /// For flows without ports: the index of ESP, or the flow label
        mark: Option<u32> = match flow.talker.key.mark {
            FlowMark::Ports(..) => None,
            FlowMark::Spi(mark) | FlowMark::Label(mark) => Some(mark),
        };
        /// Its class
        class: String = flow.class();
        /// Its code point
        dscp: u8 = flow.talker.value.dscp;
        /// Its outgoing port; empty before the first packet has left
        port: String = flow.port();
        /// Packets taken in or made
        packets_in: u64 = flow.talker.value.talk.packets_in;
        /// Their octets
        octets_in: u64 = flow.talker.value.talk.octets_in;
        /// Packets that left
        packets_out: u64 = flow.talker.value.talk.packets_out;
        /// Their octets
        octets_out: u64 = flow.talker.value.talk.octets_out;
        /// Waiting packets
        held_packets: u64 = flow.talker.value.held_packets;
        /// Packets dropped, by cause
        dropped: Counts = causes(&flow.talker.value.talk.dropped);
        /// Octets of the shortest packet
        octets_least: u32 = flow.talker.value.octets_least;
        /// Octets of the longest packet
        octets_most: u32 = flow.talker.value.octets_most;
        /// Parts of the delay of the packets that left, summed
        #[serde(with = "parts_s")]
        delay_parts_s: DelayParts = flow.talker.value.parts;
        /// Recent packets with the longest delay, the longest first, and the last dropped one
        packets: Vec<Ended> = flow.ended();
        /// Time since its last packet
        idle_s: f64 = flow.now.since(flow.talker.seen).as_secs_f64();
    }
}

described! {
    /// A host that sends.
    pub struct HostRow from host: &Talker<IpAddr, HostTalk> {
        /// Its address
        source: String = host.key.to_string();
        /// Packets taken in from it
        packets_in: u64 = host.value.packets_in;
        /// Their octets
        octets_in: u64 = host.value.octets_in;
        /// Flows that it started
        flows: u64 = host.value.flows;
    }
}
