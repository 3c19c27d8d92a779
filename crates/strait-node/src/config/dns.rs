//! `[dns]` of a node file.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::units::{Octets, Time};
use strait_dns::rules::{Act, Rule};
use strait_dns::{Name, ahead, name};
use strait_qos::Dscp;

use crate::Prefix;

use super::{HostKind, HostSides, InvalidConfig, ProxyConfig, invalid};

/// A DNS proxy: names are asked for here, and looked up at the gateway near their resolvers.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DnsConfig {
    /// Whether it is there at all.
    #[serde(default = "super::yes")]
    pub enabled: bool,
    /// Where clients here ask, over UDP and TCP; nowhere if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<SocketAddr>,
    /// Whether questions that `clients` ask of others over UDP are answered here.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub capture: bool,
    /// Who may ask, beside programs of this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Prefix>,
    /// Resolvers that are asked for partners, the first being the best; partners hear that there is
    /// none if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<SocketAddr>,
    /// How long clients wait for an answer before they hear that there is none yet.
    #[serde(default = "DnsConfig::default_patience")]
    pub patience: Time,
    /// How long an answer may be told that has outlived its life.
    #[serde(default = "DnsConfig::default_stale")]
    pub stale: Time,
    /// The most names and types that are kept.
    #[serde(default = "DnsConfig::default_entries")]
    pub entries: usize,
    /// The most octets that these take.
    #[serde(default = "DnsConfig::default_octets")]
    pub octets: Octets,
    /// Whether partners keep names in use fresh, and tell changes alone.
    #[serde(default = "super::yes")]
    pub keep_fresh: bool,
    /// Whether clients here have an address of `ahead_range` at once for a name that isn't known
    /// yet.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub ahead: bool,
    /// Addresses of IPv4 that stand for names, here and at partners, and are nobody's.
    #[serde(default = "DnsConfig::default_ahead_range")]
    pub ahead_range: Prefix,
    /// The UDP port of what goes between partners.
    #[serde(default = "DnsConfig::default_port")]
    pub port: u16,
    /// The code point of that.
    #[serde(default = "DnsConfig::default_dscp")]
    pub dscp: Dscp,
    /// What is to become of the names of some zones.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<DnsRuleConfig>,
    /// Gateways with a DNS proxy beyond links.
    #[serde(default, rename = "partner")]
    pub partners: Vec<DnsPartnerConfig>,
}

/// A gateway with a DNS proxy.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DnsPartnerConfig {
    /// Its address, as routes lead to it.
    pub address: IpAddr,
    /// The names that it is asked for: those of these zones. Of several partners the longest zone
    /// counts.
    #[serde(default = "DnsPartnerConfig::default_zones")]
    pub zones: Vec<String>,
    /// How long a question and its answer take at least, where the link doesn't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnaround: Option<Time>,
}

impl DnsPartnerConfig {
    fn default_zones() -> Vec<String> {
        vec![".".into()]
    }

    /// Its zones as names.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.zones.iter().filter_map(|it| name::parse(it)).collect()
    }
}

/// What is to become of the names of a zone: one of the keys beside it. Of several rules the one of
/// the longest zone counts.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DnsRuleConfig {
    /// The zone, and all names in it.
    pub zone: String,
    /// There are no such names.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub block: bool,
    /// False: they have no IPv6 addresses.
    #[serde(default = "super::yes")]
    pub ipv6: bool,
    /// These names and addresses are there, and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<BTreeMap<String, Vec<IpAddr>>>,
    /// Resolvers that this gateway asks for them, for its clients and for its partners'.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<SocketAddr>,
}

impl DnsRuleConfig {
    /// The rule, if the zone is one.
    pub(crate) fn rule(&self) -> Option<Rule> {
        let zone = name::parse(&self.zone)?;
        let act = if self.block {
            Act::Block
        } else if !self.ipv6 {
            Act::NoIpv6
        } else if let Some(hosts) = &self.hosts {
            let hosts = hosts.iter();
            let named = hosts.filter_map(|(host, all)| Some((name::parse(host)?, all.clone())));
            Act::Hosts(named.collect())
        } else {
            Act::Own
        };
        Some(Rule { zone, act })
    }

    /// The resolvers for its zone, if it names any.
    pub(crate) fn forwards(&self) -> Option<(Name, Vec<SocketAddr>)> {
        let named = !self.resolvers.is_empty();
        let zone = name::parse(&self.zone).filter(|_| named)?;
        Some((zone, self.resolvers.clone()))
    }

    fn validate(&self) -> Result<(), InvalidConfig> {
        let place = format!("[[dns.rule]] {}", self.zone);
        let Some(zone) = name::parse(&self.zone) else {
            let message = "`zone` is none: write \".\" or \"ship.example\"";
            return Err(invalid(place, message));
        };
        let keys = [
            self.block,
            !self.ipv6,
            self.hosts.is_some(),
            !self.resolvers.is_empty(),
        ];
        if keys.into_iter().filter(|it| *it).count() != 1 {
            let message = "takes one of `block = true`, `ipv6 = false`, `hosts` and `resolvers`";
            return Err(invalid(place, message));
        }
        let hosts = self.hosts.iter().flatten();
        if hosts.clone().count() > Self::HOSTS_MAX {
            let most = Self::HOSTS_MAX;
            return Err(invalid(place, format!("has more than {most} `hosts`")));
        }
        for (host, addresses) in hosts {
            let name = name::parse(host).filter(|name| zone.zone_of(name));
            if name.is_none() || !(1..=DnsConfig::EACH_MAX).contains(&addresses.len()) {
                let message =
                    format!("`{host}` is no name in the zone, or hasn't 1 to 64 addresses");
                return Err(invalid(place, message));
            }
        }
        Ok(())
    }

    /// Hosts of a zone: whoever has more has a name server.
    const HOSTS_MAX: usize = 1024;
}

impl DnsConfig {
    /// Partners of a gateway.
    pub const PARTNERS_MAX: usize = 64;
    /// Addresses, resolvers, prefixes of clients and zones, at most of each.
    pub const EACH_MAX: usize = 64;
    const ENTRIES_MAX: usize = 1_000_000;
    const OCTETS: core::ops::RangeInclusive<u64> = 10_000..=1_000_000_000;
    const PATIENCE: core::ops::RangeInclusive<Duration> =
        Duration::from_millis(100)..=Duration::from_secs(600);
    /// RFC 8767 section 5 has one to three days; longer is of use where links are down for longer.
    const STALE_MAX: Duration = Duration::from_secs(30 * 86_400);

    const fn default_port() -> u16 {
        7481
    }

    const fn default_dscp() -> Dscp {
        Dscp::af(2, 1)
    }

    /// Less than the 10 s after which Linux and Windows have given up.
    const fn default_patience() -> Time {
        Time(Duration::from_secs(9))
    }

    const fn default_stale() -> Time {
        Time(Duration::from_secs(3 * 86_400))
    }

    const fn default_ahead_range() -> Prefix {
        ahead::RANGE
    }

    const fn default_entries() -> usize {
        4096
    }

    const fn default_octets() -> Octets {
        Octets(1_000_000)
    }

    /// The addresses that stand for names here, if any do.
    pub fn ahead_here(&self) -> Option<Prefix> {
        self.ahead.then(|| self.ahead_range.network())
    }

    pub(super) fn validate(
        &self,
        hosts: &HostSides,
        proxy: Option<&ProxyConfig>,
    ) -> Result<(), InvalidConfig> {
        if self.capture && self.clients.is_empty() {
            let message = "is for the hosts of `clients`: name them";
            return Err(invalid("[dns] capture", message));
        }
        if self.port == 0 || proxy.is_some_and(|proxy| proxy.port == self.port) {
            return Err(invalid(
                "[dns] port",
                "must be 1 to 65535, and not [proxy]'s",
            ));
        }
        let own = |it: IpAddr| self.ahead_range.contains(it);
        if !self.ahead_range.address.is_ipv4() || self.ahead_range.length > ahead::LENGTH_MAX {
            let message = "must be a prefix of IPv4 of /19 at most, such as 198.19.0.0/16";
            return Err(invalid("[dns] ahead_range", message));
        }
        if hosts.own().any(own) || self.partners.iter().any(|it| own(it.address)) {
            let message = "has addresses of gateways: it must be unused";
            return Err(invalid("[dns] ahead_range", message));
        }
        if hosts.all().all(|side| side.kind != HostKind::Tun) {
            let message =
                "needs a host side of kind \"tun\": its clients come by the host's kernel";
            return Err(invalid("[dns]", message));
        }
        let zones = self.partners.iter().map(|it| it.zones.len());
        let each = [self.listen.len(), self.clients.len(), self.resolvers.len()];
        let mut each = each.into_iter().chain(zones);
        if self.partners.len() > Self::PARTNERS_MAX || each.any(|it| it > Self::EACH_MAX) {
            let (partners, most) = (Self::PARTNERS_MAX, Self::EACH_MAX);
            let message =
                format!("more than {partners} partners, or {most} entries in another list");
            return Err(invalid("[dns]", message));
        }
        let mut zones = BTreeSet::new();
        for rule in &self.rules {
            rule.validate()?;
            if !zones.insert(rule.zone.to_ascii_lowercase()) || zones.len() > Self::EACH_MAX {
                let message = format!("zone `{}` has two rules, or there are over 64", rule.zone);
                return Err(invalid("[[dns.rule]]", message));
            }
        }
        let nobody = |ip: IpAddr| ip.is_unspecified() || ip.is_multicast();
        let forwarded = self.rules.iter().flat_map(|it| &it.resolvers);
        let sockets = self.listen.iter().chain(&self.resolvers).chain(forwarded);
        if sockets
            .into_iter()
            .any(|it| it.port() == 0 || nobody(it.ip()))
        {
            let message = "`listen` and `resolvers` take addresses of one host each, and ports";
            return Err(invalid("[dns]", message));
        }
        if !Self::PATIENCE.contains(&self.patience.0) {
            return Err(invalid("[dns] patience", "must be 100 ms to 600 s"));
        }
        if self.stale.0 > Self::STALE_MAX {
            return Err(invalid("[dns] stale", "must be 720 h at most"));
        }
        let entries = (16..=Self::ENTRIES_MAX).contains(&self.entries);
        if !entries || !Self::OCTETS.contains(&self.octets.0) {
            let message = "`entries` must be 16 to 1000000, `octets` 10 kB to 1 GB";
            return Err(invalid("[dns]", message));
        }
        self.validate_partners(hosts)
    }

    fn validate_partners(&self, hosts: &HostSides) -> Result<(), InvalidConfig> {
        if self.partners.is_empty() {
            return Err(invalid("[dns]", "needs a [[dns.partner]] with `address`"));
        }
        let (mut addresses, mut zones) = (BTreeSet::new(), BTreeSet::new());
        for partner in &self.partners {
            let place = format!("[[dns.partner]] {}", partner.address);
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
            for zone in &partner.zones {
                let Some(name) = name::parse(zone) else {
                    let message = format!("`{zone}` is no zone: write \".\" or \"ship.example\"");
                    return Err(invalid(place, message));
                };
                if !self.listen.is_empty() && !zones.insert(name) {
                    return Err(invalid(place, format!("zone `{zone}` is named twice")));
                }
            }
            if partner.turnaround.is_some_and(|it| it.0 > Self::STALE_MAX) {
                return Err(invalid(place, "`turnaround` must be 720 h at most"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_text::complaint_about;

    fn complaint(dns: &str) -> Option<String> {
        let host = "[host]\naddresses = [\"10.9.0.1/30\"]";
        let port = "[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600";
        let text = format!("name = \"a\"\n{host}\n{port}\n[dns]\n{dns}\n");
        complaint_about(&text)
    }

    #[test]
    fn a_dns_proxy_has_partners_and_limits() {
        let partner =
            |address: &str, more: &str| format!("[[dns.partner]]\naddress = \"{address}\"\n{more}");
        let right = partner("10.9.0.2", "");
        let all = "listen = [\"10.1.0.1:53\", \"127.0.0.1:53\"]\nclients = [\"10.1.0.0/24\"]\n\
                   resolvers = [\"10.2.0.2:53\"]\npatience = \"4 s\"\nstale = \"0 s\"\n\
                   entries = 100\noctets = \"10 kB\"\nport = 99\ndscp = \"CS0\"\n\
                   ahead = true\nahead_range = \"10.64.0.0/16\"";
        let zones = partner(
            "10.9.0.2",
            "zones = [\"a.example\", \".\"]\nturnaround = \"14 s\"",
        );
        let rule =
            |zone: &str, more: &str| format!("{right}\n[[dns.rule]]\nzone = \"{zone}\"\n{more}");
        // Addresses that are nobody's are told only where somebody wished for that.
        let ahead = |text: &str| toml::from_str::<DnsConfig>(text).unwrap().ahead_here();
        assert_eq!(ahead(""), None);
        assert_eq!(ahead("ahead = true"), Some(ahead::RANGE));
        let ruled = [
            rule(".", "ipv6 = false"),
            rule("ads.example", "block = true"),
            rule(
                "ship",
                "hosts = { \"A.ship\" = [\"10.0.0.1\", \"fd00::1\"] }",
            ),
            rule("lan", "resolvers = [\"10.1.0.53:53\"]"),
        ];
        for right in ruled {
            assert_eq!(complaint(&right), None, "{right}");
        }
        for right in [right.clone(), zones, format!("{all}\n{right}")] {
            assert_eq!(complaint(&right), None, "{right}");
        }
        for (wrong, word) in [
            (format!("{right}\n[[dns.rule]]\nzone = \"a..b\""), "`zone`"),
            (format!("capture = true\n{right}"), "[dns] capture"),
            (rule("a", ""), "takes one of"),
            (rule("a", "block = true\nipv6 = false"), "takes one of"),
            (
                rule("a", "hosts = { \"b\" = [\"10.0.0.1\"] }"),
                "`b` is no name",
            ),
            (rule("a", "hosts = { \"b.a\" = [] }"), "hasn't 1 to 64"),
            (rule("a", "resolvers = [\"0.0.0.0:53\"]"), "of one host"),
            (
                rule(
                    "a",
                    "block = true\n[[dns.rule]]\nzone = \"A\"\nblock = true",
                ),
                "two rules",
            ),
            (String::new(), "[dns]: needs a [[dns.partner]]"),
            (
                format!("ahead_range = \"fd00::/64\"\n{right}"),
                "[dns] ahead_range",
            ),
            (format!("ahead_range = \"10.64.0.0/20\"\n{right}"), "/19"),
            (format!("ahead_range = \"10.8.0.0/13\"\n{right}"), "unused"),
            (format!("port = 0\n{right}"), "[dns] port: must"),
            (format!("patience = \"99 ms\"\n{right}"), "[dns] patience"),
            (format!("patience = \"601 s\"\n{right}"), "[dns] patience"),
            (format!("stale = \"721 h\"\n{right}"), "[dns] stale"),
            (format!("entries = 15\n{right}"), "`entries`"),
            (format!("octets = \"9 kB\"\n{right}"), "`octets`"),
            (format!("listen = [\"0.0.0.0:53\"]\n{right}"), "of one host"),
            (format!("resolvers = [\"10.0.0.1:0\"]\n{right}"), "ports"),
            (format!("{right}\n{right}"), "another partner's"),
            (partner("10.9.0.1", ""), "own"),
            (partner("127.0.0.1", ""), "no gateway's"),
            (partner("fd00::1", ""), "of its family"),
            (partner("10.9.0.2", "zones = [\"a..b\"]"), "no zone"),
            (
                format!(
                    "listen = [\"10.1.0.1:53\"]\n{}",
                    partner("10.9.0.2", "zones = [\"a\", \"A.\"]")
                ),
                "twice",
            ),
        ] {
            let found = complaint(&wrong).unwrap_or_default();
            assert!(found.contains(word), "{wrong}: {found}");
        }
    }
}
