//! Check any of our files, with no I/O beyond reading.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use strait_node::config_text::{self, ConfigError};
use strait_qos::{Policy, PolicyConfig};
use strait_world::scenario::{DiskFiles, Files, Scenario, load_link, load_node};

/// Check a node, link, policy, scenario or study file, or a script of MGEN (`.mgn`).
///
/// What a file is, it says itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  strait check scenarios/demo.toml scenarios/nodes/*.toml")]
pub(crate) struct Args {
    /// The files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for file in &args.files {
        let what = check(file)?;
        crate::output::print(&format!("{}: a {what}, and it is right\n", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn check(path: &Path) -> anyhow::Result<&'static str> {
    let name = path.display().to_string();
    let text = DiskFiles
        .read(path)
        .map_err(|message| ConfigError::of_file(&name, message))?;
    if path.extension().is_some_and(|end| end == "mgn") {
        super::measure::check_script(path)?;
        return Ok("script of MGEN");
    }
    let table: toml::Table = config_text::parse(&name, &text)?;
    let has = |key: &str| table.contains_key(key);
    if let Some(study) = table.get("study") {
        let study = study.as_str().unwrap_or_default();
        super::study::check(study, &name, &text)?;
        return Ok("study");
    }
    if has("duration") || has("traffic") {
        Scenario::load(path)?;
        return Ok("scenario");
    }
    if has("host") {
        load_node(&DiskFiles, path)?;
        return Ok("node");
    }
    if has("class") || has("match") || has("preset") || has("default") {
        let config: PolicyConfig = config_text::parse(&name, &text)?;
        Policy::compile(&config).map_err(|error| ConfigError::of_file(&name, error.to_string()))?;
        return Ok("policy");
    }
    load_link(&DiskFiles, path)?;
    Ok("link")
}
