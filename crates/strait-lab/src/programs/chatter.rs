//! Background chatter and routers' hellos: packets to everybody, from a thread in the host's
//! namespace.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};
use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Namespace;
use strait_traffic::{Family, FlowLog, Side, Traffic, chatter_round, hello_interval_s, report};
use strait_wire::ip::{
    IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, build_ospf_hello, build_ospf3_hello, protocol,
};

use super::{Collected, Flow, Origin, Program};
use crate::{LabError, Stage};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    Computer,
    Router,
}

/// A thread that sends a round each period.
#[derive(Debug)]
pub(crate) struct Chatter {
    speaker: Speaker,
    period: Duration,
    sent: Arc<AtomicU64>,
    sender: Option<thread::JoinHandle<()>>,
}

impl Chatter {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let (speaker, period) = match flow.traffic {
            Traffic::Chatter { period } => (Speaker::Computer, period),
            Traffic::Hello { period } => (Speaker::Router, period),
            _ => return Err(flow.wrong("it is no chatter")),
        };
        Ok(Self {
            speaker,
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

/// A socket for OSPF's packets, which the kernel puts behind an IP header.
fn hello_socket(from: SocketAddr) -> std::io::Result<Socket> {
    let ospf = Protocol::from(i32::from(protocol::OSPF));
    let socket = Socket::new(Domain::for_address(from), Type::RAW, Some(ospf))?;
    match from {
        SocketAddr::V4(from) => {
            socket.set_multicast_if_v4(from.ip())?;
            socket.set_multicast_ttl_v4(1)?;
        }
        SocketAddr::V6(from) => {
            socket.set_multicast_if_v6(from.scope_id())?;
            socket.set_multicast_hops_v6(1)?;
        }
    }
    socket.bind(&from.into())?;
    Ok(socket)
}

/// The host's address that a router of OSPF speaks from: in IPv6 its Ethernet's link-local one.
fn router_address(host: &Namespace, from: IpAddr) -> Result<SocketAddr, Error> {
    if from.is_ipv4() {
        return Ok(SocketAddr::new(from, 0));
    }
    let addresses = host.netlink()?.addresses()?;
    let link_local = addresses.into_iter().find_map(|it| match it.address {
        IpAddr::V6(own) if own.is_unicast_link_local() => Some((own, it.link)),
        _ => None,
    });
    let (own, link) = link_local
        .ok_or_else(|| Error::invalid("speak as a router", "the host has no link-local address"))?;
    Ok(SocketAddrV6::new(own, 0, 0, link).into())
}

impl Speaker {
    fn socket(self, from: SocketAddr) -> std::io::Result<Socket> {
        match self {
            Self::Computer => socket(from.ip()),
            Self::Router => hello_socket(from),
        }
    }

    /// What is said each time, and to whom.
    fn round(self, from: IpAddr, family: Family, period: Duration) -> Vec<(SocketAddr, Vec<u8>)> {
        match (self, from) {
            (Self::Router, IpAddr::V4(from)) => {
                let mut packet = Vec::new();
                build_ospf_hello(from, hello_interval_s(period), &[], &mut packet);
                let message = packet.split_off(IPV4_HEADER_OCTETS.min(packet.len()));
                vec![(SocketAddr::from(([224, 0, 0, 5], 0)), message)]
            }
            (Self::Router, IpAddr::V6(from)) => {
                let mut packet = Vec::new();
                build_ospf3_hello(from, hello_interval_s(period), &mut packet);
                let message = packet.split_off(IPV6_HEADER_OCTETS.min(packet.len()));
                let routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5);
                vec![(SocketAddr::from((routers, 0)), message)]
            }
            (Self::Computer, _) => {
                let round = chatter_round(family).into_iter();
                round.map(|(to, octets)| (to, vec![b'?'; octets])).collect()
            }
        }
    }
}

impl Program for Chatter {
    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let (from, family) = (flow.address(0), flow.config.family);
        let host = flow.host(stage, 0);
        let speaker = self.speaker;
        let from = match speaker {
            Speaker::Computer => SocketAddr::new(from, 0),
            Speaker::Router => router_address(host, from)?,
        };
        let socket = host.enter(|| speaker.socket(from))?;
        let socket = socket.doing(|| "open a socket for background chatter")?;
        let round = speaker.round(from.ip(), family, self.period);
        let (period, sent) = (self.period, Arc::clone(&self.sent));
        let (mut next, end) = (origin.at + flow.start, origin.at + flow.stop);
        self.sender = Some(thread::spawn(move || {
            while next < end {
                thread::sleep(next.since(monotonic()));
                for (to, message) in &round {
                    let done = socket.send_to(message, &(*to).into());
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
