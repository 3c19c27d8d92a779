//! TCP as a machine: one connection, IP packets in and out, no clock and no socket.
//!
//! Which implementation a study used decides what its numbers mean, so endpoints are made by the
//! name of a profile, and that name belongs beside every result.

mod congestion;
mod endpoint;
mod event;
pub mod profile;
mod rate;
mod receive;
mod recovery;
mod reset;
mod ring;
mod rtt;
mod scoreboard;
mod segment;
mod smoltcp;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use strait_core::{Duration, Instant};
use strait_wire::ip::TcpFlags;

use self::endpoint::Endpoint;
pub use self::event::{TcpEvent, TcpEventCounts, TcpEventKind};
use self::profile::Profile;
pub use self::reset::reset_for;
use self::smoltcp::{Congestion, SmoltcpEndpoint};

/// Names of the profiles that [`endpoint()`] knows.
pub const PROFILES: [&str; 11] = [
    "linux-cubic",
    "linux-reno",
    "linux-bbr",
    "ns3-2012",
    "ns3-sack",
    "ns3-3.37",
    "ns3-3.37-sack",
    "newreno-536",
    "paper-hf",
    "smoltcp-cubic",
    "smoltcp-reno",
];

/// The profile of traffic that names none.
pub const PROFILE_DEFAULT: &str = "linux-cubic";

/// One end of one connection.
///
/// After any call that may have changed something, call [`TcpEndpoint::poll_packet`] until it is
/// false and then read [`TcpEndpoint::wake`]; at that time, `poll_packet` again. Time never goes
/// back from call to call.
/// # Examples
///
/// Two ends, with nothing between them that takes time or loses anything:
///
/// ```
/// use strait_core::Instant;
/// use strait_tcp::{TcpConfig, TcpEndpoint, TcpState, endpoint};
///
/// let [near, far] = ["10.0.0.1:4000", "10.0.0.2:80"].map(|it| it.parse().expect("an address"));
/// let mut client = endpoint("linux-cubic", &TcpConfig::new(near, far))?;
/// let mut server = endpoint("linux-cubic", &TcpConfig::new(far, near))?;
/// let now = Instant::ZERO;
/// server.accept(now)?;
/// client.connect(now)?;
/// let mut packet = Vec::new();
/// // The handshake, then the octets and what acknowledges them: eight turns are plenty.
/// let mut sent = 0;
/// for _ in 0..8 {
///     while client.poll_packet(now, &mut packet) {
///         server.handle_packet(now, &packet);
///     }
///     while server.poll_packet(now, &mut packet) {
///         client.handle_packet(now, &packet);
///     }
///     sent += client.send(&b"hello"[sent..]);
/// }
/// assert_eq!(server.state(), TcpState::Established);
/// let mut buffer = [0; 16];
/// assert_eq!(server.recv(&mut buffer), 5);
/// assert_eq!(&buffer[..5], b"hello");
/// // Nothing is left to do at this time: the next call is due when one of them says.
/// assert!(!client.poll_packet(now, &mut packet));
/// assert!([client.wake(), server.wake()].into_iter().flatten().all(|due| due > now));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait TcpEndpoint {
    /// Opens the connection from this end.
    ///
    /// # Errors
    /// [`TcpError::Misused`] unless the state is [`TcpState::Closed`] for the first time.
    fn connect(&mut self, now: Instant) -> Result<(), TcpError>;

    /// Waits for the other end to open it: the next packet should be its SYN.
    ///
    /// # Errors
    /// As for [`TcpEndpoint::connect`].
    fn accept(&mut self, now: Instant) -> Result<(), TcpError>;

    /// Takes octets to send, as many as the buffer has room for, and says how many.
    fn send(&mut self, octets: &[u8]) -> usize;

    /// Gives received octets in order, as many as there are and `into` can hold.
    fn recv(&mut self, into: &mut [u8]) -> usize;

    /// Whether the other end has ended its direction and everything before was taken.
    fn is_drained(&self) -> bool;

    /// Ends this direction after everything that was taken to send.
    fn close(&mut self);

    /// Ends the connection at once, telling the other end.
    fn abort(&mut self);

    /// Takes an IP packet of this connection.
    fn handle_packet(&mut self, now: Instant, packet: &[u8]);

    /// Learns that packets above so many octets don't get through (RFC 8201, RFC 1191). An
    /// implementation that can't change its segment size leaves it.
    fn handle_path_mtu(&mut self, now: Instant, octets: u32);

    /// Learns that the way to the other end is forbidden: a connection that isn't there yet ends,
    /// any other goes on trying (RFC 5461). An implementation that can't be told leaves it.
    fn handle_unreachable(&mut self) {}

    /// Writes the next IP packet to send into `out`, which is emptied first. False if there is
    /// none now; `out` is empty then.
    fn poll_packet(&mut self, now: Instant, out: &mut Vec<u8>) -> bool;

    /// When `poll_packet` has something to do, if nothing else happens before.
    fn wake(&self) -> Option<Instant>;

    /// Where the connection stands.
    fn state(&self) -> TcpState;

    /// If `packet` asks for another connection between the same ends and this one, which only
    /// waits out of caution, may make way for it: the initial sequence number that the other needs
    /// at this end (RFC 9293 section 3.10.7.4, RFC 6191).
    fn makes_way(&self, _: &[u8]) -> Option<u32> {
        None
    }

    /// Why it ended, if not in order.
    fn error(&self) -> Option<TcpError>;

    /// What was counted.
    fn counters(&self) -> TcpCounters;

    /// Takes the oldest event that waits, if the implementation tells any. Those that nobody
    /// takes make room for later ones.
    fn poll_event(&mut self) -> Option<TcpEvent> {
        None
    }

    /// The smoothed round-trip time (RFC 6298 section 2), if the implementation tells and has one.
    fn smoothed_rtt(&self) -> Option<Duration> {
        None
    }
}

/// Where a connection stands, as an application sees it (RFC 9293 section 3.3.2 has the details).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// Waiting for the other end's SYN.
    Listening,
    /// A SYN was sent or answered.
    Connecting,
    /// This end may send.
    Established,
    /// This end has ended its direction and waits for the other, or out of caution.
    Closing,
    /// There is no connection, not yet or no longer.
    Closed,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum TcpError {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// The other end gave up or forgot the connection.
    #[error("connection reset by the other end")]
    Reset,
    /// The other end was silent for too long.
    #[error("connection timed out")]
    TimedOut,
    /// A router says that the way to the other end is forbidden.
    #[error("the way to the other end is forbidden")]
    Unreachable,
    /// The call doesn't fit the state, or an address or port can't be used.
    #[error("not possible in this state or with these addresses")]
    Misused,
}

/// What one end counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Segments sent, those without data included.
    pub segments_out: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent that repeat a sequence number already sent.
    pub retransmissions: u64,
    /// Octets of data that the other end acknowledged.
    pub octets_acked: u64,
    /// What happened, by kind; none if the implementation tells no events.
    pub events: TcpEventCounts,
}

impl TcpCounters {
    /// Adds those of another connection.
    pub const fn merge(&mut self, other: &Self) {
        self.segments_out += other.segments_out;
        self.segments_in += other.segments_in;
        self.retransmissions += other.retransmissions;
        self.octets_acked += other.octets_acked;
        self.events.merge(&other.events);
    }
}

/// What one end of a connection is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The largest packet in octets: the segment size announced is this without 40 octets of
    /// headers (IPv4) or 60 (IPv6), RFC 9293 section 3.7.1.
    pub mtu: u32,
    /// Octets that may wait to be sent or acknowledged.
    pub send_octets: usize,
    /// Octets that may wait for the application: the receive window.
    pub receive_octets: usize,
    /// Hold back small segments while others are under way (Nagle's algorithm, RFC 9293
    /// section 3.7.4).
    pub nagle: bool,
    /// How long an acknowledgement may wait for company (RFC 9293 section 3.8.6.3); `None`: as
    /// the profile says.
    pub ack_delay: Option<Duration>,
    /// Silence after which the connection is given up (R2 of RFC 9293 section 3.8.3); `None`: as
    /// the profile says.
    pub give_up: Option<Duration>,
    /// Probe a silent connection (RFC 9293 section 3.8.4), if the implementation can.
    pub keep_alive: bool,
    /// Ask for explicit congestion notification (RFC 3168), if the implementation can.
    pub ecn: bool,
    /// Seed of the initial sequence number.
    pub seed: u64,
}

impl TcpConfig {
    /// Buffers that come closest to real hosts' results on slow links, where a larger one only
    /// makes a longer queue.
    pub const BUFFER_OCTETS: usize = 16_384;
    /// What an implementation without a profile takes for the other defaults: Linux's with
    /// unchanged settings (40 ms, 15 retransmissions).
    pub const ACK_DELAY: Duration = Duration::from_millis(40);
    /// See [`TcpConfig::ACK_DELAY`].
    pub const GIVE_UP: Duration = Duration::from_secs(924);

    /// Defaults for everything but the addresses.
    pub const fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local,
            remote,
            mtu: 1500,
            send_octets: Self::BUFFER_OCTETS,
            receive_octets: Self::BUFFER_OCTETS,
            nagle: true,
            ack_delay: None,
            give_up: None,
            keep_alive: false,
            ecn: false,
            seed: 0,
        }
    }
}

/// There is no profile of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no TCP endpoint is called `{0}`; there are {known}", known = PROFILES.join(", "))]
pub struct UnknownProfile(pub String);

/// Makes an endpoint by the name of its profile.
///
/// # Errors
/// [`UnknownProfile`] if there is none of that name.
pub fn endpoint(profile: &str, config: &TcpConfig) -> Result<Box<dyn TcpEndpoint>, UnknownProfile> {
    Ok(match profile {
        "smoltcp-cubic" => Box::new(SmoltcpEndpoint::new(config, Congestion::Cubic)),
        "smoltcp-reno" => Box::new(SmoltcpEndpoint::new(config, Congestion::Reno)),
        name => {
            let found = Profile::named(name).ok_or_else(|| UnknownProfile(name.into()))?;
            endpoint_with(found, config)
        }
    })
}

/// Makes an endpoint of our own with these constants.
pub fn endpoint_with(profile: Profile, config: &TcpConfig) -> Box<dyn TcpEndpoint> {
    Box::new(Endpoint::new(config, profile))
}

/// Octets of the send and the receive buffer that a profile's hosts have with unchanged settings.
pub fn default_buffer_octets(profile: &str) -> usize {
    Profile::named(profile).map_or(TcpConfig::BUFFER_OCTETS, |profile| profile.send_octets)
}

/// Counts from the outside, so that every implementation is counted alike.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    counters: TcpCounters,
    /// The sequence number after the highest sent.
    sent_to: Option<u32>,
    /// The sequence number before the first octet of data, and how many follow that are acked.
    acked_to: Option<u32>,
}

impl Meter {
    fn sent(&mut self, seq: u32, flags: TcpFlags, octets: u32) {
        self.counters.segments_out += 1;
        let controls = [TcpFlags::SYN, TcpFlags::FIN].map(|flag| flags.contains(flag));
        let length = octets + controls.map(u32::from).iter().sum::<u32>();
        if length == 0 || flags.contains(TcpFlags::RST) {
            return;
        }
        let end = seq.wrapping_add(length);
        // Sequence numbers are compared modulo 2^32, RFC 9293 section 3.4.
        let before = |number: u32, other: u32| (number.wrapping_sub(other) as i32) < 0;
        let sent_to = self.sent_to;
        if sent_to.is_some_and(|sent_to| before(seq, sent_to)) {
            self.counters.retransmissions += 1;
        }
        if sent_to.is_none_or(|sent_to| before(sent_to, end)) {
            self.sent_to = Some(end);
        }
        if self.acked_to.is_none() && flags.contains(TcpFlags::SYN) {
            self.acked_to = Some(seq.wrapping_add(1));
        }
    }

    fn received(&mut self, ack: u32, flags: TcpFlags) {
        self.counters.segments_in += 1;
        let (Some(acked_to), Some(sent_to)) = (self.acked_to, self.sent_to) else {
            return;
        };
        let advance = ack.wrapping_sub(acked_to);
        let sent = sent_to.wrapping_sub(acked_to);
        // The SYN is behind `acked_to` already; acknowledgements of what wasn't sent don't count.
        if flags.contains(TcpFlags::ACK) && (advance as i32) > 0 && advance <= sent {
            self.counters.octets_acked += u64::from(advance);
            self.acked_to = Some(ack);
        }
    }
}

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod incarnation;
#[cfg(test)]
mod pipe;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod swarm;
#[cfg(test)]
mod tests;
