//! The echo service of a gateway, as a traffic calls it.

use std::net::SocketAddr;

use strait_node::config::EchoConfig;
use strait_traffic::{Family, TrafficConfig};

/// Where a traffic's host finds the service: by its name what `to` is has it, outside its own
/// machine, in the traffic's family.
pub fn echo_service(config: &TrafficConfig, echo: Option<&EchoConfig>) -> Option<SocketAddr> {
    let echo = echo?;
    let socket = match config.octets {
        Some(_) => echo.listen,
        None => echo.datagrams,
    };
    let ipv4 = config.family == Family::V4;
    socket.filter(|socket| socket.is_ipv4() == ipv4 && !socket.ip().is_loopback())
}
