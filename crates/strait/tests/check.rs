//! `strait check` over files as users have them.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn check(options: &[&str], files: &[PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.arg("check").args(options).args(files);
    command.output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// All files of ours below a folder.
fn shipped(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            shipped(&path, found);
        } else if path
            .extension()
            .is_some_and(|end| end == "toml" || end == "mgn")
        {
            found.push(path);
        }
    }
}

#[test]
fn every_file_that_we_ship_is_valid() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    shipped(&root, &mut files);
    let net = files
        .iter()
        .any(|file| file.ends_with("nets/hf-three.toml"));
    assert!(net && files.len() > 50);
    let output = check(&[], &files);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout).matches(": valid ").count(),
        files.len()
    );
}

#[test]
fn certificates_and_keys_are_looked_at_beside_the_file_that_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let own = "[tls.own]\ncertificate = \"own.pem\"\nkey = \"own.key\"\n";
    fs::write(&file, format!("name = \"a\"\nhost = {{}}\n{own}")).unwrap();
    let told = || {
        let output = check(&[], std::slice::from_ref(&file));
        assert!(output.status.success());
        text(&output.stdout)
    };
    let missing = told();
    assert!(
        missing.contains("also needs: [tls.own] certificate: "),
        "{missing}"
    );
    assert!(missing.contains("own.pem can't be read"), "{missing}");
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tls");
    fs::copy(vectors.join("expired.pem"), folder.path().join("own.pem")).unwrap();
    let key = folder.path().join("own.key");
    fs::copy(vectors.join("server.key"), &key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let unwise = told();
    assert!(!unwise.contains("also needs"), "{unwise}");
    assert!(
        unwise.contains("warning: [tls.own] key: others may read"),
        "{unwise}"
    );
    assert!(
        unwise.contains("warning: [tls.own] certificate: "),
        "{unwise}"
    );
}

#[test]
fn frames_that_calls_wait_long_for_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let port = "[[port]]\nname = \"radio\"\nkind = \"kiss\"\nrate = \"1200 bit/s\"\n\
                kiss.modem = \"127.0.0.1:8001\"\n";
    for (frame, long) in [("128 B", false), ("1000 B", true)] {
        let text = format!("name = \"a\"\nhost = {{}}\n{port}frame = \"{frame}\"\n");
        fs::write(&file, text).unwrap();
        let output = check(&[], std::slice::from_ref(&file));
        assert!(output.status.success());
        let told = self::text(&output.stdout);
        let warning = "warning: [[port]] radio frame: a frame takes 6.7 s";
        assert_eq!(told.contains(warning), long, "{told}");
    }
}

#[test]
fn one_bad_file_does_not_end_the_list_and_what_run_needs_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let port = "name = \"a\"\nhost = {}\n[[port]]\nname = \"line\"\nkind = \"serial\"\n";
    let files = [
        write("bad.toml", &format!("{port}bauds = 9600\n")),
        write("sim.toml", &format!("{port}baud = 9600\n")),
        write(
            "run.toml",
            &format!("{port}baud = 9600\ndevice = \"/dev/x\"\n"),
        ),
    ];
    let output = check(&[], &files);
    assert_eq!(output.status.code(), Some(2));
    let bad = text(&output.stderr);
    assert!(bad.contains("bad.toml:6: unknown key `bauds`"), "{bad}");
    let told = text(&output.stdout);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[0].ends_with("sim.toml: valid node file"));
    let needs = "  `strait run` also needs: [[port]] line device: needed on a host";
    assert!(lines[1].starts_with(needs), "{told}");
    assert!(lines[2].ends_with("run.toml: valid node file"));

    let output = check(&["--json"], &files);
    assert_eq!(output.status.code(), Some(2));
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ok: Vec<bool> = (0..3).map(|at| all[at]["ok"] == true).collect();
    assert_eq!(ok, [false, true, true]);
    assert!(all[0]["error"].as_str().unwrap().contains("bauds"));
    assert_eq!(all[1]["run_needs"].as_array().unwrap().len(), 1);
    assert_eq!(all[2]["kind"], "node file");
}

#[test]
fn what_stops_a_start_is_said_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.toml");
    let node = r#"
        name = "a"
        host = {}
        [[port]]
        name = "radio"
        kind = "hf"
        hf = { address = "0.0.0.1", modem = {} }
        neighbours = [{ name = "b", hf = "0.0.0.2" }]
        [state]
        file = "/no/such/folder/a.state"
        [journal]
        file = "a.journal"
        [status]
        metrics = "192.0.2.1:9100"
    "#;
    fs::write(&path, node).unwrap();
    let output = check(&[], std::slice::from_ref(&path));
    let told = text(&output.stdout) + &text(&output.stderr);
    let needs: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("also needs"))
        .collect();
    assert_eq!(needs.len(), 3, "{told}");
    for (need, place) in needs
        .iter()
        .zip(["radio hf.modem", "[state] file", "[status] metrics"])
    {
        assert!(need.contains(place), "{told}");
    }
}
