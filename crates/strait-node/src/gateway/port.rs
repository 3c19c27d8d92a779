//! One port of a gateway: a queue and a link.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::id::TxId;
use strait_core::node::{Effect, PortState, TxMeta, Want};
use strait_core::rate::LineRate;
use strait_core::{ClassId, DropCause, Duration, Instant, NeighbourId, Packet, PortId, Room, Wake};
use strait_qos::Policy;
use strait_wire::hash::hash64;

use super::lan::Lan;
use crate::config::{HostConfig, LinkProfile, Plug, PortConfig, PortKind};
use crate::route::Hop;

mod airtime;
mod calls;
mod frames;
mod gaps;
mod hf;
mod hf_client;
mod hop;
mod ip_client;
mod link;
mod octets;
mod pace;
mod packets;
mod path;
mod queue;
mod segments;
mod yields;

use self::airtime::Airtime;
pub(super) use self::calls::Told;
use self::frames::Frames;
use self::hf::Hf;
use self::hf_client::HfClient;
use self::hop::Hops;
use self::link::Link;
pub(super) use self::link::{Arrival, Frame, Onward, Outlet, Settles};
use self::octets::Octets;
use self::packets::Packets;
use self::path::Path;
use self::queue::Queue;
use self::segments::Segments;

/// The class that notes between the ends of a link go by: they are few and short, and sent when no
/// packet waits that could take them along.
const NOTE_CLASS: ClassId = ClassId(0);

/// A port of a gateway: from the beginning of a line of the processor's cache on, and what a packet
/// meets close together.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    pub(super) queue: Queue,
    pub(super) link: Box<dyn Link>,
    /// Transmissions so far: the number of the last one.
    transmissions: u64,
    /// The times of frames for each neighbour on a medium that reports them.
    airtime: Option<Box<Airtime>>,
    pub(super) id: PortId,
}

/// The link of a port, by its profile, its kind, and what carries its octets: the only place that
/// knows of each.
fn link(id: PortId, config: &PortConfig, policy: &Policy, seed: u64) -> Box<dyn Link> {
    let own_seed = hash64(seed, &[id.0]);
    if config.profile == LinkProfile::Hbh {
        return Box::new(Hops::new(config, policy, own_seed));
    }
    if config.profile == LinkProfile::Ip {
        return Box::new(Packets(None));
    }
    match (&config.kind, config.kind.plug()) {
        (PortKind::Hf(hf), _) => Box::new(Hf::new(config, hf, policy, own_seed)),
        (PortKind::HfClient(own), _) => Box::new(HfClient::new(id, config, own, policy)),
        (_, Plug::Octets) => Box::new(Octets::new(id, config, policy, seed)),
        _ => Box::new(Frames::new(id, config, policy, seed)),
    }
}

impl Port {
    /// A host side, perhaps on an Ethernet.
    pub(super) fn host(
        id: PortId,
        side: &HostConfig,
        lan: Option<Box<Lan>>,
        policy: &Policy,
        seed: u64,
    ) -> Self {
        Self {
            id,
            queue: Queue::of_host(id, side, policy, seed),
            link: Box::new(Packets(lan)),
            transmissions: 0,
            airtime: None,
        }
    }

    /// A link port as configured.
    pub(super) fn link(id: PortId, config: &PortConfig, policy: &Policy, seed: u64) -> Self {
        let link = link(id, config, policy, seed);
        let neighbours = link.neighbours();
        let tells = config.shares_air();
        Self {
            id,
            queue: Queue::of_link(id, config, neighbours, policy, seed),
            link,
            transmissions: 0,
            airtime: tells.then(Box::default),
        }
    }

    /// The port comes up: who isn't there will be told, and who has another rate.
    pub(super) fn all_there(&mut self) {
        self.queue.away.clear();
        self.queue.rates.clear();
    }

    /// Takes note of what the medium offers. A change of rate changes how later segments are cut.
    pub(super) fn set_up(&mut self, now: Instant, state: PortState) {
        self.queue.state = Some(state);
        self.queue.settle_rates();
        self.link.set_up(&mut self.queue, now, state);
    }

    /// The medium is gone.
    pub(super) fn set_down(&mut self, now: Instant, ledger: &mut Ledger) {
        self.queue.state = None;
        self.link.set_down(&mut self.queue, now, ledger);
    }

    /// A neighbour is back: its waiting packets may go. Or it is gone: packets that had begun to
    /// leave for it are lost; waiting ones stay, and those of others overtake them.
    pub(super) fn set_neighbour(
        &mut self,
        now: Instant,
        to: NeighbourId,
        there: bool,
        ledger: &mut Ledger,
    ) {
        let queue = &mut self.queue;
        let changes = match there {
            true => queue.away.remove(&to),
            false => self.link.has_neighbour(to) && queue.away.insert(to),
        };
        if changes {
            self.link.set_neighbour(queue, now, to, there, ledger);
        }
    }

    /// The medium reports the rate towards a neighbour.
    pub(super) fn set_rate(&mut self, to: NeighbourId, rate: LineRate) {
        self.link.set_rate(&mut self.queue, to, rate);
    }

    /// To whom what is for all is sent.
    pub(super) fn all(&self) -> Vec<NeighbourId> {
        if self.link.sends_to_all() && !self.queue.paths.are_apart() {
            return alloc::vec![NeighbourId::ALL];
        }
        let count = self.link.neighbours() as u16;
        (0..count).map(NeighbourId).collect()
    }

    /// Gives every packet that the port holds its fate.
    pub(super) fn clear(&mut self, now: Instant, cause: DropCause, ledger: &mut Ledger) {
        let link = &mut *self.link;
        self.queue.abandon(link, now, cause, ledger);
        while let Some(packet) = self.queue.drain(link, ledger) {
            ledger.drop(now, packet, cause);
        }
    }

    /// Takes note of the flow of a packet that is about to be queued, and says whether it may be:
    /// not if its call can't be carried beside others.
    pub(super) fn admits(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        told: Told,
        ledger: &mut Ledger,
    ) -> bool {
        let link = &mut *self.link;
        let air = self.queue.air(packet, self.airtime.as_deref());
        self.queue.admits(link, now, packet, (told, air), ledger)
    }

    /// Queues a packet, or destroys it if it may not wait.
    pub(super) fn enqueue(&mut self, now: Instant, packet: Packet, ledger: &mut Ledger) {
        self.link.enqueue(&mut self.queue, now, packet, ledger);
    }

    /// Queues what waited for what is known by now.
    pub(super) fn release(&mut self, now: Instant, ledger: &mut Ledger) {
        self.link.release(&mut self.queue, now, ledger);
    }

    /// Gives the packets that aren't to go any more their fates.
    pub(super) fn discard(&mut self, now: Instant, ledger: &mut Ledger) {
        self.link.discard(&mut self.queue, now, ledger);
    }

    /// Whether the port has nothing to do, to send or to give up before something comes to it,
    /// whatever the time.
    pub(super) fn is_at_rest(&self) -> bool {
        let queue = &self.queue;
        let rests = queue.paths.are_at_rest() && queue.yields.is_empty();
        rests && self.link.is_at_rest() && !self.owes_word()
    }

    /// Whether a neighbour waits for a word from it.
    pub(super) fn owes_word(&self) -> bool {
        self.link.segments().is_some_and(Segments::owes_word)
    }

    /// The port's limits go by this time from now on.
    pub(super) fn advance(&mut self, now: Instant) {
        self.queue.paths.advance(now);
        self.queue.yields.advance(now);
        self.link.advance(now);
    }

    /// When the port needs a wake-up without an input, and why.
    pub(super) fn wake(&self) -> Option<Wake> {
        let own = self.queue.wake(&*self.link);
        let wakes = own.into_iter().chain(self.link.wake());
        wakes.min_by_key(|wake| wake.at)
    }

    /// Packets that the port holds.
    pub(super) fn held(&self) -> u64 {
        self.link.held() as u64 + self.queue.waiting()
    }

    /// Asserts the invariants of queue and link.
    pub(super) fn check(&self) {
        self.queue.paths.iter().for_each(Path::check);
        self.link.check();
    }

    /// Takes in received octets.
    pub(super) fn hear(&mut self, now: Instant, frame: Frame<'_>, ledger: &mut Ledger) {
        self.link.hear(&mut self.queue, now, frame, ledger);
    }

    /// The port's next packet.
    pub(super) fn wants(&self) -> Option<Want> {
        self.queue.state?;
        self.link.wants(&self.queue)
    }

    /// Fills `room`; see [`strait_core::Node::poll_transmit`].
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let queue = &mut self.queue;
        queue.state?;
        self.link.discard(queue, now, ledger);
        let idle_from = queue.paths.end();
        let before = out.len();
        let mut meta = self.link.pull(queue, now, room, out, ledger)?;
        self.transmissions += 1;
        meta.id = TxId(self.transmissions);
        let stats = queue.stats(ledger);
        let octets = (out.len() - before) as u64;
        if let Some(airtime) = &mut self.airtime {
            let onward = queue.onward(meta.to);
            airtime.sends(meta.id, (meta.to, onward), out.len() - before, now);
        }
        stats.octets_out += octets;
        if let Some(neighbour) = stats.neighbours.get_mut(meta.to.index()) {
            neighbour.octets_out += octets;
        }
        let busy = queue.paths.end().since(idle_from.max(room.starts));
        stats.busy_ns += busy.as_nanos() as u64;
        Some(meta)
    }

    /// The medium is done with a frame.
    pub(super) fn sent(&mut self, now: Instant, id: TxId, ledger: &mut Ledger) {
        let queue = &mut self.queue;
        let Some(airtime) = &mut self.airtime else {
            return;
        };
        let Some(took) = airtime.ends(id, now) else {
            return;
        };
        if let Some(rest) = airtime.relayed(&took) {
            queue.yields.yield_to(took.to, now + rest);
        }
        if queue.neighbours() > 1 {
            if let Some(costs) = airtime.counts(took, &queue.costs) {
                queue.set_costs(costs);
            }
        } else {
            let rate = queue.rate_to(took.to);
            let pace = airtime.pace.ends(now, took.busy, took.octets, rate);
            queue.stats(ledger).presence.measured_bit_s = pace;
        }
    }

    /// Ends the stay of packets that neighbours have by now, or never get, and gives those that
    /// came, with who sent them. Whether the port came up or went down.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        ledger: &mut Ledger,
        came: &mut Vec<(Arrival, Hop)>,
    ) -> bool {
        self.link.settle(&mut self.queue, now, ledger, came)
    }

    /// The next thing to do to a stream or socket of the port's.
    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.link.poll_effect(&self.queue)
    }

    /// Where a neighbour's packets with a mark went last.
    pub(super) fn outlets(&self, from: NeighbourId, mark: u8) -> impl Iterator<Item = Outlet> {
        self.link.outlets(from, mark).iter().copied().flatten()
    }

    /// Takes note of where a packet goes that came from a neighbour.
    pub(super) fn note_outlet(&mut self, from: NeighbourId, packet: &Packet, way: Hop) {
        self.link.note_outlet(&self.queue, from, packet, way);
    }

    /// Packets to it have crossed links with this round trip at most.
    pub(super) fn set_trip(&mut self, trip: Duration) {
        self.link.set_trip(&mut self.queue, trip);
    }

    /// Takes out all that waits, and of what is sent and not acknowledged, what is to go another
    /// way; nothing where links aren't made reliable.
    pub(super) fn take_back(
        &mut self,
        ledger: &mut Ledger,
        mut leaves: impl FnMut(&Packet) -> bool,
    ) -> Vec<Packet> {
        self.link.take_back(&mut self.queue, ledger, &mut leaves)
    }
}
