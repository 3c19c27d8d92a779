//! Properties of any tree, whatever its disciplines.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::{format, vec};
use core::fmt::Write as _;

use proptest::collection::vec as many;
use proptest::prelude::*;
use strait_core::fate::Origin;
use strait_core::{Duration, Ledger, PortId};
use strait_wire::ip::build_udp;

use super::*;
use crate::config::PolicyConfig;
use crate::scheduler::Open;

const T: Instant = Instant::from_secs(100);
const DISCIPLINES: [&str; 4] = ["wdrr", "cbwfq", "htb", "htb-strict"];

/// A class as drawn; which of its keys are written depends on its parent.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) band: u8,
    weight: u16,
    rate_kbit_s: u32,
    ceil_kbit_s: u32,
    prio: u8,
    shape: Option<usize>,
}

fn drawn(limits: bool) -> impl Strategy<Value = Drawn> {
    // More than half without a shaper; all of them, if there are to be no limits.
    let shape = (0..10usize).prop_map(move |kind| Some(kind).filter(|kind| limits && *kind < 4));
    (0..3u8, 1..20u16, 8..200u32, 0..200u32, 0..8u8, shape).prop_map(
        |(band, weight, rate, more, prio, shape)| Drawn {
            band,
            weight,
            rate_kbit_s: rate,
            ceil_kbit_s: rate + more,
            prio,
            shape,
        },
    )
}

/// A class with others below it: their discipline, if it has one, and their number.
pub(super) type Group = (Drawn, Option<usize>, Vec<Drawn>);

#[derive(Clone, Debug)]
pub(super) struct DrawnTree {
    root: usize,
    pub(super) groups: Vec<Group>,
}

pub(super) fn drawn_tree(disciplines: usize, limits: bool) -> impl Strategy<Value = DrawnTree> {
    let own = prop::option::of(0..disciplines);
    let group = (drawn(limits), own, many(drawn(limits), 1..4));
    (0..disciplines, many(group, 1..4)).prop_map(|(root, groups)| DrawnTree { root, groups })
}

const SHAPES: [&str; 4] = ["token-bucket", "virtual-clock", "average", "peak"];

fn write_class(text: &mut String, drawn: &Drawn, htb: bool, inner: bool, shaped: bool) {
    if htb {
        let _ = writeln!(
            text,
            "rate = \"{} kbit/s\"\nceil = \"{} kbit/s\"",
            drawn.rate_kbit_s, drawn.ceil_kbit_s
        );
        if !inner {
            let _ = writeln!(text, "prio = {}", drawn.prio);
        }
    } else {
        let _ = writeln!(text, "band = {}\nweight = {}", drawn.band, drawn.weight);
    }
    if let Some(kind) = drawn.shape.filter(|_| shaped) {
        let _ = writeln!(
            text,
            "shape = {{ kind = \"{}\", rate = \"{} kbit/s\" }}",
            SHAPES[kind], drawn.ceil_kbit_s
        );
    }
}

impl DrawnTree {
    pub(super) fn config(&self) -> PolicyConfig {
        let mut text = format!(
            "default = \"l0-0\"\ndiscipline = \"{}\"\n",
            DISCIPLINES[self.root]
        );
        let root_htb = self.root >= 2;
        for (number, (class, own, leaves)) in self.groups.iter().enumerate() {
            let _ = writeln!(text, "[[class]]\nname = \"g{number}\"");
            let within = root_htb && own.is_none();
            write_class(&mut text, class, root_htb, within, !within);
            if let Some(own) = own {
                let _ = writeln!(text, "discipline = \"{}\"", DISCIPLINES[*own]);
            }
            let htb = own.map_or(root_htb, |own| own >= 2);
            for (leaf, class) in leaves.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "[[class]]\nname = \"l{number}-{leaf}\"\nparent = \"g{number}\"\npackets = 20"
                );
                write_class(&mut text, class, htb, false, true);
            }
        }
        toml::from_str(&text).unwrap()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer { class: usize, octets: usize },
    Send { pieces: u32 },
    Pass { us: u64 },
    Rate { kbit_s: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..9usize, 40..1500usize).prop_map(|(class, octets)| Step::Offer { class, octets }),
        5 => (1..4u32).prop_map(|pieces| Step::Send { pieces }),
        3 => (1..50_000u64).prop_map(|us| Step::Pass { us }),
        1 => (8..2000u64).prop_map(|kbit_s| Step::Rate { kbit_s }),
    ]
}

/// A tree, its ledger, and the waiting packets of a plain model.
struct Run {
    tree: Tree,
    ledger: Ledger,
    now: Instant,
    waiting: BTreeMap<usize, VecDeque<u16>>,
    mark: u16,
}

impl Run {
    fn new(config: &PolicyConfig) -> Self {
        let mut tree = Tree::new(&Policy::compile(config).unwrap(), Site::default());
        tree.set_line_rate(LineRate::new(10_000_000, 8));
        tree.advance(T);
        Self {
            tree,
            ledger: Ledger::default(),
            now: T,
            waiting: BTreeMap::new(),
            mark: 0,
        }
    }

    fn offer(&mut self, class: usize, octets: usize) {
        let (src, dst) = ("10.1.0.2:1".parse().unwrap(), "10.2.0.2:2".parse().unwrap());
        let mut bytes = Vec::new();
        self.mark = self.mark.wrapping_add(1);
        let payload = vec![0; octets - 28];
        assert!(build_udp(
            src, dst, 0, 64, self.mark, 0, &payload, &mut bytes
        ));
        let mut packet = self.ledger.admit(self.now, bytes, Origin::Own).unwrap();
        packet.class = ClassId((class % self.tree.leaves.len()) as u8);
        let class = packet.class.index();
        match self.tree.enqueue(self.now, packet) {
            Ok(()) => self.waiting.entry(class).or_default().push_back(self.mark),
            Err((packet, fate)) => {
                self.ledger.close(self.now, packet, fate);
            }
        }
    }

    /// Sends a packet in so many pieces, with nothing between them; whether there was one.
    fn send(&mut self, pieces: u32) -> Option<usize> {
        let head = self.tree.head(&Open)?;
        let packet = self.tree.take(self.now, head).unwrap();
        let class = head.class.index();
        let mark = u16::from_be_bytes([packet.bytes()[4], packet.bytes()[5]]);
        let first = self.waiting.get_mut(&class).and_then(VecDeque::pop_front);
        assert_eq!(first, Some(mark), "in order");
        let mut left = head.octets;
        for piece in (0..pieces).rev() {
            let octets = if piece == 0 { left } else { left / (piece + 1) };
            left -= octets;
            self.tree.set_under_way(head.class, head.to, left);
            self.tree.charge(head.class, octets);
        }
        let to = head.to;
        let fate = Fate::Forwarded {
            port: PortId(1),
            to,
        };
        self.ledger.close(self.now, packet, fate);
        Some(class)
    }

    fn pass_to(&mut self, now: Instant) {
        self.now = now;
        self.tree.advance(now);
        assert!(self.tree.discard(now).is_none(), "nothing ages here");
    }

    /// Waiting packets have a head, or a moment at which they will have one.
    fn check(&mut self) {
        self.tree.check();
        let waiting: usize = self.waiting.values().map(VecDeque::len).sum();
        assert_eq!(self.tree.total().packets as usize, waiting);
        assert_eq!(self.ledger.held(), waiting as u64, "one fate each");
        let (head, start) = (self.tree.head(&Open), self.tree.starts(&Open));
        assert_eq!(head.is_some() || start.is_some(), waiting > 0);
        assert!(head.is_none() || start.is_none());
        assert!(start.is_none_or(|start| start > self.now));
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Offer { class, octets } => self.offer(class, octets),
            Step::Send { pieces } => {
                self.send(pieces);
            }
            Step::Pass { us } => self.pass_to(self.now + Duration::from_micros(us)),
            Step::Rate { kbit_s } => self.tree.set_line_rate(LineRate::new(1000 * kbit_s, 8)),
        }
        self.check();
    }

    /// Waits until no packet is held back.
    fn drain_in_time(&mut self) {
        let mut waits = 0;
        while self.tree.total().packets > 0 {
            if self.send(1).is_some() {
                waits = 0;
                continue;
            }
            let start = self.tree.starts(&Open).expect("it will go");
            self.pass_to(Instant::from_nanos(start.as_nanos() - 1));
            assert_eq!(self.tree.head(&Open), None, "not a nanosecond early");
            self.pass_to(start);
            waits += 1;
            assert!(waits <= 100, "each moment asked for brings it nearer");
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_is_lost_reordered_early_or_forgotten(
        drawn in drawn_tree(4, true),
        steps in many(step(), 1..200),
    ) {
        let mut run = Run::new(&drawn.config());
        for step in &steps {
            run.step(step);
        }
        run.drain_in_time();
    }

    #[test]
    fn without_limits_the_line_never_rests_while_something_waits(
        drawn in drawn_tree(2, false),
        steps in many(step(), 1..200),
    ) {
        let mut run = Run::new(&drawn.config());
        for step in &steps {
            run.step(step);
            prop_assert_eq!(run.tree.head(&Open).is_some(), run.tree.total().packets > 0);
        }
    }

    #[test]
    fn a_strict_class_waits_for_one_packet_at_most(
        mut drawn in drawn_tree(2, false),
        steps in many(step(), 1..100),
    ) {
        // The first leaf is before all others on its whole way.
        for (number, (group, _, leaves)) in drawn.groups.iter_mut().enumerate() {
            group.band = u8::from(number > 0) * (1 + group.band);
            for (leaf, class) in leaves.iter_mut().enumerate() {
                class.band = u8::from(leaf > 0) * (1 + class.band);
            }
        }
        let mut run = Run::new(&drawn.config());
        for step in &steps {
            run.step(step);
            let urgent = run.waiting.get(&0).is_some_and(|queue| !queue.is_empty());
            if urgent {
                prop_assert_eq!(run.tree.head(&Open).map(|head| head.class), Some(ClassId(0)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_goes_directly_waits_for_one_packet_at_most(
        strict in any::<bool>(),
        steps in many(step(), 1..150),
    ) {
        let discipline = if strict { "htb-strict" } else { "htb" };
        let config = format!(
            "default = \"a\"\ndiscipline = \"{discipline}\"\n\
             [[class]]\nname = \"direct\"\ndirect = true\n\
             [[class]]\nname = \"a\"\nrate = \"8 kbit/s\"\n\
             [[class]]\nname = \"b\"\nrate = \"64 kbit/s\"\n",
        );
        let mut run = Run::new(&toml::from_str(&config).unwrap());
        for step in &steps {
            run.step(step);
            if run.waiting.get(&0).is_some_and(|queue| !queue.is_empty()) {
                prop_assert_eq!(run.tree.head(&Open).map(|head| head.class), Some(ClassId(0)));
            }
        }
        run.drain_in_time();
    }
}

/// Octets of each class when all always have packets waiting and the line is free.
fn flooded(config: &PolicyConfig, sizes: &[Vec<usize>], packets: usize) -> Vec<u64> {
    let mut run = Run::new(config);
    let mut next: Vec<_> = sizes.iter().map(|sizes| sizes.iter().cycle()).collect();
    let mut sent = vec![0; sizes.len()];
    let mut queued: Vec<VecDeque<u64>> = vec![VecDeque::new(); sizes.len()];
    let mut offer = |run: &mut Run, queued: &mut Vec<VecDeque<u64>>, class: usize| {
        let octets = *next[class].next().unwrap();
        queued[class].push_back(octets as u64);
        run.offer(class, octets);
    };
    for class in 0..sizes.len() {
        for _ in 0..3 {
            offer(&mut run, &mut queued, class);
        }
    }
    for _ in 0..packets {
        while run.tree.head(&Open).is_none() {
            let start = run.tree.starts(&Open).unwrap();
            run.pass_to(start);
        }
        let class = run.send(1).unwrap();
        sent[class] += queued[class].pop_front().unwrap();
        offer(&mut run, &mut queued, class);
    }
    sent
}

fn assert_shares(sent: &[u64], shares: &[f64]) -> Result<(), TestCaseError> {
    let (total, whole) = (sent.iter().sum::<u64>() as f64, shares.iter().sum::<f64>());
    for (octets, share) in sent.iter().zip(shares) {
        let off = (*octets as f64 / (total * share / whole) - 1.0).abs();
        prop_assert!(off <= 0.01, "{:?} for {:?}", sent, shares);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn shares_hold_on_every_level_whatever_the_sizes(
        disciplines in (0..2usize, 0..2usize),
        weights in ((1..8u16, 1..8u16), (1..8u16, 1..8u16)),
        sizes in many(many(40..1500usize, 1..20), 3..=3),
    ) {
        let ((group, lone), (one, two)) = weights;
        let config = format!(
            "default = \"a\"\ndiscipline = \"{}\"\n\
             [[class]]\nname = \"g\"\nweight = {group}\ndiscipline = \"{}\"\n\
             [[class]]\nname = \"a\"\nparent = \"g\"\nweight = {one}\n\
             [[class]]\nname = \"b\"\nparent = \"g\"\nweight = {two}\n\
             [[class]]\nname = \"c\"\nweight = {lone}\n",
            DISCIPLINES[disciplines.0], DISCIPLINES[disciplines.1],
        );
        let sent = flooded(&toml::from_str(&config).unwrap(), &sizes, 10_000);
        let of = |weight: u16| f64::from(group) * f64::from(weight) / f64::from(one + two);
        assert_shares(&sent, &[of(one), of(two), f64::from(lone)])?;
    }

    #[test]
    fn strict_token_buckets_share_by_rate_whatever_the_sizes(
        rates in (16..200u32, 16..200u32),
        sizes in many(many(40..1500usize, 1..20), 2..=2),
    ) {
        let (a, b) = rates;
        let config = format!(
            "default = \"a\"\ndiscipline = \"htb-strict\"\n\
             [[class]]\nname = \"all\"\nrate = \"1 Mbit/s\"\n\
             [[class]]\nname = \"a\"\nparent = \"all\"\nrate = \"{a} kbit/s\"\nceil = \"100 %\"\n\
             [[class]]\nname = \"b\"\nparent = \"all\"\nrate = \"{b} kbit/s\"\nceil = \"100 %\"\n",
        );
        let sent = flooded(&toml::from_str(&config).unwrap(), &sizes, 10_000);
        assert_shares(&sent, &[f64::from(a), f64::from(b)])?;
    }
}
