//! Transfers and pages by `curl` from a real HTTP server.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::UNIX_EPOCH;

use nix::sys::signal::Signal;
use strait_core::time::Duration;
use strait_world::traffic::{
    FlowLog, Kind, ObjectMark, Side, Traffic, Transfer, object_octets, report,
};

use super::measured::congestion;
use super::net::is_bound;
use super::process::{Running, require};
use super::programs::{Collected, Flow, Origin, Program};
use super::{LabError, Stage};
use crate::error::Doing;
use crate::voice::monotonic;

/// `python3 -m http.server` where the data is, `curl` where it goes.
#[derive(Debug)]
pub(super) struct Web {
    /// The congestion control of this system that the server is to send by, where that matters.
    congestion: Option<String>,
    /// Octets of each object.
    sizes: Vec<u64>,
    /// Connections at once.
    connections: u32,
    server: Option<Running>,
    client: Option<Running>,
    started_ns: Option<u64>,
}

/// Octets that all objects together may have: they are files of the scratch folder.
const OCTETS_MAX: u64 = 1 << 30;

impl Web {
    pub(super) fn new(flow: &Flow) -> Result<Self, LabError> {
        let (sizes, connections) = match &flow.traffic {
            Traffic::Tcp { octets, .. } => (vec![*octets], 1),
            Traffic::Page {
                objects,
                octets,
                connections,
                ..
            } => (object_octets(*objects, *octets), *connections),
            _ => return Err(flow.wrong("it is neither tcp nor page")),
        };
        if sizes.iter().sum::<u64>() > OCTETS_MAX {
            return Err(flow.wrong("`octets` must be at most 1 GiB"));
        }
        require("curl", "curl")?;
        require("python3", "python3")?;
        let endpoint = flow.config.endpoint.as_deref().and_then(congestion);
        Ok(Self {
            congestion: endpoint.map(Into::into),
            sizes,
            connections,
            server: None,
            client: None,
            started_ns: None,
        })
    }

    /// The ends with the client and with the server: the data of a transfer flows from the host
    /// that begins, that of a page towards it.
    fn ends(flow: &Flow) -> [usize; 2] {
        match flow.config.kind {
            Kind::Page => [0, 1],
            _ => [1, 0],
        }
    }

    fn fetched(stage: &Stage<'_>, flow: &Flow, index: usize) -> PathBuf {
        let name = format!("{}.fetched/{index}", flow.config.name);
        stage.scratch.file(&name)
    }

    /// The port of the server: that of the traffic's other end, whichever host it is on.
    const fn port(flow: &Flow) -> u16 {
        flow.ends[1].port()
    }

    /// What `curl` is to fetch, in the form of its own configuration.
    fn orders(&self, stage: &Stage<'_>, flow: &Flow) -> String {
        let host = match flow.address(Self::ends(flow)[1]) {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let order = |index: usize| {
            let path = Self::fetched(stage, flow, index);
            format!(
                "url = \"http://{host}:{}/{index}\"\noutput = \"{}\"\n",
                Self::port(flow),
                path.display()
            )
        };
        (0..self.sizes.len()).map(order).collect()
    }
}

/// `http.server` whose connections have a congestion control of their own: the one of the route
/// counts unless a program chooses for the connection.
fn by_congestion(control: &str) -> String {
    format!(
        "import http.server, runpy, socket, socketserver\n\
         accept = socketserver.TCPServer.get_request\n\
         def get_request(self):\n\
         \x20   connection, address = accept(self)\n\
         \x20   connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'{control}')\n\
         \x20   return connection, address\n\
         socketserver.TCPServer.get_request = get_request\n\
         runpy.run_module('http.server', run_name='__main__')\n"
    )
}

/// Where in the content of a traffic an object begins.
const fn place(index: usize) -> u64 {
    (index as u64) << 32
}

impl Program for Web {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let mut content = flow.config.content(stage.seed);
        for (index, octets) in self.sizes.iter().enumerate() {
            let mut file = Vec::new();
            content.append(place(index), *octets as usize, &mut file);
            let name = format!("{}.served/{index}", flow.config.name);
            stage.scratch.write(&name, &file)?;
        }
        let folder = stage.scratch.file(&format!("{}.fetched", flow.config.name));
        fs::create_dir_all(&folder).doing(|| format!("create folder {}", folder.display()))?;
        let mut command = Command::new("python3");
        match &self.congestion {
            None => command.args(["-m", "http.server"]),
            Some(control) => command.args(["-c", &by_congestion(control)]),
        };
        command.arg(Self::port(flow).to_string());
        // Both families, and connections that stay open for the next object.
        command.args(["--bind", "::", "--protocol", "HTTP/1.1", "--directory"]);
        command.arg(stage.scratch.file(&format!("{}.served", flow.config.name)));
        let name = format!("{}-server", flow.config.name);
        let host = flow.host(stage, Self::ends(flow)[1]);
        self.server = Some(stage.start(host, &name, command)?);
        Ok(())
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        self.server.as_ref().map_or(Ok(()), Running::expect_alive)?;
        let host = flow.host(stage, Self::ends(flow)[1]);
        Ok(is_bound(host, true, Self::port(flow))?)
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let orders = self.orders(stage, flow);
        let orders = stage
            .scratch
            .write(&format!("{}.curl", flow.config.name), orders.as_bytes())?;
        let mut command = Command::new("curl");
        command.args(["-q", "--silent", "--show-error", "--fail", "--noproxy", "*"]);
        if flow.config.kind == Kind::Page {
            command.args(["--parallel", "--parallel-immediate", "--parallel-max"]);
            command.arg(self.connections.to_string());
        }
        command.args(["--write-out", "%{time_connect} %{time_total}\\n"]);
        command.arg("--config").arg(orders);
        let host = flow.host(stage, Self::ends(flow)[0]);
        self.started_ns = Some(monotonic().since(origin.at).as_nanos() as u64);
        self.client = Some(stage.start(host, &flow.config.name, command)?);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.client.as_ref().and_then(Running::ended).is_some()
    }

    fn finish(&mut self) {
        for running in self.client.iter().chain(&self.server) {
            running.signal(Signal::SIGTERM);
            running.wait(Duration::from_millis(500));
        }
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let output = self
            .client
            .as_ref()
            .map(Running::output)
            .unwrap_or_default();
        let times = output.lines().next().and_then(read_times);
        let mut content = flow.config.content(stage.seed);
        let mut transfer = Transfer {
            started_ns: self.started_ns,
            ..Transfer::default()
        };
        for (index, octets) in self.sizes.iter().enumerate() {
            let path = Self::fetched(stage, flow, index);
            let Ok(file) = fs::read(&path) else { continue };
            transfer.octets += file.len() as u64;
            transfer.wrong_octets += content.count_wrong(place(index), &file);
            if file.len() as u64 == *octets {
                transfer.objects.push(ObjectMark {
                    index: index as u32,
                    at_ns: origin.of_wall(written_ns(&path)),
                    octets: *octets,
                });
            }
        }
        transfer.objects.sort_by_key(|mark| mark.at_ns);
        let complete = transfer.objects.len() == self.sizes.len();
        let ended_well = self.client.as_ref().and_then(Running::ended);
        let ended_well = ended_well.is_some_and(|status| status.success());
        let after = |seconds: f64| Some(self.started_ns? + (seconds * 1e9) as u64);
        if complete && ended_well {
            transfer.finished_ns = match flow.config.kind {
                Kind::Page => transfer.objects.last().map(|mark| mark.at_ns),
                _ => times.and_then(|(_, total_s)| after(total_s)),
            };
        }
        if flow.config.kind == Kind::Tcp {
            transfer.connected_ns = times.and_then(|(connect_s, _)| after(connect_s));
        }
        let mut notes = Vec::new();
        if transfer.finished_ns.is_none() {
            let complaints = self.client.as_ref().map(Running::complaints);
            let complaints = complaints.filter(|text| !text.is_empty());
            notes.push(format!(
                "{}: curl didn't fetch everything: {}",
                flow.config.name,
                complaints.unwrap_or_else(|| String::from("it didn't end in time"))
            ));
        }
        Collected {
            reports: vec![joined(flow, &transfer)],
            answers: Vec::new(),
            notes,
        }
    }
}

/// The client knows both ends of its transfers.
fn joined(flow: &Flow, transfer: &Transfer) -> strait_world::traffic::FlowReport {
    let log = |side| FlowLog {
        transfer: Some(transfer.clone()),
        ..FlowLog::new(&flow.config.name, side)
    };
    report(&flow.config, &log(Side::From), &log(Side::To))
}

/// `0.093104 6.200105`: until the connection was open, until everything had arrived.
fn read_times(line: &str) -> Option<(f64, f64)> {
    let (connect, total) = line.trim().split_once(' ')?;
    Some((connect.parse().ok()?, total.parse().ok()?))
}

/// When a file got its last octet, in nanoseconds since 1970.
fn written_ns(path: &PathBuf) -> u64 {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    let since = modified
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
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
