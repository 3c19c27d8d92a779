//! The part `na-gap` of the study `na`: the same calls and data on a link for frames, where nothing
//! can be suspended.

use std::path::Path;

use strait_core::hash::RunHash;
use strait_report::estimate::percentile;
use strait_report::table::{Check, ResultSet, Table};
use strait_scenario::Scenario;
use strait_sim::study::na::{self, Data, NaStudy};

use super::{OCTET_S, Own, ROUNDING_S, Rows, named, progress};

/// 32 octets of a packet with a header of one octet and a check of two.
const FRAGMENT_S: f64 = (32.0 + 3.0) * OCTET_S;
/// How far off a prediction may be.
const ERROR_S: f64 = 0.005;
/// What data's payload has at least of what calls leave.
const SHARE: f64 = 0.85;

pub(super) fn run(study: &NaStudy) -> anyhow::Result<ResultSet> {
    let text = include_str!("../../../../../../scenarios/lab/adapter-frames.toml");
    let base = Scenario::load_text(&Own, Path::new("adapter-frames.toml"), text)?;
    let mut cases = study.cases();
    cases.retain(|case| case.data != Data::Slope);
    let bar = progress("na-gap", cases.len());
    let runs = na::run(study, &base, &cases, || bar.inc(1))?;
    bar.finish_and_clear();
    let rows = Rows {
        study,
        runs: cases.iter().zip(&runs).collect(),
    };
    let mut hash = RunHash::default();
    runs.iter().for_each(|run| hash.fold(run.hash));
    let unexplained: u64 = runs.iter().map(|run| run.unexplained).sum();

    let single = rows.jitter().into_iter().filter(|row| row.case.calls == 1);
    let later = single.filter_map(|row| percentile(&row.added_s, 0.99));
    let shares = rows.bulk_shares().into_iter();
    let shares = shares.filter(|(case, ..)| case.calls == 1);
    let errors = runs.iter().filter_map(|run| run.gaps.error_p95_s);
    let most = |id: &str, value, max| Check::range(id, value, "s", None, Some(max)).failed();
    let least = shares.map(|it| it.2).reduce(f64::min);
    Ok(ResultSet {
        run_hash: Some(hash.value().into()),
        seeds: vec![1],
        tables: vec![table(&rows)],
        checks: vec![
            most("na-gap", later.reduce(f64::max), FRAGMENT_S + ROUNDING_S),
            Check::range("na-gap-share", least, "", Some(SHARE), None).failed(),
            most("na-gap-error", errors.reduce(f64::max), ERROR_S),
            Check::range(
                "na-gap-conserved",
                Some(unexplained as f64),
                "",
                None,
                Some(0.0),
            ),
        ],
    })
}

fn table(rows: &Rows<'_>) -> Table {
    let columns = [
        ("vocoder", ""),
        ("calls", ""),
        ("beside", ""),
        ("later, median", "s"),
        ("later, p99", "s"),
        ("later, max", "s"),
        ("payload share of the rest", ""),
        ("gaps", ""),
        ("unforeseen", ""),
        ("error, p95", "s"),
        ("cut to fit", ""),
        ("of least size", ""),
    ];
    let mut table = named("na-gap", &columns);
    let jitter = rows.jitter();
    let shares = rows.bulk_shares();
    for (case, run) in &rows.runs {
        let added = jitter.iter().find(|row| row.case == *case);
        let added = added.map_or(&[][..], |row| &row.added_s);
        let share = shares.iter().find(|(of, ..)| of == case);
        table.push(vec![
            case.vocoder.name.as_str().into(),
            (case.calls as f64).into(),
            case.data.name().into(),
            percentile(added, 0.5).into(),
            percentile(added, 0.99).into(),
            added.iter().copied().reduce(f64::max).into(),
            share.map(|it| it.2).into(),
            (run.gaps.predicted as f64).into(),
            (run.gaps.unforeseen as f64).into(),
            run.gaps.error_p95_s.into(),
            (run.gaps.fitted as f64).into(),
            (run.gaps.least as f64).into(),
        ]);
    }
    table
}
