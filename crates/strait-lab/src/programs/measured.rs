//! Measured transfers: `strait measure tcp` on both hosts.

use std::process::Command;

use nix::sys::signal::Signal;
use strait_core::time::Duration;
use strait_core::units::Time;
use strait_traffic::measure::Campaign;
use strait_traffic::{Traffic, Ways};

use super::{Collected, Flow, Origin, Program};
use crate::ground::net::is_bound;
use crate::ground::process::Running;
use crate::{LabError, Stage};

/// A server where the other host is, and a client that makes all transfers.
#[derive(Debug)]
pub(crate) struct Measured {
    campaign: Campaign,
    server: Option<Running>,
    client: Option<Running>,
}

/// Long enough for a process to start.
const LEAD: Duration = Duration::from_millis(300);

/// The congestion control of this system that an endpoint is the likeness of, if it is one's.
pub(crate) fn congestion(profile: &str) -> Option<&str> {
    profile.strip_prefix("linux-")
}

fn log_name(flow: &Flow) -> String {
    format!("{}.measured.json", flow.config.name)
}

impl Measured {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Measured {
            campaign, options, ..
        } = &flow.traffic
        else {
            return Err(flow.wrong("it has no `sizes`"));
        };
        let congestion = congestion(&options.profile).unwrap_or_default();
        Ok(Self {
            campaign: Campaign {
                congestion: congestion.into(),
                ..campaign.clone()
            },
            server: None,
            client: None,
        })
    }

    fn command(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Command {
        let mut command = Command::new(stage.program);
        command.args(["measure", "tcp", &flow.ends[1].to_string(), "--json"]);
        command.args(["--name", &flow.config.name]);
        let sizes = self.campaign.sizes.iter().map(ToString::to_string);
        command.args(["--size", &sizes.collect::<Vec<_>>().join(",")]);
        command.args(["--runs", &self.campaign.runs.to_string()]);
        command.args(match flow.config.direction.unwrap_or_default() {
            Ways::Up => ["--up"],
            Ways::Down => ["--down"],
            Ways::Both => ["--both"],
        });
        command.args(["--interval", &Time(self.campaign.interval).to_string()]);
        command.args(["--timeout", &Time(self.campaign.timeout).to_string()]);
        command.args(["--dscp", &flow.config.dscp.to_string()]);
        command.args(["--seed", &self.campaign.seed.to_string()]);
        if !self.campaign.congestion.is_empty() {
            command.args(["--congestion", &self.campaign.congestion]);
        }
        let start = origin.at + flow.start;
        command.args(["--start-ns", &start.as_nanos().to_string()]);
        command
            .arg("--log")
            .arg(stage.scratch.file(&log_name(flow)));
        command
    }
}

impl Program for Measured {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let mut command = Command::new(stage.program);
        command.args(["measure", "tcp", "serve"]);
        command.args(["--local", &flow.ends[1].to_string()]);
        command.args(["--size-max", &u32::MAX.to_string()]);
        let name = format!("{}-server", flow.config.name);
        self.server = Some(stage.start(flow.host(stage, 1), &name, command)?);
        Ok(())
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        self.server.as_ref().map_or(Ok(()), Running::expect_alive)?;
        let port = flow.ends[1].port();
        Ok(is_bound(flow.host(stage, 1), true, port)?)
    }

    fn lead(&self) -> Duration {
        LEAD
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let command = self.command(stage, flow, origin);
        self.client = Some(stage.start(flow.host(stage, 0), &flow.config.name, command)?);
        Ok(())
    }

    fn client(&self) -> Option<&Running> {
        self.client.as_ref()
    }

    fn finish(&mut self) {
        // The client first: what it says of a transfer that it had to end is then its own.
        for running in self.client.iter().chain(&self.server) {
            running.end_by(Signal::SIGTERM, Duration::from_secs(1));
        }
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let (mut log, mut notes) = flow.written(stage, &log_name(flow));
        for record in &mut log.measured {
            record.started_ns = record.started_ns.saturating_sub(origin.at.as_nanos());
            if let Some(failure) = &record.failure {
                let name = &flow.config.name;
                notes.push(format!("{name}: {} octets: {failure}", record.octets));
            }
        }
        notes.extend(flow.complaints(self.client.as_ref()));
        flow.collected(&log, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_are_like_this_kernels_name_its_congestion_control() {
        assert_eq!(congestion("linux-cubic"), Some("cubic"));
        assert_eq!(congestion("paper-hf"), None);
    }
}
