//! One port of a gateway: its queue, its link, and what the medium said of itself.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::node::{Owner, PortState, Ticket, TxMeta, Want};
use strait_core::rate::{Burst, LineRate};
use strait_core::stats::Agreement;
use strait_core::{
    ClassId, DropCause, Duration, Effect, Fate, Instant, NeighbourId, Neighbours, Packet, PortId,
    Room, Wake, WakeReason,
};
use strait_link::{FrameSender, LinkSettings, OctetSender, Receiver, Refused, STREAMS};
use strait_qos::{Class, Eligibility, Head, Policy, Scheduler, Site, Tree, repeats};
use strait_wire::hash::hash64;
use strait_wire::ip::Chatter;

use self::hop::Hops;
use super::headers::Headers;
use super::lan::Lan;
use crate::config::{
    AdmissionConfig, ChatterKind, Compression, HostConfig, LinkProfile, PortConfig, PortKind,
};

mod ethernet;
mod frames;
mod gaps;
mod hf;
mod hf_client;
mod hop;
mod ip_client;
mod link;
mod neighbours;
mod octets;
mod path;

pub(crate) use self::gaps::Told;
use self::hf::Hf;
use self::hf_client::HfClient;
use self::ip_client::IpClient;
use self::link::Link;
use self::path::{Path, Paths};

/// How a port carries the packets of a class.
#[derive(Clone, Copy, Debug)]
struct Treatment {
    /// Which stream of the link it uses, possibly with others.
    stream: usize,
    /// Strict rank: what has a lower one goes first.
    rank: u8,
    /// It has the first rank: nothing goes before its packets, so cutting them would only cost
    /// octets.
    whole: bool,
    /// It leaves out what repeats a packet that hasn't left yet.
    absorbs_repeats: bool,
    /// Packets that may wait.
    packets_max: u32,
    /// Octets that may wait.
    octets_max: u64,
    /// How long one may wait.
    age: Option<Duration>,
}

impl Treatment {
    fn of(class: &Class) -> Self {
        Self {
            stream: usize::from(class.stream) % STREAMS,
            rank: class.rank,
            whole: class.rank == 0,
            absorbs_repeats: class.queue.absorbs_repeats(),
            packets_max: class.packets,
            octets_max: class.octets.unwrap_or(u64::MAX),
            age: class.age,
        }
    }
}

/// A port of a gateway. Each packet meets most of it, so what is large and rarely asked lies
/// elsewhere.
#[derive(Debug)]
pub(crate) struct Port {
    pub(super) id: PortId,
    config: Option<Box<PortConfig>>,
    /// The largest packet in octets.
    pub(crate) mtu: usize,
    /// What the medium offers; `None` while the port is down.
    state: Option<PortState>,
    /// Neighbours that the medium says aren't there; no others than those configured.
    away: BTreeSet<NeighbourId>,
    /// How what it sends leaves.
    paths: Paths,
    /// By neighbour, the rate that the medium has told of, if it is another one for each.
    rates: Vec<Option<LineRate>>,
    /// By class.
    classes: Vec<Treatment>,
    /// The best class behind the first rank, if there is one: then what has the first rank is
    /// real-time.
    behind: Option<ClassId>,
    link: Link,
    headers: Headers,
    /// The profile leaves gaps for the packets of calls.
    foresees: bool,
    /// Unmarked calls are looked for.
    observes: bool,
    /// Which calls its line takes.
    admission: AdmissionConfig,
    compresses: bool,
    /// The longest piece of a packet, in octets, at the rate that was asked for last.
    longest: Option<(LineRate, usize)>,
    /// Transmissions so far: the number of the last one.
    transmissions: u64,
}

/// The class that notes between the ends of a link go by: they are few and short, and sent when no
/// packet waits that could take them along.
const NOTE_CLASS: ClassId = ClassId(0);

/// A rate for the moment before the medium has named its own.
const RATE_UNKNOWN: LineRate = LineRate::new(9600, 8);

impl Port {
    /// A host side, perhaps on an Ethernet.
    pub(crate) fn host(
        id: PortId,
        side: &HostConfig,
        lan: Option<Box<Lan>>,
        policy: &Policy,
        seed: u64,
    ) -> Self {
        let mtu = side.mtu.0 as usize;
        // Nothing is narrow behind it: limits are for links.
        let queue = Tree::unlimited(policy, site(id, mtu, seed));
        let queues = core::iter::once(queue);
        Self::new(
            id,
            None,
            mtu,
            (Link::Host(lan), Headers::default()),
            queues,
            policy,
        )
    }

    /// A link port as configured.
    pub(crate) fn link(id: PortId, config: &PortConfig, policy: &Policy, seed: u64) -> Self {
        let settings = config.link_settings(config.line_rate());
        let link = match config.kind {
            _ if config.profile == LinkProfile::Hbh => {
                let seed = hash64(seed, &[id.0]);
                Link::Hops(Box::new(Hops::new(config, policy, seed)))
            }
            _ if config.profile == LinkProfile::Ip => Link::Host(None),
            PortKind::Serial => Link::Octets(Box::new((
                OctetSender::new(settings),
                Receiver::new(settings),
            ))),
            PortKind::Udp | PortKind::Ip | PortKind::Kiss => Link::Frames {
                neighbours: (0..config.neighbours.len().max(1))
                    .map(|_| (FrameSender::new(settings), Receiver::new(settings)))
                    .collect(),
                frame_octets_max: config.frame_octets_max(),
            },
            PortKind::Hf => match Hf::new(config, policy, hash64(seed, &[id.0])) {
                Some(hf) => Link::Hf(Box::new(hf)),
                None => unreachable!("a port of kind hf has been checked for its station"),
            },
            PortKind::HfClient => Link::Client(Box::new(HfClient::new(id, config, policy))),
        };
        let mtu = config.mtu_octets();
        let queue = |_| Tree::new(policy, site(id, mtu, seed));
        let queues = (0..config.ways().max(1)).map(queue);
        let incarnation = hash64(seed, &[id.0]) as u32;
        let real_time = policy.classes().iter().map(Treatment::of);
        let real_time = real_time.filter(|it| it.whole).map(|it| 1 << it.stream);
        let real_time = real_time.fold(0, |streams, stream: u8| streams | stream);
        let neighbours = link.neighbours();
        let headers = Headers::new(config, neighbours, real_time, incarnation);
        Self::new(
            id,
            Some(Box::new(config.clone())),
            mtu,
            (link, headers),
            queues,
            policy,
        )
    }

    fn new(
        id: PortId,
        config: Option<Box<PortConfig>>,
        mtu: usize,
        (link, headers): (Link, Headers),
        queues: impl Iterator<Item = Tree>,
        policy: &Policy,
    ) -> Self {
        let header_octets = config.as_ref().map_or(0, |it| it.header_octets());
        let burst = Burst::new(RATE_UNKNOWN, Instant::ZERO).with_headers(header_octets as u64);
        let tells = |config: &PortConfig| {
            foresees(config) || policy.observed().is_some() && observes(config)
        };
        let tells_flows = config.as_deref().is_some_and(tells);
        let paths = queues.map(|queue| Path::new(queue, burst, tells_flows, policy));
        let admission = config.as_ref().and_then(|it| it.admission.clone());
        Self {
            id,
            mtu,
            state: None,
            away: BTreeSet::new(),
            observes: config.as_deref().is_some_and(observes),
            foresees: config.as_deref().is_some_and(foresees),
            admission: admission.unwrap_or_default(),
            compresses: config
                .as_ref()
                .is_some_and(|it| it.compression != Compression::None),
            longest: None,
            config,
            classes: policy.classes().iter().map(Treatment::of).collect(),
            behind: behind(policy.classes()),
            paths: Paths::new(paths),
            rates: Vec::new(),
            link,
            headers,
            transmissions: 0,
        }
    }

    /// Key and value that are to go to stable storage.
    pub(crate) fn take_store(&mut self, now: Instant) -> Option<(Vec<u8>, Vec<u8>)> {
        self.headers.take_store(now)
    }

    /// Asks for what is stored of what its links remember, where storage has the key.
    pub(crate) fn load(&mut self, is_stored: impl Fn(&[u8]) -> bool) -> Vec<Effect> {
        let owner = Owner::port(self.id);
        let memories = self.headers.memories();
        let memories = memories.filter(|memory| is_stored(memory.key()));
        let loads = memories.zip(0..);
        loads
            .map(|(memory, n)| memory.load(Ticket { owner, n }))
            .collect()
    }

    /// What was stored has come.
    pub(crate) fn loaded(&mut self, ticket: Ticket, value: &[u8]) {
        self.headers.loaded(ticket, value);
    }

    /// The room for a note between the ends, with the segment around it.
    fn note_room(&self) -> usize {
        FrameSender::ROOM_MIN + self.headers.note_octets_max()
    }

    /// Whether somebody is at the other end under this number.
    pub(crate) fn has_neighbour(&self, to: NeighbourId) -> bool {
        match &self.link {
            Link::Host(_) | Link::Octets(_) => to == NeighbourId::PEER,
            Link::Frames { .. } | Link::Hops(_) | Link::Hf(_) | Link::Client(_) => {
                let carries = self.config().is_none_or(PortConfig::carries_packets);
                carries && to.index() < self.link.neighbours()
            }
        }
    }

    /// How it was configured; the host side has nothing of the kind.
    pub(super) fn config(&self) -> Option<&PortConfig> {
        self.config.as_deref()
    }

    /// Whether this kind of background chatter may cross.
    pub(crate) fn passes(&self, kind: Chatter) -> bool {
        let config = self.config();
        config.is_none_or(|config| config.pass_chatter.contains(&ChatterKind(kind)))
    }

    /// The largest segment size a TCP connection over this port may announce, by IP version.
    pub(crate) fn mss_max(&self, v6: bool) -> Option<u16> {
        let clamp = self.config.as_ref().is_none_or(|config| config.clamp_mss);
        let headers = if v6 { 60 } else { 40 };
        clamp.then(|| u16::try_from(self.mtu - headers).unwrap_or(u16::MAX))
    }

    /// Takes note of what the medium offers. A change of rate changes how later segments are cut.
    pub(crate) fn set_up(&mut self, now: Instant, state: PortState) {
        self.state = Some(state);
        self.settle_rates();
        self.settle_link();
        if let (Link::Hops(hops), Some(config)) = (&mut self.link, &self.config) {
            let most = hops.packet_octets_max(state.frame_octets_max as usize);
            self.mtu = (config.mtu.0 as usize).min(most);
            hops.set_up(now, |to| !self.away.contains(&to));
        }
        if let Link::Hf(hf) = &mut self.link {
            hf.set_up(now, state);
        }
    }

    /// Cuts and checks by each neighbour's rate and by what is agreed with it.
    fn settle_link(&mut self) {
        let Some(config) = &self.config else {
            return;
        };
        let common = self.state.map(|state| state.tx_rate);
        let common = common.or_else(|| config.line_rate());
        let rates = &self.rates;
        let with = |number: usize| {
            let rate = rates.get(number).copied().flatten().or(common);
            let settings = config.link_settings(rate);
            let agreed = self.headers.agreed(NeighbourId(number as u16));
            agreed.map_or((settings, 0, None), |agreed| {
                let settings = LinkSettings {
                    short: agreed.short_sent,
                    urgent: agreed.urgent_sent,
                    ..settings
                };
                (settings, agreed.short_taken, agreed.urgent_taken)
            })
        };
        match &mut self.link {
            Link::Host(_) | Link::Hops(_) | Link::Hf(_) | Link::Client(_) => {}
            Link::Octets(ends) => {
                let (settings, short, urgent) = with(0);
                ends.0.set_settings(settings);
                ends.1.set_checks(short, urgent);
            }
            Link::Frames { neighbours, .. } => {
                for (number, (sender, receiver)) in neighbours.iter_mut().enumerate() {
                    let (settings, short, urgent) = with(number);
                    sender.set_settings(settings);
                    receiver.set_checks(short, urgent);
                }
            }
        }
    }

    /// What is agreed with the other end.
    pub(crate) const fn agreement(&self) -> Agreement {
        self.headers.agreement()
    }

    /// The medium is gone. Packets that had begun to leave are lost; those that wait go on waiting.
    pub(crate) fn set_down(&mut self, now: Instant, ledger: &mut Ledger) {
        self.state = None;
        if let Link::Hops(hops) = &mut self.link {
            return hops.set_down();
        }
        self.headers.reset();
        self.abandon(now, DropCause::PortDown, ledger);
        match &mut self.link {
            Link::Host(_) | Link::Hops(_) | Link::Hf(_) | Link::Client(_) => {}
            Link::Octets(ends) => ends.1.reset(),
            Link::Frames { neighbours, .. } => {
                neighbours
                    .iter_mut()
                    .for_each(|(_, receiver)| receiver.reset());
            }
        }
    }

    fn abandon(&mut self, now: Instant, cause: DropCause, ledger: &mut Ledger) {
        let mut drop = |packet: Packet| ledger.drop(now, packet, cause);
        match &mut self.link {
            Link::Host(lan) => lan
                .iter_mut()
                .flat_map(|lan| lan.clear())
                .for_each(&mut drop),
            Link::Octets(ends) => ends.0.abandon().for_each(&mut drop),
            Link::Frames { neighbours, .. } => {
                neighbours
                    .iter_mut()
                    .flat_map(|(sender, _)| sender.abandon())
                    .for_each(&mut drop);
            }
            Link::Hops(hops) => hops.take_all().into_iter().for_each(&mut drop),
            Link::Hf(hf) => hf.set_down(now).into_iter().for_each(&mut drop),
            Link::Client(client) => client.take_all().into_iter().for_each(&mut drop),
        }
        for class in 0..self.classes.len() {
            for path in self.paths.iter_mut() {
                path.queue
                    .set_under_way(ClassId(class as u8), NeighbourId::PEER, 0);
            }
        }
    }

    /// Gives every packet that the port holds its fate.
    pub(crate) fn clear(&mut self, now: Instant, cause: DropCause, ledger: &mut Ledger) {
        self.abandon(now, cause, ledger);
        while let Some(packet) = self.paths.iter_mut().find_map(|path| path.queue.drain()) {
            self.link.count_waiting(&packet, -1);
            count_queued(ledger, &packet, -1);
            ledger.drop(now, packet, cause);
        }
    }

    /// Queues a packet once its station is known, where there are stations; see
    /// [`Port::enqueue_resolved`].
    pub(crate) fn enqueue(&mut self, now: Instant, packet: Packet, ledger: &mut Ledger) {
        if let Some(packet) = self.resolve(now, packet, ledger) {
            self.enqueue_resolved(now, packet, ledger);
        }
    }

    /// Queues a packet, or destroys it if its class's policer or queue doesn't take it.
    pub(super) fn enqueue_resolved(
        &mut self,
        now: Instant,
        mut packet: Packet,
        ledger: &mut Ledger,
    ) {
        // What is too old takes no place, whether or not a pull found it before: a pull that is
        // answered by nothing must leave no trace.
        self.discard(now, ledger);
        if !self.polices(now, &mut packet, ledger) {
            return ledger.drop(now, packet, DropCause::Policed);
        }
        if self.absorbs(&packet) {
            ledger.close(now, packet, Fate::Absorbed);
            return;
        }
        if self
            .link
            .ip_client()
            .is_some_and(|ip| ip.overflows(&packet))
        {
            self.give_up_queue(now, packet.to, DropCause::QueueOctets, ledger);
        }
        self.link.count_waiting(&packet, 1);
        count_queued(ledger, &packet, 1);
        let to = packet.to;
        if let Err(refused) = self.paths.to_mut(to).queue.enqueue(now, packet) {
            let (packet, fate) = refused;
            self.link.count_waiting(&packet, -1);
            count_queued(ledger, &packet, -1);
            ledger.close(now, packet, fate);
        }
        // Others may have made room for it.
        self.discard(now, ledger);
        if let Link::Hf(hf) = &mut self.link {
            hf.look(now);
        }
        self.plan_rest(now.max(self.paths.to(to).burst.end()), to, ledger);
    }

    /// Whether the class's policer lets the packet in, perhaps with another code point.
    fn polices(&mut self, now: Instant, packet: &mut Packet, ledger: &mut Ledger) -> bool {
        let to = packet.to;
        let asks = |port: &Self| port.paths.to(to).policers.asks_for_congestion(packet.class);
        let congested = asks(self) && self.is_congested(to);
        let policers = &mut self.paths.to_mut(to).policers;
        let Some((colour, passes)) = policers.judge(now, congested, packet) else {
            return true;
        };
        if let Some(class) = ledger.stats_mut().classes.get_mut(packet.class.index()) {
            class.colours[colour as usize] += 1;
        }
        passes
    }

    /// Whether the packet that is leaving says all that this one says. The queue asks the same of
    /// those that wait.
    fn absorbs(&self, packet: &Packet) -> bool {
        let class = self.classes.get(packet.class.index());
        let Some(class) = class.filter(|class| class.absorbs_repeats) else {
            return false;
        };
        let repeats = |leaving: &Packet| repeats(packet, leaving);
        match &self.link {
            Link::Hops(hops) => hops.any_sent(packet.to, repeats),
            link => link.under_way(packet.to, class.stream).is_some_and(repeats),
        }
    }

    /// Gives the packets that aren't to go any more their fates, and says whether there were any.
    pub(crate) fn discard(&mut self, now: Instant, ledger: &mut Ledger) -> bool {
        let mut any = false;
        while let Some(to) = self.too_old(now) {
            self.give_up_queue(now, to, DropCause::Aged, ledger);
            any = true;
        }
        if let Link::Hf(hf) = &mut self.link
            && hf.give_up_unanswered(now)
        {
            self.end_stays(now, ledger);
            any = true;
        }
        while let Some((packet, fate)) = self.paths.discard(now) {
            self.link.count_waiting(&packet, -1);
            count_queued(ledger, &packet, -1);
            let bytes = ledger.close(now, packet, fate);
            ledger.keep_spare(bytes);
            any = true;
        }
        any
    }

    /// The neighbour whose whole queue is too old to be of use.
    fn too_old(&self, now: Instant) -> Option<NeighbourId> {
        let (at, to) = self.link.ip_client()?.expires()?;
        (at <= now).then_some(to)
    }

    /// Whether the port has nothing to do, to send or to give up before something comes to it,
    /// whatever the time.
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.link, Link::Host(None) | Link::Frames { .. })
            && self.paths.are_at_rest()
            && !self.owes_word()
    }

    /// Whether a neighbour waits for a word from it.
    pub(crate) fn owes_word(&self) -> bool {
        self.headers.owed(|_| true).is_some()
    }

    /// Whether applications are behind it.
    pub(crate) const fn is_host(&self) -> bool {
        matches!(self.link, Link::Host(_)) && self.config.is_none()
    }

    /// Whether it has streams to a station's clients, or to a station.
    pub(crate) const fn has_streams(&self) -> bool {
        matches!(self.link, Link::Hf(_) | Link::Client(_))
    }

    /// The port's limits go by this time from now on.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.paths.advance(now);
        if let Link::Hops(hops) = &mut self.link {
            hops.advance(now);
        }
        match &mut self.link {
            Link::Hf(hf) => hf.advance(now),
            Link::Client(client) => client.advance(now),
            _ => {}
        }
    }

    /// When the port has something to do by itself, and why.
    pub(crate) fn wake(&self) -> Option<Wake> {
        let wake = |at: Option<Instant>, why| at.map(|at| Wake { at, why });
        let whole = self.link.ip_client().and_then(IpClient::expires);
        let handed = match &self.link {
            Link::Hf(hf) => hf.handed_expires(),
            _ => None,
        };
        let whole = whole.into_iter().chain(handed).map(|(at, _)| at);
        let ages = whole.chain(self.paths.iter().filter_map(|path| path.queue.wake()));
        let age = wake(ages.min(), WakeReason::Age);
        // While it is down, nothing could leave.
        let up = || self.paths.iter().filter(|_| self.state.is_some());
        let starts = up().filter_map(|path| path.queue.starts(self)).min();
        let shaper = wake(starts, WakeReason::Shaper);
        let rests = up().filter_map(|path| {
            let until = path.rests_until?;
            let head = path.queue.head(self)?;
            (!self.goes_whole(head)).then_some(until)
        });
        let rest = wake(rests.min(), WakeReason::Gap);
        let hops = match &self.link {
            Link::Hops(hops) => hops.wake(),
            _ => None,
        };
        let hf = match &self.link {
            Link::Hf(hf) => hf.wake(),
            Link::Client(client) => client.wake(),
            _ => None,
        };
        let local = wake(self.lan().and_then(Lan::wake), WakeReason::Local);
        let wakes = age
            .into_iter()
            .chain(shaper)
            .chain(rest)
            .chain(local)
            .chain(hops)
            .chain(hf);
        wakes.min_by_key(|wake| wake.at)
    }

    /// Packets that the port holds.
    pub(crate) fn held(&self) -> u64 {
        let under_way = match &self.link {
            Link::Host(lan) => lan.as_ref().map_or(0, |lan| lan.held()),
            Link::Octets(ends) => ends.0.held(),
            Link::Frames { neighbours, .. } => {
                neighbours.iter().map(|(sender, _)| sender.held()).sum()
            }
            Link::Hops(hops) => hops.held(),
            Link::Hf(hf) => hf.held(),
            Link::Client(client) => client.held(),
        };
        let waiting = self.paths.iter().map(|path| path.queue.total().packets);
        under_way as u64 + waiting.map(u64::from).sum::<u64>()
    }

    /// Asserts the invariants of the queue, the flows and the station's clients.
    pub(crate) fn check(&self) {
        self.paths.iter().for_each(Path::check);
        if let Link::Hf(hf) = &self.link {
            hf.check_clients();
        }
    }

    /// Takes received octets; `tell` gets each whole packet.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        from: NeighbourId,
        bytes: &[u8],
        ledger: &mut Ledger,
        mut tell: impl FnMut(&mut Ledger, &[u8]),
    ) {
        let mut refused = [0u64; 4];
        let mut undecompressed = 0;
        let headers = &mut self.headers;
        let mut sort = |outcome: Result<&[u8], Refused>| match outcome {
            Ok(carried) => {
                let whole = headers.restore(now, from, carried, |packet| tell(ledger, packet));
                undecompressed += u64::from(!whole);
            }
            Err(why) => refused[why as usize] += 1,
        };
        let (mut stranger, mut unread) = (false, false);
        match &mut self.link {
            Link::Host(_) => sort(Ok(bytes)),
            Link::Octets(ends) => {
                unread = ends.1.misses_urgent(bytes);
                ends.1.feed_octets(bytes, sort);
            }
            Link::Frames { neighbours, .. } => match neighbours.get_mut(from.index()) {
                Some((_, receiver)) => receiver.feed_frame(bytes, sort),
                None => stranger = true,
            },
            // Its frames are read by `hear_hop`.
            Link::Hops(_) => {}
            // Read by `hear_hf` and `hear_access`.
            Link::Hf(_) | Link::Client(_) => {}
        }
        if refused[Refused::Unagreed as usize] > 0 {
            self.headers.object(now, from);
        } else if unread || refused.iter().any(|count| *count > 0) {
            self.headers.wonder(now, from);
        }
        let heard = self.headers.take_heard();
        if heard {
            self.settle_link();
            if let Some(config) = &self.config {
                self.mtu = self.headers.mtu(config.mtu.0 as usize);
            }
        }
        let stats = &mut ledger.stats_mut().ports[self.id.index()];
        stats.frames_in += 1;
        stats.octets_in += bytes.len() as u64;
        stats.damaged += refused[Refused::Damaged as usize];
        stats.invalid += refused[Refused::Invalid as usize];
        stats.incomplete += refused[Refused::Incomplete as usize];
        stats.undecompressed += undecompressed + refused[Refused::Unagreed as usize];
        stats.strangers += u64::from(stranger);
        if heard {
            stats.agreement = self.agreement();
        }
        if let Link::Octets(ends) = &self.link {
            let came = ends.1.urgent();
            stats.urgent.frames_in = came.frames;
            stats.urgent.damaged = came.damaged;
            stats.urgent.resumed = came.resumed;
        }
    }

    fn head(&self) -> Option<Head> {
        self.head_to(Neighbours::ALL)
    }

    /// What the port would send first.
    pub(crate) fn wants(&self) -> Option<Want> {
        self.state?;
        match self.link {
            Link::Hf(_) => return self.wants_hf(),
            // Its medium is a stream.
            Link::Client(_) => return None,
            _ => {}
        }
        if let Link::Octets(ends) = &self.link
            && let Some((class, octets)) = ends.0.leaving()
        {
            return Some(Want {
                class,
                octets: octets as u32,
                to: NeighbourId::PEER,
            });
        }
        if let Some(octets) = self.lan().and_then(|lan| lan.station.wants()) {
            return Some(Want {
                class: NOTE_CLASS,
                octets: octets as u32,
                to: NeighbourId::PEER,
            });
        }
        let header = self.header_octets() as u32;
        let head = self.head().map(|head| Want {
            class: head.class,
            octets: head.octets + header,
            to: head.to,
        });
        head.or_else(|| self.wants_hop()).or_else(|| {
            Some(Want {
                class: NOTE_CLASS,
                octets: self.note_room() as u32,
                to: self.note_to(Neighbours::ALL)?,
            })
        })
    }

    /// Octets of an urgent frame that is leaving: nothing is more urgent than that.
    pub(crate) fn committed_octets(&self) -> usize {
        match &self.link {
            Link::Octets(ends) => ends.0.urgent_octets(),
            _ => 0,
        }
    }

    /// Fills `room`; see [`strait_core::Node::poll_transmit`].
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        self.state?;
        self.discard(now, ledger);
        let idle_from = self.paths.end();
        let before = out.len();
        let meta = match self.link {
            Link::Host(_) => self.pull_packet(now, room, out, ledger),
            Link::Octets(_) => self.pull_octets(now, room, out, ledger),
            Link::Frames { .. } => self.pull_frame(now, room, out, ledger),
            Link::Hops(_) => self.pull_hop(now, room, out, ledger),
            Link::Hf(_) => self.pull_hf(now, room, out, ledger),
            Link::Client(_) => None,
        };
        let mut meta = meta?;
        self.transmissions += 1;
        meta.id = strait_core::id::TxId(self.transmissions);
        let stats = &mut ledger.stats_mut().ports[self.id.index()];
        let octets = (out.len() - before) as u64;
        stats.octets_out += octets;
        if let Some(neighbour) = stats.neighbours.get_mut(meta.to.index()) {
            neighbour.octets_out += octets;
        }
        let busy = self.paths.end().since(idle_from.max(room.starts));
        stats.busy_ns += busy.as_nanos() as u64;
        Some(meta)
    }

    /// Takes the head packet out of the queue, or the one behind it if the queue gives it up.
    /// `None` if that is longer than `octets_max`.
    fn take(
        &mut self,
        now: Instant,
        mut head: Head,
        octets_max: usize,
        ledger: &mut Ledger,
    ) -> Option<Packet> {
        while head.octets as usize <= octets_max {
            if let Some(packet) = self.paths.to_mut(head.to).queue.take(now, head) {
                self.link.count_waiting(&packet, -1);
                count_queued(ledger, &packet, -1);
                return Some(packet);
            }
            if !self.discard(now, ledger) {
                return None;
            }
            let (class, to) = (head.class, head.to);
            let next = self.paths.to(to).queue.head(self);
            head = next.filter(|next| (next.class, next.to) == (class, to))?;
        }
        None
    }

    fn pull_packet(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        if let Some(meta) = self.pull_word(room, out, ledger) {
            return Some(meta);
        }
        let header = self.header_octets();
        let octets_max = room.octets.checked_sub(header)?;
        let head = self
            .head()
            .filter(|head| head.octets as usize <= octets_max)?;
        let mut packet = self.take(now, head, octets_max, ledger)?;
        let octets = packet.info().octets;
        packet.enter(room.starts, strait_core::delay::DelayPart::Line);
        self.paths.first.queue.charge(head.class, octets);
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        if let Some(lan) = self.lan() {
            lan.put_header(packet.info().dst, out);
        }
        let ended = self
            .paths
            .first
            .burst
            .push(room.starts, u64::from(octets) + header as u64);
        let fate = match self.is_host() {
            true => Fate::Delivered(self.id),
            false => Fate::Forwarded {
                port: self.id,
                to: NeighbourId::PEER,
            },
        };
        ledger.close_into(ended, packet, fate, out);
        Some(TxMeta::to_peer(head.class))
    }
}

/// The class whose packets go right behind those of the first rank.
fn foresees(config: &PortConfig) -> bool {
    config.profile == LinkProfile::Adapter
}

/// Whether unmarked calls are looked for: not where a turn of the channel takes longer than a word
/// may.
const fn observes(config: &PortConfig) -> bool {
    matches!(config.kind, PortKind::Serial | PortKind::Udp | PortKind::Ip)
}

fn behind(classes: &[Class]) -> Option<ClassId> {
    let classes = classes.iter().enumerate();
    let others = classes.filter(|(_, class)| class.rank > 0);
    let best = others.min_by_key(|(_, class)| class.rank);
    best.map(|(index, _)| ClassId(index as u8))
}

/// Octets of a packet that goes in one piece, or of what is `carried` in its place.
fn octets_on_line(packet: &Packet, carried: Option<&[u8]>) -> usize {
    carried.map_or_else(|| packet.octets(), <[u8]>::len) + FrameSender::ROOM_MIN - 1
}

/// What its scheduler knows of a port.
fn site(id: PortId, mtu: usize, seed: u64) -> Site {
    Site {
        mtu_octets: mtu as u32,
        seed: hash64(seed, &[id.0]),
    }
}

/// Classes that share a stream have no two packets under way.
impl Eligibility for Port {
    fn eligible(&self, to: NeighbourId, class: ClassId) -> bool {
        let Some(treatment) = self.classes.get(class.index()) else {
            return false;
        };
        if self.is_away(to) {
            return false;
        }
        if let Link::Hops(hops) = &self.link {
            return hops.eligible(to, class, treatment.stream, || {
                self.paths.first.queue.front(class, to)
            });
        }
        if let Link::Hf(hf) = &self.link {
            return hf.eligible(to, class);
        }
        if let Link::Client(client) = &self.link {
            return client.eligible(to, class, self.paths.first.queue.front(class, to));
        }
        if treatment.whole && self.link.has_urgent() {
            return true;
        }
        let leaving = self.link.under_way(to, treatment.stream);
        leaving.is_none_or(|packet| packet.class == class)
    }
}

/// Keeps the gauges of what waits, by class over all ports.
fn count_queued(ledger: &mut Ledger, packet: &Packet, packets: i64) {
    if let Some(class) = ledger.stats_mut().classes.get_mut(packet.class.index()) {
        let octets = packets * packet.octets() as i64;
        class.queued_packets = class.queued_packets.saturating_add_signed(packets);
        class.queued_octets = class.queued_octets.saturating_add_signed(octets);
    }
}
