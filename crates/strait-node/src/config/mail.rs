//! `[mail]` of a node file.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::units::{Octets, Time};
use strait_link::payload::Dictionary;
use strait_mail::command::{domain_of, is_address, is_domain};
use strait_mail::{
    HopSettings, Hours, LaneSettings, ListenSettings, Precedence, RouteSettings, Settings,
    TextFirst, UserSettings, Yields,
};
use strait_qos::Dscp;

use crate::Prefix;

use super::{HostKind, HostSides, InvalidConfig, MailListenerConfig, NodeConfig, invalid};

/// A message switch: mail comes by SMTP, waits on stable storage, and goes on by a connection for
/// each precedence, or into Maildirs.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MailConfig {
    /// Whether it is there at all.
    #[serde(default = "super::yes")]
    pub enabled: bool,
    /// Its name, as other switches see it; the node's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where mail programs bring mail, such as `127.0.0.1:2525`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<SocketAddr>,
    /// The same where TLS begins at once, such as `10.1.0.1:465`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listen_tls: Vec<SocketAddr>,
    /// Further addresses where they do, each with rules of its own.
    #[serde(default, rename = "listener", skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<MailListenerConfig>,
    /// A table `[tls.NAME]`: what programs have TLS by (STARTTLS at `listen`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// Who may bring mail; with any, programs log in, and only behind TLS.
    #[serde(default, rename = "user", skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<MailUserConfig>,
    /// Which programs may; those of this host if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Prefix>,
    /// Whether these may ask for a precedence above Priority.
    #[serde(default = "super::yes")]
    pub trust: bool,
    /// The precedence of what says nothing of one.
    #[serde(default)]
    pub default: Precedence,
    /// Addresses of this host where switches that routes lead to come, each precedence at its
    /// lane's port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<IpAddr>,
    /// Addresses whose mail stays here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mailboxes: Vec<String>,
    /// The folder of their Maildirs, each with the name of its address. Live only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maildir: Option<String>,
    /// The longest message.
    #[serde(default = "MailConfig::default_octets_max")]
    pub octets_max: Octets,
    /// The least time in which a message may be wanted to be there or return (DELIVERBY).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_by_min: Option<Time>,
    /// How long a message is known that a program brings once more, as it had no reply: a day if
    /// absent, never if zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Time>,
    /// Messages at a time.
    #[serde(default = "MailConfig::default_messages_max")]
    pub messages_max: usize,
    /// Where other mail goes; the first that has its domain counts.
    #[serde(default, rename = "route", skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<MailRouteConfig>,
    /// How precedences go, where that isn't as usual.
    #[serde(default, rename = "lane", skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<MailLaneConfig>,
}

/// Somebody who may bring mail.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MailUserConfig {
    /// The name.
    pub name: String,
    /// What `strait mail password` makes of the password.
    pub password: String,
    /// The highest precedence that it may ask for.
    #[serde(default = "MailConfig::default_most")]
    pub most: Precedence,
}

/// Where mail goes.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MailRouteConfig {
    /// Domains, those below them included; `"."` has all.
    pub domains: Vec<String>,
    /// The next hop.
    #[serde(flatten)]
    pub first: MailHopConfig,
    /// Who has its mail while that one is down or silent: the first that is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<MailHopConfig>,
    /// How long one may be down or silent before the next is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Time>,
    /// A message with attachments that is longer follows behind its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_first: Option<Octets>,
    /// The precedence by which it follows; Deferred if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Precedence>,
}

/// A next hop of a route.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MailHopConfig {
    /// Its address.
    pub to: IpAddr,
    /// Its only port, where it is no switch with lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// It is a server of mailboxes, and speaks LMTP.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub lmtp: bool,
    /// Connections at a time for a precedence whose queue grows, where the next hop waits for each
    /// answer (it has no PIPELINING, or no CHUNKING).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// It is told no more of a message's way than which switches took it, and when.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub thin_traces: bool,
    /// What has this precedence at most waits until the next hop asks for it (ETRN).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polled: Option<Precedence>,
    /// How often it is asked for what waits there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Time>,
    /// A table `[tls.NAME]` with whom to trust: nothing goes there without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// The name in its certificate; its address if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Who this switch says there that it is, behind TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// A file with the password for that, readable by its owner alone. Live only; simulated it is
    /// the right one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
}

/// How a precedence goes.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MailLaneConfig {
    /// Which.
    pub precedence: Precedence,
    /// The port that it goes to, and comes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The code point of its packets, both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// Whether its connections stay open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permanent: Option<bool>,
    /// When its messages are given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Time>,
    /// When one that is still here is an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<Time>,
    /// The longest message that programs bring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octets_max: Option<Octets>,
    /// When its messages go to other switches (UTC), such as `"22:00-04:30"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<MailHours>,
    /// How its messages give way to higher ones: `"pause"` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yields: Option<Yields>,
}

/// Some of each day, as it is written.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(try_from = "String", into = "String")]
pub struct MailHours(Hours);

impl TryFrom<String> for MailHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = |text: &str| {
            let (hours, minutes) = text.split_once(':')?;
            let number = |text: &str, below: u64| {
                let digits = text.len() == 2 && text.bytes().all(|it| it.is_ascii_digit());
                text.parse().ok().filter(|it: &u64| digits && *it < below)
            };
            Some(number(hours, 24)? * 3600 + number(minutes, 60)? * 60)
        };
        let both = text.split_once('-');
        let both = both.and_then(|(from, to)| Some((time(from)?, time(to)?)));
        let both = both.filter(|(from, to)| from != to);
        let (from, to) = both.ok_or_else(|| {
            format!("`{text}` is no part of the day: write it like \"22:00-04:30\", in UTC")
        })?;
        Ok(Self(Hours { from, to }))
    }
}

impl From<MailHours> for String {
    fn from(MailHours(hours): MailHours) -> Self {
        let time = |it: u64| format!("{:02}:{:02}", it / 3600, it / 60 % 60);
        format!("{}-{}", time(hours.from), time(hours.to))
    }
}

impl MailConfig {
    /// Sockets, prefixes, mailboxes, routes and domains, at most of each.
    pub const EACH_MAX: usize = 256;
    const OCTETS: core::ops::RangeInclusive<u64> = 10_000..=100_000_000;
    const BY_MIN_MAX: Duration = Duration::from_secs(86_400);
    const REPEATS: Duration = Duration::from_secs(86_400);
    const REPEATS_MAX: Duration = Duration::from_secs(30 * 86_400);
    const MESSAGES: core::ops::RangeInclusive<usize> = 16..=100_000;

    const fn default_octets_max() -> Octets {
        Octets(10_000_000)
    }

    const fn default_most() -> Precedence {
        Precedence::Priority
    }

    const fn default_messages_max() -> usize {
        10_000
    }

    /// All next hops, in the order of the routes.
    pub fn hops(&self) -> impl Iterator<Item = &MailHopConfig> + '_ {
        self.routes.iter().flat_map(MailRouteConfig::hops)
    }

    /// Lanes as they are if nothing else is said, the least precedence first: the class selectors
    /// of the preset `precedence`, which has the reason for AF21.
    fn lanes(&self) -> [LaneSettings; 6] {
        let usual = [
            (4999, Dscp::LE, false),
            (5000, Dscp::DF, false),
            (5001, Dscp::af(2, 1), true),
            (5002, Dscp::cs(2), true),
            (5003, Dscp::cs(3), true),
            (5004, Dscp::cs(4), true),
        ];
        let minutes = |it: u64| Some(Duration::from_secs(60 * it));
        let alarms = [None, None, None, minutes(30), minutes(5), minutes(5)];
        let mut lanes = core::array::from_fn(|at| {
            let (port, dscp, permanent): (_, Dscp, _) = usual[at];
            LaneSettings {
                port,
                dscp: dscp.number(),
                permanent,
                expiry: Precedence::ALL[at].expiry(),
                alarm: alarms[at],
                octets_max: u64::MAX,
                hours: None,
                yields: Yields::Pause,
            }
        });
        for lane in &self.lanes {
            let own = &mut lanes[lane.precedence.index()];
            own.port = lane.port.unwrap_or(own.port);
            own.dscp = lane.dscp.map_or(own.dscp, Dscp::number);
            own.permanent = lane.permanent.unwrap_or(own.permanent);
            own.expiry = lane.expiry.map_or(own.expiry, |it| it.0);
            own.alarm = lane.alarm.map_or(own.alarm, |it| Some(it.0));
            own.octets_max = lane.octets_max.map_or(own.octets_max, |it| it.0);
            own.hours = lane.hours.map(|it| it.0);
            own.yields = lane.yields.unwrap_or_default();
        }
        lanes
    }

    /// What a switch is told.
    pub(crate) fn settings(&self, node: &NodeConfig) -> Settings {
        let lanes = self.lanes();
        let partners = self.hops().filter(|it| it.port.is_none());
        let partners = partners.map(|it| Prefix {
            address: it.to,
            length: if it.to.is_ipv4() { 32 } else { 128 },
        });
        let partners: Vec<Prefix> = partners.collect();
        let by_lane = lanes.into_iter().zip(Precedence::ALL);
        let inbound = self.inbound.iter().flat_map(|address| {
            let partners = &partners;
            by_lane.clone().map(move |(lane, default)| ListenSettings {
                address: SocketAddr::new(*address, lane.port),
                dscp: lane.dscp,
                default,
                clients: partners.clone(),
                most: None,
                lane: true,
                tls: None,
                users: false,
            })
        });
        Settings {
            name: self.name.clone().unwrap_or_else(|| node.name.clone()),
            listeners: self.submission().into_iter().chain(inbound).collect(),
            mailboxes: self.mailboxes.clone(),
            maildir: self.maildir.clone().unwrap_or_default(),
            routes: self.routes.iter().map(MailRouteConfig::settings).collect(),
            lanes,
            octets_max: self.octets_max.0,
            by_min: self.deliver_by_min.map_or(0, |it| it.0.as_secs()),
            repeats: self.repeats.map_or(Self::REPEATS, |it| it.0),
            messages_max: self.messages_max,
            users: self.users.iter().map(MailUserConfig::settings).collect(),
            dictionary: Dictionary::built_in().octets().to_vec(),
        }
    }

    pub(super) fn validate(&self, node: &NodeConfig) -> Result<(), InvalidConfig> {
        if node.state.is_none() {
            let message = "needs the table [state] with a file: mail is stored before it is \
                           acknowledged";
            return Err(invalid("[mail]", message));
        }
        if node.host.all().all(|side| side.kind != HostKind::Tun) {
            let message =
                "needs a host side of kind \"tun\": its connections go by the host's kernel";
            return Err(invalid("[mail]", message));
        }
        let name = self.name.as_deref().unwrap_or(&node.name);
        if !is_domain(name) {
            let message = format!("`{name}` is no name of a host: write it like \"a.example\"");
            return Err(invalid("[mail] name", message));
        }
        let each = [
            self.listen.len(),
            self.clients.len(),
            self.inbound.len(),
            self.mailboxes.len(),
            self.routes.len(),
            self.lanes.len(),
            self.listen_tls.len(),
            self.listeners.len(),
            self.users.len(),
        ];
        if each.iter().any(|it| *it > Self::EACH_MAX) {
            let message = format!("has more than {} entries in a list", Self::EACH_MAX);
            return Err(invalid("[mail]", message));
        }
        self.validate_tls(node)?;
        if self.submission().is_empty() && self.inbound.is_empty() {
            let message = "needs `listen` for mail programs, or `inbound` for other switches";
            return Err(invalid("[mail]", message));
        }
        if !Self::OCTETS.contains(&self.octets_max.0) {
            return Err(invalid("[mail] octets_max", "must be 10 kB to 100 MB"));
        }
        if self
            .deliver_by_min
            .is_some_and(|it| it.0 > Self::BY_MIN_MAX)
        {
            return Err(invalid("[mail] deliver_by_min", "must be a day at most"));
        }
        if self.repeats.is_some_and(|it| it.0 > Self::REPEATS_MAX) {
            return Err(invalid(
                "[mail] repeats",
                "must be 30 days at most, or \"0 s\"",
            ));
        }
        if !Self::MESSAGES.contains(&self.messages_max) {
            return Err(invalid("[mail] messages_max", "must be 16 to 100000"));
        }
        self.validate_sockets(&node.host)?;
        self.validate_mailboxes()?;
        self.routes.iter().try_for_each(MailRouteConfig::validate)
    }

    fn validate_sockets(&self, hosts: &HostSides) -> Result<(), InvalidConfig> {
        self.validate_submission()?;
        let mut inbound = self.inbound.iter();
        if let Some(stray) = inbound.find(|it| !hosts.own().any(|own| own == **it)) {
            let message = format!("`{stray}` is none of [host] addresses");
            return Err(invalid("[mail] inbound", message));
        }
        let mut lanes = BTreeSet::new();
        for lane in &self.lanes {
            if !lanes.insert(lane.precedence) {
                let message = "a precedence is repeated";
                return Err(invalid("[[mail.lane]]", message));
            }
        }
        let mut ports = BTreeSet::new();
        for lane in self.lanes() {
            if lane.port == 0 || !ports.insert(lane.port) {
                let message = format!(
                    "port {} is 0 or another lane's: each precedence has its own",
                    lane.port
                );
                return Err(invalid("[[mail.lane]] port", message));
            }
        }
        Ok(())
    }

    fn validate_tls(&self, node: &NodeConfig) -> Result<(), InvalidConfig> {
        let shows = |name: &String| {
            node.tls
                .get(name)
                .is_some_and(|it| it.certificate.is_some())
        };
        if self.tls.as_ref().is_some_and(|it| !shows(it)) {
            let message = "must be the name of a table [tls.NAME] with a certificate";
            return Err(invalid("[mail] tls", message));
        }
        if self.tls.is_none() && !(self.listen_tls.is_empty() && self.users.is_empty()) {
            let message = "is needed by `listen_tls`, and by passwords of [[mail.user]]: write tls = \"NAME\"";
            return Err(invalid("[mail] tls", message));
        }
        let mut names = BTreeSet::new();
        for user in &self.users {
            if user.name.is_empty() || !names.insert(&user.name) {
                return Err(invalid("[[mail.user]] name", "is empty, or is repeated"));
            }
            if user.password.split('$').count() != 4 {
                let message = "takes the output of `strait mail password`, not the password itself";
                return Err(invalid(
                    format!("[[mail.user]] {} password", user.name),
                    message,
                ));
            }
        }
        let trusts = |name: &String| node.tls.get(name).is_some_and(|it| it.trust.is_some());
        if let Some(hop) = self
            .hops()
            .find(|it| it.tls.as_ref().is_some_and(|it| !trusts(it)))
        {
            let message = "must be the name of a table [tls.NAME] with `trust`";
            return Err(invalid(format!("[[mail.route]] {} tls", hop.to), message));
        }
        Ok(())
    }

    fn validate_mailboxes(&self) -> Result<(), InvalidConfig> {
        if !self.mailboxes.is_empty() && self.maildir.is_none() {
            let message = "needs `maildir`, the folder for their mail";
            return Err(invalid("[mail] mailboxes", message));
        }
        for address in &self.mailboxes {
            let fits = |it: u8| it.is_ascii_alphanumeric() || b"._+-@".contains(&it);
            let folder = address.bytes().all(fits) && !address.starts_with('.');
            if !is_address(address) || !folder || domain_of(address).is_empty() {
                let message = format!("`{address}` is no address such as \"ops@a.example\"");
                return Err(invalid("[mail] mailboxes", message));
            }
        }
        Ok(())
    }
}

impl MailUserConfig {
    /// Has nothing of the password any more, but reads as if.
    pub(super) fn conceal(&mut self) {
        self.password = "pbkdf2-sha256$1$x$x".into();
    }

    fn settings(&self) -> UserSettings {
        UserSettings {
            name: self.name.clone(),
            hash: self.password.clone(),
            most: self.most,
        }
    }
}

impl MailHopConfig {
    fn settings(&self) -> HopSettings {
        HopSettings {
            to: self.to,
            port: self.port,
            lmtp: self.lmtp,
            connections: self.connections.unwrap_or(1),
            thin: self.thin_traces,
            polled: self.polled,
            poll: self.poll.map(|it| it.0),
            tls: self.tls.clone().map(|profile| {
                let host = self.host.clone();
                (profile, host.unwrap_or_else(|| format!("{}", self.to)))
            }),
            login: self.login.clone().zip(self.password_file.clone()),
        }
    }

    const CONNECTIONS: core::ops::RangeInclusive<usize> = 1..=8;
    const POLL: core::ops::RangeInclusive<Duration> =
        Duration::from_secs(10)..=Duration::from_secs(7 * 86_400);

    /// Whether it is asked, or asks, as that can be done.
    fn validate_polls(&self) -> Result<(), &'static str> {
        let polls = self.polled.is_some() || self.poll.is_some();
        match self.poll {
            _ if polls && self.lmtp => {
                Err("has no polls: a server of mailboxes (`lmtp`) has no ETRN")
            }
            Some(every) if !Self::POLL.contains(&every.0) => {
                Err("takes a `poll` of 10 s to 7 days")
            }
            _ => Ok(()),
        }
    }

    /// Whether it says who this switch is as that can be said.
    fn validate_login(&self) -> Result<(), &'static str> {
        let alone = self.login.is_some() != self.password_file.is_some();
        match &self.login {
            _ if alone => Err("needs both `login` and `password_file`"),
            // PLAIN has a zero behind it.
            Some(name) if name.is_empty() || name.contains('\0') => Err("needs a name as `login`"),
            Some(_) if self.tls.is_none() => Err("needs `tls` for its `login`"),
            Some(_) if self.port.is_none() => {
                Err("needs `port` for its `login`: lanes between switches have none")
            }
            _ => Ok(()),
        }
    }
}

impl MailRouteConfig {
    /// Next hops of a route, and how long one may be away.
    const HOPS_MAX: usize = 8;
    const AFTER: Duration = Duration::from_secs(30);
    const TEXT_FIRST: core::ops::RangeInclusive<u64> = 1000..=100_000_000;
    const AFTER_MAX: Duration = Duration::from_secs(86_400);

    /// All its next hops, in order.
    pub fn hops(&self) -> impl Iterator<Item = &MailHopConfig> + '_ {
        core::iter::once(&self.first).chain(&self.next)
    }

    fn settings(&self) -> RouteSettings {
        RouteSettings {
            domains: self.domains.clone(),
            hops: self.hops().map(MailHopConfig::settings).collect(),
            patience: self.after.map_or(Self::AFTER, |it| it.0),
            text_first: self.text_first.map(|octets| TextFirst {
                octets: octets.0,
                rest: self.attachments.unwrap_or(Precedence::Deferred),
            }),
        }
    }

    fn validate(&self) -> Result<(), InvalidConfig> {
        let place = || format!("[[mail.route]] {}", self.first.to);
        let mut seen = BTreeSet::new();
        for hop in self.hops() {
            if hop.to.is_unspecified() || hop.to.is_multicast() || hop.port == Some(0) {
                let message = "takes a host's address, and a port from 1 on";
                return Err(invalid(place(), message));
            }
            let own = || format!("[[mail.route]] {}", hop.to);
            if hop.lmtp && hop.port.is_none() {
                return Err(invalid(own(), "needs `port` for its `lmtp`: such as 24"));
            }
            if hop.connections.is_some() && hop.port.is_none() {
                let message = "needs `port` for its `connections`: lanes have one each";
                return Err(invalid(own(), message));
            }
            let connections = hop.connections.unwrap_or(1);
            if !MailHopConfig::CONNECTIONS.contains(&connections) {
                return Err(invalid(own(), "takes 1 to 8 `connections`"));
            }
            hop.validate_polls().map_err(|why| invalid(own(), why))?;
            let login = hop.validate_login();
            login.map_err(|why| invalid(format!("[[mail.route]] {}", hop.to), why))?;
            if !seen.insert(hop.to) {
                let message = format!("`{}` is repeated: each next hop has its own", hop.to);
                return Err(invalid(place(), message));
            }
        }
        if seen.len() > Self::HOPS_MAX {
            return Err(invalid(place(), "takes 8 next hops at most"));
        }
        if self.after.is_some_and(|it| it.0 > Self::AFTER_MAX) {
            return Err(invalid(
                format!("{} after", place()),
                "must be a day at most",
            ));
        }
        if self.after.is_some() && self.next.is_empty() {
            let message = "needs a [[mail.route.next]], to try after this time";
            return Err(invalid(format!("{} after", place()), message));
        }
        if self
            .text_first
            .is_some_and(|it| !Self::TEXT_FIRST.contains(&it.0))
        {
            let message = "must be 1 kB to 100 MB";
            return Err(invalid(format!("{} text_first", place()), message));
        }
        if self.attachments.is_some() && self.text_first.is_none() {
            let message = "needs `text_first`";
            return Err(invalid(format!("{} attachments", place()), message));
        }
        let right = |it: &String| it == "." || is_domain(it);
        if self.domains.is_empty()
            || self.domains.len() > MailConfig::EACH_MAX
            || !self.domains.iter().all(right)
        {
            let message = "takes 1 to 256 `domains` such as \"b.example\", or \".\" for all";
            return Err(invalid(place(), message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_text::{complaint_about, parse};

    fn text(mail: &str) -> String {
        let host = "[host]\naddresses = [\"10.9.0.1/30\"]\n[state]\nfile = \"a.db\"";
        let port = "[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600";
        format!("name = \"a\"\n{host}\n{port}\n[mail]\n{mail}\n")
    }

    #[test]
    fn lanes_have_a_port_and_a_code_point_each_and_admit_partners_alone() {
        let mail = "listen = [\"127.0.0.1:2525\"]\ninbound = [\"10.9.0.1\"]\n\
                    [[mail.route]]\ndomains = [\"b.example\"]\nto = \"10.9.0.2\"\n\
                    [[mail.route]]\ndomains = [\".\"]\nto = \"10.1.0.25\"\nport = 25\nafter = \"5 s\"\n\
                    [[mail.route.next]]\nto = \"10.9.0.6\"\n\
                    [[mail.lane]]\nprecedence = \"priority\"\ndscp = \"CS1\"\npermanent = false\n\
                    octets_max = \"50 kB\"\nexpiry = \"1 h\"\nalarm = \"10 s\"\nhours = \"22:00-04:30\"";
        let config: NodeConfig = parse("test", &text(mail)).unwrap();
        let settings = config.mail.as_ref().unwrap().settings(&config);
        let marks = settings.lanes.map(|it| (it.port, it.dscp, it.permanent));
        assert_eq!(marks[4], (5003, 24, true));
        assert_eq!(marks[2], (5001, 8, false));
        let own = settings.lanes[2];
        assert_eq!(
            (own.octets_max, own.expiry),
            (50_000, Duration::from_secs(3600))
        );
        assert_eq!(own.alarm, Some(Duration::from_secs(10)));
        let (from, to) = (22 * 3600, 4 * 3600 + 1800);
        assert_eq!(own.hours, Some(Hours { from, to }));
        let written: NodeConfig = parse("again", &toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(written, config);
        assert_eq!(settings.listeners.len(), 7);
        let flash = &settings.listeners[5];
        assert_eq!((flash.address.port(), flash.dscp), (5003, 24));
        let admits = |ip: &str| {
            flash
                .clients
                .iter()
                .any(|it| it.contains(ip.parse().unwrap()))
        };
        assert!(admits("10.9.0.2") && admits("10.9.0.6") && !admits("10.1.0.25"));
        let [first, second] = &settings.routes[..] else {
            panic!("{:?}", settings.routes);
        };
        let times = (first.patience, second.patience);
        assert_eq!(times, (Duration::from_secs(30), Duration::from_secs(5)));
        assert_eq!((first.hops.len(), second.hops[1].port), (1, None));
        let submission = &settings.listeners[0];
        assert!(submission.clients[1].contains("::1".parse().unwrap()));
    }

    /// Switches with another dictionary don't understand each other: it has another version.
    #[test]
    fn a_version_of_packed_texts_has_its_dictionary() {
        let dictionary = Dictionary::built_in().digest();
        assert_eq!((strait_mail::pack::VERSION, dictionary), ("1", 0x63eff142));
    }

    #[test]
    fn what_cannot_work_is_named_with_its_remedy() {
        let at = "listen = [\"127.0.0.1:2525\"]";
        let route = |rest: &str| format!("{at}\n[[mail.route]]\n{rest}");
        let next = |rest: &str| {
            let first = "domains = [\".\"]\nto = \"10.9.0.2\"";
            route(&format!("{first}\n[[mail.route.next]]\n{rest}"))
        };
        let secured =
            format!("{at}\ntls = \"x\"\n[tls.x]\ncertificate = \"c\"\nkey = \"k\"\n[mail]")
                .replace("\n[mail]", "");
        let trusting = "\n[tls.x]\ntrust = \"t\"";
        for (wrong, word) in [
            (String::new(), "[mail]: needs `listen`"),
            ("listen = [\"0.0.0.0:25\"]".into(), "[mail] listen: takes"),
            ("inbound = [\"10.9.0.2\"]".into(), "`10.9.0.2` is none"),
            (format!("{at}\nname = \"a b\""), "`a b` is no name"),
            (format!("{at}\nmailboxes = [\"ops@a\"]"), "needs `maildir`"),
            (
                format!("{at}\nmaildir = \"m\"\nmailboxes = [\"../x@a\"]"),
                "`../x@a` is no address",
            ),
            (format!("{at}\noctets_max = \"9 kB\""), "[mail] octets_max"),
            (format!("{at}\nmessages_max = 3"), "[mail] messages_max"),
            (
                format!("{at}\ndeliver_by_min = \"48 h\""),
                "[mail] deliver_by_min",
            ),
            (
                format!("{at}\nrepeats = \"721 h\""),
                "[mail] repeats: must be",
            ),
            (route("domains = []\nto = \"10.9.0.2\""), "1 to 256"),
            (route("domains = [\"a..b\"]\nto = \"10.9.0.2\""), "1 to 256"),
            (
                route("domains = [\".\"]\nto = \"0.0.0.0\""),
                "a host's address",
            ),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\nafter = \"1 s\""),
                "10.9.0.2 after: needs a [[mail.route.next]]",
            ),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\nlogin = \"a\""),
                "10.9.0.2: needs both `login`",
            ),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\npassword_file = \"f\""),
                "10.9.0.2: needs both `login`",
            ),
            (
                next("to = \"10.9.0.3\"\nport = 25\nlogin = \"a\"\npassword_file = \"f\""),
                "10.9.0.3: needs `tls` for its `login`",
            ),
            (
                next("to = \"10.9.0.3\"\ntls = \"x\"\nlogin = \"a\"\npassword_file = \"f\"")
                    + trusting,
                "10.9.0.3: needs `port` for its `login`",
            ),
            (
                next(
                    "to = \"10.9.0.3\"\nport = 25\ntls = \"x\"\nlogin = \"a\\u0000\"\npassword_file = \"f\"",
                ) + trusting,
                "10.9.0.3: needs a name as `login`",
            ),
            (
                next("to = \"10.9.0.3\"\nlmtp = true"),
                "10.9.0.3: needs `port` for its `lmtp`",
            ),
            (
                next("to = \"10.9.0.3\"\nconnections = 2"),
                "10.9.0.3: needs `port` for its `connections`",
            ),
            (
                next("to = \"10.9.0.3\"\nport = 25\nconnections = 9"),
                "10.9.0.3: takes 1 to 8 `connections`",
            ),
            (
                next("to = \"10.9.0.3\"\nport = 24\nlmtp = true\npolled = \"routine\""),
                "10.9.0.3: has no polls",
            ),
            (
                next("to = \"10.9.0.3\"\npoll = \"9 s\""),
                "10.9.0.3: takes a `poll` of 10 s",
            ),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\ntext_first = \"999 B\""),
                "10.9.0.2 text_first: must be 1 kB",
            ),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\nattachments = \"routine\""),
                "10.9.0.2 attachments: needs `text_first`",
            ),
            (next("to = \"10.9.0.2\""), "`10.9.0.2` is repeated"),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\nhosts = \"b\""),
                "unknown key `hosts` in [[mail.route]]",
            ),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\nport = \"smtp\""),
                "invalid type: string",
            ),
            (next("to = \"10.9.0.3\"\nport = 0"), "a port from 1 on"),
            (
                next("to = \"10.9.0.3\"\ntls = \"x\""),
                "[[mail.route]] 10.9.0.3 tls",
            ),
            (
                next("to = \"10.9.0.3\"").replace(
                    "[[mail.route.next]]",
                    "after = \"48 h\"\n[[mail.route.next]]",
                ),
                "a day at most",
            ),
            (
                format!("{at}\n[[mail.lane]]\nprecedence = \"flash\"\nport = 5000"),
                "another lane's",
            ),
            (
                format!("{at}\n[[mail.lane]]\nprecedence = \"urgent\""),
                "urgent",
            ),
            (
                format!("{at}\n[[mail.lane]]\nprecedence = \"flash\"\nhours = \"22:00-24:00\""),
                "`22:00-24:00` is no part of the day",
            ),
            (format!("{at}\ntls = \"x\""), "[mail] tls: must be"),
            (
                "listen_tls = [\"127.0.0.1:465\"]".into(),
                "[mail] tls: is needed",
            ),
            (
                format!("{at}\n[[mail.user]]\nname = \"a\"\npassword = \"secret\""),
                "[mail] tls: is needed",
            ),
            (
                format!("{secured}\n[[mail.user]]\nname = \"a\"\npassword = \"secret\""),
                "not the password itself",
            ),
            (
                route("domains = [\".\"]\nto = \"10.9.0.2\"\ntls = \"x\""),
                "with `trust`",
            ),
        ] {
            let found = complaint_about(&text(&wrong)).unwrap_or_default();
            assert!(found.contains(word), "{wrong}: {found}");
        }
        let right = format!("{at}\nmaildir = \"m\"\nmailboxes = [\"ops@a.example\"]");
        assert_eq!(complaint_about(&text(&right)), None);
        let stateless = text(&right).replace("[state]\nfile = \"a.db\"\n", "");
        assert!(complaint_about(&stateless).unwrap().contains("[state]"));
    }
}
