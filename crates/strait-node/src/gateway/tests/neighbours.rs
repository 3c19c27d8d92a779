//! Neighbours of a shared port, of which one is lost or goes while the others stay.

use super::*;

const EAST: PortId = PortId(2);
const C: NeighbourId = NeighbourId(0);
const D: NeighbourId = NeighbourId(1);

/// A relay that stores replies to pings, one of each of its two neighbours on one port.
fn relay_that_answers() -> Gateway {
    let mut relay = gateway(&alloc::format!("{RELAY}[answers]\necho = \"10 s\"\n"));
    for (to, dst) in [(C, "10.3.0.9"), (D, "10.4.0.9")] {
        let [there, back] = [
            (EchoKind::Request, ("10.1.0.2", dst)),
            (EchoKind::Reply, (dst, "10.1.0.2")),
        ]
        .map(|(kind, (src, dst))| {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            let mut out = Vec::new();
            let numbers = (7, 1);
            let payload = [1; 56];
            assert!(ip::build_echo(
                kind, src, dst, 0, 62, 9, numbers.0, numbers.1, &payload, &mut out
            ));
            out
        });
        let from = |port, to| Hop { port, to };
        relay.take_packet(Instant::ZERO, there, from(LINE, NeighbourId::PEER));
        pull(&mut relay, EAST, Instant::ZERO, 1400);
        relay.take_packet(Instant::ZERO, back, from(EAST, to));
        pull(&mut relay, LINE, Instant::ZERO, 1400);
    }
    assert_eq!(relay.stats().local.stored, 2);
    relay
}

fn tell(relay: &mut Gateway, event: PortEvent) {
    relay.handle(Instant::ZERO, Input::Port { port: EAST, event });
    relay.check();
}

#[test]
fn a_lost_transmission_concerns_whom_it_was_for() {
    for (to, forgotten) in [(C, 1), (NeighbourId(9), 0), (NeighbourId::ALL, 2)] {
        for ok in [true, false] {
            let mut relay = relay_that_answers();
            let input = Input::TxDone {
                port: EAST,
                id: TxId(1),
                to,
                ok: Some(ok),
            };
            relay.handle(Instant::ZERO, input);
            let expected = if ok { 0 } else { forgotten };
            assert_eq!(relay.stats().local.forgotten, expected, "{to:?} {ok}");
            assert_eq!(relay.stats().ports[2].tx_failed, u64::from(!ok));
        }
    }
}

/// To whom the next frame goes, of packets that take two.
fn next(relay: &mut Gateway) -> Option<NeighbourId> {
    let room = Room {
        octets: 200,
        starts: Instant::ZERO,
        until: None,
        to: Neighbours::ALL,
    };
    let meta = relay.poll_transmit(Instant::ZERO, EAST, room, &mut Vec::new());
    meta.map(|meta| meta.to)
}

#[test]
fn what_is_for_a_neighbour_that_went_waits_and_the_others_get_theirs() {
    let mut relay = relay_that_answers();
    for dst in ["10.3.0.9", "10.3.0.9", "10.4.0.9"] {
        relay.handle(
            Instant::ZERO,
            frame(LINE, &framed(&udp("10.1.0.2", dst, 300, 0))),
        );
    }
    // One has begun.
    assert_eq!(next(&mut relay), Some(C));
    tell(&mut relay, PortEvent::Neighbour(C, false));
    assert_eq!(relay.stats().dropped.by(DropCause::PortDown), 1);
    assert_eq!(relay.stats().local.forgotten, 1);
    assert!(relay.stats().ports[2].up);
    assert_eq!(next(&mut relay), Some(D));
    assert_eq!(next(&mut relay), Some(D));
    assert_eq!((next(&mut relay), relay.wants(EAST)), (None, None));
    // Said twice, and of nobody, it changes nothing.
    tell(&mut relay, PortEvent::Neighbour(C, false));
    tell(&mut relay, PortEvent::Neighbour(NeighbourId(9), false));
    tell(
        &mut relay,
        PortEvent::Changed(state(LineRate::new(9600, 8))),
    );
    assert_eq!((next(&mut relay), relay.ports[2].held()), (None, 1));
    tell(&mut relay, PortEvent::Neighbour(C, true));
    // A hello, as it may be another one, and both pieces of what waited.
    assert_eq!([(); 3].map(|()| next(&mut relay)), [Some(C); 3]);
    assert_eq!((next(&mut relay), relay.ports[2].held()), (None, 0));
}

#[test]
fn a_port_that_comes_up_has_all_its_neighbours_until_it_is_told() {
    let mut relay = relay_that_answers();
    tell(&mut relay, PortEvent::Neighbour(C, false));
    tell(&mut relay, PortEvent::Down(DownCause::Carrier));
    relay.handle(
        Instant::ZERO,
        frame(LINE, &framed(&udp("10.1.0.2", "10.3.0.9", 100, 0))),
    );
    assert_eq!(next(&mut relay), None);
    tell(&mut relay, PortEvent::Up(state(LineRate::new(9600, 8))));
    assert_eq!(next(&mut relay), Some(C));
}

/// After a frame of 10 ms for C, with packets waiting for both: to whom frames go at once, and
/// when it wakes to send that to whom it goes then.
fn after_one(text: &str) -> (Vec<NeighbourId>, Option<(Instant, NeighbourId)>) {
    let mut relay = gateway(text);
    for dst in ["10.3.0.9", "10.3.0.9", "10.4.0.9"] {
        let packet = framed(&udp("10.1.0.2", dst, 100, 0));
        relay.handle(Instant::ZERO, frame(LINE, &packet));
    }
    let room = Room {
        octets: 1400,
        starts: Instant::ZERO,
        until: None,
        to: Neighbours::ALL,
    };
    let pull = |relay: &mut Gateway, at| relay.poll_transmit(at, EAST, room, &mut Vec::new());
    // Hellos first.
    let first = loop {
        let meta = pull(&mut relay, Instant::ZERO).unwrap();
        if meta.to == C && meta.class.index() > 0 {
            break meta;
        }
    };
    let done = Input::TxDone {
        port: EAST,
        id: first.id,
        to: C,
        ok: Some(true),
    };
    let now = Instant::from_millis(10);
    relay.handle(now, done);
    relay.check();
    let mut at_once = Vec::new();
    while let Some(meta) = pull(&mut relay, now) {
        at_once.push(meta.to);
    }
    let wake = relay.ports[EAST.index()].wake();
    let wake = wake.filter(|it| it.why == WakeReason::Shaper);
    let then = wake.and_then(|it| {
        relay.handle(it.at, Input::Timeout);
        Some((it.at, pull(&mut relay, it.at)?.to))
    });
    (at_once, then)
}

#[test]
fn a_relay_is_left_the_air_for_what_it_was_sent_and_others_get_theirs() {
    let far = RELAY.replace("via = \"c\"", "via = \"c\"\nhops = 2");
    let later = Some((Instant::from_millis(20), C));
    assert_eq!(after_one(&far), (vec![D], later));
    let both = (vec![D, C], None);
    assert_eq!(after_one(RELAY), both);
    let at_once = far + "[policy]\nwaits_for_relays = false\n";
    assert_eq!(after_one(&at_once), both);
    let none = RELAY.replace("via = \"c\"", "via = \"c\"\nhops = 0");
    let config = NodeConfig::from_text("n.toml", &none).unwrap();
    let fault = Gateway::new(&config).unwrap_err().to_string();
    assert!(fault.contains("hops"), "{fault}");
}
