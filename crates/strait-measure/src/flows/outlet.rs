//! The sockets that flows are sent from: each flow has its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::PollFlags;
use strait_live::clock::wall_ns;
use strait_traffic::mgen::{Entry, FlowOptions, Protocol, Script, Send, What};
use strait_wire::mgen::{FLAG_CHECKSUM, FLAG_LAST_BUFFER, Message, SentAt, UDP_OCTETS_MAX, pieces};

use super::book::Book;
use super::inlet::Inlets;
use super::socket;

/// Messages of a TCP flow that may wait for their connection, if the script has no QUEUE: ten
/// seconds of a hundred a second.
const QUEUE_MESSAGES: usize = 1000;

enum Carrier {
    Datagrams(UdpSocket),
    Stream(Stream),
    /// The socket couldn't be had, or broke.
    Broken,
}

/// A flow's connection, and what waits for it.
struct Stream {
    socket: TcpStream,
    open: bool,
    /// Messages that are due: number, octets.
    waiting: VecDeque<(u32, u64)>,
    /// A piece that is being written, and how much of it is.
    piece: Vec<u8>,
    written: usize,
    /// Pieces of the message at the front that aren't made yet, the last first.
    left: Vec<(usize, u8)>,
}

struct Outlet {
    carrier: Carrier,
    options: FlowOptions,
    dst: SocketAddr,
    src_port: u16,
    /// UDP: the socket takes nothing at the moment.
    full: bool,
    /// The flow is off: end when all is sent.
    ending: bool,
}

/// The sockets of all flows.
pub(super) struct Outlets {
    local: Option<IpAddr>,
    checksum: bool,
    dscp: u8,
    /// Ports that several sockets of this script have.
    shared: BTreeSet<(Protocol, u16)>,
    flows: BTreeMap<u32, Outlet>,
    /// Sockets of flows that have ended, whose ports others have too: what has been put into them
    /// already is still to be read.
    left: Vec<(UdpSocket, u16)>,
    message: Vec<u8>,
}

/// Ports that more than one socket of a script has.
pub(super) fn shared_ports(script: &Script) -> BTreeSet<(Protocol, u16)> {
    let mut owners: BTreeMap<(Protocol, u16), BTreeSet<Option<u32>>> = BTreeMap::new();
    for (_, flow, options) in script.flows() {
        if let (Some(protocol), Some(port)) = (options.protocol, options.src) {
            owners
                .entry((protocol, port))
                .or_default()
                .insert(Some(flow));
        }
    }
    for event in &script.events {
        if let What::Listen(protocol, ranges) = &event.what {
            for ((_, port), owners) in owners.iter_mut().filter(|((of, _), _)| of == protocol) {
                if ranges.iter().any(|range| range.contains(port)) {
                    owners.insert(None);
                }
            }
        }
    }
    owners.retain(|_, owners| owners.len() > 1);
    owners.into_keys().collect()
}

impl Outlets {
    pub(super) fn new(local: Option<IpAddr>, checksum: bool, dscp: u8, script: &Script) -> Self {
        Self {
            local,
            checksum,
            dscp,
            shared: shared_ports(script),
            flows: BTreeMap::new(),
            left: Vec::new(),
            message: Vec::new(),
        }
    }

    /// Whether nothing waits to be sent.
    pub(super) fn are_idle(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn begin(&mut self, flow: u32, options: &FlowOptions, book: &mut Book) {
        let Some(dst) = options.dst else {
            return;
        };
        // The flow's last connection may still have something to send: it is cut off now.
        self.drop_flow(flow, book);
        let src_port = options.src.unwrap_or(0);
        book.write(Entry::On(flow, src_port, dst));
        let mut outlet = Outlet {
            carrier: Carrier::Broken,
            options: options.clone(),
            dst,
            src_port,
            full: false,
            ending: false,
        };
        self.open(flow, &mut outlet, book);
        self.flows.insert(flow, outlet);
    }

    fn open(&self, flow: u32, outlet: &mut Outlet, book: &mut Book) {
        match self.carrier(outlet) {
            Ok((carrier, port)) => (outlet.carrier, outlet.src_port) = (carrier, port),
            Err(error) => {
                outlet.carrier = Carrier::Broken;
                book.count("failed_sockets");
                book.note(format!("flow {flow} has no socket: {error}"));
            }
        }
    }

    fn carrier(&self, outlet: &Outlet) -> io::Result<(Carrier, u16)> {
        let (options, dst) = (&outlet.options, outlet.dst);
        let protocol = options.protocol.unwrap_or(Protocol::Udp);
        if protocol == Protocol::Sink {
            return Err(io::Error::other("SINK isn't here: use UDP or TCP"));
        }
        let own = self.local.filter(|own| own.is_ipv4() == dst.is_ipv4());
        if own.is_none() && self.local.is_some() {
            return Err(io::Error::other(
                "the address to send from is of another family",
            ));
        }
        let raw = socket::open(protocol, dst.is_ipv4())?;
        socket::mark(&raw, options, self.dscp)?;
        let src = SocketAddr::new(
            own.unwrap_or_else(|| socket::any(dst.is_ipv4())),
            options.src.unwrap_or(0),
        );
        if protocol == Protocol::Tcp || self.shared.contains(&(protocol, src.port())) {
            raw.set_reuse_address(true)?;
        }
        raw.bind(&src.into())?;
        let port = raw
            .local_addr()?
            .as_socket()
            .map_or(0, |address| address.port());
        let to = socket::labelled(dst, options);
        if protocol == Protocol::Udp {
            if options.connect == Some(true) {
                raw.connect(&to.into())?;
            }
            return Ok((Carrier::Datagrams(raw.into()), port));
        }
        match raw.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => Err(error),
            _ => {
                let stream = Stream {
                    socket: raw.into(),
                    open: false,
                    waiting: VecDeque::new(),
                    piece: Vec::new(),
                    written: 0,
                    left: Vec::new(),
                };
                Ok((Carrier::Stream(stream), port))
            }
        }
    }

    /// Takes over changed options: marks of the socket, or another socket for another destination.
    pub(super) fn change(&mut self, flow: u32, options: &FlowOptions, book: &mut Book) {
        let Some(mut outlet) = self.flows.remove(&flow) else {
            return;
        };
        let moved = options.dst.is_some_and(|dst| dst != outlet.dst);
        outlet.options = options.clone();
        outlet.dst = options.dst.unwrap_or(outlet.dst);
        let marked = match &outlet.carrier {
            Carrier::Datagrams(udp) => {
                socket::mark(&socket2::SockRef::from(udp), options, self.dscp)
            }
            Carrier::Stream(stream) => {
                socket::mark(&socket2::SockRef::from(&stream.socket), options, self.dscp)
            }
            Carrier::Broken => Ok(()),
        };
        if let Err(error) = marked {
            book.note(format!("flow {flow} keeps its marks: {error}"));
        }
        // A socket of datagrams can send anywhere, unless it is connected or of another family.
        if moved {
            self.open(flow, &mut outlet, book);
        }
        self.flows.insert(flow, outlet);
    }

    /// Whether a flow without limit may send.
    pub(super) fn has_room(&self, flow: u32) -> bool {
        self.flows
            .get(&flow)
            .is_some_and(|outlet| match &outlet.carrier {
                Carrier::Datagrams(_) => !outlet.full,
                Carrier::Stream(stream) => stream.waiting.is_empty(),
                Carrier::Broken => false,
            })
    }

    /// Sends a message, or puts it in the queue of its connection; false if there is no room.
    pub(super) fn send(
        &mut self,
        flow: u32,
        (sequence, octets): (u32, u64),
        book: &mut Book,
    ) -> bool {
        let Some(mut outlet) = self.flows.remove(&flow) else {
            return false;
        };
        // A connection that broke is tried again with each message.
        if matches!(outlet.carrier, Carrier::Broken) {
            self.open(flow, &mut outlet, book);
        }
        let sent = match &mut outlet.carrier {
            Carrier::Datagrams(_) => self.datagram(flow, &mut outlet, (sequence, octets), book),
            Carrier::Stream(stream) => {
                let queue = outlet.options.queue.filter(|queue| *queue > 0);
                let queue = queue.map_or(QUEUE_MESSAGES, |queue| queue as usize);
                let room = stream.waiting.len() < queue;
                if room {
                    stream.waiting.push_back((sequence, octets));
                    self.write(flow, &mut outlet, book);
                }
                room
            }
            Carrier::Broken => false,
        };
        self.flows.insert(flow, outlet);
        sent
    }

    fn datagram(
        &mut self,
        flow: u32,
        outlet: &mut Outlet,
        (sequence, octets): (u32, u64),
        book: &mut Book,
    ) -> bool {
        let Carrier::Datagrams(udp) = &outlet.carrier else {
            return false;
        };
        let at_ns = wall_ns();
        let mut message = Message::new(flow, sequence, SentAt::from_ns(at_ns), outlet.dst);
        message.data = outlet.options.data.as_deref().unwrap_or_default();
        message.flags |= if self.checksum { FLAG_CHECKSUM } else { 0 };
        if message.emit(octets as usize, &mut self.message).is_err() {
            return false;
        }
        let to = socket::labelled(outlet.dst, &outlet.options);
        let connected = outlet.options.connect == Some(true);
        let send = || match connected {
            true => udp.send(&self.message),
            false => udp.send_to(&self.message, to),
        };
        // An error of the last datagram, told by ICMP, is reported by the next call; that one sends
        // nothing.
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        let sent = send().or_else(|error| if refused(&error) { send() } else { Err(error) });
        match sent {
            Ok(_) => {
                book.sent(
                    at_ns,
                    Send {
                        protocol: Protocol::Udp,
                        flow,
                        sequence,
                        src_port: outlet.src_port,
                        dst: outlet.dst,
                        octets,
                    },
                );
                true
            }
            Err(error) => {
                outlet.full = error.kind() == io::ErrorKind::WouldBlock;
                if !outlet.full {
                    book.note(format!("flow {flow} couldn't send: {error}"));
                }
                false
            }
        }
    }

    /// Writes what waits, as far as the connection takes it.
    fn write(&self, flow: u32, outlet: &mut Outlet, book: &mut Book) {
        let Carrier::Stream(stream) = &mut outlet.carrier else {
            return;
        };
        if !stream.open {
            return;
        }
        loop {
            if stream.written == stream.piece.len() {
                stream.piece.clear();
                stream.written = 0;
                let Some((sequence, octets)) = stream.waiting.front().copied() else {
                    return;
                };
                let at_ns = wall_ns();
                if stream.left.is_empty() {
                    stream.left = pieces(octets).collect();
                    stream.left.reverse();
                    book.sent(
                        at_ns,
                        Send {
                            protocol: Protocol::Tcp,
                            flow,
                            sequence,
                            src_port: outlet.src_port,
                            dst: outlet.dst,
                            octets,
                        },
                    );
                }
                let Some((octets, flags)) = stream.left.pop() else {
                    return;
                };
                if stream.left.is_empty() {
                    stream.waiting.pop_front();
                }
                let sent = SentAt::from_ns(at_ns);
                let mut message = Message::new(flow, sequence, sent, outlet.dst);
                message.data = outlet.options.data.as_deref().unwrap_or_default();
                let last = if octets <= UDP_OCTETS_MAX {
                    FLAG_LAST_BUFFER
                } else {
                    0
                };
                message.flags = flags | last | if self.checksum { FLAG_CHECKSUM } else { 0 };
                if message.emit(octets, &mut stream.piece).is_err() {
                    book.not_sent(flow);
                }
            }
            match stream.socket.write(&stream.piece[stream.written..]) {
                Ok(octets) => stream.written += octets,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    book.note(format!("flow {flow} lost its connection: {error}"));
                    book.write(Entry::Disconnect(flow, outlet.src_port, outlet.dst));
                    outlet.carrier = Carrier::Broken;
                    return;
                }
            }
        }
    }

    pub(super) fn end(&mut self, flow: u32, book: &mut Book) {
        if let Some(outlet) = self.flows.get_mut(&flow) {
            outlet.ending = true;
        }
        self.conclude(flow, book);
    }

    /// Lets go of a flow that is off and has sent all.
    fn conclude(&mut self, flow: u32, book: &mut Book) {
        let done = self
            .flows
            .get(&flow)
            .is_some_and(|outlet| match &outlet.carrier {
                _ if !outlet.ending => false,
                Carrier::Stream(stream) => {
                    stream.waiting.is_empty() && stream.written == stream.piece.len()
                }
                Carrier::Datagrams(_) | Carrier::Broken => true,
            });
        if done {
            self.drop_flow(flow, book);
        }
    }

    fn drop_flow(&mut self, flow: u32, book: &mut Book) {
        let Some(outlet) = self.flows.remove(&flow) else {
            return;
        };
        if let Carrier::Stream(stream) = &outlet.carrier {
            for _ in &stream.waiting {
                book.not_sent(flow);
            }
            if stream.open {
                let _ = stream.socket.shutdown(Shutdown::Write);
                book.write(Entry::Shutdown(flow, outlet.src_port, outlet.dst));
            }
        }
        book.write(Entry::Off(flow, outlet.src_port, outlet.dst));
        if let Carrier::Datagrams(udp) = outlet.carrier
            && self.shared.contains(&(Protocol::Udp, outlet.src_port))
        {
            self.left.push((udp, outlet.src_port));
        }
    }

    /// Sockets that flows have left, with their ports.
    pub(super) fn take_left(&mut self) -> Vec<(UdpSocket, u16)> {
        std::mem::take(&mut self.left)
    }

    /// Ends all flows, whatever still waits.
    pub(super) fn close_all(&mut self, book: &mut Book) {
        let flows: Vec<u32> = self.flows.keys().copied().collect();
        for flow in flows {
            self.drop_flow(flow, book);
        }
    }

    /// The sockets to wait for, and what for.
    pub(super) fn interests(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>, PollFlags)> {
        self.flows.iter().filter_map(|(flow, outlet)| {
            let mut flags = PollFlags::POLLIN;
            let fd = match &outlet.carrier {
                Carrier::Datagrams(udp) => {
                    flags.set(PollFlags::POLLOUT, outlet.full);
                    udp.as_fd()
                }
                Carrier::Stream(stream) => {
                    let waits = !stream.waiting.is_empty() || stream.written < stream.piece.len();
                    flags.set(PollFlags::POLLOUT, !stream.open || waits);
                    stream.socket.as_fd()
                }
                Carrier::Broken => return None,
            };
            Some((*flow, fd, flags))
        })
    }

    pub(super) fn serve(&mut self, flow: u32, got: PollFlags, inlets: &Inlets, book: &mut Book) {
        let Some(mut outlet) = self.flows.remove(&flow) else {
            return;
        };
        match &mut outlet.carrier {
            Carrier::Datagrams(udp) => {
                outlet.full &= !got.contains(PollFlags::POLLOUT);
                if got.intersects(PollFlags::POLLIN | PollFlags::POLLERR) {
                    // A port that is listened to as well: what comes here counts.
                    inlets.drain(udp, outlet.src_port, book);
                }
            }
            Carrier::Stream(stream) => {
                if stream.serve(got) {
                    if !stream.open {
                        stream.open = true;
                        book.write(Entry::Connect(flow, outlet.src_port, outlet.dst));
                    }
                    self.write(flow, &mut outlet, book);
                } else {
                    let lost = stream.waiting.len();
                    (0..lost).for_each(|_| book.not_sent(flow));
                    book.count("failed_connections");
                    book.write(Entry::Disconnect(flow, outlet.src_port, outlet.dst));
                    outlet.carrier = Carrier::Broken;
                }
            }
            Carrier::Broken => {}
        }
        self.flows.insert(flow, outlet);
        self.conclude(flow, book);
    }
}

impl Stream {
    /// Looks at what happened to the connection; false if it is no more.
    fn serve(&mut self, got: PollFlags) -> bool {
        if !matches!(self.socket.take_error(), Ok(None)) {
            return false;
        }
        if got.contains(PollFlags::POLLIN) {
            let mut buffer = [0; 4096];
            loop {
                match self.socket.read(&mut buffer) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return false,
                }
            }
        }
        !got.contains(PollFlags::POLLERR)
    }
}
