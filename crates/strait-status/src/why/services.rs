//! Services of the node, and what its host gives it.

use alloc::format;
use alloc::vec::Vec;

use super::words::{count, percent, time};
use super::{BAD, Cause, DENIED, Finding};
use crate::span::{Span, grown, grown_by, share};
use crate::{Dns, Mail};

/// By how much a clock may be corrected without anybody noticing.
const STEP_S: f64 = 1.0;
/// By how much a gateway may be woken late before calls suffer.
const LATE_S: f64 = 0.1;

pub(super) fn look(span: &Span<'_>, findings: &mut Vec<Finding>) {
    names(span, findings);
    mail(span, findings);
    proxy(span, findings);
    host(span, findings);
}

fn names(span: &Span<'_>, findings: &mut Vec<Finding>) {
    let Some(dns) = &span.last.dns else {
        return;
    };
    let of = |field: fn(&Dns) -> u64| grown(field(dns), span.first.dns.as_ref().map_or(0, field));
    let asked = of(|it| it.questions - it.hits.min(it.questions)) + of(|it| it.served);
    let [late, lost] = [of(|it| it.late), of(|it| it.lost)];
    let [unanswered, unserved] = [of(|it| it.unanswered), of(|it| it.unserved)];
    let failed = late.max(lost) + unanswered + unserved;
    if failed < 2.0 || share(failed, asked.max(failed)) < 0.2 {
        return;
    }
    let who = if unanswered + unserved > 0.0 {
        format!(
            "the resolver here leaves {} without an answer",
            count(unanswered + unserved, "question")
        )
    } else {
        format!(
            "{} of partners didn't come in time",
            count(late.max(lost), "answer")
        )
    };
    let text = format!(
        "Names can't be resolved: {} of {} new questions in {} failed, {who}.",
        percent(share(failed, asked.max(failed))),
        asked.max(failed),
        time(span.s)
    );
    let look =
        "`strait dns` lists the names; `dig @RESOLVER NAME` at the far side asks its resolver";
    let more = if unanswered + unserved > 0.0 {
        0.6
    } else {
        0.1
    };
    findings.push(Finding::new(
        (Cause::Dns, DENIED + more),
        "DNS proxy",
        text,
        look,
    ));
}

/// Messages that are here.
const fn waiting(mail: &Mail) -> u64 {
    mail.deferred_here
        + mail.routine_here
        + mail.priority_here
        + mail.immediate_here
        + mail.flash_here
        + mail.override_here
}

fn mail(span: &Span<'_>, findings: &mut Vec<Finding>) {
    let Some(mail) = &span.last.mail else {
        return;
    };
    let of =
        |field: fn(&Mail) -> u64| grown(field(mail), span.first.mail.as_ref().map_or(0, field));
    let [broken, deferred] = [of(|it| it.broken), of(|it| it.deferred)];
    let went = of(|it| it.relayed) + of(|it| it.delivered);
    let here = waiting(mail);
    if mail.overdue > 0 {
        let text = format!(
            "{} waiting for longer than the limit of urgent messages.",
            count(mail.overdue as f64, "message")
        );
        let look = "`strait mail queue` shows the reason and the last reply";
        findings.push(Finding::new(
            (Cause::MailLate, DENIED + 0.2),
            "mail",
            text,
            look,
        ));
    }
    if here > 0 && went == 0.0 && broken + deferred >= 1.0 {
        let text = format!(
            "Mail's next hop can't be reached: {} waiting, {} broke or were refused in {}, none \
             was sent.",
            count(here as f64, "message"),
            count(broken + deferred, "connection"),
            time(span.s)
        );
        let look = "`strait mail queue` shows their destinations and the last reply";
        findings.push(Finding::new(
            (Cause::MailHop, DENIED + 0.3),
            "mail",
            text,
            look,
        ));
    }
}

fn proxy(span: &Span<'_>, findings: &mut Vec<Finding>) {
    let Some(proxy) = &span.last.proxy else {
        return;
    };
    let refused = grown_by(
        &proxy.refused,
        span.first.proxy.as_ref().map(|it| &it.refused),
    );
    // That somebody leaves, or is to speak TCP, is nobody's fault.
    let ours = refused
        .iter()
        .filter(|(why, _)| !matches!(**why, "gone" | "quic"));
    let Some((why, number)) = ours.max_by(|one, other| one.1.total_cmp(other.1)) else {
        return;
    };
    // A server that is off, and a program that stammers, are their own.
    let least = if matches!(*why, "server" | "handshake") {
        3.0
    } else {
        1.0
    };
    if *number >= least {
        let text = format!(
            "The TCP proxy refused {} in {}: {why} ({}).",
            count(*number, "connection"),
            time(span.s),
            count(proxy.partners_known as f64, "known partner")
        );
        let look = "`strait status` has the proxy's counters; `[proxy]` in both node files";
        findings.push(Finding::new((Cause::Proxy, DENIED), "proxy", text, look));
    }
}

fn host(span: &Span<'_>, findings: &mut Vec<Finding>) {
    let (is, was) = (&span.last.host, &span.first.host);
    let [full, failed] = [grown(is.full, was.full), grown(is.failed, was.failed)];
    if full + failed > 0.0 {
        let what = if full > 0.0 {
            "no space is left"
        } else {
            "the device fails"
        };
        let text = format!(
            "Data can't be stored: {} failed in {}, {what}.",
            count(full + failed, "write"),
            time(span.s)
        );
        let look = "`df -h` for the folder of `[state]`, its `octets_max`, and the kernel's log";
        findings.push(Finding::new(
            (Cause::Storage, DENIED + 0.7),
            "storage",
            text,
            look,
        ));
    }
    let steps = grown(is.clock_steps, was.clock_steps);
    let far = is.clock_step_s.abs() >= STEP_S;
    if steps > 0.0 && far {
        let by = time(is.clock_step_s.abs());
        let way = if is.clock_step_s < 0.0 {
            "back"
        } else {
            "forward"
        };
        let text = format!(
            "The host's clock was set {by} {way} ({} in {}): calendar times, such as times to die \
             and dates of mail, are wrong by that.",
            count(steps, "step"),
            time(span.s)
        );
        let look = "the host's time service (`timedatectl`, `chronyc tracking`)";
        findings.push(Finding::new((Cause::Clock, BAD + 0.9), "clock", text, look));
    }
    if let Some(journal) = &span.last.journal
        && let Some(why) = &journal.ended
    {
        let text = format!("The journal {} has ended: {why}.", journal.file);
        let look = "make room, or raise `octets_max` under `[journal]`, and restart";
        findings.push(Finding::new(
            (Cause::Journal, BAD + 0.1),
            "journal",
            text,
            look,
        ));
    }
    let late_s = span.last.timers.late_p99_s.unwrap_or(0.0);
    if late_s >= LATE_S && span.last.timers.woken >= 100 {
        let text = format!(
            "This host wakes the gateway late: by {} in one of 100 cases, {} at most.",
            time(late_s),
            time(span.last.timers.late_max_s)
        );
        let look = "`top` shows other load; real-time priority needs CAP_SYS_NICE";
        findings.push(Finding::new(
            (Cause::HostSlow, BAD + 0.4),
            "host",
            text,
            look,
        ));
    }
    if let Some(led) = &span.last.led {
        let refusals = grown(
            led.refusals,
            span.first.led.as_ref().map_or(0, |it| it.refusals),
        );
        if refusals >= 1.0 && led.there < led.wanted {
            let text = format!(
                "The host has {} of {} wanted routes; it refused {}.",
                led.there,
                led.wanted,
                count(refusals, "time")
            );
            let look = "`ip route` beside `routes` under `[host]`: another has the same metric";
            findings.push(Finding::new(
                (Cause::HostRoutes, DENIED + 0.2),
                "host",
                text,
                look,
            ));
        }
    }
}
