//! A point-to-point line: an asynchronous serial line, or a link that carries frames.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::id::Neighbours;
use strait_core::node::{Notice, PortState, Room, TxMeta};
use strait_core::time::{Duration, Instant};

use crate::config::LinkConfig;
use crate::half::Half;
use crate::stats::ChannelStats;
use crate::way::Way;
use crate::{Channel, Deliver, Heard, Medium, MediumEvent, PathId, Side, StationId, Transmission};
use strait_core::keys::KeyError;

/// A line between two ends, as a link file describes it.
///
/// * A **serial line** takes its octets one by one, or 20 µs of line time at once if that is more.
///   It keeps their order and spacing. What is sent in an outage vanishes.
/// * A **link for frames** takes a frame when the one before has left. It may lose it, alone or in
///   bursts, invert bits of it, duplicate it, delay it by jitter that keeps the order, or hold it
///   back so that later ones overtake. A frame any part of which leaves in an outage is lost.
/// * **Half duplex** lets one side send at a time, and the other one after it has heard the end and
///   a turnaround has passed. When both want to send they take turns of one frame (on a serial line
///   of 256 octets' time), or of `turn_max`. Collisions are not modelled: a side that sends without
///   having room waits for it.
///
/// Ports don't learn of outages, as with radio silence: the state stays up. A rate change takes
/// effect with the first octets that begin to leave after it.
///
/// On a half-duplex line only ask for room for a side that has something to send: a refusal is
/// remembered as that side's claim to the next turn.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Line {
    ways: [Way; 2],
    half: Option<Box<Half>>,
    /// The next scheduled change of which the ends haven't been told.
    change: Option<Instant>,
    /// What they are to be told.
    told: VecDeque<MediumEvent>,
    plugged: bool,
}

impl Line {
    /// Octets of a half-duplex serial line's turn, if the link file doesn't say.
    const TURN_OCTETS: u64 = 256;

    /// The line `name` of the run `seed`. Name and seed select its randomness.
    ///
    /// # Errors
    /// What [`LinkConfig::validate`] finds.
    pub fn new(config: &LinkConfig, name: &str, seed: u64) -> Result<Self, KeyError> {
        config.validate()?;
        if config.kind.is_shared() {
            return Err(NO_LINE);
        }
        let ways = Side::BOTH.map(|from| Way::new(config, from, name, seed));
        let half = config.half_duplex.map(|turns| {
            let turn_max = match turns.turn_max {
                Some(given) => given.0,
                None if config.kind.carries_octets() => {
                    config.line_rate(Side::A).time_for(Self::TURN_OCTETS)
                }
                None => Duration::ZERO,
            };
            let turnaround = turns.turnaround.map_or(Duration::ZERO, |time| time.0);
            Box::new(Half::new(turnaround, turn_max))
        });
        let mut line = Self {
            ways,
            half,
            told: VecDeque::new(),
            change: None,
            plugged: true,
        };
        line.change = line.next_change(Instant::ZERO);
        Ok(line)
    }

    /// Tells both ends.
    fn tell(&mut self, at: Instant, what: impl Fn(Side) -> Heard) {
        let events = Side::BOTH.map(|side| MediumEvent {
            at,
            station: StationId(side.index()),
            what: what(side),
        });
        self.told.extend(events);
    }

    /// The earliest moment at which `side` may begin, as far as known at `now`.
    fn ready(&self, now: Instant, side: Side) -> Instant {
        let free = self.ways[side.index()].free();
        self.half
            .as_ref()
            .map_or(free, |half| half.ready(now, side).max(free))
    }
}

const NO_LINE: KeyError = KeyError::new(
    "kind",
    "a shared channel is no line: here it can be \"serial\" or \"frames\"",
);

impl Channel for Line {
    fn room(&mut self, now: Instant, side: Side) -> Result<Room, Option<Instant>> {
        let ready = self.ready(now, side);
        if ready > now {
            if let Some(half) = &mut self.half {
                half.claim(side);
            }
            return Err(Some(ready));
        }
        Ok(Room {
            octets: self.ways[side.index()].quantum(now),
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, now: Instant, side: Side, octets: &mut [u8]) -> Transmission {
        let starts = now.max(self.ready(now, side));
        let way = &mut self.ways[side.index()];
        let sent = way.send(starts, octets);
        if let Some(half) = &mut self.half {
            half.took(side, sent.starts, sent.ends, way.delay());
        }
        sent
    }

    fn state(&self, now: Instant, side: Side) -> Option<PortState> {
        let way = &self.ways[side.index()];
        Some(PortState {
            tx_rate: way.rate(now),
            rx_rate: self.ways[side.other().index()].rate(now),
            frame_octets_max: way.frame_octets_max(),
            block: Duration::ZERO,
            latency: way.latency(),
            notice: Notice::NONE,
        })
    }

    fn next_change(&self, now: Instant) -> Option<Instant> {
        let changes = self.ways.iter().filter_map(|way| way.next_change(now));
        changes.min()
    }

    fn stats(&self, side: Side) -> &ChannelStats {
        &self.ways[side.index()].stats
    }
}

/// Two stations, numbered as the sides are, and one path.
impl Medium for Line {
    fn stations(&self) -> usize {
        2
    }

    fn room(&mut self, now: Instant, station: StationId) -> Result<Room, Option<Instant>> {
        Channel::room(self, now, side(station))
    }

    fn transmit(
        &mut self,
        now: Instant,
        station: StationId,
        _meta: &TxMeta,
        octets: &mut Vec<u8>,
        deliver: &mut Deliver<'_>,
    ) {
        let from = side(station);
        let sent = Channel::transmit(self, now, from, octets);
        let to = StationId(from.other().index());
        if let Some(fill) = sent.fill {
            octets.insert(0, fill);
        }
        if let Some(at) = sent.duplicate {
            deliver(at, to, &mut octets.clone());
        }
        if let Some(at) = sent.arrival {
            deliver(at, to, octets);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        match self.told.front() {
            Some(event) => Some(event.at),
            None => self.change,
        }
    }

    fn poll(&mut self, now: Instant) -> Option<MediumEvent> {
        if self.told.is_empty()
            && let Some(at) = self.change.filter(|at| *at <= now)
        {
            self.change = self.next_change(at);
            self.tell(at, |_| Heard::Changed);
        }
        self.told.pop_front()
    }

    fn state(&self, now: Instant, station: StationId) -> Option<PortState> {
        Channel::state(self, now, side(station)).filter(|_| self.plugged)
    }

    fn plug(&mut self, now: Instant, _path: PathId, there: bool) {
        if self.plugged != there {
            self.plugged = there;
            self.tell(now, |side| {
                Heard::Neighbour(StationId(side.other().index()), there)
            });
        }
    }

    fn heal(&mut self) {
        self.ways.iter_mut().for_each(Way::heal);
    }

    fn stats(&self, _path: PathId, from: Side) -> &ChannelStats {
        Channel::stats(self, from)
    }
}

const fn side(station: StationId) -> Side {
    match station.0 {
        0 => Side::A,
        _ => Side::B,
    }
}
