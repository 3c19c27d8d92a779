//! Cases of shares in both worlds: in virtual time, and through this kernel's queues.

use std::sync::Mutex;
use std::thread;

use strait_live::error::Error;
use strait_live::kernel::{Came, Offered, Pace, QueueBench, apply, bench::INTERFACE, remove};
use strait_qos::export::{Export, Queues, export};
use strait_sim::study::shares::{self, ShareCase, ShareFlow, Shared};

use super::{Options, left_out, progress};

/// Runs all cases of a study live and simulated; what came of each, and nothing live where this
/// host can't.
pub(super) fn run(
    study: &str,
    cases: &[ShareCase],
    options: &Options<'_>,
) -> anyhow::Result<(Vec<Shared>, Vec<Vec<Came>>)> {
    let bar = progress(study, cases.len() * 2);
    // One after the other: senders that wait for a processor would be part of what is measured.
    let live = if options.live {
        live(cases, &|| bar.inc(1))
    } else {
        Ok(Vec::new())
    };
    let simulated = shares::run(cases, || bar.inc(1));
    bar.finish_and_clear();
    let live = live.unwrap_or_else(|error| {
        left_out(study, &error);
        Vec::new()
    });
    Ok((simulated?, live))
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
                came.and_then(|came| take_away(bench).map(|()| came))
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
    let exported = export(&case.policy, INTERFACE, Some(case.line), Queues::Plain);
    let exported = exported.map_err(|error| {
        Error::invalid(
            format!("export the policy of `{}`", case.name),
            error.to_string(),
        )
    })?;
    apply(&exported, bench.namespace())?;
    Ok(bench)
}

/// Both halves of the policy were there all the time, and can be taken away.
fn take_away(bench: &QueueBench) -> Result<(), Error> {
    let table = Export::table(INTERFACE);
    if remove(INTERFACE, &table, bench.namespace())? {
        return Ok(());
    }
    Err(Error::invalid(
        "remove the policy",
        "nothing of it is there",
    ))
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
