//! What a driver does with a node's sockets, streams and datagrams, in lines that the simulator and
//! the live driver both pass. Each includes this by its path, implements [`World`], and has a test
//! for each line made by [`driver_suite!`].
//!
//! A world is a node and one host on a network that joins both. The node is a [`Puppet`]: it asks
//! for what a line tells it to, and keeps what it hears.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "parts of a test"
)]

pub mod asked;
pub mod datagrams;
pub mod foreign;
pub mod rates;
pub mod routes;
pub mod sockets;
pub mod streams;
pub mod tls;
pub mod works;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use strait_core::fate::{Ledger, Origin};
use strait_core::node::{
    Boot, DatagramMeta, Held, Listen, NodeFactory, Owner, PortEvent, Room, Side, SocketEvent,
    SocketId, SocketOp, StreamEvent, StreamId, StreamOp, Ticket, TxMeta, Wake, Want,
};
use strait_core::node::{RouteEvent, RouteOp};
use strait_core::prefix::Prefix;
use strait_core::rate::LineRate;
use strait_core::stats::{PortStats, Stats};
use strait_core::tls::{TlsFault, TlsVersion};
use strait_core::work::{Work, WorkError};
use strait_core::{
    ClassId, DropCause, Duration, Effect, Input, Instant, NeighbourId, Node, PortId, WakeReason,
};

/// A node's driver, the network at its host side, and a host there.
pub trait World {
    /// A world whose node `factory` makes. It has started.
    fn new(factory: Box<dyn NodeFactory + Send>) -> Self
    where
        Self: Sized;
    /// The node's address on the network.
    fn node(&self) -> IpAddr;
    /// The host's.
    fn host(&self) -> IpAddr;
    /// A port number that nobody uses, another with each call.
    fn port(&mut self) -> u16;
    /// Lets so much time pass.
    fn run(&mut self, time: Duration);
    /// Ends the node without warning.
    fn kill(&mut self);
    /// Starts it again.
    fn restart(&mut self);

    /// The host begins to connect, with this code point.
    fn connect(&mut self, dst: SocketAddr, dscp: u8) -> Tcp;
    /// The host listens at a port of its own; connections become [`World::accepted`].
    fn listen(&mut self, port: u16);
    /// The next connection that came to the host.
    fn accepted(&mut self) -> Option<Accepted>;
    /// Where a connection of the host stands.
    fn state(&mut self, tcp: Tcp) -> State;
    /// The code point of the last packet that came to the host on a connection.
    fn marked(&mut self, tcp: Tcp) -> u8;
    /// Sends of these octets what the host's buffers take, and says how many.
    fn send(&mut self, tcp: Tcp, octets: &[u8]) -> usize;
    /// Takes at most so many octets of those that came.
    fn read(&mut self, tcp: Tcp, most: usize) -> Vec<u8>;
    /// The host sends no more, and still reads.
    fn fin(&mut self, tcp: Tcp);
    /// The host ends the connection at once.
    fn reset(&mut self, tcp: Tcp);
    /// The host begins TLS on a connection: what it sends and reads, and its end, go by that.
    fn secure(&mut self, tcp: Tcp, how: tls::HostTls);
    /// What has come of that.
    fn secured(&mut self, tcp: Tcp) -> Option<Result<TlsVersion, TlsFault>>;
    /// The host ends its direction of the connection without saying so by TLS.
    fn cut(&mut self, tcp: Tcp);

    /// A socket for datagrams at the host, at a port of its own.
    fn bind(&mut self, port: u16) -> Udp;
    /// Sends a datagram from the host; the source of `meta` is the socket's.
    fn send_to(&mut self, udp: Udp, meta: DatagramMeta, bytes: &[u8]);
    /// The next datagram that came to the host.
    fn received(&mut self, udp: Udp) -> Option<(DatagramMeta, Vec<u8>)>;

    /// Brings what the host sends to [`World::foreign`] to the node's transparent sockets at this
    /// port, where that takes rules of an operator.
    fn divert(&mut self, port: u16);

    /// What the node's host reaches by the node's host side, with its metrics, in order.
    fn led(&mut self) -> Vec<(Prefix, u32)>;
    /// Somebody takes such a route from the host's table.
    fn take_route(&mut self, prefix: Prefix, metric: u32);
    /// Somebody leads a prefix elsewhere by that table, with this metric.
    fn occupy(&mut self, prefix: Prefix, metric: u32);
    /// They don't any more.
    fn vacate(&mut self, prefix: Prefix, metric: u32);

    /// A multicast group that the world's network carries.
    fn group(&self) -> IpAddr {
        self.by_family([239, 1, 2, 3], "ff15::3")
    }
    /// An address beyond the node, as the host sees it, and nobody's (RFC 5737, RFC 3849).
    fn foreign(&self) -> IpAddr {
        self.by_family([192, 0, 2, 7], "2001:db8::7")
    }
    /// An address of the network that nobody has.
    fn nobody(&self) -> IpAddr {
        self.by_family([10, 1, 0, 77], "fd01::77")
    }
    /// Of the node's loopback interface.
    fn loopback(&self) -> IpAddr {
        self.by_family([127, 0, 0, 1], "::1")
    }
    /// The one of the two that is of the world's family.
    fn by_family(&self, v4: [u8; 4], v6: &str) -> IpAddr {
        let v6 = || v6.parse().unwrap();
        if self.node().is_ipv6() {
            v6()
        } else {
            v4.into()
        }
    }
}

/// A TCP connection of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tcp(pub usize);

/// A UDP socket of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Udp(pub usize);

/// A connection that came to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub tcp: Tcp,
    /// Where it comes from.
    pub src: SocketAddr,
    /// The code point of its packets.
    pub dscp: u8,
}

/// Where a connection of the host stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Opening,
    Open,
    /// The other side sends no more, and everything was read.
    Drained,
    /// Nobody takes it.
    Refused,
    /// A router says that there is no way.
    Unreachable,
    /// The other side ended it at once.
    Reset,
}

/// What a puppet heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Socket(SocketId, SocketEvent),
    Opened {
        id: StreamId,
        listener: Option<SocketId>,
        src: SocketAddr,
        dst: SocketAddr,
        dscp: u8,
    },
    Asked {
        id: StreamId,
        listener: SocketId,
        src: SocketAddr,
        dst: SocketAddr,
        dscp: u8,
        mss: Option<u16>,
    },
    Secured {
        id: StreamId,
        peer: Option<String>,
        version: TlsVersion,
    },
    Data(StreamId, Vec<u8>),
    Writable(StreamId, u32),
    Fin(StreamId),
    Reset(StreamId, i32),
    Datagram(SocketId, DatagramMeta, Vec<u8>),
    Worked(Ticket, Result<Vec<u8>, WorkError>),
    Routed(Prefix, RouteEvent),
}

#[derive(Debug, Default)]
struct Strings {
    asks: VecDeque<Effect>,
    heard: Vec<Heard>,
    /// What each life of the node declares at its start.
    sockets: Vec<(SocketId, SocketOp)>,
    routes: Vec<(Prefix, RouteOp)>,
    /// What it does at once with each stream that opens.
    greeting: Option<StreamOp>,
    /// What it was told of the rates to neighbours.
    rates: Vec<(NeighbourId, LineRate)>,
    /// How many more rates it is to be told of since the port with such came up.
    rates_due: usize,
    /// Frames that were pulled before it was told of all of them.
    early: usize,
    /// It sends as much as it may to the neighbours of the port that has such.
    floods: bool,
    /// By neighbour, when frames were pulled for it, and their octets.
    sent: [Vec<(Instant, usize)>; 2],
}

/// The hand of a node that does what it is told.
#[derive(Clone, Debug, Default)]
pub struct Puppet(Arc<Mutex<Strings>>);

/// What the puppet's own streams and sockets belong to.
pub const OWNER: Owner = Owner(700);

/// A socket of the puppet's.
pub const fn socket(n: u32) -> SocketId {
    SocketId { owner: OWNER, n }
}

/// A piece of work of the puppet's.
pub const fn ticket(n: u64) -> Ticket {
    Ticket { owner: OWNER, n }
}

/// A stream that the puppet begins.
pub const fn stream(n: u64) -> StreamId {
    StreamId {
        owner: OWNER,
        side: Side::Node,
        n,
    }
}

impl Puppet {
    /// A puppet in a world of its own.
    pub fn stage<W: World>() -> (Self, W) {
        let puppet = Self::default();
        let world = W::new(Box::new(puppet.clone()));
        (puppet, world)
    }

    fn strings(&self) -> std::sync::MutexGuard<'_, Strings> {
        self.0.lock().unwrap()
    }

    /// Has the node do something with a socket; opened ones are declared at each further start.
    pub fn socket(&self, id: SocketId, op: SocketOp) {
        let mut strings = self.strings();
        strings.asks.push_back(Effect::Socket { id, op });
        if op != SocketOp::Close {
            strings.sockets.push((id, op));
        }
    }

    /// Has the node listen, with limits of so many octets each way.
    pub fn listen(&self, id: SocketId, address: SocketAddr, octets: u32) {
        let held = held(octets);
        let listen = Listen {
            held,
            ..Listen::at(address)
        };
        self.socket(id, SocketOp::Listen(listen));
    }

    /// Has the node lead to a prefix or not, also at each further start.
    pub fn route(&self, prefix: Prefix, op: RouteOp) {
        let mut strings = self.strings();
        strings.asks.push_back(Effect::Route { prefix, op });
        strings.routes.push((prefix, op));
    }

    /// Has the node do something with a stream.
    pub fn stream(&self, id: StreamId, op: StreamOp) {
        let effect = Effect::Stream { id, op };
        self.strings().asks.push_back(effect);
    }

    /// Has the node do this with each stream, as soon as it hears that it is there.
    pub fn greet(&self, op: StreamOp) {
        self.strings().greeting = Some(op);
    }

    /// Has the node send as much as it may to both neighbours, or no more; when frames were pulled
    /// for each before, and their octets.
    pub fn floods(&self, on: bool) -> [Vec<(Instant, usize)>; 2] {
        let mut strings = self.strings();
        strings.floods = on;
        std::mem::take(&mut strings.sent)
    }

    /// Has the node ask for pieces of work at once, numbered from 0.
    pub fn works(&self, works: Vec<Work>) {
        let effect = |(n, work)| Effect::Work {
            ticket: ticket(n),
            work,
        };
        let effects = (0..).zip(works).map(effect);
        self.strings().asks.extend(effects);
    }

    /// Has the node connect, with ordinary limits.
    pub fn connect(&self, n: u64, src: Option<SocketAddr>, dst: SocketAddr, dscp: u8) {
        let held = Held::ORDINARY;
        let op = StreamOp::Connect {
            src,
            dst,
            dscp,
            held,
        };
        self.stream(stream(n), op);
    }

    /// Has the node send a datagram.
    pub fn datagram(&self, socket: SocketId, meta: DatagramMeta, bytes: &[u8]) {
        let bytes = bytes.to_vec();
        let effect = Effect::Datagram {
            socket,
            meta,
            bytes,
        };
        self.strings().asks.push_back(effect);
    }

    /// Everything that its nodes heard so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.strings().heard.clone()
    }

    /// The octets that came by a stream.
    pub fn data(&self, id: StreamId) -> Vec<u8> {
        let data = self.heard().into_iter().filter_map(|heard| match heard {
            Heard::Data(of, bytes) if of == id => Some(bytes),
            _ => None,
        });
        data.flatten().collect()
    }

    /// What may be sent on a stream, together.
    pub fn writable(&self, id: StreamId) -> u64 {
        let words = self.heard().into_iter().map(|heard| match heard {
            Heard::Writable(of, octets) if of == id => u64::from(octets),
            _ => 0,
        });
        words.sum()
    }

    /// The streams that clients opened, in order.
    pub fn clients(&self) -> Vec<StreamId> {
        let opened = self.heard().into_iter().filter_map(|heard| match heard {
            Heard::Opened { id, .. } if id.side == Side::Client => Some(id),
            _ => None,
        });
        opened.collect()
    }

    /// Waits until it has heard something.
    pub fn hears<W: World>(&self, world: &mut W, heard: &Heard) {
        let what = format!("{heard:?}");
        until(world, &what, |_| self.heard().contains(heard));
    }

    /// Listens, and has a client of the host's: its stream, and the host's connection.
    pub fn client<W: World>(&self, world: &mut W, octets: u32) -> (StreamId, Tcp) {
        let address = SocketAddr::new(world.node(), world.port());
        self.listen(socket(1), address, octets);
        self.hears(
            world,
            &Heard::Socket(socket(1), SocketEvent::Bound(address)),
        );
        let tcp = world.connect(address, 0);
        until(world, "a client", |_| !self.clients().is_empty());
        (self.clients()[0], tcp)
    }
}

/// So many octets each way.
pub const fn held(octets: u32) -> Held {
    Held {
        inbound: octets,
        outbound: octets,
    }
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long nothing must happen.
pub const SILENCE: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(2);

/// Lets time pass until something is so.
pub fn until<W: World>(world: &mut W, what: &str, mut so: impl FnMut(&mut W) -> bool) {
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        if so(world) {
            return;
        }
        world.run(STEP);
    }
    assert!(so(world), "waited in vain for: {what}");
}

/// Sends all of these from the host, as it can.
pub fn send_all<W: World>(world: &mut W, tcp: Tcp, octets: &[u8]) {
    let mut sent = 0;
    until(world, "room to send", |world| {
        sent += world.send(tcp, &octets[sent..]);
        sent == octets.len()
    });
}

/// Reads so many octets at the host.
pub fn read_all<W: World>(world: &mut W, tcp: Tcp, count: usize) -> Vec<u8> {
    let mut came = Vec::new();
    until(world, "octets to read", |world| {
        came.extend(world.read(tcp, count - came.len()));
        came.len() == count
    });
    came
}

/// Waits for a connection of the host to stand so.
pub fn until_state<W: World>(world: &mut W, tcp: Tcp, state: State) {
    until(world, &format!("{state:?}"), |world| {
        world.state(tcp) == state
    });
}

/// Octets that say where they are.
pub fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32)
        .map(|at| (at ^ at >> 8 ^ at >> 16) as u8)
        .collect()
}

impl NodeFactory for Puppet {
    fn boot(&self, _: Boot) -> Box<dyn Node> {
        let mut strings = self.strings();
        let sockets = strings.sockets.clone().into_iter();
        let sockets = sockets.map(|(id, op)| Effect::Socket { id, op });
        let routes = strings.routes.clone().into_iter();
        let routes = routes.map(|(prefix, op)| Effect::Route { prefix, op });
        strings.asks = sockets.chain(routes).collect();
        drop(strings);
        Box::new(Body {
            puppet: self.clone(),
            looks_at: Instant::ZERO,
            ledger: Ledger::new(Stats {
                ports: vec![PortStats::default()],
                ..Stats::default()
            }),
        })
    }
}

/// Octets of a frame to a neighbour.
const FRAME_OCTETS: usize = 100;

/// The node itself.
#[derive(Debug)]
struct Body {
    puppet: Puppet,
    /// When it next looks at what it is told.
    looks_at: Instant,
    /// Packets that come to it have no way on.
    ledger: Ledger,
}

impl Node for Body {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.looks_at = now + Duration::from_millis(1);
        let heard = match input {
            Input::Socket { id, event } => Heard::Socket(id, event),
            Input::Datagram {
                socket,
                meta,
                bytes,
            } => Heard::Datagram(socket, meta, bytes.to_vec()),
            Input::Stream { id, event } => match event {
                StreamEvent::Asked {
                    listener,
                    src,
                    dst,
                    dscp,
                    options,
                } => Heard::Asked {
                    id,
                    listener,
                    src,
                    dst,
                    dscp,
                    mss: options.mss,
                },
                StreamEvent::Opened {
                    listener,
                    src,
                    dst,
                    dscp,
                } => Heard::Opened {
                    id,
                    listener,
                    src,
                    dst,
                    dscp,
                },
                StreamEvent::Secured { peer, version } => Heard::Secured {
                    id,
                    peer: peer.map(Into::into),
                    version,
                },
                StreamEvent::Data(bytes) => Heard::Data(id, bytes.to_vec()),
                StreamEvent::Writable(octets) => Heard::Writable(id, octets),
                StreamEvent::Fin => Heard::Fin(id),
                StreamEvent::Reset(error) => Heard::Reset(id, error),
            },
            Input::Port {
                event: PortEvent::NeighbourRate(to, rate),
                ..
            } => {
                let mut strings = self.puppet.strings();
                strings.rates_due = strings.rates_due.saturating_sub(1);
                return strings.rates.push((to, rate));
            }
            Input::Port {
                port: rates::PORT,
                event: PortEvent::Up(_),
            } => {
                self.puppet.strings().rates_due = rates::RATES.len();
                return;
            }
            Input::Routed { prefix, event } => Heard::Routed(prefix, event),
            Input::Worked { ticket, result } => Heard::Worked(ticket, result.map(<[u8]>::to_vec)),
            Input::Frame { port, bytes, .. } => {
                self.ledger.stats_mut().ports[0].frames_in += 1;
                let packet = self.ledger.admit(now, bytes.to_vec(), Origin::Port(port));
                if let Ok(packet) = packet {
                    self.ledger.drop(now, packet, DropCause::NoRoute);
                }
                return;
            }
            _ => return,
        };
        let mut strings = self.puppet.strings();
        if let (Heard::Opened { id, .. }, Some(op)) = (&heard, strings.greeting.clone()) {
            strings.asks.push_back(Effect::Stream { id: *id, op });
        }
        strings.heard.push(heard);
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        let floods = port == rates::PORT && self.puppet.strings().floods;
        floods.then_some(Want {
            class: ClassId(0),
            octets: FRAME_OCTETS as u32,
            to: NeighbourId(0),
        })
    }

    fn reads(&self, _: PortId) -> bool {
        true
    }

    /// The first neighbour that the room is for gets something.
    fn poll_transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        self.wants(port)?;
        let mut both = [0, 1].map(NeighbourId).into_iter();
        let to = both.find(|to| room.to.contains(*to))?;
        out.resize(out.len() + FRAME_OCTETS, 0);
        let mut strings = self.puppet.strings();
        strings.early += usize::from(strings.rates_due > 0);
        strings.sent[to.index()].push((now, FRAME_OCTETS));
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(ClassId(0))
        })
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        let fate = self.ledger.poll().map(Effect::Fate);
        fate.or_else(|| self.puppet.strings().asks.pop_front())
    }

    fn wake(&self) -> Option<Wake> {
        Some(Wake {
            at: self.looks_at,
            why: WakeReason::Application,
        })
    }

    fn stats(&self) -> &Stats {
        self.ledger.stats()
    }

    fn check(&self) {}
}

/// A test for each line, in a world of type `$world`; none where the function `$can` says so, or
/// `$can_divert` for lines with addresses of others.
#[macro_export]
macro_rules! driver_suite {
    ($world:ident, $can:ident, $can_divert:ident) => {
        $crate::driver_suite!($world, $can, of streams);
        $crate::driver_suite!($world, $can, sockets: [
            a_taken_address_is_told_and_had_when_free,
            an_address_of_nobodys_is_told,
            a_closed_listener_leaves_its_streams,
            a_node_that_starts_again_listens_again,
        ]);
        $crate::driver_suite!($world, $can, datagrams: [
            datagrams_go_both_ways_with_what_is_around_them,
            a_closed_socket_takes_nothing,
            a_datagram_too_long_is_refused_alone,
            datagrams_to_a_group_reach_its_members,
            a_taken_address_for_datagrams_is_told_and_had_when_free,
            a_datagram_for_nobody_harms_no_other,
            a_node_that_starts_again_hears_datagrams_again,
        ]);
        $crate::driver_suite!($world, $can, tls: [
            a_client_is_secured_by_either_version,
            both_ends_are_told_one_by_one,
            a_nodes_end_leaves_the_other_direction,
            an_end_with_nothing_before_it_needs_no_credit,
            credit_counts_clear_octets,
            tls_begins_in_mid_stream,
            what_came_in_the_clear_is_not_taken_for_secured,
            octets_that_are_no_tls_are_told_from_broken_ones,
            a_handshake_has_a_limit_of_octets,
            who_never_finishes_is_cut_off,
            time_for_tls_begins_with_the_connection,
            an_end_that_nobody_said_is_a_reset,
            a_clients_certificate_is_verified_and_told,
            a_node_verifies_whom_it_connects_to,
            a_node_refuses_whom_it_cannot_verify,
            tls_that_cannot_begin_ends_the_stream,
        ]);
        $crate::driver_suite!($world, $can, works: [
            what_is_compressed_comes_back,
            digests_are_those_of_the_standard,
            work_is_answered_in_order,
            an_output_beyond_its_limit_is_refused,
            octets_that_are_no_frames_are_told,
            too_much_work_is_refused,
            a_kill_forgets_what_was_asked_for,
        ]);
        $crate::driver_suite!($world, $can, rates: [
            each_neighbour_is_sent_to_by_its_own_rate,
            a_node_that_starts_again_is_told_again,
        ]);
        $crate::driver_suite!($world, $can, routes: [
            a_host_reaches_what_the_node_leads_to,
            a_withdrawn_prefix_is_led_to_no_more,
            a_prefix_named_twice_is_one_route,
            a_refused_prefix_is_told_and_had_when_free,
            a_route_that_somebody_takes_is_put_again,
            a_port_that_is_no_host_side_leads_nowhere,
            more_prefixes_than_fit_are_refused,
            a_kill_takes_routes_away_and_a_start_puts_them_again,
        ]);
        $crate::driver_suite!($world, $can_divert, foreign: [
            a_client_for_others_is_held_until_it_is_accepted,
            a_transparent_listener_takes_what_is_for_others_and_answers_as_they,
            a_node_connects_in_anothers_name,
            a_transparent_socket_takes_datagrams_for_others_and_sends_as_they,
        ]);
    };
    // Those of streams alone.
    ($world:ident, $can:ident, of streams) => {
        $crate::driver_suite!($world, $can, streams: [
            octets_go_both_ways_in_order,
            who_listens_nowhere_refuses,
            a_clients_end_leaves_the_other_direction,
            a_nodes_end_leaves_the_other_direction,
            an_end_with_nothing_before_it_needs_no_credit,
            a_clients_reset_reaches_the_node,
            a_nodes_reset_reaches_the_client,
            a_node_that_takes_nothing_stops_the_client,
            a_client_that_reads_nothing_stops_the_node,
            more_may_wait_from_now_on,
            what_may_wait_is_said_as_a_stream_opens,
            a_node_that_sends_more_than_it_may_loses_the_stream,
            a_node_that_sends_behind_its_end_loses_the_stream,
            a_stream_that_is_not_there_takes_nothing,
            a_node_connects_to_a_host,
            a_node_is_refused,
            nobody_at_an_address_of_the_network_is_told,
            a_node_that_connects_to_itself_gets_itself,
            a_node_connects_from_a_given_address,
            code_points_go_both_ways,
            a_node_marks_a_stream_that_it_has,
            further_clients_wait,
            a_kill_ends_the_nodes_streams,
        ]);
        $crate::driver_suite!($world, $can, asked: [
            a_client_is_held_until_it_is_accepted,
            a_held_client_is_asked_about_once,
            clients_are_refused_in_three_ways,
            refusals_by_icmp_have_a_limit,
            a_question_that_is_not_answered_is_forgotten,
            a_held_client_can_be_cut_off_like_any_other,
            a_client_refused_after_it_was_accepted_is_reset,
            clients_wait_before_they_are_asked_about,
            a_closed_listener_accepts_nobody,
            a_killed_node_leaves_nothing_behind,
        ]);
    };
    ($world:ident, $can:ident, $file:ident: [$($line:ident,)*]) => {
        mod $file {
            $(
                #[test]
                fn $line() {
                    if super::$can() {
                        $crate::suite::$file::$line::<super::$world>();
                    }
                }
            )*
        }
    };
}
