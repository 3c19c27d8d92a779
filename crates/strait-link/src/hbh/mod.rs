//! One link made reliable, between two neighbours: what is lost on it is repeated on it, long
//! before the ends of a path would notice.
//!
//! All flows to a neighbour share one row of sequence numbers, and so each other's
//! acknowledgements. Every transmission has a serial; an acknowledgement names the newest that
//! came, and what left before it and didn't come is lost: on a link that keeps the order, a loss is
//! known as soon as anything behind it arrives. Only for the last of a burst is there a timer.
//! Acknowledgements go along with packets the other way where there are any. A receiver hands the
//! packets of a flow on in order, if the flow wants that, so that TCP sees a late packet and no
//! gap; it holds up no other flow. Where a round trip takes longer than packets are worth anything,
//! parity frames may follow a few of them, of which then any one can be lost.
//!
//! [`Hop`] is one neighbour's both directions. Its owner asks [`Hop::takes`] before it takes a
//! packet out of its queue, and pulls frames; nothing in here decides who goes first.

mod any;
mod chains;
mod known;
pub mod paper;
mod parity;
mod receive;
mod seen;
mod send;
mod session;
#[cfg(test)]
mod tests;
mod timing;

use alloc::borrow::Cow;
use alloc::vec::Vec;

use strait_core::{ClassId, Duration, Instant, Packet, Wake, WakeReason};
use strait_wire::hbh::{
    self, Ack, Content, DataHeader, Format, Frame, FrameError, Ingress, Parity, TAGS,
};
use strait_wire::segment::SegmentCheck;

pub use self::any::{AnyHop, AnySettings, Header};
pub use self::send::{Again, Manner, Reliability, Said};

use self::chains::Place;
use self::receive::{Judged, Receiver};
use self::send::{Sender, Window};
use self::session::{Doubts, Life, Session};
pub(crate) use self::timing::RoundTrip;

/// How a link is made reliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Packets that may be on their way unacknowledged, [`Settings::WINDOW_MAX`] at most; without
    /// it, as many octets as the line takes in a round trip, and what repairs need beside.
    pub window: Option<u16>,
    /// The check of each frame; both ends need the same.
    pub check: SegmentCheck,
    /// Packets after which an acknowledgement doesn't wait any longer.
    pub ack_every: u16,
    /// How long one waits at most for a packet that takes it along. Both ends need the same.
    pub ack_delay_max: Duration,
    /// How long a packet is held at most for an earlier one of its flow.
    pub order_hold: Duration,
    /// How long a stop holds: then one packet goes all the same, and it holds again. Two ends that
    /// wait for each other would else do so without end, as they can after routes have changed.
    pub stop_hold: Duration,
}

impl Settings {
    /// What an acknowledgement can tell of.
    pub const WINDOW_MAX: u16 = hbh::Map::BITS_MAX;
    /// What any end's can, also one that hasn't said that it reads longer ones.
    pub const WINDOW_NARROW: u16 = 32 * hbh::Map::NARROW_WORDS as u16;
    /// As long as nobody knows how fast the line is.
    pub const WINDOW_MIN: u16 = 64;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: None,
            check: SegmentCheck::Long,
            ack_every: 16,
            ack_delay_max: Duration::from_millis(350),
            order_hold: Duration::from_secs(5),
            stop_hold: Duration::from_secs(5),
        }
    }
}

/// What became of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The neighbour has it.
    Acknowledged,
    /// It was sent as often as it was worth.
    Undelivered,
    /// It grew too old.
    Aged,
    /// It was lost, and a later one says all that it said.
    Superseded,
}

/// A packet that left the window: when its last transmission had left, or when it was given up.
pub type Done = (Packet, Instant, Outcome);

/// What a frame gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<'a, H = DataHeader> {
    /// A new packet, to be handed over by [`Hop::accept`].
    Packet(H, Cow<'a, [u8]>),
    /// What stood in it is dealt with.
    Nothing,
    /// It was damaged, or belongs to another life of either end.
    Foreign,
    /// No neighbour sends such a frame.
    Invalid,
    /// Its packet came before.
    Duplicate,
    /// There is no room for its packet now. As far as the other end knows, it was lost.
    Refused,
}

/// What a hop counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent again.
    pub repeated: u64,
    /// Of these, those that had come before.
    pub needless: u64,
    /// Copies that went behind packets sent again.
    pub copied: u64,
    /// Parity frames sent.
    pub parities: u64,
    /// Packets that parity frames made again of what came.
    pub restored: u64,
    /// Frames without a packet.
    pub control: u64,
    /// Acknowledgements of what was never sent.
    pub forged: u64,
    /// Packets handed on out of order, after a wait.
    pub impatient: u64,
    /// Times that the other end began anew.
    pub renewals: u64,
    /// Hellos of an end that speaks another format.
    pub other_format: u64,
    /// Hellos of an end whose frames have a check of another length.
    pub other_check: u64,
    /// Packets in the window at the most.
    pub window_packets_most: u64,
}

/// One neighbour.
#[derive(Debug)]
pub struct Hop {
    settings: Settings,
    session: Session,
    sender: Sender,
    receiver: Receiver,
    trip: RoundTrip,
    /// How fast the line is, if that is known.
    rate_bit_s: Option<u64>,
    now: Instant,
    up: bool,
    /// Tags of which the other end wants no new packets, and since when.
    stopped: u8,
    stopped_since: Instant,
    /// Since when nothing of these tags was sent, and whether a packet of them may be.
    quiet_since: Instant,
    relents: bool,
    /// Tags of which this end wants none, and what the other end was told last.
    stop: u8,
    stop_told: u8,
    /// A frame without packet has to go: an answer is wanted.
    poke: bool,
    life: Life,
    doubts: Doubts,
    restored: u64,
    control: u64,
    renewals: u64,
    other_format: u64,
    other_check: u64,
    window_packets_most: u64,
    /// Packets to hand on, in order.
    released: Vec<Packet>,
    done: Vec<Done>,
}

impl Hop {
    /// A neighbour that nothing is known of. `incarnation` is another number after each start.
    pub fn new(settings: Settings, incarnation: u32) -> Self {
        Self {
            settings,
            session: Session::new(incarnation, Format::Strait),
            sender: Sender::new(&settings),
            receiver: Receiver::new(&settings),
            trip: RoundTrip::default(),
            rate_bit_s: None,
            now: Instant::ZERO,
            up: false,
            stopped: 0,
            stopped_since: Instant::ZERO,
            quiet_since: Instant::ZERO,
            relents: false,
            stop: 0,
            stop_told: 0,
            poke: false,
            life: Life::default(),
            doubts: Doubts::default(),
            restored: 0,
            control: 0,
            renewals: 0,
            other_format: 0,
            other_check: 0,
            window_packets_most: 0,
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

    /// Says how fast the line is.
    pub fn set_rate(&mut self, rate_bit_s: Option<u64>) {
        self.rate_bit_s = rate_bit_s;
        self.set_window();
    }

    /// Octets that a line with this rate takes in a round trip to this neighbour, as far as known.
    pub fn trip_octets(&self, rate_bit_s: u64) -> usize {
        let trip_ns = self.trip.mean().map_or(0, |trip| trip.as_nanos());
        let octets = u128::from(rate_bit_s) * trip_ns / 8_000_000_000;
        usize::try_from(octets).unwrap_or(usize::MAX)
    }

    /// Octets that a node holds for this neighbour at most, unacknowledged and not sent yet: what
    /// the line takes in two round trips, or 64 kB.
    pub fn held_octets_max(&self) -> usize {
        let trip = self.trip_octets(self.rate_bit_s.unwrap_or(0));
        trip.saturating_mul(2).max(Self::HELD_MIN)
    }

    /// Packets of the shortest kind that a line with this rate takes in a round trip and a half,
    /// and as many as always may be on their way.
    fn window_packets(&self, rate_bit_s: u64) -> u16 {
        let packets = self.trip_octets(rate_bit_s).saturating_mul(3) / (2 * Self::SHORT_OCTETS);
        let packets = u16::try_from(packets).unwrap_or(u16::MAX);
        packets.max(Settings::WINDOW_NARROW)
    }

    /// An acknowledgement of TCP and what stands around it.
    const SHORT_OCTETS: usize = 64;
    /// A slow line's share of a relay.
    const HELD_MIN: usize = 64_000;

    /// Three quarters of what is held may be unacknowledged: the line's own round trip, and half of
    /// one for what is repeated and for acknowledgements that wait.
    fn set_window(&mut self) {
        let wide = self.session.is_wide();
        let most = if wide {
            Settings::WINDOW_MAX
        } else {
            Settings::WINDOW_NARROW
        };
        let window = match (self.settings.window, self.rate_bit_s) {
            (Some(packets), _) => Window {
                packets: packets.min(most),
                octets: usize::MAX,
            },
            (None, None) => Window {
                packets: Settings::WINDOW_MIN,
                octets: usize::MAX,
            },
            (None, Some(rate_bit_s)) => Window {
                packets: self.window_packets(rate_bit_s).min(most),
                octets: self.held_octets_max() / 4 * 3,
            },
        };
        self.sender.set_window(window);
        self.sender.set_wide(wide);
    }

    /// Whether the other end keeps the order of flows as it was where they came into the network.
    pub const fn is_wide(&self) -> bool {
        self.session.is_wide()
    }

    /// Whether both ends know each other.
    pub fn is_known(&self) -> bool {
        self.session.outbound().is_some()
    }

    /// Whether a new packet with this tag may be sent.
    pub fn takes(&self, tag: u8) -> bool {
        let goes = !self.is_stopped(tag) || self.relents;
        self.is_known() && self.sender.has_room() && goes
    }

    const fn is_stopped(&self, tag: u8) -> bool {
        self.stopped >> (tag % TAGS as u8) & 1 == 1
    }

    /// When a packet goes in spite of a stop.
    fn relents_at(&self) -> Option<Instant> {
        let waits = self.up && self.stopped != 0 && !self.relents;
        waits.then_some(self.quiet_since + self.settings.stop_hold)
    }

    /// Packets in the window, and waiting for their order.
    pub fn held(&self) -> usize {
        self.sender.held() + self.receiver.held()
    }

    /// Octets of the packets in the window, and of those that wait for their order.
    pub fn octets(&self) -> [usize; 2] {
        [self.sender.octets(), self.receiver.octets()]
    }

    /// What it has counted.
    pub const fn counts(&self) -> Counts {
        Counts {
            repeated: self.sender.repeated,
            needless: self.sender.needless,
            copied: self.sender.copied,
            parities: self.sender.parities,
            restored: self.restored,
            control: self.control,
            forged: self.sender.forged,
            impatient: self.receiver.impatient(),
            renewals: self.renewals,
            other_format: self.other_format,
            other_check: self.other_check,
            window_packets_most: self.window_packets_most,
        }
    }

    /// The smoothed round trip, if one was measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.trip.mean()
    }

    /// The share of transmissions lost lately, in millionths.
    pub const fn loss_ppm(&self) -> u32 {
        self.sender.loss.ppm()
    }

    /// Takes a packet into the window, which must take it, and gives its number.
    pub fn begin(&mut self, packet: Packet, manner: Manner) -> u16 {
        if self.is_stopped(manner.tag) {
            (self.relents, self.quiet_since) = (false, self.now);
        }
        let number = self.sender.begin(packet, manner);
        let span = self.sender.span() as u64;
        self.window_packets_most = self.window_packets_most.max(span);
        number
    }

    /// Packets in the window.
    pub fn window(&self) -> impl Iterator<Item = &Packet> {
        self.sender.packets()
    }

    /// Packets of the window that are such are wanted until then at least.
    pub fn renew(&mut self, until: Instant, such: impl FnMut(&Packet) -> bool) {
        self.sender.renew(until, such);
    }

    /// What of a class is to be sent before anything new of it, and its octets.
    pub fn again(&self, class: ClassId) -> Option<(Again, u32)> {
        self.sender.again(class).filter(|_| self.is_known())
    }

    /// Classes of which a parity frame is due.
    pub fn parity_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.sender.parity_classes()
    }

    /// A packet of the window of which a copy may go if nothing else has to: its number and octets.
    pub fn copy(&self) -> Option<(u16, u32)> {
        self.sender.copy().filter(|_| self.up && self.is_known())
    }

    /// Appends a frame of so many octets at most with a packet of the window, which leaves from
    /// `starts` on. What the other end has to know goes along. [`Hop::left`] is to be called with
    /// the moment at which it has left.
    pub fn transmit(
        &mut self,
        now: Instant,
        starts: Instant,
        seq: u16,
        octets_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let names = self.session.outbound()?;
        let rides = self.receiver.rides(now, self.trip.mean()) || self.stop != self.stop_told;
        let words = hbh::map_words_max(octets_max, self.sender.packet_octets(seq)?);
        let mut content = self.content(now, rides.then_some(true), words);
        content.data = Some(self.sender.transmit(starts, seq)?);
        content.emit(self.settings.check, names, out);
        Some(())
    }

    /// Appends the parity frame of a class, which is due.
    pub fn transmit_parity(&mut self, class: ClassId, out: &mut Vec<u8>) -> Option<()> {
        let names = self.session.outbound()?;
        let parity = self.sender.parity(class)?;
        parity.emit(self.settings.check, names, out);
        self.sender.parity_sent(class);
        Some(())
    }

    /// The frame has left at this moment.
    pub fn left(&mut self, ended: Instant) {
        self.sender.left(ended, &self.trip);
    }

    /// What stands before a packet, with an acknowledgement or without.
    fn content(&mut self, now: Instant, ack: Option<bool>, words: usize) -> Content<'static> {
        let words = if self.session.is_wide() {
            words
        } else {
            hbh::Map::NARROW_WORDS
        };
        if ack.is_some() {
            self.stop_told = self.stop;
        }
        Content {
            ack: ack.map(|rides| self.receiver.ack(now, rides, words)),
            stop: ack.map(|_| self.stop).filter(|stop| *stop != 0),
            base: self.sender.skip(),
            data: None,
        }
    }

    /// When a frame without packet is to go.
    fn control_at(&self) -> Option<Instant> {
        let hello = self.session.wake();
        let ack = self.receiver.ack_at(self.trip.mean());
        let now = (self.poke || self.stop != self.stop_told).then_some(Instant::ZERO);
        let known = ack.into_iter().chain(now).filter(|_| self.is_known());
        hello.into_iter().chain(known).min()
    }

    /// Whether a frame without packet is to go now.
    pub fn has_control(&self, now: Instant) -> bool {
        self.up && self.control_at().is_some_and(|at| at <= now)
    }

    /// Whether that goes by itself in any case: a hello, or an acknowledgement that a packet took
    /// along in part only.
    pub fn has_own_control(&self, now: Instant) -> bool {
        let hello = self.session.wake().is_some_and(|at| at <= now);
        self.up && (hello || (self.receiver.is_cut() && self.has_control(now)))
    }

    /// The most octets of a frame without packet that would go now.
    pub fn control_octets_max(&self) -> usize {
        if self.receiver.span() <= Settings::WINDOW_NARROW {
            hbh::OVERHEAD_OCTETS_MAX
        } else {
            hbh::CONTROL_OCTETS_MAX
        }
    }

    /// Appends a frame without packet, if one is to go.
    pub fn control(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<()> {
        if !self.has_control(now) {
            return None;
        }
        self.control += 1;
        if let Some(hello) = self.session.hello(now) {
            hello.emit(self.settings.check, out);
            return Some(());
        }
        let names = self.session.outbound()?;
        let mut content = self.content(now, Some(false), usize::MAX);
        if core::mem::take(&mut self.poke) {
            content.base = Some(self.sender.base());
        }
        content.emit(self.settings.check, names, out);
        Some(())
    }

    /// Says which tags no new packets are wanted of.
    pub const fn set_stop(&mut self, stop: u8) {
        self.stop = stop;
    }

    /// Reads a frame. What it acknowledges, and what it lets go on, is there afterwards. `takes`
    /// says whether there is room for a packet with this tag and so many octets.
    pub fn hear<'a>(
        &mut self,
        now: Instant,
        frame: &'a [u8],
        takes: impl FnOnce(u8, usize) -> bool,
    ) -> Heard<'a> {
        let heard = match hbh::parse(frame, self.settings.check, self.session.inbound()) {
            Ok(Frame::Hello(hello)) if hello.format != Format::Strait => {
                self.other_format += 1;
                Heard::Nothing
            }
            Ok(Frame::Hello(hello)) => {
                let heard = self.session.hear(now, hello);
                if let Some(took) = heard.took {
                    self.trip.measure(took);
                }
                if heard.renewed {
                    self.restart(now);
                }
                self.set_window();
                Heard::Nothing
            }
            Ok(Frame::Content(content)) => {
                self.session.confirm();
                self.take_content(now, &content, takes)
            }
            Ok(Frame::Parity(parity)) => {
                self.session.confirm();
                self.take_parity(now, &parity, takes)
            }
            Err(FrameError::BadCheck) => {
                self.session.object(now);
                Heard::Foreign
            }
            Err(FrameError::OtherCheck(format)) => {
                let other_format = format != Format::Strait;
                self.other_format += u64::from(other_format);
                self.other_check += u64::from(!other_format);
                Heard::Nothing
            }
            Err(FrameError::Invalid) => Heard::Invalid,
        };
        // News of the round trip or of losses may make something due.
        self.advance(now);
        heard
    }

    /// Takes an acknowledgement in.
    fn take_ack(&mut self, now: Instant, ack: &Ack) {
        let forged = self.sender.forged;
        let trip = &mut self.trip;
        self.sender.acknowledge(now, ack, trip, &mut self.done);
        self.set_window();
        if self.doubts.note(self.sender.forged > forged) {
            self.life.renew(now, &mut self.session);
        }
    }

    /// The other end is another life.
    fn restart(&mut self, now: Instant) {
        self.renewals += 1;
        self.sender.restart();
        self.receiver.restart(now, &mut self.released);
        (self.stopped, self.stop_told, self.poke) = (0, 0, false);
        (self.relents, self.doubts) = (false, Doubts::default());
    }

    fn take_content<'a>(
        &mut self,
        now: Instant,
        content: &Content<'a>,
        takes: impl FnOnce(u8, usize) -> bool,
    ) -> Heard<'a> {
        if let Some(ack) = &content.ack {
            self.take_ack(now, ack);
            // Said anew with each acknowledgement.
            let stopped = content.stop.unwrap_or(0);
            if self.stopped == 0 {
                (self.relents, self.quiet_since) = (false, now);
            }
            if stopped != self.stopped {
                (self.stopped, self.stopped_since) = (stopped, now);
            }
        }
        if let Some(base) = content.base {
            self.receiver.hear_base(now, base, &mut self.released);
            self.receiver.urge(now);
        }
        match content.data {
            Some((header, line)) => self.take_data(now, header, line, takes),
            None => Heard::Nothing,
        }
    }

    /// A parity frame: perhaps it makes a lost packet again.
    fn take_parity<'a>(
        &mut self,
        now: Instant,
        parity: &Parity<'_>,
        takes: impl FnOnce(u8, usize) -> bool,
    ) -> Heard<'a> {
        let Some((header, line)) = self.receiver.restore(now, parity) else {
            return Heard::Nothing;
        };
        match self.take_data(now, header, &line, takes) {
            Heard::Packet(header, packet) => {
                self.restored += 1;
                Heard::Packet(header, Cow::Owned(packet.into_owned()))
            }
            Heard::Duplicate => Heard::Duplicate,
            Heard::Refused => Heard::Refused,
            _ => Heard::Invalid,
        }
    }

    fn take_data<'a>(
        &mut self,
        now: Instant,
        mut header: DataHeader,
        packet: &'a [u8],
        takes: impl FnOnce(u8, usize) -> bool,
    ) -> Heard<'a> {
        if self.session.is_wide() {
            header.read_ordered();
        }
        if !takes(header.tag, packet.len()) {
            return Heard::Refused;
        }
        match self.receiver.judge(now, &header) {
            Judged::New => match self.receiver.whole(now, &header, packet) {
                Some(packet) => Heard::Packet(header, packet),
                None => Heard::Invalid,
            },
            Judged::Duplicate => {
                if self.receiver.contradicts(&header, packet) {
                    self.life.renew(now, &mut self.session);
                }
                Heard::Duplicate
            }
            Judged::Beyond => Heard::Invalid,
        }
    }

    /// Takes a new packet in; without one, as nothing of worth stood in the frame, the number
    /// counts as come if that happens twice. If it leaves the network of such links here, it is of
    /// this flow, which may have an order.
    pub fn accept(
        &mut self,
        now: Instant,
        header: &DataHeader,
        packet: Option<Packet>,
        flow: Option<u32>,
    ) {
        let Ingress {
            node,
            serial,
            ordered,
        } = header.ingress;
        let place = flow.filter(|_| ordered).map(|flow| Place {
            flow: u64::from(node) << 32 | u64::from(flow),
            number: serial,
        });
        self.receiver
            .accept(now, header, packet, place, &mut self.released);
    }

    /// The next packet to hand on.
    pub fn released(&mut self) -> alloc::vec::Drain<'_, Packet> {
        self.released.drain(..)
    }

    /// Packets that have left the window.
    pub fn done(&mut self) -> alloc::vec::Drain<'_, Done> {
        self.done.drain(..)
    }

    fn probe_at(&self) -> Option<Instant> {
        let waits = (self.stopped != 0).then_some(self.stopped_since);
        let at = self.sender.probe_at(&self.trip, waits)?;
        (self.up && self.is_known()).then_some(at)
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Instant) {
        self.now = now;
        self.relents |= self.relents_at().is_some_and(|at| at <= now);
        self.receiver.expire(now, &mut self.released);
        self.sender.advance_parity(now);
        self.sender.discard(now, &self.trip, &mut self.done);
        if self.probe_at().is_some_and(|at| at <= now) {
            let found = self.sender.probe(now, &self.trip, &mut self.done);
            self.poke |= !found;
            // What was still on its way to come may be too old to be sent again.
            self.sender.discard(now, &self.trip, &mut self.done);
        }
    }

    /// When something is due that isn't yet, and why. A frame without packet that is due goes as
    /// soon as the medium has room.
    pub fn wake(&self) -> Option<Wake> {
        let wake = |at: Option<Instant>, why| at.map(|at| Wake { at, why });
        let later = |at: &Instant| self.up && *at > self.now;
        let control = self.control_at().filter(later);
        let wakes = [
            wake(control, WakeReason::Retransmit),
            wake(self.probe_at(), WakeReason::Retransmit),
            wake(self.sender.expires(&self.trip), WakeReason::Age),
            wake(
                self.sender.parity_at().filter(later),
                WakeReason::Retransmit,
            ),
            wake(self.receiver.hold_until(), WakeReason::Reassembly),
            wake(self.relents_at(), WakeReason::Retransmit),
        ];
        wakes.into_iter().flatten().min_by_key(|wake| wake.at)
    }

    /// Gives every packet back: those of the window, and those that wait for their order.
    pub fn take_all(&mut self) -> (Vec<Packet>, Vec<Packet>) {
        (
            self.sender.take(|_| true),
            self.receiver.take_all().collect(),
        )
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
