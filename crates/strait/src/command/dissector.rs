//! The Wireshark dissector that the program brings along.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use strait_link::payload::Dictionary;

/// One script, as Wireshark reads one file: the second part uses the sums and kinds of the first.
const LUA: &str = concat!(
    include_str!("../../assets/strait.lua"),
    include_str!("../../assets/hbh.lua")
);
const FILE: &str = "strait.lua";
/// Where the dictionary of compressed payloads goes.
const PLACE: &str = "local DICTIONARY = \"\"";

/// Print or install the Wireshark and tshark dissector for strait's link frames.
///
/// It reads the captures of `--pcap` (LINKTYPE_USER0), UDP links by "Decode As", and raw octets of
/// serial lines (LINKTYPE_USER1). It shows segments, their checks, reassembled packets, and inside
/// them hellos, IP, compressed headers and payloads. For reliable hops (LINKTYPE_USER3) it shows
/// acknowledgements, retransmissions and the headers rebuilt from earlier ones.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  strait dissector install\n  \
                  strait dissector install --dictionary reports.dict\n  \
                  strait dissector > strait.lua && tshark -X lua_script:strait.lua -r a.pcapng -V\n  \
                  tshark -r link.pcapng -d udp.port==7001,strait -Y 'strait.check_ok == 0'")]
pub(crate) struct Args {
    #[command(subcommand)]
    install: Option<Command>,
    /// The `dictionary_file` of the ports, if they have one. It is needed to read payloads
    /// compressed with it.
    #[arg(long, value_name = "FILE", global = true)]
    dictionary: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Install the dissector in this user's Wireshark plugin folder.
    Install {
        /// Install it in this folder, such as /usr/lib/x86_64-linux-gnu/wireshark/plugins for all
        /// users.
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let script = script(&own_dictionary(args.dictionary.as_deref())?);
    let Some(Command::Install { to }) = &args.install else {
        crate::output::print(&script);
        return Ok(ExitCode::SUCCESS);
    };
    let folder = match to {
        Some(folder) => folder.clone(),
        None => plugins().context("HOME isn't set: choose a folder with --to DIR")?,
    };
    let path = put(&folder, &script)?;
    crate::output::print(&format!(
        "{}: installed; Wireshark and tshark read it when they start\n",
        path.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn own_dictionary(file: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let octets = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if octets.len() > Dictionary::OWN_OCTETS_MAX {
        let most = Dictionary::OWN_OCTETS_MAX;
        anyhow::bail!(
            "{} is no dictionary: more than {most} octets",
            file.display()
        );
    }
    Ok(octets)
}

/// The dissector with the dictionary of this version and the site's own.
fn script(own: &[u8]) -> String {
    let mut dictionary = String::from("local DICTIONARY = \"");
    for octet in Dictionary::with(own).octets() {
        match octet {
            b' '..=b'~' if !b"\"\\".contains(octet) => dictionary.push(char::from(*octet)),
            _ => {
                let _ = write!(dictionary, "\\{octet:03}");
            }
        }
    }
    LUA.replacen(PLACE, &(dictionary + "\""), 1)
}

/// Wireshark's folder for plugins of one user.
fn plugins() -> Option<PathBuf> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(".local/lib/wireshark/plugins"))
}

fn put(folder: &Path, script: &str) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(FILE);
    fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
