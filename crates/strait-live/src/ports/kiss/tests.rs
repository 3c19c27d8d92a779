//! What a modem is asked for, and what becomes of its answers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use strait_wire::ax25::{IP, NO_LAYER_3};

use super::*;

/// What goes to a modem and comes from it, and whether the way there is full.
#[derive(Clone, Default)]
struct Wire(Rc<RefCell<(Vec<u8>, Vec<u8>)>>, Rc<Cell<bool>>);

impl PortIo for Wire {
    fn open(&mut self, _: Instant) -> Result<PortState, Error> {
        Ok(crate::ports::unpaced())
    }

    fn close(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        if self.1.get() {
            return Err(None);
        }
        Ok(Room {
            octets: usize::MAX,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, _: Instant, _: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        self.0.borrow_mut().0.extend_from_slice(octets);
        Ok(Sent::Taken)
    }

    fn holds(&self) -> bool {
        self.1.get()
    }

    fn flush(&mut self, _: Instant) -> io::Result<()> {
        Ok(())
    }

    fn drained(&mut self, _: Instant) -> bool {
        !self.1.get()
    }

    fn receive(&mut self, _: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        let octets = std::mem::take(&mut self.0.borrow_mut().1);
        buffer[..octets.len()].copy_from_slice(&octets);
        Ok(match octets.len() {
            0 => Received::Nothing,
            octets => Received::Frame {
                from: NeighbourId::PEER,
                octets,
            },
        })
    }

    fn counts(&self) -> IoCounts {
        IoCounts::default()
    }
}

const RATE: LineRate = LineRate::new(8000, 8);

fn port_of(asks: Option<Asks>, stations: Option<Ax25>) -> (KissPort, Wire) {
    let wire = Wire::default();
    let config = KissConfig {
        radio: 1,
        rate: RATE,
        frame_octets_max: 256,
        asks,
        stations,
    };
    (KissPort::new(config, Box::new(wire.clone())), wire)
}

fn port(notice: bool, names: Option<(&str, &str)>) -> (KissPort, Wire) {
    port_of(
        notice.then_some(Asks::Notice),
        names.map(|names| stations(names, &[], NO_LAYER_3)),
    )
}

fn stations((own, peer): (&str, &str), via: &[&str], protocol: u8) -> Ax25 {
    let station = |name: &str| name.parse().unwrap();
    Ax25 {
        own: station(own),
        others: vec![station(peer)],
        via: via.iter().map(|name| station(name)).collect(),
        protocol,
    }
}

impl Wire {
    fn sent(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().0)
    }
}

/// The modem says this.
fn hear(port: &mut KissPort, wire: &Wire, now: Instant, octets: &[u8]) {
    wire.0.borrow_mut().1.extend_from_slice(octets);
    match port.receive(now, &mut [0; 600]).unwrap() {
        Received::Skipped | Received::Left { .. } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn which_frame_has_left_is_told_once() {
    let (mut port, wire) = port(true, None);
    let now = Instant::ZERO;
    let mut meta = TxMeta::to_peer(ClassId(0));
    meta.id = TxId(7);
    assert_eq!(port.transmit(now, &meta, b"a").unwrap(), Sent::Taken);
    wire.0.borrow_mut().1.extend_from_slice(b"\xc0\x1c\0\0\xc0");
    let mut came = || port.receive(now, &mut [0; 600]).unwrap();
    let to = NeighbourId::PEER;
    assert_eq!(came(), Received::Left { id: TxId(7), to });
    wire.0.borrow_mut().1.extend_from_slice(b"\xc0\x1c\0\0\xc0");
    assert_eq!(came(), Received::Skipped);
}

const ASKED: &[u8] = b"\xc0\x16TXBUF:\xc0";

/// A port that asks, open and asked.
fn asking() -> (KissPort, Wire) {
    let (mut port, wire) = port_of(Some(Asks::Queue), None);
    port.open(Instant::ZERO).unwrap();
    assert!(port.room(Instant::ZERO).is_err());
    assert_eq!(port.wake(), Some(Instant::ZERO));
    port.tick(Instant::ZERO).unwrap();
    assert_eq!(wire.sent(), ASKED);
    (port, wire)
}

fn send(port: &mut KissPort, now: Instant, octets: &[u8]) {
    let meta = TxMeta::to_peer(ClassId(0));
    assert_eq!(port.transmit(now, &meta, octets).unwrap(), Sent::Taken);
}

#[test]
fn two_frames_are_in_the_modems_hands_that_gives_notice() {
    let (mut port, wire) = port(true, None);
    let now = Instant::ZERO;
    send(&mut port, now, b"a");
    // Nobody knows so far whether notices come.
    let patience = now + NOTICE_PATIENCE;
    assert_eq!(port.room(now), Err(Some(patience)));
    assert_eq!(wire.sent(), *b"\xc0\x1c\0\0a\xc0");
    // Of another radio; of a number that never was; then the right one.
    for (notice, has_room) in [
        (b"\xc0\x0c\0\0\xc0", false),
        (b"\xc0\x1c\0\x09\xc0", false),
        (b"\xc0\x1c\0\0\xc0", true),
    ] {
        hear(&mut port, &wire, now, notice);
        assert_eq!(port.room(now).is_ok(), has_room);
    }
    send(&mut port, now, b"b");
    assert!(port.room(now).is_ok());
    send(&mut port, now, b"c");
    assert_eq!(port.room(now), Err(Some(patience)));
    hear(&mut port, &wire, now, b"\xc0\x1c\0\x02\xc0");
    assert!(port.room(now).is_ok());
    send(&mut port, now, b"d");
    // Both are waited for in vain; it goes on, as the channel may have been busy.
    let before = Instant::from_nanos(patience.as_nanos() - 1);
    assert_eq!(port.room(before), Err(Some(patience)));
    assert!(port.room(patience).is_ok());
    assert_eq!((port.counts().refused, port.counts().strangers), (2, 1));
    let found = port.found().unwrap();
    assert!(found.text.contains("may hang") && found.lacks);
}

#[test]
fn another_modem_that_gives_no_notice_gets_frames_by_the_rate() {
    let (mut port, wire) = port(true, None);
    send(&mut port, Instant::ZERO, b"a");
    hear(&mut port, &wire, Instant::ZERO, b"\xc0\x1c\0\0\xc0");
    port.close();
    port.open(Instant::ZERO).unwrap();
    send(&mut port, Instant::ZERO, b"b");
    let patience = Instant::ZERO + NOTICE_PATIENCE;
    assert!(port.room(patience).is_ok());
    assert!(port.found().unwrap().text.contains("by the rate"));
}

#[test]
fn dire_wolf_is_asked_for_its_queue_and_one_frame_waits_there() {
    let (mut port, wire) = asking();
    let at = Instant::from_millis;
    assert_eq!(port.room(at(1)), Err(Some(at(3000))));
    // Not an answer: of another radio, without a number, with too long a one.
    for octets in [
        &b"\xc0\x06TXBUF:0\xc0"[..],
        b"\xc0\x16TXBUF:\xc0",
        b"\xc0\x16TXBUF:-1\xc0",
        b"\xc0\x16TXBUF:1000000000\xc0",
        b"\xc0\x16DIREWOLF 1.6\xc0",
    ] {
        hear(&mut port, &wire, at(1), octets);
        assert!(port.room(at(1)).is_err());
    }
    hear(&mut port, &wire, at(1), b"\xc0\x16TXBUF:0\xc0");
    assert!(port.found().unwrap().text.contains("reports its queue"));
    assert!(port.room(at(1)).is_ok());
    send(&mut port, at(1), &[7; 96]);
    assert_eq!(wire.sent()[..2], [0xc0, 0x10], "no notice is asked for");
    // A quarter of the longest frame's 260 ms.
    assert!(port.room(at(1)).is_err());
    assert_eq!(port.wake(), Some(at(66)));
    port.tick(at(66)).unwrap();
    assert_eq!(wire.sent(), ASKED);
    // What is said without a question counts for nothing: here the second zero.
    hear(
        &mut port,
        &wire,
        at(67),
        b"\xc0\x16TXBUF:96\xc0\xc0\x16TXBUF:0\xc0",
    );
    assert!(port.room(at(67)).is_err());
    port.tick(at(131)).unwrap();
    hear(&mut port, &wire, at(132), b"\xc0\x16TXBUF:0\xc0");
    assert!(port.room(at(132)).is_ok());
}

/// Who stops reads nothing more.
#[test]
fn no_answer_is_waited_for_to_stop() {
    let (mut tells, wire) = asking();
    hear(&mut tells, &wire, Instant::ZERO, b"\xc0\x16TXBUF:0\xc0");
    for (mut port, wire) in [(tells, wire), port(true, None)] {
        send(&mut port, Instant::ZERO, &[7; 96]);
        wire.1.set(true);
        assert!(!port.drained(Instant::ZERO));
        wire.1.set(false);
        assert!(port.drained(Instant::ZERO));
    }
}

/// It stops to read in the midst of a frame.
#[test]
fn a_modem_that_takes_no_more_octets_is_found_out() {
    let at = Instant::from_secs;
    for notice in [None, Some(false), Some(true)] {
        let (mut port, wire) = notice.map_or_else(asking, |notice| port(notice, None));
        if notice.is_none() {
            hear(&mut port, &wire, at(0), b"\xc0\x16TXBUF:0\xc0");
        }
        wire.1.set(true);
        send(&mut port, at(1), b"a");
        assert!(port.room(at(2)).is_err());
        let mut silent = (2..40).filter_map(|second| {
            port.flush(at(second)).unwrap();
            let due = port.wake().is_some_and(|wake| wake <= at(second));
            let error = due.then(|| port.tick(at(second)).err())??;
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            Some((second, error.to_string()))
        });
        let (second, why) = silent.next().unwrap();
        match notice {
            None => assert!(second == 12 && why.contains("answer"), "{second} {why}"),
            Some(_) => assert!(second == 31 && why.contains("octets"), "{second} {why}"),
        }
        // Another connection has its own time.
        port.close();
        wire.1.set(false);
        assert_eq!(port.open(at(50)).is_ok(), notice.is_some());
        assert!(port.wake().is_none_or(|wake| wake > at(50)));
    }
    // What leaves in time is no reason.
    let (mut port, wire) = port(false, None);
    wire.1.set(true);
    send(&mut port, at(1), b"a");
    assert_eq!(port.wake(), Some(at(31)));
    wire.1.set(false);
    port.flush(at(30)).unwrap();
    assert_eq!(port.wake(), None);
}

/// A program that was connected to and reads nothing.
#[test]
fn a_full_tcp_connection_is_found_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = crate::ports::tcp_line::TcpLine::new(listener.local_addr().unwrap()).shallow();
    let (mut port, _) = port_of(None, None);
    port.line = Box::new(line);
    port.open(Instant::ZERO).unwrap();
    let mut now = Instant::ZERO;
    while !port.holds() {
        assert!(now < Instant::from_secs(10_000), "it takes all");
        now += Duration::from_secs(1);
        if port.room(now).is_ok() {
            send(&mut port, now, &[7; 256]);
        }
    }
    assert_eq!(port.room(now), Err(None));
    let until = now + NOTICE_PATIENCE;
    assert_eq!(port.wake(), Some(until));
    let error = port.tick(until).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_queue_that_stays_full_is_waited_for_no_longer_than_a_busy_channel() {
    let (mut port, wire) = asking();
    let at = Instant::from_millis;
    hear(&mut port, &wire, at(0), b"\xc0\x16TXBUF:7\xc0");
    send(&mut port, at(0), b"a");
    for second in 1..30 {
        let now = at(second * 1000);
        port.tick(now).unwrap();
        hear(&mut port, &wire, now, b"\xc0\x16TXBUF:999999999\xc0");
        assert_eq!(port.room(now), Err(Some(at(30_000))));
    }
    assert!(port.room(at(30_000)).is_ok());
}

/// Another program keeps Dire Wolf's queue filled, and each second one of its frames leaves.
#[test]
fn others_frames_in_the_queue_dont_stop_ours() {
    let (mut port, wire) = asking();
    let at = Instant::from_millis;
    hear(&mut port, &wire, at(0), b"\xc0\x16TXBUF:0\xc0");
    let mut frames = 0;
    for ms in 0..30_000 {
        if port.room(at(ms)).is_ok() {
            send(&mut port, at(ms), &[7; 196]);
            frames += 1;
        }
        let _ = wire.sent();
        if port.wake().is_some_and(|wake| wake <= at(ms)) {
            port.tick(at(ms)).unwrap();
            let octets = 9000 - ms % 1000;
            let answer = format!("\u{c0}\x16TXBUF:{octets}\u{c0}");
            let answer: Vec<u8> = answer.chars().map(|it| it as u8).collect();
            hear(&mut port, &wire, at(ms), &answer);
        }
    }
    assert!((30..=152).contains(&frames), "{frames}");
}

#[test]
fn a_sound_card_that_swallows_frames_gets_no_more_than_it_can_have_sent_but_one() {
    let (mut port, wire) = asking();
    let at = Instant::from_millis;
    hear(&mut port, &wire, at(0), b"\xc0\x16TXBUF:0\xc0");
    let mut frames = 0;
    for ms in 0..2000 {
        let _ = wire.sent();
        if port.wake().is_some_and(|wake| wake <= at(ms)) {
            port.tick(at(ms)).unwrap();
        }
        if wire.sent() == ASKED {
            hear(&mut port, &wire, at(ms), b"\xc0\x16TXBUF:0\xc0");
        }
        while port.room(at(ms)).is_ok() {
            send(&mut port, at(ms), &[7; 196]);
            frames += 1;
        }
    }
    // At 200 ms each, ten leave in two seconds; one is on the air, one ready.
    assert!((10..=12).contains(&frames), "{frames}");
}

#[test]
fn a_modem_that_gives_notice_at_once_gets_no_more_than_it_can_have_sent_but_one() {
    let (mut port, wire) = port(true, None);
    let at = Instant::from_millis;
    let mut frames = 0_u16;
    for ms in 0..2000 {
        while port.room(at(ms)).is_ok() {
            send(&mut port, at(ms), &[7; 196]);
            let [_, number] = frames.to_be_bytes();
            hear(&mut port, &wire, at(ms), &[0xc0, 0x1c, 0, number, 0xc0]);
            frames += 1;
        }
    }
    assert!((10..=12).contains(&frames), "{frames}");
}

#[test]
fn a_modem_that_gives_no_notice_costs_one_frame_and_that_is_said() {
    for notice in [false, true] {
        let (mut port, wire) = if notice { port(true, None) } else { asking() };
        let at = Instant::from_millis;
        if !notice {
            port.tick(at(2999)).unwrap();
            assert!(port.room(at(2999)).is_err());
            port.tick(at(3000)).unwrap();
        }
        assert!(port.room(at(3000)).is_ok());
        send(&mut port, at(3000), &[7; 96]);
        assert_eq!(wire.sent()[1], if notice { 0x1c } else { 0x10 });
        let again = at(if notice { 33_000 } else { 3100 });
        let again = Instant::from_nanos(again.as_nanos() - u64::from(!notice) * 500_000);
        assert_eq!(port.room(at(3001)), Err(Some(again)));
        assert!(port.room(again).is_ok());
        let found = port.found().unwrap();
        assert_eq!(found.text.contains("may be lost"), notice, "{found:?}");
        assert!(found.lacks);
        assert_eq!(port.counts().refused, u64::from(notice));
        send(&mut port, again, b"b");
        assert_eq!(wire.sent()[1], 0x10);
        // It was slow only.
        hear(&mut port, &wire, again, b"\xc0\x1c\0\0\xc0");
        assert_eq!(port.found().unwrap().text.contains("gives notice"), notice);
    }
}

#[test]
fn a_modem_that_hangs_gets_nothing_more_however_often_it_is_connected_to() {
    let (mut port, wire) = asking();
    let at = Instant::from_millis;
    hear(&mut port, &wire, at(0), b"\xc0\x16TXBUF:0\xc0");
    send(&mut port, at(0), b"a");
    port.tick(at(65)).unwrap();
    assert_eq!(port.tick(at(10_064)).map_err(|it| it.kind()), Ok(()));
    let silent = port.tick(at(10_065)).unwrap_err();
    assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    for second in 11..100 {
        port.close();
        let _ = wire.sent();
        let refused = port.open(at(second * 1000)).err().unwrap().to_string();
        assert!(refused.contains("doesn't answer now"), "{refused}");
        assert!(port.open(at(second * 1000 + 1)).is_err());
        assert_eq!(wire.sent(), ASKED, "one question a connection");
    }
    // What was heard meanwhile is of a link that has restarted since.
    wire.0
        .borrow_mut()
        .1
        .extend_from_slice(b"\xc0\x10stale\xc0\xc0\x16TXBUF:0\xc0");
    assert!(port.open(at(100_000)).is_ok());
    let came = port.receive(at(100_000), &mut [0; 600]).unwrap();
    assert_eq!(came, Received::Nothing);
    assert!(port.room(at(100_000)).is_ok());
}

#[test]
fn a_modem_that_gave_notice_and_hangs_gets_a_frame_in_each_half_minute() {
    let (mut port, wire) = port(true, None);
    send(&mut port, Instant::from_secs(3), b"a");
    hear(&mut port, &wire, Instant::from_secs(3), b"\xc0\x1c\0\0\xc0");
    let mut frames = 0;
    for second in 10..1000 {
        let now = Instant::from_secs(second);
        if port.wake().is_some_and(|wake| wake <= now) {
            port.tick(now).unwrap();
        }
        while port.room(now).is_ok() {
            send(&mut port, now, b"b");
            frames += 1;
        }
    }
    assert!((32..=34).contains(&frames), "{frames}");
    assert!(port.found().unwrap().text.contains("hang"));
}

#[test]
fn another_modem_at_the_same_address_is_asked_anew() {
    let (mut port, wire) = asking();
    port.tick(Instant::from_secs(3)).unwrap();
    assert!(port.found().unwrap().text.contains("by the rate"));
    port.close();
    port.open(Instant::from_secs(4)).unwrap();
    port.tick(Instant::from_secs(4)).unwrap();
    assert_eq!(wire.sent(), ASKED);
    hear(
        &mut port,
        &wire,
        Instant::from_secs(4),
        b"\xc0\x16TXBUF:0\xc0",
    );
    assert!(port.found().unwrap().text.contains("reports its queue"));
}

#[test]
fn a_modem_that_was_held_up_is_known_by_its_late_answer() {
    let (mut port, wire) = asking();
    let at = Instant::from_millis;
    port.tick(at(3000)).unwrap();
    send(&mut port, at(3000), b"a");
    hear(&mut port, &wire, at(3001), b"\xc0\x16TXBUF:0\xc0");
    assert!(port.found().unwrap().text.contains("reports its queue"));
    assert!(port.room(at(3001)).is_ok());
}

#[test]
fn what_comes_unasked_is_limited() {
    let (mut port, wire) = asking();
    let frames = b"\xc0\x10x\xc0".repeat(CAME_MAX + 7);
    wire.0.borrow_mut().1.extend_from_slice(&frames);
    let mut buffer = vec![0; frames.len()];
    let from = NeighbourId::PEER;
    let first = port.receive(Instant::ZERO, &mut buffer).unwrap();
    assert_eq!(first, Received::Frame { from, octets: 1 });
    assert_eq!(
        (port.came.len(), port.counts().strangers),
        (CAME_MAX - 1, 7)
    );
}

#[test]
fn plain_ip_goes_over_repeaters() {
    let names = stations(("A-1", "B-2"), &["R-3"], IP);
    let (mut port, wire) = port_of(None, Some(names));
    send(&mut port, Instant::ZERO, &[0x45, 7]);
    let sent = wire.sent();
    assert_eq!(
        sent[2 + UI_OCTETS + Station::OCTETS - 2..],
        [3, IP, 0x45, 7, 0xc0]
    );
    // Two octets, an address more than usual, and what the modem adds, at 1000 a second.
    let next = Instant::from_millis(2 + 23 + 4);
    assert_eq!(
        port.room(Instant::ZERO),
        Err(Some(Instant::from_nanos(next.as_nanos() - 500_000)))
    );
}

/// The longest `frame` of a node file with eight repeaters, to the radio whose command is escaped.
#[test]
fn the_longest_frame_fits_into_dire_wolfs_2048_octets_even_if_all_is_escaped() {
    let names = stations(("A", "B"), &["R"; REPEATERS_MAX], NO_LAYER_3);
    let (mut port, wire) = port_of(Some(Asks::Notice), Some(names));
    port.config.radio = 12;
    let text = "name = \"a\"\nhost = {}\n[[port]]\nname = \"p\"\nkind = \"kiss\"\n\
                rate = \"9600 bit/s\"\nframe = \"LONG B\"\nkiss.own = \"A\"\n\
                kiss.peer = \"B\"\nkiss.via = [VIA]\n";
    let text = text.replace("VIA", &"\"R\",".repeat(REPEATERS_MAX));
    let valid = |octets: &usize| {
        let text = text.replace("LONG", &octets.to_string());
        let config = strait_node::config_text::parse::<strait_node::NodeConfig>("a", &text);
        config.unwrap().validate().is_ok()
    };
    let longest = (256..4096).rev().find(valid).unwrap();
    port.number = 0xc0c0;
    send(&mut port, Instant::ZERO, &vec![0xc0; longest]);
    let octets = wire.sent().len();
    assert!((1800..=2048).contains(&octets), "{octets}");
}

/// A reliable hop's frames are longer; few of them need so many escapes.
#[test]
fn a_frame_that_overruns_the_modem_by_its_escapes_is_refused() {
    let (mut port, wire) = port(false, None);
    let meta = TxMeta::to_peer(ClassId(0));
    let mut transmit = |octets: &[u8]| port.transmit(Instant::ZERO, &meta, octets).unwrap();
    // Two ends and a command beside the contents.
    assert_eq!(transmit(&[0xc0; 1023]), Sent::Refused);
    assert!(wire.sent().is_empty());
    assert_eq!(transmit(&[&[0xc0; 1022][..], &[1]].concat()), Sent::Taken);
    assert_eq!(wire.sent().len(), 2048);
    assert_eq!(port.counts().refused, 1);
}

#[test]
fn without_notice_the_rate_paces() {
    let (mut port, _) = port(false, None);
    let now = Instant::ZERO;
    send(&mut port, now, &[7; 96]);
    // 96 octets and what the modem adds, at 1000 a second.
    let next = now + Duration::from_millis(100) - AHEAD;
    assert_eq!(port.room(now), Err(Some(next)));
    assert!(port.room(next).is_ok());
    assert!(!port.drained(next) && port.drained(next + AHEAD));
}

#[test]
fn each_of_several_stations_is_a_neighbour() {
    let mut names = stations(("A-1", "B-2"), &[], NO_LAYER_3);
    names.others.push("C-3".parse().unwrap());
    let (mut a, to_a) = port_of(None, Some(names));
    let to = NeighbourId(1);
    let meta = TxMeta {
        to,
        ..TxMeta::to_peer(ClassId(0))
    };
    a.transmit(Instant::ZERO, &meta, b"hello").unwrap();
    let sent = to_a.sent();
    let (mut c, to_c) = port(false, Some(("C-3", "A-1")));
    let mut buffer = [0; 600];
    to_c.0.borrow_mut().1.clone_from(&sent);
    let heard = c.receive(Instant::ZERO, &mut buffer).unwrap();
    let from = NeighbourId::PEER;
    assert_eq!(heard, Received::Frame { from, octets: 5 });
    send(&mut c, Instant::ZERO, b"to all of you");
    to_a.0.borrow_mut().1 = to_c.sent();
    let heard = a.receive(Instant::ZERO, &mut buffer).unwrap();
    assert_eq!(
        heard,
        Received::Frame {
            from: to,
            octets: 13
        }
    );
}

#[test]
fn only_what_the_peer_says_to_us_is_heard() {
    let (mut a, to_a) = port(false, Some(("A-1", "B-2")));
    let (mut b, to_b) = port(false, Some(("B-2", "A-1")));
    send(&mut a, Instant::ZERO, b"hello");
    let sent = to_a.0.borrow().0.clone();
    to_b.0.borrow_mut().1.clone_from(&sent);
    to_a.0.borrow_mut().1 = sent;
    let mut buffer = [0; 600];
    let heard = b.receive(Instant::ZERO, &mut buffer).unwrap();
    let from = NeighbourId::PEER;
    assert_eq!(
        (heard, &buffer[..5]),
        (Received::Frame { from, octets: 5 }, &b"hello"[..])
    );
    let own = a.receive(Instant::ZERO, &mut buffer).unwrap();
    assert_eq!((own, a.counts().strangers), (Received::Skipped, 1));
}
