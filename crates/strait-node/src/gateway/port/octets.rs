//! What leaves by an octet stream, a few octets at a time.

use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::node::TxMeta;
use strait_core::{ClassId, DropCause, Fate, Instant, NeighbourId, Neighbours, Room};
use strait_qos::{Head, Scheduler};

use super::super::headers::{GROWTH_OCTETS_MAX, Leaving};
use super::{Link, NOTE_CLASS, Port, Treatment, octets_on_line};

impl Port {
    pub(super) fn pull_octets(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let before = out.len();
        let mut class = None;
        while out.len() - before < room.octets {
            let at = room.starts.max(self.paths.first.burst.end());
            let Some(sent) =
                self.next_octets(now, at, room.octets - (out.len() - before), out, ledger)
            else {
                break;
            };
            class = class.or(Some(sent));
        }
        class.map(TxMeta::to_peer)
    }

    /// Appends octets of one segment, cutting it first if none is leaving. `at` is when the first
    /// of them leaves.
    fn next_octets(
        &mut self,
        now: Instant,
        at: Instant,
        room: usize,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<ClassId> {
        let Link::Octets(ends) = &self.link else {
            return None;
        };
        let class = match ends.0.leaving() {
            Some((class, _)) => self.pre_empt(now, at, ledger).unwrap_or(class),
            None => match self.head() {
                Some(head) => match self.note_first(at, head) {
                    Some(to) => self.cut_note(at, to, ledger)?,
                    None => {
                        self.cut_octets(now, at, head, ledger)?;
                        head.class
                    }
                },
                None => self.cut_note(at, self.note_to(Neighbours::ALL)?, ledger)?,
            },
        };
        let Link::Octets(ends) = &mut self.link else {
            return None;
        };
        let length = ends.0.pull(room, out);
        let ended = self.paths.first.burst.push(at, length as u64);
        if let Some(packet) = ends.0.finish(ended) {
            let fate = Fate::Forwarded {
                port: self.id,
                to: NeighbourId::PEER,
            };
            let bytes = ledger.close(ended, packet, fate);
            ledger.keep_spare(bytes);
        }
        Some(class)
    }

    /// Lets what is more urgent go before the rest of the segment that is leaving: a packet of the
    /// first rank at once, inside it; a packet of a better rank, or feedback, by cutting the
    /// segment short. Gives the class that goes now, if it is another.
    fn pre_empt(&mut self, now: Instant, at: Instant, ledger: &mut Ledger) -> Option<ClassId> {
        let Link::Octets(ends) = &self.link else {
            return None;
        };
        if !ends.0.takes_urgent(0) {
            return None;
        }
        let leaving = ends.0.leaving_stream();
        let head = self.head()?;
        let Treatment { rank, whole, .. } = *self.classes.get(head.class.index())?;
        if whole {
            self.begin_urgent(now, at, head, ledger)?;
            return Some(head.class);
        }
        let class = self.link.under_way(NeighbourId::PEER, leaving?)?.class;
        let better = rank < self.classes.get(class.index())?.rank;
        if (better || self.note_to(Neighbours::ALL).is_some())
            && let Link::Octets(ends) = &mut self.link
            && let Some((_, octets_left)) = ends.0.shorten()
        {
            self.paths
                .first
                .queue
                .set_under_way(class, NeighbourId::PEER, octets_left as u32);
        }
        None
    }

    /// To whom a note goes before the head packet: a hello before the packet begins, or feedback
    /// before the rest of one. That can't take it along any more, and without it the other end
    /// sends whole headers.
    fn note_first(&self, at: Instant, head: Head) -> Option<NeighbourId> {
        let Link::Octets(ends) = &self.link else {
            return None;
        };
        let stream = self.classes.get(head.class.index())?.stream;
        if !ends.0.takes_note() {
            return None;
        }
        if !ends.0.is_under_way(stream) {
            return self.headers.is_ahead(at, head.to).then_some(head.to);
        }
        self.note_to(Neighbours::ALL)
            .filter(|_| ends.0.has_urgent())
    }

    /// Begins an urgent frame with the head packet.
    fn begin_urgent(
        &mut self,
        now: Instant,
        at: Instant,
        head: Head,
        ledger: &mut Ledger,
    ) -> Option<()> {
        let Link::Octets(ends) = &self.link else {
            return None;
        };
        if !ends
            .0
            .takes_urgent(head.octets as usize + GROWTH_OCTETS_MAX)
        {
            return None;
        }
        let stream = self.classes.get(head.class.index())?.stream;
        let packet = self.take(now, head, usize::MAX, ledger)?;
        let stats = &mut ledger.stats_mut().ports[self.id.index()];
        let leaving = Leaving {
            stream,
            real_time: true,
            alone: true,
            half_sent: self.half_sent(head.to),
        };
        let carried = self.headers.carry(at, head.to, leaving, &packet, stats);
        let Link::Octets(ends) = &mut self.link else {
            return None;
        };
        let suspends = ends.0.leaving().is_some();
        let info = *packet.info();
        match ends.0.begin_urgent(at, packet, carried.as_deref()) {
            Ok(octets) => {
                stats.frames_out += 1;
                stats.urgent.count(octets as u32, suspends);
                self.paths.first.queue.charge(head.class, octets as u32);
                if let Some(flows) = &mut self.paths.first.flows {
                    flows.carried(&info, octets);
                }
                Some(())
            }
            // What is longer than any urgent frame was asked for before.
            Err(packet) => {
                ledger.drop(now, packet, DropCause::TooBig);
                None
            }
        }
    }

    /// Cuts a note as a segment of its own.
    fn cut_note(&mut self, at: Instant, to: NeighbourId, ledger: &mut Ledger) -> Option<ClassId> {
        let note = self.headers.note(at, to)?;
        let Link::Octets(ends) = &mut self.link else {
            return None;
        };
        ends.0.cut_note(at, &note)?;
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        Some(NOTE_CLASS)
    }

    fn cut_octets(
        &mut self,
        now: Instant,
        at: Instant,
        head: Head,
        ledger: &mut Ledger,
    ) -> Option<()> {
        let Treatment { stream, whole, .. } = *self.classes.get(head.class.index())?;
        let Link::Octets(ends) = &self.link else {
            return None;
        };
        if whole
            && ends
                .0
                .takes_urgent(head.octets as usize + GROWTH_OCTETS_MAX)
        {
            return self.begin_urgent(now, at, head, ledger);
        }
        let fresh = if ends.0.is_under_way(stream) {
            None
        } else {
            Some(self.take(now, head, usize::MAX, ledger)?)
        };
        let context = fresh
            .as_ref()
            .map(|packet| self.context_stream(packet, stream));
        let half_sent = fresh.as_ref().map_or(0, |_| self.half_sent(head.to));
        let Link::Octets(ends) = &mut self.link else {
            return None;
        };
        if let (Some(packet), Some(context)) = (fresh, context) {
            let stats = &mut ledger.stats_mut().ports[self.id.index()];
            let leaving = Leaving {
                stream: context,
                real_time: whole,
                alone: false,
                half_sent,
            };
            let carried = self.headers.carry(at, head.to, leaving, &packet, stats);
            if let Some(flows) = &mut self.paths.first.flows {
                flows.carried(packet.info(), octets_on_line(&packet, carried.as_deref()));
            }
            ends.0.begin(stream, packet, carried);
        }
        let progress = ends.0.cut(at, stream, whole)?;
        self.paths
            .first
            .queue
            .set_under_way(head.class, head.to, progress.octets_left as u32);
        self.paths
            .first
            .queue
            .charge(head.class, progress.octets as u32);
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        Some(())
    }
}
