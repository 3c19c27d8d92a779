//! The part `networks`: a call and a file beyond an adapter's own network: in a larger one, and
//! behind gateways that encrypt.

use super::super::scenario::{self, Part, run_places};
use super::super::shown::Row;
use super::super::{Asked, Measured, StudyError};

/// Scenarios of the part, with what tables call them.
const NETWORKS: [(&str, &str); 2] = [
    ("extended", "three routers and a server"),
    ("esp", "ESP gateways"),
];

/// Adds the rows and run hashes of the part.
pub(super) fn run(
    parts: &[Part],
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let mut rows = Vec::new();
    for (part, name) in NETWORKS {
        let places = Part::find(parts, part)?.places()?;
        let runs = run_places(asked, "na-networks", &places)?;
        measured.fold(runs.iter().flatten().map(|run| run.hash));
        rows.extend(places.iter().zip(&runs).map(|(place, runs)| {
            let figure = |name: &str| {
                let of = runs.iter().map(|run| run.metrics.get(name).copied());
                of.map(|it| it.unwrap_or(f64::INFINITY))
                    .collect::<Vec<f64>>()
            };
            let alone = figure("alone.settled_delay_p99_s");
            let beside = figure("voice.settled_delay_p99_s");
            let later = beside
                .iter()
                .zip(&alone)
                .map(|(beside, alone)| beside - alone);
            scenario::with_metrics(Row::default(), runs)
                .with("network", name)
                .with("link", place.variant.as_str())
                .with("later_s", later.collect::<Vec<f64>>())
                .with("alone_s", alone)
                .with("beside_s", beside)
                .with("lost", figure("voice.loss"))
                .with("ping_s", figure("ping.rtt_p50_s"))
                .with("file_s", figure("file.time_s"))
        }));
    }
    measured.parts.insert("networks", rows);
    Ok(())
}
