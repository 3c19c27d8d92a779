//! Data with calls, between stations that know each other.

use super::*;
use crate::c_pdu::{CPdu, Ours};

/// A pair that had a link, which is idle and broken by now.
fn known_pair(air: Air) -> World {
    let mut world = World::pair(air);
    for station in [0, 1] {
        world.offer(station, 1 - station, 100, true);
        world.run(world.now + Duration::from_secs(200));
        assert!(
            !world.stations[station]
                .peer(1 - station)
                .is_some_and(Peer::is_linked)
        );
    }
    assert_eq!(
        (world.marks(1), world.marks(0)),
        (Vec::from([0]), Vec::from([1]))
    );
    world
}

/// An end breaks the link, though it would be kept.
fn break_off(world: &mut World, station: usize) {
    world.stations[station].peers[1 - station].calls.break_off();
    world.stations[station].advance(world.now);
    world.settle(station);
}

/// How long data took that is offered now.
fn takes(world: &mut World, from: usize) -> Duration {
    let begins = world.now;
    world.offer(from, 1 - from, 84, true);
    world.run(begins + Duration::from_secs(100));
    world.came[1 - from]
        .last()
        .expect("it came")
        .0
        .since(begins)
}

#[test]
fn data_goes_with_the_call_to_a_station_that_is_known() {
    let one_turn = LEAD + Duration::from_millis(480) * 2 + DELAY;
    let mut stranger = World::pair(Air::at(9600, 0.0));
    let first = takes(&mut stranger, 0);
    assert!(first > one_turn * 3, "{first:?}");
    let mut world = known_pair(Air::at(9600, 0.0));
    assert_eq!(takes(&mut world, 0), one_turn);
    assert!(
        world.stations[0].peer(1).is_some_and(Peer::is_linked)
            && world.stations[1].peer(0).is_some_and(Peer::is_linked)
    );
    // One that doesn't send it still takes it.
    let plain = |number| Settings {
        early_data: false,
        ..settings(number)
    };
    let mut world = known_pair(Air::at(9600, 0.0));
    configure(&mut world.stations[0], |it| *it = plain(0));
    assert_eq!(takes(&mut world, 0), first);
    world.run(world.now + Duration::from_secs(200));
    assert_eq!(takes(&mut world, 1), one_turn);
}

/// A pair whose link is idle and kept: data went with the call that it was made by.
fn kept_pair() -> World {
    let mut world = known_pair(Air::at(9600, 0.0));
    world.offer(0, 1, 84, true);
    world.run(world.now + Duration::from_secs(24 * 3600));
    let linked = |own: usize, far| world.stations[own].peer(far).is_some_and(Peer::is_linked);
    assert!(linked(0, 1) && linked(1, 0));
    world
}

#[test]
fn an_idle_link_of_ours_is_kept_and_costs_no_turn() {
    let one_turn = LEAD + Duration::from_millis(480) * 2 + DELAY;
    for from in [0, 1] {
        let mut world = kept_pair();
        for _ in 0..3 {
            world.kinds.clear();
            assert_eq!(takes(&mut world, from), one_turn);
            // The call, and that it is accepted.
            assert!(world.kinds.contains_key(&8));
            world.kinds.clear();
            assert_eq!(takes(&mut world, from), one_turn);
            assert!(!world.kinds.contains_key(&8));
            world.run(world.now + Duration::from_secs(3600));
        }
        assert_eq!(
            world
                .stations
                .iter()
                .map(|it| it.stats().links_lost)
                .sum::<u64>(),
            0
        );
    }
}

#[test]
fn over_an_idle_link_nothing_is_lost_to_an_end_that_began_anew() {
    for (restarted, from) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut world = kept_pair();
        world.restart(restarted, settings(restarted));
        let before = world.marks(1 - from).len();
        for _ in 0..3 {
            world.offer(from, 1 - from, 300, true);
        }
        world.run(world.now + Duration::from_secs(100));
        assert_eq!(
            world.marks(1 - from).len(),
            before + 3,
            "{restarted}, {from}"
        );
        assert_once(&world.marks(1 - from));
        assert!(world.outcomes[from].iter().all(|(_, delivered)| *delivered));
    }
}

#[test]
fn a_call_over_an_idle_link_may_be_lost_or_meet_another() {
    for (deaf, both) in [(0, false), (1, false), (0, true), (1, true)] {
        for until_ms in (0..8000).step_by(100) {
            let mut world = kept_pair();
            world.deaf[deaf][1 - deaf] = true;
            for station in 0..1 + usize::from(both) {
                for _ in 0..3 {
                    world.offer(station, 1 - station, 300, true);
                }
            }
            world.run(world.now + Duration::from_millis(until_ms));
            world.deaf[deaf][1 - deaf] = false;
            world.run(world.now + Duration::from_secs(200));
            for outcome in world.outcomes.iter().flatten() {
                assert!(outcome.1, "{deaf} {both} {until_ms}: {outcome:?}");
            }
            assert_eq!(world.marks(1).len(), 5);
            assert_eq!(world.marks(0).len(), if both { 4 } else { 1 });
            (0..2).for_each(|it| assert_once(&world.marks(it)));
        }
    }
}

#[test]
fn what_left_over_an_idle_link_is_kept_for_an_end_that_is_away() {
    // Behind a whole row of calls it may have become another kind of station.
    for away_s in [20, 60, 120, 300] {
        let mut world = kept_pair();
        let before = world.marks(1);
        (world.deaf[1][0], world.deaf[0][1]) = (true, true);
        for _ in 0..3 {
            world.offer(0, 1, 300, true);
        }
        world.run(world.now + Duration::from_secs(away_s));
        (world.deaf[1][0], world.deaf[0][1]) = (false, false);
        world.run(world.now + Duration::from_secs(400));
        let mut marks = world.marks(1);
        marks.sort_unstable();
        assert_eq!(
            marks.len(),
            before.len() + 3,
            "{away_s}: {before:?} {marks:?}"
        );
        assert_once(&marks);
        assert!(world.outcomes[0].iter().all(|(_, delivered)| *delivered));
    }
}

#[test]
fn nobody_gets_data_with_calls_who_was_not_heard_since_the_last_were_given_up() {
    let mut world = known_pair(Air::at(9600, 0.0));
    let begins = world.now;
    world.deaf[1][0] = true;
    world.kinds.clear();
    (0..3).for_each(|_| world.offer(0, 1, 300, true));
    world.run(begins + Duration::from_secs(40));
    assert_eq!(world.stations[0].stats().links_lost, 1);
    assert!(world.kinds.remove(&9).is_some());
    world.run(begins + Duration::from_secs(300));
    assert!(world.stations[0].stats().links_lost > 2);
    assert_eq!(Vec::from_iter(world.kinds.keys()), [&8]);
    world.deaf[1][0] = false;
    world.run(begins + Duration::from_secs(400));
    let mut marks = world.marks(1);
    marks.sort_unstable();
    assert_eq!(marks, [0, 2, 3, 4]);
    // It was heard: the next call has data with it, as soon as the link is broken.
    break_off(&mut world, 0);
    world.run(begins + Duration::from_secs(700));
    assert!(!world.stations[0].peer(1).is_some_and(Peer::is_linked));
    let one_turn = LEAD + Duration::from_millis(480) * 2 + DELAY;
    assert_eq!(takes(&mut world, 0), one_turn);
}

#[test]
fn who_is_called_answers_with_data_at_once() {
    let mut world = known_pair(Air::at(9600, 0.0));
    let begins = world.now;
    world.offer(0, 1, 84, true);
    world.run(begins + LEAD + world.air.block * 2 + DELAY);
    world.offer(1, 0, 84, true);
    world.run(begins + Duration::from_secs(10));
    let there = world.came[0].last().expect("the answer").0.since(begins);
    assert!(there < Duration::from_secs(3), "{there:?}");
}

#[test]
fn two_known_stations_that_call_each_other_at_once_lose_nothing() {
    let mut world = known_pair(Air::at(9600, 0.0));
    for station in [0, 1] {
        for _ in 0..3 {
            world.offer(station, 1 - station, 300, true);
        }
    }
    assert_eq!(world.collisions, 1);
    world.run(world.now + Duration::from_secs(100));
    let came = [1, 0].map(|station| {
        let mut marks = world.marks(station);
        marks.sort_unstable();
        marks
    });
    assert_eq!(came, [[0, 2, 3, 4], [1, 5, 6, 7]]);
    assert!(
        world
            .outcomes
            .iter()
            .flatten()
            .all(|(_, delivered)| *delivered)
    );
}

#[test]
fn what_left_with_a_lost_call_is_kept_when_the_other_calls_that_does_not_know_of_it() {
    // Found by the swarm.
    for later_ms in (0..8000).step_by(100) {
        let mut world = World::pair(Air::at(9600, 0.0));
        world.offer(0, 1, 100, true);
        world.run(world.now + Duration::from_secs(200));
        // Only 0 has called so far, and knows that data may go with that.
        world.deaf[1][0] = true;
        world.offer(0, 1, 100, true);
        world.run(world.now + Duration::from_millis(1500));
        world.deaf[1][0] = false;
        world.run(world.now + Duration::from_millis(later_ms));
        world.offer(1, 0, 100, true);
        world.run(world.now + Duration::from_secs(60));
        assert_eq!(world.outcomes[0], [(0, true), (1, true)], "{later_ms}");
        assert_eq!(world.outcomes[1], [(2, true)], "{later_ms}");
        assert_eq!(world.marks(1), [0, 1], "{later_ms}");
    }
}

#[test]
fn what_left_with_a_call_that_is_refused_is_kept_though_another_call_was_to_follow() {
    let mut world = known_pair(Air::at(9600, 0.0));
    let life = Some(world.stations[1].identity.life());
    // It lives anew, and takes nothing of what was meant for its life before.
    world.stations[1].identity.live_anew();
    world.offer(0, 1, 100, true);
    while !matches!(world.stations[0].access.phase(), Phase::Awaiting(_)) {
        let next = world.next_event().expect("the end of the call");
        world.run(next);
    }
    let (now, ours) = (world.now, Some(Ours { life, epoch: None }));
    let exclusive = false;
    let call = CPdu::Request { exclusive, ours };
    world.stations[0].hear_control(1, call);
    world.run(now + Duration::from_secs(60));
    assert_eq!(world.outcomes[0], [(0, true), (2, true)]);
    assert_eq!(world.marks(1), [0, 2]);
}

#[test]
fn a_lost_answer_costs_time_and_nothing_else() {
    let mut world = known_pair(Air::at(9600, 0.0));
    world.deaf[0][1] = true;
    for _ in 0..3 {
        world.offer(0, 1, 300, true);
    }
    world.run(world.now + Duration::from_secs(5));
    assert!(world.marks(1).len() > 1 && world.outcomes[0].len() == 1);
    world.deaf[0][1] = false;
    world.run(world.now + Duration::from_secs(100));
    let mut marks = world.marks(1);
    marks.sort_unstable();
    assert_eq!(marks, [0, 2, 3, 4]);
    assert!(world.outcomes[0].iter().all(|(_, delivered)| *delivered));
}

#[test]
fn a_called_station_that_starts_anew_in_the_middle_gets_nothing_twice() {
    for at_ms in (0..9000).step_by(300) {
        let mut world = known_pair(Air::at(9600, 0.0));
        // The caller hears the first answer as little as the second.
        world.deaf[0][1] = at_ms % 600 == 0;
        for _ in 0..3 {
            world.offer(0, 1, 300, true);
        }
        world.run(world.now + Duration::from_millis(at_ms));
        world.restart(1, settings(1));
        world.deaf[0][1] = false;
        world.run(world.now + Duration::from_secs(200));
        assert_once(&world.marks(1));
        assert_eq!(world.outcomes[0].len(), 4, "at {at_ms} ms");
        for (ticket, delivered) in &world.outcomes[0] {
            assert!(!delivered || world.marks(1).contains(ticket));
        }
        world.offer(0, 1, 300, true);
        world.run(world.now + Duration::from_secs(100));
        assert!(world.marks(1).contains(&5), "at {at_ms} ms");
    }
}

#[test]
fn a_station_that_became_another_kind_is_called_as_the_standard_has_it() {
    let mut world = known_pair(Air::at(9600, 0.0));
    let plain = Settings {
        long_numbers: false,
        ..settings(1)
    };
    world.restart(1, plain);
    world.kinds.clear();
    world.offer(0, 1, 300, true);
    world.run(world.now + Duration::from_secs(30));
    // What went with the call wasn't taken by that one, and comes by the standard's numbers.
    assert_eq!(world.outcomes[0].last(), Some(&(2, true)));
    assert_eq!(
        (
            world.marks(1),
            world.stations[0].peer(1).is_some_and(Peer::is_ours)
        ),
        (Vec::from([0, 2]), false)
    );
    world.run(world.now + Duration::from_secs(200));
    world.kinds.clear();
    world.offer(0, 1, 300, true);
    world.run(world.now + Duration::from_secs(30));
    assert!(world.marks(1).contains(&3));
    assert_eq!(world.kinds.get(&9), None);
}

#[test]
fn a_link_broken_in_vain_leaves_nothing_that_the_next_call_goes_on_with() {
    let mut world = known_pair(Air::at(9600, 0.0));
    world.offer(0, 1, 84, true);
    world.run(world.now + Duration::from_secs(10));
    // The caller breaks it, and isn't heard; the called breaks it later.
    world.deaf[1][0] = true;
    break_off(&mut world, 0);
    world.run(world.now + Duration::from_secs(150));
    assert!(
        !world.stations[0].peer(1).is_some_and(Peer::is_linked)
            && world.stations[1].peer(0).is_some_and(Peer::is_linked)
    );
    world.deaf[1][0] = false;
    break_off(&mut world, 1);
    world.run(world.now + Duration::from_secs(200));
    assert!(!world.stations[1].peer(0).is_some_and(Peer::is_linked));
    for _ in 0..2 {
        world.offer(0, 1, 84, true);
        world.run(world.now + Duration::from_secs(30));
    }
    assert_eq!(world.marks(1), [0, 2, 3, 4]);
    assert!(world.outcomes[0].iter().all(|(_, delivered)| *delivered));
}

#[test]
fn a_station_whose_medium_was_gone_goes_on_with_nothing_of_before() {
    let mut world = known_pair(Air::at(9600, 0.0));
    for mark in 2..5 {
        world.offer(0, 1, 84, true);
        world.run(world.now + Duration::from_secs(30));
        assert!(world.marks(1).contains(&mark), "{mark}");
        let (now, state) = (world.now, world.state());
        world.stations[0].set_down();
        world.stations[0].set_up(now, state);
    }
    assert_once(&world.marks(1));
}

#[test]
fn a_medium_that_was_gone_while_there_was_no_link_costs_nothing() {
    for down in [0, 1] {
        let mut world = known_pair(Air::at(9600, 0.0));
        let (now, state) = (world.now, world.state());
        world.stations[down].set_down();
        world.stations[down].set_up(now, state);
        for station in [0, 1] {
            world.offer(station, 1 - station, 84, true);
        }
        world.run(world.now + Duration::from_secs(100));
        for station in [0, 1] {
            let outcomes = &world.outcomes[station];
            assert!(outcomes.iter().all(|(_, delivered)| *delivered), "{down}");
            assert_eq!(outcomes.len(), 2);
            assert_eq!(world.marks(station).len(), 2);
            assert_eq!(world.stations[station].stats().links_lost, 0, "{down}");
        }
    }
}

#[test]
fn a_call_is_not_followed_by_word_that_there_is_no_link() {
    // While the other is heard: of two that begin at once, neither is.
    for after_ms in (500..1500).step_by(50) {
        let mut world = known_pair(Air::at(9600, 0.0));
        world.offer(0, 1, 84, true);
        world.run(world.now + Duration::from_secs(10));
        // The caller breaks it, and isn't heard.
        world.deaf[1][0] = true;
        break_off(&mut world, 0);
        world.run(world.now + Duration::from_secs(150));
        world.deaf[1][0] = false;
        assert!(
            !world.stations[0].peer(1).is_some_and(Peer::is_linked)
                && world.stations[1].peer(0).is_some_and(Peer::is_linked)
        );
        // The other sends by it, to one who has forgotten it and has something to say as well.
        world.offer(1, 0, 84, true);
        world.run(world.now + Duration::from_millis(after_ms));
        world.offer(0, 1, 84, true);
        world.run(world.now + Duration::from_secs(100));
        let delivered = world.outcomes[0].iter().all(|(_, delivered)| *delivered);
        assert!(delivered, "{after_ms} ms");
        assert_eq!(world.marks(1), [0, 2, 4], "{after_ms} ms");
        assert_eq!(world.stations[1].stats().links_lost, 0);
    }
}

#[test]
fn data_that_meet_the_break_of_their_link_come() {
    let csma = Csma {
        order: Order::Address,
        slot: Duration::from_millis(600),
        slots: 16,
        slots_max: 64,
        exchange: Duration::from_secs(30),
    };
    for access in [Access::Turns, Access::Csma(csma)] {
        let station = |number| Settings {
            access,
            ..settings(number)
        };
        for after_ms in (122_000..128_000).step_by(50) {
            let stations = [0, 1].map(station);
            let mut world = World::new(Air::at(9600, 0.0), stations.into());
            world.offer(0, 1, 84, true);
            world.run(world.now + Duration::from_millis(after_ms));
            // The caller breaks it about now; the called has something to say.
            world.offer(1, 0, 84, true);
            world.run(world.now + Duration::from_secs(60));
            assert_eq!(world.outcomes[1], [(1, true)], "{access:?}, {after_ms} ms");
        }
    }
}

#[test]
fn who_breaks_a_link_is_answered_before_it_is_called() {
    // Found by the swarm: the called had something to say when it heard of the break, and called in
    // place of an answer. Its data came while the other held on to the old link, and was lost.
    let mut world = known_pair(Air::at(9600, 0.0));
    world.offer(0, 1, 84, true);
    world.run(world.now + Duration::from_secs(10));
    break_off(&mut world, 0);
    while world.stations[1].peer(0).is_some_and(Peer::is_linked) {
        world.run(world.now + Duration::from_millis(10));
    }
    // With what is expedited under way, nobody can say that none of it was taken.
    world.offer(1, 0, 84, true);
    expedite(&mut world, 1, 0, 4, 84);
    world.run(world.now + Duration::from_secs(60));
    let outcomes = &world.outcomes[1];
    assert!(
        outcomes.iter().all(|(_, delivered)| *delivered),
        "{outcomes:?}"
    );
    assert_eq!(world.marks(0).len(), 3);
}

#[test]
fn what_goes_with_a_call_over_a_break_whose_confirmation_was_lost_comes() {
    for expedited in [false, true] {
        let mut world = known_pair(Air::at(9600, 0.0));
        world.offer(0, 1, 84, true);
        world.run(world.now + Duration::from_secs(10));
        break_off(&mut world, 0);
        while world.stations[1].peer(0).is_some_and(Peer::is_linked) {
            world.run(world.now + Duration::from_millis(10));
        }
        // It has heard of the break, and its answer isn't heard: the other holds on to the link.
        world.deaf[0][1] = true;
        world.run(world.now + Duration::from_millis(1800));
        world.deaf[0][1] = false;
        assert!(
            !world.stations[0].peer(1).is_some_and(Peer::is_linked)
                && world.stations[0].peers[1].calls.link().is_there()
        );
        let mark = world.tickets;
        if expedited {
            world.stations[1].link(0);
            expedite(&mut world, 1, 0, mark, 84);
        } else {
            world.offer(1, 0, 84, true);
        }
        world.run(world.now + Duration::from_secs(60));
        assert_eq!(world.outcomes[1].last(), Some(&(mark, true)));
        assert_eq!(world.marks(0), [1, mark]);
    }
}

/// Spoils octets of the transmission that has just begun, for station 1.
fn spoil(world: &mut World, octets: core::ops::Range<usize>) {
    for event in world.events.values_mut() {
        if let Event::Arrive { to: 1, bytes, .. } = event {
            bytes[octets.clone()].fill(0x55);
        }
    }
}

/// Station 1 has a link that 0 knows nothing of, and takes as its own what 0 sends it with another
/// call, which alone isn't heard. All the while 0 hears nobody.
fn taken_by_an_old_link() -> World {
    let mut world = known_pair(Air::at(9600, 0.0));
    configure(&mut world.stations[0], |it| it.calls_max = 1000);
    world.deaf[0][1] = true;
    world.offer(0, 1, 84, true);
    // The call, and none of its data.
    spoil(&mut world, 40..500);
    world.run(world.now + Duration::from_secs(3));
    assert!(world.stations[1].peer(0).is_some_and(Peer::is_linked));
    let (now, state) = (world.now, world.state());
    world.stations[0].set_down();
    world.fall_silent(0);
    world.stations[0].set_up(now, state);
    world.offer(0, 1, 84, true);
    spoil(&mut world, 0..20);
    world.run(world.now + Duration::from_millis(2500));
    assert_eq!(world.marks(1), [0, 3]);
    world
}

/// What a link took that is gone doesn't come again, and the next data does.
fn expect_taken_once(mut world: World) {
    world.deaf[0][1] = false;
    world.run(world.now + Duration::from_secs(200));
    world.offer(0, 1, 84, true);
    world.run(world.now + Duration::from_secs(100));
    assert_eq!(world.marks(1), [0, 3, 4]);
    assert_eq!(
        world.outcomes[0],
        [(0, true), (2, false), (3, false), (4, true)]
    );
}

#[test]
fn what_an_old_link_took_of_a_lost_call_is_not_taken_again() {
    // Found by the swarm: the called still had the link that its caller had forgotten.
    expect_taken_once(taken_by_an_old_link());
}

#[test]
fn what_a_lost_link_took_is_not_taken_again_when_its_call_is_repeated() {
    // Found by the swarm: the called lost the old link before it heard the call.
    let mut world = taken_by_an_old_link();
    let (now, state) = (world.now, world.state());
    world.stations[1].set_down();
    world.stations[1].set_up(now, state);
    assert!(!world.stations[1].peer(0).is_some_and(Peer::is_linked));
    expect_taken_once(world);
}

#[test]
fn what_a_link_being_broken_took_is_not_taken_again_when_its_call_is_repeated() {
    // Found by the swarm: the called was about to break the link, which took the data as its own.
    let mut world = taken_by_an_old_link();
    world.stations[1].peers[0].calls.break_off();
    while world.stations[1].peers[0].calls.link().is_there()
        && !world.stations[1].peer(0).is_some_and(Peer::is_linked)
    {
        world.run(world.now + Duration::from_millis(100));
    }
    // It heard the next call before it was done.
    assert!(world.stations[1].peer(0).is_some_and(Peer::is_linked));
    expect_taken_once(world);
}

#[test]
fn a_late_answer_to_a_call_with_data_has_the_data_repeated() {
    // Found by the swarm: the called answers later than its caller waits.
    let mut world = known_pair(Air::at(9600, 0.0));
    configure(&mut world.stations[1], |it| {
        it.guard = Duration::from_secs(4);
    });
    for after_s in [0, 100] {
        world.run(world.now + Duration::from_secs(after_s));
        world.offer(0, 1, 84, true);
    }
    world.run(world.now + Duration::from_secs(200));
    assert_eq!(world.marks(1), [0, 2, 3]);
    assert!(world.stations[0].stats().unanswered > 0);
}

#[test]
fn a_link_is_made_data_come_and_the_link_is_broken_when_it_is_idle() {
    let mut world = World::pair(Air::at(9600, 0.0));
    world.offer(0, 1, 100, true);
    world.run(Instant::from_secs(20));
    assert_eq!(world.marks(1), [0]);
    assert_eq!(world.outcomes[0], [(0, true)]);
    assert!(
        world.stations[0].peer(1).is_some_and(Peer::is_linked)
            && world.stations[1].peer(0).is_some_and(Peer::is_linked)
    );
    world.run(Instant::from_secs(160));
    assert!(
        !world.stations[0].peer(1).is_some_and(Peer::is_linked)
            && !world.stations[1].peer(0).is_some_and(Peer::is_linked)
    );
    assert_eq!(world.collisions, 0);
}

/// Three stations, of which the third has a link with the first for themselves alone.
fn kept_for_the_third() -> World {
    let mut world = World::new(Air::at(9600, 0.0), (0..3).map(settings).collect());
    world.stations[2].set_exclusive(Some(Exclusive {
        peer: 0,
        keeps: false,
    }));
    world.offer(2, 0, 100, true);
    world.run(Instant::from_secs(20));
    assert!(world.stations[0].peer(2).is_some_and(Peer::is_linked));
    world
}

#[test]
fn calls_that_cross_under_an_exclusive_link_are_made_again_behind_it() {
    // The second's call comes while the first's own, which met it, waits to be repeated.
    for after_ms in (0..1000).step_by(20) {
        let mut world = kept_for_the_third();
        world.offer(0, 1, 100, true);
        world.run(world.now + Duration::from_millis(after_ms));
        world.offer(1, 0, 100, true);
        world.run(world.now + Duration::from_secs(20));
        // Nobody wants what the second has any more: it calls no more.
        world.stations[1].give_up(0, |_| true);
        world.queues[1].clear();
        world.stations[2].set_exclusive(None);
        world.run(world.now + Duration::from_secs(600));
        assert_eq!(world.marks(1), [1], "{after_ms}");
    }
}

#[test]
fn a_call_that_is_refused_ends_the_link_that_its_caller_has_forgotten() {
    // The second gave its link up in a fade, and the first is kept for the third since.
    let mut world = World::new(Air::at(9600, 0.0), (0..3).map(settings).collect());
    world.offer(1, 0, 3000, true);
    world.run(Instant::from_millis(8000));
    assert!(world.stations[0].peer(1).is_some_and(Peer::is_linked));
    world.deaf[1][0] = true;
    world.run(world.now + Duration::from_secs(80));
    world.stations[2].set_exclusive(Some(Exclusive {
        peer: 0,
        keeps: false,
    }));
    world.offer(2, 0, 100, true);
    world.run(world.now + Duration::from_secs(20));
    assert!(world.stations[0].peer(2).is_some_and(Peer::is_linked));
    world.deaf[1][0] = false;
    for _ in 0..4 {
        world.offer(1, 0, 100, true);
        world.run(world.now + Duration::from_secs(20));
    }
    world.stations[2].set_exclusive(None);
    world.run(world.now + Duration::from_secs(900));
    let came = world.marks(0);
    // What was under way when the fade came may have arrived, and isn't known to have.
    for (mark, delivered) in &world.outcomes[1] {
        assert_eq!(
            came.contains(mark),
            *delivered || *mark == 0,
            "{mark} {came:?}"
        );
    }
    assert_once(&came);
    assert_eq!(world.outcomes[1].len(), 5);
}

#[test]
fn a_break_is_said_again_behind_a_silence_or_turns_where_the_other_cannot_take_it_back() {
    for long_numbers in [true, false] {
        let of_edition = |number| Settings {
            long_numbers,
            ..settings(number)
        };
        let mut world = World::new(Air::at(9600, 0.0), (0..3).map(of_edition).collect());
        world.offer(0, 1, 100, true);
        world.run(Instant::from_secs(20));
        world.deaf[1][0] = true;
        while world.stations[0].peers[1].calls.link().again_at().is_none() {
            world.run(world.now + Duration::from_millis(100));
        }
        // A third has been talking for an hour.
        let station = &mut world.stations[0];
        station
            .access
            .wait_for_silence(world.now + Duration::from_secs(3600));
        let silent = station.access.silent_at();
        let again = |station: &Station<u32>| {
            station.peers[1]
                .breaks_at(&station.access, station.settings.idle)
                .unwrap()
        };
        assert_eq!(again(station) >= silent, !long_numbers);
        // What it says never keeps a link from being known to be over.
        (0..station.access.turns_for_all()).for_each(|_| station.peers[1].calls.pass_turn());
        assert!(again(station) < silent);
    }
}

/// The other end of a link to station 0 of a pair has a gap in front of most that it was sent in
/// order, and has said so. Gives what is known to have come.
fn with_a_gap(world: &mut World) -> BTreeSet<u32> {
    world.in_order = true;
    (0..12).for_each(|_| world.offer(0, 1, 1000, true));
    while world.turns.iter().filter(|turn| turn.0 == 0).count() < 2 {
        world.run(world.now + Duration::from_millis(100));
    }
    // A block in the middle of the first transmission with data.
    world.run(world.now + Duration::from_secs(3));
    let spoilt = world.events.values_mut().find_map(|event| match event {
        Event::Arrive { to: 1, bytes, .. } => Some(bytes),
        _ => None,
    });
    spoilt.expect("a block").fill(0);
    while world.outcomes[0].is_empty() {
        world.run(world.now + Duration::from_millis(100));
    }
    world.deaf = alloc::vec![alloc::vec![true; 2]; 2];
    let acked = world.outcomes[0].iter().filter(|outcome| outcome.1);
    let acked: BTreeSet<u32> = acked.map(|outcome| outcome.0).collect();
    let came = BTreeSet::from_iter(world.marks(1));
    assert!(came.len() + 3 < acked.len(), "{came:?} of {acked:?}");
    acked
}

#[test]
fn what_was_acknowledged_behind_a_gap_comes_when_its_link_ends_in_order_and_once() {
    type End = fn(&mut World);
    let ends: [(&str, End); 4] = [
        ("a fade", |world| {
            while world.stations[0].peer(1).is_some_and(Peer::is_linked)
                || world.stations[1].peer(0).is_some_and(Peer::is_linked)
            {
                world.run(world.now + Duration::from_secs(1));
            }
        }),
        ("a new life of the sender", |world| {
            world.restart(0, settings(0));
        }),
        ("a reset", |world| begin_reset(&mut world.stations[1], 0)),
        ("the receiver's modem", |world| {
            world.stations[1].set_down();
            world.settle(1);
            let (now, state) = (world.now, world.state());
            world.stations[1].set_up(now, state);
        }),
    ];
    for (long_numbers, (what, end)) in [false, true]
        .into_iter()
        .flat_map(|it| ends.into_iter().map(move |end| (it, end)))
    {
        let what = alloc::format!("{what}, long numbers: {long_numbers}");
        let both = (0..2).map(|number| Settings {
            long_numbers,
            turn_max: Duration::from_secs(10),
            ..settings(number)
        });
        let mut world = World::new(Air::at(9600, 0.0), both.collect());
        let acked = with_a_gap(&mut world);
        end(&mut world);
        world.deaf = alloc::vec![alloc::vec![false; 2]; 2];
        world.run(world.now + Duration::from_secs(60));
        world.offer(0, 1, 100, true);
        world.run(world.now + Duration::from_secs(300));
        let came = world.marks(1);
        let lost: Vec<&u32> = acked.iter().filter(|mark| !came.contains(mark)).collect();
        assert!(lost.is_empty(), "{what}: {lost:?}");
        assert!(
            came.windows(2).all(|two| two[0] < two[1]),
            "{what}: {came:?}"
        );
        assert_eq!(came.last(), Some(&12), "{what}");
        // The sender says of the rest that it may not have come, unless it has forgotten it.
        let told: BTreeMap<u32, bool> = world.outcomes[0].iter().copied().collect();
        assert_eq!(told.len(), world.outcomes[0].len(), "{what}");
        let unknown = (0..12).filter(|mark| !came.contains(mark));
        for mark in unknown {
            assert_ne!(told.get(&mark), Some(&true), "{what}: {mark}");
            let forgot = what.starts_with("a new life");
            assert_eq!(!told.contains_key(&mark), forgot, "{what}: {mark}");
        }
    }
}

#[test]
fn with_some_peers_all_is_as_in_edition_3_and_long_numbers_with_the_others() {
    let station = |number: usize| Settings {
        edition_3: Vec::from_iter((number == 0).then_some(address(1))),
        ..settings(number)
    };
    let air = Air::at(9600, 0.0);
    let mut world = World::new(air, (0..3).map(station).collect());
    for (from, to) in [(0, 1), (1, 0), (0, 2)] {
        world.offer(from, to, 100, true);
        world.run(world.now + Duration::from_secs(30));
    }
    let long = |one: usize, other: usize| {
        let view = world.stations[one].link_view(other);
        view.map(|view| (view.linked, view.long))
    };
    // Whoever calls, and whatever the other one says of itself.
    assert_eq!([long(0, 1), long(1, 0)], [Some((true, false)); 2]);
    assert_eq!([long(0, 2), long(2, 0)], [Some((true, true)); 2]);
    assert!(!world.stations[0].peer(1).is_some_and(Peer::is_ours));
}
