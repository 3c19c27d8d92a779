//! What clients, partners and resolvers of a DNS proxy say.

use std::net::SocketAddr;

use strait_core::{Duration, Instant};
use strait_dns::cache::Limits;
use strait_dns::frame::{Care, Frame, Types};
use strait_dns::message::{self, Ask, Heard, Judgement, Manner};
use strait_dns::{
    Body, Client, Far, FarSettings, LinkState, Name, Near, NearSettings, Outcome, RecordType, Wish,
    name, saved,
};

const LINK: LinkState = LinkState {
    turnaround: Duration::from_secs(1),
    bit_s: 9600,
};

/// Octets of clients, partners, resolvers and the storage, in part with what makes them right,
/// between what both sides say to each other: limits hold, and what is due is done.
pub fn dns(data: &[u8]) {
    let near = NearSettings {
        limits: Limits {
            entries: 16,
            octets: 4000,
            stale: Duration::from_secs(60),
        },
        patience: Duration::from_secs(9),
        clients: Vec::new(),
        saves: true,
        zones: vec![vec![Name::root()]],
        rules: Vec::new(),
        watches: true,
        ahead: Some(strait_dns::ahead::RANGE),
        tells_ahead: true,
    };
    let resolver = SocketAddr::from(([10, 0, 0, 2], 53));
    let far = FarSettings {
        resolvers: vec![resolver],
        zones: Vec::new(),
        partners: 1,
    };
    let (mut near, mut far) = (Near::new(near, 1), Far::new(far, 1));
    near.memory_mut().set_calendar(Instant::ZERO, 1_800_000_000);
    let client = Client {
        socket: 0,
        address: SocketAddr::from(([127, 0, 0, 1], 4000)),
        local: SocketAddr::from(([127, 0, 0, 1], 53)),
        stream: None,
    };
    let mut now = Instant::ZERO;
    let mut asked: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut rest = data;
    while let Some((&[what, octets], later)) = rest.split_first_chunk::<2>() {
        let (piece, later) = later.split_at(later.len().min(usize::from(octets)));
        rest = later;
        now += Duration::from_millis(u64::from(what) * 16);
        near.set_link(0, Some(LINK).filter(|_| what & 0x80 == 0));
        match what & 7 {
            0 => near.hear_client(now, client, piece),
            1 => near.hear_partner(now, 0, piece),
            2 => far.hear_partner(now, 0, piece),
            3 => asked.iter().for_each(|(n, _)| {
                far.hear_resolver(now, *n, resolver, piece);
                far.hear_stream(now, *n, piece);
            }),
            4 => {
                // The beginning of a right answer, with something behind it.
                for (n, question) in &asked {
                    let mut answer = [question.as_slice(), piece].concat();
                    answer[2] |= 0x80;
                    answer[7] = piece.first().copied().unwrap_or(0) & 3;
                    far.hear_resolver(now, *n, resolver, &answer);
                }
            }
            5 => drop(near.memory_mut().restore(now, piece)),
            6 => asked.iter().for_each(|(n, _)| far.miss(now, *n)),
            _ => {
                let saved = near.memory_mut().saved(now);
                assert!(saved::read(&mut &saved[..]).is_none_or(|it| it.is_some()));
                near.memory_mut().restore(now, &saved);
            }
        }
        near.tend(now);
        far.tend(now);
        let questions: Vec<_> = std::iter::from_fn(|| near.poll_frame(now, 0)).collect();
        questions
            .iter()
            .for_each(|frame| far.hear_partner(now, 0, frame));
        while let Some((n, wish)) = far.poll_wish() {
            match wish {
                Wish::Open(_) => {}
                Wish::Send(_, question) | Wish::Connect(_, question) => asked.push((n, question)),
                Wish::Close => asked.retain(|(open, _)| *open != n),
            }
        }
        while let Some(frame) = near.poll_quiet(now, 0) {
            far.hear_partner(now, 0, &frame);
        }
        let frames = std::iter::from_fn(|| far.poll_frame().or_else(|| far.poll_quiet()));
        let frames: Vec<_> = frames.collect();
        for (_, frame) in frames {
            near.hear_partner(now, 0, &frame);
        }
        // What follows from that.
        while let Some(frame) = near.poll_quiet(now, 0) {
            far.hear_partner(now, 0, &frame);
        }
        while let Some((_, reply)) = near.poll_reply() {
            assert!(
                (12..=1232).contains(&reply.len()),
                "a reply of {} octets",
                reply.len()
            );
        }
        near.check();
        far.check();
        for wake in [near.wake(), far.wake()].into_iter().flatten() {
            assert!(wake > now, "something that is due isn't done");
        }
    }
}

/// Octets of the partner or of storage: a frame, a name, a body, entries. What is read can be
/// written, and reads as the same again.
pub fn dns_frame(data: &[u8]) {
    let Some((what, octets)) = data.split_first() else {
        return;
    };
    match what & 3 {
        0 => {
            if let Some(frame) = Frame::read(octets) {
                assert_eq!(Frame::read(&frame.to_vec()), Some(frame));
            }
        }
        1 => {
            if let Some(read) = name::read(octets) {
                let mut written = Vec::new();
                name::write(&read, &mut written);
                assert_eq!(name::read(&written), Some(read));
            }
        }
        2 => {
            let kinds = [RecordType::A, RecordType::AAAA, RecordType::HTTPS];
            let kind = kinds[usize::from(what >> 2) % kinds.len()];
            let mut rest = octets;
            while let Some(body) = Body::read(kind, &mut rest).filter(|_| !rest.is_empty()) {
                let mut written = Vec::new();
                body.write(kind, &mut written);
                assert_eq!(Body::read(kind, &mut &written[..]), Some(body));
            }
        }
        _ => {
            let mut rest = octets;
            while saved::read(&mut rest).is_some() {}
        }
    }
}

/// Messages of clients and resolvers, in part with the beginning of a right answer. A reply is one
/// to its question; what is kept of an answer can be told to a client, and cross.
pub fn dns_message(data: &[u8]) {
    let Some((what, octets)) = data.split_first() else {
        return;
    };
    if let Heard::Question(question) = message::hear(octets) {
        let body = Body::empty(Outcome::NoName, 60);
        let reply = message::reply(&question, &body, Manner::default());
        assert_eq!(reply[..2], question.id.to_be_bytes());
        assert_eq!(
            message::hear(&reply),
            Heard::Nothing,
            "a reply is no question"
        );
    }
    let kinds = [
        RecordType::A,
        RecordType::AAAA,
        RecordType::HTTPS,
        RecordType::TXT,
    ];
    let ask = Ask {
        id: 7,
        name: name::parse("a.eXample").expect("a name"),
        kind: kinds[usize::from(what >> 1) % kinds.len()],
        care: Care {
            verifies: what & 0x10 != 0,
            unchecked: what & 0x20 != 0,
        },
    };
    let mut answer = octets.to_vec();
    if what & 1 != 0 {
        let question = ask.to_vec();
        // Without what it says of extended DNS.
        answer = [&question[..question.len() - 11], octets].concat();
        answer[2] |= 0x80;
        (answer[7], answer[11]) = (what >> 6, 0);
    }
    if let Judgement::Known(body) = ask.judge(&answer) {
        let frame = Frame::Answer {
            id: 1,
            types: Types::of(ask.kind),
            watched: false,
            bodies: vec![body],
        };
        let frame = Frame::read(&frame.to_vec());
        assert!(frame.is_some(), "what is known can't cross");
    }
}

/// An answer as it crosses, a name, and an address.
pub fn frames() -> Vec<Vec<u8>> {
    let name = name::parse("www.example.org").expect("a name");
    let question = Frame::Question {
        id: 3,
        types: Types::Together(7),
        care: Care::default(),
        watch: true,
        ahead: None,
        name: name.clone(),
    };
    let known = Body {
        records: vec![vec![192, 0, 2, 1]],
        ..Body::empty(Outcome::Records, 600)
    };
    let answer = Frame::Answer {
        id: 3,
        types: Types::of(RecordType::A),
        watched: true,
        bodies: vec![known.clone()],
    };
    let others = [
        Frame::Hello(0x0102_0304),
        Frame::Roll(vec![(3, 4), (5, 6)]),
        Frame::Gone {
            near: true,
            ids: vec![3],
        },
        Frame::Strange(vec![[198, 19, 0, 1].into()]),
        Frame::Part {
            id: 3,
            at: 0,
            of: 2,
            octets: vec![1; 20],
        },
    ];
    let frames = [question, answer].into_iter().chain(others);
    let mut all: Vec<_> = frames.map(|it| [&[0], &it.to_vec()[..]].concat()).collect();
    let (mut written, mut body) = (vec![1], vec![2]);
    name::write(&name, &mut written);
    known.write(RecordType::A, &mut body);
    body.push(0);
    all.extend([written, body]);
    all
}

/// Questions, and answers with an address, an alias, a name that isn't there, one that is cut.
pub fn messages() -> Vec<Vec<u8>> {
    let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x07eXample\0\0\x01\0\x01";
    let address = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
    let alias = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01b\xc0\x0e";
    let of_alias = b"\xc0\x28\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
    let mut cut = [&question[..], address].concat();
    cut[2] = 0x83;
    vec![
        [&[0], &question[..]].concat(),
        [&[0x41], &address[..]].concat(),
        [&[0x81], &alias[..], of_alias].concat(),
        [&[0], &cut[..]].concat(),
    ]
}

/// A question that is asked, and its answer.
pub fn exchange() -> Vec<u8> {
    let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
    let answer = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
    let mut data = vec![0, question.len() as u8];
    data.extend_from_slice(question);
    // Time goes by, so that it crosses; then its answer comes.
    data.extend_from_slice(&[0x17, 0]);
    data.extend_from_slice(&[4, 1 + answer.len() as u8, 1]);
    data.extend_from_slice(answer);
    data.extend_from_slice(&[7, 0]);
    data
}
