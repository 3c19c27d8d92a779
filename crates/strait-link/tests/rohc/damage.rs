//! Damaged frames: how many pass the check of their segment, and how many of those become packets
//! that nobody sent.
//!
//! `STRAIT_DAMAGED_FRAMES=1000000 cargo test --release -p strait-link --test rohc damage --
//! --nocapture` measures what docs/wire-format/headers.md states.

use crate::traffic::{Dice, Flow, KINDS};
use strait_core::rate::LineRate;
use strait_link::rohc::{Cids, Peer, Received, Settings};
use strait_link::{LinkSettings, Receiver, SegmentCheck};
use strait_wire::check::Crc32Sum;
use strait_wire::segment::{STREAMS, SegmentHeader, emit_segment};

/// Frames to damage; the variable says how many instead.
fn frames() -> u64 {
    let told = std::env::var("STRAIT_DAMAGED_FRAMES").ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(20_000)
}

#[derive(Debug, Default)]
struct Outcome {
    /// Damaged frames that passed the check.
    passed: u64,
    /// Packets told from them, or from a context that they spoilt, that nobody sent.
    wrong: u64,
    /// Packets whose frame arrived whole and that weren't told.
    lost: u64,
}

/// Changes a frame, never into itself: some bits, a burst, or some octets.
fn damage(frame: &mut [u8], dice: &mut Dice) {
    let bits = frame.len() as u64 * 8;
    let before = frame.to_vec();
    while frame == before {
        match dice.below(3) {
            0 => {
                for _ in 0..=dice.below(8) {
                    let bit = dice.below(bits) as usize;
                    frame[bit / 8] ^= 1 << (bit % 8);
                }
            }
            1 => {
                let from = dice.below(bits) as usize;
                let to = (from + dice.below(48) as usize).min(frame.len() * 8);
                for bit in from..to {
                    frame[bit / 8] ^= (dice.below(2) as u8) << (bit % 8);
                }
            }
            _ => {
                for _ in 0..=dice.below(5) {
                    let at = dice.below(frame.len() as u64) as usize;
                    frame[at] = dice.draw() as u8;
                }
            }
        }
    }
}

/// Sends packets of all kinds over a link with this check. Each frame arrives twice: damaged, and
/// then whole, so that every damaged one meets contexts that are in step.
fn run(check: SegmentCheck, frames: u64) -> Outcome {
    let settings = Settings::new(Cids::Small(15));
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let link = LinkSettings {
        alone: check,
        ..LinkSettings::for_rate(LineRate::new(9600, 10), 1500)
    };
    let mut receiver = Receiver::new(link);
    let mut dice = Dice(frames);
    let mut flows: Vec<Flow> = KINDS
        .into_iter()
        .zip(1..)
        .map(|(kind, host)| Flow::new(kind, host, &mut dice))
        .collect();
    let mut sequences = [0u8; STREAMS];
    let mut outcome = Outcome::default();
    for _ in 0..frames {
        let chosen = dice.below(flows.len() as u64) as usize;
        let packet = flows[chosen].next(&mut dice);
        let (mut line, mut frame) = (Vec::new(), Vec::new());
        left.compress(0, &packet, &mut line);
        let stream = chosen % STREAMS;
        let header = SegmentHeader {
            first: true,
            last: true,
            stream: stream as u8,
            sequence: sequences[stream],
        };
        sequences[stream] = (sequences[stream] + 1) % 8;
        emit_segment(header, &line, check, &mut Crc32Sum::new(), &mut frame);
        let mut spoilt = frame.clone();
        damage(&mut spoilt, &mut dice);
        for (frame, damaged) in [(&spoilt, true), (&frame, false)] {
            let mut told = None;
            receiver.feed_frame(frame, |outcome| {
                if let Ok(carried) = outcome {
                    told = Some(carried.to_vec());
                }
            });
            let Some(carried) = told else {
                outcome.lost += u64::from(!damaged);
                continue;
            };
            outcome.passed += u64::from(damaged);
            let mut out = Vec::new();
            match right.decompress(&carried, &mut out) {
                Ok(Received::Packet) => outcome.wrong += u64::from(out != packet),
                _ => outcome.lost += u64::from(!damaged),
            }
        }
        let mut back = Vec::new();
        if right.put_feedback(&mut back) {
            let heard = left.decompress(&back, &mut Vec::new());
            assert_eq!(heard, Ok(Received::Nothing));
        }
    }
    outcome
}

#[test]
fn no_more_damaged_frames_become_packets_than_the_check_lets_through() {
    let frames = frames();
    for (check, bits) in [(SegmentCheck::Short, 16), (SegmentCheck::Long, 32)] {
        let outcome = run(check, frames);
        println!("{frames} damaged frames, {bits} bits: {outcome:?}");
        // As many as chance has it, and four standard deviations.
        let expected = frames as f64 / 2f64.powi(bits);
        let most = expected + 4.0 * expected.sqrt() + 1.0;
        assert!(outcome.passed as f64 <= most, "{outcome:?}");
        assert!(outcome.wrong <= outcome.passed, "{outcome:?}");
        assert!(outcome.lost <= 8 * outcome.passed, "{outcome:?}");
    }
}
