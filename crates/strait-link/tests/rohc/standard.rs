//! Rules of the standards that only other implementations would notice if they were broken.

use crate::traffic::{Dice, Flow, KINDS, Kind};
use strait_link::rohc::{
    Cids, Compressor, Decompressor, Doubt, Fault, Peer, Profile, Received, Settings,
};

const SETTINGS: Settings = Settings {
    feedback: false,
    ..Settings::new(Cids::Small(15))
};

/// A flow that never pauses nor finds another way.
fn steady(kind: Kind, dice: &mut Dice) -> Flow {
    let mut flow = Flow::new(kind, 1, dice);
    (flow.pauses, flow.reroutes) = (0.0, 0.0);
    flow
}

/// Mean octets of header of packets whose identification is always `id`, without feedback.
fn mean_header(kind: Kind, settings: Settings, id: u16) -> f64 {
    let (mut compressor, mut decompressor) =
        (Compressor::new(settings), Decompressor::new(settings));
    let mut dice = Dice(3);
    let mut flow = steady(kind, &mut dice);
    flow.fixed_id = Some(id);
    let mut octets = 0;
    for _ in 0..10_000 {
        let packet = flow.next(&mut dice);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        compressor.compress(0, &packet, &mut line);
        let header = match kind {
            Kind::Voice4 => 40,
            _ => 20,
        };
        octets += line.len() + header - packet.len();
        let received = decompressor.decompress(&line, &mut out, |_| {});
        assert_eq!(received, Ok(Received::Packet));
        assert_eq!(out, packet);
    }
    f64::from(octets as u32) / 1e4
}

#[test]
fn an_identification_that_stays_the_same_costs_nothing() {
    let unknowing = Settings {
        static_ids: false,
        ..SETTINGS
    };
    for id in [0, 0xbeef] {
        let voice = mean_header(Kind::Voice4, SETTINGS, id);
        let ping = mean_header(Kind::Ping4, SETTINGS, id);
        println!("{id:04x}: RTP {voice:.3}, ICMP {ping:.3}");
        assert!(voice < 3.2 && ping < 1.1);
        // A decompressor of RFC 3095 alone knows them only in the profile for IP.
        let voice = mean_header(Kind::Voice4, unknowing, id);
        let ping = mean_header(Kind::Ping4, unknowing, id);
        assert!(voice > 5.0 && ping < 1.1);
    }
}

#[test]
fn identifications_may_begin_and_cease_to_stay_the_same() {
    for kind in [Kind::Voice4, Kind::Ping4, Kind::Udp4 { random_id: false }] {
        let (mut left, mut right) = (Peer::new(SETTINGS), Peer::new(SETTINGS));
        let mut dice = Dice(3);
        let mut flow = steady(kind, &mut dice);
        for number in 0..400 {
            flow.fixed_id = match number / 40 {
                0 | 3 | 8 => None,
                4..=6 => Some(dice.draw() as u16),
                id => Some(id),
            };
            let packet = flow.next(&mut dice);
            let (mut line, mut out) = (Vec::new(), Vec::new());
            left.compress(0, &packet, &mut line);
            assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
            assert_eq!(out, packet, "{kind:?} {number}");
        }
    }
}

/// The longest header, in octets, of packets behind the first ones of a flow that changes with each
/// tenth packet.
fn longest_header(kind: Kind, change: impl Fn(&mut Flow), settings: Settings) -> usize {
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let mut dice = Dice(3);
    let mut flow = steady(kind, &mut dice);
    let mut longest = 0;
    for number in 0..200 {
        if number % 10 == 0 {
            change(&mut flow);
        }
        let packet = flow.next(&mut dice);
        let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        let header = match kind {
            Kind::Voice6 => 60,
            Kind::Voice4 => 40,
            Kind::Esp6 | Kind::Udp6 => 48,
            Kind::Udp4 { .. } => 28,
            _ => 20,
        };
        if number > 20 {
            longest = longest.max(line.len() + header - packet.len());
        }
        assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
        assert_eq!(out, packet, "{kind:?} {number}");
        right.put_feedback(&mut back);
        assert_eq!(left.decompress(&back, &mut out), Ok(Received::Nothing));
    }
    longest
}

#[test]
fn what_changes_rarely_is_said_by_extension_3() {
    let hops = |flow: &mut Flow| flow.hops ^= 1;
    let padding = |flow: &mut Flow| flow.padding = !flow.padding;
    let with_feedback = Settings {
        feedback: true,
        ..SETTINGS
    };
    for settings in [SETTINGS, with_feedback] {
        for (kind, most) in [
            (Kind::Voice6, 8),
            (Kind::Voice4, 10),
            (Kind::Udp6, 7),
            (Kind::Udp4 { random_id: false }, 10),
            (Kind::Ping4, 8),
            (Kind::Esp6, 6),
        ] {
            let longest = longest_header(kind, hops, settings);
            assert!(longest <= most, "{kind:?} {longest}");
        }
        let longest = longest_header(Kind::Voice6, padding, settings);
        assert_eq!(longest, 8);
    }
}

#[test]
fn esp_without_counting_identifications_is_told_without_extensions_0_and_1() {
    let mut compressor = Compressor::new(SETTINGS);
    let mut dice = Dice(3);
    let mut flow = steady(Kind::Esp6, &mut dice);
    let mut extended = 0;
    for number in 0..300 {
        if number % 30 == 29 {
            flow.sequence = flow.sequence.wrapping_add(dice.below(300) as u32);
        }
        let mut line = Vec::new();
        compressor.compress(0, &flow.next(&mut dice), &mut line);
        if line[0] & 0xe0 == 0xc0 && line[1] & 0x80 != 0 {
            extended += 1;
            assert_eq!(line[2] >> 6, 3, "{line:02x?}");
        }
    }
    assert!(extended > 5);
}

#[test]
fn padding_is_said_with_the_flags_of_rtp() {
    let (mut left, mut right) = (Peer::new(SETTINGS), Peer::new(SETTINGS));
    let mut dice = Dice(3);
    let mut call = steady(Kind::Voice6, &mut dice);
    call.padding = true;
    let mut said = 0;
    for number in 0..60 {
        if number > 30 {
            // Another stride than before.
            call.timestamp = call.timestamp.wrapping_add(7);
        }
        let packet = call.next(&mut dice);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        let stamps = |flags: u8| match flags & 0x10 {
            0 => 0,
            _ if line[4] & 0xe0 == 0xc0 => 3,
            _ if line[4] & 0xc0 == 0x80 => 2,
            _ if line[4] & 0x80 == 0 => 1,
            _ => 4,
        };
        // UOR-2 with extension 3 that has flags of RTP.
        if line[0] & 0xe0 == 0xc0 && line[2] & 0x80 != 0 && line[3] & 0xe1 == 0xc1 {
            said += 1;
            let flags = line[4 + stamps(line[3])];
            assert_eq!(flags & 0x20, 0x20, "{line:02x?}");
            assert_eq!(line[5 + stamps(line[3])], 0x80 | 96);
        }
        assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
        assert_eq!(out, packet);
    }
    assert!(said > 0);
}

/// How many whole packets of a flow are refused because one damaged one was.
fn refused_with_it(kind: Kind, doubt: Doubt) -> u32 {
    let settings = Settings { doubt, ..SETTINGS };
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let mut dice = Dice(3);
    let mut flow = steady(kind, &mut dice);
    let mut refused = 0;
    for number in 0..400 {
        let packet = flow.next(&mut dice);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        if number % 100 == 60 {
            // In the header's own check, or where TCP has it.
            line[if matches!(packet[6], 6) { 1 } else { 0 }] ^= 1;
        }
        match right.decompress(&line, &mut out) {
            Ok(_) => assert_eq!(out, packet),
            Err(_) => refused += u32::from(number % 100 != 60),
        }
    }
    refused
}

#[test]
fn one_damaged_packet_makes_no_whole_one_be_refused() {
    for kind in [
        Kind::Voice6,
        Kind::Voice4,
        Kind::Udp6,
        Kind::Udp4 { random_id: true },
        Kind::Esp6,
        Kind::Ping4,
    ] {
        assert_eq!(refused_with_it(kind, Doubt::PATIENT), 0, "{kind:?}");
    }
    // Where one is enough to doubt, the transport checksum still vouches for what it covers.
    assert_eq!(refused_with_it(Kind::Voice6, Doubt::AT_ONCE), 0);
    assert!(refused_with_it(Kind::Esp6, Doubt::AT_ONCE) > 100);
}

#[test]
fn a_flow_with_wrong_transport_checksums_loses_nothing_but_what_is_lost() {
    // Another compressor compresses such packets: the vectors have those. Ours sends them whole.
    for kind in KINDS {
        let (mut left, mut right) = (Peer::new(SETTINGS), Peer::new(SETTINGS));
        let mut dice = Dice(3);
        let mut flow = steady(kind, &mut dice);
        for number in 0..200 {
            let mut packet = flow.next(&mut dice);
            let wrong = number % 20 == 7;
            if let Some(last) = packet.last_mut().filter(|_| wrong) {
                *last ^= 1;
            }
            let (mut line, mut out) = (Vec::new(), Vec::new());
            left.compress(0, &packet, &mut line);
            assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
            assert_eq!(out, packet, "{kind:?} {number}");
        }
    }
}

/// CRC-8 as RFC 3095 section 5.9.1 has it.
fn crc8(octets: &[u8]) -> u8 {
    octets.iter().fold(0xff, |sum, octet| {
        (0..8).fold(sum ^ octet, |sum, _| {
            sum >> 1 ^ if sum & 1 != 0 { 0xe0 } else { 0 }
        })
    })
}

#[test]
fn an_ir_packet_without_a_dynamic_chain_leaves_what_changes_as_it_was() {
    let (mut compressor, mut decompressor) =
        (Compressor::new(SETTINGS), Decompressor::new(SETTINGS));
    let mut dice = Dice(3);
    let mut call = steady(Kind::Voice6, &mut dice);
    let mut bare = Vec::new();
    for number in 0..40 {
        let packet = call.next(&mut dice);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        let profile = compressor.compress(0, &packet, &mut line);
        assert_eq!(profile, Profile::Rtp);
        if number == 0 {
            // Head, addresses and flow label, ports, source.
            bare = line[..3 + 36 + 4 + 4].to_vec();
            (bare[0], bare[2]) = (0xfc, 0);
            bare[2] = crc8(&bare);
        }
        if number == 20 {
            let received = decompressor.decompress(&bare, &mut out, |_| {});
            assert_eq!(received, Err(Fault::NoContext));
        }
        let received = decompressor.decompress(&line, &mut out, |_| {});
        assert_eq!(received, Ok(Received::Packet), "{number}");
        assert_eq!(out, packet);
    }
    // To another end it says a flow, and nothing that it could be told by.
    let mut other = Decompressor::new(SETTINGS);
    let received = other.decompress(&bare, &mut Vec::new(), |_| {});
    assert_eq!((received, other.contexts()), (Err(Fault::NoContext), 1));
}

#[test]
fn a_static_chain_says_that_it_ends_ahead_of_a_third_ip_header() {
    let v6 = |next: u8, rest: &[u8]| {
        let first = [0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
        [&first[..], &[0x20; 16], &[0x21; 16], rest].concat()
    };
    let third = v6(253, &[9; 12]);
    // Of 72 octets, from 10.0.0.1 to 10.0.0.2.
    let v4 = [
        0x45, 0, 0, 72, 0, 0, 0x40, 0, 64, 41, 0x26, 0x8b, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    let in_v6 = v6(41, &v6(41, &third));
    let in_v4 = v6(4, &[&v4[..], &third].concat());
    // The second header's first octet, and the end of the chains; without the mark, what follows
    // should be in them (RFC 3843 section 3.1).
    for (packet, marked, bare, ends) in [(in_v6, 0xe0, 0x60, 83), (in_v4, 0xc0, 0x40, 60)] {
        let mut line = Vec::new();
        let profile = Compressor::new(SETTINGS).compress(0, &packet, &mut line);
        assert_eq!((profile, line[3], line[39]), (Profile::Ip, 0x60, marked));
        assert_eq!(line[ends..], third);
        let (mut decompressor, mut out) = (Decompressor::new(SETTINGS), Vec::new());
        let received = decompressor.decompress(&line, &mut out, |_| {});
        assert_eq!((received, out), (Ok(Received::Packet), packet));
        (line[39], line[2]) = (bare, 0);
        line[2] = crc8(&line[..ends]);
        let mut other = Decompressor::new(SETTINGS);
        let received = other.decompress(&line, &mut Vec::new(), |_| {});
        assert!(received.is_err() && other.contexts() == 0, "{received:?}");
    }
}
