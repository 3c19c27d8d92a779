//! The profile `adapter`: real-time packets inside what is leaving.

use super::*;

const ADAPTER: &str = "profile = \"adapter\"\n";

fn adapter() -> String {
    String::from(SERIAL) + ADAPTER
}

/// Two ends that know each other.
fn pair(text: &str) -> (Gateway, Gateway) {
    let (mut a, mut b) = (gateway(text), gateway(text));
    headers::meet(&mut a, &mut b, Instant::ZERO);
    (a, b)
}

/// Pulls single octets until a packet is out at the other end; says how many.
fn octets_until_out(from: &mut Gateway, to: &mut Gateway, now: Instant) -> (usize, Vec<u8>) {
    for octets in 1..4000 {
        let octet = pull(from, LINE, now, 1);
        assert!(!octet.is_empty(), "nothing more to send");
        to.handle(now, frame(LINE, &octet));
        if to.wants(PortId::HOST).is_some() {
            return (octets, pull(to, PortId::HOST, now, 4096));
        }
    }
    panic!("nothing arrived");
}

#[test]
fn a_call_waits_for_no_octet_but_the_one_that_leaves() {
    let voice = udp("fd00:1::2", "fd00:2::2", 91, 46);
    let alone = {
        let (mut a, mut b) = pair(&adapter());
        a.handle(Instant::ZERO, frame(PortId::HOST, &voice));
        octets_until_out(&mut a, &mut b, Instant::ZERO).0
    };
    // Mark, two of length, check: five octets of framing.
    assert_eq!(alone, 91 + 5);
    let bulk = udp("10.1.0.2", "10.2.0.2", 1500, 0);
    for after in (0..1500).step_by(7) {
        let (mut a, mut b) = pair(&adapter());
        a.handle(Instant::ZERO, frame(PortId::HOST, &bulk));
        for _ in 0..after {
            let octet = pull(&mut a, LINE, Instant::ZERO, 1);
            b.handle(Instant::ZERO, frame(LINE, &octet));
        }
        a.handle(Instant::ZERO, frame(PortId::HOST, &voice));
        let (octets, packet) = octets_until_out(&mut a, &mut b, Instant::ZERO);
        assert_eq!((octets, &packet), (alone, &voice), "after {after}");
        let (_, packet) = octets_until_out(&mut a, &mut b, Instant::ZERO);
        assert_eq!(packet, bulk);
        assert_eq!(a.stats().ports[1].urgent.frames, 1);
        assert_eq!(a.stats().ports[1].urgent.suspended, u64::from(after > 0));
        let came = b.stats().ports[1].urgent;
        assert_eq!((came.frames_in, came.damaged), (1, 0));
        assert_eq!(came.resumed, u64::from(after > 0), "after {after}");
        // Frames are counted on an octet line, and not how often octets came.
        let (sent, came) = (&a.stats().ports[1], &b.stats().ports[1]);
        assert_eq!(came.frames_in, sent.frames_out);
        a.check();
        b.check();
        assert_eq!(a.stats().held() + b.stats().held(), 0);
    }
}

#[test]
fn what_is_left_of_an_urgent_frame_is_fixed_and_nothing_else_is() {
    let (mut a, _) = pair(&adapter());
    let bulk = udp("10.1.0.2", "10.2.0.2", 1500, 0);
    a.handle(Instant::ZERO, frame(PortId::HOST, &bulk));
    pull(&mut a, LINE, Instant::ZERO, 100);
    assert_eq!(a.committed_octets(LINE), 0);
    let voice = udp("10.1.0.2", "10.2.0.2", 91, 46);
    a.handle(Instant::ZERO, frame(PortId::HOST, &voice));
    assert_eq!(a.committed_octets(LINE), 0, "not begun");
    pull(&mut a, LINE, Instant::ZERO, 3);
    assert_eq!(a.committed_octets(LINE), 91 + 5 - 3);
    pull(&mut a, LINE, Instant::ZERO, 92);
    assert_eq!(a.committed_octets(LINE), 1);
    pull(&mut a, LINE, Instant::ZERO, 1);
    assert_eq!(a.committed_octets(LINE), 0);
    assert_eq!(a.committed_octets(PortId::HOST), 0);
}

#[test]
fn a_ping_cuts_a_long_packet_short_and_waits_for_no_segment() {
    let (mut a, mut b) = pair(&adapter());
    let bulk = udp("10.1.0.2", "10.2.0.2", 1500, 0);
    let ping = udp("10.1.0.2", "10.2.0.2", 84, 40);
    let before = a.stats().ports[1].octets_out;
    a.handle(Instant::ZERO, frame(PortId::HOST, &bulk));
    for _ in 0..300 {
        let octet = pull(&mut a, LINE, Instant::ZERO, 1);
        b.handle(Instant::ZERO, frame(LINE, &octet));
    }
    a.handle(Instant::ZERO, frame(PortId::HOST, &ping));
    let (octets, packet) = octets_until_out(&mut a, &mut b, Instant::ZERO);
    // The check and flag of what it cuts short, and its own six octets around it.
    assert_eq!((octets, packet), (3 + 84 + 6, ping));
    let (_, packet) = octets_until_out(&mut a, &mut b, Instant::ZERO);
    assert_eq!(packet, bulk);
    // Three segments and one, each with its price: the one cut short isn't counted twice.
    let line = a.stats().ports[1].octets_out - before;
    assert!(line <= 1500 + 84 + 3 * 4 + 2 + 6 + 1, "{line}");
}

#[test]
fn a_call_goes_inside_feedback_too_and_takes_none_along() {
    let text = adapter() + "compression = \"rohc\"\n";
    let (mut a, mut b) = pair(&text);
    let there = udp("fd00:1::2", "fd00:2::2", 200, 0);
    a.handle(Instant::ZERO, frame(PortId::HOST, &there));
    octets_until_out(&mut a, &mut b, Instant::ZERO);
    // b has feedback to send, and begins to.
    let first = pull(&mut b, LINE, Instant::ZERO, 2);
    assert_eq!(first.len(), 2);
    a.handle(Instant::ZERO, frame(LINE, &first));
    let voice = udp("fd00:2::2", "fd00:1::2", 91, 46);
    b.handle(Instant::ZERO, frame(PortId::HOST, &voice));
    let (octets, packet) = octets_until_out(&mut b, &mut a, Instant::ZERO);
    assert_eq!(packet, voice);
    assert!(octets <= 91 + 8 + 5, "{octets}");
    assert_eq!(b.stats().ports[1].urgent.suspended, 1);
    while b.wants(LINE).is_some() {
        let rest = pull(&mut b, LINE, Instant::ZERO, 9);
        a.handle(Instant::ZERO, frame(LINE, &rest));
    }
    let ports = &a.stats().ports[1];
    assert_eq!(
        (ports.invalid, ports.damaged, ports.undecompressed),
        (0, 0, 0)
    );
}

#[test]
fn the_check_of_real_time_packets_is_chosen() {
    let wide = adapter() + "check_urgent = 32\n";
    let (mut a, mut b) = pair(&wide);
    let voice = udp("fd00:1::2", "fd00:2::2", 91, 46);
    a.handle(Instant::ZERO, frame(PortId::HOST, &voice));
    let (octets, packet) = octets_until_out(&mut a, &mut b, Instant::ZERO);
    assert_eq!((octets, packet), (91 + 7, voice));
    for (text, place) in [
        (
            adapter() + "check_urgent = 24\n",
            "[[port]] line check_urgent",
        ),
        (
            String::from(SERIAL) + "profile = \"plain\"\ncheck_urgent = 16\n",
            "[[port]] line check_urgent",
        ),
    ] {
        let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
        assert_eq!(Gateway::new(&config).unwrap_err().place, place);
    }
}

#[test]
fn a_port_that_goes_down_in_a_suspension_loses_both_and_comes_back() {
    let (mut a, mut b) = pair(&adapter());
    let bulk = udp("10.1.0.2", "10.2.0.2", 1500, 0);
    let voice = udp("fd00:1::2", "fd00:2::2", 91, 46);
    a.handle(Instant::ZERO, frame(PortId::HOST, &bulk));
    pull(&mut a, LINE, Instant::ZERO, 50);
    a.handle(Instant::ZERO, frame(PortId::HOST, &voice));
    pull(&mut a, LINE, Instant::ZERO, 10);
    a.check();
    for event in [
        PortEvent::Down(DownCause::Device),
        PortEvent::Up(state(LineRate::new(9600, 10))),
    ] {
        a.handle(Instant::ZERO, Input::Port { port: LINE, event });
        a.check();
    }
    assert_eq!(a.stats().dropped.by(DropCause::PortDown), 2);
    a.handle(Instant::ZERO, frame(PortId::HOST, &voice));
    assert_eq!(octets_until_out(&mut a, &mut b, Instant::ZERO).1, voice);
}

#[test]
fn an_end_that_started_anew_asks_when_calls_come_that_it_cannot_read() {
    let (mut a, _) = pair(&adapter());
    let mut b = headers::started(&adapter(), 9);
    // What it says of itself gets lost, and it has nothing else to say.
    while b.wants(LINE).is_some() {
        pull(&mut b, LINE, Instant::ZERO, 1400);
    }
    let voice = udp("fd00:1::2", "fd00:2::2", 91, 46);
    let heard = |number: u64| {
        let now = Instant::from_millis(1000 + number * 200);
        a.handle(now, frame(PortId::HOST, &voice));
        headers::carry(&mut a, &mut b, now);
        headers::carry(&mut b, &mut a, now);
        pull_all(&mut b, PortId::HOST, now).len()
    };
    let heard: Vec<usize> = (0..10).map(heard).collect();
    // The one that made it ask is gone.
    assert_eq!(heard.iter().sum::<usize>(), 9, "{heard:?}");
}
