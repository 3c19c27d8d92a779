//! The order of flows as it was where they came into the network.
//!
//! Each packet of a flow there got the number behind the one before it. Between two neighbours
//! nobody waits for that order: a relay hands on what has come, and what was lost is repeated
//! meanwhile, on all links of a path at the same time. Where packets leave the network, each waits
//! for the one with the number before its own.

use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::{Duration, Instant, Packet};

/// A packet's place: its flow, as of one node, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) flow: u64,
    pub(crate) number: u16,
}

/// How far a flow has been handed on.
#[derive(Clone, Copy, Debug)]
struct Flow {
    flow: u64,
    next: u16,
    last: Instant,
}

#[derive(Debug)]
struct Held {
    place: Place,
    packet: Packet,
    until: Instant,
}

/// The flows that leave the network here.
#[derive(Debug)]
pub(crate) struct Chains {
    hold_max: Duration,
    /// By the flow: of two that share a place, the later one counts, and the other begins anew.
    flows: Vec<Option<Flow>>,
    /// In the order in which they came.
    held: Vec<Held>,
    /// Packets that were handed on although an earlier one was missing.
    pub(crate) impatient: u64,
}

impl Chains {
    const FLOWS: usize = 1024;
    /// Packets that wait at most: twice a window's. Of more, the first doesn't wait any longer.
    pub(crate) const HELD_MAX: usize = 4096;

    pub(crate) const fn new(hold_max: Duration) -> Self {
        Self {
            hold_max,
            flows: Vec::new(),
            held: Vec::new(),
            impatient: 0,
        }
    }

    /// Takes in a packet that came; it, and what waited for it, go to `out` in order.
    pub(crate) fn insert(
        &mut self,
        now: Instant,
        place: Place,
        packet: Packet,
        out: &mut Vec<Packet>,
    ) {
        self.held.push(Held {
            place,
            packet,
            until: now + self.hold_max,
        });
        if self.held.len() > Self::HELD_MAX
            && let Some(first) = self.held.first_mut()
        {
            first.until = now;
        }
        self.release(now, out);
    }

    /// Hands on what doesn't wait any more.
    pub(crate) fn release(&mut self, now: Instant, out: &mut Vec<Packet>) {
        // What is handed on may be what others wait for that came before it.
        loop {
            let before = out.len();
            self.pass(now, out);
            if out.len() == before || self.held.is_empty() {
                return;
            }
        }
    }

    fn pass(&mut self, now: Instant, out: &mut Vec<Packet>) {
        if self.flows.is_empty() {
            self.flows.resize(Self::FLOWS, None);
        }
        let (flows, hold_max) = (&mut self.flows, self.hold_max);
        let free = self.held.extract_if(.., |held| {
            let Some(known) = flows.get_mut(held.place.slot()) else {
                return true;
            };
            // A flow that was quiet for longer than anything waits may have come another way.
            let flow =
                known.filter(|it| it.flow == held.place.flow && now.since(it.last) <= hold_max);
            let ahead = flow.map_or(0, |it| held.place.number.wrapping_sub(it.next) as i16);
            if ahead > 0 && held.until > now {
                return false;
            }
            self.impatient += u64::from(ahead > 0);
            let next = match flow {
                Some(flow) if ahead < 0 => flow.next,
                _ => held.place.number.wrapping_add(1),
            };
            *known = Some(Flow {
                flow: held.place.flow,
                next,
                last: now,
            });
            true
        });
        out.extend(free.map(|mut held| {
            held.packet.enter(now, DelayPart::Class);
            held.packet
        }));
    }

    /// When a packet isn't held any longer.
    pub(crate) fn hold_until(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.until).min()
    }

    /// Packets that wait.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.held.iter().map(|held| &held.packet)
    }

    /// Gives every packet back that waits.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.held.drain(..).map(|held| held.packet)
    }
}

impl Place {
    const fn slot(self) -> usize {
        (self.flow ^ self.flow >> 32) as usize % Chains::FLOWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hbh::tests::{number, packet};

    const HOLD: Duration = Duration::from_secs(5);

    fn s(s: u64) -> Instant {
        Instant::from_secs(s)
    }

    /// Chains that take packets of flows with their numbers, and tell which are handed on.
    struct Egress(Chains);

    impl Egress {
        fn new() -> Self {
            Self(Chains::new(HOLD))
        }

        fn take(&mut self, now: Instant, flow: u64, number: u16) -> Vec<u16> {
            let mut out = Vec::new();
            let place = Place { flow, number };
            self.0.insert(now, place, packet(now, number), &mut out);
            numbers(&out)
        }
    }

    fn numbers(packets: &[Packet]) -> Vec<u16> {
        packets.iter().map(|it| number(it.bytes())).collect()
    }

    #[test]
    fn a_packet_waits_for_the_one_before_it_of_its_own_flow() {
        let mut egress = Egress::new();
        assert_eq!(egress.take(s(0), 1, u16::MAX), [u16::MAX]);
        assert!(egress.take(s(0), 1, 2).is_empty());
        assert!(egress.take(s(0), 1, 1).is_empty());
        assert_eq!(egress.take(s(0), 2, 7), [7]);
        assert_eq!(egress.take(s(0), 1, 0), [0, 1, 2]);
        // One that came another way.
        assert_eq!(egress.take(s(0), 1, 1), [1]);
        assert_eq!(egress.take(s(0), 1, 3), [3]);
        assert_eq!(egress.0.impatient, 0);
    }

    #[test]
    fn nobody_waits_longer_than_he_is_to() {
        let mut egress = Egress::new();
        egress.take(s(0), 1, 0);
        assert!(egress.take(s(1), 1, 2).is_empty());
        assert!(egress.take(s(1), 1, 3).is_empty());
        assert_eq!(egress.0.hold_until(), Some(s(6)));
        let mut out = Vec::new();
        // Boundary: the flow is known for as long, so that both ends count.
        egress.0.release(s(5), &mut out);
        assert!(numbers(&out).is_empty());
        egress.0.release(s(6), &mut out);
        assert_eq!(numbers(&out), [2, 3]);
        assert_eq!(egress.take(s(6), 1, 1), [1]);
    }

    #[test]
    fn a_flow_that_was_quiet_begins_anew() {
        let mut egress = Egress::new();
        egress.take(s(0), 1, 0);
        assert!(egress.take(s(5), 1, 9).is_empty());
        let mut egress = Egress::new();
        egress.take(s(0), 1, 0);
        let later = s(5) + Duration::from_nanos(1);
        assert_eq!(egress.take(later, 1, 9), [9]);
    }

    #[test]
    fn of_more_than_there_is_room_for_the_first_waits_no_longer() {
        let mut egress = Egress::new();
        egress.take(s(0), 1, 0);
        let most = Chains::HELD_MAX as u16;
        for number in (2..).take(Chains::HELD_MAX) {
            assert!(egress.take(s(0), 1, number).is_empty());
        }
        // All that wait follow the first.
        let all = egress.take(s(0), 1, most + 2);
        assert_eq!(all.len(), Chains::HELD_MAX + 1);
        assert_eq!((all[0], egress.0.impatient), (2, 1));
    }
}
