//! The set-up of the study `policing`: ways to hold a class to its rate, and what its packets pay.

use serde::Deserialize;
use strait_core::units::{BitRate, Time};
use strait_qos::PolicyConfig;
use strait_qos::config::ShapeConfig;
use strait_qos::plan::Rate;
use strait_qos::police::PoliceConfig;

use super::shares::{self, Share, ShareCase, ShareFlow};
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError};

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicingStudy {
    /// Which study the file is of: `policing`.
    study: String,
    /// How long flows run before they are counted.
    warm_up: Time,
    /// How long they are counted.
    window: Time,
    /// How long a full study counts.
    window_full: Time,
    /// What the line behind the classes carries: more than they may send.
    line: BitRate,
    /// The policy without a limit on the class.
    policy: PolicyConfig,
    /// Ways to limit it.
    #[serde(rename = "way")]
    ways: Vec<Way>,
    /// What is offered.
    #[serde(rename = "load")]
    loads: Vec<Load>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// The class that is limited.
const LIMITED: &str = "ef";

/// A way to hold the class to its rate: keys of the class [`LIMITED`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    /// Its name in the table.
    name: String,
    /// It may borrow no more than this.
    #[serde(default)]
    ceil: Option<Rate>,
    /// A shaper of its own.
    #[serde(default)]
    shape: Option<ShapeConfig>,
    /// A policer before its queue.
    #[serde(default)]
    police: Option<PoliceConfig>,
}

impl Way {
    /// What becomes of packets that are too much.
    const fn excess(&self) -> &'static str {
        match (&self.police, &self.shape, self.ceil) {
            (Some(_), _, _) => "is dropped",
            (None, None, None) => "goes",
            _ => "waits",
        }
    }

    fn policy(&self, base: &PolicyConfig) -> PolicyConfig {
        let mut policy = base.clone();
        for class in &mut policy.classes {
            if class.name == LIMITED {
                class.ceil = self.ceil.or(class.ceil);
                class.shape.clone_from(&self.shape);
                class.police.clone_from(&self.police);
            }
        }
        policy
    }
}

/// What is offered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    /// Its name in the table.
    name: String,
    /// The flow of the class that is limited.
    ef: ShareFlow,
    /// The flow of the others.
    rest: ShareFlow,
}

impl PolicingStudy {
    /// Every way with every load, in the order of [`Self::pairs`]; the first flow is limited.
    fn cases(&self, full: bool) -> Vec<ShareCase> {
        let window = if full { self.window_full } else { self.window };
        let cases = self.pairs().map(|(load, way)| ShareCase {
            name: format!("{}, {}", load.name, way.name),
            policy: way.policy(&self.policy),
            line: self.line,
            flows: vec![load.ef.clone(), load.rest.clone()],
            warm_up: self.warm_up.0,
            window: window.0,
        });
        cases.collect()
    }

    /// All loads, and for each all ways.
    fn pairs(&self) -> impl Iterator<Item = (&Load, &Way)> {
        let loads = self.loads.iter();
        loads.flat_map(|load| self.ways.iter().map(move |way| (load, way)))
    }
}

impl SetUp for PolicingStudy {
    const PARTS: &'static [&'static str] = &["policing"];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let cases = self.cases(asked.full);
        let (simulated, live) = shares::both("policing", &cases, asked)?;
        let crowded = self.loads.last().map(|load| &load.name);
        let rows = self.pairs().enumerate().flat_map(|(index, (load, way))| {
            let own = simulated.get(index);
            let worlds = [
                ("simulation", own.map(|run| &run.shares[..])),
                ("kernel", live.get(index).map(Vec::as_slice)),
            ];
            worlds.map(|(world, shares)| {
                let pair = shares.and_then(|shares| <&[Share; 2]>::try_from(shares).ok());
                let most = Some(&load.name) == crowded;
                let delays_s = pair.map(|[limited, _]| limited.delays_s.clone());
                Row::default()
                    .with("load", load.name.as_str())
                    .with("offered", if most { "most" } else { "less" })
                    .with("way", way.name.as_str())
                    .with("excess", way.excess())
                    .with("world", world)
                    .with("rate_bit_s", pair.map(|[limited, _]| limited.rate_bit_s))
                    .with("loss", pair.map(|[limited, _]| limited.loss()))
                    .with("delay_s", delays_s)
                    .with("rest_bit_s", pair.map(|[_, rest]| rest.rate_bit_s))
                    .with("unexplained", own.map(|run| run.unexplained as f64))
            })
        });
        let mut measured = Measured::of("policing", rows.collect(), [1]);
        measured.fold(simulated.iter().map(|run| run.hash));
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::parallel;
    use strait_node::config_text;
    use strait_report::estimate::percentile;

    /// Delays and loss of the limited flow.
    struct Paid {
        p50_s: f64,
        longest_s: f64,
        loss: f64,
    }

    fn paid(share: &Share) -> Paid {
        Paid {
            p50_s: percentile(&share.delays_s, 0.5).unwrap(),
            longest_s: percentile(&share.delays_s, 1.0).unwrap(),
            loss: share.loss(),
        }
    }

    /// Ten packets of 168 octets at 32 K, and what their class may send of 512 K.
    const QUEUE_S: f64 = 10.0 * 168.0 * 8.0 / 32_768.0;
    const LINK_BIT_S: f64 = 524_288.0;

    #[test]
    fn excess_that_waits_makes_all_wait_and_excess_that_is_dropped_none() {
        let text = include_str!("../../../../scenarios/studies/policing.toml");
        let study: PolicingStudy = config_text::parse("policing.toml", text).unwrap();
        let cases = study.cases(false);
        let runs = parallel(&cases, None, |case| shares::run_once(case).unwrap());
        let limited = |load: &str, way: &str| {
            let place = study
                .pairs()
                .position(|(its, other)| (its.name.as_str(), other.name.as_str()) == (load, way));
            paid(&runs[place.unwrap()].shares[0])
        };
        // Too much: the queue before a shaper stands full, and each packet waits for it.
        for way in ["rate = ceil", "TBF"] {
            let too_much = limited("150 %", way);
            assert!(too_much.p50_s > 0.8 * QUEUE_S, "{way}: {}", too_much.p50_s);
            assert!(too_much.p50_s < 1.1 * QUEUE_S, "{way}: {}", too_much.p50_s);
        }
        // Behind a policer a packet waits for what is leaving, a turn of the others, its own burst.
        for (way, burst) in [("policer, 504 B", 504.0), ("policer, 3280 B", 3280.0)] {
            for load in ["90 %", "150 %"] {
                let policed = limited(load, way);
                let most_s = (2.0 * 1600.0 + burst) * 8.0 / LINK_BIT_S;
                assert!(policed.longest_s < most_s, "{way}: {}", policed.longest_s);
            }
        }
        // All lose what is too much, a third; less the packets that a bucket or queue held.
        for way in ["rate = ceil", "TBF", "policer, 504 B", "policer, 3280 B"] {
            let loss = limited("150 %", way).loss;
            assert!((loss - 1.0 / 3.0).abs() < 0.05, "{way}: {loss}");
        }
        // A small bucket takes its price from a load that fits; one as large as a shaper's bucket
        // and queue together drops what that queue would.
        let shaped = limited("90 %", "rate = ceil").loss;
        assert!(limited("90 %", "policer, 504 B").loss > 4.0 * shaped.max(0.02));
        assert!((limited("90 %", "policer, 3280 B").loss - shaped).abs() < 0.02);
        assert!(limited("90 %", "no limit").loss < 1e-9);
    }
}
