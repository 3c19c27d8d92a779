//! What a node's event loop serves besides the node: status, metrics.

use std::os::fd::BorrowedFd;

use strait_core::flow::Flow;
use strait_core::mail::MailView;
use strait_core::names::NameEntry;
use strait_core::node::{Command, RouteChange};
use strait_core::stats::{Histogram, Stats};
use strait_core::time::{Duration, Instant, nanos};
use strait_status::Tap;

use super::Recorder;
use crate::ports::{Found, IoCounts};

/// Something with descriptors of its own in a node's event loop. It must never block.
pub trait Service {
    /// The descriptors to wait on; true for those to wait for writing on.
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)>;

    /// A descriptor is ready, or [`Service::wake`] has come.
    fn serve(&mut self, view: &View<'_>);

    /// When it wants to be served whatever its descriptors say.
    fn wake(&self) -> Option<Instant> {
        None
    }

    /// The next change of the host's routes.
    fn poll_route(&mut self) -> Option<RouteChange> {
        None
    }

    /// The next wish of an operator who speaks by this service.
    fn poll_command(&mut self) -> Option<Command> {
        None
    }
}

/// What a service may see.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The moment.
    pub now: Instant,
    /// The node's counters.
    pub stats: &'a Stats,
    /// The flows that it knows.
    pub flows: &'a [Flow],
    /// The names that it knows or asks for, told when they are asked for.
    pub names: &'a dyn Fn() -> Vec<NameEntry>,
    /// What its message switch has, told likewise.
    pub mail: &'a dyn Fn() -> MailView,
    /// What the event loop knows of each port.
    pub ports: &'a [PortStatus],
    /// How fast octets passed of late.
    pub rates: &'a Rates,
    /// How the system serves the event loop.
    pub timers: &'a Timers,
    /// Who looks on as packets end.
    pub taps: &'a [Tap],
    /// Who writes the journal, where there is one.
    pub recorder: Option<&'a dyn Recorder>,
}

/// How soon the system woke the event loop when a moment had come.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    /// Whether it runs ahead of ordinary programs.
    pub goes_first: bool,
    /// By how much it was late.
    pub late: Histogram,
    /// The most of it, in nanoseconds.
    pub late_ns_max: u64,
}

impl Timers {
    /// Counts a wake-up that was so late.
    pub fn record(&mut self, late_ns: u64) {
        self.late.record(late_ns);
        self.late_ns_max = self.late_ns_max.max(late_ns);
    }
}

/// How fast octets passed the ports and classes of late: over the last five to ten seconds, and for
/// longer where nothing has happened since then.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    before: Sample,
    last: Sample,
    /// When something happened last.
    noted: Instant,
}

/// What had passed at a moment.
#[derive(Clone, Debug, Default)]
struct Sample {
    at: Instant,
    /// By port, and then by class: octets in and out.
    octets: Vec<[u64; 2]>,
}

impl Sample {
    fn of(now: Instant, stats: &Stats) -> Self {
        let ports = stats.ports.iter();
        let ports = ports.map(|port| [port.octets_in, port.octets_out]);
        let classes = stats.classes.iter();
        let classes = classes.map(|class| [class.delivered.octets, class.sent.octets]);
        Self {
            at: now,
            octets: ports.chain(classes).collect(),
        }
    }
}

impl Rates {
    const STEP: Duration = Duration::from_secs(5);

    /// Takes note of what has passed, whenever something happens.
    pub fn note(&mut self, now: Instant, stats: &Stats) {
        let rested = now.since(self.noted) >= Self::STEP;
        self.noted = now;
        if now.since(self.last.at) < Self::STEP {
            return;
        }
        let last = Sample::of(now, stats);
        self.before = std::mem::replace(&mut self.last, last);
        if rested {
            // All that has passed had passed before the rest.
            self.before = Sample {
                at: Instant::from_nanos(now.as_nanos().saturating_sub(nanos(Self::STEP))),
                octets: self.last.octets.clone(),
            };
        }
    }

    /// The rates until `now` in bit/s, of each port and then of each class: in and out.
    pub fn until(&self, now: Instant, stats: &Stats) -> Vec<[u64; 2]> {
        let time_ns = now.since(self.before.at).as_nanos();
        let was = self.before.octets.iter().copied();
        let was = was.chain(std::iter::repeat([0; 2]));
        let passed = |is: u64, was: u64| u128::from(is.saturating_sub(was)) * 8_000_000_000;
        let rate = |is, was| (passed(is, was) / time_ns.max(1)) as u64;
        let is = Sample::of(now, stats).octets;
        let each = is.into_iter().zip(was);
        each.map(|(is, was)| [rate(is[0], was[0]), rate(is[1], was[1])])
            .collect()
    }
}

/// What the event loop knows of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStatus {
    /// Whether its device is open.
    pub open: bool,
    /// Why it isn't.
    pub problem: Option<String>,
    /// What was found out of the device.
    pub found: Option<Found>,
    /// What happened below the node.
    pub counts: IoCounts,
}

#[cfg(test)]
mod tests {
    use strait_core::stats::{ClassStats, PortStats};

    use super::*;

    #[test]
    fn rates_are_those_of_the_last_five_to_ten_seconds() {
        let at = Instant::from_millis;
        let mut rates = Rates::default();
        let mut stats = Stats {
            ports: vec![PortStats::default()],
            classes: vec![ClassStats::default()],
            ..Stats::default()
        };
        // 1000 octets a second for twelve seconds; of these a tenth by the class, outwards.
        for second in 1..=12 {
            stats.ports[0].octets_in += 1000;
            stats.classes[0].sent.octets += 100;
            rates.note(at(second * 1000), &stats);
            let now = rates.until(at(second * 1000), &stats);
            assert_eq!(now, [[8000, 0], [0, 800]], "after {second} s");
        }
        // Then nothing: what was noted last is ten seconds old at most.
        for (ms, rate) in [
            (14_000, 6222),
            (14_999, 5600),
            (15_000, 3200),
            (19_999, 1600),
            (20_000, 0),
        ] {
            rates.note(at(ms), &stats);
            assert_eq!(rates.until(at(ms), &stats)[0], [rate, 0], "{ms}");
        }
        // What begins after an hour is told by its own rate, not by the hour's.
        for second in 3600..=3604 {
            rates.note(at(second * 1000), &stats);
            stats.ports[0].octets_in += 1000;
        }
        assert_eq!(rates.until(at(3_605_000), &stats)[0], [4000, 0]);
        // At the very start nothing has passed.
        let fresh = Rates::default().until(Instant::ZERO, &Stats::default());
        assert!(fresh.is_empty());
    }
}
