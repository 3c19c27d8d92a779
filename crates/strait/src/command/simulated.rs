//! What simulated scenarios have in common, whoever asked for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use strait_core::stats::ClassStats;
use strait_report::estimate::{mean, mean_interval};
use strait_report::picture::{Picture, Watched};
use strait_report::scatter::Figure;
use strait_report::table::{Cell, Column, ResultSet, Table};
use strait_report::{Report, Series, delay_table, names_of, stations_of};
use strait_scenario::{Loaded, Scenario, unit_of};
use strait_sim::{Options, Outcome};
use strait_status::{Class, Snapshot};
use strait_web::{Clock, Recording};

use super::picture::Shown;

/// Runs every variant and seed, with progress.
pub(crate) fn run(loaded: &Loaded, options: &Options) -> anyhow::Result<Outcome> {
    let bar = crate::output::progress(0, &loaded.scenario.name);
    let outcome = strait_sim::run_scenario(loaded, options, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    Ok(outcome?)
}

/// Tables and checks of an outcome.
pub(crate) fn result(loaded: &Loaded, outcome: &Outcome) -> ResultSet {
    let mut tables = vec![metrics(loaded, outcome)];
    let counted = [judged(loaded, outcome), kept_off(loaded, outcome)];
    tables.extend(counted.into_iter().filter(|table| !table.rows.is_empty()));
    for variant in loaded.scenario.variant_names() {
        // Single transfers, of the first seed.
        let flows = outcome.of(variant).take(1).flat_map(|run| &run.flows);
        for table in flows.flat_map(|flow| &flow.tables) {
            let id = format!("{} {variant}", table.id);
            tables.push(Table {
                id,
                ..table.clone()
            });
        }
        tables.extend(stations(outcome, variant));
        let mut table = delay_table(&delays(outcome, variant));
        table.id = format!("delay-parts {variant}");
        tables.push(table);
    }
    ResultSet {
        run_hash: Some(outcome.hash().into()),
        seeds: outcome.seeds.clone(),
        tables,
        checks: outcome.checks(loaded),
    }
}

/// A row for each metric, a column for each variant; with several runs, half the width of the 95 %
/// interval beside it.
fn metrics(loaded: &Loaded, outcome: &Outcome) -> Table {
    let several = outcome.seeds.len() > 1;
    let mut columns = vec![Column::new("metric", ""), Column::new("unit", "")];
    for variant in loaded.scenario.variant_names() {
        columns.push(Column::new(variant, ""));
        if several {
            columns.push(Column::new("±", ""));
        }
    }
    let mut table = Table::new(loaded.scenario.name.as_str(), columns);
    let mut names: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    for name in outcome.runs.iter().flat_map(|run| run.metrics.keys()) {
        if known.insert(name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        let mut row: Vec<Cell> = vec![name.into(), unit_of(name).into()];
        for variant in loaded.scenario.variant_names() {
            let interval = mean_interval(&outcome.metric(variant, name));
            row.push(interval.map(|interval| interval.mean).into());
            if several {
                row.push(interval.and_then(|interval| interval.half_width).into());
            }
        }
        table.push(row);
    }
    table
}

/// What the TCP endpoints of each traffic met, both together: a row for each counter that isn't
/// zero everywhere, the mean of the runs for each variant. `None` without such a traffic.
pub(crate) fn tcp(loaded: &Loaded, outcome: &Outcome) -> Option<Table> {
    let variants: Vec<&str> = loaded.scenario.variant_names().collect();
    let mut columns = vec![Column::new("counter", "")];
    columns.extend(variants.iter().map(|variant| Column::new(*variant, "")));
    let mut table = Table::new("tcp", columns);
    for (index, traffic) in loaded.scenario.traffic.iter().enumerate() {
        let names: BTreeSet<&String> = variants
            .iter()
            .flat_map(|variant| outcome.of(variant))
            .filter_map(|run| run.flows.get(index))
            .flat_map(|flow| &flow.counters)
            .filter(|(name, count)| name.starts_with("tcp_") && **count > 0)
            .map(|(name, _)| name)
            .collect();
        for name in names {
            let of = |variant: &&str| {
                let flows = outcome.of(variant).filter_map(|run| run.flows.get(index));
                let counts: Vec<f64> = flows
                    .map(|flow| flow.counters.get(name).copied().unwrap_or(0) as f64)
                    .collect();
                Cell::from(mean(&counts))
            };
            let mut row: Vec<Cell> = vec![format!("{}.{name}", traffic.name).into()];
            row.extend(variants.iter().map(of));
            table.push(row);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What the classes of all nodes dropped, marked and found of what colour.
fn judged(loaded: &Loaded, outcome: &Outcome) -> Table {
    counters(loaded, outcome, ("classes", "packets"), |node| {
        let each = node.classes.iter().flat_map(|class| {
            judgements(class).map(|(what, count)| (format!("{}.{what}", class.name), count))
        });
        each.collect()
    })
}

/// What each node kept off its links: chatter, and questions that it answered.
fn kept_off(loaded: &Loaded, outcome: &Outcome) -> Table {
    let heads = ("local", "kept off the links");
    counters(loaded, outcome, heads, |node| {
        let kept = node.local.iter().flat_map(|(what, kind, volume)| {
            let name = format!("{}: {what} {kind}", node.node);
            [
                (format!("{name}, packets"), volume.packets),
                (format!("{name}, octets"), volume.octets),
            ]
        });
        kept.collect()
    })
}

/// Stations on radios and DNS proxies at the end of a variant's first run.
fn stations(outcome: &Outcome, variant: &str) -> Vec<Table> {
    let first = outcome.of(variant).next();
    let nodes: &[Snapshot] = first.map_or(&[], |run| &run.nodes);
    let mut tables = stations_of(nodes);
    tables.extend(names_of(nodes));
    for table in &mut tables {
        table.id = format!("{} {variant}", table.id);
    }
    tables
}

/// A row for each counter that isn't zero everywhere, the mean of the runs for each variant.
fn counters(
    loaded: &Loaded,
    outcome: &Outcome,
    (id, head): (&str, &str),
    of: impl Fn(&Snapshot) -> Vec<(String, u64)>,
) -> Table {
    let variants: Vec<&str> = loaded.scenario.variant_names().collect();
    let mut sums: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (place, variant) in variants.iter().enumerate() {
        let runs = outcome.of(variant).count().max(1) as f64;
        let nodes = outcome.of(variant).flat_map(|run| &run.nodes);
        for (name, count) in nodes.flat_map(&of) {
            let row = sums
                .entry(name)
                .or_insert_with(|| vec![0.0; variants.len()]);
            row[place] += count as f64 / runs;
        }
    }
    let mut columns = vec![Column::new(head, "")];
    columns.extend(variants.iter().map(|variant| Column::new(*variant, "")));
    let mut table = Table::new(id, columns);
    for (name, counts) in sums {
        let mut row: Vec<Cell> = vec![name.into()];
        row.extend(counts.into_iter().map(Cell::from));
        table.push(row);
    }
    table
}

fn judgements(class: &Class) -> impl Iterator<Item = (String, u64)> {
    let dropped = class.dropped.iter();
    let dropped = dropped.map(|(cause, count)| (format!("dropped {cause}"), *count));
    let marked = Some(("marked".to_owned(), class.marked));
    let colours = class.policed.iter();
    let colours = colours.map(|(colour, count)| (format!("policed {colour}"), *count));
    let all = dropped.chain(marked).chain(colours);
    all.filter(|(_, count)| *count > 0)
}

/// Where the time went, over all runs of a variant.
fn delays(outcome: &Outcome, variant: &str) -> Vec<ClassStats> {
    let mut sums: Vec<ClassStats> = Vec::new();
    for class in outcome.of(variant).flat_map(|run| &run.delays) {
        match sums.iter_mut().find(|sum| sum.name == class.name) {
            Some(sum) => {
                sum.packets += class.packets;
                sum.parts.merge(&class.parts);
            }
            None => sums.push(class.clone()),
        }
    }
    sums
}

/// Files to write beside what is printed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outputs<'a> {
    pub(crate) pcap: Option<&'a Path>,
    pub(crate) mgen_log: Option<&'a Path>,
    pub(crate) status: Option<&'a Path>,
    pub(crate) report: Option<&'a Path>,
}

/// Writes the files asked for. Beside each stands the resolved configuration.
pub(crate) fn write(
    loaded: &Loaded,
    outcome: &Outcome,
    result: &ResultSet,
    outputs: &Outputs<'_>,
) -> anyhow::Result<()> {
    let resolved = loaded.resolved_text();
    if let Some(folder) = outputs.pcap {
        make(folder)?;
        for run in &outcome.runs {
            for (name, octets) in &run.captures {
                put(&folder.join(format!("{}-{name}", run.variant)), octets)?;
            }
        }
        put(&folder.join("resolved.toml"), resolved.as_bytes())?;
    }
    if let Some(folder) = outputs.mgen_log {
        make(folder)?;
        for run in &outcome.runs {
            for (name, text) in &run.mgen_logs {
                let path = folder.join(format!("{}-{name}", run.variant));
                put(&path, text.as_bytes())?;
            }
        }
        put(&folder.join("resolved.toml"), resolved.as_bytes())?;
    }
    if let Some(folder) = outputs.status {
        make(folder)?;
        let variants = loaded.scenario.variant_names();
        for run in variants.filter_map(|variant| outcome.of(variant).next()) {
            for node in &run.nodes {
                let name = format!("{}-{}.json", run.variant, node.node);
                let text = serde_json::to_string_pretty(node)? + "\n";
                put(&folder.join(name), text.as_bytes())?;
            }
        }
        put(&folder.join("resolved.toml"), resolved.as_bytes())?;
    }
    if let Some(path) = outputs.report {
        let report = report(loaded, outcome, result);
        let page = strait_web::page::with_results(&recording(loaded, outcome), &report);
        put(path, page.as_bytes())?;
    }
    Ok(())
}

fn make(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn put(path: &Path, octets: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, octets).with_context(|| format!("cannot write {}", path.display()))
}

/// What gateways said of themselves in the first run of each variant, each with its variant's name.
fn recording(loaded: &Loaded, outcome: &Outcome) -> Recording {
    let mut recording = Recording::new(Clock::Run);
    for (node, way) in loaded.ways() {
        for variant in loaded.scenario.variant_names() {
            recording.place(format!("{variant}: {node}"), way.clone());
        }
    }
    let mut names = Vec::new();
    for run in &outcome.runs {
        let snapshots = run.moments.iter().flatten();
        for (snapshot, why) in snapshots.filter(|it| is_gateway(loaded, &it.0)) {
            let name = format!("{}: {}", run.variant, snapshot.node);
            let known = names.iter().position(|one| *one == name);
            let n = known.unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            let named = Snapshot {
                node: name,
                ..snapshot.clone()
            };
            recording.add_judged(n, named.uptime_s, &named, why);
        }
    }
    recording
}

/// The first run of some variants, as a picture in the terminal: by variant, with its name there.
pub(crate) fn picture(loaded: &Loaded, outcome: &Outcome, named: &[(&str, &str)]) -> Picture {
    let shown = named.iter().filter_map(|(variant, name)| {
        let run = outcome.of(variant).next()?;
        let mut watched = Watched::default();
        let snapshots = run.moments.iter().flatten().map(|it| &it.0);
        for snapshot in snapshots.filter(|it| is_gateway(loaded, it)) {
            watched.hear(snapshot.uptime_s, snapshot);
        }
        let flows = &run.flows[..];
        Some(Shown {
            name,
            flows,
            watched,
        })
    });
    let shown: Vec<Shown<'_>> = shown.collect();
    super::picture::picture(&shown, loaded.scenario.duration.0.as_secs_f64())
}

fn is_gateway(loaded: &Loaded, snapshot: &Snapshot) -> bool {
    loaded.nodes.iter().any(|node| node.name == snapshot.node)
}

/// The pictures of each variant's flows.
fn figures<'a>(runs: impl Iterator<Item = &'a strait_sim::Run>) -> Vec<Figure> {
    let named = runs.flat_map(|run| {
        let figures = run.flows.iter().flat_map(|flow| &flow.figures);
        figures.map(|figure| Figure {
            title: format!("{}, {}", figure.title, run.variant),
            ..figure.clone()
        })
    });
    named.collect()
}

/// The report: plots are of the first seed.
fn report(loaded: &Loaded, outcome: &Outcome, result: &ResultSet) -> Report {
    let scenario: &Scenario = &loaded.scenario;
    let mut series = Vec::new();
    let first = |variant| outcome.of(variant).next();
    let flows = first(Scenario::BASE).map_or(&[][..], |run| &run.flows);
    for flow in flows {
        for run in scenario.variant_names().filter_map(first) {
            let same = run.flows.iter().filter(|other| other.name == flow.name);
            for line in same.flat_map(|flow| &flow.series) {
                series.push(Series {
                    chart: format!("{} of {}", line.label, flow.name),
                    name: run.variant.clone(),
                    unit: line.unit.to_owned(),
                    held: false,
                    points: line.points.clone(),
                });
            }
        }
    }
    let charts = first(Scenario::BASE).map_or(0, |run| run.series.len());
    for index in 0..charts {
        let runs = scenario.variant_names().filter_map(first);
        series.extend(runs.filter_map(|run| run.series.get(index).cloned()));
    }
    Report {
        title: scenario.name.clone(),
        about: scenario.about.clone(),
        result: result.clone(),
        series,
        curves: Vec::new(),
        figures: figures(scenario.variant_names().filter_map(first)),
        delays: scenario
            .variant_names()
            .map(|variant| (variant.to_owned(), delays(outcome, variant)))
            .collect(),
        notes: Vec::new(),
        resolved: loaded.resolved_text(),
    }
}
