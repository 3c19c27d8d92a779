//! A half-duplex medium: one end is keyed at a time, and the node that has the turn plans its
//! length. Behind it a durable outbox: an application hears that its message is safe only after
//! the storage has said so.
//!
//! The turn passes with the end of the other side's transmission. Who has it and nothing to say
//! keys up briefly from time to time, so that silence means that the turn was lost with a node.
//! Then the first of the two to lose patience takes it; patience differs, and is longest after a
//! start in the middle of things.

mod node;
mod radio;

use std::collections::BTreeSet;

use strait_core::chance::Stream;
use strait_core::node::NodeFactory;
use strait_core::rate::LineRate;
use strait_core::time::Duration;
use strait_core::{ClassId, DropCause, Fate, Instant};

use crate::driver::{Manners, STORE_DELAY, World, prove_run};
use crate::parts::{BULK, MESSAGE, RECEIPT, URGENT, message};
use node::{DATA, HEADER, Maker, NUMBER_KEY, OUTBOX, PATIENCE_AT_START, POLL};
use radio::{BLOCK, FAST, LATENCY, LOW_WATER, Radio, SLOW, TURNAROUND};

fn pair_with(seed: u64, patience: Duration) -> World<Radio> {
    let maker = |rank| Box::new(Maker { rank, patience }) as Box<dyn NodeFactory>;
    World::new(seed, Radio::new(), vec![maker(0), maker(1)])
}

fn pair(seed: u64) -> World<Radio> {
    pair_with(seed, PATIENCE_AT_START)
}

/// Whether every turn kept its planned length, and none began within another.
fn assert_turns_are_in_order(world: &World<Radio>) {
    assert_eq!(world.medium.collisions, 0);
    for pair in world.medium.turns.windows(2) {
        let [(_, began, blocks), (_, next, _)] = pair else {
            continue;
        };
        assert!(*next >= *began + BLOCK * *blocks);
    }
}

#[test]
fn two_ends_exchange_messages_and_are_never_keyed_together() {
    let mut world = pair(1);
    for number in 0..20 {
        let at = Instant::from_millis(37 * u64::from(number));
        world.offer(at, 0, message(0, 1, BULK, number, 300));
        world.offer(at, 1, message(1, 0, BULK, 100 + number, 200));
    }
    world.run_until(Instant::from_secs(60));
    assert_turns_are_in_order(&world);
    assert_eq!(world.log.numbers(1, MESSAGE), Vec::from_iter(0..20));
    assert_eq!(world.log.numbers(0, MESSAGE), Vec::from_iter(100..120));
    assert_eq!([world.log.forwarded(0), world.log.forwarded(1)], [20, 20]);
    assert!(
        world
            .store_mut(0)
            .values
            .keys()
            .all(|key| key == NUMBER_KEY)
    );
    // Both ends have their turns, one after the other.
    assert!(
        world
            .medium
            .turns
            .windows(2)
            .all(|pair| pair[0].0 != pair[1].0)
    );
    // Each turn is filled up to its end, give or take the rounding of one octet.
    let last = world
        .log
        .pulls
        .iter()
        .filter(|pull| pull.meta.turn.is_some_and(|turn| turn.last));
    for pull in last.filter(|pull| pull.room.until.is_some()) {
        let until = pull.room.until.unwrap_or(Instant::ZERO);
        let end = pull.room.starts + FAST.time_for(pull.bytes.len() as u64);
        assert!(end <= until && until.since(end) <= FAST.time_for(2));
    }
}

/// Node 0 with much to send, at `rate` from the start.
fn busy(rate: LineRate) -> World<Radio> {
    let mut world = pair(1);
    world.rate(Instant::ZERO, rate);
    for number in 0..6 {
        let at = Instant::from_millis(1);
        world.offer(at, 0, message(0, 1, BULK, number, 400));
    }
    world
}

/// Beginning and blocks of the first long turn in [`busy`], a run that shows the same up to any
/// change made later.
fn long_turn(rate: LineRate) -> (Instant, u32) {
    let mut world = busy(rate);
    world.run_until(Instant::from_secs(10));
    let turn = world.medium.turns.iter().find(|turn| turn.2 >= 8);
    turn.map(|turn| (turn.1, turn.2)).expect("a long turn")
}

#[test]
fn an_urgent_message_takes_its_place_in_the_planned_turn() {
    let (began, blocks) = long_turn(FAST);
    for ms in (0..400).step_by(3) {
        let mut world = busy(FAST);
        let at = began + Duration::from_millis(ms);
        world.offer(at, 0, message(0, 1, URGENT, 9, 40));
        world.run_until(Instant::from_secs(20));
        assert_turns_are_in_order(&world);
        assert!(world.medium.turns.contains(&(0, began, blocks)));
        let seen = world
            .log
            .delivered
            .iter()
            .find(|seen| seen.number == 9 && seen.node == 1);
        let arrived = seen
            .map(|seen| seen.at)
            .expect("the urgent message arrives");
        // Storage, what the medium holds, one frame that has begun, and its own way.
        let bound = STORE_DELAY + LOW_WATER + FAST.time_for(60) * 2 + LATENCY;
        assert!(arrived <= at + bound, "{:?}", arrived.since(at));
        let numbers: BTreeSet<u32> = world.log.numbers(1, MESSAGE).into_iter().collect();
        assert_eq!(numbers, (0..6).chain([9]).collect());
        // What it took the place of comes later, complete and once.
        assert_eq!(world.log.forwarded(0), 7);
    }
}

#[test]
fn idle_ends_pass_the_turn_and_silence_is_never_taken_for_a_loss() {
    let mut world = pair(1);
    world.run_until(Instant::from_secs(20));
    assert_turns_are_in_order(&world);
    let turns = &world.medium.turns;
    assert!(turns.windows(2).all(|pair| pair[0].0 != pair[1].0));
    let cycle = POLL + TURNAROUND + BLOCK + LATENCY;
    assert!(
        turns
            .windows(2)
            .all(|pair| pair[1].1.since(pair[0].1) == cycle)
    );
}

#[test]
fn after_a_kill_the_turn_comes_back_and_no_stored_message_is_lost() {
    for step in 0..60u64 {
        for victim in [0, 1] {
            let mut world = pair(step);
            for number in 0..10 {
                let at = Instant::from_millis(1 + 90 * u64::from(number));
                world.offer(at, 0, message(0, 1, BULK, number, 250));
                world.offer(at, 1, message(1, 0, BULK, 100 + number, 150));
            }
            let at = Instant::from_nanos(20_000_000 + step * 33_333_333);
            world.kill(at, victim, Duration::from_millis(10 + 50 * (step % 7)));
            world.run_until(Instant::from_secs(120));
            assert_turns_are_in_order(&world);
            for (from, to) in [(0, 1), (1, 0)] {
                let safe = world.log.numbers(from, RECEIPT);
                let arrived: BTreeSet<u32> = world.log.numbers(to, MESSAGE).into_iter().collect();
                let lost: Vec<&u32> = safe.iter().filter(|n| !arrived.contains(n)).collect();
                assert!(
                    lost.is_empty(),
                    "{lost:?} of {from} lost, {victim} killed at {at:?}"
                );
                // What isn't safe was held by the node that was killed.
                let crashed = world.log.crashed[from];
                assert!(10 - safe.len() as u64 <= crashed);
                assert!(from == victim || crashed == 0 && safe.len() == 10);
                let values = &world.store_mut(from).values;
                assert!(
                    values.keys().all(|key| key == NUMBER_KEY),
                    "the outbox is empty"
                );
                assert_eq!(world.held(from), 0);
            }
        }
    }
}

#[test]
fn a_batch_not_acknowledged_is_applied_or_lost_by_the_seed() {
    let run = |seed| {
        let mut world = pair(seed);
        world.offer(Instant::from_millis(1), 0, message(0, 1, BULK, 1, 100));
        // Before `Stored` is there.
        let at = Instant::from_millis(1) + STORE_DELAY - Duration::from_nanos(1);
        world.kill(at, 0, Duration::from_millis(50));
        world.run_until(Instant::from_secs(60));
        assert_eq!(world.log.numbers(0, RECEIPT), []);
        assert_eq!(world.log.crashed[0], 1);
        world.log.numbers(1, MESSAGE).len()
    };
    let arrived: BTreeSet<usize> = (0..16).map(run).collect();
    assert_eq!(arrived, BTreeSet::from([0, 1]));
    // Once it was there, the message is safe, whatever the seed.
    for seed in 0..8 {
        let mut world = pair(seed);
        world.offer(Instant::from_millis(1), 0, message(0, 1, BULK, 1, 100));
        let at = Instant::from_millis(1) + STORE_DELAY + Duration::from_nanos(1);
        world.kill(at, 0, Duration::from_millis(50));
        world.run_until(Instant::from_secs(60));
        assert_eq!(world.log.numbers(0, RECEIPT), [1]);
        assert_eq!(world.log.numbers(1, MESSAGE), [1]);
    }
}

#[test]
fn a_node_that_starts_while_the_other_is_keyed_hears_so() {
    let mut world = pair(1);
    for number in 0..6 {
        world.offer(Instant::from_millis(1), 0, message(0, 1, BULK, number, 400));
    }
    // Within the first turn of node 0, of four blocks.
    world.kill(Instant::from_millis(200), 1, Duration::from_millis(100));
    world.run_until(Instant::from_secs(30));
    assert_turns_are_in_order(&world);
    // It answers right after that turn, and doesn't wait for its patience to end.
    let (_, began, blocks) = world.medium.turns[0];
    let (node, next, _) = world.medium.turns[1];
    assert_eq!(node, 1);
    assert!(next.since(began + BLOCK * blocks) <= POLL + TURNAROUND + LATENCY);
    let arrived: BTreeSet<u32> = world.log.numbers(1, MESSAGE).into_iter().collect();
    assert_eq!(arrived, BTreeSet::from_iter(0..6));
}

/// Collisions in runs in which node 1 is restarted early in the first long turn of node 0.
fn collisions(patience: Duration, told: bool) -> u32 {
    let (began, blocks) = long_turn(FAST);
    let run = |ms| {
        let mut world = pair_with(1, patience);
        world.medium.tells = told;
        world.rate(Instant::ZERO, FAST);
        for number in 0..6 {
            let at = Instant::from_millis(1);
            world.offer(at, 0, message(0, 1, BULK, number, 400));
        }
        world.kill(
            began + Duration::from_millis(ms),
            1,
            Duration::from_millis(5),
        );
        world.run_until(began + BLOCK * blocks);
        world.medium.collisions
    };
    (50..200).step_by(10).map(run).sum()
}

#[test]
fn without_word_of_the_carrier_a_start_must_be_more_patient_than_the_longest_turn() {
    // Longer than an idle end is silent, shorter than what is left of the turn.
    let patience = Duration::from_millis(500);
    assert_eq!(collisions(patience, true), 0);
    assert!(collisions(patience, false) > 0);
    assert_eq!(collisions(PATIENCE_AT_START, false), 0);
}

#[test]
fn a_rate_change_within_a_turn_changes_its_content_and_not_its_length() {
    for (first, second) in [(FAST, SLOW), (SLOW, FAST)] {
        let (began, blocks) = long_turn(first);
        let mut world = busy(first);
        let at = began + Duration::from_millis(433);
        let until = began + BLOCK * blocks;
        world.rate(at, second);
        world.run_until(Instant::from_secs(60));
        assert_turns_are_in_order(&world);
        assert_eq!(world.log.numbers(1, MESSAGE), Vec::from_iter(0..6));
        assert!(world.medium.turns.contains(&(0, began, blocks)));
        let pulls = world
            .log
            .pulls
            .iter()
            .filter(|pull| pull.node == 0 && pull.room.starts >= began && pull.at < until);
        let (before, after): (Vec<_>, Vec<_>) = pulls.cloned().partition(|pull| pull.at < at);
        let largest = |pulls: &[crate::driver::Pull]| {
            let data = pulls.iter().filter(|pull| pull.bytes[0] == DATA);
            data.map(|pull| pull.bytes.len()).max()
        };
        let half_block = |rate: LineRate| rate.octets_in(BLOCK) as usize / 2;
        assert_eq!(largest(&before), Some(half_block(first)));
        // The end of a turn that is too short for a frame goes with the one before.
        let after = largest(&after).expect("frames of the new rate");
        assert!((half_block(second)..=half_block(second) + HEADER).contains(&after));
        // The new burst begins where the frame on the air ends.
        let on_air = before
            .last()
            .map(|pull| pull.room.starts + first.time_for(pull.bytes.len() as u64));
        let next = world
            .log
            .pulls
            .iter()
            .find(|pull| pull.node == 0 && pull.at >= at);
        let gap = next.map(|pull| pull.room.starts).zip(on_air);
        assert!(gap.is_some_and(|(starts, end)| {
            starts.since(end) <= Duration::from_nanos(100) && end.since(starts).is_zero()
        }));
    }
}

#[test]
fn a_full_outbox_stops_the_host_and_a_full_storage_refuses() {
    let mut world = pair(1);
    for number in 0..30 {
        world.offer(Instant::ZERO, 0, message(0, 1, BULK, number, 200));
    }
    world.run_until(Instant::from_secs(60));
    assert_eq!(world.log.waiting_max, 30 - OUTBOX);
    assert_eq!(world.log.numbers(1, MESSAGE), Vec::from_iter(0..30));
    assert_eq!(world.log.numbers(0, RECEIPT), Vec::from_iter(0..30));

    let mut world = pair(1);
    world.store_mut(0).octets_max = 3 * 200 + 4;
    for number in 0..5 {
        world.offer(Instant::from_millis(1), 0, message(0, 1, BULK, number, 200));
    }
    world.offer(Instant::from_secs(10), 0, message(0, 1, BULK, 9, 200));
    world.run_until(Instant::from_secs(60));
    // No receipt for what wasn't stored; and later there is space again.
    assert_eq!(world.log.numbers(0, RECEIPT), [0, 1, 2, 9]);
    assert_eq!(world.log.numbers(1, MESSAGE), [0, 1, 2, 9]);
    assert_eq!(world.log.dropped(0, DropCause::QueueOctets), 2);
    assert_eq!(world.log.count(0, |fate| fate == Fate::Absorbed), 4);
}

/// Chance decides messages, a crash and a rate change.
fn storm(seed: u64, manners: Manners) -> World<Radio> {
    let mut world = pair(seed);
    world.manners = manners;
    let mut chance = Stream::new(seed, "turn.storm");
    for number in 0..40 {
        let at = Instant::from_nanos(chance.below(10_000_000_000));
        let node = chance.below(2) as u8;
        let class = ClassId(chance.below(2) as u8);
        let octets = 32 + chance.below(300) as usize;
        world.offer(
            at,
            usize::from(node),
            message(node, 1 - node, class, number, octets),
        );
    }
    let at = Instant::from_nanos(1_000_000_000 + chance.below(8_000_000_000));
    let pause = Duration::from_nanos(chance.below(500_000_000));
    world.kill(at, chance.below(2) as usize, pause);
    world.rate(Instant::from_nanos(chance.below(10_000_000_000)), SLOW);
    world.run_until(Instant::from_secs(300));
    assert_turns_are_in_order(&world);
    for (from, to) in [(0, 1), (1, 0)] {
        let arrived: BTreeSet<u32> = world.log.numbers(to, MESSAGE).into_iter().collect();
        let safe = world.log.numbers(from, RECEIPT);
        assert!(safe.iter().all(|number| arrived.contains(number)));
        assert_eq!(world.held(from), 0);
    }
    world
}

#[test]
fn runs_repeat_and_rest() {
    prove_run(storm);
}
