use alloc::vec;

use proptest::prelude::*;
use strait_core::Duration;
use strait_core::chance::Stream as Chance;

use super::*;
use crate::codec::Ends;
use crate::greeting::both;
use crate::stream::Piece;

#[path = "memory_tests.rs"]
mod memory;
#[path = "returned_tests.rs"]
mod returned;

pub(super) const SETTINGS: Settings = Settings {
    waits: Waits {
        patience: Duration::from_secs(1),
        pause: Duration::from_millis(1500),
        reorder: Duration::ZERO,
        ack: Duration::from_millis(200),
    },
    window: 64 * 1024,
    hold: 64 * 1024,
    hold_alone: 64 * 1024,
    wait: Duration::from_secs(30),
    streams_max: 16,
    octets_max: 1 << 20,
};

fn open(port: u16) -> Open {
    Open {
        ends: Ends {
            client: ([10, 1, 0, 2], port).into(),
            server: ([10, 2, 0, 2], 80).into(),
        },
        dscp: 10,
    }
}

/// Two sessions, and what is on its way between them.
struct Pair {
    now: Instant,
    sides: [Session; 2],
    way: Vec<(Instant, usize, u8, Vec<u8>)>,
    /// How many of a hundred datagrams are lost, come twice, and are late.
    faults: [u64; 3],
    delay: Duration,
    chance: Chance,
    events: [Vec<Event>; 2],
    cut: bool,
    /// Octets of the longest datagram.
    datagram: usize,
}

impl Pair {
    fn new(seed: u64, faults: [u64; 3]) -> Self {
        Self {
            now: Instant::ZERO,
            sides: [1, 2].map(|token| Session::new(token, SETTINGS)),
            way: Vec::new(),
            faults,
            delay: Duration::from_millis(50),
            chance: Chance::new(seed, "pair"),
            events: [Vec::new(), Vec::new()],
            cut: false,
            datagram: 1200,
        }
    }

    /// Sends what there is to send, one datagram a code point and 10 ms.
    fn send(&mut self) {
        for from in 0..2 {
            self.sides[from].tend(self.now);
            for dscp in self.sides[from].wants(self.now) {
                let Some(bytes) = self.sides[from].poll(self.now, dscp, self.datagram) else {
                    continue;
                };
                assert!(bytes.len() <= self.datagram, "{}", bytes.len());
                let draw = |chance: &mut Chance, of: u64| chance.below(100) < of;
                let [lost, twice, late] = self.faults;
                if self.cut || draw(&mut self.chance, lost) {
                    continue;
                }
                let copies = 1 + u32::from(draw(&mut self.chance, twice));
                for _ in 0..copies {
                    let more = Duration::from_millis(40);
                    let delay = self.delay + more * u32::from(draw(&mut self.chance, late));
                    self.way
                        .push((self.now + delay, 1 - from, dscp, bytes.clone()));
                }
            }
        }
    }

    fn step(&mut self) {
        self.send();
        self.now += Duration::from_millis(10);
        let now = self.now;
        for (_, to, dscp, bytes) in self.way.extract_if(.., |it| it.0 <= now) {
            self.sides[to].hear(now, dscp, &bytes).unwrap();
        }
        for (side, events) in self.sides.iter_mut().zip(&mut self.events) {
            events.extend(core::iter::from_fn(|| side.poll_event()));
            side.check();
        }
    }

    fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    /// Until something holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..60_000 {
            if holds(self) {
                return;
            }
            self.step();
        }
        panic!("never: {what}");
    }

    fn opened(&mut self) -> Option<Key> {
        self.events[1].iter().find_map(|event| match event {
            Event::Opened(key, _) => Some(*key),
            _ => None,
        })
    }
}

fn text(octets: usize, seed: usize) -> Vec<u8> {
    (0..octets)
        .map(|at| (at * 7 + at / 251 + seed) as u8)
        .collect()
}

const THEIRS: Key = Key { ours: false, n: 0 };

#[test]
fn a_stream_is_opened_accepted_carried_both_ways_and_ended() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened() == Some(THEIRS));
    assert_eq!(pair.events[1], [Event::Opened(THEIRS, open(1))]);
    pair.sides[1].accept(THEIRS);
    pair.until("accepted", |it| {
        it.events[0].contains(&Event::Accepted(key))
    });
    pair.sides[0].write(pair.now, key, b"question");
    pair.sides[0].finish(key);
    pair.until("asked", |it| {
        it.sides[1].at_end(THEIRS) || it.sides[1].read(THEIRS, 99).len() == 8
    });
    assert!(pair.sides[1].at_end(THEIRS));
    pair.sides[1].write(pair.now, THEIRS, b"answer");
    pair.sides[1].finish(THEIRS);
    pair.until("answered", |it| it.sides[0].read(key, 99) == b"answer");
    assert!(pair.sides[0].at_end(key));
    pair.run(100);
    for side in &pair.sides {
        assert!(side.streams.all.is_empty() && side.flights.is_empty());
        let books = side.stats().streams;
        assert_eq!((books.opened, books.ended, books.delivered), (1, 1, 14));
        assert_eq!(side.stats().repaired, 0);
        // At rest there is nothing to do.
        assert_eq!(side.wake(), None);
    }
}

#[test]
fn first_octets_go_with_the_opening() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[0].greet(pair.now);
    pair.run(50);
    assert!(pair.sides.iter().all(Session::is_known));
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].write(pair.now, key, b"at once");
    let sent = pair.sides[0].stats().datagrams_out;
    pair.until("read", |it| it.sides[1].read(THEIRS, 99) == b"at once");
    assert_eq!(pair.sides[0].stats().datagrams_out, sent + 1);
}

#[test]
fn a_refusal_has_the_reason_of_the_far_side() {
    let mut pair = Pair::new(1, [30, 0, 0]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    pair.sides[1].reset(THEIRS, 111);
    pair.until("refused", |it| {
        it.events[0].contains(&Event::Reset(key, 111))
    });
    pair.until("forgotten", |it| it.sides[1].streams.all.is_empty());
    assert_eq!(pair.sides[0].stats().streams.resets_by(ResetCause::Far), 1);
    assert_eq!(pair.sides[1].stats().streams.resets_by(ResetCause::Peer), 1);
}

#[test]
fn a_stream_that_ends_before_it_was_heard_of_leaves_no_gap() {
    let mut pair = Pair::new(1, [0; 3]);
    let first = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].reset(first, 104);
    let second = pair.sides[0].open(pair.now, open(2)).unwrap();
    pair.sides[0].write(pair.now, second, b"x");
    pair.until("read", |it| {
        it.sides[1].read(Key { ours: false, n: 1 }, 9) == b"x"
    });
    pair.run(100);
    assert!(!pair.sides[1].openings.has_gaps());
    assert!(!pair.sides[0].streams.all.contains_key(&first));
}

#[test]
fn what_nobody_reads_is_not_sent_beyond_the_window() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    pair.sides[1].accept(THEIRS);
    pair.sides[0].write(pair.now, key, &text(200_000, 0));
    pair.run(1000);
    assert_eq!(pair.sides[1].streams.all[&THEIRS].held(), SETTINGS.window);
    assert_eq!(pair.sides[0].room(key), 0);
    let mut came = Vec::new();
    pair.until("all", |it| {
        came.extend(it.sides[1].read(THEIRS, 5000));
        came.len() == 200_000
    });
    assert!(came == text(200_000, 0));
}

#[test]
fn a_partner_that_began_anew_ends_all_streams_but_those_it_never_heard_of() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    pair.sides[1].accept(THEIRS);
    pair.sides[0].write(pair.now, key, b"lost");
    pair.run(50);
    pair.sides[1] = Session::new(3, SETTINGS);
    pair.events[1].clear();
    // It says so itself.
    pair.sides[1].greet(pair.now);
    let fresh = pair.sides[0].open(pair.now, open(2)).unwrap();
    pair.until("told", |it| it.events[0].contains(&Event::Reset(key, 104)));
    assert_eq!(pair.sides[0].stats().restarts, 1);
    pair.until("opened again", |it| it.opened().is_some());
    assert_eq!(
        pair.opened(),
        Some(Key {
            ours: false,
            n: fresh.n
        })
    );
    pair.sides[1].accept(Key {
        ours: false,
        n: fresh.n,
    });
    pair.until("accepted", |it| {
        it.events[0].contains(&Event::Accepted(fresh))
    });
}

#[test]
fn a_late_hello_of_an_earlier_incarnation_is_no_news() {
    let mut pair = Pair::new(1, [0; 3]);
    let hello = |to, from| {
        let mut bytes = Vec::new();
        write_head(Head::Hello { to, from, first: 0 }, &mut bytes);
        bytes
    };
    pair.sides[0].hear(pair.now, 0, &hello(1, 2)).unwrap();
    pair.sides[0].hear(pair.now, 0, &hello(1, 3)).unwrap();
    assert_eq!(
        (
            pair.sides[0].greeting.peer(),
            pair.sides[0].stats().restarts
        ),
        (Some(3), 1)
    );
    pair.sides[0].hear(pair.now, 0, &hello(1, 2)).unwrap();
    // Nor is one of somebody who doesn't know whom he speaks to.
    pair.sides[0].hear(pair.now, 0, &hello(9, 4)).unwrap();
    assert_eq!(
        (
            pair.sides[0].greeting.peer(),
            pair.sides[0].stats().restarts
        ),
        (Some(3), 1)
    );
}

#[test]
fn items_of_another_incarnation_are_not_taken_for_those_of_this_one() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    // Its hello is lost, and so it says something first.
    let mut later = Session::new(3, SETTINGS);
    let mut hello = Vec::new();
    let (to, from, first) = (3, 1, 1);
    write_head(Head::Hello { to, from, first }, &mut hello);
    later.hear(pair.now, 0, &hello).unwrap();
    later.poll(pair.now, 10, 1200).unwrap();
    later.open(pair.now, open(2)).unwrap();
    let words = later.poll(pair.now, 10, 1200).unwrap();
    let before = pair.sides[0].stats().datagrams_in;
    pair.sides[0].hear(pair.now, 10, &words).unwrap();
    let stats = pair.sides[0].stats();
    assert_eq!((stats.datagrams_in, stats.strangers), (before, 1));
}

#[test]
fn an_opening_that_comes_again_opens_nothing() {
    let mut pair = Pair::new(1, [0; 3]);
    let mut hello = Vec::new();
    let (to, from, first) = (1, 9, u32::MAX);
    write_head(Head::Hello { to, from, first }, &mut hello);
    pair.sides[0].hear(pair.now, 0, &hello).unwrap();
    for number in 0..2 {
        let mut bytes = Vec::new();
        let number = Some(number);
        let to = both(1, 9);
        write_head(Head::Items { to, number }, &mut bytes);
        let Open { ends, dscp } = open(1);
        let n = u32::MAX;
        write_item(&Item::Open { n, dscp, ends }, &mut bytes);
        pair.sides[0].hear(pair.now, 0, &bytes).unwrap();
        pair.sides[0].check();
    }
    assert_eq!(pair.sides[0].stats().streams.opened, 1);
}

#[test]
fn silence_is_taken_for_loss_at_its_time_and_not_before() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[0].greet(pair.now);
    pair.run(50);
    pair.cut = true;
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].write(pair.now, key, &text(5000, 0));
    pair.step();
    let side = &mut pair.sides[0];
    let due = side.wake().unwrap();
    side.tend(due - Duration::from_nanos(1));
    assert_eq!((side.flights.asks(), side.flights.len()), (false, 1));
    side.tend(due);
    assert!(side.flights.asks());
    assert_eq!((side.flights.len(), side.stats().repaired), (0, 1));
    // One small question at a time.
    let asked = side.poll(due, 10, 1200).unwrap();
    assert!(asked.len() <= PROBE_OCTETS);
    assert!(side.wants(due).is_empty());
    // Datagrams that still wait here can't have been answered.
    side.wait(due + Duration::from_millis(1400));
    assert_eq!(
        side.wake(),
        Some(due + Duration::from_millis(1400) + SETTINGS.waits.pause)
    );
}

#[test]
fn answers_that_take_longer_than_thought_are_known_to_from_then_on() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.delay = Duration::from_secs(3);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].write(pair.now, key, &text(16_000, 0));
    pair.run(2000);
    assert_eq!(pair.sides[1].stats().streams.taken, 16_000);
    let repaired = pair.sides[0].stats().repaired;
    pair.sides[1].accept(THEIRS);
    pair.sides[1].read(THEIRS, 16_000);
    pair.run(1000);
    pair.sides[0].write(pair.now, key, &text(40_000, 0));
    pair.run(2000);
    assert_eq!(pair.sides[1].stats().streams.taken, 56_000);
    assert_eq!(pair.sides[0].stats().repaired, repaired);
}

#[test]
fn after_an_outage_of_a_minute_the_stream_goes_on_within_two_seconds() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    pair.sides[1].accept(THEIRS);
    pair.sides[0].write(pair.now, key, &text(30_000, 0));
    pair.run(8);
    pair.cut = true;
    pair.run(6000);
    let sent = pair.sides[0].stats().datagrams_out;
    assert!(sent < 70, "{sent} datagrams into the void");
    pair.cut = false;
    let healed = pair.now;
    let before = pair.sides[1].stats().streams.taken;
    pair.until("goes on", |it| it.sides[1].stats().streams.taken > before);
    assert!(pair.now.since(healed) < Duration::from_secs(2));
}

#[test]
fn a_partner_is_there_from_its_first_word_until_it_is_silent_for_long() {
    let mut pair = Pair::new(1, [0; 3]);
    assert!(!pair.sides[0].is_there());
    pair.sides[0].greet(pair.now);
    pair.until("there", |it| it.sides[0].is_there());
    // Nothing is missed as long as nothing was asked.
    pair.run(10_000);
    assert!(pair.sides[0].is_there());
    let old = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    let far = pair.opened().unwrap();
    pair.sides[1].accept(far);
    pair.until("accepted", |it| {
        it.events[0].contains(&Event::Accepted(old))
    });
    pair.run(100);
    pair.cut = true;
    pair.way.clear();
    let since = pair.now;
    let new = pair.sides[0].open(pair.now, open(2)).unwrap();
    let lost = Event::Lost(new);
    pair.until("lost", |it| it.events[0].contains(&lost));
    let after = pair.now.since(since).as_millis();
    assert!((31_000..33_000).contains(&after), "{after} ms");
    assert!(!pair.sides[0].is_there());
    // What was accepted goes on, and there is somebody again with the first answer.
    pair.cut = false;
    pair.until("there again", |it| it.sides[0].is_there());
    pair.sides[0].write(pair.now, old, b"still");
    pair.until("read", |it| it.sides[1].read(far, 9) == b"still");
    let told = |event: &&Event| matches!(event, Event::Lost(_) | Event::Reset(..));
    assert_eq!(pair.events[0].iter().filter(told).count(), 1);
}

#[test]
fn after_a_quarter_of_an_hour_of_silence_all_streams_end() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    let far = pair.opened().unwrap();
    pair.sides[1].accept(far);
    pair.until("accepted", |it| {
        it.events[0].contains(&Event::Accepted(key))
    });
    pair.run(100);
    pair.cut = true;
    pair.way.clear();
    let sent = pair.sides[0].stats().datagrams_out;
    pair.sides[0].write(pair.now, key, b"x");
    pair.run(89_900);
    assert_eq!(pair.events[0].last(), Some(&Event::Ready(key)));
    pair.run(200);
    assert!(pair.events[0].contains(&Event::Reset(key, TIMED_OUT)));
    // It asks ever less often.
    let asked = pair.sides[0].stats().datagrams_out - sent;
    assert!((200..260).contains(&asked), "{asked}");
    // The other side hears of it when it can.
    pair.cut = false;
    let told = Event::Reset(far, TIMED_OUT);
    pair.until("told", |it| it.events[1].contains(&told));
}

#[test]
fn who_speaks_and_does_not_hear_is_silent() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[0].greet(pair.now);
    pair.until("both there", |it| it.sides.iter().all(Session::is_there));
    pair.run(100);
    pair.sides[0].open(pair.now, open(1)).unwrap();
    // What the first side sends goes astray, and what comes to it doesn't.
    for n in 0..3400 {
        if n % 300 == 0 {
            let key = pair.sides[1].open(pair.now, open(9)).unwrap();
            pair.sides[1].reset(key, 104);
        }
        pair.step();
        pair.way.retain(|(_, to, ..)| *to == 0);
    }
    assert!(!pair.sides[0].is_there());
}

#[test]
fn short_streams_go_before_long_ones_and_none_starves() {
    let mut pair = Pair::new(1, [0; 3]);
    let long = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].write(pair.now, long, &text(16_000, 0));
    pair.run(30);
    let short = pair.sides[0].open(pair.now, open(2)).unwrap();
    // Not before the other side hears of it.
    assert_eq!(
        pair.sides[0]
            .streams
            .next(pair.now, 10, true, SETTINGS.wait),
        None
    );
    pair.step();
    pair.sides[0].write(pair.now, short, &text(2000, 0));
    assert_eq!(
        pair.sides[0]
            .streams
            .next(pair.now, 10, true, SETTINGS.wait),
        Some(short)
    );
    pair.sides[0].write(pair.now, long, &text(60_000, 0));
    let served = pair.sides[0].streams.all[&long].served;
    pair.sides[0]
        .streams
        .all
        .get_mut(&long)
        .unwrap()
        .outbound
        .limit = 100_000;
    let late = served + SETTINGS.wait;
    let before = late - Duration::from_nanos(1);
    pair.sides[0].streams.all.get_mut(&short).unwrap().served = before;
    assert_eq!(
        pair.sides[0].streams.next(before, 10, true, SETTINGS.wait),
        Some(short)
    );
    assert_eq!(
        pair.sides[0].streams.next(late, 10, true, SETTINGS.wait),
        Some(long)
    );
}

#[test]
fn another_exchange_of_a_connection_goes_first_as_the_first_did() {
    let mut pair = Pair::new(1, [0; 3]);
    let [page, long] = [1, 2].map(|port| pair.sides[0].open(pair.now, open(port)).unwrap());
    pair.sides[0].write(pair.now, page, &text(3000, 0));
    pair.until("all there", |it| {
        it.sides[0].streams.all[&page].outbound.held() == 0
    });
    let side = &mut pair.sides[0];
    side.write(pair.now, long, &text(60_000, 0));
    side.streams.all.get_mut(&long).unwrap().attained = 1000;
    assert_eq!(side.streams.all[&page].attained, 3000);
    side.write(pair.now, page, &text(500, 0));
    assert_eq!(
        side.streams.next(pair.now, 10, true, SETTINGS.wait),
        Some(page)
    );
    // More of the same exchange isn't another one.
    side.streams.all.get_mut(&page).unwrap().attained = 2500;
    side.write(pair.now, page, &text(500, 0));
    assert_eq!(
        side.streams.next(pair.now, 10, true, SETTINGS.wait),
        Some(long)
    );
}

#[test]
fn what_is_overtaken_is_lost_once_the_link_had_time_to_repeat_it() {
    let ns = Duration::from_nanos(1);
    for (reorder, lost) in [
        (Duration::ZERO, 1),
        (Duration::from_secs(4), 1),
        (Duration::from_secs(4) + ns, 0),
    ] {
        let mut flights = Flights::default();
        for second in 0..5 {
            flights.send(Instant::from_secs(second), 10, 100, Vec::new());
        }
        let waits = Waits {
            reorder,
            ..SETTINGS.waits
        };
        let told = flights.hear(Instant::from_secs(5), &[(1, 4)], waits);
        assert_eq!((told.repairs, flights.len() as u64), (lost, 1 - lost));
    }
}

#[test]
fn more_streams_than_there_may_be_are_refused_and_counted() {
    let mut pair = Pair::new(1, [0; 3]);
    for port in 0..16 {
        pair.sides[0].open(pair.now, open(port)).unwrap();
    }
    assert_eq!(pair.sides[0].open(pair.now, open(99)), Err(Fault::Full));
    pair.sides[1].set(Settings {
        streams_max: 8,
        ..SETTINGS
    });
    pair.run(300);
    let refused = |it: &&Event| matches!(it, Event::Reset(_, TRY_AGAIN));
    assert_eq!(pair.events[0].iter().filter(refused).count(), 8);
    let refused = pair.sides.each_ref().map(|it| it.stats().refused);
    assert_eq!(refused, [1, 8]);
}

#[test]
fn of_streams_that_had_little_the_latest_goes_first_and_of_long_ones_who_had_least() {
    let mut pair = Pair::new(1, [0; 3]);
    let earlier = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].write(pair.now, earlier, &text(100, 0));
    pair.now += Duration::from_secs(10);
    let later = pair.sides[0].open(pair.now, open(2)).unwrap();
    pair.sides[0].write(pair.now, later, &text(100, 0));
    let now = pair.now;
    let mut next = |had: [u64; 2]| {
        for (key, had) in [earlier, later].into_iter().zip(had) {
            pair.sides[0].streams.change(key, |stream| {
                (stream.attained, stream.opening) = (had, Word::Known);
                stream.outbound.lose(Piece {
                    from: 0,
                    to: 100,
                    end: false,
                });
            });
        }
        pair.sides[0].streams.next(now, 10, true, SETTINGS.wait)
    };
    assert_eq!(next([4700, 4760]), Some(later));
    assert_eq!(next([4700, 8191]), Some(later));
    assert_eq!(next([4700, 8192]), Some(earlier));
    assert_eq!(next([1, 1023]), Some(later));
    assert_eq!(next([20_000, 20_001]), Some(earlier));
    assert_eq!(next([16_383, 16_384]), Some(earlier));
    assert_eq!(next([4700, 4760]), Some(later));
    // What began together has equal shares.
    pair.sides[0].streams.change(earlier, |it| it.began = now);
    let together = pair.sides[0].streams.next(now, 10, true, SETTINGS.wait);
    assert_eq!(together, Some(earlier));
}

#[test]
fn an_older_credit_that_arrives_tells_nothing_of_a_newer_one_that_is_lost() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    let streams = &mut pair.sides[1].streams;
    let mut say = |limit| {
        let word = streams.change(THEIRS, |stream| {
            (stream.inbound.limit, stream.inbound.credit) = (limit, Word::Due);
            stream.say_word(THEIRS)
        });
        word.unwrap().unwrap().1
    };
    let [older, newer] = [70_000, 80_000].map(&mut say);
    assert_eq!(key.n, THEIRS.n);
    streams.arrive(older);
    streams.lose(newer);
    assert!(streams.get(THEIRS).unwrap().inbound.credit.is_due());
}

#[test]
fn whoever_missed_that_a_known_side_began_anew_is_told_again() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[0].greet(pair.now);
    pair.until("known", |it| it.sides.iter().all(Session::is_known));
    pair.run(50);
    pair.sides[1] = Session::new(3, SETTINGS);
    pair.sides[1].greet(pair.now);
    // It learns who is there, and its own answer is lost.
    pair.until("heard", |it| it.sides[1].is_known());
    pair.send();
    pair.way.clear();
    assert!(pair.sides[0].greeting.peer() != Some(3));
    pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
}

#[test]
fn a_session_that_began_anew_minds_no_gap_before_a_stream() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[1].openings.begin(14);
    pair.sides[0].next = 1000;
    pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].greet(pair.now);
    pair.until("opened", |it| it.opened().is_some());
}

#[test]
fn an_end_that_a_restart_swallowed_is_said_again() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[0].greet(pair.now);
    pair.until("known", |it| it.sides.iter().all(Session::is_known));
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.sides[0].finish(key);
    pair.step();
    // The far side begins anew before it hears of the stream.
    pair.way.clear();
    pair.sides[1] = Session::new(3, SETTINGS);
    pair.sides[1].greet(pair.now);
    pair.until("opened and ended", |it| it.sides[1].at_end(THEIRS));
}

#[test]
fn a_reader_has_credit_although_others_hold_all_there_is() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[1].set(Settings {
        octets_max: 2 * FIRST_CREDIT,
        ..SETTINGS
    });
    // One isn't read from, the other is.
    let keys = [1, 2].map(|port| pair.sides[0].open(pair.now, open(port)).unwrap());
    let far = [0, 1].map(|n| Key { ours: false, n });
    for key in keys {
        pair.sides[0].write(pair.now, key, &text(200_000, 0));
    }
    let mut came = 0;
    pair.until("all", |it| {
        far.iter().for_each(|key| it.sides[1].accept(*key));
        came += it.sides[1].read(far[1], 5000).len();
        came == 200_000
    });
    assert!(pair.sides[1].streams.all[&far[0]].held() <= FIRST_CREDIT);
    assert!(pair.sides[1].stats().starved > 0);
}

#[test]
fn who_sends_more_than_he_may_ends_his_stream() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    pair.sides[0]
        .streams
        .all
        .get_mut(&key)
        .unwrap()
        .outbound
        .limit = u64::MAX / 4;
    pair.sides[0].write(pair.now, key, &text(100_000, 0));
    pair.until("ended", |it| {
        it.events[0].contains(&Event::Reset(key, PROTOCOL))
    });
    assert!(pair.events[1].contains(&Event::Reset(THEIRS, PROTOCOL)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn octets_come_whole_and_in_order_whatever_the_way_does(
        seed in any::<u64>(),
        faults in (0..30_u64, 0..20_u64, 0..40_u64),
        lengths in proptest::collection::vec(0..40_000_usize, 1..5),
    ) {
        let mut pair = Pair::new(seed, [faults.0, faults.1, faults.2]);
        let mut keys = Vec::new();
        for (port, length) in lengths.iter().enumerate() {
            let key = pair.sides[0].open(pair.now, open(port as u16)).unwrap();
            pair.sides[0].write(pair.now, key, &text(*length, port));
            pair.sides[0].finish(key);
            keys.push(key);
        }
        let mut came = vec![Vec::new(); lengths.len()];
        let mut back = vec![Vec::new(); lengths.len()];
        let mut ended = vec![[false; 2]; lengths.len()];
        let mut lost = vec![false; lengths.len()];
        pair.until("all streams end", |it| {
            for event in core::mem::take(&mut it.events[1]) {
                if let Event::Opened(key, _) = event {
                    it.sides[1].accept(key);
                }
            }
            for (at, key) in keys.iter().enumerate() {
                let theirs = Key { ours: false, n: key.n };
                let octets = it.sides[1].read(theirs, 3000);
                if !octets.is_empty() {
                    it.sides[1].write(it.now, theirs, &octets);
                }
                came[at].extend(octets);
                if !ended[at][1] && it.sides[1].at_end(theirs) {
                    ended[at][1] = true;
                    it.sides[1].finish(theirs);
                }
                back[at].extend(it.sides[0].read(*key, 2000));
                ended[at][0] |= it.sides[0].at_end(*key);
                // Whoever hears nothing for 30 s while connections wait is told so.
                if it.events[0].contains(&Event::Lost(*key)) {
                    ended[at] = [true; 2];
                    lost[at] = true;
                }
            }
            ended.iter().all(|it| *it == [true; 2])
                && it.sides.iter().all(|side| side.streams.all.is_empty())
        });
        for (at, length) in lengths.iter().enumerate() {
            if lost[at] {
                // It takes some eight datagrams or their answers in a row.
                prop_assert!(faults.0 >= 10, "stream {} lost", at);
                prop_assert!(text(*length, at).starts_with(&came[at]), "stream {} there", at);
                continue;
            }
            prop_assert!(came[at] == text(*length, at), "stream {} there", at);
            prop_assert!(back[at] == came[at], "stream {} back", at);
        }
    }

    #[test]
    fn whatever_is_said_breaks_nothing(
        seed in any::<u64>(),
        words in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..60), any::<u8>()), 0..40
        ),
    ) {
        let mut pair = Pair::new(seed, [0; 3]);
        pair.sides[0].open(pair.now, open(1)).unwrap();
        pair.until("opened", |it| it.opened().is_some());
        pair.sides[1].accept(THEIRS);
        for (to, mut octets, number) in words {
            let to = usize::from(to);
            let mut bytes = Vec::new();
            let token = both(1 + to as u32, 2 - to as u32);
            let head = Head::Items { to: token, number: Some(u64::from(number)) };
            write_head(head, &mut bytes);
            bytes.append(&mut octets);
            let _ = pair.sides[to].hear(pair.now, 10, &bytes);
            pair.step();
        }
        pair.run(20);
    }
}

#[test]
fn clients_that_were_connected_early_are_waited_for_and_never_for_long() {
    let mut pair = Pair::new(1, [0; 3]);
    let (near, begun) = (&mut pair.sides[0], pair.now);
    let after = |ms| begun + Duration::from_millis(ms);
    let key = near.open(begun, open(1)).unwrap();
    near.expect(begun, key);
    assert_eq!(near.settles(), Some(after(300)));
    // It has said something: others may come just behind.
    near.write(after(5), key, &text(200, 1));
    assert_eq!(near.settles(), Some(after(35)));
    // Some never do, and more come on and on: they hold nothing up for longer.
    for ms in [10, 60, 260, 460, 560, 860] {
        let other = near.open(after(ms), open(1)).unwrap();
        near.expect(after(ms), other);
        assert!(near.settles().unwrap() <= after(500), "{ms} ms");
    }
}

#[test]
fn answers_are_waited_for_as_long_as_they_may_come() {
    let mut pair = Pair::new(1, [0; 3]);
    let after = |at: Instant, ms| Some(at + Duration::from_millis(ms));
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    assert_eq!(pair.sides[1].settles(), None);
    pair.sides[0].write(pair.now, key, &text(300, 1));
    pair.until("opened", |it| it.opened().is_some());
    let (theirs, asked) = (pair.opened().unwrap(), pair.now);
    let far = &mut pair.sides[1];
    assert_eq!(far.settles(), after(asked, 300));
    for (at, octets, settles) in [(100, 5000, 130), (490, 5000, 500), (600, 1000, 500)] {
        let now = asked + Duration::from_millis(at);
        far.write(now, theirs, &text(octets, 2));
        assert_eq!(far.settles(), after(asked, settles), "{at}");
    }
    let [just, lately] = [Duration::from_millis(600), Duration::from_secs(15)];
    let later = asked + just;
    assert_eq!([just, lately].map(|it| far.answers(later, it)), [0, 11_000]);
    // Whoever asked needs no time to think.
    far.accept(theirs);
    pair.run(50);
    assert!(pair.sides[0].settles().unwrap() < asked);
}
