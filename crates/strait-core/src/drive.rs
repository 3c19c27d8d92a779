//! The driver's side of the contract, shared by both worlds.

use alloc::vec::Vec;

use crate::id::PortId;
use crate::node::{Effect, Node, Room, TxMeta};
use crate::time::Instant;

/// What a driver provides: room on ports, and hands for effects.
pub trait Media {
    /// What `port` can take now; `None` if nothing.
    fn room(&mut self, now: Instant, port: PortId) -> Option<Room>;

    /// The same when the next `committed` octets are fixed: a driver that is sometimes late takes
    /// them ahead of their time.
    fn room_for(&mut self, now: Instant, port: PortId, _committed: usize) -> Option<Room> {
        self.room(now, port)
    }

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

/// Effects and pulls of one settle after which a node is taken for one that never rests. A node
/// in order stays far below: at most some 65,000 fates wait in a ledger.
pub const STEPS_MAX: u32 = 1_000_000;

/// Settles `node`: its effects until there are none, then transmissions until no port has both
/// room and something to send, until a round yields nothing. Returns the number of pulls.
///
/// # Panics
/// After [`ROUNDS_MAX`] rounds or [`STEPS_MAX`] effects and pulls, and when a node writes more
/// octets than it was offered.
/// # Examples
///
/// A node that sends each frame back, and a driver with one port that takes 100 octets at once:
///
/// ```
/// use strait_core::drive::{Media, settle};
/// use strait_core::stats::Stats;
/// use strait_core::{
///     ClassId, Effect, Input, Instant, NeighbourId, Neighbours, Node, PortId, Room, TxMeta, Wake,
///     Want,
/// };
///
/// #[derive(Default)]
/// struct Mirror {
///     waiting: Vec<Vec<u8>>,
///     stats: Stats,
/// }
///
/// impl Node for Mirror {
///     fn handle(&mut self, _: Instant, input: Input<'_>) {
///         if let Input::Frame { bytes, .. } = input {
///             self.waiting.push(bytes.to_vec());
///         }
///     }
///     fn wants(&self, _: PortId) -> Option<Want> {
///         let octets = self.waiting.first()?.len() as u32;
///         Some(Want { class: ClassId(0), octets, to: NeighbourId::PEER })
///     }
///     fn reads(&self, _: PortId) -> bool {
///         self.waiting.len() < 10
///     }
///     fn poll_transmit(
///         &mut self,
///         _: Instant,
///         _: PortId,
///         room: Room,
///         out: &mut Vec<u8>,
///     ) -> Option<TxMeta> {
///         self.waiting.first().filter(|frame| frame.len() <= room.octets)?;
///         out.extend(self.waiting.remove(0));
///         Some(TxMeta::to_peer(ClassId(0)))
///     }
///     fn poll_effect(&mut self) -> Option<Effect> {
///         None
///     }
///     fn wake(&self) -> Option<Wake> {
///         None
///     }
///     fn stats(&self) -> &Stats {
///         &self.stats
///     }
///     fn check(&self) {}
/// }
///
/// #[derive(Default)]
/// struct OnePort {
///     sent: Vec<Vec<u8>>,
/// }
///
/// impl Media for OnePort {
///     fn room(&mut self, now: Instant, _: PortId) -> Option<Room> {
///         Some(Room { octets: 100, starts: now, until: None, to: Neighbours::ALL })
///     }
///     fn transmit(&mut self, _: Instant, _: PortId, _: Room, _: TxMeta, frame: &mut Vec<u8>) {
///         self.sent.push(frame.clone());
///     }
///     fn effect(&mut self, _: Instant, _: Effect) {}
/// }
///
/// let (mut node, mut media) = (Mirror::default(), OnePort::default());
/// let (port, from, now) = (PortId(0), NeighbourId::PEER, Instant::ZERO);
/// for bytes in [&b"one"[..], b"two"] {
///     let meta = Default::default();
///     node.handle(now, Input::Frame { port, from, bytes, meta });
///     settle(&mut node, &mut media, now, 1, &mut Vec::new());
///     assert!(node.wake().is_none(), "it has nothing to do until the next input");
/// }
/// assert_eq!(media.sent, [b"one", b"two"]);
/// ```
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
    let mut steps = 0;
    for _ in 0..ROUNDS_MAX {
        let before: u32 = steps;
        while let Some(effect) = node.poll_effect() {
            media.effect(now, effect);
            count_step(&mut steps);
        }
        for port in (0..ports).map(PortId) {
            while node.wants(port).is_some() {
                let committed = node.committed_octets(port);
                let Some(room) = media.room_for(now, port, committed) else {
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
                count_step(&mut steps);
            }
        }
        if steps == before {
            return pulls;
        }
    }
    panic!("a node did not come to rest in {ROUNDS_MAX} rounds");
}

/// A round has an end only if the node's effects and the medium's room have one.
fn count_step(steps: &mut u32) {
    *steps += 1;
    assert!(
        *steps < STEPS_MAX,
        "a node did not come to rest in {STEPS_MAX} steps"
    );
}
