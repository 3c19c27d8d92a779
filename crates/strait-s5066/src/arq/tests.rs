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
        let octet = |place: usize| bits.get(place / 8).copied().unwrap_or(0);
        let told = |above: usize| Some(octet(above - 1) >> ((above - 1) % 8) & 1 != 0);
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

/// Whatever a frame in the sender's name says, and whenever it comes, what is sent is acknowledged
/// in a few answers.
#[test]
fn a_frame_of_somebody_else_keeps_no_expedited_data_from_being_acknowledged() {
    let numbers = (0..16).chain(120..136).chain([200, 254, 255]);
    let frames = numbers.flat_map(|number| [0, 1, 9].map(|c_pdu| (c_pdu, number)));
    let frames = frames.flat_map(|it| [false, true].map(|end| (it, end)));
    let frames = frames.flat_map(|it| [0, 1, 2].map(|moment| (it, moment)));
    for (((forged, number), end), moment) in frames {
        let (mut sending, mut receiving) = (Expedited::new(1023), Expedited::<u32>::new(1023));
        let mut quality = Quality::default();
        let ghost = Data {
            start: false,
            end,
            in_order: false,
            dropped: false,
            upper: false,
            lower: false,
            number,
            segment: Segment::whole(b"ghost"),
        };
        if moment == 0 {
            receiving.take(forged, &ghost);
        }
        sending.offer(alloc::vec![0; 300], 99);
        let mut came = 0;
        for round in 0..6 {
            // Of the first turn a frame is lost, in the middle or the last.
            let mut lost = (round == 0).then_some(moment);
            while let Some((c_pdu, data)) =
                sending.next(1023, 100, Instant::ZERO, |_| Instant::ZERO)
            {
                if lost == Some(data.number) {
                    lost = None;
                    continue;
                }
                came += usize::from(
                    receiving
                        .take(c_pdu, &data)
                        .is_some_and(|it| it == [0; 300]),
                );
            }
            if round + 1 == moment {
                receiving.take(forged, &ghost);
            }
            let (lower, selective) = receiving.ack(16).expect("it is owed");
            let told = |above: usize| {
                let octet = selective.get((above - 1) / 8);
                Some(octet.is_some_and(|it| it >> ((above - 1) % 8) & 1 != 0))
            };
            let ack = Ack {
                lower,
                selective: &selective,
            };
            std::eprintln!();
            sending.acknowledge(ack, told, 1023, &mut quality);
            sending.end_answer();
        }
        let done = sending.poll().is_some_and(|done| done.acked);
        let what = (forged, number, end, moment, came);
        assert!(done && came <= 2, "{what:?}");
    }
}

/// C.3.3 (5), (6), (11), (12), (15), (16), C.4.1 (2)–(8), C.6.2 (3): the pieces of a C_PDU go in
/// order by numbers in order, all of one length but the last; flags tell the first and the last,
/// and the edges of what is under way.
#[test]
fn segments_are_cut_in_order_and_only_the_last_is_shorter() {
    for (octets, segment, frames) in [
        (1, 1023, 1),
        (1023, 1023, 1),
        (1024, 1023, 2),
        (1000, 300, 3),
        (4000, 5000, 4),
    ] {
        let c_pdu: Vec<u8> = (0..octets).map(|octet| octet as u8).collect();
        let mut sender = Sender::new(Numbering::short(128), 1023);
        // Behind one that is under way.
        sender.offer(alloc::vec![9], false, false, 0);
        assert!(
            sender
                .next(1023, 1023, Instant::ZERO, |_| Instant::ZERO)
                .is_some()
        );
        sender.offer(c_pdu.clone(), true, false, 1);
        let (mut all, mut lengths) = (Vec::new(), Vec::new());
        while let Some(data) = sender.next(1023, segment, Instant::ZERO, |_| Instant::ZERO) {
            let place = lengths.len();
            assert_eq!(usize::from(data.number), 1 + place);
            assert_eq!((data.start, data.end), (place == 0, place + 1 == frames));
            assert!(data.in_order && data.upper && !data.lower && !data.dropped);
            all.extend_from_slice(data.segment.octets);
            lengths.push(data.segment.octets.len());
        }
        assert_eq!((all, lengths.len()), (c_pdu, frames));
        let (last, others) = lengths.split_last().expect("some");
        assert!(others.iter().all(|length| length == &lengths[0]) && *last <= lengths[0]);
        assert!(lengths[0] <= 1023);
    }
    // The lower edge is marked where it goes again.
    let mut sender = Sender::new(Numbering::short(128), 1023);
    sender.offer(alloc::vec![1; 20], false, false, ());
    let next = |sender: &mut Sender<()>| {
        let data = sender.next(1023, 10, Instant::ZERO, |_| Instant::ZERO);
        data.map(|data| (data.number, data.lower, data.upper))
    };
    assert_eq!(next(&mut sender), Some((0, true, true)));
    assert_eq!(next(&mut sender), Some((1, false, true)));
    sender.end_answer();
    assert_eq!(next(&mut sender), Some((0, true, false)));
}

/// C.3.4 (3)–(5), (8)–(14), C.6.2 (16), (17): bits stand for the numbers behind the lowest one that
/// didn't come, the lowest bit first, up to the highest that came; what fills the octet is zero.
#[test]
fn bits_of_an_acknowledgement_go_up_from_behind_the_lower_edge() {
    let mut receiver = Receiver::new(Numbering::short(128));
    // From 250 on: 250 to 252 came, 253 didn't; 254, 1 and 6 did, past the wrap.
    receiver.set_lower(250);
    for number in [250, 251, 252, 254, 1, 6] {
        receiver.take(&alone(number)).expect("in sync");
    }
    assert_eq!(receiver.lower(), 253);
    // 254, 255, 0, 1, 2, 3, 4, 5, then 6.
    assert_eq!(receiver.selective(1, 16), [0b0000_1001, 0b0000_0001]);
    // Up to 128 frames, of which the lowest has no bit: 16 octets.
    receiver.take(&alone(253 + 127 - 256)).expect("in sync");
    assert_eq!(receiver.selective(1, 16).len(), 16);
    let mut sender = Sender::new(Numbering::short(128), 1023);
    for ticket in 0..9 {
        sender.offer(alloc::vec![0; 10], false, false, ticket);
        sender.next(1023, 10, Instant::ZERO, |_| Instant::ZERO);
    }
    let mut quality = Quality::default();
    let told = |above: usize| Some([3, 5].contains(&above));
    sender
        .acknowledge(2, told, 10, &mut quality)
        .expect("in sync");
    let acked = core::iter::from_fn(|| sender.poll()).map(|done| done.ticket);
    assert_eq!(Vec::from_iter(acked), [0, 1, 5, 7]);
    assert_eq!(sender.lower(), 2);
}

/// C.6.2 (7)–(11), (16), (17): no more new frames go than the window holds, until its lower edge
/// moves.
#[test]
fn no_more_goes_than_the_window_holds() {
    for (window, most) in [(128, 128), (500, 128), (10, 10)] {
        let mut sender = Sender::new(Numbering::short(window), 1023);
        sender.offer(alloc::vec![0; 3000], false, false, ());
        let next = |sender: &mut Sender<()>| {
            let data = sender.next(1023, 10, Instant::ZERO, |_| Instant::ZERO);
            data.map(|data| data.number)
        };
        let sent = core::iter::from_fn(|| next(&mut sender)).count();
        assert_eq!(sent, most);
        let mut quality = Quality::default();
        // Above a gap nothing helps.
        let all = |above: usize| Some(above < most);
        sender
            .acknowledge(0, all, 10, &mut quality)
            .expect("in sync");
        assert_eq!((next(&mut sender), next(&mut sender)), (Some(0), None));
        let none = |_: usize| Some(false);
        let lower = most as u16;
        sender
            .acknowledge(lower, none, 10, &mut quality)
            .expect("in sync");
        assert_eq!((sender.lower(), next(&mut sender)), (lower, Some(lower)));
    }
}

/// C.6.3.2.2 (7): a bit for a number that wasn't sent shows that the ends have lost one another.
#[test]
fn bits_for_frames_that_were_not_sent_are_refused() {
    for numbering in [
        Numbering::short(128),
        Numbering::short(4),
        Numbering::long(),
    ] {
        let mut sender = Sender::new(numbering, 1023);
        let mut quality = Quality::default();
        sender.offer(alloc::vec![0; 30], false, false, ());
        while sender
            .next(1023, 10, Instant::ZERO, |_| Instant::ZERO)
            .is_some()
        {}
        let mut bit = |place: usize| {
            let told = |above: usize| Some(above == place);
            sender.acknowledge(0, told, 10, &mut quality)
        };
        assert_eq!(bit(2), Ok(()));
        for place in [3, 100, 127] {
            assert_eq!(bit(place), Err(OutOfSync), "{place}");
        }
    }
}

/// On a channel that got worse C_PDUs go again in shorter frames in the order in which they came,
/// before those that came later: what waits for the first waits no longer than it has to.
#[test]
fn what_is_cut_anew_goes_in_the_order_in_which_it_came() {
    let mut sender = Sender::new(Numbering::long(), 1023);
    let next = |sender: &mut Sender<()>, segment| {
        let data = sender.next(1023, segment, Instant::ZERO, |_| Instant::ZERO);
        data.map(|data| (data.dropped, data.segment.octets.first().copied()))
    };
    for octet in 0..4 {
        sender.offer(alloc::vec![octet; 100], false, false, ());
        next(&mut sender, 100);
    }
    sender.offer(alloc::vec![4; 20], false, false, ());
    let mut quality = Quality::default();
    sender.set_again_max(30);
    // The first arrived, the last two are told of later.
    let told = |above: usize| (above < 1).then_some(false);
    sender
        .acknowledge(1, told, 20, &mut quality)
        .expect("in sync");
    let none = |_: usize| Some(false);
    sender
        .acknowledge(1, none, 20, &mut quality)
        .expect("in sync");
    let sent: Vec<_> = core::iter::from_fn(|| next(&mut sender, 20)).collect();
    let (dropped, others) = sent.split_at(3);
    assert_eq!(dropped, [(true, None); 3]);
    let mut order: Vec<u8> = others.iter().filter_map(|(_, octet)| *octet).collect();
    assert_eq!(order.len(), 3 * 5 + 1);
    order.dedup();
    assert_eq!(order, [1, 2, 3, 4]);
}

/// A C_PDU in four frames of 250 octets, on a channel for which 60 are best: the one that is
/// missing takes fewer octets than all of it, unless it was lost often; three take more.
#[test]
fn what_is_cut_anew_lacks_more_than_it_has() {
    for (came, lost) in [(3, 5..=8), (1, 1..=1)] {
        let mut sender = Sender::new(Numbering::long(), 1023);
        sender.offer(alloc::vec![7; 1000], false, false, ());
        let mut quality = Quality::default();
        (0..1200).for_each(|place| quality.learn(76, place % 4 > 0));
        let best = quality.segment_octets(16, 1023);
        assert!((40..=62).contains(&best), "{best}");
        let mut next = || {
            let mut dropped = false;
            while let Some(data) = sender.next(1023, 250, Instant::ZERO, |_| Instant::ZERO) {
                dropped |= data.dropped;
            }
            let told = |above: usize| Some((4 - came..4).contains(&above));
            let acknowledged = sender.acknowledge(0, told, best, &mut quality);
            dropped || acknowledged.is_err()
        };
        let times = (0..20).take_while(|_| !next()).count();
        assert!(lost.contains(&times), "{times} with {came} of 4");
    }
}

#[test]
fn frames_lost_by_a_faster_waveform_count_as_lost_once() {
    let mut sender = Sender::new(Numbering::long(), 1023);
    sender.offer(alloc::vec![7; 200], false, false, ());
    let mut quality = Quality::default();
    let lose = |sender: &mut Sender<()>, quality: &mut Quality| {
        let data = sender.next(1023, 200, Instant::ZERO, |_| Instant::ZERO);
        let dropped = data.map(|data| data.dropped);
        let none = |_: usize| Some(false);
        sender.acknowledge(0, none, 90, quality).expect("in sync");
        dropped
    };
    for _ in 0..2 {
        assert_eq!(lose(&mut sender, &mut quality), Some(false));
    }
    sender.forget_tries();
    for dropped in [false, false, true] {
        assert_eq!(lose(&mut sender, &mut quality), Some(dropped));
    }
}
