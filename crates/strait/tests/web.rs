//! The page for operators in a real browser, of a gateway pair over an emulated line. Needs root,
//! `ping`, Node, Chromium, and a registry of Node's packages or what came from there before.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

/// What drives the browser, and what judges the page for those who don't see it.
const PACKAGES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.1"];

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Running {
    /// Starts a command and waits for the line that says that it is up.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let running = Self(child);
        let mut known = lines.by_ref().map_while(Result::ok);
        assert!(
            known.any(|line| line.contains(": up: ")),
            "it ended instead"
        );
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where Node finds the packages; they stay for the next time.
fn packages() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("web-packages");
    let modules = folder.join("node_modules");
    if modules.join("axe-core").is_dir() && modules.join("playwright-core").is_dir() {
        return Some(modules);
    }
    let mut npm = Command::new("timeout");
    npm.args(["60", "npm", "install", "--no-save", "--silent", "--prefix"])
        .arg(&folder)
        .args(PACKAGES)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    fs::create_dir_all(&folder).unwrap();
    npm.status()
        .is_ok_and(|status| status.success())
        .then_some(modules)
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[test]
fn a_browser_shows_a_gateway_pair() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || !["chromium", "npm", "ping"].into_iter().all(is_there) {
        eprintln!("web: skipped, this needs root, `ping`, `node` and `chromium`");
        return;
    }
    let Some(modules) = packages() else {
        eprintln!("web: skipped, npm doesn't get playwright-core and axe-core");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let mut emulate = Command::new(STRAIT);
    emulate
        .arg("emulate")
        .arg(root.join("scenarios/links/serial-9600.toml"));
    for end in ["a", "b"] {
        let pty = format!("pty:{}", file(&format!("{end}.line")).display());
        emulate.arg(format!("--{end}")).arg(pty);
    }
    let _line = Running::start(emulate.stdout(Stdio::null()));
    let gateway = |name: &str| {
        let node = root.join(format!("scenarios/nodes/serial-9600-{name}.toml"));
        let device = format!("line={}", file(&format!("{name}.line")).display());
        let mut command = Command::new("unshare");
        command.args(["--net", STRAIT, "run"]).arg(node);
        command.args(["--device", &device, "--status"]);
        Running::start(command.arg(file(&format!("{name}.sock"))))
    };
    let (a, _b) = (gateway("a"), gateway("b"));
    let mut ping = Command::new("nsenter");
    let inside = a.0.id().to_string();
    ping.args([
        "--net", "--target", &inside, "ping", "-i", "0.3", "10.9.0.2",
    ]);
    let _ping = Running(ping.stdout(Stdio::null()).spawn().unwrap());
    // The same page as a simulation's report.
    let report = file("report.html");
    let mut sim = Command::new(STRAIT);
    sim.arg("sim")
        .arg(root.join("scenarios/lab/two-hosts.toml"));
    let sim = sim.args(["--runs", "1", "--report"]).arg(&report).output();
    assert!(sim.unwrap().status.success());

    let mut node = Command::new("timeout");
    node.args(["120", "node"])
        .arg(root.join("scripts/web_page.mjs"));
    node.arg(STRAIT).arg(file("a.sock")).arg(file("b.sock"));
    node.arg("--file").arg(&report).env("NODE_PATH", &modules);
    if let Some(pictures) = std::env::var_os("STRAIT_PICTURES") {
        node.arg("--pictures").arg(pictures);
    }
    let output = node.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    eprintln!("web: {told}");
}
