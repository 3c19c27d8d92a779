//! Stations on radios: who used the air, and how their links stand.

use strait_status::{Access, Clients, Link, Snapshot, Station};

use super::counters::counter_table;
use crate::table::{Cell, Table};

const fn link_state(link: &Link) -> &'static str {
    match (link.linked, link.long) {
        (false, _) => "none",
        (true, false) => "Edition 3",
        (true, true) => "long numbers",
    }
}

const fn access_state(access: &Access) -> &'static str {
    match (access.bound, access.stopped) {
        (false, _) => "none",
        (true, false) => "bound",
        (true, true) => "told to stop",
    }
}

/// The tables of the stations at all ports of some nodes; a place is `NODE.PORT`.
pub fn stations_of(nodes: &[Snapshot]) -> Vec<Table> {
    let ports = nodes
        .iter()
        .flat_map(|node| node.ports.iter().map(move |port| (node, port)));
    let stations = ports.filter_map(|(node, port)| {
        let station = port.hf.as_ref()?;
        Some((format!("{}.{}", node.node, port.name), station))
    });
    let stations: Vec<(String, &Station)> = stations.collect();
    station_tables(
        stations
            .iter()
            .map(|(place, station)| (place.as_str(), *station)),
    )
}

/// What stations did, what their links are, and what their clients did: tables, none without a row.
/// Each station comes with the name of its place.
pub(super) fn station_tables<'a>(
    stations: impl Iterator<Item = (&'a str, &'a Station)> + Clone,
) -> Vec<Table> {
    let own = stations.clone().filter(|(_, it)| !it.neighbours.is_empty());
    let links = own.clone().flat_map(|(place, station)| {
        let links = station.neighbours.iter();
        links.map(move |link| (place, link))
    });
    let rates = links.clone().filter_map(|(place, link)| {
        let lead: Vec<Cell> = vec![place.into(), link.name.as_str().into()];
        Some((lead, link.rate.as_ref()?))
    });
    let clients = own
        .clone()
        .map(|(place, station)| (place, &station.clients));
    let clients = clients.filter(|(_, clients)| **clients != Clients::default());
    let accesses = stations.flat_map(|(place, station)| {
        let accesses = station.accesses.iter();
        accesses.map(move |access| {
            let state = access_state(access).into();
            (
                vec![place.into(), f64::from(access.sap).into(), state],
                access,
            )
        })
    });
    let links = links.map(|(place, link)| {
        let state = link_state(link).into();
        (vec![place.into(), link.name.as_str().into(), state], link)
    });
    let tables = [
        counter_table(
            "stations",
            &["station"],
            own.map(|(place, it)| (vec![place.into()], it)),
        ),
        counter_table("station-links", &["link", "with", "state"], links),
        counter_table("station-rates", &["rate of", "towards"], rates),
        counter_table(
            "station-clients",
            &["clients of"],
            clients.map(|(place, it)| (vec![place.into()], it)),
        ),
        counter_table(
            "access-points",
            &["client", "access point", "state"],
            accesses,
        ),
    ];
    let tables = tables.into_iter();
    tables.filter(|table| !table.rows.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::stats::{AccessStats, HfCounts, HfLink, HfPeer, HfStats, PortStats};

    #[test]
    fn a_station_has_a_row_and_each_of_its_links_one() {
        let mut port = PortStats::default();
        assert_eq!(Station::of(&port), None);
        port.hf = HfStats {
            counts: HfCounts {
                turns: 3,
                others_ns: 1_500_000_000,
                ..HfCounts::default()
            },
            peers: vec![HfPeer {
                name: "b".into(),
                group: false,
                link: HfLink {
                    linked: true,
                    window: 128,
                    sent_ns: 2_000_000_000,
                    ..HfLink::default()
                },
            }],
            ..HfStats::default()
        };
        (port.hf.queued[2], port.hf.queued[10]) = (4, 1);
        let station = Station::of(&port).expect("a station");
        let tables = station_tables([("a.hf", &station)].into_iter());
        assert_eq!(tables[0].rows[0][11], "2: 4, 10: 1".into());
        assert_eq!(tables[0].rows[0][12], 1.5.into());
        assert_eq!(tables[1].rows[0][2], "Edition 3".into());
        assert_eq!(tables[1].rows[0][7], 2.0.into());
        assert_eq!(station_tables(core::iter::empty()).len(), 0);
        let mut port = PortStats::default();
        port.client.accesses.push(AccessStats {
            sap: 9,
            bound: true,
            confirmed: 4,
            ..AccessStats::default()
        });
        let station = Station::of(&port).expect("a client");
        let tables = station_tables([("a.hf", &station)].into_iter());
        assert_eq!((tables.len(), tables[0].id.as_str()), (1, "access-points"));
        assert_eq!(tables[0].rows[0][2], "bound".into());
        assert_eq!(tables[0].rows[0][6], 4.0.into());
    }
}
