use super::*;

use alloc::vec::Vec;

use hickory_proto::rr::rdata::{A, CNAME, MX, SOA};
use proptest::prelude::*;

fn name(text: &str) -> Name {
    // Letters as they are written.
    Name::from_ascii(text).unwrap()
}

fn ask(kind: RecordType, verifies: bool) -> Ask {
    Ask {
        id: 0x1234,
        name: name("WwW.a.Example."),
        kind,
        care: Care {
            verifies,
            unchecked: false,
        },
    }
}

/// An answer to that, right until it is changed.
fn answer(ask: &Ask) -> Message {
    let mut message = Message::response(ask.id, OpCode::Query);
    message.add_query(Query::query(ask.name.clone(), ask.kind));
    message
}

fn address(owner: &str, life_s: u32, last: u8) -> Record {
    let address = A::new(192, 0, 2, last);
    Record::from_rdata(name(owner), life_s, RData::A(address))
}

fn alias(owner: &str, life_s: u32, to: &str) -> Record {
    Record::from_rdata(name(owner), life_s, RData::CNAME(CNAME(name(to))))
}

fn soa(owner: &str, life_s: u32, minimum: u32) -> Record {
    let soa = SOA::new(name("ns."), name("mail."), 1, 2, 3, 4, minimum);
    Record::from_rdata(name(owner), life_s, RData::SOA(soa))
}

fn judge(ask: &Ask, message: &Message) -> Judgement {
    ask.judge(&message.to_vec().unwrap())
}

#[test]
fn an_answer_to_something_else_is_forged() {
    let ask = ask(RecordType::A, false);
    let mut right = answer(&ask);
    right.add_answer(address("www.a.example.", 60, 1));
    assert!(matches!(judge(&ask, &right), Judgement::Known(_)));
    type Change = fn(&mut Message);
    let changes: [Change; 7] = [
        |it| it.metadata.id ^= 1,
        |it| it.metadata.message_type = MessageType::Query,
        // Letters that aren't as they were asked.
        |it| it.queries[0].name = name("www.a.example."),
        |it| it.queries[0].name = name("WwW.b.Example."),
        |it| it.queries[0].query_type = RecordType::AAAA,
        |it| it.queries[0].query_class = DNSClass::CH,
        |it| it.queries.clear(),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut wrong = right.clone();
        change(&mut wrong);
        assert_eq!(judge(&ask, &wrong), Judgement::Forged, "{at}");
    }
    assert_eq!(ask.judge(b"nonsense"), Judgement::Forged);
}

#[test]
fn aliases_are_followed_and_what_others_own_is_left_alone() {
    let ask = ask(RecordType::A, false);
    let mut message = answer(&ask);
    message.add_answer(address("end.example.", 70, 2));
    message.add_answer(alias("www.a.example.", 50, "next.example."));
    message.add_answer(alias("next.example.", 60, "end.example."));
    message.add_answer(address("END.example.", 90, 3));
    // Names that nobody asked for.
    message.add_answer(address("bank.example.", 9, 66));
    message.add_additional(address("www.a.example.", 9, 66));
    let expected = Body {
        outcome: Outcome::Records,
        zone: 0,
        life_s: 50,
        records: vec![vec![192, 0, 2, 2], vec![192, 0, 2, 3]],
    };
    assert_eq!(judge(&ask, &message), Judgement::Known(expected));
}

#[test]
fn circles_of_aliases_end() {
    let ask = ask(RecordType::A, false);
    let mut message = answer(&ask);
    message.add_answer(alias("www.a.example.", 50, "b.example."));
    message.add_answer(alias("b.example.", 50, "www.a.example."));
    let none = Body::missing(Outcome::NoData, 50, 2);
    assert_eq!(judge(&ask, &message), Judgement::Known(none));
}

#[test]
fn what_is_missing_is_missing_for_as_long_as_its_zone_says() {
    let ask = ask(RecordType::A, false);
    let life_of = |code, authority: Option<Record>| {
        let mut message = answer(&ask);
        message.metadata.response_code = code;
        message.authorities.extend(authority);
        match judge(&ask, &message) {
            Judgement::Known(body) => (body.outcome, body.life_s),
            other => panic!("{other:?}"),
        }
    };
    let zone_of = |authority: Option<Record>| {
        let mut message = answer(&ask);
        message.authorities.extend(authority);
        match judge(&ask, &message) {
            Judgement::Known(body) => body.zone,
            other => panic!("{other:?}"),
        }
    };
    // Its own zone; that of an alias isn't the name's: then the one above it is said.
    assert_eq!(zone_of(Some(soa("Example.", 30, 300))), 1);
    assert_eq!(zone_of(Some(soa(".", 30, 300))), 0);
    assert_eq!(zone_of(Some(soa("b.example.", 30, 300))), 2);
    assert_eq!(zone_of(None), 2);
    let (none, there) = (ResponseCode::NXDomain, ResponseCode::NoError);
    let own = || soa("a.example.", 900, 300);
    assert_eq!(life_of(none, Some(own())), (Outcome::NoName, 300));
    assert_eq!(life_of(there, Some(own())), (Outcome::NoData, 300));
    assert_eq!(life_of(none, Some(soa("a.example.", 30, 300))).1, 30);
    assert_eq!(
        life_of(none, Some(soa(".", 1 << 30, 1 << 30))).1,
        MISSING_MAX_S
    );
    // A zone that the name isn't in says nothing of it.
    assert_eq!(
        life_of(none, Some(soa("b.example.", 900, 900))).1,
        MISSING_S
    );
    assert_eq!(life_of(none, None).1, MISSING_S);
}

#[test]
fn failures_have_their_cause() {
    let ask = ask(RecordType::A, false);
    let mut message = answer(&ask);
    message.metadata.response_code = ResponseCode::ServFail;
    assert_eq!(judge(&ask, &message), Judgement::Failed(cause::OTHER));
    let mut edns = Edns::new();
    let bogus = EdnsOption::Unknown(EXTENDED_ERROR, vec![0, 6, b'!']);
    edns.options_mut().insert(bogus);
    message.set_edns(edns);
    assert_eq!(judge(&ask, &message), Judgement::Failed(6));
    message.metadata.response_code = ResponseCode::NoError;
    message.metadata.truncation = true;
    assert_eq!(judge(&ask, &message), Judgement::Truncated);
}

#[test]
fn names_in_records_are_whole() {
    let ask = ask(RecordType::MX, false);
    let mut message = answer(&ask);
    let mx = MX::new(10, name("mail.a.example."));
    let record = Record::from_rdata(name("www.a.example."), 60, RData::MX(mx));
    message.add_answer(record);
    let Judgement::Known(body) = judge(&ask, &message) else {
        panic!("no answer");
    };
    assert_eq!(body.records, [b"\0\x0a\x04mail\x01a\x07example\0".to_vec()]);
}

fn question(kind: RecordType, takes: Option<u16>) -> Question {
    Question {
        id: 7,
        name: name("www.A.example."),
        kind,
        care: Care::default(),
        signed: false,
        recursion: true,
        takes,
    }
}

fn asked(question: &Question) -> Vec<u8> {
    let mut message = Message::new(question.id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = question.recursion;
    message.add_query(Query::query(question.name.clone(), question.kind));
    if let Some(takes) = question.takes {
        let mut edns = Edns::new();
        edns.set_max_payload(takes)
            .set_dnssec_ok(question.care.verifies);
        message.set_edns(edns);
    }
    message.to_vec().unwrap()
}

#[test]
fn a_client_hears_its_own_letters_and_of_extended_dns_only_if_it_knows_that() {
    for takes in [None, Some(1232)] {
        let question = question(RecordType::A, takes);
        assert_eq!(hear(&asked(&question)), Heard::Question(question.clone()));
        let body = Body {
            outcome: Outcome::Records,
            zone: 0,
            life_s: 300,
            records: vec![vec![192, 0, 2, 1]],
        };
        let manner = Manner {
            life_s: 200,
            cause: Some(cause::STALE),
            stream: false,
        };
        let reply = Message::from_vec(&reply(&question, &body, manner)).unwrap();
        assert_eq!(
            (reply.metadata.id, reply.metadata.recursion_available),
            (7, true)
        );
        assert!(reply.queries[0].name.eq_case(&question.name));
        assert_eq!(reply.answers, [address("www.a.example.", 200, 1)]);
        let cause = reply.edns.as_ref().map(|_| cause_of(&reply));
        assert_eq!(cause, takes.map(|_| cause::STALE));
    }
}

#[test]
fn a_reply_that_is_too_long_says_so_and_a_stream_takes_it() {
    let body = Body {
        outcome: Outcome::Records,
        zone: 0,
        life_s: 300,
        records: vec![vec![9; 100]; 11],
    };
    let read = |takes, stream| {
        let manner = Manner {
            stream,
            ..Manner::default()
        };
        let octets = reply(&question(RecordType::NULL, takes), &body, manner);
        let message = Message::from_vec(&octets).unwrap();
        (
            octets.len(),
            message.metadata.truncation,
            message.answers.len(),
        )
    };
    let (length, cut, answers) = read(None, false);
    assert!(length <= 512 && cut && answers == 0);
    let (length, cut, answers) = read(Some(600), false);
    assert!(length <= 600 && cut && answers == 0);
    let (length, cut, answers) = read(None, true);
    assert!(length > 1232 && !cut && answers == 11);
}

#[test]
fn what_is_no_question_is_told_so() {
    let code = |octets: &[u8]| match hear(octets) {
        Heard::Wrong(reply) => {
            // Whoever asks in another's name makes no more of it.
            assert!(reply.len() <= octets.len(), "{}", reply.len());
            Message::from_vec(&reply).unwrap().metadata.response_code
        }
        other => panic!("{other:?}"),
    };
    let right = asked(&question(RecordType::A, None));
    let changed = |at: usize, octet: u8| {
        let mut octets = right.clone();
        octets[at] = octet;
        octets
    };
    assert_eq!(code(&changed(2, 0x21)), ResponseCode::NotImp);
    assert_eq!(code(&changed(5, 0)), ResponseCode::FormErr);
    assert_eq!(code(&right[..right.len() - 1]), ResponseCode::FormErr);
    let end = right.len();
    // Any, a zone's contents, and another class.
    assert_eq!(code(&changed(end - 3, 255)), ResponseCode::Refused);
    assert_eq!(code(&changed(end - 3, 252)), ResponseCode::Refused);
    assert_eq!(code(&changed(end - 1, 3)), ResponseCode::Refused);
    // Answers and what has no head are answered by nothing.
    assert_eq!(hear(&changed(2, 0x81)), Heard::Nothing);
    assert_eq!(hear(&right[..11]), Heard::Nothing);
}

#[test]
fn whoever_verifies_gets_the_whole_message() {
    let ask = ask(RecordType::A, true);
    let mut message = answer(&ask);
    message.metadata.authentic_data = true;
    message.add_answer(alias("www.a.example.", 50, "end.example."));
    message.add_answer(address("end.example.", 70, 2));
    let Judgement::Known(body) = judge(&ask, &message) else {
        panic!("no answer");
    };
    assert_eq!((body.outcome, body.life_s), (Outcome::Message, 50));
    let mut question = question(RecordType::A, Some(1232));
    (question.care.verifies, question.signed) = (true, true);
    let manner = Manner {
        life_s: 60,
        ..Manner::default()
    };
    let reply = Message::from_vec(&reply(&question, &body, manner)).unwrap();
    assert!(reply.metadata.authentic_data);
    let lives: Vec<u32> = reply.answers.iter().map(|it| it.ttl).collect();
    assert_eq!(lives, [50, 60]);
    assert!(reply.answers[0].name.eq_case(&name("www.a.example.")));
    assert!(reply.edns.unwrap().flags().dnssec_ok);
}

#[test]
fn who_checks_for_itself_is_told_what_isnt_right_and_no_signatures_unless_it_wants_them() {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.checking_disabled = true;
    message.add_query(Query::query(name("www.a.example."), RecordType::A));
    let Heard::Question(question) = hear(&message.to_vec().unwrap()) else {
        panic!("no question");
    };
    let asked = Ask {
        care: question.care,
        ..ask(RecordType::A, true)
    };
    let sent = Message::from_vec(&asked.to_vec()).unwrap();
    assert!(sent.metadata.checking_disabled && sent.edns.unwrap().flags().dnssec_ok);
    let mut answer = answer(&asked);
    answer.add_answer(address("www.a.example.", 50, 1));
    let signature = RData::Unknown {
        code: RecordType::RRSIG,
        rdata: NULL::with([0; 20].to_vec()),
    };
    answer.add_answer(Record::from_rdata(name("www.a.example."), 50, signature));
    let Judgement::Known(body) = judge(&asked, &answer) else {
        panic!("no answer");
    };
    let manner = Manner {
        life_s: 50,
        ..Manner::default()
    };
    for (signed, records) in [(false, 1), (true, 2)] {
        let question = Question {
            signed,
            ..question.clone()
        };
        let reply = Message::from_vec(&reply(&question, &body, manner)).unwrap();
        assert!(reply.metadata.checking_disabled);
        assert_eq!(reply.answers.len(), records);
    }
}

proptest! {
    #[test]
    fn any_octets_are_judged(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = hear(&octets);
        let _ = ask(RecordType::A, false).judge(&octets);
        let _ = ask(RecordType::MX, true).judge(&octets);
        let body = Body {
            records: vec![octets.clone()],
            ..Body::empty(Outcome::Message, 1)
        };
        let question = question(RecordType::MX, Some(1232));
        let answer = reply(&question, &body, Manner::default());
        prop_assert!(!answer.is_empty() && answer.len() <= 1232);
        let body = Body {
            records: vec![octets],
            ..Body::empty(Outcome::Records, 1)
        };
        prop_assert!(reply(&question, &body, Manner::default()).len() <= 1232);
    }
}
