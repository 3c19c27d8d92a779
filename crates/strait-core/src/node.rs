//! The contract between a node and whatever drives it: a live event loop or the simulator.
//!
//! The driver **pulls**. It offers a port only the [`Room`] that the medium has now, and the node
//! decides at that moment which octets go: nothing waits below the scheduler. After each
//! [`Node::handle`], and whenever a port gains room, the driver settles the node
//! ([`crate::drive::settle`]) and then reads [`Node::wake`].
//!
//! A late, early or repeated [`Input::Timeout`] does no harm. Nothing that depends on storage is
//! acknowledged before its [`Input::Stored`]. Each call does a bounded amount of work.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_wire::ip::{SynOptions, Unreachable};

use crate::fate::{FateRecord, Memory};
use crate::flow::Flow;
use crate::id::{ClassId, NeighbourId, Neighbours, PortId, TxId};
use crate::mail::{MailOrder, MailView};
use crate::names::NameEntry;
use crate::prefix::Prefix;
use crate::rate::LineRate;
use crate::stats::Stats;
use crate::time::{Duration, Instant};
use crate::tls::{TlsRole, TlsVersion};
use crate::waveform::Mode;
use crate::work::{Work, WorkError};

/// A gateway, a host, a relay: anything that has ports and a state.
///
/// The module `echo` of `strait-node` is a small example of what a part of a node does with
/// streams, datagrams and storage: it sends back what it gets. The smallest node, and what a driver
/// does with one, is the example of [`settle`](crate::drive::settle).
pub trait Node {
    /// Takes one input. `now` never goes back.
    fn handle(&mut self, now: Instant, input: Input<'_>);

    /// What the node would send first on `port`; `None` if it has nothing for it. On a shared
    /// medium this asks for access to the channel; elsewhere it saves a useless pull.
    fn wants(&self, port: PortId) -> Option<Want>;

    /// Of what `port` sends first, the octets that nothing goes before any more, whatever comes. A
    /// medium of octets may take all of them at once: it takes no choice from the node.
    fn committed_octets(&self, _port: PortId) -> usize {
        0
    }

    /// Whether the node takes input from `port` now; false is back-pressure.
    fn reads(&self, port: PortId) -> bool;

    /// Appends at most `room.octets` octets to `out` and says what they are. `None` means that
    /// nothing was appended and nothing changed.
    fn poll_transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta>;

    /// The next thing that the driver has to do or know.
    fn poll_effect(&mut self) -> Option<Effect>;

    /// When the node wants an [`Input::Timeout`], and why.
    fn wake(&self) -> Option<Wake>;

    /// What may be kept of an input that the node is about to take: the same without passwords,
    /// written to `room` where it isn't the input itself. A node that takes this in its place does
    /// the same, but for what it says to others.
    fn conceal<'a>(&self, input: Input<'a>, _room: &'a mut Vec<u8>) -> Input<'a> {
        input
    }

    /// Works with another memory of a ledger from now on, as far as nothing is kept in the one
    /// before. Nothing that the node does depends on it.
    fn exchange(&mut self, _memory: &mut Memory) {}

    /// What the node has counted.
    fn stats(&self) -> &Stats;

    /// The flows that the node knows, where it tells them apart.
    fn flows(&self) -> Vec<Flow> {
        Vec::new()
    }

    /// The names that the node knows or asks for, where it looks them up.
    fn names(&self, _now: Instant) -> Vec<NameEntry> {
        Vec::new()
    }

    /// What the node's message switch has.
    fn mail(&self, _now: Instant) -> MailView {
        MailView::default()
    }

    /// Asserts the invariants that are too dear for each call.
    fn check(&self);
}

/// Makes the incarnations of one configured node.
///
/// A new incarnation hears nothing that was meant for an earlier one: no [`Input::Stored`],
/// [`Input::Worked`], [`Input::TxDone`] or [`PortEvent::Drained`]. Frames under way reach it as
/// they reach any node.
pub trait NodeFactory {
    /// A node as it is right after its start.
    fn boot(&self, boot: Boot) -> Box<dyn Node>;
}

/// What a node finds at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// 0 for the first start, 1 after the first restart: part of every random stream's name.
    pub incarnation: u32,
    /// Seed of the node's own randomness.
    pub entropy: u64,
    /// Calendar time, if it is known.
    pub wall: Option<WallTime>,
    /// What the storage holds: every key with the number of its value's octets, in the order of the
    /// keys. [`Effect::Load`] reads the values.
    pub stored: Vec<(Vec<u8>, u64)>,
}

/// Calendar time: nanoseconds since 1970-01-01 UTC, leap seconds not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(pub u64);

/// What a driver tells a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// The moment of [`Node::wake`] has come.
    Timeout,
    /// A frame, or on an octet stream the next octets, arrived.
    Frame {
        /// Where.
        port: PortId,
        /// From whom; [`NeighbourId::PEER`] on a port with one neighbour.
        from: NeighbourId,
        /// Its octets.
        bytes: &'a [u8],
        /// What the medium knows of it.
        meta: FrameMeta,
    },
    /// A port changed.
    Port {
        /// Which.
        port: PortId,
        /// How.
        event: PortEvent,
    },
    /// The medium is done with a transmission.
    TxDone {
        /// Where.
        port: PortId,
        /// The number that the transmission's [`TxMeta`] had.
        id: TxId,
        /// For whom it was, by the same; [`NeighbourId::ALL`] if it was for all on the port.
        to: NeighbourId,
        /// Whether the medium delivered it, as far as it knows; `None` if it only tells that the
        /// transmission has left.
        ok: Option<bool>,
    },
    /// The host's routing changed.
    Route(RouteChange),
    /// What came of [`Effect::Route`].
    Routed {
        /// The prefix.
        prefix: Prefix,
        /// What.
        event: RouteEvent,
    },
    /// Something happened on a byte stream that ends at this node.
    Stream {
        /// Which stream.
        id: StreamId,
        /// What happened.
        event: StreamEvent<'a>,
    },
    /// Something happened to one of the node's own sockets.
    Socket {
        /// Which.
        id: SocketId,
        /// What.
        event: SocketEvent,
    },
    /// A datagram for one of the node's own sockets.
    Datagram {
        /// The socket.
        socket: SocketId,
        /// Who sent it, to whom, and how.
        meta: DatagramMeta,
        /// Its payload.
        bytes: &'a [u8],
    },
    /// The batch with this ticket is on stable storage, or could not be put there.
    Stored {
        /// The number from [`Effect::Store`].
        ticket: Ticket,
        /// Whether it is there; a batch that isn't changed nothing.
        result: Result<(), StoreError>,
    },
    /// What [`Effect::Load`] asked for.
    Loaded {
        /// The number from [`Effect::Load`].
        ticket: Ticket,
        /// As many octets as were asked for and are there, none behind the value's end; `None` if
        /// there is no such key.
        result: Result<Option<&'a [u8]>, StoreError>,
    },
    /// What came of [`Effect::Work`].
    Worked {
        /// The number from there.
        ticket: Ticket,
        /// The octets that it gave.
        result: Result<&'a [u8], WorkError>,
    },
    /// Calendar time became known or was set.
    Wall(WallTime),
    /// An operator's wish.
    Command(Command),
}

/// What a medium knows of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMeta {
    /// The medium found errors in it but hands it up.
    pub damaged: bool,
    /// Signal-to-noise ratio in hundredths of a decibel, where the medium measures it.
    pub snr_centi_db: Option<i16>,
    /// The rate by which it came, in bit/s, where the medium has several and tells.
    pub rate_bit_s: Option<u32>,
}

/// A change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The port can send and receive, and all its neighbours are there.
    Up(PortState),
    /// Rate, size or latency changed. A change of rate starts a new burst.
    Changed(PortState),
    /// Half duplex: the other side began (true) or ended (false) its transmission. A port that
    /// comes up while the other side transmits is told so right after [`PortEvent::Up`]; before
    /// it hears of a carrier, a node may take the medium for silent.
    Carrier(bool),
    /// All that was pulled has left.
    Drained,
    /// One of several neighbours came (true) or went (false), where the medium can tell; while it
    /// is away, what is for it waits. Whoever isn't there when the port comes up is told of right
    /// after [`PortEvent::Up`].
    Neighbour(NeighbourId, bool),
    /// Rate towards one of several neighbours, where the medium has not the same for all. Whoever
    /// hasn't been told of since [`PortEvent::Up`] has the port's. It holds until it is told again.
    NeighbourRate(NeighbourId, LineRate),
    /// The port can neither send nor receive.
    Down(DownCause),
}

/// Why a port is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownCause {
    /// Its device is gone or was never there.
    Device,
    /// The medium reports no connection.
    Carrier,
}

/// What a medium offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState {
    /// Rate towards the neighbour; of several with different ones, towards the first that is there.
    pub tx_rate: LineRate,
    /// Rate from the neighbour.
    pub rx_rate: LineRate,
    /// The longest frame that the medium takes, in octets; no limit on an octet stream.
    pub frame_octets_max: u32,
    /// Duration of the medium's smallest transmission unit, such as an interleaver block.
    pub block: Duration,
    /// Time from the last octet sent to its arrival.
    pub latency: Duration,
    /// When others notice that this port sends, and that it doesn't any more.
    pub notice: Notice,
}

/// How long it takes until all others on a shared medium notice what one of them does. Zero where
/// nobody else is there, and where it isn't known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// From the decision to begin, and as much longer as the others may differ in when they noticed
    /// the end before.
    pub begin: Duration,
    /// From the end of a transmission.
    pub end: Duration,
}

impl Notice {
    /// What is known of a medium that isn't shared.
    pub const NONE: Self = Self {
        begin: Duration::ZERO,
        end: Duration::ZERO,
    };

    /// What tells two beginnings of stations apart, beside their own times.
    const MARGIN: Duration = Duration::from_millis(10);

    /// Among radios that take so long from keying to power, to detect it or that it is gone, and
    /// whose farthest is away so far.
    #[must_use]
    pub fn of(turnaround: Duration, carrier_detect: Duration, delay: Duration) -> Self {
        let end = carrier_detect + delay;
        Self {
            // Who is near noticed the end before so much earlier than who is far.
            begin: turnaround + end + delay + Self::MARGIN,
            end,
        }
    }
}

/// A change of the host's routing table that concerns a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// Packets to the prefix go to this neighbour.
    Add {
        /// First address of the prefix.
        prefix: IpAddr,
        /// Its length in bits.
        length: u8,
        /// The port to leave by.
        port: PortId,
        /// The neighbour on that port.
        via: NeighbourId,
    },
    /// No packet to the prefix goes anywhere by this entry any more.
    Remove {
        /// First address of the prefix.
        prefix: IpAddr,
        /// Its length in bits.
        length: u8,
    },
}

/// What a node wants of its host's routing table for one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteOp {
    /// The host reaches the prefix by this node, so and no more as it was said before.
    Lead(Lead),
    /// It doesn't any more.
    Withdraw,
}

/// How a host reaches something by a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lead {
    /// By which of the node's host sides.
    pub port: PortId,
    /// Of several ways to one prefix the host takes that with the least; 0 leaves the choice to the
    /// host's system.
    pub metric: u32,
}

/// What came of a prefix that the host is to reach by the node: told once, and when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEvent {
    /// The host has it. It is put again where somebody takes it, without a word.
    There,
    /// It can't be had for now, and is tried again; the error number is the operating system's.
    Failed(i32),
}

/// A part of a node that streams, sockets and tickets belong to, such as a port. The node gives out
/// the numbers, and drivers only repeat them: what happens to a stream goes to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u16);

impl Owner {
    /// What belongs to a port.
    pub const fn port(port: PortId) -> Self {
        Self(port.0 as u16)
    }
}

/// A byte stream that ends at this node: a proxied connection, a client of a local service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    /// Whose it is: that of the listener, or who asked for it.
    pub owner: Owner,
    /// Who began it, and so chose its number.
    pub side: Side,
    /// Its number among its owner's from this side; none is used twice by one incarnation.
    pub n: u64,
}

/// Who began a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The node, by [`StreamOp::Connect`].
    Node,
    /// A client, which came to one of the node's listeners.
    Client,
}

/// A socket of the node: it listens for streams, or takes datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId {
    /// Whose it is.
    pub owner: Owner,
    /// Its number among its owner's.
    pub n: u32,
}

/// What a node does with a socket of its own. A driver that can't have a socket yet says so once
/// and goes on trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOp {
    /// Take streams.
    Listen(Listen),
    /// Take and send datagrams.
    Bind(Bind),
    /// Have it no longer. Streams that came by it stay.
    Close,
}

/// A listener for streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where; port 0 is any that is free.
    pub address: SocketAddr,
    /// Connections to any address are taken, as the host's rules bring them here
    /// (`IP_TRANSPARENT`); [`StreamEvent::Opened`] says which.
    pub transparent: bool,
    /// The code point of what is sent before the node knows the client.
    pub dscp: u8,
    /// Streams at a time; further clients wait.
    pub streams_max: u32,
    /// What may wait on each of its streams.
    pub held: Held,
    /// The node is asked about each client ([`StreamEvent::Asked`]) and has so long to answer. Live
    /// this needs the right to raw sockets, and an IPv6 listener takes IPv6 alone.
    pub asks: Option<Duration>,
}

impl Listen {
    /// An ordinary listener with ordinary limits.
    pub const fn at(address: SocketAddr) -> Self {
        Self {
            address,
            transparent: false,
            dscp: 0,
            streams_max: 128,
            held: Held::ORDINARY,
            asks: None,
        }
    }
}

/// The most octets of a stream that wait outside the node: in the driver, and in buffers of the
/// operating system as far as these can be made so small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Towards the node, before it takes them.
    pub inbound: u32,
    /// From the node, before the other side takes them: what [`StreamEvent::Writable`] adds up to.
    pub outbound: u32,
}

impl Held {
    /// For local programs: no line is behind these.
    pub const ORDINARY: Self = Self {
        inbound: 64 * 1024,
        outbound: 64 * 1024,
    };

    /// What a line of `bit_s` carries in `time`, each way, at least `least` octets.
    pub fn by_time(bit_s: u64, time: Duration, least: u32) -> Self {
        let octets = u128::from(bit_s) * time.as_nanos() / 8_000_000_000;
        let octets = u32::try_from(octets).unwrap_or(u32::MAX).max(least);
        Self {
            inbound: octets,
            outbound: octets,
        }
    }
}

/// A socket for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Where; port 0 is any that is free.
    pub address: SocketAddr,
    /// A multicast group to be a member of, at the interface that has `address`.
    pub group: Option<IpAddr>,
    /// Datagrams to any address are taken and sent from any (`IP_TRANSPARENT`).
    pub transparent: bool,
}

/// What goes around a datagram's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramMeta {
    /// Where it comes from; one that is sent comes from its socket's address, unless the socket is
    /// transparent.
    pub src: SocketAddr,
    /// Where it goes.
    pub dst: SocketAddr,
    /// The code point of its packet.
    pub dscp: u8,
    /// The hop limit of its packet.
    pub hop_limit: u8,
}

/// What happened to a socket of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// It is there, at this address.
    Bound(SocketAddr),
    /// It can't be had for now; the error number is the operating system's.
    Failed(i32),
}

/// A storage operation or a piece of work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Who asked for it.
    pub owner: Owner,
    /// Its number among its owner's.
    pub n: u64,
}

/// Why a batch could not be stored, or a value not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// No space is left.
    Full,
    /// This node was given no storage.
    Absent,
    /// The device failed. A batch may still turn out to be there after the next start.
    Failed,
    /// Too much waits to be stored or read already.
    Busy,
}

/// What happens on a byte stream. Credit bounds what is buffered on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent<'a> {
    /// A client wants a connection, and hears nothing until the node says [`StreamOp::Accept`] or
    /// [`StreamOp::Refuse`]. It is asked about once, however often it asks meanwhile. After a
    /// [`StreamEvent::Reset`] it is forgotten: the node was too late, or too many came.
    Asked {
        /// The listener that it came to.
        listener: SocketId,
        /// The client's address.
        src: SocketAddr,
        /// The address that it wants.
        dst: SocketAddr,
        /// The code point of its packet.
        dscp: u8,
        /// What it says of how it wants to be sent to.
        options: SynOptions,
    },
    /// A connection is open.
    Opened {
        /// The listener that took it, or `None` if the node asked for it.
        listener: Option<SocketId>,
        /// The client's address.
        src: SocketAddr,
        /// The address that it wanted.
        dst: SocketAddr,
        /// The code point of its packets.
        dscp: u8,
    },
    /// What [`StreamOp::StartTls`] asked for is there: all octets from now on came from whom it
    /// says, and nobody else has read or changed them.
    Secured {
        /// Whose certificate the profile's trust has verified: the name that was asked for, or the
        /// first host name of a client's. `None` for who showed none, or one without a host's name.
        peer: Option<&'a str>,
        /// The version that both agreed on.
        version: TlsVersion,
    },
    /// Octets arrived.
    Data(&'a [u8]),
    /// So many more octets may be sent.
    Writable(u32),
    /// The other side sends no more. It still takes what the node sends. Secured, it has said so
    /// itself: an end that it didn't tell is a reset ([`TlsFault::Truncated`]).
    ///
    /// [`TlsFault::Truncated`]: crate::tls::TlsFault::Truncated
    Fin,
    /// The stream is gone, and what was on its way with it; the error number is the operating
    /// system's, or that of a [`TlsFault`](crate::tls::TlsFault). A stream that had its end in both
    /// directions is gone without this.
    Reset(i32),
}

/// What a node does to a byte stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOp {
    /// Connect from `src` to `dst`.
    Connect {
        /// The address to come from, which needn't be the host's own (`IP_TRANSPARENT`); port 0 is
        /// any that is free, as is another one from which a stream goes to `dst` already.
        src: Option<SocketAddr>,
        /// The address to go to.
        dst: SocketAddr,
        /// The code point of its packets.
        dscp: u8,
        /// What may wait on it.
        held: Held,
    },
    /// Let the client have its connection: [`StreamEvent::Opened`] follows, or a reset if that
    /// comes to nothing or the listener has all its streams. Then the client asks again.
    Accept,
    /// Don't let the client have its connection. The stream is gone without a word. A client that
    /// was accepted, and isn't there yet, has its answer: whatever the refusal, it is reset.
    Refuse(Refusal),
    /// From now on so much may wait on it.
    Hold(Held),
    /// From now on its packets have this code point.
    Mark(u8),
    /// Have TLS on it, behind all that was sent so far: from the start, when it has opened, or in
    /// mid-stream. [`StreamEvent::Secured`] follows, or a reset with a
    /// [`TlsFault`](crate::tls::TlsFault). What is sent meanwhile waits. Keys are the driver's: the
    /// node has and gives clear octets, and its credits count these.
    ///
    /// What the node hasn't heard yet belongs to TLS, and is a fault if it is in the clear. What it
    /// has heard came in the clear: whoever begins in mid-stream has to see that nothing came
    /// behind the word that asked for it, or somebody else may have put it there.
    StartTls {
        /// A profile of the node's driver, by its name: certificates, keys, whom it trusts.
        profile: String,
        /// Who the node is.
        role: TlsRole,
    },
    /// Send octets, within the credit.
    Send(Vec<u8>),
    /// The node takes so many more octets.
    Credit(u32),
    /// The node sends no more. It still takes what comes, until that has its end too.
    Fin,
    /// End at once, telling the other side this error number.
    Reset(i32),
}

/// What a client hears that isn't accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A reset, as if nobody listened.
    Reset,
    /// An ICMP error; nothing on the loopback interface.
    Unreachable(Unreachable),
    /// Nothing: it is forgotten, and asks again.
    Silence,
    /// Nothing from here: its packet goes on to whom it is for, as if nobody listened. One that is
    /// for the listener's own address hears nothing.
    Pass,
}

/// One change of a stored value; a batch of them is atomic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// Set a value.
    Put(Vec<u8>, Vec<u8>),
    /// Append to a value, which begins empty. This costs by what is appended, however long the
    /// value is.
    Append(Vec<u8>, Vec<u8>),
    /// Remove a value.
    Delete(Vec<u8>),
}

/// An operator's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take no more packets in and give every held packet its fate: the node is about to stop.
    Stop,
    /// Something about a message of the node's switch.
    Mail(MailOrder),
}

/// What the node would send first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Its class.
    pub class: ClassId,
    /// About how many octets it would put on the medium.
    pub octets: u32,
    /// To whom.
    pub to: NeighbourId,
}

/// What a medium can take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The most octets.
    pub octets: usize,
    /// When the first of them leaves; not before `now`.
    pub starts: Instant,
    /// The latest moment at which the last may leave, if there is one.
    pub until: Option<Instant>,
    /// Whom it is for. Where each neighbour has a way of its own, others' ways are taken now.
    pub to: Neighbours,
}

/// What was put on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxMeta {
    /// For whom; [`NeighbourId::PEER`] on a port with one neighbour.
    pub to: NeighbourId,
    /// The class of its content.
    pub class: ClassId,
    /// The node's number for it, repeated in [`Input::TxDone`].
    pub id: TxId,
    /// On a half-duplex medium: the turn that this transmission belongs to.
    pub turn: Option<Turn>,
}

impl TxMeta {
    /// A transmission to the only neighbour, outside any turn.
    pub const fn to_peer(class: ClassId) -> Self {
        Self {
            to: NeighbourId::PEER,
            class,
            id: TxId(0),
            turn: None,
        }
    }
}

/// A half-duplex turn, planned by the node that owns it. Its content may change while it lasts,
/// its length may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whether this transmission begins the turn: the medium keys up.
    pub key_up: bool,
    /// Length of the whole turn in the medium's blocks.
    pub blocks: u32,
    /// Whether this transmission ends it.
    pub last: bool,
    /// The waveform, where a turn may choose one that the receivers recognise; else, and if absent,
    /// it is the medium's own. All transmissions of a turn name the same.
    pub mode: Option<Mode>,
}

/// When a node wants to be called, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The moment.
    pub at: Instant,
    /// The reason.
    pub why: WakeReason,
}

/// Why a node wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// A queued packet grows too old.
    Age,
    /// An application on a host has something to do.
    Application,
    /// A gap that was left for an expected packet is over.
    Gap,
    /// Something is to be said on the local network: asked for, advertised, repeated.
    Local,
    /// A missing piece of a packet isn't waited for any longer.
    Reassembly,
    /// Something unacknowledged is to be sent again.
    Retransmit,
    /// A shaper may send again.
    Shaper,
    /// A half-duplex turn or channel access is to be decided.
    Turn,
}

/// What a node asks of its driver, or reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A packet's stay ended.
    Fate(FateRecord),
    /// Something to do with a socket of the node's own.
    Socket {
        /// Which; the node chooses its number.
        id: SocketId,
        /// What to do.
        op: SocketOp,
    },
    /// Something to do on a byte stream.
    Stream {
        /// Which stream; for [`StreamOp::Connect`] a number that the node chose.
        id: StreamId,
        /// What to do.
        op: StreamOp,
    },
    /// A datagram to send from one of the node's own sockets.
    Datagram {
        /// The socket.
        socket: SocketId,
        /// To whom, and how.
        meta: DatagramMeta,
        /// Its payload.
        bytes: Vec<u8>,
    },
    /// Put a batch on stable storage, whole or not at all, and say when it is there; see
    /// [`crate::storage`].
    Store {
        /// The number for [`Input::Stored`].
        ticket: Ticket,
        /// The changes, in order.
        batch: Vec<StoreOp>,
    },
    /// Read one chunk of a value, as it is behind all batches that were asked for before.
    Load {
        /// The number for [`Input::Loaded`].
        ticket: Ticket,
        /// Which value.
        key: Vec<u8>,
        /// Where to begin.
        offset: u64,
        /// The most octets to give, [`LOAD_OCTETS_MAX`](crate::storage::LOAD_OCTETS_MAX) in any
        /// case.
        octets: u32,
    },
    /// Do something that isn't for the node's thread; see [`crate::work`].
    Work {
        /// The number for [`Input::Worked`].
        ticket: Ticket,
        /// What to do.
        work: Work,
    },
    /// Have the host reach a prefix by this node, or no more; see [`crate::host_routes`]. Bits
    /// behind the prefix count for nothing.
    Route {
        /// The prefix.
        prefix: Prefix,
        /// How.
        op: RouteOp,
    },
}
