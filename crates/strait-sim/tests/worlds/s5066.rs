//! Gateways with STANAG 5066 stations on an HF channel: what turns cost, and the books of whole
//! worlds with kills and noise.

use std::path::{Path, PathBuf};

use strait_core::Instant;
use strait_core::stats::AccessStats;
use strait_s5066::d_pdu::parse;
use strait_scenario::{Loaded, Scenario};
use strait_sim::{Fault, LinkIndex, Options, build, check, run_scenario};
use strait_wire::ip::{TcpFlags, tcp_header};

fn load() -> Loaded {
    load_file("hf/s5066-9600.toml")
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn load_file(name: &str) -> Loaded {
    match Scenario::load(&scenarios().join(name)) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_ping_over_a_link_takes_its_two_turns_and_the_transfer_ends() {
    let outcome = run_scenario(&load(), &Options::default(), |_, _| ()).unwrap();
    // Each way: turnaround, preamble, one block, its decoding, and the way; then the guard time.
    let turn_s = 0.2 + 0.24 + 0.48 + 0.48 + 0.005;
    for rtt_s in outcome.metric(Scenario::BASE, "ping.rtt_p50_s") {
        let least = 2.0 * turn_s + 0.05;
        assert!((least..least + 0.001).contains(&rtt_s), "{rtt_s}");
    }
    assert_eq!(outcome.metric(Scenario::BASE, "ping.loss"), [0.0]);
    assert_eq!(outcome.metric(Scenario::BASE, "file.complete"), [1.0]);
}

#[test]
fn stations_without_links_send_all_without_arq() {
    let outcome = run_scenario(
        &load_file("hf/broadcast.toml"),
        &Options::default(),
        |_, _| (),
    );
    let outcome = outcome.unwrap();
    assert_eq!(outcome.metric(Scenario::BASE, "ping.loss"), [0.0]);
    let run = outcome.of(Scenario::BASE).next().unwrap();
    let stations = run.nodes.iter().filter_map(|node| node.ports.get(1));
    let stations: Vec<_> = stations.filter_map(|port| port.hf.as_ref()).collect();
    let [a, b] = stations[..] else {
        panic!("{stations:?}");
    };
    assert_eq!((a.links_made, b.links_made), (0, 0));
    // Every 20 s, and every 35 s.
    assert_eq!((a.clients.requests, b.clients.indications), (3, 3));
    assert_eq!((b.clients.requests, a.clients.indications), (2, 2));
}

#[test]
fn clients_are_served_beside_ip_and_each_hears_of_its_data() {
    let outcome = run_scenario(&load_file("hf/probes.toml"), &Options::default(), |_, _| ());
    let outcome = outcome.unwrap();
    let run = outcome.of(Scenario::BASE).next().unwrap();
    let clients: Vec<_> = run
        .nodes
        .iter()
        .filter_map(|node| Some(&node.ports.get(1)?.hf.as_ref()?.clients))
        .filter(|clients| clients.bound > 0)
        .collect();
    let [a, b] = clients.as_slice() else {
        panic!("{clients:?}");
    };
    // Every 20 s and 45 s, every 23 s and 50 s; the last may be under way.
    assert_eq!((a.requests, b.requests), (8 + 3, 7 + 3));
    assert!((10..=11).contains(&b.indications) && (9..=10).contains(&a.indications));
    assert!((10..=11).contains(&a.confirmed), "{a:?}");
    // Nobody confirms what goes without ARQ.
    assert!((6..=7).contains(&b.confirmed), "{b:?}");
    assert_eq!((a.rejected, b.rejected, a.invalid + b.invalid), (0, 0, 0));
    assert_eq!(outcome.metric(Scenario::BASE, "ping.loss"), [0.0]);
}

#[test]
fn data_that_arrives_after_its_time_to_die_is_dropped_unless_clocks_are_not_trusted() {
    let outcome = run_scenario(
        &load_file("hf/time-to-die.toml"),
        &Options::default(),
        |_, _| (),
    );
    let outcome = outcome.unwrap();
    for (variant, late) in [(Scenario::BASE, 2), ("clocks-not-trusted", 0)] {
        let run = outcome.of(variant).next().unwrap();
        let mut stations = run.nodes.iter();
        let b = stations.find(|node| node.node == "b").unwrap();
        let clients = &b.ports[1].hf.as_ref().unwrap().clients;
        assert_eq!((clients.indications, clients.expired), (5 - late, late));
    }
}

#[test]
fn captures_hold_one_d_pdu_a_record() {
    let mut built = build(&load(), Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.capture();
    world.run_until(Instant::from_secs(60));
    let stats: Vec<u64> = world
        .stats()
        .filter_map(|(_, stats)| stats.ports.get(1).map(|port| port.hf.counts.d_pdus_out))
        .collect();
    let files = world.take_captures();
    let counted: Vec<u64> = ["a.pcapng", "b.pcapng"]
        .map(|name| d_pdus(&files[name]))
        .into();
    assert_eq!(counted, stats);
    assert!(counted.iter().all(|count| *count > 3));
}

/// Counts the records of interface 1, each of which is to be a D_PDU and nothing else.
fn d_pdus(file: &[u8]) -> u64 {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut interfaces, mut count) = (0, Vec::new(), 0);
    while at < file.len() {
        let (kind, octets) = (word(at), word(at + 4) as usize);
        match kind {
            1 => interfaces.push(word(at + 8) as u16),
            6 if word(at + 8) == 1 => {
                let length = word(at + 20) as usize;
                let (d_pdu, whole) = parse(&file[at + 28..at + 28 + length], true).unwrap();
                assert_eq!(whole, length, "{d_pdu:?}");
                count += 1;
            }
            _ => {}
        }
        at += octets;
    }
    assert_eq!(interfaces[1], 237);
    count
}

#[test]
fn books_are_right_with_kills_and_noise() {
    books_are_right(load());
}

#[test]
fn books_are_right_with_clients_beside_ip() {
    books_are_right(load_file("hf/probes.toml"));
}

fn books_are_right(mut loaded: Loaded) {
    loaded.links[0].channel.bit_errors = Some("1e-4".parse().unwrap());
    let mut hashes = Vec::new();
    for seed in [1, 2, 1] {
        let mut built = build(&loaded, Scenario::BASE, seed).unwrap();
        let [a, b] = ["a", "b"].map(|name| built.node(name).unwrap());
        let world = built.world_mut();
        world.keep_fates();
        world.set_check_every(1);
        // While a link is made, while data are on the air, in an answer, in silence.
        for (at_ms, node) in [
            (6_300, a),
            (65_700, b),
            (147_200, a),
            (226_000, a),
            (261_000, b),
            (300_500, a),
        ] {
            world.plan(Instant::from_millis(at_ms), Fault::Kill(node));
            let again = Instant::from_millis(at_ms + 3000);
            world.plan(again, Fault::Restart(node));
        }
        for part in 1..=120 {
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

#[test]
fn packets_by_clients_of_other_nodes_have_their_fates() {
    let mut loaded = load_file("hf/client.toml");
    loaded.links[0].channel.bit_errors = Some("3e-5".parse().unwrap());
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(1);
    for part in 1..=34 {
        world.run_until(Instant::from_secs(part * 5));
        assert_eq!(check::violations(world), [""; 0], "part {part}");
    }
}

#[test]
fn clients_bind_again_when_their_node_is_back() {
    let mut built = build(&load_file("hf/client.toml"), Scenario::BASE, 1).unwrap();
    let nodes = ["sa", "b"].map(|name| built.node(name).unwrap());
    let world = built.world_mut();
    world.set_check_every(1);
    // In the middle of a ping, and while nothing is to be done.
    for (node, at_ms) in nodes.into_iter().zip([14_000, 100_000]) {
        world.plan(Instant::from_millis(at_ms), Fault::Kill(node));
        world.plan(Instant::from_millis(at_ms + 2500), Fault::Restart(node));
    }
    world.run_until(Instant::from_secs(15));
    let accesses = accesses_of(world, "a");
    assert!(accesses.iter().all(|it| !it.bound && it.lost == 1));
    assert!(accesses[0].confirmed > 0);
    world.run_until(Instant::from_secs(170));
    for name in ["a", "b"] {
        let accesses = accesses_of(world, name);
        assert!(
            accesses.iter().all(|it| it.bound && it.invalid == 0),
            "{accesses:?}"
        );
        assert!(accesses[0].confirmed > 0, "{accesses:?}");
    }
}

/// What node `name` counts of its access points.
fn accesses_of(world: &strait_sim::World, name: &str) -> Vec<AccessStats> {
    let mut stats = world.stats();
    let (_, stats) = stats.find(|(node, _)| *node == name).unwrap();
    stats.ports[1].client.accesses.clone()
}

#[test]
fn clients_that_are_refused_try_again_until_their_station_listens() {
    let mut built = build(&load_file("hf/client.toml"), Scenario::BASE, 1).unwrap();
    let station = built.node("sa").unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.capture();
    world.plan(Instant::ZERO, Fault::Kill(station));
    world.plan(Instant::from_secs(5), Fault::Restart(station));
    // After 1 s, 2 s and 4 s.
    for (until_ms, bound) in [(6_990, false), (7_010, true)] {
        world.run_until(Instant::from_millis(until_ms));
        let accesses = accesses_of(world, "a");
        assert!(
            accesses.iter().all(|it| it.bound == bound && it.lost == 0),
            "{accesses:?}"
        );
    }
    assert_eq!(check::violations(world), [""; 0]);
    let files = world.take_captures();
    // Of two access points, three attempts each.
    assert_eq!(resets(&files["sa kernel.pcapng"]), 6);
    assert_eq!(resets(&files["sb kernel.pcapng"]), 0);
}

/// The TCP segments of a capture that reset a connection.
fn resets(file: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut count) = (0, 0);
    while at < file.len() {
        if word(at) == 6 {
            let packet = &file[at + 28..at + 28 + word(at + 20) as usize];
            let segment = tcp_header(packet);
            count += usize::from(segment.is_some_and(|it| it.flags.contains(TcpFlags::RST)));
        }
        at += word(at + 4) as usize;
    }
    count
}

#[test]
fn clients_whose_cable_is_cut_give_their_station_up_and_come_back() {
    let mut built = build(&load_file("hf/client.toml"), Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.keep_fates();
    let cable = world.links().position(|(name, _)| name == "a to sa");
    let cable = LinkIndex(cable.unwrap());
    world.plan(Instant::from_secs(14), Fault::Unplug(cable));
    world.plan(Instant::from_secs(200), Fault::Plug(cable));
    // The last octets of the station came at most 14 s after the beginning. It is asked whether it
    // is there after 120 s and has ten more to say so; then each attempt has ten.
    for (until_s, bound) in [(120, true), (146, false), (300, true)] {
        world.run_until(Instant::from_secs(until_s));
        let accesses = accesses_of(world, "a");
        assert!(accesses.iter().all(|it| it.bound == bound), "{accesses:?}");
        assert_eq!(check::violations(world), [""; 0]);
    }
    assert!(accesses_of(world, "b").iter().all(|it| it.lost == 0));
}

/// The node files say `127.0.0.1` on both sides.
#[test]
fn a_station_on_its_clients_own_machine_is_reached_by_loopback() {
    let text = std::fs::read_to_string(scenarios().join("hf/client.toml")).unwrap();
    // Gateway a takes the place of its station sa.
    let radio = text.find("[[node]]\nname = \"sa\"").unwrap();
    let end = text.find("[[node]]\nname = \"sb\"").unwrap();
    let port = text[radio..end].find("[[node.config.port]]").unwrap() + radio;
    let port = &text[port..end];
    let client = "client = { server = \"127.0.0.1:5066\" }\n";
    let at = text.find(client).unwrap() + client.len();
    let routes = ["10.2.0.0/24", "fd00:2::/64"];
    let routes =
        routes.map(|to| format!("[[node.config.route]]\nprefix = \"{to}\"\nport = \"hf\"\n"));
    let text = [
        &text[..at],
        port,
        &routes.concat(),
        &text[at..radio],
        &text[end..],
    ];
    let text = text.concat().replace("sa.radio", "a.radio");
    let text = text.replace("{ name = \"sa\",", "{ name = \"a\",");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-machine.toml");
    std::fs::write(&file, text).unwrap();
    let loaded = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(1);
    world.run_until(Instant::from_secs(170));
    assert_eq!(check::violations(world), [""; 0]);
    let cables = world.links().filter(|(name, _)| name.contains(" to "));
    assert_eq!(
        cables.map(|(name, _)| name).collect::<Vec<_>>(),
        ["b to sb"]
    );
    for name in ["a", "b"] {
        let accesses = accesses_of(world, name);
        assert!(accesses.iter().all(|it| it.bound && it.confirmed > 0));
    }
    let outcome = run_scenario(&loaded, &Options::default(), |_, _| ()).unwrap();
    assert_eq!(outcome.metric(Scenario::BASE, "page.complete"), [1.0]);
}

/// Whether the link outlives the outage, and whether a packet is with the station then, depends on
/// the seed.
#[test]
fn what_waited_too_long_during_an_outage_does_not_come_after_it() {
    let mut loaded = load_file("hf/give-up.toml");
    loaded.scenario.runs = 12;
    let outcome = run_scenario(&loaded, &Options::default(), |_, _| ()).unwrap();
    let oldest = |variant| outcome.metric(variant, "positions.delay_max_s");
    // 20 s in the queue at most, and a turn of half of that.
    for late_s in oldest(Scenario::BASE) {
        assert!(late_s < 30.0, "{late_s}");
    }
    assert!(oldest("keeps").iter().all(|late_s| *late_s > 80.0));
}

/// The station has a lone packet, for its call, and nothing waits in the queue.
#[test]
fn a_lone_packet_does_not_come_after_an_outage_either() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let text = std::fs::read_to_string(scenarios().join("hf/give-up.toml")).unwrap();
    let text = text.replace("../mgen/each-second.mgn", "lone.mgn");
    let text = text.replace("duration = \"180 s\"", "duration = \"260 s\"");
    std::fs::write(folder.join("lone.toml"), text).unwrap();
    let script = "5.0 ON 1 UDP DST 10.2.0.2/5001 PERIODIC [0.016 200]\n255.0 OFF 1\n";
    std::fs::write(folder.join("lone.mgn"), script).unwrap();
    let mut loaded = Scenario::load(&folder.join("lone.toml")).unwrap();
    loaded.scenario.runs = 12;
    let outcome = run_scenario(&loaded, &Options::default(), |_, _| ()).unwrap();
    let oldest = |variant| outcome.metric(variant, "positions.delay_max_s");
    assert!(oldest(Scenario::BASE).iter().all(|late_s| *late_s < 30.0));
    assert!(oldest("keeps").iter().any(|late_s| *late_s > 60.0));
}

#[test]
fn a_net_of_five_shares_the_air_by_addresses_and_all_hear_the_group() {
    let outcome = run_scenario(&load_file("hf/net.toml"), &Options::default(), |_, _| ());
    let outcome = outcome.unwrap();
    for (name, most) in [("ping-ab", 0.0), ("ping-cd", 0.0), ("ping-ea", 0.0)] {
        let lost = outcome.metric(Scenario::BASE, &format!("{name}.loss"));
        assert!(lost.iter().all(|lost| *lost <= most), "{name}: {lost:?}");
    }
    for name in ["file-ad", "file-eb"] {
        let complete = format!("{name}.complete");
        assert_eq!(outcome.metric(Scenario::BASE, &complete), [1.0], "{name}");
    }
    let run = outcome.of(Scenario::BASE).next().unwrap();
    let heard = ["a", "b", "d", "e"].map(|name| {
        let node = run.nodes.iter().find(|node| node.node == name);
        let station = node.unwrap().ports[1].hf.as_ref();
        station.unwrap().clients.indications
    });
    // Nine in 300 s, each of which goes three times in one transmission, and is given once. The
    // last may not be out yet, or one may have met another on the air.
    assert!(heard.iter().all(|it| (8..=9).contains(it)), "{heard:?}");
    // `a` and `c` begin at the same moment; everybody counts that.
    let met = |variant: &str| -> f64 {
        let of = |node: &str| outcome.metric(variant, &format!("{node}.hf.collisions"));
        ["a", "b", "c", "d", "e"].into_iter().flat_map(of).sum()
    };
    let garbled = |variant| -> u64 {
        let nodes = outcome.of(variant).flat_map(|run| &run.nodes);
        let ports = nodes.filter_map(|node| Some(node.ports.get(1)?.hf.as_ref()?.garbled));
        ports.sum()
    };
    assert!(met(Scenario::BASE) >= 3.0 && garbled(Scenario::BASE) >= 3);
    assert!(met("turns") > 2.0 * met(Scenario::BASE));
    assert!(garbled("turns") > garbled(Scenario::BASE));
    assert_eq!(run.unexplained, 0);
}

#[test]
fn stations_of_a_net_find_their_rates_though_they_meet() {
    let loaded = load_file("hf/net-adapt.toml");
    let outcome = run_scenario(&loaded, &Options::default(), |_, _| ()).unwrap();
    let far = |variant: &str, what: &str| outcome.metric(variant, &format!("far.1.{what}"))[0];
    assert!(far(Scenario::BASE, "loss") <= 0.0);
    // Nobody is lost at the rate with which they begin, but all wait for each other.
    assert!(far("fixed", "delay_p50_s") > 2.0 * far(Scenario::BASE, "delay_p50_s"));
    let rates = |variant: &str| {
        let run = outcome.of(variant).next().unwrap();
        ["a", "c"].map(|name| {
            let node = run.nodes.iter().find(|node| node.node == name).unwrap();
            let mut links = node.ports[1].hf.as_ref().unwrap().neighbours.iter();
            let b = links.find(|link| link.name == "b").unwrap();
            b.rate.as_ref().unwrap().bit_s
        })
    };
    // The far one's 12 dB carry 4800 bit/s, with some loss; of 9600 it understands nothing.
    assert_eq!(rates(Scenario::BASE), [9600, 4800]);
    assert_eq!(rates("fixed"), [2400, 2400]);
    assert!(outcome.metric(Scenario::BASE, "b.hf.collisions")[0] > 0.0);
}

#[test]
fn books_are_right_in_a_net_with_collisions() {
    books_are_right(load_file("hf/net.toml"));
}

/// Four stations on one frequency list nobody, and each link is by a call of a stranger.
#[test]
fn clients_of_stations_that_list_nobody_reach_each_other_on_one_medium() {
    let loaded = load_file("hf/strangers.toml");
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.run_until(Instant::from_secs(180));
    assert_eq!(check::violations(world), [""; 0]);
    for (name, stats) in world
        .stats()
        .filter(|(name, _)| ["sa", "sb", "sc", "sd"].contains(name))
    {
        let radio = &stats.ports[1];
        assert!(radio.hf.counts.links_made > 0, "{name}");
        // What the other pair says.
        assert!(radio.hf.peers.is_empty(), "{name}");
    }
    let turns: Vec<u64> = world.radios().map(|(.., stats)| stats.turns).collect();
    assert!(
        turns.len() == 4 && turns.iter().all(|turns| *turns > 3),
        "{turns:?}"
    );
    let run = run_scenario(&loaded, &Options::default(), |_, _| ()).unwrap();
    for ping in ["ping-ab.loss", "ping-cd.loss"] {
        assert_eq!(run.metric(Scenario::BASE, ping), [0.0], "{ping}");
    }
}
