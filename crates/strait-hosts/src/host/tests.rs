use strait_tcp::TcpState;
use strait_traffic::TcpOptions;

use super::harness::{Pair, Pipe};
use super::*;
use strait_core::id::NeighbourId;
use strait_core::id::Neighbours;
use strait_core::node::{DownCause, FrameMeta, Notice, PortState};
use strait_wire::ip::{
    TcpFlags, build_echo, build_icmp_error, build_udp, fragment_own, tcp_header,
};

const PIPE: Pipe = Pipe::new(1_000_000, Duration::from_millis(10), 0.0);

fn pair() -> Pair {
    Pair::new(PIPE, 1)
}

fn frame(bytes: &[u8]) -> Input<'_> {
    Input::Frame {
        port: PortId::HOST,
        from: NeighbourId::PEER,
        bytes,
        meta: FrameMeta::default(),
    }
}

fn only_packet(host: &mut Host) -> Vec<u8> {
    let mut out = Vec::new();
    let room = Room {
        octets: 1500,
        starts: Instant::ZERO,
        until: None,
        to: Neighbours::ALL,
    };
    host.poll_transmit(Instant::ZERO, PortId::HOST, room, &mut out)
        .unwrap();
    assert!(host.wants(PortId::HOST).is_none());
    out
}

fn fresh() -> Host {
    let addresses = ["10.0.0.2", "fd00::2"].map(|text| text.parse().unwrap());
    Host::new(&HostConfig::new("hb", addresses.into(), 1))
}

#[test]
fn echo_requests_are_answered_in_both_families() {
    for (near, far) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let (near, far): (IpAddr, IpAddr) = (near.parse().unwrap(), far.parse().unwrap());
        let mut request = Vec::new();
        assert!(build_echo(
            EchoKind::Request,
            near,
            far,
            46,
            64,
            1,
            7,
            9,
            b"abc",
            &mut request
        ));
        let mut host = fresh();
        host.handle(Instant::ZERO, frame(&request));
        let reply = only_packet(&mut host);
        let info = PacketInfo::parse(&reply).unwrap();
        let echo = parse_echo(&reply).unwrap();
        assert_eq!((info.src, info.dst, info.dscp), (far, near, 46));
        assert_eq!(
            (echo.kind, echo.ident, echo.sequence),
            (EchoKind::Reply, 7, 9)
        );
        assert_eq!(&reply[echo.payload], b"abc");
        assert_eq!(host.counters().echoes_answered, 1);
        assert_eq!((host.stats().delivered, host.stats().forwarded), (1, 1));
    }
}

#[test]
fn every_packet_has_a_fate_and_the_odd_ones_are_counted() {
    let mut host = fresh();
    let (near, far) = ("10.0.0.1:5".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
    let mut unknown = Vec::new();
    assert!(build_udp(near, far, 0, 64, 1, 0, b"x", &mut unknown));
    let mut damaged = unknown.clone();
    damaged[28] ^= 1;
    let mut stranger = Vec::new();
    assert!(build_udp(
        near,
        "10.9.9.9:9".parse().unwrap(),
        0,
        64,
        1,
        0,
        b"x",
        &mut stranger
    ));
    for bytes in [&unknown[..], &damaged, &stranger, b"\x45junk", b""] {
        host.handle(Instant::ZERO, frame(bytes));
    }
    let (stats, counters) = (host.stats(), host.counters());
    assert_eq!(
        (stats.admitted, stats.delivered, stats.malformed),
        (3, 2, 2)
    );
    assert_eq!(stats.dropped.by(DropCause::NoRoute), 1);
    assert_eq!((counters.unknown_port, counters.unusable), (1, 1));
    let fates = std::iter::from_fn(|| host.poll_effect()).count();
    assert_eq!(fates, 3);
    host.check();
}

#[test]
fn a_segment_of_no_connection_is_reset_and_a_reset_is_not() {
    // An acknowledgement, made by connecting where nobody listens.
    let mut pair = pair();
    let ends: (SocketAddr, SocketAddr) = (
        "[fd00::1]:4000".parse().unwrap(),
        "[fd00::2]:80".parse().unwrap(),
    );
    pair.hosts[0].install(|_| Caller::new(ends));
    pair.run(Instant::from_secs(5));
    assert_eq!(pair.hosts[1].counters().resets_out, 1);
    assert_eq!(pair.hosts[0].counters().resets_out, 0);
    let log = pair.hosts[0].logs().next().unwrap();
    let transfer = log.transfer.as_ref().unwrap();
    assert_eq!(transfer.error, Some(strait_tcp::TcpError::Refused));
    // One round trip of the SYN and its answer: no waiting for a timeout.
    assert!(transfer.finished_ns.unwrap() < 25_000_000);
}

/// Connects and notes how it ends.
struct Caller {
    ends: (SocketAddr, SocketAddr),
    log: FlowLog,
    begun: bool,
}

impl Caller {
    fn new(ends: (SocketAddr, SocketAddr)) -> Self {
        Self {
            ends,
            log: FlowLog::new("caller", strait_traffic::Side::From),
            begun: false,
        }
    }
}

impl Application for Caller {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout => {
                self.begun = true;
                stack
                    .connect(now, self.ends.0, self.ends.1, &options())
                    .unwrap();
                let again = stack.connect(now, self.ends.0, self.ends.1, &options());
                assert_eq!(again, Err(strait_tcp::TcpError::Misused));
            }
            Event::Closed { error, .. } => {
                self.log.transfer().error = error;
                self.log.transfer().finished_ns = Some(now.as_nanos());
            }
            _ => {}
        }
    }
    fn wake(&self) -> Option<Instant> {
        (!self.begun).then_some(Instant::ZERO)
    }
    fn log(&self) -> &FlowLog {
        &self.log
    }
}

fn options() -> TcpOptions {
    TcpOptions {
        profile: "smoltcp-cubic".into(),
        buffer_octets: 16_384,
        nagle: true,
        dscp: 10,
        mtu: Some(576),
    }
}

#[test]
fn segments_carry_code_point_and_segment_size() {
    let mut host = Host::new(&HostConfig::new("ha", vec!["10.0.0.1".parse().unwrap()], 1));
    host.install(|_| {
        Caller::new((
            "10.0.0.1:4000".parse().unwrap(),
            "10.0.0.2:80".parse().unwrap(),
        ))
    });
    host.handle(Instant::ZERO, Input::Timeout);
    let syn = only_packet(&mut host);
    assert_eq!(PacketInfo::parse(&syn).unwrap().dscp, 10);
    let view = tcp_header(&syn).unwrap();
    assert_eq!(view.flags, TcpFlags::SYN);
    assert_eq!(syn[view.header][20..24], [2, 4, 2, 24]); // 536 = 576 − 40
    // A too big error about it is taken, junk in its quote harmless.
    let mut error = Vec::new();
    let kind = IcmpError::PacketTooBig { mtu: 500 };
    assert!(build_icmp_error(
        kind,
        "10.9.9.9".parse().unwrap(),
        &syn,
        &mut error
    ));
    host.handle(Instant::ZERO, frame(&error));
    assert_eq!(host.counters().icmp_errors, 1);
    for cut in 0..28 {
        let _ = quoted_ends(&syn[..cut]);
    }
    let ends = quoted_ends(&syn).unwrap();
    assert_eq!((ends.0.port(), ends.1.port()), (4000, 80));
}

#[test]
fn a_port_that_is_down_sends_nothing_and_a_full_queue_refuses() {
    let mut config = HostConfig::new("hb", vec!["10.0.0.2".parse().unwrap()], 1);
    config.queue_packets = 2;
    let mut host = Host::new(&config);
    let down = PortEvent::Down(DownCause::Carrier);
    host.handle(
        Instant::ZERO,
        Input::Port {
            port: PortId::HOST,
            event: down,
        },
    );
    let mut request = Vec::new();
    let (near, far) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    assert!(build_echo(
        EchoKind::Request,
        near,
        far,
        0,
        64,
        1,
        7,
        9,
        &[0; 972],
        &mut request
    ));
    for _ in 0..3 {
        host.handle(Instant::ZERO, frame(&request));
    }
    assert_eq!(host.stats().dropped.by(DropCause::QueuePackets), 1);
    assert!(host.wants(PortId::HOST).is_none());
    let state = PortState {
        tx_rate: LineRate::new(8_000_000, 8),
        rx_rate: LineRate::new(8_000_000, 8),
        frame_octets_max: 1000,
        block: Duration::ZERO,
        latency: Duration::ZERO,
        notice: Notice::NONE,
    };
    host.handle(
        Instant::ZERO,
        Input::Port {
            port: PortId::HOST,
            event: PortEvent::Up(state),
        },
    );
    assert_eq!(host.wants(PortId::HOST).map(|want| want.octets), Some(1000));
    let mut out = Vec::new();
    let room = |octets| Room {
        octets,
        starts: Instant::from_millis(5),
        until: None,
        to: Neighbours::ALL,
    };
    assert_eq!(
        host.poll_transmit(Instant::ZERO, PortId::HOST, room(999), &mut out),
        None
    );
    assert!(out.is_empty());
    while host.poll_effect().is_some() {}
    host.poll_transmit(Instant::ZERO, PortId::HOST, room(1000), &mut out)
        .unwrap();
    // 1000 octets at 1 octet/µs from 5 ms on.
    let Some(Effect::Fate(record)) = host.poll_effect() else {
        panic!("no fate")
    };
    assert_eq!(record.ended, Instant::from_millis(6));
    let narrower = PortState {
        frame_octets_max: 999,
        ..state
    };
    let event = PortEvent::Changed(narrower);
    host.handle(
        Instant::ZERO,
        Input::Port {
            port: PortId::HOST,
            event,
        },
    );
    assert_eq!(host.stats().dropped.by(DropCause::TooBig), 1);
    // What comes later is cut to fit.
    host.handle(Instant::ZERO, frame(&request));
    assert_eq!(host.stats().dropped.by(DropCause::TooBig), 1);
    assert_eq!(host.stack.queued(), 2);
    host.handle(Instant::ZERO, Input::Command(Command::Stop));
    host.check();
    assert_eq!(host.stats().held(), 0);
}

#[test]
fn long_echoes_go_in_fragments_and_are_answered_whole() {
    for (near, far) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let (near, far): (IpAddr, IpAddr) = (near.parse().unwrap(), far.parse().unwrap());
        let mut asking = Host::new(&HostConfig::new("ha", vec![near], 1));
        asking.stack.bind_echo(7);
        let payload: Vec<u8> = (0..3000_u32).map(|at| at as u8).collect();
        assert!(
            asking
                .stack
                .send_echo(Instant::ZERO, (near, far), 46, (7, 9), &payload)
        );
        let mut parts = Vec::new();
        while let Some(part) = asking.stack.pop_front() {
            assert!(part.octets() <= 1500 && part.info().dscp == 46);
            parts.push(part.bytes().to_vec());
        }
        assert_eq!(parts.len(), 3);
        // In any order, and a part twice.
        for order in [[0, 1, 1, 2], [2, 1, 0, 0], [1, 0, 2, 2]] {
            let mut answering = fresh();
            for (place, part) in order.into_iter().enumerate() {
                answering.handle(Instant::ZERO, frame(&parts[part]));
                let answered = answering.counters().echoes_answered;
                assert!(answered == 0 || place > 1, "{order:?}");
            }
            assert_eq!(answering.counters().echoes_answered, 1, "{order:?}");
            assert_eq!(answering.stack.queued(), 3);
        }
    }
}

#[test]
fn parts_wait_a_minute_for_the_rest_and_overlaps_end_them() {
    let (near, far): (IpAddr, IpAddr) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let cut = |ident: u32, mtu: usize| {
        let mut request = Vec::new();
        let payload = [0x55; 2000];
        build_echo(
            EchoKind::Request,
            near,
            far,
            0,
            64,
            1,
            7,
            9,
            &payload,
            &mut request,
        );
        fragment_own(&request, ident, mtu).unwrap()
    };
    for (after_ns, answered) in [(59_999_999_999, 1), (60_000_000_000, 0)] {
        let mut host = fresh();
        let parts = cut(1, 1500);
        host.handle(Instant::ZERO, frame(&parts[0]));
        host.handle(Instant::from_nanos(after_ns), frame(&parts[1]));
        assert_eq!(host.counters().echoes_answered, answered);
    }
    let mut host = fresh();
    let (some, others) = (cut(2, 1500), cut(2, 1000));
    host.handle(Instant::ZERO, frame(&some[0]));
    host.handle(Instant::ZERO, frame(&others[1]));
    host.handle(Instant::ZERO, frame(&some[1]));
    assert_eq!(host.counters().echoes_answered, 0);
    // The oldest of too many goes.
    let mut host = fresh();
    for ident in 0..=64 {
        host.handle(
            Instant::from_millis(ident.into()),
            frame(&cut(ident, 1500)[0]),
        );
    }
    for (ident, answered) in [(1, 1), (0, 1), (64, 2)] {
        host.handle(Instant::from_millis(100), frame(&cut(ident, 1500)[1]));
        assert_eq!(host.counters().echoes_answered, answered, "{ident}");
    }
}

/// The SYN that a client at port 4000 sends to port 80.
fn syn() -> Vec<u8> {
    let mut host = Host::new(&HostConfig::new("ha", vec!["10.0.0.1".parse().unwrap()], 1));
    host.install(|_| {
        Caller::new((
            "10.0.0.1:4000".parse().unwrap(),
            "10.0.0.2:80".parse().unwrap(),
        ))
    });
    host.handle(Instant::ZERO, Input::Timeout);
    only_packet(&mut host)
}

fn listening() -> Host {
    let mut host = fresh();
    host.install(|stack| {
        assert!(stack.listen(80, options()));
        let mut caller = Caller::new((([0, 0, 0, 0], 0).into(), ([0, 0, 0, 0], 0).into()));
        caller.begun = true;
        caller
    });
    host
}

#[test]
fn a_damaged_syn_leaves_no_connection_and_a_reset_ends_a_young_one() {
    let mut host = listening();
    let syn = syn();
    let mut damaged = syn.clone();
    damaged[26] ^= 1;
    host.handle(Instant::ZERO, frame(&damaged));
    assert!(host.wants(PortId::HOST).is_none() && host.wake().is_none());
    host.handle(Instant::ZERO, frame(&syn));
    let answer = only_packet(&mut host);
    assert_eq!(
        tcp_header(&answer).unwrap().flags,
        TcpFlags::SYN | TcpFlags::ACK
    );
    assert!(host.wake().is_some());
    // Somebody else at the client's address knows nothing of it.
    let mut reset = Vec::new();
    assert!(strait_tcp::reset_for(&answer, &mut reset));
    host.handle(Instant::ZERO, frame(&reset));
    assert!(host.wants(PortId::HOST).is_none() && host.wake().is_none());
    let error = host.logs().next().unwrap().transfer.as_ref().unwrap().error;
    assert_eq!(error, Some(strait_tcp::TcpError::Reset));
}

/// Closes every connection that opens, and notes when one is gone.
struct Door(FlowLog);

impl Application for Door {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Ready(id) => stack.connection(id).unwrap().close(),
            Event::Closed { error, .. } => {
                self.0.transfer().error = error;
                self.0.transfer().finished_ns = Some(now.as_nanos());
            }
            _ => {}
        }
    }
    fn wake(&self) -> Option<Instant> {
        None
    }
    fn log(&self) -> &FlowLog {
        &self.0
    }
}

/// A client at port 4000 that asks for port 80, and what the host answers to its SYN.
fn caller(seed: u64, host: &mut Host) -> (Box<dyn strait_tcp::TcpEndpoint>, Vec<u8>) {
    let [local, remote] = ["10.0.0.1:4000", "10.0.0.2:80"].map(|text| text.parse().unwrap());
    let config = strait_tcp::TcpConfig {
        seed,
        ..strait_tcp::TcpConfig::new(local, remote)
    };
    let mut client = strait_tcp::endpoint("linux-reno", &config).unwrap();
    let mut packet = Vec::new();
    client.connect(Instant::ZERO).unwrap();
    assert!(client.poll_packet(Instant::ZERO, &mut packet));
    host.handle(Instant::ZERO, frame(&packet));
    (client, only_packet(host))
}

#[test]
fn a_connection_that_waits_out_of_caution_makes_way_for_the_next() {
    let mut host = fresh();
    host.install(|stack| {
        let profile = "linux-reno".into();
        assert!(stack.listen(
            80,
            TcpOptions {
                profile,
                ..options()
            }
        ));
        Door(FlowLog::new("door", strait_traffic::Side::To))
    });
    let (mut client, answer) = caller(1, &mut host);
    let first = tcp_header(&answer).unwrap().seq;
    let mut packet = Vec::new();
    client.handle_packet(Instant::ZERO, &answer);
    assert!(client.poll_packet(Instant::ZERO, &mut packet));
    host.handle(Instant::ZERO, frame(&packet));
    client.handle_packet(Instant::ZERO, &only_packet(&mut host));
    assert!(client.is_drained());
    client.close();
    while client.poll_packet(Instant::ZERO, &mut packet) {
        host.handle(Instant::ZERO, frame(&packet));
        if host.wants(PortId::HOST).is_some() {
            client.handle_packet(Instant::ZERO, &only_packet(&mut host));
        }
    }
    assert_eq!(client.state(), TcpState::Closed);
    let closed = |host: &Host| host.logs().next().unwrap().transfer.clone();
    assert!(closed(&host).is_none(), "it waits");
    // Older than the last connection: an acknowledgement, as of any segment that can't be right.
    let (_, answer) = caller(u64::from(u32::MAX) << 32, &mut host);
    assert_eq!(tcp_header(&answer).unwrap().flags, TcpFlags::ACK);
    // The SYN and the FIN are all that was sent.
    let next = tcp_header(&answer).unwrap().seq;
    assert_eq!(next, first.wrapping_add(2));
    // A later timestamp: another connection, with numbers beyond those of the last.
    let (mut client, answer) = caller(9, &mut host);
    let view = tcp_header(&answer).unwrap();
    assert_eq!(view.flags, TcpFlags::SYN | TcpFlags::ACK);
    assert_eq!(view.seq, next.wrapping_add(65_537));
    client.handle_packet(Instant::ZERO, &answer);
    assert_eq!(client.state(), TcpState::Established);
    let transfer = closed(&host).unwrap();
    assert_eq!((transfer.error, transfer.finished_ns), (None, Some(0)));
    host.check();
}

proptest::proptest! {
    #[test]
    fn any_octets_are_survived_and_accounted_for(
        frames in proptest::collection::vec(
            (proptest::bool::ANY, proptest::collection::vec(proptest::num::u8::ANY, 0..80)),
            0..40,
        ),
    ) {
        let mut host = listening();
        let syn = syn();
        for (patched, octets) in &frames {
            let mut bytes = syn.clone();
            let at = octets.first().map_or(0, |at| usize::from(*at) % bytes.len());
            for (byte, octet) in bytes.iter_mut().skip(at).zip(octets.iter().skip(1).take(3)) {
                *byte = *octet;
            }
            host.handle(Instant::ZERO, frame(if *patched { &bytes } else { octets }));
            host.check();
        }
        let ended = std::iter::from_fn(|| host.poll_effect()).count() as u64;
        let stats = host.stats();
        assert_eq!(stats.admitted + stats.originated - ended, stats.held());
    }
}
