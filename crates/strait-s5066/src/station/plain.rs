//! A C_PDU that is sent without ARQ, in pieces for which receivers wait for a while.

use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use super::transmission::{EOT_UNIT, Space, half_seconds};
use super::{Identity, Offer};
use crate::arq::Done;
use crate::d_pdu::{Body, NON_ARQ_OVERHEAD, NonArq, Segment};

/// Half seconds that receivers wait for the rest of a C_PDU without ARQ that doesn't fit into the
/// transmission, beside three times its own time: ten minutes for others' turns in between.
const WINDOW: u16 = 1200;

/// A C_PDU that is sent without ARQ.
#[derive(Debug)]
pub(super) struct Outgoing<T> {
    /// Its number, and the end of the time in which its pieces go, once it has begun to leave.
    window: Option<(u16, Instant)>,
    octets: Vec<u8>,
    in_order: bool,
    offset: usize,
    copies: u32,
    /// None once it is given up.
    ticket: Option<T>,
    expedited: bool,
    began: Option<Instant>,
    sent: Option<Instant>,
    left: Instant,
}

impl<T> Outgoing<T> {
    pub(super) fn new(offer: Offer<T>) -> Self {
        Self {
            window: None,
            octets: offer.c_pdu,
            in_order: offer.in_order,
            offset: 0,
            copies: offer.copies.max(1),
            ticket: Some(offer.ticket),
            expedited: offer.expedited,
            began: None,
            sent: None,
            left: Instant::ZERO,
        }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.began.is_some()
    }

    /// Whether all of it has left once.
    pub(super) const fn is_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether all of it has left as often as it was to.
    pub(super) const fn is_over(&self) -> bool {
        self.copies == 0
    }

    /// Whether a transmission heard then comes too late for the time of its pieces.
    pub(super) fn is_late(&self, heard: Instant) -> bool {
        self.window.is_some_and(|(_, until)| until <= heard)
    }

    /// Whose it is, if it wasn't given up.
    pub(super) const fn ticket(&self) -> Option<&T> {
        self.ticket.as_ref()
    }

    /// It is over, and free from now on; `None` if it was free.
    pub(super) fn over(&mut self, delivered: bool) -> Option<Done<T>> {
        Some(Done {
            ticket: self.ticket.take()?,
            acked: delivered,
            began: self.began.unwrap_or(self.left),
            sent: self.sent.unwrap_or(self.left),
            left: self.left,
        })
    }

    /// Octets of all its copies, in segments of `segment` octets.
    pub(super) fn all_octets(&self, segment: usize, field: usize) -> usize {
        let pieces = self.octets.len().div_ceil(segment).max(1);
        let once = self.octets.len() + pieces * (NON_ARQ_OVERHEAD + field);
        once * self.copies as usize
    }

    /// Writes the next piece, of at most `segment_max` octets.
    pub(super) fn write(
        &mut self,
        space: &mut Space<'_>,
        segment_max: usize,
        identity: &mut Identity,
    ) -> bool {
        let around = NON_ARQ_OVERHEAD + space.field();
        let room = space.octets().saturating_sub(around);
        let left = self.octets.len() - self.offset;
        let octets = left.min(segment_max).min(room);
        if octets == 0 && left > 0 || octets < left && octets < segment_max.min(16) {
            return false;
        }
        let ends = space.ends(around);
        let end = self.offset + octets;
        let (c_pdu, until) = self.window(space, octets, around, identity);
        let piece = NonArq {
            expedited: self.expedited,
            c_pdu,
            in_order: self.in_order,
            group: space.to().is_group(),
            size: self.octets.len() as u16,
            offset: self.offset as u16,
            window: half_seconds(until.since(space.starts())),
            segment: Segment::whole(&self.octets[self.offset..end]),
        };
        space.put(Body::NonArq(piece));
        let starts = space.starts();
        self.began.get_or_insert(starts);
        self.left = ends(octets);
        self.offset = end;
        if end == self.octets.len() {
            self.sent.get_or_insert(self.left);
            self.copies = self.copies.saturating_sub(1);
            self.offset = 0;
        }
        true
    }

    /// Its number, and when the time for its pieces ends, the next of which has so many octets.
    fn window(
        &mut self,
        space: &Space<'_>,
        octets: usize,
        around: usize,
        identity: &mut Identity,
    ) -> (u16, Instant) {
        let (left, whole) = (self.octets.len() - self.offset, self.octets.len());
        let around_pieces = |of: usize| of + of.div_ceil(octets.max(1)).max(1) * around;
        let again = (self.copies as usize).saturating_sub(1);
        let all = around_pieces(left) + again * around_pieces(whole);
        let alone = octets == whole && self.copies <= 1 && !self.in_order;
        *self.window.get_or_insert_with(|| {
            let window = match alone {
                // There is no wait for more of it.
                true => 1,
                false => window(space, all),
            };
            let until = space.starts() + EOT_UNIT * u32::from(window);
            let free = until + space.block();
            let number = identity.number_c_pdu(self.expedited, space.starts(), free);
            (number, until)
        })
    }
}

/// Half seconds that receivers wait for a C_PDU of so many octets with the overhead of its pieces.
///
/// If all of it is sure to fit into the transmission, to the end of that and a block, as data that
/// begins the last one is heard with its end. Otherwise long enough for others' turns in between.
fn window(space: &Space<'_>, all: usize) -> u16 {
    let rest: Duration = space.time_for(all);
    // Where a medium takes a block at a time, pieces are cut shorter than this one.
    let fits = all <= space.octets() || half_seconds(rest * 2) <= u16::from(space.eot());
    if fits {
        u16::from(space.eot()) + 1 + half_seconds(space.block())
    } else {
        half_seconds(rest).saturating_mul(3).saturating_add(WINDOW)
    }
}
