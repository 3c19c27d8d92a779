//! A port with a station of its own, as an IP client: what becomes of packets on an air on which
//! nobody answers.

use strait_core::id::Neighbours;
use strait_core::node::{Owner, Side, SocketId, StreamEvent, StreamId, StreamOp};
use strait_s5066::Address;
use strait_s5066::d_pdu::{Body, DPdu, NonArq, Segment, parse};

use super::*;

mod pairs;

const NODE: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[policy]
default = "all"
class = [{ name = "all", packets = 30 }]
[[port]]
name = "hf"
kind = "hf"
mtu = 1400
neighbours = [{ name = "b", hf = "0.0.0.2" }, { name = "all", hf = "16.0.0.1" }]
hf = { address = "0.0.0.1", copies = 3, KEYS }
[[route]]
prefix = "224.0.0.0/4"
port = "hf"
via = "all"
[[route]]
prefix = "10.2.0.0/16"
port = "hf"
via = "b"
[[route]]
prefix = "fd00:2::/64"
port = "hf"
via = "b"
"#;

const BLOCK: Duration = Duration::from_millis(480);

fn radio(keys: &str) -> Gateway {
    radio_of(NODE, keys)
}

fn radio_of(node: &str, keys: &str) -> Gateway {
    let config: NodeConfig = config_text::parse("test.toml", &node.replace("KEYS", keys)).unwrap();
    let mut gateway = Gateway::new(&config).unwrap();
    let rate = LineRate::new(9600, 8);
    let air = PortState {
        tx_rate: rate,
        rx_rate: rate,
        frame_octets_max: u32::MAX,
        block: BLOCK,
        latency: BLOCK,
        notice: Notice::NONE,
    };
    for (port, state) in [
        (PortId::HOST, state(LineRate::new(1_000_000_000, 8))),
        (LINE, air),
    ] {
        let event = PortEvent::Up(state);
        gateway.handle(Instant::ZERO, Input::Port { port, event });
    }
    gateway
}

/// Lets the station send until `until`, and nobody answer; the octets of its turns.
fn send_into_the_void(gateway: &mut Gateway, until: Instant) -> Vec<u8> {
    let mut now = Instant::ZERO;
    let mut all = Vec::new();
    let mut drained = None;
    while now < until {
        let room = Room {
            octets: 150_000,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        };
        while gateway.wants(LINE).is_some() {
            let Some(meta) = gateway.poll_transmit(now, LINE, room, &mut all) else {
                break;
            };
            if let Some(turn) = meta.turn.filter(|turn| turn.key_up) {
                drained = Some(now + BLOCK * turn.blocks);
            }
        }
        gateway.check();
        let wake = gateway.wake().map(|wake| wake.at);
        let next = wake.into_iter().chain(drained).min();
        now = next.unwrap_or(until).max(now + Duration::from_millis(1));
        let ended = drained.filter(|at| *at <= now);
        if ended.is_some() {
            drained = None;
            let event = PortEvent::Drained;
            gateway.handle(now, Input::Port { port: LINE, event });
        } else {
            gateway.handle(now, Input::Timeout);
        }
    }
    all
}

fn d_pdus(mut octets: &[u8]) -> Vec<DPdu<'_>> {
    let mut all = Vec::new();
    while let Ok((d_pdu, length)) = parse(octets, true) {
        all.push(d_pdu);
        octets = &octets[length..];
    }
    all
}

#[test]
fn multicast_goes_to_its_group_without_arq_and_repeated() {
    let mut a = radio("");
    let packet = udp("10.1.0.2", "239.1.2.3", 300, 0);
    a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    let octets = send_into_the_void(&mut a, Instant::from_secs(30));
    let sent = d_pdus(&octets);
    let to_group = sent.iter().filter(|it| it.to.to_string() == "16.0.0.1");
    let kinds: Vec<u8> = to_group.map(|it| it.body.kind().number()).collect();
    // Each copy is one segment; nobody was called for it.
    assert_eq!(kinds, [7, 7, 7]);
    assert_eq!((a.stats().forwarded, a.stats().held()), (1, 0));
    assert!(sent.iter().all(|it| !matches!(it.body, Body::Data(..))));
}

#[test]
fn with_a_neighbour_that_is_named_all_is_as_in_edition_3() {
    for (keys, first) in [("", 0x1e), ("edition_3 = [\"b\"]", 0x10)] {
        let mut a = radio(keys);
        let packet = udp("10.1.0.2", "10.2.0.2", 100, 0);
        a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
        let sent = send_into_the_void(&mut a, Instant::from_secs(2));
        let calls = d_pdus(&sent);
        let octets = calls[0].body.segment().map(|it| it.octets);
        assert_eq!(octets, Some(&[first][..]), "{keys}");
    }
    let node = NODE.replace("KEYS", "edition_3 = [\"c\"]");
    let config: NodeConfig = config_text::parse("test.toml", &node).unwrap();
    let told = config.validate().unwrap_err().to_string();
    let expected = "no neighbour `c`";
    assert!(
        told.contains("hf.edition_3") && told.contains(expected),
        "{told}"
    );
}

#[test]
fn a_call_that_nobody_answers_costs_the_whole_queue_where_that_is_wanted() {
    let drop_all = "unanswered = 2, give_up = { lost_link = true }";
    for (keys, dropped) in [(drop_all, 5), ("unanswered = 2", 0)] {
        let mut a = radio(keys);
        for nth in 0..5 {
            let packet = udp("10.1.0.2", "10.2.0.2", 100 + nth, 0);
            a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
        }
        let sent = send_into_the_void(&mut a, Instant::from_secs(200));
        let calls = d_pdus(&sent);
        assert!(
            calls.len() > 1 && calls.iter().all(|it| it.body.kind().number() == 8),
            "{calls:?}"
        );
        assert!(a.stats().ports[1].hf.counts.links_lost > 0);
        assert_eq!(
            a.stats().dropped.by(DropCause::Undelivered),
            dropped,
            "{keys}"
        );
        assert_eq!(a.stats().held(), 5 - dropped);
    }
}

#[test]
fn a_queue_that_would_be_too_long_is_dropped_as_a_whole() {
    let mut a = radio("give_up = { octets = \"497 B\" }");
    for nth in 0..4 {
        let packet = udp("10.1.0.2", "10.2.0.2", 120 + nth, 0);
        a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    }
    // The first three have 363 octets and four around each; with the fourth these are 498.
    assert_eq!(a.stats().held(), 1);
    assert_eq!(a.stats().dropped.by(DropCause::QueueOctets), 3);
}

#[test]
fn a_queue_whose_first_packet_is_too_old_is_dropped_as_a_whole() {
    let mut a = radio("give_up = { age = \"10 s\" }");
    for nth in 0..3u16 {
        let packet = udp("10.1.0.2", "10.2.0.2", 120 + usize::from(nth), 0);
        a.handle(
            Instant::from_secs(3 * u64::from(nth)),
            frame(PortId::HOST, &packet),
        );
    }
    let limit = Instant::from_secs(10);
    assert_eq!(a.wake().map(|wake| wake.at), Some(limit));
    a.handle(Instant::from_nanos(limit.as_nanos() - 1), Input::Timeout);
    assert_eq!(a.stats().held(), 3);
    a.handle(limit, Input::Timeout);
    assert_eq!(
        (a.stats().held(), a.stats().dropped.by(DropCause::Aged)),
        (0, 3)
    );
    a.check();
}

#[test]
fn what_is_given_up_for_one_neighbour_leaves_the_others_packets_as_they_are() {
    let class = "{ name = \"all\", packets = 90, queue = { kind = \"wred\", exponent = 2, profile = { DF = \
        { min = 2, max = 60, denominator = 2 } } } }";
    let node = NODE.replace("{ name = \"all\", packets = 30 }", class);
    let mut a = radio_of(&node, "give_up = { age = \"10 s\" }");
    for (at, to) in [(0, "10.2.0.2"), (1, "239.1.2.3")] {
        for nth in 0..30 {
            let packet = udp("10.1.0.2", to, 100 + nth, 0);
            a.handle(Instant::from_secs(at), frame(PortId::HOST, &packet));
        }
    }
    let by_chance = a.stats().dropped.by(DropCause::Wred);
    a.handle(Instant::from_secs(10), Input::Timeout);
    let aged = a.stats().dropped.by(DropCause::Aged);
    assert!(aged > 0 && a.stats().held() > 0);
    assert_eq!(a.stats().dropped.by(DropCause::Wred), by_chance);
    assert_eq!(a.stats().held(), 60 - by_chance - aged);
    a.check();
}

#[test]
fn longer_packets_than_the_ports_mtu_are_answered_with_it() {
    let mut a = radio("");
    for (octets, answered) in [(1400, false), (1401, true)] {
        let packet = udp("fd00:1::2", "fd00:2::2", octets, 0);
        a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
        let answer = pull(&mut a, PortId::HOST, Instant::ZERO, 2000);
        assert_eq!(!answer.is_empty(), answered, "{octets}");
        if answered {
            assert_eq!((answer[40], answer[41]), (2, 0));
            assert_eq!(answer[44..48], 1400u32.to_be_bytes());
        }
    }
    assert_eq!(a.stats().dropped.by(DropCause::TooBig), 1);
}

/// A D_PDU of a station that isn't listed, without ARQ.
fn of_stranger(to: &str, expedited: bool, octets: &[u8]) -> Vec<u8> {
    of("7.8.9.10", to, expedited, octets)
}

fn of(from: &str, to: &str, expedited: bool, octets: &[u8]) -> Vec<u8> {
    let to: Address = to.parse().unwrap();
    let piece = NonArq {
        expedited,
        c_pdu: 7,
        in_order: false,
        group: to.is_group(),
        size: octets.len() as u16,
        offset: 0,
        window: 20,
        segment: Segment::whole(octets),
    };
    let d_pdu = DPdu {
        eow: 0,
        eot: 1,
        to,
        from: from.parse().unwrap(),
        body: Body::NonArq(piece),
    };
    let mut out = Vec::new();
    d_pdu.put(&mut out);
    out
}

/// The gateway hears a transmission that ends at a moment, and what it says until some seconds
/// later.
fn answer(gateway: &mut Gateway, octets: &[u8]) -> Vec<u8> {
    let (port, now) = (LINE, Instant::ZERO);
    for event in [true, false] {
        let event = PortEvent::Carrier(event);
        gateway.handle(now, Input::Port { port, event });
        if event == PortEvent::Carrier(true) {
            gateway.handle(now, frame(LINE, octets));
        }
    }
    send_into_the_void(gateway, Instant::from_secs(5))
}

/// B.3.1.4: who isn't a neighbour hears that it is rejected, unless it is to hear nothing.
#[test]
fn a_station_that_is_no_neighbour_is_told_that_its_call_is_rejected() {
    for (keys, octets) in [("", Some(0x30)), ("strangers = \"ignore\"", None)] {
        let mut a = radio(keys);
        let sent = answer(&mut a, &of_stranger("0.0.0.1", true, &[0x10]));
        let said = d_pdus(&sent);
        let first = said.first();
        let told = first.map(|it| (it.to.to_string(), it.body.kind().number()));
        let expected = octets.map(|_| (String::from("7.8.9.10"), 8));
        assert_eq!(told, expected, "{keys}");
        let segment = first.and_then(|it| it.body.segment());
        assert_eq!(segment.map(|it| it.octets[0]), octets, "{keys}");
        assert_eq!(a.stats().ports[1].strangers, 1);
        assert_eq!(a.stats().ports[1].hf.counts.links_made, 0);
    }
    let node = NODE.replace("KEYS", "strangers = \"link\"");
    let told = config_text::parse::<NodeConfig>("test.toml", &node).unwrap_err();
    assert!(
        told.to_string().contains("`accept`, `reject`, `ignore`"),
        "{told}"
    );
}

/// What a client hears on its stream from when this was asked last.
fn told(gateway: &mut Gateway) -> Vec<u8> {
    let effects = core::iter::from_fn(|| gateway.poll_effect());
    let sent = effects.filter_map(|effect| match effect {
        Effect::Stream {
            op: StreamOp::Send(octets),
            ..
        } => Some(octets),
        _ => None,
    });
    sent.collect::<Vec<_>>().concat()
}

/// Where clients of the radio's station come.
const LISTENER: SocketId = SocketId {
    owner: Owner::port(LINE),
    n: 0,
};

/// The first of them.
const CLIENT: StreamId = StreamId {
    owner: Owner::port(LINE),
    side: Side::Client,
    n: 9,
};

/// A client connects and says something.
fn client(gateway: &mut Gateway, octets: &[u8]) -> Vec<u8> {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
    let opened = StreamEvent::Opened {
        listener: Some(LISTENER),
        src: nobody,
        dst: nobody,
        dscp: 0,
    };
    let id = CLIENT;
    for event in [
        opened,
        StreamEvent::Writable(1 << 20),
        StreamEvent::Data(octets),
    ] {
        gateway.handle(Instant::ZERO, Input::Stream { id, event });
    }
    told(gateway)
}

/// C.3.10: data without ARQ is for whom its address says, whoever sends it.
#[test]
fn a_client_gets_the_broadcasts_of_stations_that_are_no_neighbours() {
    let bind = b"\x90\xeb\0\0\x04\x01\x40\x22\0";
    for (keys, taken) in [("", true), ("strangers = \"ignore\"", false)] {
        let keys = format!("sis = {{}}, groups = [\"16.0.0.7\"], {keys}");
        let keys = keys.trim_end_matches(", ");
        for to in ["31.255.255.255", "16.0.0.7", "0.0.0.1", "16.0.0.8"] {
            let mut a = radio(keys);
            assert_eq!(client(&mut a, bind)[5], 3);
            let said = answer(&mut a, &of_stranger(to, false, b"\0\x03\x44\0hello"));
            assert!(said.is_empty(), "{to}");
            let told = told(&mut a);
            if !taken || to == "16.0.0.8" {
                // It is asked whether it is there.
                assert_eq!(told.get(5), Some(&17), "{to}");
                continue;
            }
            // An indication: without ARQ, from access point 4 of the sender as it was heard.
            assert_eq!((told[5], told[6] >> 4), (21, 3), "{to}");
            assert_eq!(told[11..23], *b"\x24\xe7\x08\x09\x0a\0\x05hello", "{to}");
        }
        // A packet of theirs comes by no route's neighbour.
        let mut a = radio(keys);
        answer(&mut a, &of_stranger("0.0.0.1", false, b"\0\0\x99\0E"));
        assert_eq!(a.stats().admitted, 0);
    }
}

/// A.1.1.3 (3), (4), A.2.1.3 (8), A.3.2.3 (3), B.3.1.4 (4): a station without links.
#[test]
fn a_station_without_links_says_so_to_clients_and_callers_and_sends_without_arq() {
    let keys = "sis = {}, broadcast_only = true";
    for caller in ["0.0.0.2", "7.8.9.10"] {
        let mut a = radio(keys);
        let sent = answer(&mut a, &of(caller, "0.0.0.1", true, &[0x10]));
        let first = &d_pdus(&sent)[0];
        assert_eq!(first.to.to_string(), caller);
        let octets = first.body.segment().map(|it| it.octets);
        assert_eq!(octets, Some(&[0x31][..]));
    }
    // A packet for a neighbour leaves without a call, as often as one for a group.
    let mut a = radio(keys);
    let packet = udp("10.1.0.2", "10.2.0.2", 300, 0);
    a.handle(Instant::ZERO, frame(PortId::HOST, &packet));
    let octets = send_into_the_void(&mut a, Instant::from_secs(30));
    let kinds: Vec<u8> = d_pdus(&octets)
        .iter()
        .map(|it| it.body.kind().number())
        .collect();
    assert_eq!(kinds, [7, 7, 7]);
    assert_eq!((a.stats().forwarded, a.stats().held()), (1, 0));
    // Who asks for ARQ isn't served; others have U_PDUs of 4096 octets.
    let mut a = radio(keys);
    let told = client(&mut a, b"\x90\xeb\0\0\x04\x01\x40\x12\0");
    assert_eq!(told[5..], [4, 4]);
    let mut a = radio(keys);
    let told = client(&mut a, b"\x90\xeb\0\0\x04\x01\x40\x22\0");
    assert_eq!(told[5..], [3, 0x40, 0x10, 0]);
    let mut request = Vec::from(*b"\x90\xeb\0\x10\x0f\x14\x34\xe0\0\0\x02\0\0\0\0\x10\0");
    request.resize(request.len() + 4096, 7);
    let size = (request.len() - 5) as u16;
    request[3..5].copy_from_slice(&size.to_be_bytes());
    let id = CLIENT;
    let event = StreamEvent::Data(&request);
    a.handle(Instant::ZERO, Input::Stream { id, event });
    let octets = send_into_the_void(&mut a, Instant::from_secs(30));
    let sent = d_pdus(&octets);
    assert!(
        sent.iter()
            .all(|it| it.body.kind().number() == 7 && it.eot > 0)
    );
    let segments = sent.iter().filter_map(|it| it.body.segment());
    // The C_PDU's octet and three of the S_PDU are ahead.
    assert_eq!(segments.map(|it| it.octets.len()).sum::<usize>(), 4096 + 4);
}
