//! What the endpoints of ns-3 3.37 do differently, each beside what the standard or a kernel does.

use strait_core::time::Duration;

use super::clocks::{Duo, fires, sent, view};
use super::pipe::content;
use super::profile::{AckPolicy, Reduction};
use super::*;

const SEGMENT: usize = 536;

fn opened(change: impl Fn(&mut Profile)) -> Duo {
    let mut profile = Profile::ns3_337();
    change(&mut profile);
    Duo::opened(&profile, |_| {})
}

/// Carries a packet of `a` to `b` at once, and what that has to say back. What `a` then sends.
fn answered(duo: &mut Duo, packet: &[u8]) -> Vec<Vec<u8>> {
    duo.now += Duration::from_millis(1);
    duo.b.handle_packet(duo.now, packet);
    let back = sent(&mut duo.b, duo.now);
    back.iter()
        .for_each(|packet| duo.a.handle_packet(duo.now, packet));
    sent(&mut duo.a, duo.now)
}

/// Two segments, whose acknowledgement tells of the whole window, and what then goes of `more`.
fn told_of_window(duo: &mut Duo, more: usize) -> Vec<Vec<u8>> {
    duo.a.send(&content((2 + more) * SEGMENT));
    let mut packets = sent(&mut duo.a, duo.now);
    for packet in packets.drain(..2).collect::<Vec<_>>() {
        let next = answered(duo, &packet);
        packets.extend(next);
    }
    packets
}

#[test]
fn duplicates_of_a_needless_repetition_begin_a_recovery_unless_careful() {
    for (careful, repetitions) in [(true, 1), (false, 2)] {
        let mut duo = opened(|profile| profile.duplicates.careful = careful);
        duo.a.send(&content(2 * SEGMENT));
        let late = sent(&mut duo.a, duo.now);
        let (after, needless) = fires(&mut duo.a, duo.now);
        duo.now += after;
        for packet in &late {
            answered(&mut duo, packet);
        }
        duo.a.send(&content(6 * SEGMENT));
        let lost = sent(&mut duo.a, duo.now);
        assert!(!lost.is_empty());
        for _ in 0..3 {
            answered(&mut duo, &needless[0]);
        }
        assert_eq!(duo.a.counters().retransmissions, repetitions, "{careful}");
    }
}

#[test]
fn a_segment_counted_as_arrived_goes_again_where_counts_are_kept() {
    for (keeps_duplicates, repetitions) in [(false, 0), (true, 1)] {
        let mut duo = opened(|profile| profile.duplicates.keeps = keeps_duplicates);
        duo.a.send(&content(6 * SEGMENT));
        let packets = sent(&mut duo.a, duo.now);
        assert_eq!(packets.len(), 6);
        // Two are acknowledged, then two duplicates come, fewer than show a loss, and two more
        // are acknowledged: the fifth is where the count ends.
        for index in [0, 1, 0, 0, 2, 3] {
            answered(&mut duo, &packets[index]);
        }
        assert_eq!(duo.a.counters().retransmissions, repetitions);
        for index in [4, 5] {
            answered(&mut duo, &packets[index]);
        }
        assert_eq!(duo.read(), 6 * SEGMENT);
    }
}

#[test]
fn what_ends_a_timeouts_recovery_widens_the_window_by_what_is_beyond() {
    for (growth_beyond_loss, segments) in [(false, 2), (true, 1)] {
        let mut duo = opened(|profile| profile.growth_beyond_loss = growth_beyond_loss);
        duo.a.send(&content(SEGMENT));
        assert_eq!(sent(&mut duo.a, duo.now).len(), 1);
        let (after, again) = fires(&mut duo.a, duo.now);
        duo.now += after;
        duo.a.send(&content(5 * SEGMENT));
        assert!(sent(&mut duo.a, duo.now).is_empty(), "a window of one");
        duo.b.handle_packet(duo.now, &again[0]);
        let (after, acks) = fires(&mut duo.b, duo.now);
        duo.now += after;
        duo.a.handle_packet(duo.now, &acks[0]);
        assert_eq!(sent(&mut duo.a, duo.now).len(), segments);
    }
}

#[test]
fn duplicates_let_half_go_or_all_until_something_new_is_acknowledged() {
    for (reduction, deliver, segments) in [
        (Reduction::Segments, true, 3),
        (Reduction::Octets, false, 7),
    ] {
        let mut duo = opened(|profile| {
            profile.duplicates.deliver = deliver;
            profile.reduction = reduction;
        });
        let packets = told_of_window(&mut duo, 40);
        assert_eq!(packets.len(), 11);
        let lost = view(&packets[0]).seq;
        for packet in &packets[1..3] {
            assert_eq!(answered(&mut duo, packet).len(), 1, "limited transmit");
        }
        let third = answered(&mut duo, &packets[3]);
        assert_eq!((third.len(), view(&third[0]).seq), (1, lost));
        let new = packets[4..].iter().map(|packet| answered(&mut duo, packet));
        assert_eq!(new.map(|sent| sent.len()).sum::<usize>(), segments);
    }
}

#[test]
fn a_timeout_in_a_recovery_lowers_a_threshold_taken_from_flight_again() {
    let mut rounds = [false, true].map(|threshold_from_flight| {
        let mut duo = opened(|profile| {
            profile.threshold_from_flight = threshold_from_flight;
            profile.rto.each_lowers = false;
        });
        let mut flying = told_of_window(&mut duo, 60);
        let lost = view(&flying[0]).seq;
        // Everything but the first arrives, so that nothing is in flight when the timeout comes.
        while !flying.is_empty() {
            let packet = flying.remove(0);
            if view(&packet).seq != lost {
                flying.extend(answered(&mut duo, &packet));
            }
        }
        let (after, again) = fires(&mut duo.a, duo.now);
        duo.now += after;
        duo.read();
        duo.a.send(&content(60 * SEGMENT));
        let next = answered(&mut duo, &again[0]);
        next.iter()
            .for_each(|packet| duo.b.handle_packet(duo.now, packet));
        (0..8).map(|_| duo.turn().0).sum::<usize>()
    });
    rounds.reverse();
    assert!(rounds[0] < rounds[1], "{rounds:?}");
}

#[test]
fn an_echo_measures_the_round_trip_of_a_repeated_handshake() {
    let mut duo = Duo::new(&Profile::ns3_337(), |_| {});
    duo.a.connect(duo.now).unwrap();
    duo.b.accept(duo.now).unwrap();
    let syn = sent(&mut duo.a, duo.now);
    duo.b.handle_packet(duo.now, &syn[0]);
    assert_eq!(sent(&mut duo.b, duo.now).len(), 1, "the answer is lost");
    let (after, _) = fires(&mut duo.a, duo.now);
    assert_eq!(after, Duration::from_secs(3));
    let (_, answer) = fires(&mut duo.b, duo.now);
    duo.now += after;
    duo.a.handle_packet(duo.now, &answer[0]);
    sent(&mut duo.a, duo.now);
    duo.a.send(b"x");
    sent(&mut duo.a, duo.now);
    // RFC 6298: three times the first measurement.
    assert_eq!(fires(&mut duo.a, duo.now).0, Duration::from_secs(9));
}

#[test]
fn the_first_duplicate_counts_though_it_tells_of_the_whole_window() {
    for (distinct, repetitions) in [(true, 0), (false, 1)] {
        let mut duo = opened(|profile| profile.duplicates.distinct = distinct);
        duo.a.send(&content(4 * SEGMENT));
        let packets = sent(&mut duo.a, duo.now);
        for packet in &packets[1..] {
            answered(&mut duo, packet);
        }
        assert_eq!(duo.a.counters().retransmissions, repetitions, "{distinct}");
    }
}

#[test]
fn three_duplicates_repeat_what_went_again_for_its_counts_sake() {
    let mut duo = opened(|_| {});
    duo.a.send(&content(40 * SEGMENT));
    let packets = sent(&mut duo.a, duo.now);
    // Two duplicates count the second and third as arrived. The first comes late and alone: the
    // second goes again for its count's sake, and is lost again.
    let mut flying: Vec<Vec<u8>> = packets[5..8].to_vec();
    for index in [3, 4, 0] {
        flying.extend(answered(&mut duo, &packets[index]));
    }
    let second = view(&packets[1]).seq;
    let again = |packets: &[Vec<u8>]| packets.iter().filter(|it| view(it).seq == second).count();
    assert_eq!(again(&flying), 1);
    flying.retain(|packet| view(packet).seq != second);
    let next: Vec<Vec<u8>> = flying[..3]
        .iter()
        .flat_map(|packet| answered(&mut duo, packet))
        .collect();
    assert_eq!(again(&next), 1);
}

#[test]
fn a_segment_that_comes_when_an_acknowledgement_is_due_comes_after_it() {
    for (first, acknowledged) in [(false, [2, 0]), (true, [1, 2])] {
        let mut duo = opened(|profile| {
            profile.ack = AckPolicy::Every {
                segments: 2,
                delay: strait_core::units::Time(Duration::from_millis(200)),
                due_first: first,
            };
        });
        duo.a.send(&content(2 * SEGMENT));
        let packets = sent(&mut duo.a, duo.now);
        let start = view(&packets[0]).seq;
        let covers = |acks: &[Vec<u8>]| acks.iter().map(|ack| (view(ack).ack - start) / 536).sum();
        duo.b.handle_packet(duo.now, &packets[0]);
        assert!(sent(&mut duo.b, duo.now).is_empty());
        let due = duo.b.wake().unwrap();
        duo.b.handle_packet(due, &packets[1]);
        let now: u32 = covers(&sent(&mut duo.b, due));
        let later = due + Duration::from_millis(200);
        assert_eq!([now, covers(&sent(&mut duo.b, later))], acknowledged);
    }
}

#[test]
fn a_second_timeout_in_a_row_lowers_the_threshold_to_its_least() {
    let rounds = [false, true].map(|each_lowers| {
        let mut duo = opened(|profile| profile.rto.each_lowers = each_lowers);
        duo.a.send(&content(60 * SEGMENT));
        sent(&mut duo.a, duo.now);
        for _ in 0..2 {
            let (after, again) = fires(&mut duo.a, duo.now);
            duo.now += after;
            duo.b.handle_packet(duo.now, &again[0]);
        }
        let back = sent(&mut duo.b, duo.now);
        back.iter().for_each(|it| duo.a.handle_packet(duo.now, it));
        (0..8).map(|_| duo.turn().0).sum::<usize>()
    });
    assert!(rounds[1] < rounds[0], "{rounds:?}");
}

#[test]
fn what_a_timeout_met_has_no_part_in_what_may_be_measured() {
    let mut duo = opened(|_| {});
    duo.a.send(&content(SEGMENT));
    let first = sent(&mut duo.a, duo.now);
    let (after, again) = fires(&mut duo.a, duo.now);
    duo.now += after;
    assert_eq!((first.len(), again.len()), (1, 1));
    duo.b.handle_packet(duo.now, &again[0]);
    let (after, acks) = fires(&mut duo.b, duo.now);
    duo.now += after;
    duo.a.handle_packet(duo.now, &acks[0]);
    // Not measured, so that the timeout is what it was without its doubling.
    duo.a.send(&content(SEGMENT));
    assert_eq!(sent(&mut duo.a, duo.now).len(), 1);
    assert_eq!(fires(&mut duo.a, duo.now).0, Duration::from_millis(300));
}

#[test]
fn selections_do_not_put_the_timeout_off_where_echoes_measure() {
    let rounds = [false, true].map(|measures_echoes| {
        let mut profile = Profile::ns3_337_sack();
        profile.rto.measures_echoes = measures_echoes;
        let mut duo = Duo::opened(&profile, |_| {});
        duo.a.send(&content(12_000));
        let packets = sent(&mut duo.a, duo.now);
        let mut due = Vec::new();
        for packet in &packets[1..] {
            due.push(duo.a.wake().unwrap());
            duo.now += Duration::from_millis(30);
            duo.b.handle_packet(duo.now, packet);
            let back = sent(&mut duo.b, duo.now);
            back.iter().for_each(|it| duo.a.handle_packet(duo.now, it));
            sent(&mut duo.a, duo.now);
        }
        due.dedup();
        due.len()
    });
    assert!(rounds[1] == 1 && rounds[0] > 1, "{rounds:?}");
}
