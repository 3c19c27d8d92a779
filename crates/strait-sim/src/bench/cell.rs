//! How fast a cell of packet radio is, by itself.

use strait_channel::cell::CellConfig;
use strait_channel::{Heard, LinkConfig, Medium, PathId, Side, StationId};
use strait_core::id::{ClassId, NeighbourId, TxId};
use strait_core::node::TxMeta;
use strait_core::{Duration, Instant};

/// A cell whose stations always have a frame to send, each to the next one in its cluster, without
/// nodes, queues and frames' contents.
pub struct Saturated {
    medium: Box<dyn Medium>,
    /// Of one cluster.
    stations: usize,
    done: u64,
    now: Instant,
}

/// Octets of each frame; the rate of frames, in bit/s.
const OCTETS: usize = 200;
const RATE_BIT_S: u64 = 11_000_000;
/// From one cluster to the next, in metres: nobody hears the other one.
const APART: f64 = 1000.0;

impl Saturated {
    /// So many clusters of so many stations, which hear those of their own.
    ///
    /// # Errors
    /// None: the keys are those of a cell.
    pub fn new(clusters: usize, stations: usize) -> Result<Self, strait_core::keys::KeyError> {
        let place = |number: usize| [(number / stations) as f64 * APART, number as f64 % 7.0];
        let cell = CellConfig {
            places: (0..clusters * stations).map(place).collect(),
            ..CellConfig::default()
        };
        let config = LinkConfig::cell(RATE_BIT_S, cell);
        let mut medium = config.medium("cell", 1)?;
        for number in 0..clusters * stations {
            medium.add_station(&config, Side::A, &format!("s{number}"), 1)?;
        }
        for a in 0..clusters * stations {
            for b in a + 1..clusters * stations {
                let [a, b] = [a, b].map(StationId);
                medium.add_path([a, b], &config, "path", 1)?;
                medium.introduce(a, NeighbourId(b.0 as u16), b);
                medium.introduce(b, NeighbourId(a.0 as u16), a);
            }
        }
        let mut saturated = Self {
            medium,
            stations,
            done: 0,
            now: Instant::ZERO,
        };
        for number in 0..clusters * stations {
            saturated.fill(StationId(number));
        }
        Ok(saturated)
    }

    fn fill(&mut self, station: StationId) {
        let StationId(number) = station;
        let first = number - number % self.stations;
        let to = first + (number + 1 - first) % self.stations;
        let meta = TxMeta {
            to: NeighbourId(to as u16),
            class: ClassId(0),
            id: TxId(0),
            turn: None,
        };
        if self.medium.room(self.now, station).is_ok() {
            let mut frame = vec![0; OCTETS];
            let medium = &mut self.medium;
            medium.transmit(self.now, station, &meta, &mut frame, &mut |_, _, _| {});
        }
    }

    /// Runs it on for so long. Receptions since: a station that hears a frame or an
    /// acknowledgement to its end, whatever it understands of it.
    pub fn run(&mut self, time: Duration) -> u64 {
        let before = self.receptions();
        let until = self.now + time;
        while let Some(at) = self.medium.next_event().filter(|at| *at <= until) {
            self.now = at;
            while let Some(event) = self.medium.poll(at) {
                if let Heard::Done { ok, .. } = event.what {
                    self.done += u64::from(ok);
                    self.fill(event.station);
                }
            }
        }
        self.receptions() - before
    }

    /// What the time on the air and the acknowledgements come to.
    fn receptions(&self) -> u64 {
        let stations = self.medium.stations();
        let paths = (0..stations * (stations - 1) / 2).map(PathId);
        let ways = paths.flat_map(|path| [Side::A, Side::B].map(|side| (path, side)));
        let busy_ns: u64 = ways
            .map(|(path, side)| self.medium.stats(path, side).busy_ns)
            .sum();
        // A preamble, and 36 octets around a packet.
        let frame_ns = 192_000 + (OCTETS as u64 + 36) * 8_000_000_000 / RATE_BIT_S;
        (busy_ns / frame_ns + self.done) * (self.stations as u64 - 1)
    }
}

/// The least that a medium does for a reception, to compare with: for each transmission, one of so
/// many stations is written to another state than before.
#[derive(Debug)]
pub struct BareAir(Vec<(u64, u32)>);

impl BareAir {
    /// So many stations.
    pub fn new(stations: usize) -> Self {
        Self(vec![(0, 0); stations])
    }

    /// So many receptions; a number that depends on each.
    pub fn run(&mut self, receptions: u64) -> u64 {
        let mut sum = 0;
        for at in 0..receptions.div_ceil(self.0.len() as u64) {
            for (clear, busy) in &mut self.0 {
                *busy ^= 1;
                *clear = (*clear).max(at + u64::from(*busy));
            }
            sum ^= self.0[at as usize % self.0.len()].0;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_do_not_hear_each_other_count_as_many_receptions_each() {
        let count = |clusters| {
            let mut cell = Saturated::new(clusters, 10).unwrap();
            cell.run(Duration::from_secs(1)) as f64
        };
        let (one, four) = (count(1), count(4));
        assert!(
            one > 10_000.0 && (four / one / 4.0 - 1.0).abs() < 0.05,
            "{one} {four}"
        );
    }
}
