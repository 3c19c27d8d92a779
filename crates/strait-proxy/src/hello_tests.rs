//! What hellos say of who is behind their sender.

use std::format;
use std::vec::Vec;

use super::tests::SETTINGS;
use super::*;
use crate::greeting::both;

const OWN: u32 = 1;

fn hello(to: u32, from: u32, networks: &[Prefix]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_head(Head::Hello { to, from, first: 0 }, &mut bytes);
    let items = networks.iter().map(|it| Item::Network(*it));
    items.for_each(|item| write_item(&item, &mut bytes));
    bytes
}

fn networks(count: u8) -> Vec<Prefix> {
    let all = (0..count).map(|n| format!("10.{n}.0.1/24").parse().unwrap());
    all.collect()
}

#[test]
fn who_knows_our_token_says_who_is_behind_him_and_nobody_else_does() {
    let mut side = Session::new(OWN, SETTINGS);
    side.hear(Instant::ZERO, 0, &hello(0, 2, &networks(1)))
        .unwrap();
    assert_eq!(side.announced(), []);
    side.hear(Instant::ZERO, 0, &hello(OWN, 2, &networks(2)))
        .unwrap();
    let told: Vec<Prefix> = networks(2).into_iter().map(Prefix::network).collect();
    assert_eq!(side.announced(), told);
    // A stranger changes nothing, and the next incarnation says anew.
    side.hear(Instant::ZERO, 0, &hello(9, 3, &networks(3)))
        .unwrap();
    assert_eq!(side.announced(), told);
    side.hear(Instant::ZERO, 0, &hello(OWN, 3, &[])).unwrap();
    assert_eq!(side.announced(), []);
}

#[test]
fn what_is_announced_goes_with_every_hello() {
    let mut side = Session::new(OWN, SETTINGS);
    side.announce(&networks(40));
    side.greet(Instant::ZERO);
    let said = side.poll(Instant::ZERO, 0, 1200).unwrap();
    let most = codec::NETWORKS_MAX;
    let first: Vec<Prefix> = networks(most as u8);
    assert_eq!(said, hello(0, OWN, &first));
    let mut other = Session::new(2, SETTINGS);
    other.hear(Instant::ZERO, 0, &said).unwrap();
}

#[test]
fn hellos_with_too_much_or_with_something_else_are_none() {
    let mut side = Session::new(OWN, SETTINGS);
    let most = codec::NETWORKS_MAX as u8;
    let long = hello(OWN, 2, &networks(most + 1));
    let mut other = hello(OWN, 2, &networks(1));
    write_item(&Item::Accept { n: 1 }, &mut other);
    let mut cut = hello(OWN, 2, &networks(1));
    cut.pop();
    let mut longer = hello(OWN, 2, &networks(1));
    let length = longer.len() - 5;
    longer[length] = 33;
    for wrong in [long, other, cut, longer] {
        assert_eq!(side.hear(Instant::ZERO, 0, &wrong), Err(Malformed));
        assert!(!side.is_there() && side.announced().is_empty());
    }
    assert_eq!(side.stats().malformed, 4);
    // Nor are they items of anything else.
    side.hear(Instant::ZERO, 0, &hello(OWN, 2, &[])).unwrap();
    let mut items = Vec::new();
    let number = Some(0);
    let to = both(OWN, 2);
    write_head(Head::Items { to, number }, &mut items);
    write_item(&Item::Network(networks(1)[0]), &mut items);
    assert_eq!(side.hear(Instant::ZERO, 0, &items), Err(Malformed));
}
