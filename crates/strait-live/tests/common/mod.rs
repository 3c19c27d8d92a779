//! What the live tests share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::VecDeque;

use strait_core::id::{ClassId, NeighbourId, PortId};
use strait_core::node::{
    Command, Effect, Held, Input, Node, Owner, PortEvent, Room, Side, StreamId, StreamOp, TxMeta,
    Wake, WakeReason, Want,
};
use strait_core::stats::{PortStats, Stats};
use strait_core::time::Instant;

/// Whether a test that needs root can run; says so if not.
pub(crate) fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("{test}: skipped, needs root");
    }
    root
}

/// Sends back on each port what came in there, and what it was given to say.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) waiting: VecDeque<u8>,
    pub(crate) up: u32,
    pub(crate) down: u32,
    pub(crate) inputs: u64,
    pub(crate) stats: Stats,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) resets: u32,
    /// A node with a bug: always wants to be woken at once.
    pub(crate) restless: bool,
}

impl Echo {
    pub(crate) fn new() -> Self {
        let mut echo = Self::default();
        echo.stats.ports.push(PortStats::default());
        echo
    }

    pub(crate) fn saying(octets: &[u8]) -> Self {
        let mut echo = Self::new();
        echo.waiting.extend(octets);
        echo
    }

    pub(crate) fn connecting() -> Self {
        let mut echo = Self::new();
        echo.effects.push_back(Effect::Stream {
            id: StreamId {
                owner: Owner(1),
                side: Side::Node,
                n: 1,
            },
            op: StreamOp::Connect {
                src: None,
                dst: ([127, 0, 0, 1], 7).into(),
                dscp: 0,
                held: Held::ORDINARY,
            },
        });
        echo
    }
}

impl Node for Echo {
    fn handle(&mut self, _now: Instant, input: Input<'_>) {
        self.inputs += 1;
        match input {
            Input::Frame { bytes, .. } => {
                self.waiting.extend(bytes);
                self.stats.ports[0].octets_in += bytes.len() as u64;
            }
            Input::Port { event, .. } => match event {
                PortEvent::Up(_) => self.up += 1,
                PortEvent::Down(_) => self.down += 1,
                _ => {}
            },
            Input::Stream { .. } => self.resets += 1,
            Input::Command(Command::Stop) => self.waiting.clear(),
            _ => {}
        }
    }

    fn wants(&self, _port: PortId) -> Option<Want> {
        (!self.waiting.is_empty()).then_some(Want {
            class: ClassId(0),
            octets: self.waiting.len() as u32,
            to: NeighbourId::PEER,
        })
    }

    fn reads(&self, _port: PortId) -> bool {
        self.waiting.len() < 10_000
    }

    fn poll_transmit(
        &mut self,
        _now: Instant,
        _port: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        let count = self.waiting.len().min(room.octets);
        out.extend(self.waiting.drain(..count));
        self.stats.ports[0].octets_out += count as u64;
        (count > 0).then_some(TxMeta::to_peer(ClassId(0)))
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    fn wake(&self) -> Option<Wake> {
        self.restless.then_some(Wake {
            at: Instant::ZERO,
            why: WakeReason::Shaper,
        })
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn check(&self) {}
}
