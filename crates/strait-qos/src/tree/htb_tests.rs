//! Whole trees of token buckets in virtual time: what leaves through a line without a limit of its
//! own.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::{format, vec};

use strait_core::fate::Origin;
use strait_core::rate::LineRate;
use strait_core::{ClassId, Fate, Instant, Ledger, NeighbourId, PortId};
use strait_wire::ip::build_udp;

use super::*;
use crate::config::PolicyConfig;
use crate::leaf::Site;
use crate::policy::Policy;
use crate::scheduler::{Open, Scheduler};
use crate::tree::Tree;

const T: Instant = Instant::from_secs(100);

/// A tree whose classes have packets without end, each class of one size.
struct Flood {
    tree: Tree,
    ledger: Ledger,
    sizes: Vec<u32>,
    sent: BTreeMap<usize, u64>,
    now: Instant,
}

impl Flood {
    fn new(policy: &str, sizes: &[u32]) -> Self {
        let config: PolicyConfig = toml::from_str(policy).unwrap();
        let policy = Policy::compile(&config).unwrap();
        let mut tree = Tree::new(&policy, Site::default());
        tree.set_line_rate(LineRate::new(1_000_000_000, 8));
        tree.advance(T);
        let mut flood = Self {
            tree,
            ledger: Ledger::default(),
            sizes: sizes.to_vec(),
            sent: BTreeMap::new(),
            now: T,
        };
        for class in 0..sizes.len() {
            for _ in 0..4 {
                flood.offer(class);
            }
        }
        flood
    }

    fn offer(&mut self, class: usize) {
        let size = self.sizes[class];
        if size == 0 {
            return;
        }
        let (src, dst) = ("10.1.0.2:1".parse().unwrap(), "10.2.0.2:2".parse().unwrap());
        let mut bytes = Vec::new();
        let payload = vec![0; size as usize - 28];
        assert!(build_udp(src, dst, 0, 64, 0, 0, &payload, &mut bytes));
        let mut packet = self.ledger.admit(self.now, bytes, Origin::Own).unwrap();
        packet.class = ClassId(class as u8);
        assert!(self.tree.enqueue(self.now, packet).is_ok());
    }

    /// Sends one packet if one may go now.
    fn send(&mut self) -> Option<usize> {
        let head = self.tree.head(&Open)?;
        let packet = self.tree.take(self.now, head).unwrap();
        self.tree.charge(head.class, head.octets);
        let to = NeighbourId::PEER;
        self.ledger.close(
            self.now,
            packet,
            Fate::Forwarded {
                port: PortId(1),
                to,
            },
        );
        let class = head.class.index();
        *self.sent.entry(class).or_default() += u64::from(head.octets);
        self.offer(class);
        Some(class)
    }

    /// Lets go what may go until `end`, as if each wake-up came at its instant.
    fn run_until(&mut self, end: Instant) {
        loop {
            while self.send().is_some() {}
            self.tree.check();
            let next = self.tree.starts(&Open).expect("something always waits");
            assert!(next > self.now, "{next:?}");
            if next > end {
                return;
            }
            self.now = next;
            self.tree.advance(next);
        }
    }

    /// kbit/s of each class over ten seconds, after three to settle.
    fn kbit_s(mut self) -> Vec<f64> {
        self.run_until(T + Duration::from_secs(3));
        self.sent.clear();
        self.run_until(T + Duration::from_secs(13));
        let of = |class| self.sent.get(&class).copied().unwrap_or(0);
        (0..self.sizes.len())
            .map(|class| of(class) as f64 * 8.0 / 10.0 / 1000.0)
            .collect()
    }
}

fn pair(discipline: &str, a: &str, b: &str) -> String {
    let leaf = |name, keys| {
        format!(
            "[[class]]\nname = \"{name}\"\nparent = \"all\"\nceil = \"1 Mbit/s\"\n\
             {keys}\n"
        )
    };
    format!(
        "default = \"a\"\ndiscipline = \"{discipline}\"\n[[class]]\nname = \"all\"\n\
         rate = \"1 Mbit/s\"\n{}{}",
        leaf("a", a),
        leaf("b", b)
    )
}

fn assert_near(rates: &[f64], expected: &[f64], percent: f64) {
    for (rate, expected) in rates.iter().zip(expected) {
        let off = (rate / expected - 1.0).abs() * 100.0;
        assert!(off <= percent, "{rates:?}, not {expected:?}");
    }
}

/// What the HTB of Linux 6.18 sent (measured over a pair of virtual interfaces, both leaves always
/// backlogged): sizes of frames, keys of the leaves, kbit/s.
const MEASURED: [([u32; 2], [&str; 2], [f64; 2]); 5] = [
    (
        [1284, 1284],
        ["rate = \"32 kbit/s\"", "rate = \"128 kbit/s\""],
        [406.0, 594.0],
    ),
    (
        [168, 1312],
        ["rate = \"32 kbit/s\"", "rate = \"32 kbit/s\""],
        [437.0, 563.0],
    ),
    (
        [1284, 1284],
        [
            "rate = \"32 kbit/s\"\nquantum = 1514",
            "rate = \"128 kbit/s\"\nquantum = 6056",
        ],
        [200.0, 800.0],
    ),
    (
        [1284, 1284],
        [
            "rate = \"32 kbit/s\"\nprio = 1",
            "rate = \"128 kbit/s\"\nprio = 2",
        ],
        [872.0, 128.0],
    ),
    (
        [1284, 1284],
        ["rate = \"800 kbit/s\"", "rate = \"800 kbit/s\""],
        [800.0, 800.0],
    ),
];

#[test]
fn five_cases_come_out_as_linux_has_them() {
    for (sizes, [a, b], expected) in MEASURED {
        let rates = Flood::new(&pair("htb", a, b), &sizes).kbit_s();
        assert_near(&rates, &expected, 2.0);
    }
}

#[test]
fn strict_buckets_share_what_is_borrowed_by_rate_and_hold_the_parent() {
    let expected = [
        [200.0, 800.0],
        [500.0, 500.0],
        [200.0, 800.0],
        [872.0, 128.0],
        [500.0, 500.0],
    ];
    for ((sizes, [a, b], _), expected) in MEASURED.into_iter().zip(expected) {
        let rates = Flood::new(&pair("htb-strict", a, b), &sizes).kbit_s();
        assert_near(&rates, &expected, 2.0);
    }
}

#[test]
fn a_class_within_its_rate_goes_before_one_that_borrows_at_a_better_priority() {
    let policy = pair(
        "htb",
        "rate = \"10 kbit/s\"\nprio = 0",
        "rate = \"300 kbit/s\"\nprio = 7",
    );
    let rates = Flood::new(&policy, &[1000, 1000]).kbit_s();
    assert_near(&rates, &[700.0, 300.0], 2.0);
}

#[test]
fn what_goes_directly_is_neither_limited_nor_charged() {
    let policy = "default = \"a\"\ndiscipline = \"htb\"\n\
                  [[class]]\nname = \"a\"\nrate = \"8 kbit/s\"\n\
                  [[class]]\nname = \"direct\"\ndirect = true\n";
    let mut flood = Flood::new(policy, &[100, 0]);
    // A full bucket of 1600 octets and the packet that overdraws it.
    let sent = core::iter::from_fn(|| flood.send()).count();
    assert_eq!(sent, 17);
    flood.sizes[1] = 1500;
    flood.offer(1);
    assert_eq!(flood.send(), Some(1));
    // 1700 octets of a bucket of 1600.
    flood.sizes[1] = 0;
    assert_eq!(flood.send(), Some(1), "the one more that was offered");
    let at = T + Duration::from_millis(100);
    assert_eq!(flood.tree.starts(&Open), Some(at));
}

#[test]
fn a_packet_goes_at_the_instant_of_its_tokens_and_not_before() {
    let policy = "discipline = \"htb\"\n[[class]]\nname = \"a\"\nrate = \"8 kbit/s\"\n\
                  burst = 100\ncburst = 100\n";
    let mut flood = Flood::new(policy, &[100]);
    assert_eq!((flood.send(), flood.send()), (Some(0), Some(0)));
    let at = T + Duration::from_millis(100);
    assert_eq!(flood.tree.starts(&Open), Some(at));
    flood.now = at - Duration::from_nanos(1);
    flood.tree.advance(flood.now);
    assert_eq!(flood.send(), None);
    assert_eq!(flood.tree.starts(&Open), Some(at));
    flood.now = at;
    flood.tree.advance(at);
    assert_eq!(flood.tree.starts(&Open), None, "there is a head");
    assert_eq!(flood.send(), Some(0));
}

#[test]
fn inner_classes_borrow_from_theirs() {
    // Two groups of 300 kbit/s under 1 Mbit/s; only one has a third of its rate given away.
    let leaf = |name, parent, rate| {
        format!(
            "[[class]]\nname = \"{name}\"\nparent = \"{parent}\"\nrate = \"{rate}\"\nceil = \"1 Mbit/s\"\n"
        )
    };
    let policy = format!(
        "default = \"b\"\ndiscipline = \"htb\"\n[[class]]\nname = \"all\"\nrate = \"1 Mbit/s\"\n{}{}{}{}{}",
        leaf("x", "all", "600 kbit/s"),
        leaf("y", "all", "200 kbit/s"),
        leaf("a", "x", "300 kbit/s"),
        leaf("b", "x", "300 kbit/s"),
        leaf("c", "y", "100 kbit/s"),
    );
    // Nothing of b: a takes its group's rate first, then shares the rest with c.
    let rates = Flood::new(&policy, &[1000, 0, 1000]).kbit_s();
    let sum: f64 = rates.iter().sum();
    assert!((sum - 1000.0).abs() < 20.0, "{rates:?}");
    assert!(rates[0] >= 590.0 && rates[2] >= 195.0, "{rates:?}");
}

#[test]
fn a_leaf_may_have_a_discipline_of_its_own() {
    let policy = "default = \"bulk\"\ndiscipline = \"htb\"\n\
                  [[class]]\nname = \"site\"\nrate = \"100 kbit/s\"\ndiscipline = \"wdrr\"\n\
                  [[class]]\nname = \"urgent\"\nparent = \"site\"\nweight = 3\n\
                  [[class]]\nname = \"bulk\"\nparent = \"site\"\n";
    let rates = Flood::new(policy, &[100, 300]).kbit_s();
    assert_near(&rates, &[75.0, 25.0], 2.0);
}
