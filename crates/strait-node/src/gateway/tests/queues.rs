//! What the kinds of queue and the policers do to packets on their way.

use super::*;
use crate::GatewayFactory;

const SECOND: Duration = Duration::from_secs(1);

/// A gateway on the serial line with one class.
fn with_class(keys: &str) -> Gateway {
    let policy = "[policy]\ndefault = \"all\"\n[[policy.class]]\nname = \"all\"\n";
    gateway(&(String::from(SERIAL) + policy + keys))
}

/// A datagram with bits of ECN.
fn marked(ecn: u8, octets: usize) -> Vec<u8> {
    let mut bytes = udp("fd00:1::2", "fd00:2::2", octets, 0);
    bytes[1] |= ecn << 4;
    bytes
}

/// What became of the packets when the queue is kept at six for two minutes.
fn overload(gateway: &mut Gateway, ecn: u8) -> Vec<FateRecord> {
    let mut all = Vec::new();
    for second in 1..120 {
        let now = Instant::from_secs(second);
        while gateway.stats().held() < 6 {
            gateway.handle(now, frame(PortId::HOST, &marked(ecn, 1000)));
        }
        pull(gateway, LINE, now, 960);
        gateway.check();
        all.append(&mut fates(gateway));
    }
    all
}

#[test]
fn codel_drops_or_marks_on_the_way_to_the_line() {
    let codel = Fate::Dropped(DropCause::Codel);
    let mut a = with_class("queue = { kind = \"fq-codel\" }\n");
    let dropped = overload(&mut a, 0);
    let count = dropped.iter().filter(|record| record.fate == codel).count();
    assert!(count > 5, "{count}");
    assert_eq!(a.stats().dropped.by(DropCause::Codel), count as u64);
    assert_eq!(a.stats().classes[0].marked, 0);
    let mut a = with_class("queue = { kind = \"fq-codel\" }\n");
    let all = overload(&mut a, 2);
    assert!(all.iter().all(|record| record.fate != codel));
    let marked = all.iter().filter(|record| record.marked).count() as u64;
    assert!(marked > 5, "{marked}");
    assert_eq!(a.stats().classes[0].marked, marked);
    assert_eq!(a.stats().dropped.total(), 0);
}

#[test]
fn gauges_count_what_others_push_out_of_a_queue() {
    let mut a = with_class("queue = { kind = \"sfq\" }\npackets = 3\n");
    let from = |port: u16, mark: usize| {
        let mut bytes = udp("10.1.0.2", "10.2.0.2", 100 + mark, 0);
        bytes[20..22].copy_from_slice(&port.to_be_bytes());
        // Without a checksum (RFC 768).
        bytes[26..28].copy_from_slice(&[0, 0]);
        bytes
    };
    let now = Instant::ZERO + SECOND;
    for (port, mark) in [(1, 0), (1, 1), (1, 2), (2, 3)] {
        a.handle(now, frame(PortId::HOST, &from(port, mark)));
        a.check();
    }
    assert_eq!(a.stats().dropped.by(DropCause::PushedOut), 1);
    let class = &a.stats().classes[0];
    assert_eq!(
        (class.queued_packets, class.queued_octets),
        (3, 100 + 101 + 103)
    );
}

#[test]
fn a_policer_drops_or_marks_before_the_queue() {
    let police = "police = { kind = \"bucket\", rate = \"8 kbit/s\", burst = 1000 }\n";
    let mut a = with_class(police);
    let offer = |a: &mut Gateway, ns| {
        let now = Instant::from_nanos(ns);
        a.handle(
            now,
            frame(PortId::HOST, &udp("10.1.0.2", "10.2.0.2", 1000, 46)),
        );
        a.check();
    };
    for ns in [0, 999_999_999, 1_000_000_000] {
        offer(&mut a, ns);
    }
    assert_eq!(a.stats().classes[0].colours, [2, 0, 1]);
    assert_eq!(a.stats().classes[0].queued_packets, 2);
    assert_eq!(a.stats().dropped.by(DropCause::Policed), 1);
    assert_eq!(fates(&mut a).len(), 1);

    let mut a = with_class(&police.replace(" }", ", red = \"LE\" }"));
    for ns in [0, 1] {
        offer(&mut a, ns);
    }
    assert_eq!(a.stats().classes[0].colours, [1, 0, 1]);
    let mut b = gateway(SERIAL);
    while a.wants(LINE).is_some() {
        let octets = pull(&mut a, LINE, Instant::from_secs(1), 64);
        b.handle(Instant::from_secs(1), frame(LINE, &octets));
    }
    let marks = pull_all(&mut b, PortId::HOST, Instant::from_secs(1));
    let marks: Vec<u8> = marks
        .iter()
        .map(|packet| PacketInfo::parse(packet).unwrap().dscp)
        .collect();
    assert_eq!(marks, [46, 1]);
}

#[test]
fn a_priority_class_is_policed_only_while_packets_wait() {
    let police = "police = { kind = \"bucket\", rate = \"8 kbit/s\", burst = 1000, \
                  when = \"congested\" }\n";
    let mut a = with_class(police);
    let packet = udp("10.1.0.2", "10.2.0.2", 1000, 46);
    for turn in 0..5 {
        a.handle(Instant::from_secs(turn), frame(PortId::HOST, &packet));
        pull(&mut a, LINE, Instant::from_secs(turn), 4096);
    }
    assert_eq!(
        a.stats().classes[0].colours,
        [0, 0, 0],
        "an idle line is free"
    );
    for _ in 0..3 {
        a.handle(Instant::from_secs(9), frame(PortId::HOST, &packet));
    }
    assert_eq!(a.stats().classes[0].colours, [1, 0, 1]);
}

#[test]
fn marks_of_an_untrusted_port_count_for_nothing_and_do_not_go_on() {
    let policy = "[policy]\ndefault = \"rest\"\nuntrusted = \"host\"\n\
        [[policy.class]]\nname = \"voice\"\n[[policy.class]]\nname = \"rest\"\n\
        [[policy.match]]\nclass = \"voice\"\ndscp = \"EF\"\n\
        [[policy.match]]\nclass = \"voice\"\ningress = \"host\"\nmax_octets = 100\nmark = \"EF\"\n";
    let port = "kind = \"udp\"\nrate = \"9600 bit/s\"\nprofile = \"plain\"";
    let line = SERIAL.replace("kind = \"serial\"\nbaud = 9600", port);
    let mut a = gateway(&(line + policy));
    let mut class_and_mark = |octets: usize| {
        let packet = udp("10.1.0.2", "10.2.0.2", octets, 46);
        a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
        let sent = pull(&mut a, LINE, Instant::ZERO, 1500);
        a.handle(
            Instant::ZERO,
            Input::TxDone {
                port: LINE,
                id: TxId(0),
                to: NeighbourId::PEER,
                ok: Some(true),
            },
        );
        let header = sent.windows(2).find(|octets| octets[0] == 0x45).unwrap();
        (fates(&mut a)[0].class.index(), header[1] >> 2)
    };
    assert_eq!(class_and_mark(500), (1, 0));
    assert_eq!(class_and_mark(60), (0, 46));
}

#[test]
fn ports_that_a_policy_names_are_the_nodes() {
    let wrong = String::from(SERIAL) + "[policy]\nuntrusted = \"wlan\"\n";
    let config = config_text::parse("test", &wrong).unwrap();
    let error = GatewayFactory::new(config).unwrap_err().to_string();
    assert!(
        error.contains("`wlan` is none: write one of host, line"),
        "{error}"
    );
}
