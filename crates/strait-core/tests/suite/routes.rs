//! What the host reaches by the node.

use strait_core::host_routes::HOST_ROUTES_MAX;
use strait_core::node::Lead;

use super::*;

/// Errors of Linux.
const EXISTS: i32 = 17;
const NO_DEVICE: i32 = 19;
const NO_BUFFERS: i32 = 105;

/// A network beyond the node, as it is told: with bits of a host.
fn prefix<W: World>(world: &W, n: u16) -> Prefix {
    let [a, b] = n.to_be_bytes();
    let address = world.by_family([172, 16 + a, b, 9], &format!("fd02:{n:x}::9"));
    let length = if address.is_ipv4() { 24 } else { 64 };
    Prefix { address, length }
}

const fn lead(metric: u32) -> RouteOp {
    RouteOp::Lead(Lead {
        port: PortId::HOST,
        metric,
    })
}

/// What was told of a prefix, in order.
fn told(puppet: &Puppet, prefix: Prefix) -> Vec<RouteEvent> {
    let heard = puppet.heard().into_iter();
    let told = heard.filter_map(|heard| match heard {
        Heard::Routed(of, event) if of == prefix.network() => Some(event),
        _ => None,
    });
    told.collect()
}

/// Waits until the host has just these.
fn until_led<W: World>(world: &mut W, expected: &[(Prefix, u32)]) {
    let mut expected: Vec<_> = expected
        .iter()
        .map(|(prefix, metric)| (prefix.network(), *metric))
        .collect();
    expected.sort_unstable();
    until(world, &format!("{expected:?}"), |world| {
        world.led() == expected
    });
}

pub fn a_host_reaches_what_the_node_leads_to<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let [a, b] = [1, 2].map(|n| prefix(&world, n));
    puppet.route(a, lead(50));
    puppet.route(b, lead(70));
    until_led(&mut world, &[(a, 50), (b, 70)]);
    for prefix in [a, b] {
        let there = Heard::Routed(prefix.network(), RouteEvent::There);
        puppet.hears(&mut world, &there);
        assert_eq!(told(&puppet, prefix), [RouteEvent::There]);
    }
}

pub fn a_withdrawn_prefix_is_led_to_no_more<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let [a, b] = [1, 2].map(|n| prefix(&world, n));
    puppet.route(a, lead(50));
    puppet.route(b, lead(50));
    until_led(&mut world, &[(a, 50), (b, 50)]);
    puppet.route(a, RouteOp::Withdraw);
    until_led(&mut world, &[(b, 50)]);
    // A second time, and one that was never there.
    for n in [1, 3] {
        puppet.route(prefix(&world, n), RouteOp::Withdraw);
    }
    puppet.route(a, lead(50));
    until_led(&mut world, &[(a, 50), (b, 50)]);
    assert_eq!(told(&puppet, a), [RouteEvent::There; 2]);
}

pub fn a_prefix_named_twice_is_one_route<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let first = prefix(&world, 1);
    let again = first.network();
    puppet.route(first, lead(50));
    puppet.route(again, lead(50));
    until_led(&mut world, &[(first, 50)]);
    puppet.route(again, lead(60));
    until_led(&mut world, &[(first, 60)]);
    puppet.route(first, RouteOp::Withdraw);
    until_led(&mut world, &[]);
}

pub fn a_refused_prefix_is_told_and_had_when_free<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let [taken, free] = [1, 2].map(|n| prefix(&world, n));
    world.occupy(taken, 50);
    puppet.route(taken, lead(50));
    puppet.route(free, lead(50));
    let refused = Heard::Routed(taken.network(), RouteEvent::Failed(EXISTS));
    puppet.hears(&mut world, &refused);
    until_led(&mut world, &[(free, 50)]);
    world.run(SILENCE);
    assert_eq!(told(&puppet, taken), [RouteEvent::Failed(EXISTS)]);
    world.vacate(taken, 50);
    until_led(&mut world, &[(taken, 50), (free, 50)]);
    let both = [RouteEvent::Failed(EXISTS), RouteEvent::There];
    until(&mut world, "its end", |_| told(&puppet, taken) == both);
}

pub fn a_route_that_somebody_takes_is_put_again<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let [a, b] = [1, 2].map(|n| prefix(&world, n));
    puppet.route(a, lead(50));
    puppet.route(b, lead(50));
    until_led(&mut world, &[(a, 50), (b, 50)]);
    world.take_route(a, 50);
    assert_eq!(world.led(), [(b.network(), 50)]);
    until_led(&mut world, &[(a, 50), (b, 50)]);
    assert_eq!(told(&puppet, a), [RouteEvent::There]);
    // What is wanted no more stays away.
    puppet.route(a, RouteOp::Withdraw);
    until_led(&mut world, &[(b, 50)]);
    world.take_route(b, 50);
    until_led(&mut world, &[(b, 50)]);
}

pub fn a_port_that_is_no_host_side_leads_nowhere<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let prefix = prefix(&world, 1);
    let port = PortId(9);
    puppet.route(prefix, RouteOp::Lead(Lead { port, metric: 50 }));
    let refused = Heard::Routed(prefix.network(), RouteEvent::Failed(NO_DEVICE));
    puppet.hears(&mut world, &refused);
    puppet.route(prefix, lead(50));
    until_led(&mut world, &[(prefix, 50)]);
}

pub fn more_prefixes_than_fit_are_refused<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let count = HOST_ROUTES_MAX as u16 + 2;
    let all: Vec<Prefix> = (0..count).map(|n| prefix(&world, n)).collect();
    for prefix in &all {
        puppet.route(*prefix, lead(50));
    }
    let (fit, more) = all.split_at(HOST_ROUTES_MAX);
    until(&mut world, "all of them", |world| {
        world.led().len() == fit.len()
    });
    for prefix in more {
        assert_eq!(told(&puppet, *prefix), [RouteEvent::Failed(NO_BUFFERS)]);
    }
    for prefix in fit {
        puppet.route(*prefix, RouteOp::Withdraw);
    }
    puppet.route(more[0], lead(50));
    until_led(&mut world, &[(more[0], 50)]);
}

pub fn a_kill_takes_routes_away_and_a_start_puts_them_again<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let [a, b] = [1, 2].map(|n| prefix(&world, n));
    puppet.route(a, lead(50));
    puppet.route(b, lead(50));
    until_led(&mut world, &[(a, 50), (b, 50)]);
    puppet.route(b, RouteOp::Withdraw);
    until_led(&mut world, &[(a, 50)]);
    world.kill();
    assert_eq!(world.led(), []);
    world.restart();
    until_led(&mut world, &[(a, 50)]);
}
