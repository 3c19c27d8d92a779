//! `[[traffic]]` of a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::chance::Stream;
use strait_core::time::nanos;
use strait_core::tls::TlsVersion;
use strait_core::units::{BitRate, Octets, Time};
use strait_qos::Dscp;
use strait_tcp::{PROFILE_DEFAULT, PROFILES, default_buffer_octets};
use strait_wire::mgen::UDP_OCTETS_MAX;

use crate::agreed::TcpOptions;
use crate::content::Content;
use crate::measure::{Campaign, Direction};
use crate::mgen::{Cloned, Script};
use crate::pair::PairCampaign;

mod pair;

/// One traffic as written. Keys that don't belong to its kind are errors of
/// [`TrafficConfig::resolve`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// Its name, unique in the scenario.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The host that begins: the sender, or the client of a page.
    pub from: String,
    /// The other host; of an echo, the gateway with the service.
    pub to: String,
    /// When it begins.
    #[serde(default = "zero")]
    pub start: Time,
    /// When nothing new is sent any more; without it, the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Time>,
    /// IP version.
    #[serde(default)]
    pub family: Family,
    /// Code point of its packets, in both directions.
    #[serde(default)]
    pub dscp: Dscp,
    /// voice, udp, ping: octets of payload in each packet (of voice, after the RTP header).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Octets>,
    /// voice, ping: time from one packet to the next. chatter: from one round to the next. hello:
    /// between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Time>,
    /// voice: the other host sends as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both_ways: Option<bool>,
    /// voice both ways: one side talks at a time, for so long each; simulated only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Time>,
    /// The traffic begins up to so much later than `start`, by the run's seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_spread: Option<Time>,
    /// udp: rate of the payload. tcp with `sizes`: rate of the link, for the utilisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// udp: gaps are exponentially distributed about the rate's, not all alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poisson: Option<bool>,
    /// ping: how many. tcp with `sizes`: how often each size, in each direction. pair: pairs of
    /// each size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// tcp, page: octets altogether.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octets: Option<Octets>,
    /// tcp, page: what is transferred is a page of text over and over, not octets that look random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<bool>,
    /// tcp, instead of `octets`: measured transfers of these sizes, one after another. pair: sizes
    /// of the IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<Octets>>,
    /// tcp with `sizes`: which way the content goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Ways>,
    /// tcp with `sizes`: length of the intervals in which progress is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Time>,
    /// tcp with `sizes`: how long a transfer may take. pair: how long an answer may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Time>,
    /// pair: packets of a train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<u8>,
    /// pair: how many trains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trains: Option<u32>,
    /// pair: mean pause between two groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Time>,
    /// page: objects, the first being the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u32>,
    /// page: connections at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// tcp, page: profile of the simulated TCP endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// tcp, page: octets of each endpoint's send and receive buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Octets>,
    /// tcp, page: the path's MTU, if it is below the hosts'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Octets>,
    /// mgen: the file with the script that `from` plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// mgen: the script itself, in place of `script`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_text: Option<String>,
    /// mgen: by name, the captures that the script repeats: gap before each frame in ns, and octets
    /// of its message. Those that aren't here are read from their files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Vec<(u64, u32)>>,
    /// echo with `octets`: the connection has TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<CallerTls>,
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

const fn zero() -> Time {
    Time(Duration::ZERO)
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
}

impl Kind {
    /// The word in files and tables.
    pub const fn name(self) -> &'static str {
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
    /// Questions for the addresses of names, each another one.
    Dns {
        /// Time between questions; 1 s if not said.
        period: Duration,
        /// How many; until the end if not said.
        count: Option<u64>,
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
    /// OSPF hellos without neighbours, over IPv4; `to` only says where they could get to.
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

/// What is wrong with a traffic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// A key of another kind.
    #[error("traffic `{traffic}`: a {kind} has no `{key}`")]
    Surplus {
        /// Which traffic.
        traffic: String,
        /// Its kind.
        kind: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A key that its kind needs.
    #[error("traffic `{traffic}`: a {kind} needs `{key}`")]
    Missing {
        /// Which traffic.
        traffic: String,
        /// Its kind.
        kind: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A value out of bounds.
    #[error("traffic `{traffic}`: `{key}` must be {bounds}")]
    Bounds {
        /// Which traffic.
        traffic: String,
        /// The key.
        key: &'static str,
        /// What it may be.
        bounds: &'static str,
    },
    /// A script that can't be played.
    #[error("traffic `{traffic}`: the script, {message}")]
    Script {
        /// Which traffic.
        traffic: String,
        /// The key.
        key: &'static str,
        /// What is wrong with it, and what to do.
        message: String,
    },
}

/// Longest payload: with all headers still below the longest packet.
const PAYLOAD_MAX: u64 = 65_000;

impl TrafficConfig {
    /// A traffic with nothing said but its name and kind; its hosts have no names.
    pub fn plain(name: &str, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            from: String::new(),
            to: String::new(),
            start: zero(),
            stop: None,
            family: Family::default(),
            dscp: Dscp::default(),
            payload: None,
            period: None,
            both_ways: None,
            turns: None,
            start_spread: None,
            rate: None,
            poisson: None,
            count: None,
            octets: None,
            text: None,
            sizes: None,
            direction: None,
            interval: None,
            timeout: None,
            train: None,
            trains: None,
            pause: None,
            objects: None,
            connections: None,
            endpoint: None,
            buffer: None,
            mtu: None,
            script: None,
            script_text: None,
            captures: BTreeMap::new(),
            tls: None,
        }
    }

    /// When the traffic begins in a run with this seed.
    pub fn begins(&self, seed: u64) -> Duration {
        let late = self.start_spread.map_or(0, |spread| {
            let mut chance = Stream::new(seed, &format!("traffic.{}.start", self.name));
            chance.below(nanos(spread.0).saturating_add(1))
        });
        self.start.0 + Duration::from_nanos(late)
    }

    /// Fills in defaults and checks that the keys fit the kind.
    ///
    /// # Errors
    /// [`TrafficError`] names the traffic and the key.
    pub fn resolve(&self) -> Result<Traffic, TrafficError> {
        self.refuse_surplus()?;
        self.refuse_mixture()?;
        if self.name.is_empty() {
            return Err(self.bounds("name", "a word"));
        }
        match self.kind {
            Kind::Voice => Ok(Traffic::Voice {
                payload_octets: self.payload_octets(0, 31)?,
                period: self.period(Duration::from_millis(200))?,
                both_ways: self.both_ways.unwrap_or(false),
                turn: self.turn()?,
            }),
            Kind::Udp => Ok(Traffic::Udp {
                payload_octets: self.payload_octets(4, 100)?,
                rate_bit_s: self.rate.ok_or_else(|| self.missing("rate"))?.0,
                poisson: self.poisson.unwrap_or(false),
            }),
            Kind::Esp => Ok(Traffic::Esp {
                payload_octets: self.payload_octets(4, 100)?.next_multiple_of(4),
                rate_bit_s: self.rate.ok_or_else(|| self.missing("rate"))?.0,
            }),
            Kind::Ping => Ok(Traffic::Ping {
                payload_octets: self.payload_octets(0, 56)?,
                period: self.period(Duration::from_secs(1))?,
                count: self.count,
            }),
            Kind::Dns => Ok(Traffic::Dns {
                period: self.period(Duration::from_secs(1))?,
                count: self.count,
            }),
            Kind::Tcp if self.sizes.is_some() => self.measured(),
            Kind::Tcp => Ok(Traffic::Tcp {
                octets: self.octets.ok_or_else(|| self.missing("octets"))?.0,
                options: self.tcp_options(true)?,
            }),
            Kind::Page => Ok(Traffic::Page {
                objects: self.within("objects", self.objects.unwrap_or(20), 10_000)?,
                octets: self.octets.map_or(60_000, |octets| octets.0),
                connections: self.within("connections", self.connections.unwrap_or(6), 32)?,
                options: self.tcp_options(false)?,
            }),
            Kind::Mgen => self.mgen(),
            Kind::Chatter => Ok(Traffic::Chatter {
                period: self.period(Duration::from_secs(10))?,
            }),
            Kind::Hello => Ok(Traffic::Hello {
                period: self.period(Duration::from_secs(10))?,
            }),
            Kind::Pair => self.pair(),
            Kind::Echo => self.echo(),
        }
    }

    fn echo(&self) -> Result<Traffic, TrafficError> {
        let Some(octets) = self.octets else {
            if self.tls.is_some() {
                return Err(self.bounds("tls", "left away without `octets`"));
            }
            return Ok(Traffic::EchoDatagrams {
                payload_octets: self.payload_octets(4, 56)?,
                period: self.period(Duration::from_secs(1))?,
                count: self.count,
            });
        };
        let keys = [
            ("payload", self.payload.is_some()),
            ("period", self.period.is_some()),
            ("count", self.count.is_some()),
        ];
        match keys.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(self.bounds(key, "left away beside `octets`")),
            None => Ok(Traffic::EchoStream {
                octets: octets.0,
                options: self.tcp_options(true)?,
                tls: self.tls.clone(),
            }),
        }
    }

    fn mgen(&self) -> Result<Traffic, TrafficError> {
        let text = self.script_text.as_ref();
        let text = text.ok_or_else(|| self.missing("script"))?;
        let wrong = |message: String| TrafficError::Script {
            traffic: self.name.clone(),
            key: "script",
            message,
        };
        let script = Script::parse(text).map_err(|error| wrong(error.to_string()))?;
        crate::mgen_flows::playable(&script).map_err(wrong)?;
        let cloned = |(gap_ns, octets): &(u64, u32)| Cloned {
            gap_ns: *gap_ns,
            octets: (*octets).clamp(28, UDP_OCTETS_MAX as u32),
        };
        let captures = self.captures.iter().map(|(name, frames)| {
            let frames: Vec<Cloned> = frames.iter().map(cloned).collect();
            (name.clone(), frames.into())
        });
        Ok(Traffic::Mgen(Box::new(MgenTraffic {
            script,
            captures: captures.collect(),
            options: self.tcp_options(true)?,
        })))
    }

    fn refuse_surplus(&self) -> Result<(), TrafficError> {
        use Kind::{Chatter, Dns, Echo, Esp, Hello, Mgen, Page, Pair, Ping, Tcp, Udp, Voice};
        let keys: [(&'static str, bool, &[Kind]); 26] = [
            (
                "stop",
                self.stop.is_some(),
                &[Voice, Udp, Esp, Ping, Dns, Mgen, Chatter, Hello, Echo],
            ),
            (
                "payload",
                self.payload.is_some(),
                &[Voice, Udp, Esp, Ping, Echo],
            ),
            (
                "period",
                self.period.is_some(),
                &[Voice, Ping, Dns, Chatter, Hello, Echo],
            ),
            ("both_ways", self.both_ways.is_some(), &[Voice]),
            ("turns", self.turns.is_some(), &[Voice]),
            ("rate", self.rate.is_some(), &[Udp, Esp, Tcp]),
            ("poisson", self.poisson.is_some(), &[Udp]),
            ("count", self.count.is_some(), &[Ping, Dns, Tcp, Pair, Echo]),
            ("octets", self.octets.is_some(), &[Tcp, Page, Echo]),
            ("text", self.text.is_some(), &[Tcp, Page, Echo]),
            ("sizes", self.sizes.is_some(), &[Tcp, Pair]),
            ("direction", self.direction.is_some(), &[Tcp]),
            ("interval", self.interval.is_some(), &[Tcp]),
            ("timeout", self.timeout.is_some(), &[Tcp, Pair]),
            ("train", self.train.is_some(), &[Pair]),
            ("trains", self.trains.is_some(), &[Pair]),
            ("pause", self.pause.is_some(), &[Pair]),
            ("objects", self.objects.is_some(), &[Page]),
            ("connections", self.connections.is_some(), &[Page]),
            (
                "endpoint",
                self.endpoint.is_some(),
                &[Tcp, Page, Mgen, Echo],
            ),
            ("buffer", self.buffer.is_some(), &[Tcp, Page, Mgen, Echo]),
            ("mtu", self.mtu.is_some(), &[Tcp, Page, Mgen, Echo]),
            ("script", self.script.is_some(), &[Mgen]),
            ("script_text", self.script_text.is_some(), &[Mgen]),
            ("captures", !self.captures.is_empty(), &[Mgen]),
            ("tls", self.tls.is_some(), &[Echo]),
        ];
        let surplus = keys
            .iter()
            .find(|(_, is_set, kinds)| *is_set && !kinds.contains(&self.kind));
        surplus.map_or(Ok(()), |(key, ..)| {
            let (traffic, kind) = (self.name.clone(), self.kind.name());
            Err(TrafficError::Surplus { traffic, kind, key })
        })
    }

    /// Keys that only measured transfers have, or only plain ones.
    fn refuse_mixture(&self) -> Result<(), TrafficError> {
        if self.kind != Kind::Tcp {
            return Ok(());
        }
        if self.sizes.is_some() {
            let both = self.octets.is_some();
            let wrong = self.bounds("octets", "left away beside `sizes`");
            return if both { Err(wrong) } else { Ok(()) };
        }
        let keys = [
            ("rate", self.rate.is_some()),
            ("count", self.count.is_some()),
            ("direction", self.direction.is_some()),
            ("interval", self.interval.is_some()),
            ("timeout", self.timeout.is_some()),
        ];
        let found = keys.iter().find(|(_, is_set)| *is_set);
        found.map_or(Ok(()), |(key, _)| {
            Err(self.bounds(key, "left away without `sizes`"))
        })
    }

    fn measured(&self) -> Result<Traffic, TrafficError> {
        let sizes = self.sizes.iter().flatten();
        let sizes = sizes.map(|size| u32::try_from(size.0).ok().filter(|octets| *octets > 0));
        let sizes: Option<Vec<u32>> = sizes.collect();
        let sizes = sizes.filter(|sizes| !sizes.is_empty());
        let Some(sizes) = sizes else {
            return Err(self.bounds("sizes", "at least one, each between 1 B and 4294967295 B"));
        };
        let directions = self.direction.unwrap_or_default().directions();
        let runs = self.count.unwrap_or(1);
        let transfers = (sizes.len() * directions.len()) as u64;
        if transfers.saturating_mul(runs) > Campaign::TRANSFERS_MAX as u64 || runs == 0 {
            return Err(self.bounds("count", "at least 1, with 64 transfers altogether at most"));
        }
        let interval = self.interval.map_or(Duration::from_secs(1), |time| time.0);
        if interval < Duration::from_millis(1) || interval > Campaign::INTERVAL_MAX {
            return Err(self.bounds("interval", "between 1 ms and 1 h"));
        }
        Ok(Traffic::Measured {
            campaign: Campaign {
                sizes,
                directions,
                runs: runs as u32,
                interval,
                timeout: self.timeout.map_or(Campaign::TIMEOUT, |time| time.0),
                dscp: self.dscp.number(),
                congestion: String::new(),
                seed: 1,
            },
            rate_bit_s: self.rate.map(|rate| rate.0),
            options: self.tcp_options(true)?,
        })
    }

    fn missing(&self, key: &'static str) -> TrafficError {
        TrafficError::Missing {
            traffic: self.name.clone(),
            kind: self.kind.name(),
            key,
        }
    }

    pub(super) fn bounds(&self, key: &'static str, bounds: &'static str) -> TrafficError {
        TrafficError::Bounds {
            traffic: self.name.clone(),
            key,
            bounds,
        }
    }

    /// What its packets and transfers contain.
    pub fn content(&self, seed: u64) -> Content {
        if self.text == Some(true) {
            Content::text(seed, &self.name)
        } else {
            Content::new(seed, &self.name)
        }
    }

    fn payload_octets(&self, min: u64, default: u64) -> Result<u32, TrafficError> {
        let octets = self.payload.map_or(default, |octets| octets.0);
        if (min..=PAYLOAD_MAX).contains(&octets) {
            Ok(octets as u32)
        } else {
            Err(self.bounds("payload", "between 4 B (udp; else 0 B) and 65000 B"))
        }
    }

    fn period(&self, default: Duration) -> Result<Duration, TrafficError> {
        let period = self.period.map_or(default, |period| period.0);
        if period >= Duration::from_micros(1) {
            Ok(period)
        } else {
            Err(self.bounds("period", "at least 1 us"))
        }
    }

    fn turn(&self) -> Result<Option<Duration>, TrafficError> {
        let Some(turn) = self.turns.map(|turn| turn.0) else {
            return Ok(None);
        };
        let period = self.period(Duration::from_millis(200))?;
        let whole = turn.as_nanos().is_multiple_of(period.as_nanos());
        if !whole || turn.is_zero() || self.both_ways != Some(true) {
            return Err(self.bounds("turns", "a multiple of the period, with both_ways = true"));
        }
        Ok(Some(turn))
    }

    fn within(&self, key: &'static str, value: u32, max: u32) -> Result<u32, TrafficError> {
        if (1..=max).contains(&value) {
            Ok(value)
        } else {
            Err(self.bounds(
                key,
                "at least 1 (objects at most 10000, connections at most 32)",
            ))
        }
    }

    fn tcp_options(&self, nagle: bool) -> Result<TcpOptions, TrafficError> {
        let profile = self.endpoint.as_deref().unwrap_or(PROFILE_DEFAULT);
        if !PROFILES.contains(&profile) {
            return Err(self.bounds(
                "endpoint",
                "`linux-cubic`, `linux-reno`, `linux-bbr`, `newreno-536`, `ns3-2012`, `ns3-sack`, \
                 `ns3-3.37`, `ns3-3.37-sack`, `paper-hf`, `smoltcp-cubic` or `smoltcp-reno`",
            ));
        }
        let buffer_octets = self
            .buffer
            .map_or_else(|| default_buffer_octets(profile) as u64, |octets| octets.0);
        if !(2048..=64 << 20).contains(&buffer_octets) {
            return Err(self.bounds("buffer", "between 2 KiB and 64 MiB"));
        }
        let mtu = self.mtu.map(|mtu| mtu.0);
        if mtu.is_some_and(|mtu| !(128..=65_535).contains(&mtu)) {
            return Err(self.bounds("mtu", "between 128 B and 65535 B"));
        }
        Ok(TcpOptions {
            profile: profile.into(),
            buffer_octets: buffer_octets as usize,
            nagle,
            dscp: self.dscp.number(),
            mtu: mtu.map(|mtu| mtu as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(config.resolve(), Ok(voice));
        let again: TrafficConfig =
            serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn defaults_are_those_of_the_demo() {
        let config = read("kind = \"page\"").unwrap();
        assert_eq!(config.family, Family::V6);
        let Ok(Traffic::Page {
            objects,
            octets,
            connections,
            options,
        }) = config.resolve()
        else {
            panic!("no page");
        };
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
        let text = |rest| read(rest).unwrap().resolve().unwrap_err().to_string();
        assert_eq!(
            text("kind = \"ping\"\nrate = \"1 kbit/s\""),
            "traffic `x`: a ping has no `rate`"
        );
        assert_eq!(text("kind = \"udp\""), "traffic `x`: a udp needs `rate`");
        assert_eq!(text("kind = \"tcp\""), "traffic `x`: a tcp needs `octets`");
        assert!(text("kind = \"udp\"\nrate = \"1 kbit/s\"\npayload = 3").contains("`payload`"));
        assert!(text("kind = \"tcp\"\noctets = 1\nrate = \"1 bit/s\"").contains("`rate`"));
        assert!(text("kind = \"tcp\"\noctets = 1\nsizes = [1]").contains("`octets`"));
        assert!(text("kind = \"tcp\"\nsizes = []").contains("`sizes`"));
        assert!(text("kind = \"tcp\"\nsizes = [0]").contains("`sizes`"));
        assert!(text("kind = \"tcp\"\nsizes = [1]\ncount = 65").contains("`count`"));
        assert!(text("kind = \"tcp\"\nsizes = [1]\ninterval = \"999 us\"").contains("`interval`"));
        assert!(text("kind = \"page\"\nobjects = 0").contains("`objects`"));
        assert!(text("kind = \"echo\"\noctets = 1\ncount = 1").contains("`count`"));
        assert!(text(&echo).contains("`tls`") && text(&udp).contains("`tls`"));
        assert!(text("kind = \"echo\"\nrate = \"1 bit/s\"").contains("`rate`"));
        assert!(text("kind = \"page\"\nendpoint = \"tahoe\"").contains("linux-cubic"));
        assert!(text("kind = \"ping\"\nperiod = \"0 s\"").contains("`period`"));
        assert!(read("kind = \"fax\"").is_err());
        assert!(read("kind = \"ping\"\nfamily = 5").is_err());
        assert!(read("kind = \"ping\"\npayloads = 5").is_err());
    }
}
