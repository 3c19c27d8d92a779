//! Datagrams.

use strait_core::node::Bind;

use super::sockets::{ADDRESS_IN_USE, ADDRESS_NOT_AVAILABLE};
use super::*;

fn bind(address: SocketAddr, group: Option<IpAddr>) -> SocketOp {
    SocketOp::Bind(Bind {
        address,
        group,
        transparent: false,
    })
}

/// A socket of the node's: its address.
fn bound<W: World>(puppet: &Puppet, world: &mut W) -> SocketAddr {
    let address = SocketAddr::new(world.node(), world.port());
    puppet.socket(socket(1), bind(address, None));
    puppet.hears(
        world,
        &Heard::Socket(socket(1), SocketEvent::Bound(address)),
    );
    address
}

fn datagrams(puppet: &Puppet) -> Vec<(DatagramMeta, Vec<u8>)> {
    let heard = puppet.heard().into_iter();
    let came = heard.filter_map(|heard| match heard {
        Heard::Datagram(_, meta, bytes) => Some((meta, bytes)),
        _ => None,
    });
    came.collect()
}

/// The next datagram that comes to the host.
pub fn receive<W: World>(world: &mut W, udp: Udp) -> (DatagramMeta, Vec<u8>) {
    let mut came = None;
    until(world, "a datagram", |world| {
        came = came.take().or_else(|| world.received(udp));
        came.is_some()
    });
    came.unwrap()
}

pub fn datagrams_go_both_ways_with_what_is_around_them<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = bound(&puppet, &mut world);
    let port = world.port();
    let udp = world.bind(port);
    let host = SocketAddr::new(world.host(), port);
    let there = DatagramMeta {
        src: host,
        dst: own,
        dscp: 46,
        hop_limit: 17,
    };
    world.send_to(udp, there, b"question");
    until(&mut world, "a datagram", |_| !datagrams(&puppet).is_empty());
    assert_eq!(datagrams(&puppet), [(there, b"question".to_vec())]);
    let back = DatagramMeta {
        src: own,
        dst: host,
        dscp: 26,
        hop_limit: 3,
    };
    puppet.datagram(socket(1), back, b"answer");
    assert_eq!(receive(&mut world, udp), (back, b"answer".to_vec()));
    // Each has its own.
    let plain = DatagramMeta {
        dscp: 0,
        hop_limit: 64,
        ..back
    };
    puppet.datagram(socket(1), plain, b"");
    assert_eq!(receive(&mut world, udp), (plain, Vec::new()));
}

pub fn a_closed_socket_takes_nothing<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = bound(&puppet, &mut world);
    let port = world.port();
    let udp = world.bind(port);
    puppet.socket(socket(1), SocketOp::Close);
    world.run(SILENCE);
    let meta = DatagramMeta {
        src: SocketAddr::new(world.host(), port),
        dst: own,
        dscp: 0,
        hop_limit: 64,
    };
    world.send_to(udp, meta, b"late");
    let back = DatagramMeta {
        src: meta.dst,
        dst: meta.src,
        ..meta
    };
    puppet.datagram(socket(1), back, b"late");
    world.run(SILENCE);
    assert_eq!(datagrams(&puppet), []);
    assert_eq!(world.received(udp), None);
}

pub fn a_datagram_too_long_is_refused_alone<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = bound(&puppet, &mut world);
    let port = world.port();
    let udp = world.bind(port);
    let meta = DatagramMeta {
        src: own,
        dst: SocketAddr::new(world.host(), port),
        dscp: 0,
        hop_limit: 64,
    };
    puppet.datagram(socket(1), meta, &pattern(70_000));
    puppet.datagram(socket(1), meta, b"short");
    assert_eq!(receive(&mut world, udp), (meta, b"short".to_vec()));
    world.run(SILENCE);
    assert_eq!(world.received(udp), None);
}

pub fn datagrams_to_a_group_reach_its_members<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (node, group) = (world.node(), world.group());
    let [member, stranger] = [0; 2].map(|_| SocketAddr::new(node, world.port()));
    puppet.socket(socket(1), bind(member, Some(group)));
    puppet.socket(socket(2), bind(stranger, None));
    for (n, address) in [(1, member), (2, stranger)] {
        let bound = SocketEvent::Bound(address);
        puppet.hears(&mut world, &Heard::Socket(socket(n), bound));
    }
    let port = world.port();
    let udp = world.bind(port);
    for to in [stranger, member] {
        let meta = DatagramMeta {
            src: SocketAddr::new(world.host(), port),
            dst: SocketAddr::new(group, to.port()),
            dscp: 0,
            hop_limit: 1,
        };
        world.send_to(udp, meta, b"all");
    }
    until(&mut world, "a datagram", |_| !datagrams(&puppet).is_empty());
    world.run(SILENCE);
    let came = datagrams(&puppet);
    assert_eq!(came.len(), 1);
    assert_eq!(came[0].0.dst, SocketAddr::new(group, member.port()));
}

pub fn a_taken_address_for_datagrams_is_told_and_had_when_free<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = bound(&puppet, &mut world);
    puppet.socket(socket(2), bind(own, None));
    let told = |event| Heard::Socket(socket(2), event);
    puppet.hears(&mut world, &told(SocketEvent::Failed(ADDRESS_IN_USE)));
    puppet.socket(socket(1), SocketOp::Close);
    puppet.hears(&mut world, &told(SocketEvent::Bound(own)));
    let nobodys = SocketAddr::new(world.foreign(), own.port());
    puppet.socket(socket(3), bind(nobodys, None));
    let failed = SocketEvent::Failed(ADDRESS_NOT_AVAILABLE);
    puppet.hears(&mut world, &Heard::Socket(socket(3), failed));
}

/// A datagram from the node's only socket to a port of the host.
fn to_host<W: World>(world: &W, own: SocketAddr, port: u16) -> DatagramMeta {
    DatagramMeta {
        src: own,
        dst: SocketAddr::new(world.host(), port),
        dscp: 0,
        hop_limit: 64,
    }
}

pub fn a_datagram_for_nobody_harms_no_other<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = bound(&puppet, &mut world);
    let [nobody, port] = [world.port(), world.port()];
    let udp = world.bind(port);
    puppet.datagram(socket(1), to_host(&world, own, nobody), b"anybody?");
    // The host may say that nobody is there.
    world.run(SILENCE);
    let meta = to_host(&world, own, port);
    puppet.datagram(socket(1), meta, b"somebody");
    assert_eq!(receive(&mut world, udp), (meta, b"somebody".to_vec()));
    let back = DatagramMeta {
        src: meta.dst,
        dst: own,
        ..meta
    };
    world.send_to(udp, back, b"here");
    until(&mut world, "a datagram", |_| !datagrams(&puppet).is_empty());
    assert_eq!(datagrams(&puppet), [(back, b"here".to_vec())]);
}

pub fn a_node_that_starts_again_hears_datagrams_again<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let own = bound(&puppet, &mut world);
    let port = world.port();
    let udp = world.bind(port);
    let meta = DatagramMeta {
        src: SocketAddr::new(world.host(), port),
        dst: own,
        dscp: 0,
        hop_limit: 64,
    };
    world.kill();
    world.send_to(udp, meta, b"early");
    world.run(SILENCE);
    world.restart();
    let event = Heard::Socket(socket(1), SocketEvent::Bound(own));
    let count = |puppet: &Puppet| puppet.heard().iter().filter(|it| **it == event).count();
    until(&mut world, "another life's socket", |_| count(&puppet) == 2);
    // What the host was told of the first one may come in place of sending another.
    world.send_to(udp, meta, b"late");
    until(&mut world, "a datagram", |_| !datagrams(&puppet).is_empty());
    assert_eq!(datagrams(&puppet), [(meta, b"late".to_vec())]);
}
