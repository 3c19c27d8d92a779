//! Ports, the media behind them, and who is at the other end.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::words::{count, percent, rate, time};
use super::{BAD, Cause, DENIED, Finding, GONE};
use crate::Port;
use crate::span::{Flow, Link, Span, grown, share};

/// Frames or packets that a share is made of, at least: fewer are chance.
const ENOUGH: f64 = 5.0;
/// More than a medium loses where it is as it should be.
const LOSSY: f64 = 0.05;
/// More than is repeated where it is.
const REPEATS: f64 = 0.12;
/// Stations on radios repeat more: their rate is chosen so.
const REPEATS_HF: f64 = 0.4;
/// Less than a line carries with work waiting, where its rate is right.
const SLOW: f64 = 0.6;
/// Silence that nobody needs to ask about, beside what the line's rate explains.
const SILENCE_S: f64 = 8.0;
/// Silence of a neighbour among others that are heard: routers say something this often.
const SILENCE_ONE_S: f64 = 20.0;
/// Silence of a station behind a turn that it was to answer.
const SILENCE_HF_S: f64 = 25.0;
/// Transmissions of a station without an answer.
const UNANSWERED: f64 = 3.0;

pub(super) fn look(span: &Span<'_>, findings: &mut Vec<Finding>) {
    // One that never carried anything, and has no problem, has nobody behind it.
    let used = |it: &Port| it.frames_in + it.frames_out > 0;
    let fell = |it: &&Port| !it.up && it.host_side && (used(it) || it.problem.is_some());
    for port in span.last.ports.iter().filter(fell) {
        findings.push(down(&port.name, port.problem.as_deref(), 0.0));
    }
    for link in &span.links {
        if link.port.up {
            flaps(span, link, findings);
            other_end(span, link, findings);
            quality(span, link, findings);
            slow(span, link, findings);
            device(link, findings);
        } else {
            findings.push(down(&link.port.name, link.port.problem.as_deref(), 0.5));
        }
    }
}

fn down(port: &str, problem: Option<&str>, more: f64) -> Finding {
    let why = problem.map_or_else(String::new, |why| format!(": {why}"));
    Finding::new(
        (Cause::PortDown, GONE + more),
        port,
        format!("The port {port} is down{why}; its packets wait or are dropped."),
        "check its cable, modem and device; `strait status` shows its state",
    )
}

fn flaps(span: &Span<'_>, link: &Link<'_>, findings: &mut Vec<Finding>) {
    let downs = link.grown(|it| it.downs);
    if downs < 1.0 {
        return;
    }
    let port = &link.port.name;
    let text = format!(
        "The port {port} went down {} in {} and came back; packets under way are lost.",
        count(downs, "time"),
        time(span.s)
    );
    let look = "check its cable, modem and device, and the gateway's log";
    findings.push(Finding::new(
        (Cause::PortFlaps, DENIED + share(downs, 10.0)),
        port,
        text,
        look,
    ));
}

/// Whether anybody is at the other end, and hears us.
fn other_end(span: &Span<'_>, link: &Link<'_>, findings: &mut Vec<Finding>) {
    if link.port.hf.is_some() {
        return station(span, link, findings);
    }
    let name = &link.port.name;
    let patience_s = SILENCE_S + 3.0 * link.packet_s();
    let silent_s = link.port.heard_s.unwrap_or(span.last.uptime_s);
    let unanswered = link.port.agreement == "no answer yet" && link.octets_out > 0.0;
    let unacknowledged = link
        .port
        .hop
        .as_ref()
        .is_some_and(|it| it.window_octets > 0)
        || link
            .port
            .repairs
            .as_ref()
            .is_some_and(|it| it.window_octets > 0);
    let asked = |it: &Flow<'_>, silent_s: f64| {
        let back = span.back(it);
        // Answers may come another way.
        let answered = back.is_some_and(|it| it.row.idle_s < patience_s);
        // The last word of a conversation that has ended is no question, nor what waits here.
        let left = it.packets_out > 0.0 && it.row.held_packets <= 2;
        left && it.row.idle_s < silent_s - patience_s / 2.0
            && !answered
            && (it.asks() || back.is_some())
    };
    let asks = |silent_s| span.flows_of(link).any(|it| asked(it, silent_s));
    let asked = asks(silent_s);
    if silent_s >= patience_s && (asked || unanswered || unacknowledged) {
        let since = match link.port.heard_s {
            Some(s) => format!("for {}", time(s)),
            None => format!("since the start {} ago", time(span.last.uptime_s)),
        };
        let text = format!(
            "Nothing has arrived on port {name} {since}, although requests were sent: the far \
             gateway is off, or the return path is dead."
        );
        let look =
            format!("check whether the far end receives anything, and the receiver of {name}");
        // One that was never heard may have nothing to say to us.
        let known = link.port.heard_s.is_some() || unanswered || unacknowledged;
        let base = if known { GONE } else { DENIED };
        let weight = base + 0.2 + share(silent_s, 1000.0) / 10.0;
        findings.push(Finding::new((Cause::FarSilent, weight), name, text, look));
        return;
    }
    neighbours(span, link, asks, findings);
    let other_format = link.grown(|it| {
        it.hop
            .as_ref()
            .map_or(0, |it| it.other_format + it.other_check)
    });
    let foreign = link
        .port
        .agreement
        .starts_with("plain: the other end has another format");
    let foreign_hops = link.grown(|it| it.hop.as_ref().map_or(0, |it| it.foreign));
    let bad_in = link.bad_in + foreign_hops;
    let garbage = bad_in >= ENOUGH && share(bad_in, bad_in + link.packets_in) > 0.9;
    if other_format > 0.0 || foreign || garbage {
        let of = match garbage {
            true => format!(" ({bad_in} of {} frames)", bad_in + link.packets_in),
            false => String::new(),
        };
        let text = format!(
            "Frames on port {name} can't be decoded{of}: the other end has another rate, framing, \
             profile or check."
        );
        let look = format!("compare the port {name} in both node files: `strait check NODE.toml`");
        findings.push(Finding::new((Cause::Unreadable, GONE), name, text, look));
        return;
    }
    // It is heard, and its hellos show that it doesn't hear us.
    let unheard_s = link.port.heard_s.map_or(0.0, |_| span.last.uptime_s);
    if unanswered && unheard_s > patience_s + SILENCE_S {
        let text = format!(
            "The other end of {name} is heard, and doesn't hear this end: one direction is dead."
        );
        let look = format!("check the transmitter of {name} and the far end's receiver");
        findings.push(Finding::new((Cause::OneWay, GONE + 0.3), name, text, look));
    }
}

/// One of several neighbours that is gone while others are heard. Those who are no routers and
/// aren't asked for anything may have nothing to say.
fn neighbours(
    span: &Span<'_>,
    link: &Link<'_>,
    asks: impl Fn(f64) -> bool,
    findings: &mut Vec<Finding>,
) {
    let was = |name: &str| {
        let was = link.was.as_ref().map(|it| &it.neighbours);
        was.into_iter().flatten().find(|it| it.name == name)
    };
    for neighbour in &link.port.neighbours {
        let silent_s = neighbour.heard_s.unwrap_or(span.last.uptime_s);
        let sent = grown(
            neighbour.octets_out,
            was(&neighbour.name).map_or(0, |it| it.octets_out),
        );
        let patience_s = SILENCE_ONE_S + 3.0 * link.packet_s();
        let speaks = span.last.olsr.is_some() || asks(silent_s);
        if sent > 0.0 && silent_s > patience_s && speaks {
            let name = &neighbour.name;
            let text = format!(
                "Nothing has arrived from the neighbour {name} on {} for {}, although others are \
                 heard: it is off, or out of range.",
                link.port.name,
                time(silent_s)
            );
            let look =
                format!("check whether {name} receives anything; `strait status` has its counters");
            findings.push(Finding::new(
                (Cause::FarSilent, GONE + 0.1),
                name,
                text,
                look,
            ));
        }
    }
}

/// A station on a radio: who answers, and who else is on the air.
fn station(span: &Span<'_>, link: &Link<'_>, findings: &mut Vec<Finding>) {
    let Some(hf) = &link.port.hf else {
        return;
    };
    let was = link.was.as_ref().and_then(|it| it.hf.as_ref());
    let unanswered = grown(hf.unanswered, was.map_or(0, |it| it.unanswered));
    let turns = grown(hf.turns, was.map_or(0, |it| it.turns));
    let lost = grown(hf.links_lost, was.map_or(0, |it| it.links_lost));
    for peer in hf.neighbours.iter().filter(|it| !it.group) {
        let before = was.and_then(|it| it.neighbours.iter().find(|it| it.name == peer.name));
        let heard_s = peer.heard_s - before.map_or(0.0, |it| it.heard_s);
        let sent_s = peer.sent_s - before.map_or(0.0, |it| it.sent_s);
        // During a long turn of ours nobody answers.
        let silent = heard_s <= 0.0 && unanswered >= 1.0;
        let since_s = link.port.heard_s.unwrap_or(span.last.uptime_s);
        let long = since_s.max(span.s) >= SILENCE_HF_S;
        if silent && (long || unanswered >= UNANSWERED || lost >= 1.0 || sent_s >= 20.0) {
            let name = &peer.name;
            let text = format!(
                "The station {name} doesn't answer: {} of {} turns in {} had no answer, and \
                 nothing was received from it.",
                unanswered,
                turns.max(unanswered),
                time(span.s)
            );
            let look = "check frequency, antenna and time of day with the other station; `strait \
                        status` has the turns";
            findings.push(Finding::new(
                (Cause::HfSilent, GONE + 0.3),
                name,
                text,
                look,
            ));
        }
    }
    let others_s = hf.others_s - was.map_or(0.0, |it| it.others_s);
    if others_s > 0.3 * span.s {
        let text = format!(
            "Stations outside `neighbours` use {} of the air time on {}: this station waits for a \
             free channel.",
            percent(others_s / span.s),
            link.port.name
        );
        let look = "choose another frequency, or agree on times with those stations";
        let weight = BAD + 0.3 + share(others_s, span.s) / 2.0;
        findings.push(Finding::new(
            (Cause::AirBusy, weight),
            &link.port.name,
            text,
            look,
        ));
    }
}

/// What the medium loses, steadily or now and then.
fn quality(span: &Span<'_>, link: &Link<'_>, findings: &mut Vec<Finding>) {
    let name = &link.port.name;
    let lost = share(link.bad_in, link.bad_in + link.packets_in);
    let is_hf = link.port.hf.is_some();
    let lossy = link.bad_in >= ENOUGH && lost >= LOSSY;
    let repeats =
        link.repeated >= ENOUGH && link.repeats >= if is_hf { REPEATS_HF } else { REPEATS };
    let changes = rate_changes(link);
    if !lossy && !repeats && changes < 2.0 {
        return;
    }
    let worst = lost.max(link.repeats);
    let comes_and_goes = comes_and_goes(span, name) || changes >= 2.0;
    let (cause, how) = if comes_and_goes {
        (Cause::Fading, "fades")
    } else {
        (Cause::LinkErrors, "is bad")
    };
    let mut figures = Vec::new();
    if lossy {
        figures.push(format!(
            "{} of received frames are damaged or incomplete",
            percent(lost)
        ));
    }
    if link.repeats > 0.0 {
        figures.push(format!(
            "{} of sent frames are repeated",
            percent(link.repeats)
        ));
    }
    if changes > 0.0 {
        figures.push(format!("its rate changed {}", count(changes, "time")));
    }
    let text = format!(
        "The link {name} {how}: {} in {}.",
        figures.join(", "),
        time(span.s)
    );
    let look = match cause {
        Cause::Fading => "check antenna, distance and time of day; a lower rate may carry more",
        _ => "measure the line (`strait measure pair HOST`); check level, cable and modem",
    };
    findings.push(Finding::new(
        (cause, BAD + 0.2 + worst / 2.0),
        name,
        text,
        look,
    ));
}

/// Changes of a station's data rate.
fn rate_changes(link: &Link<'_>) -> f64 {
    link.grown(|port| {
        let links = port.hf.iter().flat_map(|it| &it.neighbours);
        let rates = links.filter_map(|it| it.rate.as_ref());
        rates.map(|it| it.down + it.silent).sum()
    })
}

/// Whether losses are heavy in some steps and light in others.
fn comes_and_goes(span: &Span<'_>, name: &str) -> bool {
    let find = |of: &'_ crate::Snapshot| of.ports.iter().find(|it| it.name == name).cloned();
    let pairs = span
        .steps
        .windows(2)
        .filter_map(|pair| Some((find(&pair[0])?, find(&pair[1])?)));
    let losses = pairs.filter_map(|(was, is)| {
        let good = grown(is.packets_in, was.packets_in);
        let bad = grown(is.bad_in(), was.bad_in());
        let sent = grown(is.frames_out, was.frames_out);
        let hops = |it: &Port| it.hop.as_ref().map_or(0, |hop| hop.repeated);
        let again = grown(hops(&is), hops(&was));
        let repairs = |it: &Port| it.repairs.as_ref().map_or(0, |it| it.repeated);
        let again = again + grown(repairs(&is), repairs(&was));
        // What is silent while we send is lost, too.
        let nothing = good == 0.0 && bad == 0.0 && sent >= ENOUGH;
        let known = good + bad >= ENOUGH || sent >= ENOUGH;
        let lost = share(bad, good + bad).max(share(again, sent));
        known.then_some(if nothing { 1.0 } else { lost })
    });
    let losses: Vec<f64> = losses.collect();
    let heavy = losses.iter().filter(|it| **it >= 0.3).count();
    let light = losses.iter().filter(|it| **it <= 0.05).count();
    losses.len() >= 4 && heavy >= 1 && light >= 2
}

/// A line that has work all the time and carries less than its rate: it isn't in use, or each of
/// its octets takes longer than the port says.
fn slow(span: &Span<'_>, link: &Link<'_>, findings: &mut Vec<Finding>) {
    let port = link.port;
    let takes_turns = port.hf.is_some() || port.hop.is_some();
    let waits = |it: &crate::Snapshot| it.classes.iter().any(|class| class.queued_packets > 0);
    // On the air of several, others take their part of it.
    let several = span.steps.len() >= 4 && port.neighbours.len() < 2;
    let Some(rate_bit_s) = port.rate_bit_s.filter(|_| several && !takes_turns) else {
        return;
    };
    let lone = span.links.len() == 1;
    let works = lone && span.steps.iter().skip(1).all(waits);
    let turns = span
        .flows_of(link)
        .map(|it| share(it.turn_s, it.wait_s))
        .fold(0.0, f64::max);
    let carried = link.octets_out * 8.0 / span.s;
    let idle = works && link.busy < SLOW && turns < 0.3;
    let long = works && link.busy >= SLOW && carried < SLOW * link.busy * rate_bit_s as f64;
    if !idle && !long {
        return;
    }
    let name = &port.name;
    let why = if long {
        "the modem or line has another rate than the port"
    } else {
        "the modem or line is slower than the port's rate, or the policy limits it"
    };
    let text = format!(
        "Port {name} carries {} although packets wait and its rate is {}: {why}.",
        rate(carried),
        rate(rate_bit_s as f64),
    );
    let look = format!("set the port {name} and its modem to the same rate");
    let lack = 1.0 - (carried / rate_bit_s as f64).clamp(0.0, 1.0);
    let weight = BAD + 0.5 + lack / 4.0;
    findings.push(Finding::new((Cause::SlowLine, weight), name, text, look));
}

fn device(link: &Link<'_>, findings: &mut Vec<Finding>) {
    let name = &link.port.name;
    let failed = link.grown(|it| it.tx_failed) + link.grown(|it| it.refused);
    if failed >= ENOUGH && share(failed, link.frames_out + failed) >= 0.1 {
        let text = format!(
            "{} of {} transmissions by {name} failed: its device or the medium refuses them, or \
             there is no receiver.",
            failed,
            link.frames_out.max(failed)
        );
        let look = "see the gateway's log, and the device of that port";
        findings.push(Finding::new(
            (Cause::Device, DENIED + 0.5),
            name,
            text,
            look,
        ));
    }
    let strangers = link.grown(|it| it.strangers);
    if strangers >= 3.0 {
        let text = format!(
            "{} came by {name} from a station outside `neighbours`: an address in one of the node \
             files is wrong, or a stranger sends.",
            count(strangers, "frame")
        );
        let look =
            format!("compare `neighbours` of the port {name} with the addresses of the others");
        findings.push(Finding::new(
            (Cause::Stranger, DENIED + 0.4),
            name,
            text,
            look,
        ));
    }
}
