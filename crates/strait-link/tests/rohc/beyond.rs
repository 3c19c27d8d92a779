//! What two ends of ours may agree on beyond the standard: checksums that are rebuilt, and flows
//! known beforehand.

use crate::traffic::{Dice, Flow, Kind};
use strait_link::rohc::{Beyond, Cids, Fault, Peer, Profile, Provision, Received, Settings};

fn pair(beyond: &Beyond) -> [Peer; 2] {
    let settings = Settings::new(Cids::Small(15));
    [settings; 2].map(|settings| {
        let mut end = Peer::new(settings);
        end.agree(beyond, &beyond.provisions);
        end
    })
}

/// What goes over the line for `packet`, which arrives as it was.
fn pass([left, right]: &mut [Peer; 2], packet: &[u8]) -> (Profile, Vec<u8>) {
    let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
    let profile = left.compress(0, packet, &mut line);
    assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
    assert_eq!(out, packet);
    right.put_feedback(&mut back);
    assert_eq!(left.decompress(&back, &mut out), Ok(Received::Nothing));
    (profile, line)
}

fn rebuilt() -> Beyond {
    Beyond {
        checksums_rebuilt: true,
        ..Beyond::default()
    }
}

fn call(host: u8, dice: &mut Dice) -> Flow {
    let mut call = Flow::new(Kind::Voice6, host, dice);
    (call.pauses, call.reroutes) = (0.0, 0.0);
    call
}

#[test]
fn a_header_whose_checksum_is_rebuilt_has_two_octets_less() {
    for (kind, checksum, headers) in [
        (Kind::Voice6, 2, 60),
        (Kind::Voice4, 2, 40),
        (Kind::Udp6, 2, 48),
        // These have none that could be rebuilt.
        (Kind::Esp6, 0, 48),
        // Theirs has to decide in doubts.
        (Kind::Acks6 { stamps: false }, 0, 60),
    ] {
        let mut lengths = [0, 0];
        for (length, beyond) in lengths.iter_mut().zip([Beyond::default(), rebuilt()]) {
            let mut ends = pair(&beyond);
            let mut dice = Dice(4);
            let mut flow = Flow::new(kind, 1, &mut dice);
            (flow.pauses, flow.reroutes) = (0.0, 0.0);
            for _ in 0..100 {
                let packet = flow.next(&mut dice);
                let (_, line) = pass(&mut ends, &packet);
                *length = (line.len() + headers).saturating_sub(packet.len());
            }
        }
        assert_eq!(lengths[0] - lengths[1], checksum, "{kind:?} {lengths:?}");
        assert!(kind != Kind::Voice6 || lengths == [3, 1]);
    }
}

#[test]
fn a_wrong_checksum_arrives_wrong_and_spoils_nothing() {
    let mut ends = pair(&rebuilt());
    let mut dice = Dice(4);
    let mut call = call(1, &mut dice);
    for number in 0..60 {
        let mut packet = call.next(&mut dice);
        let wrong = number % 7 == 5;
        if wrong {
            packet[46] ^= 1;
        }
        let (profile, _) = pass(&mut ends, &packet);
        assert_eq!(profile == Profile::Uncompressed, wrong);
    }
}

/// An IPv4 call's packet without a UDP checksum.
fn unchecked(mut packet: Vec<u8>) -> Vec<u8> {
    packet[26..28].fill(0);
    packet
}

#[test]
fn a_flow_that_leaves_its_checksum_out_is_no_flow_to_rebuild() {
    let mut ends = pair(&rebuilt());
    let mut dice = Dice(4);
    let mut call = Flow::new(Kind::Voice4, 1, &mut dice);
    (call.pauses, call.reroutes) = (0.0, 0.0);
    for number in 0..120 {
        let packet = call.next(&mut dice);
        // With, without, and with again.
        let packet = if (40..80).contains(&number) {
            unchecked(packet)
        } else {
            packet
        };
        pass(&mut ends, &packet);
    }
}

#[test]
fn damage_in_the_header_of_a_rebuilt_packet_is_seen_by_its_own_check() {
    let mut ends = pair(&rebuilt());
    let mut dice = Dice(4);
    let mut call = call(1, &mut dice);
    for _ in 0..30 {
        pass(&mut ends, &call.next(&mut dice));
    }
    let packet = call.next(&mut dice);
    let mut line = Vec::new();
    ends[0].compress(0, &packet, &mut line);
    line[0] ^= 1;
    let mut out = Vec::new();
    let received = ends[1].decompress(&line, &mut out);
    assert_eq!((received, out), (Err(Fault::BadCheck), vec![]));
}

fn provisioned() -> Beyond {
    Beyond {
        provisions: [1, 2]
            .map(|host| Flow::provision(Kind::Voice6, host))
            .into(),
        ..Beyond::default()
    }
}

#[test]
fn a_call_known_beforehand_begins_with_what_changes() {
    for (beyond, octets) in [(Beyond::default(), 62), (provisioned(), 25)] {
        for host in [1, 2] {
            let mut ends = pair(&beyond);
            let mut dice = Dice(4);
            let mut call = call(host, &mut dice);
            let packet = call.next(&mut dice);
            let (profile, line) = pass(&mut ends, &packet);
            assert_eq!(profile, Profile::Rtp);
            let first = line.len() + 60 - packet.len();
            // The second flow has the second number.
            let number = usize::from(host == 2 && octets == 25);
            assert_eq!(first, octets + number);
            for _ in 0..20 {
                pass(&mut ends, &call.next(&mut dice));
            }
        }
    }
}

#[test]
fn an_end_that_has_forgotten_all_still_knows_what_is_known_beforehand() {
    let mut ends = pair(&provisioned());
    let mut dice = Dice(4);
    let mut call = call(1, &mut dice);
    for _ in 0..20 {
        pass(&mut ends, &call.next(&mut dice));
    }
    ends[1].forget_received();
    let mut line = Vec::new();
    ends[0].compress(0, &call.next(&mut dice), &mut line);
    let received = ends[1].decompress(&line, &mut Vec::new());
    assert_eq!(received, Err(Fault::NoContext));
    let mut back = Vec::new();
    assert!(ends[1].put_feedback(&mut back));
    ends[0]
        .decompress(&back, &mut Vec::new())
        .expect("feedback");
    let packet = call.next(&mut dice);
    let (_, line) = pass(&mut ends, &packet);
    assert!(line.len() < packet.len() - 60 + 30, "{}", line.len());
}

#[test]
fn ends_that_know_other_flows_never_take_one_for_another() {
    // What the hello rules out: the check covers what isn't said.
    let other = Beyond {
        provisions: [3, 4]
            .map(|host| Flow::provision(Kind::Voice6, host))
            .into(),
        ..Beyond::default()
    };
    for seed in 0..2000 {
        let settings = Settings::new(Cids::Small(15));
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        left.agree(&provisioned(), &[]);
        right.agree(&other, &other.provisions);
        let mut dice = Dice(seed);
        let packet = call(1, &mut dice).next(&mut dice);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        let profile = left.compress(0, &packet, &mut line);
        let delivered = right.decompress(&line, &mut out).is_ok();
        // A UDP checksum of zero is none, and the packet goes as it is.
        assert_eq!(delivered, profile == Profile::Uncompressed);
    }
}

#[test]
fn hosts_may_label_flows_as_they_like() {
    for label in [1, 0xf_ffff] {
        let mut ends = pair(&provisioned());
        let mut dice = Dice(4);
        let mut call = call(1, &mut dice);
        for number in 0..30 {
            let mut packet = call.next(&mut dice);
            packet[1] = packet[1] & 0xf0 | (label >> 16) as u8;
            packet[2..4].copy_from_slice(&(label as u16).to_be_bytes());
            let (_, line) = pass(&mut ends, &packet);
            let first = line[..2] == [0xf8, 0x41];
            assert_eq!(first, number == 0);
        }
    }
}

#[test]
fn other_flows_never_get_the_numbers_of_those_known_beforehand() {
    let mut ends = pair(&provisioned());
    let mut dice = Dice(4);
    for host in 10..60 {
        let mut call = call(host, &mut dice);
        let (_, line) = pass(&mut ends, &call.next(&mut dice));
        assert!((0xe2..=0xee).contains(&line[0]), "{:02x}", line[0]);
    }
    let (_, line) = pass(&mut ends, &call(1, &mut dice).next(&mut dice));
    assert_eq!(line[0], 0xf8);
}

#[test]
fn flows_of_both_families_are_told_apart() {
    let v4 = Provision {
        src: [10, 1, 0, 1].into(),
        dst: [10, 2, 0, 1].into(),
        ports: Flow::provision(Kind::Voice6, 1).ports,
    };
    let beyond = Beyond {
        provisions: vec![v4],
        checksums_rebuilt: true,
        ..Beyond::default()
    };
    let mut ends = pair(&beyond);
    let mut dice = Dice(4);
    let mut call = Flow::new(Kind::Voice4, 1, &mut dice);
    for number in 0..50 {
        let packet = call.next(&mut dice);
        let (_, line) = pass(&mut ends, &packet);
        assert!(number > 0 || line[..2] == [0xf8, 0xc1], "{line:02x?}");
    }
}

#[test]
fn what_says_a_context_with_a_wrong_checksum_is_refused_where_none_is_compressed() {
    let settings = Settings {
        refresh_dynamic: 8,
        ..Settings::new(Cids::Small(15))
    };
    for (sums_vouched, kind) in [true, false].into_iter().flat_map(|vouched| {
        let kinds = [Kind::Voice6, Kind::Udp6];
        kinds.map(|kind| (vouched, kind))
    }) {
        let beyond = Beyond {
            sums_vouched,
            ..Beyond::default()
        };
        let mut ends = [Peer::new(settings), Peer::new(settings)];
        ends.iter_mut().for_each(|end| end.agree(&beyond, &[]));
        let [left, right] = &mut ends;
        let mut dice = Dice(5);
        let mut flow = Flow::new(kind, 1, &mut dice);
        (flow.pauses, flow.reroutes) = (0.0, 0.0);
        let mut kinds_seen = [false; 2];
        for _ in 0..40 {
            let packet = flow.next(&mut dice);
            let mut line = Vec::new();
            left.compress(0, &packet, &mut line);
            let place = usize::from(line[0] == 0xf8);
            if matches!(line[0], 0xf8 | 0xfc | 0xfd) && !kinds_seen[place] {
                kinds_seen[place] = true;
                // The payload's end, which only that checksum covers.
                let mut wrong = line.clone();
                *wrong.last_mut().unwrap() ^= 1;
                let mut out = Vec::new();
                let received = right.decompress(&wrong, &mut out);
                let expected = if sums_vouched {
                    Err(Fault::BadCheck)
                } else {
                    Ok(Received::Packet)
                };
                assert_eq!(received, expected, "{kind:?}");
                assert_eq!(out.is_empty(), sums_vouched);
                if !sums_vouched {
                    continue;
                }
            }
            let mut out = Vec::new();
            assert_eq!(
                right.decompress(&line, &mut out),
                Ok(Received::Packet),
                "{kind:?}"
            );
            assert_eq!(out, packet);
        }
        assert_eq!(kinds_seen, [true, true], "{kind:?}");
    }
}
