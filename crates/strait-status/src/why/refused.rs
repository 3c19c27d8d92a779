//! Packets that are refused by a rule: routes, policy, sizes, addresses.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::words::{count, flow as flow_words, percent, sentence, time};
use super::{Cause, DENIED, Finding, LOAD};
use crate::span::{Flow, Span, grown_by, share};

/// Packets of a flow for one cause, at least: fewer are a program that tries.
const ENOUGH: f64 = 3.0;
/// Packets that are too old by hops, at least: more than somebody who traces a route sends.
const LOOPED: f64 = 5.0;
/// Of a flow's packets, the share for which it is refused rather than unlucky.
const MOST: f64 = 0.5;
/// Of a class's packets, what a policer takes where its rate is chosen well.
const POLICED: f64 = 0.05;

struct Rule {
    dropped: &'static str,
    cause: Cause,
    /// What happens to them.
    what: &'static str,
    look: &'static str,
    more: f64,
}

const RULES: [Rule; 9] = [
    Rule {
        dropped: "no-route",
        cause: Cause::NoRoute,
        what: "no route leads there",
        look: "`[[route]]` in the node file, `ip route` on the host; with [olsr], `strait status`",
        more: 0.5,
    },
    Rule {
        dropped: "hop-limit",
        cause: Cause::Loop,
        what: "they loop until their hop limit ends: the routes of two nodes point at each other",
        look: "`traceroute` to that address, then the routes of the nodes that it shows twice",
        more: 0.7,
    },
    Rule {
        dropped: "too-big",
        cause: Cause::Mtu,
        what: "they exceed the path's MTU, mustn't be fragmented, and their sender ignores this",
        look: "`mtu` of the port in both node files; whether ICMP reaches the sender",
        more: 0.4,
    },
    Rule {
        dropped: "filtered",
        cause: Cause::Filtered,
        what: "the policy or a service blocks them",
        look: "`strait policy explain NODE.toml` with this flow's addresses and ports",
        more: 0.3,
    },
    Rule {
        dropped: "not-carried",
        cause: Cause::NotCarried,
        what: "the port doesn't carry this version of IP",
        look: "the port's kind in the node file; use the other version",
        more: 0.3,
    },
    Rule {
        dropped: "unresolved",
        cause: Cause::NoSuchHost,
        what: "no host on the local network has that address",
        look: "whether that host is on, and its address; `strait status`",
        more: 0.3,
    },
    Rule {
        dropped: "wrong-source",
        cause: Cause::WrongSource,
        what: "their source address belongs to another side: it is in use twice, or forged",
        look: "the owners of that address on both sides; `networks` of the host sides in the node \
               file",
        more: 0.6,
    },
    Rule {
        dropped: "not-admitted",
        cause: Cause::CallRefused,
        what: "the line can't carry this call beside the others",
        look: "`strait status` has the calls; end one, or use a codec of a lower rate",
        more: 0.2,
    },
    Rule {
        dropped: "port-down",
        cause: Cause::PortDown,
        what: "their outgoing port is down",
        look: "its cable, modem and device; `strait status` shows its state",
        more: 0.6,
    },
];

pub(super) fn look(span: &Span<'_>, findings: &mut Vec<Finding>) {
    for rule in &RULES {
        let refused = |it: &&Flow<'_>| {
            let dropped = it.dropped_by(rule.dropped);
            let (enough, most) = match rule.cause {
                // Each comes by many times before it ends.
                Cause::Loop => (LOOPED, 0.0),
                _ => (ENOUGH, MOST),
            };
            dropped >= enough && share(dropped, it.packets_in) >= most && it.is_for_one()
        };
        let flows: Vec<&Flow<'_>> = span.flows.iter().filter(refused).collect();
        let dropped: f64 = flows.iter().map(|it| it.dropped_by(rule.dropped)).sum();
        let worst = flows.iter().max_by(|one, other| {
            let of = |it: &Flow<'_>| it.dropped_by(rule.dropped);
            of(one).total_cmp(&of(other))
        });
        let Some(worst) = worst else {
            continue;
        };
        let others = match flows.len() - 1 {
            0 => String::new(),
            more => format!(" and of {}", count(more as f64, "other flow")),
        };
        let text = format!(
            "{} to {}: {} of it{others} dropped in {}, because {}.",
            sentence(&flow_words(worst, span.s)),
            worst.row.destination,
            count(dropped, "packet"),
            time(span.s),
            rule.what
        );
        let all: f64 = span.flows.iter().map(|it| it.packets_in).sum();
        let weight = DENIED + rule.more + share(dropped, all) / 10.0;
        let concerns = flow_words(worst, span.s);
        findings.push(Finding::new(
            (rule.cause, weight),
            concerns,
            text,
            rule.look,
        ));
    }
    moved(span, findings);
    policed(span, findings);
    calls(span, findings);
}

/// An Ethernet on which an address changes its station again and again.
fn moved(span: &Span<'_>, findings: &mut Vec<Finding>) {
    let moved = crate::span::grown(span.last.local.moved, span.first.local.moved);
    if moved >= 3.0 {
        let text = format!(
            "An address on the local network changed its station {} in {}: two hosts have the \
             same.",
            count(moved, "time"),
            time(span.s)
        );
        let look = "`arping -d ADDRESS`, or `ip neigh` on a host there, shows both stations";
        let weight = DENIED + 0.8;
        findings.push(Finding::new(
            (Cause::DuplicateAddress, weight),
            "local network",
            text,
            look,
        ));
    }
}

fn policed(span: &Span<'_>, findings: &mut Vec<Finding>) {
    for class in &span.last.classes {
        let was = span.first.classes.iter().find(|it| it.name == class.name);
        let colours = grown_by(&class.policed, was.map(|it| &it.policed));
        let all: f64 = colours.values().sum();
        let dropped = grown_by(&class.dropped, was.map(|it| &it.dropped));
        let dropped = dropped.get("policed").copied().unwrap_or(0.0);
        if dropped < ENOUGH || share(dropped, all) < POLICED {
            continue;
        }
        let of = |it: &&Flow<'_>| it.dropped_by("policed") > 0.0;
        let worst = span.flows.iter().filter(of);
        let worst = worst.max_by(|one, other| {
            one.dropped_by("policed")
                .total_cmp(&other.dropped_by("policed"))
        });
        let who = worst.map_or_else(String::new, |it| {
            format!(", most of them {}", flow_words(it, span.s))
        });
        let text = format!(
            "The class {} is policed too tightly for its traffic: {} of {} dropped in {}{who}.",
            class.name,
            percent(share(dropped, all)),
            count(all, "packet"),
            time(span.s)
        );
        let look = format!(
            "compare `police` of the class {} with the needs of its flows",
            class.name
        );
        let weight = DENIED + share(dropped, all) / 2.0;
        findings.push(Finding::new(
            (Cause::Policer, weight),
            class.name.to_string(),
            text,
            look,
        ));
    }
}

/// Calls that were refused, and the table in which flows are.
fn calls(span: &Span<'_>, findings: &mut Vec<Finding>) {
    for link in &span.links {
        let name = &link.port.name;
        let refused = link.grown(|it| it.flows.calls_refused);
        let standing = |it: &&crate::FlowRow| {
            it.port == *name && it.standing.as_deref() == Some("refused") && it.idle_s < 2.0
        };
        let standing = span.last.flows.iter().filter(standing).count();
        if refused >= 1.0 || standing > 0 {
            let text = format!(
                "{} by {name} refused: the line can't carry it beside the others ({} of the line \
                 used).",
                sentence(&count(refused.max(standing as f64), "call")),
                percent(link.busy)
            );
            let look = "`strait status` has the calls; end one, or use a codec of a lower rate";
            findings.push(Finding::new(
                (Cause::CallRefused, DENIED + 0.1),
                name,
                text,
                look,
            ));
        }
        let displaced = link.grown(|it| it.flows.displaced);
        if displaced >= 20.0 {
            let text = format!(
                "The table of flows of {name} is full ({}): {} were replaced by new ones in {}, \
                 and calls among them aren't predicted.",
                link.port.flows.known,
                count(displaced, "flow"),
                time(span.s)
            );
            let look = "`strait status --json | jq .hosts` shows the hosts that start so many \
                        flows";
            findings.push(Finding::new(
                (Cause::FlowTable, LOAD + 0.9),
                name,
                text,
                look,
            ));
        }
    }
}
