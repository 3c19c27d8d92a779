//! The study `hbh`: who repeats what a chain of lossy links loses. A transfer end to end, and with
//! each link made reliable.

mod figures;
mod off_grid;
mod parts;

use std::mem::take;

use serde::Deserialize;
use strait_channel::{LinkConfig, Side};
use strait_core::units::{Octets, Share, Time};
use strait_node::config::{PaperConfig, PortConfig};
use strait_node::config_text::ConfigError;
use strait_qos::PolicyConfig;
use toml::Value;

use self::off_grid::OffGrid;
use super::scenario::Part;
use super::shown::{Expect, Row, Shapes};
use super::transfer::{self, Case, Ended, Gateways};
use super::{Asked, Measured, SetUp, StudyError, begins, read};

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HbhStudy {
    /// Which study the file is of: `hbh`.
    study: String,
    /// Links in the chain.
    links: usize,
    /// Octets of the file.
    octets: Octets,
    /// Octets of the endpoints' buffers.
    buffer: Octets,
    /// When the transfer begins.
    start: Time,
    /// How long it may take.
    limit: Time,
    /// Each link.
    link: LinkConfig,
    /// Losses of each link, in each direction.
    losses: Vec<Share>,
    /// Runs at each.
    seeds: u64,
    /// What is laid side by side.
    #[serde(rename = "column")]
    columns: Vec<HbhColumn>,
    /// What it is judged by.
    #[serde(rename = "check")]
    checks: Vec<HbhCheck>,
    /// The published format with other parameters.
    sweep: HbhSweep,
    /// What this host's own TCP sends, if all is to be run.
    live: HbhLive,
    /// Chains unlike that one.
    off_grid: Option<OffGrid>,
    /// Scenarios beside the chain.
    #[serde(default, rename = "part")]
    parts: Vec<Part>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// One parameter of the published format after the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HbhSweep {
    /// The column with those that stay as they are.
    column: String,
    /// Losses of each link, in each direction.
    losses: Vec<Share>,
    /// Runs at each.
    seeds: u64,
    /// The same if all is to be run.
    seeds_full: u64,
    /// Values of R, for each link and for the whole path.
    retries: Vec<u8>,
    /// Values of W, fixed and grown to from the least of them.
    windows: Vec<u16>,
    /// Fixed RTOs, beside the one that follows the round trips.
    timeouts: Vec<Time>,
}

/// A value of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Varied {
    /// R, and whether it is for the whole path.
    Retries(u8, bool),
    /// W, and how it is used.
    Window(u16, Uses),
    /// RTO; `None`: by the round trips.
    Timeout(Option<Time>),
}

/// How a window is used.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Uses {
    Fixed,
    /// An acknowledgement is asked for once in so many transmissions, and else never.
    AsksByIt,
    /// It is grown to.
    Aimd,
}

impl HbhSweep {
    /// All values of each parameter.
    fn varied(&self) -> [Vec<Varied>; 3] {
        let retries = [false, true].map(|path| {
            self.retries
                .iter()
                .map(move |it| Varied::Retries(*it, path))
        });
        let windows = [Uses::Fixed, Uses::AsksByIt, Uses::Aimd]
            .map(|uses| self.windows.iter().map(move |it| Varied::Window(*it, uses)));
        let timeouts = self.timeouts.iter().map(|it| Some(*it));
        [
            retries.into_iter().flatten().collect(),
            windows.into_iter().flatten().collect(),
            timeouts.chain([None]).map(Varied::Timeout).collect(),
        ]
    }
}

impl Varied {
    fn set(self, paper: &mut PaperConfig, least_window: u16) {
        match self {
            Self::Retries(retries, along_path) => {
                (paper.retries, paper.along_path) = (retries, along_path);
            }
            Self::Window(window, Uses::Fixed) => paper.window = window,
            Self::Window(window, Uses::AsksByIt) => {
                (paper.window, paper.asks_early) = (window, false);
            }
            Self::Window(most, Uses::Aimd) => {
                (paper.window, paper.window_max) = (least_window, Some(most));
            }
            Self::Timeout(timeout) => paper.timeout = timeout,
        }
    }
}

/// One file by this system's TCP, over reliable links and over the kernel's routers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HbhLive {
    /// Runs of each.
    runs: u64,
    /// Labs at the same time.
    together: usize,
    /// Losses of each link, in each direction.
    losses: Vec<Share>,
    /// Likenesses of this system's congestion controls.
    endpoints: Vec<String>,
    /// What it is judged by.
    #[serde(rename = "check")]
    checks: Vec<HbhLiveCheck>,
}

/// A bar for the median over reliable links, as a share of that over the kernel's routers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HbhLiveCheck {
    /// The check's name.
    id: String,
    /// What is judged.
    quantity: Quantity,
    /// At which loss.
    loss: Share,
    /// Who sends over reliable links.
    endpoint: String,
    /// Who sends over the kernel's routers.
    against: String,
    /// The most that it may be.
    max: f64,
}

/// A bar for a median.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HbhCheck {
    /// The check's name.
    id: String,
    /// What is judged.
    quantity: Quantity,
    /// At which loss.
    loss: Share,
    /// The column.
    column: String,
    /// The column that it is set in proportion to.
    against: Option<String>,
    /// The most that it may be.
    max: f64,
}

/// What a transfer costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Quantity {
    /// Seconds to the last octet.
    Time,
    /// Frames on all links.
    Frames,
    /// Their octets.
    Octets,
}

impl Quantity {
    /// What rows call it.
    const fn name(self) -> &'static str {
        match self {
            Self::Time => "time_s",
            Self::Frames => "frames",
            Self::Octets => "octets",
        }
    }
}

/// Who sends, and what stands between the links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HbhColumn {
    /// Its name in tables.
    name: String,
    /// Profile of both endpoints.
    endpoint: String,
    /// Gateways with such ports; plain routers if absent.
    port: Option<PortConfig>,
    /// What those ports go by.
    #[serde(default)]
    policy: PolicyConfig,
}

impl HbhStudy {
    /// Every column at every loss, column by column.
    fn cases(&self) -> Vec<Case> {
        let columns = self.columns.iter();
        let cases = columns.flat_map(|column| {
            let losses = self.losses.iter();
            losses.map(move |loss| self.case(column, *loss))
        });
        cases.collect()
    }

    /// The column that the sweep begins with, and its parameters.
    fn base(&self) -> Option<(&HbhColumn, PaperConfig)> {
        let mut columns = self.columns.iter();
        let column = columns.find(|column| column.name == self.sweep.column)?;
        let hbh = column.port.as_ref()?.hbh.as_ref()?;
        Some((column, hbh.paper.clone().unwrap_or_default()))
    }

    /// The sweep's cases for these values, value by value at each loss, with all runs or fewer.
    fn sweep_cases(&self, values: &[Varied], full: bool) -> Vec<Case> {
        let most = if full {
            self.sweep.seeds_full
        } else {
            self.sweep.seeds
        };
        let Some((column, paper)) = self.base() else {
            return Vec::new();
        };
        let least_window = self.sweep.windows.iter().min().copied().unwrap_or(1);
        let losses = self.sweep.losses.iter();
        let cases = losses.flat_map(|loss| {
            let paper = &paper;
            values.iter().map(move |value| {
                let mut column = column.clone();
                let mut varied = paper.clone();
                value.set(&mut varied, least_window);
                if let Some(hbh) = column.port.as_mut().and_then(|port| port.hbh.as_mut()) {
                    hbh.paper = Some(varied);
                }
                let case = self.case(&column, *loss);
                let seeds = case.seeds.end.min(1 + most);
                Case {
                    seeds: 1..seeds,
                    ..case
                }
            })
        });
        cases.collect()
    }

    fn case(&self, column: &HbhColumn, loss: Share) -> Case {
        Case {
            link: self
                .link
                .clone()
                .with(|it| it.loss = (loss.0 > 0.0).then_some(loss)),
            links: self.links,
            endpoint: column.endpoint.clone(),
            octets: self.octets.0,
            buffer: Some(self.buffer),
            start: self.start.0,
            limit: self.limit.0,
            step: transfer::STEP,
            // Without loss, chance has no part.
            seeds: 1..1 + if loss.0 > 0.0 { self.seeds } else { 1 },
            gateways: column.port.clone().map(|port| Gateways {
                port,
                policy: column.policy.clone(),
            }),
        }
    }
}

impl Varied {
    /// What is told of it: its number, and what kind it is; then, in figures, which of the lines it
    /// belongs to.
    fn told(self) -> (Option<f64>, [&'static str; 2]) {
        match self {
            Self::Retries(retries, false) => (Some(retries.into()), ["on each link", "link"]),
            Self::Retries(retries, true) => (Some(retries.into()), ["on the path", "path"]),
            Self::Window(window, uses) => {
                let of = match uses {
                    Uses::Fixed => ["fixed", "fixed"],
                    Uses::AsksByIt => ["fixed, asks by it", "asks by W"],
                    Uses::Aimd => ["the most of AIMD", "AIMD"],
                };
                (Some(window.into()), of)
            }
            Self::Timeout(None) => (None, ["adaptive", "by RTT"]),
            Self::Timeout(Some(timeout)) => (Some(timeout.0.as_secs_f64()), ["fixed", "fixed"]),
        }
    }
}

/// A row with what each of some runs cost.
fn with_runs(row: Row, runs: &[Ended]) -> Row {
    let of = |value: fn(&Ended) -> u64| -> Vec<f64> {
        runs.iter().map(|run| value(run) as f64).collect()
    };
    // What wasn't reached took longer than all that was.
    let times = runs.iter().map(|run| run.time_s.unwrap_or(f64::INFINITY));
    row.with("time_s", times.collect::<Vec<f64>>())
        .with("frames", of(|run| run.packets))
        .with("octets", of(|run| run.octets))
        .with("segments_again", of(|run| run.tcp.retransmissions))
        .with("frames_again", of(|run| run.hop.repeated))
        .with("needless", of(|run| run.hop.needless))
        .with("copies", of(|run| run.hop.copied))
        .with("control", of(|run| run.hop.control))
        .with("duplicates", of(|run| run.hop.duplicates))
        .with("dropped", of(|run| run.dropped))
        .with("odd", of(|run| run.unexplained + run.wrong_octets))
}

/// The transfers of some columns of the study as it comes along, with all seeds at every loss.
///
/// # Errors
/// None: it is in order.
pub fn cases_of(columns: &[&str]) -> Result<Vec<Case>, ConfigError> {
    let text = include_str!("../../../../scenarios/studies/hbh.toml");
    let (mut study, _) = read::<HbhStudy>("scenarios/studies/hbh.toml", text)?;
    study
        .columns
        .retain(|it| columns.contains(&it.name.as_str()));
    let mut cases = study.cases();
    for case in &mut cases {
        case.seeds = 1..1 + study.seeds;
    }
    Ok(cases)
}

impl HbhStudy {
    /// The least time if nobody but the physics took any: each octet once, as often as it is lost,
    /// and the way.
    fn limit_s(&self, loss: Share) -> f64 {
        let rate = self.link.line_rate(Side::A).bit_s() as f64;
        let delay_s = self.link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
        let octets_s = (self.octets.0 * 8) as f64 / (rate * (1.0 - loss.0));
        octets_s + self.links as f64 * delay_s
    }

    /// The fewest frames if nobody took any but data: each segment once on each link, as often as
    /// it is lost there.
    fn limit_frames(&self, column: &HbhColumn, loss: Share) -> f64 {
        let segment = transfer::segment_octets(&column.endpoint, &self.link);
        let segments = self.octets.0.div_ceil(segment);
        (segments * self.links as u64) as f64 / (1.0 - loss.0)
    }

    /// Every column at every loss, loss by loss.
    fn cells(&self, asked: &Asked<'_>, measured: &mut Measured, runs: &mut [Vec<Ended>]) {
        let mut rows = Vec::new();
        for (place, loss) in self.losses.iter().enumerate() {
            for (number, column) in self.columns.iter().enumerate() {
                let row = Row::default()
                    .with("loss", loss.0)
                    .with("column", column.name.as_str())
                    .with("endpoint", column.endpoint.as_str())
                    .with("limit_s", self.limit_s(*loss))
                    .with("limit_frames", self.limit_frames(column, *loss));
                let runs = &mut runs[number * self.losses.len() + place];
                rows.push(with_runs(row, runs));
                for run in runs {
                    let case = format!("hbh-{}-{}%", column.name, loss.0 * 100.0);
                    asked.captured(&case, take(&mut run.captures));
                }
            }
        }
        measured.parts.insert("cells", rows);
    }

    /// Every value of each parameter at each loss.
    fn swept(&self, asked: &Asked<'_>, measured: &mut Measured) -> Result<Vec<u64>, StudyError> {
        let varied = self.sweep.varied();
        let cases = varied
            .iter()
            .flat_map(|it| self.sweep_cases(it, asked.full));
        let cases = transfer::of_seeds(asked, cases.collect());
        begins(asked, "hbh-sweep", transfer::count(&cases))?;
        let runs = transfer::run(&cases, false, || asked.outside.done())?;
        let hashes = runs.iter().flatten().map(|run| run.hash).collect();
        let mut runs = runs.iter();
        for (part, values) in ["retries", "window", "rto"].into_iter().zip(varied) {
            let losses = self.sweep.losses.iter();
            let keys = losses.flat_map(|loss| values.iter().map(move |value| (loss.0, value)));
            let rows = keys.zip(runs.by_ref()).map(|((loss, value), runs)| {
                let (number, [kind, line]) = value.told();
                let row = Row::default().with("loss", loss).with("value", number);
                with_runs(row.with("kind", kind).with("line", line), runs)
            });
            measured.parts.insert(part, rows.collect());
        }
        Ok(hashes)
    }
}

impl SetUp for HbhStudy {
    const PARTS: &'static [&'static str] = &[
        "cells",
        "retries",
        "window",
        "rto",
        "off-grid",
        "off-grid-runs",
        "runs",
        "pressure",
        "fair",
        "voice",
        "fair-runs",
        "parity",
        "live",
    ];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        let wrong = |error| ConfigError::of_file(file, format!("link: {error}"));
        self.link.validate().map_err(wrong)?;
        if self.base().is_none() {
            let message = "sweep.column: names no column with reliable hops";
            return Err(ConfigError::of_file(file, message));
        }
        Ok(())
    }

    fn around(&self) -> [Vec<Expect>; 2] {
        let before = self.checks.iter().map(|it| {
            let only = |column: &String| {
                [
                    ("loss", Value::Float(it.loss.0)),
                    ("column", Value::String(column.clone())),
                ]
            };
            let against = it.against.as_ref().map(only);
            let against = against.as_ref().map(|it| &it[..]);
            let names = [&it.id, "cells", it.quantity.name()];
            let unit = if against.is_none() { "s" } else { "" };
            let mut expect = Expect::median(names, &only(&it.column), against, it.max);
            expect.unit = unit.into();
            expect
        });
        // Reliable links under one sender, in proportion to the kernel's routers under another.
        let behind = self.live.checks.iter().map(|it| {
            let only = |endpoint: &String, carrier: &str| {
                let loss = ("loss", Value::Float(it.loss.0));
                let endpoint = ("endpoint", Value::String(endpoint.clone()));
                [loss, endpoint, ("carrier", Value::String(carrier.into()))]
            };
            let against = only(&it.against, "kernel");
            let names = [&it.id, "live", it.quantity.name()];
            let own = only(&it.endpoint, "strait");
            let mut expect = Expect::median(names, &own, Some(&against), it.max);
            expect.needs = Some("time_s".into());
            expect
        });
        [before.collect(), behind.collect()]
    }

    fn inherit(&mut self, usual: Self) {
        if self.parts.is_empty() {
            self.parts = usual.parts;
        }
        self.off_grid = self.off_grid.take().or(usual.off_grid);
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let cases = transfer::of_seeds(asked, self.cases());
        begins(asked, "hbh", transfer::count(&cases))?;
        let mut runs = transfer::run(&cases, asked.captures, || asked.outside.done())?;
        let seeds = cases.iter().flat_map(|case| case.seeds.clone());
        let mut measured = Measured::of("runs", Vec::new(), seeds);
        measured.hash.fold(transfer::hash(&runs));
        self.cells(asked, &mut measured, &mut runs);
        let swept = self.swept(asked, &mut measured)?;
        measured.fold(swept);
        let parts = ["cells", "retries", "window", "rto"];
        let all = parts.iter().filter_map(|part| measured.parts.get(part));
        let all = all.flatten().cloned().collect();
        measured.parts.insert("runs", all);
        if asked.figures {
            measured.figures = figures::all(&measured.parts);
        }
        if let Some(off_grid) = &self.off_grid {
            off_grid.run(asked, &mut measured)?;
        }
        parts::pressure(&self.parts, asked, &mut measured)?;
        parts::fair(&self.parts, asked, &mut measured)?;
        parts::parity(&self.parts, asked, &mut measured)?;
        parts::live(&self.live, asked, &mut measured)?;
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_meets_each_loss() {
        let text = include_str!("../../../../scenarios/studies/hbh.toml");
        let study = read::<HbhStudy>("hbh.toml", text).unwrap().0;
        let cases = study.cases();
        assert_eq!(cases.len(), study.columns.len() * study.losses.len());
        for (column, cases) in study.columns.iter().zip(cases.chunks(study.losses.len())) {
            assert!(
                cases
                    .iter()
                    .all(|case| case.gateways.is_some() == column.port.is_some())
            );
            assert_eq!(cases[0].seeds, 1..2);
            assert_eq!(cases[1].seeds, 1..1 + study.seeds);
        }
    }

    #[test]
    fn a_sweep_changes_one_parameter_of_its_column() {
        let text = include_str!("../../../../scenarios/studies/hbh.toml");
        let study = read::<HbhStudy>("hbh.toml", text).unwrap().0;
        let paper = |case: &Case| {
            let port = &case.gateways.as_ref().unwrap().port;
            port.hbh.as_ref().unwrap().paper.clone().unwrap()
        };
        for values in study.sweep.varied() {
            let cases = study.sweep_cases(&values, false);
            assert_eq!(cases.len(), values.len() * study.sweep.losses.len());
            assert_eq!(cases[0].seeds, 1..2);
            let last = cases.last().unwrap();
            assert_eq!(last.seeds, 1..1 + study.sweep.seeds);
            let full = study.sweep_cases(&values, true);
            assert_eq!(full.last().unwrap().seeds, 1..1 + study.sweep.seeds_full);
            // The last values are those that differ from the usual in more than one key.
            let usual = PaperConfig::default();
            match values.last().unwrap() {
                Varied::Retries(retries, true) => {
                    assert_eq!(
                        (paper(last).retries, paper(last).along_path),
                        (*retries, true)
                    );
                }
                Varied::Window(most, Uses::Aimd) => {
                    assert_eq!(
                        (paper(last).window, paper(last).window_max),
                        (1, Some(*most))
                    );
                }
                Varied::Timeout(None) => assert_eq!(paper(last), usual),
                other => panic!("{other:?}"),
            }
        }
        let nobody = text.replace("column = \"paper\"", "column = \"nobody\"");
        let fault = read::<HbhStudy>("hbh.toml", &nobody);
        let fault = fault.map(drop).unwrap_err();
        assert!(fault.to_string().contains("sweep.column"), "{fault}");
    }
}
