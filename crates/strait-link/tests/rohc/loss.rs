//! Compressor and decompressor stay in step, or find back, whatever is lost between them.

use std::collections::VecDeque;

use crate::traffic::{Dice, Flow, KINDS, Kind};
use proptest::prelude::*;
use strait_link::rohc::{Beyond, Cids, Fault, Peer, Profile, Received, Settings};

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
    (settings, beyond): (Settings, &Beyond),
    packets: u32,
    loss: f64,
    delay: Option<usize>,
) -> Outcome {
    let settings = Settings {
        feedback: delay.is_some(),
        ..settings
    };
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    left.agree(beyond, &beyond.provisions);
    right.agree(beyond, &beyond.provisions);
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
fn every_packet_that_arrives_is_delivered_and_none_wrongly() {
    let settings = Settings::new(Cids::Small(15));
    let all = Beyond {
        far_timestamps: true,
        counts: true,
        sums_vouched: true,
        checksums_rebuilt: true,
        provisions: vec![
            Flow::provision(Kind::Voice6, 1),
            Flow::provision(Kind::Udp6, 3),
        ],
    };
    let beyond = [Beyond::default(), all];
    for (loss, beyond) in [0.0, 0.01, 0.05, 0.1, 0.2]
        .into_iter()
        .flat_map(|loss| [(loss, &beyond[0]), (loss, &beyond[1])])
    {
        for delay in [None, Some(1), Some(20)] {
            let outcome = run(&KINDS, (settings, beyond), 30_000, loss, delay);
            println!("{loss} {delay:?} {outcome:?}");
            assert_eq!(outcome.wrong, 0);
            let lost = outcome.arrived - outcome.delivered;
            // A run of losses as long as the repeats leaves a context behind, rarely.
            assert!(loss > 0.1 || lost == 0);
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
            let outcome = run(
                &kinds,
                (Settings::new(cids), &Beyond::default()),
                20_000,
                loss,
                delay,
            );
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
fn a_packet_behind_a_long_silence_needs_no_more_octets_than_behind_a_short_one() {
    // Steps of silence, and octets of the first header behind it: by the standard, and if the
    // other end finds timestamps by the UDP checksum. The packet may be read by whoever has only
    // the last but three.
    for (silence, by_standard, far) in [
        (45, 4, 4),
        (46, 6, 4),
        (381, 6, 4),
        (382, 7, 4),
        (1069, 7, 4),
        (1070, 7, 7),
    ] {
        for (far_timestamps, expected, lost) in [
            (false, by_standard, 17),
            (false, by_standard, 20),
            (true, far, 17),
            (true, far, 20),
        ] {
            let settings = Settings::new(Cids::Small(15));
            let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
            let beyond = Beyond {
                far_timestamps,
                ..Beyond::default()
            };
            left.agree(&beyond, &beyond.provisions);
            right.agree(&beyond, &beyond.provisions);
            let mut dice = Dice(9);
            let mut call = Flow::new(Kind::Voice6, 1, &mut dice);
            (call.pauses, call.reroutes) = (0.0, 0.0);
            for number in 0..40 {
                if number == 20 {
                    call.timestamp = call.timestamp.wrapping_add(160 * (silence - 1));
                }
                let packet = call.next(&mut dice);
                let (mut line, mut out) = (Vec::new(), Vec::new());
                left.compress(0, &packet, &mut line);
                // Of the packets before the silence the last three are lost, or of those behind it
                // the first three.
                let octets = line.len() + 60 - packet.len();
                assert!(number != 20 || octets == expected, "{silence} {octets}");
                if (lost..lost + 3).contains(&number) {
                    continue;
                }
                let received = right.decompress(&line, &mut out);
                assert_eq!(received, Ok(Received::Packet), "{silence} {number}");
                assert_eq!(out, packet);
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
            let cut = dice.below(2) as usize * dice.below(9) as usize;
            line.truncate(line.len().saturating_sub(cut));
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

/// The mean header, in octets, of `packets` packets of one flow, the first ones and refreshes
/// included.
fn mean_header(kind: Kind, feedback: bool, packets: usize) -> f64 {
    let settings = Settings {
        feedback,
        ..Settings::new(Cids::Small(15))
    };
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let mut dice = Dice(5);
    let mut flow = Flow::new(kind, 1, &mut dice);
    (flow.pauses, flow.reroutes) = (0.0, 0.0);
    let mut octets = 0;
    for _ in 0..packets {
        let packet = flow.next(&mut dice);
        let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        let header = 40 + usize::from(packet[52] >> 4) * 4;
        octets += line.len() + header - packet.len();
        assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
        assert_eq!(out, packet);
        right.put_feedback(&mut back);
        assert_eq!(left.decompress(&back, &mut out), Ok(Received::Nothing));
    }
    octets as f64 / packets as f64
}

#[test]
fn tcp_needs_four_octets_a_segment_and_eight_with_timestamps() {
    for feedback in [true, false] {
        for (stamps, most) in [(true, 8.3), (false, 4.3)] {
            // Without feedback everything is said oftener.
            let most = if feedback { most } else { most + 0.5 };
            for kind in [Kind::Bulk6 { stamps }, Kind::Acks6 { stamps }] {
                let mean = mean_header(kind, feedback, 2000);
                println!("{kind:?} {feedback}: {mean:.3}");
                assert!(mean <= most, "{kind:?} {feedback}: {mean}");
            }
        }
    }
}

#[test]
fn who_lost_the_first_packets_without_options_is_told_once_more_that_they_went() {
    let settings = Settings {
        feedback: false,
        ..Settings::new(Cids::Small(15))
    };
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let mut dice = Dice(5);
    let mut flow = Flow::new(Kind::Acks6 { stamps: true }, 1, &mut dice);
    flow.reroutes = 0.0;
    for number in 0..80 {
        // Behind a pause come five selective acknowledgements.
        flow.pauses = if number == 40 { 1.0 } else { 0.0 };
        let packet = flow.next(&mut dice);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        if (46..52).contains(&number) {
            continue;
        }
        let received = right.decompress(&line, &mut out);
        let behind = (52..54).contains(&number);
        assert_eq!(received.is_ok(), !behind, "{number}");
        assert!(behind || out == packet);
    }
}

#[test]
fn every_format_of_tcp_is_used_and_read() {
    let settings = Settings::new(Cids::Small(1));
    let mut seen = [[0u32; 256]; 2];
    let kinds = [
        Kind::Bulk6 { stamps: false },
        Kind::Acks6 { stamps: true },
        Kind::Bulk4,
        Kind::Acks4,
        Kind::Talk4,
        Kind::Talk6,
    ];
    for (kind, host) in kinds.into_iter().zip(1..).chain([(Kind::Talk4, 6)]) {
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        let mut dice = Dice(4);
        let mut flow = Flow::new(kind, host, &mut dice);
        for _ in 0..20_000 {
            if dice.happens(0.001) {
                // Another host's packets, as far as identifications go.
                flow.id = dice.draw() as u16;
            }
            let packet = flow.next(&mut dice);
            let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
            assert_eq!(left.compress(0, &packet, &mut line), Profile::Tcp);
            seen[usize::from(packet[0] >> 4 == 6)][usize::from(line[0])] += 1;
            assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
            assert_eq!(out, packet);
            right.put_feedback(&mut back);
            assert_eq!(left.decompress(&back, &mut out), Ok(Received::Nothing));
        }
    }
    let [v4, v6] = seen;
    let among = |seen: &[u32; 256], from: usize, to: usize| seen[from..to].iter().sum::<u32>();
    // Where identifications don't count, and where they do: the formats' first octets.
    let random = [
        (0x00, 0x80),
        (0x80, 0xa0),
        (0xa0, 0xb0),
        (0xb0, 0xb8),
        (0xb8, 0xbc),
        (0xbc, 0xc0),
        (0xc0, 0xd0),
        (0xd0, 0xe0),
        (0xfa, 0xfb),
    ];
    let sequential = [
        (0x00, 0x80),
        (0x80, 0x90),
        (0x90, 0xa0),
        (0xa0, 0xb0),
        (0xb0, 0xc0),
        (0xc0, 0xd0),
        (0xd0, 0xd8),
        (0xd8, 0xe0),
        (0xf8, 0xf9),
        (0xfa, 0xfb),
    ];
    for (seen, ranges) in [(&v6, &random[..]), (&v4, &sequential[..])] {
        for &(from, to) in ranges {
            println!("{from:02x}: {}", among(seen, from, to));
            assert!(among(seen, from, to) > 0, "{from:02x}");
        }
    }
}
