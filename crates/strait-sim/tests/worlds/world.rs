//! What the world does with nodes and ports: kills and restarts, shared ports, captures.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use strait_channel::LinkConfig;
use strait_core::node::{Boot, NodeFactory};
use strait_core::{Duration, Instant, Node};
use strait_node::{GatewayFactory, NodeConfig, config_text};
use strait_scenario::{Files, Loaded, Scenario};
use strait_sim::{Fault, World, build, check};
use strait_wire::pcapng::{Block, Reader, linktype};

struct Nothing;

impl Files for Nothing {
    fn read(&self, path: &Path) -> Result<String, String> {
        Err(format!("{} isn't there", path.display()))
    }
}

fn load(text: &str) -> Loaded {
    match Scenario::load_text(&Nothing, Path::new("test.toml"), text) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    }
}

/// Two gateways over a line of 1200 baud, and datagrams from one side to the other: three times
/// what the line carries.
const LINE: &str = r#"
    name = "line"
    duration = "90 s"
    [[node]]
    name = "a"
    [node.config]
    name = "a"
    host = { addresses = ["10.1.0.1/24"] }
    port = [{ name = "line", kind = "serial", baud = 1200 }]
    policy = { preset = "fifo" }
    [[node]]
    name = "b"
    [node.config]
    name = "b"
    host = { addresses = ["10.2.0.1/24"] }
    port = [{ name = "line", kind = "serial", baud = 1200 }]
    [[host]]
    name = "ha"
    behind = "a"
    addresses = ["10.1.0.2/24"]
    [[host]]
    name = "hb"
    behind = "b"
    addresses = ["10.2.0.2/24"]
    [[link]]
    between = ["a.line", "b.line"]
    channel = { kind = "serial", baud = 1200, framing = "8N1" }
    [[traffic]]
    name = "data"
    kind = "udp"
    family = 4
    from = "ha"
    to = "hb"
    stop = "20 s"
    payload = "70 B"
    rate = "2 kbit/s"
"#;

#[test]
fn a_kill_loses_what_was_held_and_what_came_meanwhile_and_nothing_else() {
    let loaded = load(LINE);
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let [a, ha, hb] = ["a", "ha", "hb"].map(|name| built.node(name).unwrap());
    let world = built.world_mut();
    world.keep_fates();
    let kill_at = Instant::from_millis(10_100);
    world.plan(kill_at, Fault::Kill(a));
    world.plan(Instant::from_millis(12_100), Fault::Restart(a));
    world.run_until(Instant::from_nanos(kill_at.as_nanos() - 1));
    let held = world.lives(a).0[0].held();
    assert!(held > 10, "{held}");
    assert!(world.is_alive(a));
    world.run_until(kill_at);
    assert!(!world.is_alive(a));
    let (lives, crashed) = world.lives(a);
    assert_eq!((lives.len(), crashed), (1, held));
    assert_eq!(lives[0].held(), held);
    world.run_until(Instant::from_secs(90));
    let (lives, crashed) = world.lives(a);
    assert_eq!((lives.len(), crashed), (2, held));
    assert_eq!(lives[1].held(), 0);
    let sent = world.lives(ha).0[0].forwarded;
    let came = world.lives(hb).0[0].delivered;
    let (missed, dropped) = (world.missed(), lives.iter().map(|it| it.dropped.total()));
    // A datagram each 280 ms: seven or eight came while nobody was there.
    assert!((7..=8).contains(&missed), "{missed}");
    assert_eq!(sent, came + held + missed + dropped.sum::<u64>());
    assert_eq!(world.in_flight(), 0);
    assert_eq!(check::violations(world), [""; 0]);
}

/// A factory that keeps what its nodes were booted with.
struct Remembers {
    inner: GatewayFactory,
    boots: Arc<Mutex<Vec<Boot>>>,
}

impl NodeFactory for Remembers {
    fn boot(&self, boot: Boot) -> Box<dyn Node> {
        self.boots.lock().unwrap().push(boot.clone());
        self.inner.boot(boot)
    }
}

#[test]
fn each_life_has_its_own_number_and_chance() {
    let text = "name = \"n\"\n[host]\n[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n";
    let config: NodeConfig = config_text::parse("n.toml", text).unwrap();
    let boots = Arc::new(Mutex::new(Vec::new()));
    let factory = || Remembers {
        inner: GatewayFactory::new(config.clone()).unwrap(),
        boots: boots.clone(),
    };
    let run = |seed| {
        let mut world = World::new(seed);
        let a = world.add_node("a", Box::new(factory()));
        let b = world.add_node("b", Box::new(factory()));
        world.reserve_ports(a, 1);
        world.reserve_ports(b, 1);
        world.join("line", &LinkConfig::serial(9600), a, b).unwrap();
        for second in [1, 3] {
            world.plan(Instant::from_secs(second), Fault::Kill(a));
            world.plan(Instant::from_secs(second + 1), Fault::Restart(a));
        }
        // Who lives isn't started again, and who is dead isn't killed again.
        world.plan(Instant::from_millis(500), Fault::Restart(a));
        world.plan(Instant::from_millis(1500), Fault::Kill(a));
        world.run_until(Instant::from_secs(5));
        assert_eq!(world.lives(a).0.len(), 3);
        assert_eq!(world.lives(b).0.len(), 1);
        std::mem::take(&mut *boots.lock().unwrap())
    };
    let booted = run(1);
    let numbers: Vec<u32> = booted.iter().map(|boot| boot.incarnation).collect();
    assert_eq!(numbers, [0, 0, 1, 2]);
    let mut chances: Vec<_> = booted.iter().map(|boot| boot.entropy).collect();
    let again: Vec<_> = run(1).iter().map(|boot| boot.entropy).collect();
    assert_eq!(chances, again);
    chances.sort();
    chances.dedup();
    assert_eq!(chances.len(), 4);
}

/// A hub with a port for two neighbours, and a datagram to each at the same moment.
const SHARED: &str = r#"
    name = "shared"
    duration = "10 s"
    [[node]]
    name = "hub"
    [node.config]
    name = "hub"
    host = { addresses = ["10.0.0.1/24"] }
    port = [{ name = "radio", kind = "udp", neighbours = [{ name = "n1" }, { name = "n2" }] }]
    route = [
      { prefix = "10.1.0.0/24", port = "radio", via = "n1" },
      { prefix = "10.2.0.0/24", port = "radio", via = "n2" },
    ]
    policy = { preset = "fifo" }
    [[node]]
    name = "n1"
    config = { name = "n1", host = {}, port = [{ name = "up", kind = "udp" }] }
    [[node]]
    name = "n2"
    config = { name = "n2", host = {}, port = [{ name = "up", kind = "udp" }] }
    [[host]]
    name = "h0"
    behind = "hub"
    addresses = ["10.0.0.2/24"]
    [[host]]
    name = "h1"
    behind = "n1"
    addresses = ["10.1.0.2/24"]
    [[host]]
    name = "h2"
    behind = "n2"
    addresses = ["10.2.0.2/24"]
    [[link]]
    name = "m1"
    between = ["hub.radio", "n1.up"]
    channel = { kind = "frames", rate = "8 kbit/s" }
    [[link]]
    name = "m2"
    between = ["hub.radio", "n2.up"]
    channel = { kind = "frames", rate = "8 kbit/s" }
    [[traffic]]
    name = "one"
    kind = "udp"
    family = 4
    from = "h0"
    to = "h1"
    start = "1 s"
    stop = "1001 ms"
    payload = "972 B"
    rate = "8 kbit/s"
    [[traffic]]
    name = "two"
    kind = "udp"
    family = 4
    from = "h0"
    to = "h2"
    start = "1 s"
    stop = "1001 ms"
    payload = "972 B"
    rate = "8 kbit/s"
"#;

#[test]
fn a_shared_port_sends_to_one_neighbour_at_a_time() {
    let loaded = load(SHARED);
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let hosts = ["h1", "h2"].map(|name| built.node(name).unwrap());
    let world = built.world_mut();
    world.keep_fates();
    world.run_until(Instant::from_secs(10));
    let came = hosts.map(|host| {
        let of = |entry: &&check::FateEntry| entry.node == host;
        let all: Vec<_> = world.fates().iter().filter(of).collect();
        assert_eq!(all.len(), 1);
        all[0].record.began
    });
    // 1000 octets of packet, cut and framed: at least a second of line time each, and neither
    // starts before the other is out.
    let between = came[1].since(came[0]);
    assert!(between >= Duration::from_secs(1), "{between:?}");
    assert!(between < Duration::from_millis(1200), "{between:?}");
    let stats: Vec<_> = world.links().take(2).map(|(_, sides)| *sides[0]).collect();
    assert_eq!(stats[0].octets, stats[1].octets);
    assert_eq!(check::violations(world), [""; 0]);
}

#[test]
fn captures_hold_what_was_sent_and_other_tools_read_them() {
    let loaded = load(LINE);
    let run = strait_sim::run_once(&loaded, Scenario::BASE, 1, true).unwrap();
    let names: Vec<&str> = run.captures.keys().map(String::as_str).collect();
    assert_eq!(names, ["a.pcapng", "b.pcapng", "ha.pcapng", "hb.pcapng"]);
    for (name, octets) in &run.captures {
        let node = name.trim_end_matches(".pcapng");
        let stats = run.nodes.iter().find(|it| it.node == node).unwrap();
        let (mut types, mut times) = (Vec::new(), Vec::new());
        let mut packets = vec![0; stats.ports.len()];
        for block in Reader::new(octets) {
            match block.unwrap() {
                Block::Interface(interface) => types.push(interface.linktype),
                Block::Packet(packet) => {
                    packets[packet.interface as usize] += 1;
                    assert_eq!(packet.bytes.len(), packet.original_len as usize);
                    times.push(packet.time_ns.unwrap());
                }
                Block::Section { .. } | Block::Other { .. } => {}
            }
        }
        assert!(times.is_sorted(), "{name}");
        let frames: Vec<u64> = stats.ports.iter().map(|port| port.frames_out).collect();
        assert_eq!(packets, frames, "{name}");
        let own = linktype::USER0;
        assert_eq!(types.contains(&own), node.len() == 1, "{name}: {types:?}");
        read_by_tshark(name, octets);
    }
}

/// `tshark` finds nothing malformed.
fn read_by_tshark(name: &str, octets: &[u8]) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, octets).unwrap();
    let filter = "_ws.malformed || _ws.expert.severity == \"Error\"";
    let mut command = Command::new("tshark");
    let output = command.arg("-r").arg(&file).args(["-Y", filter]).output();
    let output = output.unwrap_or_else(|error| {
        panic!("tshark doesn't start ({error}); `cargo xtask install` installs it")
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    assert!(output.stdout.is_empty(), "{name}: {output:?}");
}

#[test]
fn books_with_pages_missing_are_found_wrong() {
    let loaded = load(LINE);
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.run_until(Instant::from_secs(5));
    world.keep_fates();
    world.run_until(Instant::from_secs(90));
    let wrong = check::violations(world);
    for expected in ["ha, life 0, told", "hb took in", "nobody sent it"] {
        let said = wrong.iter().any(|it| it.contains(expected));
        assert!(said, "{expected}: {wrong:?}");
    }
}
