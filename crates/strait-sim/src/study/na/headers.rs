//! The part `headers`: what header compression leaves of TCP's.

use super::super::scenario::{self, Part, run_places};
use super::super::shown::Row;
use super::super::{Asked, Measured, StudyError};

/// Octets of each segment.
const SEGMENT_OCTETS: f64 = 512.0;
/// Headers of IPv6 and TCP with timestamps.
const PLAIN_OCTETS: f64 = 72.0;
/// What timestamps have of these.
const STAMP_OCTETS: f64 = 12.0;

/// Adds the rows and run hashes of the part.
pub(super) fn run(
    parts: &[Part],
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let places = Part::find(parts, "headers")?.places()?;
    let runs = run_places(asked, "na-headers", &places)?;
    measured.fold(runs.iter().flatten().map(|run| run.hash));
    let rows = places.iter().zip(&runs).map(|(place, runs)| {
        let stamps = place.variant != "no-timestamps";
        let plain = PLAIN_OCTETS - if stamps { 0.0 } else { STAMP_OCTETS };
        let shares = |name: &str| -> Vec<f64> {
            let each = runs.iter().map(|run| run.metrics.get(name).copied());
            each.map(|share| share.unwrap_or(f64::INFINITY)).collect()
        };
        let left = shares("a.line.compressed_share").into_iter();
        let left = left.map(|share| share * (SEGMENT_OCTETS + plain) - SEGMENT_OCTETS);
        scenario::with_metrics(Row::default(), runs)
            .with("sender", place.variant.as_str())
            .with("plain_octets", plain)
            .with("header_octets", left.collect::<Vec<f64>>())
            .with("file_s", shares("file.time_s"))
    });
    measured.parts.insert("headers", rows.collect());
    Ok(())
}
