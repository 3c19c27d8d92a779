//! A packet described in words.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strait_qos::{Dscp, Precedence, Protocol, RuleConfig};
use strait_wire::ip::{PacketInfo, TcpFlags, protocol};

use crate::exit::BadInput;

const KEYS: [&str; 11] = [
    "protocol",
    "dscp",
    "precedence",
    "source",
    "destination",
    "source_port",
    "destination_port",
    "flow_label",
    "spi",
    "octets",
    "tcp_control",
];

/// Reads `key=value` words. What isn't said: IPv4 unless an address or label says IPv6, UDP,
/// best effort, 100 octets.
pub(super) fn read(words: &[String]) -> Result<PacketInfo, BadInput> {
    let mut packet = PacketInfo {
        src: Ipv4Addr::new(192, 0, 2, 1).into(),
        dst: Ipv4Addr::new(198, 51, 100, 1).into(),
        protocol: protocol::UDP,
        dscp: 0,
        ecn: 0,
        hop_limit: 64,
        flow_label: 0,
        ports: None,
        spi: None,
        tcp_bare: None,
        octets: 100,
        dont_fragment: false,
        later_fragment: false,
    };
    let mut given = Given::default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        given.take(&mut packet, key, value)?;
    }
    given.finish(&mut packet)?;
    Ok(packet)
}

/// What needs another word to be understood.
#[derive(Default)]
struct Given {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    ports: (Option<u16>, Option<u16>),
    protocol: Option<u8>,
}

impl Given {
    fn take(&mut self, packet: &mut PacketInfo, key: &str, value: &str) -> Result<(), BadInput> {
        match key {
            "protocol" => self.protocol = Some(parsed::<Protocol>(key, value)?.0),
            "dscp" => packet.dscp = parsed::<Dscp>(key, value)?.number(),
            "precedence" => {
                let level = parsed::<Precedence>(key, value)?;
                packet.dscp = level.code_points().next().unwrap_or_default().number();
            }
            "source" => self.source = Some(parsed(key, value)?),
            "destination" => self.destination = Some(parsed(key, value)?),
            "source_port" => self.ports.0 = Some(parsed(key, value)?),
            "destination_port" => self.ports.1 = Some(parsed(key, value)?),
            "flow_label" => packet.flow_label = number(key, value)?,
            "spi" => packet.spi = Some(number(key, value)?),
            "octets" => packet.octets = number(key, value)?,
            "tcp_control" if value.is_empty() => packet.tcp_bare = Some(TcpFlags::ACK),
            _ => {
                let keys = KEYS.join(", ");
                return Err(BadInput(format!("`{key}` is no key of a packet: {keys}")));
            }
        }
        Ok(())
    }

    fn finish(self, packet: &mut PacketInfo) -> Result<(), BadInput> {
        let given = self.source.or(self.destination);
        let is_v6 = given.map_or(packet.flow_label != 0, |address| address.is_ipv6());
        if is_v6 {
            let host = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into();
            (packet.src, packet.dst, packet.dont_fragment) = (host(1), host(2), true);
        }
        packet.src = self.source.unwrap_or(packet.src);
        packet.dst = self.destination.unwrap_or(packet.dst);
        if packet.src.is_ipv4() != packet.dst.is_ipv4() {
            let text = "source and destination are of one family";
            return Err(BadInput(text.into()));
        }
        if packet.src.is_ipv4() && packet.flow_label != 0 {
            return Err(BadInput(String::from("IPv4 has no flow_label")));
        }
        let implied = match (packet.spi, packet.tcp_bare) {
            (Some(_), _) => protocol::ESP,
            (None, Some(_)) => protocol::TCP,
            (None, None) => protocol::UDP,
        };
        packet.protocol = self.protocol.unwrap_or(implied);
        if matches!(packet.protocol, protocol::UDP | protocol::TCP) {
            // Ports that nobody has a rule for, if none are given.
            let (source, destination) = self.ports;
            packet.ports = Some((source.unwrap_or(49_152), destination.unwrap_or(49_153)));
        }
        Ok(())
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    key: &str,
    value: &str,
) -> Result<T, BadInput> {
    value
        .parse()
        .map_err(|error| BadInput(format!("{key}={value}: {error}")))
}

/// A number, decimal or with `0x`.
fn number(key: &str, value: &str) -> Result<u32, BadInput> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => value.parse(),
    };
    number.map_err(|error| BadInput(format!("{key}={value}: {error}")))
}

/// The packet in one line.
pub(super) fn text(packet: &PacketInfo) -> String {
    let protocol = Protocol(packet.protocol);
    let dscp = Dscp::new(packet.dscp).unwrap_or_default();
    let ends = match packet.ports {
        Some((from, to)) => format!("{} port {from} to {} port {to}", packet.src, packet.dst),
        None => format!("{} to {}", packet.src, packet.dst),
    };
    let mut text = format!("{protocol} {ends}, {dscp}, {} octets", packet.octets);
    if packet.flow_label != 0 {
        let _ = write!(text, ", flow label {:#x}", packet.flow_label);
    }
    if let Some(spi) = packet.spi {
        let _ = write!(text, ", SPI {spi:#x}");
    }
    if packet.tcp_bare.is_some() {
        text.push_str(", a bare segment");
    }
    text
}

/// A rule as its file writes it, in one line.
pub(super) fn rule_text(rule: &RuleConfig) -> String {
    let text = toml::to_string(rule).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<PacketInfo, BadInput> {
        let words: Vec<String> = text.split_whitespace().map(String::from).collect();
        read(&words)
    }

    #[test]
    fn words_describe_a_packet() {
        let packet = words("dscp=EF destination_port=5004 octets=71").unwrap();
        assert_eq!((packet.protocol, packet.dscp, packet.octets), (17, 46, 71));
        assert_eq!(packet.ports.unwrap().1, 5004);
        assert_eq!(words("precedence=flash").unwrap().dscp, 24);
        let packet = words("spi=0x100 source=2001:db8::1").unwrap();
        assert_eq!((packet.protocol, packet.spi), (50, Some(256)));
        assert!(packet.dst.is_ipv6());
        let packet = words("tcp_control octets=40").unwrap();
        assert_eq!(packet.protocol, protocol::TCP);
        assert_eq!(packet.tcp_bare, Some(TcpFlags::ACK));
        let packet = words("flow_label=0x12345 protocol=icmpv6").unwrap();
        assert_eq!((packet.flow_label, packet.ports), (0x12345, None));
        assert!(text(&packet).contains("flow label 0x12345"));
    }

    #[test]
    fn wrong_words_are_named() {
        for (text, message) in [
            ("colour=red", "`colour` is no key"),
            ("dscp=AF99", "dscp=AF99"),
            ("source=10.0.0.1 destination=fd00::1", "one family"),
            ("source=10.0.0.1 flow_label=3", "no flow_label"),
            ("spi=twelve", "spi=twelve"),
        ] {
            let error = words(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
