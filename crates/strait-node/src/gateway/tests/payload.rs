//! Payload compression between two gateways.

use strait_wire::hash::hash64;

use super::headers::meet;
use super::*;

const DEFLATE: &str = "payload = \"deflate\"\n";

/// Mail as people write it.
const TEXT: &str = "From: <watch@example.org>\r\nTo: <ops@example.org>\r\nSubject: Weather\r\n\
    Content-Type: text/plain; charset=UTF-8\r\n\r\nThe wind has turned to the north west and there will be \
    rain before the morning. The convoy with the medical supplies is expected at the second point in the \
    evening, about two hours later than it was planned.\r\n";

fn packet(port: u16, dscp: u8, payload: &[u8]) -> Vec<u8> {
    let socket = |text: &str, port| SocketAddr::new(text.parse::<IpAddr>().unwrap(), port);
    let (from, to) = (socket("fd00:1::2", 5000), socket("fd00:2::2", port));
    let mut out = Vec::new();
    ip::build_udp(from, to, dscp, 64, 7, 0, payload, &mut out);
    out
}

fn random(octets: u64) -> Vec<u8> {
    (0..octets).map(|at| hash64(at, b"octet") as u8).collect()
}

/// Octets on the line for a packet, which has to arrive as it was.
fn octets(a: &mut Gateway, b: &mut Gateway, packet: &[u8]) -> usize {
    a.handle(Instant::ZERO, frame(PortId::HOST, packet));
    let mut octets = 0;
    while a.wants(LINE).is_some() {
        let line = pull(a, LINE, Instant::ZERO, 1400);
        octets += line.len();
        b.handle(Instant::ZERO, frame(LINE, &line));
    }
    assert_eq!(pull_all(b, PortId::HOST, Instant::ZERO), [packet]);
    octets
}

/// Two ends of a link for frames, on which no octet is escaped.
fn pair(own: &str, other: &str) -> (Gateway, Gateway) {
    let port = SERIAL.replace("serial", "udp").replace("baud = 9600\n", "");
    let (mut a, mut b) = (gateway(&(port.clone() + own)), gateway(&(port + other)));
    meet(&mut a, &mut b, Instant::ZERO);
    (a, b)
}

#[test]
fn text_gets_shorter_with_headers_compressed_or_not_and_nothing_gets_longer() {
    let both = String::from("compression = \"rohc\"\n") + DEFLATE;
    for (text, share) in [(DEFLATE, 0.66), (&both, 0.62)] {
        let (mut a, mut b) = pair(text, text);
        let (mut plain_a, mut plain_b) = pair(&text.replace(DEFLATE, ""), "");
        let mail = packet(25, 0, TEXT.as_bytes());
        let before = octets(&mut plain_a, &mut plain_b, &mail);
        for _ in 0..20 {
            let after = octets(&mut a, &mut b, &mail);
            assert!(
                (after as f64) < share * before as f64,
                "{after} of {before}"
            );
        }
        let payload = a.stats().ports[1].payload;
        assert_eq!((payload.packets, payload.raw), (20, 0));
        // On an encrypted port, and what looks random: as long as without, to the octet.
        for packet in [packet(443, 0, TEXT.as_bytes()), packet(80, 0, &random(900))] {
            let (mut c, mut d) = pair(text, text);
            let (mut e, mut f) = pair(&text.replace(DEFLATE, ""), &text.replace(DEFLATE, ""));
            for _ in 0..3 {
                assert_eq!(
                    octets(&mut c, &mut d, &packet),
                    octets(&mut e, &mut f, &packet)
                );
            }
            assert_eq!(c.stats().ports[1].payload.raw, 3);
        }
        a.check();
        b.check();
    }
}

#[test]
fn real_time_packets_are_left_alone() {
    let (mut a, mut b) = pair(DEFLATE, DEFLATE);
    octets(&mut a, &mut b, &packet(5004, 46, &[7; 200]));
    assert_eq!(a.stats().ports[1].payload.plain_octets, 0);
}

#[test]
fn only_one_end_with_the_setting_sends_as_without() {
    for (own, other) in [(DEFLATE, ""), ("", DEFLATE)] {
        let (mut a, mut b) = pair(own, other);
        let mail = packet(25, 0, TEXT.as_bytes());
        octets(&mut a, &mut b, &mail);
        assert_eq!(a.stats().ports[1].payload.packets, 0);
        assert_eq!(b.stats().ports[1].undecompressed, 0);
        let lacking = |gateway: &Gateway| gateway.stats().ports[1].agreement.lacks();
        assert_eq!(lacking(&a), !own.is_empty());
        assert_eq!(lacking(&b), !other.is_empty());
    }
}

#[test]
fn what_comes_compressed_without_agreement_is_refused_and_asked_about() {
    let (mut a, mut b) = pair(DEFLATE, DEFLATE);
    let mail = packet(25, 0, TEXT.as_bytes());
    octets(&mut a, &mut b, &mail);
    let mut b = gateway(&SERIAL.replace("serial", "udp").replace("baud = 9600\n", ""));
    a.handle(Instant::ZERO, frame(PortId::HOST, &mail));
    let line = pull(&mut a, LINE, Instant::ZERO, 4000);
    b.handle(Instant::ZERO, frame(LINE, &line));
    assert!(pull_all(&mut b, PortId::HOST, Instant::ZERO).is_empty());
    assert_eq!(b.stats().ports[1].undecompressed, 1);
    assert!(b.wants(LINE).is_some());
}

#[test]
fn a_plain_line_has_no_payload_compression() {
    let text = String::from(SERIAL) + DEFLATE + "profile = \"plain\"\n";
    let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
    let error = Gateway::new(&config).unwrap_err();
    assert_eq!(error.place, "[[port]] line payload");
}
