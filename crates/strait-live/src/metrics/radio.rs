//! Stations on radios: who used the air, how links stand, what waits by priority.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use strait_core::stats::{AccessStats, HfPeer, HfRate, HfStats, PortStats, Stats};

use super::{counters, gauges, seconds, seconds_counters};

type StationValue = (&'static str, &'static str, fn(&HfStats) -> u64);
type LinkValue = (&'static str, &'static str, fn(&HfPeer) -> u64);

const STATION_COUNTERS: [StationValue; 19] = [
    ("hf_turns", "Transmissions of a station", |s| s.turns),
    ("hf_d_pdus_out", "D_PDUs sent", |s| s.d_pdus_out),
    ("hf_d_pdus_in", "D_PDUs received", |s| s.d_pdus_in),
    ("hf_repeated", "Frames sent again", |s| s.repeated),
    ("hf_unanswered", "Transmissions without an answer", |s| {
        s.unanswered
    }),
    (
        "hf_garbled",
        "Transmissions that nothing was understood of",
        |s| s.garbled,
    ),
    ("hf_links_made", "Links made, by either end", |s| {
        s.links_made
    }),
    ("hf_links_lost", "Links taken for lost", |s| s.links_lost),
    ("hf_resets", "Times that both ends began anew", |s| s.resets),
    ("hf_warnings", "Warnings sent and received", |s| s.warnings),
    (
        "hf_messages",
        "Management messages sent and received",
        |s| s.messages,
    ),
    ("hf_client_requests", "U_PDUs taken from clients", |s| {
        s.clients.requests
    }),
    ("hf_client_indications", "U_PDUs given to clients", |s| {
        s.clients.indications
    }),
    ("hf_client_confirmed", "U_PDUs confirmed to clients", |s| {
        s.clients.confirmed
    }),
    ("hf_client_rejected", "U_PDUs of clients rejected", |s| {
        s.clients.rejected
    }),
    ("hf_client_flooded", "U_PDUs of clients dropped", |s| {
        s.clients.flooded
    }),
    ("hf_client_cut", "Clients cut off", |s| s.clients.cut),
    (
        "hf_client_expired",
        "U_PDUs that arrived after their time to die",
        |s| s.clients.expired,
    ),
    (
        "hf_client_misdated",
        "U_PDUs with a time to die by another clock or calendar",
        |s| s.clients.misdated,
    ),
];

type AccessValue = (&'static str, &'static str, fn(&AccessStats) -> u64);

const ACCESS_COUNTERS: [AccessValue; 5] = [
    ("hf_access_requests", "U_PDUs given to the node", |a| {
        a.requests
    }),
    ("hf_access_confirmed", "U_PDUs that it confirmed", |a| {
        a.confirmed
    }),
    ("hf_access_rejected", "U_PDUs that it rejected", |a| {
        a.rejected
    }),
    ("hf_access_indications", "U_PDUs that it delivered", |a| {
        a.indications
    }),
    ("hf_access_lost", "Bindings that were lost", |a| a.lost),
];

/// Access points at nodes of others; nothing without one.
pub(super) fn accesses(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let all = stats.ports.iter().flat_map(|port| {
        port.client.accesses.iter().map(|access| {
            let labels = [("port", port.name.clone()), ("sap", access.sap.to_string())];
            (labels, access)
        })
    });
    if all.clone().next().is_none() {
        return Ok(());
    }
    for (name, help, value) in ACCESS_COUNTERS {
        let rows = all.clone().map(|(labels, access)| (labels, value(access)));
        counters(to, name, help, rows)?;
    }
    let bound = all.map(|(labels, access)| (labels, u64::from(access.bound)));
    gauges(
        to,
        "hf_access_bound",
        "Whether the access point is bound",
        bound,
    )
}

const LINK_GAUGES: [LinkValue; 4] = [
    ("hf_linked", "Whether there is a link", |p| {
        u64::from(p.linked)
    }),
    ("hf_frames_under_way", "Frames of the window", |p| {
        p.under_way
    }),
    ("hf_segment_octets", "Octets of a new segment", |p| {
        p.segment_octets
    }),
    (
        "hf_lost_per_million",
        "Of a million frames sent last, how many got lost",
        |p| (p.lost * 1e6) as u64,
    ),
];

type RateValue = (&'static str, &'static str, fn(&HfRate) -> u64);

const RATE_COUNTERS: [RateValue; 3] = [
    ("hf_rate_up", "Changes to a higher data rate", |r| r.up),
    ("hf_rate_down", "Changes to a lower one by losses", |r| {
        r.down
    }),
    ("hf_rate_silent", "Changes to a lower one by silence", |r| {
        r.silent
    }),
];

fn stations_of(stats: &Stats) -> impl Iterator<Item = &PortStats> + Clone {
    let ports = stats.ports.iter();
    ports.filter(|port| !port.hf.peers.is_empty())
}

fn links_of(stats: &Stats) -> impl Iterator<Item = ([(&'static str, String); 2], &HfPeer)> + Clone {
    stations_of(stats).flat_map(|port| {
        port.hf.peers.iter().map(|peer| {
            let labels = [
                ("port", port.name.clone()),
                ("neighbour", peer.name.clone()),
            ];
            (labels, peer)
        })
    })
}

/// All of it; nothing without a station.
pub(super) fn stations(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    if stations_of(stats).next().is_none() {
        return Ok(());
    }
    for (name, help, value) in STATION_COUNTERS {
        let row = |port: &PortStats| ([("port", port.name.clone())], value(&port.hf));
        counters(to, name, help, stations_of(stats).map(row))?;
    }
    for (name, help, value) in LINK_GAUGES {
        let rows = links_of(stats).map(|(labels, peer)| (labels, value(peer)));
        gauges(to, name, help, rows)?;
    }
    let rates = links_of(stats).filter_map(|(labels, peer)| Some((labels, peer.rate?)));
    for (name, help, value) in RATE_COUNTERS {
        let rows = rates.clone().map(|(labels, rate)| (labels, value(&rate)));
        counters(to, name, help, rows)?;
    }
    let bit_s = rates.map(|(labels, rate)| (labels, rate.bit_s));
    gauges(to, "hf_rate_bit_s", "Data rate towards a neighbour", bit_s)?;
    let queued = stations_of(stats).flat_map(|port| {
        let queued = (0u8..).zip(port.hf.queued);
        queued.map(|(priority, count)| {
            let priority = ("priority", priority.to_string());
            ([("port", port.name.clone()), priority], count)
        })
    });
    gauges(to, "hf_queued", "U_PDUs that wait, by priority", queued)?;
    air(stats, to)
}

/// Whose time on the air it was.
fn air(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let sent = links_of(stats).map(|(labels, peer)| (labels, seconds(peer.sent_ns)));
    seconds_counters(to, "hf_air_sent", "Own transmissions, by neighbour", sent)?;
    let heard = links_of(stats).map(|(labels, peer)| (labels, seconds(peer.heard_ns)));
    seconds_counters(to, "hf_air_heard", "Transmissions of a neighbour", heard)?;
    let others = stations_of(stats).map(|port| {
        let labels = [("port", port.name.clone())];
        (labels, seconds(port.hf.others_ns))
    });
    let help = "Transmissions of stations that aren't neighbours";
    seconds_counters(to, "hf_air_others", help, others)
}
