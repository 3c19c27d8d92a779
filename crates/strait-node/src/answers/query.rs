//! UDP queries that rules of the configuration name.

use alloc::format;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::{Duration, Instant, Packet};
use strait_wire::ip::{self, build_udp, udp_payload};

use super::{Learned, QueryConfig, Validity};
use crate::config::InvalidConfig;
use crate::route::Hop;

/// Replies by what was asked of whom.
#[derive(Debug)]
pub(super) struct Queries {
    rules: Vec<Rule>,
    entries: Vec<Entry>,
}

/// A compiled rule.
#[derive(Debug)]
struct Rule {
    port: u16,
    valid: Duration,
    /// For each of the first octets: its value, the bits that must be so, the bits of the
    /// transaction's number.
    first: Vec<First>,
}

#[derive(Clone, Copy, Debug, Default)]
struct First {
    value: u8,
    fixed: u8,
    number: u8,
}

#[derive(Debug)]
struct Entry {
    rule: usize,
    by: Hop,
    src: IpAddr,
    dst: IpAddr,
    /// The question that left last, and the port that it came from.
    asked: Vec<u8>,
    src_port: u16,
    hop_limit: u8,
    /// It has had no reply yet.
    open: bool,
    /// The last one, also after its end: the same again is no surprise.
    reply: Option<Reply>,
}

#[derive(Debug)]
struct Reply {
    valid: Validity,
    payload: Vec<u8>,
    dscp: u8,
    hop_limit: u8,
}

impl Queries {
    /// Rules in a node.
    pub(super) const RULES_MAX: usize = 16;
    /// Octets that a rule looks at.
    pub(super) const FIRST_OCTETS_MAX: usize = 32;
    /// Questions remembered. With the two limits below this is less than half a megaoctet.
    pub(super) const ENTRIES_MAX: usize = 256;
    /// The longest question.
    pub(super) const ASKED_OCTETS_MAX: usize = 512;
    /// The longest reply: what fits an IPv6 packet of 1280 octets.
    pub(super) const REPLY_OCTETS_MAX: usize = 1232;

    pub(super) fn new(config: &[QueryConfig]) -> Result<Self, InvalidConfig> {
        if config.len() > Self::RULES_MAX {
            return Err(InvalidConfig {
                place: "[[answers.query]]".into(),
                message: format!("more than {} rules", Self::RULES_MAX),
            });
        }
        Ok(Self {
            rules: config.iter().map(Rule::new).collect::<Result<_, _>>()?,
            entries: Vec::new(),
        })
    }

    pub(super) fn ask(
        &mut self,
        now: Instant,
        packet: &Packet,
        by: Hop,
        learned: &mut Learned,
    ) -> Option<Vec<u8>> {
        let info = packet.info();
        let port = info.ports?.1;
        let ruled = self.rules.iter().any(|rule| rule.port == port);
        let ((src_port, _), payload) = udp_payload(packet.bytes()).filter(|_| ruled)?;
        let fits = |rule: &Rule| rule.port == port && rule.fits(payload);
        let rule = self.rules.iter().position(fits)?;
        if payload.len() > Self::ASKED_OCTETS_MAX {
            return None;
        }
        let same = |entry: &Entry| {
            entry.rule == rule
                && (entry.src, entry.dst) == (info.src, info.dst)
                && self.rules[rule].same_but_number(&entry.asked, payload)
        };
        let found = self.entries.iter().position(same);
        if let Some(entry) = found.map(|at| &self.entries[at])
            && let Some(reply) = entry.answers(now, packet, by)
        {
            return self.rules[rule].answer(packet, payload, reply);
        }
        let kept = found.map(|at| self.entries.swap_remove(at));
        if self.entries.len() >= Self::ENTRIES_MAX {
            learned.displaced += self.displace();
        }
        let reply = kept.filter(|entry| entry.by == by);
        let reply = reply.and_then(|entry| entry.reply);
        self.entries.push(Entry {
            rule,
            by,
            src: info.src,
            dst: info.dst,
            asked: payload.into(),
            src_port,
            hop_limit: info.hop_limit,
            open: true,
            reply,
        });
        None
    }

    pub(super) fn hear(
        &mut self,
        now: Instant,
        packet: &Packet,
        from: Hop,
        learned: &mut Learned,
    ) -> Option<()> {
        let info = packet.info();
        let port = info.ports?.0;
        let ruled = self.rules.iter().any(|rule| rule.port == port);
        let ((_, to_port), payload) = udp_payload(packet.bytes()).filter(|_| ruled)?;
        let rules = &self.rules;
        // Only what was asked for, with the number that was asked with.
        let fits = |entry: &&mut Entry| {
            let rule = &rules[entry.rule];
            rule.port == port
                && entry.by == from
                && (entry.src, entry.dst) == (info.dst, info.src)
                && entry.src_port == to_port
                && rule.same_number(&entry.asked, payload)
        };
        let entry = self.entries.iter_mut().find(fits)?;
        if payload.len() > Self::REPLY_OCTETS_MAX {
            return None;
        }
        let rule = &rules[entry.rule];
        let same = |reply: &Reply| {
            (reply.dscp, reply.hop_limit) == (info.dscp, info.hop_limit)
                && rule.same_but_number(&reply.payload, payload)
        };
        let again = entry.reply.as_ref().is_some_and(same);
        // Said again to one question, it is as old as it was.
        if entry.open || !again {
            entry.open = false;
            entry.reply = Some(Reply {
                valid: Validity::begin(now, rule.valid, again),
                payload: payload.into(),
                dscp: info.dscp,
                hop_limit: info.hop_limit,
            });
            learned.stored += 1;
        }
        Some(())
    }

    /// Forgets entries by where they left and whom they asked; says how many replies were stored.
    pub(super) fn forget(&mut self, which: impl Fn(Hop, IpAddr) -> bool) -> u64 {
        let mut replies = 0;
        self.entries.retain(|entry| {
            let goes = which(entry.by, entry.dst);
            replies += u64::from(goes && entry.reply.is_some());
            !goes
        });
        replies
    }

    /// Gives up the entry that would end first; says whether that held a reply.
    fn displace(&mut self) -> u64 {
        let until = |entry: &Entry| entry.reply.as_ref().map(|reply| reply.valid.until);
        let entries = self.entries.iter().enumerate();
        let first = entries.min_by_key(|(_, entry)| until(entry));
        let at = first.map(|(at, _)| at);
        let gone = at.map(|at| self.entries.swap_remove(at));
        u64::from(gone.is_some_and(|entry| entry.reply.is_some()))
    }
}

impl Entry {
    fn answers(&self, now: Instant, packet: &Packet, by: Hop) -> Option<&Reply> {
        let same = self.by == by && packet.info().hop_limit >= self.hop_limit;
        let reply = self.reply.as_ref().filter(|_| same)?;
        reply.valid.holds(now).then_some(reply)
    }
}

impl Rule {
    fn new(config: &QueryConfig) -> Result<Self, InvalidConfig> {
        let wrong = |key: &str, message: &str| InvalidConfig {
            place: config.place(key),
            message: message.into(),
        };
        if config.port == 0 {
            return Err(wrong("port", "must be 1 to 65535"));
        }
        if config.valid.0.is_zero() {
            return Err(wrong("valid", "must be more than 0 s"));
        }
        let signs: Vec<u8> = config.first.bytes().filter(|sign| *sign != b' ').collect();
        if !signs.len().is_multiple_of(2) || signs.len() > 2 * Queries::FIRST_OCTETS_MAX {
            let message = "must have two signs for each octet, of 32 octets at most";
            return Err(wrong("first", message));
        }
        let octet = |pair: &[u8]| {
            let mut first = First::default();
            for sign in pair {
                let half = match sign {
                    b'?' => (0, 0, 0),
                    b'#' => (0, 0, 0xf),
                    _ => (char::from(*sign).to_digit(16)? as u8, 0xf, 0),
                };
                first = First {
                    value: first.value << 4 | half.0,
                    fixed: first.fixed << 4 | half.1,
                    number: first.number << 4 | half.2,
                };
            }
            Some(first)
        };
        let first: Option<Vec<First>> = signs.chunks(2).map(octet).collect();
        let message = "takes hexadecimal digits, `?`, `#` and spaces";
        Ok(Self {
            port: config.port,
            valid: config.valid.0,
            first: first.ok_or_else(|| wrong("first", message))?,
        })
    }

    fn fits(&self, payload: &[u8]) -> bool {
        let mut octets = self.first.iter().zip(payload);
        payload.len() >= self.first.len()
            && octets.all(|(first, octet)| octet & first.fixed == first.value)
    }

    /// The bits of the transaction's number in the octet at this place.
    fn number_at(&self, place: usize) -> u8 {
        self.first.get(place).map_or(0, |first| first.number)
    }

    fn same_but_number(&self, one: &[u8], other: &[u8]) -> bool {
        let mut octets = one.iter().zip(other).enumerate();
        one.len() == other.len()
            && octets.all(|(place, (one, other))| (one ^ other) & !self.number_at(place) == 0)
    }

    fn same_number(&self, asked: &[u8], reply: &[u8]) -> bool {
        let mut octets = self.first.iter().zip(asked.iter().zip(reply));
        reply.len() >= self.first.len()
            && octets.all(|(first, (asked, reply))| (asked ^ reply) & first.number == 0)
    }

    /// The stored reply with the number of this question.
    fn answer(&self, packet: &Packet, asked: &[u8], reply: &Reply) -> Option<Vec<u8>> {
        let (info, mut payload) = (packet.info(), reply.payload.clone());
        for (first, (octet, asked)) in self.first.iter().zip(payload.iter_mut().zip(asked)) {
            *octet = *octet & !first.number | asked & first.number;
        }
        let (src_port, dst_port) = info.ports?;
        let mut out = Vec::with_capacity(payload.len() + 48);
        let built = build_udp(
            SocketAddr::new(info.dst, dst_port),
            SocketAddr::new(info.src, src_port),
            reply.dscp,
            reply.hop_limit,
            ip::digest(packet.bytes()) as u16,
            info.flow_label,
            &payload,
            &mut out,
        );
        built.then_some(out)
    }
}
