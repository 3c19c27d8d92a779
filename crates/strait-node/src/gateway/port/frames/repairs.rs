//! What a frame medium loses is sent again, calls apart.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::node::{TxMeta, Want};
use strait_core::stats::RepairStats;
use strait_core::{
    ClassId, DropCause, Duration, Fate, Instant, NeighbourId, Neighbours, Packet, Wake, WakeReason,
};
use strait_link::repair::Outcome;
use strait_link::repair::frames::{FrameRepairs, Piece};
use strait_link::{FrameSender, STREAMS, rohc};
use strait_qos::{Head, Policy, Scheduler};
use strait_wire::ip::TcpFlags;
use strait_wire::repair::NUMBER_OCTETS;

use super::Frames;
use crate::config::PortConfig;
use crate::gateway::port::NOTE_CLASS;
use crate::gateway::port::hop::flow;
use crate::gateway::port::link::Frame;
use crate::gateway::port::queue::Queue;
use crate::gateway::port::segments::{Intake, real_time_streams};

/// Repairs of what goes to a neighbour and comes from it.
#[derive(Debug)]
pub(super) struct Mending {
    pub(super) repairs: FrameRepairs,
    /// The streams whose packets are repaired, a bit each: all without real-time packets.
    streams: u8,
    /// By stream, what the packet under way is in order with.
    keys: [u64; STREAMS],
    /// The life of the link that is mended: another one after each start of either end.
    life: u32,
    taken: bool,
    sends: bool,
    /// Copies may go while the line is idle: nobody else has it.
    company: bool,
}

/// The time of an octet before any rate is known.
const OCTET_UNKNOWN: Duration = Duration::from_millis(1);

impl Mending {
    /// A neighbour each, where there are repairs.
    pub(super) fn all(config: &PortConfig, policy: &Policy) -> Box<[Self]> {
        let Some(when) = config.repairs() else {
            return Box::default();
        };
        let octet = config.line_rate().map(|rate| rate.time_for(1));
        let octet = octet.unwrap_or(OCTET_UNKNOWN);
        let packet = config.link_settings(None).packet_octets_max;
        let neighbours = 0..config.neighbours.len().max(1);
        let company = neighbours.end == 1 && config.kiss().is_none();
        let mending = neighbours.map(|_| Self {
            repairs: FrameRepairs::new(when, octet, packet),
            streams: !real_time_streams(policy),
            keys: [0; STREAMS],
            life: 0,
            taken: false,
            sends: false,
            company,
        });
        mending.collect()
    }

    /// Whether there is nothing to do before something comes.
    pub(super) fn is_at_rest(&self) -> bool {
        let repairs = &self.repairs;
        repairs.held() == 0 && !repairs.is_due() && !repairs.may_ask() && repairs.wake().is_none()
    }

    /// Whether the segments of a packet that begins on a stream have numbers.
    fn numbers(&self, stream: usize) -> bool {
        self.sends && self.streams >> stream & 1 == 1 && self.repairs.numbers()
    }

    /// A packet begins on a stream: its number in the window, if its segments have numbers.
    ///
    /// A bare acknowledgement of TCP's has none: the next one says all that it says, so it needn't
    /// wait for others or be sent again. But it doesn't overtake what is on its way of its own.
    pub(super) fn begin(
        &mut self,
        stream: usize,
        packet: &Packet,
        carried: Option<&[u8]>,
    ) -> Option<u64> {
        if !self.numbers(stream) {
            return None;
        }
        const CONTEXT: u64 = 1 << 32;
        const STREAM: u64 = 1 << 33;
        let key = match carried {
            None => u64::from(flow(packet.info())),
            Some(carried) => match rohc::context(carried) {
                Some(number) => CONTEXT | u64::from(number),
                None => STREAM | stream as u64,
            },
        };
        self.keys[stream] = key;
        let is_bare = packet.info().tcp_bare == Some(TcpFlags::ACK);
        (!is_bare || self.repairs.has_open(key)).then(|| self.repairs.begin())
    }

    /// The next piece of the packet under way on a stream.
    pub(super) const fn piece(&self, packet: u64, stream: usize, class: ClassId) -> Piece {
        Piece {
            packet,
            key: self.keys[stream],
            class,
        }
    }

    /// Class and octets of what no copy of has gone.
    fn alone(&self) -> Option<(ClassId, usize)> {
        self.repairs.alone().filter(|_| self.sends)
    }

    fn tells(&self) -> bool {
        self.taken && self.repairs.is_due()
    }
}

impl Frames {
    fn mending(&self, to: NeighbourId) -> Option<&Mending> {
        self.mending.get(to.index())
    }

    /// Goes by what is agreed now, and begins anew where either end has.
    pub(super) fn adjust_repairs(&mut self, queue: &Queue) {
        let frame = queue
            .state
            .map_or(usize::MAX, |it| it.frame_octets_max as usize);
        let frame = frame.min(self.frame_octets_max);
        for (to, mending) in (0..).map(NeighbourId).zip(&mut self.mending) {
            mending.repairs.set_frame(frame);
            let life = self.segments.headers.life(to);
            if core::mem::replace(&mut mending.life, life) != life {
                mending.repairs.restart();
            }
            let (taken, sent) = self.segments.repairs(to);
            mending.repairs.agree(taken, sent);
            (mending.taken, mending.sends) = (taken, sent);
            if queue.is_up() {
                mending.repairs.set_octet(queue.rate_to(to).time_for(1));
            }
        }
    }

    /// Octets that segments to a neighbour have for their numbers.
    pub(in crate::gateway::port) fn number_octets(&self, to: NeighbourId) -> usize {
        let numbers = self.mending(to).is_some_and(|it| it.repairs.numbers());
        if numbers { NUMBER_OCTETS } else { 0 }
    }

    /// Packets that are kept until they have come.
    pub(super) fn kept(&self) -> usize {
        self.mending.iter().map(|it| it.repairs.held()).sum()
    }

    /// Keeps a packet of which all has left.
    pub(super) fn keep(&mut self, to: NeighbourId, ended: Instant, number: u64, packet: Packet) {
        if let Some(mending) = self.mending.get_mut(to.index()) {
            mending.repairs.keep(ended, number, packet);
        }
    }

    /// Whether a stream has to wait until more is heard of what was sent.
    pub(super) fn is_shut(&self, to: NeighbourId, stream: usize) -> bool {
        let Some((mending, sender)) = self.mending(to).zip(self.sender(to)) else {
            return false;
        };
        let numbers = match sender.under_way(stream) {
            Some(_) => sender.kept_as(stream).is_some(),
            None => mending.numbers(stream),
        };
        numbers && !mending.repairs.has_window()
    }

    /// What of a class is sent again before anything new of it.
    pub(super) fn again(&self, to: NeighbourId, class: ClassId) -> Option<usize> {
        let mending = self.mending(to).filter(|it| it.sends)?;
        mending.repairs.again(class)
    }

    /// Sends the next frame of a class again.
    pub(super) fn repeat(
        &mut self,
        queue: &mut Queue,
        starts: Instant,
        head: Head,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let (to, class) = (head.to, head.class);
        self.again(to, class).filter(|it| *it <= octets_max)?;
        let repairs = &mut self.mending.get_mut(to.index())?.repairs;
        let (packet, frame) = repairs.repeat(class)?;
        out.extend_from_slice(frame);
        let octets = frame.len();
        queue.charge(class, to, octets as u32);
        let ended = queue.leaves(starts, to, octets);
        repairs.repeated(ended, packet);
        self.sync(queue, to);
        queue.stats(ledger).frames_out += 1;
        self.plan_rest(queue, ended, to, ledger);
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(class)
        })
    }

    /// Tells the scheduler what of a class goes on: so much of the packet under way, and what is
    /// sent again.
    pub(super) fn set_under_way(
        &self,
        queue: &mut Queue,
        to: NeighbourId,
        class: ClassId,
        octets_left: usize,
    ) {
        let octets = octets_left + self.again(to, class).unwrap_or(0);
        let tree = &mut queue.paths.to_mut(to).queue;
        tree.set_under_way(class, to, octets as u32);
    }

    /// The same of every class.
    fn sync(&self, queue: &mut Queue, to: NeighbourId) {
        let Some(sender) = self.sender(to) else {
            return;
        };
        for number in 0..queue.classes.len() {
            let class = ClassId(number as u8);
            let stream = queue.classes[number].stream;
            let own = |packet: &&Packet| packet.class == class;
            let under_way = sender.under_way(stream).filter(own);
            let left = under_way.map_or(0, |_| sender.octets_left(stream));
            self.set_under_way(queue, to, class, left);
        }
    }

    /// To whom something is to be told of repairs before the head packet.
    pub(super) fn tells_first(&self, queue: &Queue, head: Head) -> Option<NeighbourId> {
        let class = queue.classes.get(head.class.index())?;
        let tells = !class.whole && self.mending(head.to)?.tells();
        (tells && self.sender(head.to)?.takes_note()).then_some(head.to)
    }

    /// The one of some neighbours that may be told or asked something where nothing else is to be
    /// sent.
    pub(super) fn tell_to(&self, queue: &Queue, some: Neighbours) -> Option<NeighbourId> {
        let mut all = (0..).map(NeighbourId).zip(&self.mending);
        let found = all.find(|(to, mending)| {
            let may = mending.tells() || mending.sends && mending.repairs.may_ask();
            let takes = self.sender(*to).is_some_and(FrameSender::takes_note);
            may && takes && some.contains(*to) && !queue.is_away(*to)
        });
        found.map(|(to, _)| to)
    }

    /// Room for it.
    pub(super) fn wants_tell(&self, queue: &Queue) -> Option<Want> {
        let to = self.tell_to(queue, Neighbours::ALL)?;
        Some(Want {
            class: NOTE_CLASS,
            octets: self.mending(to)?.repairs.note_octets_max() as u32,
            to,
        })
    }

    /// Sends what is to be told of repairs.
    pub(super) fn tell(
        &mut self,
        queue: &mut Queue,
        starts: Instant,
        to: NeighbourId,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let repairs = &mut self.mending.get_mut(to.index())?.repairs;
        if repairs.note_octets_max() > octets_max {
            return None;
        }
        let note = repairs.note()?;
        let (sender, _) = self.others.get_mut(to.index())?;
        let octets = sender.cut_note(&note, out)?;
        queue.leaves(starts, to, octets);
        queue.stats(ledger).frames_out += 1;
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(NOTE_CLASS)
        })
    }

    /// What may go once more while the line is idle: then a copy costs nobody anything, and if the
    /// first is lost, who waits for it waits a round trip less.
    pub(super) fn wants_company(&self) -> Option<Want> {
        let (class, octets) = self.mending.first().filter(|it| it.company)?.alone()?;
        Some(Want {
            class,
            octets: octets as u32,
            to: NeighbourId::PEER,
        })
    }

    /// Sends it.
    pub(super) fn accompany(
        &mut self,
        queue: &mut Queue,
        starts: Instant,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let want = self.wants_company()?;
        let octets = want.octets as usize;
        if octets > octets_max || queue.is_away(want.to) {
            return None;
        }
        out.extend_from_slice(self.mending.first_mut()?.repairs.accompany()?);
        queue.leaves(starts, want.to, octets);
        queue.stats(ledger).frames_out += 1;
        Some(TxMeta::to_peer(want.class))
    }

    /// When something is to be told of repairs.
    pub(super) fn repairs_wake(&self) -> Option<Wake> {
        let at = self.mending.iter().filter_map(|it| it.repairs.wake()).min();
        let why = WakeReason::Retransmit;
        at.map(|at| Wake { at, why })
    }

    /// Keeps nothing that is too old, or that a new life of either end has given up.
    pub(super) fn age(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) {
        for to in (0..self.mending.len() as u16).map(NeighbourId) {
            let repairs = &mut self.mending[to.index()].repairs;
            repairs.age(now);
            if repairs.has_done() {
                self.end(queue, to, now, ledger);
                self.sync(queue, to);
            }
        }
    }

    /// A neighbour is gone: what is on its way to it is lost.
    pub(super) fn abandon_repairs(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        to: NeighbourId,
        ledger: &mut Ledger,
    ) {
        if let Some(mending) = self.mending.get_mut(to.index()) {
            for packet in mending.repairs.abandon() {
                ledger.drop(now, packet, DropCause::PortDown);
            }
            self.sync(queue, to);
        }
    }

    /// Takes what a frame brings, and says whether it came from a neighbour.
    pub(super) fn take(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        intake: &mut Intake,
        ledger: &mut Ledger,
    ) -> bool {
        let Self {
            others,
            segments,
            mending,
            ..
        } = self;
        let Some((_, receiver)) = others.get_mut(frame.from.index()) else {
            return false;
        };
        let mut tell = |read: Result<&[u8], strait_link::Refused>| {
            segments.take(now, frame.from, read, intake, ledger);
        };
        let mending = mending.get_mut(frame.from.index());
        let Some(Mending { repairs, taken, .. }) = mending else {
            receiver.feed_frame(frame.bytes, tell);
            return true;
        };
        // A port at rest isn't told of time.
        repairs.advance(now);
        if !(*taken && repairs.take(frame.bytes, &mut tell))
            && let Some(header) = receiver.feed_frame(frame.bytes, tell)
        {
            repairs.came(header);
        }
        true
    }

    /// Takes in what is told of repairs, and whether something was lost.
    pub(super) fn take_notes(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        frame: &Frame<'_>,
        intake: &mut Intake,
        ledger: &mut Ledger,
    ) {
        let Self {
            segments, mending, ..
        } = self;
        let Some(Mending { repairs, .. }) = mending.get_mut(frame.from.index()) else {
            return;
        };
        let notes = core::mem::take(&mut intake.notes);
        for note in &notes {
            let is_read = repairs.hear(note, |read| {
                segments.take(now, frame.from, read, intake, ledger);
            });
            if !is_read {
                segments.unreadable(now, frame.from, intake);
            }
        }
        repairs.lose_patience(|read| {
            segments.take(now, frame.from, read, intake, ledger);
        });
        if repairs.heard(frame.bytes.len()) {
            segments.headers.ask(frame.from);
        }
        if !notes.is_empty() {
            let trip = repairs.trip().filter(|_| repairs.numbers());
            trip.into_iter().for_each(|trip| queue.set_trip(trip));
            self.end(queue, frame.from, now, ledger);
            self.sync(queue, frame.from);
        }
    }

    /// Ends the stays of packets that are kept no longer.
    fn end(&mut self, queue: &Queue, to: NeighbourId, now: Instant, ledger: &mut Ledger) {
        let port = queue.id;
        let Some(mending) = self.mending.get_mut(to.index()) else {
            return;
        };
        for (packet, ended, outcome) in mending.repairs.done() {
            match outcome {
                Outcome::Came => {
                    let bytes = ledger.close(ended, packet, Fate::Forwarded { port, to });
                    ledger.keep_spare(bytes);
                }
                Outcome::Undelivered => ledger.drop(now, packet, DropCause::Undelivered),
                Outcome::Aged => ledger.drop(now, packet, DropCause::Aged),
            }
        }
    }

    /// Counts.
    pub(super) fn count_repairs(&self, queue: &Queue, ledger: &mut Ledger) {
        let is_idle = |it: &Mending| !it.repairs.wishes() && !it.repairs.numbers();
        if self
            .mending
            .iter()
            .all(|it| is_idle(it) && it.repairs.held() == 0)
        {
            let stats = &mut queue.stats(ledger).repairs;
            (stats.sends, stats.wishes) = (false, false);
            return;
        }
        let mut all = RepairStats::default();
        for mending in &self.mending {
            let repairs = &mending.repairs;
            let (window, row, notes, [window_octets, held_octets]) = repairs.counts();
            all.sends |= repairs.numbers();
            all.wishes |= repairs.wishes();
            all.repeated += window.repeated;
            all.repeated_octets += window.repeated_octets;
            all.forged += window.forged;
            all.segments_in += row.segments;
            all.duplicates += row.duplicates;
            all.refused += row.refused;
            all.skipped += row.skipped;
            all.notes += notes.sent;
            all.notes_octets += notes.octets;
            all.window_octets += window_octets as u64;
            all.held_octets += held_octets as u64;
        }
        queue.stats(ledger).repairs = all;
    }
}
