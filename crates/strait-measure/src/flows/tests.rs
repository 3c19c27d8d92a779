use super::*;

fn flows(text: &str, seconds: f64) -> Flows {
    let now = monotonic();
    Flows {
        script: Script::parse(text).unwrap(),
        captures: BTreeMap::new(),
        seed: 1,
        name: "test".into(),
        local: None,
        zero: now,
        until: now + Duration::from_secs_f64(seconds),
        checksum: false,
        dscp: 0,
        log: None,
        utc_offset_s: 0,
    }
}

/// A port that nobody has at the moment.
fn free() -> u16 {
    let socket = std::net::UdpSocket::bind("[::1]:0").unwrap();
    socket.local_addr().unwrap().port()
}

#[test]
fn what_is_sent_arrives_in_both_families_and_over_tcp() {
    let (udp, tcp) = (free(), free());
    let text = format!(
        "0 LISTEN UDP {udp}\n0 LISTEN TCP {tcp}\n\
         0 ON 1 UDP DST 127.0.0.1/{udp} PERIODIC [100 60] COUNT 20\n\
         0 ON 2 UDP DST ::1/{udp} POISSON [200 8192] COUNT 30 DATA [00ff]\n\
         0 ON 3 TCP DST 127.0.0.1/{tcp} PERIODIC [20 100000] COUNT 4\n\
         0 ON 4 TCP DST ::1/{tcp} JITTER [50 76 0.5] COUNT 9 SEQUENCE 4294967290\n\
         1 IGNORE UDP {udp}\n1 IGNORE TCP {tcp}"
    );
    let outcome = flows(&text, 10.0).run(&Stop::default()).unwrap();
    assert_eq!(outcome.errors, BTreeMap::new());
    assert_eq!(outcome.notes, Vec::<String>::new());
    let sent: Vec<_> = outcome
        .sent
        .iter()
        .map(|(flow, sent)| (*flow, sent.messages))
        .collect();
    assert_eq!(sent, [(1, 20), (2, 30), (3, 4), (4, 9)]);
    for (report, (flow, count)) in outcome.received.iter().zip(sent) {
        assert!(
            report.name.starts_with(&format!("{flow} from ")),
            "{}",
            report.name
        );
        assert_eq!(report.counters["received"], count, "{report:?}");
        assert_eq!(report.metrics["loss"], 0.0);
        assert!(report.metrics["delay_max_s"] < 1.0);
    }
    assert_eq!(outcome.received.len(), 4);
}

#[test]
fn a_port_both_sent_from_and_listened_to() {
    let port = free();
    let text = format!(
        "0 LISTEN UDP {port}\n0 ON 1 UDP SRC {port} DST 127.0.0.1/{port} PER [100 60] COUNT 10 TOS 8\n\
         0 ON 2 UDP SRC {port} DST 127.0.0.1/{port} PER [100 60] COUNT 10 TOS 16\n\
         .5 IGNORE UDP {port}"
    );
    let outcome = flows(&text, 10.0).run(&Stop::default()).unwrap();
    let received: u64 = outcome
        .received
        .iter()
        .map(|flow| flow.counters["received"])
        .sum();
    assert_eq!((received, outcome.received.len()), (20, 2), "{outcome:?}");
}

#[test]
fn a_stop_ends_listening() {
    let stop = Stop::default();
    stop.ask();
    let outcome = flows(&format!("LISTEN UDP {}", free()), 1e6)
        .run(&stop)
        .unwrap();
    assert!(outcome.received.is_empty());
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::UdpSocket::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = flows(&format!("LISTEN UDP {port}"), 1.0).run(&Stop::default());
    let told = error.unwrap_err().to_string();
    assert!(
        told.contains(&format!("listen on UDP port {port}")),
        "{told}"
    );
}

#[test]
fn a_connection_that_nobody_takes_loses_messages_and_nothing_else() {
    let text = format!("0 ON 1 TCP DST 127.0.0.1/{} PER [50 100] COUNT 5", free());
    let outcome = flows(&text, 5.0).run(&Stop::default()).unwrap();
    assert_eq!(outcome.sent[&1].messages, 0, "{outcome:?}");
    assert!(outcome.sent[&1].not_sent > 0);
}
