//! The study `htb`: our token buckets and this kernel's, under one policy.

use strait_core::time::Duration;
use strait_live::kernel::Came;
use strait_report::table::{Check, Column, ResultSet, Table};
use strait_sim::study::htb::HtbStudy;
use strait_sim::study::shares::{self, ShareCase, ShareFlow, Shared};

use super::{Options, halves};

const NAME: &str = "htb";
/// How far each flow's share may be from the kernel's.
const TOLERANCE: f64 = 0.02;
/// The same where the policy is exported from another discipline.
const TOLERANCE_EXPORTED: f64 = 0.05;
/// Packets more or less at the ends of the time that is counted.
const EDGE_PACKETS: f64 = 1.0;

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let (file, text) = options.set_up(
        "scenarios/studies/htb.toml",
        include_str!("../../../../../scenarios/studies/htb.toml"),
    );
    let study = HtbStudy::parse(file, text)?;
    let cases = study.cases(options.full);
    let (simulated, live) = halves::run(NAME, &cases, options)?;
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
