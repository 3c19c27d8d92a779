//! Echo requests (RFC 792, RFC 4443 section 4.1).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::{Duration, Instant, Packet};
use strait_wire::ip::{
    self, Echo, EchoKind, IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, build_echo, parse_echo,
};

use super::{Learned, Validity};
use crate::route::Hop;

/// Replies by who asked whom.
#[derive(Debug)]
pub(super) struct Echoes {
    valid: Duration,
    entries: BTreeMap<(IpAddr, IpAddr), Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Where the question left.
    by: Hop,
    ident: u16,
    /// Of the question that left last: one that may go less far, or is longer, is another question.
    hop_limit: u8,
    octets: u32,
    /// It has had no reply yet.
    open: bool,
    /// The last one, also after its end: the same again is no surprise.
    reply: Option<Reply>,
}

/// What a reply told that the question doesn't tell.
#[derive(Clone, Copy, Debug)]
struct Reply {
    valid: Validity,
    hop_limit: u8,
}

/// Octets of an ICMP header with its second word.
const ICMP_OCTETS: usize = 8;

impl Echoes {
    /// Pairs of hosts that fit; an entry takes about 100 octets.
    pub(super) const ENTRIES_MAX: usize = 1024;

    pub(super) const fn new(valid: Duration) -> Self {
        Self {
            valid,
            entries: BTreeMap::new(),
        }
    }

    pub(super) fn ask(
        &mut self,
        now: Instant,
        packet: &Packet,
        by: Hop,
        learned: &mut Learned,
    ) -> Option<Vec<u8>> {
        let echo = plain_echo(packet, EchoKind::Request)?;
        let info = packet.info();
        let key = (info.src, info.dst);
        if let Some(entry) = self.entries.get(&key)
            && let Some(reply) = entry.answers(now, packet, by)
        {
            return answer(packet, &echo, reply.hop_limit);
        }
        if !self.entries.contains_key(&key) && self.entries.len() >= Self::ENTRIES_MAX {
            learned.displaced += self.displace();
        }
        // A question for which the stored reply doesn't do leaves it to others.
        let reply = self.entries.get(&key).filter(|entry| entry.by == by);
        let reply = reply.and_then(|entry| entry.reply);
        let entry = Entry {
            by,
            ident: echo.ident,
            hop_limit: info.hop_limit,
            octets: info.octets,
            open: true,
            reply,
        };
        self.entries.insert(key, entry);
        None
    }

    pub(super) fn hear(
        &mut self,
        now: Instant,
        packet: &Packet,
        from: Hop,
        learned: &mut Learned,
    ) -> Option<()> {
        let echo = plain_echo(packet, EchoKind::Reply)?;
        let info = packet.info();
        let entry = self.entries.get_mut(&(info.dst, info.src))?;
        // Only what was asked for: a reply out of the blue may be anybody's.
        if entry.by != from || entry.ident != echo.ident || entry.octets != info.octets {
            return None;
        }
        let same = |reply: Reply| reply.hop_limit == info.hop_limit;
        let again = entry.reply.is_some_and(same);
        // Said again to one question, it is as old as it was.
        if entry.open || !again {
            entry.open = false;
            entry.reply = Some(Reply {
                valid: Validity::begin(now, self.valid, again),
                hop_limit: info.hop_limit,
            });
            learned.stored += 1;
        }
        Some(())
    }

    /// Forgets entries by where they left and whom they asked; says how many replies were stored.
    pub(super) fn forget(&mut self, which: impl Fn(Hop, IpAddr) -> bool) -> u64 {
        let mut replies = 0;
        self.entries.retain(|(_, dst), entry| {
            let goes = which(entry.by, *dst);
            replies += u64::from(goes && entry.reply.is_some());
            !goes
        });
        replies
    }

    /// Gives up the entry that would end first; says whether that held a reply.
    fn displace(&mut self) -> u64 {
        let until = |entry: &Entry| entry.reply.map(|reply| reply.valid.until);
        let first = self.entries.iter().min_by_key(|(_, entry)| until(entry));
        let key = first.map(|(key, _)| *key);
        let gone = key.and_then(|key| self.entries.remove(&key));
        u64::from(gone.is_some_and(|entry| entry.reply.is_some()))
    }
}

impl Entry {
    fn answers(&self, now: Instant, packet: &Packet, by: Hop) -> Option<Reply> {
        let info = packet.info();
        let same = self.by == by && info.hop_limit >= self.hop_limit && info.octets <= self.octets;
        self.reply.filter(|reply| same && reply.valid.holds(now))
    }
}

/// The echo message that a packet is, if it has neither options nor extension headers: those ask
/// something of each router.
fn plain_echo(packet: &Packet, kind: EchoKind) -> Option<Echo> {
    let echo = parse_echo(packet.bytes()).filter(|echo| echo.kind == kind)?;
    let header = match packet.info().src {
        IpAddr::V4(_) => IPV4_HEADER_OCTETS,
        IpAddr::V6(_) => IPV6_HEADER_OCTETS,
    };
    (echo.payload.start == header + ICMP_OCTETS).then_some(echo)
}

/// The reply to a question: everything of it sent back (RFC 4443 section 4.2), with its code point,
/// as hosts do.
fn answer(packet: &Packet, echo: &Echo, hop_limit: u8) -> Option<Vec<u8>> {
    let info = packet.info();
    let mut out = Vec::with_capacity(packet.octets());
    let built = build_echo(
        EchoKind::Reply,
        info.dst,
        info.src,
        info.dscp,
        hop_limit,
        ip::digest(packet.bytes()) as u16,
        echo.ident,
        echo.sequence,
        packet.bytes().get(echo.payload.clone())?,
        &mut out,
    );
    built.then_some(out)
}
