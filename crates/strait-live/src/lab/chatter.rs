//! Background chatter: datagrams to everybody, from a thread in the host's namespace.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};
use strait_core::time::{Duration, Instant};
use strait_world::traffic::{FlowLog, Side, Traffic, chatter_round, report};

use super::programs::{Collected, Flow, Origin, Program};
use super::{LabError, Stage};
use crate::error::Doing;
use crate::voice::monotonic;

/// A thread that sends a round each period.
#[derive(Debug)]
pub(super) struct Chatter {
    period: Duration,
    sent: Arc<AtomicU64>,
    sender: Option<thread::JoinHandle<()>>,
}

impl Chatter {
    pub(super) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Chatter { period } = flow.traffic else {
            return Err(flow.wrong("it is no chatter"));
        };
        Ok(Self {
            period,
            sent: Arc::default(),
            sender: None,
        })
    }
}

/// A socket that sends to groups and to everybody by the host's way out.
fn socket(from: IpAddr) -> std::io::Result<Socket> {
    let domain = if from.is_ipv4() {
        Domain::IPV4
    } else {
        Domain::IPV6
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    match from {
        IpAddr::V4(from) => {
            socket.set_broadcast(true)?;
            socket.set_multicast_if_v4(&from)?;
            // As a computer that knows no better; most set 1, and get as far as the next router.
            socket.set_multicast_ttl_v4(64)?;
        }
        IpAddr::V6(_) => socket.set_multicast_hops_v6(64)?,
    }
    socket.bind(&SocketAddr::new(from, 0).into())?;
    Ok(socket)
}

impl Program for Chatter {
    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let (from, family) = (flow.address(0), flow.config.family);
        let host = flow.host(stage, 0);
        let socket = host.enter(|| socket(from))?;
        let socket = socket.doing(|| "open a socket for background chatter")?;
        let (period, sent) = (self.period, Arc::clone(&self.sent));
        let (mut next, end) = (origin.at + flow.start, origin.at + flow.stop);
        self.sender = Some(thread::spawn(move || {
            while next < end {
                thread::sleep(next.since(monotonic()));
                for (to, octets) in chatter_round(family) {
                    let done = socket.send_to(&vec![b'?'; octets], &to.into());
                    sent.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
                }
                next += period;
            }
        }));
        Ok(())
    }

    fn finish(&mut self) {
        // It ends by itself before the run does; one that is still asleep is left alone.
        if let Some(sender) = self.sender.take().filter(thread::JoinHandle::is_finished) {
            let _ = sender.join();
        }
    }

    fn collect(&self, _: &Stage<'_>, flow: &Flow, _: Origin) -> Collected {
        let mut log = FlowLog::new(&flow.config.name, Side::From);
        for number in 0..self.sent.load(Ordering::Relaxed) {
            log.sent(Instant::ZERO + flow.start, number, 0);
        }
        let to = FlowLog::new(&flow.config.name, Side::To);
        Collected {
            reports: vec![report(&flow.config, &log, &to)],
            answers: Vec::new(),
            notes: Vec::new(),
        }
    }
}
