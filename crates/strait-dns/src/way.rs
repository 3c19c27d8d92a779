//! The link that leads to a partner, as a question sees it.

use strait_core::{Duration, Instant};

/// How it is with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// How long a question and its answer take at least, with what waits before them.
    pub turnaround: Duration,
    /// Its rate.
    pub bit_s: u64,
}

/// What is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    pub(crate) link: Option<LinkState>,
    /// The mean of what answers took, and by how much single ones differ.
    pub(crate) took: Option<(Duration, Duration)>,
    /// When the line has room for a question.
    pub(crate) next: Instant,
}

impl Way {
    /// How long an answer may take (RFC 6298 section 2).
    pub(crate) fn patience(&self, link: LinkState) -> Duration {
        let took = self.took.map(|(mean, spread)| mean + spread * 4);
        took.map_or(link.turnaround, |took| took.max(link.turnaround))
    }

    pub(crate) fn measure(&mut self, took: Duration) {
        self.took = Some(match self.took {
            None => (took, took / 2),
            Some((mean, spread)) => {
                let error = mean.abs_diff(took);
                ((mean * 7 + took) / 8, (spread * 3 + error) / 4)
            }
        });
    }
}
