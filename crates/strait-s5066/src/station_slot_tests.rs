//! Turns by slots.

use super::*;

/// Two stations on a clear channel of 9600 bit/s that begin 9 and 12 s after another.
fn slotted() -> World {
    let station = |number: usize| Settings {
        long_numbers: false,
        access: Access::Slots(Slots {
            length: Duration::from_secs(3),
            number: number as u32 + 2,
            turn_min: Duration::from_secs(1),
            committed_octets: 2000,
            delivery: Duration::ZERO,
        }),
        ..settings(number)
    };
    World::new(Air::at(9600, 0.0), (0..2).map(station).collect())
}

/// When a turn was over.
fn end(world: &World, turn: usize) -> Instant {
    let (_, starts, blocks) = world.turns[turn];
    starts + world.air.block * blocks
}

#[test]
fn with_slots_answers_go_at_once_and_all_else_waits() {
    let mut world = slotted();
    world.offer(0, 1, 300, true);
    world.run(Instant::from_secs(60));
    // Call, acceptance, data, acknowledgement: at least a second each.
    assert_eq!(world.marks(1), [0]);
    let whom: Vec<usize> = world.turns.iter().map(|turn| turn.0).collect();
    assert_eq!(whom, [0, 1, 0, 1]);
    assert!(world.turns.iter().all(|turn| turn.2 == 3));
    let begins = |world: &World, turn: usize| world.turns[turn].1;
    // On silent air at once; what came too late for the answer, after four slots.
    world.offer(0, 1, 300, true);
    world.run(world.now + Duration::from_millis(3100));
    world.offer(1, 0, 300, true);
    world.run(Instant::from_secs(120));
    assert_eq!(begins(&world, 4), Instant::from_secs(60) + LEAD);
    assert_eq!(world.turns[5].0, 1);
    assert_eq!(world.turns[6].0, 1);
    let waited = begins(&world, 6).since(end(&world, 5));
    let slots = Duration::from_secs(12) + LEAD;
    assert!(
        (slots..slots + Duration::from_secs(1)).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(world.marks(0), [2]);
}

#[test]
fn without_arq_a_station_goes_on_in_its_slot_whoever_had_one_before() {
    let mut world = slotted();
    let seconds = |s: u64| Duration::from_secs(s);
    let about = |waited: Duration, s: u64| (seconds(s)..seconds(s + 1)).contains(&waited);
    let waited = |world: &World, turn: usize, since: Instant| world.turns[turn].1.since(since);
    world.offer(1, 0, 300, false);
    world.run(world.now + seconds(1));
    // Both have more to say: the other has its slot first, then the one that began.
    world.offer(0, 1, 300, false);
    world.offer(1, 0, 300, false);
    world.run(world.now + seconds(60));
    let whom: Vec<usize> = world.turns.iter().map(|turn| turn.0).collect();
    assert_eq!(whom, [1, 0, 1]);
    let first = end(&world, 0);
    assert!(about(waited(&world, 1, first), 9), "{:?}", world.turns);
    assert!(about(waited(&world, 2, first), 12), "{:?}", world.turns);
    // With nobody in between it leaves its peer's slot to it once more.
    world.offer(1, 0, 300, false);
    world.run(world.now + seconds(1));
    world.offer(1, 0, 300, false);
    world.run(world.now + seconds(60));
    assert!(
        about(waited(&world, 4, end(&world, 3)), 12 + 6),
        "{:?}",
        world.turns
    );
    assert_eq!(world.collisions, 0);
}

/// Three stations of which each begins 3 s after the one before.
fn three() -> World {
    let access = dead::rules()[1].1;
    let station = |number: usize| Settings {
        access: access(number as u32),
        turn_max: Duration::from_secs(10),
        idle: Duration::from_secs(30),
        ..settings(number)
    };
    World::new(Air::at(9600, 0.0), (0..3).map(station).collect())
}

#[test]
fn a_link_that_is_idle_is_broken_when_all_slots_have_passed() {
    let mut world = three();
    world.offer(0, 1, 84, true);
    world.run(Instant::from_secs(35));
    // What is idle is due while these talk; the first's slot comes before the last's.
    world.offer(2, 1, 84, true);
    world.run(Instant::from_secs(43));
    world.offer(2, 1, 84, true);
    world.run(Instant::from_secs(53));
    let whom: Vec<usize> = world.turns.iter().map(|turn| turn.0).collect();
    assert_eq!(whom[4..], [2, 1, 2, 1]);
    assert!(world.stations[0].peer(1).is_some_and(Peer::is_linked));
    // Its own slot, and one of each behind that.
    world.run(Instant::from_secs(70));
    let breaks = world.turns[8];
    assert_eq!(breaks.0, 0);
    let waited = breaks.1.since(end(&world, 7));
    let slots = Duration::from_secs(3 + 9) + LEAD;
    assert!(
        (slots..slots + Duration::from_secs(1)).contains(&waited),
        "{waited:?}"
    );
}

#[test]
fn each_slot_comes_though_those_before_it_have_more_and_more() {
    // A call and its data: before each, an exchange of 13 s of each of the others, and a round of
    // slots for each.
    let patience = Duration::from_secs(2 * 3 * (13 + 9));
    for talkers in [alloc::vec![(0, 1)], alloc::vec![(0, 1), (1, 0)]] {
        let mut world = three();
        for (from, to) in talkers.iter().flat_map(|talk| [*talk; 400]) {
            world.offer(from, to, 2000, true);
        }
        for asked in 1..8 {
            let at = Instant::from_secs(150 * asked);
            world.run(at);
            world.offer(2, 0, 84, true);
            let mark = world.tickets - 1;
            world.run(at + patience);
            assert!(
                world.marks(0).contains(&mark),
                "{talkers:?}: {:?}",
                world.turns
            );
        }
    }
    let mut world = three();
    for (from, to) in [(0, 1), (1, 2), (2, 0)]
        .iter()
        .flat_map(|talk| [*talk; 400])
    {
        world.offer(from, to, 2000, true);
    }
    world.run(Instant::from_secs(1500));
    let came = [1, 2, 0].map(|to: usize| world.marks(to).len());
    assert!(
        came.iter().min() >= came.iter().max().map(|most| most / 2).as_ref(),
        "{came:?}"
    );
}
