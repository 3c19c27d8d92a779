//! A test that adds flows by the minute: what each of them got in each minute.

use serde::Deserialize;
use strait_core::units::{Octets, Time};
use strait_node::config_text::ConfigError;
use strait_report::estimate::mean;
use strait_report::scatter::{Figure, Marks};
use strait_traffic::FlowReport;

use super::super::scenario::{Part, Place, run_places};
use super::super::shown::Row;
use super::super::{Asked, StudyError};
use super::K;
use crate::run::Run;

/// The tests, and what of them is told.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Steps {
    /// Scenarios at rates of the physical layer.
    part: Vec<Part>,
    /// When a test begins.
    begins: Time,
    /// How long until the next flows begin.
    step: Time,
    /// How often.
    steps: u32,
    /// Who they are.
    flow: Vec<Flow>,
    /// Pictures of rates over time.
    #[serde(default)]
    figure: Vec<Picture>,
    /// What the paper has.
    #[serde(default)]
    paper: Vec<Paper>,
}

/// The paper's results.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paper {
    /// Of which part.
    hops: String,
    /// Delay of the audio without precedence and with it.
    delay: [Time; 2],
    /// Its rate in 1024 bit/s, if it is told.
    rate: Option<[f64; 2]>,
    /// All flows together, in 1024 bit/s.
    sum: f64,
}

/// One of a test's flows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flow {
    /// What tables call it.
    name: String,
    /// What the scenario calls it: a traffic, or `TRAFFIC.FLOW` of a script.
    of: String,
    /// Octets of its packets with their headers; a flow over TCP has none, and counts its stream.
    packet: Option<Octets>,
}

/// Rates over time, as SVG.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Picture {
    /// Name of its file, without the ending.
    name: String,
    /// Its heading.
    title: String,
    /// Of which part.
    of: String,
    /// At which rate of the physical layer; any if absent.
    rate: Option<String>,
    /// Of which variants.
    variants: Vec<String>,
    /// Of which flows.
    flows: Vec<String>,
}

/// The flow that the paper tells most of, and the class that is policed.
const AUDIO: &str = "audio";
const EXPEDITED: &str = "ef";

/// Between two points of a picture, in s.
const BIN_S: f64 = 10.0;

/// What came of a flow in a window of time.
#[derive(Default)]
struct Got {
    /// In 1024 bit/s: with headers of what arrived in it, or of the stream.
    rate_k: f64,
    /// Of the packets sent in it.
    loss: Option<f64>,
    /// Of those that arrived, on the mean, in s.
    delay_s: Option<f64>,
}

impl Flow {
    /// What it got from one time to another.
    fn got(&self, run: &Run, [from_s, until_s]: [f64; 2]) -> Got {
        let within = |at_s: f64| (from_s..until_s).contains(&at_s);
        let Some(report) = run.flows.iter().find(|it| it.name == self.of) else {
            return Got::default();
        };
        let bits_k = |octets: f64| octets * 8.0 / (until_s - from_s) / K;
        let Some(packet) = self.packet else {
            let until = |end_s: f64| {
                let points = points(report, "progress");
                let before = points.iter().filter(|(at_s, _)| *at_s < end_s);
                before.map(|(_, position)| *position).fold(0.0, f64::max)
            };
            return Got {
                rate_k: bits_k(until(until_s) - until(from_s)),
                ..Got::default()
            };
        };
        let points = points(report, "delay");
        let arrived = points.iter().filter(|it| within(it.0 + it.1)).count();
        let sent = points.iter().filter(|it| within(it.0));
        let delays: Vec<f64> = sent.map(|it| it.1).collect();
        let lost = report.lost_s.iter().filter(|at_s| within(**at_s)).count();
        let all = delays.len() + lost;
        Got {
            rate_k: bits_k((packet.0 * arrived as u64) as f64),
            loss: (all > 0).then(|| lost as f64 / all as f64),
            delay_s: mean(&delays),
        }
    }
}

fn points<'a>(report: &'a FlowReport, label: &str) -> &'a [(f64, f64)] {
    let series = report.series.iter().find(|it| it.label == label);
    series.map_or(&[], |it| &it.points[..])
}

/// What came of the tests.
pub(super) struct Stepped {
    pub(super) rows: Vec<Row>,
    pub(super) figures: Vec<(String, String)>,
    pub(super) hashes: Vec<u64>,
}

impl Steps {
    /// Runs all of them, with as many seeds as asked for at least.
    pub(super) fn run(&self, asked: &Asked<'_>, seeds: u64) -> Result<Stepped, StudyError> {
        let mut all = Stepped {
            rows: Vec::new(),
            figures: Vec::new(),
            hashes: Vec::new(),
        };
        let mut lines: Vec<Vec<Marks>> = vec![Vec::new(); self.figure.len()];
        for part in &self.part {
            let places = super::with_seeds(part.places()?, seeds);
            let runs = run_places(asked, part.name(), &places)?;
            all.hashes.extend(runs.iter().flatten().map(|run| run.hash));
            for (place, runs) in places.iter().zip(&runs) {
                let steps = 0..self.steps;
                let rows = steps.map(|step| self.row(part.name(), place, step, runs));
                all.rows.extend(rows);
                for (picture, lines) in self.figure.iter().zip(&mut lines) {
                    if picture.has(part.name(), place) {
                        lines.extend(self.lines(picture, place, runs));
                    }
                }
            }
        }
        if asked.figures {
            let drawn = self.figure.iter().zip(lines);
            let drawn = drawn.map(|(picture, marks)| {
                let figure = Figure {
                    title: picture.title.clone(),
                    across: "time of the test [s]".into(),
                    up: "rate [kbit/s of 1024]".into(),
                    marks,
                };
                (format!("{}.svg", picture.name), figure.to_svg())
            });
            all.figures = drawn.collect();
        }
        Ok(all)
    }

    /// # Errors
    /// A flow that a picture names and that isn't there.
    pub(super) fn check(&self, file: &str) -> Result<(), ConfigError> {
        let known = |name: &&String| !self.flow.iter().any(|it| it.name == **name);
        let mut named = self.figure.iter().flat_map(|it| &it.flows);
        named.find(known).map_or(Ok(()), |name| {
            let message = format!("steps.figure: no flow `{name}` in [[steps.flow]]");
            Err(ConfigError::of_file(file, message))
        })
    }

    fn row(&self, hops: &str, place: &Place, step: u32, runs: &[Run]) -> Row {
        let length_s = self.step.0.as_secs_f64();
        let from_s = self.begins.0.as_secs_f64() + f64::from(step) * length_s;
        let window = [from_s, from_s + length_s];
        let mut row = place.row.clone().with("hops", hops);
        row = row.with("minute", f64::from(step + 1));
        let policed = runs.iter().map(|run| self.policed(run));
        row = row.with("policed", policed.collect::<Option<Vec<f64>>>());
        let mut sums = vec![0.0; runs.len()];
        for flow in &self.flow {
            let got: Vec<Got> = runs.iter().map(|run| flow.got(run, window)).collect();
            for (sum, got) in sums.iter_mut().zip(&got) {
                *sum += got.rate_k;
            }
            let of = |value: fn(&Got) -> Option<f64>| -> Option<Vec<f64>> {
                got.iter().map(value).collect()
            };
            row = row
                .with(format!("{}.rate_k", flow.name), of(|it| Some(it.rate_k)))
                .with(format!("{}.loss", flow.name), of(|it| it.loss))
                .with(format!("{}.delay_s", flow.name), of(|it| it.delay_s));
        }
        row.with("sum_k", sums)
    }

    /// What policers took of all the audio of a run; nothing where no class is expedited.
    fn policed(&self, run: &Run) -> Option<f64> {
        let audio = self.flow.iter().find(|it| it.name == AUDIO)?;
        let report = run.flows.iter().find(|it| it.name == audio.of)?;
        let sent = points(report, "delay").len() + report.lost_s.len();
        let classes = run.nodes.iter().flat_map(|node| &node.classes);
        let own = classes.filter(|it| it.name == EXPEDITED);
        let red = own.filter_map(|it| it.policed.get("red").copied());
        let all = red.reduce(|sum, it| sum + it)?;
        (sent > 0).then(|| all as f64 / sent as f64)
    }

    /// The last minute of a part at a rate in one row: what each variant came to, by
    /// `VARIANT.VALUE`, beside the paper's.
    pub(super) fn last(&self, rows: &[Row]) -> Vec<Row> {
        let last = f64::from(self.steps);
        let mut all: Vec<Row> = Vec::new();
        let mut keys: Vec<[&str; 2]> = Vec::new();
        for row in rows.iter().filter(|it| it.median("minute") == Some(last)) {
            let word = |name| row.word(name).unwrap_or_default();
            let (key, variant) = ([word("hops"), word("rate")], word("variant"));
            let known = keys.iter().position(|it| *it == key);
            let index = known.unwrap_or_else(|| {
                let paper = self.paper.iter().find(|it| it.hops == key[0]);
                let of = |value: fn(&Paper) -> f64| paper.map(value);
                let own = Row::default().with("hops", key[0]).with("rate", key[1]);
                all.push(
                    own.with("paper.without_s", of(|it| it.delay[0].0.as_secs_f64()))
                        .with("paper.with_s", of(|it| it.delay[1].0.as_secs_f64()))
                        .with("paper.without_k", paper.and_then(|it| Some(it.rate?[0])))
                        .with("paper.with_k", paper.and_then(|it| Some(it.rate?[1])))
                        .with("paper.sum_k", of(|it| it.sum)),
                );
                keys.push(key);
                keys.len() - 1
            });
            let values = ["audio.delay_s", "audio.rate_k", "audio.loss", "sum_k"];
            let named = values.map(|name| (format!("{variant}.{name}"), row.median(name)));
            all[index] = named
                .into_iter()
                .fold(all[index].clone(), |row, (name, value)| {
                    row.with(name, value)
                });
        }
        all
    }

    /// Of the first run, the lines of a picture.
    fn lines(&self, picture: &Picture, place: &Place, runs: &[Run]) -> Vec<Marks> {
        let Some(run) = runs.first() else {
            return Vec::new();
        };
        let begins_s = self.begins.0.as_secs_f64();
        let bins = (f64::from(self.steps) * self.step.0.as_secs_f64() / BIN_S) as u32;
        let flows = self.flow.iter();
        let drawn = flows.filter(|it| picture.flows.contains(&it.name));
        let line = |flow: &Flow| {
            let corner = |bin| {
                let at_s = f64::from(bin) * BIN_S;
                let from_s = begins_s + at_s;
                let got = flow.got(run, [from_s, from_s + BIN_S]);
                (at_s + BIN_S / 2.0, got.rate_k)
            };
            Marks {
                name: if picture.variants.len() > 1 {
                    place.variant.clone()
                } else {
                    flow.name.clone()
                },
                line: (0..bins).map(corner).collect(),
                ..Marks::default()
            }
        };
        drawn.map(line).collect()
    }
}

impl Picture {
    fn has(&self, part: &str, place: &Place) -> bool {
        self.of == part
            && self.variants.contains(&place.variant)
            && (self.rate.is_none() || self.rate.as_deref() == place.row.word("rate"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use strait_traffic::{Kind, Series};

    use super::*;

    fn run(report: FlowReport) -> Run {
        Run {
            variant: "fifo".into(),
            seed: 1,
            hash: 0,
            flows: vec![report],
            metrics: BTreeMap::new(),
            delays: Vec::new(),
            series: Vec::new(),
            nodes: Vec::new(),
            moments: Vec::new(),
            unexplained: 0,
            hops: 0,
            events: 0,
            captures: BTreeMap::new(),
            mgen_logs: BTreeMap::new(),
        }
    }

    fn report(label: &'static str, points: &[(f64, f64)], lost_s: &[f64]) -> FlowReport {
        let mut report = FlowReport::empty("flows.1".into(), Kind::Mgen);
        report.lost_s = lost_s.into();
        report.series.push(Series {
            label,
            unit: "",
            points: points.into(),
        });
        report
    }

    fn flow(packet: Option<u64>) -> Flow {
        Flow {
            name: AUDIO.into(),
            of: "flows.1".into(),
            packet: packet.map(Octets),
        }
    }

    #[test]
    fn a_packet_counts_for_the_rate_when_it_arrives_and_for_loss_and_delay_when_it_was_sent() {
        // Sent before the window and arriving in it; both in it; sent in it and arriving later.
        let points = [(9.5, 1.0), (12.0, 0.5), (19.9, 0.2)];
        let run = run(report("delay", &points, &[5.0, 13.0, 20.0]));
        let got = flow(Some(128)).got(&run, [10.0, 20.0]);
        assert!((got.rate_k - 2.0 * 128.0 * 8.0 / 10.0 / K).abs() < 1e-9);
        assert_eq!(got.loss, Some(1.0 / 3.0));
        assert!((got.delay_s.unwrap() - 0.35).abs() < 1e-9);
        let nothing = flow(Some(128)).got(&run, [30.0, 40.0]);
        assert_eq!((nothing.loss, nothing.delay_s), (None, None));
    }

    #[test]
    fn a_stream_counts_what_it_grew_by() {
        let points = [
            (9.0, 1000.0),
            (11.0, 2280.0),
            (19.0, 3560.0),
            (21.0, 9000.0),
        ];
        let run = run(report("progress", &points, &[]));
        let got = flow(None).got(&run, [10.0, 20.0]);
        assert!((got.rate_k - 2560.0 * 8.0 / 10.0 / K).abs() < 1e-9);
        assert!(got.loss.is_none());
    }

    #[test]
    fn the_last_minute_of_all_variants_is_one_row_beside_the_papers() {
        let text = include_str!("../../../../../scenarios/studies/manet.toml");
        let file: toml::Table = toml::from_str(text).unwrap();
        let steps: Steps = file["steps"].clone().try_into().unwrap();
        assert!(steps.check("manet.toml").is_ok());
        let row = |variant: &str, minute: f64, delay_s: f64| {
            Row::default()
                .with("rate", "1 Mbit/s")
                .with("variant", variant)
                .with("hops", "two")
                .with("minute", minute)
                .with("audio.delay_s", delay_s)
        };
        let rows = [
            row("fifo", 3.0, 9.0),
            row("fifo", 4.0, 2.0),
            row("strait", 4.0, 0.1),
        ];
        let last = steps.last(&rows);
        assert_eq!(last.len(), 1);
        assert_eq!(last[0].median("fifo.audio.delay_s"), Some(2.0));
        assert_eq!(last[0].median("strait.audio.delay_s"), Some(0.1));
        assert_eq!(last[0].median("paper.without_s"), Some(10.74));
        let mut wrong = steps;
        wrong.figure[0].flows = vec!["nobody".into()];
        let fault = wrong.check("manet.toml").unwrap_err();
        assert!(fault.to_string().contains("`nobody`"), "{fault}");
    }
}
