use super::*;
use strait_wire::ip::{PacketInfo, TcpFlags, tcp_header, verify_transport_checksum};

fn ends(family: u8) -> (SocketAddr, SocketAddr) {
    let texts = match family {
        4 => ("10.0.0.1:4000", "10.0.0.2:80"),
        _ => ("[fd00::1]:4000", "[fd00::2]:80"),
    };
    (texts.0.parse().unwrap(), texts.1.parse().unwrap())
}

fn connected(profile: &str, family: u8) -> [Box<dyn TcpEndpoint>; 2] {
    let (near, far) = ends(family);
    let mut client = endpoint(profile, &TcpConfig::new(near, far)).unwrap();
    let mut server = endpoint(profile, &TcpConfig::new(far, near)).unwrap();
    client.connect(Instant::ZERO).unwrap();
    server.accept(Instant::ZERO).unwrap();
    assert_eq!(
        (client.state(), server.state()),
        (TcpState::Connecting, TcpState::Listening)
    );
    exchange(&mut client, &mut server, Instant::ZERO);
    assert_eq!(
        (client.state(), server.state()),
        (TcpState::Established, TcpState::Established)
    );
    [client, server]
}

/// Carries packets without delay until both are silent.
fn exchange(a: &mut Box<dyn TcpEndpoint>, b: &mut Box<dyn TcpEndpoint>, now: Instant) {
    let mut packet = Vec::new();
    loop {
        let mut moved = false;
        for turn in 0..2 {
            let (from, to) = if turn == 0 {
                (&mut *a, &mut *b)
            } else {
                (&mut *b, &mut *a)
            };
            while from.poll_packet(now, &mut packet) {
                assert_eq!(verify_transport_checksum(&packet), Some(true));
                to.handle_packet(now, &packet);
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

#[test]
fn octets_go_both_ways_and_it_ends_in_order() {
    for (profile, family) in PROFILES.iter().flat_map(|name| [(name, 4), (name, 6)]) {
        let [mut client, mut server] = connected(profile, family);
        assert_eq!((client.send(b"hello"), server.send(b"good day")), (5, 8));
        exchange(&mut client, &mut server, Instant::ZERO);
        let mut buffer = [0; 64];
        assert_eq!(server.recv(&mut buffer), 5);
        assert_eq!(&buffer[..5], b"hello");
        assert_eq!(client.recv(&mut buffer[..4]), 4);
        assert_eq!(client.recv(&mut buffer), 4);
        client.close();
        exchange(&mut client, &mut server, Instant::from_millis(200));
        assert!(server.is_drained() && !client.is_drained());
        server.close();
        exchange(&mut client, &mut server, Instant::from_millis(400));
        assert!(client.is_drained());
        assert_eq!(server.state(), TcpState::Closed);
        assert_eq!((client.error(), server.error()), (None, None));
        let counters = client.counters();
        assert_eq!(
            (counters.retransmissions, server.counters().retransmissions),
            (0, 0)
        );
        // The FIN takes a sequence number as an octet does.
        assert_eq!(counters.octets_acked, 6);
        assert_eq!(counters.segments_in, server.counters().segments_out);
    }
}

#[test]
fn a_lost_syn_is_sent_again_at_its_deadline_and_not_before() {
    let (near, far) = ends(6);
    let mut client = endpoint("smoltcp-cubic", &TcpConfig::new(near, far)).unwrap();
    let (mut packet, start) = (Vec::new(), Instant::from_nanos(1_234_567));
    client.connect(start).unwrap();
    assert!(client.poll_packet(start, &mut packet));
    assert!(!client.poll_packet(start, &mut packet));
    let at = client.wake().unwrap();
    assert!(at > start);
    assert_eq!(at.as_nanos() % 1000, 0);
    assert!(!client.poll_packet(Instant::from_nanos(at.as_nanos() - 1), &mut packet));
    assert_eq!(client.wake(), Some(at));
    assert!(client.poll_packet(at, &mut packet));
    assert_eq!(tcp_header(&packet).unwrap().flags, TcpFlags::SYN);
    assert_eq!(client.counters().retransmissions, 1);
    assert!(!client.poll_packet(at, &mut packet));
    assert!(client.wake().unwrap() > at);
}

#[test]
fn silence_ends_a_connection_in_bounded_time() {
    let (near, far) = ends(4);
    let config = TcpConfig {
        give_up: Some(Duration::from_secs(20)),
        ..TcpConfig::new(near, far)
    };
    let mut client = endpoint("smoltcp-cubic", &config).unwrap();
    let (mut packet, mut now) = (Vec::new(), Instant::ZERO);
    client.connect(now).unwrap();
    for _ in 0..100 {
        while client.poll_packet(now, &mut packet) {}
        let Some(at) = client.wake() else { break };
        assert!(at > now, "a wake-up that does nothing");
        now = at;
    }
    assert_eq!(
        (client.state(), client.error()),
        (TcpState::Closed, Some(TcpError::TimedOut))
    );
    assert_eq!(now, Instant::from_secs(20));
}

#[test]
fn aborting_tells_the_other_end() {
    PROFILES.into_iter().for_each(abort_tells);
}

fn abort_tells(profile: &str) {
    let [mut client, mut server] = connected(profile, 4);
    client.abort();
    exchange(&mut client, &mut server, Instant::ZERO);
    assert_eq!(
        (client.error(), server.error()),
        (None, Some(TcpError::Reset))
    );
    assert_eq!(
        (client.state(), server.state()),
        (TcpState::Closed, TcpState::Closed)
    );
    assert_eq!(server.connect(Instant::ZERO), Err(TcpError::Misused));
}

#[test]
fn names_and_addresses_are_judged() {
    let (near, _) = ends(4);
    let error = endpoint("tahoe", &TcpConfig::new(near, near))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with("no TCP endpoint is called `tahoe`; there are linux-cubic, linux-reno,")
    );
    for (local, remote) in [
        ("0.0.0.0:1", "10.0.0.2:2"),
        ("10.0.0.1:1", "[fd00::1]:2"),
        ("10.0.0.1:1", "10.0.0.2:0"),
    ] {
        let config = TcpConfig::new(local.parse().unwrap(), remote.parse().unwrap());
        for profile in PROFILES {
            let mut endpoint = endpoint(profile, &config).unwrap();
            let opened = endpoint.connect(Instant::ZERO);
            assert_eq!(opened, Err(TcpError::Misused), "{local} {remote}");
        }
    }
}

#[test]
fn the_reset_answers_what_the_standard_says() {
    let (near, far) = ends(6);
    let mut client = endpoint("smoltcp-cubic", &TcpConfig::new(near, far)).unwrap();
    let (mut syn, mut reset) = (Vec::new(), Vec::new());
    client.connect(Instant::ZERO).unwrap();
    assert!(client.poll_packet(Instant::ZERO, &mut syn));
    assert!(reset_for(&syn, &mut reset));
    assert_eq!(verify_transport_checksum(&reset), Some(true));
    let (info, view) = (
        PacketInfo::parse(&reset).unwrap(),
        tcp_header(&reset).unwrap(),
    );
    assert_eq!(
        (info.src, info.dst, info.ports),
        (far.ip(), near.ip(), Some((80, 4000)))
    );
    assert_eq!(view.flags, TcpFlags::RST | TcpFlags::ACK);
    assert_eq!(view.seq, 0);
    assert_eq!(view.ack, tcp_header(&syn).unwrap().seq.wrapping_add(1));
    let mut again = Vec::new();
    assert!(!reset_for(&reset, &mut again), "a reset for a reset");
    syn[45] ^= 1;
    assert!(!reset_for(&syn, &mut again), "a reset for damaged octets");
    for cut in 0..syn.len() {
        assert!(!reset_for(&syn[..cut], &mut again));
    }
}

#[test]
fn hostile_packets_are_survived() {
    PROFILES.into_iter().for_each(survive);
}

fn survive(profile: &str) {
    let [mut client, mut server] = connected(profile, 6);
    let mut packet = Vec::new();
    assert_eq!(client.send(&[7; 3000]), 3000);
    assert!(client.poll_packet(Instant::ZERO, &mut packet));
    for bit in 0..packet.len().min(80) * 8 {
        let mut damaged = packet.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        server.handle_packet(Instant::ZERO, &damaged);
        server.handle_packet(Instant::ZERO, &damaged[..bit / 8]);
    }
    server.handle_packet(Instant::ZERO, &packet);
    exchange(&mut client, &mut server, Instant::from_millis(40));
    let mut buffer = vec![0; 4000];
    assert_eq!(server.recv(&mut buffer), 3000);
    assert_eq!(&buffer[..3000], [7; 3000]);
}
