//! Runs a drawn scenario and says what is wrong with the run.

use strait_core::Instant;
use strait_link::hbh::Settings;
use strait_scenario::{Loaded, Scenario};
use strait_sim::{Built, build, check};
use strait_traffic::{FlowLog, FlowReport, Kind, Ports, Side, TrafficConfig};

use crate::draw::{Drawn, HEAL_MS};
use crate::patience::Openings;

/// Damaged frames that pass a check of 16 bits in one run, at most.
const DAMAGED_MAX: usize = 2;

/// Neighbours on one port at most, as drawn.
const NEIGHBOURS_MAX: u64 = 7;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What is wrong, each in a sentence.
    pub(crate) wrong: Vec<String>,
    /// How much of the time that transfers may take they took.
    pub(crate) share: f64,
    /// Transfers that the network kept from beginning.
    pub(crate) prevented: u64,
    /// No gateway with reliable hops is killed, and no damaged frame passes its check.
    pub(crate) in_full: bool,
}

/// Runs a scenario.
pub(crate) fn judge(drawn: &Drawn) -> Verdict {
    let loaded = drawn.load();
    let mut built = built(&loaded);
    let mut trial = Trial {
        drawn,
        loaded: &loaded,
        wrong: Vec::new(),
        prevented: 0,
    };
    built.world_mut().set_check_every(32);
    for part in 1..=4 {
        trial.until(&mut built, HEAL_MS * part / 4);
    }
    built.world_mut().heal();
    trial.until(&mut built, drawn.drained_ms);
    trial.until(&mut built, drawn.complete_ms);
    let share = trial.transfers(&built);
    trial.until(&mut built, drawn.end_ms);
    trial.flows(&built);
    Verdict {
        wrong: trial.wrong,
        share,
        prevented: trial.prevented,
        in_full: !drawn.weak && drawn.resent_max == 0,
    }
}

fn built(loaded: &Loaded) -> Built {
    match build(loaded, Scenario::BASE, loaded.scenario.seed) {
        Ok(mut built) => {
            built.world_mut().keep_fates();
            built
        }
        Err(error) => panic!("{error}"),
    }
}

struct Trial<'a> {
    drawn: &'a Drawn,
    loaded: &'a Loaded,
    wrong: Vec<String>,
    prevented: u64,
}

impl Trial<'_> {
    /// Runs on, and looks at the books.
    fn until(&mut self, built: &mut Built, at_ms: u64) {
        built.world_mut().run_until(Instant::from_millis(at_ms));
        built.world().check();
        let mut violations = check::violations(built.world());
        if self.drawn.weak && violations.len() <= DAMAGED_MAX {
            // A damaged frame that passes a check of 16 bits is a packet that nobody sent.
            violations.retain(|it| !it.contains("nobody sent") && !it.contains("no explained"));
        }
        violations.extend(held(built));
        let at = |it| format!("at {at_ms} ms: {it}");
        self.wrong.extend(violations.into_iter().map(at));
    }

    fn report(&self, built: &Built, config: &TrafficConfig) -> FlowReport {
        let [from, to] = logs(built, config);
        strait_traffic::report(config, &from, &to)
    }

    /// Whether every connection of a transfer that failed couldn't have been opened by anybody.
    /// The same run again shows it, with captures.
    fn is_prevented(&self, built: &Built, config: &TrafficConfig, index: usize) -> bool {
        // The other end may have answered one connection more than once, so only the opener counts.
        let [from, _] = logs(built, config);
        let failed = from
            .transfer
            .map_or(0, |transfer| transfer.failed_connections);
        let prevented = || self.openings().prevented(Ports::nth(index as u16).to) as u64;
        failed > 0 && prevented() >= failed
    }

    fn openings(&self) -> Openings {
        let mut again = built(self.loaded);
        let world = again.world_mut();
        world.capture();
        world.run_until(Instant::from_millis(HEAL_MS));
        world.heal();
        world.run_until(Instant::from_millis(self.drawn.complete_ms));
        Openings::of(&mut again)
    }

    /// Every transfer is complete and right, or was prevented from beginning; gives the share of
    /// the last one's time that it took.
    fn transfers(&mut self, built: &Built) -> f64 {
        let mut share = 0.0;
        for (index, config) in self.loaded.scenario.traffic.iter().enumerate() {
            if !matches!(config.kind, Kind::Tcp | Kind::Page) {
                continue;
            }
            let report = self.report(built, config);
            let metric = |name| report.metrics.get(name).copied();
            let complete = metric("complete") == Some(1.0);
            let prevented = !complete && self.is_prevented(built, config, index);
            self.prevented += u64::from(prevented);
            if !complete && !prevented {
                let counters = &report.counters;
                self.wrong.push(format!(
                    "transfer {} is incomplete: {counters:?}",
                    config.name
                ));
            }
            let may_s = self.drawn.complete_ms as f64 / 1e3 - config.start.0.as_secs_f64();
            share = metric("time_s").map_or(share, |took_s| f64::max(share, took_s / may_s));
        }
        share
    }

    /// Nothing wrong, nothing unexpected, nothing twice where nothing doubles; the last echo
    /// requests are all answered.
    fn flows(&mut self, built: &Built) {
        let mut duplicates = 0;
        for config in &self.loaded.scenario.traffic {
            let report = self.report(built, config);
            let count = |name: &str| report.counters.get(name).copied().unwrap_or_default();
            duplicates += count("duplicates");
            for name in ["unexpected", "unusable", "not_sent", "unlogged"] {
                if count(name) > 0 {
                    let text = format!("{}: {} {name}", config.name, count(name));
                    self.wrong.push(text);
                }
            }
            if report
                .metrics
                .get("wrong")
                .is_some_and(|wrong| *wrong > 0.0)
            {
                self.wrong.push(format!("{}: wrong octets", config.name));
            }
            if config.name == "last-ping" && count("received") != 3 {
                let (sent, received) = (count("sent"), count("received"));
                self.wrong
                    .push(format!("{received} of {sent} last echo requests answered"));
            }
        }
        // Each frame that a medium doubles makes one more of a packet, at most.
        let links = built.world().links().flat_map(|(_, sides)| sides);
        let doubled: u64 = links.map(|way| way.duplicated).sum();
        // A number that was damaged past a check of 16 bits is another packet's; where transport
        // checksums are rebuilt, they don't tell.
        let damaged = if self.drawn.weak {
            DAMAGED_MAX as u64
        } else {
            0
        };
        let doubled = if self.drawn.doubles { doubled } else { 0 };
        let most = self.drawn.resent_max + damaged + doubled;
        if duplicates > most {
            let text = format!("{duplicates} came twice, of at most {most} that may");
            self.wrong.push(text);
        }
    }
}

/// Octets of the largest packet.
const PACKET_OCTETS_MAX: u64 = 1500;

/// Ports that keep more for their neighbours, or of what came from them out of order, than windows
/// allow.
fn held(built: &Built) -> Vec<String> {
    let world = built.world();
    let nodes = world.stats().flat_map(|(name, stats)| {
        let ports = stats.ports.iter();
        ports.map(move |port| (name, port))
    });
    let most = u64::from(Settings::WINDOW_NARROW) * PACKET_OCTETS_MAX * NEIGHBOURS_MAX;
    let held = nodes.filter(|(_, port)| port.hop.window_octets.max(port.hop.order_octets) > most);
    held.map(|(name, port)| format!("{name}.{} holds too much: {:?}", port.name, port.hop))
        .collect()
}

/// What both ends of a traffic saw.
fn logs(built: &Built, config: &TrafficConfig) -> [FlowLog; 2] {
    let log = |name: &str, side| {
        let host = built.node(name).and_then(|node| built.world().host(node));
        let of = |log: &&FlowLog| log.traffic == config.name && log.side == side;
        let found = host.and_then(|host| host.logs().find(of).cloned());
        found.unwrap_or_else(|| FlowLog::new(&config.name, side))
    };
    [log(&config.from, Side::From), log(&config.to, Side::To)]
}
