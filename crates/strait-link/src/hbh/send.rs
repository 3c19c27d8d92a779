//! Packets sent to a neighbour and not acknowledged yet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::{ClassId, Duration, Instant, Packet};
use strait_wire::hbh::{Ack, DataHeader, Headers, Lifetime, Order, Parity};
use strait_wire::ip::verify_transport_checksum;

use super::known::Acknowledged;
use super::parity::Groups;
use super::timing::{LossShare, RoundTrip, Spacing};
use super::{Done, Outcome, Settings};

/// How much is done for a packet before it is given up; its age ends all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Sent again until it is acknowledged.
    #[default]
    Full,
    /// Sent again so many times at most.
    Retries(u16),
    /// Sent again as often as it takes, at the losses measured, to leave no more than so many of a
    /// million packets undelivered.
    Left {
        /// Packets of a million.
        ppm: u32,
    },
}

/// How a packet is to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Its kind of traffic, 0 to 7.
    pub tag: u8,
    /// The flow in whose order it is to be handed on, if it has one.
    pub flow: Option<u32>,
    /// What is done for it.
    pub reliability: Reliability,
    /// It says what an earlier packet with a lower such number says, and more.
    pub says: Option<Said>,
    /// A parity frame follows so many packets of its class; 0: none does.
    pub parity: u16,
}

/// A packet that tells of nothing but how much has come of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The flow.
    pub flow: u32,
    /// How much has come, in numbers that wrap.
    pub number: u32,
}

impl Said {
    /// Whether a later packet makes this one superfluous.
    const fn is_said_by(self, later: Self) -> bool {
        let ahead = later.number.wrapping_sub(self.number) as i32;
        self.flow == later.flow && ahead > 0
    }
}

/// What goes before anything new of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The packet with this number.
    Packet(u16),
    /// A parity frame of the class.
    Parity(ClassId),
}

/// A packet in the window.
#[derive(Debug)]
struct Entry {
    /// `None`: it is acknowledged or given up, and waits for those before it.
    packet: Option<Packet>,
    manner: Manner,
    order: Order,
    /// The number of its last transmission.
    serial: u16,
    /// The same, without the copies that followed it.
    serial_first: u16,
    /// If a later one came, and this packet didn't, its last transmission was lost. Usually that
    /// transmission itself; where a parity frame may tell what was in it, the one before that.
    judged: u16,
    /// When that has left.
    sent: Instant,
    /// The same of the one before it, of which an acknowledgement may come late.
    earlier: Option<(u16, Instant)>,
    transmissions: u16,
    /// The number of the packet relative to which it was said last.
    relative_to: Option<u16>,
    /// Copies that may follow the last transmission.
    copies: u8,
    /// It is to be sent again.
    lost: bool,
    /// It never comes.
    given_up: bool,
}

/// Whether one number is before another, in numbers that wrap.
const fn before(one: u16, other: u16) -> bool {
    (one.wrapping_sub(other) as i16) < 0
}

/// What may be unacknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Numbers from the first that isn't acknowledged.
    pub(crate) packets: u16,
    /// Octets of packets. The last one may go beyond.
    pub(crate) octets: usize,
}

/// The sending side of one neighbour.
#[derive(Debug)]
pub(crate) struct Sender {
    window: Window,
    /// Octets of the packets in the window.
    octets: usize,
    wide: bool,
    /// The number of the first entry.
    base: u16,
    entries: VecDeque<Entry>,
    /// The number of the last transmission.
    serial: u16,
    /// Transmissions that a later one may overtake without it being lost.
    tolerance: u16,
    /// The newest transmission that the receiver has told of.
    newest: u16,
    /// The receiver has to learn that what is missing before this number never comes.
    skip_to: Option<u16>,
    /// When the last transmission has left.
    sent_last: Instant,
    /// Probes sent since anything was heard.
    probes: u32,
    /// Copies that go behind the last of them.
    probe_copies: u8,
    probed_at: Instant,
    /// Until then what was sent again last may still tell of all before it.
    patient_until: Instant,
    pub(crate) loss: LossShare,
    spacing: Spacing,
    held_back_max: Duration,
    /// Of acknowledgements: those that told of nothing that was ever sent.
    pub(crate) forged: u64,
    /// Packets sent again that had come before.
    pub(crate) needless: u64,
    /// Sent again for any reason.
    pub(crate) repeated: u64,
    /// Copies that went behind those.
    pub(crate) copied: u64,
    /// The entry whose transmission is leaving.
    leaving: Option<u16>,
    known: Acknowledged,
    /// What stands for the packet that is leaving.
    line: Vec<u8>,
    parity: Groups,
    /// Parity frames sent.
    pub(crate) parities: u64,
}

impl Sender {
    /// Transmissions of a packet that are relative to another one. Those that follow go whole, if
    /// for whatever reason the receiver can't read the others.
    const RELATIVE_MAX: u16 = 4;
    /// More is no reordering but a loss.
    const TOLERANCE_MAX: u16 = 16;
    /// Growth of the pause between probes ends here: 1.5 to this power is 26.
    const PROBES_MAX: u32 = 8;
    /// Frames of a probe at most.
    const PROBE_FRAMES_MAX: usize = 8;
    /// Repetitions of a packet that don't count to its age. In an outage they are over at once.
    const AGELESS: u16 = 2;
    /// The longest pause between probes.
    const PAUSE_MAX: Duration = Duration::from_secs(8);

    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            window: Window {
                packets: settings.window.unwrap_or(Settings::WINDOW_MIN),
                octets: usize::MAX,
            },
            octets: 0,
            wide: false,
            base: 0,
            entries: VecDeque::new(),
            serial: u16::MAX,
            tolerance: 0,
            newest: u16::MAX,
            skip_to: None,
            sent_last: Instant::ZERO,
            probes: 0,
            probe_copies: 0,
            probed_at: Instant::ZERO,
            patient_until: Instant::ZERO,
            loss: LossShare::default(),
            spacing: Spacing::default(),
            held_back_max: settings.ack_delay_max,
            forged: 0,
            needless: 0,
            repeated: 0,
            copied: 0,
            leaving: None,
            known: Acknowledged::new(),
            line: Vec::new(),
            parity: Groups::new(settings.check),
            parities: 0,
        }
    }

    /// Whether the window takes another packet.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() < usize::from(self.window.packets) && self.octets < self.window.octets
    }

    /// Says what may be unacknowledged. What is beyond that stays.
    pub(crate) const fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// Says whether the other end reads headers that are told relative to any packet, and keeps the
    /// order of flows as it was where they came into the network.
    pub(crate) const fn set_wide(&mut self, wide: bool) {
        self.wide = wide;
        self.known.set_distance_max(if wide {
            Headers::DISTANCE_MAX
        } else {
            Headers::NEAR_MAX
        });
    }

    /// Packets in the window.
    pub(crate) fn held(&self) -> usize {
        self.packets().count()
    }

    /// Numbers in the window.
    pub(crate) fn span(&self) -> usize {
        self.entries.len()
    }

    /// Their octets.
    pub(crate) const fn octets(&self) -> usize {
        self.octets
    }

    fn entry(&self, seq: u16) -> Option<&Entry> {
        self.entries.get(usize::from(seq.wrapping_sub(self.base)))
    }

    fn entry_mut(&mut self, seq: u16) -> Option<&mut Entry> {
        let place = usize::from(seq.wrapping_sub(self.base));
        self.entries.get_mut(place)
    }

    fn number(&self, place: usize) -> u16 {
        self.base.wrapping_add(place as u16)
    }

    /// Octets of a packet in the window.
    pub(crate) fn packet_octets(&self, seq: u16) -> Option<usize> {
        self.entry(seq)?.packet.as_ref().map(Packet::octets)
    }

    /// Takes a packet into the window, which must have room, and gives its number.
    pub(crate) fn begin(&mut self, packet: Packet, manner: Manner) -> u16 {
        let place = self.entries.len();
        let order = self.order_at(place, manner.flow);
        self.octets += packet.octets();
        self.entries.push_back(Entry {
            packet: Some(packet),
            manner,
            order,
            serial: 0,
            serial_first: 0,
            judged: 0,
            sent: Instant::NEVER,
            earlier: None,
            transmissions: 0,
            relative_to: None,
            copies: 0,
            lost: true,
            given_up: false,
        });
        self.number(place)
    }

    /// What a packet at this place follows: the last one of its flow before it.
    fn order_at(&self, place: usize, flow: Option<u32>) -> Order {
        let earlier = self.entries.iter().take(place).rev();
        let same = |entry: &Entry| flow.is_some() && entry.manner.flow == flow && !entry.given_up;
        match earlier.clone().position(same) {
            Some(between) => Order::after(between as u16 + 1),
            None => Order::Any,
        }
    }

    /// What of a class goes before anything new of it, and its octets: a parity frame that is due,
    /// as it tells of what left last; else the oldest packet that is to be sent again.
    pub(crate) fn again(&self, class: ClassId) -> Option<(Again, u32)> {
        if let Some(octets) = self.parity.octets(class) {
            return Some((Again::Parity(class), octets));
        }
        let place = self.entries.iter().position(|entry| {
            let packet = entry.packet.as_ref();
            entry.lost && packet.is_some_and(|packet| packet.class == class)
        })?;
        let packet = self.entries.get(place)?.packet.as_ref()?;
        Some((Again::Packet(self.number(place)), packet.info().octets))
    }

    /// A packet that was sent again and of which a copy may follow where nothing else waits.
    pub(crate) fn copy(&self) -> Option<(u16, u32)> {
        let waits = |entry: &Entry| entry.copies > 0 && !entry.lost && entry.packet.is_some();
        let place = self.entries.iter().position(waits)?;
        let packet = self.entries.get(place)?.packet.as_ref()?;
        Some((self.number(place), packet.info().octets))
    }

    /// Sends a packet of the window, beginning at `starts`: what stands before it, and itself.
    pub(crate) fn transmit(&mut self, starts: Instant, seq: u16) -> Option<(DataHeader, &[u8])> {
        let serial = self.serial.wrapping_add(1);
        let copies = self.loss.copies().max(self.probe_copies);
        let entry = self.entry_mut(seq)?;
        let packet = entry.packet.as_mut()?;
        let repeats = entry.lost && entry.transmissions > 0;
        let copies_one = !entry.lost;
        entry.earlier = (entry.transmissions > 0).then_some((entry.serial, entry.sent));
        if entry.lost {
            if repeats {
                packet.enter(entry.sent, DelayPart::Repeat);
                entry.copies = copies;
            }
            packet.enter(starts, DelayPart::Line);
            entry.transmissions = entry.transmissions.saturating_add(1);
            entry.serial_first = serial;
            entry.lost = false;
        } else {
            entry.copies = entry.copies.saturating_sub(1);
        }
        (entry.serial, entry.judged) = (serial, serial);
        let first = entry.transmissions == 1 && !copies_one;
        if repeats {
            self.probe_copies = 0;
        }
        self.serial = serial;
        self.repeated += u64::from(repeats);
        self.copied += u64::from(copies_one);
        self.leaving = Some(seq);
        let mut line = core::mem::take(&mut self.line);
        let relative_to = self.say(seq, &mut line);
        self.line = line;
        let place = usize::from(seq.wrapping_sub(self.base));
        let entry = self.entries.get_mut(place)?;
        entry.relative_to = relative_to;
        let packet = entry.packet.as_ref()?;
        let lifetime = if packet.expires == Instant::NEVER {
            Lifetime::UNLIMITED
        } else {
            Lifetime::of(packet.expires.since(starts))
        };
        let mut ingress = packet.ingress.unwrap_or_default();
        ingress.ordered &= self.wide;
        let header = DataHeader {
            seq,
            serial,
            tag: entry.manner.tag,
            order: if self.wide {
                entry.order.beside_ordered()
            } else {
                entry.order
            },
            lifetime,
            ingress,
        };
        let line = match relative_to {
            Some(_) => &self.line,
            None => packet.bytes(),
        };
        if first && entry.manner.parity > 0 {
            let most = entry.manner.parity;
            self.parity.add(starts, packet, most, &header, line);
        }
        if first {
            self.parity.pass(seq);
        } else {
            self.parity.forget(seq);
        }
        Some((header, line))
    }

    /// The parity frame of a class that is due, which leaves now. What it tells of isn't taken for
    /// lost before it had time to come.
    pub(crate) fn parity(&mut self, class: ClassId) -> Option<Parity<'_>> {
        let serial = self.serial.wrapping_add(1);
        let parity = self.parity.parity(class, serial)?;
        for seq in parity.numbers() {
            let place = usize::from(seq.wrapping_sub(self.base));
            if let Some(entry) = self
                .entries
                .get_mut(place)
                .filter(|it| it.transmissions == 1)
            {
                entry.judged = self.serial;
            }
        }
        self.serial = serial;
        self.parities += 1;
        Some(parity)
    }

    /// It has gone.
    pub(crate) fn parity_sent(&mut self, class: ClassId) {
        self.parity.sent(class);
    }

    /// When something becomes of a parity frame.
    pub(crate) fn parity_at(&self) -> Option<Instant> {
        self.parity.due_at()
    }

    /// Does what is due with them.
    pub(crate) fn advance_parity(&mut self, now: Instant) {
        self.parity.advance(now);
    }

    /// Classes whose parity frame is to go.
    pub(crate) fn parity_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.parity.classes()
    }

    /// Says a packet of the window relative to one that the receiver has, and gives the number of
    /// that; `None` if it goes whole.
    fn say(&self, seq: u16, line: &mut Vec<u8>) -> Option<u16> {
        line.clear();
        let entry = self.entry(seq)?;
        let packet = entry.packet.as_ref()?;
        let whole = entry.transmissions > Self::RELATIVE_MAX
            // The receiver takes none for right that isn't.
            || verify_transport_checksum(packet.bytes()) == Some(false);
        let (headers, octets) = Headers::of(packet.bytes()).filter(|_| !whole)?;
        let (known, distance) = self.known.like(&headers, seq)?;
        headers.emit(known, distance, line);
        line.extend_from_slice(packet.bytes().get(octets..).unwrap_or_default());
        (line.len() < packet.octets()).then(|| seq.wrapping_sub(distance))
    }

    /// The transmission has left at this moment.
    pub(crate) fn left(&mut self, ended: Instant, trip: &RoundTrip) {
        if let Some(seq) = self.leaving.take()
            && let Some(entry) = self.entry_mut(seq)
        {
            entry.sent = ended;
            let repeats = entry.transmissions > 1;
            self.sent_last = ended;
            self.parity.left(seq, ended);
            self.spacing.note(ended);
            if repeats {
                self.patient_until = ended + self.silence(trip);
            }
        }
    }

    /// The number to tell the receiver as the oldest that is still sent, if it has to learn it.
    pub(crate) const fn skip(&self) -> Option<u16> {
        if self.skip_to.is_some() {
            Some(self.base)
        } else {
            None
        }
    }

    /// The oldest number that is still sent.
    pub(crate) const fn base(&self) -> u16 {
        self.base
    }

    /// Takes an acknowledgement in, and what it tells of the round trip.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        ack: &Ack,
        trip: &mut RoundTrip,
        done: &mut Vec<Done>,
    ) {
        let end = self.number(self.entries.len());
        if before(end, ack.next) || before(self.serial, ack.newest) {
            self.forged += 1;
            return;
        }
        let held = self.held_back(trip);
        if before(self.newest, ack.newest) {
            self.newest = ack.newest;
            // What was acknowledged is missing there: somebody else said so.
            if before(ack.next, self.base) && self.skip_to.is_none() {
                self.skip_to = Some(self.base);
                self.known.clear();
            }
        }
        let mut progress = false;
        for place in 0..self.entries.len() {
            let seq = self.number(place);
            let behind = seq.wrapping_sub(ack.next);
            let came = before(seq, ack.next) || ack.map.tells(behind) == Some(true);
            let Some(entry) = self.entries.get_mut(place).filter(|_| came) else {
                continue;
            };
            // Acknowledged without ever having been sent: made up, or of a packet under way.
            if entry.transmissions == 0 {
                continue;
            }
            let Some(packet) = entry.end(&mut self.octets) else {
                continue;
            };
            progress = true;
            self.known.note(seq, packet.bytes());
            self.known.bear_out(entry.relative_to);
            match entry.left(ack.newest).map(|sent| now.since(sent)) {
                Some(took) if ack.prompt => trip.measure(took),
                Some(took) => trip.measure_held(took, held),
                None => {}
            }
            let needless = entry.transmissions > 1 && before(ack.newest, entry.serial_first);
            if needless || entry.lost {
                self.needless += u64::from(needless);
                self.tolerance = (self.tolerance + 1).min(Self::TOLERANCE_MAX);
            }
            entry.lost = false;
            let ended = entry.sent;
            self.loss.count(false);
            done.push((packet, ended, Outcome::Acknowledged));
        }
        if self.skip_to.is_some_and(|skip| !before(ack.next, skip)) {
            self.skip_to = None;
            progress = true;
        }
        progress |= self.find_losses(ack, now, trip, done);
        if progress {
            self.probes = 0;
        }
        self.shorten();
    }

    /// Takes for lost what left before the newest transmission that came, as far as the receiver
    /// tells of it.
    fn find_losses(
        &mut self,
        ack: &Ack,
        now: Instant,
        trip: &RoundTrip,
        done: &mut Vec<Done>,
    ) -> bool {
        let mut any = false;
        for place in 0..self.entries.len() {
            let seq = self.number(place);
            let behind = seq.wrapping_sub(ack.next);
            let untold = self.parity.has(seq) || (behind > 0 && ack.map.tells(behind).is_none());
            let Some(entry) = self.entries.get_mut(place) else {
                continue;
            };
            let age = ack.newest.wrapping_sub(entry.judged) as i16;
            let in_flight = entry.packet.is_some() && !entry.lost && entry.transmissions > 0;
            if in_flight && !untold && age > self.tolerance as i16 {
                any = true;
                self.loss.count(true);
                if self.is_said_again(place) {
                    self.give_up(place, now, Outcome::Superseded, done);
                } else {
                    self.lose(place, now, trip, done);
                }
            }
        }
        any
    }

    /// A transmission was lost: it is repeated, or its packet given up. What a repetition takes
    /// isn't a wait that any queue could spare it: it doesn't count to its age, as often as hardly
    /// a packet needs more.
    fn lose(&mut self, place: usize, now: Instant, trip: &RoundTrip, done: &mut Vec<Done>) {
        let (loss, longest) = (self.loss, trip.overdue(self.held_back_max));
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        if entry.transmissions <= Self::AGELESS
            && let Some(packet) = &mut entry.packet
        {
            packet.expires += now.since(entry.sent).min(longest);
        }
        let retries = match entry.manner.reliability {
            Reliability::Full => u16::MAX,
            Reliability::Retries(retries) => retries,
            Reliability::Left { ppm } => loss.retries(ppm),
        };
        entry.lost = true;
        if entry.transmissions > retries {
            self.give_up(place, now, Outcome::Undelivered, done);
        }
    }

    fn give_up(&mut self, place: usize, now: Instant, why: Outcome, done: &mut Vec<Done>) {
        if let Some(entry) = self.entries.get_mut(place)
            && let Some(packet) = entry.end(&mut self.octets)
        {
            entry.given_up = true;
            self.known.fail(entry.relative_to, entry.transmissions > 1);
            done.push((packet, now, why));
        }
    }

    /// Whether a later packet that came says all that one says. A copy of it that came all the same
    /// would be nobody's, so only what is known to be lost counts, not what is probed for.
    fn is_said_again(&self, place: usize) -> bool {
        let own = self.entries.get(place).and_then(|it| it.manner.says);
        let later = self.entries.iter().skip(place + 1);
        let mut came = later.filter(|it| it.packet.is_none() && !it.given_up);
        own.is_some_and(|own| came.any(|it| it.manner.says.is_some_and(|it| own.is_said_by(it))))
    }

    /// Forgets the entries at the front that are done with.
    fn shorten(&mut self) {
        while let Some(first) = self.entries.front().filter(|it| it.packet.is_none()) {
            let given_up = first.given_up;
            self.entries.pop_front();
            self.base = self.base.wrapping_add(1);
            if given_up {
                self.skip_to = Some(self.base);
            }
        }
    }

    /// After how long without news a probe is due, if the other end may hold them back for `held`.
    fn pause(&self, trip: &RoundTrip, held: Duration) -> Duration {
        let mut pause = trip.overdue(held);
        for _ in 0..self.probes.min(Self::PROBES_MAX) {
            pause = pause * 3 / 2;
        }
        pause.min(Self::PAUSE_MAX)
    }

    /// How long the other end holds an acknowledgement back where nothing else comes.
    fn held_back(&self, trip: &RoundTrip) -> Duration {
        let longest = self.held_back_max;
        self.loss.silence(longest, trip.mean(), self.spacing)
    }

    /// After how long without anything sent a probe is due.
    fn silence(&self, trip: &RoundTrip) -> Duration {
        self.pause(trip, self.held_back(trip))
    }

    /// The longest that an acknowledgement may take, whatever else comes.
    fn longest(&self, trip: &RoundTrip) -> Duration {
        self.pause(trip, self.held_back_max)
    }

    /// The place of the transmission that left first of those on their way.
    fn oldest_in_flight(&self) -> Option<usize> {
        let all = self.entries.iter().enumerate();
        let in_flight = all.filter(|(_, it)| it.packet.is_some() && !it.lost);
        let oldest = in_flight.min_by_key(|(place, entry)| (entry.sent, *place));
        oldest.map(|(place, _)| place)
    }

    /// When a probe is due: nothing has been sent for so long that the other end should have told
    /// of the last, or it should have told of the oldest in any case. `waits` says that the other
    /// end has to be asked for something else.
    pub(crate) fn probe_at(&self, trip: &RoundTrip, waits: Option<Instant>) -> Option<Instant> {
        // What is to be sent again will tell of the rest.
        let mut entries = self.entries.iter();
        if entries.any(|entry| entry.lost && entry.packet.is_some()) {
            return None;
        }
        let silence = self.silence(trip);
        let due = match self.oldest_in_flight() {
            Some(place) => {
                let oldest = self.entries.get(place)?.sent + self.longest(trip);
                oldest.min(self.sent_last.max(self.probed_at) + silence)
            }
            None => {
                let since = waits.or_else(|| self.skip_to.map(|_| self.probed_at))?;
                since.max(self.probed_at) + silence
            }
        };
        Some(due.max(self.patient_until))
    }

    /// A probe is due: marks the oldest transmissions for it, twice as many as for the one before.
    /// Where losses come in bursts, each frame that isn't sent is one more that is lost later. If
    /// fewer are on their way, copies go in their place. `false` if there is none, and something
    /// else has to go.
    pub(crate) fn probe(&mut self, now: Instant, trip: &RoundTrip, done: &mut Vec<Done>) -> bool {
        self.probes = self.probes.saturating_add(1);
        self.probed_at = now;
        self.patient_until = now + self.silence(trip);
        let frames = (1 << (self.probes - 1).min(Self::PROBES_MAX)).min(Self::PROBE_FRAMES_MAX);
        let mut found = 0;
        while found < frames
            && let Some(place) = self.oldest_in_flight()
        {
            self.lose(place, now, trip, done);
            found += 1;
        }
        self.probe_copies = if found > 0 { (frames - found) as u8 } else { 0 };
        self.shorten();
        found > 0
    }

    /// When the next packet in the window is too old to be sent again.
    pub(crate) fn expires(&self, trip: &RoundTrip) -> Option<Instant> {
        let pause = self.longest(trip);
        let ends = self.entries.iter().filter_map(|it| it.expires(pause));
        ends.min().filter(|end| *end < Instant::NEVER)
    }

    /// Gives up what is too old.
    pub(crate) fn discard(&mut self, now: Instant, trip: &RoundTrip, done: &mut Vec<Done>) {
        let pause = self.longest(trip);
        for entry in &mut self.entries {
            if entry.expires(pause).is_some_and(|end| end <= now)
                && let Some(packet) = entry.end(&mut self.octets)
            {
                entry.given_up = true;
                self.known.fail(entry.relative_to, entry.transmissions > 1);
                done.push((packet, now, Outcome::Aged));
            }
        }
        self.shorten();
    }

    /// Packets that are such are wanted until then at least.
    pub(crate) fn renew(&mut self, until: Instant, mut such: impl FnMut(&Packet) -> bool) {
        let packets = self.entries.iter_mut().filter_map(|it| it.packet.as_mut());
        for packet in packets.filter(|it| such(it)) {
            packet.expires = packet.expires.max(until);
        }
    }

    /// Takes all that was on its way for lost: the medium was away.
    pub(crate) fn lose_all(&mut self) {
        for entry in &mut self.entries {
            entry.lost = entry.packet.is_some();
        }
        self.parity.clear();
        self.probes = 0;
    }

    /// The other end has begun anew and knows of nothing: numbers begin again.
    pub(crate) fn restart(&mut self) {
        self.entries.retain(|entry| entry.packet.is_some());
        self.lose_all();
        (self.base, self.serial, self.skip_to) = (0, u16::MAX, None);
        (self.tolerance, self.newest, self.leaving) = (0, u16::MAX, None);
        self.known.clear();
        for place in 0..self.entries.len() {
            let flow = self.entries.get(place).and_then(|it| it.manner.flow);
            let order = self.order_at(place, flow);
            if let Some(entry) = self.entries.get_mut(place) {
                entry.order = order;
            }
        }
    }

    /// Gives back those packets that are to leave.
    pub(crate) fn take(&mut self, mut leaves: impl FnMut(&Packet) -> bool) -> Vec<Packet> {
        let mut taken = Vec::new();
        for entry in &mut self.entries {
            if entry.packet.as_ref().is_some_and(&mut leaves) {
                entry.given_up = true;
                taken.extend(entry.end(&mut self.octets));
            }
        }
        // What goes another way isn't made again here.
        if !taken.is_empty() {
            self.parity.clear();
        }
        self.shorten();
        taken
    }

    /// Packets in the window.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.entries.iter().filter_map(|it| it.packet.as_ref())
    }

    /// Asserts what holds between calls.
    pub(crate) fn check(&self) {
        assert!(
            self.entries.len() <= usize::from(Settings::WINDOW_MAX),
            "a full window"
        );
        let octets: usize = self.packets().map(Packet::octets).sum();
        assert_eq!(octets, self.octets, "octets in the window");
        let first = self.entries.front();
        assert!(
            first.is_none_or(|entry| entry.packet.is_some()),
            "the window begins with what is still sent"
        );
    }
}

impl Entry {
    /// Takes the packet out, of so many octets in the window.
    fn end(&mut self, octets: &mut usize) -> Option<Packet> {
        let packet = self.packet.take()?;
        *octets -= packet.octets();
        Some(packet)
    }

    /// When one of its last two transmissions had left.
    fn left(&self, serial: u16) -> Option<Instant> {
        let earlier = self.earlier.filter(|(it, _)| *it == serial);
        let last = (self.serial == serial).then_some(self.sent);
        last.or_else(|| earlier.map(|(_, sent)| sent))
    }

    /// When there is no more use in it: what is to be sent again, at its end; what is on its way,
    /// when its acknowledgement is overdue.
    fn expires(&self, pause: Duration) -> Option<Instant> {
        let packet = self.packet.as_ref()?;
        Some(if self.lost {
            packet.expires
        } else {
            packet.expires + pause
        })
    }
}
