//! `strait top`, and what the demo plays, on a pseudo-terminal of 80 columns: keys, a slow line, a
//! stuck one, signals. Needs `script`, `setsid` and `stty`, which every Debian has.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command on a terminal, and what came from it.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    came: Arc<Mutex<Vec<u8>>>,
    reads: Arc<AtomicU64>,
}

impl Terminal {
    /// `strait top`.
    fn start(arguments: &str) -> Self {
        Self::run(&format!("top {arguments}"))
    }

    fn run(arguments: &str) -> Self {
        let command = format!("stty rows 24 cols 80; exec {STRAIT} {arguments}");
        let mut script = Command::new("script")
            .args(["-qfec", &command, "/dev/null"])
            .env("TERM", "linux")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let came = Arc::new(Mutex::new(Vec::new()));
        let reads = Arc::new(AtomicU64::new(u64::MAX));
        let (to, left) = (Arc::clone(&came), Arc::clone(&reads));
        let mut from = script.stdout.take().unwrap();
        thread::spawn(move || {
            let mut octets = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut octets) {
                to.lock().unwrap().extend(&octets[..n]);
                while left.load(Ordering::SeqCst) == 0 {
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
        let keys = script.stdin.take().unwrap();
        Self {
            script,
            keys,
            came,
            reads,
        }
    }

    /// What came: of pictures, changes alone.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.came.lock().unwrap()).into_owned()
    }

    /// What stands on the screen.
    fn screen(&self) -> String {
        screen(&self.text())
    }

    fn octets(&self) -> usize {
        self.came.lock().unwrap().len()
    }

    fn wait_for(&self, text: &str) {
        self.wait(text, |it| it.screen().contains(text));
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < until, "no {what}:\n{}", self.screen());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Presses keys, and waits for what stands there then.
    fn press(&mut self, keys: &str, text: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
        self.wait_for(text);
    }

    /// The process that shows it: the child of `script`.
    fn program(&self) -> String {
        let of = self.script.id();
        let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
        children.split_whitespace().next().unwrap().into()
    }

    fn ended(&mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.script.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "it goes on: {:?}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// It left the other screen, and the cursor is there again.
    fn is_as_before(&self) -> bool {
        let text = self.text();
        let left = text.rfind("\x1b[?1049l");
        left.is_some_and(|at| text[at..].contains("\x1b[?25h") && !text[at..].contains("\x1b[?25l"))
    }
}

/// A terminal as far as it is used: it moves its cursor, clears all or the rest, and writes.
fn screen(text: &str) -> String {
    let mut cells = vec![vec![' '; 80]; 24];
    let (mut x, mut y) = (0, 0);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                let rest = letters.by_ref().skip(1);
                let mut sequence = String::new();
                for letter in rest {
                    sequence.push(letter);
                    if letter.is_ascii_alphabetic() {
                        break;
                    }
                }
                let numbers = sequence.trim_end_matches(char::is_alphabetic).split(';');
                let mut numbers = numbers.map(|it| it.parse::<usize>().unwrap_or(1));
                match sequence.chars().last() {
                    Some('H') => {
                        y = numbers.next().unwrap_or(1) - 1;
                        x = numbers.next().unwrap_or(1) - 1;
                    }
                    Some('J') => cells.iter_mut().for_each(|line| line.fill(' ')),
                    _ => {}
                }
            }
            '\r' => x = 0,
            '\n' => y += 1,
            letter => {
                if let Some(cell) = cells.get_mut(y).and_then(|line| line.get_mut(x)) {
                    *cell = letter;
                }
                x += 1;
            }
        }
    }
    let lines = cells.iter().map(|line| line.iter().collect::<String>());
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.reads.store(u64::MAX, Ordering::SeqCst);
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scenarios")
        .join(name)
}

fn load() -> String {
    scenario("seeing/load.toml").display().to_string()
}

#[test]
fn keys_lead_through_a_scenario_and_the_terminal_comes_back() {
    let mut top = Terminal::start(&format!("{} --at 12s --speed 1", load()));
    top.wait_for("F10 quit");
    assert!(top.text().contains("\x1b[?1049h"));
    top.press("3", "10.1.0.2");
    top.press("/5003\r", "find: 5003");
    top.press("\x1b", "F1 help");
    assert!(top.screen().contains("ICMP"));
    top.press("w", "next [class-full]");
    top.press("q", "");
    assert_eq!(top.ended(), 0);
    assert!(top.is_as_before());
}

#[test]
fn the_demo_is_played_and_ends_with_its_lines_and_picture() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.display();
    let mut terminal = Terminal::run(&format!("demo --runs 1 --watch --speed 50 --report {page}"));
    terminal.wait_for("plain link");
    terminal.wait_for("speed 50");
    terminal.press(" ", "PAUSED");
    terminal.press("+", "speed 100");
    terminal.keys.write_all(b"q").unwrap();
    assert_eq!(terminal.ended(), 0);
    let text = terminal.text();
    let (_, after) = text.rsplit_once("\x1b[?1049l").unwrap();
    for part in [
        "a call: lost",
        "delay of voice:",
        "use of a.line",
        "6 checks ",
    ] {
        assert!(after.contains(part), "{part}: {after}");
    }
    // This terminal has no other letters.
    assert!(after.is_ascii(), "{after}");
}

#[test]
fn a_second_of_changes_takes_less_than_a_second_at_9600_baud() {
    for view in ["links", "classes", "flows"] {
        // Four seconds of it in one of ours: each picture is a second's.
        let top = Terminal::start(&format!(
            "{} --variant flood --speed 4 --interval 0.25 --view {view}",
            load()
        ));
        top.wait_for("F10 quit");
        // The first pictures fill empty rows.
        thread::sleep(Duration::from_millis(1000));
        let (before, pictures) = (top.octets(), top.text().matches("\x1b[0m").count());
        thread::sleep(Duration::from_millis(1500));
        let pictures = top.text().matches("\x1b[0m").count() - pictures;
        assert!(pictures >= 3, "{view}: {pictures} pictures");
        let each = (top.octets() - before) / pictures;
        println!("{view}: {each} octets each, {pictures} pictures");
        assert!(each <= 960, "{view}: {each} octets each");
    }
}

#[test]
fn it_follows_the_size_and_a_signal_gives_the_terminal_back() {
    let mut top = Terminal::start(&load());
    top.wait_for("F10 quit");
    let child = &top.program();
    let line = std::fs::read_link(format!("/proc/{child}/fd/0")).unwrap();
    let stty = Command::new("stty")
        .arg("-F")
        .arg(line)
        .args(["rows", "30", "cols", "100"])
        .status();
    assert!(stty.unwrap().success());
    top.wait("line 30", |it| it.text().contains("\x1b[30;1HF1"));
    let kill = Command::new("kill").args(["-TERM", child]).status();
    assert!(kill.unwrap().success());
    top.wait("end", Terminal::is_as_before);
    assert_eq!(top.ended(), 0);
}

#[test]
fn it_ends_with_its_terminal() {
    let mut top = Terminal::start(&load());
    top.wait_for("F10 quit");
    let program = top.program();
    top.script.kill().unwrap();
    top.wait("end", |_| {
        let state = std::fs::read_to_string(format!("/proc/{program}/stat"));
        state.is_ok_and(|it| it.contains(") Z")) || !Path::new("/proc").join(&program).exists()
    });
}

/// Answers as a gateway does, 50 times a second and whoever listens; counts what it could say.
fn gateway(path: &Path) -> Arc<AtomicU64> {
    let listener = UnixListener::bind(path).unwrap();
    let said = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&said);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert!(line.starts_with("status stream 0.1"), "{line}");
            let mut to = &stream;
            let filler = "x".repeat(20_000);
            for n in 1u64.. {
                let status = format!(
                    "{{\"node\":\"a\",\"uptime_s\":{n},\"ports\":[{{\"name\":\"host\",\
                     \"host_side\":true}},{{\"name\":\"line{n}\",\"problem\":\"{filler}\"}}]}}\n"
                );
                if to.write_all(status.as_bytes()).is_err() {
                    break;
                }
                counts.store(n, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
    said
}

#[test]
fn a_stuck_terminal_lets_the_gateway_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.sock");
    let said = gateway(&socket);
    let top = Terminal::start(&format!("{} --interval 0.1", socket.display()));
    top.wait_for("line");
    top.reads.store(0, Ordering::SeqCst);
    let before = said.load(Ordering::SeqCst);
    // Whatever it writes until its line is full, the gateway's words are taken: some megabytes.
    let until = Instant::now() + PATIENCE;
    while said.load(Ordering::SeqCst) < before + 100 {
        assert!(Instant::now() < until, "it stuck at {said:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_no_terminal_gets_a_picture_or_a_reason() {
    let run = |arguments: &[&str], term: &str| {
        let out = Command::new(STRAIT)
            .arg("top")
            .args(arguments)
            .env("TERM", term)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (code, out, error) = run(&[&load()], "linux");
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        error.contains("no terminal: `strait top --once`"),
        "{error}"
    );
    let (code, out, _) = run(&[&load(), "--once", "--view", "classes"], "dumb");
    assert_eq!(code, Some(0));
    assert!(out.contains("[Classes]") && out.contains("data"), "{out}");
    assert!(!out.contains('\x1b') && out.lines().all(|it| it.len() <= 80));
    let (code, _, error) = run(&[&load(), "--once", "--view", "x"], "dumb");
    assert_eq!(code, Some(2));
    assert!(error.contains("no view `x`"), "{error}");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/src/main.rs");
    let (code, _, error) = run(&[other, "--once"], "dumb");
    assert_eq!(code, Some(2));
    assert!(error.contains("main.rs: no status"), "{error}");
}

#[test]
fn a_terminal_that_moves_no_cursor_is_told_what_to_do() {
    let mut script = Command::new("setsid")
        .args([
            "script",
            "-qfec",
            &format!("{STRAIT} top {}", load()),
            "/dev/null",
        ])
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = String::new();
    let mut from = script.stdout.take().unwrap();
    from.read_to_string(&mut out).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(2), "{out}");
    assert!(
        out.contains("can't move its cursor (TERM): `strait top --once`"),
        "{out}"
    );
}
