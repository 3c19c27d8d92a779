//! What drivers of every kind share of stable storage: what is asked of it and answered, and how
//! much may wait.
//!
//! A value is octets behind a key. [`Effect::Store`](crate::Effect::Store) changes values by a
//! batch, [`Effect::Load`](crate::Effect::Load) reads one chunk of one value.
//!
//! - What a node asks for is done, and answered, in the order in which it was asked. So a load sees
//!   each batch before it, and is answered behind it.
//! - A batch is there whole or not at all. Of those that weren't answered when a node was killed,
//!   the last may be lost, however many; never one ahead of another that is there.
//! - Batches that wait together may become stable together.
//! - What is asked for beyond [`WAITING_MAX`] or [`WAITING_OCTETS_MAX`] fails with
//!   [`StoreError::Busy`], in its turn; beyond [`REFUSED_MAX`] at once, as a node that goes on
//!   asking listens to nobody.

use alloc::vec::Vec;

use crate::Input;
use crate::node::{StoreError, StoreOp, Ticket};

/// Batches and loads of a node that wait to be done, at most: more would only wait longer.
pub const WAITING_MAX: usize = 1024;

/// Octets of those, chunks to be read included. One larger batch goes alone.
pub const WAITING_OCTETS_MAX: usize = 16 << 20;

/// Answers that wait for their turn, refusals included, at most.
pub const REFUSED_MAX: usize = 2 * WAITING_MAX;

/// The most octets that one load gives.
pub const LOAD_OCTETS_MAX: u32 = 1 << 20;

/// What is asked of storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// [`Effect::Store`](crate::Effect::Store).
    Store(Vec<StoreOp>),
    /// [`Effect::Load`](crate::Effect::Load).
    Load {
        /// Which value.
        key: Vec<u8>,
        /// Where to begin.
        offset: u64,
        /// The most octets to give.
        octets: u32,
    },
}

impl Asked {
    /// The answer if it fails.
    pub const fn fails(&self, error: StoreError) -> Answer {
        match self {
            Self::Store(_) => Answer::Stored(Err(error)),
            Self::Load { .. } => Answer::Loaded(Err(error)),
        }
    }

    /// Octets that it brings, or may give.
    fn octets(&self) -> usize {
        let batch = match self {
            Self::Load { octets, .. } => return (*octets).min(LOAD_OCTETS_MAX) as usize,
            Self::Store(batch) => batch.iter(),
        };
        let octets = batch.map(|op| match op {
            StoreOp::Put(key, value) | StoreOp::Append(key, value) => key.len() + value.len(),
            StoreOp::Delete(key) => key.len(),
        });
        octets.sum()
    }
}

/// What storage answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// [`Input::Stored`].
    Stored(Result<(), StoreError>),
    /// [`Input::Loaded`].
    Loaded(Result<Option<Vec<u8>>, StoreError>),
}

impl Answer {
    /// What the node is told.
    pub fn input(&self, ticket: Ticket) -> Input<'_> {
        match self {
            Self::Stored(result) => Input::Stored {
                ticket,
                result: *result,
            },
            Self::Loaded(result) => Input::Loaded {
                ticket,
                result: result.as_ref().map(Option::as_deref).map_err(|it| *it),
            },
        }
    }
}

/// Octets of the chunk that a load of at most `octets` gives of a value of `length`.
pub fn chunk_octets(length: u64, offset: u64, octets: u32) -> usize {
    length
        .saturating_sub(offset)
        .min(u64::from(octets.min(LOAD_OCTETS_MAX))) as usize
}

/// Something that waits for its turn.
#[derive(Debug)]
pub struct Job {
    /// Whose it is.
    pub ticket: Ticket,
    /// What to do, or else what to say.
    pub asked: Result<Asked, Answer>,
    octets: usize,
}

impl Job {
    /// The answer if it fails, unless that is settled.
    pub fn fails(&self, error: StoreError) -> Answer {
        match &self.asked {
            Ok(asked) => asked.fails(error),
            Err(answer) => answer.clone(),
        }
    }
}

/// How much waits at a driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    jobs: usize,
    /// Of these, what is to be done.
    asked: usize,
    octets: usize,
}

impl Waiting {
    /// Takes another, if only for its refusal.
    ///
    /// # Errors
    /// What is to be said at once.
    pub fn take(&mut self, ticket: Ticket, asked: Asked) -> Result<Job, Answer> {
        if self.jobs >= REFUSED_MAX {
            return Err(asked.fails(StoreError::Busy));
        }
        self.jobs += 1;
        let octets = asked.octets();
        let fits = self.asked < WAITING_MAX && self.octets + octets <= WAITING_OCTETS_MAX;
        if !fits && self.asked > 0 {
            return Ok(Job {
                ticket,
                asked: Err(asked.fails(StoreError::Busy)),
                octets: 0,
            });
        }
        self.asked += 1;
        self.octets += octets;
        Ok(Job {
            ticket,
            asked: Ok(asked),
            octets,
        })
    }

    /// One of these is answered.
    pub const fn done(&mut self, job: &Job) {
        self.jobs -= 1;
        self.asked -= job.asked.is_ok() as usize;
        self.octets -= job.octets;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::node::Owner;

    const TICKET: Ticket = Ticket {
        owner: Owner(0),
        n: 0,
    };

    fn batch(octets: usize) -> Asked {
        Asked::Store(vec![StoreOp::Append(vec![], vec![0; octets])])
    }

    #[test]
    fn so_much_waits_and_a_larger_batch_goes_alone() {
        let mut waiting = Waiting::default();
        let take = |waiting: &mut Waiting, octets| waiting.take(TICKET, batch(octets)).unwrap();
        let large = take(&mut waiting, WAITING_OCTETS_MAX + 1);
        assert!(large.asked.is_ok());
        let refused = take(&mut waiting, 0);
        assert_eq!(refused.asked, Err(Answer::Stored(Err(StoreError::Busy))));
        waiting.done(&large);
        waiting.done(&refused);
        assert!(take(&mut waiting, 1).asked.is_ok());
        assert!(take(&mut waiting, WAITING_OCTETS_MAX).asked.is_err());
        assert!(take(&mut waiting, WAITING_OCTETS_MAX - 1).asked.is_ok());
    }

    #[test]
    fn so_many_wait_and_then_so_many_refusals() {
        let mut waiting = Waiting::default();
        for number in 0..REFUSED_MAX {
            let job = waiting.take(TICKET, batch(0)).unwrap();
            assert_eq!(job.asked.is_ok(), number < WAITING_MAX);
        }
        let load = Asked::Load {
            key: vec![],
            offset: 0,
            octets: 1,
        };
        let answer = waiting.take(TICKET, load).unwrap_err();
        assert_eq!(answer, Answer::Loaded(Err(StoreError::Busy)));
    }

    #[test]
    fn a_chunk_ends_where_its_value_does() {
        assert_eq!(chunk_octets(10, 0, 4), 4);
        assert_eq!(chunk_octets(10, 8, 4), 2);
        assert_eq!(chunk_octets(10, 10, 4), 0);
        assert_eq!(chunk_octets(10, u64::MAX, 4), 0);
        assert_eq!(chunk_octets(u64::MAX, 0, u32::MAX), 1 << 20);
    }

    #[test]
    fn keys_and_values_count_and_what_may_be_read() {
        let batch = Asked::Store(vec![
            StoreOp::Put(vec![1; 2], vec![1; 3]),
            StoreOp::Append(vec![1; 5], vec![1; 7]),
            StoreOp::Delete(vec![1; 11]),
        ]);
        assert_eq!(batch.octets(), 28);
        let load = |octets| Asked::Load {
            key: vec![1],
            offset: 0,
            octets,
        };
        assert_eq!(
            [load(9), load(u32::MAX)].map(|it| it.octets()),
            [9, 1 << 20]
        );
    }
}
