//! An access point at another node, by the octets of its socket.

use super::*;
use crate::sis::primitive::{Indication, MODE_NON_ARQ, Told};

const FAR: Address = Address::new(2);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

const ARQ: Service = Service {
    mode: MODE_ARQ,
    confirmation: 1,
    any_order: true,
    extended: false,
    repeats: 0,
};

const NON_ARQ: Service = Service {
    mode: MODE_NON_ARQ,
    confirmation: 0,
    any_order: true,
    extended: false,
    repeats: 1,
};

fn access() -> Access<u32> {
    Access::new(AccessSettings {
        sap: 9,
        rank: 0,
        service: ARQ,
        ttl: Duration::from_secs(61),
        octets_max: 100,
    })
}

fn sent(access: &mut Access<u32>) -> Vec<u8> {
    let mut octets = Vec::new();
    while let Some(op) = access.poll() {
        if let AccessOp::Send(more) = op {
            octets.extend(more);
        }
    }
    octets
}

fn bound(now: Instant) -> Access<u32> {
    let mut access = access();
    access.advance(now);
    assert_eq!(access.poll(), Some(AccessOp::Connect));
    access.opened(now);
    access.give_credit(1 << 20);
    // SAP 9, rank 0; ARQ, confirmed by the node, as they arrive.
    let bind = [0x90, 0xeb, 0, 0, 4, 1, 0x90, 0x16, 0x00];
    assert_eq!(sent(&mut access), bind);
    assert_eq!((access.mtu(), access.takes(true)), (None, false));
    access.hear(now, &[0x90, 0xeb, 0, 0, 4, 3, 0x90, 0x08, 0x00]);
    assert_eq!(access.mtu(), Some(2048));
    access
}

fn say(access: &mut Access<u32>, now: Instant, primitive: &Primitive<'_>) {
    let mut octets = Vec::new();
    primitive.put(&mut octets);
    access.hear(now, &octets);
}

fn submission(service: Service, u_pdu: &[u8]) -> AccessData<'_> {
    AccessData {
        priority: 4,
        to: FAR,
        service,
        u_pdu,
    }
}

#[test]
fn data_goes_by_the_octets_of_the_standard_and_is_confirmed() {
    let mut access = bound(at(0));
    sent(&mut access);
    let ticket = access.submit(at(1), &submission(ARQ, &[0x45, 1, 2]), 7);
    assert_eq!((ticket, access.under_way()), (None, 1));
    let request = [
        &[0x90, 0xeb, 0, 0, 15, 20][..],
        // Priority 4, SAP 9; seven half octets, node 2.
        &[0x49, 0xe0, 0, 0, 2],
        // ARQ, by the node, any order, nothing more; 61 s are 31 times 2 s.
        &[0x16, 0x00, 0x00, 31],
        &[0, 3, 0x45, 1, 2],
    ];
    assert_eq!(sent(&mut access), request.concat());
    let told = |u_pdu| Told {
        sap: 9,
        to: FAR.into(),
        u_pdu,
    };
    // Another's, then its own with only how it begins.
    say(
        &mut access,
        at(2),
        &Primitive::UnidataConfirm(false, told(&[0x45, 9])),
    );
    assert_eq!(access.poll_word(), None);
    say(
        &mut access,
        at(3),
        &Primitive::UnidataConfirm(false, told(&[0x45, 1])),
    );
    assert_eq!(access.poll_word(), Some(Word::Decided(7, Ok(()))));
    access.submit(at(4), &submission(ARQ, &[0x45, 5]), 8);
    let rejected = Primitive::UnidataRejected(false, 3, told(&[0x45, 5]));
    say(&mut access, at(5), &rejected);
    let decided = Word::Decided(8, Err(Some(NOT_RESPONDING)));
    assert_eq!(access.poll_word(), Some(decided));
    let stats = access.stats();
    assert_eq!((stats.requests, stats.confirmed, stats.rejected), (2, 1, 1));
}

#[test]
fn what_arrives_is_given_with_its_sender() {
    let mut access = bound(at(0));
    let came = Indication {
        priority: 4,
        sap: 9,
        to: Address::new(1),
        mode: 1,
        from_sap: 9,
        from: FAR,
        damaged: &[],
        missing: &[],
        u_pdu: &[0x45, 3],
    };
    say(
        &mut access,
        at(1),
        &Primitive::UnidataIndication(false, came),
    );
    let word = Word::Came(FAR, alloc::vec![0x45, 3]);
    assert_eq!(access.poll_word(), Some(word));
}

#[test]
fn it_stops_when_it_is_told_to_and_holds_no_more_than_it_may() {
    let mut access = bound(at(0));
    assert!(access.takes(true) && access.takes(false));
    say(&mut access, at(1), &Primitive::DataFlowOff);
    assert!(!access.takes(true) && !access.takes(false));
    say(&mut access, at(2), &Primitive::DataFlowOn);
    assert!(access.takes(true));
    let (status, reason) = (2, 0);
    say(
        &mut access,
        at(2),
        &Primitive::SubnetAvailability { status, reason },
    );
    assert!(!access.takes(true));
    let (status, reason) = (3, 0);
    say(
        &mut access,
        at(2),
        &Primitive::SubnetAvailability { status, reason },
    );
    // 100 octets may be without a word, however long the last of them is.
    access.submit(at(3), &submission(ARQ, &[0x45; 99]), 1);
    assert!(access.takes(true));
    access.submit(at(3), &submission(ARQ, &[0x46; 99]), 2);
    assert!(!access.takes(true) && access.takes(false));
    let ticket = access.submit(at(4), &submission(NON_ARQ, &[0x47]), 3);
    assert_eq!(ticket, Some(3));
    // What isn't confirmed goes one each 10 ms.
    access.advance(Instant::from_nanos(at(14).as_nanos() - 1));
    assert!(!access.takes(false));
    assert_eq!(access.wake(), Some(at(14)));
    access.advance(at(14));
    assert!(access.takes(false));
}

#[test]
fn no_word_within_its_time_is_taken_for_a_loss() {
    let mut access = bound(at(0));
    access.submit(at(0), &submission(ARQ, &[0x45]), 1);
    let until = at(91_000);
    access.advance(Instant::from_nanos(until.as_nanos() - 1));
    assert_eq!(access.poll_word(), None);
    access.advance(until);
    assert_eq!(access.poll_word(), Some(Word::Decided(1, Err(None))));
}

#[test]
fn a_lost_binding_is_sought_again_after_pauses_that_grow() {
    let mut access = bound(at(0));
    access.submit(at(1), &submission(ARQ, &[0x45]), 1);
    access.closed(at(1000));
    assert_eq!(access.poll_word(), Some(Word::Decided(1, Err(None))));
    let mut now = at(1000);
    for pause_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        let next = now + Duration::from_secs(pause_s);
        sent(&mut access);
        access.advance(Instant::from_nanos(next.as_nanos() - 1));
        assert_eq!(access.poll(), None);
        access.advance(next);
        assert_eq!(access.poll(), Some(AccessOp::Connect));
        access.closed(next);
        now = next;
    }
    assert_eq!((access.attempt(), access.stats().lost), (9, 1));
}

#[test]
fn a_refused_binding_is_known_until_one_is_accepted() {
    let mut access = access();
    for refused in [true, false] {
        let now = access.wake().expect("a time");
        access.advance(now);
        access.opened(now);
        access.give_credit(100);
        let answer = match refused {
            true => Primitive::BindRejected(3),
            false => Primitive::BindAccepted { sap: 9, mtu: 1000 },
        };
        say(&mut access, now, &answer);
        assert_eq!(access.is_refused(), refused);
        assert_eq!(access.mtu().is_some(), !refused);
    }
    say(&mut access, at(5000), &Primitive::UnbindIndication(1));
    assert_eq!((access.mtu(), access.stats().lost), (None, 1));
}

#[test]
fn a_silent_node_is_asked_and_then_left() {
    let mut access = bound(at(0));
    sent(&mut access);
    access.advance(Instant::from_nanos(at(120_000).as_nanos() - 1));
    assert_eq!(sent(&mut access), []);
    access.advance(at(120_000));
    assert_eq!(sent(&mut access), [0x90, 0xeb, 0, 0, 1, 17]);
    access.advance(at(130_000));
    assert_eq!(access.mtu(), None);
    // Its own question is answered.
    let mut access = bound(at(0));
    sent(&mut access);
    say(&mut access, at(1), &Primitive::KeepAlive);
    assert_eq!(sent(&mut access), [0x90, 0xeb, 0, 0, 1, 17]);
}

#[test]
fn octets_that_are_no_primitive_end_the_connection() {
    let mut access = bound(at(0));
    sent(&mut access);
    access.hear(at(1), b"HTTP/1.1 400 Bad Request");
    let ops = core::iter::from_fn(|| access.poll());
    assert!(ops.into_iter().any(|op| op == AccessOp::Cut));
    assert_eq!((access.mtu(), access.stats().invalid), (None, 1));
    // What it said before is of no use any more.
    access.hear(at(2), &[0x90, 0xeb, 0, 0, 1, 15]);
}
