//! The common part of every port, whatever its link: waiting packets for each way, their limits,
//! and the reports of the medium.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::node::{PortState, Want};
use strait_core::rate::{Burst, LineRate};
use strait_core::stats::PortStats;
use strait_core::{
    ClassId, DropCause, Duration, Fate, Instant, NeighbourId, Neighbours, Packet, PortId, Wake,
    WakeReason,
};
use strait_link::STREAMS;
use strait_qos::{
    Class, Costs, Eligibility, Head, Ingress, Limits, Policy, Scheduler, Site, Tree, repeats,
};
use strait_wire::hash::hash64;
use strait_wire::ip::Chatter;

use super::calls::Calls;
use super::link::{Link, Outlet};
use super::path::{Path, Paths};
use super::yields::Yields;
use crate::config::{ChatterKind, HostConfig, PortConfig};
use crate::hop_config::{Depth, Depths};
use crate::proxy::Promise;
use crate::route::Hop;

/// How a port carries the packets of a class.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Treatment {
    /// Which stream of the link it uses, possibly with others.
    pub(super) stream: usize,
    /// Strict rank: lower ones go first.
    pub(super) rank: u8,
    /// It has the first rank: nothing goes before its packets, so cutting them would only cost
    /// octets.
    pub(super) whole: bool,
    /// It leaves out packets that repeat one that hasn't left yet.
    absorbs_repeats: bool,
    /// The limits of its waiting packets: its own, and those before its link.
    own: Limits,
    limits: Limits,
    /// How long one may wait.
    pub(super) age: Option<Duration>,
}

impl Treatment {
    pub(super) fn of(class: &Class) -> Self {
        Self {
            stream: usize::from(class.stream) % STREAMS,
            rank: class.rank,
            whole: class.rank == 0,
            absorbs_repeats: class.queue.absorbs_repeats(),
            own: Limits::of(class),
            limits: Limits::of(class),
            age: class.age,
        }
    }
}

/// A port without its link. It lies in memory in this order: the fields that all packets use at the
/// end, where the port's link follows.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Queue {
    /// How its packets leave.
    pub(super) paths: Paths,
    /// By neighbour, the rate that the medium has reported, if each has another one.
    pub(super) rates: Vec<Option<LineRate>>,
    /// The observed costs of octets for each neighbour, if the medium reports no rates.
    pub(super) costs: Costs,
    /// Neighbours that the medium reports as absent; no others than those configured.
    pub(super) away: BTreeSet<NeighbourId>,
    /// Neighbours that forward packets.
    pub(super) yields: Yields,
    /// Octets that its links take in the longest round trip of a link that repeats its losses.
    trip_octets: u64,
    /// By neighbour, the data that services have ready beside the waiting packets: a turn may count
    /// on it.
    promises: BTreeMap<NeighbourId, Promise>,
    /// Neighbours that don't answer, or have yet to.
    silent: BTreeSet<NeighbourId>,
    /// Which calls its line takes.
    pub(in crate::gateway) calls: Calls,
    /// Kinds of background chatter that may cross; all, without a list.
    passes: Option<Vec<ChatterKind>>,
    neighbours: usize,
    /// The largest packet that the configuration allows.
    pub(super) mtu_max: usize,
    /// By class.
    pub(super) classes: Box<[Treatment]>,
    /// The medium's offer; `None` while the port is down.
    pub(super) state: Option<PortState>,
    /// The largest packet in octets.
    pub(in crate::gateway) mtu: usize,
    pub(super) id: PortId,
    /// Applications are behind it.
    pub(super) is_host: bool,
    /// The policy's name for it.
    pub(in crate::gateway) ingress: Ingress,
    /// IPv6 crosses it.
    pub(in crate::gateway) carries_v6: bool,
    takes_any_source: bool,
    clamps_mss: bool,
}

/// A rate for the moment before the medium has named its own.
pub(super) const RATE_UNKNOWN: LineRate = LineRate::new(9600, 8);

impl Queue {
    /// A host side's. Nothing is narrow behind it: limits are for links.
    pub(super) fn of_host(id: PortId, side: &HostConfig, policy: &Policy, seed: u64) -> Self {
        let mtu = side.mtu.0 as usize;
        let queue = Tree::unlimited(policy, site(id, mtu, seed));
        let path = Path::new(queue, burst(0), false, policy);
        Self {
            id,
            mtu,
            mtu_max: mtu,
            state: None,
            away: BTreeSet::new(),
            yields: Yields::default(),
            paths: Paths::new(core::iter::once(path)),
            rates: Vec::new(),
            costs: Costs::default(),
            trip_octets: 0,
            promises: BTreeMap::new(),
            silent: BTreeSet::new(),
            neighbours: 1,
            classes: policy.classes().iter().map(Treatment::of).collect(),
            calls: Calls::default(),
            is_host: true,
            ingress: policy.ingress(side.name()),
            clamps_mss: true,
            carries_v6: true,
            takes_any_source: true,
            passes: None,
        }
    }

    /// A link port's, with so many neighbours.
    pub(super) fn of_link(
        id: PortId,
        config: &PortConfig,
        neighbours: usize,
        policy: &Policy,
        seed: u64,
    ) -> Self {
        let mtu = config.mtu_octets();
        let calls = Calls::new(config, policy);
        let site = Site {
            unit_octets: config.uncut_octets() as u32,
            turn: config.turn().unwrap_or_default(),
            ..site(id, mtu, seed)
        };
        let path = |_| {
            let queue = Tree::new(policy, site);
            let burst = burst(config.header_octets());
            Path::new(queue, burst, calls.tells_flows(policy), policy)
        };
        Self {
            paths: Paths::new((0..config.ways().max(1)).map(path)),
            calls,
            id,
            mtu,
            mtu_max: mtu,
            state: None,
            away: BTreeSet::new(),
            yields: Yields::new(policy.waits_for_relays()),
            rates: Vec::new(),
            costs: Costs::default(),
            trip_octets: 0,
            promises: BTreeMap::new(),
            silent: BTreeSet::new(),
            neighbours,
            classes: policy.classes().iter().map(Treatment::of).collect(),
            is_host: false,
            ingress: policy.ingress(&config.name),
            clamps_mss: config.clamp_mss,
            carries_v6: config.carries_v6(),
            takes_any_source: config.any_source,
            passes: Some(config.pass_chatter.clone()),
        }
    }

    /// The counters of the port.
    pub(super) fn stats<'a>(&self, ledger: &'a mut Ledger) -> &'a mut PortStats {
        &mut ledger.stats_mut().ports[self.id.index()]
    }

    pub(super) const fn neighbours(&self) -> usize {
        self.neighbours
    }

    /// Whether this kind of background chatter may cross.
    pub(in crate::gateway) fn passes(&self, kind: Chatter) -> bool {
        let passes = self.passes.as_ref();
        passes.is_none_or(|kinds| kinds.contains(&ChatterKind(kind)))
    }

    /// Whether its sources aren't restricted by routes.
    pub(in crate::gateway) const fn takes_any_source(&self) -> bool {
        self.takes_any_source
    }

    /// Octets for the neighbours cost the shared line this from now on.
    pub(super) fn set_costs(&mut self, costs: Costs) {
        self.paths.first.queue.set_costs(&costs);
        self.costs = costs;
    }

    /// The largest segment size a TCP connection over this port may announce, by IP version.
    pub(in crate::gateway) fn mss_max(&self, v6: bool) -> Option<u16> {
        let headers = if v6 { 60 } else { 40 };
        let mss = || u16::try_from(self.mtu - headers).unwrap_or(u16::MAX);
        self.clamps_mss.then(mss)
    }

    /// Whether the medium reports that a neighbour is absent.
    pub(super) fn is_away(&self, to: NeighbourId) -> bool {
        !self.away.is_empty() && self.away.contains(&to)
    }

    /// Links on the path behind a neighbour for the last packet sent to it.
    pub(super) fn onward(&self, to: NeighbourId) -> u8 {
        self.yields.onward(to)
    }

    /// Whether the medium is there.
    pub(in crate::gateway) const fn is_up(&self) -> bool {
        self.state.is_some()
    }

    /// Whether a neighbour can be reached, by the medium's reports.
    pub(in crate::gateway) fn reaches(&self, to: NeighbourId) -> bool {
        self.is_up() && !self.is_away(to)
    }

    /// From the last octet sent to its arrival, as far as the medium reports.
    pub(in crate::gateway) fn latency(&self) -> Duration {
        self.state.map_or(Duration::ZERO, |it| it.latency)
    }

    /// Octets that wait for a neighbour, and for all who share its way.
    pub(in crate::gateway) fn octets_to(&self, to: NeighbourId) -> u64 {
        self.paths.to(to).queue.total().octets
    }

    /// Of these, the octets of a class, with the rest of its packet under way.
    pub(in crate::gateway) fn octets_of(&self, to: NeighbourId, class: ClassId) -> u64 {
        let queue = &self.paths.to(to).queue;
        queue.queued(class).octets + queue.under_way(class)
    }

    /// Octets that may wait in a class, by its policy, of the longest packets.
    pub(in crate::gateway) fn octets_max(&self, class: ClassId) -> u64 {
        let limits = self.classes.get(usize::from(class.0)).map(|it| it.limits);
        let most = |it: Limits| it.octets.min(u64::from(it.packets) * self.mtu as u64);
        limits.map_or(0, most)
    }

    /// A service has more ready for a neighbour, which arrives as waiting packets leave.
    pub(in crate::gateway) fn promise(&mut self, to: NeighbourId, more: Promise) {
        let all = self.promises.entry(to).or_default();
        all.octets += more.octets;
        all.packets += more.packets;
        all.settles = all.settles.max(more.settles);
    }

    /// Whether a neighbour is there that doesn't answer, or has yet to.
    pub(in crate::gateway) fn is_silent(&self, to: NeighbourId) -> bool {
        self.silent.contains(&to)
    }

    /// Takes note of that.
    pub(super) fn set_silent(&mut self, to: NeighbourId, silent: bool) {
        if silent {
            self.silent.insert(to);
        } else {
            self.silent.remove(&to);
        }
    }

    /// Takes all promises back.
    pub(in crate::gateway) fn end_promises(&mut self) {
        self.promises.clear();
    }

    /// The data that services have ready for a neighbour.
    pub(super) fn promised(&self, to: NeighbourId) -> Promise {
        self.promises.get(&to).copied().unwrap_or_default()
    }

    /// Packets that wait.
    pub(super) fn waiting(&self) -> u64 {
        let waiting = self.paths.iter().map(|path| path.queue.total().packets);
        waiting.map(u64::from).sum()
    }

    /// Queues a packet, or destroys it if its class's policer or queue doesn't take it.
    pub(super) fn enqueue<L: Link + ?Sized>(
        &mut self,
        link: &mut L,
        now: Instant,
        mut packet: Packet,
        ledger: &mut Ledger,
    ) {
        // Packets that are too old take no place, whether or not a pull found them before: an
        // unsuccessful pull must leave no trace.
        link.discard(self, now, ledger);
        if !self.polices(link, now, &mut packet, ledger) {
            return ledger.drop(now, packet, DropCause::Policed);
        }
        if self.absorbs(link, &packet) {
            self.paths.to_mut(packet.to).queue.renew(&mut packet);
            link.renew(&packet);
            ledger.close(now, packet, Fate::Absorbed);
            return;
        }
        if link.overflows(&packet) {
            self.give_up(link, now, packet.to, DropCause::QueueOctets, ledger);
        }
        count(link, ledger, &packet, 1);
        let to = packet.to;
        if let Err(refused) = self.paths.to_mut(to).queue.enqueue(now, packet) {
            let (packet, fate) = refused;
            count(link, ledger, &packet, -1);
            if fate == Fate::Absorbed {
                link.renew(&packet);
            }
            ledger.close(now, packet, fate);
        }
        // Others may have made room for it.
        link.discard(self, now, ledger);
        link.queued(self, now, to, ledger);
    }

    /// Whether the class's policer lets the packet in, perhaps with another code point or class.
    fn polices<L: Link + ?Sized>(
        &mut self,
        link: &L,
        now: Instant,
        packet: &mut Packet,
        ledger: &mut Ledger,
    ) -> bool {
        let (to, class) = (packet.to, packet.class);
        let path = self.paths.to(to);
        let congested = path.policers.asks_for_congestion(class) && link.is_congested(self, to);
        let policers = &mut self.paths.to_mut(to).policers;
        let Some((colour, passes)) = policers.judge(now, congested, packet) else {
            return true;
        };
        if let Some(class) = ledger.stats_mut().classes.get_mut(class.index()) {
            class.colours[colour as usize] += 1;
        }
        passes
    }

    /// Whether the packet being sent contains all of this one. The queue asks the same of the
    /// waiting ones.
    fn absorbs<L: Link + ?Sized>(&self, link: &L, packet: &Packet) -> bool {
        let class = self.classes.get(packet.class.index());
        class.is_some_and(|class| {
            let such = |leaving: &Packet| repeats(packet, leaving);
            class.absorbs_repeats && link.any_leaving(packet.to, class.stream, &such)
        })
    }

    /// Gives the packets that aren't to be sent any more their fates, and says whether there were
    /// any.
    pub(super) fn discard<L: Link + ?Sized>(
        &mut self,
        link: &mut L,
        now: Instant,
        ledger: &mut Ledger,
    ) -> bool {
        let mut any = false;
        while let Some((packet, fate)) = self.paths.discard(now) {
            count(link, ledger, &packet, -1);
            if let Fate::Dropped(cause) = fate {
                ledger.drop(now, packet, cause);
            } else {
                let bytes = ledger.close(now, packet, fate);
                ledger.keep_spare(bytes);
            }
            any = true;
        }
        any
    }

    /// Drops all that waits for a neighbour.
    pub(super) fn give_up<L: Link + ?Sized>(
        &mut self,
        link: &mut L,
        now: Instant,
        to: NeighbourId,
        cause: DropCause,
        ledger: &mut Ledger,
    ) {
        while let Some(packet) = self.paths.first.queue.drain_to(now, to) {
            count(link, ledger, &packet, -1);
            ledger.drop(now, packet, cause);
        }
    }

    /// Drops the link's packets.
    pub(super) fn abandon<L: Link + ?Sized>(
        &mut self,
        link: &mut L,
        now: Instant,
        cause: DropCause,
        ledger: &mut Ledger,
    ) {
        for packet in link.abandon(now) {
            ledger.drop(now, packet, cause);
        }
        for class in 0..self.classes.len() {
            for path in self.paths.iter_mut() {
                path.queue
                    .set_under_way(ClassId(class as u8), NeighbourId::PEER, 0);
            }
        }
    }

    /// Takes out any packet that waits.
    pub(super) fn drain<L: Link + ?Sized>(
        &mut self,
        link: &mut L,
        ledger: &mut Ledger,
    ) -> Option<Packet> {
        let packet = self.paths.iter_mut().find_map(|path| path.queue.drain())?;
        count(link, ledger, &packet, -1);
        Some(packet)
    }

    /// The next packet.
    pub(super) fn head<L: Link + ?Sized>(&self, link: &L) -> Option<Head> {
        self.head_to(link, Neighbours::ALL)
    }

    /// Takes the head packet out of the queue, or the one behind it if the queue gives it up.
    /// `None` if that is longer than `octets_max`.
    pub(super) fn take<L: Link + ?Sized>(
        &mut self,
        link: &mut L,
        now: Instant,
        mut head: Head,
        octets_max: usize,
        ledger: &mut Ledger,
    ) -> Option<Packet> {
        while head.octets as usize <= octets_max {
            if let Some(packet) = self.paths.to_mut(head.to).queue.take(now, head) {
                self.yields.leaves(packet.to, packet.onward);
                count(link, ledger, &packet, -1);
                return Some(packet);
            }
            if !link.discard(self, now, ledger) {
                return None;
            }
            let (class, to) = (head.class, head.to);
            let next = self.paths.to(to).queue.head(&Open(self, link));
            head = next.filter(|next| (next.class, next.to) == (class, to))?;
        }
        None
    }

    /// When it needs a wake-up without an input, and why; `expires` is when the link gives
    /// something up.
    pub(super) fn wake<L: Link + ?Sized>(&self, link: &L) -> Option<Wake> {
        let wake = |at: Option<Instant>, why| at.map(|at| Wake { at, why });
        let ages = self.paths.iter().filter_map(|path| path.queue.wake());
        let age = wake(
            link.expires().into_iter().chain(ages).min(),
            WakeReason::Age,
        );
        // While it is down, nothing could leave.
        let up = || self.paths.iter().filter(|_| self.state.is_some());
        let open = Open(self, link);
        let starts = up().filter_map(|path| path.queue.starts(&open)).min();
        let shaper = wake(starts, WakeReason::Shaper);
        let rests = up().filter_map(|path| {
            let until = path.rests_until?;
            let head = path.queue.head(&open)?;
            (!self.goes_whole(head)).then_some(until)
        });
        let rest = wake(rests.min(), WakeReason::Gap);
        let yields = wake(self.yields.wake(), WakeReason::Shaper);
        age.into_iter()
            .chain(shaper)
            .chain(rest)
            .chain(yields)
            .min_by_key(|it| it.at)
    }

    /// Its links take so many octets in a round trip, or before them others do: limits of elastic
    /// traffic follow.
    pub(in crate::gateway) fn set_trip_octets(&mut self, octets: u64) {
        if core::mem::replace(&mut self.trip_octets, octets) == octets {
            return;
        }
        for class in &mut self.classes {
            class.limits = class.own.over(octets);
        }
        for path in self.paths.iter_mut() {
            path.queue.set_trip_octets(octets);
        }
    }

    /// Octets and packets of a class for a neighbour beyond which no more are to come, as shares of
    /// its limits; or packets as set.
    fn fills(&self, to: NeighbourId, class: ClassId, depth: Depth, share: u64) -> bool {
        // Packets for a host side that is down block no others: nothing joins them.
        if self.is_host && self.state.is_none() {
            return false;
        }
        let queued = self.paths.to(to).queue.queued(class);
        let Some(treatment) = self.classes.get(class.index()) else {
            return true;
        };
        let octets = match depth {
            Depth::Octets(octets) => octets,
            Depth::Packets(packets) => {
                return queued.packets >= packets.min(treatment.limits.packets).max(1);
            }
        };
        let octets = octets.min(treatment.limits.octets / 4 * share);
        let packets = u64::from(treatment.limits.packets) * share / 4;
        // Nothing is never too much.
        queued.octets >= octets.max(1) || u64::from(queued.packets) >= packets.max(1)
    }

    /// Whether so much of a class waits for a neighbour that its senders are to stop; less is
    /// enough to let a stopped one go on.
    ///
    /// A sender whose flows have less waiting than others' continues until twice as much waits:
    /// flows have equal shares only while each has waiting packets.
    pub(in crate::gateway) fn stops(
        &self,
        out: Outlet,
        depth: Depth,
        from: Hop,
        stopped: bool,
    ) -> bool {
        let (to, class) = (out.way.to, out.class);
        let Depth::Octets(octets) = depth else {
            return self.fills(to, class, depth, 1);
        };
        let least = if stopped { octets / 2 } else { octets };
        let has_share = || {
            self.paths
                .to(to)
                .queue
                .has_share(class, (from.port, from.to))
        };
        self.fills(to, class, Depth::Octets(least), 1)
            && (has_share() || self.fills(to, class, Depth::Octets(octets.saturating_mul(2)), 2))
    }

    /// Whether no more of a class for a neighbour is accepted from another, stopped or not: too
    /// much of it waits, or more than a little and there is no more room for all.
    pub(in crate::gateway) fn refuses(&self, out: Outlet, depths: Depths, is_full: bool) -> bool {
        let (to, class) = (out.way.to, out.class);
        self.fills(to, class, depths.most, 3) || (is_full && self.fills(to, class, depths.least, 1))
    }
}

/// The next packet, in the driver's form.
pub(super) fn want(head: Head) -> Want {
    Want {
        class: head.class,
        octets: head.octets,
        to: head.to,
    }
}

fn burst(header_octets: usize) -> Burst {
    Burst::new(RATE_UNKNOWN, Instant::ZERO).with_headers(header_octets as u64)
}

/// The scheduler's knowledge of a port.
fn site(id: PortId, mtu: usize, seed: u64) -> Site {
    Site {
        mtu_octets: mtu as u32,
        seed: hash64(seed, &[id.0]),
        ..Site::default()
    }
}

/// The available neighbours, by the link.
pub(super) struct Open<'a, L: ?Sized>(pub(super) &'a Queue, pub(super) &'a L);

impl<L: Link + ?Sized> Eligibility for Open<'_, L> {
    fn eligible(&self, to: NeighbourId, class: ClassId) -> bool {
        let Self(queue, link) = self;
        let treatment = queue.classes.get(class.index());
        treatment.is_some_and(|it| {
            let waits = queue.is_away(to) || queue.yields.waits(to);
            !waits && link.eligible(queue, to, class, it)
        })
    }
}

/// Counts a packet that enters the queue (1) or leaves it (-1): for the link, and by class over all
/// ports.
fn count<L: Link + ?Sized>(link: &mut L, ledger: &mut Ledger, packet: &Packet, packets: i64) {
    link.count(packet, packets as isize);
    if let Some(class) = ledger.stats_mut().classes.get_mut(packet.class.index()) {
        let octets = packets * packet.octets() as i64;
        class.queued_packets = class.queued_packets.saturating_add_signed(packets);
        class.queued_octets = class.queued_octets.saturating_add_signed(octets);
    }
}
