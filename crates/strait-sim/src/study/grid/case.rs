//! Worlds that are named: alike transfers, with small packets beside them.

use serde::Deserialize;
use strait_core::units::{BitRate, Time};
use strait_report::estimate::percentile;

use super::judge::Quantity;
use super::world::{FRAME_MTU_OCTETS, World};
use super::{Alternative, FLOWS_MAX, GridStudy, OCTETS_MAX};
use crate::build::BuildError;
use crate::run::run_plain;
use crate::study::shown::Row;
use crate::study::{Asked, Measured, StudyError, run_all};

/// A world for each of these rates, delays and senders.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Its name in tables.
    name: String,
    /// Which line.
    line: String,
    rates: Vec<BitRate>,
    /// One way.
    delays: Vec<Time>,
    endpoints: Vec<String>,
    /// Transfers of equal length that begin within a second.
    pub(super) transfers: u64,
    /// For how many of the longest packets they fill the line; as the study's worlds if absent.
    pub(super) packets: Option<u64>,
    /// Beside them datagrams of 40 octets, and echo requests of 56 with their replies, such as a
    /// terminal's keystrokes are.
    #[serde(default)]
    pub(super) small: bool,
}

/// IP and UDP headers, or those of an echo request, and what a line puts around a packet.
const AROUND_DATAGRAM: f64 = 28.0 + 7.0;
/// Headers of TCP with timestamps in IPv4.
const AROUND_SEGMENT: f64 = 52.0;
pub(super) const DATAGRAM_OCTETS: u64 = 40;
const ECHO_OCTETS: f64 = 56.0;
/// What a small packet waits for at most: the packet that leaves when it comes, and one that went
/// before.
const PACKETS_BEFORE: f64 = 2.0;

impl Case {
    pub(super) fn fault(&self, study: &GridStudy) -> Option<String> {
        let longest_s = study.time.0.max(study.time_max.0).as_secs_f64();
        let fills = |rate: &BitRate| rate.0 as f64 / 8.0 * longest_s;
        let name = &self.name;
        if study.lines.iter().all(|line| line.name != self.line) {
            return Some(format!(
                "[[case]] {name}: there is no [[line]] `{}`",
                self.line
            ));
        }
        if !(1..=FLOWS_MAX).contains(&self.transfers) {
            return Some(format!(
                "[[case]] {name}: `transfers` has to be 1 to {FLOWS_MAX}"
            ));
        }
        let mut rates = self.rates.iter();
        if rates.any(|rate| rate.0 == 0 || fills(rate) > OCTETS_MAX as f64) {
            return Some(format!(
                "[[case]] {name}: a rate is 0, or too high for so long a `time`"
            ));
        }
        let mut delays = self.delays.iter();
        let longest = Time(strait_core::Duration::from_secs(3600));
        let wrong = delays.any(|delay| delay.0.is_zero() || delay.0 > longest.0);
        wrong.then(|| format!("[[case]] {name}: `delays` have to be above 0 and {longest} at most"))
    }

    pub(super) fn worlds(&self, study: &GridStudy) -> Vec<World> {
        let line = study.lines.iter().position(|line| line.name == self.line);
        let mut worlds = Vec::new();
        for rate in &self.rates {
            for delay in &self.delays {
                for endpoint in &self.endpoints {
                    let line = line.unwrap_or(0);
                    worlds.push(World::alike(study, line, (*rate, *delay), self, endpoint));
                }
            }
        }
        worlds
    }
}

/// One case's world in one column.
struct Job<'a> {
    case: &'a Case,
    world: World,
    alternative: Option<&'a Alternative>,
}

/// What its runs came to.
struct Ran {
    figures: Vec<Vec<f64>>,
    hashes: Vec<u64>,
    unexplained: u64,
}

impl Job<'_> {
    fn run(&self, study: &GridStudy) -> Result<Ran, BuildError> {
        let loaded = self.world.scenario(study, self.alternative)?;
        let mut ran = Ran {
            figures: Vec::new(),
            hashes: Vec::new(),
            unexplained: 0,
        };
        for seed in 1..=study.runs {
            let run = run_plain(&loaded, "strait", seed)?;
            ran.figures.push(self.world.figures(&run.metrics));
            ran.hashes.push(run.hash);
            ran.unexplained += run.unexplained;
        }
        Ok(ran)
    }

    /// When the last transfer ended, of each run.
    fn last_s(&self, ran: &Ran) -> Vec<f64> {
        let last = |times: Vec<f64>| times.into_iter().fold(0.0, f64::max);
        self.figures(ran, "file", Quantity::Time)
            .into_iter()
            .map(last)
            .collect()
    }

    /// Of each run, these figures of all flows with such a name.
    fn figures(&self, ran: &Ran, flow: &str, wanted: Quantity) -> Vec<Vec<f64>> {
        let quantities = self.world.quantities();
        let is_wanted = |place: &usize| {
            let (quantity, metric) = &quantities[*place];
            *quantity == wanted && metric.starts_with(flow)
        };
        let places: Vec<usize> = (0..quantities.len()).filter(is_wanted).collect();
        let runs = ran.figures.iter();
        runs.map(|run| places.iter().map(|place| run[*place]).collect())
            .collect()
    }

    /// `first` is what the first of the alternatives came to.
    fn row(&self, ran: &Ran, first: &[f64]) -> Row {
        let times = self.figures(ran, "file", Quantity::Time);
        let least = |times: &Vec<f64>| times.iter().copied().fold(f64::INFINITY, f64::min);
        let middle = |times: &Vec<f64>| percentile(times, 0.5).unwrap_or(f64::INFINITY);
        let last_s = self.last_s(ran);
        let share = first.iter().zip(&last_s).map(|(first, own)| first / own);
        let (world, limit_s) = (&self.world, self.limit_s());
        let beyond = last_s.iter().map(|last_s| last_s / limit_s);
        let row = Row::default()
            .with("case", self.case.name.as_str())
            .with("rate_bit_s", world.carries_bit_s())
            .with("delay_s", world.delay_s())
            .with("endpoint", world.endpoint())
            .with("queue", self.alternative.map_or("own", |it| &it.name))
            .with("first_s", times.iter().map(least).collect::<Vec<_>>())
            .with("middle_s", times.iter().map(middle).collect::<Vec<_>>())
            .with("last_s", last_s.clone())
            .with("limit_s", limit_s)
            .with("beyond_limit", beyond.collect::<Vec<_>>())
            .with("share", share.collect::<Vec<_>>())
            .with("unexplained", ran.unexplained);
        let row = self.small(row, ran, "small", 1.0, DATAGRAM_OCTETS as f64);
        self.small(row, ran, "ping", 2.0, ECHO_OCTETS)
    }

    /// What a flow of small packets came to that go so many ways.
    fn small(&self, row: Row, ran: &Ran, flow: &str, ways: f64, octets: f64) -> Row {
        let of = |wanted| {
            let figures = self.figures(ran, flow, wanted).concat();
            self.case.small.then_some(figures)
        };
        let own_s = (octets + AROUND_DATAGRAM) * 8.0 / self.world.carries_bit_s();
        let least_s = ways * (self.world.delay_s() + own_s);
        let bound_s = least_s + PACKETS_BEFORE * self.world.longest_s();
        let within = of(Quantity::Delay)
            .map(|delays| delays.iter().map(|it| it / bound_s).collect::<Vec<_>>());
        row.with(format!("{flow}_s"), of(Quantity::Delay))
            .with(format!("{flow}_bound_s"), bound_s)
            .with(format!("{flow}_of_bound"), within)
            .with(format!("{flow}_loss"), of(Quantity::Loss))
    }

    /// What the line takes for all of the transfers, with a packet's headers and the ways of a
    /// connection's beginning.
    fn limit_s(&self) -> f64 {
        let longest = FRAME_MTU_OCTETS as f64;
        let headers = longest / (longest - AROUND_SEGMENT);
        let octets = self.world.octets() as f64 * headers;
        octets * 8.0 / self.world.carries_bit_s() + 3.0 * self.world.delay_s()
    }
}

/// Adds the part `cases`.
pub(super) fn run(
    study: &GridStudy,
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let mut jobs = Vec::new();
    for case in &study.cases {
        for world in case.worlds(study) {
            let others = study.alternatives.iter().map(Some);
            let columns = [None].into_iter().chain(others);
            jobs.extend(columns.map(|alternative| Job {
                case,
                world: world.clone(),
                alternative,
            }));
        }
    }
    if jobs.is_empty() {
        return Ok(());
    }
    let runs = run_all(asked, "cases", &jobs, |job| job.run(study))?;
    measured.fold(runs.iter().flat_map(|ran| ran.hashes.iter().copied()));
    let columns = 1 + study.alternatives.len();
    let mut rows = Vec::new();
    for (jobs, runs) in jobs.chunks(columns).zip(runs.chunks(columns)) {
        let first = jobs.get(1).zip(runs.get(1));
        let first = first.map_or_else(Vec::new, |(job, ran)| job.last_s(ran));
        rows.extend(jobs.iter().zip(runs).map(|(job, ran)| job.row(ran, &first)));
    }
    measured.parts.insert("cases", rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::read;

    const TEXT: &str = include_str!("../../../../../scenarios/studies/leaf.toml");

    #[test]
    fn worlds_of_leaf_have_as_many_flows_as_the_line_has_time_for() {
        let (study, _) = read::<GridStudy>("leaf.toml", TEXT).unwrap();
        (0..300).for_each(|number| study.world(number).assert_within(&study));
    }

    #[test]
    fn a_case_has_the_figures_of_its_flows_in_each_column() {
        let (mut study, _) = read::<GridStudy>("leaf.toml", TEXT).unwrap();
        study.cases.retain(|case| case.name == "three uploads");
        let job = |alternative| Job {
            case: &study.cases[0],
            world: study.cases[0].worlds(&study)[0].clone(),
            alternative,
        };
        let (own, fifo) = (job(None), job(study.alternatives.first()));
        let [ran, first] = [&own, &fifo].map(|job| job.run(&study).unwrap());
        assert_eq!((ran.unexplained, first.unexplained), (0, 0));
        let row = own.row(&ran, &fifo.last_s(&first));
        assert_eq!(row.word("queue"), Some("own"));
        let of = |name: &str| row.median(name).unwrap();
        assert!(of("first_s") <= of("middle_s") && of("middle_s") <= of("last_s"));
        assert!(of("last_s") > 0.9 * of("limit_s"));
        // In one queue for all the datagrams wait for the uploads.
        let beside = fifo.row(&first, &[]);
        assert!(beside.median("small_s").unwrap() > 5.0 * of("small_s"));
    }

    #[test]
    fn wrong_cases_are_told() {
        for (right, wrong, told) in [
            ("transfers = 3", "transfers = 65", "`transfers`"),
            ("transfers = 3", "transfers = 0", "`transfers`"),
            ("[\"28800 bit/s\"]", "[\"0 bit/s\"]", "is no bit rate"),
            ("[\"28800 bit/s\"]", "[\"90 Gbit/s\"]", "too high"),
            ("[\"202 ms\"]", "[\"0 ms\"]", "`delays`"),
            ("[\"202 ms\"]", "[\"3601 s\"]", "`delays`"),
        ] {
            assert!(TEXT.contains(right), "{right}");
            let text = TEXT.replace(right, wrong);
            let error = read::<GridStudy>("my.toml", &text).map(drop).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
        }
        let text = TEXT.replace(
            "name = \"two files\"\nline = \"frames\"",
            "name = \"two files\"\nline = \"frame\"",
        );
        let error = read::<GridStudy>("my.toml", &text).map(drop).unwrap_err();
        assert!(error.to_string().contains("no [[line]] `frame`"), "{error}");
    }
}
