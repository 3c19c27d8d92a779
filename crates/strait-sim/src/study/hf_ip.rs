//! IP over HF as others measured it: pings, look-ups, transfers and pages over stations like
//! theirs, and over ours.

use serde::Deserialize;
use strait_core::keys::KeyError;
use strait_core::units::{BitRate, Octets, Share, Time};
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};

use super::hf::{Came, FACTOR, HfStudy};
use super::scenario::load;
use super::shown::Row;
use super::{Asked, StudyError, run_all};
use crate::build::BuildError;
use crate::run::run_plain;

/// What of IP is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IpTable {
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
    /// The word in files.
    const fn word(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Dns => "dns",
            Self::Tcp => "tcp",
            Self::Ber => "ber",
            Self::Web => "web",
        }
    }

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
enum Carried {
    /// With ARQ, in order.
    #[default]
    InOrder,
    /// With ARQ, as they arrive.
    AnyOrder,
    /// Without ARQ.
    NonArq,
}

impl Carried {
    /// The variants: with stations like those measured, with such stations whose client takes no
    /// time to find a packet, and with ours.
    const fn variants(self) -> [&'static str; SYSTEMS] {
        match self {
            Self::InOrder => ["ip-client", "ip-client-quick", "in-order"],
            Self::AnyOrder => ["ip-client-any", "ip-client-any-quick", Scenario::BASE],
            Self::NonArq => ["ip-client-plain", "ip-client-plain-quick", "plain"],
        }
    }

    /// In words.
    const fn words(self) -> &'static str {
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
pub(super) struct IpRow {
    /// Of which table.
    table: IpTable,
    /// The channel's rate.
    rate: BitRate,
    /// Octets of a transfer or page.
    octets: Option<Octets>,
    /// Objects of a page.
    objects: Option<u32>,
    /// The share of bits that are wrong.
    #[serde(default)]
    bits: f64,
    /// How packets were carried.
    #[serde(default)]
    carried: Carried,
    /// The time in s, or the share of the rate; absent where theirs failed.
    measured: Option<f64>,
    /// The time to connect in s.
    connect_s: Option<f64>,
}

/// How far the long transfer of others had come.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressRow {
    /// Octets that had arrived.
    octets: u64,
    /// After so many seconds.
    measured_s: f64,
}

/// The transfer that goes on and on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Collapse {
    /// The channel's rate.
    rate: BitRate,
    /// Octets of the transfer.
    octets: Octets,
    /// How far it had come.
    points: Vec<ProgressRow>,
}

/// Radios that take longer to change from hearing to sending.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Turnarounds {
    /// How long they take.
    values: Vec<Time>,
    /// What is measured with each.
    rows: Vec<IpRow>,
}

/// What a system made of a row.
#[derive(Clone, Debug, Default)]
struct IpCell {
    /// In the row's unit; `None` if it didn't come to an end.
    value: Option<f64>,
    /// The time to connect in s.
    connect_s: Option<f64>,
    /// Time in s and octets there.
    progress: Vec<(f64, f64)>,
    /// Hash of the run.
    hash: u64,
    /// Packets that can't be explained.
    unexplained: u64,
}

/// The likeness of others' stations, the same without what is only supposed of their client, and
/// ours.
const SYSTEMS: usize = 3;

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
        let base = load("hf/ip.toml")?;
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
            for variant in row.carried.variants() {
                let world = world(&base, &row)
                    .map_err(|error| ConfigError::of_file("hf/ip.toml", error.to_string()))?;
                worlds.push((world, variant, row.clone()));
            }
        }
        Ok(worlds)
    }

    /// What others measured beside stations like theirs and ours, row by row; each of their
    /// figures, times to connect too; and how far the long transfer had come.
    pub(super) fn run_ip(&self, asked: &Asked<'_>) -> Result<(Came, [Vec<Row>; 2]), StudyError> {
        let worlds = self.ip_worlds()?;
        let mut cells = run_all(asked, "hf-ip", &worlds, |(world, variant, row)| {
            cell(world, variant, row, asked.seed(1))
        })?;
        self.add_look_ups(&mut cells);
        let mut came = Came::default();
        cells
            .iter()
            .for_each(|cell| came.note(cell.hash, cell.unexplained));
        let (systems, _) = cells.as_chunks::<SYSTEMS>();
        let rows = self.ip.iter().zip(systems);
        let rows = rows.map(|(row, [theirs, quick, ours])| {
            let ratio = ratio(theirs.value, row.measured);
            Row::default()
                .with("table", row.table.word())
                .with("rate", row.rate.0)
                .with("carried", row.carried.words())
                .with("size_octets", row.octets.map(|octets| octets.0 as f64))
                .with("bits", row.bits)
                .with("connect_measured_s", row.connect_s)
                .with("connect_theirs_s", theirs.connect_s)
                .with("connect_ours_s", ours.connect_s)
                .with("measured", row.measured)
                .with("theirs", theirs.value)
                .with("quick", quick.value)
                .with("ours", ours.value)
                .with("ratio", ratio)
        });
        came.rows = rows.collect();
        let long = self.collapse.iter().zip(systems.last());
        let long = long.flat_map(|(collapse, of)| collapse.rows(of, self.cells));
        Ok((came, [self.figures(systems), long.collect()]))
    }

    /// IP over our stations with radios that take their time, row by row.
    pub(super) fn run_turnarounds(
        &self,
        turnarounds: &Turnarounds,
        asked: &Asked<'_>,
    ) -> Result<Came, StudyError> {
        let base = load("hf/ip.toml")?;
        let mut worlds = Vec::new();
        for row in &turnarounds.rows {
            for turnaround in &turnarounds.values {
                let mut world = world(&base, row)
                    .map_err(|error| ConfigError::of_file("hf/ip.toml", error.to_string()))?;
                let links = world.links.iter_mut();
                for hf in links.filter_map(|link| link.channel.hf_config_mut()) {
                    hf.turnaround = Some(*turnaround);
                }
                worlds.push((world, row));
            }
        }
        let cells = run_all(asked, "hf-turnarounds", &worlds, |(world, row)| {
            cell(world, Scenario::BASE, row, asked.seed(1))
        })?;
        let mut came = Came::default();
        let each = cells.chunks(turnarounds.values.len().max(1));
        for (row, cells) in turnarounds.rows.iter().zip(each) {
            let bits = row.octets.map(|octets| octets.0 as f64 * 8.0);
            let mut line = Row::default()
                .with("table", row.table.word())
                .with("rate", row.rate.0)
                .with("size_octets", row.octets.map(|octets| octets.0 as f64))
                .with("limit_s", bits.map(|bits| bits / row.rate.0 as f64));
            for (turnaround, cell) in turnarounds.values.iter().zip(cells) {
                came.note(cell.hash, cell.unexplained);
                line = line.with(format!("with {turnaround}"), cell.value);
            }
            came.rows.push(line);
        }
        Ok(came)
    }

    /// Each figure of others, and whether the likeness of their stations meets it.
    fn figures(&self, systems: &[[IpCell; SYSTEMS]]) -> Vec<Row> {
        let rows = self.ip.iter().zip(systems).flat_map(|(row, [theirs, ..])| {
            [
                (row.measured, theirs.value),
                (row.connect_s, theirs.connect_s),
            ]
        });
        let judged = rows.filter(|(measured, _)| measured.is_some());
        let row = |(measured, own)| {
            Row::default()
                .with("met", is_alike(ratio(own, measured)))
                .with("met_min", self.cells)
        };
        judged.map(row).collect()
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
}

/// A likeness's figure as a multiple of the one measured.
fn ratio(own: Option<f64>, measured: Option<f64>) -> Option<f64> {
    own.zip(measured).map(|(own, measured)| own / measured)
}

/// 1 if a likeness's figure is near enough to the one measured.
fn is_alike(ratio: Option<f64>) -> f64 {
    let near = ratio.is_some_and(|ratio| (1.0 / FACTOR..=FACTOR).contains(&ratio));
    f64::from(u8::from(near))
}

impl Collapse {
    /// How far the long transfer had come, and when.
    fn rows(&self, systems: &[IpCell; SYSTEMS], met_min: Option<f64>) -> Vec<Row> {
        let points = self.points.iter().map(|point| {
            let octets = point.octets as f64;
            let arrived = |cell: &IpCell| {
                let mut points = cell.progress.iter();
                points
                    .find(|(_, there)| *there >= octets)
                    .map(|(at_s, _)| *at_s)
            };
            let used = |at_s: f64| octets * 8.0 / at_s / self.rate.0 as f64;
            let [theirs_s, quick_s, ours_s] = systems.each_ref().map(arrived);
            Row::default()
                .with("arrived", octets)
                .with("measured_s", point.measured_s)
                .with("theirs_s", theirs_s)
                .with("quick_s", quick_s)
                .with("ours_s", ours_s)
                .with("measured_use", used(point.measured_s))
                .with("theirs_use", theirs_s.map(used))
                .with("ours_use", ours_s.map(used))
                .with(
                    "met",
                    is_alike(theirs_s.map(|at_s| at_s / point.measured_s)),
                )
                .with("met_min", met_min)
        });
        points.collect()
    }
}

/// The base with what a row has, and its traffic alone.
fn world(base: &Loaded, row: &IpRow) -> Result<Loaded, KeyError> {
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
        flow.change(|keys| {
            keys.octets = row.octets.or(keys.octets);
            keys.objects = row.objects.or(keys.objects);
        })?;
    }
    for link in &mut world.links {
        link.channel.rate = Some(row.rate);
        link.channel.bit_errors = (row.bits > 0.0).then_some(Share(row.bits));
        if row.rate.0 > NARROW_BIT_S
            && let (Some(hf), Ok(bandwidth)) = (link.channel.hf_config_mut(), "48 kHz".parse())
        {
            hf.bandwidth = bandwidth;
        }
    }
    Ok(world)
}

fn cell(world: &Loaded, variant: &str, row: &IpRow, seed: u64) -> Result<IpCell, BuildError> {
    let run = run_plain(world, variant, seed)?;
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
    use strait_node::config_text;

    #[test]
    fn every_row_has_its_worlds() {
        let text = include_str!("../../../../scenarios/studies/hf.toml");
        let study: HfStudy = config_text::parse("hf.toml", text).expect("it is in order");
        let worlds = study.ip_worlds().expect("they load");
        assert_eq!(worlds.len(), (study.ip.len() + 1) * SYSTEMS);
        assert!(
            worlds
                .iter()
                .all(|(world, ..)| world.scenario.traffic.len() == 2)
        );
    }
}
