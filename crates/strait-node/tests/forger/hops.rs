//! Forged frames of reliable hops, in both formats.

use strait_wire::hbh::paper;
use strait_wire::hbh::{
    self, Ack, Content, DataHeader, Format, Frame, Hello, Ingress, Lifetime, Map, Order, Parity,
    Session,
};
use strait_wire::segment::SegmentCheck;

use crate::dice::Dice;
use crate::packets::hostile;
use crate::world::Seen;

/// What somebody who reads everything knows.
struct Known<'a> {
    seen: &'a [Seen],
    check: SegmentCheck,
    format: Format,
    /// Of each end, its incarnations, the newest last.
    names: [Vec<u32>; 2],
}

impl<'a> Known<'a> {
    fn of(seen: &'a [Seen], check: SegmentCheck, format: Format) -> Self {
        let mut names = [Vec::new(), Vec::new()];
        for frame in seen {
            if let Ok(Frame::Hello(hello)) = hbh::parse(&frame.octets, check, None)
                && names[frame.from].last() != Some(&hello.incarnation)
            {
                names[frame.from].push(hello.incarnation);
            }
        }
        Self {
            seen,
            check,
            format,
            names,
        }
    }

    fn newest(&self, end: usize) -> u32 {
        self.names[end].last().copied().unwrap_or(1)
    }

    /// The names for a frame from an end.
    fn session(&self, from: usize) -> Session {
        Session {
            sender: self.newest(from),
            receiver: self.newest(1 - from),
        }
    }

    fn from(&self, from: usize) -> Vec<&'a [u8]> {
        let frames = self.seen.iter().filter(|frame| frame.from == from);
        frames.map(|frame| &frame.octets[..]).collect()
    }

    fn incarnation(&self, dice: &mut Dice, end: usize) -> u32 {
        match dice.below(6) {
            0 | 1 => self.newest(end),
            2 => dice.pick(&self.names[end]).unwrap_or(2),
            3 => self.newest(1 - end),
            4 => 0,
            _ => dice.0.draw() as u32,
        }
    }

    fn hello(&self, dice: &mut Dice, from: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let formats = [self.format, self.format, Format::Strait, Format::Paper];
        let hello = Hello {
            incarnation: self.incarnation(dice, from),
            heard: self.incarnation(dice, 1 - from),
            asks: dice.one_in(2),
            wide: dice.one_in(2),
            format: formats[dice.below(formats.len())],
        };
        hello.emit(self.check, &mut out);
        out
    }
}

/// A frame for the other end of `from`, in our format.
pub(crate) fn forge(dice: &mut Dice, seen: &[Seen], from: usize, check: SegmentCheck) -> Vec<u8> {
    let known = Known::of(seen, check, Format::Strait);
    let own = known.from(from);
    match dice.below(10) {
        0 => dice.pick(seen).map_or_else(Vec::new, |frame| frame.octets),
        1 => known.hello(dice, from),
        2 | 3 => {
            let mut frame = dice.pick(&own).unwrap_or_default().to_vec();
            frame.truncate(frame.len().saturating_sub(check.octets()));
            dice.mutate(&mut frame);
            seal(&frame, check, known.session(from))
        }
        4 => parity(dice, &known, from),
        _ => content(dice, &known, from),
    }
}

/// A frame with this body and a right check.
fn seal(body: &[u8], check: SegmentCheck, names: Session) -> Vec<u8> {
    let mut sum = [names.sender.to_be_bytes(), names.receiver.to_be_bytes()].concat();
    if body.first() == Some(&0x0b) {
        sum.clear();
    }
    sum.extend_from_slice(body);
    let mut frame = body.to_vec();
    match check {
        SegmentCheck::Short => {
            frame.extend_from_slice(&strait_wire::check::crc16(&sum).to_le_bytes());
        }
        SegmentCheck::Long => {
            frame.extend_from_slice(&strait_wire::check::crc32(&sum).to_le_bytes());
        }
    }
    frame
}

/// What the frames of an end told last: header and packet, and acknowledgement.
fn told(known: &Known<'_>, from: usize) -> (Option<(DataHeader, Vec<u8>)>, Option<Ack>) {
    let (mut data, mut ack) = (None, None);
    for frame in known.from(from) {
        if let Ok(Frame::Content(content)) =
            hbh::parse(frame, known.check, Some(known.session(from)))
        {
            ack = content.ack.or(ack);
            data = content
                .data
                .map(|(header, line)| (header, line.to_vec()))
                .or(data);
        }
    }
    (data, ack)
}

fn map(dice: &mut Dice) -> Map {
    let bits = [0, 1, u128::MAX, u128::from(dice.0.draw())][dice.below(4)];
    if dice.one_in(2) {
        return Map::new(bits);
    }
    let last = dice.below(usize::from(Map::BITS_MAX) + 2) as u16;
    let words = dice.below(Map::WORDS_MAX + 1);
    Map::of(last, words, |it| bits >> (it % 128) & 1 == 1)
}

fn content(dice: &mut Dice, known: &Known<'_>, from: usize) -> Vec<u8> {
    let (data, ack) = told(known, from);
    let (other, _) = told(known, 1 - from);
    let next = ack.map_or(0, |ack| ack.next);
    let (sent, serial) = data.as_ref().map_or((0, 0), |it| (it.0.seq, it.0.serial));
    let mut content = Content::default();
    if dice.one_in(2) {
        let serial = other.map_or(0, |(header, _)| header.serial);
        content.ack = Some(Ack {
            next: dice.short(next),
            newest: dice.short(serial),
            map: map(dice),
            prompt: dice.one_in(2),
        });
        content.stop = dice.one_in(3).then(|| dice.octet(0));
    }
    if dice.one_in(2) {
        content.base = Some(dice.short(sent));
    }
    let mut line = data.map_or_else(Vec::new, |(_, line)| line);
    if dice.one_in(2) {
        match dice.below(4) {
            0 | 1 => dice.mutate(&mut line),
            2 => line = hostile(dice, &[line]),
            _ => {}
        }
        let header = DataHeader {
            seq: dice.short(sent.wrapping_add(1)),
            serial: dice.short(serial.wrapping_add(1)),
            tag: dice.octet(0) & 7,
            order: [
                Order::Any,
                Order::After(1),
                Order::After(30),
                Order::AfterAll,
            ][dice.below(4)],
            lifetime: Lifetime::from_code(dice.octet(0)),
            ingress: Ingress {
                node: dice.0.draw() as u16,
                serial: dice.0.draw() as u16,
                ordered: dice.one_in(2),
            },
        };
        content.data = Some((header, &line));
    }
    let mut out = Vec::new();
    content.emit(known.check, known.session(from), &mut out);
    out
}

fn parity(dice: &mut Dice, known: &Known<'_>, from: usize) -> Vec<u8> {
    let (data, _) = told(known, from);
    let (sent, serial) = data.as_ref().map_or((0, 0), |it| (it.0.seq, it.0.serial));
    let mut out = Vec::new();
    let length = dice.below(200) + 10;
    let parity = Parity {
        tag: dice.octet(0) & 7,
        first: dice.short(sent),
        others: [0, 1, u32::MAX, dice.0.draw() as u32][dice.below(4)],
        serial: dice.short(serial),
        sum: &dice.octets(length),
    };
    parity.emit(known.check, known.session(from), &mut out);
    out
}

/// A frame in the published format.
pub(crate) fn forge_paper(dice: &mut Dice, seen: &[Seen], from: usize) -> Vec<u8> {
    let known = Known::of(seen, SegmentCheck::Short, Format::Paper);
    match dice.below(8) {
        0 => return dice.pick(seen).map_or_else(Vec::new, |frame| frame.octets),
        1 => return known.hello(dice, from),
        _ => {}
    }
    let own = known.from(from);
    let names = known.session(from);
    let mut out = Vec::new();
    for _ in 0..50 {
        let frame = dice.pick(&own).unwrap_or_default();
        match paper::parse(frame, Some(names)) {
            Ok(paper::Frame::Data(mut data, mut packet)) => {
                match dice.below(6) {
                    0 | 1 => dice.mutate(&mut packet),
                    2 => packet = hostile(dice, &[packet]),
                    _ => {}
                }
                if dice.one_in(4) {
                    data.flow = dice.0.draw() as u16;
                }
                data.seq = dice.short(data.seq.into()) as u8;
                data.behind = dice.octet(data.behind) & 63;
                data.request = dice.one_in(2);
                data.left = dice.one_in(2).then(|| dice.octet(0));
                if data.emit(&packet, names, &mut out).is_some() {
                    break;
                }
            }
            Ok(paper::Frame::Ack(ack)) => {
                let range = [dice.octet(ack.next), dice.octet(ack.next)];
                let ack = paper::Ack {
                    next: dice.short(ack.next.into()) as u8,
                    congested: dice.one_in(2),
                    ranges: if dice.one_in(2) {
                        &[range][..]
                    } else {
                        ack.ranges
                    },
                    ..ack
                };
                ack.emit(names, &mut out);
                break;
            }
            _ => {}
        }
    }
    out
}
