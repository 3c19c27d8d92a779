//! A flow under way costs no allocation: neither in the compressor nor in the decompressor, given
//! buffers that have the room.

use crate::traffic::{Dice, Flow, KINDS, Kind};
use allocation_counter::{AllocationInfo, measure};
use strait_link::rohc::{Beyond, Cids, Peer, Received, Settings};

/// Packets until every habit of a flow is learned, and those that are counted.
const LEARNING: usize = 40;
const COUNTED: usize = 200;

/// What compressing and decompressing `COUNTED` packets of a flow allocates.
fn counted(kind: Kind, beyond: &Beyond) -> [AllocationInfo; 2] {
    let settings = Settings::new(Cids::Small(15));
    let (mut left, mut right) = (Peer::new(settings), Peer::new(settings));
    left.agree(beyond, &[]);
    right.agree(beyond, &[]);
    let mut dice = Dice(3);
    let mut flow = Flow::new(kind, 1, &mut dice);
    (flow.pauses, flow.reroutes) = (0.0, 0.0);
    let packets: Vec<Vec<u8>> = (0..LEARNING + COUNTED)
        .map(|_| flow.next(&mut dice))
        .collect();
    let (learned, rest) = packets.split_at(LEARNING);
    let [mut line, mut out, mut back] = [(); 3].map(|()| Vec::with_capacity(2000));
    for packet in learned {
        for buffer in [&mut line, &mut out, &mut back] {
            buffer.clear();
        }
        left.compress(0, packet, &mut line);
        assert_eq!(right.decompress(&line, &mut out), Ok(Received::Packet));
        right.put_feedback(&mut back);
        assert_eq!(left.decompress(&back, &mut out), Ok(Received::Nothing));
    }
    let mut lines: Vec<Vec<u8>> = (0..COUNTED).map(|_| Vec::with_capacity(2000)).collect();
    let compressing = measure(|| {
        for (packet, line) in rest.iter().zip(&mut lines) {
            left.compress(0, packet, line);
        }
    });
    let decompressing = measure(|| {
        for line in &lines {
            out.clear();
            assert_eq!(right.decompress(line, &mut out), Ok(Received::Packet));
        }
    });
    assert_eq!(out, rest[COUNTED - 1]);
    [compressing, decompressing]
}

#[test]
fn a_flow_under_way_costs_no_allocation() {
    let rebuilt = Beyond {
        far_timestamps: true,
        checksums_rebuilt: true,
        ..Beyond::default()
    };
    for kind in KINDS {
        // A dialogue's options come and go, and with them items of lists.
        if matches!(kind, Kind::Talk4 | Kind::Talk6) {
            continue;
        }
        for beyond in [Beyond::default(), rebuilt.clone()] {
            for info in counted(kind, &beyond) {
                assert_eq!(info.count_total, 0, "{kind:?} {info:?}");
            }
        }
    }
}
