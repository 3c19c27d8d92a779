//! Where clients of STANAG 5066 stations meet these: cables between two machines.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strait_node::NodeConfig;
use strait_node::config::{PortConfig, PortKind};

use super::{End, MemberId, Topology};

/// Leading bits of the network of a cable.
pub const CABLE_LENGTH: u8 = 30;

/// Where stations take clients (STANAG 5066, Annex A.2.2).
const SIS_PORT: u16 = 5066;

/// Addresses of the cable at one side of a link. 198.18.0.0/15 is for tests of network devices
/// (RFC 2544).
pub fn cable_addresses(link: usize, side: usize) -> [IpAddr; 2] {
    let network = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + (link * 2 + side) as u32 * 4;
    [1, 2].map(|host| Ipv4Addr::from(network + host).into())
}

/// A cable between the machines of a client and of its station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The link that goes by the station: its index in [`Topology::links`].
    pub link: usize,
    /// The side of that.
    pub side: usize,
    /// The client's port, and the station's.
    pub ends: [End; 2],
    /// By end.
    pub addresses: [IpAddr; 2],
}

impl Topology {
    /// All cables. A client and a station that have one machine need none: they meet where the
    /// node file says, by its loopback interface.
    pub fn cables(&self) -> impl Iterator<Item = Cable> + '_ {
        let links = self.links.iter().enumerate();
        let sides = links.flat_map(|(number, link)| {
            let stations = link.stations.into_iter().flatten();
            let ends = link.ends.into_iter().zip(stations).enumerate();
            ends.map(move |(side, (client, station))| Cable {
                link: number,
                side,
                ends: [client, station],
                addresses: cable_addresses(number, side),
            })
        });
        sides.filter(|cable| cable.ends[0].member != cable.ends[1].member)
    }

    /// Writes into a gateway's node file where its clients and its stations meet others.
    pub fn plug_cables(&self, gateway: MemberId, config: &mut NodeConfig) {
        for cable in self.cables() {
            let station = SocketAddr::new(cable.addresses[1], SIS_PORT);
            for (side, end) in cable.ends.iter().enumerate() {
                let Some(port) = port_of(config, end).filter(|_| end.member == gateway) else {
                    continue;
                };
                match &mut port.kind {
                    PortKind::HfClient(client) if side == 0 => client.server = station,
                    PortKind::Hf(hf) if side == 1 => {
                        if let Some(sis) = &mut hf.sis {
                            (sis.listen, sis.anywhere) = (station, true);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A gateway's port at which something ends.
fn port_of<'a>(config: &'a mut NodeConfig, end: &End) -> Option<&'a mut PortConfig> {
    config.ports.get_mut(end.port?.index().checked_sub(1)?)
}
