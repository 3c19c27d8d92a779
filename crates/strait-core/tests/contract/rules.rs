//! The rules of the driver's side: what it takes for a bug, and what it leaves alone.

use strait_core::drive::{Media, ROUNDS_MAX, STEPS_MAX, settle};
use strait_core::node::{Boot, NodeFactory, Notice, Owner, PortState, Ticket};
use strait_core::rate::LineRate;
use strait_core::stats::Stats;
use strait_core::time::Duration;
use strait_core::{
    Effect, Input, Instant, NeighbourId, Neighbours, Node, PortId, Room, TxMeta, Wake, WakeReason,
    Want,
};

use crate::driver::World;
use crate::medium::{Agenda, Medium};
use crate::parts::{BULK, LINK};

/// What is wrong with a node, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// None: it sends one octet and rests.
    None,
    /// Each pull makes an effect, each effect something to send.
    Circle,
    /// Its effects have no end.
    Effects,
    /// It has something to send for ever.
    Talk,
    /// It writes one octet more than it is offered.
    Overrun,
    /// It says that it wants to send, and then doesn't.
    Coy,
    /// It wants to be woken now, always.
    Restless,
    /// The same, with something to send.
    RestlessAndFull,
}

#[derive(Debug)]
struct FaultyNode {
    fault: Fault,
    stats: Stats,
    frames: u32,
    effects: u32,
    now: Instant,
}

impl FaultyNode {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            stats: Stats::default(),
            frames: 1,
            effects: 0,
            now: Instant::ZERO,
        }
    }
}

impl Node for FaultyNode {
    fn handle(&mut self, now: Instant, _input: Input<'_>) {
        self.now = now;
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        (port == LINK && self.frames > 0).then_some(Want {
            class: BULK,
            octets: 1,
            to: NeighbourId::PEER,
        })
    }

    fn reads(&self, _port: PortId) -> bool {
        true
    }

    fn poll_transmit(
        &mut self,
        _now: Instant,
        port: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        if port != LINK || self.frames == 0 || self.fault == Fault::Coy {
            return None;
        }
        let octets = match self.fault {
            Fault::Overrun => room.octets + 1,
            _ => 1,
        };
        out.resize(out.len() + octets, 0);
        self.frames -= u32::from(self.fault != Fault::Talk);
        self.effects += u32::from(self.fault == Fault::Circle);
        Some(TxMeta::to_peer(BULK))
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        if self.fault != Fault::Effects {
            self.effects = self.effects.checked_sub(1)?;
            self.frames += 1;
        }
        let ticket = Ticket {
            owner: Owner(0),
            n: 0,
        };
        let batch = Vec::new();
        Some(Effect::Store { ticket, batch })
    }

    fn wake(&self) -> Option<Wake> {
        let restless = matches!(self.fault, Fault::Restless | Fault::RestlessAndFull);
        restless.then_some(Wake {
            at: self.now,
            why: WakeReason::Shaper,
        })
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn check(&self) {}
}

/// Counts what is put into it.
#[derive(Debug, Default)]
struct Sink {
    pulls: u32,
    effects: u32,
    asked: u32,
    closed: bool,
}

impl Media for Sink {
    fn room(&mut self, now: Instant, _port: PortId) -> Option<Room> {
        self.asked += 1;
        (!self.closed).then_some(Room {
            octets: 10,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, _: Instant, _: PortId, _: Room, _: TxMeta, _: &mut Vec<u8>) {
        self.pulls += 1;
    }

    fn effect(&mut self, _now: Instant, _effect: Effect) {
        self.effects += 1;
    }
}

fn settled(fault: Fault) -> (u32, Sink) {
    let (mut node, mut sink) = (FaultyNode::new(fault), Sink::default());
    let mut scratch = Vec::new();
    let pulls = settle(&mut node, &mut sink, Instant::ZERO, 2, &mut scratch);
    (pulls, sink)
}

#[test]
fn a_node_in_order_comes_to_rest() {
    let (pulls, sink) = settled(Fault::None);
    assert_eq!((pulls, sink.pulls, sink.effects, sink.asked), (1, 1, 0, 1));
}

#[test]
#[should_panic(expected = "did not come to rest in 10000 rounds")]
fn effects_that_make_frames_that_make_effects_are_a_bug() {
    settled(Fault::Circle);
}

#[test]
fn a_circle_of_less_than_the_rounds_is_none() {
    struct Ending(FaultyNode, u32);
    impl Node for Ending {
        fn handle(&mut self, now: Instant, input: Input<'_>) {
            self.0.handle(now, input);
        }
        fn wants(&self, port: PortId) -> Option<Want> {
            self.0.wants(port)
        }
        fn reads(&self, port: PortId) -> bool {
            self.0.reads(port)
        }
        fn poll_transmit(
            &mut self,
            now: Instant,
            port: PortId,
            room: Room,
            out: &mut Vec<u8>,
        ) -> Option<TxMeta> {
            self.1 -= 1;
            if self.1 == 0 {
                self.0.fault = Fault::None;
            }
            self.0.poll_transmit(now, port, room, out)
        }
        fn poll_effect(&mut self) -> Option<Effect> {
            self.0.poll_effect()
        }
        fn wake(&self) -> Option<Wake> {
            None
        }
        fn stats(&self) -> &Stats {
            self.0.stats()
        }
        fn check(&self) {}
    }
    // The last round is the one that yields nothing.
    let rounds = ROUNDS_MAX - 1;
    let mut node = Ending(FaultyNode::new(Fault::Circle), rounds);
    let mut sink = Sink::default();
    let pulls = settle(&mut node, &mut sink, Instant::ZERO, 2, &mut Vec::new());
    assert_eq!((pulls, sink.effects), (rounds, rounds - 1));
}

#[test]
#[should_panic(expected = "did not come to rest in 1000000 steps")]
fn effects_without_end_are_a_bug() {
    settled(Fault::Effects);
}

#[test]
#[should_panic(expected = "did not come to rest in 1000000 steps")]
fn frames_without_end_on_a_medium_without_end_are_a_bug() {
    const { assert!(STEPS_MAX == 1_000_000) };
    settled(Fault::Talk);
}

#[test]
#[should_panic(expected = "overran its room")]
fn more_octets_than_the_room_are_a_bug() {
    settled(Fault::Overrun);
}

#[test]
fn a_want_that_gives_nothing_ends_the_port_and_not_the_settle() {
    let (pulls, sink) = settled(Fault::Coy);
    assert_eq!((pulls, sink.pulls, sink.asked), (0, 0, 1));
}

#[test]
fn a_port_without_room_is_asked_and_not_pulled() {
    let (mut node, mut sink) = (FaultyNode::new(Fault::Talk), Sink::default());
    sink.closed = true;
    let before = format!("{node:?}");
    let pulls = settle(&mut node, &mut sink, Instant::ZERO, 2, &mut Vec::new());
    assert_eq!((pulls, sink.asked, format!("{node:?}")), (0, 1, before));
}

/// A medium that never has room.
struct Closed;

impl Medium for Closed {
    fn state(&self) -> PortState {
        let rate = LineRate::new(9600, 8);
        PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: 100,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        }
    }

    fn room(&mut self, _now: Instant, _node: usize, _agenda: &mut Agenda) -> Option<Room> {
        None
    }

    fn transmit(
        &mut self,
        _now: Instant,
        _node: usize,
        _room: Room,
        _meta: TxMeta,
        _frame: &[u8],
        _agenda: &mut Agenda,
    ) {
        unreachable!("nothing is pulled without room");
    }

    fn cut(&mut self, _now: Instant, _node: usize, _agenda: &mut Agenda) {}

    fn set_rate(&mut self, _now: Instant, _rate: LineRate) {}
}

impl NodeFactory for Fault {
    fn boot(&self, _boot: Boot) -> Box<dyn Node> {
        let mut node = FaultyNode::new(*self);
        node.frames = u32::from(*self != Self::Restless);
        Box::new(node)
    }
}

fn run(fault: Fault) {
    let mut world = World::new(1, Closed, vec![Box::new(fault)]);
    world.run_until(Instant::from_secs(1));
}

#[test]
#[should_panic(expected = "wants to be woken again at once")]
fn a_wake_up_that_changes_nothing_is_a_bug() {
    run(Fault::Restless);
}

#[test]
fn a_wake_up_may_wait_for_room_if_every_wanted_port_is_full() {
    run(Fault::RestlessAndFull);
}
