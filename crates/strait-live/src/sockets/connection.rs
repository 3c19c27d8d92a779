//! One TCP connection whose octets go by credit, and whose directions end one by one.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc;
use nix::sys::epoll::EpollFlags;
use socket2::Socket;
use strait_core::node::{Held, SocketId};
use strait_core::time::{Duration, Instant};
use strait_core::tls::{TlsFault, TlsVersion};

use super::secure::Secure;
use super::watch::Place;
use super::{Happened, options};

/// Octets read at a time.
const CHUNK_OCTETS: usize = 16 * 1024;

/// How long the other side may take to read the last of what it was told, when nothing else is to
/// come either way.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How far the node's own direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    /// More may come.
    Open,
    /// Nothing comes any more, and something still waits.
    Ending,
    /// The other side has been told that it has all.
    Ended,
}

/// What can't be learnt of the other side while the node takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Nothing,
    /// Its end, behind octets that wait.
    End,
    /// The same, and the node's direction is at its end too: there is nothing left to hear.
    All,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) place: Place,
    /// By which it came.
    pub(super) listener: Option<SocketId>,
    /// Its client's end and ours, if the node was asked about it.
    pub(super) asked_by: Option<(SocketAddr, SocketAddr)>,
    /// It was asked for by the node and isn't there yet.
    pub(super) opening: bool,
    /// The code point that it was asked for with.
    pub(super) dscp: u8,
    /// What may wait from the node, and how much of it goes at a time.
    outbound: u32,
    portion: usize,
    /// What the node may send at once: `unsent` and this are never more than `outbound`, but after
    /// it was made less.
    credit: u32,
    unsent: VecDeque<u8>,
    /// Octets that the node takes.
    takes: usize,
    ours: Ours,
    /// The other side has told its end.
    theirs_ended: bool,
    hidden: Hidden,
    tls: Option<Box<Secure>>,
    /// It has told that the node may send, and reads before it does so again.
    reads_next: bool,
    /// It is over at this moment, whatever still waits.
    pub(super) ends_at: Option<Instant>,
}

/// What reading came to.
pub(super) enum Intake {
    Octets(Vec<u8>),
    End,
    Secured {
        peer: Option<String>,
        version: TlsVersion,
    },
    Nothing,
}

impl Connection {
    pub(super) fn new(socket: Socket, place: Place, held: Held) -> Self {
        // Where this process is gone before the end was said, the kernel closes it: that must not
        // look like the end of all there was to say.
        let _ = socket.set_linger(Some(Duration::ZERO));
        Self {
            socket,
            place,
            listener: None,
            asked_by: None,
            opening: false,
            dscp: 0,
            outbound: held.outbound,
            portion: options::portion(held) as usize,
            credit: 0,
            unsent: VecDeque::new(),
            takes: 0,
            ours: Ours::Open,
            theirs_ended: false,
            hidden: Hidden::Nothing,
            tls: None,
            reads_next: false,
            ends_at: None,
        }
    }

    /// What there is to wait for.
    pub(super) fn interest(&self) -> Option<EpollFlags> {
        if self.opening {
            return Some(EpollFlags::EPOLLOUT);
        }
        if let Some(tls) = &self.tls {
            return self.secure_interest(tls);
        }
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.takes > 0 && !self.theirs_ended);
        let listens = !self.theirs_ended && self.hidden == Hidden::Nothing;
        flags.set(EpollFlags::EPOLLRDHUP, listens);
        let writes = !self.unsent.is_empty() || self.room() > 0;
        flags.set(EpollFlags::EPOLLOUT, writes);
        (self.hidden != Hidden::All || !flags.is_empty()).then_some(flags)
    }

    /// The same with TLS. Without records the other side's end can't be learnt, nor that of its
    /// handshake: one record is always read.
    fn secure_interest(&self, tls: &Secure) -> Option<EpollFlags> {
        let mut flags = EpollFlags::empty();
        let reads = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
        flags.set(reads, tls.needs_more() && !self.theirs_ended);
        let ending = self.ours == Ours::Ending;
        let writes = tls.writes(self.unsent.len(), ending) || self.room() > 0;
        flags.set(EpollFlags::EPOLLOUT, writes);
        // There is nothing left to hear.
        (self.ours != Ours::Ended || !flags.is_empty()).then_some(flags)
    }

    /// There is something for the node although nothing comes.
    pub(super) fn is_ripe(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|it| !self.theirs_ended && !self.opening && it.is_ripe(self.takes))
    }

    /// Has TLS from now on.
    ///
    /// # Errors
    /// The error number of what the node must not do: it has TLS, or one side had its end.
    pub(super) fn secure(
        &mut self,
        now: Instant,
        make: impl FnOnce(usize) -> Secure,
    ) -> Result<(), i32> {
        if self.tls.is_some() {
            return Err(libc::EALREADY);
        }
        if self.ours != Ours::Open || self.theirs_ended {
            return Err(libc::EPIPE);
        }
        self.tls = Some(Box::new(make(self.unsent.len())));
        self.limit_handshake(now);
        Ok(())
    }

    /// Both have to be secured in time, counted from when the connection is there.
    fn limit_handshake(&mut self, now: Instant) {
        if let Some(tls) = self.tls.as_ref().filter(|_| !self.opening) {
            self.ends_at = Some(now + tls.patience);
        }
    }

    /// The error number of a connection that took too long.
    pub(super) fn late(&self) -> i32 {
        let begins = self.tls.as_ref().is_some_and(|tls| !tls.is_there());
        if begins {
            TlsFault::Slow.number()
        } else {
            libc::ETIMEDOUT
        }
    }

    /// What the node may be told that it may send.
    fn room(&self) -> u32 {
        let waits = self.unsent.len() as u32;
        let open = self.ours == Ours::Open;
        let room = self.outbound.saturating_sub(waits + self.credit);
        room * u32::from(open)
    }

    /// From now on so much may wait.
    pub(super) fn hold(&mut self, held: Held) {
        self.outbound = held.outbound;
        self.portion = options::portion(held) as usize;
        // What it can't do now it does as it did before.
        let _ = options::hold(&self.socket, held);
    }

    /// From now on its packets have this code point.
    pub(super) fn mark(&self, dscp: u8) {
        let own = self.socket.local_addr().ok();
        let own = own.and_then(|own| own.as_socket());
        // What can't be marked any more sends nothing any more.
        let _ = own.map(|own| options::mark(&self.socket, own, dscp));
    }

    /// Takes octets of the node.
    ///
    /// # Errors
    /// The error number of what the node must not do: it has no credit, or had its end.
    pub(super) fn take(&mut self, octets: &[u8]) -> Result<(), i32> {
        if self.ours != Ours::Open {
            return Err(libc::EPIPE);
        }
        let left = u32::try_from(octets.len())
            .ok()
            .and_then(|length| self.credit.checked_sub(length));
        self.credit = left.ok_or(libc::ENOBUFS)?;
        self.unsent.extend(octets);
        Ok(())
    }

    /// The node takes so many more octets.
    pub(super) const fn credit(&mut self, octets: u32) {
        self.takes = self.takes.saturating_add(octets as usize);
        self.hidden = Hidden::Nothing;
    }

    /// The node sends no more.
    pub(super) fn finish(&mut self, now: Instant) {
        if self.ours == Ours::Open {
            self.ours = Ours::Ending;
        }
        self.settle(now);
    }

    /// Tells the other side the end when it has all the rest, and limits how long that may take
    /// when nothing else happens.
    fn settle(&mut self, now: Instant) {
        let said = self.tls.as_ref().is_none_or(|tls| tls.has_said_all());
        if self.ours == Ours::Ending && self.unsent.is_empty() && !self.opening && said {
            self.ours = Ours::Ended;
            let _ = self.socket.set_linger(None);
            // Where it is gone already, that will be told by reading.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        if self.ours == Ours::Ending && self.theirs_ended && self.ends_at.is_none() {
            self.ends_at = Some(now + PATIENCE);
        }
    }

    /// Whether both directions had their end.
    pub(super) fn is_over(&self) -> bool {
        self.ours == Ours::Ended && self.theirs_ended
    }

    /// Closing it ends it at once, and what waits on its way with it.
    pub(super) fn abort(&self) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }

    /// It is there, if it is: its two addresses.
    pub(super) fn finish_opening(&mut self, now: Instant) -> io::Result<(SocketAddr, SocketAddr)> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        let src = address(&self.socket.local_addr()?);
        let dst = address(&self.socket.peer_addr()?);
        self.opening = false;
        self.limit_handshake(now);
        self.settle(now);
        Ok((src, dst))
    }

    /// Writes what waits and reads what came, but tells one thing alone: the node may have TLS
    /// begin as soon as it may send, and what it was told behind that would count as secured.
    pub(super) fn step(
        &mut self,
        now: Instant,
        writes: bool,
        reads: bool,
    ) -> io::Result<Vec<Happened>> {
        let reads_first = std::mem::take(&mut self.reads_next) && reads;
        if writes && !reads_first {
            let octets = self.write(now)?;
            if octets > 0 {
                self.reads_next = true;
                return Ok(vec![Happened::Writable(octets)]);
            }
        }
        let intake = if reads {
            self.read(now)?
        } else {
            Intake::Nothing
        };
        Ok(match intake {
            Intake::Octets(octets) => vec![Happened::Data(octets)],
            Intake::End => vec![Happened::Fin],
            Intake::Secured { peer, version } => vec![Happened::Secured { peer, version }],
            Intake::Nothing => Vec::new(),
        })
    }

    /// Reads as much as the node takes, and not too much at a time.
    pub(super) fn read(&mut self, now: Instant) -> io::Result<Intake> {
        if self.theirs_ended {
            // What is told after that can only be that it is gone.
            let gone = io::Error::from_raw_os_error(libc::ECONNRESET);
            return Err(self.error().unwrap_or(gone));
        }
        if self.tls.is_some() {
            return self.read_secured(now);
        }
        if self.takes == 0 {
            return self.peek(now);
        }
        let mut buffer = vec![0; self.takes.min(CHUNK_OCTETS)];
        match until_done((&self.socket).read(&mut buffer))? {
            None => Ok(Intake::Nothing),
            Some(0) => Ok(self.end(now)),
            Some(octets) => {
                self.takes -= octets;
                buffer.truncate(octets);
                Ok(Intake::Octets(buffer))
            }
        }
    }

    fn read_secured(&mut self, now: Instant) -> io::Result<Intake> {
        let Some(tls) = &mut self.tls else {
            return Ok(Intake::Nothing);
        };
        let intake = tls.read(&self.socket, self.takes).inspect_err(|error| {
            let fault = error.raw_os_error().and_then(TlsFault::of);
            if matches!(fault, Some(TlsFault::Truncated | TlsFault::Long)) {
                let _ = self.socket.set_linger(Some(Duration::ZERO));
            }
        })?;
        match &intake {
            Intake::Octets(octets) => self.takes -= octets.len(),
            Intake::End => return Ok(self.end(now)),
            Intake::Secured { .. } => self.ends_at = None,
            Intake::Nothing => {
                if let Some(error) = self.error() {
                    return Err(error);
                }
            }
        }
        Ok(intake)
    }

    /// Learns of the other side's end, or of its going away, without taking anything.
    fn peek(&mut self, now: Instant) -> io::Result<Intake> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        match until_done(self.socket.peek(&mut [MaybeUninit::uninit()]))? {
            Some(0) => return Ok(self.end(now)),
            Some(_) if self.ours == Ours::Ended => self.hidden = Hidden::All,
            Some(_) => self.hidden = Hidden::End,
            None => {}
        }
        Ok(Intake::Nothing)
    }

    fn end(&mut self, now: Instant) -> Intake {
        self.theirs_ended = true;
        self.settle(now);
        Intake::End
    }

    fn error(&self) -> Option<io::Error> {
        self.socket.take_error().unwrap_or_else(Some)
    }

    /// Hands over what waits; how much more the node may send then.
    pub(super) fn write(&mut self, now: Instant) -> io::Result<u32> {
        let octets = self.write_some()?;
        if octets > 0 || self.tls.is_some() {
            self.unsent.drain(..octets);
            self.settle(now);
        }
        let room = self.room();
        self.credit += room;
        Ok(room)
    }

    /// Hands over the first of what waits; how many octets of it have gone.
    fn write_some(&mut self) -> io::Result<usize> {
        let ending = self.ours == Ours::Ending;
        if let Some(tls) = &mut self.tls {
            let waiting = self.unsent.make_contiguous();
            return tls.write(&self.socket, waiting, self.portion, ending);
        }
        let (first, _) = self.unsent.as_slices();
        let first = &first[..first.len().min(self.portion)];
        if first.is_empty() {
            return Ok(0);
        }
        Ok(until_done((&self.socket).write(first))?.unwrap_or(0))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `None` for what is only not ready.
pub(super) fn until_done(outcome: io::Result<usize>) -> io::Result<Option<usize>> {
    match outcome {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// As the node knows it; an IPv6 socket may carry IPv4.
pub(super) fn address(of: &socket2::SockAddr) -> SocketAddr {
    let any = SocketAddr::from(([0; 4], 0));
    let address = of.as_socket().unwrap_or(any);
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}
