//! The Wireshark dissector against golden vectors and against what the simulator writes: a second
//! reading of the wire format. Without `tshark` there is nothing to test.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use strait_wire::hbh::{Ack, Content, Map, Session};
use strait_wire::pcapng::{self, Block, Reader, linktype};
use strait_wire::segment::SegmentCheck;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
const SEGMENTS: &str = include_str!("../../../vectors/link/segments.txt");
const LINES: &str = include_str!("../../../vectors/link/lines.txt");
const URGENT: &str = include_str!("../../../vectors/link/urgent.txt");
const REPAIRS: &str = include_str!("../../../vectors/link/repairs.txt");
/// Octets of a serial line as they are.
const USER1: u16 = 148;

fn has_tshark(test: &str) -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped, {test} needs tshark (Debian package tshark)");
    }
    found
}

fn octets(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Installs the dissector into a folder of its own.
fn installed(folder: &Path) -> PathBuf {
    let to = folder.join("plugins");
    let output = Command::new(STRAIT)
        .args(["dissector", "install", "--to"])
        .arg(&to)
        .output()
        .unwrap();
    assert!(output.status.success());
    let printed = Command::new(STRAIT).arg("dissector").output().unwrap();
    let path = to.join("strait.lua");
    assert_eq!(fs::read(&path).unwrap(), printed.stdout);
    path
}

/// The values of fields in each frame of a capture; of a field that occurs several times, all.
fn fields(folder: &Path, capture: &Path, names: &[&str], options: &[&str]) -> Vec<Vec<String>> {
    let lua = installed(folder);
    let mut command = Command::new("tshark");
    command
        .arg("-X")
        .arg(format!("lua_script:{}", lua.display()));
    command.arg("-r").arg(capture).args(options);
    command.args(["-T", "fields", "-E", "separator=|", "-E", "aggregator=,"]);
    for name in names {
        command.args(["-e", name]);
    }
    let output = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    assert!(!complaints.contains("Lua"), "{complaints}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines();
    rows.map(|row| row.split('|').map(String::from).collect())
        .collect()
}

fn capture(path: &Path, linktype: u16, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    pcapng::section(&mut file, "test");
    pcapng::interface(&mut file, linktype, 65_535, "line");
    for (time_ns, frame) in (0u64..).zip(frames) {
        let length = frame.len() as u32;
        pcapng::packet(&mut file, 0, time_ns, frame, length, None);
    }
    fs::write(path, file).unwrap();
}

#[test]
fn segments_with_numbers_are_read_in_whatever_order() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for text in REPAIRS.lines().filter(|line| line.contains(" -> ")) {
        let (name, rest) = text.split_once(": ").unwrap();
        let (line, packets) = rest.split_once(" -> ").unwrap();
        let expected: Vec<&str> = packets.split(' ').filter(|hex| *hex != "-").collect();
        let path = folder.path().join(format!("{name}.pcapng"));
        capture(&path, USER1, &[octets(line)]);
        let rows = fields(
            folder.path(),
            &path,
            &["strait.packet", "strait.number"],
            &[],
        );
        let came: Vec<&str> = rows[0][0].split(',').collect();
        assert_eq!(came, expected, "{name}");
        let numbers = match name {
            "late" => "0,2,1",
            "passing" => "0,2,3,1",
            "note" => "",
            _ => continue,
        };
        assert_eq!(rows[0][1], numbers, "{name}");
    }
    let note = REPAIRS.lines().find_map(|line| line.strip_prefix("note: "));
    let (line, _) = note.unwrap().split_once(" -> ").unwrap();
    let path = folder.path().join("told.pcapng");
    capture(&path, USER1, &[octets(line)]);
    let names = [
        "wish", "asks", "answers", "from", "next", "base", "last", "came",
    ];
    let names = names.map(|name| format!("strait.note.{name}"));
    let names = names.each_ref().map(String::as_str);
    let rows = fields(folder.path(), &path, &names, &[]);
    assert_eq!(rows, [["1", "1", "2", "250", "3", "7", "10", "9,10"]]);
}

#[test]
fn golden_segments_are_read() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let frames: BTreeMap<&str, Vec<u8>> = SEGMENTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, hex)| (name, octets(hex)))
        .collect();
    let order = [
        "whole_short",
        "whole_long",
        "piece_first",
        "piece_middle",
        "piece_last",
        "empty_first",
    ];
    let sent: Vec<Vec<u8>> = order.iter().map(|name| frames[name].clone()).collect();
    let path = folder.path().join("segments.pcapng");
    capture(&path, linktype::USER0, &sent);
    let names = [
        "strait.first",
        "strait.last",
        "strait.stream",
        "strait.sequence",
        "strait.payload",
        "strait.check_bits",
        "strait.check_ok",
        "strait.packet",
        "strait.packet.segments",
    ];
    let rows = fields(folder.path(), &path, &names, &[]);
    let voice = "766f696365";
    let whole = "61206c6f6e676572207061636b6574";
    let expected = [
        ["1", "1", "2", "1", voice, "16", "1", voice, "1"],
        ["1", "1", "2", "1", voice, "32", "1", voice, "1"],
        ["1", "0", "6", "7", "61206c6f6e", "16", "1", "", ""],
        ["0", "0", "6", "0", "6765722070", "16", "1", "", ""],
        ["0", "1", "6", "1", "61636b6574", "32", "1", whole, "3"],
        ["1", "0", "0", "0", "", "16", "1", "", ""],
    ];
    assert_eq!(rows, expected);
    // Any bit that is wrong is seen, those of the header too.
    let whole = &frames["whole_long"];
    let damaged = (0..whole.len() * 8).map(|bit| {
        let mut octets = whole.clone();
        octets[bit / 8] ^= 1 << (bit % 8);
        octets
    });
    let damaged: Vec<Vec<u8>> = damaged.collect();
    let path = folder.path().join("damaged.pcapng");
    capture(&path, linktype::USER0, &damaged);
    let rows = fields(folder.path(), &path, &["strait.check_ok"], &[]);
    assert_eq!(rows, vec![["0"]; damaged.len()]);
}

#[test]
fn golden_lines_are_read() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut lines, mut expected) = (Vec::new(), Vec::new());
    for text in LINES.lines().filter(|line| line.contains(" -> ")) {
        let (_, rest) = text.split_once(": ").unwrap();
        let (line, packets) = rest.split_once(" -> ").unwrap();
        let packets: Vec<&str> = packets.split(' ').filter(|hex| *hex != "-").collect();
        lines.push(octets(line));
        expected.push([packets.join(",")]);
    }
    // What a line leaves unfinished is the next one's to give up, so each has a capture.
    for (line, expected) in lines.into_iter().zip(expected) {
        let path = folder.path().join("line.pcapng");
        capture(&path, USER1, &[line]);
        let rows = fields(folder.path(), &path, &["strait.packet"], &[]);
        assert_eq!(rows, [expected]);
    }
}

#[test]
fn golden_urgent_frames_are_read() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for text in URGENT.lines().filter(|line| line.contains(" -> ")) {
        let (name, rest) = text.split_once(": ").unwrap();
        let (bits, rest) = rest.split_once(' ').unwrap();
        let (line, packets) = rest.split_once(" -> ").unwrap();
        let packets: Vec<&str> = packets.split(' ').filter(|hex| *hex != "-").collect();
        let path = folder.path().join("urgent.pcapng");
        let setting = format!("strait_urgent.check:{bits} bits");
        let line = octets(line);
        // As one record, and octet by octet.
        capture(&path, linktype::USER2, std::slice::from_ref(&line));
        let rows = fields(folder.path(), &path, &["strait.packet"], &["-o", &setting]);
        assert_eq!(rows, [[packets.join(",")]], "{name}");
        let single: Vec<Vec<u8>> = line.iter().map(|octet| vec![*octet]).collect();
        capture(&path, linktype::USER2, &single);
        let rows = fields(folder.path(), &path, &["strait.packet"], &["-o", &setting]);
        let told: Vec<String> = rows
            .concat()
            .into_iter()
            .filter(|row| !row.is_empty())
            .collect();
        assert_eq!(told, packets, "{name}");
    }
}

/// A scenario file of the project with some of its text changed, run with captures.
fn simulated(folder: &Path, file: &str, changes: &[[&str; 2]]) -> PathBuf {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = fs::read_to_string(files.join(file)).unwrap();
    let mut text = text.replace("\"../", &format!("\"{}/", files.to_str().unwrap()));
    for [from, to] in changes {
        assert!(text.contains(from), "{file}: {from}");
        text = text.replace(from, to);
    }
    let scenario = folder.join("scenario.toml");
    fs::write(&scenario, text).unwrap();
    let captures = folder.join("captures");
    let output = Command::new(STRAIT)
        .args(["sim", "--json", "--pcap"])
        .args([&captures, &scenario])
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    captures
}

/// What a node sent on interfaces of one link type.
fn sent(path: &Path, wanted: u16) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap();
    let (mut kinds, mut frames) = (Vec::new(), Vec::new());
    for block in Reader::new(&file) {
        match block.unwrap() {
            Block::Interface(interface) => kinds.push(interface.linktype),
            Block::Packet(packet) if kinds[packet.interface as usize] == wanted => {
                frames.push(packet.bytes.to_vec());
            }
            _ => {}
        }
    }
    frames
}

#[test]
fn what_the_simulator_sends_is_read_and_made_whole() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shorter = ["duration = \"240 s\"", "duration = \"75 s\""];
    let captures = simulated(folder.path(), "studies/headers.toml", &[shorter]);
    let names = [
        "strait.check_ok",
        "strait.packet",
        "strait.packet.kind",
        "ipv6.src",
    ];
    let link = ["-Y", "strait"];
    let rows = fields(
        folder.path(),
        &captures.join("strait-a.pcapng"),
        &names,
        &link,
    );
    assert!(rows.len() > 400 && rows.iter().all(|row| row[0] == "1"));
    let told: Vec<Vec<u8>> = rows
        .iter()
        .filter(|row| !row[1].is_empty())
        .map(|row| {
            assert_eq!((row[2].as_str(), row[3].as_str()), ("IPv6", "fd00:1::2"));
            octets(&row[1])
        })
        .collect();
    // The other gateway passes the same packets on in the order of arrival; one more may have been
    // under way at the end.
    let passed = sent(&captures.join("strait-b.pcapng"), linktype::RAW);
    assert!(passed.len() > 300 && told.len() - passed.len() <= 1);
    assert!(told[..passed.len()] == passed);

    // Compressed headers go to the dissector that knows them.
    let names = ["strait.check_ok", "strait.packet.kind", "frame.protocols"];
    let rows = fields(
        folder.path(),
        &captures.join("rohc-a.pcapng"),
        &names,
        &link,
    );
    assert!(rows.len() > 300 && rows.iter().all(|row| row[0] == "1"));
    let compressed = rows.iter().filter(|row| row[1] == "ROHC");
    assert!(compressed.clone().all(|row| row[2].contains("rohc")));
    assert!(compressed.count() > 300);
}

#[test]
fn calls_inside_other_frames_are_read_as_the_simulator_sends_them() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let captures = simulated(folder.path(), "lab/adapter.toml", &[]);
    let capture = captures.join("strait-a.pcapng");
    let names = [
        "strait_urgent.check_ok",
        "strait_urgent.inside",
        "strait.check_ok",
        "strait.packet.kind",
    ];
    let rows = fields(folder.path(), &capture, &names, &["-Y", "strait_urgent"]);
    let column = |at: usize| {
        let values = rows.iter().flat_map(move |row| row[at].split(','));
        values.filter(|value| !value.is_empty())
    };
    let urgent = column(0).count();
    assert!(urgent > 150 && column(0).all(|right| right == "1"));
    assert!(column(1).filter(|inside| *inside == "1").count() > urgent / 4);
    let others = column(2).count();
    assert!(others > 20 && column(2).all(|right| right == "1"));
    assert!(column(3).filter(|kind| *kind == "ROHC").count() > urgent);
}

/// A segment of one packet with a check of 32 bits.
fn whole(packet: &[u8]) -> Vec<u8> {
    let body = [&[0xc0], packet].concat();
    let check = strait_wire::check::Crc32Sum::new().update(&body).finish();
    [body, check.to_le_bytes().into()].concat()
}

#[test]
fn hellos_are_read_as_the_format_says() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hellos.pcapng");
    // The example of the documented format, then one with every field and one that isn't known.
    let first = octets("f90101810f000000070000000005dc01020101");
    let second = octets(concat!(
        "f90201c70f01020304a0b0c0d00500",
        "01020601",
        "02081122334455667788",
        "030463eff142",
        "040d010a0b0c0d1a1b1c1d2a2b2c2d",
        "6301ff"
    ));
    let cut = first[..first.len() - 1].to_vec();
    capture(
        &path,
        linktype::USER0,
        &[first, second, cut].map(|it| whole(&it)),
    );
    let names = [
        "strait.packet.kind",
        "strait.hello.newest",
        "strait.hello.compresses",
        "strait.hello.was_heard",
        "strait.hello.counts",
        "strait.hello.rebuilds",
        "strait.hello.far",
        "strait.hello.incarnation",
        "strait.hello.heard",
        "strait.hello.mtu",
        "strait.hello.short_real_time",
        "strait.hello.urgent",
        "strait.hello.streams",
        "strait.hello.known_received",
        "strait.hello.dictionary",
        "strait.hello.remembered_sent",
        "strait.hello.remembered_received",
        "strait.hello.field",
        "_ws.expert",
    ];
    let rows = fields(folder.path(), &path, &names, &[]);
    let cut = [
        "hello",
        "1",
        "1",
        "0",
        "0",
        "0",
        "1",
        "0x00000007",
        "0x00000000",
        "1500",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
    ];
    assert_eq!(
        rows[0][..18],
        [
            "hello",
            "1",
            "1",
            "0",
            "0",
            "0",
            "1",
            "0x00000007",
            "0x00000000",
            "1500",
            "1",
            "0",
            "0x01",
            "",
            "",
            "",
            "",
            ""
        ]
    );
    assert_eq!(
        rows[1][..18],
        [
            "hello",
            "2",
            "1",
            "1",
            "1",
            "1",
            "1",
            "0x01020304",
            "0xa0b0c0d0",
            "1280",
            "0",
            "1",
            "0x01",
            "0x55667788",
            "0x63eff142",
            "0x0a0b0c0d",
            "0x1a1b1c1d,0x2a2b2c2d",
            "6301ff"
        ]
    );
    assert_eq!(rows[2][..18], cut);
    assert!(rows[2][18].contains("Hello ends within a field"));
    assert!(rows[..2].iter().all(|row| row[18].is_empty()));
}

#[test]
fn compressed_payloads_are_read_as_the_simulator_sends_them() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain_headers = [
        "payload = \"deflate\"",
        "payload = \"deflate\", compression = \"none\"",
    ];
    let captures = simulated(folder.path(), "lab/payload.toml", &[plain_headers]);
    let names = ["strait.packet.kind", "strait.inflated", "ipv6.src"];
    let capture = captures.join("deflate-a.pcapng");
    let rows = fields(folder.path(), &capture, &names, &["-Y", "strait.inflated"]);
    let read: Vec<Vec<u8>> = rows.iter().map(|row| octets(&row[1])).collect();
    assert!(read.len() > 15);
    // All of them, and no other, are packets that the other gateway passes on, in this order.
    let passed = sent(&captures.join("deflate-b.pcapng"), linktype::RAW);
    let mut rest = passed.iter();
    for (packet, row) in read.iter().zip(&rows) {
        assert!(rest.any(|it| it == packet), "{row:?}");
        assert_eq!(row[2], "fd00:1::2");
    }
}

/// Frames of reliable hops, with 5 % of them lost: packets that are told by earlier headers become
/// what the first gateway was given.
#[test]
fn reliable_hops_are_read_as_the_simulator_sends_them() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let captures = simulated(folder.path(), "lab/hbh-chain.toml", &[]);
    let names = [
        "strait_hbh.check_ok",
        "strait_hbh.kind",
        "strait_hbh.packet",
        "strait_hbh.before",
        "strait_hbh.relative",
        "tcp.flags.syn",
    ];
    let hops = ["-Y", "strait_hbh"];
    let path = captures.join("strait-a.pcapng");
    let rows = fields(folder.path(), &path, &names, &hops);
    assert!(rows.len() > 200 && rows.iter().all(|row| row[0] == "1"));
    let given = sent(&captures.join("strait-ha.pcapng"), linktype::RAW);
    let new = rows
        .iter()
        .filter(|row| !row[2].is_empty() && row[3].is_empty());
    // A SYN's longest segment is lowered on the way.
    let data: Vec<Vec<u8>> = new
        .filter(|row| !row[5].starts_with('1'))
        .map(|row| octets(&row[2]))
        .collect();
    assert!(data.len() > 60 && data.iter().all(|packet| given.contains(packet)));
    assert!(rows.iter().filter(|row| !row[4].is_empty()).count() > 50);
    assert!(rows.iter().any(|row| !row[3].is_empty()), "5 % are lost");

    // Any bit of a frame, and every length.
    let frames = sent(&path, linktype::USER3);
    let hellos = frames.iter().filter(|frame| frame[0] == 0x0b).cloned();
    let content = frames.iter().filter(|frame| frame[0] >= 0x80);
    let shortest = content.min_by_key(|frame| frame.len()).unwrap();
    let mut all: Vec<Vec<u8>> = hellos.collect();
    let before = all.len();
    all.push(shortest.clone());
    all.extend((0..shortest.len() * 8).map(|bit| {
        let mut octets = shortest.clone();
        octets[bit / 8] ^= 1 << (bit % 8);
        octets
    }));
    all.extend((1..shortest.len()).map(|length| shortest[..length].to_vec()));
    let path = folder.path().join("damaged.pcapng");
    capture(&path, linktype::USER3, &all);
    let rows = fields(folder.path(), &path, &["strait_hbh.check_ok"], &[]);
    assert!(rows[..=before].iter().all(|row| row[0] == "1"));
    assert!(rows[before + 1..].iter().all(|row| row[0] != "1"));
}

/// A capture that begins later has no hello, which tells the octets of checks.
#[test]
fn checks_of_reliable_hops_are_found_without_hellos() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let names = Session {
        sender: 0x1234_5678,
        receiver: 0x9abc_def0,
    };
    let frame = |check: SegmentCheck, next: u16| {
        let ack = Ack {
            next,
            newest: next,
            map: Map::new(0),
            prompt: false,
        };
        let content = Content {
            ack: Some(ack),
            ..Content::default()
        };
        let mut out = Vec::new();
        content.emit(check, names, &mut out);
        out
    };
    for (check, octets) in [(SegmentCheck::Long, 4), (SegmentCheck::Short, 2)] {
        let path = folder.path().join("late.pcapng");
        let frames: Vec<Vec<u8>> = (700..720).map(|next| frame(check, next)).collect();
        capture(&path, linktype::USER3, &frames);
        let rows = fields(folder.path(), &path, &["strait_hbh.check"], &[]);
        let right = rows.iter().zip(&frames).map(|(row, frame)| {
            let told = u32::from_str_radix(row[0].trim_start_matches("0x"), 16).unwrap();
            let mut sent = [0; 4];
            sent[..octets].copy_from_slice(&frame[frame.len() - octets..]);
            told == u32::from_le_bytes(sent)
        });
        // The first of 16 bits has none beside it that would tell.
        let known = if octets == 4 { 0 } else { 1 };
        assert!(right.skip(known).all(|right| right), "{octets}: {rows:?}");
    }
}

/// Numbers are a link's: two neighbours of one port have the same, for packets of their own.
#[test]
fn neighbours_of_one_port_are_told_apart() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = "kind = \"udp\"";
    let hops = "kind = \"udp\"\nprofile = \"hbh\"\nmtu = \"1400 B\"";
    let port = |name: &str, kind: &str| format!("name = \"{name}\"\n{kind}");
    let [hub, hub_hops] = [plain, hops].map(|kind| port("radio", kind));
    let [end, end_hops] = [plain, hops].map(|kind| port("up", kind));
    let changes = [
        [hub.as_str(), hub_hops.as_str()],
        [end.as_str(), end_hops.as_str()],
        ["7001 bit/s", "70010 bit/s"],
    ];
    let file = "regressions/shared-port-rounding.toml";
    let captures = simulated(folder.path(), file, &changes);
    let names = [
        "strait_hbh.check_ok",
        "strait_hbh.packet",
        "strait_hbh.relative",
    ];
    let path = captures.join("strait-hub.pcapng");
    let rows = fields(folder.path(), &path, &names, &["-Y", "strait_hbh"]);
    assert!(rows.len() > 200 && rows.iter().all(|row| row[0] == "1"));
    let given = sent(&captures.join("strait-h0.pcapng"), linktype::RAW);
    let packets = rows.iter().filter(|row| !row[1].is_empty());
    assert!(packets.clone().all(|row| given.contains(&octets(&row[1]))));
    assert!(packets.filter(|row| !row[2].is_empty()).count() > 100);
}

/// Whoever may send hellos tells of as many lives as he likes.
#[test]
fn hellos_explain_no_frame_that_is_not_theirs() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hello = |life: u32| {
        let mut octets = vec![0x0b, 2, 1];
        octets.extend(life.to_be_bytes());
        octets.extend((life + 1).to_be_bytes());
        let check = strait_wire::check::crc16(&octets);
        octets.extend(check.to_le_bytes());
        octets
    };
    let mut frames: Vec<Vec<u8>> = (1..400).map(hello).collect();
    let hellos = frames.len();
    frames.extend((0..100).map(|it| vec![0x90, 0, it, 0, it, 1, 2]));
    let path = folder.path().join("lives.pcapng");
    capture(&path, linktype::USER3, &frames);
    let rows = fields(folder.path(), &path, &["strait_hbh.check_ok"], &[]);
    assert!(rows[..hellos].iter().all(|row| row[0] == "1"));
    assert!(rows[hellos..].iter().all(|row| row[0] == "0"));
}

#[test]
fn parity_of_reliable_hops_is_read() {
    if !has_tshark("the dissector") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let captures = simulated(folder.path(), "lab/hbh-parity.toml", &[]);
    let path = captures.join("strait-a.pcapng");
    let names = ["strait_hbh.check_ok", "strait_hbh.others"];
    let parity = ["-Y", "strait_hbh.kind == \"parity\""];
    let rows = fields(folder.path(), &path, &names, &parity);
    assert!(rows.len() > 50 && rows.iter().all(|row| row[0] == "1"));
    // Each is behind three packets: the first, and two others.
    let three = rows.iter().filter(|row| row[1].split(',').count() == 2);
    assert!(three.count() * 2 > rows.len());
}

#[test]
fn what_routers_say_is_read_whole() {
    if !has_tshark("OLSR") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let captures = simulated(folder.path(), "manet/walk.toml", &[]);
    let capture = captures.join("strait-s.pcapng");
    let names = ["olsr.message_type"];
    let rows = fields(folder.path(), &capture, &names, &["-Y", "olsr"]);
    let types = |kind: &str| {
        let has = |row: &&Vec<String>| row[0].split(',').any(|it| it == kind);
        rows.iter().filter(has).count()
    };
    // Hellos, whom it reaches, and the networks of others that it passes on.
    let counts = ["1", "2", "4"].map(types);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    let malformed = ["-Y", "olsr && _ws.malformed"];
    assert_eq!(
        fields(folder.path(), &capture, &names, &malformed),
        [[""; 0]; 0]
    );
}
