//! State files of versions before the database: JSON, values in hexadecimal digits.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::Deserialize;
use strait_core::node::{Owner, StoreError, StoreOp, Ticket};
use strait_core::storage::{Answer, Asked, Waiting};

use super::database::{Database, beside, sync_folder};
use crate::files::own_file;

/// The most octets that such a file had.
pub(super) const OCTETS_MAX: usize = 1 << 20;

const FORMAT: u32 = 1;

#[derive(Deserialize)]
struct Contents {
    format: u32,
    values: BTreeMap<String, String>,
}

/// Keys and values.
pub(super) type Values = Vec<(Vec<u8>, Vec<u8>)>;

/// What a file holds, if it is such a one.
pub(super) fn understand(octets: &[u8]) -> Option<Values> {
    let contents: Contents = serde_json::from_slice(octets).ok()?;
    let values = contents.values.into_iter();
    let values = values.map(|(key, digits)| Some((key.into_bytes(), from_digits(&digits)?)));
    let values: Option<_> = values.collect();
    values.filter(|_| contents.format == FORMAT && octets.len() <= OCTETS_MAX)
}

fn from_digits(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs
        .map(|pair| octet(pair).filter(|_| pair.len() == 2))
        .collect()
}

/// Puts a database with `values` in the place of the file at `path`, of whose contents a copy
/// stays. Whenever this is interrupted, one or the other is there whole.
pub(super) fn take_over(
    path: &Path,
    contents: &[u8],
    values: Values,
    octets_max: u64,
) -> io::Result<()> {
    let copy = beside(path, ".json");
    let mut file = own_file::create(&copy)?;
    file.write_all(contents)?;
    file.sync_all()?;
    let new = beside(path, ".new");
    own_file::check(&beside(path, ".new-wal"))?;
    let _ = fs::remove_file(beside(path, ".new-wal"));
    own_file::create(&new)?;
    let database = Database::attach(&new, octets_max)?;
    let batch = values.into_iter();
    let batch = batch.map(|(key, value)| StoreOp::Put(key, value)).collect();
    let ticket = Ticket {
        owner: Owner(0),
        n: 0,
    };
    let job = Waiting::default().take(ticket, Asked::Store(batch)).ok();
    let answer = database.serve(job.as_slice());
    database.close()?;
    if answer != [Answer::Stored(Ok(()))] {
        let full = answer == [Answer::Stored(Err(StoreError::Full))];
        let kind = if full {
            io::ErrorKind::StorageFull
        } else {
            io::ErrorKind::Other
        };
        return Err(io::Error::new(kind, "its contents can't be stored anew"));
    }
    File::open(&new)?.sync_all()?;
    fs::rename(&new, path)?;
    sync_folder(path)?;
    tracing::info!(
        path = %path.display(), copy = %copy.display(),
        "the state file of an older version was imported; a copy stays"
    );
    Ok(())
}
