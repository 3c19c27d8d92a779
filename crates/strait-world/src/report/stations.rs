//! Stations on radios: who used the air, and how their links stand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strait_core::stats::{AccessStats, ClientStats, HfPeer, HfRate, HfStats, PortStats};

use crate::table::{Cell, Column, Table};

/// A station as reports show it. Times in seconds, shares 0 … 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in HfStats")]
pub struct StationReport {
    pub turns: u64,
    pub d_pdus_out: u64,
    pub d_pdus_in: u64,
    pub repeated: u64,
    pub unanswered: u64,
    pub garbled: u64,
    pub links_made: u64,
    pub links_lost: u64,
    pub resets: u64,
    pub warnings: u64,
    pub messages: u64,
    /// U_PDUs that wait, by priority; priorities without any are left out.
    pub queued: BTreeMap<String, u64>,
    pub others_s: f64,
    /// Programs that use it beside the gateway.
    pub clients: ClientReport,
    pub neighbours: Vec<LinkReport>,
    /// Where the station is somebody else's: the access points there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<AccessStats>,
}

/// Clients of a station's subnetwork interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in ClientStats")]
pub struct ClientReport {
    pub bound: u64,
    pub requests: u64,
    pub indications: u64,
    pub confirmed: u64,
    pub rejected: u64,
    pub flooded: u64,
    pub unbound: u64,
    pub expired: u64,
    #[serde(default)]
    pub misdated: u64,
    /// From request to confirmation, mean of those that were confirmed.
    pub confirm_s: Option<f64>,
    pub invalid: u64,
    pub cut: u64,
}

impl ClientReport {
    fn new(stats: &ClientStats) -> Self {
        let confirmed = (stats.confirmed > 0).then_some(stats.confirmed as f64);
        Self {
            bound: stats.bound,
            requests: stats.requests,
            indications: stats.indications,
            confirmed: stats.confirmed,
            rejected: stats.rejected,
            flooded: stats.flooded,
            unbound: stats.unbound,
            expired: stats.expired,
            misdated: stats.misdated,
            confirm_s: confirmed.map(|count| seconds(stats.confirm_ns) / count),
            invalid: stats.invalid,
            cut: stats.cut,
        }
    }
}

/// A link between two stations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in HfPeer")]
pub struct LinkReport {
    pub name: String,
    pub linked: bool,
    pub long: bool,
    pub under_way: u64,
    pub window: u64,
    pub segment_octets: u64,
    pub lost: f64,
    pub sent_s: f64,
    pub heard_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateReport>,
}

/// The data rate towards another station, where it follows what arrives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in HfRate")]
pub struct RateReport {
    pub bit_s: u64,
    pub up: u64,
    pub down: u64,
    pub silent: u64,
    pub reason: String,
    pub advised_bit_s: Option<u64>,
    pub heard_bit_s: Option<u32>,
    pub snr_db: Option<f64>,
}

impl RateReport {
    fn new(rate: &HfRate) -> Self {
        Self {
            bit_s: rate.bit_s,
            up: rate.up,
            down: rate.down,
            silent: rate.silent,
            reason: rate.reason.into(),
            advised_bit_s: rate.advised_bit_s,
            heard_bit_s: rate.heard_bit_s,
            snr_db: rate.snr_centi_db.map(|snr| f64::from(snr) / 100.0),
        }
    }

    fn row(&self, place: &str, with: &str) -> Vec<Cell> {
        vec![
            place.into(),
            with.into(),
            number(self.bit_s),
            number(self.up),
            number(self.down),
            number(self.silent),
            self.reason.as_str().into(),
            self.advised_bit_s.map_or_else(|| "".into(), number),
            self.heard_bit_s
                .map_or_else(|| "".into(), |rate| number(rate.into())),
            self.snr_db.map_or_else(|| "".into(), Cell::from),
        ]
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl StationReport {
    /// What is to be told of a port's station, if it has one.
    pub fn of(port: &PortStats) -> Option<Self> {
        let accesses = &port.client.accesses;
        let mut report = Self::new(&port.hf);
        if report.is_none() && !accesses.is_empty() {
            report = Some(Self::default());
        }
        report.map(|report| Self {
            accesses: accesses.clone(),
            ..report
        })
    }

    fn new(stats: &HfStats) -> Option<Self> {
        let queued = (0u8..).zip(stats.queued);
        let queued = queued.filter(|(_, count)| *count > 0);
        (!stats.peers.is_empty()).then(|| Self {
            turns: stats.turns,
            d_pdus_out: stats.d_pdus_out,
            d_pdus_in: stats.d_pdus_in,
            repeated: stats.repeated,
            unanswered: stats.unanswered,
            garbled: stats.garbled,
            links_made: stats.links_made,
            links_lost: stats.links_lost,
            resets: stats.resets,
            warnings: stats.warnings,
            messages: stats.messages,
            queued: queued
                .map(|(priority, count)| (priority.to_string(), count))
                .collect(),
            others_s: seconds(stats.others_ns),
            clients: ClientReport::new(&stats.clients),
            neighbours: stats.peers.iter().map(LinkReport::new).collect(),
            accesses: Vec::new(),
        })
    }

    fn queued_text(&self) -> String {
        let items = self.queued.iter().rev();
        let items = items.map(|(priority, count)| format!("{priority}: {count}"));
        items.collect::<Vec<_>>().join(", ")
    }
}

impl LinkReport {
    fn new(peer: &HfPeer) -> Self {
        Self {
            name: peer.name.clone(),
            linked: peer.linked,
            long: peer.long,
            under_way: peer.under_way,
            window: peer.window,
            segment_octets: peer.segment_octets,
            lost: peer.lost,
            sent_s: seconds(peer.sent_ns),
            heard_s: seconds(peer.heard_ns),
            rate: peer.rate.as_ref().map(RateReport::new),
        }
    }
}

fn columns(names: &[(&str, &str)]) -> Vec<Column> {
    let columns = names.iter().map(|(name, unit)| Column::new(*name, *unit));
    columns.collect()
}

fn number(count: u64) -> Cell {
    (count as f64).into()
}

fn client_row(place: &str, clients: &ClientReport) -> Vec<Cell> {
    let counts = [
        clients.bound,
        clients.requests,
        clients.indications,
        clients.confirmed,
        clients.rejected,
        clients.flooded,
        clients.unbound,
        clients.expired,
        clients.misdated,
        clients.invalid,
        clients.cut,
    ];
    let counts = counts.into_iter().map(number);
    let row = [place.into()].into_iter().chain(counts);
    row.chain([clients.confirm_s.into()]).collect()
}

const ACCESS_HEADS: [(&str, &str); 13] = [
    ("client", ""),
    ("access point", ""),
    ("state", ""),
    ("longest U_PDU", "octets"),
    ("under way", "U_PDUs"),
    ("U_PDUs given", ""),
    ("confirmed", ""),
    ("rejected", ""),
    ("came", ""),
    ("stops", ""),
    ("bindings refused", ""),
    ("lost", ""),
    ("invalid", "primitives"),
];

fn access_row(place: &str, access: &AccessStats) -> Vec<Cell> {
    let state = match (access.bound, access.stopped) {
        (false, _) => "none",
        (true, false) => "bound",
        (true, true) => "told to stop",
    };
    let first = [place.into(), number(access.sap.into()), state.into()];
    let counts = [
        access.mtu,
        access.under_way,
        access.requests,
        access.confirmed,
        access.rejected,
        access.indications,
        access.stops,
        access.refused,
        access.lost,
        access.invalid,
    ];
    let counts = counts.into_iter().map(number);
    first.into_iter().chain(counts).collect()
}

/// What stations did, what their links are, and what their clients did: tables, none without a row.
/// Each station comes with the name of its place.
pub fn station_tables<'a>(
    stations: impl Iterator<Item = (&'a str, &'a StationReport)>,
) -> Vec<Table> {
    let heads = [
        ("station", ""),
        ("turns", ""),
        ("D_PDUs out", ""),
        ("D_PDUs in", ""),
        ("repeats", ""),
        ("unanswered", "turns"),
        ("garbled", "turns"),
        ("links made", ""),
        ("links lost", ""),
        ("resets", ""),
        ("warnings", ""),
        ("queued by priority", ""),
        ("others on the air", "s"),
    ];
    let mut done = Table::new("stations", columns(&heads));
    let heads = [
        ("link", ""),
        ("with", ""),
        ("state", ""),
        ("frames under way", ""),
        ("window", ""),
        ("segment", "octets"),
        ("frames lost, share", ""),
        ("own air", "s"),
        ("its air", "s"),
    ];
    let mut links = Table::new("station-links", columns(&heads));
    let heads = [
        ("rate of", ""),
        ("towards", ""),
        ("rate", "bit/s"),
        ("changes up", ""),
        ("down by losses", ""),
        ("down by silence", ""),
        ("last reason", ""),
        ("advised", "bit/s"),
        ("heard last", "bit/s"),
        ("heard with", "dB"),
    ];
    let mut rates = Table::new("station-rates", columns(&heads));
    let heads = [
        ("clients of", ""),
        ("bound", ""),
        ("U_PDUs taken", ""),
        ("given", ""),
        ("confirmed", ""),
        ("rejected", ""),
        ("too many", ""),
        ("for nobody", ""),
        ("too late", ""),
        ("other calendar", ""),
        ("invalid", "primitives"),
        ("cut off", "clients"),
        ("confirmed after", "s"),
    ];
    let mut clients = Table::new("station-clients", columns(&heads));
    let mut accesses = Table::new("access-points", columns(&ACCESS_HEADS));
    for (place, station) in stations {
        for access in &station.accesses {
            accesses.push(access_row(place, access));
        }
        if station.neighbours.is_empty() {
            continue;
        }
        if station.clients != ClientReport::default() {
            clients.push(client_row(place, &station.clients));
        }
        done.push(vec![
            place.into(),
            number(station.turns),
            number(station.d_pdus_out),
            number(station.d_pdus_in),
            number(station.repeated),
            number(station.unanswered),
            number(station.garbled),
            number(station.links_made),
            number(station.links_lost),
            number(station.resets),
            number(station.warnings),
            station.queued_text().into(),
            station.others_s.into(),
        ]);
        for link in &station.neighbours {
            let state = match (link.linked, link.long) {
                (false, _) => "none",
                (true, false) => "Edition 3",
                (true, true) => "long numbers",
            };
            links.push(vec![
                place.into(),
                link.name.as_str().into(),
                state.into(),
                number(link.under_way),
                number(link.window),
                number(link.segment_octets),
                link.lost.into(),
                link.sent_s.into(),
                link.heard_s.into(),
            ]);
            if let Some(rate) = &link.rate {
                rates.push(rate.row(place, &link.name));
            }
        }
    }
    let tables = [done, links, rates, clients, accesses].into_iter();
    tables.filter(|table| !table.rows.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_has_a_row_and_each_of_its_links_one() {
        assert_eq!(StationReport::new(&HfStats::default()), None);
        let mut stats = HfStats {
            turns: 3,
            others_ns: 1_500_000_000,
            peers: vec![HfPeer {
                name: "b".into(),
                linked: true,
                window: 128,
                sent_ns: 2_000_000_000,
                ..HfPeer::default()
            }],
            ..HfStats::default()
        };
        (stats.queued[2], stats.queued[10]) = (4, 1);
        let report = StationReport::new(&stats).expect("a station");
        let tables = station_tables([("a.hf", &report)].into_iter());
        assert_eq!(tables[0].rows[0][11], "2: 4, 10: 1".into());
        assert_eq!(tables[0].rows[0][12], 1.5.into());
        assert_eq!(tables[1].rows[0][2], "Edition 3".into());
        assert_eq!(tables[1].rows[0][7], 2.0.into());
        assert_eq!(station_tables(core::iter::empty()).len(), 0);
        let mut port = PortStats::default();
        assert_eq!(StationReport::of(&port), None);
        port.client.accesses.push(AccessStats {
            sap: 9,
            bound: true,
            confirmed: 4,
            ..AccessStats::default()
        });
        let report = StationReport::of(&port).expect("a client");
        let tables = station_tables([("a.hf", &report)].into_iter());
        assert_eq!((tables.len(), tables[0].id.as_str()), (1, "access-points"));
        assert_eq!(tables[0].rows[0][2], "bound".into());
        assert_eq!(tables[0].rows[0][6], 4.0.into());
    }
}
