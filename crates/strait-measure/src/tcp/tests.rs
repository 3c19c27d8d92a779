//! Over loopback: that it works, and each way in which it may not.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use strait_core::time::Duration;
use strait_live::signals::Stop;
use strait_traffic::measure::{
    Campaign, Direction, Failure, Plan, Server, TransferRecord, Verdict,
};

use super::*;

const V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);

fn serve(limits: Limits) -> Running {
    Listening::bind(V4, limits).unwrap().spawn().unwrap()
}

fn plan(octets: u32, direction: Direction) -> Plan {
    let campaign = Campaign {
        sizes: vec![octets],
        directions: vec![direction],
        runs: 1,
        interval: Duration::from_millis(10),
        timeout: Duration::from_secs(20),
        dscp: 0,
        congestion: String::new(),
        seed: 5,
    };
    campaign.plans().remove(0)
}

fn short(octets: u32, direction: Direction) -> Plan {
    Plan {
        timeout: Duration::from_millis(300),
        ..plan(octets, direction)
    }
}

fn measured(peer: SocketAddr, plan: &Plan) -> TransferRecord {
    transfer(peer, plan, &Stop::default())
}

/// A peer that does what it likes with the first connection.
fn peer(behaves: impl FnOnce(TcpStream) + Send + 'static) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind(V4).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || behaves(listener.accept().unwrap().0);
    (address, thread::spawn(serve))
}

#[test]
fn both_directions_and_families_give_a_whole_record() {
    for local in [V4, V6] {
        let Ok(listening) = Listening::bind(local, Limits::default()) else {
            eprintln!("skipped, this machine has no {local}");
            continue;
        };
        let server = listening.spawn().unwrap();
        for direction in [Direction::Up, Direction::Down] {
            let record = measured(server.address(), &plan(3_000_000, direction));
            assert_eq!(record.failure, None, "{record:?}");
            assert_eq!((record.wrong, record.clock_error_ns), (0, 0));
            // A sender that is interrupted behind its last write says so late: perhaps after the
            // other end has all.
            for there in [record.taken_ns, record.last_ns] {
                let times = [record.connected_ns, there, record.ended_ns];
                let times: Vec<u64> = times.into_iter().map(Option::unwrap).collect();
                assert!(times.is_sorted(), "{times:?}");
            }
            let octets = |line: &strait_traffic::measure::Timeline| {
                line.bins.iter().map(|bin| bin.octets).sum::<u32>()
            };
            assert_eq!(octets(&record.sent), 3_000_000);
            assert_eq!(octets(&record.arrived), 3_000_000);
            assert!(!record.sender.congestion.is_empty());
            assert!(record.sender.rtt_ns.is_some());
            assert!(record.sender.segments_out > 0);
        }
        let tally = server.stop().unwrap();
        assert_eq!((tally.connections, tally.complete), (2, 2));
    }
}

#[test]
fn the_congestion_control_is_the_senders() {
    let server = serve(Limits::default());
    for direction in [Direction::Up, Direction::Down] {
        let mut plan = plan(1000, direction);
        plan.request.congestion = "reno".into();
        let record = measured(server.address(), &plan);
        assert_eq!(
            (record.failure, record.sender.congestion.as_str()),
            (None, "reno")
        );
        plan.request.congestion = "none-such".into();
        match (direction, measured(server.address(), &plan).failure) {
            (Direction::Up, Some(Failure::Host(why))) => assert!(why.contains("none-such")),
            (Direction::Down, Some(Failure::Declined(Verdict::NoSuchCongestion))) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.stop().unwrap().declined, 1);
}

#[test]
fn limits_are_told() {
    let limits = Limits {
        octets: 1000,
        ..Limits::default()
    };
    let server = serve(limits);
    for direction in [Direction::Up, Direction::Down] {
        let record = measured(server.address(), &plan(1001, direction));
        let expected = Some(Failure::Declined(Verdict::TooLarge));
        assert_eq!(record.failure, expected);
        assert_eq!(
            measured(server.address(), &plan(1000, direction)).failure,
            None
        );
    }
    let server = serve(Limits {
        clients: 0,
        ..Limits::default()
    });
    // More than the sockets hold: the answer is read although not everything is sent.
    let record = measured(server.address(), &plan(50_000_000, Direction::Up));
    assert_eq!(record.failure, Some(Failure::Declined(Verdict::Busy)));
}

#[test]
fn nobody_there_is_refused() {
    let free = TcpListener::bind(V4).unwrap().local_addr().unwrap();
    let record = measured(free, &plan(1000, Direction::Up));
    assert_eq!(record.failure, Some(Failure::Refused));
    assert_eq!((record.connected_ns, record.last_ns), (None, None));
    assert!(record.ended_ns.is_some());
}

#[test]
fn a_silent_peer_is_a_timeout_at_any_stage() {
    // A backlog nobody takes from: open, but without an answer.
    let listener = TcpListener::bind(V4).unwrap();
    let address = listener.local_addr().unwrap();
    for plan in [
        short(1000, Direction::Up),
        short(50_000_000, Direction::Up),
        short(1000, Direction::Down),
    ] {
        let record = measured(address, &plan);
        assert_eq!(record.failure, Some(Failure::TimedOut));
        assert!(record.connected_ns.is_some());
        assert!(record.ended_ns >= Some(300_000_000));
    }
}

#[test]
fn a_peer_that_vanishes_is_told() {
    let (address, peer) = peer(drop);
    let failure = measured(address, &plan(1000, Direction::Down)).failure;
    assert!(
        matches!(failure, Some(Failure::Closed | Failure::Reset)),
        "{failure:?}"
    );
    peer.join().unwrap();
    let (address, peer) = self::peer(|mut stream| {
        // Serves the beginning of what it is asked for.
        let mut octets = [0; 1000];
        let count = stream.read(&mut octets).unwrap();
        let mut server = Server::new(1, u32::MAX);
        server.receive(strait_live::clock::monotonic(), &octets[..count]);
        server.answer(strait_live::clock::monotonic(), Verdict::Admitted);
        stream.write_all(&server.pending()[..500]).unwrap();
    });
    let record = measured(address, &plan(1000, Direction::Down));
    assert_eq!(record.failure, Some(Failure::Closed));
    assert_eq!(
        record
            .arrived
            .bins
            .iter()
            .map(|bin| bin.octets)
            .sum::<u32>(),
        468
    );
    peer.join().unwrap();
}

#[test]
fn garbage_from_the_peer_is_told() {
    for direction in [Direction::Up, Direction::Down] {
        let (address, peer) = peer(|mut stream| {
            stream.write_all(b"220 mail.example.org ESMTP\r\n").unwrap();
            let _ = stream.read(&mut [0; 64]);
        });
        let record = measured(address, &plan(1000, direction));
        assert_eq!(record.failure, Some(Failure::Garbled));
        peer.join().unwrap();
    }
}

#[test]
fn a_server_survives_garbage_and_clients_that_vanish() {
    let server = serve(Limits {
        silence: Duration::from_millis(200),
        ..Limits::default()
    });
    let connect = || TcpStream::connect(server.address()).unwrap();
    let mut stream = connect();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(
        matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)),
        "not a word"
    );
    let mut stream = connect();
    let mut octets = Vec::new();
    plan(1000, Direction::Up).request.emit(&mut octets);
    stream.write_all(&octets).unwrap();
    drop(stream);
    // One that says nothing is closed after a while.
    let mut stream = connect();
    assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert_eq!(
        measured(server.address(), &plan(1000, Direction::Up)).failure,
        None
    );
    let tally = server.stop().unwrap();
    assert_eq!(
        (tally.connections, tally.complete, tally.expired),
        (4, 1, 1)
    );
}

#[test]
fn a_request_to_stop_ends_a_transfer() {
    let listener = TcpListener::bind(V4).unwrap();
    let stop = Stop::default();
    stop.ask();
    let plan = plan(1000, Direction::Up);
    let record = transfer(listener.local_addr().unwrap(), &plan, &stop);
    assert_eq!(record.failure, Some(Failure::Stopped));
}
