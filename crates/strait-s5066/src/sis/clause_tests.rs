//! Clauses of Annex A that nothing else shows: the octets of its figures, and what is bound.

use super::tests::{Clients, FAR, arq, arrived, interface, request};
use super::*;

const LINK: HardLink = HardLink {
    kind: 1,
    priority: 2,
    sap: 5,
};

/// A.2.2.3 to A.2.2.27, figures, one by one by hand: type and body of each primitive.
#[test]
fn every_primitive_is_as_in_its_figure() {
    let node = NodeAddress::from(FAR);
    let service = Service {
        mode: MODE_NON_ARQ,
        confirmation: 0,
        any_order: true,
        extended: false,
        repeats: 5,
    };
    let ask = Request {
        priority: 9,
        sap: 4,
        to: node,
        service,
        ttl: 0x1_2345,
        u_pdu: b"u",
    };
    let told = Told {
        sap: 4,
        to: node,
        u_pdu: b"u",
    };
    let came = Indication {
        priority: 9,
        sap: 4,
        to: Address::new(1),
        mode: MODE_WITH_ERRORS,
        from_sap: 6,
        from: FAR,
        damaged: &[(1, 2), (8, 4)],
        missing: &[(3, 5)],
        u_pdu: b"u",
    };
    let (sap, rank) = (4, 15);
    let (kind, body) = (7, &b"m"[..]);
    let (status, reason) = (2, 1);
    let cases = [
        (
            Primitive::BindRequest { sap, rank, service },
            &b"\x01\x4f\x22\x50"[..],
        ),
        (Primitive::UnbindRequest, b"\x02"),
        (
            Primitive::BindAccepted { sap, mtu: 2048 },
            b"\x03\x40\x08\0",
        ),
        (Primitive::BindRejected(3), b"\x04\x03"),
        (Primitive::UnbindIndication(4), b"\x05\x04"),
        (
            Primitive::HardLinkEstablish(LINK, node),
            b"\x06\x65\xe0\0\0\x02",
        ),
        (Primitive::HardLinkTerminate(node), b"\x07\xe0\0\0\x02"),
        (
            Primitive::HardLinkEstablished(1, LINK, node),
            b"\x08\x01\x65\xe0\0\0\x02",
        ),
        (
            Primitive::HardLinkRejected(5, LINK, node),
            b"\x09\x05\x65\xe0\0\0\x02",
        ),
        (
            Primitive::HardLinkTerminated(4, LINK, node),
            b"\x0a\x04\x65\xe0\0\0\x02",
        ),
        (
            Primitive::HardLinkIndication(1, LINK, node),
            b"\x0b\x01\x65\xe0\0\0\x02",
        ),
        (
            Primitive::HardLinkAccept(LINK, node),
            b"\x0c\x65\xe0\0\0\x02",
        ),
        (
            Primitive::HardLinkReject(2, LINK, node),
            b"\x0d\x02\x65\xe0\0\0\x02",
        ),
        (
            Primitive::SubnetAvailability { status, reason },
            b"\x0e\x02\x01",
        ),
        (Primitive::DataFlowOn, b"\x0f"),
        (Primitive::DataFlowOff, b"\x10"),
        (Primitive::KeepAlive, b"\x11"),
        (Primitive::ManagementRequest { kind, body }, b"\x12\x07m"),
        (Primitive::ManagementIndication { kind, body }, b"\x13\x07m"),
        (
            Primitive::UnidataRequest(false, ask),
            b"\x14\x94\xe0\0\0\x02\x22\x51\x23\x45\0\x01u",
        ),
        (
            Primitive::UnidataIndication(false, came),
            b"\x15\x94\xe0\0\0\x01\x36\xe0\0\0\x02\0\x01\0\x02\
              \0\x01\0\x02\0\x08\0\x04\0\x01\0\x03\0\x05u",
        ),
        (
            Primitive::UnidataConfirm(false, told),
            b"\x16\x04\xe0\0\0\x02\0\x01u",
        ),
        (
            Primitive::UnidataRejected(false, 3, told),
            b"\x17\x34\xe0\0\0\x02\0\x01u",
        ),
        (
            Primitive::UnidataRequest(true, ask),
            b"\x18\x04\xe0\0\0\x02\x22\x51\x23\x45\0\x01u",
        ),
        (
            Primitive::UnidataIndication(
                true,
                Indication {
                    damaged: &[],
                    missing: &[],
                    mode: 1,
                    ..came
                },
            ),
            b"\x19\x04\xe0\0\0\x01\x16\xe0\0\0\x02\0\x01u",
        ),
        (
            Primitive::UnidataConfirm(true, told),
            b"\x1a\x04\xe0\0\0\x02\0\x01u",
        ),
        (
            Primitive::UnidataRejected(true, 1, told),
            b"\x1b\x14\xe0\0\0\x02\0\x01u",
        ),
    ];
    for (number, (primitive, body)) in (1..).zip(cases) {
        let mut out = Vec::new();
        primitive.put(&mut out);
        let size = (body.len() as u16).to_be_bytes();
        // Preamble, version and size ahead of it (A.2.2.2).
        assert_eq!(
            out,
            [&[0x90, 0xeb, 0, size[0], size[1]], body].concat(),
            "{number}"
        );
        assert_eq!((primitive.kind(), body[0]), (number, number));
        let mut again = Vec::new();
        Primitive::parse(body).expect("it is one").put(&mut again);
        // The lists of errors are for clients to read.
        assert!(again == out || number == 21, "{number}");
    }
}

/// A.2.1.1 (7), (8), A.2.2.3 (3), (4), A.2.2.28.2 (2)-(5): data goes as its client is bound, unless
/// it says otherwise; with the default, its other attributes aren't looked at.
#[test]
fn data_goes_as_bound_unless_it_says_otherwise() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(2));
    let default = Service {
        mode: MODE_AS_BOUND,
        confirmation: 1,
        any_order: false,
        extended: true,
        repeats: 7,
    };
    let plain = Service {
        mode: MODE_NON_ARQ,
        repeats: 2,
        ..Service::default()
    };
    for (service, with_arq, third, copies) in [(default, true, 0x80, 1), (plain, false, 0, 3)] {
        clients.send(&mut sis, 1, &request(4, 0, service, b"x"));
        let next = sis.next(|_| true).expect("it waits");
        let taken = sis.take_next(next.number).expect("it is there");
        assert_eq!(
            (next.arq, taken.c_pdu[3], taken.copies),
            (with_arq, third, copies)
        );
        assert_eq!(taken.in_order, !with_arq);
    }
}

/// A.2.1.2 (1)-(3), A.2.1.1 (3): an access point that was given up is another's.
#[test]
fn an_access_point_that_was_given_up_can_be_bound_again() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    clients.bind(&mut sis, 2, 3, 15, arq(0));
    assert_eq!(clients.told(2), [b"\x04\x03"]);
    clients.send(&mut sis, 1, &Primitive::UnbindRequest);
    let (sap, rank, service) = (3, 15, arq(0));
    clients.send(&mut sis, 2, &Primitive::BindRequest { sap, rank, service });
    assert_eq!(clients.told(2), [b"\x03\x30\x08\0"]);
    // Nobody is served who isn't bound.
    clients.send(&mut sis, 1, &request(4, 0, arq(0), b"x"));
    assert_eq!(sis.next(|_| true), None);
}

/// A.2.1.3 (6): what comes by radio is delivered whatever its size.
#[test]
fn what_comes_is_delivered_whatever_its_size() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 4, 0, arq(0));
    clients.told(1);
    let s_pdu = [&b"\x00\x54\0"[..], &[7; 4000]].concat();
    sis.arrive(Instant::ZERO, &arrived(&s_pdu, false));
    clients.collect(&mut sis);
    assert_eq!(clients.told(1)[0].len(), 4000 + 13);
}

/// A.3.1.2, A.3.1.3, figures: confirmations by the octets, and whom they reach, of
/// normal and of expedited data.
#[test]
fn confirmations_between_nodes_are_as_in_their_figures() {
    for expedited in [false, true] {
        let (mut sis, mut clients) = (interface(4), Clients::default());
        clients.bind(&mut sis, 1, 3, 0, arq(2));
        clients.told(1);
        let Primitive::UnidataRequest(_, ask) = request(4, 0, arq(2), b"hello") else {
            unreachable!("a request is one");
        };
        for (s_pdu, told) in [(&b"\x10\x34hel"[..], 0), (b"\x21\x34hello", 2)] {
            clients.send(&mut sis, 1, &Primitive::UnidataRequest(expedited, ask));
            let next = sis.next(|_| true).expect("it waits");
            assert_eq!(next.expedited, expedited);
            let taken = sis.take_next(next.number).map(|it| it.c_pdu);
            assert_eq!(taken.as_deref(), Some(&b"\0\0\x34\x80hello"[..]));
            sis.decide(Instant::ZERO, next.number, true);
            clients.collect(&mut sis);
            assert_eq!(clients.told(1).len(), 0);
            sis.arrive(Instant::ZERO, &arrived(s_pdu, expedited));
            clients.collect(&mut sis);
            let kind = 22 + 4 * u8::from(expedited) + u8::from(told > 0);
            let expected = [&[kind, told << 4 | 4][..], b"\xe0\0\0\x02\0\x05hello"].concat();
            assert_eq!(clients.told(1), [expected]);
        }
    }
}

/// A.1.1.3 (3), (4), A.2.1.3 (8), (9), A.3.2.3 (3): a node without links takes longer U_PDUs, and
/// nobody who asks for ARQ, or for a link.
#[test]
fn a_node_without_links_serves_nobody_with_arq() {
    let settings = Settings {
        broadcast_only: true,
        mtu: BROADCAST_MTU_MAX,
        ..Settings::new(Address::new(1), Vec::from([FAR]))
    };
    let (mut sis, mut clients) = (Sis::new(settings, 1), Clients::default());
    sis.set_up(Instant::ZERO, true);
    clients.bind(&mut sis, 1, 3, 5, arq(0));
    assert_eq!(clients.told(1), [b"\x04\x04"]);
    let plain = Service {
        mode: MODE_NON_ARQ,
        any_order: true,
        ..Service::default()
    };
    clients.bind(&mut sis, 2, 3, 5, plain);
    assert_eq!(clients.told(2), [b"\x03\x30\x10\0"]);
    let octets = [0; 4097];
    for (service, octets, reason) in [
        (plain, &octets[..4096], None),
        (plain, &octets[..], Some(4)),
        (arq(0), &octets[..9], Some(5)),
    ] {
        clients.send(&mut sis, 2, &request(4, 0, service, octets));
        let told = clients.told(2);
        let told = told.first().map(|it| (it[0], it[1] >> 4));
        assert_eq!(told, reason.map(|reason| (23, reason)));
    }
    assert_eq!(sis.waiting(0).count, 1);
    let link = HardLink {
        kind: 0,
        priority: 0,
        sap: 0,
    };
    clients.send(&mut sis, 2, &Primitive::HardLinkEstablish(link, FAR.into()));
    assert_eq!(clients.told(2)[0][..2], [9, 1]);
}

/// A.3.1.2 (1), (2), A.3.2.4 (16)-(18): a word about data that wants the other client's answer
/// comes as that data went, with ARQ. Anybody can say one without, in the other's name.
#[test]
fn words_about_data_are_believed_with_arq_only() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(2));
    clients.send(&mut sis, 1, &request(4, 0, arq(2), b"hello"));
    clients.told(1);
    let next = sis.next(|_| true).expect("it waits");
    sis.set_ours(0, true);
    sis.take_next(next.number);
    sis.decide(Instant::ZERO, next.number, true);
    let words = [&b"\x10\x34hello"[..], b"\x21\x34hello", b"\xd0\0\0"];
    for (s_pdu, expedited) in words.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let word = Arrived {
            arq: false,
            ..arrived(s_pdu, expedited)
        };
        sis.arrive(Instant::ZERO, &word);
        clients.collect(&mut sis);
        assert_eq!(clients.kinds(1), [], "{s_pdu:x?}");
    }
    sis.arrive(Instant::ZERO, &arrived(words[2], false));
    clients.collect(&mut sis);
    assert_eq!(clients.kinds(1), [22]);
}
