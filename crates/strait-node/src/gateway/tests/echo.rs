//! A service of the gateway's own: what is its own reaches it, and nothing else does.

use strait_core::node::{
    DatagramMeta, Listen, Side, SocketId, SocketOp, StreamEvent, StreamId, StreamOp,
};

use super::super::services::ECHO;
use super::*;

const ECHO_TEXT: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
[echo]
listen = "10.9.0.1:7"
datagrams = "10.9.0.1:7"
hold = "8 s"
delay = "20 ms"
"#;

fn effects(gateway: &mut Gateway) -> Vec<Effect> {
    core::iter::from_fn(|| gateway.poll_effect()).collect()
}

#[test]
fn a_service_has_an_owner_that_is_no_ports() {
    let mut gateway = gateway(ECHO_TEXT);
    let declared = effects(&mut gateway);
    let [
        Effect::Socket {
            id,
            op: SocketOp::Listen(Listen { address, .. }),
        },
        Effect::Socket { id: datagrams, .. },
    ] = declared[..]
    else {
        panic!("{declared:?}");
    };
    assert_eq!((id.owner, datagrams.owner), (ECHO, ECHO));
    assert_eq!(address, SocketAddr::from(([10, 9, 0, 1], 7)));
    assert!((0..=u8::MAX).all(|port| Owner::port(PortId(port)) != ECHO));
}

#[test]
fn the_gateway_wakes_for_its_service_and_tells_what_it_did() {
    let mut gateway = gateway(ECHO_TEXT);
    let declared = effects(&mut gateway);
    let Effect::Socket { id: listener, .. } = declared[0] else {
        panic!("{declared:?}");
    };
    let client = SocketAddr::from(([10, 9, 0, 2], 4000));
    let own = SocketAddr::from(([10, 9, 0, 1], 7));
    let stream = |owner, event| Input::Stream {
        id: StreamId {
            owner,
            side: Side::Client,
            n: 0,
        },
        event,
    };
    let opened = StreamEvent::Opened {
        listener: Some(listener),
        src: client,
        dst: own,
        dscp: 0,
    };
    gateway.handle(Instant::ZERO, stream(ECHO, opened));
    // 8 s of a line that carries 960 octets in one.
    let [
        Effect::Stream {
            op: StreamOp::Hold(held),
            ..
        },
    ] = effects(&mut gateway)[..]
    else {
        panic!("its streams hold what the line carries");
    };
    assert_eq!(held.inbound, 7680);
    gateway.handle(Instant::ZERO, stream(ECHO, StreamEvent::Data(b"abc")));
    // Who has no streams isn't told of any.
    let stranger = Owner(ECHO.0 + 1);
    gateway.handle(Instant::ZERO, stream(stranger, StreamEvent::Data(b"x")));
    let wake = gateway.wake().map(|wake| wake.at);
    assert_eq!(wake, Some(Instant::from_millis(20)));
    gateway.handle(Instant::from_millis(20), Input::Timeout);
    let sent = effects(&mut gateway);
    let [
        Effect::Stream {
            op: StreamOp::Send(bytes),
            ..
        },
    ] = &sent[..]
    else {
        panic!("{sent:?}");
    };
    assert_eq!(bytes, b"abc");
    let meta = DatagramMeta {
        src: client,
        dst: own,
        dscp: 46,
        hop_limit: 64,
    };
    let socket = SocketId { owner: ECHO, n: 1 };
    let bytes = b"abc";
    gateway.handle(
        Instant::from_millis(20),
        Input::Datagram {
            socket,
            meta,
            bytes,
        },
    );
    gateway.handle(Instant::from_millis(40), Input::Timeout);
    let stats = gateway.stats().echo.unwrap();
    assert_eq!(
        (
            stats.streams.open(),
            stats.streams.delivered,
            stats.datagrams
        ),
        (1, 3, 1)
    );
}
