//! Hard links between interfaces whose own words take time, by the clauses of Annex A.3.2.2.

use super::tests::{Clients, FAR, arq, arrived, interface, request};
use super::*;
use crate::s_pdu::SAP_IP;

const THIRD: Address = Address::new(3);

/// An interface with two other nodes, 2 and 3, and clients 1 (rank 5, access point 4), 2 (rank 12,
/// access point 5) and 3 (rank 5, access point 6).
fn bound() -> (Sis, Clients) {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    sis.settings.peers[1] = THIRD;
    for (id, rank) in [(1, 5), (2, 12), (3, 5)] {
        clients.bind(&mut sis, id, 3 + id as u8, rank, arq(0));
        clients.told(id);
    }
    (sis, clients)
}

const fn link(kind: u8, priority: u8) -> HardLink {
    HardLink {
        kind,
        priority,
        sap: 4,
    }
}

fn at(s: u64) -> Instant {
    Instant::from_secs(s)
}

/// What the interface says to nodes of hard links.
fn says(sis: &mut Sis) -> Vec<(usize, Vec<u8>)> {
    let mut said = Vec::new();
    while let Some(next) = sis.next(|next| next.expedited) {
        let taken = sis.take_next(next.number).expect("it waits");
        sis.decide(sis.now, next.number, true);
        said.push((next.to, taken.c_pdu[1..].to_vec()));
    }
    said
}

fn hears(sis: &mut Sis, clients: &mut Clients, from: usize, s_pdu: &[u8]) {
    let word = Arrived {
        from: Some(from),
        ..arrived(s_pdu, true)
    };
    sis.arrive(sis.now, &word);
    clients.collect(sis);
}

fn want(sis: &mut Sis, clients: &mut Clients, id: u64, link: HardLink, to: Address) {
    clients.send(sis, id, &Primitive::HardLinkEstablish(link, to.into()));
}

/// A hard link of a client with the second node, which agreed.
fn established(id: u64, link: HardLink) -> (Sis, Clients) {
    let (mut sis, mut clients) = bound();
    clients.advance(&mut sis, at(1), true);
    want(&mut sis, &mut clients, id, link, FAR);
    assert_eq!(says(&mut sis).len(), 1);
    hears(&mut sis, &mut clients, 0, &[0x40]);
    assert_eq!(clients.kinds(id), [8]);
    (sis, clients)
}

fn first_two(told: &[Vec<u8>]) -> Vec<[u8; 2]> {
    told.iter().map(|it| [it[0], it[1]]).collect()
}

/// A.1.1.2.2 (2), (3) and A.2.2.28.4 (2): with part of the link reserved, only its client's data
/// goes; at the called node, only what is for that client.
#[test]
fn a_partial_reservation_lets_no_other_clients_data_pass() {
    let (mut sis, mut clients) = established(1, link(1, 0));
    for id in [3, 1] {
        clients.send(&mut sis, id, &request(7, 3, arq(0), &[id as u8]));
    }
    let next = sis.next(|_| true).expect("its client's");
    assert_eq!(sis.take_next(next.number).map(|it| it.c_pdu[2]), Some(0x47));
    assert_eq!(sis.next(|_| true), None);
    assert!(!sis.lets(0, SAP_IP, SAP_IP));
    // The same with a called node: the other's client has access point 9.
    let (mut sis, mut clients) = bound();
    clients.advance(&mut sis, at(1), true);
    hears(&mut sis, &mut clients, 0, &[0x34, 0x90]);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x40]))]);
    for sap in [8, 9] {
        clients.send(&mut sis, 3, &request(sap, 3, arq(0), &[sap]));
    }
    let next = sis.next(|_| true).expect("for that client");
    assert_eq!(sis.take_next(next.number).map(|it| it.c_pdu[2]), Some(0x69));
    assert_eq!(sis.next(|_| true), None);
    assert!(sis.lets(0, SAP_IP, SAP_IP));
}

/// A.1.1.2.1 (2), (3), (4): a reservation of the link alone keeps nobody out of it, but from other
/// nodes.
#[test]
fn a_reserved_link_serves_all_clients_with_that_node() {
    let (mut sis, mut clients) = established(1, link(0, 0));
    clients.send(&mut sis, 3, &request(7, 3, arq(0), b"x"));
    assert_eq!(sis.next(|_| true).map(|it| it.to), Some(0));
    assert!(sis.lets(0, SAP_IP, SAP_IP) && !sis.lets(1, SAP_IP, SAP_IP));
}

/// A.1.1.2.3 (2), (3): a whole link is for two clients and nobody else.
#[test]
fn a_whole_link_is_for_its_two_clients() {
    let (sis, _) = established(1, link(2, 0));
    assert!(sis.lets(0, 4, 4));
    assert!(!sis.lets(0, 4, 5) && !sis.lets(0, 5, 4) && !sis.lets(0, SAP_IP, SAP_IP));
}

/// A.2.1.18 (4), (5), A.3.2.2 (3)-(5), A.3.2.2.1 (2)-(6), A.3.2.2.2 (1)-(7): who takes whose place,
/// and what a client hears that can't.
#[test]
fn precedence_is_by_rank_then_priority_then_kind_then_age() {
    // Of a link of rank 5, priority 1, kind 1 with the second node: who asks for what, and the
    // answer, 0 for none.
    let cases = [
        // The rank, whatever else; 12 is above 5.
        (2, link(0, 0), FAR, 0),
        (2, link(0, 0), THIRD, 0),
        // The priority.
        (3, link(0, 2), FAR, 0),
        (3, link(0, 2), THIRD, 0),
        (3, link(2, 0), FAR, 2),
        (3, link(2, 0), THIRD, 2),
        // With the same node, the kind.
        (3, link(2, 1), FAR, 0),
        (3, link(0, 1), FAR, 2),
        // The older.
        (3, link(1, 1), FAR, 2),
        (3, link(1, 1), THIRD, 2),
        (3, link(2, 1), THIRD, 2),
    ];
    for (id, wanted, to, reason) in cases {
        let (mut sis, mut clients) = established(1, link(1, 1));
        want(&mut sis, &mut clients, id, wanted, to);
        if reason > 0 {
            assert_eq!(
                first_two(&clients.told(id)),
                [[9, reason]],
                "{wanted:?} {to}"
            );
            assert_eq!(says(&mut sis), []);
        } else {
            assert_eq!(clients.told(id).len(), 0, "{wanted:?} {to}");
            assert_eq!(first_two(&clients.told(1)), [[10, 2]]);
        }
    }
    // The same reservation again serves as well.
    let (mut sis, mut clients) = established(1, link(0, 1));
    want(&mut sis, &mut clients, 3, link(0, 1), FAR);
    assert_eq!(first_two(&clients.told(3)), [[9, 5]]);
    want(&mut sis, &mut clients, 3, link(0, 1), THIRD);
    assert_eq!(first_two(&clients.told(3)), [[9, 2]]);
    assert_eq!(sis.exclusive(), Some(0));
}

/// A.3.2.2 (1), (4), A.3.2.2.2 (8)-(10), A.3.2.2.3 (1), (2): the old link ends first, by the
/// protocol; then the other node is called, then asked.
#[test]
fn a_better_hard_link_begins_when_the_other_end_of_the_old_one_knows() {
    for confirmed in [true, false] {
        let (mut sis, mut clients) = established(1, link(0, 1));
        want(&mut sis, &mut clients, 2, link(0, 0), THIRD);
        assert_eq!(clients.told(1), [[10, 2, 0x14, 0xe0, 0, 0, 2]]);
        assert_eq!((sis.exclusive(), sis.calls()), (Some(0), None));
        assert_eq!(says(&mut sis), [(0, Vec::from([0x62]))]);
        if confirmed {
            hears(&mut sis, &mut clients, 0, &[0x70]);
        } else {
            clients.advance(&mut sis, at(180), true);
            assert_eq!(sis.calls(), None);
            clients.advance(&mut sis, at(181), true);
        }
        assert_eq!((sis.exclusive(), sis.calls()), (Some(1), Some(1)));
        assert_eq!(says(&mut sis), []);
        let now = sis.now;
        sis.advance(now, |_| true, |_| false);
        assert_eq!(says(&mut sis), [(1, Vec::from([0x30, 0x54]))]);
        hears(&mut sis, &mut clients, 1, &[0x40]);
        let told: Vec<u8> = clients.kinds(2);
        assert_eq!(told.last(), Some(&8));
    }
}

/// A.3.2.2.2 (9): a link that isn't exclusive is made one before the other node is asked, and let
/// run empty before that.
#[test]
fn over_a_soft_link_an_exclusive_one_is_made_first() {
    let (mut sis, mut clients) = bound();
    sis.set_soft(0, true);
    clients.advance(&mut sis, at(1), true);
    want(&mut sis, &mut clients, 1, link(0, 1), FAR);
    clients.send(&mut sis, 3, &request(7, 3, arq(0), b"x"));
    clients.advance(&mut sis, at(2), true);
    assert_eq!((sis.calls(), sis.next(|_| true)), (Some(0), None));
    sis.set_soft(0, false);
    clients.advance(&mut sis, at(3), true);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x31, 0x44]))]);
    assert!(sis.next(|_| true).is_some());
}

/// A.3.2.2.2 (12), (15), (16): a node that doesn't answer in time.
#[test]
fn the_other_nodes_answer_is_waited_for_so_long() {
    let (mut sis, mut clients) = bound();
    sis.settings.hard.answer = Duration::from_secs(60);
    clients.advance(&mut sis, at(1), true);
    want(&mut sis, &mut clients, 1, link(0, 1), FAR);
    assert_eq!(sis.wake(), Some(at(61)));
    clients.advance(&mut sis, Instant::from_nanos(at(61).as_nanos() - 1), true);
    assert_eq!(clients.told(1).len(), 0);
    clients.advance(&mut sis, at(61), true);
    assert_eq!(first_two(&clients.told(1)), [[9, 3]]);
    // An answer that comes later is no link any more.
    says(&mut sis);
    hears(&mut sis, &mut clients, 0, &[0x40]);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x61]))]);
    assert_eq!((clients.told(1).len(), sis.exclusive()), (0, None));
}

/// A.3.2.2.2 (13), A.3.1.6 (5), (6): the reason is the other node's.
#[test]
fn a_refusal_is_told_with_the_other_nodes_reason() {
    for reason in 1..=4 {
        let (mut sis, mut clients) = bound();
        clients.advance(&mut sis, at(1), true);
        want(&mut sis, &mut clients, 1, link(1, 2), FAR);
        hears(&mut sis, &mut clients, 0, &[0x50 | reason]);
        assert_eq!(clients.told(1), [[9, reason, 0x64, 0xe0, 0, 0, 2]]);
    }
}

/// A.3.2.2.2 (17)-(21), (25): what another node is answered, and by which rank.
#[test]
fn a_called_node_takes_the_rank_of_the_client_that_is_asked_for() {
    // A link with the second node of rank 5 and priority 1, and a request of the third: its first
    // octet, and the answer.
    let cases = [
        // Kind 2 for access point 5 has rank 12, and for 4 and 6 rank 5.
        ([0x38, 0x95], &[][..]),
        ([0x39, 0x96], &[0x51]),
        ([0x3a, 0x96], &[]),
        ([0x38, 0x96], &[0x52]),
        // Nobody is bound there, whatever the precedence.
        ([0x3b, 0x97], &[0x54]),
        // Others have the rank that is configured: 0, below 5.
        ([0x33, 0x95], &[0x52]),
        ([0x37, 0x95], &[0x52]),
    ];
    for (request, answer) in cases {
        let (mut sis, mut clients) = established(1, link(0, 1));
        hears(&mut sis, &mut clients, 1, &request);
        let said = says(&mut sis);
        match answer {
            [] => assert_eq!(said, [(0, Vec::from([0x62]))], "{request:x?}"),
            _ => assert_eq!(said, [(1, answer.to_vec())], "{request:x?}"),
        }
    }
    let (mut sis, mut clients) = established(1, link(0, 1));
    sis.settings.hard.rank = 5;
    hears(&mut sis, &mut clients, 1, &[0x31, 0x95]);
    assert_eq!(says(&mut sis), [(1, Vec::from([0x51]))]);
    hears(&mut sis, &mut clients, 1, &[0x32, 0x95]);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x62]))]);
}

/// A.2.1.23 (1)-(7), A.3.2.2.2 (22)-(24): a called client is asked, and has so long to decide.
#[test]
fn a_called_client_is_asked_and_decides() {
    for (answer, s_pdu) in [(Some(true), 0x40), (Some(false), 0x51), (None, 0x53)] {
        let (mut sis, mut clients) = bound();
        sis.settings.hard.client = Duration::from_secs(20);
        clients.advance(&mut sis, at(1), true);
        hears(&mut sis, &mut clients, 0, &[0x39, 0x94]);
        // Priority 1, kind 2, the other client's access point and node.
        assert_eq!(clients.told(1), [[11, 1, 0x99, 0xe0, 0, 0, 2]]);
        let link = HardLink {
            sap: 9,
            ..link(2, 1)
        };
        match answer {
            Some(true) => clients.send(&mut sis, 1, &Primitive::HardLinkAccept(link, FAR.into())),
            Some(false) => {
                clients.send(&mut sis, 1, &Primitive::HardLinkReject(1, link, FAR.into()));
            }
            None => {
                assert_eq!(sis.wake(), Some(at(21)));
                clients.advance(&mut sis, at(21), true);
            }
        }
        assert_eq!(says(&mut sis), [(0, Vec::from([s_pdu]))]);
        assert_eq!(sis.exclusive(), (s_pdu == 0x40).then_some(0));
    }
}

/// A.2.1.19 (1)-(4), A.3.2.2.3 (1)-(5): a client ends its hard link; it hears of it if the other
/// node doesn't confirm it in time, and only then.
#[test]
fn an_end_that_the_other_node_does_not_confirm_is_told() {
    for confirmed in [true, false] {
        let (mut sis, mut clients) = established(1, link(1, 3));
        sis.settings.hard.end = Duration::from_secs(30);
        // It isn't another's to end, nor with another node.
        clients.send(&mut sis, 3, &Primitive::HardLinkTerminate(FAR.into()));
        clients.send(&mut sis, 1, &Primitive::HardLinkTerminate(THIRD.into()));
        assert_eq!(says(&mut sis), []);
        clients.send(&mut sis, 1, &Primitive::HardLinkTerminate(FAR.into()));
        assert_eq!(says(&mut sis), [(0, Vec::from([0x61]))]);
        if confirmed {
            hears(&mut sis, &mut clients, 0, &[0x70]);
            assert_eq!(sis.exclusive(), None);
        }
        let end = at(31);
        clients.advance(&mut sis, Instant::from_nanos(end.as_nanos() - 1), true);
        assert_eq!(clients.told(1).len(), 0);
        clients.advance(&mut sis, end, true);
        let told: &[[u8; 7]] = if confirmed {
            &[]
        } else {
            &[[10, 3, 0x74, 0xe0, 0, 0, 2]]
        };
        assert_eq!(clients.told(1), told);
        assert_eq!((sis.exclusive(), sis.stats().invalid), (None, 0));
    }
}

/// A.3.2.2.3 (7), (8): the link breaks for good, whether the hard link stands or is about to end.
#[test]
fn a_hard_link_ends_with_the_link() {
    for ending in [false, true] {
        let (mut sis, mut clients) = established(1, link(1, 3));
        if ending {
            clients.send(&mut sis, 1, &Primitive::HardLinkTerminate(FAR.into()));
        }
        clients.advance(&mut sis, at(2), false);
        if !ending {
            assert_eq!((sis.calls(), clients.told(1).len()), (Some(0), 0));
            sis.advance(at(3), |_| false, |_| true);
            clients.collect(&mut sis);
        }
        assert_eq!(first_two(&clients.told(1)), [[10, 5]]);
        assert_eq!(sis.exclusive(), None);
    }
}

/// A.3.2.2.3 (7): a link that isn't broken for good is made and asked for again, of which no client
/// hears.
#[test]
fn a_hard_link_outlives_a_link_that_is_made_again() {
    let (mut sis, mut clients) = established(1, link(1, 3));
    clients.advance(&mut sis, at(2), false);
    assert_eq!((sis.calls(), sis.exclusive()), (Some(0), Some(0)));
    clients.advance(&mut sis, at(9), true);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x37, 0x44]))]);
    hears(&mut sis, &mut clients, 0, &[0x40]);
    assert_eq!((clients.told(1).len(), sis.keeps()), (0, true));
    // Who was called waits for its caller, and lets others pass meanwhile.
    for again in [true, false] {
        let (mut sis, mut clients) = whole_link();
        sis.settings.hard.answer = Duration::from_secs(60);
        clients.advance(&mut sis, at(2), false);
        assert_eq!((sis.calls(), sis.exclusive()), (None, None));
        assert!(sis.lets(1, SAP_IP, SAP_IP));
        clients.advance(&mut sis, at(61), again);
        assert_eq!(clients.told(1).len(), 0);
        clients.advance(&mut sis, at(62), again);
        let told: &[[u8; 2]] = if again { &[] } else { &[[10, 5]] };
        assert_eq!(first_two(&clients.told(1)), told);
        assert_eq!(sis.exclusive(), again.then_some(0));
    }
}

/// A whole link that another node's client, at access point 9, has with the first one here.
fn whole_link() -> (Sis, Clients) {
    let (mut sis, mut clients) = bound();
    clients.advance(&mut sis, at(1), true);
    hears(&mut sis, &mut clients, 0, &[0x39, 0x94]);
    let accept = Primitive::HardLinkAccept(link(2, 1), FAR.into());
    clients.send(&mut sis, 1, &accept);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x40]))]);
    clients.told(1);
    (sis, clients)
}

/// A.3.2.2 (1): a caller that has forgotten its hard link, and asks anew, isn't in its own way.
#[test]
fn a_caller_that_asks_again_has_lost_what_it_had() {
    // The same: it is there still.
    let (mut sis, mut clients) = whole_link();
    hears(&mut sis, &mut clients, 0, &[0x39, 0x94]);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x40]))]);
    assert_eq!(clients.told(1).len(), 0);
    // A lower one for the same client, and for the node.
    for (s_pdu, told) in [([0x38, 0xa4], &[10, 11][..]), ([0x30, 0xa4], &[10])] {
        let (mut sis, mut clients) = whole_link();
        hears(&mut sis, &mut clients, 0, &s_pdu);
        assert_eq!(clients.kinds(1), told);
        let said = says(&mut sis);
        let agreed = [(0, Vec::from([0x40]))];
        assert_eq!(said, if told.len() > 1 { &[][..] } else { &agreed });
    }
    // Asked twice, its client is asked once.
    let (mut sis, mut clients) = bound();
    hears(&mut sis, &mut clients, 0, &[0x39, 0x94]);
    hears(&mut sis, &mut clients, 0, &[0x39, 0x94]);
    assert_eq!(
        (says(&mut sis), clients.kinds(1)),
        (Vec::new(), Vec::from([11]))
    );
}

/// A.3.2.2.3 (3): a confirmation of an end that this node hasn't asked for says that the other one
/// has it no more.
#[test]
fn an_end_that_somebody_else_asked_for_ends_both_ends() {
    let (mut sis, mut clients) = established(1, link(1, 3));
    hears(&mut sis, &mut clients, 0, &[0x70]);
    assert_eq!(first_two(&clients.told(1)), [[10, 1]]);
    assert_eq!((sis.exclusive(), says(&mut sis)), (None, Vec::new()));
}

/// A.3.2.2.2 (12), (15): a node that was asked by a link that is lost is asked by the next one, and
/// has no more time for that.
#[test]
fn a_node_whose_link_is_lost_before_it_answers_is_asked_again() {
    let (mut sis, mut clients) = bound();
    sis.settings.hard.answer = Duration::from_secs(60);
    clients.advance(&mut sis, at(1), true);
    want(&mut sis, &mut clients, 1, link(0, 1), FAR);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x31, 0x44]))]);
    clients.advance(&mut sis, at(40), false);
    assert_eq!(sis.calls(), Some(0));
    clients.advance(&mut sis, at(50), true);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x31, 0x44]))]);
    let until = sis.hard.and_then(|hard| hard.until());
    assert_eq!((sis.calls(), until), (None, Some(at(61))));
    // One that is gone isn't waited for.
    clients.advance(&mut sis, at(55), false);
    sis.advance(at(56), |_| false, |_| true);
    clients.collect(&mut sis);
    assert_eq!(first_two(&clients.told(1)), [[9, 3]]);
}

/// A.3.2.2.2 (13), A.3.1.6 (5): a node that refuses the link is busy, not silent, and what
/// waits for it waits on.
#[test]
fn a_node_that_refuses_the_link_is_busy() {
    let (mut sis, mut clients) = bound();
    clients.advance(&mut sis, at(1), false);
    clients.send(&mut sis, 3, &request(7, 3, arq(0), b"x"));
    want(&mut sis, &mut clients, 1, link(0, 1), FAR);
    sis.set_refused(0, true);
    clients.advance(&mut sis, at(2), false);
    assert_eq!(first_two(&clients.told(1)), [[9, 1]]);
    assert!(clients.told(3).is_empty() && sis.next(|_| true).is_some());
}

/// A.2.1.22 (1)-(4), A.3.1.7 (5), A.3.1.8 (1), A.3.2.2.3 (3), (6): the other node ends it.
#[test]
fn the_other_nodes_end_is_confirmed_and_told_with_its_reason() {
    for (reason, told) in [(1, 1), (2, 2), (4, 4)] {
        let (mut sis, mut clients) = established(1, link(1, 3));
        hears(&mut sis, &mut clients, 0, &[0x60 | reason]);
        assert_eq!(says(&mut sis), [(0, Vec::from([0x70]))]);
        assert_eq!(first_two(&clients.told(1)), [[10, told]]);
        assert_eq!(clients.told(3).len(), 0);
    }
    // A called client of a whole link is told as well.
    let (mut sis, mut clients) = bound();
    clients.advance(&mut sis, at(1), true);
    hears(&mut sis, &mut clients, 0, &[0x39, 0x94]);
    clients.send(
        &mut sis,
        1,
        &Primitive::HardLinkAccept(link(2, 1), FAR.into()),
    );
    clients.told(1);
    hears(&mut sis, &mut clients, 0, &[0x61]);
    assert_eq!(first_two(&clients.told(1)), [[10, 1]]);
}

/// A.3.1.7 (4), A.3.2.2.3 (1): a client that is gone needs its hard link no more.
#[test]
fn an_unbound_client_ends_its_hard_link() {
    let (mut sis, mut clients) = established(1, link(1, 3));
    clients.send(&mut sis, 1, &Primitive::UnbindRequest);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x64]))]);
    hears(&mut sis, &mut clients, 0, &[0x70]);
    assert_eq!((clients.told(1).len(), sis.exclusive()), (0, None));
}

/// A.2.2.28.1 (3): with a group, or a node that isn't known, there is no hard link.
#[test]
fn no_hard_link_is_made_with_a_group() {
    let (mut sis, mut clients) = bound();
    sis.settings.peers[1] = Address::new(0x1000_0001);
    for to in [0x1000_0001, 77] {
        want(&mut sis, &mut clients, 1, link(0, 0), Address::new(to));
        assert_eq!(first_two(&clients.told(1)), [[9, 3]]);
    }
    assert_eq!(sis.exclusive(), None);
}

/// A.3.2.2.2 (11), (25), A.3.2.2.3 (6): only expedited, with ARQ, and over a link that its caller
/// keeps for it, a word of hard links counts.
#[test]
fn words_of_hard_links_that_come_otherwise_are_not_heeded() {
    for (arq, expedited) in [(false, true), (true, false), (false, false)] {
        let (mut sis, mut clients) = established(1, link(1, 3));
        for s_pdu in [&[0x3b, 0x94][..], &[0x61], &[0x70]] {
            let word = Arrived {
                arq,
                ..arrived(s_pdu, expedited)
            };
            sis.arrive(sis.now, &word);
        }
        clients.collect(&mut sis);
        assert_eq!((says(&mut sis), clients.told(1).len()), (Vec::new(), 0));
        assert_eq!(sis.exclusive(), Some(0));
    }
    let (mut sis, mut clients) = bound();
    sis.set_soft(0, true);
    hears(&mut sis, &mut clients, 0, &[0x30, 0x10]);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x51]))]);
    assert_eq!(sis.exclusive(), None);
}

/// A.3.2.2.2 (23): while its client decides, nobody else waits for that.
#[test]
fn a_client_that_is_asked_keeps_nobody_waiting() {
    let (mut sis, mut clients) = bound();
    hears(&mut sis, &mut clients, 0, &[0x38, 0x94]);
    assert_eq!(clients.kinds(1), [11]);
    assert!(sis.lets(1, SAP_IP, SAP_IP));
    assert_eq!(sis.exclusive(), None);
}

/// A.3.1.4: of the kinds of hard links one is none.
#[test]
fn a_kind_of_hard_link_that_is_none_is_refused() {
    let (mut sis, mut clients) = bound();
    hears(&mut sis, &mut clients, 0, &[0x3c, 0x94]);
    assert_eq!(says(&mut sis), [(0, Vec::from([0x51]))]);
    assert_eq!((sis.exclusive(), clients.told(1).len()), (None, 0));
}
