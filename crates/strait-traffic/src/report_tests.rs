use strait_core::Instant;

use super::report;
use crate::{FlowLog, Mark, Side, TrafficConfig};

fn config(kind: &str, rest: &str) -> TrafficConfig {
    let text = format!(
        "name = \"x\"\nkind = \"{kind}\"\nfrom = \"ha\"\nto = \"hb\"\nstart = \"1 s\"\n{rest}"
    );
    toml::from_str(&text).unwrap()
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn a_rate_counts_all_the_time_that_a_flow_was_offered() {
    // 100 octets each 100 ms; three of ten arrive, one of them twice.
    let udp = config("udp", "rate = \"8 kbit/s\"\nstop = \"2 s\"");
    let mark = |sequence: u64, at_ms: u64| Mark {
        sequence,
        at_ns: at_ms * 1_000_000,
        octets: 100,
    };
    let mut from = FlowLog::new("x", Side::From);
    from.sent = (0..10).map(|it| mark(it, 1000 + it * 100)).collect();
    let rate = |received: &[(u64, u64)]| {
        let mut to = FlowLog::new("x", Side::To);
        to.received = received.iter().map(|it| mark(it.0, it.1)).collect();
        report(&udp, &from, &to).metrics["rate_bit_s"]
    };
    close(rate(&[(0, 1500), (1, 1600), (1, 1650), (2, 1700)]), 2400.0);
    // What comes later than that is no part of it.
    close(rate(&[(0, 1500), (1, 2499), (2, 2500)]), 1600.0);
    close(rate(&[]), 0.0);
}

#[test]
fn joining_literal_logs() {
    let mut from = FlowLog::new("x", Side::From);
    let mut to = FlowLog::new("x", Side::To);
    for sequence in 0..4 {
        from.sent(Instant::from_millis(sequence * 100), sequence, 43);
    }
    // 1 overtakes nobody, 3 overtakes 2, 2 comes twice, 0 is lost, 9 was never sent.
    for (ms, sequence) in [(150, 1), (330, 3), (340, 2), (350, 2), (360, 9)] {
        to.received(Instant::from_millis(ms), sequence, 43);
    }
    let first = report(&config("voice", ""), &from, &to);
    close(first.metrics["loss"], 0.25);
    close(first.metrics["delay_p50_s"], 0.05);
    close(first.metrics["delay_p99_s"], 0.14);
    // Delays 50, 30, 140 ms in the order of arrival.
    close(first.metrics["jitter_p99_s"], 0.11);
    // All in the first second.
    assert!(!first.metrics.contains_key("settled_delay_p99_s"));
    for (at_ms, sequence) in [(1100, 4), (1101, 5), (1200, 6)] {
        from.sent(Instant::from_millis(at_ms), sequence, 43);
        to.received(Instant::from_millis(1220), sequence, 43);
    }
    let settled = report(&config("voice", ""), &from, &to);
    // The first that arrived was sent at 100 ms.
    close(settled.metrics["settled_delay_p99_s"], 0.12);
    close(settled.metrics["settled_jitter_p99_s"], 0.099);
    // The first is lost; 9 isn't one of them.
    close(first.metrics["silent_max_s"], 0.1);
    for (name, count) in [
        ("sent", 4),
        ("received", 3),
        ("duplicates", 1),
        ("reordered", 1),
        ("unexpected", 1),
    ] {
        assert_eq!(first.counters[name], count, "{name}");
    }
    let nothing = FlowLog::new("x", Side::From);
    let none = report(&config("voice", ""), &nothing, &nothing);
    assert!(none.metrics.is_empty());
}
