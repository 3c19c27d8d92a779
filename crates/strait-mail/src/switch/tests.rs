//! Two switches beside each other, whose streams cross at once and whose storage outlives them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString;
use alloc::{format, vec};

use strait_core::node::{
    SocketId, SocketOp, StoreError, StoreOp, StreamEvent, StreamId, StreamOp, Ticket,
};
use strait_core::work::{Work, WorkError};

use super::*;

mod connections;
mod deadlines;
mod edge;
mod faults;
mod hops;
mod hostile;
mod lmtp;
mod orders;
mod packed;
mod polls;
mod repeats;
mod server;
mod strict;

use self::packed::done;
use self::server::SERVER;
use self::strict::Line;

const OWNER: Owner = Owner(1);
const LINK: Link = Link {
    bit_s: 9600,
    turn: Duration::ZERO,
    bearer: Bearer::Tcp,
};
/// The clients of tests.
const PROGRAM: u64 = 1 << 32;

fn lanes() -> [LaneSettings; 6] {
    core::array::from_fn(|at| LaneSettings {
        port: 5000 + at as u16,
        dscp: 8 * at as u8,
        permanent: at > 1,
        expiry: Precedence::ALL[at].expiry(),
        alarm: (at > 3).then_some(Duration::from_secs(300)),
        octets_max: if at > 3 { 200_000 } else { 1_000_000 },
        hours: None,
        yields: Yields::Pause,
    })
}

fn own_ip(at: usize) -> IpAddr {
    [10, 9, 0, at as u8 + 1].into()
}

fn hop(to: IpAddr) -> HopSettings {
    HopSettings {
        to,
        port: None,
        lmtp: false,
        connections: 1,
        thin: false,
        polled: None,
        poll: None,
        tls: None,
        login: None,
    }
}

/// Switch 0 or 1, of `a.example` or `b.example`, with the other as its next hop.
fn settings(at: usize) -> Settings {
    let names = ["a.example", "b.example"];
    let others = Prefix::new(own_ip(1 - at), 32).unwrap();
    let submission = ListenSettings {
        address: SocketAddr::from(([127, 0, 0, 1], 25)),
        dscp: 0,
        default: Precedence::Routine,
        clients: vec![Prefix::new([127, 0, 0, 0].into(), 8).unwrap()],
        most: None,
        lane: false,
        tls: None,
        users: false,
    };
    let lane = |(lane, default): (LaneSettings, Precedence)| ListenSettings {
        address: SocketAddr::new(own_ip(at), lane.port),
        dscp: lane.dscp,
        default,
        clients: vec![others],
        most: None,
        lane: true,
        tls: None,
        users: false,
    };
    let inbound = lanes().into_iter().zip(Precedence::ALL).map(lane);
    Settings {
        name: names[at].into(),
        listeners: core::iter::once(submission).chain(inbound).collect(),
        mailboxes: vec![format!("ops@{}", names[at])],
        maildir: "/mail".into(),
        routes: vec![RouteSettings {
            domains: vec![names[1 - at].into()],
            hops: vec![hop(own_ip(1 - at))],
            patience: Duration::from_secs(30),
            text_first: None,
        }],
        lanes: lanes(),
        octets_max: 1_000_000,
        by_min: 0,
        repeats: Duration::from_secs(86_400),
        messages_max: 1000,
        users: Vec::new(),
        dictionary: b"Received: from by with ESMTP id PRIORITY".to_vec(),
    }
}

/// A switch, its storage, and the far ends of its streams.
struct Site {
    switch: Switch,
    store: BTreeMap<Vec<u8>, Vec<u8>>,
    full: bool,
    /// So many batches are too many for storage.
    busy: u32,
    /// What a slow storage was asked.
    asked: VecDeque<Effect>,
    listeners: Vec<SocketAddr>,
    /// What clients of tests heard.
    heard: BTreeMap<u64, String>,
    /// Who came from another site: our number, and the site and number there.
    ends: BTreeMap<(Side, u64), (usize, Side, u64)>,
    delivered: Vec<(String, String, String)>,
    /// Connections to servers that are no sites, and what these were told.
    dialled: Vec<u64>,
    told: BTreeMap<u64, String>,
}

impl Site {
    fn change(&mut self, batch: Vec<StoreOp>) {
        for op in batch {
            match op {
                StoreOp::Put(key, value) => drop(self.store.insert(key, value)),
                StoreOp::Append(key, value) => self.store.entry(key).or_default().extend(value),
                StoreOp::Delete(key) => drop(self.store.remove(&key)),
            }
        }
    }
}

struct World {
    now: Instant,
    sites: Vec<Site>,
    up: bool,
    /// Sites to which no way leads, such that neither hear nor say anything, and such that hear.
    away: BTreeSet<usize>,
    silent: BTreeSet<usize>,
    mute: BTreeSet<usize>,
    /// Storage does what it is asked when a test says so.
    slow: bool,
    next: u64,
    /// So many octets cross yet, and then the link is gone.
    left: usize,
    /// The far end hears of no end of a stream.
    deaf: bool,
    /// The profiles by which TLS began.
    secured: Vec<String>,
    /// Kernels keep what they are given.
    keeps: bool,
    /// A site says nothing any more on a connection on which it has heard this.
    deafens: Option<(usize, &'static str)>,
    deafened: BTreeSet<(Side, u64)>,
    /// A line of replies that doesn't cross.
    forgets: Option<&'static str>,
    /// What was packed is something else when it is unpacked.
    spoils: bool,
    /// A slow line between the sites, in the direction of site 1.
    line: Option<Line>,
    /// Octets that crossed, by the lane's port, in order.
    crossed: Vec<(u16, usize)>,
    ports: BTreeMap<(usize, u64), u16>,
}

impl World {
    fn new() -> Self {
        Self::of(vec![settings(0), settings(1)])
    }

    /// Sites with these settings, at the addresses of their numbers.
    fn of(all: Vec<Settings>) -> Self {
        let site = |settings: Settings| Site {
            listeners: settings.listeners.iter().map(|it| it.address).collect(),
            switch: Switch::new(OWNER, settings, 1, &[]),
            store: BTreeMap::new(),
            full: false,
            busy: 0,
            asked: VecDeque::new(),
            heard: BTreeMap::new(),
            ends: BTreeMap::new(),
            delivered: Vec::new(),
            dialled: Vec::new(),
            told: BTreeMap::new(),
        };
        let mut world = Self {
            now: Instant::from_secs(1),
            sites: all.into_iter().map(site).collect(),
            up: true,
            away: BTreeSet::new(),
            silent: BTreeSet::new(),
            mute: BTreeSet::new(),
            slow: false,
            left: usize::MAX,
            deaf: false,
            spoils: false,
            line: None,
            keeps: false,
            forgets: None,
            deafens: None,
            deafened: BTreeSet::new(),
            secured: Vec::new(),
            next: 0,
            crossed: Vec::new(),
            ports: BTreeMap::new(),
        };
        for at in 0..world.sites.len() {
            let wall = WallTime(1_795_737_600_000_000_000);
            world.sites[at].switch.set_calendar(world.now, wall);
        }
        world.run();
        world
    }

    fn hear(&mut self, at: usize, side: Side, n: u64, event: StreamEvent<'_>) {
        let id = StreamId {
            owner: OWNER,
            side,
            n,
        };
        let now = self.now;
        self.sites[at]
            .switch
            .hear(now, &Input::Stream { id, event });
    }

    /// Until nothing happens any more at this moment.
    fn run(&mut self) {
        loop {
            let mut effects = VecDeque::new();
            for at in 0..self.sites.len() {
                let site = &mut self.sites[at];
                let hops: Vec<IpAddr> = site.switch.hops().collect();
                let links = hops.iter().map(|hop| {
                    let mut away = self.away.iter();
                    let there = self.up && away.all(|it| own_ip(*it) != *hop);
                    there.then_some(LINK)
                });
                site.switch.set_links(self.now, links);
                site.switch.settle(self.now);
                site.switch.check();
                while let Some(effect) = site.switch.poll_effect() {
                    effects.push_back((at, effect));
                }
            }
            if effects.is_empty() {
                return;
            }
            for (at, effect) in effects {
                self.act(at, effect);
            }
        }
    }

    /// Until a time has passed.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.run();
            let wakes = self.sites.iter().filter_map(|it| it.switch.wake());
            let Some(next) = wakes.min().filter(|it| *it <= end) else {
                break;
            };
            self.now = self.now.max(next);
        }
        self.now = end;
        self.run();
    }

    fn act(&mut self, at: usize, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Stream { id, op } => self.stream(at, (id.side, id.n), op),
            Effect::Store { .. } | Effect::Load { .. } if self.slow => {
                self.sites[at].asked.push_back(effect);
            }
            Effect::Store { ticket, batch } => self.stored(at, ticket, batch),
            Effect::Load {
                ticket,
                key,
                offset,
                octets,
            } => {
                let site = &mut self.sites[at];
                let piece = site.store.get(&key).map(|it| {
                    let rest = it.get(offset as usize..).unwrap_or_default();
                    rest[..rest.len().min(octets as usize)].to_vec()
                });
                let refused = site.busy > 0;
                site.busy = site.busy.saturating_sub(1);
                let result = if refused {
                    Err(StoreError::Busy)
                } else {
                    Ok(piece.as_deref())
                };
                site.switch.hear(now, &Input::Loaded { ticket, result });
            }
            Effect::Work {
                ticket,
                work:
                    Work::Deliver {
                        folder,
                        name,
                        octets,
                    },
            } => {
                let text = String::from_utf8(octets).unwrap();
                self.sites[at].delivered.push((folder, name, text));
                let result = Ok(&[][..]);
                self.sites[at]
                    .switch
                    .hear(now, &Input::Worked { ticket, result });
            }
            Effect::Work { ticket, work } => {
                let done = done(&work);
                let spoilt = self.spoils && matches!(work, Work::Decompress { .. });
                let result = match &done {
                    Ok(_) if spoilt => Err(WorkError::Broken),
                    done => done.as_deref().map_err(|error| *error),
                };
                self.sites[at]
                    .switch
                    .hear(now, &Input::Worked { ticket, result });
            }
            Effect::Socket {
                op: SocketOp::Listen(_),
                ..
            } => {}
            other => panic!("{other:?}"),
        }
    }

    fn stored(&mut self, at: usize, ticket: Ticket, batch: Vec<StoreOp>) {
        let site = &mut self.sites[at];
        let result = if site.full {
            Err(StoreError::Full)
        } else if site.busy > 0 {
            site.busy -= 1;
            Err(StoreError::Busy)
        } else {
            site.change(batch);
            Ok(())
        };
        site.switch
            .hear(self.now, &Input::Stored { ticket, result });
    }

    fn stream(&mut self, at: usize, from: (Side, u64), op: StreamOp) {
        if let StreamOp::Connect { dst, .. } = op {
            return self.connect(at, from, dst);
        }
        if let StreamOp::StartTls { profile, .. } = op {
            self.secured.push(profile);
            let secured = StreamEvent::Secured {
                peer: None,
                version: strait_core::tls::TlsVersion::V1_3,
            };
            return self.hear(at, from.0, from.1, secured);
        }
        if from.1 >= PROGRAM {
            if let StreamOp::Send(octets) = op {
                let text = String::from_utf8(octets).unwrap();
                self.sites[at]
                    .heard
                    .entry(from.1)
                    .or_default()
                    .push_str(&text);
            }
            return;
        }
        let Some((other, side, n)) = self.sites[at].ends.get(&from).copied() else {
            if let StreamOp::Send(octets) = op {
                let writable = StreamEvent::Writable(octets.len() as u32);
                let text = String::from_utf8(octets).unwrap();
                self.sites[at]
                    .told
                    .entry(from.1)
                    .or_default()
                    .push_str(&text);
                self.hear(at, from.0, from.1, writable);
            }
            return;
        };
        let heard = [at, other].iter().all(|it| self.is_heard(*it));
        let crosses = self.up && heard && !self.mute.contains(&at);
        match op {
            StreamOp::Send(_) if self.keeps => {}
            StreamOp::Send(octets) if at == 0 && from.0 == Side::Node && self.line.is_some() => {
                let port = self.ports[&(at, from.1)];
                let line = self.line.as_mut();
                line.into_iter()
                    .for_each(|it| it.take(from.1, port, &octets));
            }
            StreamOp::Send(octets) if self.swallows((at, from), (other, side, n), &octets) => {
                let writable = StreamEvent::Writable(octets.len() as u32);
                self.hear(at, from.0, from.1, writable);
            }
            StreamOp::Send(mut octets) if crosses => {
                if let (Some(line), Ok(text)) = (self.forgets, core::str::from_utf8(&octets)) {
                    octets = text.replace(line, "").into_bytes();
                }
                octets.truncate(self.left);
                self.left -= octets.len();
                self.up = self.left > 0;
                if from.0 == Side::Node {
                    self.crossed.push((self.ports[&(at, from.1)], octets.len()));
                }
                self.hear(other, side, n, StreamEvent::Data(&octets));
                self.hear(
                    at,
                    from.0,
                    from.1,
                    StreamEvent::Writable(octets.len() as u32),
                );
            }
            StreamOp::Fin => self.hear(other, side, n, StreamEvent::Fin),
            StreamOp::Reset(_) => {
                self.line
                    .as_mut()
                    .into_iter()
                    .for_each(|it| it.forget(from.1));
                self.sites[at].ends.remove(&from);
                self.sites[other].ends.remove(&(side, n));
                if !self.deaf && self.is_heard(other) {
                    self.hear(other, side, n, StreamEvent::Reset(104));
                }
            }
            _ => {}
        }
    }

    fn connect(&mut self, at: usize, from: (Side, u64), dst: SocketAddr) {
        if dst.port() == 24 {
            return self.sites[at].dialled.push(from.1);
        }
        let listens = |site: &Site| site.listeners.iter().position(|it| *it == dst);
        let mut sites = self.sites.iter().enumerate().filter(|it| it.0 != at);
        let found = sites.find_map(|(other, site)| Some((other, listens(site)?)));
        let Some((other, listener)) = found.filter(|_| self.up) else {
            return self.hear(at, from.0, from.1, StreamEvent::Reset(111));
        };
        if !self.is_heard(other) {
            return;
        }
        self.next += 1;
        let there = (Side::Client, self.next);
        let (side, n) = there;
        self.sites[at].ends.insert(from, (other, side, n));
        self.sites[other].ends.insert(there, (at, from.0, from.1));
        self.ports.insert((at, from.1), dst.port());
        let src = SocketAddr::new(own_ip(at), 40_000);
        self.open(other, there, Some(listener), (src, dst));
        self.open(at, from, None, (src, dst));
    }

    /// Whether what a site says is heard, and what is said to it.
    fn is_heard(&self, at: usize) -> bool {
        !self.silent.contains(&at) && !self.away.contains(&at)
    }

    fn open(
        &mut self,
        at: usize,
        (side, n): (Side, u64),
        listener: Option<usize>,
        (src, dst): (SocketAddr, SocketAddr),
    ) {
        let listener = listener.map(|n| SocketId {
            owner: OWNER,
            n: n as u32,
        });
        let opened = StreamEvent::Opened {
            listener,
            src,
            dst,
            dscp: 0,
        };
        self.hear(at, side, n, opened);
        let room = if self.line.is_some() { 8192 } else { 4096 };
        self.hear(at, side, n, StreamEvent::Writable(room));
    }

    /// A client says all of this at once, and has heard that by now.
    fn say(&mut self, at: usize, n: u64, from: &str, text: &str) -> String {
        let n = PROGRAM + n;
        if !self.sites[at].heard.contains_key(&n) {
            let src = format!("{from}:40000").parse().unwrap();
            let dst = self.sites[at].listeners[0];
            self.open(at, (Side::Client, n), Some(0), (src, dst));
            self.hear(at, Side::Client, n, StreamEvent::Writable(1 << 20));
            self.sites[at].heard.insert(n, String::new());
        }
        self.hear(at, Side::Client, n, StreamEvent::Data(text.as_bytes()));
        self.run();
        self.sites[at].heard[&n].clone()
    }

    /// Brings a message to site 0.
    fn submit(&mut self, n: u64, options: &str, to: &str, text: &str) -> String {
        let text = format!(
            "EHLO mua\r\nMAIL FROM:<ops@a.example>{options}\r\nRCPT TO:<{to}>\r\nDATA\r\n{text}\r\n.\r\n"
        );
        self.say(0, n, "127.0.0.1", &text)
    }

    /// Kills a site and starts it anew from what is stored.
    fn restart(&mut self, at: usize) {
        self.restart_as(at, settings(at));
    }

    fn restart_as(&mut self, at: usize, settings: Settings) {
        let there: Vec<_> = self.sites[at].ends.values().copied().collect();
        self.sites[at].ends.clear();
        for (other, side, n) in there {
            self.sites[other].ends.remove(&(side, n));
            if self.is_heard(other) {
                self.hear(other, side, n, StreamEvent::Reset(104));
            }
        }
        let stored = self.sites[at].store.iter();
        let stored: Vec<_> = stored
            .map(|(key, it)| (key.clone(), it.len() as u64))
            .collect();
        self.next += 1;
        self.sites[at].switch = Switch::new(OWNER, settings, 1 + self.next, &stored);
        self.run();
    }

    /// Files in the mailboxes of a site: one that is written again is the same.
    fn files(&self, at: usize) -> usize {
        let delivered = self.sites[at].delivered.iter();
        let names: BTreeSet<_> = delivered.map(|it| (&it.0, &it.1)).collect();
        names.len()
    }

    fn is_empty(&self) -> bool {
        // What was taken of other switches is known for long.
        let known = |key: &Vec<u8>| {
            [&b"mail/taken/"[..], b"mail/known/"]
                .iter()
                .any(|it| key.starts_with(it))
        };
        self.sites.iter().all(|it| it.store.keys().all(known))
    }
}

#[test]
fn a_message_crosses_and_lies_in_its_mailbox() {
    let mut world = World::new();
    let heard = world.submit(
        1,
        " MT-PRIORITY=3",
        "ops@b.example",
        "Subject: x\r\n\r\nhello",
    );
    assert!(heard.contains("250 2.6.0 1 stored"), "{heard}");
    let [(folder, name, text)] = &world.sites[1].delivered[..] else {
        panic!("{:?}", world.sites[1].delivered);
    };
    assert_eq!(folder, "/mail/ops@b.example");
    assert!(
        name.starts_with("1795737600.M1T") && name.ends_with(".b.example"),
        "{name}"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Return-Path: <ops@a.example>");
    let from =
        "Received: from a.example ([10.9.0.1]) by b.example with ESMTP id 1 PRIORITY 3; Fri,";
    assert!(lines[1].starts_with(from), "{text}");
    assert!(lines[2].starts_with("Received: from mua ([127.0.0.1]) by a.example"));
    assert_eq!(lines[3..], ["Subject: x", "", "hello"]);
    assert!(!text.contains('\r') && world.is_empty());
    // By the lane of the next higher precedence.
    assert!(
        world
            .crossed
            .iter()
            .any(|(port, octets)| *port == 5004 && *octets > 50)
    );
    let stats = world.sites[0].switch.stats();
    assert_eq!(
        (stats.accepted, stats.relayed, stats.waiting),
        (1, 1, [0; 6])
    );
}

#[test]
fn what_says_nothing_is_routine_and_its_sender_is_told_the_value() {
    let mut world = World::new();
    let heard = world.submit(1, "", "ops@b.example", "\r\nhello");
    assert!(
        heard.contains("250 2.3.6 -2 is the new priority"),
        "{heard}"
    );
    assert!(world.sites[1].delivered[0].2.contains("PRIORITY -2;"));
    for (header, value) in [
        ("MT-Priority: 6", 6),
        ("MMHS-Primary-Precedence: flash", 4),
        ("X-Priority: 1", 2),
        ("Subject: //WL2K Z/ Fuel", 4),
        ("Subject: //WL2K Z/ Fuel\r\nX-Priority: 1", 2),
    ] {
        world.submit(1, "", "ops@b.example", &format!("{header}\r\n\r\nhello"));
        let (_, _, text) = world.sites[1].delivered.pop().unwrap();
        assert!(text.contains(&format!("PRIORITY {value};")), "{text}");
    }
}

#[test]
fn a_link_that_is_down_holds_and_what_waits_goes_by_precedence() {
    let mut world = World::new();
    world.up = false;
    for (n, value) in [-4, -2, 0, 2, 4, 6].into_iter().enumerate() {
        let text = format!("\r\n{value}");
        let heard = world.submit(
            n as u64,
            &format!(" MT-PRIORITY={value}"),
            "ops@b.example",
            &text,
        );
        assert!(heard.contains("250 2.6.0"), "{heard}");
    }
    let rows = world.sites[0].switch.view(world.now).messages;
    let states: Vec<&str> = rows.iter().map(|it| it.state.name()).collect();
    assert_eq!(states, ["link down"; 6]);
    assert_eq!(
        (rows[0].precedence, rows[5].precedence),
        ("override", "deferred")
    );
    world.pass(Duration::from_secs(3600));
    world.restart(0);
    assert!(world.sites[1].delivered.is_empty());
    world.up = true;
    world.run();
    let texts = world.sites[1]
        .delivered
        .iter()
        .map(|it| it.2.lines().last().unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["6", "4", "2", "0", "-2", "-4"]);
    assert!(world.is_empty());
}

#[test]
fn who_is_unknown_is_reported_at_the_messages_precedence() {
    let mut world = World::new();
    world.submit(
        1,
        " MT-PRIORITY=4 ENVID=QQ",
        "nobody@b.example",
        "\r\nhello",
    );
    let [(folder, _, text)] = &world.sites[0].delivered[..] else {
        panic!("{:?}", world.sites[0].delivered);
    };
    assert_eq!(folder, "/mail/ops@a.example");
    for line in [
        "Action: failed",
        "Status: 5.1.1",
        "Original-Envelope-Id: QQ",
    ] {
        assert!(text.lines().any(|it| it == line), "{text}");
    }
    assert!(text.contains("Your message of precedence flash: failed"));
    assert!(world.is_empty());
    let stats = world.sites[0].switch.stats();
    assert_eq!((stats.failed, stats.reports, stats.untold), (1, 1, 0));
    world.submit(1, "", "nobody@c.example", "\r\nhello");
    assert!(world.sites[0].heard[&(PROGRAM + 1)].contains("550 5.7.1 no route"));
}

#[test]
fn strangers_are_sent_away_and_the_untrusted_ask_in_vain() {
    let mut world = World::new();
    let heard = world.say(0, 1, "10.1.0.7", "EHLO x\r\n");
    assert_eq!(heard, "554 5.7.1 you are no client of this switch\r\n");
    world.sites[0].switch.queue.settings.listeners[0].most = Some(Precedence::Priority);
    let heard = world.submit(2, " MT-PRIORITY=6", "ops@b.example", "\r\nhello");
    assert!(heard.contains("250 2.3.6 0 is the new priority"), "{heard}");
}

#[test]
fn nothing_is_answered_for_that_is_not_stored() {
    let mut world = World::new();
    world.sites[0].full = true;
    let heard = world.submit(1, "", "ops@b.example", "\r\nhello");
    assert!(heard.contains("452 4.3.1 no room"), "{heard}");
    world.sites[0].full = false;
    world.pass(Duration::from_secs(2));
    assert!(world.is_empty() && world.sites[1].delivered.is_empty());
    // A text whose envelope never came.
    world.sites[0].store.insert(queue::text_key(7), vec![1]);
    world.restart(0);
    assert!(world.is_empty());
}

/// All of a client's message comes at once: its end is there before its first piece is refused.
#[test]
fn a_message_with_a_piece_that_is_not_stored_is_not_answered_for() {
    let mut world = World::new();
    world.sites[0].busy = 1;
    let heard = world.submit(1, "", "ops@a.example", &noise(2000));
    assert!(heard.contains("452 4.3.1 too much waits"), "{heard}");
    world.pass(Duration::from_secs(2));
    assert!(world.is_empty() && world.sites[0].delivered.is_empty());
    let heard = world.submit(1, "", "ops@a.example", &noise(2000));
    assert!(heard.contains(" stored"), "{heard}");
    assert_eq!(world.sites[0].delivered.len(), 1);
}

#[test]
fn a_change_that_cannot_be_stored_is_stored_later() {
    let mut world = World::new();
    world.up = false;
    world.submit(1, "", "ops@b.example", "\r\nhello");
    world.sites[0].full = true;
    world.up = true;
    world.run();
    assert_eq!(world.sites[1].delivered.len(), 1);
    assert_eq!(world.sites[0].store.len(), 2);
    world.sites[0].full = false;
    world.pass(Duration::from_secs(2));
    assert!(world.is_empty());
}

#[test]
fn messages_are_held_until_they_are_let_go_over_a_restart_too() {
    let mut world = World::new();
    world.up = false;
    world.submit(1, "", "ops@b.example", "\r\nhello");
    let now = world.now;
    world.sites[0].switch.obey(now, MailOrder::Hold(1));
    world.run();
    world.restart(0);
    world.up = true;
    world.pass(Duration::from_secs(60));
    assert_eq!(
        world.sites[0].switch.view(now).messages[0].state.name(),
        "held"
    );
    assert!(world.sites[1].delivered.is_empty());
    let now = world.now;
    world.sites[0].switch.obey(now, MailOrder::Release(1));
    world.run();
    assert_eq!(world.sites[1].delivered.len(), 1);
    assert!(world.is_empty());
}

#[test]
fn what_is_too_old_is_reported() {
    let mut world = World::new();
    world.up = false;
    let text = "Subject: Fuel\r\n\r\nhello";
    world.submit(1, " MT-PRIORITY=4", "ops@b.example", text);
    world.pass(Precedence::Flash.expiry() - Duration::from_secs(1));
    assert!(world.sites[0].delivered.is_empty());
    world.pass(Duration::from_secs(1));
    let text = &world.sites[0].delivered[0].2;
    for part in ["Status: 5.4.7", "rfc822-headers\n\nSubject: Fuel\n"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(world.is_empty());
}

#[test]
fn a_circle_ends() {
    let mut world = World::new();
    let traces = "Received: x\r\n".repeat(31);
    let heard = world.submit(1, "", "ops@b.example", &format!("{traces}\r\nhello"));
    assert!(heard.contains("554 5.4.6"), "{heard}");
    world.pass(Duration::from_secs(1));
    assert!(world.is_empty());
}

#[test]
fn a_lane_rests_while_a_higher_one_has_something() {
    let mut world = World::new();
    world.up = false;
    world.submit(
        1,
        " MT-PRIORITY=-2",
        "ops@b.example",
        &"x".repeat(900).repeat(20),
    );
    world.submit(2, " MT-PRIORITY=4", "ops@b.example", &"y".repeat(9000));
    world.crossed.clear();
    world.up = true;
    world.run();
    let octets = |port: u16| {
        let mine = world
            .crossed
            .iter()
            .enumerate()
            .filter(move |it| it.1.0 == port);
        let places: Vec<usize> = mine.filter(|it| it.1.1 > 100).map(|it| it.0).collect();
        (places[0], places[places.len() - 1])
    };
    let ((_, flash_ends), (routine_begins, _)) = (octets(5004), octets(5001));
    assert!(flash_ends < routine_begins, "{:?}", world.crossed);
    assert_eq!(world.sites[1].delivered.len(), 2);
}

#[test]
fn who_says_no_more_has_its_answer() {
    let mut world = World::new();
    let text = "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<ops@b.example>\r\nDATA\r\n\r\nhello\r\n.\r\n";
    let from = "127.0.0.1:40000".parse().unwrap();
    let dst = world.sites[0].listeners[0];
    let n = PROGRAM + 1;
    world.open(0, (Side::Client, n), Some(0), (from, dst));
    world.hear(0, Side::Client, n, StreamEvent::Data(text.as_bytes()));
    world.hear(0, Side::Client, n, StreamEvent::Fin);
    world.run();
    let heard = &world.sites[0].heard[&n];
    assert!(heard.contains("1 stored\r\n421 4.4.2"), "{heard}");
    assert_eq!(world.sites[1].delivered.len(), 1);
}

/// Lines of letters that nothing tells.
fn noise(lines: usize) -> String {
    let mut seed = 1_u64;
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'0' + (seed >> 33) as u8 % 78)
    };
    let mut line = || (0..75).map(|_| letter()).collect::<String>() + "\r\n";
    (0..lines).map(|_| line()).collect()
}
