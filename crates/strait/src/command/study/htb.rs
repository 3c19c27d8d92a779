//! The study `htb`: our token buckets and this kernel's, under one policy.

use std::sync::Mutex;
use std::thread;

use strait_core::time::Duration;
use strait_live::error::Error;
use strait_live::kernel::{Came, Offered, Pace, QueueBench, apply, bench::INTERFACE};
use strait_qos::export::export;
use strait_sim::study::htb::HtbStudy;
use strait_sim::study::shares::{self, ShareCase, ShareFlow, Shared};
use strait_world::table::{Check, Column, ResultSet, Table};

use super::{Options, left_out, progress};

const NAME: &str = "htb";
/// How far each flow's share may be from the kernel's.
const TOLERANCE: f64 = 0.02;
/// The same where the policy is exported from another discipline.
const TOLERANCE_EXPORTED: f64 = 0.05;
/// Packets more or less at the ends of the time that is counted.
const EDGE_PACKETS: f64 = 1.0;

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let text = include_str!("../../../../../scenarios/studies/htb.toml");
    let study = HtbStudy::parse("scenarios/studies/htb.toml", text)?;
    let cases = study.cases(options.full);
    let bar = progress(NAME, cases.len() * 2);
    let (live, simulated) = thread::scope(|scope| {
        let live = scope.spawn(|| {
            if options.live {
                live(&cases, &|| bar.inc(1))
            } else {
                Ok(Vec::new())
            }
        });
        let simulated = shares::run(&cases, || bar.inc(1));
        (live.join(), simulated)
    });
    bar.finish_and_clear();
    let simulated = simulated?;
    let live = live.map_err(|_| anyhow::Error::msg("the live half has failed"))?;
    let live = live.unwrap_or_else(|error| {
        left_out(NAME, &error);
        Vec::new()
    });
    let (written, drawn) = cases.split_at(study.cases.len());
    let rows = |cases: &[ShareCase], from: usize| -> Vec<Row> {
        let all = cases.iter().enumerate();
        let rows = all.flat_map(|(index, case)| {
            let at = from + index;
            let check = study.cases.get(at).map(|case| case.check.as_str());
            rows(case, check, simulated.get(at), live.get(at))
        });
        rows.collect()
    };
    let (written, drawn) = (rows(written, 0), rows(drawn, written.len()));
    let unexplained: u64 = simulated.iter().map(|run| run.unexplained).sum();
    let mut checks = vec![worst("htb-kernel-error", &written, TOLERANCE)];
    if written.iter().any(|row| row.check == "htb-export-error") {
        checks.push(worst("htb-export-error", &written, TOLERANCE_EXPORTED));
    }
    checks.push(worst("htb-swarm-error", &drawn, TOLERANCE));
    checks.push(Check::range(
        "htb-conserved",
        Some(unexplained as f64),
        "",
        None,
        Some(0.0),
    ));
    Ok(ResultSet {
        run_hash: Some(shares::hash(&simulated).into()),
        seeds: (study.swarm.seed..study.swarm.seed + drawn_count(&cases, &study)).collect(),
        tables: vec![table("htb-shares", &written), table("htb-swarm", &drawn)],
        checks,
    })
}

fn drawn_count(cases: &[ShareCase], study: &HtbStudy) -> u64 {
    (cases.len() - study.cases.len()) as u64
}

/// All cases at once, each in a namespace of its own.
fn live(cases: &[ShareCase], done: &(dyn Fn() + Sync)) -> Result<Vec<Vec<Came>>, Error> {
    let benches = cases.iter().map(set_up);
    let mut benches = benches.collect::<Result<Vec<_>, _>>()?;
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let results = thread::scope(|scope| {
        let runs = benches.iter_mut().zip(cases).map(|(bench, case)| {
            scope.spawn(|| {
                let flows: Vec<Offered> = case.flows.iter().map(offered).collect();
                let came = bench.run(&flows, case.warm_up, case.window, &|| false);
                done();
                came
            })
        });
        let runs: Vec<_> = runs.collect();
        let results = runs.into_iter().map(|run| match run.join() {
            Ok(Ok(came)) => came,
            Ok(Err(error)) => {
                if let Ok(mut failed) = failed.lock() {
                    failed.get_or_insert(error);
                }
                Vec::new()
            }
            Err(_) => Vec::new(),
        });
        results.collect::<Vec<_>>()
    });
    match failed.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(results),
    }
}

fn set_up(case: &ShareCase) -> Result<QueueBench, Error> {
    let bench = QueueBench::create(&case.name)?;
    let exported = export(&case.policy, INTERFACE, Some(case.line));
    let exported = exported.map_err(|error| {
        Error::invalid(
            format!("export the policy of `{}`", case.name),
            error.to_string(),
        )
    })?;
    apply(&exported, bench.namespace())?;
    Ok(bench)
}

fn offered(flow: &ShareFlow) -> Offered {
    Offered {
        port: flow.port,
        dscp: flow.dscp.number(),
        octets: flow.octets.0 as u32,
        pace: match flow.gap {
            None => Pace::Backlogged,
            Some(gap) if flow.poisson => Pace::Poisson(gap.0),
            Some(gap) => Pace::Periodic(gap.0),
        },
    }
}

/// What one flow got in both halves.
struct Row {
    case: String,
    check: String,
    flow: ShareFlow,
    window: Duration,
    simulated_bit_s: Option<f64>,
    live_bit_s: Option<f64>,
}

fn rows(
    case: &ShareCase,
    check: Option<&str>,
    simulated: Option<&Shared>,
    live: Option<&Vec<Came>>,
) -> Vec<Row> {
    let flows = case.flows.iter().enumerate();
    let rows = flows.map(|(index, flow)| Row {
        case: case.name.clone(),
        check: check.unwrap_or_default().into(),
        flow: flow.clone(),
        window: case.window,
        simulated_bit_s: simulated
            .and_then(|run| run.shares.get(index))
            .map(|share| share.rate_bit_s),
        live_bit_s: live
            .and_then(|run| run.get(index))
            .map(|came| came.rate_bit_s(case.window)),
    });
    rows.collect()
}

impl Row {
    /// How far apart both are, as a share of the kernel's.
    fn error(&self) -> Option<f64> {
        let (simulated, live) = (self.simulated_bit_s?, self.live_bit_s?);
        Some((simulated - live).abs() / live.max(self.packet_bit_s()))
    }

    /// The same without what packets at the ends of the time explain.
    fn judged_error(&self) -> Option<f64> {
        let (simulated, live) = (self.simulated_bit_s?, self.live_bit_s?);
        let apart = (simulated - live).abs() - EDGE_PACKETS * self.packet_bit_s();
        Some(apart.max(0.0) / live.max(self.packet_bit_s()))
    }

    /// What one packet more makes of the rate.
    fn packet_bit_s(&self) -> f64 {
        self.flow.octets.0 as f64 * 8.0 / self.window.as_secs_f64()
    }
}

fn worst(id: &str, rows: &[Row], bar: f64) -> Check {
    let own = rows
        .iter()
        .filter(|row| row.check.is_empty() || row.check == id);
    let errors: Option<Vec<f64>> = own.map(Row::judged_error).collect();
    let worst = errors.and_then(|errors| errors.into_iter().reduce(f64::max));
    let check = Check::range(id, worst, "", None, Some(bar));
    // Without a live half there is nothing to judge.
    if rows.iter().all(|row| row.live_bit_s.is_none()) {
        check
    } else {
        check.failed()
    }
}

fn table(id: &str, rows: &[Row]) -> Table {
    let columns = [
        ("case", ""),
        ("flow", ""),
        ("packet", "octets"),
        ("offered", "bit/s"),
        ("reference", "bit/s"),
        ("simulated", "bit/s"),
        ("kernel", "bit/s"),
        ("error", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new(id, columns.into());
    for row in rows {
        let offered = row
            .flow
            .gap
            .map(|gap| row.flow.octets.0 as f64 * 8.0 / gap.0.as_secs_f64());
        table.push(vec![
            row.case.as_str().into(),
            f64::from(row.flow.port).into(),
            (row.flow.octets.0 as f64).into(),
            offered.into(),
            row.flow.reference.map(|rate| rate.0 as f64).into(),
            row.simulated_bit_s.into(),
            row.live_bit_s.into(),
            row.error().into(),
        ]);
    }
    table
}
