use super::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::Instant;
use strait_core::fate::{Ledger, Origin};

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
fn an_acknowledgement_behind_data_of_its_connection_stays() {
    let data = Ack {
        data: b"x",
        ..up_to(2000)
    };
    assert_eq!(thinned(&[up_to(1000), data], up_to(3000)), None);
    assert_eq!(thinned(&[data, up_to(2500)], up_to(3000)), None);
}
