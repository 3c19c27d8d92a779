//! The end that connects and measures.

use strait_core::Instant;

use super::Plan;
use super::flow::{Inflow, Outflow};
use super::record::{Facts, Failure, TransferRecord};
use super::server::DONE;
use super::timeline::Timeline;
use super::wire::{Direction, Greeting, Report, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Greeting,
    Content,
    Report,
    Ended,
}

/// The client's side of one transfer.
#[derive(Debug)]
pub struct Client {
    plan: Plan,
    clock: u64,
    stage: Stage,
    started: Instant,
    connected: Option<Instant>,
    /// When TCP took the request.
    asked: Option<Instant>,
    greeting: Option<(Greeting, Instant)>,
    report: Option<Report>,
    ended: Option<Instant>,
    failure: Option<Failure>,
    outflow: Outflow,
    inflow: Inflow,
    /// Octets of a message that isn't whole.
    inbox: Vec<u8>,
}

impl Client {
    /// Right before connecting. `clock` is the number of the clock that all times come from.
    pub fn new(plan: Plan, clock: u64, now: Instant) -> Self {
        let up = plan.request.direction == Direction::Up;
        let octets = if up { plan.request.octets } else { 0 };
        let mut outflow = Outflow::new(&plan.request, u64::from(octets));
        outflow.say(|out| plan.request.emit(out));
        Self {
            clock,
            stage: Stage::Connecting,
            started: now,
            connected: None,
            asked: None,
            greeting: None,
            report: None,
            ended: None,
            failure: None,
            outflow,
            inflow: Inflow::new(&plan.request),
            inbox: Vec::new(),
            plan,
        }
    }

    /// When the transfer has taken too long.
    pub fn deadline(&self) -> Instant {
        self.started + self.plan.timeout
    }

    /// The connection is open.
    pub fn connected(&mut self, now: Instant) {
        if self.stage == Stage::Connecting {
            self.stage = Stage::Greeting;
            self.connected = Some(now);
        }
    }

    /// Whether the connection is still to be opened.
    pub fn is_connecting(&self) -> bool {
        self.stage == Stage::Connecting
    }

    /// Whether there is nothing more to do than to close.
    pub fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether everything went as it should.
    pub fn is_complete(&self) -> bool {
        self.is_ended() && self.failure.is_none()
    }

    /// What to send next; empty if nothing.
    pub fn pending(&mut self) -> &[u8] {
        match self.stage {
            Stage::Connecting | Stage::Ended => &[],
            _ => self.outflow.pending(),
        }
    }

    /// TCP took so many of the pending octets.
    pub fn take(&mut self, now: Instant, count: usize) {
        if count > 0 {
            self.asked.get_or_insert(now);
        }
        self.outflow.take(now, count);
    }

    /// Takes octets from the connection.
    pub fn receive(&mut self, now: Instant, mut octets: &[u8]) {
        while !octets.is_empty() && self.stage != Stage::Ended {
            octets = match self.stage {
                Stage::Greeting => self.greeted(now, octets),
                Stage::Content => self.content(now, octets),
                _ => self.reported(now, octets),
            };
        }
    }

    fn greeted<'a>(&mut self, now: Instant, octets: &'a [u8]) -> &'a [u8] {
        let missing = Greeting::OCTETS.saturating_sub(self.inbox.len());
        let (own, rest) = octets.split_at(missing.min(octets.len()));
        self.inbox.extend_from_slice(own);
        match Greeting::parse(&self.inbox) {
            Ok(None) => {}
            Ok(Some(greeting)) if greeting.verdict == Verdict::Admitted => {
                self.inbox.clear();
                self.greeting = Some((greeting, now));
                self.stage = match self.plan.request.direction {
                    Direction::Up => Stage::Report,
                    Direction::Down => Stage::Content,
                };
            }
            Ok(Some(greeting)) => self.fail(now, Failure::Declined(greeting.verdict)),
            Err(_) => self.fail(now, Failure::Garbled),
        }
        rest
    }

    fn content<'a>(&mut self, now: Instant, octets: &'a [u8]) -> &'a [u8] {
        let rest = self.inflow.take(now, octets);
        if self.inflow.is_whole() {
            self.outflow.say(|out| out.push(DONE));
            self.stage = Stage::Report;
        }
        rest
    }

    fn reported<'a>(&mut self, now: Instant, octets: &'a [u8]) -> &'a [u8] {
        self.inbox.extend_from_slice(octets);
        match Report::parse(&self.inbox) {
            Ok(None) => {}
            // A report before the end of the content would be of another transfer.
            Ok(Some(report)) if self.outflow.is_empty() => {
                self.report = Some(report);
                self.end(now);
            }
            _ => self.fail(now, Failure::Garbled),
        }
        &[]
    }

    /// It came to nothing. The first reason counts.
    pub fn fail(&mut self, now: Instant, failure: Failure) {
        if self.stage != Stage::Ended {
            self.failure = Some(failure);
            self.end(now);
        }
    }

    fn end(&mut self, now: Instant) {
        self.stage = Stage::Ended;
        self.ended = Some(now);
        self.inbox = Vec::new();
    }

    /// How the server's clock differs from ours, and by how much that may be wrong.
    fn clock(&self) -> Clock {
        match (&self.greeting, self.asked) {
            (Some((greeting, _)), _) if greeting.clock == self.clock && self.clock != 0 => {
                Clock::default()
            }
            (Some((greeting, greeted)), Some(asked)) => Clock::of(
                [asked.as_nanos(), greeted.as_nanos()],
                [greeting.received_ns, greeting.answered_ns],
            ),
            _ => Clock::default(),
        }
    }

    /// What was measured; `facts` are the system's about this end of the connection.
    pub fn record(self, facts: Facts) -> TransferRecord {
        let (clock, start_ns) = (self.clock(), self.started.as_nanos());
        let since = |at: Instant| at.as_nanos().saturating_sub(start_ns);
        let theirs = |at_ns: u64| clock.ours_ns(at_ns).saturating_sub(start_ns);
        let ours = |line: Timeline| line.shifted(|at_ns| at_ns.saturating_sub(start_ns));
        let report_ns = self.report.as_ref().map(|report| theirs(report.last_ns));
        let wrong = self.report.as_ref().map_or(0, |report| report.wrong);
        let (reported, their_facts) = match self.report {
            Some(report) => (report.progress.shifted(theirs), report.facts),
            None => (Timeline::new(1), Facts::default()),
        };
        let up = self.plan.request.direction == Direction::Up;
        let (taken_ns, last_ns) = match up {
            true => (self.outflow.last.map(since), report_ns),
            false => (report_ns, self.inflow.last.map(since)),
        };
        let (sent, arrived) = match up {
            true => (ours(self.outflow.taken), reported),
            false => (reported, ours(self.inflow.arrived)),
        };
        TransferRecord {
            direction: self.plan.request.direction,
            octets: self.plan.request.octets,
            run: self.plan.run,
            started_ns: start_ns,
            connected_ns: self.connected.map(since),
            taken_ns,
            last_ns: last_ns.filter(|_| self.failure.is_none()),
            ended_ns: self.ended.map(since),
            clock_error_ns: clock.error_ns,
            wrong: self.inflow.wrong + u64::from(wrong),
            failure: self.failure,
            sender: if up { facts } else { their_facts },
            sent,
            arrived,
        }
    }
}

/// Two clocks compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Clock {
    /// Theirs less ours.
    ahead_ns: i128,
    error_ns: u64,
}

impl Clock {
    /// From our times of asking and of the answer, and their times of both.
    fn of(ours: [u64; 2], theirs: [u64; 2]) -> Self {
        let [asked, answered] = ours.map(i128::from);
        let [received, replied] = theirs.map(i128::from);
        let away = (answered - asked) - (replied - received);
        Self {
            ahead_ns: (received - asked + replied - answered) / 2,
            error_ns: u64::try_from(away.max(0) / 2).unwrap_or(u64::MAX),
        }
    }

    fn ours_ns(self, at_ns: u64) -> u64 {
        let at_ns = (i128::from(at_ns) - self.ahead_ns).clamp(0, i128::from(u64::MAX));
        at_ns as u64
    }
}
