//! `[proxy]` of a node file.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::units::{Octets, Time};

use crate::Prefix;

use super::{HostKind, HostSides, InvalidConfig, invalid};

/// A TCP proxy: connections end here, and begin again at the gateway near where they lead.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// Whether it is there at all; connections pass as other packets do if not.
    #[serde(default = "super::yes")]
    pub enabled: bool,
    /// The UDP port of sessions, and the TCP port that the host's rules bring clients to.
    #[serde(default = "ProxyConfig::default_port")]
    pub port: u16,
    /// Where programs here ask for connections by SOCKS5 or HTTP CONNECT; nowhere if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explicit: Vec<SocketAddr>,
    /// What clients hear, and when.
    #[serde(default)]
    pub connect: ProxyConnect,
    /// How long an honest connection may take; then the client is connected as if early. As long as
    /// it takes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_after: Option<Time>,
    /// The same by class of a client's packets with octets; what isn't said of one is as above.
    #[serde(default, rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ProxyClass>,
    /// How long on an open connection nothing may move, either way; for ever if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Time>,
    /// Line time of which a stream may have octets waiting; 2 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Time>,
    /// Whether octets of streams are compressed on the line, where that makes them fewer.
    #[serde(default = "super::yes")]
    pub compress: bool,
    /// Octets of all streams that may wait here, half of it for each direction.
    #[serde(default = "ProxyConfig::default_memory")]
    pub memory: Octets,
    /// Streams that each side of a session may open at a time.
    #[serde(default = "ProxyConfig::default_streams")]
    pub streams: u32,
    /// Which address servers here see.
    #[serde(default)]
    pub source: ProxySource,
    /// Whether QUIC to where partners are responsible is refused, so that browsers take TCP.
    #[serde(default = "super::yes")]
    pub refuse_quic: bool,
    /// Whether what is for partners' hosts is refused while no gateway runs here, and takes no
    /// other way.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub closed: bool,
    /// Where partners' clients may connect to; nowhere if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Prefix>,
    /// Who is behind this gateway, as partners are told that don't name it themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announce: Vec<Prefix>,
    /// Gateways with a proxy beyond links.
    #[serde(default, rename = "partner")]
    pub partners: Vec<PartnerConfig>,
}

/// A gateway with a proxy, and who is near it.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PartnerConfig {
    /// Its address, as routes lead to it.
    pub address: IpAddr,
    /// Who is reached by it, and may come by it: what it announces, if none is named. Of several
    /// partners the longest prefix counts.
    #[serde(default)]
    pub prefixes: Vec<Prefix>,
}

/// What clients of a class hear, and when.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProxyClass {
    /// Its name in the policy.
    pub class: String,
    /// What they hear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<ProxyConnect>,
    /// How long an honest connection may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_after: Option<Time>,
}

/// When a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connects {
    /// As soon as it asks.
    AtOnce,
    /// When its server has answered, or else after so long.
    After(Duration),
    /// When its server has answered.
    WhenAnswered,
}

/// What clients hear, and when.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyConnect {
    /// What the server says, as soon as that is known here.
    #[default]
    Honest,
    /// That they are connected, at once; if it comes to nothing they are reset.
    Early,
}

/// Which address servers see.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ProxySource {
    /// The client's. Their answers have to come by this gateway.
    #[default]
    Client,
    /// The gateway's.
    Gateway,
}

impl ProxyConfig {
    /// Partners of a gateway: each has a session with its limits.
    pub const PARTNERS_MAX: usize = 64;
    /// Prefixes of a partner, and that are allowed.
    pub const PREFIXES_MAX: usize = 256;
    /// Prefixes that partners are told.
    const ANNOUNCE_MAX: usize = strait_proxy::codec::NETWORKS_MAX;
    /// Addresses where programs ask.
    pub const EXPLICIT_MAX: usize = 16;
    const HOLD_MAX: Duration = Duration::from_secs(3600);
    /// Shorter, it would end connections whose other side is a crossing away.
    const IDLE: core::ops::RangeInclusive<Duration> =
        Duration::from_secs(10)..=Duration::from_secs(30 * 86_400);
    /// Classes that differ: a policy has no more.
    const CLASSES_MAX: usize = 64;

    const MEMORY: core::ops::RangeInclusive<u64> = 1 << 20..=1 << 36;
    const STREAMS: core::ops::RangeInclusive<u32> = 1..=16_384;

    const fn default_port() -> u16 {
        7480
    }

    const fn default_memory() -> Octets {
        Octets(128 << 20)
    }

    const fn default_streams() -> u32 {
        1024
    }

    /// Octets of each direction that all streams of one partner may have waiting.
    pub fn octets_of_partner(&self) -> u64 {
        self.memory.0 / 2 / self.partners.len().max(1) as u64
    }

    /// When a client is connected whose packets have a class.
    pub fn connects(&self, class: &str) -> Connects {
        let own = self.classes.iter().find(|it| it.class == class);
        let connect = own.and_then(|it| it.connect).unwrap_or(self.connect);
        let after = own.and_then(|it| it.early_after).or(self.early_after);
        match (connect, after) {
            (ProxyConnect::Early, _) => Connects::AtOnce,
            (ProxyConnect::Honest, Some(after)) => Connects::After(after.0),
            (ProxyConnect::Honest, None) => Connects::WhenAnswered,
        }
    }

    fn validate_classes(&self) -> Result<(), InvalidConfig> {
        if self.classes.len() > Self::CLASSES_MAX {
            return Err(invalid("[[proxy.class]]", "is limited to 64 tables"));
        }
        for (at, own) in self.classes.iter().enumerate() {
            let place = format!("[[proxy.class]] {}", own.class);
            if self.classes[..at].iter().any(|it| it.class == own.class) {
                return Err(invalid(place, "is repeated"));
            }
            if own.connect.is_none() && own.early_after.is_none() {
                return Err(invalid(place, "needs `connect` or `early_after`"));
            }
            if own.early_after.is_some() && self.connects(&own.class) == Connects::AtOnce {
                let message = "early_after is for connect = \"honest\": remove it";
                return Err(invalid(place, message));
            }
        }
        Ok(())
    }

    /// What the host's rules bring to the proxy: all that partners are responsible for. Where a
    /// partner says that itself it is all that the host's routes lead to.
    pub(super) fn destinations(&self, hosts: &HostSides) -> Vec<Prefix> {
        let named = self.partners.iter().flat_map(|it| &it.prefixes);
        let mut all: Vec<Prefix> = named.copied().collect();
        if self.partners.iter().any(|it| it.prefixes.is_empty()) {
            let tuns = hosts.all().filter(|side| side.kind == HostKind::Tun);
            for route in tuns.flat_map(|side| &side.routes) {
                if !all.contains(route) {
                    all.push(*route);
                }
            }
        }
        all
    }

    pub(super) fn validate(&self, hosts: &HostSides) -> Result<(), InvalidConfig> {
        if self.port == 0 {
            return Err(invalid("[proxy] port", "must be 1 to 65535"));
        }
        if hosts.all().all(|side| side.kind != HostKind::Tun) {
            let message =
                "needs a host side of kind \"tun\": its clients come by the host's kernel";
            return Err(invalid("[proxy]", message));
        }
        if self.hold.is_some_and(|hold| hold.0 > Self::HOLD_MAX) {
            return Err(invalid("[proxy] hold", "must be an hour at most"));
        }
        if self.idle.is_some_and(|idle| !Self::IDLE.contains(&idle.0)) {
            return Err(invalid("[proxy] idle", "must be 10 s to 30 days"));
        }
        self.validate_classes()?;
        if !Self::MEMORY.contains(&self.memory.0) {
            return Err(invalid("[proxy] memory", "must be 1 MiB to 64 GiB"));
        }
        if !Self::STREAMS.contains(&self.streams) {
            return Err(invalid("[proxy] streams", "must be 1 to 16384"));
        }
        if self.early_after.is_some() && self.connect == ProxyConnect::Early {
            let message = "is for connect = \"honest\": remove it";
            return Err(invalid("[proxy] early_after", message));
        }
        let nobody = |ip: IpAddr| ip.is_unspecified() || ip.is_multicast();
        let mut explicit = self.explicit.iter();
        if explicit.any(|it| it.port() == 0 || nobody(it.ip()))
            || self.explicit.len() > Self::EXPLICIT_MAX
        {
            let message = "takes 16 addresses of this host at most, each with a port";
            return Err(invalid("[proxy] explicit", message));
        }
        if self.partners.is_empty() {
            let message = "needs a [[proxy.partner]] with `address` and `prefixes`";
            return Err(invalid("[proxy]", message));
        }
        if self.announce.len() > Self::ANNOUNCE_MAX {
            return Err(invalid("[proxy] announce", "has room for 32 prefixes"));
        }
        let announced = self.partners.iter().any(|it| it.prefixes.is_empty());
        if announced && hosts.all().all(|side| side.routes.is_empty()) {
            let message = "needs `prefixes` of each partner, or `routes` in [host]: the rules \
                           redirect clients by these";
            return Err(invalid("[proxy]", message));
        }
        let prefixes = self.partners.iter().map(|it| it.prefixes.len());
        let prefixes = prefixes.chain([self.allow.len()]);
        if self.partners.len() > Self::PARTNERS_MAX
            || prefixes.into_iter().any(|it| it > Self::PREFIXES_MAX)
        {
            let (partners, prefixes) = (Self::PARTNERS_MAX, Self::PREFIXES_MAX);
            let message = format!("more than {partners} partners, or {prefixes} prefixes of one");
            return Err(invalid("[proxy]", message));
        }
        let (mut addresses, mut networks) = (BTreeSet::new(), BTreeSet::new());
        for partner in &self.partners {
            let place = format!("[[proxy.partner]] {}", partner.address);
            let ip = partner.address;
            if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() {
                return Err(invalid(place, "is no gateway's address"));
            }
            if hosts.own().any(|own| own == ip) || !addresses.insert(ip) {
                return Err(invalid(place, "is the gateway's own, or another partner's"));
            }
            if !hosts.own().any(|own| own.is_ipv4() == ip.is_ipv4()) {
                let message = "needs an address of its family among [host] addresses";
                return Err(invalid(place, message));
            }
            for prefix in &partner.prefixes {
                if !networks.insert((prefix.network().address, prefix.length)) {
                    return Err(invalid(place, format!("{prefix} is named twice")));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeConfig;
    use crate::config_text::{complaint_about, parse};

    fn complaint(proxy: &str) -> Option<String> {
        let host = "[host]\naddresses = [\"10.9.0.1/30\"]";
        let port = "[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600";
        let text = format!("name = \"a\"\n{host}\n{port}\n[proxy]\n{proxy}\n");
        complaint_about(&text)
    }

    fn partner(address: &str, prefixes: &str) -> String {
        format!("[[proxy.partner]]\naddress = \"{address}\"\nprefixes = [{prefixes}]")
    }

    fn early(connect: &str) -> String {
        format!("[[proxy.class]]\nclass = \"x\"\nconnect = \"{connect}\"\n")
    }

    #[test]
    fn a_class_says_when_its_clients_are_connected() {
        let after = |ms| Some(Time(Duration::from_millis(ms)));
        let own = |class: &str, connect, early_after| ProxyClass {
            class: class.into(),
            connect,
            early_after,
        };
        let text = format!(
            "name = \"a\"\n[host]\n[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n\
             [proxy]\n{}",
            partner("10.9.0.2", "\"10.2.0.0/24\"")
        );
        let config: NodeConfig = parse("a.toml", &text).unwrap();
        let mut config = config.proxy.unwrap();
        let all = |config: &ProxyConfig| ["a", "b", "c"].map(|class| config.connects(class));
        assert_eq!(all(&config), [Connects::WhenAnswered; 3]);
        config.classes = alloc::vec![
            own("a", Some(ProxyConnect::Early), None),
            own("b", None, after(2000)),
        ];
        let two = Connects::After(Duration::from_secs(2));
        let found = [Connects::AtOnce, two, Connects::WhenAnswered];
        assert_eq!(all(&config), found);
        config.early_after = after(9000);
        let nine = Connects::After(Duration::from_secs(9));
        assert_eq!(all(&config), [Connects::AtOnce, two, nine]);
        (config.connect, config.early_after) = (ProxyConnect::Early, None);
        config.classes[1].connect = Some(ProxyConnect::Honest);
        assert_eq!(all(&config), [Connects::AtOnce, two, Connects::AtOnce]);
    }

    #[test]
    fn a_proxy_has_partners_that_are_somebody_else() {
        let right = partner("10.9.0.2", "\"10.2.0.0/24\"");
        let all = "connect = \"early\"\nhold = \"1 h\"\nsource = \"gateway\"\nport = 99\n\
                   refuse_quic = false\nclosed = true\ncompress = false\nmemory = \"1 MiB\"\nstreams = 16384\n\
                   allow = [\"10.1.0.0/24\", \"fd00::/8\"]\n\
                   explicit = [\"127.0.0.1:1080\", \"[::1]:1080\"]";
        let everybody = partner("10.9.0.2", "\"0.0.0.0/0\"");
        let later = format!("early_after = \"8 s\"\n{right}");
        let classes = format!(
            "idle = \"10 s\"\n{right}\n[[proxy.class]]\nclass = \"standard\"\n\
             connect = \"early\"\n[[proxy.class]]\nclass = \"interactive\"\n\
             early_after = \"2 s\""
        );
        for right in [
            right.clone(),
            everybody,
            later,
            classes,
            format!("{all}\n{right}"),
        ] {
            assert_eq!(complaint(&right), None, "{right}");
        }
        for (wrong, word) in [
            (String::new(), "[proxy]: needs a [[proxy.partner]]"),
            (format!("port = 0\n{right}"), "[proxy] port: must"),
            (format!("hold = \"3601 s\"\n{right}"), "[proxy] hold: must"),
            (
                format!("connect = \"early\"\nearly_after = \"8 s\"\n{right}"),
                "[proxy] early_after: is for connect",
            ),
            (format!("idle = \"9 s\"\n{right}"), "[proxy] idle: must"),
            (format!("idle = \"31 d\"\n{right}"), "idle"),
            (
                format!("{right}\n[[proxy.class]]\nclass = \"x\""),
                "[[proxy.class]] x: needs `connect`",
            ),
            (
                format!("{right}\n{}", early("early").repeat(2)),
                "[[proxy.class]] x: is repeated",
            ),
            (
                format!("{right}\n{}early_after = \"1 s\"", early("early")),
                "[[proxy.class]] x: early_after is for",
            ),
            (
                format!("memory = \"1048575 B\"\n{right}"),
                "[proxy] memory: must",
            ),
            (format!("streams = 0\n{right}"), "[proxy] streams: must"),
            (format!("streams = 16385\n{right}"), "[proxy] streams: must"),
            (
                format!("explicit = [\"0.0.0.0:1080\"]\n{right}"),
                "[proxy] explicit: takes",
            ),
            (
                format!("explicit = [\"127.0.0.1:0\"]\n{right}"),
                "[proxy] explicit: takes",
            ),
            (format!("{right}\n{right}"), "another partner's"),
            (partner("10.9.0.1", "\"10.2.0.0/24\""), "own"),
            (partner("127.0.0.1", "\"10.2.0.0/24\""), "no gateway's"),
            (partner("fd00::1", "\"10.2.0.0/24\""), "of its family"),
            (partner("10.9.0.2", ""), "needs `prefixes` of each"),
            (
                format!(
                    "announce = [{}]\n{right}",
                    ["\"10.1.0.0/24\""; 33].join(", ")
                ),
                "[proxy] announce: has room",
            ),
            (
                partner("10.9.0.2", "\"10.2.0.1/24\", \"10.2.0.0/24\""),
                "twice",
            ),
            (format!("connect = \"sometimes\"\n{right}"), "connect"),
        ] {
            let found = complaint(&wrong).unwrap_or_default();
            assert!(found.contains(word), "{wrong}: {found}");
        }
    }

    #[test]
    fn a_proxy_needs_the_hosts_kernel() {
        let text = format!(
            "name = \"a\"\n[host]\nkind = \"tap\"\naddresses = [\"10.1.0.1/24\"]\n\
             [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n[proxy]\n{}",
            partner("10.9.0.2", "\"10.2.0.0/24\"")
        );
        let config: NodeConfig = parse("a.toml", &text).unwrap();
        let error = config.validate().unwrap_err();
        assert!(error.message.contains("\"tun\""), "{error}");
    }
}
