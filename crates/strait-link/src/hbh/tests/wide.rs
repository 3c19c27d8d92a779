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

/// A packet of 1500 octets.
fn long() -> Packet {
    let socket = |last| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), 7);
    let mut octets = Vec::new();
    let payload = [0; 1472];
    ip::build_udp(socket(1), socket(2), 0, 64, 0, 0, &payload, &mut octets);
    let Ok(packet) = Ledger::default().admit(ms(0), octets, Origin::Own) else {
        panic!("a packet");
    };
    packet
}

/// How many packets go before the window takes no more.
fn window_of(end: &mut End, packet: impl Fn(u16) -> Packet) -> u16 {
    let all = 0..u16::MAX;
    let taken = all.take_while(|it| {
        let takes = end.hop.takes(0);
        if takes {
            end.hop.begin(packet(*it), Manner::default());
        }
        takes
    });
    taken.count() as u16
}

fn window(end: &mut End) -> u16 {
    window_of(end, |it| packet(ms(0), it))
}

#[test]
fn a_window_takes_what_the_line_does_in_a_round_trip_and_a_half() {
    // Short packets, and long ones, of which the last goes beyond: 48,000 octets, and more where
    // the line takes more in a tenth of a second and a half of that.
    for (rate_bit_s, short, long_ones) in [
        (0, 96, 32),
        (331_040, 96, 32),
        (331_120, 97, 32),
        (2_560_000, 750, 32),
        (2_560_160, 750, 33),
        (5_120_000, 1500, 64),
        (1_000_000_000, Settings::WINDOW_MAX, Settings::WINDOW_MAX),
    ] {
        let mut pair = pair(rate_bit_s);
        let [short_end, long_end] = &mut pair.ends;
        assert_eq!(short_end.hop.round_trip(), Some(2 * WAY));
        assert_eq!(window(short_end), short, "{rate_bit_s}");
        assert_eq!(window_of(long_end, |_| long()), long_ones, "{rate_bit_s}");
    }
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

#[test]
fn what_a_later_packet_says_again_isnt_repeated() {
    let mut pair = pair(10_000_000);
    let says = |flow, number| Manner {
        says: Some(Said { flow, number }),
        ..Manner::default()
    };
    // Of each flow the first is lost: one that a later one supersedes, one that another flow's and
    // one that no higher number does.
    let manners = [
        says(1, 7),
        says(2, 7),
        says(3, u32::MAX),
        says(1, 8),
        says(2, 7),
        says(3, 0),
    ];
    let numbered = (0..).zip(manners);
    pair.ends[0].queue.extend(numbered);
    let mut frames = 0;
    pair.run(1000, |from, _, _| {
        frames += u32::from(from == 0);
        if from == 0 && frames <= 3 {
            Fate::new()
        } else {
            vec![0]
        }
    });
    assert_eq!(pair.ends[1].came, [3, 4, 5, 1]);
    let done = &pair.ends[0].done;
    let superseded = [0, 2].map(|it| done[&it]);
    assert_eq!(superseded, [Outcome::Superseded; 2]);
    assert_eq!([1, 3, 4, 5].map(|it| done[&it]), [Outcome::Acknowledged; 4]);
    assert_eq!(pair.ends[0].hop.counts().repeated, 1);
}

/// Frames of a probe that isn't answered, by when they go.
#[test]
fn each_probe_that_isnt_answered_is_twice_as_many_frames() {
    let mut pair = pair(10_000_000);
    pair.ends[0].queue(0..12, None);
    let mut sent: Vec<u64> = Vec::new();
    pair.run(20_000, |from, at, _| {
        if from == 0 {
            sent.push(at);
        }
        Fate::new()
    });
    let runs = sent
        .chunk_by(|one, other| other - one <= 1)
        .map(<[u64]>::len);
    let probes: Vec<usize> = runs.skip(1).take(6).collect();
    assert_eq!(probes, [1, 2, 4, 8, 8, 8]);
}
