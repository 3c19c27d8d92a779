//! What a simulated node has done beside its thread ([`strait_core::work`]).

use std::collections::{BTreeSet, VecDeque};

use strait_core::node::Ticket;
use strait_core::work::{Waiting, Work, WorkError};
use strait_core::{Duration, Instant};
use strait_work::perform_simulated;

type Done = Result<Vec<u8>, WorkError>;

/// Time for each piece: that of waking a thread, and of hearing from it; of one that is to outlive
/// power failures, that of the device.
const PIECE: Duration = Duration::from_micros(20);
const DEVICE: Duration = Duration::from_millis(4);
/// And of a password.
const PASSWORD: Duration = Duration::from_millis(50);

/// Nanoseconds for each octet, as one core of a small machine needs them. Compression counts what
/// goes in, and decompression what may come out.
const fn octet_ns(work: &Work) -> u64 {
    match work {
        Work::Compress { .. } => 10,
        Work::Decompress { .. } => 2,
        Work::Digest(_) => 4,
        Work::Deliver { .. } => 20,
        Work::LogIn { .. } | Work::Credential { .. } => 0,
    }
}

struct Job {
    ticket: Ticket,
    octets: usize,
    done: Done,
    /// What is put into a mailbox by it, and its file's name.
    delivers: Option<(String, Vec<u8>)>,
}

/// A node's pieces of work, one at a time.
#[derive(Default)]
pub(crate) struct Workshop {
    jobs: VecDeque<Job>,
    waiting: Waiting,
    /// What was put into mailboxes, and when.
    delivered: Vec<(Instant, Vec<u8>)>,
    names: BTreeSet<String>,
    /// When the last of them is done.
    busy_until: Instant,
}

impl Workshop {
    /// Takes a piece; when it is done.
    ///
    /// # Errors
    /// It isn't done, for this reason.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        ticket: Ticket,
        work: &Work,
    ) -> Result<Instant, WorkError> {
        let octets = work.octets();
        self.waiting.take(octets)?;
        let piece = match work {
            Work::Deliver { .. } => DEVICE,
            Work::LogIn { .. } => PASSWORD,
            _ => PIECE,
        };
        let time = piece + Duration::from_nanos(octet_ns(work) * octets as u64);
        self.busy_until = self.busy_until.max(now) + time;
        let done = perform_simulated(work);
        self.jobs.push_back(Job {
            ticket,
            octets,
            done,
            delivers: match work {
                Work::Deliver {
                    folder,
                    name,
                    octets,
                } => Some((format!("{folder}/{name}"), octets.clone())),
                _ => None,
            },
        });
        Ok(self.busy_until)
    }

    /// What was under way is lost; what lies in mailboxes isn't.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self {
            delivered: std::mem::take(&mut self.delivered),
            names: std::mem::take(&mut self.names),
            ..Self::default()
        };
    }

    /// What was put into mailboxes, and when.
    pub(crate) fn delivered(&self) -> &[(Instant, Vec<u8>)] {
        &self.delivered
    }

    /// The first piece is done.
    pub(crate) fn complete(&mut self, now: Instant) -> Option<(Ticket, Done)> {
        let job = self.jobs.pop_front()?;
        self.waiting.done(job.octets);
        // A message that is put there again has the name of its file.
        let fresh = job
            .delivers
            .filter(|(name, _)| self.names.insert(name.clone()));
        self.delivered
            .extend(fresh.map(|(_, octets)| (now, octets)));
        Some((job.ticket, job.done))
    }
}
