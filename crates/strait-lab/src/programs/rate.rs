//! Datagrams at a rate by `iperf3`.

use std::collections::BTreeMap;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use strait_core::time::Duration;
use strait_traffic::{FlowReport, Kind, Traffic};

use super::named::{HostNames, told};
use super::{Collected, Flow, Origin, Program};
use crate::ground::net::is_bound;
use crate::ground::process::{Running, require};
use crate::{LabError, Stage};

/// An `iperf3` server for one test on the receiving host, and its client on the other.
#[derive(Debug)]
pub(crate) struct Rate {
    payload_octets: u32,
    rate_bit_s: u64,
    seconds: u64,
    names: HostNames,
    server: Option<Running>,
    client: Option<Running>,
}

/// The least that `iperf3` sends in a datagram.
const PAYLOAD_MIN: u32 = 16;
/// Before the end of a run, for the exchange of results over the narrow link.
const MARGIN: Duration = Duration::from_secs(3);

impl Rate {
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
            return Err(flow.wrong("`payload` must be at least 16 B"));
        }
        require("iperf3", "iperf3")?;
        let span = match flow.config.stop {
            Some(_) => flow.span(),
            None => flow.span().saturating_sub(MARGIN),
        };
        Ok(Self {
            payload_octets,
            rate_bit_s,
            seconds: span.as_secs_f64().round().max(1.0) as u64,
            names: HostNames::default(),
            server: None,
            client: None,
        })
    }
}

impl Program for Rate {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let mut command = Command::new("iperf3");
        command.args([flow.family_option(), "-s", "-1", "--json", "-i", "1"]);
        command.args(["-p", &flow.ends[1].port().to_string()]);
        command.args(["-B", &flow.address(1).to_string()]);
        let name = format!("{}-server", flow.config.name);
        self.server = Some(stage.start(flow.host(stage, 1), &name, command)?);
        self.names.start(stage, flow)
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        self.server.as_ref().map_or(Ok(()), Running::expect_alive)?;
        Ok(is_bound(flow.host(stage, 1), true, flow.ends[1].port())?)
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, _: Origin) -> Result<(), LabError> {
        let mut command = Command::new("iperf3");
        command.args([flow.family_option(), "-u", "--json"]);
        command.args(["-c", &flow.address(1).to_string()]);
        command.args(["-p", &flow.ends[1].port().to_string()]);
        command.args(["-b", &self.rate_bit_s.to_string()]);
        command.args(["-l", &self.payload_octets.to_string()]);
        command.args(["-t", &self.seconds.to_string()]);
        command.args(["-S", &flow.traffic_class().to_string()]);
        let name = &flow.config.name;
        let command = told(flow, command);
        self.client = Some(stage.start(flow.host(stage, 0), name, command)?);
        Ok(())
    }

    fn is_over(&self, _stage: &Stage<'_>, _flow: &Flow) -> bool {
        let mut both = self.client.iter().chain(&self.server);
        self.client.is_some() && both.all(|it| it.ended().is_some())
    }

    fn finish(&mut self) {
        for running in self.client.iter().chain(&self.server) {
            running.end_by(Signal::SIGTERM, Duration::from_millis(500));
        }
        self.names.stop();
    }

    fn collect(&self, _: &Stage<'_>, flow: &Flow, _: Origin) -> Collected {
        let output = self
            .server
            .as_ref()
            .map(Running::output)
            .unwrap_or_default();
        let result: Value = serde_json::from_str(&output).unwrap_or_default();
        let mut notes = Vec::new();
        let metrics = read(&result, self.seconds);
        if metrics.is_empty() {
            let client = self.client.as_ref().map(Running::output);
            let client: Value =
                serde_json::from_str(&client.unwrap_or_default()).unwrap_or_default();
            let error = client["error"]
                .as_str()
                .or_else(|| result["error"].as_str());
            notes.push(format!(
                "{}: iperf3 has no result: {}",
                flow.config.name,
                error.unwrap_or("it didn't end in time")
            ));
        }
        Collected {
            reports: vec![FlowReport {
                metrics,
                ..FlowReport::empty(flow.config.name.clone(), Kind::Udp)
            }],
            answers: Vec::new(),
            notes,
        }
    }
}

/// What the server measured in a test of so many seconds. It tells no delays: its client's clock is
/// another one to it.
fn read(result: &Value, seconds: u64) -> BTreeMap<String, f64> {
    let sum = &result["end"]["sum_received"];
    let Some(packets) = sum["packets"].as_f64().filter(|packets| *packets > 0.0) else {
        return BTreeMap::new();
    };
    let lost = sum["lost_packets"].as_f64().unwrap_or_default();
    let (octets, lasted_s) = arrivals(result);
    let seconds = lasted_s.max(seconds as f64);
    BTreeMap::from([
        ("rate_bit_s".into(), octets * 8.0 / seconds),
        ("loss".into(), lost / packets),
    ])
}

/// What came, and how long that took: the server's end is later than the client's where a queue is
/// full. It tells octets second by second; how much of the first one was over before the first
/// datagram follows from how much came in the next.
fn arrivals(result: &Value) -> (f64, f64) {
    let intervals = result["intervals"].as_array().into_iter().flatten();
    let number = |interval: &Value, key: &str| interval["sum"][key].as_f64().unwrap_or_default();
    let all = intervals.map(|it| (number(it, "bytes"), number(it, "seconds")));
    let mut all: Vec<(f64, f64)> = all.skip_while(|(octets, _)| *octets <= 0.0).collect();
    while all.pop_if(|(octets, _)| *octets <= 0.0).is_some() {}
    let lead = match all[..] {
        [(first, _), (second, _), ..] if first < second => 1.0 - first / second,
        _ => 0.0,
    };
    let sum = |part: fn(&(f64, f64)) -> f64| all.iter().map(part).sum::<f64>();
    (sum(|it| it.0), sum(|it| it.1) - lead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_from_the_first_datagram_on() {
        let interval = |(octets, seconds): (u32, f64)| serde_json::json!({"sum": {"bytes": octets, "seconds": seconds}});
        let of = |intervals: &[(u32, f64)]| {
            let intervals: Vec<Value> = intervals.iter().map(|it| interval(*it)).collect();
            let sums = serde_json::json!({"packets": 40, "lost_packets": 10});
            let result = serde_json::json!({"intervals": intervals, "end": {"sum_received": sums}});
            read(&result, 3)
        };
        let rate = |intervals: &[(u32, f64)]| of(intervals)["rate_bit_s"];
        // It began in the middle of a second, and ended three later; or a queue went on after that.
        let begun = [(0, 1.0), (500, 1.0), (1000, 1.0), (1000, 1.0), (500, 0.5)];
        assert_eq!(rate(&begun), 8000.0);
        assert_eq!(
            rate(&[(500, 1.0), (1000, 1.0), (1000, 1.0), (1000, 1.0)]),
            8000.0
        );
        // It was cut.
        assert_eq!(rate(&[(1000, 1.0), (500, 1.0), (0, 1.0), (0, 0.5)]), 4000.0);
        assert_eq!(of(&[(1000, 1.0)])["loss"], 0.25);
        assert!(read(&serde_json::json!({"error": "no route"}), 3).is_empty());
    }
}
