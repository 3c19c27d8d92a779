//! Confirmations by numbers, between nodes of ours.

use super::tests::{Clients, arq, arrived, interface, life, request};
use super::*;
use crate::s_pdu::CONFIRMS_OCTET;

/// What an interface has to send.
fn sent(sis: &mut Sis) -> Vec<Vec<u8>> {
    let mut c_pdus = Vec::new();
    while let Some(next) = sis.next(|_| true) {
        c_pdus.extend(sis.take_next(next.number).map(|it| it.c_pdu));
        sis.decide(Instant::ZERO, next.number, true);
    }
    c_pdus
}

/// An interface with a client at access point 5, and a peer that is one of ours or isn't.
fn bound(ours: bool) -> (Sis, Clients) {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    sis.set_ours(0, ours);
    clients.bind(&mut sis, 1, 5, 0, arq(2));
    clients.told(1);
    (sis, clients)
}

fn ask(sis: &mut Sis, clients: &mut Clients) {
    for u_pdu in [&b"one"[..], b"two", b"three"] {
        clients.send(sis, 1, &request(4, 3, arq(2), u_pdu));
    }
}

#[test]
fn data_for_one_of_ours_has_a_number_and_is_confirmed_by_it() {
    let (mut near, mut clients) = bound(true);
    ask(&mut near, &mut clients);
    let data = sent(&mut near);
    let expected = [&b"\0\xc3\x54\x80\0\0one"[..], b"\0\xc3\x54\x80\0\x01two"];
    assert_eq!(data[..2], expected);
    // At the other end there is nobody for the last.
    let (mut far, mut others) = bound(true);
    others.send(&mut far, 1, &Primitive::UnbindRequest);
    let (sap, rank, service) = (4, 0, arq(0));
    others.send(&mut far, 1, &Primitive::BindRequest { sap, rank, service });
    for c_pdu in &data[..2] {
        far.arrive(Instant::ZERO, &arrived(&c_pdu[1..], false));
    }
    others.send(&mut far, 1, &Primitive::UnbindRequest);
    far.arrive(Instant::ZERO, &arrived(&data[2][1..], false));
    // All three go back together.
    let answers = sent(&mut far);
    assert_eq!(answers, [b"\0\xd0\0\0\0\x01\x80\x02"]);
    near.arrive(Instant::ZERO, &arrived(&answers[0][1..], false));
    near.arrive(Instant::ZERO, &arrived(&answers[0][1..], false));
    clients.collect(&mut near);
    let told: Vec<[u8; 2]> = clients.told(1).iter().map(|it| [it[0], it[1]]).collect();
    assert_eq!(told, [[22, 4], [22, 4], [23, 0x24]]);
}

#[test]
fn who_is_not_ours_or_does_not_want_it_gets_the_standards() {
    let (mut sis, mut clients) = bound(false);
    ask(&mut sis, &mut clients);
    assert_eq!(sent(&mut sis)[0], b"\0\x03\x54\x80one");
    let (mut sis, mut clients) = bound(true);
    sis.settings.compact_confirmations = false;
    ask(&mut sis, &mut clients);
    assert_eq!(sent(&mut sis)[0], b"\0\x03\x54\x80one");
    // What others mean by these types isn't known.
    let (mut sis, mut clients) = bound(false);
    sis.arrive(Instant::ZERO, &arrived(b"\xc3\x45\x80\0\x01two", false));
    ask(&mut sis, &mut clients);
    sent(&mut sis);
    sis.arrive(Instant::ZERO, &arrived(b"\xd0\0\0", false));
    clients.collect(&mut sis);
    assert_eq!(clients.kinds(1), []);
}

#[test]
fn more_than_one_s_pdu_holds_go_in_two() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    sis.set_ours(0, true);
    clients.bind(&mut sis, 1, 4, 0, arq(0));
    for number in 0..33u8 {
        sis.arrive(
            Instant::ZERO,
            &arrived(&[0xc0, 0x54, 0x80, 0, number], false),
        );
    }
    let lengths: Vec<usize> = sent(&mut sis).iter().map(Vec::len).collect();
    assert_eq!(lengths, [2 + 64, 2 + 2]);
}

#[test]
fn a_confirmation_of_what_was_sent_in_a_life_before_confirms_nothing_else() {
    let mut confirmations: Vec<[u8; 3]> = Vec::new();
    for seed in 1..3 {
        let (mut near, mut clients) = (life(4, seed), Clients::default());
        near.set_ours(0, true);
        clients.bind(&mut near, 1, 5, 0, arq(2));
        ask(&mut near, &mut clients);
        let data = sent(&mut near);
        clients.told(1);
        // What the other end had to say of them comes when they are forgotten.
        for s_pdu in core::mem::take(&mut confirmations) {
            near.arrive(Instant::ZERO, &arrived(&s_pdu, false));
        }
        clients.collect(&mut near);
        assert_eq!(clients.kinds(1), []);
        confirmations = data
            .iter()
            .map(|c_pdu| [CONFIRMS_OCTET, c_pdu[4], c_pdu[5]])
            .collect();
        assert_eq!(confirmations.len(), 3);
    }
}

#[test]
fn a_word_about_what_has_not_come_is_about_something_else() {
    for (numbers, delivered) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut near, mut clients) = bound(numbers);
        clients.send(&mut near, 1, &request(4, 3, arq(2), b"one"));
        let next = near.next(|_| true).expect("data");
        near.take_next(next.number);
        // The first is a word of a life before, or came ahead of the station's.
        let words = [&b"\xd0\x80\0"[..], b"\xd0\0\0"];
        let words = if numbers {
            words
        } else {
            [&b"\x21\x54one"[..], b"\x10\x54one"]
        };
        for word in words {
            near.arrive(Instant::ZERO, &arrived(word, false));
        }
        clients.collect(&mut near);
        assert_eq!(clients.kinds(1), [], "{numbers}");
        near.decide(Instant::ZERO, next.number, delivered);
        clients.collect(&mut near);
        let told = if delivered { 22 } else { 23 };
        assert_eq!(clients.kinds(1), [told], "{numbers}");
    }
}

#[test]
fn a_confirmation_that_is_all_numbers_late_confirms_nothing() {
    let (mut near, mut clients) = bound(true);
    let mut send = |near: &mut Sis, delivered| {
        clients.send(near, 1, &request(4, 3, arq(2), b"one"));
        let next = near.next(|_| true).expect("data");
        let taken = near.take_next(next.number).expect("data");
        near.decide(Instant::ZERO, next.number, delivered);
        clients.collect(near);
        (taken.c_pdu, clients.told(1))
    };
    for number in 0..=NUMBER {
        let (c_pdu, _) = send(&mut near, false);
        assert_eq!(c_pdu[4..6], number.to_be_bytes());
    }
    // All may still be spoken of: it goes without, and is confirmed as others are.
    let (c_pdu, _) = send(&mut near, true);
    assert_eq!(c_pdu, b"\0\x03\x54\x80one");
    near.arrive(Instant::ZERO, &arrived(b"\xd0\0\0", false));
    clients.collect(&mut near);
    assert_eq!(clients.kinds(1), []);
    near.arrive(Instant::ZERO, &arrived(b"\x10\x54one", false));
    clients.collect(&mut near);
    assert_eq!(clients.kinds(1), [22]);
}
