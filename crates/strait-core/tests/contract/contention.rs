//! Contention for access, in the manner of 802.11: the station that drew the fewest slots sends
//! first, and those that drew the same number collide. Asked for its frame at access, a node
//! decides late; a card that pulls ahead takes that away.

use std::collections::{BTreeMap, VecDeque};

use strait_core::chance::Stream;
use strait_core::delay::DelayPart;
use strait_core::fate::Origin;
use strait_core::id::TxId;
use strait_core::node::{Boot, NodeFactory, Notice, PortEvent, PortState};
use strait_core::rate::LineRate;
use strait_core::stats::Stats;
use strait_core::time::Duration;
use strait_core::{
    ClassId, DropCause, Effect, Fate, Input, Instant, NeighbourId, Neighbours, Node, Packet,
    PortId, Room, TxMeta, Wake, Want,
};

use crate::driver::{Manners, World, prove_run};
use crate::medium::{Agenda, Medium, What};
use crate::parts::{
    BULK, Desk, Full, LINK, Lanes, MESSAGE, URGENT, destination, from_host, message,
};

const FAST: LineRate = LineRate::new(11_000_000, 8);
const SLOW: LineRate = LineRate::new(1_000_000, 8);
const SLOT: Duration = Duration::from_micros(20);
const DIFS: Duration = Duration::from_micros(50);
/// From a frame's end to the end of its acknowledgement.
const ANSWER: Duration = Duration::from_micros(314);
const CW_MIN: u64 = 31;
const CW_MAX: u64 = 1023;
/// Times that a frame is sent before it is given up.
const TRIES_MAX: u32 = 7;
/// A frame takes about so long at most, but always one packet.
const AIR_TIME_MAX: Duration = Duration::from_millis(4);
const PACKET_MAX: usize = 1502;
const QUEUE: usize = 8;

/// A frame in a station's card.
#[derive(Debug)]
struct Carded {
    meta: TxMeta,
    bytes: Vec<u8>,
    tries: u32,
}

/// What the medium knows of a station.
#[derive(Debug, Default)]
struct Station {
    alive: bool,
    card: VecDeque<Carded>,
    /// Its node has something to send that isn't in the card.
    wanting: bool,
    /// It has access now: its node may be pulled.
    granted: bool,
    /// Slots to wait, if it contends.
    slots: Option<u64>,
}

/// Marks: the number of a plan in the upper bits.
const ACCESS: u64 = 0;
const RESOLVE: u64 = 1;
const OVER: u64 = 2;

struct Cell {
    rate: LineRate,
    stations: Vec<Station>,
    /// Frames that a card pulls ahead of access; 0 if it asks at access.
    card_queue: usize,
    chance: Stream,
    idle_since: Instant,
    busy: bool,
    /// Who sends now.
    on_air: Vec<usize>,
    plan: u64,
    collisions: u64,
    /// Air time of each transmission, collided ones included.
    air: Vec<(Instant, usize, Duration)>,
}

impl Cell {
    fn new(seed: u64, stations: usize, card_queue: usize) -> Self {
        Self {
            rate: FAST,
            stations: (0..stations).map(|_| Station::default()).collect(),
            card_queue,
            chance: Stream::new(seed, "cell.backoff"),
            idle_since: Instant::ZERO,
            busy: false,
            on_air: Vec::new(),
            plan: 0,
            collisions: 0,
            air: Vec::new(),
        }
    }

    fn window(tries: u32) -> u64 {
        (((CW_MIN + 1) << tries) - 1).min(CW_MAX)
    }

    /// Slots that have passed since the medium became idle, for those that contended all along.
    fn passed(&self, now: Instant) -> u64 {
        let idle = now.since(self.idle_since + DIFS);
        (idle.as_nanos() / SLOT.as_nanos()) as u64
    }

    /// Counts down what has passed and starts the count anew.
    fn count_down(&mut self, now: Instant) {
        if self.busy || now < self.idle_since + DIFS {
            return;
        }
        let passed = self.passed(now);
        for slots in self
            .stations
            .iter_mut()
            .filter_map(|station| station.slots.as_mut())
        {
            *slots = slots.saturating_sub(passed);
        }
        self.idle_since += SLOT * passed as u32;
    }

    /// Lets new contenders draw, and plans the next access.
    fn contend(&mut self, now: Instant, agenda: &mut Agenda) {
        if self.busy {
            return;
        }
        self.count_down(now);
        for station in &mut self.stations {
            let contends = station.alive && (station.wanting || !station.card.is_empty());
            if !contends {
                station.slots = None;
            } else if station.slots.is_none() {
                let tries = station.card.front().map_or(0, |frame| frame.tries);
                station.slots = Some(self.chance.below(Self::window(tries) + 1));
            }
        }
        self.plan += 1;
        let least = self
            .stations
            .iter()
            .filter_map(|station| station.slots)
            .min();
        if let Some(slots) = least {
            let at = (self.idle_since + DIFS + SLOT * slots as u32).max(now);
            agenda.plan(at, What::Medium(self.plan << 2 | ACCESS));
        }
    }

    /// Those with the fewest slots have access: their nodes are asked for a frame.
    fn grant(&mut self, now: Instant, agenda: &mut Agenda) {
        self.count_down(now);
        self.busy = true;
        let least = self
            .stations
            .iter()
            .filter_map(|station| station.slots)
            .min();
        for (node, station) in self.stations.iter_mut().enumerate() {
            let first = station.slots.is_some() && station.slots == least;
            if !first {
                station.slots = station.slots.map(|slots| slots - least.unwrap_or(0));
                continue;
            }
            station.slots = None;
            station.granted = true;
            agenda.plan(now, What::Room { node });
        }
        agenda.plan(now, What::Medium(self.plan << 2 | RESOLVE));
    }

    /// Whoever has access and a frame sends it.
    fn resolve(&mut self, now: Instant, agenda: &mut Agenda) {
        let mut over = now;
        self.on_air.clear();
        for (node, station) in self.stations.iter_mut().enumerate() {
            if !std::mem::take(&mut station.granted) {
                continue;
            }
            if let Some(frame) = station.card.front_mut() {
                frame.tries += 1;
                let time = self.rate.time_for(frame.bytes.len() as u64);
                self.air.push((now, node, time));
                self.on_air.push(node);
                over = over.max(now + time + ANSWER);
            }
        }
        self.collisions += u64::from(self.on_air.len() > 1);
        agenda.plan(over, What::Medium(self.plan << 2 | OVER));
    }

    /// A transmission has ended, its acknowledgement has come or not.
    fn over(&mut self, now: Instant, agenda: &mut Agenda) {
        let alone = self.on_air.len() == 1;
        for node in std::mem::take(&mut self.on_air) {
            let Some(mut frame) = self.stations[node].card.pop_front() else {
                continue;
            };
            let to = frame.meta.to.index();
            let ok = alone && self.stations.get(to).is_some_and(|station| station.alive);
            let id = frame.meta.id;
            if ok {
                let arrival = What::Arrive {
                    node: to,
                    from: NeighbourId(node as u16),
                    bytes: std::mem::take(&mut frame.bytes),
                };
                agenda.plan(now, arrival);
            } else if frame.tries < TRIES_MAX {
                self.stations[node].card.push_front(frame);
                continue;
            }
            agenda.plan(now, What::TxDone { node, id, ok });
            agenda.plan(now, What::Room { node });
        }
        self.busy = false;
        self.idle_since = now;
        self.contend(now, agenda);
    }
}

impl Medium for Cell {
    fn state(&self) -> PortState {
        PortState {
            tx_rate: self.rate,
            rx_rate: self.rate,
            frame_octets_max: 4096,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        }
    }

    fn join(&mut self, node: usize) {
        self.stations[node].alive = true;
    }

    fn room(&mut self, now: Instant, node: usize, _agenda: &mut Agenda) -> Option<Room> {
        let station = &self.stations[node];
        let free = if self.card_queue == 0 {
            station.granted && station.card.is_empty()
        } else {
            station.card.len() < self.card_queue
        };
        let octets = self.rate.octets_in(AIR_TIME_MAX) as usize;
        free.then_some(Room {
            octets: octets.max(PACKET_MAX),
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(
        &mut self,
        _now: Instant,
        node: usize,
        _room: Room,
        meta: TxMeta,
        frame: &[u8],
        _agenda: &mut Agenda,
    ) {
        self.stations[node].card.push_back(Carded {
            meta,
            bytes: frame.to_vec(),
            tries: 0,
        });
    }

    fn wanted(&mut self, now: Instant, node: usize, want: Option<Want>, agenda: &mut Agenda) {
        let station = &mut self.stations[node];
        station.wanting = want.is_some();
        let contends = station.wanting || !station.card.is_empty();
        if contends != station.slots.is_some() {
            self.contend(now, agenda);
        }
    }

    fn happen(&mut self, now: Instant, mark: u64, agenda: &mut Agenda) {
        if mark >> 2 != self.plan {
            return;
        }
        match mark & 3 {
            ACCESS => self.grant(now, agenda),
            RESOLVE => self.resolve(now, agenda),
            _ => self.over(now, agenda),
        }
    }

    /// What is on the air goes with the station; the medium is busy until its planned end.
    fn cut(&mut self, now: Instant, node: usize, agenda: &mut Agenda) {
        self.stations[node] = Station::default();
        self.on_air.retain(|sender| *sender != node);
        self.contend(now, agenda);
    }

    fn set_rate(&mut self, _now: Instant, rate: LineRate) {
        self.rate = rate;
    }
}

/// Sends as many packets of one class to one neighbour in a frame as there is room for.
#[derive(Debug)]
struct ContentionNode {
    desk: Desk,
    lanes: Lanes,
    full: Full,
    /// Frames whose outcome is open.
    flight: BTreeMap<TxId, Vec<Packet>>,
    next: TxId,
    up: bool,
}

/// Frames whose outcome may be open at once: more than any card of these tests holds.
const FLIGHT_MAX: usize = 4;

impl ContentionNode {
    fn new(full: Full) -> Self {
        Self {
            desk: Desk::new(),
            lanes: Lanes::new(QUEUE),
            full,
            flight: BTreeMap::new(),
            next: TxId(0),
            up: false,
        }
    }

    fn first(&self) -> Option<&Packet> {
        self.lanes
            .first()
            .filter(|_| self.up && self.flight.len() < FLIGHT_MAX)
    }

    fn take_from_host(&mut self, now: Instant, bytes: &[u8]) {
        if let Some(mut packet) = self.desk.admit(now, bytes, Origin::Port(PortId::HOST)) {
            packet.to = NeighbourId(u16::from(destination(&packet)));
            packet.enter(now, DelayPart::Turn);
            self.desk.enqueue(now, &mut self.lanes, packet);
        }
    }

    fn take_frame(&mut self, now: Instant, frame: &[u8]) {
        let mut rest = frame;
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let length = usize::from(u16::from_le_bytes(*length));
            let Some((packet, after)) = after.split_at_checked(length) else {
                self.desk.link().invalid += 1;
                return;
            };
            self.desk.admit_up(now, packet, Origin::Port(LINK));
            rest = after;
        }
    }

    fn tx_done(&mut self, now: Instant, id: TxId, ok: bool) {
        self.desk.link().tx_failed += u64::from(!ok);
        for packet in self.flight.remove(&id).unwrap_or_default() {
            let (port, to) = (LINK, packet.to);
            let fate = if ok {
                Fate::Forwarded { port, to }
            } else {
                Fate::Dropped(DropCause::Undelivered)
            };
            self.desk.ledger.close(now, packet, fate);
        }
    }
}

impl Node for ContentionNode {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if let Some(bytes) = from_host(&input) {
            return self.take_from_host(now, bytes);
        }
        match input {
            Input::Frame { bytes, .. } => self.take_frame(now, bytes),
            Input::TxDone { id, ok, .. } => self.tx_done(now, id, ok == Some(true)),
            Input::Port {
                port: LINK,
                event: PortEvent::Up(_),
            } => self.up = true,
            _ => {}
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        if port == PortId::HOST {
            return self.desk.want_up();
        }
        self.first().map(|packet| Want {
            class: packet.class,
            octets: packet.octets() as u32 + 2,
            to: packet.to,
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
        let first = self.first()?;
        let (class, to, began) = (first.class, first.to, out.len());
        let mut packets = Vec::new();
        let fits = |lanes: &Lanes, used: usize| {
            let next = lanes
                .first()
                .filter(|packet| (packet.class, packet.to) == (class, to));
            next.is_some_and(|packet| used + 2 + packet.octets() <= room.octets)
        };
        while fits(&self.lanes, out.len() - began) {
            let Some(mut packet) = self.lanes.pop() else {
                break;
            };
            packet.enter(room.starts, DelayPart::Line);
            out.extend((packet.octets() as u16).to_le_bytes());
            out.extend_from_slice(packet.bytes());
            packets.push(packet);
        }
        if packets.is_empty() {
            return None;
        }
        let id = self.next;
        self.next = TxId(id.0 + 1);
        self.flight.insert(id, packets);
        let turn = None;
        Some(TxMeta {
            to,
            class,
            id,
            turn,
        })
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
        let in_flight: usize = self.flight.values().map(Vec::len).sum();
        let inside = self.lanes.len() + in_flight + self.desk.up_len();
        assert_eq!(self.desk.ledger.held(), inside as u64);
    }
}

struct Maker(Full);

impl NodeFactory for Maker {
    fn boot(&self, _boot: Boot) -> Box<dyn Node> {
        Box::new(ContentionNode::new(self.0))
    }
}

fn cell(seed: u64, stations: usize, card_queue: usize, full: Full) -> World<Cell> {
    let maker = |_| Box::new(Maker(full)) as Box<dyn NodeFactory>;
    let makers = (0..stations).map(maker).collect();
    World::new(seed, Cell::new(seed, stations, card_queue), makers)
}

/// All of the time of the fates at `node` of `class` that was spent waiting for access.
fn urgent_delay(world: &World<Cell>) -> Duration {
    let urgent = world
        .log
        .fates
        .iter()
        .find(|(node, fate)| *node == 0 && fate.class == URGENT);
    urgent.map_or(Duration::ZERO, |(_, fate)| fate.ended.since(fate.began))
}

#[test]
fn asked_at_access_the_urgent_frame_is_next_and_a_card_that_pulls_ahead_loses_that() {
    let run = |card_queue| {
        let mut world = cell(1, 2, card_queue, Full::Refuse);
        world.rate(Instant::ZERO, SLOW);
        for number in 0..6 {
            world.offer(Instant::ZERO, 0, message(0, 1, BULK, number, 1400));
        }
        // While the first frame is on the air.
        world.offer(Instant::from_millis(5), 0, message(0, 1, URGENT, 9, 60));
        world.run_until(Instant::from_secs(1));
        world
    };
    let late = run(0);
    assert_eq!(late.log.numbers(1, MESSAGE), [0, 9, 1, 2, 3, 4, 5]);
    let early = run(3);
    assert_eq!(early.log.numbers(1, MESSAGE), [0, 1, 2, 9, 3, 4, 5]);
    // Two frames of 1402 octets more, at 1 Mbit/s.
    let more = urgent_delay(&early).saturating_sub(urgent_delay(&late));
    assert!(more >= SLOW.time_for(1402) * 2, "{more:?}");
}

#[test]
fn stations_that_draw_the_same_slot_collide_and_repeat() {
    let mut world = cell(2, 11, 0, Full::Refuse);
    for number in 0..80 {
        let node = 1 + number as usize % 10;
        world.offer(
            Instant::ZERO,
            node,
            message(node as u8, 0, BULK, number, 1000),
        );
    }
    world.run_until(Instant::from_secs(5));
    assert!(world.medium.collisions > 0);
    let mut numbers = world.log.numbers(0, MESSAGE);
    numbers.sort_unstable();
    let dropped: u64 = (1..11)
        .map(|node| world.log.dropped(node, DropCause::Undelivered))
        .sum();
    assert_eq!(numbers.len() as u64 + dropped, 80);
    numbers.dedup();
    assert_eq!(numbers.len() as u64 + dropped, 80, "a message came twice");
    // No transmission began while another was on the air, but for those of one slot.
    for pair in world.medium.air.windows(2) {
        let [(began, _, time), (next, _, _)] = pair else {
            continue;
        };
        assert!(next == began || *next >= *began + *time + DIFS);
    }
}

#[test]
fn after_the_last_try_the_node_hears_that_it_failed() {
    let mut world = cell(1, 2, 0, Full::Refuse);
    world.plan(Instant::from_nanos(1), What::Kill { node: 1 });
    world.offer(Instant::from_millis(1), 0, message(0, 1, BULK, 1, 500));
    world.run_until(Instant::from_secs(1));
    assert_eq!(world.medium.air.len() as u32, TRIES_MAX);
    assert_eq!(world.log.pulls.len(), 1);
    assert_eq!(world.log.dropped(0, DropCause::Undelivered), 1);
    let failed = world
        .node(0)
        .map(|node| node.stats().ports[LINK.index()].tx_failed);
    assert_eq!(failed, Some(1));
}

#[test]
fn a_killed_station_leaves_no_outcome_for_the_next() {
    for card_queue in [0, 3] {
        for at_us in (0..40_000).step_by(977) {
            let mut world = cell(1, 3, card_queue, Full::Refuse);
            world.rate(Instant::ZERO, SLOW);
            for number in 0..4 {
                world.offer(Instant::ZERO, 0, message(0, 1, BULK, number, 900));
                world.offer(Instant::ZERO, 2, message(2, 1, BULK, 100 + number, 900));
            }
            let at = Instant::from_nanos(at_us * 1000);
            world.kill(at, 0, Duration::from_micros(300));
            world.offer(
                at + Duration::from_micros(100),
                0,
                message(0, 1, BULK, 50, 900),
            );
            world.run_until(Instant::from_secs(2));
            let (sent, crashed) = (world.log.forwarded(0), world.log.crashed[0]);
            assert_eq!(sent + crashed, 5, "killed at {at_us} µs");
            let numbers = world.log.numbers(1, MESSAGE);
            let of_node = |from: u32| {
                numbers
                    .iter()
                    .filter(move |n| (from..from + 99).contains(*n))
            };
            assert_eq!(of_node(0).count() as u64, sent);
            assert_eq!(of_node(100).count(), 4);
            assert!(numbers.contains(&50));
        }
    }
}

#[test]
fn after_a_rate_change_frames_are_filled_for_the_new_rate() {
    let mut world = cell(1, 2, 0, Full::Refuse);
    for number in 0..40 {
        world.offer(Instant::ZERO, 0, message(0, 1, BULK, number, 1000));
    }
    // In the middle of a frame: it keeps its time.
    let at = Instant::from_millis(8);
    world.rate(at, SLOW);
    world.run_until(Instant::from_secs(2));
    assert_eq!(world.log.numbers(1, MESSAGE), Vec::from_iter(0..40));
    let air = &world.medium.air;
    let first_slow = air
        .iter()
        .position(|(began, ..)| *began >= at)
        .expect("a frame after it");
    let (began, _, time) = air[first_slow - 1];
    assert!(began + time > at, "no frame was on the air");
    for (index, (pull, (_, _, time))) in world.log.pulls.iter().zip(air).enumerate() {
        let octets = pull.len() as u64;
        let (rate, packets) = if index < first_slow {
            (FAST, 5)
        } else {
            (SLOW, 1)
        };
        assert_eq!(*time, rate.time_for(octets));
        assert!(
            octets <= packets * 1002,
            "frame {index} has {octets} octets"
        );
    }
    assert!(world.log.pulls.iter().any(|pull| pull.len() == 5 * 1002));
}

#[test]
fn a_full_queue_stops_the_host_or_drops_by_configuration() {
    for card_queue in [0, 3] {
        let run = |full| {
            let mut world = cell(1, 2, card_queue, full);
            for number in 0..30 {
                world.offer(
                    Instant::from_millis(1),
                    0,
                    message(0, 1, BULK, number, 1400),
                );
            }
            world.run_until(Instant::from_secs(1));
            world
        };
        let world = run(Full::Refuse);
        assert_eq!(world.log.numbers(1, MESSAGE), Vec::from_iter(0..30));
        assert!(world.log.waiting_max > 0);
        assert_eq!(world.log.dropped(0, DropCause::QueuePackets), 0);
        let world = run(Full::Drop);
        // A card takes the first three one by one, as they come.
        let kept = (QUEUE + card_queue) as u32;
        assert_eq!(world.log.numbers(1, MESSAGE), Vec::from_iter(0..kept));
        assert_eq!(
            world.log.dropped(0, DropCause::QueuePackets),
            u64::from(30 - kept)
        );
    }
}

/// Chance decides slots, messages, a crash and a rate change.
fn storm_with(seed: u64, manners: Manners, card_queue: usize) -> World<Cell> {
    let mut world = cell(seed, 4, card_queue, Full::Refuse);
    world.manners = manners;
    let mut chance = Stream::new(seed, "cell.storm");
    for number in 0..80 {
        let at = Instant::from_nanos(chance.below(50_000_000));
        let node = chance.below(4) as u8;
        let to = (node + 1 + chance.below(3) as u8) % 4;
        let class = ClassId(chance.below(2) as u8);
        let octets = 32 + chance.below(1400) as usize;
        world.offer(
            at,
            usize::from(node),
            message(node, to, class, number, octets),
        );
    }
    let at = Instant::from_nanos(chance.below(50_000_000));
    let pause = Duration::from_nanos(chance.below(10_000_000));
    world.kill(at, chance.below(4) as usize, pause);
    world.rate(Instant::from_nanos(chance.below(50_000_000)), SLOW);
    world.run_until(Instant::from_secs(10));
    let all = 0..4;
    let sent: u64 = all.clone().map(|node| world.log.forwarded(node)).sum();
    let dropped = all
        .clone()
        .map(|node| world.log.dropped(node, DropCause::Undelivered));
    let dropped: u64 = dropped.sum();
    assert_eq!(sent + dropped + world.log.crashed.iter().sum::<u64>(), 80);
    assert!(all.into_iter().all(|node| world.held(node) == 0));
    world
}

#[test]
fn runs_repeat_and_rest() {
    for card_queue in [0, 3] {
        prove_run(|seed, manners| storm_with(seed, manners, card_queue));
    }
}
