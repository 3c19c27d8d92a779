//! Sockets between two hosts, by what other programs and the kernel's rules see of them.

use std::io::Read;
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration as Wait;

use socket2::SockRef;
use strait_core::node::Held;

use super::tests::{LONG, NOW, SOCKET, Watched, asked};
use super::*;
use crate::kernel::namespace::Namespace;

/// Two hosts with one wire, in both families. What is none of the two's addresses goes to `here`.
struct Hosts {
    here: Namespace,
    far: Namespace,
}

/// The addresses of a family.
#[derive(Clone, Copy)]
struct Family {
    here: IpAddr,
    far: IpAddr,
    /// Somebody else's.
    foreign: IpAddr,
    group: IpAddr,
    other_group: IpAddr,
    /// How `nft` calls it.
    ip: &'static str,
    prefix: u8,
}

fn families() -> [Family; 2] {
    let of = |[here, far, foreign, group, other_group]: [&str; 5], ip, prefix| Family {
        here: here.parse().unwrap(),
        far: far.parse().unwrap(),
        foreign: foreign.parse().unwrap(),
        group: group.parse().unwrap(),
        other_group: other_group.parse().unwrap(),
        ip,
        prefix,
    };
    let four = [
        "10.9.0.1",
        "10.9.0.2",
        "10.88.0.9",
        "239.1.2.3",
        "239.1.2.4",
    ];
    let six = ["fd09::1", "fd09::2", "fd88::9", "ff15::3", "ff15::4"];
    [of(four, "ip", 24), of(six, "ip6", 64)]
}

fn run(namespace: &Namespace, program: &str, arguments: &str) -> String {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let run = || Command::new(program).args(words).output();
    let output = namespace.enter(run).unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

impl Hosts {
    /// `None` where this can't be made.
    fn new() -> Option<Self> {
        let missing = ["nft", "ip"]
            .iter()
            .any(|it| Command::new(it).arg("-V").output().is_err());
        if missing || !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root, `nft` and `ip`");
            return None;
        }
        let here = Namespace::create("here").unwrap();
        let far = Namespace::create("far").unwrap();
        here.connect("wire", &far, "wire").unwrap();
        for it in families() {
            here.add_address("wire", it.here, it.prefix).unwrap();
            far.add_address("wire", it.far, it.prefix).unwrap();
            let all = if it.prefix == 64 { 128 } else { 32 };
            far.add_route(it.foreign, all, it.here).unwrap();
        }
        let hosts = Self { here, far };
        for it in families() {
            hosts.await_wire(&it);
        }
        Some(hosts)
    }

    /// A new wire carries nothing for a moment, and multicast isn't sent again.
    fn await_wire(&self, it: &Family) {
        let near = self.here.enter(|| UdpSocket::bind((it.here, 1))).unwrap();
        let near = near.unwrap();
        let far = self.at_far(|| UdpSocket::bind((it.far, 1))).unwrap();
        for (from, to) in [(&far, &near), (&near, &far)] {
            to.set_read_timeout(Some(Wait::from_millis(20))).unwrap();
            let place = to.local_addr().unwrap();
            let begun = std::time::Instant::now();
            while from.send_to(b"?", place).is_err() || to.recv(&mut [0]).is_err() {
                assert!(begun.elapsed() < Wait::from_millis(LONG.into()));
            }
        }
    }

    /// Counts at `far` what comes from `here` with a code point, and what with another.
    fn count(&self, it: &Family, dscp: u8) {
        let ip = it.ip;
        let chain = "{ type filter hook prerouting priority mangle ; }";
        for rule in [
            format!("add table {ip} seen"),
            format!("add chain {ip} seen in {chain}"),
            format!("add rule {ip} seen in {ip} dscp {dscp} meta l4proto tcp counter accept"),
            format!("add rule {ip} seen in meta l4proto tcp counter"),
        ] {
            run(&self.far, "nft", &rule);
        }
    }

    /// What was counted.
    fn counted(&self, it: &Family) -> [u64; 2] {
        let list = run(&self.far, "nft", &format!("list table {} seen", it.ip));
        let mut counts = list.split("packets ").skip(1).map(|rest| {
            let number = rest.split(' ').next().unwrap();
            number.parse().unwrap()
        });
        [counts.next().unwrap(), counts.next().unwrap()]
    }

    fn watched(&self) -> Watched {
        self.here.enter(Watched::new).unwrap()
    }

    /// Does something as a program at the other host.
    fn at_far<T: Send>(&self, does: impl FnOnce() -> T + Send) -> T {
        self.far.enter(does).unwrap()
    }
}

const PLACE: u16 = 7000;

fn addresses(watched: &mut Watched) -> (StreamId, SocketAddr, SocketAddr, u8) {
    watched.until(|id, it| match it {
        Happened::Opened { src, dst, dscp, .. } => Some((*id, *src, *dst, *dscp)),
        _ => None,
    })
}

#[test]
fn code_points_go_out_with_the_first_packet_and_come_in_with_it() {
    let Some(hosts) = Hosts::new() else { return };
    for it in families() {
        hosts.count(&it, 26);
        let mut watched = hosts.watched();
        let place = SocketAddr::new(it.here, PLACE);
        let listen = Listen {
            dscp: 26,
            ..Listen::at(place)
        };
        hosts.here.enter(|| watched.listen(listen)).unwrap();
        let marked = || {
            let socket = Socket::new(Domain::for_address(place), Type::STREAM, None)?;
            options::mark(&socket, place, 46)?;
            socket.connect(&place.into())?;
            io::Result::Ok(TcpStream::from(socket))
        };
        let mut client = hosts.at_far(marked).unwrap();
        let (id, src, _, dscp) = addresses(&mut watched);
        assert_eq!((src.ip(), dscp), (it.far, 46));
        // What an accepted stream sends is marked as its listener, too.
        watched.send(id, 10);
        watched.operate(id, StreamOp::Fin);
        client.read_to_end(&mut Vec::new()).unwrap();
        drop(client);
        watched.until(|_, it| (*it == Happened::Fin).then_some(()));
        let [so_marked, other] = hosts.counted(&it);
        assert!(so_marked >= 3 && other == 0, "{so_marked} {other}");
        // The other way around.
        let there = hosts.at_far(|| TcpListener::bind((it.far, PLACE))).unwrap();
        let connect = StreamOp::Connect {
            src: None,
            dst: (it.far, PLACE).into(),
            dscp: 26,
            held: Held::ORDINARY,
        };
        let id = asked(1);
        hosts.here.enter(|| watched.operate(id, connect)).unwrap();
        assert_eq!(addresses(&mut watched).3, 26);
        watched.send(id, 10);
        let mut heard = [0; 10];
        there.accept().unwrap().0.read_exact(&mut heard).unwrap();
        let [again, other] = hosts.counted(&it);
        assert!(again >= so_marked + 3 && other == 0, "{again} {other}");
    }
}

/// The next datagram for the node.
fn came(watched: &mut Watched, id: SocketId) -> Option<(DatagramMeta, Vec<u8>)> {
    let mut buffer = [0; 2000];
    for _ in 0..LONG {
        match watched.sockets.receive(id, &mut buffer) {
            Came::Datagram(meta, octets) => return Some((meta, buffer[..octets].to_vec())),
            Came::Skipped => return None,
            Came::Nothing => thread::sleep(Wait::from_millis(1)),
        }
    }
    panic!("no datagram comes");
}

fn bind(hosts: &Hosts, watched: &mut Watched, bind: Bind) {
    let op = SocketOp::Bind(bind);
    let event = hosts.here.enter(|| watched.sockets.open(NOW, SOCKET, op));
    let event = event.unwrap();
    assert_eq!(event, Some(SocketEvent::Bound(bind.address)));
}

#[test]
fn datagrams_say_where_they_go_and_how() {
    let Some(hosts) = Hosts::new() else { return };
    for it in families() {
        let mut watched = hosts.watched();
        let own = SocketAddr::new(it.here, PLACE);
        let plain = Bind {
            address: own,
            group: None,
            transparent: false,
        };
        bind(&hosts, &mut watched, plain);
        let program = hosts.at_far(|| UdpSocket::bind((it.far, 9))).unwrap();
        program
            .set_read_timeout(Some(Wait::from_millis(LONG.into())))
            .unwrap();
        mark(&program, it.far.is_ipv6(), 46, 7);
        program.send_to(b"hello", own).unwrap();
        let (meta, octets) = came(&mut watched, SOCKET).unwrap();
        let expected = DatagramMeta {
            src: (it.far, 9).into(),
            dst: own,
            dscp: 46,
            hop_limit: 7,
        };
        assert_eq!((meta, octets.as_slice()), (expected, &b"hello"[..]));
        // Back, read by a socket of the same kind; what comes from is the socket's own.
        let mut theirs = Watched::new();
        let back = hosts.at_far(|| {
            let op = SocketOp::Bind(Bind {
                address: (it.far, 10).into(),
                ..plain
            });
            theirs.sockets.open(NOW, SOCKET, op)
        });
        assert_eq!(back, Some(SocketEvent::Bound((it.far, 10).into())));
        let answer = DatagramMeta {
            src: (it.foreign, 1).into(),
            dst: (it.far, 10).into(),
            dscp: 26,
            hop_limit: 3,
        };
        watched.sockets.send(SOCKET, &answer, b"answer");
        let (meta, octets) = came(&mut theirs, SOCKET).unwrap();
        assert_eq!(meta, DatagramMeta { src: own, ..answer });
        assert_eq!(octets, b"answer");
        // What can't be sent is counted, and harms nothing that follows.
        watched.sockets.send(SOCKET, &answer, &[0; 65_536]);
        let nobody = DatagramMeta {
            dst: (it.far, 11).into(),
            ..answer
        };
        watched.sockets.send(SOCKET, &nobody, b"?");
        assert_eq!(watched.sockets.datagram_counts().refused, 1);
        program.send_to(b"again", own).unwrap();
        assert_eq!(came(&mut watched, SOCKET).unwrap().1, b"again");
    }
}

fn mark(socket: &UdpSocket, six: bool, dscp: u8, hops: u32) {
    let socket = SockRef::from(socket);
    if six {
        socket.set_tclass_v6(u32::from(dscp) << 2).unwrap();
        socket.set_unicast_hops_v6(hops).unwrap();
        socket.set_multicast_hops_v6(hops).unwrap();
    } else {
        socket.set_tos_v4(u32::from(dscp) << 2).unwrap();
        socket.set_ttl_v4(hops).unwrap();
        socket.set_multicast_ttl_v4(hops).unwrap();
    }
}

#[test]
fn a_member_of_a_group_hears_it_and_its_own_address_and_nothing_else() {
    let Some(hosts) = Hosts::new() else { return };
    for it in families() {
        let mut watched = hosts.watched();
        let own = SocketAddr::new(it.here, PLACE);
        let member = Bind {
            address: own,
            group: Some(it.group),
            transparent: false,
        };
        bind(&hosts, &mut watched, member);
        let at_far = Bind {
            address: (it.far, PLACE).into(),
            group: Some(it.group),
            transparent: false,
        };
        let mut theirs = hosts.at_far(|| {
            let mut theirs = Watched::new();
            let bound = theirs.sockets.open(NOW, SOCKET, SocketOp::Bind(at_far));
            assert_eq!(bound, Some(SocketEvent::Bound(at_far.address)));
            theirs
        });
        let to = |ip: IpAddr| DatagramMeta {
            src: at_far.address,
            dst: (ip, PLACE).into(),
            dscp: 46,
            hop_limit: 1,
        };
        theirs.sockets.send(SOCKET, &to(it.here), b"you");
        let heard = came(&mut watched, SOCKET);
        assert_eq!(heard, Some((to(it.here), b"you".to_vec())));
        // Somebody else at this host is a member of the other group.
        let mut other = hosts.watched();
        let elsewhere = Bind {
            group: Some(it.other_group),
            ..member
        };
        bind(&hosts, &mut other, elsewhere);
        theirs.sockets.send(SOCKET, &to(it.other_group), b"others");
        theirs.sockets.send(SOCKET, &to(it.group), b"all");
        let heard = came(&mut watched, SOCKET).unwrap();
        assert_eq!(heard, (to(it.group), b"all".to_vec()));
        let heard = came(&mut other, SOCKET).unwrap();
        assert_eq!(heard, (to(it.other_group), b"others".to_vec()));
        // What it said itself it doesn't hear, and what it is told alone it does.
        let back = DatagramMeta {
            src: own,
            dst: (it.group, PLACE).into(),
            ..to(it.group)
        };
        watched.sockets.send(SOCKET, &back, b"back");
        assert_eq!(came(&mut theirs, SOCKET), None);
        assert_eq!(came(&mut theirs, SOCKET), Some((back, b"back".to_vec())));
        assert_eq!(came(&mut watched, SOCKET), None);
    }
}

#[test]
fn a_socket_for_datagrams_is_tried_again_until_it_can_be_had() {
    let Some(hosts) = Hosts::new() else { return };
    let mut watched = hosts.watched();
    let late: SocketAddr = "10.66.0.1:99".parse().unwrap();
    let op = SocketOp::Bind(Bind {
        address: late,
        group: None,
        transparent: false,
    });
    let second = Instant::from_secs(1);
    let tick = |watched: &mut Watched| hosts.here.enter(|| watched.sockets.tick(second)).unwrap();
    let opened = hosts.here.enter(|| watched.sockets.open(NOW, SOCKET, op));
    let failed = SocketEvent::Failed(libc::EADDRNOTAVAIL);
    assert_eq!(opened.unwrap(), Some(failed));
    assert_eq!(
        (watched.sockets.wake(), watched.sockets.missing().count()),
        (Some(second), 1)
    );
    hosts.here.add_address("wire", late.ip(), 24).unwrap();
    let bound = News::Socket(SOCKET, SocketEvent::Bound(late));
    assert_eq!(tick(&mut watched), [bound]);
    assert_eq!(watched.sockets.wake(), None);
}
