//! Ports whose links are made reliable.

use super::*;

mod ages;
mod paper;

const HOP: PortId = PortId(1);
const LEFT: PortId = PortId(1);
const RIGHT: PortId = PortId(2);

const END: &str = r#"
name = "end"
[host]
addresses = ["10.9.0.1/30"]
[[port]]
name = "hop"
kind = "udp"
profile = "hbh"
"#;

/// Between two ends: 10.1 is to the left, 10.2 to the right.
const RELAY: &str = r#"
name = "relay"
[host]
[[port]]
name = "left"
kind = "udp"
profile = "hbh"
[[port]]
name = "right"
kind = "udp"
profile = "hbh"
[[route]]
prefix = "10.1.0.0/16"
port = "left"
[[route]]
prefix = "10.2.0.0/16"
port = "right"
"#;

fn node(text: &str, seed: u64) -> Gateway {
    let config: NodeConfig = config_text::parse("test.toml", text).unwrap();
    up(Gateway::seeded(&config, seed, &[]).unwrap(), text)
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Lets frames go between ports that are joined, until nobody has anything to send.
fn talk(now: Instant, nodes: &mut [Gateway], joined: &[[(usize, PortId); 2]]) {
    for node in nodes.iter_mut() {
        node.handle(now, Input::Timeout);
    }
    for _ in 0..1000 {
        let mut quiet = true;
        for ends in joined {
            for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                while nodes[from.0].wants(from.1).is_some() {
                    let octets = pull(&mut nodes[from.0], from.1, now, 2000);
                    if octets.is_empty() {
                        break;
                    }
                    nodes[to.0].handle(now, frame(to.1, &octets));
                    quiet = false;
                }
            }
        }
        nodes.iter().for_each(Node::check);
        if quiet {
            return;
        }
    }
    panic!("they never stop");
}

const PAIR: [[(usize, PortId); 2]; 1] = [[(0, HOP), (1, HOP)]];
const CHAIN: [[(usize, PortId); 2]; 2] = [[(0, HOP), (1, LEFT)], [(1, RIGHT), (2, HOP)]];

#[test]
fn a_packet_stays_with_its_node_until_the_next_one_has_it() {
    let mut nodes = [node(END, 1), node(END, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let bytes = udp("10.1.0.2", "10.2.0.2", 500, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
    let octets = pull(&mut nodes[0], HOP, ms(1), 2000);
    assert_eq!(octets.len(), 500 + 1 + 10 + 4);
    assert!(fates(&mut nodes[0]).is_empty());
    assert_eq!(nodes[0].stats().held(), 1);
    nodes[1].handle(ms(2), frame(HOP, &octets));
    assert_eq!(pull_all(&mut nodes[1], PortId::HOST, ms(2)), [bytes]);
    // The acknowledgement waits for a packet that takes it along, and none comes.
    talk(ms(300), &mut nodes, &PAIR);
    assert_eq!(nodes[0].stats().held(), 1);
    talk(ms(360), &mut nodes, &PAIR);
    let ended = fates(&mut nodes[0]);
    assert_eq!(ended.len(), 1);
    assert!(matches!(ended[0].fate, Fate::Forwarded { port: HOP, .. }));
    // What the way back took is none of the packet's time.
    assert!(ended[0].ended < ms(2));
}

#[test]
fn a_node_that_stops_wants_no_more_time() {
    let mut nodes = [node(END, 1), node(END, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let bytes = udp("10.1.0.2", "10.2.0.2", 500, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
    pull(&mut nodes[0], HOP, ms(1), 2000);
    assert!(nodes[0].wake().is_some());
    nodes[0].handle(ms(2), Input::Command(Command::Stop));
    assert_eq!(nodes[0].wake(), None);
}

#[test]
fn ends_whose_checks_differ_say_so_and_send_nothing() {
    let short = END.replace("\"hbh\"", "\"hbh\"\ncheck = 16");
    let mut nodes = [node(END, 1), node(&short, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    nodes[0].handle(
        ms(1),
        frame(PortId::HOST, &udp("10.1.0.2", "10.2.0.2", 500, 0)),
    );
    talk(ms(10), &mut nodes, &PAIR);
    for node in &nodes {
        let hop = &node.stats().ports[1].hop;
        assert_eq!((hop.other_check, hop.other_format, hop.foreign), (1, 0, 0));
    }
    assert_eq!(nodes[0].stats().held(), 1);
}

/// A frame that tells of the longest packets fits where those do.
#[test]
fn parity_of_the_longest_packet_goes() {
    for check in [16, 32] {
        let keys = "hbh = { reliability = [{ class = \"standard\", parity = 2 }] }";
        let text = END.replace("\"hbh\"", &format!("\"hbh\"\ncheck = {check}\n{keys}"));
        let mut nodes = [node(&text, 1), node(&text, 2)];
        talk(ms(0), &mut nodes, &PAIR);
        let bytes = udp("10.1.0.2", "10.2.0.2", nodes[0].ports[1].queue.mtu, 0);
        for _ in 0..4 {
            nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
        }
        talk(ms(1), &mut nodes, &PAIR);
        assert_eq!(pull_all(&mut nodes[1], PortId::HOST, ms(2)).len(), 4);
        nodes[0].handle(ms(3), Input::Timeout);
        assert_eq!(nodes[0].stats().ports[1].hop.parities, 2);
    }
}

/// A packet alone, lost: what makes it again follows by itself, after a pause, and goes before what
/// came meanwhile of its class.
#[test]
fn a_parity_frame_has_the_turn_of_its_class() {
    let text = END.replace(
        "\"hbh\"",
        "\"hbh\"\nhbh = { reliability = [{ class = \"voice\", parity = 3 }] }",
    );
    let mut nodes = [node(&text, 1), node(&text, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let call = |number: usize| udp("10.1.0.2", "10.2.0.2", 60 + number, 46);
    // The other end learns that there are such frames.
    nodes[0].handle(ms(1), frame(PortId::HOST, &call(0)));
    talk(ms(1), &mut nodes, &PAIR);
    talk(ms(62), &mut nodes, &PAIR);
    pull_all(&mut nodes[1], PortId::HOST, ms(100));
    nodes[0].handle(ms(1000), frame(PortId::HOST, &call(1)));
    assert_eq!(nodes[0].stats().ports[1].hop.parities, 1);
    pull(&mut nodes[0], HOP, ms(1000), 2000);
    nodes[0].handle(ms(1059), Input::Timeout);
    let early = pull_all(&mut nodes[0], HOP, ms(1059));
    assert!(early.iter().all(|octets| octets[0] != 0x0c), "{early:x?}");
    nodes[0].handle(ms(1061), Input::Timeout);
    nodes[0].handle(ms(1061), frame(PortId::HOST, &call(2)));
    let octets = pull(&mut nodes[0], HOP, ms(1061), 2000);
    assert_eq!(octets[0], 0x0c);
    nodes[1].handle(ms(1061), frame(HOP, &octets));
    assert_eq!(pull_all(&mut nodes[1], PortId::HOST, ms(1061)), [call(1)]);
    assert_eq!(nodes[1].stats().ports[1].hop.restored, 1);
}

#[test]
fn a_relay_hands_on_what_one_way_was_lost_and_repeated() {
    let mut nodes = [node(END, 1), node(RELAY, 2), node(END, 3)];
    talk(ms(0), &mut nodes, &CHAIN);
    let bytes = udp("10.1.0.2", "10.2.0.2", 500, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
    // Lost.
    pull(&mut nodes[0], HOP, ms(1), 2000);
    talk(ms(300), &mut nodes, &CHAIN);
    assert_eq!(pull_all(&mut nodes[2], PortId::HOST, ms(300)).len(), 0);
    talk(ms(400), &mut nodes, &CHAIN);
    let came = pull_all(&mut nodes[2], PortId::HOST, ms(400));
    talk(ms(720), &mut nodes, &CHAIN);
    assert_eq!(nodes[0].stats().ports[1].hop.repeated, 1);
    assert_eq!(came.len(), 1);
    // One hop less, and nothing else.
    assert_eq!(ip::digest(&came[0]), ip::digest(&bytes));
    talk(ms(2000), &mut nodes, &CHAIN);
    assert!(nodes.iter().all(|node| node.stats().held() == 0));
}

#[test]
fn a_packet_that_comes_by_two_ways_leaves_once() {
    let two = END.replace("name = \"hop\"", "name = \"one\"")
        + "[[port]]\nname = \"two\"\nkind = \"udp\"\nprofile = \"hbh\"\n"
        + "[[route]]\nprefix = \"10.2.0.0/16\"\nport = \"one\"\n"
        + "[[route]]\nprefix = \"10.1.0.0/16\"\nport = \"host\"\n";
    let back = two
        .replace("10.2", "10.3")
        .replace("10.1", "10.2")
        .replace("10.3", "10.1");
    let joined = [[(0, LEFT), (1, LEFT)], [(0, RIGHT), (1, RIGHT)]];
    let mut nodes = [node(&two, 1), node(&back, 2)];
    talk(ms(0), &mut nodes, &joined);
    let bytes = udp("10.1.0.2", "10.2.0.2", 300, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
    let octets = pull(&mut nodes[0], LEFT, ms(1), 2000);
    nodes[1].handle(ms(2), frame(LEFT, &octets));
    // The acknowledgement is still to come when the route changes.
    let change = RouteChange::Add {
        prefix: "10.2.0.0".parse().unwrap(),
        length: 16,
        port: RIGHT,
        via: NeighbourId::PEER,
    };
    nodes[0].handle(ms(3), Input::Route(change));
    talk(ms(4), &mut nodes, &joined);
    assert_eq!(pull_all(&mut nodes[1], PortId::HOST, ms(5)), [bytes]);
    assert_eq!(nodes[1].stats().dropped.by(DropCause::Duplicate), 1);
    talk(ms(5000), &mut nodes, &joined);
    assert!(nodes.iter().all(|node| node.stats().held() == 0));
}

#[test]
fn packets_wait_while_there_is_no_way_and_take_the_next_one() {
    let two = END.replace("name = \"hop\"", "name = \"one\"")
        + "[[port]]\nname = \"two\"\nkind = \"udp\"\nprofile = \"hbh\"\n"
        + "[[route]]\nprefix = \"10.2.0.0/16\"\nport = \"one\"\n"
        + "[[route]]\nprefix = \"10.1.0.0/16\"\nport = \"host\"\n";
    let back = two
        .replace("10.2", "10.3")
        .replace("10.1", "10.2")
        .replace("10.3", "10.1");
    let mut nodes = [node(&two, 1), node(&back, 2)];
    talk(ms(0), &mut nodes, &[[(0, LEFT), (1, LEFT)]]);
    let bytes = udp("10.1.0.2", "10.2.0.2", 300, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
    // It leaves and is lost, and a routing protocol finds that out before it finds another way.
    pull(&mut nodes[0], LEFT, ms(1), 2000);
    let (prefix, length) = ("10.2.0.0".parse().unwrap(), 16);
    let gone = RouteChange::Remove { prefix, length };
    nodes[0].handle(ms(2), Input::Route(gone));
    assert_eq!(nodes[0].stats().dropped.total(), 0);
    assert_eq!(nodes[0].stats().held(), 1);
    let (port, via) = (RIGHT, NeighbourId::PEER);
    let found = RouteChange::Add {
        prefix,
        length,
        port,
        via,
    };
    nodes[0].handle(ms(3000), Input::Route(found));
    talk(ms(3001), &mut nodes, &[[(0, RIGHT), (1, RIGHT)]]);
    assert_eq!(pull_all(&mut nodes[1], PortId::HOST, ms(3002)), [bytes]);
    talk(ms(8000), &mut nodes, &[[(0, RIGHT), (1, RIGHT)]]);
    assert!(nodes.iter().all(|node| node.stats().held() == 0));
}

#[test]
fn senders_stop_before_a_relay_has_to_drop() {
    let mut nodes = [node(END, 1), node(RELAY, 2), node(END, 3)];
    talk(ms(0), &mut nodes, &CHAIN);
    // Nothing leaves to the right: its window fills, then the queue before it.
    let near = &CHAIN[..1];
    for number in 0..190u16 {
        let socket = |text: &str| SocketAddr::new(text.parse::<IpAddr>().unwrap(), 9);
        let (src, dst) = (socket("10.1.0.2"), socket("10.2.0.2"));
        let mut bytes = Vec::new();
        ip::build_udp(src, dst, 0, 64, number, 0, &[1; 472], &mut bytes);
        nodes[0].handle(ms(u64::from(number)), frame(PortId::HOST, &bytes));
        talk(ms(u64::from(number)), &mut nodes, near);
    }
    let relay = nodes[1].stats();
    assert_eq!(relay.dropped.total(), 0);
    assert!((20..100).contains(&relay.held()), "{}", relay.held());
    assert!(nodes[0].stats().held() > 90, "{}", nodes[0].stats().held());
    // It clears, and everything goes on.
    let mut came = 0;
    for at in 200..600 {
        talk(ms(at * 10), &mut nodes, &CHAIN);
        came += pull_all(&mut nodes[2], PortId::HOST, ms(at * 10)).len();
    }
    assert_eq!(came, 190);
    assert!(nodes.iter().all(|node| node.stats().dropped.total() == 0));
    assert!(nodes.iter().all(|node| node.stats().held() == 0));
}

#[test]
fn a_host_side_that_is_not_there_holds_nobody_up() {
    let other = END.replace("10.9.0.1", "10.9.0.2");
    let mut nodes = [node(END, 1), node(&other, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let event = PortEvent::Down(DownCause::Device);
    let port = PortId::HOST;
    // What waits already is no reason to stop anybody.
    for number in 0..60 {
        let bytes = udp("10.1.0.2", "10.2.0.2", 1000, 0);
        nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
        talk(ms(1 + number), &mut nodes, &PAIR);
    }
    let told = nodes[1].ports[1].link.stop(NeighbourId::PEER);
    assert_ne!(told, 0);
    nodes[1].handle(ms(70), Input::Port { port, event });
    talk(ms(75), &mut nodes, &PAIR);
    assert_eq!(nodes[1].ports[1].link.stop(NeighbourId::PEER), 0);
    let before = nodes[1].stats().dropped.by(DropCause::NoRoute);
    for number in 0..400 {
        let bytes = udp("10.1.0.2", "10.2.0.2", 100 + number, 0);
        let now = ms(100 + 10 * number as u64);
        nodes[0].handle(now, frame(PortId::HOST, &bytes));
        talk(now, &mut nodes, &PAIR);
    }
    talk(ms(5000), &mut nodes, &PAIR);
    // Whoever sent them is told so.
    assert!(!pull_all(&mut nodes[0], PortId::HOST, ms(5000)).is_empty());
    let dropped = nodes[1].stats().dropped;
    assert!(dropped.by(DropCause::NoRoute) >= before + 400);
    assert_eq!(nodes[0].stats().dropped.total(), 0);
}

#[test]
fn what_is_sent_again_waits_for_a_better_class() {
    let mut nodes = [node(END, 1), node(END, 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let plain = udp("10.1.0.2", "10.2.0.2", 500, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &plain));
    pull(&mut nodes[0], HOP, ms(1), 2000);
    // Its probe is due, and so is a voice packet.
    nodes[0].handle(ms(900), Input::Timeout);
    let voice = udp("10.1.0.2", "10.2.0.2", 91, 46);
    nodes[0].handle(ms(900), frame(PortId::HOST, &voice));
    let first = pull(&mut nodes[0], HOP, ms(900), 2000);
    let second = pull(&mut nodes[0], HOP, ms(900), 2000);
    assert!(first.len() < 120 && second.len() > 500);
    assert_eq!(nodes[0].stats().held(), 2);
}

#[test]
fn a_packet_that_its_frames_cannot_hold_is_refused_with_the_size_that_they_can() {
    let mut a = Gateway::new(&config_text::parse("test.toml", END).unwrap()).unwrap();
    a.handle(
        ms(0),
        Input::Port {
            port: HOP,
            event: PortEvent::Up(PortState {
                frame_octets_max: 1400,
                ..state(LineRate::new(300_000, 8))
            }),
        },
    );
    let most = a.ports[1].queue.mtu;
    assert_eq!(most, 1400 - strait_wire::hbh::OVERHEAD_OCTETS_MAX);
}

#[test]
fn keys_that_do_not_go_together_are_refused() {
    let wrong = |text: &str| {
        let config: NodeConfig = config_text::parse("test.toml", text).unwrap();
        Gateway::new(&config).unwrap_err().to_string()
    };
    let other = END.replace("\"hbh\"", "\"segments\"\nhbh = { window = 9 }");
    assert!(wrong(&other).contains("hbh"));
    let serial = END.replace("\"udp\"", "\"serial\"\nbaud = 9600");
    assert!(wrong(&serial).contains("frames"));
    for (keys, key) in [
        ("window = 2049", "window"),
        ("window = 0", "window"),
        ("ack_every = 0", "ack_every"),
        ("stop = 10", "stop"),
        ("reliability = [{ class = \"voice\" }]", "reliability"),
        ("reliability = [{ class = \"none\", retries = 1 }]", "none"),
        (
            "reliability = [{ class = \"voice\", retries = 1, delivery = \"99 %\" }]",
            "not both",
        ),
        (
            "reliability = [{ class = \"voice\", parity = 0 }]",
            "parity",
        ),
        (
            "reliability = [{ class = \"voice\", parity = 17 }]",
            "parity",
        ),
        (
            "format = \"paper\", reliability = [{ class = \"voice\", parity = 3 }]",
            "parity",
        ),
    ] {
        let text = END.replace("\"hbh\"", &format!("\"hbh\"\nhbh = {{ {keys} }}"));
        assert!(wrong(&text).contains(key), "{keys}");
    }
    let narrow = END.replace("\"hbh\"", "\"hbh\"\nframe = 1313");
    assert!(wrong(&narrow).contains("1314"));
}

#[test]
fn a_port_that_names_a_class_which_the_policy_has_not_is_refused() {
    let hop = "name = \"a\"\n[host]\n[[port]]\nname = \"net\"\nkind = \"udp\"\nprofile = \"hbh\"\n\
               neighbours = [{ name = \"b\" }]\n\
               hbh = { reliability = [{ class = \"CLASS\", retries = 1 }] }\n";
    let radio = "name = \"a\"\n[host]\n[[port]]\nname = \"net\"\nkind = \"hf\"\n\
                 neighbours = [{ name = \"b\", hf = \"0.0.0.2\" }]\n\
                 hf = { address = \"0.0.0.1\", without_arq = [\"CLASS\"] }\n";
    for (text, key) in [(hop, "hbh.reliability"), (radio, "hf.without_arq")] {
        let made = |class: &str| {
            let text = text.replace("CLASS", class);
            let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
            Gateway::new(&config).map_err(|error| alloc::format!("{error}"))
        };
        assert!(made("voice").is_ok(), "{:?}", made("voice").err());
        let fault = made("nope").unwrap_err();
        assert!(fault.contains(key) && fault.contains("`nope`"), "{fault}");
    }
}

/// An IPv4 packet of IPsec's ESP: an index, a number, and what nobody reads.
fn esp(number: u32) -> Vec<u8> {
    let mut bytes = udp("10.1.0.2", "10.2.0.2", 300, 0);
    bytes[9] = 50;
    bytes[20..24].copy_from_slice(&0x1234_5678u32.to_be_bytes());
    bytes[24..28].copy_from_slice(&number.to_be_bytes());
    bytes[10..12].fill(0);
    let words = bytes[..20].chunks(2);
    let sum: u32 = words
        .map(|it| u32::from(it[0]) << 8 | u32::from(it[1]))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    bytes
}

#[test]
fn packets_of_ipsec_pass_as_they_are() {
    let mut nodes = [node(END, 1), node(RELAY, 2), node(END, 3)];
    talk(ms(0), &mut nodes, &CHAIN);
    let mut at = 1;
    for number in 1..4 {
        let bytes = esp(number);
        nodes[0].handle(ms(at), frame(PortId::HOST, &bytes));
        talk(ms(at), &mut nodes, &CHAIN);
        let came = pull_all(&mut nodes[2], PortId::HOST, ms(at));
        assert_eq!(came.len(), 1);
        // One hop less in its outer header, and nothing else.
        assert_eq!(came[0][20..], bytes[20..]);
        assert_eq!(ip::digest(&came[0]), ip::digest(&bytes));
        at += 1000;
        talk(ms(at), &mut nodes, &CHAIN);
    }
}

#[test]
fn a_class_of_few_packets_stops_nobody_for_good() {
    let few = "[policy]\ndefault = \"few\"\n[[policy.class]]\nname = \"few\"\npackets = 1\n";
    let relay = format!("{RELAY}{few}");
    let mut nodes = [node(END, 1), node(&relay, 2), node(END, 3)];
    talk(ms(0), &mut nodes, &CHAIN);
    for at in 1..5 {
        let at = ms(at * 1000);
        let bytes = udp("10.1.0.2", "10.2.0.2", 300, 0);
        nodes[0].handle(at, frame(PortId::HOST, &bytes));
        talk(at, &mut nodes, &CHAIN);
        assert_eq!(pull_all(&mut nodes[2], PortId::HOST, at).len(), 1);
    }
}

#[test]
fn senders_stop_for_the_neighbour_whose_own_way_is_full() {
    let east = "name = \"right\"\nkind = \"udp\"\nneighbours = [\
        { name = \"c\", rate = \"9600 bit/s\" }, { name = \"d\", rate = \"256 kbit/s\" }]\n";
    let hops = "name = \"right\"\nkind = \"udp\"\nprofile = \"hbh\"\n";
    let way = "port = \"right\"\nvia = \"d\"";
    let relay = RELAY.replace(hops, east).replace("port = \"right\"", way);
    let mut nodes = [node(END, 1), node(&relay, 2)];
    talk(ms(0), &mut nodes, &CHAIN[..1]);
    for number in 0..190 {
        let bytes = udp("10.1.0.2", "10.2.0.2", 500, 0);
        nodes[0].handle(ms(number), frame(PortId::HOST, &bytes));
        talk(ms(number), &mut nodes, &CHAIN[..1]);
    }
    assert_ne!(nodes[1].ports[1].link.stop(NeighbourId::PEER), 0);
    let held = nodes[1].stats().held();
    assert!((10..100).contains(&held), "{held}");
    assert_eq!(nodes[1].stats().dropped.total(), 0);
    // It clears, and everything goes on.
    let mut now = 190;
    while nodes.iter().any(|node| node.stats().held() > 0) {
        now += 10;
        assert!(now < 20_000);
        while !pull(&mut nodes[1], RIGHT, ms(now), 1400).is_empty() {}
        talk(ms(now), &mut nodes, &CHAIN[..1]);
    }
    assert_eq!(nodes[1].ports[1].link.stop(NeighbourId::PEER), 0);
}
