//! The end that sends the groups and gathers what the other tells of them.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use strait_core::chance::Stream;
use strait_core::{Duration, Instant};

use super::wire::{Datagram, HEAD_OCTETS, Head};
use super::{Group, PairCampaign};
use crate::content::Content;

/// What became of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairRecord {
    /// Octets of each packet, as IP.
    pub octets: u32,
    /// When the first one was sent, in ns of the prober's clock.
    pub began_ns: u64,
    /// When each was sent, in ns from the first one on.
    pub sent_ns: Vec<u64>,
    /// When each came, in ns from the first that came on; empty if the other end said nothing.
    pub arrived_ns: Vec<Option<u64>>,
}

impl PairRecord {
    /// Whether all packets came.
    pub fn is_complete(&self) -> bool {
        !self.arrived_ns.is_empty() && self.arrived_ns.iter().all(Option::is_some)
    }

    /// Mean separation of two packets at the receiver in s, if all came in order.
    pub fn separation_s(&self) -> Option<f64> {
        let times: Option<Vec<u64>> = self.arrived_ns.iter().copied().collect();
        let times = times.filter(|times| times.len() >= 2 && times.is_sorted())?;
        let span_ns = times.last()? - times.first()?;
        (span_ns > 0).then(|| span_ns as f64 / 1e9 / (times.len() - 1) as f64)
    }

    /// The same at the sender.
    pub fn sent_separation_s(&self) -> f64 {
        let span_ns = self.sent_ns.last().copied().unwrap_or(0);
        span_ns as f64 / 1e9 / self.sent_ns.len().saturating_sub(1).max(1) as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between two groups.
    Pause(Instant),
    /// So many packets of the group have gone.
    Sending(u8),
    /// All have; the answer is to come until then, after so many questions.
    Listening {
        until: Instant,
        asked: u32,
    },
    /// A question has to go.
    Asking {
        asked: u32,
    },
    Ended,
}

/// Sends one group after another.
#[derive(Debug)]
pub struct Prober {
    groups: VecDeque<Group>,
    pause: Duration,
    timeout: Duration,
    /// Octets of IP and UDP headers.
    header_octets: u32,
    session: u32,
    group: u16,
    stage: Stage,
    /// Longest time from the first packet of a group to the report, as it was and for each octet
    /// of the group.
    longest: Option<(Duration, Duration)>,
    /// Groups without any answer, the last ones.
    unanswered: u32,
    began: Instant,
    current: Option<PairRecord>,
    records: Vec<PairRecord>,
    pauses: Stream,
    content: Content,
}

impl Prober {
    /// Questions about a group.
    const QUESTIONS_MAX: u32 = 3;
    /// Groups in a row without an answer after which nobody is there.
    const UNANSWERED_MAX: u32 = 3;
    /// However fast the path was so far: a packet may be late once.
    const PATIENCE_MIN: Duration = Duration::from_secs(1);

    /// A prober that begins at `start`. `header_octets` are those of IP and UDP: 28 or 48.
    pub fn new(campaign: &PairCampaign, session: u32, header_octets: u32, start: Instant) -> Self {
        Self {
            groups: campaign.groups().into(),
            pause: campaign.pause,
            timeout: campaign.timeout,
            header_octets,
            session,
            group: 0,
            stage: Stage::Pause(start),
            longest: None,
            unanswered: 0,
            began: start,
            current: None,
            records: Vec::new(),
            pauses: Stream::new(campaign.seed, "pair.pauses"),
            content: Content::new(campaign.seed, "pair"),
        }
    }

    /// Whether there is nothing more to do.
    pub const fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Whether it gave up because no answer came to several groups.
    pub const fn is_unanswered(&self) -> bool {
        self.unanswered >= Self::UNANSWERED_MAX
    }

    /// What has been measured so far.
    pub fn records(&self) -> &[PairRecord] {
        &self.records
    }

    /// When [`Self::poll_transmit`] may have something to send.
    pub const fn wake(&self) -> Option<Instant> {
        match self.stage {
            Stage::Pause(until) | Stage::Listening { until, .. } => Some(until),
            Stage::Sending(_) | Stage::Asking { .. } => Some(Instant::ZERO),
            Stage::Ended => None,
        }
    }

    /// Appends the payload of the next datagram, if one is to go at `now`, and says so. To be
    /// called until it says no.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.proceed(now);
        match self.stage {
            Stage::Sending(index) => self.send(now, index, out),
            Stage::Asking { asked } => {
                let Some(head) = self.head() else {
                    return false;
                };
                Datagram::Question(head).emit(out);
                self.stage = Stage::Listening {
                    until: now + self.patience(),
                    asked: asked + 1,
                };
                true
            }
            _ => false,
        }
    }

    /// Goes where time leads.
    fn proceed(&mut self, now: Instant) {
        match self.stage {
            Stage::Pause(until) if until <= now => {
                let Some(group) = self.groups.front() else {
                    self.stage = Stage::Ended;
                    return;
                };
                self.began = now;
                self.current = Some(PairRecord {
                    octets: group.octets,
                    began_ns: now.as_nanos(),
                    sent_ns: Vec::new(),
                    arrived_ns: Vec::new(),
                });
                self.stage = Stage::Sending(0);
            }
            Stage::Listening { until, asked } if until <= now => {
                if asked < Self::QUESTIONS_MAX {
                    self.stage = Stage::Asking { asked };
                } else {
                    self.unanswered += 1;
                    self.conclude(now, Vec::new());
                }
            }
            _ => {}
        }
    }

    fn head(&self) -> Option<Head> {
        self.groups.front().map(|group| Head {
            session: self.session,
            group: self.group,
            packets: group.packets,
        })
    }

    fn send(&mut self, now: Instant, index: u8, out: &mut Vec<u8>) -> bool {
        let (Some(head), Some(record)) = (self.head(), &mut self.current) else {
            return false;
        };
        Datagram::Probe(head, index).emit(out);
        let payload = record.octets.saturating_sub(self.header_octets) as usize;
        let place = (u64::from(self.group) * 64 + u64::from(index)) << 16;
        let fill = payload.saturating_sub(HEAD_OCTETS);
        self.content.append(place, fill, out);
        record.sent_ns.push(now.since(self.began).as_nanos() as u64);
        self.stage = if index + 1 < head.packets {
            Stage::Sending(index + 1)
        } else {
            Stage::Listening {
                until: now + self.patience(),
                asked: 0,
            }
        };
        true
    }

    /// Octets of the group under way.
    fn octets(&self) -> u32 {
        let group = self.groups.front();
        group.map_or(1, |group| group.octets * u32::from(group.packets))
    }

    /// How long to wait for an answer: three times what the slowest has taken, and not less for
    /// a larger group.
    fn patience(&self) -> Duration {
        let Some((whole, each)) = self.longest else {
            return self.timeout;
        };
        let slowest = whole.max(each.saturating_mul(self.octets()));
        let patience = slowest.saturating_mul(3).max(Self::PATIENCE_MIN);
        patience.min(self.timeout)
    }

    /// Takes a datagram in; false if it is nothing for this measurement.
    pub fn handle(&mut self, now: Instant, octets: &[u8]) -> bool {
        let Ok(Datagram::Report(report)) = Datagram::parse(octets) else {
            return false;
        };
        if !matches!(self.stage, Stage::Listening { .. } | Stage::Asking { .. })
            || Some(report.head) != self.head()
        {
            // Of a group that was given up or answered before.
            return report.head.session == self.session;
        }
        let took = now.since(self.began);
        let (whole, each) = self.longest.unwrap_or_default();
        self.longest = Some((whole.max(took), each.max(took / self.octets())));
        self.unanswered = 0;
        self.conclude(now, report.arrived_ns);
        true
    }

    fn conclude(&mut self, now: Instant, arrived_ns: Vec<Option<u64>>) {
        if let Some(record) = self.current.take() {
            self.records.push(PairRecord {
                arrived_ns,
                ..record
            });
        }
        self.groups.pop_front();
        self.group = self.group.wrapping_add(1);
        self.stage = if self.groups.is_empty() || self.is_unanswered() {
            Stage::Ended
        } else {
            let most = self.pause.saturating_mul(5);
            Stage::Pause(now + self.pauses.exponential(self.pause).min(most))
        };
    }
}
