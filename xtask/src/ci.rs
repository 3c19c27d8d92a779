//! The steps of CI, each printed with the time it took; the first failure ends the run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::programs::{Tests, niced};
use crate::{docs, no_std, tidy};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Fmt,
    Tidy,
    Clippy,
    NoStd,
    Doc,
    Docs,
    Test,
}

/// All steps, the tests last so that their count ends the output.
pub(crate) const ALL: [Step; 7] = [
    Step::Fmt,
    Step::Tidy,
    Step::Clippy,
    Step::NoStd,
    Step::Doc,
    Step::Docs,
    Step::Test,
];

/// What is worth the wait before each commit.
pub(crate) const QUICK: [Step; 5] = [Step::Fmt, Step::Tidy, Step::Clippy, Step::Docs, Step::Test];

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Clippy => "clippy",
            Self::NoStd => "no-std",
            Self::Doc => "doc",
            Self::Docs => "docs",
            Self::Test => "test",
        }
    }

    /// The step of that name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let names = ALL.map(Self::name).join(", ");
        ALL.into_iter()
            .find(|step| step.name() == name)
            .with_context(|| format!("`{name}` is no step; there are {names}"))
    }

    /// Whether it computes for long: it goes beside tests, many of which wait for a clock.
    const fn is_beside(self) -> bool {
        matches!(self, Self::Clippy | Self::NoStd | Self::Doc | Self::Docs)
    }

    /// Runs it; the tests with these steps beside them.
    fn run(self, root: &Path, beside: &[Self], tests: &mut Tests) -> Result<()> {
        match self {
            Self::Fmt => cargo(root, &["fmt", "--all", "--check"]).context("run `cargo fmt --all`"),
            Self::Tidy => tidy::run(root),
            Self::Clippy => cargo(
                root,
                &[
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--quiet",
                    "--",
                    "-D",
                    "warnings",
                ],
            ),
            Self::NoStd => no_std::run(root),
            Self::Doc => documentation(root),
            Self::Docs => docs::check(root, &[]),
            Self::Test => tests.run(root, &mut || {
                let steps = beside.iter();
                steps
                    .copied()
                    .try_for_each(|step| timed(step, root, &[], &mut Tests::default()))
            }),
        }
    }
}

/// Runs `steps` in order up to the first that fails, long ones beside the tests if these are among
/// them.
pub(crate) fn run(root: &Path, steps: &[Step], tests: &mut Tests) -> Result<()> {
    let has_tests = steps.contains(&Step::Test);
    let (beside, steps): (Vec<Step>, Vec<Step>) =
        steps.iter().partition(|step| has_tests && step.is_beside());
    for step in steps {
        timed(step, root, &beside, tests)?;
    }
    Ok(())
}

/// Runs a step, and prints how long it took.
fn timed(step: Step, root: &Path, beside: &[Step], tests: &mut Tests) -> Result<()> {
    println!("==> {}", step.name());
    let began = Instant::now();
    let outcome = step.run(root, beside, tests);
    let took_s = began.elapsed().as_secs_f64();
    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("<== {} {word} after {took_s:.1} s", step.name());
    outcome.with_context(|| format!("step `{}` failed", step.name()))
}

/// The cargo that runs this program, at the root of the workspace.
pub(crate) fn cargo_command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs cargo to its end. It gives way to whatever else runs.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    run_cargo(niced(root, &cargo_command(root)), args)
}

fn run_cargo(mut cargo: Command, args: &[&str]) -> Result<()> {
    let status = cargo.args(args).status().context("cargo did not start")?;
    ensure!(
        status.success(),
        "`cargo {}` ended with {status}",
        args.join(" ")
    );
    Ok(())
}

fn documentation(root: &Path) -> Result<()> {
    let mut cargo = niced(root, &cargo_command(root));
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    let args = [
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ];
    run_cargo(cargo, &[&["doc"], &args[..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_found_by_its_name() {
        for step in ALL {
            assert_eq!(Step::named(step.name()).unwrap(), step);
        }
        assert!(
            Step::named("tests")
                .unwrap_err()
                .to_string()
                .contains("fmt, tidy")
        );
    }
}
