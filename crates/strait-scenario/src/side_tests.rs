//! Hosts at the host sides of a gateway that has several.

use std::path::Path;

use strait_core::PortId;
use strait_node::config_text::ConfigError;

use super::*;
use crate::topology::{Topology, Via};

const SHIP: &str = r#"name = "ship"
about = "A ship."
duration = "1 s"
seed = 1
[[node]]
name = "ship"
[[node.config.host]]
kind = "tap"
addresses = ["10.1.0.1/24"]
[[node.config.host]]
name = "ops"
interface = "strait1"
addresses = ["10.9.0.1/32"]
[[node.config.port]]
name = "line"
kind = "serial"
baud = 9600
[[host]]
name = "cook"
behind = "ship"
addresses = ["10.1.0.2/24"]
[[host]]
name = "mate"
behind = "ship.ops"
addresses = ["10.3.0.2/24"]
[[host]]
name = "boatswain"
behind = "ship.ops"
addresses = ["10.3.0.3/24"]
[[router]]
name = "r"
"#;

fn load(text: &str) -> Result<Loaded, ConfigError> {
    Scenario::load_text(&DiskFiles, Path::new("x.toml"), text)
}

#[test]
fn each_host_side_has_a_lan_of_its_own() {
    let topology = Topology::new(&load(SHIP).unwrap());
    let lans = topology.lans.iter();
    let lans: Vec<_> = lans.map(|lan| (lan.port, lan.hosts.clone())).collect();
    assert_eq!(lans, [(PortId(0), vec![1]), (PortId(2), vec![2, 3])]);
    let own: Vec<_> = topology.members[0].addresses.iter().collect();
    assert_eq!(own.len(), 2);
    let mate = topology.find("mate").unwrap();
    let routes = topology.members[mate].routes.iter();
    let ways: Vec<_> = routes.map(|route| (route.via, route.next)).collect();
    assert_eq!(ways, [(Via::Lan(1), Some(0)), (Via::Lan(1), None)]);
    // The first by its name, too.
    let named = SHIP.replace("behind = \"ship\"\n", "behind = \"ship.host\"\n");
    assert_eq!(Topology::new(&load(&named).unwrap()), topology);
}

#[test]
fn a_host_is_behind_what_there_is() {
    let error = |behind: &str| {
        let text = SHIP.replace("behind = \"ship\"\n", &format!("behind = \"{behind}\"\n"));
        load(&text).unwrap_err().to_string()
    };
    assert_eq!(
        error("ship.op"),
        "x.toml:20: `behind` in [[host]]: no host side `op`; did you mean `ops`? (host sides: \
         `host`, `ops`)"
    );
    assert!(error("shop.ops").contains("no node `shop`; did you mean `ship`?"));
    // A link has no hosts, nor has a router sides.
    assert!(error("ship.line").contains("no host side `line`"));
    assert!(error("r.ops").contains("no host side `ops`"));
}

#[test]
fn the_machine_of_a_gateway_has_one_tun_interface() {
    let link = "[[link]]\nbetween = [\"ship.host\", \"r\"]\n\
                channel = { kind = \"frames\", rate = \"9600 bit/s\" }\n";
    let text = format!("{SHIP}{link}");
    assert_eq!(load(&text).err(), None);
    let several = text.replace("kind = \"tap\"\n", "");
    let error = load(&several).unwrap_err().to_string();
    assert!(
        error.contains("if one host side of the gateway is of kind \"tun\""),
        "{error}"
    );
}
