//! What clients, partners and resolvers of a DNS proxy say.

use std::net::SocketAddr;

use strait_core::{Duration, Instant};
use strait_dns::cache::Limits;
use strait_dns::{Client, Far, FarSettings, LinkState, Name, Near, NearSettings, Wish, saved};

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
