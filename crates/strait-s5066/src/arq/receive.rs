//! The receiving end.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Numbering, OutOfSync};
use crate::d_pdu::Data;

/// Octets of a C_PDU that are reassembled, at most: the longest IP packet and its overhead.
const C_PDU_OCTETS_MAX: usize = 65_535 + crate::s_pdu::AROUND_OCTETS_MAX;

/// Frames of a C_PDU that are kept below the window, at most: 64 KiB in segments of 16 octets.
const C_PDU_FRAMES_MAX: usize = 4096;

#[derive(Debug)]
enum Slot {
    Missing,
    Held {
        start: bool,
        end: bool,
        octets: Vec<u8>,
    },
    /// Handed on, or given up.
    Gone,
}

/// Puts C_PDUs together from frames that come in any order.
#[derive(Debug)]
pub struct Receiver {
    numbering: Numbering,
    /// The number of the first slot.
    base: u16,
    slots: VecDeque<Slot>,
    /// How many slots lie below the lower window edge.
    below: usize,
    whole: VecDeque<Vec<u8>>,
    /// C_PDUs that were too long, or had no beginning or end.
    broken: u64,
}

impl Receiver {
    /// An end that has received nothing.
    #[must_use]
    pub const fn new(numbering: Numbering) -> Self {
        Self {
            numbering,
            base: 0,
            slots: VecDeque::new(),
            below: 0,
            whole: VecDeque::new(),
            broken: 0,
        }
    }

    /// The lowest number not received.
    #[must_use]
    pub const fn lower(&self) -> u16 {
        self.numbering.add(self.base, self.below as u32)
    }

    /// Accepts the other end's statement of the lowest number. Complete data below it was
    /// acknowledged, and is delivered; the other end sends the rest again.
    pub fn set_lower(&mut self, lower: u16) {
        let lower = lower & self.numbering.mask;
        let below = self.numbering.ahead(self.base, lower) as usize;
        if below <= self.slots.len() {
            self.hand_on_below(below);
        }
        self.begin_at(lower);
    }

    /// The other end sends none behind this one: received ones are foreign. Whether the number is
    /// at the lower edge or above it, like that of a missing last frame.
    pub(super) fn end_at(&mut self, number: u16) -> bool {
        let ahead = self.numbering.ahead(self.lower(), number);
        let missing = ahead < self.numbering.receive_window();
        if missing {
            self.slots.truncate(self.below + ahead as usize + 1);
        }
        missing
    }

    /// Forgets all frames; `lower` is the next.
    fn begin_at(&mut self, lower: u16) {
        self.slots.clear();
        self.below = 0;
        self.base = lower;
    }

    /// Delivers the complete C_PDUs of so many slots, in order.
    fn hand_on_below(&mut self, slots: usize) {
        for place in 0..slots {
            let starts = matches!(self.slots[place], Slot::Held { start: true, .. });
            let past = starts.then(|| self.end_of(place)).flatten();
            if let Some(past) = past.filter(|past| *past <= slots) {
                self.hand_on(place, past);
            }
        }
    }

    /// C_PDUs given up.
    #[must_use]
    pub const fn broken(&self) -> u64 {
        self.broken
    }

    /// Frames above the lower edge, up to the highest that was received.
    fn above(&self) -> usize {
        self.slots.len() - self.below
    }

    /// Makes the sync tests of the destination (C.6.3.2.1), by a frame's header alone.
    ///
    /// # Errors
    /// If the frame's number fails one.
    pub fn check(&self, data: &Data<'_>) -> Result<(), OutOfSync> {
        let numbering = self.numbering;
        let window = numbering.receive_window();
        let number = data.number & numbering.mask;
        let ahead = numbering.ahead(self.lower(), number);
        let highest = self.above() as u32;
        let in_sync = if ahead >= window {
            // Below the window it can only be a repeat of a frame that the sender still held, and a
            // sender's upper edge isn't below the highest received.
            let behind = numbering.ahead(number, self.lower());
            behind + highest <= window && (!data.upper || behind + highest <= 1)
        } else {
            !(data.upper && ahead + 1 < highest || data.lower && ahead > 0)
        };
        in_sync.then_some(()).ok_or(OutOfSync)
    }

    /// Takes a frame whose segment is right, or that gives its C_PDU up.
    ///
    /// # Errors
    /// If the frame's number fails a sync test.
    pub fn take(&mut self, data: &Data<'_>) -> Result<(), OutOfSync> {
        self.check(data)?;
        let number = data.number & self.numbering.mask;
        let ahead = self.numbering.ahead(self.lower(), number);
        if ahead >= self.numbering.receive_window() {
            return Ok(());
        }
        let place = self.below + ahead as usize;
        while self.slots.len() <= place {
            self.slots.push_back(Slot::Missing);
        }
        if !matches!(self.slots[place], Slot::Missing) {
            return Ok(());
        }
        self.slots[place] = if data.dropped {
            Slot::Gone
        } else {
            Slot::Held {
                start: data.start,
                end: data.end,
                octets: data.segment.octets.into(),
            }
        };
        self.advance();
        if !data.in_order && !data.dropped {
            self.complete(place);
        }
        self.tidy();
        Ok(())
    }

    /// Begins anew with `numbering`. Complete data that waits for earlier data is delivered
    /// nevertheless, in order: it may have been acknowledged, and its sender doesn't send it again.
    pub fn restart(&mut self, numbering: Numbering) {
        self.hand_on_below(self.slots.len());
        self.numbering = numbering;
        self.begin_at(0);
    }

    /// The next C_PDU that is whole.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        self.whole.pop_front()
    }

    fn advance(&mut self) {
        while let Some(Slot::Held { .. } | Slot::Gone) = self.slots.get(self.below) {
            self.below += 1;
        }
    }

    /// Hands the C_PDU around a slot on if all of it is there.
    fn complete(&mut self, place: usize) {
        let mut first = place;
        loop {
            match self.slots.get(first) {
                Some(Slot::Held { start: true, .. }) => break,
                Some(Slot::Held { .. }) if first > 0 => first -= 1,
                _ => return,
            }
        }
        if let Some(past) = self.end_of(first)
            && past > place
        {
            self.hand_on(first, past);
        }
    }

    /// The place behind the C_PDU that begins at `first`, if all of it is there.
    fn end_of(&self, first: usize) -> Option<usize> {
        for place in first..self.slots.len() {
            match self.slots[place] {
                Slot::Held { start: true, .. } if place > first => return None,
                Slot::Held { end: true, .. } => return Some(place + 1),
                Slot::Held { .. } => {}
                Slot::Missing | Slot::Gone => return None,
            }
        }
        None
    }

    fn hand_on(&mut self, first: usize, past: usize) {
        let mut whole = Vec::new();
        for slot in self.slots.range_mut(first..past) {
            if let Slot::Held { octets, .. } = core::mem::replace(slot, Slot::Gone)
                && whole.len() <= C_PDU_OCTETS_MAX
            {
                whole.extend_from_slice(&octets);
            }
        }
        if whole.len() <= C_PDU_OCTETS_MAX {
            self.whole.push_back(whole);
        } else {
            self.broken += 1;
        }
    }

    /// Delivers C_PDUs that waited for order, and forgets finished ones below the window.
    fn tidy(&mut self) {
        while self.below > 0 {
            match self.slots.front() {
                Some(Slot::Gone) => {
                    self.slots.pop_front();
                    self.base = self.numbering.add(self.base, 1);
                    self.below -= 1;
                }
                Some(Slot::Held { start: true, .. }) => match self.end_of(0) {
                    Some(past) if past <= self.below => self.hand_on(0, past),
                    // Its end may still come.
                    None if self.reaches_edge() && self.below <= C_PDU_FRAMES_MAX => return,
                    _ => self.give_up(),
                },
                _ => self.give_up(),
            }
        }
    }

    /// Whether the first C_PDU continues at the lower edge.
    fn reaches_edge(&self) -> bool {
        let within = self.slots.range(..self.below).enumerate();
        within.fold(true, |goes_on, (place, slot)| {
            let follows = matches!(slot, Slot::Held { start, .. } if !start || place == 0);
            goes_on && follows
        })
    }

    /// Gives up the frame at the front, of a C_PDU that can't become whole.
    fn give_up(&mut self) {
        if let Some(slot) = self.slots.front_mut() {
            if matches!(slot, Slot::Held { start: true, .. }) {
                self.broken += 1;
            }
            *slot = Slot::Gone;
        }
    }

    /// One bit for each frame from `skip` places above the lower edge on, the lowest first, in at
    /// most `octets_max` octets; ends with the octet of the highest frame received. The bit of the
    /// lower edge itself stands `skip` 0.
    #[must_use]
    pub fn selective(&self, skip: usize, octets_max: usize) -> Vec<u8> {
        let mut bits = Vec::new();
        let slots = self.slots.iter().skip(self.below + skip);
        for (place, slot) in slots.take(octets_max * 8).enumerate() {
            if place % 8 == 0 {
                bits.push(0);
            }
            if let (Some(last), false) = (bits.last_mut(), matches!(slot, Slot::Missing)) {
                *last |= 1 << (place % 8);
            }
        }
        bits
    }

    /// Frames above the lower edge that an acknowledgement has bits for.
    #[must_use]
    pub fn selected(&self) -> usize {
        self.above()
    }
}
