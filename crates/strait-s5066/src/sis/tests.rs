//! The subnetwork interface by its octets.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::s_pdu::{SAP_ETHER, SAP_IP};

pub(super) const FAR: Address = Address::new(2);
const GROUP: Address = Address::new(0x1000_0001);

/// The life of an interface of a seed.
pub(super) fn life(clients_max: usize, seed: u64) -> Sis {
    let settings = Settings {
        clients_max,
        reserved: alloc::vec![SAP_IP, SAP_ETHER],
        ttl_max: Duration::from_secs(600),
        ..Settings::new(Address::new(1), alloc::vec![FAR, GROUP])
    };
    let mut sis = Sis::new(settings, seed);
    sis.set_up(Instant::ZERO, true);
    sis
}

/// One whose numbers begin with 0.
pub(super) fn interface(clients_max: usize) -> Sis {
    let mut sis = life(clients_max, 1);
    sis.numbers = Numbers::new(0);
    sis
}

/// What an interface says to its clients, as they read it.
#[derive(Default)]
pub(super) struct Clients {
    now: Instant,
    said: BTreeMap<u64, Vec<Vec<u8>>>,
    ended: BTreeMap<u64, Op>,
    readers: BTreeMap<u64, Reader>,
}

impl Clients {
    pub(super) fn join(&mut self, sis: &mut Sis, id: u64) {
        sis.open(self.now, id, None);
        sis.give_credit(id, 1 << 20);
        self.collect(sis);
    }

    pub(super) fn send(&mut self, sis: &mut Sis, id: u64, primitive: &Primitive<'_>) {
        let mut octets = Vec::new();
        primitive.put(&mut octets);
        sis.hear(self.now, id, &octets);
        self.collect(sis);
    }

    pub(super) fn bind(&mut self, sis: &mut Sis, id: u64, sap: u8, rank: u8, service: Service) {
        self.join(sis, id);
        self.send(sis, id, &Primitive::BindRequest { sap, rank, service });
    }

    pub(super) fn collect(&mut self, sis: &mut Sis) {
        sis.check();
        while let Some((id, op)) = sis.poll() {
            match op {
                Op::Send(octets) => {
                    let said = self.said.entry(id).or_default();
                    let reader = self.readers.entry(id).or_default();
                    let mut tell = |body: &[u8]| {
                        assert!(Primitive::parse(body).is_some(), "{body:x?}");
                        said.push(body.into());
                        true
                    };
                    reader.feed(&octets, &mut tell).expect("primitives");
                }
                Op::Credit(_) => {}
                end => {
                    self.ended.insert(id, end);
                }
            }
        }
    }

    /// What a client was told since this was asked last.
    pub(super) fn told(&mut self, id: u64) -> Vec<Vec<u8>> {
        self.said.remove(&id).unwrap_or_default()
    }

    pub(super) fn kinds(&mut self, id: u64) -> Vec<u8> {
        self.told(id).iter().map(|body| body[0]).collect()
    }

    pub(super) fn advance(&mut self, sis: &mut Sis, now: Instant, linked: bool) {
        self.now = now;
        sis.advance(now, |peer| linked && peer == 0, |_| false);
        self.collect(sis);
    }
}

pub(super) fn arq(confirmation: u8) -> Service {
    Service {
        mode: MODE_ARQ,
        confirmation,
        any_order: true,
        ..Service::default()
    }
}

pub(super) fn request<'a>(
    sap: u8,
    priority: u8,
    service: Service,
    u_pdu: &'a [u8],
) -> Primitive<'a> {
    let request = Request {
        priority,
        sap,
        to: FAR.into(),
        service,
        ttl: 0,
        u_pdu,
    };
    Primitive::UnidataRequest(false, request)
}

pub(super) fn arrived(s_pdu: &[u8], expedited: bool) -> Arrived<'_> {
    Arrived {
        from: Some(0),
        source: FAR,
        to: Address::new(1),
        arq: true,
        expedited,
        s_pdu,
        damaged: &[],
        missing: &[],
    }
}

#[test]
fn primitives_are_these_octets() {
    let service = Service {
        mode: MODE_NON_ARQ,
        any_order: true,
        ..Service::default()
    };
    let unidata = Request {
        priority: 3,
        sap: 4,
        to: FAR.into(),
        service: arq(2),
        ttl: 5,
        u_pdu: b"hi",
    };
    let indication = Indication {
        priority: 3,
        sap: 4,
        to: Address::new(1),
        mode: MODE_ARQ,
        from_sap: 5,
        from: FAR,
        damaged: &[],
        missing: &[],
        u_pdu: b"hi",
    };
    let told = Told {
        sap: 4,
        to: FAR.into(),
        u_pdu: b"hi",
    };
    let link = HardLink {
        kind: 2,
        priority: 1,
        sap: 4,
    };
    for (primitive, octets) in [
        // The standard's own example.
        (
            Primitive::BindRequest {
                sap: 9,
                rank: 0,
                service,
            },
            &b"\x90\xeb\0\0\x04\x01\x90\x22\0"[..],
        ),
        (Primitive::UnbindRequest, b"\x90\xeb\0\0\x01\x02"),
        (
            Primitive::BindAccepted { sap: 4, mtu: 2048 },
            b"\x90\xeb\0\0\x04\x03\x40\x08\0",
        ),
        (
            Primitive::HardLinkEstablish(link, FAR.into()),
            b"\x90\xeb\0\0\x06\x06\x94\xe0\0\0\x02",
        ),
        (
            Primitive::HardLinkEstablished(1, link, FAR.into()),
            b"\x90\xeb\0\0\x07\x08\x01\x94\xe0\0\0\x02",
        ),
        (
            Primitive::UnidataRequest(false, unidata),
            b"\x90\xeb\0\0\x0e\x14\x34\xe0\0\0\x02\x1a\0\0\x05\0\x02hi",
        ),
        (
            Primitive::UnidataIndication(true, indication),
            b"\x90\xeb\0\0\x0f\x19\x04\xe0\0\0\x01\x15\xe0\0\0\x02\0\x02hi",
        ),
        (
            Primitive::UnidataRejected(false, 3, told),
            b"\x90\xeb\0\0\x0a\x17\x34\xe0\0\0\x02\0\x02hi",
        ),
    ] {
        let mut out = Vec::new();
        primitive.put(&mut out);
        assert_eq!(out, octets, "{primitive:?}");
        let read = Primitive::parse(&out[FRONT..]).expect("it is one");
        let mut again = Vec::new();
        read.put(&mut again);
        // Expedited data has no priority.
        assert_eq!(again, octets, "{primitive:?}");
    }
    // Four octets more that some clients send.
    let with_lists = b"\x14\x34\xe0\0\0\x02\x1a\0\0\x05\0\x02\0\0\0\0hi";
    let read = Primitive::parse(with_lists);
    assert_eq!(read, Some(Primitive::UnidataRequest(false, unidata)));
    for wrong in [
        &b""[..],
        b"\x01\x90\x22",
        b"\x02\0",
        b"\x1c",
        b"\0",
        b"\x14\x34",
    ] {
        assert_eq!(Primitive::parse(wrong), None, "{wrong:x?}");
    }
}

#[test]
fn who_may_bind() {
    let (mut sis, mut clients) = (interface(2), Clients::default());
    let reason = |told: Vec<Vec<u8>>| (told[0][0], told[0][1]);
    clients.bind(&mut sis, 1, 3, 5, arq(0));
    assert_eq!(clients.told(1), [b"\x03\x30\x08\0"]);
    // The access point is in use, this node's own, or there is no mode.
    clients.bind(&mut sis, 2, 3, 5, arq(0));
    assert_eq!(reason(clients.told(2)), (4, 3));
    clients.bind(&mut sis, 3, SAP_IP, 5, arq(0));
    assert_eq!(reason(clients.told(3)), (4, 3));
    clients.bind(&mut sis, 4, 6, 5, Service::default());
    assert_eq!(reason(clients.told(4)), (4, 1));
    clients.bind(&mut sis, 5, 6, 2, arq(0));
    assert_eq!(clients.kinds(5), [3]);
    // No room: the one with the lowest rank makes way for a higher, not for its like.
    clients.bind(&mut sis, 6, 7, 2, arq(0));
    assert_eq!(reason(clients.told(6)), (4, 1));
    clients.bind(&mut sis, 7, 7, 3, arq(0));
    assert_eq!(clients.kinds(7), [3]);
    assert_eq!(clients.told(5), [b"\x05\x01"]);
    assert_eq!(sis.stats().bound, 2);
    // It may bind again once there is room.
    clients.send(&mut sis, 7, &Primitive::UnbindRequest);
    let sap = 6;
    let (rank, service) = (0, arq(0));
    clients.send(&mut sis, 5, &Primitive::BindRequest { sap, rank, service });
    assert_eq!(clients.kinds(5), [3]);
}

#[test]
fn data_goes_by_priority_and_its_end_is_told() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    for (priority, confirmation) in [(2, 0), (9, 1), (4, 2), (9, 1)] {
        let u_pdu = [priority, confirmation];
        clients.send(
            &mut sis,
            1,
            &request(4, priority, arq(confirmation), &u_pdu),
        );
    }
    let mut order = Vec::new();
    while let Some(next) = sis.next(|_| true) {
        let taken = sis.take_next(next.number).expect("it waits");
        assert_eq!((next.to, next.arq, next.expedited), (0, true, false));
        assert_eq!(taken.c_pdu[..3], [0, next.priority, 0x34]);
        order.push((next.priority, next.number));
    }
    assert_eq!(order, [(9, 1), (9, 3), (4, 2), (2, 0)]);
    clients.told(1);
    sis.decide(Instant::ZERO, 0, true);
    sis.decide(Instant::ZERO, 1, true);
    sis.decide(Instant::ZERO, 3, false);
    sis.decide(Instant::ZERO, 2, true);
    clients.collect(&mut sis);
    // Nothing was wanted of the first; the third waits for the other client.
    let told = clients.told(1);
    let confirmed = b"\x16\x04\xe0\0\0\x02\0\x02\x09\x01";
    let rejected = b"\x17\x34\xe0\0\0\x02\0\x02\x09\x01";
    assert_eq!(told, [confirmed, rejected]);
    sis.arrive(Instant::ZERO, &arrived(&[0x10, 0x34, 4, 2], false));
    clients.collect(&mut sis);
    assert_eq!(clients.kinds(1), [22]);
    let stats = sis.stats();
    assert_eq!((stats.requests, stats.confirmed, stats.rejected), (4, 2, 1));
}

#[test]
fn what_can_not_be_sent_is_rejected_with_a_reason() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(1));
    let mut reason = |sis: &mut Sis, primitive: &Primitive<'_>| {
        clients.told(1);
        clients.send(sis, 1, primitive);
        clients.told(1).first().map(|body| (body[0], body[1] >> 4))
    };
    let long = [0; 2049];
    let bound = Service::default();
    assert_eq!(
        reason(&mut sis, &request(4, 0, bound, &long)),
        Some((23, 4))
    );
    assert_eq!(reason(&mut sis, &request(4, 0, bound, &long[1..])), None);
    let odd = Service {
        mode: 7,
        ..Service::default()
    };
    assert_eq!(reason(&mut sis, &request(4, 0, odd, b"")), Some((23, 5)));
    let to = |to, service| Request {
        priority: 0,
        sap: 4,
        to: Address::into(to),
        service,
        ttl: 0,
        u_pdu: b"x",
    };
    let unknown = Primitive::UnidataRequest(true, to(Address::new(77), bound));
    assert_eq!(reason(&mut sis, &unknown), Some((27, 3)));
    let group = Primitive::UnidataRequest(false, to(GROUP, bound));
    assert_eq!(reason(&mut sis, &group), Some((23, 5)));
    let plain = Service {
        mode: MODE_NON_ARQ,
        repeats: 2,
        ..Service::default()
    };
    let group = Primitive::UnidataRequest(false, to(GROUP, plain));
    assert_eq!(reason(&mut sis, &group), None);
    let next = sis.next(|next| next.to == 1).expect("it waits");
    assert_eq!(sis.take_next(next.number).map(|it| it.copies), Some(3));
}

#[test]
fn data_too_old_or_for_the_silent_is_given_up() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(1));
    let short = Request {
        priority: 1,
        sap: 4,
        to: FAR.into(),
        service: Service::default(),
        ttl: 3,
        u_pdu: b"x",
    };
    clients.send(&mut sis, 1, &Primitive::UnidataRequest(false, short));
    clients.send(&mut sis, 1, &request(4, 2, arq(2), b"y"));
    clients.told(1);
    let end = Instant::from_secs(6);
    assert_eq!(sis.wake(), Some(end));
    let before = Instant::from_nanos(end.as_nanos() - 1);
    clients.advance(&mut sis, before, false);
    assert_eq!(clients.kinds(1), []);
    clients.advance(&mut sis, end, false);
    assert_eq!(clients.told(1)[0][..2], [23, 0x14]);
    sis.advance(end, |_| false, |peer| peer == 0);
    clients.collect(&mut sis);
    assert_eq!(clients.told(1)[0][..2], [23, 0x34]);
    // The node has it, and its client says nothing.
    clients.send(&mut sis, 1, &request(4, 2, arq(2), b"z"));
    let next = sis.next(|_| true).expect("it waits");
    sis.take_next(next.number);
    sis.decide(end, next.number, true);
    assert_eq!(sis.wake(), Some(end + KEEP_ALIVE));
    for part in 1..=6 {
        clients.advance(&mut sis, end + Duration::from_secs(100 * part), false);
        clients.send(&mut sis, 1, &Primitive::KeepAlive);
    }
    assert!(clients.kinds(1).contains(&23));
}

#[test]
fn data_that_arrives_is_for_who_is_bound() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 4, 0, arq(0));
    clients.told(1);
    sis.arrive(Instant::ZERO, &arrived(b"\x03\x54\x80hi", false));
    clients.collect(&mut sis);
    let expected = b"\x15\x34\xe0\0\0\x01\x15\xe0\0\0\x02\0\x02hi";
    assert_eq!(clients.told(1), [expected]);
    // Its client wanted to hear of it; of the next, that there is nobody.
    sis.arrive(Instant::ZERO, &arrived(b"\x03\x57\x80hi", false));
    let mut said = Vec::new();
    while let Some(next) = sis.next(|_| true) {
        said.extend(sis.take_next(next.number).map(|it| it.c_pdu));
    }
    assert_eq!(said, [b"\0\x10\x54hi", b"\0\x21\x57hi"]);
    assert_eq!(sis.stats().unbound, 1);
    // Damaged data is for who wants it, and for him with the places.
    let mut damaged = arrived(b"\x03\x54\0hello", false);
    (damaged.arq, damaged.damaged, damaged.missing) = (false, &[(2, 3)], &[(6, 2)]);
    sis.arrive(Instant::ZERO, &damaged);
    clients.collect(&mut sis);
    assert_eq!(clients.kinds(1), []);
    clients.send(&mut sis, 1, &Primitive::UnbindRequest);
    let service = Service {
        mode: MODE_WITH_ERRORS,
        ..Service::default()
    };
    let (sap, rank) = (4, 0);
    clients.send(&mut sis, 1, &Primitive::BindRequest { sap, rank, service });
    clients.told(1);
    sis.arrive(Instant::ZERO, &damaged);
    clients.collect(&mut sis);
    let lists = b"\0\x01\0\0\0\x02\0\x01\0\x03\0\x02hello";
    assert_eq!(&clients.told(1)[0][11..], [&b"\0\x05"[..], lists].concat());
}

#[test]
fn who_asks_too_much_is_told_to_stop_and_then_not_heard() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    clients.bind(&mut sis, 2, 4, 0, arq(0));
    clients.told(1);
    for _ in 0..200 {
        clients.send(&mut sis, 1, &request(4, 0, arq(0), b"flood"));
    }
    assert_eq!(clients.kinds(1), [16]);
    assert_eq!(sis.stats().flooded, 200 - 64);
    clients.send(&mut sis, 2, &request(4, 1, arq(0), b"calm"));
    let mut left = 65;
    while let Some(next) = sis.next(|_| true) {
        sis.take_next(next.number);
        sis.decide(Instant::ZERO, next.number, true);
        clients.collect(&mut sis);
        left -= 1;
        assert_eq!(clients.kinds(1), if left == 8 { &[15][..] } else { &[] });
    }
    assert_eq!(left, 0);
    // Of expedited data nine at a time are too many.
    let Primitive::UnidataRequest(_, plain) = request(4, 0, arq(0), b"now") else {
        unreachable!("a request is one");
    };
    for _ in 0..9 {
        clients.send(&mut sis, 1, &Primitive::UnidataRequest(true, plain));
    }
    assert_eq!(clients.told(1), [b"\x05\x04"]);
    assert_eq!(sis.next(|_| true), None);
    clients.send(&mut sis, 2, &Primitive::KeepAlive);
    assert_eq!(clients.kinds(2), [3, 17]);
}

#[test]
fn a_silent_client_is_asked_and_cut() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    clients.bind(&mut sis, 2, 4, 0, arq(0));
    clients.told(1);
    clients.told(2);
    let asked = Instant::from_secs(120);
    clients.advance(&mut sis, asked, false);
    assert_eq!(
        (clients.kinds(1), clients.kinds(2)),
        (alloc::vec![17], alloc::vec![17])
    );
    // An answer isn't answered.
    clients.send(&mut sis, 2, &Primitive::KeepAlive);
    assert_eq!(clients.kinds(2), []);
    let end = asked + ANSWER_WITHIN;
    clients.advance(&mut sis, Instant::from_nanos(end.as_nanos() - 1), false);
    assert_eq!(clients.kinds(1), []);
    clients.advance(&mut sis, end, false);
    assert_eq!(clients.told(1), [b"\x05\x02"]);
    assert_eq!(clients.ended.get(&1), Some(&Op::Finish));
    assert!(sis.has(2) && !sis.has(1));
}

#[test]
fn who_ends_is_let_go_and_who_has_to_go_and_stays_is_cut() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    for id in [1, 2, 3] {
        clients.join(&mut sis, id);
    }
    sis.finish(Instant::ZERO, 1);
    for id in [2, 3] {
        sis.hear(Instant::ZERO, id, b"GET / HTTP/1.1\r\n");
    }
    clients.collect(&mut sis);
    assert_eq!(clients.ended, [1, 2, 3].map(|id| (id, Op::Finish)).into());
    // One of them goes, and that is answered no more.
    sis.finish(Instant::ZERO, 2);
    clients.ended.clear();
    let end = Instant::ZERO + LEAVE_WITHIN;
    assert_eq!(sis.wake(), Some(end));
    clients.advance(&mut sis, Instant::from_nanos(end.as_nanos() - 1), false);
    assert_eq!(clients.ended, [].into());
    clients.advance(&mut sis, end, false);
    assert_eq!(clients.ended, [(3, Op::Cut)].into());
    assert_eq!(sis.wake(), None);
}

#[test]
fn who_makes_no_sense_or_does_not_read_is_cut_and_nobody_else() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    clients.bind(&mut sis, 2, 4, 0, arq(0));
    clients.told(1);
    for _ in 0..8 {
        clients.send(&mut sis, 1, &Primitive::BindRejected(1));
    }
    assert_eq!(clients.kinds(1), []);
    sis.hear(Instant::ZERO, 1, b"\x90\xeb\0\0\x02\x63\0");
    clients.collect(&mut sis);
    assert_eq!(clients.told(1), [b"\x05\x03"]);
    assert!(!sis.has(1));
    clients.join(&mut sis, 3);
    sis.hear(Instant::ZERO, 3, b"GET / HTTP/1.1\r\n");
    clients.collect(&mut sis);
    assert_eq!(clients.ended.get(&3), Some(&Op::Finish));
    // One that sends and never reads.
    sis.open(Instant::ZERO, 4, None);
    let mut octets = Vec::new();
    for _ in 0..4000 {
        Primitive::KeepAlive.put(&mut octets);
    }
    for _ in 0..12 {
        sis.hear(Instant::ZERO, 4, &octets);
    }
    clients.collect(&mut sis);
    assert_eq!(clients.ended.get(&4), Some(&Op::Cut));
    assert!(sis.has(2));
    assert_eq!(sis.stats().cut, 3);
    // More connections than there are places.
    for id in 10..40 {
        clients.join(&mut sis, id);
    }
    assert!(clients.ended.range(10..).map(|it| *it.0).eq(10..32));
}

fn from(last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([192, 0, 2, last]))
}

/// Connections without an access point end, and keep nobody out.
#[test]
fn idle_connections_keep_nobody_out() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    for id in 1..=4 {
        clients.bind(&mut sis, id, id as u8, 0, arq(0));
    }
    for id in 10..34 {
        sis.open(Instant::ZERO, id, from(1));
    }
    // One of another address stays while the crowd of the first makes room.
    sis.open(Instant::ZERO, 40, from(2));
    for id in 41..60 {
        sis.open(Instant::ZERO, id, from(1));
    }
    clients.collect(&mut sis);
    assert!((1..=4).all(|id| sis.has(id)) && sis.has(40));
    assert!((53..60).all(|id| sis.has(id)));
    assert!((10..34).chain(41..53).all(|id| !sis.has(id)));
    clients.send(&mut sis, 4, &Primitive::UnbindRequest);
    sis.give_credit(40, 1000);
    let (sap, rank, service) = (9 - 3, 0, arq(0));
    clients.send(&mut sis, 40, &Primitive::BindRequest { sap, rank, service });
    assert_eq!(clients.kinds(40), [3]);
}

/// As long as a connection may be without an access point.
#[test]
fn a_connection_that_does_not_bind_ends() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    clients.join(&mut sis, 2);
    clients.told(1);
    let end = Instant::from_secs(30);
    assert_eq!(sis.wake(), Some(end));
    clients.advance(&mut sis, Instant::from_nanos(end.as_nanos() - 1), false);
    assert!(sis.has(2));
    clients.advance(&mut sis, end, false);
    assert!(!sis.has(2) && sis.has(1));
    assert_eq!(clients.told(2), [b"\x05\x02"]);
    assert_eq!(clients.ended.get(&2), Some(&Op::Finish));
    // Who gives its access point up has as long again.
    clients.send(&mut sis, 1, &Primitive::UnbindRequest);
    clients.advance(&mut sis, Instant::from_secs(59), false);
    assert!(sis.has(1));
    clients.advance(&mut sis, Instant::from_secs(60), false);
    assert!(!sis.has(1));
}

/// An address has so many connections, bound or not.
#[test]
fn an_address_has_so_many_connections() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    sis.settings.address_max = 3;
    for id in 1..=2 {
        sis.open(Instant::ZERO, id, from(1));
        let (sap, rank, service) = (id as u8, 0, arq(0));
        clients.send(&mut sis, id, &Primitive::BindRequest { sap, rank, service });
    }
    for id in 3..=5 {
        sis.open(Instant::ZERO, id, from(1));
    }
    sis.open(Instant::ZERO, 6, from(2));
    assert_eq!(
        [1, 2, 3, 4, 5, 6].map(|id| sis.has(id)),
        [true, true, false, false, true, true]
    );
    let (sap, rank, service) = (5, 0, arq(0));
    clients.send(&mut sis, 5, &Primitive::BindRequest { sap, rank, service });
    // All of them are in use.
    sis.open(Instant::ZERO, 7, from(1));
    clients.collect(&mut sis);
    assert!(!sis.has(7) && sis.has(5));
    assert_eq!(clients.ended.get(&7), Some(&Op::Cut));
}

/// A.2.1.7 (3), A.2.1.8 (6), A.2.1.21 (5), A.2.2.28.1: a node is named as its client named it.
#[test]
fn a_node_is_told_as_its_client_wrote_it() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    sis.settings.peers[0] = Address::new(0x0189_0000);
    clients.bind(&mut sis, 1, 3, 0, arq(1));
    clients.told(1);
    let short = b"\x61\x89\0\0";
    let request = [&b"\x90\xeb\0\0\x0d\x14\x04"[..], short, b"\0\0\0\0\0\x01x"].concat();
    for delivered in [true, false] {
        sis.hear(Instant::ZERO, 1, &request);
        let next = sis.next(|_| true).expect("it waits");
        sis.take_next(next.number);
        sis.decide(Instant::ZERO, next.number, delivered);
    }
    sis.hear(
        Instant::ZERO,
        1,
        &[b"\x90\xeb\0\0\x06\x06\x54", &short[..]].concat(),
    );
    sis.advance(Instant::ZERO, |_| false, |_| true);
    clients.collect(&mut sis);
    let told = clients.told(1);
    assert_eq!(told[0], [b"\x16\x04", &short[..], b"\0\x01x"].concat());
    assert_eq!(told[1], [b"\x17\x34", &short[..], b"\0\x01x"].concat());
    assert_eq!(told[2], [b"\x09\x03\x54", &short[..]].concat());
}

/// A.2.1.5: too many invalid primitives are many in a short time; that there is no hard link to
/// end is none (A.2.1.19).
#[test]
fn invalid_primitives_are_forgotten_in_time() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    let invalid = Primitive::BindRejected(1);
    for minute in 0..100 {
        clients.advance(&mut sis, Instant::from_secs(60 * minute), false);
        clients.send(&mut sis, 1, &invalid);
        clients.send(&mut sis, 1, &Primitive::HardLinkTerminate(FAR.into()));
    }
    assert!(sis.has(1));
    assert_eq!(sis.stats().invalid, 100);
    for _ in 0..8 {
        clients.send(&mut sis, 1, &invalid);
    }
    assert!(!sis.has(1));
}

/// A.2.1.6 (10), A.2.1.7 (9), (10), A.2.1.8 (9), (10), A.2.1.10 (3), (4), A.2.1.11 (6), (7),
/// A.2.1.12 (8), (9): what is to be configurable.
#[test]
fn times_to_live_fragments_and_expedited_data_are_as_configured() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    sis.settings.ttl_max = Duration::from_secs(20);
    sis.settings.told_octets = 3;
    sis.settings.expedited_max = 2;
    clients.bind(&mut sis, 1, 3, 0, arq(1));
    clients.told(1);
    clients.send(&mut sis, 1, &request(4, 0, arq(1), b"abcdef"));
    assert_eq!(sis.wake(), Some(Instant::from_secs(20)));
    clients.advance(&mut sis, Instant::from_secs(20), false);
    assert_eq!(clients.told(1), [b"\x17\x14\xe0\0\0\x02\0\x03abc"]);
    let Primitive::UnidataRequest(_, plain) = request(4, 0, arq(0), b"now") else {
        unreachable!("a request is one");
    };
    for told in [&[][..], &[], &[5]] {
        clients.send(&mut sis, 1, &Primitive::UnidataRequest(true, plain));
        assert_eq!(clients.kinds(1), told);
    }
}

#[test]
fn all_bound_clients_hear_that_the_medium_goes_and_comes() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 3, 0, arq(0));
    clients.join(&mut sis, 2);
    clients.told(1);
    sis.set_up(Instant::ZERO, false);
    sis.set_up(Instant::ZERO, true);
    clients.collect(&mut sis);
    assert_eq!(clients.told(1), [[14, 0, 0], [14, 3, 0]]);
    assert_eq!(clients.kinds(2), []);
}

#[test]
fn management_hears_of_links() {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 0, 15, arq(0));
    clients.told(1);
    clients.advance(&mut sis, Instant::from_secs(1), true);
    let (kind, body) = (1, &[][..]);
    clients.send(&mut sis, 1, &Primitive::ManagementRequest { kind, body });
    assert_eq!(clients.told(1), [b"\x13\x01\0\0\0\x02\x01\x10\0\0\x01\0"]);
    clients.bind(&mut sis, 2, 1, 14, arq(0));
    clients.told(2);
    clients.send(&mut sis, 2, &Primitive::ManagementRequest { kind, body });
    assert_eq!(clients.kinds(2), []);
    assert_eq!(sis.stats().invalid, 1);
}

/// Two interfaces whose own words reach each other at once.
struct Two {
    sis: [Sis; 2],
    clients: [Clients; 2],
    linked: bool,
}

impl Two {
    fn new() -> Self {
        let far = Settings {
            clients_max: 4,
            ttl_max: Duration::from_secs(600),
            ..Settings::new(FAR, alloc::vec![Address::new(1)])
        };
        let mut two = Self {
            sis: [interface(4), Sis::new(far, 2)],
            clients: [Clients::default(), Clients::default()],
            linked: false,
        };
        two.sis[1].set_up(Instant::ZERO, true);
        for sis in 0..2 {
            let (clients, sis) = (&mut two.clients[sis], &mut two.sis[sis]);
            clients.bind(sis, 1, 4, 5, arq(0));
            clients.told(1);
        }
        two
    }

    fn send(&mut self, from: usize, primitive: &Primitive<'_>) {
        self.clients[from].send(&mut self.sis[from], 1, primitive);
        self.go_on();
    }

    fn go_on(&mut self) {
        for _ in 0..6 {
            for from in 0..2 {
                self.linked |= self.sis[from].calls().is_some();
                let linked = self.linked;
                self.sis[from].advance(Instant::ZERO, |_| linked, |_| false);
                while let Some(next) = self.sis[from].next(|_| self.linked) {
                    let taken = self.sis[from].take_next(next.number).expect("it waits");
                    self.sis[from].decide(Instant::ZERO, next.number, true);
                    let s_pdu = &taken.c_pdu[1..];
                    self.sis[1 - from].arrive(Instant::ZERO, &arrived(s_pdu, next.expedited));
                }
            }
        }
        for (sis, clients) in self.sis.iter_mut().zip(&mut self.clients) {
            clients.collect(sis);
        }
    }

    fn kinds(&mut self) -> [Vec<u8>; 2] {
        let [near, far] = &mut self.clients;
        [near.kinds(1), far.kinds(1)]
    }
}

#[test]
fn a_hard_link_is_asked_for_kept_and_ended() {
    let link = |kind, priority| HardLink {
        kind,
        priority,
        sap: 4,
    };
    let near = NodeAddress::from(Address::new(1));
    let far = NodeAddress::from(FAR);
    let mut two = Two::new();
    // A reservation needs no other client.
    two.send(0, &Primitive::HardLinkEstablish(link(0, 1), far));
    assert_eq!(two.kinds(), [alloc::vec![8], Vec::new()]);
    assert_eq!(
        (two.sis[0].exclusive(), two.sis[1].exclusive()),
        (Some(0), Some(0))
    );
    // The same again, and a lower one, are no better.
    two.send(0, &Primitive::HardLinkEstablish(link(0, 1), far));
    assert_eq!(two.clients[0].told(1)[0][..2], [9, 5]);
    // A whole link for two clients takes its place, if the other client wants it.
    two.send(0, &Primitive::HardLinkEstablish(link(2, 1), far));
    assert_eq!(two.kinds(), [alloc::vec![10], alloc::vec![11]]);
    two.send(1, &Primitive::HardLinkAccept(link(2, 1), near));
    assert_eq!(two.kinds(), [alloc::vec![8], Vec::new()]);
    for sis in &two.sis {
        assert!(
            sis.lets(0, 4, 4) && !sis.lets(0, 3, 4) && !sis.lets(0, 4, 3) && !sis.lets(1, 4, 4)
        );
    }
    two.send(0, &Primitive::HardLinkTerminate(far));
    assert_eq!(two.kinds(), [Vec::new(), alloc::vec![10]]);
    assert_eq!(
        (two.sis[0].exclusive(), two.sis[1].exclusive()),
        (None, None)
    );
    // It doesn't want this one.
    two.send(0, &Primitive::HardLinkEstablish(link(2, 0), far));
    two.send(1, &Primitive::HardLinkReject(1, link(2, 0), near));
    assert_eq!(two.clients[0].told(1)[0][..2], [9, 1]);
    // There is no such client.
    let nobody = HardLink {
        sap: 7,
        ..link(2, 0)
    };
    two.send(0, &Primitive::HardLinkEstablish(nobody, far));
    assert_eq!(two.clients[0].told(1)[0][..2], [9, 4]);
    // The link breaks and is made again, the client goes.
    two.send(0, &Primitive::HardLinkEstablish(link(1, 0), far));
    assert_eq!(two.clients[0].kinds(1), [8]);
    two.linked = false;
    two.go_on();
    assert!(two.linked && two.clients[0].told(1).is_empty());
    two.send(0, &Primitive::UnbindRequest);
    assert_eq!(
        (two.sis[0].exclusive(), two.sis[1].exclusive()),
        (None, None)
    );
}

proptest! {
    #[test]
    fn no_octets_of_a_client_harm_another(
        noise in proptest::collection::vec(any::<u8>(), 0..600),
        cuts in proptest::collection::vec(1usize..60, 1..20),
        framed in any::<bool>(),
    ) {
        let (mut sis, mut clients) = (interface(4), Clients::default());
        clients.bind(&mut sis, 1, 3, 0, arq(0));
        clients.told(1);
        clients.join(&mut sis, 2);
        let mut octets = Vec::new();
        if framed {
            for body in noise.chunks(20) {
                octets.extend_from_slice(&PREAMBLE);
                octets.extend_from_slice(&(body.len() as u16).to_be_bytes());
                octets.extend_from_slice(body);
            }
        } else {
            octets = noise;
        }
        let mut rest = &octets[..];
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(*cut));
            sis.hear(Instant::ZERO, 2, now);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        sis.advance(Instant::from_secs(1), |peer| peer == 0, |_| false);
        clients.collect(&mut sis);
        clients.send(&mut sis, 1, &Primitive::KeepAlive);
        prop_assert_eq!(clients.kinds(1), [17]);
    }
}
