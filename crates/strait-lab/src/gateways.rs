//! The scenario's gateways as processes of their own, each in its namespace.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use strait_core::id::PortId;
use strait_core::time::Duration;
use strait_live::error::{Doing, Error};
use strait_live::files::packets::{self, PacketLine};
use strait_live::kernel::namespace::Namespace;
use strait_live::kernel::proxy_rules;
use strait_live::status::{self, Format};
use strait_node::NodeConfig;
use strait_node::config::HostKind;
use strait_status::{Class, Snapshot};

use crate::ground::net::bridge;
use crate::ground::process::{Running, unwritable};
use crate::programs::maildir;
use crate::{LabError, Stage};

/// How long a gateway may take for its answer to a status request.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// A gateway of the lab.
#[derive(Debug)]
pub(crate) struct GatewayProcess {
    pub(crate) name: String,
    index: usize,
    file: PathBuf,
    socket: PathBuf,
    /// What its proxy needs of its host, as a script.
    rules: Option<String>,
    interfaces: Vec<String>,
    /// Times that it was started.
    incarnation: u32,
    running: Option<Running>,
}

impl GatewayProcess {
    /// Writes its node file, with what the lab wants otherwise than the scenario.
    pub(crate) fn new(
        stage: &Stage<'_>,
        index: usize,
        mut config: NodeConfig,
    ) -> Result<Self, LabError> {
        let name = config.name.clone();
        let socket = stage.scratch.file(&format!("{name}.sock"));
        config.status.socket = Some(socket.display().to_string());
        let ports: Vec<PortId> = config.host_sides().map(|(port, _)| port).collect();
        for (port, side) in ports.into_iter().zip(config.host.all_mut()) {
            side.bridge = (side.kind == HostKind::Tap).then(|| bridge(port));
        }
        if let Some(babel) = &mut config.babel {
            babel.socket = stage.of_run(&name, &babel.socket);
        }
        if let Some(journal) = &mut config.journal {
            let file = stage.scratch.file(&format!("{name}.journal"));
            journal.file = file.display().to_string();
        }
        if let Some(state) = &mut config.state {
            let file = stage.scratch.file(&format!("{name}.state"));
            state.file = file.display().to_string();
        }
        if let Some(folder) = config.mail.as_mut().and_then(|mail| mail.maildir.as_mut()) {
            *folder = stage.scratch.file(&maildir(&name)).display().to_string();
        }
        // The lab's node file is elsewhere.
        let place = |file: &mut String| {
            if let Ok(place) = std::path::absolute(&*file) {
                *file = place.display().to_string();
            }
        };
        for profile in config.tls.values_mut() {
            let pinned = profile.pins().is_some();
            let trust = Some(&mut profile.trust).filter(|_| !pinned);
            let files = [&mut profile.certificate, &mut profile.key];
            files.into_iter().chain(trust).flatten().for_each(place);
        }
        let routes = config.mail.iter_mut().flat_map(|mail| &mut mail.routes);
        for route in routes {
            let hops = route.next.iter_mut().chain([&mut route.first]);
            hops.flat_map(|it| &mut it.password_file).for_each(place);
        }
        let text = config.to_text().map_err(|error| unwritable(&name, error))?;
        let file = format!("{name}.toml");
        Ok(Self {
            index,
            file: stage.scratch.write(&file, text.as_bytes())?,
            socket,
            rules: proxy_rules::set(&config),
            interfaces: (config.host.all().map(|side| side.interface.clone())).collect(),
            incarnation: 0,
            running: None,
            name,
        })
    }

    /// Starts it, again or for the first time.
    pub(crate) fn start(&mut self, stage: &Stage<'_>) -> Result<(), LabError> {
        let mut command = Command::new(stage.program);
        command.arg("run").arg(&self.file);
        let name = format!("run-{}-{}", self.name, self.incarnation);
        let packets = format!("{}-{}.packets", self.name, self.incarnation);
        command.arg("--packets").arg(stage.scratch.file(&packets));
        if self.incarnation == 0 {
            self.set_rules(stage)?;
        }
        self.incarnation += 1;
        self.running = Some(stage.start(self.namespace(stage), &name, command)?);
        Ok(())
    }

    /// Brings clients to its proxy, as an operator does by `strait proxy rules`.
    fn set_rules(&self, stage: &Stage<'_>) -> Result<(), Error> {
        let Some(script) = &self.rules else {
            return Ok(());
        };
        let run = || Command::new("sh").args(["-c", script]).output();
        let what = || format!("set the rules of the proxy of `{}`", self.name);
        let output = self.namespace(stage).enter(run)?.doing(what)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let error = Error::invalid(what(), said.trim().to_owned());
        Err(error.with_remedy("the lab needs `nft` and `ip`: cargo xtask install"))
    }

    /// The namespace that it runs in.
    pub(crate) fn namespace<'a>(&self, stage: &Stage<'a>) -> &'a Namespace {
        &stage.net.gateways[self.index]
    }

    /// Whether it answers.
    pub(crate) fn is_ready(&self) -> Result<bool, LabError> {
        self.expect_alive()?;
        Ok(self.socket.exists() && self.status().is_some())
    }

    pub(crate) fn expect_alive(&self) -> Result<(), LabError> {
        self.running.as_ref().map_or(Ok(()), Running::expect_alive)
    }

    /// The packets that ended in it, in all its incarnations; whole once it has ended.
    pub(crate) fn packets(&self, stage: &Stage<'_>) -> Vec<PacketLine> {
        let files = (0..self.incarnation).map(|nth| format!("{}-{nth}.packets", self.name));
        files
            .flat_map(|file| packets::read(&stage.scratch.file(&file)))
            .collect()
    }

    /// Ends it at once, without warning.
    pub(crate) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.end_by(Signal::SIGKILL, ANSWER_PATIENCE);
        }
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it says of itself.
    pub(crate) fn status(&self) -> Option<Snapshot> {
        self.running.as_ref()?;
        let answer = status::request(&self.socket, Format::Json, ANSWER_PATIENCE).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// What it said of itself of late, at present last; nothing where it doesn't run.
    pub(crate) fn past(&self) -> Option<Vec<Snapshot>> {
        self.running.as_ref()?;
        status::past(&self.socket, ANSWER_PATIENCE).ok()
    }

    /// What it left in its namespace and in the file system, after it has ended.
    pub(crate) fn left(&self, stage: &Stage<'_>) -> Vec<String> {
        let mut left = Vec::new();
        if self.socket.exists() {
            left.push(format!("the status socket of `{}`", self.name));
        }
        for interface in &self.interfaces {
            let netlink = self.namespace(stage).netlink();
            if netlink.is_ok_and(|mut netlink| netlink.link(interface).is_ok()) {
                left.push(format!("interface `{interface}` of `{}`", self.name));
            }
        }
        left
    }
}

/// By how much the parts of a class's delay differ from the whole, at most, in seconds.
pub(crate) fn delay_gap_s(status: &Snapshot) -> f64 {
    let gap = |class: &Class| seconds(class.delay_parts_s.total_ns()) - class.delay_s;
    let gaps = status.classes.iter().map(gap);
    gaps.map(f64::abs).fold(0.0, f64::max)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::delay::DelayPart;

    #[test]
    fn parts_that_are_not_the_whole_show() {
        let class = |name: &str, delay_s, parts: &[(DelayPart, u64)]| {
            let mut class = Class {
                name: name.into(),
                delay_s,
                ..Class::default()
            };
            for (part, ms) in parts {
                class.delay_parts_s.add(*part, ms * 1_000_000);
            }
            class
        };
        let voice = class(
            "voice",
            0.5,
            &[(DelayPart::Class, 100), (DelayPart::Line, 400)],
        );
        let bulk = class("bulk", 0.25, &[(DelayPart::Line, 200)]);
        let mut status = Snapshot::default();
        assert!(delay_gap_s(&status).abs() < 1e-12);
        status.classes = vec![voice, bulk];
        assert!((delay_gap_s(&status) - 0.05).abs() < 1e-12);
    }
}
