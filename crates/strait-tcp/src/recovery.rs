//! What an endpoint knows of losses and of the end of its recovery from them.

use strait_core::Instant;

use super::congestion::Window;
use super::profile::Profile;
use super::scoreboard::Sent;

/// Phases of the sender, in order of gravity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Nothing is wrong.
    Open,
    /// Something is out of order, but no loss is evident.
    Disorder,
    /// The window is being reduced because of a congestion mark.
    Reduced,
    /// Lost segments are being sent again.
    Recovery,
    /// The same after a retransmission timeout.
    Loss,
}

/// The sender's state of recovery. Windows and counts are in segments.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) phase: Phase,
    /// Recovery is over when this is acknowledged.
    pub(super) high: u64,
    /// [`Phase::Loss`] began because segments were too long for the path, not by a timeout.
    pub(super) narrowed: bool,
    /// Where undoing starts; `None`: nothing to undo.
    pub(super) undo_from: Option<u64>,
    /// Repetitions not yet reported as duplicates; `None` when it can't be told.
    pub(super) undo_repeats: Option<u32>,
    /// Duplicates since the last progress, without selective acknowledgements.
    pub(super) duplicates: u32,
    /// A partial acknowledgement has restarted the timer.
    pub(super) partial: bool,
    /// Threshold and window before the reduction; 0: don't go back to that threshold.
    pub(super) prior_threshold: u32,
    pub(super) prior_window: u32,
    /// What was in the network when the reduction began, by the profile's measure.
    pub(super) flight: u32,
    /// Proportional rate reduction: delivered and sent since it began (RFC 6937).
    pub(super) delivered: u32,
    pub(super) sent: u32,
    /// When the first repetition since the last sane moment was sent, and its timestamp.
    pub(super) repeated_at: Option<(Instant, u32)>,
    /// Repetitions by timeout in a row.
    pub(super) timeouts: u32,
    /// When the first of them was.
    pub(super) silent_since: Instant,
    /// Forward RTO recovery is trying to find out whether the timeout was spurious.
    pub(super) frto: bool,
    /// Acknowledgement that ends a tail loss probe, and whether it was a repetition.
    pub(super) probe: Option<(u64, bool)>,
    /// Duplicates that show a loss; grows with the reordering seen.
    pub(super) reordering: u32,
    pub(super) reordering_seen: bool,
    pub(super) rack: Rack,
}

/// RACK (RFC 8985): the most recently sent segment that was delivered.
#[derive(Debug, Default)]
pub(super) struct Rack {
    sent_at: Instant,
    end: u64,
    pub(super) rtt_ns: u64,
    /// Something was delivered since the last look at losses.
    pub(super) advanced: bool,
    /// The reordering window in quarters of the least round trip, and the recoveries that it
    /// still stays so wide.
    pub(super) steps: u32,
    pub(super) persist: u32,
    /// A duplicate report widens the window once a round trip.
    pub(super) widened_at: u64,
}

impl Recovery {
    /// Reordering beyond this isn't believed. Kernel: `tcp_max_reordering`.
    pub(super) const REORDERING_MAX: u32 = 300;

    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            phase: Phase::Open,
            high: 0,
            narrowed: false,
            undo_from: None,
            undo_repeats: None,
            duplicates: 0,
            partial: false,
            prior_threshold: 0,
            prior_window: 0,
            flight: 0,
            delivered: 0,
            sent: 0,
            repeated_at: None,
            timeouts: 0,
            silent_since: Instant::ZERO,
            frto: false,
            probe: None,
            reordering: profile.reordering,
            reordering_seen: false,
            rack: Rack {
                steps: 1,
                ..Rack::default()
            },
        }
    }

    /// Whether the window is being reduced step by step.
    pub(super) const fn reducing(&self) -> bool {
        matches!(self.phase, Phase::Reduced | Phase::Recovery)
    }

    /// RFC 6937 section 3: segments that may be sent now, given how many are in flight.
    pub(super) fn proportion(
        &mut self,
        threshold: u32,
        in_flight: u32,
        (delivered, lost): (u32, u64),
        advanced: bool,
    ) -> u32 {
        self.delivered += delivered;
        let room = if in_flight > threshold {
            let prior = u64::from(self.flight.max(1));
            let share = (u64::from(threshold) * u64::from(self.delivered)).div_ceil(prior);
            (share as u32).saturating_sub(self.sent)
        } else {
            let mut room = self.delivered.saturating_sub(self.sent).max(delivered);
            room += u32::from(advanced && lost == 0);
            room.min(threshold - in_flight)
        };
        // The first repetition always goes.
        in_flight + room.max(u32::from(self.sent == 0))
    }

    /// The same as ns-3 3.37 does it ([`Reduction::Octets`](super::profile::Reduction)).
    pub(super) fn proportion_octets(
        &mut self,
        window: &Window,
        in_flight: u32,
        delivered: u32,
        repaired: bool,
    ) -> u32 {
        self.delivered += delivered;
        let threshold = f64::from(window.threshold) + window.threshold_part;
        let ahead = i64::from(self.delivered) - i64::from(self.sent);
        let room = if f64::from(in_flight) > threshold {
            let share = f64::from(self.delivered) * threshold / f64::from(self.flight.max(1));
            share as i64 - i64::from(self.sent)
        } else {
            let room = i64::from(window.threshold) - i64::from(in_flight);
            let most = match repaired {
                // Its difference has no sign, so that one below 0 is the larger.
                true if ahead < 0 => ahead + 1,
                true => ahead.max(delivered.into()) + 1,
                false => delivered.into(),
            };
            most.min(room)
        };
        in_flight + (room.max(i64::from(self.sent == 0)) as u32)
    }
}

impl Rack {
    /// RFC 8985 section 6.2 steps 2 and 3: a segment was delivered.
    pub(super) fn advance(&mut self, now: Instant, sent: &Sent, least_rtt_ns: Option<u64>) {
        let rtt_ns = now.since(sent.sent_at).as_nanos() as u64;
        // So soon after the repetition, it was the original that arrived.
        if sent.ever_repeated && least_rtt_ns.is_some_and(|least_ns| rtt_ns < least_ns) {
            return;
        }
        self.advanced = true;
        self.rtt_ns = rtt_ns;
        if (sent.sent_at, sent.end) > (self.sent_at, self.end) {
            (self.sent_at, self.end) = (sent.sent_at, sent.end);
        }
    }

    /// RFC 8985 section 6.2 step 5: when the segment counts as lost; `None` if nothing sent later
    /// was delivered.
    pub(super) fn deadline(&self, sent: &Sent, window_ns: u64) -> Option<Instant> {
        let later = (self.sent_at, self.end) > (sent.sent_at, sent.end);
        later.then(|| sent.sent_at + std::time::Duration::from_nanos(self.rtt_ns + window_ns))
    }
}
