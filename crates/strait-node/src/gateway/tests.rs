//! Gateways driven by hand: octets from one are fed to the other.

use alloc::string::String;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use strait_core::delay::DelayPart;
use strait_core::id::Neighbours;
use strait_core::id::TxId;
use strait_core::node::{DownCause, FrameMeta, Notice, PortState};
use strait_core::rate::LineRate;
use strait_core::{Duration, FateRecord, WakeReason};
use strait_wire::ip::{EchoKind, PacketInfo};

use super::*;

mod adapter;
mod ahead;
mod circles;
mod dns;
mod echo;
mod families;
mod far;
mod gaps;
mod headers;
mod hellos;
mod hf;
mod hf_client;
mod hops;
mod hosts;
mod lan;
mod leads;
mod local;
mod neighbours;
mod payload;
mod proxied;
mod queues;
mod rates;
mod remember;
mod repairs;
mod sources;
mod tree;

use crate::config_text;

const LINE: PortId = PortId(1);

fn state(rate: LineRate) -> PortState {
    PortState {
        tx_rate: rate,
        rx_rate: rate,
        frame_octets_max: 1500,
        block: Duration::ZERO,
        latency: Duration::ZERO,
        notice: Notice::NONE,
    }
}

fn gateway(text: &str) -> Gateway {
    let config: NodeConfig = config_text::parse("test.toml", text).unwrap();
    up(Gateway::new(&config).unwrap(), text)
}

/// With all ports up.
fn up(mut gateway: Gateway, text: &str) -> Gateway {
    for port in 0..gateway.ports.len() {
        let fast = port == 0 || !text.contains("serial");
        let rate = if fast {
            LineRate::new(1_000_000_000, 8)
        } else {
            LineRate::new(9600, 10)
        };
        let event = PortEvent::Up(state(rate));
        gateway.handle(
            Instant::ZERO,
            Input::Port {
                port: PortId(port as u8),
                event,
            },
        );
    }
    gateway
}

const SERIAL: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
"#;

fn frame(port: PortId, bytes: &[u8]) -> Input<'_> {
    Input::Frame {
        port,
        from: NeighbourId::PEER,
        bytes,
        meta: FrameMeta::default(),
    }
}

fn pull(gateway: &mut Gateway, port: PortId, now: Instant, octets: usize) -> Vec<u8> {
    let mut out = Vec::new();
    gateway.poll_transmit(
        now,
        port,
        Room {
            octets,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        },
        &mut out,
    );
    out
}

fn pull_all(gateway: &mut Gateway, port: PortId, now: Instant) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while gateway.wants(port).is_some() {
        all.push(pull(gateway, port, now, 4096));
    }
    all
}

fn fates(gateway: &mut Gateway) -> Vec<FateRecord> {
    let effects = core::iter::from_fn(|| gateway.poll_effect());
    effects
        .filter_map(|effect| {
            if let Effect::Fate(record) = effect {
                Some(record)
            } else {
                None
            }
        })
        .collect()
}

fn udp(src: &str, dst: &str, octets: usize, dscp: u8) -> Vec<u8> {
    let socket = |text: &str| SocketAddr::new(text.parse::<IpAddr>().unwrap(), 9999);
    let mut out = Vec::new();
    let headers = if src.contains(':') { 48 } else { 28 };
    let payload = vec![0xa5; octets - headers];
    ip::build_udp(socket(src), socket(dst), dscp, 64, 7, 0, &payload, &mut out);
    out
}

#[test]
fn a_packet_crosses_two_gateways_unchanged() {
    let (mut a, mut b) = (gateway(SERIAL), gateway(SERIAL));
    for bytes in [
        udp("10.1.0.2", "10.2.0.2", 500, 0),
        udp("fd00:1::2", "fd00:2::2", 91, 46),
    ] {
        a.handle(Instant::ZERO, frame(PortId::HOST, &bytes));
        while a.wants(LINE).is_some() {
            let octets = pull(&mut a, LINE, Instant::ZERO, 7);
            b.handle(Instant::ZERO, frame(LINE, &octets));
        }
        assert_eq!(pull_all(&mut b, PortId::HOST, Instant::ZERO), [bytes]);
    }
    a.check();
    b.check();
    assert_eq!((a.stats().forwarded, b.stats().delivered), (2, 2));
}

#[test]
fn urgent_octets_follow_the_segment_that_is_leaving() {
    let mut a = gateway(SERIAL);
    a.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("10.1.0.2", "10.2.0.2", 1500, 0)),
    );
    pull(&mut a, LINE, Instant::ZERO, 1);
    let voice = udp("fd00:1::2", "fd00:2::2", 91, 46);
    a.handle(Instant::ZERO, frame(PortId::HOST, &voice));
    let mut b = gateway(SERIAL);
    let mut octets = 1;
    let got = loop {
        octets += 1;
        let one = pull(&mut a, LINE, Instant::ZERO, 1);
        b.handle(Instant::ZERO, frame(LINE, &one));
        if b.wants(PortId::HOST).is_some() {
            break pull(&mut b, PortId::HOST, Instant::ZERO, 2000);
        }
    };
    assert_eq!(got, voice);
    // Flag, one bulk segment of 96 octets, and the voice packet whole; 4 each for header, check
    // and flag, 2 more for the long check, and a few escapes.
    assert!(
        octets <= 1 + (96 + 4) + (91 + 6) + 4,
        "{octets} octets went first"
    );
}

#[test]
fn a_packet_too_big_is_answered_with_the_mtu_or_cut() {
    let narrow = SERIAL.replace("baud = 9600", "baud = 9600\nmtu = 1280");
    let mut a = gateway(&narrow);
    a.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("fd00:1::2", "fd00:2::2", 1281, 0)),
    );
    let back = pull(&mut a, PortId::HOST, Instant::ZERO, 2000);
    let error = ip::parse_icmp_error(&back).map(|(error, _)| error);
    assert_eq!(error, Some(IcmpError::PacketTooBig { mtu: 1280 }));
    assert_eq!(
        PacketInfo::parse(&back).unwrap().src,
        "fd00:9::1".parse::<IpAddr>().unwrap()
    );
    // At the limit it passes.
    a.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("fd00:1::2", "fd00:2::2", 1280, 0)),
    );
    assert_eq!(a.ports[1].held(), 1);
    // IPv4 that may be cut is.
    a.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("10.1.0.2", "10.2.0.2", 1400, 0)),
    );
    assert_eq!(a.ports[1].held(), 3);
    assert_eq!(a.stats().fragmented, 1);
    assert_eq!(a.stats().dropped.by(DropCause::TooBig), 1);
    a.check();
}

const RELAY: &str = r#"
name = "relay"
[host]
addresses = ["10.9.0.1/30"]
[[port]]
name = "west"
kind = "udp"
[[port]]
name = "east"
kind = "udp"
neighbours = [{ name = "c" }, { name = "d" }]
[[route]]
prefix = "10.1.0.0/24"
port = "west"
[[route]]
prefix = "10.3.0.0/24"
port = "east"
via = "c"
[[route]]
prefix = "10.4.0.0/24"
port = "east"
via = "d"
"#;

/// A frame that carries `packet`, as a neighbour would send it.
fn framed(packet: &[u8]) -> Vec<u8> {
    let mut neighbour = gateway(&SERIAL.replace("serial", "udp").replace("baud = 9600", ""));
    neighbour.handle(Instant::ZERO, frame(PortId::HOST, packet));
    pull(&mut neighbour, LINE, Instant::ZERO, 2000)
}

#[test]
fn a_relay_counts_a_hop_and_names_the_neighbour() {
    let mut relay = gateway(RELAY);
    for (dst, neighbour) in [("10.3.0.9", 0), ("10.4.0.9", 1)] {
        relay.handle(
            Instant::ZERO,
            frame(LINE, &framed(&udp("10.1.0.2", dst, 200, 0))),
        );
        let mut out = Vec::new();
        let room = Room {
            octets: 1400,
            starts: Instant::ZERO,
            until: None,
            to: Neighbours::ALL,
        };
        let meta = relay
            .poll_transmit(Instant::ZERO, PortId(2), room, &mut out)
            .unwrap();
        assert_eq!(meta.to, NeighbourId(neighbour));
        let packet = &out[1..out.len() - 4];
        assert_eq!(PacketInfo::parse(packet).unwrap().hop_limit, 63);
    }
    relay.check();
}

#[test]
fn a_spent_hop_limit_and_a_missing_route_are_told_to_the_sender() {
    let mut relay = gateway(RELAY);
    let mut spent = udp("10.1.0.2", "10.3.0.9", 200, 0);
    for _ in 0..63 {
        assert!(ip::decrement_hop_limit(&mut spent));
    }
    relay.handle(Instant::ZERO, frame(LINE, &framed(&spent)));
    relay.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("10.9.0.2", "10.77.0.1", 100, 0)),
    );
    let reasons: Vec<_> = fates(&mut relay).iter().map(|record| record.fate).collect();
    assert_eq!(
        reasons,
        [
            Fate::Dropped(DropCause::HopLimit),
            Fate::Dropped(DropCause::NoRoute)
        ]
    );
    let answer = pull(&mut relay, LINE, Instant::ZERO, 1400);
    let (error, _) = ip::parse_icmp_error(&answer[1..answer.len() - 4]).unwrap();
    assert_eq!(error, IcmpError::TimeExceeded);
    let answer = pull(&mut relay, PortId::HOST, Instant::ZERO, 1400);
    let (error, _) = ip::parse_icmp_error(&answer).unwrap();
    assert_eq!(error, IcmpError::Unreachable(Unreachable::NoRoute));
    relay.check();
}

#[test]
fn nothing_goes_back_where_it_came_from() {
    let mut relay = gateway(RELAY);
    relay.handle(
        Instant::ZERO,
        frame(LINE, &framed(&udp("10.1.0.9", "10.1.0.2", 100, 0))),
    );
    assert_eq!(relay.stats().dropped.by(DropCause::NoRoute), 1);
    // What no route matches is for the host side.
    relay.handle(
        Instant::ZERO,
        frame(LINE, &framed(&udp("10.1.0.9", "10.200.0.2", 100, 0))),
    );
    assert_eq!(pull_all(&mut relay, PortId::HOST, Instant::ZERO).len(), 1);
}

#[test]
fn a_port_that_goes_down_keeps_what_waits_and_loses_what_had_begun() {
    let mut a = gateway(SERIAL);
    let packet = udp("10.1.0.2", "10.2.0.2", 400, 0);
    a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    pull(&mut a, LINE, Instant::ZERO, 1);
    a.handle(
        Instant::ZERO,
        Input::Port {
            port: LINE,
            event: PortEvent::Down(DownCause::Device),
        },
    );
    assert_eq!(a.wants(LINE), None);
    assert_eq!(pull(&mut a, LINE, Instant::ZERO, 100), []);
    assert_eq!(a.stats().dropped.by(DropCause::PortDown), 1);
    a.check();
    let event = PortEvent::Up(state(LineRate::new(9600, 10)));
    a.handle(Instant::ZERO, Input::Port { port: LINE, event });
    let mut b = gateway(SERIAL);
    for octets in pull_all(&mut a, LINE, Instant::ZERO) {
        b.handle(Instant::ZERO, frame(LINE, &octets));
    }
    assert_eq!(pull_all(&mut b, PortId::HOST, Instant::ZERO), [packet]);
    a.check();
}

#[test]
fn a_stop_gives_every_packet_a_fate() {
    let mut a = gateway(SERIAL);
    for _ in 0..5 {
        a.handle(
            Instant::ZERO,
            frame(PortId::HOST, &udp("10.1.0.2", "10.2.0.2", 400, 0)),
        );
    }
    pull(&mut a, LINE, Instant::ZERO, 9);
    a.handle(Instant::ZERO, Input::Command(Command::Stop));
    assert_eq!(a.stats().dropped.by(DropCause::Stopped), 5);
    assert_eq!(a.stats().held(), 0);
    assert!(!a.reads(PortId::HOST));
    a.check();
}

#[test]
fn age_ends_a_packet_at_its_limit_and_not_before() {
    let text = String::from(SERIAL)
        + "[policy]\ndefault = \"all\"\n[[policy.class]]\nname = \"all\"\nage = \"100 ms\"\n";
    let mut a = gateway(&text);
    a.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("10.1.0.2", "10.2.0.2", 400, 0)),
    );
    let at = Instant::from_millis(100);
    assert_eq!(
        a.wake(),
        Some(Wake {
            at,
            why: WakeReason::Age
        })
    );
    a.handle(Instant::from_nanos(at.as_nanos() - 1), Input::Timeout);
    assert_eq!(a.stats().held(), 1);
    a.handle(at, Input::Timeout);
    assert_eq!(a.stats().dropped.by(DropCause::Aged), 1);
    assert_eq!(a.wake(), None);
    a.check();
}

/// An IPv4 TCP segment from 10.1.0.2 to 10.2.0.2 with right checksums.
fn tcp(flags: u8, seq: u32, options: &[u8], data: &[u8]) -> Vec<u8> {
    let sum = |bytes: &[u8], start: u32| {
        let words = bytes
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
        let sum = words.sum::<u32>() + start;
        let sum = (sum & 0xffff) + (sum >> 16);
        !(((sum & 0xffff) + (sum >> 16)) as u16)
    };
    let length = 20 + options.len() + data.len();
    let mut ip = vec![
        0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2,
    ];
    ip[2..4].copy_from_slice(&((20 + length) as u16).to_be_bytes());
    let check = sum(&ip, 0);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    let mut segment = vec![0x03, 0xe8, 0, 80];
    segment.extend_from_slice(&seq.to_be_bytes());
    segment.extend_from_slice(&[0, 0, 0, 0, ((20 + options.len()) << 2) as u8, flags]);
    segment.extend_from_slice(&[0xff, 0xff, 0, 0, 0, 0]);
    segment.extend_from_slice(options);
    segment.extend_from_slice(data);
    let pseudo = !u32::from(sum(&ip[12..20], 6 + length as u32)) & 0xffff;
    let check = sum(&segment, pseudo);
    segment[16..18].copy_from_slice(&check.to_be_bytes());
    [ip, segment].concat()
}

#[test]
fn a_segment_sent_again_costs_no_line_time_while_its_first_copy_is_here() {
    let mut a = gateway(SERIAL);
    let [first, second] = [1, 601].map(|seq| tcp(0x10, seq, &[], &[7; 600]));
    for packet in [&first, &second] {
        a.handle(Instant::ZERO, frame(PortId::HOST, packet));
    }
    pull(&mut a, LINE, Instant::ZERO, 10);
    // One is leaving, the other waits: neither is taken again.
    for packet in [&first, &second] {
        a.handle(Instant::ZERO, frame(PortId::HOST, packet));
    }
    assert_eq!(a.stats().absorbed, 2);
    pull_all(&mut a, LINE, Instant::ZERO);
    a.handle(Instant::ZERO, frame(PortId::HOST, &first));
    assert_eq!((a.stats().absorbed, a.stats().forwarded), (2, 2));
    a.check();
}

#[test]
fn a_syn_is_lowered_to_what_both_sides_carry() {
    let narrow = SERIAL.replace("baud = 9600", "baud = 9600\nmtu = 1280");
    let mut a = gateway(&narrow);
    let syn = tcp(0x02, 1, &[2, 4, 0x05, 0xb4], &[]);
    a.handle(Instant::ZERO, frame(PortId::HOST, &syn));
    let mut b = gateway(&narrow);
    for octets in pull_all(&mut a, LINE, Instant::ZERO) {
        b.handle(Instant::ZERO, frame(LINE, &octets));
    }
    let got = pull(&mut b, PortId::HOST, Instant::ZERO, 2000);
    assert_eq!(&got[40..], &[2, 4, 0x04, 0xd8], "1280 - 40");
    assert_eq!(ip::verify_transport_checksum(&got), Some(true));
}

#[test]
fn delay_parts_name_the_line_and_the_wait() {
    let mut a = gateway(SERIAL);
    let packet = udp("fd00:1::2", "fd00:2::2", 60, 46);
    a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    let line = LineRate::new(9600, 10);
    let mut at = Instant::from_millis(50);
    while a.wants(LINE).is_some() {
        pull(&mut a, LINE, at, 1);
        at += line.time_for(1);
    }
    let record = fates(&mut a)[0];
    assert_eq!(record.parts.part_ns(DelayPart::Class), 50_000_000);
    assert_eq!(
        record.parts.total_ns(),
        record.ended.since(record.began).as_nanos() as u64
    );
    assert!(record.parts.part_ns(DelayPart::Line) >= line.time_for(67).as_nanos() as u64);
}

#[test]
fn errors_are_limited_and_counted() {
    let mut relay = gateway(RELAY);
    for _ in 0..30 {
        relay.handle(
            Instant::ZERO,
            frame(PortId::HOST, &udp("10.9.0.2", "10.77.0.1", 100, 0)),
        );
    }
    assert_eq!(pull_all(&mut relay, PortId::HOST, Instant::ZERO).len(), 10);
    assert_eq!(relay.stats().icmp_limited, 20);
    relay.check();
}

#[test]
fn an_echo_request_reaches_the_host_side() {
    let mut b = gateway(SERIAL);
    let mut a = gateway(SERIAL);
    let mut ping = Vec::new();
    let (src, dst) = ("10.1.0.2".parse().unwrap(), "10.9.0.1".parse().unwrap());
    ip::build_echo(
        EchoKind::Request,
        src,
        dst,
        0,
        64,
        1,
        2,
        3,
        &[0; 56],
        &mut ping,
    );
    a.handle(Instant::ZERO, frame(PortId::HOST, &ping));
    for octets in pull_all(&mut a, LINE, Instant::ZERO) {
        b.handle(Instant::ZERO, frame(LINE, &octets));
    }
    assert_eq!(pull_all(&mut b, PortId::HOST, Instant::ZERO), [ping]);
}

#[test]
fn a_route_to_nobody_is_no_route() {
    let mut relay = gateway(RELAY);
    let to_host = udp("10.2.0.9", "10.77.0.9", 100, 0);
    for (port, via) in [(167, 0), (1, 1), (2, 2), (0, 1), (1, u16::MAX)] {
        relay.handle(
            Instant::ZERO,
            Input::Route(RouteChange::Add {
                prefix: "10.77.0.0".parse().unwrap(),
                length: 16,
                port: PortId(port),
                via: NeighbourId(via),
            }),
        );
        relay.handle(Instant::ZERO, frame(PortId(2), &framed(&to_host)));
        assert_eq!(pull_all(&mut relay, PortId::HOST, Instant::ZERO).len(), 1);
        relay.check();
    }
}

#[test]
fn delay_parts_add_up_when_a_port_goes_down_before_pulled_octets_left() {
    let mut a = gateway(SERIAL);
    let packet = udp("10.1.0.2", "10.2.0.2", 500, 0);
    a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    let room = Room {
        octets: 10,
        starts: Instant::from_millis(20),
        until: None,
        to: Neighbours::ALL,
    };
    let mut out = Vec::new();
    assert!(
        a.poll_transmit(Instant::ZERO, LINE, room, &mut out)
            .is_some()
    );
    let event = PortEvent::Down(DownCause::Device);
    a.handle(Instant::from_millis(5), Input::Port { port: LINE, event });
    let fates = fates(&mut a);
    assert_eq!(fates[0].fate, Fate::Dropped(DropCause::PortDown));
    let stay = fates[0].ended.since(fates[0].began);
    assert_eq!(Duration::from_nanos(fates[0].parts.total_ns()), stay);
}

#[test]
fn a_packet_too_old_takes_no_place_from_a_new_one() {
    let policy = "[policy]\n[[policy.class]]\nname = \"all\"\npackets = 1\nage = \"1 s\"\n";
    // The same with and without a pull that is answered by nothing.
    for pulled in [false, true] {
        let mut a = gateway(&format!("{SERIAL}{policy}"));
        let [old, new] = [100, 200].map(|octets| udp("10.1.0.2", "10.2.0.2", octets, 0));
        a.handle(Instant::ZERO, frame(PortId::HOST, &old));
        let later = Instant::from_secs(1);
        if pulled {
            assert_eq!(pull(&mut a, LINE, later, 4096), []);
        }
        a.handle(later, frame(PortId::HOST, &new));
        assert_eq!(a.stats().dropped.by(DropCause::Aged), 1);
        assert_eq!(a.stats().held(), 1);
    }
}

/// What happens, a number for it, and octets.
fn steps() -> impl Strategy<Value = Vec<(u8, u16, Vec<u8>)>> {
    let octets = proptest::collection::vec(any::<u8>(), 0..120);
    proptest::collection::vec((0u8..8, any::<u16>(), octets), 1..60)
}

proptest! {
    /// Hostile octets at any port, in any order with time, port events and pulls: no panic, and
    /// every packet has a fate.
    #[test]
    fn no_input_harms(steps in steps()) {
        let mut relay = gateway(RELAY);
        let mut line = gateway(SERIAL);
        let mut now = Instant::ZERO;
        let good = udp("10.1.0.2", "10.3.0.9", 700, 46);
        for (what, number, bytes) in steps {
            now += Duration::from_micros(u64::from(number) * 100);
            let port = PortId((number % 4) as u8);
            let down = PortEvent::Down(DownCause::Carrier);
            let up = PortEvent::Up(state(LineRate::new(u64::from(number), 8)));
            for gateway in [&mut relay, &mut line] {
                match what {
                    0 => gateway.handle(now, frame(port, &bytes)),
                    1 => gateway.handle(now, frame(port, &framed(&good))),
                    2 => gateway.handle(now, frame(PortId::HOST, &good)),
                    3 => gateway.handle(now, Input::Timeout),
                    4 => gateway.handle(now, Input::Port { port, event: down }),
                    5 => gateway.handle(now, Input::Port { port, event: up }),
                    6 => {
                        let (id, to) = (TxId(1), NeighbourId::PEER);
                        gateway.handle(now, Input::TxDone { port, id, to, ok: Some(false) });
                    }
                    _ => { pull(gateway, port, now, usize::from(number % 300)); }
                }
                gateway.check();
            }
        }
    }
}
