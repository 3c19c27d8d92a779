use super::*;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use proptest::collection::vec as many;
use proptest::prelude::*;
use strait_core::fate::{Ledger, Origin};
use strait_wire::ip::build_udp;

use crate::config::ClassConfig;
use crate::policy::Policy;
use crate::{Dscp, Open, PolicyConfig};

const T: Instant = Instant::from_secs(100);
const MS: Duration = Duration::from_millis(1);

/// A leaf with its ledger, both checked after every step.
struct Bench {
    leaf: Leaf,
    ledger: Ledger,
    /// Marks and fates of what went in and won't come out.
    lost: Vec<(u16, Fate)>,
}

/// IPv4 and UDP headers.
const HEADERS: usize = 28;

/// Mark and fate, if it was refused.
type Refused = Option<Fate>;

impl Bench {
    fn new(packets: u32, queue: &str) -> Self {
        Self::with(packets, None, queue)
    }

    fn with(packets: u32, octets: Option<u64>, queue: &str) -> Self {
        let class = ClassConfig {
            packets: Some(packets),
            octets: octets.map(strait_core::units::Octets),
            queue: toml::from_str(queue).unwrap(),
            ..ClassConfig::new("a")
        };
        let config = PolicyConfig {
            classes: [class].into(),
            ..PolicyConfig::default()
        };
        let policy = Policy::compile(&config).unwrap();
        Self {
            leaf: Leaf::new(&policy.classes()[0], Site::default()),
            ledger: Ledger::default(),
            lost: Vec::new(),
        }
    }

    fn offer(&mut self, now: Instant, flow: u16, octets: usize, mark: u16) -> Refused {
        self.offer_with(now, flow, octets, mark, 0)
    }

    /// The same with this octet of code point and ECN.
    fn offer_with(
        &mut self,
        now: Instant,
        flow: u16,
        octets: usize,
        mark: u16,
        class: u8,
    ) -> Refused {
        let src: SocketAddr = "10.1.0.2:4000".parse().unwrap();
        let src = SocketAddr::new(src.ip(), 4000 + flow);
        let dst = "10.2.0.2:5000".parse().unwrap();
        let payload = vec![0; octets - HEADERS];
        let mut bytes = Vec::new();
        assert!(build_udp(src, dst, 0, 64, mark, 0, &payload, &mut bytes));
        set_class(&mut bytes, class);
        let packet = self.ledger.admit(now, bytes, Origin::Own).unwrap();
        self.put(now, packet)
    }

    fn put(&mut self, now: Instant, packet: Packet) -> Refused {
        let refused = self.leaf.enqueue(now, packet);
        let fate = refused.err().map(|(packet, fate)| {
            self.ledger.close(now, packet, fate);
            fate
        });
        self.discard(now);
        fate
    }

    fn discard(&mut self, now: Instant) {
        while let Some((packet, fate)) = self.leaf.discard(now) {
            self.lost.push((mark_of(&packet), fate));
            self.ledger.close(now, packet, fate);
        }
        self.leaf.check(ClassId(0));
        assert_eq!(self.ledger.held(), u64::from(self.leaf.queued().packets));
    }

    /// The next packet: flow, octets, mark, and whether it carries «congestion experienced».
    fn send(&mut self, now: Instant) -> Option<(u16, u32, u16, bool)> {
        loop {
            self.discard(now);
            let head = self.leaf.head(ClassId(0), &Open)?;
            let Some(packet) = self.leaf.take(now, head) else {
                assert!(
                    !self.leaf.discarded.is_empty(),
                    "a head goes or is given up"
                );
                continue;
            };
            assert_eq!(packet.info().octets, head.octets);
            let flow = packet.info().ports.unwrap().0 - 4000;
            let sent = (flow, head.octets, mark_of(&packet), packet.info().ecn == 3);
            self.ledger
                .close(now, packet, Fate::Delivered(PortId::HOST));
            self.discard(now);
            return Some(sent);
        }
    }

    /// Marks in the order of leaving.
    fn order(&mut self, now: Instant) -> Vec<u16> {
        core::iter::from_fn(|| self.send(now).map(|sent| sent.2)).collect()
    }
}

/// Writes code point and ECN, which were 0.
fn set_class(bytes: &mut [u8], class: u8) {
    bytes[1] |= class;
    let sum = u32::from(!u16::from_be_bytes([bytes[10], bytes[11]])) + u32::from(class);
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn mark_of(packet: &Packet) -> u16 {
    u16::from_be_bytes([packet.bytes()[4], packet.bytes()[5]])
}

const FULL: Refused = Some(Fate::Dropped(DropCause::QueuePackets));
const PUSHED_OUT: Fate = Fate::Dropped(DropCause::PushedOut);

#[test]
fn a_full_fair_queue_makes_room_at_the_head_of_the_largest_flow() {
    let mut bench = Bench::with(100, Some(1000), "kind = 'fair'");
    for mark in 0..10 {
        assert_eq!(bench.offer(T, 1, 100, mark), None);
    }
    // Also where the newcomer's own flow has the most.
    assert_eq!(bench.offer(T, 1, 100, 10), None);
    // Others have their part, until all have the same.
    for mark in 20..25 {
        assert_eq!(bench.offer(T, 2, 100, mark), None);
    }
    let expected: Vec<(u16, Fate)> = (0..6).map(|mark| (mark, PUSHED_OUT)).collect();
    assert_eq!(bench.lost, expected);
    assert_eq!(bench.offer(T, 2, 100, 25), None);
    assert_eq!(bench.lost[6], (20, PUSHED_OUT));
    // One that needs the room of two takes it, octet by octet.
    assert_eq!(bench.offer(T, 3, 200, 30), None);
    assert_eq!(bench.lost.len(), 9);
    assert_eq!(bench.leaf.queued().octets, 1000);
    // Nothing makes room for what never fits, nor does a flow for its own only packet.
    let refused = Some(Fate::Dropped(DropCause::QueueOctets));
    assert_eq!(bench.offer(T, 4, 1001, 40), refused);
    assert_eq!(bench.offer(T, 4, 999, 41), refused);
    assert_eq!(bench.lost.len(), 9);
}

#[test]
fn in_a_fair_queue_a_higher_drop_precedence_gives_way() {
    // Four octets of AF31 for one of AF33; what isn't of such a class counts as AF31.
    for (first, second, share) in [
        (Dscp::af(3, 1), Dscp::af(3, 3), 4),
        (Dscp::af(3, 1), Dscp::af(3, 2), 2),
        (Dscp::af(3, 3), Dscp::af(3, 3), 1),
        (Dscp::DF, Dscp::EF, 1),
    ] {
        let mut bench = Bench::with(100, Some(20_000), "kind = 'fair'");
        let mut sent = [0_i32; 2];
        for mark in 0..500 {
            for (flow, dscp) in [(0, first), (1, second)] {
                bench.offer_with(T, flow, 400, mark, dscp.number() << 2);
            }
            if mark >= 100 {
                sent[usize::from(bench.send(T).unwrap().0)] += 1;
            }
        }
        assert!(
            (sent[0] - sent[1] * share).abs() <= 8,
            "{first} {second}: {sent:?}"
        );
    }
    // Room is made where it costs least, too.
    let mut bench = Bench::with(100, Some(1000), "kind = 'fair'");
    for mark in 0..5 {
        bench.offer_with(T, 0, 100, mark, Dscp::af(3, 1).number() << 2);
        bench.offer_with(T, 1, 100, 10 + mark, Dscp::af(3, 3).number() << 2);
    }
    for mark in 5..8 {
        bench.offer_with(T, 0, 100, mark, Dscp::af(3, 1).number() << 2);
    }
    assert_eq!(bench.lost, [10, 11, 12].map(|mark| (mark, PUSHED_OUT)));
}

#[test]
fn a_fair_queue_keeps_what_the_line_sends_in_30_s() {
    let mut bench = Bench::with(1000, Some(40_000), "kind = 'fair'");
    let offer = |bench: &mut Bench, packets: u16| {
        for mark in 0..packets {
            assert_eq!(bench.offer(T, 1, 1000, mark), None);
        }
        bench.leaf.queued().octets
    };
    assert_eq!(offer(&mut bench, 50), 40_000, "the class's limit");
    bench.leaf.set_line_rate(LineRate::new(9600, 10));
    assert_eq!(offer(&mut bench, 1), 28_000, "less than 30 times 960");
    bench.leaf.set_line_rate(LineRate::new(300, 10));
    assert_eq!(offer(&mut bench, 1), 12_000, "eight of the longest");
    bench.leaf.set_line_rate(LineRate::new(64_000, 8));
    assert_eq!(offer(&mut bench, 50), 40_000);
}

#[test]
fn a_fair_queue_of_a_slow_line_waits_longer_than_the_class_says() {
    let mut bench = Bench::new(100, "kind = 'fair'");
    bench.leaf.age_least = Some(Duration::from_secs(60));
    bench.leaf.set_line_rate(LineRate::new(600, 10));
    assert_eq!(bench.offer(T, 1, 1500, 1), None);
    // Eight of the longest take 200 s, 6.7 times 30 s.
    bench.discard(T + Duration::from_millis(399_999));
    assert_eq!(bench.leaf.queued().packets, 1);
    bench.discard(T + Duration::from_secs(400));
    assert_eq!(bench.lost, [(1, Fate::Dropped(DropCause::Aged))]);
    bench.leaf.set_line_rate(LineRate::new(9600, 10));
    assert_eq!(bench.leaf.age, Some(Duration::from_secs(60)));
}

#[test]
fn a_fair_queue_keeps_no_longer_what_its_class_says_is_of_no_use() {
    let mut bench = Bench::with(100, Some(3000), "kind = 'fair'");
    bench.leaf.age_least = Some(Duration::from_millis(29_999));
    bench.leaf.set_line_rate(LineRate::new(300, 10));
    assert_eq!(bench.leaf.age, Some(Duration::from_millis(29_999)));
    bench.leaf.age_least = Some(Duration::from_secs(30));
    bench.leaf.set_line_rate(LineRate::new(300, 10));
    // 3000 octets, which are all that it holds, take 100 s.
    assert_eq!(bench.leaf.age, Some(Duration::from_secs(100)));
}

#[test]
fn no_packet_grows_too_old_behind_one_that_nothing_interrupts() {
    let mut bench = Bench::new(100, "kind = 'fifo'");
    bench.leaf.age_least = Some(Duration::from_millis(500));
    bench.leaf.set_line_rate(LineRate::new(20_000, 8));
    assert_eq!(bench.leaf.age, Some(Duration::from_millis(500)));
    bench.leaf.site.unit_octets = 1500;
    bench.leaf.set_line_rate(LineRate::new(20_000, 8));
    // The longest takes 600 ms.
    assert_eq!(bench.offer(T, 1, 60, 1), None);
    bench.discard(T + Duration::from_millis(1099));
    assert_eq!(bench.leaf.queued().packets, 1);
    bench.discard(T + Duration::from_millis(1100));
    assert_eq!(bench.lost, [(1, Fate::Dropped(DropCause::Aged))]);
}

#[test]
fn a_fair_flow_that_was_idle_goes_next() {
    let mut bench = Bench::new(100, "kind = 'fair'");
    for flow in 1..=6 {
        for mark in 0..3 {
            bench.offer(T, flow, 1500, 10 * flow + mark);
        }
    }
    for _ in 0..6 {
        bench.send(T).unwrap();
    }
    bench.offer(T, 7, 60, 70);
    assert_eq!(bench.send(T).map(|sent| sent.2), Some(70));
}

/// Sixteen flows of the longest packets, of which one has left.
fn beside_sixteen() -> Bench {
    let mut bench = Bench::new(200, "kind = 'fair'");
    for flow in 1..=16 {
        for mark in 0..9 {
            bench.offer(T, flow, 1500, 10 * flow + mark);
        }
    }
    bench.send(T).unwrap();
    bench
}

#[test]
fn small_packets_below_their_share_go_next_each() {
    let mut bench = beside_sixteen();
    // Twelve of 75 octets while each other flow sends 1500: a sixth less than its share is 80.
    for mark in 300..360 {
        bench.offer(T, 20, 75, mark);
        assert_eq!(bench.send(T).map(|sent| sent.2), Some(mark));
        assert_eq!(bench.send(T).map(|sent| sent.1), Some(1500));
    }
}

#[test]
fn small_packets_are_ahead_of_their_share_by_one_long_packet_at_most() {
    for (octets, first, count) in [(500, 3, 30), (300, 5, 30), (75, 20, 100)] {
        let mut bench = beside_sixteen();
        for mark in 300..300 + count {
            bench.offer(T, 20, octets, mark);
        }
        for mark in 300..300 + first {
            assert_eq!(bench.send(T).map(|sent| sent.2), Some(mark));
        }
        // From then on it has its share, which is as much as the others have.
        let mut sent = [0; 2];
        while sent[0] < 64 * 1500 {
            let (flow, octets, ..) = bench.send(T).unwrap();
            sent[usize::from(flow == 20)] += octets;
        }
        assert!(sent[1].abs_diff(4 * 1500) <= 1500, "{octets}: {sent:?}");
    }
    // A packet that isn't small takes part in the order by shares.
    let mut bench = beside_sixteen();
    bench.offer(T, 20, 501, 300);
    assert_eq!(bench.send(T).map(|sent| sent.2), Some(300), "it ends first");
    for mark in 301..304 {
        bench.offer(T, 20, 900, mark);
    }
    assert_eq!(bench.send(T).map(|sent| sent.1), Some(900));
    assert_eq!(bench.send(T).map(|sent| sent.1), Some(1500));
}

/// One neighbour can't be sent to.
struct AllBut(NeighbourId);

impl Eligibility for AllBut {
    fn eligible(&self, to: NeighbourId, _: ClassId) -> bool {
        to != self.0
    }
}

/// Forty packets for each of two neighbours, in flows of these numbers.
fn beside_each_other() -> Bench {
    let mut bench = Bench::new(200, "kind = 'fair'");
    for to in [1, 2] {
        for mark in 0..40 {
            let src = SocketAddr::new("10.1.0.2".parse().unwrap(), 4000 + to);
            let dst = "10.2.0.2:5000".parse().unwrap();
            let mut bytes = Vec::new();
            assert!(build_udp(src, dst, 0, 64, mark, 0, &[0; 1000], &mut bytes));
            let mut packet = bench.ledger.admit(T, bytes, Origin::Own).unwrap();
            packet.to = NeighbourId(to);
            assert_eq!(bench.put(T, packet), None);
        }
    }
    bench
}

#[test]
fn whose_octets_cost_four_times_as_much_gets_a_quarter_of_them() {
    let mut bench = beside_each_other();
    bench
        .leaf
        .set_costs(&Costs::new([1.0, 1.0, 4.0].into_iter()));
    let next: Vec<u16> = (0..40).map(|_| bench.send(T).unwrap().0).collect();
    let second = next.iter().filter(|flow| **flow == 2).count();
    assert!((7..=9).contains(&second), "{next:?}");
}

#[test]
fn another_cost_is_one_that_differs_by_more_than_an_eighth() {
    let costs = |far: f64| Costs::new([1.0, far].into_iter());
    assert!(!costs(1.0).differ(&Costs::default()));
    assert!(!costs(9.0).differ(&costs(8.0)) && costs(9.01).differ(&costs(8.0)));
    assert!(!costs(7.0).differ(&costs(8.0)) && costs(6.99).differ(&costs(8.0)));
    assert!(Costs::default().differ(&costs(2.0)));
    assert_eq!(costs(2.5).times(NeighbourId(1), 100), 250);
    assert_eq!(costs(2.5).times(NeighbourId::ALL, 100), 100);
}

#[test]
fn who_could_not_be_sent_to_has_one_long_packet_more_before_others_and_not_all() {
    let mut bench = beside_each_other();
    for _ in 0..20 {
        let head = bench
            .leaf
            .head(ClassId(0), &AllBut(NeighbourId(2)))
            .unwrap();
        assert_eq!(head.to, NeighbourId(1));
        let packet = bench.leaf.take(T, head).unwrap();
        bench.ledger.close(T, packet, Fate::Delivered(PortId::HOST));
    }
    let next: Vec<u16> = (0..12).map(|_| bench.send(T).unwrap().0).collect();
    let second = next.iter().filter(|flow| **flow == 2).count();
    assert!((6..=9).contains(&second), "{next:?}");
}

#[test]
fn no_stream_of_new_flows_keeps_an_old_one_waiting() {
    let mut bench = Bench::new(200, "kind = 'fair'");
    for mark in 0..4 {
        bench.offer(T, 0, 1500, mark);
    }
    bench.offer(T, 1, 1500, 10);
    // Each comes before the one in front of it has left, and so there are always two or more.
    let mut sent = Vec::new();
    for flow in 2..40 {
        bench.offer(T, flow, 1500, 10 * flow);
        sent.push(bench.send(T).unwrap().0);
    }
    assert_eq!(
        sent.iter().filter(|flow| **flow == 0).count(),
        4,
        "{sent:?}"
    );
}

#[test]
fn what_a_flow_had_is_forgotten_when_it_counts_no_more() {
    let mut bench = beside_sixteen();
    for mark in 300..340 {
        bench.offer(T, 20, 300, mark);
    }
    assert_eq!(bench.order(T).len(), 16 * 9 - 1 + 40);
    assert_eq!(bench.leaf.flows.iter().count(), 0);
    let mut bench = beside_sixteen();
    bench.offer(T, 20, 300, 300);
    assert_eq!(bench.send(T).map(|sent| sent.2), Some(300));
    // It has had 300 octets more than each other since.
    assert_eq!(bench.leaf.flows.iter().count(), 17);
    for _ in 0..6 {
        bench.send(T);
    }
    bench.offer(T, 21, 60, 400);
    bench.send(T).unwrap();
    assert_eq!(bench.leaf.flows.iter().count(), 17, "of which one is new");
}

#[test]
fn fair_flows_share_no_queue_by_chance() {
    let mut bench = Bench::new(200, "kind = 'fair'");
    for flow in 0..150 {
        bench.offer(T, flow, 100, flow);
    }
    assert_eq!(bench.leaf.flows.iter().count(), 150);
}

#[test]
fn a_neighbour_has_its_share_when_its_flows_have_theirs() {
    let (one, other) = (NeighbourId(0), NeighbourId(1));
    let share = |bench: &Bench, from| bench.leaf.has_share((PortId(1), from));
    let offer = |bench: &mut Bench, from, flow: u16, octets: usize| {
        let src = SocketAddr::new("10.1.0.2".parse().unwrap(), 4000 + flow);
        let dst = "10.2.0.2:5000".parse().unwrap();
        let (payload, mut bytes) = (vec![0; octets - HEADERS], Vec::new());
        assert!(build_udp(src, dst, 0, 64, 0, 0, &payload, &mut bytes));
        let origin = Origin::Port(PortId(1));
        let mut packet = bench.ledger.admit(T, bytes, origin).unwrap();
        packet.from = from;
        assert_eq!(bench.put(T, packet), None);
    };
    let mut bench = Bench::new(100, "kind = 'fair'");
    assert!(share(&bench, one) && share(&bench, other), "nobody has any");
    // Three flows of one have as much as two of the other: less each.
    for flow in [1, 2, 3] {
        offer(&mut bench, one, flow, 100);
    }
    for flow in [4, 5] {
        offer(&mut bench, other, flow, 150);
    }
    assert!(!share(&bench, one) && share(&bench, other));
    offer(&mut bench, one, 1, 149);
    assert!(!share(&bench, one) && share(&bench, other));
    offer(&mut bench, one, 2, 30);
    assert!(share(&bench, one) && !share(&bench, other));
    // In one row nobody's are told apart.
    let mut bench = Bench::new(100, "kind = 'fifo'");
    offer(&mut bench, one, 1, 100);
    offer(&mut bench, other, 4, 900);
    assert!(share(&bench, one) && share(&bench, other));
}

#[test]
fn sfq_drops_from_the_longest_flow() {
    let mut bench = Bench::new(4, "kind = 'sfq'");
    for (flow, mark) in [(1, 10), (1, 11), (1, 12), (2, 20)] {
        assert_eq!(bench.offer(T, flow, 100, mark), None);
    }
    assert_eq!(
        bench.offer(T, 1, 100, 13),
        FULL,
        "its own flow is the longest"
    );
    assert_eq!(bench.offer(T, 2, 100, 21), None);
    assert_eq!(bench.lost, [(12, PUSHED_OUT)]);
    assert_eq!(
        bench.offer(T, 2, 100, 22),
        FULL,
        "no flow is longer than it"
    );
    assert_eq!(bench.offer(T, 3, 100, 30), None);
    assert_eq!(bench.lost.len(), 2);
    for flow in 4..6 {
        bench.offer(T, flow, 100, 10 * flow);
    }
    assert_eq!(bench.offer(T, 6, 100, 60), FULL, "one each, and no place");
    let mut bench = Bench::new(3, "kind = 'sfq'\nhead_drop = true");
    for (flow, mark) in [(1, 10), (1, 11), (1, 12), (1, 13), (2, 20)] {
        assert_eq!(bench.offer(T, flow, 100, mark), None);
    }
    assert_eq!(bench.lost, [(10, PUSHED_OUT), (11, PUSHED_OUT)]);
}

#[test]
fn sfq_limits_the_depth_and_the_number_of_flows() {
    let mut bench = Bench::new(100, "kind = 'sfq'\ndepth = 2\nflows = 2");
    for mark in 10..12 {
        assert_eq!(bench.offer(T, 1, 100, mark), None);
    }
    assert_eq!(bench.offer(T, 1, 100, 12), FULL);
    assert_eq!(bench.offer(T, 2, 100, 20), None);
    assert_eq!(bench.offer(T, 3, 100, 30), FULL);
    assert_eq!(bench.order(T), [10, 11, 20], "two are less than a quantum");
    let mut bench = Bench::new(100, "kind = 'sfq'\ndepth = 2\nhead_drop = true");
    for mark in 10..14 {
        assert_eq!(bench.offer(T, 1, 100, mark), None);
    }
    assert_eq!(bench.order(T), [12, 13]);
}

#[test]
fn sfq_gives_a_flow_a_quantum_a_turn() {
    let mut bench = Bench::new(100, "kind = 'sfq'\nquantum = 1000");
    for mark in 0..6 {
        bench.offer(T, 1, 500, 10 + mark);
        bench.offer(T, 2, 1000, 20 + mark);
    }
    // Two of 500 octets are a turn, and one of 1000.
    let order = bench.order(T);
    assert_eq!(order[..9], [10, 11, 20, 12, 13, 21, 14, 15, 22]);
    assert!(order[9..].is_sorted());
}

#[test]
fn sfq_hashes_anew_when_it_is_time_and_not_before() {
    let colliding = "kind = 'sfq'\nbuckets = 2\nperturb = '10 s'";
    for (late, changed) in [(Duration::ZERO, true), (Duration::from_nanos(1), false)] {
        let mut bench = Bench::new(100, colliding);
        let Kind::Sfq(Sfq {
            perturbation: Some(it),
            ..
        }) = &mut bench.leaf.kind
        else {
            panic!()
        };
        it.due = T;
        let salt = bench.leaf.hashing.salt;
        for mark in 0..20 {
            bench.offer(T - MS, mark % 5, 100, mark);
        }
        bench.offer(T - late, 1, 100, 21);
        assert_eq!(bench.leaf.hashing.salt != salt, changed);
        let mut last = BTreeMap::new();
        while let Some((flow, _, mark, _)) = bench.send(T) {
            assert!(last.insert(flow, mark).is_none_or(|before| before < mark));
        }
        assert_eq!(last.len(), 5);
    }
}

#[test]
fn fq_codel_lets_a_flow_that_was_idle_go_first_for_a_quantum() {
    let mut bench = Bench::new(100, "kind = 'fq-codel'\nquantum = 300");
    for mark in 0..4 {
        bench.offer(T, 1, 300, 10 + mark);
    }
    assert_eq!(bench.send(T).map(|sent| sent.2), Some(10), "new itself");
    assert_eq!(
        bench.send(T).map(|sent| sent.2),
        Some(11),
        "old now, and alone"
    );
    for mark in 0..3 {
        bench.offer(T, 2, 200, 20 + mark);
    }
    // Two packets use up its first turn. Then it gains a quantum, and flow 1 behind it.
    assert_eq!(bench.order(T), [20, 21, 22, 12, 13]);
}

#[test]
fn fq_codel_doesnt_let_a_sparse_flow_pass_for_new_each_time() {
    let mut bench = Bench::new(100, "kind = 'fq-codel'\nquantum = 300");
    for mark in 0..3 {
        bench.offer(T, 1, 300, 10 + mark);
    }
    assert_eq!(bench.send(T).map(|sent| sent.0), Some(1));
    bench.offer(T, 2, 100, 20);
    assert_eq!(bench.send(T).map(|sent| sent.0), Some(2));
    // Emptied, it goes through the old flows once: flow 1 has its turn before it is new again.
    bench.offer(T, 2, 250, 21);
    assert_eq!(
        bench.send(T).map(|sent| sent.2),
        Some(21),
        "credit is left of its turn"
    );
    bench.offer(T, 2, 100, 22);
    assert_eq!(bench.order(T), [11, 22, 12]);
}

#[test]
fn fq_codel_drops_half_of_the_fattest_flow_from_its_head() {
    let mut bench = Bench::new(10, "kind = 'fq-codel'");
    for mark in 0..7 {
        bench.offer(T, 1, 1000, 10 + mark);
    }
    for mark in 0..3 {
        bench.offer(T, 2, 100, 20 + mark);
    }
    assert_eq!(bench.offer(T, 3, 100, 30), None);
    let lost: Vec<u16> = bench.lost.iter().map(|(mark, _)| *mark).collect();
    assert_eq!(lost, [10, 11, 12, 13]);
    // Never more than a batch, and never the newcomer while it has others of its flow before it.
    let mut bench = Bench::new(200, "kind = 'fq-codel'");
    for mark in 0..200 {
        bench.offer(T, 1, 100, mark);
    }
    assert_eq!(bench.offer(T, 1, 100, 200), None);
    assert_eq!(bench.lost.len(), 64);
    // Alone the fattest, it isn't worth the others.
    let mut bench = Bench::with(10, Some(1000), "kind = 'fq-codel'");
    bench.offer(T, 1, 400, 10);
    bench.offer(T, 2, 400, 20);
    let refused = bench.offer(T, 3, 900, 30);
    assert_eq!(refused, Some(Fate::Dropped(DropCause::QueueOctets)));
    assert_eq!(bench.lost, []);
}

/// Sends 1500-octet packets at 9600 bit/s for `seconds` while the queue is kept at `waiting` or
/// more, and says how many went, were marked and were dropped.
fn overload(ecn: u8, waiting: u32, seconds: u32) -> (usize, usize, usize) {
    let mut bench = Bench::new(1000, "kind = 'fq-codel'");
    let rate = LineRate::new(9600, 8);
    bench.leaf.set_line_rate(rate);
    let (mut sent, mut marked) = (0, 0);
    let mut now = T;
    while now < T + MS * (seconds * 1000) {
        while bench.leaf.queued().packets < waiting {
            bench.offer_with(now, 1, 1500, 0, ecn);
        }
        let (.., congested) = bench.send(now).unwrap();
        sent += 1;
        marked += usize::from(congested);
        now += rate.time_for(1500);
    }
    let codel = Fate::Dropped(DropCause::Codel);
    assert!(bench.lost.iter().all(|(_, fate)| *fate == codel));
    (sent, marked, bench.lost.len())
}

#[test]
fn codel_drops_from_a_standing_queue_and_marks_where_that_is_understood() {
    let (sent, marked, dropped) = overload(0, 20, 120);
    assert_eq!((sent, marked), (96, 0));
    assert!(dropped > 20, "{dropped}");
    let (sent, marked, dropped) = overload(2, 20, 120);
    assert_eq!((sent, dropped), (96, 0));
    assert!(marked > 20, "{marked}");
    // Two packets are a wait of 1.25 s, less than the target of 1.875 s: nothing is wrong.
    assert_eq!(overload(0, 2, 120), (96, 0, 0));
}

#[test]
fn codel_never_drops_the_last_packet() {
    let mut bench = Bench::new(
        100,
        "kind = 'fq-codel'\ntarget = '5 ms'\ninterval = '100 ms'",
    );
    for mark in 0..8u16 {
        bench.offer(T, 1, 1500, mark);
        let later = T + Duration::from_secs(60 * (1 + u64::from(mark)));
        assert_eq!(bench.send(later).map(|sent| sent.2), Some(mark));
    }
    assert_eq!(bench.lost, []);
}

/// Octets by flow when every flow always has packets waiting.
fn shares(kind: &str, sizes: &[Vec<usize>]) -> Vec<u64> {
    let mut bench = Bench::new(1000, kind);
    let mut next: Vec<_> = sizes.iter().map(|sizes| sizes.iter().cycle()).collect();
    let mut offer = |bench: &mut Bench, flow: u16| {
        let octets = *next[usize::from(flow)].next().unwrap();
        assert_eq!(bench.offer(T, flow, octets, 0), None);
    };
    for flow in 0..sizes.len() as u16 {
        for _ in 0..3 {
            offer(&mut bench, flow);
        }
    }
    let mut sent = vec![0; sizes.len()];
    for _ in 0..10_000 {
        let (flow, octets, ..) = bench.send(T).unwrap();
        sent[usize::from(flow)] += u64::from(octets);
        offer(&mut bench, flow);
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn flows_get_equal_octets_whatever_their_sizes(
        sizes in many(many(40..=1500usize, 1..20), 2..=4),
    ) {
        for kind in ["kind = 'fair'", "kind = 'sfq'", "kind = 'fq-codel'\nquantum = 300"] {
            let sent = shares(kind, &sizes);
            let due = sent.iter().sum::<u64>() as f64 / sent.len() as f64;
            for octets in &sent {
                let off = (*octets as f64 / due - 1.0).abs();
                prop_assert!(off <= 0.01, "{} {:?}: off by {}", kind, sent, off);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer { flow: u16, octets: usize, ecn: u8 },
    Send,
    Pass { ms: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..6u16, 40..1500usize, 0..4u8)
            .prop_map(|(flow, octets, ecn)| Step::Offer { flow, octets, ecn }),
        4 => Just(Step::Send),
        1 => (1..900u32).prop_map(|ms| Step::Pass { ms }),
    ]
}

const KINDS: [&str; 8] = [
    "kind = 'fifo'\nthin_acks = true",
    "kind = 'fair'",
    "kind = 'sfq'\nperturb = '500 ms'\nbuckets = 4",
    "kind = 'sfq'\nhead_drop = true\ndepth = 5\nquantum = 100",
    "kind = 'fq-codel'",
    "kind = 'fq-codel'\ntarget = '5 ms'\ninterval = '20 ms'\nquantum = 300\necn = false",
    "kind = 'wred'\nexponent = 1\nprofile.DF = { min = 2, max = 12 }",
    "kind = 'wred'\necn = true\nexponent = 1\nspread = false\nprofile.DF = { min = 2, max = 12 }",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The ledger and the leaf's own counters are compared after every step by the bench.
    #[test]
    fn nothing_is_lost_doubled_or_reordered_and_the_line_never_waits(
        kind in prop::sample::select(&KINDS[..]),
        packets in 1..20u32,
        octets in prop::option::of(1500..20_000u64),
        steps in many(step(), 1..300),
    ) {
        let mut bench = Bench::with(packets, octets, kind);
        bench.leaf.set_line_rate(LineRate::new(64_000, 8));
        let mut waiting: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
        let mut now = T;
        for (mark, step) in (0u16..).zip(steps) {
            match step {
                Step::Offer { flow, octets, ecn } => {
                    if bench.offer_with(now, flow, octets, mark, ecn).is_none() {
                        waiting.entry(flow).or_default().push(mark);
                    }
                    prop_assert!(bench.leaf.queued().packets <= packets);
                }
                Step::Send => {
                    let backlog = waiting.values().any(|queue| !queue.is_empty());
                    let sent = bench.send(now);
                    prop_assert_eq!(sent.is_some(), backlog, "work is conserved");
                    for (mark, _) in core::mem::take(&mut bench.lost) {
                        waiting.values_mut().for_each(|queue| queue.retain(|it| *it != mark));
                    }
                    if let Some((flow, _, mark, _)) = sent {
                        let queue = waiting.entry(flow).or_default();
                        prop_assert_eq!(queue.first(), Some(&mark), "in order");
                        queue.remove(0);
                    }
                }
                Step::Pass { ms } => now += MS * ms,
            }
            for (mark, _) in core::mem::take(&mut bench.lost) {
                waiting.values_mut().for_each(|queue| queue.retain(|it| *it != mark));
            }
            let model: usize = waiting.values().map(Vec::len).sum();
            prop_assert_eq!(model as u32, bench.leaf.queued().packets);
        }
    }
}

#[test]
fn what_waits_for_a_turn_is_no_older_for_it() {
    let rate = LineRate::new(9600, 8);
    let site = Site {
        turn: Duration::from_secs(120),
        ..Site::default()
    };
    let on = |ms| age_on(Duration::from_millis(ms), None, rate, site).as_millis();
    assert_eq!([5000, 10_000, 60_000].map(on), [125_000, 130_000, 180_000]);
    // What is of no use any more then isn't kept.
    assert_eq!([500, 4999].map(on), [500, 4999]);
}
