//! Two stations whose modems change their rate, on a medium whose signal-to-noise ratio a test
//! decides. A transmission's octets are drawn when it is keyed, and arrive when it is over.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;

use strait_core::id::Neighbours;
use strait_core::node::{FrameMeta, Notice, PortState};
use strait_core::waveform::{self, Bandwidth, Family, Interleaver, Mode, Waveform};
use strait_core::{Duration, Room};

use super::*;
use crate::d_pdu::{Body, DPdu, parse};
use crate::station::{Access, Csma, Order, Settings, Station, Waiting};
use crate::{Address, Offer};

/// Lets a station hear a management D_PDU of its peer; its message is valid, or it acknowledges.
fn hear_message(
    station: &mut Station<u32>,
    eow: u16,
    [valid, ack]: [bool; 2],
    frame: u8,
    message: &[u8],
) {
    let (peers, mut cx) = station.split();
    let peer = &mut peers[0];
    let body = Body::Management {
        extended: !message.is_empty(),
        valid,
        ack,
        frame,
        message,
    };
    let d_pdu = DPdu {
        eow,
        eot: 1,
        to: peer.ends().from,
        from: peer.ends().to,
        body,
    };
    peer.hear(&mut cx, &d_pdu, true);
}

const TURNAROUND: Duration = Duration::from_millis(200);
const LEAD: Duration = Duration::from_millis(440);
const DETECT: Duration = Duration::from_millis(500);
const SLOT: Duration = Duration::from_millis(600);

fn waveform(rate_bit_s: u32) -> Waveform {
    let narrow = Bandwidth::default();
    let found = waveform::find(Family::M110D, narrow, Interleaver::Short, rate_bit_s);
    found.expect("one of 110D's")
}

fn adapt() -> Adapt {
    let rates = waveform::rates(Family::M110D, Bandwidth::default());
    Adapt {
        ladder: rates.filter(|rate| *rate <= 9600).map(waveform).collect(),
        interleaver: 1,
        waveform: 7,
        agree: false,
        advice: false,
    }
}

fn settings(number: u32, adapt: Option<Adapt>) -> Settings {
    Settings {
        adapt,
        // Fixed rates lose links in a fade: how soon calls bring them back is another matter.
        early_data: false,
        ..Settings::new(Address::new(number + 1))
    }
}

enum Event {
    Advance(usize),
    Carrier(usize),
    Over(usize, Vec<u8>, Option<u32>),
    Drained(usize),
    /// Others, whom the first station can't decode, begin if the second doesn't answer it.
    Others,
    OthersOver,
}

/// Whether a D_PDU of a station is lost, for its number among all of that station's.
type Filter = Box<dyn Fn(usize, &DPdu<'_>, u64) -> bool>;

/// A transmission: who, when, its rate, its D_PDUs' types and order wires.
type Told = (usize, Instant, u32, Vec<(u8, Eow)>);

/// A medium whose own rate is this.
fn medium(own: u32) -> PortState {
    let mode = waveform(own).mode;
    PortState {
        tx_rate: mode.line_rate(),
        rx_rate: mode.line_rate(),
        frame_octets_max: 1 << 20,
        block: mode.block(),
        latency: mode.block(),
        notice: Notice::NONE,
    }
}

struct Pair {
    now: Instant,
    own: u32,
    stations: Vec<Station<u32>>,
    queues: [VecDeque<Vec<u8>>; 2],
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    /// Decibels at a moment, for both directions.
    snr_db: Box<dyn Fn(Instant) -> f64>,
    lost: Filter,
    sent: [u64; 2],
    keyed: [Option<usize>; 2],
    /// There are others, who begin behind the answer's slot.
    others: bool,
    spoilt: Vec<bool>,
    came: Vec<(Instant, Vec<u8>)>,
    turns: Vec<Told>,
}

impl Pair {
    /// Two stations that begin with a rate; in both directions the same ratio.
    fn new(settings: [Settings; 2], own: u32, snr_db: impl Fn(Instant) -> f64 + 'static) -> Self {
        Self::seeded(settings, own, snr_db, 0)
    }

    /// The same, where they draw by this seed.
    fn seeded(
        settings: [Settings; 2],
        own: u32,
        snr_db: impl Fn(Instant) -> f64 + 'static,
        seed: u64,
    ) -> Self {
        let mut stations = Vec::new();
        for (number, settings) in (0..).zip(settings) {
            let peer = [Address::new(2 - number)];
            stations.push(Station::new(settings, &peer, seed + u64::from(number)));
        }
        let up = |station: &mut Station<u32>| station.set_up(Instant::ZERO, medium(own));
        stations.iter_mut().for_each(up);
        Self {
            now: Instant::ZERO,
            own,
            stations,
            queues: Default::default(),
            events: BTreeMap::new(),
            serial: 0,
            snr_db: Box::new(snr_db),
            lost: Box::new(|_, _, _| false),
            sent: [0; 2],
            keyed: [None; 2],
            others: false,
            spoilt: Vec::new(),
            came: Vec::new(),
            turns: Vec::new(),
        }
    }

    fn offer(&mut self, from: usize, c_pdus: usize) {
        for _ in 0..c_pdus {
            let number = (self.queues[from].len() + self.came.len()) as u32;
            let mut c_pdu = vec![0, 0, 0x99, 0];
            c_pdu.extend_from_slice(&number.to_be_bytes());
            c_pdu.resize(1000, 0x5a);
            self.queues[from].push_back(c_pdu);
        }
        self.settle(from);
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.events.insert((at, self.serial), event);
        self.serial += 1;
    }

    fn run(&mut self, until: Instant) {
        while let Some((&(at, _), _)) = self.events.first_key_value()
            && at <= until
        {
            let Some((_, event)) = self.events.pop_first() else {
                break;
            };
            self.now = at;
            let number = match event {
                Event::Advance(number) => {
                    self.stations[number].advance(at);
                    number
                }
                Event::Carrier(number) => {
                    if self.keyed[number].is_none() {
                        self.stations[number].hear_carrier(at, true);
                    }
                    number
                }
                Event::Over(number, bytes, found) => {
                    if found.is_some() {
                        self.stations[number].measure(FrameMeta {
                            rate_bit_s: found,
                            snr_centi_db: Some(((self.snr_db)(at) * 100.0) as i16),
                            ..FrameMeta::default()
                        });
                        self.stations[number].hear(at, &bytes);
                        self.stations[number].hear_carrier(at, false);
                    }
                    number
                }
                Event::Drained(number) => {
                    self.keyed[number] = None;
                    self.stations[number].drained(at);
                    number
                }
                Event::Others if self.keyed.iter().all(Option::is_none) => {
                    self.stations[0].hear_carrier(at, true);
                    self.plan(at + Duration::from_secs(2), Event::OthersOver);
                    0
                }
                Event::Others => 0,
                Event::OthersOver => {
                    self.stations[0].hear_carrier(at, false);
                    0
                }
            };
            self.stations[number].advance(at);
            self.settle(number);
        }
        self.now = until;
    }

    fn settle(&mut self, number: usize) {
        while let Some(received) = self.stations[number].poll_received() {
            self.came.push((self.now, received.c_pdu));
        }
        while self.stations[number].poll_outcome().is_some() {}
        if self.keyed[number].is_none() && self.stations[number].may_transmit() {
            self.key_up(number);
        }
        if let Some(at) = self.stations[number].wake() {
            assert!(
                at > self.now,
                "{:?} {at:?}",
                self.stations[number].access.phase()
            );
            self.plan(at, Event::Advance(number));
        }
    }

    fn key_up(&mut self, number: usize) {
        let station = &mut self.stations[number];
        let head = !self.queues[number].is_empty() && station.takes(0, true);
        if head {
            station.link(0);
        }
        if !head && station.to_whom(&[]).is_none() {
            return;
        }
        let starts = self.now + LEAD;
        let room = |octets, starts| Room {
            octets,
            starts,
            until: None,
            to: Neighbours::ALL,
        };
        let octets: usize = self.queues[number].iter().map(Vec::len).sum();
        let count = self.queues[number].len();
        let waiting = Waiting { octets, count };
        let mode = waveform(self.own).mode;
        let all = room(mode.octets_in(200), starts);
        if !station.begin(self.now, 0, all, waiting) {
            return;
        }
        let (mut bytes, mut mode, mut blocks) = (Vec::new(), mode, 0);
        let mut d_pdus = Vec::new();
        loop {
            while self.stations[number].takes(0, true)
                && let Some(c_pdu) = self.queues[number].pop_front()
            {
                self.stations[number].offer(Offer {
                    to: 0,
                    c_pdu,
                    arq: true,
                    expedited: false,
                    urgent: false,
                    in_order: false,
                    copies: 1,
                    ticket: 0,
                });
            }
            let at = starts + mode.time_of_bits(bytes.len() as u64 * 8);
            let left = mode.octets_in(blocks).saturating_sub(bytes.len());
            let octets = if blocks == 0 { all.octets } else { left };
            let before = bytes.len();
            let Some(turn) = self.stations[number].write(room(octets, at), &mut bytes) else {
                break;
            };
            mode = turn.mode.unwrap_or(mode);
            assert!(blocks == 0 || blocks == turn.blocks);
            blocks = turn.blocks;
            assert!(bytes.len() <= mode.octets_in(blocks), "beyond its blocks");
            self.note(number, before, &mut bytes, &mut d_pdus);
            if turn.last {
                break;
            }
        }
        self.turns.push((number, self.now, mode.rate_bit_s, d_pdus));
        bytes.resize(mode.octets_in(blocks), 0);
        self.send(number, starts, mode, bytes);
    }

    /// Notes a D_PDU, and takes it out if it is to be lost.
    fn note(&mut self, number: usize, before: usize, bytes: &mut [u8], all: &mut Vec<(u8, Eow)>) {
        let Ok((d_pdu, _)) = parse(&bytes[before..], false) else {
            return;
        };
        all.push((d_pdu.body.kind().number(), Eow::parse(d_pdu.eow)));
        let lost = (self.lost)(number, &d_pdu, self.sent[number]);
        self.sent[number] += 1;
        if lost {
            bytes[before..].fill(0);
        }
    }

    fn send(&mut self, number: usize, starts: Instant, mode: Mode, mut bytes: Vec<u8>) {
        let turn = self.spoilt.len();
        self.spoilt.push(false);
        self.keyed[number] = Some(turn);
        if let [Some(one), Some(other)] = self.keyed {
            self.spoilt[one] = true;
            self.spoilt[other] = true;
        }
        let needs_db = f64::from(waveform(mode.rate_bit_s).awgn_db);
        let blocks = bytes.len() * 8 / mode.block_bits as usize;
        for block in 0..blocks as u32 {
            let at = starts + mode.time_of_bits(u64::from(mode.block_bits * block));
            if (self.snr_db)(at) < needs_db {
                bytes[mode.octets_in(block)..mode.octets_in(block + 1)].fill(0xff);
            }
        }
        let found = !self.spoilt[turn] && (self.snr_db)(self.now) >= -7.0;
        let ends = starts + mode.time_of_bits(bytes.len() as u64 * 8);
        let other = 1 - number;
        if found {
            self.plan(self.now + TURNAROUND + DETECT, Event::Carrier(other));
        }
        self.plan(ends, Event::Drained(number));
        if self.others && number == 0 {
            let known = ends + mode.block();
            self.plan(known + SLOT + TURNAROUND + DETECT, Event::Others);
        }
        self.plan(
            ends + mode.block(),
            Event::Over(other, bytes, found.then_some(mode.rate_bit_s)),
        );
    }
}

fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

/// A path that fades out and comes back in twenty minutes, with nothing at all for a minute.
fn evening(now: Instant) -> f64 {
    let points = [
        (0.0, 24.0),
        (120.0, 22.0),
        (300.0, 10.0),
        (420.0, 0.0),
        (480.0, -14.0),
        (540.0, -14.0),
        (600.0, 0.0),
        (780.0, 12.0),
        (1000.0, 20.0),
        (1200.0, 24.0),
    ];
    let seconds = now.as_secs_f64();
    let ahead = points.iter().position(|point| point.0 > seconds);
    let Some(ahead) = ahead else { return 24.0 };
    let ((from, low), (to, high)) = (points[ahead - 1], points[ahead]);
    low + (high - low) * (seconds - from) / (to - from)
}

/// C_PDUs of 1000 octets that arrived on it, and the pair; what stations draw is another for each
/// seed.
fn delivered(adapt: Option<&Adapt>, own: u32, seed: u64) -> (usize, Pair) {
    let both = [0, 1].map(|number| settings(number, adapt.cloned()));
    let mut pair = Pair::seeded(both, own, evening, seed);
    pair.offer(0, 2000);
    pair.run(at(1200));
    (pair.came.len(), pair)
}

#[test]
fn a_rate_that_follows_a_fade_delivers_more_than_any_fixed_one() {
    let all = |adapt: Option<&Adapt>, own| -> usize {
        let runs = (0..40).map(|seed| delivered(adapt, own, seed * 2).0);
        runs.sum()
    };
    let best = [75, 300, 600, 1200, 2400, 4800, 6400, 8000, 9600]
        .map(|rate| all(None, rate))
        .into_iter()
        .max();
    let best = best.expect("nine rates");
    let alone = all(Some(&adapt()), 2400);
    assert!(alone * 10 > best * 11, "{alone}, {best} by one rate");
    let (_, pair) = delivered(Some(&adapt()), 2400, 0);
    let changes = pair.stations[0].peers[0].rate.rate.changes();
    assert!(changes.up > 5 && changes.silent > 2, "{changes:?}");
    let with_advice = Adapt {
        advice: true,
        ..adapt()
    };
    let advised = all(Some(&with_advice), 2400);
    assert!(advised > alone, "{advised} with advice, {alone} without");
}

#[test]
fn it_never_stalls_in_a_fade_wherever_that_begins() {
    for start in 0..40 {
        // Nothing at all for two minutes.
        let out = at(20 + start * 3)..at(140 + start * 3);
        let (end, gone) = (out.end, out.clone());
        let snr_db = move |now| if gone.contains(&now) { -20.0 } else { 23.0 };
        let both = [0, 1].map(|number| settings(number, Some(adapt())));
        let mut pair = Pair::new(both, 9600, snr_db);
        pair.offer(0, 2000);
        pair.offer(1, 2000);
        pair.run(end + Duration::from_secs(400));
        // The longest pause after calls is half a minute.
        let mut last = Instant::ZERO;
        for (_, began, ..) in &pair.turns {
            assert!(began.since(last) < Duration::from_secs(70), "{start}");
            last = *began;
        }
        let back = pair.came.iter().find(|(came, _)| *came > end);
        let (back, _) = back.expect("something arrives again");
        // Two frames by the slowest rate, one turn of each station by each of the next.
        assert!(
            back.since(end) < Duration::from_secs(150),
            "{start} {:?}",
            back.since(end)
        );
        let fast = |turn: &&(usize, Instant, u32, _)| turn.1 > end && turn.2 == 9600;
        assert!(
            pair.turns.iter().any(|turn| fast(&turn)),
            "{start}: back up"
        );
    }
}

#[test]
fn an_answer_is_no_faster_than_what_it_answers() {
    // 75 bit/s is all that this path carries.
    let both = [0, 1].map(|number| settings(number, Some(adapt())));
    let mut pair = Pair::new(both, 75, |_| -6.0);
    let mut fast = Ladder::new(&settings(1, Some(adapt())));
    fast.set_medium(Some(medium(9600)));
    pair.stations[1].peers[0].rate.begin(&fast);
    pair.offer(0, 1);
    pair.run(at(400));
    assert_eq!(pair.came.len(), 1);
    let slow = pair.turns.iter().filter(|turn| turn.0 == 1);
    assert!(slow.map(|turn| turn.2).all(|rate| rate == 75));
}

/// Of a net whose waits are drawn.
fn of_net(number: u32) -> Settings {
    let csma = Csma {
        order: Order::Chance,
        slot: SLOT,
        slots: 4,
        slots_max: 16,
        exchange: Duration::from_secs(10),
    };
    Settings {
        access: Access::Csma(csma),
        turn_max: Duration::from_secs(15),
        ..settings(number, Some(adapt()))
    }
}

#[test]
fn those_that_meet_in_a_net_keep_their_rate_and_a_fade_still_lowers_it() {
    let both = || [0, 1].map(of_net);
    let mut pair = Pair::new(both(), 9600, |_| 24.0);
    for _ in 0..100 {
        (0..2).for_each(|from| pair.offer(from, 5));
        pair.run(pair.now + Duration::from_secs(20));
    }
    let met = pair.spoilt.iter().filter(|spoilt| **spoilt).count() as u64;
    let silent = |pair: &Pair, station: usize| {
        let rate = &pair.stations[station].peers[0].rate.rate;
        rate.changes().silent
    };
    assert!(met > 30, "{met}");
    // Three in a row may be a fade.
    let silences = silent(&pair, 0) + silent(&pair, 1);
    assert!(silences * 5 < met, "{silences} of {met}");
    let mut pair = Pair::new(both(), 2400, evening);
    pair.offer(0, 2000);
    pair.run(at(1200));
    assert!(silent(&pair, 0) > 0);
    let (alone, _) = delivered(Some(&adapt()), 2400, 0);
    let came = pair.came.len();
    assert!(came * 2 > alone, "{came}, {alone} between two");
}

#[test]
fn what_met_another_in_a_net_does_not_lower_the_rate() {
    for (garbled, falls) in [(true, 0), (false, 2)] {
        let settings = Settings {
            calls_max: 10,
            ..of_net(0)
        };
        let mut pair = Pair::new([settings, of_net(1)], 9600, |_| 24.0);
        let station = &mut pair.stations[0];
        station.link(0);
        let room = |starts| Room {
            octets: 1000,
            starts,
            until: None,
            to: Neighbours::ALL,
        };
        let mut now = at(10);
        // Two may always have met others.
        for _ in 0..4 {
            station.advance(now);
            assert!(station.begin(now, 0, room(now + LEAD), Waiting::default()));
            station.write(room(now + LEAD), &mut Vec::new());
            now += Duration::from_secs(2);
            station.drained(now);
            now += DETECT;
            if garbled {
                station.hear_carrier(now, true);
                station.hear_carrier(now + Duration::from_secs(2), false);
            }
            // What isn't answered is known, and what is waited for then is over.
            station.advance(now + Duration::from_secs(60));
            now += Duration::from_secs(300);
        }
        let changes = station.peers[0].rate.rate.changes();
        assert_eq!(changes.silent, falls, "{garbled}");
    }
}

#[test]
fn a_rate_that_a_path_of_a_net_does_not_carry_is_found_out_though_others_are_heard() {
    for (begins, others) in [(2400, false), (2400, true), (9600, false), (9600, true)] {
        // 3200 bit/s need 9 dB, 4800 need 13.
        let mut pair = Pair::new([0, 1].map(of_net), begins, |_| 12.0);
        pair.others = others;
        for _ in 0..60 {
            pair.offer(0, 4);
            pair.run(pair.now + Duration::from_secs(20));
        }
        let came = pair.came.len();
        assert!(came * 10 >= 240 * 9, "{begins} {others}: {came} of 240");
        let vain = |turn: &&Told| turn.0 == 0 && turn.2 > 3200;
        let late = |turn: &&Told| vain(turn) && turn.1 > at(600);
        let [vain, late] = [
            pair.turns.iter().filter(vain).count(),
            pair.turns.iter().filter(late).count(),
        ];
        // The pauses between what is tried in vain grow.
        assert!(vain <= 20, "{begins} {others}: {vain}");
        assert!(late <= 5, "{begins} {others}: {late} in the second half");
    }
}

#[test]
fn all_count_from_the_end_of_a_slow_answer_as_it_is_known() {
    let mut pair = Pair::new([0, 1].map(of_net), 2400, |_| 24.0);
    pair.offer(0, 1);
    pair.run(at(30));
    let answer = pair.turns.last().map(|turn| (turn.0, turn.2));
    assert_eq!(answer, Some((1, 300)), "blocks of 640 ms, not 480");
    let [one, other] = [0, 1].map(|number| pair.stations[number].access.ended());
    assert_eq!(one, other);
}

#[test]
fn what_was_cut_for_a_fast_rate_does_not_stall_a_slow_one() {
    for start in 0..20 {
        // From then on it carries 300 bit/s: 560 octets in a transmission.
        let low = at(20 + start);
        let snr_db = move |now| if now < low { 24.0 } else { 1.0 };
        let both = [0, 1].map(|number| Settings {
            turn_max: Duration::from_secs(15),
            ..settings(number, Some(adapt()))
        });
        let mut pair = Pair::new(both, 9600, snr_db);
        pair.offer(0, 400);
        pair.run(low + Duration::from_secs(600));
        let empty = pair.turns.iter().filter(|turn| turn.3.is_empty());
        assert_eq!(empty.count(), 0, "{start}");
        let late = low + Duration::from_secs(400);
        let came = pair.came.iter().filter(|(came, _)| *came > late);
        assert!(came.count() >= 3, "{start}");
    }
}

#[path = "rate_agreement_tests.rs"]
mod agreement;
