//! Too much: who asks for little and waits all the same, and behind whom.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::words::{count, flow as flow_words, percent, rate, sentence, time, used};
use super::{Cause, DENIED, Finding, LOAD};
use crate::HostRow;
use crate::span::{Flow, Link, Span, grown, grown_by, share};

/// Of its fair share of the line, what a flow asks for that isn't the reason of its own wait.
const LITTLE: f64 = 0.5;
/// Of a call's packets, the share whose loss is heard.
const CALL_LOSS: f64 = 0.03;
/// Of other packets, more than congestion control asks for.
const LOSS: f64 = 0.15;
/// Losses of a flow, at least.
const ENOUGH: f64 = 3.0;
/// Of what a line carries, the share of one that stands for all the load.
const MOST: f64 = 0.35;
/// Of what a line carries, the share of one behind whom others wait.
const HOG: f64 = 0.2;
/// Of the time, what a line sends that is full.
const FULL: f64 = 0.6;
/// Packets that come at once: what TCP begins with (RFC 6928), and what opens and ends it.
const BURST: f64 = 16.0;
/// Code points of what goes behind all else: LE (RFC 8622) and CS1, which was that before.
const LAST: [u8; 2] = [1, 8];
/// Flows that a host begins in a second where no person does.
const FLOWS_EACH_S: f64 = 2.0;

pub(super) fn look(span: &Span<'_>, findings: &mut Vec<Finding>) {
    for link in span.links.iter().filter(|it| it.port.up) {
        let load = Load::new(span, link);
        let victims: Vec<&Flow<'_>> = load
            .flows
            .iter()
            .copied()
            .filter(|it| load.suffers(it))
            .collect();
        // What hardly sends has another reason than load.
        match load.worst(&victims) {
            Some(worst) if link.busy >= FULL => findings.push(load.finding(worst, victims.len())),
            Some(worst) if worst.crowded_out() > 0.0 => findings.push(load.held_back(worst)),
            None => overload(&load, findings),
            Some(_) => {}
        }
        too_late(&load, &victims, findings);
    }
}

/// What wants to leave by a link.
struct Load<'s, 'a> {
    span: &'s Span<'a>,
    link: &'s Link<'a>,
    flows: Vec<&'s Flow<'a>>,
    /// Octets that left, of all flows.
    octets_out: f64,
    /// What each flow would get if all had the same, in octets each second.
    fair: f64,
    /// What the line carries, in bit/s; what it did carry, where no rate is known.
    rate_bit_s: f64,
}

impl<'s, 'a> Load<'s, 'a> {
    fn new(span: &'s Span<'a>, link: &'s Link<'a>) -> Self {
        let flows: Vec<&Flow<'_>> = span
            .flows_of(link)
            .filter(|it| it.packets_in > 0.0)
            .collect();
        let octets_out: f64 = flows.iter().map(|it| it.octets_out).sum();
        let carried = octets_out.max(link.octets_out) * 8.0 / span.s;
        let rate_bit_s = link.port.rate_bit_s.map_or(carried, |it| it as f64);
        let active = flows
            .iter()
            .filter(|it| share(it.octets_out, octets_out) >= 0.02);
        let active = active.count().max(1) as f64;
        Self {
            span,
            link,
            fair: rate_bit_s / 8.0 / active,
            flows,
            octets_out,
            rate_bit_s,
        }
    }

    fn share(&self, flow: &Flow<'_>) -> f64 {
        share(flow.octets_out, self.octets_out)
    }

    /// A call that fits the line, and that nobody has put behind others on purpose.
    fn is_call(&self, flow: &Flow<'_>) -> bool {
        let asked = flow.octets_in * 8.0 / self.span.s;
        let first = self.span.last.classes.first();
        let meant = flow.row.dscp == 0 || first.is_some_and(|it| it.name == flow.row.class);
        flow.is_call(self.span.s) && meant && asked <= self.rate_bit_s * 0.5
    }

    /// How long a flow may wait for reasons that the line's rate explains: some of the longest
    /// packets of others, and what a person takes for at once.
    fn patience_s(&self, flow: &Flow<'_>) -> f64 {
        let packet_s = self.link.packet_s();
        if self.is_call(flow) {
            0.4 + packet_s
        } else {
            2.0_f64.max(4.0 * packet_s)
        }
    }

    /// Whether it asks for little and gets it late, or not at all, and doesn't mean to be last.
    fn suffers(&self, flow: &Flow<'_>) -> bool {
        if LAST.contains(&flow.row.dscp) {
            return false;
        }
        let call = self.is_call(flow);
        let asked = flow.octets_in / self.span.s;
        // Who has much waiting waits behind his own.
        let held = flow.row.held_packets as f64 * flow.octets_in / flow.packets_in.max(1.0);
        let wanted = (flow.octets_out + held) / self.span.s;
        let own = asked.max(wanted) >= LITTLE * self.fair || self.share(flow) >= MOST;
        // A radio's turns are no load.
        let wait_s = flow.wait_s - flow.turn_s;
        // A few packets at once wait behind each other.
        let burst = flow.octets_in >= LITTLE * self.fair * wait_s && flow.packets_in <= BURST;
        if (own || burst) && !call {
            return false;
        }
        let lost = flow.crowded_out();
        let loss = if call { CALL_LOSS } else { LOSS };
        let loses = lost >= ENOUGH && share(lost, flow.packets_in) >= loss;
        wait_s > self.patience_s(flow) || loses
    }

    /// The one whose suffering is heard first: calls, then the longest wait.
    fn worst<'f>(&self, victims: &[&'f Flow<'a>]) -> Option<&'f Flow<'a>> {
        let key = |it: &Flow<'_>| (self.is_call(it), it.wait_s - it.turn_s);
        victims.iter().copied().max_by(|one, other| {
            let (one, other) = (key(one), key(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        })
    }

    /// The flow that has most of what left or waits, of one class or of all.
    fn heaviest(&self, class: Option<&str>, but: &Flow<'_>) -> Option<&'s Flow<'a>> {
        let octets = |it: &Flow<'_>| {
            let mean = it.octets_in / it.packets_in.max(1.0);
            it.octets_out + it.row.held_packets as f64 * mean
        };
        let others = self
            .flows
            .iter()
            .copied()
            .filter(|it| !core::ptr::eq(*it, but));
        let others = others.filter(|it| class.is_none_or(|class| it.row.class == class));
        others.max_by(|one, other| octets(one).total_cmp(&octets(other)))
    }

    fn finding(&self, victim: &Flow<'_>, victims: usize) -> Finding {
        let s = self.span.s;
        let class = &victim.row.class;
        let who = sentence(&flow_words(victim, s));
        let suffers = self.suffering(victim);
        let used = used(self.link);
        let more = share(victims as f64, self.flows.len() as f64) / 2.0;
        let concerns = flow_words(victim, s);
        let make = |cause, weight: f64, text: String, look: &str| {
            Finding::new((cause, weight), concerns.clone(), text, look)
        };
        if let Some(flood) = self.flood(victim) {
            let text = format!("{who} {suffers} behind {flood}; {used}.");
            let look = "stop that program or host; `police` its class, or give it a separate class";
            return make(Cause::Flood, LOAD + 0.5 + more / 2.0, text, look);
        }
        let same = self
            .heaviest(Some(class), victim)
            .filter(|it| self.share(it) >= HOG);
        let first = self.span.last.classes.first().map(|it| it.name.as_str());
        // Where all that are like it together are too much, no mark helps.
        let like =
            |it: &&&Flow<'_>| it.row.class == *class && it.octets_in <= 2.0 * victim.octets_in;
        let alike = self.flows.iter().filter(like);
        let alike_bit_s = alike.map(|it| it.octets_in).sum::<f64>() * 8.0 / s;
        let fits = alike_bit_s <= 0.5 * self.rate_bit_s;
        let unmarked = self.is_call(victim) && fits && first.is_some_and(|first| first != class);
        if unmarked {
            let text = format!(
                "{who} {suffers} in class {class}, because it isn't marked as a call (code point \
                 {}); {used}.",
                victim.row.dscp
            );
            let look = "mark it EF at the phone, or add a `[[policy.match]]` for it: `strait \
                        policy explain NODE.toml`";
            return make(Cause::UnmarkedCall, LOAD + 0.4 + more / 2.0, text, look);
        }
        // No load, but how long packets may wait there at all.
        let aged = share(victim.dropped_by("aged"), victim.crowded_out());
        let soon = victim.wait_s - victim.turn_s <= self.patience_s(victim);
        if !self.is_call(victim) && soon && aged >= 0.8 {
            let text = format!(
                "{who} {suffers}: the class {class} drops packets at its `age`, and the line takes \
                 longer; {used}."
            );
            let look = format!("`age` of the class {class}: `strait policy explain NODE.toml`");
            return make(Cause::TooLate, LOAD + 0.2 + more / 2.0, text, &look);
        }
        let other = self.heaviest(None, victim);
        let hog = same.or(other).filter(|it| self.share(it) >= HOG);
        let Some(hog) = hog else {
            let asked: f64 = self.flows.iter().map(|it| it.octets_in).sum::<f64>() * 8.0 / s;
            let text = format!(
                "{who} {suffers}: all flows together need {} of a line of {}; {used}.",
                rate(asked),
                rate(self.rate_bit_s)
            );
            let look = "send less, or raise the line's rate: `strait status --json | jq .talkers`";
            return make(Cause::Overload, LOAD + more, text, look);
        };
        let behind = flow_words(hog, s);
        let hog_class = &hog.row.class;
        let takes = percent(self.share(hog));
        if same.is_some() {
            let text = format!(
                "{who} {suffers} behind {behind} in class {class}, which takes {takes} of what the \
                 line carries; {used}."
            );
            let look = "put one of them into another class, or give the class `queue = \"fair\"`: \
                        `strait policy explain NODE.toml`";
            return make(Cause::ClassFull, LOAD + more, text, look);
        }
        // Of whom nothing has left, the class isn't known.
        let own_class = match class.as_str() {
            "" => String::new(),
            class => format!(" in class {class}"),
        };
        let text = format!(
            "{who} {suffers}{own_class} behind {behind} in class {hog_class}, which takes \
             {takes} of what the line carries; {used}."
        );
        let look = "`police` or `shape` that class, or mark its flow otherwise: `strait policy \
                    explain NODE.toml`";
        make(Cause::Starved, LOAD + 0.1 + more, text, look)
    }

    /// It suffers on a line that is hardly used.
    fn held_back(&self, victim: &Flow<'_>) -> Finding {
        let name = &self.link.port.name;
        let who = sentence(&flow_words(victim, self.span.s));
        let text = format!(
            "{who} {} although {}: turns are long, the other end accepts nothing, or the policy \
             limits it.",
            self.suffering(victim),
            used(self.link)
        );
        let look = "`turnaround` and turns of the medium, `shape` and `ceil` in the policy";
        Finding::new((Cause::SlowLine, LOAD + 0.3), name, text, look)
    }

    /// What becomes of a flow, with figures.
    fn suffering(&self, flow: &Flow<'_>) -> String {
        let lost = flow.crowded_out();
        let wait_s = flow.wait_s - flow.turn_s;
        if wait_s > self.patience_s(flow) || lost == 0.0 {
            format!("waits {}", time(wait_s))
        } else {
            format!(
                "loses {} of its packets",
                percent(share(lost, flow.packets_in))
            )
        }
    }

    /// Who sends whatever is lost: a host, with what it sends.
    fn flood(&self, victim: &Flow<'_>) -> Option<String> {
        let s = self.span.s;
        let asks = |it: &Flow<'_>| it.octets_in * 8.0 / s;
        let loses = |it: &Flow<'_>| share(it.crowded_out(), it.packets_in) >= LOSS;
        // It takes the line, or loses a part of what would be most of it.
        let floods = |it: &&&Flow<'_>| {
            let most = asks(it) >= 0.5 * self.rate_bit_s && loses(it);
            !it.is_tcp() && (most || asks(it) >= self.rate_bit_s)
        };
        let heaviest = self.flows.iter().filter(floods);
        let heaviest = heaviest.max_by(|one, other| one.octets_in.total_cmp(&other.octets_in));
        if let Some(flow) = heaviest {
            let (source, rate) = (&flow.row.source, rate(asks(flow)));
            return Some(format!("{source}, which sends {rate} regardless of losses"));
        }
        let mut hosts: BTreeMap<&str, f64> = BTreeMap::new();
        for flow in self.flows.iter().filter(|it| !it.is_tcp()) {
            *hosts.entry(flow.row.source.as_str()).or_default() += asks(flow);
        }
        let own = |source: &str| source == victim.row.source && self.is_call(victim);
        let heaviest = hosts.iter().max_by(|one, other| one.1.total_cmp(other.1));
        if let Some((source, asks)) = heaviest.filter(|it| *it.1 >= 2.0 * self.rate_bit_s)
            && !own(source)
        {
            let asks = rate(*asks);
            return Some(format!("{source}, which sends {asks} regardless of losses"));
        }
        let began = |it: &&HostRow| {
            let was = self
                .span
                .first
                .hosts
                .iter()
                .find(|was| was.source == it.source);
            grown(it.flows, was.map_or(0, |was| was.flows)) >= (FLOWS_EACH_S * s).max(40.0)
        };
        let busy = self.span.last.hosts.iter().find(began)?;
        let was = self
            .span
            .first
            .hosts
            .iter()
            .find(|was| was.source == busy.source);
        let flows = grown(busy.flows, was.map_or(0, |was| was.flows));
        Some(format!(
            "{}, which started {} in {}",
            busy.source,
            count(flows, "flow"),
            time(s)
        ))
    }
}

/// Datagrams that nobody paces and that are more than the line takes, though none is much.
fn overload(load: &Load<'_, '_>, findings: &mut Vec<Finding>) {
    let unpaced = load.flows.iter().filter(|it| !it.is_tcp());
    let sum = unpaced.clone().fold([0.0; 3], |[flows, octets, lost], it| {
        let mean = it.octets_in / it.packets_in.max(1.0);
        [
            flows + 1.0,
            octets + it.octets_in,
            lost + it.crowded_out() * mean,
        ]
    });
    let [flows, octets, lost] = sum;
    let asked = octets * 8.0 / load.span.s;
    if asked >= 0.9 * load.rate_bit_s && share(lost, octets) >= LOSS && load.link.busy >= FULL {
        let text = format!(
            "{} need {} of a line of {}, and {} of it is dropped; {}.",
            count(flows, "flow of datagrams").replace("datagramss", "datagrams"),
            rate(asked),
            rate(load.rate_bit_s),
            percent(share(lost, octets)),
            used(load.link)
        );
        let look = "send less, or raise the line's rate: `strait status --json | jq .talkers`";
        findings.push(Finding::new(
            (Cause::Overload, LOAD),
            &load.link.port.name,
            text,
            look,
        ));
    }
}

/// A class whose packets are dropped by age although nobody else's load explains it.
fn too_late(load: &Load<'_, '_>, victims: &[&Flow<'_>], findings: &mut Vec<Finding>) {
    if !victims.is_empty() {
        return;
    }
    for class in &load.span.last.classes {
        let was = load
            .span
            .first
            .classes
            .iter()
            .find(|it| it.name == class.name);
        let dropped = grown_by(&class.dropped, was.map(|it| &it.dropped));
        let aged = dropped.get("aged").copied().unwrap_or(0.0);
        let sent = grown(class.sent_packets, was.map_or(0, |it| it.sent_packets));
        if aged >= 10.0 && share(aged, aged + sent) >= 0.3 && load.span.links.len() == 1 {
            let text = format!(
                "{} of the class {} exceeded its `age` and were dropped ({} of its packets); {}.",
                count(aged, "packet"),
                class.name,
                percent(share(aged, aged + sent)),
                used(load.link)
            );
            let look = format!(
                "compare `age` of the class {} with the time for which the line is down or full",
                class.name
            );
            let weight = DENIED - 0.1 * (1.0 - share(aged, aged + sent));
            let weight = if load.link.busy > 0.9 {
                LOAD + 0.2
            } else {
                weight
            };
            findings.push(Finding::new(
                (Cause::TooLate, weight),
                class.name.to_string(),
                text,
                look,
            ));
        }
    }
}
