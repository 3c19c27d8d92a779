//! Windows that follow the line, and acknowledgements that tell of them.

use strait_wire::hbh::Headers;

use super::*;

/// A pair whose lines take this much.
fn pair(rate_bit_s: u64) -> Pair {
    let mut pair = Pair::known();
    for end in &mut pair.ends {
        end.hop.trip.measure(2 * WAY);
        end.hop.set_rate(Some(rate_bit_s));
    }
    pair
}

/// An end as it was before it could tell of more than 96 packets says hello.
fn hello_of_a_narrow_end(pair: &mut Pair) {
    let hello = hbh::Hello {
        incarnation: 2,
        heard: 1,
        asks: false,
        wide: false,
        format: Format::Strait,
    };
    let mut octets = Vec::new();
    hello.emit(SegmentCheck::Long, &mut octets);
    let now = ms(pair.now_ms);
    pair.ends[0].hear(now, &octets);
}

/// How many packets go before the window takes no more.
fn window(end: &mut End) -> u16 {
    let all = 0..u16::MAX;
    let taken = all.take_while(|it| {
        let takes = end.hop.takes(0);
        if takes {
            end.hop.begin(packet(ms(0), *it), Manner::default());
        }
        takes
    });
    taken.count() as u16
}

#[test]
fn a_window_takes_what_the_line_does_in_a_round_trip_and_a_half() {
    let octets = packet(ms(0), 0).octets();
    for rate_bit_s in [0, 2_559_999, 2_560_080, 3_000_000] {
        let mut pair = pair(rate_bit_s);
        let end = &mut pair.ends[0];
        assert_eq!(end.hop.round_trip(), Some(100 * MS));
        let trip = rate_bit_s as usize / 80;
        let most = (2 * trip).max(64_000) / 4 * 3;
        assert_eq!(
            usize::from(window(end)),
            most.div_ceil(octets),
            "{rate_bit_s}"
        );
    }
    // As many numbers as an acknowledgement can tell of.
    assert_eq!(
        window(&mut pair(1_000_000_000).ends[0]),
        Settings::WINDOW_MAX
    );
    assert_eq!(window(&mut Pair::known().ends[0]), Settings::WINDOW_MIN);
}

#[test]
fn an_end_that_reads_no_long_maps_gets_a_window_that_needs_none() {
    let mut pair = pair(10_000_000);
    hello_of_a_narrow_end(&mut pair);
    assert_eq!(window(&mut pair.ends[0]), Settings::WINDOW_NARROW);
    // Nobody takes it back: an end doesn't change while it lives.
    let hello = hbh::Hello {
        incarnation: 2,
        heard: 1,
        asks: false,
        wide: true,
        format: Format::Strait,
    };
    let mut octets = Vec::new();
    hello.emit(SegmentCheck::Long, &mut octets);
    let now = ms(pair.now_ms);
    pair.ends[0].hear(now, &octets);
    assert!(!pair.ends[0].hop.session.is_wide());
}

#[test]
fn a_line_is_never_idle_for_want_of_acknowledgements() {
    let mut pair = pair(10_000_000);
    pair.ends[0].queue(0..3000, Some(1));
    pair.run(3200, |_, _, _| vec![0]);
    assert_eq!(pair.ends[1].came, (0..3000).collect::<Vec<u16>>());
}

#[test]
fn what_is_lost_of_a_wide_window_is_repeated_once() {
    let mut pair = pair(10_000_000);
    pair.ends[0].queue(0..2000, Some(1));
    let (mut frames, mut lost) = (0, 0);
    // A frame a millisecond, a round trip for each loss of what was lost, and what
    // acknowledgements wait.
    pair.run(2700, |from, _, _| {
        frames += usize::from(from == 0);
        let is_lost = from == 0 && frames % 20 == 0;
        lost += u64::from(is_lost);
        if is_lost { Fate::new() } else { vec![0] }
    });
    assert_eq!(pair.ends[1].came, (0..2000).collect::<Vec<u16>>());
    let counts = pair.ends[0].hop.counts();
    assert_eq!((counts.repeated, counts.needless), (lost, 0));
    assert_eq!((pair.ends[0].wrong, pair.ends[1].wrong), (0, 0));
}

#[test]
fn a_packet_takes_along_what_it_leaves_room_for_and_the_rest_goes_alone() {
    let mut pair = pair(10_000_000);
    pair.ends[0].queue(0..400, None);
    // The first one never comes, so a map tells of all behind it.
    let first = |from: usize, _: u64, frame: &[u8]| {
        let carried = frame.len() > 30 && frame[frame.len() - 6..frame.len() - 4] == [0, 0];
        if from == 0 && carried {
            Fate::new()
        } else {
            vec![0]
        }
    };
    pair.run(300, first);
    let now = ms(pair.now_ms);
    let end = &mut pair.ends[1];
    let names = end.hop.session.outbound();
    let seq = end.hop.begin(packet(now, 7), Manner::default());
    let octets = packet(now, 7).octets();
    end.hop.receiver.urge(now);
    let mut told = |octets_max| {
        let mut out = Vec::new();
        end.hop
            .transmit(now, now, seq, octets_max, &mut out)
            .unwrap();
        assert!(out.len() <= octets_max);
        let Ok(Frame::Content(content)) = hbh::parse(&out, SegmentCheck::Long, names) else {
            panic!("content");
        };
        (
            content.ack.map(|ack| ack.map.is_cut()),
            end.hop.has_own_control(now + 100 * MS),
        )
    };
    assert_eq!(told(octets + hbh::OVERHEAD_OCTETS_MAX), (Some(true), true));
    assert_eq!(told(octets + hbh::CONTROL_OCTETS_MAX), (Some(false), false));
}

#[test]
fn headers_are_told_at_any_distance_that_was_named() {
    let mut known = known::Known::new();
    (0..600).for_each(|it| known.note(it, packet(ms(0), it).bytes()));
    assert!(known.get(600 - 256).is_some() && known.get(600 - 257).is_none());
    known.reach(129);
    (600..1200).for_each(|it| known.note(it, packet(ms(0), it).bytes()));
    assert!(known.get(1200 - 512).is_some() && known.get(1200 - 513).is_none());
    known.reach(Headers::DISTANCE_MAX);
    (1200..9000).for_each(|it| known.note(it, packet(ms(0), it).bytes()));
    assert!(known.get(9000 - 4096).is_some() && known.get(9000 - 4097).is_none());
}
