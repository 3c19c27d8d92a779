//! One frame that somebody else puts in, who reads all that both ends send.

use strait_wire::hbh::{Ack, Ingress, Lifetime, Map, Order};

use super::*;

fn header(seq: u16, serial: u16) -> DataHeader {
    DataHeader {
        seq,
        serial,
        tag: 0,
        order: Order::Any,
        lifetime: Lifetime::UNLIMITED,
        ingress: Ingress::default(),
    }
}

impl Pair {
    /// A frame with this content reaches an end as if the other one had sent it.
    fn forge(&mut self, to: usize, content: &Content<'_>) {
        let names = self.ends[1 - to].hop.session.outbound().unwrap();
        let mut frame = Vec::new();
        content.emit(Settings::default().check, names, &mut frame);
        self.ends[to].hear(ms(self.now_ms), &frame);
    }

    /// After twenty packets the frame comes, and then forty more packets: gives those of them that
    /// came within ten seconds.
    fn after_one(to: usize, content: &Content<'_>) -> (Self, usize) {
        let mut pair = Self::known();
        pair.ends[0].queue(0..20, Some(1));
        pair.run(500, |_, _, _| vec![0]);
        pair.forge(to, content);
        pair.ends[0].queue(20..60, Some(1));
        pair.run(10_000, |_, _, _| vec![0]);
        let came = (20..60).filter(|it| pair.ends[1].came.contains(it)).count();
        (pair, came)
    }
}

#[test]
fn a_base_that_nobody_sent_holds_nothing_up() {
    for ahead in [1, 30, 96, 97, 98, 1000, 0x7fff, 0x8000] {
        let content = Content {
            base: Some(20 + ahead),
            ..Content::default()
        };
        assert_eq!(Pair::after_one(1, &content).1, 40, "{ahead}");
    }
}

#[test]
fn a_serial_that_nobody_sent_holds_nothing_up() {
    let mut octets = Vec::new();
    let socket = |last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 9, last)), 7);
    ip::build_udp(socket(1), socket(2), 0, 64, 0, 0, &[9, 9], &mut octets);
    for ahead in [1, 64, 1024, 1025, 0x7fff] {
        for seq in [20, 25, 115] {
            let content = Content {
                data: Some((header(seq, 19 + ahead), &octets)),
                ..Content::default()
            };
            let (_, came) = Pair::after_one(1, &content);
            // Where it takes the number of a packet, that may be the one that is missing.
            assert!(came >= 39, "{ahead} {seq}: {came}");
        }
    }
}

#[test]
fn behind_an_outage_one_frame_tells_of_all_that_was_lost() {
    for (lost, newest) in [(1023, 1023), (1024, u16::MAX)] {
        let mut receiver = Receiver::new(&Settings::default());
        receiver.judge(ms(1), &header(0, lost));
        assert_eq!(receiver.ack(ms(1), false, 64).newest, newest);
    }
}

#[test]
fn what_was_acknowledged_by_somebody_else_holds_nothing_up() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..30, Some(1));
    // The last ten are lost, and acknowledged all the same.
    pair.run(200, |from, _, frame| {
        let lost = from == 0 && frame.len() > 30 && frame[2] >= 20;
        if lost { Fate::new() } else { vec![0] }
    });
    pair.forge(
        0,
        &Content {
            ack: Some(Ack {
                next: 30,
                newest: 29,
                map: Map::default(),
                prompt: true,
            }),
            ..Content::default()
        },
    );
    assert_eq!(pair.ends[0].hop.held(), 0);
    pair.ends[0].queue(30..300, Some(1));
    pair.run(10_000, |_, _, _| vec![0]);
    let came = (30..300).filter(|it| pair.ends[1].came.contains(it));
    assert_eq!(came.count(), 270);
}

#[test]
fn a_packet_in_anothers_place_ends_the_life_of_numbers() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..20, None);
    pair.run(500, |_, _, _| vec![0]);
    let renewals = pair.ends[0].hop.counts().renewals;
    // The same flow with another hop limit: what is said relative to it would have that as well.
    let mut other = Vec::new();
    let socket = |last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 7);
    ip::build_udp(socket(1), socket(2), 0, 9, 20, 0, &[0, 20], &mut other);
    let mut ledger = Ledger::default();
    let other = ledger.admit(ms(0), other, Origin::Own).ok();
    let receiver = &mut pair.ends[1].hop;
    receiver.accept(ms(pair.now_ms), &header(20, 20), other, Some(1));
    pair.ends[0].queue(20..21, None);
    pair.run(1000, |_, _, _| vec![0]);
    for end in &pair.ends {
        assert_eq!(end.hop.counts().renewals, renewals + 1);
        assert!(end.hop.is_known());
    }
}

#[test]
fn a_packet_said_relative_to_another_than_the_sender_meant_isnt_taken() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..20, None);
    pair.run(500, |_, _, _| vec![0]);
    let sent = packet(ms(500), 20);
    let before = packet(ms(500), 3);
    let [(known, _), (own, octets)] =
        [&before, &sent].map(|it| hbh::Headers::of(it.bytes()).unwrap());
    let mut line = Vec::new();
    own.emit(&known, 1, &mut line);
    // Its payload is another's: the checksum tells.
    line.extend_from_slice(&[0xee; 2]);
    assert_eq!(octets, 28);
    let names = pair.ends[0].hop.session.outbound().unwrap();
    let mut frame = Vec::new();
    let content = Content {
        data: Some((header(20, 20), &line)),
        ..Content::default()
    };
    content.emit(Settings::default().check, names, &mut frame);
    let heard = pair.ends[1].hop.hear(ms(pair.now_ms), &frame, |_, _| true);
    assert_eq!(heard, Heard::Invalid);
}

#[test]
fn one_frame_without_anything_of_worth_takes_no_packets_place() {
    let mut pair = Pair::known();
    pair.ends[0].queue(0..20, Some(1));
    pair.run(500, |_, _, _| vec![0]);
    let receiver = &mut pair.ends[1].hop;
    receiver.accept(ms(pair.now_ms), &header(20, 20), None, Some(1));
    pair.ends[0].queue(20..40, Some(1));
    pair.run(1000, |_, _, _| vec![0]);
    assert!(pair.ends[1].came.iter().copied().eq(0..40));
    // Who sends nothing else isn't asked for it for ever.
    let receiver = &mut pair.ends[1].hop;
    for (serial, next) in [(100, 40), (101, 41)] {
        receiver.accept(ms(pair.now_ms), &header(40, serial), None, Some(1));
        assert_eq!(receiver.receiver.ack(ms(pair.now_ms), false, 64).next, next);
    }
}

/// A packet with this destination and hop limit comes in the place of one that is lost, and then
/// forty more are sent that are given up after so many retries: gives those of them that came, and
/// the wrong ones.
fn in_the_place_of_a_lost_one(last: u8, hops: u8, retries: u16) -> (usize, usize) {
    let mut pair = Pair::known();
    let manner = Manner {
        reliability: Reliability::Retries(retries),
        ..Manner::default()
    };
    let queue = |pair: &mut Pair, numbers: core::ops::Range<u16>| {
        let numbers = numbers.map(|number| (number, manner));
        pair.ends[0].queue.extend(numbers);
    };
    queue(&mut pair, 0..20);
    pair.run(500, |_, _, _| vec![0]);
    let mut other = Vec::new();
    let socket = |last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 7);
    ip::build_udp(
        socket(1),
        socket(last),
        0,
        hops,
        20,
        0,
        &[0, 20],
        &mut other,
    );
    let mut ledger = Ledger::default();
    let other = ledger.admit(ms(0), other, Origin::Own).ok();
    let receiver = &mut pair.ends[1].hop;
    receiver.accept(ms(pair.now_ms), &header(20, 20), other, Some(1));
    queue(&mut pair, 20..21);
    let is_it = |frame: &[u8]| frame.len() > 20 && frame[1..3] == [0, 20];
    pair.run(1000, |from, _, frame| {
        if from == 0 && is_it(frame) {
            Fate::new()
        } else {
            vec![0]
        }
    });
    for number in 21..61 {
        queue(&mut pair, number..number + 1);
        pair.run(1000, |_, _, _| vec![0]);
    }
    let came = (21..61).filter(|it| pair.ends[1].came.contains(it));
    (came.count(), pair.ends[1].wrong)
}

#[test]
fn what_cannot_be_said_relative_to_a_packet_in_anothers_place_is_said_otherwise() {
    assert_eq!(in_the_place_of_a_lost_one(9, 64, 2), (39, 0));
    // Of what is sent once, two in a row have to fail.
    assert_eq!(in_the_place_of_a_lost_one(9, 64, 0), (38, 0));
}

#[test]
fn nothing_has_the_hop_limit_of_a_packet_in_anothers_place() {
    assert_eq!(in_the_place_of_a_lost_one(2, 9, 2), (39, 0));
    assert_eq!(in_the_place_of_a_lost_one(2, 9, 0), (38, 0));
}
