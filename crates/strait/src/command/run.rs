//! A gateway on this host.

use std::path::PathBuf;
use std::process::ExitCode;

use strait_live::gateway::{LiveGateway, RunOptions, StartError};
use strait_live::{Clock, fail_points};
use strait_node::NodeConfig;
use strait_node::config::{JournalConfig, PortAddress, PortKind};
use strait_scenario::{DiskFiles, load_node};

use crate::events::Form;
use crate::exit::BadInput;

/// Run a gateway on this host until SIGINT or SIGTERM.
///
/// It makes a TUN or TAP interface for the host side, sets its addresses and routes, and takes all
/// of them away again. When it is up it says so by one line on stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  strait run node.toml\n  \
                  strait run node.toml --device line=/dev/ttyUSB1 --status /run/strait/a.sock\n  \
                  strait run node.toml -v --log json 2> events.jsonl")]
pub(crate) struct Args {
    /// The node file.
    node: PathBuf,
    /// Use this device for a serial port, or this interface for an ip port.
    #[arg(long, value_name = "PORT=PATH", value_parser = pair)]
    device: Vec<(String, String)>,
    /// Use this local address for a udp port (ADDR:PORT) or an ip port (ADDR).
    #[arg(long, value_name = "PORT=ADDR", value_parser = pair)]
    local: Vec<(String, String)>,
    /// Use this address for a neighbour on a udp or ip port.
    #[arg(long, value_name = "PORT.NEIGHBOUR=ADDR", value_parser = pair)]
    peer: Vec<(String, String)>,
    /// Use this name for the interface of the first host side.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Use this path for the status socket.
    #[arg(long, value_name = "PATH")]
    status: Option<String>,
    /// Write a journal to this file, in place of the node file's if it has one.
    #[arg(long, value_name = "FILE")]
    journal: Option<String>,
    /// Write one line of JSON for each packet that ended here, with its times of arrival and
    /// departure.
    #[arg(long, value_name = "FILE")]
    packets: Option<PathBuf>,
    /// Format of the log [default: text; journald in a systemd service].
    #[arg(long, value_name = "FORM")]
    pub(super) log: Option<Form>,
    /// Run at ordinary priority. By default a gateway with a serial line or a radio asks for
    /// real-time scheduling.
    #[arg(long)]
    ordinary: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // The node's time begins with the process.
    let clock = Clock::start();
    fail_points::arm()?;
    let mut config = load_node(&DiskFiles, &args.node)?;
    override_keys(&mut config, args)?;
    let options = RunOptions {
        packets: args.packets.clone(),
        ordinary: args.ordinary,
    };
    let mut gateway =
        LiveGateway::start(clock, &config, &options).map_err(|error| match error {
            StartError::Config(error) => anyhow::Error::new(error),
            StartError::Host(error) => anyhow::Error::new(error),
        })?;
    crate::output::say(gateway.ready_line());
    gateway.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Puts the options of the command line in place of the file's keys.
fn override_keys(config: &mut NodeConfig, args: &Args) -> Result<(), BadInput> {
    for (name, device) in &args.device {
        let kind = "one of kind serial, ip or kiss";
        let place = port(config, "--device", name)?.device_mut();
        *place.ok_or_else(|| misplaced("--device", name, kind))? = Some(device.clone());
        if let PortKind::Kiss(kiss) = &mut port(config, "--device", name)?.kind {
            kiss.modem.modem = None;
        }
    }
    for (name, text) in &args.local {
        let place = port(config, "--local", name)?.local_mut();
        let kind = "one of kind udp or ip";
        *place.ok_or_else(|| misplaced("--local", name, kind))? = Some(address("--local", text)?);
    }
    for (name, text) in &args.peer {
        let Some((port_name, neighbour_name)) = name.split_once('.') else {
            let message = format!("--peer {name}: write PORT.NEIGHBOUR=ADDR");
            return Err(BadInput(message));
        };
        let port = port(config, "--peer", port_name)?;
        let known: Vec<_> = port.neighbours.iter().map(|entry| &*entry.name).collect();
        let unknown = unknown("--peer", "neighbour", neighbour_name, &known);
        let mut entries = port.neighbours.iter_mut();
        let neighbour = entries.find(|entry| entry.name == neighbour_name);
        neighbour.ok_or(unknown)?.address = Some(address("--peer", text)?);
    }
    if let Some(name) = &args.interface {
        config.host.interface.clone_from(name);
    }
    if let Some(path) = &args.status {
        config.status.socket = Some(path.clone());
    }
    if let Some(file) = &args.journal {
        match &mut config.journal {
            Some(journal) => journal.file.clone_from(file),
            None => config.journal = Some(journal_at(file)),
        }
    }
    Ok(())
}

/// A journal with the limits that it has where the node file doesn't say.
fn journal_at(file: &str) -> JournalConfig {
    JournalConfig {
        file: file.to_owned(),
        keep: JournalConfig::default_keep(),
        octets_max: JournalConfig::default_octets_max(),
        mask_payloads: false,
    }
}

fn port<'a>(
    config: &'a mut NodeConfig,
    option: &str,
    name: &str,
) -> Result<&'a mut strait_node::config::PortConfig, BadInput> {
    let known: Vec<_> = config.ports.iter().map(|port| &*port.name).collect();
    let unknown = unknown(option, "port", name, &known);
    let mut ports = config.ports.iter_mut();
    ports.find(|port| port.name == name).ok_or(unknown)
}

fn misplaced(option: &str, name: &str, kind: &str) -> BadInput {
    BadInput(format!("{option} {name}: the port has none; name {kind}"))
}

fn unknown(option: &str, what: &str, name: &str, known: &[&str]) -> BadInput {
    let known = known.join("`, `");
    BadInput(format!(
        "{option}: no {what} `{name}` (there are `{known}`)"
    ))
}

fn address(option: &str, text: &str) -> Result<PortAddress, BadInput> {
    text.parse()
        .map_err(|error| BadInput(format!("{option}: {error}")))
}
