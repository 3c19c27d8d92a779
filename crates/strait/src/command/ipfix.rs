//! Flows for collectors.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use strait_live::gateway::status_sockets;
use strait_live::status;
use strait_status::ipfix::{Exporter, PORT};

use super::status::only_socket;
use crate::exit::BadInput;

/// Tell a collector of the flows of running gateways, by IPFIX over UDP.
///
/// It is a process of its own, which asks status sockets: gateways don't notice. It has the flows
/// that count most, 64 of each gateway; the way back is a flow of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  strait ipfix --to 127.0.0.1:4739\n  \
                  strait ipfix /run/strait/a.sock --to collector.example --interval 60\n  \
                  nfcapd -w /var/cache/nfdump -p 4739        a collector")]
pub(crate) struct Args {
    /// Status sockets [default: all gateways that run here]. Their observation domains are 1, 2 and
    /// so on.
    sockets: Vec<PathBuf>,
    /// Collector [default port: 4739].
    #[arg(long, value_name = "HOST[:PORT]")]
    to: String,
    /// Seconds that each record covers.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = status::period)]
    interval: Duration,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let sockets = match (&args.sockets[..], status_sockets()) {
        ([], all) if all.is_empty() => vec![only_socket("ipfix")?],
        ([], all) => all,
        (named, _) => named.to_vec(),
    };
    let to = collector(&args.to)?;
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    };
    let out = UdpSocket::bind(any).context("cannot open a socket")?;
    out.connect(to)
        .with_context(|| format!("cannot reach {to}"))?;
    for (socket, domain) in sockets.into_iter().zip(1..) {
        let out = out.try_clone().context("cannot open a socket")?;
        let path = socket.clone();
        let mut exporter = Exporter::new(domain);
        let mut silent = false;
        status::follow(socket, args.interval, move |heard| {
            match heard {
                Ok(snapshot) => {
                    silent = false;
                    for message in exporter.messages(snapshot, now_ms()) {
                        // A collector that isn't there now may be there for the next one.
                        let _ = out.send(&message);
                    }
                }
                Err(why) if !silent => {
                    silent = true;
                    tracing::warn!("{}: {why}; it is asked again", path.display());
                }
                Err(_) => {}
            }
            true
        })
        .context("cannot start a thread")?;
    }
    // Until a signal: there is nothing to put in order.
    loop {
        std::thread::park();
    }
}

/// Where the collector is.
fn collector(to: &str) -> anyhow::Result<SocketAddr> {
    let with_port = to.to_socket_addrs();
    let found = with_port.or_else(|_| (to, PORT).to_socket_addrs());
    let found = found.ok().and_then(|mut all| all.next());
    let why = || {
        BadInput(format!(
            "--to: `{to}` is no HOST or HOST:PORT that can be found"
        ))
    };
    Ok(found.ok_or_else(why)?)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_millis() as u64)
}
