//! The database: keys, and the octets behind them in rows of chunks.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf, absolute};
use std::slice;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction};
use strait_core::node::{StoreError, StoreOp};
use strait_core::storage::{Answer, Asked, Job, chunk_octets};

use super::older;
use crate::fail_points::{Stage, pass_store};
use crate::files::own_file;

/// How every database of this kind begins.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Tells ours from others: "stra".
const APPLICATION: i64 = 0x7374_7261;

/// Of the tables.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS value (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        octets INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS chunk (
        value INTEGER NOT NULL,
        start INTEGER NOT NULL,
        octets BLOB NOT NULL,
        UNIQUE (value, start)
    ) STRICT;";

/// The most octets of a row: a load reads few more than it gives.
const CHUNK_OCTETS: usize = 64 * 1024;

/// How long a gateway that ends may have the file still.
const PATIENCE: Duration = Duration::from_secs(1);

/// Values by key in one file.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    /// It was said that the file can't be read or written.
    complained: Cell<bool>,
}

impl Database {
    /// Opens the file at `path` as [`super::Storage::open`] says.
    pub(super) fn open(path: &Path, octets_max: u64) -> io::Result<Self> {
        for ending in ["-wal", "-journal"] {
            own_file::check(&beside(path, ending))?;
        }
        let start = read_start(path)?;
        let ours = start.is_empty() || start.starts_with(MAGIC);
        match older::understand(&start) {
            _ if ours => {}
            Some(values) => older::take_over(path, &start, values, octets_max)?,
            None => put_aside(path)?,
        }
        own_file::adopt(path)?;
        Self::attach(path, octets_max).or_else(|error| {
            if error.kind() != io::ErrorKind::InvalidData {
                return Err(error);
            }
            put_aside(path)?;
            own_file::adopt(path)?;
            Self::attach(path, octets_max)
        })
    }

    /// Opens a file that is there; [`io::ErrorKind::InvalidData`] if it is empty of sense.
    pub(super) fn attach(path: &Path, octets_max: u64) -> io::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // Some relative names mean something else than a file.
        let connection = Connection::open_with_flags(absolute(path)?, flags).map_err(failed)?;
        let database = Self {
            connection,
            complained: Cell::new(false),
        };
        database.prepare(octets_max).map_err(failed)?;
        // Who can't read the keys can't do anything.
        database.contents()?;
        sync_folder(path)?;
        Ok(database)
    }

    fn prepare(&self, octets_max: u64) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.busy_timeout(PATIENCE)?;
        // One program at a time, from the first read on.
        connection.pragma_update(None, "locking_mode", "exclusive")?;
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let known = (number("application_id")?, number("user_version")?);
        let is_new = number("page_count")? == 0;
        if known != (APPLICATION, VERSION) && !is_new {
            return Err(not_ours());
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        let pages = octets_max / number("page_size")?.unsigned_abs().max(1);
        let pages = pages.clamp(1, u64::from(u32::MAX));
        connection.pragma_update(None, "max_page_count", pages as i64)?;
        let marked = || {
            let transaction = connection.unchecked_transaction()?;
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()
        };
        // Who can't store anything has to know at the start; a full disk may have room later.
        marked().or_else(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) if !is_new => Ok(()),
            _ => Err(error),
        })
    }

    /// Every key with the octets of its value, in the order of the keys.
    pub(super) fn contents(&self) -> io::Result<Vec<(Vec<u8>, u64)>> {
        let all = || {
            let sql = "SELECT key, octets FROM value ORDER BY key";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        all().map_err(failed)
    }

    /// Does all of `group` in one transaction, or else each by itself. The answers have the order
    /// of the jobs.
    pub(super) fn serve(&self, group: &[Job]) -> Vec<Answer> {
        let answers = self.transact(group);
        if group.len() > 1 {
            let alone = |_| {
                group
                    .iter()
                    .flat_map(|job| self.serve(slice::from_ref(job)))
            };
            return answers.unwrap_or_else(|error| alone(error).collect());
        }
        let error = match answers {
            Ok(answers) => {
                self.complained.set(false);
                return answers;
            }
            Err(error) => error,
        };
        if !self.complained.replace(true) {
            tracing::warn!(%error, "the state file can't be read or written");
        }
        let fails = |job: &Job| job.fails(store_error(&error));
        group.iter().map(fails).collect()
    }

    fn transact(&self, group: &[Job]) -> rusqlite::Result<Vec<Answer>> {
        let transaction = self.connection.unchecked_transaction()?;
        let answers = group.iter().map(|job| match &job.asked {
            Err(answer) => Ok(answer.clone()),
            Ok(Asked::Store(batch)) => {
                pass_store(batch, Stage::Asked);
                for (op, more) in batch.iter().zip((0..batch.len()).rev()) {
                    apply(&transaction, op)?;
                    if more > 0 {
                        pass_store(batch, Stage::Half);
                    }
                }
                Ok(Answer::Stored(Ok(())))
            }
            Ok(Asked::Load {
                key,
                offset,
                octets,
            }) => Ok(Answer::Loaded(Ok(read(
                &transaction,
                key,
                *offset,
                *octets,
            )?))),
        });
        let answers = answers.collect::<rusqlite::Result<_>>()?;
        transaction.commit()?;
        for job in group {
            if let Ok(Asked::Store(batch)) = &job.asked {
                pass_store(batch, Stage::Stable);
            }
        }
        Ok(answers)
    }

    /// When the device has what was written: 2 is with each commit.
    #[cfg(test)]
    pub(super) fn synchronous(&self) -> rusqlite::Result<i64> {
        let connection = &self.connection;
        connection.pragma_query_value(None, "synchronous", |row| row.get(0))
    }

    /// Moves all into the one file, and leaves it.
    pub(super) fn close(self) -> io::Result<()> {
        self.connection.close().map_err(|(_, error)| failed(error))
    }
}

/// The number of a value, and its octets.
fn find(transaction: &Transaction<'_>, key: &[u8]) -> rusqlite::Result<Option<(i64, u64)>> {
    let sql = "SELECT id, octets FROM value WHERE key = ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let found = statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?)));
    found.optional()
}

fn apply(transaction: &Transaction<'_>, op: &StoreOp) -> rusqlite::Result<()> {
    let (StoreOp::Put(key, _) | StoreOp::Append(key, _) | StoreOp::Delete(key)) = op;
    let found = find(transaction, key)?;
    match op {
        StoreOp::Append(_, more) => append(transaction, key, found, more),
        StoreOp::Put(_, value) => {
            let found = found.map(|(id, _)| clear(transaction, id)).transpose()?;
            append(transaction, key, found, value)
        }
        StoreOp::Delete(_) => {
            let Some((id, _)) = found else {
                return Ok(());
            };
            clear(transaction, id)?;
            let mut delete = transaction.prepare_cached("DELETE FROM value WHERE id = ?1")?;
            delete.execute([id]).map(drop)
        }
    }
}

/// Takes all octets of a value away.
fn clear(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<(i64, u64)> {
    let mut delete = transaction.prepare_cached("DELETE FROM chunk WHERE value = ?1")?;
    delete.execute([id])?;
    Ok((id, 0))
}

fn append(
    transaction: &Transaction<'_>,
    key: &[u8],
    found: Option<(i64, u64)>,
    more: &[u8],
) -> rusqlite::Result<()> {
    let (id, before) = match found {
        Some(found) => found,
        None => {
            let sql = "INSERT INTO value (key, octets) VALUES (?1, 0)";
            (transaction.prepare_cached(sql)?.insert([key])?, 0)
        }
    };
    let sql = "INSERT INTO chunk (value, start, octets) VALUES (?1, ?2, ?3)";
    let mut insert = transaction.prepare_cached(sql)?;
    let starts = (before..).step_by(CHUNK_OCTETS);
    for (start, chunk) in starts.zip(more.chunks(CHUNK_OCTETS)) {
        insert.execute((id, start, chunk))?;
    }
    let sql = "UPDATE value SET octets = ?2 WHERE id = ?1";
    let mut update = transaction.prepare_cached(sql)?;
    update.execute((id, before + more.len() as u64)).map(drop)
}

fn read(
    transaction: &Transaction<'_>,
    key: &[u8],
    offset: u64,
    octets: u32,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let Some((id, length)) = find(transaction, key)? else {
        return Ok(None);
    };
    let wanted = chunk_octets(length, offset, octets);
    if wanted == 0 {
        return Ok(Some(Vec::new()));
    }
    // The last row that begins before what is wanted may hold its first octet.
    let sql = "SELECT start, octets FROM chunk WHERE value = ?1 AND start < ?3 AND start >=
        (SELECT max(start) FROM chunk WHERE value = ?1 AND start <= ?2) ORDER BY start";
    let mut select = transaction.prepare_cached(sql)?;
    let mut rows = select.query((id, offset, offset + wanted as u64))?;
    let mut out = Vec::with_capacity(wanted);
    while let Some(row) = rows.next()? {
        let start: u64 = row.get(0)?;
        let chunk = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let at = offset + out.len() as u64;
        let skip = at.checked_sub(start).ok_or_else(not_ours)? as usize;
        let rest = chunk.get(skip..).ok_or_else(not_ours)?;
        out.extend_from_slice(&rest[..rest.len().min(wanted - out.len())]);
    }
    if out.len() < wanted {
        return Err(not_ours());
    }
    Ok(Some(out))
}

/// It was a database once, or is another's.
fn not_ours() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

fn store_error(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        _ => StoreError::Failed,
    }
}

fn failed(error: rusqlite::Error) -> io::Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => io::ErrorKind::ResourceBusy,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => io::ErrorKind::InvalidData,
        Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// The first octets of a file, all of them if it may be one of an older program; none if there is
/// no file.
fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    let file = match own_file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut start = Vec::new();
    let mut more = file.take(older::OCTETS_MAX as u64 + 1);
    (&mut more)
        .take(MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    if start != MAGIC {
        more.read_to_end(&mut start)?;
    }
    Ok(start)
}

/// Keeps a file that can't be understood under another name, with what belongs to it.
fn put_aside(path: &Path) -> io::Result<()> {
    let aside = beside(path, ".unreadable");
    for ending in ["", "-wal", "-journal"] {
        match fs::rename(beside(path, ending), beside(&aside, ending)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    tracing::warn!(
        path = %path.display(), aside = %aside.display(),
        "the state file can't be understood: it is renamed, and the gateway starts with no stored \
         data"
    );
    Ok(())
}

/// Makes the names of files beside `path` as stable as their contents.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// The name of a file that belongs to `path`'s.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}
