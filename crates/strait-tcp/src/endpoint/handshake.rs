//! Opening a connection: RFC 9293 section 3.5, from either end or from both.

use strait_core::time::{Duration, Instant};
use strait_wire::ip::TcpFlags;

use super::{Endpoint, State};
use crate::TcpError;
use crate::event::TcpEventKind;
use crate::segment::SEQUENCE_BASE;
use crate::segment::{Options, Outgoing, Segment, unwrap_sequence};

impl Endpoint {
    pub(super) fn begin_handshake(&mut self, now: Instant) {
        self.tx.handshake_due = true;
        self.tx.handshake_at = Some(now);
        self.arm_retransmit(now);
    }

    /// Writes the SYN, or its answer.
    pub(super) fn write_handshake(&mut self, now: Instant, out: &mut Vec<u8>) {
        self.tx.handshake_due = false;
        if self.tx.handshake_sent > 0 {
            self.note_sent(now, self.initial, TcpEventKind::RepeatedHandshake);
        }
        self.tx.handshake_sent += 1;
        let answer = self.state == State::SynReceived;
        let (asks, takes) = (
            self.profile.options.ecn_asks || self.config.ecn,
            self.agreed.ecn,
        );
        let mut flags = TcpFlags::SYN;
        if answer {
            flags = flags | TcpFlags::ACK;
            if takes {
                flags = flags | TcpFlags::ECE;
            }
        } else if asks {
            flags = flags | TcpFlags::ECE | TcpFlags::CWR;
        }
        let scaling = if answer {
            self.agreed.scaling
        } else {
            self.profile.options.window_scaling
        };
        let timestamps = if answer {
            self.agreed.timestamps
        } else {
            self.profile.options.timestamps
        };
        let echo = self.timestamp_recent.map_or(0, |(value, _)| value);
        let options = Options {
            mss: Some(self.full_segment().min(65_535) as u16),
            window_scale: scaling.then_some(self.rx.scale),
            sack_permitted: if answer {
                self.agreed.sack
            } else {
                self.profile.options.sack
            },
            timestamps: timestamps.then(|| (self.timestamp(now), echo)),
            ..Options::default()
        };
        let window = self.handshake_window();
        let outgoing = Outgoing {
            seq: self.initial as u32,
            ack: if answer { self.rx.next as u32 } else { 0 },
            flags,
            window,
            options,
            ecn_capable: false,
            dont_fragment: !self.may_fragment,
            ident: self.next_ident(),
        };
        self.meter.sent(outgoing.seq, flags, 0);
        outgoing.write(self.ends(), out, |_| {});
    }

    /// RFC 7323 section 2.2: the window of a SYN is never scaled. Whole segments, as far as the
    /// first window goes.
    fn handshake_window(&mut self) -> u16 {
        let segment = self.full_segment();
        let free = self.rx.capacity.min(self.rx.open).min(65_535);
        let window = if free > segment {
            free - free % segment
        } else {
            free
        };
        self.rx.edge = self.rx.edge.max(self.rx.next + window as u64);
        if self.profile.autotuning {
            self.rx.open = self.rx.open.min(window);
        }
        window as u16
    }

    /// A segment in LISTEN: RFC 9293 section 3.10.7.2.
    pub(super) fn receive_listening(&mut self, now: Instant, segment: &Segment) {
        if segment.has(TcpFlags::RST) {
            return;
        }
        if segment.has(TcpFlags::ACK) {
            self.reset = Some((segment.ack, None));
            return;
        }
        if segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::FIN) {
            self.take_syn(now, segment);
            self.state = State::SynReceived;
            self.begin_handshake(now);
        }
    }

    /// Learns what a SYN says: RFC 7323 sections 1.3 and 3.2, RFC 2018 section 2, RFC 3168
    /// section 6.1.1.
    fn take_syn(&mut self, now: Instant, segment: &Segment) {
        let options = &segment.options;
        let default = if self.config.local.is_ipv4() {
            536
        } else {
            1220
        };
        self.tx.peer_segment = usize::from(options.mss.unwrap_or(default)).max(1);
        self.agreed.sack = self.profile.options.sack && options.sack_permitted;
        self.agreed.timestamps = self.profile.options.timestamps && options.timestamps.is_some();
        self.agreed.scaling = self.profile.options.window_scaling && options.window_scale.is_some();
        if self.agreed.scaling {
            self.agreed.send_scale = options.window_scale.unwrap_or(0);
        } else {
            self.rx.scale = 0;
            self.rx.capacity_max = self.rx.capacity_max.min(65_535);
            self.rx.capacity = self.rx.capacity.min(65_535);
        }
        let (echo, reduced) = (segment.has(TcpFlags::ECE), segment.has(TcpFlags::CWR));
        let wants = self.profile.options.ecn_asks || self.config.ecn;
        self.agreed.ecn = match segment.has(TcpFlags::ACK) {
            true => wants && echo && !reduced,
            false => (wants || self.profile.options.ecn_takes) && echo && reduced,
        };
        if let Some((value, _)) = options.timestamps.filter(|_| self.agreed.timestamps) {
            self.timestamp_recent = Some((value, now));
        }
        let start = SEQUENCE_BASE | u64::from(segment.seq);
        let first_flight = 10 * self.full_segment();
        self.rx.start(start + 1, self.rx.open, first_flight);
        self.tx.window = u64::from(segment.window);
        self.tx.window_max = self.tx.window;
        self.tx.window_from = start;
    }

    /// A segment in SYN-SENT: RFC 9293 section 3.10.7.3.
    pub(super) fn receive_connecting(&mut self, now: Instant, segment: &Segment) {
        let acks = segment.has(TcpFlags::ACK);
        let acceptable = acks
            && self.tx.handshake_sent > 0
            && unwrap_sequence(self.initial, segment.ack) == self.initial + 1;
        if acks && !acceptable {
            if !segment.has(TcpFlags::RST) {
                self.reset = Some((segment.ack, None));
            }
            return;
        }
        if segment.has(TcpFlags::RST) {
            if acceptable {
                self.note_reset(now);
                self.end(Some(TcpError::Refused));
            }
            return;
        }
        if !segment.has(TcpFlags::SYN) {
            return;
        }
        self.take_syn(now, segment);
        if acceptable {
            self.establish(now, segment);
            self.acks.due = 1;
            self.acks.first = true;
        } else {
            // Both ends opened at once.
            self.state = State::SynReceived;
            self.tx.handshake_sent = 0;
            self.recovery.timeouts = 0;
            self.begin_handshake(now);
        }
    }

    /// A segment in SYN-RECEIVED. True if it opened the connection and goes on.
    pub(super) fn receive_answered(&mut self, now: Instant, segment: &Segment) -> bool {
        let seq = unwrap_sequence(self.rx.next, segment.seq);
        if segment.has(TcpFlags::RST) {
            if seq == self.rx.next {
                self.note_reset(now);
                self.end(Some(TcpError::Reset));
            }
            return false;
        }
        if segment.has(TcpFlags::SYN) {
            let same = seq + 1 == self.rx.next;
            if same {
                self.note_came(now, seq, TcpEventKind::Duplicate);
            }
            if same && segment.has(TcpFlags::ACK) && self.acknowledges_syn(segment) {
                // The other end's answer after both opened at once.
                self.establish(now, segment);
                self.acks.due = 1;
            } else if same {
                self.tx.handshake_due = true;
                self.arm_retransmit(now);
            } else {
                // Another connection: who has forgotten this one answers with a reset (RFC 9293
                // section 3.10.7.4, first; RFC 5961 section 4).
                self.challenge(now);
            }
            return false;
        }
        if !segment.has(TcpFlags::ACK) {
            return false;
        }
        if !self.acknowledges_syn(segment) {
            self.reset = Some((segment.ack, None));
            return false;
        }
        let in_window = seq <= self.rx.edge && seq + segment.length() >= self.rx.next;
        if !in_window {
            self.acks.due = 1;
            return false;
        }
        self.establish(now, segment);
        self.tx.window = u64::from(segment.window) << self.agreed.send_scale;
        self.tx.window_max = self.tx.window_max.max(self.tx.window);
        true
    }

    fn acknowledges_syn(&self, segment: &Segment) -> bool {
        self.tx.handshake_sent > 0 && unwrap_sequence(self.initial, segment.ack) == self.initial + 1
    }

    /// The SYN is acknowledged: RFC 6298 section 5.7, RFC 5681 section 3.1.
    fn establish(&mut self, now: Instant, segment: &Segment) {
        let first = self.initial + 1;
        (self.tx.una, self.tx.next, self.tx.end) = (first, first, first);
        self.recovery.high = first;
        let repeats = self.tx.handshake_sent.saturating_sub(1);
        let opened = self.tx.handshake_at.unwrap_or(now);
        let echoed = self.echoed(now, segment);
        let spurious = repeats > 0
            && self.profile.undo.syn
            && segment.options.timestamps.map(|(_, echo)| echo) == Some(self.timestamp(opened))
            && self.agreed.timestamps;
        // Karn's rule, RFC 6298 section 3: an answer to a repeated SYN measures nothing without
        // timestamps.
        let measured: Option<Duration> = if repeats == 0 {
            Some(now.since(opened))
        } else {
            echoed.filter(|_| self.profile.rto.measures_repeats || self.profile.rto.measures_echoes)
        };
        if let Some(rtt) = measured {
            self.rtt.measure(now, rtt, first, first);
        }
        self.rtt.reset_backoff();
        self.begin_window(repeats, spurious);
        self.timers.sender = None;
        self.tx.handshake_due = false;
        self.rx.segment_octets = 536.min(self.full_segment());
        self.choose_segment();
        self.tx.sent_at = now;
        self.state = if self.tx.closing {
            State::FinWait1
        } else {
            State::Established
        };
        self.heard(now);
    }
    /// In TIME-WAIT, the initial sequence number of a connection that may take the place of this
    /// one, if the segment opens it: RFC 6191 section 2. A later timestamp says that it isn't an
    /// old duplicate, a later sequence number does unless an earlier timestamp denies it.
    pub(super) fn successor(&self, segment: &Segment) -> Option<u32> {
        let opens = segment.has(TcpFlags::SYN)
            && ![TcpFlags::ACK, TcpFlags::RST, TcpFlags::FIN]
                .into_iter()
                .any(|flag| segment.has(flag));
        if self.state != State::TimeWait || !opens {
            return None;
        }
        let stamps = segment.options.timestamps.zip(self.timestamp_recent);
        let age = stamps
            .filter(|_| self.agreed.timestamps)
            .map_or(0, |((value, _), (recent, _))| {
                value.wrapping_sub(recent) as i32
            });
        let later = unwrap_sequence(self.rx.next, segment.seq) > self.rx.next;
        // Kernel: beyond the largest window without scaling.
        (age > 0 || age == 0 && later).then(|| (self.tx.next as u32).wrapping_add(65_535 + 2))
    }
}
