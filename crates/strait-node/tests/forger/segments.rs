//! Forged segments, and what goes in them: hellos, compressed headers, feedback, payloads.

use strait_wire::check::{Crc32Sum, crc16};
use strait_wire::hello::{Checks, Hello, KnownFlows, MARK, NUMBERS_MAX, Remembered};
use strait_wire::octets::{FLAG, Stuffing, Unstuffer};
use strait_wire::repair::{Came, Note, emit_numbered, parse_numbered};
use strait_wire::segment::{SegmentCheck, SegmentHeader, emit_segment};
use strait_wire::urgent::{Interleaved, Shown, emit_urgent};

use crate::dice::Dice;
use crate::packets::hostile;
use crate::world::Seen;

/// The frames that an end sent, without what makes them transparent; urgent ones apart.
fn frames(seen: &[Seen], from: usize, stuffed: bool, marks: bool) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let own = seen
        .iter()
        .filter(|it| it.from == from)
        .map(|it| &it.octets);
    if !stuffed {
        return (own.cloned().collect(), Vec::new());
    }
    let (mut frames, mut urgent) = (Vec::new(), Vec::new());
    if marks {
        let mut reader = Interleaved::new(2000, Some(SegmentCheck::Short));
        own.for_each(|octets| {
            reader.feed(octets, |shown| match shown {
                Shown::Frame(frame) => frames.push(frame.to_vec()),
                Shown::Urgent(packet) => urgent.push(packet.to_vec()),
                _ => {}
            });
        });
    } else {
        let mut reader = Unstuffer::new(2000);
        own.for_each(|octets| reader.feed(octets, |it| frames.extend(it.ok().map(<[u8]>::to_vec))));
    }
    (frames, urgent)
}

/// As it goes on the medium.
fn on_line(segment: &[u8], stuffed: bool, marks: bool) -> Vec<u8> {
    if !stuffed {
        return segment.to_vec();
    }
    let mut line = vec![FLAG];
    let stuffing = Stuffing {
        mark: marks,
        ..Stuffing::default()
    };
    stuffing.stuff_into(segment, &mut line);
    line.push(FLAG);
    line
}

/// A segment with this header and content.
fn segment(dice: &mut Dice, header: SegmentHeader, carried: &[u8]) -> Vec<u8> {
    let check = [SegmentCheck::Short, SegmentCheck::Long, SegmentCheck::Long][dice.below(3)];
    let mut out = Vec::new();
    emit_segment(header, carried, check, &mut Crc32Sum::new(), &mut out);
    out
}

fn whole(dice: &mut Dice) -> SegmentHeader {
    SegmentHeader {
        first: true,
        last: true,
        stream: dice.below(8) as u8,
        sequence: dice.below(8) as u8,
    }
}

/// Header and content of a frame seen.
fn apart(frame: &[u8]) -> Option<(SegmentHeader, Vec<u8>)> {
    let header = SegmentHeader::parse(*frame.first()?);
    let short = frame.len().checked_sub(2).filter(|end| *end > 0)?;
    let (body, tail) = frame.split_at(short);
    let octets = if crc16(body).to_le_bytes() == tail {
        2
    } else {
        4
    };
    let end = frame.len().checked_sub(octets).filter(|end| *end > 0)?;
    Some((header, frame[1..end].to_vec()))
}

/// Octets for the other end of `from`.
pub(crate) fn forge(
    dice: &mut Dice,
    seen: &[Seen],
    from: usize,
    stuffed: bool,
    marks: bool,
) -> Vec<u8> {
    let (own, urgent) = frames(seen, from, stuffed, marks);
    let (others, _) = frames(seen, 1 - from, stuffed, marks);
    let packets: Vec<Vec<u8>> = own
        .iter()
        .filter_map(|it| Some(apart(it)?.1))
        .chain(urgent)
        .collect();
    let frame = match dice.below(18) {
        0 => dice.pick(&own).unwrap_or_default(),
        1 => dice.pick(&others).unwrap_or_default(),
        2 | 3 => {
            let (header, mut carried) = dice
                .pick(&own)
                .and_then(|it| apart(&it))
                .unwrap_or_default();
            dice.mutate(&mut carried);
            segment(dice, header, &carried)
        }
        4 => {
            let octet = dice.octet(0);
            let carried = dice.pick(&packets).unwrap_or_default();
            let cut = dice.below(carried.len() + 1);
            segment(dice, SegmentHeader::parse(octet), &carried[..cut])
        }
        5 | 6 => {
            let carried = hello(dice, &packets, &others);
            let header = whole(dice);
            segment_long(header, &carried)
        }
        7 => {
            let carried = feedback(dice);
            let header = whole(dice);
            segment(dice, header, &carried)
        }
        8 | 9 => {
            let carried = initial(dice, &packets);
            let header = whole(dice);
            segment(dice, header, &carried)
        }
        10 | 11 => {
            let carried = hostile(dice, &packets);
            let header = whole(dice);
            segment(dice, header, &carried)
        }
        12 | 13 => {
            let carried = note(dice);
            let header = whole(dice);
            segment_long(header, &carried)
        }
        14 | 15 => numbered(dice, &own),
        16 if marks => {
            let mut carried = dice.pick(&packets).unwrap_or_default();
            dice.mutate(&mut carried);
            let mut line = Vec::new();
            emit_urgent(&carried, SegmentCheck::Short, &mut line);
            return line;
        }
        _ => {
            let many = dice.below(40);
            let mut line = dice.octets(many);
            if dice.one_in(2) {
                line.splice(0..0, [[FLAG, 0x7c, 0x7d][dice.below(3)], 0x7f, 0xff]);
            }
            return line;
        }
    };
    on_line(&frame, stuffed, marks)
}

fn segment_long(header: SegmentHeader, carried: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    emit_segment(
        header,
        carried,
        SegmentCheck::Long,
        &mut Crc32Sum::new(),
        &mut out,
    );
    out
}

/// A hello with some values as they are and others at their limits.
fn hello(dice: &mut Dice, own: &[Vec<u8>], others: &[Vec<u8>]) -> Vec<u8> {
    let is_hello = |carried: &&Vec<u8>| carried.first() == Some(&MARK);
    let last = own.iter().rfind(is_hello).and_then(|it| Hello::parse(it));
    let theirs = others.iter().filter_map(|it| Some(apart(it)?.1));
    let theirs: Vec<Hello> = theirs.filter_map(|it| Hello::parse(&it)).collect();
    let other = theirs.last().map_or(1, |hello| hello.incarnation);
    let mut hello = last.unwrap_or_else(|| Hello {
        format: 1,
        format_least: 1,
        compresses: true,
        confirmed: true,
        counts: false,
        far_timestamps: true,
        checksums_rebuilt: false,
        cids_max: 15,
        incarnation: 9,
        heard: other,
        mtu: 1500,
        checks: Checks::default(),
        known: KnownFlows::default(),
        payload: None,
        remembered: None,
    });
    hello.heard = [other, other, 0, dice.0.draw() as u32][dice.below(4)];
    hello.confirmed = dice.one_in(2);
    for _ in 0..=dice.below(3) {
        let number = dice.0.draw() as u32;
        match dice.below(12) {
            0 => hello.incarnation = [number, 0, other][dice.below(3)],
            1 => hello.mtu = [0, 1, 20, 67, 68, 576, 1279, 1280, 1500, 65535][dice.below(10)],
            2 => hello.compresses ^= true,
            3 => hello.counts ^= true,
            4 => hello.far_timestamps ^= true,
            5 => hello.checksums_rebuilt ^= true,
            6 => hello.cids_max = [0, 1, 14, 15, 16, 255][dice.below(6)],
            7 => {
                hello.checks = Checks {
                    real_time_short: dice.one_in(2),
                    others_short: dice.one_in(2),
                    urgent: dice.one_in(2),
                    repairs: dice.one_in(2),
                    real_time_streams: dice.octet(1),
                };
            }
            8 => hello.known.sent = number,
            9 => hello.payload = dice.one_in(2).then_some(number),
            10 => {
                hello.remembered = Some(Remembered {
                    sent: [number; NUMBERS_MAX],
                    received: [number; NUMBERS_MAX],
                });
            }
            _ => hello.format = [0, 1, 2, 255][dice.below(4)],
        }
    }
    let mut out = Vec::new();
    hello.emit(&mut out);
    out
}

/// A note about repairs: any questions, answers and numbers.
fn note(dice: &mut Dice) -> Vec<u8> {
    let mut octet = || dice.octet(0);
    let (flags, numbers) = (octet(), [octet(), octet(), octet(), octet()]);
    let map = [octet(), octet(), octet()];
    let [from, next, base, last] = numbers.map(|number| number % 64);
    let note = Note {
        wish: flags & 1 == 1,
        asks: flags >> 1 & 3,
        answers: flags >> 3 & 3,
        sent: (flags & 0x20 != 0).then_some((from, next)),
        came: (flags & 0x40 != 0).then(|| Came {
            base,
            last,
            map: map[..usize::from(flags >> 7) * 3].to_vec(),
        }),
    };
    let mut out = Vec::new();
    note.emit(&mut out);
    out
}

/// A segment with a number, like one seen, where there is any: another number, or another content.
fn numbered(dice: &mut Dice, own: &[Vec<u8>]) -> Vec<u8> {
    let read = |frame: &Vec<u8>| {
        let (number, segment) = parse_numbered(frame, SegmentCheck::Long).ok()?;
        Some((number, segment.header, segment.payload.to_vec()))
    };
    let seen: Vec<_> = own.iter().filter_map(read).collect();
    let like = (!seen.is_empty()).then(|| seen[dice.below(seen.len())].clone());
    let (mut number, mut header, mut payload) =
        like.unwrap_or_else(|| (0, whole(dice), dice.octets(40)));
    match dice.below(3) {
        0 => number = number.wrapping_add(dice.octet(0) % 16),
        1 => header = SegmentHeader::parse(dice.octet(0)),
        _ => dice.mutate(&mut payload),
    }
    let mut out = Vec::new();
    let sum = &mut Crc32Sum::new();
    emit_numbered(header, number, &payload, SegmentCheck::Long, sum, &mut out);
    out
}

/// Feedback on any context, with a right check where it has one.
fn feedback(dice: &mut Dice) -> Vec<u8> {
    let mut data = vec![0xe0 | dice.below(16) as u8];
    if dice.one_in(2) {
        data.remove(0);
    }
    if dice.one_in(4) {
        data.push(dice.octet(0));
    } else {
        let kind = dice.below(4) as u8;
        data.push((kind << 6) | dice.octet(0) & 0x3f);
        data.push(dice.octet(0));
        if dice.one_in(3) {
            data.push([0x10, 0x20, 0x30, 0x41][dice.below(4)]);
        }
        let tcp = dice.one_in(2);
        if !tcp {
            data.push(0x11);
        }
        data.push(0);
        let check = crc8(&data);
        if let Some(last) = data.last_mut() {
            *last = check;
        }
    }
    let mut out = vec![0xf0 | data.len() as u8 & 7];
    out.extend_from_slice(&data);
    out
}

/// CRC-8 of RFC 3095 section 5.9.1.
fn crc8(octets: &[u8]) -> u8 {
    octets.iter().fold(0xff, |sum, octet| {
        (0..8).fold(sum ^ octet, |sum: u8, _| {
            sum >> 1 ^ if sum & 1 == 1 { 0xe0 } else { 0 }
        })
    })
}

/// A packet that says everything of a context, changed, with its check mended where that can be
/// found; else any compressed packet, changed.
fn initial(dice: &mut Dice, packets: &[Vec<u8>]) -> Vec<u8> {
    let type_at = |it: &[u8]| usize::from(it.first().is_some_and(|first| first >> 4 == 0x0e));
    let says = |it: &&Vec<u8>| {
        it.get(type_at(it))
            .is_some_and(|kind| matches!(kind, 0xf8 | 0xfc..=0xfe))
    };
    let initials: Vec<Vec<u8>> = packets.iter().filter(says).cloned().collect();
    let Some(mut packet) = dice.pick(&initials) else {
        let mut packet = dice.pick(packets).unwrap_or_default();
        dice.mutate(&mut packet);
        return packet;
    };
    let at = type_at(&packet) + 2;
    let Some(check) = packet.get(at).copied() else {
        return packet;
    };
    packet[at] = 0;
    let covered = (at + 1..=packet.len()).find(|end| crc8(&packet[..*end]) == check);
    let reach = covered.unwrap_or(packet.len()).min(packet.len());
    for _ in 0..=dice.below(3) {
        let place = dice.below(reach);
        if place != at {
            packet[place] = dice.octet(packet[place]);
        }
    }
    packet[at] = covered.map_or(check, |end| crc8(&packet[..end]));
    packet
}
