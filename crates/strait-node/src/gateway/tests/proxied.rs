//! What a gateway with a TCP proxy does to other packets.

use strait_core::stats::ProxyRefusal;
use strait_wire::ip::build_udp;

use super::*;

const LINK: PortId = PortId(1);

fn side(own: u8, proxy: &str) -> String {
    let other = 3 - own;
    format!(
        "name = \"g{own}\"\n[host]\naddresses = [\"10.9.0.{own}/30\", \"fd00:9::{own}/64\"]\n\
         [[port]]\nname = \"link\"\nkind = \"udp\"\n[proxy]\n{proxy}\n[[proxy.partner]]\n\
         address = \"10.9.0.{other}\"\nprefixes = [\"10.{other}.0.0/24\", \"fd00:{other}::/64\"]\n"
    )
}

#[test]
fn a_class_that_the_policy_does_not_have_is_refused() {
    let text = side(1, "").replace(
        "[[proxy.partner]]",
        "[[proxy.class]]\nclass = \"nobodys\"\nconnect = \"early\"\n[[proxy.partner]]",
    );
    let config = config_text::parse("a.toml", &text).unwrap();
    let error = Gateway::new(&config).unwrap_err().to_string();
    assert!(error.contains("[[proxy.class]] nobodys"), "{error}");
    assert!(error.contains("standard"), "{error}");
}

/// Two gateways that have had a second to greet each other.
fn pair(proxy: &str) -> [Gateway; 2] {
    let mut both = [1, 2].map(|own| gateway(&side(own, proxy)));
    for ms in 0..1000 {
        let now = Instant::ZERO + Duration::from_millis(ms);
        for from in 0..2 {
            let [near, far] = &mut both;
            let (near, far) = if from == 0 { (near, far) } else { (far, near) };
            near.handle(now, Input::Timeout);
            for bytes in pull_all(near, LINK, now) {
                far.handle(now, frame(LINK, &bytes));
            }
        }
    }
    both
}

fn datagram(to: &str, port: u16) -> Vec<u8> {
    let to: SocketAddr = SocketAddr::new(to.parse().unwrap(), port);
    let from = if to.is_ipv4() {
        "10.1.0.2:5000"
    } else {
        "[fd00:1::2]:5000"
    };
    let mut packet = Vec::new();
    assert!(build_udp(
        from.parse().unwrap(),
        to,
        0,
        64,
        1,
        0,
        &[7; 300],
        &mut packet
    ));
    packet
}

/// What a host at the first gateway is told of its datagram.
fn told(gateway: &mut Gateway, to: &str, port: u16) -> Vec<Option<IcmpError>> {
    let now = Instant::ZERO + Duration::from_secs(2);
    pull_all(gateway, PortId::HOST, now);
    gateway.handle(now, frame(PortId::HOST, &datagram(to, port)));
    let packets = pull_all(gateway, PortId::HOST, now).into_iter();
    packets
        .map(|packet| ip::parse_icmp_error(&packet).map(|it| it.0))
        .collect()
}

#[test]
fn quic_to_a_partners_hosts_is_refused_in_both_families() {
    let refused = [Some(IcmpError::Unreachable(Unreachable::Port))];
    let [mut near, _] = pair("");
    for to in ["10.2.0.2", "fd00:2::2"] {
        assert_eq!(told(&mut near, to, 443), refused, "{to}");
        assert_eq!(told(&mut near, to, 444), [], "{to}");
    }
    let stats = near.stats();
    assert_eq!(stats.dropped.by(DropCause::Filtered), 2);
    let proxy = stats.proxy.unwrap();
    assert_eq!(proxy.refused_by(ProxyRefusal::Quic), 2);
    let [mut near, _] = pair("refuse_quic = false");
    assert_eq!(told(&mut near, "10.2.0.2", 443), []);
    // Nobody is there to take TCP over.
    let mut alone = gateway(&side(1, ""));
    assert_eq!(told(&mut alone, "10.2.0.2", 443), []);
}

#[test]
fn quic_from_a_link_passes() {
    let [mut near, mut far] = pair("refuse_quic = false");
    let now = Instant::ZERO + Duration::from_secs(2);
    near.handle(now, frame(PortId::HOST, &datagram("10.2.0.2", 443)));
    for bytes in pull_all(&mut near, LINK, now) {
        far.handle(now, frame(LINK, &bytes));
    }
    assert_eq!(pull_all(&mut far, PortId::HOST, now).len(), 1);
}
