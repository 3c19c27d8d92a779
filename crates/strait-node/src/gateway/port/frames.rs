//! Frames to each neighbour: each takes the next piece of the best packet.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::fate::Ledger;
use strait_core::node::{PortState, TxMeta, Want};
use strait_core::rate::LineRate;
use strait_core::{
    ClassId, DropCause, Fate, Instant, NeighbourId, Neighbours, Packet, PortId, Room,
};
use strait_link::{FrameSender, Receiver};
use strait_qos::{Head, Policy, Scheduler};

use super::NOTE_CLASS;
use super::gaps::Fit;
use super::link::{Frame, Link};
use super::queue::{Queue, Treatment, want};
use super::segments::{Intake, Segments};
use crate::config::PortConfig;
use crate::gateway::headers::Leaving;

/// Frames to each neighbour. A plain packet meets its beginning, as long as a line of the
/// processor's cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Frames {
    others: Box<[(FrameSender, Receiver)]>,
    /// The frames for all.
    to_all: FrameSender,
    frame_octets_max: usize,
    segments: Segments,
}

impl Frames {
    pub(super) fn new(id: PortId, config: &PortConfig, policy: &Policy, seed: u64) -> Self {
        let settings = config.link_settings(config.line_rate());
        let other = |_| (FrameSender::new(settings), Receiver::new(settings));
        Self {
            to_all: FrameSender::new(settings),
            others: (0..config.neighbours.len().max(1)).map(other).collect(),
            frame_octets_max: config.frame_octets_max(),
            segments: Segments::new(id, config, policy, seed),
        }
    }

    /// Cuts and checks by the present state.
    fn adjust(&mut self, queue: &Queue) {
        for (number, (sender, receiver)) in self.others.iter_mut().enumerate() {
            let (settings, short, urgent) = self.segments.cut(queue, number);
            sender.set_settings(settings);
            receiver.set_checks(short, urgent);
        }
    }

    pub(super) fn sender(&self, to: NeighbourId) -> Option<&FrameSender> {
        Some(&self.others.get(to.index())?.0)
    }

    fn sender_mut(&mut self, to: NeighbourId) -> Option<&mut FrameSender> {
        Some(&mut self.others.get_mut(to.index())?.0)
    }

    /// The one of some neighbours that a note may go to now.
    fn note_to(&self, queue: &Queue, some: Neighbours) -> Option<NeighbourId> {
        let there = |to| some.contains(to) && !queue.is_away(to);
        let to = self.segments.headers.owed(there)?;
        self.sender(to)?.takes_note().then_some(to)
    }

    /// The next piece of the packet that goes first by a way.
    fn pull_piece(
        &mut self,
        queue: &mut Queue,
        (now, starts): (Instant, Instant),
        head: Head,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        if head.to == NeighbourId::ALL {
            return self.pull_for_all(queue, (now, starts), head, octets_max, out, ledger);
        }
        let Treatment { stream, whole, .. } = *queue.classes.get(head.class.index())?;
        let (octets_max, fit) = if whole {
            (octets_max, Fit::Free)
        } else {
            self.fit(queue, starts, head.to, octets_max)?
        };
        if self.sender(head.to)?.under_way(stream).is_none() {
            if self.segments.headers.is_ahead(starts, head.to)
                && let Some(meta) = self.pull_note(queue, starts, head.to, octets_max, out, ledger)
            {
                return Some(meta);
            }
            let packet = queue.take(self, now, head, usize::MAX, ledger)?;
            self.begin(queue, starts, (stream, whole), packet, ledger)?;
        }
        let sender = self.sender_mut(head.to)?;
        let progress = sender.cut(starts, stream, whole, octets_max, out)?;
        let left = progress.octets_left as u32;
        let tree = &mut queue.paths.to_mut(head.to).queue;
        tree.set_under_way(head.class, head.to, left);
        queue.charge(head.class, head.to, progress.octets as u32);
        let ended = queue.leaves(starts, head.to, progress.octets);
        let (port, to) = (queue.id, head.to);
        if let Some(packet) = sender.finish(ended, stream) {
            let bytes = ledger.close(ended, packet, Fate::Forwarded { port, to });
            ledger.keep_spare(bytes);
        }
        queue.stats(ledger).frames_out += 1;
        if left > 0 {
            fit.count(queue, ledger);
        }
        self.plan_rest(queue, ended, head.to, ledger);
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(head.class)
        })
    }

    /// A packet for all: whole, and as it is, since nothing is agreed with all of them.
    fn pull_for_all(
        &mut self,
        queue: &mut Queue,
        (now, starts): (Instant, Instant),
        head: Head,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let most = octets_max.checked_sub(FrameSender::ROOM_MIN)? + 1;
        let mut packet = queue.take(self, now, head, most, ledger)?;
        packet.enter(starts, DelayPart::Line);
        let octets = self.to_all.cut_note(packet.bytes(), out)?;
        let (port, to) = (queue.id, head.to);
        queue.charge(head.class, to, octets as u32);
        let ended = queue.leaves(starts, to, octets);
        let bytes = ledger.close(ended, packet, Fate::Forwarded { port, to });
        ledger.keep_spare(bytes);
        queue.stats(ledger).frames_out += 1;
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(head.class)
        })
    }

    /// Begins a packet on a stream.
    fn begin(
        &mut self,
        queue: &mut Queue,
        starts: Instant,
        (stream, whole): (usize, bool),
        packet: Packet,
        ledger: &mut Ledger,
    ) -> Option<()> {
        let (sender, _) = self.others.get_mut(packet.to.index())?;
        let minds = !self.segments.headers.is_plain();
        let leaving = minds.then(|| Leaving {
            stream: queue.context_stream(&packet, stream),
            real_time: whole,
            alone: whole && queue.calls.foresees,
            half_sent: Segments::half_sent(queue, |stream| sender.under_way(stream)),
        });
        let segments = &mut self.segments;
        let carried = segments.carry(queue, starts, leaving, &packet, ledger);
        sender.begin(stream, packet, carried);
        Some(())
    }

    /// Sends a note in a frame of its own.
    fn pull_note(
        &mut self,
        queue: &mut Queue,
        starts: Instant,
        to: NeighbourId,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        if octets_max < self.segments.note_room() {
            return None;
        }
        let note = self.segments.headers.note(starts, to)?;
        let octets = self.sender_mut(to)?.cut_note(&note, out)?;
        queue.leaves(starts, to, octets);
        queue.stats(ledger).frames_out += 1;
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(NOTE_CLASS)
        })
    }
}

impl Link for Frames {
    fn neighbours(&self) -> usize {
        self.others.len()
    }

    fn held(&self) -> usize {
        self.others.iter().map(|(sender, _)| sender.held()).sum()
    }

    fn abandon(&mut self, _: Instant) -> Vec<Packet> {
        let senders = self.others.iter_mut();
        senders.flat_map(|(sender, _)| sender.abandon()).collect()
    }

    fn is_at_rest(&self) -> bool {
        true
    }

    fn set_up(&mut self, queue: &mut Queue, _: Instant, _: PortState) {
        self.adjust(queue);
    }

    fn set_down(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) {
        self.segments.headers.reset();
        queue.abandon(self, now, DropCause::PortDown, ledger);
        let receivers = self.others.iter_mut();
        receivers.for_each(|(_, receiver)| receiver.reset());
    }

    fn set_neighbour(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        to: NeighbourId,
        there: bool,
        ledger: &mut Ledger,
    ) {
        if there {
            return;
        }
        self.segments.headers.reset_one(to);
        if let Some((sender, receiver)) = self.others.get_mut(to.index()) {
            let tree = &mut queue.paths.to_mut(to).queue;
            sender.abandon().for_each(|packet: Packet| {
                tree.set_under_way(packet.class, to, 0);
                ledger.drop(now, packet, DropCause::PortDown);
            });
            receiver.reset();
        }
        self.adjust(queue);
    }

    fn set_rate(&mut self, queue: &mut Queue, to: NeighbourId, rate: LineRate) {
        queue.set_rate(to, rate);
        self.adjust(queue);
    }

    fn sends_to_all(&self) -> bool {
        self.others.len() > 1
    }

    fn enqueue(&mut self, queue: &mut Queue, now: Instant, packet: Packet, ledger: &mut Ledger) {
        let most = self.frame_octets_max - (FrameSender::ROOM_MIN - 1);
        if packet.to == NeighbourId::ALL && packet.octets() > most {
            return ledger.drop(now, packet, DropCause::TooBig);
        }
        queue.enqueue(self, now, packet, ledger);
    }

    fn eligible(&self, _: &Queue, to: NeighbourId, class: ClassId, treatment: &Treatment) -> bool {
        if to == NeighbourId::ALL {
            // It goes on the first stream, and would displace any other packet there.
            return self
                .others
                .iter()
                .all(|(sender, _)| !sender.is_under_way(0));
        }
        // Classes that share a stream have no two packets under way.
        let leaving = self
            .sender(to)
            .and_then(|it| it.under_way(treatment.stream));
        leaving.is_none_or(|packet| packet.class == class)
    }

    fn queued(&mut self, queue: &mut Queue, now: Instant, to: NeighbourId, ledger: &mut Ledger) {
        let at = now.max(queue.paths.to(to).burst.end());
        self.plan_rest(queue, at, to, ledger);
    }

    fn any_leaving(&self, to: NeighbourId, stream: usize, such: &dyn Fn(&Packet) -> bool) -> bool {
        let leaving = self.sender(to).and_then(|it| it.under_way(stream));
        leaving.is_some_and(such)
    }

    fn is_congested(&self, queue: &Queue, to: NeighbourId) -> bool {
        if !queue.paths.are_apart() {
            return self.held() > 0 || queue.waiting() > 0;
        }
        let under_way = self.sender(to).is_some_and(|sender| sender.held() > 0);
        under_way || queue.paths.to(to).queue.total().packets > 0
    }

    fn longest_piece(&mut self, _: &Queue, rate: LineRate) -> usize {
        self.segments.longest_piece(rate)
    }

    fn wants(&self, queue: &Queue) -> Option<Want> {
        let note = || {
            self.segments
                .wants_note(self.note_to(queue, Neighbours::ALL)?)
        };
        queue.head(self).map(want).or_else(note)
    }

    fn pull(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let octets_max = room.octets.min(self.frame_octets_max);
        if octets_max < FrameSender::ROOM_MIN {
            return None;
        }
        let mut some = room.to;
        while let Some(head) = queue.head_to(self, some) {
            let starts = queue.paths.starts(room.starts, head.to);
            let meta = self.pull_piece(queue, (now, starts), head, octets_max, out, ledger);
            if meta.is_some() {
                queue.paths.had_turn(head.to);
                return meta;
            }
            // The waits of one way don't concern others.
            if !queue.paths.are_apart() {
                return None;
            }
            some = some.without(head.to);
        }
        let to = self.note_to(queue, some)?;
        let starts = queue.paths.starts(room.starts, to);
        self.pull_note(queue, starts, to, octets_max, out, ledger)
    }

    fn hear(&mut self, queue: &mut Queue, now: Instant, frame: Frame<'_>, ledger: &mut Ledger) {
        let Self {
            others, segments, ..
        } = self;
        let mut intake = Intake::new(false);
        intake.frames = 1;
        match others.get_mut(frame.from.index()) {
            Some((_, receiver)) => receiver.feed_frame(frame.bytes, |read| {
                segments.take(now, frame.from, read, &mut intake, ledger);
            }),
            None => queue.stats(ledger).strangers += 1,
        }
        if segments.taken(queue, now, &frame, &intake, ledger) {
            self.adjust(queue);
        }
    }

    fn segments(&self) -> Option<&Segments> {
        Some(&self.segments)
    }

    fn segments_mut(&mut self) -> Option<&mut Segments> {
        Some(&mut self.segments)
    }
}
