use super::*;

use alloc::collections::BTreeSet;
use alloc::string::ToString;

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};

use crate::frame::sum_of;
use crate::name;

const FIRST: &str = "10.2.0.2:53";
const SECOND: &str = "10.2.0.3:53";

fn far(resolvers: &[&str]) -> Far {
    let settings = FarSettings {
        resolvers: resolvers.iter().map(|it| it.parse().unwrap()).collect(),
        zones: Vec::new(),
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
        watch: false,
        ahead: None,
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
            Wish::Close | Wish::Connect(..) => {}
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
    assert_eq!((far.stats().served, far.stats().resolvers.resolved), (1, 3));
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
    assert_eq!(far.stats().resolvers.forged, 5);
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
    assert_eq!(far.stats().resolvers.unanswered, 4);
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
            .all(|(_, frame)| frame.len() <= DATAGRAM_OCTETS + 16)
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

/// A resolver's answer with another address.
fn changed(message: &Message, last: u8) -> Vec<u8> {
    let mut answer = message.clone();
    answer.metadata.message_type = MessageType::Response;
    let address = RData::A(A::new(192, 0, 2, last));
    let name = message.queries[0].name.clone();
    answer.add_answer(Record::from_rdata(name, 600, address));
    answer.to_vec().unwrap()
}

fn watched_of(id: u16, text: &str) -> Vec<u8> {
    Frame::Question {
        id,
        types: Types::of(RecordType::A),
        care: Care::default(),
        watch: true,
        ahead: None,
        name: name::parse(text).unwrap(),
    }
    .to_vec()
}

/// All frames of a kind that a partner is told without having asked.
fn told(far: &mut Far, now: Instant) -> Vec<Frame> {
    far.tend(now);
    let frames = core::iter::from_fn(|| far.poll_quiet());
    frames.map(|(_, it)| Frame::read(&it).unwrap()).collect()
}

/// Has resolvers answer all that is asked now with this address.
fn resolve(far: &mut Far, now: Instant, last: u8) -> usize {
    far.tend(now);
    let asked = asked(far);
    for (n, _, to, message) in &asked {
        far.hear_resolver(now, *n, *to, &changed(message, last));
    }
    asked.len()
}

#[test]
fn what_is_kept_fresh_is_asked_anew_and_changes_alone_are_told() {
    let mut far = far(&[FIRST]);
    far.hear_partner(at(0), 0, &watched_of(7, "a.example"));
    assert_eq!(resolve(&mut far, at(0), 1), 1);
    let answer = Frame::read(&far.poll_frame().unwrap().1).unwrap();
    assert!(matches!(answer, Frame::Answer { watched: true, .. }));
    assert_eq!(far.stats().fresh.watching, 1);
    // The answer's life is over after 600 s: a resolver is asked, and the partner hears nothing.
    assert_eq!(resolve(&mut far, at(599_999), 1), 0);
    assert_eq!(resolve(&mut far, at(600_000), 1), 1);
    assert!(told(&mut far, at(899_999)).is_empty());
    let [Frame::Hello(sum)] = told(&mut far, at(900_000))[..] else {
        panic!("no word of what is kept fresh");
    };
    let same = Body {
        records: [[192, 0, 2, 1].to_vec()].to_vec(),
        ..Body::empty(Outcome::Records, 1)
    };
    assert_eq!(sum, sum_of(7, Types::of(RecordType::A), &[same]));
    assert_eq!(resolve(&mut far, at(1_200_000), 2), 1);
    let [Frame::Answer { id: 7, bodies, .. }] = &told(&mut far, at(1_200_000))[..] else {
        panic!("a change isn't told");
    };
    assert_eq!(bodies[0].records, [[192, 0, 2, 2]]);
    // A resolver that fails changes nothing, and what changes all the time isn't kept fresh.
    far.tend(at(1_800_000));
    for (n, _, _, _) in asked(&mut far) {
        (0..TRIES_MAX).fold(n, |n, _| {
            far.miss(at(1_800_000), n);
            n + 1
        });
    }
    assert!(matches!(
        told(&mut far, at(1_800_000))[..],
        [Frame::Hello(_)]
    ));
    let mut frames = Vec::new();
    for n in 0..5_u8 {
        let now = at(1_900_000 + 600_000 * u64::from(n));
        resolve(&mut far, now, 10 + n);
        frames.extend(told(&mut far, now));
    }
    let gone = Frame::Gone {
        near: false,
        ids: [7].to_vec(),
    };
    assert!(frames.contains(&gone), "{frames:?}");
    assert_eq!(
        (
            far.stats().fresh.watching,
            resolve(&mut far, at(9_000_000), 1)
        ),
        (0, 0)
    );
}

#[test]
fn who_takes_something_else_to_be_fresh_is_told_what_is() {
    let mut far = far(&[FIRST]);
    for (id, text) in [(7, "a.example"), (8, "b.example"), (9, "c.example")] {
        far.hear_partner(at(0), 0, &watched_of(id, text));
    }
    resolve(&mut far, at(0), 1);
    bodies(&mut far);
    let types = Types::of(RecordType::A);
    let same = Body {
        records: [[192, 0, 2, 1].to_vec()].to_vec(),
        ..Body::empty(Outcome::Records, 1)
    };
    let right = sum_of(7, types, &[same]) as u16;
    // It knows 7, has 8 otherwise, takes 5 to be fresh, and doesn't need 9.
    let roll = Frame::Roll([(7, right), (8, 1), (5, 1)].to_vec());
    far.hear_partner(at(10), 0, &roll.to_vec());
    let told = told(&mut far, at(10));
    let [
        Frame::Answer { id: 8, .. },
        Frame::Gone { near: false, ids },
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!((&ids[..], far.stats().fresh.watching), (&[5][..], 2));
    // Nobody else's are touched, and a partner that says nothing for a day has forgotten.
    far.hear_partner(at(20), 1, &Frame::Roll(Vec::new()).to_vec());
    assert_eq!(far.stats().fresh.watching, 2);
    far.tend(at(10 + 86_399_999));
    assert_eq!(far.stats().fresh.watching, 2);
    far.tend(at(10 + 86_400_000));
    assert_eq!(far.stats().fresh.watching, 0);
}

#[test]
fn an_answer_too_long_for_a_datagram_comes_by_a_stream() {
    let mut far = far(&[FIRST]);
    far.hear_partner(at(0), 0, &address_of(7, "a.example"));
    let asked = asked(&mut far);
    let mut short = Message::from_vec(&answer(&asked[0].3)).unwrap();
    short.metadata.truncation = true;
    far.hear_resolver(at(10), asked[0].0, asked[0].2, &short.to_vec().unwrap());
    let wishes: Vec<_> = core::iter::from_fn(|| far.poll_wish()).collect();
    let [(0, Wish::Close), (n, Wish::Connect(to, question))] = &wishes[..] else {
        panic!("{wishes:?}");
    };
    assert_eq!(to.to_string(), FIRST);
    let whole = answer(&Message::from_vec(question).unwrap());
    let whole = [&(whole.len() as u16).to_be_bytes()[..], &whole].concat();
    // Piece by piece; a datagram to its number is nobody's.
    far.hear_resolver(at(11), *n, asked[0].2, &whole[2..]);
    for octet in &whole {
        assert!(bodies(&mut far).is_empty());
        far.hear_stream(at(20), *n, &[*octet]);
    }
    assert_eq!(outcomes(&mut far), [Outcome::Records]);
    let stats = far.stats();
    assert_eq!(
        (
            stats.resolvers.resolved,
            stats.resolvers.by_stream,
            stats.resolvers.forged
        ),
        (1, 1, 1)
    );
    assert_eq!(far.poll_wish(), Some((*n, Wish::Close)));
}

#[test]
fn a_stream_that_fails_is_followed_by_another_try() {
    for how in 0..3 {
        let mut far = far(&[FIRST, SECOND]);
        far.hear_partner(at(0), 0, &address_of(7, "a.example"));
        let first = asked(&mut far);
        let mut short = Message::from_vec(&answer(&first[0].3)).unwrap();
        short.metadata.truncation = true;
        far.hear_resolver(at(10), first[0].0, first[0].2, &short.to_vec().unwrap());
        let n = first[0].0 + 1;
        assert_eq!(far.wake(), Some(at(4010)));
        match how {
            0 => far.tend(at(4010)),
            1 => far.miss(at(20), n),
            _ => far.hear_stream(at(20), n, &[0, 3, 1, 2, 3]),
        }
        let again = asked(&mut far);
        assert_eq!(again[0].2.to_string(), SECOND, "{how}");
    }
}

#[test]
fn names_of_a_zone_have_resolvers_of_their_own() {
    let zone = |text: &str, to: &str| (name::parse(text).unwrap(), [to.parse().unwrap()].to_vec());
    let settings = FarSettings {
        resolvers: [FIRST.parse().unwrap()].to_vec(),
        zones: [zone("lan", SECOND), zone("b.lan", "10.2.0.4:53")].to_vec(),
        partners: 1,
    };
    let mut far = Far::new(settings, 1);
    // The gateway itself asks behind its partners.
    for (id, text) in [(1, "plan."), (2, "a.lan"), (3, "a.b.lan")] {
        far.hear_partner(at(0), 1, &address_of(id, text));
    }
    let to: Vec<_> = asked(&mut far).iter().map(|it| it.2.to_string()).collect();
    assert_eq!(to, [FIRST, SECOND, "10.2.0.4:53"]);
}
