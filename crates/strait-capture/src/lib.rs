//! What captures tell of traffic: how much of which class passed one place, how the calls fared,
//! and, from captures of two places, what happened between them.
//!
//! Everything is read once and in bounded memory. Each table has a limit; what meets it is counted
//! in the result.
//!
//! Times are those of the captures. Delays between two places need a common clock; an offset can be
//! given, and is estimated where packets go both ways.

mod across;
mod capture;
mod outcome;
mod pending;
mod rows;
mod rtp;
mod source;
mod spread;
mod synthetic;
mod timeline;
mod volume;

use std::collections::BTreeMap;
use std::io::Read;

use strait_core::prefix::Prefix;
use strait_wire::ip::MARK_OCTETS_MAX;

use across::{Across, Side};
use rtp::Streams;
use volume::Volumes;

pub use capture::{Capture, CaptureError, Frame, Interface};
pub use outcome::Analysis;
pub use rows::{By, Flow, Key};
pub use source::Source;
pub use spread::{Sizes, Spread, Times};
pub use synthetic::{Synthetic, bare_walk};

/// Rows held while reading. Only flows and pairs of addresses can be more; a row takes up to about
/// 100 kB with its histograms, usually a tenth of that.
const ROWS_MAX: usize = 4096;
/// Lines in a plot; more can't be told apart.
const LINES_MAX: usize = 8;
/// Frames between two questions whether to go on.
const STEP_FRAMES: u64 = 4096;

/// How to analyse.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What a row is about.
    pub by: By,
    /// Time over which peak rates are measured, and the shortest step of plots.
    pub interval_ns: u64,
    /// Rows shown; the rest becomes one.
    pub shown: usize,
    /// Clock rates in Hz by RTP payload type.
    pub clocks: BTreeMap<u8, u32>,
    /// How much more the clock of B shows than that of A.
    pub offset_ns: i64,
    /// The longest that a packet waits for its counterpart: longer than any delay, and than the
    /// clocks differ.
    pub window_ns: i64,
    /// Packets of each capture that wait at the same time; each takes about 250 octets.
    pub pending_max: usize,
    /// Octets of a packet by which it is known, at most [`MARK_OCTETS_MAX`].
    pub mark_octets: usize,
    /// Addresses and ports are translated on the way.
    pub translated: bool,
    /// Sources on A's side; if there are none, hop limits and times tell.
    pub a_side: Vec<Prefix>,
}

impl Settings {
    /// The most octets of a packet by which it can be known.
    pub const MARK_OCTETS_MAX: usize = MARK_OCTETS_MAX;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            by: By::Dscp,
            interval_ns: 1_000_000_000,
            shown: 40,
            clocks: BTreeMap::new(),
            offset_ns: 0,
            window_ns: 300_000_000_000,
            pending_max: 250_000,
            mark_octets: 256,
            translated: false,
            a_side: Vec::new(),
        }
    }
}

/// Analyses one capture. `go_on` is asked every few thousand packets; if it says no, the result is
/// of what was read until then.
pub fn one<R: Read>(
    mut source: Source<R>,
    settings: &Settings,
    go_on: &mut dyn FnMut() -> bool,
) -> Analysis {
    let mut volumes = Volumes::new(settings);
    let mut streams = Streams::new(settings.clocks.clone());
    let mut stopped = false;
    while source.advance() {
        if let Some(packet) = source.packet() {
            volumes.record(&packet);
            streams.record(&packet);
        }
        if source.counts.packets.is_multiple_of(STEP_FRAMES) && !go_on() {
            stopped = true;
            break;
        }
    }
    outcome::of_one(&source, volumes, &streams, settings, stopped)
}

/// Compares captures of the same traffic at two places.
pub fn two<R: Read>(
    a: Source<R>,
    b: Source<R>,
    settings: &Settings,
    go_on: &mut dyn FnMut() -> bool,
) -> Analysis {
    let mut sources = [a, b];
    let mut across = Across::new(settings);
    let mut stopped = false;
    for side in Side::BOTH {
        if !sources[side as usize].advance() {
            across.end(side);
        }
    }
    let offsets_ns = [0, settings.offset_ns];
    let mut packets = 0_u64;
    loop {
        let time_ns = |side: Side| {
            let time_ns = sources[side as usize].time_ns()?;
            Some(time_ns.saturating_sub(offsets_ns[side as usize]))
        };
        // What A saw counts first where the times are equal: most traffic is looked at on its way
        // from A to B.
        let side = match (time_ns(Side::A), time_ns(Side::B)) {
            (None, None) => break,
            (Some(a_ns), Some(b_ns)) if b_ns < a_ns => Side::B,
            (None, Some(_)) => Side::B,
            _ => Side::A,
        };
        let source = &mut sources[side as usize];
        if let Some(mut packet) = source.packet() {
            packet.time_ns = packet.time_ns.saturating_sub(offsets_ns[side as usize]);
            across.record(side, &packet);
        }
        if !source.advance() {
            across.end(side);
        }
        packets += 1;
        if packets.is_multiple_of(STEP_FRAMES) && !go_on() {
            stopped = true;
            break;
        }
    }
    across.finish();
    outcome::of_two(&sources, across, settings, stopped)
}

#[cfg(test)]
mod tests;
