//! What the clients of a station may do: its subnetwork interface (STANAG 5066, Annex A).

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::units::{Octets, Time};
use strait_s5066::{Address, sis};

use super::hf::{first_fault, outside};

/// How long hard links wait for others, and what precedence other nodes' have (Annex A.3.2.2).
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HardLinkConfig {
    /// How long the link, and then the other node's answer, may take; 180 s if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Time>,
    /// How long a client here may take to decide on another's wish; 180 s if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Time>,
    /// How long the other node may take to confirm the end; 180 s if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Time>,
    /// The rank that other nodes' hard links have here if they ask for no client, 0 to 15.
    pub rank: u8,
}

impl HardLinkConfig {
    fn settings(&self) -> sis::HardSettings {
        let usual = sis::HardSettings::default();
        sis::HardSettings {
            answer: time(self.answer, usual.answer),
            client: time(self.client, usual.client),
            end: time(self.end, usual.end),
            rank: self.rank,
        }
    }

    fn is_wrong(&self) -> bool {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let mut times = [self.answer, self.client, self.end].into_iter();
        self.rank > 15 || times.any(|time| outside(time, second, hour))
    }

    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

fn time(time: Option<Time>, or: Duration) -> Duration {
    time.map_or(or, |time| time.0)
}

/// The subnetwork interface of a station, as a socket.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct SisConfig {
    /// Where clients connect to. The port is the standard's (Annex A.2.2), for programs on this
    /// host.
    pub listen: SocketAddr,
    /// `listen` may be an address that others can reach: there is no password.
    pub anywhere: bool,
    /// Clients that may have an access point at a time, 1 to 64.
    pub clients: u32,
    /// Connections that have no access point, 1 to 64; 8 if absent. One more, and the oldest of
    /// the address with the most of them ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unbound: Option<u32>,
    /// How long a connection may be without an access point; 30 s if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unbound_for: Option<Time>,
    /// Connections from one address, 1 to 128; `clients` and `unbound` together if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_address: Option<u32>,
    /// How long data of clients that don't say so is worth sending, 2 s to 15 days; a day if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Time>,
    /// Octets of a U_PDU that come back when its client is told what became of it, 1 to 2048; 64 if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Octets>,
    /// The longest U_PDU of a station that is `broadcast_only`, 1 to 4096; 4096 if absent. Others
    /// take 2048.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Octets>,
    /// Expedited U_PDUs that a client may have under way, 1 to 64; 8 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expedited: Option<u32>,
    /// Hard links.
    #[serde(skip_serializing_if = "HardLinkConfig::is_usual")]
    pub hard_link: HardLinkConfig,
}

impl Default for SisConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 5066)),
            anywhere: false,
            clients: 16,
            unbound: None,
            unbound_for: None,
            per_address: None,
            ttl: None,
            told: None,
            mtu: None,
            expedited: None,
            hard_link: HardLinkConfig::default(),
        }
    }
}

impl SisConfig {
    /// The interface's settings, of a node with these neighbours.
    pub(super) fn settings(&self, own: Address, peers: &[Address]) -> sis::Settings {
        let usual = sis::Settings::new(own, peers.to_vec());
        let count = |count: Option<u32>, or: usize| count.map_or(or, |count| count as usize);
        let clients_max = self.clients as usize;
        let unbound_max = count(self.unbound, usual.unbound_max);
        sis::Settings {
            clients_max,
            unbound_max,
            unbound_for: time(self.unbound_for, usual.unbound_for),
            address_max: count(self.per_address, clients_max + unbound_max),
            ttl_max: time(self.ttl, usual.ttl_max),
            told_octets: self.told.map_or(usual.told_octets, |it| it.0 as usize),
            expedited_max: count(self.expedited, usual.expedited_max),
            hard: self.hard_link.settings(),
            ..usual
        }
    }

    /// What can't be: the key, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let second = Duration::from_secs(1);
        let beyond =
            |count: Option<u32>, most: u32| count.is_some_and(|count| !(1..=most).contains(&count));
        let wrong = [
            (
                !self.anywhere && !self.listen.ip().is_loopback(),
                "hf.sis.listen",
                "is reachable for other hosts, and there is no password: to allow this, write \
                 anywhere = true",
            ),
            (
                beyond(Some(self.clients), 64),
                "hf.sis.clients",
                "must be 1 to 64",
            ),
            (
                beyond(self.unbound, 64),
                "hf.sis.unbound",
                "must be 1 to 64",
            ),
            (
                outside(self.unbound_for, second, second * 3600),
                "hf.sis.unbound_for",
                "must be 1 s to an hour",
            ),
            (
                beyond(self.per_address, 128),
                "hf.sis.per_address",
                "must be 1 to 128",
            ),
            (
                outside(self.ttl, second * 2, second * 1_296_000),
                "hf.sis.ttl",
                "must be 2 s to 15 days",
            ),
            (
                self.told.is_some_and(|told| !(1..=2048).contains(&told.0)),
                "hf.sis.told",
                "must be 1 to 2048 octets",
            ),
            (
                self.mtu.is_some_and(|mtu| !(1..=4096).contains(&mtu.0)),
                "hf.sis.mtu",
                "must be 1 to 4096 octets",
            ),
            (
                beyond(self.expedited, 64),
                "hf.sis.expedited",
                "must be 1 to 64",
            ),
            (
                self.hard_link.is_wrong(),
                "hf.sis.hard_link",
                "times must be 1 s to an hour, and rank 0 to 15",
            ),
        ];
        first_fault(wrong)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use crate::NodeConfig;
    use crate::config_text::parse;

    fn node(hf: &str, ports: &str) -> NodeConfig {
        let text = format!(
            "name = \"a\"\nhost = {{}}\n[[port]]\nname = \"hf\"\nkind = \"hf\"\n\
             rate = \"9600 bit/s\"\nneighbours = [{{ name = \"b\", hf = \"0.0.0.2\" }}, \
             {{ name = \"c\", hf = \"0.0.0.3\" }}]\n\
             [port.hf]\naddress = \"0.0.0.1\"\n{hf}\n{ports}"
        );
        parse("a.toml", &text).expect("a configuration")
    }

    fn complaint(hf: &str, ports: &str) -> Option<String> {
        let error = node(hf, ports).validate().err()?;
        Some(error.place)
    }

    /// Annex B.3.2.1 (4), (17), (23).
    #[test]
    fn what_the_standard_wants_configurable_of_links_is() {
        let keys = "calls = 2\nanswer_margin = \"5 s\"\nidle = \"3 s\"";
        let config = node(keys, "");
        let settings = config.ports[0].hf().expect("a station").settings();
        let seconds = Duration::from_secs;
        assert_eq!(
            (settings.calls_max, settings.answer_margin, settings.idle),
            (2, seconds(5), seconds(3))
        );
        for (calls, right) in [(0, false), (1, true), (100, true), (101, false)] {
            let place = complaint(
                &format!("ip_client = false\nsis = {{}}\ncalls = {calls}"),
                "",
            );
            let named = place.is_some_and(|it| it.ends_with("hf.calls"));
            assert_eq!(named, !right, "{calls}");
        }
    }

    /// Annex A.2.1.6 (10), A.2.1.7 (10), A.2.1.10 (4)', A.3.1.7 (6), A.3.2.2.2 (12), (19), (23),
    /// A.3.2.2.3 (4), A.3.2.4 (12), (16).
    #[test]
    fn what_the_standard_wants_configurable_is() {
        let keys = "ip_client = false\nsis = { unbound = 3, unbound_for = \"5 s\", \
                    per_address = 4, ttl = \"1 h\", told = \"2 kB\", expedited = 9, hard_link = \
                    { answer = \"1 min\", client = \"20 s\", end = \"30 s\", rank = 7 } }";
        let config = node(keys, "");
        assert_eq!(config.validate(), Ok(()));
        let hf = config.ports[0].hf().expect("a station");
        let seconds = Duration::from_secs;
        let own = Address::new(1);
        let expected = sis::Settings {
            unbound_max: 3,
            unbound_for: seconds(5),
            address_max: 4,
            ttl_max: seconds(3600),
            told_octets: 2000,
            expedited_max: 9,
            hard: sis::HardSettings {
                answer: seconds(60),
                client: seconds(20),
                end: seconds(30),
                rank: 7,
            },
            guests: 8,
            ..sis::Settings::new(own, alloc::vec![])
        };
        assert_eq!(hf.interface(own, &[]), expected);
        let hf = node("ip_client = false", "");
        let usual = hf.ports[0].hf().expect("a station");
        let settings = sis::Settings::new(own, alloc::vec![]);
        assert_eq!(usual.interface(own, &[]), settings);
        for (wrong, key) in [
            ("unbound = 0", "unbound"),
            ("unbound_for = \"0 s\"", "unbound_for"),
            ("per_address = 129", "per_address"),
            ("ttl = \"1 s\"", "ttl"),
            ("told = \"0 B\"", "told"),
            ("expedited = 65", "expedited"),
            ("hard_link = { end = \"0 s\" }", "hard_link"),
            ("hard_link = { rank = 16 }", "hard_link"),
        ] {
            let place = complaint(&format!("ip_client = false\nsis = {{ {wrong} }}"), "");
            let expected = format!("hf.sis.{key}");
            assert!(
                place.as_ref().is_some_and(|it| it.ends_with(&expected)),
                "{place:?}"
            );
        }
    }

    /// A.2.1.3 (8), (9).
    #[test]
    fn a_station_without_links_takes_longer_data_and_has_nothing_that_needs_answers() {
        let mtu = |keys: &str| {
            let config = node(keys, "");
            assert_eq!(config.validate(), Ok(()), "{keys}");
            let hf = config.ports[0].hf().expect("a station");
            hf.interface(Address::new(1), &[]).mtu
        };
        let only = "ip_client = false\nbroadcast_only = true\n";
        assert_eq!(mtu("ip_client = false\nsis = {}"), 2048);
        assert_eq!(mtu(&format!("{only}sis = {{}}")), 4096);
        assert_eq!(mtu(&format!("{only}sis = {{ mtu = \"3000 B\" }}")), 3000);
        let probe = "probe = [{ to = \"b\", sap = 3, period = \"9 s\" }]";
        for (keys, key) in [
            (format!("{only}sis = {{ mtu = \"4097 B\" }}"), "sis.mtu"),
            (format!("{only}adapt = {{}}"), "adapt"),
            (format!("{only}{probe}"), "probe"),
            (
                "ip_client = false\nsis = { mtu = \"2 kB\" }".into(),
                "sis.mtu",
            ),
        ] {
            let place = complaint(&keys, "").expect("a complaint");
            assert!(place.ends_with(&format!("hf.{key}")), "{place}");
        }
    }

    #[test]
    fn a_station_for_other_programs_needs_no_routes() {
        assert_eq!(complaint("ip_client = false\nsis = {}", ""), None);
        assert_eq!(complaint("sis = {}", ""), Some("[[route]]".to_string()));
        let route = "[[route]]\nprefix = \"10.0.0.0/8\"\nport = \"hf\"\nvia = \"b\"";
        assert_eq!(complaint("", route), None);
        let place = complaint("ip_client = false\nsis = {}", route);
        assert_eq!(place, Some("[[route]] 10.0.0.0/8".to_string()));
    }
}
