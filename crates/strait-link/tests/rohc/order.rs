//! Media that don't keep the order of frames: what was overtaken is refused, never told wrongly.

use std::collections::BTreeMap;

use crate::traffic::{Dice, Flow, KINDS, Kind};
use strait_link::rohc::{Beyond, Cids, Fault, Peer, Received, Settings};

fn pair(counts: bool) -> [Peer; 2] {
    let beyond = Beyond {
        counts,
        ..Beyond::default()
    };
    [Settings::new(Cids::Small(15)); 2].map(|settings| {
        let mut end = Peer::new(settings);
        end.agree(&beyond, &[]);
        end
    })
}

#[derive(Debug, Default)]
struct Outcome {
    told: u32,
    wrong: u32,
    late: u32,
    other: u32,
}

/// Packets of all kinds of flows, a tenth of which is held back for as long as thirty others take,
/// a twentieth comes twice, and a twentieth is lost.
fn run(counts: bool, packets: u32) -> Outcome {
    let [mut left, mut right] = pair(counts);
    let mut dice = Dice(7);
    let hosts = KINDS.iter().zip(1..);
    let mut flows: Vec<Flow> = hosts
        .map(|(&kind, host)| Flow::new(kind, host, &mut dice))
        .collect();
    // By the time of arrival: what is sent, and what it stands for.
    let mut on_way: BTreeMap<u64, (Vec<u8>, Vec<u8>)> = BTreeMap::new();
    let mut outcome = Outcome::default();
    for number in 0..u64::from(packets) {
        let chosen = dice.below(flows.len() as u64) as usize;
        let packet = flows[chosen].next(&mut dice);
        let mut line = Vec::new();
        left.compress(0, &packet, &mut line);
        for copy in 0..1 + u64::from(dice.happens(0.05)) {
            let held = u64::from(dice.happens(0.1)) * dice.below(300);
            if !dice.happens(0.05) {
                let at = number * 10 + held + copy;
                on_way.insert(at, (line.clone(), packet.clone()));
            }
        }
        while let Some(entry) = on_way.first_entry()
            && *entry.key() <= number * 10
        {
            let (line, packet) = entry.remove();
            let mut out = Vec::new();
            match right.decompress(&line, &mut out) {
                Ok(Received::Packet) => {
                    outcome.told += 1;
                    outcome.wrong += u32::from(out != packet);
                }
                Err(Fault::Late) => outcome.late += 1,
                _ => outcome.other += 1,
            }
        }
        let mut feedback = Vec::new();
        if right.put_feedback(&mut feedback) {
            let mut out = Vec::new();
            assert_eq!(left.decompress(&feedback, &mut out), Ok(Received::Nothing));
        }
    }
    outcome
}

#[test]
fn what_was_overtaken_is_never_told_wrongly() {
    let outcome = run(true, 60_000);
    assert_eq!(outcome.wrong, 0, "{outcome:?}");
    // Held back far enough to be overtaken by a packet of its own context, or a copy.
    assert!(outcome.late > 2000, "{outcome:?}");
    assert!(outcome.other < outcome.told / 100, "{outcome:?}");
    // The count is what makes the difference.
    let bare = run(false, 60_000);
    println!("{outcome:?}, not counted: {bare:?}");
    assert!(bare.wrong > 0, "{bare:?}");
}

/// The other end may have forgotten nothing when this one begins anew.
#[test]
fn what_is_said_anew_is_not_taken_for_late() {
    let [mut left, mut right] = pair(true);
    let mut dice = Dice(3);
    let mut flow = Flow::new(KINDS[0], 1, &mut dice);
    for number in 0..60 {
        match number {
            20 => left.reset(),
            40 => {
                left.renew(Settings::new(Cids::Small(15)));
                let beyond = Beyond {
                    counts: true,
                    ..Beyond::default()
                };
                left.agree(&beyond, &[]);
            }
            _ => {}
        }
        let packet = flow.next(&mut dice);
        let (mut line, mut out) = (Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        let received = right.decompress(&line, &mut out);
        assert_eq!(
            (received, &out),
            (Ok(Received::Packet), &packet),
            "{number}"
        );
    }
}

#[test]
fn a_context_is_found_again_after_any_number_of_losses() {
    for lost in [100, 126, 127, 128, 200, 255, 256, 300] {
        let [mut left, mut right] = pair(true);
        let mut dice = Dice(3);
        let mut flow = Flow::new(KINDS[0], 1, &mut dice);
        let mut refused = 0;
        for number in 0..lost + 40 {
            let packet = flow.next(&mut dice);
            let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
            left.compress(0, &packet, &mut line);
            if (20..20 + lost).contains(&number) {
                continue;
            }
            match right.decompress(&line, &mut out) {
                Ok(Received::Packet) => assert_eq!(out, packet),
                _ => refused += 1,
            }
            if right.put_feedback(&mut back) {
                let _ = left.decompress(&back, &mut out);
            }
        }
        assert!(refused <= 12, "{lost} lost, {refused} refused");
    }
}

#[test]
fn nothing_is_told_wrongly_behind_an_outage_of_any_length() {
    let mut wrong = Vec::new();
    for (&kind, host) in KINDS.iter().zip(1..) {
        for lost in (1..40).chain((40..300).step_by(7)) {
            let [mut left, mut right] = pair(true);
            let mut dice = Dice(lost);
            let mut flow = Flow::new(kind, host, &mut dice);
            for number in 0..600 {
                let packet = flow.next(&mut dice);
                let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
                left.compress(0, &packet, &mut line);
                if (60..60 + lost).contains(&(number % 330)) {
                    continue;
                }
                if right.decompress(&line, &mut out).is_ok() && out != packet {
                    wrong.push((kind, lost, number));
                }
                if right.put_feedback(&mut back) && dice.happens(0.7) {
                    let _ = left.decompress(&back, &mut out);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Compresses a packet of `flow`, which `class` carries while packets of `half_sent` classes are
/// half sent.
fn send(
    peer: &mut Peer,
    (class, half_sent): (u8, u32),
    flow: &mut Flow,
    dice: &mut Dice,
) -> (Vec<u8>, Vec<u8>) {
    let (packet, mut line) = (flow.next(dice), Vec::new());
    peer.tell_half_sent(half_sent);
    peer.compress(class, &packet, &mut line);
    (line, packet)
}

#[test]
fn a_call_that_begins_while_a_segment_is_half_sent_leaves_it_its_context() {
    for kind in [Kind::Bulk6 { stamps: true }, Kind::Bulk4, Kind::Udp6] {
        for (sent, saturated) in (1..12).flat_map(|sent| [(sent, false), (sent, true)]) {
            begin_beside(kind, sent, saturated);
        }
    }
}

/// A SYN and an acknowledgement go with what is urgent, and what they open doesn't.
#[test]
fn what_follows_an_opening_goes_on_with_its_context() {
    for half_sent in [0, 1 << 1] {
        let [mut left, mut right] = pair(false);
        let mut dice = Dice(5);
        let mut flow = Flow::new(Kind::Bulk6 { stamps: true }, 1, &mut dice);
        let classes = [1, 1, 2, 2, 1, 2].map(|class| (class, half_sent));
        let heads = classes.map(|class| {
            let (line, packet) = send(&mut left, class, &mut flow, &mut dice);
            let mut out = Vec::new();
            let told = right.decompress(&line, &mut out);
            assert_eq!((told, out), (Ok(Received::Packet), packet), "{class:?}");
            (line[0] & 0xf0 == 0xe0).then_some(line[0] & 0xf)
        });
        // Unless some of it is under way yet; and who comes back has another.
        let expected = match half_sent {
            0 => [None, None, None, None, Some(1), None],
            _ => [None, None, Some(1), Some(1), None, Some(1)],
        };
        assert_eq!(heads, expected);
    }
}

#[test]
fn who_alone_has_something_to_say_gets_the_number_that_costs_no_octet() {
    for kind in [Kind::Bulk6 { stamps: true }, Kind::Acks4, Kind::Udp6] {
        for lost in [0.0, 0.05] {
            let [mut left, mut right] = pair(false);
            let (mut dice, mut chance) = (Dice(5), Dice(6));
            let (mut quiet, mut bulk) =
                (Flow::new(kind, 1, &mut dice), Flow::new(kind, 2, &mut dice));
            let mut heads = Vec::new();
            for number in 0..600 {
                // The quiet one says a word before the other one may take its number, and later.
                let flow = if number == 0 || number == 120 || number == 400 {
                    (1, &mut quiet)
                } else {
                    (2, &mut bulk)
                };
                let (line, packet) = send(&mut left, (flow.0, 0), flow.1, &mut dice);
                heads.push(line[0] & 0xf0 == 0xe0);
                let mut out = Vec::new();
                if !chance.happens(lost)
                    && right.decompress(&line, &mut out) == Ok(Received::Packet)
                {
                    assert_eq!(out, packet, "{kind:?} {number}");
                } else {
                    assert!(lost > 0.0, "{kind:?} {number}");
                }
            }
            assert!(
                heads[121..=248].iter().all(|numbered| *numbered),
                "{kind:?}"
            );
            assert!(
                !heads[249..400].iter().any(|numbered| *numbered),
                "{kind:?}"
            );
            assert!(
                heads[400] && !heads[401..].iter().any(|numbered| *numbered),
                "{kind:?}"
            );
        }
    }
}

/// A call begins while the last of `sent` packets of a flow is half sent; `saturated` if there is
/// always one of them.
fn begin_beside(kind: Kind, sent: u64, saturated: bool) {
    const BULK: u8 = 3;
    let [mut left, mut right] = pair(false);
    let mut dice = Dice(sent);
    let mut bulk = Flow::new(kind, 1, &mut dice);
    let mut voice = Flow::new(Kind::Voice6, 2, &mut dice);
    voice.pauses = 0.0;
    let mut tell = |(line, packet): &(Vec<u8>, Vec<u8>)| {
        let mut out = Vec::new();
        let told = right.decompress(line, &mut out);
        assert_eq!(
            (told, &out),
            (Ok(Received::Packet), packet),
            "{kind:?} {sent} {saturated}"
        );
    };
    for _ in 1..sent {
        tell(&send(&mut left, (BULK, 0), &mut bulk, &mut dice));
    }
    let half = send(&mut left, (BULK, 0), &mut bulk, &mut dice);
    for _ in 0..10 {
        tell(&send(&mut left, (0, 1 << BULK), &mut voice, &mut dice));
    }
    tell(&half);
    // The number that costs no octet is the call's as soon as it can be.
    let mut calls = Vec::new();
    if !saturated {
        calls.push(send(&mut left, (0, 0), &mut voice, &mut dice));
    }
    let half = send(&mut left, (BULK, 0), &mut bulk, &mut dice);
    for _ in 0..10 {
        calls.push(send(&mut left, (0, 1 << BULK), &mut voice, &mut dice));
    }
    for call in &calls {
        assert_ne!(call.0[0] & 0xf0, 0xe0, "{kind:?} {sent} {saturated}");
        tell(call);
    }
    tell(&half);
    for _ in 0..10 {
        tell(&send(&mut left, (BULK, 0), &mut bulk, &mut dice));
        tell(&send(&mut left, (0, 1 << BULK), &mut voice, &mut dice));
    }
}
