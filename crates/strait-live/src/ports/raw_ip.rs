//! Packets of IP with a protocol number of their own (RFC 3692, RFC 4727) in place of datagrams.

use std::io;
use std::net::{SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::BindToDevice;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Doing, Error};

/// What a socket for such packets needs beside addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawIp {
    /// The number in the headers.
    pub protocol: u8,
    /// The interface that it sends and hears by; any if absent.
    pub device: Option<String>,
}

impl RawIp {
    /// A socket at an address, whose port means nothing. Its payloads have no port either.
    ///
    /// # Errors
    /// The system's: it takes root, or `CAP_NET_RAW`.
    pub fn bind(&self, local: SocketAddr, buffer_octets: usize) -> Result<UdpSocket, Error> {
        let doing = || {
            format!(
                "send IP packets of protocol {} from {}",
                self.protocol,
                local.ip()
            )
        };
        let number = Protocol::from(i32::from(self.protocol));
        let socket = Socket::new(Domain::for_address(local), Type::RAW, Some(number));
        let socket = socket.map_err(|error| {
            let forbidden = error.raw_os_error() == Some(Errno::EPERM as i32);
            let error = Error::new(doing(), error);
            if forbidden {
                error.with_remedy("this needs CAP_NET_RAW: run as root, or use kind = \"udp\"")
            } else {
                error
            }
        })?;
        socket.set_nonblocking(true).doing(doing)?;
        // The kernel may give less, and that is no error.
        let _ = socket.set_recv_buffer_size(buffer_octets);
        if let Some(device) = &self.device {
            let doing = || format!("use the interface `{device}`");
            let name = device.into();
            setsockopt(&socket.as_fd(), BindToDevice, &name).doing(doing)?;
        }
        let local = self.scoped(local).doing(doing)?;
        socket.bind(&local.into()).doing(doing)?;
        // What it can do is what a socket for datagrams can.
        Ok(socket.into())
    }

    /// An address that is good on one link alone, on that of the interface.
    pub(crate) fn scoped(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        match (address, &self.device) {
            (SocketAddr::V6(v6), Some(device)) if v6.ip().is_unicast_link_local() => {
                let scope = if_nametoindex(device.as_str())?;
                Ok(SocketAddrV6::new(*v6.ip(), 0, 0, scope).into())
            }
            _ => Ok(address),
        }
    }

    /// Takes the header away from the packet at the beginning of `buffer`, which such a socket
    /// gives with IPv4 packets only. Gives the length of what is left; `None` if it is no packet of
    /// this protocol.
    pub fn strip(&self, ipv4: bool, buffer: &mut [u8], octets: usize) -> Option<usize> {
        if !ipv4 {
            return Some(octets);
        }
        let packet = buffer.get(..octets)?;
        let (first, protocol) = (*packet.first()?, *packet.get(9)?);
        let header = usize::from(first & 0x0f) * 4;
        if first >> 4 != 4 || header < 20 || header > octets || protocol != self.protocol {
            return None;
        }
        buffer.copy_within(header..octets, 0);
        Some(octets - header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use strait_core::id::{ClassId, NeighbourId};
    use strait_core::node::TxMeta;
    use strait_core::rate::LineRate;
    use strait_core::time::{Duration, Instant};

    use crate::ports::udp::{UdpConfig, UdpPort};
    use crate::ports::{PortIo, Received};

    /// IPv6 has one loopback address, so tests on it take turns.
    static ALONE: Mutex<()> = Mutex::new(());

    const RAW: RawIp = RawIp {
        protocol: 253,
        device: None,
    };

    #[test]
    fn a_header_of_any_length_is_taken_away_and_nothing_else_is_taken() {
        let packet = |words: u8, protocol: u8, octets: usize| {
            let mut packet = vec![0; octets];
            packet[0] = 0x40 | words;
            packet[9] = protocol;
            *packet.last_mut().unwrap() = 7;
            packet
        };
        let strip = |mut packet: Vec<u8>| {
            let octets = packet.len();
            let left = RAW.strip(true, &mut packet, octets)?;
            Some(packet[..left].to_vec())
        };
        assert_eq!(strip(packet(5, 253, 22)), Some(vec![0, 7]));
        assert_eq!(strip(packet(15, 253, 61)), Some(vec![7]));
        assert_eq!(strip(packet(5, 253, 20)), Some(vec![]));
        assert_eq!(strip(packet(5, 254, 22)), None);
        assert_eq!(strip(packet(4, 253, 22)), None);
        assert_eq!(strip(packet(6, 253, 23)), None);
        let mut six = packet(5, 253, 22);
        six[0] = 0x65;
        assert_eq!(strip(six), None);
        assert_eq!(strip(vec![0x45; 9]), None);
        assert_eq!(strip(vec![]), None);
        // IPv6 packets come without.
        assert_eq!(RAW.strip(false, &mut [1, 2, 3], 3), Some(3));
        assert_eq!(RAW.strip(true, &mut [0x45], 22), None);
    }

    #[test]
    fn only_what_is_good_on_one_link_needs_the_link() {
        let by = |device: &str| RawIp {
            device: Some(device.into()),
            ..RAW
        };
        let local: SocketAddr = "[fe80::1]:0".parse().unwrap();
        let loopback = if_nametoindex("lo").unwrap();
        let scoped = by("lo").scoped(local).unwrap().to_string();
        assert_eq!(scoped, format!("[fe80::1%{loopback}]:0"));
        let wide: SocketAddr = "[fd00::1]:0".parse().unwrap();
        assert_eq!(by("lo").scoped(wide).unwrap(), wide);
        assert_eq!(RAW.scoped(local).unwrap(), local);
        assert!(by("no-such-one").scoped(local).is_err());
    }

    /// An open port, if this process may have one.
    fn port(local: &str, neighbour: &str, protocol: u8) -> Option<UdpPort> {
        let address = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let config = UdpConfig {
            local: address(local),
            neighbours: vec![address(neighbour)],
            rate: Some(LineRate::new(8_000_000, 8)),
            own_rates: Vec::new(),
            frame_octets_max: 1400,
        };
        let raw = RawIp {
            protocol,
            device: Some("lo".into()),
        };
        let mut port = UdpPort::new(config).over_ip(raw);
        match port.open(Instant::ZERO) {
            Ok(_) => Some(port),
            Err(error) => {
                assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
                eprintln!("raw IP: skipped, this needs root");
                None
            }
        }
    }

    fn received(port: &mut UdpPort, buffer: &mut [u8]) -> Received {
        for _ in 0..1000 {
            match port.receive(Instant::ZERO, buffer).unwrap() {
                Received::Nothing => std::thread::sleep(Duration::from_millis(1)),
                other => return other,
            }
        }
        Received::Nothing
    }

    #[test]
    fn neighbours_are_heard_without_headers_and_strangers_only_counted() {
        let _alone = ALONE.lock();
        let mut buffer = [0; 2048];
        let meta = TxMeta::to_peer(ClassId(0));
        let now = Instant::ZERO;
        for (own, peer, foreign) in [
            ("127.0.0.2", "127.0.0.3", Some("127.0.0.4")),
            ("::1", "::1", None),
        ] {
            let Some(mut near) = port(own, peer, 253) else {
                return;
            };
            let mut far = port(peer, own, 253).unwrap();
            far.transmit(now, &meta, b"hello").unwrap();
            let expected = Received::Frame {
                from: NeighbourId(0),
                octets: 5,
            };
            assert_eq!(received(&mut near, &mut buffer), expected);
            assert_eq!(&buffer[..5], b"hello");
            // Another number is another socket's.
            let mut other = port(peer, own, 254).unwrap();
            other.transmit(now, &meta, b"nothing").unwrap();
            if let Some(foreign) = foreign {
                let mut stranger = port(foreign, own, 253).unwrap();
                stranger.transmit(now, &meta, b"?").unwrap();
                assert_eq!(received(&mut near, &mut buffer), Received::Skipped);
                assert_eq!(near.counts().strangers, 1);
            }
            far.transmit(now, &meta, b"again").unwrap();
            assert_eq!(received(&mut near, &mut buffer), expected);
            assert_eq!(&buffer[..5], b"again");
        }
    }

    #[test]
    fn the_rate_counts_the_headers() {
        let _alone = ALONE.lock();
        let meta = TxMeta::to_peer(ClassId(0));
        for (own, header_octets) in [("127.0.0.5", 20), ("::1", 40)] {
            let Some(mut port) = port(own, own, 254) else {
                return;
            };
            let now = Instant::ZERO;
            port.transmit(now, &meta, &[0; 1000]).unwrap();
            let left = now + Duration::from_micros(1000 + header_octets);
            let again = port.room(now).unwrap_err().unwrap();
            assert_eq!(port.room(again).unwrap().starts, left);
        }
    }
}
