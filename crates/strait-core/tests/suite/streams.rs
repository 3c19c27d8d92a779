//! Byte streams.

use super::*;

const BROKEN_PIPE: i32 = 32;
const NO_BUFFERS: i32 = 105;
const NOT_CONNECTED: i32 = 107;
const REFUSED: i32 = 111;
const RESET: i32 = 104;
const UNREACHABLE: i32 = 113;

fn credit(puppet: &Puppet, id: StreamId, octets: u32) {
    puppet.stream(id, StreamOp::Credit(octets));
}

pub fn octets_go_both_ways_in_order<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 64 * 1024);
    let octets = pattern(40_000);
    credit(&puppet, id, 40_000);
    send_all(&mut world, tcp, &octets);
    until(&mut world, "all octets", |_| {
        puppet.data(id).len() >= 40_000
    });
    assert_eq!(puppet.data(id), octets);
    puppet.stream(id, StreamOp::Send(octets[..30_000].to_vec()));
    puppet.stream(id, StreamOp::Send(octets[30_000..].to_vec()));
    assert_eq!(read_all(&mut world, tcp, 40_000), octets);
}

pub fn who_listens_nowhere_refuses<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    // Somebody listens elsewhere.
    let address = SocketAddr::new(world.node(), world.port());
    puppet.listen(socket(1), address, 1000);
    puppet.hears(
        &mut world,
        &Heard::Socket(socket(1), SocketEvent::Bound(address)),
    );
    let other = SocketAddr::new(world.node(), world.port());
    let tcp = world.connect(other, 0);
    until_state(&mut world, tcp, State::Refused);
    assert_eq!(puppet.clients(), []);
}

pub fn a_clients_end_leaves_the_other_direction<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 64 * 1024);
    send_all(&mut world, tcp, b"question");
    world.fin(tcp);
    // The end is behind what comes before it.
    world.run(SILENCE);
    assert!(!puppet.heard().contains(&Heard::Fin(id)));
    credit(&puppet, id, 8);
    puppet.hears(&mut world, &Heard::Fin(id));
    assert_eq!(puppet.data(id), b"question");
    world.run(SILENCE);
    puppet.stream(id, StreamOp::Send(pattern(20_000)));
    puppet.stream(id, StreamOp::Fin);
    assert_eq!(read_all(&mut world, tcp, 20_000), pattern(20_000));
    until_state(&mut world, tcp, State::Drained);
    // A stream that had its end in both directions is gone without a word.
    world.run(SILENCE);
    let resets = puppet.heard().into_iter();
    assert!(resets.filter(|it| matches!(it, Heard::Reset(..))).count() == 0);
}

pub fn a_nodes_end_leaves_the_other_direction<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 64 * 1024);
    puppet.stream(id, StreamOp::Send(b"welcome".to_vec()));
    puppet.stream(id, StreamOp::Fin);
    assert_eq!(read_all(&mut world, tcp, 7), b"welcome");
    until_state(&mut world, tcp, State::Drained);
    credit(&puppet, id, 20_000);
    send_all(&mut world, tcp, &pattern(20_000));
    until(&mut world, "all octets", |_| {
        puppet.data(id).len() >= 20_000
    });
    assert_eq!(puppet.data(id), pattern(20_000));
    world.fin(tcp);
    puppet.hears(&mut world, &Heard::Fin(id));
}

pub fn an_end_with_nothing_before_it_needs_no_credit<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 1000);
    world.fin(tcp);
    puppet.hears(&mut world, &Heard::Fin(id));
    puppet.stream(id, StreamOp::Fin);
    until_state(&mut world, tcp, State::Drained);
}

pub fn a_clients_reset_reaches_the_node<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 1000);
    credit(&puppet, id, 1000);
    world.run(SILENCE);
    world.reset(tcp);
    puppet.hears(&mut world, &Heard::Reset(id, RESET));
    assert!(!puppet.heard().contains(&Heard::Fin(id)));
}

pub fn a_nodes_reset_reaches_the_client<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 1000);
    puppet.stream(id, StreamOp::Reset(RESET));
    until_state(&mut world, tcp, State::Reset);
}

/// How much more than it was told to hold the operating systems' own buffers make of it, those of
/// the far end included.
const OTHERS_MAX: usize = 6 * 1024 * 1024;

pub fn a_node_that_takes_nothing_stops_the_client<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 8000);
    let octets = pattern(100_000);
    let mut sent = 0;
    for _ in 0..200 {
        sent = (sent + world.send(tcp, &octets[sent..])).min(octets.len());
        world.run(Duration::from_millis(2));
    }
    assert!(puppet.data(id).is_empty());
    // It takes what it says, and no more.
    credit(&puppet, id, 5000);
    until(&mut world, "octets", |_| puppet.data(id).len() >= 5000);
    world.run(SILENCE);
    assert_eq!(puppet.data(id), octets[..5000]);
    credit(&puppet, id, 95_000);
    until(&mut world, "the rest", |world| {
        sent += world.send(tcp, &octets[sent..]);
        puppet.data(id).len() >= 100_000
    });
    assert_eq!(puppet.data(id), octets);
}

pub fn a_client_that_reads_nothing_stops_the_node<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 8000);
    until(&mut world, "credit", |_| puppet.writable(id) > 0);
    assert_eq!(puppet.writable(id), 8000);
    let mut sent = 0;
    // As long as it may, and at most what all buffers hold.
    loop {
        let may = puppet.writable(id) as usize - sent;
        if may == 0 {
            world.run(SILENCE);
            if puppet.writable(id) as usize == sent {
                break;
            }
            continue;
        }
        assert!(sent < OTHERS_MAX, "nothing stops it");
        puppet.stream(id, StreamOp::Send(pattern(sent + may)[sent..].to_vec()));
        sent += may;
        world.run(Duration::from_millis(2));
    }
    assert_eq!(read_all(&mut world, tcp, sent), pattern(sent));
    until(&mut world, "more credit", |_| {
        puppet.writable(id) as usize >= sent + 8000
    });
    // All that waits is what it may.
    assert_eq!(puppet.writable(id) as usize, sent + 8000);
}

pub fn more_may_wait_from_now_on<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, _) = puppet.client(&mut world, 8000);
    until(&mut world, "credit", |_| puppet.writable(id) == 8000);
    puppet.stream(id, StreamOp::Hold(held(30_000)));
    until(&mut world, "more credit", |_| puppet.writable(id) == 30_000);
    // Less takes nothing back; it comes by and by.
    puppet.stream(id, StreamOp::Hold(held(1000)));
    world.run(SILENCE);
    assert_eq!(puppet.writable(id), 30_000);
}

/// Even if more might wait on all streams of its listener.
pub fn what_may_wait_is_said_as_a_stream_opens<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    puppet.greet(StreamOp::Hold(held(5000)));
    let (id, _) = puppet.client(&mut world, 64 * 1024);
    until(&mut world, "credit", |_| puppet.writable(id) > 0);
    world.run(SILENCE);
    assert_eq!(puppet.writable(id), 5000);
}

/// What a node must not send ends its stream on both sides.
fn misused<W: World>(puppet: &Puppet, world: &mut W, (id, tcp): (StreamId, Tcp), error: i32) {
    puppet.hears(world, &Heard::Reset(id, error));
    until_state(world, tcp, State::Reset);
}

pub fn a_node_that_sends_more_than_it_may_loses_the_stream<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 5000);
    until(&mut world, "credit", |_| puppet.writable(id) == 5000);
    puppet.stream(id, StreamOp::Send(pattern(5001)));
    misused(&puppet, &mut world, (id, tcp), NO_BUFFERS);
}

pub fn a_node_that_sends_behind_its_end_loses_the_stream<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 5000);
    until(&mut world, "credit", |_| puppet.writable(id) == 5000);
    puppet.stream(id, StreamOp::Fin);
    puppet.stream(id, StreamOp::Send(pattern(1)));
    misused(&puppet, &mut world, (id, tcp), BROKEN_PIPE);
}

pub fn a_stream_that_is_not_there_takes_nothing<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    puppet.stream(stream(9), StreamOp::Send(pattern(1)));
    puppet.hears(&mut world, &Heard::Reset(stream(9), NOT_CONNECTED));
    // What needs no answer gets none.
    puppet.stream(stream(9), StreamOp::Fin);
    puppet.stream(stream(9), StreamOp::Reset(RESET));
    world.run(SILENCE);
    assert_eq!(puppet.heard().len(), 1);
}

/// A node's connection to the host: the host's end of it.
fn host_of<W: World>(
    puppet: &Puppet,
    world: &mut W,
    src: Option<SocketAddr>,
    dscp: u8,
) -> (Accepted, SocketAddr) {
    let port = world.port();
    world.listen(port);
    let dst = SocketAddr::new(world.host(), port);
    puppet.connect(1, src, dst, dscp);
    let mut accepted = None;
    until(world, "a connection", |world| {
        accepted = accepted.or_else(|| world.accepted());
        accepted.is_some()
    });
    (accepted.unwrap(), dst)
}

pub fn a_node_connects_to_a_host<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (accepted, dst) = host_of(&puppet, &mut world, None, 0);
    let opened = Heard::Opened {
        id: stream(1),
        listener: None,
        src: accepted.src,
        dst,
        dscp: 0,
    };
    puppet.hears(&mut world, &opened);
    until(&mut world, "credit", |_| puppet.writable(stream(1)) > 0);
    puppet.stream(stream(1), StreamOp::Send(b"hello".to_vec()));
    assert_eq!(read_all(&mut world, accepted.tcp, 5), b"hello");
    credit(&puppet, stream(1), 100);
    send_all(&mut world, accepted.tcp, b"and to you");
    until(&mut world, "an answer", |_| {
        puppet.data(stream(1)) == b"and to you"
    });
}

pub fn a_node_is_refused<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let dst = SocketAddr::new(world.host(), world.port());
    puppet.connect(1, None, dst, 0);
    puppet.hears(&mut world, &Heard::Reset(stream(1), REFUSED));
    // Its number is used up; the next is another stream.
    puppet.connect(2, None, dst, 0);
    puppet.hears(&mut world, &Heard::Reset(stream(2), REFUSED));
}

pub fn nobody_at_an_address_of_the_network_is_told<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let nobody = SocketAddr::new(world.nobody(), 80);
    puppet.connect(1, None, nobody, 0);
    puppet.hears(&mut world, &Heard::Reset(stream(1), UNREACHABLE));
}

pub fn a_node_that_connects_to_itself_gets_itself<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = SocketAddr::new(world.loopback(), world.port());
    puppet.listen(socket(1), own, 1000);
    puppet.hears(
        &mut world,
        &Heard::Socket(socket(1), SocketEvent::Bound(own)),
    );
    puppet.connect(1, None, own, 0);
    until(&mut world, "a client", |_| !puppet.clients().is_empty());
    let id = puppet.clients()[0];
    credit(&puppet, id, 5);
    puppet.stream(stream(1), StreamOp::Send(b"hello".to_vec()));
    until(&mut world, "octets", |_| puppet.data(id) == b"hello");
    // The loopback address isn't to be had from the network.
    let tcp = world.connect(own, 0);
    world.run(SILENCE);
    assert_ne!(world.state(tcp), State::Open);
}

pub fn a_node_connects_from_a_given_address<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let src = SocketAddr::new(world.node(), world.port());
    let (accepted, dst) = host_of(&puppet, &mut world, Some(src), 0);
    assert_eq!(accepted.src, src);
    // Two can't be between the same ends: the second has another port.
    puppet.connect(2, Some(src), dst, 0);
    let mut second = None;
    until(&mut world, "another connection", |world| {
        second = second.take().or_else(|| world.accepted());
        second.is_some()
    });
    let second = second.unwrap();
    assert_eq!(second.src.ip(), src.ip());
    assert_ne!(second.src.port(), src.port());
}

pub fn code_points_go_both_ways<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = SocketAddr::new(world.node(), world.port());
    puppet.listen(socket(1), address, 1000);
    puppet.hears(
        &mut world,
        &Heard::Socket(socket(1), SocketEvent::Bound(address)),
    );
    for marked in [46, 0, 10] {
        world.connect(address, marked);
        let came = |heard: &Heard| matches!(heard, Heard::Opened { dscp, .. } if *dscp == marked);
        until(&mut world, "its code point", |_| {
            puppet.heard().iter().any(came)
        });
    }
    let (accepted, _) = host_of(&puppet, &mut world, None, 26);
    assert_eq!(accepted.dscp, 26);
}

pub fn a_node_marks_a_stream_that_it_has<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 1000);
    let stranger = world.connect(listens_at(&puppet), 0);
    until(&mut world, "another", |_| puppet.clients().len() == 2);
    assert_eq!(world.marked(tcp), 0);
    for dscp in [46, 10, 0] {
        puppet.stream(id, StreamOp::Mark(dscp));
        puppet.stream(id, StreamOp::Send(b"marked".to_vec()));
        assert_eq!(read_all(&mut world, tcp, 6), b"marked");
        assert_eq!(world.marked(tcp), dscp);
    }
    // The listener's others stay as they are.
    puppet.stream(id, StreamOp::Mark(46));
    puppet.stream(puppet.clients()[1], StreamOp::Send(b"plain".to_vec()));
    assert_eq!(read_all(&mut world, stranger, 5), b"plain");
    assert_eq!(world.marked(stranger), 0);
    // One that is gone can't be marked, and nothing else happens.
    puppet.stream(id, StreamOp::Reset(RESET));
    puppet.stream(id, StreamOp::Mark(10));
    until_state(&mut world, tcp, State::Reset);
    assert_eq!(puppet.clients().len(), 2);
}

/// Where the puppet's first listener is.
fn listens_at(puppet: &Puppet) -> SocketAddr {
    let bound = puppet.heard().into_iter().find_map(|heard| match heard {
        Heard::Socket(id, SocketEvent::Bound(address)) if id == socket(1) => Some(address),
        _ => None,
    });
    bound.unwrap()
}

pub fn further_clients_wait<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = SocketAddr::new(world.node(), world.port());
    let listen = Listen {
        streams_max: 2,
        ..Listen::at(address)
    };
    puppet.socket(socket(1), SocketOp::Listen(listen));
    puppet.hears(
        &mut world,
        &Heard::Socket(socket(1), SocketEvent::Bound(address)),
    );
    let clients = [0; 3].map(|_| world.connect(address, 0));
    world.run(SILENCE);
    assert_eq!(puppet.clients().len(), 2);
    // Who waits isn't sent away, and has the first place that is free.
    assert!(
        clients
            .map(|tcp| world.state(tcp))
            .iter()
            .all(|it| *it == State::Open)
    );
    puppet.stream(puppet.clients()[0], StreamOp::Reset(RESET));
    until(&mut world, "the third", |_| puppet.clients().len() == 3);
}

pub fn a_kill_ends_the_nodes_streams<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (_, tcp) = puppet.client(&mut world, 1000);
    world.kill();
    // An operating system may end them in order first; what is sent then is answered by a reset.
    until(&mut world, "an end", |world| {
        world.read(tcp, 1);
        matches!(world.state(tcp), State::Drained | State::Reset)
    });
    until(&mut world, "a reset", |world| {
        world.send(tcp, b"x");
        world.state(tcp) == State::Reset
    });
    let heard = puppet.heard().len();
    world.run(SILENCE);
    assert_eq!(puppet.heard().len(), heard);
}
