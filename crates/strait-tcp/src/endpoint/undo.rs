//! Taking back what turned out to be no loss: after RFC 3522, 3708, 4015 and 5682.

use strait_core::time::Instant;

use super::Endpoint;
use super::ack::AckNews;
use crate::event::TcpEventKind;
use crate::recovery::Phase;

impl Endpoint {
    pub(super) fn begin_undo(&mut self) {
        self.recovery.undo_from = Some(self.tx.una);
        let probing = self
            .recovery
            .probe
            .is_some_and(|(_, repetition)| repetition);
        let repeats = self.board.repeated + u32::from(probing && self.board.repeated > 0);
        self.recovery.undo_repeats = (repeats > 0).then_some(repeats);
    }

    pub(super) fn any_repeated(&self) -> bool {
        self.recovery.repeated_at.is_some()
            && self
                .board
                .queue
                .front()
                .is_some_and(|sent| sent.ever_repeated)
    }

    /// With nothing repeated under way, the next repetition is the first again.
    pub(super) fn forget_repetitions(&mut self) {
        if self.board.lost == 0 && !self.any_repeated() {
            self.recovery.repeated_at = None;
        }
    }

    pub(super) fn touch_usage(&mut self, now: Instant) {
        self.note_usage(now, true);
    }

    /// A duplicate was reported (RFC 2883).
    pub(super) fn take_duplicate(
        &mut self,
        now: Instant,
        (start, end): (u64, u64),
        news: &mut AckNews,
    ) {
        // Reports of what was never sent, or long ago, say nothing.
        if start >= end || end > self.tx.next || start + self.tx.window_max < self.tx.una {
            return;
        }
        self.note_sent(now, start, TcpEventKind::DuplicateHeard);
        news.duplicate = true;
        news.duplicate_probe = self.recovery.probe == Some((end, true));
        if let (Some(from), Some(repeats)) = (self.recovery.undo_from, self.recovery.undo_repeats)
            && end > from
        {
            self.recovery.undo_repeats = Some(repeats.saturating_sub(1));
        }
    }

    /// The other end echoes a timestamp from before the first repetition: the original arrived.
    fn was_delayed(&self) -> bool {
        let stamps = self.recovery.repeated_at.zip(self.tx.echo);
        self.profile.undo.timestamps
            && self.agreed.timestamps
            && stamps.is_some_and(|((_, first), echo)| (echo.wrapping_sub(first) as i32) < 0)
    }

    fn may_undo(&self) -> bool {
        let reported = self.profile.undo.dsack && self.recovery.undo_repeats == Some(0);
        self.recovery.undo_from.is_some() && (reported || self.was_delayed())
    }

    fn undo(&mut self, now: Instant, unmark: bool) {
        self.note_sent(now, self.tx.una, TcpEventKind::Undone);
        if unmark {
            self.board.unmark_lost();
        }
        if self.recovery.prior_threshold > 0 {
            let prior = self.recovery.prior_window;
            self.window.segments = self.control.undo(&self.window, prior);
            if self.recovery.prior_threshold > self.window.threshold {
                self.window.threshold = self.recovery.prior_threshold;
                self.ecn.reduced = false;
            }
        }
        self.recovery.undo_from = None;
        self.recovery.rack.advanced = true;
        self.touch_usage(now);
    }

    /// Without selection, the phase lasts until something above it is acknowledged, or old
    /// duplicates would look like new ones (RFC 6582 section 4).
    fn must_wait(&mut self) -> bool {
        let high = self.tx.una == self.recovery.high;
        let waits = !self.agreed.sack && self.profile.duplicates.careful && high;
        if waits && !self.any_repeated() {
            self.recovery.repeated_at = None;
        }
        waits
    }

    /// The end of a recovery. True: the phase lasts.
    pub(super) fn try_undo_recovery(&mut self, now: Instant) -> bool {
        if self.may_undo() {
            self.undo(now, false);
        } else if self.recovery.phase == Phase::Recovery {
            let rack = &mut self.recovery.rack;
            rack.persist = rack.persist.saturating_sub(1);
        }
        if self.must_wait() {
            return true;
        }
        self.end_reduction_after_loss(now);
        self.recovery.phase = Phase::Open;
        false
    }

    /// The reduction of a fast recovery ends with its phase; that of a timeout has no end of its
    /// own.
    fn end_reduction_after_loss(&mut self, now: Instant) {
        if self.recovery.phase == Phase::Recovery {
            self.end_reduction(now);
        }
    }

    /// All repetitions were reported as duplicates.
    pub(super) fn try_undo_reported(&mut self, now: Instant) -> bool {
        let all = self.profile.undo.dsack && self.recovery.undo_repeats == Some(0);
        if self.recovery.undo_from.is_none() || !all {
            return false;
        }
        self.recovery.rack.persist = self.recovery.rack.persist.saturating_sub(1);
        self.undo(now, false);
        true
    }

    /// A partial acknowledgement that the original caused. True: wait for what was repeated.
    pub(super) fn try_undo_partly(&mut self, now: Instant, news: &AckNews) -> bool {
        if self.recovery.undo_from.is_none() || !self.was_delayed() {
            return false;
        }
        let highest = self.board.highest_sacked().unwrap_or(self.tx.una);
        self.note_reordering(news.prior_una, highest.max(self.tx.una));
        if self.board.repeated > 0 {
            return true;
        }
        if !self.any_repeated() {
            self.recovery.repeated_at = None;
        }
        self.undo(now, true);
        self.keep_open();
        false
    }

    /// A timeout was spurious: `certain` says F-RTO, else timestamps or reports may.
    pub(super) fn try_undo_timeout(&mut self, now: Instant, certain: bool) -> bool {
        if !certain && !self.may_undo() {
            return false;
        }
        self.undo(now, true);
        self.recovery.timeouts = 0;
        if self.must_wait() {
            return true;
        }
        if certain || self.agreed.sack {
            self.recovery.phase = Phase::Open;
        }
        true
    }
}
