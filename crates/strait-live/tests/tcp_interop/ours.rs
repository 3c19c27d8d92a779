//! Our endpoint in real time at the far side of a TUN, behind a short line that loses packets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::mpsc::Receiver;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use strait_core::chance::Stream;
use strait_core::id::ClassId;
use strait_core::node::TxMeta;
use strait_core::time::{Duration, Instant};
use strait_live::clock::Clock;
use strait_live::ports::tun::TunPort;
use strait_live::ports::{PortIo, Received, Sent};
use strait_tcp::{
    TcpConfig, TcpCounters, TcpEndpoint, TcpError, TcpEventKind, TcpState, endpoint, reset_for,
};
use strait_wire::pcapng::{self, linktype};

use super::plan::{Case, Plan, octet};

/// One way takes so long beside the kernel's own time.
const DELAY: Duration = Duration::from_millis(5);
/// Nothing may take longer: a dozen losses of the same segment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How it went for our end.
pub(crate) struct Outcome {
    pub(crate) received: usize,
    pub(crate) error: Option<TcpError>,
    pub(crate) counters: TcpCounters,
    /// What it sent and got, and of each frame whether it was sent again, or came late or again.
    pub(crate) capture: Vec<u8>,
    pub(crate) again: Vec<bool>,
}

pub(crate) struct Ours<'a> {
    case: &'a Case,
    plan: Plan,
    clock: Clock,
    tun: TunPort,
    tcp: Box<dyn TcpEndpoint>,
    chance: [Stream; 2],
    /// Packets under way to us and from us, with the time of their arrival.
    ways: [VecDeque<(Instant, Vec<u8>)>; 2],
    taken: usize,
    received: usize,
    capture: Vec<u8>,
    again: Vec<bool>,
}

impl<'a> Ours<'a> {
    pub(crate) fn new(case: &'a Case, tun: TunPort, local: SocketAddr, remote: SocketAddr) -> Self {
        let config = TcpConfig {
            send_octets: 4 << 20,
            receive_octets: 6 << 20,
            ecn: true,
            seed: case.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ..TcpConfig::new(local, remote)
        };
        let mut tcp = endpoint(case.profile, &config).unwrap();
        let clock = Clock::start();
        if case.we_connect {
            tcp.connect(clock.now()).unwrap();
        } else {
            tcp.accept(clock.now()).unwrap();
        }
        let mut capture = Vec::new();
        pcapng::section(&mut capture, "strait");
        pcapng::interface(&mut capture, linktype::RAW, 0, "ours");
        Self {
            case,
            plan: case.ours(),
            clock,
            tun,
            tcp,
            chance: ["in", "out"].map(|way| Stream::new(case.seed, way)),
            ways: [VecDeque::new(), VecDeque::new()],
            taken: 0,
            received: 0,
            capture,
            again: Vec::new(),
        }
    }

    /// Runs until both ends have finished; `kernel` tells when that end has.
    pub(crate) fn run(mut self, kernel: &Receiver<()>) -> Outcome {
        let mut kernel_ended = false;
        while !(kernel_ended && self.is_over()) {
            let now = self.clock.now();
            assert!(
                now.since(Instant::ZERO) < PATIENCE,
                "{}: {:?} of {:?}, {:?}, {:?}",
                self.case,
                (self.taken, self.received),
                self.plan,
                self.tcp.state(),
                self.tcp.counters()
            );
            self.receive(now);
            self.settle(now);
            self.deliver(now);
            kernel_ended = kernel_ended || kernel.try_recv().is_ok();
            self.wait();
        }
        Outcome {
            received: self.received,
            error: self.tcp.error(),
            counters: self.tcp.counters(),
            capture: self.capture,
            again: self.again,
        }
    }

    fn is_over(&self) -> bool {
        // The end of the stream counts like an octet.
        let acked = self.tcp.counters().octets_acked > self.plan.sends as u64;
        let over = acked && self.tcp.is_drained() || self.tcp.state() == TcpState::Closed;
        self.ways[1].is_empty() && over
    }

    fn loses(&mut self, way: usize) -> bool {
        self.chance[way].happens(self.case.loss)
    }

    fn note(&mut self, now: Instant, packet: &[u8]) {
        let late = [TcpEventKind::Late, TcpEventKind::Duplicate];
        let events = std::iter::from_fn(|| self.tcp.poll_event());
        let again = events.filter(|event| event.kind.is_repeat() || late.contains(&event.kind));
        self.again.push(again.count() > 0);
        let octets = packet.len() as u32;
        pcapng::packet(&mut self.capture, 0, now.as_nanos(), packet, octets, None);
    }

    fn receive(&mut self, now: Instant) {
        let mut buffer = [0; 2048];
        loop {
            match self.tun.receive(now, &mut buffer).unwrap() {
                Received::Frame { octets, .. } if !self.loses(0) => {
                    self.ways[0].push_back((now + DELAY, buffer[..octets].to_vec()));
                }
                Received::Frame { .. }
                | Received::Skipped
                | Received::Event(_)
                | Received::Left { .. } => {}
                Received::Nothing => break,
            }
        }
        while let Some((_, packet)) = self.ways[0].pop_front_if(|(at, _)| *at <= now) {
            if self.tcp.state() == TcpState::Closed {
                // As a host answers for a connection that is gone.
                let mut reset = Vec::new();
                if reset_for(&packet, &mut reset) && !self.loses(1) {
                    self.ways[1].push_back((now + DELAY, reset));
                }
                continue;
            }
            self.tcp.handle_packet(now, &packet);
            self.note(now, &packet);
            self.settle(now);
        }
    }

    fn settle(&mut self, now: Instant) {
        let mut packet = Vec::new();
        self.work();
        while self.tcp.poll_packet(now, &mut packet) {
            self.note(now, &packet);
            if !self.loses(1) {
                self.ways[1].push_back((now + DELAY, packet.clone()));
            }
            self.work();
        }
    }

    fn work(&mut self) {
        let mut buffer = [0; 16_384];
        loop {
            let count = self.tcp.recv(&mut buffer);
            let right = (self.received..).map(octet).take(count);
            assert!(buffer[..count].iter().copied().eq(right), "{}", self.case);
            self.received += count;
            if count == 0 {
                break;
            }
        }
        if self
            .plan
            .aborts_after
            .is_some_and(|octets| self.received >= octets)
        {
            self.plan.aborts_after = None;
            return self.tcp.abort();
        }
        let may_send = !self.plan.answers || self.tcp.is_drained();
        if may_send && self.tcp.state() == TcpState::Established {
            let end = self.plan.sends.min(self.taken + buffer.len());
            let next: Vec<u8> = (self.taken..end).map(octet).collect();
            self.taken += self.tcp.send(&next);
            if self.taken == self.plan.sends {
                self.tcp.close();
            }
        }
    }

    fn deliver(&mut self, now: Instant) {
        let meta = TxMeta::to_peer(ClassId(0));
        while let Some((_, packet)) = self.ways[1].pop_front_if(|(at, _)| *at <= now) {
            let sent = self.tun.transmit(now, &meta, &packet).unwrap();
            assert_eq!(sent, Sent::Taken, "{}", self.case);
        }
    }

    /// Until something comes, or is due; or the kernel's end may have said that it is over.
    fn wait(&self) {
        let fronts = self.ways.iter().map(|way| way.front().map(|(at, _)| *at));
        let next = fronts.chain([self.tcp.wake()]).flatten().min();
        let idle = Duration::from_millis(20);
        let until = next.map_or(idle, |at| self.clock.until(at).min(idle));
        let tun = self.tun.fd().unwrap();
        let mut ready = [PollFd::new(tun.as_fd(), PollFlags::POLLIN)];
        ppoll(&mut ready, Some(TimeSpec::from_duration(until)), None).unwrap();
    }
}
