//! Voice by our own generator: a process on each host.

use std::process::Command;

use strait_core::time::{Duration, Instant};
use strait_core::units::Time;
use strait_traffic::{FlowLog, Mark, Side, Traffic, report};

use super::{Collected, Flow, Origin, Program};
use crate::ground::process::{Running, end_together};
use crate::{LabError, Stage};

/// `strait measure voice` on both hosts.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The end that begins, and the other.
    running: Vec<Running>,
}

/// Long enough for a process to start.
const LEAD: Duration = Duration::from_millis(300);
const SIDES: [(Side, &str); 2] = [(Side::From, "send"), (Side::To, "receive")];

fn log_name(flow: &Flow, word: &str) -> String {
    format!("{}.{word}.json", flow.config.name)
}

impl Program for Call {
    fn lead(&self) -> Duration {
        LEAD
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let Traffic::Voice {
            payload_octets,
            period,
            both_ways,
            turn: None,
        } = flow.traffic
        else {
            return Err(flow.wrong("both talk all the time here: leave out `turns`"));
        };
        // The receiver first: it has to be there when the first packet comes.
        for end in [1, 0] {
            let (_, word) = SIDES[end];
            let mut command = Command::new(stage.program);
            command.args(["measure", "voice", word]);
            command.args(["--name", &flow.config.name]);
            command.args(["--local", &flow.ends[end].to_string()]);
            command.args(["--peer", &flow.ends[1 - end].to_string()]);
            command.args(["--dscp", &flow.config.dscp.to_string()]);
            command.args(["--payload", &format!("{payload_octets} B")]);
            command.args(["--period", &Time(period).to_string()]);
            command.args(["--seed", &stage.seed.to_string()]);
            let at = |since: Duration| (origin.at + since).as_nanos().to_string();
            command.args(["--start-ns", &at(flow.start)]);
            command.args(["--stop-ns", &at(flow.stop)]);
            command.args(["--until-ns", &at(stage.duration)]);
            if end == 1 && both_ways {
                command.arg("--answer");
            }
            command
                .arg("--log")
                .arg(stage.scratch.file(&log_name(flow, word)));
            let name = format!("{}-{word}", flow.config.name);
            self.running
                .push(stage.start(flow.host(stage, end), &name, command)?);
        }
        Ok(())
    }

    fn finish(&mut self) {
        end_together(&self.running, Duration::from_secs(1));
    }

    fn logs(&self, stage: &Stage<'_>, flow: &Flow) -> Option<[FlowLog; 2]> {
        let [from, to] = SIDES.map(|(_, word)| log(stage, flow, word).map(settled));
        from.zip(to).map(Into::into)
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let mut notes = Vec::new();
        let logs = SIDES.map(|(side, word)| {
            log(stage, flow, word).unwrap_or_else(|| {
                notes.push(format!("{}: `{word}` left no log", flow.config.name));
                FlowLog::new(&flow.config.name, side)
            })
        });
        let [from, to] = logs.map(|log| since(log, origin.at));
        for running in &self.running {
            notes.extend(flow.complaints(Some(running)));
        }
        Collected {
            reports: vec![report(&flow.config, &from, &to)],
            answers: Vec::new(),
            notes,
        }
    }
}

/// What one end saw, if it said so.
fn log(stage: &Stage<'_>, flow: &Flow, word: &str) -> Option<FlowLog> {
    let path = stage.scratch.file(&log_name(flow, word));
    serde_json::from_str(&std::fs::read_to_string(&path).ok()?).ok()
}

/// A log without what was sent in the first second, when headers are still whole.
fn settled(mut log: FlowLog) -> FlowLog {
    let first_ns = log.sent.first().map_or(0, |mark| mark.at_ns);
    log.sent
        .retain(|mark| mark.at_ns >= first_ns + 1_000_000_000);
    log
}

/// A log in time of the run.
fn since(mut log: FlowLog, origin: Instant) -> FlowLog {
    let shift = |mark: &mut Mark| mark.at_ns = mark.at_ns.saturating_sub(origin.as_nanos());
    log.sent.iter_mut().for_each(shift);
    log.received.iter_mut().for_each(shift);
    log
}
