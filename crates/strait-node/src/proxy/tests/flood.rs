//! Clients that only ask: their addresses are forged.

use super::super::held::{COMES, COMING_MAX, HELD_MAX};
use super::*;

const ROUND: u64 = 4000;

/// So many ask for a host that says nothing, at once.
fn flood(pair: &mut Pair, from: u64) {
    for n in from..from + ROUND {
        let id = StreamId {
            owner: OWNER,
            side: Side::Client,
            n,
        };
        let source = [10, 1, 0, (n >> 15) as u8 + 3];
        let asked = StreamEvent::Asked {
            listener: SocketId { owner: OWNER, n: 0 },
            src: SocketAddr::new(IpAddr::from(source), n as u16 | 1 << 15),
            dst: address("10.2.0.7:80"),
            dscp: 0,
            options: SynOptions::default(),
        };
        let told = (None, pair.connects);
        pair.sides[0].hear_stream(pair.now, id, asked, told);
    }
    pair.settle();
}

#[test]
fn in_a_flood_some_are_held_and_others_get_through() {
    let mut pair = Pair::new(|_| ());
    let first = pair.connect();
    for round in 0..10 {
        flood(&mut pair, 1000 + round * ROUND);
        assert_eq!(pair.sides[0].locals.held.count(), HELD_MAX);
        pair.take(1);
        pair.take(0);
        // At once there is no place: it hears nothing, and asks again.
        let early = pair.ask(100 + 2 * round, "10.2.0.2:80");
        assert_eq!(
            pair.take(0),
            [(early, StreamOp::Refuse(Refusal::Silence))],
            "{round}"
        );
        let patience = pair.sides[0].partners[0].patience();
        pair.now += patience;
        let near = pair.ask(101 + 2 * round, "10.2.0.2:80");
        let wanted = address("10.2.0.2:80");
        let mut asked = pair.take(1).into_iter();
        let far = asked.find_map(|(id, op)| match op {
            StreamOp::Connect { dst, .. } => (dst == wanted).then_some(id),
            _ => None,
        });
        let far = far.expect("the client has a place");
        pair.open(1, far);
        assert!(pair.take(0).contains(&(near, StreamOp::Accept)));
        pair.open(0, near);
    }
    // What was connected before goes on.
    pair.tell(0, first[0], StreamEvent::Data(b"on"));
    let sent = (first[1], StreamOp::Send(b"on".to_vec()));
    assert!(pair.take(1).contains(&sent));
}

/// All whom the far gateway connects have their server at once.
fn open_all(pair: &mut Pair) {
    for (id, op) in pair.take(1) {
        if let StreamOp::Connect { src, dst, dscp, .. } = op {
            let opened = StreamEvent::Opened {
                listener: None,
                src: src.unwrap(),
                dst,
                dscp,
            };
            pair.sides[1].hear_stream(pair.now, id, opened, QUIETLY);
        }
    }
    pair.settle();
}

#[test]
fn of_those_let_in_who_do_not_come_some_have_a_connection_at_the_server() {
    for connects in [Connects::WhenAnswered, Connects::AtOnce] {
        let mut pair = Pair::new(|_| ());
        pair.connects = connects;
        let first = pair.connect();
        for round in 0..4 {
            flood(&mut pair, 1000 + round * ROUND);
            open_all(&mut pair);
            assert_eq!(
                pair.sides[0].locals.coming.count(),
                COMING_MAX,
                "{connects:?}"
            );
            pair.take(0);
            pair.now += COMES;
            let near = pair.ask(100 + round, "10.2.0.2:80");
            pair.settle();
            open_all(&mut pair);
            let told = pair.take(0);
            assert!(
                told.contains(&(near, StreamOp::Accept)),
                "{round} {connects:?}"
            );
            pair.open(0, near);
            // Whoever made place for it is told, should it be there after all.
            let resets = told
                .iter()
                .filter(|(_, it)| matches!(it, StreamOp::Reset(_)));
            assert_eq!(resets.count(), 1, "{round} {connects:?}");
        }
        pair.tell(0, first[0], StreamEvent::Data(b"on"));
        let sent = (first[1], StreamOp::Send(b"on".to_vec()));
        assert!(pair.take(1).contains(&sent));
    }
}
