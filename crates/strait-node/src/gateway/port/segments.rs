//! The common part of octet lines and frames: packets go in segments, by the agreement with each
//! neighbour, and notes between the ends beside them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::Instant;
use strait_core::fate::Ledger;
use strait_core::node::{Effect, Owner, Ticket, Want};
use strait_core::rate::LineRate;
use strait_core::{NeighbourId, Packet, PortId};
use strait_link::{FrameSender, LinkSettings, Refused, STREAMS, SegmentCheck};
use strait_qos::Policy;
use strait_wire::hash::hash64;
use strait_wire::repair::MARK;

use super::NOTE_CLASS;
use super::link::Frame;
use super::queue::{Queue, Treatment};
use crate::config::PortConfig;
use crate::gateway::headers::{Headers, Leaving};

/// How packets become segments at a port.
#[derive(Debug)]
#[repr(C)] // What each packet meets comes first.
pub(in crate::gateway) struct Segments {
    /// The longest piece of a packet, in octets, at the rate that was asked for last.
    longest: Option<(LineRate, usize)>,
    /// Segments may have numbers, if both ends have such.
    repairs: bool,
    pub(in crate::gateway) headers: Headers,
    config: Box<PortConfig>,
}

/// The results of a frame or some octets.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// Received frames; of an octet stream perhaps none has ended.
    pub(super) frames: u64,
    /// By why they were refused: segments.
    refused: [u64; 4],
    undecompressed: u64,
    /// There is something that can't be read, whatever it is.
    unread: bool,
    /// The notes about repairs.
    pub(super) notes: Vec<Vec<u8>>,
}

impl Intake {
    /// Why segments were refused, each.
    pub(super) fn refused(&self) -> impl Iterator<Item = (Refused, u64)> {
        Refused::ALL.into_iter().zip(self.refused)
    }

    pub(super) fn new(unread: bool) -> Self {
        Self {
            unread,
            ..Self::default()
        }
    }
}

/// How a sender cuts, and which segments a receiver accepts, with one neighbour.
type Cut = (LinkSettings, u8, Option<SegmentCheck>);

impl Segments {
    pub(super) fn new(id: PortId, config: &PortConfig, policy: &Policy, seed: u64) -> Self {
        let incarnation = hash64(seed, &[id.0]) as u32;
        let real_time = policy.classes().iter().map(Treatment::of);
        let real_time = real_time.filter(|it| it.whole).map(|it| 1 << it.stream);
        let real_time = real_time.fold(0, |streams, stream: u8| streams | stream);
        let neighbours = config.neighbours.len().max(1);
        Self {
            headers: Headers::new(config, neighbours, real_time, incarnation),
            config: Box::new(config.clone()),
            longest: None,
            repairs: config.repairs().is_some(),
        }
    }

    /// Whether a neighbour waits for a word.
    pub(super) fn owes_word(&self) -> bool {
        self.headers.owed(|_| true).is_some()
    }

    /// The room for a note between the ends, with the segment around it.
    pub(super) fn note_room(&self) -> usize {
        FrameSender::ROOM_MIN + self.headers.note_octets_max()
    }

    /// Room for a note to a neighbour.
    pub(super) fn wants_note(&self, to: NeighbourId) -> Option<Want> {
        Some(Want {
            class: NOTE_CLASS,
            octets: self.note_room() as u32,
            to,
        })
    }

    /// How to cut and check by a neighbour's rate and by the agreement with it.
    pub(super) fn cut(&self, queue: &Queue, to: usize) -> Cut {
        let common = queue.state.map(|state| state.tx_rate);
        let common = common.or_else(|| self.config.line_rate());
        let rate = queue.rates.get(to).copied().flatten().or(common);
        let settings = self.config.link_settings(rate);
        let agreed = self.headers.agreed(NeighbourId(to as u16));
        agreed.map_or((settings, 0, None), |agreed| {
            let settings = LinkSettings {
                short: agreed.short_sent,
                urgent: agreed.urgent_sent,
                ..settings
            };
            (settings, agreed.short_taken, agreed.urgent_taken)
        })
    }

    /// Whether segments with numbers are agreed with a neighbour: accepted ones, and sent ones.
    pub(super) fn repairs(&self, with: NeighbourId) -> (bool, bool) {
        let agreed = self.headers.agreed(with);
        agreed.map_or((false, false), |it| (it.repairs_taken, it.repairs_sent))
    }

    /// Octets of the longest piece of a packet at this rate.
    pub(super) fn longest_piece(&mut self, rate: LineRate) -> usize {
        let asked = self.longest.filter(|(asked, _)| *asked == rate);
        let (_, octets) = asked.unwrap_or_else(|| {
            (
                rate,
                self.config.link_settings(Some(rate)).segment_octets_max,
            )
        });
        self.longest = Some((rate, octets));
        octets
    }

    /// Takes one thing that a receiver has read: a whole packet is put by.
    pub(super) fn take(
        &mut self,
        now: Instant,
        from: NeighbourId,
        read: Result<&[u8], Refused>,
        intake: &mut Intake,
        ledger: &mut Ledger,
    ) {
        match read {
            Ok(carried) if self.repairs && carried.first() == Some(&MARK) => {
                intake.notes.push(carried.to_vec());
            }
            Ok(carried) => {
                let headers = &mut self.headers;
                let whole = headers.restore(now, from, carried, |packet| ledger.put_by(packet));
                intake.undecompressed += u64::from(!whole);
            }
            Err(why) => intake.refused[why as usize] += 1,
        }
    }

    /// A note about repairs can't be read.
    pub(super) fn unreadable(&mut self, now: Instant, from: NeighbourId, intake: &mut Intake) {
        intake.undecompressed += 1;
        self.headers.object(now, from);
    }

    /// Counts the results of a frame or some octets, and asks about unreadable ones. Says whether
    /// the agreement may have changed now.
    pub(super) fn taken(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        frame: &Frame<'_>,
        intake: &Intake,
        ledger: &mut Ledger,
    ) -> bool {
        let refused = |why: Refused| intake.refused[why as usize];
        if refused(Refused::Unagreed) > 0 {
            self.headers.object(now, frame.from);
        } else if intake.unread || intake.refused.iter().any(|count| *count > 0) {
            self.headers.wonder(now, frame.from);
        }
        let heard = self.headers.take_heard();
        let stats = queue.stats(ledger);
        stats.frames_in += intake.frames;
        stats.octets_in += frame.bytes.len() as u64;
        stats.damaged += refused(Refused::Damaged);
        stats.invalid += refused(Refused::Invalid);
        stats.incomplete += refused(Refused::Incomplete);
        stats.undecompressed += intake.undecompressed + refused(Refused::Unagreed);
        if heard {
            stats.agreement = self.headers.agreement();
            queue.mtu = self.headers.mtu(queue.mtu_max);
        }
        heard
    }

    /// The streams, a bit each, whose contexts belong to packets that are half sent.
    pub(super) fn half_sent<'a>(
        queue: &Queue,
        under_way: impl Fn(usize) -> Option<&'a Packet>,
    ) -> u32 {
        let halves = (0..STREAMS).filter_map(|stream| {
            let packet = under_way(stream)?;
            Some(1 << stream | 1 << queue.context_stream(packet, stream))
        });
        halves.fold(0, |all, half| all | half)
    }

    /// The replacement of a packet that is about to leave; the packet itself without an answer.
    pub(super) fn carry(
        &mut self,
        queue: &mut Queue,
        at: Instant,
        leaving: Option<Leaving>,
        packet: &Packet,
        ledger: &mut Ledger,
    ) -> Option<Vec<u8>> {
        let (headers, stats) = (&mut self.headers, queue.stats(ledger));
        let carried = leaving.and_then(|it| headers.carry(at, packet.to, it, packet, stats));
        if let Some(flows) = &mut queue.paths.to_mut(packet.to).flows {
            let octets = carried
                .as_deref()
                .map_or_else(|| packet.octets(), <[u8]>::len);
            flows.carried(packet.info(), octets + FrameSender::ROOM_MIN - 1);
        }
        carried
    }

    /// Asks for the memory of the neighbours, if storage has the key.
    pub(in crate::gateway) fn load(
        &mut self,
        id: PortId,
        is_stored: impl Fn(&[u8]) -> bool,
    ) -> Vec<Effect> {
        let owner = Owner::port(id);
        let memories = self.headers.memories();
        let memories = memories.filter(|memory| is_stored(memory.key()));
        let loads = memories.zip(0..);
        loads
            .map(|(memory, n)| memory.load(Ticket { owner, n }))
            .collect()
    }
}
