//! What studies need from outside of virtual time: progress on a screen, and their live halves.

use std::collections::VecDeque;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use indicatif::ProgressBar;
use strait_lab::kernel::{Came, Offered, Pace, QueueBench, apply, bench::INTERFACE, remove};
use strait_lab::transfer::{self, TransferConfig, Transferred};
use strait_lab::{Lab, LabError, LabOptions, Outcome, require};
use strait_live::error::Error;
use strait_live::signals::Stop;
use strait_qos::export::{Export, Queues, export};
use strait_scenario::{Loaded, Scenario};
use strait_sim::study::{Case, Outside, Pasts, Sent, Share, ShareCase, ShareFlow};

use super::write;

/// Programs that live halves start, with the packages of Debian that have them.
const NEEDS: [(&str, &[(&str, &str)]); 4] = [
    ("hbh", &[("curl", "curl"), ("python3", "python3")]),
    ("htb", &[("nft", "nftables"), ("tc", "iproute2")]),
    ("policing", &[("nft", "nftables"), ("tc", "iproute2")]),
    ("proxy", &[("curl", "curl"), ("nft", "nftables")]),
];

/// What live halves of these studies will lack, a line for each study and program.
pub(super) fn missing(studies: &[&str]) -> Vec<String> {
    let chosen = NEEDS.iter().filter(|(study, _)| studies.contains(study));
    let each = chosen.flat_map(|(study, needs)| needs.iter().map(move |need| (study, need)));
    let lines = each.filter_map(|(study, (program, package))| {
        let error = require(program, package).err()?;
        Some(format!(
            "study {study}: the live half will be left out: {error}"
        ))
    });
    lines.collect()
}

/// This host.
pub(super) struct Host {
    bar: Mutex<Option<ProgressBar>>,
    /// Where captures go.
    pcap: Option<PathBuf>,
    /// Why one couldn't be written.
    failed: Mutex<Option<anyhow::Error>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.ends();
    }
}

impl Host {
    /// With captures written into this folder.
    pub(super) const fn new(pcap: Option<PathBuf>) -> Self {
        Self {
            bar: Mutex::new(None),
            pcap,
            failed: Mutex::new(None),
        }
    }

    /// Whether all captures could be written.
    pub(super) fn wrote(&self) -> anyhow::Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// The part that went on does so no more.
    fn ends(&self) {
        if let Some(bar) = self.bar.lock().ok().and_then(|mut bar| bar.take()) {
            bar.finish_and_clear();
        }
    }
}

/// What came of a live half; nothing where this host can't, and why.
fn or_left_out<T>(study: &str, came: Result<Vec<T>, impl Display>) -> Vec<T> {
    came.unwrap_or_else(|error| {
        eprintln!("strait: study {study}: the live half is left out: {error}");
        Vec::new()
    })
}

impl Outside for Host {
    fn begins(&self, part: &str, runs: usize) {
        self.ends();
        if let Ok(mut bar) = self.bar.lock() {
            *bar = Some(crate::output::progress(runs, &format!("study {part}")));
        }
    }

    fn done(&self) {
        if let Ok(bar) = self.bar.lock() {
            bar.iter().for_each(|bar| bar.inc(1));
        }
    }

    fn captured(&self, name: &str, octets: &[u8]) {
        let Some(folder) = &self.pcap else { return };
        if let Err(error) = write(&folder.join(name), octets)
            && let Ok(mut failed) = self.failed.lock()
        {
            failed.get_or_insert(error);
        }
    }

    fn shares(&self, study: &str, cases: &[ShareCase]) -> Vec<Vec<Share>> {
        self.begins(study, cases.len());
        or_left_out(study, shares(cases, &|| self.done()))
    }

    fn transfers(&self, study: &str, cases: &[(Case, String)]) -> Vec<Sent> {
        let of = |(case, congestion): &(Case, String)| {
            let config = |seed| TransferConfig {
                link: case.link.clone(),
                // As the simulated link is called: both lose the same frames.
                name: String::from("link0"),
                seed,
                octets: case.octets,
                congestion: congestion.clone(),
                start: case.start,
                limit: case.limit,
            };
            case.seeds.clone().map(config).collect::<Vec<_>>()
        };
        let configs: Vec<TransferConfig> = cases.iter().flat_map(of).collect();
        let sent = or_left_out(study, transfer::run_all(&configs, || self.done()));
        sent.into_iter().map(transferred).collect()
    }

    fn labs(&self, study: &str, labs: Vec<Loaded>, together: usize) -> Result<Vec<Sent>, String> {
        self.begins(study, labs.len());
        let brief = labs
            .into_iter()
            .map(|lab| (lab, Scenario::BASE.into(), true));
        let sent = all_labs(brief.collect(), together, &|outcome| {
            self.done();
            sent(&outcome)
        });
        or_said(study, sent)
    }

    fn pasts(&self, study: &str, labs: Vec<(Loaded, String)>, together: usize) -> Pasts {
        self.begins(study, labs.len());
        let whole = labs.into_iter().map(|(lab, variant)| (lab, variant, false));
        let pasts = all_labs(whole.collect(), together, &|outcome| {
            self.done();
            outcome.past
        });
        or_said(study, pasts)
    }
}

/// What came of labs; nothing where this host can't have any.
fn or_said<T>(study: &str, came: anyhow::Result<Vec<T>>) -> Result<Vec<T>, String> {
    came.or_else(|error| match error.downcast::<LabError>() {
        Ok(LabError::Host(error)) => Ok(or_left_out(study, Err(error))),
        Ok(error) => Err(error.to_string()),
        Err(error) => Err(format!("{error:#}")),
    })
}

fn transferred(sent: Transferred) -> Sent {
    let counters = sent.counters;
    let counts = [
        ("syns", Some(counters.syns)),
        ("timeouts", counters.timeouts),
        ("undone", Some(counters.undone)),
        ("retransmissions", Some(counters.retransmissions)),
    ];
    let told = counts.into_iter();
    Sent {
        time_s: sent.time_s.unwrap_or(f64::INFINITY),
        congestion: sent.congestion,
        counts: told
            .filter_map(|(name, count)| Some((name.into(), count? as f64)))
            .collect(),
    }
}

/// All cases at once, each in a namespace of its own.
fn shares(cases: &[ShareCase], done: &(dyn Fn() + Sync)) -> Result<Vec<Vec<Share>>, Error> {
    let benches = cases.iter().map(set_up);
    let mut benches = benches.collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        let runs = benches.iter_mut().zip(cases).map(|(bench, case)| {
            scope.spawn(|| {
                let flows: Vec<Offered> = case.flows.iter().map(offered).collect();
                let came = bench.run(&flows, case.warm_up, case.window, &|| false)?;
                done();
                take_away(bench)?;
                let share = |came: Came| Share {
                    sent: came.sent,
                    rate_bit_s: came.rate_bit_s(case.window),
                    delays_s: came.delays_ns.iter().map(|it| *it as f64 / 1e9).collect(),
                };
                Ok(came.into_iter().map(share).collect())
            })
        });
        let runs: Vec<_> = runs.collect();
        let results = runs
            .into_iter()
            .map(|run| run.join().unwrap_or(Ok(Vec::new())));
        results.collect()
    })
}

fn set_up(case: &ShareCase) -> Result<QueueBench, Error> {
    let bench = QueueBench::create(&case.name)?;
    let exported = export(&case.policy, INTERFACE, Some(case.line), Queues::Plain);
    let exported = exported.map_err(|error| {
        let what = format!("export the policy of `{}`", case.name);
        Error::invalid(what, error.to_string())
    })?;
    apply(&exported, bench.namespace())?;
    Ok(bench)
}

/// Both halves of the policy were there all the time, and can be taken away.
fn take_away(bench: &QueueBench) -> Result<(), Error> {
    let table = Export::table(INTERFACE);
    if remove(INTERFACE, &table, bench.namespace())? {
        return Ok(());
    }
    Err(Error::invalid(
        "remove the policy",
        "nothing of it is there",
    ))
}

fn offered(flow: &ShareFlow) -> Offered {
    Offered {
        port: flow.port,
        dscp: flow.dscp.number(),
        octets: flow.octets.0 as u32,
        pace: match flow.gap {
            None => Pace::Backlogged,
            Some(gap) if flow.poisson => Pace::Poisson(gap.0),
            Some(gap) => Pace::Periodic(gap.0),
        },
    }
}

/// A lab with its variant; true if it may end as soon as its traffic has.
type Job = (Loaded, String, bool);

/// Several labs at once: what each does is little, and mostly waiting. What `of` makes of each.
fn all_labs<T: Clone + Default + Send>(
    labs: Vec<Job>,
    together: usize,
    of: &(dyn Fn(Outcome) -> T + Sync),
) -> anyhow::Result<Vec<T>> {
    let stop = Stop::on_signals()?;
    let mut came = vec![T::default(); labs.len()];
    let left: VecDeque<(Job, &mut T)> = labs.into_iter().zip(&mut came).collect();
    let left = Mutex::new(left);
    let next = || left.lock().ok().and_then(|mut left| left.pop_front());
    let work = || {
        while let Some((lab, slot)) = next() {
            match once(&lab, &stop) {
                Ok(outcome) => *slot = of(outcome),
                Err(error) => {
                    // The others needn't begin.
                    while next().is_some() {}
                    return Err(error);
                }
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..together).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            let failed = |_| Err(anyhow::Error::msg("a lab has failed"));
            worker.join().unwrap_or_else(failed)
        })
    })?;
    drop(left);
    Ok(came)
}

fn once((loaded, variant, brief): &Job, stop: &Stop) -> anyhow::Result<Outcome> {
    let options = LabOptions {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        variant: variant.clone(),
        keep: None,
        kernel: None,
        brief: *brief,
    };
    let mut lab = Lab::set_up(loaded, &options, stop)?;
    let ended = lab.run(stop, |_| ());
    lab.tear_down();
    Ok(ended?)
}

fn sent(outcome: &Outcome) -> Sent {
    let time_s = outcome.metrics.get("file.time_s").copied();
    let sent = ["frames", "octets"].map(|what| (what.into(), counted(outcome, what)));
    let mut counts = outcome.metrics.clone();
    counts.extend(sent);
    Sent {
        time_s: time_s.unwrap_or(f64::INFINITY),
        congestion: String::new(),
        counts,
    }
}

/// What was sent on all links.
fn counted(outcome: &Outcome, what: &str) -> f64 {
    let links = outcome.links.iter();
    let ways = links.flat_map(|(_, stats)| stats["directions"].as_array().into_iter().flatten());
    ways.filter_map(|way| way[what].as_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_chosen_studies_need_is_looked_for() {
        assert!(missing(&["na", "hf"]).is_empty());
        let known = strait_sim::study::STUDIES.iter().map(|study| study.name);
        let known: Vec<&str> = known.collect();
        for (study, _) in NEEDS {
            assert!(known.contains(&study), "{study}");
        }
    }
}
