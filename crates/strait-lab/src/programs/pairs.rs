//! Packet pairs: `strait measure pair` on both hosts.

use std::process::Command;

use nix::sys::signal::Signal;
use strait_core::time::Duration;
use strait_core::units::Time;
use strait_traffic::Traffic;
use strait_traffic::pair::PairCampaign;

use super::{Collected, Flow, Origin, Program};
use crate::ground::net::is_bound;
use crate::ground::process::Running;
use crate::{LabError, Stage};

/// A receiver where the other host is, and the prober.
#[derive(Debug)]
pub(crate) struct Pairs {
    campaign: PairCampaign,
    receiver: Option<Running>,
    prober: Option<Running>,
}

/// Long enough for a process to start.
const LEAD: Duration = Duration::from_millis(300);

fn log_name(flow: &Flow) -> String {
    format!("{}.pairs.json", flow.config.name)
}

impl Pairs {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Pair(campaign) = &flow.traffic else {
            return Err(flow.wrong("it is no pair"));
        };
        Ok(Self {
            campaign: campaign.clone(),
            receiver: None,
            prober: None,
        })
    }

    fn command(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Command {
        let campaign = &self.campaign;
        let mut command = Command::new(stage.program);
        command.args(["measure", "pair", &flow.ends[1].to_string(), "--json"]);
        command.args(["--name", &flow.config.name]);
        let sizes = campaign.sizes.iter().map(ToString::to_string);
        command.args(["--size", &sizes.collect::<Vec<_>>().join(",")]);
        command.args(["--count", &campaign.count.to_string()]);
        command.args(["--train", &campaign.train.to_string()]);
        command.args(["--trains", &campaign.trains.to_string()]);
        command.args(["--pause", &Time(campaign.pause).to_string()]);
        command.args(["--timeout", &Time(campaign.timeout).to_string()]);
        command.args(["--dscp", &flow.config.dscp.to_string()]);
        command.args(["--seed", &campaign.seed.to_string()]);
        let start = origin.at + flow.start;
        command.args(["--start-ns", &start.as_nanos().to_string()]);
        command
            .arg("--log")
            .arg(stage.scratch.file(&log_name(flow)));
        command
    }
}

impl Program for Pairs {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let mut command = Command::new(stage.program);
        command.args(["measure", "pair", "--serve"]);
        command.args(["--local", &flow.ends[1].to_string()]);
        command.args(["--dscp", &flow.config.dscp.to_string()]);
        let name = format!("{}-receiver", flow.config.name);
        self.receiver = Some(stage.start(flow.host(stage, 1), &name, command)?);
        Ok(())
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        let alive = self.receiver.as_ref().map(Running::expect_alive);
        alive.unwrap_or(Ok(()))?;
        let port = flow.ends[1].port();
        Ok(is_bound(flow.host(stage, 1), false, port)?)
    }

    fn lead(&self) -> Duration {
        LEAD
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let command = self.command(stage, flow, origin);
        self.prober = Some(stage.start(flow.host(stage, 0), &flow.config.name, command)?);
        Ok(())
    }

    fn finish(&mut self) {
        for running in self.prober.iter().chain(&self.receiver) {
            running.end_by(Signal::SIGTERM, Duration::from_secs(1));
        }
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let (mut log, mut notes) = flow.written(stage, &log_name(flow));
        for record in &mut log.pairs {
            record.began_ns = record.began_ns.saturating_sub(origin.at.as_nanos());
        }
        notes.extend(flow.complaints(self.prober.as_ref()));
        flow.collected(&log, notes)
    }
}
