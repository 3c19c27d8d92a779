//! `smoltcp` behind the seam: a second opinion.
//!
//! Known to differ from real hosts: it makes no use of selective acknowledgements, starts with two
//! segments, has a retransmission timeout of 1 s … 60 s and doesn't follow a changed path MTU. On
//! links that lose many packets it is up to twice as slow as a Linux host.

use ::smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use ::smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use ::smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use ::smoltcp::time::{Duration as MicroDuration, Instant as MicroInstant};
use ::smoltcp::wire::{HardwareAddress, IpCidr};
use strait_core::time::nanos;
use strait_core::{Duration, Instant};
use strait_wire::ip::{TcpFlags, tcp_header};

use super::{Meter, TcpConfig, TcpCounters, TcpEndpoint, TcpError, TcpState};

/// Which congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    Cubic,
    Reno,
}

/// The library's clock has microseconds. Elapsed time is rounded down, so that a deadline of its
/// is reached at exactly its microsecond and never before: no wake-up finds nothing to do.
fn micros(now: Instant) -> MicroInstant {
    MicroInstant::from_micros((now.as_nanos() / 1000) as i64)
}

/// The first nanosecond of the library's moment.
fn moment(at: MicroInstant) -> Instant {
    Instant::from_nanos((at.total_micros().max(0) as u64).saturating_mul(1000))
}

fn micro_duration(duration: Duration) -> MicroDuration {
    MicroDuration::from_micros(nanos(duration).div_ceil(1000))
}

/// The medium of one call: at most one packet in, one packet out.
struct Wire<'a> {
    mtu: usize,
    received: Option<&'a [u8]>,
    sent: &'a mut Vec<u8>,
}

struct Rx<'a>(&'a [u8]);

struct Tx<'a>(&'a mut Vec<u8>);

impl RxToken for Rx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, octets: usize, write: F) -> R {
        self.0.clear();
        self.0.resize(octets, 0);
        write(self.0)
    }
}

impl Device for Wire<'_> {
    type RxToken<'b>
        = Rx<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Tx<'b>
    where
        Self: 'b;

    fn receive(&mut self, _: MicroInstant) -> Option<(Rx<'_>, Tx<'_>)> {
        self.received
            .take()
            .map(|packet| (Rx(packet), Tx(self.sent)))
    }

    fn transmit(&mut self, _: MicroInstant) -> Option<Tx<'_>> {
        Some(Tx(self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// An interface with one address and one socket.
pub(super) struct SmoltcpEndpoint {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    config: TcpConfig,
    meter: Meter,
    error: Option<TcpError>,
    /// Whether [`TcpEndpoint::connect`] or [`TcpEndpoint::accept`] was called.
    opened: bool,
    /// Whether this end broke the connection, so that its end is no error.
    aborted: bool,
    /// An answer that a packet called forth at once.
    reply: Vec<u8>,
    wake: Option<Instant>,
}

impl SmoltcpEndpoint {
    /// Below this the library's own arithmetic on segment sizes has no room.
    const MTU_MIN: u32 = 128;
    /// The library refuses more than 1 GiB.
    const BUFFER_MAX: usize = 1 << 30;
    /// How long to wait where the library says «now» but has nothing to send.
    const STUCK: Duration = Duration::from_millis(1);

    pub(super) fn new(config: &TcpConfig, congestion: Congestion) -> Self {
        let config = TcpConfig {
            mtu: config.mtu.clamp(Self::MTU_MIN, 65_535),
            ..*config
        };
        let mut unused = Vec::new();
        let mut wire = Wire {
            mtu: config.mtu as usize,
            received: None,
            sent: &mut unused,
        };
        let mut settings = Config::new(HardwareAddress::Ip);
        settings.random_seed = config.seed;
        let mut interface = Interface::new(settings, &mut wire, MicroInstant::ZERO);
        let local = config.local.ip();
        if !local.is_unspecified() && !local.is_multicast() {
            let prefix = if local.is_ipv4() { 32 } else { 128 };
            interface.update_ip_addrs(|addresses| {
                // The list is empty: there is room for one.
                let _ = addresses.push(IpCidr::new(local.into(), prefix));
            });
        }
        let buffer = |octets: usize| SocketBuffer::new(vec![0; octets.clamp(1, Self::BUFFER_MAX)]);
        let mut socket = Socket::new(buffer(config.receive_octets), buffer(config.send_octets));
        socket.set_congestion_control(match congestion {
            Congestion::Cubic => CongestionControl::Cubic,
            Congestion::Reno => CongestionControl::Reno,
        });
        socket.set_nagle_enabled(config.nagle);
        let ack_delay = config.ack_delay.unwrap_or(TcpConfig::ACK_DELAY);
        socket.set_ack_delay(Some(micro_duration(ack_delay)));
        let give_up = config.give_up.unwrap_or(TcpConfig::GIVE_UP);
        socket.set_timeout(Some(micro_duration(give_up)));
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Self {
            interface,
            sockets,
            handle,
            config,
            meter: Meter::default(),
            error: None,
            opened: false,
            aborted: false,
            reply: Vec::new(),
            wake: None,
        }
    }

    fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn open(
        &mut self,
        start: impl FnOnce(&mut Socket<'static>, &mut Interface) -> bool,
    ) -> Result<(), TcpError> {
        let local = self.config.local.ip();
        let usable = !local.is_unspecified() && !local.is_multicast();
        let first = !std::mem::replace(&mut self.opened, true);
        let socket = self.sockets.get_mut::<Socket>(self.handle);
        if first && usable && start(socket, &mut self.interface) {
            Ok(())
        } else {
            Err(TcpError::Misused)
        }
    }

    /// Says why the connection is gone, if this end didn't end it.
    fn judge(&mut self, before: State, reset: bool) {
        let gone = self.socket().state() == State::Closed;
        let orderly = matches!(before, State::Closed | State::LastAck | State::TimeWait);
        if !gone || orderly || self.aborted || self.error.is_some() {
            return;
        }
        self.error = Some(match (reset, before) {
            (true, State::SynSent) => TcpError::Refused,
            (true, _) => TcpError::Reset,
            (false, _) => TcpError::TimedOut,
        });
    }

    fn count_sent(&mut self, packet: &[u8]) {
        if let Some(view) = tcp_header(packet) {
            self.meter
                .sent(view.seq, view.flags, view.payload.len() as u32);
        }
    }

    fn plan(&mut self, now: Instant) {
        let at = self
            .interface
            .poll_at(micros(now), &self.sockets)
            .map(moment);
        self.wake = at.map(|at| if at > now { at } else { now + Self::STUCK });
    }
}

impl TcpEndpoint for SmoltcpEndpoint {
    fn connect(&mut self, _: Instant) -> Result<(), TcpError> {
        let (local, remote) = (self.config.local, self.config.remote);
        self.open(|socket, interface| socket.connect(interface.context(), remote, local).is_ok())
    }

    fn accept(&mut self, _: Instant) -> Result<(), TcpError> {
        let local = self.config.local;
        self.open(|socket, _| socket.listen(local).is_ok())
    }

    fn send(&mut self, octets: &[u8]) -> usize {
        self.socket_mut().send_slice(octets).unwrap_or(0)
    }

    fn recv(&mut self, into: &mut [u8]) -> usize {
        self.socket_mut().recv_slice(into).unwrap_or(0)
    }

    fn is_drained(&self) -> bool {
        let socket = self.socket();
        let before_end = matches!(
            socket.state(),
            State::Listen | State::SynSent | State::SynReceived | State::Established
        );
        !before_end && !socket.may_recv() && socket.recv_queue() == 0
    }

    fn close(&mut self) {
        self.socket_mut().close();
    }

    fn abort(&mut self) {
        self.aborted = true;
        self.socket_mut().abort();
    }

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let before = self.socket().state();
        let view = tcp_header(packet);
        if let Some(view) = &view {
            self.meter.received(view.ack, view.flags);
        }
        let mut reply = std::mem::take(&mut self.reply);
        let mtu = self.config.mtu as usize;
        let mut wire = Wire {
            mtu,
            received: Some(packet),
            sent: &mut reply,
        };
        self.interface
            .poll_ingress_single(micros(now), &mut wire, &mut self.sockets);
        self.reply = reply;
        if before == State::SynReceived && self.socket().state() == State::Listen {
            // The library listens again after a reset; here, one endpoint is one connection.
            self.socket_mut().abort();
        }
        self.judge(
            before,
            view.is_some_and(|view| view.flags.contains(TcpFlags::RST)),
        );
    }

    fn handle_path_mtu(&mut self, _: Instant, _: u32) {}

    fn poll_packet(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        if self.reply.is_empty() {
            let before = self.socket().state();
            let mtu = self.config.mtu as usize;
            let mut wire = Wire {
                mtu,
                received: None,
                sent: out,
            };
            self.interface
                .poll_egress(micros(now), &mut wire, &mut self.sockets);
            self.judge(before, false);
        } else {
            std::mem::swap(out, &mut self.reply);
        }
        if out.is_empty() {
            self.plan(now);
            return false;
        }
        self.count_sent(out);
        true
    }

    fn wake(&self) -> Option<Instant> {
        self.wake
    }

    fn state(&self) -> TcpState {
        match self.socket().state() {
            State::Listen => TcpState::Listening,
            State::SynSent | State::SynReceived => TcpState::Connecting,
            State::Established | State::CloseWait => TcpState::Established,
            State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck
            | State::TimeWait => TcpState::Closing,
            State::Closed => TcpState::Closed,
        }
    }

    fn error(&self) -> Option<TcpError> {
        self.error
    }

    fn counters(&self) -> TcpCounters {
        self.meter.counters
    }
}
