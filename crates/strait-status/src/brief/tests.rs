use alloc::format;
use alloc::vec::Vec;

use strait_core::Instant;
use strait_core::stats::{Brief, BriefClass, BriefEnds, BriefFlow};

use super::codec::{Hearer, OCTETS_MAX, Teller, large, small};

fn at(s: u64) -> Instant {
    Instant::from_secs(s)
}

fn full(v6: bool) -> Brief {
    let class = |n: u64| BriefClass {
        name: format!("class-{n}"),
        queued_octets: n * 1000,
        out_bit_s: 1000,
        wait_s: 0.25,
        lost: 0.01,
    };
    let address = |n: u8| {
        if v6 {
            [0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n].into()
        } else {
            [10, 0, 0, n].into()
        }
    };
    let flow = |n: u8| BriefFlow {
        ends: Some(BriefEnds {
            protocol: 6,
            ports: (40_000 + u16::from(n), 80),
            src: address(n),
            dst: address(99),
        }),
        in_bit_s: 5000,
        wait_s: 12.0,
        lost: 0.0,
    };
    Brief {
        name: "far".into(),
        at: 17,
        rate_bit_s: 9600,
        out_bit_s: 9000,
        in_bit_s: 400,
        lost_in: 0.003,
        cause: "class-full".into(),
        concerns: "bulk".into(),
        calls: 2,
        calls_wait_s: 0.042,
        calls_lost: 0.0,
        classes: (0..6).map(class).collect(),
        flows: (1..4).map(flow).collect(),
    }
}

/// Within an eighth.
fn near(heard: f64, said: f64) {
    assert!((heard - said).abs() <= said / 8.0, "{heard} for {said}");
}

#[test]
fn figures_cross_at_once_and_names_as_there_is_room() {
    for v6 in [false, true] {
        let (said, mut teller, mut hearer) = (full(v6), Teller::new(7), Hearer::default());
        let mut reports = 0;
        let heard = loop {
            let room = if v6 { 90 } else { 60 };
            let report = teller.write(at(reports * 9), &said, room);
            assert!(report.len() <= room, "{} octets", report.len());
            let heard = hearer.read(&report).expect("it is a report");
            near(heard.rate_bit_s as f64, 9600.0);
            let classes = heard.classes.get(5).map(|it| it.queued_octets);
            classes.iter().for_each(|it| near(*it as f64, 5000.0));
            heard.flows.iter().for_each(|it| near(it.wait_s, 12.0));
            near(heard.calls_wait_s, 0.042);
            assert_eq!((heard.cause.as_str(), heard.calls), ("class-full", 2));
            assert_eq!(heard.at, 17);
            reports += 1;
            let named = |heard: &Brief| {
                let classes = heard.classes.iter().all(|it| !it.name.is_empty());
                classes && heard.flows.len() == 3 && heard.flows.iter().all(|it| it.ends.is_some())
            };
            if named(&heard) && !heard.concerns.is_empty() && !heard.name.is_empty() {
                break heard;
            }
            assert!(reports < 24, "{heard:?}");
        };
        let ends = |brief: &Brief| brief.flows.iter().map(|it| it.ends).collect::<Vec<_>>();
        assert_eq!(ends(&heard), ends(&said));
        assert_eq!(
            (heard.name.as_str(), heard.concerns.as_str()),
            ("far", "bulk")
        );
        assert_eq!(heard.classes[3].name, "class-3");
        near(large(small(9600)) as f64, 9600.0);
        // Names cost nothing once they are known, and are told again after a while.
        let mut teller = Teller::new(7);
        let mut octets = |s| teller.write(at(s), &said, OCTETS_MAX).len();
        let told = [octets(0), octets(1), octets(2), octets(3), octets(64)];
        assert!(told[3] < 60 && told[4] > told[3] + 40, "{told:?}");
    }
}

#[test]
fn an_idle_node_has_little_to_say_and_another_life_forgets() {
    let (mut teller, mut hearer) = (Teller::new(1), Hearer::default());
    let idle = Brief {
        name: "far".into(),
        ..Brief::default()
    };
    assert_eq!(teller.write(at(0), &idle, 82).len(), 16);
    assert_eq!(teller.write(at(9), &idle, 82).len(), 11);
    let first = Teller::new(1).write(at(0), &full(false), OCTETS_MAX);
    let heard = hearer.read(&first).unwrap();
    assert!(heard.flows.iter().any(|it| it.ends.is_some()));
    let other = Teller::new(2).write(at(1), &full(false), 0);
    let heard = hearer.read(&other).unwrap();
    assert!(heard.name.is_empty() && heard.flows.iter().all(|it| it.ends.is_none()));
}

#[test]
fn hostile_reports_are_refused_or_harmless() {
    let good = Teller::new(1).write(at(0), &full(true), OCTETS_MAX);
    let mut hearer = Hearer::default();
    for end in 0..good.len() {
        drop(hearer.read(&good[..end]));
    }
    for place in 0..good.len() {
        for value in [0, 1, 7, 127, 128, 255] {
            let mut bad = good.clone();
            bad[place] = value;
            drop(hearer.read(&bad));
        }
    }
    assert!(hearer.read(&[1; OCTETS_MAX + 1]).is_none(), "too long");
    assert!(hearer.read(&[2; 40]).is_none(), "another version");
    let escape = [&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5][..], b"\x1b[2Ja"].concat();
    assert_eq!(hearer.read(&escape).unwrap().name, "[2Ja");
}
