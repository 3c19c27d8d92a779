//! What a node has stored, in one file that is whole at any moment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};
use strait_core::node::{StoreError, StoreOp, Ticket};

use crate::error::{Doing, Error};
use crate::own_file;

/// The most octets of the file: it is written whole each time.
const OCTETS_MAX: usize = 1 << 20;

/// Batches that may wait for the device.
const PENDING_MAX: usize = 16;

const FORMAT: u32 = 1;

/// The file's contents. Values are in hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    values: BTreeMap<String, String>,
}

/// Stable storage of a live node: values by key, in a file that only its owner may read.
///
/// Each batch becomes a whole new file that takes the old one's place, so a crash leaves one or the
/// other. A thread of its own writes, since a device may take longer than a voice packet can wait.
#[derive(Debug)]
pub struct Storage {
    values: BTreeMap<String, Vec<u8>>,
    jobs: Option<SyncSender<Job>>,
    results: Receiver<Outcome>,
    /// Readable when there are results.
    bell: UnixStream,
    writer: Option<JoinHandle<()>>,
}

type Outcome = (Ticket, Result<(), StoreError>);

#[derive(Debug)]
struct Job {
    ticket: Ticket,
    text: Vec<u8>,
}

impl Storage {
    /// What `path` holds, nothing if it isn't there. A file that can't be understood is put aside
    /// under another name.
    ///
    /// # Errors
    /// The file can't be read, or written anew.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let doing = || format!("open the state file `{}`", path.display());
        let read = || {
            let values = read(path)?;
            // Whoever can't store anything has to know at the start.
            replace(path, &text(&values)).map(|()| values)
        };
        let remedy = "its folder has to exist, and the gateway has to be allowed to write there";
        let values = read().doing(doing);
        let values = values.map_err(|error| own_file::with_remedy(error.with_remedy(remedy)))?;
        let (bell, ringer) = UnixStream::pair().doing(doing)?;
        bell.set_nonblocking(true).doing(doing)?;
        ringer.set_nonblocking(true).doing(doing)?;
        let (jobs, todo) = sync_channel::<Job>(PENDING_MAX);
        let (done, results) = sync_channel(PENDING_MAX);
        let path = path.to_path_buf();
        let writer = thread::Builder::new().name("storage".into());
        let writer = writer.spawn(move || {
            for job in todo {
                let outcome = write(&path, &job.text);
                if done.send((job.ticket, outcome)).is_err() {
                    return;
                }
                // One octet is enough, and what is there already rings as well.
                let _ = (&ringer).write(&[0]);
            }
        });
        Ok(Self {
            values,
            jobs: Some(jobs),
            results,
            bell,
            writer: Some(writer.doing(doing)?),
        })
    }

    /// Everything stored, in the order of the keys.
    pub fn contents(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = self.values.iter();
        values
            .map(|(key, value)| (key.clone().into_bytes(), value.clone()))
            .collect()
    }

    /// Begins to store a batch, whole or not at all; [`Storage::poll`] says when it is stable.
    ///
    /// # Errors
    /// [`StoreError::Full`] if it doesn't fit or too many wait; [`StoreError::Failed`] if a key
    /// isn't text or the writer is gone.
    pub fn begin(&mut self, ticket: Ticket, batch: Vec<StoreOp>) -> Result<(), StoreError> {
        let mut values = self.values.clone();
        for op in batch {
            let key = |key: Vec<u8>| String::from_utf8(key).map_err(|_| StoreError::Failed);
            match op {
                StoreOp::Put(name, value) => {
                    values.insert(key(name)?, value);
                }
                StoreOp::Append(name, more) => values.entry(key(name)?).or_default().extend(more),
                StoreOp::Delete(name) => {
                    values.remove(&key(name)?);
                }
            }
        }
        let text = text(&values);
        if text.len() > OCTETS_MAX {
            return Err(StoreError::Full);
        }
        let jobs = self.jobs.as_ref().ok_or(StoreError::Failed)?;
        jobs.try_send(Job { ticket, text })
            .map_err(|_| StoreError::Full)?;
        self.values = values;
        Ok(())
    }

    /// The next batch that is stable or has failed.
    pub fn poll(&mut self) -> Option<(Ticket, Result<(), StoreError>)> {
        let mut rings = [0; PENDING_MAX];
        let _ = (&self.bell).read(&mut rings);
        self.results.try_recv().ok()
    }
}

impl AsFd for Storage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Storage {
    /// Waits until all that was begun is stable.
    fn drop(&mut self) {
        self.jobs = None;
        while self.results.recv().is_ok() {}
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let file = match own_file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut octets = Vec::new();
    file.take(OCTETS_MAX as u64 + 1).read_to_end(&mut octets)?;
    if let Some(values) = understand(&octets) {
        return Ok(values);
    }
    let aside = beside(path, "unreadable");
    fs::rename(path, &aside)?;
    tracing::warn!(
        path = %path.display(), aside = %aside.display(),
        "the state file can't be understood: it is kept under another name, and nothing is remembered"
    );
    Ok(BTreeMap::new())
}

fn understand(octets: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let contents: Contents = serde_json::from_slice(octets).ok()?;
    let values = contents.values.into_iter();
    let decode = |(key, digits): (String, String)| Some((key, from_digits(&digits)?));
    let values: Option<_> = values.map(decode).collect();
    values.filter(|_| contents.format == FORMAT && octets.len() <= OCTETS_MAX)
}

fn text(values: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let values = values.iter();
    let contents = Contents {
        format: FORMAT,
        values: values
            .map(|(key, value)| (key.clone(), digits(value)))
            .collect(),
    };
    let mut text = serde_json::to_vec_pretty(&contents).unwrap_or_default();
    text.push(b'\n');
    text
}

fn digits(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut digits, octet| {
        let _ = write!(digits, "{octet:02x}");
        digits
    })
}

fn from_digits(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs
        .map(|pair| octet(pair).filter(|_| pair.len() == 2))
        .collect()
}

fn write(path: &Path, text: &[u8]) -> Result<(), StoreError> {
    replace(path, text).map_err(|error| {
        tracing::warn!(path = %path.display(), %error, "the state file can't be written");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
            _ => StoreError::Failed,
        }
    })
}

/// Puts a new file in the place of the old one. When this returns, it is on the device.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = beside(path, "new");
    let mut file = own_file::create(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// A name beside `path`'s.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use strait_core::node::Owner;

    use super::*;

    fn put(key: &str, value: &[u8]) -> StoreOp {
        StoreOp::Put(key.into(), value.into())
    }

    fn wait(storage: &mut Storage) -> (Ticket, Result<(), StoreError>) {
        loop {
            if let Some(outcome) = storage.poll() {
                return outcome;
            }
            thread::yield_now();
        }
    }

    const fn ticket(n: u64) -> Ticket {
        Ticket { owner: Owner(1), n }
    }

    #[test]
    fn what_is_stored_is_there_after_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.state");
        let mut storage = Storage::open(&path).unwrap();
        assert!(storage.contents().is_empty());
        let batch = vec![put("b", &[0, 255]), put("a", b"x"), put("c", b"gone")];
        storage.begin(ticket(7), batch).unwrap();
        assert_eq!(wait(&mut storage), (ticket(7), Ok(())));
        let more = vec![
            StoreOp::Append("b".into(), vec![1]),
            StoreOp::Delete("c".into()),
        ];
        storage.begin(ticket(8), more).unwrap();
        // Nothing waits for this one but the end.
        drop(storage);
        let storage = Storage::open(&path).unwrap();
        let expected = [
            (b"a".to_vec(), b"x".to_vec()),
            (b"b".to_vec(), vec![0, 255, 1]),
        ];
        assert_eq!(storage.contents(), expected);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn what_cannot_be_understood_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.state");
        for spoilt in [
            "",
            "{",
            r#"{"format":2,"values":{}}"#,
            r#"{"format":1,"values":{"a":"0"}}"#,
        ] {
            fs::write(&path, spoilt).unwrap();
            assert!(Storage::open(&path).unwrap().contents().is_empty());
            let aside = fs::read_to_string(folder.path().join("a.state.unreadable"));
            assert_eq!(aside.unwrap(), spoilt);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.state");
        let mut storage = Storage::open(&path).unwrap();
        let batch = vec![put("a", b"x"), put("b", &[0; OCTETS_MAX / 2])];
        assert_eq!(storage.begin(ticket(1), batch), Err(StoreError::Full));
        let batch = vec![StoreOp::Put(vec![0xff], vec![])];
        assert_eq!(storage.begin(ticket(2), batch), Err(StoreError::Failed));
        assert!(storage.contents().is_empty());
    }

    #[test]
    fn nothing_else_than_a_file_is_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.state");
        let other = folder.path().join("other");
        fs::write(&other, "another's").unwrap();
        for at in [&path, &beside(&path, "new")] {
            std::os::unix::fs::symlink(&other, at).unwrap();
            let error = Storage::open(&path).unwrap_err().to_string();
            assert!(error.contains("a symbolic link is there"), "{error}");
            fs::remove_file(at).unwrap();
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = Storage::open(&path).unwrap_err().to_string();
        assert!(error.contains("a pipe is there"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_of_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nowhere/a.state");
        let error = Storage::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("open the state file") && error.contains("nowhere/a.state"),
            "{error}"
        );
    }
}
