//! An octet stream: whatever was pulled may be cut after any octet, and the next octet is decided
//! when it goes.

use std::collections::VecDeque;

use proptest::prelude::*;
use strait_core::chance::Stream;
use strait_core::delay::DelayPart;
use strait_core::fate::Origin;
use strait_core::node::{Boot, NodeFactory, PortEvent, PortState};
use strait_core::rate::{Burst, LineRate};
use strait_core::stats::Stats;
use strait_core::time::Duration;
use strait_core::{
    ClassId, DropCause, Effect, Fate, Input, Instant, NeighbourId, Neighbours, Node, PortId, Room,
    TxMeta, Wake, Want,
};
use strait_wire::check::crc16;
use strait_wire::octets::{FLAG, Unstuffer, stuff_into};

use crate::driver::{Manners, World, prove_run};
use crate::medium::{Agenda, Medium, What};
use crate::parts::{BULK, Desk, Full, LINK, Lanes, MESSAGE, URGENT, from_host, message};

const FAST: LineRate = LineRate::new(9600, 10);
const SLOW: LineRate = LineRate::new(2400, 10);
/// A piece of a message takes about so long.
const PIECE_TIME: Duration = Duration::from_millis(50);
/// Class and marks, count, and the check of two octets.
const PIECE_OVERHEAD: usize = 4;
const QUEUE: usize = 8;

/// A line in both directions, each with its own burst.
struct Line {
    bursts: [Burst; 2],
    quantum: usize,
    latency: Duration,
}

impl Line {
    fn new(quantum: usize) -> Self {
        Self {
            bursts: [Burst::new(FAST, Instant::ZERO); 2],
            quantum,
            latency: Duration::from_micros(300),
        }
    }
}

impl Medium for Line {
    fn state(&self) -> PortState {
        let rate = self.bursts[0].rate();
        PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: u32::MAX,
            block: rate.time_for(1),
            latency: self.latency,
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
            octets: self.quantum,
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
        assert_eq!((meta.to, meta.turn), (NeighbourId::PEER, None));
        let end = self.bursts[node].push(now, frame.len() as u64);
        let arrival = What::Arrive {
            node: 1 - node,
            sender: node,
            from: NeighbourId::PEER,
            bytes: frame.to_vec(),
        };
        agenda.plan(end + self.latency, arrival);
    }

    fn cut(&mut self, now: Instant, node: usize, agenda: &mut Agenda) {
        let left_by = now + self.latency;
        agenda.forget(|at, what| {
            matches!(what, What::Arrive { sender, .. } if *sender == node && at > left_by)
        });
        self.bursts[node] = Burst::new(self.bursts[node].rate(), now);
    }

    fn set_rate(&mut self, _now: Instant, rate: LineRate) {
        self.bursts
            .iter_mut()
            .for_each(|burst| burst.set_rate(rate));
    }
}

/// The piece of a message that is on the line.
#[derive(Debug)]
struct Piece {
    class: ClassId,
    /// The message ends with it.
    ends: bool,
    octets: VecDeque<u8>,
}

/// Sends messages of two classes in pieces; between two pieces an urgent message goes first.
#[derive(Debug)]
struct OctetNode {
    desk: Desk,
    lanes: Lanes,
    full: Full,
    /// The sender's own account of the line; `None` while the port isn't up.
    burst: Option<Burst>,
    piece: Option<Piece>,
    /// Octets of each class's first message that stand in pieces already cut.
    offsets: [usize; 2],
    counts: [u8; 2],
    /// Nothing has been sent yet: the receiver may be inside an older frame.
    fresh: bool,
    unstuffer: Unstuffer,
    /// By class, a message that isn't complete and the count of its next piece.
    partial: [Option<(u8, Vec<u8>)>; 2],
}

impl OctetNode {
    fn new(full: Full) -> Self {
        Self {
            desk: Desk::new(),
            lanes: Lanes::new(QUEUE),
            full,
            burst: None,
            piece: None,
            offsets: [0; 2],
            counts: [0; 2],
            fresh: true,
            unstuffer: Unstuffer::new(600),
            partial: [None, None],
        }
    }

    /// Cuts the next piece, for the rate that the line has now.
    fn cut(&mut self, starts: Instant, rate: LineRate) -> Option<Piece> {
        let class = self.lanes.first()?.class;
        let index = class.index();
        let packet = self.lanes.front_of(class)?;
        packet.enter(starts, DelayPart::Line);
        let octets = (rate.octets_in(PIECE_TIME) as usize).clamp(8, 512);
        let from = self.offsets[index];
        let to = (from + octets).min(packet.octets());
        let ends = to == packet.octets();
        let marks = class.0 | u8::from(from == 0) << 1 | u8::from(ends) << 2;
        let mut body = vec![marks, self.counts[index]];
        body.extend_from_slice(&packet.bytes()[from..to]);
        let check = crc16(&body).to_le_bytes();
        body.extend(check);
        self.offsets[index] = if ends { 0 } else { to };
        self.counts[index] = self.counts[index].wrapping_add(1);
        let mut octets = Vec::new();
        if std::mem::take(&mut self.fresh) {
            octets.push(FLAG);
        }
        stuff_into(&body, &mut octets);
        octets.push(FLAG);
        Some(Piece {
            class,
            ends,
            octets: octets.into(),
        })
    }

    fn piece_is_out(&mut self, piece: &Piece, end: Instant) {
        if !piece.ends {
            if let Some(packet) = self.lanes.front_of(piece.class) {
                packet.enter(end, DelayPart::Class);
            }
            return;
        }
        if let Some(packet) = self.lanes.pop_of(piece.class) {
            let (port, to) = (LINK, NeighbourId::PEER);
            self.desk
                .ledger
                .close(end, packet, Fate::Forwarded { port, to });
        }
    }

    fn take_octets(&mut self, now: Instant, bytes: &[u8]) {
        let mut frames = Vec::new();
        self.unstuffer
            .feed(bytes, |frame| frames.push(frame.map(Vec::from)));
        for frame in frames {
            match frame {
                Ok(body) => self.take_piece(now, &body),
                Err(_) => self.desk.link().damaged += 1,
            }
        }
    }

    fn take_piece(&mut self, now: Instant, frame: &[u8]) {
        let body = frame.split_last_chunk::<2>();
        let Some((&[marks, count, ref data @ ..], _)) =
            body.filter(|(body, check)| crc16(body).to_le_bytes() == **check)
        else {
            self.desk.link().damaged += 1;
            return;
        };
        let partial = &mut self.partial[usize::from(marks & 1)];
        if marks & 2 != 0 {
            let lost = partial.replace((count, Vec::new()));
            self.desk.link().incomplete += u64::from(lost.is_some());
        }
        let Some((next, whole)) = partial.as_mut().filter(|(next, _)| *next == count) else {
            *partial = None;
            self.desk.link().incomplete += 1;
            return;
        };
        *next = next.wrapping_add(1);
        whole.extend_from_slice(data);
        if marks & 4 != 0
            && let Some((_, whole)) = partial.take()
        {
            self.desk.admit_up(now, &whole, Origin::Port(LINK));
        }
    }
}

impl Node for OctetNode {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if let Some(bytes) = from_host(&input) {
            if let Some(packet) = self.desk.admit(now, bytes, Origin::Port(PortId::HOST)) {
                self.desk.enqueue(now, &mut self.lanes, packet);
            }
            return;
        }
        match input {
            Input::Frame { bytes, .. } => self.take_octets(now, bytes),
            Input::Port {
                port: LINK,
                event: PortEvent::Up(state) | PortEvent::Changed(state),
            } => {
                let burst = self
                    .burst
                    .get_or_insert_with(|| Burst::new(state.tx_rate, now));
                burst.set_rate(state.tx_rate);
            }
            _ => {}
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        if port == PortId::HOST {
            return self.desk.want_up();
        }
        self.burst?;
        let class = match &self.piece {
            Some(piece) => piece.class,
            None => self.lanes.first()?.class,
        };
        Some(Want {
            class,
            octets: 1,
            to: NeighbourId::PEER,
        })
    }

    fn reads(&self, port: PortId) -> bool {
        port != PortId::HOST || self.full == Full::Drop || !self.lanes.is_full()
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
        let mut burst = self.burst.filter(|_| room.octets > 0)?;
        let mut piece = match self.piece.take() {
            Some(piece) => piece,
            None => self.cut(room.starts, burst.rate())?,
        };
        let octets = room.octets.min(piece.octets.len());
        out.extend(piece.octets.drain(..octets));
        let end = burst.push(room.starts, octets as u64);
        self.burst = Some(burst);
        let meta = TxMeta::to_peer(piece.class);
        if piece.octets.is_empty() {
            self.piece_is_out(&piece, end);
        } else {
            self.piece = Some(piece);
        }
        Some(meta)
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.desk.poll_effect()
    }

    fn wake(&self) -> Option<Wake> {
        None
    }

    fn stats(&self) -> &Stats {
        self.desk.ledger.stats()
    }

    fn check(&self) {
        let inside = self.lanes.len() + self.desk.up_len();
        assert_eq!(self.desk.ledger.held(), inside as u64);
    }
}

struct Maker(Full);

impl NodeFactory for Maker {
    fn boot(&self, _boot: Boot) -> Box<dyn Node> {
        Box::new(OctetNode::new(self.0))
    }
}

fn pair(seed: u64, quantum: usize, full: Full) -> World<Line> {
    let makers: Vec<Box<dyn NodeFactory>> = vec![Box::new(Maker(full)), Box::new(Maker(full))];
    World::new(seed, Line::new(quantum), makers)
}

/// Frames that node 0 sent, each with its first and last moment of being pulled, and octets on
/// the line.
fn frames_of(world: &World<Line>) -> Vec<(Instant, Vec<u8>, usize)> {
    let mut frames = Vec::new();
    let mut unstuffer = Unstuffer::new(600);
    let (mut began, mut octets) = (None, 0);
    for pull in world.log.pulls.iter().filter(|pull| pull.node == 0) {
        let began_at = *began.get_or_insert(pull.at);
        octets += pull.bytes.len();
        unstuffer.feed(&pull.bytes, |frame| {
            let body = frame.expect("node 0 frames well").to_vec();
            frames.push((began_at, body, octets));
        });
        if pull.bytes.ends_with(&[FLAG]) {
            (began, octets) = (None, 0);
        }
    }
    frames
}

#[test]
fn an_urgent_message_waits_for_one_piece_at_most() {
    let mut waited_max = Duration::ZERO;
    for us in (0..120_000).step_by(487) {
        let mut world = pair(1, 1, Full::Refuse);
        world.offer(Instant::ZERO, 0, message(1, 2, BULK, 1, 400));
        world.offer(Instant::ZERO, 0, message(1, 2, BULK, 2, 400));
        let at = Instant::from_nanos(us * 1000);
        world.offer(at, 0, message(1, 2, URGENT, 9, 40));
        world.run_until(Instant::from_secs(3));
        assert_eq!(world.log.numbers(1, MESSAGE), [9, 1, 2]);
        let longest = frames_of(&world).iter().map(|frame| frame.2).max();
        let bound = FAST.time_for(longest.unwrap_or(0) as u64);
        let urgent = world
            .log
            .fates
            .iter()
            .find(|(node, record)| *node == 0 && record.class == URGENT);
        let waited_ns = urgent.map_or(0, |(_, fate)| fate.parts.part_ns(DelayPart::Class));
        let waited = Duration::from_nanos(waited_ns);
        assert!(
            waited <= bound,
            "waited {waited:?}, a piece takes {bound:?}"
        );
        waited_max = waited_max.max(waited);
    }
    // The bound is reached: it isn't that nothing had to wait.
    assert!(waited_max > PIECE_TIME);
}

#[test]
fn the_stream_may_be_cut_after_any_octet() {
    for quantum in [1, 2, 3, 7, 64] {
        let mut world = pair(1, quantum, Full::Refuse);
        for number in 0..6 {
            let class = if number % 3 == 0 { URGENT } else { BULK };
            world.offer(Instant::ZERO, 0, message(1, 2, class, number, 200));
            world.offer(Instant::ZERO, 1, message(2, 1, class, number, 90));
        }
        world.run_until(Instant::from_secs(3));
        assert_eq!(world.log.numbers(1, MESSAGE), [0, 3, 1, 2, 4, 5]);
        assert_eq!(world.log.numbers(0, MESSAGE), [0, 3, 1, 2, 4, 5]);
        let stream = |node| -> Vec<u8> {
            let pulls = world.log.pulls.iter().filter(|pull| pull.node == node);
            pulls.flat_map(|pull| pull.bytes.clone()).collect()
        };
        // What goes over the line doesn't depend on how it is cut.
        let whole = pair_stream();
        assert_eq!([stream(0), stream(1)], whole);
    }
}

/// The octets of the run above, computed from the framing alone.
fn pair_stream() -> [Vec<u8>; 2] {
    [200, 90].map(|octets| {
        let mut line = vec![FLAG];
        let mut counts = [0u8; 2];
        let (src, dst) = if octets == 200 { (1, 2) } else { (2, 1) };
        for (number, class) in [
            (0, URGENT),
            (3, URGENT),
            (1, BULK),
            (2, BULK),
            (4, BULK),
            (5, BULK),
        ] {
            let bytes = message(src, dst, class, number, octets);
            let pieces: Vec<&[u8]> = bytes.chunks(48).collect();
            for (at, piece) in pieces.iter().enumerate() {
                let last = at + 1 == pieces.len();
                let marks = class.0 | u8::from(at == 0) << 1 | u8::from(last) << 2;
                let mut body = vec![marks, counts[class.index()]];
                counts[class.index()] += 1;
                body.extend_from_slice(piece);
                let check = crc16(&body).to_le_bytes();
                body.extend(check);
                stuff_into(&body, &mut line);
                line.push(FLAG);
            }
        }
        line
    })
}

#[test]
fn a_killed_sender_starts_anew_in_the_middle_of_a_frame() {
    for at_ms in (100..400).step_by(7) {
        let mut world = pair(1, 1, Full::Refuse);
        for number in 0..4 {
            world.offer(Instant::ZERO, 0, message(1, 2, BULK, number, 150));
        }
        let at = Instant::from_millis(at_ms);
        world.kill(at, 0, Duration::from_millis(20));
        world.offer(
            at + Duration::from_millis(5),
            0,
            message(1, 2, BULK, 10, 150),
        );
        world.run_until(Instant::from_secs(3));
        let (sent, crashed) = (world.log.forwarded(0), world.log.crashed[0]);
        assert_eq!(sent + crashed, 5);
        assert!(crashed >= 1, "killed at {at_ms} ms");
        let arrived = world.log.numbers(1, MESSAGE);
        // All that was forwarded arrived but for one whose last octet was still leaving.
        let cut = sent - arrived.len() as u64;
        assert!(cut <= 1 && arrived.last() == Some(&10), "{arrived:?}");
        let counted = world.node(1).map(|node| {
            let port = &node.stats().ports[LINK.index()];
            port.damaged + port.incomplete
        });
        assert!(counted <= Some(2), "{counted:?} at {at_ms} ms");
    }
}

#[test]
fn a_killed_receiver_finds_the_next_message() {
    let mut world = pair(1, 1, Full::Refuse);
    for number in 0..6 {
        world.offer(Instant::ZERO, 0, message(1, 2, BULK, number, 150));
    }
    world.kill(Instant::from_millis(300), 1, Duration::from_millis(40));
    world.run_until(Instant::from_secs(3));
    // Message 1 was on its way: this sender knows no repetition.
    assert_eq!(world.log.numbers(1, MESSAGE), [0, 2, 3, 4, 5]);
    assert_eq!(world.log.forwarded(0), 6);
    let lost = world.node(1).map(|node| {
        let port = &node.stats().ports[LINK.index()];
        port.damaged + port.incomplete
    });
    assert!(lost >= Some(1));
}

#[test]
fn after_a_rate_change_a_new_burst_begins_and_pieces_are_cut_for_the_new_rate() {
    let mut world = pair(1, 1, Full::Refuse);
    world.offer(Instant::ZERO, 0, message(1, 2, BULK, 1, 400));
    // Octet 100 leaves from 103.125 to 104.167 ms.
    world.rate(Instant::from_millis(104), SLOW);
    world.run_until(Instant::from_secs(5));
    assert_eq!(world.log.numbers(1, MESSAGE), [1]);
    let turned = Instant::ZERO + FAST.time_for(100);
    for (index, pull) in world.log.pulls.iter().enumerate() {
        let starts = match index as u64 {
            octet @ 0..=100 => Instant::ZERO + FAST.time_for(octet),
            octet => turned + SLOW.time_for(octet - 100),
        };
        assert_eq!(pull.at, starts, "octet {index}");
    }
    let ended = world.log.fates[0].1.ended;
    let octets = world.log.pulls.len() as u64;
    assert_eq!(ended, turned + SLOW.time_for(octets - 100));
    let data: Vec<(bool, usize)> = frames_of(&world)
        .iter()
        .map(|(at, body, _)| (*at < turned, body.len() - PIECE_OVERHEAD))
        .collect();
    let (last, whole) = data.split_last().expect("pieces were sent");
    assert!(last.1 <= 12);
    for (before, octets) in whole {
        assert_eq!(*octets, if *before { 48 } else { 12 });
    }
    assert!(whole.iter().any(|(before, _)| *before) && whole.iter().any(|(before, _)| !*before));
}

#[test]
fn a_full_queue_stops_the_host_or_drops_by_configuration() {
    let run = |full| {
        let mut world = pair(1, 1, full);
        for number in 0..30 {
            world.offer(Instant::ZERO, 0, message(1, 2, BULK, number, 60));
        }
        world.run_until(Instant::from_secs(5));
        world
    };
    let world = run(Full::Refuse);
    assert_eq!(world.log.numbers(1, MESSAGE), Vec::from_iter(0..30));
    assert_eq!(world.log.waiting_max, 30 - QUEUE);
    assert_eq!(world.log.forwarded(0), 30);
    let world = run(Full::Drop);
    assert_eq!(
        world.log.numbers(1, MESSAGE),
        Vec::from_iter(0..QUEUE as u32)
    );
    assert_eq!(world.log.waiting_max, 0);
    assert_eq!(
        world.log.dropped(0, DropCause::QueuePackets),
        30 - QUEUE as u64
    );
    assert_eq!(world.log.forwarded(0), QUEUE as u64);
}

#[test]
fn a_pull_without_result_changes_nothing() {
    let mut node = OctetNode::new(Full::Refuse);
    let state = Line::new(1).state();
    let room = |octets| Room {
        octets,
        starts: Instant::ZERO,
        until: None,
        to: Neighbours::ALL,
    };
    let mut out = vec![7];
    let mut pull_nothing = |node: &mut OctetNode, room| {
        let before = format!("{node:?}");
        assert_eq!(
            node.poll_transmit(Instant::ZERO, LINK, room, &mut out),
            None
        );
        assert_eq!((format!("{node:?}"), &out[..]), (before, &[7][..]));
    };
    pull_nothing(&mut node, room(100));
    let bytes = message(1, 2, BULK, 1, 60);
    let port = PortId::HOST;
    let (from, meta) = (NeighbourId::PEER, strait_core::node::FrameMeta::default());
    let bytes = &bytes[..];
    node.handle(
        Instant::ZERO,
        Input::Frame {
            port,
            from,
            bytes,
            meta,
        },
    );
    // The port isn't up yet.
    pull_nothing(&mut node, room(100));
    let event = PortEvent::Up(state);
    node.handle(Instant::ZERO, Input::Port { port: LINK, event });
    pull_nothing(&mut node, room(0));
    let mut out = Vec::new();
    assert!(
        node.poll_transmit(Instant::ZERO, LINK, room(3), &mut out)
            .is_some()
    );
    assert_eq!(out.len(), 3);
}

/// Chance decides messages, a crash and a rate change.
fn storm(seed: u64, manners: Manners) -> World<Line> {
    let mut world = pair(seed, 1, Full::Refuse);
    world.manners = manners;
    let mut chance = Stream::new(seed, "octets.storm");
    for number in 0..40 {
        let at = Instant::from_nanos(chance.below(4_000_000_000));
        let node = chance.below(2) as usize;
        let class = ClassId(chance.below(2) as u8);
        let octets = 32 + chance.below(200) as usize;
        world.offer(at, node, message(1, 2, class, number, octets));
    }
    let at = Instant::from_nanos(1_000_000_000 + chance.below(2_000_000_000));
    world.kill(at, chance.below(2) as usize, Duration::from_millis(100));
    let at = Instant::from_nanos(1_000_000_000 + chance.below(2_000_000_000));
    world.rate(at, SLOW);
    world.run_until(Instant::from_secs(60));
    let sent = world.log.forwarded(0) + world.log.forwarded(1);
    assert_eq!(sent + world.log.crashed.iter().sum::<u64>(), 40);
    assert_eq!((world.held(0), world.held(1)), (0, 0));
    world
}

#[test]
fn runs_repeat_and_rest() {
    prove_run(storm);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..<_>::default() })]
    #[test]
    fn any_cut_and_any_kill_keep_the_account(
        quantum in 1..70_usize, at_ns in 0..900_000_000_u64, victim in 0..2_usize,
        octets in proptest::collection::vec(32..300_usize, 1..8),
    ) {
        let mut world = pair(1, quantum, Full::Refuse);
        for (number, octets) in octets.iter().enumerate() {
            let class = ClassId((octets % 2) as u8);
            world.offer(Instant::ZERO, 0, message(1, 2, class, number as u32, *octets));
        }
        world.kill(Instant::from_nanos(at_ns), victim, Duration::from_millis(3));
        world.run_until(Instant::from_secs(10));
        let ended = world.log.forwarded(0) + world.log.crashed[0];
        prop_assert_eq!(ended, octets.len() as u64);
        let mut arrived = world.log.numbers(1, MESSAGE);
        let count = arrived.len();
        prop_assert!(count as u64 <= world.log.forwarded(0));
        arrived.sort_unstable();
        arrived.dedup();
        prop_assert_eq!(arrived.len(), count, "a message came twice");
    }
}
