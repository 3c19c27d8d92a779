//! Datagrams at random moments by `mgen`, the Multi-Generator of the Naval Research Laboratory.

use std::process::Command;

use strait_core::time::Duration;
use strait_traffic::{FlowLog, Side, Traffic, report};

use super::script::read;
use super::{Collected, Flow, Origin, Program};
use crate::ground::net::is_bound;
use crate::ground::process::{Running, end_together, require};
use crate::{LabError, Stage};

/// `mgen` on both hosts, each with a script of one flow, and a log.
#[derive(Debug)]
pub(crate) struct Mgen {
    payload_octets: u32,
    rate_bit_s: u64,
    /// The end that listens, and the other.
    running: Vec<Running>,
}

/// The least that `mgen` sends in a message.
const PAYLOAD_MIN: u32 = 28;
const WORDS: [&str; 2] = ["from", "to"];

impl Mgen {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Udp {
            payload_octets,
            rate_bit_s,
            ..
        } = flow.traffic
        else {
            return Err(flow.wrong("it is no udp"));
        };
        if payload_octets < PAYLOAD_MIN {
            return Err(flow.wrong("`payload` must be at least 28 B for `poisson` datagrams"));
        }
        require("mgen", "mgen")?;
        Ok(Self {
            payload_octets,
            rate_bit_s,
            running: Vec::new(),
        })
    }

    fn start_end(&mut self, stage: &Stage<'_>, flow: &Flow, end: usize) -> Result<(), LabError> {
        let (name, word) = (&flow.config.name, WORDS[end]);
        let script = self.script(flow, end);
        let script = stage
            .scratch
            .write(&format!("{name}.{word}.mgn"), script.as_bytes())?;
        let mut command = Command::new("mgen");
        command.args([flow.family_option().replace('-', "ipv").as_str(), "txlog"]);
        command.args(["flush", "input"]).arg(script);
        command
            .arg("output")
            .arg(stage.scratch.file(&format!("{name}.{word}.drc")));
        let label = format!("{name}-{word}");
        self.running
            .push(stage.start(flow.host(stage, end), &label, command)?);
        Ok(())
    }

    /// What an end plays, from when it starts.
    fn script(&self, flow: &Flow, end: usize) -> String {
        let (from, to) = (flow.ends[0], flow.ends[1]);
        if end == 1 {
            return format!("0.0 LISTEN UDP {}\n", to.port());
        }
        let octets = self.payload_octets;
        let each_s = self.rate_bit_s as f64 / 8.0 / f64::from(octets);
        format!(
            "0.0 ON 1 UDP SRC {} DST {}/{} POISSON [{each_s:.4} {octets}] TOS {:#x} \
             TTL 64\n{} OFF 1\n",
            from.port(),
            to.ip(),
            to.port(),
            flow.traffic_class(),
            flow.span().as_secs_f64()
        )
    }
}

impl Program for Mgen {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        self.start_end(stage, flow, 1)
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        self.running.iter().try_for_each(Running::expect_alive)?;
        Ok(is_bound(flow.host(stage, 1), false, flow.ends[1].port())?)
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, _: Origin) -> Result<(), LabError> {
        self.start_end(stage, flow, 0)
    }

    fn finish(&mut self) {
        end_together(&self.running, Duration::from_secs(1));
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let name = &flow.config.name;
        let mut notes = Vec::new();
        let sides = [Side::From, Side::To].into_iter().zip(WORDS);
        let logs: Vec<FlowLog> = sides
            .map(|(side, word)| {
                let path = stage.scratch.file(&format!("{name}.{word}.drc"));
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                if text.is_empty() {
                    notes.push(format!("{name}: `mgen` left no log of `{word}`"));
                }
                read(&text, FlowLog::new(name, side), origin)
            })
            .collect();
        Collected {
            reports: vec![report(&flow.config, &logs[0], &logs[1])],
            answers: Vec::new(),
            notes,
        }
    }
}
