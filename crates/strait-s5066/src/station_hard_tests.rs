//! Hard links on the air: the exclusive links that they go by (Annex A.1.1.2, A.3.2.2, B.3).

use super::clients::client;
use super::*;
use crate::c_pdu::CPdu;
use crate::sis::{HardLink, Primitive};

const RESERVED: HardLink = HardLink {
    kind: 0,
    priority: 1,
    sap: 0,
};

/// Stations with clients; long numbers or as Edition 3.
fn stations(count: usize, long_numbers: bool) -> World {
    let station = |number| Settings {
        long_numbers,
        ..settings(number)
    };
    let mut world = World::new(Air::at(9600, 0.0), (0..count).map(station).collect());
    world.with_clients(1, "hard links");
    world
}

fn want(world: &mut World, station: usize, sap: u8, link: HardLink, to: usize) {
    let establish = Primitive::HardLinkEstablish(link, address(to).into());
    world.client_says(client(station, sap), &establish);
}

fn wait(world: &mut World, s: u64) {
    world.run(world.now + Duration::from_secs(s));
}

/// A.3.2.2.2 (9), B.3 (2): with a soft link there, the exclusive one is asked for all the same.
#[test]
fn a_hard_link_over_a_soft_one_makes_it_exclusive() {
    for long_numbers in [false, true] {
        for caller in [0, 1] {
            let mut world = stations(2, long_numbers);
            world.offer(caller, 1 - caller, 500, true);
            wait(&mut world, 20);
            assert!(
                world.stations[1]
                    .peer(0)
                    .is_some_and(Peer::is_linked_softly)
            );
            want(&mut world, 0, 1, RESERVED, 1);
            wait(&mut world, 30);
            assert_eq!(world.hard_links(), (1, 0));
            assert!(world.stations[1].peers[0].calls.link().is_exclusive());
        }
    }
}

/// A.1.1.2.1 (1), A.1.1.2.2 (1), A.1.1.2.3 (1): it is kept though nothing goes by it; A.3.2.2.3
/// (7), (8): and known to be lost when the other node is gone.
#[test]
fn a_hard_link_is_kept_while_nothing_goes_by_it() {
    for long_numbers in [false, true] {
        let mut world = stations(2, long_numbers);
        want(&mut world, 0, 1, RESERVED, 1);
        wait(&mut world, 30);
        assert_eq!(world.hard_links(), (1, 0));
        for _ in 0..20 {
            wait(&mut world, 100);
            assert!(
                world.stations[0].peer(1).is_some_and(Peer::is_linked)
                    && world.stations[1].peer(0).is_some_and(Peer::is_linked)
            );
        }
        assert_eq!(world.hard_links(), (1, 0));
        world.deaf[0][1] = true;
        wait(&mut world, 300);
        assert_eq!(world.hard_links(), (1, 1));
        wait(&mut world, 100);
        assert!(!world.stations[1].peer(0).is_some_and(Peer::is_linked));
    }
}

/// B.3 (7), (9), (10), B.2 (5): a second exclusive link is accepted, for its clients may have the
/// higher rank; a third isn't, nor any other.
#[test]
fn a_second_exclusive_link_is_accepted_and_no_third() {
    let mut world = World::new(Air::at(9600, 0.0), (0..5).map(settings).collect());
    for (station, to) in [(0, 1), (2, 0), (3, 0)] {
        world.stations[station].set_exclusive(Some(Exclusive {
            peer: to,
            keeps: false,
        }));
        world.ask_hard_link(station, to);
        wait(&mut world, 20);
    }
    world.offer(4, 0, 100, true);
    wait(&mut world, 20);
    let linked = |world: &World, with| world.stations[0].peer(with).is_some_and(Peer::is_linked);
    assert!(linked(&world, 1) && linked(&world, 2));
    assert!(!linked(&world, 3) && !linked(&world, 4));
    assert_eq!(world.marks(0), [1]);
}

/// A.3.2.2 (1), (4), A.3.2.2.2 (19), (22): another node's hard link of a higher priority takes the
/// place of the one that a node has, whose client hears of it.
#[test]
fn another_nodes_better_hard_link_takes_the_place_of_the_first() {
    let better = HardLink {
        priority: 2,
        ..RESERVED
    };
    for (link, told) in [(better, (2, 1)), (RESERVED, (1, 1))] {
        let mut world = stations(3, false);
        want(&mut world, 0, 1, RESERVED, 1);
        wait(&mut world, 30);
        assert_eq!(world.hard_links(), (1, 0));
        want(&mut world, 2, 1, link, 1);
        wait(&mut world, 60);
        assert_eq!(world.hard_links(), told);
    }
}

/// A.2.1.18 (5), A.3.2.2.2 (8): a client of rank 7 takes the place of one of rank 3, with another
/// node.
#[test]
fn a_client_of_higher_rank_takes_the_place_of_another_with_another_node() {
    let mut world = stations(3, false);
    want(&mut world, 0, 1, RESERVED, 1);
    wait(&mut world, 30);
    want(&mut world, 0, 2, RESERVED, 2);
    wait(&mut world, 60);
    assert_eq!(world.hard_links(), (2, 1));
    assert!(world.stations[0].peer(2).is_some_and(Peer::is_linked));
    let kept = |number: usize| world.clients.as_ref().map(|it| it.kept(number));
    assert_eq!(
        [0, 1, 2].map(kept),
        [Some(Some(2)), Some(None), Some(Some(0))]
    );
}

/// B.2 (5), A.3.2.2.2: who asks for a hard link by an exclusive one has made that; another may have
/// asked for it in the name of one that has a link, and goes on by that.
#[test]
fn an_exclusive_link_keeps_others_out_once_a_hard_link_is_asked_for_by_it() {
    for claimed in [false, true] {
        let station = |number| Settings {
            long_numbers: false,
            ..settings(number)
        };
        let mut world = World::new(Air::at(9600, 0.0), (0..3).map(station).collect());
        world.offer(0, 1, 100, true);
        wait(&mut world, 20);
        let request = CPdu::Request {
            exclusive: true,
            ours: None,
        };
        world.stations[1].advance(world.now);
        world.stations[1].hear_control(0, request);
        world.settle(1);
        for _ in 0..3 {
            wait(&mut world, 20);
            match claimed {
                true => world.ask_hard_link(0, 1),
                false => world.offer(0, 1, 100, true),
            }
        }
        wait(&mut world, 20);
        assert!(world.stations[1].peers[0].calls.link().is_exclusive());
        world.offer(2, 1, 100, true);
        let mark = world.tickets - 1;
        wait(&mut world, 20);
        assert_eq!(world.marks(1).contains(&mark), !claimed);
    }
}
