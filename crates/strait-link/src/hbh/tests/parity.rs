//! Parity frames: what they make good, and when they go.

use super::*;
use crate::hbh::parity::{Groups, Recent};

/// Packets with a parity frame behind so many.
const fn guarded(parity: u16) -> Manner {
    Manner {
        tag: 3,
        flow: None,
        reliability: Reliability::Retries(0),
        parity,
        says: None,
    }
}

/// Two ends, the first of which sends a packet each 20 ms, a parity frame behind every `most`.
struct Call {
    pair: Pair,
    next: u16,
    most: u16,
    frames: Vec<Vec<u8>>,
}

impl Call {
    fn new(most: u16) -> Self {
        let mut call = Self {
            pair: Pair::known(),
            next: 0,
            most,
            frames: Vec::new(),
        };
        // The first group tells the other end that there are such frames.
        call.packets(most, &[]);
        call.pair.run(500, |_, _, _| vec![0]);
        call
    }

    /// Sends packets; of the frames of this end, those with these numbers are lost.
    fn packets(&mut self, count: u16, lost: &[usize]) {
        self.frames.clear();
        for _ in 0..count {
            self.pair.ends[0]
                .queue
                .push((self.next, guarded(self.most)));
            self.next += 1;
            self.run(20, lost);
        }
    }

    fn run(&mut self, ms: u64, lost: &[usize]) {
        let frames = &mut self.frames;
        self.pair.run(ms, |from, _, frame| {
            if from == 1 {
                return vec![0];
            }
            frames.push(frame.to_vec());
            if lost.contains(&(frames.len() - 1)) {
                vec![]
            } else {
                vec![0]
            }
        });
    }

    fn came(&self) -> Vec<u16> {
        let mut came = self.pair.ends[1].came.clone();
        came.sort_unstable();
        came
    }
}

#[test]
fn a_parity_frame_makes_any_one_of_its_packets_again() {
    for lost in 0..3 {
        let mut call = Call::new(3);
        let at = call.pair.now_ms;
        call.packets(3, &[lost]);
        assert_eq!(call.frames.len(), 4, "three packets and their parity");
        assert_eq!(call.frames[3][0], 0x0c);
        // It left behind the third packet, 40 ms after the first.
        call.run(at + 43 + 50 - call.pair.now_ms, &[]);
        assert!(call.came().iter().copied().eq(0..6), "{lost}");
        let counts = call.pair.ends.each_ref().map(|end| end.hop.counts());
        assert_eq!((counts[0].parities, counts[1].restored), (2, 1));
        // Nobody takes for lost what was made again.
        call.run(1000, &[]);
        let counts = call.pair.ends[0].hop.counts();
        assert_eq!((counts.repeated, counts.needless), (0, 0));
        let done = call.pair.ends[0].done.values();
        assert!(done.eq([&Outcome::Acknowledged; 6]));
    }
}

#[test]
fn two_losses_of_a_group_are_more_than_its_parity_makes_good() {
    for lost in [[0, 1], [1, 2], [0, 3]] {
        let mut call = Call::new(3);
        call.packets(3, &lost);
        call.run(2000, &[]);
        let gone = lost.iter().filter(|frame| **frame < 3).count();
        assert_eq!(call.came().len(), 6 - gone);
        let counts = call.pair.ends[1].hop.counts();
        assert_eq!((counts.restored, call.pair.ends[1].hop.held()), (0, 0));
    }
}

#[test]
fn a_lost_parity_frame_costs_nothing() {
    let mut call = Call::new(3);
    call.packets(3, &[3]);
    call.packets(3, &[]);
    call.run(1000, &[]);
    assert!(call.came().iter().copied().eq(0..9));
    assert_eq!(call.pair.ends[0].hop.counts().repeated, 0);
}

#[test]
fn a_pause_ends_a_group() {
    let mut call = Call::new(8);
    // A pause of twice their distance, but 60 ms at least.
    let at = call.pair.now_ms;
    call.packets(2, &[0]);
    assert_eq!(call.frames.len(), 2);
    call.run(at + 20 + 60 - call.pair.now_ms, &[0]);
    assert_eq!(call.frames.len(), 2);
    call.run(1, &[]);
    assert_eq!(call.frames.len(), 3);
    assert_eq!(call.frames[2][0], 0x0c);
    call.run(50, &[]);
    assert!(call.came().iter().copied().eq(0..10));
}

#[test]
fn a_packet_alone_is_followed_by_what_makes_it_again() {
    let mut call = Call::new(8);
    call.packets(1, &[0]);
    call.run(300, &[]);
    assert!(call.came().iter().copied().eq(0..9));
}

#[test]
fn a_class_with_both_is_repeated_only_where_parity_fails() {
    let mut call = Call::new(3);
    let both = Manner {
        reliability: Reliability::Full,
        ..guarded(3)
    };
    let mut sent = |lost: &[usize]| {
        let before = call.pair.ends[0].hop.counts().repeated;
        let queue = (call.next..call.next + 3).map(|number| (number, both));
        call.pair.ends[0].queue.extend(queue);
        call.next += 3;
        call.frames.clear();
        call.run(3000, lost);
        assert!(call.came().iter().copied().eq(0..call.next));
        call.pair.ends[0].hop.counts().repeated - before
    };
    assert_eq!(sent(&[1]), 0);
    assert_eq!(sent(&[0, 1]), 2);
    assert_eq!(sent(&[2, 3]), 1);
}

#[test]
fn a_group_ends_where_its_frame_could_tell_of_no_more() {
    let mut call = Call::new(3);
    call.packets(1, &[]);
    // Others have the next 32 numbers; the group's frame goes when the last of them is taken.
    let others = (1000..1032).map(|number| (number, Manner::default()));
    call.pair.ends[0].queue.extend(others);
    call.run(31, &[]);
    assert!(call.frames.iter().all(|frame| frame[0] != 0x0c));
    call.run(2, &[]);
    assert_eq!(
        call.frames.iter().filter(|frame| frame[0] == 0x0c).count(),
        1
    );
}

#[test]
fn a_group_that_is_too_old_is_forgotten() {
    let mut groups = Groups::new(SegmentCheck::Short);
    let mut old = packet(ms(0), 1);
    old.expires = ms(50);
    let header = DataHeader::with_rest(7, 9, &[0; 6]).unwrap();
    groups.add(ms(0), &old, 8, &header, old.bytes());
    assert_eq!(groups.due_at(), Some(ms(50)));
    groups.advance(ms(49));
    assert!(groups.has(7));
    groups.advance(ms(50));
    assert!(!groups.has(7));
    assert_eq!((groups.due_at(), groups.classes().count()), (None, 0));
}

#[test]
fn a_parity_frame_of_what_isnt_missing_does_nothing() {
    let mut call = Call::new(3);
    call.packets(3, &[]);
    let parity = call.frames[3].clone();
    call.run(500, &[]);
    let before = call.pair.ends[1].hop.counts();
    let now = ms(call.pair.now_ms);
    for _ in 0..5 {
        let heard = call.pair.ends[1].hop.hear(now, &parity, |_, _| true);
        assert_eq!(heard, Heard::Nothing);
    }
    assert_eq!(call.pair.ends[1].hop.counts(), before);
    assert!(!call.pair.ends[1].hop.has_control(now), "nothing to say");
}

/// A header with a tag and a lifetime of 200 ms.
fn header(seq: u16, tag: u8) -> DataHeader {
    DataHeader::with_rest(seq, 0, &[tag << 5, 20, 0, 0, 0, 0]).unwrap()
}

/// What stood in two frames, added.
fn two_lines() -> hbh::ParitySum {
    let mut sum = hbh::ParitySum::default();
    for line in [b"one", b"two"] {
        sum.add(SegmentCheck::Short, &[&header(0, 0).rest(), line]);
    }
    sum
}

fn parity(first: u16, sum: &hbh::ParitySum) -> Parity<'_> {
    Parity {
        tag: 0,
        first,
        others: 1,
        serial: 9,
        sum: sum.octets(),
    }
}

#[test]
fn what_came_long_ago_is_none_of_a_group() {
    let sum = two_lines();
    for tag in [0, 1] {
        let mut recent = Recent::new(SegmentCheck::Short);
        recent.missing(ms(0), &parity(0, &sum));
        // One overtakes the other.
        recent.note(ms(0), &header(8, 0), b"two");
        recent.note(ms(0), &header(7, 0), b"one");
        assert_eq!(recent.missing(ms(0), &parity(7, &sum)), None, "nothing is");
        let (made, line) = recent.missing(ms(0), &parity(8, &sum)).unwrap();
        assert_eq!((made.seq, &line[..]), (9, &b"one"[..]));
        recent.note(ms(0), &header(2000, tag), b"far on");
        let none = recent.missing(ms(0), &parity(8, &sum));
        assert_eq!(none, None, "both are, behind one of tag {tag}");
    }
}

#[test]
fn what_is_made_again_is_as_old_as_it_would_be() {
    let sum = two_lines();
    // By the packet before it, or if there is none the one behind it.
    for (there, line, made_line) in [(7, b"one", b"two"), (8, b"two", b"one")] {
        let mut recent = Recent::new(SegmentCheck::Short);
        recent.missing(ms(0), &parity(0, &sum));
        recent.note(ms(1000), &header(there, 0), line);
        let (made, line) = recent.missing(ms(1060), &parity(7, &sum)).unwrap();
        assert_eq!((made.seq, &line[..]), (15 - there, &made_line[..]));
        assert_eq!(made.lifetime.left(), Some(140 * MS));
    }
}

#[test]
fn a_pause_counts_from_when_a_packet_has_left() {
    let mut groups = Groups::new(SegmentCheck::Short);
    let one = packet(ms(0), 1);
    groups.add(ms(0), &one, 3, &header(1, 0), one.bytes());
    groups.left(1, ms(380));
    assert_eq!(groups.due_at(), Some(ms(440)));
    groups.advance(ms(439));
    groups.add(ms(390), &one, 3, &header(2, 0), one.bytes());
    groups.left(2, ms(770));
    groups.advance(ms(829));
    assert_eq!(groups.classes().count(), 0);
    groups.advance(ms(830));
    assert_eq!(groups.classes().count(), 1);
    // One of them goes again: another form of it may come.
    groups.forget(2);
    assert_eq!(groups.classes().count(), 0);
}

#[test]
fn where_parity_fails_the_sender_learns_it_at_once() {
    let mut call = Call::new(3);
    let at = call.pair.now_ms;
    let both = Manner {
        reliability: Reliability::Full,
        ..guarded(3)
    };
    let queue = (call.next..call.next + 3).map(|number| (number, both));
    call.pair.ends[0].queue.extend(queue);
    call.frames.clear();
    call.run(400, &[0, 1]);
    assert_eq!(call.came().len(), 6, "{} ms", call.pair.now_ms - at);
}
