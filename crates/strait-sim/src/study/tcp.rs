//! The set-up of the study `tcp`: the simulated TCP endpoint against independent references.

use serde::Deserialize;
use strait_channel::LinkConfig;
use strait_core::Duration;
use strait_core::units::{Octets, Share, Time};
use strait_node::config_text::ConfigError;

use super::limits;
use super::transfer::Case;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpStudy {
    /// Which study the file is of: `tcp`.
    pub study: String,
    /// A chain of links, with references of a network simulator.
    pub chain: Chain,
    /// One link, with a Linux kernel as the reference.
    pub kernel: Kernel,
}

/// A chain of links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// How many.
    pub links: usize,
    /// Octets of the file.
    pub octets: Octets,
    /// Octets of the endpoints' buffers.
    pub buffer: Octets,
    /// How long a run may take.
    pub limit: Time,
    /// Each link.
    pub link: LinkConfig,
    /// What is run over them.
    #[serde(rename = "case")]
    pub cases: Vec<ChainCase>,
}

/// One endpoint at one rate of loss, and what the reference needed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainCase {
    /// Which check it belongs to; shown only if absent.
    pub check: Option<String>,
    /// Profile of both endpoints.
    pub endpoint: String,
    /// Loss of each link, in each direction.
    pub loss: Share,
    /// How many seeds.
    pub seeds: u64,
    /// Time to the last octet.
    pub time: Reference<Time>,
    /// Packets on all links.
    pub packets: Reference<f64>,
    /// How far from the mean a value may be where the reference has no interval.
    pub tolerance: Option<Share>,
    /// How many runs the reference is the mean of.
    pub reference_runs: u64,
    /// Both means are of enough runs for their 95 % intervals to have to overlap; else ours has to
    /// lie in the reference's.
    #[serde(default)]
    pub overlap: bool,
}

/// A mean that others measured, and half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference<T> {
    /// The mean.
    pub mean: T,
    /// Half the interval; none where chance had no part.
    pub half_interval: Option<T>,
}

impl Reference<Time> {
    /// The same in seconds.
    pub fn seconds(&self) -> Reference<f64> {
        Reference {
            mean: self.mean.0.as_secs_f64(),
            half_interval: self.half_interval.map(|half| half.0.as_secs_f64()),
        }
    }
}

impl Reference<f64> {
    /// How far a value is from the mean: in halves of the interval, or as a share of the mean
    /// where there is no interval. A value that has an interval of its own to overlap with may be
    /// farther by `own_half`.
    pub fn distance(&self, value: f64, own_half: f64) -> f64 {
        let half = self.half_interval.map(|half| half + own_half);
        (value - self.mean).abs() / half.unwrap_or(self.mean)
    }
}

/// What a kernel is compared on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Loss of frames, in each direction.
    pub losses: Vec<Share>,
    /// By how much medians may differ.
    pub tolerance: Share,
    /// When transfers begin, by the link's time.
    pub start: Time,
    /// How long a transfer of a short study may take.
    pub limit: Time,
    /// How long one of a full study may take.
    pub limit_full: Time,
    /// Ways to control congestion.
    #[serde(rename = "control")]
    pub controls: Vec<CongestionControl>,
    /// Links.
    #[serde(rename = "cell")]
    pub cells: Vec<Cell>,
}

/// A profile and the kernel's algorithm that it stands for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CongestionControl {
    /// The simulated one.
    pub profile: String,
    /// The kernel's.
    pub congestion: String,
    /// Judged, and part of a short study too.
    #[serde(default)]
    pub judged: bool,
}

/// A link that a kernel is compared on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Its name in the table.
    pub name: String,
    /// The file of a short study.
    pub octets: Octets,
    /// That of a full study.
    pub octets_full: Octets,
    /// Transfers of a short study.
    pub runs: u64,
    /// Those of a full study.
    pub runs_full: u64,
    /// The link; loss is added.
    pub link: LinkConfig,
    /// Whether the check looks at it.
    #[serde(default = "yes")]
    pub judged: bool,
    /// Run by this host's kernel too; else what was recorded stands for that.
    #[serde(default = "yes")]
    pub live: bool,
    /// The kernel's congestion controls that it is for; none named: those of the study.
    #[serde(default)]
    pub congestion: Vec<String>,
    /// Show what becomes of timeouts here.
    #[serde(default)]
    pub timeouts: bool,
    /// What others measured with files of the full size.
    #[serde(default)]
    pub reference: Vec<CellReference>,
}

const fn yes() -> bool {
    true
}

/// Times that a kernel took elsewhere.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellReference {
    /// Its congestion control.
    pub congestion: String,
    /// Loss in each direction.
    pub loss: Share,
    /// Each transfer's time.
    pub times: Vec<Time>,
}

/// One cell at one rate of loss under one congestion control: run simulated, and live.
#[derive(Clone, Debug)]
pub struct CellCase {
    /// The cell's name.
    pub cell: String,
    /// Loss in each direction.
    pub loss: f64,
    /// Whether it counts for the check.
    pub judged: bool,
    /// Whether it is shown what becomes of timeouts.
    pub timeouts: bool,
    /// The kernel's congestion control.
    pub congestion: String,
    /// Whether this host's kernel runs it.
    pub live: bool,
    /// Times that a kernel took elsewhere, in s, if for the same file.
    pub reference_s: Vec<f64>,
    /// What is run.
    pub case: Case,
}

impl TcpStudy {
    /// Reads the study's file.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let study: Self = limits::parse(file, text)?;
        let cells = study.kernel.cells.iter();
        let cells = cells.map(|cell| (cell.name.as_str(), &cell.link));
        for (name, link) in cells.chain([("chain", &study.chain.link)]) {
            let wrong = |error| ConfigError::of_file(file, format!("link of `{name}`: {error}"));
            link.validate().map_err(wrong)?;
        }
        Ok(study)
    }

    /// Every case of the chain, in the file's order.
    pub fn chain_cases(&self) -> Vec<Case> {
        let chain = &self.chain;
        let case = |case: &ChainCase| Case {
            link: lossy(&chain.link, case.loss),
            links: chain.links,
            endpoint: case.endpoint.clone(),
            octets: chain.octets.0,
            buffer: Some(chain.buffer),
            start: Duration::ZERO,
            limit: chain.limit.0,
            seeds: 1..1 + case.seeds,
            gateways: None,
        };
        chain.cases.iter().map(case).collect()
    }

    /// Every cell at every loss under every congestion control of a short or a full study.
    pub fn cell_cases(&self, full: bool) -> Vec<CellCase> {
        let kernel = &self.kernel;
        let mut cases = Vec::new();
        for control in &kernel.controls {
            let of_study = full || control.judged;
            let takes = |cell: &&Cell| match &cell.congestion[..] {
                [] => of_study,
                named => named.contains(&control.congestion),
            };
            for cell in kernel.cells.iter().filter(takes) {
                let losses = kernel.losses.iter();
                let cells = losses.map(|loss| self.cell_case(control, cell, *loss, full));
                cases.extend(cells.filter(|it| it.live || !it.reference_s.is_empty()));
            }
        }
        cases
    }

    fn cell_case(
        &self,
        control: &CongestionControl,
        cell: &Cell,
        loss: Share,
        full: bool,
    ) -> CellCase {
        let (octets, runs, limit) = if full {
            (cell.octets_full, cell.runs_full, self.kernel.limit_full)
        } else if cell.live {
            (cell.octets, cell.runs, self.kernel.limit)
        } else {
            (cell.octets, cell.runs, self.kernel.limit_full)
        };
        let same = |it: &&CellReference| {
            octets == cell.octets_full && it.congestion == control.congestion && it.loss == loss
        };
        let known = cell.reference.iter().filter(same);
        CellCase {
            cell: cell.name.clone(),
            loss: loss.0,
            judged: (control.judged || !cell.congestion.is_empty()) && cell.judged,
            live: cell.live,
            timeouts: control.judged && cell.timeouts,
            congestion: control.congestion.clone(),
            reference_s: known
                .flat_map(|it| it.times.iter().map(|time| time.0.as_secs_f64()))
                .collect(),
            case: Case {
                link: lossy(&cell.link, loss),
                links: 1,
                endpoint: control.profile.clone(),
                octets: octets.0,
                buffer: None,
                start: self.kernel.start.0,
                limit: limit.0,
                seeds: 1..1 + runs,
                gateways: None,
            },
        }
    }
}

fn lossy(link: &LinkConfig, loss: Share) -> LinkConfig {
    LinkConfig {
        loss: (loss.0 > 0.0).then_some(loss),
        ..link.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study() -> TcpStudy {
        let text = include_str!("../../../../scenarios/studies/tcp.toml");
        TcpStudy::parse("tcp.toml", text).unwrap()
    }

    #[test]
    fn distance_is_told_in_intervals_or_shares() {
        let interval = Reference {
            mean: 10.0,
            half_interval: Some(2.0),
        };
        assert_eq!(interval.distance(8.0, 0.0), 1.0);
        assert_eq!(interval.distance(13.0, 0.0), 1.5);
        assert_eq!(interval.distance(13.0, 1.0), 1.0);
        let exact = Reference {
            mean: 10.0,
            half_interval: None,
        };
        assert_eq!(exact.distance(9.0, 1.0), 0.1);
    }

    #[test]
    fn a_short_study_runs_the_judged_control_and_a_full_one_all() {
        let study = study();
        let short = study.cell_cases(false);
        let full = study.cell_cases(true);
        let live = |cases: &[CellCase]| cases.iter().filter(|it| it.live).count();
        assert_eq!((live(&short), live(&full)), (15, 39));
        assert_eq!(short.iter().filter(|it| it.live && it.judged).count(), 12);
        // References are for the full sizes; what isn't run live has one.
        let known = |it: &CellCase| !it.reference_s.is_empty();
        assert!(short.iter().all(|it| it.live != known(it)));
        let known = full
            .iter()
            .find(|case| case.cell.contains("2 s") && case.loss == 0.05);
        assert_eq!(known.unwrap().reference_s, [101.0, 109.0]);
        assert!(
            short
                .iter()
                .all(|it| it.case.link.loss.is_none() == (it.loss == 0.0))
        );
    }

    #[test]
    fn a_link_that_is_no_medium_is_named() {
        let text = include_str!("../../../../scenarios/studies/tcp.toml");
        let wrong = text.replace("loss = \"5 %\", t", "lost = \"5 %\", t");
        assert!(TcpStudy::parse("tcp.toml", &wrong).is_err());
        let wrong = text.replace("delay = \"8 s\", ", "delay = \"8 s\", baud = 9600, ");
        let error = TcpStudy::parse("tcp.toml", &wrong).unwrap_err().to_string();
        assert!(error.contains("9600 bit/s, 8 s"), "{error}");
    }

    #[test]
    fn every_check_has_cases_with_both_references() {
        let study = study();
        let exact = study.chain.cases.iter();
        let exact = exact.filter(|case| case.check.as_deref() == Some("tcp-chain-0"));
        let exact: Vec<_> = exact.collect();
        let endpoints: Vec<&str> = exact.iter().map(|case| &*case.endpoint).collect();
        assert_eq!(endpoints, ["ns3-2012", "ns3-sack"]);
        for case in exact {
            assert!(case.tolerance.is_some() && !case.overlap);
            assert!(case.time.half_interval.is_none() && case.packets.half_interval.is_none());
        }
        let many = study.chain.cases.iter().filter(|case| case.overlap);
        let many: Vec<_> = many.collect();
        assert_eq!(many.len(), 6);
        for case in many {
            assert_eq!(case.check.as_deref(), Some("tcp-chain-many"));
            assert_eq!((case.seeds, case.reference_runs), (400, 400));
            assert!(case.time.half_interval.is_some() && case.packets.half_interval.is_some());
        }
    }
}
