//! The scenario file: gateways, hosts and routers, the links between them, traffic, faults,
//! variants and expectations. `strait sim` and `strait lab` read the same one.
//!
//! ```toml
//! name = "serial-9600"
//! duration = "45 s"
//! [[node]]
//! name = "a"
//! file = "../nodes/serial-9600-a.toml"
//! [[host]]
//! name = "ha"
//! behind = "a"
//! addresses = ["10.1.0.2/24"]
//! [[link]]
//! between = ["a.line", "b.line"]
//! file = "../links/serial-9600.toml"
//! ```
//!
//! Files are named relative to the file that names them. [`topology`] says who is attached to whom,
//! [`sweep`] makes one scenario many.

mod check;
mod dns;
mod echo;
mod link;
mod load;
mod mail;
mod medium;
#[cfg(test)]
mod mgen_tests;
mod over;
mod raw;
#[cfg(test)]
mod side_tests;
mod stations;
pub mod sweep;
#[cfg(test)]
mod tests;
pub mod topology;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strait_channel::LinkConfig;
use strait_core::prefix::Prefix;
use strait_core::units::{Octets, Time};
use strait_status::Snapshot;
use strait_traffic::TrafficConfig;

use crate::sweep::AxisConfig;

pub use dns::with_resolver;
pub use echo::echo_service;
pub use link::load_link;
pub use load::{DiskFiles, Files, Link, LinkEnd, Loaded, LoadedNode, load_node, traffic_of};
pub use mail::{MailServer, Post, post};
pub use medium::Membership;

/// A scenario file as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Names results and the lab's network namespaces.
    pub name: String,
    /// What it shows, for people.
    #[serde(default)]
    pub about: String,
    /// Length of a run.
    pub duration: Time,
    /// Seed of the first run; run number n has seed + n.
    #[serde(default = "one")]
    pub seed: u64,
    /// Runs with different seeds.
    #[serde(default = "one")]
    pub runs: u64,
    /// Gateways.
    #[serde(default, rename = "node")]
    pub nodes: Vec<NodeEntry>,
    /// Hosts, where traffic begins and ends.
    #[serde(default, rename = "host")]
    pub hosts: Vec<HostEntry>,
    /// Plain routers, for comparison. Live, this system's kernel.
    #[serde(default, rename = "router")]
    pub routers: Vec<RouterEntry>,
    /// Links.
    #[serde(default, rename = "link")]
    pub links: Vec<LinkEntry>,
    /// Media that several share.
    #[serde(default, rename = "medium", skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediumEntry>,
    /// What the hosts send.
    #[serde(default)]
    pub traffic: Vec<TrafficConfig>,
    /// What breaks.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    /// The same scenario with other gateways or endpoints, run for comparison.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// Programs that run beside gateways. Live only.
    #[serde(default, rename = "daemon")]
    pub daemons: Vec<Daemon>,
    /// Simulated: how gateways with `routing = "kernel"` have their routes.
    #[serde(default)]
    pub routing: Option<RoutingConfig>,
    /// What results are judged by.
    #[serde(default, rename = "expect")]
    pub expectations: Vec<Expectation>,
    /// What `strait sweep` changes, if nobody says otherwise.
    #[serde(default, rename = "axis")]
    pub axes: Vec<AxisConfig>,
}

const fn one() -> u64 {
    1
}

/// A gateway: its node file, or the same content in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// The name that links, hosts and faults use. It replaces the name in the node file.
    pub name: String,
    /// The node file.
    pub file: Option<String>,
    /// The content of a node file, in place of `file`.
    pub config: Option<toml::Table>,
    /// Simulator: what its storage is like, if its node file has `[state]`. A lab has the host's.
    pub storage: Option<StorageEntry>,
}

/// A gateway's storage in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageEntry {
    /// How long it takes until batches are stable, however many become so together; 2 ms if absent.
    pub latency: Option<Time>,
    /// Octets of keys and values that it has room for, where that is less than the node file says.
    pub room: Option<Octets>,
    /// Whether a kill loses all batches that aren't acknowledged (true) or none (false); as many of
    /// the last as the seed says if absent.
    pub loses_at_kill: Option<bool>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostEntry {
    /// The name that traffic and links use.
    pub name: String,
    /// The gateway or router to which a LAN attaches it; `NODE.SIDE` for a host side of a gateway
    /// that isn't its first. Without it, a link must.
    pub behind: Option<String>,
    /// Its addresses with the lengths of their prefixes: at most one of each family.
    pub addresses: Vec<Prefix>,
    /// Lab: addresses of the gateway's interface on that LAN.
    #[serde(default)]
    pub gateway_addresses: Vec<Prefix>,
    /// Its pings, datagrams and pages over IPv4 begin with the look-up of the other host's name,
    /// and go to the address that it is told.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub resolves: bool,
}

impl HostEntry {
    /// What it is behind: as port the host side.
    pub(crate) fn place(&self) -> Option<LinkEnd> {
        self.behind.as_deref().map(LinkEnd::parse)
    }
}

/// A router that stores and forwards, with one drop-tail queue a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterEntry {
    /// The name that links and hosts use.
    pub name: String,
    /// Packets that may wait for each of its links.
    #[serde(default = "RouterEntry::queue")]
    pub queue: u32,
}

impl RouterEntry {
    const fn queue() -> u32 {
        100
    }
}

/// A link: its link file, or the same content in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// The name that metrics use; the port's name at the first end if absent, or both ends' names
    /// where that end is no gateway (`r1-r2`).
    pub name: Option<String>,
    /// Its two ends, a and b: `NODE.PORT` for a gateway, the name of a router or host.
    pub between: [String; 2],
    /// The link file.
    pub file: Option<String>,
    /// The content of a link file, in place of `file`.
    pub channel: Option<LinkConfig>,
    /// In place of a medium: the two hosts at whose addresses the ends are, `udp` ports both. Other
    /// gateways carry their datagrams between these hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<[String; 2]>,
    /// In place of a medium: the two stations, `NODE.PORT` of kind `hf`, whose clients the ends
    /// are, both ports of kind `hf-client`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stations: Option<[String; 2]>,
    /// Between gateways: the addresses of what `ip` ports send. Live, the link is an interface of
    /// both their hosts with these addresses, and `udp` ports may send over it as well, as may
    /// other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<[Prefix; 2]>,
}

/// A medium that any number of stations share: its link file, or the same content in place. Each
/// station hears each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumEntry {
    /// The name that metrics use, for two stations; with more, a path has the names of both of its
    /// ends behind it (`net-a-b`).
    pub name: String,
    /// Its stations: `NODE.PORT` for a gateway. Their node files needn't name each other.
    pub stations: Vec<String>,
    /// The link file.
    pub file: Option<String>,
    /// The content of a link file, in place of `file`.
    pub channel: Option<LinkConfig>,
}

/// A program that runs where a gateway does, such as a routing daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// The gateway.
    pub node: String,
    /// The program and its arguments. It must not go into the background.
    pub command: Vec<String>,
}

/// What a simulated routing protocol does: it knows the shortest ways, and learns late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingConfig {
    /// How long after a link goes, or comes back, all ways are what they should be.
    pub repair: Time,
}

/// Something that breaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When, since the beginning of the run.
    pub at: Time,
    /// What happens.
    pub kind: FaultKind,
    /// To which gateway; none where it happens to a link.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// To which link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// How long until the gateway starts again, or the link is back; never if absent.
    pub restart_after: Option<Time>,
    /// By how much a clock is set forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Time>,
}

/// What can happen to a gateway, or to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It ends at once, without warning, and all it held is lost.
    Kill,
    /// A serial line is pulled out, and both ends see it. What is on its way may be lost.
    Unplug,
    /// Its host's clock is set forward. Simulated only: a lab's gateways share this host's.
    Clock,
}

/// The same scenario with other gateways or other endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in results. What the scenario itself describes is called `strait`.
    pub name: String,
    /// Merged into every gateway's node file; ports are changed by name. A `policy` replaces the
    /// gateway's, as half of one policy and half of another make none.
    #[serde(default)]
    pub node: toml::Table,
    /// Keys of traffic that are others, by the traffic's name: the kind of TCP, for example.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub traffic: toml::Table,
}

/// A bar for one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Name of the check.
    pub id: String,
    /// `TRAFFIC.METRIC` or `LINK.use`.
    pub metric: String,
    /// Another metric, of which it is judged as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The least value, in plain SI units.
    pub min: Option<f64>,
    /// The greatest value, in plain SI units.
    pub max: Option<f64>,
    /// Where it holds; everywhere if empty.
    #[serde(default, rename = "in")]
    pub worlds: Vec<World>,
    /// The variant it is about.
    #[serde(default = "Expectation::base")]
    pub variant: String,
}

impl Expectation {
    fn base() -> String {
        Scenario::BASE.into()
    }

    /// The metric's unit: `s`, `bit/s`, or empty for a share.
    pub fn unit(&self) -> &'static str {
        match self.of {
            Some(_) => "",
            None => unit_of(&self.metric),
        }
    }

    /// What is judged of a run's metrics.
    pub fn value(&self, metrics: &BTreeMap<String, f64>) -> Option<f64> {
        let value = *metrics.get(&self.metric)?;
        match &self.of {
            Some(of) => Some(value / metrics.get(of)?),
            None => Some(value),
        }
    }

    /// Whether it holds in `world`.
    pub fn applies_in(&self, world: World) -> bool {
        self.worlds.is_empty() || self.worlds.contains(&world)
    }
}

/// The unit that a metric's name ends with.
pub fn unit_of(metric: &str) -> &'static str {
    match metric {
        name if name.ends_with("_bit_s") => "bit/s",
        name if name.ends_with("_s") => "s",
        _ => "",
    }
}

/// What is told of a gateway's DNS proxy.
const DNS_METRICS: [&str; 6] = [
    "dns_asked",
    "dns_asked_again",
    "dns_late",
    "dns_octets_out",
    "dns_served",
    "dns_watched",
];

/// What is told of a gateway's router of a mobile network.
const OLSR_METRICS: [&str; 4] = ["olsr_sent", "olsr_heard", "olsr_octets", "olsr_changes"];

/// What is told of what a gateway knows of those at far ends: reports that came, the oldest that
/// this has been, octets of its own.
const FAR_METRICS: [&str; 3] = ["far_reports", "far_age_s", "far_octets_out"];

/// What a gateway kept off its links, the names that its DNS proxy asked a partner for and looked
/// up for one, and octets that it sent, as metrics `NODE.WORD`: those that a scenario asks for, and
/// of the words without a port also what isn't zero. A word is `chatter`, `answered`, `repeated`,
/// `DNS_METRICS`, `OLSR_METRICS`, `FAR_METRICS` or `PORT.octets_out`.
pub fn local_metrics<'a>(
    scenario: &'a Scenario,
    node: &'a Snapshot,
) -> impl Iterator<Item = (String, f64)> + 'a {
    let kept = ["chatter", "answered", "repeated"].map(|word| {
        let those = node.local.iter().filter(|(what, ..)| *what == word);
        let packets: u64 = those.map(|(_, _, volume)| volume.packets).sum();
        (word.to_owned(), packets)
    });
    let dns = node.dns.iter();
    let asked = dns.flat_map(|dns| {
        [
            ("dns_asked", dns.asked),
            ("dns_asked_again", dns.asked_again),
            ("dns_late", dns.late),
            ("dns_octets_out", dns.octets_out),
            ("dns_served", dns.served),
            ("dns_watched", dns.watched),
        ]
    });
    let olsr = node.olsr.iter().flat_map(|olsr| {
        let counts = [
            olsr.packets_out,
            olsr.packets_in,
            olsr.octets_out,
            olsr.changes,
        ];
        OLSR_METRICS.into_iter().zip(counts)
    });
    let counts = asked.chain(olsr).map(|(word, count)| (word, count as f64));
    let far = node.far.iter().flat_map(|far| {
        let told = [far.reports_in as f64, far.age_max_s, far.octets_out as f64];
        FAR_METRICS.into_iter().zip(told)
    });
    let counts = counts
        .chain(far)
        .map(|(word, count)| (word.to_owned(), count));
    let ports = node.ports.iter();
    let octets = ports.map(|port| (format!("{}.octets_out", port.name), port.octets_out));
    octets
        .chain(kept)
        .map(|(word, count)| (word, count as f64))
        .chain(counts)
        .filter_map(move |(word, count)| {
            let name = format!("{}.{word}", node.node);
            let mut expected = scenario.expectations.iter();
            let wanted =
                (count > 0.0 && !word.contains('.')) || expected.any(|it| it.metric == name);
            wanted.then_some((name, count))
        })
}

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// In virtual time.
    Sim,
    /// Live, in network namespaces of this host.
    Lab,
}

impl Scenario {
    /// The name of what the scenario describes without any variant.
    pub const BASE: &'static str = "strait";
    /// Gateways, hosts and routers in a scenario. A guard against slips; studies need tens.
    pub const MEMBERS_MAX: usize = 10_000;
    /// Runs of a scenario. A guard against slips.
    pub const RUNS_MAX: u64 = 100_000;

    /// Names of all variants, the scenario itself first.
    pub fn variant_names(&self) -> impl Iterator<Item = &str> {
        let others = self.variants.iter().map(|variant| variant.name.as_str());
        std::iter::once(Self::BASE).chain(others)
    }
}
