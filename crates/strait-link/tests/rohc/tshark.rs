//! A call's compressed packets as another decoder sees them: `tshark` reads type and number of
//! each. Without `tshark` the test says so and checks nothing.

use std::fs;
use std::process::Command;

use crate::traffic::{Dice, Flow, Kind};
use strait_link::rohc::{Cids, Peer, Profile, Settings};

/// Header compression as an Ethernet type.
const ETHERTYPE: [u8; 2] = [0x22, 0xf1];

/// A capture file of Ethernet frames, a millisecond apart.
fn capture(lines: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (line, millisecond) in lines.iter().zip(0u32..) {
        let octets = line.len() as u32 + 14;
        let time = [millisecond / 1000, millisecond % 1000 * 1000];
        for word in [time[0], time[1], octets, octets] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        file.extend_from_slice(&ETHERTYPE);
        file.extend_from_slice(line);
    }
    file
}

/// What `tshark` says of each frame, if it is there.
fn dissected(name: &str, lines: &[Vec<u8>]) -> Option<Vec<String>> {
    let path = std::env::temp_dir().join(format!("strait-{name}-{}.pcap", std::process::id()));
    fs::write(&path, capture(lines)).expect("a temporary file");
    let output = Command::new("tshark")
        .args(["-n", "-T", "fields", "-e", "_ws.col.Info", "-r"])
        .arg(&path)
        .output();
    fs::remove_file(&path).expect("the temporary file");
    let output = output.ok()?;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn another_decoder_reads_type_and_number_of_every_packet_of_a_call() {
    for kind in [Kind::Voice6, Kind::Voice4] {
        let settings = Settings::new(Cids::Small(15));
        let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
        let mut dice = Dice(11);
        let mut call = Flow::new(kind, 1, &mut dice);
        call.reroutes = 0.0;
        let (mut lines, mut numbers) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let packet = call.next(&mut dice);
            let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
            assert_eq!(left.compress(0, &packet, &mut line), Profile::Rtp);
            right.decompress(&line, &mut out).expect("it arrives");
            right.put_feedback(&mut back);
            left.decompress(&back, &mut out).expect("so does feedback");
            lines.push(line);
            numbers.push(call.sequence as u16);
        }
        let Some(told) = dissected(&format!("{kind:?}"), &lines) else {
            println!("tshark isn't here: nothing was checked");
            return;
        };
        assert_eq!(told.len(), lines.len());
        let mut seen = [0; 4];
        for ((info, number), line) in told.iter().zip(&numbers).zip(&lines) {
            let (at, name, bits) = match line[0] {
                0..0x80 => (0, "UO-0", 4),
                0x80..0xc0 => (1, "UO-1", 4),
                0xc0..0xe0 => (2, "UOR-2", 6),
                _ => (3, "IR", 16),
            };
            seen[at] += 1;
            assert!(info.starts_with(name), "{info}: {line:02x?}");
            assert!(!info.contains("alformed"), "{info}: {line:02x?}");
            if let Some((_, rest)) = info.split_once("(sn=") {
                let sequence: u32 = rest.trim_end_matches(')').parse().expect("a number");
                // Wireshark gives the bits of the base header. Of a number of nine bits, three are
                // in extension 0.
                let split = name == "UOR-2" && line[2] & 0x80 != 0 && line[3] >> 6 == 0;
                let below = if split { 3 } else { 0 };
                let expected = u32::from(*number) >> below & ((1 << bits) - 1);
                assert_eq!(sequence, expected, "{info}: {line:02x?}");
            }
        }
        println!("{kind:?}: UO-0, UO-1, UOR-2, IR and IR-DYN: {seen:?}");
        assert!(seen[0] > 300 && seen[3] > 0, "{seen:?}");
    }
}
