//! Studies: a reference, the simulation and this host side by side, in tables with checks.
//!
//! A study is a file with a function that makes its [`ResultSet`], and a line in [`STUDIES`]. Its
//! set-up is a file in `scenarios/studies/` that the program brings along.

mod hf;
mod live;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use indicatif::ProgressBar;
use strait_core::hash::RunHash;
use strait_node::config_text::{self, ConfigError};
use strait_report::table::{Column, ResultSet, Table};
use strait_sim::BuildError;
use strait_sim::study::hf::HfStudy;
use strait_sim::study::{self, Asked, StudyError};

use crate::exit::BadInput;

/// Run a study: what others measured, what the simulator gives, and what this host gives live.
///
/// Live halves run in network namespaces of their own. Without root, or without TUN interfaces,
/// they are left out, and the checks that need them have no value.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait study                     which studies there are\n  \
                        strait study tcp                 in less than a minute\n  \
                        strait study tcp --full --json   every run, as one JSON object\n  \
                        strait study my-tcp.toml         a copy of scenarios/studies/tcp.toml, changed\n  \
                        strait study all --strict        exit status 1 if a check fails"
)]
pub(crate) struct Args {
    /// Which one, or `all`, or a file of one's own with a line `study = "NAME"`; without a name, a
    /// list of them.
    #[arg(value_name = "NAME|FILE", value_hint = clap::ValueHint::FilePath)]
    name: Option<String>,
    /// One JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Every run and the whole sizes: minutes.
    #[arg(long)]
    full: bool,
    /// Exit status 1 if a check failed.
    #[arg(long)]
    strict: bool,
    /// Leave out what runs live.
    #[arg(long)]
    sim_only: bool,
    /// Write what every port sent in the first simulated run of each case, as pcapng, into this
    /// folder.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write the figures, as SVG, into this folder.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// How a study is run.
#[derive(Clone, Copy, Debug)]
struct Options<'a> {
    full: bool,
    live: bool,
    pcap: Option<&'a Path>,
    figures: Option<&'a Path>,
    /// A file to take instead of the one that comes along: its name and its text.
    own: Option<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// The study's file, of which these are the name and the text that come along.
    fn set_up(&self, file: &'a str, text: &'a str) -> (&'a str, &'a str) {
        self.own.unwrap_or((file, text))
    }
}

struct Study {
    name: &'static str,
    about: &'static str,
    run: fn(&Options<'_>) -> anyhow::Result<ResultSet>,
    /// Reads its file, whose name and text these are.
    check: fn(&str, &str) -> Result<(), ConfigError>,
}

const STUDIES: [Study; 1] = [Study {
    name: "hf",
    about: "STANAG 5066 over HF: data transfer over bit errors, and what a ping costs",
    run: hf::run,
    check: |file, text| HfStudy::parse(file, text).map(drop),
}];
const ALL: &str = "all";

/// The names of all studies.
fn names() -> Vec<&'static str> {
    let old = STUDIES.iter().map(|study| study.name);
    let mut names: Vec<&str> = old
        .chain(study::STUDIES.iter().map(|study| study.name))
        .collect();
    names.sort_unstable();
    names
}

fn of_name(name: &str) -> Option<&'static study::Study> {
    study::STUDIES.iter().find(|study| study.name == name)
}

/// The study that a file sets up.
fn named_by(file: &str, text: &str) -> anyhow::Result<String> {
    let table: toml::Table = config_text::parse(file, text)?;
    let Some(study) = table.get("study").and_then(toml::Value::as_str) else {
        let names = names().join(", ");
        let message =
            format!("{file}: sets up no study: it needs a line `study = \"NAME\"` ({names})");
        return Err(BadInput(message).into());
    };
    check(study, file, text)?;
    Ok(study.into())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name.as_deref() else {
        return list(args);
    };
    let names = names();
    let is_known = name == ALL || names.contains(&name);
    let own = if is_known { None } else { Some(read(name)?) };
    let named = own.as_ref().map(|text| named_by(name, text)).transpose()?;
    let chosen = named.as_deref().unwrap_or(name);
    let options = Options {
        full: args.full,
        live: !args.sim_only,
        pcap: args.pcap.as_deref(),
        figures: args.figures.as_deref(),
        own: own.as_deref().map(|text| (name, text)),
    };
    for folder in options.pcap.into_iter().chain(options.figures) {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let names = names
        .into_iter()
        .filter(|name| [ALL, name].contains(&chosen));
    let results = names.map(|name| match of_name(name) {
        Some(study) => one(study, &options),
        None => {
            let study = STUDIES.iter().find(|study| study.name == name);
            study.map_or(Ok(ResultSet::default()), |study| (study.run)(&options))
        }
    });
    let result = joined(results.collect::<anyhow::Result<_>>()?);
    Ok(crate::output::result(&result, args.json, args.strict))
}

fn one(study: &study::Study, options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let host = live::Host::default();
    let asked = Asked {
        full: options.full,
        live: options.live,
        captures: options.pcap.is_some(),
        figures: options.figures.is_some(),
        outside: &host,
    };
    let found = study
        .run(options.own, &asked)
        .map_err(|error| match error {
            StudyError::Build(BuildError::Config(error)) => error.into(),
            other => anyhow::Error::from(other),
        })?;
    let figures = found
        .figures
        .iter()
        .map(|(name, svg)| (name, svg.as_bytes()));
    let captures = found
        .captures
        .iter()
        .map(|(name, octets)| (name, &octets[..]));
    for (folder, files) in [
        (options.figures, figures.collect::<Vec<_>>()),
        (options.pcap, captures.collect()),
    ] {
        for (name, octets) in folder.into_iter().flat_map(|_| &files) {
            let path = folder.unwrap_or(Path::new("")).join(name);
            fs::write(&path, octets).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(found.result)
}

/// The text of a file that was named instead of a study.
fn read(file: &str) -> anyhow::Result<String> {
    fs::read_to_string(file).map_err(|error| {
        let names = names().join(", ");
        let why = if Path::new(file).is_dir() {
            "is a directory: name a file in it, or a study".into()
        } else {
            format!("no study has this name, and no file: {error}")
        };
        BadInput(format!("{file}: {why} (studies: {names}, {ALL})")).into()
    })
}

/// Checks the file of a study.
pub(super) fn check(name: &str, file: &str, text: &str) -> Result<(), ConfigError> {
    if let Some(known) = of_name(name) {
        return known.check(file, text);
    }
    match STUDIES.iter().find(|it| it.name == name) {
        Some(known) => (known.check)(file, text),
        None => {
            let names = names();
            Err(config_text::unknown_name(
                file, text, "study", "study", name, &names,
            ))
        }
    }
}

fn list(args: &Args) -> anyhow::Result<ExitCode> {
    if args.json {
        let message = "--json: which study? `strait study` lists them";
        return Err(BadInput(message.into()).into());
    }
    let columns = ["study", "what it lays side by side"].map(|name| Column::new(name, ""));
    let mut table = Table::new("studies", columns.into());
    for name in names() {
        let old = STUDIES.iter().find(|study| study.name == name);
        let about = of_name(name).map(|study| study.about);
        let about = about.or(old.map(|study| study.about));
        table.push(vec![name.into(), about.unwrap_or_default().into()]);
    }
    crate::output::print(&table.to_text());
    Ok(ExitCode::SUCCESS)
}

/// Several studies as one result. The table and check names of a study begin with its own.
fn joined(mut results: Vec<ResultSet>) -> ResultSet {
    if results.len() == 1 {
        return results.remove(0);
    }
    let mut whole = ResultSet::default();
    let mut hash = RunHash::default();
    for result in results {
        if let Some(text) = &result.run_hash {
            hash.fold_bytes(format!("{text:?}").as_bytes());
        }
        whole.seeds.extend(result.seeds);
        whole.tables.extend(result.tables);
        whole.checks.extend(result.checks);
    }
    whole.seeds.sort_unstable();
    whole.seeds.dedup();
    whole.run_hash = Some(hash.value().into());
    whole
}

/// Progress of all parts of a study.
fn progress(name: &str, runs: usize) -> ProgressBar {
    crate::output::progress(runs, &format!("study {name}"))
}

/// Writes files, each with `case` before its name.
fn write_files<'a>(
    folder: &Path,
    case: &str,
    files: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>,
) -> anyhow::Result<()> {
    for (name, octets) in files {
        let path = folder.join(format!("{case}-{name}"));
        fs::write(&path, octets).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
