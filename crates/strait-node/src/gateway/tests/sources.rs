//! Where a packet's source may lie, by where the packet came from.

use super::*;

const TAP: &str = r#"
name = "a"
[host]
kind = "tap"
addresses = ["10.1.0.1/24", "fd00:1::1/64"]
[[port]]
name = "line"
kind = "udp"
[[port]]
name = "other"
kind = "udp"
[[route]]
prefix = "10.2.0.0/16"
port = "line"
[[route]]
prefix = "10.1.0.128/25"
port = "line"
[[route]]
prefix = "10.3.0.0/16"
port = "other"
[[route]]
prefix = "10.4.0.0/16"
port = "host"
[[route]]
prefix = "fd00:2::/32"
port = "line"
"#;

fn by(port: u8) -> Hop {
    Hop {
        port: PortId(port),
        to: NeighbourId::PEER,
    }
}

/// Whether a packet that came by port 1 is refused for its source.
fn refused(text: &str, src: &str, dst: &str) -> bool {
    let mut gateway = gateway(text);
    gateway.take_packet(Instant::ZERO, udp(src, dst, 100, 0), by(1));
    gateway.check();
    gateway.stats().dropped.by(DropCause::WrongSource) == 1
}

#[test]
fn a_source_that_nobody_has_is_refused_everywhere() {
    for text in [SERIAL, TAP, &RELAY.replace("10.9.0.1/30", "10.1.0.1/24")] {
        for src in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "224.0.0.5",
            "239.1.1.1",
            "255.255.255.255",
        ] {
            assert!(refused(text, src, "10.1.0.2"), "{src}");
        }
        for src in [
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.2.0.2",
            "ff02::1",
            "ff0e::1",
            // 6to4 and translated, of an address that nobody has.
            "2002:7f00:1::1",
            "2002:e000:5::1",
            "64:ff9b::127.0.0.1",
        ] {
            assert!(refused(text, src, "fd00:1::2"), "{src}");
        }
        assert!(!refused(text, "2002:a02:2::1", "fd00:1::2"));
        assert!(!refused(text, "64:ff9b::192.0.2.1", "fd00:1::2"));
        assert!(!refused(text, "192.0.2.7", "10.1.0.2"));
    }
}

#[test]
fn a_destination_that_only_a_host_itself_has_is_refused() {
    for dst in ["127.0.0.1", "0.0.0.0"] {
        assert!(refused(SERIAL, "10.2.0.2", dst), "{dst}");
    }
    for dst in ["::1", "::", "::ffff:127.0.0.1", "::ffff:10.1.0.2"] {
        assert!(refused(SERIAL, "fd00:2::2", dst), "{dst}");
    }
}

#[test]
fn the_gateways_own_addresses_come_by_no_link() {
    let any = SERIAL.replace("baud = 9600", "baud = 9600\nany_source = true");
    for text in [SERIAL, &any] {
        assert!(refused(text, "10.9.0.1", "10.1.0.2"));
        assert!(refused(text, "fd00:9::1", "fd00:1::2"));
        // The other end of the same small network does.
        assert!(!refused(text, "10.9.0.2", "10.1.0.2"));
        assert!(!refused(text, "fd00:9::2", "fd00:1::2"));
    }
}

#[test]
fn a_source_lies_behind_the_port_that_leads_to_it() {
    let any = TAP.replace("kind = \"udp\"", "kind = \"udp\"\nany_source = true");
    for (src, wrong) in [
        ("10.2.0.2", false),
        // On the Ethernet, behind a router on it, and beyond the line all the same.
        ("10.1.0.7", true),
        ("10.4.0.7", true),
        ("10.1.0.200", false),
        // Beyond another link, and beyond nobody knows which.
        ("10.3.0.1", true),
        ("192.0.2.1", false),
    ] {
        assert_eq!(refused(TAP, src, "10.1.0.2"), wrong, "{src}");
        assert!(!refused(&any, src, "10.1.0.2"), "{src}");
    }
    assert!(refused(TAP, "fd00:1::7", "fd00:1::2"));
    assert!(!refused(TAP, "fd00:2::7", "fd00:1::2"));
}

#[test]
fn a_host_side_is_told_by_a_route_beside_the_only_way() {
    let told = "[[route]]\nprefix = \"10.1.0.0/24\"\nport = \"host\"\n";
    let told = alloc::format!("{SERIAL}{told}");
    assert!(!refused(SERIAL, "10.1.0.7", "10.1.0.2"));
    assert!(refused(&told, "10.1.0.7", "10.1.0.2"));
    // All else goes by the line as before.
    let mut gateway = gateway(&told);
    let packet = udp("10.1.0.7", "10.2.0.2", 100, 0);
    gateway.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    assert!(pull(&mut gateway, LINE, Instant::ZERO, 200).len() > 100);
}

#[test]
fn a_way_that_no_route_names_takes_what_lies_beyond_another() {
    // Down by a broadcast that nobody answers by, back by a line.
    let one_way = RELAY.replace("[[route]]\nprefix = \"10.1.0.0/24\"\nport = \"west\"\n", "");
    assert!(!refused(&one_way, "10.3.0.7", "10.9.0.1"));
    assert!(refused(RELAY, "10.3.0.7", "10.9.0.1"));
    // Where routes change by themselves, ways there and back differ for a while.
    let kernel = RELAY.replace("[host]", "routing = \"kernel\"\n[host]");
    assert!(!refused(&kernel, "10.3.0.7", "10.9.0.1"));
}

#[test]
fn a_hosts_networks_tell_of_sources_and_not_of_ways() {
    let told = SERIAL.replace(
        "[host]",
        "[host]\nnetworks = [\"10.1.0.0/24\", \"10.7.0.0/16\"]",
    );
    // Everything goes by the line all the same.
    let mut gateway = gateway(&told);
    let packet = udp("10.1.0.7", "10.7.0.2", 100, 0);
    gateway.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    assert!(pull(&mut gateway, LINE, Instant::ZERO, 200).len() > 100);
    let longer = "[[route]]\nprefix = \"10.7.3.0/24\"\nport = \"line\"\n";
    let told = alloc::format!("{told}{longer}");
    for (src, wrong) in [("10.1.0.7", true), ("10.7.0.7", true), ("10.7.3.7", false)] {
        assert_eq!(refused(&told, src, "10.9.0.1"), wrong, "{src}");
    }
}

#[test]
fn routes_that_change_by_themselves_tell_of_no_source() {
    let kernel = RELAY.replace(
        "[host]",
        "routing = \"kernel\"\n[host]\nnetworks = [\"10.7.0.0/16\"]",
    );
    let mut gateway = gateway(&kernel);
    let at_host = |prefix: &str| {
        Input::Route(RouteChange::Add {
            prefix: prefix.parse().unwrap(),
            length: 24,
            port: PortId::HOST,
            via: NeighbourId::PEER,
        })
    };
    // A router at the host side leads to both for now.
    gateway.handle(Instant::ZERO, at_host("10.8.0.0"));
    gateway.handle(Instant::ZERO, at_host("10.7.3.0"));
    for (src, refused) in [("10.8.0.7", 0), ("10.7.3.7", 0), ("10.7.0.7", 1)] {
        gateway.take_packet(Instant::ZERO, udp(src, "10.9.0.1", 100, 0), by(1));
        let dropped = gateway.stats().dropped.by(DropCause::WrongSource);
        assert_eq!(dropped, refused, "{src}");
    }
}

#[test]
fn addresses_of_one_link_go_no_further() {
    let lost = |text: &str, src: &str, dst: &str| {
        let mut gateway = gateway(text);
        gateway.take_packet(Instant::ZERO, udp(src, dst, 100, 0), by(1));
        gateway.stats().dropped.total()
    };
    // A line between two TUN interfaces is one link; an Ethernet behind it another.
    assert_eq!(lost(SERIAL, "fe80::2", "fe80::1"), 0);
    assert_eq!(lost(TAP, "fe80::2", "fe80::1"), 1);
    assert_eq!(lost(TAP, "169.254.0.2", "10.1.0.2"), 1);
    assert_eq!(lost(RELAY, "169.254.0.2", "10.3.0.2"), 1);
    // What routers say to all others is how they find each other.
    assert_eq!(lost(TAP, "fe80::2", "ff02::5"), 0);
    assert_eq!(lost(TAP, "fe80::2", "ff02::1:6"), 0);
}

#[test]
fn chatter_that_may_pass_needs_no_source() {
    let mut discover = Vec::new();
    let ends = (
        "0.0.0.0:68".parse().unwrap(),
        "255.255.255.255:67".parse().unwrap(),
    );
    ip::build_udp(ends.0, ends.1, 0, 64, 0, 0, &[1; 40], &mut discover);
    let open = SERIAL.replace("baud = 9600", "baud = 9600\npass_chatter = [\"dhcp\"]");
    let mut gateway = gateway(&open);
    gateway.take_packet(Instant::ZERO, discover.clone(), by(1));
    assert_eq!(
        pull_all(&mut gateway, PortId::HOST, Instant::ZERO),
        [discover]
    );
}
