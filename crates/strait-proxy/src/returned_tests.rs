//! Datagrams that a link gave up.

use super::*;

#[test]
fn what_a_link_gave_up_goes_again_at_once_and_an_acknowledgement_too() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    pair.run(100);
    pair.sides[0].write(pair.now, key, &text(500, 0));
    let now = pair.now;
    assert_eq!(pair.sides[0].ready(), 500);
    let lost = pair.sides[0].poll(now, 10, 1200).unwrap();
    assert_eq!(
        (pair.sides[0].ready(), pair.sides[0].poll(now, 10, 1200)),
        (0, None)
    );
    // Whoever has another token says nothing about it.
    let mut other = lost.clone();
    other[1] ^= 1;
    pair.sides[0].hear_returned(now, &other, true);
    assert_eq!(pair.sides[0].ready(), 0);
    pair.sides[0].hear_returned(now, &lost, true);
    assert_eq!(pair.sides[0].ready(), 500);
    pair.until("there", |it| it.sides[1].read(THEIRS, 999) == text(500, 0));
    pair.run(100);
    let acked = |pair: &Pair| pair.sides[1].stats().datagrams_out;
    let before = acked(&pair);
    // Its answer is given up: it is said again although nothing came.
    let answer = acknowledgement(&pair);
    pair.sides[1].hear_returned(pair.now, &answer, true);
    pair.run(2);
    assert_eq!(acked(&pair), before + 1);
}

#[test]
fn what_was_given_up_and_had_arrived_does_not_go_again() {
    let mut pair = Pair::new(1, [0; 3]);
    let key = pair.sides[0].open(pair.now, open(1)).unwrap();
    pair.until("opened", |it| it.opened().is_some());
    pair.run(100);
    let next = |pair: &mut Pair, seed: usize| {
        pair.sides[0].write(pair.now, key, &text(500, seed));
        pair.sides[0].poll(pair.now, 10, 1200).unwrap()
    };
    let [first, second] = [1, 2].map(|seed| next(&mut pair, seed));
    let now = pair.now;
    pair.sides[1].hear(now, 10, &first).unwrap();
    // Where it hasn't left, there is no doubt.
    pair.sides[0].hear_returned(now, &second, false);
    assert!(!pair.sides[0].is_in_doubt());
    pair.sides[0].hear_returned(now, &first, true);
    assert!(pair.sides[0].is_in_doubt());
    // The same again says nothing new.
    pair.sides[0].hear_returned(now, &first, true);
    assert_eq!(pair.sides[0].ready(), 1000);
    let repaired = pair.sides[0].stats().repaired;
    let answer = pair.sides[1]
        .poll(now + SETTINGS.waits.ack, 10, 1200)
        .unwrap();
    pair.sides[0].hear(now, 10, &answer).unwrap();
    assert!(!pair.sides[0].is_in_doubt());
    assert_eq!(pair.sides[0].ready(), 500);
    pair.sides[0].check();
    let both = [text(500, 1), text(500, 2)].concat();
    pair.until("there", |it| {
        it.sides[1].read(THEIRS, 0).is_empty() && {
            it.sides[1].streams.get(THEIRS).unwrap().inbound.ready() == 1000
        }
    });
    assert_eq!(pair.sides[1].read(THEIRS, 1000), both);
    assert_eq!(pair.sides[0].stats().repaired, repaired);
}

/// An acknowledgement by itself of the second side.
fn acknowledgement(pair: &Pair) -> Vec<u8> {
    let mut bytes = Vec::new();
    let to = pair.sides[1].greeting.token().unwrap();
    write_head(Head::Items { to, number: None }, &mut bytes);
    write_item(&Item::Ack(vec![(0, 0)]), &mut bytes);
    bytes
}
