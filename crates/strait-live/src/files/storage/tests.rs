//! The lines of every storage, and what only a file has.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use strait_core::chance::Stream;
use strait_core::node::StoreOp;
use tempfile::TempDir;

use super::database::beside;
use super::*;
use suite::{done, load, numbered, only_the_last_are_lost, put, ticket};

mod power;
#[path = "../../../../strait-core/tests/suite/storage.rs"]
mod suite;

const ROOM: u64 = 1_000_000_000;

struct Bench {
    folder: TempDir,
    octets_max: u64,
    storage: Option<Storage>,
}

impl Bench {
    fn new(octets_max: u64) -> Self {
        let mut bench = Self {
            folder: tempfile::tempdir().unwrap(),
            octets_max,
            storage: None,
        };
        bench.start();
        bench
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.state")
    }

    fn start(&mut self) {
        self.storage = None;
        self.storage = Some(Storage::open(&self.path(), self.octets_max).unwrap());
    }
}

impl suite::Storage for Bench {
    fn ask(&mut self, ticket: Ticket, asked: Asked) {
        self.storage.as_mut().unwrap().ask(ticket, asked).unwrap();
    }

    fn answer(&mut self) -> (Ticket, Answer) {
        let storage = self.storage.as_mut().unwrap();
        loop {
            if let Some(answer) = storage.poll() {
                return answer;
            }
            let mut bell = [PollFd::new(storage.as_fd(), PollFlags::POLLIN)];
            poll(&mut bell, PollTimeout::NONE).unwrap();
        }
    }

    fn restart(&mut self) -> Vec<(Vec<u8>, u64)> {
        self.start();
        self.storage.as_ref().unwrap().contents()
    }

    /// Spoils every octet below the database.
    fn fail(&mut self) {
        for ending in ["", "-wal"] {
            let path = beside(&self.path(), ending);
            let octets = fs::metadata(&path).unwrap().len() as usize;
            let mut file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all(&vec![0xff; octets]).unwrap();
        }
    }
}

#[test]
fn it_does_what_storage_does() {
    suite::all(Bench::new);
}

/// Runs one of the tests below alone in a process of its own, which has `folder`.
fn child(name: &str, folder: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    // Tests are named from the crate on.
    let place = module_path!().split_once("::").unwrap().1;
    command.args(["--exact", &format!("{place}::{name}"), "--nocapture"]);
    command.env(FOLDER, folder).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Set for such a process.
const FOLDER: &str = "STRAIT_STORAGE_CHILD";

fn large_child() -> Option<Bench> {
    let folder = TempDir::new_in(env::var_os(FOLDER)?).unwrap();
    let mut bench = Bench {
        folder,
        octets_max: ROOM,
        storage: None,
    };
    bench.start();
    Some(bench)
}

#[test]
fn a_large_value_needs_little_memory() {
    let Some(mut bench) = large_child() else {
        let folder = tempfile::tempdir().unwrap();
        let status = child("a_large_value_needs_little_memory", folder.path()).wait();
        assert!(status.unwrap().success());
        return;
    };
    suite::a_large_value_goes_and_comes_in_pieces(&mut bench, 100_000_000);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find(|line| line.starts_with("VmHWM:"));
    let most: u64 = most
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(most < 40_000, "{most} kB");
}

/// Stores numbered batches until it is killed, and says in a file which were acknowledged.
fn store_for_ever(folder: &Path) {
    let path = folder.join("a.state");
    let mut acknowledged = File::create(folder.join("acknowledged")).unwrap();
    let mut storage = Storage::open(&path, ROOM).unwrap();
    let mut asked = storage.contents().len() as u64 / 2;
    let mut waiting = 0;
    loop {
        while waiting < 8 {
            storage
                .ask(ticket(asked), Asked::Store(numbered(asked)))
                .unwrap();
            (asked, waiting) = (asked + 1, waiting + 1);
        }
        while let Some((ticket, answer)) = storage.poll() {
            assert_eq!(answer, Answer::Stored(Ok(())));
            acknowledged.write_all(&ticket.n.to_be_bytes()).unwrap();
            waiting -= 1;
        }
        let mut bell = [PollFd::new(storage.as_fd(), PollFlags::POLLIN)];
        poll(&mut bell, PollTimeout::NONE).unwrap();
    }
}

#[test]
fn a_kill_loses_the_last_batches_of_those_not_acknowledged() {
    if let Some(folder) = env::var_os(FOLDER) {
        return store_for_ever(Path::new(&folder));
    }
    let mut bench = Bench::new(ROOM);
    let folder = bench.folder.path().to_path_buf();
    let mut chance = Stream::new(1, "storage.kill");
    let mut kept = 0;
    for _ in 0..20 {
        bench.storage = None;
        let name = "a_kill_loses_the_last_batches_of_those_not_acknowledged";
        let mut child = child(name, &folder);
        let told = || fs::read(folder.join("acknowledged")).unwrap_or_default();
        let first = kept;
        let number = |told: &[u8]| {
            let last = told.as_chunks::<8>().0.last();
            last.map_or(0, |last| u64::from_be_bytes(*last) + 1)
        };
        while number(&told()) <= first {
            thread::sleep(std::time::Duration::from_millis(1));
        }
        thread::sleep(std::time::Duration::from_micros(chance.below(20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let contents = suite::Storage::restart(&mut bench);
        kept = only_the_last_are_lost(&mut bench, &contents, number(&told()));
    }
}

/// Transactions in the file that they go to first: frames that say how large the database is then.
fn commits(path: &Path) -> usize {
    let log = fs::read(beside(path, "-wal")).unwrap();
    let (head, frames) = log.split_at(32);
    let page = u32::from_be_bytes(head[8..12].try_into().unwrap()) as usize;
    let frames = frames.chunks(24 + page);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[test]
fn what_waits_together_goes_in_one_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.state");
    let database = Database::open(&path, ROOM).unwrap();
    let before = commits(&path);
    let mut waiting = Waiting::default();
    let jobs = (0..100).map(|n| waiting.take(ticket(n), Asked::Store(numbered(n))));
    let jobs: Vec<Job> = jobs.map(Result::unwrap).collect();
    assert_eq!(database.serve(&jobs), vec![Answer::Stored(Ok(())); 100]);
    assert_eq!(commits(&path), before + 1);
    database.serve(&jobs[..1]);
    assert_eq!(commits(&path), before + 2);
    let read = waiting.take(ticket(0), load(b"log", 0, 9)).unwrap();
    database.serve(&[read]);
    assert_eq!(commits(&path), before + 2);
}

#[test]
fn what_was_asked_is_stored_when_the_gateway_stops() {
    let mut bench = Bench::new(ROOM);
    for n in 0..50 {
        suite::Storage::ask(&mut bench, ticket(n), Asked::Store(numbered(n)));
    }
    let contents = suite::Storage::restart(&mut bench);
    assert_eq!(only_the_last_are_lost(&mut bench, &contents, 50), 50);
    bench.storage = None;
    let left = fs::read_dir(bench.folder.path()).unwrap();
    assert_eq!(left.count(), 1, "one file");
    let mode = fs::metadata(bench.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// As version 0.1.0 wrote it.
const OLDER: &str = r#"{
  "format": 1,
  "values": {
    "": "",
    "flows/line/0": "0101040a0100020a0200020102138c"
  }
}
"#;

#[test]
fn the_file_of_an_older_version_is_taken_over_once_and_a_copy_stays() {
    let mut bench = Bench::new(ROOM);
    bench.storage = None;
    let path = bench.path();
    fs::write(&path, OLDER).unwrap();
    // Left by a start that was cut short.
    for ending in [".new", ".new-wal", ".json"] {
        fs::write(beside(&path, ending), "half of it").unwrap();
    }
    let expected = [(vec![], 0), (b"flows/line/0".to_vec(), 15)];
    for _ in 0..2 {
        assert_eq!(suite::Storage::restart(&mut bench), expected);
        let value = [1, 1, 4, 10, 1, 0, 2, 10, 2, 0, 2, 1, 2, 0x13, 0x8c];
        let answer = done(&mut bench, load(b"flows/line/0", 0, 99));
        assert_eq!(answer, Answer::Loaded(Ok(Some(value.into()))));
        assert_eq!(fs::read_to_string(beside(&path, ".json")).unwrap(), OLDER);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    bench.storage = None;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&path), mode(&beside(&path, ".json"))], [0o600; 2]);
    assert!(!beside(&path, ".new").exists());
}

#[test]
fn what_cannot_be_understood_is_put_aside() {
    let mut bench = Bench::new(ROOM);
    done(&mut bench, Asked::Store(numbered(0)));
    bench.storage = None;
    let path = bench.path();
    let mut spoilt = fs::read(&path).unwrap();
    spoilt[100..].fill(0x5a);
    let foreign = bench.folder.path().join("foreign");
    let other = rusqlite::Connection::open(&foreign).unwrap();
    other.execute_batch("CREATE TABLE a (b)").unwrap();
    drop(other);
    let foreign = fs::read(&foreign).unwrap();
    for contents in [
        b"{",
        &b"{\"format\":2,\"values\":{}}"[..],
        b"{\"format\":1,\"values\":{\"a\":\"0\"}}",
        b"SQLite format 3\0",
        &spoilt,
        &foreign,
    ] {
        fs::write(&path, contents).unwrap();
        assert_eq!(suite::Storage::restart(&mut bench), []);
        bench.storage = None;
        assert!(fs::read(beside(&path, ".unreadable")).unwrap() == contents);
    }
}

#[test]
fn an_empty_file_is_a_new_one() {
    let mut bench = Bench::new(ROOM);
    bench.storage = None;
    fs::write(bench.path(), "").unwrap();
    assert_eq!(suite::Storage::restart(&mut bench), []);
    assert!(!beside(&bench.path(), ".unreadable").exists());
}

#[test]
fn nothing_else_than_a_file_of_its_own_is_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.state");
    let other = folder.path().join("other");
    let open = || Storage::open(&path, ROOM).unwrap_err().to_string();
    fs::write(&other, "another's").unwrap();
    for ending in ["", "-wal", "-journal"] {
        let at = beside(&path, ending);
        symlink(&other, &at).unwrap();
        let error = open();
        assert!(error.contains("a symbolic link is there"), "{error}");
        fs::remove_file(at).unwrap();
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
    fs::write(&path, OLDER).unwrap();
    for ending in [".json", ".new", ".new-wal"] {
        let at = beside(&path, ending);
        symlink(&other, &at).unwrap();
        let error = open();
        assert!(error.contains("a symbolic link is there"), "{error}");
        fs::remove_file(at).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), OLDER);
    }
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = open();
    assert!(error.contains("a pipe is there"), "{error}");
    fs::remove_file(&path).unwrap();
    fs::write(&other, "").unwrap();
    fs::hard_link(&other, &path).unwrap();
    let error = open();
    assert!(error.contains("another hard link"), "{error}");
}

#[test]
fn one_gateway_at_a_time_has_it() {
    let bench = Bench::new(ROOM);
    let error = Storage::open(&bench.path(), ROOM).unwrap_err().to_string();
    assert!(error.contains("a running gateway uses it"), "{error}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_of_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere/a.state");
    let error = Storage::open(&path, ROOM).unwrap_err().to_string();
    assert!(
        error.contains("open the state file") && error.contains("nowhere/a.state"),
        "{error}"
    );
}

/// What a device without room says, before and after.
#[test]
fn a_full_file_still_takes_what_makes_room() {
    let mut bench = Bench::new(100_000);
    let mut store = |batch: Vec<StoreOp>| done(&mut bench, Asked::Store(batch));
    let full = Answer::Stored(Err(StoreError::Full));
    assert_eq!(store(vec![put(b"a", &[1; 60_000])]), Answer::Stored(Ok(())));
    assert_eq!(store(vec![put(b"b", &[1; 60_000])]), full);
    assert_eq!(store(vec![suite::delete(b"a")]), Answer::Stored(Ok(())));
    assert_eq!(store(vec![put(b"b", &[1; 60_000])]), Answer::Stored(Ok(())));
}
