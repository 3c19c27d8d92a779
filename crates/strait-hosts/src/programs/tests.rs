use strait_traffic::measure::{Direction, Failure};
use strait_traffic::{Family, FlowReport, report};

use super::*;
use crate::host::harness::{Pair, Pipe};

fn read(kind: &str, rest: &str) -> Result<TrafficConfig, String> {
    let text = format!(
        "name = \"x\"\nkind = \"{kind}\"\nfrom = \"ha\"\nto = \"hb\"\nstart = \"1 s\"\n{rest}"
    );
    toml::from_str(&text).map_err(|error| error.to_string())
}

fn config(kind: &str, rest: &str) -> TrafficConfig {
    read(kind, rest).unwrap()
}

fn start(pair: &mut Pair, config: &TrafficConfig, index: u16, seed: u64) {
    let [from, to] = &mut pair.hosts;
    let (near, far) = (
        from.address(config.family).unwrap(),
        to.address(config.family).unwrap(),
    );
    install(config, from, to, near, far, Ports::nth(index), seed).unwrap();
}

fn result(pair: &Pair, config: &TrafficConfig) -> FlowReport {
    let empty = FlowLog::new(&config.name, Side::To);
    let from = pair.hosts[0]
        .logs()
        .find(|log| log.traffic == config.name)
        .unwrap();
    let to = pair.hosts[1]
        .logs()
        .find(|log| log.traffic == config.name)
        .unwrap_or(&empty);
    report(config, from, to)
}

fn ran(pipe: Pipe, config: &TrafficConfig, seed: u64, end_s: u64) -> (Pair, FlowReport) {
    let mut pair = Pair::new(pipe, seed);
    start(&mut pair, config, 0, seed);
    pair.run(Instant::from_secs(end_s));
    let report = result(&pair, config);
    (pair, report)
}

/// 1 octet each millisecond, 50 ms away.
const SLOW: Pipe = Pipe::new(8000, Duration::from_millis(50), 0.0);

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn ping_takes_exactly_both_ways() {
    // IPv6 40 + ICMPv6 8 + 56 = 104 octets, so 104 ms + 50 ms each way.
    let (pair, report) = ran(SLOW, &config("ping", "count = 3"), 1, 60);
    assert_eq!(
        report.series[0].points,
        [(1.0, 0.308), (2.0, 0.308), (3.0, 0.308)]
    );
    for name in ["rtt_min_s", "rtt_p50_s", "rtt_p99_s"] {
        close(report.metrics[name], 0.308);
    }
    close(report.metrics["loss"], 0.0);
    assert_eq!(pair.now, Instant::from_nanos(3_308_000_000));
    let (_, report) = ran(SLOW, &config("ping", "family = 4\ncount = 1"), 1, 60);
    close(report.metrics["rtt_min_s"], 2.0 * (0.084 + 0.05));
}

#[test]
fn voice_delay_is_exact_both_ways() {
    // IPv6 40 + UDP 8 + RTP 12 + 31 = 91 octets.
    let voice = config("voice", "both_ways = true\nstop = \"3 s\"\ndscp = \"EF\"");
    let (pair, report) = ran(SLOW, &voice, 1, 60);
    assert_eq!(
        (report.counters["sent"], report.counters["received"]),
        (20, 20)
    );
    for name in ["delay_min_s", "delay_p50_s", "delay_p99_s", "delay_max_s"] {
        close(report.metrics[name], 0.141);
    }
    close(report.metrics["jitter_p99_s"], 0.0);
    close(report.metrics["loss"], 0.0);
    close(report.metrics["rate_bit_s"], 43.0 * 8.0 / 0.2);
    let labels: Vec<_> = report.series.iter().map(|series| series.label).collect();
    assert_eq!(labels, ["delay", "delay back"]);
    // The last of ten leaves at 2.8 s; none at the stop itself.
    assert_eq!(pair.now, Instant::from_nanos(2_941_000_000));
}

#[test]
fn in_turns_one_talks_at_a_time() {
    let keys = "both_ways = true\nturns = \"600 ms\"\nstop = \"4 s\"";
    let (pair, report) = ran(SLOW, &config("voice", keys), 1, 60);
    assert_eq!(report.counters["sent"], 15);
    let sent_ms = |host: usize| -> Vec<u64> {
        let log = pair.hosts[host].logs().next().unwrap();
        log.sent.iter().map(|mark| mark.at_ns / 1_000_000).collect()
    };
    assert_eq!(
        sent_ms(0),
        [1000, 1200, 1400, 2200, 2400, 2600, 3400, 3600, 3800]
    );
    assert_eq!(sent_ms(1), [1600, 1800, 2000, 2800, 3000, 3200]);
    for wrong in ["turns = \"500 ms\"\nboth_ways = true", "turns = \"400 ms\""] {
        assert!(read("voice", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_spread_start_is_the_seeds_and_within_the_spread() {
    let spread = config("voice", "start_spread = \"500 ms\"");
    let begins: Vec<_> = (0..50).map(|seed| spread.begins(seed)).collect();
    let range = Duration::from_secs(1)..=Duration::from_millis(1500);
    assert!(begins.iter().all(|at| range.contains(at)));
    assert!(begins.iter().any(|at| *at != begins[0]));
    assert_eq!(spread.begins(7), spread.begins(7));
}

#[test]
fn timers_fire_at_their_nanosecond() {
    use strait_core::{Input, Node, PortId};
    let mut pair = Pair::new(SLOW, 1);
    start(&mut pair, &config("voice", ""), 0, 1);
    let host = &mut pair.hosts[0];
    let at = Instant::from_secs(1);
    assert_eq!(host.wake().map(|wake| wake.at), Some(at));
    host.handle(Instant::from_nanos(999_999_999), Input::Timeout);
    assert!(host.wants(PortId::HOST).is_none());
    assert_eq!(host.wake().map(|wake| wake.at), Some(at));
    host.handle(at, Input::Timeout);
    assert!(host.wants(PortId::HOST).is_some());
    host.handle(at, Input::Timeout);
    assert_eq!(host.stats().originated, 1);
    assert_eq!(
        host.wake().map(|wake| wake.at),
        Some(Instant::from_nanos(1_200_000_000))
    );
}

#[test]
fn loss_is_counted_and_numbers_survive_their_wrap() {
    // 80,000 packets: the 16-bit number wraps once.
    let pipe = Pipe::new(100_000_000, Duration::from_millis(5), 0.1);
    let voice = config("voice", "period = \"1 ms\"\npayload = 8\nstop = \"81 s\"");
    let (_, report) = ran(pipe, &voice, 3, 100);
    assert_eq!(report.counters["sent"], 80_000);
    assert_eq!(
        (report.counters["duplicates"], report.counters["unexpected"]),
        (0, 0)
    );
    let loss = report.metrics["loss"];
    assert!((0.09..0.11).contains(&loss), "{loss}");
    assert!(report.metrics["delay_max_s"] < 0.006);
}

#[test]
fn udp_keeps_its_rate() {
    let pipe = Pipe::new(10_000_000, Duration::from_millis(5), 0.0);
    let (_, report) = ran(
        pipe,
        &config("udp", "rate = \"64 kbit/s\"\nstop = \"11 s\""),
        1,
        20,
    );
    assert_eq!(report.counters["received"], 800);
    close(report.metrics["rate_bit_s"], 64_000.0);
    let poisson = config(
        "udp",
        "rate = \"64 kbit/s\"\npoisson = true\nstop = \"101 s\"",
    );
    let (_, report) = ran(pipe, &poisson, 1, 110);
    let rate = report.metrics["rate_bit_s"];
    assert!((61_000.0..67_000.0).contains(&rate), "{rate}");
    assert!(report.metrics["jitter_p99_s"] >= 0.0);
}

#[test]
fn packets_of_ipsec_arrive_as_they_were_sent_in_whole_words() {
    for family in [4, 6] {
        let pipe = Pipe::new(10_000_000, Duration::from_millis(5), 0.0);
        let rest =
            format!("rate = \"64 kbit/s\"\npayload = \"99 B\"\nstop = \"2 s\"\nfamily = {family}");
        let (_, report) = ran(pipe, &config("esp", &rest), 1, 10);
        // 100 octets each 12.5 ms, with 8 more in front.
        assert_eq!(report.counters["sent"], 80, "{family}");
        assert_eq!(report.counters["received"], 80);
        close(report.metrics["rate_bit_s"], 64_000.0 * 1.08);
        close(report.metrics["wrong"], 0.0);
    }
    let refused = read("esp", "rate = \"1 kbit/s\"\nperiod = \"1 s\"");
    assert!(refused.unwrap_err().contains("`period`"));
}

#[test]
fn a_file_arrives_intact_with_and_without_loss() {
    for (family, loss, endpoint) in [
        (4, 0.0, "smoltcp-cubic"),
        (6, 0.0, "smoltcp-reno"),
        (6, 0.05, "smoltcp-cubic"),
        (4, 0.05, "smoltcp-reno"),
        (4, 0.0, "linux-cubic"),
        (6, 0.05, "linux-reno"),
        (4, 0.05, "linux-bbr"),
    ] {
        let pipe = Pipe::new(256_000, Duration::from_millis(20), loss);
        let rest = format!("octets = \"100 kB\"\nfamily = {family}\nendpoint = \"{endpoint}\"");
        let (pair, report) = ran(pipe, &config("tcp", &rest), 7, 600);
        assert_eq!(report.counters["octets"], 100_000, "{rest}");
        close(report.metrics["complete"], 1.0);
        close(report.metrics["wrong"], 0.0);
        let time_s = report.metrics["time_s"];
        // 100 kB at 32 kB/s and headers.
        let bound_s = if loss > 0.0 { 60.0 } else { 3.6 };
        assert!((3.125..bound_s).contains(&time_s), "{rest}: {time_s}");
        close(report.metrics["goodput_bit_s"], 800_000.0 / time_s);
        assert!((0.04..6.0).contains(&report.metrics["connect_s"]));
        assert_eq!(report.counters["tcp_retransmissions"] > 0, loss > 0.0);
        let near = pair.hosts[0]
            .logs()
            .next()
            .unwrap()
            .transfer
            .clone()
            .unwrap();
        assert_eq!((near.tcp.octets_acked, near.error), (100_001, None));
    }
}

#[test]
fn sizes_are_measured_one_after_another_both_ways() {
    for (loss, endpoint) in [
        (0.0, "linux-cubic"),
        (0.05, "linux-reno"),
        (0.02, "smoltcp-cubic"),
    ] {
        let pipe = Pipe::new(64_000, Duration::from_millis(100), loss);
        let rest = format!(
            "sizes = [\"1 kB\", \"50 kB\"]\ndirection = \"both\"\ncount = 2\n\
             rate = \"64 kbit/s\"\ninterval = \"500 ms\"\nendpoint = \"{endpoint}\""
        );
        let config = config("tcp", &rest);
        let (pair, report) = ran(pipe, &config, 3, 600);
        close(report.metrics["complete"], 1.0);
        close(report.metrics["wrong"], 0.0);
        let records = &pair.hosts[0].logs().next().unwrap().measured;
        let order: Vec<_> = records
            .iter()
            .map(|it| (it.octets, it.direction, it.run))
            .collect();
        let (up, down) = (Direction::Up, Direction::Down);
        let sized = |octets| {
            [
                (octets, up, 1),
                (octets, up, 2),
                (octets, down, 1),
                (octets, down, 2),
            ]
        };
        assert_eq!(order, [sized(1000), sized(50_000)].concat());
        for record in records {
            // Half a round trip more than a round trip to the first octet, then the line's rate.
            let least_s = 0.3 + f64::from(record.octets) / 8000.0;
            let total_s = record.total_s().unwrap();
            assert!(total_s > least_s, "{endpoint} {total_s} {least_s}");
            assert!(
                loss > 0.0 || total_s < 1.5 * least_s + 0.5,
                "{endpoint} {total_s} {least_s}"
            );
            assert!(record.connect_s().unwrap() > 0.2);
            assert!((0.1..total_s).contains(&record.last_octet_s().unwrap()));
        }
        let goodput = report.metrics["50kB-down.goodput_bit_s"];
        close(report.metrics["50kB-down.use"], goodput / 64_000.0);
        let [transfers, progress] = &report.tables[..] else {
            panic!("two tables");
        };
        assert_eq!(transfers.rows.len(), 8);
        // At least 12 intervals of half a second for each of the larger ones.
        assert!(progress.rows.len() > 4 * 12, "{}", progress.to_text());
    }
}

#[test]
fn transfers_that_fail_are_told_and_the_next_one_begins() {
    let pipe = Pipe::new(8000, Duration::from_millis(20), 0.0);
    // 20 kB take 20 s on this line: too long. What is left of them still delays the next transfer.
    let rest =
        "sizes = [\"20 kB\", \"1 kB\", \"1 kB\"]\ntimeout = \"10 s\"\nendpoint = \"linux-cubic\"";
    let (pair, report) = ran(pipe, &config("tcp", rest), 3, 100);
    let records = &pair.hosts[0].logs().next().unwrap().measured;
    assert_eq!(records[0].failure, Some(Failure::TimedOut));
    assert_eq!(records[0].ended_ns, Some(10_000_000_000));
    assert_eq!(records[0].total_s(), None);
    assert_eq!(records[1].failure, Some(Failure::TimedOut));
    assert_eq!(records[2].failure, None);
    close(report.metrics["complete"], 1.0 / 3.0);
    assert_eq!(report.metrics.get("20kB.time_s"), None);
    assert!(report.metrics["1kB.time_s"] > 1.0);
    let (_, report) = ran(pipe, &config("tcp", rest), 3, 9);
    close(report.metrics["complete"], 0.0);
}

#[test]
fn nobody_there_is_a_row_too() {
    let pipe = Pipe::new(8000, Duration::from_millis(20), 0.0);
    let mut pair = Pair::new(pipe, 1);
    let config = config("tcp", "sizes = [\"1 kB\"]\nendpoint = \"linux-cubic\"");
    // The server is on the host that the client doesn't call.
    let [near, far] = &mut pair.hosts;
    let here = near.address(Family::V6).unwrap();
    let mut other = Pair::new(pipe, 2);
    let there = far.address(Family::V6).unwrap();
    install(
        &config,
        near,
        &mut other.hosts[1],
        here,
        there,
        Ports::nth(0),
        1,
    )
    .unwrap();
    pair.run(Instant::from_secs(30));
    let report = result(&pair, &config);
    let text = report.tables[0].to_text();
    assert!(text.contains("connection refused"), "{text}");
    close(report.metrics["complete"], 0.0);
}

#[test]
fn an_interrupted_transfer_says_so() {
    let pipe = Pipe::new(8000, Duration::from_millis(20), 0.0);
    let (_, report) = ran(pipe, &config("tcp", "octets = \"100 kB\""), 1, 30);
    close(report.metrics["complete"], 0.0);
    assert_eq!(report.metrics.get("time_s"), None);
    assert!(report.counters["octets"] > 10_000);
    assert!(report.series[0].points.len() > 10);
}

#[test]
fn a_page_completes_with_and_without_loss() {
    for loss in [0.0, 0.05] {
        let pipe = Pipe::new(256_000, Duration::from_millis(20), loss);
        let (pair, report) = ran(pipe, &config("page", ""), 5, 600);
        assert_eq!(report.counters["objects"], 20);
        assert_eq!(report.counters["octets"], 60_000);
        close(report.metrics["complete"], 1.0);
        close(report.metrics["wrong"], 0.0);
        assert_eq!(report.counters["failed_connections"], 0);
        let time_s = report.metrics["time_s"];
        let bound_s = if loss > 0.0 { 60.0 } else { 3.5 };
        assert!((1.875..bound_s).contains(&time_s), "{time_s}");
        let objects = &pair.hosts[0]
            .logs()
            .next()
            .unwrap()
            .transfer
            .as_ref()
            .unwrap()
            .objects;
        assert_eq!(objects[0].index, 0, "the root comes first");
        // Six connections: 6 handshakes, and nothing is left open in the end.
        assert!(
            pair.hosts
                .iter()
                .all(|host| strait_core::Node::wake(host).is_none())
        );
    }
}

#[test]
fn what_a_lost_connection_fetched_is_fetched_by_one_that_idles() {
    // Found by the swarm: there was no new one then, and nothing was asked of the idle one.
    let pipe = Pipe::new(256_000, Duration::from_millis(20), 0.0);
    let config = config("page", "objects = 3\noctets = \"280 kB\"\nconnections = 2");
    let [mut pair, mut other] = [1, 2].map(|seed| Pair::new(pipe, seed));
    start(&mut pair, &config, 0, 1);
    start(&mut other, &config, 0, 2);
    let done = |pair: &Pair| result(pair, &config).counters["objects"];
    for step in 0..1000 {
        if done(&pair) < 2 {
            pair.run(Instant::from_millis(10 * step));
        }
    }
    // All is acknowledged that came by the one that idles now.
    pair.run(pair.now + Duration::from_millis(500));
    // The server begins anew: it knows no connection, and says so of the one that is in use.
    core::mem::swap(&mut pair.hosts[1], &mut other.hosts[1]);
    pair.run(Instant::from_secs(100));
    assert_eq!(done(&pair), 3);
    assert_eq!(result(&pair, &config).counters["failed_connections"], 2);
}

#[test]
fn everything_at_once_is_the_same_for_the_same_seed() {
    let run = |seed| {
        let mut pair = Pair::new(Pipe::new(64_000, Duration::from_millis(30), 0.02), seed);
        let mut all = [
            config("voice", "both_ways = true\nstop = \"20 s\""),
            config("ping", "stop = \"20 s\""),
            config("tcp", "octets = \"50 kB\""),
            config("page", "family = 4"),
            config(
                "udp",
                "rate = \"2 kbit/s\"\npoisson = true\nstop = \"20 s\"",
            ),
        ];
        for (index, config) in all.iter_mut().enumerate() {
            config
                .change(|keys| keys.name = format!("t{index}"))
                .unwrap();
            start(&mut pair, config, index as u16, seed);
        }
        pair.run(Instant::from_secs(120));
        let logs: Vec<FlowLog> = pair
            .hosts
            .iter()
            .flat_map(|host| host.logs().cloned())
            .collect();
        let reports: Vec<FlowReport> = all.iter().map(|config| result(&pair, config)).collect();
        (pair.hash(), logs, reports)
    };
    let first = run(11);
    assert_eq!(first, run(11));
    assert_ne!(first.0, run(12).0);
    for report in &first.2 {
        assert!(
            report
                .metrics
                .get("complete")
                .is_none_or(|complete| *complete == 1.0)
        );
    }
    // Logs go to files and come back.
    let text = serde_json::to_string(&first.1).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<FlowLog>>(&text).unwrap(),
        first.1
    );
}

#[test]
fn a_port_is_given_once() {
    let mut pair = Pair::new(SLOW, 1);
    let voice = config("voice", "");
    start(&mut pair, &voice, 0, 1);
    let [from, to] = &mut pair.hosts;
    let (near, far) = (
        from.address(Family::V6).unwrap(),
        to.address(Family::V6).unwrap(),
    );
    let error = install(&voice, from, to, near, far, Ports::nth(0), 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "traffic `x`: port 40000 of host `ha` is in use"
    );
}
