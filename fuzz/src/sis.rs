//! What clients of a STANAG 5066 node's subnetwork interface send.

use strait_core::node::WallTime;
use strait_core::{Duration, Instant};
use strait_s5066::Address;
use strait_s5066::sis::{
    Arrived, MODE_ARQ, Op, Primitive, Reader, Request, Service, Settings, Sis,
};

/// Octets of three clients, and what comes from another node: whatever they say, a fourth is
/// served, what is told can be read, and nothing grows without a limit.
pub fn sis(data: &[u8]) {
    let peers = vec![Address::new(2), Address::BROADCAST];
    let settings = Settings {
        clients_max: 3,
        reserved: vec![9],
        ttl_max: Duration::from_secs(600),
        ..Settings::new(Address::new(1), peers)
    };
    let mut sis = Sis::new(settings, 1);
    let mut now = Instant::ZERO;
    sis.set_calendar(now, WallTime(1_800_000_000_000_000_000));
    sis.set_up(now, true);
    for id in 0..4 {
        sis.open(now, id, None);
        sis.give_credit(id, 1 << 20);
    }
    sis.hear(now, 3, &bind(15));
    let mut rest = data;
    while let Some((&[whom, octets], later)) = rest.split_first_chunk::<2>() {
        let (piece, later) = later.split_at(later.len().min(usize::from(octets)));
        rest = later;
        now += Duration::from_millis(u64::from(whom) * 8);
        sis.advance(now, |peer| peer == 0 && whom & 64 == 0, |_| whom & 128 != 0);
        match whom & 7 {
            id @ 0..3 => sis.hear(now, u64::from(id), piece),
            3 => sis.arrive(now, &arrived(piece, whom & 8 != 0)),
            4 => sis.set_up(now, whom & 8 != 0),
            5 => sis.set_ours(0, whom & 8 != 0),
            6 => sis.set_soft(0, whom & 8 != 0),
            _ => send(&mut sis, now, whom & 8 != 0),
        }
        read(&mut sis, now);
    }
    sis.hear(now, 3, &bind(14));
    assert!(sis.has(3), "a client that did nothing wrong was cut");
}

fn bind(sap: u8) -> Vec<u8> {
    let mut octets = Vec::new();
    let service = Service {
        mode: MODE_ARQ,
        ..Service::default()
    };
    let rank = 15;
    Primitive::BindRequest { sap, rank, service }.put(&mut octets);
    octets
}

fn arrived(s_pdu: &[u8], arq: bool) -> Arrived<'_> {
    Arrived {
        from: Some(0),
        source: Address::new(2),
        to: Address::new(1),
        arq,
        expedited: arq,
        s_pdu,
        damaged: if arq { &[] } else { &[(4, 2)] },
        missing: if arq { &[] } else { &[(2, 9)] },
    }
}

/// What waits goes, and is over.
fn send(sis: &mut Sis, now: Instant, delivered: bool) {
    while let Some(next) = sis.next(|_| true) {
        let taken = sis.take_next(next.number);
        assert!(taken.is_some_and(|taken| taken.c_pdu.len() <= 2048 + 8));
        sis.decide(now, next.number, delivered);
    }
}

/// All that is told are primitives. The fourth client answers when it is asked whether it lives.
fn read(sis: &mut Sis, now: Instant) {
    let mut reader = Reader::default();
    while let Some((id, op)) = sis.poll() {
        let Op::Send(octets) = op else { continue };
        sis.give_credit(id, octets.len());
        let mut asked = false;
        let read = reader.feed(&octets, |body| {
            let primitive = Primitive::parse(body);
            assert!(primitive.is_some(), "{body:x?}");
            asked |= primitive == Some(Primitive::KeepAlive);
            true
        });
        assert_eq!(read, Ok(()));
        if asked && id == 3 {
            let mut answer = Vec::new();
            Primitive::KeepAlive.put(&mut answer);
            sis.hear(now, id, &answer);
        }
    }
}

/// A client that binds and sends, and an answer.
pub fn exchange() -> Vec<u8> {
    let mut octets = Vec::new();
    let mut piece = |whom: u8, bytes: &[u8]| {
        octets.extend_from_slice(&[whom, bytes.len() as u8]);
        octets.extend_from_slice(bytes);
    };
    piece(0, &bind(4));
    let request = Request {
        priority: 3,
        sap: 5,
        to: Address::new(2).into(),
        service: Service {
            mode: MODE_ARQ,
            confirmation: 2,
            ..Service::default()
        },
        ttl: 60,
        u_pdu: b"hello",
    };
    for expedited in [false, true] {
        let mut said = Vec::new();
        Primitive::UnidataRequest(expedited, request).put(&mut said);
        piece(0, &said);
    }
    piece(15, &[]);
    piece(11, b"\x10\x45hello");
    piece(13, &[]);
    piece(11, b"\xc3\x54\xc0\x12\x34\x00\x07hello");
    piece(11, b"\xd0\x00\x01\x80\x02");
    piece(11, b"\x03\x54\x80hello");
    piece(11, b"\x38\x54");
    octets
}
