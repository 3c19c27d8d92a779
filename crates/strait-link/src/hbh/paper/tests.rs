//! Two ends, and a link between them that a test has in its hands.

use alloc::collections::BTreeMap;
use alloc::vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use strait_core::fate::{Ledger, Origin};
use strait_wire::hbh::Session as Names;
use strait_wire::ip;

use super::super::{Outcome, Reliability};
use super::*;

/// One way over the link, in milliseconds.
const WAY_MS: u64 = 50;
const NS: Duration = Duration::from_nanos(1);

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn packet(now: Instant, number: u16) -> Packet {
    let socket = |last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 7);
    let payload = number.to_be_bytes();
    let mut octets = Vec::new();
    ip::build_udp(
        socket(1),
        socket(2),
        0,
        64,
        number,
        0,
        &payload,
        &mut octets,
    );
    let Ok(packet) = Ledger::default().admit(now, octets, Origin::Own) else {
        panic!("a packet");
    };
    packet
}

/// What a packet of [`packet`] was numbered.
fn number(octets: &[u8]) -> u16 {
    u16::from_be_bytes([octets[28], octets[29]])
}

struct End {
    hop: Hop,
    queue: Vec<(u16, Manner)>,
    came: Vec<u16>,
    done: BTreeMap<u16, Outcome>,
    /// Those with a packet.
    sent: u64,
    duplicates: u64,
}

impl End {
    fn new(settings: Settings, incarnation: u32) -> Self {
        let mut hop = Hop::new(settings, incarnation);
        hop.set_up(ms(0));
        Self {
            hop,
            queue: Vec::new(),
            came: Vec::new(),
            done: BTreeMap::new(),
            sent: 0,
            duplicates: 0,
        }
    }

    fn queue(&mut self, numbers: impl IntoIterator<Item = u16>, flow: u32) {
        let manner = Manner {
            flow: Some(flow),
            ..Manner::default()
        };
        self.queue
            .extend(numbers.into_iter().map(|it| (it, manner)));
    }

    fn pull(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if self.hop.has_control(now) {
            self.hop.control(now, &mut out)?;
            return Some(out);
        }
        let again = self.hop.again(ClassId(0)).map(|(number, _)| number);
        let first = self.queue.first().and_then(|(_, manner)| manner.flow);
        let takes = first.is_some_and(|flow| self.hop.takes(flow as u16));
        let place = match again {
            Some(place) => place,
            None if takes => {
                let (number, manner) = self.queue.remove(0);
                self.hop.begin(packet(now, number), manner)
            }
            None => return None,
        };
        let last = self.queue.is_empty();
        self.hop.transmit(now, place, last, &mut out)?;
        self.hop.left(now);
        self.sent += 1;
        Some(out)
    }

    fn hear(&mut self, now: Instant, frame: &[u8]) {
        self.hop.advance(now);
        match self.hop.hear(now, frame, |_, _| true) {
            Heard::Packet(_, octets) => {
                self.hop.accept(Some(packet(now, number(&octets))));
            }
            Heard::Duplicate => self.duplicates += 1,
            _ => {}
        }
        self.collect();
    }

    fn collect(&mut self) {
        let came = self.hop.released().map(|it| number(it.bytes()));
        self.came.extend(came);
        for (packet, _, outcome) in self.hop.done() {
            let before = self.done.insert(number(packet.bytes()), outcome);
            assert_eq!(before, None, "one outcome for each packet");
        }
        self.hop.check();
    }
}

/// What becomes of a frame: arrivals, in milliseconds after the usual one.
type Fate = Vec<u64>;

struct Pair {
    now_ms: u64,
    ends: [End; 2],
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    frames: u64,
}

impl Pair {
    fn new(settings: Settings) -> Self {
        Self {
            now_ms: 0,
            ends: [End::new(settings, 1), End::new(settings, 2)],
            flying: BTreeMap::new(),
            frames: 0,
        }
    }

    /// With both ends knowing each other.
    fn known(settings: Settings) -> Self {
        let mut pair = Self::new(settings);
        pair.run(1000, |_, _| vec![0]);
        assert!(pair.ends.iter().all(|end| end.hop.is_known()));
        pair
    }

    /// One frame goes each way each millisecond at most.
    fn run(&mut self, ms: u64, mut fate: impl FnMut(usize, &[u8]) -> Fate) {
        for _ in 0..ms {
            let now = Instant::from_millis(self.now_ms);
            while let Some(entry) = self.flying.first_entry() {
                if entry.key().0 > self.now_ms {
                    break;
                }
                let (to, frame) = entry.remove();
                self.ends[to].hear(now, &frame);
            }
            for from in 0..2 {
                let end = &mut self.ends[from];
                end.hop.advance(now);
                end.collect();
                let frame = end.pull(now);
                end.collect();
                let due = end.hop.wake().filter(|wake| wake.at <= now);
                assert_eq!(due, None, "what is due has been done, or waits for room");
                for later_ms in frame.iter().flat_map(|frame| fate(from, frame)) {
                    self.frames += 1;
                    let at = self.now_ms + WAY_MS + later_ms;
                    let frame = frame.clone().unwrap_or_default();
                    self.flying.insert((at, self.frames), (1 - from, frame));
                }
            }
            self.now_ms += 1;
        }
    }

    fn names(&self, of: usize) -> Names {
        self.ends[of].hop.session.outbound().unwrap()
    }
}

/// The number of the packet in a frame, if one is in it.
fn carried(frame: &[u8]) -> Option<u16> {
    (frame[0] == 0x45).then(|| u16::from_be_bytes([frame[36], frame[37]]))
}

/// Loses the packets with these numbers the first time.
fn losing(numbers: &[u16]) -> impl FnMut(usize, &[u8]) -> Fate {
    let mut left = numbers.to_vec();
    move |_, frame| {
        let lost = left.iter().position(|it| Some(*it) == carried(frame));
        match lost {
            Some(place) => {
                left.remove(place);
                Fate::new()
            }
            None => vec![0],
        }
    }
}

#[test]
fn packets_are_handed_on_as_they_come_and_repeated_after_their_timeout() {
    let mut pair = Pair::known(Settings::default());
    pair.ends[0].queue(0..5, 1);
    pair.run(700, losing(&[1]));
    assert_eq!(pair.ends[1].came, [0, 2, 3, 4]);
    // Its first timeout is a second.
    pair.run(500, |_, _| vec![0]);
    assert_eq!(pair.ends[1].came, [0, 2, 3, 4, 1]);
    assert_eq!((pair.ends[0].sent, pair.ends[0].done.len()), (6, 5));
    assert_eq!(pair.ends[1].duplicates, 0);
}

#[test]
fn an_acknowledgement_goes_when_it_is_asked_for_and_only_then() {
    let mut pair = Pair::known(Settings::default());
    let before = pair.ends[1].hop.counts().control;
    // Two windows of 8, and the last of all.
    pair.ends[0].queue(0..17, 1);
    pair.run(1000, |_, _| vec![0]);
    assert_eq!(pair.ends[0].done.len(), 17);
    assert_eq!(pair.ends[1].hop.counts().control - before, 3);
}

#[test]
fn a_window_holds_back_its_own_flow_only() {
    let mut pair = Pair::known(Settings::default());
    pair.ends[0].queue(0..9, 1);
    pair.run(20, |_, _| vec![0]);
    let hop = &pair.ends[0].hop;
    assert_eq!((hop.held(), hop.takes(1), hop.takes(2)), (8, false, true));
}

#[test]
fn a_packet_is_given_up_after_its_retries() {
    let settings = Settings {
        timeout: Some(Duration::from_millis(110)),
        retries: 2,
        ..Settings::default()
    };
    let mut pair = Pair::known(settings);
    pair.ends[0].queue([0], 1);
    let begin = ms(pair.now_ms);
    pair.run(1, |_, _| Fate::new());
    let end = &mut pair.ends[0];
    for round in 1..=3 {
        let due = begin + Duration::from_millis(110 * round);
        assert_eq!(end.hop.wake().map(|wake| wake.at), Some(due));
        end.hop.advance(due - NS);
        assert_eq!(end.hop.again(ClassId(0)), None);
        end.hop.advance(due);
        assert_eq!(end.pull(due).is_some(), round < 3);
    }
    end.collect();
    assert_eq!(end.done[&0], Outcome::Undelivered);
    assert_eq!((end.sent, end.hop.counts().repeated), (3, 2));
    // Those behind it are acknowledged as if it had never been.
    end.queue(1..4, 1);
    pair.run(500, |_, _| vec![0]);
    assert_eq!(pair.ends[1].came, [1, 2, 3]);
    assert_eq!(pair.ends[0].done.len(), 4);
}

#[test]
fn a_link_that_was_away_for_more_packets_than_there_are_numbers_goes_on() {
    let settings = Settings {
        timeout: Some(Duration::from_millis(110)),
        retries: 0,
        ..Settings::default()
    };
    // As long as the numbers of a flow take to come round, less half of them, and so on.
    for away_ms in (1000..10_000).step_by(500) {
        let mut pair = Pair::known(settings);
        pair.ends[0].queue(0..1000, 1);
        pair.run(500, |_, _| vec![0]);
        pair.run(away_ms, |_, _| Fate::new());
        let gone = pair.ends[0].done.len();
        assert!((40..180).contains(&gone), "{gone} are done with");
        pair.run(25_000, |_, _| vec![0]);
        let [from, to] = &pair.ends;
        let renewals = [from, to].map(|end| end.hop.counts().renewals);
        assert_eq!(renewals, [1, 1], "after {away_ms} ms");
        assert_eq!(from.done.len(), 1000);
        let mut came = to.came.clone();
        came.sort_unstable();
        came.dedup();
        assert_eq!(came.len(), to.came.len(), "twice");
        for (number, outcome) in &from.done {
            let there = came.binary_search(number).is_ok();
            assert!(there || *outcome == Outcome::Undelivered, "{number}");
        }
        assert!(came.len() > 900, "{} came", came.len());
    }
}

#[test]
fn packets_too_old_are_kept_while_their_numbers_are_unheard() {
    let mut pair = Pair::known(Settings::default());
    let now = ms(pair.now_ms);
    let mut numbers = 0..;
    let mut frames = 0;
    let hop = &mut pair.ends[0].hop;
    for round in 0..100 {
        let at = now + Duration::from_millis(round * 100);
        hop.advance(at);
        while hop.takes(1) {
            let mut packet = packet(at, numbers.next().unwrap());
            packet.expires = at + Duration::from_millis(50);
            let manner = Manner {
                flow: Some(1),
                ..Manner::default()
            };
            let place = hop.begin(packet, manner);
            hop.transmit(at, place, true, &mut Vec::new()).unwrap();
            hop.left(at);
        }
        while let Some((place, _)) = hop.again(ClassId(0)) {
            hop.transmit(at, place, true, &mut Vec::new()).unwrap();
            hop.left(at);
            frames += 1;
        }
    }
    assert_eq!((numbers.start, hop.held()), (64 + 8, 8));
    // 8 that are repeated after 1 s, four times, and after 2 and 4 s.
    assert!(frames < 8 * 8, "{frames} repetitions");
}

#[test]
fn a_class_of_its_own_reliability_is_repeated_as_often_as_that_says() {
    let mut pair = Pair::known(Settings::default());
    let manner = Manner {
        flow: Some(1),
        reliability: Reliability::Retries(0),
        ..Manner::default()
    };
    pair.ends[0].queue.push((0, manner));
    pair.run(3000, losing(&[0]));
    assert_eq!(pair.ends[0].done[&0], Outcome::Undelivered);
    assert_eq!(pair.ends[0].sent, 1);
}

#[test]
fn retries_along_the_path_are_told_and_used_up() {
    let settings = Settings {
        along_path: true,
        timeout: Some(Duration::from_millis(200)),
        ..Settings::default()
    };
    let mut pair = Pair::known(settings);
    pair.ends[0].queue([0], 1);
    let mut told = Vec::new();
    pair.run(1000, |_, frame| {
        if carried(frame).is_none() {
            return vec![0];
        }
        told.push(frame[27]);
        if told.len() < 3 { Fate::new() } else { vec![0] }
    });
    // One more than are left: four, three, two.
    assert_eq!(told, [5, 4, 3]);
    // The next hop has what is left.
    let mut onwards = packet(ms(0), 9);
    onwards.retries = Some(0);
    let end = &mut pair.ends[1];
    let now = ms(pair.now_ms);
    let place = end.hop.begin(onwards, Manner::default());
    end.hop.transmit(now, place, true, &mut Vec::new()).unwrap();
    end.hop.left(now);
    end.hop.advance(now + Duration::from_millis(200));
    end.collect();
    assert_eq!(end.done[&9], Outcome::Undelivered);
}

#[test]
fn a_lost_acknowledgement_costs_a_repetition_that_isnt_handed_on() {
    let mut pair = Pair::known(Settings::default());
    pair.ends[0].queue([0], 1);
    let mut lost = false;
    pair.run(3000, |from, _| {
        let loses = from == 1 && !core::mem::replace(&mut lost, true);
        if loses { Fate::new() } else { vec![0] }
    });
    assert_eq!(pair.ends[1].came, [0]);
    assert_eq!((pair.ends[0].sent, pair.ends[1].duplicates), (2, 1));
    assert_eq!(pair.ends[0].done[&0], Outcome::Acknowledged);
}

#[test]
fn a_flow_goes_as_fast_as_it_may_until_it_is_told_that_it_is_too_fast() {
    let mut pair = Pair::known(Settings::default());
    pair.ends[0].queue(0..400, 1);
    pair.run(600, |_, _| vec![0]);
    let before = pair.ends[0].sent;
    assert!(before > 40, "{before}");
    pair.ends[1].hop.set_congested(0b10);
    pair.run(2000, |_, _| vec![0]);
    // Each word of it took half, and no rate is less than one step: 8 kbit/s, or about 33 of these
    // packets a second.
    let slow = pair.ends[0].sent - before;
    assert!((30..100).contains(&slow), "{slow}");
    pair.ends[1].hop.set_congested(0);
    pair.run(3000, |_, _| vec![0]);
    assert!(pair.ends[0].sent - before - slow > 2 * slow);
}

#[test]
fn the_window_grows_and_shrinks_where_it_may() {
    let settings = Settings {
        window: 2,
        window_max: 8,
        ..Settings::default()
    };
    let mut window = estimate::Window::new(&settings);
    let trip = Duration::from_millis(100);
    window.note_ack(ms(100) - NS, trip);
    assert_eq!(window.packets(), 2);
    for (at, packets) in (1..9).zip([3, 4, 5, 6, 7, 8, 8, 8]) {
        window.note_ack(ms(at * 100), trip);
        assert_eq!(window.packets(), packets);
    }
    window.note_repeat();
    window.note_ack(ms(900), trip);
    assert_eq!(window.packets(), 4);
    window.note_ack(ms(1000), trip);
    assert_eq!(window.packets(), 5);
}

#[test]
fn the_timeout_follows_the_papers_rule() {
    let mut timeout = estimate::Timeout::new(None);
    let ms = Duration::from_millis;
    assert_eq!(timeout.after(), ms(1000));
    timeout.measure(ms(120));
    assert_eq!(timeout.after(), ms(2 * (120 + 10 * 60)));
    timeout.measure(ms(90));
    // The mean is 110, 20 from this measure, the variation 40 and a third of those 20.
    assert_eq!(timeout.mean(), ms(110));
    let after = timeout.after().as_micros();
    assert_eq!(after, 2 * (110_000 + 10 * 46_666) + 13);
    assert_eq!(estimate::Timeout::new(Some(ms(60))).after(), ms(60));
    // What is answered in no time is still waited for.
    let mut instant = estimate::Timeout::new(None);
    instant.measure(Duration::ZERO);
    assert_eq!(instant.after(), ms(10));
}

#[test]
fn a_rate_begins_with_what_the_flow_had() {
    let pacing = Pacing {
        increase_bit_s: 1000,
        decrease_permille: 500,
    };
    let mut pace = estimate::Pace::default();
    for at in 0..20 {
        pace.note(ms(at * 100), 1000);
        assert!(pace.allows(ms(at * 100)));
    }
    pace.slow(ms(2000), pacing);
    assert_eq!(pace.rate_bit_s(), Some(40_000));
    pace.note(ms(2000), 1000);
    assert_eq!(pace.next(), ms(2200));
    assert!(!pace.allows(ms(2200) - NS) && pace.allows(ms(2200)));
    let trip = Duration::from_millis(100);
    pace.grow(ms(2100) - NS, trip, pacing);
    assert_eq!(pace.rate_bit_s(), Some(40_000));
    pace.grow(ms(2100), trip, pacing);
    assert_eq!(pace.rate_bit_s(), Some(41_000));
}

#[test]
fn wrapped_numbers_and_forgotten_flows_are_like_any_other() {
    let mut pair = Pair::known(Settings::default());
    let mut drawn = 0u64;
    let mut number = 0u16;
    for round in 0..40u16 {
        // More flows than either end remembers, and one that goes on all the time.
        for flow in 0..40 {
            pair.ends[0].queue([number], u32::from(round * 40 + flow) + 2);
            number += 1;
        }
        pair.ends[0].queue(number..number + 20, 1);
        number += 20;
        pair.run(900, |_, _| {
            drawn += 1;
            let lost = drawn.is_multiple_of(29);
            if lost { Fate::new() } else { vec![0] }
        });
    }
    // Every flow again: its numbers go on.
    for flow in 0..1600 {
        pair.ends[0].queue([number], flow + 2);
        number += 1;
    }
    pair.run(20_000, |_, _| vec![0]);
    let mut came = pair.ends[1].came.clone();
    assert_eq!(came.len(), usize::from(number));
    came.sort_unstable();
    assert!(came.iter().copied().eq(0..number));
}

#[test]
fn a_restarted_neighbour_gets_what_it_never_had() {
    let settings = Settings {
        timeout: Some(Duration::from_millis(200)),
        ..Settings::default()
    };
    let mut pair = Pair::known(settings);
    pair.ends[0].queue(0..40, 1);
    pair.run(150, |_, _| vec![0]);
    let mut all = pair.ends[1].came.clone();
    assert!((5..30).contains(&all.len()), "{}", all.len());
    pair.ends[1] = End::new(settings, 3);
    pair.ends[1].hop.set_up(ms(pair.now_ms));
    pair.run(5000, |_, _| vec![0]);
    all.extend(&pair.ends[1].came);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..40).collect::<Vec<u16>>());
    pair.ends[1].queue(100..105, 1);
    pair.run(1000, |_, _| vec![0]);
    assert_eq!(pair.ends[0].came, [100, 101, 102, 103, 104]);
}

#[test]
fn ends_of_different_formats_say_so_and_send_nothing() {
    let mut strait = super::super::Hop::new(super::super::Settings::default(), 1);
    let mut paper = Hop::new(Settings::default(), 2);
    strait.set_up(ms(0));
    paper.set_up(ms(0));
    let (mut one, mut other) = (Vec::new(), Vec::new());
    strait.control(ms(0), &mut one).unwrap();
    paper.control(ms(0), &mut other).unwrap();
    strait.hear(ms(1), &other, |_, _| true);
    paper.hear(ms(1), &one, |_, _| true);
    assert_eq!(
        (strait.counts().other_format, paper.counts().other_format),
        (1, 1)
    );
    assert!(!strait.is_known() && !paper.is_known());
    assert!(!strait.has_control(ms(1)) && !paper.has_control(ms(1)));
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_counted_and_do_nothing() {
    let mut pair = Pair::known(Settings::default());
    pair.ends[0].queue(0..3, 1);
    pair.run(10, |_, _| Fate::new());
    let names = pair.names(1);
    let forged = [
        (1, 4, &[][..]),
        (2, 1, &[]),
        (1, 0, &[[1, 3]]),
        (1, 0, &[[2, 1]]),
    ];
    for (flow, next, ranges) in forged {
        let mut frame = Vec::new();
        let ack = Ack {
            next,
            flow,
            congested: false,
            ranges,
        };
        ack.emit(names, &mut frame);
        let now = ms(pair.now_ms);
        pair.ends[0].hear(now, &frame);
    }
    assert_eq!(pair.ends[0].hop.counts().forged, 4);
    assert!(pair.ends[0].done.is_empty());
    pair.run(5000, |_, _| vec![0]);
    assert_eq!(pair.ends[1].came, [0, 1, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// Losses, copies and frames that overtake each other: nothing comes twice, and when the link
    /// is well again, everything has come that wasn't given up.
    #[test]
    fn nothing_is_doubled_or_stuck(
        (lost, doubled, late) in (0..50u8, 0..20u8, 0..20u8),
        window in 1..20u16,
        retries in 0..20u8,
        seed: u64,
    ) {
        let mut state = seed | 1;
        let mut draw = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as u8 % 100
        };
        let settings = Settings {
            window,
            window_max: 20,
            retries,
            ..Settings::default()
        };
        let mut pair = Pair::new(settings);
        pair.ends[0].queue(0..150, 1);
        pair.ends[0].queue(150..200, 2);
        pair.ends[1].queue(0..100, 1);
        pair.run(6000, |_, _| {
            if draw() < lost {
                return Fate::new();
            }
            let late = u64::from(draw() < late) * 30;
            let mut fate = vec![late];
            if draw() < doubled {
                fate.push(late + 7);
            }
            fate
        });
        pair.run(60_000, |_, _| vec![0]);
        for (from, total) in [(0, 200), (1, 100)] {
            let (sent, came) = (&pair.ends[from], &pair.ends[1 - from].came);
            let mut once = came.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), came.len(), "twice");
            prop_assert_eq!(sent.done.len(), total);
            prop_assert_eq!(sent.hop.held(), 0);
            for (number, outcome) in &sent.done {
                let there = once.binary_search(number).is_ok();
                prop_assert!(there || *outcome == Outcome::Undelivered, "{number}");
            }
        }
    }

    #[test]
    fn hostile_frames_do_no_harm(
        frames in proptest::collection::vec(
            (0..6u8, proptest::collection::vec(any::<u8>(), 0..40)), 1..60,
        ),
    ) {
        let mut pair = Pair::known(Settings::default());
        pair.ends[0].queue(0..20, 1);
        let names = pair.names(1);
        for (kind, rest) in frames {
            let octet = |at: usize| rest.get(at).copied().unwrap_or(1);
            let mut frame = Vec::new();
            match kind {
                0 => frame.clone_from(&rest),
                1..=3 => {
                    let (ranges, _) = rest.as_chunks::<2>();
                    let (next, flow) = (octet(0), u16::from(octet(1)));
                    let congested = kind == 3;
                    Ack { next, flow, congested, ranges }.emit(names, &mut frame);
                }
                _ => {
                    let data = Data {
                        seq: octet(0),
                        flow: u16::from(octet(1)),
                        request: true,
                        behind: octet(2) % 64,
                        left: None,
                    };
                    let packet = packet(ms(pair.now_ms), 7);
                    data.emit(packet.bytes(), names, &mut frame).unwrap();
                }
            }
            let now = ms(pair.now_ms);
            pair.ends[0].hop.hear(now, &frame, |_, _| true);
            pair.ends[0].collect();
            pair.run(3, |_, _| vec![0]);
        }
        prop_assert!(pair.ends[0].hop.held() <= 20);
        pair.run(1, |_, _| vec![0]);
    }
}
