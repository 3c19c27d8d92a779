//! Small captures with literal figures.

use strait_report::table::{Cell, Table};
use strait_wire::ip::{build_udp, decrement_hop_limit, set_dscp};
use strait_wire::pcapng::{self, linktype};
use strait_wire::rtp::RtpHeader;

use super::*;

const MS: u64 = 1_000_000;

/// UDP between two hosts in the named class, `octets` long, with a number in it.
fn udp(host: u8, dscp: u8, number: u16, octets: usize) -> Vec<u8> {
    let mut payload = vec![0; octets - 28];
    payload[..2].copy_from_slice(&number.to_be_bytes());
    let (src, dst) = ([10, 0, 0, host], [10, 0, 1, host]);
    let mut out = Vec::new();
    let (src, dst) = ((src, 1000).into(), (dst, 2000).into());
    assert!(build_udp(src, dst, dscp, 64, number, 0, &payload, &mut out));
    out
}

/// A packet after some hops, with another code point.
fn remarked(packet: &[u8], hops: usize, dscp: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    (0..hops).for_each(|_| assert!(decrement_hop_limit(&mut packet)));
    set_dscp(&mut packet, dscp);
    packet
}

fn forwarded(packet: &[u8]) -> Vec<u8> {
    let dscp = packet[1] >> 2;
    remarked(packet, 1, dscp)
}

/// A pcapng file of one interface of raw IP packets, each with its time in ms.
fn file(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::section(&mut file, "test");
    pcapng::interface(&mut file, linktype::RAW, 0, "lan");
    for (at_ms, packet) in packets {
        pcapng::packet(&mut file, 0, at_ms * MS, packet, packet.len() as u32, None);
    }
    file
}

fn source(octets: &[u8]) -> Source<&[u8]> {
    Source::new("test", Capture::open(octets).unwrap(), None)
}

fn looked_at(octets: &[u8], settings: &Settings) -> Analysis {
    one(source(octets), settings, &mut || true)
}

fn compared(a: &[(u64, Vec<u8>)], b: &[(u64, Vec<u8>)], settings: &Settings) -> Analysis {
    let (a, b) = (file(a), file(b));
    two(source(&a), source(&b), settings, &mut || true)
}

fn table<'a>(analysis: &'a Analysis, id: &str) -> &'a Table {
    let tables = &analysis.result.tables;
    let found = tables.iter().find(|table| table.id == id);
    found.unwrap_or_else(|| panic!("no `{id}` in {:?}", analysis.result.to_text()))
}

/// A number by the row's label and the column's name.
fn number(table: &Table, row: &str, column: &str) -> Option<f64> {
    let index = table.columns.iter().position(|one| one.name == column)?;
    let labelled = |cells: &&Vec<Cell>| cells[0] == Cell::from(row);
    match table.rows.iter().find(labelled)?.get(index)? {
        Cell::Number(number) => Some((number * 1e9).round() / 1e9),
        _ => None,
    }
}

fn check(analysis: &Analysis, id: &str) -> Option<f64> {
    let checks = &analysis.result.checks;
    checks.iter().find(|check| check.id == id)?.value
}

#[test]
fn packets_octets_rates_and_sizes_by_class() {
    let mut packets: Vec<_> = (0..10)
        .map(|n| (u64::from(n) * 100, udp(1, 46, n, 100)))
        .collect();
    packets.push((2000, udp(1, 0, 99, 1000)));
    let analysis = looked_at(&file(&packets), &Settings::default());
    let rows = table(&analysis, "by dscp");
    let of = |row, column| number(rows, row, column);
    assert_eq!(of("EF", "packets"), Some(10.0));
    assert_eq!(of("EF", "octets"), Some(1000.0));
    assert_eq!(of("EF", "share"), Some(0.5));
    assert_eq!(of("EF", "rate"), Some(4000.0));
    assert_eq!(of("EF", "rate peak"), Some(8000.0));
    assert_eq!(of("EF", "size p95"), Some(100.0));
    assert_eq!(of("DF", "rate peak"), Some(8000.0));
    assert_eq!(of("DF", "size mean"), Some(1000.0));
    assert_eq!(check(&analysis, "whole"), Some(1.0));
    let rate = analysis.series.iter().find(|line| line.name == "EF");
    assert_eq!(rate.unwrap().points, [(0.0, 8000.0)]);
    let fine = Settings {
        interval_ns: 100 * MS,
        ..Settings::default()
    };
    let fine = looked_at(&file(&packets), &fine);
    let peak = number(table(&fine, "by dscp"), "DF", "rate peak");
    assert_eq!(peak, Some(80_000.0));
}

#[test]
fn rows_are_by_flow_pair_or_protocol() {
    let packets: Vec<_> = (0..6).map(|n| (n, udp(n as u8 % 3, 0, 0, 50))).collect();
    for (by, id, rows, first) in [
        (By::Flow, "by flow", 3, "udp 10.0.0.0:1000 > 10.0.1.0:2000"),
        (By::Pair, "by pair", 3, "10.0.0.0 > 10.0.1.0"),
        (By::Protocol, "by protocol", 1, "udp"),
    ] {
        let settings = Settings {
            by,
            ..Settings::default()
        };
        let analysis = looked_at(&file(&packets), &settings);
        let found = table(&analysis, id);
        assert_eq!(found.rows.len(), rows);
        assert_eq!(found.rows[0][0], Cell::from(first));
    }
    let settings = Settings {
        by: By::Flow,
        shown: 1,
        ..Settings::default()
    };
    let analysis = looked_at(&file(&packets), &settings);
    let others = number(table(&analysis, "by flow"), "other (2)", "packets");
    assert_eq!(others, Some(4.0));
}

#[test]
fn calls_are_found_and_judged() {
    let rtp = |sequence: u16, payload_type: u8| {
        let mut payload = Vec::new();
        let header = RtpHeader {
            payload_type,
            sequence,
            timestamp: u32::from(sequence) * 160,
            ssrc: 7,
            ..RtpHeader::default()
        };
        header.emit(&mut payload);
        payload.extend_from_slice(&[0; 20]);
        let mut out = Vec::new();
        let ends = (([10, 0, 0, 1], 5004).into(), ([10, 0, 1, 1], 5004).into());
        assert!(build_udp(ends.0, ends.1, 46, 64, 0, 0, &payload, &mut out));
        out
    };
    for (payload_type, clock_from) in [(0, "payload type"), (96, "estimate"), (97, "option")] {
        let packets = [1, 2, 3, 5, 4, 8, 8].map(|n| (u64::from(n) * 20, rtp(n, payload_type)));
        let settings = Settings {
            clocks: [(97, 8000)].into(),
            ..Settings::default()
        };
        let analysis = looked_at(&file(&packets), &settings);
        let streams = table(&analysis, "rtp");
        let stream = "udp 10.0.0.1:5004 > 10.0.1.1:5004";
        let of = |column| number(streams, stream, column);
        assert_eq!((of("packets"), of("clock")), (Some(7.0), Some(8000.0)));
        assert_eq!(streams.rows[0][5], Cell::from(clock_from));
        assert_eq!((of("lost"), of("loss")), (Some(2.0), Some(0.25)));
        assert_eq!((of("reordered"), of("duplicates")), (Some(1.0), Some(1.0)));
        assert_eq!(of("jitter max"), Some(0.0));
    }
    // A name query is no call, and neither are two packets.
    let few = [(0, rtp(1, 0)), (20, rtp(2, 0)), (40, udp(1, 0, 1, 60))];
    let analysis = looked_at(&file(&few), &Settings::default());
    assert!(analysis.result.tables.iter().all(|table| table.id != "rtp"));
}

#[test]
fn delay_loss_order_copies_and_remarking_between_two_places() {
    let sent: Vec<_> = (0..8)
        .map(|n| (u64::from(n) * 10, udp(1, 46, n, 100)))
        .collect();
    let arrived = |n: usize, delay_ms| (n as u64 * 10 + delay_ms, forwarded(&sent[n].1));
    // 0 … 7 but 3; 5 comes after 6, remarked; 1 comes twice.
    let mut late = arrived(5, 25);
    late.1 = remarked(&sent[5].1, 1, 0);
    let received = [
        arrived(0, 5),
        arrived(1, 6),
        (19, forwarded(&sent[1].1)),
        arrived(2, 5),
        arrived(4, 5),
        arrived(6, 5),
        late,
        arrived(7, 8),
    ];
    let analysis = compared(&sent, &received, &Settings::default());
    let losses = table(&analysis, "A to B by dscp: loss and order");
    let of = |column| number(losses, "EF", column);
    assert_eq!((of("sent"), of("arrived")), (Some(8.0), Some(7.0)));
    assert_eq!((of("lost"), of("loss")), (Some(1.0), Some(0.125)));
    assert_eq!((of("duplicates"), of("reordered")), (Some(1.0), Some(1.0)));
    assert_eq!((of("remarked"), of("unsent")), (Some(1.0), Some(0.0)));
    let delays = table(&analysis, "A to B by dscp: delay");
    let of = |column| number(delays, "EF", column);
    assert_eq!((of("min"), of("max")), (Some(0.005), Some(0.025)));
    // Delays 5, 6, 5, 5, 5, 25, 8 ms.
    assert_eq!(of("mean"), Some(0.008_428_571));
    assert!((of("p50").unwrap() / 0.005 - 1.0).abs() < 0.002);
    assert_eq!(of("jitter mean"), Some(0.006_5));
    assert!((of("jitter p99").unwrap() / 0.02 - 1.0).abs() < 0.002);
    let matrix = table(&analysis, "A to B: code points");
    assert_eq!(number(matrix, "EF", "EF at B"), Some(6.0));
    assert_eq!(number(matrix, "EF", "DF at B"), Some(1.0));
    assert!(!analysis.result.has_failed());
    let arrived = &analysis.series[1];
    assert_eq!(arrived.points, [(0.0, 7.0 * 800.0)]);
    let curve = &analysis.curves[0];
    assert_eq!(curve.points.last(), Some(&(0.025, 1.0)));
}

#[test]
fn hop_limits_tell_the_direction_whatever_the_clocks_say() {
    // B's clock is 100 ms behind. From A to B it takes 10 ms, back 30 ms.
    let (forth, back) = (udp(1, 46, 1, 60), udp(2, 0, 2, 60));
    let a = [(1000, forth.clone()), (1130, forwarded(&back))];
    let b = [(910, forwarded(&forth)), (1000, back)];
    let analysis = compared(&a, &b, &Settings::default());
    let forth_min =
        |analysis: &Analysis| number(table(analysis, "A to B by dscp: delay"), "EF", "min");
    assert_eq!(forth_min(&analysis), Some(-0.09));
    assert_eq!(check(&analysis, "delays-below-zero"), Some(1.0));
    assert!(analysis.notes.iter().any(|note| note.contains("--offset")));
    let clocks = table(&analysis, "clocks");
    let estimate = "estimate, if the fastest packets took equally long both ways";
    assert_eq!(number(clocks, estimate, "B ahead of A"), Some(-0.11));
    let settings = Settings {
        offset_ns: -100 * MS as i64,
        ..Settings::default()
    };
    let analysis = compared(&a, &b, &settings);
    assert_eq!(forth_min(&analysis), Some(0.01));
    let back = number(table(&analysis, "B to A by dscp: delay"), "DF", "min");
    assert_eq!(back, Some(0.03));
    let clocks = table(&analysis, "clocks");
    assert_eq!(number(clocks, estimate, "B ahead of A"), Some(-0.11));
    assert!(!analysis.result.has_failed());
}

#[test]
fn a_bridge_leaves_hop_limits_so_time_or_the_user_tells() {
    let packet = udp(1, 46, 1, 60);
    let (a, b) = ([(10, packet.clone())], [(5, packet)]);
    let analysis = compared(&a, &b, &Settings::default());
    let delay = number(table(&analysis, "B to A by dscp: delay"), "EF", "min");
    assert_eq!(delay, Some(0.005));
    let settings = Settings {
        a_side: vec!["10.0.0.0/24".parse().unwrap()],
        ..Settings::default()
    };
    let analysis = compared(&a, &b, &settings);
    let delay = number(table(&analysis, "A to B by dscp: delay"), "EF", "min");
    assert_eq!(delay, Some(-0.005));
}

#[test]
fn what_the_other_capture_could_not_see_is_not_lost() {
    let sent: Vec<_> = (0..10)
        .map(|n| (u64::from(n) * 10, udp(1, 0, n, 60)))
        .collect();
    // B ran from 25 to 75 ms; a delay is 15 ms. The packets sent at 10 … 60 ms arrive.
    let received: Vec<_> = sent[1..7]
        .iter()
        .map(|(at, packet)| (at + 15, forwarded(packet)))
        .collect();
    let analysis = compared(&sent, &received, &Settings::default());
    let losses = table(&analysis, "A to B by dscp: loss and order");
    let of = |column| number(losses, "DF", column);
    assert_eq!((of("lost"), of("not judged")), (Some(0.0), Some(4.0)));
    // Had B run on until 105 ms, three would be lost.
    let mut longer = received;
    longer.push((105, udp(9, 0, 0, 60)));
    let analysis = compared(&sent, &longer, &Settings::default());
    let losses = table(&analysis, "A to B by dscp: loss and order");
    let of = |column| number(losses, "DF", column);
    assert_eq!((of("lost"), of("not judged")), (Some(3.0), Some(1.0)));
    let alone = table(&analysis, "not compared");
    let never = number(alone, "of addresses never seen at the other", "at B");
    assert_eq!(never, Some(1.0));
}

#[test]
fn a_packet_later_than_the_window_is_lost() {
    let (first, second) = (udp(1, 0, 1, 60), udp(1, 0, 2, 60));
    let settings = Settings {
        window_ns: 100 * MS as i64,
        ..Settings::default()
    };
    for (delay_ms, lost) in [(100, 0.0), (101, 1.0)] {
        let sent = [(1000, first.clone()), (2000, second.clone())];
        let received = [
            (900, udp(3, 0, 0, 60)),
            (1000 + delay_ms, forwarded(&first)),
            (2001, forwarded(&second)),
        ];
        let analysis = compared(&sent, &received, &settings);
        let losses = table(&analysis, "A to B by dscp: loss and order");
        assert_eq!(number(losses, "DF", "lost"), Some(lost), "{delay_ms}");
    }
}

#[test]
fn the_number_that_wait_is_limited_and_counted() {
    let sent: Vec<_> = (0..20).map(|n| (u64::from(n), udp(1, 0, n, 60))).collect();
    let received: Vec<_> = sent
        .iter()
        .map(|(at, packet)| (at + 50, forwarded(packet)))
        .collect();
    let settings = Settings {
        pending_max: 10,
        ..Settings::default()
    };
    let analysis = compared(&sent, &received, &settings);
    // Ten of A had no room, and then their counterparts found nothing.
    assert_eq!(check(&analysis, "packets-without-room"), Some(10.0));
    assert!(analysis.result.has_failed());
}

#[test]
fn packets_cut_short_are_matched_by_fewer_octets() {
    let packet = udp(1, 0, 1, 500);
    let mut cut = Vec::new();
    pcapng::section(&mut cut, "test");
    pcapng::interface(&mut cut, linktype::RAW, 64, "lan");
    pcapng::packet(&mut cut, 0, 20 * MS, &forwarded(&packet)[..64], 500, None);
    let whole = file(&[(10, packet)]);
    let run = |mark_octets| {
        let settings = Settings {
            mark_octets,
            ..Settings::default()
        };
        two(source(&whole), source(&cut), &settings, &mut || true)
    };
    let analysis = run(256);
    assert_eq!(check(&analysis, "packets-too-short-to-match"), Some(1.0));
    assert!(
        analysis
            .notes
            .iter()
            .any(|note| note.contains("--match-octets"))
    );
    let analysis = run(64);
    let delays = table(&analysis, "A to B by dscp: delay");
    assert_eq!(number(delays, "DF", "min"), Some(0.01));
    // Sizes are those that the packet had.
    let analysis = looked_at(&cut, &Settings::default());
    assert_eq!(
        number(table(&analysis, "by dscp"), "DF", "octets"),
        Some(500.0)
    );
}

#[test]
fn interfaces_are_chosen_and_other_frames_counted() {
    let mut file = Vec::new();
    pcapng::section(&mut file, "test");
    pcapng::interface(&mut file, linktype::USER0, 0, "line");
    pcapng::interface(&mut file, linktype::RAW, 0, "lan");
    let packet = udp(1, 0, 1, 60);
    for interface in [0, 1, 1] {
        pcapng::packet(&mut file, interface, MS, &packet, 60, None);
    }
    pcapng::packet(&mut file, 1, MS, &[0x45; 19], 19, None);
    let captures = |interface: Option<&str>| {
        let capture = Capture::open(&file[..]).unwrap();
        let source = Source::new("x", capture, interface.map(Into::into));
        let analysis = one(source, &Settings::default(), &mut || true);
        let captures = table(&analysis, "captures");
        ["frames", "IP packets", "unknown link type", "unreadable"]
            .map(|column| number(captures, "x", column).unwrap())
    };
    assert_eq!(captures(None), [4.0, 2.0, 1.0, 1.0]);
    assert_eq!(captures(Some("lan")), [3.0, 2.0, 0.0, 1.0]);
    assert_eq!(captures(Some("0")), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(captures(Some("no")), [0.0; 4]);
}

#[test]
fn a_file_that_breaks_off_counts_until_there() {
    let packets: Vec<_> = (0..3).map(|n| (n, udp(1, 0, n as u16, 60))).collect();
    let file = file(&packets);
    let analysis = looked_at(&file[..file.len() - 1], &Settings::default());
    assert_eq!(check(&analysis, "whole"), Some(0.0));
    assert_eq!(
        number(table(&analysis, "by dscp"), "DF", "packets"),
        Some(2.0)
    );
    let captures = table(&analysis, "captures");
    assert_eq!(
        captures.rows[0].last(),
        Some(&Cell::from("it ends within a packet"))
    );
    let mut wrong = file;
    wrong.extend_from_slice(&[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0]);
    let analysis = looked_at(&wrong, &Settings::default());
    assert_eq!(check(&analysis, "whole"), Some(0.0));
    assert_eq!(
        number(table(&analysis, "by dscp"), "DF", "packets"),
        Some(3.0)
    );
}

#[test]
fn who_asks_for_an_end_gets_what_was_read() {
    let made = Synthetic::new(1, 20_000, 1500, 0);
    let source = Source::new("made", Capture::open(made).unwrap(), None);
    let mut left = 2;
    let mut go_on = || {
        left -= 1;
        left > 0
    };
    let analysis = one(source, &Settings::default(), &mut go_on);
    assert_eq!(check(&analysis, "whole"), Some(0.0));
    let captures = table(&analysis, "captures");
    assert_eq!(number(captures, "made", "IP packets"), Some(8192.0));
    assert!(analysis.notes[0].contains("Stopped early"));
}

#[test]
fn what_is_no_capture_is_refused() {
    for octets in [&b""[..], b"PK\x03\x04 and so on, and so on", &[0; 24]] {
        assert!(matches!(
            Capture::open(octets),
            Err(CaptureError::NoCapture)
        ));
    }
    let old = [&[0xd4, 0xc3, 0xb2, 0xa1, 1, 0][..], &[0; 18]].concat();
    assert!(matches!(
        Capture::open(&old[..]),
        Err(CaptureError::Pcap(_))
    ));
}

#[test]
fn a_made_up_capture_is_what_it_says() {
    let source = |delay_ns| {
        let made = Synthetic::new(1, 5000, 600, delay_ns);
        Source::new("made", Capture::open(made).unwrap(), None)
    };
    let mut octets = Vec::new();
    let mut made = Synthetic::new(1, 5000, 600, 0);
    made.read_to_end(&mut octets).unwrap();
    assert_eq!(bare_walk(&octets).0, 5000);
    let analysis = one(source(0), &Settings::default(), &mut || true);
    assert!(!analysis.result.has_failed());
    let streams = table(&analysis, "rtp");
    assert_eq!(streams.rows.len(), 40);
    assert!(streams.rows.iter().all(|row| row[7] == Cell::Number(0.0)));
    let settings = Settings::default();
    let analysis = two(source(0), source(3 * MS), &settings, &mut || true);
    let delays = table(&analysis, "A to B by dscp: delay");
    assert_eq!(delays.rows.len(), 5);
    assert_eq!(number(delays, "EF", "max"), Some(0.003));
    assert!(!analysis.result.has_failed());
}

proptest::proptest! {
    #[test]
    fn any_octets_are_read_to_an_end(
        octets: Vec<u8>, pcapng: bool, packets in proptest::collection::vec(0..9_u64, 0..20),
    ) {
        let mut bytes = if pcapng {
            let packets: Vec<_> = packets.iter().map(|n| (*n, udp(1, 0, *n as u16, 60))).collect();
            file(&packets)
        } else {
            let mut made = Vec::new();
            Synthetic::new(1, packets.len() as u64, 300, 0).read_to_end(&mut made).unwrap();
            made
        };
        bytes.extend_from_slice(&octets);
        let settings = Settings { pending_max: 4, ..Settings::default() };
        let analysis = looked_at(&bytes, &settings);
        let found = number(table(&analysis, "captures"), "test", "IP packets");
        proptest::prop_assert!(found >= Some(packets.len() as f64));
        two(source(&bytes), source(&bytes), &settings, &mut || true);
    }
}
