//! Rules as an nftables ruleset.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::Ipv4Addr;

use strait_core::ClassId;
use strait_wire::ip::{PacketInfo, protocol};

use super::tc::Tree;
use crate::config::{PolicyConfig, RuleConfig};
use crate::dscp::Dscp;
use crate::matching::{PortRange, Prefix};
use crate::plan::NodeIndex;
use crate::police::PoliceConfig;
use crate::police::config::{Action as Police, When};
use crate::policy::Policy;

/// The longest acknowledgement without data: an IP header, a TCP header and its options.
const BARE_OCTETS: [(Family, u32); 2] = [(Family::V4, 80), (Family::V6, 100)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const BOTH: [Self; 2] = [Self::V4, Self::V6];

    const fn word(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    const fn number(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    const fn has(self, prefix: &Prefix) -> bool {
        prefix.address.is_ipv4() == matches!(self, Self::V4)
    }
}

/// The table with all rules: each becomes one of the kernel's for each family and each alternative
/// that one statement can't hold.
pub(super) fn ruleset(
    config: &PolicyConfig,
    policy: &Policy,
    tree: &Tree<'_>,
    interface: &str,
    table: &str,
    notes: &mut Vec<String>,
) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "table inet {table} {{");
    policers(policy, tree, &mut text, notes);
    let _ = writeln!(text, "\tchain classes {{");
    // After all other marking, right before the packet is queued.
    let _ = writeln!(
        text,
        "\t\ttype filter hook postrouting priority 300; policy accept;"
    );
    let _ = writeln!(text, "\t\toifname != \"{interface}\" accept");
    if !config.untrusted.is_empty() {
        let what = "the kernel trusts the code points of all interfaces: `untrusted` isn't \
                    exported";
        notes.push(what.into());
    }
    for (index, rule) in config.rules.iter().enumerate() {
        let number = index + 1;
        if !rule.ingress.is_empty() {
            notes.push(format!(
                "rule {number} is left out: `ingress` names ports of a node, which are no interfaces"
            ));
            continue;
        }
        let verdict = policy.verdict_of(index);
        let node = policy.plan().leaf(verdict.class);
        let mark = verdict.mark.and_then(Dscp::new);
        let action = Action {
            filter: verdict.filter,
            mark,
            priority: tree.priority(node),
            police: policed(policy, verdict.class),
        };
        if rule.tcp_control {
            notes.push(format!(
                "rule {number}: the kernel knows bare TCP segments by their length and flags only, \
                 so a few short segments with data count as such"
            ));
        }
        let class = rule.class.as_deref().unwrap_or("filtered");
        let _ = writeln!(text, "\t\t# rule {number}: {class}");
        for line in lines(rule, &action) {
            let _ = writeln!(text, "\t\t{line}");
        }
    }
    let otherwise = policy.otherwise();
    let node: NodeIndex = policy.plan().leaf(otherwise.class);
    let action = Action {
        filter: false,
        mark: otherwise.mark.and_then(Dscp::new),
        priority: tree.priority(node),
        police: policed(policy, otherwise.class),
    };
    let _ = writeln!(text, "\t\t# packets that match no rule");
    for line in lines(&RuleConfig::default(), &action) {
        let _ = writeln!(text, "\t\t{line}");
    }
    text.push_str("\t}\n}\n");
    neighbours(policy, tree, interface, table, &mut text);
    text
}

/// ARP is no IP: without rules of its own it would wait behind best effort, and neighbours that are
/// there count as gone meanwhile. It goes as OLSR's messages do, which the same depends on.
fn neighbours(policy: &Policy, tree: &Tree<'_>, interface: &str, table: &str, text: &mut String) {
    let olsr = PacketInfo {
        src: Ipv4Addr::UNSPECIFIED.into(),
        dst: Ipv4Addr::BROADCAST.into(),
        protocol: protocol::UDP,
        dscp: Dscp::CS6.number(),
        ecn: 0,
        hop_limit: 1,
        flow_label: 0,
        ports: Some((698, 698)),
        spi: None,
        tcp_bare: None,
        octets: 64,
        dont_fragment: false,
        later_fragment: false,
    };
    let node = policy.plan().leaf(policy.classify(&olsr).class);
    let priority = tree.priority(node);
    let _ = writeln!(text, "table arp {table} {{");
    let _ = writeln!(text, "\tchain classes {{");
    let _ = writeln!(
        text,
        "\t\ttype filter hook output priority 0; policy accept;"
    );
    let _ = writeln!(
        text,
        "\t\toifname \"{interface}\" meta priority set {priority}"
    );
    text.push_str("\t}\n}\n");
}

/// The treatment of a packet.
struct Action {
    filter: bool,
    mark: Option<Dscp>,
    priority: String,
    /// The chain of its class's policer.
    police: Option<String>,
}

/// The chain of a class's policer, if the kernel can be one.
fn policed(policy: &Policy, class: ClassId) -> Option<String> {
    let police = policy.classes().get(class.index())?.police.as_ref()?;
    bucket(police).map(|_| format!("police_{}", class.0))
}

/// A policer that nftables has: one bucket, with excess packets dropped or moved to another class.
struct Bucket<'a> {
    octets_s: u64,
    burst_octets: u64,
    other: Option<&'a str>,
}

fn bucket(police: &PoliceConfig) -> Option<Bucket<'_>> {
    let PoliceConfig::Bucket(config) = police else {
        return None;
    };
    let other = match &config.red {
        Police::Drop => None,
        Police::Class(name) => Some(name.as_str()),
        Police::Pass | Police::Mark(_) => return None,
    };
    let plain =
        config.green == Police::Pass && config.when == When::Always && config.peak_rate.is_none();
    plain.then(|| Bucket {
        octets_s: config.rate.0.div_ceil(8).max(1),
        burst_octets: config.burst_or_default().0,
        other,
    })
}

/// A chain for each class that is policed, so that all its rules share one bucket.
fn policers(policy: &Policy, tree: &Tree<'_>, text: &mut String, notes: &mut Vec<String>) {
    for (number, class) in policy.classes().iter().enumerate() {
        let Some(police) = &class.police else {
            continue;
        };
        let Some(bucket) = bucket(police) else {
            notes.push(format!(
                "class `{}` isn't policed: nftables has no policer by colour, none that acts only \
                 under congestion, and none with a second rate",
                class.name
            ));
            continue;
        };
        let (rate, burst) = (bucket.octets_s, bucket.burst_octets);
        // Linux adds a second of the rate to the configured burst.
        let told = burst.saturating_sub(rate);
        if burst < rate {
            notes.push(format!(
                "class `{}`: the kernel's policer lets {rate} octets through at once, a second of \
                 its rate, not {burst}",
                class.name
            ));
        }
        let other = bucket.other.and_then(|name| policy.class_named(name));
        let marks = other.is_some_and(|id| policy.classes()[id.index()].mark.is_some());
        if marks {
            notes.push(format!(
                "class `{}`: excess packets get the other class's queue, but not its mark",
                class.name
            ));
        }
        let red = match other {
            Some(other) => {
                let priority = tree.priority(policy.plan().leaf(other));
                format!("meta priority set {priority} accept")
            }
            None => String::from("drop"),
        };
        let _ = writeln!(
            text,
            "\tchain police_{number} {{\n\t\tlimit rate over {rate} bytes/second burst {told} \
             bytes {red}\n\t\taccept\n\t}}"
        );
    }
}

impl Action {
    fn text(&self, family: Option<Family>) -> String {
        if self.filter {
            return String::from("drop");
        }
        let mark = match (self.mark, family) {
            (Some(mark), Some(family)) => format!("{} dscp set {} ", family.word(), mark.number()),
            _ => String::new(),
        };
        let then = match &self.police {
            Some(chain) => format!("goto {chain}"),
            None => String::from("accept"),
        };
        format!("{mark}meta priority set {} {then}", self.priority)
    }
}

/// The kernel's rules for one of the policy.
fn lines(rule: &RuleConfig, action: &Action) -> Vec<String> {
    let any_family = rule.code_points().is_none()
        && rule.source.is_empty()
        && rule.destination.is_empty()
        && rule.flow_label.is_empty()
        && !rule.tcp_control
        && (action.mark.is_none() || action.filter);
    if any_family {
        return alternatives(rule, None)
            .into_iter()
            .map(|conditions| joined(&conditions, &action.text(None)))
            .collect();
    }
    let families = Family::BOTH
        .into_iter()
        .filter(|family| possible(rule, *family));
    families
        .flat_map(|family| {
            let text = action.text(Some(family));
            let of_family = format!("meta nfproto {}", family.number());
            alternatives(rule, Some(family))
                .into_iter()
                .map(move |conditions| {
                    joined(
                        &[core::slice::from_ref(&of_family), &conditions[..]].concat(),
                        &text,
                    )
                })
        })
        .collect()
}

fn joined(conditions: &[String], action: &str) -> String {
    let mut words = conditions.to_vec();
    words.push(action.to_string());
    words.join(" ")
}

/// Whether a packet of that family can match.
fn possible(rule: &RuleConfig, family: Family) -> bool {
    let any = |prefixes: &[Prefix]| {
        prefixes.is_empty() || prefixes.iter().any(|prefix| family.has(prefix))
    };
    // IPv4 packets count as of flow label 0.
    let label =
        rule.flow_label.is_empty() || family == Family::V6 || rule.flow_label.0.contains(&0);
    any(&rule.source.0) && any(&rule.destination.0) && label
}

/// The conditions of a rule; twice if a port may be at either end, which one statement can't say.
fn alternatives(rule: &RuleConfig, family: Option<Family>) -> Vec<Vec<String>> {
    let common = conditions(rule, family);
    if rule.port.is_empty() {
        return [common].into();
    }
    ["sport", "dport"]
        .into_iter()
        .map(|end| {
            let mut conditions = common.clone();
            conditions.push(format!("th {end} {}", set(rule.port.0.iter().map(range))));
            conditions
        })
        .collect()
}

fn conditions(rule: &RuleConfig, family: Option<Family>) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(family) = family {
        let word = family.word();
        if let Some(asked) = rule.code_points() {
            let numbers = asked.iter().map(|dscp| dscp.number().to_string());
            all.push(format!("{word} dscp {}", set(numbers)));
        }
        for (end, prefixes) in [("saddr", &rule.source), ("daddr", &rule.destination)] {
            let own = prefixes.0.iter().filter(|prefix| family.has(prefix));
            if !prefixes.is_empty() {
                all.push(format!(
                    "{word} {end} {}",
                    set(own.map(ToString::to_string))
                ));
            }
        }
        if !rule.flow_label.is_empty() && family == Family::V6 {
            let labels = rule.flow_label.0.iter().map(|label| format!("{label:#x}"));
            all.push(format!("ip6 flowlabel {}", set(labels)));
        }
    }
    all.extend(transport(rule, family));
    if let Some(octets) = rule.min_octets {
        all.push(format!("meta length >= {}", octets.0.min(65_535)));
    }
    if let Some(octets) = rule.max_octets {
        all.push(format!("meta length <= {}", octets.0.min(65_535)));
    }
    all
}

/// The conditions on the transport header.
fn transport(rule: &RuleConfig, family: Option<Family>) -> Vec<String> {
    let mut all = Vec::new();
    let asks_ports = [&rule.port, &rule.source_port, &rule.destination_port]
        .iter()
        .any(|ports| !ports.is_empty());
    let protocols: Vec<u8> = match rule.protocol.0.as_slice() {
        _ if rule.tcp_control => [protocol::TCP].into(),
        _ if !rule.spi.is_empty() => [protocol::ESP].into(),
        // Without this, the first octets of any header would be read as ports.
        [] if asks_ports => [protocol::UDP, protocol::TCP].into(),
        asked => asked.iter().map(|protocol| protocol.0).collect(),
    };
    if !protocols.is_empty() {
        let numbers = protocols.iter().map(ToString::to_string);
        all.push(format!("meta l4proto {}", set(numbers)));
    }
    for (end, ports) in [
        ("sport", &rule.source_port),
        ("dport", &rule.destination_port),
    ] {
        if !ports.is_empty() {
            all.push(format!("th {end} {}", set(ports.0.iter().map(range))));
        }
    }
    if !rule.spi.is_empty() {
        all.push(format!(
            "esp spi {}",
            set(rule.spi.0.iter().map(ToString::to_string))
        ));
    }
    if rule.tcp_control {
        all.push(String::from("tcp flags & (fin | rst | psh) == 0"));
        let longest = BARE_OCTETS.iter().find(|(of, _)| Some(*of) == family);
        let (_, octets) = longest.unwrap_or(&BARE_OCTETS[0]);
        all.push(format!("meta length <= {octets}"));
    }
    all
}

fn range(range: &PortRange) -> String {
    if range.first == range.last {
        return range.first.to_string();
    }
    format!("{}-{}", range.first, range.last)
}

/// One value as it is, several in braces.
fn set(values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    match values.as_slice() {
        [one] => one.clone(),
        all => format!("{{ {} }}", all.join(", ")),
    }
}
