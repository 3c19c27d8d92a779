//! Gateways whose ports have radios: the books of whole worlds, with kills, noise and collisions.

use std::path::Path;

use strait_channel::LossCause;
use strait_core::Instant;
use strait_scenario::{Files, Loaded, Scenario};
use strait_sim::{Fault, Options, build, check, run_scenario};

fn load(name: &str) -> Loaded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    match Scenario::load(&folder.join(name)) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_ping_takes_its_two_turns() {
    let loaded = load("hf/serial-modem.toml");
    let outcome = run_scenario(&loaded, &Options::default(), |_, _| ()).unwrap();
    // Each way: turnaround, preamble, one block, its decoding, and the way. The hosts' links add
    // less than a millisecond.
    let turn_s = 0.2 + 0.24 + 0.48 + 0.48 + 0.005;
    for rtt_s in outcome.metric(Scenario::BASE, "ping.rtt_p50_s") {
        assert!(
            (2.0 * turn_s..2.0 * turn_s + 0.001).contains(&rtt_s),
            "{rtt_s}"
        );
    }
    let losses = outcome.metric(Scenario::BASE, "ping.loss");
    assert_eq!(losses, [0.0]);
}

#[test]
fn the_books_of_a_fading_channel_are_right() {
    let loaded = load("hf/fading.toml");
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.run_until(Instant::from_secs(1000));
    assert_eq!(check::violations(world), [""; 0]);
    let (_, stats) = world.links().find(|link| link.0 == "hf").unwrap();
    assert!(stats[0].corrupted_frames > 0, "{stats:?}");
    let outcome = run_scenario(&loaded, &Options::default(), |_, _| ()).unwrap();
    for lost in outcome.metric(Scenario::BASE, "reports.loss") {
        assert!((0.005..0.4).contains(&lost), "{lost}");
    }
}

struct Nothing;

impl Files for Nothing {
    fn read(&self, path: &Path) -> Result<String, String> {
        Err(format!("{} isn't there", path.display()))
    }
}

#[test]
fn books_are_right_with_kills_and_noise() {
    let mut loaded = load("hf/serial-modem.toml");
    loaded.links[0].channel.bit_errors = Some("1e-4".parse().unwrap());
    let mut hashes = Vec::new();
    for seed in [1, 2, 1] {
        let mut built = build(&loaded, Scenario::BASE, seed).unwrap();
        let [a, b] = ["a", "b"].map(|name| built.node(name).unwrap());
        let world = built.world_mut();
        world.keep_fates();
        world.set_check_every(1);
        // In a preamble, in a block, and while nothing is on the air.
        for (at_ms, node) in [(5_300, a), (65_700, b), (105_800, a), (130_000, b)] {
            world.plan(Instant::from_millis(at_ms), Fault::Kill(node));
            let again = Instant::from_millis(at_ms + 3000);
            world.plan(again, Fault::Restart(node));
        }
        for part in 1..=60 {
            world.run_until(Instant::from_secs(part * 5));
            assert_eq!(
                check::violations(world),
                [""; 0],
                "seed {seed}, part {part}"
            );
        }
        hashes.push(world.hash());
    }
    assert_eq!(hashes[0], hashes[2]);
    assert_ne!(hashes[0], hashes[1]);
}

/// Two stations that have something to say at the same moments.
const NET: &str = r#"
    name = "net"
    duration = "120 s"
    [[node]]
    name = "a"
    [node.config]
    name = "a"
    host = { addresses = ["10.1.0.1/24"] }
    port = [{ name = "modem", kind = "serial", baud = 2400 }]
    [[node]]
    name = "b"
    [node.config]
    name = "b"
    host = { addresses = ["10.2.0.1/24"] }
    port = [{ name = "modem", kind = "serial", baud = 2400 }]
    [[host]]
    name = "ha"
    behind = "a"
    addresses = ["10.1.0.2/24"]
    [[host]]
    name = "hb"
    behind = "b"
    addresses = ["10.2.0.2/24"]
    [[link]]
    between = ["a.modem", "b.modem"]
    channel = { kind = "hf", rate = "2400 bit/s", hf = { keyed_by = "data" } }
    [[traffic]]
    name = "there"
    kind = "udp"
    family = 4
    from = "ha"
    to = "hb"
    stop = "100 s"
    payload = "100 B"
    rate = "270 bit/s"
    [[traffic]]
    name = "back"
    kind = "udp"
    family = 4
    from = "hb"
    to = "ha"
    stop = "100 s"
    payload = "100 B"
    rate = "310 bit/s"
"#;

#[test]
fn who_begins_at_once_collides_and_the_books_say_so() {
    let loaded = Scenario::load_text(&Nothing, Path::new("net.toml"), NET).unwrap();
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.run_until(Instant::from_secs(120));
    assert_eq!(check::violations(world), [""; 0]);
    let stats = world.links().find(|link| link.0 == "modem").unwrap().1;
    let lost = stats.map(|way| way.lost(LossCause::Collision));
    // Both have their first packet at the same moment. Afterwards they hear each other.
    assert!(lost[0] > 0 && lost[1] > 0, "{lost:?}");
    assert!(
        stats.iter().all(|way| way.lost_frames() < way.frames / 3),
        "{stats:?}"
    );
}
