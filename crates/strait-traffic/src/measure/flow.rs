//! Content on its way out of one end and into the other.

use strait_core::Instant;

use super::timeline::Timeline;
use super::wire::Request;
use crate::content::Content;

/// Octets of content made at once.
const CHUNK_OCTETS: u64 = 16_384;

fn content(request: &Request) -> Content {
    Content::new(u64::from(request.seed), "measure")
}

/// What an end sends: messages, and content if it is the one that has it.
#[derive(Debug)]
pub(super) struct Outflow {
    content: Content,
    /// Octets of content to send altogether.
    octets: u64,
    /// Octets of content that were made.
    made: u64,
    /// Messages and content to send next.
    buffer: Vec<u8>,
    /// How many at the buffer's front are of messages. Messages come before all content or after.
    messages: usize,
    /// Content that TCP has taken.
    pub(super) taken: Timeline,
    taken_octets: u64,
    /// When it took the last octet of content.
    pub(super) last: Option<Instant>,
}

impl Outflow {
    pub(super) fn new(request: &Request, octets: u64) -> Self {
        Self {
            content: content(request),
            octets,
            made: 0,
            buffer: Vec::new(),
            messages: 0,
            taken: Timeline::new(request.interval_ms),
            taken_octets: 0,
            last: None,
        }
    }

    /// Queues a message.
    pub(super) fn say(&mut self, emit: impl FnOnce(&mut Vec<u8>)) {
        let before = self.buffer.len();
        emit(&mut self.buffer);
        self.messages += self.buffer.len() - before;
    }

    /// What to hand to TCP next; empty if nothing.
    pub(super) fn pending(&mut self) -> &[u8] {
        if self.buffer.len() <= self.messages && self.made < self.octets {
            let count = (self.octets - self.made).min(CHUNK_OCTETS);
            self.content
                .append(self.made, count as usize, &mut self.buffer);
            self.made += count;
        }
        &self.buffer
    }

    /// TCP took so many of the pending octets.
    pub(super) fn take(&mut self, now: Instant, count: usize) {
        let count = count.min(self.buffer.len());
        self.buffer.drain(..count);
        let said = count.min(self.messages);
        self.messages -= said;
        let content = (count - said) as u32;
        if content > 0 {
            self.taken.add(now.as_nanos(), content);
            self.taken_octets += u64::from(content);
            if self.taken_octets == self.octets {
                self.last = Some(now);
            }
        }
    }

    /// Whether TCP has taken everything.
    pub(super) const fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.made == self.octets
    }
}

/// Content that arrives.
#[derive(Debug)]
pub(super) struct Inflow {
    content: Content,
    octets: u64,
    arrived_octets: u64,
    pub(super) wrong: u64,
    pub(super) arrived: Timeline,
    /// When the last octet had arrived.
    pub(super) last: Option<Instant>,
}

impl Inflow {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            content: content(request),
            octets: u64::from(request.octets),
            arrived_octets: 0,
            wrong: 0,
            arrived: Timeline::new(request.interval_ms),
            last: None,
        }
    }

    /// Takes what belongs to the content and gives back the rest.
    pub(super) fn take<'a>(&mut self, now: Instant, octets: &'a [u8]) -> &'a [u8] {
        let left = self.octets - self.arrived_octets;
        let count = octets
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let (own, rest) = octets.split_at(count);
        if own.is_empty() {
            return rest;
        }
        self.wrong += self.content.count_wrong(self.arrived_octets, own);
        self.arrived_octets += own.len() as u64;
        self.arrived.add(now.as_nanos(), own.len() as u32);
        if self.is_whole() {
            self.last = Some(now);
        }
        rest
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.arrived_octets == self.octets
    }
}
