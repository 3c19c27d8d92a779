//! One side at a time, and both in the end.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use strait_channel::{Channel, HalfDuplex, Line, LinkConfig, Side};
use strait_core::time::{Duration, Instant};
use strait_core::units::Time;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// 1000 octets take a second; heard after 10 ms; 200 ms from hearing to sending.
fn radio() -> LinkConfig {
    LinkConfig::frames(8000, MS(10)).with(|it| {
        it.half_duplex = Some(HalfDuplex {
            turnaround: Some(Time(MS(200))),
            turn_max: None,
        });
    })
}

fn turn_max(config: &mut LinkConfig, longest: Duration) {
    config.half_duplex.as_mut().unwrap().turn_max = Some(Time(longest));
}

fn line(config: &LinkConfig) -> Line {
    Line::new(config, "radio", 1).unwrap()
}

/// Lets both sides send whenever they have room, asking `first` first, and tells who sent when.
fn contend(
    line: &mut Line,
    first: Side,
    octets: usize,
    until: Instant,
) -> Vec<(Side, Instant, Instant)> {
    let mut now = Instant::ZERO;
    let mut turns = Vec::new();
    while now < until {
        let mut next = Instant::NEVER;
        for side in [first, first.other()] {
            loop {
                match line.room(now, side) {
                    Ok(_) => {
                        let sent = line.transmit(now, side, &mut vec![0; octets]);
                        turns.push((side, sent.starts, sent.ends));
                    }
                    Err(again) => {
                        next = next.min(again.unwrap());
                        break;
                    }
                }
            }
        }
        assert!(next > now, "a refusal names a later moment");
        now = next;
    }
    turns
}

#[test]
fn the_other_side_begins_after_propagation_and_turnaround() {
    let mut line = line(&radio());
    let sent = line.transmit(Instant::ZERO, Side::A, &mut [0; 1000]);
    assert_eq!(sent.ends, Instant::from_secs(1));
    let open = Instant::from_millis(1210);
    let before = open - Duration::from_nanos(1);
    assert_eq!(line.room(before, Side::B), Err(Some(open)));
    assert!(line.room(open, Side::B).is_ok());
}

#[test]
fn a_side_alone_sends_without_a_pause() {
    let mut line = line(&radio());
    let sent = line.transmit(Instant::ZERO, Side::A, &mut [0; 1000]);
    let before = sent.ends - Duration::from_nanos(1);
    assert_eq!(line.room(before, Side::A), Err(Some(sent.ends)));
    assert!(line.room(sent.ends, Side::A).is_ok());
}

#[test]
fn both_sides_alternate_and_never_overlap_whoever_is_asked_first() {
    for first in Side::BOTH {
        let turns = contend(&mut line(&radio()), first, 1000, Instant::from_secs(100));
        assert!(turns.len() > 80, "{}", turns.len());
        for pair in turns.windows(2) {
            assert_eq!(pair[0].0.other(), pair[1].0);
            assert_eq!(pair[1].1, pair[0].2 + MS(210));
        }
    }
}

#[test]
fn a_turn_lasts_while_the_limit_allows() {
    let config = radio().with(|it| turn_max(it, Duration::from_secs(3)));
    let turns = contend(&mut line(&config), Side::A, 1000, Instant::from_secs(100));
    let sides: Vec<Side> = turns.iter().map(|turn| turn.0).collect();
    for (number, turn) in sides.chunks_exact(3).enumerate() {
        let side = Side::BOTH[number % 2];
        assert_eq!(turn, [side; 3]);
    }
}

#[test]
fn serial_octets_go_in_turns_not_one_by_one() {
    let config = LinkConfig::serial(9600).with(|it| {
        it.half_duplex = Some(HalfDuplex {
            turnaround: Some(Time(MS(20))),
            turn_max: None,
        });
    });
    let turns = contend(&mut line(&config), Side::A, 1, Instant::from_secs(3));
    assert!(turns[..256].iter().all(|turn| turn.0 == Side::A));
    assert!(turns[256..512].iter().all(|turn| turn.0 == Side::B));
    assert_eq!(turns[512].0, Side::A);
}

#[test]
fn a_claim_that_is_not_used_lapses() {
    let mut line = line(&radio());
    let sent = line.transmit(Instant::ZERO, Side::A, &mut [0; 1000]);
    let open = Instant::from_millis(1210);
    assert_eq!(line.room(sent.ends, Side::B), Err(Some(open)));
    // B could begin at 1.21 s but doesn't. A has to let 200 ms more pass, once.
    let lapse = open + MS(200);
    assert_eq!(line.room(sent.ends, Side::A), Err(Some(lapse)));
    assert_eq!(
        line.room(lapse - Duration::from_nanos(1), Side::A),
        Err(Some(lapse))
    );
    let sent = line.transmit(lapse, Side::A, &mut [0; 1000]);
    assert_eq!(sent.starts, lapse);
    assert!(line.room(sent.ends, Side::A).is_ok());
}

#[test]
fn short_pauses_don_t_keep_the_other_side_out() {
    // A sends 10 octets each 100 ms, less than a turnaround; its limit still counts.
    let config = radio().with(|it| turn_max(it, MS(500)));
    let mut line = line(&config);
    let mut began = None;
    for tick in 0..100u64 {
        let now = Instant::from_millis(tick * 100);
        if line.room(now, Side::A).is_ok() {
            line.transmit(now, Side::A, &mut [0; 10]);
        }
        if tick > 0 && line.room(now, Side::B).is_ok() {
            began = Some(tick);
            break;
        }
    }
    assert_eq!(
        began,
        Some(8),
        "the sixth is A's last, heard and turned round by 0.72 s"
    );
}
