//! A page by curl's library, fetched as a browser does.

use std::process::Command;

use strait_core::time::Duration;
use strait_traffic::{ObjectMark, Ports, Site, Traffic, object_octets};

use super::named::HostNames;
use super::web::{Manner, WebServer, joined, stop, unfinished};
use super::{Collected, Flow, Origin, Program};
use crate::ground::process::Running;
use crate::{LabError, Stage};

/// What drives the library: `curl` itself asks for all objects at once, or for one after another.
const BROWSER: &str = include_str!("page.py");

/// A server at the host that doesn't begin, and the browser at the other.
#[derive(Debug)]
pub(crate) struct Page {
    connections: u32,
    site: Site,
    server: WebServer,
    names: HostNames,
    client: Option<Running>,
}

/// Long enough for a process to start.
const LEAD: Duration = Duration::from_millis(500);

impl Page {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Page {
            objects,
            octets,
            connections,
            site,
            ..
        } = flow.traffic
        else {
            return Err(flow.wrong("it is no page"));
        };
        if site.http2 && !site.tls {
            return Err(flow.wrong("`http2` takes `tls` here: servers offer it by that alone"));
        }
        let manner = Manner {
            program: None,
            tls: site.tls,
            http2: site.http2,
        };
        Ok(Self {
            connections,
            site,
            server: WebServer::new(flow, 1, object_octets(objects, octets), manner)?,
            names: HostNames::default(),
            client: None,
        })
    }
}

impl Program for Page {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        self.names.start(stage, flow)?;
        self.server.start(stage, flow)
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        self.server.is_ready(stage, flow)
    }

    fn lead(&self) -> Duration {
        LEAD
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let mut command = Command::new("python3");
        let objects = self.server.sizes.len() as u32;
        let [from, to] = flow.ends.map(|end| end.port());
        let hosts = 0..self.site.hosts as usize;
        let names = (0..objects).map(|it| self.site.named_by(it, objects));
        let page = serde_json::json!({
            "hosts": hosts.map(|host| self.site.name(host, Ports { from, to })).collect::<Vec<_>>(),
            "names": names.map(|it| [it.start, it.end]).collect::<Vec<_>>(),
            "address": flow.address(1),
            "port": to,
            "connections": self.connections,
            "folder": WebServer::fetched(stage, flow),
            "start": (origin.at + flow.start).as_nanos(),
            "tls": self.site.tls,
            "http2": self.site.http2,
            "resolver": flow.config.resolver,
            "via": self.site.via.map(|via| (via.scheme(), via.at.ip(), via.at.port())),
        });
        command.args(["-c", BROWSER, &page.to_string()]);
        self.client = Some(stage.start(flow.host(stage, 0), &flow.config.name, command)?);
        Ok(())
    }

    fn client(&self) -> Option<&Running> {
        self.client.as_ref()
    }

    fn finish(&mut self) {
        stop(self.client.as_ref());
        self.server.stop();
        self.names.stop();
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let client = self.client.as_ref();
        let output = client.map(Running::output).unwrap_or_default();
        let times = Times::read(&output, origin.at.as_nanos());
        let mut transfer = self.server.compared(stage, flow);
        transfer.started_ns = times.begun_ns;
        let marks = times.objects.into_iter().filter_map(|(index, at_ns)| {
            let octets = *self.server.sizes.get(index as usize)?;
            Some(ObjectMark {
                index,
                at_ns,
                octets,
            })
        });
        transfer.objects = marks.collect();
        if transfer.objects.len() == self.server.sizes.len() && self.server.has_all(&transfer) {
            transfer.finished_ns = transfer.objects.last().map(|mark| mark.at_ns);
        }
        Collected {
            reports: vec![joined(flow, &transfer)],
            answers: Vec::new(),
            notes: unfinished(flow, &transfer, client).into_iter().collect(),
        }
    }
}

/// What the browser printed, in nanoseconds of the run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Times {
    begun_ns: Option<u64>,
    /// Objects in the order in which they had come, and when.
    objects: Vec<(u32, u64)>,
}

impl Times {
    fn read(output: &str, origin_ns: u64) -> Self {
        let mut times = Self::default();
        let lines = output
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        for (what, at_ns) in lines.filter_map(|line| line.split_once(' ')) {
            let Ok(at_ns) = at_ns.parse::<u64>() else {
                continue;
            };
            let at_ns = at_ns.saturating_sub(origin_ns);
            match what.parse() {
                Ok(index) => times.objects.push((index, at_ns)),
                Err(_) if what == "begun" => times.begun_ns = Some(at_ns),
                Err(_) => {}
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_page_are_read() {
        let times = Times {
            begun_ns: Some(5),
            objects: vec![(0, 1_000_000_000), (2, 1_500_000_000)],
        };
        // The last line is cut off where the program was ended.
        let output = "begun 105\n0 1000000100\nwarning\nnot 7 times\n2 1500000100\n1 150000";
        assert_eq!(Times::read(output, 100), times);
        assert_eq!(Times::read("", 0), Times::default());
    }
}
