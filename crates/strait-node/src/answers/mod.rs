//! Questions answered in place of somebody beyond the link, from a reply that was stored when the
//! same question crossed it before.
//!
//! A stored reply answers for a configured time, counted from its arrival: an answer given here
//! doesn't prolong it. One that says what nobody said before answers for ten seconds at most, until
//! another question has the same answer. It answers never after that, and never once the far side
//! is known down: the port is, an ICMP error says so, a transmission failed, or the way there
//! changed.

mod config;
mod echo;
mod hellos;
mod neighbours;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::local::Question;
use strait_core::{Duration, Instant, NeighbourId, Packet, PortId};
use strait_wire::ip::{self, PacketInfo};

pub use self::config::{AnswersConfig, AnswersPreset, HelloProtocol, HellosConfig};
use self::echo::Echoes;
use self::hellos::Hellos;
use self::neighbours::Neighbours;
use crate::config::InvalidConfig;
use crate::route::Hop;

/// The stored replies of a node. Each packet asks which kinds there are, and most nodes have none.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    echoes: Option<Box<Echoes>>,
    neighbours: Option<Box<Neighbours>>,
    hellos: Option<Box<Hellos>>,
}

/// A reply as it came, as long as it may be given again.
#[derive(Clone, Copy, Debug)]
struct Validity {
    /// From here on it isn't given any more.
    until: Instant,
}

impl Validity {
    /// For so long it is taken for true what only one packet says: anybody on a radio can make up
    /// one.
    const ONCE: Duration = Duration::from_secs(10);

    /// What is said for the second time, to another question, holds for all of `span`.
    fn begin(now: Instant, span: Duration, again: bool) -> Self {
        let span = if again { span } else { span.min(Self::ONCE) };
        Self { until: now + span }
    }

    fn holds(self, now: Instant) -> bool {
        now < self.until
    }
}

/// What a store did with a packet from beyond the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// Replies stored.
    pub(crate) stored: u64,
    /// Stored replies given up.
    pub(crate) forgotten: u64,
    /// Of other questions, given up for want of place.
    pub(crate) displaced: u64,
}

impl Answers {
    pub(crate) fn new(config: &AnswersConfig) -> Result<Self, InvalidConfig> {
        let hellos = config.hellos.as_ref();
        hellos.map_or(Ok(()), HellosConfig::validate)?;
        Ok(Self {
            echoes: config.echo_valid().map(Echoes::new).map(Box::new),
            neighbours: config.neighbours_valid().map(Neighbours::new).map(Box::new),
            hellos: hellos.map(Hellos::new).map(Box::new),
        })
    }

    /// Looks at a packet that is about to leave by `by`: the reply to give in its place, if it is a
    /// question with a stored one. Else takes note of the question.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        packet: &Packet,
        by: Hop,
    ) -> (Option<(Question, Vec<u8>)>, Learned) {
        let info = packet.info();
        if info.dst.is_multicast() {
            return Default::default();
        }
        let mut learned = Learned::default();
        let echo = self.echoes.as_mut().filter(|_| is_icmp(info));
        let reply = echo.and_then(|echo| echo.ask(now, packet, by, &mut learned));
        (reply.map(|reply| (Question::Echo, reply)), learned)
    }

    /// Looks at a packet that came by `from`: a reply to a question that left there, or the word
    /// that it can't be answered. `led` says that the way to its source leads back there.
    pub(crate) fn hear(&mut self, now: Instant, packet: &Packet, from: Hop, led: bool) -> Learned {
        let mut learned = Learned::default();
        if is_icmp(packet.info()) {
            if let Some(echoes) = &mut self.echoes {
                echoes.hear(now, packet, from, &mut learned);
            }
            self.hear_error(packet, &mut learned);
        }
        // After an error about itself a host is there all the same.
        if let Some(neighbours) = self.neighbours.as_mut().filter(|_| led) {
            neighbours.hear(now, packet.info().src, from, &mut learned);
        }
        learned
    }

    /// Whether hosts beyond the links are remembered.
    pub(crate) const fn knows_hosts(&self) -> bool {
        self.neighbours.is_some()
    }

    /// Whether a host beyond a link is known to be there; `None` where that isn't asked.
    pub(crate) fn is_there(&self, now: Instant, address: IpAddr, by: Hop) -> Option<bool> {
        let neighbours = self.neighbours.as_ref()?;
        Some(neighbours.is_there(now, address, by))
    }

    /// Whether a host beyond a link may be asked for a sign now; takes note that it is.
    pub(crate) fn asks_across(&mut self, now: Instant, address: IpAddr, by: Hop) -> bool {
        let neighbours = self.neighbours.as_mut();
        neighbours.is_some_and(|neighbours| neighbours.ask(now, address, by))
    }

    /// Whether a packet that is about to leave by `by` is a hello that says nothing new.
    pub(crate) fn is_repeated(&mut self, now: Instant, packet: &Packet, by: Hop) -> bool {
        let hellos = self.hellos.as_mut();
        hellos.is_some_and(|hellos| hellos.is_repeated(now, packet, by))
    }

    /// Looks at a packet that came by `from` and goes to the host side: a hello to repeat there.
    pub(crate) fn hear_hello(
        &mut self,
        now: Instant,
        packet: &Packet,
        from: Hop,
        side: PortId,
    ) -> Learned {
        let mut learned = Learned::default();
        if let Some(hellos) = &mut self.hellos {
            hellos.hear(now, packet, (from, side), &mut learned);
        }
        learned
    }

    /// Hellos to give to host sides now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<(Vec<u8>, PortId)> {
        let hellos = self.hellos.as_mut();
        hellos.map_or_else(Vec::new, |hellos| hellos.due(now))
    }

    /// When there are some.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.hellos.as_ref()?.wake()
    }

    /// An ICMP error about a question: nobody there answers.
    fn hear_error(&mut self, packet: &Packet, learned: &mut Learned) {
        let bytes = packet.bytes();
        // Who says that nobody listens on a port is there.
        let port = ip::IcmpError::Unreachable(ip::Unreachable::Port);
        let error = ip::parse_icmp_error(bytes).filter(|(error, _)| *error != port);
        let Some((_, quoted)) = error else {
            return;
        };
        // The quoted packet is cut short as a rule: its addresses are all that is needed.
        let octets = u32::try_from(quoted.len()).unwrap_or(u32::MAX);
        let Ok(about) = ip::Captured::parse(&bytes[quoted], octets) else {
            return;
        };
        let forgotten = self
            .echoes
            .as_mut()
            .map_or(0, |echoes| echoes.forget(|_, dst| dst == about.dst))
            + self
                .neighbours
                .as_mut()
                .map_or(0, |neighbours| neighbours.forget(|_, dst| dst == about.dst));
        learned.forgotten += forgotten;
    }

    /// Forgets what was learned by a neighbour, or all of a port: they are known down. Says how
    /// many replies.
    pub(crate) fn forget_beyond(&mut self, port: PortId, to: NeighbourId) -> u64 {
        self.forget(|by| by.port == port && (to == NeighbourId::ALL || by.to == to))
    }

    /// Forgets everything: the ways changed.
    pub(crate) fn forget_all(&mut self) -> u64 {
        self.forget(|_| true)
    }

    fn forget(&mut self, which: impl Fn(Hop) -> bool) -> u64 {
        let echoes = self.echoes.as_mut();
        let neighbours = self.neighbours.as_mut();
        let hellos = self.hellos.as_mut();
        echoes.map_or(0, |echoes| echoes.forget(|by, _| which(by)))
            + neighbours.map_or(0, |neighbours| neighbours.forget(|by, _| which(by)))
            + hellos.map_or(0, |hellos| hellos.forget(which))
    }
}

const fn is_icmp(info: &PacketInfo) -> bool {
    matches!(info.protocol, ip::protocol::ICMP | ip::protocol::ICMPV6)
}
