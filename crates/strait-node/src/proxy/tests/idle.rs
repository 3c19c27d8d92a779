//! Connections on which nothing moves.

use strait_core::stream_ledger::ResetCause;

use super::*;

const IDLE: Duration = Duration::from_secs(60);
const NS: Duration = Duration::from_nanos(1);

/// A pair whose first gateway ends connections on which nothing has moved for a minute.
fn pair() -> Pair {
    Pair::new(|config| {
        let near = config.partners[0].address == address("10.9.0.2:1").ip();
        config.idle = near.then_some(Time(IDLE));
    })
}

fn idle(proxy: &Proxy) -> u64 {
    proxy.stats().sessions.streams.resets_by(ResetCause::Idle)
}

#[test]
fn who_says_nothing_for_too_long_is_ended_and_both_sides_are_told_why() {
    let mut pair = pair();
    let [near, far] = pair.connect();
    pair.settle();
    pair.tell(0, near, StreamEvent::Data(b"question"));
    let moved = pair.now - Duration::from_secs(2);
    pair.effects.iter_mut().for_each(Vec::clear);
    let side = &mut pair.sides[0];
    assert!(side.wake().is_some_and(|it| it <= moved + IDLE));
    side.tend(moved + IDLE - NS, 0);
    assert_eq!((side.poll_effect(), idle(side)), (None, 0));
    pair.now = moved + IDLE;
    pair.settle();
    assert_eq!(pair.take(0), [(near, StreamOp::Reset(62))]);
    assert_eq!(pair.take(1), [(far, StreamOp::Reset(62))]);
    assert_eq!(pair.sides.each_ref().map(idle), [1, 1]);
}

#[test]
fn what_moves_either_way_keeps_a_connection() {
    let mut pair = pair();
    let [near, far] = pair.connect();
    for way in [near, far, far, near] {
        pair.now += IDLE - Duration::from_secs(10);
        let side = usize::from(way == far);
        pair.tell(side, way, StreamEvent::Data(b"word"));
    }
    let resets = |ops: Vec<(StreamId, StreamOp)>| {
        let resets = ops.into_iter();
        resets
            .filter(|(_, op)| matches!(op, StreamOp::Reset(_)))
            .count()
    };
    assert_eq!([0, 1].map(|side| resets(pair.take(side))), [0, 0]);
}

#[test]
fn who_waits_for_the_link_or_for_an_answer_is_not_idle() {
    let mut pair = pair();
    let [near, _] = pair.connect();
    pair.ask(2, "10.2.0.2:80");
    pair.cut = true;
    pair.tell(0, near, StreamEvent::Data(b"waits for the link"));
    for _ in 0..3 {
        pair.now += IDLE;
        pair.settle();
    }
    let told = pair.take(0);
    let ended = told
        .iter()
        .any(|(id, op)| *id == near && matches!(op, StreamOp::Reset(_)));
    assert!(!ended, "{told:?}");
    assert_eq!(idle(&pair.sides[0]), 0);
}
