//! An octet stream to one neighbour: segments leave a few octets at a time.

mod repairs;

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::node::{PortState, TxMeta, Want};
use strait_core::rate::LineRate;
use strait_core::{ClassId, DropCause, Fate, Instant, NeighbourId, Packet, PortId, Room, Wake};
use strait_link::{OctetSender, Receiver};
use strait_qos::{Head, Policy, Scheduler};

use self::repairs::Mending;
use super::NOTE_CLASS;
use super::link::{Frame, Link};
use super::queue::{Queue, Treatment, want};
use super::segments::{Intake, Segments};
use crate::config::PortConfig;
use crate::gateway::headers::{GROWTH_OCTETS_MAX, Leaving};

/// An octet stream to one neighbour.
#[derive(Debug)]
pub(super) struct Octets {
    sender: OctetSender,
    receiver: Receiver,
    segments: Segments,
    /// Losses of the line are repeated, if both ends do so.
    mending: Option<Box<Mending>>,
}

impl Octets {
    pub(super) fn new(id: PortId, config: &PortConfig, policy: &Policy, seed: u64) -> Self {
        let settings = config.link_settings(config.line_rate());
        Self {
            sender: OctetSender::new(settings),
            receiver: Receiver::new(settings),
            segments: Segments::new(id, config, policy, seed),
            mending: Mending::new(config, policy).map(Box::new),
        }
    }

    /// Cuts and checks by the present state.
    fn adjust(&mut self, queue: &Queue) {
        let (settings, short, urgent) = self.segments.cut(queue, 0);
        self.sender.set_settings(settings);
        self.receiver.set_checks(short, urgent);
        self.adjust_repairs(queue);
    }

    /// The neighbour that a note may go to now.
    fn note_to(&self, queue: &Queue) -> Option<NeighbourId> {
        let to = self.segments.headers.owed(|to| !queue.is_away(to))?;
        self.sender.takes_note().then_some(to)
    }

    fn half_sent(&self, queue: &Queue) -> u32 {
        Segments::half_sent(queue, |stream| self.sender.under_way(stream))
    }

    /// Appends octets of one segment, cutting it first if none is under way. `at` is when the first
    /// of them leaves.
    fn next_octets(
        &mut self,
        queue: &mut Queue,
        (now, at): (Instant, Instant),
        room: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<ClassId> {
        let class = match self.sender.leaving() {
            Some((class, _)) => self.pre_empt(queue, (now, at), ledger).unwrap_or(class),
            None => match queue.head(self) {
                Some(head) => match self.note_first(queue, at, head) {
                    Some(to) => self.cut_note(queue, at, to, ledger)?,
                    None if self.tells_first(queue, head) => self.tell(queue, at, ledger)?,
                    None => {
                        self.cut_packet(queue, (now, at), head, ledger)?;
                        head.class
                    }
                },
                None => match self.note_to(queue) {
                    Some(to) => self.cut_note(queue, at, to, ledger)?,
                    None => self.tell(queue, at, ledger)?,
                },
            },
        };
        let length = self.sender.pull(room, out);
        let ended = queue.paths.first.burst.push(at, length as u64);
        if let Some(packet) = self.sender.finish(ended) {
            let (port, to) = (queue.id, NeighbourId::PEER);
            let bytes = ledger.close(ended, packet, Fate::Forwarded { port, to });
            ledger.keep_spare(bytes);
        }
        Some(class)
    }

    /// Lets more urgent packets go before the rest of the segment under way: a packet of the first
    /// rank at once, inside it; a packet of a better rank, or feedback, by cutting the segment
    /// short. Gives the class that goes now, if it is another.
    fn pre_empt(
        &mut self,
        queue: &mut Queue,
        (now, at): (Instant, Instant),
        ledger: &mut Ledger,
    ) -> Option<ClassId> {
        if !self.sender.takes_urgent(0) {
            return None;
        }
        let head = queue.head(self)?;
        let Treatment { rank, whole, .. } = *queue.classes.get(head.class.index())?;
        if whole {
            self.begin_urgent(queue, (now, at), head, ledger)?;
            return Some(head.class);
        }
        let class = self.sender.shortens()?;
        let better = rank < queue.classes.get(class.index())?.rank;
        if (better || self.note_to(queue).is_some())
            && let Some((_, octets_left)) = self.sender.shorten()
        {
            self.set_under_way(queue, class, octets_left);
        }
        None
    }

    /// The neighbour that a note goes to before the head packet: a hello before the packet begins,
    /// or feedback before the rest of one. The packet can't carry it any more, and without it the
    /// other end sends whole headers.
    fn note_first(&self, queue: &Queue, at: Instant, head: Head) -> Option<NeighbourId> {
        let stream = queue.classes.get(head.class.index())?.stream;
        if !self.sender.takes_note() {
            return None;
        }
        if !self.sender.is_under_way(stream) {
            let is_ahead = self.segments.headers.is_ahead(at, head.to);
            return is_ahead.then_some(head.to);
        }
        self.note_to(queue).filter(|_| self.sender.has_urgent())
    }

    /// Begins an urgent frame with the head packet.
    fn begin_urgent(
        &mut self,
        queue: &mut Queue,
        (now, at): (Instant, Instant),
        head: Head,
        ledger: &mut Ledger,
    ) -> Option<()> {
        let octets_max = head.octets as usize + GROWTH_OCTETS_MAX;
        if !self.sender.takes_urgent(octets_max) {
            return None;
        }
        let stream = queue.classes.get(head.class.index())?.stream;
        let packet = queue.take(self, now, head, usize::MAX, ledger)?;
        let leaving = Leaving {
            stream,
            real_time: true,
            alone: true,
            half_sent: self.half_sent(queue),
        };
        let stats = queue.stats(ledger);
        let headers = &mut self.segments.headers;
        let carried = headers.carry(at, head.to, leaving, &packet, stats);
        let suspends = self.sender.leaving().is_some();
        let info = *packet.info();
        match self.sender.begin_urgent(at, packet, carried.as_deref()) {
            Ok(octets) => {
                stats.frames_out += 1;
                stats.urgent.count(octets as u32, suspends);
                queue.paths.first.queue.charge(head.class, octets as u32);
                if let Some(flows) = &mut queue.paths.first.flows {
                    flows.carried(&info, octets);
                }
                Some(())
            }
            // Packets longer than any urgent frame were asked for before.
            Err(packet) => {
                ledger.drop(now, packet, DropCause::TooBig);
                None
            }
        }
    }

    /// Cuts a note as a segment of its own.
    fn cut_note(
        &mut self,
        queue: &Queue,
        at: Instant,
        to: NeighbourId,
        ledger: &mut Ledger,
    ) -> Option<ClassId> {
        let note = self.segments.headers.note(at, to)?;
        self.sender.cut_note(at, &note)?;
        queue.stats(ledger).frames_out += 1;
        Some(NOTE_CLASS)
    }

    /// Cuts the next segment of the head packet.
    fn cut_packet(
        &mut self,
        queue: &mut Queue,
        (now, at): (Instant, Instant),
        head: Head,
        ledger: &mut Ledger,
    ) -> Option<()> {
        let Treatment { stream, whole, .. } = *queue.classes.get(head.class.index())?;
        let octets_max = head.octets as usize + GROWTH_OCTETS_MAX;
        if whole && self.sender.takes_urgent(octets_max) {
            return self.begin_urgent(queue, (now, at), head, ledger);
        }
        if let Some(octets) = self.repeat(at, head.class) {
            return self.has_cut(queue, head.class, (octets, 0), ledger);
        }
        if !self.sender.is_under_way(stream) {
            let packet = queue.take(self, now, head, usize::MAX, ledger)?;
            // Repaired packets may arrive after later ones of their call: each stream has its own
            // order, and its contexts with it.
            let numbered = self.goes_numbered(stream);
            let leaving = Leaving {
                stream: match numbered {
                    true => stream,
                    false => queue.context_stream(&packet, stream),
                },
                real_time: whole,
                alone: false,
                half_sent: self.half_sent(queue),
            };
            let segments = &mut self.segments;
            let carried = segments.carry(queue, at, Some(leaving), &packet, ledger);
            if numbered {
                self.sender.begin_numbered(stream, packet, carried);
            } else {
                self.sender.begin(stream, packet, carried);
            }
        }
        let progress = self.sender.cut(at, stream, whole)?;
        let octets = (progress.octets, progress.octets_left);
        self.has_cut(queue, head.class, octets, ledger)
    }

    /// A segment of a class begins to leave: its octets, and those that its packet has left.
    fn has_cut(
        &self,
        queue: &mut Queue,
        class: ClassId,
        (octets, octets_left): (usize, usize),
        ledger: &mut Ledger,
    ) -> Option<()> {
        self.set_under_way(queue, class, octets_left);
        queue.paths.first.queue.charge(class, octets as u32);
        queue.stats(ledger).frames_out += 1;
        Some(())
    }
}

impl Link for Octets {
    fn neighbours(&self) -> usize {
        1
    }

    fn held(&self) -> usize {
        self.sender.held()
    }

    fn abandon(&mut self, _: Instant) -> Vec<Packet> {
        self.sender.abandon().collect()
    }

    fn advance(&mut self, now: Instant) {
        if let Some(mending) = &mut self.mending {
            mending.repairs.advance(now);
        }
    }

    fn wake(&self) -> Option<Wake> {
        self.repairs_wake()
    }

    fn expires(&self) -> Option<Instant> {
        self.sender.expires()
    }

    fn discard(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) -> bool {
        self.age(queue, now, ledger);
        queue.discard(self, now, ledger)
    }

    fn is_congested(&self, queue: &Queue, _: NeighbourId) -> bool {
        self.sender.begun() > 0 || queue.waiting() > 0
    }

    fn set_up(&mut self, queue: &mut Queue, _: Instant, _: PortState) {
        self.adjust(queue);
    }

    fn set_down(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) {
        self.segments.headers.reset();
        queue.abandon(self, now, DropCause::PortDown, ledger);
        self.receiver.reset();
        self.adjust_repairs(queue);
    }

    fn set_neighbour(
        &mut self,
        queue: &mut Queue,
        _: Instant,
        to: NeighbourId,
        there: bool,
        _: &mut Ledger,
    ) {
        if !there {
            self.segments.headers.reset_one(to);
            self.adjust(queue);
        }
    }

    fn set_rate(&mut self, queue: &mut Queue, to: NeighbourId, rate: LineRate) {
        queue.set_rate(to, rate);
        self.adjust(queue);
    }

    fn eligible(&self, _: &Queue, _: NeighbourId, class: ClassId, treatment: &Treatment) -> bool {
        // An urgent frame inside another uses no stream.
        if treatment.whole && self.sender.has_urgent() {
            return true;
        }
        if self.again(class).is_some() {
            return true;
        }
        // Classes that share a stream have no two packets under way.
        let leaving = self.sender.under_way(treatment.stream);
        leaving.is_none_or(|packet| packet.class == class) && !self.is_shut(treatment.stream)
    }

    /// Whether any packet of a stream that is under way, or hasn't come as far as this end knows,
    /// is such.
    fn any_leaving(&self, _: NeighbourId, stream: usize, such: &dyn Fn(&Packet) -> bool) -> bool {
        self.sender.under_way(stream).is_some_and(such) || self.sender.kept().any(such)
    }

    fn longest_piece(&mut self, _: &Queue, rate: LineRate) -> usize {
        self.segments.longest_piece(rate)
    }

    fn wants(&self, queue: &Queue) -> Option<Want> {
        if let Some((class, octets)) = self.sender.leaving() {
            return Some(Want {
                class,
                octets: octets as u32,
                to: NeighbourId::PEER,
            });
        }
        let note = || self.segments.wants_note(self.note_to(queue)?);
        let head = queue.head(self).map(want).or_else(note);
        head.or_else(|| self.wants_tell())
    }

    fn committed_octets(&self) -> usize {
        self.sender.urgent_octets()
    }

    fn pull(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let before = out.len();
        let mut class = None;
        while out.len() - before < room.octets {
            let at = room.starts.max(queue.paths.first.burst.end());
            let left = room.octets - (out.len() - before);
            let Some(sent) = self.next_octets(queue, (now, at), left, out, ledger) else {
                break;
            };
            class = class.or(Some(sent));
        }
        class.map(TxMeta::to_peer)
    }

    fn hear(&mut self, queue: &mut Queue, now: Instant, frame: Frame<'_>, ledger: &mut Ledger) {
        let Self {
            receiver, segments, ..
        } = self;
        let mut intake = Intake::new(receiver.misses_urgent(frame.bytes));
        let before = receiver.frames();
        receiver.feed_octets(frame.bytes, |read| {
            segments.take(now, frame.from, read, &mut intake, ledger);
        });
        intake.frames = receiver.frames() - before;
        self.take_notes(queue, now, &frame, &mut intake, ledger);
        if self.segments.taken(queue, now, &frame, &intake, ledger) {
            self.adjust(queue);
        }
        self.age(queue, now, ledger);
        self.count_repairs(queue, ledger);
        let came = self.receiver.urgent();
        let stats = queue.stats(ledger);
        stats.presence.chunks_in += 1;
        stats.urgent.frames_in = came.frames;
        stats.urgent.damaged = came.damaged;
        stats.urgent.resumed = came.resumed;
    }

    fn segments(&self) -> Option<&Segments> {
        Some(&self.segments)
    }

    fn segments_mut(&mut self) -> Option<&mut Segments> {
        Some(&mut self.segments)
    }
}
