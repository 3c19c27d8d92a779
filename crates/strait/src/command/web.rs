//! The page for operators.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use strait_live::gateway::{STATUS_FOLDER, status_sockets};
use strait_web::{Clock, Options, Recording, page};

use super::recorded::each_of;
use crate::exit::BadInput;

/// Show running gateways in a browser: links, classes, flows, calls and what waits where, as it
/// happens. Or make one file of it, which needs no server and has a slider through time.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait web\n  strait web /run/strait/a.sock --listen [::1]:9000\n  \
                  strait web --save today.html        at exit, with all recorded data\n  \
                  strait status --watch 1 --json > a.jsonl; strait web a.jsonl --save a.html\n  \
                  strait web a.journal --save a.html"
)]
pub(crate) struct Args {
    /// Status sockets [default: all gateways that run here]. With --save, also files written by
    /// `strait status --json`, and journals.
    nodes: Vec<PathBuf>,
    /// Address to listen on. If other hosts can reach it, the URL to open contains a token.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Accept this host name in URLs, besides addresses and `localhost`.
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// Save the page and its data as one file: at exit for sockets, at once for files.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let nodes = match args.nodes.is_empty() {
        true => status_sockets(),
        false => args.nodes,
    };
    if nodes.is_empty() {
        let why = format!(
            "no status socket in {STATUS_FOLDER}: is a gateway running? If its socket is \
             elsewhere, name it: strait web PATH"
        );
        return Err(BadInput(why).into());
    }
    let files = nodes.iter().filter(|path| path.is_file()).count();
    if files > 0 {
        let all_are = files == nodes.len();
        let Some(path) = args.save.filter(|_| all_are) else {
            let why = "files don't change: name them alone, with --save FILE";
            return Err(BadInput(why.into()).into());
        };
        return save(&nodes, &path);
    }
    let options = Options {
        listen: args.listen,
        names: args.name,
        sockets: nodes,
        save: args.save,
    };
    let up = |address: &str| crate::output::print(&format!("{address}\n"));
    let doing = || format!("serve at {} (set by --listen)", args.listen);
    strait_web::serve(options, up).with_context(doing)?;
    Ok(ExitCode::SUCCESS)
}

fn save(files: &[PathBuf], path: &Path) -> anyhow::Result<ExitCode> {
    let mut recording = Recording::new(Clock::Run);
    for (n, file) in files.iter().enumerate() {
        each_of(file, |it| _ = recording.add(n, it.uptime_s, &it))?;
    }
    let page = page::one_file(&recording);
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}
