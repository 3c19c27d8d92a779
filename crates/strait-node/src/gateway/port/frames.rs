//! A port with frames: each takes the next piece of the best packet.

use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::node::TxMeta;
use strait_core::{Fate, Instant, NeighbourId, Neighbours, Room};
use strait_link::FrameSender;
use strait_qos::{Head, Scheduler};

use super::gaps::Fit;
use super::{Link, NOTE_CLASS, Port, Treatment, octets_on_line};
use crate::gateway::headers::Leaving;

impl Port {
    pub(super) fn pull_frame(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let Link::Frames {
            frame_octets_max, ..
        } = self.link
        else {
            return None;
        };
        let octets_max = room.octets.min(frame_octets_max);
        if octets_max < FrameSender::ROOM_MIN {
            return None;
        }
        let mut some = room.to;
        while let Some(head) = self.head_to(some) {
            let starts = self.paths.starts(room.starts, head.to);
            let meta = self.pull_piece((now, starts), head, octets_max, out, ledger);
            if meta.is_some() {
                self.paths.had_turn(head.to);
                return meta;
            }
            // What its way has to wait for is nothing to others.
            if !self.paths.are_apart() {
                return None;
            }
            some = some.without(head.to);
        }
        let to = self.note_to(some)?;
        let starts = self.paths.starts(room.starts, to);
        self.pull_note(starts, to, octets_max, out, ledger)
    }

    /// The next piece of the packet that goes first by a way.
    fn pull_piece(
        &mut self,
        (now, starts): (Instant, Instant),
        head: Head,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let Treatment { stream, whole, .. } = *self.classes.get(head.class.index())?;
        let (octets_max, fit) = if whole {
            (octets_max, Fit::Free)
        } else {
            self.fit(starts, head.to, octets_max)?
        };
        let begins = self.link.under_way(head.to, stream).is_none();
        if begins
            && self.headers.is_ahead(starts, head.to)
            && let Some(meta) = self.pull_note(starts, head.to, octets_max, out, ledger)
        {
            return Some(meta);
        }
        let fresh = if begins {
            Some(self.take(now, head, usize::MAX, ledger)?)
        } else {
            None
        };
        let leaving = fresh.as_ref().filter(|_| !self.headers.is_plain());
        let leaving = leaving.map(|packet| Leaving {
            stream: self.context_stream(packet, stream),
            real_time: whole,
            alone: whole && self.foresees,
            half_sent: self.half_sent(head.to),
        });
        let Link::Frames { neighbours, .. } = &mut self.link else {
            return None;
        };
        let (sender, _) = neighbours.get_mut(head.to.index())?;
        if let Some(packet) = fresh {
            let stats = &mut ledger.stats_mut().ports[self.id.index()];
            let headers = &mut self.headers;
            let carried = leaving.and_then(|it| headers.carry(starts, head.to, it, &packet, stats));
            if let Some(flows) = &mut self.paths.to_mut(head.to).flows {
                flows.carried(packet.info(), octets_on_line(&packet, carried.as_deref()));
            }
            sender.begin(stream, packet, carried);
        }
        let progress = sender.cut(starts, stream, whole, octets_max, out)?;
        self.paths.to_mut(head.to).queue.set_under_way(
            head.class,
            head.to,
            progress.octets_left as u32,
        );
        self.charge(head.class, head.to, progress.octets as u32);
        let ended = self.leaves(starts, head.to, progress.octets);
        let Link::Frames { neighbours, .. } = &mut self.link else {
            return None;
        };
        let (sender, _) = neighbours.get_mut(head.to.index())?;
        if let Some(packet) = sender.finish(ended, stream) {
            let fate = Fate::Forwarded {
                port: self.id,
                to: head.to,
            };
            let bytes = ledger.close(ended, packet, fate);
            ledger.keep_spare(bytes);
        }
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        if progress.octets_left > 0 {
            self.count_fit(fit, ledger);
        }
        self.plan_rest(ended, head.to, ledger);
        Some(TxMeta {
            to: head.to,
            ..TxMeta::to_peer(head.class)
        })
    }

    /// The one of some neighbours that a note may go to now.
    pub(super) fn note_to(&self, some: Neighbours) -> Option<NeighbourId> {
        let there = |to| some.contains(to) && !self.is_away(to);
        let to = self.headers.owed(there)?;
        let takes = match &self.link {
            Link::Host(_) | Link::Hops(_) | Link::Hf(_) | Link::Client(_) => false,
            Link::Octets(ends) => ends.0.takes_note(),
            Link::Frames { neighbours, .. } => neighbours.get(to.index())?.0.takes_note(),
        };
        takes.then_some(to)
    }

    /// Sends a note in a frame of its own.
    fn pull_note(
        &mut self,
        starts: Instant,
        to: NeighbourId,
        octets_max: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        if octets_max < self.note_room() {
            return None;
        }
        let note = self.headers.note(starts, to)?;
        let Link::Frames { neighbours, .. } = &mut self.link else {
            return None;
        };
        let octets = neighbours.get_mut(to.index())?.0.cut_note(&note, out)?;
        self.leaves(starts, to, octets);
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(NOTE_CLASS)
        })
    }
}
