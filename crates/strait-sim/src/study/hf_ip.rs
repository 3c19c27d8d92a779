//! IP over HF as others measured it: pings, look-ups, transfers and pages over stations like
//! theirs, and over ours.

use serde::Deserialize;
use strait_core::units::{BitRate, Octets, Share, Time};
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};

use super::hf::{HEADER_OCTETS, HfStudy, load};
use crate::build::BuildError;
use crate::parallel::parallel;
use crate::run::run_plain;

/// What of IP is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpTable {
    /// Echo, median.
    Ping,
    /// The look-up of a name, median.
    Dns,
    /// A transfer, until its last octet is there.
    Tcp,
    /// A transfer over bit errors, as a share of the channel's rate.
    Ber,
    /// A page, with the look-up of its name before it.
    Web,
}

impl IpTable {
    /// The traffic that stands for it, and the metric that is told.
    const fn traffic(self) -> (&'static str, &'static str) {
        match self {
            Self::Ping => ("ping", "ping.rtt_p50_s"),
            Self::Dns => ("dns", "dns.rtt_p50_s"),
            Self::Tcp | Self::Ber => ("file", "file.time_s"),
            Self::Web => ("page", "page.time_s"),
        }
    }
}

/// How packets were carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carried {
    /// With ARQ, in order.
    #[default]
    InOrder,
    /// With ARQ, as they arrive.
    AnyOrder,
    /// Without ARQ.
    NonArq,
}

impl Carried {
    /// The variant with stations like those measured.
    const fn variant(self) -> &'static str {
        match self {
            Self::InOrder => "ip-client",
            Self::AnyOrder => "ip-client-any",
            Self::NonArq => "ip-client-plain",
        }
    }

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::InOrder => "ARQ in order",
            Self::AnyOrder => "ARQ any order",
            Self::NonArq => "non-ARQ",
        }
    }
}

/// One cell that others measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpRow {
    /// Of which table.
    pub table: IpTable,
    /// The channel's rate.
    pub rate: BitRate,
    /// Octets of a transfer or page.
    pub octets: Option<Octets>,
    /// Objects of a page.
    pub objects: Option<u32>,
    /// The share of bits that are wrong.
    #[serde(default)]
    pub bits: f64,
    /// How packets were carried.
    #[serde(default)]
    pub carried: Carried,
    /// The time in s, or the share of the rate; absent where theirs failed.
    pub measured: Option<f64>,
    /// The time to connect in s.
    pub connect_s: Option<f64>,
}

/// How far the long transfer of others had come.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressRow {
    /// Octets that had arrived.
    pub octets: u64,
    /// After so many seconds.
    pub measured_s: f64,
}

/// The transfer that goes on and on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collapse {
    /// The channel's rate.
    pub rate: BitRate,
    /// Octets of the transfer.
    pub octets: Octets,
    /// How far it had come.
    pub points: Vec<ProgressRow>,
}

/// What a system made of a row.
#[derive(Clone, Debug, Default)]
pub struct IpCell {
    /// In the row's unit; `None` if it didn't come to an end.
    pub value: Option<f64>,
    /// The time to connect in s.
    pub connect_s: Option<f64>,
    /// Time in s and octets there.
    pub progress: Vec<(f64, f64)>,
    /// Hash of the run.
    pub hash: u64,
    /// Packets that can't be explained.
    pub unexplained: u64,
}

/// What others had: the likeness of their stations, and ours.
pub const SYSTEMS: usize = 2;

/// How long a transfer may take: theirs took more than an hour.
const PATIENCE_S: u64 = 30_000;

/// The traffic that makes the link.
const WARM: &str = "warm";

/// Above this rate a channel is 48 kHz wide.
const NARROW_BIT_S: u64 = 16_000;

impl HfStudy {
    /// The worlds of the rows of IP, each with stations like theirs and with ours, then those of
    /// the long transfer.
    fn ip_worlds(&self) -> Result<Vec<(Loaded, &'static str, IpRow)>, ConfigError> {
        let base = load("ip.toml", include_str!("../../../../scenarios/hf/ip.toml"))?;
        let collapse = self.collapse.iter().map(|collapse| IpRow {
            table: IpTable::Tcp,
            rate: collapse.rate,
            octets: Some(collapse.octets),
            objects: None,
            bits: 0.0,
            carried: Carried::InOrder,
            measured: None,
            connect_s: None,
        });
        let mut worlds = Vec::new();
        for row in self.ip.iter().cloned().chain(collapse) {
            for variant in [row.carried.variant(), Scenario::BASE] {
                worlds.push((world(&base, &row), variant, row.clone()));
            }
        }
        Ok(worlds)
    }

    /// Row by row, theirs and ours; the long transfers last.
    ///
    /// # Errors
    /// If a world can't be built.
    pub fn run_ip(&self, done: impl Fn() + Sync) -> Result<Vec<IpCell>, BuildError> {
        let worlds = self.ip_worlds()?;
        let cells = parallel(&worlds, None, |(world, variant, row)| {
            let cell = cell(world, variant, row);
            done();
            cell
        });
        let mut cells: Vec<IpCell> = cells.into_iter().collect::<Result<_, _>>()?;
        self.add_look_ups(&mut cells);
        Ok(cells)
    }

    /// A page begins with the look-up of a name.
    fn add_look_ups(&self, cells: &mut [IpCell]) {
        let of = |table| move |(_, row): &(usize, &IpRow)| row.table == table;
        for (page, row) in self.ip.iter().enumerate().filter(of(IpTable::Web)) {
            let mut look_ups = self.ip.iter().enumerate().filter(of(IpTable::Dns));
            let Some((dns, _)) = look_ups.find(|(_, it)| it.rate == row.rate) else {
                continue;
            };
            for system in 0..SYSTEMS {
                let look_up = cells[dns * SYSTEMS + system].value;
                let page = &mut cells[page * SYSTEMS + system].value;
                *page = page.zip(look_up).map(|(page, look_up)| page + look_up);
            }
        }
    }

    /// How many runs that is.
    #[must_use]
    pub const fn ip_count(&self) -> usize {
        (self.ip.len() + self.collapse.is_some() as usize) * SYSTEMS
    }

    /// What becomes of a short urgent message against the stream: the most that one took, and the
    /// bulk as a share of the rate.
    ///
    /// # Errors
    /// If the world can't be built.
    pub fn run_mixed(&self) -> Result<(Option<f64>, Option<f64>, u64), BuildError> {
        let mixed = load(
            "mixed.toml",
            include_str!("../../../../scenarios/hf/mixed.toml"),
        )?;
        let run = run_plain(&mixed, Scenario::BASE, 1)?;
        let metric = |name: &str| run.metrics.get(name).copied();
        let lost = metric("flash.loss").is_none_or(|loss| loss > 0.0);
        let longest_s = metric("flash.delay_max_s").filter(|_| !lost);
        let payload = mixed.scenario.traffic.first().and_then(|it| it.payload);
        let payload = payload.map_or(0.0, |octets| octets.0 as f64);
        let rate = mixed.links.iter().find_map(|link| link.channel.rate);
        let share = metric("bulk.rate_bit_s").zip(rate).map(|(bit_s, rate)| {
            bit_s * (payload + HEADER_OCTETS as f64) / payload / rate.0 as f64
        });
        Ok((longest_s, share, run.hash))
    }
}

/// The base with what a row has, and its traffic alone.
fn world(base: &Loaded, row: &IpRow) -> Loaded {
    let mut world = base.clone();
    let (traffic, metric) = row.table.traffic();
    let scenario = &mut world.scenario;
    scenario
        .traffic
        .retain(|flow| [WARM, traffic].contains(&flow.name.as_str()));
    scenario
        .expectations
        .retain(|expected| expected.metric == metric);
    let lasts_s = match row.table {
        IpTable::Ping | IpTable::Dns => 1600,
        _ => PATIENCE_S,
    };
    scenario.duration = Time(std::time::Duration::from_secs(lasts_s));
    for flow in scenario.traffic.iter_mut().filter(|flow| flow.name != WARM) {
        flow.octets = row.octets.or(flow.octets);
        flow.objects = row.objects.or(flow.objects);
    }
    for link in &mut world.links {
        link.channel.rate = Some(row.rate);
        link.channel.bit_errors = (row.bits > 0.0).then_some(Share(row.bits));
        if row.rate.0 > NARROW_BIT_S
            && let (Some(hf), Ok(bandwidth)) = (&mut link.channel.hf, "48 kHz".parse())
        {
            hf.bandwidth = bandwidth;
        }
    }
    world
}

fn cell(world: &Loaded, variant: &str, row: &IpRow) -> Result<IpCell, BuildError> {
    let run = run_plain(world, variant, 1)?;
    let (_, metric) = row.table.traffic();
    let value = run.metrics.get(metric).copied();
    let bits = row.octets.map_or(0.0, |octets| octets.0 as f64 * 8.0);
    let share = |time_s: f64| bits / time_s / row.rate.0 as f64;
    let series = run.flows.iter().flat_map(|flow| &flow.series);
    let progress = series.filter(|series| series.label == "progress");
    let flows = world.scenario.traffic.iter();
    let begins_s = flows
        .map(|flow| flow.start.0.as_secs_f64())
        .fold(0.0, f64::max);
    Ok(IpCell {
        value: match row.table {
            IpTable::Ber => value.map(share),
            _ => value,
        },
        connect_s: run.metrics.get("file.connect_s").copied(),
        progress: progress
            .flat_map(|series| &series.points)
            .map(|(at_s, octets)| (at_s - begins_s, *octets))
            .collect(),
        hash: run.hash,
        unexplained: run.unexplained,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_worlds() {
        let text = include_str!("../../../../scenarios/studies/hf.toml");
        let study = HfStudy::parse("hf.toml", text).expect("it is in order");
        let worlds = study.ip_worlds().expect("they load");
        assert_eq!(worlds.len(), study.ip_count());
        assert!(
            worlds
                .iter()
                .all(|(world, ..)| world.scenario.traffic.len() == 2)
        );
    }
}
