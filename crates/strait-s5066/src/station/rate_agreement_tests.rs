//! Changes of the rate by agreement (C.6.4.2).

use super::*;

/// Two stations, of which the first has much to send, and a path without faults; both ask before
/// they change.
fn agreeing(lost: impl Fn(usize, &DPdu<'_>, u64) -> bool + 'static, second: Option<Adapt>) -> Pair {
    let agree = Adapt {
        agree: true,
        ..adapt()
    };
    let both = [settings(0, Some(agree)), settings(1, second)];
    let mut pair = Pair::new(both, 1200, |_| 40.0);
    pair.lost = Box::new(lost);
    pair.offer(0, 400);
    pair
}

fn rate_of(pair: &Pair, number: usize) -> u64 {
    pair.stations[number]
        .link_view(0)
        .and_then(|it| it.rate)
        .unwrap()
        .bit_s
}

/// What a station says of rates, with the rate by which it says so.
fn said(pair: &Pair, number: usize) -> Vec<(u32, Eow)> {
    let turns = pair.turns.iter().filter(|turn| turn.0 == number);
    let all = turns.flat_map(|turn| {
        let managed = turn.3.iter().filter(|it| it.0 == 6 && it.1 != Eow::None);
        managed.map(|it| (turn.2, it.1))
    });
    all.collect()
}

const fn answer(response: Response) -> Eow {
    Eow::Response {
        response,
        reason: 0,
    }
}

#[test]
fn a_change_by_agreement_is_asked_for_accepted_confirmed_and_acknowledged() {
    let mut pair = agreeing(|_, _, _| false, Some(adapt()));
    pair.run(at(40));
    let request = Eow::parse(0x154);
    assert_eq!(rate_code(1200), Some(4));
    // 1600 bit/s have no code: their request is one with an extended message.
    assert_eq!(
        request,
        Eow::Rate {
            rate: 5,
            interleaver: 1,
            purpose: Purpose::Request
        }
    );
    let high = Eow::HighRate {
        waveform: 7,
        channels: 1,
    };
    let said_a: Vec<Eow> = said(&pair, 0).into_iter().map(|it| it.1).collect();
    assert_eq!(said_a[..2], [high, answer(Response::Confirm)]);
    assert_eq!(said(&pair, 1)[0].1, answer(Response::Accept));
    // Data goes by the old rate before and by the new one after.
    let data = pair
        .turns
        .iter()
        .filter(|turn| turn.3.iter().any(|it| it.0 == 9));
    let mut rates: Vec<u32> = data.map(|turn| turn.2).collect();
    rates.dedup();
    assert_eq!(rates[..2], [1200, 1600]);
    // Each message was acknowledged once.
    let acks = |number| {
        let turns = pair.turns.iter().filter(|turn| turn.0 == number);
        let all = turns.flat_map(|turn| turn.3.iter());
        all.filter(|it| **it == (6, Eow::None)).count()
    };
    assert_eq!((acks(0), acks(1)), (1, 2));
}

/// The same with numbers of Edition 3.
fn of_edition_3(
    lost: impl Fn(usize, &DPdu<'_>, u64) -> bool + 'static,
    second: Option<Adapt>,
) -> Pair {
    let agree = Adapt {
        agree: true,
        ..adapt()
    };
    let both = [settings(0, Some(agree)), settings(1, second)];
    let both = both.map(|settings| Settings {
        long_numbers: false,
        ..settings
    });
    let mut pair = Pair::new(both, 1200, |_| 40.0);
    pair.lost = Box::new(lost);
    pair.offer(0, 400);
    pair
}

/// C.6.4.2 (24), (28), (29), (32)–(34): who was asked for the change confirms it, once it has heard
/// that its acceptance came; who asked changes behind that word, and sends nothing else until the
/// confirmation.
#[test]
fn with_another_kind_of_station_who_was_asked_confirms_the_change() {
    let mut pair = of_edition_3(|_, _, _| false, Some(adapt()));
    pair.run(at(60));
    let says = |number| said(&pair, number).into_iter().map(|it| it.1);
    let asked = |eow: &Eow| matches!(eow, Eow::HighRate { .. } | Eow::Rate { .. });
    assert!(says(0).count() > 0 && says(0).all(|eow| asked(&eow)));
    let said_b: Vec<Eow> = says(1).collect();
    let both = [answer(Response::Accept), answer(Response::Confirm)];
    assert_eq!(said_b[..4], [both, both].concat());
    // From the request to the confirmation's acknowledgement, neither sends data.
    let kinds = |it: &(usize, Instant, u32, Vec<(u8, Eow)>)| {
        let kinds: BTreeSet<u8> = it.3.iter().map(|it| it.0).collect();
        (it.0, it.3.iter().any(|it| asked(&it.1)), kinds)
    };
    let turns: Vec<(usize, bool, BTreeSet<u8>)> = pair.turns.iter().map(kinds).collect();
    let asks = turns.iter().position(|turn| turn.1).expect("it asks");
    let data: Vec<bool> = turns[asks..asks + 5]
        .iter()
        .map(|it| it.2.contains(&0))
        .collect();
    // Request, acceptance, acknowledgement, confirmation; then its acknowledgement with data.
    assert_eq!(data, [false, false, false, false, true], "{turns:?}");
}

#[test]
fn a_change_is_confirmed_whatever_of_it_was_lost_on_the_way() {
    for (who, kind) in [(0, 0), (1, 1), (1, 2), (0, 3), (1, 3)] {
        let hit = core::cell::Cell::new(0);
        let lost = move |number: usize, d_pdu: &DPdu<'_>, _: u64| {
            let eow = Eow::parse(d_pdu.eow);
            let matches = match kind {
                0 => matches!(eow, Eow::HighRate { .. }),
                1 => eow == answer(Response::Accept),
                2 => eow == answer(Response::Confirm),
                _ => d_pdu.body.kind().number() == 6 && eow == Eow::None,
            };
            let fits = number == who && matches && hit.get() == 0;
            hit.set(hit.get() + u32::from(fits));
            fits
        };
        let mut pair = of_edition_3(lost, Some(adapt()));
        pair.run(at(900));
        assert_eq!(pair.came.len(), 400, "{who} {kind}");
        assert!(rate_of(&pair, 0) >= 4800, "{who} {kind}");
        for station in &pair.stations {
            assert_eq!(station.peers[0].rate.agreement, Agreement::None);
            assert!(!station.peers[0].rate.is_talking());
        }
    }
}

/// C.6.4.2 (9)–(11): a confirmation that never comes is asked for three times, and the rate stays.
#[test]
fn a_change_that_is_never_confirmed_is_taken_back() {
    let lost = |number: usize, d_pdu: &DPdu<'_>, _: u64| {
        number == 1 && Eow::parse(d_pdu.eow) == answer(Response::Confirm)
    };
    let mut pair = of_edition_3(lost, Some(adapt()));
    pair.run(at(1000));
    assert!(pair.came.len() > 80, "{}", pair.came.len());
    assert_eq!(rate_of(&pair, 0), 1200);
}

/// C.6.4.2 (26), (27), (30), (31): a refusal is answered by the end of the dialogue, and that by an
/// acknowledgement; both go on as before.
#[test]
fn a_refusal_ends_with_a_cancellation() {
    let mut pair = of_edition_3(|_, _, _| false, None);
    pair.run(at(400));
    let says = |number| said(&pair, number).into_iter().map(|it| it.1);
    assert_eq!(says(0).next_back(), Some(answer(Response::Cancel)));
    let refuse = Eow::Response {
        response: Response::Refuse,
        reason: RATE_FIXED,
    };
    assert_eq!(Vec::from_iter(says(1)), [refuse]);
    assert_eq!(rate_of(&pair, 0), 1200);
    assert!(pair.came.len() > 30);
}

/// C.5.5 (7): a high rate by another waveform, or on more channels, is refused with the reason.
#[test]
fn a_high_rate_that_the_modem_does_not_have_is_refused_with_the_reason() {
    let own = adapt().waveform;
    for (waveform, channels, says) in [
        (own, 1, answer(Response::Accept)),
        (own ^ 1, 1, refusal(RATE_FIXED)),
        (own, 2, refusal(INTERLEAVER_FIXED)),
    ] {
        let mut pair = of_edition_3(|_, _, _| false, Some(adapt()));
        let ask = Eow::HighRate { waveform, channels };
        let rate = high_rate(1600, 8);
        hear_message(&mut pair.stations[1], ask.bits(), [true, false], 7, &rate);
        let management = &mut pair.stations[1].peers[0].rate.management();
        management.next();
        let due = management.next().and_then(|due| due.message);
        assert_eq!(due.map(|it| it.eow), Some(says));
    }
}

const fn refusal(reason: u8) -> Eow {
    Eow::Response {
        response: Response::Refuse,
        reason,
    }
}

#[test]
fn a_lost_request_or_answer_is_said_again() {
    for (who, kind) in [(0, 0), (1, 1), (0, 2), (1, 3)] {
        // The first request, the first answer, the first confirmation, or all of a turn of acks.
        let hit = core::cell::Cell::new(0);
        let lost = move |number: usize, d_pdu: &DPdu<'_>, _: u64| {
            let eow = Eow::parse(d_pdu.eow);
            let matches = match kind {
                0 => matches!(eow, Eow::HighRate { .. }),
                1 => eow == answer(Response::Accept),
                2 => eow == answer(Response::Confirm),
                _ => d_pdu.body.kind().number() == 6 && eow == Eow::None,
            };
            let fits = number == who && matches && hit.get() == 0;
            hit.set(hit.get() + u32::from(fits));
            fits
        };
        let mut pair = agreeing(lost, Some(adapt()));
        pair.run(at(700));
        assert_eq!(pair.came.len(), 400, "{who} {kind}");
        assert!(
            rate_of(&pair, 0) >= 4800,
            "{who} {kind}: {}",
            rate_of(&pair, 0)
        );
        assert_eq!(pair.stations[0].peers[0].rate.agreement, Agreement::None);
    }
}

#[test]
fn an_answer_that_never_comes_leaves_the_rate_as_it_is() {
    let answers =
        |number: usize, d_pdu: &DPdu<'_>, _| number == 1 && d_pdu.body.kind().number() == 6;
    let mut pair = agreeing(answers, Some(adapt()));
    pair.run(at(1000));
    assert!(pair.came.len() > 100);
    let data = pair
        .turns
        .iter()
        .filter(|turn| turn.3.iter().any(|it| it.0 == 9));
    assert!(data.map(|turn| turn.2).all(|rate| rate <= 1200));
}

#[test]
fn a_station_with_a_fixed_rate_refuses_and_is_not_asked_again() {
    let mut pair = agreeing(|_, _, _| false, None);
    pair.run(at(400));
    let refuse = Eow::Response {
        response: Response::Refuse,
        reason: RATE_FIXED,
    };
    let said_b: Vec<Eow> = said(&pair, 1).into_iter().map(|it| it.1).collect();
    assert_eq!(said_b, [refuse]);
    assert_eq!(rate_of(&pair, 0), 1200);
    assert!(pair.came.len() > 30);
}

#[test]
fn both_may_ask_at_once() {
    let agree = || Adapt {
        agree: true,
        ..adapt()
    };
    let both = [0, 1].map(|number| settings(number, Some(agree())));
    let mut pair = Pair::new(both, 1200, |_| 40.0);
    pair.offer(0, 300);
    pair.offer(1, 300);
    pair.run(at(900));
    assert_eq!(pair.came.len(), 600);
    for number in 0..2 {
        assert!(rate_of(&pair, number) >= 6400, "{}", rate_of(&pair, number));
    }
}

#[test]
fn requests_that_meet_on_the_air_are_both_granted() {
    let agree = || Adapt {
        agree: true,
        ..adapt()
    };
    let both = [0, 1].map(|number| settings(number, Some(agree())));
    let mut pair = Pair::new(both, 1200, |_| 40.0);
    pair.offer(0, 1);
    pair.run(at(60));
    for number in 0..2 {
        let station = &mut pair.stations[number];
        let place = adapt().place(4800);
        station.peers[0].rate.rate.set(place, Reason::Good);
        let (peers, cx) = station.split();
        let peer = &mut peers[0];
        let beside = Beside::of(&cx, &peer.calls, peer.around());
        peer.rate.want(&beside, &mut peer.transfer);
    }
    pair.settle(0);
    pair.settle(1);
    assert_eq!(pair.spoilt.iter().filter(|spoilt| **spoilt).count(), 2);
    pair.run(at(120));
    assert_eq!([0, 1].map(|number| rate_of(&pair, number)), [4800, 4800]);
    for number in 0..2 {
        let peer = &pair.stations[number].peers[0];
        assert_eq!(peer.rate.agreement, Agreement::None);
        assert!(!peer.rate.is_talking());
    }
}

#[test]
fn a_station_follows_a_request_for_both_directions() {
    let mut pair = agreeing(|_, _, _| false, Some(adapt()));
    let ask = Eow::Rate {
        rate: 2,
        interleaver: 1,
        purpose: Purpose::RequestBoth,
    };
    // Not before the other has heard that it may be (C.6.4.2 (29)).
    hear_message(&mut pair.stations[1], ask.bits(), [true, false], 7, &[]);
    assert_eq!(rate_of(&pair, 1), 1200);
    let management = &mut pair.stations[1].peers[0].rate.management();
    let says = [management.next(), management.next()];
    let accepts = says.map(|due| due.and_then(|due| due.message).map(|it| it.eow));
    assert_eq!(accepts, [None, Some(answer(Response::Accept))]);
    hear_message(&mut pair.stations[1], 0, [false, true], 0, &[]);
    assert_eq!(rate_of(&pair, 1), 300);
    // 3600 bit/s is none of its rates.
    let ask = Eow::Rate {
        rate: 7,
        interleaver: 1,
        purpose: Purpose::RequestBoth,
    };
    hear_message(&mut pair.stations[1], ask.bits(), [true, false], 8, &[]);
    assert_eq!(rate_of(&pair, 1), 300);
    // Nor has it the long interleaver, at any rate.
    let ask = Eow::Rate {
        rate: 4,
        interleaver: 2,
        purpose: Purpose::RequestBoth,
    };
    hear_message(&mut pair.stations[1], ask.bits(), [true, false], 9, &[]);
    assert_eq!(rate_of(&pair, 1), 300);
    assert_eq!(pair.stations[1].counts.messages_in, 3);
    let says = pair.stations[1].peers[0].rate.management().next();
    let refused = Eow::Response {
        response: Response::Refuse,
        reason: INTERLEAVER_FIXED,
    };
    assert!(says.is_some(), "an acknowledgement first");
    let says = pair.stations[1].peers[0].rate.management().next();
    assert_eq!(
        says.and_then(|due| due.message).map(|it| it.eow),
        Some(refused)
    );
}
