//! A scenario drawn from a seed: topology, media, policies, faults and traffic, as the text of its
//! files, so that reading them is part of what is tried.

mod mesh;
mod traffic;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use strait_core::chance::Stream;
use strait_link::hbh::Settings;
use strait_scenario::{Files, Loaded, Scenario};

#[allow(unused_imports, reason = "the determinism test draws no mesh")]
pub(crate) use self::mesh::draw_mesh;

/// When faults end and the media heal, in ms.
pub(crate) const HEAL_MS: u64 = 20_000;

/// Files in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory(pub(crate) BTreeMap<String, String>);

impl Files for Memory {
    fn read(&self, path: &Path) -> Result<String, String> {
        let name = path.display().to_string();
        self.0
            .get(&name)
            .cloned()
            .ok_or_else(|| "isn't there".to_owned())
    }
}

/// A scenario drawn from a seed.
#[derive(Debug)]
pub(crate) struct Drawn {
    /// The files by name; `swarm.toml` is the scenario.
    pub(crate) files: Memory,
    /// Where every packet that was under way at the healing has come to an end, in ms.
    pub(crate) drained_ms: u64,
    /// Until when transfers have to be complete, in ms.
    pub(crate) complete_ms: u64,
    /// Until when the last echo requests have to be answered, in ms.
    pub(crate) end_ms: u64,
    /// A link damages bits under a 16-bit check: one damaged frame in 65,536 passes.
    pub(crate) weak: bool,
    /// A link that isn't made reliable doubles frames.
    pub(crate) doubles: bool,
    /// Packets that neighbours may send again to the next life of a gateway with reliable hops or
    /// repaired lines, which had handed them on and not acknowledged them when it was killed: a
    /// window of each neighbour's for each kill.
    pub(crate) resent_max: u64,
}

impl Drawn {
    /// Reads the files.
    pub(crate) fn load(&self) -> Loaded {
        match Scenario::load_from(&self.files, Path::new("swarm.toml")) {
            Ok(loaded) => loaded,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A medium between two gateways, `b` being the later one.
struct Edge {
    a: usize,
    b: usize,
    serial: bool,
    /// It shares the port `radio` of `a` with others.
    shared: bool,
    /// That port sends by each of its media at once.
    apart: bool,
    rate_bit_s: u64,
    weak: bool,
    /// It damages octets, or loses frames or seems to, so that repairs are on.
    damages: bool,
    profile: &'static str,
    /// Reliable hops go as published.
    published: bool,
    check: &'static str,
    /// At both ends: one that doesn't ask for anything lets the other know of its new start only
    /// when it has refused a packet.
    compression: &'static str,
    /// Both ends need the same.
    mtu: u64,
}

struct Draw {
    stream: Stream,
    /// Which media are made reliable hops.
    made_hops: Stream,
    /// Which of these go as published.
    formats: Stream,
    /// What media that share a port have in common.
    ways: Stream,
    files: BTreeMap<String, String>,
    text: String,
    edges: Vec<Edge>,
    /// Names of hosts, and which of them can reach each other.
    hosts: Vec<(String, usize)>,
    gateways: usize,
    /// The slowest rate that any medium has at any time.
    rate_min_bit_s: u64,
    /// Octets of all transfers and of what else is sent.
    octets: u64,
    hops_max: u64,
    weak: bool,
    doubles: bool,
    resent_max: u64,
}

/// What the ends of a link may compress, and remember when they are killed.
const COMPRESSIONS: &[&str] = &[
    "compression = \"rohc\"\nchecksums = \"rebuild\"\npayload = \"deflate\"\n",
    "",
    "",
    "compression = \"rohc\"\n",
    "compression = \"rohc\"\nremember_flows = true\npayload = \"deflate\"\n",
    "payload = \"deflate\"\n",
];

/// Numbered segments that a repaired line may have unacknowledged, and so packets at most.
const REPAIRED_MAX: u64 = 120;

/// Draws the scenario of a seed.
pub(crate) fn draw(seed: u64) -> Drawn {
    let mut draw = Draw::new(seed, "swarm");
    draw.topology();
    draw.routers();
    draw.faults();
    draw.finish(seed)
}

impl Draw {
    fn new(seed: u64, name: &str) -> Self {
        Self {
            stream: Stream::new(seed, name),
            made_hops: Stream::new(seed, "swarm hops"),
            formats: Stream::new(seed, "swarm formats"),
            ways: Stream::new(seed, "swarm ways"),
            files: BTreeMap::new(),
            text: String::new(),
            edges: Vec::new(),
            hosts: Vec::new(),
            gateways: 0,
            rate_min_bit_s: u64::MAX,
            octets: 0,
            hops_max: 0,
            weak: false,
            doubles: false,
            resent_max: 0,
        }
    }

    /// Draws the traffic, and writes all of it down.
    fn finish(mut self, seed: u64) -> Drawn {
        let (drained_ms, complete_ms, end_ms) = self.traffic();
        let head = format!(
            "name = \"swarm\"\nduration = \"{end_ms} ms\"\nseed = {}\n\n",
            seed >> 1
        );
        let text = head + &self.text;
        self.files.insert("swarm.toml".into(), text);
        Drawn {
            files: Memory(self.files),
            drained_ms,
            complete_ms,
            end_ms,
            weak: self.weak,
            doubles: self.doubles,
            resent_max: self.resent_max,
        }
    }

    fn hops_anywhere(&self) -> bool {
        (0..self.gateways).any(|node| self.has_hops(node))
    }

    /// Whether a gateway has a link with reliable hops.
    fn has_hops(&self, node: usize) -> bool {
        self.hops(node) > 0
    }

    /// How many it has.
    fn hops(&self, node: usize) -> u64 {
        let edges = self.edges.iter();
        let own = edges.filter(|edge| edge.a == node || edge.b == node);
        own.filter(|edge| edge.profile == "hbh").count() as u64
    }

    /// Packets that its neighbours on such links may have unacknowledged, all together: each as
    /// many of 64 octets as its line takes in a round trip and a half, of two seconds at most.
    fn windows(&self, node: usize) -> u64 {
        let own = self
            .edges
            .iter()
            .filter(|edge| edge.a == node || edge.b == node);
        let window = |edge: &Edge| {
            let repaired = edge.damages && matches!(edge.profile, "adapter" | "segments");
            if repaired && edge.serial {
                return REPAIRED_MAX;
            }
            if repaired {
                // Frames of 64 octets, for twice a round trip of two seconds at most.
                return (edge.rate_bit_s * 4 / (8 * 64)).clamp(1024, 4096);
            }
            if edge.profile != "hbh" {
                return 0;
            }
            let [least, most] = [Settings::WINDOW_NARROW, Settings::WINDOW_MAX].map(u64::from);
            (edge.rate_bit_s * 3 / (8 * 64)).clamp(least, most)
        };
        own.map(window).sum()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.stream.below(bound)
    }

    fn range(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Gateways in a line, a star or any tree, with their media, configurations and hosts.
    fn topology(&mut self) {
        self.gateways = self.range(2, 8) as usize;
        let shape = self.below(3);
        let slow = self.percent(30);
        for b in 1..self.gateways {
            let a = match shape {
                0 => b - 1,
                1 => 0,
                _ => self.below(b as u64) as usize,
            };
            let edge = self.edge(a, b, slow);
            self.edges.push(edge);
        }
        self.share_ports();
        for node in 0..self.gateways {
            self.gateway(node);
        }
        for edge in 0..self.edges.len() {
            self.medium(edge);
        }
        // The longest way there can be, with both host sides.
        self.hops_max = self.gateways as u64 + 3;
        let hosts = self.range(2, 5) as usize;
        for host in 0..hosts {
            // At least two are apart.
            let gateway = match host {
                0 => 0,
                1 => self.range(1, self.gateways as u64 - 1) as usize,
                _ => self.below(self.gateways as u64) as usize,
            };
            let name = format!("h{host}");
            self.line(&format!(
                "[[host]]\nname = \"{name}\"\nbehind = \"g{gateway}\"\naddresses = \
                 [\"10.{gateway}.0.{at}/24\", \"fd00:{gateway}::{at}/64\"]\n",
                at = host + 10
            ));
            self.hosts.push((name, 0));
        }
    }

    fn edge(&mut self, a: usize, b: usize, slow: bool) -> Edge {
        let serial = self.percent(45);
        let rate_bit_s = match (serial, slow) {
            (true, true) => self.pick(&[300, 1200, 2400]),
            (true, false) => self.pick(&[4800, 9600, 19_200, 115_200]),
            (false, true) => self.range(300, 4000),
            (false, false) => self.range(4000, 1_000_000),
        };
        let profile = self.pick(&["segments", "segments", "adapter", "plain"]);
        let check = self.pick(&["", "", "check = 16\n", "check = 32\n"]);
        let profile = if !serial && self.made_hops.below(3) == 0 {
            "hbh"
        } else {
            profile
        };
        let published = profile == "hbh" && self.formats.below(3) == 0;
        // That format has a check of its own.
        let check = if published { "" } else { check };
        // Who compresses asks for checks of 16 bits on real-time packets, and has them unless told.
        let compression = match profile {
            "plain" | "hbh" => "",
            // On a line nothing tells how many packets an outage took, and an IPv4 identification
            // behind more than sixteen is told by a check of three bits.
            _ if serial => self.pick(&["", "payload = \"deflate\"\n"]),
            _ => self.pick(COMPRESSIONS),
        };
        let short = profile == "plain" || profile == "hbh";
        let asks = profile == "adapter" || !compression.is_empty();
        let weak = check.contains("16") || short && check.is_empty() || asks;
        Edge {
            a,
            b,
            serial,
            shared: false,
            apart: false,
            rate_bit_s,
            weak,
            damages: false,
            profile,
            published,
            check,
            compression,
            // A packet goes whole, with what stands before it, and not every simulated TCP follows
            // a path's MTU.
            mtu: self.pick(&[1280, 1400, 1500]).min(match profile {
                "hbh" => 1400,
                _ => 1500,
            }),
        }
    }

    /// Several frame media of one gateway may share one port, with one rate or each with its own.
    /// With their own they may be ways that have nothing in common.
    fn share_ports(&mut self) {
        for node in 0..self.gateways {
            let of = |edge: &&mut Edge| edge.a == node && !edge.serial;
            let share = self.percent(60);
            let mut edges: Vec<&mut Edge> = self.edges.iter_mut().filter(of).collect();
            if !share || edges.len() < 2 {
                continue;
            }
            let first = edges[0].rate_bit_s;
            let (weak, profile, check) = (edges[0].weak, edges[0].profile, edges[0].check);
            let published = edges[0].published;
            let compression = edges[0].compression;
            let mtu = edges[0].mtu;
            let ways = self.ways.below(4);
            for edge in &mut edges {
                edge.shared = true;
                edge.apart = ways > 1 && profile != "hbh";
                if ways == 0 {
                    edge.rate_bit_s = first;
                }
                (edge.weak, edge.profile, edge.check) = (weak, profile, check);
                edge.published = published;
                (edge.compression, edge.mtu) = (compression, mtu);
            }
        }
    }

    /// The ports of a gateway at its edges: name and whether the edge shares it.
    fn port_name(&self, edge: &Edge, node: usize) -> String {
        match (edge.a == node, edge.shared) {
            (true, true) => "radio".into(),
            (true, false) => format!("to{}", edge.b),
            _ => "up".into(),
        }
    }

    fn gateway(&mut self, node: usize) {
        let mut text = format!("name = \"g{node}\"\nstate = {{ file = \"g\" }}\n[host]\n");
        // Without an address it can't tell anybody of packets too big.
        let tells = self.percent(70);
        if tells {
            let _ = writeln!(
                text,
                "addresses = [\"10.{node}.0.1/24\", \"fd00:{node}::1/64\"]"
            );
        }
        let edges = std::mem::take(&mut self.edges);
        let mut radio = false;
        for edge in edges.iter().filter(|edge| edge.a == node || edge.b == node) {
            let name = self.port_name(edge, node);
            if name == "radio" && std::mem::replace(&mut radio, true) {
                continue;
            }
            let kind = if edge.serial { "serial" } else { "udp" };
            let _ = write!(
                text,
                "[[port]]\nname = \"{name}\"\nkind = \"{kind}\"\nprofile = \"{}\"\n{}",
                edge.profile, edge.check
            );
            if edge.published {
                text.push_str("hbh = { format = \"paper\" }\n");
            }
            text.push_str(edge.compression);
            // Not every simulated TCP follows a path's MTU.
            let clamps = edge.mtu < 1500 || self.percent(50);
            let _ = writeln!(text, "mtu = \"{} B\"\nclamp_mss = {clamps}", edge.mtu);
            if edge.serial {
                let _ = writeln!(text, "baud = {}", edge.rate_bit_s);
            }
            let segment = self.percent(20).then(|| self.range(8, 200));
            if let Some(octets) = segment.filter(|_| edge.profile != "hbh") {
                let _ = writeln!(text, "segment = \"{octets} B\"");
            }
            if edge.shared && name == "radio" {
                let sharers = edges.iter().filter(|edge| edge.a == node && edge.shared);
                for other in sharers {
                    let _ = writeln!(text, "[[port.neighbours]]\nname = \"g{}\"", other.b);
                    if other.apart {
                        let _ = writeln!(text, "rate = \"{} bit/s\"", other.rate_bit_s);
                    }
                }
            }
        }
        self.edges = edges;
        for other in (0..self.gateways).filter(|other| *other != node) {
            self.route(node, other, &mut text);
        }
        self.policy(&mut text);
        let file = format!("nodes/g{node}.toml");
        self.files.insert(file.clone(), text);
        self.line(&format!(
            "[[node]]\nname = \"g{node}\"\nfile = \"{file}\"\n"
        ));
    }

    /// In a tree there is one way: down if the other is below, else up.
    fn route(&self, node: usize, other: usize, text: &mut String) {
        let parent = |of: usize| self.edges.iter().find(|edge| edge.b == of);
        let mut below = other;
        let edge = loop {
            match parent(below) {
                Some(edge) if edge.a == node => break Some(edge),
                Some(edge) => below = edge.a,
                None => break parent(node),
            }
        };
        let Some(edge) = edge else { return };
        let name = self.port_name(edge, node);
        let via = if name == "radio" {
            format!("via = \"g{}\"\n", edge.b)
        } else {
            String::new()
        };
        for prefix in [format!("10.{other}.0.0/24"), format!("fd00:{other}::/64")] {
            let _ = write!(
                text,
                "[[route]]\nprefix = \"{prefix}\"\nport = \"{name}\"\n{via}"
            );
        }
    }

    fn policy(&mut self, text: &mut String) {
        match self.below(4) {
            0 => text.push_str("[policy]\npreset = \"default\"\n"),
            1 => text.push_str("[policy]\npreset = \"fifo\"\n"),
            2 => {
                self.files
                    .entry("nodes/own-policy.toml".into())
                    .or_insert_with(|| {
                        "default = \"rest\"\n[[class]]\nname = \"first\"\nband = 0\npackets = 8\n\
                     [[class]]\nname = \"rest\"\npackets = 20\n\
                     [[match]]\nclass = \"first\"\nprotocol = \"icmp\"\n\
                     [[match]]\nclass = \"first\"\ndscp = \"EF\"\nmark = \"CS5\"\n"
                            .into()
                    });
                text.push_str("[policy]\nfile = \"own-policy.toml\"\n");
            }
            _ => self.own_policy(text),
        }
    }

    fn own_policy(&mut self, text: &mut String) {
        let classes = self.range(1, 5);
        text.push_str("[policy]\ndefault = \"c0\"\n");
        for class in 0..classes {
            let (band, weight) = (self.below(3), self.range(1, 9));
            let packets = self.range(3, 30);
            let _ = write!(
                text,
                "[[policy.class]]\nname = \"c{class}\"\nband = {band}\nweight = {weight}\n\
                 packets = {packets}\n"
            );
            if self.percent(30) {
                let _ = writeln!(text, "octets = \"{} B\"", self.range(3000, 20_000));
            }
            if self.percent(30) {
                let _ = writeln!(text, "age = \"{} s\"", self.range(60, 120));
            }
            if self.percent(20) {
                let mark = self.pick(&["EF", "AF41", "CS1"]);
                let _ = writeln!(text, "mark = \"{mark}\"");
            }
        }
        for _ in 0..self.below(4) {
            let class = self.below(classes);
            let what = self.pick(&[
                "protocol = \"udp\"",
                "protocol = \"tcp\"",
                "tcp_control = true",
                "dscp = [\"EF\", \"AF41\"]",
                "max_octets = \"200 B\"",
                "min_octets = \"600 B\"",
                "destination = \"10.1.0.0/16\"",
            ]);
            let _ = write!(text, "[[policy.match]]\nclass = \"c{class}\"\n{what}\n");
        }
        if self.percent(30) {
            text.push_str("[[policy.match]]\nfilter = true\ndscp = \"CS7\"\n");
        }
    }

    fn medium(&mut self, index: usize) {
        let edge = &self.edges[index];
        let (serial, rate, weak) = (edge.serial, edge.rate_bit_s, edge.weak);
        let ends = format!(
            "between = [\"g{}.{}\", \"g{}.up\"]",
            edge.a,
            self.port_name(edge, edge.a),
            edge.b
        );
        self.rate_min_bit_s = self.rate_min_bit_s.min(rate);
        let mut keys = if serial {
            format!("kind = \"serial\"\nbaud = {rate}\nframing = \"8N1\"\n")
        } else {
            format!("kind = \"frames\"\nrate = \"{rate} bit/s\"\n")
        };
        if self.percent(60) {
            let _ = writeln!(keys, "delay = \"{} us\"", self.range(1, 300_000));
        }
        if self.percent(35) {
            let exponent = self.range(3, 6);
            let _ = writeln!(keys, "bit_errors = \"{}e-{exponent}\"", self.range(1, 3));
            self.weak |= weak;
        }
        // Outages and kills cut packets on octet streams, and what is cut may fit together.
        self.weak |= weak && serial;
        if !serial {
            let whole = self.edges[index].profile == "hbh";
            self.frame_faults(&mut keys, whole);
        }
        if self.percent(20) {
            let turnaround = self.range(0, 200);
            if !self.edges[index].apart {
                keys.push_str("half_duplex = true\n");
                let _ = writeln!(keys, "turnaround = \"{turnaround} ms\"");
            }
        }
        if !serial && self.percent(20) && !self.edges[index].shared {
            let back = self.range(300, 100_000);
            self.rate_min_bit_s = self.rate_min_bit_s.min(back);
            let _ = writeln!(keys, "reverse = {{ rate = \"{back} bit/s\" }}");
        }
        self.schedule(index, &mut keys);
        let damages = ["bit_errors", "loss", "reorder"];
        self.edges[index].damages = damages.iter().any(|fault| keys.contains(fault));
        let name = format!("m{index}");
        if self.percent(50) {
            let file = format!("links/{name}.toml");
            self.line(&format!(
                "[[link]]\nname = \"{name}\"\n{ends}\nfile = \"{file}\"\n"
            ));
            self.files.insert(file, keys);
        } else {
            let keys = keys.replace("[[", "[[link.channel.");
            self.line(&format!(
                "[[link]]\nname = \"{name}\"\n{ends}\n[link.channel]\n{keys}"
            ));
        }
    }

    /// Frames with `whole` packets in them must not be shorter than those.
    fn frame_faults(&mut self, keys: &mut String, whole: bool) {
        let frame = self.percent(30).then(|| self.range(24, 1500));
        if let Some(octets) = frame.filter(|_| !whole) {
            let _ = writeln!(keys, "frame_octets_max = {octets}");
        }
        match self.below(4) {
            0 => {
                let _ = writeln!(keys, "loss = \"{} %\"", self.range(1, 30));
            }
            1 => {
                let (enter, leave) = (self.range(1, 10), self.range(10, 60));
                let _ = writeln!(
                    keys,
                    "burst_loss = {{ enter = \"{enter} %\", leave = \"{leave} %\" }}"
                );
            }
            _ => {}
        }
        if self.percent(30) {
            let _ = writeln!(keys, "jitter = \"{} us\"", self.range(1, 200_000));
        }
        if self.percent(25) {
            let _ = writeln!(keys, "duplicate = \"{} %\"", self.range(1, 20));
            // A hop knows what it has had.
            self.doubles |= !whole;
        }
        if self.percent(25) {
            let (share, held) = (self.range(1, 20), self.range(1, 300));
            let _ = writeln!(
                keys,
                "reorder = \"{share} %\"\nreorder_delay = \"{held} ms\""
            );
        }
    }

    /// Outages and changes of the rate, all over before the healing.
    fn schedule(&mut self, index: usize, keys: &mut String) {
        let mut at = 0;
        for _ in 0..self.below(4) {
            at += self.range(200, 5_000);
            let lasts = self.range(1, 2_000);
            if at + lasts >= HEAL_MS {
                break;
            }
            let _ = write!(
                keys,
                "[[outage]]\nat = \"{at} ms\"\nlasts = \"{lasts} ms\"\n"
            );
            at += lasts;
        }
        // Media which share a port keep their rates.
        if self.edges[index].shared {
            return;
        }
        let (serial, rate) = (self.edges[index].serial, self.edges[index].rate_bit_s);
        let mut at = 0;
        for _ in 0..self.below(3) {
            at += self.range(100_000, 9_000_000);
            let rate = (rate * self.range(50, 200) / 100).max(300);
            self.rate_min_bit_s = self.rate_min_bit_s.min(rate);
            let rate = if serial {
                format!("baud = {rate}")
            } else {
                format!("rate = \"{rate} bit/s\"")
            };
            let _ = write!(keys, "[[change]]\nat = \"{at} us\"\n{rate}\n");
        }
    }

    /// Now and then a network of plain routers beside, with hosts behind and hosts on a line.
    fn routers(&mut self) {
        if !self.percent(25) {
            return;
        }
        let routers = self.range(1, 3) as usize;
        for router in 0..routers {
            let queue = self.range(2, 50);
            self.line(&format!(
                "[[router]]\nname = \"r{router}\"\nqueue = {queue}\n"
            ));
        }
        for router in 1..routers {
            self.plain_link(&format!("r{}", router - 1), &format!("r{router}"));
        }
        let last = routers - 1;
        self.line(
            "[[host]]\nname = \"p0\"\nbehind = \"r0\"\naddresses = [\"10.100.0.2/24\", \
             \"fd00:100::2/64\"]\n[[host]]\nname = \"p1\"\naddresses = [\"10.101.0.2/24\", \
             \"fd00:101::2/64\"]\n",
        );
        self.plain_link("p1", &format!("r{last}"));
        self.hosts.push(("p0".into(), 1));
        self.hosts.push(("p1".into(), 1));
    }

    fn plain_link(&mut self, a: &str, b: &str) {
        let rate = self.range(2_000, 200_000);
        self.rate_min_bit_s = self.rate_min_bit_s.min(rate);
        let mut keys = format!("kind = \"frames\"\nrate = \"{rate} bit/s\"\n");
        if self.percent(50) {
            let _ = writeln!(keys, "delay = \"{} ms\"", self.range(1, 300));
        }
        if self.percent(30) {
            let _ = writeln!(keys, "loss = \"{} %\"", self.range(1, 20));
        }
        if self.percent(20) {
            let _ = writeln!(keys, "duplicate = \"{} %\"", self.range(1, 20));
            self.doubles = true;
        }
        self.line(&format!(
            "[[link]]\nbetween = [\"{a}\", \"{b}\"]\n[link.channel]\n{keys}"
        ));
    }

    fn faults(&mut self) {
        if !self.percent(60) {
            return;
        }
        for _ in 0..self.range(1, 3) {
            let node = self.below(self.gateways as u64);
            // What a gateway handed on, and its neighbour didn't hear of, the neighbour sends again
            // to its next life, which doesn't know.
            self.resent_max += self.windows(node as usize);
            let at = self.range(1, HEAL_MS - 5_000);
            let after = self.range(1, 4_000);
            self.line(&format!(
                "[[fault]]\nat = \"{at} ms\"\nkind = \"kill\"\nnode = \"g{node}\"\n\
                 restart_after = \"{after} ms\"\n"
            ));
        }
    }
}
