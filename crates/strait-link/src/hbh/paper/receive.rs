//! Which packets of a neighbour's flows came.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use strait_core::{Duration, Instant};
use strait_wire::hbh::TAGS;
use strait_wire::hbh::paper::{Ack, Data, SPAN_MAX};

use super::super::receive::Judged;

/// The receiving side of one flow. Bits count from `next`.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The number of the first packet that is missing.
    next: u8,
    received: u64,
    /// The base heard last.
    base: u8,
    /// An acknowledgement is wanted.
    owes: bool,
    heard: Instant,
}

/// Where a number stands to another one, before it or behind: numbers wrap.
const fn ahead(of: u8, number: u8) -> i8 {
    number.wrapping_sub(of) as i8
}

impl Flow {
    /// Hears that nothing before `base` comes any more. What two in a row agree on holds: nobody
    /// moves anything by one alone.
    fn hear_base(&mut self, base: u8) {
        let both = [core::mem::replace(&mut self.base, base), base];
        let agreed = both.into_iter().min_by_key(|base| ahead(self.next, *base));
        self.skip(agreed.unwrap_or(base));
    }

    fn skip(&mut self, base: u8) {
        let ahead = ahead(self.next, base);
        if ahead > 0 {
            self.received = self.received.checked_shr(ahead as u32).unwrap_or(0);
            self.next = base;
            self.slide();
        }
    }

    /// Moves `next` behind all that came in a row.
    fn slide(&mut self) {
        let row = self.received.trailing_ones();
        self.received = self.received.checked_shr(row).unwrap_or(0);
        self.next = self.next.wrapping_add(row as u8);
    }

    /// Takes a number in, and says what becomes of its packet.
    fn take(&mut self, seq: u8) -> Judged {
        let ahead = ahead(self.next, seq);
        if ahead > SPAN_MAX as i8 {
            return Judged::Beyond;
        }
        if ahead < 0 || self.received >> ahead & 1 == 1 {
            return Judged::Duplicate;
        }
        self.received |= 1 << ahead;
        self.slide();
        Judged::New
    }

    /// First and last numbers of what came behind the missing one.
    fn ranges(&self) -> Vec<[u8; 2]> {
        let mut ranges = Vec::new();
        let mut at = self.received.trailing_zeros();
        while at < u64::BITS {
            let row = (self.received >> at).trailing_ones();
            let first = self.next.wrapping_add(at as u8);
            ranges.push([first, first.wrapping_add(row as u8 - 1)]);
            at += row;
            let rest = self.received.checked_shr(at).unwrap_or(0);
            at += rest.trailing_zeros();
        }
        ranges
    }
}

/// The receiving side of one neighbour.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    flows: BTreeMap<u16, Flow>,
    /// By the lowest bits of their numbers, the flows whose packets come in too fast.
    congested: u8,
    /// When anything came last.
    heard: Instant,
}

impl Receiver {
    /// A flow that rested for longer sends nothing that it could slow down.
    const RESTS: Duration = Duration::from_secs(1);

    /// More flows than a narrow link has at a time; of more, the one that rested longest is
    /// forgotten. What it repeats then may be handed on twice.
    const FLOWS_MAX: usize = 1024;

    /// Takes a packet's number in, and says what becomes of the packet. One further ahead than can
    /// be told of comes again when its base is believed.
    pub(super) fn judge(&mut self, now: Instant, data: &Data) -> Judged {
        if !self.flows.contains_key(&data.flow) {
            self.make_room();
        }
        let base = data.seq.wrapping_sub(data.behind);
        let flow = self.flows.entry(data.flow).or_insert(Flow {
            next: base,
            base,
            received: 0,
            owes: false,
            heard: now,
        });
        flow.heard = now;
        self.heard = now;
        flow.owes |= data.request;
        flow.hear_base(base);
        flow.take(data.seq)
    }

    fn make_room(&mut self) {
        if self.flows.len() >= Self::FLOWS_MAX {
            let resting = self.flows.iter().min_by_key(|(_, flow)| flow.heard);
            if let Some(flow) = resting.map(|(flow, _)| *flow) {
                self.flows.remove(&flow);
            }
        }
    }

    fn is_congested(&self, flow: u16) -> bool {
        self.congested >> (usize::from(flow) % TAGS) & 1 == 1
    }

    /// Takes note of which flows come in too fast. Of those that begin to, the senders hear at
    /// once.
    pub(super) fn set_congested(&mut self, flows: u8) {
        let begins = flows & !self.congested;
        self.congested = flows;
        if begins != 0 {
            for (number, flow) in &mut self.flows {
                let told = begins >> (usize::from(*number) % TAGS) & 1 == 1;
                flow.owes |= told && self.heard.since(flow.heard) <= Self::RESTS;
            }
        }
    }

    /// Whether an acknowledgement is wanted.
    pub(super) fn owes(&self) -> bool {
        self.flows.values().any(|flow| flow.owes)
    }

    /// Gives the acknowledgement that goes next to `tell`.
    pub(super) fn tell(&mut self, tell: impl FnOnce(Ack<'_>)) -> Option<()> {
        let congested = |number| self.is_congested(number);
        let (&number, flow) = self.flows.iter().find(|(_, flow)| flow.owes)?;
        tell(Ack {
            next: flow.next,
            flow: number,
            congested: congested(number),
            ranges: &flow.ranges(),
        });
        if let Some(flow) = self.flows.get_mut(&number) {
            flow.owes = false;
        }
        Some(())
    }

    /// Asserts what holds between calls.
    pub(super) fn check(&self) {
        assert!(self.flows.len() <= Self::FLOWS_MAX, "flows have a limit");
        let missing = |flow: &Flow| flow.received & 1 == 0;
        assert!(self.flows.values().all(missing), "the next one is missing");
    }
}
