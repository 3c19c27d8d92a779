//! What a node has done beside its thread: compression, digests and deliveries
//! ([`strait_core::work`]).

mod maildir;
pub(crate) mod worker;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use strait_core::node::Ticket;
use strait_core::work::{Waiting, Work, WorkError};
use strait_work::{login, perform};

use self::worker::Worker;

type Done = Result<Vec<u8>, WorkError>;

struct Job {
    ticket: Ticket,
    work: Work,
}

struct Answer {
    ticket: Ticket,
    octets: usize,
    done: Done,
}

/// The thread that works for a node, from the first piece on.
#[derive(Default)]
pub(crate) struct Workshop {
    waiting: Waiting,
    worker: Option<Worker<Job, Answer>>,
}

impl Workshop {
    /// Begins with a piece; [`Workshop::poll`] has the answer later.
    ///
    /// # Errors
    /// It isn't done, for this reason.
    pub(crate) fn ask(&mut self, ticket: Ticket, work: Work) -> Result<(), WorkError> {
        if self.worker.is_none() {
            // A host without threads or descriptors may have some later.
            let start = Worker::start("work", 1, does);
            self.worker = Some(start.map_err(|_| WorkError::Busy)?);
        }
        let octets = work.octets();
        self.waiting.take(octets)?;
        let given = self.worker.as_ref().map(|it| it.give(Job { ticket, work }));
        if let Some(Err(_)) = given {
            self.waiting.done(octets);
            return Err(WorkError::Busy);
        }
        Ok(())
    }

    /// The next answer.
    pub(crate) fn poll(&mut self) -> Option<(Ticket, Done)> {
        let answer = self.worker.as_ref()?.poll()?;
        self.waiting.done(answer.octets);
        Some((answer.ticket, answer.done))
    }

    /// Readable when there are answers.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.worker.as_ref().map(AsFd::as_fd)
    }
}

/// Octets of a file with a password.
const PASSWORD_OCTETS_MAX: u64 = 1024;

/// The line by which this host says who it is.
fn credential(name: &str, file: &Path) -> Done {
    let mut password = Vec::new();
    let read = File::open(file).and_then(|it| {
        let mut it = it.take(PASSWORD_OCTETS_MAX);
        it.read_to_end(&mut password)
    });
    if let Err(error) = read {
        tracing::warn!(file = %file.display(), %error, "a password can't be read");
        return Err(WorkError::Host);
    }
    Ok(login::line(name, password.trim_ascii_end()))
}

fn does(jobs: Vec<Job>) -> Vec<Answer> {
    let answer = |Job { ticket, work }| Answer {
        ticket,
        octets: work.octets(),
        done: match &work {
            Work::Deliver {
                folder,
                name,
                octets,
            } => maildir::deliver(folder, name, octets),
            Work::Credential { name, file } => credential(name, Path::new(file)),
            work => perform(work),
        },
    };
    jobs.into_iter().map(answer).collect()
}
