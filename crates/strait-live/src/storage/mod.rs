//! What a node has stored, in a database of one file.

mod database;
mod older;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::thread::{self, JoinHandle};

use strait_core::node::{StoreError, Ticket};
use strait_core::storage::{Answer, Asked, Job, Waiting};

use self::database::Database;
use crate::error::{Doing, Error};
use crate::own_file;

/// Stable storage of a live node: values by key, in a file that only its owner may read, and that
/// one program at a time has.
///
/// A thread of its own reads and writes, since a device may take longer than a voice packet can
/// wait. All that waits for it goes in one transaction.
#[derive(Debug)]
pub struct Storage {
    contents: Vec<(Vec<u8>, u64)>,
    waiting: Waiting,
    jobs: Option<Sender<Job>>,
    answers: Receiver<(Job, Answer)>,
    /// Readable when there are answers.
    bell: UnixStream,
    worker: Option<JoinHandle<()>>,
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
        let remedy = "its folder has to exist, and the gateway has to be allowed to write there";
        let database = Database::open(path, octets_max).doing(doing);
        let database = database.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => {
                error.with_remedy("a gateway that runs has it: give each one a file of its own")
            }
            _ => own_file::with_remedy(error.with_remedy(remedy)),
        })?;
        let (bell, ringer) = UnixStream::pair().doing(doing)?;
        bell.set_nonblocking(true).doing(doing)?;
        ringer.set_nonblocking(true).doing(doing)?;
        let (jobs, todo) = channel();
        let (done, answers) = channel();
        let contents = database.contents().doing(doing)?;
        let worker = thread::Builder::new().name("storage".into());
        let worker = worker.spawn(move || work(&database, &todo, &done, &ringer));
        Ok(Self {
            contents,
            waiting: Waiting::default(),
            jobs: Some(jobs),
            answers,
            bell,
            worker: Some(worker.doing(doing)?),
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
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        match sent {
            // The worker has failed for good.
            Some(Err(SendError(job))) => Err(job.fails(StoreError::Failed)),
            _ => Ok(()),
        }
    }

    /// The next answer.
    pub fn poll(&mut self) -> Option<(Ticket, Answer)> {
        let mut rings = [0; 16];
        let _ = (&self.bell).read(&mut rings);
        let (job, answer) = self.answers.try_recv().ok()?;
        self.waiting.done(&job);
        Some((job.ticket, answer))
    }
}

impl AsFd for Storage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Storage {
    /// Waits until all that was asked is done.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// Does what comes, until nothing can come any more.
fn work(
    database: &Database,
    todo: &Receiver<Job>,
    done: &Sender<(Job, Answer)>,
    ringer: &UnixStream,
) {
    let mut ringer = ringer;
    while let Ok(job) = todo.recv() {
        // All that waits is bounded by who asks.
        let group: Vec<Job> = std::iter::once(job).chain(todo.try_iter()).collect();
        let answers = database.serve(&group);
        for answer in group.into_iter().zip(answers) {
            if done.send(answer).is_err() {
                return;
            }
        }
        // One octet is enough, and what is there already rings as well.
        let _ = ringer.write(&[0]);
    }
}
