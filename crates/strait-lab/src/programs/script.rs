//! The flows of an MGEN script by our own player, or sent by `mgen`: a process on each host. `mgen`
//! 5.02b of Debian listens in IPv4 alone, so our player always receives.

use std::fmt::Write as _;
use std::process::Command;

use strait_core::time::{Duration, Instant};
use strait_traffic::mgen::{Entry, Line, Protocol, micros_of_day};
use strait_traffic::{
    FlowLog, MgenTraffic, ScriptSource, ScriptText, Side, Traffic, flow_key, flow_reports,
};
use strait_wire::mgen::FLAG_CONTINUES;

use super::{Collected, Flow, Origin, Program};
use crate::ground::process::{Running, end_together, require};
use crate::{LabError, Stage};

/// `strait measure flows` on both hosts: the script on the first, on the second one that listens
/// to every port that the script sends to.
#[derive(Debug)]
pub(crate) struct Script {
    traffic: Box<MgenTraffic>,
    /// `mgen` itself plays it.
    by_mgen: bool,
    /// The end that sends, and the other.
    running: Vec<Running>,
}

/// Long enough for a process to start.
const LEAD: Duration = Duration::from_millis(300);
const WORDS: [&str; 2] = ["from", "to"];

impl Script {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Mgen(traffic) = &flow.traffic else {
            return Err(flow.wrong("it is no script"));
        };
        if traffic.captures.keys().any(|name| name.contains('/')) {
            return Err(flow.wrong("captures have to be in the folder of the script"));
        }
        let by_mgen = flow.config.program.is_some();
        if by_mgen {
            require("mgen", "mgen")?;
        }
        Ok(Self {
            traffic: traffic.clone(),
            by_mgen,
            running: Vec::new(),
        })
    }

    fn command(stage: &Stage<'_>, flow: &Flow, word: &str, origin: Origin) -> Command {
        let name = &flow.config.name;
        if flow.config.program.is_some() && word == WORDS[0] {
            let mut command = Command::new("mgen");
            let file = |ending: &str| stage.scratch.file(&format!("{name}.{word}.{ending}"));
            command.args(["txlog", "flush", "input"]).arg(file("mgn"));
            command.arg("output").arg(file("drc"));
            return command;
        }
        let mut command = Command::new(stage.program);
        command.args(["measure", "flows"]);
        command.arg(stage.scratch.file(&format!("{name}.{word}.mgn")));
        command
            .arg("--log")
            .arg(stage.scratch.file(&format!("{name}.{word}.drc")));
        command.args(["--seed", &stage.seed.to_string()]);
        command.args(["--name", &format!("traffic.{name}.0")]);
        command.args(["--dscp", &flow.config.dscp.to_string()]);
        let at = |since: Duration| (origin.at + since).as_nanos().to_string();
        let (start, until) = match word {
            "from" => (flow.start, flow.stop),
            _ => (Duration::ZERO, stage.duration),
        };
        command.args(["--start-ns", &at(start), "--until-ns", &at(until)]);
        command
    }

    /// What the receiving end plays.
    fn listener(&self) -> String {
        let mut text = String::new();
        for (protocol, dst) in self.traffic.script.destinations() {
            let _ = writeln!(text, "0 LISTEN {} {}", protocol.name(), dst.port());
        }
        text
    }
}

/// A file in the format of `tcpdump` with these gaps and sizes, and nothing else.
fn capture(frames: &[(u64, u32)]) -> Vec<u8> {
    // Nanoseconds, version 2.4, Ethernet, frames of which nothing is kept.
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let mut at_ns = 0_u64;
    for (gap_ns, octets) in frames {
        at_ns = at_ns.saturating_add(*gap_ns);
        let (seconds, rest) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        // Ethernet, IPv4 and UDP headers are taken off when it is read.
        for word in [seconds as u32, rest as u32, 0, octets + 42] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

impl Program for Script {
    fn lead(&self) -> Duration {
        if self.by_mgen { Duration::ZERO } else { LEAD }
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let name = &flow.config.name;
        let whole = match &flow.config.script {
            Some(ScriptSource::Whole(whole)) => whole,
            _ => &ScriptText::default(),
        };
        stage
            .scratch
            .write(&format!("{name}.from.mgn"), whole.text.as_bytes())?;
        stage
            .scratch
            .write(&format!("{name}.to.mgn"), self.listener().as_bytes())?;
        for (file, frames) in &whole.captures {
            stage.scratch.write(file, &capture(frames))?;
        }
        // The receiver first: it has to be there when the first message comes.
        for end in [1, 0] {
            let command = Self::command(stage, flow, WORDS[end], origin);
            let label = format!("{name}-{}", WORDS[end]);
            self.running
                .push(stage.start(flow.host(stage, end), &label, command)?);
        }
        Ok(())
    }

    fn finish(&mut self) {
        end_together(&self.running, Duration::from_secs(1));
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let name = &flow.config.name;
        let mut notes = Vec::new();
        let [from, to] = WORDS.map(|word| {
            let path = stage.scratch.file(&format!("{name}.{word}.drc"));
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.is_empty() {
                notes.push(format!("{name}: `{word}` left no log"));
            }
            let side = if word == "from" { Side::From } else { Side::To };
            read(&text, FlowLog::new(name, side), origin)
        });
        // `mgen` tells its version there.
        for running in self.running.iter().take(if self.by_mgen { 1 } else { 2 }) {
            notes.extend(flow.complaints(Some(running)));
        }
        Collected {
            reports: flow_reports(&flow.config, &from, &to),
            answers: Vec::new(),
            notes,
        }
    }
}

/// What a log of MGEN's says, in time of the run.
pub(super) fn read(text: &str, mut log: FlowLog, origin: Origin) -> FlowLog {
    const DAY_US: u64 = 86_400_000_000;
    let begin_us = micros_of_day(origin.wall_ns);
    let since = |at_us: u64| {
        let since_us = (at_us + DAY_US - begin_us) % DAY_US;
        // Less than nothing: before the beginning.
        let since_us = if since_us > DAY_US / 2 { 0 } else { since_us };
        Instant::from_nanos(since_us * 1000)
    };
    // Octets of the pieces so far, by connection and flow.
    let mut before = std::collections::BTreeMap::new();
    for line in text
        .lines()
        .filter_map(|line| Line::parse(line).ok().flatten())
    {
        let at = since(line.at_us);
        match line.entry {
            Entry::Send(send) => {
                log.sent(at, flow_key(send.flow, send.sequence), send.octets as u32);
            }
            Entry::Recv(recv) => {
                let key = flow_key(recv.flow, recv.sequence);
                let all: &mut u64 = before.entry((recv.src, key)).or_default();
                *all += recv.octets;
                if recv.protocol != Protocol::Tcp || recv.flags & FLAG_CONTINUES == 0 {
                    log.received(at, key, *all as u32);
                    before.remove(&(recv.src, key));
                }
            }
            Entry::Rerr(..) => log.count("unusable"),
            _ => {}
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_becomes_times_of_the_run_across_midnight() {
        // 23:59:59.5 of some day.
        let origin = Origin {
            at: Instant::ZERO,
            wall_ns: 86_400_000_000_000 * 9 - 500_000_000,
        };
        let text = "23:59:59.400000 START Mgen Version 5.02b\n\
             23:59:59.600000 SEND proto>UDP flow>3 seq>9 srcPort>1 dst>::1/5 size>100 \n\
             00:00:00.250000 RECV proto>TCP flow>1 seq>0 src>1.2.3.4/5 dst>1.2.3.4/6 \
             sent>00:00:00.1 size>65535 gps>INVALID,999.000000,999.000000,4294966297 flags>0x01 \n\
             00:00:00.500000 RECV proto>TCP flow>1 seq>0 src>1.2.3.4/5 dst>1.2.3.4/6 \
             sent>00:00:00.1 size>100 gps>INVALID,999.000000,999.000000,4294966297 flags>0x02 \n\
             not a line\n00:00:00.6 RERR type>length src>1.2.3.4/5\n";
        let log = read(text, FlowLog::new("x", Side::To), origin);
        let sent: Vec<_> = log
            .sent
            .iter()
            .map(|m| (m.sequence, m.at_ns, m.octets))
            .collect();
        assert_eq!(sent, [(flow_key(3, 9), 100_000_000, 100)]);
        let got: Vec<_> = log
            .received
            .iter()
            .map(|m| (m.sequence, m.at_ns, m.octets))
            .collect();
        assert_eq!(got, [(flow_key(1, 0), 1_000_000_000, 65_635)]);
        assert_eq!(log.counters["unusable"], 1);
    }

    #[test]
    fn a_written_capture_reads_back() {
        let frames = [(0, 100), (1_500_000_001, 28), (7, 8192)];
        let read = strait_traffic::mgen::read_capture(&capture(&frames)).unwrap();
        let read: Vec<_> = read
            .iter()
            .map(|frame| (frame.gap_ns, frame.octets))
            .collect();
        assert_eq!(read, frames);
    }
}
