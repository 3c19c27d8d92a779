//! A row for each class, flow or pair of hosts, as many as there is room for.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use strait_qos::Dscp;
use strait_wire::hash::hash64;
use strait_wire::ip::{Captured, protocol};

/// The code point that a header's six bits are.
pub(super) fn code_point(dscp: u8) -> Dscp {
    Dscp::new(dscp).unwrap_or_default()
}

/// What a row is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row for each code point.
    #[default]
    Dscp,
    /// A row for each flow: addresses, protocol, ports or security parameters index.
    Flow,
    /// A row for each source and destination address.
    Pair,
    /// A row for each transport protocol.
    Protocol,
}

impl By {
    /// The row that a packet belongs to.
    pub fn key(self, packet: &Captured) -> Key {
        match self {
            Self::Dscp => Key::Dscp(packet.dscp),
            Self::Flow => Key::Flow(Flow::of(packet)),
            Self::Pair => Key::Pair(packet.src, packet.dst),
            Self::Protocol => Key::Protocol(packet.protocol),
        }
    }

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dscp => "dscp",
            Self::Flow => "flow",
            Self::Pair => "pair",
            Self::Protocol => "protocol",
        }
    }
}

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Transport protocol.
    pub protocol: u8,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source and destination port.
    pub ports: Option<(u16, u16)>,
    /// Security parameters index.
    pub spi: Option<u32>,
}

impl Flow {
    /// The flow of a packet. Later fragments, which have no ports, are one of their own.
    pub const fn of(packet: &Captured) -> Self {
        Self {
            protocol: packet.protocol,
            src: packet.src,
            dst: packet.dst,
            ports: packet.ports,
            spi: packet.spi,
        }
    }
}

/// Names a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A code point.
    Dscp(u8),
    /// A transport protocol.
    Protocol(u8),
    /// Source and destination address.
    Pair(IpAddr, IpAddr),
    /// A flow.
    Flow(Flow),
}

const fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl Key {
    /// A hash that stands for the key. Two keys with the same one, of 2^64, are taken for one.
    pub(super) fn hash(&self) -> u64 {
        match self {
            Self::Dscp(value) => u64::from(*value),
            Self::Protocol(value) => 0x100 | u64::from(*value),
            Self::Pair(src, dst) => hash64(hash64(1, &octets(*src)), &octets(*dst)),
            Self::Flow(flow) => {
                let (from, to) = flow.ports.unwrap_or_default();
                let spi = flow.spi.unwrap_or_default();
                let tail = u64::from(from) << 48 | u64::from(to) << 32 | u64::from(spi);
                let mut key = [0; 41];
                key[..16].copy_from_slice(&octets(flow.src));
                key[16..32].copy_from_slice(&octets(flow.dst));
                key[32..40].copy_from_slice(&tail.to_be_bytes());
                key[40] = flow.protocol;
                hash64(2 | u64::from(flow.ports.is_some()), &key)
            }
        }
    }
}

/// A protocol by name, or `ip-NUMBER`.
fn protocol_name(number: u8) -> String {
    let name = match number {
        protocol::ICMP => "icmp",
        2 => "igmp",
        4 => "ipip",
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        41 => "ipv6",
        47 => "gre",
        protocol::ESP => "esp",
        51 => "ah",
        protocol::ICMPV6 => "icmp6",
        89 => "ospf",
        132 => "sctp",
        other => return format!("ip-{other}"),
    };
    name.into()
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", protocol_name(self.protocol))?;
        match self.ports {
            Some((from, to)) => {
                let (src, dst) = (
                    SocketAddr::new(self.src, from),
                    SocketAddr::new(self.dst, to),
                );
                write!(f, "{src} > {dst}")?;
            }
            None => write!(f, "{} > {}", self.src, self.dst)?,
        }
        match self.spi {
            Some(spi) => write!(f, " spi {spi:#x}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dscp(value) => write!(f, "{}", code_point(*value)),
            Self::Protocol(number) => f.write_str(&protocol_name(*number)),
            Self::Pair(src, dst) => write!(f, "{src} > {dst}"),
            Self::Flow(flow) => write!(f, "{flow}"),
        }
    }
}

/// What rows are found by.
pub(super) trait Hashed: Copy {
    /// Stands for it among others of its kind.
    fn hashed(&self) -> u64;
}

impl Hashed for Key {
    fn hashed(&self) -> u64 {
        self.hash()
    }
}

/// What is already a hash.
impl Hashed for u64 {
    fn hashed(&self) -> u64 {
        *self
    }
}

/// What rows hold: several can become one.
pub(super) trait Fold: Default {
    /// Takes in what another row holds.
    fn fold(&mut self, other: Self);
}

#[derive(Debug)]
struct Row<K, T> {
    key: K,
    /// When it was last used, in uses of the whole.
    used: u64,
    value: T,
}

/// Places of the cache in front of the tree.
const CACHE: usize = 1024;

/// Rows by key. Where there are too many, those least recently used become one: «other».
#[derive(Debug)]
pub(super) struct Rows<K, T> {
    places: BTreeMap<u64, usize>,
    cache: Vec<(u64, usize)>,
    rows: Vec<Row<K, T>>,
    rows_max: usize,
    other: T,
    folded: u64,
    uses: u64,
}

impl<K: Hashed, T: Fold> Rows<K, T> {
    /// Room for so many rows, at least four.
    pub(super) fn new(rows_max: usize) -> Self {
        Self {
            places: BTreeMap::new(),
            cache: vec![(0, usize::MAX); CACHE],
            rows: Vec::new(),
            rows_max: rows_max.max(4),
            other: T::default(),
            folded: 0,
            uses: 0,
        }
    }

    /// The row of a key, made where there is none.
    #[inline]
    pub(super) fn at(&mut self, key: K) -> &mut T {
        let hash = key.hashed();
        self.uses += 1;
        let slot = hash as usize % CACHE;
        let (known, place) = self.cache[slot];
        let place = if known == hash && place < self.rows.len() {
            place
        } else {
            self.find(hash, key)
        };
        self.cache[slot] = (hash, place);
        let row = &mut self.rows[place];
        row.used = self.uses;
        &mut row.value
    }

    fn find(&mut self, hash: u64, key: K) -> usize {
        if let Some(place) = self.places.get(&hash) {
            return *place;
        }
        if self.rows.len() >= self.rows_max {
            self.fold_oldest();
        }
        self.rows.push(Row {
            key,
            used: self.uses,
            value: T::default(),
        });
        self.places.insert(hash, self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// Makes room: the quarter of the rows that wasn't used for longest goes into «other».
    fn fold_oldest(&mut self) {
        self.rows.sort_by_key(|row| std::cmp::Reverse(row.used));
        for row in self.rows.split_off(self.rows.len() - self.rows.len() / 4) {
            self.other.fold(row.value);
            self.folded += 1;
        }
        self.places = self
            .rows
            .iter()
            .enumerate()
            .map(|(place, row)| (row.key.hashed(), place))
            .collect();
        self.cache.fill((0, usize::MAX));
    }

    /// How many rows became part of «other» for want of room.
    pub(super) const fn folded(&self) -> u64 {
        self.folded
    }
}

impl<T: Fold> Rows<Key, T> {
    /// The rows with their labels: by key for code points and protocols, by weight for others, at
    /// most `shown` of them, and then the rest as one.
    pub(super) fn finish(mut self, shown: usize, weight: impl Fn(&T) -> u64) -> Vec<(String, T)> {
        self.rows
            .sort_by_key(|row| (std::cmp::Reverse(weight(&row.value)), row.key));
        let tail = self.rows.split_off(self.rows.len().min(shown));
        let others = tail.len() as u64 + self.folded;
        for row in tail {
            self.other.fold(row.value);
        }
        if matches!(
            self.rows.first(),
            Some(Row {
                key: Key::Dscp(_) | Key::Protocol(_),
                ..
            })
        ) {
            self.rows.sort_by_key(|row| row.key);
        }
        let labelled = self.rows.into_iter();
        let mut all: Vec<_> = labelled
            .map(|row| (row.key.to_string(), row.value))
            .collect();
        if others > 0 {
            all.push((format!("other ({others})"), self.other));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Count(u64);

    impl Fold for Count {
        fn fold(&mut self, other: Self) {
            self.0 += other.0;
        }
    }

    #[test]
    fn what_is_not_used_goes_into_other() {
        let mut rows = Rows::<Key, Count>::new(4);
        for dscp in [1, 2, 3, 4, 1, 5, 1, 2] {
            rows.at(Key::Dscp(dscp)).0 += 1;
        }
        // 5 had no room, so 2, the least recent of four, went; and then 3, when 2 came again.
        assert_eq!(rows.folded(), 2);
        let rows = rows.finish(9, |count| count.0);
        let expected = [("LE", 3), ("2", 1), ("4", 1), ("5", 1), ("other (2)", 2)];
        let expected: Vec<_> = expected
            .map(|(label, count)| (label.to_owned(), Count(count)))
            .into();
        assert_eq!(rows, expected);
    }

    #[test]
    fn the_heaviest_are_shown() {
        let mut rows = Rows::<Key, Count>::new(100);
        for port in 0..10_u16 {
            let flow = Flow {
                protocol: 17,
                src: [10, 0, 0, 1].into(),
                dst: [10, 0, 0, 2].into(),
                ports: Some((port, 53)),
                spi: None,
            };
            rows.at(Key::Flow(flow)).0 += u64::from(port);
        }
        let rows = rows.finish(1, |count| count.0);
        assert_eq!(
            rows,
            [
                ("udp 10.0.0.1:9 > 10.0.0.2:53".to_owned(), Count(9)),
                ("other (9)".to_owned(), Count(36))
            ]
        );
    }

    #[test]
    fn labels_say_what_a_flow_is() {
        let flow = Flow {
            protocol: 50,
            src: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
            dst: [0xfd00, 0, 0, 0, 0, 0, 0, 2].into(),
            ports: None,
            spi: Some(0x1234),
        };
        assert_eq!(flow.to_string(), "esp fd00::1 > fd00::2 spi 0x1234");
        let udp = Flow {
            protocol: 17,
            ports: Some((1, 2)),
            spi: None,
            ..flow
        };
        assert_eq!(udp.to_string(), "udp [fd00::1]:1 > [fd00::2]:2");
        assert_ne!(Key::Flow(udp).hash(), Key::Flow(flow).hash());
    }
}
