//! The end that is connected to.

use strait_core::Instant;

use super::flow::{Inflow, Outflow};
use super::record::Facts;
use super::wire::{Direction, Greeting, Report, Request, Verdict};

/// What a client says when it has all content, so that the server's report comes after everything
/// that its TCP had to do.
pub(super) const DONE: u8 = b'.';

/// What a server's driver has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Move octets.
    Nothing,
    /// Prepare the socket as the request says and call [`Server::answer`].
    Answer,
    /// Call [`Server::report`] with what the system knows.
    Report,
    /// Close the connection.
    Close,
}

#[derive(Debug)]
enum Stage {
    /// Octets of a request that isn't whole.
    Asked(Vec<u8>),
    /// A request, when it was whole, and the content that came with it.
    Answering(Request, Instant, Vec<u8>),
    Taking(Outflow, Inflow),
    Giving(Outflow),
    /// Everything to report, if the content went the right way.
    Reporting(Outflow, Option<Inflow>),
    /// What is said still goes; the client ends it.
    Ending(Outflow),
    Ended,
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Server {
    clock: u64,
    octets_max: u32,
    stage: Stage,
}

impl Server {
    /// For a connection that has just been accepted. `clock` is the number of the clock that all
    /// times come from, `octets_max` what a transfer may have.
    pub const fn new(clock: u64, octets_max: u32) -> Self {
        Self {
            clock,
            octets_max,
            stage: Stage::Asked(Vec::new()),
        }
    }

    /// What to do next.
    pub const fn due(&self) -> Due {
        match &self.stage {
            Stage::Answering(..) => Due::Answer,
            Stage::Reporting(..) => Due::Report,
            Stage::Ended => Due::Close,
            _ => Due::Nothing,
        }
    }

    /// The request that waits for an answer.
    pub const fn request(&self) -> Option<&Request> {
        match &self.stage {
            Stage::Answering(request, ..) => Some(request),
            _ => None,
        }
    }

    /// Takes octets from the connection. Octets that fit nothing end it.
    pub fn receive(&mut self, now: Instant, octets: &[u8]) {
        if octets.is_empty() {
            return;
        }
        self.stage = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Asked(mut inbox) => {
                inbox.extend_from_slice(octets);
                match Request::parse(&inbox) {
                    Ok(None) => Stage::Asked(inbox),
                    Ok(Some((request, length))) => {
                        Stage::Answering(request, now, inbox.split_off(length))
                    }
                    Err(_) => Stage::Ended,
                }
            }
            Stage::Answering(request, at, mut early) => {
                early.extend_from_slice(octets);
                Stage::Answering(request, at, early)
            }
            Stage::Taking(outflow, mut inflow) => match inflow.take(now, octets) {
                [] if inflow.is_whole() => Stage::Reporting(outflow, Some(inflow)),
                [] => Stage::Taking(outflow, inflow),
                _ => Stage::Ended,
            },
            Stage::Giving(outflow) if octets == [DONE] && outflow.is_empty() => {
                Stage::Reporting(outflow, None)
            }
            // The client may not know yet that it was declined.
            stage @ Stage::Ending(_) => stage,
            _ => Stage::Ended,
        };
    }

    /// Answers the request; `verdict` is what the driver thinks of it. Gives what was answered.
    pub fn answer(&mut self, now: Instant, verdict: Verdict) -> Verdict {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        let Stage::Answering(request, asked, early) = stage else {
            self.stage = stage;
            return verdict;
        };
        let verdict = match verdict {
            Verdict::Admitted if request.octets > self.octets_max => Verdict::TooLarge,
            verdict => verdict,
        };
        let octets = match (verdict, request.direction) {
            (Verdict::Admitted, Direction::Down) => u64::from(request.octets),
            _ => 0,
        };
        let mut outflow = Outflow::new(&request, octets);
        let greeting = Greeting {
            verdict,
            clock: self.clock,
            received_ns: asked.as_nanos(),
            answered_ns: now.as_nanos(),
        };
        outflow.say(|out| greeting.emit(out));
        self.stage = match (verdict, request.direction) {
            (Verdict::Admitted, Direction::Up) => Stage::Taking(outflow, Inflow::new(&request)),
            (Verdict::Admitted, Direction::Down) => Stage::Giving(outflow),
            _ => Stage::Ending(outflow),
        };
        self.receive(now, &early);
        verdict
    }

    /// Says what was seen. `facts` are the system's about this end of the connection.
    pub fn report(&mut self, facts: Facts) {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        let Stage::Reporting(mut outflow, inflow) = stage else {
            self.stage = stage;
            return;
        };
        let (last, progress, wrong) = match inflow {
            Some(inflow) => (inflow.last, inflow.arrived, inflow.wrong),
            None => (outflow.last, outflow.taken.clone(), 0),
        };
        let report = Report {
            wrong: u32::try_from(wrong).unwrap_or(u32::MAX),
            last_ns: last.map_or(0, Instant::as_nanos),
            progress,
            facts,
        };
        outflow.say(|out| report.emit(out));
        self.stage = Stage::Ending(outflow);
    }

    /// What to send next; empty if nothing.
    pub fn pending(&mut self) -> &[u8] {
        self.outflow().map_or(&[], Outflow::pending)
    }

    /// TCP took so many of the pending octets.
    pub fn take(&mut self, now: Instant, count: usize) {
        if let Some(outflow) = self.outflow() {
            outflow.take(now, count);
        }
    }

    /// The client has ended its direction, or the connection is gone.
    pub fn end(&mut self) {
        self.stage = Stage::Ended;
    }

    fn outflow(&mut self) -> Option<&mut Outflow> {
        match &mut self.stage {
            Stage::Taking(outflow, _)
            | Stage::Giving(outflow)
            | Stage::Reporting(outflow, _)
            | Stage::Ending(outflow) => Some(outflow),
            _ => None,
        }
    }
}
