//! Worlds drawn from a distribution, with what the gateways have and with simple alternatives: is
//! there one in which an alternative is better for somebody and hardly worse for anybody? And
//! worlds that are named, with what each flow gets.

mod case;
mod judge;
mod world;

use serde::Deserialize;
use strait_core::hash::RunHash;
use strait_core::units::{BitRate, Octets, Share, Time};
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};

use super::limits::OCTETS_MAX;
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError, run_all};
use crate::build::BuildError;
use crate::run::run_plain;

use case::Case;
use judge::{Figure, Verdict};
use world::World;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GridStudy {
    /// Which study the file is of: `grid` or `leaf`.
    study: String,
    /// What the worlds follow from.
    seed: u64,
    /// How many there are.
    worlds: u64,
    /// Runs of each world each way, with paired seeds.
    runs: u64,
    /// The line's delay one way, drawn log-uniformly.
    delay: [Time; 2],
    /// Flows of a world, both included.
    flows: [u64; 2],
    /// As many of the longest packets as there are flows take at most so long, if the fewest do.
    wait: Option<Time>,
    /// Share of the worlds whose calls and datagrams carry code points.
    marked: Share,
    /// What sends by TCP; one for all transfers of a world, or in the share `mixed` one for each.
    endpoints: Vec<String>,
    mixed: Share,
    /// For how long the transfers of a world fill the line: so long, or as long as so many of the
    /// longest packets take, but not longer than `time_max`.
    time: Time,
    packets: u64,
    time_max: Time,
    /// And at least for so many round trips of the line.
    #[serde(default)]
    trips: u64,
    /// Transfers of a world have no more octets than this.
    octets_max: Option<Octets>,
    #[serde(rename = "line")]
    lines: Vec<Line>,
    /// Worlds with what each flow gets in them.
    #[serde(default, rename = "case")]
    cases: Vec<Case>,
    /// Keys of both gateways' files beside their defaults.
    #[serde(default)]
    node: toml::Table,
    /// What stands beside that.
    #[serde(rename = "alternative")]
    alternatives: Vec<Alternative>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// A kind of line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    /// Worlds have it in proportion to this.
    weight: u64,
    kind: Kind,
    /// Drawn log-uniformly. Of a serial line the signalling rate, of ten bits an octet.
    rate: [BitRate; 2],
    /// Of the port, one drawn for each world.
    profiles: Vec<String>,
    /// Share of the frames that are lost, one drawn for each world.
    #[serde(default)]
    losses: Vec<Share>,
    /// Share of the worlds whose losses come in bursts.
    #[serde(default = "never")]
    bursts: Share,
    /// Share of the bits that are wrong, one drawn for each world.
    #[serde(default)]
    bit_errors: Vec<Share>,
}

const fn never() -> Share {
    Share(0.0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Serial,
    Frames,
}

impl Kind {
    /// What a line of this rate carries of octets, in bit/s.
    fn carries(self, rate_bit_s: f64) -> f64 {
        match self {
            Self::Serial => rate_bit_s * 0.8,
            Self::Frames => rate_bit_s,
        }
    }
}

/// What one could have instead: another policy, on a link of whole packets as they are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alternative {
    /// Its name in tables.
    name: String,
    /// Keys of both gateways' files.
    node: toml::Table,
    /// The port's profile and compression stay those of the world.
    #[serde(default)]
    keeps_link: bool,
    /// What sends by TCP; as in the world if absent.
    endpoint: Option<String>,
    /// Kinds of line that have it; all if absent.
    lines: Option<Vec<String>>,
}

/// Flows of a world.
const FLOWS_MAX: u64 = 64;
/// Worlds that are tried when the file is read.
const TRIED: u64 = 16;
/// A call that loses more than this beyond chance is worth a look.
const VOICE_LOST: f64 = 0.01;
/// A ratio above which an alternative counts as better, and below whose inverse as worse.
const DIFFERS: f64 = 1.05;

impl SetUp for GridStudy {
    const PARTS: &'static [&'static str] = &[
        "worlds",
        "calls",
        "lost",
        "alternatives",
        "dominated",
        "cases",
    ];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        let [fewest, most] = self.flows;
        let longest_s = self.time.0.max(self.time_max.0).as_secs_f64();
        let fills = |line: &Line| line.rate[1].0 as f64 / 8.0 * longest_s;
        let lines = self.lines.iter();
        let mut known = self
            .alternatives
            .iter()
            .flat_map(|it| it.lines.iter().flatten());
        let unknown = known.find(|name| self.lines.iter().all(|line| line.name != **name));
        let mut wrong_lines = lines.filter(|it| {
            it.rate[0].0 == 0 || it.rate[0].0 > it.rate[1].0 || it.profiles.is_empty()
        });
        let why = if self.runs < 2 || self.worlds.saturating_mul(self.runs) > Scenario::RUNS_MAX {
            format!(
                "`runs` has to be 2 at least, as one has no interval, and `worlds` times `runs` {} at most",
                Scenario::RUNS_MAX
            )
        } else if fewest == 0 || fewest > most || most > FLOWS_MAX {
            format!("`flows` has to be two numbers of 1 to {FLOWS_MAX}, the smaller first")
        } else if self.delay[0].0.is_zero() || self.delay[0].0 > self.delay[1].0 {
            "`delay` has to be two times above 0, the shorter first".into()
        } else if let Some(line) = wrong_lines.next() {
            format!(
                "[[line]] {}: needs two rates, the lower first, and `profiles`",
                line.name
            )
        } else if let Some(line) = self.lines.iter().find(|it| fills(it) > OCTETS_MAX as f64) {
            format!(
                "[[line]] {}: the transfers of a world would be longer than {}: take a lower \
                 `rate`, or less `time` and `time_max`",
                line.name,
                Octets(OCTETS_MAX)
            )
        } else if let Some(name) = unknown {
            format!("[[alternative]] `lines`: there is no [[line]] `{name}`")
        } else if let Some(why) = self.cases.iter().find_map(|case| case.fault(self)) {
            why
        } else if self.endpoints.is_empty() {
            "`endpoints` has to name one".into()
        } else if self.lines.iter().all(|line| line.weight == 0) {
            "a [[line]] has to have a `weight` above 0".into()
        } else {
            return self.try_some();
        };
        Err(ConfigError::of_file(file, why))
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let mut study = self.clone();
        study.seed = asked.seed.unwrap_or(self.seed);
        let numbers: Vec<u64> = (0..study.worlds).collect();
        let judged = run_all(asked, "grid", &numbers, |number| study.run_world(*number))?;
        let worlds = judged.iter().map(Judged::row).collect();
        let mut measured = Measured::of("worlds", worlds, 1..=study.runs);
        let calls: Vec<Row> = judged.iter().filter_map(Judged::voice).collect();
        let lost = judged.iter().filter(|it| it.loses_voice());
        let lost = lost.filter_map(Judged::voice).collect();
        measured.parts.insert("calls", calls);
        measured.parts.insert("lost", lost);
        measured.fold(judged.iter().map(|it| it.hash));
        measured
            .parts
            .insert("alternatives", study.of_alternatives(&judged));
        let dominated = judged.iter().flat_map(|it| it.dominated(&study)).collect();
        measured.parts.insert("dominated", dominated);
        let scenarios = judged.iter().flat_map(|it| it.scenarios(&study));
        measured.scenarios = scenarios.collect();
        case::run(&study, asked, &mut measured)?;
        Ok(measured)
    }
}

impl GridStudy {
    /// Some worlds have to be right, as they are and with each alternative.
    fn try_some(&self) -> Result<(), ConfigError> {
        for number in 0..TRIED.min(self.worlds) {
            let world = self.world(number);
            world.scenario(self, None)?;
            for alternative in self.alternatives.iter().filter(|it| world.may_have(it)) {
                world.scenario(self, Some(alternative))?;
            }
        }
        for world in self.cases.iter().flat_map(|case| case.worlds(self)) {
            world.scenario(self, None)?;
        }
        Ok(())
    }

    /// For how long the transfers of a world fill its line.
    fn span_s(&self, longest_s: f64, delay_s: f64) -> f64 {
        let trips_s = self.trips as f64 * 2.0 * delay_s;
        let span_s = (self.packets as f64 * longest_s).max(trips_s);
        let span_s = span_s.min(self.time_max.0.as_secs_f64());
        span_s.max(self.time.0.as_secs_f64())
    }

    fn world(&self, number: u64) -> World {
        World::draw(self, number)
    }

    fn run_world(&self, number: u64) -> Result<Judged, BuildError> {
        let world = self.world(number);
        let mut own = Column::new(self, &world, None)?;
        own.run(&world, self.runs)?;
        let mut others: Vec<Column> = Vec::new();
        let mut verdicts = Vec::new();
        for (place, alternative) in self.alternatives.iter().enumerate() {
            if !world.may_have(alternative) {
                continue;
            }
            let new = Column::new(self, &world, Some(alternative))?;
            let known = others.iter().position(|it| it.text == new.text);
            let known = known.unwrap_or_else(|| {
                others.push(new);
                others.len() - 1
            });
            let other = &mut others[known];
            // More than half of the runs bound the median of all.
            other.run(&world, self.runs / 2 + 1)?;
            if judge::may_dominate(&world, &own.figures, &other.figures) {
                other.run(&world, self.runs)?;
            }
            verdicts.push((place, judge::judge(&world, &own.figures, &other.figures)));
        }
        let mut hash = RunHash::default();
        let columns = core::iter::once(&own).chain(&others);
        columns.clone().for_each(|it| hash.fold(it.hash.value()));
        Ok(Judged {
            voice_loss: world.voice_loss(&own.figures),
            verdicts,
            unexplained: columns.map(|it| it.unexplained).sum(),
            hash: hash.value(),
            world,
        })
    }
}

/// The runs of a world in one way.
struct Column {
    /// What tells it from others.
    text: String,
    loaded: Loaded,
    /// Of each run that was made, by its seed from 1 on.
    figures: Vec<Vec<f64>>,
    unexplained: u64,
    hash: RunHash,
}

impl Column {
    fn new(
        study: &GridStudy,
        world: &World,
        alternative: Option<&Alternative>,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            text: world.text(study, alternative),
            loaded: world.scenario(study, alternative)?,
            figures: Vec::new(),
            unexplained: 0,
            hash: RunHash::default(),
        })
    }

    /// Makes what is missing of the first `runs`.
    fn run(&mut self, world: &World, runs: u64) -> Result<(), BuildError> {
        for seed in self.figures.len() as u64 + 1..=runs {
            let run = run_plain(&self.loaded, "strait", seed)?;
            self.figures.push(world.figures(&run.metrics));
            self.unexplained += run.unexplained;
            self.hash.fold(run.hash);
        }
        Ok(())
    }
}

/// A world and what came of it.
struct Judged {
    world: World,
    /// What each alternative is worth, by its place among all.
    verdicts: Vec<(usize, Verdict)>,
    /// The greatest loss of a call beyond what the line loses by chance.
    voice_loss: Option<f64>,
    /// Packets without a fate: a bug unless 0.
    unexplained: u64,
    /// Hash over all runs.
    hash: u64,
}

impl Judged {
    fn dominating(&self) -> impl Iterator<Item = (usize, &Verdict)> {
        let verdicts = self
            .verdicts
            .iter()
            .map(|(place, verdict)| (*place, verdict));
        verdicts.filter(|(_, verdict)| verdict.dominates)
    }

    fn row(&self) -> Row {
        let best = self.dominating().filter_map(|it| it.1.best.as_ref());
        let worst = best.map(|it| it.ratio).fold(1.0, f64::max);
        Row::default()
            .with(
                "dominated",
                f64::from(u8::from(self.dominating().next().is_some())),
            )
            .with("ratio", worst)
            .with("unexplained", self.unexplained)
    }

    /// What its calls lose.
    fn voice(&self) -> Option<Row> {
        let loss = self.voice_loss?;
        Some(
            Row::default()
                .with("world", self.about())
                .with("chance", self.world.chance_loss())
                .with("beyond_chance", loss),
        )
    }

    fn loses_voice(&self) -> bool {
        self.voice_loss.is_some_and(|loss| loss > VOICE_LOST)
    }

    fn about(&self) -> String {
        format!("{}: {}", self.world.number, self.world.about())
    }

    /// A row for each alternative that dominates it.
    fn dominated(&self, study: &GridStudy) -> Vec<Row> {
        let row = |(place, verdict): (usize, &Verdict)| {
            let [best, worst] = [&verdict.best, &verdict.worst].map(Option::as_ref);
            let metric = |it: Option<&Figure>| it.map(|it| it.metric.clone());
            Row::default()
                .with("world", self.about())
                .with("alternative", study.alternatives[place].name.as_str())
                .with("better", metric(best))
                .with("own", best.map(|it| it.own))
                .with("other", best.map(|it| it.other))
                .with("ratio", best.map(|it| it.ratio))
                .with("worse", metric(worst))
                .with("worse_ratio", worst.map(|it| it.ratio))
        };
        self.dominating().map(row).collect()
    }

    /// The scenario files of a world that is dominated, loses calls or has an unexplained packet,
    /// as it is and with the alternative.
    fn scenarios(&self, study: &GridStudy) -> Vec<(String, String)> {
        let own = (
            format!("world-{}.toml", self.world.number),
            self.world.text(study, None),
        );
        let looked_at = self.loses_voice() || self.unexplained > 0;
        let lost = looked_at.then(|| own.clone());
        let of = |(place, _): (usize, &Verdict)| {
            let other = &study.alternatives[place];
            let number = self.world.number;
            let word = other.name.replace(", ", "-");
            let with = format!("world-{number}-{word}.toml");
            [own.clone(), (with, self.world.text(study, Some(other)))]
        };
        lost.into_iter()
            .chain(self.dominating().flat_map(of))
            .collect()
    }
}

impl GridStudy {
    /// In how many worlds each alternative is better or worse for someone, and dominates.
    fn of_alternatives(&self, judged: &[Judged]) -> Vec<Row> {
        let row = |(place, alternative): (usize, &Alternative)| {
            let verdicts = judged.iter().flat_map(|it| &it.verdicts);
            let verdicts: Vec<_> = verdicts
                .filter(|it| it.0 == place)
                .map(|it| &it.1)
                .collect();
            let count = |what: fn(&Verdict) -> bool| verdicts.iter().filter(|it| what(it)).count();
            let better = |it: &Verdict| it.best.as_ref().is_some_and(|it| it.ratio > DIFFERS);
            let worse = |it: &Verdict| it.worst.as_ref().is_some_and(|it| it.ratio < 1.0 / DIFFERS);
            Row::default()
                .with("alternative", alternative.name.as_str())
                .with("worlds", verdicts.len())
                .with("better", count(better))
                .with("worse", count(worse))
                .with("dominates", count(|it| it.dominates))
        };
        self.alternatives.iter().enumerate().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../../../../scenarios/studies/grid.toml");

    fn study() -> GridStudy {
        super::super::read::<GridStudy>("grid.toml", TEXT)
            .unwrap()
            .0
    }

    #[test]
    fn worlds_lie_in_the_ranges_and_follow_from_the_seed() {
        let study = study();
        let mut other = study.clone();
        other.seed += 1;
        let mut differ = 0;
        for number in 0..300 {
            let world = study.world(number);
            world.assert_within(&study);
            let text = world.text(&study, None);
            assert_eq!(text, study.world(number).text(&study, None));
            differ += u32::from(text != other.world(number).text(&study, None));
        }
        assert_eq!(differ, 300);
    }

    #[test]
    fn an_alternative_changes_nothing_but_the_gateways_and_senders() {
        let study = study();
        let world = (0..99).map(|number| study.world(number));
        let world = world
            .clone()
            .find(|it| it.about().contains("lossy"))
            .unwrap();
        let table = |alternative| -> toml::Table {
            let mut table: toml::Table = world.text(&study, alternative).parse().unwrap();
            table.remove("node");
            table
        };
        let named = |name: &str| study.alternatives.iter().find(|it| it.name == name);
        for name in ["fifo", "fq-codel", "fq-codel, same link"] {
            assert_eq!(table(None), table(Some(named(name).unwrap())));
        }
        let others = ["fifo, cubic", "fifo, bbr"].map(|name| table(named(name)));
        assert_ne!(others[0], others[1]);
    }

    #[test]
    fn a_run_is_repeated_to_the_event() {
        let mut study = study();
        study.runs = 2;
        let hashes = || -> Vec<u64> {
            let worlds = (0..3).map(|number| study.run_world(number).unwrap());
            let worlds: Vec<Judged> = worlds.collect();
            assert!(worlds.iter().all(|it| it.unexplained == 0));
            worlds.iter().map(|it| it.hash).collect()
        };
        assert_eq!(hashes(), hashes());
    }

    #[test]
    fn what_six_runs_rule_out_ten_do_not_show() {
        let study = study();
        let mut chance = strait_core::chance::Stream::new(1, "figures");
        let (mut ruled_out, mut open) = (0, 0);
        for number in 0..200 {
            let world = study.world(number);
            let count = world.quantities().len();
            let better = (0.4 * (chance.unit() - 0.5)).exp();
            let mut runs = |scale: f64| -> Vec<Vec<f64>> {
                let mut run = || scale * (0.2 * chance.unit()).exp();
                (0..10)
                    .map(|_| (0..count).map(|_| run()).collect())
                    .collect()
            };
            let (own, other) = (runs(10.0 * better), runs(10.0));
            if judge::may_dominate(&world, &own[..6], &other[..6]) {
                open += 1;
            } else {
                ruled_out += 1;
                assert!(!judge::judge(&world, &own, &other).dominates);
            }
        }
        assert!(ruled_out > 50 && open > 50, "{ruled_out} {open}");
    }

    #[test]
    fn wrong_numbers_are_told() {
        for (right, wrong, told) in [
            ("worlds = 200", "worlds = 0", "`worlds`"),
            ("runs = 10 ", "runs = 1 ", "2 at least"),
            ("worlds = 200", "worlds = 50000", "100000 at most"),
            ("\"10 Mbit/s\"]", "\"10 Gbit/s\"]", "would be longer than"),
            ("weight = 4", "weight = 9000000", "`weight`"),
            (
                "endpoint = \"linux-bbr\"",
                "endpoint = \"linux-bbr\"\nlines = [\"losy\"]",
                "no [[line]] `losy`",
            ),
            ("flows = [1, 12]", "flows = [12, 1]", "`flows`"),
            ("\"1 ms\", \"600 ms\"", "\"1 s\", \"600 ms\"", "`delay`"),
            (
                "endpoint = \"linux-cubic\"",
                "endpoint = \"cubic\"",
                "endpoint",
            ),
        ] {
            assert!(TEXT.contains(right), "{right}");
            let text = TEXT.replace(right, wrong);
            let error = super::super::read::<GridStudy>("my.toml", &text)
                .map(drop)
                .unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
        }
    }
}
