//! Datagrams at a rate by `iperf3`.

use std::collections::BTreeMap;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use strait_core::time::Duration;
use strait_world::traffic::{FlowReport, Kind, Traffic};

use super::net::is_bound;
use super::process::{Running, require};
use super::programs::{Collected, Flow, Origin, Program};
use super::{LabError, Stage};

/// An `iperf3` server for one test on the receiving host, and its client on the other.
#[derive(Debug)]
pub(super) struct Rate {
    payload_octets: u32,
    rate_bit_s: u64,
    seconds: u64,
    server: Option<Running>,
    client: Option<Running>,
}

/// The least that `iperf3` sends in a datagram.
const PAYLOAD_MIN: u32 = 16;
/// Before the end of a run, for the exchange of results over the narrow link.
const MARGIN: Duration = Duration::from_secs(3);

impl Rate {
    pub(super) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Udp {
            payload_octets,
            rate_bit_s,
            poisson,
        } = flow.traffic
        else {
            return Err(flow.wrong("it is no udp"));
        };
        if poisson {
            return Err(flow.wrong("iperf3 sends evenly: leave `poisson` away"));
        }
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
        Ok(())
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
        self.client = Some(stage.start(flow.host(stage, 0), name, command)?);
        Ok(())
    }

    fn finish(&mut self) {
        for running in self.client.iter().chain(&self.server) {
            running.signal(Signal::SIGTERM);
            running.wait(Duration::from_millis(500));
        }
    }

    fn collect(&self, _: &Stage<'_>, flow: &Flow, _: Origin) -> Collected {
        let output = self
            .server
            .as_ref()
            .map(Running::output)
            .unwrap_or_default();
        let result: Value = serde_json::from_str(&output).unwrap_or_default();
        let mut notes = Vec::new();
        let metrics = read(&result);
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

/// What the server measured. It tells no delays: its client's clock is another one to it.
fn read(result: &Value) -> BTreeMap<String, f64> {
    let sum = &result["end"]["sum_received"];
    let packets = sum["packets"].as_f64().filter(|packets| *packets > 0.0);
    let (Some(packets), Some(rate)) = (packets, sum["bits_per_second"].as_f64()) else {
        return BTreeMap::new();
    };
    let lost = sum["lost_packets"].as_f64().unwrap_or_default();
    BTreeMap::from([
        ("rate_bit_s".into(), arrivals_bit_s(result).unwrap_or(rate)),
        ("loss".into(), lost / packets),
    ])
}

/// The rate over the whole seconds in which datagrams came without a gap: the first and the last
/// are cut by the test's own beginning and end.
fn arrivals_bit_s(result: &Value) -> Option<f64> {
    let seconds: Vec<&Value> = result["intervals"]
        .as_array()?
        .iter()
        .map(|interval| &interval["sum"])
        .filter(|sum| sum["bytes"].as_f64().is_some_and(|octets| octets > 0.0))
        .collect();
    let inner = seconds.get(1..seconds.len().checked_sub(1)?)?;
    let total = |key: &str| {
        inner
            .iter()
            .filter_map(|sum| sum[key].as_f64())
            .sum::<f64>()
    };
    let span_s = total("seconds");
    (inner.len() >= 2).then(|| total("bytes") * 8.0 / span_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_whole_seconds() {
        let second = |octets: u32| serde_json::json!({"sum": {"bytes": octets, "seconds": 1.0}});
        let sums = serde_json::json!({"packets": 40, "lost_packets": 10, "bits_per_second": 7.0});
        let mut result = serde_json::json!({
            "intervals": [second(200), second(1000), second(1200), second(300), second(0)],
            "end": {"sum_received": sums},
        });
        let metrics = read(&result);
        assert_eq!((metrics["rate_bit_s"], metrics["loss"]), (8800.0, 0.25));
        // Too short a test has only its mean.
        result["intervals"] = serde_json::json!([second(200), second(1000)]);
        assert_eq!(read(&result)["rate_bit_s"], 7.0);
        assert!(read(&serde_json::json!({"error": "no route"})).is_empty());
    }
}
