//! A port whose station is somebody else's: what it says and hears by its sockets.

use strait_core::id::Neighbours;
use strait_core::node::{StreamEvent, StreamId, StreamOp};

use super::*;

const NODE: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "hf"
kind = "hf-client"
neighbours = [{ name = "b", hf = "0.0.0.2" }, { name = "all", hf = "16.0.0.1" }]
client = { server = "127.0.0.1:5066", ttl = "60 s", KEYS }
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

const OFF: [u8; 6] = [0x90, 0xeb, 0, 0, 1, 16];
const ON: [u8; 6] = [0x90, 0xeb, 0, 0, 1, 15];

/// A gateway with what its node hears, by stream.
struct Client {
    gateway: Gateway,
    said: Vec<(StreamId, Vec<u8>)>,
    streams: Vec<StreamId>,
}

impl Client {
    /// With both access points bound.
    fn bound(keys: &str) -> Self {
        let mut client = Self::connected(keys);
        for (which, sap) in [(0, 9), (1, 8)] {
            client.hear(which, 0, &[0x90, 0xeb, 0, 0, 4, 3, sap << 4, 0x08, 0x00]);
        }
        client.said.clear();
        client
    }

    fn connected(keys: &str) -> Self {
        let mut client = Self {
            gateway: gateway(&NODE.replace("KEYS", keys)),
            said: Vec::new(),
            streams: Vec::new(),
        };
        client.collect();
        for which in 0..2 {
            client.event(which, 0, StreamEvent::Writable(1 << 20));
            let nobody = SocketAddr::from(([127, 0, 0, 1], 5066));
            let opened = StreamEvent::Opened {
                listener: None,
                src: nobody,
                dst: nobody,
                dscp: 0,
            };
            client.event(which, 0, opened);
        }
        client
    }

    fn event(&mut self, which: usize, ms: u64, event: StreamEvent<'_>) {
        let id = self.streams[which];
        let now = at(ms);
        self.gateway.handle(now, Input::Stream { id, event });
        self.collect();
    }

    fn hear(&mut self, which: usize, ms: u64, octets: &[u8]) {
        self.event(which, ms, StreamEvent::Data(octets));
    }

    fn send(&mut self, ms: u64, packet: &[u8]) {
        self.gateway.handle(at(ms), frame(PortId::HOST, packet));
        self.collect();
    }

    fn collect(&mut self) {
        let mut fates = Vec::new();
        while let Some(effect) = self.gateway.poll_effect() {
            match effect {
                Effect::Stream { id, op } => match op {
                    StreamOp::Connect { dst, .. } => {
                        assert_eq!(dst.to_string(), "127.0.0.1:5066");
                        self.streams.push(id);
                    }
                    StreamOp::Send(octets) => self.said.push((id, octets)),
                    _ => {}
                },
                other => fates.push(other),
            }
        }
        self.gateway.check();
    }

    /// The requests that the node heard since this was asked last, without preamble and size.
    fn requests(&mut self) -> Vec<Vec<u8>> {
        let said = core::mem::take(&mut self.said);
        said.into_iter()
            .map(|(_, octets)| octets[5..].to_vec())
            .collect()
    }

    fn dropped(&self, cause: DropCause) -> u64 {
        self.gateway.stats().dropped.by(cause)
    }

    /// The node's word about a U_PDU for station 2.
    fn word(&mut self, which: usize, kind: u8, reason: u8, head: &[u8]) {
        let sap = 9 - which as u8;
        let mut octets = vec![0x90, 0xeb, 0, 0, 8 + head.len() as u8, kind];
        octets.extend([reason << 4 | sap, 0xe0, 0, 0, 2, 0, head.len() as u8]);
        octets.extend(head);
        self.hear(which, 100, &octets);
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// EF.
const EF: u8 = 46;

#[test]
fn it_binds_both_access_points_and_is_up_with_the_first() {
    let mut client = Client::connected("");
    let said: Vec<Vec<u8>> = client
        .said
        .iter()
        .map(|(_, octets)| octets.clone())
        .collect();
    // ARQ, confirmed by the node, as they arrive.
    assert_eq!(said[0], [0x90, 0xeb, 0, 0, 4, 1, 0x90, 0x16, 0x00]);
    assert_eq!(said[1], [0x90, 0xeb, 0, 0, 4, 1, 0x80, 0x16, 0x00]);
    assert!(!client.gateway.stats().ports[1].up);
    client.send(0, &udp("10.1.0.2", "10.2.0.2", 100, 0));
    client.said.clear();
    client.hear(0, 1, &[0x90, 0xeb, 0, 0, 4, 3, 0x90, 0x08, 0x00]);
    assert!(client.gateway.stats().ports[1].up);
    // What waited goes at once.
    assert_eq!(client.requests().len(), 1);
    client.event(0, 2, StreamEvent::Reset(104));
    assert!(!client.gateway.stats().ports[1].up);
    assert_eq!(client.dropped(DropCause::Undelivered), 1);
    client.gateway.handle(at(1002), Input::Timeout);
    client.collect();
    assert_eq!(client.streams.len(), 3);
}

#[test]
fn each_version_has_its_client_and_each_code_point_its_priority() {
    let mut client = Client::bound("without_arq = [\"voice\"], copies = 3");
    let packet = udp("10.1.0.2", "10.2.0.2", 100, 0);
    client.send(0, &packet);
    let request = &client.requests()[0];
    // Priority 0, SAP 9, node 2; ARQ by the node; 30 times 2 s.
    let head = [20, 0x09, 0xe0, 0, 0, 2, 0x16, 0x00, 0x00, 30];
    assert_eq!(request[..head.len()], head);
    assert_eq!(request[head.len() + 2..], packet);
    let packet = udp("fd00:1::2", "fd00:2::2", 100, EF);
    client.send(0, &packet);
    let request = &client.requests()[0];
    // Priority 10, SAP 8; without ARQ, twice more.
    let head = [20, 0xa8, 0xe0, 0, 0, 2, 0x22, 0x20, 0x00, 30];
    assert_eq!(request[..head.len()], head);
    assert_eq!(request[head.len() + 2..head.len() + 4], [0x86, 0xdd]);
    assert_eq!(request[head.len() + 4..], packet);
}

#[test]
fn multicast_goes_to_its_group_without_arq_and_repeated() {
    let mut client = Client::bound("copies = 2");
    client.send(0, &udp("10.1.0.2", "239.1.2.3", 100, 0));
    let request = &client.requests()[0];
    let head = [20, 0x09, 0xf0, 0, 0, 1, 0x22, 0x10, 0x00, 30];
    assert_eq!(request[..head.len()], head);
    // It isn't confirmed: its stay is over.
    assert_eq!(
        (
            client.gateway.stats().forwarded,
            client.gateway.stats().held()
        ),
        (1, 0)
    );
}

#[test]
fn packets_stay_until_the_node_tells_what_became_of_them() {
    let mut client = Client::bound("");
    let packets: Vec<_> = (0..3)
        .map(|nth| udp("10.1.0.2", "10.2.0.2", 100 + nth, 0))
        .collect();
    for packet in &packets {
        client.send(0, packet);
    }
    assert_eq!(client.gateway.stats().held(), 3);
    client.word(0, 22, 0, &packets[1][..40]);
    assert_eq!(
        (
            client.gateway.stats().forwarded,
            client.gateway.stats().held()
        ),
        (1, 2)
    );
    client.word(0, 23, 1, &packets[0][..40]);
    assert_eq!(client.dropped(DropCause::Aged), 1);
    client.word(0, 23, 3, &packets[2][..40]);
    assert_eq!(client.dropped(DropCause::Undelivered), 1);
    assert_eq!(client.gateway.stats().held(), 0);
}

#[test]
fn a_queue_whose_first_packet_is_too_old_is_dropped_as_a_whole() {
    let mut client = Client::bound("give_up = { age = \"10 s\" }");
    client.hear(0, 1, &OFF);
    let packet = udp("10.1.0.2", "10.2.0.2", 100, 0);
    for ms in [1, 4000, 9000] {
        client.send(ms, &packet);
    }
    client.gateway.handle(at(10_000), Input::Timeout);
    assert_eq!(client.gateway.stats().held(), 3);
    client.gateway.handle(at(10_001), Input::Timeout);
    assert_eq!(client.gateway.stats().held(), 0);
    assert_eq!(client.dropped(DropCause::Aged), 3);
}

#[test]
fn while_the_node_takes_nothing_packets_wait_here_and_a_failed_call_costs_all_of_them() {
    let mut client = Client::bound("give_up = { octets = \"1000 B\", lost_link = true }");
    let packet = udp("10.1.0.2", "10.2.0.2", 100, 0);
    client.send(0, &packet);
    client.hear(0, 1, &OFF);
    client.requests();
    let other = udp("10.1.0.2", "10.2.0.2", 101, 0);
    for _ in 0..3 {
        client.send(1, &other);
    }
    assert_eq!(
        (client.requests().len(), client.gateway.stats().held()),
        (0, 4)
    );
    client.word(0, 23, 3, &packet[..40]);
    assert_eq!(client.dropped(DropCause::Undelivered), 4);
    // 1000 octets may wait; one more costs all of them.
    for _ in 0..9 {
        client.send(200, &other);
    }
    assert_eq!(client.gateway.stats().held(), 9);
    client.send(200, &other);
    assert_eq!(client.dropped(DropCause::QueueOctets), 9);
    client.hear(0, 201, &ON);
    assert_eq!(client.requests().len(), 1);
}

#[test]
fn a_version_whose_client_the_node_refuses_is_dropped() {
    let mut client = Client::connected("");
    client.hear(0, 0, &[0x90, 0xeb, 0, 0, 4, 3, 0x90, 0x08, 0x00]);
    client.hear(1, 0, &[0x90, 0xeb, 0, 0, 2, 4, 3]);
    client.said.clear();
    client.send(0, &udp("fd00:1::2", "fd00:2::2", 100, 0));
    client.send(0, &udp("10.1.0.2", "10.2.0.2", 100, 0));
    assert_eq!(client.dropped(DropCause::PortDown), 1);
    assert_eq!(client.requests().len(), 1);
}

#[test]
fn longer_packets_than_the_node_takes_are_answered_with_its_mtu() {
    let mut client = Client::connected("");
    for (which, sap) in [(0, 9), (1, 8)] {
        // 1400 octets.
        client.hear(which, 0, &[0x90, 0xeb, 0, 0, 4, 3, sap << 4, 0x05, 0x78]);
    }
    client.said.clear();
    client.send(0, &udp("fd00:1::2", "fd00:2::2", 1399, 0));
    assert_eq!(client.dropped(DropCause::TooBig), 1);
    assert_eq!(client.requests().len(), 0);
    let mut out = Vec::new();
    let room = Room {
        octets: 65_535,
        starts: at(0),
        until: None,
        to: Neighbours::ALL,
    };
    let answer = client
        .gateway
        .poll_transmit(at(0), PortId::HOST, room, &mut out);
    assert!(answer.is_some());
    // ICMPv6 packet too big, with what the Ether client has left of the node's.
    assert_eq!((out[40], out[41]), (2, 0));
    assert_eq!(out[44..48], 1398u32.to_be_bytes());
    client.send(0, &udp("fd00:1::2", "fd00:2::2", 1398, 0));
    assert_eq!(client.requests().len(), 1);
}

#[test]
fn what_the_node_delivers_goes_to_the_host_side() {
    let mut client = Client::bound("");
    let packet = udp("10.2.0.2", "10.1.0.2", 100, 0);
    let mut octets = vec![
        0x90,
        0xeb,
        0,
        0,
        13 + 100,
        21,
        0x09,
        0xe0,
        0,
        0,
        1,
        0x19,
        0xe0,
        0,
        0,
    ];
    let begin = octets.len();
    octets.extend([2, 0, 100]);
    octets.extend(&packet);
    client.hear(0, 1, &octets);
    let room = Room {
        octets: 65_535,
        starts: at(1),
        until: None,
        to: Neighbours::ALL,
    };
    let mut out = Vec::new();
    let given = client
        .gateway
        .poll_transmit(at(1), PortId::HOST, room, &mut out);
    assert!(given.is_some());
    assert_eq!(out, packet);
    // Of a station that is no neighbour: nothing.
    octets[begin] = 7;
    client.hear(0, 1, &octets);
    assert_eq!(client.gateway.stats().ports[1].strangers, 1);
}

proptest! {
    #[test]
    fn no_octets_of_a_node_do_harm(
        octets in proptest::collection::vec(any::<u8>(), 0..200),
        cut: bool,
    ) {
        let mut client = Client::bound("");
        client.send(0, &udp("10.1.0.2", "10.2.0.2", 100, 0));
        let mut framed = vec![0x90, 0xeb, 0, 0, octets.len() as u8];
        framed.extend(&octets);
        client.hear(0, 1, if cut { &octets } else { &framed });
        client.gateway.handle(at(700_000), Input::Timeout);
        client.collect();
    }
}
