//! Sends the groups.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use strait_core::chance::Stream;
use strait_core::time::Duration;
use strait_live::clock::monotonic;
use strait_live::error::{Doing, Error};
use strait_live::poll::wait_to_read;
use strait_live::signals::Stop;
use strait_traffic::pair::{PairCampaign, PairRecord, Prober, header_octets};

use crate::stamped_udp::Udp;

/// How long a request to stop may stay unseen if no signal comes with it.
const STOP_PATIENCE: Duration = Duration::from_millis(200);

/// What came of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The groups, in the order of sending.
    pub records: Vec<PairRecord>,
    /// It was given up because no answer came.
    pub is_unanswered: bool,
    /// Datagrams that the system refused to send, or said that nobody takes them.
    pub refused: u64,
}

/// Measures to a receiver; `each` is called after each group. `stop` ends it before its time.
///
/// # Errors
/// There is no socket, or no way to the receiver.
pub fn probe(
    peer: SocketAddr,
    dscp: u8,
    campaign: &PairCampaign,
    stop: &Stop,
    mut each: impl FnMut(usize),
) -> Result<Outcome, Error> {
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let open = || -> io::Result<Udp> {
        let socket = Udp::bind(SocketAddr::new(any, 0), dscp)?;
        socket.connect(peer)?;
        Ok(socket)
    };
    let mut socket = open().doing(|| format!("reach UDP {peer}"))?;
    let session = session(&socket);
    let mut prober = Prober::new(campaign, session, header_octets(peer), monotonic());
    let mut outcome = Outcome::default();
    let mut told = 0;
    while !prober.is_ended() && !stop.is_asked() {
        let mut payload = Vec::new();
        while prober.poll_transmit(monotonic(), &mut payload) {
            outcome.refused += u64::from(socket.send(&payload).is_err());
            payload.clear();
        }
        let left = prober.wake().map(|wake| wake.since(monotonic()));
        let patience = left.unwrap_or(Duration::ZERO).min(STOP_PATIENCE);
        wait_to_read(&[socket.as_fd()], patience).doing(|| format!("wait for UDP {peer}"))?;
        take_in(&mut socket, &mut prober, &mut outcome);
        if prober.records().len() > told {
            told = prober.records().len();
            each(told);
        }
    }
    outcome.records = prober.records().to_vec();
    outcome.is_unanswered = prober.is_unanswered();
    Ok(outcome)
}

/// Takes in all that is there.
fn take_in(socket: &mut Udp, prober: &mut Prober, outcome: &mut Outcome) {
    loop {
        match socket.receive() {
            Ok(Some(came)) => {
                prober.handle(monotonic(), came.octets);
            }
            Ok(None) => return,
            // What an ICMP error said of a datagram before; the next one may arrive.
            Err(_) => {
                outcome.refused += 1;
                return;
            }
        }
    }
}

/// Another number for each measurement, so that a receiver doesn't take two for one.
fn session(socket: &Udp) -> u32 {
    let local = socket.local().map(|it| it.to_string()).unwrap_or_default();
    Stream::new(monotonic().as_nanos(), &local).draw() as u32
}
