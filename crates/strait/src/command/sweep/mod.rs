//! A scenario at many points.

mod page;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, bail};
use strait_core::hash::RunHash;
use strait_report::bars;
use strait_report::estimate::{mean_interval, percentile};
use strait_report::table::{Cell, Check, Column, ResultSet, Table};
use strait_scenario::sweep::{Axis, Point, number_of, points};
use strait_scenario::{Loaded, Scenario, unit_of};
use strait_sim::sweep::{Job, Measured};
use strait_wire::hash::hash64;
use toml::Value;

use self::store::{Key, Store};
use super::picture;
use crate::exit::BadInput;

/// Run a scenario at many points, in virtual time: every value of every axis, every variant, every
/// seed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An axis is a key and its values. A key is a path of names through the \
                  scenario:\nlink.NAME.KEY in a link file, node.NAME.KEY in a node file, \
                  traffic.NAME.KEY,\nduration; * stands for every name. Keys joined by + change \
                  together. Values are\nseparated by commas, or FROM..TO/STEP.\n\nExamples:\n  \
                  strait sweep chain.toml --set 'link.*.loss=0..0.3/0.05' --seeds 20\n  strait \
                  sweep chain.toml --set link.l3.rate=75kbit/s,300kbit/s --metric file.time_s\n  \
                  strait sweep chain.toml --store results.jsonl --csv runs.csv     resumes from \
                  the store\n  strait sweep serial.toml --set \
                  'link.*.baud+node.*.port.line.baud=9600,19200' --report out.html"
)]
pub(crate) struct Args {
    /// The scenario file.
    scenario: PathBuf,
    /// An axis. May be given several times [default: the axes that the scenario declares].
    #[arg(long = "set", value_name = "KEY=VALUES")]
    axes: Vec<String>,
    /// Seed of the first run [default: the scenario's].
    #[arg(long)]
    seed: Option<u64>,
    /// Number of runs at each point, with consecutive seeds [default: the scenario's].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=Scenario::RUNS_MAX))]
    seeds: Option<u64>,
    /// A metric, such as `file.time_s`. May be given several times [default: all].
    #[arg(long = "metric", value_name = "NAME")]
    metrics: Vec<String>,
    /// Keep results in this file, and skip the runs that it already holds.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Write the metrics of each run into this file, one row a run.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a self-contained HTML report: a plot of each metric with its intervals, the table, the
    /// configuration.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Finish with a picture of the first metric, or of the one given by --metric.
    #[arg(long, conflicts_with = "json")]
    picture: bool,
    /// Number of threads [default: as many as the machine has].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if a check failed.
    #[arg(long)]
    strict: bool,
}

/// The scenario at one point.
struct Place {
    point: Point,
    loaded: Loaded,
    /// Hash of the resolved scenario.
    hash: u64,
}

/// A run of a sweep.
struct Entry<'a> {
    place: &'a Place,
    variant: &'a str,
    seed: u64,
    measured: Measured,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = Scenario::load(&args.scenario)?;
    let axes = axes(args, &loaded)?;
    let points = points(&axes).map_err(|error| BadInput(error.to_string()))?;
    let first = args.seed.unwrap_or(loaded.scenario.seed);
    let count = args.seeds.unwrap_or(loaded.scenario.runs);
    let variants = loaded.scenario.variant_names().count() as u64;
    let runs = count.saturating_mul(variants * points.len() as u64);
    if runs > Scenario::RUNS_MAX {
        bail!(BadInput(format!(
            "{runs} runs are more than {}: take fewer values or seeds",
            Scenario::RUNS_MAX
        )));
    }
    let places = places(&loaded, points)?;
    args.csv
        .iter()
        .chain(&args.report)
        .try_for_each(|path| can_write(path))?;
    let store = args.store.as_deref().map(Store::open).transpose()?;
    let seeds: Vec<u64> = (0..count).map(|run| first.wrapping_add(run)).collect();
    let entries = entries(args, &places, &seeds, store.as_ref())?;
    let wanted = wanted(args, &entries)?;
    if let Some(path) = &args.csv {
        write_csv(path, &axes, &entries, &wanted)?;
    }
    let mut hash = RunHash::default();
    entries.iter().for_each(|it| hash.fold(it.measured.hash));
    let unexplained: u64 = entries.iter().map(|it| it.measured.unexplained).sum();
    let result = ResultSet {
        run_hash: Some(hash.value().into()),
        seeds,
        tables: vec![table(&axes, &entries, &wanted)],
        checks: vec![Check::range(
            "conserved",
            Some(unexplained as f64),
            "",
            None,
            Some(0.0),
        )],
    };
    let page = page::report(&loaded, &axes, &entries, &wanted, &result);
    if let Some(path) = &args.report {
        std::fs::write(path, strait_web::page::results(&page))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let code = crate::output::result(&result, args.json, args.strict);
    if args.picture {
        let first = page.figures.first();
        let bars = first.map(|it| bars::means(it, picture::letters()));
        let text = bars.unwrap_or_else(|| page.notes.join("\n") + "\n");
        crate::output::print(&format!("\n{text}"));
    }
    Ok(code)
}

/// Tells before the runs, which may take hours, what can't be written after them.
fn can_write(path: &Path) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).open(path);
    opened
        .map(drop)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The axes asked for, or else the scenario's own.
fn axes(args: &Args, loaded: &Loaded) -> anyhow::Result<Vec<Axis>> {
    let asked = args.axes.iter().map(|text| Axis::parse(text));
    let axes: Vec<Axis> = if args.axes.is_empty() {
        let own = loaded.scenario.axes.iter();
        own.map(Axis::from_config).collect::<Result<_, _>>()
    } else {
        asked.collect::<Result<_, _>>()
    }
    .map_err(|error| BadInput(error.to_string()))?;
    if axes.is_empty() {
        bail!(BadInput(format!(
            "{} declares no [[axis]]: give one, such as --set 'link.*.loss=0..0.3/0.05'",
            args.scenario.display()
        )));
    }
    let mut keys = BTreeSet::new();
    let twice = axes
        .iter()
        .flat_map(Axis::keys)
        .find(|key| !keys.insert(*key));
    if let Some(twice) = twice {
        bail!(BadInput(format!("key `{twice}` is given twice")));
    }
    Ok(axes)
}

fn places(loaded: &Loaded, points: Vec<Point>) -> anyhow::Result<Vec<Place>> {
    let place = |point: Point| {
        let loaded = loaded.at(&point)?;
        let hash = hash64(0, loaded.resolved_text().as_bytes());
        Ok(Place {
            point,
            loaded,
            hash,
        })
    };
    points.into_iter().map(place).collect()
}

/// Runs what isn't stored: point by point, variant by variant, seeds in order.
fn entries<'a>(
    args: &Args,
    places: &'a [Place],
    seeds: &[u64],
    store: Option<&Store>,
) -> anyhow::Result<Vec<Entry<'a>>> {
    let program = store.map_or(0, |_| store::program());
    let all: Vec<(&Place, &str, u64)> = places
        .iter()
        .flat_map(|place| {
            let variants = place.loaded.scenario.variant_names();
            variants.flat_map(move |variant| seeds.iter().map(move |seed| (place, variant, *seed)))
        })
        .collect();
    let key = |(place, variant, seed): &(&Place, &str, u64)| Key {
        program,
        scenario: place.hash,
        variant: (*variant).to_owned(),
        seed: *seed,
    };
    let mut found: Vec<Option<Measured>> = all
        .iter()
        .map(|run| store?.find(&key(run)).cloned())
        .collect();
    let missing: Vec<usize> = (0..all.len()).filter(|at| found[*at].is_none()).collect();
    let jobs: Vec<Job<'_>> = missing
        .iter()
        .map(|at| {
            let (place, variant, seed) = all[*at];
            Job {
                loaded: &place.loaded,
                variant,
                seed,
            }
        })
        .collect();
    let bar = crate::output::progress(jobs.len(), "sweep");
    let failed = Mutex::new(None);
    let threads = args.threads.map(usize::from);
    let measured = strait_sim::sweep::run(&jobs, threads, |job, measured| {
        bar.inc(1);
        let run = &all[missing[job]];
        let kept = store.map_or(Ok(()), |store| store.add(&key(run), &run.0.point, measured));
        if let (Err(error), Ok(mut failed)) = (kept, failed.lock()) {
            *failed = Some(error);
        }
    })?;
    bar.finish_and_clear();
    if let Ok(Some(error)) = failed.into_inner() {
        return Err(error).context("cannot keep results");
    }
    for (at, measured) in missing.into_iter().zip(measured) {
        found[at] = Some(measured);
    }
    let entries = all.into_iter().zip(found);
    let entries = entries.filter_map(|((place, variant, seed), measured)| {
        Some(Entry {
            place,
            variant,
            seed,
            measured: measured?,
        })
    });
    Ok(entries.collect())
}

/// The metrics to tell, in the order asked for.
fn wanted(args: &Args, entries: &[Entry<'_>]) -> anyhow::Result<Vec<String>> {
    let known: BTreeSet<&String> = entries
        .iter()
        .flat_map(|entry| entry.measured.metrics.keys())
        .collect();
    if args.metrics.is_empty() {
        return Ok(known.into_iter().cloned().collect());
    }
    if let Some(odd) = args.metrics.iter().find(|name| !known.contains(name)) {
        let names: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
        bail!(BadInput(format!(
            "no run has a metric `{odd}` (metrics: {})",
            names.join(", ")
        )));
    }
    Ok(args.metrics.clone())
}

/// The unit that all values of an axis have, where all are numbers: it goes to the axis's heading.
fn unit(axis: &Axis) -> Option<&str> {
    let mut units = axis.values.iter().map(|value| Some(number_of(value)?.1));
    let first = units.next()??;
    units.all(|unit| unit == Some(first)).then_some(first)
}

/// A number as such where its axis has a unit, else a text without quotes.
fn cell(axis: &Axis, value: &Value) -> Cell {
    match (number_of(value), value) {
        (Some((number, _)), _) if unit(axis).is_some() => number.into(),
        (_, Value::String(text)) => text.as_str().into(),
        (_, other) => other.to_string().into(),
    }
}

impl Place {
    /// Its value of each axis.
    fn cells<'a>(&'a self, axes: &'a [Axis]) -> impl Iterator<Item = Cell> + 'a {
        let values = axes.iter().zip(&self.point);
        values.map(|(axis, (_, value))| cell(axis, value))
    }
}

/// A row for each point, variant and metric.
fn table(axes: &[Axis], entries: &[Entry<'_>], wanted: &[String]) -> Table {
    let column = |axis: &Axis| Column::new(&axis.key, unit(axis).unwrap_or_default());
    let mut columns: Vec<Column> = axes.iter().map(column).collect();
    let more = [
        "variant", "metric", "unit", "runs", "share", "mean", "±", "median", "least", "greatest",
    ];
    columns.extend(more.map(|name| Column::new(name, "")));
    let mut table = Table::new("sweep", columns);
    let same =
        |a: &Entry<'_>, b: &Entry<'_>| std::ptr::eq(a.place, b.place) && a.variant == b.variant;
    for runs in entries.chunk_by(same) {
        let Some(first) = runs.first() else { continue };
        for name in wanted {
            let values = runs.iter().filter_map(|it| it.measured.metrics.get(name));
            let values: Vec<f64> = values.copied().collect();
            let interval = mean_interval(&values);
            let mut row: Vec<Cell> = first.place.cells(axes).collect();
            row.extend([
                first.variant.into(),
                name.as_str().into(),
                unit_of(name).into(),
                (values.len() as f64).into(),
                (values.len() as f64 / runs.len() as f64).into(),
                interval.map(|it| it.mean).into(),
                interval.and_then(|it| it.half_width).into(),
                percentile(&values, 0.5).into(),
                values.iter().copied().reduce(f64::min).into(),
                values.iter().copied().reduce(f64::max).into(),
            ]);
            table.push(row);
        }
    }
    table
}

/// A row for each run: point, variant, seed, then a column for each metric.
fn write_csv(
    path: &Path,
    axes: &[Axis],
    entries: &[Entry<'_>],
    wanted: &[String],
) -> anyhow::Result<()> {
    let open = || format!("cannot write {}", path.display());
    let mut file = csv::Writer::from_path(path).with_context(open)?;
    let mut head: Vec<String> = axes.iter().map(heading).collect();
    head.extend(["variant", "seed"].map(String::from));
    head.extend(wanted.iter().cloned());
    file.write_record(&head).with_context(open)?;
    for entry in entries {
        let metrics: &BTreeMap<String, f64> = &entry.measured.metrics;
        let mut row: Vec<String> = entry.place.cells(axes).map(plain).collect();
        row.extend([entry.variant.to_owned(), entry.seed.to_string()]);
        let values = wanted.iter().map(|name| metrics.get(name));
        row.extend(values.map(|value| value.map_or_else(String::new, f64::to_string)));
        file.write_record(&row).with_context(open)?;
    }
    file.flush().with_context(open)
}

/// An axis's name with its unit, as in `link.l3.rate [kbit/s]`.
fn heading(axis: &Axis) -> String {
    match unit(axis) {
        Some("") | None => axis.key.clone(),
        Some(unit) => format!("{} [{unit}]", axis.key),
    }
}

/// A cell as a file of comma separated values has it.
fn plain(cell: Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) => text,
        Cell::Number(number) => number.to_string(),
    }
}
