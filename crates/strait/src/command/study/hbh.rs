//! The study `hbh`: who repeats what a chain of links loses.

mod fair;
mod figures;
mod live;
mod parity;
mod pressure;
mod sweep;

use std::collections::BTreeSet;

use anyhow::Context;
use strait_core::hash::RunHash;
use strait_report::estimate::{mean, median_interval, percentile};
use strait_report::table::{Check, Column, ResultSet, Table};
use strait_sim::study::hbh::{HbhCheck, HbhStudy, Quantity};
use strait_sim::study::transfer::{self as simulated, Case, Ended};

use super::{Options, conserved, progress, write_captures};

const NAME: &str = "hbh";

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let (file, text) = options.set_up(
        "scenarios/studies/hbh.toml",
        include_str!("../../../../../scenarios/studies/hbh.toml"),
    );
    let study = HbhStudy::parse(file, text)?;
    let cases = study.cases();
    let runs = cases.iter().map(|case| case.seeds.clone().count()).sum();
    let bar = progress(NAME, runs);
    let results = simulated::run(&cases, options.pcap.is_some(), || bar.inc(1))?;
    bar.finish_and_clear();
    let parts = sweep::run(&study, options.full)?;
    let cells = Cells {
        study: &study,
        runs: &results,
    };
    if let Some(folder) = options.pcap {
        for (index, (case, runs)) in cases.iter().zip(&results).enumerate() {
            write_captures(folder, &cells.stem(index, case), runs).context("--pcap")?;
        }
    }
    if let Some(folder) = options.figures {
        figures::write(&cells, &parts, folder)?;
    }
    let mut checks: Vec<Check> = study.checks.iter().map(|it| cells.check(it)).collect();
    let swept = parts.iter().flatten().flat_map(|cases| &cases.runs);
    checks.push(conserved(
        NAME,
        results.iter().flatten().chain(swept.clone()),
    ));
    let swept: Vec<u64> = swept.map(|run| run.hash).collect();
    let seeds = cases.iter().flat_map(|case| case.seeds.clone());
    let seeds: BTreeSet<u64> = seeds.collect();
    let part = pressure::run()?;
    checks.extend(part.checks);
    let fair = fair::run()?;
    checks.extend(fair.checks);
    let parity = parity::run()?;
    checks.extend(parity.checks);
    let (live, of_live) = live::run(&study.live, options)?;
    checks.extend(of_live);
    let mut hash = RunHash::default();
    hash.fold(simulated::hash(&results));
    swept
        .into_iter()
        .chain(part.hashes)
        .chain(fair.hashes)
        .chain(parity.hashes)
        .for_each(|run| hash.fold(run));
    let tables = [cells.delays(), cells.usage(), cells.repairs()];
    let tables = tables
        .into_iter()
        .chain(sweep::tables(&parts))
        .chain([part.table])
        .chain(fair.tables)
        .chain([parity.table]);
    Ok(ResultSet {
        run_hash: Some(hash.value().into()),
        seeds: seeds.into_iter().collect(),
        tables: tables.chain(live).collect(),
        checks,
    })
}

/// Every run of every column at every loss.
struct Cells<'a> {
    study: &'a HbhStudy,
    /// Column by column, loss by loss.
    runs: &'a [Vec<Ended>],
}

fn quantity(run: &Ended, of: Quantity) -> f64 {
    match of {
        // What wasn't reached took longer than all that was.
        Quantity::Time => run.time_s.unwrap_or(f64::INFINITY),
        Quantity::Frames => run.packets as f64,
        Quantity::Octets => run.octets as f64,
    }
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

impl Cells<'_> {
    fn of(&self, column: usize, loss: usize) -> &[Ended] {
        let index = column * self.study.losses.len() + loss;
        self.runs.get(index).map_or(&[], |runs| runs.as_slice())
    }

    fn values(&self, column: usize, loss: usize, of: Quantity) -> Vec<f64> {
        let runs = self.of(column, loss).iter();
        runs.map(|run| quantity(run, of)).collect()
    }

    fn median(&self, column: usize, loss: usize, of: Quantity) -> Option<f64> {
        percentile(&self.values(column, loss, of), 0.5).and_then(finite)
    }

    /// What captures of a case are called.
    fn stem(&self, index: usize, case: &Case) -> String {
        let column = &self.study.columns[index / self.study.losses.len()].name;
        let loss = case.link.loss.map_or(0.0, |loss| loss.0) * 100.0;
        format!("{NAME}-{}-{loss}%", column.replace(' ', "-"))
    }

    /// Whose median a check is about.
    fn check(&self, check: &HbhCheck) -> Check {
        let loss = self.study.losses.iter().position(|it| *it == check.loss);
        let median = |name: &str| {
            let column = self.study.columns.iter().position(|it| it.name == name)?;
            self.median(column, loss?, check.quantity)
        };
        let own = median(&check.column);
        let (value, unit) = match &check.against {
            None => (own, "s"),
            Some(other) => (own.zip(median(other)).map(|(own, other)| own / other), ""),
        };
        Check::range(&check.id, value, unit, None, Some(check.max)).failed()
    }

    /// Rows for each loss and column.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.study.columns.len();
        (0..self.study.losses.len()).flat_map(move |loss| (0..columns).map(move |it| (loss, it)))
    }

    /// The least time if nobody but the physics took any: each octet once, as often as it is lost,
    /// and the way.
    fn limit_s(&self, loss: usize) -> f64 {
        let link = &self.study.link;
        let rate = link.line_rate(strait_channel::Side::A).bit_s() as f64;
        let lost = self.study.losses[loss].0;
        let delay_s = link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
        let octets_s = (self.study.octets.0 * 8) as f64 / (rate * (1.0 - lost));
        octets_s + self.study.links as f64 * delay_s
    }

    fn delays(&self) -> Table {
        let columns = [
            ("loss", ""),
            ("who repeats", ""),
            ("runs", ""),
            ("late", ""),
            ("median", "s"),
            ("from", "s"),
            ("to", "s"),
            ("mean", "s"),
            ("of the limit", ""),
        ];
        let columns = columns.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new("hbh-delay", columns.into());
        for (loss, column) in self.rows() {
            let times = self.values(column, loss, Quantity::Time);
            let late = times.iter().filter(|time| time.is_infinite()).count();
            let median = self.median(column, loss, Quantity::Time);
            let [from, to] = median_interval(&times).map_or([None; 2], |ends| ends.map(finite));
            table.push(vec![
                self.study.losses[loss].0.into(),
                self.study.columns[column].name.as_str().into(),
                (times.len() as f64).into(),
                (late as f64).into(),
                median.into(),
                from.into(),
                to.into(),
                mean(&times).and_then(finite).into(),
                median.map(|median| median / self.limit_s(loss)).into(),
            ]);
        }
        table
    }

    fn usage(&self) -> Table {
        let columns = [
            ("loss", ""),
            ("who repeats", ""),
            ("frames", ""),
            ("from", ""),
            ("to", ""),
            ("octets", ""),
            ("from", ""),
            ("to", ""),
        ];
        let columns = columns.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new("hbh-usage", columns.into());
        for (loss, column) in self.rows() {
            let mut row = vec![
                self.study.losses[loss].0.into(),
                self.study.columns[column].name.as_str().into(),
            ];
            for of in [Quantity::Frames, Quantity::Octets] {
                let values = self.values(column, loss, of);
                let [from, to] = median_interval(&values).map_or([None; 2], |ends| ends.map(Some));
                row.extend([self.median(column, loss, of).into(), from.into(), to.into()]);
            }
            table.push(row);
        }
        table
    }

    /// Means over the runs of what repairs are made of.
    fn repairs(&self) -> Table {
        let columns = [
            ("loss", ""),
            ("who repeats", ""),
            ("segments again", ""),
            ("frames again", ""),
            ("needlessly", ""),
            ("copies", ""),
            ("without packet", ""),
            ("dropped", ""),
        ];
        let columns = columns.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new("hbh-repairs", columns.into());
        for (loss, column) in self.rows() {
            let runs = self.of(column, loss);
            let of = |count: fn(&Ended) -> u64| {
                let counts: Vec<f64> = runs.iter().map(|run| count(run) as f64).collect();
                mean(&counts)
            };
            table.push(vec![
                self.study.losses[loss].0.into(),
                self.study.columns[column].name.as_str().into(),
                of(|run| run.tcp.retransmissions).into(),
                of(|run| run.hop.repeated).into(),
                of(|run| run.hop.needless).into(),
                of(|run| run.hop.copied).into(),
                of(|run| run.hop.control).into(),
                of(|run| run.dropped).into(),
            ]);
        }
        table
    }
}
