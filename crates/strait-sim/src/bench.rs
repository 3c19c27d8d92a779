//! Loads for measuring how fast the simulator is. They hold no clock: who runs them has one.

use strait_channel::LinkConfig;
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_hosts::{Host, HostConfig};
use strait_node::config_text::ConfigError;
use strait_node::{GatewayFactory, NodeConfig, Prefix};
use strait_traffic::Ports;
use strait_wire::hash::hash64;

use crate::build::BuildError;
use crate::router::Router;
use crate::world::{Attach, NodeIndex, World};

mod cell;
mod scale;
mod torus;

pub use cell::{BareAir, Saturated};
pub use scale::Scale;
pub use torus::Torus;

/// What the three nodes in the middle of a [`Chain`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Middle {
    /// Plain routers with queues of 100 packets.
    Routers,
    /// Gateways with the default policy, whose links carry each packet whole in one frame.
    Gateways,
}

/// A bulk transfer by TCP over four links in a row, each of 300 kbit/s and 50 ms: the chain of
/// radios that hop-by-hop protocols are compared on.
///
/// Packets have 576 octets, segments 536 (RFC 9293 section 3.7.1). The ledgers and the run hash
/// are on, as always; packets aren't followed along their path. Nothing is lost: the first link is
/// as slow as the others, so that what waits does so in the sending host.
pub struct Chain {
    world: World,
    ends: [NodeIndex; 2],
    octets: u64,
}

/// What happened in a [`Chain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Packets over links, counted once for each link: data and acknowledgements.
    pub hops: u64,
    /// Octets that packets carried over links, headers included.
    pub octets: u64,
    /// Events of the simulator.
    pub events: u64,
    /// The run hash.
    pub hash: u64,
    /// Whether every octet of the file came, and came right.
    pub complete: bool,
}

const LEFT: [u8; 4] = [10, 0, 0, 1];
const RIGHT: [u8; 4] = [10, 0, 9, 1];
/// Octets of the longest packet.
const MTU: u32 = 576;
/// A window that the path's 0.45 s at 300 kbit/s never closes.
const BUFFER_OCTETS: u32 = 131_072;
const RATE_BIT_S: u64 = 300_000;
/// Between gateways, frames have 5 octets more than packets. With room for them the first link
/// stays the narrowest, as in the chain of routers.
const RATE_FRAMED_BIT_S: u64 = 303_000;
const SEED: u64 = 1;

impl Chain {
    /// The chain with a file of `octets` about to be sent.
    ///
    /// # Errors
    /// None, unless the texts of this module are wrong.
    pub fn new(middle: Middle, octets: u64) -> Result<Self, BuildError> {
        let mut world = World::new(SEED);
        let left = world.add_host(host("left", LEFT));
        let nodes = match middle {
            Middle::Routers => ["r1", "r2", "r3"].map(|name| world.add_router(name, router())),
            Middle::Gateways => add_gateways(&mut world)?,
        };
        let right = world.add_host(host("right", RIGHT));
        let chain = [left, nodes[0], nodes[1], nodes[2], right];
        // Of each node, the port to the left and the one to the right.
        let ports = match middle {
            Middle::Routers => [(0, 0), (0, 1), (0, 1), (0, 1), (0, 0)],
            Middle::Gateways => [(0, 0), (0, 1), (1, 2), (1, 0), (0, 0)],
        };
        for number in 0..chain.len() - 1 {
            let name = format!("link{number}");
            let inner = middle == Middle::Gateways && (1..3).contains(&number);
            let rate_bit_s = if inner { RATE_FRAMED_BIT_S } else { RATE_BIT_S };
            let config = LinkConfig::frames(rate_bit_s, Duration::from_millis(50));
            let end = |node: usize, port: u8| Attach {
                node: chain[node],
                port: PortId(port),
                neighbour: NeighbourId::PEER,
            };
            let ends = [
                end(number, ports[number].1),
                end(number + 1, ports[number + 1].0),
            ];
            let joined = world.join_at(&name, &config, ends);
            joined.map_err(|error| BuildError::Link { name, error })?;
        }
        let mut chain = Self {
            world,
            ends: [left, right],
            octets,
        };
        chain.install()?;
        chain.world.start();
        Ok(chain)
    }

    fn install(&mut self) -> Result<(), BuildError> {
        let text = format!(
            "name = \"file\"\nkind = \"tcp\"\nfrom = \"left\"\nto = \"right\"\n\
             octets = {}\nendpoint = \"ns3-2012\"\nbuffer = {BUFFER_OCTETS}\n",
            self.octets
        );
        let config = strait_scenario::traffic_of(&text)?;
        let [left, right] = self.ends;
        if let Some((near, far)) = self.world.hosts_mut(left, right) {
            let (from, to) = (LEFT.into(), RIGHT.into());
            strait_hosts::install(&config, near, far, from, to, Ports::nth(0), SEED)?;
        }
        Ok(())
    }

    /// Runs it to its end.
    pub fn run(&mut self) -> Outcome {
        const STEP: Duration = Duration::from_secs(10);
        // Twice the time of the octets alone, and half a minute.
        let limit = Instant::from_secs(30 + self.octets * 16 / RATE_BIT_S);
        while !self.is_complete() && self.world.now() < limit {
            let until = self.world.now() + STEP;
            self.world.run_until(until);
        }
        let sides = self.world.links().flat_map(|(_, sides)| sides);
        let (hops, octets) = sides.fold((0, 0), |(hops, octets), side| {
            (hops + side.frames, octets + side.octets)
        });
        Outcome {
            hops,
            octets,
            events: self.world.events(),
            hash: self.world.hash(),
            complete: self.is_complete(),
        }
    }

    fn is_complete(&self) -> bool {
        let mut logs = self
            .world
            .host(self.ends[1])
            .into_iter()
            .flat_map(Host::logs);
        logs.any(|log| {
            log.transfer.as_ref().is_some_and(|transfer| {
                transfer.octets == self.octets && transfer.wrong_octets == 0
            })
        })
    }
}

fn host(name: &str, address: [u8; 4]) -> Host {
    Host::new(&HostConfig {
        mtu: MTU,
        ..HostConfig::new(name, vec![address.into()], SEED)
    })
}

fn router() -> Router {
    let mut router = Router::new(["left", "right"], 100);
    for (port, address) in [LEFT, RIGHT].into_iter().enumerate() {
        if let Some(prefix) = Prefix::new(address.into(), 24) {
            router.add_route(prefix, PortId(port as u8));
        }
    }
    router
}

/// The first and the last have a host on their host side, the one between has two links.
fn add_gateways(world: &mut World) -> Result<[NodeIndex; 3], BuildError> {
    let mut nodes = [NodeIndex(0); 3];
    for (node, ports) in
        nodes
            .iter_mut()
            .zip([["host", "right"], ["left", "right"], ["left", "host"]])
    {
        let mut text = String::from("name = \"g\"\n[host]\n[policy]\npreset = \"default\"\n");
        for port in ports.iter().filter(|port| **port != "host") {
            text += &format!("[[port]]\nname = \"{port}\"\nkind = \"udp\"\nframe = 1500\n");
        }
        for (port, prefix) in ports.iter().zip(["10.0.0.0/24", "10.0.9.0/24"]) {
            text += &format!("[[route]]\nprefix = \"{prefix}\"\nport = \"{port}\"\n");
        }
        let config = NodeConfig::from_text("gateway", &text)?;
        let factory = GatewayFactory::new(config)
            .map_err(|error| ConfigError::of_file("gateway", error.to_string()))?;
        *node = world.add_node(&ports.join("-"), Box::new(factory));
    }
    Ok(nodes)
}

/// The least that moving packets over hops costs: each of `packets` is copied from node to node
/// and hashed in each. Measured beside a [`Chain`] it tells a slow program from a busy machine.
#[derive(Debug)]
pub struct BareCopy {
    buffers: [Vec<u8>; 4],
}

impl Default for BareCopy {
    fn default() -> Self {
        Self {
            buffers: [const { Vec::new() }; 4],
        }
    }
}

impl BareCopy {
    /// Octets that one packet carries over its hops.
    pub const HOP_OCTETS: u64 = MTU as u64 * 4;

    /// Moves `packets` packets over four hops; returns a number that depends on every octet.
    pub fn run(&mut self, packets: u64) -> u64 {
        let mut source = vec![0x5a; MTU as usize];
        let mut sum = 0;
        for packet in 0..packets {
            source[..8].copy_from_slice(&packet.to_le_bytes());
            let mut from = &source;
            for buffer in &mut self.buffers {
                buffer.clear();
                buffer.extend_from_slice(from);
                sum = hash64(sum, buffer);
                from = buffer;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_chains_carry_the_file_whole_and_without_a_loss() {
        for middle in [Middle::Routers, Middle::Gateways] {
            let outcome = Chain::new(middle, 200_000).unwrap().run();
            assert!(outcome.complete, "{middle:?}");
            let segments = 200_000_u64.div_ceil(536);
            let data = segments * 4;
            // Acknowledgements of every second segment, the handshake and the end.
            assert!(
                (data + data / 2..=data * 7 / 4).contains(&outcome.hops),
                "{middle:?}: {outcome:?}"
            );
            let again = Chain::new(middle, 200_000).unwrap().run();
            assert_eq!(again, outcome);
        }
    }

    #[test]
    fn an_event_for_each_arrival_and_few_others() {
        // What an event costs can't be asserted, how many there are can: one more for each hop
        // would show here on any machine.
        for (middle, most) in [(Middle::Routers, 1.35), (Middle::Gateways, 1.5)] {
            let outcome = Chain::new(middle, 1_000_000).unwrap().run();
            let events = outcome.events as f64 / outcome.hops as f64;
            assert!(events < most, "{middle:?}: {events} events a hop");
        }
    }

    #[test]
    fn the_bare_copy_depends_on_what_it_copies() {
        let mut copy = BareCopy::default();
        assert_ne!(copy.run(10), copy.run(11));
    }
}
