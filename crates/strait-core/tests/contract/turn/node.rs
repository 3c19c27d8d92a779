//! A node of two that share a half-duplex medium, with a durable outbox.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use strait_core::delay::DelayPart;
use strait_core::fate::Origin;
use strait_core::node::{Boot, NodeFactory, Owner, PortEvent, PortState, StoreOp, Ticket, Turn};
use strait_core::stats::Stats;
use strait_core::time::Duration;
use strait_core::{
    ClassId, DropCause, Effect, Fate, Input, Instant, NeighbourId, Node, Packet, PortId, Room,
    TxMeta, Wake, WakeReason, Want,
};

use crate::parts::{BULK, Desk, LINK, URGENT, class_of, from_host, read, receipt};

const BLOCKS_MAX: u32 = 10;
pub(super) const POLL: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_millis(1000);
const PATIENCE_STEP: Duration = Duration::from_millis(600);
/// After a start in the middle of things: longer than any other patience.
pub(super) const PATIENCE_AT_START: Duration = Duration::from_millis(4000);

/// Messages in the outbox, those about to be stored included.
pub(super) const OUTBOX: usize = 8;
/// Messages of one class that are loaded and under way.
const WINDOW: usize = 3;
/// Octets of one piece of a stored value that the node asks for.
const LOAD_OCTETS: u32 = 64;
/// Messages of the peer that aren't complete.
const PARTIAL_MAX: usize = 2 * WINDOW;
/// Messages of the peer that are remembered as received.
const RECEIVED_MAX: usize = 64;
pub(super) const HEADER: usize = 10;
const FILL: u8 = 0;
pub(super) const DATA: u8 = 1;
const ACK: u8 = 2;

/// Where the turn is, as a node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// With the other end, or nobody: taken at this moment.
    Silence(Instant),
    /// The other end is keyed.
    Hearing,
    /// Here, unused; keyed up at this moment even with nothing to say.
    Mine(Instant),
    /// The moment to key up with nothing to say has come.
    Due,
    /// Keyed for so many blocks; `true` once the last frame was pulled.
    Keyed(u32, bool),
}

/// A message under way: loaded, not yet acknowledged by the peer.
#[derive(Debug)]
struct Outgoing {
    packet: Packet,
    offset: usize,
}

#[derive(Debug)]
struct TurnNode {
    desk: Desk,
    rank: u32,
    start: Duration,
    state: Option<PortState>,
    phase: Phase,
    /// Accepted, and on the way to storage.
    pending: BTreeMap<Ticket, (u32, Packet)>,
    /// Stored and not loaded: class and number.
    stored: BTreeSet<(ClassId, u32)>,
    loading: Option<(Ticket, ClassId, u32, Vec<u8>)>,
    /// Loaded: class and number.
    window: BTreeMap<(ClassId, u32), Outgoing>,
    number: u32,
    /// Asked for the number that was stored: until it is there, no message is accepted.
    counting: Option<Ticket>,
    ticket: u64,
    acks: VecDeque<u32>,
    received: BTreeSet<u32>,
    partial: BTreeMap<u32, Vec<u8>>,
    effects: VecDeque<Effect>,
}

pub(super) const NUMBER_KEY: &[u8] = b"number";

fn key_of(class: ClassId, number: u32) -> Vec<u8> {
    let mut key = b"out/".to_vec();
    key.extend(number.to_be_bytes());
    key.push(class.0);
    key
}

impl TurnNode {
    fn new(maker: &Maker, boot: &Boot) -> Self {
        let rank = maker.rank;
        let mut node = Self {
            desk: Desk::new(),
            rank,
            start: match (boot.incarnation, rank) {
                (0, 0) => Duration::ZERO,
                (0, _) => PATIENCE + PATIENCE_STEP * rank,
                _ => maker.patience,
            },
            state: None,
            phase: Phase::Hearing,
            pending: BTreeMap::new(),
            stored: BTreeSet::new(),
            loading: None,
            window: BTreeMap::new(),
            number: 0,
            counting: None,
            ticket: 0,
            acks: VecDeque::new(),
            received: BTreeSet::new(),
            partial: BTreeMap::new(),
            effects: VecDeque::new(),
        };
        for (key, _) in &boot.stored {
            node.restore(key);
        }
        node
    }

    fn restore(&mut self, key: &[u8]) {
        if key == NUMBER_KEY {
            let ticket = self.load(key.to_vec(), 0);
            self.counting = Some(ticket);
        } else if let Some([number @ .., class]) = key.strip_prefix(b"out/")
            && let Ok(number) = number.try_into()
        {
            let class = if *class == URGENT.0 { URGENT } else { BULK };
            self.stored.insert((class, u32::from_be_bytes(number)));
        }
    }

    fn load(&mut self, key: Vec<u8>, offset: u64) -> Ticket {
        let ticket = self.next_ticket();
        self.effects.push_back(Effect::Load {
            ticket,
            key,
            offset,
            octets: LOAD_OCTETS,
        });
        ticket
    }

    fn outbox(&self) -> usize {
        let loading = usize::from(self.loading.is_some());
        self.pending.len() + self.stored.len() + loading + self.window.len()
    }

    fn next_ticket(&mut self) -> Ticket {
        self.ticket += 1;
        Ticket {
            owner: Owner(0),
            n: self.ticket,
        }
    }

    /// Accepts a message, if it can be stored; says nothing yet.
    fn take_from_host(&mut self, now: Instant, bytes: &[u8]) {
        let Some(packet) = self.desk.admit(now, bytes, Origin::Port(PortId::HOST)) else {
            return;
        };
        if self.outbox() >= OUTBOX {
            self.desk.ledger.drop(now, packet, DropCause::QueuePackets);
            return;
        }
        let (ticket, number) = (self.next_ticket(), self.number);
        self.number += 1;
        let counter = self.number.to_be_bytes().to_vec();
        let batch = vec![
            StoreOp::Put(NUMBER_KEY.to_vec(), counter),
            StoreOp::Put(key_of(packet.class, number), packet.bytes().to_vec()),
        ];
        self.pending.insert(ticket, (number, packet));
        self.effects.push_back(Effect::Store { ticket, batch });
    }

    fn stored(&mut self, now: Instant, ticket: Ticket, ok: bool) {
        // A deletion has no packet behind it.
        let Some((number, packet)) = self.pending.remove(&ticket) else {
            return;
        };
        if !ok {
            self.desk.ledger.drop(now, packet, DropCause::QueueOctets);
            return;
        }
        let told = read(packet.bytes()).map_or(0, |(_, told)| told);
        self.stored.insert((packet.class, number));
        self.desk.ledger.close(now, packet, Fate::Absorbed);
        let receipt = receipt(self.rank as u8, told);
        self.desk.admit_up(now, &receipt, Origin::Own);
        self.load_more();
    }

    /// Asks for the next message whose class has room in the window.
    fn load_more(&mut self) {
        if self.loading.is_some() {
            return;
        }
        let under_way = |class| self.window.keys().filter(|key| key.0 == class).count();
        let next = self.stored.iter().find(|key| under_way(key.0) < WINDOW);
        let Some((class, number)) = next.copied() else {
            return;
        };
        self.stored.remove(&(class, number));
        let ticket = self.load(key_of(class, number), 0);
        self.loading = Some((ticket, class, number, Vec::new()));
    }

    fn loaded(&mut self, now: Instant, ticket: Ticket, chunk: &[u8]) {
        if self.counting.take_if(|asked| *asked == ticket).is_some() {
            self.number = u32::from_be_bytes(chunk.try_into().expect("a number has four octets"));
            return;
        }
        let Some((_, class, number, mut body)) =
            self.loading.take_if(|loading| loading.0 == ticket)
        else {
            return;
        };
        if !chunk.is_empty() {
            body.extend_from_slice(chunk);
            let ticket = self.load(key_of(class, number), body.len() as u64);
            self.loading = Some((ticket, class, number, body));
            return;
        }
        if let Some(mut packet) = self.desk.admit(now, &body, Origin::Own) {
            packet.enter(now, DelayPart::Turn);
            let class = class_of(&packet);
            let outgoing = Outgoing { packet, offset: 0 };
            self.window.insert((class, number), outgoing);
        }
        self.load_more();
    }

    fn take_frame(&mut self, now: Instant, frame: &[u8]) {
        let Some((head, rest)) = frame.split_first_chunk::<HEADER>() else {
            return;
        };
        let number = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let offset = usize::from(u16::from_be_bytes([head[5], head[6]]));
        let length = usize::from(u16::from_be_bytes([head[8], head[9]]));
        let Some(body) = rest.get(..length) else {
            self.desk.link().invalid += 1;
            return;
        };
        match head[0] {
            DATA => self.take_data(now, number, offset, head[7] != 0, body),
            ACK => {
                for number in body.as_chunks::<4>().0 {
                    self.take_ack(now, u32::from_be_bytes(*number));
                }
            }
            _ => {}
        }
    }

    fn take_data(&mut self, now: Instant, number: u32, offset: usize, last: bool, body: &[u8]) {
        if self.received.contains(&number) {
            if last {
                self.acks.push_back(number);
            }
            return;
        }
        let known = self.partial.contains_key(&number);
        if offset == 0 && (known || self.partial.len() < PARTIAL_MAX) {
            self.partial.insert(number, Vec::new());
        }
        let partial = self.partial.get_mut(&number);
        let Some(partial) = partial.filter(|partial| partial.len() == offset) else {
            return;
        };
        partial.extend_from_slice(body);
        if !last {
            return;
        }
        let whole = self.partial.remove(&number).unwrap_or_default();
        self.desk.admit_up(now, &whole, Origin::Port(LINK));
        self.acks.push_back(number);
        self.received.insert(number);
        if self.received.len() > RECEIVED_MAX {
            self.received.pop_first();
        }
    }

    fn take_ack(&mut self, now: Instant, number: u32) {
        let outgoing = [URGENT, BULK].into_iter().find_map(|class| {
            let outgoing = self.window.remove(&(class, number))?;
            Some((class, outgoing))
        });
        let Some((class, outgoing)) = outgoing else {
            return;
        };
        let (port, to) = (LINK, NeighbourId::PEER);
        let fate = Fate::Forwarded { port, to };
        self.desk.ledger.close(now, outgoing.packet, fate);
        let ticket = self.next_ticket();
        let batch = vec![StoreOp::Delete(key_of(class, number))];
        self.effects.push_back(Effect::Store { ticket, batch });
        self.load_more();
    }

    fn port(&mut self, now: Instant, event: PortEvent) {
        match event {
            PortEvent::Up(state) => {
                self.state = Some(state);
                self.phase = match self.start {
                    Duration::ZERO => Phase::Mine(now + POLL),
                    patience => Phase::Silence(now + patience),
                };
                self.load_more();
            }
            PortEvent::Changed(state) => self.state = Some(state),
            PortEvent::Carrier(true) if matches!(self.phase, Phase::Keyed(..)) => {}
            PortEvent::Carrier(true) => self.phase = Phase::Hearing,
            PortEvent::Carrier(false) if matches!(self.phase, Phase::Keyed(..)) => {}
            PortEvent::Carrier(false) => self.phase = Phase::Mine(now + POLL),
            PortEvent::Drained => {
                self.phase = Phase::Silence(now + PATIENCE + PATIENCE_STEP * self.rank);
            }
            PortEvent::Down(_) => self.state = None,
            PortEvent::Neighbour(..) | PortEvent::NeighbourRate(..) => {}
        }
    }

    fn expire(&mut self, now: Instant) {
        match self.phase {
            Phase::Silence(at) | Phase::Mine(at) if at <= now => self.phase = Phase::Due,
            _ => {}
        }
    }

    /// Octets of one frame, for the rate that the medium has now: half a block.
    fn frame_octets(state: &PortState) -> usize {
        let octets = state.tx_rate.octets_in(state.block) as usize / 2;
        octets.clamp(HEADER + 4, state.frame_octets_max as usize)
    }

    fn has_content(&self) -> bool {
        !self.acks.is_empty() || !self.window.is_empty()
    }

    /// Blocks for all that waits, within the limit. What was sent in an earlier turn and isn't
    /// acknowledged is sent again.
    fn plan(&mut self, state: &PortState) -> u32 {
        let body = Self::frame_octets(state) - HEADER;
        let mut octets = self.acks.len() * (HEADER + 4);
        for outgoing in self.window.values_mut() {
            let all = outgoing.packet.octets();
            if outgoing.offset == all {
                outgoing.offset = 0;
            }
            let left = all - outgoing.offset;
            octets += left + left.div_ceil(body) * HEADER;
        }
        let time = state.tx_rate.time_for(octets as u64);
        let blocks = time.as_nanos().div_ceil(state.block.as_nanos().max(1));
        (blocks as u32).clamp(1, BLOCKS_MAX)
    }

    /// Appends the frame that goes next, of at most `octets`; returns its class.
    fn write_frame(&mut self, starts: Instant, octets: usize, out: &mut Vec<u8>) -> ClassId {
        let body_max = octets - HEADER;
        let mut head = |kind: u8, number: u32, offset: usize, last: bool, body: &[u8]| {
            out.push(kind);
            out.extend(number.to_be_bytes());
            out.extend((offset as u16).to_be_bytes());
            out.push(u8::from(last));
            out.extend((body.len() as u16).to_be_bytes());
            out.extend_from_slice(body);
        };
        if !self.acks.is_empty() && body_max >= 4 {
            let count = self.acks.len().min(body_max / 4);
            let numbers = self.acks.drain(..count).flat_map(u32::to_be_bytes);
            head(ACK, 0, 0, true, &numbers.collect::<Vec<u8>>());
            return URGENT;
        }
        let unsent = |outgoing: &Outgoing| outgoing.offset < outgoing.packet.octets();
        let next = self
            .window
            .iter_mut()
            .find(|(_, outgoing)| unsent(outgoing));
        if let Some(((class, number), outgoing)) = next
            && body_max > 0
        {
            let (from, all) = (outgoing.offset, outgoing.packet.octets());
            let to = all.min(from + body_max);
            outgoing.packet.enter(starts, DelayPart::Line);
            outgoing.offset = to;
            let body = &outgoing.packet.bytes()[from..to];
            head(DATA, *number, from, to == all, body);
            return *class;
        }
        head(FILL, 0, 0, true, &[]);
        BULK
    }
}

impl Node for TurnNode {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if let Some(bytes) = from_host(&input) {
            return self.take_from_host(now, bytes);
        }
        match input {
            Input::Timeout => self.expire(now),
            Input::Frame { bytes, .. } => self.take_frame(now, bytes),
            Input::Port { port: LINK, event } => self.port(now, event),
            Input::Stored { ticket, result } => self.stored(now, ticket, result.is_ok()),
            Input::Loaded {
                ticket,
                result: Ok(Some(chunk)),
            } => self.loaded(now, ticket, chunk),
            _ => {}
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        if port == PortId::HOST {
            return self.desk.want_up();
        }
        let wants = match self.phase {
            Phase::Silence(_) | Phase::Hearing => false,
            Phase::Mine(_) => self.has_content(),
            Phase::Due => true,
            Phase::Keyed(_, last) => !last,
        };
        let state = self.state.filter(|_| wants)?;
        Some(Want {
            class: self.window.keys().next().map_or(URGENT, |key| key.0),
            octets: Self::frame_octets(&state) as u32,
            to: NeighbourId::PEER,
        })
    }

    fn reads(&self, port: PortId) -> bool {
        port != PortId::HOST || self.outbox() < OUTBOX && self.counting.is_none()
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        if port == PortId::HOST {
            return self.desk.transmit_up(now, room, out);
        }
        self.wants(port).filter(|_| room.octets > 0)?;
        let state = self.state?;
        let (key_up, blocks, octets) = match self.phase {
            Phase::Keyed(blocks, _) => (false, blocks, room.octets),
            _ => {
                let blocks = self.plan(&state);
                let octets = state.tx_rate.octets_in(state.block * blocks) as usize;
                (true, blocks, octets.min(room.octets))
            }
        };
        let began = out.len();
        let frame = octets.min(Self::frame_octets(&state));
        let class = if frame >= HEADER {
            self.write_frame(room.starts, frame, out)
        } else {
            BULK
        };
        // An end too short for a frame of its own belongs to this one, and no turn is left early.
        let mut used = out.len() - began;
        let last = octets - used <= HEADER;
        let filling = out.get(began).is_none_or(|kind| *kind == FILL);
        used = match (last, filling) {
            (true, _) => octets,
            (false, true) => frame,
            (false, false) => used,
        };
        let last = last || used == octets;
        out.resize(began + used, 0);
        self.phase = Phase::Keyed(blocks, last);
        let turn = Some(Turn {
            key_up,
            blocks,
            last,
            mode: None,
        });
        Some(TxMeta {
            turn,
            ..TxMeta::to_peer(class)
        })
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front().or_else(|| self.desk.poll_effect())
    }

    fn wake(&self) -> Option<Wake> {
        let (Phase::Silence(at) | Phase::Mine(at)) = self.phase else {
            return None;
        };
        let why = WakeReason::Turn;
        Some(Wake { at, why })
    }

    fn stats(&self) -> &Stats {
        self.desk.ledger.stats()
    }

    fn check(&self) {
        let inside = self.pending.len() + self.window.len() + self.desk.up_len();
        assert_eq!(self.desk.ledger.held(), inside as u64);
        assert!(self.outbox() <= OUTBOX.max(self.stored.len() + WINDOW));
    }
}

/// Makes the nodes of one rank: of the two, 0 has the turn at first.
pub(super) struct Maker {
    pub(super) rank: u32,
    /// Silence after which a restarted node takes the turn.
    pub(super) patience: Duration,
}

impl NodeFactory for Maker {
    fn boot(&self, boot: Boot) -> Box<dyn Node> {
        Box::new(TurnNode::new(self, &boot))
    }
}
