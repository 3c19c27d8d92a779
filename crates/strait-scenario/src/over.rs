//! Links whose medium is other gateways: do their parts fit each other?

use std::collections::BTreeSet;

use strait_node::config::PortKind;
use strait_node::config_text::ConfigError;

use crate::load::Source;
use crate::{HostEntry, Link, Loaded};

/// A link over two hosts needs `udp` ports that have no other link, and hosts that are nothing
/// else, each behind a gateway that isn't an end itself, with addresses of one family.
pub(super) fn check(source: &Source<'_>, loaded: &Loaded) -> Result<(), ConfigError> {
    let mut taken = BTreeSet::new();
    for (index, link) in loaded.links.iter().enumerate() {
        let Some(over) = &link.over else { continue };
        ports(source, loaded, index, link)?;
        let mut hosts = Vec::new();
        for (end, name) in over.iter().enumerate() {
            let path = format!("link.{index}.over.{end}");
            let wrong = |message: String| Err(source.error(&path, &message));
            let mut entries = loaded.scenario.hosts.iter();
            let Some(host) = entries.find(|host| host.name == *name) else {
                let hosts = loaded.scenario.hosts.iter();
                let valid: Vec<&str> = hosts.map(|host| host.name.as_str()).collect();
                return Err(source.unknown(&path, "host", name, &valid));
            };
            if !taken.insert(name) {
                return wrong(format!("`{name}` carries another end already"));
            }
            let mut traffic = loaded.scenario.traffic.iter();
            if let Some(user) = traffic.find(|it| it.from == *name || it.to == *name) {
                return wrong(format!("traffic `{}` ends at `{name}`", user.name));
            }
            let gateway = |node: &String| loaded.nodes.iter().any(|it| it.name == *node);
            let behind = host.place().map(|place| place.node).filter(gateway);
            if behind.is_none_or(|node| link.ends.iter().any(|end| end.node == node)) {
                let message = format!("`{name}` has to be behind a gateway that is no end itself");
                return wrong(message);
            }
            hosts.push(host);
        }
        let both = |ipv4: bool| hosts.iter().all(|host| has(host, ipv4));
        if !both(false) && !both(true) {
            let message = "the hosts have no addresses of one family";
            return Err(source.error(&format!("link.{index}.over"), message));
        }
    }
    Ok(())
}

fn ports(
    source: &Source<'_>,
    loaded: &Loaded,
    index: usize,
    link: &Link,
) -> Result<(), ConfigError> {
    for (end, other) in link.ends.iter().enumerate() {
        let path = format!("link.{index}.between.{end}");
        let node = loaded.nodes.iter().find(|node| node.name == other.node);
        let port = node.and_then(|node| {
            let mut ports = node.config.ports.iter();
            ports.find(|port| Some(&port.name) == other.port.as_ref())
        });
        if !port.is_some_and(|port| matches!(port.kind, PortKind::Udp(_))) {
            return Err(source.error(&path, "a link over hosts ends at ports of kind `udp`"));
        }
        let ends = loaded.links.iter().flat_map(|link| &link.ends);
        if ends.filter(|it| *it == other).count() > 1 {
            let message = "a port with a link over hosts has no other link";
            return Err(source.error(&path, message));
        }
    }
    Ok(())
}

fn has(host: &HostEntry, ipv4: bool) -> bool {
    let mut addresses = host.addresses.iter();
    addresses.any(|prefix| prefix.address.is_ipv4() == ipv4)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::topology::Topology;
    use crate::{DiskFiles, Scenario};

    fn nested() -> String {
        let node = |name: &str, port: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\nconfig = {{ name = \"{name}\", host = {{}}, \
                 port = [{{ name = \"p\", {port} }}] }}\n"
            )
        };
        let host = |name: &str, behind: &str, net: u8| {
            format!(
                "[[host]]\nname = \"{name}\"\nbehind = \"{behind}\"\n\
                 addresses = [\"10.{net}.0.2/24\", \"fd00:{net}::2/64\"]\n"
            )
        };
        let udp = "kind = \"udp\"";
        let serial = "kind = \"serial\", baud = 9600";
        let parts = [
            "name = \"nested\"\nabout = \"Nested.\"\nduration = \"1 s\"\nseed = 1\n".to_owned(),
            node("x", udp) + &node("y", udp) + &node("c", serial) + &node("d", serial),
            host("ha", "x", 1) + &host("hb", "y", 2) + &host("hx", "c", 3) + &host("hy", "d", 4),
            "[[link]]\nname = \"inner\"\nbetween = [\"x.p\", \"y.p\"]\nover = [\"hx\", \"hy\"]\n"
                .to_owned(),
            "[[link]]\nname = \"outer\"\nbetween = [\"c.p\", \"d.p\"]\n\
             channel = { kind = \"serial\", baud = 9600, framing = \"8N1\" }\n"
                .to_owned(),
            "[[traffic]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"ha\"\nto = \"hb\"\n\
             period = \"1 s\"\n"
                .to_owned(),
        ];
        parts.concat()
    }

    fn error(from: &str, to: &str) -> String {
        let text = nested();
        assert!(text.contains(from), "{from}");
        let text = text.replace(from, to);
        let loaded = Scenario::load_text(&DiskFiles, Path::new("x.toml"), &text);
        loaded.expect_err("an error").to_string()
    }

    #[test]
    fn a_link_over_hosts_has_sockets_at_their_addresses() {
        let loaded = Scenario::load_text(&DiskFiles, Path::new("x.toml"), &nested()).unwrap();
        let topology = Topology::new(&loaded);
        let sockets = topology.links[0].sockets(&topology.members).unwrap();
        let sockets = sockets.map(|socket| socket.to_string());
        assert_eq!(sockets, ["[fd00:3::2]:7001", "[fd00:4::2]:7001"]);
        assert_eq!(topology.links[1].over, None);
        let again = Scenario::load_text(&DiskFiles, Path::new("x.toml"), &loaded.resolved_text());
        assert_eq!(again.unwrap().links, loaded.links);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (from, to, what) in [
            ("\"hx\", \"hy\"]", "\"hx\", \"hz\"]", "`hz`"),
            ("\"hx\", \"hy\"]", "\"hx\", \"hx\"]", "another end already"),
            (
                "\"hx\", \"hy\"]",
                "\"ha\", \"hy\"]",
                "traffic `ping` ends at",
            ),
            ("behind = \"c\"", "behind = \"x\"", "behind a gateway"),
            (
                "between = [\"x.p\", \"y.p\"]",
                "between = [\"c.p\", \"y.p\"]",
                "is of kind `serial`",
            ),
            (
                "over = [\"hx\", \"hy\"]\n",
                "over = [\"hx\", \"hy\"]\nfile = \"x.toml\"\n",
                "one of `file`",
            ),
            ("over = [\"hx\", \"hy\"]\n", "", "one of `file`"),
        ] {
            let message = error(from, to);
            assert!(message.contains(what), "{message}");
        }
    }
}
