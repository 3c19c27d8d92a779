//! Losses in bursts: what comes out wrongly behind a burst longer than low bits can tell.

use crate::traffic::{Dice, Flow, KINDS, Kind};
use strait_core::{Duration, Instant};
use strait_link::rohc::{Beyond, Cids, Peer, Received, Settings};

/// The share of packets that are lost, and how many in a row on average.
const LOSS: f64 = 0.1;
const BURST: f64 = 12.0;

#[derive(Debug, Default)]
struct Outcome {
    arrived: u32,
    delivered: u32,
    wrong: u32,
}

/// One flow of `kind` whose packets are lost in bursts, with feedback that comes back at once, or
/// without.
fn run(kind: Kind, feedback: bool, beyond: &Beyond, packets: u32) -> Outcome {
    let settings = Settings {
        feedback,
        ..Settings::new(Cids::Small(15))
    };
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    left.agree(beyond, &[]);
    right.agree(beyond, &[]);
    let mut dice = Dice(12);
    let mut flow = Flow::new(kind, 1, &mut dice);
    let mut outcome = Outcome::default();
    let mut lost = false;
    for _ in 0..packets {
        let packet = flow.next(&mut dice);
        let mut line = Vec::new();
        left.compress(0, &packet, &mut line);
        lost = if lost {
            !dice.happens(1.0 / BURST)
        } else {
            dice.happens(LOSS / (1.0 - LOSS) / BURST)
        };
        if lost {
            continue;
        }
        outcome.arrived += 1;
        let (mut out, mut back) = (Vec::new(), Vec::new());
        if right.decompress(&line, &mut out) == Ok(Received::Packet) {
            outcome.delivered += 1;
            outcome.wrong += u32::from(out != packet);
        }
        if right.put_feedback(&mut back) {
            let heard = left.decompress(&back, &mut Vec::new());
            assert_eq!(heard, Ok(Received::Nothing));
        }
    }
    outcome
}

/// What comes of flows of all kinds.
fn all(feedback: bool, beyond: &Beyond) -> Outcome {
    let mut all = Outcome::default();
    for kind in KINDS {
        let it = run(kind, feedback, beyond, 20_000);
        all.arrived += it.arrived;
        all.delivered += it.delivered;
        all.wrong += it.wrong;
    }
    all
}

#[test]
fn where_packets_are_counted_no_burst_makes_a_header_wrong() {
    let beyond = Beyond {
        counts: true,
        ..Beyond::default()
    };
    let it = all(true, &beyond);
    assert_eq!(it.wrong, 0);
    // Behind each burst of eight and more the context has to be asked for.
    assert!(it.delivered * 100 > it.arrived * 99);
}

#[test]
fn where_they_are_not_one_packet_in_a_thousand_may_be_told_wrongly() {
    for sums_vouched in [false, true] {
        let beyond = Beyond {
            sums_vouched,
            ..Beyond::default()
        };
        for (feedback, delivered, in_wrong) in [(true, 99, 1000), (false, 84, 500)] {
            let it = all(feedback, &beyond);
            println!("vouched {sums_vouched}, feedback {feedback}: {it:?}");
            assert!(it.wrong > 0 && it.wrong * in_wrong < it.delivered);
            assert!(it.delivered * 100 > it.arrived * delivered);
        }
    }
}

/// A flow a packet of which goes each second, over a line on which nothing crosses for `dead` of
/// them, and what comes out wrongly or isn't told behind that.
fn behind_an_outage(kind: Kind, dead: usize, seed: u64) -> Outcome {
    let settings = Settings {
        unheard_after: Some(Duration::from_secs(8)),
        ..Settings::new(Cids::Small(15))
    };
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let mut dice = Dice(seed);
    let mut flow = Flow::new(kind, 1, &mut dice);
    (flow.pauses, flow.reroutes) = (0.0, 0.0);
    let mut outcome = Outcome::default();
    for number in 0..60 + dead {
        let packet = flow.next(&mut dice);
        let mut line = Vec::new();
        left.tell_time(Instant::from_secs(number as u64));
        left.compress(0, &packet, &mut line);
        if (30..30 + dead).contains(&number) {
            continue;
        }
        let (mut out, mut back) = (Vec::new(), Vec::new());
        let received = right.decompress(&line, &mut out) == Ok(Received::Packet);
        if number >= 30 {
            outcome.arrived += 1;
            outcome.delivered += u32::from(received);
            outcome.wrong += u32::from(received && out != packet);
        }
        if right.put_feedback(&mut back) {
            let heard = left.decompress(&back, &mut Vec::new());
            assert_eq!(heard, Ok(Received::Nothing));
        }
    }
    outcome
}

#[test]
fn behind_an_outage_nothing_is_taken_for_what_went_before_it() {
    // Calls are left out: one that nobody answers would take a third more of its headers.
    let calls = [Kind::Voice4, Kind::Voice6];
    for kind in KINDS.into_iter().filter(|kind| !calls.contains(kind)) {
        for dead in 12..60 {
            for seed in 1..5 {
                let it = behind_an_outage(kind, dead, seed);
                assert_eq!(it.wrong, 0, "{kind:?}, {dead} dead, {seed}: {it:?}");
                assert_eq!(it.delivered, it.arrived, "{kind:?}, {dead} dead, {seed}");
            }
        }
    }
}
