//! Random scenarios: nothing is lost without a cause, doubled, or made up while everything goes
//! wrong, and everything works again in bounded time when it stops going wrong.
//!
//! `STRAIT_SWARM_SEED=n` runs one scenario, `STRAIT_SWARM_RUNS=n` so many; `STRAIT_MESH_SEED` and
//! `STRAIT_MESH_RUNS` do so with meshes of reliable hops.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]
#![allow(clippy::print_stdout, reason = "a test tells what it has tried")]

mod determinism;
mod draw;
mod judge;
mod patience;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use draw::{Drawn, draw, draw_mesh};
use judge::{Verdict, judge};

/// Scenarios that a run of the tests tries.
const RUNS: u64 = 800;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Meshes of the same.
const MESHES: u64 = 40;

/// What the scenario of a seed came to; a panic is wrong.
fn attempt(seed: u64, draw: fn(u64) -> Drawn) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| judge(&draw(seed)))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Verdict {
            wrong: vec![format!("panic: {}", text.unwrap_or("?"))],
            share: 0.0,
            prevented: 0,
            in_full: false,
        }
    })
}

/// What many scenarios came to.
#[derive(Debug, Default)]
struct Sum {
    failures: Vec<(u64, Vec<String>)>,
    /// The largest share of its time that one needed, and its seed.
    worst: (f64, u64),
    prevented: u64,
    in_full: u64,
}

impl Sum {
    fn add(&mut self, seed: u64, verdict: Verdict) {
        self.prevented += verdict.prevented;
        self.in_full += u64::from(verdict.in_full);
        if !verdict.wrong.is_empty() {
            self.failures.push((seed, verdict.wrong));
        }
        if verdict.share > self.worst.0 {
            self.worst = (verdict.share, seed);
        }
    }

    fn of(first: u64, runs: u64, draw: fn(u64) -> Drawn) -> Self {
        let next = AtomicU64::new(0);
        let sum = Mutex::new(Self::default());
        let work = || {
            loop {
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= runs {
                    return;
                }
                let verdict = attempt(first + run, draw);
                if let Ok(mut sum) = sum.lock() {
                    sum.add(first + run, verdict);
                }
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 1..cores {
                scope.spawn(work);
            }
            work();
        });
        sum.into_inner().unwrap()
    }

    /// `name` is the environment variable by which one of them is run again; one in so many has to
    /// be judged in full.
    fn expect_right(mut self, runs: u64, name: &str, in_full_of: u64) {
        let Self {
            worst: (share, seed),
            prevented,
            in_full,
            ..
        } = self;
        println!(
            "{runs} scenarios, {in_full} judged in full; seed {seed} needed {share:.3} of the time \
             that it may take; {prevented} transfers could not begin"
        );
        // They are rare: an endpoint that gave up at every second slow line would not pass for one.
        assert!(runs == 1 || prevented <= runs.div_ceil(200), "{prevented}");
        self.failures.sort();
        let lines = self.failures.iter().take(20).map(|(seed, wrong)| {
            let wrong: Vec<&str> = wrong.iter().take(4).map(String::as_str).collect();
            format!("{name}={seed}\n  {}\n", wrong.join("\n  "))
        });
        let lines: String = lines.collect();
        let failed = self.failures.len();
        assert!(failed == 0, "{failed} of {runs} fail:\n{lines}");
        // Others have limits in place of zeroes, or frames that pass a short check by chance.
        assert!(
            runs < 20 || in_full >= runs / in_full_of,
            "{in_full} of {runs}"
        );
    }
}

/// Seeds to run, by environment variables: the first and how many.
fn seeds(seed: &str, runs: &str, usual: u64) -> (u64, u64) {
    let first = number(seed);
    let runs = number(runs).unwrap_or_else(|| if first.is_some() { 1 } else { usual });
    (first.unwrap_or(1), runs)
}

#[test]
fn nothing_is_lost_unseen_and_everything_works_again() {
    let (first, runs) = seeds("STRAIT_SWARM_SEED", "STRAIT_SWARM_RUNS", RUNS);
    show(runs, &draw(first));
    Sum::of(first, runs, draw).expect_right(runs, "STRAIT_SWARM_SEED", 9);
}

/// Up to thirty gateways with reliable hops, and routes that change under what they carry.
#[test]
fn meshes_of_reliable_hops_hand_over_everything_once_and_work_again() {
    let (first, runs) = seeds("STRAIT_MESH_SEED", "STRAIT_MESH_RUNS", MESHES);
    show(runs, &draw_mesh(first));
    Sum::of(first, runs, draw_mesh).expect_right(runs, "STRAIT_MESH_SEED", 3);
}

/// One that is run alone is shown; a test that passes keeps it to itself.
fn show(runs: u64, drawn: &Drawn) {
    if runs == 1 {
        for (name, text) in &drawn.files.0 {
            println!("# {name}\n{text}");
        }
    }
}
