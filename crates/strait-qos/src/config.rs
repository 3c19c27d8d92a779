//! A policy as configuration files write it.

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use strait_core::units::{BitRate, Octets, Time};

use crate::dscp::Dscp;
use crate::error::PolicyError;
use crate::leaf::QueueConfig;
use crate::matching::{List, PortRange, Prefix, Protocol};
use crate::plan::{Discipline, ShapeKind};
use crate::police::PoliceConfig;
use crate::precedence::Precedence;
use crate::preset;
use crate::rate::Rate;

/// Classes, and the rules that put packets into them.
///
/// With `preset`, the preset's classes and discipline are used, and own rules go before the
/// preset's. Without any class the preset is `default`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// The name of a built-in policy, one of [`PolicyConfig::presets`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// A file with the policy; the reader of the configuration replaces this by its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Name of the class of packets that match no rule; may be left out with a single class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Name of the class of flows that match no rule and behave like calls; "" with a preset that
    /// has one: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// How classes without `parent` share the port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub discipline: Discipline,
    /// With `discipline = "htb"`: a class's rate in octets/s over its quantum in octets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2q: Option<u32>,
    /// A limit on all that a port sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeConfig>,
    /// The effect of a changed line rate on rates in bit/s.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_rate_change: RateChange,
    /// With `on_rate_change = "scale"`: the line's rate that those rates are written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<BitRate>,
    /// All queues leave out superfluous TCP acknowledgements, as if each had that key.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub thin_acks: bool,
    /// On a channel by which a neighbour also forwards, packets for it wait until it may have
    /// forwarded the packet before; also without the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for_relays: Option<bool>,
    /// Ports of the node whose code points aren't believed: their packets are treated, and
    /// forwarded, as if they had none. `host` is the host side.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub untrusted: List<String>,
    /// The classes; their order gives them their numbers, not their rank.
    #[serde(default, rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassConfig>,
    /// The rules, in order: the first that matches decides.
    #[serde(default, rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleConfig>,
}

/// The effect of a changed line rate on rates in bit/s. Weights and percentages follow the line in
/// any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateChange {
    /// They stay as written.
    #[default]
    Keep,
    /// They grow and shrink with the line.
    Scale,
}

/// A limit on the rate of a class, or of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeConfig {
    /// How it works.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: ShapeKind,
    /// The rate.
    pub rate: Rate,
    /// Octets that leave at once after a pause (Bc); by default as little as the kind needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Octets>,
    /// Octets that may gather on top of `burst` (Be); as much again by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<Octets>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A class of service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// Its name in rules, status and metrics.
    pub name: String,
    /// Name of the class that it is part of; at the top without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How the classes below share its rate; token buckets without a discipline continue downwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
    /// With `discipline = "htb"`: a class's rate in octets/s over its quantum in octets; 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2q: Option<u32>,
    /// Rank (wdrr, cbwfq): a band goes only when no lower-numbered band has anything to send; 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<u8>,
    /// Share of its band's traffic, in proportion to the others of the band, by octets; 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Its guaranteed rate (htb), or its share as a rate (wdrr, cbwfq).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Its greatest rate (htb); its rate by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceil: Option<Rate>,
    /// Octets that its rate's bucket holds (htb); one packet by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Octets>,
    /// Octets that its ceiling's bucket holds (htb); one packet by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cburst: Option<Octets>,
    /// Rank among those that borrow (htb): 0, the default, is first, 7 is last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prio: Option<u8>,
    /// Octets of its turn when it borrows (htb).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Octets>,
    /// It goes before all others and no bucket is charged for it (htb), as Linux treats packets
    /// without a class.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub direct: bool,
    /// A limit on all that it sends, its children included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeConfig>,
    /// Packets that may wait; if left out, the usual limit of its queue's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Octets that may wait; no limit of its own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octets: Option<Octets>,
    /// How long after the node got it a packet may still wait; no limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Time>,
    /// How long one of its packets, of 1000 octets at most, may take over an HF link whose other
    /// end is on the air: others' turns are as short as that asks for, and half as long at least.
    /// No such bound if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_max: Option<Time>,
    /// In which order its packets go, and which of them don't; first come, first served if left
    /// out.
    #[serde(default, skip_serializing_if = "QueueConfig::is_default")]
    pub queue: QueueConfig,
    /// Which of its packets may enter; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub police: Option<PoliceConfig>,
    /// A key of the past: reading it fails and names the present one.
    #[serde(default, skip_serializing)]
    pub fair: Moved,
    /// A key of the past, as `fair`.
    #[serde(default, skip_serializing)]
    pub absorb_repeats: Moved,
    /// Code point that every packet of the class gets, unless its rule names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Dscp>,
}

/// A key that stands elsewhere now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved;

impl<'de> Deserialize<'de> for Moved {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(
            "this key has moved to the queue: write queue = { kind = \"fair\", \
             absorb_repeats = true } with the settings that you want",
        ))
    }
}

impl ClassConfig {
    /// A class with all else left out.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            parent: None,
            discipline: None,
            r2q: None,
            band: None,
            weight: None,
            rate: None,
            ceil: None,
            burst: None,
            cburst: None,
            prio: None,
            quantum: None,
            direct: false,
            shape: None,
            packets: None,
            octets: None,
            age: None,
            wait_max: None,
            queue: QueueConfig::default(),
            police: None,
            fair: Moved,
            absorb_repeats: Moved,
            mark: None,
        }
    }

    /// The keys that speak of waiting packets, and whether each is there.
    pub(crate) fn leaf_keys(&self) -> [(&'static str, bool); 7] {
        [
            ("packets", self.packets.is_some()),
            ("octets", self.octets.is_some()),
            ("age", self.age.is_some()),
            ("wait_max", self.wait_max.is_some()),
            ("queue", !self.queue.is_default()),
            ("police", self.police.is_some()),
            ("mark", self.mark.is_some()),
        ]
    }
}

/// A rule: a packet that meets all its conditions goes into its class.
///
/// Ports and index are known of whole packets and first fragments only: a later fragment never
/// meets a condition on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// Name of the class; may be left out only with `filter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Ports of the node by which packets come in; `host` is the host side.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub ingress: List<String>,
    /// Code points.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub dscp: List<Dscp>,
    /// Levels of IP precedence: the upper three bits of the code point.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub precedence: List<Precedence>,
    /// Transport protocols.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub protocol: List<Protocol>,
    /// UDP or TCP port at either end.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub port: List<PortRange>,
    /// UDP or TCP port of the sender.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub source_port: List<PortRange>,
    /// UDP or TCP port of the receiver.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub destination_port: List<PortRange>,
    /// Addresses of the sender.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub source: List<Prefix>,
    /// Addresses of the receiver.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub destination: List<Prefix>,
    /// IPv6 flow labels (RFC 6437); IPv4 packets have label 0.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub flow_label: List<u32>,
    /// Security parameters indices of ESP (RFC 4303).
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub spi: List<u32>,
    /// Octets of the whole IP packet, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_octets: Option<Octets>,
    /// Octets of the whole IP packet, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_octets: Option<Octets>,
    /// Only TCP segments that may overtake data of their own connection without harm: without data,
    /// FIN and RST, that is SYN, SYN-ACK and bare acknowledgements. (A FIN that arrives before the
    /// data makes the receiver report a gap, and the sender repeat data still under way.)
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub tcp_control: bool,
    /// Code point that matching packets get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Dscp>,
    /// Matching packets don't pass.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub filter: bool,
    /// The rate that each call whose packets match needs on the line, headers compressed. Without
    /// it a port that admits calls measures them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
}

impl RuleConfig {
    /// The code points that match, by `dscp` and `precedence`; `None`: all do.
    #[must_use]
    pub fn code_points(&self) -> Option<Vec<Dscp>> {
        let levels = || {
            let List(levels) = &self.precedence;
            levels.iter().flat_map(|level| level.code_points())
        };
        match (self.dscp.is_empty(), self.precedence.is_empty()) {
            (true, true) => None,
            (true, false) => Some(levels().collect()),
            (false, true) => Some(self.dscp.0.clone()),
            (false, false) => {
                let both = |dscp: &Dscp| levels().any(|of_level| of_level == *dscp);
                Some(self.dscp.0.iter().copied().filter(both).collect())
            }
        }
    }

    /// Whether every packet matches.
    #[must_use]
    pub fn has_no_condition(&self) -> bool {
        let action = Self {
            class: self.class.clone(),
            mark: self.mark,
            filter: self.filter,
            ..Self::default()
        };
        *self == action
    }
}

impl PolicyConfig {
    /// Names of the built-in policies.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        preset::FILES.into_iter().map(|(name, _)| name)
    }

    /// A built-in policy, written out; `None` if there is none of that name.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        let file = preset::FILES.into_iter().find(|(known, _)| *known == name);
        toml::from_str(file?.1).ok()
    }

    /// The same policy with its preset and `thin_acks` written out.
    pub fn expand(&self) -> Result<Self, PolicyError> {
        let mut expanded = self.with_preset()?;
        expanded.thin_acks = false;
        if self.thin_acks {
            let parents: Vec<String> = expanded
                .classes
                .iter()
                .filter_map(|it| it.parent.clone())
                .collect();
            let leaves = expanded.classes.iter_mut();
            leaves
                .filter(|class| !parents.contains(&class.name))
                .for_each(|class| class.queue.thin_acks());
        }
        Ok(expanded)
    }

    fn with_preset(&self) -> Result<Self, PolicyError> {
        if let Some(file) = &self.file {
            return Err(PolicyError::FileNotRead { file: file.clone() });
        }
        let name = match &self.preset {
            Some(name) if self.classes.is_empty() => name,
            Some(name) => {
                return Err(PolicyError::PresetWithClasses {
                    preset: name.clone(),
                });
            }
            None if self.classes.is_empty() => "default",
            None => return Ok(self.clone()),
        };
        let Some(mut expanded) = Self::preset(name) else {
            return Err(PolicyError::UnknownPreset {
                preset: name.into(),
                presets: Self::presets().collect::<Vec<_>>().join(", "),
            });
        };
        expanded.rules.splice(0..0, self.rules.iter().cloned());
        if self.default.is_some() {
            expanded.default.clone_from(&self.default);
        }
        if self.observed.is_some() {
            expanded.observed.clone_from(&self.observed);
        }
        if self.shape.is_some() {
            expanded.shape.clone_from(&self.shape);
        }
        if !self.untrusted.is_empty() {
            expanded.untrusted.clone_from(&self.untrusted);
        }
        if self.waits_for_relays.is_some() {
            expanded.waits_for_relays = self.waits_for_relays;
        }
        if self.line.is_some() {
            (expanded.line, expanded.on_rate_change) = (self.line, self.on_rate_change);
        }
        Ok(expanded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn one_key_thins_acknowledgements_in_all_queues() {
        let own = "thin_acks = true
            [[class]]
            name = 'all'
            [[class]]
            name = 'part'
            parent = 'all'
            queue = { kind = 'fair', absorb_repeats = true }";
        for text in ["thin_acks = true", own] {
            let config: PolicyConfig = toml::from_str(text).unwrap();
            let expanded = config.expand().unwrap();
            assert!(!expanded.thin_acks);
            for class in &expanded.classes {
                let holds = class.name != "all";
                assert_eq!(class.queue.thins_acks(), holds, "{}", class.name);
            }
            let before = config.with_preset().unwrap().classes;
            for (class, before) in expanded.classes.iter().zip(before) {
                assert_eq!(
                    class.queue.absorbs_repeats(),
                    before.queue.absorbs_repeats()
                );
            }
        }
    }

    #[test]
    fn all_keys_are_read() {
        let text = r#"
            default = "rest"
            untrusted = "wlan"
            [[class]]
            name = "urgent"
            band = 0
            weight = 3
            packets = 10
            octets = "4 kB"
            age = "500 ms"
            mark = "EF"
            [[class]]
            name = "rest"
            [[match]]
            class = "urgent"
            ingress = ["host", "line"]
            dscp = ["EF", 44]
            protocol = "udp"
            port = [53, "5000-5010"]
            source_port = 1
            destination_port = "2-3"
            source = "10.0.0.0/8"
            destination = ["fd00::/16", "10.1.2.3"]
            flow_label = [0x12345]
            spi = 256
            precedence = "flash"
            min_octets = 40
            max_octets = "1 kB"
            tcp_control = true
            mark = 0
            rate = "1520 bit/s"
            [[match]]
            filter = true
        "#;
        let config: PolicyConfig = toml::from_str(text).unwrap();
        let [urgent, rest] = &config.classes[..] else {
            panic!()
        };
        assert_eq!((urgent.band, urgent.weight), (Some(0), Some(3)));
        assert_eq!(urgent.packets, Some(10));
        assert_eq!(urgent.octets, Some(Octets(4000)));
        assert_eq!(urgent.age, Some("500 ms".parse().unwrap()));
        assert_eq!(urgent.mark, Some(Dscp::EF));
        assert_eq!(rest, &ClassConfig::new("rest"));
        let expected = RuleConfig {
            class: Some("urgent".into()),
            ingress: ["host".into(), "line".into()].into(),
            dscp: [Dscp::EF, Dscp::VA].into(),
            protocol: [Protocol(17)].into(),
            port: [
                PortRange::single(53),
                PortRange {
                    first: 5000,
                    last: 5010,
                },
            ]
            .into(),
            source_port: [PortRange::single(1)].into(),
            destination_port: [PortRange { first: 2, last: 3 }].into(),
            source: ["10.0.0.0/8".parse().unwrap()].into(),
            destination: ["fd00::/16".parse().unwrap(), "10.1.2.3/32".parse().unwrap()].into(),
            flow_label: [0x12345].into(),
            spi: [256].into(),
            precedence: ["flash".parse().unwrap()].into(),
            min_octets: Some(Octets(40)),
            max_octets: Some(Octets(1000)),
            tcp_control: true,
            mark: Some(Dscp::DF),
            filter: false,
            rate: Some(BitRate(1520)),
        };
        assert_eq!(config.rules[0], expected);
        assert_eq!(config.untrusted, ["wlan".into()].into());
        assert_eq!(
            config.rules[1],
            RuleConfig {
                filter: true,
                ..RuleConfig::default()
            }
        );
    }

    #[test]
    fn wrong_values_and_keys_are_named() {
        let cases = [
            ("[[class]]\nname = \"a\"\nbant = 1", "unknown field `bant`"),
            ("[[match]]\ndscp = \"AF55\"", "`AF55` is no code point"),
            ("[[match]]\ndscp = 64", "`64` is no code point"),
            ("[[match]]\nport = [70000]", "`70000` is no port"),
            (
                "[[match]]\nsource = \"10.0.0.0/40\"",
                "`10.0.0.0/40` is no prefix",
            ),
            ("[[match]]\nprotocol = \"sctpp\"", "`sctpp` is no protocol"),
            ("[[match]]\nspi = []", "an empty list matches nothing"),
            ("[[match]]\nspi = [-1]", "expected u32"),
            ("[[class]]\nname = \"a\"\nage = 5", "`5` is no time"),
            ("[[class]]\nband = 1", "missing field `name`"),
            (
                "[[class]]\nname = \"a\"\nfair = true",
                "write queue = { kind = \"fair\"",
            ),
        ];
        for (text, message) in cases {
            let error = toml::from_str::<PolicyConfig>(text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn every_preset_reads_compiles_and_warns_of_nothing() {
        for name in PolicyConfig::presets() {
            let config = PolicyConfig::preset(name).unwrap();
            let policy = crate::policy::Policy::compile(&config).unwrap();
            assert_eq!(policy.warnings(), [], "{name}");
            let again: PolicyConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
            assert_eq!(again, config, "{name}");
        }
        assert_eq!(PolicyConfig::preset("other"), None);
    }

    #[test]
    fn own_rules_go_before_the_rules_of_a_preset() {
        let own = RuleConfig {
            filter: true,
            ..RuleConfig::default()
        };
        let preset = PolicyConfig::preset("default").unwrap();
        for name in [None, Some("default".into())] {
            let config = PolicyConfig {
                preset: name,
                default: Some("bulk".into()),
                rules: [own.clone()].into(),
                ..PolicyConfig::default()
            };
            let expanded = config.expand().unwrap();
            assert_eq!(expanded.classes, preset.classes);
            assert_eq!(expanded.rules[0], own);
            assert_eq!(expanded.rules[1..], preset.rules);
            assert_eq!(expanded.default, Some("bulk".into()));
        }
    }
}
