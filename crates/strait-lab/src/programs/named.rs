//! Names of hosts: a server that knows them, and programs that look one up before they begin.

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use strait_traffic::{DNS_PORT, HOST_NAME_WAIT, HOSTS_ZONE, Ports, host_name};

use super::Flow;
use crate::ground::net::is_bound;
use crate::ground::process::{Running, require};
use crate::{LabError, Stage};

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// `dnsmasq` on the host that doesn't begin, if a traffic asks for its name.
#[derive(Debug, Default)]
pub(crate) struct HostNames(Option<Running>);

impl HostNames {
    /// Starts it, unless one is there already.
    pub(crate) fn start(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let host = flow.host(stage, 1);
        if flow.config.resolver.is_none() || is_bound(host, false, DNS_PORT)? {
            return Ok(());
        }
        require("dig", "bind9-dnsutils")?;
        require("dnsmasq", "dnsmasq-base")?;
        let mut command = Command::new("dnsmasq");
        command.args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv"]);
        command.args(["--no-hosts", "--bind-interfaces", "--pid-file="]);
        command.args(["--user=root", "--group=root", "--local-ttl=600"]);
        command.arg(format!("--port={DNS_PORT}"));
        command.arg(format!("--listen-address={}", flow.address(1)));
        command.arg(format!("--address=/{HOSTS_ZONE}/{}", flow.address(1)));
        command.arg(format!("--local=/{HOSTS_ZONE}/"));
        let name = format!("{}-names", flow.config.name);
        let running = self.0.insert(stage.start(host, &name, command)?);
        // Another traffic may ask for the same host's name: it is there by then.
        let until = Instant::now() + PATIENCE;
        while !is_bound(host, false, DNS_PORT)? && Instant::now() < until {
            running.expect_alive()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub(crate) fn stop(&self) {
        if let Some(running) = &self.0 {
            running.end_by(Signal::SIGTERM, Duration::from_millis(500));
        }
    }
}

/// Who is asked for the other host's name, and that; nothing where it isn't looked up.
fn asked(flow: &Flow) -> Option<(String, String)> {
    let resolver = flow.config.resolver?;
    let [from, to] = flow.ends.map(|end| end.port());
    Some((resolver.to_string(), host_name(Ports { from, to })))
}

/// A program that sends to the other host's address: where that has a name, to the address that is
/// told of it, as soon as that is.
pub(crate) fn told(flow: &Flow, command: Command) -> Command {
    let Some((resolver, name)) = asked(flow) else {
        return command;
    };
    let address = flow.address(1).to_string();
    let quoted = |word: &OsStr| match word.to_string_lossy() {
        word if word == address => "\"$to\"".to_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(quoted).collect();
    let wait_s = HOST_NAME_WAIT.as_secs();
    let dig = format!("dig +short +noedns +tries=1 +time={wait_s} @{resolver} {name} A");
    let script = format!(
        "until to=$({dig} | grep -m1 '^[0-9]'); do :; done\nexec {}",
        words.join(" ")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    shell
}
