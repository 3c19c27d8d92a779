//! What hellos say of who is behind their sender.

use std::format;
use std::vec::Vec;

use super::tests::SETTINGS;
use super::*;
use crate::codec::Ends;
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
fn a_lost_hello_leaves_nobody_unknown() {
    let mut sides = [1, 2].map(|own| Session::new(own, SETTINGS));
    let mut now = Instant::ZERO;
    sides[0].greet(now);
    // The first asks, the second answers, and what the first says to that is lost.
    for (n, from) in [0, 1, 0].into_iter().enumerate() {
        let said = sides[from].poll(now, 0, 1200).unwrap();
        if n < 2 {
            sides[1 - from].hear(now, 0, &said).unwrap();
        }
        now += Duration::from_secs(1);
    }
    assert!(sides[0].is_there() && !sides[1].is_there());
    // Neither has anything else to say.
    let until = now + SETTINGS.waits.patience * 8;
    while now < until {
        for from in 0..2 {
            if let Some(said) = sides[from].poll(now, 0, 1200) {
                sides[1 - from].hear(now, 0, &said).unwrap();
            }
        }
        now += Duration::from_millis(100);
    }
    assert!(sides.iter().all(Session::is_there));
}

/// Where a more urgent class overtakes the hello that says who its sender is.
#[test]
fn what_overtakes_a_hello_has_one_of_its_own() {
    let mut sides = [1, 2].map(|own| Session::new(own, SETTINGS));
    let now = Instant::ZERO;
    sides[0].greet(now);
    for from in [0, 1] {
        let said = sides[from].poll(now, 0, 1200).unwrap();
        sides[1 - from].hear(now, 0, &said).unwrap();
    }
    let ends = Ends {
        client: ([10, 1, 0, 2], 5000).into(),
        server: ([10, 2, 0, 2], 80).into(),
    };
    for dscp in [24, 32] {
        sides[0].open(now, Open { ends, dscp }).unwrap();
    }
    let mut said = Vec::new();
    for dscp in sides[0].wants(now) {
        let each = core::iter::from_fn(|| sides[0].poll(now, dscp, 1200));
        said.push((dscp, each.collect::<Vec<_>>()));
    }
    for (dscp, datagrams) in said.into_iter().rev() {
        for datagram in datagrams {
            sides[1].hear(now, dscp, &datagram).unwrap();
        }
    }
    assert_eq!(sides[1].stats().strangers, 0);
    let opened = core::iter::from_fn(|| sides[1].poll_event());
    assert_eq!(opened.count(), 2);
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
