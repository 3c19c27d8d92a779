//! Segments as they come: RFC 9293 section 3.10.7, and when to acknowledge them.

use strait_core::time::{Duration, Instant};
use strait_wire::ip::TcpFlags;

use super::{Endpoint, State};
use crate::TcpError;
use crate::event::TcpEventKind;
use crate::profile::{AckPolicy, Profile};
use crate::receive::Taken;
use crate::segment::{Segment, unwrap_sequence};

/// Acknowledgements owed.
#[derive(Clone, Debug, Default)]
pub(super) struct Acks {
    /// To send at once; several for several duplicates.
    pub(super) due: u32,
    /// Before any data that the application may have to send now.
    pub(super) first: bool,
    /// Data came that isn't acknowledged.
    owed: bool,
    /// Segments since the last acknowledgement.
    segments: u32,
    /// Segments to acknowledge at once.
    quick: u32,
    /// How long an acknowledgement may wait now.
    pub(super) delay: Duration,
    /// The application answers what it gets: an acknowledgement may go with the answer.
    pub(super) interactive: bool,
    /// Segments shorter than full ones that the application hasn't read yet.
    pushed: u8,
    received_at: Option<Instant>,
    /// An acknowledgement that was due when a segment came, and doesn't know of it.
    pub(super) early: Vec<u8>,
}

impl Acks {
    /// Enough for a burst of duplicates; a driver that polls after each packet owes one at most.
    const DUE_MAX: u32 = 64;

    pub(super) fn new(profile: &Profile) -> Self {
        let mut acks = Self::default();
        if let AckPolicy::Adaptive { delay_min, .. } = profile.ack {
            acks.delay = delay_min.0;
        }
        acks
    }

    pub(super) fn forget(&mut self) {
        (self.due, self.first, self.owed) = (0, false, false);
        self.early.clear();
    }

    /// An acknowledgement goes out, with data or alone.
    pub(super) fn sent(&mut self, alone: bool) {
        self.due = if alone { self.due.saturating_sub(1) } else { 0 };
        self.first &= self.due > 0;
        self.owed = false;
        self.segments = 0;
        self.pushed = 0;
        self.quick = self.quick.saturating_sub(1);
    }

    /// Another acknowledgement to send at once.
    pub(super) fn urge(&mut self) {
        self.due = (self.due + 1).min(Self::DUE_MAX);
    }
}

/// Quiet times after which a timestamp is too old to judge by: RFC 7323 section 5.5.
const TIMESTAMP_LASTS: Duration = Duration::from_secs(24 * 86_400);

impl Endpoint {
    pub(super) fn receive(&mut self, now: Instant, segment: &Segment) {
        match self.state {
            State::Closed => {}
            State::Listen => self.receive_listening(now, segment),
            State::SynSent => self.receive_connecting(now, segment),
            State::SynReceived => {
                if self.receive_answered(now, segment) {
                    self.receive_open(now, segment);
                }
            }
            State::TimeWait => self.receive_waiting(now, segment),
            _ => self.receive_open(now, segment),
        }
    }

    fn receive_open(&mut self, now: Instant, segment: &Segment) {
        let seq = unwrap_sequence(self.rx.next, segment.seq);
        if !self.is_valid(now, segment, seq) {
            return;
        }
        let had_unsent = self.tx.next < self.stream_end();
        let due = self.acks.due;
        self.heard(now);
        if !self.take_ack(now, segment, seq) || self.state == State::Closed {
            return;
        }
        self.note_congestion(segment);
        if !segment.payload.is_empty() {
            self.take_data(now, segment, seq);
        }
        self.take_fin(now, segment, seq);
        let adaptive = matches!(self.profile.ack, AckPolicy::Adaptive { .. });
        if adaptive || !segment.has(TcpFlags::FIN) || !self.rx.ended {
            // Whatever there is to say of a segment, one acknowledgement says it. (Network
            // simulators answer the end of a stream apart from what came with it in order.)
            self.acks.due = self.acks.due.min(due + 1);
        }
        self.acks.first |= self.acks.due > 0 && !had_unsent;
    }

    /// RFC 9293 section 3.10.7.4, first to fifth; RFC 7323 section 5.3; RFC 5961.
    fn is_valid(&mut self, now: Instant, segment: &Segment, seq: u64) -> bool {
        let reset = segment.has(TcpFlags::RST);
        if !reset && self.is_old_duplicate(now, segment) {
            self.note_came(now, seq, TcpEventKind::Stale);
            self.answer_strange(now, segment, seq);
            return false;
        }
        let end = seq + segment.length();
        let edge = self.rx.edge.max(self.rx.next);
        if end < self.rx.acked.min(self.rx.next) || seq > edge {
            if !reset {
                self.note_strange(now, segment, seq);
                self.answer_strange(now, segment, seq);
            }
            return false;
        }
        if reset {
            if seq == self.rx.next {
                // Both ends have closed; but what wasn't acknowledged may be lost.
                let closed = matches!(self.state, State::LastAck | State::Closing);
                let orderly = closed && self.tx.una >= self.tx.end;
                self.note_reset(now);
                self.end((!orderly).then_some(TcpError::Reset));
            } else {
                self.challenge(now);
            }
            return false;
        }
        if segment.has(TcpFlags::SYN) {
            self.challenge(now);
            return false;
        }
        segment.has(TcpFlags::ACK)
    }

    /// Protection against wrapped sequence numbers.
    fn is_old_duplicate(&self, now: Instant, segment: &Segment) -> bool {
        let stamps = segment.options.timestamps.zip(self.timestamp_recent);
        let Some(((value, _), (recent, at))) = stamps.filter(|_| self.agreed.timestamps) else {
            return false;
        };
        (value.wrapping_sub(recent) as i32) < 0 && now.since(at) < TIMESTAMP_LASTS
    }

    /// Answers a segment that can't be right, if it isn't one answer too many: with data, it is
    /// a repetition whose acknowledgement was lost.
    fn answer_strange(&mut self, now: Instant, segment: &Segment, seq: u64) {
        if segment.payload.is_empty() || segment.has(TcpFlags::SYN) {
            return self.challenge(now);
        }
        if seq < self.rx.next {
            let end = (seq + segment.payload.len() as u64).min(self.rx.next);
            self.rx.note_duplicate(seq, end);
        }
        self.quicken();
        self.acks.urge();
    }

    /// RFC 5961 sections 3 … 7: an acknowledgement, but not too often.
    pub(super) fn challenge(&mut self, now: Instant) {
        let interval = self.profile.challenge_interval.0;
        if self
            .challenged_at
            .is_none_or(|at| now.since(at) >= interval)
        {
            self.challenged_at = Some(now);
            self.acks.urge();
        }
    }

    /// RFC 7323 section 4.3: the timestamp to echo is that of the segment that begins at or
    /// before the last acknowledgement sent.
    pub(super) fn note_timestamp(&mut self, now: Instant, segment: &Segment, seq: u64) {
        if let Some((value, _)) = segment
            .options
            .timestamps
            .filter(|_| self.agreed.timestamps)
            && seq <= self.rx.acked
            && !self.is_old_duplicate(now, segment)
        {
            self.timestamp_recent = Some((value, now));
        }
    }

    fn note_congestion(&mut self, segment: &Segment) {
        if !self.agreed.ecn {
            return;
        }
        if segment.has(TcpFlags::CWR) {
            self.ecn.echo = false;
        }
        if segment.congested && !segment.payload.is_empty() {
            self.ecn.echo = true;
            self.quicken();
        }
    }

    fn take_data(&mut self, now: Instant, segment: &Segment, seq: u64) {
        if self.rx.ended {
            // Again, or beyond its own end.
            self.note_strange(now, segment, seq);
            return self.challenge(now);
        }
        let data = match self.rx.fin {
            Some(fin) => {
                let most = fin.saturating_sub(seq).min(segment.payload.len() as u64);
                &segment.payload[..most as usize]
            }
            None => segment.payload,
        };
        let had_gap = self.rx.has_gap();
        let highest = self.rx.highest();
        let taken = self.rx.put(seq, data);
        self.note_order(now, seq, highest, taken);
        match taken {
            Taken::InOrder => {
                self.note_arrival(now, segment);
                if had_gap {
                    // RFC 5681 section 4.2: a gap was filled, in part or whole.
                    self.acks.urge();
                } else {
                    self.judge_ack(now);
                }
            }
            Taken::Waiting => {
                self.note_arrival(now, segment);
                if self.profile.autotuning {
                    self.rx.grow_buffer(0);
                }
                self.acks.urge();
            }
            Taken::Duplicate | Taken::Refused => {
                self.quicken();
                self.acks.urge();
            }
        }
        if !self.profile.options.dsack || !self.agreed.sack {
            self.rx.forget_duplicate();
        }
    }

    fn note_order(&mut self, now: Instant, seq: u64, highest: u64, taken: Taken) {
        let kind = match taken {
            Taken::Duplicate => TcpEventKind::Duplicate,
            Taken::Refused => TcpEventKind::Refused,
            Taken::InOrder | Taken::Waiting if seq > highest => TcpEventKind::Gap,
            Taken::InOrder | Taken::Waiting if seq < highest => TcpEventKind::Late,
            Taken::InOrder | Taken::Waiting => return,
        };
        self.note_came(now, seq, kind);
    }

    /// A segment outside the window, if it isn't a mere acknowledgement.
    fn note_strange(&mut self, now: Instant, segment: &Segment, seq: u64) {
        if segment.length() == 0 {
            return;
        }
        let kind = if seq < self.rx.next {
            TcpEventKind::Duplicate
        } else {
            TcpEventKind::Refused
        };
        self.note_came(now, seq, kind);
    }

    pub(super) fn note_reset(&mut self, now: Instant) {
        self.note_came(now, self.rx.next, TcpEventKind::ResetMet);
    }

    /// Notes what happened at `seq` of the other end's stream.
    pub(super) fn note_came(&mut self, now: Instant, seq: u64, kind: TcpEventKind) {
        self.events.note(now, self.rx.position(seq), kind);
    }

    fn take_fin(&mut self, now: Instant, segment: &Segment, seq: u64) {
        if segment.has(TcpFlags::FIN) && !self.rx.ended {
            let at = seq + segment.payload.len() as u64;
            let known = self.rx.fin.is_some();
            if segment.payload.is_empty() && known {
                self.note_came(now, at, TcpEventKind::Duplicate);
            } else if segment.payload.is_empty() && at > self.rx.highest() {
                self.note_came(now, at, TcpEventKind::Gap);
            }
            if !known && at >= self.rx.next && at <= self.rx.edge.max(self.rx.next) {
                self.rx.fin = Some(at);
            }
            if self.rx.fin.is_some() && self.rx.fin != Some(self.rx.next) {
                self.acks.urge();
            }
        } else if segment.has(TcpFlags::FIN) {
            if segment.payload.is_empty() {
                self.note_strange(now, segment, seq);
            }
            self.acks.urge();
        }
        if self.rx.ended || self.rx.fin != Some(self.rx.next) {
            return;
        }
        self.rx.ended = true;
        self.rx.next += 1;
        self.acks.urge();
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.wait_out_of_caution(now),
            _ => {}
        }
    }

    /// RFC 9293 section 3.10.7.4 for TIME-WAIT. An exact reset ends it, as in Linux without
    /// `tcp_rfc1337`: a client whose clock began anew would find the port shut, else.
    fn receive_waiting(&mut self, now: Instant, segment: &Segment) {
        let seq = unwrap_sequence(self.rx.next, segment.seq);
        if segment.has(TcpFlags::RST) {
            if seq == self.rx.next && !self.is_old_duplicate(now, segment) {
                self.end(None);
            }
            return;
        }
        self.note_strange(now, segment, seq);
        if segment.has(TcpFlags::FIN) && seq + segment.length() <= self.rx.next {
            self.wait_out_of_caution(now);
            self.acks.urge();
        } else if segment.length() > 0 {
            self.challenge(now);
        }
    }

    /// Acknowledges the first segments at once.
    pub(super) fn begin_acks(&mut self) {
        if let AckPolicy::Adaptive { quick, .. } = self.profile.ack {
            let window = self.rx.capacity.min(self.rx.open);
            let half = (window / (2 * self.rx.segment_octets.max(1))).max(2) as u32;
            self.acks.quick = half.min(quick);
        }
    }

    /// Acknowledges some segments at once again: something is out of order, or began anew.
    fn quicken(&mut self) {
        if let AckPolicy::Adaptive { delay_min, .. } = self.profile.ack {
            self.begin_acks();
            self.acks.interactive = false;
            self.acks.delay = delay_min.0;
        }
    }

    /// Learns from the size of a segment with data and from the gap before it.
    fn note_arrival(&mut self, now: Instant, segment: &Segment) {
        let octets = segment.payload.len();
        if octets >= self.rx.segment_octets {
            self.rx.segment_octets = octets.min(self.full_segment());
        } else {
            self.acks.pushed = self.acks.pushed.saturating_add(1);
        }
        let rtt = self
            .echoed(now, segment)
            .filter(|_| octets >= self.rx.segment_octets);
        self.rx.clock(now, rtt);
        if octets >= self.rx.segment_octets / 2 {
            self.rx.grow_window();
        }
        self.acks.owed = true;
        self.acks.segments += 1;
        let last = self.acks.received_at.replace(now);
        let AckPolicy::Adaptive { delay_min, .. } = self.profile.ack else {
            return;
        };
        let Some(last) = last else {
            self.begin_acks();
            self.acks.delay = delay_min.0;
            return;
        };
        let gap = now.since(last);
        let delay = self.acks.delay;
        if gap <= delay_min.0 / 2 {
            self.acks.delay = delay / 2 + delay_min.0 / 2;
        } else if gap < delay {
            self.acks.delay = (delay / 2 + gap).min(self.rtt.rto());
        } else if gap > self.rtt.rto() {
            // The sender has begun anew.
            self.begin_acks();
        }
    }

    /// Data came in order: acknowledge now or later.
    fn judge_ack(&mut self, now: Instant) {
        match self.profile.ack {
            AckPolicy::Every {
                segments, delay, ..
            } => {
                if self.acks.segments >= segments {
                    self.acks.urge();
                } else if self.timers.ack.is_none() {
                    let delay = self.config.ack_delay.unwrap_or(delay.0);
                    self.timers.ack = Some(now + delay.max(Duration::from_nanos(1)));
                }
            }
            AckPolicy::Adaptive {
                delay_min,
                delay_max,
                ..
            } => {
                let many = self.rx.next - self.rx.acked > self.rx.segment_octets as u64;
                if many || self.acks.quick > 0 && !self.acks.interactive {
                    self.acks.urge();
                } else {
                    self.delay_ack(now, delay_min.0, delay_max.0);
                }
            }
        }
    }

    fn delay_ack(&mut self, now: Instant, delay_min: Duration, delay_max: Duration) {
        let (delay_min, delay_max) = match self.config.ack_delay {
            Some(delay) => (delay, delay),
            None => (delay_min, delay_max),
        };
        let mut delay = self.acks.delay.max(delay_min);
        if delay > delay_min {
            let mut most = delay_max;
            if self.rtt.smoothed_ns() > 0 {
                most = most.min(Duration::from_nanos(self.rtt.smoothed_ns()).max(delay_min));
            }
            delay = delay.min(most);
        }
        delay = delay.min(delay_max).max(Duration::from_nanos(1));
        match self.timers.ack {
            // A delay of old that is nearly over: now.
            Some(at) if at <= now + delay / 4 => self.acks.urge(),
            Some(at) => self.timers.ack = Some(at.min(now + delay)),
            None => self.timers.ack = Some(now + delay),
        }
    }

    /// The application took octets: tell of the window, or acknowledge what it waited for.
    pub(super) fn after_read(&mut self) {
        if !self.is_synchronised() || self.rx.ended {
            return;
        }
        self.tx.read = true;
        let many = self.rx.next - self.rx.acked > self.rx.segment_octets as u64;
        let short = self.acks.pushed > 1 || self.acks.pushed == 1 && !self.acks.interactive;
        let adaptive = matches!(self.profile.ack, AckPolicy::Adaptive { .. });
        let owed = adaptive && self.acks.owed && (many || short && self.rx.unread() == 0);
        if self.acks.due == 0 && (owed || self.rx.window_opened()) {
            self.acks.urge();
            self.acks.first = true;
        }
    }

    /// Data goes out soon after data came: the application answers.
    pub(super) fn note_answer(&mut self, now: Instant) {
        let soon = |at| now.since(at) < self.acks.delay;
        if self.acks.received_at.is_some_and(soon) {
            self.acks.interactive = true;
        }
    }
}
