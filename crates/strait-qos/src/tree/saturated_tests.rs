use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::vec as many;
use proptest::prelude::*;
use strait_core::fate::Origin;
use strait_core::rate::LineRate;
use strait_core::{ClassId, Duration, Fate, Instant, Ledger, PortId};
use strait_wire::ip::build_udp;

use crate::config::PolicyConfig;
use crate::leaf::Site;
use crate::policy::Policy;
use crate::scheduler::{Open, Scheduler};
use crate::tree::Tree;

const T: Instant = Instant::from_secs(100);

/// A port that is never the narrowest place, and senders that are always ready.
struct Saturated {
    tree: Tree,
    ledger: Ledger,
    octets: Vec<u32>,
    now: Instant,
    line_bit_s: u64,
}

impl Saturated {
    fn new(text: &str, octets: &[u32], line_bit_s: u64) -> Self {
        let config: PolicyConfig = toml::from_str(text).unwrap();
        let mut tree = Tree::new(&Policy::compile(&config).unwrap(), Site::default());
        tree.advance(T);
        tree.set_line_rate(LineRate::new(line_bit_s, 8));
        let mut all = Self {
            tree,
            ledger: Ledger::default(),
            octets: octets.to_vec(),
            now: T,
            line_bit_s,
        };
        for class in 0..octets.len() {
            all.fill(class);
            all.fill(class);
        }
        all
    }

    fn fill(&mut self, class: usize) {
        let payload = vec![0; self.octets[class] as usize - 28];
        let address = |text: &str| text.parse().unwrap();
        let (from, to) = (address("10.1.0.2:4000"), address("10.2.0.2:5000"));
        let mut bytes = Vec::new();
        assert!(build_udp(from, to, 0, 64, 0, 0, &payload, &mut bytes));
        let origin = Origin::Port(PortId::HOST);
        let mut packet = self.ledger.admit(self.now, bytes, origin).unwrap();
        packet.class = ClassId(class as u8);
        self.tree.enqueue(self.now, packet).unwrap();
    }

    /// Octets of each class in `time`.
    fn run(&mut self, time: Duration) -> Vec<u64> {
        let end = self.now + time;
        let mut sent = vec![0; self.octets.len()];
        while self.now < end {
            self.tree.advance(self.now);
            let Some(head) = self.tree.head(&Open) else {
                let starts = self.tree.starts(&Open).unwrap();
                assert!(starts > self.now, "a wake-up before its time");
                // Not a nanosecond before.
                self.tree
                    .advance(Instant::from_nanos(starts.as_nanos() - 1));
                assert!(self.tree.head(&Open).is_none(), "work was held back");
                self.now = starts;
                continue;
            };
            let packet = self.tree.take(self.now, head).unwrap();
            self.tree.charge(head.class, head.octets);
            let fate = Fate::Forwarded {
                port: PortId(1),
                to: head.to,
            };
            self.ledger.close(self.now, packet, fate);
            sent[head.class.index()] += u64::from(head.octets);
            self.fill(head.class.index());
            let ns = u64::from(head.octets) * 8_000_000_000 / self.line_bit_s;
            self.now += Duration::from_nanos(ns);
        }
        self.tree.check();
        sent
    }
}

fn rates(text: &str, octets: &[u32]) -> Vec<f64> {
    let mut all = Saturated::new(text, octets, 100_000_000);
    all.run(Duration::from_secs(3));
    let sent = all.run(Duration::from_secs(20));
    sent.iter()
        .map(|octets| *octets as f64 * 8.0 / 20.0)
        .collect()
}

fn two(keys: [&str; 2]) -> alloc::string::String {
    alloc::format!(
        "discipline = \"htb\"\ndefault = \"a\"\nclass = [{{ name = \"all\", rate = \"1 Mbit/s\" }},\
         {{ name = \"a\", parent = \"all\", ceil = \"1 Mbit/s\", {} }},\
         {{ name = \"b\", parent = \"all\", ceil = \"1 Mbit/s\", {} }}]",
        keys[0],
        keys[1]
    )
}

/// Two classes always ready under 1 Mbit/s, measured on Linux 6.18, in kbit/s.
#[test]
fn shares_are_those_of_a_kernel() {
    for (keys, octets, kbit_s) in [
        (
            ["rate = \"32 kbit/s\"", "rate = \"128 kbit/s\""],
            [1284, 1284],
            [406.0, 594.0],
        ),
        (
            ["rate = \"32 kbit/s\"", "rate = \"32 kbit/s\""],
            [168, 1312],
            [437.0, 563.0],
        ),
        (
            [
                "rate = \"32 kbit/s\", quantum = \"1514 B\"",
                "rate = \"128 kbit/s\", quantum = \"6056 B\"",
            ],
            [1284, 1284],
            [200.0, 800.0],
        ),
        (
            [
                "rate = \"32 kbit/s\", prio = 1",
                "rate = \"128 kbit/s\", prio = 2",
            ],
            [1284, 1284],
            [872.0, 128.0],
        ),
        (
            ["rate = \"800 kbit/s\"", "rate = \"800 kbit/s\""],
            [1284, 1284],
            [800.0, 800.0],
        ),
    ] {
        let measured = rates(&two(keys), &octets);
        for (bit_s, kbit_s) in measured.iter().zip(kbit_s) {
            let error = bit_s / 1000.0 / kbit_s - 1.0;
            assert!(error.abs() < 0.02, "{keys:?}: {measured:?}");
        }
    }
}

#[test]
fn the_strict_form_keeps_ceilings_and_shares_by_rate() {
    let strict = |text: &str| text.replace("\"htb\"", "\"htb-strict\"");
    let text = two(["rate = \"800 kbit/s\"", "rate = \"800 kbit/s\""]);
    let measured = rates(&strict(&text), &[1284, 1284]);
    assert!(
        measured
            .iter()
            .all(|rate| (rate - 500_000.0).abs() < 10_000.0),
        "{measured:?}"
    );
    let text = two(["rate = \"32 kbit/s\"", "rate = \"128 kbit/s\""]);
    let measured = rates(&strict(&text), &[1284, 168]);
    assert!((measured[0] - 200_000.0).abs() < 4000.0, "{measured:?}");
    assert!((measured[1] - 800_000.0).abs() < 16_000.0, "{measured:?}");
}

#[test]
fn direct_packets_go_before_all_and_are_never_charged() {
    let text = "discipline = \"htb\"\ndefault = \"a\"\nclass = [\
                { name = \"now\", direct = true },\
                { name = \"a\", rate = \"1 Mbit/s\" }]";
    let mut all = Saturated::new(text, &[1000, 1000], 2_000_000);
    let sent = all.run(Duration::from_secs(2));
    assert_eq!(sent[1], 0, "a full line of direct packets leaves nothing");
    assert!(sent[0] >= 499_000);
}

/// A tree of one level below a class for all, as rates in kbit/s.
fn tree_text(discipline: &str, whole: u64, leaves: &[(u64, u64, u8)]) -> alloc::string::String {
    let mut text = alloc::format!(
        "discipline = \"{discipline}\"\ndefault = \"c0\"\nclass = [\
         {{ name = \"all\", rate = \"{whole} kbit/s\" }},"
    );
    for (number, (rate, ceil, prio)) in leaves.iter().enumerate() {
        text += &alloc::format!(
            "{{ name = \"c{number}\", parent = \"all\", rate = \"{rate} kbit/s\", \
             ceil = \"{} kbit/s\", prio = {prio}, packets = 10 }},",
            (*ceil).max(*rate)
        );
    }
    text + "]"
}

/// Of 1 Mbit/s, two without a rate share what 300 and 500 kbit/s leave; of a line that the rates
/// fill, they have a hundredth.
#[test]
fn classes_without_a_rate_share_what_the_others_leave() {
    for discipline in ["wdrr", "cbwfq"] {
        for (rates, expected) in [
            ([300, 500], [300, 500, 100, 100]),
            ([600, 400], [594, 396, 5, 5]),
        ] {
            let [a, b] = rates;
            let text = alloc::format!(
                "discipline = \"{discipline}\"\ndefault = \"c3\"\nclass = [\
                 {{ name = \"c0\", rate = \"{a} kbit/s\" }}, \
                 {{ name = \"c1\", rate = \"{b} kbit/s\" }}, {{ name = \"c2\" }}, {{ name = \"c3\" }}]"
            );
            let mut all = Saturated::new(&text, &[1500, 200, 700, 1500], 1_000_000);
            let sent = all.run(Duration::from_secs(80));
            for (sent, expected) in sent.iter().zip(expected) {
                let kbit_s = *sent as f64 / 80.0 * 8.0 / 1000.0;
                let expected = f64::from(expected);
                assert!(
                    (kbit_s - expected).abs() < 0.01 * expected + 0.5,
                    "{kbit_s} of {expected}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Work conservation and bounds: what may be sent is, guarantees that fit are met, ceilings
    /// hold where they are promised.
    #[test]
    fn guarantees_are_met_and_ceilings_hold(
        strict in any::<bool>(),
        leaves in many((16u64..200, 16u64..1200, 0u8..4, 100u32..1500), 1..6),
    ) {
        let rates: Vec<_> = leaves.iter().map(|leaf| (leaf.0, leaf.1, leaf.2)).collect();
        let octets: Vec<u32> = leaves.iter().map(|leaf| leaf.3).collect();
        let discipline = if strict { "htb-strict" } else { "htb" };
        let mut all = Saturated::new(&tree_text(discipline, 1000, &rates), &octets, 100_000_000);
        all.run(Duration::from_secs(2));
        let seconds = 20;
        let sent = all.run(Duration::from_secs(seconds));
        let kbit_s = |octets: &u64| *octets as f64 * 0.008 / seconds as f64;
        let kbit_s: Vec<f64> = sent.iter().map(kbit_s).collect();
        // A packet and a bucket more or less at the ends.
        let slack = |octets: u32| f64::from(octets + 1600) * 16.0 / 1000.0 / seconds as f64;
        let mut could = 0.0;
        for ((rate, ceil, _), (kbit_s, octets)) in rates.iter().zip(kbit_s.iter().zip(&octets)) {
            let ceil = (*ceil).max(*rate) as f64;
            prop_assert!(*kbit_s >= *rate as f64 * 0.99 - slack(*octets), "{rate}: {kbit_s:?}");
            prop_assert!(*kbit_s <= ceil * 1.01 + slack(*octets), "{ceil}: {kbit_s:?}");
            could += ceil;
        }
        let sum: f64 = kbit_s.iter().sum();
        let expected = could.min(1000.0).max(rates.iter().map(|it| it.0 as f64).sum());
        prop_assert!(sum >= expected * 0.98, "{sum} of {expected}");
        if strict {
            prop_assert!(sum <= 1010.0 + slack(1500), "{sum}");
        }
    }

    /// Shares by rate to the octet (wdrr, cbwfq): within 1 % over 10,000 packets of mixed sizes.
    #[test]
    fn shares_follow_rates_under_wdrr_and_cbwfq(
        fair in prop_oneof![Just("wdrr"), Just("cbwfq")],
        leaves in many((1u64..20, 60u32..1500), 2..6),
    ) {
        let mut text = alloc::format!("discipline = \"{fair}\"\ndefault = \"c0\"\nclass = [");
        for (number, (rate, _)) in leaves.iter().enumerate() {
            text += &alloc::format!("{{ name = \"c{number}\", rate = \"{rate} kbit/s\" }},");
        }
        text += "]";
        let octets: Vec<u32> = leaves.iter().map(|leaf| leaf.1).collect();
        let mut all = Saturated::new(&text, &octets, 1_000_000);
        // 10,000 packets of the smallest share and more.
        let whole: u64 = leaves.iter().map(|leaf| leaf.0).sum();
        let seconds = 80 * whole;
        let sent = all.run(Duration::from_secs(seconds.min(1600)));
        let sum: u64 = sent.iter().sum();
        for (sent, (rate, octets)) in sent.iter().zip(&leaves) {
            let expected = sum as f64 * *rate as f64 / whole as f64;
            let apart = (*sent as f64 - expected).abs();
            prop_assert!(apart <= expected * 0.01 + f64::from(3 * octets), "{sent} of {expected}");
        }
    }

    /// A packet of the strict class waits for one other packet at most.
    #[test]
    fn the_strict_class_waits_for_one_packet(
        discipline in prop_oneof![Just("wdrr"), Just("cbwfq")],
        octets in many(100u32..1500, 3),
    ) {
        let text = alloc::format!(
            "discipline = \"{discipline}\"\ndefault = \"c1\"\nclass = [\
             {{ name = \"c0\", band = 0, rate = \"1 kbit/s\" }},\
             {{ name = \"c1\", rate = \"5 kbit/s\" }}, {{ name = \"c2\", rate = \"9 kbit/s\" }}]"
        );
        let mut all = Saturated::new(&text, &octets, 64_000);
        // Until nothing of the strict class waits, then again and again one more.
        for _ in 0..2 {
            let head = all.tree.head(&Open).unwrap();
            prop_assert_eq!(head.class, ClassId(0));
            let packet = all.tree.take(all.now, head).unwrap();
            all.tree.charge(head.class, head.octets);
            all.ledger.close(all.now, packet, Fate::Delivered(PortId::HOST));
        }
        for _ in 0..50 {
            let head = all.tree.head(&Open).unwrap();
            prop_assert_ne!(head.class, ClassId(0));
            let packet = all.tree.take(all.now, head).unwrap();
            all.tree.charge(head.class, head.octets);
            all.ledger.close(all.now, packet, Fate::Delivered(PortId::HOST));
            all.fill(head.class.index());
            all.fill(0);
            let next = all.tree.head(&Open).unwrap();
            prop_assert_eq!(next.class, ClassId(0));
            let packet = all.tree.take(all.now, next).unwrap();
            all.tree.charge(next.class, next.octets);
            all.ledger.close(all.now, packet, Fate::Delivered(PortId::HOST));
        }
    }
}
