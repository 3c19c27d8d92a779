//! What all programs of a traffic have in common, simulated and real: ports, names, sizes.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use strait_core::Duration;

use crate::config::Family;
use crate::via::Via;

/// The ports of one traffic. A page's client uses up to 64 ports from `from` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// On the host that begins; for ping the echo identifier.
    pub from: u16,
    /// On the other.
    pub to: u16,
}

impl Ports {
    /// Ports for the traffic at this place of a scenario; those of the first 384 don't collide.
    pub const fn nth(index: u16) -> Self {
        Self {
            from: 40_000 + (index % 384) * 64,
            to: 5_000 + index % 384,
        }
    }
}

/// The index of the security association that a traffic's packets of ESP have.
pub const fn association(ports: Ports) -> u32 {
    // RFC 4303 section 2.1: those up to 255 are reserved.
    0x1000_0000 | ports.to as u32
}

/// How connections to a port are made, or one from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// Profile of the endpoint, see [`strait_tcp::PROFILES`].
    pub profile: String,
    /// Octets of the send and the receive buffer.
    pub buffer_octets: usize,
    /// Hold back small segments (Nagle).
    pub nagle: bool,
    /// Code point of the packets.
    pub dscp: u8,
    /// The largest packet of the path if it is known to be below the host's own.
    pub mtu: Option<u32>,
}

/// Where servers of names listen.
pub const DNS_PORT: u16 = 53;

/// The zone in which every name has an address, in the simulator and live.
pub const DNS_ZONE: &str = "hf.example";

/// How long a name's address holds, in seconds.
pub const DNS_LIFE_S: u32 = 600;

/// The name that look-up `sequence` asks for: each another one, so that nobody knows the answer
/// from before. All have one length.
pub fn dns_name(sequence: u64) -> String {
    format!("n{:05}.{DNS_ZONE}", sequence % 100_000)
}

/// The zone of hosts' names.
pub const HOSTS_ZONE: &str = "hosts.hf.example";

/// The name by which a traffic knows the other host: each another one, told apart by its ports.
pub fn host_name(ports: Ports) -> String {
    format!("h{:05}.{HOSTS_ZONE}", ports.from)
}

/// What a page is of, beside its objects. Left away it is one host, whose root names all other
/// objects, in the clear, by HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Site {
    /// Hosts that its objects lie on in turn, each with a name of its own.
    pub hosts: u32,
    /// Objects from the root to the last that is named by another: 2 if the root names all.
    pub depth: u32,
    /// Each connection has TLS 1.3, with a whole handshake.
    pub tls: bool,
    /// A host has one connection, on which requests don't wait for answers, as HTTP/2 has it.
    pub http2: bool,
    /// By whom its client asks for connections, as `socks5://10.1.0.1:1080`; `http://` is HTTP
    /// CONNECT. Of a name that would be looked up, the name is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            hosts: 1,
            depth: 2,
            tls: false,
            http2: false,
            via: None,
        }
    }
}

impl Site {
    /// The host that an object lies on.
    pub const fn host(&self, object: u32) -> usize {
        (object % self.hosts) as usize
    }

    /// The name of a host.
    pub fn name(&self, host: usize, ports: Ports) -> String {
        match host {
            0 => host_name(ports),
            _ => format!("s{host}.{}", host_name(ports)),
        }
    }

    /// Those of so many objects that one names: they aren't known before it has come.
    pub fn named_by(&self, object: u32, objects: u32) -> Range<u32> {
        let level = objects.saturating_sub(1).div_ceil((self.depth - 1).max(1));
        match object {
            0 => 1..(1 + level).min(objects),
            _ => (object + level).min(objects)..(object + level + 1).min(objects),
        }
    }
}

/// How long a host waits for the address of a name before it asks again.
pub const HOST_NAME_WAIT: Duration = Duration::from_secs(5);

/// A round of questions to everybody: where each goes, and octets of its payload. The sizes are
/// those of a question for one name or one service.
pub fn chatter_round(family: Family) -> Vec<(SocketAddr, usize)> {
    let to = |address: IpAddr, port: u16, octets: usize| (SocketAddr::new(address, port), octets);
    match family {
        Family::V4 => {
            let group = |octets: [u8; 4]| IpAddr::from(octets);
            vec![
                to(group([224, 0, 0, 251]), 5353, 45),
                to(group([224, 0, 0, 252]), 5355, 22),
                to(group([239, 255, 255, 250]), 1900, 174),
                to(group([239, 255, 255, 250]), 3702, 624),
                to(group([255, 255, 255, 255]), 137, 50),
            ]
        }
        Family::V6 => {
            let group = |last: [u16; 2]| IpAddr::from([0xff02, 0, 0, 0, 0, 0, last[0], last[1]]);
            vec![
                to(group([0, 0xfb]), 5353, 45),
                to(group([1, 3]), 5355, 22),
                to(group([0, 0xc]), 1900, 174),
                to(group([0, 0xc]), 3702, 624),
            ]
        }
    }
}

/// What an OSPF hello says that comes each `period`.
pub fn hello_interval_s(period: Duration) -> u16 {
    let whole_s = period.as_nanos().div_ceil(1_000_000_000);
    u16::try_from(whole_s).unwrap_or(u16::MAX)
}

/// Sizes of the objects of a page, the first being the root.
///
/// The root has weight 4, the others 1, 2, 3, 4, 1, 2 … in turn; each gets its share of `octets`,
/// cut so that all add up to exactly that.
pub fn object_octets(objects: u32, octets: u64) -> Vec<u64> {
    let weight = |index: u32| {
        if index == 0 {
            4
        } else {
            u64::from((index - 1) % 4) + 1
        }
    };
    let all: u128 = (0..objects).map(|index| u128::from(weight(index))).sum();
    let mut weights = 0;
    let mut given = 0;
    let share = |weights: u128| (u128::from(octets) * weights / all.max(1)) as u64;
    (0..objects)
        .map(|index| {
            weights += u128::from(weight(index));
            let size = share(weights) - given;
            given += size;
            size
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up_to_the_whole() {
        let sizes = object_octets(20, 60_000);
        assert_eq!(&sizes[..6], [4800, 1200, 2400, 3600, 4800, 1200]);
        for (objects, octets) in [(20, 60_000), (1, 5), (7, 3), (10_000, 1), (3, u64::MAX)] {
            let sizes = object_octets(objects, octets);
            assert_eq!(sizes.len(), objects as usize);
            assert_eq!(sizes.iter().sum::<u64>(), octets);
        }
        assert!(object_octets(0, 9).is_empty());
    }

    #[test]
    fn each_object_of_a_page_is_named_once() {
        for (objects, depth) in [(40, 2), (40, 3), (41, 3), (2, 9), (1, 3), (7, 4)] {
            let site = Site {
                depth,
                ..Site::default()
            };
            let named = (0..objects).flat_map(|it| site.named_by(it, objects));
            let mut named: Vec<u32> = named.collect();
            named.sort_unstable();
            assert_eq!(named, (1..objects).collect::<Vec<_>>(), "{objects} {depth}");
        }
        let three = Site {
            hosts: 6,
            depth: 3,
            ..Site::default()
        };
        assert_eq!(
            (three.named_by(0, 40), three.named_by(19, 40)),
            (1..21, 39..40)
        );
        assert_eq!((three.host(0), three.host(7)), (0, 1));
        let ports = Ports::nth(0);
        let names = [0, 5].map(|host| three.name(host, ports));
        assert_eq!(
            names,
            ["h40000.hosts.hf.example", "s5.h40000.hosts.hf.example"]
        );
    }
}
