use alloc::collections::BTreeMap;
use alloc::vec;

use strait_core::delay::DelayPart;
use strait_core::fate::DropCause;
use strait_core::rate::LineRate;
use strait_core::stats::{
    ClassStats, DnsStats, EchoStats, HfCounts, HfLink, HfPeer, HfStats, LedStats, MailStats,
    NeighbourStats, OlsrStats, PortStats, ProxyRefusal, ProxyStats, Stats,
};
use strait_core::stream_ledger::ResetCause;
use strait_core::time::Instant;
use strait_core::tls::TlsFault;

use crate::*;

fn stats() -> Stats {
    let mut stats = Stats {
        admitted: 7,
        ..Stats::default()
    };
    stats.dropped.count(DropCause::HopLimit);
    stats
        .local
        .count_chatter(strait_wire::ip::Chatter::Mdns, 80);
    let mut class = ClassStats {
        name: "voice".into(),
        packets: 3,
        queued_octets: 99,
        ..ClassStats::default()
    };
    class.parts.add(DelayPart::Line, 1_500_000_001);
    class.dropped.count(DropCause::Aged);
    stats.classes.push(class);
    stats.ports.push(PortStats {
        name: "line \"1\"".into(),
        up: true,
        tx_rate: Some(LineRate::new(9600, 10)),
        neighbours: vec![NeighbourStats {
            name: "c".into(),
            tx_rate: Some(LineRate::new(2400, 8)),
            octets_out: 77,
            heard: None,
        }],
        strangers: 2,
        busy_ns: 250_000_000,
        hf: HfStats {
            counts: HfCounts {
                turns: 5,
                ..HfCounts::default()
            },
            peers: vec![HfPeer {
                name: "b".into(),
                group: false,
                link: HfLink {
                    lost: 0.25,
                    sent_ns: 2_500_000_000,
                    ..HfLink::default()
                },
            }],
            ..HfStats::default()
        },
        ..PortStats::default()
    });
    stats.ports[0].client.accesses.push(Default::default());
    stats.ports[0].hop.repeated = 4;
    let mut echo = EchoStats::default();
    (echo.streams.opened, echo.streams.taken) = (2, 9);
    echo.streams.reset(ResetCause::Peer, 5);
    echo.refused = 3;
    echo.tls.fail(TlsFault::Expired);
    stats.echo = Some(echo);
    let mut proxy = ProxyStats::default();
    proxy.partners_known = 1;
    proxy.refuse(ProxyRefusal::NotAllowed);
    (proxy.sessions.repaired, proxy.sessions.streams.opened) = (6, 4);
    stats.proxy = Some(proxy);
    stats.dns = Some(DnsStats {
        asked: 7,
        known: 5,
        ..DnsStats::default()
    });
    stats.mail = Some(MailStats {
        accepted: 9,
        waiting: [0, 1, 0, 0, 2, 0],
        ..MailStats::default()
    });
    stats.olsr = Some(OlsrStats {
        neighbours: 4,
        forwarded: 6,
        ..OlsrStats::default()
    });
    stats.led = Some(LedStats {
        wanted: 3,
        there: 2,
        withdrawals: 5,
        refusals: 1,
    });
    stats
}

fn snapshot() -> Snapshot {
    Snapshot::new("a", Instant::from_secs(60), &stats(), &[])
}

#[test]
fn every_counter_has_its_line() {
    let text = metrics(&snapshot());
    for line in [
        "strait_admitted_packets_total 7",
        "strait_echo_refused_total 3",
        "strait_olsr_neighbours 4",
        "strait_olsr_forwarded_total 6",
        "strait_led_prefixes 3",
        "strait_led_prefixes_there 2",
        "strait_led_withdrawals_total 5",
        "strait_led_refusals_total 1",
        "strait_echo_tls_failed_total{fault=\"certificate-expired\"} 1",
        "strait_dropped_packets_total{cause=\"hop-limit\"} 1",
        "strait_class_dropped_packets_total{class=\"voice\",cause=\"aged\"} 1",
        "strait_kept_off_octets_total{what=\"chatter\",kind=\"mdns\"} 80",
        "strait_stored_replies_total{event=\"stored\"} 0",
        "strait_class_packets_total{class=\"voice\"} 3",
        "strait_class_queued_octets{class=\"voice\"} 99",
        "strait_class_policed_packets_total{class=\"voice\",colour=\"red\"} 0",
        "strait_class_delay_seconds_total{class=\"voice\",part=\"line\"} 1.500000001",
        "strait_port_strangers_total{port=\"line \\\"1\\\"\"} 2",
        "strait_port_up{port=\"line \\\"1\\\"\"} 1",
        "strait_port_neighbour_bit_rate{port=\"line \\\"1\\\"\",neighbour=\"c\"} 2400",
        "strait_port_neighbour_octets_out_total{port=\"line \\\"1\\\"\",neighbour=\"c\"} 77",
        "strait_port_busy_seconds_total{port=\"line \\\"1\\\"\"} 0.25",
        "strait_port_hop_repeated_total{port=\"line \\\"1\\\"\"} 4",
        "strait_port_urgent_frames_out_total{port=\"line \\\"1\\\"\"} 0",
        "strait_hf_turns_total{port=\"line \\\"1\\\"\"} 5",
        "strait_hf_air_sent_seconds_total{port=\"line \\\"1\\\"\",neighbour=\"b\"} 2.5",
        "strait_hf_lost_per_million{port=\"line \\\"1\\\"\",neighbour=\"b\"} 250000",
        "strait_hf_queued{port=\"line \\\"1\\\"\",priority=\"15\"} 0",
        "strait_hf_access_bound{port=\"line \\\"1\\\"\",sap=\"0\"} 0",
        "strait_proxy_partners_known 1",
        "strait_mail_accepted_total 9",
        "strait_mail_flash_here 2",
        "strait_dns_asked_total 7",
        "strait_dns_known 5",
        "strait_proxy_repaired_total 6",
        "strait_proxy_refused_total{cause=\"not-allowed\"} 1",
        "strait_streams_open{owner=\"proxy\"} 4",
        "strait_streams_open{owner=\"echo\"} 1",
        "strait_streams_reset_total{owner=\"echo\",cause=\"peer\"} 1",
        "strait_streams_lost_octets_total{owner=\"echo\"} 5",
        "strait_streams_held_octets{owner=\"echo\"} 4",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

/// OpenMetrics 1.0: a family stands once, in one piece, and its samples carry its name.
#[test]
fn families_are_whole() {
    let text = metrics(&snapshot());
    let mut kinds = BTreeMap::new();
    let mut name = "";
    for line in text.lines().filter(|line| *line != "# EOF") {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "HELP", of, ..] => name = of,
            ["#", "TYPE", of, kind] => {
                assert_eq!(of, name);
                assert_eq!(kinds.insert(of, kind), None, "{of} stands twice");
            }
            ["#", ..] => assert_eq!(words[..], ["#", "UNIT", name, "seconds"]),
            _ => {
                let suffix = if kinds[name] == "counter" {
                    "_total"
                } else {
                    ""
                };
                let rest = line
                    .strip_prefix(name)
                    .and_then(|it| it.strip_prefix(suffix));
                assert!(rest.is_some_and(|it| it.starts_with(['{', ' '])), "{line}");
            }
        }
    }
    assert!(kinds.len() > 100, "{}", kinds.len());
}

#[test]
fn a_snapshot_is_read_back_as_it_was_written() {
    let snapshot = snapshot();
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
}

#[test]
fn that_of_another_version_is_read_as_far_as_it_is_known() {
    let text = r#"{"node": "a", "to_come": 1, "ports": [{"name": "line", "frames_in": 3}]}"#;
    let read: Snapshot = serde_json::from_str(text).unwrap();
    assert_eq!((read.node.as_str(), read.ports[0].frames_in), ("a", 3));
    assert_eq!(read.ports[0].hop, None);
}

/// A counter that nobody describes is a field of JSON that is no part, no text and not listed.
fn undescribed<T: Described + Default + Serialize>(expected: &[&str]) {
    let all = serde_json::to_value(T::default()).unwrap();
    let numbers = all.as_object().unwrap().iter();
    let numbers = numbers.filter(|(_, value)| value.is_number() || value.is_boolean());
    let known = |name: &str| T::COUNTERS.iter().any(|counter| counter.name == name);
    let missing = numbers
        .map(|(name, _)| name.as_str())
        .filter(|name| !known(name));
    let missing: Vec<&str> = missing.collect();
    assert_eq!(missing, expected);
}

#[test]
fn each_counter_is_described() {
    undescribed::<Packets>(&[]);
    undescribed::<Tap>(&[]);
    undescribed::<Streams>(&[]);
    undescribed::<Echo>(&[]);
    undescribed::<Proxy>(&[]);
    undescribed::<Dns>(&[]);
    undescribed::<Volume>(&[]);
    undescribed::<Local>(&[]);
    undescribed::<Class>(&["delay_s"]);
    undescribed::<Port>(&["use"]);
    undescribed::<PortFlows>(&[]);
    undescribed::<Urgent>(&[]);
    undescribed::<Hop>(&[]);
    undescribed::<Station>(&[]);
    undescribed::<Clients>(&[]);
    undescribed::<Link>(&["group", "long"]);
    undescribed::<Rate>(&[]);
    undescribed::<Access>(&["sap"]);
}

#[test]
fn the_host_side_has_no_rate() {
    let mut stats = stats();
    stats.ports.push(stats.ports[0].clone());
    let snapshot = Snapshot::new("a", Instant::from_secs(60), &stats, &[]);
    let rates: Vec<_> = snapshot.ports.iter().map(|port| port.rate_bit_s).collect();
    assert_eq!(rates, [None, Some(9600)]);
}
