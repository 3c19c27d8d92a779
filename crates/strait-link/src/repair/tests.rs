//! Two ends and a line between them that damages octets.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use strait_core::fate::{Fate, Ledger, Origin};
use strait_core::rate::LineRate;
use strait_core::{ClassId, DropCause, Duration, Instant, NeighbourId, Packet, PortId};
use strait_wire::check::Crc32Sum;
use strait_wire::octets::{FLAG, Stuffing};
use strait_wire::repair::{Came, MARK, parse_numbered};
use strait_wire::segment::{Segment, SegmentCheck, SegmentHeader, emit_segment};

use super::*;
use crate::LinkSettings;

const OCTET: Duration = Duration::from_micros(1042);
/// Its packets go on the stream of the same number.
const CLASSES: [u8; 2] = [2, 3];

/// One end, with packets that wait.
struct End {
    ledger: Ledger,
    sender: OctetSender,
    receiver: Receiver,
    repairs: Repairs,
    waiting: VecDeque<Packet>,
    got: Vec<Vec<u8>>,
    outcomes: Vec<Outcome>,
}

impl End {
    fn new() -> Self {
        let settings = LinkSettings::for_rate(LineRate::new(9600, 10), 1500);
        let mut repairs = Repairs::new(When::Always, OCTET);
        let mut receiver = Receiver::new(settings);
        receiver.set_numbered(true);
        repairs.agree(true, true);
        Self {
            ledger: Ledger::default(),
            sender: OctetSender::new(settings),
            receiver,
            repairs,
            waiting: VecDeque::new(),
            got: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    fn put(&mut self, class: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let [from, to] = ["[fd00::1]:1000", "[fd00::2]:2000"].map(|it| it.parse().unwrap());
        strait_wire::ip::build_udp(from, to, 0, 64, 0, 0, payload, &mut bytes);
        let packet = self.ledger.admit(Instant::ZERO, bytes.clone(), Origin::Own);
        let mut packet = packet.unwrap();
        packet.class = ClassId(class);
        self.waiting.push_back(packet);
        bytes
    }

    /// The next octet that leaves, if there is any.
    fn octet(&mut self, now: Instant) -> Option<u8> {
        self.repairs.advance(now);
        self.sender.age(now);
        let done: Vec<Done> = self.sender.done().collect();
        for (packet, _, outcome) in done {
            self.close(packet, outcome);
        }
        if self.sender.leaving().is_none() {
            self.cut(now)?;
        }
        let mut out = Vec::new();
        self.sender.pull(1, &mut out);
        if let Some(packet) = self.sender.finish(now) {
            self.close(packet, Outcome::Came);
        }
        out.pop()
    }

    fn close(&mut self, packet: Packet, outcome: Outcome) {
        self.outcomes.push(outcome);
        let (port, to) = (PortId(1), NeighbourId::PEER);
        match outcome {
            Outcome::Came => drop(self.ledger.close(
                Instant::ZERO,
                packet,
                Fate::Forwarded { port, to },
            )),
            _ => self
                .ledger
                .drop(Instant::ZERO, packet, DropCause::Undelivered),
        }
    }

    fn cut(&mut self, now: Instant) -> Option<()> {
        if self.repairs.is_due(&self.sender, &self.receiver) {
            return self.tell(now);
        }
        for class in CLASSES {
            if self.sender.repeat(now, ClassId(class)).is_some() {
                return Some(());
            }
        }
        for class in CLASSES {
            let stream = usize::from(class);
            if self.sender.is_under_way(stream) && self.sender.has_window() {
                return self.sender.cut(now, stream, false).map(drop);
            }
        }
        let has_room = self.sender.has_window() && self.sender.begun() == 0;
        if let Some(packet) = has_room.then(|| self.waiting.pop_front()).flatten() {
            let stream = usize::from(packet.class.0);
            if self.sender.goes_numbered(stream, self.repairs.numbers()) {
                self.sender.begin_numbered(stream, packet, None);
            } else {
                self.sender.begin(stream, packet, None);
            }
            return self.sender.cut(now, stream, false).map(drop);
        }
        self.tell(now)
    }

    fn tell(&mut self, now: Instant) -> Option<()> {
        let note = self.repairs.note(&self.sender, &self.receiver)?;
        self.sender.cut_note(now, &note).map(drop)
    }

    fn hear(&mut self, now: Instant, octets: &[u8]) {
        self.repairs.advance(now);
        let (mut notes, mut packets, mut refused) = (vec![], vec![], vec![]);
        let mut take = |read: Result<&[u8], Refused>| match read {
            Ok(note) if note.first() == Some(&MARK) => notes.push(note.to_vec()),
            Ok(packet) => packets.push(packet.to_vec()),
            Err(why) => refused.push(why),
        };
        self.receiver.feed_octets(octets, &mut take);
        let heard = core::mem::take(&mut notes);
        let mut take = |read: Result<&[u8], Refused>| packets.extend(read.map(<[u8]>::to_vec));
        for note in heard {
            let (sender, receiver) = (&mut self.sender, &mut self.receiver);
            assert!(self.repairs.hear(&note, sender, receiver, &mut take));
        }
        self.repairs.lose_patience(&mut self.receiver, &mut take);
        self.repairs.came(octets.len(), &mut self.receiver);
        for why in refused {
            self.repairs.refused(why);
        }
        self.got.append(&mut packets);
    }
}

/// Two ends, and what time it is.
struct Pair {
    ends: [End; 2],
    now: Instant,
    chance: u64,
    /// Of a million octets, so many are damaged.
    damaged: u64,
}

impl Pair {
    fn new(damaged: u64) -> Self {
        let mut pair = Self {
            ends: [End::new(), End::new()],
            now: Instant::ZERO,
            chance: 1,
            damaged,
        };
        // Both learn what the other wants.
        pair.run(100);
        assert!(pair.ends.iter().all(|end| end.repairs.numbers()));
        pair
    }

    fn draw(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }

    /// So many octet times.
    fn run(&mut self, octets: usize) {
        self.run_with(octets, |_, octet| Some(octet));
    }

    /// The same with what becomes of an octet that an end sends.
    fn run_with(&mut self, octets: usize, becomes: impl Fn(usize, u8) -> Option<u8>) {
        for _ in 0..octets {
            self.now += OCTET;
            let sent = [0, 1].map(|from| self.ends[from].octet(self.now));
            for (from, octet) in sent.into_iter().enumerate() {
                let flip = self.draw();
                let damage = if flip % 1_000_000 < self.damaged {
                    1 << (flip >> 40 & 7)
                } else {
                    0
                };
                let octet = octet.and_then(|octet| becomes(from, octet ^ damage));
                if let Some(octet) = octet {
                    self.ends[1 - from].hear(self.now, &[octet]);
                }
            }
        }
    }

    fn put_some(&mut self, packets: usize) -> Vec<Vec<u8>> {
        let put = |number: usize| self.ends[0].put(CLASSES[number % 2], &[number as u8; 900]);
        (0..packets).map(put).collect()
    }

    /// What came of a class, by its first payload octet.
    fn came(&self) -> Vec<u8> {
        self.ends[1].got.iter().map(|packet| packet[48]).collect()
    }
}

fn of_class(numbers: &[u8], class: u8) -> Vec<u8> {
    let own = |number: &&u8| *number % 2 == class;
    numbers.iter().filter(own).copied().collect()
}

#[test]
fn a_clean_line_repeats_nothing() {
    let mut pair = Pair::new(0);
    let sent = pair.put_some(20);
    pair.run(25_000);
    assert_eq!(pair.ends[1].got, sent);
    let [a, b] = &pair.ends;
    assert_eq!(a.sender.window_counts().0.repeated, 0);
    assert_eq!((a.sender.held(), b.receiver.row_counts().1), (0, 0));
    assert_eq!(a.outcomes, [Outcome::Came; 20]);
}

#[test]
fn what_is_damaged_comes_all_the_same_each_class_in_order() {
    for damaged in [400, 800, 3000] {
        let mut pair = Pair::new(damaged);
        pair.put_some(30);
        pair.run(90_000);
        let came = pair.came();
        for class in [0, 1] {
            let all: Vec<u8> = (0..30).filter(|number| number % 2 == class).collect();
            assert_eq!(of_class(&came, class), all, "{damaged}");
        }
        let [a, b] = &pair.ends;
        assert!(a.sender.window_counts().0.repeated > 5);
        assert_eq!((a.sender.held(), b.receiver.row_counts().1), (0, 0));
        assert_eq!(a.outcomes, [Outcome::Came; 30]);
    }
}

#[test]
fn the_last_of_a_burst_is_missed_soon() {
    let mut pair = Pair::new(0);
    let packet = pair.ends[0].put(2, &[7; 40]);
    // It is lost whole.
    pair.run_with(95, |from, octet| (from == 1).then_some(octet));
    assert!(pair.ends[1].got.is_empty());
    // A question, an answer, and the packet.
    pair.run(20 + 20 + 110);
    assert_eq!(pair.ends[1].got, [packet]);
}

#[test]
fn without_a_word_from_the_other_end_the_window_shuts_and_opens_again() {
    let mut pair = Pair::new(0);
    let sent = pair.put_some(60);
    pair.run_with(60_000, |from, octet| (from == 0).then_some(octet));
    let [a, b] = &pair.ends;
    assert!(!a.sender.has_window());
    assert!(a.waiting.len() > 20);
    assert!(a.sender.window_counts().1 <= Window::OCTETS_MAX + 1500);
    assert_eq!(a.sender.window_counts().0.repeated, 0);
    let before = b.got.len();
    assert!(before < 40);
    pair.run(70_000);
    assert_eq!(pair.ends[1].got, sent);
}

#[test]
fn one_stream_waits_for_what_it_misses_and_no_other() {
    let mut row = Row::new();
    let mut passed = Vec::new();
    let mut take = |row: &mut Row, number: u8, stream: u8, sequence: u8| {
        let payload = [number];
        let segment = Segment {
            header: SegmentHeader {
                first: false,
                last: false,
                stream,
                sequence,
            },
            payload: &payload,
            packet_check: None,
        };
        row.take(number, &segment, &mut |it| passed.push(it.payload[0]))
    };
    assert_eq!(take(&mut row, 0, 2, 0), Arrived::Next);
    // Number 1, of stream 2, is missing.
    assert_eq!(take(&mut row, 2, 3, 0), Arrived::Gap);
    assert_eq!(take(&mut row, 3, 2, 2), Arrived::Next);
    assert_eq!(take(&mut row, 4, 3, 1), Arrived::Next);
    assert_eq!(take(&mut row, 4, 3, 1), Arrived::Needless);
    assert_eq!(row.first_missing(), Some(1));
    assert_eq!(take(&mut row, 1, 2, 1), Arrived::Filled);
    assert_eq!(row.first_missing(), None);
    assert_eq!(passed, [0, 2, 4, 1, 3]);
}

#[test]
fn a_whole_round_of_sequences_that_is_missing_is_noticed() {
    let mut row = Row::new();
    let mut passed = Vec::new();
    let mut take = |row: &mut Row, number: u8| {
        let payload = [number];
        let segment = Segment {
            header: SegmentHeader {
                first: false,
                last: false,
                stream: 2,
                sequence: number % 8,
            },
            payload: &payload,
            packet_check: None,
        };
        row.take(number, &segment, &mut |it| passed.push(it.payload[0]));
    };
    // Eight are missing, and the next one has the sequence of the first of them.
    take(&mut row, 8);
    (0..8).for_each(|number| take(&mut row, number));
    assert_eq!(passed, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn what_is_too_old_is_given_up_and_what_follows_goes_on() {
    let mut pair = Pair::new(0);
    pair.ends[0].put(2, &[1; 40]);
    let age = pair.now + OCTET * 400;
    pair.ends[0].waiting[0].expires = age;
    pair.run_with(95, |from, octet| (from == 1).then_some(octet));
    let next = pair.ends[0].put(2, &[2; 40]);
    // Neither questions nor repetitions come.
    pair.run_with(400, |from, _| (from == 1).then_some(0));
    assert_eq!(pair.ends[0].outcomes, [Outcome::Aged]);
    pair.run(1500);
    assert_eq!(pair.ends[1].got, [next]);
    assert_eq!(pair.ends[1].receiver.row_counts().0.skipped, 1);
    assert_eq!(pair.ends[0].outcomes, [Outcome::Aged, Outcome::Came]);
}

#[test]
fn forged_notes_make_no_segment_go_more_often_than_it_is_worth() {
    let mut pair = Pair::new(0);
    pair.ends[0].put(2, &[1; 40]);
    pair.run_with(95, |from, octet| (from == 1).then_some(octet));
    // Somebody says that it is missing, whenever it has gone.
    for _ in 0..2000 {
        let number = pair.ends[0].repairs.number;
        let note = Note {
            wish: true,
            answers: number,
            came: Some(Came {
                base: 0,
                last: 255,
                map: vec![],
            }),
            ..Note::default()
        };
        let mut octets = Vec::new();
        note.emit(&mut octets);
        let End {
            sender,
            receiver,
            repairs,
            ..
        } = &mut pair.ends[0];
        assert!(repairs.hear(&octets, sender, receiver, |_| ()));
        pair.run_with(200, |_, _| None);
    }
    let (counts, octets) = pair.ends[0].sender.window_counts();
    assert_eq!(counts.repeated, u64::from(Window::TRANSMISSIONS_MAX) - 1);
    assert_eq!(octets, 0);
    assert_eq!(pair.ends[0].outcomes, [Outcome::Undelivered]);
}

#[test]
fn what_was_never_sent_is_not_taken_for_acknowledged() {
    let mut pair = Pair::new(0);
    pair.ends[0].put(2, &[1; 40]);
    pair.run_with(95, |from, octet| (from == 1).then_some(octet));
    let base = 100;
    let (last, map) = (99, vec![0xff; 16]);
    let came = Came { base, last, map };
    pair.ends[0].sender.window_mut().hear(&came, None);
    assert_eq!(pair.ends[0].sender.window_counts().0.forged, 1);
    assert_eq!(pair.ends[0].sender.held(), 1);
}

#[test]
fn a_new_life_of_either_end_begins_all_numbers_anew() {
    for reborn in [0, 1] {
        let mut pair = Pair::new(800);
        pair.put_some(10);
        pair.run(5000);
        // One end is another, and the other one hears of it.
        pair.ends[reborn] = End::new();
        let End {
            sender,
            receiver,
            repairs,
            ..
        } = &mut pair.ends[1 - reborn];
        repairs.restart(sender, receiver);
        pair.run(3000);
        pair.ends[1].got.clear();
        pair.ends[0].waiting.clear();
        pair.run(3000);
        pair.ends[1].got.clear();
        pair.put_some(10);
        pair.run(40_000);
        assert_eq!(pair.came().len(), 10, "{reborn}");
        assert_eq!(pair.ends[0].sender.held(), 0);
    }
}

#[test]
fn an_end_that_begins_anew_unnoticed_is_heard_again() {
    let mut pair = Pair::new(0);
    pair.put_some(10);
    pair.run(15_000);
    assert_eq!(pair.came().len(), 10);
    let End {
        sender,
        receiver,
        repairs,
        ..
    } = &mut pair.ends[0];
    // The other end's row goes on where it was.
    repairs.restart(sender, receiver);
    repairs.wished = true;
    pair.ends[1].got.clear();
    pair.put_some(10);
    pair.run(20_000);
    assert_eq!(pair.came().len(), 10);
    assert_eq!(pair.ends[0].sender.held(), 0);
}

#[test]
fn what_has_no_number_does_not_overtake_what_has() {
    let mut pair = Pair::new(0);
    pair.put_some(6);
    pair.run(3000);
    pair.ends[0].repairs.wished = false;
    let sender = &pair.ends[0].sender;
    assert!(sender.goes_numbered(2, false));
    assert!(!sender.goes_numbered(5, false));
    pair.run(8000);
    assert!(!pair.ends[0].sender.goes_numbered(2, false));
    assert_eq!(pair.came(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn pieces_are_as_long_as_losses_let_them() {
    let window = Window::new();
    // One octet in 2048 is damaged where nothing is known.
    assert_eq!(window.piece_octets(), 110);
    let piece = |octets: usize, each: usize| {
        let mut pair = Pair::new(0);
        let window = pair.ends[0].sender.window_mut();
        for sent in (0..octets).step_by(100) {
            window.losses.sent(100);
            if each > 0 && sent % each == 0 {
                window.losses.lost();
            }
        }
        window.piece_octets()
    };
    let short = piece(100_000, 500);
    assert!((50..60).contains(&short), "{short}");
    let long = piece(100_000, 10_000);
    assert!((200..300).contains(&long), "{long}");
    assert!(piece(1_000_000, 0) > 300);
    assert_eq!(piece(100_000, 100), 32);
}

#[test]
fn an_end_without_a_number_is_none_with_one_whatever_its_check_looks_like() {
    // Of packets with random checks, one end in 65,536 looks as if it had a number.
    let settings = LinkSettings::for_rate(LineRate::new(9600, 10), 1500);
    let mut receiver = Receiver::new(settings);
    receiver.set_numbered(true);
    let mut alike = 0;
    for number in 0..200_000_u32 {
        let payload = number.to_le_bytes();
        let mut sum = Crc32Sum::new();
        let mut frames = [vec![], vec![]];
        for (place, frame) in frames.iter_mut().enumerate() {
            let header = SegmentHeader {
                first: place == 0,
                last: place == 1,
                stream: 3,
                sequence: place as u8,
            };
            emit_segment(header, &payload, SegmentCheck::Long, &mut sum, frame);
        }
        alike += usize::from(parse_numbered(&frames[1], SegmentCheck::Long).is_ok());
        let mut line = Vec::new();
        for frame in &frames {
            Stuffing::default().stuff_into(frame, &mut line);
            line.push(FLAG);
        }
        let mut told = 0;
        receiver.feed_octets(&line, |read| told += usize::from(read.is_ok()));
        assert_eq!(told, 1, "{number}");
    }
    assert!(alike > 0);
    assert_eq!(receiver.row_counts().0.segments, 0);
}
