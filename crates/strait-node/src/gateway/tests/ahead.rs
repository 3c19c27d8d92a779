//! Addresses that stand for names: what is sent to them gets to those who are meant.

use strait_core::node::{DatagramMeta, SocketId};
use strait_wire::ip::{Ends, build_echo, build_icmp_error, build_udp, quoted};

use super::super::services::DNS;
use super::*;

/// A question for a name in `lan`, numbered 1.
const QUESTION: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x03lan\0\0\x01\0\x01";
const AHEAD: [u8; 4] = [198, 19, 0, 1];
const REAL: [u8; 4] = [192, 0, 2, 1];

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn node(own: &str, other: &str, routes: &str, dns: &str) -> Gateway {
    gateway(&format!(
        "name = \"a\"\n[host]\naddresses = [\"{own}/30\"]\nroutes = [{routes}]\n\
         [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n[dns]\n{dns}\n\
         [[dns.partner]]\naddress = \"{other}\"\n"
    ))
}

fn near() -> Gateway {
    let dns = "listen = [\"10.9.0.1:53\"]\nclients = [\"10.1.0.0/24\"]\nahead = true";
    node("10.9.0.1", "10.9.0.2", "\"192.0.2.0/24\"", dns)
}

fn far() -> Gateway {
    let dns = "resolvers = [\"10.2.0.53:53\"]";
    node("10.9.0.2", "10.9.0.1", "\"10.1.0.0/24\"", dns)
}

/// Two gateways with a line between them, and the resolver of the second.
struct Two {
    gateways: [Gateway; 2],
    now: Instant,
    /// The resolver says that there is such a name.
    exists: bool,
    asked: u32,
    told: Vec<Vec<u8>>,
}

impl Two {
    fn new() -> Self {
        Self {
            gateways: [near(), far()],
            now: Instant::ZERO,
            exists: true,
            asked: 0,
            told: Vec::new(),
        }
    }

    /// Lets so many milliseconds pass; what came out of the host sides.
    fn pass(&mut self, ms: u64) -> [Vec<Vec<u8>>; 2] {
        let mut out = [Vec::new(), Vec::new()];
        for _ in 0..ms / 10 {
            self.now += Duration::from_millis(10);
            for (at, out) in out.iter_mut().enumerate() {
                self.gateways[at].handle(self.now, Input::Timeout);
                for octets in pull_all(&mut self.gateways[at], LINE, self.now) {
                    self.gateways[1 - at].handle(self.now, frame(LINE, &octets));
                }
                out.extend(pull_all(&mut self.gateways[at], PortId::HOST, self.now));
                self.serve(at);
                self.gateways[at].check();
            }
        }
        out
    }

    /// Answers what a gateway asks of its resolver, and keeps what it tells its client.
    fn serve(&mut self, at: usize) {
        while let Some(effect) = self.gateways[at].poll_effect() {
            let Effect::Datagram {
                socket,
                meta,
                bytes,
            } = effect
            else {
                continue;
            };
            if meta.dst != address("10.2.0.53:53") {
                self.told.push(bytes);
                continue;
            }
            self.asked += 1;
            let mut answer = bytes[..QUESTION.len()].to_vec();
            answer[2..4].copy_from_slice(&[0x81, if self.exists { 0x80 } else { 0x83 }]);
            answer[6..12].fill(0);
            if self.exists {
                answer[7] = 1;
                answer.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04");
                answer.extend_from_slice(&REAL);
            }
            let meta = DatagramMeta {
                src: meta.dst,
                dst: address("10.9.0.2:20000"),
                ..meta
            };
            let bytes = &answer[..];
            let input = Input::Datagram {
                socket,
                meta,
                bytes,
            };
            self.gateways[at].handle(self.now, input);
        }
    }

    /// The address that a client is told of the name.
    fn look_up(&mut self) -> Vec<u8> {
        let meta = DatagramMeta {
            src: address("10.1.0.2:4000"),
            dst: address("10.9.0.1:53"),
            dscp: 0,
            hop_limit: 64,
        };
        let socket = SocketId { owner: DNS, n: 0 };
        let bytes = QUESTION;
        let input = Input::Datagram {
            socket,
            meta,
            bytes,
        };
        self.gateways[0].handle(self.now, input);
        self.told.clear();
        self.serve(0);
        self.told.pop().unwrap()[QUESTION.len() + 12..][..4].to_vec()
    }

    fn send(&mut self, at: usize, packet: &[u8]) {
        self.gateways[at].handle(self.now, frame(PortId::HOST, packet));
    }
}

fn datagram(from: [u8; 4], to: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let ends = [(from, ports.0), (to, ports.1)].map(|(ip, port)| SocketAddr::from((ip, port)));
    let mut packet = Vec::new();
    assert!(build_udp(
        ends[0],
        ends[1],
        0,
        64,
        1,
        0,
        &[7; 20],
        &mut packet
    ));
    packet
}

fn ping(from: [u8; 4], to: [u8; 4], kind: EchoKind) -> Vec<u8> {
    let mut packet = Vec::new();
    let (from, to) = (from.into(), to.into());
    assert!(build_echo(
        kind,
        from,
        to,
        0,
        64,
        1,
        77,
        1,
        &[1; 8],
        &mut packet
    ));
    packet
}

fn ends(packet: &[u8]) -> ([u8; 4], [u8; 4]) {
    assert_ne!(ip::verify_transport_checksum(packet), Some(false));
    let ends = Ends::of(packet).unwrap();
    (ends.src.octets(), ends.dst.octets())
}

const CLIENT: [u8; 4] = [10, 1, 0, 2];

#[test]
fn datagrams_and_pings_get_to_a_name_and_back_before_it_is_known() {
    let mut two = Two::new();
    assert_eq!(two.look_up(), AHEAD);
    two.send(0, &datagram(CLIENT, AHEAD, (4000, 7)));
    two.send(0, &ping(CLIENT, AHEAD, EchoKind::Request));
    let [_, out] = two.pass(900);
    let out: Vec<_> = out.iter().map(|it| ends(it)).collect();
    assert_eq!(out, [(CLIENT, REAL), (CLIENT, REAL)]);
    // By now it is known, and known here.
    assert_eq!((two.look_up(), two.asked), (REAL.to_vec(), 1));
    let went = datagram(CLIENT, REAL, (4000, 7));
    let mut error = Vec::new();
    let kind = IcmpError::Unreachable(Unreachable::Port);
    assert!(build_icmp_error(kind, REAL.into(), &went, &mut error));
    let mut from_router = Vec::new();
    let expired = IcmpError::TimeExceeded;
    assert!(build_icmp_error(
        expired,
        [10, 2, 0, 9].into(),
        &went,
        &mut from_router
    ));
    for back in [
        datagram(REAL, CLIENT, (7, 4000)),
        ping(REAL, CLIENT, EchoKind::Reply),
        error,
        from_router,
        // Nobody has sent by this port.
        datagram(REAL, CLIENT, (7, 4001)),
    ] {
        two.send(1, &back);
    }
    let [out, _] = two.pass(900);
    let all: Vec<_> = out.iter().map(|it| ends(it).0).collect();
    // Errors go first.
    assert_eq!(all, [AHEAD, [10, 2, 0, 9], AHEAD, AHEAD, REAL]);
    let quotes = out.iter().filter_map(|it| quoted(it));
    let quotes: Vec<_> = quotes.map(|it| it.dst.octets()).collect();
    assert_eq!(quotes, [AHEAD, AHEAD]);
    let stats = two
        .gateways
        .each_ref()
        .map(|it| it.stats().dns.unwrap().own);
    assert_eq!((stats[0].ahead, stats[1].strange), (1, 0));
    assert_eq!(stats[1].translated, 6);
}

#[test]
fn a_gateway_that_began_anew_asks_who_is_meant_and_nobody_is_told() {
    let mut two = Two::new();
    two.look_up();
    two.pass(900);
    two.gateways[1] = far();
    two.send(0, &datagram(CLIENT, AHEAD, (4000, 7)));
    let [_, out] = two.pass(900);
    assert!(out.is_empty());
    let [_, out] = two.pass(1000);
    assert_eq!(out.iter().map(|it| ends(it).1).collect::<Vec<_>>(), [REAL]);
    assert_eq!(
        (two.asked, two.gateways[1].stats().dns.unwrap().own.strange),
        (2, 1)
    );
    // No name goes by this one.
    two.send(0, &datagram(CLIENT, [198, 19, 0, 2], (4000, 7)));
    let [out, far] = two.pass(100);
    let about = out
        .first()
        .and_then(|it| quoted(it))
        .map(|it| it.dst.octets());
    assert_eq!((about, far.len()), (Some([198, 19, 0, 2]), 0));
}

#[test]
fn who_sends_to_a_name_that_isnt_there_is_told() {
    let mut two = Two::new();
    two.exists = false;
    two.look_up();
    two.send(0, &datagram(CLIENT, AHEAD, (4000, 7)));
    let [out, far] = two.pass(900);
    let about = out
        .first()
        .and_then(|it| quoted(it))
        .map(|it| it.dst.octets());
    assert_eq!((about, far.len()), (Some(AHEAD), 0));
}

#[test]
fn what_waits_for_a_name_is_limited_and_ends() {
    let mut two = Two::new();
    // Its partner knows nothing of this.
    two.gateways[0] = node("10.9.0.1", "10.9.0.2", "\"198.19.0.0/16\"", "");
    for n in 0..100 {
        two.send(0, &datagram(CLIENT, [198, 19, 0, n], (4000, 7)));
        two.pass(10);
    }
    two.pass(40_000);
    let stats = two.gateways[1].stats();
    assert_eq!(stats.dns.unwrap().own.translated, 0);
    assert_eq!(stats.dropped.by(DropCause::Unresolved), 100);
}
