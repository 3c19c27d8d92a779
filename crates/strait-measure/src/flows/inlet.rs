//! The sockets that messages arrive at.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;
use strait_live::error::{Doing, Error};
use strait_traffic::mgen::{Ending, Entry, Group, PortRange, Protocol, Script};
use strait_wire::mgen::{FLAG_CONTINUES, Message, MgenError, SentAt, UDP_OCTETS_MAX, piece_octets};

use super::TURN;
use super::book::Book;
use super::outlet::shared_ports;
use super::socket;

/// Ports that are listened to at once. Each has a socket, and a process may commonly have 1024
/// files open without asking for more.
const PORTS_MAX: usize = 900;
/// Connections that are open at once, for the same reason.
const STREAMS_MAX: usize = 1000;
/// Room for what arrives while we are busy, in octets: half a second of 64 Mbit/s. The kernel may
/// give less.
const RECEIVE_OCTETS: usize = 4 << 20;

enum Inlet {
    Datagrams(UdpSocket, u16),
    Listener(TcpListener, u16),
    Stream(Stream),
}

struct Stream {
    socket: TcpStream,
    src: SocketAddr,
    port: u16,
    /// What has arrived of the next piece.
    octets: Vec<u8>,
    /// Octets of the pieces before it of the same message, and when the first was sent.
    before: Option<(u64, SentAt)>,
    ended: Option<Ending>,
}

/// All sockets that messages arrive at.
pub(super) struct Inlets {
    local: Option<IpAddr>,
    shared: BTreeSet<(Protocol, u16)>,
    open: Vec<Inlet>,
    /// Sockets that hold a membership, by group.
    groups: Vec<(Group, Socket)>,
}

impl Inlets {
    pub(super) fn new(local: Option<IpAddr>, script: &Script) -> Self {
        Self {
            local,
            shared: shared_ports(script),
            open: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Whether nothing can arrive.
    pub(super) fn are_none(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|inlet| match inlet {
            Inlet::Datagrams(socket, _) => socket.as_fd(),
            Inlet::Listener(socket, _) => socket.as_fd(),
            Inlet::Stream(stream) => stream.socket.as_fd(),
        })
    }

    fn has(&self, protocol: Protocol, port: u16) -> bool {
        self.open.iter().any(|inlet| match inlet {
            Inlet::Datagrams(_, of) => protocol == Protocol::Udp && *of == port,
            Inlet::Listener(_, of) => protocol == Protocol::Tcp && *of == port,
            Inlet::Stream(_) => false,
        })
    }

    pub(super) fn listen(
        &mut self,
        protocol: Protocol,
        ranges: &[PortRange],
        book: &mut Book,
    ) -> Result<(), Error> {
        for port in ranges.iter().cloned().flatten() {
            if self.has(protocol, port) {
                continue;
            }
            if self.open.len() >= PORTS_MAX {
                book.note(format!("only the first {PORTS_MAX} ports are listened to"));
                return Ok(());
            }
            let what = || format!("listen on {} port {port}", protocol.name());
            let inlet = self.bind(protocol, port).doing(what)?;
            self.open.push(inlet);
            book.write(Entry::Listen(protocol, port));
        }
        Ok(())
    }

    /// A socket for both families, if the host has IPv6 and no address was named.
    fn bind(&self, protocol: Protocol, port: u16) -> io::Result<Inlet> {
        let bind = |address: IpAddr| -> io::Result<Inlet> {
            let raw = socket::open(protocol, address.is_ipv4())?;
            if address.is_ipv6() {
                raw.set_only_v6(self.local.is_some())?;
            }
            if protocol == Protocol::Tcp || self.shared.contains(&(protocol, port)) {
                raw.set_reuse_address(true)?;
            }
            raw.bind(&SocketAddr::new(address, port).into())?;
            if protocol == Protocol::Tcp {
                raw.listen(128)?;
                return Ok(Inlet::Listener(raw.into(), port));
            }
            raw.set_recv_buffer_size(RECEIVE_OCTETS)?;
            Ok(Inlet::Datagrams(raw.into(), port))
        };
        match self.local {
            Some(address) => bind(address),
            None => bind(socket::any(false)).or_else(|error| match error.kind() {
                io::ErrorKind::AddrInUse => Err(error),
                _ => bind(socket::any(true)),
            }),
        }
    }

    pub(super) fn ignore(&mut self, protocol: Protocol, ranges: &[PortRange], book: &mut Book) {
        let meant = |port: &u16| ranges.iter().any(|range| range.contains(port));
        let mut ignored = BTreeSet::new();
        self.open.retain_mut(|inlet| match (inlet, protocol) {
            (Inlet::Datagrams(_, port), Protocol::Udp)
            | (Inlet::Listener(_, port), Protocol::Tcp)
                if meant(port) =>
            {
                ignored.insert(*port);
                false
            }
            (Inlet::Stream(stream), Protocol::Tcp) if meant(&stream.port) => {
                book.write(Entry::Ended(Ending::Shutdown, stream.src, stream.port));
                false
            }
            _ => true,
        });
        for port in ignored {
            book.write(Entry::Ignore(protocol, port));
        }
    }

    pub(super) fn join(&mut self, group: &Group, book: &mut Book) {
        match membership(group) {
            Ok(holder) => {
                let interface = group.interface.clone();
                book.write(Entry::Join(group.address, group.source, interface));
                self.groups.push((group.clone(), holder));
            }
            Err(error) => book.note(format!("{} can't be joined: {error}", group.address)),
        }
        if !group.ports.is_empty()
            && let Err(error) = self.listen(Protocol::Udp, &group.ports, book)
        {
            book.note(error.to_string());
        }
    }

    pub(super) fn leave(&mut self, group: &Group, book: &mut Book) {
        let meant = |(of, _): &(Group, Socket)| {
            (of.address, of.source, &of.interface)
                == (group.address, group.source, &group.interface)
        };
        // The membership ends with its socket.
        if let Some(index) = self.groups.iter().position(meant) {
            self.groups.remove(index);
            let interface = group.interface.clone();
            book.write(Entry::Leave(group.address, group.source, interface));
        } else {
            book.note(format!(
                "{} wasn't joined: LEAVE does nothing",
                group.address
            ));
        }
    }

    /// Takes in what is there at one socket, up to a turn's worth.
    pub(super) fn serve(&mut self, index: usize, book: &mut Book) {
        let mut accepted = None;
        match self.open.get_mut(index) {
            Some(Inlet::Datagrams(udp, _)) => take_datagrams(udp, true, book),
            Some(Inlet::Listener(listener, port)) => {
                accepted = listener
                    .accept()
                    .ok()
                    .map(|(stream, src)| (stream, src, *port));
            }
            Some(Inlet::Stream(stream)) => stream.read(book),
            None => {}
        }
        if let Some((socket, src, port)) = accepted {
            self.accept(socket, src, port, book);
        }
    }

    fn accept(&mut self, socket: TcpStream, src: SocketAddr, port: u16, book: &mut Book) {
        let streams = self
            .open
            .iter()
            .filter(|inlet| matches!(inlet, Inlet::Stream(_)));
        if streams.count() >= STREAMS_MAX || socket.set_nonblocking(true).is_err() {
            return book.count("connections_refused");
        }
        let src = socket::plain(src);
        book.write(Entry::Accept(src, port));
        self.open.push(Inlet::Stream(Stream {
            socket,
            src,
            port,
            octets: Vec::new(),
            before: None,
            ended: None,
        }));
    }

    /// Lets go of connections that have ended.
    pub(super) fn settle(&mut self, book: &mut Book) {
        self.open.retain(|inlet| match inlet {
            Inlet::Stream(stream) => match stream.ended {
                Some(ending) => {
                    book.write(Entry::Ended(ending, stream.src, stream.port));
                    false
                }
                None => true,
            },
            Inlet::Datagrams(..) | Inlet::Listener(..) => true,
        });
    }

    /// Takes over the socket of a flow that has ended, if its port is listened to.
    pub(super) fn adopt(&mut self, udp: UdpSocket, port: u16) {
        if self.has(Protocol::Udp, port) && self.open.len() < PORTS_MAX {
            self.open.push(Inlet::Datagrams(udp, port));
        }
    }

    /// What arrived at the socket of a flow: it counts if its port is listened to.
    pub(super) fn drain(&self, udp: &UdpSocket, port: u16, book: &mut Book) {
        take_datagrams(udp, self.has(Protocol::Udp, port), book);
    }
}

fn take_datagrams(udp: &UdpSocket, counts: bool, book: &mut Book) {
    // One octet more than the longest message, so that a longer one is seen as such.
    let mut buffer = [0; UDP_OCTETS_MAX + 1];
    for _ in 0..TURN {
        match udp.recv_from(&mut buffer) {
            Ok(_) if !counts => {}
            Ok((octets, src)) => {
                let src = socket::plain(src);
                let octets = &buffer[..octets];
                match Message::parse(octets) {
                    Ok(message) => {
                        let all = octets.len() as u64;
                        let whole = Some((all, message.sent));
                        book.received(Protocol::Udp, src, &message, all, whole);
                    }
                    Err(error) => book.unusable(error, src),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            // About something that was sent: nobody is there, or the way is closed.
            Err(_) => book.count("refused"),
        }
    }
}

impl Stream {
    fn read(&mut self, book: &mut Book) {
        let mut buffer = [0; 65_536];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.ended = Some(Ending::Off),
            Ok(octets) => {
                self.octets.extend_from_slice(&buffer[..octets]);
                if let Err(error) = self.take_pieces(book) {
                    // Nothing tells where the next message begins.
                    book.unusable(error, self.src);
                    self.ended = Some(Ending::Disconnect);
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(_) => self.ended = Some(Ending::Disconnect),
        }
    }

    fn take_pieces(&mut self, book: &mut Book) -> Result<(), MgenError> {
        let mut rest = &self.octets[..];
        while let Some(length) = piece_octets(rest)? {
            let Some((piece, after)) = rest.split_at_checked(length) else {
                break;
            };
            rest = after;
            match Message::parse(piece) {
                Ok(message) => {
                    let (before, sent) = self.before.unwrap_or((0, message.sent));
                    let all = before + length as u64;
                    let ends = message.flags & FLAG_CONTINUES == 0;
                    self.before = (!ends).then_some((all, sent));
                    let whole = ends.then_some((all, sent));
                    book.received(Protocol::Tcp, self.src, &message, length as u64, whole);
                }
                Err(error @ MgenError::Checksum) => book.unusable(error, self.src),
                Err(error) => return Err(error),
            }
        }
        let left = rest.len();
        self.octets.drain(..self.octets.len() - left);
        Ok(())
    }
}

/// A socket that holds a membership: what comes for the group arrives at every socket of its port.
fn membership(group: &Group) -> io::Result<Socket> {
    let ipv4 = group.address.is_ipv4();
    let holder = socket::open(Protocol::Udp, ipv4)?;
    let index = match &group.interface {
        Some(name) => socket::interface_index(name)?,
        None => 0,
    };
    match (group.address, group.source) {
        (IpAddr::V4(address), None) => {
            let interface = socket2::InterfaceIndexOrAddress::Index(index);
            holder.join_multicast_v4_n(&address, &interface)?;
        }
        (IpAddr::V4(address), Some(IpAddr::V4(source))) => {
            let interface = match &group.interface {
                Some(name) => interface_address(name)?,
                None => Ipv4Addr::UNSPECIFIED,
            };
            holder.join_ssm_v4(&source, &address, &interface)?;
        }
        (IpAddr::V6(address), None) => holder.join_multicast_v6(&address, index)?,
        _ => return Err(io::Error::other("a source is for IPv4 groups only")),
    }
    Ok(holder)
}

/// The first IPv4 address of an interface.
fn interface_address(name: &str) -> io::Result<Ipv4Addr> {
    let all = nix::ifaddrs::getifaddrs().map_err(io::Error::from)?;
    let mut own = all.filter(|entry| entry.interface_name == name);
    let found = own.find_map(|entry| Some(entry.address?.as_sockaddr_in()?.ip()));
    found.ok_or_else(|| io::Error::other(format!("`{name}` has no IPv4 address")))
}
