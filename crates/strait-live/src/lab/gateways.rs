//! The scenario's gateways as processes of their own, each in its namespace.

use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use strait_core::delay::DelayPart;
use strait_core::stats::ClassStats;
use strait_core::time::Duration;
use strait_node::NodeConfig;
use strait_node::config::HostKind;
use strait_world::report::StationReport;

use super::net::BRIDGE;
use super::process::{Running, config_text};
use super::{LabError, Stage};
use crate::namespace::Namespace;
use crate::packets_file::{self, PacketLine};
use crate::status::{self, Format};

/// How long a gateway may take for its answer to a status request.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// A gateway of the lab.
#[derive(Debug)]
pub(super) struct GatewayProcess {
    pub(super) name: String,
    index: usize,
    file: PathBuf,
    socket: PathBuf,
    interface: String,
    /// Times that it was started.
    incarnation: u32,
    running: Option<Running>,
}

impl GatewayProcess {
    /// Writes its node file, with what the lab wants otherwise than the scenario.
    pub(super) fn new(
        stage: &Stage<'_>,
        index: usize,
        mut config: NodeConfig,
    ) -> Result<Self, LabError> {
        let name = config.name.clone();
        let socket = stage.scratch.file(&format!("{name}.sock"));
        config.status.socket = Some(socket.display().to_string());
        if config.host.kind == HostKind::Tap {
            config.host.bridge = Some(BRIDGE.into());
        }
        if let Some(journal) = &mut config.journal {
            let file = stage.scratch.file(&format!("{name}.journal"));
            journal.file = file.display().to_string();
        }
        if let Some(state) = &mut config.state {
            let file = stage.scratch.file(&format!("{name}.state"));
            state.file = file.display().to_string();
        }
        let text = config_text(&config, &name)?;
        let file = format!("{name}.toml");
        Ok(Self {
            index,
            file: stage.scratch.write(&file, text.as_bytes())?,
            socket,
            interface: config.host.interface,
            incarnation: 0,
            running: None,
            name,
        })
    }

    /// Starts it, again or for the first time.
    pub(super) fn start(&mut self, stage: &Stage<'_>) -> Result<(), LabError> {
        let mut command = Command::new(stage.program);
        command.arg("run").arg(&self.file);
        let name = format!("run-{}-{}", self.name, self.incarnation);
        let packets = format!("{}-{}.packets", self.name, self.incarnation);
        command.arg("--packets").arg(stage.scratch.file(&packets));
        self.incarnation += 1;
        self.running = Some(stage.start(self.namespace(stage), &name, command)?);
        Ok(())
    }

    /// The namespace that it runs in.
    pub(super) fn namespace<'a>(&self, stage: &Stage<'a>) -> &'a Namespace {
        &stage.net.gateways[self.index]
    }

    /// Whether it answers.
    pub(super) fn is_ready(&self) -> Result<bool, LabError> {
        self.expect_alive()?;
        Ok(self.socket.exists() && self.status().is_some())
    }

    pub(super) fn expect_alive(&self) -> Result<(), LabError> {
        self.running.as_ref().map_or(Ok(()), Running::expect_alive)
    }

    /// The packets that ended in it, in all its incarnations; whole once it has ended.
    pub(super) fn packets(&self, stage: &Stage<'_>) -> Vec<PacketLine> {
        let files = (0..self.incarnation).map(|nth| format!("{}-{nth}.packets", self.name));
        files
            .flat_map(|file| packets_file::read(&stage.scratch.file(&file)))
            .collect()
    }

    /// Ends it at once, without warning.
    pub(super) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::SIGKILL);
            running.wait(ANSWER_PATIENCE);
        }
    }

    pub(super) fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// What it says of itself.
    pub(super) fn status(&self) -> Option<Value> {
        self.running.as_ref()?;
        let answer = status::request(&self.socket, Format::Json, ANSWER_PATIENCE).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// What it left in its namespace and in the file system, after it has ended.
    pub(super) fn left(&self, stage: &Stage<'_>) -> Vec<String> {
        let mut left = Vec::new();
        if self.socket.exists() {
            left.push(format!("the status socket of `{}`", self.name));
        }
        let netlink = self.namespace(stage).netlink();
        if netlink.is_ok_and(|mut netlink| netlink.link(&self.interface).is_ok()) {
            left.push(format!("interface `{}` of `{}`", self.interface, self.name));
        }
        left
    }
}

/// Where the time of each class's packets went, as a gateway's status says it; and by how much the
/// parts of a class differ from the whole, at most, in seconds.
pub(super) fn delays(status: &Value) -> (Vec<ClassStats>, f64) {
    let classes = status["classes"].as_array().into_iter().flatten();
    let mut gap_s: f64 = 0.0;
    let read = |class: &Value| {
        let mut stats = ClassStats {
            name: class["name"].as_str().unwrap_or_default().to_owned(),
            packets: class["packets"].as_u64().unwrap_or_default(),
            ..ClassStats::default()
        };
        let mut sum_s = 0.0;
        for part in DelayPart::ALL {
            let part_s = class["delay_parts_s"][part.name()]
                .as_f64()
                .unwrap_or_default();
            sum_s += part_s;
            stats.parts.add(part, (part_s * 1e9).round() as u64);
        }
        gap_s = gap_s.max((sum_s - class["delay_s"].as_f64().unwrap_or_default()).abs());
        stats
    };
    let classes = classes.map(read).collect();
    (classes, gap_s)
}

/// What a gateway kept off its links, as its status says it: what, and packets and octets of it.
pub(super) fn kept_off(status: &Value) -> Vec<(String, [u64; 2])> {
    let of = |what: &'static str| {
        let kinds = status["local"][what].as_object().into_iter().flatten();
        kinds.map(move |(kind, volume)| {
            let count = |of: &str| volume[of].as_u64().unwrap_or_default();
            (
                format!("{what} {kind}"),
                [count("packets"), count("octets")],
            )
        })
    };
    let whats = ["chatter", "answered", "repeated"].into_iter();
    whats.flat_map(of).collect()
}

/// A gateway's stations on radios with their places, as its status says it.
pub(super) fn stations(gateway: &str, status: &Value) -> Vec<(String, StationReport)> {
    let ports = status["ports"].as_array().into_iter().flatten();
    let station = |port: &Value| {
        let place = format!("{gateway}.{}", port["name"].as_str()?);
        let report = serde_json::from_value(port.get("hf")?.clone()).ok()?;
        Some((place, report))
    };
    ports.filter_map(station).collect()
}

/// The words of [`strait_world::scenario::local_metrics`] with their counts.
pub(super) fn local_counts(status: &Value) -> Vec<(String, u64)> {
    let kept = kept_off(status);
    let packets = |wanted: &str| {
        let those = kept.iter().filter(|(what, _)| what.starts_with(wanted));
        (
            wanted.to_owned(),
            those.map(|(_, [packets, _])| packets).sum(),
        )
    };
    let ports = status["ports"].as_array().into_iter().flatten();
    let octets = ports.filter_map(|port| {
        let word = format!("{}.octets_out", port["name"].as_str()?);
        Some((word, port["octets_out"].as_u64()?))
    });
    let words = ["chatter", "answered", "repeated"];
    octets.chain(words.map(packets)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_gives_what_was_kept_off() {
        let status = serde_json::json!({
            "local": {
                "chatter": {"mdns": {"packets": 2, "octets": 90}},
                "answered": {"echo": {"packets": 3, "octets": 252}},
            },
            "ports": [{"name": "line", "octets_out": 17}],
        });
        assert_eq!(kept_off(&status)[1], ("answered echo".into(), [3, 252]));
        let counts = local_counts(&status);
        let kept = [("chatter", 2), ("answered", 3), ("repeated", 0)];
        let expected = [("line.octets_out", 17)].into_iter().chain(kept);
        let expected = expected.map(|(word, count): (&str, u64)| (word.to_owned(), count));
        let expected: Vec<_> = expected.collect();
        assert_eq!(counts, expected);
        assert_eq!(kept_off(&serde_json::json!({})).len(), 0);
    }

    #[test]
    fn a_status_gives_delay_parts_and_their_gap() {
        let status = serde_json::json!({"classes": [
            {"name": "voice", "packets": 2, "delay_s": 0.5,
             "delay_parts_s": {"class": 0.1, "line": 0.4}},
            {"name": "bulk", "packets": 1, "delay_s": 0.25, "delay_parts_s": {"line": 0.2}},
        ]});
        let (classes, gap_s) = delays(&status);
        assert_eq!(classes[0].parts.part_ns(DelayPart::Line), 400_000_000);
        assert_eq!(classes[1].packets, 1);
        assert!((gap_s - 0.05).abs() < 1e-12);
        assert_eq!(delays(&serde_json::json!({})).0.len(), 0);
    }
}
