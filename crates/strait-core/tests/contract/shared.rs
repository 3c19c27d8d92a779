//! A port shared by several neighbours: frames to one of them or to all, each with a window of its
//! own. A full window hides its neighbour's messages, not the port.

use std::collections::{BTreeMap, VecDeque};

use strait_core::chance::Stream;
use strait_core::delay::DelayPart;
use strait_core::fate::Origin;
use strait_core::node::{Boot, NodeFactory, PortEvent, PortState};
use strait_core::rate::{Burst, LineRate};
use strait_core::stats::Stats;
use strait_core::time::Duration;
use strait_core::{
    ClassId, DropCause, Effect, Fate, Input, Instant, NeighbourId, Neighbours, Node, Packet,
    PortId, Room, TxMeta, Wake, WakeReason, Want,
};

use crate::driver::{Manners, World, prove_run};
use crate::medium::{Agenda, Medium, What};
use crate::parts::{
    BULK, Desk, EVERYONE, LINK, Lanes, MESSAGE, URGENT, destination, from_host, message,
};

const FAST: LineRate = LineRate::new(64_000, 8);
const SLOW: LineRate = LineRate::new(8_000, 8);
/// Messages of one class that wait for one neighbour.
const QUEUE: usize = 8;
/// Times that one piece is sent before its message is given up.
const TRIES_MAX: u32 = 20;
/// Kind, session, message, offset, marks.
const HEADER: usize = 12;
const DATA: u8 = 1;
const ACK: u8 = 2;
const BROADCAST: u8 = 3;
const LATENCY: Duration = Duration::from_millis(2);

/// One transmitter for each node; all hear all.
struct Net {
    bursts: Vec<Burst>,
    loss: f64,
    chance: Stream,
}

impl Net {
    fn new(seed: u64, nodes: usize, loss: f64) -> Self {
        Self {
            bursts: vec![Burst::new(FAST, Instant::ZERO); nodes],
            loss,
            chance: Stream::new(seed, "shared.loss"),
        }
    }

    /// A frame takes 25 ms at most.
    fn frame_octets_max(&self) -> usize {
        let octets = self.bursts[0].rate().octets_in(Duration::from_millis(25));
        octets as usize
    }
}

impl Medium for Net {
    fn state(&self) -> PortState {
        let rate = self.bursts[0].rate();
        PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: self.frame_octets_max() as u32,
            block: Duration::ZERO,
            latency: LATENCY,
        }
    }

    fn room(&mut self, now: Instant, node: usize, agenda: &mut Agenda) -> Option<Room> {
        let free_at = self.bursts[node].end();
        if free_at > now {
            agenda.forget(|_, what| matches!(what, What::Room { node: at } if *at == node));
            agenda.plan(free_at, What::Room { node });
            return None;
        }
        Some(Room {
            octets: self.frame_octets_max(),
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(
        &mut self,
        now: Instant,
        node: usize,
        _room: Room,
        meta: TxMeta,
        frame: &[u8],
        agenda: &mut Agenda,
    ) {
        let end = self.bursts[node].push(now, frame.len() as u64);
        let nodes = 0..self.bursts.len();
        let all = meta.to == NeighbourId::ALL;
        for to in nodes.filter(|to| *to != node && (all || *to == meta.to.index())) {
            if !self.chance.happens(self.loss) {
                let arrival = What::Arrive {
                    node: to,
                    sender: node,
                    from: NeighbourId(node as u16),
                    bytes: frame.to_vec(),
                };
                agenda.plan(end + LATENCY, arrival);
            }
        }
    }

    fn cut(&mut self, now: Instant, node: usize, agenda: &mut Agenda) {
        agenda.forget(|at, what| {
            matches!(what, What::Arrive { sender, .. } if *sender == node && at > now + LATENCY)
        });
        self.bursts[node] = Burst::new(self.bursts[node].rate(), now);
    }

    fn set_rate(&mut self, _now: Instant, rate: LineRate) {
        self.bursts
            .iter_mut()
            .for_each(|burst| burst.set_rate(rate));
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: u8,
    /// Incarnation of the sender of the message.
    session: u32,
    number: u32,
    /// Data: where the body belongs. Acknowledgement: octets that the receiver has.
    offset: u16,
    /// The message is complete with this body, or at the receiver.
    whole: bool,
}

impl Head {
    fn write(self, out: &mut Vec<u8>) {
        out.push(self.kind);
        out.extend(self.session.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.push(u8::from(self.whole));
    }

    fn read(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (head, body) = frame.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|index| head[at + index]));
        let head = Self {
            kind: head[0],
            session: word(1),
            number: word(5),
            offset: u16::from_le_bytes([head[9], head[10]]),
            whole: head[11] != 0,
        };
        Some((head, body))
    }
}

/// The message that fills a neighbour's window.
#[derive(Debug)]
struct Current {
    packet: Packet,
    offset: usize,
    /// When the piece under way is sent again; `None` if the next piece may go.
    due: Option<Instant>,
    tries: u32,
}

/// What a node knows of one neighbour.
#[derive(Debug)]
struct Peer {
    lanes: Lanes,
    current: Option<Current>,
    /// Number of the current or next message.
    number: u32,
    /// The acknowledgement to be sent.
    answer: Option<Head>,
    /// The neighbour's message: session, number, octets so far, whether it was complete.
    theirs: Option<(u32, u32)>,
    partial: Vec<u8>,
    complete: bool,
}

impl Peer {
    fn new() -> Self {
        Self {
            lanes: Lanes::new(QUEUE),
            current: None,
            number: 0,
            answer: None,
            theirs: None,
            partial: Vec::new(),
            complete: false,
        }
    }

    /// The message to take the next piece from, if the window lets one go.
    fn eligible(&self) -> Option<&Packet> {
        match &self.current {
            Some(current) => current.due.is_none().then_some(&current.packet),
            None => self.lanes.first(),
        }
    }
}

#[derive(Debug)]
struct SharedNode {
    desk: Desk,
    incarnation: u32,
    peers: BTreeMap<NeighbourId, Peer>,
    /// Neighbours in the order in which their turn comes.
    order: VecDeque<NeighbourId>,
    broadcast: Lanes,
    state: Option<PortState>,
}

/// What goes next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Answer(NeighbourId),
    Broadcast,
    Piece(NeighbourId),
}

impl SharedNode {
    fn new(me: u16, nodes: u16, incarnation: u32) -> Self {
        let order = (0..nodes).filter(|node| *node != me).map(NeighbourId);
        let order: VecDeque<NeighbourId> = order.collect();
        Self {
            desk: Desk::new(),
            incarnation,
            peers: order.iter().map(|id| (*id, Peer::new())).collect(),
            order,
            broadcast: Lanes::new(QUEUE),
            state: None,
        }
    }

    fn next(&self) -> Option<Next> {
        self.state?;
        let peers = || {
            self.order
                .iter()
                .filter_map(|id| Some((*id, self.peers.get(id)?)))
        };
        if let Some((id, _)) = peers().find(|(_, peer)| peer.answer.is_some()) {
            return Some(Next::Answer(id));
        }
        if self.broadcast.first().is_some() {
            return Some(Next::Broadcast);
        }
        let (id, _) = peers().find(|(_, peer)| peer.eligible().is_some())?;
        Some(Next::Piece(id))
    }

    /// The first acknowledgement can be here so long after a piece has left: behind two frames of
    /// the longest form at the other end, and both ways of the medium.
    fn patience(state: &PortState) -> Duration {
        let frame = state.tx_rate.time_for(u64::from(state.frame_octets_max));
        frame * 8 + state.latency * 2
    }

    fn take_from_host(&mut self, now: Instant, bytes: &[u8]) {
        let Some(mut packet) = self.desk.admit(now, bytes, Origin::Port(PortId::HOST)) else {
            return;
        };
        let to = destination(&packet);
        if to == EVERYONE {
            packet.to = NeighbourId::ALL;
            self.desk.enqueue(now, &mut self.broadcast, packet);
            self.drop_too_big(now);
            return;
        }
        packet.to = NeighbourId(u16::from(to));
        match self.peers.get_mut(&packet.to) {
            Some(peer) => self.desk.enqueue(now, &mut peer.lanes, packet),
            None => self.desk.ledger.drop(now, packet, DropCause::NoRoute),
        }
    }

    /// What is for all isn't cut: a message that no frame holds must not block the port.
    fn drop_too_big(&mut self, now: Instant) {
        let octets_max = self.state.map_or(usize::MAX, |state| {
            (state.frame_octets_max as usize).saturating_sub(HEADER)
        });
        let mut kept = Lanes::new(QUEUE);
        while let Some(packet) = self.broadcast.pop() {
            if packet.octets() > octets_max {
                self.desk.ledger.drop(now, packet, DropCause::TooBig);
            } else {
                self.desk.enqueue(now, &mut kept, packet);
            }
        }
        self.broadcast = kept;
    }

    fn take_frame(&mut self, now: Instant, from: NeighbourId, frame: &[u8]) {
        let Some((head, body)) = Head::read(frame) else {
            self.desk.link().invalid += 1;
            return;
        };
        match (head.kind, self.peers.get_mut(&from)) {
            (BROADCAST, Some(_)) => self.desk.admit_up(now, body, Origin::Port(LINK)),
            (DATA, Some(_)) => self.take_data(now, from, head, body),
            (ACK, Some(_)) => self.take_ack(now, from, head),
            _ => self.desk.link().strangers += 1,
        }
    }

    fn take_data(&mut self, now: Instant, from: NeighbourId, head: Head, body: &[u8]) {
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        if peer.theirs.replace((head.session, head.number)) != Some((head.session, head.number)) {
            self.desk.ledger.stats_mut().ports[LINK.index()].incomplete +=
                u64::from(!peer.partial.is_empty());
            peer.partial.clear();
            peer.complete = false;
        }
        if !peer.complete && usize::from(head.offset) == peer.partial.len() {
            peer.partial.extend_from_slice(body);
            peer.complete = head.whole;
            if peer.complete {
                let whole = std::mem::take(&mut peer.partial);
                self.desk.admit_up(now, &whole, Origin::Port(LINK));
            }
        }
        peer.answer = Some(Head {
            kind: ACK,
            offset: peer.partial.len() as u16,
            whole: peer.complete,
            ..head
        });
    }

    fn take_ack(&mut self, now: Instant, from: NeighbourId, head: Head) {
        let session = self.incarnation;
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        if (head.session, head.number) != (session, peer.number) {
            return;
        }
        if head.whole {
            if let Some(current) = peer.current.take() {
                peer.number += 1;
                let (port, to) = (LINK, from);
                let fate = Fate::Forwarded { port, to };
                self.desk.ledger.close(now, current.packet, fate);
            }
        } else if let Some(current) = &mut peer.current {
            // A receiver that was restarted has nothing: from the beginning, then.
            current.offset = usize::from(head.offset).min(current.packet.octets());
            current.due = None;
            current.tries = 0;
        }
    }

    fn expire(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            let due = peer
                .current
                .as_mut()
                .filter(|current| current.due.is_some_and(|at| at <= now));
            let Some(current) = due else { continue };
            current.due = None;
            current.packet.enter(now, DelayPart::Repeat);
            if current.tries >= TRIES_MAX
                && let Some(current) = peer.current.take()
            {
                peer.number += 1;
                let cause = DropCause::Undelivered;
                self.desk.ledger.drop(now, current.packet, cause);
            }
        }
    }

    fn send_broadcast(&mut self, room: Room, out: &mut Vec<u8>) -> Option<TxMeta> {
        let packet = self.broadcast.first()?;
        if packet.octets() + HEADER > room.octets {
            return None;
        }
        let head = Head {
            kind: BROADCAST,
            session: self.incarnation,
            number: 0,
            offset: 0,
            whole: true,
        };
        head.write(out);
        let mut packet = self.broadcast.pop()?;
        packet.enter(room.starts, DelayPart::Line);
        out.extend_from_slice(packet.bytes());
        let (port, to) = (LINK, NeighbourId::ALL);
        let end = room.starts + self.state?.tx_rate.time_for(out.len() as u64);
        let meta = TxMeta {
            to,
            ..TxMeta::to_peer(packet.class)
        };
        let fate = Fate::Forwarded { port, to };
        self.desk.ledger.close(end, packet, fate);
        Some(meta)
    }

    fn send_piece(&mut self, room: Room, to: NeighbourId, out: &mut Vec<u8>) -> Option<TxMeta> {
        let state = self.state?;
        let body_max = room
            .octets
            .checked_sub(HEADER)
            .filter(|octets| *octets > 0)?;
        let peer = self.peers.get_mut(&to)?;
        if peer.current.is_none() {
            let packet = peer.lanes.pop()?;
            peer.current = Some(Current {
                packet,
                offset: 0,
                due: None,
                tries: 0,
            });
        }
        let current = peer.current.as_mut()?;
        let octets = current.packet.octets();
        let end = octets.min(current.offset + body_max);
        let head = Head {
            kind: DATA,
            session: self.incarnation,
            number: peer.number,
            offset: current.offset as u16,
            whole: end == octets,
        };
        head.write(out);
        out.extend_from_slice(&current.packet.bytes()[current.offset..end]);
        current.packet.enter(room.starts, DelayPart::Line);
        current.tries += 1;
        let out_at = room.starts + state.tx_rate.time_for(out.len() as u64);
        current.due = Some(out_at + Self::patience(&state));
        let class = current.packet.class;
        self.order.retain(|id| *id != to);
        self.order.push_back(to);
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(class)
        })
    }

    fn set_state(&mut self, now: Instant, state: PortState) {
        self.state = Some(state);
        self.drop_too_big(now);
        let patience = Self::patience(&state);
        let currents = self
            .peers
            .values_mut()
            .filter_map(|peer| peer.current.as_mut());
        for due in currents.filter_map(|current| current.due.as_mut()) {
            *due = (*due).max(now + patience);
        }
    }
}

impl Node for SharedNode {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if let Some(bytes) = from_host(&input) {
            return self.take_from_host(now, bytes);
        }
        match input {
            Input::Timeout => self.expire(now),
            Input::Frame { from, bytes, .. } => self.take_frame(now, from, bytes),
            Input::Port {
                port: LINK,
                event: PortEvent::Up(state) | PortEvent::Changed(state),
            } => self.set_state(now, state),
            _ => {}
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        if port == PortId::HOST {
            return self.desk.want_up();
        }
        let (class, to) = match self.next()? {
            Next::Answer(to) => (URGENT, to),
            Next::Broadcast => (self.broadcast.first()?.class, NeighbourId::ALL),
            Next::Piece(to) => (self.peers.get(&to)?.eligible()?.class, to),
        };
        Some(Want {
            class,
            octets: HEADER as u32,
            to,
        })
    }

    /// The host port is always read: one neighbour's full queue must not stop what is for others.
    fn reads(&self, _port: PortId) -> bool {
        true
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
        match self.next()? {
            Next::Answer(to) => {
                let peer = self.peers.get_mut(&to).filter(|_| room.octets >= HEADER)?;
                peer.answer.take()?.write(out);
                Some(TxMeta {
                    to,
                    ..TxMeta::to_peer(URGENT)
                })
            }
            Next::Broadcast => self.send_broadcast(room, out),
            Next::Piece(to) => self.send_piece(room, to, out),
        }
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.desk.poll_effect()
    }

    fn wake(&self) -> Option<Wake> {
        let currents = self.peers.values().filter_map(|peer| peer.current.as_ref());
        let at = currents.filter_map(|current| current.due).min()?;
        let why = WakeReason::Retransmit;
        Some(Wake { at, why })
    }

    fn stats(&self) -> &Stats {
        self.desk.ledger.stats()
    }

    fn check(&self) {
        let of_peer = |peer: &Peer| peer.lanes.len() + usize::from(peer.current.is_some());
        let to_peers: usize = self.peers.values().map(of_peer).sum();
        let inside = to_peers + self.broadcast.len() + self.desk.up_len();
        assert_eq!(self.desk.ledger.held(), inside as u64);
    }
}

struct Maker {
    me: u16,
    nodes: u16,
}

impl NodeFactory for Maker {
    fn boot(&self, boot: Boot) -> Box<dyn Node> {
        Box::new(SharedNode::new(self.me, self.nodes, boot.incarnation))
    }
}

fn net(seed: u64, nodes: u16, loss: f64) -> World<Net> {
    let maker = |me| Box::new(Maker { me, nodes }) as Box<dyn NodeFactory>;
    let makers = (0..nodes).map(maker).collect();
    World::new(seed, Net::new(seed, usize::from(nodes), loss), makers)
}

#[test]
fn a_neighbour_that_is_down_holds_up_nobody() {
    let run = |down: bool| {
        let mut world = net(1, 4, 0.0);
        if down {
            world.plan(Instant::from_millis(1), What::Kill { node: 1 });
        }
        for number in 0..QUEUE as u32 {
            let at = Instant::from_millis(10 + u64::from(number));
            world.offer(at, 0, message(0, 1, BULK, 100 + number, 300));
            world.offer(at, 0, message(0, 2, BULK, 200 + number, 300));
            world.offer(at, 0, message(0, 3, BULK, 300 + number, 300));
        }
        world.run_until(Instant::from_secs(60));
        world
    };
    let (whole, down) = (run(false), run(true));
    let last = |world: &World<Net>| {
        let here = world.log.delivered.iter().filter(|seen| seen.node >= 2);
        here.map(|seen| seen.at).max()
    };
    for node in [2, 3] {
        let numbers: Vec<u32> = (0..QUEUE as u32).map(|n| node as u32 * 100 + n).collect();
        assert_eq!(down.log.numbers(node, MESSAGE), numbers);
    }
    // With a silent neighbour the others are served sooner, if anything.
    assert!(
        last(&down) <= last(&whole),
        "{:?}",
        (last(&down), last(&whole))
    );
    assert_eq!(down.log.dropped(0, DropCause::Undelivered), QUEUE as u64);
    assert_eq!(down.log.forwarded(0), 2 * QUEUE as u64);
    // Never two frames under way to one neighbour: the tries are exactly those of the limit.
    let tries = down
        .log
        .pulls
        .iter()
        .filter(|pull| pull.meta.to == NeighbourId(1));
    assert_eq!(tries.count() as u32, TRIES_MAX * QUEUE as u32);
}

#[test]
fn what_is_for_all_reaches_all_but_the_sender() {
    let mut world = net(1, 4, 0.0);
    world.offer(
        Instant::from_millis(1),
        2,
        message(2, EVERYONE, URGENT, 7, 100),
    );
    world.run_until(Instant::from_secs(1));
    for node in [0, 1, 3] {
        assert_eq!(world.log.numbers(node, MESSAGE), [7]);
    }
    assert_eq!(world.log.numbers(2, MESSAGE), []);
    assert_eq!(world.log.pulls.len(), 1);
    assert_eq!(world.log.pulls[0].meta.to, NeighbourId::ALL);
    let to_all = Fate::Forwarded {
        port: LINK,
        to: NeighbourId::ALL,
    };
    assert_eq!(world.log.count(2, |fate| fate == to_all), 1);
    // What no frame holds is too big, and the port goes on.
    let long = message(2, EVERYONE, URGENT, 8, 400);
    world.offer(Instant::from_secs(2), 2, long);
    world.offer(Instant::from_secs(2), 2, message(2, 1, BULK, 9, 400));
    world.run_until(Instant::from_secs(3));
    assert_eq!(world.log.dropped(2, DropCause::TooBig), 1);
    assert_eq!(world.log.numbers(1, MESSAGE), [7, 9]);
}

#[test]
fn lost_frames_are_repeated_and_nothing_arrives_twice() {
    let mut world = net(3, 3, 0.3);
    for number in 0..QUEUE as u32 {
        world.offer(Instant::ZERO, 0, message(0, 1, BULK, number, 500));
        world.offer(Instant::ZERO, 2, message(2, 1, BULK, 100 + number, 90));
    }
    world.run_until(Instant::from_secs(120));
    let mut numbers = world.log.numbers(1, MESSAGE);
    numbers.sort_unstable();
    let sent = (0..QUEUE as u32).chain(100..100 + QUEUE as u32);
    assert_eq!(numbers, Vec::from_iter(sent));
    assert_eq!(
        world.log.forwarded(0) + world.log.forwarded(2),
        2 * QUEUE as u64
    );
    // 3 + 1 pieces for each pair of messages, and as many acknowledgements.
    assert!(
        world.log.pulls.len() > 2 * 4 * QUEUE,
        "nothing was repeated"
    );
}

#[test]
fn a_killed_node_loses_what_it_held_and_the_rest_goes_on() {
    for at_ms in (5..400).step_by(13) {
        for victim in [0, 1] {
            let mut world = net(1, 3, 0.0);
            for number in 0..5 {
                world.offer(Instant::ZERO, 0, message(0, 1, BULK, number, 500));
                world.offer(Instant::ZERO, 0, message(0, 2, BULK, 100 + number, 100));
            }
            let at = Instant::from_millis(at_ms);
            world.kill(at, victim, Duration::from_millis(130));
            world.offer(
                at + Duration::from_millis(1),
                0,
                message(0, 1, BULK, 50, 500),
            );
            world.run_until(Instant::from_secs(60));
            assert_eq!(world.log.forwarded(0) + world.log.crashed[0], 11);
            let numbers = world.log.numbers(1, MESSAGE);
            assert!(numbers.contains(&50), "{victim} at {at_ms} ms: {numbers:?}");
            if victim == 1 {
                // The sender lives: whatever the receiver forgot is sent again.
                assert_eq!(world.log.crashed[0], 0);
                assert!((0..5).all(|number| numbers.contains(&number)));
                let to_other = world.log.numbers(2, MESSAGE);
                assert_eq!(to_other, Vec::from_iter(100..105));
            }
        }
    }
}

#[test]
fn after_a_rate_change_frames_are_cut_anew_and_time_outs_wait_longer() {
    let mut world = net(1, 2, 0.0);
    world.offer(Instant::ZERO, 0, message(0, 1, BULK, 1, 1000));
    // The second frame leaves from 29 … 32 ms on; 200 octets take 25 ms at first.
    let at = Instant::from_millis(50);
    world.rate(at, SLOW);
    world.run_until(Instant::from_secs(60));
    assert_eq!(world.log.numbers(1, MESSAGE), [1]);
    let pulls: Vec<_> = world
        .log
        .pulls
        .iter()
        .filter(|pull| pull.node == 0)
        .collect();
    let (before, after) = pulls.split_at(pulls.partition_point(|pull| pull.at < at));
    assert_eq!((before.len(), before[1].bytes.len()), (2, 200));
    assert!(before[1].at < at && before[1].at + FAST.time_for(200) > at);
    // 25 octets a frame now, 13 of them the message's; and not one of them is repeated.
    let left = 1000usize - 2 * (200 - HEADER);
    assert_eq!(after.len(), left.div_ceil(25 - HEADER));
    assert!(after.iter().all(|pull| pull.bytes.len() <= 25));
    // The frame that was on the line keeps its time; its acknowledgement is of the new rate.
    let answered = before[1].at + FAST.time_for(200) + LATENCY * 2 + SLOW.time_for(HEADER as u64);
    assert_eq!(after[0].at, answered);
    let gaps = after.windows(2).map(|pair| pair[1].at.since(pair[0].at));
    let cycle = SLOW.time_for(25) + SLOW.time_for(HEADER as u64) + LATENCY * 2;
    assert!(gaps.into_iter().all(|gap| gap == cycle));
}

#[test]
fn a_full_queue_of_one_neighbour_drops_its_messages_only() {
    let mut world = net(1, 3, 0.0);
    world.plan(Instant::from_millis(1), What::Kill { node: 1 });
    for number in 0..20 {
        let at = Instant::from_millis(2 + 50 * u64::from(number));
        world.offer(at, 0, message(0, 1, BULK, number, 200));
        world.offer(at, 0, message(0, 2, BULK, 100 + number, 100));
    }
    world.run_until(Instant::from_millis(2000));
    // One fills the window, the queue takes its limit, the others are too many.
    let dropped = world.log.dropped(0, DropCause::QueuePackets);
    assert_eq!(dropped, 20 - 1 - QUEUE as u64);
    assert_eq!(world.held(0), 1 + QUEUE as u64);
    assert_eq!(world.log.numbers(2, MESSAGE), Vec::from_iter(100..120));
    assert_eq!(world.log.forwarded(0), 20);
}

/// Chance decides messages, losses, a crash and a rate change.
fn storm(seed: u64, manners: Manners) -> World<Net> {
    let mut world = net(seed, 4, 0.1);
    world.manners = manners;
    let mut chance = Stream::new(seed, "shared.storm");
    for number in 0..60 {
        let at = Instant::from_nanos(chance.below(10_000_000_000));
        let node = chance.below(4) as u8;
        let to = (node + 1 + chance.below(3) as u8) % 4;
        let class = ClassId(chance.below(2) as u8);
        let octets = 32 + chance.below(160) as usize;
        world.offer(
            at,
            usize::from(node),
            message(node, to, class, number, octets),
        );
    }
    let at = Instant::from_nanos(chance.below(10_000_000_000));
    let pause = Duration::from_nanos(chance.below(1_000_000_000));
    world.kill(at, chance.below(4) as usize, pause);
    let at = Instant::from_nanos(chance.below(10_000_000_000));
    world.rate(at, SLOW);
    world.run_until(Instant::from_secs(600));
    let all = 0..4;
    let sent: u64 = all.clone().map(|node| world.log.forwarded(node)).sum();
    let causes = [DropCause::QueuePackets, DropCause::Undelivered];
    let dropped = |node| {
        causes
            .map(|cause| world.log.dropped(node, cause))
            .iter()
            .sum::<u64>()
    };
    let dropped: u64 = all.clone().map(dropped).sum();
    let crashed: u64 = world.log.crashed.iter().sum();
    assert_eq!(sent + dropped + crashed, 60);
    assert!(all.into_iter().all(|node| world.held(node) == 0));
    world
}

#[test]
fn runs_repeat_and_rest() {
    prove_run(storm);
}
