//! Two endpoints and the line between them, with a capture at each end.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use strait_core::{Duration, Instant};
use strait_tcp::{TcpConfig, TcpEndpoint, TcpEventKind, TcpState, endpoint};
use strait_wire::ip::{TcpFlags, tcp_header};
use strait_wire::pcapng::{self, linktype};

/// What the line does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Pass,
    Lose,
    /// Longer under way than others, which overtake it.
    Hold(Duration),
    /// Not there before, and in order.
    Until(Instant),
    Twice,
}

/// Decides by the way (0: from the client), the number of the packet on it, and the packet.
pub(crate) type Rule = fn(way: usize, number: u32, packet: &Seen) -> Does;

/// A packet as a rule sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) flags: TcpFlags,
    pub(crate) octets: usize,
    /// How many packets with data went this way before.
    pub(crate) data_before: u32,
    pub(crate) at: Instant,
}

impl Seen {
    /// Whether it was sent in this time, in milliseconds.
    pub(crate) fn during(&self, from: u64, to: u64) -> bool {
        Instant::from_millis(from) <= self.at && self.at < Instant::from_millis(to)
    }
}

/// What one end's application does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct App {
    pub(crate) sends: usize,
    /// Doesn't read before.
    pub(crate) reads_from: Duration,
    /// Ends its direction when everything was taken; else it leaves the connection open.
    pub(crate) closes: bool,
    /// Doesn't send before the other end has ended its direction.
    pub(crate) answers: bool,
    /// Breaks off then.
    pub(crate) aborts_at: Option<Duration>,
}

impl App {
    pub(crate) const fn sending(sends: usize) -> Self {
        Self {
            sends,
            reads_from: Duration::ZERO,
            closes: true,
            answers: false,
            aborts_at: None,
        }
    }

    pub(crate) const fn reading() -> Self {
        Self {
            answers: true,
            ..Self::sending(0)
        }
    }
}

/// A frame of a capture, and what the end beside the capture noted of it.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) scene: &'static str,
    pub(crate) profile: &'static str,
    /// By the end beside the capture; else it came.
    pub(crate) sent: bool,
    pub(crate) is_reset: bool,
    /// How long after the newest segment that the same end sent.
    pub(crate) after_newest: Duration,
    pub(crate) events: Vec<TcpEventKind>,
}

/// What an end sends and takes in, scene after scene.
pub(crate) struct Capture {
    pub(crate) file: Vec<u8>,
    pub(crate) frames: Vec<Frame>,
    /// Added to the times of a scene.
    base: Duration,
}

impl Capture {
    pub(crate) fn new(name: &str) -> Self {
        let mut file = Vec::new();
        pcapng::section(&mut file, "strait");
        pcapng::interface(&mut file, linktype::RAW, 0, name);
        Self {
            file,
            frames: Vec::new(),
            base: Duration::ZERO,
        }
    }

    fn note(&mut self, scene: &Scene, now: Instant, packet: &[u8], sent: bool, end: &mut End) {
        let header = tcp_header(packet).unwrap();
        let has = |flag| header.flags.contains(flag);
        let numbered = !header.payload.is_empty() || has(TcpFlags::SYN) || has(TcpFlags::FIN);
        let events = std::iter::from_fn(|| end.tcp.poll_event());
        let events: Vec<_> = events.map(|event| event.kind).collect();
        for kind in &events {
            *end.noted.entry(*kind).or_default() += 1;
        }
        if sent && numbered && !events.iter().any(|kind| kind.is_repeat()) {
            end.newest = now;
        }
        let time = (now + self.base).as_nanos();
        let octets = packet.len() as u32;
        pcapng::packet(&mut self.file, 0, time, packet, octets, None);
        self.frames.push(Frame {
            scene: scene.name,
            profile: scene.profile,
            sent,
            is_reset: has(TcpFlags::RST),
            after_newest: now.since(end.newest),
            events,
        });
    }
}

/// One connection under one sort of trouble.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) profile: &'static str,
    pub(crate) apps: [App; 2],
    pub(crate) rule: Rule,
    /// What to change in the ends' configuration.
    pub(crate) config: fn(&mut TcpConfig),
    pub(crate) lasts: Duration,
}

struct End {
    tcp: Box<dyn TcpEndpoint>,
    app: App,
    taken: usize,
    received: usize,
    aborted: bool,
    /// When it last sent something that it hadn't sent before.
    newest: Instant,
    noted: BTreeMap<TcpEventKind, u64>,
}

/// The octet at a place of a stream.
fn octet(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 13) as u8
}

impl End {
    fn work(&mut self, now: Instant) {
        let mut buffer = [0; 4096];
        let since = now.since(Instant::ZERO);
        while since >= self.app.reads_from {
            let count = self.tcp.recv(&mut buffer);
            let right = (self.received..).map(octet);
            assert!(buffer[..count].iter().copied().eq(right.take(count)));
            self.received += count;
            if count == 0 {
                break;
            }
        }
        let may_send = !self.app.answers || self.tcp.is_drained();
        if may_send && self.tcp.state() == TcpState::Established {
            let rest: Vec<u8> = (self.taken..self.app.sends).map(octet).collect();
            self.taken += self.tcp.send(&rest);
            if self.app.closes && self.taken == self.app.sends {
                self.tcp.close();
            }
        }
        if self.app.aborts_at.is_some_and(|at| since >= at) && !self.aborted {
            self.aborted = true;
            self.tcp.abort();
        }
    }

    /// The counters agree with the events one by one, and with each other.
    fn check_counts(&self) {
        let counters = self.tcp.counters();
        for kind in TcpEventKind::ALL {
            let noted = self.noted.get(&kind).copied().unwrap_or(0);
            assert_eq!(counters.events.of(kind), noted, "{kind:?}");
        }
        let repeats = TcpEventKind::ALL
            .into_iter()
            .filter(|kind| kind.is_repeat());
        let sum: u64 = repeats.map(|kind| counters.events.of(kind)).sum();
        assert_eq!(counters.retransmissions, sum);
    }

    /// When the application does something by itself.
    fn plan(&self, now: Instant) -> Option<Instant> {
        [Some(self.app.reads_from), self.app.aborts_at]
            .into_iter()
            .flatten()
            .map(|after| Instant::ZERO + after)
            .filter(|at| *at > now)
            .min()
    }
}

/// One way takes so long.
const DELAY: Duration = Duration::from_millis(20);
/// Time of an octet on the line, of 2 Mbit/s.
const OCTET: Duration = Duration::from_micros(4);
/// The first round trip: two ways and two small packets.
pub(crate) const ROUND_TRIP_MAX: Duration = Duration::from_millis(41);

struct Line<'a> {
    scene: &'a Scene,
    ends: [End; 2],
    captures: &'a mut [Capture; 2],
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    busy: [Instant; 2],
    sent: [u32; 2],
    data: [u32; 2],
    flown: u64,
    now: Instant,
}

impl Line<'_> {
    fn settle(&mut self) {
        let mut packet = Vec::new();
        for side in 0..2 {
            loop {
                let end = &mut self.ends[side];
                end.work(self.now);
                if !end.tcp.poll_packet(self.now, &mut packet) {
                    break;
                }
                self.captures[side].note(self.scene, self.now, &packet, true, end);
                self.put(side, &packet);
            }
        }
    }

    fn put(&mut self, side: usize, packet: &[u8]) {
        let header = tcp_header(packet).unwrap();
        let seen = Seen {
            flags: header.flags,
            octets: header.payload.len(),
            data_before: self.data[side],
            at: self.now,
        };
        self.data[side] += u32::from(!header.payload.is_empty());
        self.sent[side] += 1;
        self.busy[side] = self.busy[side].max(self.now) + OCTET * packet.len() as u32;
        let at = self.busy[side] + DELAY;
        let arrivals = match (self.scene.rule)(side, self.sent[side] - 1, &seen) {
            Does::Pass => vec![at],
            Does::Lose => vec![],
            Does::Hold(lasts) => vec![at + lasts],
            Does::Until(least) => vec![at.max(least)],
            Does::Twice => vec![at, at + Duration::from_micros(10)],
        };
        for at in arrivals {
            self.flown += 1;
            let key = (at, self.flown);
            self.flying.insert(key, (1 - side, packet.to_vec()));
        }
    }

    fn next(&self) -> Option<Instant> {
        let flying = self.flying.first_key_value().map(|((at, _), _)| *at);
        let ends = self.ends.iter();
        let own = ends.flat_map(|end| [end.tcp.wake(), end.plan(self.now)]);
        own.chain([flying]).flatten().min()
    }

    fn run(&mut self) {
        self.ends[0].tcp.connect(self.now).unwrap();
        self.ends[1].tcp.accept(self.now).unwrap();
        self.settle();
        let until = Instant::ZERO + self.scene.lasts;
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.now = next;
            while let Some(entry) = self.flying.first_entry().filter(|it| it.key().0 <= next) {
                let (side, packet) = entry.remove();
                let end = &mut self.ends[side];
                end.tcp.handle_packet(next, &packet);
                self.captures[side].note(self.scene, next, &packet, false, end);
                self.settle();
            }
            self.settle();
        }
    }
}

/// Plays a scene between ports that no other scene of these captures has.
pub(crate) fn play(scene: &Scene, ipv4: bool, captures: &mut [Capture; 2]) {
    let port = 40_000 + captures[0].frames.len() as u16 % 20_000;
    let address =
        |text: [&str; 2], port| SocketAddr::new(text[usize::from(!ipv4)].parse().unwrap(), port);
    let (near, far) = (
        address(["10.0.0.1", "fd00::1"], port),
        address(["10.0.0.2", "fd00::2"], 80),
    );
    let end = |local, remote, app, seed| {
        let mut config = TcpConfig {
            send_octets: 1 << 20,
            receive_octets: 1 << 20,
            // The client's numbers wrap within 40 kB.
            seed,
            ..TcpConfig::new(local, remote)
        };
        (scene.config)(&mut config);
        End {
            tcp: endpoint(scene.profile, &config).unwrap(),
            app,
            taken: 0,
            received: 0,
            aborted: false,
            newest: Instant::ZERO,
            noted: BTreeMap::new(),
        }
    };
    let [a, b] = scene.apps;
    let mut line = Line {
        scene,
        ends: [
            end(near, far, a, 0xffff_6000_0000_0005),
            end(far, near, b, 0x1234_5678_7654_3210),
        ],
        captures,
        flying: BTreeMap::new(),
        busy: [Instant::ZERO; 2],
        sent: [0; 2],
        data: [0; 2],
        flown: 0,
        now: Instant::ZERO,
    };
    line.run();
    let got = [line.ends[0].received, line.ends[1].received];
    if scene.apps.iter().all(|app| app.aborts_at.is_none()) {
        assert_eq!(got, [b.sends, a.sends], "{}", scene.name);
    }
    line.ends.iter().for_each(End::check_counts);
    for capture in captures {
        capture.base += scene.lasts;
    }
}
