//! Header compression: any octets to a decompressor, and packets through a pair of ends between
//! which frames are lost and spoilt.

use strait_link::rohc::{Cids, Decompressor, Peer, Received, Settings};

/// The numbering that an octet chooses.
const fn cids(choice: u8) -> Cids {
    match choice % 3 {
        0 => Cids::Small(15),
        1 => Cids::Small(choice / 3 % 4),
        _ => Cids::Large(200),
    }
}

/// Frames whose first octet says how long they are, one after the other, to one decompressor.
pub fn rohc_decompress(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else {
        return;
    };
    let settings = Settings::new(cids(choice));
    let mut decompressor = Decompressor::new(settings);
    let mut peer = Peer::new(settings);
    while let Some((&octets, after)) = rest.split_first() {
        let (line, after) = after.split_at(usize::from(octets).min(after.len()));
        rest = after;
        let mut out = vec![7];
        let received = decompressor.decompress(line, &mut out, |_| {});
        // All headers are made from a context: at most IPv6 and TCP with 40 octets of options.
        assert!(out.len() <= 1 + line.len() + 100);
        assert!(received == Ok(Received::Packet) || out == [7]);
        assert!(decompressor.contexts() <= usize::from(settings.cids.max()) + 1);
        let mut back = Vec::new();
        while decompressor.put_feedback(&mut back) {}
        let _ = peer.decompress(&back, &mut out);
        let _ = peer.decompress(line, &mut out);
        let mut next = Vec::new();
        peer.compress(octets, line, &mut next);
    }
}

/// Packets, each with an octet before it that says what becomes of its frame: packets of the
/// vectors, changed in one place, or the octets themselves. What arrives unspoilt on a context
/// that was never behind comes back as it was.
pub fn rohc_pair(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else {
        return;
    };
    let settings = Settings::new(cids(choice));
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    let mut lossless = true;
    while let Some((head, after)) = rest.split_at_checked(4) {
        rest = after;
        let &[fate, which, at, value] = head else {
            return;
        };
        let packets = crate::seeds::packets();
        let Some((_, packet)) = packets.get(usize::from(which) % packets.len().max(1)) else {
            return;
        };
        let mut packet = packet.clone();
        if let Some(octet) = packet.get_mut(usize::from(at)) {
            *octet = value;
        }
        let mut line = Vec::new();
        left.compress(fate >> 6, &packet, &mut line);
        assert!(line.len() <= packet.len() + Settings::GROWTH_OCTETS_MAX);
        match fate & 0x0f {
            0 => {
                lossless = false;
                continue;
            }
            1 => {
                lossless = false;
                let at = usize::from(value) % line.len();
                line[at] ^= at as u8 | 1;
            }
            _ => {}
        }
        let mut out = Vec::new();
        let received = right.decompress(&line, &mut out);
        if lossless {
            assert_eq!(received, Ok(Received::Packet));
            assert_eq!(out, packet);
        }
        let mut back = Vec::new();
        if fate & 0x10 != 0 {
            right.put_feedback(&mut back);
            out.clear();
            assert_eq!(left.decompress(&back, &mut out), Ok(Received::Nothing));
        }
    }
}
