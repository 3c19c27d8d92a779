use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::fate::Origin;
use strait_core::flow::FlowMark;
use strait_core::rate::LineRate;
use strait_core::{DropCause, Duration, Ledger};
use strait_wire::ip;

use super::*;
use crate::config::AdmissionConfig;

/// 960 octets each second, of which calls may have 912.
const LINE: LineRate = LineRate::new(9600, 10);

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
        let stats = &mut self.stats;
        if call {
            let terms = Terms::new(&AdmissionConfig::default(), LINE, true);
            self.flows.admit(now, &packet, None, &terms, stats);
        } else {
            self.flows.see(now, &packet, stats);
        }
        self.ledger.drop(now, packet, DropCause::Stopped);
    }

    /// A packet of a call on a line that compresses no headers: whether it goes, and how.
    fn call(&mut self, at_ms: u64, port: u16, told_bit_s: Option<u64>) -> Pass {
        let now = Instant::from_millis(at_ms);
        let packet = self.ledger.admit(now, udp(port, 65), Origin::Own).unwrap();
        let terms = Terms::new(&AdmissionConfig::default(), LINE, false);
        let stats = &mut self.stats;
        let pass = self.flows.admit(now, &packet, told_bit_s, &terms, stats);
        self.ledger.drop(now, packet, DropCause::Stopped);
        pass
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

/// Calls with packets of 70 octets on the line: 350 octets each second at a period of 200 ms.
#[test]
fn the_call_that_does_not_fit_is_refused_and_the_others_go_on() {
    use Pass::{Behind, First, Refused};
    let mut bench = Bench::default();
    let mut passes = [const { Vec::new() }; 3];
    for packet in 0..30 {
        for (number, passes) in (0..).zip(&mut passes) {
            // Each begins when the one before is known.
            if packet >= 5 * number {
                let at_ms = 200 * packet + 60 * number;
                passes.push(bench.call(at_ms, 4000 + 2 * number as u16, None));
            }
        }
    }
    // Two intervals say what a call needs; a call beside others waits behind them so long.
    assert!(passes[0].iter().all(|pass| *pass == First));
    assert_eq!(passes[1][..3], [Behind, Behind, First]);
    assert!(passes[1][2..].iter().all(|pass| *pass == First));
    assert_eq!(passes[2][..3], [Behind, Behind, Refused]);
    assert!(passes[2][2..].iter().all(|pass| *pass == Refused));
    assert_eq!((bench.stats.admitted, bench.stats.refused), (2, 1));
    let standings: Vec<_> = bench.rows().iter().map(|it| it.standing.unwrap()).collect();
    let octets_s = 350;
    assert_eq!(
        standings,
        [
            Standing::Admitted { octets_s },
            Standing::Admitted { octets_s },
            Standing::Refused
        ]
    );
}

#[test]
fn a_refused_call_is_tried_again_after_a_pause_and_when_the_line_has_room() {
    let mut bench = Bench::default();
    let mut at_ms = 0;
    let mut all = |bench: &mut Bench, ports: &[u16], packets: usize| {
        let mut last = Vec::new();
        for _ in 0..packets {
            at_ms += 200;
            let passes = ports.iter().map(|port| bench.call(at_ms, *port, None));
            last = passes.collect();
        }
        last
    };
    use Pass::{Behind, First, Refused};
    all(&mut bench, &[1, 2], 10);
    assert_eq!(all(&mut bench, &[1, 2, 3], 10), [First, First, Refused]);
    // It pauses for 2 s, and is measured anew.
    all(&mut bench, &[1, 2], 9);
    assert_eq!(all(&mut bench, &[1, 2, 3], 1), [First, First, Behind]);
    assert_eq!(all(&mut bench, &[1, 2, 3], 2), [First, First, Refused]);
    // The second has ended, and its place is kept for 30 s.
    assert_eq!(all(&mut bench, &[1, 3], 149), [First, Refused]);
    assert_eq!(all(&mut bench, &[1, 3], 1), [First, First]);
    assert_eq!(bench.stats.refused, 2);
}

/// Six calls of 190 octets each second, each of which talks a third of its time; five may talk at
/// once.
#[test]
fn calls_that_take_turns_fit_by_what_they_use() {
    use Pass::{First, Refused};
    let mut bench = Bench::default();
    let mut at_ms = 0;
    let mut talk = |bench: &mut Bench, ports: &[u16], packets: usize| {
        let mut last = Vec::new();
        for _ in 0..packets {
            at_ms += 368;
            let passes = ports.iter().map(|port| bench.call(at_ms, *port, None));
            last = passes.collect();
        }
        last
    };
    for round in 0..4 {
        for ports in [[1, 2], [3, 4], [5, 6]] {
            let passes = talk(&mut bench, &ports, 20);
            assert_eq!(passes, [First, First], "{round} {ports:?}");
        }
    }
    // The sixth had to wait until it was seen that others are silent, too.
    assert_eq!((bench.stats.admitted, bench.stats.refused), (6, 1));
    assert_eq!(talk(&mut bench, &[2, 3, 4, 5, 6], 5), [First; 5]);
    // Who never talked yet finds no room as long as five do.
    let six = talk(&mut bench, &[2, 3, 4, 5, 6, 7], 5);
    assert_eq!(six, [First, First, First, First, First, Refused]);
}

/// Two calls of 420 octets each second in packets that are 1.2 s apart talk all the time.
#[test]
fn long_periods_are_no_silences() {
    let mut bench = Bench::default();
    let terms = Terms::new(&AdmissionConfig::default(), LINE, false);
    let mut last = Vec::new();
    for packet in 0..60 {
        let calls = [1, 2, 3]
            .into_iter()
            .filter(|port| *port < 3 || packet > 40);
        let passes = calls.map(|port| {
            // The third one's come when the others' are a second old.
            let phase_ms = if port < 3 { 10 * u64::from(port) } else { 1150 };
            let now = Instant::from_millis(1200 * packet + phase_ms);
            let packet = bench
                .ledger
                .admit(now, udp(port, 499), Origin::Own)
                .unwrap();
            let pass = bench
                .flows
                .admit(now, &packet, None, &terms, &mut bench.stats);
            bench.ledger.drop(now, packet, DropCause::Stopped);
            pass
        });
        last = passes.collect();
    }
    assert_eq!(last, [Pass::First, Pass::First, Pass::Refused]);
}

/// 940 octets each second of 960: more than calls may have together, and nobody else's.
#[test]
fn a_call_that_is_alone_may_have_the_line() {
    let mut bench = Bench::default();
    let mut passes = (0..40).map(|packet| bench.call(149 * packet / 2, 1, None));
    assert!(passes.all(|pass| pass == Pass::First));
    assert_eq!(bench.stats.refused, 0);
}

#[test]
fn what_a_rule_says_is_known_from_the_first_packet_on() {
    let mut bench = Bench::default();
    // 456 octets each second, twice the 912.
    assert_eq!(bench.call(0, 1, Some(3648)), Pass::First);
    assert_eq!(bench.call(1, 2, Some(3648)), Pass::First);
    assert_eq!(bench.call(2, 3, Some(1)), Pass::Refused);
    let mut bench = Bench::default();
    assert_eq!(bench.call(0, 1, Some(3648)), Pass::First);
    assert_eq!(bench.call(1, 2, Some(3649)), Pass::Refused);
}

#[test]
fn a_call_that_grows_is_asked_again() {
    let grown = |period_ms: u64| {
        let mut bench = Bench::default();
        let mut at_ms = 0;
        for _ in 0..20 {
            at_ms += 200;
            bench.call(at_ms, 1, None);
            bench.call(at_ms + 70, 2, None);
        }
        let mut others_ms = at_ms + 270;
        for _ in 0..40 {
            at_ms += period_ms;
            while others_ms < at_ms {
                bench.call(others_ms, 2, None);
                others_ms += 200;
            }
            bench.call(at_ms, 1, None);
        }
        bench.call(at_ms + period_ms, 1, None)
    };
    // 350 octets each second beside 350: 560 is the most.
    assert_eq!(grown(200), Pass::First);
    assert_eq!(grown(125), Pass::First);
    assert_eq!(grown(120), Pass::Refused);
}

#[test]
fn a_flow_without_a_period_is_known_by_its_mean() {
    let mut bench = Bench::default();
    let passes: Vec<_> = (0..40)
        .map(|packet: u64| bench.call(60 * packet + 47 * (packet % 2), 1, None))
        .collect();
    // 1167 octets each second, once that has lasted for one.
    assert_eq!(passes[17], Pass::Refused, "{passes:?}");
    assert!(passes[..17].iter().all(|pass| *pass == Pass::First));
}

#[test]
fn a_storm_of_calls_takes_no_admitted_one_its_place() {
    let mut bench = Bench::default();
    for packet in 0..5 {
        bench.call(200 * packet, 1, None);
    }
    for port in 0..1000 {
        bench.call(900, 10_000 + port, None);
    }
    bench.flows.check();
    assert_eq!(bench.stats.known, CALLS_MAX as u64);
    assert_eq!(bench.call(1000, 1, None), Pass::First);
    assert_eq!(bench.rows().iter().filter(|it| it.packets == 6).count(), 1);
}

/// Two calls of 65 octets every 135 ms where headers are compressed: 45 octets each in the end.
/// Their first 30 packets take 91 octets, which both together can't have.
#[test]
fn calls_that_begin_together_share_the_time_until_headers_are_learned() {
    let mut bench = Bench::default();
    let terms = Terms::new(&AdmissionConfig::default(), LINE, true);
    let mut send = |at_ms: u64, port: u16, octets: usize| {
        let now = Instant::from_millis(at_ms);
        let packet = bench.ledger.admit(now, udp(port, 65), Origin::Own).unwrap();
        let pass = bench
            .flows
            .admit(now, &packet, None, &terms, &mut bench.stats);
        bench.flows.carried(packet.info(), octets);
        bench.ledger.drop(now, packet, DropCause::Stopped);
        pass
    };
    for packet in 0..60 {
        let octets = if packet < 30 { 91 } else { 45 };
        for port in [1, 2] {
            let pass = send(135 * packet + 67 * u64::from(port), port, octets);
            assert_eq!(pass, Pass::First, "{packet} of {port}");
        }
    }
    // A third one would disturb both, and doesn't fit.
    let third: Vec<_> = (60..64).map(|packet| send(135 * packet, 3, 91)).collect();
    assert_eq!(third[..2], [Pass::Behind, Pass::Behind]);
    assert_eq!(third[3], Pass::Refused);
}

#[test]
fn a_tunnels_other_packets_are_none_of_the_call_inside() {
    let mut bench = Bench::default();
    for packet in 0..40 {
        bench.call(500 + 200 * packet, 1, None);
    }
    let call = info(&udp(1, 1000));
    let other = PacketInfo { dscp: 0, ..call };
    let mut class_of = |at_ms, dscp| {
        let mut bytes = udp(1, 65);
        ip::set_dscp(&mut bytes, dscp);
        let now = Instant::from_millis(at_ms);
        let packet = bench.ledger.admit(now, bytes, Origin::Own).unwrap();
        let class = bench.flows.call_class(&packet);
        bench.ledger.drop(now, packet, DropCause::Stopped);
        class
    };
    assert_eq!(class_of(1000, 46), Some(ClassId(0)));
    assert_eq!(class_of(1000, 0), None);
    // What came before the call was one waits in another class.
    assert_eq!(class_of(500, 46), Some(ClassId(0)));
    assert_eq!(class_of(499, 46), None);
    for _ in 0..20 {
        bench.flows.carried(&call, 70);
        bench.flows.carried(&other, 1000);
    }
    assert_eq!(bench.rows()[0].octets, 70);
}

/// The class of calls, and another.
const CALLS: ClassId = ClassId(0);
const PLAIN: ClassId = ClassId(3);

impl Bench {
    /// An unmarked packet on a line without header compression: whether it is treated as a call's.
    fn unmarked(&mut self, at_ms: u64, port: u16, octets: usize) -> bool {
        let now = Instant::from_millis(at_ms);
        let bytes = udp(port, octets);
        let mut packet = self.ledger.admit(now, bytes, Origin::Own).unwrap();
        packet.class = PLAIN;
        let terms = Terms::new(&AdmissionConfig::default(), LINE, false);
        let stats = &mut self.stats;
        let is_call = may_be_call(packet.info())
            && self.flows.observe(now, &mut packet, CALLS, &terms, stats);
        assert_eq!(packet.class, if is_call { CALLS } else { PLAIN });
        self.ledger.drop(now, packet, DropCause::Stopped);
        is_call
    }

    /// The moment in ms from which on a flow is treated as a call.
    fn believed_from(&mut self, port: u16, octets: usize, period_ms: u64) -> Option<u64> {
        let packets = (0..10_000).step_by(period_ms as usize);
        packets
            .into_iter()
            .find(|at| self.unmarked(*at, port, octets))
    }
}

#[test]
fn an_unmarked_flow_is_a_call_after_two_seconds_of_its_pace() {
    // Three packets teach the period.
    let from = |period, octets| Bench::default().believed_from(1, octets, period);
    assert_eq!(from(100, 40), Some(2_200));
    assert_eq!(from(250, 90), Some(2_500));
    assert_eq!(from(251, 90), None);
}

#[test]
fn calls_that_are_long_over_keep_nobodys_place() {
    let mut bench = Bench::default();
    let mut believed = 0;
    // More one after the other than the table has places, each from a port of its own.
    for call in 0..OTHERS_MAX as u64 + 10 {
        let packets = (0..30).map(|packet| 40_000 * call + 100 * packet);
        let mut treated = packets.map(|at| bench.unmarked(at, 1000 + call as u16, 40));
        believed += usize::from(treated.any(|it| it));
    }
    assert_eq!(believed, OTHERS_MAX + 10);
}

#[test]
fn periods_and_sizes_of_calls_have_bounds() {
    let from = |period, octets| {
        let mut bench = Bench::default();
        let terms = Terms::new(
            &AdmissionConfig::default(),
            LineRate::new(1_000_000, 8),
            false,
        );
        (0..10_000).step_by(period as usize).any(|at| {
            let now = Instant::from_millis(at);
            let mut packet = bench
                .ledger
                .admit(now, udp(1, octets), Origin::Own)
                .unwrap();
            let is_call = may_be_call(packet.info())
                && bench
                    .flows
                    .observe(now, &mut packet, CALLS, &terms, &mut bench.stats);
            bench.ledger.drop(now, packet, DropCause::Stopped);
            is_call
        })
    };
    assert!(from(10, 100) && !from(9, 100));
    assert!(from(250, 100) && !from(251, 100));
    assert!(from(20, 400) && !from(20, 401));
}

#[test]
fn unmarked_calls_have_a_third_of_the_line_together_and_one_alone_has_half() {
    // Of 960 octets a second; 5 octets go around each packet.
    let alone = |octets| Bench::default().believed_from(1, octets, 100).is_some();
    assert!(alone(43) && !alone(44));
}

#[test]
fn one_more_unmarked_call_than_fits_goes_as_other_traffic_and_is_asked_again() {
    let mut bench = Bench::default();
    let (mut first, mut second) = (None, None);
    for packet in 0..400 {
        let at = 200 * packet;
        // 200 octets a second, and as much: more than 320.
        if at < 20_000 && bench.unmarked(at, 1, 35) {
            first.get_or_insert(at);
        }
        if bench.unmarked(at + 50, 2, 35) {
            second.get_or_insert(at + 50);
        }
    }
    assert_eq!(first, Some(2_400));
    // The first was heard last at 19.8 s; its place is kept for 30 s, and the second asks each 2 s.
    let second = second.unwrap();
    assert!((49_800..=51_850).contains(&second), "{second}");
}

#[test]
fn an_unmarked_call_that_loses_its_pace_or_grows_is_none_any_more() {
    let mut bench = Bench::default();
    let start = bench.believed_from(1, 35, 100).unwrap();
    for packet in 1..=20 {
        // Twice as many as a call that keeps its period would send.
        bench.unmarked(start + 50 * packet, 1, 35);
    }
    assert!(!bench.unmarked(start + 1_010, 1, 35));
    let mut bench = Bench::default();
    let start = bench.believed_from(1, 35, 100).unwrap();
    assert!(bench.unmarked(start + 100, 1, 43));
    assert!(
        !bench.unmarked(start + 200, 1, 60),
        "more than half of the line"
    );
    assert!(bench.unmarked(start + 2_300, 1, 35));
}
