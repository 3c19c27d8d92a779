//! The set-up of the study `hbh`: a transfer over a chain of lossy links, end to end and with each
//! link made reliable.

use serde::Deserialize;
use strait_channel::LinkConfig;
use strait_core::units::{Octets, Share, Time};
use strait_node::config::{PaperConfig, PortConfig};
use strait_node::config_text::ConfigError;
use strait_qos::PolicyConfig;

use super::limits;
use super::transfer::{Case, Gateways};

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HbhStudy {
    /// Which study the file is of: `hbh`.
    pub study: String,
    /// Links in the chain.
    pub links: usize,
    /// Octets of the file.
    pub octets: Octets,
    /// Octets of the endpoints' buffers.
    pub buffer: Octets,
    /// When the transfer begins.
    pub start: Time,
    /// How long it may take.
    pub limit: Time,
    /// Each link.
    pub link: LinkConfig,
    /// Losses of each link, in each direction.
    pub losses: Vec<Share>,
    /// Runs at each.
    pub seeds: u64,
    /// What is laid side by side.
    #[serde(rename = "column")]
    pub columns: Vec<HbhColumn>,
    /// What it is judged by.
    #[serde(rename = "check")]
    pub checks: Vec<HbhCheck>,
    /// The published format with other parameters.
    pub sweep: HbhSweep,
    /// What this host's own TCP sends, if all is to be run.
    pub live: HbhLive,
}

/// One parameter of the published format after the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HbhSweep {
    /// The column with those that stay as they are.
    pub column: String,
    /// Losses of each link, in each direction.
    pub losses: Vec<Share>,
    /// Runs at each.
    pub seeds: u64,
    /// The same if all is to be run.
    pub seeds_full: u64,
    /// Values of R, for each link and for the whole path.
    pub retries: Vec<u8>,
    /// Values of W, fixed and grown to from the least of them.
    pub windows: Vec<u16>,
    /// Fixed RTOs, beside the one that follows the round trips.
    pub timeouts: Vec<Time>,
}

/// A value of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Varied {
    /// R, and whether it is for the whole path.
    Retries(u8, bool),
    /// W, and whether it is only grown to.
    Window(u16, bool),
    /// RTO; `None`: by the round trips.
    Timeout(Option<Time>),
}

impl HbhSweep {
    /// All values of each parameter.
    pub fn varied(&self) -> [Vec<Varied>; 3] {
        let ways = [false, true];
        let retries = ways.map(|path| {
            self.retries
                .iter()
                .map(move |it| Varied::Retries(*it, path))
        });
        let windows = ways.map(|aimd| self.windows.iter().map(move |it| Varied::Window(*it, aimd)));
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
            Self::Window(window, false) => paper.window = window,
            Self::Window(most, true) => {
                (paper.window, paper.window_max) = (least_window, Some(most));
            }
            Self::Timeout(timeout) => paper.timeout = timeout,
        }
    }
}

/// One file by this system's TCP, over reliable links and over the kernel's routers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HbhLive {
    /// Runs of each.
    pub runs: u64,
    /// Labs at the same time.
    pub together: usize,
    /// Losses of each link, in each direction.
    pub losses: Vec<Share>,
    /// Likenesses of this system's congestion controls.
    pub endpoints: Vec<String>,
    /// What it is judged by.
    #[serde(rename = "check")]
    pub checks: Vec<HbhLiveCheck>,
}

/// A bar for the median over reliable links, as a share of that over the kernel's routers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HbhLiveCheck {
    /// The check's name.
    pub id: String,
    /// What is judged.
    pub quantity: Quantity,
    /// At which loss.
    pub loss: Share,
    /// Who sends over reliable links.
    pub endpoint: String,
    /// Who sends over the kernel's routers.
    pub against: String,
    /// The most that it may be.
    pub max: f64,
}

/// A bar for a median.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HbhCheck {
    /// The check's name.
    pub id: String,
    /// What is judged.
    pub quantity: Quantity,
    /// At which loss.
    pub loss: Share,
    /// The column.
    pub column: String,
    /// The column that it is set in proportion to.
    pub against: Option<String>,
    /// The most that it may be.
    pub max: f64,
}

/// What a transfer costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// Seconds to the last octet.
    Time,
    /// Frames on all links.
    Frames,
    /// Their octets.
    Octets,
}

/// Who sends, and what stands between the links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HbhColumn {
    /// Its name in tables.
    pub name: String,
    /// Profile of both endpoints.
    pub endpoint: String,
    /// Gateways with such ports; plain routers if absent.
    pub port: Option<PortConfig>,
    /// What those ports go by.
    #[serde(default)]
    pub policy: PolicyConfig,
}

impl HbhStudy {
    /// Reads the study's file.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let study: Self = limits::parse(file, text)?;
        let wrong = |error| ConfigError::of_file(file, format!("link: {error}"));
        study.link.validate().map_err(wrong)?;
        if study.swept().is_none() {
            let message = "sweep.column: names no column with reliable hops";
            return Err(ConfigError::of_file(file, message));
        }
        Ok(study)
    }

    /// Every column at every loss, column by column.
    pub fn cases(&self) -> Vec<Case> {
        let columns = self.columns.iter();
        let cases = columns.flat_map(|column| {
            let losses = self.losses.iter();
            losses.map(move |loss| self.case(column, *loss))
        });
        cases.collect()
    }

    /// The column that the sweep begins with, and its parameters.
    fn swept(&self) -> Option<(&HbhColumn, PaperConfig)> {
        let mut columns = self.columns.iter();
        let column = columns.find(|column| column.name == self.sweep.column)?;
        let hbh = column.port.as_ref()?.hbh.as_ref()?;
        Some((column, hbh.paper.clone().unwrap_or_default()))
    }

    /// The sweep's cases for these values, value by value at each loss, with all runs or fewer.
    pub fn sweep_cases(&self, values: &[Varied], full: bool) -> Vec<Case> {
        let most = if full {
            self.sweep.seeds_full
        } else {
            self.sweep.seeds
        };
        let Some((column, paper)) = self.swept() else {
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
            link: LinkConfig {
                loss: (loss.0 > 0.0).then_some(loss),
                ..self.link.clone()
            },
            links: self.links,
            endpoint: column.endpoint.clone(),
            octets: self.octets.0,
            buffer: Some(self.buffer),
            start: self.start.0,
            limit: self.limit.0,
            // Without loss, chance has no part.
            seeds: 1..1 + if loss.0 > 0.0 { self.seeds } else { 1 },
            gateways: column.port.clone().map(|port| Gateways {
                port,
                policy: column.policy.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_meets_each_loss() {
        let text = include_str!("../../../../scenarios/studies/hbh.toml");
        let study = HbhStudy::parse("hbh.toml", text).unwrap();
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
        let study = HbhStudy::parse("hbh.toml", text).unwrap();
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
                Varied::Window(most, true) => {
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
        let fault = HbhStudy::parse("hbh.toml", &nobody).unwrap_err();
        assert!(fault.to_string().contains("sweep.column"), "{fault}");
    }
}
