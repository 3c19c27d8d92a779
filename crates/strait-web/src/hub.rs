//! What was heard of gateways last, and what browsers wait for.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use strait_status::Snapshot;
use tokio::sync::watch;

use crate::recording::{Clock, Recording, line};

/// Where threads that ask gateways meet browsers.
pub(crate) struct Hub {
    state: Mutex<State>,
    news: watch::Sender<u64>,
}

struct State {
    /// The newest line of each node, and the number of the news that it came with.
    latest: Vec<(u64, Arc<str>)>,
    recording: Recording,
}

impl Hub {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                latest: vec![(0, "".into()); nodes],
                recording: Recording::new(Clock::Unix),
            }),
            news: watch::Sender::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node `n` said this.
    pub(crate) fn heard(&self, n: usize, snapshot: &Snapshot) {
        let mut state = self.state();
        let text = state.recording.add(n, now_s(), snapshot);
        self.tell(&mut state, n, text);
    }

    /// The node `n` can't be asked.
    pub(crate) fn lost(&self, n: usize, path: &Path, why: &str) {
        let why = format!("{}: {why}", path.display());
        let text = line(n, now_s(), ("gone", why.into()), None);
        self.tell(&mut self.state(), n, text);
    }

    fn tell(&self, state: &mut State, n: usize, text: String) {
        self.news.send_modify(|news| {
            *news += 1;
            state.latest[n] = (*news, text.into());
        });
    }

    /// Tells when there is something new.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// A line that came behind the news number `seen`: of several the first. Of each node there is
    /// only its newest, so a slow reader misses some and nothing waits for it.
    pub(crate) fn line_after(&self, seen: u64) -> Option<(u64, Arc<str>)> {
        let state = self.state();
        let later = state.latest.iter().filter(|(news, _)| *news > seen);
        later.min_by_key(|(news, _)| *news).cloned()
    }

    /// What was recorded so far.
    pub(crate) fn with_recording<T>(&self, of: impl FnOnce(&Recording) -> T) -> T {
        of(&self.state().recording)
    }
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(node: &str) -> Snapshot {
        Snapshot {
            node: node.into(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_slow_reader_gets_the_newest_of_each_node_once() {
        let hub = Hub::new(2);
        assert!(hub.line_after(0).is_none());
        hub.heard(0, &named("old"));
        hub.heard(1, &named("b"));
        hub.heard(0, &named("new"));
        let (seen, first) = hub.line_after(0).expect("a line");
        assert!(
            first.contains("\"b\"") && first.contains("All is well"),
            "{first}"
        );
        let (seen, second) = hub.line_after(seen).expect("a line");
        assert!(second.contains("new"), "{second}");
        assert!(hub.line_after(seen).is_none());
        hub.lost(1, Path::new("/run/b.sock"), "nobody is there");
        let (_, third) = hub.line_after(seen).expect("a line");
        assert!(third.contains("/run/b.sock: nobody is there"), "{third}");
        let text = hub.with_recording(Recording::text);
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}
