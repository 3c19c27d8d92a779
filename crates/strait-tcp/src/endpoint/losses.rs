//! Finding losses and recovering from them: RFC 5681, 6582, 6675, 6937, 8985, and 5682.

use strait_core::time::Instant;

use super::Endpoint;
use super::ack::AckNews;
use crate::congestion::Window;
use crate::profile::{LossDetection, Reduction};
use crate::recovery::{Phase, Recovery};
use crate::scoreboard::Sent;

impl Endpoint {
    pub(super) fn uses_rack(&self) -> bool {
        self.profile.detection == LossDetection::RackTlp
    }

    /// An acknowledgement that isn't plain progress: what phase does it lead to, and is there
    /// something to send again?
    pub(super) fn alert(&mut self, now: Instant, duplicates: u32, news: &mut AckNews) {
        self.tx.may_repeat = false;
        if news.congestion {
            // What the network says itself isn't undone.
            self.recovery.prior_threshold = 0;
        }
        if self.has_reneged(now, news) {
            return;
        }
        if self.recovery.phase == Phase::Open {
            self.forget_repetitions();
        } else if self.tx.una >= self.recovery.high && self.leave_phase(now) {
            return;
        }
        match self.recovery.phase {
            Phase::Recovery => {
                if !self.go_on_recovering(now, duplicates, news) {
                    return;
                }
            }
            Phase::Loss => {
                if !self.go_on_after_timeout(now, duplicates, news) {
                    return;
                }
                if !self.begin_recovery(now, duplicates, news) {
                    return;
                }
            }
            _ => {
                if !self.begin_recovery(now, duplicates, news) {
                    return;
                }
            }
        }
        self.tx.may_repeat = true;
    }

    /// The oldest segment was selected before and still isn't acknowledged in order: the other
    /// end took it back (RFC 2018 section 8). The timer decides.
    fn has_reneged(&mut self, now: Instant, news: &AckNews) -> bool {
        let reneged = self.agreed.sack
            && news.advanced
            && self.board.queue.front().is_some_and(|sent| sent.sacked);
        if reneged {
            self.rearm_retransmit(now);
        }
        reneged
    }

    /// Everything sent before the phase began is acknowledged. True: nothing else to do.
    fn leave_phase(&mut self, now: Instant) -> bool {
        match self.recovery.phase {
            // A mark's reduction lasts until something sent after it is acknowledged.
            Phase::Reduced if self.tx.una != self.recovery.high => {
                self.end_reduction(now);
                self.recovery.phase = Phase::Open;
            }
            Phase::Recovery => {
                self.drop_duplicates();
                if self.try_undo_recovery(now) {
                    return true;
                }
                self.end_reduction(now);
            }
            _ => {}
        }
        false
    }

    fn go_on_recovering(&mut self, now: Instant, duplicates: u32, news: &mut AckNews) -> bool {
        if !news.advanced {
            self.count_duplicates(duplicates);
        } else if self.try_undo_partly(now, news) {
            return false;
        }
        if self.try_undo_reported(now) {
            self.try_to_open(news);
        }
        self.find_losses(now, news);
        if self.recovery.phase != Phase::Recovery {
            if self.board.lost == 0 {
                return false;
            }
            self.enter_recovery(news.congestion);
        }
        true
    }

    /// RFC 5682 section 3.1, and what a timeout's recovery does else. True: new losses are
    /// evident.
    fn go_on_after_timeout(&mut self, now: Instant, duplicates: u32, news: &mut AckNews) -> bool {
        let recovered = self.tx.una >= self.recovery.high;
        if news.advanced && self.try_undo_timeout(now, false) {
            return self.look_again(now, news);
        }
        if self.recovery.frto {
            // Step 3.b: something never repeated arrived: the timeout was spurious.
            if news.original && self.try_undo_timeout(now, true) {
                return self.look_again(now, news);
            }
            if self.tx.next > self.recovery.high {
                // Step 3.a: after new data, duplicates: the loss was real.
                self.recovery.frto &= !(news.newly_sacked || duplicates > 0);
            } else if news.advanced && !recovered {
                self.recovery.high = self.tx.next;
                // Step 2.b: try new data.
                let window_end = self.tx.una + self.tx.window;
                if self.tx.next < self.stream_end() && self.tx.next < window_end {
                    self.tx.try_new = true;
                    return self.look_again(now, news);
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            if self.profile.growth_beyond_loss {
                let beyond = (self.tx.una - self.recovery.high) / self.tx.segment.max(1) as u64;
                news.acked = news.acked.min(beyond as u32);
            }
            self.try_undo_recovery(now);
            return self.look_again(now, news);
        }
        if !self.agreed.sack {
            if self.tx.next > self.recovery.high && !self.profile.duplicates.keeps {
                self.count_duplicates(duplicates);
            } else if news.advanced {
                self.drop_duplicates();
            }
        }
        self.tx.may_repeat = true;
        self.look_again(now, news)
    }

    fn look_again(&mut self, now: Instant, news: &mut AckNews) -> bool {
        self.find_losses(now, news);
        self.recovery.phase == Phase::Open || news.lost_repetition
    }

    fn begin_recovery(&mut self, now: Instant, duplicates: u32, news: &mut AckNews) -> bool {
        if !self.agreed.sack {
            if news.advanced {
                self.drop_duplicates();
            }
            self.count_duplicates(duplicates);
        }
        if self.recovery.phase <= Phase::Disorder {
            self.try_undo_reported(now);
        }
        self.find_losses(now, news);
        let evident = !self.keeps_duplicates() || self.has_enough_duplicates();
        if self.board.lost == 0 || !evident {
            self.try_to_open(news);
            return self.board.lost > 0;
        }
        self.enter_recovery(news.congestion);
        true
    }

    fn find_losses(&mut self, now: Instant, news: &mut AckNews) {
        if !self.agreed.sack {
            self.find_loss_by_duplicates(news.advanced);
        } else if self.uses_rack() {
            let repeated = self.board.repeated;
            if self.detect_by_time(now) {
                // Its timer replaces the one that would be set.
                news.rearm = false;
            }
            news.lost_repetition |= self.board.repeated < repeated;
        } else {
            let segment = self.tx.segment as u64;
            self.board
                .mark_by_threshold(self.recovery.reordering, segment);
        }
    }

    /// RFC 6582 section 3.2: enough duplicates, or a partial acknowledgement: the oldest is lost.
    fn find_loss_by_duplicates(&mut self, advanced: bool) {
        let enough = self.recovery.phase < Phase::Recovery && self.has_enough_duplicates();
        let partial = self.recovery.phase == Phase::Recovery && advanced;
        // Where counts are kept, the oldest may have gone again for its count's sake.
        let again = self.keeps_duplicates();
        let fresh = |sent: &Sent| !sent.lost || again;
        if (enough || partial) && self.board.queue.front().is_some_and(fresh) {
            self.board.mark_lost(0);
        }
    }

    const fn keeps_duplicates(&self) -> bool {
        self.profile.duplicates.keeps && !self.agreed.sack
    }

    /// Duplicates counted stand for nothing any more, unless the profile keeps them.
    fn drop_duplicates(&mut self) {
        if !self.agreed.sack && !self.profile.duplicates.keeps {
            self.board.sacked = 0;
        }
    }

    const fn has_enough_duplicates(&self) -> bool {
        let count = if self.profile.duplicates.keeps {
            self.recovery.duplicates
        } else {
            self.board.sacked
        };
        count >= self.recovery.reordering
    }

    /// RFC 8985 section 6.2 step 5. True if a timer was set for segments that may yet arrive.
    pub(super) fn detect_by_time(&mut self, now: Instant) -> bool {
        if !self.recovery.rack.advanced && !self.timers_due_reorder() {
            return false;
        }
        self.recovery.rack.advanced = false;
        let window_ns = self.reordering_window_ns();
        let mut latest = None;
        for index in 0..self.board.queue.len() {
            let sent = self.board.queue[index];
            if sent.sacked || sent.lost && !sent.repeated {
                continue;
            }
            match self.recovery.rack.deadline(&sent, window_ns) {
                Some(at) if at <= now => {
                    self.board.mark_lost(index);
                }
                Some(at) => latest = latest.max(Some(at)),
                None => {}
            }
        }
        if let Some(at) = latest {
            self.arm_reorder(now, at);
        }
        latest.is_some()
    }

    /// The reordering timer has run out: it isn't set any more while its look is under way.
    const fn timers_due_reorder(&self) -> bool {
        self.timers.sender.is_none()
    }

    /// RFC 8985 section 6.2 step 4.
    fn reordering_window_ns(&self) -> u64 {
        let recovery = &self.recovery;
        let certain = recovery.phase >= Phase::Recovery || self.board.sacked >= recovery.reordering;
        if !recovery.reordering_seen && certain {
            return 0;
        }
        let least_ns = self.rtt.least_ns().unwrap_or(0);
        (least_ns / 4 * u64::from(recovery.rack.steps)).min(self.rtt.smoothed_ns())
    }

    /// RFC 8985 section 6.2 step 4: duplicates reported show that the window was too narrow.
    pub(super) fn widen_reordering(&mut self, news: &AckNews) {
        let rack = &mut self.recovery.rack;
        if news.duplicate && self.tx.una > rack.widened_at {
            rack.steps = (rack.steps + 1).min(255);
            rack.persist = 16;
            rack.widened_at = self.tx.next;
        } else if rack.persist == 0 {
            rack.steps = 1;
        }
    }

    /// Segments overtook `seq`.
    pub(super) fn note_reordering(&mut self, seq: u64, highest: u64) {
        if seq >= highest {
            return;
        }
        let distance = (highest - seq).div_ceil(self.tx.segment.max(1) as u64) as u32;
        self.recovery.reordering_seen = true;
        if self.uses_rack() {
            let most = Recovery::REORDERING_MAX;
            self.recovery.reordering = self.recovery.reordering.max(distance.min(most));
        }
    }

    /// Duplicates say that something left the network: RFC 5681 section 3.2 step 4.
    fn count_duplicates(&mut self, duplicates: u32) {
        if self.agreed.sack || duplicates == 0 {
            return;
        }
        let before = self.board.sacked;
        self.recovery.duplicates += duplicates;
        self.board.sacked += duplicates;
        self.limit_duplicates();
        if self.profile.duplicates.deliver {
            self.rate.delivered += u64::from(self.board.sacked.saturating_sub(before));
        }
    }

    /// There can't be more out of order than is under way beside what is lost.
    pub(super) fn limit_duplicates(&mut self) {
        let packets = self.board.packets();
        let holes = self.board.lost.max(1).min(packets);
        self.board.sacked = self.board.sacked.min(packets - holes);
    }

    fn try_to_open(&mut self, news: &AckNews) {
        self.forget_repetitions();
        if news.congestion {
            self.enter_reduction();
        }
        if self.recovery.phase != Phase::Reduced {
            self.keep_open();
        }
    }

    /// Open, or in disorder if anything is out of order.
    pub(super) fn keep_open(&mut self) {
        let disorder = self.board.sacked + self.board.lost > 0 || self.any_repeated();
        let phase = if disorder {
            Phase::Disorder
        } else {
            Phase::Open
        };
        if phase != self.recovery.phase {
            self.recovery.phase = phase;
            self.recovery.high = self.tx.next;
        }
    }

    /// RFC 3168 section 6.1.2: once a round trip, as for a loss, without one.
    fn enter_reduction(&mut self) {
        self.recovery.prior_threshold = 0;
        if self.recovery.phase < Phase::Reduced {
            self.recovery.undo_from = None;
            self.begin_reduction();
            self.recovery.phase = Phase::Reduced;
        }
    }

    pub(super) fn begin_reduction(&mut self) {
        let recovery = &mut self.recovery;
        recovery.high = self.tx.next;
        recovery.probe = None;
        recovery.prior_window = self.window.segments;
        (recovery.delivered, recovery.sent) = (0, 0);
        self.window.count = 0;
        let in_flight = self.board.in_flight() + u32::from(!self.agreed.sack);
        self.lower_threshold(in_flight);
        self.ecn.reduced = self.agreed.ecn;
    }

    /// What a loss leaves of the window.
    fn lower_threshold(&mut self, in_flight: u32) {
        let mut basis = self.window;
        if self.profile.threshold_from_flight {
            basis.segments = in_flight;
        }
        self.recovery.flight = basis.segments;
        self.window.threshold = self.control.threshold(&basis);
        self.window.threshold_part = 0.0;
        if self.profile.reduction == Reduction::Octets {
            self.recovery.flight = self.board.packets();
            if basis.segments > 2 * Window::LEAST_THRESHOLD {
                self.window.threshold_part = f64::from(basis.segments % 2) / 2.0;
            }
        }
    }

    pub(super) fn enter_recovery(&mut self, congestion: bool) {
        self.recovery.prior_threshold = 0;
        self.begin_undo();
        if !self.recovery.reducing() {
            if !congestion {
                self.recovery.prior_threshold = self.remembered_threshold();
            }
            self.begin_reduction();
        }
        self.recovery.phase = Phase::Recovery;
        self.recovery.partial = false;
    }

    /// One step of the reduction.
    pub(super) fn reduce(&mut self, delivered: u32, lost: u64, news: &AckNews) {
        if self.control.rules() || self.recovery.prior_window == 0 {
            return;
        }
        let in_flight = self.board.in_flight();
        let segments = match self.profile.reduction {
            Reduction::Segments if delivered == 0 => return,
            Reduction::Segments => {
                let threshold = self.window.threshold;
                let counts = (delivered, lost);
                self.recovery
                    .proportion(threshold, in_flight, counts, news.advanced)
            }
            Reduction::Octets => {
                let begins = self.recovery.sent == 0 && !news.advanced;
                let in_flight = if begins { in_flight } else { news.in_flight };
                let repaired = news.repetition && self.tx.una < self.recovery.high;
                self.tx.repeat_head |= news.advanced && !self.agreed.sack;
                self.recovery
                    .proportion_octets(&self.window, in_flight, delivered, repaired)
            }
        };
        self.window.set(segments.max(1), 0.0);
    }

    pub(super) fn end_reduction(&mut self, now: Instant) {
        if self.control.rules() {
            return;
        }
        let unlimited = self.window.threshold == Window::UNLIMITED;
        let due = self.recovery.phase == Phase::Reduced || self.recovery.undo_from.is_some();
        if !unlimited && due {
            let Window {
                threshold,
                threshold_part,
                ..
            } = self.window;
            self.window.set(threshold, threshold_part);
            self.touch_usage(now);
        }
    }

    /// RFC 5681 section 3.1, equation 4, and RFC 5682 section 3.1 step 1.
    pub(super) fn enter_loss(&mut self, now: Instant) {
        let fresh = self.recovery.phase < Phase::Recovery;
        let in_flight = self.board.in_flight();
        self.mark_all_lost(now);
        let first_here = self.recovery.phase <= Phase::Disorder
            || self.recovery.high <= self.tx.una
            || self.recovery.phase == Phase::Loss && self.recovery.timeouts == 0
            || self.recovery.phase == Phase::Recovery && self.profile.threshold_from_flight
            || self.profile.rto.each_lowers;
        self.rtt.forget_before(self.tx.next);
        if first_here {
            self.recovery.prior_threshold = self.remembered_threshold();
            self.recovery.prior_window = self.window.segments;
            self.lower_threshold(in_flight);
        }
        if first_here || !self.profile.undo.again {
            self.begin_undo();
        }
        let repeated = || self.board.queue.iter().any(|sent| sent.ever_repeated);
        if !self.profile.undo.again && repeated() {
            self.recovery.undo_from = None;
        }
        let disordered = self.recovery.phase <= Phase::Disorder;
        if disordered && self.board.sacked >= self.profile.reordering {
            self.recovery.reordering = self.recovery.reordering.min(self.profile.reordering);
        }
        let window = self.board.in_flight() + self.profile.loss_window;
        self.window.set(window, 0.0);
        self.touch_usage(now);
        self.control.timed_out();
        self.recovery.phase = Phase::Loss;
        self.recovery.narrowed = false;
        self.recovery.high = self.tx.next;
        self.recovery.frto = self.profile.frto && (fresh || self.recovery.timeouts > 0);
        self.ecn.reduced = self.agreed.ecn;
    }

    /// After a timeout everything counts as lost, but what RACK says was sent too recently.
    fn mark_all_lost(&mut self, now: Instant) {
        if !self.agreed.sack {
            self.board.sacked = 0;
        } else if self.board.queue.front().is_some_and(|sent| sent.sacked) {
            self.board.renege();
        }
        let recent = self.uses_rack() && self.agreed.sack;
        let window_ns = self.recovery.rack.rtt_ns + self.reordering_window_ns();
        let window = std::time::Duration::from_nanos(window_ns);
        for index in 0..self.board.queue.len() {
            let sent = self.board.queue[index];
            if recent && index > 0 && sent.sent_at + window > now {
                continue;
            }
            self.board.mark_lost(index);
        }
    }

    /// The acknowledgement that ends a loss probe: RFC 8985 section 7.4.
    pub(super) fn end_probe(&mut self, ack: u64, news: &AckNews) {
        let Some((probe_end, repetition)) = self.recovery.probe.filter(|(end, _)| ack >= *end)
        else {
            return;
        };
        let plain_duplicate = !news.advanced && !news.distinct && !news.newly_sacked;
        if !repetition || news.duplicate_probe || plain_duplicate && ack == probe_end {
            self.recovery.probe = None;
        } else if ack > probe_end {
            // The probe repaired a loss that nothing else showed.
            self.begin_reduction();
            self.recovery.phase = Phase::Reduced;
            self.recovery.undo_from = None;
            self.end_reduction(self.tx.sent_at);
            self.keep_open();
        }
    }
}
