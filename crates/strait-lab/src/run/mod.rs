//! The run itself: everything at its time, then what came of it.

mod stretches;

use std::collections::BTreeMap;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use strait_core::stats::ClassStats;
use strait_core::time::Duration;
use strait_live::clock::monotonic;
use strait_live::signals::Stop;
use strait_report::table::Table;
use strait_report::{counter_table, delay_table};
use strait_scenario::{FaultKind, local_metrics};
use strait_status::{Class, Snapshot};
use strait_traffic::{FlowReport, Kind};

use self::stretches::Seen;
use crate::gateways::{GatewayProcess, delay_gap_s};
use crate::programs::{Collected, Flow, Origin, Program};
use crate::{Lab, LabError, TICK, Wire, check, wait_for};

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What each traffic experienced, in the scenario's order.
    pub flows: Vec<FlowReport>,
    /// Metrics by name, `TRAFFIC.METRIC` or `LINK.use`, as the simulator has them.
    pub metrics: BTreeMap<String, f64>,
    /// What each gateway says of itself at the end of its last incarnation.
    pub nodes: Vec<Snapshot>,
    /// What each gateway that ran at the end had said of itself of late.
    pub past: Vec<Vec<Snapshot>>,
    /// Where the time of each call's packets went, on their way from host to host.
    pub stretches: Vec<Table>,
    /// By how much the parts of a class's delay and the whole differ, at most, in seconds.
    pub delay_gap_s: f64,
    /// By fault with a restart, the seconds from the restart until the last of the pings that ran
    /// across it was answered again; `None` if one never was.
    pub resumed_s: Vec<Option<f64>>,
    /// What the emulators counted, by link.
    pub links: Vec<(String, Value)>,
    /// What is missing in the result, and why.
    pub notes: Vec<String>,
    /// What the gateways and emulators left when they were asked to end.
    pub left: Vec<String>,
}

/// What happens at a moment of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Restart(usize),
    Kill(usize),
    Plug(usize),
    Unplug(usize),
    Start(usize),
}

/// Between the last preparation and the beginning.
const BREATH: Duration = Duration::from_millis(400);
/// How often the processes are looked after.
const WATCH: Duration = Duration::from_millis(100);

impl Lab {
    /// Runs the scenario from its beginning to its end; `progress` hears how much time is left,
    /// several times a second. Afterwards gateways and emulators have ended.
    ///
    /// # Errors
    /// A part ended before its time, or the user has asked to stop.
    pub fn run(
        &mut self,
        stop: &Stop,
        mut progress: impl FnMut(Duration),
    ) -> Result<Outcome, LabError> {
        self.prepare(stop)?;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall_ns = wall.map_or(0, |since| since.as_nanos() as u64);
        let origin = Origin {
            at: monotonic() + BREATH,
            wall_ns: wall_ns + BREATH.as_nanos() as u64,
        };
        let plan = self.plan();
        let mut next = 0;
        let mut watched = origin.at;
        let end = origin.at + self.ground.duration;
        loop {
            let now = monotonic();
            while let Some((at, action)) = plan.get(next)
                && (origin.at + *at) - self.lead(*action) <= now
            {
                self.act(*action, origin)?;
                next += 1;
            }
            if now >= end {
                break;
            }
            if now.since(watched) >= WATCH {
                watched = now;
                check(stop)?;
                self.expect_alive()?;
                progress(end.since(now));
                let stage = self.ground.stage();
                let over = |(flow, program): &(_, Box<dyn Program>)| program.is_over(&stage, flow);
                if self.ground.brief && next == plan.len() && self.cast.iter().all(over) {
                    break;
                }
            }
            thread::sleep(TICK);
        }
        Ok(self.conclude(origin))
    }

    fn prepare(&mut self, stop: &Stop) -> Result<(), LabError> {
        let stage = self.ground.stage();
        for (flow, program) in &mut self.cast {
            program.prepare(&stage, flow)?;
        }
        for (flow, program) in &self.cast {
            let what = format!("start the server of `{}`", flow.config.name);
            wait_for(stop, &what, || program.is_prepared(&stage, flow))?;
        }
        Ok(())
    }

    /// Everything that is to happen, in order.
    fn plan(&self) -> Vec<(Duration, Action)> {
        let flows = self.cast.iter().enumerate();
        let starts = flows.map(|(index, (flow, _))| (flow.start, Action::Start(index)));
        let mut plan: Vec<_> = starts.collect();
        for fault in &self.loaded.scenario.faults {
            let gateway = || self.gateways.iter().position(|it| it.name == fault.node);
            let named = |wire: &Wire| Some(&wire.name) == fault.link.as_ref();
            let pair = match fault.kind {
                FaultKind::Kill => gateway().map(|it| [Action::Kill(it), Action::Restart(it)]),
                // Set up refuses it.
                FaultKind::Clock => None,
                FaultKind::Unplug => {
                    let wire = self.wires.iter().position(named);
                    wire.map(|it| [Action::Unplug(it), Action::Plug(it)])
                }
            };
            let Some([breaks, mends]) = pair else {
                continue;
            };
            plan.push((fault.at.0, breaks));
            if let Some(after) = fault.restart_after {
                plan.push((fault.at.0 + after.0, mends));
            }
        }
        // What is started ahead of its time comes first.
        plan.sort_by_key(|(at, action)| (at.saturating_sub(self.lead(*action)), *action));
        plan
    }

    fn lead(&self, action: Action) -> Duration {
        match action {
            Action::Start(index) => self.cast[index].1.lead(),
            _ => Duration::ZERO,
        }
    }

    fn act(&mut self, action: Action, origin: Origin) -> Result<(), LabError> {
        let stage = self.ground.stage();
        match action {
            Action::Start(index) => {
                let (flow, program) = &mut self.cast[index];
                program.start(&stage, flow, origin)
            }
            Action::Kill(index) => {
                self.gateways[index].kill();
                Ok(())
            }
            Action::Restart(index) => self.gateways[index].start(&stage),
            Action::Unplug(index) => {
                self.wires[index].unplug();
                Ok(())
            }
            Action::Plug(index) => self.wires[index].start(&stage),
        }
    }

    fn expect_alive(&self) -> Result<(), LabError> {
        self.gateways
            .iter()
            .try_for_each(GatewayProcess::expect_alive)?;
        self.daemons
            .iter()
            .try_for_each(crate::Running::expect_alive)?;
        self.wires.iter().try_for_each(Wire::expect_alive)
    }

    /// Ends the programs and collects what everybody saw.
    fn conclude(&mut self, origin: Origin) -> Outcome {
        let past = self.gateways.iter().filter_map(GatewayProcess::past);
        let mut outcome = Outcome {
            past: past.collect(),
            notes: self.notes.clone(),
            ..Outcome::default()
        };
        for gateway in &self.gateways {
            match gateway.status() {
                Some(status) => {
                    outcome.delay_gap_s = outcome.delay_gap_s.max(delay_gap_s(&status));
                    let scenario = &self.loaded.scenario;
                    outcome.metrics.extend(local_metrics(scenario, &status));
                    outcome.nodes.push(status);
                }
                None => outcome.notes.push(format!("{}: no status", gateway.name)),
            }
        }
        for (_, program) in &mut self.cast {
            program.finish();
        }
        outcome.left = self.stop_all();
        let stage = self.ground.stage();
        let cast = self.cast.iter();
        let collected: Vec<Collected> = cast
            .map(|(flow, program)| program.collect(&stage, flow, origin))
            .collect();
        outcome.stretches = self.stretches();
        let both = self.cast.iter().map(|(flow, _)| flow).zip(&collected);
        let pings: Vec<_> = both
            .filter(|(flow, _)| flow.config.kind == Kind::Ping)
            .collect();
        let faults = self.loaded.scenario.faults.iter();
        let kills = faults.filter(|fault| fault.kind == FaultKind::Kill);
        outcome.resumed_s = kills
            .filter_map(|fault| {
                let restart = fault.at.0 + fault.restart_after?.0;
                let across = pings.iter().copied();
                let across = across.filter(|(it, _)| it.start < fault.at.0 && it.stop > restart);
                let across: Vec<_> = across.collect();
                (!across.is_empty()).then(|| resumed_s(fault.at.0, restart, &across))
            })
            .collect();
        for flow in collected {
            for report in flow.reports {
                for (metric, value) in &report.metrics {
                    let name = format!("{}.{metric}", report.name);
                    outcome.metrics.insert(name, *value);
                }
                outcome.flows.push(report);
            }
            outcome.notes.extend(flow.notes);
        }
        let duration_s = self.ground.duration.as_secs_f64();
        for wire in &self.wires {
            match wire.stats() {
                Some(stats) => {
                    for (name, busy_s) in busy_s(&wire.name, &stats) {
                        let share = (busy_s / duration_s).min(1.0);
                        outcome.metrics.insert(format!("{name}.use"), share);
                    }
                    outcome.metrics.extend(collisions(&stats));
                    outcome.links.push((wire.name.clone(), stats));
                }
                None => outcome.notes.push(format!("{}: no counters", wire.name)),
            }
        }
        outcome
    }
}

impl Lab {
    /// Where the time of each call's packets went, a table for each call.
    fn stretches(&self) -> Vec<Table> {
        let stage = self.ground.stage();
        let gateways = self.gateways.iter();
        let packets: Vec<_> = gateways
            .map(|gateway| (gateway.name.clone(), gateway.packets(&stage)))
            .collect();
        let seen = Seen::new(&packets);
        let table = |(flow, program): &(Flow, Box<dyn Program>)| {
            let [from, to] = program.logs(&stage, flow)?;
            let headers = if flow.address(0).is_ipv4() { 28 } else { 48 };
            let [near, far] = &flow.gateways;
            let there = seen.ways(near, &from, &to, headers);
            let back = seen.ways(far, &to, &from, headers);
            let mut table = stretches::table(&[there, back])?;
            table.id = format!("stretches of {}", flow.config.name);
            Some(table)
        };
        self.cast.iter().filter_map(table).collect()
    }
}

impl Outcome {
    /// By gateway, where the time of each class's packets went.
    pub fn delays(&self) -> Vec<(String, Vec<ClassStats>)> {
        let nodes = self.nodes.iter();
        let of = |node: &Snapshot| node.classes.iter().map(Class::delays).collect();
        nodes.map(|node| (node.node.clone(), of(node))).collect()
    }

    /// Where the time went, a table for each gateway.
    pub fn delay_tables(&self) -> Vec<Table> {
        let table = |(name, classes): &(String, Vec<ClassStats>)| {
            let mut table = delay_table(classes);
            table.id = format!("delay-parts in {name}");
            table
        };
        self.delays().iter().map(table).collect()
    }

    /// What the gateways kept off their links; `None` if nothing.
    pub fn kept_off_table(&self) -> Option<Table> {
        let nodes = self.nodes.iter();
        let kept = nodes.flat_map(|node| {
            let kept = node.local.iter();
            kept.map(move |(what, kind, volume)| {
                (vec![format!("{}: {what} {kind}", node.node).into()], volume)
            })
        });
        let table = counter_table("local", &["kept off the links"], kept);
        (!table.rows.is_empty()).then_some(table)
    }
}

/// When the last of the pings that ran across a fault was answered again, in seconds from the
/// restart.
fn resumed_s(fault: Duration, restart: Duration, across: &[(&Flow, &Collected)]) -> Option<f64> {
    let mut worst_s = None;
    for (_, collected) in across {
        let answers = collected.answers.iter();
        let after = answers.filter(|(sent_s, _)| *sent_s > fault.as_secs_f64());
        let first_s = after.map(|(_, at_s)| at_s - restart.as_secs_f64());
        let first_s = first_s.reduce(f64::min)?;
        worst_s = Some(worst_s.map_or(first_s, |worst: f64| worst.max(first_s)));
    }
    worst_s
}

/// How long the busier direction of a link was sending, in seconds; of a net, link by link.
fn busy_s(link: &str, stats: &Value) -> BTreeMap<String, f64> {
    let mut busy = BTreeMap::new();
    for way in stats["directions"].as_array().into_iter().flatten() {
        let name = way["path"].as_str().filter(|name| !name.is_empty());
        let name = name.unwrap_or(link).to_owned();
        if let Some(way_s) = way["busy_s"].as_f64() {
            let most = busy.entry(name).or_insert(way_s);
            *most = way_s.max(*most);
        }
    }
    busy
}

/// Of a net: transmissions that met another one, radio by radio.
fn collisions(stats: &Value) -> Vec<(String, f64)> {
    let modems = stats["modems"].as_array().into_iter().flatten();
    let count = |modem: &Value| {
        let name = modem["name"].as_str().filter(|name| name.contains('.'))?;
        Some((format!("{name}.collisions"), modem["collisions"].as_f64()?))
    };
    modems.filter_map(count).collect()
}
