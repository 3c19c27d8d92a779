//! Check any of our files, with no I/O beyond reading.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use strait_emulate::NetConfig;
use strait_live::gateway::{lacking, warnings};
use strait_node::config_text::{self, ConfigError};
use strait_qos::{Policy, PolicyConfig};
use strait_scenario::{DiskFiles, Files, Scenario, load_link, load_node};

use crate::exit::BAD_INPUT;

/// Check a node, link, net, policy, scenario or study file, or a script of MGEN (`.mgn`).
///
/// What a file is, it says itself. All files are looked at; the exit status is 2 if one is wrong.
/// A node file may be valid in a simulation while a port lacks what `strait run` needs on a host,
/// such as its device: that is said beside.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  strait check scenarios/demo.toml scenarios/nodes/*.toml")]
pub(crate) struct Args {
    /// Files to check.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON array on stdout, with an object for each file.
    #[arg(long)]
    json: bool,
}

/// What came of a file.
#[derive(Debug, Default)]
struct Verdict {
    file: String,
    kind: Option<&'static str>,
    ok: bool,
    error: Option<String>,
    /// What `strait run` would miss in a node file that is valid in a simulation.
    run_needs: Vec<String>,
    /// What is valid and still not as it should be.
    warnings: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let verdicts: Vec<Verdict> = args.files.iter().map(|file| judge(file)).collect();
    if args.json {
        let all: Vec<_> = verdicts.iter().map(as_json).collect();
        crate::output::print(&format!("{:#}\n", serde_json::Value::Array(all)));
    } else {
        for verdict in &verdicts {
            tell(verdict);
        }
    }
    Ok(if verdicts.iter().all(|verdict| verdict.ok) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(BAD_INPUT)
    })
}

fn as_json(verdict: &Verdict) -> serde_json::Value {
    serde_json::json!({
        "file": verdict.file,
        "kind": verdict.kind,
        "ok": verdict.ok,
        "error": verdict.error,
        "run_needs": verdict.run_needs,
        "warnings": verdict.warnings,
    })
}

fn judge(path: &Path) -> Verdict {
    let file = path.display().to_string();
    match check(path) {
        Ok(found) => Verdict {
            file,
            kind: Some(found.kind),
            ok: true,
            run_needs: found.run_needs,
            warnings: found.warnings,
            ..Verdict::default()
        },
        Err(error) => Verdict {
            file,
            error: Some(format!("{error:#}")),
            ..Verdict::default()
        },
    }
}

fn tell(verdict: &Verdict) {
    if let Some(error) = &verdict.error {
        return crate::output::say(&format!("strait: {error}"));
    }
    let kind = verdict.kind.unwrap_or_default();
    crate::output::print(&format!("{}: valid {kind}\n", verdict.file));
    for need in &verdict.run_needs {
        crate::output::print(&format!("  `strait run` also needs: {need}\n"));
    }
    for warning in &verdict.warnings {
        crate::output::print(&format!("  warning: {warning}\n"));
    }
}

/// What a valid file is.
struct Found {
    kind: &'static str,
    run_needs: Vec<String>,
    warnings: Vec<String>,
}

impl From<&'static str> for Found {
    fn from(kind: &'static str) -> Self {
        Self {
            kind,
            run_needs: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// What a file is, and what a host needs beside.
fn check(path: &Path) -> anyhow::Result<Found> {
    let name = path.display().to_string();
    let text = DiskFiles
        .read(path)
        .map_err(|message| ConfigError::of_file(&name, message))?;
    if path.extension().is_some_and(|end| end == "mgn") {
        super::measure::check_script(path)?;
        return Ok("MGEN script".into());
    }
    let table: toml::Table = config_text::parse(&name, &text)?;
    let has = |key: &str| table.contains_key(key);
    if let Some(study) = table.get("study") {
        let study = study.as_str().unwrap_or_default();
        super::study::check(study, &name, &text)?;
        return Ok("study".into());
    }
    if has("duration") || has("traffic") {
        Scenario::load(path)?;
        return Ok("scenario".into());
    }
    if has("host") {
        let config = load_node(&DiskFiles, path)?;
        let lacks = lacking(&config).into_iter().map(|it| it.to_string());
        return Ok(Found {
            run_needs: lacks.collect(),
            warnings: warnings(&config),
            ..Found::from("node file")
        });
    }
    if has("class") || has("match") || has("preset") || has("default") {
        let config: PolicyConfig = config_text::parse(&name, &text)?;
        Policy::compile(&config).map_err(|error| ConfigError::of_file(&name, error.to_string()))?;
        return Ok("policy".into());
    }
    if has("end") {
        NetConfig::load(&DiskFiles, path, 1)?;
        return Ok("net".into());
    }
    load_link(&DiskFiles, path)?;
    Ok("link".into())
}
