//! Two ends and a medium of frames that loses some of them.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use strait_core::fate::{Ledger, Origin};
use strait_core::rate::LineRate;

use super::*;
use crate::repair::Outcome;
use crate::{LinkSettings, Receiver};

const OCTET: Duration = Duration::from_micros(8);
const DELAY: u64 = 100;
const CLASS: ClassId = ClassId(3);

struct End {
    ledger: Ledger,
    sender: FrameSender,
    receiver: Receiver,
    repairs: FrameRepairs,
    /// Packets that wait, with the keys of their flows.
    waiting: VecDeque<(u64, Packet)>,
    key: u64,
    got: Vec<Vec<u8>>,
    outcomes: Vec<Outcome>,
}

impl End {
    fn new(when: When) -> Self {
        let settings = LinkSettings::for_rate(LineRate::new(1_000_000, 8), 1500);
        let mut repairs = FrameRepairs::new(when, OCTET, 1500);
        repairs.agree(true, true);
        Self {
            ledger: Ledger::default(),
            sender: FrameSender::new(settings),
            receiver: Receiver::new(settings),
            repairs,
            waiting: VecDeque::new(),
            key: 0,
            got: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// A packet with a number of a flow.
    fn put(&mut self, key: u64, number: u16, octets: usize) {
        let mut payload = vec![0; octets];
        payload[..2].copy_from_slice(&number.to_be_bytes());
        payload[2] = key as u8;
        let mut bytes = Vec::new();
        let [from, to] = ["[fd00::1]:1000", "[fd00::2]:2000"].map(|it| it.parse().unwrap());
        strait_wire::ip::build_udp(from, to, 0, 64, 0, 0, &payload, &mut bytes);
        let packet = self.ledger.admit(Instant::ZERO, bytes, Origin::Own);
        let mut packet = packet.unwrap();
        packet.class = CLASS;
        self.waiting.push_back((key, packet));
    }

    /// The next frame, if there is one.
    fn pull(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.repairs.advance(now);
        if self.repairs.is_due() {
            let note = self.repairs.note()?;
            self.sender.cut_note(&note, &mut out);
            return Some(out);
        }
        if let Some((packet, frame)) = self.repairs.repeat(CLASS) {
            out.extend_from_slice(frame);
            self.repairs.repeated(now, packet);
            return Some(out);
        }
        if !self.sender.is_under_way(0)
            && self.repairs.has_window()
            && let Some((key, packet)) = self.waiting.pop_front()
        {
            self.key = key;
            if self.repairs.numbers() {
                let number = self.repairs.begin();
                self.sender.begin_numbered(0, packet, None, number);
            } else {
                self.sender.begin(0, packet, None);
            }
        }
        if self.sender.is_under_way(0) {
            let kept_as = self.sender.kept_as(0);
            match kept_as {
                None => self.sender.cut(now, 0, false, 1400, &mut out)?,
                Some(packet) => {
                    let (key, class) = (self.key, CLASS);
                    let piece = Piece { packet, key, class };
                    let repairs = &mut self.repairs;
                    let sender = &mut self.sender;
                    sender.cut_numbered(now, 0, piece, 1400, repairs, &mut out)?
                }
            };
            if let Some(packet) = self.sender.finish(now, 0) {
                match kept_as {
                    Some(number) => self.repairs.keep(now, number, packet),
                    None => self
                        .ledger
                        .drop(now, packet, strait_core::DropCause::PortDown),
                }
            }
            return Some(out);
        }
        let note = self.repairs.note()?;
        self.sender.cut_note(&note, &mut out);
        Some(out)
    }

    fn hear(&mut self, now: Instant, frame: &[u8]) {
        self.repairs.advance(now);
        let (mut whole, mut notes) = (Vec::new(), Vec::new());
        let mut tell = |read: Result<&[u8], Refused>| match read {
            Ok(bytes) if bytes.first() == Some(&0xfe) => notes.push(bytes.to_vec()),
            Ok(bytes) => whole.push(bytes.to_vec()),
            Err(_) => {}
        };
        if !self.repairs.take(frame, &mut tell)
            && let Some(header) = self.receiver.feed_frame(frame, tell)
        {
            self.repairs.came(header);
        }
        for note in notes {
            let tell = |read: Result<&[u8], Refused>| whole.extend(read.map(<[u8]>::to_vec));
            assert!(self.repairs.hear(&note, tell), "{note:?}");
        }
        self.repairs.heard(frame.len());
        self.got.append(&mut whole);
        let done: Vec<Done> = self.repairs.done().collect();
        for (packet, _, outcome) in done {
            self.outcomes.push(outcome);
            self.ledger.drop(now, packet, strait_core::DropCause::Aged);
        }
    }

    /// The numbers of a flow's packets that came.
    fn numbers(&self, key: u64) -> Vec<u16> {
        let of_flow = self.got.iter().filter(|it| u64::from(it[50]) == key);
        of_flow
            .map(|it| u16::from_be_bytes([it[48], it[49]]))
            .collect()
    }
}

/// A frame each way each millisecond, of which some are lost.
struct Medium {
    ends: [End; 2],
    now: u64,
    sent: usize,
    way: [VecDeque<(u64, Vec<u8>)>; 2],
}

impl Medium {
    fn new(when: When) -> Self {
        Self {
            ends: [End::new(when), End::new(when)],
            now: 0,
            sent: 0,
            way: [VecDeque::new(), VecDeque::new()],
        }
    }

    fn run(&mut self, ms: u64, loses: impl Fn(usize) -> bool) {
        for _ in 0..ms {
            self.now += 1;
            let now = Instant::from_nanos(self.now * 1_000_000);
            for from in [0, 1] {
                if let Some(frame) = self.ends[from].pull(now) {
                    self.sent += 1;
                    if !loses(self.sent) {
                        self.way[from].push_back((self.now + DELAY, frame));
                    }
                }
                while let Some((_, frame)) = self.way[from].pop_front_if(|it| it.0 <= self.now) {
                    self.ends[1 - from].hear(now, &frame);
                }
            }
        }
    }
}

#[test]
fn what_is_lost_comes_once_and_each_flow_in_order() {
    let mut medium = Medium::new(When::Always);
    medium.run(300, |_| false);
    for number in 0..400 {
        // Of two segments each third packet.
        let octets = if number % 3 == 0 { 1420 } else { 600 };
        medium.ends[0].put(u64::from(number % 2), number, octets);
    }
    medium.run(2500, |sent| sent % 7 == 3);
    let to = &medium.ends[1];
    for key in [0, 1] {
        let all: Vec<u16> = (0..400).filter(|it| u64::from(it % 2) == key).collect();
        assert_eq!(to.numbers(key), all);
    }
    let from = &medium.ends[0];
    assert_eq!(from.outcomes.len(), 400);
    assert!(from.outcomes.iter().all(|it| *it == Outcome::Came));
    let (window, _, _, octets) = from.repairs.counts();

    assert!(window.repeated > 60, "{window:?}");
    assert_eq!((octets, to.repairs.counts().3), ([0; 2], [0; 2]));
}

#[test]
fn a_flow_does_not_wait_for_another() {
    let mut row = Row::new(1500);
    let mut came = Vec::new();
    let mut take = |number: u16, after: u16| {
        let linked = Linked {
            header: SegmentHeader::parse(0xc0),
            number,
            after,
            payload: &[number as u8],
        };
        let arrived = row.take(&linked, |read| came.push(read.unwrap()[0]));
        (arrived, core::mem::take(&mut came))
    };
    assert_eq!(take(0, 0), (Arrived::Next, vec![0]));
    // Number 1 is lost: 3 comes after it, 2 and 4 don't.
    assert_eq!(take(2, 2), (Arrived::Gap, vec![2]));
    assert_eq!(take(3, 2), (Arrived::Next, vec![]));
    assert_eq!(take(4, 2), (Arrived::Next, vec![4]));
    assert_eq!(take(3, 2), (Arrived::Needless, vec![]));
    assert_eq!(take(1, 1), (Arrived::Filled, vec![1, 3]));
    assert_eq!(row.held_octets(), 0);
    assert_eq!(row.first_missing(), None);
}

#[test]
fn the_sequence_of_streams_shows_losses_and_nothing_else() {
    let lost = |sequences: &[u8]| {
        let mut repairs = FrameRepairs::new(When::Errors, OCTET, 1500);
        for sequence in sequences {
            repairs.came(SegmentHeader::parse(0xc0 | sequence));
            repairs.heard(1000);
        }
        repairs.wishes()
    };
    assert!(!lost(&[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]));
    // One is no reason, two are; nor is one that comes twice, or late.
    assert!(!lost(&[0, 2, 3, 4]));
    assert!(lost(&[0, 2, 3, 5]));
    assert!(!lost(&[0, 1, 1, 2, 2, 3, 3]));
    assert!(!lost(&[0, 1, 3, 2, 4, 5]));
}

#[test]
fn without_losses_nothing_has_a_number() {
    let mut medium = Medium::new(When::Errors);
    (0..200).for_each(|number| medium.ends[0].put(0, number, 1000));
    medium.run(400, |_| false);
    assert_eq!(medium.ends[1].numbers(0).len(), 200);
    assert_eq!(medium.ends[1].repairs.counts().1, RowCounts::default());
    // Once two were lost, all have.
    (200..2400).for_each(|number| medium.ends[0].put(0, number, 1000));
    medium.run(4000, |sent| sent % 20 == 0);
    let came = medium.ends[1].numbers(0);
    assert!(came.is_sorted(), "{came:?}");
    assert!(
        came.ends_with(&(1400..2400).collect::<Vec<u16>>()),
        "{came:?}"
    );
}

#[test]
fn what_is_given_up_holds_nobody_up() {
    let mut medium = Medium::new(When::Always);
    medium.run(300, |_| false);
    for number in 0..60 {
        medium.ends[0].put(0, number, 1000);
        let (_, packet) = medium.ends[0].waiting.back_mut().unwrap();
        packet.expires = Instant::from_nanos(if number < 30 { 500_000_000 } else { u64::MAX });
    }
    let begun = medium.sent;
    medium.run(30, |_| true);
    assert!(medium.sent > begun);
    medium.run(200, |_| false);
    medium.ends[0].repairs.age(Instant::from_nanos(600_000_000));
    medium.run(1500, |_| false);
    let to = &medium.ends[1];
    assert_eq!(to.numbers(0), (30..60).collect::<Vec<u16>>());
    assert_eq!(to.repairs.counts().3, [0; 2]);
}

#[test]
fn neither_end_takes_what_nobody_can_have_sent() {
    let mut row = Row::new(1500);
    let mut take = |number: u16, octets: usize| {
        let linked = Linked {
            header: SegmentHeader::parse(0xc0),
            number,
            after: 1,
            payload: &vec![0; octets],
        };
        row.take(&linked, |_| {});
        (row.counts, row.held_octets())
    };
    assert_eq!(take(Window::SEGMENTS_MAX as u16, 10).0.refused, 1);
    assert_eq!(take(Window::SEGMENTS_MAX as u16 - 1, 10).1, 10);
    assert_eq!(take(40_000, 10).0.duplicates, 1);
    (1..4000).for_each(|number| _ = take(2 * number % 4090, 1500));
    assert!(row.held_octets() <= 4 << 20);
    // Its pieces are no more than a packet may have.
    let mut row = Row::new(100);
    let mut read = Vec::new();
    for (number, header) in [(0, 0x80), (1, 0x00), (2, 0x40)] {
        let linked = Linked {
            header: SegmentHeader::parse(header),
            number,
            after: number.min(1),
            payload: &[0; 60],
        };
        row.take(&linked, |it| read.push(it.map(<[u8]>::len)));
    }
    assert_eq!(read, [Err(Refused::Invalid), Err(Refused::Incomplete)]);
    let mut window = Window::new();
    let forged = strait_wire::repair::Came {
        base: 7,
        ..Default::default()
    };
    window.hear(&forged, None);
    assert_eq!(window.counts.forged, 1);
}
