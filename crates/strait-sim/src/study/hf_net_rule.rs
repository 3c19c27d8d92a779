//! The times that the rule of access implies for short messages in a net: a net whose stations hear
//! each other, lose nothing, and send one message at a time, with the messages of a run.

use strait_core::Duration;
use strait_core::chance::Stream;
use strait_core::units::BitRate;
use strait_traffic::{Traffic, TrafficConfig};

/// The radios of `scenarios/hf/net-long.toml`: from keying to power, and the preamble.
const TURNAROUND_S: f64 = 3.0;
const PREAMBLE_S: f64 = 0.24;

/// The time in which power is detected, and the propagation.
const DETECT_S: f64 = 0.3;
const DELAY_S: f64 = 0.005;

/// From the end of a transmission to the decision to answer.
const GUARD_S: f64 = 0.05;

/// A slot: another station has begun and is noticed, by one that noticed the end a delay earlier,
/// with the tolerance of a modem's times.
const SLOT_S: f64 = TURNAROUND_S + DETECT_S + 2.0 * DELAY_S + 0.01 + GUARD_S;

/// Octets on the air: the call that goes with the data of a link that was idle, an acknowledgement,
/// and reports and pings in their D_PDUs.
const CALL_OCTETS: f64 = 27.0;
const ACK_OCTETS: f64 = 15.0;
const REPORT_OCTETS: f64 = 249.0;
const PING_OCTETS: f64 = 105.0;

/// A report, or a ping with its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) at_s: f64,
    /// The index of its traffic.
    pub(super) flow: usize,
    /// The indices of its stations.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) is_ping: bool,
}

impl Message {
    /// What its first transmission has.
    const fn octets(&self) -> f64 {
        CALL_OCTETS
            + if self.is_ping {
                PING_OCTETS
            } else {
                REPORT_OCTETS
            }
    }
}

/// When the packets of a traffic leave its host in a run with this seed.
pub(super) fn times(traffic: &TrafficConfig, seed: u64) -> Vec<f64> {
    let stop = traffic.stop.map_or(Duration::MAX, |stop| stop.0);
    let mut gaps = Stream::new(seed, &format!("traffic.{}.0.gaps", traffic.name));
    let mut gap = || match traffic.what {
        Traffic::Udp {
            payload_octets,
            rate_bit_s,
            ..
        } => {
            let bits = u64::from(payload_octets) * 8;
            gaps.exponential(Duration::from_nanos(
                bits * 1_000_000_000 / rate_bit_s.max(1),
            ))
        }
        Traffic::Ping { period, .. } => period,
        _ => Duration::MAX,
    };
    let next = |at: &Duration| at.checked_add(gap());
    let all = std::iter::successors(Some(traffic.begins(seed)), next);
    all.take_while(|at| *at < stop)
        .map(|at| at.as_secs_f64())
        .collect()
}

/// The channel of a net.
pub(super) struct Air {
    pub(super) rate: BitRate,
    pub(super) block: Duration,
    pub(super) stations: usize,
}

/// The times of messages until they or their answers are there, by traffic.
pub(super) type Waits = Vec<(usize, f64)>;

impl Air {
    /// From the decision to begin to when all others have so many octets.
    fn sent_s(&self, octets: f64) -> f64 {
        let block_s = self.block.as_secs_f64();
        let blocks = (octets * 8.0 / (self.rate.0 as f64 * block_s)).ceil();
        TURNAROUND_S + PREAMBLE_S + (blocks + 1.0) * block_s + DELAY_S
    }

    /// Carries `messages`, one at a time. A station with a message begins at once, but not before
    /// its slot: that of the answer comes first after the end of an exchange, then those of the
    /// stations from the last sender on. Those that begin within a slot of each other don't hear
    /// each other: nothing comes of either.
    pub(super) fn waits(&self, messages: &[Message]) -> Waits {
        let mut queues = vec![Vec::new(); self.stations];
        for message in messages {
            queues[message.from].push(*message);
        }
        for queue in &mut queues {
            // The earliest is the last.
            queue.sort_by(|a, b| b.at_s.total_cmp(&a.at_s));
        }
        let (mut end_s, mut last) = (f64::NEG_INFINITY, self.stations - 1);
        let mut waits = Vec::new();
        loop {
            let begins = |(station, queue): (usize, &Vec<Message>)| {
                let slots = 1 + (station + self.stations - last - 1) % self.stations;
                let message = queue.last()?;
                Some((message.at_s.max(end_s + SLOT_S * slots as f64), *message))
            };
            let mut all: Vec<_> = queues.iter().enumerate().filter_map(begins).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let Some((begin_s, message)) = all.first().copied() else {
                return waits;
            };
            // A slot later, another has heard it. Slots follow each other exactly.
            let unheard = |it: &&(f64, Message)| it.0 < begin_s + SLOT_S * 0.999;
            if all.iter().filter(unheard).count() > 1 {
                let ends = all.iter().filter(unheard);
                let ends = ends.map(|(at_s, message)| at_s + self.sent_s(message.octets()));
                end_s = ends.fold(end_s, f64::max);
                continue;
            }
            queues[message.from].pop();
            let there_s = begin_s + self.sent_s(message.octets());
            let answer_s = |octets| GUARD_S + self.sent_s(octets);
            let (done_s, exchanged_s) = if message.is_ping {
                let back_s = there_s + answer_s(CALL_OCTETS + ACK_OCTETS + PING_OCTETS);
                (back_s, back_s + answer_s(ACK_OCTETS))
            } else {
                (there_s, there_s + answer_s(CALL_OCTETS + ACK_OCTETS))
            };
            last = if message.is_ping {
                message.from
            } else {
                message.to
            };
            end_s = exchanged_s;
            waits.push((message.flow, done_s - message.at_s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AIR: Air = Air {
        rate: BitRate(2400),
        block: Duration::from_millis(480),
        stations: 4,
    };

    fn report(at_s: f64, from: usize) -> Message {
        Message {
            at_s,
            flow: from,
            from,
            to: (from + 1) % 4,
            is_ping: false,
        }
    }

    fn waits_ms(messages: &[Message]) -> Vec<(usize, u64)> {
        let waits = AIR.waits(messages).into_iter();
        waits
            .map(|(flow, s)| (flow, (s * 1e3).round() as u64))
            .collect()
    }

    /// 276 octets are two blocks of 144, 42 and 15 are one each; each transmission ends a block
    /// later and a delay after that.
    #[test]
    fn a_message_waits_for_an_exchange_and_its_slot() {
        let (report_ms, ack_ms) = (3245 + 3 * 480, 50 + 3245 + 2 * 480);
        assert_eq!(waits_ms(&[report(100.0, 0)]), [(0, report_ms)]);
        // `b` answers `a`. Behind the slot of an answer, `c` is the first and `a` the third.
        let busy_ms = report_ms + ack_ms - 4000;
        let pairs =
            [(2, 1), (0, 3)].map(|(from, slots)| (from, busy_ms + slots * 3370 + report_ms));
        for (from, wait_ms) in pairs {
            let waits = waits_ms(&[report(100.0, 0), report(104.0, from)]);
            assert_eq!(waits, [(0, report_ms), (from, wait_ms)]);
        }
        let ping = Message {
            is_ping: true,
            ..report(100.0, 0)
        };
        // Its answer has two blocks.
        assert_eq!(
            waits_ms(&[ping]),
            [(0, 3245 + 2 * 480 + 50 + 3245 + 3 * 480)]
        );
    }

    #[test]
    fn stations_that_begin_within_a_slot_meet_and_go_again_in_theirs() {
        let report_ms = 3245 + 3 * 480;
        let waits = waits_ms(&[report(100.0, 1), report(103.0, 2)]);
        // It ends with the later of the two; nothing was heard, so the order is by address.
        let end_ms = 3000 + report_ms;
        let first_ms = end_ms + 2 * 3370 + report_ms;
        assert_eq!(waits[0], (1, first_ms));
        let heard = waits_ms(&[report(100.0, 1), report(103.4, 2)]);
        assert_eq!(heard[0], (1, report_ms));
    }
}
