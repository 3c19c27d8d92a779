//! The node file: what `strait run` reads live and what a scenario names.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::framing::Framing;
use strait_core::prefix::Prefix;
use strait_core::rate::LineRate;
use strait_core::stats::NeighbourStats;
use strait_core::units::{BitRate, Octets, Share, Time};
use strait_link::repair::When;
use strait_link::{LinkSettings, SegmentCheck};
use strait_qos::PolicyConfig;
use strait_wire::ip::Chatter;

use crate::answers::AnswersConfig;
pub use crate::hop_config::{HopConfig, HopFormat, PaperConfig, ReliabilityConfig};

use crate::gateway::GROWTH_OCTETS_MAX;

mod address;
mod babel;
mod compression;
mod dictionary;
mod dns;
mod echo;
mod far;
mod framing;
mod hf;
mod hf_access;
mod hf_client;
mod hf_modem;
mod hf_sis;
mod host;
mod host_sides;
mod kind;
mod kiss;
mod mail;
mod mail_listeners;
mod names;
mod olsr;
mod proxy;
mod tls;

pub use self::address::PortAddress;
pub use self::babel::BabelConfig;
pub use self::compression::{
    Checksums, Compression, ContextConfig, DoubtConfig, PayloadCompression,
};
pub use self::dictionary::OwnDictionary;
pub use self::dns::{DnsConfig, DnsPartnerConfig, DnsRuleConfig};
pub use self::echo::{EchoConfig, EchoRefusal};
pub use self::far::FarConfig;
pub(crate) use self::hf::OWN_PACKET_OCTETS;
pub use self::hf::{GiveUpConfig, HfConfig, HfOrder, HfStrangers, ProbeConfig};
pub use self::hf_access::{AccessConfig, AccessRule, SlotsConfig};
pub use self::hf_client::HfClientConfig;
pub(crate) use self::hf_client::IpRules;
pub use self::hf_modem::{HfModem, HfModemConfig, ModemTransport};
pub use self::hf_sis::{HardLinkConfig, SisConfig};
pub use self::host::{HostConfig, HostKind, MacAddress};
pub use self::host_sides::HostSides;
pub use self::kind::{IpConfig, KissPort, LineConfig, Plug, PortConfig, PortKeys, PortKind};
pub use self::kiss::KissConfig;
pub use self::mail::{MailConfig, MailHopConfig, MailLaneConfig, MailRouteConfig, MailUserConfig};
pub use self::mail_listeners::MailListenerConfig;
pub use self::olsr::OlsrConfig;
pub use self::proxy::{
    Connects, PartnerConfig, ProxyClass, ProxyConfig, ProxyConnect, ProxySource,
};
pub use self::tls::{ClientCertificate, OldestTls, Pin, TlsConfig};

/// A gateway, as configured.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The node's name in logs, status and scenarios.
    pub name: String,
    /// Who else says where prefixes lie.
    #[serde(default)]
    pub routing: Routing,
    /// The host sides: one table, or several.
    pub host: HostSides,
    /// The link ports, from port 1 on; behind them are further host sides.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortConfig>,
    /// Which prefixes lie behind which port. Without any that leads by a link, everything from the
    /// host side goes to the only neighbour of the only port.
    #[serde(default, rename = "route")]
    pub routes: Vec<RouteConfig>,
    /// Questions that the node answers itself.
    #[serde(default)]
    pub answers: AnswersConfig,
    /// Who goes first.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// Where an operator asks how the node is. Live only.
    #[serde(default)]
    pub status: StatusConfig,
    /// A record of all inputs and outputs, for `strait replay`. Live only.
    #[serde(default)]
    pub journal: Option<JournalConfig>,
    /// Where the node keeps what is to outlive it.
    #[serde(default)]
    pub state: Option<StateConfig>,
    /// A service that sends back what it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<EchoConfig>,
    /// A TCP proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyConfig>,
    /// A DNS proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsConfig>,
    /// A message switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailConfig>,
    /// A router of a mobile network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olsr: Option<OlsrConfig>,
    /// What a routing daemon beside the gateway is told. Live only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub babel: Option<BabelConfig>,
    /// Reports between gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarConfig>,
    /// What streams of services are secured by, by the names that services have for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tls: BTreeMap<String, TlsConfig>,
}

/// Where a gateway has its routes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// From its node file alone.
    #[default]
    Static,
    /// From the host's main routing table as well, and its changes: routes by neighbours'
    /// addresses.
    Kernel,
}

pub(crate) const fn default_mtu() -> Octets {
    Octets(1500)
}

/// Which calls a line takes.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AdmissionConfig {
    /// Calls that it can't carry beside others are refused.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The share of the line that calls may take together; 95 % if not said, so that they never
    /// silence what sets them up.
    #[serde(default = "AdmissionConfig::default_share")]
    pub share: Share,
    /// The share of what calls say that may find no room, as they don't all talk at once; 2 % if
    /// not said. With `0 %` the line keeps for each what it needs while it talks.
    #[serde(default = "AdmissionConfig::default_loss")]
    pub loss: Share,
    /// How a call is refused.
    #[serde(default)]
    pub refuse: Refuse,
    /// How long the line keeps what a silent call needs; 30 s if not said.
    #[serde(default = "AdmissionConfig::default_hold")]
    pub hold: Time,
}

impl AdmissionConfig {
    const fn default_share() -> Share {
        Share(0.95)
    }

    const fn default_loss() -> Share {
        Share(0.02)
    }

    const fn default_hold() -> Time {
        Time(Duration::from_secs(30))
    }
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            share: Self::default_share(),
            loss: Self::default_loss(),
            refuse: Refuse::default(),
            hold: Self::default_hold(),
        }
    }
}

/// How a call is refused.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Refuse {
    /// Its sender is told: administratively prohibited.
    #[default]
    Icmp,
    /// Its packets are dropped.
    Drop,
}

const fn yes() -> bool {
    true
}

/// How packets are carried across a port.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LinkProfile {
    /// Pre-emptible segments.
    #[default]
    Segments,
    /// Whole packets, as a plain point-to-point link has them.
    Plain,
    /// Real-time packets whole and inside what is leaving, after any octet; the rest in as few
    /// segments as others let it.
    Adapter,
    /// Whole packets, each repeated on its link until the neighbour has it.
    Hbh,
    /// IPv4 packets alone, one a frame, as others carry them over AX.25.
    Ip,
}

impl LinkProfile {
    /// As node files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Plain => "plain",
            Self::Adapter => "adapter",
            Self::Hbh => "hbh",
            Self::Ip => "ip",
        }
    }

    /// Whether a packet that is leaving can be interrupted.
    pub(crate) const fn cuts_packets(self) -> bool {
        matches!(self, Self::Segments | Self::Adapter)
    }
}

/// When what a line loses is repeated on it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RepairConfig {
    /// While it has errors.
    #[default]
    Errors,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A kind of background chatter, by its name.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(try_from = "String", into = "String")]
pub struct ChatterKind(pub Chatter);

impl TryFrom<String> for ChatterKind {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let found = Chatter::ALL.into_iter().find(|kind| kind.name() == word);
        found.map(Self).ok_or_else(|| {
            let names: Vec<&str> = Chatter::ALL.iter().map(|kind| kind.name()).collect();
            format!("no chatter `{word}` (kinds: {})", names.join(", "))
        })
    }
}

impl From<ChatterKind> for String {
    fn from(kind: ChatterKind) -> Self {
        kind.0.name().into()
    }
}

/// Someone on a shared port.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NeighbourConfig {
    /// The name that routes use.
    pub name: String,
    /// Where its frames come from and go to. Live only.
    #[serde(default)]
    pub address: Option<PortAddress>,
    /// HF: the address of its station.
    #[serde(default)]
    pub hf: Option<String>,
    /// KISS: its AX.25 station.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// UDP, IP: the rate of the way that leads to it alone, in place of the port's `rate`. Each
    /// neighbour of the port has one then, and none waits for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
}

/// Which prefix lies behind which port.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// The destinations.
    pub prefix: Prefix,
    /// The port to leave by; a host side's name, `host` if it has none.
    pub port: String,
    /// The neighbour on it; may be left out if there is one. On a TAP: the address of a
    /// router on the Ethernet; without it the destinations themselves are there.
    #[serde(default)]
    pub via: Option<String>,
    /// Links on the way, the first among them, where neighbours send on by the channel by which
    /// they heard: each takes the air once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u8>,
}

/// Where an operator asks.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct StatusConfig {
    /// Path of the Unix socket that `strait status` talks to.
    #[serde(default)]
    pub socket: Option<String>,
    /// Address of the Prometheus page; a loopback one unless `metrics_anywhere` says otherwise.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// Allow `metrics` on an address that others reach.
    #[serde(default)]
    pub metrics_anywhere: bool,
}

/// What outlives the node.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct StateConfig {
    /// The file; only the gateway writes it. Simulated nodes have storage of their own.
    pub file: String,
    /// How large it may become; 1 GB without the key.
    #[serde(default = "StateConfig::default_octets_max")]
    pub octets_max: Octets,
}

impl StateConfig {
    /// The least: what a gateway remembers by itself fits.
    pub const OCTETS_MIN: Octets = Octets(100_000);

    /// The most octets of a file whose configuration does not say.
    pub const fn default_octets_max() -> Octets {
        Octets(1_000_000_000)
    }
}

/// The journal.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct JournalConfig {
    /// The file; each start begins a new one. Those of earlier runs are `FILE.1`, the last one,
    /// `FILE.2` and so on.
    pub file: String,
    /// How many of those are kept; 3 without the key. With 0, each start destroys the last one.
    #[serde(default = "JournalConfig::default_keep")]
    pub keep: u8,
    /// The journal ends, with a note, when it has this size.
    #[serde(default = "JournalConfig::default_octets_max")]
    pub octets_max: Octets,
    /// Write lengths in place of contents: safe to send to others, not replayable.
    #[serde(default)]
    pub mask_payloads: bool,
}

impl JournalConfig {
    /// Journals of earlier runs that are kept where the configuration does not say.
    pub const fn default_keep() -> u8 {
        3
    }

    /// The size of a journal whose configuration does not say.
    pub const fn default_octets_max() -> Octets {
        Octets(100_000_000)
    }
}

/// A configuration that can't work, with the place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct InvalidConfig {
    /// The table or key, such as `[[port]] line`.
    pub place: String,
    /// What is wrong and what to do.
    pub message: String,
}

fn invalid(place: impl Into<String>, message: impl Into<String>) -> InvalidConfig {
    InvalidConfig {
        place: place.into(),
        message: message.into(),
    }
}

impl NodeConfig {
    /// Link ports that a node may have: port numbers are one octet, and each port has buffers.
    pub const PORTS_MAX: usize = 16;
    /// Neighbours on one port; each has a reassembly buffer per stream.
    pub const NEIGHBOURS_MAX: usize = 64;
    /// Routes in a node.
    pub const ROUTES_MAX: usize = 1024;

    /// Checks what the form of the file can't express.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        self.validate_names()?;
        self.validate_host_sides()?;
        for (name, profile) in &self.tls {
            profile.validate(name)?;
        }
        if let Some(echo) = &self.echo {
            echo.validate(&self.host)?;
            let profile = echo.tls.as_ref().map(|name| self.tls.get(name));
            if profile.is_some_and(|it| it.is_none_or(|it| it.certificate.is_none())) {
                let message = "must be the name of a table [tls.NAME] with a certificate";
                return Err(invalid("[echo] tls", message));
            }
        }
        if let Some(proxy) = &self.proxy {
            proxy.validate(&self.host)?;
        }
        if let Some(dns) = &self.dns {
            dns.validate(&self.host, self.proxy())?;
        }
        if let Some(mail) = &self.mail {
            mail.validate(self)?;
        }
        if let Some(olsr) = &self.olsr {
            olsr.validate(self)?;
        }
        if let Some(babel) = &self.babel {
            babel.validate(self)?;
        }
        if let Some(far) = &self.far {
            far.validate(self)?;
        }
        if self.ports.len() > Self::PORTS_MAX {
            return Err(invalid(
                "[[port]]",
                format!("more than {} ports", Self::PORTS_MAX),
            ));
        }
        let mut names = BTreeMap::new();
        for (index, port) in self.ports.iter().enumerate() {
            port.validate()?;
            if port.name == HostConfig::NAME || names.insert(port.name.as_str(), index).is_some() {
                let place = format!("[[port]] {}", port.name);
                return Err(invalid(place, "the name is taken: give each port its own"));
            }
        }
        let is_small = |state: &StateConfig| state.octets_max.0 < StateConfig::OCTETS_MIN.0;
        if self.state.as_ref().is_some_and(is_small) {
            return Err(invalid("[state] octets_max", "is less than 100 kB"));
        }
        if let (Some(port), None) = (self.ports.iter().find(|it| it.remember_flows), &self.state) {
            let message = "needs the table [state] with a file: otherwise nothing is stored";
            return Err(invalid(port.place("remember_flows"), message));
        }
        if self.echo.as_ref().is_some_and(|echo| echo.store) && self.state.is_none() {
            let message =
                "needs the table [state] with a file: otherwise there is no stable storage";
            return Err(invalid("[echo] store", message));
        }
        self.validate_routes()
    }

    /// Its TCP proxy, where that is to be.
    pub fn proxy(&self) -> Option<&ProxyConfig> {
        self.proxy.as_ref().filter(|proxy| proxy.enabled)
    }

    /// Its DNS proxy, where that is to be.
    pub fn dns(&self) -> Option<&DnsConfig> {
        self.dns.as_ref().filter(|dns| dns.enabled)
    }

    /// Its message switch, where that is to be.
    pub fn mail(&self) -> Option<&MailConfig> {
        self.mail.as_ref().filter(|mail| mail.enabled)
    }

    /// How long this host's own TCP is to wait for an acknowledgement over the ports at least: as
    /// long as the fastest port has two largest packets, where that is longer than what a kernel
    /// waits anyway. A line that isn't known to be slow changes nothing.
    pub fn patience(&self) -> Option<Duration> {
        const KERNELS: Duration = Duration::from_millis(200);
        let times = self.ports.iter().map(|port| {
            let rate = port.line_rate()?;
            Some(rate.time_for(2 * port.mtu.0))
        });
        let longest = times.collect::<Option<Vec<_>>>()?.into_iter().min();
        longest.filter(|it| *it > KERNELS)
    }

    /// As a journal has it: what is kept of passwords is in none.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        let users = shown.mail.iter_mut().flat_map(|mail| &mut mail.users);
        users.for_each(MailUserConfig::conceal);
        shown
    }

    /// What the host's rules bring to the TCP proxy: all that partners are responsible for, and
    /// addresses that stand for names. Nothing without a proxy.
    pub fn proxied(&self) -> Vec<Prefix> {
        let Some(proxy) = self.proxy() else {
            return Vec::new();
        };
        let ahead = self.dns().and_then(DnsConfig::ahead_here);
        let all = proxy.destinations(&self.host).into_iter();
        all.chain(ahead).collect()
    }

    /// Whether it has sockets of its own: for services, for clients of a station, or as a client of
    /// somebody else's.
    pub fn has_sockets(&self) -> bool {
        let serves = |port: &PortConfig| port.hf().is_some_and(|hf| hf.sis.is_some());
        let has = |port: &PortConfig| serves(port) || port.kind.plug() == Plug::Sockets;
        let services = [
            self.echo.is_some(),
            self.proxy().is_some(),
            self.dns().is_some(),
            self.mail().is_some(),
        ];
        services.contains(&true) || self.ports.iter().any(has)
    }

    /// Whether all that comes from the host side, and has no route back there, goes to the only
    /// neighbour of the only port.
    pub(crate) fn has_default_way(&self) -> bool {
        let found = self.olsr.is_some() || self.routing != Routing::Static;
        let told = !self.leads_out() && !found;
        told && self.ports.first().is_some_and(PortConfig::carries_packets)
    }

    /// Whether a route leads by a link port.
    fn leads_out(&self) -> bool {
        let mut routes = self.routes.iter();
        routes.any(|route| self.host_port(&route.port).is_none())
    }

    fn validate_routes(&self) -> Result<(), InvalidConfig> {
        if self.routes.len() > Self::ROUTES_MAX {
            return Err(invalid(
                "[[route]]",
                format!("more than {} routes", Self::ROUTES_MAX),
            ));
        }
        let lone = matches!(&self.ports[..], [port] if port.neighbours.len() <= 1);
        let own = self.routing == Routing::Static && self.olsr.is_none();
        let carries = self.ports.iter().any(PortConfig::carries_packets);
        if !self.leads_out() && own && !lone && carries {
            let message = "needed with several ports or neighbours: a route for each prefix";
            return Err(invalid("[[route]]", message));
        }
        for route in &self.routes {
            let place = format!("[[route]] {}", route.prefix);
            if route.hops == Some(0) {
                let message = "hops: 1 at least, the link to the neighbour";
                return Err(invalid(place, message));
            }
            let mut sides = self.host.all();
            if let Some(side) = sides.find(|side| side.name() == route.port) {
                side.validate_router(route, &place)?;
                continue;
            }
            let Some(port) = self.ports.iter().find(|port| port.name == route.port) else {
                let links = self.ports.iter().map(|port| port.name.as_str());
                let named = self.host.all().filter_map(|side| side.name.as_deref());
                let names: Vec<_> = links.chain(named).collect();
                let message = format!("no port `{}`; there are: {}", route.port, names.join(", "));
                return Err(invalid(place, message));
            };
            if !port.carries_packets() {
                let message = format!("`{}` has no IP client: ip_client = true", route.port);
                return Err(invalid(place, message));
            }
            if route.prefix.address.is_ipv6() && !port.carries_v6() {
                let message = format!(
                    "`{}` carries IPv4 alone, by profile = \"ip\": name another port, or remove it",
                    route.port
                );
                return Err(invalid(place, message));
            }
            match &route.via {
                None if port.neighbours.len() > 1 => {
                    return Err(invalid(
                        place,
                        "port has several neighbours: name one with `via`",
                    ));
                }
                Some(via)
                    if !port
                        .neighbours
                        .iter()
                        .any(|neighbour| neighbour.name == *via) =>
                {
                    return Err(invalid(place, format!("port has no neighbour `{via}`")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_mtu(place: &str, mtu: Octets) -> Result<(), InvalidConfig> {
    // RFC 8200 section 5: every link carries IPv6 packets of 1280 octets.
    if !(1280..=65_535).contains(&mtu.0) {
        return Err(invalid(
            format!("{place} mtu"),
            "must be 1280 to 65535 octets",
        ));
    }
    Ok(())
}

impl PortConfig {
    fn place(&self, key: &str) -> String {
        format!("[[port]] {} {key}", self.name)
    }

    fn validate(&self) -> Result<(), InvalidConfig> {
        if self.name.is_empty() {
            return Err(invalid("[[port]] name", "is empty: give the port a name"));
        }
        check_mtu(&format!("[[port]] {}", self.name), self.mtu)?;
        self.validate_kind()?;
        if self.profile == LinkProfile::Ip && self.kiss().is_none() {
            let message = "ip is for kind = \"kiss\"";
            return Err(invalid(self.place("profile"), message));
        }
        self.validate_own_rates()?;
        if let Some((key, message)) = compression::fault(self) {
            return Err(invalid(self.place(key), message));
        }
        self.validate_hops()?;
        if self.segment.is_some_and(|segment| segment.0 < 8) {
            return Err(invalid(self.place("segment"), "must be at least 8 octets"));
        }
        for (key, bits) in [("check", self.check), ("check_urgent", self.check_urgent)] {
            if !matches!(bits, None | Some(16 | 32)) {
                return Err(invalid(self.place(key), "must be 16 or 32"));
            }
        }
        if self.check_urgent.is_some() && self.profile == LinkProfile::Plain {
            let message = "is for the profiles `segments` and `adapter`: use `check`";
            return Err(invalid(self.place("check_urgent"), message));
        }
        if self.repair.is_some() && !self.profile.cuts_packets() {
            let message = "is for the profiles `segments` and `adapter`: remove it";
            return Err(invalid(self.place("repair"), message));
        }
        if self.repair == Some(RepairConfig::Always) && !self.way_back {
            let message = "losses aren't reported with `way_back = false`: remove it";
            return Err(invalid(self.place("repair"), message));
        }
        let admits = self.profile == LinkProfile::Adapter
            || (self.shares_air()
                && matches!(self.profile, LinkProfile::Plain | LinkProfile::Segments));
        if self.admission.is_some() && !admits {
            let message = "is for profile = \"adapter\", and for radios that stations share with \
                           `plain` or `segments`: remove it";
            return Err(invalid(self.place("admission"), message));
        }
        Ok(())
    }

    fn validate_neighbours(&self) -> Result<(), InvalidConfig> {
        if self.neighbours.len() > NodeConfig::NEIGHBOURS_MAX {
            let message = format!("more than {}", NodeConfig::NEIGHBOURS_MAX);
            return Err(invalid(self.place("neighbours"), message));
        }
        for (index, neighbour) in self.neighbours.iter().enumerate() {
            let before = &self.neighbours[..index];
            if before.iter().any(|other| other.name == neighbour.name) {
                let message = format!("two neighbours are named `{}`", neighbour.name);
                return Err(invalid(self.place("neighbours"), message));
            }
            let same = |other: &&NeighbourConfig| other.address == neighbour.address;
            if neighbour.address.is_some() && before.iter().any(|other| same(&other)) {
                let message = format!("`{}` has the address of another", neighbour.name);
                return Err(invalid(self.place("neighbours"), message));
            }
        }
        Ok(())
    }

    /// The rate that the configuration gives; a driver's [`strait_core::node::PortState`]
    /// overrules it.
    pub fn line_rate(&self) -> Option<LineRate> {
        if let PortKind::Serial(line) = &self.kind {
            return Some(LineRate::new(line.baud?, self.framing().bits_per_octet()));
        }
        let own = || self.neighbours.first().and_then(|it| it.rate);
        let rate = self.rate.or_else(own);
        rate.map(|rate| LineRate::new(rate.0, 8))
    }

    /// By neighbour, the rates of the ways that lead to each alone; none where all share one.
    pub fn own_rates(&self) -> impl Iterator<Item = LineRate> {
        let rates = self.neighbours.iter().filter_map(|it| it.rate);
        rates.map(|rate| LineRate::new(rate.0, 8))
    }

    /// Whether unmarked calls are looked for: not where a turn of the channel takes longer than a
    /// word may.
    pub(crate) const fn observes_calls(&self) -> bool {
        matches!(self.kind, PortKind::Serial(_)) || self.kind.is_packets()
    }

    /// Whether neighbours may share what carries its frames.
    pub(crate) fn shares_air(&self) -> bool {
        self.ways() == 0 && self.kind.plug() == Plug::Frames
    }

    /// How many ways of their own lead to neighbours; none where all share one.
    pub(crate) fn ways(&self) -> usize {
        self.own_rates().count()
    }

    /// What is counted of each of several neighbours that get frames.
    pub(crate) fn neighbour_stats(&self) -> Vec<NeighbourStats> {
        if !self.kind.is_packets() || self.neighbours.len() < 2 {
            return Vec::new();
        }
        let named = |neighbour: &NeighbourConfig| NeighbourStats {
            name: neighbour.name.clone(),
            ..NeighbourStats::default()
        };
        self.neighbours.iter().map(named).collect()
    }

    /// Frames that this port may send: nothing limits an octet stream.
    pub fn frame_octets_max(&self) -> usize {
        if self.kind.plug() != Plug::Frames {
            return usize::MAX;
        }
        let usual = match self.kind {
            _ if self.profile == LinkProfile::Hbh => self.hop_frame(),
            PortKind::Kiss(_) => self.kiss_frame(),
            _ => 1400,
        };
        self.frame.map_or(usual, |frame| frame.0 as usize)
    }

    /// The check of real-time packets that go inside what is leaving, where they may and the other
    /// end wants no longer one.
    pub fn urgent_check(&self) -> Option<SegmentCheck> {
        let urgent = self.profile == LinkProfile::Adapter && self.kind.plug() == Plug::Octets;
        urgent.then_some(match self.check_urgent {
            Some(32) => SegmentCheck::Long,
            _ => SegmentCheck::Short,
        })
    }

    /// When what the line loses is repeated, where it may be.
    pub fn repairs(&self) -> Option<When> {
        let can = self.kind.plug() == Plug::Octets && self.profile.cuts_packets() && self.way_back;
        match self.repair.unwrap_or_default() {
            _ if !can => None,
            RepairConfig::Never => None,
            RepairConfig::Errors => Some(When::Errors),
            RepairConfig::Always => Some(When::Always),
        }
    }

    /// How the link cuts and checks at `rate`, before anything is agreed with the other end.
    pub fn link_settings(&self, rate: Option<LineRate>) -> LinkSettings {
        let mtu = self.mtu.0 as usize;
        let mut settings = match (self.profile, rate) {
            (LinkProfile::Plain, _) => LinkSettings::plain(mtu),
            (_, Some(rate)) => LinkSettings::for_rate(rate, mtu),
            (_, None) => LinkSettings {
                alone: SegmentCheck::Long,
                ..LinkSettings::plain(mtu)
            },
        };
        if self.kiss().is_some() && self.profile != LinkProfile::Plain {
            settings.segment_octets_max = self.kiss_frame().min(mtu);
        }
        if let Some(segment) = self.segment.filter(|_| self.profile != LinkProfile::Plain) {
            settings.segment_octets_max = (segment.0 as usize).min(mtu);
        }
        if self.compression == Compression::Rohc {
            settings.packet_octets_max += GROWTH_OCTETS_MAX;
        }
        if self.profile == LinkProfile::Plain && self.check == Some(32) {
            settings.alone = SegmentCheck::Long;
        }
        settings.marks = self.urgent_check().is_some();
        if self.kind.plug() == Plug::Octets && self.framing() == Framing::Sync {
            // What filled any pause at all would begin the next frame.
            settings.flag_after_idle = Duration::from_nanos(1);
        }
        if let Some(pause) = self.flag_after_idle {
            settings.flag_after_idle = pause.0;
        }
        settings
    }
}

/// The first address of `addresses` in the family of `like`.
pub fn own_address(addresses: &[Prefix], like: IpAddr) -> Option<IpAddr> {
    addresses
        .iter()
        .map(|prefix| prefix.address)
        .find(|own| own.is_ipv4() == like.is_ipv4())
}
