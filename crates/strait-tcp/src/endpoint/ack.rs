//! Acknowledgements: what they cover, what they measure, and the window.

use strait_core::time::{Duration, Instant};
use strait_wire::ip::TcpFlags;

use super::{Endpoint, State};
use crate::congestion::{Ack, Window};
use crate::event::TcpEventKind;
use crate::profile::Reduction;
use crate::recovery::Phase;
use crate::scoreboard::Sent;
use crate::segment::{Segment, unwrap_sequence};

/// How much of the window is in use, so that one that isn't doesn't grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The window limited the sender in this round.
    limited: bool,
    /// Most segments under way in this round, which ends when this is acknowledged.
    packets: u32,
    round_end: u64,
    /// Most segments under way since `at`, when the window was last in full use.
    used: u32,
    at: Instant,
}

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckNews {
    pub(super) prior_una: u64,
    /// Something was acknowledged in order.
    pub(super) advanced: bool,
    /// Segments acknowledged in order.
    pub(super) acked: u32,
    /// It can't be a duplicate: it has data, or changes the window.
    pub(super) distinct: bool,
    pub(super) newly_sacked: bool,
    /// A segment sent before the recovery and never repeated was delivered.
    pub(super) original: bool,
    /// A repetition was acknowledged in order.
    pub(super) repetition: bool,
    /// The oldest segment acknowledged in order that no timeout has met was sent once.
    pub(super) once: Option<bool>,
    /// Segments in flight before what the acknowledgement says of losses is counted.
    pub(super) in_flight: u32,
    /// A duplicate was reported, and the report is of the loss probe.
    pub(super) duplicate: bool,
    pub(super) duplicate_probe: bool,
    /// The other end echoes congestion.
    pub(super) congestion: bool,
    /// The segment that is the oldest now had counted as arrived.
    pub(super) miscounted: bool,
    /// A repetition was found to be lost.
    pub(super) lost_repetition: bool,
    /// The sender's timer begins anew.
    pub(super) rearm: bool,
    /// Round trips of the oldest segment in order, the newest, and of the oldest selected.
    rtt: Option<Duration>,
    rtt_newest: Option<Duration>,
    rtt_sacked: Option<Duration>,
    /// The lowest segment delivered after later ones, never repeated.
    reordered: Option<u64>,
}

impl Endpoint {
    /// RFC 9293 section 3.10.7.4, fifth. False: the segment is to be left.
    pub(super) fn take_ack(&mut self, now: Instant, segment: &Segment, seq: u64) -> bool {
        let ack = unwrap_sequence(self.tx.una, segment.ack);
        // RFC 5961 section 5.2.
        if ack > self.tx.next || ack + self.tx.window_max.max(1) < self.tx.una {
            self.challenge(now);
            return false;
        }
        self.note_timestamp(now, segment, seq);
        self.tx.echo = segment.options.timestamps.map(|(_, echo)| echo);
        self.tx.try_new = false;
        let mut news = AckNews {
            prior_una: self.tx.una,
            distinct: segment.length() > 0,
            congestion: self.agreed.ecn && segment.has(TcpFlags::ECE),
            ..AckNews::default()
        };
        if ack >= self.tx.una {
            news.distinct |= self.take_window(now, segment, seq, ack);
        }
        if !self.agreed.sack && !self.profile.duplicates.distinct {
            news.distinct = false;
        }
        if self.board.queue.is_empty() {
            self.take_idle_ack(now);
            return true;
        }
        let prior_in_flight = self.board.in_flight();
        let (delivered, lost) = (self.rate.delivered, self.board.lost_ever);
        self.take_selections(now, segment, ack, &mut news);
        if ack > self.tx.una {
            news.advanced = true;
            self.advance(now, ack, &mut news);
        }
        self.measure(now, segment, &mut news);
        news.in_flight = self.board.in_flight();
        self.judge(now, ack, &mut news);
        let delivered = (self.rate.delivered - delivered) as u32;
        let lost = self.board.lost_ever - lost;
        self.control(now, &news, (delivered, lost), prior_in_flight);
        if news.advanced {
            self.follow_close(now);
        }
        true
    }

    /// The window: RFC 9293 section 3.10.7.4. True if the segment is newer than the last that
    /// set it, or widens it.
    fn take_window(&mut self, now: Instant, segment: &Segment, seq: u64, ack: u64) -> bool {
        let window = u64::from(segment.window) << self.agreed.send_scale;
        let newer = ack > self.tx.una
            || seq > self.tx.window_from
            || seq == self.tx.window_from && (window > self.tx.window || window == 0);
        if !newer {
            return false;
        }
        let changed = window != self.tx.window || seq > self.tx.window_from;
        self.tx.window_from = seq;
        if window == 0 && self.tx.window > 0 {
            self.note_sent(now, ack, TcpEventKind::WindowClosed);
        }
        self.tx.window = window;
        if window > self.tx.window_max {
            self.tx.window_max = window;
            self.choose_segment();
        }
        changed
    }

    /// Nothing is under way: the window may have opened.
    fn take_idle_ack(&mut self, now: Instant) {
        let waits = self.tx.next < self.stream_end();
        let opened = self.tx.una + self.tx.window >= self.next_segment_end();
        if waits && opened {
            self.timers.sender = None;
            self.tx.window_probes = 0;
        } else {
            self.watch_window(now);
        }
    }

    /// Takes everything before `ack` off the queue.
    fn advance(&mut self, now: Instant, ack: u64, news: &mut AckNews) {
        let highest_sacked = self.board.highest_sacked().filter(|_| self.agreed.sack);
        let (mut first, mut last): (Option<Sent>, Option<Sent>) = (None, None);
        while let Some(sent) = self.board.pop_acked(ack, self.agreed.sack) {
            news.acked += 1;
            if self.rtt.remembers(sent.end) {
                news.once.get_or_insert(!sent.ever_repeated);
            }
            if sent.ever_repeated {
                news.repetition = true;
            } else if !sent.sacked {
                first = first.or(Some(sent));
                last = Some(sent);
                news.original |= sent.end <= self.recovery.high;
                if highest_sacked.is_some_and(|highest| sent.seq < highest) {
                    news.reordered = Some(news.reordered.unwrap_or(sent.seq).min(sent.seq));
                }
            }
            if !sent.sacked {
                self.rate.segment(&sent.rate, sent.sent_at);
                if self.agreed.sack {
                    self.rate.delivered += 1;
                    self.advance_rack(now, &sent);
                }
            }
        }
        self.tx.acknowledged(ack);
        // A part of a segment: what is left is still under way.
        if let Some(sent) = self.board.queue.front_mut() {
            sent.seq = sent.seq.max(ack);
        }
        if !news.repetition {
            news.rtt = first.map(|sent| now.since(sent.sent_at));
            news.rtt_newest = last.map(|sent| now.since(sent.sent_at));
        }
        if !self.agreed.sack {
            self.forget_duplicates(news);
            if let Some(last) = last {
                self.recovery.rack.advance(now, &last, self.rtt.least_ns());
            }
        }
        if let Some(seq) = news.reordered {
            self.note_reordering(seq, highest_sacked.unwrap_or(seq));
        }
        news.rearm = true;
    }

    /// Without selection, what was acknowledged in order was partly counted as duplicates.
    fn forget_duplicates(&mut self, news: &mut AckNews) {
        let acked = news.acked;
        if acked == 0 {
            return;
        }
        let sacked = self.board.sacked;
        let counted = if self.profile.duplicates.deliver {
            sacked
        } else {
            0
        };
        self.rate.delivered += u64::from(acked.saturating_sub(counted).max(1));
        self.board.sacked = sacked.saturating_sub(acked - 1);
        self.limit_duplicates();
        self.recovery.duplicates = 0;
        if self.profile.duplicates.keeps && sacked >= acked {
            news.miscounted = self.board.mark_lost(0);
        }
    }

    /// RFC 2018 section 4, RFC 2883.
    fn take_selections(&mut self, now: Instant, segment: &Segment, ack: u64, news: &mut AckNews) {
        let blocks = segment.options.sack;
        if !self.agreed.sack || blocks.as_slice().is_empty() {
            return;
        }
        let unwrap = |(start, end): (u32, u32)| {
            (
                unwrap_sequence(self.tx.una, start),
                unwrap_sequence(self.tx.una, end),
            )
        };
        let mut ranges = [(0, 0); 4];
        for (range, block) in ranges.iter_mut().zip(blocks.as_slice()) {
            *range = unwrap(*block);
        }
        let ranges = &ranges[..blocks.as_slice().len()];
        let (start, end) = ranges[0];
        let inside = ranges
            .get(1)
            .is_some_and(|next| next.0 <= start && end <= next.1);
        let ranges = if start < ack || inside {
            self.take_duplicate(now, (start, end), news);
            &ranges[1..]
        } else {
            ranges
        };
        let highest = self.board.highest_sacked();
        for (start, end) in ranges {
            if *start >= ack && start < end && *end <= self.tx.next {
                self.select(now, (*start, *end), highest, news);
            }
        }
        if let (Some(seq), Some(highest)) = (news.reordered, highest) {
            self.note_reordering(seq, highest);
            news.reordered = None;
        }
    }

    fn select(
        &mut self,
        now: Instant,
        range: (u64, u64),
        highest: Option<u64>,
        news: &mut AckNews,
    ) {
        for index in self.board.position(range.0)..self.board.queue.len() {
            if self.board.queue[index].end > range.1 {
                break;
            }
            let Some(sent) = self.board.mark_sacked(index) else {
                continue;
            };
            news.newly_sacked = true;
            self.rate.delivered += 1;
            self.rate.segment(&sent.rate, sent.sent_at);
            self.advance_rack(now, &sent);
            if sent.ever_repeated {
                continue;
            }
            news.original |= sent.end <= self.recovery.high;
            news.rtt_sacked = news.rtt_sacked.or_else(|| Some(now.since(sent.sent_at)));
            if highest.is_some_and(|highest| sent.seq < highest) {
                news.reordered = Some(news.reordered.unwrap_or(sent.seq).min(sent.seq));
            }
        }
    }

    /// RFC 8985 section 6.2 step 2: unless the timestamp shows that the original arrived, not the
    /// repetition.
    fn advance_rack(&mut self, now: Instant, sent: &Sent) {
        let stamp = self.timestamp(sent.sent_at);
        let older = |echo: u32| (echo.wrapping_sub(stamp) as i32) < 0;
        let original =
            sent.ever_repeated && self.agreed.timestamps && self.tx.echo.is_some_and(older);
        if !original {
            self.recovery.rack.advance(now, sent, self.rtt.least_ns());
        }
    }

    /// RFC 6298, with the choice of samples of RFC 7323 section 4: a segment never repeated, or
    /// what the timestamp echoes.
    fn measure(&mut self, now: Instant, segment: &Segment, news: &mut AckNews) {
        let echoes = self.profile.rto.measures_echoes && self.agreed.timestamps;
        let usable = match news.once {
            once if echoes => once == Some(true),
            _ => news.acked > 0 && (self.profile.rto.measures_repeats || !news.repetition),
        };
        let echoed = || self.echoed(now, segment).filter(|_| usable);
        let sample = if echoes {
            echoed()
        } else {
            news.rtt.or(news.rtt_sacked).or_else(echoed)
        };
        if let Some(rtt) = sample {
            self.rtt.measure(now, rtt, self.tx.una, self.tx.next);
        }
        if news.advanced {
            self.recovery.timeouts = 0;
            if self.profile.rto.progress_ends_backoff {
                self.rtt.reset_backoff();
            }
        }
        let oldest = self.board.queue.front().map(|sent| sent.sent_at);
        if !news.advanced
            && !echoes
            && let (Some(rtt), Some(oldest)) = (news.rtt_sacked, oldest)
        {
            // Selected though sent before the oldest was sent (again): the timer may wait.
            news.rearm |= rtt > now.since(oldest);
        }
    }

    /// Phases, timers and what to send again.
    fn judge(&mut self, now: Instant, ack: u64, news: &mut AckNews) {
        self.widen_reordering(news);
        if self.recovery.probe.is_some() {
            self.end_probe(ack, news);
        }
        let dubious = !(news.distinct || news.acked > 0)
            || news.newly_sacked
            || news.congestion
            || news.duplicate
            || news.miscounted
            || self.recovery.phase != Phase::Open;
        if dubious {
            let duplicates = u32::from(!news.advanced && !news.distinct && ack == self.tx.una);
            self.alert(now, duplicates, news);
        }
        if news.rearm && !self.is_impatient(news) {
            self.set_sender_timer(now);
        }
        if self.board.queue.is_empty() && self.tx.next < self.stream_end() {
            self.take_idle_ack(now);
        }
    }

    /// A partial acknowledgement, not the first, that doesn't restart the timer.
    fn is_impatient(&mut self, news: &AckNews) -> bool {
        let partial = self.profile.impatient
            && news.advanced
            && self.recovery.phase == Phase::Recovery
            && self.tx.una < self.recovery.high;
        partial && std::mem::replace(&mut self.recovery.partial, true)
    }

    /// The window: reduced step by step, or grown if it was in use.
    fn control(
        &mut self,
        now: Instant,
        news: &AckNews,
        (delivered, lost): (u32, u64),
        prior_in_flight: u32,
    ) {
        let least_ns = self.rtt.least_ns().unwrap_or(0);
        let mut sample = self.rate.sample(now, delivered.into(), least_ns);
        sample.rtt_ns = news
            .rtt_newest
            .or(news.rtt_sacked)
            .map(|rtt| rtt.as_nanos() as u64);
        (sample.lost, sample.prior_in_flight) = (lost, prior_in_flight);
        let ack = Ack {
            now,
            una: self.tx.una,
            next: self.tx.next,
            segment: self.tx.segment as u32,
            sample,
            phase: self.recovery.phase,
            in_flight: self.board.in_flight(),
            delivered: self.rate.delivered,
            smoothed_rtt_ns: self.rtt.smoothed_ns(),
        };
        self.control.measure(&ack, &mut self.window);
        if self.control.rules() {
            self.control.rule(&ack, &mut self.window);
        } else if self.recovery.reducing() {
            self.reduce(delivered, lost, news);
        } else if news.acked > 0 && self.is_window_used() {
            let limit = match self.profile.growth_limit {
                _ if self.profile.reduction == Reduction::Octets => u32::MAX,
                0 => u32::MAX,
                limit => limit,
            };
            // What selections brought before was counted when it came.
            let acked = if self.agreed.sack && !self.profile.growth_beyond_loss {
                delivered
            } else {
                news.acked
            };
            self.control.grow(&ack, acked.min(limit), &mut self.window);
        }
    }

    /// Our FIN may be acknowledged: RFC 9293 section 3.10.7.4.
    fn follow_close(&mut self, now: Instant) {
        if !self.tx.closing || self.tx.una <= self.tx.end {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.timers.linger = Some(now + self.profile.fin_wait.0);
            }
            State::Closing => self.wait_out_of_caution(now),
            State::LastAck => self.end(None),
            _ => {}
        }
    }

    /// Whether the window is what limits the sender; in slow start, half of it in use will do.
    fn is_window_used(&self) -> bool {
        if !self.profile.window_validation || self.usage.limited {
            return true;
        }
        self.window.in_slow_start() && self.window.segments < 2 * self.usage.packets
    }

    /// Notes after sending how much of the window is in use (after RFC 7661): one that isn't for
    /// a timeout shrinks half-way to what is.
    pub(super) fn note_usage(&mut self, now: Instant, limited: bool) {
        let packets = self.board.packets();
        let usage = &mut self.usage;
        let round_over = self.tx.una >= usage.round_end;
        if round_over || limited || !usage.limited && packets > usage.packets {
            *usage = Usage {
                limited,
                packets,
                round_end: self.tx.next,
                ..*usage
            };
        }
        if self.is_window_used() {
            self.usage.used = 0;
            self.usage.at = now;
            return;
        }
        self.usage.used = self.usage.used.max(packets);
        let idle = now.since(self.usage.at) >= self.rtt.rto();
        if self.profile.window_validation && idle && !self.control.rules() {
            let used = self.usage.used.max(self.profile.initial_window);
            if self.recovery.phase == Phase::Open && used < self.window.segments {
                self.window.threshold = self.remembered_threshold();
                self.window.segments = (self.window.segments + used) / 2;
            }
            self.usage.used = 0;
            self.usage.at = now;
        }
    }

    /// The threshold that the present window deserves.
    pub(super) fn remembered_threshold(&self) -> u32 {
        if self.recovery.reducing() {
            self.window.threshold
        } else {
            self.window.remembered()
        }
    }

    /// RFC 5681 section 4.1: after an idle time, the window begins anew, halved for each timeout
    /// that has passed.
    pub(super) fn restart_window(&mut self, now: Instant) {
        let idle = now.since(self.tx.sent_at);
        let rto = self.rtt.rto();
        if !self.profile.window_validation || self.control.rules() || idle <= rto {
            return;
        }
        let window = &mut self.window;
        let least = self.profile.initial_window.min(window.segments);
        let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(31) as u32;
        let threshold = if self.recovery.reducing() {
            window.threshold
        } else {
            window.remembered()
        };
        *window = Window {
            segments: (window.segments >> halvings).max(least),
            threshold,
            ..*window
        };
    }
}
