//! How long packets are wanted.

use super::*;

/// Sends a packet that is wanted for 20 ms, and one behind it.
fn send(pair: &mut Pair) {
    let now = ms(pair.now_ms);
    let end = &mut pair.ends[0];
    let mut short = packet(now, 7);
    short.expires = now + 20 * MS;
    let seq = end.hop.begin(short, Manner::default());
    let mut out = Vec::new();
    end.hop
        .transmit(now, now, seq, usize::MAX, &mut out)
        .unwrap();
    end.hop.left(now);
    // That frame is lost, and more behind it tell so.
    end.queue(8..12, None);
}

/// Loses the frames with a packet of [`send`] so many times more.
fn losing_again(times: usize) -> impl FnMut(usize, u64, &[u8]) -> Fate {
    losing(&[7; 9][..times])
}

#[test]
fn a_repetition_takes_nothing_of_an_age_that_is_shorter() {
    for lost in 0..2 {
        let mut pair = Pair::known();
        send(&mut pair);
        pair.run(3000, losing_again(lost));
        assert_eq!(pair.ends[0].done[&7], Outcome::Acknowledged, "{lost}");
        assert!(pair.ends[1].came.contains(&7));
    }
    // Who needs more has his age.
    let mut pair = Pair::known();
    send(&mut pair);
    pair.run(3000, losing_again(2));
    assert_eq!(pair.ends[0].done[&7], Outcome::Aged);
}

#[test]
fn a_neighbour_that_is_away_makes_nobody_older_than_a_repetition_takes() {
    let mut pair = Pair::known();
    send(&mut pair);
    let longest = pair.ends[0].hop.trip.overdue(350 * MS);
    // Two repetitions, and the wait for the third, which grows by a half each time.
    let away = 5 * longest.as_millis() as u64 + 20;
    pair.run(
        away,
        |from, _, _| {
            if from == 0 { Fate::new() } else { vec![0] }
        },
    );
    assert_eq!(pair.ends[0].done[&7], Outcome::Aged);
}

#[test]
fn what_is_sent_is_wanted_again_when_its_sender_says_so() {
    let mut pair = Pair::known();
    let now = ms(pair.now_ms);
    let end = &mut pair.ends[0];
    for number in [7, 8] {
        let mut old = packet(now, number);
        old.expires = now + 400 * MS;
        let seq = end.hop.begin(old, Manner::default());
        let mut out = Vec::new();
        end.hop
            .transmit(now, now, seq, usize::MAX, &mut out)
            .unwrap();
        end.hop.left(now);
    }
    let is_first = |packet: &Packet| number(packet.bytes()) == 7;
    end.hop.renew(now + 10_000 * MS, is_first);
    end.hop.renew(now, is_first);
    let away = |from: usize, _: u64, _: &[u8]| if from == 0 { Fate::new() } else { vec![0] };
    pair.run(8000, away);
    assert_eq!(pair.ends[0].done.get(&7), None);
    assert_eq!(pair.ends[0].done[&8], Outcome::Aged);
    pair.run(5000, |_, _, _| vec![0]);
    assert_eq!(pair.ends[0].done[&7], Outcome::Acknowledged);
}
