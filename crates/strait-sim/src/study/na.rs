//! The study `na`: calls beside data on one narrow line, as a network adapter carries them.

mod errors;
mod figures;
mod headers;
mod networks;
mod rows;
mod ways;

use serde::Deserialize;
use strait_core::delay::DelayPart;
use strait_core::keys::KeyError;
use strait_core::stats::Stats;
use strait_core::units::{BitRate, Octets, Time};
use strait_core::{Duration, Fate, Instant};
use strait_node::config_text::{self, ConfigError};
use strait_qos::Dscp;
use strait_scenario::{Loaded, Scenario};
use strait_traffic::{FlowReport, Kind, TrafficConfig, TrafficKeys};

use self::rows::Rows;
pub(super) use self::rows::{WAIT_S, added};
use super::scenario::{Part, load};
use super::shown::Shapes;
use super::{Asked, Measured, SetUp, StudyError, na_pairs, run_all};
use crate::build::{BuildError, Built, build};
use crate::run::logs;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NaStudy {
    /// Which study the file is of: `na`.
    study: String,
    /// When calls begin.
    call_start: Time,
    /// When data begins.
    data_start: Time,
    /// When nothing new is sent any more.
    stop: Time,
    /// Length of a run.
    duration: Time,
    /// Octets of echo requests beside calls.
    ping_payloads: Vec<Octets>,
    /// Time between two of them.
    ping_period: Time,
    /// Octets of echo requests whose time is set against their size.
    slope_payloads: Vec<Octets>,
    /// How many of each.
    slope_count: u64,
    /// Time between two of them: longer than the longest takes.
    slope_period: Time,
    /// Octets of datagrams that fill the line.
    bulk_payload: Octets,
    /// Their rate.
    bulk_rate: BitRate,
    /// Octets of a file.
    tcp_octets: Octets,
    /// What calls are made of.
    #[serde(rename = "vocoder")]
    vocoders: Vec<Vocoder>,
    /// Scenarios at points: `errors`.
    #[serde(default, rename = "part")]
    parts: Vec<Part>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// What a call's packets are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vocoder {
    /// Its name in tables.
    name: String,
    /// Octets behind the RTP header.
    payload: Octets,
    /// Time between packets.
    period: Time,
}

/// What goes beside calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    /// Nothing.
    Nothing,
    /// Nothing either, and one side of the call talks at a time.
    TalkSpurts,
    /// Nothing either, and UDP checksums are left out and rebuilt.
    Rebuilt,
    /// Echo requests with so many octets.
    Ping(u64),
    /// Two hosts' echo requests with 64 octets.
    TwoPings,
    /// Datagrams that fill the line one way.
    Bulk,
    /// A file.
    Ftp,
    /// Two files, one each way.
    TwoFiles,
    /// Echo requests of every size, one after another.
    Slope,
    /// 200 flows that press on the line from both sides, and two hosts that talk to their networks
    /// a hundred times more than usual.
    Storm,
}

/// Flows of [`Data::Storm`].
const STORM_FLOWS: usize = 200;
/// The payload rate of each: all of one side together are five times the line.
const STORM_RATE: BitRate = BitRate(384);
/// Time between two rounds of questions to everybody.
const STORM_PERIOD: Time = Time(Duration::from_millis(100));

impl Data {
    /// Calls are alone.
    const fn is_nothing(self) -> bool {
        matches!(self, Self::Nothing | Self::TalkSpurts | Self::Rebuilt)
    }

    /// The words in tables.
    fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::TalkSpurts => "nothing, in turns".into(),
            Self::Rebuilt => "nothing, checksums rebuilt".into(),
            Self::Ping(octets) => format!("ping {octets}"),
            Self::TwoPings => "two pings 64".into(),
            Self::Bulk => "datagrams".into(),
            Self::Ftp => "a file".into(),
            Self::TwoFiles => "two files".into(),
            Self::Slope => "pings of all sizes".into(),
            Self::Storm => "a storm".into(),
        }
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
struct NaCase {
    /// What calls are made of.
    vocoder: Vocoder,
    /// Calls at a time.
    calls: usize,
    /// What goes beside them.
    data: Data,
    /// By gateways that know no calls: whole packets in the order in which they come.
    fifo: bool,
}

/// A call's packet as the line carried it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OnLine {
    /// Which end sent it: 0 or 1.
    end: usize,
    /// When its last octet had left, in s.
    ended_s: f64,
    /// Octets on the line, framing in.
    octets: f64,
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq)]
struct NaRun {
    /// Each call.
    calls: Vec<FlowReport>,
    /// Each traffic beside them.
    data: Vec<FlowReport>,
    /// When every side of the calls had talked for a second, in s.
    settled_s: f64,
    /// When datagrams arrived, in s.
    bulk_s: Vec<f64>,
    /// Every packet of a call at both ends, in order.
    line: Vec<OnLine>,
    /// Octets of compressed headers for each packet after the calls' first second, checksum in.
    header_octets: Option<f64>,
    /// What became of predictions at both ends.
    gaps: Gaps,
    /// Packets without a fate: a bug unless 0.
    unexplained: u64,
    /// The run hash.
    hash: u64,
}

/// Predictions of the time from one packet of a call to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Gaps {
    /// How many were predicted.
    predicted: u64,
    /// Packets that nothing was predicted of.
    unforeseen: u64,
    /// How far off 95 of 100 predictions were at most, in s.
    error_p95_s: Option<f64>,
    /// Pieces of other packets that were cut to fit a gap.
    fitted: u64,
    /// Pieces of the least size.
    least: u64,
}

/// What [`Data::Rebuilt`] changes in both nodes.
const REBUILT: &str = r#"
name = "rebuilt"
node = { port = { line = { checksums = "rebuild" } } }
"#;
/// What a case without an adapter has: a plain link with one queue.
const FIFO: &str = r#"
name = "fifo"
node = { policy = { preset = "fifo" }, port = { line = { profile = "plain", compression = "none" } } }
"#;
const SEED: u64 = 1;
const ENDS: [&str; 2] = ["a", "b"];
const HOSTS: [&str; 2] = ["ha", "hb"];

impl NaStudy {
    /// Every case: for each number of calls of a vocoder first the calls alone.
    fn cases(&self) -> Vec<NaCase> {
        let mut cases = Vec::new();
        for vocoder in &self.vocoders {
            for calls in [1, 2] {
                let pings = self.ping_payloads.iter().map(|size| Data::Ping(size.0));
                let beside = pings.chain([Data::TwoPings, Data::Bulk, Data::Ftp, Data::TwoFiles]);
                let all = [Data::Nothing].into_iter().chain(beside);
                cases.extend(all.map(|data| NaCase::new(vocoder, calls, data)));
            }
        }
        for (place, vocoder) in self.vocoders.iter().enumerate() {
            let once = [
                (1, Data::TalkSpurts),
                (1, Data::Rebuilt),
                (1, Data::Storm),
                (0, Data::Slope),
            ];
            // Two calls of the second leave less than a long ping needs.
            let more = once.into_iter().chain([(2, Data::Slope)]);
            let more = more.filter(|_| place == 0).chain([(1, Data::Slope)]);
            cases.extend(more.map(|(calls, data)| NaCase::new(vocoder, calls, data)));
        }
        cases
    }

    /// The same without an adapter, for those of `cases` that an adapter isn't tried alone in.
    fn without_adapter(&self, asked: &Asked<'_>, cases: &[NaCase]) -> Vec<NaCase> {
        let first = self.vocoders.first();
        let own = cases.iter().filter(|case| {
            let quick = case.calls < 2 && Some(&case.vocoder) == first;
            (asked.full || quick) && !matches!(case.data, Data::TalkSpurts | Data::Rebuilt)
        });
        let fifo = own.cloned().map(|case| NaCase { fifo: true, ..case });
        fifo.collect()
    }

    /// When every side's first second is over: in turns, the second side's.
    fn settled(&self, case: &NaCase) -> Instant {
        let second = match case.data {
            Data::TalkSpurts => turn(&case.vocoder),
            _ => Duration::ZERO,
        };
        let period = case.vocoder.period.0;
        Instant::ZERO + self.call_start.0 + second + Duration::from_secs(1) + period
    }

    /// How long each size of [`Data::Slope`] has.
    fn slope_span(&self) -> Duration {
        let count = u32::try_from(self.slope_count).unwrap_or(u32::MAX);
        self.slope_period.0.saturating_mul(count.saturating_add(2))
    }

    fn stop(&self, data: Data) -> Duration {
        match data {
            Data::Slope => {
                let sizes = self.slope_payloads.len() as u32;
                self.data_start.0 + self.slope_span().saturating_mul(sizes)
            }
            _ => self.stop.0,
        }
    }

    /// The traffic of a case. Calls have even ports, by which their kind is told at once.
    fn traffic(&self, case: &NaCase) -> Vec<TrafficKeys> {
        let stop = self.stop(case.data);
        let data = self.data(case.data, stop);
        let call = |number: usize| TrafficKeys {
            start: Time(self.call_start.0 + Duration::from_millis(7).saturating_mul(number as u32)),
            stop: Some(Time(stop)),
            dscp: Dscp::EF,
            payload: Some(case.vocoder.payload),
            period: Some(case.vocoder.period),
            both_ways: Some(true),
            turns: (case.data == Data::TalkSpurts).then(|| Time(turn(&case.vocoder))),
            ..traffic(&format!("call{number}"), Kind::Voice, [0, 1])
        };
        let mut all = Vec::new();
        let mut data = data.into_iter();
        for number in 0..case.calls {
            all.push(call(number));
            all.push(data.next().unwrap_or_else(|| TrafficKeys {
                start: Time(self.duration.0.saturating_mul(100)),
                count: Some(1),
                ..traffic(&format!("none{number}"), Kind::Ping, [0, 1])
            }));
        }
        all.extend(data);
        all
    }

    fn data(&self, data: Data, stop: Duration) -> Vec<TrafficKeys> {
        let (start, stop) = (self.data_start, Some(Time(stop)));
        let ping = |name: &str, octets: u64, ends| TrafficKeys {
            start,
            stop,
            payload: Some(Octets(octets)),
            period: Some(self.ping_period),
            ..traffic(name, Kind::Ping, ends)
        };
        let file = |name: &str, ends| TrafficKeys {
            start,
            octets: Some(self.tcp_octets),
            ..traffic(name, Kind::Tcp, ends)
        };
        match data {
            Data::Nothing | Data::TalkSpurts | Data::Rebuilt => Vec::new(),
            Data::Ping(octets) => vec![ping("ping", octets, [0, 1])],
            Data::TwoPings => vec![ping("ping", 64, [0, 1]), ping("ping back", 64, [1, 0])],
            Data::Bulk => vec![TrafficKeys {
                start,
                stop,
                payload: Some(self.bulk_payload),
                rate: Some(self.bulk_rate),
                ..traffic("bulk", Kind::Udp, [0, 1])
            }],
            Data::Ftp => vec![file("file", [0, 1])],
            Data::TwoFiles => vec![file("file", [0, 1]), file("file back", [1, 0])],
            Data::Slope => {
                let sizes = (0..).zip(&self.slope_payloads);
                let of_size = |(place, octets): (u32, &Octets)| TrafficKeys {
                    start: Time(start.0 + self.slope_span().saturating_mul(place)),
                    period: Some(self.slope_period),
                    count: Some(self.slope_count),
                    ..ping(&format!("ping{}", octets.0), octets.0, [0, 1])
                };
                sizes.map(of_size).collect()
            }
            Data::Storm => {
                let ends = |number: usize| [number % 2, (number + 1) % 2];
                let flow = |number: usize| TrafficKeys {
                    start,
                    stop,
                    payload: Some(Octets(64 + 32 * (number as u64 % 40))),
                    rate: Some(STORM_RATE),
                    poisson: Some(true),
                    ..traffic(&format!("flow{number}"), Kind::Udp, ends(number))
                };
                let talker = |number: usize| TrafficKeys {
                    start,
                    stop,
                    period: Some(STORM_PERIOD),
                    ..traffic(&format!("talker{number}"), Kind::Chatter, ends(number))
                };
                let flows = (0..STORM_FLOWS).map(flow);
                flows.chain((0..2).map(talker)).collect()
            }
        }
    }
}

impl NaCase {
    fn new(vocoder: &Vocoder, calls: usize, data: Data) -> Self {
        let vocoder = vocoder.clone();
        Self {
            vocoder,
            calls,
            data,
            fifo: false,
        }
    }
}

/// How long one side of a call in turns talks: about 10 s.
fn turn(vocoder: &Vocoder) -> Duration {
    let periods = 10_000 / vocoder.period.0.as_millis().max(1);
    vocoder.period.0.saturating_mul(periods as u32)
}

fn traffic(name: &str, kind: Kind, [from, to]: [usize; 2]) -> TrafficKeys {
    TrafficKeys {
        from: HOSTS[from].into(),
        to: HOSTS[to].into(),
        ..TrafficKeys::plain(name, kind)
    }
}

impl SetUp for NaStudy {
    const PARTS: &'static [&'static str] = &[
        "calls", "sizes", "slopes", "gap", "pairs", "ways", "networks", "headers", "errors",
    ];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn inherit(&mut self, usual: Self) {
        if self.parts.is_empty() {
            self.parts = usual.parts;
        }
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let first = self.vocoders.first();
        let mut cases = self.cases();
        if !asked.full {
            cases.retain(|case| {
                let quick = case.calls < 2 && Some(&case.vocoder) == first;
                quick || case.data != Data::Slope
            });
        }
        cases.extend(self.without_adapter(asked, &cases));
        let mut measured = Measured::of("calls", Vec::new(), [SEED]);
        let runs = self.run_cases(asked, "na", &load("lab/adapter.toml")?, &cases)?;
        measured.fold_whole(runs.iter().map(|run| run.hash));
        let rows = Rows {
            study: self,
            runs: cases.iter().zip(&runs).collect(),
        };
        measured.parts.insert("calls", rows.calls());
        measured.parts.insert("sizes", rows.sizes());
        measured.parts.insert("slopes", rows.straights());
        if asked.figures {
            measured.figures = figures::all(&rows);
        }
        // The same on a link for frames, where nothing can be suspended.
        cases = self.cases();
        cases.retain(|case| case.data != Data::Slope);
        cases.extend(self.without_adapter(asked, &cases));
        let runs = self.run_cases(asked, "na-gap", &load("lab/adapter-frames.toml")?, &cases)?;
        measured.fold_whole(runs.iter().map(|run| run.hash));
        let rows = Rows {
            study: self,
            runs: cases.iter().zip(&runs).collect(),
        };
        measured.parts.insert("gap", rows.calls());
        na_pairs::run(asked, &mut measured)?;
        ways::run(asked, &mut measured)?;
        networks::run(&self.parts, asked, &mut measured)?;
        headers::run(&self.parts, asked, &mut measured)?;
        errors::run(&self.parts, asked, &mut measured)?;
        Ok(measured)
    }
}

impl NaStudy {
    fn run_cases(
        &self,
        asked: &Asked<'_>,
        part: &str,
        base: &Loaded,
        cases: &[NaCase],
    ) -> Result<Vec<NaRun>, BuildError> {
        run_all(asked, part, cases, |case| {
            run_once(self, base, case, (part, asked))
        })
    }
}

impl NaCase {
    /// As captures of it are called.
    fn name(&self, part: &str) -> String {
        let fifo = if self.fifo { "-fifo" } else { "" };
        let (vocoder, calls, data) = (&self.vocoder.name, self.calls, self.data.name());
        format!("{part}-{vocoder}-{calls}-{data}{fifo}")
    }
}

fn sorted_out(traffic: Vec<TrafficKeys>) -> Result<Vec<TrafficConfig>, ConfigError> {
    let all = traffic.into_iter().map(TrafficConfig::try_from);
    let all: Result<_, KeyError> = all.collect();
    all.map_err(|error| ConfigError::of_file("traffic", error.to_string()))
}

fn run_once(
    study: &NaStudy,
    base: &Loaded,
    case: &NaCase,
    (part, asked): (&str, &Asked<'_>),
) -> Result<NaRun, BuildError> {
    let mut loaded = base.clone();
    loaded.scenario.traffic = sorted_out(study.traffic(case))?;
    loaded.scenario.faults.clear();
    let mut variant = Scenario::BASE;
    for (name, text, wanted) in [
        ("rebuilt", REBUILT, case.data == Data::Rebuilt),
        ("fifo", FIFO, case.fifo),
    ] {
        if wanted {
            loaded.scenario.variants = vec![config_text::parse(name, text)?];
            variant = name;
        }
    }
    let mut built = build(&loaded, variant, asked.seed(SEED))?;
    built.world.keep_fates();
    asked.watch(&mut built.world);
    let settled = study.settled(case);
    built.world.run_until(settled);
    let before = carried(&built);
    let extra = study.duration.0.saturating_sub(study.stop.0);
    built
        .world
        .run_until(Instant::ZERO + study.stop(case.data) + extra);
    built.world.check();
    asked.keep(&case.name(part), &mut built.world);
    let after = carried(&built);
    let [packets, octets] = [0, 1].map(|part| (after[part] - before[part]) as f64);
    let header = octets / packets - case.vocoder.payload.0 as f64;
    let adapter = !case.fifo && case.data.is_nothing() && packets > 0.0;
    let line = line(&built);
    let reports = |voice: bool| -> Vec<FlowReport> {
        let all = loaded.scenario.traffic.iter();
        let own = all.filter(|it| (it.kind == Kind::Voice) == voice);
        own.flat_map(|config| {
            let [from, to] = logs(config, &built);
            strait_traffic::flow_reports(config, &from, &to)
        })
        .collect()
    };
    let bulk = loaded
        .scenario
        .traffic
        .iter()
        .find(|it| it.kind == Kind::Udp);
    let bulk_s = bulk.map_or_else(Vec::new, |config| {
        let [_, to] = logs(config, &built);
        let times = to.received.iter().map(|mark| mark.at_ns as f64 / 1e9);
        times.collect()
    });
    Ok(NaRun {
        calls: reports(true),
        data: reports(false),
        settled_s: settled.as_secs_f64(),
        bulk_s,
        line,
        // Other packets' headers are in the same count.
        header_octets: adapter.then_some(header),
        gaps: gaps(&built),
        unexplained: built.world.unexplained(),
        hash: built.world.hash(),
    })
}

fn gaps(built: &Built) -> Gaps {
    let stats = built.world.stats().filter(|(name, _)| ENDS.contains(name));
    let ports = stats.flat_map(|(_, stats): (_, &Stats)| &stats.ports);
    ports.fold(Gaps::default(), |worst, port| {
        let own = &port.flows.gaps;
        let error_s = own.error.quantile_ns(0.95).map(|ns| ns as f64 / 1e9);
        Gaps {
            predicted: worst.predicted + own.error.count(),
            unforeseen: worst.unforeseen + own.unforeseen,
            error_p95_s: worst
                .error_p95_s
                .into_iter()
                .chain(error_s)
                .reduce(f64::max),
            fitted: worst.fitted + own.fitted,
            least: worst.least + own.least,
        }
    })
}

/// Urgent packets of both ends so far, and octets of everything compressed.
fn carried(built: &Built) -> [u64; 2] {
    let stats = built.world.stats().filter(|(name, _)| ENDS.contains(name));
    let ports = stats.flat_map(|(_, stats): (_, &Stats)| &stats.ports);
    ports.fold([0; 2], |sum, port| {
        [sum[0] + port.urgent.frames, sum[1] + port.compressed_octets]
    })
}

/// Packets of the class that calls are in, with the octets that their time on the line makes.
fn line(built: &Built) -> Vec<OnLine> {
    let octet_ns = 10.0 / 9600.0 * 1e9;
    let ends = ENDS.map(|name| built.node(name));
    let fates = built.world.fates().iter().filter_map(|entry| {
        let end = ends.iter().position(|end| *end == Some(entry.node))?;
        let record = &entry.record;
        let forwarded = matches!(record.fate, Fate::Forwarded { .. });
        (forwarded && record.class.0 == 0).then(|| OnLine {
            end,
            ended_s: record.ended.as_secs_f64(),
            octets: (record.parts.part_ns(DelayPart::Line) as f64 / octet_ns).round(),
        })
    });
    fates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_comes_after_its_calls_alone_and_calls_have_even_places() {
        let text = include_str!("../../../../scenarios/studies/na.toml");
        let study = config_text::parse::<NaStudy>("na.toml", text).unwrap();
        let cases = study.cases();
        assert_eq!(cases.len(), 2 * 2 * 12 + 7);
        for case in &cases {
            let traffic = study.traffic(case);
            for (place, config) in traffic.iter().enumerate() {
                TrafficConfig::try_from(config.clone()).unwrap();
                assert!(config.kind != Kind::Voice || place % 2 == 0);
            }
            let calls = traffic.iter().filter(|it| it.kind == Kind::Voice).count();
            assert_eq!(calls, case.calls);
        }
    }
}
