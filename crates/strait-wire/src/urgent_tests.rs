use super::*;
use alloc::vec;
use proptest::prelude::*;

const SHORT: SegmentCheck = SegmentCheck::Short;
const LONG: SegmentCheck = SegmentCheck::Long;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Frame(Vec<u8>),
    Urgent(Vec<u8>),
    Damaged,
    Fault(FrameFault),
}

fn feed(receiver: &mut Interleaved, line: &[u8]) -> Vec<Told> {
    let mut told = Vec::new();
    receiver.feed(line, |shown| {
        told.push(match shown {
            Shown::Frame(bytes) => Told::Frame(bytes.to_vec()),
            Shown::Urgent(bytes) => Told::Urgent(bytes.to_vec()),
            Shown::Damaged => Told::Damaged,
            Shown::Fault(fault) => Told::Fault(fault),
        });
    });
    told
}

/// By octet and in bulk, which must agree.
fn told(check: SegmentCheck, line: &[u8]) -> Vec<Told> {
    let whole = feed(&mut Interleaved::new(100, Some(check)), line);
    let mut receiver = Interleaved::new(100, Some(check));
    let single = line.chunks(1).flat_map(|octet| feed(&mut receiver, octet));
    assert_eq!(single.collect::<Vec<_>>(), whole);
    whole
}

fn urgent(payload: &[u8], check: SegmentCheck) -> Vec<u8> {
    let mut line = vec![];
    assert!(emit_urgent(payload, check, &mut line));
    line
}

#[test]
fn literal_frames() {
    // Checks computed by another implementation of both polynomials.
    assert_eq!(urgent(b"voice", SHORT), *b"\x7c\x05voice\xbb\x04");
    assert_eq!(urgent(b"voice", LONG), *b"\x7c\x05voice\x36\x9f\xd6\xc0");
    // Three octets to escape, or none under the mask.
    let masked = urgent(&[0x7c, 0x7d, 0x7e], SHORT);
    assert_eq!(masked, [0x7c, 0x83, 0xd6, 0xd7, 0xd4, 0xe9, 0xa1]);
    assert_eq!(told(SHORT, &masked), [Told::Urgent(vec![0x7c, 0x7d, 0x7e])]);
}

#[test]
fn a_frame_is_suspended_after_any_octet_and_goes_on() {
    // The suspended frame has an escape, so that one place is between it and its octet.
    let around = [0x41, 0x7d, 0x5e, 0x42, 0x7d, 0x5c, 0x7e];
    let frame = Told::Frame(vec![0x41, 0x7e, 0x42, 0x7c]);
    for at in 0..around.len() {
        let (left, right) = around.split_at(at);
        let line = [left, &urgent(b"now", SHORT), right].concat();
        assert_eq!(
            told(SHORT, &line),
            [Told::Urgent(b"now".to_vec()), frame.clone()],
            "{at}"
        );
    }
    // Two at the same place.
    let line = [
        &around[..2],
        &urgent(b"1", SHORT),
        &urgent(b"2", SHORT),
        &around[2..],
    ]
    .concat();
    let both = [b"1", b"2"].map(|one| Told::Urgent(one.to_vec()));
    assert_eq!(told(SHORT, &line)[..2], both);
    assert_eq!(told(SHORT, &line)[2..], [frame]);
}

#[test]
fn lengths_at_their_limits() {
    for length in [1, 63, 64, 100] {
        let line = urgent(&vec![0x55; length], SHORT);
        assert_eq!(line[1] & 0x40 != 0, length > 63);
        assert_eq!(told(SHORT, &line), [Told::Urgent(vec![0x55; length])]);
    }
    let line = urgent(&[0x55; 101], SHORT);
    assert_eq!(told(SHORT, &line), [Told::Fault(FrameFault::TooLong)]);
    let mut line = vec![];
    assert!(!emit_urgent(&[], SHORT, &mut line));
    assert!(!emit_urgent(&[0; URGENT_OCTETS_MAX + 1], SHORT, &mut line));
    assert!(line.is_empty());
    assert!(emit_urgent(&[0; URGENT_OCTETS_MAX], SHORT, &mut line));
    assert_eq!(told(SHORT, &[0x7c, 0]), [Told::Fault(FrameFault::TooLong)]);
}

#[test]
fn a_flag_ends_everything_and_a_mark_begins_anew() {
    let now = urgent(b"now", SHORT);
    let line = [&[1, 2][..], &now[..4], &[0x7e, 3, 0x7e]].concat();
    let cut = Told::Fault(FrameFault::Abort);
    assert_eq!(told(SHORT, &line), [cut.clone(), Told::Frame(vec![3])]);
    // What the cut one stood in is lost, a later urgent one isn't.
    let line = [&[1, 2][..], &now[..4], &now, &[3, 0x7e, 4, 0x7e]].concat();
    let sound = Told::Urgent(b"now".to_vec());
    assert_eq!(told(SHORT, &line), [cut, sound, Told::Frame(vec![4])]);
    let line = [&[1][..], &[0x7c, 0x7d, 0x41], &now, &[2, 0x7e]].concat();
    let bad = Told::Fault(FrameFault::BadEscape);
    assert_eq!(told(SHORT, &line), [bad, Told::Urgent(b"now".to_vec())]);
}

#[test]
fn reset_forgets_both() {
    let mut receiver = Interleaved::new(9, Some(SHORT));
    assert_eq!(feed(&mut receiver, &[1, 2, 0x7c, 3, 4]), []);
    receiver.reset();
    assert_eq!(feed(&mut receiver, &[5, 0x7e]), [Told::Frame(vec![5])]);
}

/// Octets in which the special ones are common.
fn lively(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let octet = prop_oneof![
        3 => any::<u8>(),
        1 => proptest::sample::select(&[0x7e, 0x7d, 0x7c, 0x5e, 0x5d, 0x5c, 0xd6, 0xd4][..]),
    ];
    proptest::collection::vec(octet, 1..most)
}

proptest! {
    #[test]
    fn any_stream_is_judged_the_same_however_it_is_cut(line in lively(120), long: bool) {
        told(if long { LONG } else { SHORT }, &line);
    }

    #[test]
    fn frames_come_back_wherever_urgent_ones_stand(
        frame in lively(60), calls in proptest::collection::vec((lively(40), any::<usize>()), 0..6),
        noise in lively(30),
    ) {
        let mut line = vec![];
        STUFFING.stuff_into(&frame, &mut line);
        line.push(FLAG);
        let mut calls: Vec<(Vec<u8>, usize)> =
            calls.into_iter().map(|(call, at)| (call, at % line.len())).collect();
        calls.sort_by_key(|(_, at)| *at);
        let mut whole = noise;
        whole.push(FLAG);
        let mut from = 0;
        for (call, at) in &calls {
            whole.extend_from_slice(&line[from..*at]);
            emit_urgent(call, LONG, &mut whole);
            from = *at;
        }
        whole.extend_from_slice(&line[from..]);
        let told = told(LONG, &whole);
        let mut expected: Vec<Told> =
            calls.into_iter().map(|(call, _)| Told::Urgent(call)).collect();
        expected.push(Told::Frame(frame));
        let known = told.len().checked_sub(expected.len());
        prop_assert!(known.is_some_and(|from| told[from..] == expected[..]), "{:?}", told);
    }

    #[test]
    fn the_mask_never_costs(payload in lively(60)) {
        let plain = 1 + STUFFING.stuffed_len(&contents(&payload, SHORT, 0));
        prop_assert!(urgent(&payload, SHORT).len() <= plain);
    }
}
