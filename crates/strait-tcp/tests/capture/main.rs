//! What our endpoint noted of its own packets, against what `tshark` makes of captures of them.
#![cfg(test)]

mod line;
mod reading;

use std::collections::BTreeSet;

use strait_core::{Duration, Instant};
use strait_tcp::TcpEventKind as Kind;
use strait_wire::ip::TcpFlags;

use line::{App, Capture, Does, Frame, Scene, play};
use reading::{Flag, read};

const PROFILES: [&str; 5] = [
    "linux-cubic",
    "linux-reno",
    "linux-bbr",
    "ns3-2012",
    "paper-hf",
];
const PASS: line::Rule = |_, _, _| Does::Pass;
const BULK: [App; 2] = [App::sending(100_000), App::reading()];

const fn scene(name: &'static str, apps: [App; 2], rule: line::Rule) -> Scene {
    Scene {
        name,
        profile: "linux-cubic",
        apps,
        rule,
        config: |_| {},
        lasts: Duration::from_secs(100),
    }
}

/// Loses packets with data from the client by their numbers.
macro_rules! without {
    ($($number:pat_param)|+) => {
        |way, _, seen| match seen.data_before {
            $($number)|+ if way == 0 && seen.octets > 0 => Does::Lose,
            _ => Does::Pass,
        }
    };
}

fn scenes() -> Vec<Scene> {
    let late_reader = App {
        reads_from: Duration::from_secs(5),
        ..App::reading()
    };
    let answering = App {
        answers: true,
        ..App::sending(50_000)
    };
    let staying = App {
        closes: false,
        ..App::sending(3_000)
    };
    let breaking = App {
        aborts_at: Some(Duration::from_millis(300)),
        ..App::sending(1_000_000)
    };
    let second: line::Rule = |way, number, seen| {
        let syn = seen.flags.contains(TcpFlags::SYN) && way == 1 && number == 0;
        if syn { Does::Lose } else { Does::Pass }
    };
    vec![
        scene("one way", BULK, PASS),
        scene(
            "both ways",
            [App::sending(60_000), App::sending(80_000)],
            PASS,
        ),
        scene("half-close", [App::sending(20_000), answering], PASS),
        scene("SYN lost", BULK, |way, number, _| {
            if (way, number) == (0, 0) {
                Does::Lose
            } else {
                Does::Pass
            }
        }),
        scene("answer to the SYN lost", BULK, second),
        scene("one lost", BULK, without!(20)),
        scene("some lost", BULK, without!(20 | 23 | 24 | 40)),
        scene("repetition lost", BULK, without!(20 | 31)),
        scene("first lost", BULK, without!(0)),
        scene("tail lost", BULK, without!(66..=68)),
        scene("more of the tail lost", BULK, without!(66..=70)),
        scene("all lost for a while", BULK, |_, _, seen| {
            if seen.during(200, 1500) {
                Does::Lose
            } else {
                Does::Pass
            }
        }),
        scene("acknowledgements lost for a while", BULK, |way, _, seen| {
            if way == 1 && seen.during(200, 1500) {
                Does::Lose
            } else {
                Does::Pass
            }
        }),
        scene("spurious timeout", BULK, |_, _, seen| {
            if seen.during(200, 1000) {
                Does::Until(Instant::from_secs(1))
            } else {
                Does::Pass
            }
        }),
        scene("overtaken", BULK, |way, number, _| {
            if way == 0 && number == 20 {
                Does::Hold(Duration::from_millis(3))
            } else {
                Does::Pass
            }
        }),
        scene("overtaken by far", BULK, |way, number, _| {
            if way == 0 && number % 20 == 19 {
                Does::Hold(Duration::from_millis(30))
            } else {
                Does::Pass
            }
        }),
        scene("doubled", BULK, |way, number, _| {
            if way == 0 && number % 7 == 5 {
                Does::Twice
            } else {
                Does::Pass
            }
        }),
        scene("zero window", [App::sending(100_000), late_reader], PASS),
        scene(
            "zero window and loss",
            [App::sending(100_000), late_reader],
            without!(20 | 40),
        ),
        scene("reset", [breaking, App::reading()], PASS),
        scene(
            "reset by the reader",
            [
                App::sending(1_000_000),
                App {
                    aborts_at: Some(Duration::from_millis(300)),
                    ..App::reading()
                },
            ],
            PASS,
        ),
        Scene {
            config: |config| config.keep_alive = true,
            lasts: Duration::from_secs(7300),
            ..scene("silence", [staying, App::reading()], PASS)
        },
        Scene {
            config: |config| config.ecn = true,
            ..scene("ECN", BULK, without!(20))
        },
    ]
}

/// What `tshark` may say of a frame for which the end beside the capture noted such an event: one
/// of these sets of flags. An event without an entry belongs to no frame or to none of its flags.
///
/// At the sender's side:
/// * A segment sent again is always seen as such, but what it is called is guessed from times:
///   «fast» within 20 ms after two duplicates for it, «out of order» within the first round trip
///   after the newest segment, plain else. A repeated handshake and a probe at the tail come later
///   than both.
/// * It knows no probes without data: those, of a window or of a life, are «keep-alive» to it.
/// * An acknowledgement said again in answer to such a probe has a name of its own.
fn of_sent(kind: Kind) -> &'static [&'static [Flag]] {
    use Flag::*;
    match kind {
        Kind::RepeatedHandshake | Kind::RepeatedProbe => &[&[Retransmission]],
        Kind::RepeatedTimeout => &[&[Retransmission], &[OutOfOrder]],
        Kind::RepeatedLoss => &[&[Retransmission], &[Retransmission, Fast], &[OutOfOrder]],
        Kind::ZeroWindow => &[&[ZeroWindow]],
        Kind::WindowFull => &[&[WindowFull]],
        Kind::WindowProbe | Kind::KeepAlive => &[&[KeepAlive]],
        Kind::DuplicateAck => &[&[DuplicateAck], &[KeepAliveAck]],
        Kind::DuplicateTold => &[&[DuplicateTold]],
        _ => &[],
    }
}

/// At the receiver's side, `tshark` can't tell a repetition from a segment that was overtaken but
/// by the times; and it says «spurious» only of what was acknowledged in order before, so not while
/// an acknowledgement is delayed, nor of what is beyond a gap.
fn of_received(kind: Kind) -> &'static [&'static [Flag]] {
    use Flag::*;
    match kind {
        Kind::Gap => &[&[Lost]],
        Kind::Late => &[&[Retransmission], &[Retransmission, Fast], &[OutOfOrder]],
        Kind::Duplicate => &[&[Retransmission], &[Retransmission, Spurious]],
        Kind::WindowClosed => &[&[ZeroWindow]],
        Kind::DuplicateHeard => &[&[DuplicateTold]],
        _ => &[],
    }
}

/// Flags that don't stand for an event of the end beside the capture.
fn is_mute(flag: Flag, sent: bool) -> bool {
    use Flag::*;
    match flag {
        WindowUpdate => true,
        // What the other end did; its own capture is compared with its own events. A window that
        // stays closed and a report that comes late are no events.
        ZeroWindow | DuplicateTold | WindowFull | KeepAlive | KeepAliveAck | DuplicateAck => !sent,
        _ => false,
    }
}

/// Whether some choice of a set for each event gives these flags.
fn fits(
    events: &[&[&[Flag]]],
    flags: &BTreeSet<Flag>,
    explained: &BTreeSet<Flag>,
    sent: bool,
) -> bool {
    let Some((first, rest)) = events.split_first() else {
        let mut others = flags.difference(explained);
        return others.all(|flag| is_mute(*flag, sent)) && explained.is_subset(flags);
    };
    first.iter().any(|choice| {
        let more = explained.iter().chain(*choice).copied().collect();
        fits(rest, flags, &more, sent)
    })
}

fn agrees(frame: &Frame, flags: &BTreeSet<Flag>) -> bool {
    let of = if frame.sent { of_sent } else { of_received };
    let events: Vec<_> = frame.events.iter().map(|kind| of(*kind)).collect();
    let events: Vec<_> = events.into_iter().filter(|sets| !sets.is_empty()).collect();
    let reset = if frame.sent {
        Kind::ResetSent
    } else {
        Kind::ResetMet
    };
    let overtaken = frame.sent && flags.contains(&Flag::OutOfOrder);
    fits(&events, flags, &BTreeSet::new(), frame.sent)
        && frame.events.contains(&reset) == frame.is_reset
        && !(overtaken && frame.after_newest > line::ROUND_TRIP_MAX)
}

/// Plays all scenes, has both captures read, and compares frame by frame.
fn compare(ipv4: bool) {
    let mut captures = ["client", "server"].map(Capture::new);
    for profile in PROFILES {
        for scene in scenes() {
            play(&Scene { profile, ..scene }, ipv4, &mut captures);
        }
    }
    let (mut met, mut wrong) = (BTreeSet::new(), Vec::new());
    for (capture, side) in captures.iter().zip(["client", "server"]) {
        let name = format!("tcp-{side}-ipv{}", if ipv4 { 4 } else { 6 });
        let flags = read(&name, &capture.file);
        assert_eq!(flags.len(), capture.frames.len());
        for (number, (frame, flags)) in (1..).zip(capture.frames.iter().zip(&flags)) {
            met.extend(frame.events.iter().copied());
            if !agrees(frame, flags) {
                let Frame { scene, profile, .. } = frame;
                wrong.push(format!(
                    "{name}, {number}, «{scene}», {profile}: {frame:?} is {flags:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // These need other packets than ours, ICMP or a reader that is broken.
    let elsewhere = [Kind::RepeatedPathMtu, Kind::Stale, Kind::Refused];
    let all = Kind::ALL
        .into_iter()
        .filter(|kind| !elsewhere.contains(kind));
    assert!(met.iter().copied().eq(all), "{met:?}");
}

#[test]
fn what_tshark_reads_in_ipv4_captures_agrees_with_the_events() {
    compare(true);
}

#[test]
fn what_tshark_reads_in_ipv6_captures_agrees_with_the_events() {
    compare(false);
}
