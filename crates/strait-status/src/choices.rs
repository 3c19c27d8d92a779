//! What a gateway chose by itself, as far as its snapshots have it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::number::{NONE, percent, short, time};
use crate::{FlowRow, LinkSpan, Port, Repairs, Span, Station};

/// One automatic decision, in few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The port, the class or the service.
    pub at: String,
    /// What it does.
    pub chose: String,
    /// Why.
    pub why: String,
    /// Why it doesn't do more.
    pub held: Option<String>,
    /// What would change it.
    pub until: Option<String>,
    /// Somebody gets less by it.
    pub costs: bool,
}

/// All of a node: calls, rates, policers, repairs, packets that are cut, clients without the proxy.
pub fn choices(span: &Span<'_>) -> Vec<Choice> {
    let ports = span.last.ports.iter();
    let rates = ports.clone().flat_map(|port| {
        let station = port.hf.iter();
        station.flat_map(|station| rates(port, station))
    });
    let calls = calls(span).into_iter();
    let repairs = ports.filter_map(|port| repairs(port, port.repairs.as_ref()?));
    let gaps = span.links.iter().filter_map(|it| gaps(it, span));
    let all = calls.chain(rates).chain(policed(span)).chain(repairs);
    all.chain(gaps).chain(passed(span)).collect()
}

/// Rates towards other stations that follow what arrives.
fn rates<'a>(port: &'a Port, station: &'a Station) -> impl Iterator<Item = Choice> + 'a {
    station.neighbours.iter().filter_map(|link| {
        let rate = link.rate.as_ref()?;
        let changes = rate.up + rate.down + rate.silent;
        let advised = rate.advised_bit_s.filter(|it| *it != rate.bit_s);
        let lost = (link.lost > 0.0).then(|| format!("{} lost", percent(link.lost)));
        Some(Choice {
            at: format!("{} {}", port.name, link.name),
            chose: format!("{} bit/s", rate.bit_s),
            why: match (rate.reason.as_str(), changes) {
                ("", _) => "it began so".into(),
                (reason, changes) => format!("{reason} ({changes} changes)"),
            },
            held: lost,
            until: advised.map(|it| format!("{it} is advised")),
            costs: rate.reason == "no answer",
        })
    })
}

/// Calls that are told, those that were refused first.
const CALLS_MAX: usize = 100;

/// What it made of calls.
fn calls(span: &Span<'_>) -> Vec<Choice> {
    let mut known: Vec<&FlowRow> = Vec::new();
    let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
    for flow in &span.last.flows {
        match flow.standing.as_deref() {
            None => {}
            Some("refused") => known.push(flow),
            Some(_) => {
                known.push(flow);
                *taken.entry(&flow.port).or_default() += flow.rate_bit_s.unwrap_or(0);
            }
        }
    }
    known.sort_by_key(|it| it.standing.as_deref() != Some("refused"));
    let known = known.into_iter().take(CALLS_MAX);
    let of = |flow: &FlowRow| taken.get(flow.port.as_str()).copied().unwrap_or(0);
    known.filter_map(|it| call(it, of(it), span)).collect()
}

fn call(flow: &FlowRow, taken: u64, span: &Span<'_>) -> Option<Choice> {
    let standing = flow.standing.as_deref()?;
    let port = span.last.ports.iter().find(|it| it.name == flow.port);
    let line = port.and_then(|it| it.rate_bit_s).map(|it| it as f64);
    let needs = flow
        .rate_bit_s
        .map_or_else(|| NONE.into(), |it| short(it as f64));
    let refused = standing == "refused";
    let observed = flow.nature.contains("observed");
    Some(Choice {
        at: flow.port.clone(),
        chose: format!("{standing}: call of {}", flow.source),
        why: match (refused, observed) {
            (true, _) => format!("it needs {needs} bit/s more"),
            (false, true) => format!("unmarked, keeps pace, {needs} bit/s"),
            (false, false) => format!("first class, needs {needs} bit/s"),
        },
        held: refused.then(|| {
            let line = line.map_or_else(|| NONE.into(), short);
            format!("calls: {} of {line}", short(taken as f64))
        }),
        until: Some(match (refused, flow.idle_s > 1.0) {
            (true, _) => "another ends".into(),
            (false, false) => "it is silent".into(),
            (false, true) => format!("silent {}", time(flow.idle_s)),
        }),
        costs: refused,
    })
}

/// Whether an octet line repeats losses.
fn repairs(port: &Port, repairs: &Repairs) -> Option<Choice> {
    let (chose, why) = match (repairs.sends, repairs.wishes) {
        (false, false) => return None,
        (true, true) => ("repeats, both ways", "both ends have seen errors"),
        (true, false) => ("repeats losses", "the other end saw errors"),
        (false, true) => ("asks for repeats", "errors were seen here"),
    };
    Some(Choice {
        at: port.name.clone(),
        chose: chose.into(),
        why: why.into(),
        held: (repairs.skipped > 0).then(|| format!("{} given up", repairs.skipped)),
        until: None,
        costs: false,
    })
}

/// Packets of others that were cut as a call's was due.
fn gaps(link: &LinkSpan<'_>, span: &Span<'_>) -> Option<Choice> {
    let cut = link.grown(|it| it.flows.segments_fitted + it.flows.segments_least);
    let rests = link.grown(|it| it.flows.rests);
    let gap_s = link.port.flows.gap_predicted_p50_s;
    (cut + rests > 0.0).then(|| Choice {
        at: link.port.name.clone(),
        chose: format!("cuts {} pieces/s", short(cut / span.s)),
        why: match gap_s {
            Some(gap_s) => format!("a call is due in {}", time(gap_s)),
            None => "a call is due".into(),
        },
        held: (rests > 0.0).then(|| format!("rests {}/s", short(rests / span.s))),
        until: Some("calls end".into()),
        costs: false,
    })
}

/// What policers found of late.
fn policed(span: &Span<'_>) -> Vec<Choice> {
    let classes = span.last.classes.iter();
    let rows = classes.filter_map(|class| {
        let was = span.first().classes.iter().find(|it| it.name == class.name);
        let grown = |colour: &str| {
            let was = was.and_then(|it| it.policed.get(colour));
            let now = class.policed.get(colour).copied().unwrap_or(0);
            now.saturating_sub(was.copied().unwrap_or(0)) as f64
        };
        let [green, yellow, red] = ["green", "yellow", "red"].map(grown);
        let all = green + yellow + red;
        (yellow + red > 0.0).then(|| Choice {
            at: class.name.clone(),
            chose: format!("polices: {} is red", percent(red / all)),
            why: "traffic above its rate".into(),
            held: Some(format!("{} is green", percent(green / all))),
            until: Some("less comes".into()),
            costs: red > 0.0,
        })
    });
    rows.collect()
}

/// Clients of the TCP proxy who go without it.
fn passed(span: &Span<'_>) -> Option<Choice> {
    let passed = span.rate(|it| it.proxy.as_ref().map_or(0, |it| it.passed));
    let partners = span.last.proxy.as_ref()?.partners_known;
    (passed > 0.0).then(|| Choice {
        at: "proxy".into(),
        chose: format!("lets {} clients/s pass", short(passed)),
        why: "their partner is silent".into(),
        held: Some(format!("{partners} partners heard")),
        until: Some("it answers".into()),
        costs: true,
    })
}
