use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::fate::Origin;
use strait_core::flow::FlowMark;
use strait_core::{DropCause, Duration, Ledger};
use strait_wire::ip;

use super::*;

/// The table of a port, and what counts for it.
#[derive(Default)]
struct Bench {
    flows: Flows,
    stats: FlowStats,
    ledger: Ledger,
}

impl Bench {
    fn see(&mut self, at_ms: u64, bytes: Vec<u8>, call: bool) {
        let now = Instant::from_millis(at_ms);
        let packet = self.ledger.admit(now, bytes, Origin::Own).unwrap();
        self.flows.see(now, &packet, call, &mut self.stats);
        self.ledger.drop(now, packet, DropCause::Stopped);
    }

    fn rows(&self) -> Vec<Flow> {
        self.flows.rows(PortId(1)).collect()
    }
}

fn udp(port: u16, octets: usize) -> Vec<u8> {
    let socket = |text: &str, port| SocketAddr::new(text.parse::<IpAddr>().unwrap(), port);
    let (src, dst) = (socket("10.1.0.2", port), socket("10.2.0.2", 5004));
    let mut out = Vec::new();
    ip::build_udp(src, dst, 46, 64, 7, 0, &vec![0xa5; octets - 28], &mut out);
    out
}

#[test]
fn a_call_is_known_by_size_period_and_rate() {
    let mut bench = Bench::default();
    for packet in 0..10 {
        bench.see(200 * packet, udp(4000, 71), true);
        bench.flows.carried(&info(&udp(4000, 71)), 38);
    }
    let [flow] = &bench.rows()[..] else {
        panic!("one flow");
    };
    assert_eq!(flow.nature, Nature::Ruled);
    assert_eq!((flow.packets, flow.octets, flow.dscp), (10, 38, 46));
    assert_eq!(flow.key.mark, FlowMark::Ports(4000, 5004));
    assert_eq!(flow.rate_bit_s(), Some(1520));
    let gaps = &bench.stats.gaps;
    // The first packet is unforeseen, and the two that teach the period.
    assert_eq!((gaps.error.count(), gaps.unforeseen), (7, 3));
    assert_eq!(gaps.error.quantile_ns(1.0), Some(1000));
}

fn info(bytes: &[u8]) -> PacketInfo {
    PacketInfo::parse(bytes).unwrap()
}

#[test]
fn small_packets_by_a_clock_are_a_call_by_observation() {
    let nature = |octets: &dyn Fn(u64) -> usize, packets: u64| {
        let mut bench = Bench::default();
        for packet in 0..packets {
            bench.see(20 * packet, udp(4000, octets(packet)), false);
        }
        bench.rows()[0].nature
    };
    // Three packets teach the period, eight more keep it.
    assert_eq!(nature(&|_| 200, 10), Nature::Conventional);
    assert_eq!(nature(&|_| 200, 11), Nature::Observed);
    assert_eq!(nature(&|_| 400, 11), Nature::Observed);
    assert_eq!(nature(&|_| 401, 11), Nature::Conventional);
    let uneven = |packet: u64| 100 + 200 * (packet as usize % 2);
    assert_eq!(nature(&uneven, 30), Nature::Conventional);
}

#[test]
fn what_keeps_no_pace_is_no_call() {
    let mut info = info(&udp(1, 100));
    assert!(keeps_pace(&info));
    for other in [protocol::TCP, protocol::ICMP, protocol::ICMPV6] {
        info.protocol = other;
        assert!(!keeps_pace(&info));
    }
    info.protocol = protocol::ESP;
    assert!(keeps_pace(&info));
}

#[test]
fn a_storm_of_flows_displaces_the_oldest_of_its_kind_and_no_call() {
    let mut bench = Bench::default();
    for packet in 0..5 {
        bench.see(200 * packet, udp(4000, 71), true);
    }
    let (first, last) = (10_000, 10_000 + OTHERS_MAX as u16);
    for port in first..last {
        bench.see(900, udp(port, 71), false);
    }
    assert_eq!(bench.stats.displaced, 0);
    bench.see(901, udp(first, 71), false);
    bench.see(902, udp(last, 71), false);
    assert_eq!(bench.stats.displaced, 1);
    assert_eq!(bench.stats.known, 1 + OTHERS_MAX as u64);
    let known = |port| {
        let marks = bench.rows();
        let mark = FlowMark::Ports(port, 5004);
        marks.iter().any(|flow| flow.key.mark == mark)
    };
    assert!(known(4000) && known(first) && known(last) && !known(first + 1));
    assert!(bench.flows.expected(Instant::from_millis(902)).is_some());
    bench.flows.check();
}

#[test]
fn the_next_packet_of_any_call_ends_the_gap() {
    let mut bench = Bench::default();
    for packet in 0..50 {
        bench.see(200 * packet, udp(4000, 71), true);
        bench.see(200 * packet + 70, udp(4002, 71), true);
    }
    let due = |at_ms| {
        let (from, until) = bench.flows.expected(Instant::from_millis(at_ms)).unwrap();
        from + until.since(from) / 2
    };
    assert_eq!(due(9_900), Instant::from_millis(10_000));
    assert_eq!(due(10_010), Instant::from_millis(10_070));
    assert_eq!(due(10_100), Instant::from_millis(10_200));
    // Nothing is expected of either after three periods of silence.
    let silent = Instant::from_millis(10_070) + Duration::from_millis(600);
    assert_eq!(bench.flows.expected(silent), None);
}
