//! Joins what both hosts saw of a traffic into what the user is told.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use strait_report::estimate::{Jitter, percentile_of_sorted};
use strait_report::scatter::Figure;
use strait_report::table::Table;
use strait_tcp::TcpEventKind;

use super::config::{Kind, Traffic, TrafficConfig};
use super::log::{FlowLog, Mark, Transfer};
use crate::measure::{Campaign, TransferRecord, measurements, metric_labels, tables};
use crate::pair::{PairRecord, PairSummary, figure};

/// What a traffic experienced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowReport {
    /// Name of the traffic.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Time series, for plots.
    pub series: Vec<Series>,
    /// When what didn't arrive had been sent, in s.
    #[serde(skip)]
    pub lost_s: Vec<f64>,
    /// What was counted.
    pub counters: BTreeMap<String, u64>,
    /// What it comes down to, in plain SI units. What couldn't be measured (nothing arrived, a
    /// transfer didn't end) isn't there.
    pub metrics: BTreeMap<String, f64>,
    /// Tables beside them: of measured transfers.
    pub tables: Vec<Table>,
    /// Pictures beside them: of packet pairs.
    pub figures: Vec<Figure>,
}

/// Values over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// What: `delay`, `delay back`, `rtt`, `progress`, `sent again`, `objects`.
    pub label: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Time in s (of sending, or of arrival for transfers) and value.
    pub points: Vec<(f64, f64)>,
}

/// Joins the logs of a traffic's two hosts.
///
/// * voice, udp: delay from sending to arrival; both directions count together. Loss is the share
///   of packets sent that had not arrived when the logs ended, so a packet under way then counts as
///   lost: leave time between `stop` and the end of a run. Percentiles are over the packets that
///   arrived; jitter is |D| of RFC 3550 section 6.4.1. `settled` are packets sent a second or more
///   after the first, when what a link has to learn of a flow is known. The rate is that of the UDP
///   payload (of voice with the RTP header) that arrived, from the first arrival on for as long as
///   packets were sent: what a path keeps back or drops in that time counts as nothing. Of two
///   directions, the mean.
/// * ping, dns: time from request to reply, at the sender.
/// * tcp with `sizes`: see [`crate::measure`]; a metric has the size in front of its name, and
///   `complete` is the share of the transfers that came to an end.
/// * chatter, hello: how many packets were sent.
/// * pair: see [`crate::pair`].
/// * mail: `taken_s` until the switch has answered for it, `time_s` until it lies in its mailbox.
/// * else tcp, page: from asking for the first connection to the arrival of the last octet;
///   `complete` is 1 if everything arrived, `wrong` the octets that weren't what was sent.
///
/// A packet that arrives twice counts once and is counted as `duplicates`.
pub fn report(config: &TrafficConfig, from: &FlowLog, to: &FlowLog) -> FlowReport {
    let mut report = FlowReport::empty(config.name.clone(), config.kind);
    for log in [from, to] {
        for (name, count) in &log.counters {
            *report.counters.entry(name.clone()).or_default() += count;
        }
    }
    match &config.what {
        Traffic::Voice { .. } | Traffic::Udp { .. } => report.datagrams(from, to),
        Traffic::Esp { .. } => {
            report.datagrams(from, to);
            let wrong = to.counters.get("wrong").copied().unwrap_or_default();
            report.metric("wrong", Some(wrong as f64));
        }
        Traffic::Ping { .. } | Traffic::Dns { .. } | Traffic::EchoDatagrams { .. } => {
            report.ping(from);
        }
        Traffic::Measured {
            campaign,
            rate_bit_s,
            ..
        } => report.measured(&from.measured, campaign, *rate_bit_s),
        Traffic::Tcp { .. } => report.tcp(from, to),
        Traffic::Page { .. } => report.page(from, to),
        Traffic::Mgen(_) => report.all_flows(from, to),
        Traffic::Chatter { .. } | Traffic::Hello { .. } => {
            report.metric("sent", Some(from.sent.len() as f64));
        }
        Traffic::Pair(_) => report.pairs(&from.pairs),
        Traffic::EchoStream { .. } => report.echo(from),
        Traffic::Mail { .. } => report.mail(from, to),
    }
    report
}

/// The metrics that [`report()`] may have of a traffic; of a script also `FLOW.METRIC`.
pub fn metrics_of(config: &TrafficConfig) -> Vec<String> {
    const DATAGRAMS: &[&str] = &[
        "delay_p50_s",
        "delay_p99_s",
        "jitter_p99_s",
        "settled_delay_p99_s",
        "settled_jitter_p99_s",
        "loss",
        "rate_bit_s",
    ];
    let names: &[&str] = match &config.what {
        Traffic::Voice { .. } | Traffic::Udp { .. } | Traffic::Esp { .. } => DATAGRAMS,
        Traffic::Ping { .. } | Traffic::Dns { .. } | Traffic::EchoDatagrams { .. } => {
            &["rtt_p50_s", "rtt_p99_s", "rtt_min_s", "loss"]
        }
        Traffic::Tcp { .. } => &["time_s", "goodput_bit_s", "connect_s"],
        // A service may refuse who asks.
        Traffic::EchoStream { tls: None, .. } => {
            &["time_s", "goodput_bit_s", "connect_s", "complete"]
        }
        Traffic::EchoStream { tls: Some(_), .. } => &[
            "time_s",
            "goodput_bit_s",
            "connect_s",
            "complete",
            "secure_s",
        ],
        Traffic::Mail { .. } => &["time_s", "taken_s", "connect_s", "complete", "wrong"],
        Traffic::Page { .. } => &["time_s", "goodput_bit_s"],
        Traffic::Chatter { .. } | Traffic::Hello { .. } => &["sent"],
        Traffic::Pair(_) => &[
            "rate_bit_s",
            "gradient_bit_s",
            "train_bit_s",
            "pairs_min",
            "loss",
        ],
        Traffic::Measured {
            campaign,
            rate_bit_s,
            ..
        } => {
            let labels = campaign.labels().into_iter();
            let metrics = labels.flat_map(|label| metric_labels(&label, rate_bit_s.is_some()));
            return metrics.chain([String::from("complete")]).collect();
        }
        Traffic::Mgen(mgen) => {
            let flows: BTreeSet<u32> = mgen.script.flows().map(|(_, flow, _)| flow).collect();
            let of = |flow: u32| DATAGRAMS.iter().map(move |it| format!("{flow}.{it}"));
            let all = ["delay_p50_s", "delay_p99_s", "loss", "rate_bit_s"].map(String::from);
            return all
                .into_iter()
                .chain(flows.into_iter().flat_map(of))
                .collect();
        }
    };
    names.iter().copied().map(String::from).collect()
}

/// One direction: what was sent at one end and arrived at the other.
#[derive(Default)]
struct Joined {
    /// Sending time and delay in s of each packet that arrived, in the order of arrival.
    delays: Vec<(f64, f64)>,
    jitter: Jitter,
    sent: u64,
    duplicates: u64,
    reordered: u64,
    unsent: u64,
    /// What arrived by [`rate_bit_s`].
    rate_bit_s: Option<f64>,
    /// When the others were sent.
    lost_s: Vec<f64>,
    /// The longest time in which none of what was sent arrived, in s.
    silent_s: f64,
}

/// From the first packet that was lost to the next that arrived, or the last of all; the longest
/// such time.
fn longest_silence_s(sent: &[Mark], arrived: &[bool]) -> f64 {
    let mut longest_ns = 0;
    let mut since = None;
    for (mark, arrived) in sent.iter().zip(arrived) {
        let began = *since.get_or_insert(mark.at_ns);
        longest_ns = longest_ns.max(mark.at_ns.saturating_sub(began));
        if *arrived {
            since = None;
        }
    }
    longest_ns as f64 / 1e9
}

fn join(sent: &[Mark], received: &[Mark]) -> Joined {
    let mut joined = Joined {
        sent: sent.len() as u64,
        ..Joined::default()
    };
    let mut seen = vec![false; sent.len()];
    let mut arrived = Vec::new();
    let mut highest = None;
    for mark in received {
        // Senders number in order, so a sequence stands where a search finds it.
        let Ok(index) = sent.binary_search_by_key(&mark.sequence, |sent| sent.sequence) else {
            joined.unsent += 1;
            continue;
        };
        if std::mem::replace(&mut seen[index], true) {
            joined.duplicates += 1;
            continue;
        }
        if highest.is_some_and(|highest| mark.sequence < highest) {
            joined.reordered += 1;
        }
        highest = highest.max(Some(mark.sequence));
        let sent_ns = sent[index].at_ns;
        // Differences in integers: the times may be large and the delays small.
        let delay_s = i128::from(mark.at_ns) - i128::from(sent_ns);
        let (sent_s, delay_s) = (sent_ns as f64 / 1e9, delay_s as f64 / 1e9);
        joined.jitter.record(0.0, delay_s);
        joined.delays.push((sent_s, delay_s));
        arrived.push(*mark);
    }
    joined.rate_bit_s = rate_bit_s(sent, &arrived);
    joined.silent_s = longest_silence_s(sent, &seen);
    let lost = sent.iter().zip(seen).filter(|(_, seen)| !seen);
    joined.lost_s = lost.map(|(mark, _)| mark.at_ns as f64 / 1e9).collect();
    joined
}

/// Payload rate of what arrived, from the first arrival on for as long as packets were sent: to the
/// last of them, and on for a mean gap. `None` of fewer than two.
fn rate_bit_s(sent: &[Mark], arrived: &[Mark]) -> Option<f64> {
    let times = || sent.iter().map(|mark| mark.at_ns);
    let gaps = sent.len().checked_sub(1).filter(|gaps| *gaps > 0)? as f64;
    let span_ns = (times().max()? - times().min()?) as f64 * (gaps + 1.0) / gaps;
    let first_ns = arrived.iter().map(|mark| mark.at_ns).min().unwrap_or(0);
    let in_time = |mark: &&Mark| ((mark.at_ns - first_ns) as f64) < span_ns;
    let octets: u64 = arrived
        .iter()
        .filter(in_time)
        .map(|mark| u64::from(mark.octets))
        .sum();
    (span_ns > 0.0).then(|| octets as f64 * 8e9 / span_ns)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

impl FlowReport {
    /// An empty report.
    pub const fn empty(name: String, kind: Kind) -> Self {
        Self {
            name,
            kind,
            series: Vec::new(),
            lost_s: Vec::new(),
            counters: BTreeMap::new(),
            metrics: BTreeMap::new(),
            tables: Vec::new(),
            figures: Vec::new(),
        }
    }

    fn metric(&mut self, name: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.metrics.insert(name.into(), value);
        }
    }

    fn count(&mut self, name: &str, count: u64) {
        *self.counters.entry(name.into()).or_default() += count;
    }

    /// Loss, duplicates, order; gives the packets that arrived.
    fn arrivals(&mut self, directions: &[Joined]) {
        let sum = |part: fn(&Joined) -> u64| directions.iter().map(part).sum::<u64>();
        let (sent, arrived) = (sum(|d| d.sent), sum(|d| d.delays.len() as u64));
        self.count("sent", sent);
        self.count("received", arrived);
        self.count("duplicates", sum(|d| d.duplicates));
        self.count("reordered", sum(|d| d.reordered));
        self.count("unexpected", sum(|d| d.unsent));
        let loss = (sent > 0).then(|| (sent - arrived) as f64 / sent as f64);
        self.metric("loss", loss);
    }

    pub(super) fn datagrams(&mut self, from: &FlowLog, to: &FlowLog) {
        let directions = [
            join(&from.sent, &to.received),
            join(&to.sent, &from.received),
        ];
        self.arrivals(&directions);
        let delays = sorted(
            directions
                .iter()
                .flat_map(|d| &d.delays)
                .map(|(_, delay)| *delay),
        );
        let jitters = sorted(
            directions
                .iter()
                .flat_map(|d| d.jitter.distances_s())
                .copied(),
        );
        self.settled(&directions);
        let silent = directions.iter().map(|it| it.silent_s);
        let silent = silent.fold(0.0, f64::max);
        let calls = self.kind == Kind::Voice && silent > 0.0;
        self.metric("silent_max_s", calls.then_some(silent));
        self.metric("delay_min_s", delays.first().copied());
        self.metric("delay_p50_s", percentile_of_sorted(&delays, 0.5));
        self.metric("delay_p99_s", percentile_of_sorted(&delays, 0.99));
        self.metric("delay_max_s", delays.last().copied());
        self.metric("jitter_p99_s", percentile_of_sorted(&jitters, 0.99));
        let smoothed = directions
            .iter()
            .map(|d| d.jitter.smoothed_s())
            .fold(0.0, f64::max);
        self.metric(
            "jitter_smoothed_s",
            (!jitters.is_empty()).then_some(smoothed),
        );
        let rates: Vec<f64> = directions.iter().filter_map(|it| it.rate_bit_s).collect();
        self.metric("rate_bit_s", strait_report::estimate::mean(&rates));
        for (label, direction) in ["delay", "delay back"].into_iter().zip(directions) {
            self.lost_s.extend(direction.lost_s);
            if direction.sent > 0 {
                self.series.push(Series {
                    label,
                    unit: "s",
                    points: direction.delays,
                });
            }
        }
    }

    /// Delay and jitter without each direction's first second.
    fn settled(&mut self, directions: &[Joined]) {
        let (mut delays, mut jitters) = (Vec::new(), Vec::new());
        for direction in directions {
            let times = direction.delays.iter().map(|(sent_s, _)| *sent_s);
            let settled_s = times.reduce(f64::min).map_or(0.0, |first_s| first_s + 1.0);
            let mut jitter = Jitter::default();
            for (_, delay_s) in direction.delays.iter().filter(|it| it.0 >= settled_s) {
                jitter.record(0.0, *delay_s);
                delays.push(*delay_s);
            }
            jitters.extend_from_slice(jitter.distances_s());
        }
        let p99 = |values: Vec<f64>| percentile_of_sorted(&sorted(values.into_iter()), 0.99);
        self.metric("settled_delay_p99_s", p99(delays));
        self.metric("settled_jitter_p99_s", p99(jitters));
    }

    fn ping(&mut self, from: &FlowLog) {
        let directions = [join(&from.sent, &from.received)];
        self.arrivals(&directions);
        let [joined] = directions;
        let rtts = sorted(joined.delays.iter().map(|(_, rtt)| *rtt));
        self.metric("rtt_min_s", rtts.first().copied());
        self.metric("rtt_p50_s", percentile_of_sorted(&rtts, 0.5));
        self.metric("rtt_p99_s", percentile_of_sorted(&rtts, 0.99));
        self.metric("rtt_max_s", rtts.last().copied());
        self.series.push(Series {
            label: "rtt",
            unit: "s",
            points: joined.delays,
        });
    }

    fn echo(&mut self, from: &FlowLog) {
        let near = from.transfer.clone().unwrap_or_default();
        let connect_s = span_s(near.started_ns, near.connected_ns);
        self.metric("connect_s", connect_s);
        let secure_s = span_s(near.connected_ns, near.secured_ns);
        self.metric("secure_s", secure_s);
        self.transfer(near.started_ns, &near);
        self.tcp_counters(&[&near]);
        self.progress(&from.received);
    }

    /// From the beginning until the switch has taken it, and until it lies in its mailbox.
    fn mail(&mut self, from: &FlowLog, to: &FlowLog) {
        let near = from.transfer.clone().unwrap_or_default();
        let far = to.transfer.clone().unwrap_or_default();
        let since = |at_ns| span_s(near.started_ns, at_ns);
        self.metric("connect_s", since(near.connected_ns));
        self.metric("taken_s", since(near.finished_ns));
        self.metric("time_s", since(far.finished_ns));
        let complete = far.finished_ns.is_some() && far.wrong_octets == 0;
        self.metric("complete", Some(f64::from(u8::from(complete))));
        self.metric("wrong", Some(far.wrong_octets as f64));
    }

    fn tcp(&mut self, from: &FlowLog, to: &FlowLog) {
        let (near, far) = (
            from.transfer.clone().unwrap_or_default(),
            to.transfer.clone().unwrap_or_default(),
        );
        let connect_s = span_s(near.started_ns, near.connected_ns);
        self.metric("connect_s", connect_s);
        self.transfer(near.started_ns, &far);
        self.tcp_counters(&[&near, &far]);
        self.progress(&to.received);
        if !near.repeats.is_empty() {
            let repeats = near.repeats.iter();
            self.series.push(Series {
                label: "sent again",
                unit: "octets",
                points: repeats
                    .map(|(at_ns, position)| (*at_ns as f64 / 1e9, *position as f64))
                    .collect(),
            });
        }
    }

    fn measured(
        &mut self,
        records: &[TransferRecord],
        campaign: &Campaign,
        rate_bit_s: Option<u64>,
    ) {
        self.metrics.extend(measurements(records, rate_bit_s));
        let complete = records.iter().filter(|it| it.failure.is_none()).count();
        // Those that hadn't begun or ended count as well.
        let planned = campaign.plans().len();
        let share = complete as f64 / planned as f64;
        self.metric("complete", (planned > 0).then_some(share));
        let wrong: u64 = records.iter().map(|it| it.wrong).sum();
        self.metric("wrong", Some(wrong as f64));
        for record in records {
            self.count("tcp_segments", record.sender.segments_out);
            self.count("tcp_retransmissions", record.sender.retransmissions);
        }
        self.tables.extend(tables(&self.name, records, rate_bit_s));
    }

    fn pairs(&mut self, records: &[PairRecord]) {
        let summary = PairSummary::new(records);
        self.metrics.extend(summary.metrics());
        self.count("groups", summary.groups as u64);
        self.count("lost", summary.lost as u64);
        self.count("sender_bound", summary.sender_bound as u64);
        self.tables.extend(summary.tables(&self.name));
        let title = format!("pair separation against size, {}", self.name);
        self.figures
            .push(figure(&title, vec![summary.marks("pairs")]));
    }

    fn page(&mut self, from: &FlowLog, to: &FlowLog) {
        let (client, server) = (
            from.transfer.clone().unwrap_or_default(),
            to.transfer.clone().unwrap_or_default(),
        );
        self.transfer(client.started_ns, &client);
        self.tcp_counters(&[&client, &server]);
        self.count("objects", client.objects.len() as u64);
        self.progress(&from.received);
        let done = client.objects.iter().zip(1u32..);
        let points = done.map(|(mark, done)| (mark.at_ns as f64 / 1e9, f64::from(done)));
        self.series.push(Series {
            label: "objects",
            unit: "1",
            points: points.collect(),
        });
    }

    fn transfer(&mut self, started_ns: Option<u64>, receiver: &Transfer) {
        let time_s = span_s(started_ns, receiver.finished_ns);
        self.metric("time_s", time_s);
        let goodput = time_s.filter(|time_s| *time_s > 0.0);
        self.metric(
            "goodput_bit_s",
            goodput.map(|time_s| receiver.octets as f64 * 8.0 / time_s),
        );
        self.metric(
            "complete",
            started_ns.map(|_| f64::from(u8::from(time_s.is_some()))),
        );
        self.metric("wrong", Some(receiver.wrong_octets as f64));
        self.count("octets", receiver.octets);
    }

    fn tcp_counters(&mut self, ends: &[&Transfer]) {
        for end in ends {
            self.count("tcp_segments", end.tcp.segments_out);
            self.count("tcp_retransmissions", end.tcp.retransmissions);
            for kind in TcpEventKind::ALL {
                self.count(&format!("tcp_{}", kind.name()), end.tcp.events.of(kind));
            }
            self.count("failed_connections", end.failed_connections);
        }
    }

    fn progress(&mut self, received: &[Mark]) {
        let points = received.iter().map(|mark| {
            (
                mark.at_ns as f64 / 1e9,
                (mark.sequence + u64::from(mark.octets)) as f64,
            )
        });
        self.series.push(Series {
            label: "progress",
            unit: "octets",
            points: points.collect(),
        });
    }
}

fn span_s(from_ns: Option<u64>, to_ns: Option<u64>) -> Option<f64> {
    Some(to_ns?.saturating_sub(from_ns?) as f64 / 1e9)
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
