//! IPv6 and a port that carries IPv4 alone.

use super::*;

/// A link port by way of AX.25's protocol number for IPv4, beside a line.
const PLAIN_IP: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "radio"
kind = "kiss"
rate = "1200 bit/s"
profile = "ip"
kiss = { own = "N0CALL-1", peer = "N0CALL-2" }
"#;

#[test]
fn ipv6_is_refused_where_ipv4_alone_is_carried() {
    let mut a = gateway(PLAIN_IP);
    // As long as any link must take, and longer than a frame.
    for (count, octets) in [(1, 60), (2, 1280)] {
        let v6 = udp("fd00:1::2", "fd00:2::2", octets, 0);
        a.handle(Instant::ZERO, frame(PortId::HOST, &v6));
        assert!(a.wants(LINE).is_none());
        let answer = pull(&mut a, PortId::HOST, Instant::ZERO, 2000);
        let (error, quoted) = ip::parse_icmp_error(&answer).unwrap();
        assert_eq!(error, IcmpError::Unreachable(Unreachable::NoRoute));
        assert!(v6.starts_with(&answer[quoted][..48]));
        let dropped = a.stats().dropped;
        assert_eq!(
            (dropped.by(DropCause::NotCarried), dropped.total()),
            (count, count)
        );
        let refused = Fate::Dropped(DropCause::NotCarried);
        assert!(fates(&mut a).iter().any(|it| it.fate == refused));
        a.check();
    }
    let v4 = udp("10.1.0.2", "10.2.0.2", 60, 0);
    a.handle(Instant::ZERO, frame(PortId::HOST, &v4));
    assert_eq!(pull_all(&mut a, LINE, Instant::ZERO), [v4]);
    assert_eq!(a.stats().ports[1].frames_out, 1);
}

/// What can't be answered isn't taken, and no error about it leaves either.
#[test]
fn ipv6_isnt_heard_where_ipv4_alone_is_carried() {
    let mut a = gateway(PLAIN_IP);
    let mut spent = udp("fd00:2::2", "fd00:1::2", 60, 0);
    spent[7] = 1;
    for (count, v6) in [(1, udp("fd00:2::2", "fd00:9::1", 60, 0)), (2, spent)] {
        a.handle(Instant::ZERO, frame(LINE, &v6));
        assert_eq!(a.stats().dropped.by(DropCause::NotCarried), count);
        assert!(a.wants(LINE).is_none() && a.wants(PortId::HOST).is_none());
    }
}

#[test]
fn a_route_of_ipv6_by_such_a_port_is_an_error() {
    for (prefix, valid) in [
        ("10.2.0.0/16", true),
        ("fd00:2::/64", false),
        ("::/0", false),
    ] {
        let text = format!("{PLAIN_IP}[[route]]\nprefix = \"{prefix}\"\nport = \"radio\"\n");
        let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
        let error = config.validate().err().map(|error| error.to_string());
        assert_eq!(error.is_none(), valid, "{prefix}");
        assert!(error.is_none_or(|it| it.contains("carries IPv4 alone") && it.contains(prefix)));
    }
    // What a routing daemon says finds its end at the port.
    let text = PLAIN_IP.replace("[host]", "routing = \"kernel\"\n[host]");
    let mut a = gateway(&text);
    let change = RouteChange::Add {
        prefix: "fd00:2::".parse().unwrap(),
        length: 64,
        port: LINE,
        via: NeighbourId::PEER,
    };
    a.handle(Instant::ZERO, Input::Route(change));
    a.handle(
        Instant::ZERO,
        frame(PortId::HOST, &udp("fd00:1::2", "fd00:2::2", 60, 0)),
    );
    assert_eq!(a.stats().dropped.by(DropCause::NotCarried), 1);
}
