//! The journal's reader and replay.

use strait_node::journal::{JournalEnd, JournalReader, MAGIC, VERSION, replay};
use strait_wire::check::crc32;

/// Any octets as a journal; and any octets as bodies of records whose checks are right.
pub fn journal(data: &[u8]) {
    read(data);
    read(&framed(data));
    let _ = replay(data);
    let _ = replay(&framed(data));
}

fn read(file: &[u8]) {
    let Ok(mut reader) = JournalReader::new(file) else {
        return;
    };
    let mut last = (0, 0);
    for entry in reader.by_ref() {
        assert_eq!(entry.number, last.0 + 1);
        assert!(entry.offset > last.1 && entry.offset < file.len());
        last = (entry.number, entry.offset);
    }
    match reader.end() {
        None => panic!("reading ended without a reason"),
        Some(JournalEnd::Torn { offset } | JournalEnd::Foreign { offset }) => {
            assert_eq!(offset, file.len() - reader.rest_octets());
        }
        Some(JournalEnd::Open) => assert_eq!(reader.rest_octets(), 0),
        Some(JournalEnd::Closed | JournalEnd::Limit) => {}
    }
    assert_eq!(reader.next(), None);
}

/// A header that is sound, and records that line feeds separate.
fn framed(data: &[u8]) -> Vec<u8> {
    let config = crate::gateway::CONFIGS[data.len() % crate::gateway::CONFIGS.len()];
    let mut header = vec![0];
    number(config.len(), &mut header);
    header.extend_from_slice(config.as_bytes());
    header.extend_from_slice(&[0, 0, 0, 0]);
    let mut file = MAGIC.to_vec();
    file.push(VERSION);
    frame(&header, &mut file);
    for body in data.split(|octet| *octet == b'\n') {
        frame(body, &mut file);
    }
    file
}

fn number(value: usize, out: &mut Vec<u8>) {
    let mut value = value;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn frame(body: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    number(body.len(), out);
    out.extend_from_slice(body);
    let check = crc32(&out[start..]);
    out.extend_from_slice(&check.to_le_bytes());
}
