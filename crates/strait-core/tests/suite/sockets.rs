//! Sockets: had, taken, and free again.

use super::*;

pub const ADDRESS_IN_USE: i32 = 98;
pub const ADDRESS_NOT_AVAILABLE: i32 = 99;

pub fn a_taken_address_is_told_and_had_when_free<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = SocketAddr::new(world.node(), world.port());
    let [bound, taken] = [
        SocketEvent::Bound(address),
        SocketEvent::Failed(ADDRESS_IN_USE),
    ];
    puppet.listen(socket(1), address, 1000);
    puppet.hears(&mut world, &Heard::Socket(socket(1), bound));
    puppet.listen(socket(2), address, 1000);
    puppet.hears(&mut world, &Heard::Socket(socket(2), taken));
    // A driver tries again, and says no more than once that it is in vain.
    world.run(Duration::from_millis(1500));
    let told = puppet.heard().into_iter();
    let told = told
        .filter(|it| *it == Heard::Socket(socket(2), taken))
        .count();
    assert_eq!(told, 1);
    puppet.socket(socket(1), SocketOp::Close);
    puppet.hears(&mut world, &Heard::Socket(socket(2), bound));
    world.connect(address, 0);
    until(&mut world, "a client", |_| !puppet.clients().is_empty());
}

pub fn an_address_of_nobodys_is_told<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = SocketAddr::new(world.foreign(), world.port());
    puppet.listen(socket(1), address, 1000);
    let failed = SocketEvent::Failed(ADDRESS_NOT_AVAILABLE);
    puppet.hears(&mut world, &Heard::Socket(socket(1), failed));
}

pub fn a_closed_listener_leaves_its_streams<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 1000);
    puppet.socket(socket(1), SocketOp::Close);
    world.run(SILENCE);
    puppet.stream(id, StreamOp::Send(b"still here".to_vec()));
    assert_eq!(read_all(&mut world, tcp, 10), b"still here");
    let opened = puppet.heard().into_iter().find_map(|heard| match heard {
        Heard::Opened { dst, .. } => Some(dst),
        _ => None,
    });
    let late = world.connect(opened.unwrap(), 0);
    until_state(&mut world, late, State::Refused);
}

pub fn a_node_that_starts_again_listens_again<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = SocketAddr::new(world.node(), world.port());
    puppet.listen(socket(1), address, 1000);
    puppet.hears(
        &mut world,
        &Heard::Socket(socket(1), SocketEvent::Bound(address)),
    );
    world.kill();
    world.run(SILENCE);
    let early = world.connect(address, 0);
    until_state(&mut world, early, State::Refused);
    world.restart();
    let bound = Heard::Socket(socket(1), SocketEvent::Bound(address));
    let count = |puppet: &Puppet| puppet.heard().iter().filter(|it| **it == bound).count();
    until(&mut world, "another life's listener", |_| {
        count(&puppet) == 2
    });
    let late = world.connect(address, 0);
    until_state(&mut world, late, State::Open);
    until(&mut world, "a client", |_| !puppet.clients().is_empty());
}
