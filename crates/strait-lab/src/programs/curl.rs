//! A transfer by `curl`, or by `wget` from servers that are in use.

use std::process::Command;
use std::time::UNIX_EPOCH;

use strait_live::clock::monotonic;
use strait_traffic::{LiveProgram, Traffic};

use super::web::{Manner, WebServer, joined, stop, unfinished};
use super::{Collected, Flow, Origin, Program};
use crate::ground::process::Running;
use crate::{LabError, Stage};

/// A server at the host that begins, as the data flows from it, and its client at the other.
#[derive(Debug)]
pub(crate) struct Curl {
    server: WebServer,
    client: Option<Running>,
    started_ns: Option<u64>,
}

impl Curl {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Tcp { octets, .. } = flow.traffic else {
            return Err(flow.wrong("it is no tcp"));
        };
        let manner = Manner {
            program: flow.config.program,
            ..Manner::default()
        };
        Ok(Self {
            server: WebServer::new(flow, 0, vec![octets], manner)?,
            client: None,
            started_ns: None,
        })
    }
}

impl Program for Curl {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        self.server.start(stage, flow)
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        self.server.is_ready(stage, flow)
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let to = WebServer::fetched(stage, flow).join("0");
        let from = self.server.authority(flow);
        let mut command;
        if let Some(program) = flow.config.program {
            command = Command::new("wget");
            command.args(["--no-config", "--no-proxy", "--no-verbose", "--tries", "1"]);
            command.arg("--no-use-server-timestamps");
            command.arg("--output-document").arg(to);
            let is_ftp = program == LiveProgram::Ftp;
            let scheme = if is_ftp { "ftp" } else { "http" };
            command.arg(format!("{scheme}://{from}/0"));
        } else {
            command = Command::new("curl");
            command.args(["-q", "--silent", "--show-error", "--fail", "--noproxy", "*"]);
            command.args(["--write-out", "%{time_connect} %{time_total}\\n"]);
            command.arg("--output").arg(to);
            command.arg(format!("http://{from}/0"));
        }
        self.started_ns = Some(monotonic().since(origin.at).as_nanos() as u64);
        self.client = Some(stage.start(flow.host(stage, 1), &flow.config.name, command)?);
        Ok(())
    }

    fn client(&self) -> Option<&Running> {
        self.client.as_ref()
    }

    fn finish(&mut self) {
        stop(self.client.as_ref());
        self.server.stop();
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let client = self.client.as_ref();
        let output = client.map(Running::output).unwrap_or_default();
        let times = output.lines().next().and_then(read_times);
        let ended_well = client.and_then(Running::ended);
        let ended_well = ended_well.is_some_and(|status| status.success());
        let after = |seconds: f64| Some(self.started_ns? + (seconds * 1e9) as u64);
        let mut transfer = self.server.compared(stage, flow);
        transfer.started_ns = self.started_ns;
        transfer.connected_ns = times.and_then(|(connect_s, _)| after(connect_s));
        if ended_well && self.server.has_all(&transfer) {
            transfer.finished_ns = match flow.config.program {
                Some(_) => written_ns(stage, flow).map(|it| origin.of_wall(it)),
                None => times.and_then(|(_, total_s)| after(total_s)),
            };
        }
        Collected {
            reports: vec![joined(flow, &transfer)],
            answers: Vec::new(),
            notes: unfinished(flow, &transfer, client).into_iter().collect(),
        }
    }
}

/// When its file was written last, in nanoseconds since 1970.
fn written_ns(stage: &Stage<'_>, flow: &Flow) -> Option<u64> {
    let file = WebServer::fetched(stage, flow).join("0");
    let written = std::fs::metadata(file).ok()?.modified().ok()?;
    let since = written.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// `0.093104 6.200105`: until the connection was open, until everything had arrived.
fn read_times(line: &str) -> Option<(f64, f64)> {
    let (connect, total) = line.trim().split_once(' ')?;
    Some((connect.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_transfer_are_read() {
        assert_eq!(
            read_times("0.093104 6.200105\n"),
            Some((0.093_104, 6.200_105))
        );
        assert_eq!(read_times("curl: (7) Failed"), None);
        assert_eq!(read_times(""), None);
    }
}
