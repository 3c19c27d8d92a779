//! `[[traffic]]` of a scenario.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::chance::Stream;
use strait_core::keys::{KeyError, KindWord};
use strait_core::time::nanos;
use strait_core::tls::TlsVersion;

use crate::agreed::{Site, TcpOptions};
use crate::content::Content;
use crate::measure::{Campaign, Direction};
use crate::mgen::{Cloned, Script};
use crate::pair::PairCampaign;

mod keys;
mod pair;

pub use self::keys::{LiveProgram, ScriptSource, ScriptText, TrafficKeys};

/// A traffic, sorted out. It reads as its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TrafficKeys", into = "TrafficKeys")]
pub struct TrafficConfig {
    /// What it is, with what only this kind has.
    pub what: Traffic,
    /// Who is asked for the other host's name, if that is looked up before anything is sent.
    pub resolver: Option<IpAddr>,
    keys: TrafficKeys,
}

impl Deref for TrafficConfig {
    type Target = TrafficKeys;

    fn deref(&self) -> &TrafficKeys {
        &self.keys
    }
}

impl TryFrom<TrafficKeys> for TrafficConfig {
    type Error = KeyError;

    fn try_from(keys: TrafficKeys) -> Result<Self, KeyError> {
        let what = keys.sorted_out()?;
        Ok(Self {
            what,
            resolver: None,
            keys,
        })
    }
}

impl From<TrafficConfig> for TrafficKeys {
    fn from(config: TrafficConfig) -> Self {
        config.keys
    }
}

impl TrafficConfig {
    /// Changes keys.
    ///
    /// # Errors
    /// The key that can't be so; then nothing is changed.
    pub fn change(&mut self, change: impl FnOnce(&mut TrafficKeys)) -> Result<(), KeyError> {
        let mut keys = self.keys.clone();
        change(&mut keys);
        *self = keys.try_into()?;
        Ok(())
    }

    /// Whether its other end may be a gateway.
    pub const fn is_to_gateway(&self) -> bool {
        self.is_echo() || matches!(self.what, Traffic::Mail { .. })
    }

    /// Whether its other end is a gateway's echo service.
    pub const fn is_echo(&self) -> bool {
        matches!(
            self.what,
            Traffic::EchoStream { .. } | Traffic::EchoDatagrams { .. }
        )
    }

    /// When the traffic begins in a run with this seed.
    pub fn begins(&self, seed: u64) -> Duration {
        let late = self.start_spread.map_or(0, |spread| {
            let mut chance = Stream::new(seed, &format!("traffic.{}.start", self.name));
            chance.below(nanos(spread.0).saturating_add(1))
        });
        self.start.0 + Duration::from_nanos(late)
    }

    /// Whether it is mail that isn't text.
    pub fn is_binary_mail(&self) -> bool {
        matches!(self.what, Traffic::Mail { .. }) && self.text == Some(false)
    }

    /// What its packets and transfers contain.
    pub fn content(&self, seed: u64) -> Content {
        if self.text == Some(true) {
            Content::text(seed, &self.name)
        } else {
            Content::new(seed, &self.name)
        }
    }
}

/// TLS of a host's program that calls a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerTls {
    /// The name that the service's certificate has to be for.
    pub name: String,
    /// A file with the certificates of those who may issue that one (PEM). Lab only; simulated they
    /// have.
    pub trust: String,
    /// The newest version that the program has.
    #[serde(default)]
    pub newest: NewestTls,
    /// It begins in the clear and asks for TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starttls: bool,
}

/// The newest version of TLS that a program has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewestTls {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[default]
    #[serde(rename = "1.3")]
    V1_3,
}

impl NewestTls {
    /// The version itself.
    pub const fn version(self) -> TlsVersion {
        match self {
            Self::V1_2 => TlsVersion::V1_2,
            Self::V1_3 => TlsVersion::V1_3,
        }
    }
}

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// RTP packets at a fixed period.
    Voice,
    /// Datagrams at a rate.
    Udp,
    /// Packets of IPsec at a rate.
    Esp,
    /// Echo requests.
    Ping,
    /// Look-ups of names.
    Dns,
    /// One transfer.
    Tcp,
    /// A web page.
    Page,
    /// The flows of an MGEN script.
    Mgen,
    /// What a desktop computer says to its network by itself.
    Chatter,
    /// A router's hellos.
    Hello,
    /// Packet pairs and trains.
    Pair,
    /// Octets, or datagrams, that a gateway's echo service sends back.
    Echo,
    /// A message for a mailbox of a gateway.
    Mail,
}

impl KindWord for Kind {
    const OF: &'static str = "traffic";

    fn word(self) -> &'static str {
        match self {
            Self::Voice => "voice",
            Self::Udp => "udp",
            Self::Esp => "esp",
            Self::Ping => "ping",
            Self::Dns => "dns",
            Self::Tcp => "tcp",
            Self::Page => "page",
            Self::Mgen => "mgen",
            Self::Chatter => "chatter",
            Self::Hello => "hello",
            Self::Pair => "pair",
            Self::Echo => "echo",
            Self::Mail => "mail",
        }
    }
}

/// IP version of a traffic; written 4 or 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    #[default]
    V6,
}

impl TryFrom<u8> for Family {
    type Error = &'static str;
    fn try_from(value: u8) -> Result<Self, Self::Error> {
        match value {
            4 => Ok(Self::V4),
            6 => Ok(Self::V6),
            _ => Err("family is 4 or 6"),
        }
    }
}

impl From<Family> for u8 {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }
}

/// Which way the content of measured transfers goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ways {
    /// From the host that begins.
    #[default]
    Up,
    /// To the host that begins.
    Down,
    /// For each size, first up and then down.
    Both,
}

impl Ways {
    /// Each direction in its turn.
    pub fn directions(self) -> Vec<Direction> {
        match self {
            Self::Up => vec![Direction::Up],
            Self::Down => vec![Direction::Down],
            Self::Both => vec![Direction::Up, Direction::Down],
        }
    }
}

/// A traffic with its defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// RTP packets at a fixed period.
    Voice {
        /// Octets after the RTP header; 31 if not said.
        payload_octets: u32,
        /// Time between packets; 200 ms if not said.
        period: Duration,
        /// Both hosts send.
        both_ways: bool,
        /// How long each side talks before the other does; both talk all the time without.
        turn: Option<Duration>,
    },
    /// Datagrams at a rate.
    Udp {
        /// Octets of each; 100 if not said.
        payload_octets: u32,
        /// Rate of the payload in bit/s.
        rate_bit_s: u64,
        /// Exponentially distributed gaps.
        poisson: bool,
    },
    /// Packets as a security gateway sends them (RFC 4303), with contents that nobody can read.
    Esp {
        /// Octets behind the sequence number, in words of four; 100 if not said.
        payload_octets: u32,
        /// Rate of these in bit/s.
        rate_bit_s: u64,
    },
    /// Echo requests.
    Ping {
        /// Octets of each; 56 if not said, as usual.
        payload_octets: u32,
        /// Time between requests; 1 s if not said.
        period: Duration,
        /// How many; until the end if not said.
        count: Option<u64>,
    },
    /// Questions for the addresses of names.
    Dns {
        /// Time between questions; 1 s if not said.
        period: Duration,
        /// How many; until the end if not said.
        count: Option<u64>,
        /// Whom it asks, and how.
        manner: LookUps,
    },
    /// One transfer.
    Tcp {
        /// Octets to transfer.
        octets: u64,
        /// How both ends are made.
        options: TcpOptions,
    },
    /// Measured transfers.
    Measured {
        /// Which.
        campaign: Campaign,
        /// Rate of the link, for the utilisation.
        rate_bit_s: Option<u64>,
        /// How both ends are made.
        options: TcpOptions,
    },
    /// A page.
    Page {
        /// Objects; 20 if not said.
        objects: u32,
        /// Octets of all of them; 60 kB if not said.
        octets: u64,
        /// Connections at once; 6 if not said, as browsers do.
        connections: u32,
        /// Its hosts, and what is between them.
        site: Site,
        /// How both ends are made.
        options: TcpOptions,
    },
    /// The flows of a script.
    Mgen(Box<MgenTraffic>),
    /// Questions to everybody; nobody answers, and `to` only says where they could get to.
    Chatter {
        /// Time between rounds; 10 s if not said.
        period: Duration,
    },
    /// OSPF hellos without neighbours (IPv6: version 3); `to` only says where they could get to.
    Hello {
        /// Time between two; 10 s if not said. They tell it in seconds, rounded up.
        period: Duration,
    },
    /// Packet pairs and trains.
    Pair(PairCampaign),
    /// Octets over a connection, and their end, that come back.
    EchoStream {
        /// How many.
        octets: u64,
        /// How the host's end is made.
        options: TcpOptions,
        /// What it is secured by.
        tls: Option<CallerTls>,
    },
    /// A message for a mailbox.
    Mail {
        /// Octets of it.
        octets: u64,
        /// The value of MT-PRIORITY, if it says one.
        priority: Option<i8>,
        /// How long the server of a host's mailboxes takes to store it.
        pause: Duration,
        /// How the host's end is made.
        options: TcpOptions,
    },
    /// Datagrams that come back.
    EchoDatagrams {
        /// Octets of each; 56 if not said.
        payload_octets: u32,
        /// Time between two; 1 s if not said.
        period: Duration,
        /// How many; until the end if not said.
        count: Option<u64>,
    },
}

/// How names are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookUps {
    /// Who is asked; the other host, which has the names, if not said.
    pub resolver: Option<IpAddr>,
    /// How long each try waits for an answer; there is one, which waits for ever, if none is said.
    pub waits: Vec<Duration>,
    /// How many names there are, in turn; each question is for another one if not said.
    pub names: Option<u64>,
    /// The type that is asked for: its word, and its number.
    pub kind: (&'static str, u16),
    /// How long an address holds, in seconds.
    pub life_s: u32,
}

impl LookUps {
    /// Types of records that may be asked for: an address, and what programs ask for beside it.
    pub const TYPES: [(&str, u16); 3] = [("A", 1), ("AAAA", 28), ("HTTPS", 65)];

    /// Resolvers of hosts, and how long each of their tries waits, in milliseconds: glibc's,
    /// musl's, and that of Windows with one server.
    pub const RESOLVERS: [(&str, &[u64]); 3] = [
        ("linux", &[5000, 5000]),
        ("musl", &[2500, 2500]),
        ("windows", &[1000, 1000, 2000, 4000, 2000]),
    ];

    /// The number of the name that a question is for.
    pub fn name(&self, sequence: u64) -> u64 {
        sequence
            .checked_rem(self.names.unwrap_or(0))
            .unwrap_or(sequence)
    }
}

/// A script as traffic of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct MgenTraffic {
    /// The script.
    pub script: Script,
    /// The captures that it repeats.
    pub captures: BTreeMap<String, Arc<[Cloned]>>,
    /// How the ends of its TCP flows are made.
    pub options: TcpOptions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_qos::Dscp;
    use strait_tcp::PROFILE_DEFAULT;

    fn read(rest: &str) -> Result<TrafficConfig, toml::de::Error> {
        toml::from_str(&format!("name = \"x\"\nfrom = \"ha\"\nto = \"hb\"\n{rest}"))
    }

    #[test]
    fn a_voice_with_everything_said() {
        let config = read(
            "kind = \"voice\"\nstart = \"1 s\"\nstop = \"40 s\"\nfamily = 4\ndscp = \"EF\"\n\
             payload = \"24 B\"\nperiod = \"30 ms\"\nboth_ways = true",
        )
        .unwrap();
        assert_eq!(
            (config.family, config.dscp, config.start.0.as_secs()),
            (Family::V4, Dscp::EF, 1)
        );
        let voice = Traffic::Voice {
            payload_octets: 24,
            period: Duration::from_millis(30),
            both_ways: true,
            turn: None,
        };
        assert_eq!(config.what, voice);
        let again: TrafficConfig =
            serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn defaults_are_those_of_the_demo() {
        let config = read("kind = \"page\"").unwrap();
        assert_eq!(config.family, Family::V6);
        let Traffic::Page {
            objects,
            octets,
            connections,
            site,
            options,
        } = config.what
        else {
            panic!("no page");
        };
        assert_eq!(site, Site::default());
        assert_eq!((objects, octets, connections), (20, 60_000, 6));
        assert_eq!(
            (options.profile.as_str(), options.nagle),
            (PROFILE_DEFAULT, false)
        );
    }

    #[test]
    fn wrong_keys_are_named() {
        let tls = "tls = { name = \"a.example\", trust = \"a.pem\" }";
        let [echo, udp] = ["echo", "udp"].map(|kind| format!("kind = \"{kind}\"\n{tls}"));
        let text = |rest| read(rest).unwrap_err().to_string();
        assert_eq!(
            text("kind = \"ping\"\nrate = \"1 kbit/s\"").trim(),
            "wrong key `rate`: is for kind = \"udp\" or \"esp\" or \"tcp\", and this traffic's is \
             \"ping\": remove it"
        );
        let needed = |key, kind| format!("wrong key `{key}`: needed with kind = \"{kind}\"");
        assert_eq!(text("kind = \"udp\"").trim(), needed("rate", "udp"));
        assert_eq!(text("kind = \"tcp\"").trim(), needed("octets", "tcp"));
        assert!(text("kind = \"udp\"\nrate = \"1 kbit/s\"\npayload = 3").contains("`payload`"));
        assert!(text("kind = \"tcp\"\noctets = 1\nrate = \"1 bit/s\"").contains("`rate`"));
        assert!(text("kind = \"tcp\"\noctets = 1\nsizes = [1]").contains("`octets`"));
        assert!(text("kind = \"tcp\"\nsizes = []").contains("`sizes`"));
        assert!(text("kind = \"tcp\"\nsizes = [0]").contains("`sizes`"));
        assert!(text("kind = \"tcp\"\nsizes = [1]\ncount = 65").contains("`count`"));
        assert!(text("kind = \"tcp\"\nsizes = [1]\ninterval = \"999 us\"").contains("`interval`"));
        assert!(text("kind = \"page\"\nobjects = 0").contains("`objects`"));
        for site in ["hosts = 0", "hosts = 11", "depth = 1", "http2 = true"] {
            let page = format!("kind = \"page\"\nsite = {{ {site} }}");
            let told = read(&page).unwrap_err().to_string();
            assert!(told.contains("`site`"), "{site}");
        }
        let page = "kind = \"page\"\nconnections = 1\nsite = { hosts = 63, http2 = true }";
        assert!(read(page).is_ok());
        assert!(text("kind = \"echo\"\noctets = 1\ncount = 1").contains("`count`"));
        assert!(text(&echo).contains("`tls`") && text(&udp).contains("`tls`"));
        assert!(text("kind = \"echo\"\nrate = \"1 bit/s\"").contains("`rate`"));
        assert!(text("kind = \"page\"\nendpoint = \"tahoe\"").contains("linux-cubic"));
        assert!(text("kind = \"ping\"\nperiod = \"0 s\"").contains("`period`"));
        assert!(text("kind = \"dns\"\nendpoint = \"linux-cubic\"").contains("`musl`"));
        assert!(text("kind = \"dns\"\nobjects = 0").contains("`objects`"));
        for life in ["0 s", "1500 ms"] {
            let dns = format!("kind = \"dns\"\nlife = \"{life}\"");
            let told = read(&dns).unwrap_err().to_string();
            assert!(told.contains("`life`"), "{life}");
        }
        assert!(text("kind = \"dns\"\nendpoint = \"linux-mx\"").contains("`-aaaa`"));
        assert!(read("kind = \"dns\"\nendpoint = \"windows\"\nobjects = 4").is_ok());
        assert!(read("kind = \"fax\"").is_err());
        assert!(read("kind = \"ping\"\nfamily = 5").is_err());
        assert!(read("kind = \"ping\"\npayloads = 5").is_err());
    }
}
