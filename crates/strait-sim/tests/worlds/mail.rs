//! Lanes of message switches as streams of the TCP proxy's sessions: nothing is lost and nothing
//! comes twice, whatever lines and gateways do meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use strait_core::Instant;
use strait_core::chance::Stream;
use strait_scenario::{DiskFiles, Scenario};
use strait_sim::{NodeIndex, World, build, check, delivered, run_once};
use strait_wire::ip::PacketInfo;
use strait_wire::pcapng::{Block, Reader};

/// Code points of the lanes, of which a message has one.
const LANES: [&str; 6] = ["LE", "DF", "AF21", "CS2", "CS3", "CS4"];
/// When the last message is brought, the last fault is over, and all have come.
const BROUGHT_S: u64 = 80;
const FAULTS_S: u64 = 400;
const END_S: u64 = 1500;

/// A scenario's world with other messages and faults.
fn text(name: &str, seed: u64) -> (String, Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let text = text[..text.find("[[traffic]]").unwrap()].to_owned();
    let mut text = text.replace("duration = \"180 s\"", &format!("duration = \"{END_S} s\""));
    let mut draw = Stream::new(seed, "mail.faults");
    let mut names = Vec::new();
    for n in 0..16 {
        let name = format!("m{n}-");
        let (start, octets) = (15 + draw.below(BROUGHT_S - 20), 200 + draw.below(12_000));
        let lane = LANES[draw.below(6) as usize];
        writeln!(
            text,
            "[[traffic]]\nname = \"{name}\"\nkind = \"mail\"\nfamily = 4\nfrom = \"ha\"\n\
             to = \"b\"\nstart = \"{start} s\"\noctets = {octets}\ndscp = \"{lane}\""
        )
        .unwrap();
        names.push(name);
    }
    let mut at = 20;
    while at < FAULTS_S {
        let (what, away) = match draw.below(4) {
            // Nobody brings a message to a dead switch.
            0 if at > BROUGHT_S => ("kind = \"kill\"\nnode = \"a\"", 1 + draw.below(5)),
            1 => ("kind = \"kill\"\nnode = \"b\"", 1 + draw.below(5)),
            _ => ("kind = \"unplug\"\nlink = \"line\"", 1 + draw.below(60)),
        };
        let ms = draw.below(1000);
        writeln!(
            text,
            "[[fault]]\nat = \"{at}.{ms:03} s\"\n{what}\nrestart_after = \"{away} s\""
        )
        .unwrap();
        at += away + 2 + draw.below(40);
    }
    (text, names)
}

fn node(world: &World, name: &str) -> NodeIndex {
    let at = world.names().position(|it| it == name);
    NodeIndex(at.unwrap())
}

/// Runs it, and asserts that each message lies there once, and whole.
fn each_comes_once(name: &str, seed: u64) -> u64 {
    let (text, names) = text(name, seed);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let loaded = Scenario::load_text(&DiskFiles, &folder.join(name), &text).unwrap();
    let mut built = build(&loaded, Scenario::BASE, seed).unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(16);
    let (a, b) = (node(world, "a"), node(world, "b"));
    let mut by_session = 0;
    for s in (0..=END_S).step_by(5) {
        world.run_until(Instant::from_secs(s));
        let (lives, _) = world.lives(a);
        let proxy = lives.last().and_then(|it| it.proxy);
        by_session = by_session.max(proxy.map_or(0, |it| it.lanes));
    }
    assert_eq!(check::violations(world), [""; 0], "seed {seed}");
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, lies) in delivered(world, b) {
        let lies = String::from_utf8_lossy(lies);
        let is = |it: &&String| lies.contains(&format!("Subject: strait traffic {it}\n"));
        let name = names.iter().find(is);
        *copies.entry(name.map_or("?", |it| it)).or_default() += 1;
    }
    let wanted = names.iter().map(|it| (it.as_str(), 1)).collect();
    assert_eq!(copies, wanted, "seed {seed}\n{text}");
    by_session
}

/// By kernels no lane's packets go: the session has all.
#[test]
fn lanes_by_a_session_are_no_connections_of_kernels() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let loaded = Scenario::load(&folder.join("mail/proxied.toml")).unwrap();
    let lanes = |variant: &str| {
        let run = run_once(&loaded, variant, 1, true).unwrap();
        let kernels = run.captures.iter().filter(|it| it.0.contains("kernel"));
        let blocks = kernels.flat_map(|(_, octets)| Reader::new(octets).map(Result::unwrap));
        let of_lane = |block: &Block<'_>| {
            let Block::Packet(packet) = block else {
                return false;
            };
            let info = PacketInfo::parse(packet.bytes).ok();
            let ports = info.and_then(|it| it.ports);
            ports.is_some_and(|it| (4999..=5004).contains(&it.1))
        };
        blocks.filter(of_lane).count()
    };
    assert_eq!(lanes(Scenario::BASE), 0);
    assert!(lanes("tcp") > 100);
}

#[test]
fn mail_by_a_session_comes_once_whatever_fails() {
    for seed in 1..=12 {
        let by_session = each_comes_once("mail/proxied.toml", seed);
        assert!(
            by_session >= 4,
            "seed {seed}: lanes don't go by the session"
        );
    }
}

/// A turn over HF has room for all that a lane has ready, whatever the last block would be short
/// of: with a Flash between that nobody had counted, the message takes two turns and no third.
#[test]
fn a_lane_over_hf_needs_no_turn_for_a_few_octets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = folder.join("mail/proxied-hf.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let at = text.rfind("octets = \"1 kB\"").unwrap();
    for octets in [1000, 1005, 1010, 1020, 1040] {
        let flash = text[at..].replacen("\"1 kB\"", &octets.to_string(), 1);
        let text = format!("{}{flash}", &text[..at]);
        let loaded = Scenario::load_text(&DiskFiles, &file, &text).unwrap();
        let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
        let routine = run.flows.iter().find(|it| it.name == "routine").unwrap();
        let time_s = routine.metrics["time_s"];
        assert!(
            time_s < 31.0,
            "{time_s} s beside a Flash of {octets} octets"
        );
    }
}
