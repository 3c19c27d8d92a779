//! A station of a cell: its card's queue, and when it begins.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use strait_core::NeighbourId;
use strait_core::chance::Stream;
use strait_core::id::TxId;
use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant, nanos};

use super::phy::Phy;
use crate::LossCause;

/// A frame in a card.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The cell's number for it.
    pub(super) number: u64,
    /// Its node's number for it.
    pub(super) id: TxId,
    /// What its node calls the receiver.
    pub(super) name: NeighbourId,
    /// The receiver; `None` if it is for all.
    pub(super) to: Option<usize>,
    pub(super) octets: Vec<u8>,
    /// Until it is acknowledged, at the cell's rate.
    pub(super) lasts: Duration,
    /// Why it would be lost if it were given up now; `None` once it has arrived.
    pub(super) lost: Option<LossCause>,
}

/// What a station does.
#[derive(Clone, Debug)]
pub(super) struct Station {
    number: usize,
    queue: VecDeque<Frame>,
    /// When the frame ahead came there.
    ready: Instant,
    /// Transmissions that it notices, its own among them.
    busy: u32,
    /// Since when it has noticed none, and nobody has reserved the channel.
    clear: Instant,
    /// How much longer it waits before it counts slots.
    defer: Duration,
    /// Slots that are left of its draw, as it began to wait.
    slots: u32,
    window: u32,
    tries: u32,
    /// The frame ahead has been sent, and its fate isn't known.
    waits: bool,
    /// It has noticed a transmission that begins at the same moment as its own.
    due: Option<Instant>,
    /// It sends.
    pub(super) sending: bool,
    /// The rate of the frame ahead, this time.
    pub(super) rate: LineRate,
    /// That rate's number among several.
    pub(super) picked: Option<usize>,
    /// The same, once the frame itself has begun.
    pub(super) tried: Option<usize>,
    /// What became of its frame's last transmission.
    pub(super) lost: Option<LossCause>,
    draws: Stream,
    losses: Stream,
}

impl Station {
    pub(super) fn new(name: &str, number: usize, seed: u64, window: u32, phy: &Phy) -> Self {
        let stream = |purpose: &str| Stream::new(seed, &format!("cell.{name}.{purpose}"));
        Self {
            number,
            queue: VecDeque::new(),
            ready: Instant::ZERO,
            busy: 0,
            clear: Instant::ZERO,
            defer: phy.times.difs,
            slots: 0,
            window,
            tries: 0,
            waits: false,
            due: None,
            sending: false,
            rate: phy.rate,
            picked: None,
            tried: None,
            lost: None,
            draws: stream("backoff"),
            losses: stream("loss"),
        }
    }

    /// Frames in its card.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// These.
    pub(super) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.queue.iter()
    }

    /// The frame ahead, if it is the one with this number.
    pub(super) fn front(&self, number: u64) -> Option<&Frame> {
        self.queue.front().filter(|frame| frame.number == number)
    }

    /// Takes a frame. Behind another's transmission it draws, so that not all begin at its end.
    pub(super) fn take(&mut self, now: Instant, frame: Frame) {
        if self.queue.is_empty() {
            self.ready = now;
            let reserved = self.busy > 0 || now < self.clear;
            if reserved && self.slots == 0 && !self.waits {
                self.draw();
            }
        }
        self.queue.push_back(frame);
    }

    fn draw(&mut self) {
        self.slots = self.draws.below(u64::from(self.window) + 1) as u32;
    }

    /// When it begins to send; never if it doesn't.
    pub(super) fn begins(&self, phy: &Phy) -> Instant {
        let Some(frame) = self.queue.front().filter(|_| !self.waits && !self.sending) else {
            return Instant::NEVER;
        };
        if let Some(turns) = phy.turns() {
            let free = self.ready.max(self.clear);
            return turns.next(self.number, free, frame.lasts);
        }
        if let Some(due) = self.due {
            return due;
        }
        if self.busy > 0 {
            return Instant::NEVER;
        }
        let over = self.clear + self.defer + phy.times.slot * self.slots;
        over.max(self.ready)
    }

    /// Whether it notices a transmission, or sends.
    pub(super) const fn hears(&self) -> bool {
        self.busy > 0
    }

    /// A transmission begins that it notices, or its own.
    pub(super) fn notice(&mut self, at: Instant, phy: &Phy) {
        if self.busy == 0 && self.due.is_none() {
            if self.begins(phy) <= at {
                self.due = Some(at);
            } else {
                let slot = nanos(phy.times.slot).max(1);
                let passed = nanos(at.since(self.clear + self.defer)) / slot;
                self.slots = self
                    .slots
                    .saturating_sub(passed.min(u64::from(u32::MAX)) as u32);
            }
        }
        self.busy += 1;
    }

    /// A transmission is over that it noticed. It waits so long from then on, or from when a
    /// reservation ends.
    pub(super) fn quiet(&mut self, at: Instant, defer: Duration, until: Instant) {
        self.busy = self.busy.saturating_sub(1);
        self.clear = self.clear.max(at).max(until);
        self.defer = defer;
    }

    /// Whether it may answer: it notices nobody, and nobody has reserved the channel.
    pub(super) fn is_free(&self, at: Instant) -> bool {
        self.busy == 0 && self.clear <= at
    }

    /// For whom the frame ahead is.
    pub(super) fn to(&self) -> Option<usize> {
        self.queue.front().and_then(|frame| frame.to)
    }

    /// How often the frame ahead was sent in vain.
    pub(super) const fn tries(&self) -> u32 {
        self.tries
    }

    /// Octets of the frame ahead.
    pub(super) fn octets(&self) -> usize {
        self.queue.front().map_or(0, |frame| frame.octets.len())
    }

    /// Sends the frame ahead: its number, for whom it is, and its octets.
    pub(super) fn begin(&mut self) -> Option<(u64, Option<usize>, usize)> {
        let frame = self.queue.front()?;
        (self.due, self.waits, self.slots) = (None, true, 0);
        Some((frame.number, frame.to, frame.octets.len()))
    }

    /// The frame ahead is there; whether it wasn't before.
    pub(super) fn arrives(&mut self) -> bool {
        let frame = self.queue.front_mut();
        frame.is_some_and(|frame| frame.lost.take().is_some())
    }

    /// Nobody acknowledged it: whether it is sent again.
    pub(super) fn fails(&mut self, retries: u32, window_max: u32) -> bool {
        self.tries += 1;
        if let (Some(frame), Some(cause)) = (self.queue.front_mut(), self.lost)
            && frame.lost.is_some()
        {
            frame.lost = Some(cause);
        }
        self.window = (2 * self.window + 1).min(window_max);
        self.tries <= retries
    }

    /// It draws, and waits again.
    pub(super) fn rests(&mut self, at: Instant) {
        self.waits = false;
        if self.busy == 0 {
            self.clear = self.clear.max(at);
        }
        self.draw();
    }

    /// It is done with the frame ahead.
    pub(super) fn done(&mut self, at: Instant, window_min: u32) -> Option<Frame> {
        (self.tries, self.window) = (0, window_min);
        self.rests(at);
        self.ready = at;
        self.queue.pop_front()
    }

    /// Whether chance takes a frame that it would have understood.
    pub(super) fn loses(&mut self, share: f64) -> bool {
        share > 0.0 && self.losses.happens(share)
    }

    /// It ends without warning: what its card held.
    pub(super) fn cut(&mut self, now: Instant) -> Vec<Frame> {
        (self.waits, self.due, self.tries) = (false, None, 0);
        self.clear = self.clear.max(now);
        self.queue.drain(..).collect()
    }
}
