//! A thread beside a node's, for what may take longer than a voice packet can wait.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::thread::{self, JoinHandle};

/// Does jobs `J` one after the other; their answers `A` come in the same order. Who asks bounds how
/// many wait.
#[derive(Debug)]
pub(crate) struct Worker<J, A> {
    jobs: Option<Sender<J>>,
    answers: Receiver<A>,
    /// Readable when there are answers.
    bell: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static, A: Send + 'static> Worker<J, A> {
    /// A thread that does all jobs that wait, or `at_a_time` of them, together.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(crate) fn start(
        name: &str,
        at_a_time: usize,
        does: impl FnMut(Vec<J>) -> Vec<A> + Send + 'static,
    ) -> io::Result<Self> {
        let (bell, ringer) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ringer.set_nonblocking(true)?;
        let (jobs, todo) = channel();
        let (done, answers) = channel();
        let thread = thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || work(&todo, &done, &ringer, at_a_time, does))?;
        Ok(Self {
            jobs: Some(jobs),
            answers,
            bell,
            thread: Some(thread),
        })
    }

    /// Has a job done.
    ///
    /// # Errors
    /// The job, if the thread has failed for good.
    pub(crate) fn give(&self, job: J) -> Result<(), J> {
        let Some(jobs) = &self.jobs else {
            return Err(job);
        };
        jobs.send(job).map_err(|SendError(job)| job)
    }

    /// The next answer.
    pub(crate) fn poll(&self) -> Option<A> {
        let mut rings = [0; 16];
        let _ = (&self.bell).read(&mut rings);
        self.answers.try_recv().ok()
    }
}

impl<J, A> AsFd for Worker<J, A> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl<J, A> Drop for Worker<J, A> {
    /// Waits until all that was asked is done.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Does what comes, until nothing can come any more.
fn work<J, A>(
    todo: &Receiver<J>,
    done: &Sender<A>,
    ringer: &UnixStream,
    at_a_time: usize,
    mut does: impl FnMut(Vec<J>) -> Vec<A>,
) {
    let mut ringer = ringer;
    while let Ok(job) = todo.recv() {
        let more = todo.try_iter().take(at_a_time - 1);
        let group = std::iter::once(job).chain(more).collect();
        for answer in does(group) {
            if done.send(answer).is_err() {
                return;
            }
        }
        // One octet is enough, and what is there already rings as well.
        let _ = ringer.write(&[0]);
    }
}
