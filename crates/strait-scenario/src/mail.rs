//! The message switches of gateways, as a traffic uses them.

use std::net::{IpAddr, SocketAddr};

use strait_core::Duration;
use strait_node::NodeConfig;
use strait_traffic::{Family, Traffic, TrafficConfig};

use crate::Loaded;

/// Where a traffic's message is brought to, and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// The switch of the gateway that the host is behind, outside that one's own machine.
    pub switch: SocketAddr,
    /// Who hears of failures: the first mailbox there, or nobody.
    pub sender: String,
    /// The first mailbox of the gateway that it is for; at a host, the one of the traffic's name.
    pub recipient: String,
    /// The host's server, if it is for one.
    pub server: Option<MailServer>,
}

/// A host's server of mailboxes: who a route of a gateway's switch leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// It speaks LMTP, not SMTP.
    pub lmtp: bool,
    /// Its mailboxes, by the part before the `@`, with how long a message takes to be stored there:
    /// one for each traffic that is for them.
    pub boxes: Vec<(String, Duration)>,
}

/// How one of a scenario's traffics goes: `to` is a gateway with a mailbox, or a host that a
/// gateway's route leads to.
pub fn post(loaded: &Loaded, traffic: &[TrafficConfig], config: &TrafficConfig) -> Option<Post> {
    let hosts = &loaded.scenario.hosts;
    let host = hosts.iter().find(|it| it.name == config.from)?;
    let near = node(loaded, &host.place()?.node)?.mail()?;
    let ipv4 = config.family == Family::V4;
    let mut sockets = near.listen.iter();
    let switch = sockets.find(|it| it.is_ipv4() == ipv4 && !it.ip().is_loopback())?;
    let (recipient, server) = match hosts.iter().find(|it| it.name == config.to) {
        Some(far) => {
            let addresses: Vec<IpAddr> = far.addresses.iter().map(|it| it.address).collect();
            let (domain, server) = server(loaded, traffic, &config.to, &addresses)?;
            (format!("{}@{domain}", config.name), Some(server))
        }
        None => {
            let far = node(loaded, &config.to)?.mail()?;
            (far.mailboxes.first()?.clone(), None)
        }
    };
    Some(Post {
        switch: *switch,
        sender: near.mailboxes.first().cloned().unwrap_or_default(),
        recipient,
        server,
    })
}

fn node<'a>(loaded: &'a Loaded, name: &str) -> Option<&'a NodeConfig> {
    let node = loaded.nodes.iter().find(|node| node.name == name);
    node.map(|node| &node.config)
}

/// The server of the host `name`, and a domain whose mail goes there.
fn server(
    loaded: &Loaded,
    traffic: &[TrafficConfig],
    name: &str,
    addresses: &[IpAddr],
) -> Option<(String, MailServer)> {
    let switches = loaded.nodes.iter().filter_map(|node| node.config.mail());
    let mut routes = switches.flat_map(|mail| &mail.routes);
    let (domain, hop, port) = routes.find_map(|route| {
        let domain = route.domains.iter().find(|domain| *domain != ".")?;
        let mut hops = std::iter::once(&route.first).chain(&route.next);
        let hop = hops.find(|hop| addresses.contains(&hop.to))?;
        Some((domain, hop, hop.port?))
    })?;
    let boxes = traffic.iter().filter(|it| it.to == name);
    let boxes = boxes.filter_map(|it| match it.what {
        Traffic::Mail { pause, .. } => Some((it.name.to_lowercase(), pause)),
        _ => None,
    });
    let server = MailServer {
        address: SocketAddr::new(hop.to, port),
        lmtp: hop.lmtp,
        boxes: boxes.collect(),
    };
    Some((domain.clone(), server))
}
