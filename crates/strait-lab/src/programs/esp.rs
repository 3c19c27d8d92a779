//! Packets of IPsec's ESP between two hosts, by raw sockets: a small kernel has no transform that
//! would make them, and nobody on the way could tell the difference.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::poll::wait_to_read;
use strait_live::ports::raw_ip::RawIp;
use strait_traffic::{
    Content, FlowLog, Ports, Side, Traffic, association, esp_numbers, esp_payload, esp_wrong,
    report, widen,
};
use strait_wire::ip::protocol;

use super::{Collected, Flow, Origin, Program};
use crate::{LabError, Stage};

/// How long a receiver that hears nothing takes to notice its end.
const PATIENCE: Duration = Duration::from_millis(200);
/// Octets that may wait for it.
const BUFFER_OCTETS: usize = 1 << 20;

/// A thread that sends and one that receives.
#[derive(Debug)]
pub(crate) struct Esp {
    tunnel: Tunnel,
    over: Arc<AtomicBool>,
    sender: Option<JoinHandle<FlowLog>>,
    receiver: Option<JoinHandle<FlowLog>>,
    logs: Option<[FlowLog; 2]>,
}

/// What both ends know.
#[derive(Clone, Copy, Debug)]
struct Tunnel {
    /// Of the security association.
    index: u32,
    payload_octets: u32,
    /// Between two packets.
    gap: Duration,
}

const RAW: RawIp = RawIp {
    protocol: protocol::ESP,
    device: None,
};

impl Esp {
    pub(crate) fn new(flow: &Flow, index: usize) -> Result<Self, LabError> {
        let Traffic::Esp {
            payload_octets,
            rate_bit_s,
        } = flow.traffic
        else {
            return Err(flow.wrong("it has no packets of ESP"));
        };
        let gap_ns = u64::from(payload_octets) * 8_000_000_000 / rate_bit_s.max(1);
        Ok(Self {
            tunnel: Tunnel {
                index: association(Ports::nth(index as u16)),
                payload_octets,
                gap: Duration::from_nanos(gap_ns.max(1)),
            },
            over: Arc::default(),
            sender: None,
            receiver: None,
            logs: None,
        })
    }
}

/// The moments of a flow by the clock of the machine.
#[derive(Clone, Copy, Debug)]
struct Times {
    origin: Instant,
    start: Instant,
    stop: Instant,
}

impl Times {
    /// Now, as the run counts it.
    fn now(&self) -> Instant {
        Instant::ZERO + monotonic().since(self.origin)
    }
}

impl Tunnel {
    fn send(
        self,
        socket: &UdpSocket,
        to: IpAddr,
        mut content: Content,
        (times, over): (Times, &AtomicBool),
        mut log: FlowLog,
    ) -> FlowLog {
        let to = SocketAddr::new(to, 0);
        let mut packet = Vec::new();
        for sequence in 0.. {
            let due = times.start + self.gap * sequence as u32;
            if due >= times.stop || over.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(due.since(monotonic()));
            let numbers = (self.index, sequence);
            esp_payload(&mut content, numbers, self.payload_octets, &mut packet);
            match socket.send_to(&packet, to) {
                Ok(_) => log.sent(times.now(), sequence, packet.len() as u32),
                Err(_) => log.count("not_sent"),
            }
        }
        log
    }

    fn receive(
        self,
        socket: &UdpSocket,
        mut content: Content,
        (times, over): (Times, &AtomicBool),
        mut log: FlowLog,
    ) -> io::Result<FlowLog> {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        let mut next = 0;
        while !over.load(Ordering::Relaxed) {
            wait_to_read(&[socket.as_fd()], PATIENCE)?;
            let (octets, from) = match socket.recv_from(&mut buffer) {
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let Some(octets) = RAW.strip(from.is_ipv4(), &mut buffer, octets) else {
                continue;
            };
            let payload = &buffer[..octets];
            // Others' packets come to every such socket of a host.
            let numbers = esp_numbers(payload).filter(|(index, _)| *index == self.index);
            let Some((_, low)) = numbers else { continue };
            let sequence = widen(next, u64::from(low), 32);
            next = next.max(sequence + 1);
            log.add("wrong", esp_wrong(&mut content, sequence, payload));
            log.received(times.now(), sequence, octets as u32);
        }
        Ok(log)
    }
}

impl Program for Esp {
    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let times = Times {
            origin: origin.at,
            start: origin.at + flow.start,
            stop: origin.at + flow.stop,
        };
        let open = |end: usize| {
            let local = SocketAddr::new(flow.address(end), 0);
            let host = flow.host(stage, end);
            host.enter(|| RAW.bind(local, BUFFER_OCTETS))
        };
        let (near, far) = (open(0)??, open(1)??);
        let content = || Content::new(stage.seed, &flow.config.name);
        let log = |side| FlowLog::new(&flow.config.name, side);
        let (tunnel, to) = (self.tunnel, flow.address(1));
        let (sent, own, over) = (log(Side::From), content(), Arc::clone(&self.over));
        self.sender = Some(thread::spawn(move || {
            tunnel.send(&near, to, own, (times, &over), sent)
        }));
        let (received, own, over) = (log(Side::To), content(), Arc::clone(&self.over));
        self.receiver = Some(thread::spawn(move || {
            let lost = received.clone();
            let heard = tunnel.receive(&far, own, (times, &over), received);
            heard.unwrap_or(lost)
        }));
        Ok(())
    }

    fn finish(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = |thread: Option<JoinHandle<FlowLog>>| thread?.join().ok();
        self.logs = ended(self.sender.take())
            .zip(ended(self.receiver.take()))
            .map(Into::into);
    }

    fn collect(&self, _: &Stage<'_>, flow: &Flow, _: Origin) -> Collected {
        let none = || [Side::From, Side::To].map(|side| FlowLog::new(&flow.config.name, side));
        let [from, to] = self.logs.clone().unwrap_or_else(none);
        let mut notes = Vec::new();
        if self.logs.is_none() {
            notes.push(format!("{}: a socket failed", flow.config.name));
        }
        Collected {
            reports: vec![report(&flow.config, &from, &to)],
            answers: Vec::new(),
            notes,
        }
    }
}
