//! The worlds of the study `messaging`: two sites with a router or a gateway each, the way between
//! them, messages and a load.

use std::fmt::Write as _;

use serde::Deserialize;
use strait_core::units::{BitRate, Octets, Time};
use strait_node::config_text::{self, ConfigError};
use strait_qos::Dscp;
use strait_scenario::Loaded;
use toml::{Table, Value};

use super::super::scenario::load_text;

/// A way between the sites.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Way {
    /// Its name in tables.
    pub(super) name: String,
    /// Keys of the routers' ports, and what ports of our gateways have instead.
    port: Table,
    #[serde(default)]
    own: Table,
    /// The medium.
    channel: Table,
    /// What it carries of octets.
    pub(super) rate: BitRate,
    /// Whether that is less than the port's: our gateways' ports pace to it.
    #[serde(default)]
    paced: bool,
}

/// How the sender's router is configured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Regime {
    pub(super) name: String,
    policy: Table,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sent {
    /// The code point of its connection, as the paper had it.
    pub(super) dscp: Dscp,
    pub(super) octets: Octets,
    #[serde(default = "start")]
    start: Time,
    /// Lines of text, as octets look in base64; random octets if not.
    #[serde(default = "yes")]
    text: bool,
    /// How long it took the paper's, in s; what is infinite wasn't awaited.
    pub(super) paper_s: Option<f64>,
}

const fn yes() -> bool {
    true
}

/// By then connections that stay open are.
const fn start() -> Time {
    Time(strait_core::Duration::from_secs(15))
}

/// Messages of which one run is made, and each of which is a row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Which part its rows are in.
    pub(super) part: String,
    /// What it is about.
    pub(super) name: String,
    pub(super) way: String,
    pub(super) regime: String,
    /// The code point of a load of 1 Mbit/s, if there is one.
    pub(super) load: Option<Dscp>,
    #[serde(rename = "message")]
    pub(super) messages: Vec<Sent>,
    /// When the run ends.
    pub(super) limit: Time,
    /// Who is compared; all if none is named.
    #[serde(default = "System::all")]
    pub(super) by: Vec<System>,
}

/// What messages go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// A connection for each code point between hosts of 2007, over the regime's router.
    Baseline,
    /// The same between hosts of today.
    PlainCubic,
    PlainBbr,
    /// Our switches in gateways that schedule as they come.
    Strait,
    /// The same where the load comes by a port that isn't trusted, and is marked anew.
    StraitMarks,
}

impl System {
    fn all() -> Vec<Self> {
        vec![
            Self::Baseline,
            Self::PlainCubic,
            Self::PlainBbr,
            Self::Strait,
            Self::StraitMarks,
        ]
    }

    /// The word in tables.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::PlainCubic => "plain cubic",
            Self::PlainBbr => "plain bbr",
            Self::Strait => "strait",
            Self::StraitMarks => "strait, load re-marked",
        }
    }

    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Strait | Self::StraitMarks)
    }

    /// The keys of its hosts' TCP. Those of 2007 have no larger window.
    const fn endpoint(self) -> &'static str {
        match self {
            Self::PlainBbr => "endpoint = \"linux-bbr\"",
            Self::Baseline => "endpoint = \"linux-reno\"\nbuffer = \"64 kB\"",
            _ => "endpoint = \"linux-cubic\"",
        }
    }
}

/// Octets of the load's payload: packets of 1000.
const LOAD_OCTETS: u64 = 972;
/// A load of 1 Mbit/s of packets.
const LOAD_BIT_S: u64 = 972_000;

/// What a message is called in its world.
pub(super) fn message_name(at: usize) -> String {
    format!("message{at}")
}

/// The world of one run.
///
/// # Errors
/// What of the file's keys can't be.
pub(super) fn world(
    way: &Way,
    regime: &Regime,
    case: &Case,
    system: System,
    faults: &str,
) -> Result<Loaded, ConfigError> {
    let ends_s = case.limit.0.as_secs_f64();
    let mut text = format!("name = \"messaging\"\nduration = \"{ends_s} s\"\n{faults}");
    let lane = case.messages.iter().find(|it| it.dscp == Dscp::cs(1));
    for near in 0..2 {
        text += &way.site(near, regime, system, lane.is_some());
    }
    let mut channel = way.channel.clone();
    if way.paced && system.is_ours() {
        channel.insert("rate".into(), Value::String(way.rate.to_string()));
    }
    let channel = Value::Table(channel);
    let _ = writeln!(
        text,
        "[[link]]\nname = \"wan\"\nbetween = [\"naples.wan\", \"act.wan\"]\nchannel = {channel}"
    );
    for (at, message) in case.messages.iter().enumerate() {
        text += &message.text(at, system);
    }
    if let Some(dscp) = case.load {
        let _ = writeln!(
            text,
            "[[traffic]]\nname = \"load\"\nkind = \"udp\"\nfamily = 4\nfrom = \"load\"\nto = \"store\"\n\
             start = \"5 s\"\npayload = \"{LOAD_OCTETS} B\"\nrate = \"{LOAD_BIT_S} bit/s\"\ndscp = \"{dscp}\""
        );
    }
    let name = format!("messaging/{}, {}.toml", case.name, system.word());
    load_text(&name, &text)
}

impl Sent {
    pub(super) const fn new(dscp: Dscp, octets: Octets, start: Time) -> Self {
        Self {
            dscp,
            octets,
            start,
            text: true,
            paper_s: None,
        }
    }

    pub(super) fn start_s(&self) -> f64 {
        self.start.0.as_secs_f64()
    }

    fn text(&self, at: usize, system: System) -> String {
        let name = message_name(at);
        let (octets, start) = (self.octets.0, self.start_s());
        let (kind, to, dscp) = match system.is_ours() {
            // A priority is told by its lane's usual code point.
            true if self.dscp == Dscp::cs(1) => ("mail", "act", Dscp::af(2, 1)),
            true => ("mail", "act", self.dscp),
            false => ("tcp", "store", self.dscp),
        };
        let content = match system.is_ours() && !self.text {
            true => "text = false\n",
            false => "",
        };
        let endpoint = system.endpoint();
        format!(
            "[[traffic]]\nname = \"{name}\"\nkind = \"{kind}\"\nfamily = 4\nfrom = \"mail\"\nto = \"{to}\"\n\
             start = \"{start} s\"\noctets = \"{octets} B\"\ndscp = \"{dscp}\"\n{content}{endpoint}\n"
        )
    }
}

impl Way {
    /// A site: its router or gateway, and its hosts.
    fn site(&self, near: usize, regime: &Regime, system: System, cs1: bool) -> String {
        let name = ["naples", "act"][near];
        let (own, far) = (near + 1, 2 - near);
        let mut port = self.port.clone();
        port.insert("name".into(), "wan".into());
        if system.is_ours() {
            let _ = config_text::merge(&mut port, &self.own);
        }
        let port = Value::Table(port);
        let mut text = format!(
            "[[node]]\nname = \"{name}\"\n[node.config]\nname = \"{name}\"\nport = [{port}]\n"
        );
        let lan = format!(
            "addresses = [\"10.9.0.{own}/30\"], routes = [\"10.{far}.0.0/24\", \"10.3.0.0/24\"]"
        );
        let _ = match near {
            0 => writeln!(
                text,
                "host = [{{ name = \"lan\", interface = \"strait1\", {lan} }}, \
                 {{ name = \"guests\", kind = \"tap\", addresses = [\"10.3.0.1/24\"] }}]\n\
                 route = [{{ prefix = \"10.2.0.0/24\", port = \"wan\" }}, \
                 {{ prefix = \"10.9.0.2/32\", port = \"wan\" }}, \
                 {{ prefix = \"10.1.0.0/24\", port = \"lan\" }}]"
            ),
            _ => writeln!(text, "host = {{ {lan} }}"),
        };
        let policy = match (system, near) {
            (System::StraitMarks, 0) => {
                "{ preset = \"precedence\", untrusted = [\"guests\"], match = \
                 [{ ingress = \"guests\", class = \"deferred\", mark = \"LE\" }] }"
                    .to_owned()
            }
            _ if system.is_ours() => "{ preset = \"precedence\" }".to_owned(),
            (_, 0) => Value::Table(regime.policy.clone()).to_string(),
            _ => "{ preset = \"fifo\" }".to_owned(),
        };
        let _ = writeln!(text, "policy = {policy}");
        if system.is_ours() {
            text += &switch(name, ["act", "naples"][near], (own, far), cs1);
        }
        let _ = writeln!(
            text,
            "[[host]]\nname = \"{}\"\nbehind = \"{}\"\naddresses = [\"10.{own}.0.2/24\"]\ngateway_addresses = [\"10.{own}.0.1/24\"]",
            ["mail", "store"][near],
            ["naples.lan", "act"][near],
        );
        if near == 0 {
            text += "[[host]]\nname = \"load\"\nbehind = \"naples.guests\"\naddresses = [\"10.3.0.2/24\"]\n";
        }
        text
    }
}

/// The tables of a gateway's message switch.
fn switch(name: &str, other: &str, (own, far): (usize, usize), cs1: bool) -> String {
    let lane = if cs1 {
        "lane = [{ precedence = \"priority\", dscp = \"CS1\" }], "
    } else {
        ""
    };
    format!(
        "state = {{ file = \"{name}.state\" }}\n\
         mail = {{ name = \"{name}.example\", listen = [\"10.{own}.0.1:2525\"], clients = [\"10.{own}.0.0/24\"], \
         inbound = [\"10.9.0.{own}\"], mailboxes = [\"ops@{name}.example\"], maildir = \"mail\", {lane}\
         route = [{{ domains = [\"{other}.example\"], to = \"10.9.0.{far}\" }}] }}\n"
    )
}
