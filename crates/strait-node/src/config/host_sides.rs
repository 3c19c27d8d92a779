//! The host sides of a node file: `[host]`, or several as `[[host]]`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::iter;
use core::net::IpAddr;
use core::ops::{Deref, DerefMut};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use strait_core::PortId;
use strait_core::prefix::Prefix;
use strait_wire::ethernet::Mac;

use super::{HostConfig, HostKind, InvalidConfig, NodeConfig, Routing, invalid};
use crate::route::is_of_the_link;

/// All host sides of a gateway, at least one. Where one is spoken of, it is the first.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSides {
    /// Port 0.
    pub first: HostConfig,
    /// Their ports have the numbers behind the links'.
    pub further: Vec<HostConfig>,
}

impl Deref for HostSides {
    type Target = HostConfig;

    fn deref(&self) -> &HostConfig {
        &self.first
    }
}

impl DerefMut for HostSides {
    fn deref_mut(&mut self) -> &mut HostConfig {
        &mut self.first
    }
}

impl From<HostConfig> for HostSides {
    fn from(first: HostConfig) -> Self {
        let further = Vec::new();
        Self { first, further }
    }
}

impl Serialize for HostSides {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.further.is_empty() {
            return self.first.serialize(serializer);
        }
        serializer.collect_seq(self.all())
    }
}

impl<'de> Deserialize<'de> for HostSides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrSeveral)
    }
}

struct OneOrSeveral;

impl<'de> Visitor<'de> for OneOrSeveral {
    type Value = HostSides;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table [host], or several [[host]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HostSides, A::Error> {
        HostConfig::deserialize(MapAccessDeserializer::new(map)).map(HostSides::from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<HostSides, A::Error> {
        let first = seq.next_element()?;
        let first = first.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let further = iter::from_fn(|| seq.next_element().transpose());
        let further = further.collect::<Result<_, _>>()?;
        Ok(HostSides { first, further })
    }
}

impl HostSides {
    /// Host sides that a gateway may have: each packet that comes by a link is compared with the
    /// networks of all.
    pub const MAX: usize = 8;

    /// All of them in order.
    pub fn all(&self) -> impl Iterator<Item = &HostConfig> + Clone {
        iter::once(&self.first).chain(&self.further)
    }

    /// The same, to change them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut HostConfig> {
        iter::once(&mut self.first).chain(&mut self.further)
    }

    /// All addresses of the gateway.
    pub fn own(&self) -> impl Iterator<Item = IpAddr> {
        let own = self.all().flat_map(|side| &side.addresses);
        own.map(|own| own.address)
    }

    /// Checks each, and that no two are in each other's way.
    pub(super) fn validate(&self) -> Result<(), InvalidConfig> {
        self.first.validate("[host]")?;
        if self.further.len() >= Self::MAX {
            return Err(invalid("[[host]]", format!("more than {}", Self::MAX)));
        }
        for (index, side) in self.further.iter().enumerate() {
            let Some(name) = &side.name else {
                let place = format!("[[host]] {} name", index + 1);
                let message = "needed: routes and scenarios name a further host side by it";
                return Err(invalid(place, message));
            };
            let place = format!("[[host]] {name}");
            side.validate(&place)?;
            let before = self.all().take(index + 1);
            for other in before {
                side.fits_beside(other, &place)?;
            }
        }
        Ok(())
    }
}

impl HostConfig {
    /// What a host side is called that has no name of its own.
    pub const NAME: &str = "host";

    /// The name of its port.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(Self::NAME)
    }

    /// Whether names, interfaces and networks are others than those of `other`.
    fn fits_beside(&self, other: &Self, place: &str) -> Result<(), InvalidConfig> {
        let shared = |mine: &[Prefix], theirs: &[Prefix]| {
            let is_there = |mine: &&Prefix| {
                let mut theirs = theirs.iter();
                let same = theirs.any(|it| it.network() == mine.network());
                same && !is_of_the_link(mine.address)
            };
            mine.iter().find(is_there).map(Prefix::to_string)
        };
        let own = |side: &Self, address: IpAddr| {
            let mut all = side.addresses.iter();
            all.any(|it| it.address == address && !is_of_the_link(address))
        };
        let twice = || {
            let mut mine = self.addresses.iter();
            let found = mine.find(|it| own(other, it.address));
            found.map(Prefix::to_string)
        };
        let same = |mine: &str, theirs: &str| (mine == theirs).then(|| mine.to_string());
        let bridges = self.bridge.as_deref().zip(other.bridge.as_deref());
        let clashes = [
            ("name", same(self.name(), other.name())),
            ("interface", same(&self.interface, &other.interface)),
            (
                "bridge",
                bridges.and_then(|(mine, theirs)| same(mine, theirs)),
            ),
            ("addresses", shared(&self.addresses, &other.addresses)),
            ("addresses", twice()),
            ("networks", shared(&self.networks, &other.networks)),
            ("routes", shared(&self.routes, &other.routes)),
        ];
        for (key, clash) in clashes {
            if let Some(clash) = clash {
                let message = format!("`{clash}` is of the host side `{}`", other.name());
                return Err(invalid(format!("{place} {key}"), message));
            }
        }
        Ok(())
    }
}

impl NodeConfig {
    /// Names of all ports, host sides first.
    pub fn port_names(&self) -> impl Iterator<Item = &str> {
        let sides = self.host_sides().map(|(_, side)| side.name());
        sides.chain(self.ports.iter().map(|port| port.name.as_str()))
    }

    /// The host sides with their ports: 0, and the numbers behind the links'.
    pub fn host_sides(&self) -> impl Iterator<Item = (PortId, &HostConfig)> + Clone {
        let links = self.ports.len();
        let number = move |side: usize| if side == 0 { 0 } else { links + side };
        let sides = self.host.all().enumerate();
        sides.map(move |(side, host)| (PortId(number(side) as u8), host))
    }

    /// The host side at a port.
    pub fn host_side(&self, port: PortId) -> Option<&HostConfig> {
        let mut sides = self.host_sides();
        sides.find(|(id, _)| *id == port).map(|(_, side)| side)
    }

    /// The port of the host side with a name.
    pub fn host_port(&self, name: &str) -> Option<PortId> {
        let mut sides = self.host_sides();
        let found = sides.find(|(_, side)| side.name() == name);
        found.map(|(port, _)| port)
    }

    /// The station of the TAP at a port: of the first host side by the node's name, of others by
    /// both names.
    pub fn station_at(&self, port: PortId) -> Option<Mac> {
        let side = self.host_side(port)?;
        if port == PortId::HOST {
            return Some(side.station(&self.name));
        }
        let name = format!("{}.{}", self.name, side.name());
        Some(side.station(&name))
    }

    /// Checks the host sides beside all else.
    pub(super) fn validate_host_sides(&self) -> Result<(), InvalidConfig> {
        self.host.validate()?;
        for side in self.host.all() {
            let taken = self.ports.iter().any(|port| port.name == side.name());
            if let Some(name) = side.name.as_ref().filter(|_| taken) {
                let place = format!("[[host]] {name} name");
                return Err(invalid(place, "is the name of a [[port]]: choose another"));
            }
        }
        if self.routing == Routing::Kernel && !self.host.further.is_empty() {
            let message = "follows the routing table of one host side: remove further [[host]]";
            return Err(invalid("routing", message));
        }
        Ok(())
    }

    /// Whether several host sides are interfaces of one kernel.
    pub fn has_several_tuns(&self) -> bool {
        let tun = |side: &&HostConfig| side.kind == HostKind::Tun;
        self.host.all().filter(tun).count() > 1
    }
}

/// Whether a host side may have this name: it stands in scenarios behind the node's.
pub(super) fn check_name(place: String, name: &str) -> Result<(), InvalidConfig> {
    let letter = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    if (1..=32).contains(&name.len()) && name.bytes().all(letter) {
        return Ok(());
    }
    let message = "must be 1 to 32 letters, digits, `-` and `_`";
    Err(invalid(place, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_text::parse;

    const LINE: &str = "[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n";

    fn node(hosts: &str) -> Result<NodeConfig, crate::config_text::ConfigError> {
        parse("a.toml", &format!("name = \"a\"\n{hosts}\n{LINE}"))
    }

    fn complaint(hosts: &str) -> Option<String> {
        let checked = node(hosts).unwrap().validate();
        checked.err().map(|error| error.to_string())
    }

    /// A second host side with these keys.
    fn second(first: &str, keys: &str) -> Option<String> {
        let ops = "name = \"ops\"\ninterface = \"strait1\"";
        complaint(&format!("[[host]]\n{first}\n[[host]]\n{ops}\n{keys}"))
    }

    #[test]
    fn one_table_is_one_host_side_and_an_array_is_several() {
        let one = node("[host]\nmtu = 1400").unwrap();
        assert_eq!((one.host.first.mtu.0, one.host.all().count()), (1400, 1));
        assert_eq!(node("[[host]]\nmtu = 1400").unwrap(), one);
        let several = node("[[host]]\n[[host]]\nname = \"ops\"\n[[host]]\nname = \"x\"").unwrap();
        let sides = several
            .host_sides()
            .map(|(port, side)| (port.0, side.name()));
        assert!(sides.eq([(0, "host"), (2, "ops"), (3, "x")]));
        assert_eq!(several.host_port("x"), Some(PortId(3)));
        assert_eq!(several.host_port("line"), None);
    }

    #[test]
    fn errors_in_any_host_side_have_their_lines() {
        let wrong = node("[[host]]\n[[host]]\nname = \"ops\"\ninterfaces = \"x\"").unwrap_err();
        let text = wrong.to_string();
        let start = "a.toml:5: unknown key `interfaces` in [[host]]; did you mean `interface`?";
        assert!(text.starts_with(start), "{text}");
        let wrong = node("[[host]]\n[[host]]\nmtu = true").unwrap_err();
        assert_eq!((wrong.line, wrong.path.as_str()), (Some(4), "host.1.mtu"));
        for none in ["host = []", "host = 7", ""] {
            assert!(node(none).is_err(), "{none}");
        }
    }

    #[test]
    fn host_sides_differ_in_all_that_the_kernel_tells_them_by() {
        let addresses = "addresses = [\"10.1.0.1/24\", \"fe80::1/64\"]";
        let of = |key: &str, what: &str, of: &str| {
            Some(format!(
                "[[host]] ops {key}: `{what}` is of the host side `{of}`"
            ))
        };
        assert_eq!(second("", ""), None);
        assert_eq!(
            second(addresses, "addresses = [\"10.3.0.1/24\", \"fe80::1/64\"]"),
            None
        );
        let network = second(addresses, "addresses = [\"10.1.0.9/24\"]");
        assert_eq!(network, of("addresses", "10.1.0.9/24", "host"));
        let address = second(addresses, "addresses = [\"10.1.0.1/32\"]");
        assert_eq!(address, of("addresses", "10.1.0.1/32", "host"));
        let networks = second(
            "networks = [\"10.5.0.0/16\"]",
            "networks = [\"10.5.0.0/16\"]",
        );
        assert_eq!(networks, of("networks", "10.5.0.0/16", "host"));
        let routes = second("routes = [\"10.2.0.0/16\"]", "routes = [\"10.2.0.7/16\"]");
        assert_eq!(routes, of("routes", "10.2.0.7/16", "host"));
        assert_eq!(second("name = \"ops\"", ""), of("name", "ops", "ops"));
        let same = second("interface = \"strait1\"\nname = \"crew\"", "");
        assert_eq!(same, of("interface", "strait1", "crew"));
        let bridge = "kind = \"tap\"\nbridge = \"br0\"";
        assert_eq!(second(bridge, bridge), of("bridge", "br0", "host"));
        let line = complaint("[host]\nname = \"line\"");
        let line_is = "[[host]] line name: is the name of a [[port]]: choose another";
        assert_eq!(line.as_deref(), Some(line_is));
    }

    #[test]
    fn further_host_sides_have_names_and_limits() {
        let unnamed = complaint("[[host]]\n[[host]]\ninterface = \"x\"").unwrap();
        assert!(unnamed.starts_with("[[host]] 1 name: needed"), "{unnamed}");
        for name in ["", "a.b", "a b", "é"] {
            let odd = complaint(&format!("[host]\nname = \"{name}\"")).unwrap();
            assert!(odd.starts_with("[host] name: must be"), "{odd}");
        }
        let mtu = second("", "mtu = 1279").unwrap();
        assert_eq!(mtu, "[[host]] ops mtu: must be 1280 to 65535 octets");
        let many = |count: usize| {
            let side = |n| format!("[[host]]\nname = \"h{n}\"\ninterface = \"s{n}\"\n");
            complaint(&(0..count).map(side).collect::<String>())
        };
        assert_eq!(many(HostSides::MAX), None);
        let most = many(HostSides::MAX + 1);
        assert_eq!(most.as_deref(), Some("[[host]]: more than 8"));
    }

    #[test]
    fn routes_lead_to_host_sides_by_their_names() {
        let route = |hosts: &str, port: &str| {
            let route = format!("prefix = \"10.7.0.0/16\"\nport = \"{port}\"");
            complaint(&format!("{hosts}\n[[route]]\n{route}"))
        };
        let two = "[[host]]\nname = \"crew\"\n[[host]]\nname = \"ops\"\ninterface = \"x\"";
        assert_eq!(route(two, "ops"), None);
        assert_eq!(route(two, "crew"), None);
        let lists = route(two, "host").unwrap();
        assert!(
            lists.ends_with("no port `host`; there are: line, crew, ops"),
            "{lists}"
        );
        let kernel = complaint(&format!("routing = \"kernel\"\n{two}")).unwrap();
        assert!(kernel.starts_with("routing: follows"), "{kernel}");
    }
}
