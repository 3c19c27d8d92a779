//! Streams against plain sockets of this host.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration as Wait;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use strait_core::node::{Held, Owner};

use super::connection::PATIENCE;
use super::*;

pub(super) const NOW: Instant = Instant::ZERO;

/// Longer than anything here takes.
pub(super) const LONG: u16 = 20_000;

/// So short a wait that nothing more will come, after all that was on its way has.
const SHORT: u16 = 50;

pub(super) const SOCKET: SocketId = SocketId {
    owner: Owner(1),
    n: 0,
};

/// A stream that the node began.
pub(super) const fn asked(n: u64) -> StreamId {
    StreamId {
        owner: Owner(1),
        side: Side::Node,
        n,
    }
}

/// Sockets and what has happened on them.
pub(super) struct Watched {
    pub(super) sockets: Sockets,
    happened: Vec<(StreamId, Happened)>,
}

impl Watched {
    pub(super) fn new() -> Self {
        Self {
            sockets: Sockets::new().unwrap(),
            happened: Vec::new(),
        }
    }

    pub(super) fn listen(&mut self, listen: Listen) -> SocketAddr {
        match self.sockets.open(NOW, SOCKET, SocketOp::Listen(listen)) {
            Some(SocketEvent::Bound(address)) => address,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn operate(&mut self, id: StreamId, op: StreamOp) {
        assert_eq!(self.sockets.operate(NOW, id, op), Ok(()));
    }

    /// Serves what becomes ready within so many milliseconds; whether anything did.
    pub(super) fn turn(&mut self, within_ms: u16) -> bool {
        let mut fds = [PollFd::new(self.sockets.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(within_ms)).unwrap();
        let ready = self.sockets.ready();
        for (which, flags) in &ready {
            self.happened
                .extend(self.sockets.serve(NOW, *which, *flags));
        }
        !ready.is_empty()
    }

    /// Serves until something happens that `is` it; gives it.
    pub(super) fn until<T>(&mut self, is: impl Fn(&StreamId, &Happened) -> Option<T>) -> T {
        loop {
            let found = self
                .happened
                .iter()
                .position(|(id, it)| is(id, it).is_some());
            if let Some(place) = found {
                let (id, happened) = self.happened.remove(place);
                return is(&id, &happened).unwrap();
            }
            assert!(
                self.turn(LONG),
                "nothing happens; so far {:?}",
                self.happened
            );
        }
    }

    /// A client came.
    pub(super) fn opened(&mut self) -> StreamId {
        self.until(|id, it| matches!(it, Happened::Opened { .. }).then_some(*id))
    }

    pub(super) fn writable(&mut self, of: StreamId) -> u32 {
        self.until(|id, it| match it {
            Happened::Writable(octets) if *id == of => Some(*octets),
            _ => None,
        })
    }

    pub(super) fn data(&mut self) -> Vec<u8> {
        self.until(|_, it| match it {
            Happened::Data(octets) => Some(octets.clone()),
            _ => None,
        })
    }

    fn fin(&mut self) {
        self.until(|_, it| (*it == Happened::Fin).then_some(()));
    }

    fn gone(&mut self) -> i32 {
        self.until(|_, it| match it {
            Happened::Gone(number) => Some(*number),
            _ => None,
        })
    }

    /// Nothing happens, and nothing keeps the loop from sleeping.
    pub(super) fn rests(&mut self) {
        while self.turn(SHORT) {
            assert!(self.happened.len() < 100);
        }
        assert_eq!(self.happened, []);
    }

    fn is_empty(&self) -> bool {
        self.sockets.connections.is_empty() && self.sockets.ends.is_empty()
    }

    /// Sends as much as is taken while nobody reads it; how much that is.
    fn fill(&mut self, id: StreamId) -> usize {
        let mut sent = 0;
        loop {
            for (_, happened) in std::mem::take(&mut self.happened) {
                let Happened::Writable(octets) = happened else {
                    panic!("{happened:?}");
                };
                self.operate(id, StreamOp::Send(vec![0; octets as usize]));
                sent += octets as usize;
            }
            if !self.turn(SHORT) {
                return sent;
            }
        }
    }

    /// Sends so many octets, as credit comes, and hands the last of them over.
    pub(super) fn send(&mut self, id: StreamId, octets: usize) {
        let (mut left, mut credit) = (octets, 0);
        while left > 0 {
            credit += self.writable(id) as usize;
            let now = left.min(credit);
            self.operate(id, StreamOp::Send(vec![7; now]));
            (left, credit) = (left - now, credit - now);
        }
        self.turn(LONG);
    }
}

fn connected(watched: &mut Watched, address: SocketAddr) -> (TcpStream, StreamId) {
    let client = TcpStream::connect(address).unwrap();
    client
        .set_read_timeout(Some(Wait::from_millis(LONG.into())))
        .unwrap();
    (client, watched.opened())
}

/// A listener on loopback, and a client that came by it.
fn pair(listen: impl FnOnce(Listen) -> Listen) -> (Watched, TcpStream, StreamId) {
    let mut watched = Watched::new();
    let address = watched.listen(listen(Listen::at(([127, 0, 0, 1], 0).into())));
    let (client, id) = connected(&mut watched, address);
    (watched, client, id)
}

#[test]
fn nothing_is_read_in_the_turn_that_tells_that_the_node_may_send() {
    let (mut watched, mut client, id) = pair(|listen| listen);
    watched.operate(id, StreamOp::Credit(5));
    client.write_all(b"clear").unwrap();
    std::thread::sleep(Wait::from_millis(SHORT.into()));
    // The node may have TLS begin then, and what it is told after that counts as secured.
    assert!(watched.turn(LONG));
    let told = std::mem::take(&mut watched.happened);
    assert!(matches!(told[..], [(_, Happened::Writable(_))]), "{told:?}");
    assert_eq!(watched.data(), b"clear");
}

#[test]
fn a_port_from_which_a_stream_goes_there_already_is_another_one() {
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let dst = there.local_addr().unwrap();
    // One that is free: it is given back at once.
    let free = |it: TcpListener| it.local_addr().unwrap();
    let src = free(TcpListener::bind("127.0.0.1:0").unwrap());
    let mut watched = Watched::new();
    let mut came = |n| {
        let connect = StreamOp::Connect {
            src: Some(src),
            dst,
            dscp: 0,
            held: Held::ORDINARY,
        };
        watched.operate(asked(n), connect);
        there.accept().unwrap().1
    };
    assert_eq!(came(1), src);
    let second = came(2);
    assert_eq!(second.ip(), src.ip());
    assert_ne!(second.port(), src.port());
}

#[test]
fn an_address_that_cannot_be_had_is_tried_again_until_it_can() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut sockets = Sockets::new().unwrap();
    let second = Instant::from_secs(1);
    assert_eq!(
        sockets.open(NOW, SOCKET, SocketOp::Listen(Listen::at(address))),
        Some(SocketEvent::Failed(libc::EADDRINUSE))
    );
    assert_eq!(sockets.wake(), Some(second));
    assert_eq!(sockets.missing().count(), 1);
    // Still taken: nothing is said again.
    assert_eq!(sockets.tick(second), []);
    drop(taken);
    assert_eq!(sockets.tick(Instant::from_millis(1999)), []);
    let bound = News::Socket(SOCKET, SocketEvent::Bound(address));
    assert_eq!(sockets.tick(Instant::from_secs(2)), [bound]);
    assert_eq!((sockets.wake(), sockets.missing().count()), (None, 0));
    assert_eq!(sockets.addresses().collect::<Vec<_>>(), [address]);
    assert_eq!(sockets.open(second, SOCKET, SocketOp::Close), None);
    assert_eq!(sockets.addresses().count(), 0);
}

#[test]
fn the_end_of_a_client_is_told_without_credit_if_nothing_is_before_it() {
    let (mut watched, client, id) = pair(|it| it);
    watched.writable(id);
    watched.rests();
    client.shutdown(Shutdown::Write).unwrap();
    watched.fin();
    watched.rests();
    watched.operate(id, StreamOp::Fin);
    assert!(watched.is_empty());
}

#[test]
fn a_client_that_goes_away_is_told_with_the_error() {
    for takes in [0, 10] {
        let (mut watched, client, id) = pair(|it| it);
        watched.writable(id);
        watched.operate(id, StreamOp::Credit(takes));
        SockRef::from(&client).set_linger(Some(Wait::ZERO)).unwrap();
        drop(client);
        assert_eq!(watched.gone(), libc::ECONNRESET);
        watched.rests();
        assert!(watched.is_empty());
    }
}

#[test]
fn what_came_before_a_reset_comes_first() {
    let (mut watched, mut client, id) = pair(|it| it);
    watched.writable(id);
    client.write_all(b"last words").unwrap();
    watched.rests();
    SockRef::from(&client).set_linger(Some(Wait::ZERO)).unwrap();
    drop(client);
    watched.operate(id, StreamOp::Credit(100));
    assert_eq!(watched.data(), b"last words");
    assert_eq!(watched.gone(), libc::ECONNRESET);
}

#[test]
fn who_had_no_end_of_a_gateway_that_is_gone_is_told_that_it_is() {
    let (mut watched, mut client, id) = pair(|it| it);
    watched.writable(id);
    watched.operate(id, StreamOp::Send(b"a part".to_vec()));
    let mut part = [0; 6];
    watched.writable(id);
    client.read_exact(&mut part).unwrap();
    // All that is left of a process that was killed is what the kernel does to its sockets.
    drop(watched);
    let error = client.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    let (mut watched, mut client, id) = pair(|it| it);
    watched.writable(id);
    watched.operate(id, StreamOp::Send(b"all".to_vec()));
    watched.writable(id);
    watched.operate(id, StreamOp::Fin);
    watched.rests();
    drop(watched);
    let mut all = Vec::new();
    assert_eq!(client.read_to_end(&mut all).unwrap(), 3);
}

#[test]
fn who_never_reads_the_last_of_it_is_waited_for_so_long() {
    let (mut watched, mut client, id) = pair(|it| it);
    client.shutdown(Shutdown::Write).unwrap();
    watched.fin();
    watched.fill(id);
    assert_eq!(watched.sockets.wake(), None, "a reader may be slow");
    watched.operate(id, StreamOp::Fin);
    watched.rests();
    assert_eq!(watched.sockets.wake(), Some(NOW + PATIENCE));
    let before = Instant::from_nanos((NOW + PATIENCE).as_nanos() - 1);
    assert_eq!(watched.sockets.tick(before), []);
    let gone = News::Stream(id, Happened::Gone(libc::ETIMEDOUT));
    assert_eq!(watched.sockets.tick(NOW + PATIENCE), [gone]);
    assert!(watched.is_empty());
    // The client learns that it has not all of it.
    let error = client.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn so_many_come_by_a_listener_and_no_more() {
    let few = |it| Listen {
        streams_max: 2,
        ..it
    };
    let (mut watched, first, one) = pair(few);
    let address = first.peer_addr().unwrap();
    let (_second, _) = connected(&mut watched, address);
    let mut third = TcpStream::connect(address).unwrap();
    third.write_all(b"I wait").unwrap();
    let _ = (watched.turn(SHORT), watched.turn(SHORT));
    watched.happened.clear();
    watched.rests();
    // A listener by the same name takes over who came by it.
    let address = watched.listen(few(Listen::at(([127, 0, 0, 1], 0).into())));
    let mut fourth = TcpStream::connect(address).unwrap();
    fourth.write_all(b"I wait").unwrap();
    watched.rests();
    watched.operate(one, StreamOp::Reset(0));
    let id = watched.opened();
    watched.operate(id, StreamOp::Credit(100));
    assert_eq!(watched.data(), b"I wait");
}

#[test]
fn a_thousand_streams_cost_what_one_does_while_nothing_happens_on_them() {
    let many = |it| Listen {
        streams_max: 1000,
        ..it
    };
    let (mut watched, first, id) = pair(many);
    let address = first.peer_addr().unwrap();
    let _others: Vec<TcpStream> = (1..1000)
        .map(|_| connected(&mut watched, address).0)
        .collect();
    while watched.turn(SHORT) {}
    watched.happened.clear();
    assert_eq!(watched.sockets.ready(), []);
    assert_eq!(watched.sockets.wake(), None);
    (&first).write_all(b"x").unwrap();
    watched.operate(id, StreamOp::Credit(1));
    assert_eq!(watched.data(), b"x");
}

/// What a peer that doesn't read has of the kernel's, by its own count.
fn waiting(client: &TcpStream) -> usize {
    let mut buffer = vec![0; 32 << 20];
    client.set_nonblocking(true).unwrap();
    client.peek(&mut buffer).unwrap_or(0)
}

#[test]
fn little_waits_outside_where_little_may() {
    for octets in [256, 4096, 32_768, 262_144] {
        let held = Held {
            inbound: octets,
            outbound: octets,
        };
        let (mut watched, mut client, id) = pair(|it| Listen { held, ..it });
        let from_node = watched.fill(id) - waiting(&client);
        client.set_nonblocking(true).unwrap();
        let socket = watched.sockets.connections[&id].socket.try_clone();
        while client.write(&[0; 1000]).is_ok() || watched.turn(SHORT) {}
        let to_node = waiting(&socket.unwrap().into());
        eprintln!("{octets} may wait: {from_node} from the node, {to_node} to it");
        let portion = (octets / 4).clamp(1024, 16 * 1024) as usize;
        assert!(from_node < octets as usize + 2 * portion);
        assert!(to_node <= octets.max(2304) as usize);
    }
}

/// More may wait at once; less, when that much has gone.
#[test]
fn what_may_wait_can_be_changed() {
    let (mut watched, mut client, id) = pair(|it| it);
    let first = watched.writable(id);
    let held = |octets| {
        StreamOp::Hold(Held {
            inbound: octets,
            outbound: octets,
        })
    };
    watched.operate(id, held(first + 1000));
    assert_eq!(watched.writable(id), 1000);
    watched.operate(id, held(10));
    watched.rests();
    watched.operate(id, StreamOp::Send(vec![7; first as usize + 990]));
    let mut buffer = vec![0; first as usize + 990];
    let reader = std::thread::spawn(move || client.read_exact(&mut buffer).map(|()| client));
    watched.rests();
    let _client = reader.join().unwrap().unwrap();
    watched.operate(id, StreamOp::Send(vec![7; 10]));
    assert_eq!(watched.writable(id), 10);
}
