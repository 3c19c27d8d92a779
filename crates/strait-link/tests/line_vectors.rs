//! Golden octet streams: what comes of them here. The dissector reads the same file.

use strait_core::rate::LineRate;
use strait_link::{LinkSettings, Receiver, SegmentCheck};

const LINES: &str = include_str!("../../../vectors/link/lines.txt");
const URGENT: &str = include_str!("../../../vectors/link/urgent.txt");
const REPAIRS: &str = include_str!("../../../vectors/link/repairs.txt");

fn octets(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digits).collect()
}

#[test]
fn every_line_gives_its_packets_however_it_is_cut() {
    let settings = LinkSettings::for_rate(LineRate::new(9600, 10), 1500);
    let mut lines = 0;
    for text in LINES.lines().filter(|line| line.contains(" -> ")) {
        let (name, rest) = text.split_once(": ").expect("a name");
        let (line, packets) = rest.split_once(" -> ").expect("an arrow");
        let packets = packets
            .split(' ')
            .map(|hex| (hex != "-").then(|| octets(hex)));
        let expected: Vec<Option<Vec<u8>>> = packets.collect();
        let line = octets(line);
        for piece in [1, 2, line.len()] {
            let mut receiver = Receiver::new(settings);
            let mut came = Vec::new();
            for octets in line.chunks(piece) {
                receiver.feed_octets(octets, |packet| came.push(packet.ok().map(Vec::from)));
            }
            assert_eq!(came, expected, "{name}");
        }
        lines += 1;
    }
    assert_eq!(lines, 7);
}

#[test]
fn segments_with_numbers_give_each_packet_once_and_each_stream_in_order() {
    let settings = LinkSettings::for_rate(LineRate::new(9600, 10), 1500);
    let mut lines = 0;
    for text in REPAIRS.lines().filter(|line| line.contains(" -> ")) {
        let (name, rest) = text.split_once(": ").expect("a name");
        let (line, packets) = rest.split_once(" -> ").expect("an arrow");
        let packets = packets
            .split(' ')
            .map(|hex| (hex != "-").then(|| octets(hex)));
        let expected: Vec<Option<Vec<u8>>> = packets.collect();
        let line = octets(line);
        for piece in [1, line.len()] {
            let mut receiver = Receiver::new(settings);
            receiver.set_numbered(true);
            let mut came = Vec::new();
            for octets in line.chunks(piece) {
                receiver.feed_octets(octets, |packet| came.push(packet.ok().map(Vec::from)));
            }
            assert_eq!(came, expected, "{name}");
        }
        lines += 1;
    }
    assert_eq!(lines, 8);
}

#[test]
fn urgent_frames_are_told_wherever_they_stand() {
    let mut lines = 0;
    for text in URGENT.lines().filter(|line| line.contains(" -> ")) {
        let (name, rest) = text.split_once(": ").expect("a name");
        let (bits, rest) = rest.split_once(' ').expect("bits");
        let (line, packets) = rest.split_once(" -> ").expect("an arrow");
        let packets = packets.split(' ').filter(|hex| *hex != "-");
        let expected: Vec<Vec<u8>> = packets.map(octets).collect();
        let check = match bits {
            "16" => SegmentCheck::Short,
            _ => SegmentCheck::Long,
        };
        let settings = LinkSettings {
            marks: true,
            urgent: Some(check),
            ..LinkSettings::for_rate(LineRate::new(9600, 10), 1500)
        };
        let line = octets(line);
        for piece in [1, 2, line.len()] {
            let mut receiver = Receiver::new(settings);
            let mut came = Vec::new();
            for octets in line.chunks(piece) {
                receiver.feed_octets(octets, |packet| came.extend(packet.ok().map(Vec::from)));
            }
            assert_eq!(came, expected, "{name}");
        }
        lines += 1;
    }
    assert_eq!(lines, 6);
}
