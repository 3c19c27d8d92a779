//! Journals written, read, cut, spoilt and replayed.

mod dice;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use strait_core::id::TxId;
use strait_core::node::{
    Boot, DatagramMeta, DownCause, FrameMeta, Notice, Owner, PortEvent, PortState, SocketId,
    WallTime,
};
use strait_core::rate::LineRate;
use strait_core::{
    ClassId, Duration, Input, Instant, NeighbourId, Neighbours, Node, PortId, Room, TxMeta,
};
use strait_wire::ip;

use self::dice::Dice;
use super::*;
use crate::{Gateway, NodeConfig};

const SETTINGS: JournalSettings = JournalSettings {
    octets_max: u64::MAX,
    mask_payloads: false,
};

const SERIAL: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
"#;

const UDP: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30"]
[[port]]
name = "net"
kind = "udp"
frame = "200 B"
neighbours = [{ name = "b" }, { name = "c", address = "127.0.0.1:7002" }]
[[route]]
prefix = "10.2.0.0/16"
port = "net"
via = "b"
[[route]]
prefix = "10.3.0.0/16"
port = "net"
via = "c"
[policy]
preset = "fifo"
"#;

const NAMES: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30"]
[dns]
listen = ["10.9.0.1:53"]
clients = ["10.1.0.0/24"]
ahead = true
[[dns.partner]]
address = "10.9.0.2"
[[port]]
name = "line"
kind = "serial"
baud = 9600
"#;

const TWO_HOSTS: &str = r#"
name = "a"
[[host]]
addresses = ["10.9.0.1/30"]
[[host]]
name = "ops"
kind = "tap"
interface = "strait1"
addresses = ["10.3.0.1/24"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
"#;

fn boot() -> Boot {
    Boot {
        incarnation: 3,
        entropy: u64::MAX,
        wall: Some(WallTime(1)),
        stored: vec![(vec![1], 0), (vec![], 300)],
    }
}

/// Numbers of all sizes.
fn words() -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![
        any::<u64>(),
        0..300u64,
        Just(u64::MAX),
        Just(i64::MAX as u64)
    ];
    prop::collection::vec(word, 0..20)
}

fn entries(file: &[u8]) -> (Vec<Entry<'_>>, JournalEnd) {
    let mut reader = JournalReader::new(file).unwrap();
    let entries = reader.by_ref().collect();
    (entries, reader.end().unwrap())
}

fn journal(inputs: &[(u64, Input<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = JournalWriter::new(SETTINGS, SERIAL, &boot(), &mut out);
    for (ns, input) in inputs {
        writer.input(Instant::from_nanos(*ns), input, &mut out);
    }
    assert_eq!(writer.written_octets(), out.len() as u64);
    out
}

#[test]
fn the_octets_of_a_small_journal() {
    let mut out = Vec::new();
    let boot = Boot::default();
    let mut writer = JournalWriter::new(SETTINGS, "x", &boot, &mut out);
    writer.input(Instant::from_nanos(300), &Input::Timeout, &mut out);
    let done = Input::TxDone {
        port: PortId(1),
        id: TxId(5),
        to: NeighbourId(3),
        ok: Some(true),
    };
    writer.input(Instant::from_nanos(301), &done, &mut out);
    writer.close(Instant::from_nanos(301), &mut out);
    // Header: program, no flags, text of one octet, first start, no entropy, no wall time, nothing
    // stored.
    let mut header = vec![PROGRAM.len() as u8];
    header.extend_from_slice(PROGRAM.as_bytes());
    header.extend_from_slice(&[0, 1, b'x', 0, 0, 0, 0]);
    let bodies: [&[u8]; 4] = [&header, &[1, 0xac, 2], &[19, 1, 1, 5, 3, 1], &[33, 0, 0]];
    let mut expected = b"straitj\n\x04".to_vec();
    for body in bodies {
        let start = expected.len();
        expected.push(body.len() as u8);
        expected.extend_from_slice(body);
        let check = strait_wire::check::crc32(&expected[start..]);
        expected.extend_from_slice(&check.to_le_bytes());
    }
    assert_eq!(out, expected);
}

#[test]
fn what_concerns_one_of_several_neighbours_has_kinds_of_its_own() {
    let mut out = Vec::new();
    let mut writer = JournalWriter::new(SETTINGS, "x", &Boot::default(), &mut out);
    let before = out.len();
    let rate = Input::Port {
        port: PortId(1),
        event: PortEvent::NeighbourRate(NeighbourId(2), LineRate::new(300, 8)),
    };
    writer.input(Instant::ZERO, &rate, &mut out);
    let room = |to| Room {
        octets: 9,
        starts: Instant::ZERO,
        until: None,
        to,
    };
    let (port, meta) = (PortId(1), TxMeta::to_peer(ClassId(0)));
    let two = Neighbours::from_bits(6);
    for to in [Neighbours::ALL, two] {
        writer.pulled(Instant::ZERO, port, room(to), &meta, b"x", &mut out);
    }
    // Body: kind, no time since the last.
    let kinds = [25, 32, 34];
    let mut at = before;
    for kind in kinds {
        assert_eq!(out[at + 1..at + 3], [kind, 0]);
        at += 1 + usize::from(out[at]) + 4;
    }
    let (found, _) = entries(&out);
    let rooms = found.iter().filter_map(|entry| match entry.record {
        Record::Pulled { room, .. } => Some(room.to),
        _ => None,
    });
    assert_eq!(rooms.collect::<Vec<_>>(), [Neighbours::ALL, two]);
}

#[test]
fn the_header_comes_back() {
    let file = journal(&[]);
    let reader = JournalReader::new(&file).unwrap();
    let expected = Header {
        version: VERSION,
        program: PROGRAM,
        masked: false,
        config: SERIAL,
        boot: boot(),
    };
    assert_eq!(reader.header(), &expected);
    assert_eq!(entries(&file).1, JournalEnd::Open);
}

#[test]
fn what_is_no_journal_is_refused() {
    let error = |file: &[u8]| JournalReader::new(file).unwrap_err();
    assert_eq!(error(b""), HeaderError::Magic);
    assert_eq!(error(b"straitj\n"), HeaderError::Magic);
    assert_eq!(error(b"name = \"a\"\n\n\n"), HeaderError::Magic);
    assert_eq!(error(b"straitj\n\x05rest"), HeaderError::Version(5));
    assert_eq!(error(b"straitj\n\x04\x05abc"), HeaderError::Damaged);
    let mut flags = b"straitj\n\x04".to_vec();
    codec::frame(&[0, 2, 0, 0, 0, 0, 0], &mut flags);
    assert_eq!(error(&flags), HeaderError::Damaged);
}

#[test]
fn a_torn_tail_ends_the_reading_at_the_last_whole_record() {
    let frame = Input::Frame {
        port: PortId(1),
        from: NeighbourId::PEER,
        bytes: &[7; 200],
        meta: FrameMeta::default(),
    };
    let inputs = [(5, Input::Timeout), (9, frame), (10, Input::Timeout)];
    let file = journal(&inputs);
    let offsets: Vec<usize> = entries(&file).0.iter().map(|entry| entry.offset).collect();
    for length in offsets[0]..file.len() {
        let (found, end) = entries(&file[..length]);
        let begun = offsets.iter().filter(|offset| **offset < length).count();
        if let Some(at) = offsets.iter().position(|offset| *offset == length) {
            assert_eq!((found.len(), end), (at, JournalEnd::Open), "at {length}");
        } else {
            let torn = JournalEnd::Torn {
                offset: offsets[begun - 1],
            };
            assert_eq!((found.len(), end), (begun - 1, torn), "at {length}");
        }
    }
    for length in 0..offsets[0] {
        assert!(JournalReader::new(&file[..length]).is_err(), "at {length}");
    }
}

#[test]
fn a_changed_octet_is_noticed() {
    let file = journal(&[(5, Input::Timeout), (6, Input::Wall(WallTime(77)))]);
    let start = entries(&file).0[0].offset;
    for at in start..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x10;
        let (found, end) = entries(&changed);
        assert!(found.len() < 2, "at {at}");
        assert!(matches!(end, JournalEnd::Torn { .. }), "at {at}");
    }
}

#[test]
fn a_record_of_an_unknown_kind_is_skipped() {
    for kind in [0, 4, 6, 9, 14, 16, 31, 99] {
        let mut file = journal(&[(5, Input::Timeout)]);
        codec::frame(&[kind, 3, 1, 2, 3], &mut file);
        codec::frame(&[1, 4], &mut file);
        let (found, end) = entries(&file);
        assert_eq!(end, JournalEnd::Open);
        let found = found.iter().map(|it| (it.now.as_nanos(), &it.record));
        let timeout = Record::Input(Input::Timeout);
        let expected = [
            (5, &timeout),
            (8, &Record::Unknown { kind }),
            (12, &timeout),
        ];
        assert!(found.eq(expected));
    }
}

/// Streams of version 2 aren't understood any more, and the rest is.
#[test]
fn an_older_journal_is_shown_and_not_replayed() {
    let mut file = b"straitj\n\x02".to_vec();
    let bodies: [&[u8]; 4] = [
        &[0, 1, b'x', 0, 0, 0, 0],
        &[1, 0xac, 2],
        &[6, 0, 9, 3],
        &[33, 0, 0],
    ];
    for body in bodies {
        codec::frame(body, &mut file);
    }
    let reader = JournalReader::new(&file).unwrap();
    assert_eq!((reader.header().version, reader.header().program), (2, ""));
    let (found, end) = entries(&file);
    assert_eq!((found.len(), end), (2, JournalEnd::Closed));
    assert_eq!(found[1].record, Record::Unknown { kind: 6 });
    let error = replay(&file).unwrap_err().to_string();
    assert!(error.contains("only that version can repeat"), "{error}");
}

/// Version 3 had values in its header, of which the lengths are shown.
#[test]
fn of_what_was_stored_in_an_older_journal_the_lengths_are_shown() {
    let header = |flags: u8, stored: &[u8]| {
        let mut file = b"straitj\n\x03".to_vec();
        let body = [&[1, b'0', flags, 1, b'x', 0, 0, 0, 1], stored].concat();
        codec::frame(&body, &mut file);
        JournalReader::new(&file)
            .unwrap()
            .header()
            .boot
            .stored
            .clone()
    };
    assert_eq!(header(0, b"\x01k\x03abc"), [(b"k".to_vec(), 3)]);
    assert_eq!(header(1, &[1, 3]), [(vec![], 3)]);
}

#[test]
fn a_record_that_is_not_what_its_kind_says_ends_the_reading() {
    for body in [&[1, 0, 0][..], &[33, 0, 2], &[11, 0, 1], &[]] {
        let mut file = journal(&[(5, Input::Timeout)]);
        let offset = file.len();
        codec::frame(body, &mut file);
        let (found, end) = entries(&file);
        assert_eq!((found.len(), end), (1, JournalEnd::Foreign { offset }));
    }
    // A time that can't be represented.
    let mut file = journal(&[(5, Input::Timeout)]);
    let mut body = vec![1];
    codec::Put {
        out: &mut body,
        masked: false,
    }
    .number(u64::MAX);
    codec::frame(&body, &mut file);
    assert!(matches!(entries(&file).1, JournalEnd::Foreign { .. }));
}

#[test]
fn the_journal_ends_at_its_limit_and_never_beyond() {
    let header = journal(&[]).len() as u64;
    for extra in 0..120 {
        let settings = JournalSettings {
            octets_max: header + extra,
            ..SETTINGS
        };
        let mut out = Vec::new();
        let mut writer = JournalWriter::new(settings, SERIAL, &boot(), &mut out);
        for ns in 0..20 {
            writer.input(Instant::from_nanos(ns), &Input::Timeout, &mut out);
        }
        assert!(writer.is_ended());
        let length = out.len();
        writer.input(Instant::from_secs(1), &Input::Timeout, &mut out);
        writer.close(Instant::from_secs(1), &mut out);
        assert_eq!(out.len(), length);
        let (_, end) = entries(&out);
        assert_eq!(end, JournalEnd::Limit);
        // The ending record is written in any case.
        assert!(length as u64 <= (header + extra).max(header + 8));
    }
}

#[test]
fn masked_payloads_leave_their_lengths() {
    let settings = JournalSettings {
        mask_payloads: true,
        ..SETTINGS
    };
    let secret = [0x5a; 40];
    let mut out = Vec::new();
    let mut boot = boot();
    boot.stored = vec![(secret.to_vec(), 40)];
    let mut writer = JournalWriter::new(settings, SERIAL, &boot, &mut out);
    let frame = Input::Frame {
        port: PortId(1),
        from: NeighbourId::PEER,
        bytes: &secret,
        meta: FrameMeta::default(),
    };
    writer.input(Instant::ZERO, &frame, &mut out);
    let meta = TxMeta::to_peer(ClassId(2));
    let room = Dice([40].iter()).room();
    writer.pulled(Instant::ZERO, PortId(1), room, &meta, &secret, &mut out);
    writer.close(Instant::ZERO, &mut out);
    assert!(!out.windows(3).any(|three| three == &secret[..3]));
    let (found, end) = entries(&out);
    assert_eq!(end, JournalEnd::Closed);
    let lengths: Vec<usize> = found.iter().map(|entry| entry.payload_octets).collect();
    assert_eq!(lengths, [40, 40]);
    let Record::Pulled { octets, room, .. } = &found[1].record else {
        panic!("{found:?}");
    };
    assert_eq!((octets.len(), room.octets), (0, 40));
    assert_eq!(replay(&out), Err(ReplayError::Masked));
}

#[test]
fn a_configuration_survives_being_written() {
    for text in [SERIAL, UDP, TWO_HOSTS, NAMES] {
        let config = NodeConfig::from_text("test.toml", text).unwrap();
        let written = config.to_text().unwrap();
        let again = NodeConfig::from_text("written.toml", &written).unwrap();
        assert_eq!(again, config);
    }
}

proptest! {
    #[test]
    fn every_input_comes_back(
        all in prop::collection::vec((words(), any::<Vec<u8>>(), any::<u64>()), 1..8),
    ) {
        let mut all = all;
        all.sort_by_key(|(.., ns)| *ns);
        let inputs: Vec<_> = all
            .iter()
            .map(|(words, bytes, ns)| (*ns, Dice(words.iter()).input(bytes)))
            .collect();
        let file = journal(&inputs);
        let (found, end) = entries(&file);
        prop_assert_eq!(end, JournalEnd::Open);
        let found: Vec<_> = found
            .into_iter()
            .map(|entry| match entry.record {
                Record::Input(input) => (entry.now.as_nanos(), input),
                other => panic!("{other:?}"),
            })
            .collect();
        prop_assert_eq!(found, inputs);
    }

    #[test]
    fn every_pull_comes_back(words in words(), ns: u64, bytes: Vec<u8>) {
        let mut dice = Dice(words.iter());
        let (port, room, meta) = (PortId(dice.word() as u8), dice.room(), dice.meta());
        let now = Instant::from_nanos(ns);
        let mut out = Vec::new();
        let mut writer = JournalWriter::new(SETTINGS, "", &Boot::default(), &mut out);
        writer.pulled(now, port, room, &meta, &bytes, &mut out);
        let (found, _) = entries(&out);
        let record = Record::Pulled { port, room, meta, octets: &bytes };
        prop_assert_eq!((found[0].now, &found[0].record), (now, &record));
    }

    #[test]
    fn any_octets_give_a_result(bytes: Vec<u8>, framed: bool) {
        let mut file = journal(&[]);
        if framed {
            codec::frame(&bytes, &mut file);
        } else {
            file.extend_from_slice(&bytes);
        }
        let _ = entries(&file);
        let _ = replay(&file);
        let _ = replay(&bytes);
    }
}

/// A driver that records, and has nothing better to do than what the dice say.
struct Driver {
    gateway: Gateway,
    writer: JournalWriter,
    file: Vec<u8>,
    now: Instant,
    pulled: u64,
}

impl Driver {
    fn new(text: &str) -> Self {
        let config = NodeConfig::from_text("test.toml", text).unwrap();
        let mut file = Vec::new();
        let text = config.to_text().unwrap();
        let writer = JournalWriter::new(SETTINGS, &text, &Boot::default(), &mut file);
        let mut driver = Self {
            gateway: Gateway::new(&config).unwrap(),
            writer,
            file,
            now: Instant::ZERO,
            pulled: 0,
        };
        for port in [0, 1] {
            driver.up(PortId(port), 9600);
        }
        driver
    }

    fn up(&mut self, port: PortId, bit_s: u64) {
        let rate = LineRate::new(bit_s, 10);
        let state = PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: 1500,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        };
        let event = PortEvent::Up(state);
        self.give(&Input::Port { port, event });
    }

    fn give(&mut self, input: &Input<'_>) {
        self.writer.input(self.now, input, &mut self.file);
        self.gateway.handle(self.now, input.clone());
    }

    fn pull(&mut self, port: PortId, octets: usize) {
        let room = Room {
            octets,
            starts: self.now + Duration::from_millis(1),
            until: None,
            to: Neighbours::ALL,
        };
        let mut out = Vec::new();
        let Some(meta) = self.gateway.poll_transmit(self.now, port, room, &mut out) else {
            return;
        };
        self.pulled += 1;
        let (writer, file) = (&mut self.writer, &mut self.file);
        writer.pulled(self.now, port, room, &meta, &out, file);
    }

    fn step(&mut self, dice: &mut Dice<'_>) {
        self.now += Duration::from_nanos(dice.below(2_000_000_000));
        match dice.below(16) {
            0 => self.give(&Input::Timeout),
            1 => self.up(PortId(1), 300 + dice.below(100_000)),
            2 => self.give(&Input::Port {
                port: PortId(1),
                event: PortEvent::Down(DownCause::Device),
            }),
            3..8 => {
                let bytes = packet(dice);
                self.give(&Input::Frame {
                    port: PortId::HOST,
                    from: NeighbourId::PEER,
                    bytes: &bytes,
                    meta: FrameMeta::default(),
                });
            }
            _ => {
                let port = PortId(dice.below(8).min(1) as u8);
                self.pull(port, dice.below(2000) as usize);
            }
        }
        while self.gateway.poll_effect().is_some() {}
    }
}

fn packet(dice: &mut Dice<'_>) -> Vec<u8> {
    let dst = ["10.2.0.2:5", "10.3.0.2:5", "10.9.9.9:5"][dice.below(3) as usize];
    let payload = vec![dice.word() as u8; dice.below(1600) as usize];
    let mut bytes = Vec::new();
    let (src, dst) = ("10.1.0.2:5".parse().unwrap(), dst.parse().unwrap());
    ip::build_udp(
        src,
        dst,
        dice.below(64) as u8,
        9,
        7,
        0,
        &payload,
        &mut bytes,
    );
    bytes
}

fn session(text: &str, words: &[u64]) -> Driver {
    let mut driver = Driver::new(text);
    for step in words.chunks(6) {
        driver.step(&mut Dice(step.iter()));
    }
    driver
}

proptest! {
    #[test]
    fn a_run_is_repeated_octet_by_octet(
        words in prop::collection::vec(any::<u64>(), 0..600),
        udp: bool,
    ) {
        let driver = session(if udp { UDP } else { SERIAL }, &words);
        let report = replay(&driver.file).unwrap();
        prop_assert_eq!(report.difference, None);
        prop_assert_eq!(report.end, Some(JournalEnd::Open));
        prop_assert_eq!(report.pulls, driver.pulled);
    }
}

#[test]
fn a_run_with_two_host_sides_is_repeated() {
    const OPS: PortId = PortId(2);
    let mut driver = Driver::new(TWO_HOSTS);
    driver.up(OPS, 1_000_000_000);
    // From the first host side to the line, and to the other one, where its station is asked for.
    for dice in [[0, 0xaa, 100], [1, 0xbb, 200]] {
        let bytes = packet(&mut Dice(dice.iter()));
        driver.give(&Input::Frame {
            port: PortId::HOST,
            from: NeighbourId::PEER,
            bytes: &bytes,
            meta: FrameMeta::default(),
        });
    }
    driver.pull(PortId(1), 2000);
    driver.pull(OPS, 2000);
    driver.writer.close(driver.now, &mut driver.file);
    let report = replay(&driver.file).unwrap();
    assert_eq!(
        (report.difference, report.end),
        (None, Some(JournalEnd::Closed))
    );
    assert_eq!((report.pulls, driver.pulled), (2, 2));
}

#[test]
fn numbers_and_addresses_of_names_are_repeated() {
    let mut driver = Driver::new(NAMES);
    for name in 0..40 {
        let question = [
            b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x02n",
            &[b'0' + name][..],
            b"\0\0\x01\0\x01",
        ];
        driver.give(&Input::Datagram {
            socket: SocketId {
                owner: Owner(258),
                n: 0,
            },
            meta: DatagramMeta {
                src: "10.1.0.2:4000".parse().unwrap(),
                dst: "10.9.0.1:53".parse().unwrap(),
                dscp: 0,
                hop_limit: 64,
            },
            bytes: &question.concat(),
        });
        driver.now += Duration::from_millis(500);
        driver.give(&Input::Timeout);
        driver.pull(PortId(1), 2000);
        while driver.gateway.poll_effect().is_some() {}
    }
    let report = replay(&driver.file).unwrap();
    assert_eq!((report.difference, report.pulls), (None, driver.pulled));
    let stats = driver.gateway.stats().dns.unwrap();
    assert!(driver.pulled >= 40 && stats.asked > 20, "{stats:?}");
    assert_eq!(stats.own.ahead, 40);
}

/// A run with one packet that leaves by a pull, and where in the file its octets stand.
fn one_pull() -> (Vec<u8>, Vec<u8>, usize) {
    let mut driver = Driver::new(SERIAL);
    let bytes = packet(&mut Dice([0, 0xaa, 100].iter()));
    driver.give(&Input::Frame {
        port: PortId::HOST,
        from: NeighbourId::PEER,
        bytes: &bytes,
        meta: FrameMeta::default(),
    });
    let start = driver.file.len();
    driver.pull(PortId(1), 100);
    driver.writer.close(driver.now, &mut driver.file);
    let file = driver.file;
    let (found, _) = entries(&file);
    let offset = found.last().unwrap().offset;
    assert_eq!(offset, start);
    (file, bytes, offset)
}

#[test]
fn a_changed_pull_is_shown_with_its_record() {
    let (file, _, offset) = one_pull();
    let report = replay(&file).unwrap();
    assert_eq!((report.inputs, report.pulls, report.octets), (3, 1, 100));
    assert_eq!(report.difference, None);
    assert_eq!(report.end, Some(JournalEnd::Closed));
    // The same with one octet of the pull changed, and its check made good.
    let mut rest = &file[offset..];
    let mut body = codec::unframe(&mut rest).unwrap().to_vec();
    *body.last_mut().unwrap() ^= 1;
    let mut changed = file[..offset].to_vec();
    codec::frame(&body, &mut changed);
    changed.extend_from_slice(rest);
    let other = replay(&changed).unwrap();
    let difference = other.difference.unwrap();
    assert_eq!((difference.record, difference.port), (4, PortId(1)));
    assert_eq!(difference.octet(), Some(99));
    assert_eq!(
        difference.to_string(),
        "record 4 at 0.000000000s, port 1: 100 octets where 100 were, different from number 99 on"
    );
    let got = difference.got.unwrap();
    assert_eq!(got.meta, difference.expected.meta);
    assert_eq!(got.octets[..99], difference.expected.octets[..99]);
    assert_ne!(got.octets[99], difference.expected.octets[99]);
    assert_eq!((other.end, other.run_hash), (None, report.run_hash));
}

#[test]
fn a_pull_that_gives_nothing_now_is_a_difference() {
    let (file, _, offset) = one_pull();
    let whole = JournalReader::new(&file).unwrap();
    let frame = whole.clone().nth(2).unwrap().offset;
    // Without the frame there is nothing to pull.
    let mut cut = file[..frame].to_vec();
    cut.extend_from_slice(&file[offset..]);
    let difference = replay(&cut).unwrap().difference.unwrap();
    assert_eq!((&difference.got, difference.octet()), (&None, None));
    assert_eq!(
        difference.to_string(),
        "record 3 at 0.000000000s, port 1: nothing where 100 octets were"
    );
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let refused = |config: &str| {
        let mut out = Vec::new();
        JournalWriter::new(SETTINGS, config, &Boot::default(), &mut out);
        replay(&out).unwrap_err()
    };
    assert!(matches!(refused("name = "), ReplayError::Config(_)));
    let invalid = SERIAL.replace("9600", "0");
    assert!(matches!(refused(&invalid), ReplayError::Invalid(_)));
    assert_eq!(replay(b"x"), Err(ReplayError::Header(HeaderError::Magic)));
}
