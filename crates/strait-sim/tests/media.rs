//! Neighbours of a shared port that are unplugged while others stay.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::path::Path;

use strait_core::Instant;
use strait_sim::{Fault, LinkIndex, build, check};
use strait_world::scenario::Scenario;

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
    assert_eq!(world.lives(hub).0[0].ports[1].downs, 1);
}
