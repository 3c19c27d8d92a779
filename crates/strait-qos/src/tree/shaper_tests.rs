use super::*;

fn shaper(kind: ShapeKind, bit_s: u64, burst: Option<u64>, excess: Option<u64>) -> Shaper {
    let shape = Shape {
        kind,
        rate: crate::plan::Rate::Fixed(bit_s),
        burst,
        excess,
    };
    Shaper::new(shape, bit_s)
}

const T: Instant = Instant::from_secs(5);

fn after_ms(ms: u64) -> Instant {
    T + Duration::from_millis(ms)
}

#[test]
fn a_token_bucket_gives_its_burst_and_then_the_rate() {
    // 1000 octets/s, 300 octets of burst.
    let mut shaper = shaper(ShapeKind::TokenBucket, 8000, Some(300), None);
    for _ in 0..3 {
        assert!(shaper.when(100) <= T);
        shaper.charge(T, 100);
    }
    assert_eq!(shaper.when(100), after_ms(100));
    assert_eq!(
        shaper.when(50),
        after_ms(50),
        "a shorter packet goes sooner"
    );
    assert_eq!(shaper.when(300), after_ms(300));
    assert_eq!(shaper.when(1500), after_ms(300), "a full bucket is enough");
    shaper.charge(after_ms(300), 1500);
    assert_eq!(shaper.when(1), after_ms(300 + 1201), "and is paid for");
}

#[test]
fn no_bucket_lets_go_a_nanosecond_early() {
    // 1 octet in 2666666.67 ns.
    let mut shaper = shaper(ShapeKind::TokenBucket, 3000, Some(2), None);
    shaper.charge(T, 2);
    // 5,333,333.33 ns for both, of which half are spared for one.
    let exact_ns = [(1, 2_666_668), (2, 5_333_334)];
    for (octets, ns) in exact_ns {
        assert_eq!(shaper.when(octets), T + Duration::from_nanos(ns));
    }
}

#[test]
fn a_virtual_clock_sends_without_any_burst() {
    let mut shaper = shaper(ShapeKind::VirtualClock, 8000, None, None);
    shaper.charge(T, 500);
    for octets in [1, 500, 1500] {
        assert_eq!(shaper.when(octets), after_ms(500));
    }
    shaper.charge(after_ms(900), 100);
    assert_eq!(shaper.when(1), after_ms(1000), "a pause saves nothing");
}

#[test]
fn average_gives_a_burst_an_interval() {
    // 512 kbit/s with Bc = 512 kbit, as one published configuration has it: Tc = 1 s.
    let mut shaper = shaper(ShapeKind::Average, 512_000, Some(64_000), Some(0));
    let mut sent = 0;
    while shaper.when(1000) <= T {
        shaper.charge(T, 1000);
        sent += 1000;
    }
    assert_eq!(sent, 64_000, "a whole second of traffic at once");
    assert_eq!(shaper.when(1000), after_ms(1000));
    let before = after_ms(1000) - Duration::from_nanos(1);
    shaper.charge(before, 1000);
    assert_eq!(
        shaper.when(1),
        after_ms(1000),
        "1000 octets owed, 64,000 to come"
    );
    shaper.charge(after_ms(1000), 63_000);
    assert_eq!(shaper.when(1), after_ms(2000));
}

#[test]
fn excess_gathers_in_a_pause_and_peak_gives_it_each_interval() {
    let burst_after_pause = |kind| {
        // Tc = 100 ms.
        let mut shaper = shaper(kind, 80_000, Some(1000), Some(500));
        let mut burst = |now| {
            let mut sent = 0;
            while shaper.when(100) <= now {
                shaper.charge(now, 100);
                sent += 100;
            }
            sent
        };
        [T, after_ms(100), after_ms(1000)].map(&mut burst)
    };
    assert_eq!(burst_after_pause(ShapeKind::Average), [1500, 1000, 1500]);
    assert_eq!(burst_after_pause(ShapeKind::Peak), [1500, 1500, 1500]);
}

#[test]
fn bursts_left_out_are_those_of_the_kind() {
    let octets = |kind, bit_s| shaper(kind, bit_s, None, None).burst_octets();
    assert_eq!(octets(ShapeKind::TokenBucket, 9600), 1600);
    assert_eq!(octets(ShapeKind::TokenBucket, 8_000_000), 10_000);
    assert_eq!(octets(ShapeKind::VirtualClock, 8_000_000), 0);
    assert_eq!(octets(ShapeKind::Average, 256_000), 1000);
    assert_eq!(octets(ShapeKind::Average, 512_000), 1600);
}

#[test]
fn a_new_rate_counts_from_the_next_charge() {
    let mut clock = shaper(ShapeKind::VirtualClock, 8000, None, None);
    clock.charge(T, 100);
    clock.set_rate(16_000);
    assert_eq!(clock.when(1), after_ms(100));
    clock.charge(after_ms(100), 100);
    assert_eq!(clock.when(1), after_ms(150));
    let mut average = shaper(ShapeKind::Average, 80_000, Some(1000), Some(0));
    average.charge(T, 1000);
    average.set_rate(160_000);
    average.charge(T, 1);
    assert_eq!(average.when(1), after_ms(50));
}

mod properties {
    use super::*;
    use proptest::collection::vec as many;
    use proptest::prelude::*;

    const KINDS: [ShapeKind; 4] = [
        ShapeKind::TokenBucket,
        ShapeKind::VirtualClock,
        ShapeKind::Average,
        ShapeKind::Peak,
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Who always has something to send gets the rate within 1 % over 10,000 packets of mixed
        /// sizes, with the excess where it comes each interval, and asking early never helps.
        #[test]
        fn each_kind_gives_its_rate_whatever_the_sizes(
            kind in prop::sample::select(&KINDS[..]),
            bit_s in 8_000..2_000_000u64,
            burst in 1500..5000u64,
            excess in 1..5000u64,
            sizes in many(40..1500u32, 1..20),
        ) {
            let mut shaper = shaper(kind, bit_s, Some(burst), Some(excess));
            let (mut now, mut sent) = (T, 0u64);
            for octets in sizes.iter().cycle().take(10_000) {
                let at = shaper.when(*octets);
                prop_assert_eq!(at, shaper.when(*octets));
                now = now.max(at);
                shaper.charge(now, *octets);
                sent += u64::from(*octets);
            }
            let carried = now.since(T).as_secs_f64() * bit_s as f64 / 8.0;
            let due = match kind {
                ShapeKind::Peak => carried * (burst + excess) as f64 / burst as f64,
                _ => carried,
            };
            // What may go at once, and what a credit once an interval leaves at the end.
            let ends = (2 * (burst + excess) + 1500) as f64;
            prop_assert!((sent as f64 - due).abs() <= due * 0.01 + ends, "{sent} of {due}");
        }
    }
}
