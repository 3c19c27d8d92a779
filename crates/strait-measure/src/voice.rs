//! A call over real sockets: what the simulator's voice traffic is, live.
//!
//! One end or both send RTP packets (RFC 3550) at a fixed period, and each end logs what left and
//! what arrived by the kernel's monotonic clock, which all processes of one host share. So the
//! logs of two ends on one host join into one-way delays. When a packet arrived is what the kernel
//! noted: a busy host that reads it late changes nothing.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::errno::Errno;
use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::error::{Doing, Error};
use strait_live::kernel::schedule;
use strait_live::poll::wait_to_read;
use strait_live::signals::Stop;
use strait_traffic::{Content, FlowLog, Side, voice_packet, widen};
use strait_wire::rtp::RtpHeader;

use crate::stamped_udp::Udp;

/// One end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voice {
    /// Name of the traffic in the log.
    pub name: String,
    /// Which end this is.
    pub side: Side,
    /// Where packets leave and arrive.
    pub local: SocketAddr,
    /// The other end. An end that doesn't know it learns it from the first packet.
    pub peer: Option<SocketAddr>,
    /// Differentiated services code point of what it sends.
    pub dscp: u8,
    /// Octets after the RTP header.
    pub payload_octets: u32,
    /// Time from one packet to the next.
    pub period: Duration,
    /// When it sends, by [`monotonic`]: from the first moment on, before the second. `None` for an
    /// end that only listens.
    pub sends: Option<(Instant, Instant)>,
    /// When it ends.
    pub until: Instant,
    /// Seed of what the packets contain.
    pub seed: u64,
}

impl Voice {
    /// Sends and receives until its end, or until `stop` is asked; gives what it saw.
    ///
    /// # Errors
    /// The socket can't be had, or fails for good.
    pub fn run(&self, stop: &Stop) -> Result<FlowLog, Error> {
        // As a telephone does: its samples wait for nobody.
        schedule::exact_timers();
        let _ = schedule::go_first();
        let socket = Udp::bind(self.local, self.dscp);
        let mut socket = socket.doing(|| format!("bind UDP {}", self.local))?;
        let mut call = Call {
            voice: self,
            log: FlowLog::new(&self.name, self.side),
            content: Content::new(self.seed, &self.name),
            peer: self.peer,
            sent: 0,
            highest: 0,
            packet: Vec::new(),
        };
        let doing = || format!("receive on UDP {}", self.local);
        while !stop.is_asked() {
            let now = monotonic();
            let next = call.next();
            if now >= self.until {
                break;
            }
            if next.is_some_and(|next| next <= now) {
                call.send(&socket);
                continue;
            }
            let wake = next.unwrap_or(Instant::NEVER).min(self.until);
            // A signal that comes right before the wait is seen after it.
            let patience = wake.since(now).min(Duration::from_millis(200));
            wait_to_read(&[socket.as_fd()], patience).doing(doing)?;
            call.receive(&mut socket).doing(doing)?;
        }
        Ok(call.log)
    }
}

struct Call<'a> {
    voice: &'a Voice,
    log: FlowLog,
    content: Content,
    peer: Option<SocketAddr>,
    /// Packets sent so far.
    sent: u64,
    /// The number after the highest received.
    highest: u64,
    packet: Vec<u8>,
}

impl Call<'_> {
    /// When the next packet leaves: each from the start, so that being late once shifts nothing.
    fn next(&self) -> Option<Instant> {
        let (start, stop) = self.voice.sends?;
        self.peer?;
        let period_ns = self.voice.period.as_nanos() as u64;
        let next = start + Duration::from_nanos(self.sent.saturating_mul(period_ns));
        (next < stop).then_some(next)
    }

    fn send(&mut self, socket: &Udp) {
        let Some(peer) = self.peer else { return };
        // The clock of a call is that of its samples: a packet that leaves late isn't spoken later.
        let period_ns = self.voice.period.as_nanos() as u64;
        let since_ns = self.sent.saturating_mul(period_ns);
        let octets = self.voice.payload_octets;
        voice_packet(
            &mut self.content,
            self.sent,
            since_ns,
            octets,
            &mut self.packet,
        );
        // Once more: building the packet took its time too.
        let now = monotonic();
        match socket.send_to(&self.packet, peer) {
            Ok(()) => self.log.sent(now, self.sent, self.packet.len() as u32),
            // Without a route, or while nobody answers: the call goes on.
            Err(_) => self.log.count("not_sent"),
        }
        self.sent += 1;
    }

    /// Takes in all that is there.
    fn receive(&mut self, socket: &mut Udp) -> io::Result<()> {
        loop {
            match socket.receive() {
                Ok(Some(came)) => {
                    let at = monotonic() - came.age;
                    if let Some(from) = came.peer {
                        self.note(at, from, came.octets);
                    }
                }
                Ok(None) => return Ok(()),
                // An ICMP error about what was sent: the other end isn't there yet.
                Err(error) if is_passing(&error) => self.log.count("refused"),
                Err(error) => return Err(error),
            }
        }
    }

    fn note(&mut self, at: Instant, from: SocketAddr, packet: &[u8]) {
        let peer = *self.peer.get_or_insert(from);
        match RtpHeader::parse(packet) {
            Ok((header, _)) if from == peer => {
                let sequence = widen(self.highest, u64::from(header.sequence), 16);
                self.highest = self.highest.max(sequence + 1);
                self.log.received(at, sequence, packet.len() as u32);
            }
            _ => self.log.count("unusable"),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    let passing = [
        Errno::ECONNREFUSED,
        Errno::EHOSTUNREACH,
        Errno::ENETUNREACH,
        Errno::EINTR,
    ];
    let number = error.raw_os_error().map(Errno::from_raw);
    number.is_some_and(|number| passing.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn end(side: Side, local: SocketAddr, peer: Option<SocketAddr>, start: Instant) -> Voice {
        let stop = start + Duration::from_millis(95);
        Voice {
            name: "call".into(),
            side,
            local,
            peer,
            dscp: 46,
            payload_octets: 31,
            period: Duration::from_millis(10),
            sends: Some((start, stop)),
            until: stop + Duration::from_millis(50),
            seed: 1,
        }
    }

    #[test]
    fn both_ends_hear_all_that_the_other_sent() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let free = || UdpSocket::bind(any).unwrap().local_addr().unwrap();
            let (near, far) = (free(), free());
            let start = monotonic() + Duration::from_millis(20);
            let answering = end(Side::To, far, None, start);
            let calling = end(Side::From, near, Some(far), start);
            let stop = Stop::default();
            let other = stop.clone();
            let thread = std::thread::spawn(move || answering.run(&other).unwrap());
            let from = calling.run(&stop).unwrap();
            let to = thread.join().unwrap();
            assert_eq!((from.sent.len(), to.received.len()), (10, 10), "{from:?}");
            // The end that had to learn its peer skips nothing: it sends all, late.
            assert_eq!((to.sent.len(), from.received.len()), (10, 10), "{to:?}");
            assert!(from.sent[9].at_ns >= (start + Duration::from_millis(90)).as_nanos());
            assert_eq!(to.received[3].octets, 43);
        }
    }

    #[test]
    fn a_stop_ends_it() {
        let stop = Stop::default();
        stop.ask();
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut voice = end(Side::To, local, None, monotonic());
        (voice.sends, voice.until) = (None, Instant::NEVER);
        let log = voice.run(&stop).unwrap();
        assert!(log.sent.is_empty() && log.received.is_empty());
    }
}
