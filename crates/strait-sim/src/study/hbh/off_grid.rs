//! The part `off-grid` of the study `hbh`: a file over chains unlike the study's own, end to end
//! and with each link made reliable.

use serde::Deserialize;
use strait_channel::{LinkConfig, Side};
use strait_core::units::{BitRate, Share, Time};
use strait_node::config::PortConfig;
use strait_qos::PolicyConfig;
use strait_report::estimate::{mean, percentile};

use super::super::shown::Row;
use super::super::transfer::{self, Case, Ended, Gateways};
use super::super::{Asked, Measured, StudyError, begins};

/// `[off_grid]` of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OffGrid {
    /// How long a link takes for the file's octets.
    time: Time,
    /// How long a transfer may take.
    limit: Time,
    /// Runs of each.
    seeds: u64,
    /// The same if all is to be run.
    seeds_full: u64,
    /// Who sends.
    endpoints: Vec<String>,
    /// How gateways attach to links.
    port: PortConfig,
    /// Chains.
    worlds: Vec<Worlds>,
}

/// Chains of each of these numbers of links with each of these rates, delays and losses.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Worlds {
    /// What is so of all of them.
    name: String,
    links: Vec<usize>,
    rates: Vec<BitRate>,
    delays: Vec<Time>,
    /// By chance; none: as `link` has it.
    #[serde(default)]
    losses: Vec<Share>,
    /// The rest of each link.
    link: LinkConfig,
    /// Only if all is to be run.
    #[serde(default)]
    full: bool,
}

/// One chain.
struct World<'a> {
    name: &'a str,
    links: usize,
    link: LinkConfig,
}

impl Worlds {
    fn all(&self) -> Vec<World<'_>> {
        let mut all = Vec::new();
        let losses = match &self.losses[..] {
            [] => vec![None],
            losses => losses.iter().copied().map(Some).collect(),
        };
        for links in &self.links {
            for (rate, delay) in self
                .rates
                .iter()
                .flat_map(|rate| self.delays.iter().map(move |delay| (rate, delay)))
            {
                all.extend(losses.iter().map(|loss| World {
                    name: &self.name,
                    links: *links,
                    link: {
                        let mut link = self.link.clone();
                        link.both.rate = Some(*rate);
                        link.both.delay = Some(*delay);
                        link.both.loss = loss.or(link.both.loss);
                        link
                    },
                }));
            }
        }
        all
    }
}

impl World<'_> {
    fn case(&self, of: &OffGrid, endpoint: &str, reliable: bool, seeds: u64) -> Case {
        let rate = self.link.line_rate(Side::A);
        Case {
            link: self.link.clone(),
            links: self.links,
            endpoint: endpoint.into(),
            octets: rate.octets_in(of.time.0),
            buffer: None,
            start: strait_core::Duration::from_secs(5),
            limit: of.limit.0,
            step: transfer::STEP,
            seeds: 1..1 + seeds,
            gateways: reliable.then(|| Gateways {
                port: of.port.clone(),
                policy: PolicyConfig::default(),
            }),
        }
    }

    fn row(&self) -> Row {
        let rate = self.link.line_rate(Side::A).bit_s();
        let delay_s = self.link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
        Row::default()
            .with("world", self.name)
            .with("links", self.links)
            .with("rate_bit_s", rate)
            .with("delay_s", delay_s)
            .with("loss", self.link.loss.map(|loss| loss.0))
    }
}

/// The median time and the median of octets of some runs; no time if half of them were late.
struct Medians {
    time_s: Option<f64>,
    /// The mean of the times; late ones took all the time that there is.
    mean_s: f64,
    octets: f64,
}

impl Medians {
    fn of(runs: &[Ended], limit_s: f64) -> Self {
        let times = runs.iter().map(|run| run.time_s.unwrap_or(f64::INFINITY));
        let within: Vec<f64> = times.clone().map(|time_s| time_s.min(limit_s)).collect();
        let octets = runs.iter().map(|run| run.octets as f64);
        let median = |values: Vec<f64>| percentile(&values, 0.5);
        Self {
            time_s: median(times.collect()).filter(|time_s| time_s.is_finite()),
            mean_s: mean(&within).unwrap_or(limit_s),
            octets: median(octets.collect()).unwrap_or(0.0),
        }
    }
}

impl OffGrid {
    /// The times of each sender over reliable links, in proportion to the fastest of all end to
    /// end, and their mean in proportion to its own end to end. A sender that is late there has
    /// taken all the time that there is.
    fn row(&self, row: Row, plain: &[Medians], reliable: &[Medians]) -> Row {
        let limit_s = self.limit.0.as_secs_f64();
        let time_s = |of: &&Medians| of.time_s.unwrap_or(limit_s);
        let fastest = plain
            .iter()
            .min_by(|one, other| time_s(one).total_cmp(&time_s(other)));
        let least_s = fastest.map_or(limit_s, |it| time_s(&it));
        let mut row = row;
        for (endpoint, (plain, own)) in self.endpoints.iter().zip(plain.iter().zip(reliable)) {
            row = row
                .with(format!("plain.{endpoint}_s"), plain.time_s)
                .with(format!("strait.{endpoint}_s"), own.time_s);
        }
        let pairs = plain.iter().zip(reliable);
        let own = pairs.map(|(plain, own)| own.mean_s / plain.mean_s);
        let own = own.fold(0.0, f64::max);
        let slowest = reliable.iter().map(|it| it.time_s);
        let slowest: Option<Vec<f64>> = slowest.collect();
        let slowest_s = slowest.and_then(|all| all.into_iter().reduce(f64::max));
        let most = reliable.iter().map(|it| it.octets).reduce(f64::max);
        let ends = fastest.filter(|it| it.time_s.is_some());
        row.with("slowest_s", slowest_s)
            .with("time_ratio", slowest_s.map(|it| it / least_s))
            .with("own_ratio", own)
            .with("plain", if ends.is_some() { "ends" } else { "late" })
            .with(
                "octets_ratio",
                ends.zip(most).map(|(plain, most)| most / plain.octets),
            )
    }

    /// Every chain, by everybody who sends, end to end and over reliable links.
    pub(super) fn run(&self, asked: &Asked<'_>, measured: &mut Measured) -> Result<(), StudyError> {
        let (full, seeds) = (asked.full, [self.seeds, self.seeds_full]);
        let worlds = self.worlds.iter().filter(|it| full || !it.full);
        let worlds: Vec<World<'_>> = worlds.flat_map(Worlds::all).collect();
        let mut cases = Vec::new();
        for world in &worlds {
            for reliable in [false, true] {
                let senders = self.endpoints.iter();
                let seeds = seeds[usize::from(full)];
                cases.extend(senders.map(|it| world.case(self, it, reliable, seeds)));
            }
        }
        let cases = transfer::of_seeds(asked, cases);
        begins(asked, "hbh-off-grid", transfer::count(&cases))?;
        let runs = transfer::run(&cases, false, || asked.outside.done())?;
        measured.fold(runs.iter().flatten().map(|run| run.hash));
        let odd = runs.iter().flatten();
        let odd = odd.map(|run| (run.unexplained + run.wrong_octets) as f64);
        let odd: Vec<f64> = odd.collect();
        let limit_s = self.limit.0.as_secs_f64();
        let medians = runs.iter().map(|runs| Medians::of(runs, limit_s));
        let medians: Vec<Medians> = medians.collect();
        let both = medians.chunks(2 * self.endpoints.len());
        let rows = worlds.iter().zip(both).map(|(world, medians)| {
            let (plain, reliable) = medians.split_at(self.endpoints.len());
            self.row(world.row(), plain, reliable)
        });
        measured.parts.insert("off-grid", rows.collect());
        let odd = vec![Row::default().with("odd", odd)];
        measured.parts.insert("off-grid-runs", odd);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off_grid() -> OffGrid {
        let text = include_str!("../../../../../scenarios/studies/hbh.toml");
        let study = super::super::read::<super::super::HbhStudy>("hbh.toml", text);
        study.unwrap().0.off_grid.unwrap()
    }

    fn medians(time_s: Option<f64>, octets: f64) -> Medians {
        Medians {
            time_s,
            mean_s: time_s.unwrap_or(800.0),
            octets,
        }
    }

    #[test]
    fn whoever_is_slowest_counts_against_whoever_is_fastest() {
        let of = off_grid();
        let row = |plain: [Option<f64>; 2], reliable: [Option<f64>; 2]| {
            let all = |times: [Option<f64>; 2]| times.map(|it| medians(it, it.unwrap_or(1.0)));
            of.row(Row::default(), &all(plain), &all(reliable))
        };
        let both = row([Some(20.0), Some(10.0)], [Some(15.0), Some(5.0)]);
        assert_eq!(both.median("time_ratio"), Some(1.5));
        assert_eq!(both.median("octets_ratio"), Some(1.5));
        assert_eq!(both.median("own_ratio"), Some(0.75));
        let late = row([None, None], [Some(15.0), Some(5.0)]);
        let limit_s = of.limit.0.as_secs_f64();
        assert_eq!(late.median("time_ratio"), Some(15.0 / limit_s));
        assert_eq!(late.median("octets_ratio"), None);
        assert_eq!(late.word("plain"), Some("late"));
        let never = row([Some(20.0), None], [None, Some(5.0)]);
        assert_eq!(never.median("time_ratio"), None);
    }

    #[test]
    fn worlds_are_all_that_their_lists_make() {
        let of = off_grid();
        for worlds in &of.worlds {
            let all = worlds.all();
            let lists = [
                worlds.rates.len(),
                worlds.delays.len(),
                worlds.losses.len().max(1),
            ];
            let count = worlds.links.len() * lists.iter().product::<usize>();
            assert_eq!(all.len(), count, "{}", worlds.name);
        }
    }
}
