use super::*;
use crate::leaf::QueueConfig;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::{format, vec};
use core::net::SocketAddr;

use proptest::collection::vec as many;
use proptest::prelude::*;
use strait_core::fate::Origin;
use strait_core::units::{Octets, Time};
use strait_core::{Duration, Fate, Ledger, PortId};
use strait_wire::ip::build_udp;

use crate::config::{ClassConfig, PolicyConfig};
use crate::scheduler::{FLOWS_MAX, Open};

const T: Instant = Instant::from_secs(100);

/// IPv4 and UDP headers.
const HEADERS: u32 = 28;

fn class(name: &str, band: u8, weight: u16) -> ClassConfig {
    ClassConfig {
        band: Some(band),
        weight: Some(weight),
        packets: Some(100_000),
        ..ClassConfig::new(name)
    }
}

fn queue(text: &str) -> QueueConfig {
    toml::from_str(text).unwrap()
}

/// A packet of `octets`; `mark` tells it from others.
fn packet(
    ledger: &mut Ledger,
    began: Instant,
    class: u8,
    to: u16,
    octets: u32,
    mark: u16,
) -> Packet {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let (src, dst) = (address("10.1.0.2:4000"), address("10.2.0.2:5000"));
    let payload = vec![0; (octets - HEADERS) as usize];
    let mut bytes = Vec::new();
    assert!(build_udp(src, dst, 0, 64, mark, 0, &payload, &mut bytes));
    let mut packet = ledger
        .admit(began, bytes, Origin::Port(PortId::HOST))
        .unwrap();
    packet.class = ClassId(class);
    packet.to = NeighbourId(to);
    packet
}

/// A scheduler with its ledger, both checked after every step.
struct Bench {
    ledger: Ledger,
    scheduler: Tree,
}

impl Bench {
    fn new(classes: &[ClassConfig]) -> Self {
        let config = PolicyConfig {
            default: Some(classes[0].name.clone()),
            classes: classes.to_vec(),
            ..PolicyConfig::default()
        };
        Self::of(&config)
    }

    fn of(config: &PolicyConfig) -> Self {
        let mut scheduler = Tree::new(&Policy::compile(config).unwrap(), Site::default());
        scheduler.advance(T);
        Self {
            ledger: Ledger::default(),
            scheduler,
        }
    }

    fn offer_at(
        &mut self,
        now: Instant,
        class: u8,
        to: u16,
        octets: u32,
        mark: u16,
    ) -> Option<DropCause> {
        let packet = packet(&mut self.ledger, now, class, to, octets, mark);
        self.put(now, packet)
    }

    fn offer(&mut self, class: u8, to: u16, octets: u32, mark: u16) -> Option<DropCause> {
        self.offer_at(T, class, to, octets, mark)
    }

    fn put(&mut self, now: Instant, packet: Packet) -> Option<DropCause> {
        let refused = match self.scheduler.enqueue(now, packet) {
            Ok(()) => None,
            Err((packet, fate)) => {
                self.ledger.close(now, packet, fate);
                match fate {
                    Fate::Dropped(cause) => Some(cause),
                    _ => None,
                }
            }
        };
        self.check();
        refused
    }

    /// Sends the next packet whole; its class, neighbour, octets and mark.
    fn send_to(&mut self, now: Instant, eligible: &dyn Eligibility) -> Option<(u8, u16, u32, u16)> {
        let head = self.scheduler.head(eligible)?;
        let packet = self.scheduler.take(now, head)?;
        assert_eq!((packet.class, packet.to), (head.class, head.to));
        self.scheduler.charge(head.class, head.octets);
        let mark = u16::from_be_bytes([packet.bytes()[4], packet.bytes()[5]]);
        let fate = Fate::Forwarded {
            port: PortId(1),
            to: head.to,
        };
        self.ledger.close(now, packet, fate);
        self.check();
        Some((head.class.0, head.to.0, head.octets, mark))
    }

    fn send(&mut self) -> Option<(u8, u16, u32, u16)> {
        self.send_to(T, &Open)
    }

    fn expire(&mut self, now: Instant) -> Option<ClassId> {
        let (packet, fate) = self.scheduler.discard(now)?;
        assert_eq!(fate, Fate::Dropped(DropCause::Aged));
        let class = packet.class;
        self.ledger.close(now, packet, fate);
        self.check();
        Some(class)
    }

    fn check(&self) {
        // Thousands of packets make the whole check slow.
        if self.scheduler.total().packets < 200 {
            self.scheduler.check();
        }
        assert_eq!(
            self.ledger.held(),
            u64::from(self.scheduler.total().packets)
        );
    }
}

/// Nothing may go to these.
struct Closed(Vec<(u16, u8)>);

impl Eligibility for Closed {
    fn eligible(&self, to: NeighbourId, class: ClassId) -> bool {
        !self.0.contains(&(to.0, class.0))
    }
}

#[test]
fn a_lower_band_goes_only_when_the_higher_is_empty() {
    let mut bench = Bench::new(&[class("low", 7, 1000), class("high", 3, 1)]);
    for mark in 0..3 {
        bench.offer(0, 0, 100, mark);
        bench.offer(1, 0, 1500, 10 + mark);
    }
    let order: Vec<_> = core::iter::from_fn(|| bench.send())
        .map(|sent| sent.3)
        .collect();
    assert_eq!(order, [10, 11, 12, 0, 1, 2]);
}

#[test]
fn a_strict_class_that_arrives_goes_next_whatever_was_charged() {
    let mut bench = Bench::new(&[class("high", 0, 1), class("low", 1, 1)]);
    bench.offer(1, 0, 1500, 1);
    bench.offer(1, 0, 1500, 2);
    bench.send();
    bench.offer(0, 0, 60, 3);
    assert_eq!(bench.send().map(|sent| sent.3), Some(3));
    assert_eq!(bench.send().map(|sent| sent.3), Some(2));
    assert_eq!(bench.send(), None);
}

#[test]
fn limits_are_exact() {
    let limited = ClassConfig {
        packets: Some(3),
        octets: Some(Octets(1000)),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[limited, class("b", 0, 1)]);
    assert_eq!(bench.offer(0, 0, 900, 0), None);
    assert_eq!(bench.offer(0, 1, 101, 0), Some(DropCause::QueueOctets));
    assert_eq!(bench.offer(0, 1, 100, 0), None);
    assert_eq!(
        bench.scheduler.queued(ClassId(0)),
        Queued {
            packets: 2,
            octets: 1000
        }
    );
    assert_eq!(bench.offer(1, 0, 500, 0), None);
    assert_eq!(bench.send().map(|sent| sent.2), Some(900));
    for _ in 0..2 {
        assert_eq!(bench.offer(0, 0, 100, 0), None);
    }
    assert_eq!(bench.offer(0, 0, 100, 0), Some(DropCause::QueuePackets));
    assert_eq!(
        bench.offer(2, 0, 100, 0),
        Some(DropCause::QueuePackets),
        "no such class"
    );
    assert_eq!(bench.scheduler.queued(ClassId(2)), Queued::default());
    assert_eq!(
        bench.scheduler.total(),
        Queued {
            packets: 4,
            octets: 800
        }
    );
}

#[test]
fn the_number_of_queues_is_limited() {
    let many = ClassConfig {
        packets: Some(1000),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[many]);
    let last = FLOWS_MAX as u16;
    for to in 0..last {
        assert_eq!(bench.offer(0, to, 100, 0), None);
    }
    assert_eq!(bench.offer(0, last, 100, 0), Some(DropCause::QueuePackets));
    assert_eq!(bench.offer(0, last - 1, 100, 0), None);
    assert_eq!(bench.send().map(|sent| sent.1), Some(0));
    assert_eq!(bench.offer(0, last, 100, 0), None);
}

/// A packet of one of several conversations, told apart by source port.
fn packet_of(bench: &mut Bench, flow: u16, mark: u16) -> Packet {
    let mut bytes = Vec::new();
    let src = SocketAddr::new("10.1.0.2".parse().unwrap(), 4000 + flow);
    let dst = "10.2.0.2:5000".parse().unwrap();
    assert!(build_udp(src, dst, 0, 64, mark, 0, &[0; 100], &mut bytes));
    bench.ledger.admit(T, bytes, Origin::Own).unwrap()
}

#[test]
fn a_request_doesnt_wait_behind_another_flows_queue_if_the_class_is_fair() {
    for fair in [false, true] {
        let mut bench = Bench::new(&[ClassConfig {
            queue: queue(if fair {
                "kind = 'fair'"
            } else {
                "kind = 'fifo'"
            }),
            ..class("a", 0, 1)
        }]);
        for mark in 0..50 {
            let packet = packet_of(&mut bench, 1, mark);
            assert_eq!(bench.put(T, packet), None);
        }
        for mark in 100..102 {
            let packet = packet_of(&mut bench, 2, mark);
            assert_eq!(bench.put(T, packet), None);
        }
        let order: Vec<u16> = core::iter::from_fn(|| bench.send())
            .map(|sent| sent.3)
            .collect();
        if fair {
            assert_eq!(
                order[..5],
                [0, 100, 1, 101, 2],
                "a packet of each in turn: equal octets"
            );
        } else {
            assert_eq!(order, (0..50).chain(100..102).collect::<Vec<_>>());
        }
        assert_eq!(order.len(), 52);
        let flow_1: Vec<_> = order.iter().filter(|mark| **mark < 100).collect();
        assert!(flow_1.is_sorted(), "in order inside a flow");
    }
}

/// A TCP segment from 10.1.0.2:`port`: sequence number, acknowledgement number, data.
fn segment(bench: &mut Bench, port: u16, seq: u32, ack: u32, data: &[u8]) -> Packet {
    segment_at(bench, T, (port, seq, ack, data))
}

fn segment_at(
    bench: &mut Bench,
    now: Instant,
    (port, seq, ack, data): (u16, u32, u32, &[u8]),
) -> Packet {
    let mut bytes = vec![
        0x45,
        0,
        0,
        40 + data.len() as u8,
        0,
        1,
        0x40,
        0,
        64,
        6,
        0,
        0,
    ];
    bytes.extend_from_slice(&[10, 1, 0, 2, 10, 2, 0, 2]);
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&[0, 80]);
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(&ack.to_be_bytes());
    bytes.extend_from_slice(&[0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend_from_slice(data);
    bench.ledger.admit(now, bytes, Origin::Own).unwrap()
}

#[test]
fn a_segment_whose_first_copy_waits_is_absorbed_and_no_other() {
    let absorbing = ClassConfig {
        queue: queue("kind = 'fifo'\nabsorb_repeats = true"),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[absorbing]);
    let offers: [(u16, u32, u32, &[u8], bool); 9] = [
        (1, u32::MAX, 7, b"one", false),
        (1, 2, 7, b"two", false),
        (1, u32::MAX, 7, b"one", true),
        (1, 2, 7, b"two", true),
        // It acknowledges more, or is cut otherwise, or is of another connection.
        (1, 2, 8, b"two", false),
        (1, 2, 7, b"tw", false),
        (2, 2, 7, b"two", false),
        // Other content under the same number is none of ours to judge.
        (1, 2, 7, b"TWO", false),
        // Bare acknowledgements are not repeated until acknowledged.
        (1, 2, 7, b"", false),
    ];
    for (port, seq, ack, data, absorbed) in offers {
        let before = bench.ledger.stats().absorbed;
        let packet = segment(&mut bench, port, seq, ack, data);
        assert_eq!(bench.put(T, packet), None);
        let gone = bench.ledger.stats().absorbed - before == 1;
        assert_eq!(gone, absorbed, "{port} {seq} {ack} {data:?}");
    }
    // Gone ahead, the first copy absorbs nothing any more.
    bench.send();
    let again = segment(&mut bench, 1, u32::MAX, 7, b"one");
    bench.put(T, again);
    assert_eq!(bench.ledger.stats().absorbed, 2);
}

#[test]
fn what_a_sender_repeats_is_wanted_for_longer_with_all_behind_it() {
    for kind in ["fifo", "fair"] {
        let absorbing = ClassConfig {
            queue: queue(&format!("kind = '{kind}'\nabsorb_repeats = true")),
            age: Some(Time(Duration::from_secs(60))),
            ..class("a", 0, 1)
        };
        let mut bench = Bench::new(&[absorbing]);
        for waiting in [(1, 1, 7, &b"one"[..]), (1, 4, 7, b"two"), (2, 1, 7, b"one")] {
            let packet = segment_at(&mut bench, T, waiting);
            assert_eq!(bench.put(T, packet), None);
        }
        let later = T + Duration::from_secs(50);
        let again = segment_at(&mut bench, later, (1, 1, 7, b"one"));
        assert_eq!(bench.put(later, again), None);
        assert_eq!(bench.ledger.stats().absorbed, 1);
        let end = T + Duration::from_secs(60);
        assert_eq!(bench.expire(end), Some(ClassId(0)), "that of another");
        assert_eq!(bench.expire(end), None);
        let end = later + Duration::from_secs(60);
        assert_eq!(bench.scheduler.wake(), Some(end));
        assert_eq!(bench.expire(end - Duration::from_nanos(1)), None);
        assert_eq!(bench.expire(end), Some(ClassId(0)));
        assert_eq!(bench.expire(end), Some(ClassId(0)));
    }
}

#[test]
fn a_packet_expires_at_its_age_and_not_before() {
    let aging = ClassConfig {
        age: Some(Time(Duration::from_millis(500))),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[aging, class("b", 1, 1)]);
    assert_eq!(bench.scheduler.wake(), None);
    bench.offer(1, 0, 100, 1);
    assert_eq!(bench.scheduler.wake(), None, "no age limit");
    bench.offer(0, 0, 100, 2);
    let end = T + Duration::from_millis(500);
    let before = end - Duration::from_nanos(1);
    assert_eq!(bench.scheduler.wake(), Some(end));
    assert_eq!(bench.expire(before), None);
    let head = bench.scheduler.head(&Open).unwrap();
    assert_eq!(head.class, ClassId(0));
    assert_eq!(bench.send_to(end, &Open), None, "too old to be taken");
    assert_eq!(bench.expire(end), Some(ClassId(0)));
    assert_eq!(bench.expire(end), None);
    assert_eq!(bench.scheduler.wake(), None);
    assert_eq!(bench.send_to(end, &Open).map(|sent| sent.3), Some(1));
}

#[test]
fn the_moment_before_its_end_a_packet_still_goes() {
    let aging = ClassConfig {
        age: Some(Time(Duration::from_millis(500))),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[aging]);
    bench.offer(0, 0, 100, 2);
    let before = T + Duration::from_nanos(499_999_999);
    assert_eq!(bench.send_to(before, &Open), Some((0, 0, 100, 2)));
}

#[test]
fn what_is_too_old_already_is_given_back() {
    let aging = ClassConfig {
        age: Some(Time(Duration::from_secs(1))),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[aging]);
    let end = T + Duration::from_secs(1);
    let late = packet(&mut bench.ledger, T, 0, 0, 100, 0);
    assert_eq!(bench.put(end, late), Some(DropCause::Aged));
    let in_time = packet(&mut bench.ledger, T, 0, 0, 100, 0);
    assert_eq!(bench.put(end - Duration::from_nanos(1), in_time), None);
    assert_eq!(bench.scheduler.wake(), Some(end));
}

#[test]
fn age_counts_wherever_in_the_queue_a_packet_is() {
    let aging = ClassConfig {
        age: Some(Time(Duration::from_secs(10))),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[aging]);
    let second = |s| Instant::from_secs(s);
    // Held elsewhere before, the second and third come later but began earlier.
    for (began, mark) in [(100, 0), (95, 1), (93, 2), (101, 3)] {
        let packet = packet(&mut bench.ledger, second(began), 0, 0, 100, mark);
        assert_eq!(bench.put(second(102), packet), None);
    }
    assert_eq!(bench.scheduler.wake(), Some(second(103)));
    assert!(bench.expire(second(103)).is_some());
    assert_eq!(bench.scheduler.wake(), Some(second(105)));
    assert_eq!(
        bench.send_to(second(104), &Open).map(|sent| sent.3),
        Some(0)
    );
    assert_eq!(bench.send_to(second(105), &Open), None);
    assert!(bench.expire(second(105)).is_some());
    assert_eq!(
        bench.send_to(second(105), &Open).map(|sent| sent.3),
        Some(3)
    );
}

#[test]
fn a_sooner_end_given_elsewhere_stays() {
    let aging = ClassConfig {
        age: Some(Time(Duration::from_secs(10))),
        ..class("a", 0, 1)
    };
    let mut bench = Bench::new(&[aging]);
    let mut urgent = packet(&mut bench.ledger, T, 0, 0, 100, 0);
    urgent.expires = T + Duration::from_secs(1);
    assert_eq!(bench.put(T, urgent), None);
    assert_eq!(bench.scheduler.wake(), Some(T + Duration::from_secs(1)));
}

#[test]
fn neighbours_take_turns_and_one_that_may_not_holds_up_no_other() {
    let mut bench = Bench::new(&[class("a", 0, 1), class("b", 1, 1)]);
    for (to, mark) in [(1, 10), (1, 11), (2, 20), (2, 21), (3, 30)] {
        bench.offer(0, to, 100, mark);
    }
    bench.offer(1, 1, 100, 40);
    let closed = Closed(vec![(1, 0)]);
    assert_eq!(bench.send_to(T, &closed).map(|sent| sent.3), Some(20));
    assert_eq!(bench.send().map(|sent| sent.3), Some(10));
    assert_eq!(bench.send_to(T, &closed).map(|sent| sent.3), Some(30));
    assert_eq!(bench.send_to(T, &closed).map(|sent| sent.3), Some(21));
    assert_eq!(
        bench.send_to(T, &closed).map(|sent| sent.3),
        Some(40),
        "the other class may"
    );
    assert_eq!(bench.send_to(T, &closed), None);
    assert_eq!(bench.send().map(|sent| sent.3), Some(11));
}

#[test]
fn the_rest_of_a_packet_under_way_is_the_classs_next() {
    let mut bench = Bench::new(&[class("a", 0, 1), class("b", 1, 1)]);
    bench.offer(1, 1, 300, 1);
    bench.offer(1, 2, 300, 2);
    let scheduler = &mut bench.scheduler;
    let head = scheduler.head(&Open).unwrap();
    let taken = scheduler.take(T, head).unwrap();
    scheduler.set_under_way(head.class, head.to, 236);
    assert_eq!(scheduler.under_way(head.class), 236);
    scheduler.charge(head.class, 64);
    scheduler.check();
    let rest = Head {
        octets: 236,
        ..head
    };
    assert_eq!(scheduler.head(&Open), Some(rest));
    assert!(scheduler.take(T, rest).is_none(), "it is out already");
    assert_eq!(
        scheduler.head(&Closed(vec![(1, 1)])),
        None,
        "its class waits for it"
    );
    assert_eq!(
        scheduler.queued(ClassId(1)),
        Queued {
            packets: 1,
            octets: 300
        }
    );
    let urgent = packet(&mut bench.ledger, T, 0, 0, 60, 3);
    assert!(scheduler.enqueue(T, urgent).is_ok());
    assert_eq!(
        scheduler.head(&Open).map(|head| head.class),
        Some(ClassId(0))
    );
    bench.ledger.drop(T, taken, DropCause::Stopped);
    assert_eq!(bench.send().map(|sent| sent.3), Some(3));
    let scheduler = &mut bench.scheduler;
    assert_eq!(scheduler.head(&Open), Some(rest));
    scheduler.set_under_way(rest.class, rest.to, 0);
    assert_eq!(scheduler.under_way(rest.class), 0);
    scheduler.charge(rest.class, 236);
    assert_eq!(bench.send().map(|sent| sent.3), Some(2));
    bench.scheduler.set_under_way(ClassId(1), NeighbourId(5), 7);
    assert_eq!(bench.scheduler.head(&Open).map(|head| head.octets), Some(7));
}

#[test]
fn a_stale_head_takes_nothing() {
    let mut bench = Bench::new(&[class("a", 0, 1)]);
    bench.offer(0, 0, 100, 1);
    bench.offer(0, 0, 200, 2);
    let head = bench.scheduler.head(&Open).unwrap();
    bench.send();
    assert!(bench.scheduler.take(T, head).is_none());
    assert!(
        bench
            .scheduler
            .take(
                T,
                Head {
                    class: ClassId(9),
                    ..head
                }
            )
            .is_none()
    );
    assert!(
        bench
            .scheduler
            .take(
                T,
                Head {
                    to: NeighbourId(9),
                    ..head
                }
            )
            .is_none()
    );
    bench.check();
}

#[test]
fn drain_gives_everything_back() {
    let mut bench = Bench::new(&[class("a", 0, 1), class("b", 1, 1)]);
    for mark in 0..10 {
        bench.offer((mark % 2) as u8, mark % 3, 100, mark);
    }
    let mut drained = 0;
    while let Some(packet) = bench.scheduler.drain() {
        bench.ledger.drop(T, packet, DropCause::Stopped);
        bench.check();
        drained += 1;
    }
    assert_eq!(drained, 10);
    assert_eq!(bench.scheduler.head(&Open), None);
    assert_eq!(bench.scheduler.total(), Queued::default());
    bench.offer(1, 0, 100, 7);
    assert_eq!(bench.send().map(|sent| sent.3), Some(7));
}

#[test]
fn what_waits_for_one_neighbour_goes_and_the_others_keep_their_places() {
    let mut bench = Bench::new(&[class("a", 0, 1), class("b", 1, 1)]);
    for mark in 0..12 {
        bench.offer((mark % 2) as u8, mark % 3, 100, mark);
    }
    let mut drained = 0;
    while let Some(packet) = bench.scheduler.drain_to(T, NeighbourId(1)) {
        bench.ledger.drop(T, packet, DropCause::Undelivered);
        bench.check();
        drained += 1;
    }
    assert_eq!(drained, 4);
    let order: Vec<_> = core::iter::from_fn(|| bench.send().map(|sent| sent.3)).collect();
    assert_eq!(order, [0, 2, 6, 8, 3, 5, 9, 11]);
}

/// Octets sent of each class, when all always have a packet waiting.
fn shares(weights: &[u16], sizes: &[Vec<u32>], packets: usize, segment: Option<u32>) -> Vec<u64> {
    let classes: Vec<_> = weights
        .iter()
        .enumerate()
        .map(|(number, weight)| class(&format!("c{number}"), 0, *weight))
        .collect();
    let mut bench = Bench::new(&classes);
    let mut next: Vec<_> = sizes.iter().map(|sizes| sizes.iter().cycle()).collect();
    for (number, sizes) in next.iter_mut().enumerate() {
        for _ in 0..2 {
            bench.offer(number as u8, 0, *sizes.next().unwrap(), 0);
        }
    }
    let mut sent = vec![0; weights.len()];
    let mut left = vec![0; weights.len()];
    let mut finished = 0;
    while finished < packets {
        let head = bench.scheduler.head(&Open).unwrap();
        let number = head.class.index();
        if left[number] == 0 {
            let packet = bench.scheduler.take(T, head).unwrap();
            left[number] = packet.info().octets;
            bench.ledger.drop(T, packet, DropCause::Stopped);
            bench.offer(number as u8, 0, *next[number].next().unwrap(), 0);
        }
        assert_eq!(head.octets, left[number]);
        let octets = left[number].min(segment.unwrap_or(u32::MAX));
        left[number] -= octets;
        bench
            .scheduler
            .set_under_way(head.class, head.to, left[number]);
        bench.scheduler.charge(head.class, octets);
        sent[number] += u64::from(octets);
        finished += usize::from(left[number] == 0);
    }
    sent
}

fn assert_shares(weights: &[u16], sent: &[u64]) {
    let total: u64 = sent.iter().sum();
    let weight_sum: u16 = weights.iter().sum();
    for (weight, octets) in weights.iter().zip(sent) {
        let due = total as f64 * f64::from(*weight) / f64::from(weight_sum);
        let off = (*octets as f64 / due - 1.0).abs();
        assert!(off <= 0.01, "{weights:?} {sent:?}: off by {off}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn shares_follow_the_weights_whatever_the_sizes(
        classes in many((1..=8u16, many(40..=1500u32, 1..20)), 2..=4),
        segment in prop::option::of(Just(64u32)),
    ) {
        let (weights, sizes): (Vec<_>, Vec<_>) = classes.into_iter().unzip();
        assert_shares(&weights, &shares(&weights, &sizes, 10_000, segment));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer { class: u8, to: u16, octets: u32 },
    Send { closed: Vec<(u16, u8)> },
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8, 0..3u16, 40..1500u32)
            .prop_map(|(class, to, octets)| Step::Offer { class, to, octets }),
        4 => many((0..3u16, 0..4u8), 0..4)
            .prop_map(|closed| Step::Send { closed }),
        1 => (1..400u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

/// Bands 0, 1, 1, 2; the second class forgets after a second.
fn mixed() -> [ClassConfig; 4] {
    [
        ClassConfig {
            packets: Some(4),
            ..class("strict", 0, 1)
        },
        ClassConfig {
            age: Some(Time(Duration::from_secs(1))),
            ..class("aging", 1, 3)
        },
        ClassConfig {
            octets: Some(Octets(5000)),
            ..class("sharing", 1, 1)
        },
        class("last", 2, 1),
    ]
}

/// What waits by (class, neighbour), as a plain model has it: mark and end of each packet.
type Model = BTreeMap<(u8, u16), VecDeque<(u16, Instant)>>;

fn waiting(model: &Model, band: &[u8], closed: &[(u16, u8)]) -> bool {
    model.iter().any(|((class, to), queue)| {
        band.contains(class) && !closed.contains(&(*to, *class)) && !queue.is_empty()
    })
}

fn send_and_compare(bench: &mut Bench, model: &mut Model, now: Instant, closed: &[(u16, u8)]) {
    let sent = bench.send_to(now, &Closed(closed.to_vec()));
    let Some((class, to, _, mark)) = sent else {
        assert!(
            !waiting(model, &[0, 1, 2, 3], closed),
            "something could have gone"
        );
        return;
    };
    assert!(!closed.contains(&(to, class)));
    let first = model.get_mut(&(class, to)).and_then(VecDeque::pop_front);
    assert_eq!(first.map(|(mark, _)| mark), Some(mark), "in order");
    assert!(first.is_some_and(|(_, end)| end > now), "in time");
    let higher: &[u8] = match class {
        0 => &[],
        1 | 2 => &[0],
        _ => &[0, 1, 2],
    };
    assert!(
        !waiting(model, higher, closed),
        "a strict class never waits"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_doubled_reordered_or_late(steps in many(step(), 1..300)) {
        let mut bench = Bench::new(&mixed());
        let mut model = Model::new();
        let mut now = T;
        for (mark, step) in (0u16..).zip(steps) {
            match step {
                Step::Offer { class, to, octets } => {
                    if bench.offer_at(now, class, to, octets, mark).is_none() {
                        let age = if class == 1 { Duration::from_secs(1) } else { Duration::MAX };
                        model.entry((class, to)).or_default().push_back((mark, now + age));
                    }
                }
                Step::Send { closed } => send_and_compare(&mut bench, &mut model, now, &closed),
                Step::Pass { ms } => {
                    now += Duration::from_millis(ms);
                    let mut expired = 0;
                    while bench.expire(now).is_some() {
                        expired += 1;
                    }
                    let before: usize = model.values().map(VecDeque::len).sum();
                    model.values_mut().for_each(|queue| queue.retain(|(_, end)| *end > now));
                    let after: usize = model.values().map(VecDeque::len).sum();
                    assert_eq!(expired, before - after, "all that is too old, nothing else");
                }
            }
            bench.scheduler.check();
            let ends = model.values().flatten().map(|(_, end)| *end);
            let soonest = ends.min().filter(|end| *end < Instant::NEVER);
            assert_eq!(bench.scheduler.wake(), soonest);
        }
        let waiting: usize = model.values().map(VecDeque::len).sum();
        assert_eq!(bench.ledger.held(), waiting as u64);
    }
}
