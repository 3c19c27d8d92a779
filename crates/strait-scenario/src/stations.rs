//! Links whose medium is stations of STANAG 5066: do their parts fit each other?

use std::collections::BTreeSet;

use strait_node::config::PortConfig;
use strait_node::config_text::ConfigError;

use crate::load::Source;
use crate::{LinkEnd, Loaded};

/// A link by stations needs `hf-client` ports that have no other link, each with a station of its
/// own that takes clients and leaves the access points of packets to them.
pub(super) fn check(source: &Source<'_>, loaded: &Loaded) -> Result<(), ConfigError> {
    let mut taken = BTreeSet::new();
    for (index, link) in loaded.links.iter().enumerate() {
        for (end, client) in link.ends.iter().enumerate() {
            let path = link.place_of_end(index, end);
            let is_client = port(loaded, client).is_some_and(|it| it.client().is_some());
            if is_client != link.stations.is_some() {
                let message = match is_client {
                    true => "a port of kind `hf-client` needs the link's `stations`",
                    false => "a link by stations ends at ports of kind `hf-client`",
                };
                return Err(source.error(&path, message));
            }
        }
        for (end, station) in link.stations.iter().flatten().enumerate() {
            let path = format!("link.{index}.stations.{end}");
            let found = port(loaded, station).and_then(PortConfig::hf);
            let Some(hf) = found else {
                let message = "names no port of kind `hf`: NODE.PORT";
                return Err(source.error(&path, message));
            };
            if hf.sis.is_none() || hf.ip_client {
                let message = "the station needs hf = { sis = {}, ip_client = false }";
                return Err(source.error(&path, message));
            }
            if !taken.insert((&station.node, &station.port)) {
                return Err(source.error(&path, "the station has a client already"));
            }
        }
    }
    Ok(())
}

fn port<'a>(loaded: &'a Loaded, end: &LinkEnd) -> Option<&'a PortConfig> {
    let node = loaded.nodes.iter().find(|node| node.name == end.node)?;
    let mut ports = node.config.ports.iter();
    ports.find(|port| Some(&port.name) == end.port.as_ref())
}
