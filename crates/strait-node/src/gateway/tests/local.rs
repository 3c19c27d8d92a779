//! What a gateway keeps off its line: chatter, and questions that it answers itself.

use strait_core::local::{Question, Volume};
use strait_wire::ip::{Chatter, build_echo, parse_echo};

use super::*;

fn node(extra: &str) -> Gateway {
    gateway(&alloc::format!("{SERIAL}{extra}"))
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn echo(kind: EchoKind, ends: (&str, &str), ident: u16, sequence: u16, octets: usize) -> Vec<u8> {
    let (src, dst) = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
    let payload: Vec<u8> = (0..octets)
        .map(|at| (at + sequence as usize) as u8)
        .collect();
    let mut out = Vec::new();
    let numbers = (ident, sequence);
    assert!(build_echo(
        kind, src, dst, 0, 62, 9, numbers.0, numbers.1, &payload, &mut out
    ));
    out
}

const ENDS: (&str, &str) = ("10.1.0.2", "10.2.0.2");

fn ask(sequence: u16) -> Vec<u8> {
    echo(EchoKind::Request, ENDS, 7, sequence, 56)
}

fn reply(sequence: u16) -> Vec<u8> {
    echo(EchoKind::Reply, (ENDS.1, ENDS.0), 7, sequence, 56)
}

/// Gives a packet to the host side: what comes back there, and whether anything wants to the line.
fn offer(gateway: &mut Gateway, now: Instant, bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    gateway.handle(now, frame(PortId::HOST, bytes));
    let back = pull_all(gateway, PortId::HOST, now);
    let out = pull(gateway, LINE, now, 100_000);
    gateway.check();
    (back, !out.is_empty())
}

/// Gives a packet as if it had come by the line.
fn arrive(gateway: &mut Gateway, now: Instant, bytes: &[u8]) {
    gateway.take_packet(
        now,
        bytes.into(),
        Hop {
            port: LINE,
            to: NeighbourId::PEER,
        },
    );
    pull_all(gateway, PortId::HOST, now);
}

#[test]
fn chatter_stays_off_the_line_and_is_counted_by_kind() {
    for profile in ["segments", "plain"] {
        let mut gateway = node(&alloc::format!("profile = \"{profile}\"\n"));
        let query = |port: u16, dst: &str| {
            let mut out = Vec::new();
            let dst = SocketAddr::new(dst.parse().unwrap(), port);
            let src = SocketAddr::new("10.1.0.2".parse().unwrap(), 40_000);
            ip::build_udp(src, dst, 0, 1, 0, 0, &[0; 40], &mut out);
            out
        };
        for _ in 0..2 {
            assert!(!offer(&mut gateway, at(1), &query(5353, "224.0.0.251")).1);
        }
        assert!(!offer(&mut gateway, at(1), &query(137, "10.2.0.255")).1);
        // Ordinary multicast, as of a routing protocol, goes.
        assert!(offer(&mut gateway, at(1), &query(698, "224.0.0.109")).1);
        let stats = gateway.stats();
        let two = Volume {
            packets: 2,
            octets: 136,
        };
        assert_eq!(stats.local.chatter(Chatter::Mdns), two);
        assert_eq!(stats.local.chatter(Chatter::Netbios).packets, 1);
        assert_eq!(stats.dropped.by(DropCause::Chatter), 3);
    }
}

/// An ICMPv6 message from a router to all nodes.
fn from_router(kind: u8) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0, 0, 8, 58, 255, 0xfe, 0x80];
    out.extend_from_slice(&[0; 13]);
    out.extend_from_slice(&[9, 0xff, 2]);
    out.extend_from_slice(&[0; 13]);
    out.extend_from_slice(&[1, kind, 0, 0, 0, 0, 0, 0, 0]);
    out
}

/// Routers of IPv6 speak from link-local addresses, which nobody reaches through a gateway on an
/// Ethernet. A TUN interface has one of its own, and its routers become neighbours.
#[test]
fn hellos_from_link_local_routers_leave_no_ethernet() {
    let mut hello = Vec::new();
    let router = "fe80::a:2".parse().unwrap();
    assert!(ip::build_ospf3_hello(router, 10, &mut hello));
    let mut bridged = gateway(&SERIAL.replace("[host]", "[host]\nkind = \"tap\""));
    for port in [PortId::HOST, LINE] {
        let to = NeighbourId::PEER;
        bridged.take_packet(at(1), hello.clone(), Hop { port, to });
    }
    let kept_off = bridged.stats().local.chatter(Chatter::LinkRouting);
    assert_eq!(kept_off.packets, 2);
    assert!(pull(&mut bridged, LINE, at(1), 100_000).is_empty());
    assert!(offer(&mut node(""), at(1), &hello).1);
}

/// A query to many hosts.
fn to_many(dst: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let src = if dst.starts_with('[') {
        "[fd00:2::2]:4000"
    } else {
        "10.2.0.2:4000"
    };
    let ends = (src.parse().unwrap(), dst.parse().unwrap());
    assert!(ip::build_udp(
        ends.0, ends.1, 0, 1, 0, 0, &[0; 40], &mut out
    ));
    out
}

#[test]
fn chatter_from_the_line_stays_off_the_hosts_and_is_counted_by_kind() {
    let heard = [
        (Chatter::RouterDiscovery, from_router(134)),
        (Chatter::NeighbourDiscovery, from_router(136)),
        (Chatter::Mld, from_router(130)),
        (Chatter::Mdns, to_many("224.0.0.251:5353")),
        (Chatter::Dhcp, to_many("[ff02::1:2]:547")),
        (Chatter::Dhcp, to_many("255.255.255.255:68")),
        (Chatter::Broadcast, to_many("255.255.255.255:9")),
    ];
    let by_line = Hop {
        port: LINE,
        to: NeighbourId::PEER,
    };
    for profile in ["segments", "plain"] {
        let profile = alloc::format!("profile = \"{profile}\"\n");
        let mut closed = node(&profile);
        for (kind, bytes) in &heard {
            let before = closed.stats().local.chatter(*kind).packets;
            closed.take_packet(at(1), bytes.clone(), by_line);
            assert_eq!(closed.stats().local.chatter(*kind).packets, before + 1);
            assert_eq!(
                pull_all(&mut closed, PortId::HOST, at(1)).len(),
                0,
                "{kind:?}"
            );
        }
        assert_eq!(
            closed.stats().dropped.by(DropCause::Chatter),
            heard.len() as u64
        );
        // What a routing protocol says to its neighbours is none.
        closed.take_packet(at(1), to_many("224.0.0.109:698"), by_line);
        assert_eq!(pull_all(&mut closed, PortId::HOST, at(1)).len(), 1);
        for (kind, bytes) in &heard {
            let mut open = node(&alloc::format!(
                "{profile}pass_chatter = [\"{}\"]\n",
                kind.name()
            ));
            open.take_packet(at(1), bytes.clone(), by_line);
            assert_eq!(
                pull_all(&mut open, PortId::HOST, at(1)).len(),
                1,
                "{kind:?}"
            );
            open.check();
        }
    }
}

#[test]
fn chatter_goes_from_link_to_link_only_if_both_let_it() {
    let west = Hop {
        port: LINE,
        to: NeighbourId::PEER,
    };
    let bytes = {
        let mut out = Vec::new();
        let ends = (
            "10.1.0.2:137".parse().unwrap(),
            "10.3.0.9:137".parse().unwrap(),
        );
        ip::build_udp(ends.0, ends.1, 0, 9, 0, 0, &[0; 40], &mut out);
        out
    };
    for (ports, crosses) in [
        (vec![], false),
        (vec!["west"], false),
        (vec!["east"], false),
        (vec!["west", "east"], true),
    ] {
        let mut text = String::from(RELAY);
        for port in ports {
            let named = alloc::format!("name = \"{port}\"\n");
            text = text.replace(
                &named,
                &alloc::format!("{named}pass_chatter = [\"netbios\"]\n"),
            );
        }
        let mut relay = gateway(&text);
        relay.take_packet(at(1), bytes.clone(), west);
        let chatter = relay.stats().local.chatter(Chatter::Netbios).packets;
        assert_eq!(
            (relay.ports[2].held(), chatter),
            (u64::from(crosses), u64::from(!crosses))
        );
    }
}

#[test]
fn a_port_lets_out_the_chatter_that_its_configuration_names() {
    let mut gateway = node("pass_chatter = [\"netbios\"]\n");
    let bytes = {
        let mut out = Vec::new();
        let ends = (
            "10.1.0.2:137".parse().unwrap(),
            "10.2.0.9:137".parse().unwrap(),
        );
        ip::build_udp(ends.0, ends.1, 0, 9, 0, 0, &[0; 40], &mut out);
        out
    };
    assert!(offer(&mut gateway, at(1), &bytes).1);
    assert_eq!(gateway.stats().dropped.total(), 0);
    let error = config_text::parse::<NodeConfig>(
        "x.toml",
        &alloc::format!("{SERIAL}pass_chatter = [\"mdn\"]\n"),
    );
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with("x.toml:9: `pass_chatter` in [[port]]: no chatter `mdn`"),
        "{text}"
    );
}

#[test]
fn echo_is_answered_here_only_where_configured() {
    for (extra, answers) in [
        ("", false),
        ("[answers]\necho = \"10 s\"\n", true),
        ("[answers]\npreset = \"network-adapter\"\n", true),
        (
            "[answers]\npreset = \"network-adapter\"\necho = \"0 s\"\n",
            false,
        ),
    ] {
        let mut gateway = node(extra);
        assert_eq!(offer(&mut gateway, at(0), &ask(1)), (vec![], true));
        arrive(&mut gateway, at(500), &reply(1));
        let (back, crossed) = offer(&mut gateway, at(1000), &ask(2));
        assert_eq!(
            (back.len(), crossed),
            (usize::from(answers), !answers),
            "{extra}"
        );
        assert_eq!(gateway.stats().answered, u64::from(answers));
    }
}

#[test]
fn the_answer_is_what_the_asked_host_would_have_said() {
    let mut gateway = node("[answers]\necho = \"10 s\"\n");
    for ends in [ENDS, ("fd00:1::2", "fd00:2::2")] {
        let mut question = echo(EchoKind::Request, ends, 7, 1, 56);
        offer(&mut gateway, at(0), &question);
        let mut first = echo(EchoKind::Reply, (ends.1, ends.0), 7, 1, 56);
        arrive(&mut gateway, at(500), &first);
        question = echo(EchoKind::Request, ends, 8, 300, 40);
        let (back, crossed) = offer(&mut gateway, at(600), &question);
        assert!(!crossed);
        // Another ping's number, its octets, the stored hop limit.
        first = echo(EchoKind::Reply, (ends.1, ends.0), 8, 300, 40);
        let (ours, theirs) = (parse_echo(&back[0]).unwrap(), parse_echo(&first).unwrap());
        assert_eq!(ours, theirs);
        assert_eq!(back[0][ours.payload], first[theirs.payload]);
        let info = PacketInfo::parse(&back[0]).unwrap();
        assert_eq!(
            (info.src, info.dst),
            (ends.1.parse().unwrap(), ends.0.parse().unwrap())
        );
        assert_eq!(info.hop_limit, 62);
    }
    let answered = gateway.stats().local.answered(Question::Echo);
    assert_eq!((answered.packets, answered.octets), (2, 68 + 88));
}

#[test]
fn a_stored_reply_ends_at_its_time_and_answers_do_not_prolong_it() {
    let mut gateway = node("[answers]\necho = \"10 s\"\n");
    offer(&mut gateway, at(0), &ask(1));
    arrive(&mut gateway, at(500), &reply(1));
    let end = Instant::from_nanos(10_500_000_000 - 1);
    for (sequence, now) in [(2, at(5000)), (3, end)] {
        let (back, crossed) = offer(&mut gateway, now, &ask(sequence));
        assert_eq!((back.len(), crossed), (1, false));
    }
    assert_eq!(offer(&mut gateway, at(10_500), &ask(4)), (vec![], true));
    // Nothing comes back: nothing is answered.
    assert_eq!(offer(&mut gateway, at(11_500), &ask(5)), (vec![], true));
    assert_eq!(gateway.stats().local.answered(Question::Echo).packets, 2);
}

/// A reply that somebody on the line made up answers for ten seconds, whatever is configured.
#[test]
fn what_only_one_reply_says_answers_for_ten_seconds() {
    let mut gateway = node("[answers]\necho = \"60 s\"\n");
    let answered = |gateway: &mut Gateway, now: Instant, sequence: u16| {
        let (back, crossed) = offer(gateway, now, &ask(sequence));
        assert_eq!(back.is_empty(), crossed);
        !crossed
    };
    assert!(!answered(&mut gateway, at(0), 1));
    arrive(&mut gateway, at(500), &reply(1));
    // The same for the same question makes it no surer.
    arrive(&mut gateway, at(5000), &reply(1));
    let end = at(10_500);
    assert!(answered(&mut gateway, end - Duration::from_nanos(1), 2));
    assert!(!answered(&mut gateway, end, 3));
    // Another question has the same answer.
    arrive(&mut gateway, at(11_000), &reply(3));
    let end = at(71_000);
    assert!(answered(&mut gateway, end - Duration::from_nanos(1), 4));
    assert!(!answered(&mut gateway, end, 5));
    arrive(&mut gateway, at(72_000), &reply(5));
    // Somebody says that the host is further away.
    let mut far = reply(5);
    ip::decrement_hop_limit(&mut far);
    arrive(&mut gateway, at(73_000), &far);
    let end = at(83_000);
    assert!(answered(&mut gateway, end - Duration::from_nanos(1), 6));
    assert!(!answered(&mut gateway, end, 7));
    gateway.check();
}

#[test]
fn nothing_is_answered_once_the_far_side_is_known_down() {
    let down = |gateway: &mut Gateway| {
        let event = PortEvent::Down(DownCause::Carrier);
        gateway.handle(at(600), Input::Port { port: LINE, event });
        let event = PortEvent::Up(state(LineRate::new(9600, 10)));
        gateway.handle(at(601), Input::Port { port: LINE, event });
    };
    let unreachable = |gateway: &mut Gateway| {
        let mut error = Vec::new();
        let kind = IcmpError::Unreachable(Unreachable::NoRoute);
        assert!(ip::build_icmp_error(
            kind,
            "10.9.0.2".parse().unwrap(),
            &ask(2),
            &mut error
        ));
        arrive(gateway, at(600), &error);
    };
    let failed = |gateway: &mut Gateway| {
        let input = Input::TxDone {
            port: LINE,
            id: TxId(1),
            to: NeighbourId::PEER,
            ok: Some(false),
        };
        gateway.handle(at(600), input);
    };
    let rerouted = |gateway: &mut Gateway| {
        let change = RouteChange::Remove {
            prefix: "10.7.0.0".parse().unwrap(),
            length: 16,
        };
        gateway.handle(at(600), Input::Route(change));
    };
    let events: [&dyn Fn(&mut Gateway); 4] = [&down, &unreachable, &failed, &rerouted];
    for event in events {
        let mut gateway = node("[answers]\necho = \"10 s\"\n");
        offer(&mut gateway, at(0), &ask(1));
        arrive(&mut gateway, at(500), &reply(1));
        event(&mut gateway);
        assert_eq!(gateway.stats().local.forgotten, 1);
        let (back, _) = offer(&mut gateway, at(1000), &ask(2));
        assert_eq!(back.len(), 0);
        assert_eq!(gateway.stats().answered, 0);
    }
}

#[test]
fn only_the_same_question_is_answered_and_only_by_what_was_asked_for() {
    let mut gateway = node("[answers]\necho = \"10 s\"\n");
    let crosses = |gateway: &mut Gateway, bytes: &[u8]| offer(gateway, at(600), bytes).1;
    // Out of the blue, of another ping, of another size, damaged: nothing is stored.
    arrive(&mut gateway, at(0), &reply(1));
    offer(&mut gateway, at(0), &ask(1));
    arrive(
        &mut gateway,
        at(500),
        &echo(EchoKind::Reply, (ENDS.1, ENDS.0), 8, 1, 56),
    );
    arrive(
        &mut gateway,
        at(500),
        &echo(EchoKind::Reply, (ENDS.1, ENDS.0), 7, 1, 57),
    );
    let mut damaged = reply(1);
    *damaged.last_mut().unwrap() ^= 1;
    arrive(&mut gateway, at(500), &damaged);
    assert_eq!(gateway.stats().local.stored, 0);
    assert!(crosses(&mut gateway, &ask(2)));
    arrive(&mut gateway, at(500), &reply(2));
    assert!(!crosses(&mut gateway, &ask(3)));
    // Longer, from another, to another: other questions.
    assert!(crosses(
        &mut gateway,
        &echo(EchoKind::Request, ("10.1.0.3", ENDS.1), 7, 1, 56)
    ));
    assert!(crosses(
        &mut gateway,
        &echo(EchoKind::Request, (ENDS.0, "10.2.0.3"), 7, 1, 56)
    ));
    // One that may not go as far asks a router on the way: traceroute.
    let mut near = ask(4);
    while PacketInfo::parse(&near).unwrap().hop_limit > 3 {
        ip::decrement_hop_limit(&mut near);
    }
    assert!(crosses(&mut gateway, &near));
    assert!(crosses(
        &mut gateway,
        &echo(EchoKind::Request, ENDS, 7, 5, 57)
    ));
}

#[test]
fn the_stores_are_bounded() {
    let mut gateway = node("[answers]\necho = \"10 s\"\n");
    for number in 0..3000u32 {
        let now = at(u64::from(number));
        let dst = IpAddr::from((0x0a02_0000 + number).to_be_bytes()).to_string();
        let ends = (ENDS.0, dst.as_str());
        offer(&mut gateway, now, &echo(EchoKind::Request, ends, 7, 1, 8));
        arrive(
            &mut gateway,
            now,
            &echo(EchoKind::Reply, (ends.1, ends.0), 7, 1, 8),
        );
    }
    let local = &gateway.stats().local;
    assert_eq!((local.stored, local.displaced), (3000, 3000 - 1024));
}
