//! A message switch over real sockets and files: killed at any instant, what it answered for is in
//! a mailbox or in its queue (`STRAIT_MAIL_KILLS` is how often); with TLS and passwords. As root.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "mail_crash/load.rs"]
mod load;
#[path = "mail_crash/points.rs"]
mod points;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use strait_live::kernel::namespace::Namespace;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
/// How long a switch may live, in microseconds: some begin no message, some take dozens.
const LIFE_US: u64 = 200_000;

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn node_file(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "name = \"a\"\n[host]\naddresses = [\"10.9.0.1/30\"]\n\
         [state]\nfile = \"{folder}/a.db\"\n[status]\nsocket = \"{folder}/a.sock\"\n\
         [mail]\nlisten = [\"127.0.0.1:2525\"]\nmailboxes = [\"ops@a.example\"]\n\
         maildir = \"{folder}/mail\"\n\
         [[mail.route]]\ndomains = [\"b.example\"]\nto = \"10.9.0.2\"\n\
         [[port]]\nname = \"line\"\nkind = \"udp\"\nlocal = \"127.0.0.1:7000\"\n\
         neighbours = [{{ name = \"b\", address = \"127.0.0.1:7001\" }}]\nrate = \"9600 bit/s\"\n"
    )
}

fn within(namespace: &Namespace, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    let path = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        namespace.as_fd().as_raw_fd()
    );
    command.arg(format!("--net={path}")).arg(program);
    command
}

/// A switch that is ready.
fn start(namespace: &Namespace, folder: &Path) -> Running {
    start_by(namespace, &folder.join("a.toml"))
}

fn start_by(namespace: &Namespace, file: &Path) -> Running {
    let mut command = within(namespace, STRAIT);
    command.arg("run").arg(file);
    let (running, up) = started(command);
    if let Err(said) = up {
        panic!("the switch doesn't come up: {said:#?}");
    }
    running
}

/// What such a command starts, when it is up, or else what it said before it ended.
fn started(mut command: Command) -> (Running, Result<(), Vec<String>>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let mut said = Vec::new();
    loop {
        match lines.next().and_then(Result::ok) {
            Some(line) if line.contains(": up") => break,
            Some(line) => said.push(line),
            None => return (running, Err(said)),
        }
    }
    // What it says later needs a reader.
    thread::spawn(move || lines.for_each(drop));
    (running, Ok(()))
}

/// Brings messages until the switch is gone; the numbers of those that it answered for.
fn submit(first: u64) -> Vec<u64> {
    let mut answered = Vec::new();
    let Ok(stream) = TcpStream::connect("127.0.0.1:2525") else {
        return answered;
    };
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    let mut reply = |start: &str| loop {
        let mut line = String::new();
        match replies.read_line(&mut line) {
            Ok(1..) if line.get(3..4) == Some("-") => {}
            Ok(1..) => return line.starts_with(start),
            _ => return false,
        }
    };
    let say = |text: &str| (&stream).write_all(text.as_bytes()).is_ok();
    if !reply("220") || !say("EHLO test\r\n") || !reply("250") {
        return answered;
    }
    for n in first.. {
        let to = if n % 2 == 0 {
            "ops@a.example".into()
        } else {
            format!("n{n}@b.example")
        };
        let text = "x".repeat((n % 7 * 900 + 1) as usize);
        // Some are stored in several pieces.
        let text = format!("{text}\r\n").repeat(if n % 5 == 0 { 30 } else { 1 });
        let message =
            format!("MAIL FROM:<>\r\nRCPT TO:<{to}>\r\nDATA\r\nSubject: {n}\r\n\r\n{text}.\r\n");
        let whole = say(&message) && reply("250") && reply("250") && reply("354") && reply("250");
        if !whole {
            break;
        }
        answered.push(n);
    }
    answered
}

/// The numbers in the mailbox, and how many files there are.
fn delivered(folder: &Path) -> (BTreeSet<u64>, usize) {
    let files = fs::read_dir(folder.join("mail/ops@a.example/new"));
    let texts = files.into_iter().flatten().flatten();
    let texts: Vec<String> = texts
        .map(|it| fs::read_to_string(it.path()).unwrap())
        .collect();
    let number = |text: &String| {
        assert!(text.ends_with("x\n"), "a message is cut short");
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix("Subject: ")?.parse().ok())
    };
    (texts.iter().filter_map(number).collect(), texts.len())
}

/// The messages in the queue of the switch with this socket, if it is there.
fn queue(socket: &Path) -> Option<Vec<serde_json::Value>> {
    loop {
        let mut command = Command::new(STRAIT);
        command.args(["mail", "queue", "--json"]).arg(socket);
        let output = command.output().unwrap();
        let queue: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        // What was stored is read first.
        if queue["more"] == 0 {
            return Some(queue["messages"].as_array().unwrap().clone());
        }
    }
}

/// The numbers in the queue, of those for the other side and of those for the mailbox.
fn queued(folder: &Path) -> (BTreeSet<u64>, usize) {
    let rows = queue(&folder.join("a.sock")).unwrap();
    let number = |row: &serde_json::Value| {
        let to = row["recipients"].as_str()?;
        to.strip_prefix('n')?
            .strip_suffix("@b.example")?
            .parse()
            .ok()
    };
    let far: BTreeSet<u64> = rows.iter().filter_map(number).collect();
    let near = rows.len() - far.len();
    (far, near)
}

fn can_run() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        eprintln!("mail_crash: skipped, this needs root");
    }
    root
}

#[test]
fn what_was_answered_for_survives_kills_at_any_instant() {
    if !can_run() {
        return;
    }
    let kills = std::env::var("STRAIT_MAIL_KILLS").ok();
    let kills: u64 = kills.and_then(|it| it.parse().ok()).unwrap_or(8);
    let namespace = Namespace::create("mail").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.toml"), node_file(folder)).unwrap();
    let mut ledger = BTreeSet::new();
    let mut draw: u64 = 0x9e37_79b9_7f4a_7c15 ^ kills;
    for round in 0..kills {
        let mut switch = start(&namespace, folder);
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        let life = Duration::from_micros(draw % LIFE_US);
        let killer = thread::spawn(move || {
            thread::sleep(life);
            let _ = switch.0.kill();
            drop(switch);
        });
        ledger.extend(namespace.enter(move || submit(round * 10_000)).unwrap());
        killer.join().unwrap();
    }
    let _switch = start(&namespace, folder);
    let (mailbox, far) = judge(folder, &ledger);
    eprintln!(
        "{kills} kills: {} answered for, {mailbox} in the mailbox, {far} queued",
        ledger.len()
    );
    assert!(ledger.len() as u64 > kills, "too few messages for a test");
}

/// Whatever was answered for is in the mailbox once, or in the queue; how much is in each.
fn judge(folder: &Path, ledger: &BTreeSet<u64>) -> (usize, usize) {
    // Many kills leave thousands, which are read first and then delivered: the numbers change until
    // both are done.
    let (mut since, mut before) = (Instant::now(), (usize::MAX, 0));
    let (far, near) = loop {
        let (far, near) = queued(folder);
        if before != (near, far.len()) {
            (since, before) = (Instant::now(), (near, far.len()));
        }
        if near == 0 && since.elapsed() > Duration::from_secs(1) {
            break (far, near);
        }
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "{near} messages wait"
        );
        thread::sleep(Duration::from_millis(50));
    };
    let (mailbox, files) = delivered(folder);
    let lost: Vec<u64> = ledger.difference(&(&mailbox | &far)).copied().collect();
    assert!(lost.is_empty(), "answered for and lost: {lost:?}");
    assert_eq!(
        (mailbox.len(), near),
        (files, 0),
        "a message lies there twice"
    );
    (files, far.len())
}

/// A file system in memory, which has this much room.
struct Disk(PathBuf);

impl Disk {
    fn mount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A full disk has messages refused, and loses none; a kill on it neither.
#[test]
fn what_was_answered_for_survives_a_full_disk() {
    if !can_run() {
        return;
    }
    let namespace = Namespace::create("mailfull").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let disk = Disk(folder.join("disk"));
    fs::create_dir(&disk.0).unwrap();
    disk.mount("size=6M");
    let node = node_file(folder).replace("/a.db", "/disk/a.db");
    fs::write(folder.join("a.toml"), node).unwrap();
    let mut ledger = BTreeSet::new();
    for round in 0..2 {
        let mut switch = start(&namespace, folder);
        ledger.extend(namespace.enter(move || submit(round * 10_000)).unwrap());
        assert!(switch.0.try_wait().unwrap().is_none(), "it is gone");
    }
    let _switch = start(&namespace, folder);
    disk.mount("remount,size=64M");
    let (_, queued) = judge(folder, &ledger);
    assert!(queued > 20, "too few messages for a test");
}

/// What `strait mail password` makes of a password.
fn kept(password: &str) -> String {
    let mut command = Command::new(STRAIT);
    let command = command.args(["mail", "password"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Python's smtplib as the mail program: what it is refused, and what it may.
const PROGRAM: &str = r#"
import smtplib, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
context.check_hostname = False
def refused(what, code):
    try:
        what()
    except smtplib.SMTPResponseException as it:
        assert it.smtp_code == code, it
    except smtplib.SMTPNotSupportedError:
        assert code is None
    else:
        raise SystemExit(f"not refused with {code}")
def send(switch, to="ops@a.example"):
    return switch.sendmail("ops@a.example", [to], "Subject: 1\r\n\r\nx\r\n", ["MT-PRIORITY=4"])
clear = smtplib.SMTP("127.0.0.1", 2525)
refused(lambda: send(clear), 530)
refused(lambda: clear.login("ops", "secret"), None)
clear.starttls(context=context)
refused(lambda: send(clear), 530)
refused(lambda: clear.login("ops", "wrong"), 535)
clear.login("ops", "secret")
send(clear)
once = smtplib.SMTP_SSL("127.0.0.1", 4650, context=context)
once.user, once.password = "ops", "secret"
once.ehlo()
once.auth("LOGIN", once.auth_login)
send(once)
send(once, "ops@c.example")
"#;

/// Mail programs log in behind TLS, and a route with TLS leads to a switch with the right name.
#[test]
fn mail_programs_log_in_and_routes_have_tls() {
    if !can_run() {
        return;
    }
    let namespace = Namespace::create("mailtls").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vectors = format!("{}/../../vectors/tls", env!("CARGO_MANIFEST_DIR"));
    let profiles = format!(
        "[tls.own]\ncertificate = \"{vectors}/server.pem\"\nkey = \"{vectors}/server.key\"\n\
         [tls.outside]\ntrust = \"{vectors}/authority.pem\"\n"
    );
    let user = format!(
        "[[mail.user]]\nname = \"ops\"\npassword = \"{}\"\nmost = \"immediate\"\n",
        kept("secret")
    );
    let near = node_file(folder).replace(
        "[mail]\n",
        "[mail]\ntls = \"own\"\nlisten_tls = [\"127.0.0.1:4650\"]\n",
    );
    let route = |domain: &str, host: &str| {
        format!(
            "[[mail.route]]\ndomains = [\"{domain}\"]\nto = \"127.0.0.1\"\nport = 2526\n\
             tls = \"outside\"\nhost = \"{host}\"\n"
        )
    };
    let routes = route("c.example", "b.example");
    let journal = folder.join("a.journal");
    let journals = format!("[journal]\nfile = \"{}\"\n", journal.display());
    fs::write(
        folder.join("a.toml"),
        near + &user + &journals + &routes + &profiles,
    )
    .unwrap();
    let far = node_file(folder)
        .replace(
            "name = \"a\"\n[host]\n",
            "name = \"c\"\n[host]\ninterface = \"strait9\"\n",
        )
        .replace("10.9.0.1/30", "10.8.0.1/30")
        .replace("/a.", "/c.")
        .replace(":700", ":701")
        .replace("2525", "2526")
        .replace("a.example", "c.example")
        .replace("[mail]\n", "[mail]\ntls = \"own\"\n");
    fs::write(folder.join("c.toml"), far + &profiles).unwrap();
    let _far = start_by(&namespace, &folder.join("c.toml"));
    let switch = start(&namespace, folder);
    let mut program = within(&namespace, "python3");
    program.args(["-c", PROGRAM, &format!("{vectors}/authority.pem")]);
    let output = program.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let file = |mailbox: &str| {
        let files = fs::read_dir(folder.join("mail").join(mailbox).join("new"));
        let texts = files.into_iter().flatten().flatten();
        texts
            .map(|it| fs::read_to_string(it.path()).unwrap())
            .collect::<Vec<_>>()
    };
    let begun = Instant::now();
    while file("ops@a.example").len() < 2 || file("ops@c.example").is_empty() {
        let late = begun.elapsed() > Duration::from_secs(10);
        assert!(!late, "what was taken doesn't come");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(file("ops@a.example")[0].contains("PRIORITY 2;"), "capped");
    end(switch);
    without_secrets(&journal, &user);
}

/// A digest of a certificate, as `openssl` tells it.
fn fingerprint(file: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in", file]);
    let said = String::from_utf8(openssl.output().unwrap().stdout).unwrap();
    said.trim().rsplit('=').next().unwrap().to_owned()
}

/// What the next hop of the message to this address said last.
fn said_of(folder: &Path, to: &str) -> Option<String> {
    let rows = queue(&folder.join("a.sock")).unwrap();
    let row = rows.iter().find(|row| row["recipients"] == to)?;
    row["said"].as_str().map(String::from)
}

/// A switch says who it is to one that it knows by the digest of its certificate, whatever name is
/// in that. To another, and with a wrong password, nothing goes.
#[test]
fn a_switch_logs_in_to_one_with_a_certificate_that_it_knows() {
    if !can_run() {
        return;
    }
    let namespace = Namespace::create("maillogin").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vectors = format!("{}/../../vectors/tls", env!("CARGO_MANIFEST_DIR"));
    let [known, other] =
        ["server", "stranger"].map(|it| fingerprint(&format!("{vectors}/{it}.pem")));
    for (file, password) in [("right", "secret\n"), ("wrong", "guessed\n")] {
        fs::write(folder.join(file), password).unwrap();
    }
    let route = |domain: &str, profile: &str, file: &str| {
        format!(
            "[[mail.route]]\ndomains = [\"{domain}\"]\nto = \"127.0.0.1\"\nport = 2526\n\
             tls = \"{profile}\"\nlogin = \"a\"\npassword_file = \"{}\"\n",
            folder.join(file).display()
        )
    };
    let routes = [
        route("c.example", "known", "right"),
        route("wrong.example", "known", "wrong"),
        route("other.example", "other", "right"),
        route("none.example", "known", "nowhere"),
    ];
    let journal = folder.join("a.journal");
    let near = node_file(folder)
        + &routes.concat()
        + &format!(
            "[journal]\nfile = \"{}\"\n[tls.known]\ntrust = \"sha256:{known}\"\n\
             [tls.other]\ntrust = \"sha256:{other}\"\n",
            journal.display()
        );
    fs::write(folder.join("a.toml"), near).unwrap();
    let far = node_file(folder)
        .replace(
            "name = \"a\"\n[host]\n",
            "name = \"c\"\n[host]\ninterface = \"strait9\"\n",
        )
        .replace("10.9.0.1/30", "10.8.0.1/30")
        .replace("/a.", "/c.")
        .replace(":700", ":701")
        .replace("2525", "2526")
        .replace("a.example", "c.example")
        .replace("[mail]\n", "[mail]\ntls = \"own\"\n");
    let user = format!(
        "[[mail.user]]\nname = \"a\"\npassword = \"{}\"\n",
        kept("secret")
    );
    let own = format!(
        "[tls.own]\ncertificate = \"{vectors}/server.pem\"\nkey = \"{vectors}/server.key\"\n"
    );
    fs::write(folder.join("c.toml"), far + &user + &own).unwrap();
    let mut check = Command::new(STRAIT);
    let check = check.arg("check").arg(folder.join("a.toml")).output();
    let warned = String::from_utf8(check.unwrap().stdout).unwrap();
    assert!(
        warned.contains("no mail is sent there without the password"),
        "{warned}"
    );
    assert!(warned.contains("others may read or write"), "{warned}");
    let _far = start_by(&namespace, &folder.join("c.toml"));
    let switch = start(&namespace, folder);
    let bring = "import smtplib, sys\n\
                 for to in sys.argv[1:]:\n \
                 smtplib.SMTP('127.0.0.1', 2525).sendmail('x@a.example', [to], 'Subject: 1\\r\\n\\r\\nx\\r\\n')";
    let refused = ["ops@wrong.example", "ops@other.example", "ops@none.example"];
    let mut program = within(&namespace, "python3");
    program.args(["-c", bring, "ops@c.example"]).args(refused);
    assert!(program.status().unwrap().success());
    let came = folder.join("mail/ops@c.example/new");
    let begun = Instant::now();
    let told = loop {
        let told = refused.map(|to| said_of(folder, to).unwrap_or_default());
        let there = fs::read_dir(&came).is_ok_and(|it| it.count() == 1);
        if there && told.iter().all(|it| !it.is_empty()) {
            break told;
        }
        let late = begun.elapsed() > Duration::from_secs(15);
        assert!(!late, "{told:?}, there: {there}");
        thread::sleep(Duration::from_millis(50));
    };
    assert!(told[0].contains("535 5.7.8"), "{told:?}");
    assert!(told[1].contains("connection failed"), "{told:?}");
    assert!(told[2].contains("can't be read"), "{told:?}");
    assert_eq!(fs::read_dir(&came).unwrap().count(), 1);
    end(switch);
    // `\0a\0secret`, and the same with the wrong one.
    let octets = fs::read(&journal).unwrap();
    let has = |text: &str| octets.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(has("AUTH PLAIN LOGIN"));
    for secret in ["secret", "AGEAc2VjcmV0", "guessed", "AGEAZ3Vlc3NlZA"] {
        assert!(!has(secret), "{secret}");
    }
    let mut replay = Command::new(STRAIT);
    let replay = replay.args(["replay", "--strict"]).arg(&journal);
    let output = replay.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

/// Ends a switch as its operator does.
fn end(mut running: Running) {
    let mut kill = Command::new("kill");
    let kill = kill.args(["-TERM", &running.0.id().to_string()]);
    assert!(kill.status().unwrap().success());
    assert!(running.0.wait().unwrap().success());
}

/// A journal has no password, be it in base64 as AUTH has it, nor what is kept of one, and repeats
/// its run all the same.
fn without_secrets(journal: &Path, user: &str) {
    let octets = fs::read(journal).unwrap();
    let has = |text: &[u8]| octets.windows(text.len()).any(|it| it == text);
    assert!(has(b"AUTH ") && has(b"ops@a.example") && has(b"pbkdf2-sha256"));
    // The last are PLAIN with the right password and a wrong one, and LOGIN's lines.
    let hash = user.split('$').next_back().unwrap();
    let hash = &hash[..hash.find('"').unwrap()];
    for secret in [
        "secret",
        hash,
        "AG9wcwBzZWNyZXQ=",
        "AG9wcwB3cm9uZw==",
        "c2VjcmV0",
        "d3Jvbmc=",
    ] {
        assert!(!has(secret.as_bytes()), "{secret}");
    }
    let mut replay = Command::new(STRAIT);
    let replay = replay.args(["replay", "--strict"]).arg(journal);
    let output = replay.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
