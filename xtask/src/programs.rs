//! Runs every test program, several side by side.
//!
//! Programs that wait for a clock use little of a processor, and programs that compute don't mind
//! to be slow. So both go at the same time, the latter with the least priority, and so do steps of
//! CI that compile beside them.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::ci::cargo_command;

/// Packages whose tests wait for a clock, a kernel or another program.
const LIVE: [&str; 6] = [
    "strait",
    "strait-emulate",
    "strait-lab",
    "strait-live",
    "strait-top",
    "strait-web",
];

/// What computes in these.
const COMPUTING: [&str; 6] = ["check", "recomputed", "sim", "strait", "study", "sweep"];

/// The longest of all: whole scenarios, each at the pace of its clock.
const LAB: &str = "lab";

/// Live scenarios at a time.
const LABS_TOGETHER: &str = "4";

/// What measures how much a processor can do, and needs one.
const ALONE: [&str; 1] = ["bench_tun"];

/// Time of a test program, as `timeout` reads it: twice what the longest took beside others.
const TIME_MAX: &str = "15m";

/// Where programs run, one at a time: computing ones beside the live ones and then the labs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Lab,
    Live,
    Computing,
    /// After all the others.
    Alone,
}

impl Lane {
    fn of(package: &str, target: &str) -> Self {
        match target {
            _ if ALONE.contains(&target) => Self::Alone,
            LAB => Self::Lab,
            _ if !LIVE.contains(&package) || COMPUTING.contains(&target) => Self::Computing,
            _ => Self::Live,
        }
    }
}

/// A test program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    package: String,
    target: String,
    path: PathBuf,
    /// The folder of its package: where it runs.
    folder: PathBuf,
}

impl Program {
    /// The program that a line of cargo's messages tells of, if any.
    fn of(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"].as_bool()?;
        let path = message["executable"].as_str().filter(|_| is_test)?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        Some(Self {
            package: folder.file_name()?.to_str()?.to_owned(),
            target: message["target"]["name"].as_str()?.to_owned(),
            path: path.into(),
            folder: folder.into(),
        })
    }

    fn lane(&self) -> Lane {
        Lane::of(&self.package, &self.target)
    }

    /// What runs it: a computing one has what others leave.
    fn command(&self) -> Command {
        let lane = self.lane();
        let mut command = Command::new("timeout");
        command
            .args(["--verbose", "--foreground", TIME_MAX])
            .arg(&self.path);
        if lane == Lane::Computing {
            command = niced(&self.folder, &command);
        }
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        if lane == Lane::Lab {
            command.env("RUST_TEST_THREADS", LABS_TOGETHER);
        }
        command
    }
}

/// A command that is run in a folder with the least priority.
pub(crate) fn niced(folder: &Path, command: &Command) -> Command {
    let mut niced = Command::new("nice");
    niced.args(["-n", "19"]).arg(command.get_program());
    niced.args(command.get_args()).current_dir(folder);
    niced
}

/// The sum over all test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    programs: u32,
    passed: u32,
    failed: u32,
    /// Programs and steps that ended otherwise than they should.
    broken: u32,
}

impl Tests {
    /// Whether any test program told its result.
    pub(crate) const fn ran(&self) -> bool {
        self.programs > 0
    }

    /// Builds and runs every test, with what is to be done `beside` them. All of it, so that one
    /// run shows all that is wrong.
    pub(crate) fn run(
        &mut self,
        root: &Path,
        beside: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let first = programs(cargo_command(root), &["--test", "*"])?;
        ensure!(!first.is_empty(), "there is no test program");
        let logs = root.join("target/test-output");
        fs::create_dir_all(&logs).context("the folder for what tests print")?;
        let sum = Mutex::new(*self);
        let go_through = |programs: &[Program], lane: Lane| -> Result<()> {
            for program in programs.iter().filter(|one| one.lane() == lane) {
                let name = format!("{}-{}", program.package, program.target);
                run_one(program.command(), &name, &logs, &sum)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| -> Result<()> {
            let (go_through, first) = (&go_through, &first);
            // Browsers of the one would keep radio cells of the other waiting.
            let live = scope.spawn(move || {
                go_through(first, Lane::Live)?;
                go_through(first, Lane::Lab)
            });
            // Unit tests are long to build, and nothing live waits for them.
            let rest = programs(
                niced(root, &cargo_command(root)),
                &["--lib", "--bins", "--examples"],
            )?;
            let beside = beside();
            let mut examples = niced(root, &cargo_command(root));
            examples.args(["test", "--workspace", "--doc", "--quiet"]);
            run_one(examples, "examples", &logs, &sum)?;
            for programs in [first, &rest] {
                go_through(programs, Lane::Computing)?;
            }
            live.join().ok().context("live tests broke off")??;
            go_through(&rest, Lane::Live)?;
            beside
        })?;
        go_through(&first, Lane::Alone)?;
        *self = *sum.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(self.failed == 0, "{} of the tests failed", self.failed);
        ensure!(self.broken == 0, "{} programs failed", self.broken);
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

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Builds these test programs. Cargo tells on standard error how far it is.
fn programs(mut cargo: Command, which: &[&str]) -> Result<Vec<Program>> {
    let output = cargo
        .args(["test", "--workspace", "--no-run"])
        .args(which)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cargo did not start")?;
    ensure!(output.status.success(), "the tests don't compile");
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(Program::of).collect())
}

/// Runs one, and prints its result; all that it said, if it failed.
fn run_one(mut command: Command, name: &str, logs: &Path, sum: &Mutex<Tests>) -> Result<()> {
    let log = logs.join(format!("{name}.txt"));
    let began = Instant::now();
    let file = File::create(&log).with_context(|| log.display().to_string())?;
    let status = command
        .stdout(file.try_clone().context("a second handle of a file")?)
        .stderr(file)
        .status()
        .with_context(|| format!("{name} did not start"))?;
    let took_s = began.elapsed().as_secs_f64();
    // A test may print anything.
    let said = fs::read(&log).with_context(|| log.display().to_string())?;
    let said = String::from_utf8_lossy(&said);
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    said.lines().for_each(|line| sum.count(line));
    if status.success() {
        let results = said.lines().filter(|line| line.starts_with("test result"));
        let results = results.filter(|line| !line.contains(" 0 passed; 0 failed"));
        println!("{name}: {took_s:.1} s");
        results.for_each(|line| println!("{line}"));
    } else {
        sum.broken += 1;
        println!("{said}\n{name} FAILED after {took_s:.1} s: {status}");
    }
    Ok(())
}

/// Runs a test program in place of this one, as all are run. What isn't a test program (a cargo)
/// may take as long as it likes.
pub(crate) fn run_test(program: &str, args: &[&str]) -> Result<()> {
    let path = Path::new(program);
    let mut command = Command::new(program);
    if path.is_absolute() {
        command = Command::new("timeout");
        command.args(["--verbose", "--foreground", TIME_MAX, program]);
    }
    let name = path.file_name().unwrap_or_default();
    if name.to_string_lossy().starts_with("lab-") {
        command.env("RUST_TEST_THREADS", LABS_TOGETHER);
    }
    Err(command.args(args).exec()).with_context(|| format!("{program} did not start"))
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
        assert_eq!((tests.programs, tests.passed, tests.failed), (2, 43, 2));
        assert_eq!(tests.to_string(), "43 passed, 2 failed");
    }

    #[test]
    fn cargo_tells_of_test_programs() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/strait/Cargo.toml",
            "target":{"name":"study"},"profile":{"test":true},"executable":"/w/target/study-1"}"#;
        let program = Program::of(line).unwrap();
        assert_eq!((&*program.package, &*program.target), ("strait", "study"));
        assert_eq!(program.folder, Path::new("/w/crates/strait"));
        assert_eq!(program.lane(), Lane::Computing);
        for other in [
            r#"{"reason":"build-finished","success":true}"#,
            &line.replace("true", "false"),
            &line.replace(r#""/w/target/study-1""#, "null"),
            "not a message",
        ] {
            assert_eq!(Program::of(other), None);
        }
    }

    #[test]
    fn programs_that_wait_for_a_clock_have_lanes_of_their_own() {
        for (package, target, lane) in [
            ("strait", "lab", Lane::Lab),
            ("strait", "kiss", Lane::Live),
            ("strait-live", "suite", Lane::Live),
            ("strait", "study", Lane::Computing),
            ("strait-sim", "worlds", Lane::Computing),
            ("strait-lab", "bench_tun", Lane::Alone),
        ] {
            assert_eq!(Lane::of(package, target), lane, "{package} {target}");
        }
    }

    #[test]
    fn a_failure_is_counted_and_its_result_too() {
        let logs = std::env::temp_dir().join(format!("xtask-{}", std::process::id()));
        fs::create_dir_all(&logs).unwrap();
        let sum = Mutex::new(Tests::default());
        for script in [
            "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'",
            "echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101",
            "exit 3",
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run_one(command, "one", &logs, &sum).unwrap();
        }
        fs::remove_dir_all(&logs).unwrap();
        let sum = sum.into_inner().unwrap();
        assert_eq!((sum.passed, sum.failed, sum.broken), (3, 1, 2));
    }
}
