//! Two stations that wait for each other in step: after they began together, and behind a fade.

use super::*;

fn slots(length_ms: u64, numbers: [u32; 2]) -> [Access; 2] {
    numbers.map(|number| {
        Access::Slots(Slots {
            length: Duration::from_millis(length_ms),
            number,
            turn_min: Duration::from_secs(1),
            committed_octets: 1000,
            delivery: Duration::from_millis(500),
        })
    })
}

/// Every rule of access, and what a station of each pair waits.
fn rules() -> Vec<[Access; 2]> {
    let csma = |order| {
        [Access::Csma(Csma {
            order,
            slot: Duration::from_millis(600),
            slots: 16,
            slots_max: 64,
            exchange: Duration::from_secs(30),
        }); 2]
    };
    let mut rules = alloc::vec![[Access::Turns; 2]];
    rules.extend([Order::Address, Order::Chance, Order::Jitter].map(csma));
    rules.extend([[0, 1], [2, 3], [2, 2]].map(|numbers| slots(3000, numbers)));
    rules
}

/// With blocks so short that an end is heard when it is over, not when the next could begin.
fn pair(access: [Access; 2], unanswered_max: u32) -> World {
    let station = |number: usize| Settings {
        access: access[number],
        unanswered_max,
        turn_max: Duration::from_secs(15),
        ..settings(number)
    };
    let air = Air {
        block: Duration::from_millis(120),
        ..Air::at(9600, 0.0)
    };
    World::new(air, [0, 1].map(station).into())
}

/// When each of two linked stations has what the other sent it, where one began `late_ms` after
/// the other and is heard by neither.
fn met(access: [Access; 2], octets: [usize; 2], first: usize, late_ms: u64) -> Option<Duration> {
    let mut world = pair(access, 100);
    for from in [0, 1] {
        world.offer(from, 1 - from, 100, true);
        world.run(world.now + Duration::from_secs(30));
    }
    let begin = world.now;
    world.offer(first, 1 - first, octets[first], true);
    world.run(begin + Duration::from_millis(late_ms));
    world.offer(1 - first, first, octets[1 - first], true);
    assert_eq!(world.collisions, 1);
    world.run(begin + Duration::from_secs(400));
    let came = world.came.iter().map(|came| Some(came.get(1)?.0));
    came.collect::<Option<Vec<_>>>()?
        .iter()
        .map(|at| at.since(begin))
        .max()
}

#[test]
fn two_that_met_do_not_meet_for_ever_however_long_their_slots_are() {
    // A slot as long as it takes to know that no answer comes, of which 1.7 s is one here, was the
    // same as the next one to who had heard the end of the other's transmission.
    let lengths_ms = (1000..3600).step_by(100);
    let of_slots = lengths_ms
        .flat_map(|length_ms| [[0, 1], [2, 3], [2, 2]].map(|numbers| slots(length_ms, numbers)));
    // Some slots and two exchanges of a few seconds; those with one number go on by chance.
    let bound = Duration::from_secs(80);
    for access in of_slots.chain(rules().into_iter().take(4)) {
        for octets in [[2000, 500], [500, 2000], [500, 500]] {
            for late_ms in (0..500).step_by(60) {
                for first in [0, 1] {
                    let took = met(access, octets, first, late_ms);
                    assert!(
                        took.is_some_and(|took| took < bound),
                        "{took:?} {access:?} {octets:?}, {first} first by {late_ms} ms"
                    );
                }
            }
        }
    }
}

/// How long after a fade both stations have something new of each other. They always have something
/// to say, `plenty` or now and then.
fn healed(
    access: [Access; 2],
    unanswered: u32,
    (arq, plenty): (bool, bool),
    fade: [u64; 2],
) -> Option<Duration> {
    let mut world = pair(access, unanswered);
    let mut chance = Stream::new(fade[0] * 1000 + fade[1], "offers");
    let mut go_on = |world: &mut World, until: Instant| {
        while world.now < until {
            for from in [0, 1] {
                // Not both at the same moment: on silent air they would begin together.
                let next = world.now + Duration::from_millis(500 + chance.below(4000));
                world.run(next.min(until));
                let least = if plenty { 20 } else { 1 };
                while world.queues[from].len() < least {
                    world.offer(from, 1 - from, 500 + 1000 * from, arq);
                    if !plenty {
                        break;
                    }
                }
            }
        }
    };
    go_on(&mut world, Instant::from_millis(fade[0]));
    world.deaf = alloc::vec![alloc::vec![true; 2]; 2];
    let end = Instant::from_millis(fade[0]) + Duration::from_secs(fade[1]);
    go_on(&mut world, end);
    world.deaf = alloc::vec![alloc::vec![false; 2]; 2];
    let before = [0, 1].map(|to| world.came[to].len());
    for _ in 0..40 {
        let next = world.now + Duration::from_secs(15);
        go_on(&mut world, next);
        let new = [0, 1].map(|to| world.came[to].get(before[to]).map(|came| came.0));
        if let [Some(one), Some(other)] = new {
            return Some(one.max(other).since(end));
        }
    }
    None
}

#[test]
fn behind_a_fade_of_any_length_both_stations_hear_each_other_again() {
    // By chance some meet a few times, above all those with one slot for both; others for ever.
    let bound = Duration::from_secs(400);
    for access in rules() {
        for (unanswered, begins_ms) in [6, 100].into_iter().flat_map(|it| {
            let begins_ms = (0..20_000).step_by(2600);
            begins_ms.map(move |begins_ms| (it, begins_ms))
        }) {
            for length_s in [20, 130, 400, 1300] {
                for (arq, plenty) in [(true, true), (true, false), (false, true), (false, false)] {
                    let fade = [begins_ms, length_s];
                    let took = healed(access, unanswered, (arq, plenty), fade);
                    assert!(
                        took.is_some_and(|took| took < bound),
                        "{took:?} {access:?}, {unanswered}, {arq} {plenty}, {fade:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_nobody_wants_any_more_is_given_up_on_the_air_and_the_rest_comes() {
    let mut world = World::pair(Air::at(1200, 0.0));
    world.offer(0, 1, 100, true);
    world.run(Instant::from_secs(20));
    // Nobody hears the turn with these two.
    world.deaf[1][0] = true;
    world.offer(0, 1, 200, true);
    world.offer(0, 1, 200, true);
    world.run(Instant::from_secs(30));
    world.stations[0].give_up(1, |ticket| *ticket == 1);
    world.deaf[1][0] = false;
    world.run(Instant::from_secs(100));
    assert_eq!(world.marks(1), [0, 2]);
    assert_eq!(world.outcomes[0], [(0, true), (1, false), (2, true)]);
    let resets = world.stations.iter().map(|it| it.stats().resets);
    assert_eq!(resets.sum::<u64>(), 0);
}
