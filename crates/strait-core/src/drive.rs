//! The driver's side of the contract, shared by both worlds.

use alloc::vec::Vec;

use crate::id::PortId;
use crate::node::{Effect, Node, Room, TxMeta};
use crate::time::Instant;

/// What a driver provides: room on ports, and hands for effects.
pub trait Media {
    /// What `port` can take now; `None` if nothing.
    fn room(&mut self, now: Instant, port: PortId) -> Option<Room>;

    /// Puts `frame` on the medium. It was pulled with `room` and isn't longer than that. What is
    /// left in `frame` afterwards is of no interest: the driver may take the buffer.
    fn transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        meta: TxMeta,
        frame: &mut Vec<u8>,
    );

    /// Carries out or takes note of an effect.
    fn effect(&mut self, now: Instant, effect: Effect);
}

/// Rounds after which a node that still yields something is taken for a bug.
pub const ROUNDS_MAX: u32 = 10_000;

/// Settles `node`: its effects until there are none, then transmissions until no port has both
/// room and something to send, until a round yields nothing. Returns the number of pulls.
///
/// # Panics
/// After [`ROUNDS_MAX`] rounds, and when a node writes more octets than it was offered.
pub fn settle<N, M>(
    node: &mut N,
    media: &mut M,
    now: Instant,
    ports: u8,
    scratch: &mut Vec<u8>,
) -> u32
where
    N: Node + ?Sized,
    M: Media + ?Sized,
{
    let mut pulls = 0;
    for _ in 0..ROUNDS_MAX {
        let mut idle = true;
        while let Some(effect) = node.poll_effect() {
            media.effect(now, effect);
            idle = false;
        }
        for port in (0..ports).map(PortId) {
            while node.wants(port).is_some() {
                let Some(room) = media.room(now, port) else {
                    break;
                };
                scratch.clear();
                let Some(meta) = node.poll_transmit(now, port, room, scratch) else {
                    break;
                };
                assert!(
                    scratch.len() <= room.octets,
                    "port {port:?} overran its room"
                );
                media.transmit(now, port, room, meta, scratch);
                pulls += 1;
                idle = false;
            }
        }
        if idle {
            return pulls;
        }
    }
    panic!("a node did not come to rest in {ROUNDS_MAX} rounds");
}
