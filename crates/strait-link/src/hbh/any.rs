//! A neighbour by either format: the same frames and packets to its owner.

use alloc::boxed::Box;
use alloc::vec::{Drain, Vec};

use strait_core::{ClassId, Duration, Instant, Packet, Wake};
use strait_wire::hbh::{DataHeader, TAGS, paper as wire};

use super::{Again, Counts, Done, Heard, Hop, Manner, Settings, paper};

/// In our format, of numbers: that of a class whose parity frame it is. Packets' are lower.
const PARITY: u32 = 1 << 16;

/// How a link is made reliable, and how its frames look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnySettings {
    /// As [`Hop`] does it.
    Strait(Settings),
    /// As published: [`paper::Hop`].
    Paper(paper::Settings),
}

/// One neighbour, in whatever format.
#[derive(Debug)]
pub enum AnyHop {
    /// In ours.
    Strait(Box<Hop>),
    /// In the published one.
    Paper(Box<paper::Hop>),
}

/// What stood before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// In our format.
    Strait(DataHeader),
    /// In the published one.
    Paper(wire::Data),
}

impl Header {
    /// Takes over into a packet what came with it.
    pub fn mark(&self, now: Instant, packet: &mut Packet) {
        match self {
            Self::Strait(header) => {
                packet.ingress = Some(header.ingress);
                if let Some(left) = header.lifetime.left() {
                    packet.expires = now + left;
                }
            }
            Self::Paper(header) => packet.retries = header.left,
        }
    }
}

/// The same call of either.
macro_rules! either {
    ($any:expr, $hop:ident => $call:expr) => {
        match $any {
            AnyHop::Strait($hop) => $call,
            AnyHop::Paper($hop) => $call,
        }
    };
}

impl AnyHop {
    /// A neighbour that nothing is known of. `incarnation` is another number after each start.
    pub fn new(settings: AnySettings, incarnation: u32) -> Self {
        match settings {
            AnySettings::Strait(settings) => {
                Self::Strait(Box::new(Hop::new(settings, incarnation)))
            }
            AnySettings::Paper(settings) => {
                Self::Paper(Box::new(paper::Hop::new(settings, incarnation)))
            }
        }
    }

    /// The most octets of a frame without packet that would go now.
    pub fn control_octets_max(&self) -> usize {
        match self {
            Self::Strait(hop) => hop.control_octets_max(),
            Self::Paper(_) => paper::Hop::CONTROL_OCTETS_MAX,
        }
    }

    /// By which mark packets are told apart that are held back: the tag of their class, or the
    /// lowest bits of their flow's number.
    pub const fn mark(&self, tag: u8, flow: u32) -> u8 {
        match self {
            Self::Strait(_) => tag,
            Self::Paper(_) => (flow as u16 as usize % TAGS) as u8,
        }
    }

    /// See [`Hop::set_up`].
    pub fn set_up(&mut self, now: Instant) {
        either!(self, hop => hop.set_up(now));
    }

    /// See [`Hop::set_down`].
    pub fn set_down(&mut self) {
        either!(self, hop => hop.set_down());
    }

    /// Whether a new packet of a flow may be sent: in ours, by the tag of its class.
    pub fn takes(&self, tag: u8, flow: impl FnOnce() -> Option<u32>) -> bool {
        match self {
            Self::Strait(hop) => hop.takes(tag),
            Self::Paper(hop) => flow().is_some_and(|flow| hop.takes(flow as u16)),
        }
    }

    /// See [`Hop::set_rate`].
    pub fn set_rate(&mut self, rate_bit_s: Option<u64>) {
        match self {
            Self::Strait(hop) => hop.set_rate(rate_bit_s),
            Self::Paper(_) => {}
        }
    }

    /// See [`Hop::is_wide`].
    pub const fn is_wide(&self) -> bool {
        match self {
            Self::Strait(hop) => hop.is_wide(),
            Self::Paper(_) => false,
        }
    }

    /// See [`Hop::trip_octets`].
    pub fn trip_octets(&self, rate_bit_s: u64) -> usize {
        match self {
            Self::Strait(hop) => hop.trip_octets(rate_bit_s),
            Self::Paper(_) => 0,
        }
    }

    /// See [`Hop::round_trip`].
    pub fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Strait(hop) => hop.round_trip(),
            Self::Paper(_) => None,
        }
    }

    /// See [`Hop::held_octets_max`]; the published format knows no such limit.
    pub fn held_octets_max(&self) -> Option<usize> {
        match self {
            Self::Strait(hop) => Some(hop.held_octets_max()),
            Self::Paper(_) => None,
        }
    }

    /// Packets in its hands.
    pub fn held(&self) -> usize {
        either!(self, hop => hop.held())
    }

    /// Octets of the packets that aren't acknowledged, and of those that wait for their order.
    pub fn octets(&self) -> [usize; 2] {
        either!(self, hop => hop.octets())
    }

    /// What it has counted.
    pub const fn counts(&self) -> Counts {
        either!(self, hop => hop.counts())
    }

    /// Takes a packet in, and gives its number.
    pub fn begin(&mut self, packet: Packet, manner: Manner) -> u32 {
        match self {
            Self::Strait(hop) => u32::from(hop.begin(packet, manner)),
            Self::Paper(hop) => hop.begin(packet, manner),
        }
    }

    /// Whether any packet that isn't acknowledged is such.
    pub fn any_sent(&self, such: impl FnMut(&Packet) -> bool) -> bool {
        either!(self, hop => hop.window().any(such))
    }

    /// See [`Hop::renew`]; the published format knows nothing such.
    pub fn renew(&mut self, until: Instant, such: impl FnMut(&Packet) -> bool) {
        match self {
            Self::Strait(hop) => hop.renew(until, such),
            Self::Paper(_) => {}
        }
    }

    /// What of a class is to be sent before anything new of it: its number and octets.
    pub fn again(&self, class: ClassId) -> Option<(u32, u32)> {
        match self {
            Self::Strait(hop) => hop.again(class).map(|(again, octets)| match again {
                Again::Packet(seq) => (u32::from(seq), octets),
                Again::Parity(class) => (PARITY | u32::from(class.0), octets),
            }),
            Self::Paper(hop) => hop.again(class),
        }
    }

    /// Classes of which more has become due by what was sent: see [`Hop::parity_classes`].
    pub fn classes_due(&self) -> impl Iterator<Item = ClassId> + '_ {
        let hop = match self {
            Self::Strait(hop) => Some(hop),
            Self::Paper(_) => None,
        };
        hop.into_iter().flat_map(|hop| hop.parity_classes())
    }

    /// A packet of which a copy may go if nothing else has to: its number and octets.
    pub fn copy(&self) -> Option<(u32, u32)> {
        match self {
            Self::Strait(hop) => hop.copy().map(|(seq, it)| (u32::from(seq), it)),
            Self::Paper(_) => None,
        }
    }

    /// Appends the frame of a packet, of so many octets at most; `last`: nothing waits behind it.
    /// See [`Hop::transmit`].
    pub fn transmit(
        &mut self,
        now: Instant,
        starts: Instant,
        (number, last): (u32, bool),
        octets_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        match self {
            Self::Strait(hop) if number & PARITY != 0 => {
                hop.transmit_parity(ClassId(number as u8), out)
            }
            Self::Strait(hop) => hop.transmit(now, starts, number as u16, octets_max, out),
            Self::Paper(hop) => hop.transmit(starts, number, last, out),
        }
    }

    /// The frame has left at this moment.
    pub fn left(&mut self, ended: Instant) {
        either!(self, hop => hop.left(ended));
    }

    /// Whether a frame without packet is to go now.
    pub fn has_control(&self, now: Instant) -> bool {
        either!(self, hop => hop.has_control(now))
    }

    /// Whether that goes by itself in any case: no packet takes it along.
    pub fn has_own_control(&self, now: Instant) -> bool {
        match self {
            Self::Strait(hop) => hop.has_own_control(now),
            Self::Paper(hop) => hop.has_control(now),
        }
    }

    /// Appends a frame without packet, if one is to go.
    pub fn control(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<()> {
        either!(self, hop => hop.control(now, out))
    }

    /// Says, by their marks, of which packets there are too many here.
    pub fn set_stop(&mut self, stop: u8) {
        match self {
            Self::Strait(hop) => hop.set_stop(stop),
            Self::Paper(hop) => hop.set_congested(stop),
        }
    }

    /// Reads a frame. `takes` says whether there is room for a packet with this mark.
    pub fn hear<'a>(
        &mut self,
        now: Instant,
        frame: &'a [u8],
        takes: impl FnOnce(u8, usize) -> bool,
    ) -> Heard<'a, Header> {
        match self {
            Self::Strait(hop) => hop.hear(now, frame, takes).with(Header::Strait),
            Self::Paper(hop) => hop.hear(now, frame, takes).with(Header::Paper),
        }
    }

    /// Takes a new packet in, or nothing in its place; see [`Hop::accept`].
    pub fn accept(
        &mut self,
        now: Instant,
        header: &Header,
        packet: Option<Packet>,
        flow: Option<u32>,
    ) {
        match (self, header) {
            (Self::Strait(hop), Header::Strait(header)) => hop.accept(now, header, packet, flow),
            (Self::Paper(hop), _) => hop.accept(packet),
            (Self::Strait(_), Header::Paper(_)) => {}
        }
    }

    /// The next packets to hand on.
    pub fn released(&mut self) -> Drain<'_, Packet> {
        either!(self, hop => hop.released())
    }

    /// Packets that are done with.
    pub fn done(&mut self) -> Drain<'_, Done> {
        either!(self, hop => hop.done())
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Instant) {
        either!(self, hop => hop.advance(now));
    }

    /// When something is due that isn't yet, and why.
    pub fn wake(&self) -> Option<Wake> {
        either!(self, hop => hop.wake())
    }

    /// Gives every packet back.
    pub fn take_all(&mut self) -> Vec<Packet> {
        match self {
            Self::Strait(hop) => {
                let (mut window, waiting) = hop.take_all();
                window.extend(waiting);
                window
            }
            Self::Paper(hop) => hop.take_all(),
        }
    }

    /// Gives those packets back that are sent and are to go another way.
    pub fn take_window(&mut self, leaves: impl FnMut(&Packet) -> bool) -> Vec<Packet> {
        either!(self, hop => hop.take_window(leaves))
    }

    /// Asserts what holds between calls.
    pub fn check(&self) {
        either!(self, hop => hop.check());
    }
}

impl<'a, H> Heard<'a, H> {
    fn with<G>(self, header: impl FnOnce(H) -> G) -> Heard<'a, G> {
        match self {
            Self::Packet(own, packet) => Heard::Packet(header(own), packet),
            Self::Nothing => Heard::Nothing,
            Self::Foreign => Heard::Foreign,
            Self::Invalid => Heard::Invalid,
            Self::Duplicate => Heard::Duplicate,
            Self::Refused => Heard::Refused,
        }
    }
}
