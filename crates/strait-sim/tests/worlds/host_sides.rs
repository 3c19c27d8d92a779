//! Gateways with several host sides, in whole scenarios.

use std::path::Path;

use strait_core::{Instant, PortId};
use strait_scenario::{DiskFiles, Loaded, Scenario};
use strait_sim::{Fault, build, check, run_once};

fn two_hosts() -> Loaded {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/two-hosts.toml");
    Scenario::load(&file).unwrap()
}

/// A ship whose crew and operations are both behind TUN interfaces of its machine. A service
/// listens at the address of operations, and takes datagrams at the crew's.
const SHIP: &str = r#"
name = "ship"
about = "A ship."
duration = "30 s"
seed = 1
[[node]]
name = "ship"
[node.config]
name = "ship"
[[node.config.host]]
addresses = ["10.8.0.1/32"]
routes = ["10.3.0.0/24"]
[[node.config.host]]
name = "ops"
interface = "strait1"
addresses = ["10.9.0.1/32"]
routes = ["10.1.0.0/24", "10.2.0.0/24"]
[[node.config.port]]
name = "line"
kind = "serial"
baud = 19200
[[node.config.route]]
prefix = "10.1.0.0/24"
port = "host"
[[node.config.route]]
prefix = "10.3.0.0/24"
port = "ops"
[node.config.echo]
listen = "10.9.0.1:7"
datagrams = "10.8.0.1:7"
[[node]]
name = "shore"
[node.config]
name = "shore"
[node.config.host]
[[node.config.port]]
name = "line"
kind = "serial"
baud = 19200
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
[[host]]
name = "office"
behind = "shore"
addresses = ["10.2.0.2/24"]
[[link]]
between = ["ship.line", "shore.line"]
channel = { kind = "serial", baud = 19200, framing = "8N1" }
"#;

/// It, with echoes for each of these hosts.
fn echoes(hosts: &[&str]) -> Loaded {
    let traffic = |host: &&str| {
        format!(
            "[[traffic]]\nname = \"{host}\"\nkind = \"echo\"\nfamily = 4\nfrom = \"{host}\"\n\
             to = \"ship\"\nstart = \"2 s\"\noctets = \"2 kB\"\n\
             [[traffic]]\nname = \"{host}-asks\"\nkind = \"echo\"\nfamily = 4\nfrom = \"{host}\"\n\
             to = \"ship\"\nstart = \"3 s\"\nstop = \"9 s\"\n"
        )
    };
    let traffic: String = hosts.iter().map(traffic).collect();
    let text = format!("{SHIP}{traffic}");
    Scenario::load_text(&DiskFiles, Path::new("ship.toml"), &text).unwrap()
}

#[test]
fn the_books_of_a_ship_with_two_networks_are_in_order() {
    let loaded = two_hosts();
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let ship = built.node("ship").unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(1);
    // Killed with its interfaces, it leads its host again.
    world.plan(Instant::from_secs(20), Fault::Kill(ship));
    world.plan(Instant::from_secs(22), Fault::Restart(ship));
    for part in 1..=8 {
        world.run_until(Instant::from_secs(5 * part));
        assert_eq!(check::violations(world), [""; 0]);
    }
    assert_eq!(world.led(ship).count(), 4);
    assert!(world.led(ship).all(|route| route.lead.port == PortId(2)));
}

#[test]
fn a_kernel_answers_by_all_host_sides() {
    let hosts = ["cook", "mate", "boatswain", "office"];
    let run = run_once(&echoes(&hosts), Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    for host in hosts {
        assert_eq!(run.metrics[&format!("{host}.complete")], 1.0, "{host}");
        assert_eq!(run.metrics[&format!("{host}-asks.loss")], 0.0, "{host}");
        // Who is aboard doesn't go by the line.
        let time = run.metrics[&format!("{host}.time_s")];
        assert_eq!(time < 0.01, host != "office", "{host}: {time} s");
    }
}

#[test]
fn what_a_kernel_says_goes_by_the_side_that_leads_there() {
    let loaded = echoes(&["office"]);
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let ship = built.node("ship").unwrap();
    built.world_mut().run_until(Instant::from_secs(20));
    let (lives, _) = built.world().lives(ship);
    let stats = lives[0];
    let ports: Vec<_> = stats.ports.iter().map(|port| &*port.name).collect();
    assert_eq!(ports, ["host", "line", "ops"]);
    // All answers, although datagrams came by the first.
    let came = |port: usize| stats.ports[port].frames_in;
    assert_eq!(came(0), 0);
    assert!(came(2) >= 6, "{}", came(2));
    assert!(stats.ports[0].frames_out >= 6);
}
