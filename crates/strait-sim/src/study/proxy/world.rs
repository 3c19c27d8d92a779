//! The worlds of the study `proxy`: two gateways with hosts, the way between them, and traffic.

use std::fmt::Write as _;

use serde::Deserialize;
use strait_core::units::{BitRate, Octets, Time};
use strait_node::config_text::{self, ConfigError};
use strait_scenario::Loaded;
use toml::{Table, Value};

use super::super::scenario::load_text;

/// A way between two gateways, as the study's file has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct PathRow {
    /// Its name in tables.
    pub(super) name: String,
    /// Keys of the ports at both ends; of the second, what it has of its own.
    port: Table,
    #[serde(default)]
    far: Table,
    /// The medium of each link.
    channel: Table,
    /// Gateways between the two.
    #[serde(default)]
    pub(super) relays: usize,
    /// Who is compared; all if none is named.
    #[serde(default = "System::all")]
    pub(super) systems: Vec<System>,
    /// What the link carries of packets.
    pub(super) rate: BitRate,
    /// Octets of a transfer.
    pub(super) octets: Octets,
    /// How long any of the systems may take for it.
    limit: Time,
    /// Runs with different seeds.
    #[serde(default = "one")]
    pub(super) seeds: u64,
    /// The check of its transfers, if they have one of their own.
    pub(super) id: Option<String>,
    /// The least share of what datagrams get of it, or of `rate` if the file says so.
    pub(super) share_min: Option<f64>,
    #[serde(default)]
    pub(super) of_rate: bool,
    /// Line time that may wait of what was acknowledged to a sender.
    #[serde(default = "hold")]
    pub(super) hold: Time,
    /// How long after an outage there may be nothing; no outage is tried if absent.
    pub(super) outage_max: Option<Time>,
    /// Outages that are tried, one a run, and how much later each begins than the one before: what
    /// is under way when the link goes decides how long it takes.
    #[serde(default = "one")]
    pub(super) outages: u64,
    #[serde(default = "step")]
    step: Time,
    /// Whether short transfers beside long ones are looked at, and at how many moments. These are
    /// as far apart as outages: how long a turn still takes decides how long a page does.
    #[serde(default)]
    pub(super) short: u64,
    /// Whether a call is.
    #[serde(default)]
    pub(super) call: bool,
    /// The longest time for the transfer that is good enough, in s.
    pub(super) time_max_s: Option<f64>,
}

const fn one() -> u64 {
    1
}

const fn hold() -> Time {
    Time(strait_core::Duration::from_secs(2))
}

const fn step() -> Time {
    Time(strait_core::Duration::from_millis(1750))
}

/// What carries a client's octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum System {
    /// TCP from host to host.
    PlainCubic,
    PlainBbr,
    /// The proxies of two gateways, hosts with CUBIC; clients hear what the server says, or are
    /// connected early.
    Honest,
    Early,
}

impl System {
    fn all() -> Vec<Self> {
        vec![Self::PlainCubic, Self::PlainBbr, Self::Honest, Self::Early]
    }

    /// The word in tables.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::PlainCubic => "plain cubic",
            Self::PlainBbr => "plain bbr",
            Self::Honest => "strait",
            Self::Early => "strait early",
        }
    }

    pub(super) const fn is_plain(self) -> bool {
        matches!(self, Self::PlainCubic | Self::PlainBbr)
    }

    const fn endpoint(self) -> &'static str {
        match self {
            Self::PlainBbr => "linux-bbr",
            _ => "linux-cubic",
        }
    }
}

/// What is on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// One transfer.
    File,
    /// The same as a client asks for it: a page of one object.
    Fetch,
    /// A transfer of a thousand octets.
    Few,
    /// One transfer, and for a while nothing crosses: the path's outage of this number.
    Outage(u64),
    /// More datagrams than there is room for.
    Datagrams,
    /// A short datagram now and then.
    Crossing,
    /// A page, six downloads that fill the link, or both, with the page at the path's moment of
    /// this number.
    Page,
    Downloads,
    Both(u64),
    /// A call, and one beside both.
    Call,
    CallBeside,
}

/// When what is measured begins: by then partners know each other.
pub(super) const START_S: f64 = 30.0;
/// When the first page begins beside downloads.
const PAGE_S: f64 = 60.0;
/// The first outage: its begin and its length.
const OUTAGE_S: [f64; 2] = [50.0, 60.0];
/// Downloads at a time, octets of the page, and its objects, each by a connection of its own.
pub(super) const DOWNLOADS: usize = 6;
pub(super) const PAGE_OCTETS: u64 = 18_000;
const OBJECTS: usize = 6;
/// How long pages and downloads are looked at.
pub(super) const SHORT_S: f64 = 400.0;
const FEW_OCTETS: u64 = 1000;
/// How long datagrams are sent.
const DATAGRAMS_S: f64 = 120.0;
/// Octets of a datagram that fills the link, and of a short one.
pub(super) const DATAGRAM_OCTETS: u64 = 1400;
const SHORT_OCTETS: u64 = 60;

impl PathRow {
    /// The world of one run.
    ///
    /// # Errors
    /// What of the row's keys can't be.
    pub(super) fn world(&self, system: System, load: Load) -> Result<Loaded, ConfigError> {
        let name = format!("proxy/{}.toml", self.name);
        let mut text = format!(
            "name = \"proxy\"\nduration = \"{} s\"\n",
            self.duration_s(load)
        );
        for side in 0..2 {
            text += &self.gateway(side, system);
        }
        for relay in 1..=self.relays {
            text += &self.relay(relay);
        }
        for hop in 0..=self.relays {
            text += &self.link(hop, load);
        }
        for flow in self.flows(system, load) {
            let _ = writeln!(text, "[[traffic]]\nfamily = 4\n{flow}");
        }
        load_text(&name, &text)
    }

    /// What the way takes beside the time of octets, in s.
    pub(super) fn delay_s(&self) -> f64 {
        let delay = self.channel.get("delay").and_then(Value::as_str);
        let delay: Option<Time> = delay.and_then(|text| text.parse().ok());
        (self.relays + 1) as f64 * delay.map_or(0.0, |it| it.0.as_secs_f64())
    }

    /// When an outage begins, and how long it lasts.
    pub(super) fn outage_s(&self, number: u64) -> [f64; 2] {
        let [begins_s, lasts_s] = OUTAGE_S;
        [begins_s + self.later_s(number), lasts_s]
    }

    /// When a page begins.
    pub(super) fn page_s(&self, number: u64) -> f64 {
        PAGE_S + self.later_s(number)
    }

    fn later_s(&self, number: u64) -> f64 {
        number as f64 * self.step.0.as_secs_f64()
    }

    fn duration_s(&self, load: Load) -> f64 {
        START_S
            + match load {
                Load::File | Load::Fetch | Load::Few => self.limit.0.as_secs_f64(),
                Load::Outage(n) => {
                    self.outage_s(n).iter().sum::<f64>() + self.limit.0.as_secs_f64()
                }
                Load::Datagrams | Load::Crossing => DATAGRAMS_S,
                _ => SHORT_S,
            }
    }

    fn gateway(&self, side: usize, system: System) -> String {
        let (own, other) = (["a", "b"][side], ["b", "a"][side]);
        let (near, far) = (side + 1, 2 - side);
        let proxy = match system {
            _ if system.is_plain() => String::new(),
            _ => {
                let connect = if system == System::Early {
                    "early"
                } else {
                    "honest"
                };
                format!(
                    "proxy = {{ connect = \"{connect}\", allow = [\"10.{near}.0.0/24\"], partner = [\
                     {{ address = \"10.9.0.{far}\", prefixes = [\"10.{far}.0.0/24\"] }}] }}\n"
                )
            }
        };
        let mut port = self.port.clone();
        port.insert("name".into(), "link".into());
        if side == 1 {
            let _ = config_text::merge(&mut port, &self.far);
        }
        let port = Value::Table(port);
        format!(
            "[[node]]\nname = \"{own}\"\n[node.config]\nname = \"{own}\"\nport = [{port}]\n\
             host = {{ addresses = [\"10.9.0.{near}/30\"], routes = [\"10.{far}.0.0/24\"] }}\n{proxy}\
             [[host]]\nname = \"h{own}\"\nbehind = \"{own}\"\naddresses = [\"10.{near}.0.2/24\"]\n\
             gateway_addresses = [\"10.{near}.0.1/24\"]\n# to {other}\n"
        )
    }

    /// A gateway between links: left is towards the first.
    fn relay(&self, number: usize) -> String {
        let ports = ["left", "right"].map(|name| {
            let mut port = self.port.clone();
            port.insert("name".into(), name.into());
            Value::Table(port)
        });
        let [left, right] = ports;
        let routes = [(1, "left"), (2, "right")].map(|(side, port)| {
            format!(
                "{{ prefix = \"10.{side}.0.0/24\", port = \"{port}\" }}, \
                 {{ prefix = \"10.9.0.{side}/32\", port = \"{port}\" }}"
            )
        });
        let routes = routes.join(", ");
        format!(
            "[[node]]\nname = \"r{number}\"\n[node.config]\nname = \"r{number}\"\nhost = {{}}\n\
             port = [{left}, {right}]\nroute = [{routes}]\n"
        )
    }

    fn link(&self, hop: usize, load: Load) -> String {
        let left = match hop {
            0 => "a.link".into(),
            hop => format!("r{hop}.right"),
        };
        let right = match hop {
            hop if hop == self.relays => "b.link".into(),
            hop => format!("r{}.left", hop + 1),
        };
        let mut channel = self.channel.clone();
        if let Load::Outage(number) = load {
            let outage_s = self.outage_s(number);
            let [at, lasts] = outage_s.map(|seconds| Value::String(format!("{seconds} s")));
            let outage = [("at".to_owned(), at), ("lasts".to_owned(), lasts)];
            let outage = Value::Table(Table::from_iter(outage));
            channel.insert("outage".into(), Value::Array(vec![outage]));
        }
        let channel = Value::Table(channel);
        format!(
            "[[link]]\nname = \"hop{hop}\"\nbetween = [\"{left}\", \"{right}\"]\nchannel = {channel}\n"
        )
    }

    fn flows(&self, system: System, load: Load) -> Vec<String> {
        // All octets go the same way: of a page to its client.
        const DOWN: &str = "from = \"hb\"\nto = \"ha\"";
        let endpoint = system.endpoint();
        let tcp = |name: &str, octets: u64| {
            format!(
                "{DOWN}\nname = \"{name}\"\nkind = \"tcp\"\nstart = \"{START_S} s\"\n\
                 octets = \"{octets} B\"\nendpoint = \"{endpoint}\""
            )
        };
        let udp = |octets: u64, rate: u64| {
            format!(
                "{DOWN}\nname = \"udp\"\nkind = \"udp\"\nstart = \"{START_S} s\"\n\
                 payload = \"{octets} B\"\nrate = \"{rate} bit/s\""
            )
        };
        // More than the link carries while it is looked at.
        let download = self.rate.0 / 8 * SHORT_S as u64 / DOWNLOADS as u64;
        let downloads = (0..DOWNLOADS).map(|n| tcp(&format!("download{n}"), download));
        let moment = match load {
            Load::Both(number) => number,
            _ => 0,
        };
        let page_s = self.page_s(moment);
        let page = |at_s: f64, octets: u64, objects: usize| {
            format!(
                "from = \"ha\"\nto = \"hb\"\nname = \"page\"\nkind = \"page\"\nstart = \"{at_s} s\"\n\
                 octets = \"{octets} B\"\nobjects = {objects}\nconnections = {objects}\n\
                 endpoint = \"{endpoint}\""
            )
        };
        let fetch = page(START_S, self.octets.0, 1);
        let page = page(page_s, PAGE_OCTETS, OBJECTS);
        let call: String = "from = \"ha\"\nto = \"hb\"\nname = \"call\"\nkind = \"voice\"\nstart = \"20 s\"\npayload = \"31 B\"\n\
                    period = \"200 ms\"\nboth_ways = true\ndscp = \"EF\"\nstop = \"400 s\""
            .into();
        match load {
            Load::File => vec![tcp("file", self.octets.0)],
            Load::Fetch => vec![fetch],
            Load::Few => vec![tcp("file", FEW_OCTETS)],
            // As long as two minutes of the link.
            Load::Outage(_) => vec![tcp("file", self.octets.0.min(self.rate.0 / 8 * 120))],
            Load::Datagrams => vec![udp(DATAGRAM_OCTETS, self.rate.0 * 3 / 2)],
            Load::Crossing => vec![udp(SHORT_OCTETS, SHORT_OCTETS * 8 / 20)],
            Load::Page => vec![page],
            Load::Downloads => downloads.collect(),
            Load::Both(_) => downloads.chain([page]).collect(),
            Load::Call => vec![call],
            // First, as where it is alone: its addresses and ports are the same.
            Load::CallBeside => [call].into_iter().chain(downloads).chain([page]).collect(),
        }
    }
}
