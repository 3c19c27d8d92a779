//! The steps of CI, each printed with the time it took; the first failure ends the run.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

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

/// All steps: those that fail fastest first, the tests last so that their count ends the output.
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

    fn run(self, root: &Path, tests: &mut Tests) -> Result<()> {
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
            Self::Test => tests.run(root),
        }
    }
}

/// Runs `steps` in order up to the first that fails.
pub(crate) fn run(root: &Path, steps: &[Step], tests: &mut Tests) -> Result<()> {
    let mut times = Vec::new();
    for step in steps {
        println!("==> {}", step.name());
        let began = Instant::now();
        let outcome = step.run(root, tests);
        let took_s = began.elapsed().as_secs_f64();
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("<== {} {word} after {took_s:.1} s", step.name());
        outcome.with_context(|| format!("step `{}` failed", step.name()))?;
        times.push(format!("{} {took_s:.1} s", step.name()));
    }
    if steps.len() > 1 {
        println!("all steps passed: {}", times.join(", "));
    }
    Ok(())
}

/// The cargo that runs this program, at the root of the workspace.
pub(crate) fn cargo_command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs cargo to its end.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    let status = cargo_command(root)
        .args(args)
        .status()
        .context("cargo did not start")?;
    ensure!(
        status.success(),
        "`cargo {}` ended with {status}",
        args.join(" ")
    );
    Ok(())
}

fn documentation(root: &Path) -> Result<()> {
    let status = cargo_command(root)
        .env("RUSTDOCFLAGS", "-D warnings")
        .args([
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
            "--quiet",
        ])
        .status()
        .context("cargo did not start")?;
    ensure!(status.success(), "`cargo doc` ended with {status}");
    Ok(())
}

/// The sum over all test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    programs: u32,
    passed: u32,
    failed: u32,
}

impl Tests {
    /// Whether any test program told its result.
    pub(crate) const fn ran(&self) -> bool {
        self.programs > 0
    }

    /// Runs every test, showing the output as it comes and adding up the closing lines.
    fn run(&mut self, root: &Path) -> Result<()> {
        let mut child = cargo_command(root)
            .env(runner_variable(), runner()?)
            // All of them, so that one run shows all that is wrong.
            .args(["test", "--workspace", "--no-fail-fast", "--quiet"])
            .stdout(Stdio::piped())
            .spawn()
            .context("cargo did not start")?;
        let stdout = child
            .stdout
            .take()
            .context("cargo's output is not readable")?;
        for line in BufReader::new(stdout).split(b'\n') {
            // Not `lines`: a test may print anything.
            let line = line.context("cargo's output broke off")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            self.count(&line);
        }
        let status = child.wait().context("cargo is gone")?;
        ensure!(self.failed == 0, "{} of the tests failed", self.failed);
        ensure!(status.success(), "`cargo test` ended with {status}");
        if self.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }

    /// Takes in a line such as `test result: ok. 3 passed; 0 failed; 0 ignored; …`.
    fn count(&mut self, line: &str) {
        let Some((_, counts)) = line.trim().strip_prefix("test result: ").and_then(|rest| {
            // «ok.» or «FAILED.»
            rest.split_once(". ")
        }) else {
            return;
        };
        self.programs += 1;
        for part in counts.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// The variable by which cargo is told what runs test programs on this machine.
fn runner_variable() -> String {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target = target.to_uppercase().replace('-', "_");
    format!("CARGO_TARGET_{target}_RUNNER")
}

/// This program, as what runs test programs.
fn runner() -> Result<String> {
    let own = std::env::current_exe().context("where this program is")?;
    Ok(format!("{} run-test", own.display()))
}

/// Runs a test program in place of this one. Live scenarios wait for their own clocks and need
/// little of a processor: several go side by side. One that hangs is ended, and its last lines
/// name the test; what isn't a test program (a cargo) may take as long as it likes.
pub(crate) fn run_test(program: &str, args: &[&str]) -> Result<()> {
    let path = Path::new(program);
    let mut command = Command::new(program);
    if path.is_absolute() {
        command = Command::new("timeout");
        command.args(["--verbose", "--foreground", TEST_TIME_MAX, program]);
    }
    let name = path.file_name().unwrap_or_default();
    if name.to_string_lossy().starts_with("lab-") {
        command.env("RUST_TEST_THREADS", LABS_TOGETHER);
    }
    Err(command.args(args).exec()).with_context(|| format!("{program} did not start"))
}

/// Time of a test program, as `timeout` reads it: twice what the longest took beside others.
const TEST_TIME_MAX: &str = "15m";

/// Live scenarios at a time.
const LABS_TOGETHER: &str = "4";

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up() {
        let mut tests = Tests::default();
        assert!(!tests.ran());
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished",
            "test a::test result: 7 passed; 9 failed",
            "test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            tests.count(line);
        }
        assert_eq!(
            tests,
            Tests {
                programs: 2,
                passed: 43,
                failed: 2
            }
        );
        assert_eq!(tests.to_string(), "43 passed, 2 failed");
    }

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
