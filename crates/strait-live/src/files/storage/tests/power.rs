//! Power cuts: of what was written and not synced, each sector of the device has the old octets or
//! the new ones.

use super::*;

/// What a device writes whole.
const SECTOR: usize = 512;
/// Batches, enough for the log to go into the database and begin anew several times.
const BATCHES: u64 = 1200;
/// One of so many has power cuts within it, and how many.
const EACH: u64 = 16;
const CUTS: usize = 4;

/// The database and its log, as they are on the device when all is synced.
#[derive(Clone)]
struct Image([Vec<u8>; 2]);

impl Image {
    fn of(path: &Path) -> Self {
        Self(["", "-wal"].map(|ending| fs::read(beside(path, ending)).unwrap_or_default()))
    }

    fn put(&self, path: &Path) {
        for (octets, ending) in self.0.iter().zip(["", "-wal"]) {
            fs::write(beside(path, ending), octets).unwrap();
        }
    }
}

/// A file of which some sectors are as they were, and others as they were to be.
fn torn(old: &[u8], new: &[u8], chance: &mut Stream) -> Vec<u8> {
    let mut torn = old.to_vec();
    // Its length is synced with its last octets, or isn't.
    torn.resize(
        if chance.happens(0.5) {
            new.len()
        } else {
            old.len()
        },
        0,
    );
    let length = torn.len();
    for (at, sector) in (0..).step_by(SECTOR).zip(new.chunks(SECTOR)) {
        let end = (at + sector.len()).min(length);
        if at < end && chance.happens(0.5) {
            torn[at..end].copy_from_slice(&sector[..end - at]);
        }
    }
    torn
}

/// What the device has after a power cut between these: `SQLite` syncs the log before it writes the
/// database, and the log's new head before the rest of a log that begins anew.
fn cut(before: &Image, after: &Image, chance: &mut Stream) -> Image {
    let [old, new] = [before, after].map(|it| &it.0);
    if old[0] != new[0] {
        return Image([torn(&old[0], &new[0], chance), new[1].clone()]);
    }
    let mut log = torn(&old[1], &new[1], chance);
    let head = SECTOR.min(log.len()).min(new[1].len());
    if old[1].get(..32) != new[1].get(..32) {
        log[..head.min(32)].copy_from_slice(&new[1][..head.min(32)]);
    }
    Image([new[0].clone(), log])
}

/// What is there of so many numbered batches.
fn all_of(kept: u64) -> Vec<(Vec<u8>, u64)> {
    let key = |n: u64, first: &[u8], octets| ([first, &n.to_be_bytes()].concat(), octets);
    let log = (kept > 0).then(|| (b"log".to_vec(), kept * 8));
    let first = (0..kept).map(|n| key(n, b"a", 1));
    first
        .chain(log)
        .chain((0..kept).map(|n| key(n, b"z", 300)))
        .collect()
}

#[test]
fn a_power_cut_drops_the_last_batch_whole_or_not_at_all() {
    // No real device is cut off, and one that syncs takes a minute.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let folder = folder.unwrap();
    let (path, copy) = (folder.path().join("a.state"), folder.path().join("b.state"));
    let database = Database::open(&path, ROOM).unwrap();
    let synchronous = database.synchronous().unwrap();
    assert_eq!(synchronous, 2, "each commit is synced");
    let mut chance = Stream::new(1, "storage.power");
    let mut waiting = Waiting::default();
    let mut before = Image::of(&path);
    let (mut anew, mut came) = (0, [0; 2]);
    let mut looks = 0;
    for n in 0..BATCHES {
        let job = waiting.take(ticket(n), Asked::Store(numbered(n))).unwrap();
        waiting.done(&job);
        assert_eq!(database.serve(&[job]), [Answer::Stored(Ok(()))]);
        let after = Image::of(&path);
        // The log goes into the database, and begins anew with the next batch.
        if before.0[0] != after.0[0] {
            (anew, looks) = (anew + 1, 2);
        }
        let cuts = if looks > 0 || n % EACH == 0 { CUTS } else { 0 };
        looks -= u64::from(looks > 0);
        for _ in 0..cuts {
            cut(&before, &after, &mut chance).put(&copy);
            let found = Database::open(&copy, ROOM).unwrap();
            let contents = found.contents().unwrap();
            let whole = [n, n + 1].map(|kept| all_of(kept) == contents);
            assert!(whole[0] || whole[1], "batch {n} is neither there nor gone");
            came[usize::from(whole[1])] += 1;
            found.close().unwrap();
            assert!(!beside(&copy, ".unreadable").exists(), "batch {n}");
        }
        before = after;
    }
    assert!(anew > 2, "the log went into the database {anew} times");
    assert!(came.iter().all(|it| *it > 10), "{came:?}");
}
