//! The DNS proxy's sockets and streams.

use strait_core::node::{DatagramMeta, Side, SocketId, SocketOp, StreamEvent, StreamId, StreamOp};

use strait_wire::ip::build_udp;

use super::super::services::{DNS, PROXY};
use super::*;

/// A question for a name in `lan`, numbered 1.
const QUESTION: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x03lan\0\0\x01\0\x01";

fn proxy(more: &str) -> Gateway {
    gateway(&format!(
        "name = \"a\"\n[host]\naddresses = [\"10.9.0.1/30\"]\nroutes = [\"10.2.0.0/24\"]\n\
         [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n[dns]\n\
         listen = [\"10.9.0.1:53\"]\nclients = [\"10.1.0.0/24\"]\n{more}\n\
         [[dns.partner]]\naddress = \"10.9.0.2\"\nturnaround = \"30 s\"\n"
    ))
}

fn effects(gateway: &mut Gateway) -> Vec<Effect> {
    core::iter::from_fn(|| gateway.poll_effect()).collect()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn on_stream(side: Side, n: u64, event: StreamEvent<'_>) -> Input<'_> {
    let owner = DNS;
    Input::Stream {
        id: StreamId { owner, side, n },
        event,
    }
}

fn at(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

/// What is done on streams.
fn operations(gateway: &mut Gateway) -> Vec<StreamOp> {
    let all = effects(gateway).into_iter();
    let streams = all.filter_map(|it| match it {
        Effect::Stream { op, .. } => Some(op),
        _ => None,
    });
    streams.collect()
}

#[test]
fn a_stream_that_waits_for_an_answer_is_kept_and_a_silent_one_is_ended() {
    let mut gateway = proxy("patience = \"60 s\"");
    effects(&mut gateway);
    let opened = StreamEvent::Opened {
        listener: None,
        src: address("10.1.0.2:4000"),
        dst: address("10.9.0.1:53"),
        dscp: 0,
    };
    gateway.handle(at(0), on_stream(Side::Client, 0, opened));
    let writable = StreamEvent::Writable(10_000);
    gateway.handle(at(0), on_stream(Side::Client, 0, writable));
    let whole = [&[0, QUESTION.len() as u8][..], QUESTION].concat();
    gateway.handle(at(0), on_stream(Side::Client, 0, StreamEvent::Data(&whole)));
    operations(&mut gateway);
    for s in 1..60 {
        gateway.handle(at(s), Input::Timeout);
        assert_eq!(operations(&mut gateway), [], "{s} s");
    }
    gateway.handle(at(60), Input::Timeout);
    let told = operations(&mut gateway);
    let [StreamOp::Send(octets)] = &told[..] else {
        panic!("{told:?}");
    };
    // SERVFAIL to the first question.
    assert_eq!((octets[3], octets[5] & 0x0f), (1, 2));
    gateway.handle(at(79), Input::Timeout);
    assert_eq!(operations(&mut gateway), []);
    gateway.handle(at(80), Input::Timeout);
    assert_eq!(operations(&mut gateway), [StreamOp::Fin]);
}

/// Has a client ask for a name in `lan`: the socket by which a resolver of the gateway's own is
/// asked, and its message.
fn asked_here(gateway: &mut Gateway) -> (SocketId, Vec<u8>) {
    effects(gateway);
    let meta = DatagramMeta {
        src: address("10.1.0.2:4000"),
        dst: address("10.9.0.1:53"),
        dscp: 0,
        hop_limit: 64,
    };
    let socket = SocketId { owner: DNS, n: 0 };
    let bytes = QUESTION;
    gateway.handle(
        at(0),
        Input::Datagram {
            socket,
            meta,
            bytes,
        },
    );
    gateway.handle(at(1), Input::Timeout);
    assert!(pull_all(gateway, LINE, at(1)).is_empty(), "it crosses");
    let all = effects(gateway);
    let [
        Effect::Socket {
            op: SocketOp::Bind(_),
            ..
        },
        Effect::Datagram {
            socket,
            meta,
            bytes,
        },
    ] = &all[..]
    else {
        panic!("{all:?}");
    };
    assert_eq!(meta.dst, address("10.1.0.53:53"));
    (*socket, bytes.clone())
}

const OWN: &str = "[[dns.rule]]\nzone = \"lan\"\nresolvers = [\"10.1.0.53:53\"]";

/// The answer to a message: an address, or that there is too much for a datagram.
fn answer(question: &[u8], truncated: bool) -> Vec<u8> {
    let end = QUESTION.len();
    let mut answer = question[..end].to_vec();
    answer[2] = 0x81 | if truncated { 2 } else { 0 };
    answer[3] = 0x80;
    answer[10..12].fill(0);
    if !truncated {
        answer[7] = 1;
        answer.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01");
    }
    answer
}

/// The address that a client is told.
fn told(gateway: &mut Gateway) -> Option<Vec<u8>> {
    let all = effects(gateway);
    all.into_iter().find_map(|it| match it {
        Effect::Datagram { meta, bytes, .. } if meta.dst == address("10.1.0.2:4000") => {
            Some(bytes[QUESTION.len() + 12..][..4].to_vec())
        }
        _ => None,
    })
}

fn from_resolver(socket: SocketId, bytes: &[u8]) -> Input<'_> {
    let meta = DatagramMeta {
        src: address("10.1.0.53:53"),
        dst: address("10.9.0.1:20000"),
        dscp: 0,
        hop_limit: 64,
    };
    Input::Datagram {
        socket,
        meta,
        bytes,
    }
}

#[test]
fn names_of_a_rule_are_asked_for_here() {
    let mut gateway = proxy(OWN);
    let (socket, question) = asked_here(&mut gateway);
    gateway.handle(at(1), from_resolver(socket, &answer(&question, false)));
    assert_eq!(told(&mut gateway), Some(vec![192, 0, 2, 1]));
    let names = gateway.names(at(1));
    assert_eq!(
        (names[0].name.as_str(), names[0].said.as_str()),
        ("a.lan.", "192.0.2.1")
    );
    let stats = gateway.stats().dns.unwrap();
    assert_eq!(
        (stats.known, stats.resolvers.resolved),
        (names.len() as u64, 1)
    );
}

#[test]
fn an_answer_too_long_for_a_datagram_is_asked_for_by_a_stream() {
    let mut gateway = proxy(OWN);
    let (socket, question) = asked_here(&mut gateway);
    gateway.handle(at(1), from_resolver(socket, &answer(&question, true)));
    let all = effects(&mut gateway);
    let streams: Vec<_> = all
        .iter()
        .filter(|it| matches!(it, Effect::Stream { .. }))
        .collect();
    let [
        Effect::Stream {
            id,
            op: StreamOp::Connect { dst, .. },
        },
    ] = &streams[..]
    else {
        panic!("{all:?}");
    };
    assert_eq!((*dst, id.side), (address("10.1.0.53:53"), Side::Node));
    let event = |event| on_stream(Side::Node, id.n, event);
    gateway.handle(at(1), event(StreamEvent::Writable(4096)));
    let sent = operations(&mut gateway);
    let [StreamOp::Send(octets), StreamOp::Credit(_)] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(octets[2..], question);
    let whole = answer(&question, false);
    let whole = [&[0, whole.len() as u8][..], &whole].concat();
    gateway.handle(at(1), event(StreamEvent::Data(&whole[..9])));
    gateway.handle(at(1), event(StreamEvent::Data(&whole[9..])));
    // The stream goes, and the client has its answer.
    let all = effects(&mut gateway);
    let reset = |it: &Effect| {
        matches!(
            it,
            Effect::Stream {
                op: StreamOp::Reset(_),
                ..
            }
        )
    };
    let told = |it: &Effect| matches!(it, Effect::Datagram { meta, .. } if meta.dst.port() == 4000);
    assert!(all.iter().any(reset) && all.iter().any(told), "{all:?}");
}

#[test]
fn what_a_client_asks_of_somebody_else_is_answered_in_his_name_if_that_is_wished() {
    let begin = |more: &str| {
        let mut gateway = proxy(&format!("{more}\n{OWN}"));
        effects(&mut gateway);
        gateway
    };
    let ask = |gateway: &mut Gateway, from: &str| {
        let (from, to) = (address(from), address("10.2.0.53:53"));
        let mut packet = Vec::new();
        assert!(build_udp(from, to, 0, 64, 1, 0, QUESTION, &mut packet));
        gateway.handle(at(0), frame(PortId::HOST, &packet));
        gateway.handle(at(1), Input::Timeout);
        pull_all(gateway, LINE, at(1)).len()
    };
    // Nobody else's are taken: they go their way.
    for (more, from) in [("capture = true", "10.8.0.2:4000"), ("", "10.1.0.2:4000")] {
        let mut gateway = begin(more);
        assert!(ask(&mut gateway, from) > 0);
        let all = effects(&mut gateway);
        let asked = |it: &Effect| matches!(it, Effect::Datagram { .. });
        assert!(!all.iter().any(asked), "{all:?}");
    }
    let mut gateway = begin("capture = true");
    assert_eq!(ask(&mut gateway, "10.1.0.2:4000"), 0);
    let all = effects(&mut gateway);
    let Some(Effect::Datagram { socket, bytes, .. }) = all.last() else {
        panic!("{all:?}");
    };
    gateway.handle(at(1), from_resolver(*socket, &answer(bytes, false)));
    let told = pull_all(&mut gateway, PortId::HOST, at(1));
    let info = PacketInfo::parse(&told[0]).unwrap();
    assert_eq!((told.len(), info.ports), (1, Some((53, 4000))));
    assert_eq!(info.src, address("10.2.0.53:53").ip());
    assert!(told[0].windows(4).any(|it| it == [192, 0, 2, 1]));
}

#[test]
fn a_stream_to_somebody_else_is_answered_here_where_the_proxy_has_it() {
    let more =
        "\n[proxy]\n[[proxy.partner]]\naddress = \"10.9.0.2\"\nprefixes = [\"10.2.0.0/24\"]\n";
    let text = |capture: &str| {
        format!(
            "name = \"a\"\n[host]\naddresses = [\"10.9.0.1/30\"]\nroutes = [\"10.2.0.0/24\"]\n\
             [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n[dns]\n\
             clients = [\"10.1.0.0/24\"]\n{capture}\n{OWN}\n\
             [[dns.partner]]\naddress = \"10.9.0.2\"{more}"
        )
    };
    let id = StreamId {
        owner: PROXY,
        side: Side::Client,
        n: 5,
    };
    let event = |event| Input::Stream { id, event };
    let asked = |dst: &str| StreamEvent::Asked {
        listener: SocketId {
            owner: id.owner,
            n: 0,
        },
        src: address("10.1.0.2:4000"),
        dst: address(dst),
        dscp: 0,
        options: ip::SynOptions::default(),
    };
    let whole = [&[0, QUESTION.len() as u8][..], QUESTION].concat();
    // As long as its partner is silent, the proxy lets them pass.
    for (capture, dst, accepts) in [
        ("", "10.2.0.53:53", false),
        ("capture = true", "10.2.0.53:80", false),
        ("capture = true", "10.2.0.53:53", true),
    ] {
        let mut gateway = gateway(&text(capture));
        effects(&mut gateway);
        gateway.handle(at(0), event(asked(dst)));
        let accepted = operations(&mut gateway).contains(&StreamOp::Accept);
        assert_eq!(accepted, accepts, "{capture} {dst}");
        if !accepts {
            continue;
        }
        let opened = StreamEvent::Opened {
            listener: None,
            src: address("10.1.0.2:4000"),
            dst: address(dst),
            dscp: 0,
        };
        gateway.handle(at(0), event(opened));
        gateway.handle(at(0), event(StreamEvent::Writable(10_000)));
        gateway.handle(at(0), event(StreamEvent::Data(&whole)));
        gateway.handle(at(1), Input::Timeout);
        let all = effects(&mut gateway);
        let Some(Effect::Datagram { socket, bytes, .. }) = all.last() else {
            panic!("{all:?}");
        };
        gateway.handle(at(1), from_resolver(*socket, &answer(bytes, false)));
        let told = operations(&mut gateway);
        let [StreamOp::Send(octets)] = &told[..] else {
            panic!("{told:?}");
        };
        assert!(octets.ends_with(&[192, 0, 2, 1]));
        gateway.handle(at(2), event(StreamEvent::Fin));
        assert_eq!(operations(&mut gateway), [StreamOp::Fin]);
    }
}
