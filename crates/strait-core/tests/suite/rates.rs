//! Neighbours on one port, each with a way of its own. The port has the number 1.

use super::*;

/// Rates of the ways to two neighbours, in bit/s.
pub const RATES: [u64; 2] = [80_000, 800_000];
/// The port that has them.
pub const PORT: PortId = PortId(1);

/// What the node was told of rates so far.
fn told(puppet: &Puppet) -> Vec<(NeighbourId, u64)> {
    let rates = &puppet.strings().rates;
    rates.iter().map(|(to, rate)| (*to, rate.bit_s())).collect()
}

fn both() -> [(NeighbourId, u64); 2] {
    [0, 1].map(|n| (NeighbourId(n), RATES[usize::from(n)]))
}

/// Has the node send as much as it may for a second; by which rates it did.
fn rates_of_a_second<W: World>(puppet: &Puppet, world: &mut W) -> [f64; 2] {
    puppet.floods(true);
    world.run(Duration::from_secs(1));
    let sent = puppet.floods(false);
    sent.map(|frames| {
        let (first, last) = (frames.first().unwrap().0, frames.last().unwrap().0);
        let octets: usize = frames.iter().skip(1).map(|(_, octets)| octets).sum();
        octets as f64 * 8.0 / last.since(first).as_secs_f64()
    })
}

/// A machine that is busy leaves gaps; one that isn't may be asked a little early.
fn are_kept(rates: [f64; 2]) {
    for (rate, of) in rates.into_iter().zip(RATES) {
        let share = rate / of as f64;
        assert!((0.7..=1.01).contains(&share), "{rates:?}");
    }
}

pub fn each_neighbour_is_sent_to_by_its_own_rate<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    until(&mut world, "both rates", |_| told(&puppet) == both());
    // The first one always has something to send, and the second one gets its rate beside it.
    are_kept(rates_of_a_second(&puppet, &mut world));
}

pub fn a_node_that_starts_again_is_told_again<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    until(&mut world, "both rates", |_| told(&puppet) == both());
    puppet.floods(true);
    world.run(Duration::from_millis(200));
    world.kill();
    world.restart();
    let twice = [both(), both()].concat();
    until(&mut world, "both rates again", |_| told(&puppet) == twice);
    assert_eq!(puppet.strings().early, 0, "nothing leaves by no rate");
    puppet.floods(false);
    are_kept(rates_of_a_second(&puppet, &mut world));
}
