//! A scenario live, on this host.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;
use strait_core::time::Duration;
use strait_core::units::BitRate;
use strait_lab::kernel::stands_in;
use strait_lab::{Lab, LabError, LabOptions, Left, Outcome};
use strait_live::signals::Stop;
use strait_live::status;
use strait_report::picture::Watched;
use strait_report::scatter::Figure;
use strait_report::table::{Cell, Check, Column, ResultSet, Table};
use strait_report::{Report, Series, names_of, stations_of};
use strait_scenario::{Loaded, Scenario, World, unit_of};
use strait_status::Snapshot;
use strait_status::why::together;
use strait_web::{Clock, Recording};

use super::agreement::{Simulated, agreement};
use super::picture::{self, Shown};
use crate::exit::{self, BadInput};

/// Run a scenario live, in network namespaces on this host.
///
/// Gateways are `strait run`, plain routers this kernel, links `strait emulate`, and the traffic is
/// made by ping, curl, iperf3, mgen and `strait measure`. With a command, that one runs inside a
/// host instead of the traffic. Needs root. All that was made is removed again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait lab scenarios/lab/serial-9600.toml --json | jq .checks\n  \
                  strait lab scenarios/lab/agreement.toml --with-sim\n  \
                  strait lab scenarios/lab/serial-9600.toml -- ping -c 3 10.2.0.2\n  \
                  strait lab scenarios/lab/serial-9600.toml --host hb -- bash"
)]
pub(crate) struct Args {
    /// The scenario file.
    scenario: PathBuf,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if a check failed.
    #[arg(long)]
    strict: bool,
    /// Keep all files of the run in this folder: node files, logs, output of programs.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Variant of the scenario.
    #[arg(long, value_name = "NAME", default_value = Scenario::BASE)]
    variant: String,
    /// Write a self-contained HTML report, with the resolved configuration.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Finish with a picture of delays and the use of the line.
    #[arg(long, conflicts_with = "json")]
    picture: bool,
    /// Run only this traffic of the scenario.
    #[arg(long, value_name = "TRAFFIC", value_delimiter = ',')]
    only: Vec<String>,
    /// Stop as soon as all traffic has ended, if its programs end by themselves.
    #[arg(long)]
    brief: bool,
    /// Run it once more with this kernel in place of the gateways of a cell: their routes, and
    /// their policy as nftables and `tc` for a line of this rate.
    #[arg(long, value_name = "RATE", conflicts_with = "command")]
    with_kernel: Option<BitRate>,
    /// Run the scenario in virtual time as well, and compare.
    #[arg(long)]
    with_sim: bool,
    /// With --with-sim: number of simulated runs to compare with, with consecutive seeds [default:
    /// the scenario's].
    #[arg(long, requires = "with_sim", value_parser = clap::value_parser!(u64).range(1..=Scenario::RUNS_MAX))]
    runs: Option<u64>,
    /// Host in which the command runs [default: the first].
    #[arg(long, value_name = "NAME", requires = "command")]
    host: Option<String>,
    /// A command to run inside a host, instead of the traffic.
    #[arg(last = true)]
    command: Vec<String>,
}

/// By how much the delay parts of a class may miss their sum: they were rounded for the status.
const PARTS_GAP_MAX_S: f64 = 1e-6;
/// Within how many seconds after its restart traffic passes a gateway again.
const RESUME_MAX_S: f64 = 10.0;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = chosen(Scenario::load(&args.scenario)?, args)?;
    if args.with_kernel.is_some() {
        stands_in(&loaded).map_err(told)?;
    }
    let options = LabOptions {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        variant: args.variant.clone(),
        keep: args.keep.clone(),
        brief: args.brief,
        kernel: None,
    };
    let stop = Stop::on_signals()?;
    let mut lab = Lab::set_up(&loaded, &options, &stop).map_err(told)?;
    if !args.command.is_empty() {
        let ended = lab.run_command(args.host.as_deref(), &args.command, &stop);
        lab.tear_down();
        let status = ended.map_err(told)?;
        return Ok(ExitCode::from(status_code(&status)));
    }
    let bar = crate::output::progress(seconds(loaded.scenario.duration.0), &loaded.scenario.name);
    let recorder = (args.picture || args.report.is_some()).then(|| Recorder::follow(&lab));
    let ended = lab.run(&stop, |left| {
        let whole = loaded.scenario.duration.0;
        bar.set_position(seconds(whole.saturating_sub(left)) as u64);
    });
    bar.finish_and_clear();
    let left = lab.tear_down();
    let outcome = ended.map_err(told)?;
    let kernel = by_kernel(&loaded, args, &options, &stop)?;
    let simulated = simulate(&loaded, args)?;
    let beside = Beside {
        kernel: kernel.as_ref(),
        simulated: simulated.as_ref(),
    };
    let result = result(&loaded, args, &outcome, &left, beside);
    for note in outcome.notes.iter().chain(&outcome.left).chain(&left.0) {
        eprintln!("strait: {note}");
    }
    let Seen(mut recording, watched) = recorder.map_or_else(Seen::default, Recorder::end);
    if let Some(path) = &args.report {
        for (node, way) in loaded.ways() {
            recording.place(node.to_owned(), way);
        }
        let report = page(&loaded, args, &outcome, &result, simulated.as_ref());
        let page = strait_web::page::with_results(&recording, &report);
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let code = crate::output::result(&result, args.json, args.strict);
    if args.picture {
        let (name, flows) = (args.variant.as_str(), &outcome.flows[..]);
        let shown = [Shown {
            name,
            flows,
            watched,
        }];
        let picture = picture::picture(&shown, loaded.scenario.duration.0.as_secs_f64());
        crate::output::print(&picture::whole(&picture));
    }
    Ok(code)
}

/// The same scenario otherwise.
#[derive(Clone, Copy)]
struct Beside<'a> {
    /// With this kernel in place of the gateways.
    kernel: Option<&'a Outcome>,
    simulated: Option<&'a Simulated>,
}

/// The scenario with this kernel in place of the gateways, if that is asked for.
fn by_kernel(
    loaded: &Loaded,
    args: &Args,
    options: &LabOptions,
    stop: &Stop,
) -> anyhow::Result<Option<Outcome>> {
    if args.with_kernel.is_none() {
        return Ok(None);
    }
    let options = LabOptions {
        keep: options.keep.as_ref().map(|folder| folder.join("kernel")),
        kernel: args.with_kernel,
        ..options.clone()
    };
    let mut lab = Lab::set_up(loaded, &options, stop).map_err(told)?;
    let ended = lab.run(stop, |_| {});
    let left = lab.tear_down();
    let outcome = ended.map_err(told)?;
    for note in outcome.notes.iter().chain(&outcome.left).chain(&left.0) {
        eprintln!("strait: by this kernel: {note}");
    }
    Ok(Some(outcome))
}

/// What gateways said of themselves on the way, for the page and for the picture.
struct Seen(Recording, Watched);

impl Default for Seen {
    fn default() -> Self {
        Self(Recording::new(Clock::Run), Watched::default())
    }
}

/// Takes down what gateways say of themselves each second.
struct Recorder(Arc<Mutex<Option<Seen>>>);

impl Recorder {
    /// One that can't be asked is missing in the report.
    fn follow(lab: &Lab) -> Self {
        let seen = Arc::new(Mutex::new(Some(Seen::default())));
        let began = Instant::now();
        for (n, socket) in lab.status_sockets().enumerate() {
            let seen = Arc::clone(&seen);
            let told = move |heard: Result<Snapshot, String>| {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if let (Some(Seen(recording, watched)), Ok(snapshot)) = (seen.as_mut(), heard) {
                    let at_s = began.elapsed().as_secs_f64();
                    recording.add(n, at_s, &snapshot);
                    watched.hear(at_s, &snapshot);
                }
                seen.is_some()
            };
            if let Err(error) = status::follow(socket.to_owned(), SECOND, told) {
                tracing::warn!("{}: not in the report: {error}", socket.display());
            }
        }
        Self(seen)
    }

    fn end(self) -> Seen {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.take().unwrap_or_default()
    }
}

/// Between two snapshots of a report.
const SECOND: Duration = Duration::from_secs(1);

/// The scenario with only the traffic asked for, and the expectations that can still be judged.
fn chosen(mut loaded: Loaded, args: &Args) -> anyhow::Result<Loaded> {
    let scenario = &mut loaded.scenario;
    let variants: Vec<&str> = scenario.variant_names().collect();
    if !variants.contains(&args.variant.as_str()) {
        let known = variants.join("`, `");
        let message = format!("--variant: no `{}` (there are `{known}`)", args.variant);
        return Err(BadInput(message).into());
    }
    let names = scenario.traffic.iter().map(|traffic| traffic.name.clone());
    let names: Vec<String> = names.collect();
    if let Some(name) = args.only.iter().find(|name| !names.contains(name)) {
        let known = names.join("`, `");
        let message = format!("--only: no traffic `{name}` (there are `{known}`)");
        return Err(BadInput(message).into());
    }
    if !args.only.is_empty() {
        scenario
            .traffic
            .retain(|traffic| args.only.contains(&traffic.name));
        let silent = |metric: &str| {
            let of = |name: &String| metric.split_once('.').is_some_and(|(of, _)| of == name);
            names
                .iter()
                .any(|name| of(name) && !args.only.contains(name))
        };
        scenario.expectations.retain(|entry| {
            let mut metrics = entry.of.iter().chain([&entry.metric]);
            !metrics.any(|it| silent(it))
        });
    }
    Ok(loaded)
}

/// A scenario that can't be had live is wrong input; all else is the host's.
fn told(error: LabError) -> anyhow::Error {
    match error {
        LabError::Scenario(message) => BadInput(message).into(),
        LabError::Host(error) => error.into(),
        LabError::Stopped => anyhow::Error::msg(error.to_string()),
    }
}

/// What a shell would say of how a program ended.
fn status_code(status: &std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(0);
    u8::try_from(code).unwrap_or(exit::CANNOT_RUN)
}

fn seconds(span: Duration) -> usize {
    span.as_secs_f64().round() as usize
}

fn simulate(loaded: &Loaded, args: &Args) -> anyhow::Result<Option<Simulated>> {
    if !args.with_sim {
        return Ok(None);
    }
    let runs = args.runs.unwrap_or(loaded.scenario.runs);
    Simulated::new(loaded, &args.variant, runs).map(Some)
}

fn result(
    loaded: &Loaded,
    args: &Args,
    outcome: &Outcome,
    left: &Left,
    beside: Beside<'_>,
) -> ResultSet {
    let simulated = beside.simulated;
    let mut tables = vec![metrics(loaded, outcome, beside)];
    let lab = outcome.flows.iter().map(|flow| ("lab", flow));
    let sim = simulated.into_iter().flat_map(|it| &it.first().flows);
    for (world, flow) in lab.chain(sim.map(|flow| ("sim", flow))) {
        for table in &flow.tables {
            let id = format!("{}, {world}", table.id);
            tables.push(Table {
                id,
                ..table.clone()
            });
        }
    }
    tables.extend(outcome.stretches.iter().cloned());
    tables.extend(outcome.kept_off_table());
    tables.extend(stations_of(&outcome.nodes));
    tables.extend(names_of(&outcome.nodes));
    tables.extend(outcome.delay_tables());
    tables.push(why(&outcome.past));
    let mut checks = expected(loaded, args, outcome);
    checks.extend(own_checks(loaded, outcome, left));
    if let Some(simulated) = simulated {
        checks.extend(agreement(loaded, outcome, simulated));
    }
    let own = || vec![loaded.scenario.seed];
    ResultSet {
        run_hash: None,
        seeds: simulated.map_or_else(own, Simulated::seeds),
        tables,
        checks,
    }
}

/// What `strait why` says of each gateway at the end.
fn why(past: &[Vec<Snapshot>]) -> Table {
    let columns = ["gateway", "cause", "why"].map(|name| Column::new(name, ""));
    let mut table = Table::new("why", columns.into());
    for why in together(past) {
        let first = why.findings.first();
        let cause = first.map_or("none", |it| it.cause.name());
        table.push(vec![why.node.into(), cause.into(), why.sentence.into()]);
    }
    table
}

/// A row for each metric; with the kernel's and the simulation's beside it, the difference to the
/// latter, and the lowest and highest of several.
fn metrics(loaded: &Loaded, outcome: &Outcome, beside: Beside<'_>) -> Table {
    let Beside { kernel, simulated } = beside;
    let mut columns = vec!["metric", "unit", "lab"];
    columns.extend(kernel.map(|_| "kernel"));
    if simulated.is_some() {
        columns.extend(["sim", "lab - sim", "relative"]);
    }
    let several = simulated.filter(|it| it.seeds().len() > 1);
    if several.is_some() {
        columns.extend(["lowest sim", "highest sim"]);
    }
    let columns = columns.into_iter().map(|name| Column::new(name, ""));
    let mut table = Table::new(loaded.scenario.name.as_str(), columns.collect());
    let flows = loaded.scenario.traffic.iter().map(|traffic| &traffic.name);
    let places = loaded.links.iter().map(|link| &link.name);
    let names = flows.chain(places.chain(loaded.nodes.iter().map(|node| &node.name)));
    for of in names {
        let own = |name: &&String| name.split_once('.').is_some_and(|(flow, _)| flow == of);
        for name in outcome.metrics.keys().filter(own) {
            let lab = outcome.metrics[name];
            let mut row: Vec<Cell> = vec![name.as_str().into(), unit_of(name).into(), lab.into()];
            row.extend(kernel.map(|it| Cell::from(it.metrics.get(name).copied())));
            let first = simulated.and_then(|it| it.first().metrics.get(name).copied());
            if simulated.is_some() {
                let apart = first.map(|sim| lab - sim);
                let relative = first.zip(apart).filter(|(sim, _)| *sim != 0.0);
                let relative = relative.map(|(sim, apart)| apart / sim);
                row.extend([first.into(), apart.into(), relative.into()]);
            }
            if let Some(several) = several {
                let range = several.range(|run| run.metrics.get(name).copied());
                let range = range.map(|(range, _)| range);
                row.extend([0, 1].map(|end| Cell::from(range.map(|range| range[end]))));
            }
            table.push(row);
        }
    }
    table
}

/// The scenario's own checks.
fn expected(loaded: &Loaded, args: &Args, outcome: &Outcome) -> Vec<Check> {
    let entries = loaded.scenario.expectations.iter();
    let ours =
        entries.filter(|entry| entry.applies_in(World::Lab) && entry.variant == args.variant);
    let check = |entry: &strait_scenario::Expectation| {
        let value = entry.value(&outcome.metrics);
        Check::range(entry.id.as_str(), value, entry.unit(), entry.min, entry.max).failed()
    };
    ours.map(check).collect()
}

/// What holds for every scenario.
fn own_checks(loaded: &Loaded, outcome: &Outcome, left: &Left) -> Vec<Check> {
    let resumed = outcome.resumed_s.iter().map(|resumed_s| {
        Check::range("lab-restart", *resumed_s, "s", None, Some(RESUME_MAX_S)).failed()
    });
    let mut checks: Vec<Check> = resumed.collect();
    let wrong = outcome.metrics.iter();
    let wrong = wrong.filter(|(name, _)| name.ends_with(".wrong"));
    let wrong = wrong
        .map(|(_, octets)| *octets)
        .reduce(|sum, more| sum + more);
    if wrong.is_some() {
        let check = Check::range("lab-wrong-octets", wrong, "", None, Some(0.0));
        checks.push(check);
    }
    if !loaded.nodes.is_empty() {
        let gap_s = (!outcome.nodes.is_empty()).then_some(outcome.delay_gap_s);
        let max = Some(PARTS_GAP_MAX_S);
        checks.push(Check::range("lab-delay-parts-gap", gap_s, "s", None, max).failed());
    }
    let count = (outcome.left.len() + left.0.len()) as f64;
    checks.push(Check::range(
        "lab-nothing-left",
        Some(count),
        "",
        None,
        Some(0.0),
    ));
    checks
}

/// The report: what was measured over time, and where the time went.
fn page(
    loaded: &Loaded,
    args: &Args,
    outcome: &Outcome,
    result: &ResultSet,
    simulated: Option<&Simulated>,
) -> Report {
    let lab = outcome.flows.iter().map(|flow| ("lab", flow));
    let sim = simulated.into_iter().flat_map(|it| &it.first().flows);
    let mut series = Vec::new();
    for (name, flow) in lab.chain(sim.map(|flow| ("sim", flow))) {
        for line in &flow.series {
            series.push(Series {
                chart: format!("{} of {}", line.label, flow.name),
                name: name.to_owned(),
                unit: line.unit.to_owned(),
                held: false,
                points: line.points.clone(),
            });
        }
    }
    series.sort_by(|one, other| one.chart.cmp(&other.chart));
    let drawn = outcome.flows.iter().map(|flow| ("lab", flow));
    let drawn = drawn.chain(
        simulated
            .into_iter()
            .flat_map(|it| &it.first().flows)
            .map(|flow| ("sim", flow)),
    );
    let figures = drawn.flat_map(|(world, flow)| {
        flow.figures.iter().map(move |figure| Figure {
            title: format!("{}, {world}", figure.title),
            ..figure.clone()
        })
    });
    let figures = figures.collect();
    Report {
        title: format!("{}, live, variant {}", loaded.scenario.name, args.variant),
        about: loaded.scenario.about.clone(),
        result: result.clone(),
        series,
        curves: Vec::new(),
        figures,
        delays: outcome.delays(),
        notes: outcome.notes.clone(),
        resolved: loaded.resolved_text(),
    }
}
