//! Urgent frames: a real-time packet inside another frame of an octet stream, after any octet.
//!
//! ```text
//!   ┌──────┬────────────────────────────┬─────────┬───────┐
//!   │ MARK │ masked │ long │ length     │ payload │ check │
//!   │ 7C   │ bit 7  │ 6    │ 5…0 (+ 8)  │         │ 2, 4  │
//!   └──────┴────────────────────────────┴─────────┴───────┘
//! ```
//!
//! [`MARK`] suspends the frame that is leaving, wherever it stands, also between an escape and its
//! octet. The length ends the urgent frame, and the suspended one goes on with the next octet: the
//! idea of RFC 2687 at the price of one octet where a frame is suspended, and none for going on.
//!
//! Everything behind the mark is made transparent as usual. With *masked* set, payload and check
//! are exclusive-or [`MASK`]: the sender takes what needs fewer escapes, so that random content
//! hardly needs any and takes the same time packet by packet. The check is over the length as sent
//! and the payload as it was.
//!
//! A [`FLAG`] always ends everything: what an urgent frame that lost an octet, or a wrong length,
//! may have swallowed is given up there.

use alloc::vec::Vec;

use crate::octets::{ESCAPE, FLAG, FrameFault, MARK, Stuffing, Unstuffer};
use crate::segment::SegmentCheck;

/// What the content of a masked frame is exclusive-or.
pub const MASK: u8 = 0xaa;
/// The longest payload: 14 bits of length.
pub const URGENT_OCTETS_MAX: usize = 0x3fff;
const MASKED: u8 = 0x80;
const LONG: u8 = 0x40;
/// The longest payload whose length takes one octet.
const SHORT_MAX: usize = 0x3f;

/// Contents of a line with urgent frames.
const STUFFING: Stuffing = Stuffing {
    xon_xoff: false,
    mark: true,
};

/// Appends an urgent frame to `out` as it goes on the line, mark and escapes included. Says whether
/// it did: not if the payload is empty or longer than [`URGENT_OCTETS_MAX`].
pub fn emit_urgent(payload: &[u8], check: SegmentCheck, out: &mut Vec<u8>) -> bool {
    if payload.is_empty() || payload.len() > URGENT_OCTETS_MAX {
        return false;
    }
    let plain = contents(payload, check, 0);
    let masked = contents(payload, check, MASKED);
    let better = if STUFFING.stuffed_len(&masked) < STUFFING.stuffed_len(&plain) {
        masked
    } else {
        plain
    };
    out.push(MARK);
    STUFFING.stuff_into(&better, out);
    true
}

/// Length, payload and check before escapes.
fn contents(payload: &[u8], check: SegmentCheck, masked: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 6);
    let length = payload.len();
    if length <= SHORT_MAX {
        bytes.push(masked | length as u8);
    } else {
        bytes.push(masked | LONG | (length >> 8) as u8);
        bytes.push(length as u8);
    }
    let head = bytes.len();
    bytes.extend_from_slice(payload);
    let value = check.over(&bytes);
    check.append(value, &mut bytes);
    if masked != 0 {
        bytes.iter_mut().skip(head).for_each(|octet| *octet ^= MASK);
    }
    bytes
}

/// What an octet stream with urgent frames shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<'a> {
    /// The contents of an ordinary frame.
    Frame(&'a [u8]),
    /// The payload of an urgent one; its check was right.
    Urgent(&'a [u8]),
    /// An urgent frame whose check was wrong.
    Damaged,
    /// No frame; for an ordinary one, [`FrameFault`] says why.
    Fault(FrameFault),
}

/// An urgent frame that comes in.
#[derive(Clone, Debug)]
struct Incoming {
    escaped: bool,
    /// Length, payload and check so far.
    bytes: Vec<u8>,
}

/// Finds ordinary and urgent frames in a stream that may be cut anywhere.
///
/// It holds one frame of each kind, of `max` octets at most.
#[derive(Clone, Debug)]
pub struct Interleaved {
    base: Unstuffer,
    /// The check of urgent frames; without one, a mark is an octet like others.
    check: Option<SegmentCheck>,
    max: usize,
    incoming: Option<Incoming>,
    /// The urgent frame told last; its buffer is kept for the next.
    told: Vec<u8>,
    /// An urgent frame stands in the ordinary one that comes in.
    interrupted: bool,
    /// Ordinary frames that ended well after urgent ones stood in them.
    resumed: u64,
}

impl Interleaved {
    /// A receiver of ordinary frames with up to `max` octets of contents, and, where a check is
    /// given for them, of urgent ones with up to `max` octets of payload.
    #[must_use]
    pub fn new(max: usize, check: Option<SegmentCheck>) -> Self {
        Self {
            base: Unstuffer::with_stuffing(max, STUFFING),
            check,
            max: max.min(URGENT_OCTETS_MAX),
            incoming: None,
            told: Vec::new(),
            interrupted: false,
            resumed: 0,
        }
    }

    /// Ordinary frames that came whole although they had been suspended.
    #[must_use]
    pub const fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Forgets what has begun, as after the line was down.
    pub fn reset(&mut self) {
        self.base.reset();
        self.incoming = None;
        self.interrupted = false;
    }

    /// Takes urgent frames with this check from now on, or none; an ordinary frame begun goes on.
    pub fn set_check(&mut self, check: Option<SegmentCheck>) {
        self.check = check;
        self.incoming = None;
    }

    /// Takes any number of octets and tells what they show, in order.
    pub fn feed(&mut self, bytes: &[u8], mut tell: impl FnMut(Shown<'_>)) {
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            let marks = self.check.is_some();
            if self.incoming.is_none() && !(marks && first == MARK) {
                let run = rest.iter().position(|octet| marks && *octet == MARK);
                let (plain, next) = rest.split_at(run.unwrap_or(rest.len()));
                self.base.feed(plain, |outcome| {
                    let interrupted = core::mem::take(&mut self.interrupted);
                    self.resumed += u64::from(interrupted && outcome.is_ok());
                    tell(outcome.map_or_else(Shown::Fault, Shown::Frame));
                });
                rest = next;
                continue;
            }
            if let Some(shown) = self.push_urgent(first) {
                tell(shown);
            }
            rest = after;
        }
    }

    /// Takes a mark, or an octet behind one.
    fn push_urgent(&mut self, octet: u8) -> Option<Shown<'_>> {
        let check = self.check?;
        let Some(incoming) = &mut self.incoming else {
            self.interrupted |= self.base.has_begun();
            let mut bytes = core::mem::take(&mut self.told);
            bytes.clear();
            self.incoming = Some(Incoming {
                escaped: false,
                bytes,
            });
            return None;
        };
        let octet = match octet {
            // The one before came short; this one is sound all the same.
            MARK => {
                self.base.skip();
                incoming.bytes.clear();
                incoming.escaped = false;
                return Some(Shown::Fault(FrameFault::Abort));
            }
            FLAG => {
                self.give_up();
                self.base.push(FLAG);
                return Some(Shown::Fault(FrameFault::Abort));
            }
            ESCAPE if !incoming.escaped => {
                incoming.escaped = true;
                return None;
            }
            octet if core::mem::take(&mut incoming.escaped) => match Stuffing::plain(octet) {
                Some(plain) => plain,
                None => {
                    self.give_up();
                    return Some(Shown::Fault(FrameFault::BadEscape));
                }
            },
            octet => octet,
        };
        incoming.bytes.push(octet);
        let (head, length) = length(&incoming.bytes)?;
        if length == 0 || length > self.max {
            self.give_up();
            return Some(Shown::Fault(FrameFault::TooLong));
        }
        let whole = head + length + check.octets();
        if incoming.bytes.len() < whole {
            return None;
        }
        self.told = self.incoming.take()?.bytes;
        Some(match judged(&mut self.told, head, check) {
            Some(payload) => Shown::Urgent(payload),
            None => Shown::Damaged,
        })
    }

    /// Gives up the urgent frame and the one it stands in: nobody knows where that goes on.
    fn give_up(&mut self) {
        self.incoming = None;
        self.interrupted = false;
        self.base.skip();
    }
}

/// Octets of the length, and what it says; `None` while it isn't there.
fn length(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    let high = usize::from(first & 0x3f);
    if first & LONG == 0 {
        return Some((1, high));
    }
    let low = usize::from(*bytes.get(1)?);
    Some((2, high << 8 | low))
}

/// The payload of a frame with all its octets, if the check is right.
fn judged(bytes: &mut [u8], head: usize, check: SegmentCheck) -> Option<&[u8]> {
    if bytes.first()? & MASKED != 0 {
        bytes.iter_mut().skip(head).for_each(|octet| *octet ^= MASK);
    }
    let (checked, tail) = bytes.split_at_checked(bytes.len() - check.octets())?;
    if check.read(tail) != check.over(checked) {
        return None;
    }
    checked.get(head..)
}

#[cfg(test)]
#[path = "urgent_tests.rs"]
mod tests;
