//! What stations hear of each other, to the nanosecond.

use alloc::vec;
use alloc::vec::Vec;

use strait_core::node::Turn;
use strait_core::time::{Duration, Instant};
use strait_core::units::{Share, Time};
use strait_core::waveform::Mode;

use super::*;
use crate::config::{Direction, Outage};

const fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// 9600 bit/s in blocks of 480 ms and 576 octets; turnaround 200 ms, preamble 240 ms.
fn link() -> LinkConfig {
    LinkConfig::hf(9600).with(|it| it.delay = Some(Time(Duration::from_millis(5))))
}

fn keyed_by_data() -> LinkConfig {
    let hf = HfConfig {
        keyed_by: KeyedBy::Data,
        ..HfConfig::default()
    };
    link().with(|it| it.kind = LinkKind::Hf(hf.into()))
}

/// Stations in a row or a ring: each pair named is joined by a path.
fn air(config: &LinkConfig, stations: usize, pairs: &[(usize, usize)]) -> Air {
    let mut air = Air::default();
    for number in 0..stations {
        let name = alloc::format!("s{number}");
        air.add_station(config, Side::A, &name, 1).unwrap();
    }
    for (a, b) in pairs {
        let name = alloc::format!("{a}-{b}");
        air.add_path([StationId(*a), StationId(*b)], config, &name, 1)
            .unwrap();
    }
    air
}

fn pair(config: &LinkConfig) -> Air {
    air(config, 2, &[(0, 1)])
}

const fn turn(key_up: bool, blocks: u32, last: bool) -> Option<Turn> {
    Some(Turn {
        key_up,
        blocks,
        last,
        mode: None,
    })
}

/// What a receiver knows of octets beside their noise.
fn by(bit_s: u32) -> FrameMeta {
    FrameMeta {
        rate_bit_s: Some(bit_s),
        ..FrameMeta::default()
    }
}

fn send(air: &mut Air, at: Instant, station: usize, blocks: u32, octets: &[u8]) {
    air.transmit(at, StationId(station), turn(true, blocks, true), octets);
}

/// Everything that stations are told by `until`: when, who, and how many octets or what.
fn told(air: &mut Air, until: Instant) -> Vec<(Instant, usize, Heard)> {
    core::iter::from_fn(|| air.poll(until))
        .map(|event| (event.at, event.station.0, event.what))
        .collect()
}

#[test]
fn a_turn_takes_its_times_and_whole_blocks() {
    let mut air = pair(&link());
    let room = air.room(ms(0), StationId(0)).unwrap();
    assert_eq!((room.starts, room.until), (ms(440), None));
    // 127.5 s have 265 blocks.
    assert_eq!(room.octets, 265 * 576);
    send(&mut air, ms(0), 0, 2, &[7; 600]);
    assert_eq!(air.room(ms(0), StationId(0)), Err(None), "it was the last");
    let events = told(&mut air, ms(10_000));
    let mut second = vec![0; 576];
    second[..24].fill(7);
    assert_eq!(
        events,
        [
            // Power at 200 + 5 ms, noticed 300 ms later.
            (ms(505), 1, Heard::Carrier(true)),
            // Blocks end at 920 and 1400 ms; propagation, and a block's time to decode.
            (ms(1400), 0, Heard::Drained),
            (ms(1405), 1, Heard::Octets(vec![7; 576], by(9600))),
            (ms(1885), 1, Heard::Octets(second, by(9600))),
            // The modem knows of the end when the last octets are out.
            (ms(1885), 1, Heard::Carrier(false)),
        ]
    );
    assert_eq!(air.next_event(), None);
    let stats = air.stats(PathId(0), Side::A);
    assert_eq!(
        (stats.frames, stats.octets, stats.lost_frames()),
        (2, 1152, 0)
    );
    // 240 ms of preamble and two blocks.
    assert_eq!(stats.busy_ns, 1_200_000_000);
    let station = air.station_stats(StationId(0));
    assert_eq!(
        (station.turns, station.blocks, station.filled_octets),
        (1, 2, 552)
    );
}

fn starts_with(blocks: u32) -> LinkConfig {
    let hf = HfConfig {
        start_blocks: Some(blocks),
        ..HfConfig::default()
    };
    link().with(|it| it.kind = LinkKind::Hf(hf.into()))
}

#[test]
fn octets_are_taken_block_by_block_a_lead_before_each() {
    let mut air = pair(&starts_with(1));
    let first = turn(true, 3, false);
    air.transmit(ms(0), StationId(0), first, &[]);
    let room = air.room(ms(0), StationId(0)).unwrap();
    let until = Some(ms(440 + 3 * 480));
    assert_eq!(
        (room.octets, room.starts, room.until),
        (3 * 576, ms(440), until)
    );
    // A piece that reaches into the second block: the next is taken when that begins.
    air.transmit(ms(0), StationId(0), turn(false, 3, false), &[1; 600]);
    assert_eq!(air.room(ms(0), StationId(0)), Err(Some(ms(900))));
    assert_eq!(air.room(ms(899), StationId(0)), Err(Some(ms(900))));
    let room = air.room(ms(900), StationId(0)).unwrap();
    assert_eq!((room.octets, room.starts), (3 * 576 - 600, ms(440 + 500)));
    told(&mut air, ms(900));
    // Nothing comes for the third block in time: it is sent, as zeros.
    air.transmit(ms(900), StationId(0), turn(false, 3, false), &[2; 552]);
    assert_eq!(air.room(ms(1379), StationId(0)), Err(Some(ms(1380))));
    let rest = told(&mut air, ms(9000));
    let blocks = rest.iter().filter_map(|(at, _, what)| match what {
        Heard::Octets(octets, _) => Some((*at, octets[23], octets[24])),
        _ => None,
    });
    assert_eq!(
        blocks.collect::<Vec<_>>(),
        [(ms(1405), 1, 1), (ms(1885), 1, 2), (ms(2365), 0, 0)]
    );
    assert_eq!(air.room(ms(9000), StationId(0)).unwrap().until, None);
}

/// MIL-STD-188-110D A.5.1.2.5, step 4: three blocks are there before the start. What isn't written
/// of them within 10 ms goes as zeros.
#[test]
fn the_blocks_before_the_start_are_taken_at_key_up() {
    let mut air = pair(&link());
    let station = StationId(0);
    air.transmit(ms(0), station, turn(true, 5, false), &[1; 600]);
    let room = air.room(ms(0), station).unwrap();
    assert_eq!((room.octets, room.starts), (5 * 576 - 600, ms(440 + 500)));
    air.transmit(ms(0), station, turn(false, 5, false), &[2; 1000]);
    let late = Instant::from_nanos(ms(10).as_nanos() - 1);
    assert!(air.room(late, station).is_ok());
    assert_eq!(air.room(ms(10), station), Err(Some(ms(1860))));
    let room = air.room(ms(1860), station).unwrap();
    assert_eq!((room.octets, room.starts), (2 * 576, ms(440 + 3 * 480)));
    air.transmit(ms(1860), station, turn(false, 5, false), &[3; 576]);
    let blocks = told(&mut air, ms(9000)).into_iter();
    let blocks = blocks.filter_map(|(_, _, what)| match what {
        Heard::Octets(octets, _) => Some(octets),
        _ => None,
    });
    let written = [&[1; 600][..], &[2; 1000], &[0; 128], &[3; 576], &[0; 576]];
    assert_eq!(blocks.collect::<Vec<_>>().concat(), written.concat());
    assert_eq!(air.station_stats(station).filled_octets, 128 + 576);
    // A turn of no more has room for nothing else then.
    air.transmit(ms(9000), station, turn(true, 3, false), &[1; 600]);
    assert_eq!(air.room(ms(9010), station), Err(None));
    for (blocks, possible) in [(0, false), (1, true), (16, true), (17, false)] {
        assert_eq!(starts_with(blocks).validate().is_ok(), possible);
    }
}

#[test]
fn a_turn_keeps_its_length_and_takes_no_more_than_fits() {
    let mut air = pair(&link());
    air.transmit(ms(0), StationId(0), turn(true, 1, false), &[1; 600]);
    assert_eq!(air.room(ms(500), StationId(0)), Err(None));
    // A second key-up in a turn is the node's mistake, and so are octets after the last.
    air.transmit(ms(10), StationId(0), turn(true, 5, true), &[2; 10]);
    air.transmit(ms(20), StationId(0), turn(false, 1, true), &[3; 5]);
    assert_eq!(air.station_stats(StationId(0)).refused_octets, 24 + 10 + 5);
    let blocks = told(&mut air, ms(9000));
    let octets = blocks
        .iter()
        .filter(|(.., what)| matches!(what, Heard::Octets(..)));
    assert_eq!(octets.count(), 1);
    // Without a turn, octets are one; and no turn is longer than the longest.
    air.transmit(ms(9000), StationId(0), None, &[1; 577]);
    told(&mut air, ms(20_000));
    send(&mut air, ms(20_000), 0, u32::MAX, &[1]);
    told(&mut air, ms(200_000));
    assert_eq!(air.station_stats(StationId(0)).blocks, 1 + 2 + 265);
}

#[test]
fn who_talks_over_another_is_not_heard_and_does_not_hear() {
    let octets = |events: &[(Instant, usize, Heard)]| {
        let heard = events
            .iter()
            .filter(|(.., what)| matches!(what, Heard::Octets(..)));
        heard.map(|(_, station, _)| *station).collect::<Vec<_>>()
    };
    // The second station keys before and after the first block is over at it, at 925 ms.
    for (at, heard) in [(100, 0), (924, 0), (925, 1), (1404, 1), (1405, 2)] {
        let mut air = pair(&link());
        send(&mut air, ms(0), 0, 2, &[1; 1152]);
        let mut events = told(&mut air, ms(at));
        send(&mut air, ms(at), 1, 1, &[2; 576]);
        events.extend(told(&mut air, ms(9000)));
        let to_second = octets(&events)
            .iter()
            .filter(|station| **station == 1)
            .count();
        assert_eq!(to_second, heard, "keyed at {at}");
        let lost = air.stats(PathId(0), Side::A).lost(LossCause::Collision);
        assert_eq!(lost, 2 - heard as u64, "keyed at {at}");
        // The first one's own power is on until 1400 ms; the other's comes 205 ms after its key-up.
        let clear = at + 205 >= 1400;
        assert_eq!(octets(&events).contains(&0), clear, "keyed at {at}");
    }
}

#[test]
fn stations_that_don_t_hear_each_other_meet_at_the_one_between() {
    let mut air = air(&link(), 3, &[(0, 1), (1, 2)]);
    send(&mut air, ms(0), 0, 2, &[1; 1152]);
    let early = told(&mut air, ms(1000));
    assert!(early.iter().all(|(_, station, _)| *station == 1));
    assert!(!air.carrier(StationId(2)));
    send(&mut air, ms(1000), 2, 1, &[2; 576]);
    let late = told(&mut air, ms(9000));
    // The first block was over at 925 ms; the second, and all of the other's, are lost.
    let heard = late
        .iter()
        .filter(|(.., what)| matches!(what, Heard::Octets(..)));
    assert_eq!(heard.count(), 1);
    assert_eq!(air.station_stats(StationId(1)).collisions, 2);
    // Power is there from the first one's to the second one's end, without a gap to notice.
    let carrier = early
        .iter()
        .chain(&late)
        .filter_map(|(at, station, what)| match what {
            Heard::Carrier(on) => Some((*at, *station, *on)),
            _ => None,
        });
    let end = 1000 + 440 + 480 + 5 + 480;
    assert_eq!(
        carrier.collect::<Vec<_>>(),
        [(ms(505), 1, true), (ms(end), 1, false)]
    );
}

#[test]
fn in_a_ring_everybody_hears_everybody() {
    let mut air = air(&link(), 3, &[(0, 1), (1, 2), (0, 2)]);
    send(&mut air, ms(0), 1, 1, &[9; 3]);
    let events = told(&mut air, ms(9000));
    let mut heard: Vec<usize> = events
        .iter()
        .filter(|(.., what)| matches!(what, Heard::Octets(..)))
        .map(|it| it.1)
        .collect();
    heard.sort_unstable();
    assert_eq!(heard, [0, 2]);
}

#[test]
fn another_mode_has_its_own_blocks_and_needs_its_own_time() {
    let mut air = pair(&link());
    let mode = Mode {
        rate_bit_s: 300,
        block_bits: 192,
    };
    let slow = Turn {
        key_up: true,
        blocks: 2,
        last: true,
        mode: Some(mode),
    };
    air.transmit(ms(0), StationId(0), Some(slow), &[5; 48]);
    let events = told(&mut air, ms(9000));
    let octets: Vec<_> = events
        .iter()
        .filter(|(.., what)| matches!(what, Heard::Octets(..)))
        .collect();
    // Blocks of 24 octets and 640 ms.
    assert_eq!(
        octets[0],
        &(
            ms(440 + 640 + 5 + 640),
            1,
            Heard::Octets(vec![5; 24], by(300))
        )
    );
    assert_eq!(octets[1].0, ms(440 + 1280 + 5 + 640));
    // A mode that can't be is as good as none.
    let none = Mode {
        rate_bit_s: 0,
        block_bits: 0,
    };
    let wrong = Turn {
        mode: Some(none),
        ..slow
    };
    air.transmit(ms(9000), StationId(0), Some(wrong), &[5; 48]);
    assert!(air.room(ms(9500), StationId(0)).is_err());
    assert_eq!(told(&mut air, ms(20_000)).len(), 5);
}

#[test]
fn the_mark_of_the_end_takes_a_block_where_it_has_no_place() {
    let mut config = link();
    config.hf_config_mut().unwrap().end_of_message = true;
    for (octets, off) in [(572, 920), (573, 1400), (576, 1400)] {
        let mut air = pair(&config);
        send(&mut air, ms(0), 0, 1, &vec![1; octets]);
        let events = told(&mut air, ms(9000));
        // What follows the mark isn't handed over.
        let heard = events.iter().find_map(|(.., what)| match what {
            Heard::Octets(octets, _) => Some(octets.len()),
            _ => None,
        });
        assert_eq!(heard, Some(octets));
        let drained = events.iter().find(|(.., what)| *what == Heard::Drained);
        assert_eq!(drained.map(|it| it.0), Some(ms(off)), "{octets}");
    }
}

#[test]
fn bits_are_wrong_by_their_place_in_time_whatever_was_sent_before() {
    let config = link().with(|it| it.bit_errors = Some(Share(1e-3)));
    let octets_at = |air: &mut Air, at: Instant| {
        send(air, at, 0, 4, &[0; 4 * 576]);
        let events = told(air, at + Duration::from_secs(8));
        events
            .into_iter()
            .filter_map(|(.., what)| match what {
                Heard::Octets(octets, _) => Some(octets),
                _ => None,
            })
            .collect::<Vec<_>>()
            .concat()
    };
    let mut quiet = pair(&config);
    let alone = octets_at(&mut quiet, ms(60_000));
    let mut busy = pair(&config);
    let before = octets_at(&mut busy, ms(0));
    assert_ne!(before, alone);
    assert_eq!(octets_at(&mut busy, ms(60_000)), alone);
    let wrong: u32 = alone.iter().map(|octet| octet.count_ones()).sum();
    // 18,432 bits: 18 errors expected, a deviation of 4.3.
    assert!((6..32).contains(&wrong), "{wrong}");
    assert_eq!(
        quiet.stats(PathId(0), Side::A).corrupted_bits,
        u64::from(wrong)
    );
    busy.heal();
    assert!(
        octets_at(&mut busy, ms(120_000))
            .iter()
            .all(|octet| *octet == 0)
    );
}

#[test]
fn an_outage_swallows_blocks_and_a_transmission_whose_preamble_it_hits() {
    let outage = |at: u64, lasts: u64| {
        let [at, lasts] = [at, lasts].map(|ms| Time(Duration::from_millis(ms)));
        let reverse = Direction {
            outage: Some(vec![Outage { at, lasts }]),
            ..Direction::default()
        };
        let config = link().with(|it| it.reverse = Some(reverse));
        let mut air = pair(&config);
        send(&mut air, ms(0), 1, 3, &[1; 3 * 576]);
        let mut events = told(&mut air, ms(20_000));
        send(&mut air, ms(20_000), 0, 1, &[1; 576]);
        events.extend(told(&mut air, ms(30_000)));
        let heard = |station: usize| {
            let mine = events.iter().filter(|(_, at, _)| *at == station);
            mine.filter(|(.., what)| matches!(what, Heard::Octets(..)))
                .count()
        };
        (
            heard(0),
            heard(1),
            air.stats(PathId(0), Side::B).lost(LossCause::Outage),
        )
    };
    // The middle block is on the air from 920 to 1400 ms; the preamble from 200 to 440 ms.
    assert_eq!(outage(1399, 1), (2, 1, 1));
    assert_eq!(outage(1400, 1), (2, 1, 1));
    assert_eq!(outage(300, 10), (0, 1, 3));
}

#[test]
fn who_is_killed_falls_silent_at_once() {
    // Before its power is on, in the preamble, in the second block.
    for (at, octets, carriers) in [(100, 0, 0), (430, 0, 0), (1000, 1, 2)] {
        let mut air = pair(&link());
        send(&mut air, ms(0), 0, 3, &[1; 3 * 576]);
        let mut events = told(&mut air, ms(at));
        air.cut(ms(at), StationId(0));
        events.extend(told(&mut air, ms(9000)));
        let count =
            |wanted: fn(&Heard) -> bool| events.iter().filter(|(.., what)| wanted(what)).count();
        assert_eq!(
            count(|what| matches!(what, Heard::Octets(..))),
            octets,
            "killed at {at}"
        );
        assert_eq!(
            count(|what| matches!(what, Heard::Carrier(_))),
            carriers,
            "killed at {at}"
        );
        assert_eq!(count(|what| *what == Heard::Drained), 0);
        // Its next life may begin at once.
        assert!(air.room(ms(9000), StationId(0)).is_ok());
        send(&mut air, ms(9000), 0, 1, &[1; 576]);
        assert_eq!(told(&mut air, ms(20_000)).len(), 4);
    }
}

/// A modem that keys itself: its node writes what there is room for, until `octets` are gone.
fn feed(air: &mut Air, station: usize, octets: &mut usize, now: Instant) -> Option<Instant> {
    while *octets > 0 {
        match air.room(now, StationId(station)) {
            Ok(room) => {
                let piece = room.octets.min(*octets);
                air.transmit(
                    now,
                    StationId(station),
                    None,
                    &vec![station as u8 + 1; piece],
                );
                *octets -= piece;
            }
            Err(again) => return again,
        }
    }
    None
}

#[test]
fn a_modem_keyed_by_data_sends_as_long_as_octets_come() {
    let mut air = pair(&keyed_by_data());
    let mut octets = 1000;
    assert_eq!(feed(&mut air, 0, &mut octets, ms(0)), Some(ms(420)));
    assert_eq!(octets, 999, "enough to key up by");
    assert_eq!(feed(&mut air, 0, &mut octets, ms(420)), Some(ms(900)));
    told(&mut air, ms(900));
    feed(&mut air, 0, &mut octets, ms(900));
    let events = told(&mut air, ms(9000));
    let heard: Vec<_> = events
        .iter()
        .filter_map(|(at, _, what)| match what {
            Heard::Octets(octets, _) => Some((*at, octets.len())),
            _ => None,
        })
        .collect();
    // The second block isn't full, so it is the last; nobody hears what fills it.
    assert_eq!(heard, [(ms(1405), 576), (ms(1885), 424)]);
    assert_eq!(air.stats(PathId(0), Side::A).busy_ns, 1_200_000_000);
}

#[test]
fn a_turn_of_no_planned_length_ends_with_its_octets() {
    // Full blocks, one that isn't full, and octets that come too late.
    for (octets, last, off) in [
        (1152, true, 1400),
        (600, true, 1400),
        (1152, false, 1400),
        (576, true, 920),
    ] {
        let mut air = pair(&link());
        air.transmit(
            ms(0),
            StationId(0),
            turn(true, 0, false),
            &vec![1; octets - 500],
        );
        air.transmit(ms(10), StationId(0), turn(false, 0, last), &[1; 500]);
        let events = told(&mut air, ms(9000));
        let drained = events.iter().find(|(.., what)| *what == Heard::Drained);
        assert_eq!(drained.map(|it| it.0), Some(ms(off)), "{octets}");
        let heard = events.iter().map(|(.., what)| match what {
            Heard::Octets(octets, _) => octets.len(),
            _ => 0,
        });
        assert_eq!(heard.sum::<usize>(), octets);
    }
}

#[test]
fn modems_keyed_by_data_wait_for_silence_and_take_turns() {
    let mut air = pair(&keyed_by_data());
    let (mut left, mut now) = ([4000; 2], ms(0));
    // The second has something to say while the first is on the air.
    feed(&mut air, 0, &mut left[0], now);
    let mut order = Vec::new();
    let mut asked = [Some(now), Some(ms(600))];
    while now < Instant::from_secs(60) {
        for station in 0..2 {
            if asked[station].is_some_and(|at| at <= now) {
                asked[station] = feed(&mut air, station, &mut left[station], now);
            }
        }
        let next = asked
            .iter()
            .flatten()
            .copied()
            .chain(air.next_event())
            .min();
        let Some(at) = next else { break };
        now = now.max(at);
        while let Some(event) = air.poll(now) {
            if let Heard::Octets(octets, _) = event.what {
                order.push((event.station.0, octets.len()));
            }
            asked[event.station.0] = Some(now);
        }
    }
    assert_eq!(left, [0, 0]);
    let to = |station: usize| {
        order
            .iter()
            .filter(|it| it.0 == station)
            .map(|it| it.1)
            .sum::<usize>()
    };
    assert_eq!([to(0), to(1)], [4000, 4000]);
    assert_eq!(air.station_stats(StationId(0)).collisions, 0);
    assert!(
        order.is_sorted_by_key(|it| core::cmp::Reverse(it.0)),
        "one after the other: {order:?}"
    );
}

#[test]
fn hf_links_say_what_is_wrong_with_them() {
    let error = |config: LinkConfig| alloc::format!("{}", config.validate().unwrap_err());
    assert!(error(link().with(|it| it.loss = Some(Share(0.1)))).contains("`loss`"));
    assert!(error(LinkConfig::hf(9601)).contains("9600, 12000"));
    let back = Direction {
        rate: Some(strait_core::units::BitRate(77)),
        ..Direction::default()
    };
    assert!(error(link().with(|it| it.reverse = Some(back))).contains("`reverse.rate`"));
    assert!(crate::Line::new(&link(), "x", 1).is_err());
    assert!(
        Air::default()
            .add_station(&LinkConfig::serial(9600), Side::A, "x", 1)
            .is_err()
    );
}
