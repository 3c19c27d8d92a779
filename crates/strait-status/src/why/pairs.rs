//! What both ends of a link tell together.

use alloc::format;
use alloc::vec::Vec;

use super::renewal::both_live;
use super::words::{count, percent, rate};
use super::{BAD, Cause, Finding, GONE, Why, why};
use crate::Snapshot;
use crate::span::{Link, Span, last_life, share};

/// Snapshots that are compared.
const LATE: usize = 4;
/// Of these, the ones whose frames may not have come yet by a long way.
const ON_ITS_WAY: usize = 1;
/// Snapshots later than sent, what comes by a long way.
const DELAYED: usize = 2;
/// By how much the times may differ that both ends tell of.
const SKEW_S: f64 = 2.0;
/// Packets that a share is made of, at least.
const ENOUGH: f64 = 5.0;
/// More than a medium loses where it is as it should be.
const LOSSY: f64 = 0.05;
/// A line that is in use all the time.
const FULL: f64 = 0.9;
/// The most of what comes in a step, in its least, where nothing is lost by chance.
const STEADY: f64 = 1.3;
/// Less than comes of what is sent, where the rate of the line is right.
const SLOW: f64 = 0.7;

/// What is wrong with each of several nodes. Where they are two with one link each, both ends of
/// it are compared: what one sent against what the other got.
pub fn together(histories: &[Vec<Snapshot>]) -> Vec<Why> {
    let [one, other] = histories else {
        return histories.iter().map(|it| why(it)).collect();
    };
    let ((one, renewed), (other, its)) = (both_live(one, other), both_live(other, one));
    let judged = [(one, renewed), (other, its)].into_iter();
    let judged = judged.map(|(it, renewed)| why(it).with(renewed.into_iter().collect()));
    let mut all: Vec<Why> = judged.collect();
    for (place, sent, came) in [(1, one, other), (0, other, one)] {
        if let Some(found) = dead(sent, came) {
            // The other end is alive, and sends: its silence has another reason.
            all[place] = all[place]
                .clone()
                .without(Cause::FarSilent)
                .with([found].into());
        } else if let Some(found) = slow(sent, came) {
            all[place] = all[place].clone().with([found].into());
        } else if !all.iter().any(Why::knows_of_losses)
            && let Some(found) = lossy(sent, came)
        {
            all[place] = all[place].clone().with([found].into());
        }
    }
    all
}

impl Why {
    fn without(mut self, cause: Cause) -> Self {
        self.findings.retain(|it| it.cause != cause);
        self
    }

    fn knows_of_losses(&self) -> bool {
        let losses = [
            Cause::LinkErrors,
            Cause::Fading,
            Cause::Unreadable,
            Cause::OneWay,
        ];
        self.findings
            .iter()
            .any(|it| losses.contains(&it.cause) || it.weight >= GONE)
    }
}

/// The only links of two nodes, if both are up.
fn links<'s, 'a>(one: &'s Span<'a>, other: &'s Span<'a>) -> Option<(&'s Link<'a>, &'s Link<'a>)> {
    match (&one.links[..], &other.links[..]) {
        ([one], [other]) if one.port.up && other.port.up => Some((one, other)),
        _ => None,
    }
}

/// A way by which nothing comes of what is sent of late.
fn dead(sent: &[Snapshot], came: &[Snapshot]) -> Option<Finding> {
    let late = |it: &[Snapshot]| it.len().saturating_sub(LATE);
    let sender = Span::new(&sent[late(sent)..])?;
    let receiver = Span::new(&came[late(came)..])?;
    if (sender.s - receiver.s).abs() > SKEW_S {
        return None;
    }
    let (_, here) = links(&sender, &receiver)?;
    // What left since may be on its way.
    let before = Span::new(&sent[late(sent)..sent.len().saturating_sub(ON_ITS_WAY)])?;
    let (there, _) = links(&before, &receiver)?;
    let (name, frames) = (&here.port.name, there.frames_out);
    (frames >= ENOUGH && here.grown(|it| it.frames_in) == 0.0).then(|| {
        let (from, to) = (&sender.last.node, &receiver.last.node);
        let text = format!(
            "{from} sent {}, and none arrived at {to} by {name}: that direction is dead.",
            count(frames, "frame")
        );
        let look = format!("check the transmitter of {from} and the receiver of {to}");
        Finding::new((Cause::OneWay, GONE + 0.5), name, text, look)
    })
}

/// A way of which all comes whole, and steadily less than is sent: the rest waits between the ends.
fn slow(sent: &[Snapshot], came: &[Snapshot]) -> Option<Finding> {
    let late = |it: &[Snapshot]| it.len().saturating_sub(LATE);
    let (sent, came) = (&sent[late(sent)..], &came[late(came)..]);
    let (sender, receiver) = (Span::new(sent)?, Span::new(came)?);
    let (there, here) = links(&sender, &receiver)?;
    let rate_bit_s = there.port.rate_bit_s? as f64;
    let whole = here.bad_in == 0.0 && there.repeated == 0.0 && there.port.hf.is_none();
    let steps = sent.windows(2).zip(came.windows(2));
    let steps = steps.filter_map(|(sent, came)| {
        let (sender, receiver) = (Span::new(sent)?, Span::new(came)?);
        let (there, here) = links(&sender, &receiver)?;
        let full = there.busy >= FULL && (sender.s - receiver.s).abs() <= SKEW_S / 2.0;
        full.then(|| here.grown(|it| it.octets_in) * 8.0 / receiver.s)
    });
    let steps: Vec<f64> = steps.collect();
    let least = steps.iter().copied().fold(f64::INFINITY, f64::min);
    let most = steps.iter().copied().fold(0.0, f64::max);
    let out_bit_s = there.octets_out * 8.0 / sender.s;
    let steady = steps.len() + 1 == LATE && least > 0.0 && most <= STEADY * least;
    if !whole || !steady || most > SLOW * out_bit_s {
        return None;
    }
    let (name, from, to) = (&here.port.name, &sender.last.node, &receiver.last.node);
    let text = format!(
        "{to} receives {} by {name} of the {} that {from} sends, all of it intact: the modem or \
         line between them is slower than the port's {}, and packets wait in it.",
        rate(most),
        rate(out_bit_s),
        rate(rate_bit_s),
    );
    let look = format!(
        "set the port {} and its modem to the same rate",
        there.port.name
    );
    let weight = BAD + 0.5 + (1.0 - most / out_bit_s) / 4.0;
    Some(Finding::new((Cause::SlowLine, weight), name, text, look))
}

/// A way by which a part of what is sent doesn't come, without a trace at either end. What is on
/// its way is there some snapshots later: of each such delay the one by which least is lost.
fn lossy(sent: &[Snapshot], came: &[Snapshot]) -> Option<Finding> {
    let delays = 0..=LATE.min(sent.len()).min(came.len());
    let all = delays.map(|by| lost(&sent[..sent.len() - by], &came[by..]));
    let all: Vec<_> = all.collect();
    // As long as a long way isn't ruled out, nothing is known.
    let known = all.iter().filter_map(|it| *it);
    let known = known.filter(|_| all.iter().take(DELAYED + 1).all(Option::is_some));
    let (lost, frames, fades) = known.min_by(|one, other| one.0.total_cmp(&other.0))?;
    if lost < LOSSY || lost * frames < ENOUGH {
        return None;
    }
    let (sender, receiver) = (Span::new(sent)?, Span::new(came)?);
    let (_, here) = links(&sender, &receiver)?;
    let (name, from, to) = (&here.port.name, &sender.last.node, &receiver.last.node);
    let (cause, how) = match fades {
        true => (Cause::Fading, "fades, and loses"),
        false => (Cause::LinkErrors, "loses"),
    };
    let text = format!(
        "The link {name} {how} {} of {} that {from} sent to {to}.",
        percent(lost),
        count(frames, "frame")
    );
    let look = "measure the line (`strait measure pair HOST`); check level, cable and modem";
    let weight = BAD + 0.2 + lost / 2.0;
    Some(Finding::new((cause, weight), name, text, look))
}

/// The share of a way's frames that was lost, how many there were, and whether it was now more and
/// now less.
fn lost(sent: &[Snapshot], came: &[Snapshot]) -> Option<(f64, f64, bool)> {
    let (sender, receiver) = (Span::new(sent)?, Span::new(came)?);
    // One that has said one thing yet, since it began anew, can't be compared.
    let is_new = |it: &[Snapshot]| it.len() > 1 && last_life(it).len() == 1;
    if (sender.s - receiver.s).abs() > SKEW_S || is_new(sent) || is_new(came) {
        return None;
    }
    let (there, here) = links(&sender, &receiver)?;
    let got = here.grown(|it| it.frames_in);
    // Chunks of an octet stream are no frames.
    let are_frames = here.grown(|it| it.octets_in) > 4.0 * got && here.port.hf.is_none();
    let frames = there.frames_out;
    if !are_frames || frames < 4.0 * ENOUGH {
        return None;
    }
    let pairs = sent.windows(2).rev().zip(came.windows(2).rev());
    let steps = pairs.filter_map(|(sent, came)| {
        let (sender, receiver) = (Span::new(sent)?, Span::new(came)?);
        let (there, here) = links(&sender, &receiver)?;
        let frames = there.frames_out;
        let lost = 1.0 - share(here.grown(|it| it.frames_in), frames);
        (frames >= ENOUGH).then_some(lost)
    });
    let steps: Vec<f64> = steps.collect();
    let heavy = steps.iter().any(|it| *it >= 0.3);
    let fades = heavy && steps.iter().filter(|it| **it <= 0.05).count() >= 2;
    Some((1.0 - share(got, frames), frames, fades))
}
