//! Scenarios that once showed a bug. Each says in its file what was wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strait_core::units::Time;
use strait_core::{Duration, Instant};
use strait_scenario::{DiskFiles, Loaded, Scenario, World};
use strait_sim::{Options, build, check, run_once, run_scenario};
use strait_wire::ip::{PacketInfo, TcpFlags, protocol, tcp_header};
use strait_wire::pcapng::{Block, Reader};

fn load(name: &str) -> Loaded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    match Scenario::load(&folder.join(name)) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    }
}

/// Runs it, and asserts that the books are right and that everything is as expected.
fn holds(name: &str) {
    let loaded = load(name);
    let scenario = &loaded.scenario;
    for seed in scenario.seed..scenario.seed + scenario.runs {
        let mut built = build(&loaded, Scenario::BASE, seed).unwrap();
        let world = built.world_mut();
        world.keep_fates();
        world.set_check_every(1);
        let end_ns = scenario.duration.0.as_nanos() as u64;
        for part in 1..=4 {
            world.run_until(Instant::from_nanos(end_ns / 4 * part));
            assert_eq!(check::violations(world), [""; 0], "{name}, seed {seed}");
        }
    }
    expects(name, &loaded);
}

/// Runs it, and asserts that everything is as expected.
fn expects(name: &str, loaded: &Loaded) {
    let scenario = &loaded.scenario;
    let outcome = run_scenario(loaded, &Options::default(), |_, _| ()).unwrap();
    for expected in &scenario.expectations {
        let values: Vec<f64> = outcome
            .of(&expected.variant)
            .filter_map(|run| expected.value(&run.metrics))
            .collect();
        let told = !values.is_empty() || !expected.applies_in(World::Sim);
        assert!(told, "{name}: {} is nothing", expected.id);
        for value in values {
            let low = expected.min.is_none_or(|min| value >= min);
            let high = expected.max.is_none_or(|max| value <= max);
            assert!(low && high, "{name}: {} is {value}", expected.id);
        }
    }
}

#[test]
fn media_of_one_port_round_alike() {
    holds("regressions/shared-port-rounding.toml");
}

#[test]
fn a_neighbour_without_a_link_gets_nothing_and_nobody_else_gets_it() {
    holds("regressions/neighbour-without-link.toml");
}

#[test]
fn a_packet_under_way_is_not_taken_for_one_the_other_way() {
    holds("regressions/same-packet-both-ways.toml");
}

#[test]
fn a_frame_whose_flag_is_lost_ends_with_the_next() {
    holds("regressions/lost-flag.toml");
}

#[test]
fn an_echo_waits_for_the_end_of_the_other_sides_turn() {
    holds("regressions/echoes-beside-turns.toml");
}

#[test]
fn what_waits_from_before_a_flow_was_taken_for_a_call_comes_too() {
    holds("regressions/call-taken-for-one-late.toml");
}

#[test]
fn a_repaired_packet_of_a_call_is_what_was_sent() {
    holds("regressions/call-repaired-behind-others.toml");
}

#[test]
fn datagrams_wait_for_one_packet_of_each_upload() {
    holds("regressions/datagrams-beside-uploads.toml");
}

#[test]
fn what_is_repeated_while_it_waits_goes() {
    holds("regressions/files-of-a-minute.toml");
}

#[test]
fn a_slow_line_keeps_what_its_queue_holds() {
    holds("regressions/file-at-600-baud.toml");
}

#[test]
fn a_call_is_late_but_not_lost_where_nothing_interrupts_a_packet() {
    holds("regressions/call-beside-whole-packets.toml");
}

#[test]
fn packets_are_cut_to_what_the_link_takes() {
    holds("regressions/frames-shorter-than-the-port.toml");
}

#[test]
fn a_capture_has_the_first_packet() {
    let name = "regressions/captured-from-the-start.toml";
    holds("regressions/captured-from-the-start.toml");
    let run = run_once(&load(name), Scenario::BASE, 1, true).unwrap();
    let sent = run.captures.iter().map(|(file, octets)| {
        let blocks = Reader::new(octets).map(|block| block.unwrap());
        let packets = blocks.filter(|block| matches!(block, Block::Packet(_)));
        (file.as_str(), packets.count())
    });
    let sent: Vec<_> = sent.collect();
    let expected = [("h1.pcapng", 2), ("h2.pcapng", 2), ("r.pcapng", 4)];
    assert_eq!(sent, expected);
}

#[test]
fn every_regression_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/regressions");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let text = include_str!("regressions.rs");
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap();
        assert!(
            text.contains(&format!("holds(\"regressions/{name}\")")),
            "{name} isn't run"
        );
    }
}

/// No bug of old: the books of links that repeat what is lost, with a relay that is killed.
#[test]
fn a_chain_of_reliable_hops_keeps_its_books() {
    holds("hbh-chain.toml");
}

#[test]
fn a_file_over_long_fat_hops_waits_for_no_round_trip() {
    holds("regressions/file-over-long-fat-hops.toml");
}

#[test]
fn a_call_over_slow_hops_may_wait_for_a_packet_at_each() {
    holds("regressions/call-over-slow-hops.toml");
}

/// The first packet of a call that goes before others may overtake the last that went behind them,
/// which is late then: a frame that came cleanly, and wasn't taken.
#[test]
fn calls_by_push_to_talk_fit_by_what_they_use() {
    let name = "studies/push-to-talk.toml";
    expects(name, &load(name));
}

#[test]
fn a_call_that_is_repeated_late_comes() {
    holds("regressions/call-repeated-late.toml");
}

#[test]
fn hops_go_on_after_a_minute() {
    holds("regressions/hops-after-a-minute.toml");
}

#[test]
fn names_cross_once_however_slow_the_link_is() {
    holds("dns/crossings.toml");
    holds("dns/hf-300.toml");
    holds("dns/hf-75.toml");
}

#[test]
fn mail_goes_by_precedence_and_outlives_a_link_and_a_switch() {
    holds("mail/flash.toml");
    holds("mail/flash-512k.toml");
    holds("mail/polled.toml");
    holds("mail/cut.toml");
    holds("mail/hops.toml");
    holds("mail/mailboxes.toml");
}

#[test]
fn mail_by_a_session_is_as_fast_as_by_connections_of_its_own() {
    holds("mail/proxied.toml");
    holds("mail/proxied-hf.toml");
}

/// The same with one connection at a time, which each message of a precedence waits for.
#[test]
fn further_connections_to_a_server_that_takes_its_time_save_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = folder.join("mail/mailboxes.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let time_s = |text: &str| {
        let mut loaded = Scenario::load_text(&DiskFiles, &file, text).unwrap();
        loaded.scenario.duration = Time(Duration::from_secs(60));
        let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
        let flow = run.flows.iter().find(|it| it.name == "routine-8").unwrap();
        flow.metrics["time_s"]
    };
    let (two, one) = (
        time_s(&text),
        time_s(&text.replace("connections = 2\n", "")),
    );
    assert!(
        one > 20.0 && two < 0.65 * one,
        "{two} s with two, {one} s with one"
    );
}

/// Where the far end hasn't heard of a connection's end, the next one between the same ends would
/// be taken for it.
#[test]
fn a_kernel_has_another_port_for_each_connection() {
    let run = run_once(&load("mail/cut.toml"), Scenario::BASE, 1, true).unwrap();
    let mut begun = BTreeMap::new();
    let kernels = run.captures.iter().filter(|it| it.0.contains("kernel"));
    for (file, octets) in kernels {
        for block in Reader::new(octets).map(|block| block.unwrap()) {
            let Block::Packet(packet) = block else {
                continue;
            };
            let Some(header) = tcp_header(packet.bytes) else {
                continue;
            };
            let opens = header.flags.contains(TcpFlags::SYN);
            if !opens || header.flags.contains(TcpFlags::ACK) {
                continue;
            }
            let info = PacketInfo::parse(packet.bytes).unwrap();
            let ends = (file, info.src, info.ports);
            let first = *begun.entry(ends).or_insert(header.seq);
            assert_eq!(first, header.seq, "{ends:?} for two connections");
        }
    }
    assert!(begun.len() > 12, "{begun:?}");
}

/// From the first SYN on, in both directions: what a lane's port is, is its code point.
#[test]
fn each_lane_of_mail_has_its_code_point() {
    let run = run_once(&load("mail/flash.toml"), Scenario::BASE, 1, true).unwrap();
    let lanes = [(5000, 0), (5001, 18), (5002, 16), (5003, 24), (5004, 32)];
    let mut seen = BTreeMap::new();
    let all = run
        .captures
        .iter()
        .filter(|(file, _)| file.contains("kernel"));
    for (_, octets) in all {
        for block in Reader::new(octets).map(|block| block.unwrap()) {
            let Block::Packet(packet) = block else {
                continue;
            };
            let Ok(info) = PacketInfo::parse(packet.bytes) else {
                continue;
            };
            let Some((from, to)) = info.ports.filter(|_| info.protocol == protocol::TCP) else {
                continue;
            };
            let of = |port: u16| lanes.iter().find(|(lane, _)| *lane == port);
            for (lane, dscp) in of(from).into_iter().chain(of(to)) {
                assert_eq!(info.dscp, *dscp, "lane {lane}");
                *seen.entry((*lane, *lane == from)).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(seen.len(), 2 * lanes.len(), "{seen:?}");
}

#[test]
fn names_in_use_cost_nothing_for_a_day() {
    holds("lab/dns-use.toml");
    holds("dns/day.toml");
}

#[test]
fn names_outlive_an_hour_without_the_link() {
    holds("dns/hour-cut.toml");
    holds("dns/told.toml");
    holds("dns/web-240k.toml");
    holds("lab/dns-cut.toml");
    holds("lab/ahead.toml");
}

#[test]
fn what_comes_by_a_switch_has_the_class_of_the_gateway() {
    let outcome = run_scenario(&load("lab/dns.toml"), &Options::default(), |_, _| ()).unwrap();
    let plain = outcome.of("plain").next().unwrap();
    let classes = plain.delays.iter().map(|it| (it.name.as_str(), it.packets));
    assert_eq!(classes.collect::<Vec<_>>(), [("interactive", 48)]);
}
