use alloc::vec;
use core::iter;

use strait_core::node::Side;
use strait_core::units::{Octets, Time};
use strait_proxy::codec::{Head, write_head};
use strait_wire::ip::SynOptions;

use super::*;
use crate::config::{PartnerConfig, ProxyConnect};

mod announced;
mod explicit;
mod flood;
mod idle;
mod packed;

const OWNER: Owner = Owner(257);
/// An address that stands for a name behind the far side.
const NAMED: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));

/// Of something that happened which is no question of a client's.
const QUIETLY: (Option<IpAddr>, Connects) = (None, Connects::WhenAnswered);

const LINK: LinkView = LinkView {
    bit_s: 9600,
    mtu: 1500,
    repairs: false,
    turn: Duration::ZERO,
    plans: false,
    queued: 0,
    silent: false,
    shared: false,
};

/// What stands before each 64 KiB of a stream.
const PIECE: u64 = 3;

/// As long as turns are short after a question, and more.
const ASKED_FOR: Duration = Duration::from_secs(46);

/// A class with room for more than a session gives it, and so many octets waiting.
const fn class(queued: u64) -> ClassView {
    ClassView {
        queued,
        queued_max: 96_000,
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn config(partner: &str, prefix: &str, allow: &str) -> ProxyConfig {
    ProxyConfig {
        enabled: true,
        port: 7480,
        explicit: Vec::new(),
        connect: ProxyConnect::Honest,
        early_after: None,
        classes: Vec::new(),
        idle: None,
        hold: None,
        compress: false,
        memory: Octets(128 << 20),
        streams: 1024,
        source: ProxySource::Client,
        refuse_quic: true,
        closed: false,
        announce: Vec::new(),
        allow: vec![allow.parse().unwrap()],
        partners: vec![PartnerConfig {
            address: partner.parse().unwrap(),
            prefixes: vec![prefix.parse().unwrap()],
        }],
    }
}

/// The proxies of two gateways, each other's partners. What comes out of one goes into the other at
/// once.
struct Pair {
    now: Instant,
    sides: [Proxy; 2],
    link: LinkView,
    /// Hops that packets have left when they come.
    hops_left: u8,
    /// Octets of the longest datagram.
    longest: usize,
    /// Nothing crosses.
    cut: bool,
    /// When clients are connected.
    connects: Connects,
    /// Whom an address of an open is for.
    meant: fn(IpAddr) -> Option<Meant>,
    effects: [Vec<Effect>; 2],
}

impl Pair {
    fn new(change: impl Fn(&mut ProxyConfig)) -> Self {
        let near = config("10.9.0.2", "10.2.0.0/24", "10.1.0.0/24");
        let far = config("10.9.0.1", "10.1.0.0/24", "10.2.0.0/24");
        let mut own = ["10.9.0.1", "10.9.0.2"].iter();
        let mut connects = Connects::WhenAnswered;
        let sides = [near, far].map(|mut config| {
            change(&mut config);
            connects = config.connects("");
            let own: IpAddr = own.next().unwrap().parse().unwrap();
            Proxy::new(OWNER, &config, vec![own], u64::from(own.is_ipv4()))
        });
        let mut pair = Self {
            now: Instant::ZERO,
            sides,
            link: LINK,
            hops_left: HOP_LIMIT,
            longest: 0,
            cut: false,
            connects,
            meant: |_| None,
            effects: [Vec::new(), Vec::new()],
        };
        pair.settle();
        pair.effects.iter_mut().for_each(Vec::clear);
        pair
    }

    /// Two seconds, in which datagrams go to and fro.
    fn settle(&mut self) {
        for _ in 0..200 {
            for from in 0..2 {
                let now = self.now;
                self.sides[from].set_link(now, 0, Some(self.link));
                self.sides[from].tend(now, 0);
                self.sides[from].connect_asked(now, is_near, |_, address| (self.meant)(address));
                for dscp in self.sides[from].wants(now, 0) {
                    let datagram = self.sides[from].poll(now, 0, dscp, class(0));
                    if let Some(datagram) = datagram.filter(|_| !self.cut) {
                        let to = &mut self.sides[1 - from];
                        self.longest = self.longest.max(datagram.len());
                        to.hear_partner(now, 0, (dscp, self.hops_left), &datagram);
                    }
                }
            }
            self.now += Duration::from_millis(10);
        }
        for (side, effects) in self.sides.iter_mut().zip(&mut self.effects) {
            side.check();
            effects.extend(iter::from_fn(|| side.poll_effect()));
        }
    }

    fn tell(&mut self, side: usize, id: StreamId, event: StreamEvent<'_>) {
        let gateway = match event {
            StreamEvent::Asked { dst, .. } if dst.ip() == NAMED => Some(address("10.9.0.2:1").ip()),
            _ => None,
        };
        self.sides[side].hear_stream(self.now, id, event, (gateway, self.connects));
        self.settle();
    }

    /// What was asked of a side's driver since the last time.
    fn take(&mut self, side: usize) -> Vec<(StreamId, StreamOp)> {
        let effects = core::mem::take(&mut self.effects[side]).into_iter();
        let streams = effects.filter_map(|effect| match effect {
            Effect::Stream { id, op } => Some((id, op)),
            _ => None,
        });
        streams.collect()
    }

    /// A client at the first gateway wants a connection.
    fn ask(&mut self, n: u64, dst: &str) -> StreamId {
        let id = StreamId {
            owner: OWNER,
            side: Side::Client,
            n,
        };
        let mut src = address("10.1.0.2:40000");
        src.set_port(src.port() - 1 + n as u16);
        let asked = StreamEvent::Asked {
            listener: SocketId { owner: OWNER, n: 0 },
            src,
            dst: address(dst),
            dscp: 10,
            options: SynOptions::default(),
        };
        self.tell(0, id, asked);
        id
    }

    fn open(&mut self, side: usize, id: StreamId) {
        let opened = StreamEvent::Opened {
            listener: None,
            src: address("10.1.0.2:40000"),
            dst: address("10.2.0.2:80"),
            dscp: 10,
        };
        self.tell(side, id, opened);
        self.tell(side, id, StreamEvent::Writable(65_536));
    }

    /// A connection through both.
    fn connect(&mut self) -> [StreamId; 2] {
        let near = self.ask(1, "10.2.0.2:80");
        let far = self.take(1)[0].0;
        self.open(1, far);
        self.open(0, near);
        self.effects.iter_mut().for_each(Vec::clear);
        [near, far]
    }
}

/// The hosts of both gateways.
fn is_near(address: IpAddr) -> bool {
    address != IpAddr::from([10, 2, 0, 99])
}

fn refusal(why: Unreachable) -> StreamOp {
    StreamOp::Refuse(Refusal::Unreachable(why))
}

#[test]
fn datagrams_to_a_partner_behind_others_are_no_longer_than_every_link_carries() {
    for (hops_left, longest) in [(HOP_LIMIT, 2040), (HOP_LIMIT - 1, 1500)] {
        let mut pair = Pair::new(|_| ());
        (pair.link.mtu, pair.link.bit_s) = (2040, 240_000);
        pair.hops_left = hops_left;
        let [near, _] = pair.connect();
        pair.tell(0, near, StreamEvent::Data(&[7; 6000]));
        assert_eq!(pair.longest + 28, longest, "{hops_left}");
    }
}

#[test]
fn whoever_takes_a_partners_address_does_not_say_how_near_it_is() {
    let mut pair = Pair::new(|_| ());
    (pair.link.mtu, pair.link.bit_s) = (2040, 240_000);
    let [near, _] = pair.connect();
    let (to, from, first, number) = (7, 7, 0, Some(1));
    for head in [Head::Hello { to, from, first }, Head::Items { to, number }] {
        let mut forged = Vec::new();
        write_head(head, &mut forged);
        pair.sides[0].hear_partner(pair.now, 0, (0, HOP_LIMIT - 1), &forged);
        pair.tell(0, near, StreamEvent::Data(&[7; 6000]));
        assert_eq!(pair.longest + 28, 2040);
        pair.longest = 0;
    }
}

#[test]
fn a_client_hears_nothing_before_its_server_has_answered() {
    let mut pair = Pair::new(|_| ());
    let near = pair.ask(1, "10.2.0.2:80");
    assert_eq!(pair.take(0), []);
    let asked = pair.take(1);
    let (far, op) = &asked[0];
    let connect = StreamOp::Connect {
        src: Some(address("10.1.0.2:40000")),
        dst: address("10.2.0.2:80"),
        dscp: 10,
        held: held(),
    };
    assert_eq!((asked.len(), op), (1, &connect));
    pair.open(1, *far);
    assert_eq!(pair.take(0), [(near, StreamOp::Accept)]);
}

#[test]
fn quic_is_refused_towards_a_partner_that_is_there() {
    let refuses = |pair: &mut Pair, to: &str| pair.sides[0].refuses_quic(to.parse().unwrap(), None);
    let mut pair = Pair::new(|_| ());
    assert!(refuses(&mut pair, "10.2.0.2"));
    for other in ["10.3.0.2", "10.9.0.1", "fd00:2::2"] {
        assert!(!refuses(&mut pair, other), "{other}");
    }
    assert_eq!(pair.sides[0].stats().refused_by(ProxyRefusal::Quic), 1);
    let mut pair = Pair::new(|config| config.refuse_quic = false);
    assert!(!refuses(&mut pair, "10.2.0.2"));
    let config = config("10.9.0.2", "10.2.0.0/24", "10.1.0.0/24");
    let mut alone = Proxy::new(OWNER, &config, Vec::new(), 1);
    assert!(!alone.refuses_quic(address("10.2.0.2:443").ip(), None));
}

#[test]
fn a_refusal_is_told_as_it_was() {
    for (error, told) in [
        (111, StreamOp::Refuse(Refusal::Reset)),
        (104, StreamOp::Refuse(Refusal::Reset)),
        (113, refusal(Unreachable::Host)),
        (101, refusal(Unreachable::NoRoute)),
        (13, refusal(Unreachable::AdminProhibited)),
        (110, StreamOp::Refuse(Refusal::Silence)),
        // Its far side has no place for another.
        (11, StreamOp::Refuse(Refusal::Silence)),
    ] {
        let mut pair = Pair::new(|_| ());
        let near = pair.ask(1, "10.2.0.2:80");
        let far = pair.take(1)[0].0;
        pair.tell(1, far, StreamEvent::Reset(error));
        assert_eq!(pair.take(0), [(near, told)], "{error}");
        let refused = pair
            .sides
            .each_ref()
            .map(|it| it.stats().refused_by(ProxyRefusal::Server));
        assert_eq!(refused, [1, 1]);
    }
}

#[test]
fn who_connects_to_a_name_is_connected_at_once_and_to_whom_is_known_later() {
    let mut pair = Pair::new(|_| ());
    pair.meant = |it| (it == NAMED).then_some(Meant::Unknown);
    let near = pair.ask(1, "198.18.0.1:80");
    assert_eq!(pair.take(0), [(near, StreamOp::Accept)]);
    assert!(pair.take(1).is_empty() && pair.sides[1].is_asked());
    pair.meant = |it| (it == NAMED).then_some(Meant::Address([10, 2, 0, 2].into()));
    pair.settle();
    let asked = pair.take(1);
    let [(far, StreamOp::Connect { dst, .. })] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(*dst, address("10.2.0.2:80"));
    pair.tell(1, *far, StreamEvent::Reset(111));
    assert_eq!(pair.take(0), [(near, StreamOp::Reset(111))]);
    // Whom nobody has by a name, and whom nobody may connect to.
    let mut pair = Pair::new(|_| ());
    for (meant, error) in [
        (|_| Some(Meant::Nobody), HOST_UNREACHABLE),
        (
            |_| Some(Meant::Address([10, 9, 0, 2].into())),
            PERMISSION_DENIED,
        ),
    ] as [(fn(IpAddr) -> Option<Meant>, u16); 2]
    {
        pair.meant = meant;
        let near = pair.ask(u64::from(error), "198.18.0.1:80");
        let reset = StreamOp::Reset(i32::from(error));
        assert_eq!(pair.take(0), [(near, StreamOp::Accept), (near, reset)]);
    }
    // Who has gone isn't connected any more, and nobody waits for ever.
    for goes in [true, false] {
        let mut pair = Pair::new(|_| ());
        pair.meant = |_| Some(Meant::Unknown);
        let near = pair.ask(1, "198.18.0.1:80");
        if goes {
            pair.tell(0, near, StreamEvent::Reset(104));
        } else {
            pair.take(0);
            pair.now += ANSWER;
            pair.settle();
            let reset = StreamOp::Reset(i32::from(HOST_UNREACHABLE));
            assert_eq!(pair.take(0), [(near, reset)]);
        }
        assert!(!pair.sides[1].is_asked(), "{goes}");
    }
}

/// A pair with a client whose server hasn't answered, and the moment at which it is connected.
fn waiting(change: impl Fn(&mut ProxyConfig)) -> (Pair, StreamId, StreamId, Instant) {
    let mut pair = Pair::new(|config| {
        config.early_after = Some(Time(Duration::from_secs(8)));
        change(config);
    });
    let at = pair.now + Duration::from_secs(8);
    let near = pair.ask(1, "10.2.0.2:80");
    let far = pair.take(1)[0].0;
    assert_eq!(pair.take(0), []);
    assert!(pair.sides[0].wake().is_some_and(|it| it <= at));
    (pair, near, far, at)
}

#[test]
fn a_client_is_connected_early_at_the_moment_said_and_not_before() {
    let (mut pair, near, far, at) = waiting(|_| ());
    let side = &mut pair.sides[0];
    side.tend(at - Duration::from_nanos(1), 0);
    assert_eq!(side.poll_effect(), None);
    side.tend(at, 0);
    let accept = Effect::Stream {
        id: near,
        op: StreamOp::Accept,
    };
    assert_eq!(
        (side.poll_effect(), side.poll_effect()),
        (Some(accept), None)
    );
    assert_eq!(side.stats().early, 1);
    // The server's answer changes nothing any more, and its refusal resets.
    pair.now = at;
    pair.tell(1, far, StreamEvent::Reset(111));
    assert_eq!(pair.take(0), [(near, StreamOp::Reset(111))]);
}

#[test]
fn an_answer_in_time_is_told_as_it_was() {
    let (mut pair, near, far, at) = waiting(|_| ());
    pair.tell(1, far, StreamEvent::Reset(111));
    assert_eq!(pair.take(0), [(near, StreamOp::Refuse(Refusal::Reset))]);
    pair.sides[0].tend(at, 0);
    assert_eq!(
        (pair.sides[0].poll_effect(), pair.sides[0].stats().early),
        (None, 0)
    );
    let (mut pair, near, far, at) = waiting(|_| ());
    pair.open(1, far);
    assert_eq!(pair.take(0), [(near, StreamOp::Accept)]);
    pair.sides[0].tend(at, 0);
    assert_eq!(
        (pair.sides[0].poll_effect(), pair.sides[0].stats().early),
        (None, 0)
    );
}

#[test]
fn with_early_connections_a_client_is_reset_if_it_was_wrong() {
    let mut pair = Pair::new(|config| config.connect = ProxyConnect::Early);
    let near = pair.ask(1, "10.2.0.2:80");
    assert_eq!(pair.take(0), [(near, StreamOp::Accept)]);
    pair.open(0, near);
    pair.tell(0, near, StreamEvent::Data(b"never delivered"));
    let far = pair.take(1)[0].0;
    pair.tell(1, far, StreamEvent::Reset(111));
    let told = pair.take(0);
    assert!(told.contains(&(near, StreamOp::Reset(111))), "{told:?}");
    let books = pair.sides.each_ref().map(|it| it.stats().sessions.streams);
    assert_eq!(
        (books[0].delivered + books[0].lost, books[1].lost),
        (15 + PIECE, 15 + PIECE)
    );
}

#[test]
fn octets_and_ends_cross_both_ways_within_credit() {
    let mut pair = Pair::new(|_| ());
    let [near, far] = pair.connect();
    pair.tell(0, near, StreamEvent::Data(b"question"));
    pair.tell(0, near, StreamEvent::Fin);
    let sent = pair.take(1);
    assert_eq!(sent[0], (far, StreamOp::Send(b"question".to_vec())));
    assert!(sent.contains(&(far, StreamOp::Fin)), "{sent:?}");
    // A connection that takes nothing gets nothing, and no more is read for it.
    pair.tell(1, far, StreamEvent::Data(&[7; 70_000]));
    let sent = pair.take(0);
    let octets = sent.iter().map(|(_, op)| match op {
        StreamOp::Send(octets) => octets.len(),
        _ => 0,
    });
    assert!(octets.sum::<usize>() <= 65_536);
    pair.tell(0, near, StreamEvent::Writable(10_000));
    pair.tell(1, far, StreamEvent::Fin);
    assert!(pair.take(0).contains(&(near, StreamOp::Fin)));
    for side in &pair.sides {
        assert!(side.locals.is_empty());
        let books = side.stats().sessions.streams;
        assert_eq!((books.ended, books.delivered), (1, 70_008 + 3 * PIECE));
    }
}

#[test]
fn a_client_that_is_gone_takes_its_server_along() {
    let mut pair = Pair::new(|_| ());
    let near = pair.ask(1, "10.2.0.2:80");
    let far = pair.take(1)[0].0;
    pair.tell(0, near, StreamEvent::Reset(110));
    assert_eq!(pair.take(1), [(far, StreamOp::Reset(110))]);
    assert_eq!(pair.sides[0].stats().refused_by(ProxyRefusal::Gone), 1);
    // Whoever comes all the same is nobody's.
    pair.open(0, near);
    assert_eq!(pair.take(0), [(near, StreamOp::Reset(103))]);
}

#[test]
fn a_partner_connects_only_to_what_is_allowed_and_near() {
    for (dst, why) in [
        ("10.2.0.99:80", ProxyRefusal::NotAllowed),
        ("10.9.0.2:22", ProxyRefusal::NotAllowed),
        ("127.0.0.1:22", ProxyRefusal::NotAllowed),
        ("10.3.0.1:80", ProxyRefusal::NotAllowed),
    ] {
        let everywhere = |config: &mut ProxyConfig| {
            if config.partners[0].address == IpAddr::from([10, 9, 0, 2]) {
                config.partners[0].prefixes = vec!["0.0.0.0/0".parse().unwrap()];
            }
        };
        let mut pair = Pair::new(everywhere);
        let near = pair.ask(1, dst);
        let told = pair.take(0);
        assert_eq!(
            told,
            [(near, refusal(Unreachable::AdminProhibited))],
            "{dst}"
        );
        assert_eq!(pair.sides[1].stats().refused_by(why), 1, "{dst}");
        assert_eq!(pair.take(1), []);
    }
}

#[test]
fn a_partner_speaks_for_its_own_clients_alone() {
    let other = |config: &mut ProxyConfig| {
        if config.partners[0].address == IpAddr::from([10, 9, 0, 1]) {
            config.partners[0].prefixes = vec!["10.7.0.0/24".parse().unwrap()];
        }
    };
    let mut pair = Pair::new(other);
    pair.ask(1, "10.2.0.2:80");
    assert_eq!(
        pair.sides[1].stats().refused_by(ProxyRefusal::WrongSource),
        1
    );
    assert_eq!(pair.take(1), []);
}

#[test]
fn nobody_is_asked_for_where_no_partner_is() {
    let mut pair = Pair::new(|_| ());
    for dst in ["10.3.0.1:80", "10.9.0.1:22"] {
        let near = pair.ask(1, dst);
        assert_eq!(
            pair.take(0),
            [(near, refusal(Unreachable::AdminProhibited))]
        );
    }
    assert_eq!(pair.sides[0].stats().refused_by(ProxyRefusal::NoPartner), 2);
}

#[test]
fn a_gateway_that_began_anew_has_its_partners_connections_reset() {
    let mut pair = Pair::new(|_| ());
    let [near, _] = pair.connect();
    let far = config("10.9.0.1", "10.1.0.0/24", "10.2.0.0/24");
    pair.sides[1] = Proxy::new(OWNER, &far, vec!["10.9.0.2".parse().unwrap()], 99);
    pair.settle();
    assert_eq!(pair.take(0), [(near, StreamOp::Reset(104))]);
    assert_eq!(pair.sides[0].stats().sessions.restarts, 1);
}

#[test]
fn clients_pass_while_their_partner_is_silent() {
    let pass = |id| (id, StreamOp::Refuse(Refusal::Pass));
    for connect in [ProxyConnect::Honest, ProxyConnect::Early] {
        let mut pair = Pair::new(|config| config.connect = connect);
        let far = config("10.9.0.1", "10.1.0.0/24", "10.2.0.0/24");
        let restart = |n| Proxy::new(OWNER, &far, vec!["10.9.0.2".parse().unwrap()], n);
        // A gateway that hasn't heard of its partner.
        let near = config("10.9.0.2", "10.2.0.0/24", "10.1.0.0/24");
        pair.sides[0] = Proxy::new(
            OWNER,
            &ProxyConfig { connect, ..near },
            vec!["10.9.0.1".parse().unwrap()],
            9,
        );
        pair.cut = true;
        pair.settle();
        pair.take(0);
        let alone = pair.ask(5, "10.2.0.2:80");
        assert_eq!(pair.take(0), [pass(alone)]);
        // It comes.
        pair.cut = false;
        pair.sides[1] = restart(10);
        pair.settle();
        let [there, _] = pair.connect();
        // Who has passed may have its answer on the way: its SYN again is of that connection.
        pair.ask(5, "10.2.0.2:80");
        assert_eq!(pair.take(0), [pass(alone)]);
        // It goes, and the next client is the one that notices.
        pair.cut = true;
        let waits = pair.ask(2, "10.2.0.2:80");
        let early = connect == ProxyConnect::Early;
        let accepted: &[_] = if early {
            &[(waits, StreamOp::Accept)]
        } else {
            &[]
        };
        assert_eq!(pair.take(0), accepted);
        (0..17).for_each(|_| pair.settle());
        let lost = if early {
            (waits, StreamOp::Reset(110))
        } else {
            pass(waits)
        };
        assert_eq!(pair.take(0), [lost]);
        let next = pair.ask(3, "10.2.0.2:80");
        assert_eq!(pair.take(0), [pass(next)]);
        // It returns, and so does what it had.
        pair.cut = false;
        (0..3).for_each(|_| pair.settle());
        pair.tell(0, there, StreamEvent::Data(b"on"));
        let sent = pair.take(1).into_iter().map(|(_, op)| op);
        assert_eq!(sent.collect::<Vec<_>>(), [StreamOp::Send(b"on".to_vec())]);
        pair.ask(4, "10.2.0.2:80");
        assert!(matches!(pair.take(1)[..], [(_, StreamOp::Connect { .. })]));
        let passed = if early { 3 } else { 4 };
        assert_eq!(pair.sides[0].stats().passed, passed);
    }
}

#[test]
fn with_turns_the_lower_address_greets_first() {
    let turn = Duration::from_secs(120);
    // Its link has 9600 bit/s: two questions take 0.24 s.
    let later = Duration::from_millis(20_240);
    for (own, partner, turn, waits) in [
        ("10.9.0.1", "10.9.0.2", turn, Duration::ZERO),
        ("10.9.0.2", "10.9.0.1", turn, later),
        ("10.9.0.2", "10.9.0.1", Duration::ZERO, Duration::ZERO),
        ("10.9.0.2", "fd00::9", turn, Duration::ZERO),
    ] {
        let addresses = vec![own.parse().unwrap(), "fd00::1".parse().unwrap()];
        let config = config(partner, "10.2.0.0/24", "10.1.0.0/24");
        let mut proxy = Proxy::new(OWNER, &config, addresses, 1);
        let start = Instant::from_secs(1);
        let mut greets = |at| {
            proxy.set_link(at, 0, Some(LinkView { turn, ..LINK }));
            proxy.tend(at, 0);
            !proxy.wants(at, 0).is_empty()
        };
        assert_eq!(greets(start), waits.is_zero(), "{own} {partner}");
        assert!(waits.is_zero() || !greets(start + waits - Duration::from_nanos(1)));
        assert!(greets(start + waits), "{own} {partner}");
    }
}

#[test]
fn a_link_that_is_down_for_long_is_a_silent_partner() {
    let mut pair = Pair::new(|_| ());
    let start = pair.now;
    let proxy = &mut pair.sides[0];
    proxy.set_link(start, 0, None);
    proxy.tend(start, 0);
    let at = proxy.wake().unwrap();
    assert!(at > start + Duration::from_secs(30));
    for (now, there) in [(at - Duration::from_nanos(1), 1), (at, 0)] {
        proxy.set_link(now, 0, None);
        proxy.tend(now, 0);
        assert_eq!(proxy.stats().partners_known, there);
    }
    proxy.set_link(at, 0, Some(LINK));
    assert_eq!(proxy.stats().partners_known, 1);
}

#[test]
fn servers_see_the_gateway_where_that_is_wanted() {
    let mut pair = Pair::new(|config| config.source = ProxySource::Gateway);
    pair.ask(1, "10.2.0.2:80");
    let op = &pair.take(1)[0].1;
    assert!(matches!(op, StreamOp::Connect { src: None, .. }), "{op:?}");
}

#[test]
fn the_longest_prefix_says_whose_a_server_is() {
    let mut two = config("10.9.0.2", "10.0.0.0/8", "10.1.0.0/24");
    two.partners.push(PartnerConfig {
        address: "10.9.1.2".parse().unwrap(),
        prefixes: vec!["10.2.0.0/16".parse().unwrap()],
    });
    let proxy = Proxy::new(OWNER, &two, Vec::new(), 1);
    let of = |ip: [u8; 4]| proxy.partner_of(ip.into());
    assert_eq!(
        [of([10, 2, 0, 1]), of([10, 3, 0, 1]), of([11, 0, 0, 1])],
        [Some(1), Some(0), None]
    );
}

#[test]
fn a_datagram_waits_while_others_of_its_class_do_but_not_for_ever() {
    let mut pair = Pair::new(|_| ());
    let [near, _] = pair.connect();
    let now = pair.now;
    let proxy = &mut pair.sides[0];
    proxy.hear_stream(now, near, StreamEvent::Data(&[1; 6000]), QUIETLY);
    let first = proxy.poll(now, 0, 10, class(0)).unwrap();
    // At 9600 bit/s: 750 ms of line, headers included.
    assert!((865..=900 - 28).contains(&first.len()), "{}", first.len());
    // 50 ms of it may wait.
    assert_eq!(proxy.poll(now, 0, 10, class(60)), None);
    let last = proxy.poll(now, 0, 10, class(59)).unwrap();
    let octets = last.len() as u64 + 28;
    let share = now + Duration::from_nanos(octets * 8_000_000_000 / 9600) * 4;
    let before = share - Duration::from_nanos(1);
    proxy.set_link(before, 0, Some(LINK));
    assert_eq!(proxy.poll(before, 0, 10, class(60)), None);
    assert_eq!(proxy.wake(), Some(share));
    assert!(proxy.poll(share, 0, 10, class(60)).is_some());
}

#[test]
fn a_stream_that_is_alone_on_a_slow_line_has_longer_datagrams() {
    let mut pair = Pair::new(|_| ());
    let [near, _] = pair.connect();
    let other = pair.ask(2, "10.2.0.2:80");
    let far = pair.take(1)[0].0;
    pair.open(1, far);
    pair.open(0, other);
    let slow = LinkView { bit_s: 300, ..LINK };
    let now = pair.now;
    let proxy = &mut pair.sides[0];
    proxy.set_link(now, 0, Some(slow));
    proxy.hear_stream(now, near, StreamEvent::Data(&[1; 6000]), QUIETLY);
    let alone = proxy.poll(now, 0, 10, class(0)).unwrap();
    assert!((700..=768 - 28).contains(&alone.len()), "{}", alone.len());
    proxy.hear_stream(now, other, StreamEvent::Data(&[2; 6000]), QUIETLY);
    let both = proxy.poll(now, 0, 10, class(0)).unwrap();
    assert!(both.len() <= 256 - 28, "{}", both.len());
}

#[test]
fn turns_of_a_slow_radio_have_more_than_half_a_minute() {
    let queued = |bit_s| LinkView { bit_s, ..LINK }.queued_turn();
    // A minute, as long as that is 8 kB at most.
    assert_eq!([75, 300, 1066].map(queued), [562, 2250, 7995]);
    assert_eq!([1067, 2000].map(queued), [7999, 8000]);
    assert_eq!([2400, 9600].map(queued), [9000, 36_000]);
    // Of a stream that is alone twice that, as long as no other comes.
    let planned = |alone| move |bit_s| LinkView { bit_s, ..LINK }.turn_planned(alone);
    let seconds = |all: [u64; 4]| all.map(Duration::from_secs);
    assert_eq!(
        [75, 300, 2400, 9600].map(planned(true)),
        seconds([120, 120, 60, 60])
    );
    assert_eq!(
        [75, 300, 2400, 9600].map(planned(false)),
        seconds([60, 60, 30, 30])
    );
}

#[test]
fn a_turn_has_what_waits_and_nothing_pushes_that_out() {
    let hf = LinkView {
        repairs: true,
        turn: Duration::from_secs(120),
        ..LINK
    };
    let mut pair = Pair::new(|_| ());
    let [near, _] = pair.connect();
    let now = pair.now;
    let proxy = &mut pair.sides[0];
    proxy.set_link(now, 0, Some(hf));
    proxy.hear_stream(now, near, StreamEvent::Data(&[1; 6000]), QUIETLY);
    assert!(proxy.poll(now, 0, 10, class(0)).is_some());
    // 30 s of 9600 bit/s, or what the class has room for, with the longest datagram.
    let tight = |queued| ClassView {
        queued,
        queued_max: 10_000,
    };
    assert_eq!(proxy.poll(now, 0, 10, class(35_100)), None);
    assert!(proxy.poll(now, 0, 10, class(35_099)).is_some());
    assert_eq!(proxy.poll(now, 0, 10, tight(9100)), None);
    assert!(proxy.poll(now, 0, 10, tight(9099)).is_some());
}

#[test]
fn while_nothing_leaves_no_second_datagram_joins_the_first() {
    let hf = LinkView {
        repairs: true,
        turn: Duration::from_secs(120),
        plans: true,
        ..LINK
    };
    let mut pair = Pair::new(|_| ());
    let [near, _] = pair.connect();
    let (now, later) = (pair.now, pair.now + Duration::from_secs(60));
    let proxy = &mut pair.sides[0];
    let silent = LinkView { silent: true, ..hf };
    proxy.set_link(now, 0, Some(silent));
    proxy.hear_stream(now, near, StreamEvent::Data(&[1; 6000]), QUIETLY);
    assert!(proxy.poll(now, 0, 10, class(0)).is_some());
    assert_eq!(proxy.poll(later, 0, 10, class(1500)), None);
    proxy.set_link(later, 0, Some(hf));
    assert!(proxy.poll(later, 0, 10, class(1500)).is_some());
}

#[test]
fn a_turn_is_planned_by_what_is_ready_and_short_while_the_other_side_asks() {
    let hf = LinkView {
        repairs: true,
        turn: Duration::from_secs(120),
        plans: true,
        ..LINK
    };
    let mut pair = Pair::new(|_| ());
    let [_, far] = pair.connect();
    let now = pair.now;
    let proxy = &mut pair.sides[1];
    proxy.set_link(now, 0, Some(hf));
    assert_eq!(proxy.promise(now, 0).octets, 0);
    proxy.hear_stream(now, far, StreamEvent::Data(&[1; 20_000]), QUIETLY);
    // With a packet's headers for each 1,452 octets.
    assert_eq!(proxy.promise(now, 0).octets, 20_000 + PIECE + 14 * 48);
    proxy.hear_stream(now, far, StreamEvent::Data(&[1; 30_000]), QUIETLY);
    assert_eq!(proxy.promise(now, 0).octets, 50_000 + PIECE + 35 * 48);
    // A minute of 9600 bit/s, as nobody is beside it, with what waits at the link, where two
    // datagrams are enough.
    let queued = 30_000;
    proxy.set_link(now, 0, Some(LinkView { queued, ..hf }));
    assert_eq!(proxy.promise(now, 0).octets, 72_000 - queued);
    assert!(proxy.poll(now, 0, 10, class(0)).is_some());
    assert_eq!(proxy.poll(now, 0, 10, class(60)), None);
    // Somebody asks beside it, a while after it was asked for itself.
    pair.now += Duration::from_secs(16);
    pair.ask(2, "10.2.0.2:81");
    let now = pair.now;
    let proxy = &mut pair.sides[1];
    proxy.set_link(now, 0, Some(hf));
    proxy.hear_stream(now, far, StreamEvent::Data(&[1; 15_000]), QUIETLY);
    assert_eq!(proxy.promise(now, 0).octets, 12_000);
    // What answers it goes whole.
    let connects = |(_, op): &(StreamId, StreamOp)| matches!(op, StreamOp::Connect { .. });
    let asked = pair.take(1);
    let (far, _) = asked.iter().find(|it| connects(it)).unwrap();
    pair.open(1, *far);
    let now = pair.now;
    let proxy = &mut pair.sides[1];
    proxy.set_link(now, 0, Some(hf));
    proxy.hear_stream(now, *far, StreamEvent::Data(&[1; 16_000]), QUIETLY);
    assert_eq!(proxy.promise(now, 0).octets, 16_000 + PIECE + 12 * 48);
    let later = now + ASKED_FOR;
    assert!(proxy.promise(later, 0).octets > 12_000);
    // The link gave up what may have arrived: what the other side says to one datagram tells.
    let given_up = proxy.poll(later, 0, 10, class(0)).unwrap();
    proxy.hear_returned(later, 0, &given_up, false);
    assert!(proxy.promise(later, 0).octets > 12_000);
    let given_up = proxy.poll(later, 0, 10, class(0)).unwrap();
    proxy.hear_returned(later, 0, &given_up, true);
    assert_eq!(proxy.promise(later, 0).octets, 1500);
    // Elsewhere nobody plans.
    proxy.set_link(now, 0, Some(LinkView { plans: false, ..hf }));
    assert_eq!(proxy.promise(now, 0).octets, 0);
}
