//! Payload compression: any octets to a decompressor, and the same as a payload there and back.

use std::cell::RefCell;

use strait_link::payload::{Deflater, Dictionary, Inflater, MARK, Payload};
use strait_wire::ip::{PacketInfo, build_udp};

use crate::seeds::Seed;

/// The longest packet of the port.
const OCTETS_MAX: usize = 1600;

thread_local! {
    static ENDS: RefCell<(Deflater, Inflater)> = RefCell::new({
        let dictionary = Dictionary::built_in();
        (Deflater::new(&dictionary), Inflater::new(&dictionary, OCTETS_MAX))
    });
}

/// The octets as they come, and behind a mark; then as the payload of a packet.
pub fn payload(data: &[u8]) {
    ENDS.with_borrow_mut(|(deflater, inflater)| {
        let marked = [&[MARK], data].concat();
        for line in [data, &marked] {
            if let Ok(plain) = inflater.inflate(line) {
                assert!(plain.len() <= OCTETS_MAX && line[0] == MARK);
            }
        }
        let (from, to) = (([10, 0, 0, 1], 5000).into(), ([10, 0, 0, 2], 80).into());
        let mut packet = Vec::new();
        let octets = data.len().min(OCTETS_MAX - 28);
        build_udp(from, to, 0, 64, 0, 0, &data[..octets], &mut packet);
        let info = PacketInfo::parse(&packet).expect("a packet of our own");
        let mut line = Vec::new();
        if deflater.deflate(&info, &packet, &mut line) == Payload::Shorter {
            assert!(line.len() < packet.len());
            assert_eq!(inflater.inflate(&line), Ok(&packet[..]));
        }
    });
}

/// Texts, and what becomes of them.
pub fn seeds() -> Vec<Seed> {
    let dictionary = Dictionary::built_in();
    let mut deflater = Deflater::new(&dictionary);
    let mut all = Vec::new();
    for (number, text) in dictionary.octets().chunks(1400).enumerate() {
        let (from, to) = (([10, 0, 0, 1], 5000).into(), ([10, 0, 0, 2], 80).into());
        let (mut packet, mut line) = (Vec::new(), Vec::new());
        build_udp(from, to, 0, 64, 0, 0, text, &mut packet);
        let info = PacketInfo::parse(&packet).expect("a packet of our own");
        if deflater.deflate(&info, &packet, &mut line) == Payload::Shorter {
            all.push((format!("compressed-{number}"), line[1..].to_vec()));
        }
        all.push((format!("text-{number}"), text.to_vec()));
    }
    all
}
