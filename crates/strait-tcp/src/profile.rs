//! What makes one host's TCP differ from another's: every constant, with its source.

use core::time::Duration;

use strait_core::units::Time;

/// Which congestion control an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// RFC 5681 with the recovery of the profile.
    NewReno,
    /// RFC 9438 as Linux does it.
    Cubic,
    /// BBR version 1.
    Bbr,
}

/// How lost segments are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Three duplicate acknowledgements, or RFC 6675 where the other end selects.
    Threshold,
    /// Time since later segments were delivered (RACK, RFC 8985), and a probe at the tail (TLP).
    RackTlp,
}

/// When data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AckPolicy {
    /// At once every so many segments, or after the delay.
    Every {
        /// Segments.
        segments: u32,
        /// The longest delay.
        delay: Time,
        /// A segment that arrives when the delay ends comes after it. Over links that all take as
        /// long, many do. ns-3: yes, it does first what was planned first.
        due_first: bool,
    },
    /// As Linux: at once for the first segments of a transfer, then every second, with a delay
    /// that follows the gaps between segments.
    Adaptive {
        /// Segments acknowledged at once at the start, and after a gap or a duplicate.
        quick: u32,
        /// The shortest delay.
        delay_min: Time,
        /// The longest.
        delay_max: Time,
    },
}

/// How the retransmission timeout follows from round-trip times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoRule {
    /// RFC 6298: the minimum bounds the whole.
    Standard,
    /// Linux: the minimum bounds the variation that is added to the mean, which falls once a
    /// round trip only.
    VariationFloor,
}

/// How the window is counted, and how proportional rate reduction (RFC 6937) shrinks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// In whole segments, as RFC 6937 says. Kernel.
    Segments,
    /// As ns-3 3.37: windows and thresholds have parts of a segment, and in congestion avoidance an
    /// acknowledgement adds the same however much it covers. A reduction is in proportion to all
    /// that isn't acknowledged when it begins. It starts from the octets in flight before the
    /// duplicate or the reported loss is counted, and never allows less than that. A partial
    /// acknowledgement sends the oldest segment again whatever the window says.
    Octets,
}

/// All constants of an endpoint.
///
/// «kernel» as a source means what Linux 6.x does with unchanged settings, read from its
/// documentation (`ip-sysctl`) or from its behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Congestion control. Kernel: `tcp_congestion_control`.
    pub congestion: CongestionKind,
    /// How losses are found. Kernel: `tcp_recovery` = 1, `tcp_early_retrans` = 3.
    pub detection: LossDetection,
    /// The most octets of data in a segment; `None`: what the MTU leaves.
    pub segment_octets: Option<u32>,
    /// What both ends agree on with their SYNs.
    pub options: Options,
    /// Segments that may be sent before the first acknowledgement. RFC 6928: 10.
    pub initial_window: u32,
    /// The most by which one acknowledgement widens the window in slow start, in segments
    /// (L of RFC 3465); 0: by all that it covers, as the kernel does.
    pub growth_limit: u32,
    /// The acknowledgement that ends the recovery from a timeout widens the window by what it
    /// covers beyond the recovery only, which is mostly nothing. ns-3 3.37: yes. Kernel: by all.
    pub growth_beyond_loss: bool,
    /// The window after a retransmission timeout is this, in segments. RFC 5681: 1.
    pub loss_window: u32,
    /// The retransmission timeout.
    pub rto: Rto,
    /// What duplicate acknowledgements say where none are selective.
    pub duplicates: Duplicates,
    /// Only the first partial acknowledgement of a recovery restarts the timer: RFC 6582
    /// section 4's impatient variant; else each does. Kernel: each.
    pub impatient: bool,
    /// The threshold after a loss is a share of what is in the network (FlightSize of RFC 5681),
    /// and a timeout in a recovery lowers it again (section 3.1); else it is a share of the
    /// window, once. Kernel: of the window.
    pub threshold_from_flight: bool,
    /// How often a handshake is repeated.
    pub syn: Syn,
    /// Silence after the first retransmission that ends a connection: the sum of all timeouts
    /// between 0.2 s and 120 s. Kernel: 924.6 s from `tcp_retries2` = 15.
    pub give_up: Time,
    /// Repeats of one segment that end a connection; 0: time alone decides.
    pub data_retries: u32,
    /// Acknowledgements of data.
    pub ack: AckPolicy,
    /// Duplicate acknowledgements that show a loss, at the start. RFC 5681: 3.
    pub reordering: u32,
    /// Segments sent on the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// How the window shrinks in a recovery.
    pub reduction: Reduction,
    /// Forward RTO recovery (RFC 5682). Kernel: `tcp_frto` = 2.
    pub frto: bool,
    /// What shows that a repetition was needless, and is undone.
    pub undo: Undo,
    /// Forget a window that wasn't used: while limited by the application (after RFC 7661) and
    /// after an idle time. Kernel: `tcp_slow_start_after_idle` = 1.
    pub window_validation: bool,
    /// Leave slow start when round-trip times rise (HyStart). Kernel: CUBIC's `hystart` = 1.
    pub hystart: bool,
    /// Hold back a small segment only while another small one is out (Minshall's form of Nagle's
    /// algorithm); else while anything is.
    pub nagle_minshall: bool,
    /// How long a packet the path takes.
    pub path_mtu: PathMtu,
    /// Margin of the timers of loss probe and reordering. Kernel: two ticks.
    pub timer_slack: Time,
    /// How long an endpoint waits out of caution after both ends have closed. Kernel: 60 s.
    pub time_wait: Time,
    /// Silence after which an endpoint that has closed no longer waits for the other's end.
    pub fin_wait: Time,
    /// Probes of a silent connection.
    pub keep_alive: KeepAlive,
    /// Time between two answers to segments that can't be right. Kernel:
    /// `tcp_invalid_ratelimit` = 500 ms (RFC 5961 section 7).
    pub challenge_interval: Time,
    /// The receive window begins with so many octets, if the buffer has them, and grows as the
    /// application keeps up. Kernel: half of `tcp_rmem`'s middle value.
    pub receive_window_initial: u32,
    /// The longest receive buffer unless told otherwise. Kernel: `tcp_rmem`'s last value.
    pub receive_octets: usize,
    /// The longest send buffer unless told otherwise. Kernel: `tcp_wmem`'s last value.
    pub send_octets: usize,
    /// Buffers grow with what is needed, up to their limit; else they have it from the start.
    /// Kernel: `tcp_moderate_rcvbuf` = 1.
    pub autotuning: bool,
}

/// What both ends agree on with their SYNs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Offer and take selective acknowledgements (RFC 2018). Kernel: `tcp_sack` = 1.
    pub sack: bool,
    /// Tell of duplicates received (RFC 2883). Kernel: `tcp_dsack` = 1.
    pub dsack: bool,
    /// Offer and take timestamps (RFC 7323). Kernel: `tcp_timestamps` = 1.
    pub timestamps: bool,
    /// Offer and take window scaling (RFC 7323). Kernel: `tcp_window_scaling` = 1.
    pub window_scaling: bool,
    /// Ask for explicit congestion notification (RFC 3168). Kernel: `tcp_ecn` = 2 doesn't ask.
    pub ecn_asks: bool,
    /// Take it if asked.
    pub ecn_takes: bool,
}

/// The retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rto {
    /// Before the first measurement. RFC 6298: 1 s, RFC 2988: 3 s.
    pub initial: Time,
    /// Its least. Kernel: 0.2 s (RFC 6298 says 1 s).
    pub min: Time,
    /// Its most. Kernel: 120 s; RFC 6298 allows 60 s and more.
    pub max: Time,
    /// What the minimum bounds.
    pub rule: RtoRule,
    /// Let timestamps measure repeated segments too (RFC 7323 section 4.1); else nothing does
    /// (Karn's rule, RFC 6298 section 3).
    pub measures_repeats: bool,
    /// Where both ends have timestamps, their echo in acknowledgements of new data is the only
    /// measure (RFC 7323 section 4.1): neither selections nor lost acknowledgements count. The
    /// oldest segment that it covers and that no timeout has met decides whether it may.
    /// ns-3 3.37: yes. Kernel: a segment's own time, and the echo if there is none.
    pub measures_echoes: bool,
    /// Sending the oldest segment again restarts its timer, so that recovery has a whole timeout.
    /// RFC 6298 section 5 doesn't say so; kernel: yes.
    pub repeat_restarts: bool,
    /// Any new acknowledgement ends the doubling of the timeout; else a measurement must
    /// (RFC 6298 section 5.7). Kernel: a measurement.
    pub progress_ends_backoff: bool,
    /// Each timeout takes the threshold from what is in flight, which is one segment if the same
    /// timed out before; else only the first does (RFC 5681 section 3.1). ns-3 3.37: each.
    pub each_lowers: bool,
}

/// How often a handshake is repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Syn {
    /// How often a SYN is repeated, beyond the linear ones. Kernel: `tcp_syn_retries` = 6.
    pub retries: u32,
    /// Repeats of a SYN before its timeout begins to double. Kernel 6.5 and later:
    /// `tcp_syn_linear_timeouts` = 4.
    pub linear: u32,
    /// How often the answer to a SYN is repeated. Kernel: `tcp_synack_retries` = 5.
    pub answer_retries: u32,
}

/// What duplicate acknowledgements say where none are selective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duplicates {
    /// A recovery lasts until more is acknowledged than was
    /// sent when it began: duplicates of exactly that come from needless repetitions, not from
    /// a loss (RFC 6582 section 3.2 step 2). Kernel: yes. ns-3 3.37: no, three of them begin
    /// another recovery.
    pub careful: bool,
    /// What duplicates said stays counted until a timeout,
    /// and a segment that counts as arrived when it becomes the oldest counts as lost and goes
    /// again, in each phase. ns-3 3.37: yes (its send buffer moves the mark on to another
    /// segment). Kernel: the count ends with the recovery or the next progress. After a timeout
    /// such an end counts no duplicates until its recovery is over.
    pub keeps: bool,
    /// A duplicate during a recovery counts as a segment
    /// delivered for the proportional rate reduction (RFC 6937 section 3). Kernel: yes. ns-3
    /// 3.37: no, so each lets one segment go as long as nothing new is acknowledged.
    pub deliver: bool,
    /// A segment with data or with another window isn't a
    /// duplicate (RFC 5681 section 2). Kernel: yes. ns-3 3.37: no, so the first loss shows one
    /// duplicate earlier: the handshake can't tell of the whole window.
    pub distinct: bool,
}

/// What shows that a repetition was needless, and is undone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Undo {
    /// Undo what a timestamp shows to have been spurious (after RFC 3522, RFC 4015).
    pub timestamps: bool,
    /// Begin with the whole window although a SYN was repeated, where a timestamp shows that the
    /// first had arrived: Linux from 5.2 on. Without, two repeats mean one segment.
    pub syn: bool,
    /// Undo what duplicate reports show to have been spurious (after RFC 3708).
    pub dsack: bool,
    /// Timestamps and duplicate reports undo a timeout also if something under way had gone again
    /// before it, as after an earlier timeout: Linux from 3.18 on. Without, only F-RTO does.
    pub again: bool,
}

/// How long a packet the path takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathMtu {
    /// Set «don't fragment» and learn the path's MTU (RFC 1191, RFC 8201).
    pub discovery: bool,
    /// The least path MTU believed for IPv4; below, packets may be fragmented. Kernel:
    /// `min_pmtu` = 552.
    pub min_v4: u32,
    /// Halve segments that are lost again and again without an error (RFC 4821 section 7.7).
    /// Kernel: `tcp_mtu_probing` = 0, off.
    pub black_holes: bool,
    /// Retransmissions of one segment before a black hole is suspected. Kernel: `tcp_retries1`.
    pub black_hole_retries: u32,
    /// Data octets of a segment in a suspected black hole. Kernel: `tcp_base_mss` = 1024.
    pub black_hole_segment: u32,
}

/// Probes of a silent connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeepAlive {
    /// Silence before the first keep-alive probe. Kernel: `tcp_keepalive_time` = 7200 s.
    pub idle: Time,
    /// Time between probes. Kernel: `tcp_keepalive_intvl` = 75 s.
    pub interval: Time,
    /// Probes without an answer that end a connection. Kernel: `tcp_keepalive_probes` = 9.
    pub probes: u32,
}

const fn ms(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

impl Profile {
    /// A Linux 6.x host with unchanged settings and the given congestion control.
    pub const fn linux(congestion: CongestionKind) -> Self {
        Self {
            congestion,
            detection: LossDetection::RackTlp,
            segment_octets: None,
            options: Options {
                sack: true,
                dsack: true,
                timestamps: true,
                window_scaling: true,
                ecn_asks: false,
                ecn_takes: true,
            },
            initial_window: 10,
            growth_limit: 0,
            growth_beyond_loss: false,
            loss_window: 1,
            rto: Rto {
                initial: ms(1000),
                min: ms(200),
                max: ms(120_000),
                rule: RtoRule::VariationFloor,
                measures_repeats: true,
                measures_echoes: false,
                repeat_restarts: true,
                progress_ends_backoff: false,
                each_lowers: false,
            },
            duplicates: Duplicates {
                careful: true,
                keeps: false,
                deliver: true,
                distinct: true,
            },
            impatient: false,
            threshold_from_flight: false,
            syn: Syn {
                retries: 6,
                linear: 4,
                answer_retries: 5,
            },
            give_up: ms(924_600),
            data_retries: 0,
            ack: AckPolicy::Adaptive {
                quick: 16,
                delay_min: ms(40),
                delay_max: ms(200),
            },
            reordering: 3,
            limited_transmit: true,
            reduction: Reduction::Segments,
            frto: true,
            undo: Undo {
                timestamps: true,
                syn: true,
                dsack: true,
                again: true,
            },
            window_validation: true,
            hystart: true,
            nagle_minshall: true,
            path_mtu: PathMtu {
                discovery: true,
                min_v4: 552,
                black_holes: false,
                black_hole_retries: 3,
                black_hole_segment: 1024,
            },
            timer_slack: ms(2),
            time_wait: ms(60_000),
            fin_wait: ms(924_600),
            keep_alive: KeepAlive {
                idle: ms(7_200_000),
                interval: ms(75_000),
                probes: 9,
            },
            challenge_interval: ms(500),
            receive_window_initial: 65_535,
            receive_octets: 32 << 20,
            send_octets: 4 << 20,
            autotuning: true,
        }
    }

    /// A NewReno host as network simulators model it: no selective acknowledgements, 536 octets
    /// of data in a segment (RFC 1122's default), an acknowledgement every two segments or 200 ms,
    /// buffers of 131072 octets, timestamps and window scaling on, the first timeout of RFC 2988,
    /// 60 s the most, and no end of patience. A window of ten segments to begin with: with one,
    /// as in the simulators of 2012, a transfer of 100 kB over the reference chain can't end in
    /// the 4.25 s that were measured.
    pub const fn ns3_2012() -> Self {
        Self {
            detection: LossDetection::Threshold,
            segment_octets: Some(536),
            options: Options {
                sack: false,
                dsack: false,
                ecn_takes: false,
                ..Self::linux(CongestionKind::NewReno).options
            },
            growth_limit: 1,
            rto: Rto {
                initial: ms(3000),
                max: ms(60_000),
                rule: RtoRule::Standard,
                measures_repeats: false,
                repeat_restarts: false,
                progress_ends_backoff: true,
                ..Self::linux(CongestionKind::NewReno).rto
            },
            impatient: true,
            threshold_from_flight: true,
            syn: Syn {
                linear: 0,
                ..Self::linux(CongestionKind::NewReno).syn
            },
            give_up: Time(Duration::MAX),
            ack: AckPolicy::Every {
                segments: 2,
                delay: ms(200),
                due_first: false,
            },
            frto: false,
            undo: Undo {
                timestamps: false,
                syn: false,
                dsack: false,
                ..Self::linux(CongestionKind::NewReno).undo
            },
            window_validation: false,
            hystart: false,
            path_mtu: PathMtu {
                discovery: false,
                ..Self::linux(CongestionKind::NewReno).path_mtu
            },
            receive_window_initial: 131_072,
            receive_octets: 131_072,
            send_octets: 131_072,
            autotuning: false,
            ..Self::linux(CongestionKind::NewReno)
        }
    }

    /// The same with the least timeout of RFC 6298 section 2.4.
    pub const fn newreno_536() -> Self {
        Self {
            rto: Rto {
                min: ms(1000),
                ..Self::ns3_2012().rto
            },
            ..Self::ns3_2012()
        }
    }

    /// [`Self::ns3_2012`] with selective acknowledgements and RFC 6675, segments as long as the MTU
    /// allows, and an end after 15 repeats.
    pub const fn ns3_sack() -> Self {
        Self {
            segment_octets: None,
            options: Options {
                sack: true,
                ..Self::ns3_2012().options
            },
            data_retries: 15,
            ..Self::ns3_2012()
        }
    }

    /// [`Self::ns3_2012`] with what ns-3 3.37 does otherwise than the standards say, as its traces
    /// and its source show.
    pub const fn ns3_337() -> Self {
        Self {
            growth_beyond_loss: true,
            rto: Rto {
                measures_echoes: true,
                each_lowers: true,
                ..Self::ns3_2012().rto
            },
            duplicates: Duplicates {
                careful: false,
                keeps: true,
                deliver: false,
                distinct: false,
            },
            reduction: Reduction::Octets,
            ack: AckPolicy::Every {
                segments: 2,
                delay: ms(200),
                due_first: true,
            },
            ..Self::ns3_2012()
        }
    }

    /// The same of [`Self::ns3_sack`].
    pub const fn ns3_337_sack() -> Self {
        let Self {
            segment_octets,
            options,
            data_retries,
            ..
        } = Self::ns3_sack();
        Self {
            segment_octets,
            options,
            data_retries,
            ..Self::ns3_337()
        }
    }

    /// A host of a measurement of TCP over HF radio: a window of about 100 kB that grows slowly
    /// while nothing is lost. Everything else as Linux 3.10, without RACK.
    pub const fn paper_hf() -> Self {
        Self {
            detection: LossDetection::Threshold,
            syn: Syn {
                linear: 0,
                ..Self::linux(CongestionKind::Cubic).syn
            },
            undo: Undo {
                syn: false,
                again: false,
                ..Self::linux(CongestionKind::Cubic).undo
            },
            receive_window_initial: 100_000,
            ..Self::linux(CongestionKind::Cubic)
        }
    }

    /// The profile of this name, see [`super::PROFILES`].
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "linux-cubic" => Self::linux(CongestionKind::Cubic),
            "linux-reno" => Self::linux(CongestionKind::NewReno),
            "linux-bbr" => Self::linux(CongestionKind::Bbr),
            "newreno-536" => Self::newreno_536(),
            "ns3-2012" => Self::ns3_2012(),
            "ns3-sack" => Self::ns3_sack(),
            "ns3-3.37" => Self::ns3_337(),
            "ns3-3.37-sack" => Self::ns3_337_sack(),
            "paper-hf" => Self::paper_hf(),
            _ => return None,
        })
    }
}
