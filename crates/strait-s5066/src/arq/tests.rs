//! Both ends of data transfer, without a medium.

use alloc::vec::Vec;

use super::*;
use crate::d_pdu::{Ack, Data, Segment};
use crate::quality::Quality;
use proptest::prelude::*;
use strait_core::Instant;
use strait_core::chance::Stream;

fn frame(number: u16, start: bool, end: bool, octets: &[u8]) -> Data<'_> {
    Data {
        start,
        end,
        in_order: false,
        dropped: false,
        upper: false,
        lower: false,
        number,
        segment: Segment::whole(octets),
    }
}

fn alone(number: u16) -> Data<'static> {
    frame(number, true, true, b"x")
}

#[test]
fn acknowledgements_are_those_of_the_standards_example() {
    let mut receiver = Receiver::new(Numbering::short(128));
    receiver.take(&alone(0)).expect("in sync");
    assert_eq!(
        (receiver.lower(), receiver.selective(1, 16)),
        (1, Vec::new())
    );
    // Number 1 was damaged.
    receiver.take(&alone(2)).expect("in sync");
    assert_eq!(
        (receiver.lower(), receiver.selective(1, 16)),
        (1, Vec::from([1]))
    );
    receiver.take(&alone(1)).expect("in sync");
    assert_eq!(
        (receiver.lower(), receiver.selective(1, 16)),
        (3, Vec::new())
    );
}

#[test]
fn what_is_said_to_wait_is_no_less_than_the_next_frame_needs() {
    const AROUND: usize = 20;
    for (window, octets) in (1..5).flat_map(|window| (20..900).map(move |it| (window, it))) {
        let mut sender = Sender::new(Numbering::short(window), 1023);
        sender.offer(alloc::vec![7; octets], false, false, ());
        let mut quality = Quality::default();
        // The best length falls while a C_PDU is under way.
        for (turn, segment) in [200, 40, 40].into_iter().enumerate() {
            let (backlog, _) = sender.backlog(segment, AROUND);
            if backlog == 0 {
                break;
            }
            let room = backlog - AROUND;
            let next = sender.next(room, segment, Instant::ZERO, |_| Instant::ZERO);
            let number = next.expect("it fits").number;
            sender
                .acknowledge(number + 1, |_| None, segment, &mut quality)
                .expect("in sync");
            assert_eq!(usize::from(number), turn);
        }
    }
}

#[test]
fn numbers_outside_of_the_window_are_refused_and_repeats_are_not() {
    for numbering in [Numbering::short(128), Numbering::long()] {
        let window = numbering.window() as u16;
        let mut receiver = Receiver::new(numbering);
        for number in 0..10 {
            receiver.take(&alone(number)).expect("in sync");
        }
        assert_eq!(core::iter::from_fn(|| receiver.poll()).count(), 10);
        assert_eq!(receiver.take(&alone(10 + window - 1)), Ok(()));
        assert_eq!(receiver.take(&alone(10 + window)), Err(OutOfSync));
        // What the sender may still have held before that: nothing below its window.
        assert_eq!(receiver.take(&alone(9)), Err(OutOfSync));
        let mut receiver = Receiver::new(numbering);
        receiver.take(&alone(0)).expect("in sync");
        receiver.take(&alone(0)).expect("a repeat");
        assert_eq!(core::iter::from_fn(|| receiver.poll()).count(), 1);
        // A lower edge above ours can't be, nor an upper one below what came.
        let lower = Data {
            lower: true,
            ..alone(5)
        };
        assert_eq!(receiver.take(&lower), Err(OutOfSync));
        receiver.take(&alone(3)).expect("in sync");
        let upper = Data {
            upper: true,
            ..alone(1)
        };
        assert_eq!(receiver.take(&upper), Err(OutOfSync));
    }
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_is_refused() {
    let mut sender = Sender::new(Numbering::short(128), 1023);
    let mut quality = Quality::default();
    sender.offer(alloc::vec![0; 100], false, false, ());
    let next = sender.next(1023, 1023, Instant::ZERO, |_| Instant::ZERO);
    assert!(next.is_some());
    let acknowledged = sender.acknowledge(2, |_| None, 1023, &mut quality);
    assert_eq!(acknowledged, Err(OutOfSync));
    assert_eq!(sender.acknowledge(1, |_| None, 1023, &mut quality), Ok(()));
    assert!(sender.poll().is_some_and(|done| done.acked));
}

#[test]
fn frames_that_make_no_c_pdu_are_given_up() {
    let mut receiver = Receiver::new(Numbering::short(128));
    // A middle without a beginning, a beginning without an end, and a whole.
    for data in [
        frame(0, false, false, b"a"),
        frame(1, true, false, b"b"),
        frame(2, true, true, b"c"),
        frame(3, false, true, b"d"),
    ] {
        receiver.take(&data).expect("in sync");
    }
    assert_eq!(receiver.poll(), Some(Vec::from(b"c")));
    assert_eq!(receiver.poll(), None);
    assert_eq!((receiver.lower(), receiver.broken()), (4, 1));
}

#[test]
fn a_c_pdu_without_end_is_given_up() {
    let mut receiver = Receiver::new(Numbering::long());
    receiver
        .take(&frame(0, true, false, b"a"))
        .expect("in sync");
    for number in 1..5000 {
        receiver
            .take(&frame(number, false, false, b"a"))
            .expect("in sync");
    }
    assert_eq!(receiver.broken(), 1);
    receiver
        .take(&frame(5000, true, true, b"b"))
        .expect("in sync");
    assert_eq!(receiver.poll(), Some(Vec::from(b"b")));
}

/// Sends C_PDUs of these sizes over a way that loses a share of frames and acknowledgements.
fn exchange(numbering: Numbering, sizes: &[usize], loss: f64, in_order: bool, seed: u64) {
    let mut chance = Stream::new(seed, "exchange");
    let mut sender = Sender::new(numbering, 1023);
    let mut receiver = Receiver::new(numbering);
    let mut quality = Quality::default();
    let mut waiting = sizes.iter().enumerate();
    let (mut came, mut done) = (Vec::new(), 0);
    for turn in 0..10_000 {
        sender.begin_turn();
        let segment = 20 + chance.below(200) as usize;
        for _ in 0..chance.below(300) {
            if sender.takes()
                && let Some((number, size)) = waiting.next()
            {
                let mut octets = Vec::from((number as u32).to_be_bytes());
                octets.resize(4 + size, 7);
                sender.offer(octets, in_order, chance.below(3) == 0, ());
            }
            let Some(data) = sender.next(1023, segment, Instant::ZERO, |_| Instant::ZERO) else {
                break;
            };
            if !chance.happens(loss) {
                receiver.take(&data).expect("in sync");
            }
        }
        let wholes = core::iter::from_fn(|| receiver.poll());
        came.extend(wholes.map(|whole| {
            assert_eq!(whole.len(), sizes[mark(&whole) as usize] + 4);
            mark(&whole)
        }));
        if chance.happens(loss) {
            sender.probe();
        } else {
            let bits = receiver.selective(1, 1023);
            let told = |above: usize| {
                let octet = bits.get((above - 1) / 8)?;
                Some(octet >> ((above - 1) % 8) & 1 != 0)
            };
            let lower = receiver.lower();
            sender
                .acknowledge(lower, told, segment, &mut quality)
                .expect("in sync");
            sender.end_answer();
        }
        done += core::iter::from_fn(|| sender.poll())
            .filter(|done| done.acked)
            .count();
        if done == sizes.len() {
            break;
        }
        assert!(turn < 9_999, "it never ends");
    }
    if !in_order {
        came.sort_unstable();
    }
    assert_eq!(came, Vec::from_iter(0..sizes.len() as u32));
    assert_eq!(sender.held(), 0);
}

fn mark(whole: &[u8]) -> u32 {
    u32::from_be_bytes(whole[..4].try_into().expect("a mark"))
}

#[test]
fn numbers_wrap_without_harm() {
    let sizes = Vec::from([1; 70_000]);
    exchange(Numbering::long(), &sizes, 0.05, true, 1);
    exchange(Numbering::short(128), &sizes[..5000], 0.2, true, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_c_pdu_arrives_once(
        sizes in proptest::collection::vec(0usize..1500, 1..60),
        loss in 0.0f64..0.6,
        seed: u64,
        window in 1u32..129,
    ) {
        exchange(Numbering::short(window), &sizes, loss, false, seed);
        exchange(Numbering::long(), &sizes, loss, false, seed);
    }

    #[test]
    fn no_frames_do_harm(
        frames in proptest::collection::vec((any::<u16>(), any::<[bool; 6]>(), 0usize..30), 0..200),
        long: bool,
    ) {
        let numbering = if long { Numbering::long() } else { Numbering::short(128) };
        let mut receiver = Receiver::new(numbering);
        for (number, [start, end, in_order, dropped, upper, lower], octets) in frames {
            let octets = alloc::vec![0; octets];
            let _ = receiver.take(&Data {
                start, end, in_order, dropped, upper, lower,
                number: number % 300,
                segment: Segment::whole(&octets),
            });
            while receiver.poll().is_some() {}
            prop_assert!(receiver.selective(1, 16).len() <= 16);
        }
    }
}

#[test]
fn urgent_data_without_end_goes_behind_its_own_repeats() {
    let mut sender = Sender::new(Numbering::long(), 1023);
    let mut quality = Quality::default();
    let at = |_| Instant::ZERO;
    for number in 0..3 {
        sender.offer(alloc::vec![number; 100], false, true, number);
        sender.next(200, 200, Instant::ZERO, at).expect("a frame");
    }
    // The second came, and the first and the third didn't.
    sender
        .acknowledge(0, |above| Some(above == 1), 200, &mut quality)
        .expect("numbers in the window");
    sender.offer(alloc::vec![9; 100], false, true, 9);
    let mut sent = Vec::new();
    while let Some(data) = sender.next(200, 200, Instant::ZERO, at) {
        sent.push(data.number);
    }
    assert_eq!(sent, [0, 2, 3]);
    // Ahead of what isn't urgent it goes.
    let mut plain = Sender::new(Numbering::long(), 1023);
    plain.offer(alloc::vec![1; 100], false, false, 1);
    plain.next(200, 200, Instant::ZERO, at).expect("a frame");
    plain
        .acknowledge(0, |_| Some(false), 200, &mut quality)
        .expect("numbers in the window");
    plain.offer(alloc::vec![2; 100], false, true, 2);
    let next = plain.next(200, 200, Instant::ZERO, at).expect("a frame");
    assert_eq!(next.number, 1);
}

#[test]
fn frames_that_nothing_was_told_of_wait_for_new_ones_and_for_nothing_else() {
    let mut sender = Sender::new(Numbering::long(), 1023);
    let mut quality = Quality::default();
    let at = |_| Instant::ZERO;
    for number in 0..3 {
        sender.offer(alloc::vec![number; 100], false, false, number);
        sender.next(200, 200, Instant::ZERO, at).expect("a frame");
    }
    // The first is missing; the answer's other part got lost.
    sender
        .acknowledge(0, |_| None, 200, &mut quality)
        .expect("numbers in the window");
    sender.end_answer();
    sender.offer(alloc::vec![9; 100], false, false, 9);
    let mut sent = Vec::new();
    while let Some(data) = sender.next(200, 200, Instant::ZERO, at) {
        sent.push(data.number);
    }
    assert_eq!(sent, [0, 3, 1, 2]);
}

#[test]
fn what_is_given_up_is_told_of_in_place_of_its_frames_and_holds_nothing_back() {
    for in_order in [false, true] {
        let mut sender = Sender::new(Numbering::short(128), 10);
        let mut receiver = Receiver::new(Numbering::short(128));
        let ends = |_| Instant::ZERO;
        for ticket in 0..3u8 {
            sender.offer([ticket; 20].into(), in_order, false, ticket);
        }
        // Of the first, half got lost; the rest came.
        for number in 0..6 {
            let data = sender.next(10, 10, Instant::ZERO, ends).expect("a frame");
            if number != 1 {
                receiver.take(&data).expect("in sync");
            }
        }
        let came: Vec<u8> = core::iter::from_fn(|| receiver.poll())
            .map(|it| it[0])
            .collect();
        assert_eq!(came, if in_order { &[][..] } else { &[1, 2] });
        sender.give_up(|ticket| *ticket == 0);
        let done = sender.poll().expect("it is over");
        assert_eq!((done.ticket, done.acked), (0, false));
        let bits = receiver.selective(1, 16);
        let told = |above: usize| Some(bits[(above - 1) / 8] >> ((above - 1) % 8) & 1 != 0);
        let quality = &mut Quality::default();
        sender
            .acknowledge(receiver.lower(), told, 10, quality)
            .expect("in sync");
        let data = sender.next(10, 10, Instant::ZERO, ends).expect("a frame");
        assert!(data.dropped && data.segment.octets.is_empty() && data.number == 1);
        receiver.take(&data).expect("in sync");
        let came = core::iter::from_fn(|| receiver.poll()).count();
        assert_eq!(came, if in_order { 2 } else { 0 });
        sender
            .acknowledge(6, |_| None, 10, quality)
            .expect("in sync");
        assert_eq!((sender.held(), sender.under_way()), (0, 0));
    }
}

#[test]
fn expedited_data_that_was_given_up_before_it_left_uses_up_no_number() {
    let (mut sending, mut receiving) = (Expedited::new(1023), Expedited::<u32>::new(1023));
    let mut quality = Quality::default();
    for round in 0..40 {
        // As many as there are numbers.
        for ticket in 0..round % 17 {
            sending.offer(alloc::vec![0; 100], ticket);
            sending.give_up(|its| *its == ticket);
            assert!(sending.poll().is_some_and(|done| !done.acked));
        }
        sending.offer(alloc::vec![0; 100], 99);
        let next = sending.next(1023, 1023, Instant::ZERO, |_| Instant::ZERO);
        let (number, data) = next.expect("it fits");
        assert!(receiving.take(number, &data).is_some(), "{round}");
        let lower = receiving.ack(16).map(|ack| ack.0).expect("it is owed");
        let ack = Ack {
            lower,
            selective: &[],
        };
        sending.acknowledge(ack, |_| None, 1023, &mut quality);
        assert!(sending.poll().is_some_and(|done| done.acked), "{round}");
    }
}
