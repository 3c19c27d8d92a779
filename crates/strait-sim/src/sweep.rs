//! Many runs of one scenario over axes, in parallel.

use std::collections::BTreeMap;

use strait_scenario::Loaded;

use crate::build::BuildError;
use crate::parallel::parallel;
use crate::run::run_plain;

/// One run to do.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The scenario at its point.
    pub loaded: &'a Loaded,
    /// The variant's name.
    pub variant: &'a str,
    /// The seed.
    pub seed: u64,
}

/// What a run gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Hash over everything that happened.
    pub hash: u64,
    /// Metrics by name, as in [`crate::Run`]; finite numbers only.
    pub metrics: BTreeMap<String, f64>,
    /// Packets that a node took in and nobody had sent: a bug unless 0.
    pub unexplained: u64,
}

/// Does all jobs, on as many threads as the machine has cores unless told otherwise; `done` hears
/// of each that ended, with its place among the jobs. The results are in the order of the jobs.
///
/// # Errors
/// A scenario that can't be built.
pub fn run(
    jobs: &[Job<'_>],
    threads: Option<usize>,
    done: impl Fn(usize, &Measured) + Sync,
) -> Result<Vec<Measured>, BuildError> {
    let numbered: Vec<(usize, &Job<'_>)> = jobs.iter().enumerate().collect();
    let results = parallel(&numbered, threads, |(index, job)| {
        let run = run_plain(job.loaded, job.variant, job.seed)?;
        let finite = run.metrics.into_iter().filter(|it| it.1.is_finite());
        let measured = Measured {
            hash: run.hash,
            metrics: finite.collect(),
            unexplained: run.unexplained,
        };
        done(*index, &measured);
        Ok(measured)
    });
    results.into_iter().collect()
}
