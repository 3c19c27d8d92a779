//! Kinds of port: what a port attaches to, with the keys that only this kind has.
//!
//! A node file says `kind` and the keys side by side in one table. Reading it sorts them out once:
//! a [`PortConfig`] has what its kind has, and no more.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::framing::Framing;
use strait_core::keys::{self, KeyError, KindKey};
use strait_core::units::{BitRate, Octets, Time};

use super::{
    AdmissionConfig, ChatterKind, Checksums, Compression, ContextConfig, DoubtConfig,
    HfClientConfig, HfConfig, HopConfig, InvalidConfig, KissConfig, LinkProfile, NeighbourConfig,
    OwnDictionary, PayloadCompression, PortAddress, RepairConfig, default_mtu, invalid, yes,
};

/// A link port.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(try_from = "PortKeys", into = "PortKeys")]
pub struct PortConfig {
    /// What it attaches to.
    pub kind: PortKind,
    /// What ports of other kinds have as well.
    keys: PortKeys,
}

impl Deref for PortConfig {
    type Target = PortKeys;

    fn deref(&self) -> &PortKeys {
        &self.keys
    }
}

impl DerefMut for PortConfig {
    fn deref_mut(&mut self) -> &mut PortKeys {
        &mut self.keys
    }
}

/// The keys of a link port as a node file has them. Those that only some kinds have are in the
/// port's [`PortKind`] once it has been read.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PortKeys {
    /// The port's name in status, routes and scenarios.
    pub name: String,
    /// What it attaches to.
    kind: KindWord,
    /// Serial: the device or pty. IP: the interface to send and to hear by. Live only.
    #[serde(default)]
    device: Option<String>,
    /// Serial: symbols each second, one bit each.
    #[serde(default)]
    baud: Option<u64>,
    /// Serial: data bits, parity, stop bits, such as `8N1`; or `sync` for a line with a clock.
    #[serde(default)]
    framing: Option<Framing>,
    /// UDP: the local address and port. IP: the local address. Live only.
    #[serde(default)]
    local: Option<PortAddress>,
    /// IP: the number in the packets' headers; 253 if absent. Both ends need the same.
    #[serde(default)]
    protocol: Option<u8>,
    /// UDP, IP: who is at the other end. Without a list, one neighbour that the medium knows.
    #[serde(default)]
    pub neighbours: Vec<NeighbourConfig>,
    /// UDP: the rate that frames are sent at; as fast as they come if absent. IP: the same, with
    /// the packets' headers. KISS: the rate on the air.
    #[serde(default)]
    pub rate: Option<BitRate>,
    /// UDP, IP: the largest frame, in octets; without it 1400. KISS: contents of a frame at most;
    /// without it what takes a second or so, 64 to 256.
    #[serde(default)]
    pub frame: Option<Octets>,
    /// KISS: the modem.
    #[serde(default)]
    kiss: Option<KissConfig>,
    /// HF: the station.
    #[serde(default)]
    hf: Option<HfConfig>,
    /// HF client: the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<HfClientConfig>,
    /// How packets are carried.
    #[serde(default)]
    pub profile: LinkProfile,
    /// Profile `hbh`: how links are made reliable.
    #[serde(default)]
    pub hbh: Option<HopConfig>,
    /// How packets' headers are compressed, if both ends do.
    #[serde(default)]
    pub compression: Compression,
    /// What becomes of transport checksums with `compression`. Both ends need the same.
    #[serde(default)]
    pub checksums: Checksums,
    /// Flows over UDP that both ends know beforehand, for links below some 2400 bit/s. Both ends
    /// need the same, in the same order.
    #[serde(default)]
    pub context: Vec<ContextConfig>,
    /// UDP, IP: frames arrive in the order in which they were sent, if they do. Then compressed
    /// headers have two octets less, if both ends say so.
    #[serde(default)]
    pub keeps_order: bool,
    /// Compressed packets say their number in their flow, two octets, although frames keep their
    /// order: so no header is told wrongly behind a long loss. If both ends say so.
    #[serde(default)]
    pub count_packets: bool,
    /// When refused packets make what is known of a flow doubtful; by the medium if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<DoubtConfig>,
    /// Flows over UDP that last are remembered in the node's `[state]`, and known beforehand after
    /// a start, if both ends remember them. For links below some 2400 bit/s.
    #[serde(default)]
    pub remember_flows: bool,
    /// How what is behind them is compressed, if both ends do.
    #[serde(default)]
    pub payload: PayloadCompression,
    /// What this site's applications say again and again, behind the built-in dictionary, if both
    /// ends have the same.
    #[serde(default)]
    pub dictionary: Option<OwnDictionary>,
    /// A file with those octets; whoever reads the configuration replaces this by its content.
    #[serde(default)]
    pub dictionary_file: Option<String>,
    /// The most payload octets in a segment; about 67 ms of line time if absent.
    #[serde(default)]
    pub segment: Option<Octets>,
    /// Bits of the check on packets that fit one segment: 16 or 32, as also without the key
    /// (profile `plain`: 16). 16 if both ends have it; `plain` and `hbh` need the same at both.
    #[serde(default)]
    pub check: Option<u8>,
    /// Bits of the check on real-time packets, 16 (also without the key) or 32. 16 if both ends
    /// have it, and one of them has asked.
    #[serde(default)]
    pub check_urgent: Option<u8>,
    /// Serial: when what the line loses is repeated, calls apart: `errors` (while there are any, as
    /// also without the key), `always` or `never`. Only if both ends do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairConfig>,
    /// The other end can be heard. Without a way back it is taken to be set up the same.
    #[serde(default = "yes")]
    pub way_back: bool,
    /// Profile `adapter`: which calls the line takes. As [`AdmissionConfig::default`] without.
    #[serde(default)]
    pub admission: Option<AdmissionConfig>,
    /// The largest packet, in octets (1280 … 65535).
    #[serde(default = "default_mtu")]
    pub mtu: Octets,
    /// Lower the segment size that TCP connections announce to what fits `mtu`.
    #[serde(default = "yes")]
    pub clamp_mss: bool,
    /// Kinds of background chatter that may cross by this port, in both directions. All others are
    /// dropped and counted: they mean nothing beyond the network on which they were said.
    #[serde(default)]
    pub pass_chatter: Vec<ChatterKind>,
    /// Packets may come by this port from sources that routes lead to elsewhere: the way back is
    /// another one.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub any_source: bool,
    /// A pause after which the line gets a flag ahead of the next frame.
    #[serde(default)]
    pub flag_after_idle: Option<Time>,
}

/// What a port attaches to, with what only this kind has.
#[derive(Clone, Debug, PartialEq)]
pub enum PortKind {
    /// An octet stream: an asynchronous serial line or a pty.
    Serial(LineConfig),
    /// Frames in UDP datagrams, from this address and port. Live only.
    Udp(Option<PortAddress>),
    /// Frames in IP packets with a protocol number of their own.
    Ip(IpConfig),
    /// Frames of a KISS modem.
    Kiss(KissPort),
    /// A STANAG 5066 station with an HF modem and a radio.
    Hf(Box<HfConfig>),
    /// A client of a STANAG 5066 station of anybody's, by its socket.
    HfClient(Box<HfClientConfig>),
}

/// A serial line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineConfig {
    /// The device or pty. Live only.
    pub device: Option<String>,
    /// Symbols each second, one bit each.
    pub baud: Option<u64>,
    /// How it carries octets; see [`PortConfig::framing`].
    pub framing: Option<Framing>,
}

/// IP packets with a protocol number of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpConfig {
    /// The interface to send and to hear by. Live only.
    pub device: Option<String>,
    /// The local address. Live only.
    pub local: Option<PortAddress>,
    /// The number in the packets' headers; see [`PortConfig::ip_protocol`].
    pub protocol: Option<u8>,
}

/// A KISS modem, and the line to it, if it isn't reached by TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KissPort {
    /// The line.
    pub line: LineConfig,
    /// The modem.
    pub modem: KissConfig,
}

/// What carries a port's octets, as its node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plug {
    /// A stream of octets to one neighbour.
    Octets,
    /// Frames to each neighbour.
    Frames,
    /// A radio's turns.
    Radio,
    /// A station of somebody else's: sockets of the node itself.
    Sockets,
}

/// A kind as a node file has it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum KindWord {
    Serial,
    Udp,
    Ip,
    Kiss,
    Hf,
    HfClient,
}

use KindWord::{Hf, HfClient, Ip, Kiss, Serial, Udp};

impl keys::KindWord for KindWord {
    const OF: &'static str = "port";

    fn word(self) -> &'static str {
        self.text()
    }
}

impl KindWord {
    const fn text(self) -> &'static str {
        match self {
            Serial => "serial",
            Udp => "udp",
            Ip => "ip",
            Kiss => "kiss",
            Hf => "hf",
            HfClient => "hf-client",
        }
    }
}

impl PortKeys {
    /// Keys that not every kind has: whether they are given, and who has them.
    fn particular(&self) -> [KindKey<KindWord>; 21] {
        const CUT: &[KindWord] = &[Serial, Udp, Ip, Kiss];
        let stations = self.neighbours.iter().any(|it| it.hf.is_some());
        let calls = self.neighbours.iter().any(|it| it.call.is_some());
        let addresses = self.neighbours.iter().any(|it| it.address.is_some());
        let neighbours = !self.neighbours.is_empty();
        let payload = self.payload != PayloadCompression::default();
        [
            KindKey::new("device", self.device.is_some(), &[Serial, Ip, Kiss]),
            KindKey::new("baud", self.baud.is_some(), &[Serial, Kiss]),
            KindKey::new("framing", self.framing.is_some(), &[Serial, Kiss]),
            KindKey::new("local", self.local.is_some(), &[Udp, Ip]),
            KindKey::new("protocol", self.protocol.is_some(), &[Ip]),
            KindKey::new("neighbours", neighbours, &[Udp, Ip, Kiss, Hf, HfClient]),
            // Addresses in them.
            KindKey::new("neighbours", addresses, &[Udp, Ip, Hf, HfClient])
                .instead("write each one's `call`"),
            KindKey::new("neighbours", calls, &[Kiss]),
            KindKey::new("neighbours", stations, &[Hf, HfClient]),
            KindKey::new("rate", self.rate.is_some(), &[Udp, Ip, Kiss, Hf, HfClient]),
            KindKey::new("frame", self.frame.is_some(), &[Udp, Ip, Kiss]),
            KindKey::new("kiss", self.kiss.is_some(), &[Kiss]),
            KindKey::new("hf", self.hf.is_some(), &[Hf]),
            KindKey::new("client", self.client.is_some(), &[HfClient]),
            KindKey::new("segment", self.segment.is_some(), CUT),
            KindKey::new("check", self.check.is_some(), CUT),
            KindKey::new("check_urgent", self.check_urgent.is_some(), CUT),
            KindKey::new("repair", self.repair.is_some(), &[Serial]),
            KindKey::new("hbh", self.hbh.is_some(), CUT),
            KindKey::new("payload", payload, CUT),
            KindKey::new("context", !self.context.is_empty(), CUT),
        ]
    }
}

impl TryFrom<PortKeys> for PortConfig {
    type Error = KeyError;

    fn try_from(mut keys: PortKeys) -> Result<Self, KeyError> {
        keys::refuse_others(keys.kind, keys.particular())?;
        let line = |keys: &mut PortKeys| LineConfig {
            device: keys.device.take(),
            baud: keys.baud.take(),
            framing: keys.framing.take(),
        };
        let kind = match keys.kind {
            Serial => PortKind::Serial(line(&mut keys)),
            Udp => PortKind::Udp(keys.local.take()),
            Ip => PortKind::Ip(IpConfig {
                device: keys.device.take(),
                local: keys.local.take(),
                protocol: keys.protocol.take(),
            }),
            Kiss => PortKind::Kiss(KissPort {
                line: line(&mut keys),
                modem: keys.kiss.take().unwrap_or_default(),
            }),
            Hf => {
                let why = "needed with kind = \"hf\": the station's address, such as \
                           { address = \"0.0.0.1\" }";
                let hf = keys.hf.take().ok_or_else(|| KeyError::new("hf", why))?;
                PortKind::Hf(Box::new(hf))
            }
            HfClient => PortKind::HfClient(Box::new(keys.client.take().unwrap_or_default())),
        };
        Ok(Self { kind, keys })
    }
}

impl From<PortConfig> for PortKeys {
    fn from(PortConfig { kind, mut keys }: PortConfig) -> Self {
        let line = |keys: &mut Self, line: LineConfig| {
            (keys.device, keys.baud, keys.framing) = (line.device, line.baud, line.framing);
        };
        keys.kind = match kind {
            PortKind::Serial(_) => Serial,
            PortKind::Udp(_) => Udp,
            PortKind::Ip(_) => Ip,
            PortKind::Kiss(_) => Kiss,
            PortKind::Hf(_) => Hf,
            PortKind::HfClient(_) => HfClient,
        };
        match kind {
            PortKind::Serial(own) => line(&mut keys, own),
            PortKind::Udp(local) => keys.local = local,
            PortKind::Ip(own) => {
                (keys.device, keys.local, keys.protocol) = (own.device, own.local, own.protocol);
            }
            PortKind::Kiss(own) => {
                line(&mut keys, own.line);
                keys.kiss = Some(own.modem).filter(|it| *it != KissConfig::default());
            }
            PortKind::Hf(own) => keys.hf = Some(*own),
            PortKind::HfClient(own) => {
                keys.client = Some(*own).filter(|it| *it != HfClientConfig::default());
            }
        }
        keys
    }
}

impl PortKind {
    /// What carries its octets.
    pub const fn plug(&self) -> Plug {
        match self {
            Self::Serial(_) => Plug::Octets,
            Self::Udp(_) | Self::Ip(_) | Self::Kiss(_) => Plug::Frames,
            Self::Hf(_) => Plug::Radio,
            Self::HfClient(_) => Plug::Sockets,
        }
    }

    /// Whether its frames go through networks: they may come in another order, each neighbour may
    /// have a way of its own, and damaged ones don't pass for whole ones.
    pub(crate) const fn is_packets(&self) -> bool {
        matches!(self, Self::Udp(_) | Self::Ip(_))
    }
}

impl PortConfig {
    /// Checks what the kind needs.
    pub(super) fn validate_kind(&self) -> Result<(), InvalidConfig> {
        match &self.kind {
            PortKind::Serial(line) if line.baud.is_none_or(|baud| baud == 0) => {
                let message = "needed: the line's rate, such as 9600";
                Err(invalid(self.place("baud"), message))
            }
            PortKind::Serial(_) => self.validate_framing(),
            PortKind::Udp(_) | PortKind::Ip(_) => self.validate_packets(),
            PortKind::Kiss(kiss) => self.validate_kiss(&kiss.modem),
            PortKind::Hf(hf) => self.validate_hf(hf),
            PortKind::HfClient(client) => self.validate_hf_client(client),
        }
    }

    /// Its kind, as a node file has it.
    pub const fn kind_word(&self) -> &'static str {
        self.keys.kind.text()
    }

    /// The line of a kind that has one.
    pub const fn line(&self) -> Option<&LineConfig> {
        match &self.kind {
            PortKind::Serial(line) => Some(line),
            PortKind::Kiss(kiss) => Some(&kiss.line),
            _ => None,
        }
    }

    /// Where its device is named: a line's, or an interface.
    pub const fn device_mut(&mut self) -> Option<&mut Option<String>> {
        match &mut self.kind {
            PortKind::Serial(line) => Some(&mut line.device),
            PortKind::Kiss(kiss) => Some(&mut kiss.line.device),
            PortKind::Ip(ip) => Some(&mut ip.device),
            _ => None,
        }
    }

    /// The local address of its packets.
    pub const fn local(&self) -> Option<PortAddress> {
        match &self.kind {
            PortKind::Udp(local) => *local,
            PortKind::Ip(ip) => ip.local,
            _ => None,
        }
    }

    /// Where the local address of its packets is named.
    pub const fn local_mut(&mut self) -> Option<&mut Option<PortAddress>> {
        match &mut self.kind {
            PortKind::Udp(local) => Some(local),
            PortKind::Ip(ip) => Some(&mut ip.local),
            _ => None,
        }
    }

    /// Its KISS modem.
    pub fn kiss(&self) -> Option<&KissConfig> {
        match &self.kind {
            PortKind::Kiss(kiss) => Some(&kiss.modem),
            _ => None,
        }
    }

    /// Its station.
    pub fn hf(&self) -> Option<&HfConfig> {
        match &self.kind {
            PortKind::Hf(hf) => Some(hf),
            _ => None,
        }
    }

    /// How long one side may send at a time, if both can't at once.
    pub(crate) fn turn(&self) -> Option<Duration> {
        match &self.kind {
            PortKind::Hf(hf) => Some(hf.turn()),
            PortKind::HfClient(_) => Some(HfConfig::TURN_USUAL),
            _ => None,
        }
    }

    /// Its station, to be changed.
    pub fn hf_mut(&mut self) -> Option<&mut HfConfig> {
        match &mut self.kind {
            PortKind::Hf(hf) => Some(hf),
            _ => None,
        }
    }

    /// Whose client it is.
    pub fn client(&self) -> Option<&HfClientConfig> {
        match &self.kind {
            PortKind::HfClient(client) => Some(client),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeConfig;
    use crate::config_text::parse;
    use alloc::format;

    fn port(keys: &str) -> Result<PortConfig, String> {
        let text = format!("name = \"a\"\nhost = {{}}\n[[port]]\nname = \"p\"\n{keys}\n");
        let config = parse::<NodeConfig>("a.toml", &text).map_err(|error| format!("{error}"))?;
        config.ports.into_iter().next().ok_or_else(String::new)
    }

    const GOOD: [&str; 6] = [
        "kind = \"serial\"\nbaud = 9600",
        "kind = \"udp\"\nlocal = \"10.0.0.1:7001\"",
        "kind = \"ip\"\nprotocol = 254",
        "kind = \"kiss\"\nrate = \"1200 bit/s\"\nkiss.radio = 3",
        "kind = \"hf\"\nhf.address = \"0.0.0.1\"",
        "kind = \"hf-client\"\nclient.rank = 3",
    ];

    #[test]
    fn tcp_waits_for_the_fastest_port_if_that_is_slow() {
        let patience = |ports: &[&str]| {
            let port = |(n, keys): (usize, &&str)| format!("[[port]]\nname = \"p{n}\"\n{keys}\n");
            let ports: String = ports.iter().enumerate().map(port).collect();
            let text = format!("name = \"a\"\nhost = {{}}\n{ports}");
            let config = parse::<NodeConfig>("a.toml", &text).unwrap();
            config.patience().map(|it| it.as_millis())
        };
        const SERIAL: &str = "kind = \"serial\"\nbaud = 9600";
        const FAST: &str = "kind = \"serial\"\nbaud = 230400";
        // Two packets of 1500 octets of ten bits.
        assert_eq!(patience(&[SERIAL]), Some(3125));
        assert_eq!(
            patience(&["kind = \"serial\"\nbaud = 9600\nmtu = 576"]),
            Some(1200)
        );
        assert_eq!(patience(&[SERIAL, FAST]), None);
        assert_eq!(patience(&[SERIAL, GOOD[1]]), None);
        assert_eq!(patience(&[]), None);
    }

    #[test]
    fn a_key_of_another_kind_is_refused_where_it_stands() {
        for (key, others) in [
            ("device = \"/dev/x\"", "\"serial\" or \"ip\" or \"kiss\""),
            ("baud = 9600", "\"serial\" or \"kiss\""),
            ("framing = \"8N1\"", "\"serial\" or \"kiss\""),
            ("local = \"10.0.0.1\"", "\"udp\" or \"ip\""),
            ("protocol = 253", "\"ip\""),
            (
                "neighbours = [{ name = \"b\" }]",
                "\"udp\" or \"ip\" or \"kiss\" or \"hf\" or \"hf-client\"",
            ),
            ("frame = \"100 B\"", "\"udp\" or \"ip\" or \"kiss\""),
            ("kiss = { radio = 1 }", "\"kiss\""),
            ("hf = { address = \"0.0.0.1\" }", "\"hf\""),
            ("client = { rank = 1 }", "\"hf-client\""),
            (
                "segment = \"64 B\"",
                "\"serial\" or \"udp\" or \"ip\" or \"kiss\"",
            ),
        ] {
            let name = key.split([' ', '.']).next().unwrap();
            for good in GOOD {
                let kind = good.split('"').nth(1).unwrap();
                let lines: Vec<_> = good
                    .lines()
                    .filter(|line| !line.starts_with(name))
                    .collect();
                let said = port(&format!("{}\n{key}", lines.join("\n"))).err();
                let belongs = others.contains(&format!("\"{kind}\""));
                let at = 4 + lines.len() + 1;
                let expected = format!(
                    "a.toml:{at}: `{name}` in [[port]]: is for kind = {others}, and this port's is \
                     \"{kind}\": remove it"
                );
                assert_eq!(said, (!belongs).then_some(expected), "{kind} {key}");
            }
        }
    }

    #[test]
    fn addresses_of_stations_are_for_those_who_have_them() {
        let said = port("kind = \"udp\"\nneighbours = [{ name = \"b\", hf = \"0.0.0.2\" }]");
        let said = said.unwrap_err();
        assert!(
            said.starts_with("a.toml:6: `neighbours` in [[port]]: is for kind = \"hf\""),
            "{said}"
        );
        let lone = port("kind = \"hf\"").unwrap_err();
        assert!(
            lone.contains("needed with kind = \"hf\": the station's address"),
            "{lone}"
        );
    }

    #[test]
    fn a_port_is_written_as_it_was_read() {
        for good in GOOD {
            let read = port(good).unwrap();
            let text = toml::to_string(&read).unwrap();
            let again: PortConfig = toml::from_str(&text).unwrap();
            assert_eq!(read, again, "{text}");
            for line in good.lines() {
                let value = line.split(" = ").nth(1).unwrap();
                assert!(text.contains(value), "{line}: {text}");
            }
        }
    }
}
