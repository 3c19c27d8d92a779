//! The message switches of gateways, as a traffic uses them.

use std::net::SocketAddr;

use strait_node::NodeConfig;
use strait_traffic::{Family, TrafficConfig};

use crate::Loaded;

/// Where a traffic's message is brought to, and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// The switch of the gateway that the host is behind, outside that one's own machine.
    pub switch: SocketAddr,
    /// Who hears of failures: the first mailbox there, or nobody.
    pub sender: String,
    /// The first mailbox of the gateway that it is for.
    pub recipient: String,
}

/// How a traffic's message goes: `to` is a gateway with a mailbox.
pub fn post(loaded: &Loaded, config: &TrafficConfig) -> Option<Post> {
    let node = |name: &str| {
        let node = loaded.nodes.iter().find(|node| node.name == name);
        node.map(|node| &node.config)
    };
    let host = loaded
        .scenario
        .hosts
        .iter()
        .find(|it| it.name == config.from)?;
    let near = node(&host.place()?.node)?.mail()?;
    let ipv4 = config.family == Family::V4;
    let mut sockets = near.listen.iter();
    let switch = sockets.find(|it| it.is_ipv4() == ipv4 && !it.ip().is_loopback())?;
    let far = node(&config.to).and_then(NodeConfig::mail)?;
    Some(Post {
        switch: *switch,
        sender: near.mailboxes.first().cloned().unwrap_or_default(),
        recipient: far.mailboxes.first()?.clone(),
    })
}
