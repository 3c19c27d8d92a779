use super::*;

use alloc::collections::BTreeSet;

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};

use crate::name;

const FIRST: &str = "10.2.0.2:53";
const SECOND: &str = "10.2.0.3:53";

fn far(resolvers: &[&str]) -> Far {
    let settings = FarSettings {
        resolvers: resolvers.iter().map(|it| it.parse().unwrap()).collect(),
        partners: 2,
    };
    Far::new(settings, 1)
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn question(id: u16, text: &str, types: Types) -> Vec<u8> {
    let name = name::parse(text).unwrap();
    let care = Care::default();
    Frame::Question {
        id,
        types,
        care,
        name,
    }
    .to_vec()
}

fn address_of(id: u16, text: &str) -> Vec<u8> {
    question(id, text, Types::of(RecordType::A))
}

/// What is asked of resolvers: socket, its port, whom, and the message.
fn asked(far: &mut Far) -> Vec<(u32, u16, SocketAddr, Message)> {
    far.check();
    let mut ports = BTreeMap::new();
    let mut asked = Vec::new();
    while let Some((n, wish)) = far.poll_wish() {
        match wish {
            Wish::Open(local) => drop(ports.insert(n, local.port())),
            Wish::Send(to, octets) => {
                asked.push((n, ports[&n], to, Message::from_vec(&octets).unwrap()));
            }
            Wish::Close => {}
        }
    }
    asked
}

/// A resolver's answer to a message.
fn answer(message: &Message) -> Vec<u8> {
    let mut answer = message.clone();
    answer.metadata.message_type = MessageType::Response;
    let query = &message.queries[0];
    if query.query_type == RecordType::A {
        let address = RData::A(A::new(192, 0, 2, 1));
        answer.add_answer(Record::from_rdata(query.name.clone(), 60, address));
    }
    answer.to_vec().unwrap()
}

fn bodies(far: &mut Far) -> Vec<(usize, Vec<Body>)> {
    let frames = core::iter::from_fn(|| far.poll_frame());
    let read = frames.map(|(partner, frame)| match Frame::read(&frame) {
        Some(Frame::Answer { bodies, .. }) => (partner, bodies),
        other => panic!("{other:?}"),
    });
    read.collect()
}

fn outcomes(far: &mut Far) -> Vec<Outcome> {
    let all = bodies(far).into_iter().flat_map(|(_, bodies)| bodies);
    all.map(|it| it.outcome).collect()
}

#[test]
fn types_are_asked_for_one_by_one_and_answered_together() {
    let mut far = far(&[FIRST]);
    far.hear_partner(at(0), 1, &question(7, "a.example", Types::Together(7)));
    let asked = asked(&mut far);
    assert_eq!(asked.len(), 3);
    let ports: BTreeSet<u16> = asked.iter().map(|it| it.1).collect();
    assert_eq!(ports.len(), 3);
    for (n, _, to, message) in asked.iter().rev() {
        assert!(bodies(&mut far).is_empty());
        far.hear_resolver(at(10), *n, *to, &answer(message));
    }
    let [(1, bodies)] = &bodies(&mut far)[..] else {
        panic!("no answer");
    };
    let outcomes: Vec<_> = bodies.iter().map(|it| it.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Records, Outcome::NoData, Outcome::NoData]
    );
    assert_eq!((far.stats().served, far.stats().resolved), (1, 3));
}

#[test]
fn a_question_that_comes_again_is_answered_again_and_asked_once() {
    let mut far = far(&[FIRST]);
    far.hear_partner(at(0), 0, &address_of(7, "a.example"));
    far.hear_partner(at(5), 0, &address_of(7, "a.example"));
    let first = asked(&mut far);
    assert_eq!(first.len(), 1);
    far.hear_resolver(at(10), first[0].0, first[0].2, &answer(&first[0].3));
    assert_eq!(bodies(&mut far).len(), 1);
    far.hear_partner(at(300_009), 0, &address_of(7, "a.example"));
    assert_eq!(bodies(&mut far).len(), 1);
    assert!(asked(&mut far).is_empty());
    assert_eq!(far.wake(), Some(at(300_010)));
    far.tend(at(300_010));
    far.hear_partner(at(300_010), 0, &address_of(7, "a.example"));
    assert_eq!(asked(&mut far).len(), 1);
    // A partner that began anew has the same number for something else.
    far.hear_partner(at(300_020), 0, &address_of(7, "b.example"));
    assert_eq!(
        asked(&mut far)[0].3.queries[0].name,
        name::parse("b.example").unwrap()
    );
    assert_eq!(far.open.len(), 1);
}

#[test]
fn a_forger_needs_port_number_letters_and_address() {
    let mut far = far(&[FIRST]);
    far.hear_partner(at(0), 0, &address_of(7, "letters.by.chance.example"));
    let asked = asked(&mut far);
    let (n, _, to, message) = &asked[0];
    let right = answer(message);
    let stranger = SECOND.parse().unwrap();
    far.hear_resolver(at(1), *n, stranger, &right);
    far.hear_resolver(at(1), n + 1, *to, &right);
    let mut number = message.clone();
    number.metadata.id ^= 1;
    far.hear_resolver(at(1), *n, *to, &answer(&number));
    let mut letters = message.clone();
    letters.queries[0].name = name::parse("letters.by.chance.example").unwrap();
    assert!(!letters.queries[0].name.eq_case(&message.queries[0].name));
    far.hear_resolver(at(1), *n, *to, &answer(&letters));
    far.hear_resolver(at(1), *n, *to, b"nonsense");
    assert!(bodies(&mut far).is_empty());
    assert_eq!(far.stats().forged, 5);
    far.hear_resolver(at(2), *n, *to, &right);
    assert_eq!(outcomes(&mut far), [Outcome::Records]);
}

#[test]
fn ports_numbers_and_letters_are_drawn() {
    let mut far = far(&[FIRST]);
    let mut drawn = [BTreeSet::new(), BTreeSet::new()];
    let mut letters = BTreeSet::new();
    for n in 0..60u16 {
        far.hear_partner(
            at(u64::from(n) * 1000),
            0,
            &address_of(n, "letters.example"),
        );
        for (_, port, _, message) in asked(&mut far) {
            drawn[0].insert(port);
            drawn[1].insert(message.metadata.id);
            letters.insert(message.queries[0].name.to_ascii());
        }
    }
    assert!(drawn.iter().all(|it| it.len() >= 58) && letters.len() >= 58);
    assert!(drawn[0].iter().all(|port| *port >= 10_240));
}

#[test]
fn silent_resolvers_are_asked_in_turn_and_given_up_in_the_end() {
    let mut far = far(&[FIRST, SECOND]);
    far.hear_partner(at(0), 0, &address_of(7, "a.example"));
    let mut to = Vec::new();
    for (before, now) in [
        (1499, 1500),
        (4499, 4500),
        (10_499, 10_500),
        (22_499, 22_500),
    ] {
        to.extend(asked(&mut far).iter().map(|it| it.2));
        far.tend(at(before));
        assert!(asked(&mut far).is_empty());
        assert_eq!(far.wake(), Some(at(now)));
        far.tend(at(now));
    }
    let [first, second] = [FIRST, SECOND].map(|it| it.parse::<SocketAddr>().unwrap());
    assert_eq!(to, [first, second, first, second]);
    assert_eq!(outcomes(&mut far), [Outcome::Failure(cause::UNREACHABLE)]);
    assert_eq!(far.stats().unanswered, 4);
}

#[test]
fn a_resolver_that_fails_isnt_asked_again_but_the_next_one_is() {
    let mut far = far(&[FIRST, SECOND]);
    far.hear_partner(at(0), 0, &address_of(7, "a.example"));
    for resolver in [FIRST, SECOND] {
        let asked = asked(&mut far);
        let (n, _, to, message) = &asked[0];
        assert_eq!(*to, resolver.parse().unwrap());
        let mut failed = message.clone();
        failed.metadata.response_code = ResponseCode::ServFail;
        far.hear_resolver(at(1), *n, *to, &answer(&failed));
    }
    assert_eq!(outcomes(&mut far), [Outcome::Failure(cause::OTHER)]);
    assert!(asked(&mut far).is_empty());
}

#[test]
fn a_socket_that_cant_be_had_is_another_port() {
    let mut far = far(&[FIRST]);
    far.hear_partner(at(0), 0, &address_of(7, "a.example"));
    let first = asked(&mut far)[0].clone();
    far.miss(at(0), first.0);
    let second = asked(&mut far)[0].clone();
    assert_ne!((first.0, first.1), (second.0, second.1));
    far.hear_resolver(at(1), second.0, second.2, &answer(&second.3));
    assert_eq!(outcomes(&mut far), [Outcome::Records]);
}

#[test]
fn without_resolvers_partners_hear_so() {
    let mut far = far(&[]);
    far.hear_partner(at(0), 0, &question(7, "a.example", Types::Together(3)));
    assert_eq!(outcomes(&mut far), [Outcome::Failure(cause::NOT_READY); 2]);
}

#[test]
fn an_answer_that_is_too_long_goes_in_several_frames() {
    let mut far = far(&[FIRST]);
    far.hear_partner(at(0), 0, &question(7, "a.example", Types::Together(3)));
    for (n, _, to, message) in asked(&mut far) {
        let mut long = message.clone();
        long.metadata.message_type = MessageType::Response;
        let query = message.queries[0].clone();
        for low in 0..60u8 {
            let data = match query.query_type {
                RecordType::A => RData::A(A::new(192, 0, 2, low)),
                _ => {
                    let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, low.into());
                    RData::AAAA(address.into())
                }
            };
            long.add_answer(Record::from_rdata(query.name.clone(), 60, data));
        }
        far.hear_resolver(at(1), n, to, &long.to_vec().unwrap());
    }
    let frames: Vec<_> = core::iter::from_fn(|| far.poll_frame()).collect();
    assert_eq!(frames.len(), 2);
    assert!(
        frames
            .iter()
            .all(|(_, frame)| frame.len() <= OCTETS_MAX + 16)
    );
}

#[test]
fn a_partner_asks_so_often_and_no_more() {
    let mut far = far(&[FIRST]);
    for n in 0..1000 {
        far.hear_partner(at(0), 0, &address_of(n, "a.example"));
        far.check();
    }
    assert_eq!((far.stats().served, far.stats().unserved), (128, 872));
    assert_eq!(asked(&mut far).len(), ASKS_MAX);
    far.hear_partner(at(999), 0, &address_of(2000, "a.example"));
    assert_eq!(far.stats().served, 128);
    for n in 0..100 {
        far.hear_partner(at(1000), 0, &address_of(3000 + n, "a.example"));
    }
    assert_eq!(far.stats().served, 160);
    // Another partner has its own.
    far.hear_partner(at(1000), 1, &address_of(1, "a.example"));
    assert_eq!(far.stats().served, 161);
    far.hear_partner(at(1000), 1, &[0xff; 40]);
    assert_eq!(far.stats().malformed, 1);
}
