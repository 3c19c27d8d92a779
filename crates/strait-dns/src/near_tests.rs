use super::*;

use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::RData;

use crate::name;

#[path = "by_name_tests.rs"]
mod by_name;
#[path = "near_fresh_tests.rs"]
mod fresh;
#[path = "gains_tests.rs"]
mod gains;

const LINK: LinkState = LinkState {
    turnaround: Duration::from_secs(14),
    bit_s: 1_000_000,
};

fn settings() -> NearSettings {
    NearSettings {
        limits: Limits {
            entries: 200,
            octets: 40_000,
            stale: Duration::from_secs(3600),
        },
        patience: Duration::from_secs(9),
        clients: vec![Prefix::new([10, 1, 0, 0].into(), 16).unwrap()],
        saves: true,
        zones: vec![
            vec![Name::root()],
            vec![name::parse("ship.example").unwrap()],
        ],
        rules: Vec::new(),
        watches: true,
        ahead: None,
        tells_ahead: false,
    }
}

fn near() -> Near {
    let mut near = Near::new(settings(), 1);
    near.set_link(0, Some(LINK));
    near
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn client(n: u16) -> Client {
    let [high, low] = n.to_be_bytes();
    Client {
        socket: 0,
        address: SocketAddr::new([10, 1, high, low].into(), 4000),
        local: SocketAddr::new([10, 1, 255, 1].into(), 53),
        stream: None,
    }
}

fn question(id: u16, text: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name::parse(text).unwrap(), kind));
    message.set_edns(Edns::new());
    message.to_vec().unwrap()
}

fn address(life_s: u32) -> Body {
    Body {
        outcome: Outcome::Records,
        zone: 0,
        life_s,
        records: vec![vec![192, 0, 2, 1]],
    }
}

/// The question that a frame has.
fn read(frame: &[u8]) -> (u16, Types) {
    match Frame::read(frame) {
        Some(Frame::Question { id, types, .. }) => (id, types),
        other => panic!("{other:?}"),
    }
}

fn answer(id: u16, types: Types, bodies: Vec<Body>) -> Vec<u8> {
    Frame::Answer {
        id,
        types,
        watched: false,
        bodies,
    }
    .to_vec()
}

/// The frames that go to a partner by now.
fn frames(near: &mut Near, now: Instant, partner: usize) -> Vec<Vec<u8>> {
    near.tend(now);
    core::iter::from_fn(|| near.poll_frame(now, partner)).collect()
}

fn replies(near: &mut Near, now: Instant) -> Vec<Message> {
    near.tend(now);
    near.check();
    let all = core::iter::from_fn(|| near.poll_reply());
    all.map(|(_, octets)| Message::from_vec(&octets).unwrap())
        .collect()
}

fn codes(replies: &[Message]) -> Vec<ResponseCode> {
    replies.iter().map(|it| it.metadata.response_code).collect()
}

fn cause_in(message: &Message) -> u16 {
    use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
    let option = message
        .edns
        .as_ref()
        .and_then(|it| it.option(EdnsCode::Unknown(15)));
    match option {
        Some(EdnsOption::Unknown(_, data)) => u16::from_be_bytes([data[0], data[1]]),
        _ => panic!("no cause"),
    }
}

#[test]
fn a_hundred_clients_that_repeat_are_one_question_and_one_answer() {
    let mut near = near();
    let types = [RecordType::A, RecordType::AAAA, RecordType::HTTPS];
    let ask = |near: &mut Near, now| {
        for n in 0..100 {
            for (id, kind) in (0..).zip(types) {
                near.hear_client(now, client(n), &question(id, "www.a.example", kind));
            }
        }
    };
    ask(&mut near, at(0));
    assert!(frames(&mut near, at(19), 0).is_empty());
    let sent = frames(&mut near, at(20), 0);
    let (id, all) = read(&sent[0]);
    assert_eq!((sent.len(), all), (1, Types::Together(7)));
    for ms in [1000, 5000] {
        ask(&mut near, at(ms));
        assert!(frames(&mut near, at(ms + 100), 0).is_empty());
    }
    // Those who don't wait for so long hear that there is nothing yet, and ask once more.
    let late = replies(&mut near, at(9000));
    assert_eq!(late.len(), 300);
    assert!(codes(&late).iter().all(|it| *it == ResponseCode::ServFail));
    assert_eq!(cause_in(&late[0]), cause::UNREACHABLE);
    ask(&mut near, at(10_000));
    let bodies = vec![
        address(60),
        Body::empty(Outcome::NoData, 60),
        Body::empty(Outcome::NoData, 60),
    ];
    near.hear_partner(at(14_020), 0, &answer(id, all, bodies));
    let told = replies(&mut near, at(14_020));
    assert_eq!(told.len(), 300);
    assert!(codes(&told).iter().all(|it| *it == ResponseCode::NoError));
    ask(&mut near, at(20_000));
    assert_eq!(replies(&mut near, at(20_000)).len(), 300);
    assert!(frames(&mut near, at(60_000), 0).is_empty());
    let stats = near.stats();
    assert_eq!((stats.asked, stats.asked_again, stats.answered), (1, 0, 1));
    assert_eq!((stats.late, stats.repeats, stats.hits), (300, 600, 300));
    let questions = 1500 * question(0, "www.a.example", RecordType::A).len() as u64;
    assert!(stats.own.client_octets > questions);
    assert!(stats.octets_out + stats.octets_in < 40, "{stats:?}");
}

#[test]
fn patience_ends_at_its_moment() {
    let mut near = near();
    near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
    assert!(replies(&mut near, at(8999)).is_empty());
    assert_eq!(
        codes(&replies(&mut near, at(9000))),
        [ResponseCode::ServFail]
    );
}

#[test]
fn a_question_is_sent_again_when_its_answer_is_late_and_given_up_in_the_end() {
    let mut near = near();
    near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
    let first = read(&frames(&mut near, at(20), 0)[0]);
    assert_eq!(near.wake(), Some(at(9000)));
    replies(&mut near, at(9000));
    assert_eq!(near.wake(), Some(at(14_020)));
    assert!(frames(&mut near, at(14_019), 0).is_empty());
    assert_eq!(read(&frames(&mut near, at(14_020), 0)[0]), first);
    assert!(frames(&mut near, at(42_019), 0).is_empty());
    assert_eq!(read(&frames(&mut near, at(42_020), 0)[0]), first);
    assert!(frames(&mut near, at(98_019), 0).is_empty());
    assert_eq!(near.stats().lost, 0);
    assert!(frames(&mut near, at(98_020), 0).is_empty());
    assert_eq!((near.stats().lost, near.wake()), (1, Some(at(398_020))));
    // For as long as an answer takes the failure is known, and nothing is asked.
    near.hear_client(
        at(100_000),
        client(0),
        &question(2, "a.example", RecordType::A),
    );
    assert_eq!(
        codes(&replies(&mut near, at(100_000))),
        [ResponseCode::ServFail]
    );
    near.hear_client(
        at(113_000),
        client(0),
        &question(3, "a.example", RecordType::A),
    );
    assert_eq!(read(&frames(&mut near, at(113_020), 0)[0]), first);
}

#[test]
fn an_answer_that_comes_after_all_is_kept_and_tells_how_long_answers_take() {
    for (came, heard) in [(398_019, true), (398_020, false)] {
        let mut near = near();
        near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
        let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
        for ms in [14_020, 42_020, 98_020, came] {
            frames(&mut near, at(ms), 0);
        }
        replies(&mut near, at(came));
        near.hear_partner(at(came), 0, &answer(id, types, vec![address(60)]));
        near.hear_client(
            at(came),
            client(0),
            &question(2, "a.example", RecordType::A),
        );
        assert_eq!(replies(&mut near, at(came)).len(), usize::from(heard));
        assert_eq!(
            (near.stats().unasked, near.partners.way(0).took.is_some()),
            (u64::from(!heard), heard)
        );
    }
}

#[test]
fn how_long_an_answer_takes_is_learnt() {
    let mut near = near();
    let mut now = 0;
    for n in 0..20 {
        let text = format!("n{n}.example");
        near.hear_client(at(now), client(0), &question(1, &text, RecordType::A));
        let (id, types) = read(&frames(&mut near, at(now + 20), 0)[0]);
        frames(&mut near, at(now + 20_019), 0);
        near.hear_partner(at(now + 20_020), 0, &answer(id, types, vec![address(60)]));
        now += 30_000;
        frames(&mut near, at(now), 0);
    }
    // The first was sent again, as the link had told too little.
    assert_eq!(near.stats().asked_again, 1);
    near.hear_client(
        at(now),
        client(0),
        &question(1, "last.example", RecordType::A),
    );
    assert_eq!(frames(&mut near, at(now + 20), 0).len(), 1);
    assert!(frames(&mut near, at(now + 20_019), 0).is_empty());
}

#[test]
fn stale_answers_are_told_at_once_where_the_link_is_slow() {
    let mut near = near();
    near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
    let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
    near.hear_partner(at(5000), 0, &answer(id, types, vec![address(60)]));
    replies(&mut near, at(5000));
    near.hear_client(
        at(64_999),
        client(0),
        &question(2, "a.example", RecordType::A),
    );
    let fresh = replies(&mut near, at(64_999));
    assert_eq!(fresh[0].answers[0].ttl, 1);
    near.hear_client(
        at(65_000),
        client(0),
        &question(3, "A.example", RecordType::A),
    );
    let stale = replies(&mut near, at(65_000));
    assert_eq!(
        (stale[0].answers[0].ttl, cause_in(&stale[0])),
        (30, cause::STALE)
    );
    // It is asked for all the same, once.
    near.hear_client(
        at(65_001),
        client(1),
        &question(4, "a.example", RecordType::A),
    );
    assert_eq!(replies(&mut near, at(65_001)).len(), 1);
    assert_eq!(frames(&mut near, at(65_100), 0).len(), 1);
}

#[test]
fn stale_answers_wait_for_a_fresh_one_where_the_link_is_quick() {
    let mut near = near();
    let quick = LinkState {
        turnaround: Duration::from_millis(1000),
        ..LINK
    };
    near.set_link(0, Some(quick));
    near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
    let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
    near.hear_partner(at(120), 0, &answer(id, types, vec![address(1)]));
    replies(&mut near, at(120));
    near.hear_client(
        at(5000),
        client(0),
        &question(2, "a.example", RecordType::A),
    );
    assert!(replies(&mut near, at(6799)).is_empty());
    let stale = replies(&mut near, at(6800));
    assert_eq!(cause_in(&stale[0]), cause::STALE);
}

#[test]
fn a_failure_is_told_as_what_was_known_before_and_not_asked_for_again_at_once() {
    let mut near = near();
    near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
    let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
    near.hear_partner(at(100), 0, &answer(id, types, vec![address(60)]));
    near.hear_client(
        at(70_000),
        client(0),
        &question(1, "a.example", RecordType::A),
    );
    let (id, types) = read(&frames(&mut near, at(70_020), 0)[0]);
    let failed = Body::empty(Outcome::Failure(cause::OTHER), 5);
    near.hear_partner(at(70_100), 0, &answer(id, types, vec![failed]));
    replies(&mut near, at(70_100));
    near.hear_client(
        at(100_099),
        client(0),
        &question(1, "a.example", RecordType::A),
    );
    assert_eq!(
        codes(&replies(&mut near, at(100_099))),
        [ResponseCode::NoError]
    );
    assert!(frames(&mut near, at(100_099), 0).is_empty());
    near.hear_client(
        at(100_100),
        client(0),
        &question(1, "a.example", RecordType::A),
    );
    assert_eq!(frames(&mut near, at(100_200), 0).len(), 1);
}

#[test]
fn a_name_that_there_isnt_has_no_type_at_all() {
    let mut near = near();
    near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
    let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
    near.hear_partner(
        at(100),
        0,
        &answer(id, types, vec![Body::empty(Outcome::NoName, 60)]),
    );
    replies(&mut near, at(100));
    near.hear_client(
        at(200),
        client(0),
        &question(2, "a.example", RecordType::MX),
    );
    assert_eq!(
        codes(&replies(&mut near, at(200))),
        [ResponseCode::NXDomain]
    );
}

#[test]
fn without_a_link_nothing_is_sent_and_nothing_twice_when_it_is_back() {
    let mut near = near();
    near.set_link(0, None);
    for n in 0..3 {
        near.hear_client(
            at(n * 5000),
            client(0),
            &question(1, "a.example", RecordType::A),
        );
        assert!(frames(&mut near, at(n * 5000 + 100), 0).is_empty());
    }
    let late = replies(&mut near, at(20_000));
    assert_eq!(cause_in(&late[0]), cause::NETWORK);
    near.set_link(0, Some(LINK));
    assert_eq!(frames(&mut near, at(21_000), 0).len(), 1);
    assert!(frames(&mut near, at(34_999), 0).is_empty());
    assert_eq!(frames(&mut near, at(35_000), 0).len(), 1);
}

#[test]
fn a_question_that_cant_leave_is_kept_for_a_minute() {
    let mut near = near();
    near.set_link(0, None);
    near.hear_client(at(0), client(0), &question(1, "a.example", RecordType::A));
    replies(&mut near, at(59_999));
    assert_eq!(near.wake(), Some(at(60_000)));
    replies(&mut near, at(60_000));
    assert_eq!((near.wake(), near.stats().lost), (None, 1));
}

#[test]
fn names_go_to_the_partner_with_the_longest_zone() {
    let mut near = near();
    near.set_link(1, Some(LINK));
    near.hear_client(
        at(0),
        client(0),
        &question(1, "mail.Ship.example", RecordType::A),
    );
    near.hear_client(
        at(0),
        client(0),
        &question(2, "airship.example", RecordType::A),
    );
    assert_eq!(frames(&mut near, at(20), 1).len(), 1);
    assert_eq!(frames(&mut near, at(20), 0).len(), 1);
}

#[test]
fn nobody_but_clients_is_heard_and_nobody_but_the_partner_believed() {
    let mut near = near();
    let stranger = Client {
        address: SocketAddr::new([10, 2, 0, 1].into(), 4000),
        ..client(0)
    };
    near.hear_client(at(0), stranger, &question(1, "a.example", RecordType::A));
    assert_eq!(near.wake(), None);
    let own = Client {
        address: SocketAddr::new([127, 0, 0, 1].into(), 4000),
        ..client(0)
    };
    near.hear_client(at(0), own, &question(1, "a.example", RecordType::A));
    let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
    let right = answer(id, types, vec![address(60)]);
    near.hear_partner(at(30), 1, &right);
    near.hear_partner(at(30), 0, &answer(id ^ 1, types, vec![address(60)]));
    let more = Types::Together(3);
    near.hear_partner(
        at(30),
        0,
        &answer(id, more, vec![address(60), Body::empty(Outcome::NoData, 1)]),
    );
    near.hear_partner(at(30), 0, b"nonsense");
    assert!(replies(&mut near, at(30)).is_empty());
    near.hear_partner(at(30), 0, &right);
    assert_eq!(replies(&mut near, at(30)).len(), 1);
    // An answer that comes twice.
    near.hear_partner(at(31), 0, &right);
    let stats = near.stats();
    assert_eq!((stats.refused, stats.unasked, stats.malformed), (1, 4, 1));
}

#[test]
fn names_by_chance_have_a_share_of_the_line_and_leave_room_for_others() {
    let mut near = near();
    // 2400 bit/s; a question of some 11 octets and headers of 28 take 130 ms of that.
    let narrow = LinkState {
        bit_s: 2400,
        ..LINK
    };
    near.set_link(0, Some(narrow));
    let mut sent = Vec::new();
    for ms in (0..60_000).step_by(10) {
        let text = format!("chance{ms}.example");
        near.hear_client(
            at(ms),
            client(0),
            &question(ms as u16, &text, RecordType::A),
        );
        if ms == 30_000 {
            near.hear_client(
                at(ms),
                client(1),
                &question(1, "wanted.example", RecordType::A),
            );
        }
        if ms == 31_000 {
            let crossed = near
                .crossings
                .iter()
                .any(|(_, it)| it.by == client(1).address.ip() && it.tries > 0);
            assert!(
                crossed,
                "another client's question waits behind those by chance"
            );
        }
        sent.extend(frames(&mut near, at(ms), 0));
        near.check();
        while near.poll_reply().is_some() {}
    }
    let octets: usize = sent.iter().map(|it| it.len() + 28).sum();
    assert!(octets * 8 <= 2400 * 60 / 4 + 400, "{octets}");
    assert!(near.stats().full > 5000);
}

#[test]
fn what_is_known_outlives_it_and_grows_old_meanwhile() {
    let mut near = near();
    near.memory_mut().set_calendar(at(0), 1_800_000_000);
    for (ms, text) in [(0, "a.example"), (100, "b.example")] {
        near.hear_client(at(ms), client(0), &question(1, text, RecordType::A));
        let (id, types) = read(&frames(&mut near, at(ms + 20), 0)[0]);
        near.hear_partner(at(ms + 50), 0, &answer(id, types, vec![address(288)]));
    }
    let octets = near.memory_mut().take_unsaved();
    assert_eq!(
        (
            near.memory_mut().unsaved_octets(),
            near.memory_mut().saved(at(101_000)).len()
        ),
        (0, octets.len())
    );
    let again = |octets: &[u8], today_s: Option<u64>| {
        let mut next = Near::new(settings(), 2);
        if let Some(today_s) = today_s {
            next.memory_mut().set_calendar(at(5000), today_s);
        }
        let taken = next.memory_mut().restore(at(5000), octets);
        next.hear_client(
            at(5000),
            client(0),
            &question(2, "a.example", RecordType::A),
        );
        let told = replies(&mut next, at(5000));
        (taken, told.first().map(|it| it.answers[0].ttl))
    };
    assert_eq!(
        again(&octets, Some(1_800_000_101)),
        (octets.len(), Some(187))
    );
    // Cut short, out of date, and nobody knows when: told as stale.
    let half = octets.len() / 2;
    assert_eq!(
        again(&octets[..octets.len() - 1], Some(1_800_000_101)),
        (half, Some(187))
    );
    assert_eq!(
        again(&octets, Some(1_800_000_400)).1,
        Some(crate::replies::STALE_LIFE_S)
    );
    assert_eq!(again(&octets, None).1, Some(crate::replies::STALE_LIFE_S));
    assert_eq!(again(&octets, Some(1_800_004_000)).1, None);
    // The whole is as what was appended, by what is left of it.
    assert_eq!(
        again(&near.memory_mut().saved(at(101_000)), Some(1_800_000_101)).1,
        Some(187)
    );
}

#[test]
fn rules_answer_before_anybody_is_asked_and_own_resolvers_are_behind_the_partners() {
    let rule = |zone: &str, act| Rule {
        zone: name::parse(zone).unwrap(),
        act,
    };
    let settings = NearSettings {
        rules: vec![
            rule("ads.example", rules::Act::Block),
            rule("lan", rules::Act::Own),
        ],
        ..settings()
    };
    let mut near = Near::new(settings, 1);
    near.set_link(2, Some(LINK));
    near.hear_client(
        at(0),
        client(0),
        &question(1, "x.ads.example", RecordType::A),
    );
    let told = replies(&mut near, at(0));
    assert_eq!(
        (&codes(&told)[..], cause_in(&told[0])),
        (&[ResponseCode::NXDomain][..], cause::BLOCKED)
    );
    // The zone that says so, for who keeps it (RFC 2308).
    let soa = &told[0].authorities[0];
    assert_eq!((soa.name.to_string(), soa.ttl), ("ads.example.".into(), 60));
    near.hear_client(at(0), client(0), &question(2, "printer.lan", RecordType::A));
    assert_eq!(frames(&mut near, at(20), 2).len(), 1);
    // Nothing of both crosses a link.
    let stats = near.stats();
    assert_eq!((stats.own.ruled, stats.asked, stats.octets_out), (2, 0, 0));
}

#[test]
fn who_asks_again_from_another_port_hears_as_long_after_it_asked_first() {
    let mut near = near();
    let again = Client {
        address: SocketAddr::new(client(0).address.ip(), 4001),
        ..client(0)
    };
    let asked = question(1, "a.example", RecordType::A);
    near.hear_client(at(0), client(0), &asked);
    near.hear_client(at(5000), again, &asked);
    near.hear_client(at(5000), client(1), &asked);
    assert!(replies(&mut near, at(8999)).is_empty());
    assert_eq!(replies(&mut near, at(9000)).len(), 2);
    assert_eq!(replies(&mut near, at(14_000)).len(), 1);
}

/// A proxy that knows addresses ahead of answers.
fn near_ahead() -> Near {
    let settings = NearSettings {
        ahead: Some(crate::ahead::RANGE),
        tells_ahead: true,
        ..settings()
    };
    let mut near = Near::new(settings, 1);
    near.set_link(0, Some(LINK));
    near
}

/// The addresses of the only reply by now.
fn only(near: &mut Near, now: Instant) -> Vec<Ipv4Addr> {
    let replies = replies(near, now);
    assert_eq!(codes(&replies), [ResponseCode::NoError]);
    let answers = replies[0].answers.iter();
    let addresses = answers.filter_map(|it| match it.data {
        RData::A(address) => Some(address.0),
        _ => None,
    });
    addresses.collect()
}

#[test]
fn an_address_is_there_before_the_name_is_known_and_the_real_one_after() {
    let mut near = near_ahead();
    let ahead = Ipv4Addr::new(198, 19, 0, 1);
    near.hear_client(at(0), client(1), &question(1, "New.example", RecordType::A));
    assert_eq!(only(&mut near, at(0)), [ahead]);
    for kind in [RecordType::AAAA, RecordType::HTTPS] {
        near.hear_client(at(0), client(1), &question(2, "new.example", kind));
        assert!(only(&mut near, at(0)).is_empty());
    }
    assert!(frames(&mut near, at(10), 0).is_empty());
    // Who sends there doesn't wait for others who ask.
    near.hurry(at(10), ahead);
    let sent = frames(&mut near, at(10), 0);
    assert_eq!(sent.len(), 1, "one question crosses");
    let Some(Frame::Question {
        id,
        types,
        ahead: told,
        ..
    }) = Frame::read(&sent[0])
    else {
        panic!("no question");
    };
    assert_eq!((types, told), (Types::Together(7), Some(ahead)));
    // The same until it is known, for anybody, and nothing more crosses.
    near.hear_client(
        at(1000),
        client(2),
        &question(3, "new.example", RecordType::A),
    );
    assert_eq!(only(&mut near, at(1000)), [ahead]);
    assert!(frames(&mut near, at(2000), 0).is_empty());
    assert_eq!(near.partner_ahead(ahead), Some(0));
    assert_eq!(near.partner_ahead(Ipv4Addr::new(198, 19, 0, 2)), None);
    let none = || Body::missing(Outcome::NoData, 60, 1);
    let answer = answer(id, types, vec![address(60), none(), none()]);
    near.hear_partner(at(14_000), 0, &answer);
    near.hear_client(
        at(14_000),
        client(1),
        &question(4, "new.example", RecordType::A),
    );
    assert_eq!(only(&mut near, at(14_000)), [Ipv4Addr::new(192, 0, 2, 1)]);
    assert_eq!(near.stats().own.ahead, 4);
}

#[test]
fn a_question_waits_for_who_is_about_to_connect_and_no_longer_than_for_a_part_of_a_turn() {
    // A turn of 14 s.
    let lingers = 20 + 437;
    for connects in [false, true] {
        let mut near = near_ahead();
        let ask = |near: &mut Near, now| {
            near.hear_client(now, client(1), &question(1, "new.example", RecordType::A));
            only(near, now)
        };
        let said = ask(&mut near, at(0));
        assert!(frames(&mut near, at(100), 0).is_empty());
        if connects {
            near.hurry(at(100), said[0]);
            assert_eq!(frames(&mut near, at(100), 0).len(), 1);
        } else {
            // Asking again puts it off no further.
            ask(&mut near, at(lingers - 1));
            assert!(frames(&mut near, at(lingers - 1), 0).is_empty());
            assert_eq!(frames(&mut near, at(lingers + 1), 0).len(), 1);
        }
    }
}

#[test]
fn who_verifies_or_has_no_link_waits_for_the_answer() {
    let mut near = near_ahead();
    let mut message = Message::from_vec(&question(1, "a.example", RecordType::A)).unwrap();
    message.metadata.checking_disabled = true;
    near.hear_client(at(0), client(1), &message.to_vec().unwrap());
    message.metadata.checking_disabled = false;
    let mut edns = Edns::new();
    edns.set_dnssec_ok(true);
    message.set_edns(edns);
    near.hear_client(at(0), client(2), &message.to_vec().unwrap());
    // Other types aren't what a connection needs.
    near.hear_client(at(0), client(3), &question(1, "a.example", RecordType::MX));
    // Behind the second partner no link leads.
    near.hear_client(
        at(0),
        client(4),
        &question(1, "a.ship.example", RecordType::A),
    );
    assert!(replies(&mut near, at(100)).is_empty());
    let told = (1..9).flat_map(|n| frames(&mut near, at(n * 100), 0));
    let told: Vec<_> = told.map(|it| Frame::read(&it).unwrap()).collect();
    let ahead = |it: &Frame| matches!(it, Frame::Question { ahead: Some(_), .. });
    assert!(told.len() == 3 && !told.iter().any(ahead), "{told:?}");
}

#[test]
fn a_partner_that_asks_is_told_whose_an_address_is_also_after_a_restart() {
    let mut first = near_ahead();
    let x = Ipv4Addr::new(198, 19, 0, 1);
    first.hear_client(at(0), client(1), &question(1, "a.example", RecordType::A));
    let saved = first.memory_mut().take_unsaved();
    let mut near = near_ahead();
    near.memory_mut().restore(at(0), &saved);
    let strange = Frame::Strange(vec![x, Ipv4Addr::new(198, 19, 0, 2)]).to_vec();
    near.hear_partner(at(0), 0, &strange);
    // It isn't that one's, and of another nothing is known.
    near.hear_partner(at(0), 1, &strange);
    assert_eq!(near.stats().unasked, 3);
    let sent = frames(&mut near, at(20), 0);
    let Some(Frame::Question { ahead, name, .. }) = Frame::read(&sent[0]) else {
        panic!("no question");
    };
    assert_eq!((sent.len(), ahead), (1, Some(x)));
    assert_eq!(name, name::parse("a.example").unwrap());
    // While that is on its way, it isn't asked once more.
    near.hear_partner(at(2000), 0, &strange);
    assert!(frames(&mut near, at(3000), 0).is_empty());
}

#[test]
fn an_answer_in_parts_is_whole_when_all_are_there() {
    let mut near = near();
    near.hear_client(at(0), client(1), &question(1, "a.example", RecordType::TXT));
    let (id, types) = read(&frames(&mut near, at(20), 0)[0]);
    let body = Body {
        outcome: Outcome::Records,
        zone: 0,
        life_s: 60,
        records: (0..30).map(|n| [&[100][..], &[n; 100]].concat()).collect(),
    };
    let whole = Frame::Answer {
        id,
        types,
        watched: false,
        bodies: vec![body],
    };
    let parts = whole.to_datagrams();
    assert_eq!(parts.len(), 3);
    // One is lost, and others come twice and out of order; nobody else's count.
    for part in [&parts[2], &parts[0], &parts[2]] {
        near.hear_partner(at(100), 0, part);
        near.hear_partner(at(100), 1, part);
    }
    let foreign = Frame::Part {
        id: id ^ 1,
        at: 1,
        of: 3,
        octets: parts[1][5..].to_vec(),
    };
    near.hear_partner(at(100), 0, &foreign.to_vec());
    assert!(replies(&mut near, at(100)).is_empty());
    near.hear_partner(at(200), 0, &parts[1]);
    let told = replies(&mut near, at(200));
    // By a datagram the client hears that it is to ask by a stream.
    assert!(told.len() == 1 && told[0].metadata.truncation);
    let stream = Client {
        stream: Some(1),
        ..client(1)
    };
    near.hear_client(at(300), stream, &question(2, "a.example", RecordType::TXT));
    assert_eq!(replies(&mut near, at(300))[0].answers.len(), 30);
}
