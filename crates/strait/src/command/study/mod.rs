//! Studies: a reference, the simulation and this host side by side, in tables with checks.

mod live;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use strait_core::hash::RunHash;
use strait_node::config_text::{self, ConfigError};
use strait_report::table::{Column, ResultSet, Table};
use strait_report::{Report, bars};
use strait_sim::BuildError;
use strait_sim::study::{Asked, STUDIES, Study, StudyError};

use super::picture;
use crate::exit::BadInput;

/// Run a study: what others measured, what the simulator gives, and what this host gives live.
///
/// Live halves run in network namespaces of their own. Without root, or without TUN interfaces,
/// they are left out, and the checks that need them have no value.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait study                     list the studies\n  strait study \
                  tcp                 in less than a minute\n  strait study tcp --full --json   \
                  every run, as one JSON object\n  strait study my-tcp.toml         a copy of \
                  scenarios/studies/tcp.toml, changed\n  strait study all --seed 7        the \
                  checks with another seed\n  strait study all --strict        exit status 1 if a \
                  check fails"
)]
pub(crate) struct Args {
    /// A study, a file with a line `study = "NAME"`, or `all` for every study but `grid` [default:
    /// list the studies].
    #[arg(value_name = "NAME|FILE", value_hint = clap::ValueHint::FilePath)]
    name: Option<String>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Use all runs and full sizes. This takes minutes.
    #[arg(long)]
    full: bool,
    /// Exit with status 1 if a check failed.
    #[arg(long)]
    strict: bool,
    /// Leave out the live parts.
    #[arg(long)]
    sim_only: bool,
    /// Write the frames that each port sent into this folder, as pcapng: the first simulated run of
    /// each case.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write the figures into this folder, as SVG.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Write tables and checks as a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Finish with a picture of each check: the distance of its value from its bound.
    #[arg(long, conflicts_with = "json")]
    picture: bool,
    /// Use another seed for the randomness of each run, and for the worlds that `grid` and `htb`
    /// draw. Cases without randomness stay the same.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    seed: Option<u64>,
    /// Write the notable scenarios of the study `grid` into this folder.
    #[arg(long, value_name = "DIR")]
    worlds: Option<PathBuf>,
    /// Run the study NAME from this file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// All studies that take no minutes.
const ALL: &str = "all";
const LONG: &str = "grid";

fn names() -> Vec<&'static str> {
    STUDIES.iter().map(|study| study.name).collect()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name.as_deref() else {
        return list(args);
    };
    let mut chosen = chosen(name);
    let named = args.file.as_ref().map(|file| file.display().to_string());
    let file = named.or_else(|| chosen.is_empty().then(|| name.to_owned()));
    let own = file.map(|file| read(&file).map(|text| (file, text)));
    let own = own.transpose()?;
    if let Some((file, text)) = &own {
        let study = named_by(file, text)?;
        if args.file.is_some() && study.name != name {
            let message = format!("{file}: is for the study {}, not {name}", study.name);
            return Err(BadInput(message).into());
        }
        chosen = vec![study];
    }
    for folder in [&args.pcap, &args.figures, &args.worlds]
        .into_iter()
        .flatten()
    {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    if !args.sim_only {
        // Before minutes of runs, not after them.
        let names: Vec<&str> = chosen.iter().map(|study| study.name).collect();
        for line in live::missing(&names) {
            eprintln!("strait: {line}");
        }
    }
    let own = own
        .as_ref()
        .map(|(file, text)| (file.as_str(), text.as_str()));
    let about: Vec<&str> = chosen.iter().map(|study| study.about).collect();
    let results = chosen.iter().map(|study| one(study, own, args));
    let result = joined(results.collect::<anyhow::Result<_>>()?);
    if let Some(path) = &args.report {
        let report = Report {
            title: format!("study {name}"),
            about: about.join("; "),
            result: result.clone(),
            resolved: own.map_or_else(
                || chosen.iter().map(|it| it.own.1).collect(),
                |it| it.1.into(),
            ),
            ..Report::default()
        };
        fs::write(path, strait_web::page::results(&report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let code = crate::output::result(&result, args.json, args.strict);
    if args.picture {
        let bars = bars::checks(&result.checks, picture::letters());
        crate::output::print(&format!("\n{bars}"));
    }
    Ok(code)
}

/// The studies of that name.
fn chosen(name: &str) -> Vec<&'static Study> {
    let is_chosen = |it: &&Study| it.name == name || name == ALL && it.name != LONG;
    STUDIES.iter().filter(is_chosen).collect()
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

/// The study that a file sets up.
fn named_by(file: &str, text: &str) -> anyhow::Result<&'static Study> {
    let table: toml::Table = config_text::parse(file, text)?;
    let Some(study) = table.get("study").and_then(toml::Value::as_str) else {
        let names = names().join(", ");
        let message =
            format!("{file}: is not a study: it needs a line `study = \"NAME\"` ({names})");
        return Err(BadInput(message).into());
    };
    Ok(check(study, file, text)?)
}

/// Checks the file of a study, and finds the study.
pub(super) fn check(name: &str, file: &str, text: &str) -> Result<&'static Study, ConfigError> {
    let Some(known) = STUDIES.iter().find(|it| it.name == name) else {
        let names = names();
        return Err(config_text::unknown_name(
            file, text, "study", "study", name, &names,
        ));
    };
    known.check(file, text)?;
    Ok(known)
}

fn one(study: &Study, own: Option<(&str, &str)>, args: &Args) -> anyhow::Result<ResultSet> {
    let outside = live::Host::new(args.pcap.clone());
    let asked = Asked {
        full: args.full,
        live: !args.sim_only,
        captures: args.pcap.is_some(),
        figures: args.figures.is_some(),
        seed: args.seed,
        outside: &outside,
    };
    let found = study.run(own, &asked).map_err(|error| match error {
        StudyError::Build(BuildError::Config(error)) => error.into(),
        other => anyhow::Error::from(other),
    })?;
    outside.wrote()?;
    let figures = found.figures.into_iter();
    let figures = figures.map(|(name, svg)| (&args.figures, name, svg.into_bytes()));
    let scenarios = found.scenarios.into_iter();
    let scenarios = scenarios.filter(|_| args.worlds.is_some());
    let scenarios = scenarios.map(|(name, text)| (&args.worlds, name, text.into_bytes()));
    for (folder, name, octets) in figures.chain(scenarios) {
        write(&folder.iter().collect::<PathBuf>().join(name), &octets)?;
    }
    Ok(found.result)
}

fn write(path: &Path, octets: &[u8]) -> anyhow::Result<()> {
    fs::write(path, octets).with_context(|| format!("cannot write {}", path.display()))
}

fn list(args: &Args) -> anyhow::Result<ExitCode> {
    if args.json {
        let message = "--json: which study? `strait study` lists them";
        return Err(BadInput(message.into()).into());
    }
    let columns = ["study", "comparison"].map(|name| Column::new(name, ""));
    let mut table = Table::new("studies", columns.into());
    for study in STUDIES {
        table.push(vec![study.name.into(), study.about.into()]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_every_study_but_the_long_one_and_their_results_become_one() {
        let all: Vec<&str> = chosen(ALL).iter().map(|study| study.name).collect();
        let mut expected = names();
        expected.retain(|name| *name != LONG);
        assert_eq!(all, expected);
        let policing = chosen("policing")[0];
        let asked = Asked {
            full: false,
            live: false,
            captures: false,
            figures: false,
            seed: None,
            outside: &live::Host::new(None),
        };
        let found = policing.run(None, &asked).unwrap().result;
        let both = joined(vec![found.clone(), found.clone()]);
        assert_eq!(both.checks.len(), 2 * found.checks.len());
        assert!(both.checks.iter().any(|it| it.id == "policing-kernel-wait"));
        assert_eq!(both.tables.len(), 2 * found.tables.len());
        assert_eq!(both.seeds, found.seeds);
        assert_ne!(both.run_hash, found.run_hash);
    }
}
