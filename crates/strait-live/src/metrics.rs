//! Counters in the Prometheus text format (OpenMetrics 1.0), over HTTP on a loopback address.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use strait_core::delay::DelayPart;
use strait_core::local::Volume;
use strait_core::stats::{COLOURS, ClassStats, PortStats, Stats};
use strait_core::time::Instant;

use crate::error::{Doing, Error};
use crate::server::{Answer, Answerer, Listener, Server};
use crate::service::{Service, View};

mod radio;

/// Serves `GET /metrics`.
#[derive(Debug)]
pub struct MetricsServer {
    server: Server,
    address: SocketAddr,
}

impl MetricsServer {
    /// Listens at `address`. The counters tell who talks how much, and the server has no
    /// password: an address that others can reach must be wished for by `allow_remote`.
    ///
    /// # Errors
    /// The address isn't loopback, is in use, or the system says no.
    pub fn bind(address: SocketAddr, allow_remote: bool) -> Result<Self, Error> {
        let doing = || format!("serve metrics on {address}");
        if !address.ip().is_loopback() && !allow_remote {
            let error = Error::invalid(doing(), "it isn't a loopback address");
            return Err(error.with_remedy("use 127.0.0.1 or [::1], or allow remote access"));
        }
        let listener = TcpListener::bind(address).doing(doing)?;
        let address = listener.local_addr().doing(doing)?;
        let server = Server::new(Listener::Tcp(listener), answerer()).doing(doing)?;
        Ok(Self { server, address })
    }

    /// Where it listens: with port 0 the system chose one.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Service for MetricsServer {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        self.server.interests()
    }

    fn serve(&mut self, view: &View<'_>) {
        self.server.serve(view);
    }

    fn wake(&self) -> Option<Instant> {
        self.server.wake()
    }
}

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn answerer() -> Answerer {
    Box::new(|request, view| {
        if !request.windows(4).any(|octets| octets == b"\r\n\r\n") {
            return Answer::Incomplete;
        }
        let line = request.split(|octet| *octet == b'\r').next();
        let mut words = line.unwrap_or_default().split(|octet| *octet == b' ');
        let (status, kind, body) = match (words.next(), words.next()) {
            (Some(b"GET"), Some(b"/metrics")) => ("200 OK", CONTENT_TYPE, text(view.merged())),
            (Some(b"GET"), _) => ("404 Not Found", "text/plain", "see /metrics\n".into()),
            _ => ("405 Method Not Allowed", "text/plain", "only GET\n".into()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        Answer::Full((head + &body).into_bytes())
    })
}

/// The counters as text.
pub fn text(stats: Stats) -> String {
    let mut registry = Registry::with_prefix("strait");
    registry.register_collector(Box::new(Snapshot(stats)));
    let mut text = String::new();
    // Writing into a string doesn't fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Snapshot(Stats);

type ClassValue = (&'static str, &'static str, fn(&ClassStats) -> u64);
type PortValue = (&'static str, &'static str, fn(&PortStats) -> u64);
type NodeValue = (&'static str, &'static str, fn(&Stats) -> u64);

const NODE_COUNTERS: [NodeValue; 9] = [
    ("admitted_packets", "Packets taken in from ports", |s| {
        s.admitted
    }),
    ("originated_packets", "Packets made by the node", |s| {
        s.originated
    }),
    ("delivered_packets", "Packets given to the host side", |s| {
        s.delivered
    }),
    ("forwarded_packets", "Packets sent by a link port", |s| {
        s.forwarded
    }),
    ("answered_packets", "Packets replied to locally", |s| {
        s.answered
    }),
    ("absorbed_packets", "Packets taken over by a proxy", |s| {
        s.absorbed
    }),
    ("fragmented_packets", "Packets cut into IP fragments", |s| {
        s.fragmented
    }),
    ("malformed_packets", "Octets that were no IP packet", |s| {
        s.malformed
    }),
    (
        "icmp_limited",
        "ICMP errors withheld by their rate limit",
        |s| s.icmp_limited,
    ),
];

const CLASS_COUNTERS: [ClassValue; 3] = [
    ("class_packets", "Packets that ended well, by class", |c| {
        c.packets
    }),
    ("class_octets", "Their octets, by class", |c| c.octets),
    (
        "class_marked_packets",
        "Packets marked «congestion experienced», by class",
        |c| c.marked,
    ),
];

const CLASS_GAUGES: [ClassValue; 2] = [
    ("class_queued_packets", "Packets waiting, by class", |c| {
        c.queued_packets
    }),
    ("class_queued_octets", "Octets waiting, by class", |c| {
        c.queued_octets
    }),
];

const PORT_COUNTERS: [PortValue; 21] = [
    ("port_frames_in", "Frames received", |p| p.frames_in),
    ("port_octets_in", "Octets received", |p| p.octets_in),
    ("port_frames_out", "Frames or segments sent", |p| {
        p.frames_out
    }),
    ("port_octets_out", "Octets sent", |p| p.octets_out),
    ("port_damaged", "Frames that failed their check", |p| {
        p.damaged
    }),
    ("port_invalid", "Frames with an impossible form", |p| {
        p.invalid
    }),
    (
        "port_incomplete",
        "Packets given up for a missing piece",
        |p| p.incomplete,
    ),
    (
        "port_plain_octets",
        "Octets of packets before header compression",
        |p| p.plain_octets,
    ),
    (
        "port_compressed_octets",
        "Octets of packets after header compression",
        |p| p.compressed_octets,
    ),
    (
        "port_payload_plain_octets",
        "Octets before payload compression",
        |p| p.payload.plain_octets,
    ),
    (
        "port_payload_compressed_octets",
        "Octets after payload compression",
        |p| p.payload.compressed_octets,
    ),
    (
        "port_payload_raw",
        "Packets whose payloads didn't get shorter",
        |p| p.payload.raw,
    ),
    (
        "port_undecompressed",
        "Packets that couldn't be told",
        |p| p.undecompressed,
    ),
    ("port_strangers", "Frames from no neighbour", |p| {
        p.strangers
    }),
    ("port_tx_failed", "Transmissions that failed", |p| {
        p.tx_failed
    }),
    ("port_downs", "Times the port went down", |p| p.downs),
    ("port_urgent_frames_out", "Urgent frames sent", |p| {
        p.urgent.frames
    }),
    ("port_urgent_suspended", "Frames suspended by them", |p| {
        p.urgent.suspended
    }),
    ("port_urgent_frames_in", "Urgent frames received", |p| {
        p.urgent.frames_in
    }),
    (
        "port_urgent_damaged",
        "Urgent frames that failed their check",
        |p| p.urgent.damaged,
    ),
    (
        "port_urgent_resumed",
        "Suspended frames that came whole",
        |p| p.urgent.resumed,
    ),
];

const PORT_GAUGES: [PortValue; 2] = [
    ("port_up", "Whether the port can send", |p| u64::from(p.up)),
    ("port_rate_bit_s", "Rate towards the neighbour", |p| {
        p.tx_rate.map_or(0, |rate| rate.bit_s())
    }),
];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (stats, to) = (&self.0, &mut encoder);
        for (name, help, value) in NODE_COUNTERS {
            let counter = ConstCounter::new(value(stats));
            let place = to.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(place)?;
        }
        drops(stats, to)?;
        local(stats, to)?;
        for (name, help, value) in CLASS_COUNTERS {
            counters(to, name, help, class_rows(stats, value))?;
        }
        for (name, help, value) in CLASS_GAUGES {
            gauges(to, name, help, class_rows(stats, value))?;
        }
        colours(stats, to)?;
        delays(stats, to)?;
        for (name, help, value) in PORT_COUNTERS {
            counters(to, name, help, port_rows(stats, value))?;
        }
        for (name, help, value) in PORT_GAUGES {
            gauges(to, name, help, port_rows(stats, value))?;
        }
        radio::stations(stats, to)?;
        radio::accesses(stats, to)?;
        let busy = |port: &PortStats| {
            let labels = [("port", port.name.clone())];
            (labels, seconds(port.busy_ns))
        };
        let busy = stats.ports.iter().map(busy);
        seconds_counters(to, "port_busy", "Time spent sending", busy)
    }
}

fn class_rows(
    stats: &Stats,
    value: fn(&ClassStats) -> u64,
) -> impl Iterator<Item = ([(&'static str, String); 1], u64)> {
    let row = move |class: &ClassStats| ([("class", class.name.clone())], value(class));
    stats.classes.iter().map(row)
}

fn port_rows(
    stats: &Stats,
    value: fn(&PortStats) -> u64,
) -> impl Iterator<Item = ([(&'static str, String); 1], u64)> {
    let row = move |port: &PortStats| ([("port", port.name.clone())], value(port));
    stats.ports.iter().map(row)
}

/// Packets destroyed, by class and cause; those without a class are what is left of the total.
fn drops(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let by_cause = stats
        .dropped
        .iter()
        .map(|(cause, count)| ([("cause", String::from(cause.name()))], count));
    counters(
        to,
        "dropped_packets",
        "Packets destroyed, by cause",
        by_cause,
    )?;
    let by_class = stats.classes.iter().flat_map(|class| {
        class.dropped.iter().map(|(cause, count)| {
            let cause = String::from(cause.name());
            ([("class", class.name.clone()), ("cause", cause)], count)
        })
    });
    let help = "Packets destroyed, by class and cause";
    counters(to, "class_dropped_packets", help, by_class)
}

/// What was kept off the links: packets and octets, by what it was.
fn local(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let rows = |value: fn(&Volume) -> u64| {
        stats.local.iter().map(move |(what, kind, volume)| {
            let labels = [("what", String::from(what)), ("kind", String::from(kind))];
            (labels, value(&volume))
        })
    };
    let help = "Packets kept off the links: chatter not let out, questions answered here";
    counters(to, "kept_off_packets", help, rows(|volume| volume.packets))?;
    let help = "Octets of the packets kept off the links";
    counters(to, "kept_off_octets", help, rows(|volume| volume.octets))?;
    let kept = [
        ("stored", stats.local.stored),
        ("forgotten", stats.local.forgotten),
    ];
    let kept = kept
        .into_iter()
        .chain([("displaced", stats.local.displaced)]);
    let rows = kept.map(|(event, count)| ([("event", String::from(event))], count));
    counters(
        to,
        "stored_replies",
        "Replies stored, and given up early",
        rows,
    )
}

/// What policers found, by class and colour.
fn colours(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let rows = stats.classes.iter().flat_map(|class| {
        COLOURS
            .into_iter()
            .zip(class.colours)
            .map(|(colour, count)| {
                let colour = String::from(colour);
                ([("class", class.name.clone()), ("colour", colour)], count)
            })
    });
    let help = "Packets by what their class's policer found";
    counters(to, "class_policed_packets", help, rows)
}

fn delays(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let rows = stats.classes.iter().flat_map(|class| {
        DelayPart::ALL.into_iter().map(|part| {
            let name = String::from(part.name());
            let labels = [("class", class.name.clone()), ("part", name)];
            (labels, seconds(class.parts.part_ns(part)))
        })
    });
    let help = "Where the time of the packets in class_packets went, summed";
    seconds_counters(to, "class_delay", help, rows)
}

fn counters<const L: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = ([(&'static str, String); L], u64)>,
) -> fmt::Result {
    let mut place = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in rows {
        ConstCounter::new(value).encode(place.encode_family(&labels)?)?;
    }
    Ok(())
}

fn seconds_counters<const L: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = ([(&'static str, String); L], f64)>,
) -> fmt::Result {
    let unit = Unit::Seconds;
    let mut place = to.encode_descriptor(name, help, Some(&unit), MetricType::Counter)?;
    for (labels, value) in rows {
        ConstCounter::new(value).encode(place.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauges<const L: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl Iterator<Item = ([(&'static str, String); L], u64)>,
) -> fmt::Result {
    let mut place = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(place.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::fate::DropCause;
    use strait_core::stats::{HfPeer, HfStats};

    #[test]
    fn every_counter_has_its_line() {
        let mut stats = Stats {
            admitted: 7,
            ..Stats::default()
        };
        stats.dropped.count(DropCause::HopLimit);
        stats
            .local
            .count_chatter(strait_wire::ip::Chatter::Mdns, 80);
        let mut class = ClassStats {
            name: "voice".into(),
            packets: 3,
            queued_octets: 99,
            ..ClassStats::default()
        };
        class.parts.add(DelayPart::Line, 1_500_000_000);
        class.dropped.count(DropCause::Aged);
        stats.classes.push(class);
        stats.ports.push(PortStats {
            name: "line \"1\"".into(),
            up: true,
            strangers: 2,
            busy_ns: 250_000_000,
            hf: HfStats {
                turns: 5,
                peers: vec![HfPeer {
                    name: "b".into(),
                    lost: 0.25,
                    sent_ns: 2_500_000_000,
                    ..HfPeer::default()
                }],
                ..HfStats::default()
            },
            ..PortStats::default()
        });
        let text = text(stats);
        for line in [
            "strait_admitted_packets_total 7",
            "strait_dropped_packets_total{cause=\"hop-limit\"} 1",
            "strait_class_dropped_packets_total{class=\"voice\",cause=\"aged\"} 1",
            "strait_kept_off_octets_total{what=\"chatter\",kind=\"mdns\"} 80",
            "strait_stored_replies_total{event=\"stored\"} 0",
            "strait_class_packets_total{class=\"voice\"} 3",
            "strait_class_queued_octets{class=\"voice\"} 99",
            "strait_class_delay_seconds_total{class=\"voice\",part=\"line\"} 1.5",
            "strait_port_strangers_total{port=\"line \\\"1\\\"\"} 2",
            "strait_port_up{port=\"line \\\"1\\\"\"} 1",
            "strait_port_busy_seconds_total{port=\"line \\\"1\\\"\"} 0.25",
            "strait_hf_turns_total{port=\"line \\\"1\\\"\"} 5",
            "strait_hf_air_sent_seconds_total{port=\"line \\\"1\\\"\",neighbour=\"b\"} 2.5",
            "strait_hf_lost_per_million{port=\"line \\\"1\\\"\",neighbour=\"b\"} 250000",
            "strait_hf_queued{port=\"line \\\"1\\\"\",priority=\"15\"} 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn others_may_not_read_unless_allowed() {
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let error = MetricsServer::bind(address, false).unwrap_err().to_string();
        assert!(error.contains("loopback"), "{error}");
        assert!(MetricsServer::bind(address, true).is_ok());
    }
}
