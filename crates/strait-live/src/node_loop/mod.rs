//! The event loop that drives one node in real time.

mod bench;
pub mod service;
pub mod taps;

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use strait_core::drive;
use strait_core::id::{NeighbourId, PortId};
use strait_core::node::{
    Command, DownCause, Input, Node, PortEvent, SocketId, StreamEvent, StreamId,
};
use strait_core::stats::Agreement;
use strait_core::time::{Duration, Instant};
use strait_core::tls::TlsFault;

pub use self::bench::Recorder;
use self::bench::{Bench, Slot, reply_input};
use self::service::{Rates, Service, Timers, View};
use self::taps::Taps;
use crate::clock::Clock;
use crate::error::{Doing, Error};
use crate::fail_points;
use crate::files::storage::Storage;
use crate::kernel::led_routes::LedRoutes;
use crate::kernel::schedule;
use crate::poll;
use crate::ports::{PortIo, Received};
use crate::signals::{SignalGuard, StopRequests, Stopper};
pub use crate::sockets::DatagramCounts;
use crate::sockets::tls::TlsProfiles;
use crate::sockets::{Came, Happened, News, Sockets, Which};
use crate::work::Workshop;

/// Times of an event loop.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a closed port waits until it is tried again.
    pub retry: Duration,
    /// How long a stopping node may take to get out what it has begun to send.
    pub drain: Duration,
    /// Run ahead of ordinary programs, if the system allows it.
    pub goes_first: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retry: Duration::from_secs(1),
            drain: Duration::from_secs(1),
            goes_first: false,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All that was begun got out.
    Drained,
    /// The time for it was over, or a second request came.
    Cut,
}

/// Frames taken from one port before the others have their turn.
pub const BATCH: u32 = 64;

/// A node that wants to be woken at once, although it was just settled, is woken after this: a
/// bug of the node must not take the whole processor.
const HOLD_OFF: Duration = Duration::from_millis(1);

/// The longest datagram and the longest IP packet are shorter.
const BUFFER_OCTETS: usize = 65_536;

/// An operator hears of streams whose TLS fails this often: who tries on and on fills no log.
const INSECURE_PAUSE: Duration = Duration::from_secs(1);

/// The calendar is told to the node again when it has moved by more than this against the clock
/// that doesn't jump.
const CALENDAR_STEP: Duration = Duration::from_millis(500);

/// Drives one node: its ports, its timers, and what an operator asks for.
///
/// One thread, one `ppoll(2)` for everything. A port is only waited on while the node reads it
/// and its device is open, so nothing that nobody takes can keep the loop spinning.
pub struct Runner<N: Node + ?Sized> {
    clock: Clock,
    options: Options,
    bench: Bench,
    services: Vec<Box<dyn Service>>,
    timers: Timers,
    rates: Rates,
    requests: StopRequests,
    stopping: Option<Stopping>,
    hold_off: Option<Instant>,
    warned_wake: bool,
    /// Until then an operator hears of no further stream whose TLS fails.
    insecure_until: Option<Instant>,
    /// What the node was told of the calendar: its nanoseconds at the origin of the clock.
    calendar_ns: Option<u64>,
    scratch: Vec<u8>,
    buffer: Vec<u8>,
    node: Box<N>,
}

#[derive(Clone, Copy)]
struct Stopping {
    until: Instant,
}

/// What became ready.
enum Ready {
    Stop,
    Port(usize, PollFlags),
    Service(usize),
    Sockets,
    Storage,
    Workshop,
    Routes,
}

/// The number of a port from its position.
const fn port_id(index: usize) -> PortId {
    PortId(index as u8)
}

impl<N: Node + ?Sized> Runner<N> {
    /// A loop for `node`, whose ports are `ports` in the order of their numbers. More than 255
    /// have no number and are ignored.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new(clock: Clock, node: Box<N>, ports: Vec<Box<dyn PortIo>>) -> Result<Self, Error> {
        let slots = ports.into_iter().take(255).map(|io| Slot {
            io,
            open: false,
            blocked: false,
            again: None,
            failed: None,
            retry_at: Some(Instant::ZERO),
            problem: None,
            agreement: Agreement::None,
            found: None,
            misdated: false,
        });
        Ok(Self {
            clock,
            options: Options::default(),
            bench: Bench {
                slots: slots.collect(),
                taps: Taps::default(),
                recorder: None,
                storage: None,
                workshop: Workshop::default(),
                replies: VecDeque::new(),
                sockets: Sockets::new().doing(|| "wait for sockets")?,
                routes: LedRoutes::default(),
            },
            services: Vec::new(),
            timers: Timers::default(),
            rates: Rates::default(),
            requests: StopRequests::new()?,
            stopping: None,
            hold_off: None,
            warned_wake: false,
            insecure_until: None,
            calendar_ns: None,
            scratch: Vec::new(),
            buffer: vec![0; BUFFER_OCTETS],
            node,
        })
    }

    /// Sets other times.
    pub const fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    /// Those who see the end of each packet's stay.
    pub const fn taps(&mut self) -> &mut Taps {
        &mut self.bench.taps
    }

    /// Shows all inputs and pulls to `recorder`.
    pub fn set_recorder(&mut self, recorder: Box<dyn Recorder>) {
        self.bench.recorder = Some(recorder);
    }

    /// Addresses at which programs can't talk to the node, and why.
    pub fn deaf_at(&self) -> impl Iterator<Item = (SocketAddr, &io::Error)> {
        self.bench.sockets.missing()
    }

    /// Where programs can talk to the node.
    pub fn listens_at(&self) -> Vec<SocketAddr> {
        self.bench.sockets.addresses().collect()
    }

    /// What has been counted of the datagrams of the node's own sockets.
    pub const fn datagrams(&self) -> DatagramCounts {
        self.bench.sockets.datagram_counts()
    }

    /// Gives the node this storage.
    pub fn set_storage(&mut self, storage: Storage) {
        self.bench.storage = Some(storage);
    }

    /// Lets the node's streams be secured by these profiles.
    pub fn set_tls(&mut self, profiles: TlsProfiles) {
        self.bench.sockets.set_tls(profiles);
    }

    /// Serves `service` in the same loop.
    pub fn add_service(&mut self, service: Box<dyn Service>) {
        self.services.push(service);
    }

    /// A way to end the run from another thread.
    pub fn stopper(&self) -> Stopper {
        self.requests.stopper()
    }

    /// Lets SIGINT, SIGTERM and SIGHUP end the run cleanly.
    ///
    /// # Errors
    /// The handlers can't be set.
    pub fn stop_on_signals(&self) -> Result<SignalGuard, Error> {
        self.requests.on_signals()
    }

    /// The node.
    pub const fn node(&self) -> &N {
        &self.node
    }

    /// Opens the ports that aren't, and tells the node. What could not be opened is returned and
    /// tried again later; the caller decides whether a gateway without it makes sense.
    pub fn open_ports(&mut self) -> Vec<(PortId, Error)> {
        let closed = (0..self.bench.slots.len()).filter(|index| !self.bench.slots[*index].open);
        let closed: Vec<usize> = closed.collect();
        let failures = closed.into_iter().filter_map(|index| {
            let error = self.open_port(index).err()?;
            Some((port_id(index), error))
        });
        failures.collect()
    }

    fn open_port(&mut self, index: usize) -> Result<(), Error> {
        let now = self.clock.now();
        let label = self.label(index);
        let slot = &mut self.bench.slots[index];
        match slot.io.open(now) {
            Ok(state) => {
                slot.open = true;
                slot.retry_at = None;
                slot.failed = None;
                // Who was told of a problem is told of its end.
                match slot.problem.take() {
                    Some(_) => tracing::warn!(port = label, "port up after all"),
                    None => tracing::info!(port = label, "port up"),
                }
                if slot.io.interface().is_some() {
                    self.bench.routes.look_again(now);
                }
                let rates = slot.io.neighbour_rates().to_vec();
                let rates = (0..).map(NeighbourId).zip(rates);
                let rates = rates.map(|(to, rate)| PortEvent::NeighbourRate(to, rate));
                let port = port_id(index);
                for event in iter::once(PortEvent::Up(state)).chain(rates) {
                    self.give(now, Input::Port { port, event });
                }
                // What leaves before the rates are told would go by another one.
                self.settle(now);
                Ok(())
            }
            Err(error) => {
                slot.retry_at = Some(now + self.options.retry);
                let problem = error.to_string();
                if slot.problem.as_ref() != Some(&problem) {
                    tracing::warn!(port = label, %problem, "port stays down");
                    slot.problem = Some(problem);
                }
                Err(error)
            }
        }
    }

    /// The configuration's name for a port, for logs.
    fn label(&self, index: usize) -> String {
        let port = self.node.stats().ports.get(index);
        let name = port.filter(|port| !port.name.is_empty());
        name.map_or_else(|| index.to_string(), |port| port.name.clone())
    }

    /// Runs until asked to stop.
    ///
    /// # Errors
    /// The system can't wait for descriptors any more.
    pub fn run(&mut self) -> Result<Ended, Error> {
        self.be_on_time();
        self.tell_calendar();
        loop {
            self.tick();
            if let Some(ended) = self.ended() {
                self.bench.close();
                return Ok(ended);
            }
            let ready = self.wait().doing(|| "wait for the ports")?;
            self.tell_calendar();
            self.rates.note(self.clock.now(), self.node.stats());
            self.serve(&ready);
        }
    }

    /// Tells the node what day and time it is, once and after each step of the host's clock.
    fn tell_calendar(&mut self) {
        let now = self.clock.now();
        let Some(wall) = self.clock.wall() else {
            return;
        };
        let origin_ns = wall.0.saturating_sub(now.as_nanos());
        let step_ns = strait_core::time::nanos(CALENDAR_STEP);
        let steady = |told: u64| told.abs_diff(origin_ns) <= step_ns;
        if !self.calendar_ns.is_some_and(steady) {
            self.calendar_ns = Some(origin_ns);
            self.feed(now, Input::Wall(wall));
        }
    }

    fn be_on_time(&mut self) {
        schedule::exact_timers();
        if !self.options.goes_first {
            return;
        }
        match schedule::go_first() {
            Ok(()) => self.timers.goes_first = true,
            Err(error) => tracing::warn!(
                %error,
                "other programs may delay this one and leave gaps on its lines; it needs \
                 CAP_SYS_NICE"
            ),
        }
    }

    /// What time brings: ports to try again, the node's timer, room on paced ports, answers. And
    /// what has changed meanwhile that an operator is told of.
    fn tick(&mut self) {
        let now = self.clock.now();
        for index in 0..self.bench.slots.len() {
            self.tell_agreement(index);
            self.tell_misdated(index);
            let due = self.bench.slots[index].retry_at.is_some_and(|at| at <= now);
            if due && self.stopping.is_none() {
                // The problem is kept in the slot, and logged when it changes.
                let _ = self.open_port(index);
            }
        }
        for index in 0..self.bench.slots.len() {
            let slot = &mut self.bench.slots[index];
            let due = slot.open && slot.io.wake().is_some_and(|at| at <= now);
            if due && let Err(error) = slot.io.tick(now) {
                self.take_down(now, index, &error);
            }
            self.tell_found(index);
        }
        for news in self.bench.sockets.tick(now) {
            match news {
                News::Socket(id, event) => self.feed(now, Input::Socket { id, event }),
                News::Stream(id, happened) => self.feed_stream(now, id, &happened),
            }
        }
        self.tend_routes(now);
        if self.node_wake().is_some_and(|at| at <= now) {
            self.fire();
        }
        let has_room = |slot: &Slot| slot.again.is_some_and(|at| at <= now);
        if self.bench.slots.iter().any(has_room) {
            self.settle(self.clock.now());
        }
        for _ in 0..BATCH {
            let Some(reply) = self.bench.replies.pop_front() else {
                break;
            };
            self.feed(self.clock.now(), reply_input(&reply));
        }
    }

    /// Has the host reach by the node what it is to, as far as that can be done now.
    pub fn lead_host(&mut self) {
        loop {
            let now = self.clock.now();
            if self.bench.routes.wake().is_none_or(|at| at > now) {
                return;
            }
            self.tend_routes(now);
        }
    }

    fn tend_routes(&mut self, now: Instant) {
        for (prefix, event) in self.bench.tend_routes(now) {
            self.feed(now, Input::Routed { prefix, event });
        }
    }

    /// When the node is to be woken, a hold-off counted in.
    fn node_wake(&self) -> Option<Instant> {
        let at = self.node.wake()?.at;
        Some(self.hold_off.map_or(at, |hold_off| at.max(hold_off)))
    }

    fn fire(&mut self) {
        let now = self.clock.now();
        self.feed(now, Input::Timeout);
        let again = self.node.wake().filter(|wake| wake.at <= now);
        self.hold_off = again.map(|_| now + HOLD_OFF);
        if let Some(wake) = again
            && self.bench.slots.iter().all(|slot| !slot.blocked)
            && !mem::replace(&mut self.warned_wake, true)
        {
            tracing::warn!(why = ?wake.why, "the node wants to be woken again at once");
        }
    }

    /// Gives the node an input and settles it.
    fn feed(&mut self, now: Instant, input: Input<'_>) {
        self.give(now, input);
        self.settle(now);
    }

    fn give(&mut self, now: Instant, input: Input<'_>) {
        fail_points::pass_said(&input);
        if let Some(recorder) = &mut self.bench.recorder {
            let mut room = Vec::new();
            recorder.input(now, &self.node.conceal(input.clone(), &mut room));
        }
        self.node.handle(now, input);
    }

    fn settle(&mut self, now: Instant) {
        for slot in &mut self.bench.slots {
            slot.blocked = false;
            slot.again = None;
        }
        let ports = self.bench.slots.len() as u8;
        let (node, bench) = (&mut *self.node, &mut self.bench);
        drive::settle(node, bench, now, ports, &mut self.scratch);
        for index in 0..self.bench.slots.len() {
            if let Some(error) = self.bench.slots[index].failed.take() {
                self.take_down(now, index, &error);
            }
        }
    }

    /// Says once that a time to die was by another clock or calendar: data may be lost for it.
    fn tell_misdated(&mut self, index: usize) {
        let port = self.node.stats().ports.get(index);
        let found = port.is_some_and(|port| port.hf.clients.misdated > 0);
        if found && !mem::replace(&mut self.bench.slots[index].misdated, true) {
            let port = self.label(index);
            tracing::warn!(
                port,
                "a neighbour's times to die follow another clock or calendar"
            );
        }
    }

    /// Says what the ends of a port's link have agreed on, when that changes.
    fn tell_agreement(&mut self, index: usize) {
        let port = self.node.stats().ports.get(index);
        let agreement = port.map_or(Agreement::None, |port| port.agreement);
        let slot = &mut self.bench.slots[index];
        if mem::replace(&mut slot.agreement, agreement) == agreement {
            return;
        }
        let (port, agreed) = (self.label(index), agreement.text());
        if agreement.lacks() {
            tracing::warn!(port, agreed, "link");
        } else if agreement != Agreement::None {
            tracing::info!(port, agreed, "link");
        }
    }

    /// Says what a port has found out of its device, when that changes.
    fn tell_found(&mut self, index: usize) {
        let slot = &mut self.bench.slots[index];
        let found = slot.io.found().filter(|_| slot.open);
        if mem::replace(&mut slot.found, found) != found
            && let Some(found) = found
        {
            let (port, found, lacks) = (self.label(index), found.text, found.lacks);
            match lacks {
                true => tracing::warn!(port, found, "modem"),
                false => tracing::info!(port, found, "modem"),
            }
        }
    }

    /// A port's device is gone.
    fn take_down(&mut self, now: Instant, index: usize, error: &io::Error) {
        let label = self.label(index);
        let slot = &mut self.bench.slots[index];
        slot.io.close();
        slot.again = None;
        slot.retry_at = Some(now + self.options.retry);
        if !mem::replace(&mut slot.open, false) {
            return;
        }
        slot.problem = Some(format!("lost its device: {error}"));
        tracing::warn!(port = label, %error, "port down: its device is gone");
        let event = PortEvent::Down(DownCause::Device);
        let port = port_id(index);
        self.feed(now, Input::Port { port, event });
    }

    fn ended(&mut self) -> Option<Ended> {
        let until = self.stopping?.until;
        let now = self.clock.now();
        let slots = &mut self.bench.slots;
        if slots.iter_mut().all(|slot| slot.io.drained(now)) {
            return Some(Ended::Drained);
        }
        (until <= now).then_some(Ended::Cut)
    }

    /// Ports that are read and have something to give that their descriptors don't tell of.
    fn ports_with_more(&self) -> impl Iterator<Item = usize> {
        let slots = self.bench.slots.iter().enumerate();
        let reads = self.stopping.is_none();
        slots
            .filter(move |(index, slot)| {
                reads && slot.open && slot.io.has_more() && self.node.reads(port_id(*index))
            })
            .map(|(index, _)| index)
    }

    /// How long the loop may sleep; `None` for as long as nothing happens.
    fn deadline(&self) -> Option<Instant> {
        if !self.bench.replies.is_empty() || self.ports_with_more().next().is_some() {
            return Some(Instant::ZERO);
        }
        let slots = self.bench.slots.iter();
        let rooms = slots.clone().filter_map(|slot| slot.again);
        let devices = slots.clone().filter(|slot| slot.open);
        let devices = devices.filter_map(|slot| slot.io.wake());
        let retries = slots.filter_map(|slot| slot.retry_at);
        let services = self.services.iter().filter_map(|service| service.wake());
        let drain = self.stopping.map(|_| self.clock.now() + HOLD_OFF);
        rooms
            .chain(retries.filter(|_| self.stopping.is_none()))
            .chain(services)
            .chain(devices)
            .chain(self.bench.sockets.wake())
            .chain(self.bench.routes.wake())
            .chain(self.node_wake())
            .chain(drain)
            .min()
    }

    fn wait(&mut self) -> Result<Vec<Ready>, Errno> {
        let mut who = vec![Ready::Stop];
        let mut fds = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        for (index, slot) in self.bench.slots.iter().enumerate() {
            let Some(fd) = slot.io.fd().filter(|_| slot.open) else {
                continue;
            };
            let mut flags = PollFlags::empty();
            let reads = self.stopping.is_none() && self.node.reads(port_id(index));
            flags.set(PollFlags::POLLIN, reads);
            flags.set(PollFlags::POLLOUT, slot.io.holds());
            if !flags.is_empty() {
                fds.push(PollFd::new(fd, flags));
                who.push(Ready::Port(index, flags));
            }
        }
        for (index, service) in self.services.iter().enumerate() {
            for (fd, writes) in service.interests() {
                let flag = [PollFlags::POLLIN, PollFlags::POLLOUT][usize::from(writes)];
                fds.push(PollFd::new(fd, flag));
                who.push(Ready::Service(index));
            }
        }
        if self.stopping.is_none() {
            fds.push(PollFd::new(self.bench.sockets.as_fd(), PollFlags::POLLIN));
            who.push(Ready::Sockets);
        }
        if let Some(storage) = &self.bench.storage {
            fds.push(PollFd::new(storage.as_fd(), PollFlags::POLLIN));
            who.push(Ready::Storage);
        }
        if let Some(fd) = self.bench.routes.fd() {
            fds.push(PollFd::new(fd, PollFlags::POLLIN));
            who.push(Ready::Routes);
        }
        if let Some(bell) = self.bench.workshop.bell() {
            fds.push(PollFd::new(bell, PollFlags::POLLIN));
            who.push(Ready::Workshop);
        }
        let deadline = self.deadline();
        let patience = deadline.map(|at| self.clock.until(at));
        poll::wait(&mut fds, patience)?;
        let now = self.clock.now();
        if let Some(at) = deadline.filter(|at| *at <= now && patience > Some(Duration::ZERO)) {
            self.timers.record(now.since(at).as_nanos() as u64);
        }
        let ready = who.into_iter().zip(fds).filter_map(|(who, fd)| {
            let found = fd.revents().filter(|flags| !flags.is_empty())?;
            Some(match who {
                Ready::Port(index, _) => Ready::Port(index, found),
                other => other,
            })
        });
        Ok(ready.collect())
    }

    fn serve(&mut self, ready: &[Ready]) {
        for ready in ready {
            match *ready {
                Ready::Stop => self.stop(),
                Ready::Port(index, flags) => {
                    if flags.contains(PollFlags::POLLOUT) {
                        self.flush(index);
                    }
                    // Errors and hang-ups show themselves to a reader.
                    if flags != PollFlags::POLLOUT {
                        self.receive(index);
                    }
                }
                Ready::Sockets => self.serve_sockets(),
                Ready::Storage => self.bench.hear_storage(),
                Ready::Workshop => self.bench.hear_workshop(),
                Ready::Routes => self.bench.routes.hear(self.clock.now()),
                Ready::Service(_) => {}
            }
        }
        let more: Vec<usize> = self.ports_with_more().collect();
        for index in more {
            self.receive(index);
        }
        let now = self.clock.now();
        for index in 0..self.services.len() {
            let is_ready = |ready: &Ready| matches!(ready, Ready::Service(of) if *of == index);
            let due = self.services[index].wake().is_some_and(|at| at <= now);
            if due || ready.iter().any(is_ready) {
                self.serve_service(index);
            }
        }
    }

    fn serve_sockets(&mut self) {
        for (which, flags) in self.bench.sockets.ready() {
            if let Which::Datagrams(socket) = which {
                self.receive_datagrams(socket);
                continue;
            }
            let now = self.clock.now();
            for (id, happened) in self.bench.sockets.serve(now, which, flags) {
                self.feed_stream(now, id, &happened);
            }
        }
    }

    fn receive_datagrams(&mut self, socket: SocketId) {
        let mut buffer = mem::take(&mut self.buffer);
        for _ in 0..BATCH {
            match self.bench.sockets.receive(socket, &mut buffer) {
                Came::Datagram(meta, octets) => {
                    let bytes = &buffer[..octets];
                    let input = Input::Datagram {
                        socket,
                        meta,
                        bytes,
                    };
                    self.feed(self.clock.now(), input);
                }
                Came::Skipped => {}
                Came::Nothing => break,
            }
        }
        self.buffer = buffer;
    }

    fn feed_stream(&mut self, now: Instant, id: StreamId, happened: &Happened) {
        let event = match happened {
            Happened::Asked(listener, syn) => StreamEvent::Asked {
                listener: *listener,
                src: syn.src,
                dst: syn.dst,
                dscp: syn.dscp,
                options: syn.options,
            },
            Happened::Opened {
                listener,
                src,
                dst,
                dscp,
            } => StreamEvent::Opened {
                listener: *listener,
                src: *src,
                dst: *dst,
                dscp: *dscp,
            },
            Happened::Secured { peer, version } => StreamEvent::Secured {
                peer: peer.as_deref(),
                version: *version,
            },
            Happened::Data(octets) => StreamEvent::Data(octets),
            Happened::Writable(octets) => StreamEvent::Writable(*octets),
            Happened::Fin => StreamEvent::Fin,
            Happened::Gone(number) => StreamEvent::Reset(*number),
        };
        if let StreamEvent::Reset(number) = event {
            self.tell_insecure(now, number);
        }
        self.feed(now, Input::Stream { id, event });
    }

    /// Says why a stream isn't secured, or not any longer: the first of a second to the operator.
    fn tell_insecure(&mut self, now: Instant, number: i32) {
        let Some(fault) = TlsFault::of(number).map(TlsFault::name) else {
            return;
        };
        if self.insecure_until.is_some_and(|until| now < until) {
            return tracing::debug!(fault, "TLS of a stream failed");
        }
        self.insecure_until = Some(now + INSECURE_PAUSE);
        tracing::info!(fault, "TLS of a stream failed");
    }

    fn serve_service(&mut self, index: usize) {
        let now = self.clock.now();
        let view = View {
            now,
            stats: self.node.stats(),
            flows: &self.node.flows(),
            names: &|| self.node.names(now),
            mail: &|| self.node.mail(now),
            ports: &self.bench.statuses(),
            rates: &self.rates,
            timers: &self.timers,
            taps: &self.bench.taps.statuses(),
            recorder: self.bench.recorder.as_deref(),
        };
        self.services[index].serve(&view);
        while let Some(change) = self.services[index].poll_route() {
            self.feed(self.clock.now(), Input::Route(change));
        }
        while let Some(command) = self.services[index].poll_command() {
            if command == Command::Stop {
                self.requests.stopper().stop();
            } else {
                self.feed(self.clock.now(), Input::Command(command));
            }
        }
    }

    fn stop(&mut self) {
        let count = self.requests.take();
        if count == 0 {
            return;
        }
        let now = self.clock.now();
        let again = count > 1 || self.stopping.is_some();
        if self.stopping.is_none() {
            tracing::info!("stopping");
            self.feed(now, Input::Command(Command::Stop));
        }
        let patience = if again {
            Duration::ZERO
        } else {
            self.options.drain
        };
        self.stopping = Some(Stopping {
            until: now + patience,
        });
    }

    fn flush(&mut self, index: usize) {
        let now = self.clock.now();
        match self.bench.slots[index].io.flush(now) {
            Ok(()) => self.settle(now),
            Err(error) => self.take_down(now, index, &error),
        }
    }

    fn receive(&mut self, index: usize) {
        let port = port_id(index);
        let mut buffer = mem::take(&mut self.buffer);
        let mut skipped = false;
        for _ in 0..BATCH {
            if self.stopping.is_some() || !self.bench.slots[index].open || !self.node.reads(port) {
                break;
            }
            let now = self.clock.now();
            match self.bench.slots[index].io.receive(now, &mut buffer) {
                Ok(Received::Frame { from, octets }) => {
                    let input = Input::Frame {
                        port,
                        from,
                        bytes: &buffer[..octets],
                        meta: self.bench.slots[index].io.meta(),
                    };
                    self.feed(now, input);
                }
                Ok(Received::Event(event)) => self.feed(now, Input::Port { port, event }),
                Ok(Received::Left { id, to }) => {
                    let ok = None;
                    self.feed(now, Input::TxDone { port, id, to, ok });
                }
                Ok(Received::Skipped) => skipped = true,
                Ok(Received::Nothing) => break,
                Err(error) => {
                    self.take_down(now, index, &error);
                    break;
                }
            }
        }
        self.buffer = buffer;
        if skipped {
            // What the node must not see may have been a modem's word that it has room.
            self.settle(self.clock.now());
        }
    }
}
