//! What gateways at both ends of a link tell each other of themselves: a report each, as often as
//! a small share of the link allows. The format is [`strait_status::brief`]'s.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::stats::{Brief, FarStats};
use strait_core::{Duration, Instant, Packet, PortId};
use strait_status::Snapshot;
use strait_status::brief::{Hearer, OCTETS_MAX, Teller, brief};
use strait_status::why::History;
use strait_wire::ip::udp_payload;

use super::own_address_at;
use super::proxied::{Carriage, packet};
use super::services::Around;
use crate::config::{FarConfig, NodeConfig};
use crate::route::Hop;

/// The code point of what nobody waits for (LE of RFC 8622).
const QUIET: u8 = 1;
/// What clocks in reports count.
const QUARTER: Duration = Duration::from_nanos(QUARTER_NS);
const QUARTER_NS: u64 = 250_000_000;
/// Reports that are compared: clocks drift apart.
const LATEST: usize = 32;
/// Time between looks at who is due.
const STEP: Duration = Duration::from_secs(1);
/// Time between snapshots that reports are made of.
const SNAPSHOTS: Duration = Duration::from_secs(3);
/// Time between reports at least, and after which one goes with what there is room for: what the
/// other end knows is no older than 10 s where the link pays for it.
const SPACE: Duration = Duration::from_secs(6);
const SPACE_MAX: Duration = Duration::from_secs(8);
/// Octets of a report of a node with little to say: for more a link owes, and waits longer then.
const LEAST: usize = 24;
/// Octets around a report: a segment; with UDP and IP, or what header compression leaves of them.
const SEGMENT: usize = 8;
const COMPRESSED: usize = 12;
const V4: usize = 28;
const V6: usize = 48;

/// A gateway at a far end.
#[derive(Debug)]
struct Partner {
    stats: FarStats,
    teller: Teller,
    hearer: Hearer,
    /// Octets that may be sent now, in the parts that a bit/s gives in a nanosecond.
    credit: f64,
    reported: Option<Instant>,
    /// Differences of the clocks here and there when the latest reports came.
    took: VecDeque<u8>,
}

impl Partner {
    fn learn(&mut self, now: Instant, brief: Brief) {
        // Clocks of two nodes agree in nothing but their pace: the fastest of the latest reports
        // sets the mark.
        let clock = (now.as_nanos() / QUARTER_NS) as u8;
        let took = clock.wrapping_sub(brief.at);
        if self.took.len() == LATEST {
            self.took.pop_front();
        }
        self.took.push_back(took);
        let late = self.took.iter().map(|it| took.wrapping_sub(*it) as i8);
        let late = QUARTER * late.max().unwrap_or(0).max(0) as u32;
        let stats = &mut self.stats;
        let age = stats.as_of.map(|at| now.since(at));
        stats.age_max = stats.age_max.max(age.unwrap_or_default());
        stats.as_of = Some(now - late);
        stats.brief = brief;
    }
}

/// Reports to partners, and theirs.
#[derive(Debug)]
pub(super) struct Far {
    node: String,
    port: u16,
    share: f64,
    partners: Vec<Partner>,
    /// By link port.
    carriages: Vec<Carriage>,
    history: History,
    looked: Option<Instant>,
    noted: Option<Instant>,
    /// Packets so far.
    ident: u16,
}

impl Far {
    pub(super) fn new(far: &FarConfig, config: &NodeConfig, seed: u64) -> Self {
        let partners = far.partners.iter().map(|address| Partner {
            stats: FarStats {
                address: *address,
                reports_out: 0,
                octets_out: 0,
                reports_in: 0,
                malformed: 0,
                as_of: None,
                age_max: Duration::ZERO,
                brief: Brief::default(),
            },
            teller: Teller::new(seed as u8),
            hearer: Hearer::default(),
            credit: 0.0,
            reported: None,
            took: VecDeque::new(),
        });
        Self {
            node: config.name.clone(),
            port: far.port,
            share: far.share.0,
            partners: partners.collect(),
            carriages: config.ports.iter().map(Carriage::of).collect(),
            history: History::default(),
            looked: None,
            noted: None,
            ident: 0,
        }
    }

    /// Takes a report of a partner's, or gives the packet back.
    pub(super) fn take(
        &mut self,
        now: Instant,
        packet: Packet,
        from: Hop,
        around: &mut Around<'_>,
    ) -> Option<Packet> {
        let find = |src| self.partners.iter().position(|it| it.stats.address == src);
        let (partner, bytes) = match around.heard(now, (packet, from), self.port, find) {
            Ok(heard) => heard?,
            Err(packet) => return Some(packet),
        };
        let partner = &mut self.partners[partner];
        let report = udp_payload(&bytes).map_or(&[][..], |(_, payload)| payload);
        partner.stats.reports_in += 1;
        let before = partner.hearer.life();
        let read = partner.hearer.read(report);
        if partner.hearer.life() != before {
            // Its clock began anew.
            partner.took.clear();
        }
        match read {
            Some(brief) => partner.learn(now, brief),
            None => partner.stats.malformed += 1,
        }
        around.ledger.keep_spare(bytes);
        self.tell(around);
        None
    }

    /// Looks at this node, and reports to partners that are due.
    pub(super) fn settle(&mut self, now: Instant, around: &mut Around<'_>) {
        if self.looked.is_some_and(|at| now.since(at) < STEP) {
            return;
        }
        let passed = self.looked.map_or(STEP, |at| now.since(at));
        self.looked = Some(now);
        for at in 0..self.partners.len() {
            self.report(now, passed, at, around);
        }
        if self.noted.is_none_or(|at| now.since(at) >= SNAPSHOTS) {
            self.noted = Some(now);
            let snapshot = Snapshot::new(&self.node, now, around.ledger.stats(), &[]);
            self.history.note(snapshot);
        }
        self.tell(around);
    }

    fn tell(&self, around: &mut Around<'_>) {
        let partners = self.partners.iter().map(|it| it.stats.clone());
        around.ledger.stats_mut().far = partners.collect();
    }

    fn report(
        &mut self,
        now: Instant,
        passed: Duration,
        at: usize,
        around: &mut Around<'_>,
    ) -> Option<()> {
        let partner = &mut self.partners[at];
        let to = partner.stats.address;
        let hop = around.link_to(to)?;
        if !around.ports[hop.port.index()].queue.reaches(hop.to) {
            return None;
        }
        let link = Carriage::view(&self.carriages, hop, around)?;
        let stats = &around.ledger.stats().ports[hop.port.index()];
        let beneath = match to {
            _ if stats.compressed_octets > 0 => COMPRESSED,
            IpAddr::V4(_) => V4,
            IpAddr::V6(_) => V6,
        };
        let octets = link.bit_s as f64 / 8.0 * self.share * passed.as_secs_f64();
        let most = (SEGMENT + beneath + OCTETS_MAX) as f64;
        partner.credit = (partner.credit + octets).min(most);
        let since = partner.reported.map_or(SPACE_MAX, |it| now.since(it));
        // Where stations take turns, a report alone would cost one.
        let goes_along = link.turn.is_zero() || link.queued > 0;
        let room = (partner.credit as usize).saturating_sub(SEGMENT + beneath);
        if since < SPACE || !goes_along || link.silent || room < LEAST {
            return None;
        }
        let snapshot = Snapshot::new(&self.node, now, around.ledger.stats(), &[]);
        let history = self.history.until(&snapshot);
        let brief = brief(&history, &stats.name, self.port);
        if since < SPACE_MAX && partner.teller.whole(now, &brief) > room {
            return None;
        }
        let report = partner.teller.write(now, &brief, room);
        let own = own_address_at(around.own, PortId::HOST, to)?;
        let ends = (
            SocketAddr::new(own, self.port),
            SocketAddr::new(to, self.port),
        );
        self.ident = self.ident.wrapping_add(1);
        let bytes = packet(ends, QUIET, self.ident, &report)?;
        partner.credit -= (SEGMENT + beneath + report.len()) as f64;
        partner.reported = Some(now);
        partner.stats.reports_out += 1;
        partner.stats.octets_out += bytes.len() as u64;
        around.send(now, bytes, hop);
        Some(())
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.looked.map(|at| at + STEP)
    }
}
