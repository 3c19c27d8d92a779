use strait_core::{Duration, Instant};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn campaign() -> PairCampaign {
    PairCampaign {
        sizes: vec![100, 60],
        count: 2,
        trains: 1,
        train: 3,
        timeout: Duration::from_secs(2),
        ..PairCampaign::default()
    }
}

/// All that goes at a moment.
fn sent(prober: &mut Prober, now: Instant) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut octets = Vec::new();
        if !prober.poll_transmit(now, &mut octets) {
            return all;
        }
        all.push(octets);
    }
}

#[test]
fn literal_octets() {
    let head = Head {
        session: 0x0102_0304,
        group: 5,
        packets: 2,
    };
    let mut out = Vec::new();
    Datagram::Probe(head, 1).emit(&mut out);
    assert_eq!(out, [b's', b'P', 1, 2, 1, 2, 3, 4, 0, 5, 1, 0]);
    let report = Report {
        head,
        arrived_ns: vec![Some(0), Some(258)],
    };
    out.clear();
    Datagram::Report(report.clone()).emit(&mut out);
    assert_eq!(out[..12], [b's', b'P', 3, 2, 1, 2, 3, 4, 0, 5, 0, 0]);
    assert_eq!(out[12..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(Datagram::parse(&out), Ok(Datagram::Report(report)));
    assert_eq!(Datagram::parse(&out[..27]), Err(Garbled));
    for (place, wrong) in [(0, 0), (2, 0), (2, 4), (3, 1), (3, 65), (10, 1), (11, 1)] {
        let mut damaged = out.clone();
        damaged[place] = wrong;
        assert_eq!(Datagram::parse(&damaged), Err(Garbled), "{place} {wrong}");
    }
}

#[test]
fn rounds_have_each_size_once_and_trains_are_spread() {
    let campaign = PairCampaign {
        count: 10,
        trains: 5,
        ..PairCampaign::default()
    };
    let groups = campaign.groups();
    assert_eq!(groups.len(), 115);
    assert_eq!(groups, campaign.groups());
    let trains = groups.iter().filter(|group| group.packets == 8);
    assert!(trains.clone().all(|group| group.octets == 1400));
    assert_eq!(trains.count(), 5);
    for size in PairCampaign::SIZES {
        let of_size = groups
            .iter()
            .filter(|it| it.octets == size && it.packets == 2);
        assert_eq!(of_size.count(), 10);
    }
    let first: Vec<u32> = groups[..11].iter().map(|group| group.octets).collect();
    let second: Vec<u32> = groups[11..22].iter().map(|group| group.octets).collect();
    assert_ne!(first, second, "the order is by chance");
    let trains_alone = PairCampaign {
        count: 0,
        trains: 3,
        ..PairCampaign::default()
    };
    assert_eq!(trains_alone.groups().len(), 3);
}

#[test]
fn a_group_is_sent_heard_and_told() {
    let mut prober = Prober::new(&campaign(), 7, 48, Instant::ZERO);
    let mut receiver = Receiver::default();
    let mut now = Instant::ZERO;
    let mut ended = 0;
    while !prober.is_ended() {
        now = now.max(prober.wake().unwrap());
        let packets = sent(&mut prober, now);
        for (index, packet) in packets.iter().enumerate() {
            let octets = 48 + packet.len() as u32;
            assert!([60, 100].contains(&octets));
            let mut answer = Vec::new();
            // A millisecond an octet.
            let at = now + MS * octets * (index as u32 + 1);
            let told = receiver.handle(at, "peer", packet, &mut answer);
            assert_eq!(told, index + 1 == packets.len());
            if told {
                let came: usize = packets.iter().map(|packet| packet.len() + 28).sum();
                assert!(answer.len() + 28 <= came);
                now = at;
                assert!(prober.handle(now, &answer));
                assert!(prober.handle(now, &answer), "twice does no harm");
                ended += 1;
            }
        }
    }
    assert_eq!((ended, prober.records().len()), (5, 5));
    for record in prober.records() {
        let separation_s = f64::from(record.octets) / 1000.0;
        assert!((record.separation_s().unwrap() - separation_s).abs() < 1e-9);
    }
    let summary = PairSummary::new(prober.records());
    assert!((summary.rate_bit_s().unwrap().value - 8000.0).abs() < 0.1);
    assert!((summary.train_bit_s().unwrap().value - 8000.0).abs() < 0.1);
    assert_eq!((summary.lost, summary.metrics()["pairs_min"]), (0, 2.0));
}

#[test]
fn a_lost_packet_is_asked_for_and_told() {
    let mut prober = Prober::new(&campaign(), 7, 48, Instant::ZERO);
    let mut receiver = Receiver::default();
    let packets = sent(&mut prober, Instant::ZERO);
    let mut answer = Vec::new();
    assert!(!receiver.handle(Instant::ZERO, 1, &packets[0], &mut answer));
    let due = prober.wake().unwrap();
    assert_eq!(due, Instant::ZERO + Duration::from_secs(2));
    assert!(sent(&mut prober, Instant::from_nanos(due.as_nanos() - 1)).is_empty());
    let question = sent(&mut prober, due);
    assert_eq!(question.len(), 1);
    assert!(receiver.handle(due, 1, &question[0], &mut answer));
    assert_eq!(answer.len(), question[0].len());
    prober.handle(due + MS, &answer);
    let record = &prober.records()[0];
    assert!(!record.is_complete() && record.separation_s().is_none());
    assert_eq!(record.arrived_ns[0], Some(0));
    // The second packet comes after all, when nobody waits for it any more.
    receiver.handle(due + MS, 1, &packets[1], &mut answer);
    assert_eq!(PairSummary::new(prober.records()).lost, 1);
}

#[test]
fn patience_follows_what_the_path_has_shown() {
    let campaign = PairCampaign {
        sizes: vec![100, 1000],
        timeout: Duration::from_secs(60),
        ..PairCampaign::default()
    };
    let first = |octets: u32| {
        let groups = campaign.groups();
        groups
            .iter()
            .position(|group| group.octets == octets)
            .unwrap()
    };
    assert_eq!((first(100), first(1000)), (0, 1), "by the seed");
    let mut prober = Prober::new(&campaign, 7, 48, Instant::ZERO);
    let mut receiver = Receiver::default();
    let mut answer = Vec::new();
    for packet in sent(&mut prober, Instant::ZERO) {
        receiver.handle(Instant::ZERO, (), &packet, &mut answer);
    }
    assert_eq!(prober.wake(), Some(Instant::ZERO + Duration::from_secs(60)));
    // 200 octets took 1.5 s: 2000 octets may take three times 15 s.
    prober.handle(Instant::ZERO + Duration::from_millis(1500), &answer);
    let next = prober.wake().unwrap();
    sent(&mut prober, next);
    assert_eq!(prober.wake(), Some(next + Duration::from_secs(45)));
}

#[test]
fn nobody_there_ends_it() {
    let mut prober = Prober::new(&campaign(), 7, 48, Instant::ZERO);
    let mut questions = 0;
    while let Some(wake) = prober.wake() {
        questions += sent(&mut prober, wake)
            .iter()
            .filter(|octets| matches!(Datagram::parse(octets), Ok(Datagram::Question(_))))
            .count();
    }
    assert!(prober.is_unanswered());
    assert_eq!((prober.records().len(), questions), (3, 9));
}

#[test]
fn an_old_probe_brings_no_group_back_and_sessions_are_limited() {
    let probe = |session, group, index| {
        let mut out = Vec::new();
        let head = Head {
            session,
            group,
            packets: 2,
        };
        Datagram::Probe(head, index).emit(&mut out);
        out
    };
    let mut receiver = Receiver::default();
    let mut out = Vec::new();
    assert!(!receiver.handle(Instant::ZERO, 1, &probe(1, 9, 0), &mut out));
    assert!(!receiver.handle(Instant::ZERO, 1, &probe(1, 8, 0), &mut out));
    assert!(!receiver.handle(Instant::ZERO, 1, &probe(1, 8, 1), &mut out));
    assert!(receiver.handle(Instant::ZERO, 1, &probe(1, 9, 1), &mut out));
    // Numbers wrap.
    assert!(!receiver.handle(Instant::ZERO, 2, &probe(1, u16::MAX, 0), &mut out));
    assert!(!receiver.handle(Instant::ZERO, 2, &probe(1, 0, 0), &mut out));
    assert!(receiver.handle(Instant::ZERO, 2, &probe(1, 0, 1), &mut out));
    for session in 0..=Receiver::<u32>::SESSIONS_MAX as u32 {
        receiver.handle(Instant::from_nanos(1), 3, &probe(session, 0, 0), &mut out);
    }
    // The three that were silent for longest are forgotten.
    let mut second = |session| {
        let probe = probe(session, 0, 1);
        receiver.handle(Instant::from_nanos(1), 3, &probe, &mut out)
    };
    assert!(second(1) && second(256));
    assert!(!second(0));
}

#[test]
fn a_sender_slower_than_the_path_is_told_apart() {
    let record = |sent_ns: u64| PairRecord {
        octets: 100,
        began_ns: 0,
        sent_ns: vec![0, sent_ns],
        arrived_ns: vec![Some(0), Some(1000)],
    };
    assert_eq!(PairSummary::new(&[record(900)]).sender_bound, 0);
    assert_eq!(PairSummary::new(&[record(901)]).sender_bound, 1);
    let reordered = PairRecord {
        arrived_ns: vec![Some(1000), Some(0)],
        ..record(1)
    };
    assert_eq!(PairSummary::new(&[reordered]).lost, 1);
}

#[test]
fn bounds_are_told() {
    let fault = |change: fn(&mut PairCampaign)| {
        let mut campaign = PairCampaign::default();
        change(&mut campaign);
        campaign.fault().map(|(key, _)| key)
    };
    assert_eq!(fault(|_| {}), None);
    assert_eq!(fault(|it| it.sizes = vec![59]), Some("sizes"));
    assert_eq!(fault(|it| it.sizes.clear()), Some("sizes"));
    assert_eq!(fault(|it| it.train = 65), Some("train"));
    assert_eq!(fault(|it| it.count = 373), Some("count"));
    assert_eq!(fault(|it| it.count = 0), Some("count"));
    assert_eq!(fault(|it| it.timeout = MS), Some("timeout"));
}

proptest::proptest! {
    #[test]
    fn any_octets_are_read_and_answers_are_no_longer(
        octets in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600),
        kind in 0u8..5,
    ) {
        let mut octets = octets;
        if octets.len() >= 4 {
            octets[..3].copy_from_slice(&[b's', b'P', kind]);
        }
        let mut out = Vec::new();
        if Receiver::default().handle(Instant::ZERO, (), &octets, &mut out) {
            assert!(out.len() <= octets.len());
        }
        let mut prober = Prober::new(&campaign(), 7, 48, Instant::ZERO);
        prober.handle(Instant::ZERO, &octets);
    }
}
