//! A node file's ports as devices and sockets of this host.

use std::net::SocketAddr;
use std::path::PathBuf;

use strait_core::prefix::Prefix;
use strait_node::config::{PortConfig, PortKind};
use strait_node::{InvalidConfig, NodeConfig};

use crate::port_io::PortIo;
use crate::serial::{Framing, SerialConfig, SerialPort};
use crate::tun::{TunConfig, TunPort};
use crate::udp::{UdpConfig, UdpPort};

/// The ports of `config` in the order of their numbers, none of them open.
///
/// # Errors
/// A port lacks what a node file for the simulator may leave out: its device or its addresses.
pub(crate) fn ports(config: &NodeConfig) -> Result<Vec<Box<dyn PortIo>>, InvalidConfig> {
    let pair = |prefix: &Prefix| (prefix.address, prefix.length);
    let host = TunConfig {
        interface: config.host.interface.clone(),
        addresses: config.host.addresses.iter().map(pair).collect(),
        routes: config.host.routes.iter().map(pair).collect(),
        mtu: config.host.mtu.0 as u32,
    };
    let mut ports: Vec<Box<dyn PortIo>> = vec![Box::new(TunPort::new(host))];
    for port in &config.ports {
        ports.push(match port.kind {
            PortKind::Serial => Box::new(SerialPort::new(serial(port)?)),
            PortKind::Udp => Box::new(UdpPort::new(udp(port)?)),
        });
    }
    Ok(ports)
}

fn invalid(port: &PortConfig, key: &str, message: impl Into<String>) -> InvalidConfig {
    InvalidConfig {
        place: format!("[[port]] {} {key}", port.name),
        message: message.into(),
    }
}

fn serial(port: &PortConfig) -> Result<SerialConfig, InvalidConfig> {
    let missing = || {
        let example = format!(
            "needed on a host: /dev/ttyUSB0, or --device {}=PATH",
            port.name
        );
        invalid(port, "device", example)
    };
    let framing = port.framing.as_deref().unwrap_or("8N1");
    let framing: Framing = framing
        .parse()
        .map_err(|error: crate::Error| invalid(port, "framing", error.to_string()))?;
    let baud = port.baud.and_then(|baud| u32::try_from(baud).ok());
    Ok(SerialConfig {
        device: PathBuf::from(port.device.as_ref().ok_or_else(missing)?),
        baud: baud.ok_or_else(|| invalid(port, "baud", "no device has such a rate"))?,
        framing,
        hardware_flow_control: false,
    })
}

fn udp(port: &PortConfig) -> Result<UdpConfig, InvalidConfig> {
    let local = port.local.ok_or_else(|| {
        let example = format!(
            "needed on a host: 0.0.0.0:7001, or --local {}=ADDR",
            port.name
        );
        invalid(port, "local", example)
    })?;
    if port.neighbours.is_empty() {
        let message = "needed on a host: who is at the other end, with name and address";
        return Err(invalid(port, "neighbours", message));
    }
    let address = |neighbour: &strait_node::config::NeighbourConfig| {
        let address = neighbour.address.ok_or_else(|| {
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
        rate: port.line_rate(),
        frame_octets_max: u32::try_from(port.frame_octets_max()).unwrap_or(u32::MAX),
    })
}

/// What a port attaches to, in a few words.
pub(crate) fn describe(port: &PortConfig) -> String {
    match port.kind {
        PortKind::Serial => format!(
            "{} {} baud",
            port.device.as_deref().unwrap_or_default(),
            port.baud.unwrap_or_default()
        ),
        PortKind::Udp => port
            .local
            .map_or_else(String::new, |local| local.to_string()),
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
        let local = "kind = \"udp\"\nlocal = \"127.0.0.1:0\"\n";
        assert!(complaint(local).contains("who is at the other end"));
        let unknown = format!("{local}neighbours = [{{ name = \"b\" }}]");
        assert!(complaint(&unknown).contains("--peer p.b=ADDR"));
        let mixed = format!("{local}neighbours = [{{ name = \"b\", address = \"[::1]:7\" }}]");
        assert!(complaint(&mixed).contains("different families"));
    }
}
