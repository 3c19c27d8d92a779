//! What the partner of a TCP proxy says in a session.

use strait_core::{Duration, Instant};
use strait_proxy::codec::{Head, Item, write_head, write_item};
use strait_proxy::{Ends, Event, Key, Open, Session, Settings, Waits};

const SETTINGS: Settings = Settings {
    waits: Waits {
        patience: Duration::from_secs(1),
        pause: Duration::from_millis(1500),
        reorder: Duration::ZERO,
        ack: Duration::from_millis(200),
    },
    window: 4096,
    hold: 4096,
    wait: Duration::from_secs(10),
    streams_max: 4,
    octets_max: 12 * 1024,
};

/// Those of this side, 1, and of the partner, 2.
const TOKENS: u32 = 1 ^ 2 << 13;

/// Datagrams of a partner, in part with a head that is right, between what this side does: the
/// books balance, limits hold, and what is said fits its room.
pub fn proxy_session(data: &[u8]) {
    let mut session = Session::new(1, SETTINGS);
    let mut now = Instant::ZERO;
    let mut hello = Vec::new();
    let (to, from, first) = (1, 2, 0);
    write_head(Head::Hello { to, from, first }, &mut hello);
    let _ = session.hear(now, 0, &hello);
    let mut keys = Vec::new();
    let mut number = 0;
    let mut rest = data;
    while let Some((&[what, octets], later)) = rest.split_first_chunk::<2>() {
        let (piece, later) = later.split_at(later.len().min(usize::from(octets)));
        rest = later;
        now += Duration::from_millis(u64::from(what) * 8);
        match what & 7 {
            0 => drop(session.hear(now, 0, piece)),
            1 | 2 => {
                let mut datagram = Vec::new();
                let number = Some(number).filter(|_| what & 1 != 0);
                write_head(Head::Items { to: TOKENS, number }, &mut datagram);
                datagram.extend_from_slice(piece);
                let _ = session.hear(now, 0, &datagram);
            }
            3 => number += 1,
            4 => keys.extend(session.open(now, open(piece.len() as u16)).ok()),
            5 => keys.iter().for_each(|key| session.reset(*key, 104)),
            6 => {
                for key in &keys {
                    let room = session.room(*key) as usize;
                    session.write(now, *key, &piece[..piece.len().min(room)]);
                }
            }
            _ => keys.iter().for_each(|key| session.finish(*key)),
        }
        follow(&mut session, now, &mut keys);
        session.tend(now);
        for dscp in session.wants(now) {
            if let Some(datagram) = session.poll(now, dscp, 300) {
                assert!(datagram.len() <= 300, "a datagram is longer than its room");
            }
        }
        session.check();
    }
}

fn follow(session: &mut Session, now: Instant, keys: &mut Vec<Key>) {
    while let Some(event) = session.poll_event() {
        match event {
            Event::Opened(key, _) => {
                session.accept(key);
                session.write(now, key, b"hello");
                keys.push(key);
            }
            Event::Ready(key) => {
                let octets = session.read(key, 100);
                assert!(octets.len() <= 100);
                session.at_end(key);
            }
            Event::Accepted(_) => {}
            Event::Reset(key, _) | Event::Lost(key) => keys.retain(|known| *known != key),
        }
    }
}

fn open(port: u16) -> Open {
    let ends = Ends {
        client: ([10, 1, 0, 2], port).into(),
        server: ([10, 2, 0, 2], 80).into(),
    };
    Open { ends, dscp: 0 }
}

/// A partner opens a stream, sends on it, and acknowledges what it hears.
pub fn exchange() -> Vec<u8> {
    let Open { ends, dscp } = open(1);
    let key = Key { ours: true, n: 0 };
    let datagrams: [&[Item<'_>]; 3] = [
        &[
            Item::Open { n: 0, dscp, ends },
            Item::Data {
                key,
                offset: 0,
                end: false,
                octets: b"question",
            },
        ],
        &[Item::Ack(vec![(0, 0)]), Item::Credit { key, limit: 9000 }],
        &[Item::Data {
            key,
            offset: 8,
            end: true,
            octets: b"",
        }],
    ];
    let mut all = Vec::new();
    for items in datagrams {
        let mut piece = Vec::new();
        items.iter().for_each(|item| write_item(item, &mut piece));
        all.extend([1, piece.len() as u8]);
        all.append(&mut piece);
        all.extend([3, 0]);
    }
    all
}
