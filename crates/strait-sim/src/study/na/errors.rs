//! The part `errors`: a call and a file on a line that has bit errors.

use strait_channel::Side;

use super::super::scenario::{self, Part, run_places};
use super::super::shown::Row;
use super::super::{Asked, Measured, StudyError};

/// Octets of a call's packet on the line: 31 of speech, 3 of headers, 4 of framing.
const CALL_OCTETS: f64 = 38.0;
/// Its packets each second.
const CALL_PACKETS: f64 = 5.0;
/// The file, with 8 octets of headers for each of its 42 segments, and random content's escapes.
const FILE_OCTETS: f64 = (60_000.0 + 42.0 * 8.0) * (1.0 + 3.0 / 256.0);
/// The least that a piece needs around it: a flag, what tells it from others, and a short check.
const PIECE_OCTETS: f64 = 4.0;

/// Adds the rows and run hashes of the part.
pub(super) fn run(
    parts: &[Part],
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let places = Part::find(parts, "errors")?.places()?;
    let runs = run_places(asked, "na-errors", &places)?;
    measured.fold(runs.iter().flatten().map(|run| run.hash));
    let rows = places.iter().zip(&runs).map(|(place, runs)| {
        let channel = &place.loaded.links[0].channel;
        let rate = channel.line_rate(Side::A);
        let octets_s = 1.0 / rate.time_for(1).as_secs_f64();
        // A wrong start bit or stop bit costs its octet like any other.
        let bits = f64::from(rate.bits_per_octet());
        let bit_errors = channel.bit_errors.map_or(0.0, |share| share.0);
        let chance = 1.0 - (1.0 - bit_errors).powf(CALL_OCTETS * bits);
        let figure = |name: &str, without: f64| -> Vec<f64> {
            let each = runs.iter().map(|run| run.metrics.get(name).copied());
            each.map(|found| found.unwrap_or(without)).collect()
        };
        let lost = figure("voice.loss", 1.0);
        let beyond = lost.iter().map(|lost| lost - chance).collect::<Vec<f64>>();
        scenario::with_metrics(Row::default(), runs)
            .with("bit_errors", bit_errors)
            .with("link", place.variant.as_str())
            // A file that isn't there at the end never came.
            .with("time_s", figure("file.time_s", f64::INFINITY))
            .with("limit_s", limit_s(octets_s, bit_errors * bits))
            .with(
                "delay_s",
                figure("voice.settled_delay_p99_s", f64::INFINITY),
            )
            .with("lost", lost)
            .with("chance", chance)
            .with("beyond_chance", beyond)
    });
    measured.parts.insert("errors", rows.collect());
    Ok(())
}

/// The least time for the file beside the call: in pieces of the best size, each sent again until
/// it comes, with nothing else on the line.
fn limit_s(octets_s: f64, octet_errors: f64) -> f64 {
    let left = octets_s - CALL_OCTETS * CALL_PACKETS;
    let sizes = (8..=1500).map(f64::from);
    let costs = sizes.map(|size| {
        let whole = size + PIECE_OCTETS;
        whole / size / (1.0 - octet_errors).powf(whole)
    });
    FILE_OCTETS / left * costs.fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_grows_with_errors() {
        assert!((79.0..80.0).contains(&limit_s(960.0, 0.0)));
        assert!((86.0..88.0).contains(&limit_s(960.0, 5e-4)));
        assert!((90.0..92.0).contains(&limit_s(960.0, 1e-3)));
    }
}
