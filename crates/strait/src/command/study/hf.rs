//! The study `hf`: data transfer of STANAG 5066 over an HF channel.

use anyhow::Context;
use strait_core::hash::RunHash;
use strait_sim::study::hf::{ErrorRow, HfStudy, PingRow};
use strait_world::table::{Check, Column, ResultSet, Table};

use super::{Options, progress, write_files};

const NAME: &str = "hf";

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let text = include_str!("../../../../../scenarios/studies/hf.toml");
    let study = HfStudy::parse("scenarios/studies/hf.toml", text)?;
    let bar = progress(NAME, study.count());
    let bulk = study.run_bulk(|| bar.inc(1))?;
    let ping = study.run_ping(options.pcap.is_some(), || bar.inc(1))?;
    bar.finish_and_clear();
    if let Some(folder) = options.pcap {
        for (index, run) in ping.iter().enumerate() {
            let case = format!("{NAME}-ping-{index}");
            write_files(folder, &case, &run.captures).context("--pcap")?;
        }
    }
    let mut hash = RunHash::default();
    bulk.iter().for_each(|run| hash.fold(run.hash));
    ping.iter().for_each(|run| hash.fold(run.hash));
    let shares: Vec<[Option<f64>; 2]> = bulk
        .chunks(2)
        .map(|pair| [0, 1].map(|it| pair.get(it).map(|run| run.share)))
        .collect();
    let metric = |name: &'static str| move |run: &strait_sim::Run| run.metrics.get(name).copied();
    let pings: Vec<[Option<f64>; 3]> = ping
        .iter()
        .map(|run| ["ping.rtt_min_s", "ping.rtt_p50_s", "ping.loss"].map(|it| metric(it)(run)))
        .collect();
    let unexplained = bulk.iter().map(|run| run.unexplained);
    let unexplained: u64 = unexplained
        .chain(ping.iter().map(|run| run.unexplained))
        .sum();
    let mut checks = bulk_checks(&study.errors, &shares);
    checks.extend(ping_checks(&study.ping, &pings));
    let unexplained = Some(unexplained as f64);
    checks.push(Check::range(
        "hf-conserved",
        unexplained,
        "",
        None,
        Some(0.0),
    ));
    Ok(ResultSet {
        run_hash: Some(hash.value().into()),
        seeds: vec![1],
        tables: vec![
            bulk_table(&study.errors, &shares),
            ping_table(&study.ping, &pings),
        ],
        checks,
    })
}

fn bulk_checks(rows: &[ErrorRow], shares: &[[Option<f64>; 2]]) -> Vec<Check> {
    let rows = rows.iter().zip(shares);
    let mut checks: Vec<Check> = rows
        .clone()
        .filter_map(|(row, [long, _])| {
            let id = row.id.as_deref()?;
            Some(Check::range(id, *long, "", row.min, None).failed())
        })
        .collect();
    // The worst row, as a multiple of what was measured.
    let multiples = rows.map(|(row, [_, short])| short.unwrap_or(0.0) / row.measured);
    let worst = multiples.reduce(f64::min);
    checks.push(Check::range("hf-arq-ed3", worst, "", Some(1.0), None).failed());
    checks
}

fn ping_checks(rows: &[PingRow], pings: &[[Option<f64>; 3]]) -> Vec<Check> {
    let rows = rows.iter().zip(pings);
    rows.filter_map(|(row, [_, median, _])| {
        let id = row.id.as_deref()?;
        Some(Check::range(id, *median, "s", None, row.max_s).failed())
    })
    .collect()
}

fn columns(names: &[(&str, &str)]) -> Vec<Column> {
    let columns = names.iter().map(|(name, unit)| Column::new(*name, *unit));
    columns.collect()
}

fn bulk_table(rows: &[ErrorRow], shares: &[[Option<f64>; 2]]) -> Table {
    let names = [
        ("bit errors", ""),
        ("measured elsewhere", ""),
        ("edition 3", ""),
        ("strait", ""),
    ];
    let mut table = Table::new("hf-ber", columns(&names));
    for (row, [long, short]) in rows.iter().zip(shares) {
        table.push(vec![
            row.bits.into(),
            row.measured.into(),
            (*short).into(),
            (*long).into(),
        ]);
    }
    table
}

fn ping_table(rows: &[PingRow], pings: &[[Option<f64>; 3]]) -> Table {
    let names = [
        ("rate", "bit/s"),
        ("measured elsewhere", "s"),
        ("least", "s"),
        ("median", "s"),
        ("lost", ""),
    ];
    let mut table = Table::new("hf-ping", columns(&names));
    for (row, [least, median, lost]) in rows.iter().zip(pings) {
        table.push(vec![
            (row.rate.0 as f64).into(),
            row.measured_s.into(),
            (*least).into(),
            (*median).into(),
            (*lost).into(),
        ]);
    }
    table
}
