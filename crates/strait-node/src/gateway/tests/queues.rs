//! What the kinds of queue and the policers do to packets on their way.

use super::*;

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
