//! Each state of a link by each event that may befall it.

use super::*;
use crate::Address;
use crate::c_pdu::NO_MORE_DATA;
use strait_core::chance::Stream;

const NOW: Instant = Instant::from_secs(100);

fn calls() -> Calls {
    Calls::new(&Settings::new(Address::new(1)), false, false)
}

fn identity() -> Identity {
    Identity::new(&mut Stream::new(1, "numbers"), &mut Stream::new(1, "lives"))
}

fn patience() -> Patience {
    let [data, call, at_most] = [10, 20, 60].map(Duration::from_secs);
    Patience {
        data,
        call,
        at_most,
    }
}

/// What a link is, in one word.
fn name(calls: &Calls) -> &'static str {
    match calls.link().state() {
        State::Idle if calls.is_paused() => "paused",
        State::Idle => "idle",
        State::Calling { .. } => "calling",
        State::Made { .. } if calls.link().carries() => "made",
        State::Made { .. } => "unheard",
        State::Breaking { .. } => "breaking",
    }
}

fn call(calls: &mut Calls) {
    call_beside_others(calls, false);
}

/// Calls, and says whether data goes with it.
fn call_beside_others(calls: &mut Calls, may_meet: bool) -> bool {
    let terms = Terms {
        exclusive: false,
        there: true,
        may_meet,
    };
    calls.call(terms, &mut identity());
    let says = calls.say();
    matches!(says, Some(CPdu::Request { ours: Some(ours), .. }) if ours.epoch.is_some())
}

fn accept(calls: &mut Calls) {
    let Judged::Accept(call) = calls.judge(false, None, &mut identity()) else {
        panic!("a call without data");
    };
    calls.accept(NOW, &call, &patience());
    calls.say();
}

fn word(calls: &mut Calls, says: CPdu<'_>) -> Word {
    // Behind whatever made the link.
    let since = NOW + Duration::from_secs(1);
    calls.hear_word(since, says, since, false, Duration::from_secs(3))
}

fn miss(calls: &mut Calls, lost: bool) -> Unanswered {
    calls.miss_answer(NOW, lost, Duration::from_secs(5), 1)
}

/// Brings a link into a state.
fn in_state(state: &str) -> Calls {
    let mut calls = calls();
    match state {
        "calling" => call(&mut calls),
        "unheard" => accept(&mut calls),
        "made" | "breaking" => {
            call(&mut calls);
            let answer = calls.hear_acceptance(None, false).expect("an answer");
            calls.make(NOW, &answer);
            if state == "breaking" {
                calls.break_off();
                calls.say();
            }
        }
        _ => {}
    }
    assert_eq!(name(&calls), state);
    calls
}

#[test]
fn a_link_is_called_for_made_used_and_broken() {
    type Event = fn(&mut Calls);
    let events: [(&str, Event); 8] = [
        ("we call", call),
        ("they call", accept),
        ("they use it", |it| it.confirm(NOW)),
        ("they reject", |it| {
            assert_ne!(word(it, CPdu::Rejected(0)), Word::GoOn);
        }),
        ("they break it", |it| {
            assert_ne!(word(it, CPdu::Break(NO_MORE_DATA)), Word::GoOn);
        }),
        ("they confirm that", |it| {
            assert_ne!(word(it, CPdu::BreakConfirm), Word::GoOn);
        }),
        ("we break it", Calls::break_off),
        ("it is lost", |it| assert!(it.forget().receive)),
    ];
    for (state, after) in [
        (
            "idle",
            [
                "calling", "unheard", "idle", "idle", "idle", "idle", "idle", "idle",
            ],
        ),
        (
            "calling",
            [
                "calling", "unheard", "calling", "paused", "idle", "calling", "calling", "idle",
            ],
        ),
        (
            "unheard",
            [
                "calling", "unheard", "made", "unheard", "idle", "unheard", "breaking", "idle",
            ],
        ),
        (
            "made",
            [
                "calling", "unheard", "made", "made", "idle", "made", "breaking", "idle",
            ],
        ),
        (
            "breaking",
            [
                "calling", "unheard", "made", "breaking", "idle", "idle", "breaking", "idle",
            ],
        ),
    ] {
        for ((event, happen), after) in events.into_iter().zip(after) {
            let mut calls = in_state(state);
            happen(&mut calls);
            assert_eq!(name(&calls), after, "{event} while {state}");
        }
    }
}

#[test]
fn what_nobody_answers_is_done_again_or_given_up_by_the_state_of_the_link() {
    for (state, lost, done, after) in [
        ("idle", false, Unanswered::Nothing, "idle"),
        ("calling", false, Unanswered::CallAgain, "calling"),
        ("unheard", false, Unanswered::Probe, "unheard"),
        ("made", false, Unanswered::Probe, "made"),
        ("made", true, Unanswered::Lose, "made"),
        ("breaking", true, Unanswered::Nothing, "breaking"),
    ] {
        let mut calls = in_state(state);
        assert_eq!(miss(&mut calls, lost), done, "{state}");
        assert_eq!(name(&calls), after, "{state}");
    }
    // The third break that isn't answered is the last.
    let mut calls = in_state("breaking");
    (0..2).for_each(|_| calls.break_off());
    assert_eq!(miss(&mut calls, false), Unanswered::Forget);
}

#[test]
fn a_row_of_calls_ends_with_a_pause_that_a_net_doubles() {
    let settings = Settings::new(Address::new(1));
    for (nodes, pauses) in [(1, [1, 1]), (2, [1, 2])] {
        let mut calls = calls();
        for times in pauses {
            for _ in 1..settings.calls_max {
                call(&mut calls);
                assert_eq!(miss(&mut calls, false), Unanswered::CallAgain);
            }
            call(&mut calls);
            let done = calls.miss_answer(NOW, false, Duration::ZERO, nodes);
            assert_eq!(done, Unanswered::GiveUp);
            assert!(calls.is_silent() && !calls.is_refused());
            let until = NOW + settings.call_pause * times;
            assert_eq!(calls.paused_until(), Some(until));
            calls.advance(until - Duration::from_nanos(1));
            assert!(calls.is_paused());
            calls.advance(until);
            assert!(!calls.is_paused());
        }
        // Who speaks is called as at first.
        calls.hear();
        assert_eq!(name(&calls), "idle");
    }
}

/// A plain call gives up what went with those before it.
#[test]
fn the_last_call_of_a_row_is_plain_and_beside_others_that_of_the_second_row() {
    let settings = Settings::new(Address::new(1));
    for (may_meet, plain_from_row) in [(false, 0), (true, 1)] {
        let mut calls = Calls::new(&settings, true, false);
        call(&mut calls);
        let ours = Ours {
            life: Some(7),
            epoch: None,
        };
        let answer = calls.hear_acceptance(Some(ours), false).expect("an answer");
        calls.make(NOW, &answer);
        calls.forget();
        for row in 0..3 {
            for tries in 1..=settings.calls_max {
                let with_data = call_beside_others(&mut calls, may_meet);
                let plain = tries == settings.calls_max && row >= plain_from_row;
                assert_eq!(with_data, !plain, "{tries} of {row}, may meet: {may_meet}");
                calls.miss_answer(NOW, false, Duration::ZERO, 2);
            }
            calls.advance(NOW + settings.call_pause * 2);
        }
    }
}

#[test]
fn who_refuses_is_called_again_soon_and_then_later_and_later() {
    let mut calls = calls();
    let now = NOW + Duration::from_secs(1);
    // Twice the time for an answer, doubled each time, up to the pause between rows.
    for seconds in [6, 12, 24, 30, 30] {
        call(&mut calls);
        word(&mut calls, CPdu::Rejected(0));
        assert!(calls.is_refused() && !calls.is_silent());
        assert_eq!(
            calls.paused_until(),
            Some(now + Duration::from_secs(seconds))
        );
        calls.advance(now + Duration::from_secs(30));
    }
    call(&mut calls);
    let answer = calls.hear_acceptance(None, false).expect("an answer");
    calls.make(NOW, &answer);
    assert!(!calls.is_paused());
    word(&mut calls, CPdu::Break(NO_MORE_DATA));
    call(&mut calls);
    word(&mut calls, CPdu::Rejected(0));
    assert_eq!(calls.paused_until(), Some(now + Duration::from_secs(6)));
}

#[test]
fn what_ends_without_a_word_is_doubtful_and_not_given_until_a_call() {
    let given = || Calls::new(&Settings::new(Address::new(1)), false, true);
    let mut calls = given();
    assert!(calls.give(NOW) && calls.link().is_given());
    assert!(!calls.give(NOW), "there is one");
    calls.forget();
    assert!(!calls.give(NOW), "its other end may not know");
    call(&mut calls);
    let answer = calls.hear_acceptance(None, false).expect("an answer");
    calls.make(NOW, &answer);
    assert!(!calls.link().is_given());
    // Without a medium all are gone.
    let mut calls = given();
    assert!(calls.give(NOW));
    calls.hang_up();
    assert!(calls.give(NOW));
}
