//! The keys of `[[traffic]]`, and what they become.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::keys::{self, KeyError, KindKey, KindWord as _};
use strait_core::units::{BitRate, Octets, Time};
use strait_qos::Dscp;
use strait_tcp::{PROFILE_DEFAULT, PROFILES, default_buffer_octets};
use strait_wire::mgen::UDP_OCTETS_MAX;

use super::{CallerTls, Family, Kind, LookUps, MgenTraffic, Traffic, Ways};
use crate::agreed::{DNS_LIFE_S, Site, TcpOptions};
use crate::measure::Campaign;
use crate::mgen::{Cloned, Script};

/// The keys of a traffic as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficKeys {
    /// Its name, unique in the scenario.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The host that begins: the sender, or the client of a page.
    pub from: String,
    /// The other host; of an echo, the gateway with the service. mail: the gateway or the host with
    /// the mailbox.
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
    /// Code point of its packets, in both directions. mail: that of the lane whose precedence the
    /// message asks for; it asks for none without.
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
    /// tcp, page: octets altogether. mail: of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octets: Option<Octets>,
    /// tcp, page: what is transferred is a page of text over and over, not octets that look random.
    /// mail: unless this is false, lines of base64.
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
    /// pair: mean pause between two groups. mail to a host: how long its server takes to store the
    /// message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Time>,
    /// page: objects, the first being the root. dns: names, asked for in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u32>,
    /// dns: how long addresses hold; ten minutes if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<Time>,
    /// page: connections at once, to each of its hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// page: its hosts, and what is between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
    /// tcp, page: profile of the simulated TCP endpoints. dns: whose resolver asks, and so when it
    /// asks again and gives up; with `-aaaa` or `-https` behind it, for that type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// tcp, page: octets of each endpoint's send and receive buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Octets>,
    /// tcp, page: the path's MTU, if it is below the hosts'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Octets>,
    /// mgen: the script that `from` plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptSource>,
    /// What makes it live. tcp: `wget`, from a web server, or `ftp`, `wget` from an FTP server
    /// whose data has the traffic's port; `curl` if not said. mgen: `mgen` plays the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<LiveProgram>,
    /// echo with `octets`: the connection has TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<CallerTls>,
}

const fn zero() -> Time {
    Time(Duration::ZERO)
}

/// Longest payload: with all headers still below the longest packet.
const PAYLOAD_MAX: u64 = 65_000;

/// A program that makes a traffic live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LiveProgram {
    /// `wget`, from a web server.
    Wget,
    /// The same, from an FTP server.
    Ftp,
    /// The Multi-Generator.
    Mgen,
}

/// Where an MGEN script is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ScriptSource {
    /// In this file.
    File(String),
    /// Here.
    Whole(ScriptText),
}

/// An MGEN script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptText {
    /// Its lines.
    pub text: String,
    /// By name, the captures that it repeats: gap before each frame in ns, and octets of its
    /// message. Those that aren't here are read from their files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Vec<(u64, u32)>>,
}

impl TrafficKeys {
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
            life: None,
            connections: None,
            site: None,
            endpoint: None,
            buffer: None,
            mtu: None,
            script: None,
            program: None,
            tls: None,
        }
    }

    /// Fills in defaults and checks that the keys fit the kind.
    pub(super) fn sorted_out(&self) -> Result<Traffic, KeyError> {
        keys::refuse_others(self.kind, self.particular())?;
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
                manner: self.look_ups()?,
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
                site: self.site()?,
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
            Kind::Mail => self.mail(),
        }
    }

    fn site(&self) -> Result<Site, KeyError> {
        let site = self.site.unwrap_or_default();
        let connections = self.connections.unwrap_or(6);
        if site.depth < 2 || site.hosts == 0 || site.hosts.saturating_mul(connections) > 63 {
            let bounds = "with depth of at least 2, and at most 63 connections to all its hosts";
            return Err(self.bounds("site", bounds));
        }
        if site.http2 && connections != 1 {
            return Err(self.bounds("site", "without http2, or beside connections = 1"));
        }
        if site.http2 && site.via.is_some() {
            return Err(self.bounds("site", "without http2, or without via"));
        }
        Ok(site)
    }

    fn look_ups(&self) -> Result<LookUps, KeyError> {
        let names = self.objects;
        if names.is_some_and(|names| !(1..=100_000).contains(&names)) {
            return Err(self.bounds("objects", "1 to 100000"));
        }
        let wrong = || {
            let words = "`linux`, `musl` or `windows`, with `-aaaa` or `-https` or without";
            self.bounds("endpoint", words)
        };
        let (who, kind) = match self.endpoint.as_deref() {
            None => (None, "a"),
            Some(word) => {
                let (who, kind) = word.split_once('-').unwrap_or((word, "a"));
                (Some(who), kind)
            }
        };
        let kind = LookUps::TYPES
            .into_iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(kind));
        let waits = match who {
            None => &[],
            Some(who) => {
                let known = LookUps::RESOLVERS.iter().find(|(name, _)| *name == who);
                known.ok_or_else(wrong)?.1
            }
        };
        Ok(LookUps {
            kind: kind.ok_or_else(wrong)?,
            resolver: None,
            waits: waits.iter().map(|ms| Duration::from_millis(*ms)).collect(),
            names: names.map(u64::from),
            life_s: self.life_s()?,
        })
    }

    fn life_s(&self) -> Result<u32, KeyError> {
        let Some(life) = self.life else {
            return Ok(DNS_LIFE_S);
        };
        let life_s = u32::try_from(life.0.as_secs()).ok();
        let whole = life_s.filter(|it| *it > 0 && Duration::from_secs((*it).into()) == life.0);
        whole.ok_or_else(|| self.bounds("life", "whole seconds, at least one"))
    }

    fn echo(&self) -> Result<Traffic, KeyError> {
        let Some(octets) = self.octets else {
            if self.tls.is_some() {
                return Err(self.bounds("tls", "absent without `octets`"));
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
            Some((key, _)) => Err(self.bounds(key, "absent beside `octets`")),
            None => Ok(Traffic::EchoStream {
                octets: octets.0,
                options: self.tcp_options(true)?,
                tls: self.tls.clone(),
            }),
        }
    }

    /// A precedence is told by its lane's usual code point, as MT-PRIORITY.
    fn mail(&self) -> Result<Traffic, KeyError> {
        let priority = match self.dscp.number() {
            0 => None,
            1 => Some(-4),
            18 => Some(0),
            16 => Some(2),
            24 => Some(4),
            32 => Some(6),
            _ => return Err(self.bounds("dscp", "`LE`, `AF21`, `CS2`, `CS3` or `CS4`")),
        };
        Ok(Traffic::Mail {
            octets: self.octets.ok_or_else(|| self.missing("octets"))?.0,
            priority,
            pause: self.pause.map_or(Duration::ZERO, |pause| pause.0),
            options: self.tcp_options(true)?,
        })
    }

    /// A script that is in a file has no flows until that is read.
    fn mgen(&self) -> Result<Traffic, KeyError> {
        let whole = match &self.script {
            None => return Err(self.missing("script")),
            Some(ScriptSource::File(_)) => &ScriptText::default(),
            Some(ScriptSource::Whole(whole)) => whole,
        };
        let wrong = |message: String| KeyError {
            key: "script".into(),
            why: format!("the script, {message}").into(),
        };
        let script = Script::parse(&whole.text).map_err(|error| wrong(error.to_string()))?;
        crate::mgen_flows::playable(&script).map_err(wrong)?;
        let cloned = |(gap_ns, octets): &(u64, u32)| Cloned {
            gap_ns: *gap_ns,
            octets: (*octets).clamp(28, UDP_OCTETS_MAX as u32),
        };
        let captures = whole.captures.iter().map(|(name, frames)| {
            let frames: Vec<Cloned> = frames.iter().map(cloned).collect();
            (name.clone(), frames.into())
        });
        Ok(Traffic::Mgen(Box::new(MgenTraffic {
            script,
            captures: captures.collect(),
            options: self.tcp_options(true)?,
        })))
    }

    /// Keys that not every kind has: whether they are given, and who has them.
    fn particular(&self) -> [KindKey<Kind>; 27] {
        use Kind::{Chatter, Dns, Echo, Esp, Hello, Mail, Mgen, Page, Pair, Ping, Tcp, Udp, Voice};
        const ENDS: &[Kind] = &[Voice, Udp, Esp, Ping, Dns, Mgen, Chatter, Hello, Echo];
        const TCP: &[Kind] = &[Tcp, Page, Mgen, Echo, Mail];
        const ENDPOINTS: &[Kind] = &[Tcp, Page, Mgen, Echo, Mail, Dns];
        [
            KindKey::new("stop", self.stop.is_some(), ENDS),
            KindKey::new(
                "payload",
                self.payload.is_some(),
                &[Voice, Udp, Esp, Ping, Echo],
            ),
            KindKey::new(
                "period",
                self.period.is_some(),
                &[Voice, Ping, Dns, Chatter, Hello, Echo],
            ),
            KindKey::new("both_ways", self.both_ways.is_some(), &[Voice]),
            KindKey::new("turns", self.turns.is_some(), &[Voice]),
            KindKey::new("rate", self.rate.is_some(), &[Udp, Esp, Tcp]),
            KindKey::new("poisson", self.poisson.is_some(), &[Udp]),
            KindKey::new("count", self.count.is_some(), &[Ping, Dns, Tcp, Pair, Echo]),
            KindKey::new("octets", self.octets.is_some(), &[Tcp, Page, Echo, Mail]),
            KindKey::new("text", self.text.is_some(), &[Tcp, Page, Echo, Mail]),
            KindKey::new("sizes", self.sizes.is_some(), &[Tcp, Pair]),
            KindKey::new("direction", self.direction.is_some(), &[Tcp]),
            KindKey::new("interval", self.interval.is_some(), &[Tcp]),
            KindKey::new("timeout", self.timeout.is_some(), &[Tcp, Pair]),
            KindKey::new("train", self.train.is_some(), &[Pair]),
            KindKey::new("trains", self.trains.is_some(), &[Pair]),
            KindKey::new("pause", self.pause.is_some(), &[Pair, Mail]),
            KindKey::new("objects", self.objects.is_some(), &[Page, Dns]),
            KindKey::new("life", self.life.is_some(), &[Dns]),
            KindKey::new("connections", self.connections.is_some(), &[Page]),
            KindKey::new("site", self.site.is_some(), &[Page]),
            KindKey::new("endpoint", self.endpoint.is_some(), ENDPOINTS),
            KindKey::new("buffer", self.buffer.is_some(), TCP),
            KindKey::new("mtu", self.mtu.is_some(), TCP),
            KindKey::new("script", self.script.is_some(), &[Mgen]),
            KindKey::new("program", self.program.is_some(), &[Tcp, Mgen]),
            KindKey::new("tls", self.tls.is_some(), &[Echo]),
        ]
    }

    /// Keys that only measured transfers have, or only plain ones.
    fn refuse_mixture(&self) -> Result<(), KeyError> {
        let plays = self.program.map(|it| it == LiveProgram::Mgen);
        if plays.is_some_and(|plays| plays != (self.kind == Kind::Mgen)) {
            return Err(self.bounds("program", "`wget` or `ftp` (tcp), or `mgen` (mgen)"));
        }
        if self.kind != Kind::Tcp {
            return Ok(());
        }
        if self.sizes.is_some() {
            let others = [
                ("octets", self.octets.is_some()),
                ("program", self.program.is_some()),
            ];
            let found = others.iter().find(|(_, is_set)| *is_set);
            return found.map_or(Ok(()), |(key, _)| {
                Err(self.bounds(key, "absent beside `sizes`"))
            });
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
            Err(self.bounds(key, "absent without `sizes`"))
        })
    }

    fn measured(&self) -> Result<Traffic, KeyError> {
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

    fn missing(&self, key: &'static str) -> KeyError {
        KeyError {
            key: key.into(),
            why: format!("needed with kind = \"{}\"", self.kind.word()).into(),
        }
    }

    pub(super) fn bounds(&self, key: &'static str, bounds: &str) -> KeyError {
        KeyError {
            key: key.into(),
            why: format!("must be {bounds}").into(),
        }
    }

    fn payload_octets(&self, min: u64, default: u64) -> Result<u32, KeyError> {
        let octets = self.payload.map_or(default, |octets| octets.0);
        if (min..=PAYLOAD_MAX).contains(&octets) {
            Ok(octets as u32)
        } else {
            Err(self.bounds("payload", "between 4 B (udp; else 0 B) and 65000 B"))
        }
    }

    fn period(&self, default: Duration) -> Result<Duration, KeyError> {
        let period = self.period.map_or(default, |period| period.0);
        if period >= Duration::from_micros(1) {
            Ok(period)
        } else {
            Err(self.bounds("period", "at least 1 us"))
        }
    }

    fn turn(&self) -> Result<Option<Duration>, KeyError> {
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

    fn within(&self, key: &'static str, value: u32, max: u32) -> Result<u32, KeyError> {
        if (1..=max).contains(&value) {
            Ok(value)
        } else {
            Err(self.bounds(
                key,
                "at least 1 (objects at most 10000, connections at most 32)",
            ))
        }
    }

    fn tcp_options(&self, nagle: bool) -> Result<TcpOptions, KeyError> {
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
