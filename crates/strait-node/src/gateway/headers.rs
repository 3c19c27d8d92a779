//! What goes in the place of packets at a port: compressor and decompressor of each neighbour, and
//! what is agreed with it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::node::Ticket;
use strait_core::stats::{Agreement, PayloadStats, PortStats};
use strait_core::{Duration, Instant, NeighbourId, Packet};
use strait_link::payload::{self, Deflater, Inflater, Payload};
use strait_link::repair::When;
use strait_link::rohc::{Beyond, Cids, Peer, Provision, Received, Settings};
use strait_wire::hello::{self, Checks, Hello, KnownFlows};
use strait_wire::ip::is_packet;

use super::agree::{Agreed, Offer, Terms};
use super::remember::Memory;

use crate::config::{Checksums, Compression, ContextConfig, PayloadCompression, PortConfig};

/// The highest number of a context.
const CIDS_MAX: u8 = 15;

/// Ahead of a compressed packet that could be taken for one that isn't: ROHC's padding
/// (RFC 5795 section 5.2).
const PADDING: u8 = 0xe0;

/// How long a context that one damaged or forged packet has ruined stays so where nobody can be
/// asked.
const REFRESH_AFTER: Duration = Duration::from_secs(8);
/// Octets whose time on the line is left between two refreshes of a flow at least: one with some 60
/// takes a tenth of a slow line.
const REFRESH_SPACE_OCTETS: u64 = 600;

/// How long nothing is heard until packets say what changes, and octets whose time on the line that
/// is at least. It takes some ten octets more, and a few for the answer.
const UNHEARD_AFTER: Duration = Duration::from_secs(2);
const UNHEARD_SPACE_OCTETS: u64 = 2500;

/// How much longer than its packet what goes in its place may be.
pub(crate) const GROWTH_OCTETS_MAX: usize = Settings::GROWTH_OCTETS_MAX;

/// The most octets of a note to a neighbour that remembers flows: a hello, with numbers for them.
/// Feedback is shorter.
pub(crate) const NOTE_OCTETS_MAX: usize = hello::OCTETS_MAX;

/// One neighbour.
#[derive(Debug)]
struct Other {
    terms: Terms,
    /// Both ends of header compression, where this end does it.
    peer: Option<Peer>,
    /// Flows that outlive both ends' starts, where this end remembers any.
    memory: Option<Memory>,
    /// Those of header compression, but for what is agreed.
    settings: Settings,
    /// Another number each time that either end has begun anew.
    life: u32,
}

impl Other {
    /// Takes in a hello: contexts of another incarnation, or of other terms, are gone.
    fn hear(&mut self, hello: Hello, provisions: &[Provision]) -> Agreement {
        let terms = |terms: &Terms| (terms.decompresses(), terms.cids_max());
        let before = terms(&self.terms);
        let mut news = self.terms.hear(hello);
        if news.restarted && self.memory.as_ref().is_some_and(Memory::has_news) {
            // All contexts are gone. Begin anew too: that is the time to say what is remembered.
            self.begin_anew();
            news = self.terms.hear(hello);
        }
        let after = terms(&self.terms);
        self.life = self.life.wrapping_add(u32::from(news.restarted));
        if let Some(own) = &mut self.peer {
            if before != after {
                own.renew(Settings {
                    cids: Cids::Small(after.1),
                    ..self.settings
                });
            }
            if news.restarted {
                own.reset();
            }
        }
        self.settle(provisions);
        news.agreement
    }

    /// Goes beyond the standard as far as is agreed.
    fn settle(&mut self, provisions: &[Provision]) {
        let further = self.terms.further();
        let (sent, received) = (&further.sent_remembered, &further.received_remembered);
        let memory = self.memory.as_ref();
        let [sent, received] = memory.map_or_else(Default::default, |it| it.named(sent, received));
        let known = |known: bool, remembered: Vec<Provision>| {
            let mut all = if known {
                provisions.to_vec()
            } else {
                Vec::new()
            };
            for flow in remembered {
                if !all.contains(&flow) {
                    all.push(flow);
                }
            }
            all.truncate(Provision::MAX);
            all
        };
        let beyond = Beyond {
            far_timestamps: further.far_timestamps,
            counts: further.counts,
            sums_vouched: true,
            checksums_rebuilt: further.checksums_rebuilt,
            provisions: known(further.sent_known, sent),
        };
        if let Some(own) = &mut self.peer {
            own.agree(&beyond, &known(further.received_known, received));
        }
    }

    /// Another incarnation, with what is remembered now.
    fn begin_anew(&mut self) {
        self.life = self.life.wrapping_add(1);
        self.terms.reset(self.memory.as_mut().map(Memory::tell));
    }

    /// Nothing is said of this end before what it remembers is there: that would have to be said
    /// again, with all contexts begun anew. Packets don't wait for it.
    fn is_silent(&self) -> bool {
        self.memory.as_ref().is_some_and(Memory::is_loading)
    }

    /// Whether nothing is agreed and nobody asks for anything.
    const fn is_indifferent(&self) -> bool {
        self.terms.are_indifferent() && self.peer.is_none() && self.memory.is_none()
    }

    /// Remembers the flows that have turned out to last.
    fn remember(&mut self) {
        if let (Some(memory), Some(peer)) = (&mut self.memory, &mut self.peer) {
            memory.keep(peer.take_lasting());
        }
    }

    /// The packet with its header compressed, if that is agreed.
    fn compress(
        &mut self,
        now: Instant,
        leaving: Leaving,
        packet: &Packet,
        stats: &mut PortStats,
    ) -> Option<Vec<u8>> {
        let peer = self.peer.as_mut().filter(|_| self.terms.compresses())?;
        peer.tell_time(now);
        peer.tell_half_sent(leaving.half_sent);
        let mut carried = Vec::with_capacity(packet.octets() + GROWTH_OCTETS_MAX);
        let stream = leaving.stream as u8;
        if leaving.alone {
            peer.compress_alone(stream, packet.bytes(), &mut carried);
        } else {
            peer.compress(stream, packet.bytes(), &mut carried);
        }
        if is_packet(&carried) {
            carried.insert(0, PADDING);
        }
        stats.plain_octets += packet.octets() as u64;
        stats.compressed_octets += carried.len() as u64;
        Some(carried)
    }
}

/// Payload compression of a port: it keeps nothing of any neighbour.
#[derive(Debug)]
struct Payloads {
    deflater: Deflater,
    inflater: Inflater,
    /// What was compressed last; its buffer is kept for the next.
    line: Vec<u8>,
}

impl Payloads {
    fn new(config: &PortConfig) -> (Self, u32) {
        let dictionary = config.payload_dictionary();
        let octets_max = config.mtu.0 as usize + GROWTH_OCTETS_MAX;
        let both = Self {
            deflater: Deflater::new(&dictionary),
            inflater: Inflater::new(&dictionary, octets_max),
            line: Vec::new(),
        };
        (both, dictionary.digest())
    }

    /// What goes in the place of `carried`, which stands for `packet`, if that is shorter.
    fn shorten(
        &mut self,
        packet: &Packet,
        carried: &[u8],
        stats: &mut PayloadStats,
    ) -> Option<Vec<u8>> {
        let outcome = self
            .deflater
            .deflate(packet.info(), carried, &mut self.line);
        let shorter = (outcome == Payload::Shorter).then(|| self.line.clone());
        stats.packets += u64::from(shorter.is_some());
        stats.raw += u64::from(outcome == Payload::Raw);
        stats.plain_octets += carried.len() as u64;
        stats.compressed_octets += shorter.as_deref().unwrap_or(carried).len() as u64;
        shorter
    }
}

/// How a packet is about to leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// The stream it goes on.
    pub(super) stream: usize,
    /// It is a real-time packet: its payload is what a vocoder has made as short as it can be, and
    /// its size shouldn't change with its contents.
    pub(super) real_time: bool,
    /// Nothing may make it longer that belongs to others.
    pub(super) alone: bool,
    /// The streams, a bit each, of which a packet is half sent.
    pub(super) half_sent: u32,
}

/// What goes in the place of packets to each neighbour of a port; packets themselves on a plain
/// link.
#[derive(Debug, Default)]
#[repr(C)] // What each packet meets comes first.
pub(super) struct Headers {
    /// Something is agreed with a neighbour, or may be: packets don't go just as they are, or not
    /// alone. Where that isn't so, no packet has to look at the terms.
    minds: bool,
    /// Hellos have come since somebody asked.
    heard: bool,
    agreement: Agreement,
    others: Vec<Other>,
    /// Flows that this end knows beforehand.
    provisions: Vec<Provision>,
    /// Large, and few ports have it.
    payloads: Option<Box<Payloads>>,
    /// The packet restored last; its buffer is kept for the next.
    restored: Vec<u8>,
}

impl Headers {
    /// As the port is configured. `real_time` are the streams of real-time packets; `incarnation`
    /// is another number after each start.
    pub(super) fn new(
        config: &PortConfig,
        neighbours: usize,
        real_time: u8,
        incarnation: u32,
    ) -> Self {
        if !config.profile.cuts_packets() {
            return Self::default();
        }
        let provisions = config.context.iter().map(ContextConfig::provision);
        let provisions: Vec<Provision> = provisions.collect();
        let payloads =
            (config.payload == PayloadCompression::Deflate).then(|| Payloads::new(config));
        let (payloads, digest) = payloads.unzip();
        let own = offer(config, digest, real_time, Provision::digest(&provisions));
        let settings = settings(config);
        let other = |number: usize| {
            let memory = config.remember_flows;
            let mut memory = memory.then(|| Memory::new(&config.name, number));
            let remembered = memory.as_mut().map(Memory::tell);
            let own = Offer { remembered, ..own };
            Other {
                terms: Terms::new(own, incarnation),
                peer: own.compresses.then(|| Peer::new(settings)),
                memory,
                settings,
                life: 0,
            }
        };
        let mut others: Vec<Other> = (0..neighbours).map(other).collect();
        for other in &mut others {
            other.settle(&provisions);
        }
        let mut headers = Self {
            agreement: first_of(&others),
            others,
            provisions,
            payloads: payloads.map(Box::new),
            ..Self::default()
        };
        headers.settle_minds();
        headers
    }

    /// Whether packets go as they are and nothing is said beside them.
    pub(super) const fn is_plain(&self) -> bool {
        !self.minds
    }

    fn settle_minds(&mut self) {
        self.minds = !self.others.iter().all(Other::is_indifferent);
    }

    /// Forgets every context: the medium was away, and the other end may be a new one.
    pub(super) fn reset(&mut self) {
        self.reset_with(|_| true);
    }

    /// The same with one neighbour.
    pub(super) fn reset_one(&mut self, to: NeighbourId) {
        self.reset_with(|number| number == to.index());
    }

    fn reset_with(&mut self, which: impl Fn(usize) -> bool) {
        let others = self.others.iter_mut().enumerate();
        for (_, other) in others.filter(|(number, _)| which(*number)) {
            other.begin_anew();
            other.peer.iter_mut().for_each(Peer::reset);
            other.settle(&self.provisions);
        }
        self.agreement = first_of(&self.others);
        self.heard = true;
        self.settle_minds();
    }

    /// What goes in the place of `packet`, which is about to leave to `to`; the packet itself
    /// without an answer.
    pub(super) fn carry(
        &mut self,
        now: Instant,
        to: NeighbourId,
        leaving: Leaving,
        packet: &Packet,
        stats: &mut PortStats,
    ) -> Option<Vec<u8>> {
        if self.is_plain() {
            return None;
        }
        let other = self.others.get_mut(to.index())?;
        other.terms.begin();
        let deflates = other.terms.deflates() && !leaving.real_time;
        let carried = other.compress(now, leaving, packet, stats);
        other.remember();
        let payloads = self.payloads.as_mut().filter(|_| deflates);
        let shorter = payloads.and_then(|payloads| {
            let carried = carried.as_deref().unwrap_or_else(|| packet.bytes());
            payloads.shorten(packet, carried, &mut stats.payload)
        });
        shorter.or(carried)
    }

    /// Tells the packet that `carried`, which came from `from`, stands for. Says whether all went
    /// well; hellos and feedback alone stand for none.
    pub(super) fn restore(
        &mut self,
        now: Instant,
        from: NeighbourId,
        carried: &[u8],
        tell: impl FnOnce(&[u8]),
    ) -> bool {
        if self.is_plain() && is_packet(carried) {
            tell(carried);
            return true;
        }
        let whole = self.restore_agreed(now, from, carried, tell);
        self.settle_minds();
        whole
    }

    fn restore_agreed(
        &mut self,
        now: Instant,
        from: NeighbourId,
        carried: &[u8],
        tell: impl FnOnce(&[u8]),
    ) -> bool {
        let Some(other) = self.others.get_mut(from.index()) else {
            tell(carried);
            return true;
        };
        other.terms.press(now);
        let mut carried = carried;
        if carried.first() == Some(&payload::MARK) {
            let Some(payloads) = self.payloads.as_mut().filter(|_| other.terms.inflates()) else {
                other.terms.object(now);
                return false;
            };
            match payloads.inflater.inflate(carried) {
                Ok(inflated) => carried = inflated,
                Err(_) => return false,
            }
        }
        // Whatever is agreed: an end that has just started doesn't know of it yet.
        if is_packet(carried) {
            tell(carried);
            return true;
        }
        if carried.first() == Some(&hello::MARK) {
            let Some(hello) = Hello::parse(carried) else {
                return false;
            };
            self.agreement = other.hear(hello, &self.provisions);
            self.heard = true;
            return true;
        }
        let Some(peer) = other.peer.as_mut().filter(|_| other.terms.decompresses()) else {
            other.terms.object(now);
            return false;
        };
        self.restored.clear();
        let received = peer.decompress(carried, &mut self.restored);
        other.remember();
        match received {
            Ok(Received::Packet) => tell(&self.restored),
            Ok(Received::Nothing) => {}
            Err(_) => return false,
        }
        true
    }

    /// What came from `from` can't be read, perhaps as something else is agreed there.
    pub(super) fn object(&mut self, now: Instant, from: NeighbourId) {
        if let Some(other) = self.others.get_mut(from.index()) {
            other.terms.object(now);
            self.settle_minds();
        }
    }

    /// What came from `from` is spoilt; see [`Terms::wonder`].
    pub(super) fn wonder(&mut self, now: Instant, from: NeighbourId) {
        if let Some(other) = self.others.get_mut(from.index()) {
            other.terms.wonder(now);
            self.settle_minds();
        }
    }

    /// What is to be stored, key and value.
    pub(super) fn take_store(&mut self, now: Instant) -> Option<(Vec<u8>, Vec<u8>)> {
        self.memories().find_map(|memory| memory.take_store(now))
    }

    /// What is remembered of each neighbour.
    pub(super) fn memories(&mut self) -> impl Iterator<Item = &mut Memory> {
        self.others.iter_mut().filter_map(|it| it.memory.as_mut())
    }

    /// What was stored of a neighbour has come.
    pub(super) fn loaded(&mut self, ticket: Ticket, value: &[u8]) {
        for other in &mut self.others {
            let memory = other.memory.as_mut();
            if let Some(memory) = memory.filter(|it| it.is_loading())
                && memory.take_loaded(ticket, value)
            {
                other.terms.remember(memory.tell());
                other.settle(&self.provisions);
            }
        }
    }

    /// The most octets of a note to a neighbour.
    pub(super) fn note_octets_max(&self) -> usize {
        let remembers = self.others.iter().any(|other| other.memory.is_some());
        if remembers {
            NOTE_OCTETS_MAX
        } else {
            hello::OCTETS_MAX_FORGETFUL
        }
    }

    /// What was agreed last.
    pub(super) const fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Whether anything may be agreed otherwise since this was asked before.
    pub(super) const fn take_heard(&mut self) -> bool {
        core::mem::replace(&mut self.heard, false)
    }

    /// The checks to use with a neighbour, where they are agreed.
    pub(super) fn agreed(&self, with: NeighbourId) -> Option<Agreed> {
        let other = self.others.get(with.index())?;
        Some(other.terms.agreed())
    }

    /// Another number each time that either end has begun anew, with one neighbour.
    pub(super) fn life(&self, with: NeighbourId) -> u32 {
        self.others.get(with.index()).map_or(0, |other| other.life)
    }

    /// Asks a neighbour for what this end offers and hasn't asked for so far.
    pub(super) fn ask(&mut self, with: NeighbourId) {
        if let Some(other) = self.others.get_mut(with.index()) {
            other.terms.ask();
            self.settle_minds();
        }
    }

    /// The largest packet that every neighbour takes, if it is less than `mtu`.
    pub(super) fn mtu(&self, mtu: usize) -> usize {
        let told = self.others.iter().filter_map(|other| other.terms.mtu());
        told.map(usize::from).fold(mtu, usize::min)
    }

    /// One of these neighbours that waits for a hello or for feedback.
    pub(super) fn owed(&self, there: impl Fn(NeighbourId) -> bool) -> Option<NeighbourId> {
        if self.is_plain() {
            return None;
        }
        let owes = |other: &Other| {
            let feedback = other.peer.as_ref().is_some_and(Peer::owes_feedback);
            other.terms.owes() && !other.is_silent() || feedback && other.terms.compresses()
        };
        let others = (0..).map(NeighbourId).zip(&self.others);
        let mut owed = others.filter(|(_, other)| owes(other)).map(|(to, _)| to);
        owed.find(|to| there(*to))
    }

    /// Whether a hello goes to `to` before the next packet begins.
    pub(super) fn is_ahead(&self, now: Instant, to: NeighbourId) -> bool {
        let other = self.others.get(to.index()).filter(|_| self.minds);
        other.is_some_and(|other| !other.is_silent() && other.terms.is_ahead(now))
    }

    /// A hello or feedback for `to`, in the place of a packet.
    pub(super) fn note(&mut self, now: Instant, to: NeighbourId) -> Option<Vec<u8>> {
        let mut note = Vec::new();
        let other = self.others.get_mut(to.index())?;
        if !other.is_silent() && (other.terms.owes() || other.terms.is_ahead(now)) {
            other.terms.put(now, &mut note);
        } else if other.terms.compresses() {
            other.peer.as_mut()?.put_feedback(&mut note);
        }
        (!note.is_empty()).then_some(note)
    }
}

/// What this end offers by its configuration.
fn offer(config: &PortConfig, payload: Option<u32>, real_time: u8, known: u32) -> Offer {
    let compresses = config.compression == Compression::Rohc;
    let others_short = config.check == Some(16);
    let urgent = config.urgent_check().is_some();
    Offer {
        compresses,
        cids_max: CIDS_MAX,
        mtu: u16::try_from(config.mtu.0).unwrap_or(u16::MAX),
        payload,
        checks: Checks {
            real_time_short: config.check_urgent != Some(32),
            others_short,
            urgent,
            repairs: config.repairs().is_some(),
            real_time_streams: real_time,
        },
        counts: config.way_back && (config.count_packets || may_reorder(config)),
        checksums_rebuilt: config.checksums == Checksums::Rebuild,
        known: KnownFlows {
            sent: known,
            received: known,
        },
        remembered: None,
        asks: compresses
            || payload.is_some()
            || others_short
            || config.check_urgent.is_some()
            || config.repairs() == Some(When::Always)
            || urgent,
        way_back: config.way_back,
    }
}

/// Whether the port's medium may deliver frames in another order.
fn may_reorder(config: &PortConfig) -> bool {
    config.kind.is_packets() && !config.keeps_order
}

fn first_of(others: &[Other]) -> Agreement {
    let first = others.first();
    first.map_or(Agreement::None, |other| other.terms.agreement())
}

/// Header compression as the port is configured.
fn settings(config: &PortConfig) -> Settings {
    Settings {
        doubt: config.contexts_doubt(),
        feedback: config.way_back,
        refresh_after: (!config.way_back)
            .then(|| spaced(config, REFRESH_AFTER, REFRESH_SPACE_OCTETS)),
        unheard_after: (config.way_back)
            .then(|| spaced(config, UNHEARD_AFTER, UNHEARD_SPACE_OCTETS)),
        ..Settings::new(Cids::Small(CIDS_MAX))
    }
}

/// So long, and as long as so many octets take on the line.
fn spaced(config: &PortConfig, least: Duration, octets: u64) -> Duration {
    let rate = config.line_rate();
    rate.map_or(least, |rate| least.max(rate.time_for(octets)))
}
