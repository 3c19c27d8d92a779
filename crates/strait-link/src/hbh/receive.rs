//! Packets that come from a neighbour: which have come, which wait for others, and when to say so.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::{Duration, Instant, Packet};
use strait_wire::hbh::{Ack, DataHeader, Headers, Map, Order, Parity};
use strait_wire::ip::verify_transport_checksum;

use super::Settings;
use super::chains::{Chains, Place};
use super::known::Known;
use super::parity::Recent;
use super::seen::Seen;
use super::timing::{LossShare, Spacing};

/// What becomes of a packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// It is new.
    New,
    /// It came before.
    Duplicate,
    /// No sender is so far ahead.
    Beyond,
}

/// A packet that waits for an earlier one of its flow.
#[derive(Debug)]
struct Held {
    seq: u16,
    order: Order,
    packet: Packet,
    until: Instant,
}

/// Whether what a packet follows has been handed on: all before `next` has, and some behind it.
fn is_free(held: &Held, next: u16, released: &Seen) -> bool {
    let behind = |seq: u16| (seq.wrapping_sub(next) as i16) < 0;
    match held.order {
        Order::Any => true,
        Order::After(near) => {
            let before = held.seq.wrapping_sub(near.into());
            behind(before) || released.has(before)
        }
        Order::AfterAll => behind(held.seq.wrapping_sub(Order::FAR)),
    }
}

/// The receiving side of one neighbour.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The number of the first packet that is missing.
    next: u16,
    /// Those behind it that came, and the last of all.
    received: Seen,
    last: u16,
    /// Those behind it that don't wait any more.
    released: Seen,
    newest: u16,
    newest_at: Instant,
    /// The last serial that was further ahead than losses explain.
    far: Option<u16>,
    /// The base heard last.
    base: Option<u16>,
    /// The number of the last frame in which nothing of worth stood.
    worthless: Option<u16>,
    /// In the order of their numbers.
    held: Vec<Held>,
    hold_max: Duration,
    /// What waits for the order that it had where it came into the network.
    chains: Chains,
    known: Known,
    recent: Recent,
    loss: LossShare,
    spacing: Spacing,
    /// Packets that came since the last acknowledgement, and when the first of them did.
    untold: u16,
    untold_since: Instant,
    /// When an acknowledgement went last.
    told_at: Option<Instant>,
    /// Since when the other end has something to learn at once: of a loss, or of a repetition that
    /// wasn't needed.
    urgent: Option<Instant>,
    /// Acknowledgements that went alone since one last went along with a packet.
    alone: u8,
    /// The last one didn't tell of all: a packet that takes it along leaves it no room.
    cut: bool,
    ack_every: u16,
    ack_delay_max: Duration,
    /// Packets that were handed on although an earlier one was missing, after a wait.
    impatient: u64,
}

impl Receiver {
    /// Numbers that a sender may be ahead: what a map tells of, and the missing one.
    const AHEAD_MAX: u16 = Map::BITS_MAX + 1;
    /// Transmissions that an outage may swallow: a window, sent again for a minute or more. What is
    /// further ahead counts when a second one says so.
    const SERIALS_MAX: u16 = 1024;
    /// Of these, how many count for the share that is lost.
    const LOSSES_MAX: u16 = 64;
    /// After so many acknowledgements alone none is held back for a packet that takes it along.
    const LONELY: u8 = 4;
    /// An acknowledgement not older than that measures the round trip.
    const PROMPT: Duration = Duration::from_millis(20);

    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            next: 0,
            received: Seen::new(),
            last: u16::MAX,
            released: Seen::new(),
            newest: u16::MAX,
            newest_at: Instant::ZERO,
            far: None,
            base: None,
            worthless: None,
            held: Vec::new(),
            hold_max: settings.order_hold,
            chains: Chains::new(settings.order_hold),
            known: Known::new(),
            recent: Recent::new(settings.check),
            loss: LossShare::default(),
            spacing: Spacing::default(),
            untold: 0,
            untold_since: Instant::ZERO,
            told_at: None,
            urgent: None,
            alone: 0,
            cut: false,
            ack_every: settings.ack_every,
            ack_delay_max: settings.ack_delay_max,
            impatient: 0,
        }
    }

    /// Packets that wait for their order.
    pub(crate) fn held(&self) -> usize {
        self.packets().count()
    }

    fn packets(&self) -> impl Iterator<Item = &Packet> {
        let held = self.held.iter().map(|held| &held.packet);
        held.chain(self.chains.packets())
    }

    /// Packets that were handed on although an earlier one was missing, after a wait.
    pub(crate) const fn impatient(&self) -> u64 {
        self.impatient + self.chains.impatient
    }

    /// Their octets.
    pub(crate) fn octets(&self) -> usize {
        self.packets().map(Packet::octets).sum()
    }

    /// Judges a packet that came, and takes note of its transmission.
    pub(crate) fn judge(&mut self, now: Instant, header: &DataHeader) -> Judged {
        let ahead = header.seq.wrapping_sub(self.next);
        if (ahead as i16) >= Self::AHEAD_MAX as i16 {
            return Judged::Beyond;
        }
        self.note_serial(now, header.serial);
        if self.has(header.seq) {
            self.urge(now);
            return Judged::Duplicate;
        }
        Judged::New
    }

    /// Takes note of a transmission. What is missing before it was lost.
    pub(crate) fn note_serial(&mut self, now: Instant, serial: u16) {
        let since = serial.wrapping_sub(self.newest);
        if (since as i16) <= 0 || !self.is_near(serial) {
            return;
        }
        (1..since.min(Self::LOSSES_MAX)).for_each(|_| self.loss.count(true));
        self.loss.count(false);
        self.newest = serial;
        self.newest_at = now;
        self.spacing.note(now);
        if since > 1 {
            self.urge(now);
        }
    }

    /// Whether a serial ahead is one that its sender may have come to: near the newest, or near the
    /// last one that wasn't.
    fn is_near(&mut self, serial: u16) -> bool {
        let near = |before: u16| serial.wrapping_sub(before) <= Self::SERIALS_MAX;
        let is_near = near(self.newest) || self.far.is_some_and(near);
        self.far = (!is_near).then_some(serial);
        is_near
    }

    /// What a parity frame makes of the one packet that is missing of those in it. Where it makes
    /// nothing of what is missing, the other end has to know.
    pub(crate) fn restore(
        &mut self,
        now: Instant,
        parity: &Parity<'_>,
    ) -> Option<(DataHeader, Vec<u8>)> {
        let made = self.recent.missing(now, parity);
        let made = made.filter(|(header, _)| !self.has(header.seq));
        if made.is_none() {
            self.note_serial(now, parity.serial);
            if parity.numbers().any(|seq| !self.has(seq)) {
                self.urge(now);
            }
        }
        made
    }

    /// Whether a packet came, or never comes.
    fn has(&self, seq: u16) -> bool {
        self.is_behind(seq) || (self.ahead(seq) < Self::AHEAD_MAX && self.received.has(seq))
    }

    /// How many numbers it is ahead of the first that is missing, if it is.
    const fn ahead(&self, seq: u16) -> u16 {
        seq.wrapping_sub(self.next)
    }

    /// Whether it is before the first that is missing.
    const fn is_behind(&self, seq: u16) -> bool {
        (self.ahead(seq) as i16) < 0
    }

    /// The packet that stands in a frame, perhaps relative to an earlier one; `None` if that isn't
    /// known. Then it counts as lost, and the other end has to know at once.
    pub(crate) fn whole<'a>(
        &mut self,
        now: Instant,
        header: &DataHeader,
        line: &'a [u8],
    ) -> Option<Cow<'a, [u8]>> {
        self.recent.note(now, header, line);
        let Some(distance) = Headers::distance(line) else {
            return Some(Cow::Borrowed(line));
        };
        self.known.reach(distance);
        let packet = self.restored(header.seq, distance, line);
        if packet.is_none() {
            self.urge(now);
        }
        packet.map(Cow::Owned)
    }

    /// The packet that is said relative to the one `distance` numbers before. Only one that is
    /// right in itself is: what it is said relative to may be another at the other end.
    fn restored(&self, seq: u16, distance: u16, line: &[u8]) -> Option<Vec<u8>> {
        let known = self.known.reliable(seq.wrapping_sub(distance), seq)?;
        let sound = |packet: &Vec<u8>| verify_transport_checksum(packet) != Some(false);
        known.restore(line).filter(sound)
    }

    /// Whether a packet that came before was another one: somebody made one of the two up, and
    /// what follows may be said relative to either.
    pub(crate) fn contradicts(&self, header: &DataHeader, line: &[u8]) -> bool {
        let Some(known) = self.known.get(header.seq) else {
            return false;
        };
        let other = |packet: &[u8]| Headers::of(packet).is_none_or(|(it, _)| it != *known);
        match Headers::distance(line) {
            None => other(line),
            Some(distance) => self
                .restored(header.seq, distance, line)
                .is_some_and(|packet| other(&packet)),
        }
    }

    /// Takes a new packet in; it, and what waited for it, go to `out` in order. Without a packet,
    /// as nothing of worth stood in the frame, the number counts as come if a second frame has it:
    /// one alone may be somebody else's. What leaves the network here has a place in the order that
    /// it had where it came in.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        header: &DataHeader,
        packet: Option<Packet>,
        place: Option<Place>,
        out: &mut Vec<Packet>,
    ) {
        if packet.is_none() && self.worthless.replace(header.seq) != Some(header.seq) {
            self.urge(now);
            return;
        }
        self.receive(header.seq);
        if self.untold == 0 {
            self.untold_since = now;
        }
        self.untold = self.untold.saturating_add(1);
        match packet {
            Some(mut packet) => {
                self.known.note(header.seq, packet.bytes());
                packet.enter(now, DelayPart::Order);
                if let Some(place) = place {
                    self.released.insert(header.seq);
                    self.chains.insert(now, place, packet, out);
                } else {
                    self.hold(now, header, packet);
                }
            }
            None => self.released.insert(header.seq),
        }
        self.release(now, out);
        self.advance_next();
        self.release(now, out);
    }

    /// Holds a packet until those before it are handed on.
    fn hold(&mut self, now: Instant, header: &DataHeader, packet: Packet) {
        let at = |held: &Held| (held.seq.wrapping_sub(header.seq) as i16) < 0;
        let place = self.held.partition_point(at);
        self.held.insert(
            place,
            Held {
                seq: header.seq,
                order: header.order,
                packet,
                until: now + self.hold_max,
            },
        );
    }

    fn receive(&mut self, seq: u16) {
        self.received.insert(seq);
        if self.is_behind(self.last) || self.ahead(seq) > self.ahead(self.last) {
            self.last = seq;
        }
    }

    /// Hears that what is missing before `base` never comes. That may be beyond what a window
    /// reaches: a sender to whom nothing comes back gives up one window after the other. It says so
    /// until it is acknowledged, so what two in a row agree on holds, and nobody moves anything by
    /// one alone.
    pub(crate) fn hear_base(&mut self, now: Instant, base: u16, out: &mut Vec<Packet>) {
        let ahead = |base: &u16| base.wrapping_sub(self.next) as i16;
        let both = self.base.map(|before| [before, base]);
        self.base = Some(base);
        if let Some(agreed) = both.and_then(|both| both.into_iter().min_by_key(ahead)) {
            self.skip(now, agreed, out);
        }
    }

    /// Learns that what is missing before `base` never comes.
    fn skip(&mut self, now: Instant, base: u16, out: &mut Vec<Packet>) {
        loop {
            let ahead = self.ahead(base);
            if (ahead as i16) <= 0 {
                return;
            }
            let first = self.next;
            for ahead in 0..ahead.min(Self::AHEAD_MAX) {
                self.receive(first.wrapping_add(ahead));
            }
            self.advance_next();
            self.release(now, out);
        }
    }

    /// Moves `next` behind all that came in a row.
    fn advance_next(&mut self) {
        while self.received.has(self.next) {
            self.received.remove(self.next);
            self.released.remove(self.next);
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Hands on what doesn't wait any more, in order.
    fn release(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let (next, released) = (self.next, &mut self.released);
        let free = self.held.extract_if(.., |held| {
            let impatient = held.until <= now;
            let is_free = is_free(held, next, released);
            if !impatient && !is_free {
                return false;
            }
            self.impatient += u64::from(impatient);
            if (held.seq.wrapping_sub(next) as i16) >= 0 {
                released.insert(held.seq);
            }
            true
        });
        out.extend(free.map(|mut held| {
            held.packet.enter(now, DelayPart::Class);
            held.packet
        }));
    }

    /// How long an acknowledgement waits for a packet that takes it along. Where none has done so
    /// lately, not longer than a round trip.
    fn patience(&self, trip: Option<Duration>) -> Duration {
        let lonely = self.alone >= Self::LONELY;
        let longest = self.ack_delay_max;
        trip.filter(|_| lonely)
            .map_or(longest, |trip| trip.min(longest))
    }

    /// When an acknowledgement has to go, alone if need be: when nothing has come for a while, as
    /// then there may be more that was sent; or when it has waited long enough. While something is
    /// missing, it is said again and again, as what says so may be lost, too.
    pub(crate) fn ack_at(&self, trip: Option<Duration>) -> Option<Instant> {
        let longest = self.ack_delay_max;
        let silence = self.loss.silence(longest, trip, self.spacing);
        let urgent = self.urgent.map(|since| since + silence / 8);
        let missing = !self.received.is_empty() && self.untold > 0;
        let soon = if missing {
            (silence * 3 / 2).min(longest)
        } else {
            self.patience(trip)
        };
        let usual = match self.untold {
            0 => None,
            few if few < self.ack_every => {
                Some((self.untold_since + soon).min(self.newest_at + silence))
            }
            _ => Some(self.untold_since),
        };
        urgent.into_iter().chain(usual).min()
    }

    /// Whether an acknowledgement should go along with a packet that leaves now: every one would
    /// cost more octets than it is worth.
    pub(crate) fn rides(&self, now: Instant, trip: Option<Duration>) -> bool {
        let pause = self.patience(trip) / 2;
        let soon = |at| at <= now + pause || self.told_at.is_none_or(|told| told + pause <= now);
        self.untold >= 2
            || self.urgent.is_some()
            || !self.received.is_empty()
            || self.ack_at(trip).is_some_and(soon)
    }

    /// The other end has to know at once.
    pub(crate) fn urge(&mut self, now: Instant) {
        self.urgent.get_or_insert(now);
    }

    /// Whether a packet would take only a part of the acknowledgement along.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// How many numbers behind the first that is missing the last is that came.
    pub(crate) const fn span(&self) -> u16 {
        if self.received.is_empty() {
            0
        } else {
            self.ahead(self.last)
        }
    }

    /// The acknowledgement that goes now, along with a packet or alone, in so many words of a map
    /// at the most. If that isn't all, there is still something to tell.
    pub(crate) fn ack(&mut self, now: Instant, rides: bool, words_max: usize) -> Ack {
        let last = self.span();
        let came = |ahead| self.received.has(self.next.wrapping_add(ahead));
        let map = Map::of(last, words_max, came);
        self.cut = map.is_cut();
        if !self.cut {
            (self.urgent, self.untold) = (None, 0);
        }
        self.told_at = Some(now);
        self.alone = if rides {
            0
        } else {
            self.alone.saturating_add(1)
        };
        Ack {
            next: self.next,
            newest: self.newest,
            map,
            prompt: now.since(self.newest_at) <= Self::PROMPT,
        }
    }

    /// When a packet isn't held any longer for its order.
    pub(crate) fn hold_until(&self) -> Option<Instant> {
        let held = self.held.iter().map(|held| held.until);
        held.chain(self.chains.hold_until()).min()
    }

    /// Hands on what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.hold_until().is_some_and(|until| until <= now) {
            self.release(now, out);
            self.chains.release(now, out);
        }
    }

    /// The other end has begun anew: hands on all that waits, and forgets what came.
    pub(crate) fn restart(&mut self, now: Instant, out: &mut Vec<Packet>) {
        let held = self.held.drain(..).map(|held| held.packet);
        out.extend(held.chain(self.chains.take_all()).map(|mut packet| {
            packet.enter(now, DelayPart::Class);
            packet
        }));
        (self.next, self.last, self.cut) = (0, u16::MAX, false);
        self.received.clear();
        self.released.clear();
        (self.newest, self.untold, self.urgent) = (u16::MAX, 0, None);
        (self.far, self.base, self.worthless) = (None, None, None);
        self.known.clear();
        self.recent.clear();
    }

    /// Gives every packet back that waits.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Packet> + '_ {
        let held = self.held.drain(..).map(|held| held.packet);
        held.chain(self.chains.take_all())
    }

    /// Asserts what holds between calls.
    pub(crate) fn check(&self) {
        assert!(!self.received.has(self.next), "the next one is missing");
        assert!(self.held.len() <= usize::from(Self::AHEAD_MAX));
        assert!(self.chains.packets().count() <= Chains::HELD_MAX);
        let rising = self
            .held
            .is_sorted_by_key(|held| held.seq.wrapping_sub(self.next) as i16);
        assert!(rising, "held in order");
    }
}
