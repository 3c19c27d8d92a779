use super::*;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use proptest::collection::vec as many;
use proptest::prelude::*;
use strait_core::fate::{Ledger, Origin};
use strait_wire::ip::build_udp;

use crate::policy::{Policy, PolicyError};

use Colour::{Green, Red, Yellow};

fn config(text: &str) -> PoliceConfig {
    toml::from_str(text).unwrap()
}

fn meter(text: &str) -> Meter {
    Meter::new(&config(text))
}

/// Measures packets by their time in nanoseconds, octets and colour before.
fn measure<const N: usize>(text: &str, packets: [(u64, u64, Colour); N]) -> [Colour; N] {
    let mut meter = meter(text);
    packets.map(|(ns, octets, before)| meter.measure(Instant::from_nanos(ns), octets, before))
}

const S: u64 = 1_000_000_000;

#[test]
fn a_token_comes_on_time_and_not_a_nanosecond_before() {
    // 8000 bit/s: an octet each millisecond.
    let text = "kind = 'bucket'\nrate = '8 kbit/s'\nburst = 1000";
    let empty = (0, 1000, Green);
    let found = measure(
        text,
        [empty, (99_999_999, 100, Green), (100_000_000, 100, Green)],
    );
    assert_eq!(found, [Green, Red, Green]);
    // What exceeds is charged to nothing.
    let found = measure(text, [(0, 1001, Green), (0, 1000, Green), (0, 1, Green)]);
    assert_eq!(found, [Red, Green, Red]);
    // An idle time fills it to its limit and no further.
    let found = measure(text, [empty, (3600 * S, 1000, Green), (3600 * S, 1, Green)]);
    assert_eq!(found, [Green, Green, Red]);
    // A clock that stands still or runs back brings nothing.
    let found = measure(text, [(S, 1000, Green), (0, 1, Green), (S, 1, Green)]);
    assert_eq!(found, [Green, Red, Red]);
}

#[test]
fn a_peak_rate_must_hold_as_well() {
    let text = "kind = 'bucket'\nrate = '8 kbit/s'\nburst = 3000\n\
                peak_rate = '16 kbit/s'\npeak_burst = 1000";
    let packets = [
        (0, 1000, Green),
        // The peak bucket is empty, the other isn't; nothing is charged.
        (0, 1000, Green),
        (S / 2 - 1, 1000, Green),
        (S / 2, 1000, Green),
        (S, 1000, Green),
        // 3000 and 1.5 s of 1000 octets are 4500; 3000 of them are spent, and 1000 now.
        (3 * S / 2, 1000, Green),
        (2 * S, 1001, Green),
        (2 * S, 1000, Green),
    ];
    let found = measure(text, packets);
    assert_eq!(found, [Green, Red, Red, Green, Green, Green, Red, Green]);
}

#[test]
fn nothing_is_rounded_over_a_long_time() {
    // 7 bit/s: an octet takes 8/7 s, no whole number of nanoseconds.
    let mut meter = meter("kind = 'bucket'\nrate = '7 bit/s'\nburst = 2");
    assert_eq!(meter.measure(Instant::ZERO, 2, Green), Green);
    for turn in 1..=1000u64 {
        let due = (turn * 8 * S).div_ceil(7);
        assert_eq!(
            meter.measure(Instant::from_nanos(due - 1), 1, Green),
            Red,
            "{turn}"
        );
        assert_eq!(
            meter.measure(Instant::from_nanos(due), 1, Green),
            Green,
            "{turn}"
        );
    }
}

/// RFC 2697 section 3, in octets by hand.
#[test]
fn the_single_rate_marker_follows_its_rules() {
    let text = "kind = 'srtcm'\nrate = '8 kbit/s'\nburst = 1000\nexcess_burst = 500";
    let packets = [
        (0, 600, Green),              // Tc 400, Te 500
        (0, 500, Green),              // more than Tc: Te 0
        (0, 400, Green),              // Tc 0: a smaller one is green again
        (0, 1, Green),                // nothing left
        (S - 1, 1000, Green),         // Tc a bit short of 1000, Te 0
        (S, 1000, Green),             // Tc 0
        (2 * S, 1, Green),            // Tc 999
        (2 * S + S / 2, 1499, Green), // Tc 1000, Te 499
        (2 * S + S / 2, 500, Green),  // green: Tc 500
        (2 * S + S / 2, 501, Green),  // more than either
        (2 * S + S / 2, 499, Green),  // green: Tc 1
        (2 * S + S / 2, 499, Green),  // Te 0
    ];
    let found = measure(text, packets);
    let expected = [
        Green, Yellow, Green, Red, Red, Green, Green, Red, Green, Red, Green, Yellow,
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_excess_bucket_fills_only_from_what_the_first_cannot_take() {
    let text = "kind = 'srtcm'\nrate = '8 kbit/s'\nburst = 1000\nexcess_burst = 500";
    let drained = [(0, 1000, Green), (0, 500, Green)];
    for (ns, octets, colour) in [
        (S + S / 2 - 1, 500, Red),
        (S + S / 2, 500, Yellow),
        (S, 1, Red),
    ] {
        let [first, second] = drained;
        // Yellow before: the first bucket isn't asked.
        let aware = [first, second, (ns, octets, Yellow)];
        assert_eq!(measure(text, aware), [Green, Yellow, colour], "{ns}");
    }
}

/// RFC 2697 section 3, colour-aware.
#[test]
fn the_single_rate_marker_never_improves_a_colour() {
    let text = "kind = 'srtcm'\nrate = '8 kbit/s'\nburst = 1000\nexcess_burst = 500\naware = true";
    let packets = [
        (0, 100, Red),
        (0, 300, Yellow), // Te 200
        (0, 1000, Green), // Tc 0
        (0, 200, Green),  // Te 0
        (0, 1, Yellow),
        (S, 1000, Yellow), // Tc is full, Te empty
        (S, 1000, Green),
    ];
    let found = measure(text, packets);
    assert_eq!(found, [Red, Yellow, Green, Yellow, Red, Red, Green]);
}

/// RFC 2698 section 3, in octets by hand.
#[test]
fn the_two_rate_marker_follows_its_rules() {
    let text = "kind = 'trtcm'\nrate = '8 kbit/s'\nburst = 1000\n\
                peak_rate = '16 kbit/s'\npeak_burst = 1500";
    let packets = [
        (0, 1501, Green), // more than Tp
        (0, 800, Green),  // Tp 700, Tc 200
        (0, 500, Green),  // more than Tc: Tp 200
        (0, 201, Green),  // more than Tp
        (0, 200, Green),  // both 0
        (S / 2 - 1, 1000, Green),
        (S / 2, 1000, Green), // Tp 1000 → 0, Tc 500: yellow
        (S, 1000, Green),     // Tp 1000, Tc 1000
        (S, 1, Green),
    ];
    let found = measure(text, packets);
    let expected = [Red, Green, Yellow, Red, Green, Red, Yellow, Green, Red];
    assert_eq!(found, expected);
}

#[test]
fn the_two_rate_marker_never_improves_a_colour() {
    let text = "kind = 'trtcm'\nrate = '8 kbit/s'\nburst = 1000\n\
                peak_rate = '16 kbit/s'\npeak_burst = 1500\naware = true";
    let packets = [
        (0, 100, Red),    // nothing is charged
        (0, 600, Yellow), // Tp 900, Tc 1000
        (0, 901, Yellow),
        (0, 900, Green), // Tp 0, Tc 100
        (0, 100, Green), // Tp is empty
    ];
    assert_eq!(measure(text, packets), [Red, Yellow, Red, Green, Red]);
}

/// A policy of one class with this policer.
fn policers(police: &str) -> Result<Policers, PolicyError> {
    let text = alloc::format!("[[class]]\nname = 'a'\n[class.police]\n{police}");
    let policy = Policy::compile(&toml::from_str(&text).unwrap())?;
    Ok(Policers::new(policy.classes()))
}

fn packet(dscp: u8, octets: usize) -> Packet {
    let payload = alloc::vec![0; octets - 28];
    let (src, dst) = ("10.1.0.2:1".parse().unwrap(), "10.2.0.2:2".parse().unwrap());
    let mut bytes = Vec::new();
    assert!(build_udp(src, dst, dscp, 64, 0, 0, &payload, &mut bytes));
    let mut ledger = Ledger::default();
    ledger.admit(Instant::ZERO, bytes, Origin::Own).unwrap()
}

#[test]
fn colours_come_from_code_points_and_go_to_code_points() {
    let text = "kind = 'srtcm'\nrate = '8 kbit/s'\nburst = 100\nexcess_burst = 100\naware = true\n\
                green = 'AF11'\nyellow = 'AF12'\nred = 'AF13'";
    let mut judges = policers(text).unwrap();
    let mut judge = |dscp: Dscp| {
        let mut packet = packet(dscp.number(), 100);
        let found = judges.judge(Instant::ZERO, false, &mut packet);
        (found, packet.info().dscp)
    };
    let marked = |colour, precedence| (Some((colour, true)), Dscp::af(1, precedence).number());
    assert_eq!(judge(Dscp::af(3, 3)), marked(Red, 3));
    assert_eq!(judge(Dscp::af(2, 2)), marked(Yellow, 2));
    assert_eq!(judge(Dscp::EF), marked(Green, 1));
    assert_eq!(judge(Dscp::EF), marked(Red, 3));
    let other = text.replace(
        "aware",
        "yellow_before = 'CS1'\nred_before = ['CS2']\naware",
    );
    let mut judges = policers(&other).unwrap();
    for (dscp, colour) in [(8, Yellow), (16, Red), (12, Green)] {
        let found = judges.judge(Instant::ZERO, false, &mut packet(dscp, 100));
        assert_eq!(found, Some((colour, true)));
    }
}

#[test]
fn a_low_latency_queues_policer_acts_only_when_packets_wait() {
    let text = "kind = 'bucket'\nrate = '8 kbit/s'\nburst = 100\nwhen = 'congested'";
    let mut judges = policers(text).unwrap();
    let mut judge = |congested| judges.judge(Instant::ZERO, congested, &mut packet(46, 100));
    assert_eq!(judge(false), None);
    assert_eq!(judge(false), None);
    assert_eq!(judge(true), Some((Green, true)));
    assert_eq!(judge(true), Some((Red, false)));
    assert_eq!(judge(false), None);
}

#[test]
fn what_is_too_much_goes_in_another_class_with_its_mark() {
    let text = "default = 'rest'
        [[class]]
        name = 'rest'
        mark = 'DF'
        [[class]]
        name = 'voice'
        police = { kind = 'bucket', rate = '8 kbit/s', burst = 100, red = 'class rest' }";
    let config: crate::config::PolicyConfig = toml::from_str(text).unwrap();
    let again: crate::config::PolicyConfig =
        toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
    let policy = Policy::compile(&config).unwrap();
    let mut judges = Policers::new(policy.classes());
    let mut judge = || {
        let mut packet = packet(46, 100);
        packet.class = ClassId(1);
        let found = judges.judge(Instant::ZERO, false, &mut packet);
        (found, packet.class, packet.info().dscp)
    };
    assert_eq!(judge(), (Some((Green, true)), ClassId(1), 46));
    assert_eq!(judge(), (Some((Red, true)), ClassId(0), 0));
    let faults = [
        ("class voice", "`voice`, which is the same"),
        (
            "class other",
            "`other`, which holds no packets (classes: rest, voice)",
        ),
    ];
    for (red, message) in faults {
        let wrong = toml::from_str(&text.replace("class rest", red)).unwrap();
        let error = Policy::compile(&wrong).unwrap_err().to_string();
        assert!(error.contains(message), "{red}: {error}");
    }
    let twice = text.replace(
        "mark = 'DF'",
        "police = { kind = 'bucket', rate = '8 kbit/s' }",
    );
    let error = Policy::compile(&toml::from_str(&twice).unwrap()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`rest`, which has a policer itself")
    );
}

#[test]
fn defaults_have_their_sources_and_faults_are_named() {
    let burst = |rate: &str| {
        let text = alloc::format!("kind = 'bucket'\nrate = '{rate}'");
        let PoliceConfig::Bucket(config) = config(&text) else {
            panic!()
        };
        config.burst_or_default().0
    };
    assert_eq!((burst("64 kbit/s"), burst("640 kbit/s")), (1600, 16_000));
    let faults = [
        ("kind = 'bucket'\nrate = '8 kbit/s'\nburst = 0", "`burst`"),
        (
            "kind = 'bucket'\nrate = '8 kbit/s'\npeak_burst = 9",
            "`peak_burst`",
        ),
        (
            "kind = 'srtcm'\nrate = '8 kbit/s'\nburst = 0\nexcess_burst = 0",
            "`burst`",
        ),
        (
            "kind = 'trtcm'\nrate = '8 kbit/s'\nburst = 9\npeak_rate = '7 kbit/s'\npeak_burst = 9",
            "`peak_rate`",
        ),
        (
            "kind = 'trtcm'\nrate = '8 kbit/s'\nburst = 9\npeak_rate = '8 kbit/s'\npeak_burst = 0",
            "`burst`",
        ),
    ];
    for (text, key) in faults {
        let error = policers(text).unwrap_err().to_string();
        assert!(
            error.contains(key) && error.contains("`a`"),
            "{text}: {error}"
        );
    }
    let errors = [
        ("kind = 'bucket'", "missing field `rate`"),
        (
            "kind = 'srtcm'\nrate = '8 kbit/s'\nburst = 1",
            "missing field `excess_burst`",
        ),
        ("kind = 'bucket'\nrate = 8000", "`8000` is no bit rate"),
        (
            "kind = 'bucket'\nrate = '8 kbit/s'\nred = 'AF9'",
            "`AF9` is no action",
        ),
        (
            "kind = 'bucket'\nrate = '8 kbit/s'\nyellow = 'drop'",
            "unknown field `yellow`",
        ),
    ];
    for (text, message) in errors {
        let error = toml::from_str::<PoliceConfig>(text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    let text = "kind = 'bucket'\nrate = '8 kbit/s'\nred = 'LE'\nwhen = 'congested'";
    let config = config(text);
    assert_eq!(
        toml::from_str(&toml::to_string(&config).unwrap()),
        Ok(config)
    );
}

mod properties {
    use super::*;
    use proptest::collection::vec as many;

    proptest! {
        /// Over any stretch no more passes than the burst and what the rate brought.
        #[test]
        fn what_passes_is_bounded_and_what_fits_passes(
            rate in 1..200_000u64,
            burst in 1..5000u64,
            packets in many((0..2_000_000_000u64, 20..1500u64), 1..200),
        ) {
            let text = alloc::format!(
                "kind = 'bucket'\nrate = '{rate} bit/s'\nburst = {burst}"
            );
            let mut meter = meter(&text);
            let (mut now, mut passed) = (0u64, 0u128);
            let mut level = nano_bits(burst);
            for (gap, octets) in packets {
                now += gap;
                level = (level + u128::from(rate) * u128::from(gap)).min(nano_bits(burst));
                let colour = meter.measure(Instant::from_nanos(now), octets, Green);
                let fits = nano_bits(octets) <= level;
                prop_assert_eq!(colour, if fits { Green } else { Red });
                if fits {
                    level -= nano_bits(octets);
                    passed += nano_bits(octets);
                }
                prop_assert!(passed <= nano_bits(burst) + u128::from(rate) * u128::from(now));
            }
        }
    }
}

/// The most octets within any stretch of time less what the rate brings in it, of those packets
/// whose colour is at most `worst`, in nano bits: what the bucket must have held.
fn burst_needed(found: &[(u64, u64, Colour)], worst: Colour, rate_bit_s: u64) -> NanoBits {
    let mut level: NanoBits = 0;
    let mut most = 0;
    let mut last_ns = 0;
    for &(at_ns, octets, colour) in found {
        level = level.saturating_sub(u128::from(at_ns - last_ns) * u128::from(rate_bit_s));
        last_ns = at_ns;
        if colour <= worst {
            level += nano_bits(octets);
            most = most.max(level);
        }
    }
    most
}

proptest! {
    /// RFC 2697 and RFC 2698: over no stretch of time does more than rate and bursts allow get a
    /// colour; no packet gets a better one than it brought; and what fits isn't refused: a meter
    /// that gave all red would hold the rest.
    #[test]
    fn three_colours_keep_to_their_rates_over_any_time(
        (kbit_s, times) in (1_u64..200, 1_u64..5),
        (burst, excess) in (64_u64..4000, 0_u64..4000),
        packets in many((0_u64..300_000_000, 40_u64..1500, 0_usize..3), 1..300),
        aware in any::<bool>(),
    ) {
        let (rate, peak_rate) = (kbit_s * 1000, kbit_s * times * 1000);
        let sr = format!(
            "kind = 'srtcm'\nrate = '{rate} bit/s'\nburst = {burst}\nexcess_burst = {excess}"
        );
        let peak_burst = burst + excess;
        let tr = format!(
            "kind = 'trtcm'\nrate = '{rate} bit/s'\nburst = {burst}\npeak_rate = '{peak_rate} bit/s'\n\
             peak_burst = {peak_burst}"
        );
        for (text, rate_both) in [(sr, rate), (tr, peak_rate)] {
            let mut meter = meter(&text);
            let mut now_ns = 0;
            let mut found = Vec::new();
            for &(gap_ns, octets, before) in &packets {
                now_ns += gap_ns;
                let before = if aware { [Green, Yellow, Red][before] } else { Green };
                let colour = meter.measure(Instant::from_nanos(now_ns), octets, before);
                prop_assert!(colour >= before);
                if before == Green && octets <= burst.min(peak_burst) && found.is_empty() {
                    prop_assert_eq!(colour, Green, "the buckets are full at the start");
                }
                found.push((now_ns, octets, colour));
            }
            prop_assert!(burst_needed(&found, Green, rate) <= nano_bits(burst));
            prop_assert!(burst_needed(&found, Yellow, rate_both) <= nano_bits(peak_burst));
            // With two rates, yellow ones may have emptied the peak bucket.
            if !aware && text.contains("srtcm") {
                prop_assert!(nothing_is_refused_that_fits(&found, rate, burst));
            }
        }
    }
}

/// Whether a packet that comes when the committed bucket must hold it, by the green ones before
/// it, is never red.
fn nothing_is_refused_that_fits(found: &[(u64, u64, Colour)], rate_bit_s: u64, burst: u64) -> bool {
    let mut level = nano_bits(burst);
    let mut last_ns = 0;
    found.iter().all(|&(at_ns, octets, colour)| {
        level += u128::from(at_ns - last_ns) * u128::from(rate_bit_s);
        level = level.min(nano_bits(burst));
        last_ns = at_ns;
        let fits = nano_bits(octets) <= level;
        if colour == Green {
            level = level.saturating_sub(nano_bits(octets));
        }
        !fits || colour != Red
    })
}
