//! What one packet says of a context that nobody at the other end sent: it holds for that packet,
//! and makes none of those behind it wrong.

use strait_link::rohc::{Cids, Peer, Received, Settings};
use traffic::{Dice, Flow, KINDS, Kind};

mod traffic;

/// Who says it.
#[derive(Clone, Copy, Debug)]
enum Forger {
    /// Who knows nothing of the context, and says all of it.
    Anew,
    /// Who has heard all that was said, and says only what is another now.
    Following,
}

/// A field of IP headers that no transport checksum covers.
#[derive(Clone, Copy, Debug)]
enum Field {
    HopLimit,
    TrafficClass,
}

/// The packet with another value in this field.
fn changed(packet: &[u8], field: Field, by: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    match (packet[0] >> 4, field) {
        (6, Field::HopLimit) => packet[7] ^= by,
        (6, Field::TrafficClass) => packet[1] ^= by << 4,
        (_, Field::HopLimit) => packet[8] ^= by,
        (_, Field::TrafficClass) => packet[1] ^= by,
    }
    if packet[0] >> 4 == 4 {
        packet[10..12].fill(0);
        let words = packet[..20].chunks(2);
        let sum: u32 = words
            .map(|it| u32::from(it[0]) << 8 | u32::from(it[1]))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// The ends of a link, and somebody who hears all that goes there.
struct Link {
    left: Peer,
    right: Peer,
    forger: Peer,
}

impl Link {
    fn new(settings: Settings) -> Self {
        let [left, right, forger] = [(); 3].map(|()| Peer::new(settings));
        Self {
            left,
            right,
            forger,
        }
    }

    /// Sends a packet, and an answer if there is one. What came of it is right, or nothing.
    fn pass(&mut self, packet: &[u8]) -> bool {
        let (mut line, mut out, mut back) = (Vec::new(), Vec::new(), Vec::new());
        self.left.compress(0, packet, &mut line);
        self.forger.compress(0, packet, &mut Vec::new());
        let told = self.right.decompress(&line, &mut out).is_ok();
        assert!(!told || out == packet, "told wrongly");
        if self.right.put_feedback(&mut back) {
            for heard in [&mut self.left, &mut self.forger] {
                let received = heard.decompress(&back, &mut Vec::new());
                assert_eq!(received, Ok(Received::Nothing));
            }
        }
        told
    }

    fn forge(&mut self, forger: Forger, settings: Settings, packet: &[u8]) {
        let mut line = Vec::new();
        match forger {
            Forger::Anew => Peer::new(settings).compress(0, packet, &mut line),
            Forger::Following => self.forger.compress(0, packet, &mut line),
        };
        let told = self.right.decompress(&line, &mut Vec::new());
        assert_eq!(told, Ok(Received::Packet));
    }
}

/// What is lost of the packets behind a forged one, for so many changes.
fn lost(kind: Kind, settings: Settings) -> Vec<usize> {
    let changes = (1..=255).step_by(3).flat_map(|by| {
        let fields = [Field::HopLimit, Field::TrafficClass];
        fields.map(|field| (by, field))
    });
    let forgers = [Forger::Anew, Forger::Following].into_iter().cycle();
    let lost = |((by, field), forger)| {
        let mut dice = Dice(7);
        let mut flow = Flow::new(kind, 1, &mut dice);
        (flow.pauses, flow.reroutes) = (0.0, 0.0);
        let mut link = Link::new(settings);
        assert!((0..30).all(|_| link.pass(&flow.next(&mut dice))));
        let packet = flow.next(&mut dice);
        link.forge(forger, settings, &changed(&packet, field, by));
        (0..12)
            .filter(|_| !link.pass(&flow.next(&mut dice)))
            .count()
    };
    changes.zip(forgers).map(lost).collect()
}

#[test]
fn what_no_checksum_covers_is_never_believed_of_one_packet() {
    for kind in KINDS {
        let settings = Settings::new(Cids::Small(15));
        let lost = lost(kind, settings);
        assert!(lost.iter().all(|it| *it <= 1), "{kind:?} {lost:?}");
    }
}

/// Where nobody can be asked, a short check that fits both leaves it open until all is said anew.
#[test]
fn without_a_way_back_most_of_it_costs_nothing() {
    for kind in KINDS {
        let settings = Settings {
            feedback: false,
            ..Settings::new(Cids::Small(15))
        };
        let lost = lost(kind, settings);
        let unclear = lost.iter().filter(|it| **it > 0).count();
        assert!(unclear <= lost.len() / 5, "{kind:?} {lost:?}");
    }
}
