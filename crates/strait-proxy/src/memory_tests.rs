//! What all streams together may have waiting.

use super::*;
use crate::table::LEAST_OUT_OCTETS;

#[test]
fn who_has_much_to_send_is_stopped_first_and_nobody_starves() {
    let mut pair = Pair::new(1, [0; 3]);
    pair.sides[0].set(Settings {
        octets_max: 60_000,
        ..SETTINGS
    });
    let keys: Vec<Key> = (0..12)
        .map(|port| pair.sides[0].open(pair.now, open(port)).unwrap())
        .collect();
    let mut wrote = [0; 12];
    let mut fill = |pair: &mut Pair, at: usize| {
        let room = pair.sides[0].room(keys[at]);
        wrote[at] += room;
        pair.sides[0].write(pair.now, keys[at], &text(room as usize, 0));
        pair.sides[0].check();
        (room, wrote.iter().sum::<u64>())
    };
    // One alone may have half of it, the next half of what is left.
    assert_eq!(fill(&mut pair, 0), (30_000, 30_000));
    assert_eq!(fill(&mut pair, 0).0, 0);
    assert_eq!(fill(&mut pair, 1).0, 15_000);
    for at in 2..12 {
        assert!(fill(&mut pair, at).0 >= LEAST_OUT_OCTETS);
    }
    let (_, sum) = fill(&mut pair, 0);
    assert!(sum <= 60_000 + 12 * LEAST_OUT_OCTETS, "{sum}");
    assert_eq!(pair.sides[0].stats().starved, 2);
    // Who has too much takes no more until others have, too.
    let far = |n| Key { ours: false, n };
    let mut came = 0;
    pair.until("all", |it| {
        (0..12).for_each(|n| it.sides[1].accept(far(n)));
        came += (0..12)
            .map(|n| it.sides[1].read(far(n), 5000).len() as u64)
            .sum::<u64>();
        came == sum
    });
    pair.run(100);
    assert_eq!(pair.sides[0].room(keys[0]), 30_000);
}

#[test]
fn who_may_send_much_leaves_something_for_others() {
    let mut table = Table::default();
    let limits: Vec<u64> = (0..8)
        .map(|n| {
            let stream = Stream::new(Instant::ZERO, open(1), FIRST_CREDIT);
            table.add(Key { ours: true, n }, stream);
            table.extend(Key { ours: true, n }, 1 << 20, 1 << 20);
            table.all[&Key { ours: true, n }].inbound.limit
        })
        .collect();
    assert_eq!(limits[0], 1 << 17);
    assert!(limits.is_sorted_by(|a, b| a > b) && limits[7] > 3 * FIRST_CREDIT);
    table.check();
}

#[test]
fn ten_thousand_streams_wait_in_bounded_memory() {
    const STREAMS: usize = 10_000;
    const OCTETS: usize = 1500;
    const OCTETS_MAX: u64 = 1 << 20;
    const STAY: u32 = 100;
    let mut pair = Pair::new(1, [0; 3]);
    for side in &mut pair.sides {
        side.set(Settings {
            streams_max: STREAMS,
            octets_max: OCTETS_MAX,
            ..SETTINGS
        });
    }
    // As many openings as one side may leave unanswered.
    pair.datagram = 4000;
    let mut sent = vec![0; STREAMS];
    let fill = |pair: &mut Pair, sent: &mut [usize], n: usize| {
        let key = Key {
            ours: true,
            n: n as u32,
        };
        let more = pair.sides[0].room(key).min((OCTETS - sent[n]) as u64) as usize;
        let octets = &text(OCTETS, n)[sent[n]..sent[n] + more];
        pair.sides[0].write(pair.now, key, octets);
        sent[n] += more;
    };
    for n in 0..STREAMS {
        pair.sides[0].open(pair.now, open(n as u16)).unwrap();
        fill(&mut pair, &mut sent, n);
    }
    let most = OCTETS_MAX + STREAMS as u64 * LEAST_OUT_OCTETS;
    let held = pair.sides[0].stats().streams.held();
    assert!((most / 2..=most).contains(&held), "{held}");
    assert_eq!(pair.sides[0].open(pair.now, open(1)), Err(Fault::Full));
    let mut opened = 0;
    pair.until("all opened", |it| {
        for event in core::mem::take(&mut it.events[1]) {
            if let Event::Opened(key, _) = event {
                it.sides[1].accept(key);
                opened += 1;
            }
        }
        opened == STREAMS
    });
    (STAY..STREAMS as u32).for_each(|n| pair.sides[0].reset(Key { ours: true, n }, 104));
    let mut read = vec![0; STAY as usize];
    pair.until("the others are whole", |it| {
        for n in 0..STAY {
            fill(it, &mut sent, n as usize);
            let octets = it.sides[1].read(Key { ours: false, n }, OCTETS);
            let from = read[n as usize];
            assert_eq!(
                octets,
                text(OCTETS, n as usize)[from..from + octets.len()],
                "stream {n}"
            );
            read[n as usize] += octets.len();
        }
        assert!(it.sides[1].stats().streams.held() <= OCTETS_MAX);
        read.iter().all(|it| *it == OCTETS)
    });
    pair.until("the rest is forgotten", |it| {
        it.sides
            .iter()
            .all(|side| side.streams.len() == STAY as usize)
    });
}

#[test]
fn ten_thousand_busy_streams_take_turns() {
    const STREAMS: u32 = 10_000;
    let mut session = Session::new(1, SETTINGS);
    session.set(Settings {
        streams_max: STREAMS as usize,
        octets_max: 1 << 30,
        ..SETTINGS
    });
    let mut hello = Vec::new();
    let (to, from, first) = (1, 2, 0);
    write_head(Head::Hello { to, from, first }, &mut hello);
    session.hear(Instant::ZERO, 0, &hello).unwrap();
    let mut now = Instant::ZERO;
    for n in 0..STREAMS {
        let key = session.open(now, open(n as u16)).unwrap();
        session.write(now, key, &[0; 2000]);
    }
    // All that was sent has arrived now and then; everybody has one turn before anybody has two.
    let mut said = 0;
    for n in 0..13_000_u64 {
        now += Duration::from_millis(1);
        assert!(session.wants(now).contains(&10));
        said += session.poll(now, 10, 1400).unwrap().len();
        if n % 100 == 99 {
            let (to, number) = (both(1, 2), None);
            let mut arrived = Vec::new();
            write_head(Head::Items { to, number }, &mut arrived);
            write_item(&Item::Ack(vec![(0, n)]), &mut arrived);
            session.hear(now, 0, &arrived).unwrap();
        }
    }
    assert!(said > 17_000_000, "{said}");
    let least = session.streams.all.values().map(|it| it.attained).min();
    assert!(least.unwrap() >= 1000, "{least:?}");
    session.check();
}
