//! Compressor and decompressor stay in step, or find back, whatever is lost between them.

use std::collections::VecDeque;

use proptest::prelude::*;
use strait_link::rohc::{Cids, Fault, Peer, Profile, Received, Settings};

/// A small generator: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    fn happens(&mut self, share: f64) -> bool {
        (self.below(1_000_000) as f64) < share * 1e6
    }
}

fn sum(start: u32, octets: &[u8]) -> u16 {
    let mut sum = start;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// What a flow's packets are like.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Voice6,
    Voice4,
    Udp6,
    Udp4 { random_id: bool },
    Esp6,
    Ping4,
}

struct Flow {
    kind: Kind,
    host: u8,
    sequence: u32,
    timestamp: u32,
    id: u16,
    hops: u8,
    /// Shares of packets that come after a pause, and with another hop limit.
    pauses: f64,
    reroutes: f64,
}

impl Flow {
    fn new(kind: Kind, host: u8, dice: &mut Dice) -> Self {
        Self {
            kind,
            host,
            sequence: dice.draw() as u32,
            timestamp: dice.draw() as u32,
            id: dice.draw() as u16,
            hops: 60,
            pauses: 0.02,
            reroutes: 0.002,
        }
    }

    fn v6(&self) -> bool {
        matches!(self.kind, Kind::Voice6 | Kind::Udp6 | Kind::Esp6)
    }

    fn next(&mut self, dice: &mut Dice) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(160);
        self.id = self.id.wrapping_add(1);
        let pause = dice.happens(self.pauses);
        if pause {
            self.timestamp = self.timestamp.wrapping_add(160 * dice.below(300) as u32);
        }
        if dice.happens(0.02) {
            self.id = self.id.wrapping_add(dice.below(500) as u16);
        }
        if dice.happens(self.reroutes) {
            self.hops = 50 + dice.below(10) as u8;
        }
        if self.kind == (Kind::Udp4 { random_id: true }) {
            self.id = dice.draw() as u16;
        }
        let (protocol, body) = self.body(pause, dice);
        self.packet(protocol, body)
    }

    fn body(&self, pause: bool, dice: &mut Dice) -> (u8, Vec<u8>) {
        let payload: Vec<u8> = (0..20).map(|_| dice.draw() as u8).collect();
        match self.kind {
            Kind::Voice6 | Kind::Voice4 => {
                let mut rtp = vec![0x80, u8::from(pause) << 7 | 96];
                rtp.extend_from_slice(&(self.sequence as u16).to_be_bytes());
                rtp.extend_from_slice(&self.timestamp.to_be_bytes());
                rtp.extend_from_slice(&[9, 9, 9, self.host]);
                rtp.extend_from_slice(&payload);
                (17, udp(5004, &rtp))
            }
            Kind::Udp6 | Kind::Udp4 { .. } => (17, udp(4001, &payload)),
            Kind::Esp6 => {
                let mut esp = vec![0, 0, 1, self.host];
                esp.extend_from_slice(&self.sequence.to_be_bytes());
                esp.extend_from_slice(&payload);
                (50, esp)
            }
            Kind::Ping4 => {
                let mut icmp = vec![8, 0, 0, 0];
                icmp.extend_from_slice(&payload);
                let check = sum(0, &icmp);
                icmp[2..4].copy_from_slice(&check.to_be_bytes());
                (1, icmp)
            }
        }
    }

    fn packet(&self, protocol: u8, mut body: Vec<u8>) -> Vec<u8> {
        let mut packet = Vec::new();
        let (src, dst) = if self.v6() {
            let mut address = [
                0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.host,
            ];
            let src = address.to_vec();
            address[5] = 1;
            (src, address.to_vec())
        } else {
            (vec![10, 1, 0, self.host], vec![10, 2, 0, self.host])
        };
        if protocol == 17 {
            let pseudo = [&src[..], &dst, &[0, 17], &body[4..6]].concat();
            let check = sum(u32::from(!sum(0, &pseudo)), &body);
            body[6..8].copy_from_slice(&check.to_be_bytes());
        }
        if self.v6() {
            packet.extend_from_slice(&[0x6b, 0x80, 0, 0]);
            packet.extend_from_slice(&(body.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[protocol, self.hops]);
        } else {
            packet.extend_from_slice(&[0x45, 0]);
            packet.extend_from_slice(&(20 + body.len() as u16).to_be_bytes());
            packet.extend_from_slice(&self.id.to_be_bytes());
            packet.extend_from_slice(&[0, 0, self.hops, protocol, 0, 0]);
        }
        packet.extend_from_slice(&src);
        packet.extend_from_slice(&dst);
        if !self.v6() {
            let check = sum(0, &packet);
            packet[10..12].copy_from_slice(&check.to_be_bytes());
        }
        packet.extend_from_slice(&body);
        packet
    }
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut udp = vec![0x10, 0];
    udp.extend_from_slice(&port.to_be_bytes());
    udp.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    udp.extend_from_slice(&[0, 0]);
    udp.extend_from_slice(payload);
    udp
}

const KINDS: [Kind; 7] = [
    Kind::Voice6,
    Kind::Voice4,
    Kind::Udp6,
    Kind::Udp4 { random_id: false },
    Kind::Udp4 { random_id: true },
    Kind::Esp6,
    Kind::Ping4,
];

#[derive(Debug, Default)]
struct Outcome {
    arrived: u32,
    delivered: u32,
    wrong: u32,
    header_octets: usize,
    longest_outage: u32,
}

/// Sends `packets` packets of flows of `kinds`, of which a share is lost. Feedback takes `delay`
/// packets to come back, and a share of it is lost too; there is none without a delay.
fn run(
    kinds: &[Kind],
    settings: Settings,
    packets: u32,
    loss: f64,
    delay: Option<usize>,
) -> Outcome {
    let settings = Settings {
        feedback: delay.is_some(),
        ..settings
    };
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let mut dice = Dice(loss.to_bits());
    let mut flows: Vec<Flow> = kinds
        .iter()
        .zip(1..)
        .map(|(&kind, host)| Flow::new(kind, host, &mut dice))
        .collect();
    let mut back: VecDeque<Option<Vec<u8>>> = VecDeque::new();
    let mut outcome = Outcome::default();
    let mut outage = 0;
    for _ in 0..packets {
        let chosen = dice.below(flows.len() as u64) as usize;
        let packet = flows[chosen].next(&mut dice);
        let mut line = Vec::new();
        left.compress(0, &packet, &mut line);
        outcome.header_octets += line.len();
        if !dice.happens(loss) {
            outcome.arrived += 1;
            let mut out = Vec::new();
            match right.decompress(&line, &mut out) {
                Ok(Received::Packet) => {
                    outcome.delivered += 1;
                    outcome.wrong += u32::from(out != packet);
                    outage = 0;
                }
                _ => {
                    assert!(out.is_empty());
                    outage += 1;
                    outcome.longest_outage = outcome.longest_outage.max(outage);
                }
            }
        }
        if let Some(delay) = delay {
            let mut feedback = Vec::new();
            let owed = right.put_feedback(&mut feedback);
            back.push_back(owed.then_some(feedback).filter(|_| !dice.happens(loss)));
            if back.len() > delay
                && let Some(Some(feedback)) = back.pop_front()
            {
                let mut out = Vec::new();
                let received = left.decompress(&feedback, &mut out);
                assert_eq!(received, Ok(Received::Nothing));
            }
        }
    }
    outcome
}

#[test]
fn nearly_every_packet_that_arrives_is_delivered_and_none_wrongly() {
    let settings = Settings::new(Cids::Small(15));
    for loss in [0.0, 0.01, 0.05, 0.1, 0.2] {
        for delay in [None, Some(1), Some(20)] {
            let outcome = run(&KINDS, settings, 30_000, loss, delay);
            println!("{loss} {delay:?} {outcome:?}");
            assert_eq!(outcome.wrong, 0);
            let lost = outcome.arrived - outcome.delivered;
            // A run of losses as long as the repeats leaves a context behind, rarely.
            assert!(loss > 0.0 || lost == 0);
            assert!(
                f64::from(lost) <= 0.005 * f64::from(outcome.arrived),
                "{outcome:?}"
            );
        }
    }
}

#[test]
fn more_flows_than_contexts_never_mix() {
    let kinds: Vec<Kind> = KINDS.into_iter().cycle().take(40).collect();
    for cids in [Cids::Small(15), Cids::Small(3), Cids::Large(20)] {
        for (loss, delay) in [(0.0, None), (0.2, None), (0.2, Some(5))] {
            let outcome = run(&kinds, Settings::new(cids), 20_000, loss, delay);
            println!("{cids:?} {loss} {delay:?} {outcome:?}");
            assert_eq!(outcome.wrong, 0, "{cids:?} {loss}");
            assert!(loss > 0.0 || outcome.delivered == outcome.arrived);
        }
    }
}

#[test]
fn a_steady_call_needs_three_octets_a_packet() {
    for feedback in [true, false] {
        let settings = Settings {
            feedback,
            ..Settings::new(Cids::Small(15))
        };
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        let mut dice = Dice(5);
        let mut call = Flow::new(Kind::Voice6, 1, &mut dice);
        (call.pauses, call.reroutes) = (0.0, 0.0);
        let mut sizes = Vec::new();
        for _ in 0..3000 {
            let packet = call.next(&mut dice);
            let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
            let profile = left.compress(0, &packet, &mut line);
            assert_eq!(profile, Profile::Rtp);
            sizes.push(line.len() + 60 - packet.len());
            assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
            right.put_feedback(&mut back);
            assert_eq!(left.decompress(&back, &mut out), Ok(Received::Nothing));
        }
        // The first second: five packets of a slow vocoder's call.
        let octets: usize = sizes[5..].iter().sum();
        let mean = octets as f64 / (sizes.len() - 5) as f64;
        println!("{feedback}: {mean:.3} {:?}", &sizes[..8]);
        assert!(mean <= 3.1, "{mean}");
    }
}

#[test]
fn a_decompressor_that_starts_anew_is_told_everything_within_one_round_trip() {
    let settings = Settings::new(Cids::Small(15));
    let mut left = Peer::new(settings);
    let mut dice = Dice(8);
    let mut call = Flow::new(Kind::Voice6, 1, &mut dice);
    let mut right = Peer::new(settings);
    let mut exchange = |left: &mut Peer, right: &mut Peer| {
        let packet = call.next(&mut dice);
        let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        let received = right.decompress(&line, &mut out);
        assert!(received != Ok(Received::Packet) || out == packet);
        if right.put_feedback(&mut back) {
            let heard = left.decompress(&back, &mut out);
            assert_eq!(heard, Ok(Received::Nothing));
        }
        received
    };
    for _ in 0..50 {
        assert_eq!(exchange(&mut left, &mut right), Ok(Received::Packet));
    }
    right = Peer::new(settings);
    assert_eq!(exchange(&mut left, &mut right), Err(Fault::NoContext));
    assert_eq!(exchange(&mut left, &mut right), Ok(Received::Packet));
    // The other end anew: it says everything of itself.
    left = Peer::new(settings);
    assert_eq!(exchange(&mut left, &mut right), Ok(Received::Packet));
}

#[test]
fn a_gap_of_two_hundred_packets_is_bridged_by_the_transport_checksum() {
    let settings = Settings {
        feedback: false,
        ..Settings::new(Cids::Small(15))
    };
    for (gap, bridged) in [(14, true), (200, true), (270, false)] {
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        let mut dice = Dice(9);
        let mut call = Flow::new(Kind::Voice6, 1, &mut dice);
        (call.pauses, call.reroutes) = (0.0, 0.0);
        for number in 0..40 + gap + 1 {
            let packet = call.next(&mut dice);
            let (mut line, mut out) = (Vec::new(), Vec::new());
            left.compress(0, &packet, &mut line);
            if number < 40 || number == 40 + gap {
                let received = right.decompress(&line, &mut out);
                let expected = number < 40 || bridged;
                assert_eq!(received.is_ok(), expected, "{gap} {number}");
                assert!(out == packet || !expected);
            }
        }
    }
}

#[test]
fn what_is_no_flow_goes_as_it_is() {
    let settings = Settings::new(Cids::Small(15));
    let mut dice = Dice(3);
    let mut whole = Flow::new(Kind::Udp4 { random_id: false }, 1, &mut dice).next(&mut dice);
    whole[27] ^= 1;
    let wrong_checksum = whole.clone();
    whole[0] = 0x46;
    for packet in [wrong_checksum, whole, vec![0x60], vec![], vec![0xfd; 9]] {
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        for number in 0..6 {
            let (mut line, mut out) = (Vec::new(), Vec::new());
            let profile = left.compress(1, &packet, &mut line);
            assert_eq!(profile, Profile::Uncompressed);
            assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
            assert_eq!(out, packet);
            if number > 4 && matches!(packet.first(), Some(0x45 | 0x60)) {
                assert_eq!(line.len(), packet.len() + 1);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn spoilt_frames_do_no_harm(seed: u64, large: bool) {
        let cids = if large { Cids::Large(40) } else { Cids::Small(15) };
        let settings = Settings::new(cids);
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        let mut dice = Dice(seed);
        let mut flows: Vec<Flow> = KINDS
            .into_iter()
            .zip(1..)
            .map(|(kind, host)| Flow::new(kind, host, &mut dice))
            .collect();
        for _ in 0..300 {
            let chosen = dice.below(flows.len() as u64) as usize;
            let packet = flows[chosen].next(&mut dice);
            let (mut line, mut out) = (Vec::new(), Vec::new());
            left.compress(0, &packet, &mut line);
            for _ in 0..dice.below(3) {
                let at = dice.below(line.len() as u64) as usize;
                line[at] = dice.draw() as u8;
            }
            line.truncate(line.len() - dice.below(2) as usize * dice.below(9) as usize);
            let _ = right.decompress(&line, &mut out);
            let mut back = Vec::new();
            right.put_feedback(&mut back);
            let _ = left.decompress(&back, &mut out);
        }
    }

    #[test]
    fn any_packets_come_back(packets in prop::collection::vec(any_packet(), 1..40)) {
        let settings = Settings::new(Cids::Small(4));
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        for (class, packet) in packets {
            let (mut line, mut out) = (Vec::new(), Vec::new());
            left.compress(class, &packet, &mut line);
            prop_assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
            prop_assert_eq!(&out, &packet);
        }
    }
}

/// A packet of one of a few flows whose fields jump about, some of them broken.
fn any_packet() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let flow = (0..KINDS.len(), 0u8..2, any::<[u32; 3]>(), 0u8..4);
    (
        flow,
        0u8..3,
        any::<u64>(),
        prop::option::of(any::<(usize, u8)>()),
    )
        .prop_map(|((kind, host, numbers, small), class, seed, spoil)| {
            let mut dice = Dice(seed);
            let mut flow = Flow::new(KINDS[kind], host, &mut dice);
            let [sequence, timestamp, id] = numbers.map(|number| match small {
                0 => number % 4,
                1 => number % 40,
                2 => number % 70_000,
                _ => number,
            });
            (flow.sequence, flow.timestamp, flow.id) = (sequence, timestamp, id as u16);
            flow.hops = dice.below(3) as u8;
            let mut packet = flow.next(&mut dice);
            if let Some((at, value)) = spoil.filter(|_| small == 3) {
                let at = at % packet.len();
                packet[at] = value;
            }
            (class, packet)
        })
}
