//! When octets leave and arrive.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use strait_channel::config::{Change, Outage};
use strait_channel::{Channel, Line, LinkConfig, LinkKind, LossCause, Side};
use strait_core::framing::Framing;
use strait_core::time::{Duration, Instant};
use strait_core::units::{BitRate, Time};

const fn ns(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn line(config: &LinkConfig) -> Line {
    Line::new(config, "line", 1).unwrap()
}

#[test]
fn nine_hundred_and_sixty_octets_at_9600_8n1_take_one_second() {
    let mut line = line(&LinkConfig::serial(9600));
    let mut now = Instant::ZERO;
    for count in 1..=960u64 {
        let room = line.room(now, Side::A).unwrap();
        assert_eq!((room.octets, room.starts, room.until), (1, now, None));
        let sent = line.transmit(now, Side::A, &mut [0x55]);
        assert_eq!(sent.starts, now);
        assert_eq!(sent.ends, ns((count * 10_000_000_000).div_ceil(9600)));
        assert_eq!(sent.arrival, Some(sent.ends));
        // 1 ns before the line is free it is busy, and says until when.
        let before = sent.ends - Duration::from_nanos(1);
        assert_eq!(line.room(before, Side::A), Err(Some(sent.ends)));
        now = sent.ends;
    }
    assert_eq!(now, Instant::from_secs(1));
    assert_eq!(line.stats(Side::A).octets, 960);
    assert_eq!(line.stats(Side::A).busy_ns, 1_000_000_000);
    assert_eq!(line.stats(Side::B).frames, 0);
}

#[test]
fn a_fast_serial_line_takes_20_us_at_once() {
    let room = |baud| line(&LinkConfig::serial(baud)).room(Instant::ZERO, Side::B);
    assert_eq!(room(75).unwrap().octets, 1);
    assert_eq!(room(999_999).unwrap().octets, 1);
    assert_eq!(room(1_000_000).unwrap().octets, 2);
    assert_eq!(room(10_000_000).unwrap().octets, 20);
}

#[test]
fn a_synchronous_line_has_eight_bits_an_octet_and_fills_its_pauses() {
    let mut config = LinkConfig::serial(9600);
    config.kind = LinkKind::Serial(Framing::Sync);
    let mut line = line(&config);
    let mut fill = |at: Instant| {
        let sent = line.transmit(at, Side::A, &mut [0x55; 12]);
        assert_eq!(sent.ends, at + Duration::from_millis(10));
        sent.fill
    };
    assert_eq!(fill(ns(7)), Some(0xff), "it never rested");
    let end = ns(7) + Duration::from_millis(10);
    let pause = Duration::from_millis(50);
    assert_eq!(fill(end + pause - Duration::from_nanos(1)), None);
    let end = end + pause - Duration::from_nanos(1) + Duration::from_millis(10);
    assert_eq!(fill(end + pause), Some(0xff));
    let mut rests = self::line(&LinkConfig::serial(9600));
    assert_eq!(rests.transmit(ns(7), Side::A, &mut [1]).fill, None);
}

#[test]
fn a_frame_holds_its_direction_and_no_other() {
    let mut line = line(&LinkConfig::frames(300_000, Duration::from_millis(50)));
    assert_eq!(line.room(Instant::ZERO, Side::A).unwrap().octets, 1500);
    let sent = line.transmit(Instant::ZERO, Side::A, &mut [0; 1500]);
    assert_eq!(sent.ends, Instant::from_millis(40));
    assert_eq!(sent.arrival, Some(Instant::from_millis(90)));
    assert_eq!(
        (sent.duplicate, sent.lost, sent.corrupted_bits),
        (None, None, 0)
    );
    assert_eq!(line.room(ns(39_999_999), Side::A), Err(Some(sent.ends)));
    assert!(line.room(ns(39_999_999), Side::B).is_ok());
    assert!(line.room(sent.ends, Side::A).is_ok());
}

#[test]
fn a_sender_without_room_waits_for_it() {
    let mut line = line(&LinkConfig::frames(8000, Duration::ZERO));
    line.transmit(Instant::ZERO, Side::A, &mut [0; 1000]);
    let sent = line.transmit(Instant::from_millis(5), Side::A, &mut [0; 500]);
    assert_eq!(sent.starts, Instant::from_secs(1));
    assert_eq!(sent.ends, Instant::from_millis(1500));
    assert_eq!(line.transmit(ns(0), Side::A, &mut []).ends, sent.ends);
}

#[test]
fn a_late_driver_loses_no_line_time() {
    // Octets that were ready before the line was free go on from there, however late that is done.
    let mut line = line(&LinkConfig::serial(9600));
    let mut free = Instant::ZERO;
    for _ in 0..96 {
        free = line.transmit(free, Side::A, &mut [1]).ends;
    }
    assert_eq!(free, Instant::from_millis(100));
}

#[test]
fn an_outage_takes_what_any_part_of_lies_in_it() {
    let outage = Outage {
        at: Time(Duration::from_secs(10)),
        lasts: Time(Duration::from_secs(2)),
    };
    let config =
        LinkConfig::frames(8000, Duration::from_secs(5)).with(|it| it.outage = Some(vec![outage]));
    let fate = |start_ns: u64, octets: usize| {
        let mut line = line(&config);
        let sent = line.transmit(ns(start_ns), Side::A, &mut vec![0; octets]);
        assert_eq!(sent.arrival.is_none(), sent.lost.is_some());
        assert_eq!(
            line.stats(Side::A).lost_frames(),
            u64::from(sent.lost.is_some())
        );
        sent.lost
    };
    let lost = Some(LossCause::Outage);
    assert_eq!(fate(9_000_000_000, 1000), None, "ends as it begins");
    assert_eq!(fate(9_000_000_001, 1000), lost, "1 ns into it");
    assert_eq!(fate(9_500_000_000, 10_000), lost, "all around it");
    assert_eq!(fate(10_500_000_000, 1), lost, "within");
    assert_eq!(fate(11_999_999_999, 1), lost, "begins 1 ns before its end");
    assert_eq!(fate(12_000_000_000, 1), None, "begins at its end");
    let line = line(&config);
    let state = line.state(Instant::from_secs(11), Side::A);
    assert!(state.is_some(), "the port does not know");
    assert_eq!(
        line.next_change(Instant::ZERO),
        Some(Instant::from_secs(10))
    );
    assert_eq!(
        line.next_change(Instant::from_secs(10)),
        Some(Instant::from_secs(12))
    );
    assert_eq!(line.next_change(Instant::from_secs(12)), None);
}

#[test]
fn serial_octets_in_an_outage_vanish_and_others_pass() {
    let config = LinkConfig::serial(9600).with(|it| {
        it.outage = Some(vec![Outage {
            at: Time(Duration::from_millis(500)),
            lasts: Time(Duration::from_millis(250)),
        }]);
    });
    let mut line = line(&config);
    let mut now = Instant::ZERO;
    let mut arrived = 0;
    for _ in 0..960 {
        let sent = line.transmit(now, Side::A, &mut [0]);
        arrived += u32::from(sent.arrival.is_some());
        now = sent.ends;
    }
    assert_eq!(arrived, 720);
    assert_eq!(line.stats(Side::A).lost(LossCause::Outage), 240);
    assert_eq!(line.stats(Side::A).lost_octets(), 240);
}

#[test]
fn a_rate_change_in_a_burst_keeps_what_is_under_way() {
    let config = LinkConfig::frames(8000, Duration::ZERO).with(|it| {
        it.change = Some(vec![Change {
            at: Time(Duration::from_millis(1500)),
            baud: None,
            rate: Some(BitRate(4000)),
            unheard: false,
        }]);
    });
    let mut line = line(&config);
    let first = line.transmit(Instant::ZERO, Side::A, &mut [0; 1000]);
    let second = line.transmit(first.ends, Side::A, &mut [0; 1000]);
    let third = line.transmit(second.ends, Side::A, &mut [0; 1000]);
    assert_eq!(first.ends, Instant::from_secs(1));
    assert_eq!(second.ends, Instant::from_secs(2), "began at the old rate");
    assert_eq!(third.ends, Instant::from_secs(4));
    assert_eq!(
        line.next_change(ns(1_499_999_999)),
        Some(Instant::from_millis(1500))
    );
    let rate = |at| line.state(at, Side::B).unwrap().rx_rate.bit_s();
    assert_eq!(rate(ns(1_499_999_999)), 8000);
    assert_eq!(rate(ns(1_500_000_000)), 4000);
}

#[test]
fn a_serial_line_changes_its_baud_between_octets() {
    let config = LinkConfig::serial(9600).with(|it| {
        it.change = Some(vec![Change {
            at: Time(Duration::from_millis(500)),
            baud: Some(4800),
            rate: None,
            unheard: true,
        }]);
    });
    let mut line = line(&config);
    let mut now = Instant::ZERO;
    for _ in 0..720 {
        now = line.transmit(now, Side::A, &mut [0]).ends;
    }
    // 480 octets to the change, and 240 at half the rate.
    assert_eq!(now, Instant::from_secs(1));
    assert_eq!(line.next_change(Instant::ZERO), None, "unheard");
}
