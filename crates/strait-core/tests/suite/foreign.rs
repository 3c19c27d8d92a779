//! Addresses that aren't the node's: what its host's rules bring to transparent sockets.

use strait_core::node::{Bind, Refusal};

use super::datagrams::receive;
use super::*;

pub fn a_transparent_listener_takes_what_is_for_others_and_answers_as_they<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = SocketAddr::new(world.node(), world.port());
    world.divert(own.port());
    let listen = Listen {
        transparent: true,
        ..Listen::at(own)
    };
    puppet.socket(socket(1), SocketOp::Listen(listen));
    puppet.hears(
        &mut world,
        &Heard::Socket(socket(1), SocketEvent::Bound(own)),
    );
    let dst = SocketAddr::new(world.foreign(), 80);
    let tcp = world.connect(dst, 10);
    until(&mut world, "a client", |_| !puppet.clients().is_empty());
    let id = puppet.clients()[0];
    let opened = puppet.heard().into_iter().find_map(|heard| match heard {
        Heard::Opened { dst, dscp, src, .. } => Some((src.ip(), dst, dscp)),
        _ => None,
    });
    assert_eq!(opened, Some((world.host(), dst, 10)));
    puppet.stream(id, StreamOp::Send(b"from afar".to_vec()));
    assert_eq!(read_all(&mut world, tcp, 9), b"from afar");
    // Who wants the listener's own address gets it too.
    world.connect(own, 0);
    until(&mut world, "another", |_| puppet.clients().len() == 2);
    // Without the listener nobody takes it.
    puppet.socket(socket(1), SocketOp::Close);
    world.run(SILENCE);
    let late = world.connect(dst, 0);
    world.run(SILENCE);
    assert_ne!(world.state(late), State::Open);
    assert_eq!(puppet.clients().len(), 2);
}

pub fn a_node_connects_in_anothers_name<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = SocketAddr::new(world.node(), world.port());
    // What comes back is for another's address, too.
    world.divert(own.port());
    let dst = SocketAddr::new(world.host(), world.port());
    world.listen(dst.port());
    // With a port of its own, and without.
    for (n, port) in [(1, 4000), (2, 0)] {
        let src = SocketAddr::new(world.foreign(), port);
        puppet.connect(n, Some(src), dst, 0);
        let mut accepted = None;
        until(&mut world, "a connection", |world| {
            accepted = accepted.or_else(|| world.accepted());
            accepted.is_some()
        });
        let from = accepted.unwrap().src;
        assert!(from == src || port == 0 && from.ip() == src.ip(), "{from}");
        puppet.stream(stream(n), StreamOp::Credit(10));
        send_all(&mut world, accepted.unwrap().tcp, b"who");
        until(&mut world, "octets", |_| puppet.data(stream(n)) == b"who");
    }
}

pub fn a_transparent_socket_takes_datagrams_for_others_and_sends_as_they<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = SocketAddr::new(world.node(), world.port());
    world.divert(own.port());
    let op = SocketOp::Bind(Bind {
        address: own,
        group: None,
        transparent: true,
    });
    puppet.socket(socket(1), op);
    puppet.hears(
        &mut world,
        &Heard::Socket(socket(1), SocketEvent::Bound(own)),
    );
    let port = world.port();
    let udp = world.bind(port);
    for question in [b"one", b"two"] {
        let there = DatagramMeta {
            src: SocketAddr::new(world.host(), port),
            dst: SocketAddr::new(world.foreign(), 53),
            dscp: 0,
            hop_limit: 64,
        };
        world.send_to(udp, there, question);
        let came = Heard::Datagram(socket(1), there, question.to_vec());
        puppet.hears(&mut world, &came);
        let back = DatagramMeta {
            src: there.dst,
            dst: there.src,
            ..there
        };
        puppet.datagram(socket(1), back, b"name!");
        assert_eq!(receive(&mut world, udp), (back, b"name!".to_vec()));
    }
}

pub fn a_client_for_others_is_held_until_it_is_accepted<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = SocketAddr::new(world.node(), world.port());
    let listen = Listen {
        transparent: true,
        asks: Some(Duration::from_secs(20)),
        ..Listen::at(own)
    };
    puppet.socket(socket(1), SocketOp::Listen(listen));
    let bound = SocketEvent::Bound(own);
    puppet.hears(&mut world, &Heard::Socket(socket(1), bound));
    world.divert(own.port());
    let dst = SocketAddr::new(world.foreign(), 80);
    let tcp = world.connect(dst, 10);
    let id = asked::asked(&puppet, &mut world, 1);
    let wanted = puppet.heard().into_iter().find_map(|heard| match heard {
        Heard::Asked { dst, dscp, .. } => Some((dst, dscp)),
        _ => None,
    });
    assert_eq!(wanted, Some((dst, 10)));
    world.run(SILENCE);
    assert_eq!(world.state(tcp), State::Opening);
    puppet.stream(id, StreamOp::Accept);
    asked::works(&puppet, &mut world, id, tcp);
    // In the other's name it is refused, too.
    let tcp = world.connect(dst, 0);
    let id = asked::asked(&puppet, &mut world, 2);
    puppet.stream(id, StreamOp::Refuse(Refusal::Reset));
    until_state(&mut world, tcp, State::Refused);
}
