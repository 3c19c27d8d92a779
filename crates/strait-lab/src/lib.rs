//! The lab: a scenario live, in network namespaces of this host.
//!
//! Every gateway, router and host has a namespace. Gateways are `strait run`, routers the kernel
//! itself, links `strait emulate`, and the traffic is made by the programs that people use for it:
//! `ping`, `curl`, `iperf3`, and our own generator for voice. Nothing of it has a name in this
//! host's own namespace, and nothing outlives the lab: see [`strait_live::kernel::namespace`].

pub mod bench_tun;
mod gateways;
mod ground;
pub mod kernel;
mod programs;
mod run;
pub mod transfer;
mod wires;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;

use nix::sys::signal::Signal;
use nix::unistd::Uid;
use strait_core::time::Duration;
use strait_core::units::BitRate;
use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Nursery;
use strait_live::signals::Stop;
use strait_scenario::topology::Topology;
use strait_scenario::{FaultKind, Loaded};

use self::gateways::GatewayProcess;
pub use self::ground::left::Left;
use self::ground::net::Net;
use self::ground::process::Running;
pub use self::ground::process::require;
use self::ground::scratch::Scratch;
use self::programs::Part;
pub use self::run::Outcome;
use self::wires::Wire;

/// Why there is no lab, or no result.
#[derive(Debug)]
pub enum LabError {
    /// The scenario asks for what can't be had live.
    Scenario(String),
    /// The host refuses something.
    Host(Error),
    /// The user ended it.
    Stopped,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(message) => f.write_str(message),
            Self::Host(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped before its end; everything is removed again"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<Error> for LabError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

/// What a lab needs beside its scenario.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// The program that is gateway, emulator and voice generator: strait itself.
    pub program: PathBuf,
    /// Which variant of the scenario.
    pub variant: String,
    /// A folder for all files, which then stay.
    pub keep: Option<PathBuf>,
    /// End as soon as the traffic has, where its programs can tell.
    pub brief: bool,
    /// This kernel in place of the gateways, with their policies for a line of this rate.
    pub kernel: Option<BitRate>,
}

/// What all parts of a lab stand on.
#[derive(Debug)]
struct Ground {
    nursery: Nursery,
    net: Net,
    scratch: Scratch,
    program: PathBuf,
    seed: u64,
    duration: Duration,
    brief: bool,
}

/// The ground, lent.
#[derive(Clone, Copy, Debug)]
struct Stage<'a> {
    nursery: &'a Nursery,
    net: &'a Net,
    scratch: &'a Scratch,
    program: &'a Path,
    seed: u64,
    duration: Duration,
}

impl Ground {
    fn stage(&self) -> Stage<'_> {
        Stage {
            nursery: &self.nursery,
            net: &self.net,
            scratch: &self.scratch,
            program: &self.program,
            seed: self.seed,
            duration: self.duration,
        }
    }
}

/// A scenario's hosts, gateways and links, up and running.
pub struct Lab {
    loaded: Loaded,
    gateways: Vec<GatewayProcess>,
    wires: Vec<Wire>,
    /// Programs beside gateways.
    daemons: Vec<Running>,
    cast: Vec<Part>,
    /// What this kernel does in its own way, where it is in place of the gateways.
    notes: Vec<String>,
    ground: Ground,
}

/// How long gateways, emulators and servers may take to start.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a program may take to end when it is asked to.
const END_PATIENCE: Duration = Duration::from_secs(3);
/// How often conditions are looked at.
const TICK: Duration = Duration::from_millis(2);

impl Lab {
    /// Makes namespaces and LANs, and starts emulators and gateways.
    ///
    /// # Errors
    /// The scenario can't be had live, a privilege or a program is missing, a part doesn't start,
    /// or the user has asked to stop. Nothing is left then.
    pub fn set_up(loaded: &Loaded, options: &LabOptions, stop: &Stop) -> Result<Self, LabError> {
        let topology = Topology::new(loaded);
        if loaded
            .scenario
            .faults
            .iter()
            .any(|it| it.kind == FaultKind::Clock)
        {
            let message = "a fault of kind \"clock\" is simulated only: gateways live have this \
                           host's clock";
            return Err(LabError::Scenario(message.into()));
        }
        if options.kernel.is_some() {
            kernel::stands_in(loaded)?;
        }
        let cast = programs::cast(loaded, &options.variant, &topology)?;
        if !Uid::effective().is_root() {
            let error = Error::invalid("make network namespaces", "this needs root");
            return Err(error.with_remedy("run it as root, with sudo").into());
        }
        let mut lab = Self {
            ground: Ground {
                scratch: Scratch::create(options.keep.as_deref())?,
                nursery: Nursery::open()?,
                net: Net::create(loaded, &topology)?,
                program: options.program.clone(),
                seed: loaded.scenario.seed,
                duration: loaded.scenario.duration.0,
                brief: options.brief,
            },
            loaded: loaded.clone(),
            gateways: Vec::new(),
            wires: Vec::new(),
            daemons: Vec::new(),
            cast,
            notes: Vec::new(),
        };
        lab.start_links_and_gateways(&topology, options, stop)?;
        Ok(lab)
    }

    /// Where gateways can be asked how they are, in the scenario's order.
    pub fn status_sockets(&self) -> impl Iterator<Item = &Path> {
        self.gateways.iter().map(GatewayProcess::socket)
    }

    fn start_links_and_gateways(
        &mut self,
        topology: &Topology,
        options: &LabOptions,
        stop: &Stop,
    ) -> Result<(), LabError> {
        let stage = self.ground.stage();
        let nodes = self.loaded.nodes.iter();
        let configs = nodes.map(|node| self.loaded.node_config(&options.variant, node));
        let configs: Result<Vec<_>, _> = configs.collect();
        let mut configs = configs.map_err(|error| LabError::Scenario(error.to_string()))?;
        let resolved = self.loaded.resolved_text();
        stage.scratch.write("resolved.toml", resolved.as_bytes())?;
        self.wires = wires::lay(
            &stage,
            &self.loaded,
            topology,
            &mut configs,
            options.kernel.is_some(),
        )?;
        for wire in &mut self.wires {
            wire.start(&stage)?;
        }
        let gateways = if options.kernel.is_some() {
            0
        } else {
            configs.len()
        };
        for (index, config) in configs.iter().cloned().enumerate().take(gateways) {
            self.gateways
                .push(GatewayProcess::new(&stage, index, config)?);
        }
        for wire in &self.wires {
            wait_for(stop, "start the emulator of a link", || {
                wire.is_ready(&stage)
            })?;
        }
        let daemons = &self.loaded.scenario.daemons;
        let finds = |name: &str| daemons.iter().any(|daemon| daemon.node == name);
        stage.net.add_routes(topology, finds)?;
        for wire in &self.wires {
            wire.open_to_hosts(stage.net)?;
        }
        if let Some(rate) = options.kernel {
            self.notes = kernel::stations::set(&stage, &configs, rate)?;
        }
        for gateway in &mut self.gateways {
            gateway.start(&stage)?;
        }
        for gateway in &self.gateways {
            wait_for(stop, "start a gateway", || gateway.is_ready())?;
        }
        for (number, daemon) in self.loaded.scenario.daemons.iter().enumerate() {
            let gateway = self.gateways.iter().find(|it| it.name == daemon.node);
            let Some((gateway, (program, arguments))) = gateway.zip(daemon.command.split_first())
            else {
                continue;
            };
            require(program, program)?;
            let mut command = Command::new(program);
            command.args(arguments.iter().map(|it| stage.of_run(&daemon.node, it)));
            let name = format!("daemon-{}-{number}", daemon.node);
            let running = stage.start(gateway.namespace(&stage), &name, command)?;
            self.daemons.push(running);
        }
        Ok(())
    }

    /// The folder with all files of the lab.
    pub fn folder(&self) -> &Path {
        self.ground.scratch.path()
    }

    /// Runs a program of the user's inside a host, with our terminal. Interrupts from the keyboard
    /// are the program's. Without a name, the first host is meant.
    ///
    /// # Errors
    /// There is no such host or program, or the user has asked to stop by another signal.
    pub fn run_command(
        &self,
        host: Option<&str>,
        command: &[String],
        stop: &Stop,
    ) -> Result<ExitStatus, LabError> {
        let hosts = &self.loaded.scenario.hosts;
        let index = match host {
            Some(name) => hosts.iter().position(|host| host.name == *name),
            None => (!hosts.is_empty()).then_some(0),
        };
        let Some((index, (program, arguments))) = index.zip(command.split_first()) else {
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(LabError::Scenario(format!(
                "no such host (there are `{}`)",
                names.join("`, `")
            )));
        };
        let mut child = Command::new(program);
        child.args(arguments);
        let namespace = &self.ground.net.hosts[index];
        let process = self.ground.nursery.spawn(Some(namespace), child)?;
        loop {
            let ended = process
                .try_wait()
                .doing(|| format!("wait for `{program}`"))?;
            if let Some(status) = ended {
                return Ok(status);
            }
            if stop.is_terminated() {
                return Err(LabError::Stopped);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends gateways and emulators in order, if they still run; says which didn't end by
    /// themselves.
    fn stop_all(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        let stage = self.ground.stage();
        stop_each(self.daemons.iter(), "daemon", &mut left);
        let gateways = self.gateways.iter().filter_map(GatewayProcess::running);
        stop_each(gateways, "gateway", &mut left);
        for gateway in &self.gateways {
            left.extend(gateway.left(&stage));
        }
        stop_each(
            self.wires.iter().filter_map(Wire::running),
            "emulator",
            &mut left,
        );
        left
    }

    /// Ends everything, and looks for what is left.
    pub fn tear_down(mut self) -> Left {
        let mut left = self.stop_all();
        let traces = ground::left::Traces::of(&self.ground);
        drop(self);
        left.extend(traces.found());
        Left(left)
    }
}

/// Asks every program to end, and waits for all of them.
fn stop_each<'a>(
    all: impl Iterator<Item = &'a Running> + Clone,
    what: &str,
    left: &mut Vec<String>,
) {
    for running in all.clone() {
        running.signal(Signal::SIGTERM);
    }
    for running in all {
        if !running.wait(END_PATIENCE) {
            running.signal(Signal::SIGKILL);
            left.push(format!("a running {what}"));
        }
    }
}

/// An error once the user has asked to stop.
fn check(stop: &Stop) -> Result<(), LabError> {
    if stop.is_asked() {
        return Err(LabError::Stopped);
    }
    Ok(())
}

/// Waits for a condition.
fn wait_for(
    stop: &Stop,
    what: &str,
    mut condition: impl FnMut() -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let end = std::time::Instant::now() + START_PATIENCE;
    while !condition()? {
        check(stop)?;
        if std::time::Instant::now() > end {
            return Err(Error::invalid(what, "it took too long").into());
        }
        thread::sleep(TICK);
    }
    Ok(())
}
