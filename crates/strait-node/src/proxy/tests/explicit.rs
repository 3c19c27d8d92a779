//! Programs that ask by SOCKS5 or HTTP CONNECT.

use alloc::format;
use alloc::string::String;

use strait_proxy::handshake::Speech;

use super::super::explicit::WAITING_MAX;
use super::*;

const LISTENER: SocketId = SocketId {
    owner: OWNER,
    n: EXPLICIT,
};

/// A request for 10.2.0.2:80.
const REQUEST: &[u8] = &[5, 1, 0, 5, 1, 0, 1, 10, 2, 0, 2, 0, 80];

fn client(n: u64) -> StreamId {
    StreamId {
        owner: OWNER,
        side: Side::Client,
        n,
    }
}

/// What a program hears, and whether that is all.
fn heard(ops: &[(StreamId, StreamOp)], id: StreamId) -> (Vec<u8>, bool) {
    let own = ops.iter().filter(|(of, _)| *of == id);
    let mut octets = Vec::new();
    let mut ended = false;
    for (_, op) in own {
        match op {
            StreamOp::Send(more) => octets.extend_from_slice(more),
            StreamOp::Fin => ended = true,
            _ => {}
        }
    }
    (octets, ended)
}

impl Pair {
    /// A program connects to the first gateway's listener.
    fn arrive(&mut self, n: u64, from: &str) -> StreamId {
        let id = client(n);
        let opened = StreamEvent::Opened {
            listener: Some(LISTENER),
            src: address(from),
            dst: address("127.0.0.1:1080"),
            dscp: 10,
        };
        let now = self.now;
        self.sides[0].hear_stream(now, id, opened, QUIETLY);
        let writable = StreamEvent::Writable(65_536);
        self.sides[0].hear_stream(now, id, writable, QUIETLY);
        id
    }

    /// It says something; `name` is where names lead.
    fn say(&mut self, id: StreamId, octets: &[u8], name: Option<IpAddr>) {
        let now = self.now;
        self.sides[0].hear_stream(now, id, StreamEvent::Data(octets), QUIETLY);
        let gateway = address("10.9.0.2:1").ip();
        let connects = self.connects;
        let place = |_, _: &str| Some((name?, Some(gateway)));
        self.sides[0].grant_wishes(now, is_near, |_| connects, place);
        self.settle();
    }

    fn refused(&self, why: ProxyRefusal) -> u64 {
        self.sides[0].stats().refused_by(why)
    }
}

#[test]
fn a_program_hears_of_its_connection_when_the_server_has_answered() {
    let mut pair = Pair::new(|_| ());
    let id = pair.arrive(1, "127.0.0.1:50000");
    // What it sends before goes along.
    pair.say(id, &[REQUEST, b"hello"].concat(), None);
    assert_eq!(heard(&pair.take(0), id), (vec![5, 0], false));
    let asked = pair.take(1);
    let (far, op) = &asked[0];
    let connect = StreamOp::Connect {
        src: None,
        dst: address("10.2.0.2:80"),
        dscp: 10,
        held: held(),
    };
    assert_eq!((asked.len(), op), (1, &connect));
    pair.open(1, *far);
    assert_eq!(heard(&pair.take(1), *far), (b"hello".to_vec(), false));
    let granted = granted(Speech::Socks);
    assert_eq!(heard(&pair.take(0), id), (granted, false));
    // From here on it is a stream as any other.
    pair.tell(1, *far, StreamEvent::Data(b"world"));
    pair.tell(1, *far, StreamEvent::Fin);
    assert_eq!(heard(&pair.take(0), id), (b"world".to_vec(), true));
    pair.tell(0, id, StreamEvent::Fin);
    assert_eq!(heard(&pair.take(1), *far), (vec![], true));
    assert_eq!(pair.sides[0].stats().explicit, 1);
}

#[test]
fn servers_of_ipv6_are_reached_as_well() {
    let mut pair = Pair::new(|it| {
        let both = ["fd00:1::/64", "fd00:2::/64"].map(|it| it.parse().unwrap());
        it.allow.extend(both);
        it.partners[0].prefixes.extend(&both[1..]);
    });
    let id = pair.arrive(1, "[::1]:50000");
    pair.say(id, b"CONNECT [fd00:2::2]:80 HTTP/1.1\r\n\r\n", None);
    let asked = pair.take(1);
    let connect = StreamOp::Connect {
        src: None,
        dst: address("[fd00:2::2]:80"),
        dscp: 10,
        held: held(),
    };
    assert_eq!(asked.first().map(|(_, op)| op), Some(&connect));
}

#[test]
fn early_programs_have_their_connection_at_once() {
    let mut pair = Pair::new(|it| it.connect = ProxyConnect::Early);
    let id = pair.arrive(1, "127.0.0.1:50000");
    pair.say(id, b"CONNECT 10.2.0.2:80 HTTP/1.1\r\n\r\n", None);
    let answer = granted(Speech::Http);
    assert_eq!(heard(&pair.take(0), id), (answer, false));
    let far = pair.take(1)[0].0;
    pair.tell(1, far, StreamEvent::Reset(111));
    let reset = StreamOp::Reset(111);
    assert_eq!(pair.take(0), [(id, reset)]);
}

#[test]
fn a_failure_far_away_is_told_as_it_is() {
    for (error, reply) in [(111, 5), (113, 4), (101, 3), (110, 6)] {
        let mut pair = Pair::new(|_| ());
        let id = pair.arrive(1, "127.0.0.1:50000");
        pair.say(id, REQUEST, None);
        let far = pair.take(1)[0].0;
        pair.tell(1, far, StreamEvent::Reset(error));
        let (answer, ended) = heard(&pair.take(0), id);
        assert_eq!((answer[3], ended), (reply, true));
        // It goes in time, or is sent away.
        assert_eq!(pair.refused(ProxyRefusal::Server), 1);
        pair.now += Duration::from_secs(10);
        pair.settle();
        assert_eq!(pair.take(0), [(id, StreamOp::Reset(0))]);
    }
}

#[test]
fn names_lead_to_where_the_far_side_knows_them() {
    let mut pair = Pair::new(|_| ());
    pair.meant = |address| {
        let real = Meant::Address(IpAddr::from([10, 2, 0, 2]));
        (address == NAMED).then_some(real)
    };
    let id = pair.arrive(1, "127.0.0.1:50000");
    let request = b"CONNECT www.example:443 HTTP/1.1\r\n\r\n";
    pair.say(id, request, Some(NAMED));
    let asked = pair.take(1);
    let to = |op: &StreamOp| matches!(op, StreamOp::Connect { dst, .. } if *dst == address("10.2.0.2:443"));
    assert!(to(&asked[0].1), "{asked:?}");
    // One that nobody knows.
    let id = pair.arrive(2, "127.0.0.1:50001");
    pair.say(id, request, None);
    let (answer, ended) = heard(&pair.take(0), id);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 ") && ended, "{answer}");
}

#[test]
fn programs_get_nothing_that_clients_would_not() {
    let mut pair = Pair::new(|_| ());
    for (n, from, request, why, reply) in [
        // Nobody is responsible for the place; the gateway itself; a program beyond a link.
        (1, "127.0.0.1:1", [10, 3, 0, 2], ProxyRefusal::NoPartner, 2),
        (2, "127.0.0.1:1", [10, 9, 0, 1], ProxyRefusal::NoPartner, 2),
        (3, "10.2.0.99:1", [10, 2, 0, 2], ProxyRefusal::NotAllowed, 2),
    ] {
        let id = pair.arrive(n, from);
        let request = [&REQUEST[..7], &request, &[0, 80]].concat();
        let before = pair.refused(why);
        pair.say(id, &request, None);
        let (answer, ended) = heard(&pair.take(0), id);
        assert_eq!((answer[3], ended), (reply, true), "{n}");
        assert_eq!(pair.refused(why), before + 1, "{n}");
    }
    assert_eq!(pair.take(1), []);
    // What the far side doesn't allow.
    let id = pair.arrive(4, "127.0.0.1:1");
    pair.say(id, &[5, 1, 0, 5, 1, 0, 1, 10, 2, 0, 99, 0, 80], None);
    assert_eq!(heard(&pair.take(0), id).0[3], 2);
}

#[test]
fn nobody_is_let_in_whose_partner_is_silent() {
    let near = config("10.9.0.2", "10.2.0.0/24", "10.1.0.0/24");
    let own = vec![address("10.9.0.1:1").ip()];
    let mut proxy = Proxy::new(OWNER, &near, own, 1);
    let id = client(1);
    let opened = StreamEvent::Opened {
        listener: Some(LISTENER),
        src: address("127.0.0.1:50000"),
        dst: address("127.0.0.1:1080"),
        dscp: 0,
    };
    proxy.hear_stream(Instant::ZERO, id, opened, QUIETLY);
    proxy.hear_stream(Instant::ZERO, id, StreamEvent::Data(REQUEST), QUIETLY);
    proxy.grant_wishes(Instant::ZERO, |_| true, |_| QUIETLY.1, |_, _| None);
    let effects: Vec<Effect> = iter::from_fn(|| proxy.poll_effect()).collect();
    let ops = effects.into_iter().filter_map(|it| match it {
        Effect::Stream { id, op } => Some((id, op)),
        _ => None,
    });
    let (answer, ended) = heard(&ops.collect::<Vec<_>>(), id);
    assert_eq!((answer[3], ended), (4, true));
    assert_eq!(proxy.stats().refused_by(ProxyRefusal::Silent), 1);
}

#[test]
fn who_does_not_ask_is_sent_away() {
    let mut pair = Pair::new(|_| ());
    let slow = pair.arrive(1, "127.0.0.1:50000");
    pair.say(slow, &REQUEST[..3], None);
    pair.now = Instant::ZERO + Duration::from_millis(9_999);
    pair.sides[0].tend(pair.now, 0);
    pair.settle();
    pair.take(0);
    pair.now += Duration::from_secs(10);
    pair.settle();
    assert_eq!(pair.take(0), [(slow, StreamOp::Reset(0))]);
    // Nonsense, and an end before the request.
    let wrong = pair.arrive(2, "127.0.0.1:50000");
    pair.say(wrong, b"GET / HTTP/1.1\r\n\r\n", None);
    assert!(heard(&pair.take(0), wrong).0.starts_with(b"HTTP/1.1 405 "));
    let gone = pair.arrive(3, "127.0.0.1:50000");
    pair.tell(0, gone, StreamEvent::Fin);
    assert_eq!(pair.take(0).last(), Some(&(gone, StreamOp::Reset(0))));
    assert_eq!(pair.refused(ProxyRefusal::Handshake), 3);
}

#[test]
fn many_who_do_not_ask_are_bounded_and_keep_nobody_out() {
    let mut pair = Pair::new(|_| ());
    let many = WAITING_MAX as u64;
    for n in 0..many + 10 {
        pair.arrive(n, "127.0.0.1:50000");
    }
    pair.settle();
    let ops = pair.take(0);
    let reset = ops.iter().filter(|(_, op)| *op == StreamOp::Reset(0));
    assert_eq!(reset.count(), 10);
    let last = client(many + 9);
    pair.say(last, REQUEST, None);
    assert_eq!(pair.take(1).len(), 1);
    // A request may be long, but comes by a little at a time.
    let long = client(many);
    let line = format!("CONNECT a:1 HTTP/1.1\r\nX: {}", "x".repeat(1000));
    pair.say(long, line.as_bytes(), None);
    let credits = pair.take(0).into_iter().map(|(_, op)| match op {
        StreamOp::Credit(octets) => octets,
        _ => 0,
    });
    assert!(credits.sum::<u32>() <= 1024);
}
