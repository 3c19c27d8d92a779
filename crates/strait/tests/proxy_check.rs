//! What `strait proxy check` says of a host, from one that has nothing to one that lacks a partner
//! alone. Needs root, `nft` and `ip`.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command in the network namespace of a process.
fn inside(host: &Running, command: &str) -> Command {
    let mut enter = Command::new("nsenter");
    let id = host.0.id().to_string();
    enter.args(["--net", "--target", &id, "sh", "-ec", command]);
    enter
}

fn run(host: &Running, command: &str) {
    let output = inside(host, command).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {told}");
}

/// The words for what is missing, each once.
fn lacks(host: &Running, file: &Path) -> Vec<String> {
    let command = format!("{STRAIT} proxy check --json {}", file.display());
    let output = inside(host, &command).output().unwrap();
    let all: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!all.is_empty())));
    let mut words: Vec<String> = all
        .iter()
        .map(|it| it["what"].as_str().unwrap().to_owned())
        .collect();
    words.dedup();
    words
}

#[test]
fn a_host_is_told_what_it_lacks_for_the_proxy() {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if fs::metadata("/proc/self").unwrap().uid() != 0 || !has("nft") || !has("ip") {
        eprintln!("proxy check: skipped, this needs root, `nft` and `ip`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("a.toml"), folder.path().join("sock"));
    let node = format!(
        "name = \"a\"\n[host]\naddresses = [\"10.9.0.1/30\"]\nroutes = [\"10.2.0.0/24\"]\n\
         [status]\nsocket = \"{}\"\n[[port]]\nname = \"p\"\nkind = \"udp\"\n\
         local = \"0.0.0.0:7000\"\n[[port.neighbours]]\nname = \"b\"\n\
         address = \"10.0.0.2:7000\"\n[proxy]\n[[proxy.partner]]\naddress = \"10.9.0.2\"\n\
         prefixes = [\"10.2.0.0/24\", \"10.2.0.7/32\"]\n",
        socket.display()
    );
    fs::write(&file, node).unwrap();
    let mut sleep = Command::new("unshare");
    sleep.args(["--net", "sleep", "120"]);
    let host = Running(sleep.spawn().unwrap());
    // Until it has a namespace of its own.
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    let its = format!("/proc/{}/ns/net", host.0.id());
    while fs::read_link(&its).unwrap() == own {
        thread::sleep(Duration::from_millis(10));
    }
    run(&host, "ip link set lo up; sysctl -qw net.ipv4.ip_forward=0");
    let nothing = ["nft", "rule", "forwarding", "way", "gateway"];
    assert_eq!(lacks(&host, &file), nothing);

    let rules = |undo| format!("{STRAIT} proxy rules {}{undo} | sh", file.display());
    run(&host, &rules(""));
    run(&host, "sysctl -qw net.ipv4.ip_forward=1");
    assert_eq!(lacks(&host, &file), ["way", "gateway"]);

    let mut gateway = inside(&host, &format!("exec {STRAIT} run {}", file.display()));
    let _gateway = Running(gateway.stderr(Stdio::null()).spawn().unwrap());
    let alone = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(100));
        lacks(&host, &file) == ["partner"]
    });
    assert!(alone, "{:?}", lacks(&host, &file));

    let marks = "sysctl -qw net.ipv4.conf.all.src_valid_mark";
    for (wrong, word, right) in [
        (format!("{marks}=1"), "rp-filter", format!("{marks}=0")),
        (
            "nft flush chain inet strait_proxy clients".into(),
            "nft",
            rules(""),
        ),
        ("ip route flush table 7480".into(), "rule", rules("")),
        (
            "ip route add 10.2.0.7/32 dev lo".into(),
            "way",
            "ip route del 10.2.0.7/32 dev lo".into(),
        ),
    ] {
        run(&host, &wrong);
        let lacks = lacks(&host, &file);
        assert!(lacks.iter().any(|it| it == word), "{wrong}: {lacks:?}");
        assert_eq!(lacks.len(), 2, "{wrong}: {lacks:?}");
        run(&host, &right);
    }
    assert_eq!(lacks(&host, &file), ["partner"]);
    run(&host, &rules(" --undo"));
    assert_eq!(lacks(&host, &file), ["nft", "rule", "partner"]);
}
