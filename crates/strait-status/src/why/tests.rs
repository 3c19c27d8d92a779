use alloc::string::ToString;
use alloc::vec;

use strait_core::delay::DelayParts;

use super::*;
use crate::{Class, Dns, Hop, HostRow, Mail, Neighbour, Port, Station, TalkRow};

/// A gateway at 9600 bit/s that has run for `at` seconds, with a line that is 97 % used.
fn gateway(at: f64) -> Snapshot {
    let host = Port {
        name: "host".into(),
        host_side: true,
        up: true,
        ..Port::default()
    };
    let line = Port {
        name: "line".into(),
        up: true,
        rate_bit_s: Some(9600),
        busy_s: 0.97 * at,
        heard_s: Some(0.1),
        packets_in: (20.0 * at) as u64,
        frames_in: (25.0 * at) as u64,
        frames_out: (20.0 * at) as u64,
        octets_out: (930.0 * at) as u64,
        ..Port::default()
    };
    let class = |name: &str| Class {
        name: name.into(),
        ..Class::default()
    };
    Snapshot {
        node: "a".into(),
        uptime_s: at,
        ports: vec![host, line],
        classes: vec![class("voice"), class("data")],
        ..Snapshot::default()
    }
}

/// Its history over half a minute, with what `change` makes of each snapshot.
fn history(change: impl Fn(&mut Snapshot, f64)) -> Vec<Snapshot> {
    let at = (0..=10).map(|step| 100.0 + f64::from(step) * 3.0);
    let each = at.map(|at| {
        let mut snapshot = gateway(at);
        change(&mut snapshot, at);
        snapshot
    });
    each.collect()
}

/// A flow of so many packets a second, all of so many octets, that wait for so long.
fn flow(protocol: u8, to: u16, (pace, octets): (f64, u32), wait_s: f64, at: f64) -> TalkRow {
    let packets = (pace * at) as u64;
    let mut parts = DelayParts::default();
    parts.add(
        strait_core::delay::DelayPart::Class,
        (packets as f64 * wait_s * 1e9) as u64,
    );
    TalkRow {
        source: "10.1.0.2".into(),
        destination: "10.2.0.2".into(),
        protocol,
        ports: Some((40_000, to)),
        class: "data".into(),
        port: "line".into(),
        packets_in: packets,
        octets_in: packets * u64::from(octets),
        packets_out: packets,
        octets_out: packets * u64::from(octets),
        octets_least: octets,
        octets_most: octets,
        delay_parts_s: parts,
        ..TalkRow::default()
    }
}

fn call(wait_s: f64, class: &str, at: f64) -> TalkRow {
    TalkRow {
        class: class.into(),
        ..flow(17, 5004, (5.0, 71), wait_s, at)
    }
}

fn file(at: f64) -> TalkRow {
    flow(6, 9000, (0.8, 1000), 12.0, at)
}

fn first(history: &[Snapshot]) -> Option<Cause> {
    why(history).findings.first().map(|it| it.cause)
}

#[test]
fn names_are_those_in_json_and_each_has_one() {
    for cause in Cause::ALL {
        let json = serde_json::to_string(cause).unwrap();
        assert_eq!(json, format!("\"{}\"", cause.name()));
    }
}

#[test]
fn nothing_is_said_of_nothing() {
    assert_eq!(why(&[]), Why::default());
}

#[test]
fn a_full_line_whose_calls_are_well_is_well() {
    let history = history(|it, at| it.talkers = vec![call(0.04, "voice", at), file(at)]);
    let why = why(&history);
    assert_eq!(why.findings, [], "{}", why.sentence);
    let has = |words: &str| assert!(why.sentence.contains(words), "{}", why.sentence);
    has("All is well: port line is 97 % used");
    has("1 call waits 40 ms at most");
    has("longest wait: a transfer (TCP 40000 > 9000) from 10.1.0.2, 12 s behind its own packets");
    // One snapshot tells of the whole time.
    assert!(super::why(&history[10..]).is_well());
}

#[test]
fn who_asks_for_little_and_waits_names_who_is_before_it() {
    let page = |at| flow(6, 80, (0.2, 300), 12.0, at);
    let full = history(|it, at| it.talkers = vec![file(at), page(at)]);
    let why = why(&full);
    assert_eq!(why.findings[0].cause, Cause::ClassFull);
    let said = "Web from 10.1.0.2 waits 12 s behind a transfer (TCP 40000 > 9000) from 10.1.0.2 in \
                class data, which takes 93 % of what the line carries; port line is 97 % used.";
    assert_eq!(why.sentence, said);
    let last = history(|it, at| {
        let mut page = page(at);
        page.dscp = 8;
        it.talkers = vec![file(at), page];
    });
    assert_eq!(first(&last), None, "it means to go behind others");
    let starved = history(|it, at| {
        let mut file = file(at);
        file.class = "voice".into();
        it.talkers = vec![file, page(at)];
    });
    assert_eq!(first(&starved), Some(Cause::Starved));
    let flood = history(|it, at| {
        let mut flood = flow(17, 7000, (10.0, 500), 3.0, at);
        (flood.octets_out, flood.held_packets) = (flood.octets_out / 6, 100);
        it.talkers = vec![flood, page(at)];
    });
    assert_eq!(first(&flood), Some(Cause::Flood));
    let scan = history(|it, at| {
        let host = HostRow {
            source: "10.1.0.9".into(),
            flows: (10.0 * at) as u64,
            ..HostRow::default()
        };
        (it.talkers, it.hosts) = (vec![file(at), page(at)], vec![host]);
    });
    assert_eq!(first(&scan), Some(Cause::Flood));
    let call = history(|it, at| it.talkers = vec![file(at), call(2.5, "data", at)]);
    assert_eq!(first(&call), Some(Cause::UnmarkedCall));
    let crowd = history(|it, at| {
        let one = |n: u16| flow(17, n, (1.0, 120), 20.0, at);
        it.talkers = (1..=20).map(one).collect();
    });
    assert_eq!(first(&crowd), None, "each has its fair share");
    // One of twelve has packets as a call's, the others had a short one before: no mark helps.
    let alike = history(|it, at| {
        let one = |n: u16| {
            let mut one = flow(17, n, (3.0, 100), 3.0, at);
            one.octets_out /= 3;
            one.octets_least = if n == 1 { 100 } else { 4 };
            one
        };
        it.talkers = (1..=12).map(one).collect();
    });
    assert_eq!(first(&alike), Some(Cause::Overload));
}

#[test]
fn what_is_refused_says_why() {
    for (dropped, cause) in [
        ("no-route", Cause::NoRoute),
        ("hop-limit", Cause::Loop),
        ("too-big", Cause::Mtu),
        ("filtered", Cause::Filtered),
        ("not-carried", Cause::NotCarried),
        ("unresolved", Cause::NoSuchHost),
        ("wrong-source", Cause::WrongSource),
        ("not-admitted", Cause::CallRefused),
        ("port-down", Cause::PortDown),
    ] {
        let told = |to: &str, part: u64| {
            history(|it, at| {
                let mut ping = flow(1, 0, (1.0, 84), 0.0, at);
                ping.destination = to.into();
                ping.dropped = [(dropped.to_string(), ping.packets_in / part)].into();
                it.talkers = vec![ping];
            })
        };
        assert_eq!(first(&told("10.3.0.2", 1)), Some(cause));
        // In a circle all but the last round is no drop.
        let passes = (cause == Cause::Loop).then_some(cause);
        assert_eq!(
            first(&told("10.3.0.2", 4)),
            passes,
            "{dropped}: most passes"
        );
        assert_eq!(
            first(&told("224.0.0.251", 1)),
            None,
            "{dropped}: a network's own talk"
        );
    }
}

#[test]
fn links_that_lose_are_bad_or_fade() {
    let bad = history(|it, at| it.ports[1].damaged = (3.0 * at) as u64);
    assert_eq!(first(&bad), Some(Cause::LinkErrors));
    let fades = history(|it, at| {
        let lost = if at >= 115.0 { 60 } else { 0 };
        it.ports[1].damaged = lost;
    });
    assert_eq!(first(&fades), Some(Cause::Fading));
    let garbage = history(|it, at| {
        (it.ports[1].damaged, it.ports[1].packets_in) = ((20.0 * at) as u64, 0);
    });
    assert_eq!(first(&garbage), Some(Cause::Unreadable));
    let few = history(|it, at| it.ports[1].damaged = (0.1 * at) as u64);
    assert_eq!(first(&few), None, "chance");
}

#[test]
fn silence_is_told_when_somebody_asks() {
    let silent = |asks: bool, s: f64| {
        history(move |it, at| {
            it.ports[1].heard_s = Some(s);
            let protocol = if asks { 1 } else { 17 };
            it.talkers = vec![flow(protocol, 0, (1.0, 84), 0.0, at)];
        })
    };
    // Three packets of 1500 octets take 3.75 s, beside eight.
    assert_eq!(first(&silent(true, 11.8)), Some(Cause::FarSilent));
    assert_eq!(first(&silent(true, 11.7)), None);
    assert_eq!(first(&silent(false, 100.0)), None, "nobody asked");
    let one_of_two = |protocol: u8, routes: bool| {
        first(&history(move |it, at| {
            let neighbour = |name: &str, heard_s| Neighbour {
                name: name.into(),
                octets_out: (10.0 * at) as u64,
                heard_s: Some(heard_s),
                ..Neighbour::default()
            };
            it.ports[1].neighbours = vec![neighbour("b", 1.0), neighbour("c", 50.0)];
            it.talkers = vec![flow(protocol, 0, (1.0, 84), 0.0, at)];
            it.olsr = routes.then(crate::service::Olsr::default);
        }))
    };
    assert_eq!(one_of_two(1, false), Some(Cause::FarSilent));
    assert_eq!(one_of_two(17, true), Some(Cause::FarSilent), "a router");
    assert_eq!(one_of_two(17, false), None, "nobody asked it");
    let down = history(|it, _| it.ports[1].up = false);
    assert_eq!(first(&down), Some(Cause::PortDown));
    let station = |unanswered: f64, group: bool| {
        first(&history(move |it, at| {
            let link = crate::Link {
                name: "b".into(),
                group,
                sent_s: at / 2.0,
                heard_s: 40.0,
                ..crate::Link::default()
            };
            it.ports[1].hf = Some(Station {
                unanswered: (unanswered * at) as u64,
                turns: (at / 5.0) as u64,
                neighbours: vec![link],
                ..Station::default()
            });
        }))
    };
    assert_eq!(station(0.2, false), Some(Cause::HfSilent));
    assert_eq!(station(0.0, false), None, "a long turn");
    assert_eq!(station(0.2, true), None, "nobody answers for a group");
}

#[test]
fn what_fills_a_stations_turn_is_no_loss() {
    let repeats = |lost: f64| {
        first(&history(move |it, at| {
            let link = crate::Link {
                name: "b".into(),
                lost,
                heard_s: at,
                ..crate::Link::default()
            };
            it.ports[1].hf = Some(Station {
                d_pdus_out: (2.0 * at) as u64,
                repeated: at as u64,
                neighbours: vec![link],
                ..Station::default()
            });
        }))
    };
    assert_eq!(repeats(0.049), None);
    assert_eq!(repeats(0.05), Some(Cause::LinkErrors));
}

#[test]
fn a_line_slower_than_its_port_has_work_all_the_time() {
    let slow = |waits: u64| {
        history(move |it, at| {
            it.classes[1].queued_packets = waits;
            it.ports[1].busy_s = 0.25 * at;
        })
    };
    assert_eq!(first(&slow(10)), Some(Cause::SlowLine));
    assert_eq!(first(&slow(0)), None, "it has nothing to do");
    // It is busy all the time, as each octet takes four times as long as the port says.
    let long = |octets_s: f64, waits: u64| {
        let change = |it: &mut Snapshot, at: f64| {
            it.ports[1].octets_out = (octets_s * at) as u64;
            it.classes[1].queued_packets = waits;
        };
        first(&history(change))
    };
    assert_eq!(long(240.0, 10), Some(Cause::SlowLine));
    assert_eq!(long(240.0, 0), None, "it has nothing to do");
    assert_eq!(
        long(750.0, 10),
        None,
        "ten bits an octet, and what the link adds"
    );
}

#[test]
fn services_and_the_host_are_heard() {
    let names = history(|it, at| {
        it.dns = Some(Dns {
            served: at as u64,
            unanswered: (at / 2.0) as u64,
            ..Dns::default()
        });
    });
    assert_eq!(first(&names), Some(Cause::Dns));
    let mail = history(|it, at| {
        it.mail = Some(Mail {
            routine_here: 3,
            broken: (at / 10.0) as u64,
            ..Mail::default()
        });
    });
    assert_eq!(first(&mail), Some(Cause::MailHop));
    let late = history(|it, _| {
        it.mail = Some(Mail {
            overdue: 1,
            ..Mail::default()
        });
    });
    assert_eq!(first(&late), Some(Cause::MailLate));
    let disk = history(|it, at| it.host.full = (at / 10.0) as u64);
    assert_eq!(first(&disk), Some(Cause::Storage));
    let clock = |step_s| {
        history(move |it, at| {
            it.host.clock_steps = u64::from(at > 110.0);
            it.host.clock_step_s = step_s;
        })
    };
    assert_eq!(first(&clock(-3600.0)), Some(Cause::Clock));
    assert_eq!(first(&clock(0.02)), None, "a correction");
    let twice = history(|it, at| it.local.moved = (at / 5.0) as u64);
    assert_eq!(first(&twice), Some(Cause::DuplicateAddress));
}

#[test]
fn what_was_lost_until_the_other_end_began_anew_is_no_fault_of_the_link() {
    // Losses in one step; hop by hop a beginning of the other end behind them is seen here.
    let away = |renewals: u64| {
        history(move |it, at| {
            let lost = if at >= 115.0 { 60 } else { 0 };
            it.ports[1].damaged = lost;
            it.ports[1].hop = Some(Hop {
                renewals: if at >= 118.0 { renewals } else { 1 },
                ..Hop::default()
            });
        })
    };
    assert_eq!(first(&away(1)), Some(Cause::Fading));
    let told = why(&away(2));
    assert_eq!(told.findings.len(), 1, "{told:?}");
    assert!(
        told.sentence
            .starts_with("The far gateway restarted 12 s ago"),
        "{told:?}"
    );
    // Elsewhere both ends show it: of the other one's life there are ten seconds, whether its clock
    // began anew or only its counters.
    let cause = |other: Vec<Snapshot>| {
        let told = &together(&[away(1), other])[0];
        (
            told.findings.len(),
            told.findings.first().map(|it| it.cause),
        )
    };
    let mut restarted = history(|it, at| it.uptime_s = at - 120.0);
    restarted.retain(|it| it.uptime_s > 0.0);
    assert_eq!(cause(restarted), (1, Some(Cause::FarAnew)));
    let simulated = history(|it, at| it.packets.admitted = if at >= 118.0 { 3 } else { 500 });
    assert_eq!(cause(simulated), (1, Some(Cause::FarAnew)));
    assert_eq!(
        cause(history(|_, _| ())).1,
        Some(Cause::Fading),
        "it was there all the time"
    );
}

#[test]
fn what_is_on_its_way_is_not_lost() {
    let way = |delay_s: f64, lost: f64| {
        let sent = history(|_, _| ());
        let mut came = history(|it, at| {
            let at = (at - 100.0 - delay_s).max(0.0);
            it.ports[1].frames_in = (20.0 * at * (1.0 - lost)) as u64;
            it.ports[1].octets_in = (930.0 * at * (1.0 - lost)) as u64;
        });
        came.iter_mut().for_each(|it| it.node = "b".into());
        together(&[sent, came])[1]
            .findings
            .first()
            .map(|it| it.cause)
    };
    assert_eq!(way(0.0, 0.0), None);
    assert_eq!(way(5.0, 0.0), None, "three seconds' snapshots");
    assert_eq!(way(0.0, 0.2), Some(Cause::LinkErrors));
    assert_eq!(way(5.0, 0.2), Some(Cause::LinkErrors));
}

#[test]
fn both_ends_tell_a_dead_way_from_a_dead_gateway() {
    let deaf = history(|it, at| {
        it.ports[1].heard_s = Some(50.0);
        (it.ports[1].frames_in, it.ports[1].packets_in) = (10, 10);
        it.talkers = vec![flow(1, 0, (1.0, 84), 0.0, at)];
    });
    let mut heard = history(|_, _| ());
    heard.iter_mut().for_each(|it| it.node = "b".into());
    let alone = together(core::slice::from_ref(&deaf));
    assert_eq!(alone[0].findings[0].cause, Cause::FarSilent);
    let both = together(&[deaf, heard]);
    assert_eq!(both[0].findings[0].cause, Cause::OneWay);
    assert!(both[1].is_well());
}

#[test]
fn both_ends_tell_a_slow_modem_whose_buffer_hides_it_from_one() {
    let sent = history(|it, at| it.ports[1].frames_out = (80.0 * at) as u64);
    let came = |octets_s: f64, jumps: f64, damaged_s: u64| {
        let mut came = history(|it, at| {
            let port = &mut it.ports[1];
            let jump = if at % 2.0 > 0.5 { jumps } else { 0.0 };
            port.octets_in = (octets_s * at + jump) as u64;
            (port.busy_s, port.frames_in) = (0.0, (20.0 * at) as u64);
            port.damaged = damaged_s * at as u64;
        });
        came.iter_mut().for_each(|it| it.node = "b".into());
        came
    };
    let cause = |came: Vec<Snapshot>| {
        let all = together(&[sent.clone(), came]);
        all[1].findings.first().map(|it| it.cause)
    };
    assert_eq!(cause(came(240.0, 0.0, 0)), Some(Cause::SlowLine));
    // What chance loses doesn't come evenly, nor without a trace; and headers are nobody's loss.
    assert_ne!(cause(came(240.0, 500.0, 0)), Some(Cause::SlowLine));
    assert_ne!(cause(came(240.0, 0.0, 3)), Some(Cause::SlowLine));
    assert_ne!(cause(came(800.0, 0.0, 0)), Some(Cause::SlowLine));
}

#[test]
fn a_host_side_with_nobody_behind_it_is_no_fault() {
    let host = |frames: u64| {
        first(&history(move |it, _| {
            (it.ports[0].up, it.ports[0].downs) = (false, 1);
            it.ports[0].frames_in = frames;
        }))
    };
    assert_eq!(host(0), None, "a relay");
    assert_eq!(host(1), Some(Cause::PortDown));
}

#[test]
fn a_restart_begins_anew() {
    let mut history = history(|_, _| ());
    let last = history.last_mut().unwrap();
    (last.uptime_s, last.ports[1].downs) = (2.0, 0);
    assert_eq!(why(&history).span_s, 2.0);
}
