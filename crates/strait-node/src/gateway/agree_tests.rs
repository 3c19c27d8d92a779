//! Two ends that say hello to each other.

use super::*;

const START: Instant = Instant::ZERO;

fn offer(compresses: bool) -> Offer {
    Offer {
        compresses,
        cids_max: 15,
        mtu: 1500,
        payload: None,
        checks: Checks {
            real_time_short: true,
            others_short: false,
            urgent: false,
            repairs: false,
            real_time_streams: 0b1,
        },
        counts: false,
        checksums_rebuilt: false,
        known: KnownFlows::default(),
        remembered: None,
        asks: compresses,
        way_back: true,
    }
}

fn end(compresses: bool, incarnation: u32) -> Terms {
    Terms::new(offer(compresses), incarnation)
}

/// What `from` owes, heard by `to`.
fn pass(from: &mut Terms, to: &mut Terms) -> Option<News> {
    if !from.owes() {
        return None;
    }
    let mut line = Vec::new();
    from.put(START, &mut line);
    Some(to.hear(Hello::parse(&line)?))
}

/// Both say what they owe until neither owes anything.
fn meet(a: &mut Terms, b: &mut Terms) -> u32 {
    let mut hellos = 0;
    while pass(a, b).is_some() || pass(b, a).is_some() {
        hellos += 1;
        assert!(hellos < 8, "no end");
    }
    hellos
}

#[test]
fn three_hellos_settle_it_and_then_there_are_none() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    b.due = false;
    let news = pass(&mut a, &mut b).unwrap();
    assert!(news.restarted && b.decompresses() && !b.compresses());
    let news = pass(&mut b, &mut a).unwrap();
    assert!(news.restarted && a.decompresses() && a.compresses());
    assert!(!pass(&mut a, &mut b).unwrap().restarted);
    assert!(b.compresses());
    assert_eq!(pass(&mut a, &mut b), None);
    assert_eq!(pass(&mut b, &mut a), None);
    assert!(!a.is_ahead(START) && !b.is_ahead(START));
}

#[test]
fn nothing_is_compressed_before_both_have_heard_each_other() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    assert!(!a.compresses() && !a.decompresses());
    let mut line = Vec::new();
    b.put(START, &mut line);
    a.hear(Hello::parse(&line).unwrap());
    // b may compress from its next hello on; a not yet.
    assert!(a.decompresses() && !a.compresses());
    meet(&mut a, &mut b);
    assert!(a.compresses() && b.compresses());
}

#[test]
fn a_new_incarnation_ends_everything() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    meet(&mut a, &mut b);
    let mut b = end(true, 9);
    // It is asked about, and what it says again is so.
    assert!(!pass(&mut b, &mut a).unwrap().restarted);
    assert!(!a.compresses() && a.owes());
    pass(&mut a, &mut b);
    assert!(pass(&mut b, &mut a).unwrap().restarted);
    meet(&mut a, &mut b);
    assert!(a.compresses() && b.compresses());
}

#[test]
fn a_new_incarnation_is_told_that_it_was_heard_when_it_holds() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    meet(&mut a, &mut b);
    let mut b = end(true, 9);
    pass(&mut b, &mut a);
    pass(&mut a, &mut b);
    // The second hello of the new one is lost. It compresses nothing: it would be read as what the
    // old one said.
    b.put(START, &mut Vec::new());
    assert!(!b.compresses() && !a.owes());
    // What comes, or a pause, has both ask again.
    let later = START + REPEAT_FIRST;
    a.press(Instant::from_nanos(later.as_nanos() - 1));
    assert!(!a.owes());
    a.press(later);
    b.begin();
    assert!(a.owes() && b.is_ahead(later));
    meet(&mut a, &mut b);
    assert!(a.compresses() && b.compresses());
    a.press(Instant::from_secs(100));
    assert!(!a.owes());
}

/// It has only feedback to send, which an end that thinks of another incarnation doesn't take.
#[test]
fn an_end_whose_answer_was_lost_says_it_again_when_something_comes() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    meet(&mut a, &mut b);
    let mut b = end(true, 9);
    let mut line = Vec::new();
    a.put(START, &mut line);
    // To the old one; the answer is lost.
    b.hear(Hello::parse(&line).unwrap());
    b.put(START, &mut Vec::new());
    let later = START + REPEAT_FIRST;
    b.press(Instant::from_nanos(later.as_nanos() - 1));
    assert!(!b.owes());
    b.press(later);
    assert!(b.owes());
    meet(&mut a, &mut b);
    assert!(a.compresses() && b.compresses());
    b.press(Instant::from_secs(100));
    assert!(!b.owes());
}

/// A hello of incarnation 8 but for what is changed, as somebody else says it.
fn forged(change: impl FnOnce(&mut Hello)) -> Hello {
    let mut line = Vec::new();
    end(true, 8).put(START, &mut line);
    let mut hello = Hello::parse(&line).unwrap();
    (hello.heard, hello.confirmed) = (7, true);
    change(&mut hello);
    hello
}

#[test]
fn one_hello_that_somebody_else_says_settles_nothing() {
    let changes: [fn(&mut Hello); 6] = [
        |hello| hello.incarnation = 99,
        |hello| hello.mtu = 1280,
        |hello| hello.compresses = false,
        |hello| hello.cids_max = 0,
        |hello| hello.format = 9,
        |hello| hello.checks = Checks::default(),
    ];
    for change in changes {
        let (mut a, mut b) = (end(true, 7), end(true, 8));
        meet(&mut a, &mut b);
        let before = (a.agreed(), a.mtu(), a.cids_max(), a.agreement());
        assert!(!a.hear(forged(change)).restarted);
        // Nothing that only one of the two could read goes out meanwhile; both can be read.
        assert!(!a.compresses() && a.decompresses() && a.owes());
        assert_eq!(a.agreed().short_sent, 0);
        // The end that is there says how it is.
        assert!(!pass(&mut a, &mut b).unwrap().restarted);
        assert!(!pass(&mut b, &mut a).unwrap().restarted);
        assert_eq!(meet(&mut a, &mut b), 0);
        let after = (a.agreed(), a.mtu(), a.cids_max(), a.agreement());
        assert_eq!(after, before);
        assert!(a.compresses() && b.compresses());
    }
}

#[test]
fn a_wrong_hello_that_came_first_is_mended_by_the_end_that_is_there() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    a.hear(forged(|hello| hello.incarnation = 99));
    assert!(a.compresses());
    meet(&mut a, &mut b);
    assert!(a.compresses() && b.compresses());
    assert_eq!(a.other.map(|other| other.incarnation), Some(8));
}

#[test]
fn its_own_hello_turned_round_ends_nothing() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    meet(&mut a, &mut b);
    let mut line = Vec::new();
    a.put(START, &mut line);
    assert!(!a.hear(Hello::parse(&line).unwrap()).restarted);
    meet(&mut a, &mut b);
    assert!(a.compresses() && b.compresses());
}

#[test]
fn what_can_not_be_read_is_objected_to_once_a_second() {
    let (mut a, mut b) = (end(true, 7), end(true, 8));
    meet(&mut a, &mut b);
    let mut objects = |millis| {
        let now = Instant::from_millis(millis);
        a.object(now);
        let owes = a.owes();
        if owes {
            a.put(now, &mut Vec::new());
        }
        owes
    };
    assert_eq!([0, 1, 999].map(&mut objects), [true, false, false]);
    assert_eq!([1000, 1999, 2000].map(objects), [true, false, true]);
}

#[test]
fn an_end_without_compression_answers_and_both_go_plain() {
    let (mut a, mut b) = (end(true, 7), end(false, 8));
    assert_eq!(pass(&mut b, &mut a), None);
    meet(&mut a, &mut b);
    assert!(!a.compresses() && !b.compresses() && !a.decompresses());
    let headers = |terms: &Terms| match terms.agreement() {
        Agreement::Settled { headers, .. } => headers,
        other => panic!("{other:?}"),
    };
    assert_eq!(headers(&a), Settled::OtherWithout);
    assert_eq!(headers(&b), Settled::OwnWithout);
    assert!(a.agreement().lacks() && !b.agreement().lacks());
    assert_eq!(
        a.agreement().text(),
        "plain, short checks, not headers compressed: the other end doesn't"
    );
}

#[test]
fn payloads_are_compressed_behind_the_same_dictionary_only() {
    let with = |payload, incarnation| {
        let offer = Offer {
            payload,
            asks: payload.is_some(),
            ..offer(false)
        };
        Terms::new(offer, incarnation)
    };
    let payloads = |terms: &Terms| match terms.agreement() {
        Agreement::Settled { payloads, .. } => payloads,
        other => panic!("{other:?}"),
    };
    for (own, other, a_has, b_has) in [
        (Some(5), Some(5), Settled::Agreed, Settled::Agreed),
        (
            Some(5),
            Some(6),
            Settled::OtherWithout,
            Settled::OtherWithout,
        ),
        (Some(5), None, Settled::OtherWithout, Settled::OwnWithout),
    ] {
        let (mut a, mut b) = (with(own, 7), with(other, 8));
        assert!(!a.deflates() && !a.inflates());
        meet(&mut a, &mut b);
        assert_eq!((payloads(&a), payloads(&b)), (a_has, b_has));
        for end in [&a, &b] {
            assert_eq!(end.deflates(), a_has == Settled::Agreed);
            assert_eq!(end.inflates(), a_has == Settled::Agreed);
        }
    }
}

#[test]
fn another_format_is_no_common_ground() {
    for (least, newest, agreed) in [
        (2, 2, true),
        (1, 2, true),
        (2, 3, true),
        (3, 4, false),
        (1, 1, false),
        (0, 0, false),
    ] {
        let mut a = end(true, 7);
        let mut line = Vec::new();
        end(true, 8).put(START, &mut line);
        let hello = Hello {
            format: newest,
            format_least: least,
            heard: 7,
            ..Hello::parse(&line).unwrap()
        };
        let news = a.hear(hello);
        assert_eq!(news.agreement == Agreement::OtherFormat, !agreed);
        assert_eq!(a.compresses(), agreed);
        let expected = if agreed { 0b1 } else { 0 };
        assert_eq!(a.agreed().short_sent, expected);
        assert_eq!(a.agreed().short_taken, expected);
    }
}

#[test]
fn without_an_answer_hellos_become_rare() {
    let mut a = end(true, 7);
    let mut said = Vec::new();
    for ms in 0..60_000 {
        let now = Instant::from_millis(ms);
        if a.is_ahead(now) {
            a.put(now, &mut Vec::new());
            said.push(ms);
        }
        a.begin();
    }
    assert_eq!(
        said,
        [0, 250, 750, 1750, 3750, 7750, 15_750, 31_750, 47_750]
    );
}

#[test]
fn without_a_way_back_the_other_end_is_trusted() {
    let mut a = Terms::new(
        Offer {
            way_back: false,
            ..offer(true)
        },
        7,
    );
    assert!(a.compresses() && a.decompresses());
    assert_eq!(a.agreed().short_sent, 0b1);
    for _ in 0..UNANSWERABLE {
        assert!(a.is_ahead(START));
        a.put(START, &mut Vec::new());
        a.begin();
    }
    assert!(!a.is_ahead(START));
}

/// What is settled of checks by what each end wants: 16 bits for real time, for others, urgent
/// frames.
fn checks(own: [bool; 3], other: [bool; 3]) -> (Agreed, Agreed) {
    let of = |[real_time_short, others_short, urgent]: [bool; 3], real_time_streams, number| {
        let checks = Checks {
            real_time_short,
            others_short,
            urgent,
            repairs: urgent,
            real_time_streams,
        };
        let offer = Offer {
            checks,
            asks: true,
            ..offer(false)
        };
        Terms::new(offer, number)
    };
    let (mut a, mut b) = (of(own, 0b0001, 7), of(other, 0b0110, 8));
    // Nothing but the longest checks before both are known to each other.
    assert_eq!(a.agreed(), Agreed::default());
    meet(&mut a, &mut b);
    (a.agreed(), b.agreed())
}

#[test]
fn the_longer_check_holds_and_what_one_sends_the_other_takes() {
    for mask in 0..64 {
        let bit = |n: u32| mask >> n & 1 == 1;
        let (own, other) = ([bit(0), bit(1), bit(2)], [bit(3), bit(4), bit(5)]);
        let (a, b) = checks(own, other);
        assert_eq!(a.short_sent, b.short_taken);
        assert_eq!(b.short_sent, a.short_taken);
        assert_eq!(a.urgent_sent, b.urgent_taken);
        assert_eq!(b.urgent_sent, a.urgent_taken);
        let repairs = own[2] && other[2];
        let agreed = [
            a.repairs_sent,
            a.repairs_taken,
            b.repairs_sent,
            b.repairs_taken,
        ];
        assert_eq!(agreed, [repairs; 4]);
        let real_time = if own[0] && other[0] { 0b0001 } else { 0 };
        let others = if own[1] && other[1] { 0b1111_1110 } else { 0 };
        assert_eq!(a.short_sent, real_time | others);
        let urgent = (own[2] && other[2]).then_some(if own[0] && other[0] {
            SegmentCheck::Short
        } else {
            SegmentCheck::Long
        });
        assert_eq!(a.urgent_sent, urgent);
    }
}

#[test]
fn an_end_that_comes_to_want_something_says_so_then() {
    let [mut a, mut b] = [7, 8].map(|number| {
        let mut offer = offer(false);
        offer.checks.repairs = true;
        Terms::new(offer, number)
    });
    assert!(!a.owes() && !b.owes());
    a.ask();
    meet(&mut a, &mut b);
    assert!(a.agreed().repairs_sent && b.agreed().repairs_sent);
    // Once is enough.
    a.ask();
    assert!(!a.owes());
}

#[test]
fn beyond_the_standard_goes_only_what_both_say_and_the_same() {
    for (sent, received, known) in [(5, 6, true), (5, 7, false), (0, 0, false)] {
        for rebuilds in [false, true] {
            let other = Offer {
                checksums_rebuilt: rebuilds,
                known: KnownFlows {
                    sent: received,
                    received: sent,
                },
                ..offer(true)
            };
            let own = Offer {
                checksums_rebuilt: true,
                known: KnownFlows {
                    sent: if sent == 0 { 9 } else { 5 },
                    received: 6,
                },
                ..offer(true)
            };
            let (mut a, mut b) = (Terms::new(own, 7), Terms::new(other, 8));
            assert_eq!(a.further(), Further::default());
            meet(&mut a, &mut b);
            let expected = Further {
                counts: false,
                sent_remembered: Numbers::default(),
                received_remembered: Numbers::default(),
                far_timestamps: true,
                checksums_rebuilt: rebuilds,
                sent_known: sent == 5,
                received_known: received == 6,
            };
            assert_eq!(a.further(), expected);
            let theirs = Further {
                sent_known: expected.received_known,
                received_known: expected.sent_known,
                ..expected
            };
            assert_eq!(b.further(), theirs);
            assert_eq!(expected.sent_known && expected.received_known, known);
        }
    }
    // Without a way back, the other end is taken to be set up the same.
    let alone = Offer {
        checksums_rebuilt: true,
        way_back: false,
        ..offer(true)
    };
    let further = Terms::new(alone, 7).further();
    assert!(further.checksums_rebuilt && further.far_timestamps && !further.sent_known);
}

#[test]
fn remembered_flows_are_those_of_both_in_the_same_order() {
    let numbers = |some: &[u32]| {
        let mut numbers = Numbers::default();
        numbers[..some.len()].copy_from_slice(some);
        numbers
    };
    let with = |sent: &[u32], received: &[u32], incarnation| {
        let remembered = Some(Remembered {
            sent: numbers(sent),
            received: numbers(received),
        });
        let own = Offer {
            remembered,
            ..offer(true)
        };
        Terms::new(own, incarnation)
    };
    let mut a = with(&[9, 5, 7], &[1], 7);
    let mut b = with(&[2], &[7, 8, 9, 9], 8);
    meet(&mut a, &mut b);
    assert_eq!(a.further().sent_remembered, numbers(&[7, 9]));
    assert_eq!(b.further().received_remembered, numbers(&[7, 9]));
    assert_eq!(a.further().received_remembered, Numbers::default());
    assert_eq!(b.further().sent_remembered, Numbers::default());
    // One that doesn't remember shares nothing.
    let mut c = end(true, 9);
    meet(&mut a, &mut c);
    assert_eq!(a.further().sent_remembered, Numbers::default());
}

#[test]
fn without_a_way_back_one_hello_settles_nothing_that_is_not_so_here() {
    let one_way = |compresses| Offer {
        way_back: false,
        asks: false,
        ..offer(compresses)
    };
    let said = |compresses| Terms::new(one_way(compresses), 9).hello();
    let mut end = Terms::new(one_way(true), 7);
    let _ = end.hear(said(false));
    assert!(end.decompresses(), "somebody may have put it in");
    let news = end.hear(said(true));
    assert!(!news.restarted && end.decompresses());
    // Whoever is set up in another way says so ahead of many packets.
    let mut end = Terms::new(one_way(true), 7);
    let _ = [end.hear(said(false)), end.hear(said(false))];
    assert!(!end.decompresses());
}

#[test]
fn without_a_way_back_one_hello_ends_nothing_that_is_known() {
    let one_way = Offer {
        way_back: false,
        ..offer(true)
    };
    let said = |incarnation| Terms::new(one_way, incarnation).hello();
    let mut end = Terms::new(one_way, 7);
    // A forged one comes first, and then the true ones.
    let news = [99, 9, 9, 9].map(|incarnation| end.hear(said(incarnation)).restarted);
    assert_eq!(news, [false; 4]);
    assert!(!end.hear(said(10)).restarted);
    assert!(end.hear(said(10)).restarted);
}
