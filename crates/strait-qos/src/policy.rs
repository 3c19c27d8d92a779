//! The compiled policy: which class each packet belongs to.

use alloc::string::String;
use alloc::vec::Vec;

use strait_core::units::Octets;
use strait_core::{ClassId, Duration};
use strait_wire::ip::{PacketInfo, TcpFlags, protocol};

use crate::classes;
use crate::config::{ClassConfig, PolicyConfig, RuleConfig};
use crate::dscp::Dscp;
pub use crate::error::{PolicyError, PolicyWarning};
use crate::leaf::QueueConfig;
use crate::matching::{List, PortRange, Prefix};
use crate::plan::Plan;
use crate::police::PoliceConfig;

/// Classes that hold packets: a port has a queue for each, and each pull may have to ask them all.
pub const CLASSES_MAX: usize = 64;
/// Classes with others below.
pub const GROUPS_MAX: usize = 63;
/// Rules of a policy, the preset's included: one bit each in the tables that find candidates.
pub const RULES_MAX: usize = 128;
/// Names of ports in a policy.
pub const PORTS_MAX: usize = 128;
/// The greatest weight: beyond it the light class of a band would wait for megabytes.
pub const WEIGHT_MAX: u16 = 1000;

/// A class that holds packets, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name in rules, status and metrics.
    pub name: String,
    /// Its strict rank among all: packets of rank 0 wait for no other rank.
    pub rank: u8,
    /// The stream of a link that carries it; classes that share one have no two packets under way.
    pub stream: u8,
    /// Packets that may wait, at least 1.
    pub packets: u32,
    /// Octets that may wait.
    pub octets: Option<u64>,
    /// How long after the node got it a packet may still wait.
    pub age: Option<Duration>,
    /// How long one of its packets may take where it waits for the turns of others.
    pub wait_max: Option<Duration>,
    /// In which order its packets go, and which of them don't.
    pub queue: QueueConfig,
    /// Which of its packets may enter.
    pub police: Option<PoliceConfig>,
    /// The code point that its packets get, unless their rule names another.
    pub mark: Option<u8>,
}

impl Class {
    pub(crate) fn compile(config: &ClassConfig) -> Result<Self, PolicyError> {
        let class = config.name.clone();
        let no_room = |key| {
            Err(PolicyError::NoRoom {
                class: class.clone(),
                key,
            })
        };
        if config.packets == Some(0) {
            return no_room("packets");
        }
        if config.octets == Some(Octets(0)) {
            return no_room("octets");
        }
        if config.age.is_some_and(|age| age.0.is_zero()) {
            return no_room("age");
        }
        let waits = Duration::from_secs(1)..=Duration::from_secs(120);
        if config.wait_max.is_some_and(|wait| !waits.contains(&wait.0)) {
            return Err(PolicyError::WaitMax { class });
        }
        if let Some((key, bounds)) = config.queue.fault() {
            return Err(PolicyError::Queue { class, key, bounds });
        }
        if let Some((key, bounds)) = config.police.as_ref().and_then(PoliceConfig::fault) {
            return Err(PolicyError::Police { class, key, bounds });
        }
        Ok(Self {
            name: class,
            rank: 0,
            stream: 0,
            packets: config
                .packets
                .unwrap_or_else(|| config.queue.packets_default()),
            octets: config.octets.map(|octets| octets.0),
            age: config.age.map(|age| age.0),
            wait_max: config.wait_max.map(|wait| wait.0),
            queue: config.queue.clone(),
            police: config.police.clone(),
            mark: config.mark.map(Dscp::number),
        })
    }
}

/// The policy's verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its class.
    pub class: ClassId,
    /// The code point to give it.
    pub mark: Option<u8>,
    /// It must not pass.
    pub filter: bool,
    /// The rate that its call needs on the line in bit/s, if its rule has one.
    pub rate_bit_s: Option<u64>,
    /// A rule sets it, and not the default.
    pub ruled: bool,
}

/// The port by which a packet entered the node, as far as a policy asks for it
/// ([`Policy::ingress`]). The default is for packets that the node made itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingress(Option<u8>);

/// Sets of rules: rule n is bit n.
type RuleSet = u128;

/// A policy ready for use.
///
/// Two tables say which rules a packet's code point and protocol leave possible; only those are
/// asked, in order. So the cost is that of the rules near a match, not of all.
#[derive(Clone, Debug)]
pub struct Policy {
    classes: Vec<Class>,
    plan: Plan,
    rules: Vec<Rule>,
    otherwise: Verdict,
    observed: Option<ClassId>,
    by_dscp: Vec<RuleSet>,
    by_protocol: Vec<RuleSet>,
    /// Names of ports that rules ask for, or that aren't trusted; these first.
    ports: Vec<String>,
    untrusted: usize,
    waits_for_relays: bool,
    warnings: Vec<PolicyWarning>,
}

impl Policy {
    /// Checks a configuration and makes it ready.
    pub fn compile(config: &PolicyConfig) -> Result<Self, PolicyError> {
        let config = config.expand()?;
        let (classes, plan) = classes::compile(&config)?;
        check_policers(&classes)?;
        let otherwise = Verdict {
            class: default_class(&config, &classes)?,
            mark: None,
            filter: false,
            rate_bit_s: None,
            ruled: false,
        };
        let named = ports(&config).len();
        if named > PORTS_MAX {
            return Err(PolicyError::TooManyPorts { count: named });
        }
        if config.rules.len() > RULES_MAX {
            return Err(PolicyError::TooManyRules {
                count: config.rules.len(),
            });
        }
        let mut policy = Self {
            otherwise: with_class_mark(otherwise, &classes),
            observed: observed_class(&config, &classes)?,
            classes,
            plan,
            rules: Vec::with_capacity(config.rules.len()),
            by_dscp: alloc::vec![0; 64],
            by_protocol: alloc::vec![0; 256],
            ports: ports(&config),
            untrusted: config.untrusted.0.len(),
            waits_for_relays: config.waits_for_relays.unwrap_or(true),
            warnings: Vec::new(),
        };
        for (index, rule) in config.rules.iter().enumerate() {
            policy.add(index, rule, &config)?;
        }
        Ok(policy)
    }

    fn add(
        &mut self,
        index: usize,
        config: &RuleConfig,
        policy: &PolicyConfig,
    ) -> Result<(), PolicyError> {
        let rule = Rule::compile(index + 1, config, self)?;
        self.warn_lower_effort(index + 1, config, &rule);
        if config.has_no_condition() && index + 1 < policy.rules.len() {
            self.warnings
                .push(PolicyWarning::HidesLater { rule: index + 1 });
        }
        let bit = 1 << index;
        let dscp = config.code_points().unwrap_or_default();
        let dscp = dscp.iter().map(|dscp| usize::from(dscp.number()));
        let protocols = rule.protocols(config);
        enter(&mut self.by_dscp, bit, dscp);
        enter(
            &mut self.by_protocol,
            bit,
            protocols.iter().map(|number| usize::from(*number)),
        );
        self.rules.push(rule);
        Ok(())
    }

    fn warn_lower_effort(&mut self, number: usize, config: &RuleConfig, rule: &Rule) {
        let better = self.plan.favours(rule.verdict.class, self.otherwise.class);
        if better && !rule.verdict.filter && rule.verdict.mark.is_none() {
            let asked = config.code_points().unwrap_or_default();
            let lower = asked.into_iter().filter(|dscp| dscp.asks_for_less());
            self.warnings
                .extend(lower.map(|dscp| PolicyWarning::LowerEffortFirst { rule: number, dscp }));
        }
    }

    /// The treatment of a packet that the node made.
    #[must_use]
    pub fn classify(&self, packet: &PacketInfo) -> Verdict {
        self.classify_from(packet, Ingress::default())
    }

    /// The treatment of a packet that arrived there.
    #[must_use]
    pub fn classify_from(&self, packet: &PacketInfo, from: Ingress) -> Verdict {
        let rule = self
            .matching_rule(packet, from)
            .and_then(|index| self.rules.get(index));
        rule.map_or(self.otherwise, |rule| rule.verdict)
    }

    /// Names of the node's ports that it asks for.
    #[must_use]
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// Its ingress for the port of that name.
    #[must_use]
    pub fn ingress(&self, port: &str) -> Ingress {
        let place = self.ports.iter().position(|name| name == port);
        Ingress(place.and_then(|place| u8::try_from(place).ok()))
    }

    /// Whether code points of packets that arrived there are believed.
    #[must_use]
    pub fn trusts(&self, from: Ingress) -> bool {
        from.0
            .is_none_or(|port| usize::from(port) >= self.untrusted)
    }

    /// The first rule that matches a packet, counted from 0 after the preset was written out.
    #[must_use]
    pub fn matching_rule(&self, packet: &PacketInfo, from: Ingress) -> Option<usize> {
        let by_dscp = self.by_dscp.get(usize::from(packet.dscp))?;
        let by_protocol = self.by_protocol.get(usize::from(packet.protocol))?;
        let mut candidates = by_dscp & by_protocol;
        while candidates != 0 {
            let index = candidates.trailing_zeros() as usize;
            if self.rules.get(index)?.matches(packet, from) {
                return Some(index);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// The treatment of a packet that a rule matches, counted from 0; that of the others, for a
    /// missing rule.
    #[must_use]
    pub fn verdict_of(&self, rule: usize) -> Verdict {
        let rule = self.rules.get(rule);
        rule.map_or(self.otherwise, |rule| rule.verdict)
    }

    /// The treatment of a packet that no rule matches.
    #[must_use]
    pub const fn otherwise(&self) -> Verdict {
        self.otherwise
    }

    /// The class of flows that no rule matches and that behave like calls, if they are to have one.
    #[must_use]
    pub const fn observed(&self) -> Option<ClassId> {
        self.observed
    }

    /// Whether packets for a relay wait until it may have forwarded the packet before.
    pub const fn waits_for_relays(&self) -> bool {
        self.waits_for_relays
    }

    /// The classes that hold packets; [`ClassId`] is the place here.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The shortest wait for the turns of others that a class allows.
    #[must_use]
    pub fn wait_max(&self) -> Option<Duration> {
        self.classes.iter().filter_map(|class| class.wait_max).min()
    }

    /// The class of that name.
    #[must_use]
    pub fn class_named(&self, name: &str) -> Option<ClassId> {
        class_id(&self.classes, name)
    }

    /// How the classes share a port.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Settings that are allowed but probably not meant.
    #[must_use]
    pub fn warnings(&self) -> &[PolicyWarning] {
        &self.warnings
    }
}

/// Puts a rule into a table at the places given, or everywhere if there is none.
fn enter(table: &mut [RuleSet], bit: RuleSet, places: impl ExactSizeIterator<Item = usize>) {
    if places.len() == 0 {
        table.iter_mut().for_each(|set| *set |= bit);
    }
    for place in places {
        if let Some(set) = table.get_mut(place) {
            *set |= bit;
        }
    }
}

/// The ports that a configuration names, each once, those that aren't trusted first.
fn ports(config: &PolicyConfig) -> Vec<String> {
    let rules = config.rules.iter().flat_map(|rule| &rule.ingress.0);
    let mut ports: Vec<String> = config.untrusted.0.clone();
    for name in rules {
        if !ports.contains(name) {
            ports.push(name.clone());
        }
    }
    ports
}

fn names(classes: &[Class]) -> String {
    let names: Vec<_> = classes.iter().map(|class| class.name.as_str()).collect();
    names.join(", ")
}

fn class_id(classes: &[Class], name: &str) -> Option<ClassId> {
    let index = classes.iter().position(|class| class.name == name)?;
    u8::try_from(index).ok().map(ClassId)
}

/// Other classes that policers name hold packets, and have no policer: a packet is judged once.
fn check_policers(classes: &[Class]) -> Result<(), PolicyError> {
    for class in classes {
        for other in class.police.iter().flat_map(PoliceConfig::others) {
            let problem = match class_id(classes, other).map(|id| &classes[id.index()]) {
                None => "holds no packets",
                Some(found) if found.name == class.name => "is the same",
                Some(found) if found.police.is_some() => "has a policer itself",
                Some(_) => continue,
            };
            return Err(PolicyError::PoliceClass {
                class: class.name.clone(),
                other: other.into(),
                problem,
                classes: names(classes),
            });
        }
    }
    Ok(())
}

fn default_class(config: &PolicyConfig, classes: &[Class]) -> Result<ClassId, PolicyError> {
    match &config.default {
        Some(name) => class_id(classes, name).ok_or_else(|| PolicyError::UnknownDefault {
            class: name.clone(),
            classes: names(classes),
        }),
        None if classes.len() == 1 => Ok(ClassId(0)),
        None => Err(PolicyError::NoDefault {
            classes: names(classes),
        }),
    }
}

fn observed_class(
    config: &PolicyConfig,
    classes: &[Class],
) -> Result<Option<ClassId>, PolicyError> {
    let Some(name) = config.observed.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let class = class_id(classes, name).ok_or_else(|| PolicyError::UnknownObserved {
        class: name.into(),
        classes: names(classes),
    })?;
    Ok(Some(class))
}

/// The rule's own mark wins over its class's.
fn with_class_mark(verdict: Verdict, classes: &[Class]) -> Verdict {
    let of_class = classes
        .get(verdict.class.index())
        .and_then(|class| class.mark);
    Verdict {
        mark: verdict.mark.or(of_class),
        ..verdict
    }
}

/// A rule without the conditions that the tables already decided.
#[derive(Clone, Debug)]
struct Rule {
    verdict: Verdict,
    ingress: Vec<Ingress>,
    octets: (u32, u32),
    tcp_control: bool,
    port: Vec<PortRange>,
    source_port: Vec<PortRange>,
    destination_port: Vec<PortRange>,
    source: Vec<Prefix>,
    destination: Vec<Prefix>,
    flow_label: Vec<u32>,
    spi: Vec<u32>,
}

impl Rule {
    fn compile(rule: usize, config: &RuleConfig, policy: &Policy) -> Result<Self, PolicyError> {
        let class = match &config.class {
            Some(name) => policy
                .class_named(name)
                .ok_or_else(|| PolicyError::UnknownClass {
                    rule,
                    class: name.clone(),
                    classes: names(&policy.classes),
                })?,
            None if config.filter => policy.otherwise.class,
            None => return Err(PolicyError::NoAction { rule }),
        };
        let verdict = Verdict {
            class,
            mark: config.mark.map(Dscp::number),
            filter: config.filter,
            rate_bit_s: config.rate.map(|rate| rate.0),
            ruled: true,
        };
        let bound = |octets: Option<Octets>, none| {
            octets.map_or(none, |octets| u32::try_from(octets.0).unwrap_or(u32::MAX))
        };
        let compiled = Self {
            verdict: with_class_mark(verdict, &policy.classes),
            ingress: config
                .ingress
                .0
                .iter()
                .map(|name| policy.ingress(name))
                .collect(),
            octets: (
                bound(config.min_octets, 0),
                bound(config.max_octets, u32::MAX),
            ),
            tcp_control: config.tcp_control,
            port: config.port.0.clone(),
            source_port: config.source_port.0.clone(),
            destination_port: config.destination_port.0.clone(),
            source: config.source.0.clone(),
            destination: config.destination.0.clone(),
            flow_label: config.flow_label.0.clone(),
            spi: config.spi.0.clone(),
        };
        match compiled.impossible(config) {
            Some(remedy) => Err(PolicyError::NeverMatches { rule, remedy }),
            None => Ok(compiled),
        }
    }

    /// The necessary change if no packet can meet all conditions.
    fn impossible(&self, config: &RuleConfig) -> Option<&'static str> {
        let asked = |number| {
            config
                .protocol
                .0
                .iter()
                .any(|protocol| protocol.0 == number)
        };
        let other_than = |numbers: &[u8]| {
            !config.protocol.is_empty() && !numbers.iter().any(|number| asked(*number))
        };
        if self.octets.0 > self.octets.1 {
            return Some("`min_octets` is above `max_octets`");
        }
        if config.code_points().is_some_and(|all| all.is_empty()) {
            return Some("no `dscp` of it is of its `precedence`");
        }
        if config.flow_label.0.iter().any(|label| *label > 0xf_ffff) {
            return Some("a `flow_label` has 20 bits");
        }
        if self.asks_ports() && other_than(&[protocol::UDP, protocol::TCP]) {
            return Some("only \"udp\" and \"tcp\" have ports");
        }
        if self.tcp_control && other_than(&[protocol::TCP]) {
            return Some("`tcp_control` is of protocol \"tcp\"");
        }
        if !self.spi.is_empty() && other_than(&[protocol::ESP]) {
            return Some("only \"esp\" has an `spi`");
        }
        if !self.spi.is_empty() && (self.asks_ports() || self.tcp_control) {
            return Some("a packet with an `spi` shows no ports");
        }
        None
    }

    fn asks_ports(&self) -> bool {
        ![&self.port, &self.source_port, &self.destination_port]
            .into_iter()
            .all(Vec::is_empty)
    }

    /// The protocols that can match; none means all.
    fn protocols(&self, config: &RuleConfig) -> Vec<u8> {
        if self.tcp_control {
            return [protocol::TCP].into();
        }
        if !self.spi.is_empty() {
            return [protocol::ESP].into();
        }
        let List(asked) = &config.protocol;
        if asked.is_empty() && self.asks_ports() {
            return [protocol::UDP, protocol::TCP].into();
        }
        asked.iter().map(|protocol| protocol.0).collect()
    }

    fn matches(&self, packet: &PacketInfo, from: Ingress) -> bool {
        if !self.ingress.is_empty() && !self.ingress.contains(&from) {
            return false;
        }
        let any_prefix = |prefixes: &[Prefix], address| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address))
        };
        self.octets.0 <= packet.octets
            && packet.octets <= self.octets.1
            && (!self.tcp_control || overtakes(packet))
            && self.matches_ports(packet)
            && any_prefix(&self.source, packet.src)
            && any_prefix(&self.destination, packet.dst)
            && (self.flow_label.is_empty() || self.flow_label.contains(&packet.flow_label))
            && (self.spi.is_empty() || packet.spi.is_some_and(|spi| self.spi.contains(&spi)))
    }

    fn matches_ports(&self, packet: &PacketInfo) -> bool {
        if !self.asks_ports() {
            return true;
        }
        let Some((source, destination)) = packet.ports else {
            return false;
        };
        let any = |ranges: &[PortRange], ports: &[u16]| {
            let holds = |range: &PortRange| ports.iter().any(|port| range.contains(*port));
            ranges.is_empty() || ranges.iter().any(holds)
        };
        any(&self.port, &[source, destination])
            && any(&self.source_port, &[source])
            && any(&self.destination_port, &[destination])
    }
}

/// A TCP segment that does no harm before its turn.
fn overtakes(packet: &PacketInfo) -> bool {
    let ordered = (TcpFlags::FIN | TcpFlags::RST).0;
    packet.tcp_bare.is_some_and(|flags| flags.0 & ordered == 0)
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
