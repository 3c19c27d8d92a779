//! A neighbour that can't be reached, beside others that can.

use super::*;

/// A rule by which stations share the air: its name, what it is for each of them, and how long one
/// waits for its turn at most where nobody else has anything to say.
pub(super) type Rule = (&'static str, fn(u32) -> Access, Duration);

pub(super) fn rules() -> [Rule; 5] {
    const fn csma(order: Order) -> Access {
        Access::Csma(Csma {
            order,
            slot: Duration::from_millis(600),
            slots: 16,
            slots_max: 64,
            exchange: Duration::from_secs(30),
        })
    }
    const fn slots(number: u32) -> Access {
        Access::Slots(Slots {
            length: Duration::from_secs(3),
            number,
            turn_min: Duration::from_secs(1),
            committed_octets: 500,
            delivery: Duration::ZERO,
        })
    }
    let slot = Duration::from_millis(600);
    [
        ("turns", |_| Access::Turns, Duration::ZERO),
        ("slots", slots, Duration::from_secs(9)),
        ("address", |_| csma(Order::Address), slot * 4),
        ("chance", |_| csma(Order::Chance), slot * 16),
        ("jitter", |_| csma(Order::Jitter), slot * 16),
    ]
}

fn net(access: fn(u32) -> Access) -> World {
    let station = |number: usize| Settings {
        access: access(number as u32),
        ..settings(number)
    };
    let mut world = World::new(Air::at(9600, 0.0), (0..3).map(station).collect());
    world.offer(0, 1, 100, true);
    world.run(Instant::from_secs(60));
    assert!(world.stations[0].peer(1).is_some_and(Peer::is_linked));
    world
}

/// Nobody hears a station, and it hears nobody.
fn cut_off(world: &mut World, number: usize) {
    for other in 0..world.deaf.len() {
        (world.deaf[other][number], world.deaf[number][other]) = (true, true);
    }
}

/// How long each of some messages to the linked neighbour takes, one every seven seconds, while
/// `also` is sent to the others.
fn delays(world: &mut World, count: u32, also: impl Fn(&mut World, u32)) -> Vec<Duration> {
    let mut began = Vec::new();
    for number in 0..count {
        also(world, number);
        world.run(world.now + Duration::from_millis(500));
        began.push((world.tickets, world.now));
        world.offer(0, 1, 84, true);
        world.run(world.now + Duration::from_millis(6500));
    }
    world.run(world.now + Duration::from_secs(200));
    let took = |(mark, began): (u32, Instant)| {
        let place = world.marks(1).iter().position(|it| *it == mark);
        let (came, _) = world.came[1][place.expect("it came")];
        came.since(began)
    };
    began.into_iter().map(took).collect()
}

/// A call that nobody answers, and the wait for its answer.
const CALL: Duration = Duration::from_millis(4900);

/// The mean and the longest.
fn mean_and_most(took: &[Duration]) -> (Duration, Duration) {
    let sum: Duration = took.iter().fold(Duration::ZERO, |sum, it| sum + *it);
    let most = took.iter().max().copied();
    (sum / took.len() as u32, most.unwrap_or_default())
}

#[test]
fn a_neighbour_that_is_not_there_costs_the_others_one_call_at_most() {
    for (name, access, wait) in rules() {
        for linked in [false, true] {
            let alone = delays(&mut net(access), 12, |_, _| {});
            let mut world = net(access);
            if linked {
                world.offer(0, 2, 84, true);
                world.run(world.now + Duration::from_secs(40));
                assert!(world.stations[0].peer(2).is_some_and(Peer::is_linked));
            }
            cut_off(&mut world, 2);
            let took = delays(&mut world, 24, |world, _| world.offer(0, 2, 84, true));
            let ((mean_alone, _), (mean, most)) = (mean_and_most(&alone), mean_and_most(&took));
            let what = alloc::format!("{name}, {linked}: {mean:?} {mean_alone:?} {took:?}");
            // Who had a link may have met others, for some turns: until then all wait for that.
            let own = Duration::from_millis(1500) + wait;
            let most_of = if linked { own * 2 } else { own };
            assert!(most <= CALL * 2 + most_of, "{what}");
            assert!(mean <= mean_alone + CALL + wait / 4, "{what}");
            assert!(world.stations[0].stats().links_lost > 0, "{what}");
        }
    }
}

#[test]
fn of_a_refused_request_nothing_remains() {
    for (name, access, _) in rules() {
        let mut world = net(access);
        cut_off(&mut world, 2);
        world.offer(0, 2, 84, true);
        world.run(world.now + Duration::from_secs(12));
        // Its client doesn't wait any more.
        world.queues[0].clear();
        world.settle(0);
        world.run(world.now + Duration::from_secs(6));
        let turns = world.begun.len();
        let took = delays(&mut world, 12, |_, _| {});
        let calls = world.begun[turns..].iter().filter(|turn| turn.2 == 2);
        assert_eq!(calls.count(), 0, "{name}");
        let alone = delays(&mut net(access), 12, |_, _| {});
        let (with, without) = (mean_and_most(&took).0, mean_and_most(&alone).0);
        assert!(with <= without + Duration::from_secs(1), "{name}: {took:?}");
    }
}
