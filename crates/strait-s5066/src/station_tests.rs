//! Stations on a half-duplex medium in virtual time.

use super::*;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use strait_core::id::Neighbours;
use strait_core::rate::LineRate;
use strait_core::{Instant, Room};

use self::reach::{begin_reset, configure};
use crate::d_pdu::{Body, DPdu, parse};

const LEAD: Duration = Duration::from_millis(440);
const DELAY: Duration = Duration::from_millis(2);

/// Modem and channel.
#[derive(Clone, Copy)]
struct Air {
    rate: LineRate,
    block: Duration,
    bit_errors: f64,
}

impl Air {
    fn at(bit_s: u64, bit_errors: f64) -> Self {
        Self {
            rate: LineRate::new(bit_s, 8),
            block: Duration::from_millis(480),
            bit_errors,
        }
    }
}

enum Event {
    Advance(usize),
    Pull(usize),
    Arrive {
        to: usize,
        from: usize,
        turn: usize,
        bytes: Vec<u8>,
    },
    /// Of a transmission: its power is there, or gone.
    Carrier(usize, usize, bool),
    Drained(usize),
}

struct Keyed {
    starts: Instant,
    blocks: u32,
    block: u32,
    pending: Vec<u8>,
    turn: usize,
}

/// A C_PDU to send: to whom, octets, with ARQ.
type Message = (usize, Vec<u8>, bool);

struct World {
    air: Air,
    now: Instant,
    stations: Vec<Station<u32>>,
    queues: Vec<VecDeque<Message>>,
    keyed: Vec<Option<Keyed>>,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    chance: Stream,
    /// Who hears whom: `deaf[to][from]` hears nothing.
    deaf: Vec<Vec<bool>>,
    /// By station: the transmissions whose power is there.
    powers: Vec<BTreeSet<usize>>,
    /// By station: when which C_PDU came.
    came: Vec<Vec<(Instant, Vec<u8>)>>,
    outcomes: Vec<Vec<(u32, bool)>>,
    /// By mark: when its outcome was told.
    told: BTreeMap<u32, Instant>,
    tickets: u32,
    in_order: bool,
    /// From whom to whom what is to come in order goes, by mark.
    ordered: BTreeMap<u32, [usize; 2]>,
    /// By station: the first mark since it was restarted last.
    lives: Vec<u32>,
    copies: u32,
    collisions: u32,
    /// By transmission: another one was under way.
    spoilt: Vec<bool>,
    /// By transmission: when it began, from whom and to whom it was.
    begun: Vec<(Instant, usize, usize)>,
    /// Every transmission: who, when its octets began, its blocks.
    turns: Vec<(usize, Instant, u32)>,
    /// Types of D_PDUs sent.
    kinds: BTreeMap<u8, u32>,
    clients: Option<clients::Clients>,
}

fn address(number: usize) -> Address {
    Address::new(number as u32 + 1)
}

/// A D_PDU from one station of a world to another.
fn of([from, to]: [usize; 2], body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let d_pdu = DPdu {
        eow: 0,
        eot: 1,
        to: address(to),
        from: address(from),
        body,
    };
    d_pdu.put(&mut bytes);
    bytes
}

fn settings(number: usize) -> Settings {
    Settings::new(address(number))
}

impl World {
    fn new(air: Air, settings: Vec<Settings>) -> Self {
        let count = settings.len();
        let mut world = Self {
            air,
            now: Instant::ZERO,
            stations: Vec::new(),
            queues: alloc::vec![VecDeque::new(); count],
            keyed: (0..count).map(|_| None).collect(),
            events: BTreeMap::new(),
            serial: 0,
            chance: Stream::new(7, "air"),
            deaf: alloc::vec![alloc::vec![false; count]; count],
            powers: alloc::vec![BTreeSet::new(); count],
            came: alloc::vec![Vec::new(); count],
            outcomes: alloc::vec![Vec::new(); count],
            told: BTreeMap::new(),
            tickets: 0,
            in_order: false,
            ordered: BTreeMap::new(),
            lives: alloc::vec![0; count],
            copies: 1,
            collisions: 0,
            spoilt: Vec::new(),
            begun: Vec::new(),
            turns: Vec::new(),
            kinds: BTreeMap::new(),
            clients: None,
        };
        for (number, settings) in settings.into_iter().enumerate() {
            let station = world.station(number, settings, 0);
            world.stations.push(station);
        }
        world
    }

    fn pair(air: Air) -> Self {
        Self::new(air, alloc::vec![settings(0), settings(1)])
    }

    /// A station whose peers are all others, in order; its own place is everybody's address.
    fn station(&self, number: usize, settings: Settings, life: u64) -> Station<u32> {
        let peers: Vec<Address> = (0..self.keyed.len())
            .map(|peer| {
                if peer == number {
                    Address::BROADCAST
                } else {
                    address(peer)
                }
            })
            .collect();
        let mut station = Station::new(settings, &peers, 100 * life + number as u64);
        station.set_up(self.now, self.state());
        station
    }

    fn state(&self) -> PortState {
        PortState {
            tx_rate: self.air.rate,
            rx_rate: self.air.rate,
            frame_octets_max: 1 << 20,
            block: self.air.block,
            latency: DELAY + self.air.block,
            notice: strait_core::node::Notice::NONE,
        }
    }

    /// The transmissions under way.
    fn on_air(&self) -> Vec<usize> {
        let keyed = self.keyed.iter().flatten();
        keyed.map(|keyed| keyed.turn).collect()
    }

    fn restart(&mut self, number: usize, settings: Settings) {
        let station = self.station(number, settings, 1 + self.now.as_nanos());
        self.stations[number] = station;
        self.lives[number] = self.tickets;
        if let Some(clients) = &mut self.clients {
            clients.restart(self.now, number);
        }
        self.fall_silent(number);
        self.settle(number);
    }

    /// What a station was sending ends in the middle.
    fn fall_silent(&mut self, number: usize) {
        self.events.retain(|_, event| match event {
            Event::Pull(of) | Event::Drained(of) => *of != number,
            Event::Arrive { from, .. } => *from != number,
            Event::Carrier(..) | Event::Advance(_) => true,
        });
        let Some(keyed) = self.keyed[number].take() else {
            return;
        };
        for other in (0..self.keyed.len()).filter(|other| *other != number) {
            let over = Event::Carrier(other, keyed.turn, false);
            self.plan(self.now + Duration::from_millis(600), over);
        }
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.events.insert((at, self.serial), event);
        self.serial += 1;
    }

    fn offer(&mut self, from: usize, to: usize, octets: usize, arq: bool) {
        self.offer_of(0, [from, to], octets, arq);
    }

    /// As who has made an exclusive link does first (A.3.2.2.2).
    fn ask_hard_link(&mut self, from: usize, to: usize) {
        self.offer_of(crate::s_pdu::HARD_LINK, [from, to], 4, true);
    }

    /// Offers an S_PDU of a type.
    fn offer_of(&mut self, kind: u8, [from, to]: [usize; 2], octets: usize, arq: bool) {
        let mark = self.tickets.to_be_bytes();
        if arq && self.in_order {
            self.ordered.insert(self.tickets, [from, to]);
        }
        self.tickets += 1;
        let mut c_pdu = alloc::vec![0, kind << 4, 0x99, 0];
        c_pdu.extend_from_slice(&mark);
        c_pdu.resize(4 + octets.max(4), 0x5a);
        self.queues[from].push_back((to, c_pdu, arq));
        self.stations[from].advance(self.now);
        self.settle(from);
    }

    fn next_event(&self) -> Option<Instant> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    fn run(&mut self, until: Instant) {
        while let Some((&(at, _), _)) = self.events.first_key_value() {
            if at > until {
                break;
            }
            let Some((_, event)) = self.events.pop_first() else {
                break;
            };
            self.now = at;
            self.happen(event);
        }
        self.now = until;
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Advance(number) => {
                self.stations[number].advance(now);
                self.settle(number);
            }
            Event::Pull(number) => {
                self.stations[number].advance(now);
                self.pull(number);
            }
            Event::Arrive {
                to,
                from,
                turn,
                bytes,
            } => {
                let heard = self.keyed[to].is_none() && !self.spoilt[turn];
                if heard && !self.deaf[to][from] {
                    self.stations[to].hear(now, &bytes);
                    self.settle(to);
                }
            }
            Event::Carrier(number, turn, on) => {
                let powers = &mut self.powers[number];
                let before = !powers.is_empty();
                if on {
                    powers.insert(turn);
                } else {
                    powers.remove(&turn);
                }
                let power = !powers.is_empty();
                if power != before {
                    self.stations[number].hear_carrier(now, power);
                    self.settle(number);
                }
            }
            Event::Drained(number) => {
                self.keyed[number] = None;
                self.stations[number].drained(now);
                if !self.powers[number].is_empty() {
                    self.stations[number].hear_carrier(now, true);
                }
                self.settle(number);
            }
        }
    }

    fn settle(&mut self, number: usize) {
        let now = self.now;
        self.tend_clients(number);
        let station = &mut self.stations[number];
        while let Some(received) = station.poll_received() {
            self.came[number].push((now, received.c_pdu));
        }
        while let Some(outcome) = station.poll_outcome() {
            self.told.insert(outcome.ticket, now);
            self.outcomes[number].push((outcome.ticket, outcome.delivered));
        }
        for to in 0..station.peers() {
            let of_clients = clients::waiting(self.clients.as_ref(), number, to).count;
            if of_clients == 0 && !self.queues[number].iter().any(|it| it.0 == to) {
                station.end_calls(to);
            }
        }
        if self.keyed[number].is_none() && station.may_transmit() {
            self.key_up(number);
        }
        let of_clients = self.wake_of_clients(number);
        let wake = self.stations[number].wake().into_iter().chain(of_clients);
        if let Some(at) = wake.min() {
            assert!(
                at > now,
                "a wake-up in the past: {:?}",
                self.stations[number].access.phase()
            );
            self.plan(at, Event::Advance(number));
        }
    }

    /// What waits for a peer that data may go to, or that is to be called.
    fn head(&self, number: usize) -> Option<(usize, bool)> {
        let takes = |(to, _, arq): &&Message| self.stations[number].takes(*to, *arq);
        let head = self.queues[number].iter().find(takes);
        head.map(|(to, _, arq)| (*to, *arq))
    }

    fn key_up(&mut self, number: usize) {
        let head = self.head(number);
        let next = self.next_of_clients(number);
        let head = head.or_else(|| next.map(|next| (next.to, next.arq)));
        if let Some((to, true)) = head {
            self.stations[number].link(to);
        }
        let others = head.map(|head| head.0);
        let Some(to) = self.stations[number].to_whom(others.as_slice()) else {
            return;
        };
        let waiting = self.queues[number].iter().filter(|message| message.0 == to);
        let of_clients = self.waiting_of_clients(number, to);
        let waiting = waiting.fold(of_clients, |sum, it| {
            sum + Waiting {
                octets: it.1.len(),
                count: 1,
            }
        });
        let starts = self.now + LEAD;
        let room = Room {
            octets: 1 << 20,
            starts,
            until: None,
            to: Neighbours::ALL,
        };
        if !self.stations[number].begin(self.now, to, room, waiting) {
            return;
        }
        let turn = self.spoilt.len();
        self.keyed[number] = Some(Keyed {
            starts,
            blocks: 0,
            block: 0,
            pending: Vec::new(),
            turn,
        });
        let on_air = self.on_air();
        self.spoilt.push(false);
        self.begun.push((self.now, number, to));
        if on_air.len() > 1 {
            self.collisions += 1;
            on_air.iter().for_each(|turn| self.spoilt[*turn] = true);
        }
        self.pull(number);
        for other in (0..self.keyed.len()).filter(|other| *other != number) {
            if !self.deaf[other][number] {
                self.plan(
                    self.now + Duration::from_millis(500),
                    Event::Carrier(other, turn, true),
                );
            }
        }
    }

    /// Pulls until the block that begins next is full, and sends it.
    fn pull(&mut self, number: usize) {
        let Some(mut keyed) = self.keyed[number].take() else {
            return;
        };
        let (rate, block) = (self.air.rate, self.air.block);
        let upto = |blocks: u32| rate.octets_in(block * blocks) as usize;
        loop {
            let sent = upto(keyed.block) + keyed.pending.len();
            let full = upto(keyed.block + 1);
            if keyed.blocks > 0 && sent >= full {
                break;
            }
            while self.offer_of_clients(number) {}
            while let Some((to, arq)) = self.head(number) {
                let mut of = self.queues[number].iter();
                let place = of.position(|message| (message.0, message.2) == (to, arq));
                let Some((to, c_pdu, arq)) = place.and_then(|at| self.queues[number].remove(at))
                else {
                    break;
                };
                let ticket = u32::from_be_bytes(c_pdu[4..8].try_into().expect("a mark"));
                let offer = Offer {
                    to,
                    c_pdu,
                    arq,
                    expedited: false,
                    urgent: false,
                    in_order: self.in_order,
                    copies: self.copies,
                    ticket,
                };
                self.stations[number].offer(offer);
            }
            let room = Room {
                octets: if keyed.blocks == 0 {
                    1 << 20
                } else {
                    upto(keyed.blocks) - sent
                },
                starts: keyed.starts + rate.time_for(sent as u64),
                until: None,
                to: Neighbours::ALL,
            };
            let before = keyed.pending.len();
            let Some(turn) = self.stations[number].write(room, &mut keyed.pending) else {
                break;
            };
            assert_eq!(turn.key_up, keyed.blocks == 0);
            if turn.key_up {
                keyed.blocks = turn.blocks;
                self.turns.push((number, keyed.starts, turn.blocks));
            }
            assert_eq!(turn.blocks, keyed.blocks);
            assert!(sent + keyed.pending.len() - before <= upto(keyed.blocks));
            self.check_d_pdu(&keyed.pending[before..], room.starts, &keyed);
            if turn.last {
                break;
            }
        }
        let octets = upto(keyed.block + 1) - upto(keyed.block);
        let mut bytes: Vec<u8> = keyed
            .pending
            .drain(..octets.min(keyed.pending.len()))
            .collect();
        bytes.resize(octets, 0);
        keyed.block += 1;
        let ends = keyed.starts + block * keyed.block;
        for to in (0..self.keyed.len()).filter(|to| *to != number) {
            let mut bytes = bytes.clone();
            self.damage(&mut bytes);
            let turn = keyed.turn;
            let arrive = Event::Arrive {
                to,
                from: number,
                turn,
                bytes,
            };
            self.plan(ends + block + DELAY, arrive);
        }
        if keyed.block < keyed.blocks {
            self.plan(ends - Duration::from_millis(20), Event::Pull(number));
        } else {
            self.plan(ends, Event::Drained(number));
            for to in (0..self.keyed.len()).filter(|to| *to != number) {
                let over = Event::Carrier(to, keyed.turn, false);
                self.plan(ends + block + DELAY, over);
            }
        }
        self.keyed[number] = Some(keyed);
    }

    /// All that says when a transmission ends says the same.
    fn check_d_pdu(&mut self, bytes: &[u8], starts: Instant, keyed: &Keyed) {
        let Ok((d_pdu, octets)) = parse(bytes, false) else {
            assert!(bytes.is_empty(), "no D_PDU");
            return;
        };
        assert_eq!(octets, bytes.len());
        *self.kinds.entry(d_pdu.body.kind().number()).or_default() += 1;
        let left = (keyed.starts + self.air.block * keyed.blocks).since(starts);
        let half_seconds = left.as_nanos().div_ceil(500_000_000);
        assert_eq!(u128::from(d_pdu.eot), half_seconds);
    }

    fn damage(&mut self, bytes: &mut [u8]) {
        if self.air.bit_errors == 0.0 {
            return;
        }
        let mut at = 0.0;
        loop {
            at += -libm::log(1.0 - self.chance.unit()) / self.air.bit_errors;
            let place = at as usize;
            let Some(octet) = bytes.get_mut(place / 8) else {
                break;
            };
            *octet ^= 1 << (place % 8);
        }
    }

    /// Whether a station had what waits for order, as it has said, and has forgotten it since.
    fn is_forgotten(&self, mark: u32) -> bool {
        let to = self.ordered.get(&mark);
        to.is_some_and(|[_, to]| mark < self.lives[*to])
    }

    /// Whether what is to come in order from one station to another has done so.
    fn is_ordered(&self, from: usize, to: usize) -> bool {
        let marks = self.marks(to).into_iter();
        let ends = Some(&[from, to]);
        let marks = marks.filter(|mark| self.ordered.get(mark) == ends);
        marks.is_sorted()
    }

    /// Marks of what came to a station, in order.
    fn marks(&self, number: usize) -> Vec<u32> {
        let mark = |(_, c_pdu): &(Instant, Vec<u8>)| {
            u32::from_be_bytes(c_pdu[4..8].try_into().expect("a mark"))
        };
        self.came[number].iter().map(mark).collect()
    }

    /// Octets of C_PDUs that came to a station by a moment, and bit/s since the beginning.
    fn goodput(&self, number: usize) -> f64 {
        let octets: usize = self.came[number].iter().map(|(_, c_pdu)| c_pdu.len()).sum();
        let last = self.came[number]
            .last()
            .map_or(Instant::ZERO, |last| last.0);
        octets as f64 * 8.0 / last.as_secs_f64()
    }
}

/// Nothing came twice.
fn assert_once(marks: &[u32]) {
    let mut sorted = Vec::from(marks);
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_question_is_answered_in_two_turns() {
    let mut world = World::pair(Air::at(9600, 0.0));
    world.offer(0, 1, 100, true);
    world.run(Instant::from_secs(30));
    let asked = world.now;
    world.offer(0, 1, 84, true);
    world.run(asked + Duration::from_millis(1409));
    let came = world.came[1].last().expect("the question").0;
    // Key-up and preamble, one block, its decoding, the way.
    assert_eq!(came.since(asked), LEAD + world.air.block * 2 + DELAY);
    world.now = came;
    world.offer(1, 0, 84, true);
    world.run(asked + Duration::from_secs(10));
    let answered = world.came[0].last().expect("the answer").0;
    assert!(
        answered.since(asked) < Duration::from_secs(3),
        "{:?}",
        answered.since(asked)
    );
    assert_eq!(world.collisions, 0);
}

#[test]
fn bulk_over_bit_errors_uses_the_air_as_well_as_it_can() {
    for (bit_errors, octets, share) in [(0.0, 2042, 0.95), (1e-5, 2042, 0.88), (1e-4, 2042, 0.68)] {
        let mut world = World::pair(Air::at(9600, bit_errors));
        for _ in 0..1500 {
            world.offer(0, 1, octets, true);
        }
        world.run(Instant::from_secs(1800));
        let reached = world.goodput(1) / 9600.0;
        assert!(reached >= share, "{bit_errors}: {reached}");
        assert_once(&world.marks(1));
        assert_eq!(world.kinds.get(&0), None);
    }
}

#[test]
fn edition_3_alone_is_no_worse_than_measured_elsewhere() {
    for (bit_errors, share) in [(0.0, 0.93), (1e-6, 0.91), (1e-5, 0.70), (1e-4, 0.50)] {
        let plain = |number| Settings {
            long_numbers: false,
            ..settings(number)
        };
        let mut world = World::new(Air::at(9600, bit_errors), alloc::vec![plain(0), plain(1)]);
        for _ in 0..1500 {
            world.offer(0, 1, 2042, true);
        }
        world.run(Instant::from_secs(1800));
        let reached = world.goodput(1) / 9600.0;
        assert!(reached >= share, "{bit_errors}: {reached}");
        assert_once(&world.marks(1));
        assert_eq!(world.kinds.get(&9), None);
    }
}

#[test]
fn two_that_begin_together_both_get_through() {
    let mut world = World::pair(Air::at(9600, 0.0));
    for station in [0, 1] {
        for _ in 0..5 {
            world.offer(station, 1 - station, 500, true);
        }
    }
    assert_eq!(world.collisions, 1);
    world.run(Instant::from_secs(120));
    assert_eq!(world.marks(1), [0, 1, 2, 3, 4]);
    assert_eq!(world.marks(0), [5, 6, 7, 8, 9]);
    assert!(world.collisions <= 3, "{}", world.collisions);
}

#[test]
fn data_without_arq_need_no_link_and_can_be_sent_twice() {
    let mut world = World::pair(Air::at(9600, 2e-4));
    world.copies = 2;
    for _ in 0..200 {
        world.offer(0, 1, 300, false);
    }
    world.run(Instant::from_secs(600));
    let marks = world.marks(1);
    assert_once(&marks);
    // A copy is damaged with a probability of 0.42, its header alone with 0.03.
    assert!((140..195).contains(&marks.len()), "{}", marks.len());
    assert_eq!(world.outcomes[0].len(), 200);
    assert!(!world.stations[0].peer(1).is_some_and(Peer::is_linked));
    assert_eq!(Vec::from_iter(world.kinds.keys()), [&7]);
}

/// Offers expedited data as soon as the station takes it.
fn expedite(world: &mut World, from: usize, to: usize, mark: u32, octets: usize) {
    let mut c_pdu = alloc::vec![0, 0, 0x22, 0];
    c_pdu.extend_from_slice(&mark.to_be_bytes());
    c_pdu.resize(octets, 0x77);
    let offer = Offer {
        to,
        c_pdu,
        arq: true,
        expedited: true,
        urgent: false,
        in_order: false,
        copies: 1,
        ticket: mark,
    };
    world.stations[from].offer(offer);
    world.settle(from);
}

#[test]
fn expedited_data_goes_ahead_of_what_waits_and_comes_once() {
    for bit_errors in [0.0, 2e-4] {
        let mut world = World::pair(Air::at(9600, bit_errors));
        for _ in 0..100 {
            world.offer(0, 1, 1000, true);
        }
        world.run(Instant::from_secs(70));
        for mark in 1000..1020 {
            expedite(&mut world, 0, 1, mark, 500);
        }
        world.run(Instant::from_secs(1500));
        let (expedited, plain): (Vec<u32>, Vec<u32>) =
            world.marks(1).iter().partition(|mark| **mark >= 1000);
        assert_eq!(expedited, Vec::from_iter(1000..1020));
        assert_eq!(plain.len(), 100);
        assert_eq!(world.outcomes[0].len(), 120);
        assert!(world.outcomes[0].iter().all(|(_, delivered)| *delivered));
        let last = |least: u32| {
            let of = |(_, c_pdu): &&(Instant, Vec<u8>)| c_pdu[4..8] >= least.to_be_bytes()[..];
            world.came[1].iter().rfind(of).map(|(at, _)| *at)
        };
        assert!(last(1000) < last(0) || bit_errors > 0.0);
    }
}

#[test]
fn a_station_that_keeps_a_link_for_one_serves_and_takes_no_other() {
    let three = (0..3).map(settings).collect();
    let mut world = World::new(Air::at(9600, 0.0), three);
    let (peer, keeps) = (1, false);
    world.stations[0].set_exclusive(Some(Exclusive { peer, keeps }));
    world.ask_hard_link(0, 1);
    world.offer(0, 2, 500, true);
    world.run(Instant::from_secs(60));
    assert!(world.stations[0].peer(1).is_some_and(Peer::is_linked));
    assert_eq!(
        (world.marks(1), world.marks(2)),
        (alloc::vec![0], alloc::vec![])
    );
    // The third is rejected by either, as the called one was asked for the whole.
    world.offer(2, 0, 500, true);
    world.offer(2, 1, 500, true);
    world.run(Instant::from_secs(110));
    assert_eq!(
        (world.marks(0), world.marks(1)),
        (alloc::vec![], alloc::vec![0])
    );
    world.stations[0].set_exclusive(None);
    world.run(Instant::from_secs(900));
    assert_eq!(world.marks(2), [1]);
    assert_eq!(world.marks(0), [2]);
    assert_eq!(world.marks(1), [0, 3]);
}

#[test]
fn over_a_one_way_link_the_caller_gives_up_and_tries_again_later() {
    let mut world = World::pair(Air::at(9600, 0.0));
    world.deaf[0][1] = true;
    world.offer(0, 1, 300, true);
    world.run(Instant::from_secs(600));
    assert_eq!(world.marks(1), []);
    assert!(world.stations[0].stats().links_lost >= 2);
    // A caller that nobody answers leaves the air alone most of the time.
    let on_air: u32 = world
        .turns
        .iter()
        .filter(|turn| turn.0 == 0)
        .map(|turn| turn.2)
        .sum();
    assert!(
        world.air.block * on_air < Duration::from_secs(60),
        "{on_air}"
    );
    world.deaf[0][1] = false;
    world.run(Instant::from_secs(700));
    assert_eq!(world.marks(1), [0]);
    assert_eq!(world.outcomes[0], [(0, true)]);
}

#[test]
fn without_a_way_back_data_without_arq_still_arrive() {
    let mut world = World::pair(Air::at(1200, 0.0));
    world.deaf[0][1] = true;
    for _ in 0..10 {
        world.offer(0, 1, 100, false);
    }
    world.run(Instant::from_secs(60));
    assert_eq!(world.marks(1), Vec::from_iter(0..10));
}

#[test]
fn a_station_that_forgot_everything_is_linked_anew() {
    for (restarted, second) in (0..2).flat_map(|it| (8..60).step_by(3).map(move |s| (it, s))) {
        let mut world = World::pair(Air::at(9600, 0.0));
        for station in [0, 1] {
            for _ in 0..20 {
                world.offer(station, 1 - station, 1000, true);
            }
        }
        world.run(Instant::from_secs(second));
        world.restart(restarted, settings(restarted));
        world.run(Instant::from_secs(second + 300));
        for station in [0, 1] {
            world.offer(station, 1 - station, 1000, true);
            world.run(world.now + Duration::from_secs(100));
        }
        let ends = [world.marks(0), world.marks(1)];
        for (marks, last) in ends.iter().zip([41, 40]) {
            assert_once(marks);
            assert!(marks.contains(&last), "{restarted} at {second}: {marks:?}");
        }
        // Who wasn't restarted knows of each of its own: it arrived, or may have.
        let other = 1 - restarted;
        assert_eq!(world.outcomes[other].len(), 21, "{restarted} at {second}");
        for (ticket, delivered) in &world.outcomes[other] {
            assert!(!delivered || ends[restarted].contains(ticket));
        }
    }
}

#[test]
fn at_75_bit_s_a_packet_arrives() {
    let mut world = World::pair(Air {
        block: Duration::from_millis(530),
        ..Air::at(75, 0.0)
    });
    world.offer(0, 1, 84, true);
    world.run(Instant::from_secs(60));
    assert_eq!(world.marks(1), [0]);
    assert_eq!(world.collisions, 0);
}

#[test]
fn a_channel_that_gets_worse_gets_shorter_segments() {
    let mut world = World::pair(Air::at(9600, 0.0));
    for _ in 0..400 {
        world.offer(0, 1, 2042, true);
    }
    world.run(Instant::from_secs(300));
    // Of a frame with 1023 octets, one of 4000 arrives.
    world.air.bit_errors = 1e-3;
    let before = world.marks(1).len();
    world.run(Instant::from_secs(1500));
    let marks = world.marks(1);
    assert_once(&marks);
    assert!(marks.len() > before + 100, "{} after {before}", marks.len());
}

#[test]
fn three_stations_share_the_air() {
    let mut world = World::new(Air::at(9600, 0.0), (0..3).map(settings).collect());
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            for _ in 0..3 {
                world.offer(from, to, 600, true);
            }
        }
    }
    world.run(Instant::from_secs(600));
    for station in 0..3 {
        let marks = world.marks(station);
        assert_once(&marks);
        assert_eq!(marks.len(), 6, "{station}: {marks:?}");
    }
}

#[test]
fn data_in_order_come_in_order() {
    for long_numbers in [false, true] {
        let both = (0..2).map(|number| Settings {
            long_numbers,
            ..settings(number)
        });
        let mut world = World::new(Air::at(9600, 1e-4), both.collect());
        world.in_order = true;
        for _ in 0..200 {
            world.offer(0, 1, 700, true);
        }
        world.run(Instant::from_secs(900));
        assert_eq!(world.marks(1), Vec::from_iter(0..200));
    }
}

#[path = "station_reach_tests.rs"]
mod reach;

#[path = "station_storm_tests.rs"]
mod storms;

#[path = "station_slot_tests.rs"]
mod slots;

#[path = "station_access_tests.rs"]
mod access;

#[path = "station_call_tests.rs"]
mod calls;

#[path = "station_exchange_tests.rs"]
mod exchanges;

#[path = "station_dead_tests.rs"]
mod dead;

#[path = "station_forger_tests.rs"]
mod forgers;

#[path = "station_net_tests.rs"]
mod net;

#[path = "station_client_tests.rs"]
mod clients;

#[path = "station_fade_tests.rs"]
mod fades;

#[path = "station_clause_tests.rs"]
mod clauses;

#[path = "station_hard_tests.rs"]
mod hard;
#[path = "station_link_tests.rs"]
mod links;
#[path = "station_stranger_tests.rs"]
mod strangers;
#[path = "station_wait_tests.rs"]
mod waits;
