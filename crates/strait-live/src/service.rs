//! What a node's event loop serves besides the node: status, metrics.

use std::os::fd::BorrowedFd;

use strait_core::flow::Flow;
use strait_core::node::{Command, RouteChange};
use strait_core::stats::{Histogram, Stats};
use strait_core::time::Instant;
use strait_status::Tap;

use crate::node_loop::Recorder;
use crate::port_io::IoCounts;

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
    /// What the event loop knows of each port.
    pub ports: &'a [PortStatus],
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

/// What the event loop knows of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortStatus {
    /// Whether its device is open.
    pub open: bool,
    /// Why it isn't.
    pub problem: Option<String>,
    /// What happened below the node.
    pub counts: IoCounts,
}
