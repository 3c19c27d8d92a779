//! Two switches, of which one is killed at each named place: between what it asks of its host and
//! what comes of it. `STRAIT_MAIL_POINTS` is how often each place is passed before, at most.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use strait_live::fail_points::{FailPoint, VARIABLE};
use strait_live::kernel::namespace::Namespace;

use super::{Running, STRAIT, can_run, started, within};

/// How long a switch may take to come to a place.
const REACHED: Duration = Duration::from_secs(60);
/// Messages that are brought at a time, of each kind some, and how long switches have with them at
/// most before more are brought.
const BROUGHT: u64 = 8;
const SETTLED: Duration = Duration::from_secs(2);

/// A gateway with a switch, and where it is.
struct Site {
    name: &'static str,
    namespace: Namespace,
    running: Option<Running>,
}

struct World {
    folder: tempfile::TempDir,
    sites: [Site; 2],
    brought: u64,
    /// Messages that were answered for.
    ledger: BTreeSet<u64>,
}

fn node_file(folder: &Path, own: usize) -> String {
    let (near, far) = (["a", "b"][own], ["b", "a"][own]);
    let [own, other] = [own + 1, 2 - own];
    let folder = folder.display();
    format!(
        "name = \"{near}\"\n[host]\naddresses = [\"10.9.0.{own}/30\"]\n\
         [state]\nfile = \"{folder}/{near}.db\"\n[status]\nsocket = \"{folder}/{near}.sock\"\n\
         [policy]\npreset = \"precedence\"\n\
         [mail]\nname = \"{near}.example\"\nlisten = [\"127.0.0.1:2525\"]\n\
         inbound = [\"10.9.0.{own}\"]\nmailboxes = [\"ops@{near}.example\"]\n\
         maildir = \"{folder}/{near}\"\n\
         [[mail.route]]\ndomains = [\"{far}.example\"]\nto = \"10.9.0.{other}\"\n\
         [[mail.route.next]]\nto = \"10.8.0.{other}\"\n\
         [[port]]\nname = \"line\"\nkind = \"udp\"\nlocal = \"10.5.0.{own}:7000\"\n\
         neighbours = [{{ name = \"{far}\", address = \"10.5.0.{other}:7000\" }}]\n\
         rate = \"10 Mbit/s\"\n"
    )
}

/// Where a message goes: into a mailbox here, or there, or to nobody there, or there in several
/// pieces.
fn recipient(n: u64) -> String {
    match n % 4 {
        0 => "ops@a.example".into(),
        2 => format!("nobody{n}@b.example"),
        _ => "ops@b.example".into(),
    }
}

/// Brings messages until the switch is gone; the numbers of those that it answered for.
fn bring(first: u64) -> Vec<u64> {
    let mut answered = Vec::new();
    let Ok(stream) = TcpStream::connect("127.0.0.1:2525") else {
        return answered;
    };
    stream.set_read_timeout(Some(REACHED)).unwrap();
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
    for n in first..first + BROUGHT {
        let lines = if n % 4 == 3 { 2500 } else { 1 };
        let text = "0123456789abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOP\r\n";
        let message = format!(
            "MAIL FROM:<ops@a.example>\r\nRCPT TO:<{}>\r\nDATA\r\nSubject: {n}\r\n\r\n{}end\r\n.\r\n",
            recipient(n),
            text.repeat(lines)
        );
        let whole = say(&message) && reply("250") && reply("250") && reply("354") && reply("250");
        if !whole {
            break;
        }
        answered.push(n);
    }
    answered
}

impl World {
    fn new() -> Self {
        let site = |name| Site {
            name,
            namespace: Namespace::create(&format!("mailpoint{name}")).unwrap(),
            running: None,
        };
        let mut world = Self {
            folder: tempfile::tempdir().unwrap(),
            sites: ["a", "b"].map(site),
            brought: 0,
            ledger: BTreeSet::new(),
        };
        let [a, b] = &world.sites;
        a.namespace.connect("wire", &b.namespace, "wire").unwrap();
        for own in 0..2 {
            let file = world.folder.path().join(world.sites[own].name);
            let file = file.with_extension("toml");
            fs::write(file, node_file(world.folder.path(), own)).unwrap();
            let address = [10, 5, 0, own as u8 + 1].into();
            let namespace = &world.sites[own].namespace;
            namespace.add_address("wire", address, 24).unwrap();
        }
        world.start(1, None);
        world
    }

    fn start(&mut self, at: usize, dies: Option<&str>) {
        let site = &mut self.sites[at];
        // The one before is gone first, with its files.
        site.running = None;
        let mut command = within(&site.namespace, STRAIT);
        let file = self.folder.path().join(site.name).with_extension("toml");
        command.arg("run").arg(file);
        command.envs(dies.map(|dies| (VARIABLE, dies)));
        let (running, up) = started(command);
        // One that is killed may come to its place by what waits in its queue.
        assert!(up.is_ok() || dies.is_some(), "{up:?}");
        site.running = Some(running);
    }

    /// Kills a site's switch at a place, with messages that are brought meanwhile.
    fn kill_at(&mut self, at: usize, point: &str) {
        self.start(at, Some(point));
        if at == 1 {
            self.start(0, None);
        }
        let begun = Instant::now();
        let ended = loop {
            let first = self.brought;
            self.brought += BROUGHT;
            let answered = self.sites[0].namespace.enter(move || bring(first));
            self.ledger.extend(answered.unwrap());
            if let Some(ended) = self.ended_or_settled(at) {
                break ended;
            }
            let late = begun.elapsed() > REACHED;
            let name = self.sites[at].name;
            assert!(!late, "{name} doesn't come to {point}");
        };
        self.sites[at].running = None;
        assert_eq!(ended.signal(), Some(9), "{point}");
        if at == 1 {
            self.start(1, None);
        }
        self.sites[0].running = None;
    }

    /// How a site's switch ended, unless it has nothing to do any more or takes long.
    fn ended_or_settled(&mut self, at: usize) -> Option<ExitStatus> {
        let begun = Instant::now();
        let mut idle = false;
        loop {
            let running = self.sites[at].running.as_mut()?;
            if let Some(ended) = running.0.try_wait().unwrap() {
                return Some(ended);
            }
            // What it was to do last may still be done.
            if idle || begun.elapsed() > SETTLED {
                return None;
            }
            thread::sleep(Duration::from_millis(20));
            idle = (0..2).all(|it| self.waiting(it) == Some(0));
        }
    }

    /// How many messages wait at a site, if it is there.
    fn waiting(&self, at: usize) -> Option<usize> {
        let file = self.folder.path().join(self.sites[at].name);
        super::queue(&file.with_extension("sock")).map(|it| it.len())
    }

    /// How often each message, and a report of each, lies in a site's mailbox.
    fn lies(&self, at: usize) -> [BTreeMap<u64, usize>; 2] {
        let name = self.sites[at].name;
        let files = fs::read_dir(
            self.folder
                .path()
                .join(format!("{name}/ops@{name}.example/new")),
        );
        let mut all = [BTreeMap::new(), BTreeMap::new()];
        for file in files.into_iter().flatten() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let number = |before: &str, after: &str| {
                let mut lines = text.lines();
                let found = lines.find_map(|it| it.strip_prefix(before)?.strip_suffix(after));
                found.map(|it| it.parse::<u64>().unwrap())
            };
            let report = number("Final-Recipient: rfc822; nobody", "@b.example");
            let whole = report.is_some() || text.ends_with("\nend\n");
            assert!(whole, "a message is cut short");
            let n = report.or_else(|| number("Subject: ", "")).unwrap();
            *all[usize::from(report.is_some())].entry(n).or_default() += 1;
        }
        all
    }

    /// Nothing fails any more, and nothing waits. All that was answered for is there once.
    fn judge(&mut self) {
        self.start(0, None);
        let begun = Instant::now();
        while (0..2).any(|it| self.waiting(it) != Some(0)) {
            let late = begun.elapsed() > Duration::from_secs(30);
            assert!(!late, "something waits yet");
            thread::sleep(Duration::from_millis(50));
        }
        let ([near, reports], [far, _]) = (self.lies(0), self.lies(1));
        let total = near.len() + far.len() + reports.len();
        eprintln!(
            "{} brought, {} answered for, {total} delivered or reported",
            self.brought,
            self.ledger.len()
        );
        for n in 0..self.brought {
            let all = [(&near, 0), (&far, 1), (&far, 3), (&reports, 2)];
            let copies = |of: &BTreeMap<u64, usize>| of.get(&n).copied().unwrap_or(0);
            let right = all.into_iter().filter(|it| it.1 == n % 4);
            let there: usize = right.map(|it| copies(it.0)).sum();
            let anywhere: usize = [&near, &far, &reports].map(copies).into_iter().sum();
            assert_eq!(there, anywhere, "message {n} lies elsewhere");
            let lost = there == 0 && self.ledger.contains(&n);
            assert!(!lost, "message {n} was answered for and is lost");
            assert!(there <= 1, "message {n} lies there {there} times");
        }
        assert!(self.ledger.len() > 20, "too few messages for a test");
    }
}

/// Whether a switch that only receives comes to a place.
fn receives(point: FailPoint) -> bool {
    let name = point.name();
    !["report-", "changed-", "hop-"]
        .iter()
        .any(|it| name.starts_with(it))
}

#[test]
fn what_was_answered_for_survives_a_kill_at_each_named_place() {
    if !can_run() {
        return;
    }
    let times = std::env::var("STRAIT_MAIL_POINTS").ok();
    let times: u64 = times.and_then(|it| it.parse().ok()).unwrap_or(1);
    let mut world = World::new();
    for (point, n) in FailPoint::all()
        .into_iter()
        .flat_map(|it| (1..=times).map(move |n| (it, n)))
    {
        let name = point.name();
        // The first octets of a connection are of no message.
        let of_streams = name.starts_with("client-") || name.starts_with("hop-");
        let n = if of_streams { n + 3 } else { n };
        for at in 0..=usize::from(receives(point)) {
            world.kill_at(at, &format!("{name}:{n}"));
        }
    }
    world.judge();
}
