//! The scenario's traffic, made by real programs in the hosts' namespaces.

mod call;
mod chatter;
mod curl;
mod dig;
mod echo;
mod esp;
mod mail;
mod measured;
mod mgen;
mod named;
mod page;
mod pairs;
mod ping;
mod rate;
mod script;
mod tls;
mod web;

use std::net::{IpAddr, SocketAddr};

use strait_core::time::{Duration, Instant};
use strait_live::kernel::namespace::Namespace;
use strait_scenario::topology::{Role, Topology};
use strait_scenario::{Loaded, echo_service, post, with_resolver};
use strait_traffic::{Family, FlowLog, FlowReport, Ports, Side, Traffic, TrafficConfig, report};

use self::call::Call;
use self::chatter::Chatter;
use self::curl::Curl;
use self::dig::Dig;
use self::echo::Echo;
use self::esp::Esp;
use self::mail::Mail;
pub(crate) use self::mail::maildir;
use self::measured::Measured;
use self::mgen::Mgen;
use self::page::Page;
use self::pairs::Pairs;
use self::ping::Ping;
use self::rate::Rate;
use self::script::Script;
use crate::ground::process::Running;

use crate::{LabError, Stage};

/// A traffic and the place of its two ends.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) config: TrafficConfig,
    pub(crate) traffic: Traffic,
    /// Indices of the hosts, the beginning one first.
    pub(crate) hosts: [usize; 2],
    /// The gateways that these are behind.
    pub(crate) gateways: [String; 2],
    /// Their addresses, with a port for each.
    pub(crate) ends: [SocketAddr; 2],
    /// When it begins, since the beginning of the run.
    pub(crate) start: Duration,
    /// When nothing new is sent any more.
    pub(crate) stop: Duration,
}

/// A traffic's programs.
pub(crate) trait Program {
    /// Starts what has to wait for the beginning.
    fn prepare(&mut self, _stage: &Stage<'_>, _flow: &Flow) -> Result<(), LabError> {
        Ok(())
    }

    /// Whether that is waiting by now.
    fn is_prepared(&self, _stage: &Stage<'_>, _flow: &Flow) -> Result<bool, LabError> {
        Ok(true)
    }

    /// How long before its time it is to be started, because it keeps the time itself.
    fn lead(&self) -> Duration {
        Duration::ZERO
    }

    /// Starts it.
    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError>;

    /// What runs on the host that begins, if it comes to an end by itself.
    fn client(&self) -> Option<&Running> {
        None
    }

    /// Whether it has come to an end by itself.
    fn is_over(&self, _stage: &Stage<'_>, _flow: &Flow) -> bool {
        self.client().and_then(Running::ended).is_some()
    }

    /// Asks it to come to an end and to say what it has seen.
    fn finish(&mut self);

    /// What it saw, after it and the gateways have ended.
    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected;

    /// A log of each end, if the packets' ways are to be shown.
    fn logs(&self, _stage: &Stage<'_>, _flow: &Flow) -> Option<[FlowLog; 2]> {
        None
    }
}

/// What a traffic's programs saw.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) reports: Vec<FlowReport>,
    /// For ping: when each answered request was sent, and its answer came, in s of the run.
    pub(crate) answers: Vec<(f64, f64)>,
    /// Why something is missing.
    pub(crate) notes: Vec<String>,
}

/// The beginning of a run, by two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// By the kernel's monotonic clock.
    pub(crate) at: Instant,
    /// By the calendar, in nanoseconds since 1970.
    pub(crate) wall_ns: u64,
}

impl Origin {
    /// A moment of the calendar as one of the run.
    pub(crate) const fn of_wall(&self, wall_ns: u64) -> u64 {
        wall_ns.saturating_sub(self.wall_ns)
    }
}

impl Flow {
    fn new(
        loaded: &Loaded,
        topology: &Topology,
        traffic: &[TrafficConfig],
        index: usize,
        config: &TrafficConfig,
    ) -> Result<Self, LabError> {
        let wrong = |why: &str| LabError::Scenario(format!("traffic `{}`: {why}", config.name));
        let ports = Ports::nth(index as u16);
        let end = |name: &str, port: u16| -> Result<(usize, SocketAddr), LabError> {
            let member = topology.find(name).map(|id| &topology.members[id]);
            let Some(Role::Host(host)) = member.map(|member| member.role) else {
                return Err(wrong("its ends are no hosts"));
            };
            let ipv4 = config.family == Family::V4;
            let addresses = member.into_iter().flat_map(|member| &member.addresses);
            let mut addresses = addresses.map(|prefix| prefix.address);
            // A script names its own addresses: there, any of the host's stands for it.
            let any = matches!(config.what, Traffic::Mgen(_));
            let address = addresses.find(|address| any || address.is_ipv4() == ipv4);
            let address =
                address.ok_or_else(|| wrong("both hosts need an address of its family"))?;
            Ok((host, SocketAddr::new(address, port)))
        };
        let (near, from) = end(&config.from, ports.from)?;
        let (far, to) = if config.is_echo() {
            let node = loaded.nodes.iter().find(|node| node.name == config.to);
            let echo = node.and_then(|node| node.config.echo.as_ref());
            let service = echo_service(config, echo);
            (
                near,
                service.ok_or_else(|| wrong("there is no such service"))?,
            )
        } else if matches!(config.what, Traffic::Mail { .. }) {
            let post = post(loaded, traffic, config);
            let post = post.ok_or_else(|| wrong("there is no such switch"))?;
            let far = topology
                .find(&config.to)
                .map(|id| topology.members[id].role);
            match far {
                Some(Role::Host(host)) => (host, post.switch),
                _ => (near, post.switch),
            }
        } else {
            end(&config.to, ports.to)?
        };
        let duration = loaded.scenario.duration.0;
        Ok(Self {
            config: config.clone(),
            traffic: config.what.clone(),
            hosts: [near, far],
            gateways: [near, far].map(|host| {
                let behind = loaded.scenario.hosts[host].behind.clone();
                behind.unwrap_or_default()
            }),
            ends: [from, to],
            start: config.begins(loaded.scenario.seed),
            stop: config.stop.map_or(duration, |stop| stop.0.min(duration)),
        })
    }

    /// The namespace of the host that begins, or of the other.
    pub(crate) fn host<'a>(&self, stage: &Stage<'a>, end: usize) -> &'a Namespace {
        &stage.net.hosts[self.hosts[end]]
    }

    /// The address of one end.
    pub(crate) const fn address(&self, end: usize) -> IpAddr {
        self.ends[end].ip()
    }

    /// `-4` or `-6`.
    pub(crate) fn family_option(&self) -> &'static str {
        match self.config.family {
            Family::V4 => "-4",
            Family::V6 => "-6",
        }
    }

    /// How long it sends.
    pub(crate) fn span(&self) -> Duration {
        self.stop.saturating_sub(self.start)
    }

    /// The octet of the IP header that holds the code point.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.config.dscp.number() << 2
    }

    /// What its one program wrote as a log, and a note if it wrote none.
    pub(crate) fn written(&self, stage: &Stage<'_>, file: &str) -> (FlowLog, Vec<String>) {
        let name = &self.config.name;
        let text = std::fs::read_to_string(stage.scratch.file(file)).unwrap_or_default();
        match serde_json::from_str(&text) {
            Ok(log) => (log, Vec::new()),
            Err(_) => {
                let note = format!("{name}: the measurement left no log");
                (FlowLog::new(name, Side::From), vec![note])
            }
        }
    }

    /// What a program of its complained about, as a note.
    pub(crate) fn complaints(&self, program: Option<&Running>) -> Option<String> {
        let text = program.map(Running::complaints)?;
        let name = &self.config.name;
        (!text.is_empty()).then(|| format!("{name}: {text}"))
    }

    /// The result of a flow that one program measured.
    pub(crate) fn collected(&self, log: &FlowLog, notes: Vec<String>) -> Collected {
        let far = FlowLog::new(&self.config.name, Side::To);
        Collected {
            reports: vec![report(&self.config, log, &far)],
            answers: Vec::new(),
            notes,
        }
    }

    pub(crate) fn wrong(&self, why: &str) -> LabError {
        LabError::Scenario(format!("traffic `{}`: live, {why}", self.config.name))
    }
}

/// A traffic and what makes it.
pub(crate) type Part = (Flow, Box<dyn Program>);

/// All traffic of a scenario with the programs that make it.
pub(crate) fn cast(
    loaded: &Loaded,
    variant: &str,
    topology: &Topology,
) -> Result<Vec<Part>, LabError> {
    let traffic = loaded.traffic(variant);
    let traffic = traffic.map_err(|error| LabError::Scenario(error.to_string()))?;
    let numbered = traffic.iter().enumerate();
    numbered
        .map(|(index, config)| {
            let config = &*with_resolver(loaded, variant, config);
            let flow = Flow::new(loaded, topology, &traffic, index, config)?;
            let program: Box<dyn Program> = match config.what {
                Traffic::Ping { .. } => Box::new(Ping::new(&flow)?),
                Traffic::Dns { .. } => Box::new(Dig::new(&flow)?),
                Traffic::Chatter { .. } | Traffic::Hello { .. } => Box::new(Chatter::new(&flow)?),
                Traffic::Voice { .. } => Box::new(Call::default()),
                Traffic::Udp { poisson: true, .. } => Box::new(Mgen::new(&flow)?),
                Traffic::Udp { .. } => Box::new(Rate::new(&flow)?),
                Traffic::Esp { .. } => Box::new(Esp::new(&flow, index)?),
                Traffic::Mgen(_) => Box::new(Script::new(&flow)?),
                Traffic::Pair(_) => Box::new(Pairs::new(&flow)?),
                Traffic::EchoStream { .. } | Traffic::EchoDatagrams { .. } => {
                    Box::new(Echo::new(&flow)?)
                }
                Traffic::Mail { .. } => {
                    let post = post(loaded, &traffic, config);
                    let post = post.ok_or_else(|| flow.wrong("there is no such switch"))?;
                    Box::new(Mail::new(&flow, post, loaded.scenario.seed)?)
                }
                Traffic::Measured { .. } => Box::new(Measured::new(&flow)?),
                Traffic::Tcp { .. } => Box::new(Curl::new(&flow)?),
                Traffic::Page { .. } => Box::new(Page::new(&flow)?),
            };
            Ok((flow, program))
        })
        .collect()
}
