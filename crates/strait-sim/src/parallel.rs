//! Runs in parallel. A run is one thread's alone, so the number of threads changes nothing but the
//! time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `run` for every job, on as many threads as the machine has cores unless told otherwise,
/// and returns the results in the order of the jobs.
pub(crate) fn parallel<J: Sync, R: Send>(
    jobs: &[J],
    threads: Option<usize>,
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((job, slot)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            jobs.get(index).zip(results.get(index))
        } {
            let result = run(job);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or(cores).clamp(1, jobs.len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_iter();
    results
        .filter_map(|slot| slot.into_inner().ok().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parallel;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = jobs.iter().map(|job| job * job).collect();
        for threads in [None, Some(1), Some(7), Some(1000)] {
            assert_eq!(parallel(&jobs, threads, |job| job * job), squares);
        }
        assert!(parallel(&[], None, |job: &u64| *job).is_empty());
    }
}
