//! Golden vectors: streams that another implementation has compressed.

use std::fs;
use std::path::Path;

use strait_link::rohc::{Cids, Compressor, Decompressor, Received, Settings};

fn octets(value: &serde_json::Value) -> Vec<u8> {
    let hex = value.as_str().expect("hexadecimal");
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// The events of a stream.
fn stream(name: &str) -> Vec<serde_json::Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors/rohc")
        .join(name);
    let text = fs::read_to_string(path).expect("the vectors are there");
    let lines = text.lines().skip(1);
    lines
        .map(|line| serde_json::from_str(line).expect("each line is an object"))
        .collect()
}

fn decompress_all(name: &str) {
    let mut decompressor = Decompressor::new(Settings::new(Cids::Small(15)));
    let mut out = Vec::new();
    for (number, event) in stream(name).iter().enumerate() {
        if event.get("feedback").is_some() {
            let feedback = octets(&event["feedback"]);
            let mut heard = 0;
            let received = decompressor.decompress(&feedback, &mut out, |_| heard += 1);
            assert_eq!((received, heard), (Ok(Received::Nothing), 1));
            continue;
        }
        if event["withheld"] == true {
            continue;
        }
        out.clear();
        let received = decompressor.decompress(&octets(&event["rohc"]), &mut out, |_| {});
        assert_eq!(received, Ok(Received::Packet), "{name} {number}");
        assert_eq!(out, octets(&event["ip"]), "{name} {number}");
    }
}

const STREAMS: [&str; 9] = [
    "01-ipv6-udp-rtp-voice.jsonl",
    "01-ipv6-udp-rtp-voice-loss.jsonl",
    "02-ipv6-udp.jsonl",
    "04-ipv4-udp-ipid.jsonl",
    "06-ipv6-tcp-bulk.jsonl",
    "07-ipv6-tcp-timestamps.jsonl",
    "10-ipv6-icmpv6-echo.jsonl",
    "12-three-rtp-flows.jsonl",
    "13-omode-ipv6-udp-rtp-voice.jsonl",
];

/// Streams that only decompressors are tried with: each shows one rule.
const RULES: [&str; 11] = [
    "20-uncompressed-ir.jsonl",
    "21-ipv4-icmp-static-id.jsonl",
    "22-ipv4-rtp-static-id.jsonl",
    "23-ipv4-rtp-id-jumps.jsonl",
    "24-ipv4-rtp-stride-kept.jsonl",
    "25-ipv6-tcp-stride-kept.jsonl",
    "26-ipv6-udp-no-checksum.jsonl",
    "27-ipv6-rtp-wrong-checksums.jsonl",
    "28-ipv6-udp-checksums-cease.jsonl",
    "29-ipv6-rtp-padding.jsonl",
    "30-ipv4-rtp-types-by-uo-1-id.jsonl",
];

#[test]
fn every_packet_of_the_vectors_comes_back() {
    STREAMS.into_iter().for_each(decompress_all);
}

#[test]
fn every_rule_that_the_vectors_show_is_kept() {
    RULES.into_iter().for_each(decompress_all);
}

/// Sizes of the compressed forms of a stream's packets without their payloads' octets: ours and
/// the other's.
fn sizes(name: &str) -> (Vec<usize>, Vec<usize>) {
    let settings = Settings::new(Cids::Small(15));
    let (mut compressor, mut decompressor) =
        (Compressor::new(settings), Decompressor::new(settings));
    let mut sizes = (Vec::new(), Vec::new());
    for (number, event) in stream(name).iter().enumerate() {
        if event.get("ip").is_none() {
            continue;
        }
        let packet = octets(&event["ip"]);
        let mut line = Vec::new();
        compressor.compress(0, &packet, &mut line);
        let mut out = Vec::new();
        let received = decompressor.decompress(&line, &mut out, |_| {});
        assert_eq!(received, Ok(Received::Packet), "{name} {number}");
        assert_eq!(out, packet, "{name} {number}");
        let ours = packet.len() as isize - line.len() as isize;
        let theirs = packet.len() as isize - octets(&event["rohc"]).len() as isize;
        sizes.0.push(100usize.saturating_add_signed(-ours));
        sizes.1.push(100usize.saturating_add_signed(-theirs));
    }
    sizes
}

#[test]
fn our_headers_are_no_longer_than_the_others() {
    for name in STREAMS {
        let (mut ours, mut theirs) = sizes(name);
        ours.sort_unstable();
        theirs.sort_unstable();
        let middle = ours.len() / 2;
        assert!(ours[middle] <= theirs[middle], "{name}");
    }
}

#[test]
fn streams_of_every_kind_come_back() {
    let name = "31-every-kind.jsonl";
    let mut decompressor = None;
    let mut kind = String::new();
    for (number, event) in stream(name).iter().enumerate() {
        if let Some(stream) = event.get("stream") {
            kind = stream.to_string();
            decompressor = Some(Decompressor::new(Settings::new(Cids::Small(15))));
            continue;
        }
        let decompressor = decompressor.as_mut().expect("a stream has begun");
        let mut out = Vec::new();
        let received = decompressor.decompress(&octets(&event["rohc"]), &mut out, |_| {});
        assert_eq!(received, Ok(Received::Packet), "{kind} {number}");
        assert_eq!(out, octets(&event["ip"]), "{kind} {number}");
    }
}
