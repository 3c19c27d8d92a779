//! The study `hf`: data transfer of STANAG 5066 over an HF channel.

use anyhow::Context;
use strait_core::hash::RunHash;
use strait_core::units::BitRate;
use strait_report::table::{Cell, Check, Column, ResultSet, Table};
use strait_sim::study::hf::{ErrorRow, FACTOR, HfStudy, PingRow};
use strait_sim::study::hf_calls::CallCells;
use strait_sim::study::hf_ip::{Collapse, IpCell, IpRow, IpTable, SYSTEMS};
use strait_sim::study::hf_nets::{NetCells, Nets, Rule};
use strait_sim::study::hf_rate::{PathRow, RateCells, Rates};

use super::{Options, progress, write_files};

const NAME: &str = "hf";

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let (file, text) = options.set_up(
        "scenarios/studies/hf.toml",
        include_str!("../../../../../scenarios/studies/hf.toml"),
    );
    let study = HfStudy::parse(file, text)?;
    let bar = progress(NAME, study.count());
    let bulk = study.run_bulk(|| bar.inc(1))?;
    let ping = study.run_ping(options.pcap.is_some(), || bar.inc(1))?;
    let ip = study.run_ip(|| bar.inc(1))?;
    let rates = study.run_rates(|| bar.inc(1))?;
    let calls = study.run_calls(|| bar.inc(1))?;
    let nets = study.run_nets(|| bar.inc(1))?;
    let (flash_s, mixed, mixed_hash) = study.run_mixed()?;
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
    ip.iter().for_each(|cell| hash.fold(cell.hash));
    hash.fold(mixed_hash);
    calls.iter().for_each(|cells| hash.fold(cells.hash));
    rates.iter().for_each(|(_, run)| hash.fold(*run));
    nets.iter().for_each(|cells| hash.fold(cells.hash));
    let rates: Vec<RateCells> = rates.into_iter().map(|(cells, _)| cells).collect();
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
        .chain(ip.iter().map(|cell| cell.unexplained))
        .chain(calls.iter().map(|cells| cells.unexplained))
        .chain(nets.iter().map(|cells| cells.unexplained))
        .sum();
    let mut checks = bulk_checks(&study.errors, &shares);
    checks.extend(ping_checks(&study.ping, &pings));
    let bulk_min = Some(MIXED_BULK_MIN);
    checks.push(Check::range("hf-mixed", flash_s, "s", None, Some(MIXED_MAX_S)).failed());
    checks.push(Check::range("hf-mixed-bulk", mixed, "", bulk_min, None).failed());
    checks.push(Check::range("hf-ip-cells", met(&study.ip, &ip), "", study.cells, None).failed());
    if let Some(of) = &study.collapse {
        let cell = ip.chunks(SYSTEMS).nth(study.ip.len());
        let met = cell.and_then(|pair| collapse_met(of, pair.first()?));
        checks.push(Check::range("hf-collapse", met, "", study.cells, None).failed());
    }
    if let Some(of) = &study.rates {
        checks.extend(rate_checks(&of.path, &rates));
    }
    if let Some(of) = &study.calls {
        let saved = calls.first().and_then(CallCells::saved);
        checks.push(Check::range("hf-calls", saved, "", Some(of.saves_min), None).failed());
    }
    if let Some(of) = &study.nets {
        checks.extend(net_checks(of, &nets));
    }
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
        tables: {
            let mut tables = tables(&study, &shares, &pings, &ip);
            tables.extend(study.calls.as_ref().map(|of| call_table(&of.rates, &calls)));
            tables.extend(study.rates.as_ref().map(|of| rate_table(of, &rates)));
            tables.extend(study.nets.as_ref().map(|_| net_table(&nets)));
            tables
        },
        checks,
    })
}

/// A message of 1 kB and the highest precedence, against bulk: the longest that it may take, and
/// what is to be left for the bulk.
const MIXED_MAX_S: f64 = 15.0;
const MIXED_BULK_MIN: f64 = 0.80;

fn tables(
    study: &HfStudy,
    shares: &[[Option<f64>; 2]],
    pings: &[[Option<f64>; 3]],
    ip: &[IpCell],
) -> Vec<Table> {
    let mut tables = vec![
        bulk_table(&study.errors, shares),
        ping_table(&study.ping, pings),
    ];
    for (of, name) in [
        (IpTable::Ping, "hf-ip-ping"),
        (IpTable::Dns, "hf-dns"),
        (IpTable::Tcp, "hf-tcp"),
        (IpTable::Ber, "hf-ip-ber"),
        (IpTable::Web, "hf-web"),
    ] {
        tables.push(ip_table(of, name, &study.ip, ip));
    }
    tables.extend(collapse_table(study, ip));
    tables
}

/// A likeness's figure over the one measured.
fn ratio(row: &IpRow, cell: &IpCell) -> Option<f64> {
    Some(cell.value? / row.measured?)
}

/// Of the figures measured, the share that the likeness of those stations meets.
fn met(rows: &[IpRow], cells: &[IpCell]) -> Option<f64> {
    let cells = rows.iter().zip(cells.chunks(SYSTEMS));
    let judged: Vec<bool> = cells
        .filter(|(row, _)| row.measured.is_some())
        .map(|(row, pair)| is_alike(pair.first().and_then(|cell| ratio(row, cell))))
        .collect();
    share(&judged)
}

/// The same of how far the transfer that goes on and on had come, by when.
fn collapse_met(collapse: &Collapse, cell: &IpCell) -> Option<f64> {
    let points = collapse.points.iter().map(|point| {
        let at_s = arrived(cell, point.octets as f64);
        is_alike(at_s.map(|at_s| at_s / point.measured_s))
    });
    share(&points.collect::<Vec<_>>())
}

fn is_alike(ratio: Option<f64>) -> bool {
    ratio.is_some_and(|ratio| (1.0 / FACTOR..=FACTOR).contains(&ratio))
}

fn share(judged: &[bool]) -> Option<f64> {
    let good = judged.iter().filter(|met| **met).count();
    (!judged.is_empty()).then(|| good as f64 / judged.len() as f64)
}

/// When so many octets had arrived, in s.
fn arrived(cell: &IpCell, octets: f64) -> Option<f64> {
    let mut points = cell.progress.iter();
    points
        .find(|(_, there)| *there >= octets)
        .map(|(at, _)| *at)
}

fn ip_table(of: IpTable, name: &str, rows: &[IpRow], cells: &[IpCell]) -> Table {
    let unit = if of == IpTable::Ber { "" } else { "s" };
    let mut heads = vec![("rate", "bit/s"), ("carried", "")];
    let sized = matches!(of, IpTable::Tcp | IpTable::Web);
    if sized {
        heads.push(("size", "octets"));
    }
    if of == IpTable::Ber {
        heads.push(("bit errors", ""));
    }
    if of == IpTable::Tcp {
        heads.extend([
            ("connect, measured elsewhere", "s"),
            ("connect, ip-client", "s"),
            ("connect, strait", "s"),
        ]);
    }
    heads.extend([
        ("measured elsewhere", unit),
        ("ip-client", unit),
        ("strait", unit),
        ("ip-client / measured", ""),
    ]);
    let mut table = Table::new(name, columns(&heads));
    let both = rows.iter().zip(cells.chunks(SYSTEMS));
    for (row, pair) in both.filter(|(row, _)| row.table == of) {
        let [theirs, ours] = pair else { continue };
        let mut cells = vec![(row.rate.0 as f64).into(), row.carried.words().into()];
        if sized {
            cells.push(row.octets.map(|octets| octets.0 as f64).into());
        }
        if of == IpTable::Ber {
            cells.push(row.bits.into());
        }
        if of == IpTable::Tcp {
            cells.extend([row.connect_s, theirs.connect_s, ours.connect_s].map(Cell::from));
        }
        let ratio = ratio(row, theirs);
        cells.extend([row.measured, theirs.value, ours.value, ratio].map(Cell::from));
        table.push(cells);
    }
    table
}

/// How far the long transfer had come, and when.
fn collapse_table(study: &HfStudy, cells: &[IpCell]) -> Option<Table> {
    let collapse = study.collapse.as_ref()?;
    let pair = cells.chunks(SYSTEMS).nth(study.ip.len())?;
    let heads = [
        ("arrived", "octets"),
        ("measured elsewhere", "s"),
        ("ip-client", "s"),
        ("strait", "s"),
        ("use measured elsewhere", ""),
        ("use, ip-client", ""),
        ("use, strait", ""),
    ];
    let mut table = Table::new("hf-collapse", columns(&heads));
    for point in &collapse.points {
        let octets = point.octets as f64;
        let when = |cell: &IpCell| arrived(cell, octets);
        let times = [
            Some(point.measured_s),
            pair.first().and_then(when),
            pair.get(1).and_then(when),
        ];
        let used = |at_s: f64| octets * 8.0 / at_s / collapse.rate.0 as f64;
        let mut row = vec![octets.into()];
        row.extend(times.map(Cell::from));
        row.extend(times.map(|at_s| Cell::from(at_s.map(used))));
        table.push(row);
    }
    Some(table)
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

fn rate_checks(rows: &[PathRow], cells: &[RateCells]) -> Vec<Check> {
    let rows = rows.iter().zip(cells);
    rows.filter_map(|(row, cells)| {
        let ratio = cells.follows / cells.best();
        Some(Check::range(row.id.as_deref()?, Some(ratio), "", row.min, None).failed())
    })
    .collect()
}

/// What arrives by fixed rates and by one that changes, over paths that change.
fn rate_table(of: &Rates, cells: &[RateCells]) -> Table {
    let fixed = of.fixed.iter().map(|rate| format!("{} bit/s", rate.0));
    let fixed = fixed.map(|name| Column::new(name, "bit/s"));
    let mut columns = vec![Column::new("path", "")];
    columns.extend(fixed);
    for name in ["without advice", "follows"] {
        columns.push(Column::new(name, "bit/s"));
    }
    columns.push(Column::new("follows / best fixed", ""));
    let mut table = Table::new("hf-rate", columns);
    for (row, cells) in of.path.iter().zip(cells) {
        let mut line: Vec<Cell> = vec![row.name.as_str().into()];
        line.extend(cells.fixed.iter().map(|rate| Cell::from(*rate)));
        line.extend([cells.unadvised, cells.follows, cells.follows / cells.best()].map(Cell::from));
        table.push(line);
    }
    table
}

/// Pings that need a call, and client data that the other client confirms.
fn call_table(rates: &[BitRate], cells: &[CallCells]) -> Table {
    let heads = [
        ("rate", "bit/s"),
        ("ping, after the answer", "s"),
        ("ping, with the call", "s"),
        ("saved", ""),
        ("confirmed after, standard's", "s"),
        ("confirmed after, numbers", "s"),
        ("air of each answer, standard's", "s"),
        ("air of each answer, numbers", "s"),
    ];
    let mut table = Table::new("hf-calls", columns(&heads));
    for (rate, cells) in rates.iter().zip(cells) {
        let [after, with] = cells.ping_s;
        let mut row = vec![(rate.0 as f64).into()];
        row.extend([after, with, cells.saved()].map(Cell::from));
        row.extend(cells.confirm_s.map(Cell::from));
        row.extend(cells.answer_s.map(Cell::from));
        table.push(row);
    }
    table
}

/// The largest net: with turns by addresses what data has of the air, and how even; and by each
/// rule that says so how long a station waits for its turn, beside what the rule says.
fn net_checks(of: &Nets, cells: &[NetCells]) -> Vec<Check> {
    let by = |rule: Rule| {
        let cells = cells.iter().filter(move |cells| cells.access == rule);
        cells.max_by_key(|cells| cells.stations)
    };
    let most = by(Rule::Address);
    let share = most.map(|cells| cells.share);
    let fairness = most.map(|cells| cells.fairness);
    let waits = |id: &str, rule: Rule| {
        let wait_s = by(rule).and_then(|cells| cells.wait_s(0.95));
        let bar_s = by(rule).and_then(NetCells::wait_by_rule_s);
        Check::range(id, wait_s, "s", None, bar_s)
    };
    let delay_s = most.and_then(|cells| cells.delay_s(0.95));
    let delay_bar_s = most.and_then(NetCells::delay_by_rule_s);
    let checks = [
        Check::range("hf-net-share", share, "", Some(of.share_min), None),
        Check::range("hf-net-fair", fairness, "", Some(of.fair_min), None),
        waits("hf-net-wait", Rule::Address),
        waits("hf-net-wait-chance", Rule::Chance),
        waits("hf-net-wait-jitter", Rule::Jitter),
        Check::range("hf-net-message", delay_s, "s", None, delay_bar_s),
    ];
    checks.map(Check::failed).into()
}

/// Nets by rule of access.
fn net_table(cells: &[NetCells]) -> Table {
    let heads = [
        ("stations", ""),
        ("access", ""),
        ("bulk: share of the air", ""),
        ("fairness", ""),
        ("met", ""),
        ("wait, 95 of 100", "s"),
        ("by the rule", "s"),
        ("messages: median", "s"),
        ("95 of 100", "s"),
        ("longest", "s"),
        ("lost", ""),
        ("met", ""),
    ];
    let mut table = Table::new("hf-nets", columns(&heads));
    for cells in cells {
        let [bulk_met, messages_met] = cells.met;
        let mut row: Vec<Cell> = vec![
            (cells.stations as f64).into(),
            cells.access.word().into(),
            cells.share.into(),
            cells.fairness.into(),
            bulk_met.into(),
            cells.wait_s(0.95).into(),
            cells.wait_by_rule_s().into(),
        ];
        row.extend([0.5, 0.95, 1.0].map(|share| Cell::from(cells.delay_s(share))));
        row.extend([cells.lost as f64, messages_met].map(Cell::from));
        table.push(row);
    }
    table
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
