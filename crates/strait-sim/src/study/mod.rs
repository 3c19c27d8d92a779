//! Studies: references, what runs in virtual time, and what this host gives live, side by side.
//!
//! A study is a file in `scenarios/studies/`, which the program brings along, and a type that reads
//! it and makes rows of named values of it. Tables and checks of these rows are the file's.

pub mod fair;
mod grid;
mod hbh;
mod hf;
mod hf_adapt;
mod hf_calls;
mod hf_ip;
mod hf_net_delay;
mod hf_net_rule;
mod hf_nets;
mod hf_rate;
mod hf_wait;
mod htb;
mod limits;
mod manet;
mod messaging;
mod na;
mod na_local;
mod na_neighbours;
mod na_pairs;
mod policing;
mod pressure;
mod proxy;
mod scenario;
mod seeing;
mod shares;
mod shown;
mod tcp;
pub mod transfer;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use serde::de::DeserializeOwned;
use strait_core::hash::RunHash;
use strait_node::config_text::ConfigError;
use strait_report::table::{Check, ResultSet, RunHashText};
use strait_scenario::{Loaded, Scenario};
use strait_status::Snapshot;

use crate::build::BuildError;
use crate::parallel::parallel;
use crate::run::{Run, run_once, run_plain};
use crate::world::World;

pub use self::hbh::cases_of;
pub use self::shares::{Share, ShareCase, ShareFlow};
use self::shown::{Expect, Parts, Row, Shapes, Shown};
pub use self::transfer::Case;

/// How a study is run.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Every run and the whole sizes.
    pub full: bool,
    /// With what runs live.
    pub live: bool,
    /// With captures of the first run of each case.
    pub captures: bool,
    /// With figures.
    pub figures: bool,
    /// Runs have other seeds, which follow from this.
    pub seed: Option<u64>,
    /// Whoever waits for it.
    pub outside: &'a dyn Outside,
}

/// So far apart are the seeds of a study's runs by [`Asked::seed`].
const SEEDS_APART: u64 = 1_000_000;

impl Asked<'_> {
    /// The seed of a run that has `own` where no other is asked for.
    fn seed(&self, own: u64) -> u64 {
        own.wrapping_add(self.seed.unwrap_or(0).wrapping_mul(SEEDS_APART))
    }

    /// Runs one variant for its metrics, with captures named after the case if it is asked for
    /// them and `is_first` of the case's runs.
    fn run(
        &self,
        (case, is_first): (&str, bool),
        (loaded, variant): (&Loaded, &str),
        seed: u64,
    ) -> Result<Run, BuildError> {
        if !(self.captures && is_first) {
            return run_plain(loaded, variant, seed);
        }
        let mut run = run_once(loaded, variant, seed, true)?;
        self.captured(case, take(&mut run.captures));
        Ok(run)
    }

    /// Has a world record what its ports send, if captures are wanted. [`Asked::keep`] ends it.
    fn watch(&self, world: &mut World) {
        if self.captures {
            world.capture();
        }
    }

    /// Gives away what [`Asked::watch`] recorded.
    fn keep(&self, case: &str, world: &mut World) {
        if self.captures {
            self.captured(case, world.take_captures());
        }
    }

    /// Gives away the captures of a case.
    fn captured(&self, case: &str, captures: BTreeMap<String, Vec<u8>>) {
        // A case is called as in its table.
        let case = case.replace(", ", "-").replace([' ', '/'], "-");
        for (name, octets) in captures {
            self.outside.captured(&format!("{case}-{name}"), &octets);
        }
    }
}

/// What a study needs from outside of virtual time.
pub trait Outside: Sync {
    /// So many runs of a part begin.
    fn begins(&self, part: &str, runs: usize);
    /// One of them has ended.
    fn done(&self);
    /// What was sent in a run, as a capture of this file name.
    fn captured(&self, name: &str, octets: &[u8]);
    /// What each flow of each case gets of this kernel's queues; nothing where there are none.
    fn shares(&self, study: &str, cases: &[ShareCase]) -> Vec<Vec<Share>>;
    /// One live transfer for each seed of each of these cases, with a congestion control each;
    /// nothing where there can be none.
    fn transfers(&self, study: &str, cases: &[(Case, String)]) -> Vec<Sent>;
    /// The traffic `file` of each of these scenarios, so many at a time, and all that was measured
    /// there; nothing where there can be none.
    ///
    /// # Errors
    /// What has failed where labs can be.
    fn labs(&self, study: &str, labs: Vec<Loaded>, together: usize) -> Result<Vec<Sent>, String>;
    /// What the gateways of each of these scenarios, with a variant each, had said of themselves
    /// of late at their ends; nothing where there can be none.
    ///
    /// # Errors
    /// What has failed where labs can be.
    fn pasts(&self, study: &str, labs: Vec<(Loaded, String)>, together: usize) -> Pasts;
}

/// Of each lab and gateway, its latest snapshots.
pub type Pasts = Result<Vec<Vec<Vec<Snapshot>>>, String>;

/// A file sent live.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// The time in s; infinite if it didn't come in time.
    pub time_s: f64,
    /// Which congestion control the sending socket had.
    pub congestion: String,
    /// What was counted, by name.
    pub counts: BTreeMap<String, f64>,
}

/// Why a study has no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Its file, or a scenario.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A live half.
    #[error("{0}")]
    Live(String),
}

impl From<ConfigError> for StudyError {
    fn from(error: ConfigError) -> Self {
        Self::Build(error.into())
    }
}

/// What a study gives.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Tables and checks.
    pub result: ResultSet,
    /// Figures as SVG, by file name.
    pub figures: Vec<(String, String)>,
    /// Scenario files that are worth a look, by file name.
    pub scenarios: Vec<(String, String)>,
}

/// What was measured.
#[derive(Default)]
struct Measured {
    parts: Parts,
    hash: RunHash,
    seeds: BTreeSet<u64>,
    /// Checks that scenarios brought along.
    checks: Vec<Check>,
    figures: Vec<(String, String)>,
    scenarios: Vec<(String, String)>,
}

impl Measured {
    /// Folds in the hash of a part that is a result of its own.
    fn fold_text(&mut self, hash: u64) {
        let text = format!("{:?}", RunHashText::from(hash));
        self.hash.fold_bytes(text.as_bytes());
    }

    /// Folds in those of a part's runs in the same way.
    fn fold_whole(&mut self, hashes: impl Iterator<Item = u64>) {
        let mut whole = RunHash::default();
        hashes.for_each(|hash| whole.fold(hash));
        self.fold_text(whole.value());
    }

    /// One part's rows.
    fn of(part: &'static str, rows: Vec<Row>, seeds: impl IntoIterator<Item = u64>) -> Self {
        Self {
            parts: Parts::from([(part, rows)]),
            seeds: seeds.into_iter().collect(),
            ..Self::default()
        }
    }

    fn fold(&mut self, hashes: impl IntoIterator<Item = u64>) {
        hashes.into_iter().for_each(|hash| self.hash.fold(hash));
    }
}

/// The file of a study.
trait SetUp: DeserializeOwned {
    /// The parts that rows are in.
    const PARTS: &'static [&'static str];

    /// The file's tables and checks.
    fn shown(&mut self) -> &mut Shapes;

    /// What has the right type but can't be right.
    fn check(&self, _file: &str) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Checks of its own, before and behind those of the file.
    fn around(&self) -> [Vec<Expect>; 2] {
        Default::default()
    }

    /// What a file may leave out is as in the one that comes along.
    fn inherit(&mut self, _usual: Self) {}

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError>;
}

/// Runs a study by one of its files: name and text.
type Runs = fn(&Study, (&str, &str), &Asked<'_>) -> Result<Found, StudyError>;

/// A study that there is.
pub struct Study {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Its file: a name and the text.
    pub own: (&'static str, &'static str),
    check: fn(&str, &str) -> Result<(), ConfigError>,
    run: Runs,
}

macro_rules! studies {
    ($($name:literal, $file:literal, $set_up:ty, $about:literal;)*) => {
        /// All studies.
        pub const STUDIES: &[Study] = &[$(Study {
            name: $name,
            about: $about,
            own: (
                concat!("scenarios/", $file),
                include_str!(concat!("../../../../scenarios/", $file)),
            ),
            check: |file, text| read::<$set_up>(file, text).map(drop),
            run: run::<$set_up>,
        }),*];
    };
}

studies! {
    "grid", "studies/grid.toml", grid::GridStudy,
        "random worlds: is a simple alternative better in any of them? Takes minutes";
    "hbh", "studies/hbh.toml", hbh::HbhStudy,
        "a transfer over four lossy links: end to end, and with each link made reliable";
    "hf", "studies/hf.toml", hf::HfStudy,
        "STANAG 5066 over HF: data transfer over bit errors, and the cost of a ping";
    "htb", "studies/htb.toml", htb::HtbStudy,
        "token buckets of strait and of this kernel, under one policy";
    "leaf", "studies/leaf.toml", grid::GridStudy,
        "the queue inside a class: `fair` beside others, in random worlds and in named ones";
    "manet", "studies/manet.toml", manet::ManetStudy,
        "an overloaded cell of 802.11b, over one hop and two: the effect of precedence";
    "messaging", "studies/messaging.toml", messaging::MessagingStudy,
        "messages of six precedences between two sites: alone, beside others, and beside a load";
    "na", "studies/na.toml", na::NaStudy,
        "calls beside data on a line of 9600 baud, as the profile `adapter` carries them";
    "na-local", "studies/na-local.toml", na_local::LocalStudy,
        "octets on a line, and local answers, while stored replies are valid and after";
    "policing", "studies/policing.toml", policing::PolicingStudy,
        "ways to limit an urgent class to its rate, and the cost to its packets";
    "proxy", "studies/proxy.toml", proxy::ProxyStudy,
        "transfers and pages through the TCP proxies of two gateways, beside today's TCP";
    "seeing", "studies/seeing.toml", seeing::SeeingStudy,
        "verdicts of `strait why` on faults, and on worlds without faults";
    "tcp", "studies/tcp.toml", tcp::TcpStudy,
        "the simulated TCP endpoint against a network simulator's and this kernel's";
}

impl Study {
    /// Checks a file that sets this study up.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn check(&self, file: &str, text: &str) -> Result<(), ConfigError> {
        (self.check)(file, text)
    }

    /// Runs it, by the name and the text of a file of one's own if there is one.
    ///
    /// # Errors
    /// What can't be built, and what failed live.
    pub fn run(&self, own: Option<(&str, &str)>, asked: &Asked<'_>) -> Result<Found, StudyError> {
        (self.run)(self, own.unwrap_or(self.own), asked)
    }
}

fn read<'a, S: SetUp>(file: &'a str, text: &'a str) -> Result<(S, Shown<'a>), ConfigError> {
    let mut study: S = limits::parse(file, text)?;
    study.check(file)?;
    let shapes = take(study.shown());
    let shown = Shown { file, text, shapes };
    shown.check_parts(S::PARTS)?;
    Ok((study, shown))
}

fn run<S: SetUp>(
    of: &Study,
    (file, text): (&str, &str),
    asked: &Asked<'_>,
) -> Result<Found, StudyError> {
    let (mut study, shown) = read::<S>(file, text)?;
    let (whole, mut usual) = read::<S>(of.own.0, of.own.1)?;
    study.inherit(whole);
    let measured = study.run(asked)?;
    // A file without tables, or without checks, has those that come along.
    if !shown.shapes.tables.is_empty() {
        usual.shapes.tables.clear();
    }
    if !shown.shapes.expect.is_empty() {
        usual.shapes.expect.clear();
    }
    let usual = usual.of(&measured.parts)?;
    let own = shown.of(&measured.parts)?;
    let checks = |all: Vec<Expect>| -> Vec<Check> {
        all.iter()
            .flat_map(|it| it.checks(&measured.parts))
            .collect()
    };
    let [before, behind] = study.around().map(checks);
    Ok(Found {
        result: ResultSet {
            run_hash: Some(measured.hash.value().into()),
            seeds: measured.seeds.into_iter().collect(),
            tables: [own.0, usual.0].concat(),
            checks: [before, own.1, usual.1, behind, measured.checks].concat(),
        },
        figures: measured.figures,
        scenarios: measured.scenarios,
    })
}

/// Does all jobs of a part, several at a time, with their results in order.
fn run_all<J: Sync, R: Send>(
    asked: &Asked<'_>,
    part: &str,
    jobs: &[J],
    run: impl Fn(&J) -> Result<R, BuildError> + Sync,
) -> Result<Vec<R>, BuildError> {
    begins(asked, part, jobs.len() as u64)?;
    let results = parallel(jobs, None, |job| {
        let result = run(job);
        asked.outside.done();
        result
    });
    results.into_iter().collect()
}

/// So many runs begin, if they aren't too many.
fn begins(asked: &Asked<'_>, part: &str, runs: u64) -> Result<(), ConfigError> {
    if runs > Scenario::RUNS_MAX {
        let message = format!(
            "{runs} runs are more than {}: take fewer seeds or values",
            Scenario::RUNS_MAX
        );
        return Err(ConfigError::of_file(part, message));
    }
    asked.outside.begins(part, runs as usize);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody waits, and nothing is live.
    struct Nobody;

    impl Outside for Nobody {
        fn begins(&self, _: &str, _: usize) {}

        fn done(&self) {}

        fn captured(&self, _: &str, _: &[u8]) {}

        fn shares(&self, _: &str, _: &[ShareCase]) -> Vec<Vec<Share>> {
            Vec::new()
        }

        fn transfers(&self, _: &str, _: &[(Case, String)]) -> Vec<Sent> {
            Vec::new()
        }

        fn labs(&self, _: &str, _: Vec<Loaded>, _: usize) -> Result<Vec<Sent>, String> {
            Ok(Vec::new())
        }

        fn pasts(&self, _: &str, _: Vec<(Loaded, String)>, _: usize) -> Pasts {
            Ok(Vec::new())
        }
    }

    fn run_file(name: &str, own: Option<&str>) -> Result<ResultSet, StudyError> {
        let mut studies = STUDIES.iter();
        let study = studies.find(|it| it.name == name).expect("a study");
        let asked = Asked {
            full: false,
            live: false,
            captures: false,
            figures: false,
            seed: None,
            outside: &Nobody,
        };
        let own = own.map(|text| ("mine.toml", text));
        study.run(own, &asked).map(|found| found.result)
    }

    /// What a study gives in virtual time.
    pub(super) fn found(name: &str) -> ResultSet {
        run_file(name, None).expect("it runs")
    }

    #[test]
    fn a_file_without_tables_and_checks_has_those_that_come_along() {
        let whole = found("na-local");
        let set_up = "study = \"na-local\"\nbaud = 9600\nvalid = \"10 s\"\nperiod = \"1 s\"\n";
        assert_eq!(run_file("na-local", Some(set_up)).expect("it runs"), whole);
        let own = format!(
            "{set_up}[[shown.expect]]\nid = \"mine\"\nof = \"replies\"\nvalue = \"answered\"\nmin = 1\n"
        );
        let mine = run_file("na-local", Some(&own)).expect("it runs");
        assert_eq!(mine.tables, whole.tables);
        assert_eq!(mine.checks.len(), 1);
        let odd = own.replace("\"answered\"", "\"anwered\"");
        let error = run_file("na-local", Some(&odd))
            .expect_err("no such value")
            .to_string();
        assert!(error.starts_with("mine.toml:8: "), "{error}");
        assert!(error.contains("did you mean `answered`?"), "{error}");
    }
}
