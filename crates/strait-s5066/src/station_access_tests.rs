//! Nets of many that listen before they transmit.

use super::*;
use crate::c_pdu::{CPdu, Ours};
use crate::d_pdu::{Body, Warning};

const SLOT: Duration = Duration::from_millis(600);
const NS: Duration = Duration::from_nanos(1);

fn csma(order: Order) -> Csma {
    Csma {
        order,
        slot: SLOT,
        slots: 8,
        slots_max: 64,
        exchange: Duration::from_secs(30),
    }
}

fn net(count: usize, csma: Csma) -> World {
    let station = |number: usize| Settings {
        access: Access::Csma(csma),
        turn_max: Duration::from_secs(10),
        ..settings(number)
    };
    World::new(Air::at(9600, 0.0), (0..count).map(station).collect())
}

/// A warning from one station to another: short, and of no consequence for who overhears it.
fn word(from: usize, to: usize) -> Vec<u8> {
    let body = Body::Warning(Warning::of(15, 0));
    of([from, to], body)
}

/// Lets a station hear one transmission that ends at `end`; none of it, if there are no octets.
fn overhear(station: &mut Station<u32>, end: Instant, bytes: &[u8]) {
    station.hear_carrier(end - Duration::from_secs(2), true);
    station.hear(end, bytes);
    station.hear_carrier(end, false);
}

/// How long a station keeps quiet after `end`, checked to the nanosecond.
fn quiet(station: &mut Station<u32>, end: Instant) -> Duration {
    let Phase::Quiet(at) = station.access.phase() else {
        panic!("{:?}", station.access.phase());
    };
    station.advance(at - NS);
    assert!(!station.may_transmit());
    station.advance(at);
    assert!(station.may_transmit());
    at.since(end)
}

#[test]
fn by_chance_whole_slots_are_drawn_and_more_of_them_after_collisions() {
    let mut world = net(3, csma(Order::Chance));
    let station = &mut world.stations[0];
    let mut end = Instant::from_secs(10);
    let mut most = Vec::new();
    for garbled in [false, true] {
        let mut drawn = Vec::new();
        for _ in 0..300 {
            let bytes = if garbled { Vec::new() } else { word(1, 2) };
            overhear(station, end, &bytes);
            let slots = quiet(station, end).as_nanos() / SLOT.as_nanos();
            assert_eq!(station.access.now(), end + SLOT * slots as u32);
            drawn.push(slots);
            end += Duration::from_secs(60);
        }
        assert_eq!(drawn.iter().min(), Some(&1));
        most.push(drawn.into_iter().max());
    }
    // Eight slots; 64 after collisions, which are the most.
    assert_eq!(most, [Some(8), Some(64)]);
    assert_eq!(station.stats().garbled, 300);
    // What is understood halves them again.
    for slots in [32, 16, 8] {
        overhear(station, end, &word(1, 2));
        assert!(quiet(station, end) <= SLOT * slots);
        end += Duration::from_secs(60);
    }
}

#[test]
fn a_slot_is_never_shorter_than_what_the_own_modem_takes() {
    let short = Csma {
        slot: Duration::from_millis(10),
        ..csma(Order::Address)
    };
    let mut world = net(2, short);
    world.offer(0, 1, 100, false);
    world.run(Instant::from_secs(20));
    let station = &mut world.stations[0];
    let end = Instant::from_secs(30);
    overhear(station, end, &word(1, 1));
    let slot = LEAD + settings(0).guard;
    assert_eq!(quiet(station, end), slot);
}

#[test]
fn an_owed_answer_goes_at_once_and_comes_before_all_else() {
    let mut world = net(5, csma(Order::Chance));
    for from in 1..5 {
        world.offer(from, 0, 300, true);
    }
    world.run(Instant::from_secs(200));
    let mut marks = world.marks(0);
    marks.sort_unstable();
    assert_eq!(marks, [0, 1, 2, 3]);
    // Whenever one was spoken to and answered, nobody came in between.
    let guard = settings(0).guard;
    let latency = world.state().latency;
    for pair in world.turns.windows(2) {
        let [(_, starts, blocks), (_, next, _)] = pair else {
            unreachable!()
        };
        let silent = next.since(*starts + world.air.block * *blocks);
        let answer = latency + guard + LEAD;
        assert!(
            silent <= answer || silent >= answer + SLOT - guard,
            "{silent:?}"
        );
    }
}

/// Everybody has plenty for the next one; the share of the air that carried it, and by station the
/// C_PDUs that came.
fn full(count: usize, access: Access, life: u64) -> (f64, Vec<usize>, u32) {
    let station = |number: usize| Settings {
        access,
        turn_max: Duration::from_secs(10),
        ..settings(number)
    };
    let mut world = World::new(Air::at(9600, 0.0), (0..count).map(station).collect());
    for number in 0..count {
        world.stations[number] = world.station(number, station(number), life);
    }
    for from in 0..count {
        for _ in 0..800 {
            world.offer(from, (from + 1) % count, 1000, true);
        }
    }
    let end = Instant::from_secs(900);
    world.run(end);
    let mut came = Vec::new();
    for to in 0..count {
        let marks = world.marks(to);
        assert_once(&marks);
        came.push(marks.len());
    }
    let octets = came.iter().sum::<usize>() * 1000;
    let share = octets as f64 * 8.0 / 9600.0 / 900.0;
    (share, came, world.collisions)
}

#[test]
fn with_everybody_at_it_turns_by_address_waste_little_and_are_shared_evenly() {
    let (share, came, collisions) = full(5, Access::Csma(csma(Order::Address)), 0);
    let (least, most) = (came.iter().min(), came.iter().max());
    assert!(share > 0.7, "{share}");
    assert!(least >= most.map(|most| most * 9 / 10).as_ref(), "{came:?}");
    // They all begin at the same moment, and haven't heard each other before.
    assert!(collisions <= 4, "{collisions}");
}

#[test]
fn with_everybody_at_it_drawn_waits_still_give_each_a_share() {
    for (order, least) in [(Order::Chance, 0.45), (Order::Jitter, 0.42)] {
        let many = Csma {
            slots: 24,
            ..csma(order)
        };
        // What one draws says little: by jitter one of five has less than 0.4. By chance shares are
        // 0.49 with a deviation of 0.045, a mean of twelve with one of 0.013: three of these below.
        let lives = 12;
        let all = (0..lives).map(|life| full(5, Access::Csma(many), life));
        let (shares, even): (Vec<f64>, Vec<f64>) =
            all.map(|(share, came, _)| (share, fairness(&came))).unzip();
        let share = shares.iter().sum::<f64>() / lives as f64;
        assert!(share > least, "{order:?}: {share}, {shares:?}");
        let even = even.iter().sum::<f64>() / lives as f64;
        assert!(even > 0.7, "{order:?}: {even}");
    }
}

/// Jain's index: 1 if all have the same, one over their number if one has all.
fn fairness(came: &[usize]) -> f64 {
    let sum: usize = came.iter().sum();
    let squares: usize = came.iter().map(|it| it * it).sum();
    (sum * sum) as f64 / (came.len() * squares) as f64
}

#[test]
fn two_that_have_more_and_more_for_each_other_let_others_in() {
    // By address it calls behind one exchange and sends behind the next; by chance it comes.
    for (order, patience) in [(Order::Address, 120), (Order::Chance, 400)] {
        let mut world = net(3, csma(order));
        for _ in 0..1000 {
            world.offer(0, 1, 1000, true);
            world.offer(1, 0, 1000, true);
        }
        world.run(Instant::from_secs(60));
        world.offer(2, 0, 200, true);
        let mark = world.tickets - 1;
        world.run(Instant::from_secs(60 + patience));
        let came = world.marks(0).contains(&mark);
        assert!(came, "{order:?}: {:?}", world.turns);
    }
}

#[test]
fn a_station_serves_all_its_neighbours_whoever_has_more_for_it() {
    let orders = [Order::Address, Order::Chance, Order::Jitter];
    for order in orders {
        for talker in [None, Some(1), Some(2)] {
            let mut world = net(3, csma(order));
            for _ in 0..3000 {
                world.offer(0, 1, 1000, true);
                world.offer(0, 2, 1000, true);
                if let Some(talker) = talker {
                    world.offer(talker, 0, 1000, true);
                }
            }
            world.run(Instant::from_secs(2400));
            let turns = |to: usize| {
                let begun = world.begun.iter();
                begun.filter(|turn| (turn.1, turn.2) == (0, to)).count()
            };
            let (least, most) = (turns(1).min(turns(2)), turns(1).max(turns(2)));
            // An exchange with who talks to it has up to four of its turns, and comes as often.
            assert!(least * 5 >= most, "{order:?}, {talker:?}: {least}, {most}");
            let came = [world.marks(1).len(), world.marks(2).len()];
            let even = came[0].abs_diff(came[1]) * 5 < came[0];
            assert!(talker.is_some() || even, "{order:?}: {came:?}");
        }
    }
}

#[test]
fn two_that_met_count_from_the_same_moment_and_do_not_meet_again() {
    // Each heard the end of the other's transmission, one of them before the end of its own.
    for late_ms in (0..500).step_by(10) {
        let mut world = net(5, csma(Order::Address));
        world.run(Instant::from_secs(1));
        world.offer(1, 2, 100, true);
        world.run(world.now + Duration::from_millis(late_ms));
        world.offer(2, 3, 100, true);
        world.run(Instant::from_secs(60));
        assert_eq!(world.collisions, 1, "{late_ms} ms");
        assert_eq!((world.marks(2).len(), world.marks(3).len()), (1, 1));
    }
}

#[test]
fn who_heard_nothing_of_a_turn_counts_from_its_end_like_whoever_it_met() {
    for (number, margin_ms) in (0..5).flat_map(|number| [0, 700, 2300].map(|it| (number, it))) {
        let mut world = net(5, csma(Order::Address));
        let station = &mut world.stations[number];
        configure(station, |it| {
            it.answer_margin = Duration::from_millis(margin_ms);
        });
        let to = (number + 1) % 5;
        world.deaf[to][number] = true;
        world.offer(number, to, 100, true);
        world.run(Instant::from_secs(30));
        let (_, starts, blocks) = world.turns[0];
        let known = starts + world.air.block * blocks + world.state().latency;
        // The slot of an answer, those of stations with lower addresses, and whole rounds.
        let waited = world.begun[1].0.since(known);
        let late = waited.saturating_sub(SLOT * (1 + number as u32));
        let round = (SLOT * 5).as_nanos();
        assert!(
            late.as_nanos().is_multiple_of(round),
            "{number}: {waited:?}"
        );
        assert!(late < world.stations[number].access.answer_time() + SLOT * 5);
    }
}

#[test]
fn a_caller_whose_turn_comes_late_is_not_called_meanwhile() {
    // By chance, the longest wait is longer than four answers take to begin.
    let late = Csma {
        slots: 64,
        ..csma(Order::Chance)
    };
    for seed in 0..40 {
        let mut world = net(2, late);
        world.run(Instant::from_millis(seed));
        for station in [0, 1] {
            // With other draws.
            let settings = world.stations[station].settings.clone();
            world.restart(station, settings);
        }
        world.offer(0, 1, 100, true);
        world.run(world.now + Duration::from_secs(4));
        world.offer(1, 0, 100, true);
        world.run(world.now + Duration::from_secs(80));
        assert_eq!(world.outcomes, [[(0, true)], [(1, true)]], "{seed}");
        let made = [0, 1].map(|station| world.stations[station].stats().links_made);
        assert_eq!(made, [1, 1], "{seed}");
    }
}

#[test]
fn a_caller_that_vanished_is_waited_for_until_all_had_a_turn_for_each_other() {
    let drawn = [Order::Chance, Order::Jitter].map(|order| (Access::Csma(csma(order)), 30, 4));
    let ordered = (Access::Csma(csma(Order::Address)), 30, 1);
    for (access, exchange, turns) in drawn.into_iter().chain([ordered, (Access::Turns, 10, 4)]) {
        let station = |number: usize| Settings {
            access,
            turn_max: Duration::from_secs(10),
            ..settings(number)
        };
        let mut world = World::new(Air::at(9600, 0.0), (0..4).map(station).collect());
        let station = &mut world.stations[0];
        let asked = Instant::from_secs(10);
        let call = CPdu::Request {
            exclusive: false,
            ours: None,
        };
        station.advance(asked);
        station.hear_control(1, call);
        station.peers[1].calls.say();
        // An exchange, its last transmission and the answer, and the slots behind it.
        let turn = Duration::from_secs(exchange + 10)
            + station.access.answer_time()
            + station.access.round();
        let latest = asked + station.access.patience() + turn * (4 * 3) * turns;
        let mut end = asked;
        while end < latest {
            end += Duration::from_secs(3);
            overhear(station, end, &word(2, 3));
        }
        let link = &station.peers[1].calls.link();
        assert!(!link.wants_call(latest - NS), "{access:?}");
        assert!(link.wants_call(latest), "{access:?}");
    }
}

#[test]
fn a_caller_of_ours_is_asked_or_called_soon_whatever_others_say() {
    // It may know nothing of a call in its name, and says what nodes of ours add if it calls.
    let orders = [Order::Address, Order::Chance, Order::Jitter];
    let kinds = [(false, true), (false, false), (true, true), (true, false)];
    for (order, (exclusive, says)) in orders
        .into_iter()
        .flat_map(|it| kinds.map(|kind| (it, kind)))
    {
        for calls in [true, false] {
            let mut world = net(3, csma(order));
            let [from, to] = if calls { [2, 1] } else { [1, 2] };
            world.offer(from, to, 100, true);
            world.run(world.now + Duration::from_secs(200));
            assert!(!world.stations[2].peer(1).is_some_and(Peer::is_linked));
            world.deaf[1][2] = true;
            let life = Some(7);
            let call = CPdu::Request {
                exclusive,
                ours: says.then_some(Ours { life, epoch: None }),
            };
            world.stations[2].advance(world.now);
            world.stations[2].hear_control(1, call);
            world.settle(2);
            for _ in 0..10 {
                world.run(world.now + Duration::from_secs(10));
                world.offer(0, 1, 100, false);
            }
            world.deaf[1][2] = false;
            world.offer(2, 1, 100, true);
            let mark = world.tickets - 1;
            for _ in 0..6 {
                world.run(world.now + Duration::from_secs(10));
                world.offer(0, 1, 100, false);
            }
            let came = world.marks(1).contains(&mark);
            assert!(came, "{order:?}: {exclusive}, {says}, {calls}");
        }
    }
}

#[test]
fn a_link_whose_answers_are_slow_is_not_lost() {
    // The other takes longer to begin than this one waits for it, and is heard all the same.
    let station = |number: usize| Settings {
        guard: Duration::from_millis(if number == 1 { 1200 } else { 50 }),
        answer_margin: Duration::ZERO,
        ..settings(number)
    };
    let mut world = World::new(Air::at(9600, 0.0), [0, 1].map(station).into());
    for _ in 0..60 {
        world.offer(0, 1, 100, true);
        world.run(world.now + Duration::from_secs(10));
    }
    world.run(world.now + Duration::from_secs(60));
    let stats = world.stations[0].stats();
    assert!(stats.unanswered > 20, "{stats:?}");
    assert_eq!((stats.links_made, stats.links_lost), (1, 0));
    assert_eq!(world.marks(1).len(), 60);
}

/// 0 and 1 have data for each other, and 1 doesn't hear 0 any more. 0 gives up after six turns
/// without an answer, 1 after so many.
fn half_deaf(unanswered_max: u32) -> World {
    let patience = |number, unanswered_max| Settings {
        unanswered_max,
        ..settings(number)
    };
    let stations = alloc::vec![patience(0, 6), patience(1, unanswered_max)];
    let mut world = World::new(Air::at(9600, 0.0), stations);
    world.offer(0, 1, 300, true);
    world.run(Instant::from_secs(20));
    world.deaf[1][0] = true;
    world.offer(0, 1, 300, true);
    world.offer(1, 0, 300, true);
    world
}

/// Until so many turns of 0 had no answer.
fn run_unanswered(world: &mut World, turns: u64) {
    while world.stations[0].stats().unanswered < turns {
        world.run(world.now + Duration::from_millis(100));
        assert!(world.now < Instant::from_secs(600));
    }
}

#[test]
fn a_link_is_not_lost_whose_other_end_uses_it() {
    // Found by the swarm: six turns met others, and between them came data by the link.
    let mut world = half_deaf(100);
    run_unanswered(&mut world, 11);
    world.deaf[1][0] = false;
    world.run(world.now + Duration::from_secs(300));
    assert_eq!(world.outcomes[0], [(0, true), (1, true)]);
    assert_eq!(world.outcomes[1], [(2, true)]);
    assert_eq!(world.stations[0].stats().links_lost, 0);
}

#[test]
fn a_link_whose_other_end_uses_it_and_never_answers_is_lost() {
    let mut world = half_deaf(100);
    run_unanswered(&mut world, 12);
    assert_eq!(world.stations[0].stats().links_lost, 1);
    assert_eq!(world.outcomes[0], [(0, true), (1, false)]);
}

#[test]
fn a_round_has_slots_that_are_long_enough_to_hear_in() {
    let short = Csma {
        slot: Duration::from_millis(10),
        ..csma(Order::Address)
    };
    let world = net(3, short);
    let station = &world.stations[0];
    let slot = station.access.lead() + station.settings.guard;
    assert!(slot > short.slot);
    assert_eq!(station.access.round(), slot * 3);
}

#[test]
fn where_waits_are_drawn_two_do_not_take_one_silence_for_theirs() {
    let orders = [Order::Address, Order::Chance, Order::Jitter];
    let orders = orders.map(|order| Access::Csma(csma(order)));
    for access in orders.into_iter().chain([Access::Turns]) {
        let station = |number: usize| Settings {
            access,
            ..settings(number)
        };
        let mut world = World::new(Air::at(9600, 0.0), (0..3).map(station).collect());
        let round = world.stations[0].access.round();
        let silences = world.stations.iter_mut().map(|it| it.access.silence());
        let silences: BTreeSet<Duration> = silences.collect();
        let drawn = access != orders[0];
        assert_eq!(silences.len(), if drawn { 3 } else { 1 }, "{access:?}");
        assert!(silences.iter().all(|silence| *silence >= round));
    }
}

#[test]
fn an_exclusive_link_is_not_held_open_by_what_others_say() {
    for exclusive in [true, false] {
        let mut world = net(2, csma(Order::Address));
        world.stations[0].set_exclusive(exclusive.then_some(Exclusive {
            peer: 1,
            keeps: false,
        }));
        world.offer(0, 1, 84, true);
        world.run(world.now + Duration::from_secs(20));
        assert!(world.stations[1].peer(0).is_some_and(Peer::is_linked));
        // The caller is gone, and the air is never silent for long.
        let station = &mut world.stations[1];
        station
            .access
            .wait_for_silence(world.now + Duration::from_secs(3600));
        let breaks = station.peers[0]
            .breaks_at(&station.access, station.settings.idle)
            .unwrap();
        assert_eq!(breaks < station.access.silent_at(), exclusive);
    }
}

#[test]
fn an_idle_link_that_keeps_others_out_is_broken_in_the_own_slot_behind_what_waited_for_that() {
    let orders = [Order::Address, Order::Chance, Order::Jitter].map(|it| Access::Csma(csma(it)));
    for access in orders.into_iter().chain([Access::Turns]) {
        let station = |number: usize| Settings {
            access,
            ..settings(number)
        };
        let mut world = World::new(Air::at(9600, 0.0), (0..2).map(station).collect());
        world.stations[0].set_exclusive(Some(Exclusive {
            peer: 1,
            keeps: false,
        }));
        world.offer(0, 1, 100, true);
        world.run(Instant::from_secs(20));
        let station = &mut world.stations[1];
        let idle = station.settings.idle;
        let end = station.peers[0].calls.link().idle_at(idle).expect("a link");
        overhear(station, end, &word(5, 6));
        let Phase::Quiet(at) = station.access.phase() else {
            panic!("{:?}", station.access.phase());
        };
        station.advance(at);
        assert!(station.takes(0, true) && !station.peers[0].calls.link().is_leaving());
        station.advance(at + NS);
        assert!(station.peers[0].calls.link().is_leaving(), "{access:?}");
    }
}
