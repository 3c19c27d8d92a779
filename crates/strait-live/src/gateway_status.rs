//! What a running gateway says of itself: as a table for people, as JSON for programs.

mod text;

pub(crate) use text::{columns, number};

use std::collections::BTreeMap;

use serde::Serialize;
use strait_core::delay::DelayPart;
use strait_core::local::LocalStats;
use strait_core::stats::{COLOURS, ClassStats, Drops, HopStats, PortStats, Stats, UrgentStats};
use strait_core::time::Instant;
use strait_world::report::StationReport;

use crate::gateway_flows::{FlowRow, PortFlows};
use crate::node_loop::Recorder;
use crate::service::{JournalStatus, PortStatus, Timers, View};
use crate::status::{Content, Format};

/// How long line parts of delays are known: a host can't see when octets arrive.
const LINE: &str = "predicted";

/// The state of a gateway. Times in seconds, shares 0 … 1.
#[derive(Clone, Debug, Serialize)]
pub struct GatewayStatus {
    /// Its name.
    pub node: String,
    /// Since its start.
    pub uptime_s: f64,
    /// How the line part of delays is known: `predicted`, from the rates of the lines.
    pub line: &'static str,
    /// Packets by their end.
    pub packets: Packets,
    /// What it kept off its links.
    pub local: Local,
    /// Its ports, the host side first.
    pub ports: Vec<Port>,
    /// Its classes, in the order of the policy.
    pub classes: Vec<Class>,
    /// The flows that leave by ports with the profile `adapter`: calls first.
    pub flows: Vec<FlowRow>,
    /// How soon the system woke it when a moment had come.
    pub timers: Late,
    /// Its journal; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalStatus>,
}

/// How late a gateway is woken.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in Timers")]
pub struct Late {
    pub goes_first: bool,
    pub woken: u64,
    pub late_p50_s: Option<f64>,
    pub late_p99_s: Option<f64>,
    pub late_max_s: f64,
}

/// Packets by what became of them.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in Stats")]
pub struct Packets {
    pub admitted: u64,
    pub originated: u64,
    pub delivered: u64,
    pub forwarded: u64,
    pub answered: u64,
    pub absorbed: u64,
    pub fragmented: u64,
    pub held: u64,
    pub malformed: u64,
    pub icmp_limited: u64,
    pub dropped: BTreeMap<&'static str, u64>,
}

/// What was kept off the links.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in LocalStats")]
pub struct Local {
    /// By kind.
    pub chatter: BTreeMap<&'static str, Volume>,
    /// By kind.
    pub answered: BTreeMap<&'static str, Volume>,
    /// By kind: given to the host side in place of what was kept off a link on the other side.
    pub repeated: BTreeMap<&'static str, Volume>,
    pub stored: u64,
    pub forgotten: u64,
    pub displaced: u64,
}

/// Packets and their octets.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Volume {
    pub packets: u64,
    pub octets: u64,
}

/// A port.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in PortStats")]
pub struct Port {
    pub name: String,
    pub up: bool,
    /// Why it isn't up.
    pub problem: Option<String>,
    /// Signalling rate towards the neighbour; null where no line sets one.
    pub rate_bit_s: Option<u64>,
    /// Share of the time since the start in which it sent.
    #[serde(rename = "use")]
    pub busy_share: f64,
    pub busy_s: f64,
    pub frames_in: u64,
    pub octets_in: u64,
    pub frames_out: u64,
    pub octets_out: u64,
    pub damaged: u64,
    pub invalid: u64,
    pub incomplete: u64,
    pub plain_octets: u64,
    pub compressed_octets: u64,
    /// Octets before payload compression and after it, and packets that gained nothing.
    pub payload_plain_octets: u64,
    pub payload_compressed_octets: u64,
    pub payload_raw: u64,
    pub undecompressed: u64,
    /// What the ends of the link have agreed on; empty where nobody asked.
    pub agreement: String,
    pub strangers: u64,
    pub tx_failed: u64,
    pub downs: u64,
    /// What flows leave by it.
    pub flows: PortFlows,
    /// Real-time packets that go inside others; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urgent: Option<Urgent>,
    /// What repairs cost and hold; null where nothing is repaired.
    pub hop: Option<HopStats>,
    /// Its station on a radio, with its links; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hf: Option<StationReport>,
}

/// Urgent frames.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in UrgentStats")]
pub struct Urgent {
    pub frames_out: u64,
    pub octets_out: u64,
    pub octets_max: u32,
    pub suspended: u64,
    pub frames_in: u64,
    pub damaged: u64,
    pub resumed: u64,
}

impl Urgent {
    fn new(stats: &UrgentStats) -> Option<Self> {
        (*stats != UrgentStats::default()).then_some(Self {
            frames_out: stats.frames,
            octets_out: stats.octets,
            octets_max: stats.octets_max,
            suspended: stats.suspended,
            frames_in: stats.frames_in,
            damaged: stats.damaged,
            resumed: stats.resumed,
        })
    }
}

/// A class.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in ClassStats")]
pub struct Class {
    pub name: String,
    pub packets: u64,
    pub octets: u64,
    pub queued_packets: u64,
    pub queued_octets: u64,
    pub dropped: BTreeMap<&'static str, u64>,
    pub marked: u64,
    /// What its policer found, by colour; nothing without one.
    pub policed: BTreeMap<&'static str, u64>,
    /// The delay in this node that half of the packets don't exceed.
    pub delay_p50_s: Option<f64>,
    /// The delay in this node that 99 of 100 packets don't exceed.
    pub delay_p99_s: Option<f64>,
    /// Sum of all delays.
    pub delay_s: f64,
    /// Where that time went; the parts add up to it.
    pub delay_parts_s: BTreeMap<&'static str, f64>,
}

/// The answers of the gateway `name`.
pub fn content(name: String) -> Content {
    Box::new(move |format, view| match format {
        Format::Text => text::text(&name, view),
        Format::Json => {
            let status = GatewayStatus::new(&name, view);
            serde_json::to_string_pretty(&status).unwrap_or_default() + "\n"
        }
    })
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn causes(drops: &Drops) -> BTreeMap<&'static str, u64> {
    let named = drops.iter().map(|(cause, count)| (cause.name(), count));
    named.collect()
}

fn policed(class: &ClassStats) -> BTreeMap<&'static str, u64> {
    let named = COLOURS.into_iter().zip(class.colours);
    if class.colours == [0; 3] {
        return BTreeMap::new();
    }
    named.collect()
}

impl GatewayStatus {
    /// What `view` shows.
    pub fn new(name: &str, view: &View<'_>) -> Self {
        let stats = view.merged();
        let ports = stats.ports.iter().enumerate();
        let port = |(index, port)| Port::new(port, view.ports.get(index), index, view.now);
        let flows = view.flows.iter();
        let flows = flows.map(|flow| FlowRow::new(flow, &stats, view.now));
        Self {
            node: name.into(),
            uptime_s: view.now.as_secs_f64(),
            line: LINE,
            packets: Packets::new(&stats),
            local: Local::new(&stats.local),
            ports: ports.map(port).collect(),
            classes: stats.classes.iter().map(Class::new).collect(),
            flows: flows.collect(),
            timers: Late::new(view.timers),
            journal: view.recorder.and_then(Recorder::status),
        }
    }
}

impl Late {
    fn new(timers: &Timers) -> Self {
        let quantile_s = |q| timers.late.quantile_ns(q).map(seconds);
        Self {
            goes_first: timers.goes_first,
            woken: timers.late.count(),
            late_p50_s: quantile_s(0.5),
            late_p99_s: quantile_s(0.99),
            late_max_s: seconds(timers.late_ns_max),
        }
    }
}

impl Local {
    fn new(stats: &LocalStats) -> Self {
        let of = |wanted: &str| {
            let those = stats.iter().filter(|(what, ..)| *what == wanted);
            let volume = |volume: strait_core::local::Volume| Volume {
                packets: volume.packets,
                octets: volume.octets,
            };
            those
                .map(|(_, kind, counts)| (kind, volume(counts)))
                .collect()
        };
        Self {
            chatter: of("chatter"),
            answered: of("answered"),
            repeated: of("repeated"),
            stored: stats.stored,
            forgotten: stats.forgotten,
            displaced: stats.displaced,
        }
    }
}

impl Packets {
    fn new(stats: &Stats) -> Self {
        Self {
            admitted: stats.admitted,
            originated: stats.originated,
            delivered: stats.delivered,
            forwarded: stats.forwarded,
            answered: stats.answered,
            absorbed: stats.absorbed,
            fragmented: stats.fragmented,
            held: stats.held(),
            malformed: stats.malformed,
            icmp_limited: stats.icmp_limited,
            dropped: causes(&stats.dropped),
        }
    }
}

impl Port {
    fn new(port: &PortStats, status: Option<&PortStatus>, index: usize, now: Instant) -> Self {
        let busy_s = seconds(port.busy_ns);
        // What was pulled last is counted whole, and may not have left.
        let busy_share = (busy_s / now.as_secs_f64().max(1e-9)).min(1.0);
        Self {
            name: port.name.clone(),
            up: port.up,
            problem: status.and_then(|status| status.problem.clone()),
            rate_bit_s: port.tx_rate.filter(|_| index > 0).map(|rate| rate.bit_s()),
            busy_share,
            busy_s,
            frames_in: port.frames_in,
            octets_in: port.octets_in,
            frames_out: port.frames_out,
            octets_out: port.octets_out,
            damaged: port.damaged,
            invalid: port.invalid,
            incomplete: port.incomplete,
            plain_octets: port.plain_octets,
            compressed_octets: port.compressed_octets,
            payload_plain_octets: port.payload.plain_octets,
            payload_compressed_octets: port.payload.compressed_octets,
            payload_raw: port.payload.raw,
            undecompressed: port.undecompressed,
            agreement: port.agreement.text(),
            strangers: port.strangers,
            tx_failed: port.tx_failed,
            downs: port.downs,
            flows: PortFlows::new(&port.flows),
            urgent: Urgent::new(&port.urgent),
            hop: (port.hop != HopStats::default()).then_some(port.hop),
            hf: StationReport::of(port),
        }
    }
}

impl Class {
    fn new(class: &ClassStats) -> Self {
        let quantile_s = |q| class.delay.quantile_ns(q).map(seconds);
        let part = |part: DelayPart| (part.name(), seconds(class.parts.part_ns(part)));
        Self {
            name: class.name.clone(),
            packets: class.packets,
            octets: class.octets,
            queued_packets: class.queued_packets,
            queued_octets: class.queued_octets,
            dropped: causes(&class.dropped),
            marked: class.marked,
            policed: policed(class),
            delay_p50_s: quantile_s(0.5),
            delay_p99_s: quantile_s(0.99),
            delay_s: seconds(class.parts.total_ns()),
            delay_parts_s: DelayPart::ALL.into_iter().map(part).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::fate::DropCause;
    use strait_core::flow::{Flow, FlowKey, FlowMark, Nature, Standing};
    use strait_core::node::{Input, Room, TxMeta};
    use strait_core::rate::LineRate;
    use strait_core::time::Duration;
    use strait_core::{ClassId, PortId};

    fn stats() -> Stats {
        let mut class = ClassStats {
            name: "voice".into(),
            packets: 2,
            octets: 120,
            queued_packets: 1,
            ..ClassStats::default()
        };
        class.parts.add(DelayPart::Class, 100_000_000);
        class.parts.add(DelayPart::Line, 300_000_000);
        class.delay.record(100_000_000);
        class.delay.record(300_000_000);
        class.dropped.count(DropCause::Aged);
        let port = |name: &str, up| PortStats {
            name: name.into(),
            up,
            tx_rate: Some(LineRate::new(9600, 10)),
            busy_ns: 30_000_000_000,
            urgent: UrgentStats {
                frames: 7 * u64::from(!up),
                suspended: 3 * u64::from(!up),
                ..UrgentStats::default()
            },
            ..PortStats::default()
        };
        let mut stats = Stats {
            admitted: 4,
            forwarded: 2,
            classes: vec![class],
            ports: vec![port("host", true), port("line", false)],
            ..Stats::default()
        };
        stats.dropped.count(DropCause::Aged);
        stats
            .local
            .count_chatter(strait_wire::ip::Chatter::Mdns, 80);
        let line = &mut stats.ports[1];
        (line.plain_octets, line.compressed_octets) = (910, 340);
        line.payload.plain_octets = 1000;
        (line.payload.compressed_octets, line.payload.raw) = (200, 7);
        line.flows.known = 1;
        let ms = Duration::from_millis;
        line.flows.gaps.count(ms(200), ms(202), ms(2));
        line.undecompressed = 2;
        stats
    }

    /// A journal on a disk that is full.
    struct Full;

    impl Recorder for Full {
        fn input(&mut self, _: Instant, _: &Input<'_>) {}

        fn pulled(&mut self, _: Instant, _: PortId, _: Room, _: &TxMeta, _: &[u8]) {}

        fn status(&self) -> Option<JournalStatus> {
            Some(JournalStatus {
                file: "/tmp/a.journal".into(),
                octets: 700,
                ended: Some("No space left on device".into()),
            })
        }
    }

    fn call() -> Flow {
        Flow {
            port: PortId(1),
            key: FlowKey {
                src: "fd00:1::2".parse().unwrap(),
                dst: "fd00:2::2".parse().unwrap(),
                protocol: 17,
                mark: FlowMark::Ports(4000, 5004),
            },
            class: ClassId(0),
            dscp: 46,
            nature: Nature::Ruled,
            standing: Some(Standing::Refused),
            packets: 3,
            octets: 38,
            period: Some(Duration::from_millis(200)),
            seen: Instant::from_secs(59),
        }
    }

    fn answer(format: Format) -> String {
        let stats = stats();
        let ports = [
            PortStatus::default(),
            PortStatus {
                problem: Some("lost its device".into()),
                ..PortStatus::default()
            },
        ];
        let mut timers = Timers::default();
        timers.record(2_000_000);
        let view = View {
            now: Instant::from_secs(60),
            stats: &stats,
            flows: &[call()],
            ports: &ports,
            timers: &timers,
            recorder: Some(&Full),
        };
        content("a".into())(format, &view)
    }

    #[test]
    fn text_shows_ports_classes_and_where_the_time_went() {
        let text = answer(Format::Text);
        let has = |words: &[&str]| {
            let found = |line: &str| line.split_whitespace().collect::<Vec<_>>() == words;
            assert!(text.lines().any(found), "{words:?}\n{text}");
        };
        assert!(text.starts_with("a: up 1 min 00 s\n"), "{text}");
        has(&[
            "host", "up", "-", "-", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0",
        ]);
        has(&[
            "line", "DOWN", "9600", "0.5", "0", "0", "0", "0", "0", "0", "570", "800", "7", "2",
            "0",
        ]);
        assert!(text.contains("\nline: lost its device\n"), "{text}");
        let ended = "\njournal: /tmp/a.journal ENDED at 700 octets: No space left on device\n";
        assert!(text.contains(ended), "{text}");
        assert!(
            text.contains("on the line: predicted by its rate"),
            "{text}"
        );
        has(&["chatter", "mdns", "1", "80"]);
        has(&["line", "7", "0", "0", "3", "0", "0", "0"]);
        assert!(!text.contains("host 0"), "no row without urgent frames");
        let late = "\nwoken late by 2.05 ms (p50), 2.05 ms (p99), 2.00 ms at most\n";
        assert!(text.contains(late), "{text}");
        has(&[
            "line", "1", "0.2048", "0.2048", "0.002048", "0", "0", "0", "0", "0", "1", "0",
        ]);
        has(&[
            "fd00:1::2",
            "fd00:2::2",
            "17",
            "4000",
            ">",
            "5004",
            "real-time",
            "refused",
            "voice",
            "no",
            "3",
            "38",
            "0.2",
            "1520",
            "1",
        ]);
        has(&["voice", "2", "0.2", "0.4", "0.1", "0.25", "0.3", "0.75"]);
        assert!(
            text.ends_with("packets: 4 taken in, 0 own; 2 forwarded, 1 held, dropped: aged 1\n"),
            "{text}"
        );
    }

    #[test]
    fn json_says_the_same_in_si_units() {
        let status: serde_json::Value = serde_json::from_str(&answer(Format::Json)).unwrap();
        assert_eq!(status["node"], "a");
        assert_eq!(status["uptime_s"], 60.0);
        assert_eq!(status["line"], "predicted");
        assert_eq!(status["packets"]["held"], 1);
        assert_eq!(status["ports"][0]["rate_bit_s"], serde_json::Value::Null);
        assert_eq!(status["ports"][1]["use"], 0.5);
        assert_eq!(status["ports"][1]["problem"], "lost its device");
        assert_eq!(status["local"]["chatter"]["mdns"]["octets"], 80);
        assert_eq!(status["journal"]["ended"], "No space left on device");
        assert_eq!(status["ports"][0].get("urgent"), None);
        assert_eq!(status["ports"][1]["urgent"]["suspended"], 3);
        assert_eq!(status["timers"]["late_max_s"], 0.002);
        assert_eq!(status["ports"][1]["flows"]["gaps"], 1);
        let flow = &status["flows"][0];
        assert_eq!(flow["ports"], serde_json::json!([4000, 5004]));
        assert_eq!(flow["rate_bit_s"], 1520);
        assert_eq!(flow["ipsec"], false);
        let class = &status["classes"][0];
        assert_eq!(class["dropped"]["aged"], 1);
        assert_eq!(class["delay_s"], 0.4);
        let parts = class["delay_parts_s"].as_object().unwrap();
        let sum: f64 = parts.values().filter_map(serde_json::Value::as_f64).sum();
        assert!((sum - 0.4).abs() < 1e-9);
        assert!(class["delay_p99_s"].as_f64().unwrap() >= 0.3);
    }
}
