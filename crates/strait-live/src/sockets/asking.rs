//! Clients that the node is asked about before the kernel answers them.
//!
//! A filter at the listener keeps each client's first packet away from it. A raw socket hears those
//! packets all the same, and when the node accepts a client, puts its packet into the host again,
//! to itself: with a number in the urgent pointer, which means nothing there, and by which the
//! filter lets it through. So neither the kernel nor its rules hold anything of a client that isn't
//! accepted, and nothing of this outlives the listener.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use strait_core::asked::Question;
use strait_core::node::{Listen, Refusal, SocketId, StreamId, StreamOp};
use strait_core::time::Instant;
use strait_tcp::reset_for;
use strait_wire::ip::{
    IcmpError, Syn, build_icmp_error, build_packet, complete_tcp_checksum, protocol,
    set_urgent_pointer, take_back,
};

use super::options;
use super::watch::{Place, Watch};
use super::{
    CALLERS, COMING, HANDSHAKE, Handshake, Happened, REFUSED, Sockets, Which, next_client, number,
};

/// Where the urgent pointer, the port that is wanted and the flags stand in a TCP header.
const URGENT: u32 = 18;
const PORT: u32 = 2;
const FLAGS: u32 = 13;

/// The longest packet that is taken for a client's first.
const PACKET_OCTETS_MAX: usize = 2048;

/// Of `linux/socket.h`; the C library doesn't have it. The mark comes as `SO_MARK`.
const SO_RCVMARK: libc::c_int = 75;

/// Instructions of packet filters (`linux/filter.h`).
mod op {
    pub(super) const LOAD_OCTET: u16 = 0x30;
    pub(super) const LOAD_WORD: u16 = 0x28;
    pub(super) const LOAD_OCTET_BEHIND: u16 = 0x50;
    pub(super) const LOAD_WORD_BEHIND: u16 = 0x48;
    /// Behind an IPv4 header.
    pub(super) const SKIP_HEADER: u16 = 0xb1;
    pub(super) const AND: u16 = 0x54;
    pub(super) const IF_EQUAL: u16 = 0x15;
    pub(super) const RETURN: u16 = 0x06;
}

/// Lets all through to a listener but first packets of clients that nobody gave back.
pub(super) fn guard(listener: &Socket, stamp: NonZeroU16) -> io::Result<()> {
    listener.attach_filter(&[
        SockFilter::new(op::LOAD_OCTET, 0, 0, FLAGS),
        SockFilter::new(op::AND, 0, 0, 0x12),
        SockFilter::new(op::IF_EQUAL, 0, 3, 0x02),
        SockFilter::new(op::LOAD_WORD, 0, 0, URGENT),
        SockFilter::new(op::IF_EQUAL, 1, 0, stamp.get().into()),
        SockFilter::new(op::RETURN, 0, 0, 0),
        SockFilter::new(op::RETURN, 0, 0, u32::MAX),
    ])
}

/// Lets nothing through to a raw socket but clients' first packets that nobody gave back: to this
/// port, if there is one.
fn sift(socket: &Socket, ipv4: bool, port: Option<u16>, stamp: NonZeroU16) -> io::Result<()> {
    // In IPv6 the packet begins with its TCP header.
    let (skip, octet, word) = if ipv4 {
        (op::SKIP_HEADER, op::LOAD_OCTET_BEHIND, op::LOAD_WORD_BEHIND)
    } else {
        (op::LOAD_OCTET, op::LOAD_OCTET, op::LOAD_WORD)
    };
    socket.attach_filter(&[
        SockFilter::new(skip, 0, 0, 0),
        SockFilter::new(octet, 0, 0, FLAGS),
        SockFilter::new(op::AND, 0, 0, 0x17),
        SockFilter::new(op::IF_EQUAL, 0, 4, 0x02),
        SockFilter::new(word, 0, 0, PORT),
        port.map_or(SockFilter::new(op::IF_EQUAL, 0, 0, 0), |port| {
            SockFilter::new(op::IF_EQUAL, 0, 2, port.into())
        }),
        SockFilter::new(word, 0, 0, URGENT),
        SockFilter::new(op::IF_EQUAL, 0, 1, stamp.get().into()),
        SockFilter::new(op::RETURN, 0, 0, 0),
        SockFilter::new(op::RETURN, 0, 0, u32::MAX),
    ])
}

/// A client's first packet.
pub(super) struct Caller {
    pub(super) syn: Syn,
    pub(super) packet: Vec<u8>,
    pub(super) mark: u32,
}

/// Where first packets come, and go back.
#[derive(Debug)]
pub(super) struct Tap {
    socket: Socket,
    pub(super) place: Place,
    at: SocketAddr,
    transparent: bool,
    /// In the urgent pointer of a packet that is given back. A client that guesses it gets by the
    /// filter, and no further: nobody asked about it.
    stamp: NonZeroU16,
}

impl Tap {
    /// For a listener at this address.
    pub(super) fn open(
        wanted: &Listen,
        at: SocketAddr,
        id: SocketId,
        stamp: NonZeroU16,
        watch: &mut Watch<Which>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(at), Type::RAW, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        sift(
            &socket,
            at.is_ipv4(),
            (!wanted.transparent).then_some(at.port()),
            stamp,
        )?;
        // What came before the filter did.
        while socket.recv(&mut []).is_ok() {}
        if at.is_ipv4() {
            socket.set_header_included_v4(true)?;
        } else {
            socket.set_header_included_v6(true)?;
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            socket.set_recv_tclass_v6(true)?;
        }
        if wanted.transparent {
            options::set(&socket, libc::SOL_SOCKET, SO_RCVMARK, 1)?;
        }
        let mut place = watch.place(Which::Tap(id));
        if let Err(error) = watch.set(&mut place, socket.as_fd(), Some(EpollFlags::EPOLLIN)) {
            watch.forget(&place);
            return Err(error);
        }
        Ok(Self {
            socket,
            place,
            at,
            transparent: wanted.transparent,
            stamp,
        })
    }

    /// The next client that came; `None` within if it is none of the listener's.
    ///
    /// # Errors
    /// There is none, as a rule.
    pub(super) fn next(&self) -> io::Result<Option<Caller>> {
        let (mut packet, mut notes) = ([0; PACKET_OCTETS_MAX], [0; 256]);
        let mut from = [0; size_of::<libc::sockaddr_in6>()];
        let (octets, told) = receive(&self.socket, &mut from, &mut packet, &mut notes)?;
        let notes = &notes[..told];
        let packet = packet.get(..octets).map(<[u8]>::to_vec);
        let packet = packet.and_then(|it| {
            if self.at.is_ipv4() {
                Some(it)
            } else {
                with_header(&it, &from, notes)
            }
        });
        Ok(packet.and_then(|packet| self.judge(packet, notes)))
    }

    fn judge(&self, mut packet: Vec<u8>, notes: &[u8]) -> Option<Caller> {
        let mark = note(notes, libc::SOL_SOCKET, libc::SO_MARK).map_or(0, u32::from_ne_bytes);
        let syn = Syn::parse(&packet)?;
        let right = complete_tcp_checksum(&mut packet) && self.is_for(syn.dst, mark);
        right.then_some(Caller { syn, packet, mark })
    }

    /// Whether the listener takes clients for this address: what is for others comes to it by the
    /// host's rules, which mark it to be taken in.
    fn is_for(&self, dst: SocketAddr, mark: u32) -> bool {
        let all = self.at.ip().is_unspecified();
        if dst.port() == self.at.port() && (all || dst.ip() == self.at.ip()) {
            return true;
        }
        let own = || UdpSocket::bind((dst.ip(), 0)).is_ok();
        self.transparent && mark != 0 && !own()
    }

    /// Lets the kernel answer a client.
    pub(super) fn give_back(&self, dst: IpAddr, mut packet: Vec<u8>, mark: u32) -> io::Result<()> {
        set_urgent_pointer(&mut packet, self.stamp.get());
        // Rules that took it in once do so again.
        if self.transparent {
            self.socket.set_mark(mark)?;
        }
        let sent = self.send(dst, &packet);
        if self.transparent {
            self.socket.set_mark(0)?;
        }
        sent
    }

    /// Answers a client in the kernel's place.
    pub(super) fn refuse(&self, question: &Question, how: Refusal) -> io::Result<()> {
        // What the host's rules didn't bring was for this listener, and would come here again.
        if how == Refusal::Pass && question.mark != 0 {
            return self.send(question.dst.ip(), &question.syn);
        }
        let client = question.src.ip();
        let mut answer = Vec::new();
        let built = match how {
            Refusal::Silence | Refusal::Pass => false,
            Refusal::Reset => reset_for(&question.syn, &mut answer),
            Refusal::Unreachable(why) => {
                let kind = IcmpError::Unreachable(why);
                build_icmp_error(kind, own_address_to(client)?, &question.syn, &mut answer)
            }
        };
        if built {
            self.send(client, &answer)
        } else {
            Ok(())
        }
    }

    fn send(&self, to: IpAddr, packet: &[u8]) -> io::Result<()> {
        let to = SocketAddr::new(to, 0);
        self.socket.send_to(packet, &to.into()).map(drop)
    }
}

/// The address that the host sends from to another.
fn own_address_to(other: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match other {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((other, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// A TCP segment with an IPv6 header, as that is told beside it.
fn with_header(segment: &[u8], from: &[u8], notes: &[u8]) -> Option<Vec<u8>> {
    let src: [u8; 16] = from.get(8..24)?.try_into().ok()?;
    let dst: [u8; 16] = note(notes, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)?;
    let class = note(notes, libc::IPPROTO_IPV6, libc::IPV6_TCLASS).map_or(0, i32::from_ne_bytes);
    let ends = (IpAddr::from(src), IpAddr::from(dst));
    let mut packet = Vec::new();
    let dscp = class as u8 >> 2;
    build_packet(ends, protocol::TCP, dscp, 64, segment, &mut packet).then_some(packet)
}

/// The beginning of what is told of a packet, by level and kind (`cmsg(3)`).
fn note<const N: usize>(mut notes: &[u8], level: i32, kind: i32) -> Option<[u8; N]> {
    const WORD: usize = size_of::<usize>();
    loop {
        let (length, rest) = notes.split_first_chunk::<WORD>()?;
        let (this_level, rest) = rest.split_first_chunk::<4>()?;
        let (this_kind, content) = rest.split_first_chunk::<4>()?;
        let this = (
            i32::from_ne_bytes(*this_level),
            i32::from_ne_bytes(*this_kind),
        );
        if this == (level, kind) {
            return content.first_chunk().copied();
        }
        let length = usize::from_ne_bytes(*length).max(WORD);
        let length = length.checked_next_multiple_of(WORD)?;
        notes = notes.get(length..)?;
    }
}

/// Receives a packet, where it comes from, and what is told beside it. How long the first and the
/// last are.
#[allow(unsafe_code, reason = "no safe wrapper tells the marks of packets")]
fn receive(
    socket: &Socket,
    from: &mut [u8],
    packet: &mut [u8],
    notes: &mut [u8],
) -> io::Result<(usize, usize)> {
    let mut part = libc::iovec {
        iov_base: packet.as_mut_ptr().cast(),
        iov_len: packet.len(),
    };
    // SAFETY: all zeros are null pointers and lengths of nothing.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = from.len() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = notes.as_mut_ptr().cast();
    message.msg_controllen = notes.len() as _;
    // SAFETY: the descriptor is open as long as `socket` is lent. The message points to `part` and
    // to three lent slices of the lengths told, which outlive the call; the kernel writes plain
    // octets there.
    let octets = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let octets = Errno::result(octets)?;
    Ok((octets as usize, message.msg_controllen as usize))
}

impl Sockets {
    /// Clients have come to a listener: what the node is to be told.
    pub(super) fn ask(&mut self, now: Instant, id: SocketId) -> Vec<(StreamId, Happened)> {
        let mut happened = Vec::new();
        for _ in 0..CALLERS {
            let Some(tried) = self.listeners.get(&id) else {
                break;
            };
            let tap = tried.socket.as_ref().ok().and_then(|it| it.tap.as_ref());
            let (Some(tap), Some(patience)) = (tap, tried.wanted.asks) else {
                break;
            };
            let Caller { syn, packet, mark } = match tap.next() {
                Ok(Some(caller)) => caller,
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => continue,
            };
            let (src, dst) = (syn.src, syn.dst);
            if let Some(handshake) = self.handshakes.get(&(src, dst)) {
                // It hasn't heard the kernel's answer.
                if !handshake.refused {
                    let _ = tap.give_back(dst.ip(), packet, mark);
                }
                continue;
            }
            // A connection that is there answers a SYN by itself.
            let ends = Some((src, dst));
            if self.connections.values().any(|it| it.asked_by == ends) {
                continue;
            }
            // Further clients wait, and ask again.
            let full = self.streams(id).is_none_or(|(has, most)| has >= most);
            if self.questions.repeats(src, dst, &packet) || full {
                continue;
            }
            let stream = next_client(&mut self.next, id);
            let question = Question {
                listener: id,
                src,
                dst,
                syn: packet,
                mark,
            };
            let forgotten = self.questions.ask(now, patience, stream, question);
            happened.extend(forgotten.map(|id| (id, Happened::Gone(libc::ETIMEDOUT))));
            happened.push((stream, Happened::Asked(id, syn)));
        }
        happened
    }

    /// Streams that a listener has, and that it may have.
    fn streams(&self, id: SocketId) -> Option<(usize, usize)> {
        let tried = self.listeners.get(&id)?;
        let has = tried.socket.as_ref().map_or(0, |it| it.streams);
        Some((has as usize, tried.wanted.streams_max as usize))
    }

    /// Whether a listener may have another stream. Those that are coming count for a while: whether
    /// their clients still want them isn't known, and forged ones would shut it. After that the
    /// oldest isn't waited for where another would have its place.
    fn has_place(&mut self, now: Instant, id: SocketId) -> bool {
        let Some((has, most)) = self.streams(id) else {
            return false;
        };
        let coming = self.handshakes.values_mut();
        let coming = coming.filter(|it| it.listener == id && it.until > now);
        let coming: Vec<&mut Handshake> = coming.collect();
        if has + coming.len() < most {
            return true;
        }
        let oldest = coming.into_iter().min_by_key(|it| it.until);
        let slow = oldest.filter(|it| has < most && it.until <= now + (HANDSHAKE - COMING));
        slow.map(|it| it.until = now).is_some()
    }

    /// Does what the node wants of a client that it was asked about; `None` if it wasn't.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        id: StreamId,
        op: &StreamOp,
    ) -> Option<Result<(), i32>> {
        let how = match op {
            StreamOp::Accept => None,
            StreamOp::Refuse(how) => Some(*how),
            StreamOp::Reset(_) => Some(Refusal::Reset),
            _ => return None,
        };
        let Some(question) = self.questions.answer(id) else {
            let handshake = self.handshakes.values_mut().find(|it| it.id == id)?;
            if how.is_some() {
                (handshake.refused, handshake.until) = (true, now + REFUSED);
            }
            return Some(Ok(()));
        };
        let (listener, src) = (question.listener, question.src);
        let free = how.is_some() || self.has_place(now, listener);
        let how = how.map(|how| self.limited(now, how));
        let tried = self.listeners.get(&listener);
        let tap = tried.and_then(|it| it.socket.as_ref().ok()?.tap.as_ref());
        let Some(tap) = tap else {
            return Some(Err(libc::ENOTCONN));
        };
        let done = match how {
            Some(how) => tap.refuse(&question, how),
            None if !free => return Some(Err(libc::ENOBUFS)),
            None => {
                let handshake = Handshake {
                    id,
                    listener,
                    until: now + HANDSHAKE,
                    refused: false,
                    syn: question.syn.clone(),
                    mark: question.mark,
                };
                let ends = (src, question.dst);
                let given = tap.give_back(question.dst.ip(), question.syn, question.mark);
                if given.is_ok() {
                    self.handshakes.insert(ends, handshake);
                }
                given
            }
        };
        Some(done.map_err(|error| {
            tracing::debug!(%error, client = %src, "a client can't be answered");
            number(&error)
        }))
    }

    /// A refusal, or silence where there have been too many ICMP errors.
    fn limited(&mut self, now: Instant, how: Refusal) -> Refusal {
        match how {
            Refusal::Unreachable(_) if !self.questions.allows_error(now) => Refusal::Silence,
            how => how,
        }
    }

    /// Has the kernel forget a client that it has answered, and that isn't waited for: of too many
    /// it would know none.
    fn abandon(&self, dst: SocketAddr, handshake: Handshake) {
        let tried = self.listeners.get(&handshake.listener);
        if let Some(tap) = tried.and_then(|it| it.socket.as_ref().ok()?.tap.as_ref()) {
            let mut packet = handshake.syn;
            take_back(&mut packet);
            let _ = tap.give_back(dst.ip(), packet, handshake.mark);
        }
    }

    /// Forgets clients that the node or they themselves were too slow for.
    pub(super) fn forget_callers(&mut self, now: Instant) -> Vec<StreamId> {
        let mut forgotten = self.questions.expired(now);
        let late = self.handshakes.extract_if(.., |_, it| it.until <= now);
        let late: Vec<_> = late.collect();
        for ((_, dst), handshake) in late {
            if !handshake.refused {
                forgotten.push(handshake.id);
            }
            self.abandon(dst, handshake);
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_beside_a_packet_is_found_by_level_and_kind() {
        let mut notes = Vec::new();
        for (level, kind, content) in [(1, 36, 7_u32), (41, 67, 0xb8)] {
            notes.extend((size_of::<usize>() + 12).to_ne_bytes());
            notes.extend(i32::to_ne_bytes(level));
            notes.extend(i32::to_ne_bytes(kind));
            notes.extend(content.to_ne_bytes());
            notes.resize(notes.len().next_multiple_of(size_of::<usize>()), 0);
        }
        assert_eq!(note(&notes, 1, 36), Some(7_u32.to_ne_bytes()));
        assert_eq!(note(&notes, 41, 67), Some(0xb8_u32.to_ne_bytes()));
        assert_eq!(note::<4>(&notes, 41, 36), None);
        for cut in 0..notes.len() {
            let _ = note::<16>(&notes[..cut], 41, 67);
        }
        // Lengths of nothing and of too much end the search.
        assert_eq!(note::<4>(&[0; 64], 1, 36), None);
        assert_eq!(note::<4>(&[0xff; 64], 1, 36), None);
    }
}
