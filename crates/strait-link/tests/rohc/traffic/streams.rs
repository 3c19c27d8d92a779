//! Streams of every kind: what a flow's packets carry, how its IP headers lie and change. The cross
//! product of them is what two implementations of header compression have to agree on.

use super::{Dice, Flow, Kind, sum, transport_checksum};

/// What a stream's packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Talk: a pause now and then, with the marker behind it.
    Talk,
    /// Frames of video: several packets of one timestamp, the last with a marker.
    Video,
    /// Contributing sources.
    Sources,
    /// Timestamps whose stride changes.
    Strides,
    /// Sequence numbers and timestamps that wrap.
    Wraps,
    /// Payload types, padding and header extensions that come and go.
    Types,
    Udp,
    /// Without a checksum.
    UdpZero,
    /// One in twenty checksums is wrong.
    UdpWrong,
    Esp,
    /// Sequence numbers that leave some out, and begin anew.
    EspJumps,
    /// TCP's bulk, with timestamps or without.
    Bulk,
    BulkStamps,
    Acks,
    AcksStamps,
    /// All that a TCP header may change.
    Dialogue,
    Echo,
    /// A protocol of its own.
    Bare,
}

pub(crate) const LOADS: [Load; 18] = [
    Load::Talk,
    Load::Video,
    Load::Sources,
    Load::Strides,
    Load::Wraps,
    Load::Types,
    Load::Udp,
    Load::UdpZero,
    Load::UdpWrong,
    Load::Esp,
    Load::EspJumps,
    Load::Bulk,
    Load::BulkStamps,
    Load::Acks,
    Load::AcksStamps,
    Load::Dialogue,
    Load::Echo,
    Load::Bare,
];

/// One of each family of headers.
const FAMILIES: [Load; 6] = [
    Load::Talk,
    Load::Udp,
    Load::Esp,
    Load::BulkStamps,
    Load::Echo,
    Load::Bare,
];

/// The headers between link and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    V4,
    V6,
    V4InV4,
    V4InV6,
    V6InV4,
    V6InV6,
    HopByHop,
    /// The same with contents that change now and then.
    HopByHopChanges,
    /// The list comes and goes.
    HopByHopComes,
    Destination,
    Routing,
    Authentication6,
    Authentication4,
    /// Hop-by-hop options, destination options, routing and destination options again.
    Lists,
    ListsInV6,
    Fragment6,
    Fragment4,
    Options4,
}

impl Carrier {
    /// Whether there are extension headers that lists hold.
    pub(crate) fn has_list(self) -> bool {
        matches!(
            self,
            Self::HopByHop
                | Self::HopByHopChanges
                | Self::HopByHopComes
                | Self::Destination
                | Self::Routing
                | Self::Lists
                | Self::ListsInV6
        )
    }
}

const ODD_CARRIERS: [Carrier; 16] = [
    Carrier::V4InV4,
    Carrier::V4InV6,
    Carrier::V6InV4,
    Carrier::V6InV6,
    Carrier::HopByHop,
    Carrier::HopByHopChanges,
    Carrier::HopByHopComes,
    Carrier::Destination,
    Carrier::Routing,
    Carrier::Authentication6,
    Carrier::Authentication4,
    Carrier::Lists,
    Carrier::ListsInV6,
    Carrier::Fragment6,
    Carrier::Fragment4,
    Carrier::Options4,
];

/// How identifications of IPv4 go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    Sequential,
    Random,
    /// Ahead by up to 500 each time.
    Jumping,
    Constant,
    Zero,
    /// Sequential with their octets swapped.
    Swapped,
    /// One count for this flow and others.
    Shared,
}

const ALL_IDS: [Ids; 7] = [
    Ids::Sequential,
    Ids::Random,
    Ids::Jumping,
    Ids::Constant,
    Ids::Zero,
    Ids::Swapped,
    Ids::Shared,
];

impl Ids {
    /// The identification behind `id`.
    fn after(self, id: u16, dice: &mut Dice) -> u16 {
        match self {
            Self::Sequential => id.wrapping_add(1),
            Self::Random => dice.draw() as u16,
            Self::Jumping => id.wrapping_add(1 + dice.below(500) as u16),
            Self::Constant | Self::Zero => id,
            Self::Swapped => id.swap_bytes().wrapping_add(1).swap_bytes(),
            Self::Shared => id.wrapping_add(1 + dice.below(5) as u16),
        }
    }
}

/// What else changes in the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wander {
    Steady,
    /// The hop limit changes with every packet.
    HopsFlap,
    HopsChange,
    ClassChanges,
    /// IPv6.
    LabelChanges,
    /// IPv4.
    FragmentBitFlaps,
}

/// A kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) load: Load,
    pub(crate) carrier: Carrier,
    pub(crate) ids: Ids,
    pub(crate) wander: Wander,
}

impl Recipe {
    pub(crate) const fn new(load: Load, carrier: Carrier) -> Self {
        Self {
            load,
            carrier,
            ids: Ids::Sequential,
            wander: Wander::Steady,
        }
    }

    pub(crate) fn name(&self) -> String {
        format!(
            "{:?}/{:?}/{:?}/{:?}",
            self.load, self.carrier, self.ids, self.wander
        )
    }

    /// Octets of a packet behind the headers that some profile compresses.
    pub(crate) fn payload_octets(&self, packet: &[u8]) -> usize {
        let (mut at, mut next) = (0, if packet[0] >> 4 == 4 { 4 } else { 41 });
        loop {
            (at, next) = match next {
                4 => (at + 4 * usize::from(packet[at] & 15), packet[at + 9]),
                41 => (at + 40, packet[at + 6]),
                0 | 43 | 60 => (at + 8 + 8 * usize::from(packet[at + 1]), packet[at]),
                51 => (at + 8 + 4 * usize::from(packet[at + 1]), packet[at]),
                44 => (at + 8, packet[at]),
                _ => break,
            };
        }
        at += match (next, self.load) {
            (6, _) => 4 * usize::from(packet[at + 12] >> 4),
            (17, Load::Udp | Load::UdpZero | Load::UdpWrong) | (50, _) => 8,
            (17, _) => 20,
            _ => 0,
        };
        packet.len() - at
    }

    /// Few kinds that show every kind of header and of change.
    pub(crate) fn choice() -> Vec<Self> {
        let shows = |recipe: &Self| match (recipe.carrier, recipe.load) {
            (Carrier::V6, Load::Udp | Load::Talk) | (Carrier::V4, Load::Talk) => true,
            (Carrier::V6, _) => recipe.wander == Wander::Steady,
            (Carrier::V4, load) => load == Load::Udp && recipe.wander == Wander::Steady,
            (_, load) => matches!(load, Load::Udp | Load::BulkStamps),
        };
        let mut all = Self::all();
        all.retain(shows);
        all
    }

    /// Every kind.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for load in LOADS {
            let over_v4 = Self::new(load, Carrier::V4);
            all.extend(ALL_IDS.map(|ids| Self { ids, ..over_v4 }));
            all.push(Self::new(load, Carrier::V6));
        }
        let tunnel = Self::new(Load::Udp, Carrier::V4InV4);
        all.extend(ALL_IDS[1..].iter().map(|&ids| Self { ids, ..tunnel }));
        for load in FAMILIES {
            for (carrier, own) in [
                (Carrier::V4, Wander::FragmentBitFlaps),
                (Carrier::V6, Wander::LabelChanges),
            ] {
                let plain = Self::new(load, carrier);
                let wanders = [
                    Wander::HopsFlap,
                    Wander::HopsChange,
                    Wander::ClassChanges,
                    own,
                ];
                all.extend(wanders.map(|wander| Self { wander, ..plain }));
            }
            all.extend(ODD_CARRIERS.map(|carrier| Self::new(load, carrier)));
        }
        all
    }
}

/// One IP header.
#[derive(Clone, Copy, Debug)]
struct Ip {
    v6: bool,
    class: u8,
    hops: u8,
    id: u16,
    label: u32,
    dont_fragment: bool,
    host: u8,
}

impl Ip {
    fn addresses(&self) -> (Vec<u8>, Vec<u8>) {
        if self.v6 {
            let mut address = vec![0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            address.push(self.host);
            let src = address.clone();
            address[5] = 1;
            (src, address)
        } else {
            (vec![10, 1, 0, self.host], vec![10, 2, 0, self.host])
        }
    }

    /// This header and its options ahead of `rest`.
    fn around(&self, protocol: u8, flags: [u8; 2], options: &[u8], rest: &[u8]) -> Vec<u8> {
        let (src, dst) = self.addresses();
        let mut packet = Vec::new();
        if self.v6 {
            let first = 6 << 28 | u32::from(self.class) << 20 | self.label;
            packet.extend_from_slice(&first.to_be_bytes());
            packet.extend_from_slice(&(rest.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[protocol, self.hops]);
        } else {
            let header = 20 + options.len();
            packet.extend_from_slice(&[0x40 | (header / 4) as u8, self.class]);
            packet.extend_from_slice(&((header + rest.len()) as u16).to_be_bytes());
            packet.extend_from_slice(&self.id.to_be_bytes());
            let flag = u8::from(self.dont_fragment) << 6;
            packet.extend_from_slice(&[flag | flags[0], flags[1], self.hops, protocol, 0, 0]);
        }
        packet.extend_from_slice(&src);
        packet.extend_from_slice(&dst);
        packet.extend_from_slice(options);
        if !self.v6 {
            let check = sum(0, &packet);
            packet[10..12].copy_from_slice(&check.to_be_bytes());
        }
        packet.extend_from_slice(rest);
        packet
    }
}

/// A stream of one kind.
pub(crate) struct Stream {
    recipe: Recipe,
    pub(crate) flow: Flow,
    ip: Ip,
    outer: Ip,
    packets: u32,
    options: u8,
    listed: bool,
    stride: u32,
    authenticated: u32,
    /// The share of packets with which what changes now and then does.
    pub(crate) changes: f64,
}

impl Stream {
    pub(crate) fn new(recipe: Recipe, host: u8, dice: &mut Dice) -> Self {
        let kind = match recipe.load {
            Load::Bulk => Kind::Bulk6 { stamps: false },
            Load::BulkStamps => Kind::Bulk6 { stamps: true },
            Load::Acks => Kind::Acks6 { stamps: false },
            Load::AcksStamps => Kind::Acks6 { stamps: true },
            Load::Dialogue => Kind::Talk6,
            Load::Esp | Load::EspJumps => Kind::Esp6,
            Load::Echo => Kind::Ping4,
            Load::Udp | Load::UdpZero | Load::UdpWrong => Kind::Udp6,
            _ => Kind::Voice6,
        };
        let mut flow = Flow::new(kind, host, dice);
        flow.reroutes = 0.0;
        if recipe.load == Load::Wraps {
            flow.sequence = 0xfff0;
            flow.timestamp = u32::MAX - 160 * 40;
        } else if recipe.load != Load::EspJumps {
            // Nothing wraps where that isn't what is looked at.
            flow.sequence &= 0x0fff_3fff;
            flow.timestamp &= 0x0fff_ffff;
        }
        let v6 = !matches!(
            recipe.carrier,
            Carrier::V4
                | Carrier::V4InV4
                | Carrier::V4InV6
                | Carrier::Authentication4
                | Carrier::Fragment4
                | Carrier::Options4
        );
        let ip = Ip {
            v6,
            class: 0xb8,
            hops: 60,
            id: if recipe.ids == Ids::Zero {
                0
            } else {
                dice.draw() as u16
            },
            label: 0x12345,
            dont_fragment: recipe.ids == Ids::Zero,
            host,
        };
        let outer = Ip {
            v6: matches!(
                recipe.carrier,
                Carrier::V4InV6 | Carrier::V6InV6 | Carrier::ListsInV6
            ),
            class: 0,
            hops: 255,
            id: dice.draw() as u16,
            label: 0x54321,
            dont_fragment: false,
            host: host.wrapping_add(100),
        };
        Self {
            recipe,
            flow,
            ip,
            outer,
            packets: 0,
            options: 7,
            listed: true,
            stride: 160,
            authenticated: dice.draw() as u32,
            changes: 0.02,
        }
    }

    /// The next packet, whole and with right lengths.
    pub(crate) fn next(&mut self, dice: &mut Dice) -> Vec<u8> {
        self.packets += 1;
        self.step_ip(dice);
        let (protocol, body) = self.load(dice);
        self.carry(protocol, body, dice)
    }

    fn step_ip(&mut self, dice: &mut Dice) {
        let ids = self.recipe.ids;
        self.ip.id = ids.after(self.ip.id, dice);
        self.outer.id = if self.recipe.carrier == Carrier::V4InV4 {
            ids.after(self.outer.id, dice)
        } else {
            self.outer.id.wrapping_add(1)
        };
        let ip = &mut self.ip;
        let sometimes = dice.happens(self.changes);
        match self.recipe.wander {
            Wander::Steady => {}
            Wander::HopsFlap => ip.hops = 58 + dice.below(4) as u8,
            Wander::HopsChange if sometimes => ip.hops = 50 + dice.below(10) as u8,
            Wander::ClassChanges if sometimes => ip.class = (dice.below(64) as u8) << 2,
            Wander::LabelChanges if sometimes => ip.label = dice.draw() as u32 & 0xf_ffff,
            Wander::FragmentBitFlaps if sometimes => ip.dont_fragment ^= true,
            _ => {}
        }
    }

    /// The transport's number, header and payload.
    fn load(&mut self, dice: &mut Dice) -> (u8, Vec<u8>) {
        match self.recipe.load {
            Load::Strides if dice.happens(self.changes) => {
                self.stride = [80, 160, 240, 960, 3000][dice.below(5) as usize];
            }
            Load::EspJumps if dice.happens(2.0 * self.changes) => {
                self.flow.sequence = self.flow.sequence.wrapping_add(dice.below(300) as u32);
            }
            _ => {}
        }
        let pause = self.flow.advance(dice);
        let (protocol, mut body) = self.flow.body(pause, dice);
        match self.recipe.load {
            Load::Bare => return (253, body.split_off(20)),
            Load::Echo if self.ip.v6 => {
                body[0] = 128;
                body[2..4].fill(0);
                return (58, body);
            }
            Load::Echo => {
                let number = (self.packets as u16).to_be_bytes();
                body[6..8].copy_from_slice(&number);
                body[2..4].fill(0);
                let check = sum(0, &body);
                body[2..4].copy_from_slice(&check.to_be_bytes());
            }
            Load::Video => self.film(&mut body),
            Load::Strides => {
                // What the flow added was 160 of it.
                let ahead = self.stride.wrapping_sub(160);
                self.flow.timestamp = self.flow.timestamp.wrapping_add(ahead);
            }
            Load::Sources => {
                body[8] |= 2;
                body.splice(20..20, [1, 2, 3, 4, 5, 6, 7, self.flow.host]);
            }
            Load::Types => {
                let octets = body.len() as u8;
                let every = (0.8 / self.changes) as u32;
                let kind = self.packets / every % 4;
                body[9] = body[9] & 0x80 | [96, 96, 0, 8][kind as usize];
                if kind == 1 {
                    body[8] |= 0x20;
                    body.extend_from_slice(&[0, 0, 0, 4]);
                } else if kind == 3 {
                    body[8] |= 0x10;
                    body.splice(20..20, [0xbe, 0xde, 0, 1, 0x10, octets, 0, 0]);
                }
            }
            _ => {}
        }
        if protocol == 17 {
            let octets = (body.len() as u16).to_be_bytes();
            body[4..6].copy_from_slice(&octets);
        }
        (protocol, body)
    }

    /// Makes a packet of talk one of a film: four of one timestamp.
    fn film(&self, body: &mut [u8]) {
        let frame = (self.packets / 4).wrapping_mul(3600);
        body[9] = 96 | u8::from(self.packets % 4 == 3) << 7;
        body[12..16].copy_from_slice(&frame.to_be_bytes());
    }

    fn carry(&mut self, protocol: u8, mut body: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
        let at = match protocol {
            17 => Some(6),
            6 => Some(16),
            58 => Some(2),
            _ => None,
        };
        if let Some(at) = at {
            let (src, dst) = self.ip.addresses();
            let check = transport_checksum(&src, &dst, protocol, &body);
            body[at..at + 2].copy_from_slice(&check.to_be_bytes());
        }
        match self.recipe.load {
            Load::UdpZero => body[6..8].fill(0),
            Load::UdpWrong if dice.happens(2.5 * self.changes) => body[7] ^= 0x55,
            _ => {}
        }
        let (next, body) = self.lists(protocol, body, dice);
        let flags = if self.recipe.carrier == Carrier::Fragment4 {
            // The first fragment of many.
            [0x20, 0]
        } else {
            [0, 0]
        };
        let options: &[u8] = match self.recipe.carrier {
            Carrier::Options4 => &[0x94, 4, 0, 0],
            _ => &[],
        };
        let inner = self.ip.around(next, flags, options, &body);
        match self.recipe.carrier {
            Carrier::V4InV4 | Carrier::V4InV6 => self.outer.around(4, [0; 2], &[], &inner),
            Carrier::V6InV4 | Carrier::V6InV6 => self.outer.around(41, [0; 2], &[], &inner),
            Carrier::ListsInV6 => {
                let (next, rest) = extended(&[(60, option(9))], 41, inner);
                self.outer.around(next, [0; 2], &[], &rest)
            }
            _ => inner,
        }
    }

    /// The extension headers ahead of `body`, and the number of the first.
    fn lists(&mut self, protocol: u8, body: Vec<u8>, dice: &mut Dice) -> (u8, Vec<u8>) {
        let home = self.ip.addresses().1;
        let routing = |left: u8| [&[0, 2, 2, left, 0, 0, 0, 0], &home[..]].concat();
        let rarely = dice.happens(self.changes);
        let headers: Vec<(u8, Vec<u8>)> = match self.recipe.carrier {
            Carrier::HopByHop => vec![(0, option(7))],
            Carrier::HopByHopChanges => {
                if rarely {
                    self.options = dice.draw() as u8;
                }
                vec![(0, option(self.options))]
            }
            Carrier::HopByHopComes => {
                self.listed ^= rarely;
                if self.listed {
                    vec![(0, option(7))]
                } else {
                    vec![]
                }
            }
            Carrier::Destination => vec![(60, option(3))],
            Carrier::Routing => vec![(43, routing(0))],
            Carrier::Lists => vec![
                (0, option(7)),
                (60, option(1)),
                (43, routing(0)),
                (60, option(2)),
            ],
            Carrier::ListsInV6 => vec![(0, option(7))],
            Carrier::Authentication4 | Carrier::Authentication6 => {
                self.authenticated = self.authenticated.wrapping_add(1);
                let mut header = vec![0, 4, 0, 0, 0, 0, 1, self.flow.host];
                header.extend_from_slice(&self.authenticated.to_be_bytes());
                header.extend((0..12).map(|_| dice.draw() as u8));
                vec![(51, header)]
            }
            Carrier::Fragment6 => vec![(44, vec![0, 0, 0, 1, 0, 0, 0, self.packets as u8])],
            _ => vec![],
        };
        extended(&headers, protocol, body)
    }
}

/// Options of eight octets, of a kind that nobody knows.
fn option(value: u8) -> Vec<u8> {
    vec![0, 0, 0x1e, 4, value, 0, 0, 1]
}

/// These extension headers ahead of `body`, each told of the next.
fn extended(headers: &[(u8, Vec<u8>)], protocol: u8, body: Vec<u8>) -> (u8, Vec<u8>) {
    let start = (protocol, body);
    headers
        .iter()
        .rev()
        .fold(start, |(next, rest), (own, header)| {
            let mut header = header.clone();
            header[0] = next;
            header.extend_from_slice(&rest);
            (*own, header)
        })
}
