//! Neighbours of a shared port that are unplugged while others stay.

use std::path::Path;

use strait_core::Instant;
use strait_scenario::{DiskFiles, Loaded, Scenario};
use strait_sim::{Fault, LinkIndex, NodeIndex, World, build, check};

/// Both links of the hub's port are unplugged one after the other, and one is plugged again.
#[test]
fn unplugging_one_neighbour_of_a_port_leaves_the_others_theirs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let loaded = Scenario::load(&folder.join("regressions/shared-port-rounding.toml")).unwrap();
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let hub = built.node("hub").unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(1);
    let links: Vec<String> = world.links().map(|(name, _)| name.to_owned()).collect();
    let link = |name: &str| LinkIndex(links.iter().position(|it| it == name).unwrap());
    let at = Instant::from_secs;
    world.plan(at(10), Fault::Unplug(link("m1")));
    world.plan(at(20), Fault::Unplug(link("m2")));
    world.plan(at(25), Fault::Plug(link("m2")));
    world.plan(at(30), Fault::Plug(link("m1")));
    // By second: frames over each link so far, and whether the hub's port is up.
    let mut seen = Vec::new();
    for second in [10, 20, 25, 30, 40] {
        world.run_until(at(second));
        assert_eq!(check::violations(world), [""; 0]);
        let sent = |name: &str| {
            let mut links = world.links();
            links.find(|(it, _)| *it == name).unwrap().1[0].frames
        };
        let sent = [sent("m1"), sent("m2")];
        seen.push((sent, world.lives(hub).0[0].ports[1].up));
    }
    let grew = |from: usize, link: usize| seen[from + 1].0[link] > seen[from].0[link] + 2;
    // Gone, the other's goes on; both gone, the port is down; one back, the other one waits.
    assert_eq!([grew(0, 0), grew(0, 1)], [false, true], "{seen:?}");
    assert_eq!([grew(1, 0), grew(1, 1)], [false, false], "{seen:?}");
    assert_eq!([grew(2, 0), grew(2, 1)], [false, true], "{seen:?}");
    assert_eq!([grew(3, 0), grew(3, 1)], [true, true], "{seen:?}");
    let up: Vec<bool> = seen.iter().map(|it| it.1).collect();
    // At 20 s the fault has struck, at 25 s the port is up again.
    assert_eq!(up, [true, false, true, true, true]);
    assert_eq!(world.lives(hub).0[0].ports[1].presence.downs, 1);
}

/// The scenario of two rates with some changes.
fn two_rates(changes: &[(&str, &str)]) -> Loaded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = folder.join("lab/two-rates.toml");
    let mut text = std::fs::read_to_string(&file).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replacen(old, new, 1);
    }
    Scenario::load_text(&DiskFiles, &file, &text).unwrap()
}

/// What the hub's port has been told of its neighbours' rates, in bit/s.
fn rates(world: &World, hub: NodeIndex) -> Vec<Option<u64>> {
    let neighbours = world.lives(hub).0[0].ports[1].neighbours.iter();
    let rates = neighbours.map(|it| it.tx_rate.map(|rate| rate.bit_s()));
    rates.collect()
}

/// The path to one neighbour changes its rate, and that to the other is unplugged for a while.
#[test]
fn a_port_hears_of_the_rate_to_each_of_its_neighbours() {
    let change = "change = [{ at = \"10 s\", rate = \"64 kbit/s\" }], delay = \"20 ms\"";
    let loaded = two_rates(&[("delay = \"20 ms\"", change)]);
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let hub = built.node("hub").unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(1);
    let links: Vec<String> = world.links().map(|(name, _)| name.to_owned()).collect();
    let slow = LinkIndex(links.iter().position(|it| it == "slow").unwrap());
    let at = Instant::from_secs;
    world.plan(at(12), Fault::Unplug(slow));
    world.plan(at(14), Fault::Plug(slow));
    let mut sent = Vec::new();
    for (second, expected) in [(9, 256_000), (11, 64_000), (13, 64_000), (20, 64_000)] {
        world.run_until(at(second));
        assert_eq!(check::violations(world), [""; 0]);
        assert_eq!(rates(world, hub), [Some(9600), Some(expected)]);
        let neighbours = world.lives(hub).0[0].ports[1].neighbours.iter();
        sent.push(neighbours.map(|it| it.octets_out).collect::<Vec<_>>());
    }
    // In two seconds without the slow one, the fast one gets what its path carries.
    let grew = |link: usize| sent[2][link] - sent[1][link];
    assert!(grew(0) <= 1300, "{sent:?}");
    assert!((14_000..=16_500).contains(&grew(1)), "{sent:?}");
    assert!(sent[3][0] > sent[2][0] + 3000, "{sent:?}");
}

/// Without rates in the node file, all neighbours share a transmitter, whose time each takes by the
/// rate of its path.
#[test]
fn neighbours_who_share_a_transmitter_have_rates_of_their_own() {
    let loaded = two_rates(&[
        ("name = \"slow\", rate = \"9600 bit/s\"", "name = \"slow\""),
        ("name = \"fast\", rate = \"256 kbit/s\"", "name = \"fast\""),
    ]);
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let hub = built.node("hub").unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(1);
    world.run_until(Instant::from_secs(30));
    assert_eq!(check::violations(world), [""; 0]);
    assert_eq!(rates(world, hub), [Some(9600), Some(256_000)]);
    let port = &world.lives(hub).0[0].ports[1];
    let times = port.neighbours.iter().map(|it| {
        let rate = it.tx_rate.unwrap().bit_s();
        it.octets_out as f64 * 8.0 / rate as f64
    });
    let busy = port.busy_ns as f64 / 1e9;
    let sum: f64 = times.sum();
    assert!(sum > 24.0 && (sum - busy).abs() < 0.2, "{sum} {busy}");
}

/// Who asks a half-duplex line for room takes turns on it, also for what goes by another way.
#[test]
fn ways_to_each_neighbour_are_not_by_lines_with_turns() {
    let half = ("queue = 50 }", "queue = 50, half_duplex = true }");
    let complaint = |changes: &[(&str, &str)]| {
        let built = build(&two_rates(changes), Scenario::BASE, 1);
        built.err().map(|error| error.to_string())
    };
    let found = complaint(&[half]).unwrap();
    assert!(found.starts_with("link `slow`: `half_duplex`"), "{found}");
    let shared = [
        half,
        ("name = \"slow\", rate = \"9600 bit/s\"", "name = \"slow\""),
        ("name = \"fast\", rate = \"256 kbit/s\"", "name = \"fast\""),
    ];
    assert_eq!(complaint(&shared), None);
}
