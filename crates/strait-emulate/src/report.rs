//! What an emulated link did.

use std::collections::BTreeMap;

use serde::Serialize;
use strait_channel::{ChannelStats, LinkConfig, LossCause, Side};
use strait_report::table::{Cell, Column, Table};

use super::net::NetConfig;

/// What a link did, in both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulateReport {
    /// The link's name.
    pub link: String,
    /// Its seed.
    pub seed: u64,
    /// How long it ran.
    pub uptime_s: f64,
    /// From a to b, then from b to a; of a net path by path.
    pub directions: Vec<DirectionReport>,
    /// What the modems of an HF channel did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modems: Vec<AirCounts>,
}

/// What a modem on an HF channel did and met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AirCounts {
    /// The end's name.
    pub name: String,
    /// Times that it keyed up.
    pub turns: u64,
    /// Transmissions of others that reached it and met another one, or its own.
    pub collisions: u64,
    /// Blocks that arrived and its program didn't take.
    pub undelivered: u64,
}

/// What a link did in one direction. On a serial line a frame is what left at once: an octet, or
/// those of 20 µs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionReport {
    /// The sending end: `a` or `b`, or a modem's name.
    pub from: String,
    /// The receiving end.
    pub to: String,
    /// The path of a net, or the link.
    pub path: String,
    /// Signalling rate at the beginning.
    pub rate_bit_s: u64,
    /// Frames that left, lost ones included.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
    /// Time in which octets left.
    pub busy_s: f64,
    /// The same as a share of the link's time, 0 … 1.
    #[serde(rename = "use")]
    pub busy_share: f64,
    /// Frames dropped before the line because its queue was full.
    pub queue_dropped: u64,
    /// Frames dropped because the medium takes none so long.
    pub too_long: u64,
    /// Frames lost on the medium, by cause.
    pub lost: BTreeMap<&'static str, u64>,
    /// Their octets.
    pub lost_octets: u64,
    /// Frames that arrived with inverted bits.
    pub corrupted_frames: u64,
    /// Bits inverted in them.
    pub corrupted_bits: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that were held back.
    pub reordered: u64,
    /// Frames that arrived and that the receiving program didn't take.
    pub undelivered: u64,
    /// Frames that came at the sending end from somebody else than its program.
    pub strangers: u64,
    /// What the modem at the sending end did, if one is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modem: Option<ModemCounts>,
}

/// What a KISS modem did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModemCounts {
    /// Times that it told its program that a frame has been sent.
    pub notices: u64,
    /// Times that it told its program how much waits in its queue.
    pub answers: u64,
    /// Most frames that were in its hands at once.
    pub held_max: usize,
}

impl DirectionReport {
    pub(super) fn new(link: &LinkConfig, from: Side, stats: &ChannelStats, uptime_s: f64) -> Self {
        let lost = LossCause::ALL
            .into_iter()
            .map(|cause| (cause.name(), stats.lost(cause)))
            .filter(|(_, count)| *count > 0);
        let busy_s = stats.busy_ns as f64 / 1e9;
        Self {
            from: side_name(from).into(),
            to: side_name(from.other()).into(),
            path: String::new(),
            rate_bit_s: link.line_rate(from).bit_s(),
            frames: stats.frames,
            octets: stats.octets,
            busy_s,
            // A transmission is counted whole when it begins.
            busy_share: (busy_s / uptime_s.max(1e-9)).min(1.0),
            queue_dropped: 0,
            too_long: 0,
            lost: lost.collect(),
            lost_octets: stats.lost_octets(),
            corrupted_frames: stats.corrupted_frames,
            corrupted_bits: stats.corrupted_bits,
            duplicated: stats.duplicated,
            reordered: stats.reordered,
            undelivered: 0,
            strangers: 0,
            modem: None,
        }
    }
}

/// What each path of a net did, both ways; `stats` counts by a path's place.
pub(super) fn directions<'a>(
    net: &NetConfig,
    uptime_s: f64,
    undelivered: &[u64],
    stats: impl Fn(usize, Side) -> &'a ChannelStats,
) -> Vec<DirectionReport> {
    let lone = net.paths.len() == 1;
    let mut directions = Vec::new();
    for (number, path) in net.paths.iter().enumerate() {
        for side in Side::BOTH {
            let mut way = DirectionReport::new(&path.link, side, stats(number, side), uptime_s);
            let [from, to] = [side, side.other()].map(|it| path.between[it.index()]);
            [way.from, way.to] = [from, to].map(|end| net.ends[end].0.clone());
            way.path.clone_from(&path.name);
            // Of many that a modem hears, nobody knows who sent what its program didn't take.
            way.undelivered = if lone { undelivered[to] } else { 0 };
            directions.push(way);
        }
    }
    directions
}

/// `a` or `b`.
pub(super) const fn side_name(side: Side) -> &'static str {
    match side {
        Side::A => "a",
        Side::B => "b",
    }
}

/// The link's rate in words: `9600 baud 8N1`, `64000 bit/s, back 32000 bit/s`.
pub(super) fn rate_text(link: &LinkConfig) -> String {
    let rate = |side: Side| {
        let bit_s = link.line_rate(side).bit_s();
        match link.kind.framing() {
            Some(framing) => format!("{bit_s} baud {framing}"),
            None => format!("{bit_s} bit/s"),
        }
    };
    let (there, back) = (rate(Side::A), rate(Side::B));
    if there == back {
        there
    } else {
        format!("{there}, back {back}")
    }
}

impl EmulateReport {
    /// The whole as one JSON object.
    pub fn to_json(&self) -> String {
        // No keys that aren't strings, the only thing that could fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The whole as text.
    pub fn to_text(&self) -> String {
        let heads = [
            ("direction", ""),
            ("rate", "bit/s"),
            ("frames", ""),
            ("octets", ""),
            ("use, share", ""),
            ("queue dropped", ""),
            ("lost", ""),
            ("why", ""),
            ("corrupted", ""),
            ("duplicated", ""),
            ("reordered", ""),
            ("undelivered", ""),
        ];
        let heads = heads.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new("link", heads.into());
        let number = |count: u64| Cell::from(count as f64);
        for way in &self.directions {
            let causes = way
                .lost
                .iter()
                .map(|(cause, count)| format!("{cause} {count}"));
            table.push(vec![
                format!("{} to {}", way.from, way.to).into(),
                number(way.rate_bit_s),
                number(way.frames),
                number(way.octets),
                way.busy_share.into(),
                number(way.queue_dropped + way.too_long),
                number(way.lost.values().sum()),
                causes.collect::<Vec<_>>().join(", ").into(),
                number(way.corrupted_frames),
                number(way.duplicated),
                number(way.reordered),
                number(way.undelivered),
            ]);
        }
        let modems = self.modems_table();
        let modems = modems.map_or_else(String::new, |table| format!("\n{}", table.to_text()));
        format!(
            "{}: {:.1} s\n\n{}{modems}",
            self.link,
            self.uptime_s,
            table.to_text()
        )
    }

    fn modems_table(&self) -> Option<Table> {
        let heads = ["modem", "turns", "collisions", "undelivered"];
        let heads = heads.map(|name| Column::new(name, ""));
        let mut table = Table::new("modems", heads.into());
        for modem in &self.modems {
            let counts = [modem.turns, modem.collisions, modem.undelivered];
            let counts = counts.map(|count| Cell::from(count as f64));
            let row = [modem.name.as_str().into()].into_iter().chain(counts);
            table.push(row.collect());
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::time::Duration;

    #[test]
    fn text_and_json_show_both_directions() {
        let link = LinkConfig::frames(64_000, Duration::ZERO);
        let mut stats = ChannelStats::default();
        (stats.frames, stats.octets) = (3, 300);
        stats.busy_ns = 500_000_000;
        let report = EmulateReport {
            link: "net".into(),
            seed: 1,
            uptime_s: 1.0,
            directions: Side::BOTH
                .map(|side| DirectionReport::new(&link, side, &stats, 1.0))
                .into(),
            modems: Vec::new(),
        };
        let text = report.to_text();
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(
            row[..7],
            ["b", "to", "a", "64000", "3", "300", "0.5"],
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["directions"][0]["from"], "a");
        assert_eq!(json["directions"][1]["use"], 0.5);
        assert_eq!(json["directions"][1]["busy_s"], 0.5);
    }
}
