//! The part `ways`: packet pairs by other ways than one line between two adapters.

use strait_core::Duration;
use strait_core::units::{BitRate, Octets, Time};
use strait_node::config_text;
use strait_scenario::Scenario;
use strait_traffic::{Family, Kind, TrafficKeys};

use super::super::scenario::load;
use super::super::shown::Row;
use super::super::{Asked, Measured, StudyError, run_all};
use super::{FIFO, SEED, sorted_out, traffic};
use crate::build::BuildError;
use crate::run::Run;

/// A way from `ha` to `hb`.
struct Way {
    /// Its name in tables.
    name: &'static str,
    /// A scenario that has it, by its path in `scenarios/`.
    file: &'static str,
    /// Without adapters.
    fifo: bool,
    /// What its addresses are.
    family: Family,
}

const WAYS: [Way; 5] = [
    Way::of("no adapter", "lab/adapter.toml", true, Family::V6),
    Way::of(
        "one pair of adapters",
        "lab/adapter.toml",
        false,
        Family::V6,
    ),
    Way::of(
        "two pairs in a row",
        "lab/adapters-in-a-row.toml",
        false,
        Family::V6,
    ),
    Way::of(
        "a pair within a pair",
        "lab/adapters-nested.toml",
        false,
        Family::V6,
    ),
    Way::of("two HF stations", "hf/ip.toml", false, Family::V4),
];

/// Octets of the IP packets of the backlog.
const BACKLOG_OCTETS: f64 = 1400.0;
/// Pairs have the way to themselves until then: over HF, each waits for turns.
const BACKLOG_START: Duration = Duration::from_secs(2500);
/// One packet more or less is 0.3 % of what comes in this time at 9600 baud.
const BACKLOG_SPAN: Duration = Duration::from_secs(600);

impl Way {
    const fn of(name: &'static str, file: &'static str, fifo: bool, family: Family) -> Self {
        Self {
            name,
            file,
            fifo,
            family,
        }
    }

    /// Pairs of every size, and then datagrams that are always there.
    fn traffic(&self) -> Vec<TrafficKeys> {
        let headers = match self.family {
            Family::V4 => 28,
            Family::V6 => 48,
        };
        let family = self.family;
        vec![
            TrafficKeys {
                family,
                start: Time(Duration::from_secs(1)),
                count: Some(10),
                timeout: Some(Time(Duration::from_secs(60))),
                trains: Some(4),
                train: Some(5),
                ..traffic("pairs", Kind::Pair, [0, 1])
            },
            TrafficKeys {
                family,
                start: Time(BACKLOG_START),
                stop: Some(Time(BACKLOG_START + BACKLOG_SPAN)),
                payload: Some(Octets(BACKLOG_OCTETS as u64 - headers)),
                rate: Some(BitRate(9600)),
                ..traffic("backlog", Kind::Udp, [0, 1])
            },
        ]
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Run, BuildError> {
        let mut loaded = load(self.file)?;
        let scenario = &mut loaded.scenario;
        scenario.traffic = sorted_out(self.traffic())?;
        scenario.duration = Time(BACKLOG_START + BACKLOG_SPAN + Duration::from_secs(100));
        scenario.faults.clear();
        scenario.expectations.clear();
        let mut variant = Scenario::BASE;
        if self.fifo {
            scenario.variants = vec![config_text::parse("fifo", FIFO)?];
            variant = "fifo";
        }
        let case = format!("na-ways-{}", self.name);
        asked.run((&case, true), (&loaded, variant), asked.seed(SEED))
    }

    fn row(&self, run: &Run) -> Row {
        let metric = |name: &str| run.metrics.get(name).copied();
        let payload = self.traffic()[1].payload.map_or(0.0, |it| it.0 as f64);
        let backlog = metric("backlog.rate_bit_s").map(|rate| rate * BACKLOG_OCTETS / payload);
        let pairs = metric("pairs.rate_bit_s");
        let error = pairs
            .zip(backlog)
            .map(|(pairs, backlog)| pairs / backlog - 1.0);
        Row::default()
            .with("way", self.name)
            .with("pairs_bit_s", pairs)
            .with("pairs_half_bit_s", metric("pairs.rate_half_width_bit_s"))
            .with("trains_bit_s", metric("pairs.train_bit_s"))
            .with("gradient_bit_s", metric("pairs.gradient_bit_s"))
            .with("backlog_bit_s", backlog)
            .with("error", error)
            .with("unexplained", run.unexplained)
    }
}

/// A row for each way.
pub(super) fn run(asked: &Asked<'_>, measured: &mut Measured) -> Result<(), StudyError> {
    let runs = run_all(asked, "na-ways", &WAYS, |way| way.run(asked))?;
    measured.fold_whole(runs.iter().map(|run| run.hash));
    let rows = WAYS.iter().zip(&runs).map(|(way, run)| way.row(run));
    measured.parts.insert("ways", rows.collect());
    Ok(())
}
