//! Header compression between two gateways.

use super::*;

fn compressing(kind: &str) -> String {
    let port = match kind {
        "udp" => SERIAL.replace("serial", "udp").replace("baud = 9600\n", ""),
        _ => String::from(SERIAL),
    };
    port + "compression = \"rohc\"\n"
}

/// A packet of a call: 31 octets in RTP, UDP and IPv6.
fn voice(number: u16) -> Vec<u8> {
    let mut payload = vec![0x80, 96];
    payload.extend_from_slice(&number.to_be_bytes());
    payload.extend_from_slice(&(u32::from(number) * 1620).to_be_bytes());
    payload.extend_from_slice(&[1, 2, 3, 4]);
    payload.extend_from_slice(&[number as u8; 31]);
    let socket = |text: &str| SocketAddr::new(text.parse::<IpAddr>().unwrap(), 5004);
    let (from, to) = (socket("fd00:1::2"), socket("fd00:2::2"));
    let mut out = Vec::new();
    ip::build_udp(from, to, 46, 64, 0, 0, &payload, &mut out);
    out
}

/// Everything that `from` wants to send, taken to `to`; says how many octets.
fn carry(from: &mut Gateway, to: &mut Gateway, now: Instant) -> usize {
    let mut octets = 0;
    while from.wants(LINE).is_some() {
        let line = pull(from, LINE, now, 1400);
        octets += line.len();
        to.handle(now, frame(LINE, &line));
    }
    octets
}

#[test]
fn a_call_crosses_the_line_in_a_third_of_its_octets() {
    for (kind, framing) in [("serial", 1 + 4 + 1), ("udp", 1 + 4)] {
        let (mut a, mut b) = (gateway(&compressing(kind)), gateway(&compressing(kind)));
        for number in 0..100 {
            let now = Instant::from_millis(u64::from(number) * 200);
            let packet = voice(number);
            assert_eq!(packet.len(), 91);
            a.handle(now, frame(PortId::HOST, &packet));
            let octets = carry(&mut a, &mut b, now);
            assert_eq!(pull_all(&mut b, PortId::HOST, now), [packet]);
            let back = carry(&mut b, &mut a, now);
            // Feedback goes alone where nothing else goes back, and only while there is news.
            assert!(number < 10 || back == 0, "{kind} {number} {back}");
            // One octet of header, two of checksum; stuffing may add some.
            let least = 3 + 31 + framing;
            assert!(
                number < 10 || (least..least + 4).contains(&octets),
                "{octets}"
            );
        }
        a.check();
        b.check();
        let stats = &a.stats().ports[1];
        assert_eq!(stats.plain_octets, 9100);
        assert!((3400..3700).contains(&stats.compressed_octets));
        assert_eq!(b.stats().ports[1].undecompressed, 0);
    }
}

#[test]
fn a_gateway_that_starts_anew_asks_for_the_context_and_delivers_nothing_wrong() {
    let (mut a, mut b) = (
        gateway(&compressing("serial")),
        gateway(&compressing("serial")),
    );
    let mut delivered = Vec::new();
    for number in 0..60 {
        if number == 30 {
            b = gateway(&compressing("serial"));
        }
        let now = Instant::from_millis(u64::from(number) * 200);
        let packet = voice(number);
        a.handle(now, frame(PortId::HOST, &packet));
        carry(&mut a, &mut b, now);
        let got = pull_all(&mut b, PortId::HOST, now);
        carry(&mut b, &mut a, now);
        if !got.is_empty() {
            assert_eq!(got, [packet]);
            delivered.push(number);
        }
    }
    // One packet is lost: its failure asks for everything.
    let expected: Vec<u16> = (0..60).filter(|&number| number != 30).collect();
    assert_eq!(delivered, expected);
    assert_eq!(b.stats().ports[1].undecompressed, 1);
}

#[test]
fn the_largest_packet_passes_with_its_context() {
    let (mut a, mut b) = (
        gateway(&compressing("serial")),
        gateway(&compressing("serial")),
    );
    for bytes in [
        udp("10.1.0.2", "10.2.0.2", 1500, 0),
        udp("fd00:1::2", "fd00:2::2", 1500, 46),
    ] {
        a.handle(Instant::ZERO, frame(PortId::HOST, &bytes));
        carry(&mut a, &mut b, Instant::ZERO);
        assert_eq!(pull_all(&mut b, PortId::HOST, Instant::ZERO), [bytes]);
    }
}

#[test]
fn a_gateway_without_the_setting_counts_what_it_cannot_read() {
    let (mut a, mut b) = (gateway(&compressing("serial")), gateway(SERIAL));
    a.handle(Instant::ZERO, frame(PortId::HOST, &voice(1)));
    carry(&mut a, &mut b, Instant::ZERO);
    assert!(pull_all(&mut b, PortId::HOST, Instant::ZERO).is_empty());
    assert_eq!(b.stats().malformed, 1);
    b.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("fd00:2::2", "fd00:1::2", 91, 46)),
    );
    carry(&mut b, &mut a, Instant::ZERO);
    b.check();
    a.check();
}

#[test]
fn a_plain_line_has_no_header_compression() {
    let text = compressing("serial") + "profile = \"plain\"\n";
    let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
    let error = Gateway::new(&config).unwrap_err();
    assert_eq!(error.place, "[[port]] line compression");
}
