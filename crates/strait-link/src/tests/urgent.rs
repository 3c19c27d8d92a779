//! Urgent frames inside segments, and segments cut short.

use super::*;

fn adapter() -> LinkSettings {
    LinkSettings {
        marks: true,
        urgent: Some(SegmentCheck::Short),
        ..settings(96)
    }
}

/// A sender, its line and the packets that it gave back.
struct Line {
    ledger: Ledger,
    sender: OctetSender,
    octets: Vec<u8>,
    /// Classes of packets that have left, in order.
    left: Vec<u8>,
}

impl Line {
    fn new(settings: LinkSettings) -> Self {
        Self {
            ledger: Ledger::default(),
            sender: OctetSender::new(settings),
            octets: Vec::new(),
            left: Vec::new(),
        }
    }

    fn begin(&mut self, class: u8, payload: &[u8]) -> Vec<u8> {
        let packet = packet(&mut self.ledger, class, payload);
        let bytes = packet.bytes().to_vec();
        self.sender.begin(usize::from(class), packet, None);
        bytes
    }

    fn urgent(&mut self, payload: &[u8]) -> Vec<u8> {
        let packet = packet(&mut self.ledger, 0, payload);
        let bytes = packet.bytes().to_vec();
        let octets = self
            .sender
            .begin_urgent(Instant::ZERO, packet, None)
            .unwrap();
        assert!(octets >= bytes.len() + 4);
        bytes
    }

    /// Pulls so many octets, as long as there are any.
    fn pull(&mut self, octets: usize) {
        for _ in 0..octets {
            if self.sender.leaving().is_none() {
                return;
            }
            self.sender.pull(1, &mut self.octets);
            if let Some(packet) = self.sender.finish(Instant::ZERO) {
                self.left.push(packet.class.0);
                self.ledger.close(Instant::ZERO, packet, OUT);
            }
        }
    }

    /// Cuts and pulls the packet under way on a stream to its end.
    fn end(&mut self, stream: usize) {
        self.pull(4000);
        while self.sender.cut(Instant::ZERO, stream, false).is_some() {
            self.pull(4000);
        }
    }
}

#[test]
fn an_urgent_packet_leaves_after_any_octet_of_another() {
    let fill: Vec<u8> = (0..=255).collect();
    let mut whole = Line::new(adapter());
    whole.begin(3, &fill);
    whole.end(3);
    let alone = whole.octets.len();
    for after in 0..alone {
        let mut line = Line::new(adapter());
        let bulk = line.begin(3, &fill);
        // 208 octets, then the last 96.
        line.sender.cut(Instant::ZERO, 3, false);
        let first = after.min(line.sender.leaving().unwrap().1);
        line.pull(first);
        if line.sender.leaving().is_none() {
            line.sender.cut(Instant::ZERO, 3, false);
        }
        line.pull(after - first);
        let voice = line.urgent(&[9; 31]);
        assert!(!line.sender.takes_urgent(10));
        let urgent = line.sender.leaving().unwrap();
        assert_eq!(urgent.0, ClassId(0));
        line.pull(urgent.1);
        assert_eq!(line.left, [0], "nothing else between");
        line.end(3);
        assert_eq!(line.octets.len(), alone + urgent.1, "{after} of {alone}");
        let mut receiver = Receiver::new(adapter());
        assert_eq!(received(&mut receiver, &line.octets), [Ok(voice), Ok(bulk)]);
    }
}

#[test]
fn a_packet_goes_in_two_segments_that_are_cut_short_for_others() {
    let mut line = Line::new(adapter());
    let bulk = line.begin(3, &[0x7d; 500]);
    // 548 octets: 452 and 96.
    let cut = line.sender.cut(Instant::ZERO, 3, false).unwrap();
    assert_eq!(cut.octets_left, 96);
    let told = cut.octets;
    line.pull(100);
    let (stream, left) = line.sender.shorten().unwrap();
    assert_eq!(stream, 3);
    let (_, rest) = line.sender.leaving().unwrap();
    // The other half of an escape, at most two octets of check escaped, and a flag.
    assert!(rest <= 1 + 4 + 1, "{rest}");
    assert!(line.sender.shorten().is_none());
    line.pull(rest);
    let other = line.begin(1, b"sooner");
    line.end(1);
    let cut = line.sender.cut(Instant::ZERO, 3, false).unwrap();
    assert_eq!((left - 96, cut.octets_left), (left - 96, 96));
    // What the first cut told of isn't told again, but for the price of the other.
    assert!(told + cut.octets > 452 + 400 && cut.octets < 20, "{cut:?}");
    line.end(3);
    let mut receiver = Receiver::new(adapter());
    assert_eq!(received(&mut receiver, &line.octets), [Ok(other), Ok(bulk)]);
    assert_eq!((line.left, line.ledger.held()), (vec![1, 3], 0));
}

#[test]
fn a_segment_about_to_end_and_a_last_one_are_not_shortened() {
    let mut line = Line::new(adapter());
    line.begin(3, &[1; 500]);
    line.sender.cut(Instant::ZERO, 3, false);
    let (_, octets) = line.sender.leaving().unwrap();
    // Flag, check and seven of payload.
    line.pull(octets - 10);
    assert!(line.sender.shorten().is_none());
    line.pull(10);
    line.sender.cut(Instant::ZERO, 3, false);
    line.pull(1);
    assert!(line.sender.shorten().is_none());
    line.end(3);
    // Before its first octet has left, it is cut behind one.
    line.begin(3, &[1; 500]);
    line.sender.cut(Instant::ZERO, 3, false);
    assert_eq!(line.sender.shorten(), Some((3, 548 - 1)));
    line.end(3);
    let mut receiver = Receiver::new(adapter());
    assert_eq!(received(&mut receiver, &line.octets).len(), 2);
}

#[test]
fn without_urgent_frames_none_begins() {
    let mut line = Line::new(settings(96));
    assert!(!line.sender.takes_urgent(10));
    let packet = packet(&mut line.ledger, 0, b"x");
    let back = line.sender.begin_urgent(Instant::ZERO, packet, None);
    line.ledger.close(Instant::ZERO, back.unwrap_err(), OUT);
}

#[test]
fn an_abandoned_line_gives_the_urgent_packet_back_too() {
    let mut line = Line::new(adapter());
    line.begin(3, &[1; 300]);
    line.sender.cut(Instant::ZERO, 3, false);
    line.urgent(b"now");
    assert_eq!((line.sender.held(), line.sender.suspends()), (2, true));
    let back: Vec<_> = line.sender.abandon().collect();
    assert_eq!(back.len(), 2);
    for packet in back {
        line.ledger
            .drop(Instant::ZERO, packet, strait_core::DropCause::PortDown);
    }
    assert_eq!((line.ledger.held(), line.sender.leaving()), (0, None));
}

/// Three packets of data, with calls inside the first two; the line, the packets, and where the
/// third one begins.
fn busy_line() -> (Vec<u8>, Vec<Vec<u8>>, usize) {
    let mut line = Line::new(LinkSettings {
        marks: true,
        urgent: Some(SegmentCheck::Long),
        // One segment a packet: its check is the long one.
        ..settings(1500)
    });
    let mut sent = Vec::new();
    for number in 0..2u8 {
        sent.push(line.begin(3, &[number | 0x70; 150]));
        line.sender.cut(Instant::ZERO, 3, false);
        for call in 0..3u8 {
            line.pull(40);
            sent.push(line.urgent(&[call | 0x7c; 31]));
            line.pull(90);
        }
        line.end(3);
    }
    let third = line.octets.len();
    sent.push(line.begin(3, &[0x7e; 100]));
    line.end(3);
    (line.octets, sent, third)
}

#[test]
fn one_octet_lost_or_doubled_costs_what_it_stands_in_and_heals_with_the_next_flag() {
    let (line, sent, third) = busy_line();
    let all = received(&mut Receiver::new(adapter_long()), &line);
    assert_eq!(all.iter().flatten().count(), 9);
    for at in 0..line.len() {
        for doubled in [false, true] {
            let mut damaged = line.clone();
            if doubled {
                damaged.insert(at, line[at]);
            } else {
                damaged.remove(at);
            }
            let told = received(&mut Receiver::new(adapter_long()), &damaged);
            let whole: Vec<&Vec<u8>> = told.iter().flatten().collect();
            assert!(
                whole.iter().all(|packet| sent.contains(packet)),
                "octet {at}"
            );
            // The frame that it stood in and the one around; with a flag, the frame behind too.
            assert!(whole.len() >= 9 - 2, "octet {at}: {}", whole.len());
            assert!(at >= third - 1 || whole.contains(&&sent[8]), "octet {at}");
        }
    }
}

fn adapter_long() -> LinkSettings {
    LinkSettings {
        marks: true,
        urgent: Some(SegmentCheck::Long),
        ..settings(1500)
    }
}

proptest! {
    /// Octets damaged, lost and put in at random: what arrives is a packet that was sent.
    #[test]
    fn no_damage_makes_a_packet(
        damage in proptest::collection::vec((0usize..2000, 0u8..3, any::<u8>()), 1..8),
    ) {
        let (mut line, sent, _) = busy_line();
        for (at, kind, octet) in damage {
            let at = at % line.len();
            match kind {
                0 => line[at] = octet,
                1 => line.insert(at, octet),
                _ => {
                    line.remove(at);
                }
            }
        }
        for packet in received(&mut Receiver::new(adapter_long()), &line).into_iter().flatten() {
            prop_assert!(sent.contains(&packet));
        }
    }

    /// Pulls, urgent packets and shortening at random: everything arrives whole.
    #[test]
    fn everything_arrives_whatever_is_suspended_or_cut_short(
        steps in proptest::collection::vec((1usize..200, 0u8..4, any::<u8>()), 1..60),
        chunk in 1usize..40,
    ) {
        let mut line = Line::new(adapter());
        let mut sent = [Vec::new(), Vec::new(), Vec::new()];
        for (octets, what, fill) in steps {
            let stream = usize::from(fill % 2) + 1;
            match what {
                0 if line.sender.takes_urgent(31) => {
                    let packet = line.urgent(&[fill; 31]);
                    sent[0].push(packet);
                }
                1 => {
                    line.sender.shorten();
                }
                2 if !line.sender.is_under_way(stream) => {
                    let packet = line.begin(stream as u8, &vec![fill; 400]);
                    sent[stream].push(packet);
                }
                _ => {}
            }
            if line.sender.leaving().is_none() {
                line.sender.cut(Instant::ZERO, stream, false);
            }
            line.pull(octets);
        }
        line.pull(4000);
        line.end(1);
        line.end(2);
        prop_assert_eq!(line.ledger.held(), 0);
        let mut receiver = Receiver::new(adapter());
        let mut arrived: Vec<Vec<u8>> = Vec::new();
        for piece in line.octets.chunks(chunk) {
            receiver.feed_octets(piece, |told| arrived.push(told.map(<[u8]>::to_vec).unwrap()));
        }
        prop_assert_eq!(arrived.len(), sent.iter().map(Vec::len).sum::<usize>());
        for packets in &sent {
            let of_class = arrived.iter().filter(|packet| packets.contains(packet));
            let mine: Vec<_> = of_class.cloned().collect();
            prop_assert_eq!(&mine, packets);
        }
    }
}

#[test]
fn a_receiver_counts_urgent_frames_and_what_went_on_after_them() {
    let mut line = Line::new(adapter());
    line.begin(3, &[1; 90]);
    line.sender.cut(Instant::ZERO, 3, false);
    line.pull(40);
    line.urgent(&[9; 31]);
    line.pull(1000);
    line.end(3);
    // Between frames, nothing is suspended.
    line.urgent(&[8; 31]);
    line.pull(1000);
    let counted = |octets: &[u8]| {
        let mut receiver = Receiver::new(adapter());
        receiver.feed_octets(octets, |_| ());
        let came = receiver.urgent();
        (came.frames, came.damaged, came.resumed)
    };
    assert_eq!(counted(&line.octets), (2, 0, 1));
    let mut damaged = line.octets.clone();
    let inside = damaged.len() - 10;
    damaged[inside] ^= 1;
    assert_eq!(counted(&damaged), (1, 1, 1));
}
