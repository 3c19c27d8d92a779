//! The live part of the study `hbh`: this kernel's own TCP over reliable links, and over this
//! kernel's own routers.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use anyhow::Context;
use strait_live::lab::{Lab, LabError, LabOptions, Outcome, Stop};
use strait_report::estimate::percentile;
use strait_report::table::{Check, Column, Table};
use strait_scenario::{Loaded, Scenario};
use strait_sim::study::hbh::{HbhLive, HbhLiveCheck, Quantity};
use toml::Value;

use super::super::{Options, left_out, progress};
use super::pressure::NoFiles;
use super::{NAME, finite};

/// What carries the packets, with the scenario that says how.
const CARRIERS: [(&str, &str); 2] = [
    (
        "kernel",
        include_str!("../../../../../../scenarios/studies/hbh-live-kernel.toml"),
    ),
    (
        "strait",
        include_str!("../../../../../../scenarios/studies/hbh-live.toml"),
    ),
];

/// A file sent once.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// `INFINITY`: it didn't come in time.
    time_s: f64,
    frames: f64,
    octets: f64,
}

/// Where in the table a file belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    loss: usize,
    endpoint: usize,
    carrier: usize,
}

/// Runs every file, several labs at once: what each does is little, and mostly waiting.
///
/// Nothing comes of it where this host can have no lab, or nobody asked for all.
pub(super) fn run(
    live: &HbhLive,
    options: &Options<'_>,
) -> anyhow::Result<(Option<Table>, Vec<Check>)> {
    let mut sent = Vec::new();
    if options.live && options.full {
        sent = all(live).or_else(|error| match error.downcast::<LabError>() {
            Ok(LabError::Host(error)) => {
                left_out(NAME, &error);
                Ok(Vec::new())
            }
            Ok(error) => Err(anyhow::Error::msg(error.to_string())),
            Err(error) => Err(error),
        })?;
    }
    let checks = live.checks.iter().map(|it| check(live, it, &sent));
    let table = (!sent.is_empty()).then(|| table(live, &sent));
    Ok((table, checks.collect()))
}

fn all(live: &HbhLive) -> anyhow::Result<Vec<(Place, Sent)>> {
    let mut bases = Vec::new();
    for (_, text) in CARRIERS {
        bases.push(Scenario::load_text(
            &NoFiles,
            Path::new("hbh-live.toml"),
            text,
        )?);
    }
    let mut jobs = VecDeque::new();
    for run in 0..live.runs {
        for place in places(live) {
            let point = vec![
                (
                    "link.*.loss".into(),
                    Value::Float(live.losses[place.loss].0),
                ),
                (
                    "traffic.file.endpoint".into(),
                    Value::String(live.endpoints[place.endpoint].clone()),
                ),
            ];
            let mut loaded = bases[place.carrier].at(&point)?;
            loaded.scenario.seed += run;
            jobs.push_back((place, loaded));
        }
    }
    let bar = progress(NAME, jobs.len());
    let stop = Stop::on_signals()?;
    let left = Mutex::new(jobs);
    let done = Mutex::new(Ok(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..live.together.max(1) {
            scope.spawn(|| {
                while let Some((place, loaded)) = left.lock().ok().and_then(|mut it| it.pop_front())
                {
                    let sent = once(&loaded, &stop);
                    bar.inc(1);
                    let Ok(mut done) = done.lock() else { return };
                    match (&mut *done, sent) {
                        (Ok(all), Ok(sent)) => all.push((place, sent)),
                        (Ok(_), Err(error)) => *done = Err(error),
                        (Err(_), _) => return,
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    done.into_inner()
        .map_err(|_| anyhow::Error::msg("a lab has failed"))?
}

fn once(loaded: &Loaded, stop: &Stop) -> anyhow::Result<Sent> {
    let options = LabOptions {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        variant: Scenario::BASE.into(),
        keep: None,
        brief: true,
    };
    let mut lab = Lab::set_up(loaded, &options, stop)?;
    let ended = lab.run(stop, |_| ());
    lab.tear_down();
    let outcome = ended?;
    let time_s = outcome.metrics.get("file.time_s").copied();
    Ok(Sent {
        time_s: time_s.unwrap_or(f64::INFINITY),
        frames: counted(&outcome, "frames"),
        octets: counted(&outcome, "octets"),
    })
}

/// What was sent on all links.
fn counted(outcome: &Outcome, what: &str) -> f64 {
    let links = outcome.links.iter();
    let ways = links.flat_map(|(_, stats)| stats["directions"].as_array().into_iter().flatten());
    ways.filter_map(|way| way[what].as_f64()).sum()
}

fn places(live: &HbhLive) -> impl Iterator<Item = Place> + '_ {
    (0..live.losses.len()).flat_map(move |loss| {
        (0..live.endpoints.len()).flat_map(move |endpoint| {
            (0..CARRIERS.len()).map(move |carrier| Place {
                loss,
                endpoint,
                carrier,
            })
        })
    })
}

fn values(sent: &[(Place, Sent)], place: Place, of: Quantity) -> Vec<f64> {
    let there = sent.iter().filter(|(at, _)| *at == place);
    let value = |(_, sent): &(Place, Sent)| match of {
        Quantity::Time => sent.time_s,
        Quantity::Frames => sent.frames,
        Quantity::Octets => sent.octets,
    };
    there.map(value).collect()
}

fn at(values: &[f64], share: f64) -> Option<f64> {
    percentile(values, share).and_then(finite)
}

fn table(live: &HbhLive, sent: &[(Place, Sent)]) -> Table {
    let columns = [
        ("loss", ""),
        ("endpoint", ""),
        ("carried by", ""),
        ("runs", ""),
        ("late", ""),
        ("median", "s"),
        ("lower quartile", "s"),
        ("upper quartile", "s"),
        ("frames", ""),
        ("octets", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("hbh-live", columns.into());
    for place in places(live) {
        let times = values(sent, place, Quantity::Time);
        let late = times.iter().filter(|time| time.is_infinite()).count();
        let median = |of| at(&values(sent, place, of), 0.5);
        table.push(vec![
            live.losses[place.loss].0.into(),
            live.endpoints[place.endpoint].as_str().into(),
            CARRIERS[place.carrier].0.into(),
            (times.len() as f64).into(),
            (late as f64).into(),
            at(&times, 0.5).into(),
            at(&times, 0.25).into(),
            at(&times, 0.75).into(),
            median(Quantity::Frames).into(),
            median(Quantity::Octets).into(),
        ]);
    }
    table
}

/// Reliable links under one sender, in proportion to the kernel's routers under another.
fn check(live: &HbhLive, check: &HbhLiveCheck, sent: &[(Place, Sent)]) -> Check {
    let median = |carrier: usize, endpoint: &str| {
        let loss = live.losses.iter().position(|it| *it == check.loss)?;
        let endpoint = live.endpoints.iter().position(|it| it == endpoint)?;
        let place = Place {
            loss,
            endpoint,
            carrier,
        };
        percentile(&values(sent, place, check.quantity), 0.5)
    };
    let pair = median(1, &check.endpoint).zip(median(0, &check.against));
    let ratio = pair.map(|(own, other)| own / other).and_then(finite);
    let check_of = Check::range(&check.id, ratio, "", None, Some(check.max));
    // What wasn't run isn't judged.
    if sent.is_empty() {
        check_of
    } else {
        check_of.failed()
    }
}
