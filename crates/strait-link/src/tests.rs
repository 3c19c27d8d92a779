//! Sender and receiver together, by octets and by frames.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use strait_core::fate::{Fate, Ledger, Origin};
use strait_core::rate::LineRate;
use strait_core::{ClassId, Instant, NeighbourId, Packet, PortId};
use strait_wire::ip;

use super::*;

mod urgent;

const OUT: Fate = Fate::Forwarded {
    port: PortId(1),
    to: NeighbourId::PEER,
};

fn settings(segment: usize) -> LinkSettings {
    LinkSettings {
        segment_octets_max: segment,
        ..LinkSettings::for_rate(LineRate::new(9600, 10), 1500)
    }
}

fn packet(ledger: &mut Ledger, class: u8, payload: &[u8]) -> Packet {
    let mut bytes = Vec::new();
    let (src, dst) = (
        "[fd00::1]:1000".parse().unwrap(),
        "[fd00::2]:2000".parse().unwrap(),
    );
    ip::build_udp(src, dst, 0, 64, 0, 0, payload, &mut bytes);
    let mut packet = ledger.admit(Instant::ZERO, bytes, Origin::Own).unwrap();
    packet.class = ClassId(class);
    packet
}

/// Cuts one segment of `stream`, pulls it whole, and gives its packet back if it was the last.
fn send(sender: &mut OctetSender, stream: usize, line: &mut Vec<u8>) -> Option<Packet> {
    sender.cut(Instant::ZERO, stream, false)?;
    sender.pull(usize::MAX, line);
    sender.finish(Instant::ZERO)
}

fn received(receiver: &mut Receiver, line: &[u8]) -> Vec<Result<Vec<u8>, Refused>> {
    let mut told = Vec::new();
    receiver.feed_octets(line, |outcome| told.push(outcome.map(<[u8]>::to_vec)));
    told
}

#[test]
fn an_urgent_packet_goes_between_two_segments() {
    let mut ledger = Ledger::default();
    let mut sender = OctetSender::new(settings(64));
    let bulk = packet(&mut ledger, 3, &[7; 200]);
    let voice = packet(&mut ledger, 0, &[9; 31]);
    let (bulk_bytes, voice_bytes) = (bulk.bytes().to_vec(), voice.bytes().to_vec());
    let mut line = Vec::new();
    sender.begin(bulk.class.index(), bulk, None);
    assert!(send(&mut sender, 3, &mut line).is_none());
    sender.begin(voice.class.index(), voice, None);
    // 79 octets: two segments.
    assert!(send(&mut sender, 0, &mut line).is_none());
    let voice = send(&mut sender, 0, &mut line).unwrap();
    ledger.close(Instant::ZERO, voice, OUT);
    loop {
        if let Some(bulk) = send(&mut sender, 3, &mut line) {
            ledger.close(Instant::ZERO, bulk, OUT);
            break;
        }
    }
    assert_eq!(ledger.held(), 0);
    let mut receiver = Receiver::new(settings(1500));
    assert_eq!(
        received(&mut receiver, &line),
        [Ok(voice_bytes), Ok(bulk_bytes)]
    );
}

#[test]
fn one_packet_on_the_line_literally() {
    let mut ledger = Ledger::default();
    let mut sender = OctetSender::new(settings(1500));
    let whole = packet(&mut ledger, 2, &[0x7e]);
    let bytes = whole.bytes().to_vec();
    sender.begin(whole.class.index(), whole, None);
    let mut line = Vec::new();
    let whole = send(&mut sender, 2, &mut line).unwrap();
    ledger.close(Instant::ZERO, whole, OUT);
    // Flag after the pause, FIRST and LAST on stream 2 with sequence 0, the packet, its one
    // special octet escaped.
    assert_eq!(&line[..2], &[0x7e, 0xd0]);
    assert_eq!(&line[2..2 + bytes.len() - 1], &bytes[..bytes.len() - 1]);
    assert_eq!(&line[1 + bytes.len()..3 + bytes.len()], &[0x7d, 0x5e]);
    assert_eq!(line.last(), Some(&0x7e));
}

#[test]
fn a_flag_leads_only_after_a_pause() {
    let mut ledger = Ledger::default();
    let settings = settings(1500);
    let mut sender = OctetSender::new(settings);
    let mut first_octet = |sender: &mut OctetSender, at: Instant| {
        sender.begin(0, packet(&mut ledger, 0, &[]), None);
        sender.cut(at, 0, true);
        let mut line = Vec::new();
        sender.pull(usize::MAX, &mut line);
        if let Some(packet) = sender.finish(at) {
            ledger.close(at, packet, OUT);
        }
        line[0]
    };
    assert_eq!(first_octet(&mut sender, Instant::ZERO), 0x7e);
    let pause = settings.flag_after_idle;
    let early = Instant::from_nanos(pause.as_nanos() as u64 - 1);
    assert_ne!(first_octet(&mut sender, early), 0x7e);
    assert_eq!(first_octet(&mut sender, early + pause), 0x7e);
}

#[test]
fn ones_in_a_pause_of_a_synchronous_line_are_no_damage() {
    let mut ledger = Ledger::default();
    let mut sender = OctetSender::new(settings(1500));
    let whole = packet(&mut ledger, 0, &[7; 20]);
    let sent = whole.bytes().to_vec();
    sender.begin(0, whole, None);
    let mut line = Vec::new();
    let whole = send(&mut sender, 0, &mut line).unwrap();
    ledger.close(Instant::ZERO, whole, OUT);
    for ones in [1, 2, 3, 4, 500] {
        let pause = vec![0xff; ones];
        let paused = [&pause[..], &[0x7e], &line, &pause, &[0x7e]].concat();
        let came = received(&mut Receiver::new(settings(1500)), &paused);
        assert_eq!(came, [Ok(sent.clone())], "{ones} octets");
    }
    let torn = [&[0x7e, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0x7e], &line[..]].concat();
    let came = received(&mut Receiver::new(settings(1500)), &torn);
    assert_eq!(came, [Err(Refused::Damaged), Ok(sent)]);
}

#[test]
fn a_lost_piece_loses_its_packet_and_no_other() {
    let mut ledger = Ledger::default();
    let mut sender = OctetSender::new(settings(64));
    let mut segments = Vec::new();
    let mut packets = Vec::new();
    for fill in 0..3u8 {
        let whole = packet(&mut ledger, 1, &[fill; 200]);
        packets.push(whole.bytes().to_vec());
        sender.begin(whole.class.index(), whole, None);
        loop {
            let mut line = Vec::new();
            let done = send(&mut sender, 1, &mut line);
            segments.push(line);
            if let Some(whole) = done {
                ledger.close(Instant::ZERO, whole, OUT);
                break;
            }
        }
    }
    let each = segments.len() / 3;
    for lost in 0..segments.len() {
        let mut receiver = Receiver::new(settings(64));
        let kept = segments
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != lost);
        let line: Vec<u8> = kept.flat_map(|(_, segment)| segment.clone()).collect();
        let told = received(&mut receiver, &line);
        let whole: Vec<_> = told.iter().flatten().cloned().collect();
        let expected: Vec<_> = (0..3)
            .filter(|at| *at != lost / each)
            .map(|at| packets[at].clone())
            .collect();
        assert_eq!(whole, expected, "segment {lost} lost");
        let incomplete = told
            .iter()
            .filter(|told| **told == Err(Refused::Incomplete))
            .count();
        // Nothing follows the last piece that could show that it is missing.
        let shown = usize::from(lost + 1 != segments.len());
        assert_eq!(incomplete, shown, "told once, segment {lost}");
    }
}

#[test]
fn a_gap_of_all_sequence_numbers_never_splices_two_packets() {
    // Two packets of equal form; exactly eight segments are missing, from the middle of the first
    // to the middle of the second, so that the sequence numbers fit.
    let mut ledger = Ledger::default();
    let mut sender = OctetSender::new(settings(64));
    let mut segments = Vec::new();
    for fill in 0..2u8 {
        sender.begin(1, packet(&mut ledger, 1, &[fill; 64 * 8 - 48]), None);
        loop {
            let mut line = Vec::new();
            let done = send(&mut sender, 1, &mut line);
            segments.push(line);
            if let Some(whole) = done {
                ledger.close(Instant::ZERO, whole, OUT);
                break;
            }
        }
    }
    assert_eq!(segments.len(), 16);
    let line: Vec<u8> = [&segments[..4], &segments[12..]].concat().concat();
    let mut receiver = Receiver::new(settings(64));
    assert_eq!(received(&mut receiver, &line), [Err(Refused::Damaged)]);
}

#[test]
fn pieces_without_end_stay_within_the_largest_packet() {
    let mut ledger = Ledger::default();
    let mut big = settings(64);
    big.packet_octets_max = 1500;
    let mut sender = OctetSender::new(big);
    sender.begin(0, packet(&mut ledger, 0, &[1; 1400]), None);
    let mut receiver = Receiver::new(LinkSettings {
        packet_octets_max: 500,
        ..big
    });
    let mut told = Vec::new();
    loop {
        let mut line = Vec::new();
        let done = send(&mut sender, 0, &mut line);
        told.extend(received(&mut receiver, &line));
        if let Some(whole) = done {
            ledger.close(Instant::ZERO, whole, OUT);
            break;
        }
    }
    assert_eq!(told.first(), Some(&Err(Refused::Invalid)));
    assert!(told.iter().all(Result::is_err));
}

#[test]
fn frames_carry_what_fits_their_room() {
    let mut ledger = Ledger::default();
    let settings = LinkSettings {
        alone: SegmentCheck::Long,
        ..LinkSettings::plain(1500)
    };
    let mut sender = FrameSender::new(settings);
    let mut receiver = Receiver::new(settings);
    let whole = packet(&mut ledger, 5, &[3; 700]);
    let bytes = whole.bytes().to_vec();
    sender.begin(whole.class.index(), whole, None);
    let mut told = Vec::new();
    let mut frames = 0;
    while sender.is_under_way(5) {
        let mut frame = Vec::new();
        assert!(
            sender
                .cut(
                    Instant::ZERO,
                    5,
                    false,
                    FrameSender::ROOM_MIN - 1,
                    &mut frame
                )
                .is_none()
        );
        sender
            .cut(Instant::ZERO, 5, false, 200, &mut frame)
            .unwrap();
        assert!(frame.len() <= 200);
        frames += 1;
        receiver.feed_frame(&frame, |outcome| told.push(outcome.map(<[u8]>::to_vec)));
        if let Some(whole) = sender.finish(Instant::ZERO, 5) {
            ledger.close(Instant::ZERO, whole, OUT);
        }
    }
    assert_eq!((told, frames), (vec![Ok(bytes)], 4));
    assert_eq!(sender.held(), 0);
}

#[test]
fn what_is_carried_goes_in_the_packets_place_and_a_note_between() {
    let mut ledger = Ledger::default();
    let settings = settings(64);
    let mut sender = OctetSender::new(settings);
    let mut receiver = Receiver::new(settings);
    let mut told = Vec::new();
    let whole = packet(&mut ledger, 0, &[1; 300]);
    sender.begin(0, whole, Some(vec![9; 100]));
    let mut line = Vec::new();
    assert!(send(&mut sender, 0, &mut line).is_none());
    assert_eq!(sender.cut_note(Instant::ZERO, &[5; 3]), Some(1 + 3 + 4 + 1));
    sender.pull(usize::MAX, &mut line);
    assert!(sender.finish(Instant::ZERO).is_none());
    let whole = send(&mut sender, 0, &mut line).unwrap();
    assert_eq!(whole.bytes().len(), 348);
    ledger.close(Instant::ZERO, whole, OUT);
    receiver.feed_octets(&line, |bytes| told.push(bytes.map(<[u8]>::to_vec)));
    assert_eq!(told, [Ok(vec![5; 3]), Ok(vec![9; 100])]);
    // Every stream in use: no place for a note.
    for stream in 0..STREAMS {
        sender.begin(stream, packet(&mut ledger, 0, &[]), None);
    }
    assert_eq!(sender.cut_note(Instant::ZERO, &[5]), None);
    let back: Vec<_> = sender.abandon().collect();
    for packet in back {
        ledger.drop(Instant::ZERO, packet, strait_core::DropCause::PortDown);
    }
}

#[test]
fn abandoned_packets_come_back_and_the_next_is_received() {
    let mut ledger = Ledger::default();
    let mut sender = OctetSender::new(settings(64));
    let mut line = Vec::new();
    sender.begin(1, packet(&mut ledger, 1, &[1; 300]), None);
    sender.cut(Instant::ZERO, 1, false);
    sender.pull(20, &mut line);
    let back: Vec<_> = sender.abandon().collect();
    assert_eq!(back.len(), 1);
    for packet in back {
        ledger.drop(Instant::ZERO, packet, strait_core::DropCause::PortDown);
    }
    let next = packet(&mut ledger, 1, &[2; 10]);
    let bytes = next.bytes().to_vec();
    sender.begin(next.class.index(), next, None);
    let next = send(&mut sender, 1, &mut line).unwrap();
    ledger.close(Instant::ZERO, next, OUT);
    let mut receiver = Receiver::new(settings(64));
    assert_eq!(received(&mut receiver, &line).last(), Some(&Ok(bytes)));
}

proptest! {
    #[test]
    fn any_octets_are_taken_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut receiver = Receiver::new(settings(64));
        received(&mut receiver, &bytes);
        receiver.feed_frame(&bytes, |_| ());
    }

    /// Several classes interleaved at random, the line cut into chunks at random: all packets
    /// arrive, in order within their class.
    #[test]
    fn everything_arrives_whole(
        sizes in proptest::collection::vec((0u8..8, 0usize..400), 1..20),
        segment in 8usize..200,
        choices in proptest::collection::vec(any::<u8>(), 400),
        chunk in 1usize..40,
    ) {
        let mut ledger = Ledger::default();
        let mut sender = OctetSender::new(settings(segment));
        let mut waiting: Vec<Vec<Packet>> = (0..8).map(|_| Vec::new()).collect();
        let mut expected = vec![Vec::new(); 8];
        for (index, (class, size)) in sizes.iter().enumerate() {
            let packet = packet(&mut ledger, *class, &vec![index as u8; *size + 1]);
            expected[usize::from(*class)].push(packet.bytes().to_vec());
            waiting[usize::from(*class)].insert(0, packet);
        }
        let mut line = Vec::new();
        let mut choice = choices.iter().cycle();
        loop {
            let busy: Vec<usize> =
                (0..8).filter(|at| sender.is_under_way(*at) || !waiting[*at].is_empty()).collect();
            if busy.is_empty() {
                break;
            }
            let class = busy[usize::from(*choice.next().unwrap()) % busy.len()];
            if !sender.is_under_way(class) {
                sender.begin(class, waiting[class].pop().unwrap(), None);
            }
            if let Some(packet) = send(&mut sender, class, &mut line) {
                ledger.close(Instant::ZERO, packet, OUT);
            }
        }
        prop_assert_eq!(ledger.held(), 0);
        let mut receiver = Receiver::new(settings(8));
        let mut arrived: Vec<Vec<u8>> = Vec::new();
        for piece in line.chunks(chunk) {
            receiver.feed_octets(piece, |told| arrived.push(told.map(<[u8]>::to_vec).unwrap()));
        }
        for packets in &expected {
            let of_class = arrived.iter().filter(|packet| packets.contains(packet));
            let mine: Vec<_> = of_class.cloned().collect();
            prop_assert_eq!(&mine, packets);
        }
        prop_assert_eq!(arrived.len(), sizes.len());
    }

    /// Octets damaged at random: what arrives is a packet that was sent, never another.
    #[test]
    fn damage_never_makes_a_packet(
        damage in proptest::collection::vec((0usize..2000, 1u8..=255), 1..6),
    ) {
        let mut ledger = Ledger::default();
        let mut sender = OctetSender::new(settings(64));
        let mut line = Vec::new();
        let mut sent = Vec::new();
        for fill in 0..6u8 {
            let whole = packet(&mut ledger, fill % 2, &[fill; 220]);
            sent.push(whole.bytes().to_vec());
            sender.begin(whole.class.index(), whole, None);
            loop {
                if let Some(whole) = send(&mut sender, usize::from(fill % 2), &mut line) {
                    ledger.close(Instant::ZERO, whole, OUT);
                    break;
                }
            }
        }
        for (at, flip) in damage {
            let at = at % line.len();
            line[at] ^= flip;
        }
        let mut receiver = Receiver::new(settings(64));
        for packet in received(&mut receiver, &line).into_iter().flatten() {
            prop_assert!(sent.contains(&packet));
        }
    }
}
