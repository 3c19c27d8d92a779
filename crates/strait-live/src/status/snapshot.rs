//! What a running gateway says of itself: as tables for people, as JSON for programs.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use strait_core::time::{Duration, Instant};
use strait_report::status_text;
use strait_status::why::{History, STEP_S, why};
use strait_status::{Late, MailQueue, Names, Snapshot};

use super::{Content, Format};
use crate::node_loop::Recorder;
use crate::node_loop::service::{Service, View};

/// The latest snapshots of a gateway, of which its diagnosis is made.
pub type Past = Rc<RefCell<History>>;

/// Takes a snapshot now and then.
#[derive(Debug)]
pub struct Historian {
    name: String,
    past: Past,
    next: Instant,
}

impl Historian {
    /// Of the gateway `name`.
    pub const fn new(name: String, past: Past) -> Self {
        let next = Instant::ZERO;
        Self { name, past, next }
    }
}

impl Service for Historian {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        Vec::new()
    }

    fn serve(&mut self, view: &View<'_>) {
        if view.now >= self.next {
            self.next = view.now + Duration::from_secs_f64(STEP_S);
            self.past.borrow_mut().note(view.snapshot(&self.name));
        }
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.next)
    }
}

/// The answers of the gateway `name`.
pub fn content(name: String, past: Past) -> Content {
    Box::new(move |format, view| {
        let status = view.snapshot(&name);
        match format {
            Format::Past => {
                let past = past.borrow().until(&status);
                serde_json::to_string(&past).unwrap_or_default() + "\n"
            }
            Format::Names => {
                let names = Names::new(&status, (view.names)());
                serde_json::to_string_pretty(&names).unwrap_or_default() + "\n"
            }
            Format::Mail => {
                let queue = MailQueue::new(&status, (view.mail)());
                serde_json::to_string_pretty(&queue).unwrap_or_default() + "\n"
            }
            Format::Text => status_text(&status, &why(&past.borrow().until(&status))),
            Format::Line => serde_json::to_string(&status).unwrap_or_default() + "\n",
            Format::Json => serde_json::to_string_pretty(&status).unwrap_or_default() + "\n",
        }
    })
}

impl View<'_> {
    /// The snapshot of the node, with what only the event loop knows.
    pub fn snapshot(&self, name: &str) -> Snapshot {
        let mut snapshot = Snapshot::new(name, self.now, self.stats, self.flows);
        for (port, status) in snapshot.ports.iter_mut().zip(self.ports) {
            port.problem.clone_from(&status.problem);
            port.found = status.found.map(|found| found.text.to_owned());
            port.strangers += status.counts.strangers;
            port.refused = status.counts.refused;
        }
        let rates = self.rates.until(self.now, self.stats);
        let (ports, classes) = rates.split_at(snapshot.ports.len().min(rates.len()));
        for (port, rates) in snapshot.ports.iter_mut().zip(ports) {
            [port.in_bit_s, port.out_bit_s] = rates.map(Some);
        }
        for (class, rates) in snapshot.classes.iter_mut().zip(classes) {
            [class.delivered_bit_s, class.sent_bit_s] = rates.map(Some);
        }
        let timers = self.timers;
        snapshot.timers = Late::new(timers.goes_first, &timers.late, timers.late_ns_max);
        snapshot.taps = self.taps.to_vec();
        snapshot.journal = self.recorder.and_then(Recorder::status);
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::delay::DelayPart;
    use strait_core::fate::DropCause;
    use strait_core::flow::{Flow, FlowKey, FlowMark, Nature, Standing};
    use strait_core::names::{NameEntry, NameState};
    use strait_core::node::{Input, Room, TxMeta};
    use strait_core::rate::LineRate;
    use strait_core::stats::{ClassStats, PortStats, Stats, UrgentStats};
    use strait_core::{ClassId, PortId};
    use strait_status::JournalStatus;

    use crate::node_loop::service::{PortStatus, Rates, Timers};

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
        class.sent.delay.record(100_000_000);
        class.delivered.delay.record(300_000_000);
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
        line.octets_in = 9000;
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
        let mut rates = Rates::default();
        rates.note(Instant::from_secs(50), &Stats::default());
        rates.note(Instant::from_secs(52), &Stats::default());
        rates.note(Instant::from_secs(55), &stats);
        let view = View {
            now: Instant::from_secs(60),
            stats: &stats,
            flows: &[call()],
            names: &|| vec![known()],
            mail: &strait_core::mail::MailView::default,
            ports: &ports,
            rates: &rates,
            timers: &timers,
            taps: &[],
            recorder: Some(&Full),
        };
        content("a".into(), Past::default())(format, &view)
    }

    #[test]
    fn text_shows_ports_classes_and_where_the_time_went() {
        let text = answer(Format::Text);
        let has = |words: &[&str]| {
            let found = |line: &str| line.split_whitespace().collect::<Vec<_>>() == words;
            assert!(text.lines().any(found), "{words:?}\n{text}");
        };
        assert!(
            text.starts_with("The port line is down: lost its device;"),
            "{text}"
        );
        assert!(text.contains("\na: up 1 min 00 s\n"), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 80), "{text}");
        has(&["host", "up", "-", "-", "0", "0"]);
        has(&["line", "DOWN", "9600", "0.5", "9000", "7200"]);
        has(&["line", "570", "800", "7"]);
        has(&["voice", "0.1024", "0.1024", "0.3113", "0.3113"]);
        assert!(!text.contains("damaged"), "nothing was: {text}");
        assert!(text.contains("\nline: lost its device\n"), "{text}");
        let ended = "\njournal: /tmp/a.journal ENDED at 700 octets: No space left on device\n";
        assert!(text.contains(ended), "{text}");
        assert!(
            text.contains("on the line: predicted by its rate"),
            "{text}"
        );
        has(&["chatter", "mdns", "1", "80"]);
        has(&["line", "7", "3"]);
        assert!(!text.contains("host 0"), "no row without urgent frames");
        let late = "\nwoken late by 2.05 ms (p50), 2.05 ms (p99), 2.00 ms at most\n";
        assert!(text.contains(late), "{text}");
        has(&["line", "1", "0.2048", "0.2048", "0.002048", "1"]);
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
        ]);
        has(&["fd00:1::2", "3", "38", "0.2", "1520", "1"]);
        has(&["voice", "2", "0.2", "0.4", "0.1", "0.25"]);
        has(&["voice", "0.3", "0.75"]);
        assert!(
            text.ends_with("packets: 4 taken in, 0 own; 2 forwarded, 1 held, dropped: aged 1\n"),
            "{text}"
        );
    }

    fn known() -> NameEntry {
        NameEntry {
            name: "www.example.".into(),
            kind: "A".into(),
            state: NameState::Kept,
            said: "192.0.2.1".into(),
            time: Duration::from_secs(60),
            waiting: 0,
            tries: 0,
        }
    }

    #[test]
    fn names_are_told_when_they_are_asked_for() {
        let names: Names = serde_json::from_str(&answer(Format::Names)).unwrap();
        assert_eq!((names.node.as_str(), names.more), ("a", 0));
        let row = &names.names[0];
        assert_eq!((row.state.as_str(), row.time_s), ("kept fresh", 60.0));
        assert!(!answer(Format::Json).contains("www.example"));
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
        // Each direction apart.
        let p99 = |of: &str| class[of].as_f64().unwrap();
        assert!((0.1..0.11).contains(&p99("delay_p99_s")));
        assert!((0.3..0.32).contains(&p99("delivered_p99_s")));
        assert_eq!(status["ports"][1]["in_bit_s"], 7200);
        assert_eq!(status["ports"][1]["out_bit_s"], 0);
    }
}
