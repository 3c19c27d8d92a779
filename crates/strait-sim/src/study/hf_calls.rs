//! What stations of ours save each other beside longer numbers: an answer to a call before data,
//! and most of what confirmations of clients' data cost.

use serde::Deserialize;
use strait_core::units::BitRate;
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};

use super::hf::Came;
use super::scenario::load;
use super::shown::Row;
use super::{Asked, StudyError, run_all};
use crate::build::BuildError;
use crate::run::run_plain;

/// At which rates it is measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Calls {
    /// The channel's rates.
    rates: Vec<BitRate>,
    /// The least that data with a call may save of a ping over a link that isn't there yet, at the
    /// first of these rates.
    saves_min: f64,
}

/// The two worlds, and the variant of each that has it as the standard does.
const WORLDS: [(&str, &str); 2] = [
    ("hf/calls.toml", "after-the-answer"),
    ("hf/confirmed.toml", "standards-own"),
];

impl Calls {
    /// Calls and confirmations, rate by rate.
    pub(super) fn run(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let world = |rate: &BitRate, (name, _): (&str, &str)| {
            let mut world = load(name)?;
            for link in &mut world.links {
                link.channel.rate = Some(*rate);
            }
            Ok::<_, ConfigError>(world)
        };
        let worlds = self.rates.iter();
        let worlds = worlds.map(|rate| Ok([world(rate, WORLDS[0])?, world(rate, WORLDS[1])?]));
        let worlds = worlds.collect::<Result<Vec<_>, ConfigError>>()?;
        let cells = run_all(asked, "hf-calls", &worlds, |pair| {
            cells(pair, asked.seed(1))
        })?;
        let mut came = Came::default();
        for (place, (rate, cells)) in self.rates.iter().zip(cells).enumerate() {
            came.note(cells.hash, cells.unexplained);
            let [after, with] = cells.ping_s;
            let saved = after.zip(with).map(|(after, with)| 1.0 - with / after);
            let row = Row::default()
                .with("place", place)
                .with("rate", rate.0)
                .with("ping_after_s", after)
                .with("ping_with_s", with)
                .with("saved", saved)
                .with("saves_min", self.saves_min)
                .with("confirm_standard_s", cells.confirm_s[0])
                .with("confirm_numbers_s", cells.confirm_s[1])
                .with("answer_standard_s", cells.answer_s[0])
                .with("answer_numbers_s", cells.answer_s[1]);
            came.rows.push(row);
        }
        Ok(came)
    }
}

/// One rate's figures, each as the standard has it and between stations of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CallCells {
    /// The median of pings that need a call.
    ping_s: [Option<f64>; 2],
    /// The mean time from a client's request to its confirmation by the other client.
    confirm_s: [Option<f64>; 2],
    /// Time on the air of the confirming station for each of them, acknowledgements included.
    answer_s: [Option<f64>; 2],
    /// Hash of all runs.
    hash: u64,
    /// Packets that can't be explained.
    unexplained: u64,
}

fn cells([calls, confirmed]: &[Loaded; 2], seed: u64) -> Result<CallCells, BuildError> {
    let mut cells = CallCells::default();
    for place in 0..2 {
        let variant = |standard| [standard, Scenario::BASE][place];
        let run = run_plain(calls, variant(WORLDS[0].1), seed)?;
        cells.ping_s[place] = run.metrics.get("ping.rtt_p50_s").copied();
        cells.unexplained += run.unexplained;
        cells.hash = cells.hash.rotate_left(1) ^ run.hash;
        let run = run_plain(confirmed, variant(WORLDS[1].1), seed)?;
        cells.unexplained += run.unexplained;
        cells.hash = cells.hash.rotate_left(1) ^ run.hash;
        let station = |name: &str| {
            let node = run.nodes.iter().find(|node| node.node == name)?;
            node.ports.get(1)?.hf.as_ref()
        };
        let clients = station("a").map(|hf| &hf.clients);
        let clients = clients.filter(|clients| clients.confirmed > 0);
        cells.confirm_s[place] = clients.and_then(|clients| clients.confirm_s);
        let air_s =
            station("b").map(|hf| hf.neighbours.iter().map(|link| link.sent_s).sum::<f64>());
        let both = air_s.zip(clients);
        cells.answer_s[place] = both.map(|(air_s, clients)| air_s / clients.confirmed as f64);
    }
    Ok(cells)
}
