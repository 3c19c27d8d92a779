//! Hosts and the services of gateways, in whole scenarios.

use std::path::Path;

use strait_core::Instant;
use strait_core::stats::EchoStats;
use strait_core::stream_ledger::ResetCause;
use strait_core::tls::TlsFault;
use strait_node::config_text::ConfigError;
use strait_scenario::{Files, Loaded, Scenario};
use strait_sim::{Fault, build, check, run_once};

struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

/// The scenario with another delay of the service, or more said of it.
fn echo(delay: &str) -> Loaded {
    load(delay).unwrap_or_else(|error| panic!("{error}"))
}

fn load(delay: &str) -> Result<Loaded, ConfigError> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/echo.toml");
    let text = Disk.read(&file).unwrap();
    let usual = "delay = \"20 ms\"";
    assert!(text.contains(usual));
    let text = text.replace(usual, &format!("delay = {delay}"));
    Scenario::load_text(&Disk, &file, &text)
}

const USUAL: &str = "\"20 ms\"";

/// Behind a delay: it stores, and the node has storage.
const STORED: &str = "\nstore = true\n[node.config.state]\nfile = \"a.db\"";

/// What node `a` has counted in each of its lives, after a run with books and faults.
fn counted(loaded: &Loaded, kills: &[(u64, u64)]) -> (Vec<EchoStats>, u64) {
    let mut built = build(loaded, Scenario::BASE, 1).unwrap();
    let a = built.node("a").unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(1);
    for (kill, restart) in kills {
        world.plan(Instant::from_millis(*kill), Fault::Kill(a));
        world.plan(Instant::from_millis(*restart), Fault::Restart(a));
    }
    for part in 1..=8 {
        world.run_until(Instant::from_secs(5 * part));
        assert_eq!(check::violations(world), [""; 0]);
    }
    let (lives, _) = world.lives(a);
    let echoes = lives.iter().map(|stats| stats.echo.unwrap());
    (echoes.collect(), world.hash())
}

#[test]
fn hosts_on_both_sides_of_a_line_use_a_gateways_service() {
    let loaded = echo(USUAL);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    for expected in &loaded.scenario.expectations {
        let value = run.metrics[&expected.metric];
        let low = expected.min.is_none_or(|min| value >= min);
        let high = expected.max.is_none_or(|max| value <= max);
        assert!(low && high, "{} is {value}", expected.id);
    }
    for name in ["near", "far", "kept"] {
        assert_eq!(run.metrics[&format!("{name}.complete")], 1.0);
        assert_eq!(run.metrics[&format!("{name}.wrong")], 0.0);
    }
    let remarked = |flow: &strait_traffic::FlowReport| flow.counters.get("remarked").copied();
    assert!(run.flows.iter().all(|flow| remarked(flow).is_none()));
}

#[test]
fn services_are_part_of_a_runs_history() {
    let loaded = echo(USUAL);
    let (first, hash) = counted(&loaded, &[]);
    let [life] = first[..] else {
        panic!("{first:?}")
    };
    assert_eq!(
        (
            life.streams.open(),
            life.streams.opened,
            life.streams.resets()
        ),
        (0, 2, 0)
    );
    assert_eq!((life.streams.delivered, life.datagrams), (12_000, 40));
    assert_eq!(counted(&loaded, &[]).1, hash);
    // Looking changes nothing.
    assert_eq!(
        run_once(&loaded, Scenario::BASE, 1, true).unwrap().hash,
        hash
    );
    assert_ne!(counted(&echo("\"21 ms\""), &[]).1, hash);
}

#[test]
fn a_kill_ends_connections_and_the_next_life_takes_others() {
    // While the far host's octets come.
    let (lives, _) = counted(&echo(USUAL), &[(11_000, 13_000)]);
    let [first, second] = lives[..] else {
        panic!("{lives:?}")
    };
    assert_eq!((first.streams.opened, first.streams.open()), (2, 1));
    assert_eq!((second.streams.opened, second.streams.open()), (0, 0));
    assert!(second.datagrams > 10);
}

#[test]
fn what_waits_on_stable_storage_comes_back() {
    let loaded = echo(&[USUAL, STORED].concat());
    let (lives, _) = counted(&loaded, &[]);
    assert_eq!(
        (lives[0].streams.delivered, lives[0].streams.resets()),
        (12_000, 0)
    );
    // Each piece has a digest and a frame around it; what hosts send here doesn't become less.
    let stored = lives[0].stored;
    assert!((12_100..13_000).contains(&stored), "{stored}");
    // Each question takes a write's time longer, where no delay hides it.
    let time = |delay: &str| {
        let run = run_once(&echo(delay), Scenario::BASE, 1, false).unwrap();
        run.metrics["near.time_s"]
    };
    let none = "\"0 s\"";
    assert!(time(&[none, STORED].concat()) > time(none) + 0.001);
    // What a killed life leaves there, the next one deletes.
    let (lives, _) = counted(&loaded, &[(3_100, 3_200), (11_000, 13_000)]);
    assert_eq!(lives.len(), 3);
}

#[test]
fn a_service_that_stores_needs_storage() {
    let error = load("\"20 ms\"\nstore = true").unwrap_err().to_string();
    assert!(
        error.contains("[echo] store: needs the table [state]"),
        "{error}"
    );
    // As does who says what it is like.
    let storage = [USUAL, "\n[node.storage]\nlatency = \"1 s\""].concat();
    let error = load(&storage).unwrap_err().to_string();
    assert!(error.contains(": `storage` in [[node]]"), "{error}");
    assert!(error.contains("needs the table [state]"), "{error}");
}

#[test]
fn a_scenario_says_what_storage_is_like() {
    let with = |storage: &str| echo(&[USUAL, STORED, "\n[node.storage]\n", storage].concat());
    let near = |loaded: &Loaded| {
        let run = run_once(loaded, Scenario::BASE, 1, false).unwrap();
        run.metrics["near.time_s"]
    };
    let usual = near(&echo(&[USUAL, STORED].concat()));
    let slow = near(&with("latency = \"150 ms\""));
    // Each piece of it waits for a write before it goes, and for one that deletes the last.
    assert!((0.3..1.2).contains(&(slow - usual)), "{usual} {slow}");
    let (lives, _) = counted(&with("room = \"100 B\""), &[]);
    let streams = lives[0].streams;
    assert_eq!(
        (
            streams.delivered,
            streams.resets_by(ResetCause::StorageFull)
        ),
        (0, 2)
    );
}

#[test]
fn an_older_tls_takes_a_round_trip_more_and_a_wrong_name_has_nothing() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/tls.toml");
    let text = Disk.read(&file).unwrap();
    let loaded = match Scenario::load_text(&Disk, &file, &text) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    };
    let (lives, hash) = counted(&loaded, &[]);
    assert_eq!(hash, counted(&loaded, &[]).1);
    let [life] = lives[..] else {
        panic!("{lives:?}")
    };
    // Who refuses our certificate has said so before we took the connection for secured.
    assert_eq!((life.tls.secured, life.streams.delivered), (3, 16_000));
    assert_eq!(life.tls.failed_by(TlsFault::Refused), 1);
    assert_eq!(life.streams.resets_by(ResetCause::Tls), 1);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    let [new, old] = ["far.secure_s", "far-old.secure_s"].map(|name| run.metrics[name]);
    // Two small packets more, and shorter ones before them, at 960 octets in a second.
    assert!((0.1..0.4).contains(&(old - new)), "{new} {old}");
    let failed = &run
        .flows
        .iter()
        .find(|flow| flow.name == "wrong")
        .unwrap()
        .counters;
    assert_eq!(failed.get("name-mismatch"), Some(&1));
}

#[test]
fn clients_that_are_not_allowed_have_no_connection() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/asked.toml");
    let text = Disk.read(&file).unwrap();
    let usual = "refuse = \"unreachable\"";
    assert!(text.contains(usual));
    for (refuse, failures) in [("unreachable", 1), ("reset", 1), ("silence", 0)] {
        let text = text.replace(usual, &format!("refuse = \"{refuse}\""));
        let loaded = match Scenario::load_text(&Disk, &file, &text) {
            Ok(loaded) => loaded,
            Err(error) => panic!("{error}"),
        };
        let (lives, _) = counted(&loaded, &[]);
        let [life] = lives[..] else {
            panic!("{lives:?}")
        };
        assert_eq!((life.streams.opened, life.streams.delivered), (2, 16_000));
        // Silence is asked about again and again.
        assert_eq!(life.refused > 1, refuse == "silence", "{refuse}");
        let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
        let failed = |flow: &strait_traffic::FlowReport| {
            flow.counters
                .get("failed_connections")
                .copied()
                .unwrap_or(0)
        };
        let far = run.flows.iter().find(|flow| flow.name == "far").unwrap();
        assert_eq!(failed(far), failures, "{refuse}");
        assert_eq!(run.unexplained, 0);
    }
}

/// A station fills its first block with repeats only once those that come together are in it.
#[test]
fn six_connections_that_begin_together_cross_in_one_turn_over_hf() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/proxy/hf-9600.toml");
    let text = Disk.read(&file).unwrap();
    let (world, _) = text.split_once("[[traffic]]").unwrap();
    let flow = |n| {
        format!(
            "[[traffic]]\nname = \"file{n}\"\nkind = \"tcp\"\nfamily = 4\nfrom = \"hb\"\n\
             to = \"ha\"\nstart = \"30 s\"\noctets = \"9 kB\"\nendpoint = \"linux-cubic\"\n"
        )
    };
    let flows: String = (0..6).map(flow).collect();
    let text = format!("{world}{flows}").replace("600 s", "120 s");
    let loaded = Scenario::load_text(&Disk, &file, &text).unwrap();
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    for n in 0..6 {
        let connect_s = run.metrics[&format!("file{n}.connect_s")];
        assert!(connect_s < 3.0, "{n}: {connect_s}");
    }
}
