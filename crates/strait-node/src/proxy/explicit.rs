//! Programs that ask by SOCKS5 or HTTP CONNECT, until it is known whom they want, and those that
//! were refused, until they have gone.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::node::{StreamEvent, StreamId, StreamOp};
use strait_core::{Duration, Instant};
use strait_proxy::handshake::{Handshake, Speech, Step, Target, refused};

/// How long a request may take to come, and how long who was refused may stay.
const PATIENCE: Duration = Duration::from_secs(10);
/// Programs that haven't asked yet, or were refused and haven't gone.
pub(super) const WAITING_MAX: usize = 256;
/// Octets of a request that may come at a time.
const CREDIT_OCTETS: u64 = 1024;

/// A connection that a program has asked for.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) from: IpAddr,
    pub(super) dscp: u8,
    pub(super) speech: Speech,
    pub(super) target: Target,
    /// The connection's first octets, and whether they are all.
    pub(super) rest: Vec<u8>,
    pub(super) ended: bool,
    /// Octets that it takes, and that it may give.
    pub(super) writable: u64,
    pub(super) credited: u64,
}

#[derive(Debug)]
enum Stage {
    Talks(Handshake),
    Asks(Speech, Target, Vec<u8>),
    Leaves,
}

#[derive(Debug)]
struct Waiting {
    from: IpAddr,
    dscp: u8,
    stage: Stage,
    until: Instant,
    ended: bool,
    writable: u64,
    credited: u64,
}

/// All of them, and what is to be done on their streams.
#[derive(Debug, Default)]
pub(super) struct Explicit {
    all: BTreeMap<StreamId, Waiting>,
    /// When their time is over.
    ends: BTreeSet<(Instant, StreamId)>,
    asking: VecDeque<StreamId>,
    ops: VecDeque<(StreamId, StreamOp)>,
    /// Requests that came to nothing.
    pub(super) failed: u64,
}

impl Explicit {
    pub(super) fn has(&self, id: StreamId) -> bool {
        self.all.contains_key(&id)
    }

    /// A program is there. Of too many, the one goes whose time is over first.
    pub(super) fn begin(&mut self, now: Instant, id: StreamId, from: IpAddr, dscp: u8) {
        if self.all.len() >= WAITING_MAX
            && let Some((_, first)) = self.ends.first().copied()
        {
            self.drop_one(first);
        }
        let waiting = Waiting {
            from,
            dscp,
            stage: Stage::Talks(Handshake::default()),
            until: now + PATIENCE,
            ended: false,
            writable: 0,
            credited: CREDIT_OCTETS,
        };
        self.ends.insert((waiting.until, id));
        self.all.insert(id, waiting);
        let credit = StreamOp::Credit(CREDIT_OCTETS as u32);
        self.ops.push_back((id, credit));
    }

    /// Something happened on its stream.
    pub(super) fn hear(&mut self, id: StreamId, event: StreamEvent<'_>) {
        let Some(waiting) = self.all.get_mut(&id) else {
            return;
        };
        match event {
            StreamEvent::Data(octets) => {
                waiting.credited = waiting.credited.saturating_sub(octets.len() as u64);
                match &mut waiting.stage {
                    Stage::Talks(handshake) => {
                        let step = handshake.hear(octets);
                        self.follow(id, step);
                    }
                    Stage::Asks(_, _, rest) => rest.extend_from_slice(octets),
                    Stage::Leaves => {}
                }
            }
            StreamEvent::Writable(octets) => waiting.writable += u64::from(octets),
            StreamEvent::Fin => match waiting.stage {
                Stage::Asks(..) => waiting.ended = true,
                // It has gone, and what it was told is on its way.
                Stage::Leaves => drop(self.remove(id)),
                Stage::Talks(_) => self.drop_one(id),
            },
            StreamEvent::Reset(_) => drop(self.remove(id)),
            StreamEvent::Asked { .. }
            | StreamEvent::Opened { .. }
            | StreamEvent::Secured { .. } => {}
        }
    }

    fn follow(&mut self, id: StreamId, step: Step) {
        let Some(waiting) = self.all.get_mut(&id) else {
            return;
        };
        let answer = match step {
            Step::More(answer) => {
                let more = CREDIT_OCTETS - waiting.credited.min(CREDIT_OCTETS);
                waiting.credited += more;
                let credit = StreamOp::Credit(more as u32);
                self.ops.push_back((id, credit));
                answer
            }
            Step::Wants {
                speech,
                target,
                answer,
                rest,
            } => {
                waiting.stage = Stage::Asks(speech, target, rest);
                self.asking.push_back(id);
                answer
            }
            Step::Wrong(answer) => {
                self.failed += 1;
                return self.leave(id, answer);
            }
        };
        self.say(id, answer);
    }

    fn say(&mut self, id: StreamId, octets: Vec<u8>) {
        let waiting = self.all.get_mut(&id).filter(|_| !octets.is_empty());
        if let Some(waiting) = waiting {
            waiting.writable = waiting.writable.saturating_sub(octets.len() as u64);
            self.ops.push_back((id, StreamOp::Send(octets)));
        }
    }

    /// The next program that has asked.
    pub(super) fn next(&mut self) -> Option<(StreamId, Asking)> {
        loop {
            let id = self.asking.pop_front()?;
            let Some(waiting) = self.remove(id) else {
                continue;
            };
            if let Stage::Asks(speech, target, rest) = waiting.stage {
                let asking = Asking {
                    from: waiting.from,
                    dscp: waiting.dscp,
                    speech,
                    target,
                    rest,
                    ended: waiting.ended,
                    writable: waiting.writable,
                    credited: waiting.credited,
                };
                return Some((id, asking));
            }
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Tells a program what became of what it asked for.
    pub(super) fn refuse(&mut self, now: Instant, id: StreamId, speech: Speech, error: u16) {
        let waiting = Waiting {
            from: IpAddr::from([0; 4]),
            dscp: 0,
            stage: Stage::Leaves,
            until: now + PATIENCE,
            ended: false,
            writable: 0,
            credited: 0,
        };
        self.ends.insert((waiting.until, id));
        self.all.insert(id, waiting);
        self.leave(id, refused(speech, error));
    }

    /// Says the last word.
    fn leave(&mut self, id: StreamId, answer: Vec<u8>) {
        self.say(id, answer);
        self.ops.push_back((id, StreamOp::Fin));
        if let Some(waiting) = self.all.get_mut(&id) {
            waiting.stage = Stage::Leaves;
        }
    }

    fn remove(&mut self, id: StreamId) -> Option<Waiting> {
        let waiting = self.all.remove(&id)?;
        self.ends.remove(&(waiting.until, id));
        Some(waiting)
    }

    /// One that didn't ask, or doesn't go.
    fn drop_one(&mut self, id: StreamId) {
        if let Some(waiting) = self.remove(id) {
            self.failed += u64::from(matches!(waiting.stage, Stage::Talks(_)));
            self.ops.push_back((id, StreamOp::Reset(0)));
        }
    }

    pub(super) fn tend(&mut self, now: Instant) {
        while let Some((_, id)) = self.ends.first().copied().filter(|(at, _)| *at <= now) {
            self.drop_one(id);
        }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    pub(super) fn poll_op(&mut self) -> Option<(StreamId, StreamOp)> {
        self.ops.pop_front()
    }

    pub(super) fn check(&self) {
        assert_eq!(self.all.len(), self.ends.len(), "a program has no end");
    }
}
