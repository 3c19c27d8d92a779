//! What a node has stored, in a database of one file.

mod database;
mod older;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use strait_core::node::{StoreError, Ticket};
use strait_core::storage::{Answer, Asked, Job, Waiting};

use self::database::Database;
use crate::error::{Doing, Error};
use crate::files::own_file;
use crate::work::worker::Worker;

/// Stable storage of a live node: values by key, in a file that only its owner may read, and that
/// one program at a time has.
///
/// A thread of its own reads and writes, since a device may take longer than a voice packet can
/// wait. All that waits for it goes in one transaction.
#[derive(Debug)]
pub struct Storage {
    contents: Vec<(Vec<u8>, u64)>,
    waiting: Waiting,
    worker: Worker<Job, (Job, Answer)>,
}

impl Storage {
    /// Opens the file at `path`, and makes it if it isn't there; it becomes no larger than
    /// `octets_max`. What the file of an older program holds is taken over. A file that can't be
    /// understood is put aside under another name.
    ///
    /// # Errors
    /// The file can't be read or written, or another program has it.
    pub fn open(path: &Path, octets_max: u64) -> Result<Self, Error> {
        let doing = || format!("open the state file `{}`", path.display());
        let remedy = "its folder has to exist, and the gateway needs the right to write there";
        let database = Database::open(path, octets_max).doing(doing);
        let database = database.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => {
                error.with_remedy("a running gateway uses it: give each gateway its own file")
            }
            _ => own_file::with_remedy(error.with_remedy(remedy)),
        })?;
        let contents = database.contents().doing(doing)?;
        // All that waits is one group.
        let worker = Worker::start("storage", usize::MAX, move |group: Vec<Job>| {
            let answers = database.serve(&group);
            group.into_iter().zip(answers).collect()
        });
        Ok(Self {
            contents,
            waiting: Waiting::default(),
            worker: worker.doing(doing)?,
        })
    }

    /// Every key with the octets of its value, in the order of the keys, as it was at the start.
    pub fn contents(&self) -> Vec<(Vec<u8>, u64)> {
        self.contents.clone()
    }

    /// Begins with what is asked; [`Storage::poll`] has the answer later, in the order in which was
    /// asked.
    ///
    /// # Errors
    /// What is to be answered at once.
    pub fn ask(&mut self, ticket: Ticket, asked: Asked) -> Result<(), Answer> {
        let job = self.waiting.take(ticket, asked)?;
        // A worker that doesn't take it has failed for good.
        let given = self.worker.give(job);
        given.map_err(|job| job.fails(StoreError::Failed))
    }

    /// The next answer.
    pub fn poll(&mut self) -> Option<(Ticket, Answer)> {
        let (job, answer) = self.worker.poll()?;
        self.waiting.done(&job);
        Some((job.ticket, answer))
    }
}

impl AsFd for Storage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.as_fd()
    }
}
