//! What a node has done beside its thread: compression, digests and deliveries
//! ([`strait_core::work`]).

mod maildir;
pub(crate) mod worker;

use std::os::fd::{AsFd, BorrowedFd};

use strait_core::node::Ticket;
use strait_core::work::{Waiting, Work, WorkError};
use strait_work::perform;

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
            work => perform(work),
        },
    };
    jobs.into_iter().map(answer).collect()
}
