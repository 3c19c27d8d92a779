//! Echo requests by `ping` of iputils.

use std::process::Command;

use nix::sys::signal::Signal;
use strait_core::time::{Duration, Instant};
use strait_traffic::{FlowLog, Side, Traffic, report};

use super::named::{HostNames, told};
use super::{Collected, Flow, Origin, Program};
use crate::ground::process::{Running, require};
use crate::{LabError, Stage};

/// `ping` on the host that begins.
#[derive(Debug)]
pub(crate) struct Ping {
    payload_octets: u32,
    period: Duration,
    count: u64,
    names: HostNames,
    running: Option<Running>,
}

/// Below this there is no room for the time of sending, and `ping` measures nothing.
const PAYLOAD_MIN: u32 = 16;

impl Ping {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Ping {
            payload_octets,
            period,
            count,
        } = flow.traffic
        else {
            return Err(flow.wrong("it is no ping"));
        };
        if payload_octets < PAYLOAD_MIN {
            return Err(flow.wrong("`payload` must be at least 16 B"));
        }
        require("ping", "iputils-ping")?;
        let fitting = flow.span().as_nanos().div_ceil(period.as_nanos().max(1));
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        Ok(Self {
            payload_octets,
            period,
            count: count.map_or(fitting, |count| count.min(fitting)),
            names: HostNames::default(),
            running: None,
        })
    }
}

impl Program for Ping {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        self.names.start(stage, flow)
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, _: Origin) -> Result<(), LabError> {
        let mut command = Command::new("ping");
        command.args([flow.family_option(), "-n", "-D"]);
        command.args(["-c", &self.count.to_string()]);
        command.args(["-i", &self.period.as_secs_f64().to_string()]);
        // Where nothing was answered yet, it would end 10 s after its last request.
        let patience = stage.duration.saturating_sub(flow.start);
        command.args(["-W", &patience.as_secs_f64().ceil().to_string()]);
        command.args(["-s", &self.payload_octets.to_string()]);
        command.args(["-Q", &flow.traffic_class().to_string()]);
        command.arg(flow.address(1).to_string());
        let name = &flow.config.name;
        let command = told(flow, command);
        self.running = Some(stage.start(flow.host(stage, 0), name, command)?);
        Ok(())
    }

    fn client(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    fn finish(&mut self) {
        if let Some(running) = &self.running {
            running.end_by(Signal::SIGINT, Duration::from_millis(500));
        }
        self.names.stop();
    }

    fn collect(&self, _: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let output = self.running.as_ref().map(Running::output);
        let pings = read(&output.unwrap_or_default());
        let nominal = |sequence: u64| {
            let after_ns = sequence.saturating_mul(self.period.as_nanos() as u64);
            Instant::ZERO + flow.start + Duration::from_nanos(after_ns)
        };
        let mut log = FlowLog::new(&flow.config.name, Side::From);
        let mut answers = Vec::new();
        for sequence in 0..pings.sent {
            let reply = pings
                .replies
                .iter()
                .find(|reply| reply.sequence == sequence);
            let sent = reply.map_or_else(
                || nominal(sequence),
                |reply| {
                    Instant::from_nanos(origin.of_wall(reply.at_ns).saturating_sub(reply.rtt_ns))
                },
            );
            log.sent(sent, sequence, self.payload_octets);
        }
        for reply in &pings.replies {
            let at = origin.of_wall(reply.at_ns);
            answers.push((
                at.saturating_sub(reply.rtt_ns) as f64 / 1e9,
                at as f64 / 1e9,
            ));
            log.received(Instant::from_nanos(at), reply.sequence, self.payload_octets);
        }
        let notes = if pings.sent == 0 {
            let complaints = self.running.as_ref().map(Running::complaints);
            vec![format!(
                "{}: no request was sent: {}",
                flow.config.name,
                complaints.unwrap_or_default()
            )]
        } else {
            Vec::new()
        };
        Collected {
            reports: vec![report(
                &flow.config,
                &log,
                &FlowLog::new(&flow.config.name, Side::To),
            )],
            answers,
            notes,
        }
    }
}

/// What `ping` printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pings {
    sent: u64,
    replies: Vec<Reply>,
}

#[derive(Debug, PartialEq, Eq)]
struct Reply {
    /// From 0 on.
    sequence: u64,
    /// When it came, in nanoseconds since 1970.
    at_ns: u64,
    rtt_ns: u64,
}

fn read(output: &str) -> Pings {
    let replies: Vec<Reply> = output.lines().filter_map(read_reply).collect();
    let told = output.lines().find_map(|line| {
        let (count, _) = line.split_once(" packets transmitted")?;
        count.parse().ok()
    });
    // One that was killed tells no count: those after the last answer are unknown.
    let seen = replies.iter().map(|reply| reply.sequence + 1).max();
    Pings {
        sent: told.or(seen).unwrap_or(0),
        replies,
    }
}

/// `[1700000000.123456] 64 bytes from 10.2.0.2: icmp_seq=1 ttl=62 time=86.5 ms`
fn read_reply(line: &str) -> Option<Reply> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    let after = |key: &str| {
        let (_, text) = rest.split_once(key)?;
        text.split_whitespace().next()
    };
    let sequence: u64 = after("icmp_seq=")?.parse().ok()?;
    let rtt_ms: f64 = after("time=")?.parse().ok()?;
    let at_s: f64 = stamp.parse().ok()?;
    Some(Reply {
        sequence: sequence.checked_sub(1)?,
        at_ns: (at_s * 1e6).round() as u64 * 1000,
        rtt_ns: (rtt_ms * 1e6) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_and_the_count_are_read() {
        let output = "PING fd00:2::2(fd00:2::2) 56 data bytes\n\
            [1795227410.063730] 64 bytes from fd00:2::2: icmp_seq=1 ttl=62 time=187 ms\n\
            [1795227412.100000] 64 bytes from fd00:2::2: icmp_seq=3 ttl=62 time=0.250 ms\n\
            From 10.1.0.1 icmp_seq=2 Destination Host Unreachable\n\
            [1795227412.2] From 10.1.0.1 icmp_seq=2 Destination Net Unreachable\n\
            \n--- fd00:2::2 ping statistics ---\n\
            4 packets transmitted, 2 received, 50% packet loss, time 3003ms\n";
        let pings = read(output);
        assert_eq!(pings.sent, 4);
        let first = Reply {
            sequence: 0,
            at_ns: 1_795_227_410_063_730_000,
            rtt_ns: 187_000_000,
        };
        assert_eq!(pings.replies[0], first);
        assert_eq!(
            (pings.replies[1].sequence, pings.replies[1].rtt_ns),
            (2, 250_000)
        );
        assert_eq!(pings.replies.len(), 2);
        assert_eq!(read(&output[..130]).sent, 1);
        assert_eq!(read("ping: nonsense\n[x] time="), Pings::default());
    }
}
