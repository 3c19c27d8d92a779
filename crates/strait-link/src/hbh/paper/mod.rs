//! One link made reliable as published: HBH, of «Transparent IP Proxy for Tactical Ad hoc Networks»
//! (Marques et al., 2012).
//!
//! Each flow has numbers, a window, a timeout and a rate of its own. A receiver acknowledges when
//! it is asked to, which is after as many transmissions as the window takes, and hands every packet
//! on when it comes. What isn't acknowledged is repeated when its timeout has passed, a number of
//! times, and then given up. A receiver whose packets go out more slowly than they come in says so,
//! and the sender paces the flow from then on.
//!
//! What the paper leaves open, and how it is filled, stands in `docs/wire-format/hbh-paper.md`.

mod estimate;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use alloc::borrow::Cow;
use alloc::vec::Vec;

use strait_core::{ClassId, Duration, Instant, Packet, Wake, WakeReason};
use strait_wire::hbh::paper::{Ack, CONTROL_OCTETS_MAX, Data, Frame, SPAN_MAX, parse};
use strait_wire::hbh::{Format, FrameError, TAGS};
use strait_wire::segment::SegmentCheck;

use self::receive::Receiver;
use self::send::Sender;
use super::receive::Judged;
use super::session::{Life, Session};
use super::{Counts, Done, Heard, Manner};

/// The share and the steps of a sending rate that answers congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// What a rate grows by in each round trip (p).
    pub increase_bit_s: u64,
    /// What is left of it at each sign of congestion, in thousandths (q).
    pub decrease_permille: u16,
}

/// How a link is made reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Packets of a flow that may be unacknowledged (W), and after whose transmission an
    /// acknowledgement is asked for.
    pub window: u16,
    /// What the window grows to where nothing is repeated; the same as `window`: it is fixed.
    pub window_max: u16,
    /// How often a packet is sent again at most (R).
    pub retries: u8,
    /// Retries are counted along the whole path, not on each link.
    pub along_path: bool,
    /// Acknowledgements are also asked for by each repetition, and by a packet behind which none
    /// waits; else only once in `window` transmissions (section III.B of the paper).
    pub asks_early: bool,
    /// When a packet is sent again; by the round trips measured if absent.
    pub timeout: Option<Duration>,
    /// How a rate answers congestion.
    pub pacing: Pacing,
}

impl Settings {
    /// What the numbers of a flow and the acknowledgement's ranges can tell of.
    pub const WINDOW_MAX: u16 = SPAN_MAX as u16 + 1;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 8,
            window_max: 8,
            retries: 4,
            along_path: false,
            asks_early: true,
            timeout: None,
            pacing: Pacing {
                increase_bit_s: 8_000,
                decrease_permille: 500,
            },
        }
    }
}

/// One neighbour.
#[derive(Debug)]
pub struct Hop {
    session: Session,
    life: Life,
    sender: Sender,
    receiver: Receiver,
    now: Instant,
    up: bool,
    control: u64,
    renewals: u64,
    other_format: u64,
    /// Packets to hand on.
    released: Vec<Packet>,
    done: Vec<Done>,
}

impl Hop {
    /// The most octets of a frame without packet.
    pub const CONTROL_OCTETS_MAX: usize = CONTROL_OCTETS_MAX;

    /// A neighbour that nothing is known of. `incarnation` is another number after each start.
    pub fn new(settings: Settings, incarnation: u32) -> Self {
        Self {
            session: Session::new(incarnation, Format::Paper),
            life: Life::default(),
            sender: Sender::new(settings),
            receiver: Receiver::default(),
            now: Instant::ZERO,
            up: false,
            control: 0,
            renewals: 0,
            other_format: 0,
            released: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The medium is there. What was on its way when it went is sent again.
    pub fn set_up(&mut self, now: Instant) {
        if !core::mem::replace(&mut self.up, true) {
            self.session.set_up(now);
            self.sender.lose_all();
        }
    }

    /// The medium is gone. Nothing is forgotten.
    pub const fn set_down(&mut self) {
        self.up = false;
        self.session.set_down();
    }

    /// Whether both ends know each other.
    pub fn is_known(&self) -> bool {
        self.session.outbound().is_some()
    }

    /// Whether a new packet of a flow may be sent now.
    pub fn takes(&self, flow: u16) -> bool {
        self.is_known() && self.sender.takes(self.now, flow)
    }

    /// Packets that are sent and not acknowledged.
    pub fn held(&self) -> usize {
        self.sender.packets().count()
    }

    /// Octets of these; nothing waits for its order.
    pub fn octets(&self) -> [usize; 2] {
        [self.sender.packets().map(Packet::octets).sum(), 0]
    }

    /// What it has counted.
    pub const fn counts(&self) -> Counts {
        Counts {
            repeated: self.sender.repeated,
            needless: 0,
            copied: 0,
            parities: 0,
            restored: 0,
            control: self.control,
            forged: self.sender.forged,
            impatient: 0,
            renewals: self.renewals,
            other_format: self.other_format,
            other_check: 0,
            window_packets_most: self.sender.packets_most,
        }
    }

    /// Takes a packet of a flow into its window, and gives its number.
    pub fn begin(&mut self, packet: Packet, manner: Manner) -> u32 {
        self.sender.begin(self.now, packet, manner)
    }

    /// Packets that are sent and not acknowledged.
    pub fn window(&self) -> impl Iterator<Item = &Packet> {
        self.sender.packets()
    }

    /// The packet of a class that is to be sent again first: its number and octets.
    pub fn again(&self, class: ClassId) -> Option<(u32, u32)> {
        self.sender
            .again(self.now, class)
            .filter(|_| self.is_known())
    }

    /// Appends the frame of a packet of a window, which leaves from `starts` on. `last`: nothing
    /// waits behind it. [`Hop::left`] is to be called with the moment at which it has left.
    pub fn transmit(
        &mut self,
        starts: Instant,
        number: u32,
        last: bool,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let names = self.session.outbound()?;
        self.sender.transmit(starts, number, last, names, out)
    }

    /// The frame has left at this moment.
    pub fn left(&mut self, ended: Instant) {
        self.sender.left(ended);
    }

    /// Whether a frame without packet is to go now: no packet takes it along.
    pub fn has_control(&self, now: Instant) -> bool {
        let hello = self.session.wake().is_some_and(|at| at <= now);
        self.up && (hello || self.is_known() && self.receiver.owes())
    }

    /// Appends a frame without packet, if one is to go.
    pub fn control(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<()> {
        if !self.has_control(now) {
            return None;
        }
        self.control += 1;
        if let Some(hello) = self.session.hello(now) {
            hello.emit(SegmentCheck::Short, out);
            return Some(());
        }
        let names = self.session.outbound()?;
        self.receiver.tell(|ack: Ack<'_>| ack.emit(names, out))
    }

    /// Says, by the lowest bits of their numbers, which flows' packets come in faster than they go
    /// out.
    pub fn set_congested(&mut self, flows: u8) {
        self.receiver.set_congested(flows);
    }

    /// Reads a frame. What it acknowledges is there afterwards. `takes` says whether there is room
    /// for a packet of a flow, by the lowest bits of its number, and with so many octets.
    pub fn hear<'a>(
        &mut self,
        now: Instant,
        frame: &'a [u8],
        takes: impl FnOnce(u8, usize) -> bool,
    ) -> Heard<'a, Data> {
        let frame = parse(frame, self.session.inbound());
        if matches!(frame, Ok(Frame::Ack(_) | Frame::Data(..))) {
            self.session.confirm();
        }
        let heard = match frame {
            Ok(Frame::Hello(hello)) if hello.format != Format::Paper => {
                self.other_format += 1;
                Heard::Nothing
            }
            Ok(Frame::Hello(hello)) => {
                if self.session.hear(now, hello).renewed {
                    self.renewals += 1;
                    self.sender.restart();
                    self.receiver = Receiver::default();
                }
                Heard::Nothing
            }
            Ok(Frame::Ack(ack)) => {
                if self.sender.acknowledge(now, &ack, &mut self.done) {
                    self.life.renew(now, &mut self.session);
                }
                Heard::Nothing
            }
            Ok(Frame::Data(data, packet)) => {
                let tag = (usize::from(data.flow) % TAGS) as u8;
                if !takes(tag, packet.len()) {
                    Heard::Refused
                } else {
                    match self.receiver.judge(now, &data) {
                        Judged::New => Heard::Packet(data, Cow::Owned(packet)),
                        Judged::Duplicate => Heard::Duplicate,
                        Judged::Beyond => Heard::Invalid,
                    }
                }
            }
            Err(FrameError::BadCheck) => {
                self.session.object(now);
                Heard::Foreign
            }
            // This format has one check only.
            Err(FrameError::OtherCheck(_)) => {
                self.other_format += 1;
                Heard::Nothing
            }
            Err(FrameError::Invalid) => Heard::Invalid,
        };
        self.advance(now);
        heard
    }

    /// Takes a new packet in, to be handed on at once; without one, the number counts as come.
    pub fn accept(&mut self, packet: Option<Packet>) {
        self.released.extend(packet);
    }

    /// The next packet to hand on.
    pub fn released(&mut self) -> alloc::vec::Drain<'_, Packet> {
        self.released.drain(..)
    }

    /// Packets that have left the window.
    pub fn done(&mut self) -> alloc::vec::Drain<'_, Done> {
        self.done.drain(..)
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
        if self.up && self.is_known() {
            self.sender.expire(now, &mut self.done);
        }
        self.sender.discard(now, &mut self.done);
    }

    /// When something is due that isn't yet, and why.
    pub fn wake(&self) -> Option<Wake> {
        let wake = |at: Option<Instant>, why| at.map(|at| Wake { at, why });
        let works = self.up && self.is_known();
        let hello = self.session.wake().filter(|at| self.up && *at > self.now);
        let timeout = self.sender.timeout_at().filter(|_| works);
        let paced = self.sender.paced_until(self.now).filter(|_| works);
        let wakes = [
            wake(hello, WakeReason::Retransmit),
            wake(timeout, WakeReason::Retransmit),
            wake(paced, WakeReason::Shaper),
            wake(self.sender.ends_at(), WakeReason::Age),
        ];
        wakes.into_iter().flatten().min_by_key(|wake| wake.at)
    }

    /// Gives every packet back.
    pub fn take_all(&mut self) -> Vec<Packet> {
        let mut all = self.sender.take(|_| true);
        all.append(&mut self.released);
        all
    }

    /// Gives those packets of the window back that are to go another way.
    pub fn take_window(&mut self, leaves: impl FnMut(&Packet) -> bool) -> Vec<Packet> {
        self.sender.take(leaves)
    }

    /// Asserts what holds between calls.
    pub fn check(&self) {
        self.sender.check();
        self.receiver.check();
    }
}
