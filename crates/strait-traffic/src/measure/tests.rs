//! Both ends together, without sockets; octets that come from nowhere good.

use proptest::prelude::*;
use strait_core::Instant;

use super::*;

const MS: u64 = 1_000_000;
const CLOCK: u64 = 7;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

fn campaign(octets: u32, direction: Direction) -> Campaign {
    Campaign {
        sizes: vec![octets],
        directions: vec![direction],
        runs: 1,
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(60),
        dscp: 0,
        congestion: String::new(),
        seed: 1,
    }
}

fn plan(octets: u32, direction: Direction) -> Plan {
    campaign(octets, direction).plans().remove(0)
}

fn facts(name: &str) -> Facts {
    Facts {
        congestion: name.into(),
        segments_out: 3,
        retransmissions: 1,
        rtt_ns: Some(20 * MS),
    }
}

/// Runs a transfer where each direction carries 1,000 octets every 10 ms, and takes 10 ms. The
/// server's clock is ahead by `ahead_ms`.
fn run(client: Client, server_clock: u64, ahead_ms: u64, octets_max: u32) -> TransferRecord {
    run_with(client, server_clock, ahead_ms, octets_max, |_, _| ())
}

fn run_with(
    mut client: Client,
    server_clock: u64,
    ahead_ms: u64,
    octets_max: u32,
    mut harm: impl FnMut(Direction, &mut Vec<u8>),
) -> TransferRecord {
    let mut server = Server::new(server_clock, octets_max);
    client.connected(at(20));
    for step in 2..10_000 {
        let (now, theirs) = (at(step * 10), at(step * 10 + ahead_ms));
        let (later, theirs_later) = (at(step * 10 + 10), at(step * 10 + 10 + ahead_ms));
        let mut up: Vec<u8> = client.pending().iter().copied().take(1000).collect();
        client.take(now, up.len());
        let mut down: Vec<u8> = server.pending().iter().copied().take(1000).collect();
        server.take(theirs, down.len());
        harm(Direction::Up, &mut up);
        harm(Direction::Down, &mut down);
        server.receive(theirs_later, &up);
        client.receive(later, &down);
        match server.due() {
            Due::Answer => {
                server.answer(theirs_later, Verdict::Admitted);
            }
            Due::Report => server.report(facts("far")),
            Due::Close => client.fail(later, Failure::Closed),
            Due::Nothing => {}
        }
        if client.is_ended() {
            return client.record(facts("near"));
        }
    }
    panic!("it doesn't end");
}

fn client(octets: u32, direction: Direction) -> Client {
    Client::new(plan(octets, direction), CLOCK, at(0))
}

#[test]
fn content_goes_up_and_each_time_is_the_receivers() {
    // 20 octets of request and 5,000 of content take six turns from 20 ms on.
    let record = run(client(5000, Direction::Up), CLOCK, 0, u32::MAX);
    assert_eq!(record.failure, None);
    assert_eq!(record.connected_ns, Some(20 * MS));
    assert_eq!(record.taken_ns, Some(70 * MS));
    assert_eq!(record.last_ns, Some(80 * MS));
    assert_eq!(record.last_octet_s(), Some(0.01));
    assert_eq!((record.wrong, record.clock_error_ns), (0, 0));
    assert_eq!(record.sender, facts("near"));
    assert_eq!(record.goodput_bit_s(), Some(500_000.0));
    assert_eq!(record.utilisation(Some(1_000_000)), Some(0.5));
    assert_eq!(record.arrived.origin_ns, 30 * MS);
    assert_eq!(record.arrived.bins.len(), 1);
}

#[test]
fn content_goes_down_and_the_server_tells_of_its_tcp() {
    // The request is there after 30 ms; 32 octets of greeting and 5,000 of content follow.
    let record = run(client(5000, Direction::Down), CLOCK, 0, u32::MAX);
    assert_eq!(record.failure, None);
    assert_eq!(record.taken_ns, Some(80 * MS));
    assert_eq!(record.last_ns, Some(90 * MS));
    assert_eq!(record.sender, facts("far"));
    assert!(record.ended_ns > record.last_ns);
}

#[test]
fn a_foreign_clock_is_compared_and_its_error_told() {
    for direction in [Direction::Up, Direction::Down] {
        let same = run(client(5000, direction), CLOCK, 0, u32::MAX);
        let other = run(client(5000, direction), CLOCK + 1, 5_000_000, u32::MAX);
        // Request and answer take as long as each other here, so the difference is exact.
        assert_eq!(other.clock_error_ns, 10 * MS);
        assert_eq!(other.last_ns, same.last_ns);
        assert_eq!(other.taken_ns, same.taken_ns);
        assert_eq!(other.arrived, same.arrived);
    }
}

#[test]
fn a_changed_octet_is_seen() {
    for direction in [Direction::Up, Direction::Down] {
        let mut turns = 0;
        let record = run_with(
            client(5000, direction),
            CLOCK,
            0,
            u32::MAX,
            |way, octets| {
                if way == direction && octets.len() > 500 {
                    turns += 1;
                    if turns == 2 {
                        octets[300] ^= 1;
                    }
                }
            },
        );
        assert_eq!((record.failure, record.wrong), (None, 1));
    }
}

#[test]
fn a_server_declines_what_is_too_large() {
    let record = run(client(1001, Direction::Up), CLOCK, 0, 1000);
    assert_eq!(record.failure, Some(Failure::Declined(Verdict::TooLarge)));
    assert_eq!(record.total_s(), None);
    let record = run(client(1000, Direction::Up), CLOCK, 0, 1000);
    assert_eq!(record.failure, None);
}

#[test]
fn a_request_is_so() {
    let request = Request {
        direction: Direction::Down,
        octets: 1000,
        seed: 2,
        dscp: 46,
        interval_ms: 1000,
        congestion: "bbr".into(),
    };
    let mut octets = Vec::new();
    request.emit(&mut octets);
    let expected = b"stM1\x01\x2e\x03\x00\x00\x00\x03\xe8\x00\x00\x00\x02\x00\x00\x03\xe8bbr";
    assert_eq!(octets, expected);
    assert_eq!(Request::parse(&octets), Ok(Some((request, 23))));
    assert_eq!(Request::parse(&octets[..22]), Ok(None));
    for (place, wrong) in [(0, b'S'), (4, 2), (5, 64), (6, 16), (7, 1), (20, b'/')] {
        let mut octets = octets.clone();
        octets[place] = wrong;
        assert_eq!(Request::parse(&octets), Err(Garbled), "{place}");
    }
    octets[8..12].fill(0);
    assert_eq!(Request::parse(&octets), Err(Garbled), "no content");
}

#[test]
fn a_greeting_is_so() {
    let greeting = Greeting {
        verdict: Verdict::Busy,
        clock: 1,
        received_ns: 2,
        answered_ns: 3,
    };
    let mut octets = Vec::new();
    greeting.emit(&mut octets);
    let mut expected = *b"stM1\x01\0\0\0________________________";
    expected[8..16].copy_from_slice(&1u64.to_be_bytes());
    expected[16..24].copy_from_slice(&2u64.to_be_bytes());
    expected[24..32].copy_from_slice(&3u64.to_be_bytes());
    assert_eq!(octets, expected);
    assert_eq!(Greeting::parse(&octets), Ok(Some(greeting)));
    assert_eq!(Greeting::parse(&octets[..31]), Ok(None));
    octets[4] = 4;
    assert_eq!(Greeting::parse(&octets), Err(Garbled));
}

#[test]
fn a_client_takes_no_garbage_for_an_answer() {
    for direction in [Direction::Up, Direction::Down] {
        let mut client = client(1000, direction);
        client.connected(at(1));
        client.receive(at(2), b"HTTP/1.1 400 Bad Request\r\n");
        assert!(client.is_ended());
        let record = client.record(Facts::default());
        assert_eq!(record.failure, Some(Failure::Garbled));
    }
}

#[test]
fn a_report_before_its_time_is_garbage() {
    let mut client = client(50_000, Direction::Up);
    client.connected(at(1));
    let mut server = Server::new(CLOCK, u32::MAX);
    let mut octets = Vec::new();
    plan(1, Direction::Up).request.emit(&mut octets);
    octets.push(0);
    server.receive(at(1), &octets);
    server.answer(at(1), Verdict::Admitted);
    assert_eq!(server.due(), Due::Report);
    server.report(Facts::default());
    let said = server.pending().to_vec();
    client.take(at(1), 20);
    client.receive(at(2), &said);
    let record = client.record(Facts::default());
    assert_eq!(record.failure, Some(Failure::Garbled));
}

#[test]
fn a_server_answers_no_garbage_and_closes() {
    for octets in [&b"GET / HTTP/1.1\r\n"[..], b"stM1\x02", &[0; 40]] {
        let mut server = Server::new(CLOCK, u32::MAX);
        for octet in octets.iter().chain(&[0; 40]) {
            server.receive(at(1), &[*octet]);
        }
        assert_eq!((server.due(), server.pending()), (Due::Close, &[][..]));
    }
}

#[test]
fn tables_tell_what_was_measured() {
    let record = run(client(50_000, Direction::Up), CLOCK, 0, u32::MAX);
    let failed = TransferRecord {
        failure: Some(Failure::Refused),
        connected_ns: None,
        last_ns: None,
        arrived: Timeline::new(1),
        ..record.clone()
    };
    let [transfers, progress] = tables("x", &[record.clone(), failed], Some(1_000_000));
    assert_eq!(transfers.id, "transfers of x");
    assert!(transfers.to_text().contains("connection refused"));
    // 1,000 octets each turn, less the request, and what is left of the first chunk: 20 + 16,384.
    let second = &progress.rows[1];
    assert_eq!(
        second[4..7],
        [
            19_384.0.into(),
            752_320.0.into(),
            (19_384.0 * 8.0 / 230_000.0).into()
        ]
    );
    let last = progress
        .rows
        .last()
        .map(|row| (row[3].clone(), row[4].clone()));
    assert_eq!(last, Some((record.total_s().into(), 50_000.0.into())));
    let found: Vec<_> = measurements(&[record], None).map(|it| it.0).collect();
    let mut names = metric_labels("50kB", false);
    names.sort();
    assert_eq!(found, names);
    assert_eq!(label(1_000_000, Direction::Down), "1MB-down");
    assert_eq!(label(1_001, Direction::Up), "1001B");
}

fn timeline() -> impl Strategy<Value = Timeline> {
    let bins = prop::collection::vec((any::<u32>(), any::<u32>()), 0..20);
    (any::<u64>(), 1u64.., bins).prop_map(|(origin_ns, interval_ns, bins)| Timeline {
        origin_ns,
        interval_ns,
        bins: bins
            .into_iter()
            .map(|(octets, last_us)| Bin { octets, last_us })
            .collect(),
    })
}

proptest! {
    #[test]
    fn a_report_comes_back(
        progress in timeline(), wrong: u32, last_ns: u64, rtt_ns in 0..u64::MAX,
        name in "[a-z_]{0,15}",
    ) {
        let report = Report {
            wrong,
            last_ns,
            progress,
            facts: Facts { congestion: name, rtt_ns: Some(rtt_ns), ..Facts::default() },
        };
        let mut octets = Vec::new();
        report.emit(&mut octets);
        assert_eq!(Report::parse(&octets[..octets.len() - 1]), Ok(None));
        assert_eq!(Report::parse(&octets), Ok(Some(report)));
    }

    #[test]
    fn any_octets_are_safe_for_a_client(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..10),
        progress in timeline(), last_ns: u64, clock: u64, received_ns: u64, answered_ns: u64,
        down: bool,
    ) {
        let direction = if down { Direction::Down } else { Direction::Up };
        let mut client = client(100, direction);
        client.connected(at(1));
        let count = client.pending().len();
        client.take(at(1), count);
        let mut octets = Vec::new();
        Greeting { verdict: Verdict::Admitted, clock, received_ns, answered_ns }.emit(&mut octets);
        if down {
            octets.extend_from_slice(&[0; 100]);
        }
        let report = Report { wrong: 0, last_ns, progress, facts: Facts::default() };
        report.emit(&mut octets);
        // First a server that means it, with any numbers; then one that doesn't.
        client.receive(at(2), &octets);
        assert!(client.is_ended());
        let records = [client.record(Facts::default())];
        let _ = tables("", &records, Some(1));
        let mut client = self::client(100, direction);
        client.connected(at(1));
        for piece in pieces {
            client.receive(at(3), &piece);
        }
        let _ = tables("", &[client.record(Facts::default())], None);
    }

    #[test]
    fn any_octets_are_safe_for_a_server(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..10),
        asks: bool, down: bool,
    ) {
        let mut server = Server::new(CLOCK, 1000);
        let mut octets = Vec::new();
        if asks {
            plan(500, if down { Direction::Down } else { Direction::Up }).request.emit(&mut octets);
        }
        server.receive(at(1), &octets);
        for piece in pieces {
            server.receive(at(2), &piece);
            match server.due() {
                Due::Answer => {
 server.answer(at(2), Verdict::Admitted);
}
                Due::Report => server.report(Facts::default()),
                _ => {}
            }
            let count = server.pending().len();
            server.take(at(3), count);
        }
    }
}
