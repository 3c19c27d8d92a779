//! Two hops, and a link between them that a test has in its hands.

use alloc::collections::BTreeMap;
use alloc::vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use strait_core::fate::{Ledger, Origin};
use strait_wire::ip;

use super::*;

mod age;
mod forged;
mod parity;
mod wide;

const MS: Duration = Duration::from_millis(1);
/// One way over the link.
const WAY: Duration = Duration::from_millis(50);

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

pub(super) fn packet(now: Instant, number: u16) -> Packet {
    let socket = |last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 7);
    let mut octets = Vec::new();
    let payload = number.to_be_bytes();
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
    let mut ledger = Ledger::default();
    let Ok(packet) = ledger.admit(now, octets, Origin::Own) else {
        panic!("a packet");
    };
    packet
}

/// What a packet of [`packet`] was numbered.
pub(super) fn number(octets: &[u8]) -> u16 {
    u16::from_be_bytes([octets[28], octets[29]])
}

/// An end with what came to it and became of what it sent.
struct End {
    hop: Hop,
    /// To be sent again, or for the first time.
    queue: Vec<(u16, Manner)>,
    came: Vec<u16>,
    /// Packets that came as nobody sent them.
    wrong: usize,
    done: BTreeMap<u16, Outcome>,
    sent: u64,
}

impl End {
    fn new(incarnation: u32) -> Self {
        // No test is to end before the order is restored.
        let settings = Settings {
            order_hold: Duration::from_secs(100),
            ..Settings::default()
        };
        let mut hop = Hop::new(settings, incarnation);
        hop.set_up(ms(0));
        Self {
            hop,
            queue: Vec::new(),
            came: Vec::new(),
            wrong: 0,
            done: BTreeMap::new(),
            sent: 0,
        }
    }

    fn queue(&mut self, numbers: impl IntoIterator<Item = u16>, flow: Option<u32>) {
        let manner = Manner {
            flow,
            ..Manner::default()
        };
        self.queue
            .extend(numbers.into_iter().map(|it| (it, manner)));
    }

    /// The next frame, if the end has one.
    fn pull(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if self.hop.has_own_control(now) {
            self.hop.control(now, &mut out)?;
            return Some(out);
        }
        let again = match self.hop.again(ClassId(0)) {
            Some((Again::Parity(class), _)) => {
                self.hop.transmit_parity(class, &mut out)?;
                self.hop.left(now);
                self.sent += 1;
                return Some(out);
            }
            Some((Again::Packet(seq), _)) => Some(seq),
            None => None,
        };
        let fresh = self.hop.takes(0) && !self.queue.is_empty();
        let seq = match again {
            Some(seq) => seq,
            None if fresh => {
                let (number, manner) = self.queue.remove(0);
                self.hop.begin(packet(now, number), manner)
            }
            None => {
                self.hop.control(now, &mut out)?;
                return Some(out);
            }
        };
        self.hop.transmit(now, now, seq, usize::MAX, &mut out)?;
        self.hop.left(now);
        self.sent += 1;
        Some(out)
    }

    fn hear(&mut self, now: Instant, frame: &[u8]) {
        self.hop.advance(now);
        if let Heard::Packet(header, octets) = self.hop.hear(now, frame, |_, _| true) {
            let packet = packet(now, number(&octets));
            self.wrong += usize::from(*packet.bytes() != *octets);
            self.hop.accept(now, &header, Some(packet), Some(1));
        }
        self.collect();
    }

    fn collect(&mut self) {
        self.came
            .extend(self.hop.released().map(|it| number(it.bytes())));
        for (packet, _, outcome) in self.hop.done() {
            let before = self.done.insert(number(packet.bytes()), outcome);
            assert_eq!(before, None, "one outcome for each packet");
        }
        self.hop.check();
    }
}

/// Both ends and the frames between them. One frame goes each way each millisecond at most.
struct Pair {
    now_ms: u64,
    ends: [End; 2],
    /// When a frame arrives, its order, and to which end.
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    frames: u64,
}

/// What becomes of a frame: arrivals, in milliseconds after the usual one.
type Fate = Vec<u64>;

impl Pair {
    fn new() -> Self {
        Self {
            now_ms: 0,
            ends: [End::new(1), End::new(2)],
            flying: BTreeMap::new(),
            frames: 0,
        }
    }

    /// With both ends knowing each other.
    fn known() -> Self {
        let mut pair = Self::new();
        pair.run(1000, |_, _, _| vec![0]);
        assert!(pair.ends.iter().all(|end| end.hop.is_known()));
        // As after the first packet each way.
        let ends = pair.ends.iter_mut();
        ends.for_each(|end| end.hop.session.confirm());
        pair
    }

    fn run(&mut self, ms: u64, mut fate: impl FnMut(usize, u64, &[u8]) -> Fate) {
        for _ in 0..ms {
            self.step(&mut fate);
        }
    }

    fn step(&mut self, fate: &mut impl FnMut(usize, u64, &[u8]) -> Fate) {
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
            let Some(frame) = end.pull(now) else {
                continue;
            };
            end.collect();
            let due = end.hop.wake().filter(|wake| wake.at <= now);
            assert_eq!(due, None, "what is due has been done, or waits for room");
            for later_ms in fate(from, self.now_ms, &frame) {
                self.frames += 1;
                let at = self.now_ms + WAY.as_millis() as u64 + later_ms;
                self.flying
                    .insert((at, self.frames), (1 - from, frame.clone()));
            }
        }
        self.now_ms += 1;
    }
}

/// Loses the packets with these numbers the first time.
fn losing(numbers: &[u16]) -> impl FnMut(usize, u64, &[u8]) -> Fate {
    let mut left = numbers.to_vec();
    move |_, _, frame| {
        let carried = (frame.len() > 30).then(|| &frame[frame.len() - 6..frame.len() - 4]);
        let number = carried.map(|octets| u16::from_be_bytes([octets[0], octets[1]]));
        let lost = left.iter().position(|it| Some(*it) == number);
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
fn what_was_lost_is_repeated_as_soon_as_something_behind_it_has_come() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..5, Some(1));
    // The last comes 54 ms after the begin; its news and the repetition take 50 ms each.
    let begin = pair.now_ms;
    pair.run(begin + 200 - pair.now_ms, losing(&[1]));
    assert_eq!(pair.ends[1].came, [0, 1, 2, 3, 4]);
    assert_eq!(pair.ends[0].sent, 6);
    let repeated = pair.ends[0].hop.counts();
    assert_eq!((repeated.repeated, repeated.needless), (1, 0));
}

#[test]
fn a_flow_in_order_waits_for_its_own_packets_only() {
    let mut pair = Pair::known();
    pair.ends[0].queue([0], Some(1));
    pair.ends[0].queue([1], Some(2));
    pair.ends[0].queue([2], Some(1));
    pair.ends[0].queue([3], Some(2));
    pair.ends[0].queue([4], None);
    pair.run(1000, losing(&[0]));
    assert_eq!(pair.ends[1].came, [1, 3, 4, 0, 2]);
    assert_eq!(pair.ends[0].done.len(), 5);
}

#[test]
fn nobody_waits_for_an_earlier_packet_longer_than_he_is_to() {
    let settings = Settings::default();
    let mut hop = Hop::new(settings, 2);
    let header = |seq, order| DataHeader {
        seq,
        serial: seq,
        tag: 0,
        order,
        lifetime: hbh::Lifetime::UNLIMITED,
        ingress: Ingress::default(),
    };
    let late = header(1, hbh::Order::After(1));
    hop.accept(ms(0), &late, Some(packet(ms(0), 1)), Some(1));
    assert_eq!(hop.released().count(), 0);
    let end = ms(0) + settings.order_hold;
    hop.advance(end - Duration::from_nanos(1));
    assert_eq!(hop.released().count(), 0);
    hop.advance(end);
    assert_eq!(hop.released().count(), 1);
    // The next of its flow doesn't wait for the missing one.
    let next = header(2, hbh::Order::After(1));
    hop.accept(end, &next, Some(packet(end, 2)), Some(1));
    assert_eq!(hop.released().count(), 1);
    // The missing one still counts.
    hop.accept(
        end,
        &header(0, hbh::Order::Any),
        Some(packet(end, 0)),
        Some(1),
    );
    assert_eq!(hop.released().count(), 1);
}

#[test]
fn the_last_of_a_burst_is_probed_for() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..3, None);
    pair.run(3000, losing(&[2]));
    assert_eq!(pair.ends[1].came, [0, 1, 2]);
    assert_eq!(pair.ends[0].hop.counts().repeated, 1);
}

#[test]
fn on_a_lossy_link_copies_follow_what_is_sent_again() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..400, None);
    let lossy = |number: u64| number % 4 == 1;
    pair.run(
        3000,
        |_, number, _| if lossy(number) { Fate::new() } else { vec![0] },
    );
    let now = ms(pair.now_ms);
    let end = &mut pair.ends[0];
    assert_eq!(end.done.len(), 400);
    assert!(end.hop.loss_ppm() > 100_000, "{}", end.hop.loss_ppm());
    assert_eq!((end.hop.copy(), end.hop.counts().copied), (None, 0));
    // What goes for the first time has no copy.
    end.queue(400..401, None);
    end.pull(now).unwrap();
    assert_eq!(end.hop.copy(), None);
    let due = end.hop.wake().unwrap().at;
    end.hop.advance(due);
    let (needless, again) = (end.hop.counts().needless, end.pull(due).unwrap());
    let (seq, _) = end.hop.copy().unwrap();
    let mut copy = Vec::new();
    end.hop
        .transmit(due, due, seq, usize::MAX, &mut copy)
        .unwrap();
    end.hop.left(due);
    assert_eq!((end.hop.copy(), end.hop.counts().copied), (None, 1));
    // The first of the two comes alone: the second wasn't sent for nothing, as far as is known.
    pair.ends[1].hear(due, &again);
    let mut told = Vec::new();
    let later = due + 1000 * MS;
    pair.ends[1].hop.advance(later);
    pair.ends[1].hop.control(later, &mut told).unwrap();
    pair.ends[0].hear(later, &told);
    let end = &mut pair.ends[0];
    assert_eq!(end.done.len(), 401);
    assert_eq!(end.hop.counts().needless, needless);
    // The second is a duplicate, and told to be one.
    let heard = pair.ends[1].hop.hear(later, &copy, |_, _| true);
    assert_eq!(heard, Heard::Duplicate);
}

#[test]
fn what_a_late_probe_will_tell_of_isnt_probed_for_at_once() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..3, None);
    pair.run(10, |_, _, _| Fate::new());
    let end = &mut pair.ends[0];
    let due = end.hop.wake().unwrap();
    assert_eq!(due.why, WakeReason::Retransmit);
    end.hop.advance(due.at - Duration::from_nanos(1));
    assert_eq!(end.hop.again(ClassId(0)), None);
    end.hop.advance(due.at);
    assert_eq!(
        end.hop.again(ClassId(0)).map(|(it, _)| it),
        Some(Again::Packet(0))
    );
    // There is no room for it until the other two are long overdue.
    let late = due.at + 10_000 * MS;
    end.hop.advance(late);
    end.pull(late).unwrap();
    assert!(end.hop.wake().unwrap().at > late + WAY);
    end.hop.advance(late);
    assert_eq!(end.hop.again(ClassId(0)), None);
}

/// As on a line of 536 bit/s, where an answer that takes the acknowledgement along is 0.7 s long:
/// a repetition would be in the way of the next answer, each time.
#[test]
fn what_a_long_packet_tells_of_is_repeated_once_and_then_waited_for() {
    let mut pair = Pair::known();
    // What goes alone is short.
    (0..30).for_each(|_| pair.ends[0].hop.trip.measure(2 * WAY));
    let asks = |pair: &mut Pair, number| {
        pair.ends[0].queue([number], None);
        pair.run(150, |_, _, _| vec![0]);
        pair.ends[1].queue([number], None);
        // What follows the answer comes behind it.
        let mut free_at = 0;
        pair.run(5000, |from, now, frame| {
            if from == 1 && frame.len() > 30 {
                free_at = now + 700;
            }
            vec![if from == 1 { free_at.max(now) - now } else { 0 }]
        });
    };
    (0..20).for_each(|number| asks(&mut pair, number));
    assert_eq!((pair.ends[0].came.len(), pair.ends[0].done.len()), (20, 20));
    let counts = pair.ends[0].hop.counts();
    assert_eq!((counts.repeated, counts.needless), (1, 1));
    // It waits for as long as that takes: until the packet is there, 50 ms, 100 ms for the answer,
    // and 750 ms for that to come.
    let now = ms(pair.now_ms);
    let end = &mut pair.ends[0];
    end.queue([20], None);
    end.pull(now).unwrap();
    let due = end.hop.wake().unwrap().at;
    assert!(due > now + 900 * MS, "{:?}", due.since(now));
    end.hop.advance(due - Duration::from_nanos(1));
    assert_eq!(end.hop.again(ClassId(0)), None);
    end.hop.advance(due);
    assert!(end.hop.again(ClassId(0)).is_some());
}

#[test]
fn what_waits_too_long_for_room_holds_no_probe_back() {
    let mut pair = Pair::known();
    let now = ms(pair.now_ms);
    let end = &mut pair.ends[0];
    let mut out = Vec::new();
    for number in 0..2 {
        let mut sent = packet(now, number);
        if number == 0 {
            sent.expires = now + 10_000 * MS;
        }
        let seq = end.hop.begin(sent, Manner::default());
        end.hop
            .transmit(now, now, seq, usize::MAX, &mut out)
            .unwrap();
        end.hop.left(now);
    }
    // The first is to be sent again, and there is no room until it is too old. What it took to know
    // that it was lost doesn't count.
    let due = end.hop.wake().unwrap().at;
    let known_late = due.since(now).min(end.hop.trip.overdue(350 * MS));
    end.hop.advance(due);
    assert_eq!(
        end.hop.again(ClassId(0)).map(|(it, _)| it),
        Some(Again::Packet(0))
    );
    let late = now + 10_000 * MS + known_late;
    end.hop.advance(late);
    assert_eq!(
        end.hop.again(ClassId(0)).map(|(it, _)| it),
        Some(Again::Packet(1))
    );
    assert!(end.hop.wake().is_none_or(|wake| wake.at > late));
}

#[test]
fn an_acknowledgement_goes_along_with_the_first_packet_after_a_pause() {
    let mut pair = Pair::known();
    let before = pair.ends.each_ref().map(|end| end.hop.counts().control);
    // One packet, and the answer at once: no other packet follows for long.
    pair.ends[0].queue(0..1, None);
    pair.run(60, |_, _, _| vec![0]);
    pair.ends[1].queue(0..1, None);
    pair.run(200, |_, _, _| vec![0]);
    assert_eq!(pair.ends[0].done.len(), 1);
    assert_eq!(pair.ends[1].hop.counts().control, before[1]);
}

#[test]
fn acknowledgements_wait_for_packets_the_other_way() {
    let mut pair = Pair::known();
    let before = pair.ends.each_ref().map(|end| end.hop.counts().control);
    for _ in 0..100 {
        for end in &mut pair.ends {
            let next = end.sent as u16;
            end.queue([next], Some(1));
        }
        pair.run(20, |_, _, _| vec![0]);
    }
    pair.run(1000, |_, _, _| vec![0]);
    for (end, before) in pair.ends.iter().zip(before) {
        assert_eq!((end.came.len(), end.done.len()), (100, 100));
        // One for the last few, which nothing follows.
        let alone = end.hop.counts().control - before;
        assert!(alone <= 2, "{alone} frames without packet");
    }
}

#[test]
fn a_packet_given_up_holds_nobody_up() {
    let mut pair = Pair::known();
    let manner = Manner {
        flow: Some(1),
        reliability: Reliability::Retries(0),
        ..Manner::default()
    };
    pair.ends[0].queue.extend((0..5).map(|it| (it, manner)));
    pair.run(2000, losing(&[1]));
    assert_eq!(pair.ends[1].came, [0, 2, 3, 4]);
    let done = &pair.ends[0].done;
    assert_eq!(done[&1], Outcome::Undelivered);
    assert!(
        [0, 2, 3, 4]
            .iter()
            .all(|it| done[it] == Outcome::Acknowledged)
    );
    assert_eq!(pair.ends[0].hop.held() + pair.ends[1].hop.held(), 0);
}

#[test]
fn a_packet_ends_with_its_age() {
    let mut pair = Pair::known();
    let now = ms(pair.now_ms);
    let mut old = packet(now, 7);
    old.expires = now + 400 * MS;
    let end = &mut pair.ends[0];
    let seq = end.hop.begin(old, Manner::default());
    let mut out = Vec::new();
    end.hop
        .transmit(now, now, seq, usize::MAX, &mut out)
        .unwrap();
    end.hop.left(now);
    pair.run(
        5000,
        |from, _, _| if from == 0 { Fate::new() } else { vec![0] },
    );
    assert_eq!(pair.ends[0].done[&7], Outcome::Aged);
    assert_eq!(pair.ends[0].hop.held(), 0);
}

/// A way that is dead for long: one window after the other is given up, further than the receiver's
/// window reaches.
#[test]
fn a_receiver_follows_a_sender_that_gave_up_more_than_a_window() {
    let mut pair = Pair::known();
    let mut begun = 0;
    for _ in 0..120 {
        let now = ms(pair.now_ms);
        for _ in 0..10 {
            let end = &mut pair.ends[0];
            if !end.hop.takes(0) {
                break;
            }
            let mut old = packet(now, begun);
            begun += 1;
            old.expires = now + 400 * MS;
            let seq = end.hop.begin(old, Manner::default());
            let mut out = Vec::new();
            end.hop
                .transmit(now, now, seq, usize::MAX, &mut out)
                .unwrap();
            end.hop.left(now);
        }
        pair.run(
            1000,
            |from, _, _| if from == 0 { Fate::new() } else { vec![0] },
        );
    }
    assert!((200..2000).contains(&begun), "{begun}");
    pair.ends[0].queue(2000..2005, Some(1));
    pair.run(20_000, |_, _, _| vec![0]);
    assert_eq!(pair.ends[1].came, [2000, 2001, 2002, 2003, 2004]);
    assert_eq!(pair.ends[0].hop.held() + pair.ends[1].hop.held(), 0);
}

#[test]
fn a_wrapped_sequence_space_is_like_any_other() {
    let mut pair = Pair::known();
    let mut drawn = 0u64;
    let mut next = 0u32;
    while next < 140_000 {
        let end = &mut pair.ends[0];
        if end.queue.is_empty() {
            end.queue((0..200).map(|it| (next + it) as u16), Some(1));
            next += 200;
            end.done.clear();
        }
        pair.run(100, |_, _, _| {
            drawn += 1;
            if drawn.is_multiple_of(37) {
                Fate::new()
            } else {
                vec![0]
            }
        });
    }
    pair.run(3000, |_, _, _| vec![0]);
    let came = &pair.ends[1].came;
    assert_eq!(came.len(), 140_000);
    assert!((0..140_000u32).zip(came).all(|(at, it)| at as u16 == *it));
}

#[test]
fn a_restarted_neighbour_gets_what_it_never_had() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..40, Some(1));
    pair.run(70, |_, _, _| vec![0]);
    let had = pair.ends[1].came.clone();
    assert!((10..30).contains(&had.len()), "{}", had.len());
    let mut new = End::new(3);
    new.hop.set_up(ms(pair.now_ms));
    pair.ends[1] = new;
    pair.run(3000, |_, _, _| vec![0]);
    assert_eq!(pair.ends[0].done.len(), 40);
    let mut all = had;
    all.extend(&pair.ends[1].came);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..40).collect::<Vec<u16>>());
    assert!(pair.ends[1].came.is_sorted(), "in order, in its new life");
    // Numbers began anew, both ways.
    pair.ends[1].queue(100..105, Some(1));
    pair.run(1000, |_, _, _| vec![0]);
    assert_eq!(pair.ends[0].came, [100, 101, 102, 103, 104]);
}

#[test]
fn a_link_that_was_away_goes_on_where_it_ended() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..50, Some(1));
    pair.run(30, |_, _, _| vec![0]);
    for end in &mut pair.ends {
        end.hop.set_down();
    }
    pair.flying.clear();
    pair.now_ms += 60_000;
    let now = ms(pair.now_ms);
    for end in &mut pair.ends {
        assert!(!end.hop.has_control(now));
        end.hop.set_up(now);
    }
    pair.run(1000, |_, _, _| vec![0]);
    assert_eq!(pair.ends[1].came, (0..50).collect::<Vec<u16>>());
    assert_eq!(pair.ends[0].done.len(), 50);
}

#[test]
fn a_stopped_tag_waits_and_others_go() {
    let mut pair = Pair::known();
    pair.ends[1].hop.set_stop(0b01);
    pair.run(200, |_, _, _| vec![0]);
    let hop = &pair.ends[0].hop;
    assert_eq!((hop.takes(0), hop.takes(1)), (false, true));
    // The word that lets it go on is lost; it asks.
    pair.ends[1].hop.set_stop(0);
    let mut lost = false;
    pair.run(5000, |from, _, _| {
        if from == 1 && !core::mem::replace(&mut lost, true) {
            return Fate::new();
        }
        vec![0]
    });
    assert!(lost && pair.ends[0].hop.takes(0));
}

#[test]
fn a_stop_without_end_lets_one_packet_go_each_time() {
    let mut pair = Pair::known();
    pair.ends[1].hop.set_stop(0b01);
    pair.run(200, |_, _, _| vec![0]);
    let hop = &mut pair.ends[0].hop;
    let told = hop.quiet_since;
    let hold = Settings::default().stop_hold;
    let before = Instant::from_nanos((told + hold).as_nanos() - 1);
    hop.advance(before);
    assert!(!hop.takes(0));
    hop.advance(told + hold);
    assert!(hop.takes(0) && hop.takes(1));
    hop.begin(packet(told, 1), Manner::default());
    assert!(!hop.takes(0) && hop.takes(1));
    assert_eq!(hop.relents_at(), Some(told + hold + hold));
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_counted_and_do_nothing() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..3, None);
    pair.run(10, |_, _, _| Fate::new());
    let names = pair.ends[1].hop.session.outbound().unwrap();
    for (next, newest) in [(4, 2), (0, 3), (40_000, 2), (3, 20_000)] {
        let forged = Content {
            ack: Some(Ack {
                next,
                newest,
                map: hbh::Map::new(u128::MAX),
                prompt: true,
            }),
            ..Content::default()
        };
        let mut octets = Vec::new();
        forged.emit(SegmentCheck::Long, names, &mut octets);
        let now = ms(pair.now_ms);
        pair.ends[0].hear(now, &octets);
    }
    // 40,000 before the numbers in use, so of a past that never was: nothing is told by it.
    let counts = pair.ends[0].hop.counts();
    assert!(counts.forged >= 3, "{}", counts.forged);
    assert!(pair.ends[0].done.is_empty());
    pair.run(5000, |_, _, _| vec![0]);
    assert_eq!(pair.ends[1].came, [0, 1, 2]);
}

/// What a link does to the frames of one end, drawn beforehand.
#[derive(Clone, Debug)]
struct Weather {
    lost: u8,
    doubled: u8,
    late: u8,
}

fn weather() -> impl Strategy<Value = Weather> {
    (0..60u8, 0..20u8, 0..20u8).prop_map(|(lost, doubled, late)| Weather {
        lost,
        doubled,
        late,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Losses, copies, frames that overtake each other, restarts: nothing comes twice in a life,
    /// nothing out of its order, and when the link is well again everything comes.
    #[test]
    fn nothing_is_lost_doubled_or_stuck(
        weather in weather(),
        seed: u64,
        restart in proptest::option::of(500..4000u64),
        parity in 0..6u16,
    ) {
        let mut state = seed | 1;
        let mut draw = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as u8 % 100
        };
        let mut pair = Pair::new();
        pair.ends[0].queue(0..150, Some(1));
        pair.ends[0].queue(150..200, None);
        pair.ends[1].queue(0..100, Some(9));
        for (_, manner) in pair.ends.iter_mut().flat_map(|end| &mut end.queue) {
            manner.parity = parity;
        }
        let mut earlier = Vec::new();
        for at_ms in 0..6000 {
            if restart == Some(at_ms) {
                let mut new = End::new(3);
                new.hop.set_up(ms(at_ms));
                let old = core::mem::replace(&mut pair.ends[1], new);
                // What it held is lost with it, and so is what it hadn't sent.
                earlier = old.came;
            }
            pair.run(1, |_, _, _| {
                if draw() < weather.lost {
                    return Fate::new();
                }
                let late = u64::from(draw() < weather.late) * 30;
                let mut fate = vec![late];
                if draw() < weather.doubled {
                    fate.push(late + 7);
                }
                fate
            });
        }
        pair.run(60_000, |_, _, _| vec![0]);
        let came = &pair.ends[1].came;
        let mut once = came.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), came.len(), "twice in a life");
        let ordered: Vec<u16> = came.iter().copied().filter(|it| *it < 150).collect();
        prop_assert!(ordered.is_sorted(), "{:?}", ordered);
        prop_assert_eq!(pair.ends[0].done.len(), 200);
        prop_assert_eq!(pair.ends.iter().map(|end| end.hop.held()).sum::<usize>(), 0);
        if restart.is_none() {
            prop_assert_eq!(came.len(), 200);
            prop_assert_eq!(&pair.ends[0].came, &(0..100).collect::<Vec<u16>>());
        } else {
            once.extend(earlier);
            once.sort_unstable();
            once.dedup();
            // What it had taken in and not handed on is lost with it.
            prop_assert!(once.len() + usize::from(Settings::WINDOW_MAX) >= 200);
        }
    }

    #[test]
    fn hostile_frames_do_no_harm(
        frames in proptest::collection::vec(
            (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40), 0..4u8), 1..60,
        ),
    ) {
        let mut pair = Pair::known();
        pair.ends[0].queue(0..20, Some(1));
        let names = pair.ends[1].hop.session.outbound().unwrap();
        for (first, rest, kind) in frames {
            let mut octets = vec![if first < 16 { 0x0c } else { first | 0x80 }];
            octets.extend(rest);
            if kind > 0 {
                // Sound, with contents that nobody would send.
                let mut sum = strait_wire::check::Crc16Sum::new();
                sum.update(&names.sender.to_be_bytes());
                sum.update(&names.receiver.to_be_bytes());
                let check = sum.update(&octets).finish();
                octets.extend(check.to_le_bytes());
            }
            let now = ms(pair.now_ms);
            pair.ends[0].hop.hear(now, &octets, |_, _| true);
            pair.ends[0].collect();
            pair.run(3, |_, _, _| vec![0]);
        }
        prop_assert!(pair.ends[0].hop.held() <= 20);
        pair.run(1, |_, _, _| vec![0]);
    }
}
