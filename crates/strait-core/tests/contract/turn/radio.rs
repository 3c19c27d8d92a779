//! The half-duplex medium between two ends.

use strait_core::node::{PortEvent, PortState};
use strait_core::rate::{Burst, LineRate};
use strait_core::time::Duration;
use strait_core::{Instant, NeighbourId, Neighbours, Room, TxMeta};

use crate::medium::{Agenda, Medium, What};

pub(super) const FAST: LineRate = LineRate::new(9600, 8);
pub(super) const SLOW: LineRate = LineRate::new(2400, 8);
pub(super) const BLOCK: Duration = Duration::from_millis(100);
/// From key-up to the first octet.
pub(super) const TURNAROUND: Duration = Duration::from_millis(20);
pub(super) const LATENCY: Duration = Duration::from_millis(10);
/// What the medium takes ahead of its line.
pub(super) const LOW_WATER: Duration = Duration::from_millis(10);

/// A transmission under way.
#[derive(Clone, Copy, Debug)]
struct Keyed {
    blocks: u32,
    until: Instant,
    burst: Burst,
    ended: bool,
}

/// The medium between two ends.
pub(super) struct Radio {
    rate: LineRate,
    keyed: [Option<Keyed>; 2],
    heard: [bool; 2],
    /// A port that comes up is told of a carrier, as the contract has it.
    pub(super) tells: bool,
    /// Times that one end keyed up while the other was keyed.
    pub(super) collisions: u32,
    /// Each turn: its end, when it began, and its planned and kept length in blocks; 0 if its node
    /// was killed.
    pub(super) turns: Vec<(usize, Instant, u32)>,
}

impl Radio {
    pub(super) const fn new() -> Self {
        Self {
            rate: FAST,
            keyed: [None; 2],
            heard: [false; 2],
            tells: true,
            collisions: 0,
            turns: Vec::new(),
        }
    }

    fn key_up(&mut self, node: usize, room: Room, blocks: u32, agenda: &mut Agenda) {
        assert!(self.keyed[node].is_none() && blocks > 0);
        self.collisions += u32::from(self.keyed[1 - node].is_some());
        let until = room.starts + BLOCK * blocks;
        self.keyed[node] = Some(Keyed {
            blocks,
            until,
            burst: Burst::new(self.rate, room.starts),
            ended: false,
        });
        self.turns.push((node, room.starts, blocks));
        let node_over = What::Medium(node as u64);
        agenda.plan(until, node_over);
        self.carrier_at(room.starts + LATENCY, 1 - node, true, agenda);
    }

    fn carrier_at(&mut self, at: Instant, node: usize, on: bool, agenda: &mut Agenda) {
        self.heard[node] = on;
        let event = PortEvent::Carrier(on);
        agenda.plan(at, What::Port { node, event });
    }
}

impl Medium for Radio {
    fn state(&self) -> PortState {
        PortState {
            tx_rate: self.rate,
            rx_rate: self.rate,
            frame_octets_max: 256,
            block: BLOCK,
            latency: LATENCY,
        }
    }

    fn carrier(&self, node: usize) -> bool {
        self.tells && self.heard[node]
    }

    /// Also while the other end is keyed: that the nodes don't use it then is what is proven.
    fn room(&mut self, now: Instant, node: usize, agenda: &mut Agenda) -> Option<Room> {
        let Some(keyed) = &self.keyed[node] else {
            return Some(Room {
                octets: usize::from(u16::MAX),
                starts: now + TURNAROUND,
                until: None,
                to: Neighbours::ALL,
            });
        };
        let end = keyed.burst.end().max(now);
        let octets = self.rate.octets_in(keyed.until.since(end)) as usize;
        if keyed.ended || octets == 0 {
            return None;
        }
        if end > now + LOW_WATER {
            agenda.forget(|_, what| matches!(what, What::Room { node: at } if *at == node));
            agenda.plan(end - LOW_WATER, What::Room { node });
            return None;
        }
        Some(Room {
            octets,
            starts: end,
            until: Some(keyed.until),
            to: Neighbours::ALL,
        })
    }

    fn transmit(
        &mut self,
        _now: Instant,
        node: usize,
        room: Room,
        meta: TxMeta,
        frame: &[u8],
        agenda: &mut Agenda,
    ) {
        let turn = meta.turn.expect("a half-duplex transmission has a turn");
        if turn.key_up {
            self.key_up(node, room, turn.blocks, agenda);
        }
        let keyed = self.keyed[node].as_mut().expect("keyed up");
        assert_eq!(turn.blocks, keyed.blocks, "the planned length changed");
        keyed.ended = turn.last;
        let end = keyed.burst.push(room.starts, frame.len() as u64);
        assert!(end <= keyed.until, "beyond the end of the turn");
        if self.keyed[1 - node].is_none() {
            let arrival = What::Arrive {
                node: 1 - node,
                sender: node,
                from: NeighbourId::PEER,
                bytes: frame.to_vec(),
            };
            agenda.plan(end + LATENCY, arrival);
        }
    }

    fn happen(&mut self, now: Instant, mark: u64, agenda: &mut Agenda) {
        let node = mark as usize;
        if self.keyed[node].is_some_and(|keyed| keyed.until == now) {
            self.keyed[node] = None;
            let event = PortEvent::Drained;
            agenda.plan(now, What::Port { node, event });
            self.carrier_at(now + LATENCY, 1 - node, false, agenda);
        }
    }

    fn cut(&mut self, now: Instant, node: usize, agenda: &mut Agenda) {
        if self.keyed[node].take().is_none() {
            return;
        }
        let other = 1 - node;
        if let Some(turn) = self.turns.iter_mut().rfind(|turn| turn.0 == node) {
            turn.2 = 0;
        }
        agenda.forget(|at, what| {
            matches!(what, What::Arrive { sender, .. } if *sender == node && at > now + LATENCY)
        });
        let event = PortEvent::Carrier(true);
        let unheard = agenda.forget(|_, what| {
            let What::Port {
                node,
                event: planned,
            } = what
            else {
                return false;
            };
            (*node, *planned) == (other, event)
        });
        if unheard == 0 {
            self.carrier_at(now + LATENCY, other, false, agenda);
        } else {
            self.heard[other] = false;
        }
    }

    fn set_rate(&mut self, _now: Instant, rate: LineRate) {
        self.rate = rate;
        for keyed in self.keyed.iter_mut().flatten() {
            keyed.burst.set_rate(rate);
        }
    }
}
