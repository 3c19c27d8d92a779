//! Links of ports that send IP packets with a protocol number of their own: do their ends fit?

use strait_node::NodeConfig;
use strait_node::config::PortConfig;
use strait_node::config_text::ConfigError;

use crate::Loaded;
use crate::load::Source;

/// A link with such a port at one end has one with the same number at the other, and addresses of
/// one family. `configs` are those of the gateways, in their order, under one variant.
pub(super) fn check(
    source: &Source<'_>,
    loaded: &Loaded,
    configs: &[NodeConfig],
) -> Result<(), ConfigError> {
    for (index, link) in loaded.links.iter().enumerate() {
        let ports = link.ends.each_ref().map(|end| {
            let node = loaded.nodes.iter().position(|node| node.name == end.node)?;
            let mut ports = configs.get(node)?.ports.iter();
            ports.find(|port| Some(&port.name) == end.port.as_ref())
        });
        let number = |port: Option<&PortConfig>| port?.ip_protocol();
        let numbers = ports.map(number);
        if numbers == [None, None] {
            continue;
        }
        let wrong = |key: &str, message: &str| {
            let path = format!("{}.{key}", link.place(index));
            Err(source.error(&path, message))
        };
        if numbers[0] != numbers[1] {
            let message = "both ends have to be ports of kind `ip` with one protocol number";
            return wrong("between", message);
        }
        let entry = loaded.scenario.links.get(index);
        let Some([a, b]) = entry.and_then(|entry| entry.addresses) else {
            let message = "ports of kind `ip` need `addresses` at the link, one for each end";
            return wrong("between", message);
        };
        if a.address.is_ipv4() != b.address.is_ipv4() {
            return wrong("addresses", "must be of one family");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{DiskFiles, Scenario};

    fn error(ports: [&str; 2], link: &str) -> Option<String> {
        let node = |name: &str, port: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\nconfig = {{ name = \"{name}\", host = {{}}, \
                 port = [{{ name = \"p\", {port} }}] }}\n"
            )
        };
        let text = [
            "name = \"raw\"\nabout = \"Raw.\"\nduration = \"1 s\"\nseed = 1\n".to_owned(),
            node("x", ports[0]) + &node("y", ports[1]),
            format!(
                "[[link]]\nname = \"l\"\nbetween = [\"x.p\", \"y.p\"]\n{link}\n\
                 channel = {{ kind = \"frames\", rate = \"8 kbit/s\" }}\n"
            ),
        ];
        let loaded = Scenario::load_text(&DiskFiles, Path::new("x.toml"), &text.concat());
        loaded.err().map(|error| error.to_string())
    }

    #[test]
    fn both_ends_are_of_one_kind_number_and_family() {
        let ip = "kind = \"ip\"";
        let four = "addresses = [\"10.255.0.1/30\", \"10.255.0.2/30\"]";
        assert_eq!(error([ip, ip], four), None);
        let other = "kind = \"ip\", protocol = 254";
        for (ports, link, what) in [
            ([ip, "kind = \"udp\""], four, "of kind `ip`"),
            ([ip, other], four, "one protocol number"),
            ([ip, ip], "", "need `addresses`"),
            (
                [ip, ip],
                "addresses = [\"10.255.0.1/30\", \"fd00::2/64\"]",
                "one family",
            ),
        ] {
            let message = error(ports, link).expect("an error");
            assert!(message.contains(what), "{message}");
        }
    }
}
