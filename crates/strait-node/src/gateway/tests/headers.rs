//! Header compression between two gateways.

use strait_core::id::Neighbours;
use strait_core::node::NodeFactory;
use strait_core::stats::{Agreement, Settled};
use strait_wire::hash::hash64;

use super::*;

fn compressing(kind: &str) -> String {
    let port = match kind {
        "udp" => SERIAL.replace("serial", "udp").replace("baud = 9600\n", ""),
        _ => String::from(SERIAL),
    };
    port + "compression = \"rohc\"\n"
}

/// A packet of a call: 31 octets in RTP, UDP and IPv6.
pub(super) fn voice(number: u16) -> Vec<u8> {
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
pub(super) fn carry(from: &mut Gateway, to: &mut Gateway, now: Instant) -> usize {
    let mut octets = 0;
    while from.wants(LINE).is_some() {
        let line = pull(from, LINE, now, 1400);
        octets += line.len();
        to.handle(now, frame(LINE, &line));
    }
    octets
}

/// Both ends say what they owe each other.
pub(super) fn meet(a: &mut Gateway, b: &mut Gateway, now: Instant) {
    while carry(a, b, now) + carry(b, a, now) > 0 {}
}

#[test]
fn a_call_crosses_the_line_in_a_third_of_its_octets() {
    // Calls have 16 bits of check, as both ends agree.
    for (kind, framing) in [("serial", 1 + 2 + 1), ("udp", 1 + 2)] {
        let (mut a, mut b) = (gateway(&compressing(kind)), gateway(&compressing(kind)));
        meet(&mut a, &mut b, Instant::ZERO);
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

const KNOWN: &str = r#"
[[port.context]]
src = "fd00:1::2"
dst = "fd00:2::2"
src_port = 5004
dst_port = 5004
"#;

/// Octets of each packet of a call between two gateways, framing of 4 in.
fn call(ports: [&str; 2]) -> Vec<usize> {
    let [mut a, mut b] = ports.map(|port| gateway(&(compressing("serial") + port)));
    meet(&mut a, &mut b, Instant::ZERO);
    let octets = (0..40).map(|number| {
        let now = Instant::from_millis(u64::from(number) * 200);
        a.handle(now, frame(PortId::HOST, &voice(number)));
        let octets = carry(&mut a, &mut b, now);
        assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(number)]);
        carry(&mut b, &mut a, now);
        octets
    });
    octets.collect()
}

#[test]
fn a_call_known_to_both_ends_begins_without_addresses_and_ports() {
    let other = KNOWN.replace("5004", "5006");
    let plain = call(["", ""]);
    let known = call([KNOWN, KNOWN]);
    let differing = call([KNOWN, &other]);
    let one_sided = call([KNOWN, ""]);
    assert!((95..105).contains(&plain[0]), "{plain:?}");
    assert!((55..62).contains(&known[0]), "{known:?}");
    assert_eq!((differing, one_sided), (plain.clone(), plain.clone()));
    assert_eq!(known[20..], plain[20..]);
}

#[test]
fn checksums_are_rebuilt_if_both_ends_are_set_up_for_it() {
    let rebuild = "checksums = \"rebuild\"\n";
    let plain = call(["", ""]);
    let rebuilt = call([rebuild, rebuild]);
    assert_eq!(call([rebuild, ""]), plain);
    // Two octets of twenty packets, and what had to be stuffed.
    let [plain, rebuilt] = [plain, rebuilt].map(|octets| octets[20..].iter().sum::<usize>());
    assert!((38..=42).contains(&(plain - rebuilt)), "{plain} {rebuilt}");
}

#[test]
fn a_gateway_that_starts_anew_says_so_and_nothing_is_lost_or_wrong() {
    let text = compressing("serial");
    let (mut a, mut b) = (started(&text, 1), started(&text, 2));
    for number in 0..60 {
        if number == 30 {
            b = started(&text, 3);
        }
        let now = Instant::from_millis(u64::from(number) * 200);
        let packet = voice(number);
        a.handle(now, frame(PortId::HOST, &packet));
        meet(&mut b, &mut a, now);
        assert_eq!(pull_all(&mut b, PortId::HOST, now), [packet]);
    }
    assert_eq!(b.stats().ports[1].undecompressed, 0);
}

#[test]
fn what_comes_compressed_to_a_new_start_is_refused_and_then_comes_plain() {
    let text = compressing("serial");
    let (mut a, mut b) = (started(&text, 1), started(&text, 2));
    let now = Instant::ZERO;
    meet(&mut a, &mut b, now);
    a.handle(now, frame(PortId::HOST, &voice(0)));
    meet(&mut a, &mut b, now);
    pull_all(&mut b, PortId::HOST, now);
    let mut b = started(&text, 3);
    // Its first hello is lost.
    while b.wants(LINE).is_some() {
        pull(&mut b, LINE, now, 1400);
    }
    a.handle(now, frame(PortId::HOST, &voice(1)));
    carry(&mut a, &mut b, now);
    assert_eq!(b.stats().ports[1].undecompressed, 1);
    // It asks.
    meet(&mut b, &mut a, now);
    a.handle(now, frame(PortId::HOST, &voice(2)));
    carry(&mut a, &mut b, now);
    assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(2)]);
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

/// A gateway's later start.
pub(super) fn started(ports: &str, seed: u64) -> Gateway {
    let config: NodeConfig = config_text::parse("test.toml", ports).unwrap();
    up(Gateway::seeded(&config, seed, &[]).unwrap(), ports)
}

fn headers(gateway: &Gateway) -> Settled {
    match gateway.stats().ports[1].agreement {
        Agreement::Settled { headers, .. } => headers,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_without_the_setting_answers_and_both_go_plain_from_the_first_packet_on() {
    let (mut a, mut b) = (started(&compressing("serial"), 1), started(SERIAL, 2));
    let now = Instant::ZERO;
    assert_eq!(a.stats().ports[1].agreement, Agreement::Unanswered);
    assert_eq!(b.stats().ports[1].agreement, Agreement::None);
    // What goes out before any answer can have come.
    a.handle(now, frame(PortId::HOST, &voice(1)));
    carry(&mut a, &mut b, now);
    assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(1)]);
    meet(&mut b, &mut a, now);
    assert_eq!(headers(&a), Settled::OtherWithout);
    assert_eq!(headers(&b), Settled::OwnWithout);
    let back = udp("fd00:2::2", "fd00:1::2", 91, 46);
    b.handle(now, frame(PortId::HOST, &back));
    carry(&mut b, &mut a, now);
    assert_eq!(pull_all(&mut a, PortId::HOST, now), [back]);
    // It starts anew with the setting, and says so.
    let mut b = started(&compressing("serial"), 3);
    for number in 2..6 {
        b.handle(
            now,
            frame(PortId::HOST, &udp("fd00:2::2", "fd00:1::2", 91, 46)),
        );
        meet(&mut b, &mut a, now);
        assert_eq!(pull_all(&mut a, PortId::HOST, now).len(), 1);
        a.handle(now, frame(PortId::HOST, &voice(number)));
        carry(&mut a, &mut b, now);
        assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(number)]);
    }
    for gateway in [&a, &b] {
        assert_eq!(headers(gateway), Settled::Agreed);
        assert_eq!(gateway.stats().ports[1].undecompressed, 0);
        gateway.check();
    }
}

/// Settings of a port: compression, checks, packet size; others as usual.
const SETTINGS: [&str; 9] = [
    "",
    "compression = \"rohc\"\n",
    "compression = \"rohc\"\nmtu = 1280\n",
    "check = 16\n",
    "check = 16\ncompression = \"rohc\"\n",
    "check_urgent = 32\n",
    "profile = \"adapter\"\ncompression = \"rohc\"\n",
    "profile = \"adapter\"\nmtu = 1400\n",
    "profile = \"adapter\"\ncheck_urgent = 32\n",
];

#[test]
fn any_two_settings_agree_and_no_packet_is_lost_from_the_first_on() {
    for own in SETTINGS {
        for other in SETTINGS {
            let (own, other) = (String::from(SERIAL) + own, String::from(SERIAL) + other);
            let (mut a, mut b) = (started(&own, 1), started(&other, 2));
            for number in 0..8 {
                let now = Instant::from_millis(200 * u64::from(number));
                let octets = [91, 1280, 40 + 0x7c, 300][usize::from(number) % 4];
                let there = [voice(number), udp("fd00:1::2", "fd00:2::2", octets, 0)];
                let back = [udp("fd00:2::2", "fd00:1::2", octets, 0), voice(number)];
                for (there, back) in there.into_iter().zip(back) {
                    a.handle(now, frame(PortId::HOST, &there));
                    b.handle(now, frame(PortId::HOST, &back));
                    // Both send before either hears, at first.
                    carry(&mut a, &mut b, now);
                    meet(&mut b, &mut a, now);
                    assert_eq!(
                        pull_all(&mut b, PortId::HOST, now),
                        [there],
                        "{own} {other}"
                    );
                    assert_eq!(pull_all(&mut a, PortId::HOST, now), [back], "{own} {other}");
                }
            }
            for gateway in [&a, &b] {
                let port = &gateway.stats().ports[1];
                let bad = port.damaged + port.invalid + port.incomplete + port.undecompressed;
                assert_eq!(bad, 0, "{own} {other}");
                gateway.check();
            }
            assert_eq!(
                a.stats().ports[1].compressed_octets > 0,
                own.contains("rohc") && other.contains("rohc")
            );
        }
    }
}

#[test]
fn without_a_way_back_headers_are_compressed_from_the_first_packet_on() {
    let text = compressing("serial") + "way_back = false\n";
    let (mut a, mut b) = (started(&text, 1), started(&text, 2));
    for number in 0..50 {
        let now = Instant::from_millis(u64::from(number) * 200);
        a.handle(now, frame(PortId::HOST, &voice(number)));
        let octets = carry(&mut a, &mut b, now);
        assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(number)]);
        // A hello goes ahead: nobody says that it was heard. All is said anew 8 s after the fourth.
        let compressed = octets < 34 + 5 + 3 + 30;
        assert!(number < 10 || compressed == (number != 43), "{octets}");
    }
    assert_eq!(b.stats().ports[1].undecompressed, 0);
    // A new start of the sender is known by its hello.
    let mut a = started(&text, 3);
    for number in 0..50 {
        let now = Instant::from_millis(20_000 + u64::from(number) * 200);
        a.handle(now, frame(PortId::HOST, &voice(number)));
        carry(&mut a, &mut b, now);
        assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(number)]);
    }
}

/// The least octets of a packet of a call that says its context whole.
const WHOLE_OCTETS: usize = 62 + 31;

#[test]
fn without_a_way_back_a_context_is_said_whole_again_after_a_while() {
    // Of a slow line a flow's refreshes leave nine tenths.
    for (baud, after_s) in [("9600", 8), ("750", 8), ("300", 20)] {
        let text = compressing("serial").replace("9600", baud) + "way_back = false\n";
        let (mut a, mut b) = (started(&text, 1), started(&text, 2));
        let mut number = 0;
        let mut octets_at = |now: Instant| {
            a.handle(now, frame(PortId::HOST, &voice(number)));
            let octets = carry(&mut a, &mut b, now);
            assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(number)]);
            number += 1;
            octets
        };
        for second in [0, 5, 10, 15] {
            assert!(octets_at(Instant::from_secs(second)) >= WHOLE_OCTETS);
        }
        let due = Instant::from_secs(15 + after_s);
        let before = Instant::from_nanos(due.as_nanos() - 1);
        assert!(octets_at(before) < WHOLE_OCTETS, "{baud}");
        assert!(octets_at(due) >= WHOLE_OCTETS, "{baud}");
        assert!(octets_at(due) < WHOLE_OCTETS, "{baud}");
    }
}

#[test]
fn short_checks_that_a_new_start_does_not_know_of_are_asked_about() {
    let text = String::from(SERIAL) + "check_urgent = 16\n";
    let (mut a, mut b) = (started(&text, 1), started(&text, 2));
    let now = Instant::ZERO;
    meet(&mut a, &mut b, now);
    a.handle(now, frame(PortId::HOST, &voice(0)));
    assert_eq!(carry(&mut a, &mut b, now), 91 + 4);
    assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(0)]);
    // It doesn't ask by itself now.
    let mut b = started(SERIAL, 3);
    a.handle(now, frame(PortId::HOST, &voice(1)));
    carry(&mut a, &mut b, now);
    assert_eq!(b.stats().ports[1].undecompressed, 1);
    meet(&mut b, &mut a, now);
    a.handle(now, frame(PortId::HOST, &voice(2)));
    assert_eq!(carry(&mut a, &mut b, now), 91 + 4);
    assert_eq!(pull_all(&mut b, PortId::HOST, now), [voice(2)]);
}

#[test]
fn the_smaller_of_two_packet_sizes_holds_at_both_ends() {
    let small = compressing("serial") + "mtu = 1280\n";
    let (mut a, mut b) = (started(&compressing("serial"), 1), started(&small, 2));
    let now = Instant::ZERO;
    meet(&mut a, &mut b, now);
    for (octets, passes) in [(1280, true), (1281, false)] {
        let packet = udp("fd00:1::2", "fd00:2::2", octets, 0);
        a.handle(now, frame(PortId::HOST, &packet));
        carry(&mut a, &mut b, now);
        let got = pull_all(&mut b, PortId::HOST, now);
        assert_eq!(got.contains(&packet), passes, "{octets}");
        // Who sent what is too long is told so.
        assert_eq!(
            pull_all(&mut a, PortId::HOST, now).len(),
            usize::from(!passes)
        );
    }
}

/// Packets of flows that no transport checksum protects: a wrong context would go unnoticed.
fn unprotected(flow: u8, number: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40];
    packet.extend_from_slice(&number.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 60, 17, 0, 0, 10, 1, 0, flow, 10, 2, 0, flow]);
    let sum: u32 = packet
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend_from_slice(&[0x10, flow, 0x10, flow, 0, 20, 0, 0]);
    packet.extend_from_slice(&[flow; 12]);
    packet
}

#[test]
fn no_restart_of_either_end_delivers_what_nobody_sent() {
    let text = compressing("serial");
    let (mut a, mut b) = (started(&text, 1), started(&text, 2));
    let (mut dice, mut restarts, mut delivered) = (Dice(17), 0u64, 0u32);
    for number in 0..4000u16 {
        let now = Instant::from_millis(u64::from(number) * 20);
        if dice.below(40) == 0 {
            restarts += 1;
            let anew = started(&text, 100 + restarts);
            if restarts.is_multiple_of(2) {
                a = anew;
            } else {
                b = anew;
            }
        }
        let packet = unprotected(dice.below(20) as u8 + 1, number);
        a.handle(now, frame(PortId::HOST, &packet));
        while a.wants(LINE).is_some() {
            let line = pull(&mut a, LINE, now, 1400);
            if dice.below(4) > 0 {
                b.handle(now, frame(LINE, &line));
            }
        }
        let got = pull_all(&mut b, PortId::HOST, now);
        assert!(got.iter().all(|got| *got == packet), "{number}");
        delivered += got.len() as u32;
        while b.wants(LINE).is_some() {
            let line = pull(&mut b, LINE, now, 1400);
            if dice.below(4) > 0 {
                a.handle(now, frame(LINE, &line));
            }
        }
    }
    assert!(restarts > 50, "{restarts}");
    assert!(delivered > 2500, "{delivered}");
}

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 += 1;
        hash64(self.0, &[1]) % end
    }
}

#[test]
fn a_plain_line_has_no_header_compression() {
    let text = compressing("serial") + "profile = \"plain\"\n";
    let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
    let error = Gateway::new(&config).unwrap_err();
    assert_eq!(error.place, "[[port]] line compression");
}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Each draw is one step: which end, what it does, and whether a frame is lost on the way.
    #[test]
    fn nothing_is_ever_told_wrongly_whichever_end_starts_anew_and_when(
        draws in proptest::collection::vec((0usize..2, 0u8..24, 0u8..8), 150..300),
        known in any::<[bool; 2]>(),
        rebuilds in any::<[bool; 2]>(),
    ) {
        let texts = [0, 1].map(|end| {
            let rebuild = if rebuilds[end] { "checksums = \"rebuild\"\n" } else { "" };
            compressing("serial") + rebuild + if known[end] { KNOWN } else { "" }
        });
        let mut ends = [started(&texts[0], 1), started(&texts[1], 2)];
        let mut sent: Vec<Vec<u8>> = Vec::new();
        let mut delivered = 0;
        for (number, (end, act, luck)) in (0u16..).zip(draws) {
            let now = Instant::from_millis(u64::from(number) * 200);
            match act {
                0 => ends[end] = started(&texts[end], u64::from(number) + 3),
                _ => {
                    let packet = if end == 0 {
                        voice(number)
                    } else {
                        udp("fd00:2::2", "fd00:1::2", 91, 46)
                    };
                    sent.push(packet.clone());
                    ends[end].handle(now, frame(PortId::HOST, &packet));
                }
            }
            for from in [0, 1, 0, 1] {
                while ends[from].wants(LINE).is_some() {
                    let line = pull(&mut ends[from], LINE, now, 1400);
                    if luck > 0 {
                        ends[1 - from].handle(now, frame(LINE, &line));
                    }
                }
            }
            for end in &mut ends {
                for packet in pull_all(end, PortId::HOST, now) {
                    assert!(sent.contains(&packet), "a packet that nobody sent");
                    delivered += 1;
                }
            }
        }
        assert!(delivered > 50, "{delivered} of {}", sent.len());
    }
}

#[test]
fn a_gateway_made_without_a_start_says_the_hello_of_a_first_one() {
    let text = compressing("serial");
    let hello = pull(&mut gateway(&text), LINE, Instant::ZERO, 1400);
    let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
    let mut booted = GatewayFactory::new(config).unwrap().boot(Boot::default());
    let event = PortEvent::Up(state(LineRate::new(9600, 10)));
    booted.handle(Instant::ZERO, Input::Port { port: LINE, event });
    let room = Room {
        octets: 1400,
        starts: Instant::ZERO,
        until: None,
        to: Neighbours::ALL,
    };
    let mut out = Vec::new();
    booted.poll_transmit(Instant::ZERO, LINE, room, &mut out);
    assert_eq!(out, hello);
    assert!(out.len() > 15, "{out:?}");
}
