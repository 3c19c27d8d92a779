//! Two stations that hear each other, with clients.

use super::*;

const BIND: &[u8] = b"\x90\xeb\0\0\x04\x01\x40\x12\0";

/// A request of a client: with ARQ, confirmed by the other client, of use for a minute.
fn request(to: [u8; 4], u_pdu: &[u8]) -> Vec<u8> {
    let mut out = Vec::from(*b"\x90\xeb\0\0\0\x14\x34");
    out.extend_from_slice(&to);
    out.extend_from_slice(b"\x1a\0\0\x1e\0");
    out.push(u_pdu.len() as u8);
    out.extend_from_slice(u_pdu);
    out[4] = (out.len() - 5) as u8;
    out
}

fn station(address: &str, keys: &str) -> Gateway {
    let node = NODE
        .replace("0.0.0.2", "0.0.0.3")
        .replace("0.0.0.1", address);
    let mut gateway = radio_of(&node, &format!("sis = {{}}{keys}"));
    assert_eq!(client(&mut gateway, BIND)[5], 3);
    gateway
}

fn say(gateway: &mut Gateway, now: Instant, octets: &[u8]) {
    let (id, event) = (CLIENT, StreamEvent::Data(octets));
    gateway.handle(now, Input::Stream { id, event });
}

/// Lets two stations hear each other; the octets of their turns.
fn run(pair: &mut [Gateway; 2], from: Instant, until: Instant) -> Vec<u8> {
    let (mut now, mut turn) = (from, None);
    let mut all = Vec::new();
    while now < until {
        for number in 0..2 {
            let mut octets = Vec::new();
            let room = Room {
                octets: 150_000,
                starts: now,
                until: None,
                to: Neighbours::ALL,
            };
            while turn.is_none() && pair[number].wants(LINE).is_some() {
                let meta = pair[number].poll_transmit(now, LINE, room, &mut octets);
                let Some(meta) = meta else { break };
                if meta.turn.is_some_and(|it| it.key_up) {
                    let blocks = meta.turn.map_or(0, |it| it.blocks);
                    let more = &mut octets;
                    while pair[number].poll_transmit(now, LINE, room, more).is_some() {}
                    turn = Some((number, now + BLOCK * blocks, core::mem::take(more)));
                    medium(&mut pair[1 - number], now, PortEvent::Carrier(true));
                }
            }
            pair[number].check();
        }
        let wakes = pair.iter().filter_map(|it| it.wake().map(|wake| wake.at));
        let next = wakes.chain(turn.as_ref().map(|it| it.1)).min();
        let next = next.unwrap_or(until).min(until);
        now = next.max(now + Duration::from_millis(1));
        if let Some((number, _, octets)) = turn.take_if(|it| it.1 <= now) {
            medium(&mut pair[number], now, PortEvent::Drained);
            pair[1 - number].handle(now, frame(LINE, &octets));
            medium(&mut pair[1 - number], now, PortEvent::Carrier(false));
            all.extend(octets);
        }
        for gateway in &mut *pair {
            gateway.handle(now, Input::Timeout);
        }
    }
    all
}

fn medium(gateway: &mut Gateway, now: Instant, event: PortEvent) {
    gateway.handle(now, Input::Port { port: LINE, event });
}

/// What a client is told, without preamble and size; whether it is there doesn't matter.
fn primitives(gateway: &mut Gateway) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let octets = told(gateway);
    let mut rest = octets.as_slice();
    while rest.len() > 5 {
        let size = usize::from(rest[3]) << 8 | usize::from(rest[4]);
        all.extend((rest[5] != 17).then(|| rest[5..5 + size].to_vec()));
        rest = &rest[5 + size..];
    }
    all
}

/// A.2.1.6: data may be for any node. Both ways a link is made by a call of whom the other doesn't
/// list, and goes on for both clients.
#[test]
fn clients_of_nodes_that_do_not_list_each_other_exchange_data_with_arq() {
    let mut pair = [station("0.0.0.1", ""), station("0.0.0.2", "")];
    let second = Instant::from_secs;
    say(&mut pair[0], second(1), &request([0xe0, 0, 0, 2], b"hello"));
    run(&mut pair, second(1), second(20));
    let there = primitives(&mut pair[1]);
    // With ARQ, from access point 4 of the other's address.
    assert_eq!(there, [b"\x15\x34\xe0\0\0\x02\x14\xe0\0\0\x01\0\x05hello"]);
    assert_eq!(
        primitives(&mut pair[0]),
        [b"\x16\x04\xe0\0\0\x02\0\x05hello"]
    );
    say(&mut pair[1], second(20), &request([0xe0, 0, 0, 1], b"hi"));
    run(&mut pair, second(20), second(40));
    assert_eq!(
        primitives(&mut pair[0]),
        [b"\x15\x34\xe0\0\0\x01\x14\xe0\0\0\x02\0\x02hi"]
    );
    assert_eq!(primitives(&mut pair[1]), [b"\x16\x04\xe0\0\0\x01\0\x02hi"]);
    for gateway in &pair {
        let stats = &gateway.stats().ports[1];
        let counts = &stats.hf.counts;
        assert_eq!((counts.links_made, counts.links_lost), (1, 0));
        assert!(stats.hf.peers.iter().all(|peer| !peer.link.linked));
        assert_eq!(gateway.stats().admitted, 0);
    }
}

/// Where either end rejects or ignores strangers, the client hears that the node doesn't answer.
#[test]
fn data_for_a_node_that_takes_no_strangers_is_rejected() {
    let (reject, ignore) = (", strangers = \"reject\"", ", strangers = \"ignore\"");
    for (here, there) in [("", reject), ("", ignore), (reject, ""), (ignore, "")] {
        let mut pair = [station("0.0.0.1", here), station("0.0.0.2", there)];
        let second = Instant::from_secs;
        say(&mut pair[0], second(1), &request([0xe0, 0, 0, 2], b"hello"));
        if !here.is_empty() {
            let told = primitives(&mut pair[0]);
            assert_eq!(told, [b"\x17\x34\xe0\0\0\x02\0\x05hello"]);
            continue;
        }
        run(&mut pair, second(1), second(90));
        assert_eq!(primitives(&mut pair[1]), [] as [Vec<u8>; 0]);
        let told = primitives(&mut pair[0]);
        // A node that refuses calls may take one later: that is tried while the data lives.
        let reason = if there == ignore { 0x34 } else { 0x14 };
        let expected = [&[0x17, reason][..], b"\xe0\0\0\x02\0\x05hello"].concat();
        assert_eq!(told, [expected], "{there}");
    }
}

/// Two stations that list each other.
fn neighbours(keys: [&str; 2]) -> [Gateway; 2] {
    let [a, b] = [("0.0.0.2", "0.0.0.1"), ("0.0.0.1", "0.0.0.2")];
    [(a, keys[0]), (b, keys[1])].map(|((far, own), keys)| {
        let node = NODE.replace("0.0.0.2", "FAR").replace("0.0.0.1", own);
        let keys = format!("sis = {{}}, {keys}");
        let mut gateway = radio_of(&node.replace("FAR", far), keys.trim_end_matches(", "));
        assert_eq!(client(&mut gateway, BIND)[5], 3);
        gateway
    })
}

const GIVEN: &str = "idle = \"5 s\", unanswered = 2, without_calls = [\"b\"]";

/// B.3 (3), (3.1): where something else has made the link, data goes and is taken without a call,
/// and the link stays; a station that says that there is none is called, and gets the data then.
#[test]
fn data_goes_without_a_call_where_something_else_makes_links() {
    let second = Instant::from_secs;
    for (keys, calls) in [([GIVEN, GIVEN], 0), ([GIVEN, ""], 1), (["", GIVEN], 1)] {
        let mut pair = neighbours(keys);
        say(&mut pair[0], second(1), &request([0xe0, 0, 0, 2], b"hello"));
        let mut air = run(&mut pair, second(1), second(30));
        let there = primitives(&mut pair[1]);
        let expected = [b"\x15\x34\xe0\0\0\x02\x14\xe0\0\0\x01\0\x05hello"];
        assert_eq!(there, expected, "{keys:?}");
        let told = primitives(&mut pair[0]);
        assert_eq!(told, [b"\x16\x04\xe0\0\0\x02\0\x05hello"], "{keys:?}");
        // It is there much later, for the other direction as well.
        if calls == 0 {
            air.extend(run(&mut pair, second(30), second(90)));
            say(&mut pair[1], second(90), &request([0xe0, 0, 0, 1], b"hi"));
            air.extend(run(&mut pair, second(90), second(110)));
            assert_eq!(primitives(&mut pair[0]).len(), 1);
            assert_eq!(primitives(&mut pair[1])[0][0], 22);
        }
        let sent = d_pdus(&air);
        let kinds: Vec<u8> = sent.iter().map(|it| it.body.kind().number()).collect();
        let words = kinds.iter().filter(|kind| **kind == 8).count();
        assert_eq!(words > 0, calls > 0, "{keys:?}: {kinds:?}");
        let given = keys[0] == GIVEN;
        assert_eq!(kinds[0], if given { 3 } else { 8 }, "{keys:?}");
        assert_eq!(kinds.contains(&15), given && calls > 0, "{keys:?}");
    }
}

/// A node that isn't there is called once it didn't answer, and then its data is rejected; and it
/// hears that a link is broken which it breaks (B.3 (3.6)).
#[test]
fn a_link_that_something_else_made_ends_without_an_answer_or_by_a_word() {
    let mut a = radio(&format!("sis = {{}}, {GIVEN}"));
    assert_eq!(client(&mut a, BIND)[5], 3);
    say(&mut a, Instant::ZERO, &request([0xe0, 0, 0, 2], b"hello"));
    let sent = send_into_the_void(&mut a, Instant::from_secs(58));
    let kinds: Vec<u8> = d_pdus(&sent)
        .iter()
        .map(|it| it.body.kind().number())
        .collect();
    assert!(kinds[0] == 3 && kinds.ends_with(&[8]), "{kinds:?}");
    assert!(!kinds.contains(&0), "{kinds:?}");
    assert_eq!(primitives(&mut a), [b"\x17\x34\xe0\0\0\x02\0\x05hello"]);
    let mut a = radio(&format!("sis = {{}}, {GIVEN}"));
    assert_eq!(client(&mut a, BIND)[5], 3);
    say(&mut a, Instant::ZERO, &request([0xe0, 0, 0, 2], b"hello"));
    let broken = answer(&mut a, &of("0.0.0.2", "0.0.0.1", true, &[0x44]));
    let first = &d_pdus(&broken)[0];
    assert_eq!(first.body.segment().map(|it| it.octets), Some(&[0x50][..]));
}

#[test]
fn neighbours_without_calls_are_named() {
    for (keys, told) in [
        ("without_calls = [\"c\"]", "no neighbour `c`"),
        ("broadcast_only = true, without_calls = [\"b\"]", "no links"),
    ] {
        let node = NODE.replace("KEYS", keys);
        let config: NodeConfig = config_text::parse("test.toml", &node).unwrap();
        let wrong = config.validate().unwrap_err().to_string();
        assert!(
            wrong.contains("hf.without_calls") && wrong.contains(told),
            "{wrong}"
        );
    }
}
