//! The flows of an MGEN script over real sockets: what the simulator's traffic of kind `mgen` is,
//! live, and what `mgen` itself does. Each understands the other's messages and logs.
//!
//! One thread and one `ppoll(2)`. Messages leave when they are due; what became due while the
//! thread was busy leaves at once, so that the rate is right in the long run however coarse the
//! host's timing is. Sending goes before receiving in turns of at most 256 messages each.

mod book;
mod inlet;
mod outlet;
mod socket;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags};
use strait_core::time::{Duration, Instant};
use strait_live::clock::{monotonic, utc_offset_s, wall_ns};
use strait_live::error::{Doing, Error};
use strait_live::kernel::schedule;
use strait_live::poll;
use strait_live::signals::Stop;
use strait_traffic::FlowReport;
use strait_traffic::mgen::{Action, Cloned, Player, Script, Start, micros_of_day};

use self::book::Book;
use self::inlet::Inlets;
use self::outlet::Outlets;

/// What to do.
pub struct Flows {
    /// The script.
    pub script: Script,
    /// The captures that it repeats.
    pub captures: BTreeMap<String, Arc<[Cloned]>>,
    /// Seed of random gaps.
    pub seed: u64,
    /// Name of the random streams, so that a scenario's traffic has the same ones live.
    pub name: String,
    /// The address of this host to use; any if absent.
    pub local: Option<IpAddr>,
    /// When the script's time 0 is, by [`monotonic`].
    pub zero: Instant,
    /// When to end at the latest.
    pub until: Instant,
    /// Messages end with a checksum.
    pub checksum: bool,
    /// Code point of flows without TOS.
    pub dscp: u8,
    /// Where the log goes.
    pub log: Option<Box<dyn io::Write>>,
    /// Times in the log are this far from UTC, in seconds.
    pub utc_offset_s: i64,
}

/// What was sent by a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages.
    pub messages: u64,
    /// Octets of them.
    pub octets: u64,
    /// Messages that the transport didn't take.
    pub not_sent: u64,
    /// When the first and the last left, in ns.
    pub span_ns: Option<(u64, u64)>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By flow, what this end sent.
    pub sent: BTreeMap<u32, Sent>,
    /// By flow and sender, what arrived here.
    pub received: Vec<FlowReport>,
    /// Octets that arrived and are no messages, by what is wrong with them.
    pub errors: BTreeMap<&'static str, u64>,
    /// Anything else, by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// How late messages left, in s: the median, the 99th percentile and the worst.
    pub late_s: Option<[f64; 3]>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// When a script's START is, by [`monotonic`]; `None` if it is over for today.
pub fn time_of_day(start: Start) -> Option<Instant> {
    let now_ns = wall_ns();
    let offset_s = if start.gmt { 0 } else { utc_offset_s() };
    let since_midnight_us = micros_of_day(now_ns.saturating_add_signed(offset_s * 1_000_000_000));
    let wait = start
        .at
        .checked_sub(Duration::from_micros(since_midnight_us))?;
    Some(monotonic() + wait)
}

/// Messages that one turn sends or takes in at most.
const TURN: usize = 256;
/// A signal that comes right before a wait is seen after so long.
const PATIENCE: Duration = Duration::from_millis(200);

impl Flows {
    /// Plays the script to its end; with something to listen to, until its time is over or the user
    /// stops it.
    ///
    /// # Errors
    /// A port can't be listened to, or the log can't be written.
    pub fn run(self, stop: &Stop) -> Result<Outcome, Error> {
        schedule::exact_timers();
        let player = Player::new(
            &self.script,
            self.captures,
            self.zero,
            self.seed,
            &self.name,
        );
        let mut desk = Desk {
            outlets: Outlets::new(self.local, self.checksum, self.dscp, &self.script),
            inlets: Inlets::new(self.local, &self.script),
            book: Book::new(self.log, self.utc_offset_s),
            player,
        };
        desk.book.begin()?;
        while !stop.is_asked() {
            let now = monotonic();
            if now >= self.until || desk.is_over() {
                break;
            }
            let busy = desk.send(now)?;
            let wake = desk.player.wake().unwrap_or(Instant::NEVER).min(self.until);
            let patience = if busy {
                Duration::ZERO
            } else {
                wake.since(monotonic()).min(PATIENCE)
            };
            desk.wait(patience)?;
        }
        desk.outlets.close_all(&mut desk.book);
        desk.book.finish()
    }
}

/// Everything that a run works with.
struct Desk {
    player: Player,
    outlets: Outlets,
    inlets: Inlets,
    book: Book,
}

/// Which socket is ready.
#[derive(Clone, Copy)]
enum Ready {
    Outlet(u32, PollFlags),
    Inlet(usize),
}

impl Desk {
    fn is_over(&self) -> bool {
        self.player.is_over() && self.outlets.are_idle() && self.inlets.are_none()
    }

    /// Does what is due, up to a turn's worth; true if something is left to do at once.
    fn send(&mut self, now: Instant) -> Result<bool, Error> {
        for _ in 0..TURN {
            let Some(action) = self.player.poll(now) else {
                return self.send_unlimited();
            };
            self.act(action)?;
        }
        Ok(true)
    }

    /// Flows without limit: each as much as its socket takes, up to a turn's worth for all.
    fn send_unlimited(&mut self) -> Result<bool, Error> {
        let flows: Vec<u32> = self.player.unlimited().map(|(flow, _)| flow).collect();
        let each = TURN / flows.len().max(1) + 1;
        let mut busy = false;
        for flow in flows {
            for _ in 0..each {
                if !self.outlets.has_room(flow) {
                    break;
                }
                let Some(action) = self.player.poll_unlimited(monotonic(), flow) else {
                    break;
                };
                self.act(action)?;
                busy = true;
            }
        }
        Ok(busy)
    }

    fn act(&mut self, action: Action) -> Result<(), Error> {
        let (outlets, book) = (&mut self.outlets, &mut self.book);
        match action {
            Action::On(flow) => {
                if let Some(options) = self.player.flow(flow).map(|flow| &flow.options) {
                    outlets.begin(flow, options, book);
                }
            }
            Action::Changed(flow) => {
                if let Some(options) = self.player.flow(flow).map(|flow| &flow.options) {
                    outlets.change(flow, options, book);
                }
            }
            Action::Send {
                flow,
                sequence,
                octets,
                due,
            } => {
                if outlets.send(flow, (sequence, octets), book) {
                    book.late(monotonic().since(due));
                } else {
                    self.player.not_sent(flow);
                    book.not_sent(flow);
                }
            }
            Action::Off(flow) => outlets.end(flow, book),
            Action::Listen(protocol, ports) => self.inlets.listen(protocol, &ports, book)?,
            Action::Ignore(protocol, ports) => self.inlets.ignore(protocol, &ports, book),
            Action::Join(group) => self.inlets.join(&group, book),
            Action::Leave(group) => self.inlets.leave(&group, book),
        }
        Ok(())
    }

    /// Waits for sockets, and serves those that are ready.
    fn wait(&mut self, patience: Duration) -> Result<(), Error> {
        for (udp, port) in self.outlets.take_left() {
            self.inlets.adopt(udp, port);
        }
        let mut who = Vec::new();
        let mut fds = Vec::new();
        for (flow, fd, flags) in self.outlets.interests() {
            who.push(Ready::Outlet(flow, PollFlags::empty()));
            fds.push(PollFd::new(fd, flags));
        }
        for (index, socket) in self.inlets.sockets().enumerate() {
            who.push(Ready::Inlet(index));
            fds.push(PollFd::new(socket, PollFlags::POLLIN));
        }
        if !patience.is_zero() {
            self.book.flush_if_idle(patience)?;
        }
        poll::wait(&mut fds, Some(patience)).doing(|| "wait for sockets")?;
        let ready: Vec<Ready> = who
            .into_iter()
            .zip(&fds)
            .filter_map(|(who, fd)| {
                let got = fd.revents().filter(|flags| !flags.is_empty())?;
                Some(match who {
                    Ready::Outlet(flow, _) => Ready::Outlet(flow, got),
                    inlet @ Ready::Inlet(_) => inlet,
                })
            })
            .collect();
        if ready.is_empty() {
            return Ok(());
        }
        drop(fds);
        for ready in ready {
            match ready {
                Ready::Outlet(flow, flags) => {
                    let inlets = &self.inlets;
                    self.outlets.serve(flow, flags, inlets, &mut self.book);
                }
                Ready::Inlet(index) => self.inlets.serve(index, &mut self.book),
            }
        }
        self.inlets.settle(&mut self.book);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
