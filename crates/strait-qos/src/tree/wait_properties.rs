//! No packet of a class waits longer than [`worst_wait`] promises, whatever the others send.

use alloc::collections::VecDeque;
use alloc::vec;

use proptest::collection::vec as many;
use proptest::prelude::*;
use strait_core::fate::Origin;
use strait_core::units::{BitRate, Octets};
use strait_core::{Duration, Ledger, PortId};
use strait_wire::ip::build_udp;

use super::properties::drawn_tree;
use super::shaper::time_for;
use super::*;
use crate::Policers;
use crate::config::PolicyConfig;
use crate::police::PoliceConfig;
use crate::police::config::BucketConfig;
use crate::scheduler::Open;
use crate::wait::{Line, PACKET_OCTETS_MAX, worst_wait};

const T: Instant = Instant::from_secs(100);

/// The packets of the others and of the class itself.
#[derive(Clone, Debug)]
struct Traffic {
    line_bit_s: u64,
    /// Lengths of the others' packets, in turn.
    others: Vec<usize>,
    /// Between the others' beginning and the class's first packet, and from the start of one of its
    /// packets to the arrival of the next one.
    gaps_us: Vec<u64>,
    /// Lengths of the class's packets.
    own: Vec<usize>,
    /// Packets of the class that come at once.
    at_once: usize,
}

fn octets() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1500usize), Just(40usize), 40..1500usize]
}

fn traffic() -> impl Strategy<Value = Traffic> {
    (
        prop_oneof![Just(1_000_000u64), 9_600..2_000_000u64],
        many(octets(), 1..6),
        many(prop_oneof![Just(0u64), 0..300_000u64], 1..12),
        many(octets(), 1..12),
        1..4usize,
    )
        .prop_map(|(line_bit_s, others, gaps_us, own, at_once)| Traffic {
            line_bit_s,
            others,
            gaps_us,
            own,
            at_once,
        })
}

/// A line that carries packet after packet, and others that always have two waiting, as far as
/// policers let them.
struct Port<'a> {
    tree: Tree,
    policers: Policers,
    ledger: Ledger,
    now: Instant,
    traffic: &'a Traffic,
    class: ClassId,
    sent: usize,
    /// The line carries something until then.
    busy_until: Instant,
    /// When each waiting packet of the class arrived.
    waiting: VecDeque<Instant>,
    /// The greatest wait of any packet: the observation ends then.
    said: Duration,
    waits: Vec<Duration>,
}

impl<'a> Port<'a> {
    fn new(policy: &Policy, class: ClassId, traffic: &'a Traffic, said: Duration) -> Self {
        let mut tree = Tree::new(policy, Site::default());
        tree.set_line_rate(LineRate::new(traffic.line_bit_s, 8));
        tree.advance(T);
        Self {
            tree,
            policers: Policers::new(policy.classes()),
            ledger: Ledger::default(),
            now: T,
            traffic,
            class,
            sent: 0,
            busy_until: T,
            waiting: VecDeque::new(),
            said,
            waits: Vec::new(),
        }
    }

    /// Whether it found room.
    fn offer(&mut self, class: ClassId, octets: usize) -> bool {
        let (src, dst) = ("10.1.0.2:1".parse().unwrap(), "10.2.0.2:2".parse().unwrap());
        let mut bytes = Vec::new();
        assert!(build_udp(
            src,
            dst,
            0,
            64,
            0,
            0,
            &vec![0; octets - 28],
            &mut bytes
        ));
        let mut packet = self.ledger.admit(self.now, bytes, Origin::Own).unwrap();
        packet.class = class;
        let judged = self.policers.judge(self.now, true, &mut packet);
        if judged.is_some_and(|(_, passes)| !passes) {
            let fate = Fate::Dropped(DropCause::Policed);
            self.ledger.close(self.now, packet, fate);
            return false;
        }
        match self.tree.enqueue(self.now, packet) {
            Ok(()) => true,
            Err((packet, fate)) => {
                self.ledger.close(self.now, packet, fate);
                false
            }
        }
    }

    fn crowd(&mut self) {
        for number in 0..self.tree.leaves.len() {
            let class = ClassId(number as u8);
            while class != self.class && self.tree.queued(class).packets < 2 {
                let octets = self.traffic.others[self.sent % self.traffic.others.len()];
                self.sent += 1;
                if !self.offer(class, octets) {
                    break;
                }
            }
        }
    }

    /// Lets the line work until then, or until the class has nothing more.
    fn work(&mut self, until: Option<Instant>) {
        while until.map_or(!self.waiting.is_empty(), |until| self.now < until) {
            if let Some(came) = self
                .waiting
                .front()
                .filter(|came| **came + self.said < self.now)
            {
                self.waits.push(span(*came, self.now));
                return;
            }
            self.crowd();
            let next = if self.busy_until > self.now {
                self.busy_until
            } else if let Some(head) = self.tree.head(&Open) {
                self.send(head);
                self.busy_until
            } else {
                // Policers may let the others in.
                let soon = self.now + Duration::from_millis(1);
                self.tree
                    .starts(&Open)
                    .map_or(soon, |start| start.min(soon))
            };
            self.now = until.map_or(next, |until| next.min(until));
            self.tree.advance(self.now);
        }
    }

    fn send(&mut self, head: Head) {
        let packet = self.tree.take(self.now, head).unwrap();
        self.tree.charge(head.class, head.octets);
        if head.class == self.class {
            let came = self.waiting.pop_front().unwrap();
            self.waits.push(Duration::from_nanos(
                (self.now.since(came)).as_nanos() as u64
            ));
        }
        let fate = Fate::Forwarded {
            port: PortId(1),
            to: head.to,
        };
        self.ledger.close(self.now, packet, fate);
        self.busy_until = self.now + time_for(head.octets.into(), self.traffic.line_bit_s);
    }

    /// Packets of the class come, `at_once` together, and no more while one of them waits.
    fn run(&mut self) {
        for (round, gap_us) in self.traffic.gaps_us.iter().enumerate() {
            // Just after something has begun to leave, or a while later.
            let then = self.now + Duration::from_nanos(1);
            self.work(Some(then + Duration::from_micros(*gap_us)));
            for number in 0..self.traffic.at_once {
                let place = round * self.traffic.at_once + number;
                let octets = self.traffic.own[place % self.traffic.own.len()];
                if self.offer(self.class, octets) {
                    self.waiting.push_back(self.now);
                }
            }
            self.work(None);
            if !self.waiting.is_empty() {
                return;
            }
        }
    }
}

fn span(from: Instant, until: Instant) -> Duration {
    Duration::from_nanos(until.as_nanos() - from.as_nanos())
}

/// The policy, with policers before some of its classes.
fn policed(mut config: PolicyConfig, rates: &[Option<(u64, u64)>]) -> PolicyConfig {
    let leaves = config
        .classes
        .iter_mut()
        .filter(|class| class.parent.is_some());
    for (class, rate) in leaves.zip(rates.iter().cycle()) {
        class.police = rate.map(|(kbit_s, octets)| {
            PoliceConfig::Bucket(BucketConfig {
                rate: BitRate(1000 * kbit_s),
                burst: Some(Octets(octets)),
                peak_rate: None,
                peak_burst: None,
                green: crate::police::config::Action::Pass,
                red: crate::police::config::Action::Drop,
                when: crate::police::config::When::Always,
            })
        });
    }
    config
}

/// The longest wait of a class in these rounds, and its promise: of the packet that arrives at an
/// empty class, or of one behind others.
fn waited(policy: &Policy, class: ClassId, traffic: &Traffic) -> Option<(Duration, Duration)> {
    let line = Line {
        bit_s: traffic.line_bit_s,
        unit_octets: PACKET_OCTETS_MAX,
        cuts_packets: true,
    };
    let said = worst_wait(policy, class, line);
    let said = if traffic.at_once == 1 {
        said.alone
    } else {
        said.full
    }?;
    // Simulating hours shows nothing more.
    if said > Duration::from_secs(60) {
        return None;
    }
    let mut port = Port::new(policy, class, traffic, said);
    port.run();
    Some((port.waits.iter().copied().max()?, said))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_packet_waits_longer_than_was_said(
        drawn in drawn_tree(4, true),
        rates in many(prop::option::of((8..100u64, 1500..6000u64)), 1..6),
        traffic in traffic(),
    ) {
        let config = policed(drawn.config(), &rates);
        let policy = Policy::compile(&config).unwrap();
        for number in 0..policy.classes().len() {
            let class = ClassId(number as u8);
            if let Some((waited, said)) = waited(&policy, class, &traffic) {
                prop_assert!(
                    waited <= said,
                    "{} waited {:?}, said {:?}:\n{}",
                    policy.classes()[number].name, waited, said,
                    toml::to_string(&config).unwrap_or_default(),
                );
            }
        }
    }
}

/// The longest wait as a share of the promise.
fn reached(text: &str, class: &str, traffic: &Traffic) -> f64 {
    let policy = Policy::compile(&toml::from_str(text).unwrap()).unwrap();
    let class = policy.class_named(class).unwrap();
    let (waited, said) = waited(&policy, class, traffic).unwrap();
    waited.as_secs_f64() / said.as_secs_f64()
}

#[test]
fn what_is_said_of_strict_classes_is_nearly_reached() {
    let traffic = |at_once: usize| Traffic {
        line_bit_s: 100_000,
        others: vec![1500],
        gaps_us: vec![0, 300_000, 200_000, 1_000_000, 3_000_000],
        own: vec![1500],
        at_once,
    };
    let first = "default = \"b\"\nclass = [{ name = \"a\", band = 0, packets = 4 }, \
                 { name = \"b\" }]";
    assert!(reached(first, "a", &traffic(1)) > 0.99);
    assert!(reached(first, "a", &traffic(4)) > 0.75);
    // Behind a policed band, whose bucket is full after a pause.
    let second = "default = \"b\"\nclass = [{ name = \"a\", band = 0, police = { \
                  kind = \"bucket\", rate = \"20 kbit/s\", burst = \"6 kB\" } }, \
                  { name = \"b\", band = 1 }]";
    let share = reached(second, "b", &traffic(1));
    assert!(share > 0.6, "{share}");
}
