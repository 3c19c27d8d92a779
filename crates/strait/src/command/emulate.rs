//! A link emulator between two ports of this host.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use strait_emulate::{EmulateConfig, EmulateError, EndSpec, EndSpecError, Medium, NetConfig};
use strait_node::config_text::ConfigError;
use strait_scenario::{DiskFiles, load_link};

use crate::exit::BadInput;

/// Emulate a link between two ports of this host, in real time, until SIGINT or SIGTERM.
///
/// A serial link's ends are pseudo-terminals (pty:PATH), those of a link for frames are UDP
/// sockets (udp:LOCAL->PEER), KISS modems (kiss:PATH, kiss:ADDR:PORT(@NETNS), and
/// direwolf:ADDR:PORT(@NETNS), which tells its queue as Dire Wolf does) or TUN interfaces
/// (tun:NAME[@NETNS][,ADDRESS/LENGTH ...]). The medium is the simulator's: rate, delay, jitter,
/// queue, bit errors, loss, duplicates, reordering, half duplex, outages. An HF channel's ends are
/// modems: with a data port over TCP (modem:ADDR:PORT, MIL-STD-188-110D Appendix A) or in
/// datagrams (modem-udp:ADDR:PORT), or behind a pseudo-terminal and keyed by what comes
/// there (pty:PATH). More than two modems share a channel by a net file, which names them and the
/// link files between them (`--net`). When it is up it says so by one line on stderr; at its end it
/// prints what it did.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait emulate scenarios/links/serial-9600.toml --a pty:/tmp/a --b pty:/tmp/b\n  \
                  strait emulate scenarios/links/udp-lossy.toml \\\n    \
                  --a 'udp:127.0.0.1:7011->127.0.0.1:7001' --b 'udp:127.0.0.1:7012->127.0.0.1:7002'\n  \
                  strait emulate scenarios/links/hf-9600.toml --a modem:127.0.0.1:3000 --b modem:127.0.0.1:3001\n  \
                  strait emulate --net scenarios/nets/hf-three.toml"
)]
pub(crate) struct Args {
    /// The link file, or with --net the net file.
    link: PathBuf,
    /// Read a net file: modems (`[[end]]`) and the link files between them.
    #[arg(long, conflicts_with_all = ["a", "b", "name"])]
    net: bool,
    /// Attachment of end a [default: `ends.a` of the link file].
    #[arg(long, value_name = "END")]
    a: Option<String>,
    /// Attachment of end b [default: `ends.b` of the link file].
    #[arg(long, value_name = "END")]
    b: Option<String>,
    /// Seed of losses, errors and jitter.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Name of the link. Name and seed together determine its randomness [default: the file's].
    #[arg(long)]
    name: Option<String>,
    /// Print one JSON object on stdout at the end.
    #[arg(long)]
    json: bool,
    /// Write the same object to this file at the end.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let file = args.link.display().to_string();
    let opened = if args.net {
        Medium::open_net(NetConfig::load(&DiskFiles, &args.link, args.seed)?)
    } else {
        Medium::open(config(args)?)
    };
    let mut emulator = opened.map_err(|error| match error {
        EmulateError::Link(error) => ConfigError::of_file(&file, error.to_string()).into(),
        EmulateError::End(error) => wrong_end(&error),
        EmulateError::Host(error) => anyhow::Error::new(error),
    })?;
    let _signals = emulator.stop_on_signals()?;
    crate::output::say(&emulator.ready_line());
    let ended = emulator.run();
    let report = emulator.report();
    let json = report.to_json() + "\n";
    if let Some(path) = &args.stats {
        let doing = || format!("cannot write {}", path.display());
        std::fs::write(path, &json).with_context(doing)?;
    }
    crate::output::print(&if args.json { json } else { report.to_text() });
    ended?;
    Ok(ExitCode::SUCCESS)
}

fn config(args: &Args) -> anyhow::Result<EmulateConfig> {
    let link = load_link(&DiskFiles, &args.link)?;
    let given = link.ends.as_ref().map(|ends| [&ends.a, &ends.b]);
    let end = |index: usize, option: &Option<String>| {
        let text = option.as_ref().or_else(|| given.map(|given| given[index]));
        let name = ["a", "b"][index];
        let missing = || BadInput(format!("end {name} is not named: use --{name} or [ends]"));
        let spec = text.ok_or_else(missing)?.parse::<EndSpec>();
        spec.map_err(|error| wrong_end(&error))
    };
    let stem = args.link.file_stem().map(|stem| stem.to_string_lossy());
    Ok(EmulateConfig {
        ends: [end(0, &args.a)?, end(1, &args.b)?],
        name: args
            .name
            .clone()
            .unwrap_or_else(|| stem.unwrap_or_default().into_owned()),
        seed: args.seed,
        link,
    })
}

fn wrong_end(error: &EndSpecError) -> anyhow::Error {
    BadInput(error.to_string()).into()
}
