//! What happens to frames and bits, and how often.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use proptest::prelude::*;
use strait_channel::config::BurstLoss;
use strait_channel::{
    Channel, HalfDuplex, Line, LinkConfig, LinkKind, LossCause, Side, Transmission,
};
use strait_core::time::{Duration, Instant};
use strait_core::units::{Share, Time};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn frames() -> LinkConfig {
    LinkConfig::frames(1_000_000, MS(20))
}

/// Sends `count` frames of `octets` zeros back to back from A.
fn send(config: &LinkConfig, seed: u64, count: usize, octets: usize) -> (Line, Vec<Transmission>) {
    let mut line = Line::new(config, "link", seed).unwrap();
    let mut now = Instant::ZERO;
    let mut frame = vec![0; octets];
    let sent = (0..count).map(|_| {
        let sent = line.transmit(now, Side::A, &mut frame);
        now = sent.ends;
        sent
    });
    let sent = sent.collect();
    (line, sent)
}

/// Whether a count of `n` independent events of probability `p` lies within three deviations.
fn plausible(count: u64, n: u64, p: f64) -> bool {
    let (n, mean) = (n as f64, n as f64 * p);
    (count as f64 - mean).abs() <= 3.0 * (n * p * (1.0 - p)).sqrt()
}

#[test]
fn independent_loss_duplication_and_reordering_have_their_shares() {
    let config = frames().with(|it| {
        it.loss = Some(Share(0.05));
        it.duplicate = Some(Share(0.02));
        it.reorder = Some(Share(0.01));
        it.reorder_delay = Some(Time(MS(100)));
    });
    let (line, sent) = send(&config, 1, 100_000, 10);
    let stats = line.stats(Side::A);
    let arrived = stats.frames - stats.lost_frames();
    assert!(
        plausible(stats.lost(LossCause::Random), 100_000, 0.05),
        "{stats:?}"
    );
    assert!(plausible(stats.duplicated, arrived, 0.02), "{stats:?}");
    assert!(plausible(stats.reordered, arrived, 0.01), "{stats:?}");
    let twice = sent.iter().filter(|sent| sent.duplicate.is_some()).count();
    assert_eq!(twice as u64, stats.duplicated);
    let held = sent
        .iter()
        .filter(|sent| sent.arrival >= Some(sent.ends + MS(120)))
        .count();
    assert_eq!(held as u64, stats.reordered);
}

#[test]
fn each_frame_has_its_own_luck_whenever_it_is_sent() {
    let config = frames().with(|it| it.loss = Some(Share(0.3)));
    let (_, together) = send(&config, 1, 1000, 10);
    let mut line = Line::new(&config, "link", 1).unwrap();
    for (number, sent) in (0u64..).zip(together) {
        let alone = line.transmit(Instant::from_secs(number), Side::A, &mut [0; 99]);
        assert_eq!(alone.lost, sent.lost, "frame {number}");
        // The other direction draws from streams of its own.
        line.transmit(Instant::from_secs(number), Side::B, &mut [0; 7]);
    }
    assert_ne!(
        line.stats(Side::A).lost_frames(),
        line.stats(Side::B).lost_frames()
    );
}

#[test]
fn loss_in_bursts_tells_its_cause() {
    let config = frames().with(|it| {
        it.burst_loss = Some(BurstLoss {
            enter: Share(0.02),
            leave: Share(0.2),
            loss_good: Share(0.01),
            loss_bad: Share(0.8),
        });
    });
    let (line, _) = send(&config, 5, 200_000, 10);
    let share = |cause| line.stats(Side::A).lost(cause) as f64 / 200_000.0;
    let bad = 0.02 / 0.22;
    assert!((share(LossCause::Burst) - bad * 0.8).abs() < 0.004);
    assert!((share(LossCause::Random) - (1.0 - bad) * 0.01).abs() < 0.001);
}

#[test]
fn jitter_is_uniform_and_keeps_the_order() {
    let config = frames().with(|it| it.jitter = Some(Time(MS(10))));
    // Frames far apart: order never holds one back.
    let mut line = Line::new(&config, "link", 1).unwrap();
    let extra_ns: Vec<u64> = (0..10_000u64)
        .map(|number| {
            let sent = line.transmit(Instant::from_secs(number), Side::A, &mut [0; 10]);
            sent.arrival.unwrap().since(sent.ends + MS(20)).as_nanos() as u64
        })
        .collect();
    let mean = extra_ns.iter().sum::<u64>() as f64 / 10_000.0;
    assert!(
        (mean - 5e6).abs() < 3.0 * 10e6 / 12f64.sqrt() / 100.0,
        "{mean}"
    );
    assert!(extra_ns.iter().all(|ns| *ns <= 10_000_000));
    assert!(extra_ns.iter().any(|ns| *ns > 9_900_000));
    assert!(extra_ns.iter().any(|ns| *ns < 100_000));
    let (_, sent) = send(&config, 1, 10_000, 10);
    assert!(sent.iter().map(|sent| sent.arrival).is_sorted());
}

#[test]
fn bit_errors_have_their_rate_and_are_written_into_the_octets() {
    let config =
        LinkConfig::frames(10_000_000, Duration::ZERO).with(|it| it.bit_errors = Some(Share(1e-4)));
    let mut line = Line::new(&config, "link", 1).unwrap();
    let mut now = Instant::ZERO;
    let (mut inverted, mut reported) = (0, 0);
    for _ in 0..1000 {
        let mut frame = [0u8; 1250];
        let sent = line.transmit(now, Side::A, &mut frame);
        now = sent.ends;
        inverted += frame.iter().map(|octet| octet.count_ones()).sum::<u32>();
        reported += sent.corrupted_bits;
    }
    assert_eq!(inverted, reported);
    assert!(plausible(reported.into(), 10_000_000, 1e-4), "{reported}");
    assert_eq!(line.stats(Side::A).corrupted_bits, reported.into());
}

#[test]
fn pieces_and_pauses_don_t_move_bit_errors() {
    let config = LinkConfig::serial(1_000_000).with(|it| it.bit_errors = Some(Share(1e-3)));
    let garbled = |pieces: &[usize]| {
        let mut line = Line::new(&config, "link", 7).unwrap();
        let mut now = Instant::from_nanos(12_345_678);
        let mut octets = vec![0x5a; 20_000];
        let (mut rest, mut bits) = (&mut octets[..], 0);
        for piece in pieces.iter().cycle() {
            let (chunk, tail) = rest.split_at_mut((*piece).min(rest.len()));
            rest = tail;
            let sent = line.transmit(now, Side::A, chunk);
            now = sent.ends;
            bits += sent.corrupted_bits;
            if rest.is_empty() {
                break;
            }
        }
        (octets, bits)
    };
    let (whole, bits) = garbled(&[2]);
    assert!(plausible(bits.into(), 200_000, 1e-3), "{bits}");
    assert_eq!(garbled(&[1]).0, whole);
    assert_eq!(garbled(&[1, 2, 2, 1, 1]).0, whole);
    // Sent alone at the same place in line time, an octet meets the same errors.
    let mut line = Line::new(&config, "link", 7).unwrap();
    for (number, octet) in (0u64..).zip(whole).step_by(3) {
        let at = Instant::from_nanos(12_345_678 + number * 10_000);
        let mut alone = [0x5a];
        line.transmit(at, Side::A, &mut alone);
        assert_eq!(alone[0], octet, "octet {number}");
    }
}

#[test]
fn a_hit_inverts_its_data_bit_or_garbles_the_octet_or_meets_only_parity() {
    let singles = |framing: &str| {
        let config = LinkConfig::serial(9600).with(|it| {
            it.kind = LinkKind::Serial(framing.parse().unwrap());
            it.bit_errors = Some(Share(1e-2));
        });
        let mut line = Line::new(&config, "link", 1).unwrap();
        let (mut now, mut counts) = (Instant::ZERO, [0u64; 3]);
        for _ in 0..100_000 {
            let mut octet = [0u8];
            let sent = line.transmit(now, Side::A, &mut octet);
            now = sent.ends;
            let [octet] = octet;
            match octet.count_ones() {
                _ if sent.corrupted_bits == 0 => assert_eq!(octet, 0),
                _ if sent.corrupted_bits > 1 => {}
                1 => counts[0] += 1,
                0 => counts[1] += 1,
                _ if framing.starts_with('7') => counts[2] += u64::from(octet == 0x7f),
                _ => counts[2] += u64::from(octet == 0xff),
            }
        }
        counts
    };
    // One hit among 10, 12 or 10 bits of the line: data, parity, start and stop bits.
    for (framing, bits, places) in [
        ("8N1", 10, [8u64, 0, 2]),
        ("8E2", 12, [8, 1, 3]),
        ("7E1", 10, [7, 1, 2]),
    ] {
        let counts = singles(framing);
        let all = counts.iter().sum();
        let share = f64::from(bits) * 0.01 * 0.99f64.powi(bits - 1);
        assert!(plausible(all, 100_000, share), "{framing} {counts:?}");
        for (count, place) in counts.into_iter().zip(places) {
            let share = place as f64 / f64::from(bits);
            assert!(plausible(count, all, share), "{framing} {counts:?}");
        }
    }
}

#[test]
fn seven_data_bits_carry_seven_bits() {
    let config =
        LinkConfig::serial(9600).with(|it| it.kind = LinkKind::Serial("7E1".parse().unwrap()));
    let mut line = Line::new(&config, "link", 1).unwrap();
    let mut octets = [0xff, 0x80, 0x7f];
    assert_eq!(
        line.transmit(Instant::ZERO, Side::A, &mut octets)
            .corrupted_bits,
        0
    );
    assert_eq!(octets, [0x7f, 0x00, 0x7f]);
}

fn everything() -> LinkConfig {
    frames().with(|it| {
        it.loss = Some(Share(0.1));
        it.jitter = Some(Time(MS(7)));
        it.duplicate = Some(Share(0.1));
        it.reorder = Some(Share(0.1));
        it.reorder_delay = Some(Time(MS(3)));
        it.bit_errors = Some(Share(1e-4));
    })
}

#[test]
fn same_seed_same_channel() {
    let run = |seed| send(&everything(), seed, 2000, 100).1;
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let mut other = Line::new(&everything(), "other", 1).unwrap();
    let fates: Vec<_> = (0..2000)
        .map(|_| other.transmit(Instant::ZERO, Side::A, &mut [0; 100]).lost)
        .collect();
    assert_ne!(
        fates,
        run(1).iter().map(|sent| sent.lost).collect::<Vec<_>>()
    );
}

proptest! {
    #[test]
    fn octets_start_leave_and_arrive_in_that_order(
        seed: u64,
        half: bool,
        reorders: bool,
        calls in prop::collection::vec((0u64..40_000_000, 0usize..2000, any::<bool>()), 1..60),
    ) {
        let mut config = everything();
        config.half_duplex = half.then_some(HalfDuplex {
            turnaround: Some(Time(MS(5))),
            turn_max: None,
        });
        if !reorders {
            (config.reorder, config.reorder_delay) = (None, None);
        }
        let mut line = Line::new(&config, "link", seed).unwrap();
        let mut now = Instant::ZERO;
        let mut last = [Instant::ZERO; 2];
        let mut ends = [Instant::ZERO; 2];
        for (pause_ns, octets, from_a) in calls {
            let side = if from_a { Side::A } else { Side::B };
            now += Duration::from_nanos(pause_ns);
            let room = line.room(now, side);
            let sent = line.transmit(now, side, &mut vec![0; octets]);
            prop_assert_eq!(room.is_ok(), sent.starts == now);
            prop_assert!(sent.starts >= now && sent.ends >= sent.starts);
            prop_assert!(sent.starts >= ends[side.index()]);
            if half {
                prop_assert!(sent.starts >= ends[side.other().index()]);
            }
            ends[side.index()] = sent.ends;
            prop_assert_eq!(sent.arrival.is_none(), sent.lost.is_some());
            prop_assert!(sent.duplicate.is_none_or(|at| Some(at) >= sent.arrival));
            if let Some(arrival) = sent.arrival {
                prop_assert!(arrival >= sent.ends + MS(20));
                prop_assert!(reorders || arrival >= last[side.index()]);
                last[side.index()] = arrival;
            }
        }
    }
}
