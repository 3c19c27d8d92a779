//! A node file's ports as devices and sockets of this host.

use std::net::SocketAddr;
use std::path::PathBuf;

use strait_core::prefix::Prefix;
use strait_core::rate::LineRate;
use strait_node::config::{
    self, HostConfig, HostKind, LineConfig, LinkProfile, NeighbourConfig, PortAddress, PortConfig,
    PortKind,
};
use strait_node::{InvalidConfig, NodeConfig};
use strait_wire::ax25;

use crate::ports::PortIo;
use crate::ports::hf_modem::ModemPort;
use crate::ports::kiss::{Asks, Ax25, KissConfig, KissPort};
use crate::ports::no_medium::NoMedium;
use crate::ports::raw_ip::RawIp;
use crate::ports::serial::{SerialConfig, SerialPort};
use crate::ports::tcp_line::TcpLine;
use crate::ports::tun::{TunConfig, TunPort};
use crate::ports::udp::{UdpConfig, UdpPort};

/// The ports of `config` in the order of their numbers, none of them open.
///
/// # Errors
/// A port lacks what a node file for the simulator may leave out: its device or its addresses.
pub fn ports(config: &NodeConfig) -> Result<Vec<Box<dyn PortIo>>, InvalidConfig> {
    // A policy that isn't one is complained about where it is used.
    let marks = config.policy.tunnel_code_points().unwrap_or_default();
    let marks: Vec<u8> = marks.iter().map(|dscp| dscp.number()).collect();
    let mut ports: Vec<Box<dyn PortIo>> = vec![Box::new(interface(config, &config.host))];
    for port in &config.ports {
        warn_of_fixed_rate(port);
        ports.push(open_later(port, &marks)?);
    }
    for side in &config.host.further {
        ports.push(Box::new(interface(config, side)));
    }
    Ok(ports)
}

/// The interface of a host side.
fn interface(config: &NodeConfig, side: &HostConfig) -> TunPort {
    let pair = |prefix: &Prefix| (prefix.address, prefix.length);
    let mut interface = TunConfig {
        interface: side.interface.clone(),
        addresses: side.addresses.iter().map(pair).collect(),
        mtu: side.mtu.0 as u32,
    };
    match side.kind {
        HostKind::Tun => {
            let several = !config.host.further.is_empty();
            let port = TunPort::new(interface).patient(config.patience());
            if several { port.one_of_several() } else { port }
        }
        HostKind::Tap => {
            // They are the gateway's own, not this host's.
            interface.addresses.clear();
            TunPort::tap(interface, side.bridge.clone())
        }
    }
}

/// A port as a device or socket that isn't open yet; code points for its tunnel are `marks`.
fn open_later(port: &PortConfig, marks: &[u8]) -> Result<Box<dyn PortIo>, InvalidConfig> {
    Ok(match &port.kind {
        PortKind::Serial(line) => Box::new(SerialPort::new(serial(port, line)?)),
        PortKind::Udp(_) => {
            let io = UdpPort::new(udp(port, "0.0.0.0:7001")?);
            Box::new(io.marked(marks.to_vec()))
        }
        PortKind::Ip(ip) => {
            let raw = RawIp {
                protocol: ip.protocol.unwrap_or(PortConfig::PROTOCOL),
                device: ip.device.clone(),
            };
            let io = UdpPort::new(udp(port, "10.0.0.1")?).over_ip(raw);
            Box::new(io.marked(marks.to_vec()))
        }
        PortKind::Kiss(own) => Box::new(kiss(port, own)?),
        PortKind::Hf(_) => {
            let modem = port.hf_modem();
            let modem = modem.map_err(|(key, message)| invalid(port, key, message))?;
            Box::new(ModemPort::new(modem))
        }
        PortKind::HfClient(_) => Box::new(NoMedium),
    })
}

/// What the ports of a node file that is valid in a simulation lack on a host: the first thing of
/// each.
pub(crate) fn lacking(config: &NodeConfig) -> Vec<InvalidConfig> {
    let ports = config.ports.iter();
    ports
        .filter_map(|port| open_later(port, &[]).err())
        .collect()
}

/// A modem without a control can't be told by which rate to send.
fn warn_of_fixed_rate(port: &PortConfig) {
    let fixed = port.hf().filter(|hf| hf.adapt.is_some());
    let modem = fixed.and_then(|hf| hf.modem.as_ref());
    if modem.is_some_and(|modem| !modem.takes_rates()) {
        tracing::warn!(
            port = port.name,
            "the modem's data port can't choose a rate: `adapt` does nothing without \
             `hf.modem.control`"
        );
    }
}

fn invalid(port: &PortConfig, key: &str, message: impl Into<String>) -> InvalidConfig {
    InvalidConfig {
        place: format!("[[port]] {} {key}", port.name),
        message: message.into(),
    }
}

fn serial(port: &PortConfig, line: &LineConfig) -> Result<SerialConfig, InvalidConfig> {
    let missing = || {
        let example = format!(
            "needed on a host: /dev/ttyUSB0, or --device {}=PATH",
            port.name
        );
        invalid(port, "device", example)
    };
    let baud = line.baud.and_then(|baud| u32::try_from(baud).ok());
    Ok(SerialConfig {
        device: PathBuf::from(line.device.as_ref().ok_or_else(missing)?),
        baud: baud.ok_or_else(|| invalid(port, "baud", "no device has such a rate"))?,
        framing: port.framing(),
        hardware_flow_control: false,
    })
}

/// An address as sockets need it: over IP alone its port means nothing.
fn socket(address: PortAddress) -> SocketAddr {
    let lone = SocketAddr::new(address.ip(), 0);
    address.socket().unwrap_or(lone)
}

/// Sockets with a local address like the `example`.
fn udp(port: &PortConfig, example: &str) -> Result<UdpConfig, InvalidConfig> {
    let local = port.local().map(socket).ok_or_else(|| {
        let message = format!("needed on a host: {example}, or --local {}=ADDR", port.name);
        invalid(port, "local", message)
    })?;
    if port.neighbours.is_empty() {
        let message = "needed on a host: the stations at the other end, with name and address";
        return Err(invalid(port, "neighbours", message));
    }
    let address = |neighbour: &NeighbourConfig| {
        let address = neighbour.address.map(socket).ok_or_else(|| {
            let name = &neighbour.name;
            let message = format!(
                "`{name}` needs an address on a host, or --peer {}.{name}=ADDR",
                port.name
            );
            invalid(port, "neighbours", message)
        })?;
        if address.is_ipv4() != local.is_ipv4() {
            let message = format!("`{}` and `local` are of different families", neighbour.name);
            return Err(invalid(port, "neighbours", message));
        }
        Ok(address)
    };
    let neighbours: Result<Vec<SocketAddr>, _> = port.neighbours.iter().map(address).collect();
    Ok(UdpConfig {
        local,
        neighbours: neighbours?,
        rate: port.rate.map(|rate| LineRate::new(rate.0, 8)),
        own_rates: port.own_rates().collect(),
        frame_octets_max: u32::try_from(port.frame_octets_max()).unwrap_or(u32::MAX),
    })
}

fn kiss(port: &PortConfig, own: &config::KissPort) -> Result<KissPort, InvalidConfig> {
    let modem = &own.modem;
    let line: Box<dyn PortIo> = match (modem.modem, &own.line.device) {
        (Some(address), _) => Box::new(TcpLine::new(address).shallow()),
        (None, Some(_)) => Box::new(SerialPort::new(serial(port, &own.line)?)),
        (None, None) => {
            let message = "needed on a host: the modem's address, such as 127.0.0.1:8001, \
                           or `device` and `baud`";
            return Err(invalid(port, "kiss.modem", message));
        }
    };
    let rate = port
        .line_rate()
        .ok_or_else(|| invalid(port, "rate", "needed: the rate on the air"))?;
    let config = KissConfig {
        radio: modem.radio,
        rate,
        frame_octets_max: u32::try_from(port.frame_octets_max()).unwrap_or(u32::MAX),
        asks: match modem.notice {
            Some(true) => Some(Asks::Notice),
            // A TNC at a serial line isn't Dire Wolf.
            None if modem.modem.is_some() => Some(Asks::Queue),
            _ => None,
        },
        stations: port.kiss_stations().map(|(own, others)| Ax25 {
            own,
            others,
            via: modem.repeaters().unwrap_or_default(),
            protocol: match port.profile {
                LinkProfile::Ip => ax25::IP,
                _ => ax25::NO_LAYER_3,
            },
        }),
    };
    Ok(KissPort::new(config, line))
}

/// What a port attaches to and whom it reaches, in a few words.
pub(crate) fn describe(port: &PortConfig) -> String {
    let mut text = attachment(port);
    if port.profile != LinkProfile::default() {
        text += &format!(" {}", port.profile.name());
    }
    let names = port.neighbours.iter().map(|it| it.name.as_str());
    let shown: Vec<&str> = names.clone().take(NAMES_MAX).collect();
    if !shown.is_empty() {
        text += &format!(" to {}", shown.join(" and "));
    }
    match names.count().saturating_sub(NAMES_MAX) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Neighbours that the line of a start names.
const NAMES_MAX: usize = 3;

fn attachment(port: &PortConfig) -> String {
    let local = |local: &Option<PortAddress>| local.map_or_else(String::new, |it| it.to_string());
    match &port.kind {
        PortKind::Serial(line) => format!(
            "{} {} baud",
            line.device.as_deref().unwrap_or_default(),
            line.baud.unwrap_or_default()
        ),
        PortKind::Kiss(kiss) => {
            let device = || kiss.line.device.clone().unwrap_or_default();
            let modem = kiss.modem.modem;
            let modem = modem.map_or_else(device, |modem| modem.to_string());
            format!("KISS {modem}")
        }
        PortKind::Hf(hf) => format!("HF station {}", hf.address),
        PortKind::HfClient(client) => format!("HF client of {}", client.server),
        PortKind::Udp(own) => local(own),
        PortKind::Ip(ip) => {
            let protocol = ip.protocol.unwrap_or(PortConfig::PROTOCOL);
            format!("{} protocol {protocol}", local(&ip.local))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_node::config_text::parse;

    fn complaint(port: &str) -> String {
        let text = format!("name = \"a\"\nhost = {{}}\n[[port]]\nname = \"p\"\n{port}");
        let config: NodeConfig = parse("a.toml", &text).unwrap();
        ports(&config).err().unwrap().to_string()
    }

    #[test]
    fn what_a_simulation_may_leave_out_a_host_needs() {
        assert_eq!(
            complaint("kind = \"serial\"\nbaud = 9600"),
            "[[port]] p device: needed on a host: /dev/ttyUSB0, or --device p=PATH"
        );
        assert_eq!(
            complaint("kind = \"serial\"\nbaud = 9600000000\ndevice = \"/dev/x\""),
            "[[port]] p baud: no device has such a rate"
        );
        assert_eq!(
            complaint("kind = \"udp\""),
            "[[port]] p local: needed on a host: 0.0.0.0:7001, or --local p=ADDR"
        );
        assert_eq!(
            complaint("kind = \"ip\""),
            "[[port]] p local: needed on a host: 10.0.0.1, or --local p=ADDR"
        );
        assert!(complaint("kind = \"kiss\"\nrate = \"1200 bit/s\"").contains("127.0.0.1:8001"));
        let local = "kind = \"udp\"\nlocal = \"127.0.0.1:0\"\n";
        assert!(complaint(local).contains("the stations at the other end"));
        let unknown = format!("{local}neighbours = [{{ name = \"b\" }}]");
        assert!(complaint(&unknown).contains("--peer p.b=ADDR"));
        let mixed = format!("{local}neighbours = [{{ name = \"b\", address = \"[::1]:7\" }}]");
        assert!(complaint(&mixed).contains("different families"));
    }

    #[test]
    fn the_keys_of_a_modem_are_checked() {
        let complaint = |port: &str| {
            let port = format!("[[port]]\nname = \"p\"\nkind = \"kiss\"\n{port}");
            let text = format!("name = \"a\"\nhost = {{}}\n{port}");
            let config: NodeConfig = parse("a.toml", &text).unwrap();
            config.validate().err().map(|error| error.place)
        };
        let place = |key: &str| Some(format!("[[port]] p {key}"));
        assert_eq!(complaint(""), place("rate"));
        let rate = "rate = \"1200 bit/s\"\n";
        assert_eq!(complaint(rate), None);
        assert_eq!(
            complaint(&format!("{rate}frame = \"15 B\"")),
            place("frame")
        );
        assert_eq!(
            complaint(&format!("{rate}kiss.radio = 16")),
            place("kiss.radio")
        );
        let lone = format!("{rate}kiss.own = \"N0CALL\"");
        assert_eq!(complaint(&lone), place("kiss.own, kiss.peer"));
        assert_eq!(
            complaint(&format!("{lone}\nkiss.peer = \"N0CALL-16\"")),
            place("kiss.own, kiss.peer")
        );
        assert_eq!(
            complaint(&format!("{lone}\nkiss.peer = \"N0CALL-15\"")),
            None
        );
    }
}
