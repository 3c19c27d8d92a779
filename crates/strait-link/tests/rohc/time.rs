//! Links without a way back: nobody can ask, so contexts are said whole again by time, too.

use crate::traffic::{Dice, Flow, KINDS, Kind};
use strait_core::{Duration, Instant};
use strait_link::rohc::{Cids, Compressor, Decompressor, Peer, Profile, Received, Settings};

/// Below 750 baud a link leaves more: the time of 600 octets, 20 s at 300 baud, as each context
/// said whole has some 60 and a flow takes a tenth of the line for them then. Ten seconds would
/// take a fifth. Half a hundredth more of the 30 octets a second is 0.15 beside 3: 60 octets each
/// 19 s.
const AFTER: Duration = Duration::from_secs(8);

const SETTINGS: Settings = Settings {
    feedback: false,
    refresh_after: Some(AFTER),
    ..Settings::new(Cids::Small(15))
};

/// A flow that never pauses nor finds another way.
fn steady(kind: Kind, host: u8, dice: &mut Dice) -> Flow {
    let mut flow = Flow::new(kind, host, dice);
    (flow.pauses, flow.reroutes) = (0.0, 0.0);
    flow
}

/// What goes in the place of `packet`, sent at `now`.
fn sent(compressor: &mut Compressor, now: Instant, packet: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    compressor.tell_time(now);
    compressor.compress(0, packet, &mut line);
    line
}

/// Whether a packet without a number of a context, or behind one, is IR.
fn is_whole(line: &[u8]) -> bool {
    let first = line.iter().find(|&&octet| octet >> 4 != 0xe);
    matches!(first, Some(0xfc | 0xfd))
}

#[test]
fn a_context_is_said_whole_again_when_its_time_has_come_and_once() {
    for kind in KINDS {
        let mut dice = Dice(3);
        let mut flow = steady(kind, 1, &mut dice);
        let mut compressor = Compressor::new(SETTINGS);
        let mut whole_at = Instant::ZERO;
        for number in 0..30 {
            let now = Instant::from_millis(100 * number);
            if is_whole(&sent(&mut compressor, now, &flow.next(&mut dice))) {
                whole_at = now;
            }
        }
        assert!(whole_at >= Instant::from_millis(300), "{kind:?}");
        for _ in 0..3 {
            let due = whole_at + AFTER;
            let before = Instant::from_nanos(due.as_nanos() - 1);
            let mut is_whole_at =
                |now| is_whole(&sent(&mut compressor, now, &flow.next(&mut dice)));
            assert!(!is_whole_at(before), "{kind:?}");
            assert!(is_whole_at(due), "{kind:?}");
            assert!(!is_whole_at(due), "{kind:?}");
            whole_at = due;
        }
    }
}

#[test]
fn the_context_of_uncompressed_packets_is_said_again_too() {
    // An IPv4 header with an option.
    let mut packet = vec![
        0x46, 0, 0, 24, 0, 1, 0, 0, 64, 99, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2,
    ];
    packet.extend_from_slice(&[1, 1, 1, 0]);
    let mut compressor = Compressor::new(SETTINGS);
    let mut is_whole_at = |now| is_whole(&sent(&mut compressor, now, &packet));
    let first = [(); 5].map(|()| is_whole_at(Instant::ZERO));
    assert_eq!(first, [true, true, true, true, false]);
    assert!(!is_whole_at(Instant::from_nanos(7_999_999_999)));
    assert!(is_whole_at(Instant::from_secs(8)));
    assert!(!is_whole_at(Instant::from_secs(8)));
}

#[test]
fn a_forged_context_stays_until_the_next_refresh() {
    for kind in [
        Kind::Voice6,
        Kind::Udp6,
        Kind::Bulk6 { stamps: true },
        Kind::Talk6,
    ] {
        let mut dice = Dice(5);
        let mut flow = steady(kind, 1, &mut dice);
        let mut compressor = Compressor::new(SETTINGS);
        let mut decompressor = Decompressor::new(SETTINGS);
        let mut told = |line: &[u8]| {
            let mut out = Vec::new();
            let received = decompressor.decompress(line, &mut out, |_| {});
            received.is_ok().then_some(out)
        };
        let mut healed_at = None;
        for number in 0..200 {
            let now = Instant::from_millis(100 * number);
            if number == 40 {
                let forged = steady(kind, 2, &mut dice).next(&mut dice);
                let line = sent(&mut Compressor::new(SETTINGS), now, &forged);
                assert_eq!(told(&line), Some(forged), "{kind:?}");
            }
            let packet = flow.next(&mut dice);
            let right = told(&sent(&mut compressor, now, &packet)) == Some(packet);
            if number >= 40 && right {
                healed_at = healed_at.or(Some(now));
            }
            assert_eq!(
                right,
                number < 40 || healed_at.is_some(),
                "{kind:?} {number}"
            );
        }
        let healed_at = healed_at.unwrap_or(Instant::NEVER);
        assert!(
            healed_at <= Instant::from_secs(4) + AFTER,
            "{kind:?}: {healed_at:?}"
        );
    }
}

#[test]
fn without_a_way_back_feedback_is_forged_and_not_heard() {
    let packet = Flow::new(Kind::Voice6, 1, &mut Dice(7)).next(&mut Dice(7));
    let mut line = Vec::new();
    let settings = Settings::new(Cids::Small(15));
    for (feedback, whole) in [(true, false), (false, true)] {
        let mut own = Peer::new(Settings {
            feedback,
            ..settings
        });
        let mut other = Peer::new(settings);
        line.clear();
        assert_eq!(own.compress(0, &packet, &mut line), Profile::Rtp);
        assert_eq!(
            other.decompress(&line, &mut Vec::new()),
            Ok(Received::Packet)
        );
        let mut answer = Vec::new();
        assert!(other.put_feedback(&mut answer));
        let heard = own.decompress(&answer, &mut Vec::new());
        assert_eq!(heard, Ok(Received::Nothing));
        line.clear();
        own.compress(0, &packet, &mut line);
        assert_eq!(is_whole(&line), whole);
    }
}
