use super::*;
use crate::leaf::Leaf;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use proptest::collection::vec as many;
use proptest::prelude::*;
use strait_core::fate::{Ledger, Origin};
use strait_core::rate::LineRate;
use strait_core::{Duration, Instant};

/// An acknowledgement from 10.1.0.2 port 80, with what makes it special.
#[derive(Clone, Copy)]
struct Ack {
    port: u16,
    tos: u8,
    ack: u32,
    /// The two octets from the header's length on.
    flags: [u8; 2],
    window: u16,
    options: &'static [u8],
    data: &'static [u8],
}

const ACK: Ack = Ack {
    port: 4000,
    tos: 0,
    ack: 1000,
    flags: [0, 0x10],
    window: 500,
    options: &[],
    data: &[],
};

fn packet(ack: Ack) -> Packet {
    let octets = 40 + ack.options.len() + ack.data.len();
    let mut bytes = Vec::from([0x45, ack.tos, 0, octets as u8, 0, 1, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend_from_slice(&[10, 1, 0, 2, 10, 2, 0, 2]);
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes.extend_from_slice(&[0, 80]);
    bytes.extend_from_slice(&ack.port.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 7]);
    bytes.extend_from_slice(&ack.ack.to_be_bytes());
    let words = (5 + ack.options.len() / 4) as u8;
    bytes.extend_from_slice(&[words << 4 | ack.flags[0], ack.flags[1]]);
    bytes.extend_from_slice(&ack.window.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(ack.options);
    bytes.extend_from_slice(ack.data);
    let mut ledger = Ledger::default();
    ledger.admit(Instant::ZERO, bytes, Origin::Own).unwrap()
}

#[test]
fn an_acknowledgement_grows_old_in_the_other_sides_turn_and_a_request_does_not() {
    use crate::policy::Policy;
    use crate::{PolicyConfig, Site};
    let text = "[[class]]\nname = 'a'\nage = '10 s'\nqueue = { kind = 'fair' }";
    let config: PolicyConfig = toml::from_str(text).unwrap();
    let policy = Policy::compile(&config).unwrap();
    let site = Site {
        turn: Duration::from_secs(120),
        ..Site::default()
    };
    let mut leaf = Leaf::new(&policy.classes()[0], site);
    leaf.set_line_rate(LineRate::new(9600, 8));
    for (flags, age_s) in [(0x10, 10), (0x02, 130), (0x12, 130), (0x11, 130)] {
        let mut packet = packet(Ack {
            flags: [0, flags],
            ..ACK
        });
        leaf.limit_age(&mut packet);
        assert_eq!(packet.expires, Instant::from_secs(age_s), "{flags:#x}");
    }
}

fn thinned(waiting: &[Ack], last: Ack) -> Option<usize> {
    let waiting: VecDeque<Packet> = waiting.iter().copied().map(packet).collect();
    superfluous(&packet(last), &waiting)
}

fn up_to(ack: u32) -> Ack {
    Ack { ack, ..ACK }
}

#[test]
fn the_middle_of_three_is_superfluous_and_the_first_stays() {
    assert_eq!(thinned(&[up_to(1000), up_to(2000)], up_to(3000)), Some(1));
    assert_eq!(thinned(&[up_to(2000)], up_to(3000)), None);
    assert_eq!(thinned(&[], up_to(3000)), None);
    // Numbers wrap.
    let wrapping = [up_to(u32::MAX - 9), up_to(5)];
    assert_eq!(thinned(&wrapping, up_to(6)), Some(1));
    // Others' packets between them don't matter.
    let other = Ack { port: 5000, ..ACK };
    let mixed = [up_to(1000), other, up_to(2000), other];
    assert_eq!(thinned(&mixed, up_to(3000)), Some(2));
}

#[test]
fn duplicates_stay_because_they_tell_of_a_loss() {
    assert_eq!(thinned(&[up_to(1000), up_to(1000)], up_to(2000)), None);
    assert_eq!(thinned(&[up_to(1000), up_to(2000)], up_to(2000)), None);
    assert_eq!(thinned(&[up_to(1000), up_to(2000)], up_to(1999)), None);
}

#[test]
fn what_says_more_than_an_acknowledgement_stays() {
    const TIMES: &[u8] = &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 5];
    const EARLIER: &[u8] = &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 4];
    const SACK: &[u8] = &[1, 1, 5, 10, 0, 0, 9, 0, 0, 0, 10, 0];
    const ODD: &[u8] = &[30, 4, 0, 0];
    const CUT: &[u8] = &[1, 1, 8, 10];
    let middle = up_to(2000);
    let last = up_to(3000);
    let timed = |ack: Ack, options| Ack { options, ..ack };
    let keeps = |middle, last| {
        assert_eq!(thinned(&[up_to(1000), middle], last), None);
    };
    for flags in [
        [0, 0x50],
        [0, 0x90],
        [0, 0x18],
        [0, 0x11],
        [0, 0x30],
        [1, 0x10],
    ] {
        keeps(Ack { flags, ..middle }, last);
        keeps(middle, Ack { flags, ..last });
    }
    keeps(
        Ack {
            data: b"x",
            ..middle
        },
        last,
    );
    keeps(
        Ack {
            window: 501,
            ..middle
        },
        last,
    );
    keeps(Ack { tos: 3, ..middle }, last);
    keeps(
        Ack {
            tos: 0x20,
            ..middle
        },
        last,
    );
    for options in [SACK, ODD, CUT] {
        keeps(timed(middle, options), last);
        keeps(middle, timed(last, options));
    }
    keeps(timed(middle, TIMES), last);
    keeps(middle, timed(last, TIMES));
    keeps(timed(middle, TIMES), timed(last, EARLIER));
    let first = up_to(1000);
    for (middle_times, last_times) in [(TIMES, TIMES), (EARLIER, TIMES)] {
        let waiting = [first, timed(middle, middle_times)];
        assert_eq!(thinned(&waiting, timed(last, last_times)), Some(1));
    }
}

#[test]
fn a_window_may_open_on_the_way_but_not_close() {
    let with = |ack: Ack, window| Ack { window, ..ack };
    let waiting = |window| [up_to(1000), with(up_to(2000), window)];
    assert_eq!(thinned(&waiting(499), up_to(3000)), Some(1));
    assert_eq!(thinned(&waiting(500), up_to(3000)), Some(1));
    assert_eq!(thinned(&waiting(501), up_to(3000)), None);
}

#[test]
fn an_acknowledgement_behind_data_of_its_connection_stays() {
    let data = Ack {
        data: b"x",
        ..up_to(2000)
    };
    assert_eq!(thinned(&[up_to(1000), data], up_to(3000)), None);
    assert_eq!(thinned(&[data, up_to(2500)], up_to(3000)), None);
}

/// What a sender learns: how far the other end has all, how often it was told the same, and the
/// window and data it was told of.
fn learned(acks: &[Ack]) -> (u32, Vec<(u32, u16)>, usize) {
    let far = acks.iter().map(|ack| ack.ack).max().unwrap_or_default();
    let repeated = acks.windows(2).filter(|pair| pair[0].ack >= pair[1].ack);
    let repeated = repeated.map(|pair| (pair[1].ack, pair[1].window)).collect();
    let more = acks
        .iter()
        .filter(|ack| ack.flags[1] != 0x10 || !ack.data.is_empty());
    (far, repeated, more.count())
}

proptest! {
    /// Whatever waits, the sender learns the same: the newest acknowledgement stays, so does every
    /// duplicate and every segment that says more, and the oldest, so that it learns as early.
    #[test]
    fn what_thinning_leaves_says_the_same(
        drawn in many((0_u32..3, 0_u32..8, 0_u16..2, 0_u32..12), 1..60),
    ) {
        let mut far = [1000_u32; 2];
        let mut waiting: VecDeque<(usize, Ack, Packet)> = VecDeque::new();
        let mut all: [Vec<Ack>; 2] = Default::default();
        let mut left_out = 0;
        for (connection, step, window, special) in drawn {
            let connection = connection as usize % 2;
            far[connection] += step * 536;
            let last = Ack {
                port: 4000 + connection as u16,
                ack: far[connection],
                window: 500 + window * 10 * u16::from(special == 0),
                flags: [0, if special == 1 { 0x11 } else { 0x10 }],
                data: if special == 2 { b"data" } else { b"" },
                ..ACK
            };
            let packets = waiting.iter().map(|(_, ack, _)| packet(*ack)).collect();
            if let Some(place) = superfluous(&packet(last), &packets) {
                let (of, gone, _) = waiting.remove(place).unwrap();
                prop_assert_eq!(of, connection);
                prop_assert!(gone.ack < last.ack);
                left_out += 1;
            }
            waiting.push_back((connection, last, packet(last)));
            all[connection].push(last);
        }
        for (connection, all) in all.iter().enumerate() {
            let of = waiting.iter().filter(|(of, ..)| *of == connection);
            let left: Vec<Ack> = of.map(|(_, ack, _)| *ack).collect();
            prop_assert_eq!(learned(&left), learned(all));
            prop_assert_eq!(left.first().map(|ack| ack.ack), all.first().map(|ack| ack.ack));
        }
        let total: usize = all.iter().map(Vec::len).sum();
        prop_assert_eq!(waiting.len() + left_out, total);
    }
}

#[test]
fn of_a_long_run_of_acknowledgements_two_are_left() {
    let mut waiting: VecDeque<Ack> = VecDeque::new();
    for number in 0..100 {
        let last = up_to(1000 + number * 536);
        let packets: VecDeque<Packet> = waiting.iter().copied().map(packet).collect();
        if let Some(place) = superfluous(&packet(last), &packets) {
            waiting.remove(place);
        }
        waiting.push_back(last);
    }
    assert_eq!(
        waiting.iter().map(|ack| ack.ack).collect::<Vec<_>>(),
        [1000, 1000 + 99 * 536]
    );
}
