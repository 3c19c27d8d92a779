//! What the README and the page about gateways tell a reader to type, typed as it stands there.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The first block of a page after some words.
fn block(page: &str, words: &str) -> String {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let (_, after) = text.split_once(words).unwrap();
    let (_, begun) = after.split_once("```text\n").unwrap();
    begun.split_once("```").unwrap().0.into()
}

#[test]
fn the_first_command_says_what_the_readme_shows() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Command::new(STRAIT);
    demo.args(["demo", "--report", "target/demo.html"]);
    fs::create_dir(folder.path().join("target")).unwrap();
    let output = demo.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, block("README.md", "<!-- output of: strait demo"));
}

/// The lines of a block that begin with `#`, as a shell's script: who is put into the background is
/// waited for as a person does.
fn script(block: &str, folder: &Path) -> String {
    let commands = block.lines().filter_map(|line| line.strip_prefix("# "));
    let (mut up, mut bound) = (0, 0);
    let mut script = String::from(
        "set -e\nexec 2>log\ntrap 'kill $(jobs -p)' EXIT\nmount -t tmpfs none /run\n\
         until_it() {\n  for i in $(seq 300); do\n    if [ $(eval $1) -ge $2 ]; then return; fi\n    \
         sleep 0.1\n  done\n  exit 1\n}\n\
         up() { until_it \"grep -c ': up: ' $PWD/log\" $1; }\n\
         bound() { until_it 'ip netns exec east ss -Hltun | wc -l' $1; }\n",
    );
    for command in commands {
        let command = command.replace("/tmp/", &format!("{}/", folder.display()));
        script += &format!(
            "cd {}\n{command}\ncd {}\n",
            root().display(),
            folder.display()
        );
        let is_ours = command.contains("strait run") || command.contains("strait emulate");
        if command.ends_with('&') && is_ours {
            up += 1;
            script += &format!("up {up}\n");
        } else if command.ends_with('&') && command.contains("exec east") {
            bound += 1;
            script += &format!("bound {bound}\n");
        } else if command.ends_with('&') {
            script += "page=$!\n";
        }
    }
    script + "wait $page\n"
}

#[test]
fn two_gateways_on_one_machine_carry_a_call_beside_a_page() {
    let has = |program: &str| {
        let mut found = Command::new("sh");
        let found = found
            .args(["-c", &format!("command -v {program}")])
            .output();
        found.unwrap().status.success()
    };
    let programs = ["ip", "ping", "python3", "curl"];
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || !programs.into_iter().all(has) {
        eprintln!(
            "first hour: skipped, this needs root and {}",
            programs.join(", ")
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shown = block("docs/book/run.md", "## Trying it on one machine");
    let mut shell = Command::new("unshare");
    shell.args([
        "--net",
        "--mount",
        "bash",
        "-c",
        &script(&shown, folder.path()),
    ]);
    let own = Path::new(STRAIT).parent().unwrap().display();
    let others = std::env::var("PATH").unwrap();
    shell.env("PATH", format!("{own}:{others}"));
    let output = shell.current_dir(folder.path()).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    assert!(output.status.success(), "{told}\n{log}");
    assert!(told.contains("3 packets transmitted, 3 received"), "{told}");
    let page = fs::read(folder.path().join("page")).unwrap();
    assert_eq!(page, fs::read(root().join("docs/book/payload.md")).unwrap());
    // The call beside the page. A busy host is late at times, and so are packets; not half of them.
    let figure = |name: &str| {
        let mut lines = told.lines().map(str::split_whitespace);
        let found = lines.find_map(|mut words| {
            let is_it = words.next() == Some(name);
            is_it.then(|| words.next_back()?.parse::<f64>().ok())?
        });
        found.unwrap_or_else(|| panic!("no {name}: {told}"))
    };
    assert!(figure("delay_p50_s") < 0.1, "{told}");
    assert!(figure("loss") <= 0.1, "{told}");
}
