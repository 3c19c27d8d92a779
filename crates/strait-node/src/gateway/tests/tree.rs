//! What trees of classes, and limits on their rates, do to packets on their way.

use super::*;

const UDP: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "line"
kind = "udp"
"#;

fn with_policy(port: &str, policy: &str) -> Gateway {
    gateway(&(String::from(port) + "[policy]\n" + policy))
}

fn offer(gateway: &mut Gateway, now: Instant, octets: usize, dscp: u8) {
    let bytes = udp("10.1.0.2", "10.2.0.2", octets, dscp);
    gateway.handle(now, frame(PortId::HOST, &bytes));
    gateway.check();
}

#[test]
fn a_shaped_port_sends_at_the_instant_it_asked_for_and_not_before() {
    // A frame has an octet of header and four of check.
    let mut a = with_policy(
        UDP,
        "shape = { kind = \"virtual-clock\", rate = \"8 kbit/s\" }\n",
    );
    let now = Instant::from_secs(1);
    offer(&mut a, now, 95, 0);
    offer(&mut a, now, 95, 0);
    assert!(!pull(&mut a, LINE, now, 1400).is_empty());
    assert_eq!(a.wants(LINE), None);
    let at = Instant::from_millis(1100);
    let why = WakeReason::Shaper;
    let wake = a.wake().unwrap();
    assert_eq!((wake.at, wake.why), (at, why));
    let before = Instant::from_nanos(at.as_nanos() - 1);
    a.handle(before, Input::Timeout);
    assert_eq!(
        (a.wants(LINE), pull(&mut a, LINE, before, 1400)),
        (None, vec![])
    );
    a.handle(at, Input::Timeout);
    assert!(a.wants(LINE).is_some());
    assert_eq!(a.wake().filter(|wake| wake.why == why), None, "it may go");
    assert!(!pull(&mut a, LINE, at, 1400).is_empty());
    assert_eq!(a.stats().held(), 0);
}

#[test]
fn another_ports_input_does_not_leave_a_wake_up_in_the_past() {
    let mut a = with_policy(
        UDP,
        "shape = { kind = \"virtual-clock\", rate = \"8 kbit/s\" }\n",
    );
    let now = Instant::from_secs(1);
    offer(&mut a, now, 95, 0);
    offer(&mut a, now, 95, 0);
    pull(&mut a, LINE, now, 1400);
    let late = Instant::from_millis(1101);
    a.handle(late, frame(LINE, &[0; 3]));
    assert!(a.wants(LINE).is_some());
    assert!(a.wake().is_none_or(|wake| wake.at > late));
}

#[test]
fn the_host_side_has_no_limit() {
    let mut a = with_policy(
        UDP,
        "shape = { kind = \"virtual-clock\", rate = \"8 kbit/s\" }\n",
    );
    let mut b = with_policy(
        UDP,
        "shape = { kind = \"virtual-clock\", rate = \"8 kbit/s\" }\n",
    );
    for second in 1..4 {
        let now = Instant::from_secs(second);
        offer(&mut a, now, 95, 0);
        let octets = pull(&mut a, LINE, now, 1400);
        b.handle(Instant::from_secs(4), frame(LINE, &octets));
    }
    assert_eq!(
        pull_all(&mut b, PortId::HOST, Instant::from_secs(4)).len(),
        3
    );
}

#[test]
fn shares_in_percent_follow_the_lines_rate() {
    let mut a = with_policy(
        UDP,
        "shape = { kind = \"virtual-clock\", rate = \"50 %\" }\n",
    );
    let set = |a: &mut Gateway, now, bit_s| {
        let event = PortEvent::Changed(state(LineRate::new(bit_s, 8)));
        a.handle(now, Input::Port { port: LINE, event });
    };
    for (second, bit_s, ms) in [(1, 16_000, 100), (2, 32_000, 50)] {
        let now = Instant::from_secs(second);
        set(&mut a, now, bit_s);
        offer(&mut a, now, 95, 0);
        offer(&mut a, now, 95, 0);
        pull(&mut a, LINE, now, 1400);
        let at = now + Duration::from_millis(ms);
        assert_eq!(a.wake().map(|wake| wake.at), Some(at));
        a.handle(at, Input::Timeout);
        assert!(!pull(&mut a, LINE, at, 1400).is_empty());
    }
}

/// Twelve classes by code point on a serial line: more than it has streams.
fn many_classes() -> String {
    let mut text = String::from("default = \"c0\"\n");
    for n in 0..12 {
        text += &alloc::format!("[[policy.class]]\nname = \"c{n}\"\nband = {}\n", n / 6);
    }
    for n in 0..12 {
        text += &alloc::format!("[[policy.match]]\nclass = \"c{n}\"\ndscp = {}\n", n + 20);
    }
    text
}

#[test]
fn more_classes_than_streams_lose_and_mix_nothing() {
    let policy = many_classes();
    let (mut a, mut b) = (with_policy(SERIAL, &policy), with_policy(SERIAL, &policy));
    let mut arrived = 0;
    let mut now = Instant::from_secs(1);
    for round in 0..40usize {
        for n in 0..12 {
            offer(&mut a, now, 300 + usize::from(n) * round, 20 + n);
        }
        for _ in 0..12 {
            now += Duration::from_millis(100);
            let octets = pull(&mut a, LINE, now, 80);
            a.check();
            b.handle(now, frame(LINE, &octets));
            arrived += pull_all(&mut b, PortId::HOST, now).len();
        }
    }
    while a.wants(LINE).is_some() {
        now += Duration::from_millis(100);
        let octets = pull(&mut a, LINE, now, 96);
        b.handle(now, frame(LINE, &octets));
        arrived += pull_all(&mut b, PortId::HOST, now).len();
    }
    assert_eq!(arrived, 480);
    assert_eq!(
        b.stats().ports[1].damaged + b.stats().ports[1].incomplete,
        0
    );
    assert_eq!((a.stats().held(), b.stats().held()), (0, 0));
}
