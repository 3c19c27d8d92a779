//! Turns that are as short as a message of the other side asks for.

use super::*;

fn patient(number: usize, wait_max: Option<Duration>) -> Settings {
    Settings {
        wait_max,
        ..settings(number)
    }
}

/// One with bulk for another, which may have messages that don't wait for longer than this.
fn bulk(air: Air, wait_max: Option<Duration>) -> World {
    let settings = [patient(0, None), patient(1, wait_max)];
    let mut world = World::new(air, settings.into());
    for _ in 0..2000 {
        world.offer(0, 1, 1000, true);
    }
    world
}

/// How long the bulk's longest transmission was of those that began between two times.
fn longest(world: &World, from_s: u64, to_s: u64) -> Duration {
    let of = Instant::from_nanos(from_s * 1_000_000_000)..Instant::from_nanos(to_s * 1_000_000_000);
    let turns = world.turns.iter();
    let turns = turns.filter(|(number, at, _)| *number == 0 && of.contains(at));
    let blocks = turns.map(|(.., blocks)| *blocks).max().unwrap_or_default();
    world.air.block * blocks
}

const WAIT: Duration = Duration::from_secs(15);

#[test]
fn a_message_waits_no_longer_than_it_asks_for() {
    let mut world = bulk(Air::at(9600, 0.0), Some(WAIT));
    let mut offered = Vec::new();
    for number in 0..60 {
        // At all moments of the bulk's turns.
        world.run(Instant::ZERO + Duration::from_millis(60_000 + 13_790 * number));
        offered.push((world.tickets, world.now));
        world.offer(1, 0, 972, true);
    }
    world.run(Instant::ZERO + Duration::from_secs(900));
    // 15 s less three turnarounds, an answer of one block, and two blocks for a message of 1000
    // octets with another answer.
    assert_eq!(longest(&world, 60, 900), Duration::from_millis(22 * 480));
    let came: BTreeMap<u32, Instant> = world
        .marks(0)
        .into_iter()
        .zip(world.came[0].iter().map(|(at, _)| *at))
        .collect();
    let waited = offered.iter().map(|(mark, at)| came[mark].since(*at));
    let longest = waited.max().expect("there are some");
    assert!(
        (Duration::from_secs(12)..=WAIT).contains(&longest),
        "{longest:?}"
    );
}

#[test]
fn turns_are_long_again_when_nobody_asks_any_more() {
    let mut world = bulk(Air::at(9600, 0.0), Some(WAIT));
    world.run(Instant::ZERO + Duration::from_secs(200));
    assert!(longest(&world, 60, 200) < Duration::from_secs(12));
    world.restart(1, patient(1, None));
    world.run(Instant::ZERO + Duration::from_secs(900));
    assert!(longest(&world, 400, 900) > Duration::from_secs(110));
    // It was never asked.
    let mut world = bulk(Air::at(9600, 0.0), None);
    world.run(Instant::ZERO + Duration::from_secs(400));
    assert!(longest(&world, 60, 400) > Duration::from_secs(110));
}

/// Acknowledgements of who has advice to give never say nothing.
#[test]
fn a_call_ends_what_was_asked_for() {
    let settings = [patient(0, None), patient(1, Some(WAIT))];
    let mut world = World::new(Air::at(9600, 0.0), settings.into());
    for _ in 0..40 {
        world.offer(0, 1, 1000, true);
    }
    world.run(Instant::ZERO + Duration::from_secs(90));
    assert!(world.on_air().is_empty());
    let told = |world: &World| {
        world.stations[0]
            .peers
            .at(1)
            .and_then(|peer| peer.turn_told)
    };
    assert!(told(&world).is_some());
    let call = of([1, 0], exchanges::word(&[0x10]));
    world.stations[0].hear_carrier(world.now, true);
    world.stations[0].hear(world.now, &call);
    assert_eq!(told(&world), None);
}

#[test]
fn edition_3_knows_nothing_of_it() {
    let mut settings = [patient(0, None), patient(1, Some(WAIT))];
    settings[1].long_numbers = false;
    let mut world = World::new(Air::at(9600, 0.0), settings.into());
    for _ in 0..400 {
        world.offer(0, 1, 1000, true);
    }
    world.run(Instant::ZERO + Duration::from_secs(300));
    // 128 frames of 1 kB take that long.
    assert!(longest(&world, 60, 300) > Duration::from_secs(100));
}

/// Blocks of 4.8 s: there and back takes 21 s, and no turn is short enough for 15 s.
#[test]
fn what_cannot_be_kept_costs_half_of_the_air_at_most() {
    let mut air = Air::at(2400, 0.0);
    air.block = Duration::from_millis(4800);
    let mut world = bulk(air, Some(WAIT));
    world.run(Instant::ZERO + Duration::from_secs(1800));
    let used = world.goodput(1) / 2400.0;
    assert!((0.35..0.5).contains(&used), "{used}");
    // Nor does a link stand still by which a segment takes longer than such a turn: shorter ones
    // go, half of each of which is what is around data.
    let mut world = bulk(Air::at(75, 0.0), Some(Duration::from_secs(1)));
    world.run(Instant::ZERO + Duration::from_secs(3600));
    let used = world.goodput(1) / 75.0;
    assert!(used > 0.2, "{used}");
}

/// Nobody answers data without ARQ: who has something as well begins behind it, and isn't met.
#[test]
fn behind_data_without_arq_the_other_side_may_begin() {
    let mut world = World::pair(Air::at(9600, 0.0));
    for number in 0..300 {
        world.offer(0, 1, 1000, false);
        // Two that begin at the same moment meet.
        world.run(Instant::ZERO + Duration::from_millis(500 + 900 * number));
        world.offer(1, 0, 40, false);
    }
    world.run(world.now + Duration::from_secs(300));
    assert_eq!((world.came[0].len(), world.came[1].len()), (300, 300));
    assert_eq!(world.collisions, 0);
}
