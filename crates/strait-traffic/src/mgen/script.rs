//! What a script says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use strait_core::Duration;

use super::pattern::Pattern;

/// The longest message of a TCP flow. A guard against slips: 1 GiB in one message.
pub const MESSAGE_OCTETS_MAX: u64 = 1 << 30;

/// Ports from one to another.
pub type PortRange = RangeInclusive<u16>;

/// A script as read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// What holds for all of it.
    pub globals: Globals,
    /// What happens, in the order of time; at the same time in the order of the file.
    pub events: Vec<Event>,
    /// What is probably not meant.
    pub warnings: Vec<Warning>,
}

/// Something that is probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where, from 1 on.
    pub line: u32,
    /// What, and what to do.
    pub message: String,
}

/// Commands without a time: defaults of all flows, and what the program is to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Globals {
    /// When the script's time 0 is, if not at once.
    pub start: Option<Start>,
    /// Time of the script that has passed already at its beginning.
    pub offset: Duration,
    /// Defaults of all flows.
    pub flows: FlowOptions,
    /// Times in logs are local, not UTC.
    pub local_time: bool,
    /// The user's own octets of messages are logged. They are if the script says nothing.
    pub log_data: Option<bool>,
    /// A script to read as well.
    pub input: Option<String>,
    /// The log, which replaces one that is there.
    pub output: Option<String>,
    /// The log, which is added to.
    pub log: Option<String>,
    /// Where to save the state at the end.
    pub save: Option<String>,
}

/// A time of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Since midnight.
    pub at: Duration,
    /// By UTC, not by local time.
    pub gmt: bool,
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where it stands in the script, from 1 on.
    pub line: u32,
    /// When, since the script's time 0.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A flow begins.
    On(u32, FlowOptions),
    /// A flow changes.
    Mod(u32, FlowOptions),
    /// A flow ends.
    Off(u32),
    /// Ports are listened to.
    Listen(Protocol, Vec<PortRange>),
    /// Ports are listened to no more.
    Ignore(Protocol, Vec<PortRange>),
    /// A multicast group is joined.
    Join(Group),
    /// A multicast group is left.
    Leave(Group),
}

/// How a flow is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// A datagram a message.
    Udp,
    /// One connection, one message after the other.
    Tcp,
    /// A file or pipe.
    Sink,
}

impl Protocol {
    /// The word in scripts and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Sink => "SINK",
        }
    }
}

/// What a script says of a flow; what it doesn't say is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOptions {
    /// How it is carried.
    pub protocol: Option<Protocol>,
    /// UDP: the socket is connected.
    pub connect: Option<bool>,
    /// Port that it is sent from.
    pub src: Option<u16>,
    /// Where it goes.
    pub dst: Option<SocketAddr>,
    /// When messages are sent and how long they are.
    pub pattern: Option<Pattern>,
    /// So many messages; 0 for no limit.
    pub count: Option<u64>,
    /// The octet of the IP header that has the code point in its upper six bits.
    pub tos: Option<u8>,
    /// IPv6 flow label.
    pub label: Option<u32>,
    /// Hop limit of multicast.
    pub ttl: Option<u8>,
    /// Interface of multicast.
    pub interface: Option<String>,
    /// Number of the first message.
    pub sequence: Option<u32>,
    /// Messages that may wait while the transport takes none.
    pub queue: Option<u32>,
    /// Octets of the socket's send buffer.
    pub tx_buffer: Option<u32>,
    /// Octets of the socket's receive buffer.
    pub rx_buffer: Option<u32>,
    /// Whether broadcast is allowed.
    pub broadcast: Option<bool>,
    /// The user's own octets in each message.
    pub data: Option<Vec<u8>>,
}

impl FlowOptions {
    /// What `other` says replaces what stands here.
    pub fn merge(&mut self, other: &Self) {
        fn set<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        set(&mut self.protocol, &other.protocol);
        set(&mut self.connect, &other.connect);
        set(&mut self.src, &other.src);
        set(&mut self.dst, &other.dst);
        set(&mut self.pattern, &other.pattern);
        set(&mut self.count, &other.count);
        set(&mut self.tos, &other.tos);
        set(&mut self.label, &other.label);
        set(&mut self.ttl, &other.ttl);
        set(&mut self.interface, &other.interface);
        set(&mut self.sequence, &other.sequence);
        set(&mut self.queue, &other.queue);
        set(&mut self.tx_buffer, &other.tx_buffer);
        set(&mut self.rx_buffer, &other.rx_buffer);
        set(&mut self.broadcast, &other.broadcast);
        set(&mut self.data, &other.data);
    }
}

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its address.
    pub address: IpAddr,
    /// Only what this host sends to it.
    pub source: Option<IpAddr>,
    /// On which interface.
    pub interface: Option<String>,
    /// Ports to listen to for it.
    pub ports: Vec<PortRange>,
}

impl Script {
    /// Events of a script. A guard against the wrong file.
    pub const EVENTS_MAX: usize = 100_000;
    /// Flows of a script: each has a socket, and a process may commonly have 1024 files open
    /// without asking for more.
    pub const FLOWS_MAX: usize = 1000;

    /// The flows that ever begin, with their options at that time, defaults filled in.
    pub fn flows(&self) -> impl Iterator<Item = (u32, u32, FlowOptions)> {
        self.events.iter().filter_map(|event| match &event.what {
            What::On(flow, options) => Some((event.line, *flow, self.with_defaults(options))),
            _ => None,
        })
    }

    /// A flow's options with the script's defaults where it says nothing.
    pub fn with_defaults(&self, options: &FlowOptions) -> FlowOptions {
        let mut all = self.globals.flows.clone();
        all.merge(options);
        all
    }

    /// Where its flows go, each protocol's ports once.
    pub fn destinations(&self) -> BTreeSet<(Protocol, SocketAddr)> {
        let mut all = BTreeSet::new();
        let mut carried: BTreeMap<u32, Protocol> = BTreeMap::new();
        for event in &self.events {
            let (What::On(flow, options) | What::Mod(flow, options)) = &event.what else {
                continue;
            };
            if let Some(protocol) = options.protocol {
                carried.insert(*flow, protocol);
            }
            if let (Some(protocol), Some(dst)) = (carried.get(flow), options.dst) {
                all.insert((*protocol, dst));
            }
        }
        all
    }

    /// The captures that its flows repeat.
    pub fn captures(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for event in &self.events {
            if let What::On(_, options) | What::Mod(_, options) = &event.what
                && let Some(pattern) = &options.pattern
            {
                pattern.captures(&mut names);
            }
        }
        names
    }
}
