//! The programs that make a traffic on its two hosts.

mod bulk;
mod chatter;
mod dns;
mod echo;
mod flow;
mod http;
mod mail;
mod mail_server;
mod measured;
mod mgen;
mod page_client;
mod page_server;
mod pair;
mod ping;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use strait_core::chance::Stream;
use strait_core::time::nanos;
use strait_core::{Duration, Instant};
use strait_mail::Client;
use strait_mail::client::Letter;
use strait_mail::command::Body;
use strait_mail::message::Recipient;
use strait_traffic::measure::Campaign;
use strait_traffic::mgen::Protocol;
use strait_traffic::pair::PairCampaign;
use strait_traffic::{
    Content, DNS_LIFE_S, DNS_PORT, FlowLog, LookUps, MgenTraffic, Ports, Side, Site, TcpOptions,
    Traffic, TrafficConfig, association, host_name, mail_text, object_octets, source_ports,
};

use self::bulk::{BulkReceiver, BulkSender};
use self::chatter::{ChatterSource, Speaker};
use self::dns::{Aim, LookUp, Lookups, NameServer, Named};
use self::echo::{EchoAsker, EchoCaller, Safety};
use self::flow::{Datagrams, Form, Pace};
use self::mail::MailCaller;
use self::mail_server::MailServer;
use self::measured::{MeasureClient, MeasureServer};
use self::mgen::{MgenReceiver, MgenSender};
use self::page_client::{PageClient, Place, Task};
use self::page_server::PageServer;
use self::pair::{PairProber, PairReceiver};
use self::ping::Ping;
use crate::host::{Application, Host, Stack};

/// Why a traffic can't be installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// Another application has its port.
    #[error("traffic `{traffic}`: port {port} of host `{host}` is in use")]
    PortInUse {
        /// Which traffic.
        traffic: String,
        /// On which host.
        host: String,
        /// Which port or echo identifier.
        port: u16,
    },
}

/// When a traffic begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: Instant,
    stop: Instant,
}

/// Puts the applications of a traffic on its two hosts. Random streams are named by traffic and
/// incarnation, so that adding another traffic changes nothing.
///
/// # Errors
/// [`InstallError`] if a port is taken; then nothing will be sent.
pub fn install(
    config: &TrafficConfig,
    from: &mut Host,
    to: &mut Host,
    from_addr: IpAddr,
    to_addr: IpAddr,
    ports: Ports,
    seed: u64,
) -> Result<(), InstallError> {
    let ends = (
        SocketAddr::new(from_addr, ports.from),
        SocketAddr::new(to_addr, ports.to),
    );
    let job = Job {
        config,
        from,
        to,
        ends,
        ports,
        seed,
        span: span(config, seed),
    };
    match config.what.clone() {
        Traffic::Voice {
            payload_octets,
            period,
            both_ways,
            turn,
        } => {
            let period_ns = nanos(period);
            let paces = match turn.map(|turn| nanos(turn) / period_ns.max(1)) {
                None => [Pace::Every(period_ns); 2],
                Some(turn) => [0, turn].map(|skip| Pace::Turns {
                    period_ns,
                    turn,
                    skip,
                }),
            };
            let back = both_ways.then_some(paces[1]);
            job.datagrams(Form::Voice, payload_octets, paces[0], back)
        }
        Traffic::Udp {
            payload_octets,
            rate_bit_s,
            poisson,
        } => {
            let bits = u64::from(payload_octets) * 8;
            let pace = if poisson {
                Pace::Poisson { bits, rate_bit_s }
            } else {
                Pace::Rate { bits, rate_bit_s }
            };
            job.datagrams(Form::Plain, payload_octets, pace, None)
        }
        Traffic::Esp {
            payload_octets,
            rate_bit_s,
        } => {
            let bits = u64::from(payload_octets) * 8;
            let form = Form::Esp(association(ports));
            job.datagrams(form, payload_octets, Pace::Rate { bits, rate_bit_s }, None)
        }
        Traffic::Ping {
            payload_octets,
            period,
            count,
        } => job.ping(payload_octets, period, count),
        Traffic::Dns {
            period,
            count,
            manner,
        } => job.lookups(period, count, manner),
        Traffic::Tcp { octets, options } => job.bulk(octets, &options),
        Traffic::Measured {
            campaign, options, ..
        } => job.measured(&campaign, &options),
        Traffic::Page {
            objects,
            octets,
            connections,
            site,
            options,
        } => job.page((objects, octets), connections, site, &options),
        Traffic::Mgen(traffic) => job.mgen(&traffic),
        Traffic::Chatter { period } => job.chatter(Speaker::Computer, period),
        Traffic::Hello { period } => job.chatter(Speaker::Router, period),
        Traffic::Pair(campaign) => job.pairs(&campaign),
        // Its other end is no host.
        Traffic::EchoStream { .. } | Traffic::EchoDatagrams { .. } | Traffic::Mail { .. } => Ok(()),
    }
}

/// Puts an echo's traffic on its host: `from_addr` is the host's, `service` the echo
/// service's.
///
/// # Errors
/// As for [`install()`].
pub fn install_echo(
    config: &TrafficConfig,
    from: &mut Host,
    (from_addr, service): (IpAddr, SocketAddr),
    ports: Ports,
    seed: u64,
) -> Result<(), InstallError> {
    let log = FlowLog::new(&config.name, Side::From);
    let ends = (SocketAddr::new(from_addr, ports.from), service);
    let span = span(config, seed);
    match config.what.clone() {
        Traffic::EchoStream {
            octets,
            options,
            tls,
        } => {
            let mut caller = EchoCaller {
                log,
                ends,
                start: Some(span.start),
                octets,
                content: [config.content(seed), config.content(seed)],
                options,
                connection: None,
                taken: 0,
                chunk: Vec::new(),
                tls,
                safety: Safety::Clear,
            };
            caller.log.transfer();
            from.install(|_| caller);
            Ok(())
        }
        Traffic::EchoDatagrams {
            payload_octets,
            period,
            count,
        } => {
            let asker = EchoAsker {
                log,
                ends,
                dscp: config.dscp.number(),
                payload_octets,
                period_ns: nanos(period),
                count: count.unwrap_or(u64::MAX),
                span,
                content: config.content(seed),
                sent: 0,
            };
            let mut bound = true;
            from.install(|stack| {
                bound = stack.bind_udp(ports.from);
                asker
            });
            let taken = InstallError::PortInUse {
                traffic: config.name.clone(),
                host: from.name().into(),
                port: ports.from,
            };
            if bound { Ok(()) } else { Err(taken) }
        }
        _ => Ok(()),
    }
}

/// Puts a traffic of mail on its host: `from_addr` is the host's, `switch` that of the gateway that
/// it brings its message to, which is from the first of `addresses` to the second.
pub fn install_mail(
    config: &TrafficConfig,
    from: &mut Host,
    (from_addr, switch): (IpAddr, SocketAddr),
    [sender, recipient]: [&str; 2],
    ports: Ports,
    seed: u64,
) {
    let Traffic::Mail {
        octets,
        priority,
        options,
        ..
    } = config.what.clone()
    else {
        return;
    };
    let text = mail_text(config, seed, octets);
    let letter = Letter {
        id: 1,
        sender: sender.into(),
        wire: priority,
        octets: text.len() as u64,
        body: if config.is_binary_mail() {
            Body::Binary
        } else {
            Body::SevenBit
        },
        recipients: vec![Recipient {
            address: recipient.into(),
            ..Recipient::default()
        }],
        ..Letter::default()
    };
    let mut caller = MailCaller {
        log: FlowLog::new(&config.name, Side::From),
        ends: (SocketAddr::new(from_addr, ports.from), switch),
        start: Some(span(config, seed).start),
        options,
        letter,
        text,
        client: Client::new("mua.example"),
        connection: None,
        out: Vec::new(),
    };
    caller.log.transfer();
    from.install(|_| caller);
}

/// Puts a server of mailboxes for this and other traffics on a host: at a port, by LMTP or SMTP,
/// with the parts of addresses before the `@` and how long a message takes to be stored there.
/// Nothing if it is there already.
///
/// # Errors
/// [`InstallError`] if another application has the port.
pub fn install_mail_server(
    config: &TrafficConfig,
    host: &mut Host,
    (port, lmtp): (u16, bool),
    boxes: &[(String, Duration)],
) -> Result<(), InstallError> {
    let Traffic::Mail { options, .. } = &config.what else {
        return Ok(());
    };
    let log = FlowLog::new(MAIL_SERVER, Side::To);
    if host.logs().any(|it| it.traffic == log.traffic) {
        return Ok(());
    }
    let taken = InstallError::PortInUse {
        traffic: config.name.clone(),
        host: host.name().into(),
        port,
    };
    let boxes = boxes.iter().cloned().collect();
    let mut bound = true;
    host.install(|stack| {
        let dscp = 0;
        bound = stack.listen(
            port,
            TcpOptions {
                dscp,
                ..options.clone()
            },
        );
        MailServer::new(log, lmtp, boxes)
    });
    if bound { Ok(()) } else { Err(taken) }
}

/// No traffic's name: these have no spaces.
const MAIL_SERVER: &str = "mail server";

fn span(config: &TrafficConfig, seed: u64) -> Span {
    Span {
        start: Instant::ZERO + config.begins(seed),
        stop: config
            .stop
            .map_or(Instant::NEVER, |stop| Instant::ZERO + stop.0),
    }
}

struct Job<'a> {
    config: &'a TrafficConfig,
    from: &'a mut Host,
    to: &'a mut Host,
    ends: (SocketAddr, SocketAddr),
    ports: Ports,
    seed: u64,
    span: Span,
}

/// Of a traffic's ports, the one by which it looks up a name.
const NAME_PORT: u16 = 63;

impl Job<'_> {
    /// Installs what begins, which may look up the other host's name before: then that answers for
    /// it, beside other names. Whether it has its ports.
    fn install(&mut self, app: impl Aim + 'static, bind: impl FnOnce(&mut Stack) -> bool) -> bool {
        let mut bound = true;
        let Some(look_up) = self.look_up(host_name(self.ports), Some(self.span.start)) else {
            self.from.install(|stack| {
                bound = bind(stack);
                app
            });
            return bound;
        };
        let named = Named { app, look_up };
        let port = self.name_port();
        self.from.install(|stack| {
            bound = bind(stack) && stack.bind_udp(port);
            named
        });
        self.answer_names();
        bound
    }

    const fn name_port(&self) -> u16 {
        self.ends.0.port() + NAME_PORT
    }

    /// The look-up of a name that begins then, if names are looked up.
    fn look_up(&self, name: String, asks: Option<Instant>) -> Option<LookUp> {
        let asked = self.config.resolver?;
        let own = SocketAddr::new(self.ends.0.ip(), self.name_port());
        Some(LookUp::new(
            name,
            (own, SocketAddr::new(asked, DNS_PORT)),
            asks,
        ))
    }

    /// Installs a server of names on the other host; one for all names is enough.
    fn answer_names(&mut self) {
        let server = NameServer {
            log: FlowLog::new(format!("{}.names", self.config.name), Side::To),
            own: SocketAddr::new(self.ends.1.ip(), DNS_PORT),
            dscp: 0,
            life_s: DNS_LIFE_S,
        };
        self.to.install(|stack| {
            stack.bind_udp(DNS_PORT);
            server
        });
    }

    fn log(&self, side: Side) -> FlowLog {
        FlowLog::new(&self.config.name, side)
    }

    /// The random stream `what` of this traffic on a host.
    fn stream(&self, host: &Host, what: &str) -> Stream {
        let name = format!("traffic.{}.{}.{what}", self.config.name, host.incarnation());
        Stream::new(self.seed, &name)
    }

    fn content(&self) -> Content {
        self.config.content(self.seed)
    }

    fn taken(&self, host: &Host, port: u16) -> InstallError {
        InstallError::PortInUse {
            traffic: self.config.name.clone(),
            host: host.name().into(),
            port,
        }
    }

    fn datagrams(
        mut self,
        form: Form,
        payload_octets: u32,
        pace: Pace,
        back: Option<Pace>,
    ) -> Result<(), InstallError> {
        // ESP has no ports.
        let lone = |socket: SocketAddr| match form {
            Form::Esp(_) => SocketAddr::new(socket.ip(), 0),
            _ => socket,
        };
        let (near, far) = (lone(self.ends.0), lone(self.ends.1));
        let bind = |stack: &mut Stack, port| match form {
            Form::Esp(index) => stack.bind_esp(index),
            _ => stack.bind_udp(port),
        };
        let end = |side, host: &Host, local, remote, pace| Datagrams {
            log: self.log(side),
            form,
            pace,
            span: self.span,
            ends: (local, remote),
            dscp: self.config.dscp.number(),
            payload_octets,
            content: self.content(),
            gaps: self.stream(host, "gaps"),
            sent: 0,
            next: Instant::NEVER,
            highest: 0,
        };
        let mut first = end(Side::From, self.from, near, far, Some(pace));
        let mut second = end(Side::To, self.to, far, near, back);
        first.begin();
        second.begin();
        let mut bound = [true; 2];
        bound[0] = self.install(first, |stack| bind(stack, near.port()));
        self.to.install(|stack| {
            bound[1] = bind(stack, far.port());
            second
        });
        match bound {
            [false, _] => Err(self.taken(self.from, near.port())),
            [_, false] => Err(self.taken(self.to, far.port())),
            [true, true] => Ok(()),
        }
    }

    fn ping(
        mut self,
        payload_octets: u32,
        period: Duration,
        count: Option<u64>,
    ) -> Result<(), InstallError> {
        let ident = self.ends.0.port();
        let ping = Ping {
            log: self.log(Side::From),
            ends: (self.ends.0.ip(), self.ends.1.ip()),
            ident,
            dscp: self.config.dscp.number(),
            payload_octets,
            period_ns: nanos(period),
            count: count.unwrap_or(u64::MAX),
            span: self.span,
            content: self.content(),
            sent: 0,
        };
        if self.install(ping, |stack| stack.bind_echo(ident)) {
            Ok(())
        } else {
            Err(self.taken(self.from, ident))
        }
    }

    fn lookups(
        self,
        period: Duration,
        count: Option<u64>,
        manner: LookUps,
    ) -> Result<(), InstallError> {
        let near = self.ends.0;
        let far = SocketAddr::new(self.ends.1.ip(), DNS_PORT);
        let asked = manner
            .resolver
            .map_or(far, |ip| SocketAddr::new(ip, DNS_PORT));
        let life_s = manner.life_s;
        let lookups = Lookups {
            log: self.log(Side::From),
            ends: (near, asked),
            dscp: self.config.dscp.number(),
            period_ns: nanos(period),
            count: count.unwrap_or(u64::MAX),
            span: self.span,
            sent: 0,
            manner,
            open: BTreeMap::new(),
        };
        let server = NameServer {
            log: self.log(Side::To),
            own: far,
            dscp: self.config.dscp.number(),
            life_s,
        };
        let mut bound = [true; 2];
        self.from.install(|stack| {
            bound[0] = stack.bind_udp(near.port());
            lookups
        });
        self.to.install(|stack| {
            bound[1] = stack.bind_udp(DNS_PORT);
            server
        });
        match bound {
            [false, _] => Err(self.taken(self.from, near.port())),
            [_, false] => Err(self.taken(self.to, DNS_PORT)),
            [true, true] => Ok(()),
        }
    }

    fn chatter(self, speaker: Speaker, period: Duration) -> Result<(), InstallError> {
        let near = self.ends.0;
        let source = ChatterSource {
            log: self.log(Side::From),
            speaker,
            from: near,
            family: self.config.family,
            period,
            span: self.span,
            next: self.span.start,
        };
        let mut bound = true;
        self.from.install(|stack| {
            bound = stack.bind_udp(near.port());
            source
        });
        if bound {
            Ok(())
        } else {
            Err(self.taken(self.from, near.port()))
        }
    }

    fn bulk(self, octets: u64, options: &TcpOptions) -> Result<(), InstallError> {
        let sender = BulkSender::new(
            self.log(Side::From),
            self.ends,
            self.span.start,
            octets,
            self.content(),
            options,
        );
        let receiver = BulkReceiver::new(self.log(Side::To), octets, self.content());
        self.from.install(|_| sender);
        self.listen(options, receiver)
    }

    /// Installs what answers connections to the far end.
    fn listen(
        self,
        options: &TcpOptions,
        app: impl Application + 'static,
    ) -> Result<(), InstallError> {
        let port = self.ends.1.port();
        let mut bound = true;
        self.to.install(|stack| {
            bound = stack.listen(port, options.clone());
            app
        });
        if bound {
            Ok(())
        } else {
            Err(self.taken(self.to, port))
        }
    }

    fn mgen(self, traffic: &MgenTraffic) -> Result<(), InstallError> {
        let ports = source_ports(&traffic.script, self.ends.0.port());
        let name = format!("traffic.{}.{}", self.config.name, self.from.incarnation());
        let sender = MgenSender::new(
            self.log(Side::From),
            traffic,
            (self.span.start, self.span.stop),
            (self.seed, &name),
            self.config.dscp.number(),
            (self.from.addresses().to_vec(), ports.clone()),
        );
        let receiver = MgenReceiver::new(self.log(Side::To));
        let mut taken = None;
        self.from.install(|stack| {
            let mut bound = ports.values().map(|port| (*port, stack.bind_udp(*port)));
            taken = bound.find(|(_, bound)| !bound).map(|(port, _)| port);
            sender
        });
        if let Some(port) = taken {
            return Err(self.taken(self.from, port));
        }
        self.to.install(|stack| {
            let mut bound = traffic
                .script
                .destinations()
                .into_iter()
                .map(|(protocol, dst)| {
                    let bound = match protocol {
                        Protocol::Tcp => stack.listen(dst.port(), traffic.options.clone()),
                        Protocol::Udp | Protocol::Sink => stack.bind_udp(dst.port()),
                    };
                    (dst.port(), bound)
                });
            taken = bound.find(|(_, bound)| !bound).map(|(port, _)| port);
            receiver
        });
        match taken {
            Some(port) => Err(self.taken(self.to, port)),
            None => Ok(()),
        }
    }

    fn measured(self, campaign: &Campaign, options: &TcpOptions) -> Result<(), InstallError> {
        let client = MeasureClient::new(
            self.log(Side::From),
            self.ends,
            self.span.start,
            campaign.plans(),
            options,
        );
        let server = MeasureServer::new(self.log(Side::To), options);
        self.from.install(|_| client);
        self.listen(options, server)
    }

    fn pairs(self, campaign: &PairCampaign) -> Result<(), InstallError> {
        let (near, far) = self.ends;
        let campaign = PairCampaign {
            seed: self.seed.wrapping_add(campaign.seed),
            ..campaign.clone()
        };
        let (begin, dscp) = (self.span.start, self.config.dscp.number());
        let prober = PairProber::new(self.log(Side::From), self.ends, dscp, &campaign, begin);
        let receiver = PairReceiver::new(self.log(Side::To), far, dscp);
        let mut bound = [true; 2];
        self.from.install(|stack| {
            bound[0] = stack.bind_udp(near.port());
            prober
        });
        self.to.install(|stack| {
            bound[1] = stack.bind_udp(far.port());
            receiver
        });
        match bound {
            [false, _] => Err(self.taken(self.from, near.port())),
            [_, false] => Err(self.taken(self.to, far.port())),
            [true, true] => Ok(()),
        }
    }

    fn page(
        mut self,
        (objects, octets): (u32, u64),
        connections: u32,
        site: Site,
        options: &TcpOptions,
    ) -> Result<(), InstallError> {
        let named = self.config.resolver.is_some();
        // Who asks somebody else for a connection gives him the name.
        let looks_up = named && site.via.is_none();
        let task = Task {
            start: self.span.start,
            sizes: object_octets(objects, octets),
            connections,
            site,
            options: options.clone(),
            content: self.content(),
            from: self.ends.0,
            to_port: self.ends.1.port(),
            by_name: named,
        };
        let known = (!looks_up).then(|| self.ends.1.ip());
        let places = (0..site.hosts as usize).map(|host| {
            let name = site.name(host, self.ports);
            let look_up = self.look_up(name.clone(), None).filter(|_| looks_up);
            Place::new(name, known, look_up)
        });
        let client = PageClient::new(self.log(Side::From), task, places.collect());
        let server = PageServer::new(self.log(Side::To), self.content(), site.tls);
        let port = self.name_port();
        let mut bound = true;
        self.from.install(|stack| {
            bound = !looks_up || stack.bind_udp(port);
            client
        });
        if !bound {
            return Err(self.taken(self.from, port));
        }
        if named {
            self.answer_names();
        }
        self.listen(options, server)
    }
}

#[cfg(test)]
mod tests;
