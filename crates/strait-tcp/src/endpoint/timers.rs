//! What happens when nothing happens.

use strait_core::time::{Duration, Instant};

use super::ack::AckNews;
use super::{Endpoint, State, time_ns};
use crate::TcpError;
use crate::congestion::Window;
use crate::event::TcpEventKind;
use crate::profile::AckPolicy;
use crate::recovery::Phase;

/// What the sender's one timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// Retransmission (RFC 6298), of a SYN too.
    Retransmit,
    /// Tail loss probe (RFC 8985 section 7).
    Probe,
    /// Segments that will count as lost (RFC 8985 section 6.2).
    Reorder,
    /// Zero-window probe (RFC 9293 section 3.8.6.1).
    Persist,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    pub(super) sender: Option<(Instant, Alarm)>,
    pub(super) ack: Option<Instant>,
    pub(super) alive: Option<Instant>,
    /// The end of waiting for what may still come.
    pub(super) linger: Option<Instant>,
    /// When pacing lets the next packet go.
    pub(super) pace: Option<Instant>,
}

impl Timers {
    pub(super) fn next(&self) -> Option<Instant> {
        let sender = self.sender.map(|(at, _)| at);
        [sender, self.ack, self.alive, self.linger, self.pace]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn is(&self, alarm: Alarm) -> bool {
        self.sender.is_some_and(|(_, pending)| pending == alarm)
    }
}

impl Endpoint {
    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.timers.next().is_none_or(|at| at > now) {
            return;
        }
        if let Some((at, alarm)) = self.timers.sender
            && at <= now
        {
            self.timers.sender = None;
            match alarm {
                Alarm::Retransmit if self.is_synchronised() => self.time_out(now),
                Alarm::Retransmit => self.time_out_handshake(now),
                Alarm::Probe => self.probe_tail(now),
                Alarm::Reorder => self.time_out_reordering(now),
                Alarm::Persist => self.probe_window(now),
            }
        }
        if self.timers.ack.is_some_and(|at| at <= now) {
            self.time_out_ack();
        }
        if self.timers.alive.is_some_and(|at| at <= now) {
            self.probe_life(now);
        }
        if self.timers.linger.is_some_and(|at| at <= now) {
            let silent = self.state != State::TimeWait;
            self.end(silent.then_some(TcpError::TimedOut));
        }
        if self.timers.pace.is_some_and(|at| at <= now) {
            self.timers.pace = None;
        }
    }

    fn arm(&mut self, now: Instant, after: Duration, alarm: Alarm) {
        // At least a nanosecond: a timer never fires in the call that sets it.
        self.timers.sender = Some((now + after.max(Duration::from_nanos(1)), alarm));
    }

    pub(super) fn arm_retransmit(&mut self, now: Instant) {
        self.arm(now, self.rtt.rto(), Alarm::Retransmit);
    }

    /// The retransmission timer after something changed: off if nothing is under way. If it
    /// replaces one of the others, it counts from when the oldest segment was sent.
    pub(super) fn rearm_retransmit(&mut self, now: Instant) {
        let Some(oldest) = self.board.queue.front() else {
            self.timers.sender = None;
            return;
        };
        let replaces = self.timers.is(Alarm::Probe) || self.timers.is(Alarm::Reorder);
        let from = if replaces { oldest.sent_at } else { now };
        self.arm(now, (from + self.rtt.rto()).since(now), Alarm::Retransmit);
    }

    /// RFC 8985 section 7.2: a probe after two round trips, if the retransmission timer isn't
    /// earlier. `advancing`: an acknowledgement restarts that timer, else it goes on. False: no
    /// probe.
    pub(super) fn schedule_probe(&mut self, now: Instant, advancing: bool) -> bool {
        let calm = matches!(self.recovery.phase, Phase::Open | Phase::Reduced);
        let idle = self.board.queue.is_empty();
        if !self.uses_rack() || !self.agreed.sack || !calm || idle || self.recovery.probe.is_some()
        {
            return false;
        }
        let slack = self.profile.timer_slack.0;
        let mut after = match self.rtt.smoothed_ns() {
            0 => self.profile.rto.initial.0,
            // A lone segment's acknowledgement may be delayed.
            srtt_ns if self.board.packets() == 1 => {
                Duration::from_nanos(2 * srtt_ns) + self.profile.rto.min.0
            }
            srtt_ns => Duration::from_nanos(2 * srtt_ns) + slack,
        };
        let oldest = self.board.queue.front().map_or(now, |sent| sent.sent_at);
        let due = if advancing { now } else { oldest } + self.rtt.rto();
        // Where round trips outgrow the longest timeout, it was due long ago, and says nothing.
        if due > now {
            after = after.min(due.since(now));
        }
        self.arm(now, after.min(self.profile.rto.max.0), Alarm::Probe);
        true
    }

    /// After an acknowledgement of something new.
    pub(super) fn set_sender_timer(&mut self, now: Instant) {
        if !self.schedule_probe(now, true) {
            self.rearm_retransmit(now);
        }
    }

    pub(super) fn arm_reorder(&mut self, now: Instant, at: Instant) {
        let after = at.since(now) + self.profile.timer_slack.0;
        self.arm(now, after, Alarm::Reorder);
    }

    /// Data waits for the window and nothing is under way: ask now and then.
    pub(super) fn watch_window(&mut self, now: Instant) {
        let waits = self.tx.next < self.stream_end() && self.board.queue.is_empty();
        if waits && self.timers.sender.is_none() && self.timers.pace.is_none() {
            self.arm(now, self.persist_interval(), Alarm::Persist);
        }
    }

    fn persist_interval(&self) -> Duration {
        let base_ns = self.rtt.rto().max(self.profile.rto.min.0).as_nanos() as u64;
        let doubled_ns = base_ns.saturating_mul(1 << self.tx.window_probes.min(40));
        Duration::from_nanos(doubled_ns.min(time_ns(self.profile.rto.max)))
    }

    fn probe_window(&mut self, now: Instant) {
        if !self.board.queue.is_empty() || self.tx.next >= self.stream_end() {
            self.tx.window_probes = 0;
            return;
        }
        let silent_since = *self.tx.probing_since.get_or_insert(now);
        if now.since(silent_since) >= self.give_up() {
            self.end(Some(TcpError::TimedOut));
            return;
        }
        self.tx.probe_due = true;
        self.tx.window_probes += 1;
        self.arm(now, self.persist_interval(), Alarm::Persist);
    }

    /// Whether nothing new was acknowledged for too long since the first timeout.
    fn is_given_up(&self, now: Instant) -> bool {
        let since = self.recovery.silent_since;
        let many = self.profile.data_retries;
        now.since(since) >= self.give_up() || many > 0 && self.recovery.timeouts >= many
    }

    fn time_out(&mut self, now: Instant) {
        if self.board.queue.is_empty() {
            return;
        }
        if self.recovery.timeouts > 0 && self.is_given_up(now) {
            return self.end(Some(TcpError::TimedOut));
        }
        if self.recovery.timeouts == 0 {
            self.recovery.silent_since = now;
        }
        self.note_sent(now, self.tx.una, TcpEventKind::TimedOut);
        let black_hole = self.profile.path_mtu.black_holes
            && self.recovery.timeouts >= self.profile.path_mtu.black_hole_retries;
        if black_hole {
            self.suspect_black_hole();
        }
        self.recovery.probe = None;
        self.enter_loss(now);
        self.recovery.timeouts += 1;
        self.tx.repeat_head = true;
        self.tx.may_repeat = true;
        self.rtt.back_off();
        self.arm_retransmit(now);
    }

    /// RFC 4821 section 7.7: smaller segments, each time half.
    fn suspect_black_hole(&mut self) {
        let headers = crate::segment::ip_header_octets(self.config.local.is_ipv4()) + 20;
        let base = self.profile.path_mtu.black_hole_segment as usize;
        let now = self.full_segment();
        let smaller = if now > base {
            base
        } else {
            (now / 2).max(Self::SEGMENT_MIN)
        };
        self.path_mtu = self.path_mtu.min((smaller + headers) as u32);
        self.choose_segment();
    }

    fn time_out_handshake(&mut self, now: Instant) {
        // Answers to a repeated SYN don't count: only silence does.
        let repeats = self.recovery.timeouts;
        let linear = if self.state == State::SynSent {
            self.profile.syn.linear
        } else {
            0
        };
        let most = match self.state {
            State::SynSent => self.profile.syn.retries + linear,
            _ => self.profile.syn.answer_retries,
        };
        let opened = self.tx.handshake_at.unwrap_or(now);
        if repeats >= most || now.since(opened) >= self.give_up() {
            return self.end(Some(TcpError::TimedOut));
        }
        self.note_sent(now, self.initial, TcpEventKind::TimedOut);
        if repeats >= linear {
            self.rtt.back_off();
        }
        self.recovery.timeouts += 1;
        self.tx.handshake_due = true;
        self.arm_retransmit(now);
    }

    /// RFC 8985 section 7.3: a new segment if there is one, else the last again.
    fn probe_tail(&mut self, now: Instant) {
        if !self.board.queue.is_empty() {
            self.tx.tail_due = true;
            self.arm_retransmit(now);
        }
    }

    fn time_out_reordering(&mut self, now: Instant) {
        let before = self.board.in_flight();
        self.detect_by_time(now);
        if self.board.in_flight() != before {
            if self.recovery.phase != Phase::Recovery {
                self.enter_recovery(false);
                self.reduce(1, 1, &AckNews::default());
            }
            self.tx.may_repeat = true;
        }
        if !self.timers.is(Alarm::Reorder) {
            self.rearm_retransmit(now);
        }
    }

    fn time_out_ack(&mut self) {
        self.timers.ack = None;
        if let AckPolicy::Adaptive { delay_min, .. } = self.profile.ack {
            if self.acks.interactive {
                self.acks.interactive = false;
                self.acks.delay = delay_min.0;
            } else {
                self.acks.delay = (self.acks.delay * 2).min(self.rtt.rto());
            }
        }
        self.acks.due = self.acks.due.max(1);
    }

    /// Anything heard: the other end is alive.
    pub(super) fn heard(&mut self, now: Instant) {
        self.tx.life_probes = 0;
        self.tx.probing_since = None;
        if self.config.keep_alive && self.is_synchronised() {
            self.timers.alive = Some(now + self.profile.keep_alive.idle.0);
        }
        match self.state {
            State::FinWait2 => self.timers.linger = Some(now + self.profile.fin_wait.0),
            State::TimeWait | State::Closed => {}
            _ => self.timers.linger = None,
        }
    }

    /// RFC 9293 section 3.8.4.
    fn probe_life(&mut self, now: Instant) {
        self.timers.alive = None;
        if matches!(
            self.state,
            State::Closed | State::TimeWait | State::FinWait2
        ) {
            return;
        }
        if !self.board.queue.is_empty() || self.tx.next < self.stream_end() {
            // Its own timers watch over data.
            self.timers.alive = Some(now + self.profile.keep_alive.idle.0);
            return;
        }
        if self.tx.life_probes >= self.profile.keep_alive.probes {
            self.reset = Some((self.tx.next as u32, Some(self.rx.next as u32)));
            return self.end(Some(TcpError::TimedOut));
        }
        self.tx.life_probes += 1;
        self.tx.probe_due = true;
        self.timers.alive = Some(now + self.profile.keep_alive.interval.0);
    }

    pub(super) fn wait_out_of_caution(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers = Timers {
            linger: Some(now + self.profile.time_wait.0),
            ..Timers::default()
        };
    }

    /// The window to begin with: RFC 5681 section 3.1 allows one segment after a lost SYN; a
    /// second one must be lost here, since RFC 6298's first timeout is short.
    pub(super) fn begin_window(&mut self, repeats: u32, spurious: bool) {
        let first = if repeats > 1 && !spurious {
            1
        } else {
            self.profile.initial_window
        };
        self.window = Window::new(first);
        self.recovery.timeouts = 0;
    }
}
