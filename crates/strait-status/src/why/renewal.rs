//! A gateway at the other end that began anew: what was lost until then is no fault of the link.

use alloc::format;
use alloc::vec::Vec;

use super::words::time;
use super::{Cause, Finding, LOAD};
use crate::Snapshot;
use crate::span::last_life;

/// By how much the moments may differ at which two nodes speak.
const SKEW_S: f64 = 0.5;

fn finding(node: &str, port: &str, ago_s: f64) -> Finding {
    let text = format!(
        "{node} restarted {} ago: its packets and those under way are lost, or sent again.",
        time(ago_s)
    );
    let look = "the log of that gateway has the reason; its host may have restarted, too";
    Finding::new((Cause::FarAnew, LOAD + 0.8), port, text, look)
}

/// What a node said since the other end of one of its repaired links began anew, if that can be
/// judged; else all.
pub(super) fn since<'a>(history: &'a [Snapshot], findings: &mut Vec<Finding>) -> &'a [Snapshot] {
    let renewals = |snapshot: &Snapshot, name: &str| {
        let port = snapshot.ports.iter().find(|it| it.name == name);
        let hop = port.and_then(|it| it.hop.as_ref());
        hop.map_or(0, |it| it.renewals)
    };
    let steps = last_life(history);
    let Some(last) = steps.last() else {
        return history;
    };
    let found = last.ports.iter().filter_map(|port| {
        let pairs = steps.windows(2);
        let mut pairs = pairs.map(|it| [&it[0], &it[1]].map(|it| renewals(it, &port.name)));
        // The first is its beginning with us.
        let place = pairs.rposition(|[was, is]| was > 0 && is > was)?;
        Some((place + 1, &port.name))
    });
    let Some((place, port)) = found.max() else {
        return history;
    };
    let ago_s = last.uptime_s - steps[place].uptime_s;
    findings.push(finding("The far gateway", port, ago_s));
    // What is sent again at once is over with the next snapshot.
    &steps[(place + 1).min(steps.len() - 2)..]
}

/// What a node said while the other lived, too.
pub(super) fn both_live<'a>(
    own: &'a [Snapshot],
    other: &[Snapshot],
) -> (&'a [Snapshot], Option<Finding>) {
    let its = last_life(other);
    let (Some(first), Some(last), Some(now)) = (its.first(), its.last(), own.last()) else {
        return (own, None);
    };
    let lived_s = match its.len() == other.len() {
        true => last.uptime_s,
        false => last.uptime_s - first.uptime_s,
    };
    let age_s = |it: &Snapshot| now.uptime_s - it.uptime_s;
    let before = own.iter().take_while(|it| age_s(it) > lived_s + SKEW_S);
    let since = &own[before.count()..];
    // What is sent again at once is over with the next snapshot.
    let settled = &since[usize::from(since.len() > 2)..];
    let links = || now.ports.iter().filter(|it| !it.host_side);
    match (since.len() == own.len(), links().next()) {
        (false, Some(link)) if links().count() == 1 => {
            let found = finding(&last.node, &link.name, lived_s);
            let judged = match settled.len() > 1 {
                true => settled,
                false => &own[own.len() - 1..],
            };
            (judged, Some(found))
        }
        _ => (own, None),
    }
}
