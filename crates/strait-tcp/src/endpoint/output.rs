//! What goes out, and when.

use strait_core::time::{Duration, Instant};
use strait_wire::ip::TcpFlags;

use super::timers::Alarm;
use super::{Endpoint, State};
use crate::event::TcpEventKind;
use crate::recovery::Phase;
use crate::ring::Ring;
use crate::scoreboard::Sent;
use crate::segment::{Options, Outgoing, SackBlocks};

/// The sending side: the octets not yet acknowledged, and what is to be done.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) ring: Ring,
    /// The oldest sequence number not acknowledged, the next to send, and the end of the octets
    /// that were taken from the application.
    pub(super) una: u64,
    pub(super) next: u64,
    pub(super) end: u64,
    /// A FIN follows the octets.
    pub(super) closing: bool,
    /// The other end's window, the widest so far, and the segment that told it.
    pub(super) window: u64,
    pub(super) window_max: u64,
    pub(super) window_from: u64,
    /// The other end's largest segment, and what a segment of ours carries now.
    pub(super) peer_segment: usize,
    pub(super) segment: usize,
    /// The end of the last small segment (Nagle).
    small_end: u64,
    /// When data was last sent.
    pub(super) sent_at: Instant,
    /// The timestamp that the last acknowledgement echoed.
    pub(super) echo: Option<u32>,
    pub(super) handshake_due: bool,
    pub(super) handshake_at: Option<Instant>,
    pub(super) handshake_sent: u32,
    /// The oldest segment goes again whatever the window says.
    pub(super) repeat_head: bool,
    /// Lost segments may go again.
    pub(super) may_repeat: bool,
    /// F-RTO: new data only, until the next acknowledgement.
    pub(super) try_new: bool,
    /// A loss probe is due.
    pub(super) tail_due: bool,
    /// A probe of the window or of the other end's life is due.
    pub(super) probe_due: bool,
    pub(super) window_probes: u32,
    pub(super) probing_since: Option<Instant>,
    pub(super) life_probes: u32,
    /// The application has read something.
    pub(super) read: bool,
    /// Something was sent since the use of the window was noted.
    sent: bool,
    /// Pacing: when the next packet may go.
    next_at: Instant,
}

impl Sender {
    pub(super) fn new(initial: u64) -> Self {
        Self {
            ring: Ring::default(),
            una: initial,
            next: initial,
            end: initial + 1,
            closing: false,
            window: 0,
            window_max: 0,
            window_from: 0,
            peer_segment: 536,
            segment: 536,
            small_end: initial,
            sent_at: Instant::ZERO,
            echo: None,
            handshake_due: false,
            handshake_at: None,
            handshake_sent: 0,
            repeat_head: false,
            may_repeat: false,
            try_new: false,
            tail_due: false,
            probe_due: false,
            window_probes: 0,
            probing_since: None,
            life_probes: 0,
            read: false,
            sent: false,
            next_at: Instant::ZERO,
        }
    }

    /// Nothing is to be sent any more.
    pub(super) const fn forget(&mut self) {
        self.handshake_due = false;
        self.repeat_head = false;
        self.may_repeat = false;
        self.tail_due = false;
        self.probe_due = false;
    }

    /// Octets taken and not acknowledged.
    pub(super) fn held(&self) -> usize {
        self.end.saturating_sub(self.una) as usize
    }

    pub(super) fn queue(&mut self, octets: &[u8]) -> usize {
        let held = self.held();
        self.ring.write(held, octets, held);
        self.end += octets.len() as u64;
        octets.len()
    }

    pub(super) fn acknowledged(&mut self, ack: u64) {
        let octets = ack.min(self.end).saturating_sub(self.una.min(self.end));
        self.ring.consume(octets as usize);
        self.una = ack;
    }
}

/// The least that a send buffer has. Kernel: `tcp_wmem`'s middle value.
const SEND_BUFFER_MIN: usize = 16_384;

impl Endpoint {
    /// Octets that the application may add: with autotuning, the buffer holds two windows.
    pub(super) fn send_room(&self) -> usize {
        let mut most = self.config.send_octets;
        if self.profile.autotuning {
            let window = self.window.segments.max(self.profile.initial_window) as usize;
            most = most.min((2 * window * self.tx.segment).max(SEND_BUFFER_MIN));
        }
        most.saturating_sub(self.tx.held())
    }

    /// The sequence number behind everything that is to be sent, the FIN included.
    pub(super) fn stream_end(&self) -> u64 {
        self.tx.end + u64::from(self.tx.closing)
    }

    /// What a segment carries: what the path and the other end take, without options that are in
    /// every segment, and no more than half of the widest window (RFC 9293 section 3.8.6.2.1).
    pub(super) fn choose_segment(&mut self) {
        let options = if self.agreed.timestamps { 12 } else { 0 };
        let full = self.full_segment().min(self.tx.peer_segment);
        let mut octets = full.saturating_sub(options).max(1);
        let widest = self.tx.window_max as usize;
        if widest > 0 {
            let most = if widest > 536 { widest / 2 } else { widest };
            octets = octets.min(most.max(Self::SEGMENT_MIN.min(widest)));
        }
        self.tx.segment = octets;
    }

    /// Learns that packets above so many octets don't pass: RFC 1191 section 6.3, RFC 8201
    /// section 4. What is too long counts as lost, but not because of congestion.
    pub(super) fn narrow(&mut self, now: Instant, octets: u32) {
        let ipv4 = self.config.local.is_ipv4();
        if !self.profile.path_mtu.discovery && ipv4 {
            return;
        }
        let least = if ipv4 {
            self.profile.path_mtu.min_v4
        } else {
            1280
        };
        if octets < least {
            if !ipv4 {
                return;
            }
            self.may_fragment = true;
        }
        let octets = octets.max(least.min(self.config.mtu));
        if octets >= self.path_mtu {
            return;
        }
        self.path_mtu = octets;
        self.choose_segment();
        if !self.is_synchronised() {
            return;
        }
        let most = self.tx.segment as u64;
        let mut news = false;
        for index in 0..self.board.queue.len() {
            let sent = self.board.queue[index];
            if sent.end - sent.seq > most + 1 {
                news |= self.board.mark_lost(index);
            }
        }
        if !news {
            return;
        }
        if !self.agreed.sack {
            self.limit_duplicates();
        }
        if self.recovery.phase != Phase::Loss {
            self.recovery.high = self.tx.next;
            self.window.threshold = self.remembered_threshold();
            self.recovery.prior_threshold = 0;
            self.recovery.undo_from = None;
            self.recovery.frto = false;
            self.recovery.phase = Phase::Loss;
            self.recovery.narrowed = true;
        }
        self.tx.may_repeat = true;
        self.arm_retransmit(now);
    }

    pub(super) fn next_ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }

    /// Writes the next packet, if there is one.
    pub(super) fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if let Some((seq, ack)) = self.reset.take() {
            self.write_reset(now, seq, ack, out);
            return true;
        }
        if self.tx.handshake_due {
            self.write_handshake(now, out);
            return true;
        }
        if std::mem::take(&mut self.tx.read) && self.profile.autotuning {
            self.rx.tune(now);
        }
        if !self.is_synchronised() {
            return self.acks.due > 0 && self.state == State::SynReceived && {
                self.write_ack(now, out);
                true
            };
        }
        if self.acks.due > 0 && self.acks.first {
            self.write_ack(now, out);
            return true;
        }
        if self.transmit_data(now, out) {
            return true;
        }
        if std::mem::take(&mut self.tx.probe_due) {
            self.write_probe(now, out);
            return true;
        }
        if self.acks.due > 0 {
            self.write_ack(now, out);
            return true;
        }
        false
    }

    fn transmit_data(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.state == State::TimeWait {
            return false;
        }
        let why = self.why_repeated();
        if std::mem::take(&mut self.tx.repeat_head) && self.repeat(now, 0, why, out) {
            return true;
        }
        if std::mem::take(&mut self.tx.tail_due) && self.transmit_probe(now, out) {
            return true;
        }
        if self.is_paced(now) {
            return false;
        }
        let mut limited = self.board.in_flight() >= self.window.segments;
        if self.tx.may_repeat && !self.tx.try_new && !limited {
            let index = self.board.next_lost();
            if index.is_some_and(|index| self.repeat(now, index, why, out)) {
                return true;
            }
        }
        let fits = !limited || self.is_lone_fin();
        if fits && self.transmit_new(now, out) {
            return true;
        }
        if self.tx.try_new {
            self.end_try();
            return self.transmit_data(now, out);
        }
        limited |= self.board.in_flight() >= self.window.segments;
        self.after_burst(now, limited);
        false
    }

    /// F-RTO could send nothing new: the usual recovery goes on.
    fn end_try(&mut self) {
        self.tx.try_new = false;
        self.tx.may_repeat = self.tx.next <= self.recovery.high;
        self.recovery.frto &= !self.tx.may_repeat;
    }

    /// Nothing more goes now.
    fn after_burst(&mut self, now: Instant, limited: bool) {
        let sent = std::mem::take(&mut self.tx.sent);
        if sent || limited {
            self.note_usage(now, limited);
        }
        let nothing = self.tx.next >= self.tx.end && self.board.lost <= self.board.repeated;
        if nothing && !limited {
            self.rate.limit(self.board.in_flight());
        }
        self.watch_window(now);
    }

    /// Spreads packets over the round trip, if congestion control says so.
    fn is_paced(&mut self, now: Instant) -> bool {
        if self.tx.next_at <= now {
            return false;
        }
        let waits = self.tx.next < self.stream_end() || self.board.lost > 0;
        if waits && self.board.in_flight() < self.window.segments {
            self.timers.pace = Some(self.tx.next_at);
        }
        true
    }

    fn pace(&mut self, now: Instant, octets: usize) {
        if let Some(rate) = self.control.pacing(self.rtt.smoothed_ns(), octets as u32) {
            // Each packet waits for the time that it takes itself.
            let ns = octets as f64 / rate.max(1e-3) * 1e9;
            self.tx.next_at = self.tx.next_at.max(now) + Duration::from_nanos(ns as u64);
        }
    }

    fn is_lone_fin(&self) -> bool {
        self.tx.closing && self.tx.next == self.tx.end
    }

    /// The end of the segment that would go next, the FIN included.
    pub(super) fn next_segment_end(&self) -> u64 {
        let data = self
            .tx
            .end
            .saturating_sub(self.tx.next)
            .min(self.tx.segment as u64);
        let end = self.tx.next + data;
        end + u64::from(self.tx.closing && end == self.tx.end)
    }

    /// New data, if Nagle and the other end's window allow.
    fn transmit_new(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.tx.next >= self.stream_end() || self.is_crowded() {
            return false;
        }
        if self.board.queue.is_empty() {
            self.restart_window(now);
            let app_limited = self.tx.held() == 0;
            self.control.resumed(now, self.tx.sent_at, app_limited);
        }
        let end = self.fitting_end();
        let window_end = self.tx.una + self.tx.window;
        if end > window_end || self.is_held_back(end) {
            return false;
        }
        self.send_new(now, end, out);
        true
    }

    /// Limited transmit (RFC 3042) not granted: nothing new while duplicates come; and segments
    /// under way have a limit of memory too.
    fn is_crowded(&self) -> bool {
        let disorder = self.recovery.phase == Phase::Disorder && self.board.sacked > 0;
        let many = self.board.queue.len() >= self.config.send_octets / 16 + 64;
        many || disorder && !self.profile.limited_transmit
    }

    /// The next segment's end: without the FIN if only the octets fit in the window.
    fn fitting_end(&self) -> u64 {
        let end = self.segment_end_with_options();
        let window_end = self.tx.una + self.tx.window;
        if end > self.tx.end && end > window_end && self.tx.next < self.tx.end {
            self.tx.end
        } else {
            end
        }
    }

    /// As [`Self::next_segment_end`], with the room that selections to tell of take.
    fn segment_end_with_options(&self) -> u64 {
        let blocks = self.sack_room(self.rx.sack_count());
        let options = if blocks > 0 { 4 + 8 * blocks as u64 } else { 0 };
        let room = (self.tx.segment as u64).saturating_sub(options).max(1);
        let data = self.tx.end.saturating_sub(self.tx.next).min(room);
        let end = self.tx.next + data;
        end + u64::from(self.tx.closing && end == self.tx.end)
    }

    /// Nagle's algorithm: RFC 9293 section 3.7.4.
    fn is_held_back(&self, end: u64) -> bool {
        let small = end - self.tx.next < self.tx.segment as u64 && end == self.tx.end;
        if !self.config.nagle || !small || self.tx.closing || self.board.queue.is_empty() {
            return false;
        }
        !self.profile.nagle_minshall || self.tx.small_end > self.tx.una
    }

    fn send_new(&mut self, now: Instant, end: u64, out: &mut Vec<u8>) {
        let seq = self.tx.next;
        let idle = self.board.queue.is_empty();
        self.note_answer(now);
        self.write_data(now, (seq, end), true, out);
        if end == self.tx.una + self.tx.window && end <= self.tx.end {
            self.note_sent(now, seq, TcpEventKind::WindowFull);
        }
        if end - seq < self.tx.segment as u64 {
            self.tx.small_end = end;
        }
        let rate = self.rate.sent(now, idle);
        self.board.queue.push_back(Sent {
            seq,
            end,
            sent_at: now,
            sacked: false,
            lost: false,
            repeated: false,
            ever_repeated: false,
            rate,
        });
        self.tx.next = end;
        self.tx.sent = true;
        self.recovery.sent += u32::from(self.recovery.reducing());
        if idle || self.timers.is(Alarm::Probe) {
            self.rearm_retransmit(now);
        }
        self.schedule_probe(now, false);
        self.pace(now, out.len());
    }

    /// Sends a segment again; false if it lies outside the window.
    fn repeat(&mut self, now: Instant, index: usize, why: TcpEventKind, out: &mut Vec<u8>) -> bool {
        let most = self.tx.segment as u64;
        let window_end = self.tx.una + self.tx.window;
        let Some(sent) = self.board.queue.get(index).copied() else {
            return false;
        };
        if sent.seq >= window_end && sent.seq != self.tx.una {
            return false;
        }
        let fin = u64::from(sent.end > self.tx.end);
        if sent.end - sent.seq - fin > most {
            self.board.split(index, most);
        }
        let end = self.board.queue[index].end;
        self.write_data(now, (sent.seq, end), false, out);
        self.note_sent(now, sent.seq, why);
        let rate = self.rate.sent(now, false);
        self.board.mark_repeated(index, now, rate);
        let stamp = self.timestamp(now);
        self.recovery.repeated_at.get_or_insert((now, stamp));
        if let Some(repeats) = &mut self.recovery.undo_repeats {
            *repeats += 1;
        } else {
            self.recovery.undo_repeats = Some(1);
        }
        self.recovery.sent += u32::from(self.recovery.reducing());
        self.tx.sent = true;
        self.restart_timer(now, index);
        self.pace(now, out.len());
        true
    }

    /// Why a segment goes again in this phase.
    const fn why_repeated(&self) -> TcpEventKind {
        match self.recovery.phase {
            Phase::Loss if self.recovery.narrowed => TcpEventKind::RepeatedPathMtu,
            Phase::Loss => TcpEventKind::RepeatedTimeout,
            _ => TcpEventKind::RepeatedLoss,
        }
    }

    /// The oldest segment went again.
    fn restart_timer(&mut self, now: Instant, index: usize) {
        let restarts = self.profile.rto.repeat_restarts || self.timers.sender.is_none();
        if index == 0 && restarts && !self.timers.is(Alarm::Reorder) {
            self.arm_retransmit(now);
        }
    }

    /// The probe at the tail: RFC 8985 section 7.3.
    fn transmit_probe(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let end = self.fitting_end();
        let new = self.tx.next < self.stream_end() && end <= self.tx.una + self.tx.window;
        if new {
            self.send_new(now, end, out);
        } else {
            let last = self.board.queue.len().saturating_sub(1);
            if !self.repeat(now, last, TcpEventKind::RepeatedProbe, out) {
                return false;
            }
        }
        self.recovery.probe = Some((self.tx.next, !new));
        self.rearm_retransmit(now);
        true
    }

    /// A zero-window or keep-alive probe. With something in the window, that goes; else an
    /// acknowledgement with a number that the other end has had, which makes it answer.
    fn write_probe(&mut self, now: Instant, out: &mut Vec<u8>) {
        let window_end = self.tx.una + self.tx.window;
        let idle = self.board.queue.is_empty();
        if idle && self.tx.next < self.stream_end() && self.tx.next < window_end {
            let end = self.segment_end_with_options().min(window_end);
            return self.send_new(now, end, out);
        }
        let seq = self.tx.una.saturating_sub(1);
        let asks_for_room = self.tx.next < self.stream_end();
        let kind = if asks_for_room {
            TcpEventKind::WindowProbe
        } else {
            TcpEventKind::KeepAlive
        };
        self.note_sent(now, seq, kind);
        self.write(now, seq, TcpFlags::ACK, None, false, out);
    }

    pub(super) fn write_ack(&mut self, now: Instant, out: &mut Vec<u8>) {
        // Before the connection opens, the SYN is still to be acknowledged.
        let next = match self.state {
            State::SynReceived => self.initial + 1,
            _ => self.tx.next,
        };
        self.write(now, next, TcpFlags::ACK, None, false, out);
    }

    fn write_data(&mut self, now: Instant, (seq, end): (u64, u64), new: bool, out: &mut Vec<u8>) {
        let mut flags = TcpFlags::ACK;
        let data_end = end.min(self.tx.end);
        if end > self.tx.end {
            flags = flags | TcpFlags::FIN;
        }
        if data_end == self.tx.end && data_end > seq {
            flags = flags | TcpFlags::PSH;
        }
        if new && self.ecn.reduced && data_end > seq {
            self.ecn.reduced = false;
            flags = flags | TcpFlags::CWR;
        }
        if new {
            self.tx.sent_at = now;
        }
        // RFC 3168 section 6.1.5: repetitions aren't ECN capable.
        let capable = new && self.agreed.ecn && data_end > seq;
        self.write(now, seq, flags, Some((seq, data_end)), capable, out);
    }

    /// Ranges of selective acknowledgement that fit beside timestamps, at most `wanted`.
    fn sack_room(&self, wanted: usize) -> usize {
        if !self.agreed.sack {
            return 0;
        }
        wanted.min(if self.agreed.timestamps { 3 } else { 4 })
    }

    fn write(
        &mut self,
        now: Instant,
        seq: u64,
        mut flags: TcpFlags,
        data: Option<(u64, u64)>,
        ecn_capable: bool,
        out: &mut Vec<u8>,
    ) {
        let sack = match self.sack_room(self.rx.sack_count()) {
            0 => SackBlocks::default(),
            room => {
                if self.rx.has_duplicate() {
                    self.note_sent(now, seq, TcpEventKind::DuplicateTold);
                }
                self.rx.sack_blocks(room)
            }
        };
        let echo = self.timestamp_recent.map_or(0, |(value, _)| value);
        let options = Options {
            timestamps: self.agreed.timestamps.then(|| (self.timestamp(now), echo)),
            sack,
            ..Options::default()
        };
        if self.ecn.echo {
            flags = flags | TcpFlags::ECE;
        }
        let window = self.rx.window();
        if window == 0 {
            self.note_sent(now, seq, TcpEventKind::ZeroWindow);
        } else if data.is_none() && seq == self.tx.next && self.rx.repeats(window) {
            self.note_sent(now, seq, TcpEventKind::DuplicateAck);
        }
        self.rx.tell(window);
        self.timers.ack = None;
        let alone = data.is_none();
        self.acks.sent(alone);
        let outgoing = Outgoing {
            seq: seq as u32,
            ack: self.rx.next as u32,
            flags,
            window: (window >> self.rx.scale).min(65_535) as u16,
            options,
            ecn_capable,
            dont_fragment: !self.may_fragment,
            ident: self.next_ident(),
        };
        let (from, to) = data.unwrap_or((seq, seq));
        self.meter.sent(outgoing.seq, flags, (to - from) as u32);
        let (ends, una, ring) = (self.ends(), self.tx.una, &self.tx.ring);
        outgoing.write(ends, out, |out| {
            ring.read(
                (from.saturating_sub(una)) as usize,
                (to - from) as usize,
                out,
            );
        });
    }

    fn write_reset(&mut self, now: Instant, seq: u32, ack: Option<u32>, out: &mut Vec<u8>) {
        let flags = match ack {
            Some(_) => TcpFlags::RST | TcpFlags::ACK,
            None => TcpFlags::RST,
        };
        let outgoing = Outgoing {
            seq,
            ack: ack.unwrap_or(0),
            flags,
            window: 0,
            options: Options::default(),
            ecn_capable: false,
            dont_fragment: !self.may_fragment,
            ident: self.next_ident(),
        };
        self.meter.sent(seq, flags, 0);
        self.note_sent(now, self.tx.next, TcpEventKind::ResetSent);
        outgoing.write(self.ends(), out, |_| {});
    }
}
