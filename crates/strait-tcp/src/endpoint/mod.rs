//! Our own TCP endpoint: the measuring instrument.
//!
//! Sans-IO and exact to the nanosecond: what it does follows from the calls alone. Sequence
//! numbers are 64 bits inside and 32 on the wire, so that no comparison wraps. Windows count
//! segments, timers and recovery follow a current Linux kernel where the profile says so; what
//! differs is that nothing is rounded to ticks, that duplicates of an acknowledgement are never
//! compressed, and that segments aren't merged when they are sent again.

mod ack;
mod handshake;
mod input;
#[cfg(test)]
mod invariants;
mod losses;
mod output;
mod timers;
mod undo;

use std::net::SocketAddr;

use strait_core::Instant;
use strait_core::time::{Duration, nanos};

use self::ack::Usage;
use self::input::Acks;
use self::output::Sender;
use self::timers::Timers;
use super::congestion::{Control, Window};
use super::event::{EventLog, TcpEvent, TcpEventKind};
use super::profile::{AckPolicy, Profile};
use super::rate::Rate;
use super::receive::Receiver;
use super::recovery::Recovery;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::segment::{SEQUENCE_BASE, Segment};
use super::{Meter, TcpConfig, TcpCounters, TcpEndpoint, TcpError, TcpState};

/// States of RFC 9293 section 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// What both ends agreed on.
#[derive(Clone, Copy, Debug, Default)]
struct Agreed {
    sack: bool,
    timestamps: bool,
    ecn: bool,
    /// Whether windows are scaled; the receiver has its own shift.
    scaling: bool,
    send_scale: u8,
}

/// Explicit congestion notification (RFC 3168 section 6.1).
#[derive(Clone, Copy, Debug, Default)]
struct Ecn {
    /// Echo congestion until the sender says that it has reduced its window.
    echo: bool,
    /// Say so with the next data.
    reduced: bool,
}

/// One end of one connection.
pub(crate) struct Endpoint {
    profile: Profile,
    config: TcpConfig,
    state: State,
    opened: bool,
    error: Option<TcpError>,
    meter: Meter,
    events: EventLog,
    agreed: Agreed,
    ecn: Ecn,
    /// Added to the clock's milliseconds.
    timestamp_base: u32,
    /// The other end's latest timestamp, and when it came (RFC 7323 section 4.3).
    timestamp_recent: Option<(u32, Instant)>,
    /// Initial sequence number and the octets of the largest packet of the path.
    initial: u64,
    path_mtu: u32,
    /// The path is narrower than the least that is believed: packets may be cut.
    may_fragment: bool,
    ident: u16,
    tx: Sender,
    board: Scoreboard,
    rtt: Rtt,
    window: Window,
    control: Control,
    rate: Rate,
    recovery: Recovery,
    usage: Usage,
    rx: Receiver,
    acks: Acks,
    timers: Timers,
    /// A reset to send: sequence number and, if there is one, acknowledgement.
    reset: Option<(u32, Option<u32>)>,
    /// When a segment that can't be right was last answered.
    challenged_at: Option<Instant>,
}

impl Endpoint {
    /// A packet smaller than this holds no useful segment: RFC 791's least, RFC 8200's.
    const MTU_MIN: (u32, u32) = (128, 128);
    /// The least payload that a segment is cut to. Kernel: `tcp_min_snd_mss` = 48.
    const SEGMENT_MIN: usize = 48;
    /// No window scale needs more.
    const BUFFER_MAX: usize = 1 << 28;

    pub(crate) fn new(config: &TcpConfig, profile: Profile) -> Self {
        let mut config = *config;
        let least = if config.local.is_ipv4() {
            Self::MTU_MIN.0
        } else {
            Self::MTU_MIN.1
        };
        config.mtu = config.mtu.clamp(least, 65_535);
        config.send_octets = config.send_octets.clamp(1, Self::BUFFER_MAX);
        config.receive_octets = config.receive_octets.clamp(1, Self::BUFFER_MAX);
        let initial = SEQUENCE_BASE | config.seed >> 32;
        let mut endpoint = Self {
            rtt: Rtt::new(&profile),
            window: Window::new(profile.initial_window),
            control: Control::new(&profile, config.seed),
            recovery: Recovery::new(&profile),
            rx: Receiver::default(),
            acks: Acks::new(&profile),
            state: State::Closed,
            opened: false,
            error: None,
            meter: Meter::default(),
            events: EventLog::default(),
            agreed: Agreed::default(),
            ecn: Ecn::default(),
            // No timestamp is 0: that means none.
            timestamp_base: (config.seed as u32).max(1),
            timestamp_recent: None,
            initial,
            path_mtu: config.mtu,
            may_fragment: !profile.path_mtu.discovery,
            ident: (config.seed >> 16) as u16,
            tx: Sender::new(initial),
            board: Scoreboard::default(),
            rate: Rate::default(),
            usage: Usage::default(),
            timers: Timers::default(),
            reset: None,
            challenged_at: None,
            profile,
            config,
        };
        endpoint.size_receiver();
        endpoint
    }

    /// The receive buffer before the connection opens, and the shift that its growth needs
    /// (RFC 7323 section 2.3).
    fn size_receiver(&mut self) {
        let most = self.config.receive_octets;
        let initial = (self.profile.receive_window_initial as usize).min(most);
        self.rx.capacity_max = most;
        self.rx.capacity = if self.profile.autotuning {
            initial
        } else {
            most
        };
        self.rx.open = initial;
        self.rx.segment_octets = 536.min(self.full_segment());
        if self.profile.options.window_scaling {
            let needed = usize::BITS - (most >> 16).leading_zeros();
            self.rx.scale = needed.min(14) as u8;
        }
    }

    /// Octets of a segment's data without options, as the path and the profile allow.
    fn full_segment(&self) -> usize {
        let headers = super::segment::ip_header_octets(self.config.local.is_ipv4()) + 20;
        let most = (self.path_mtu as usize).saturating_sub(headers);
        let options = if self.profile.options.timestamps {
            12
        } else {
            0
        };
        let chosen = self
            .profile
            .segment_octets
            .map_or(usize::MAX, |octets| octets as usize + options);
        most.min(chosen).max(Self::SEGMENT_MIN)
    }

    const fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.config.local, self.config.remote)
    }

    /// Milliseconds of the timestamp clock.
    fn timestamp(&self, now: Instant) -> u32 {
        self.timestamp_base
            .wrapping_add((now.as_nanos() / 1_000_000) as u32)
    }

    /// How long ago the segment was sent that `segment` echoes, if that can be told.
    fn echoed(&self, now: Instant, segment: &Segment) -> Option<Duration> {
        let (_, echo) = segment
            .options
            .timestamps
            .filter(|_| self.agreed.timestamps)?;
        let age_ms = self.timestamp(now).wrapping_sub(echo);
        // Ages beyond 24 days are nonsense.
        (echo != 0 && age_ms < 1 << 31).then(|| Duration::from_millis(age_ms.max(1).into()))
    }

    fn open(&mut self, state: State) -> Result<(), TcpError> {
        let (local, remote) = self.ends();
        let usable = |end: SocketAddr| {
            !end.ip().is_unspecified() && !end.ip().is_multicast() && end.port() != 0
        };
        let first = !std::mem::replace(&mut self.opened, true);
        if !first || !usable(local) || !usable(remote) || local.is_ipv4() != remote.is_ipv4() {
            return Err(TcpError::Misused);
        }
        self.state = state;
        Ok(())
    }

    /// Notes what happened at `seq` of this end's stream.
    fn note_sent(&mut self, now: Instant, seq: u64, kind: TcpEventKind) {
        let position = seq.saturating_sub(self.initial + 1);
        self.events.note(now, position, kind);
    }

    /// Ends the connection at once and says why, if not in order.
    fn end(&mut self, error: Option<TcpError>) {
        self.state = State::Closed;
        self.error = self.error.or(error);
        self.timers = Timers::default();
        self.acks.forget();
        self.tx.forget();
        self.board.clear();
    }

    const fn is_synchronised(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::Listen | State::SynSent | State::SynReceived
        )
    }

    fn give_up(&self) -> Duration {
        self.config.give_up.unwrap_or(self.profile.give_up.0)
    }
}

impl TcpEndpoint for Endpoint {
    fn connect(&mut self, now: Instant) -> Result<(), TcpError> {
        self.open(State::SynSent)?;
        self.begin_handshake(now);
        Ok(())
    }

    fn accept(&mut self, _: Instant) -> Result<(), TcpError> {
        self.open(State::Listen)
    }

    fn send(&mut self, octets: &[u8]) -> usize {
        if !matches!(self.state, State::Established | State::CloseWait) || self.tx.closing {
            return 0;
        }
        let room = self.send_room();
        self.tx.queue(&octets[..octets.len().min(room)])
    }

    fn recv(&mut self, into: &mut [u8]) -> usize {
        let count = self.rx.take(into);
        if count > 0 {
            self.after_read();
        }
        count
    }

    fn is_drained(&self) -> bool {
        self.rx.ended && self.rx.unread() == 0
    }

    fn close(&mut self) {
        match self.state {
            State::Listen | State::SynSent => self.end(None),
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
        self.tx.closing = true;
    }

    fn abort(&mut self) {
        if self.is_synchronised() && self.state != State::TimeWait {
            self.reset = Some((self.tx.next as u32, Some(self.rx.next as u32)));
        } else if self.state == State::SynReceived {
            self.reset = Some((self.initial as u32 + 1, Some(self.rx.next as u32)));
        }
        self.end(None);
    }

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let Some(segment) = Segment::parse(packet, self.config.local, self.config.remote) else {
            return;
        };
        self.meter.received(segment.ack, segment.flags);
        let due_first = matches!(
            self.profile.ack,
            AckPolicy::Every {
                due_first: true,
                ..
            }
        );
        if due_first && self.timers.ack.is_some_and(|at| at <= now) {
            let mut early = std::mem::take(&mut self.acks.early);
            self.write_ack(now, &mut early);
            self.acks.early = early;
        }
        self.receive(now, &segment);
    }

    fn handle_unreachable(&mut self) {
        if self.state == State::SynSent {
            self.end(Some(TcpError::Unreachable));
        }
    }

    fn handle_path_mtu(&mut self, now: Instant, octets: u32) {
        self.narrow(now, octets);
    }

    fn poll_packet(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        out.append(&mut self.acks.early);
        if !out.is_empty() {
            return true;
        }
        self.run_timers(now);
        self.transmit(now, out)
    }

    fn wake(&self) -> Option<Instant> {
        self.timers.next().filter(|at| *at != Instant::NEVER)
    }

    fn state(&self) -> TcpState {
        match self.state {
            State::Closed => TcpState::Closed,
            State::Listen => TcpState::Listening,
            State::SynSent | State::SynReceived => TcpState::Connecting,
            State::Established | State::CloseWait => TcpState::Established,
            State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck
            | State::TimeWait => TcpState::Closing,
        }
    }

    fn makes_way(&self, packet: &[u8]) -> Option<u32> {
        let segment = Segment::parse(packet, self.config.local, self.config.remote)?;
        self.successor(&segment)
    }

    fn error(&self) -> Option<TcpError> {
        self.error
    }

    fn counters(&self) -> TcpCounters {
        TcpCounters {
            events: self.events.counts(),
            ..self.meter.counters
        }
    }

    fn poll_event(&mut self) -> Option<TcpEvent> {
        self.events.poll()
    }

    fn smoothed_rtt(&self) -> Option<Duration> {
        let smoothed_ns = self.rtt.smoothed_ns();
        (smoothed_ns > 0).then(|| Duration::from_nanos(smoothed_ns))
    }
}

/// Nanoseconds of a configured time.
const fn time_ns(time: strait_core::units::Time) -> u64 {
    nanos(time.0)
}
