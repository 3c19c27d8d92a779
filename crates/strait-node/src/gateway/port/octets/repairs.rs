//! Losses of an octet stream are repeated, except calls.

use strait_core::fate::Ledger;
use strait_core::node::Want;
use strait_core::stats::RepairStats;
use strait_core::{
    ClassId, DropCause, Duration, Fate, Instant, NeighbourId, Packet, Wake, WakeReason,
};
use strait_link::Refused;
use strait_link::repair::{Outcome, Repairs};
use strait_qos::{Head, Policy, Scheduler};
use strait_wire::repair::NOTE_OCTETS_MAX;

use super::Octets;
use crate::config::PortConfig;
use crate::gateway::port::NOTE_CLASS;
use crate::gateway::port::link::Frame;
use crate::gateway::port::queue::{Queue, Treatment};
use crate::gateway::port::segments::Intake;

/// Repairs of a port that may have them.
#[derive(Debug)]
pub(super) struct Mending {
    pub(super) repairs: Repairs,
    /// The streams whose packets are repaired, a bit each: all without real-time packets.
    streams: u8,
    /// The life of the link that is mended: another one after each start of either end.
    life: u32,
    sends: bool,
}

/// The time of an octet before any rate is known.
const OCTET_UNKNOWN: Duration = Duration::from_millis(1);

impl Mending {
    pub(super) fn new(config: &PortConfig, policy: &Policy) -> Option<Self> {
        let when = config.repairs()?;
        let real_time = policy.classes().iter().map(Treatment::of);
        let real_time = real_time.filter(|it| it.whole);
        let real_time = real_time.fold(0, |streams, it| streams | 1 << it.stream);
        let octet = config.line_rate().map(|rate| rate.time_for(1));
        Some(Self {
            repairs: Repairs::new(when, octet.unwrap_or(OCTET_UNKNOWN)),
            streams: !real_time,
            life: 0,
            sends: false,
        })
    }
}

impl Octets {
    /// Follows the present agreement, and begins anew if either end has.
    pub(super) fn adjust_repairs(&mut self, queue: &Queue) {
        let Some(mending) = &mut self.mending else {
            return;
        };
        let peer = NeighbourId::PEER;
        let life = self.segments.headers.life(peer);
        if core::mem::replace(&mut mending.life, life) != life {
            mending
                .repairs
                .restart(&mut self.sender, &mut self.receiver);
        }
        let (taken, sent) = self.segments.repairs(peer);
        mending.repairs.agree(taken, sent);
        mending.sends = sent;
        self.receiver.set_numbered(taken);
        if queue.is_up() {
            mending.repairs.set_octet(queue.rate_to(peer).time_for(1));
        }
    }

    /// Whether the packet under way on a stream, or else the next one, is repaired.
    pub(super) fn goes_numbered(&self, stream: usize) -> bool {
        self.mending.as_ref().is_some_and(|mending| {
            let repaired = mending.streams >> stream & 1 == 1;
            let numbers = mending.sends && mending.repairs.numbers();
            repaired && self.sender.goes_numbered(stream, numbers)
        })
    }

    /// Whether a stream has to wait until the other end reports more.
    pub(super) fn is_shut(&self, stream: usize) -> bool {
        self.goes_numbered(stream) && !self.sender.has_window()
    }

    /// The packets of a class that are repeated before anything new of it.
    pub(super) fn again(&self, class: ClassId) -> Option<usize> {
        let mending = self.mending.as_ref()?;
        self.sender.again(class).filter(|_| mending.sends)
    }

    pub(super) fn repeat(&mut self, at: Instant, class: ClassId) -> Option<usize> {
        self.again(class)?;
        self.sender.repeat(at, class)
    }

    /// Tells the scheduler which packets of a class continue: so much of the packet under way, and
    /// repetitions.
    pub(super) fn set_under_way(&self, queue: &mut Queue, class: ClassId, octets_left: usize) {
        let octets = octets_left + self.again(class).unwrap_or(0);
        let tree = &mut queue.paths.first.queue;
        tree.set_under_way(class, NeighbourId::PEER, octets as u32);
    }

    /// The same of every class.
    fn sync(&self, queue: &mut Queue) {
        for number in 0..queue.classes.len() {
            let class = ClassId(number as u8);
            let stream = queue.classes[number].stream;
            let own = |packet: &&Packet| packet.class == class;
            let under_way = self.sender.under_way(stream).filter(own);
            let left = under_way.map_or(0, |_| self.sender.octets_left(stream));
            self.set_under_way(queue, class, left);
        }
    }

    /// Whether a note about repairs is to be sent before the head packet.
    pub(super) fn tells_first(&self, queue: &Queue, head: Head) -> bool {
        let whole = queue.classes.get(head.class.index());
        !whole.is_none_or(|class| class.whole) && self.tells()
    }

    fn tells(&self) -> bool {
        self.mending.as_ref().is_some_and(|mending| {
            self.sender.takes_note() && mending.repairs.is_due(&self.sender, &self.receiver)
        })
    }

    /// Room for a note about repairs, if nothing else is to be sent.
    pub(super) fn wants_tell(&self) -> Option<Want> {
        let mending = self.mending.as_ref()?;
        let asks = mending.repairs.may_ask(&self.sender) && self.sender.takes_note();
        (asks || self.tells()).then_some(Want {
            class: NOTE_CLASS,
            octets: NOTE_OCTETS_MAX as u32,
            to: NeighbourId::PEER,
        })
    }

    /// Cuts a note about repairs, if one is due.
    pub(super) fn tell(
        &mut self,
        queue: &Queue,
        at: Instant,
        ledger: &mut Ledger,
    ) -> Option<ClassId> {
        let mending = self.mending.as_mut().filter(|_| self.sender.takes_note())?;
        let note = mending.repairs.note(&self.sender, &self.receiver)?;
        self.sender.cut_note(at, &note)?;
        queue.stats(ledger).frames_out += 1;
        Some(NOTE_CLASS)
    }

    /// When a note about repairs is due.
    pub(super) fn repairs_wake(&self) -> Option<Wake> {
        let mending = self.mending.as_ref()?;
        let at = mending.repairs.wake(&self.sender, &self.receiver)?;
        let why = WakeReason::Retransmit;
        Some(Wake { at, why })
    }

    /// Keeps nothing that is too old, or that a new life of either end has given up.
    pub(super) fn age(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) {
        self.sender.age(now);
        if self.sender.has_done() {
            self.end(queue, now, ledger);
            self.sync(queue);
        }
    }

    /// Takes in notes about repairs, and whether there are errors.
    pub(super) fn take_notes(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        frame: &Frame<'_>,
        intake: &mut Intake,
        ledger: &mut Ledger,
    ) {
        let Self {
            sender,
            receiver,
            segments,
            mending: Some(mending),
        } = self
        else {
            return;
        };
        let repairs = &mut mending.repairs;
        let notes = core::mem::take(&mut intake.notes);
        for note in &notes {
            let is_read = repairs.hear(note, sender, receiver, |read| {
                segments.take(now, frame.from, read, intake, ledger);
            });
            if !is_read {
                segments.unreadable(now, frame.from, intake);
            }
        }
        repairs.lose_patience(receiver, |read| {
            segments.take(now, frame.from, read, intake, ledger);
        });
        repairs.came(frame.bytes.len(), receiver);
        let errors = intake.refused().filter(|(_, count)| *count > 0);
        let mut asks = false;
        errors.for_each(|(why, _): (Refused, u64)| asks |= repairs.refused(why));
        if asks {
            segments.headers.ask(frame.from);
        }
        if !notes.is_empty() {
            self.end(queue, now, ledger);
            self.sync(queue);
        }
    }

    /// Ends the stays of packets that are kept no longer.
    fn end(&mut self, queue: &Queue, now: Instant, ledger: &mut Ledger) {
        let (port, to) = (queue.id, NeighbourId::PEER);
        for (packet, ended, outcome) in self.sender.done() {
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
        let Some(mending) = &self.mending else {
            return;
        };
        let repairs = &mending.repairs;
        if !repairs.wishes() && !repairs.numbers() && self.sender.held() == 0 {
            let stats = &mut queue.stats(ledger).repairs;
            (stats.sends, stats.wishes) = (false, false);
            return;
        }
        let (window, window_octets) = self.sender.window_counts();
        let (row, held_octets) = self.receiver.row_counts();
        let notes = repairs.counts();
        queue.stats(ledger).repairs = RepairStats {
            sends: repairs.numbers(),
            wishes: repairs.wishes(),
            repeated: window.repeated,
            repeated_octets: window.repeated_octets,
            segments_in: row.segments,
            duplicates: row.duplicates,
            refused: row.refused,
            skipped: row.skipped,
            notes: notes.sent,
            notes_octets: notes.octets,
            forged: window.forged,
            window_octets: window_octets as u64,
            held_octets: held_octets as u64,
        };
    }
}
