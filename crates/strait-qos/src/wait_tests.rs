use super::*;
use crate::config::PolicyConfig;

fn wait(text: &str, class: &str, bit_s: u64, unit_octets: u64) -> WorstWait {
    let config: PolicyConfig = toml::from_str(text).unwrap();
    let policy = Policy::compile(&config).unwrap();
    let class = policy.class_named(class).unwrap();
    let line = Line {
        bit_s,
        unit_octets,
        cuts_packets: true,
    };
    worst_wait(&policy, class, line)
}

fn s(seconds: f64) -> Option<Duration> {
    Some(Duration::from_secs_f64(seconds))
}

fn near(wait: Option<Duration>, seconds: f64) {
    let apart = wait.unwrap().as_secs_f64() - seconds;
    assert!(apart.abs() < 1e-6, "{wait:?}, not {seconds}");
}

#[test]
fn the_first_band_waits_for_what_is_leaving() {
    let text = "default = \"b\"\nclass = [{ name = \"a\", band = 0, packets = 4, octets = 960 }, \
                { name = \"b\" }]";
    let first = wait(text, "a", 9600, 64);
    near(first.alone, 64.0 * 8.0 / 9600.0);
    near(first.full, (64.0 + 960.0) * 8.0 / 9600.0);
    assert_eq!(first.rate_bit_s, Some(9600));
    let second = wait(text, "b", 9600, 64);
    assert_eq!((second.alone, second.rate_bit_s), (None, None));
    assert!(
        second
            .because
            .iter()
            .any(|it| it.contains("`a` goes before it"))
    );
}

#[test]
fn what_is_left_beside_a_limited_band_is_sure() {
    // 1200 octets at once and 1200 bit/s: the rest has 8400 bit/s after that.
    let text = "default = \"b\"\nclass = [{ name = \"a\", band = 0, police = { kind = \"bucket\", \
                rate = \"1200 bit/s\", burst = \"1200 B\" } }, { name = \"b\", octets = 1500 }]";
    let rest = wait(text, "b", 9600, 1500);
    assert_eq!(rest.rate_bit_s, Some(8400));
    near(rest.alone, (1500.0 + 1200.0) * 8.0 / 8400.0);
    near(rest.full, (1500.0 + 1200.0 + 1500.0) * 8.0 / 8400.0);
}

#[test]
fn age_bounds_what_nothing_else_does() {
    let text = "default = \"b\"\nclass = [{ name = \"a\", band = 0 }, \
                { name = \"b\", age = \"3 s\" }]";
    let rest = wait(text, "b", 9600, 1500);
    assert_eq!(
        (rest.alone, rest.full, rest.rate_bit_s),
        (s(3.0), s(3.0), None)
    );
}

#[test]
fn shares_are_of_what_the_band_has() {
    let text = "default = \"a\"\nclass = [{ name = \"a\", weight = 3 }, { name = \"b\" }]";
    assert_eq!(wait(text, "a", 10_000, 1500).rate_bit_s, Some(7500));
    assert_eq!(wait(text, "b", 10_000, 1500).rate_bit_s, Some(2500));
    // The other's turn and a packet more, after what is leaving; and three for the packet that the
    // class may have had too much.
    near(
        wait(text, "b", 10_000, 1500).alone,
        (1500.0 + 768.0 + 1500.0 + 3.0 * 1500.0) * 8.0 / 10_000.0,
    );
}

#[test]
fn token_buckets_give_their_guarantee() {
    let text = "discipline = \"htb\"\ndefault = \"a\"\nclass = [\
                { name = \"all\", rate = \"100 kbit/s\" },\
                { name = \"a\", parent = \"all\", rate = \"30 kbit/s\" },\
                { name = \"b\", parent = \"all\", rate = \"60 kbit/s\" }]";
    assert_eq!(wait(text, "a", 100_000, 1500).rate_bit_s, Some(30_000));
    // What is leaving, the other's bucket and a packet more, and 1500 octets that it owes itself.
    near(
        wait(text, "a", 100_000, 1500).alone,
        (1500.0 + 1600.0 + 1500.0) * 8.0 / 40_000.0 + 1500.0 * 8.0 / 30_000.0,
    );
    let scarce = wait(text, "a", 75_000, 1500);
    assert_eq!(scarce.rate_bit_s, Some(15_000));
    let none = wait(text, "a", 60_000, 1500);
    assert_eq!((none.rate_bit_s, none.alone), (None, None));
    assert!(none.because.iter().any(|it| it.contains("leave nothing")));
}

#[test]
fn a_better_priority_waits_for_no_guarantee_of_a_worse_one() {
    let text = "discipline = \"htb\"\ndefault = \"a\"\nclass = [\
                { name = \"a\", rate = \"30 kbit/s\", prio = 0 },\
                { name = \"b\", rate = \"60 kbit/s\", prio = 1 }]";
    near(
        wait(text, "a", 60_000, 1500).alone,
        1500.0 * 8.0 / 60_000.0 + 1500.0 * 8.0 / 30_000.0,
    );
}

#[test]
fn a_shaper_without_room_loses_what_it_is_held_up() {
    let text = |kind: &str| {
        format!(
            "default = \"b\"\nclass = [{{ name = \"a\", band = 0, packets = 1, \
             shape = {{ kind = \"{kind}\", rate = \"9600 bit/s\" }} }}, {{ name = \"b\" }}]"
        )
    };
    // Behind 1500 octets each time: 120 ms for 20 octets and their 16.7 ms.
    let clock = wait(&text("virtual-clock"), "a", 100_000, 1500);
    let least = 160.0 / (0.12 + 160.0 / 9600.0);
    assert_eq!(clock.rate_bit_s, Some(least as u64));
    // A bucket of 1600 octets keeps 100 beside the longest: of 120 ms it fills in 83.
    let bucket = wait(&text("token-bucket"), "a", 100_000, 1500);
    let longest = 12_000.0 / (0.12 - 800.0 / 9600.0 + 12_000.0 / 9600.0);
    assert_eq!(bucket.rate_bit_s, Some(longest as u64));
}

#[test]
fn a_packet_that_nothing_interrupts_comes_on_top_of_the_age() {
    let text = "default = \"a\"\nclass = [{ name = \"a\", age = \"500 ms\" }]";
    let config: PolicyConfig = toml::from_str(text).unwrap();
    let policy = Policy::compile(&config).unwrap();
    let class = policy.class_named("a").unwrap();
    let full = |unit_octets, cuts_packets| {
        let line = Line {
            bit_s: 9600,
            unit_octets,
            cuts_packets,
        };
        worst_wait(&policy, class, line).full
    };
    assert_eq!(full(576, true), s(0.5));
    // One that is leaving, and one below.
    assert_eq!(full(576, false), s(0.5 + 2.0 * 0.48));
    assert_eq!(full(1500, false), s(0.5 + 2.0 * 1.25));
}
