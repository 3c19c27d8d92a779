//! Everything CI does, on any machine: `cargo xtask help` lists it.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool talks on standard output"
)]

mod ci;
mod docs;
mod install;
mod no_std;
mod programs;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask test [--quick]   install, then ci; --quick leaves out `no-std` and `doc`
cargo xtask ci [STEP ...]    fmt tidy clippy no-std doc docs test, or only the named steps
cargo xtask tidy             rules of this repository that no compiler checks
cargo xtask no-std [--probe] proof that the pure crates need no `std`; --probe: on the host's target
cargo xtask docs [FILE ...]  make the figures in the documents anew, by the commands above them;
                             --check: compare those of quick commands, and change nothing
cargo xtask install          programs that the live tests call, if missing and if root may add them";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut tests = programs::Tests::default();
    let outcome = dispatch(&words, &mut tests);
    if let Err(error) = &outcome {
        eprintln!("\nxtask: {error:#}");
    }
    // The last line is for whoever reads only that one.
    if tests.ran() {
        println!("{tests}");
    }
    if outcome.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn dispatch(words: &[&str], tests: &mut programs::Tests) -> Result<()> {
    let root = root()?;
    match words {
        _ if words.iter().any(|word| matches!(*word, "--help" | "-h")) => {
            println!("{HELP}");
            Ok(())
        }
        ["test"] => {
            install::run(&root)?;
            ci::run(&root, &ci::ALL, tests)
        }
        ["test", "--quick"] => {
            install::run(&root)?;
            ci::run(&root, &ci::QUICK, tests)
        }
        ["ci"] => ci::run(&root, &ci::ALL, tests),
        ["ci", names @ ..] => {
            let steps = names.iter().map(|name| ci::Step::named(name));
            ci::run(&root, &steps.collect::<Result<Vec<_>>>()?, tests)
        }
        ["tidy"] => ci::run(&root, &[ci::Step::Tidy], tests),
        ["no-std"] => ci::run(&root, &[ci::Step::NoStd], tests),
        ["no-std", "--probe"] => no_std::probe(&root),
        ["install"] => install::run(&root),
        ["run-test", program, args @ ..] => programs::run_test(program, args),
        ["docs", "--check"] => ci::run(&root, &[ci::Step::Docs], tests),
        ["docs", "--check", files @ ..] => docs::check(&root, files),
        ["docs", files @ ..] => docs::run(&root, files),
        [] | ["help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("`{}` is no task; there are\n{HELP}", words.join(" ")),
    }
}

/// The root of the workspace: the parent of this crate's folder.
fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .map(Path::to_path_buf)
        .context("the workspace has no root folder")
}
