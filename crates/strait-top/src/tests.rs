//! Pictures of each view as text, keys, and names that mean harm.

use std::path::Path;
use std::time::{Duration, Instant};

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use strait_core::delay::{DelayPart, DelayParts};
use strait_status::{
    Class, Dns, Echo, Ended, FlowRow, Hop, Link, Mail, Neighbour, Olsr, Packets, Port, PortFlows,
    Proxy, Rate, Repairs, Snapshot, Station, Streams, TalkRow,
};

use crate::app::Then;
use crate::draw::draw;
use crate::views::View;
use crate::{App, Options, picture};

fn parts(class_ms: u64, line_ms: u64) -> DelayParts {
    let mut parts = DelayParts::default();
    parts.add(DelayPart::Class, class_ms * 1_000_000);
    parts.add(DelayPart::Line, line_ms * 1_000_000);
    parts
}

/// What has everything, `n` times ten seconds after its start.
fn everything(n: u64) -> Snapshot {
    let ports = vec![
        Port {
            name: "host".into(),
            host_side: true,
            up: true,
            ..Port::default()
        },
        Port {
            name: "line".into(),
            up: true,
            rate_bit_s: Some(7680),
            busy_s: 9.3 * n as f64,
            octets_out: 8_900 * n,
            octets_in: 1_200 * n,
            frames_in: 95 * n,
            damaged: 5 * n,
            heard_s: Some(0.4),
            plain_octets: 4000 * n,
            compressed_octets: 1000 * n,
            hop: Some(Hop {
                repeated: 12 * n,
                window_octets: 3000,
                ..Hop::default()
            }),
            frames_out: 100 * n,
            repairs: Some(Repairs {
                sends: true,
                skipped: 1,
                ..Repairs::default()
            }),
            flows: PortFlows {
                segments_fitted: 30 * n,
                gap_predicted_p50_s: Some(0.18),
                ..PortFlows::default()
            },
            neighbours: vec![Neighbour {
                name: "b".into(),
                rate_bit_s: Some(7680),
                octets_out: 8000 * n,
                heard_s: Some(0.4),
            }],
            ..Port::default()
        },
        Port {
            name: "radio".into(),
            problem: Some("no modem".into()),
            hf: Some(Station {
                neighbours: vec![Link {
                    name: "ashore".into(),
                    linked: true,
                    under_way: 12,
                    window: 127,
                    segment_octets: 250,
                    lost: 0.125,
                    sent_s: 6.0 * n as f64,
                    heard_s: 2.0 * n as f64,
                    rate: Some(Rate {
                        bit_s: 2400,
                        up: 3,
                        advised_bit_s: Some(1200),
                        reason: "a lower one delivers more".into(),
                        snr_db: Some(11.5),
                        ..Rate::default()
                    }),
                    ..Link::default()
                }],
                ..Station::default()
            }),
            ..Port::default()
        },
    ];
    let class = |name: &str, packets: u64, class_ms: u64| Class {
        name: name.into(),
        packets: packets * n,
        sent_octets: packets * 100 * n,
        queued_octets: class_ms,
        delay_p50_s: Some(0.05),
        delay_p99_s: Some(class_ms as f64 / 1e3),
        delay_parts_s: parts(class_ms * packets * n, 40 * packets * n),
        ..Class::default()
    };
    let mut classes = vec![class("voice", 50, 12), class("data", 20, 5600)];
    classes[1].dropped.insert("codel".into(), 2 * n);
    classes[1].policed = [("green", 6), ("yellow", 0), ("red", 2)]
        .map(|(colour, count)| (colour.to_owned(), count * n))
        .into();
    let talker = |from: &str, ports, class: &str, packets: u64, wait_ms: u64| TalkRow {
        source: from.into(),
        destination: "10.2.0.2".into(),
        protocol: 6,
        ports: Some(ports),
        class: class.into(),
        port: "line".into(),
        packets_in: packets * n,
        octets_in: packets * 600 * n,
        packets_out: packets * n,
        octets_out: packets * 600 * n,
        delay_parts_s: parts(wait_ms * packets * n, 100 * packets * n),
        ..TalkRow::default()
    };
    let mut talkers = vec![
        talker("10.1.0.2", (40_000, 80), "data", 4, 5600),
        talker("2001:db8:17::abcd:2", (40_001, 5003), "data", 16, 700),
    ];
    talkers[0].dropped.insert("codel".into(), n);
    let packet = |fate: &str, stay_s: f64| Ended {
        packet: format!("00c0ffee00c0ffe{n:x}"),
        class: "data".into(),
        at_s: 10.0 * n as f64 - 1.5,
        octets: 600,
        fate: fate.into(),
        stay_s,
        parts_s: [("class", stay_s - 0.1), ("line", 0.1)]
            .map(|(name, s)| (name.to_owned(), s))
            .into(),
    };
    talkers[0].packets = vec![packet("forwarded", 6.7), packet("codel", 1.2)];
    talkers[1].packets = vec![packet("forwarded", 0.8)];
    Snapshot {
        node: "a".into(),
        uptime_s: 10.0 * n as f64,
        packets: Packets {
            admitted: 90 * n,
            ..Packets::default()
        },
        ports,
        classes,
        flows: vec![call("10.1.0.7", "admitted"), call("10.1.0.8", "refused")],
        talkers,
        proxy: Some(Proxy {
            passed: 2 * n,
            streams: streams(n),
            ..Proxy::default()
        }),
        echo: Some(Echo {
            streams: streams(0),
            ..Echo::default()
        }),
        dns: Some(Dns {
            questions: 30 * n,
            known: 17,
            ..Dns::default()
        }),
        mail: Some(Mail {
            accepted: 3 * n,
            flash_here: 1,
            routine_here: 5,
            ..Mail::default()
        }),
        olsr: Some(Olsr {
            neighbours: 3,
            routes: 7,
            changes: n,
            ..Olsr::default()
        }),
        ..Snapshot::default()
    }
}

fn streams(n: u64) -> Streams {
    Streams {
        opened: 3 * n,
        open: n,
        taken_octets: 4000 * n,
        delivered_octets: 3500 * n,
        held_octets: 500 * n,
        reset: [("refused".to_owned(), n)].into(),
        ..Streams::default()
    }
}

fn call(from: &str, standing: &str) -> FlowRow {
    FlowRow {
        port: "line".into(),
        source: from.parse().unwrap(),
        destination: "10.2.0.7".parse().unwrap(),
        protocol: 17,
        ports: Some((40_100, 40_102)),
        spi: None,
        flow_label: None,
        nature: "real-time".into(),
        class: "voice".into(),
        dscp: 46,
        ipsec: false,
        standing: Some(standing.into()),
        packets: 500,
        octets: 41,
        period_s: Some(0.2),
        rate_bit_s: Some(1640),
        idle_s: 0.1,
    }
}

fn app_of(snapshots: impl IntoIterator<Item = Snapshot>) -> App {
    let mut app = App::live(vec!["/run/strait/a.sock".into()], &Options::default()).unwrap();
    for snapshot in snapshots {
        app.hear((0, Ok(snapshot)));
    }
    app
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        app.press(KeyEvent::from(KeyCode::Char(key)));
    }
}

/// With `STRAIT_TOP_PICTURES=write` they are made anew.
#[test]
fn each_view_has_its_picture_at_80_by_24() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pictures");
    let writes = std::env::var("STRAIT_TOP_PICTURES").is_ok_and(|it| it == "write");
    let mut app = app_of([1, 2].map(everything));
    assert_eq!(app.views(), View::ALL);
    let check = |app: &mut App, name: &str| {
        let drawn = picture(app, 80, 24);
        let path = folder.join(format!("{name}.txt"));
        if writes {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &drawn).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(drawn, expected, "{name}:\n{drawn}");
    };
    for view in View::ALL {
        app.view = view;
        check(&mut app, view.title());
    }
    for (key, name) in [("?", "help"), ("c", "columns"), ("w", "why")] {
        press(&mut app, key);
        check(&mut app, name);
        app.press(KeyEvent::from(KeyCode::Esc));
    }
}

#[test]
fn a_node_shows_what_it_has() {
    let bare = Snapshot {
        node: "b".into(),
        uptime_s: 5.0,
        ..Snapshot::default()
    };
    let app = app_of([bare]);
    assert_eq!(app.views(), [View::Links, View::Classes, View::Counters]);
    let mut app = app_of([]);
    assert_eq!(app.views(), [View::Links]);
    assert!(picture(&mut app, 80, 24).contains("waiting for the first answer"));
    app.hear((0, Err("nobody is there".into())));
    assert!(picture(&mut app, 80, 24).contains("SILENT: nobody is there"));
    app.hear((0, Ok(everything(1))));
    assert!(!picture(&mut app, 80, 24).contains("SILENT"));
}

#[test]
fn a_choice_is_there_while_it_is_made() {
    let app = app_of([1, 2].map(everything));
    let (mut app, at) = (app, View::Choices);
    app.view = at;
    assert_eq!(column(&app, 0).len(), 7);
    // Nobody was policed, cut or let pass of late, and nobody calls.
    let mut quiet = everything(2);
    quiet.uptime_s += 30.0;
    quiet.flows.clear();
    app.hear((0, Ok(quiet.clone())));
    quiet.uptime_s += 30.0;
    app.hear((0, Ok(quiet)));
    assert_eq!(column(&app, 1), ["2400 bit/s", "repeats losses"]);
}

/// The texts of a column, from the top.
fn column(app: &App, n: usize) -> Vec<String> {
    let (rows, _) = app.rows();
    rows.iter().map(|row| row.cells[n].text.clone()).collect()
}

#[test]
fn the_worst_stands_first_until_somebody_sorts_otherwise() {
    let mut app = app_of([1, 2].map(everything));
    press(&mut app, "2");
    assert_eq!(column(&app, 0), ["data", "voice"]);
    press(&mut app, ">I");
    assert_eq!(column(&app, 0), ["voice", "data"]);
    press(&mut app, "I");
    assert_eq!(column(&app, 0), ["data", "voice"]);
    press(&mut app, ">");
    assert_eq!(column(&app, 1), ["4.00k", "1.60k"]);
    press(&mut app, "<<");
    assert_eq!(app.look().sort.column, None);
    press(&mut app, "<");
    assert_eq!(app.look().sort.column, Some(13));
}

#[test]
fn a_filter_keeps_rows_that_have_all_words() {
    let mut app = app_of([1, 2].map(everything));
    press(&mut app, "3");
    assert_eq!(app.rows().0.len(), 4);
    press(&mut app, "/tcp 5003");
    assert_eq!(column(&app, 0), ["2001:db8:17::abcd:2"]);
    assert!(picture(&mut app, 80, 24).contains("find: tcp 5003_"));
    app.press(KeyEvent::from(KeyCode::Backspace));
    app.press(KeyEvent::from(KeyCode::Enter));
    press(&mut app, "nq"); // no letters of it any more
    assert_eq!(app.filter, "tcp 500");
    app.press(KeyEvent::from(KeyCode::Esc));
    assert_eq!(app.rows().0.len(), 4);
}

#[test]
fn each_number_leads_to_its_packets() {
    let mut app = app_of([1, 2].map(everything));
    let enter = KeyEvent::from(KeyCode::Enter);
    let flow = "10.1.0.2 > 10.2.0.2 TCP 40000>80";
    // Of the flow that waits longest: what stayed longest, and what was dropped.
    press(&mut app, "3");
    app.press(enter);
    assert_eq!(
        (app.view, column(&app, 0)),
        (View::Packets, vec![flow.into(); 2])
    );
    assert_eq!(column(&app, 2), ["forwarded", "codel"]);
    app.press(KeyEvent::from(KeyCode::Esc));
    assert_eq!((app.view, app.filter.as_str()), (View::Flows, ""));
    // Of a class, and of the second link.
    for (keys, words) in [("2", "data"), ("1j", "line")] {
        press(&mut app, keys);
        app.press(enter);
        assert_eq!((app.view, app.filter.as_str()), (View::Packets, words));
        assert_eq!(app.rows().0.len(), 3);
    }
    // A port that is down has no packets, and of the worst flow there are two.
    press(&mut app, "1w");
    app.press(enter);
    assert_eq!((app.view, app.filter.as_str()), (View::Links, ""));
    let up = [1, 2].map(|n| {
        let mut snapshot = everything(n);
        snapshot.ports.retain(|it| it.name != "radio");
        snapshot
    });
    let mut app = app_of(up);
    press(&mut app, "w");
    app.press(enter);
    assert_eq!((app.view, app.filter.as_str()), (View::Packets, "line"));
}

#[test]
fn columns_are_chosen_and_one_stays() {
    let mut app = app_of([1, 2].map(everything));
    press(&mut app, "9c");
    press(&mut app, " j j j ");
    assert_eq!(app.columns(), [3]);
    press(&mut app, "j ");
    assert_eq!(app.columns(), [0, 3]);
    press(&mut app, "q"); // goes back, ends nothing
    assert_eq!(app.columns(), [0, 3]);
    let text = picture(&mut app, 80, 24);
    let heads = text.lines().nth(6).unwrap();
    assert_eq!(
        heads.split_whitespace().collect::<Vec<_>>(),
        ["part", "a", "second"]
    );
}

#[test]
fn keys_end_pause_and_turn() {
    let key = |code| KeyEvent::from(code);
    let mut app = app_of([everything(1)]);
    for end in [
        key(KeyCode::Char('q')),
        key(KeyCode::F(10)),
        KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
    ] {
        assert_eq!(app.press(end), Then::Quit);
    }
    press(&mut app, "p");
    assert!(!app.hear((0, Ok(everything(2)))));
    let text = picture(&mut app, 80, 24);
    assert!(text.contains("up 10s") && text.contains("PAUSED"), "{text}");
    press(&mut app, "p");
    assert!(app.hear((0, Ok(everything(2)))));
    assert!(!app.hear((1, Ok(everything(2)))), "there is no such node");
    let names = vec!["one".into(), "two".into()];
    let mut app = App::live(names, &Options::default()).unwrap();
    press(&mut app, "n");
    assert_eq!(app.shown, 1);
    press(&mut app, "n");
    assert_eq!(app.shown, 0);
    press(&mut app, "N");
    assert_eq!(app.shown, 1);
    let wrong = Options {
        view: "x".into(),
        ..Options::default()
    };
    let error = App::live(Vec::new(), &wrong).unwrap_err();
    assert!(
        error.contains("no view `x` (there are links, classes"),
        "{error}"
    );
}

#[test]
fn a_recording_is_played_paused_and_searched() {
    let moments = (1..=30).map(|n| (10.0 * n as f64, vec![everything(n)]));
    let mut app = App::played(moments.collect(), 10.0, &Options::default()).unwrap();
    let up = |app: &App| {
        app.node()
            .and_then(|it| it.span())
            .map(|it| it.last.uptime_s)
    };
    assert_eq!(up(&app), Some(10.0));
    assert!(!app.pass(Duration::from_millis(999)));
    assert!(app.pass(Duration::from_millis(1)));
    assert_eq!(up(&app), Some(20.0));
    press(&mut app, "]");
    assert_eq!(up(&app), Some(30.0));
    press(&mut app, "[[[[[");
    assert_eq!(up(&app), Some(10.0));
    press(&mut app, "p");
    assert!(!app.pass(Duration::from_secs(9)));
    app.seek(1e9);
    assert_eq!(up(&app), Some(300.0));
    press(&mut app, "+");
    let text = picture(&mut app, 80, 24);
    assert!(text.contains("300 of 300 s, speed 20   PAUSED"), "{text}");
    // What was the worst stands in the overlay of `w`, a line each time that it changed.
    assert_eq!(app.node().unwrap().past().lines().count(), 1);
    // Rates are those of the moment, wherever one came from.
    assert!(text.contains("7.12k"), "{text}");
}

#[test]
fn ten_thousand_flows_with_hostile_names_are_shown_in_time() {
    let evil = "\x1b[2J\x07\u{202e}\u{9b}31m\r\n|".to_owned() + &"x".repeat(100_000);
    let mut snapshot = everything(2);
    snapshot.node.clone_from(&evil);
    snapshot.ports[1].name.clone_from(&evil);
    snapshot.ports[2].problem = Some(evil.clone());
    snapshot.classes[0].name.clone_from(&evil);
    snapshot.talkers[0].source.clone_from(&evil);
    snapshot.talkers[0].dropped.insert(evil.clone(), u64::MAX);
    snapshot.flows = (0..10_000u32)
        .map(|n| FlowRow {
            source: std::net::Ipv4Addr::from(n).into(),
            class: "\x1b[31m\u{202e}|".repeat(9),
            ..call("10.0.0.1", "admitted")
        })
        .collect();
    let mut app = app_of([everything(1), snapshot]);
    let began = Instant::now();
    for view in View::ALL {
        app.view = view;
        for (width, height) in [(80, 24), (20, 8), (1, 1), (300, 100), (0, 0)] {
            let text = picture(&mut app, width, height);
            let harmless = |it: char| it == '\n' || !it.is_control() && it != '\u{202e}';
            assert!(text.chars().all(harmless), "{view:?}: {text:?}");
        }
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    app.view = View::Flows;
    app.press(KeyEvent::from(KeyCode::End));
    let text = picture(&mut app, 80, 24);
    assert!(text.contains("of 10002"), "{text}");
}

#[test]
fn without_colours_what_is_bad_has_a_mark() {
    for plain in [false, true] {
        let mut app = app_of([1, 2].map(everything));
        app.plain = plain;
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
        draw(&mut app, &mut buffer);
        let coloured = buffer.content.iter().any(|it| it.fg != Color::Reset);
        assert_eq!(coloured, !plain);
        let bold = |it: &ratatui_core::buffer::Cell| it.modifier.contains(Modifier::BOLD);
        assert!(buffer.content.iter().any(bold));
        assert!(picture(&mut app, 80, 24).contains("!DOWN: ~"));
    }
}
