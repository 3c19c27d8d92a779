//! Flows that are alike share a chain of reliable links alike.

use std::path::Path;

use strait_core::Duration;
use strait_core::units::{Octets, Share, Time};
use strait_scenario::{Loaded, Scenario};
use strait_sim::run_once;
use strait_sim::study::fair::{self, FairCase};

/// The shipped chain with `count` files at once, every second one the other way if they cross, and
/// no cut.
fn chain(count: usize, cross: bool) -> Loaded {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut loaded = Scenario::load(&root.join("scenarios/lab/hbh-chain.toml")).unwrap();
    for link in &mut loaded.links {
        link.channel.outage = None;
    }
    let one = loaded.scenario.traffic[0].clone();
    let flow = |number: usize| {
        let mut flow = one.clone();
        let changed = flow.change(|keys| {
            keys.name = format!("f{number}");
            keys.octets = Some(Octets(200_000));
            if cross && number % 2 == 1 {
                (keys.from, keys.to) = (one.to.clone(), one.from.clone());
            }
        });
        changed.unwrap();
        flow
    };
    loaded.scenario.traffic = (0..count).map(flow).collect();
    loaded.scenario.expectations.clear();
    loaded.scenario.duration = Time(Duration::from_secs(200));
    loaded
}

/// Jain's index: 1 if all have the same, 1 ÷ their number if one has all.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}

#[test]
fn equal_files_over_one_chain_have_equal_shares() {
    for (count, cross) in [(2, false), (5, false), (10, false), (4, true), (10, true)] {
        let loaded = chain(count, cross);
        let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
        let rate = |number: usize| {
            run.metrics
                .get(&format!("f{number}.goodput_bit_s"))
                .copied()
        };
        for way in 0..1 + usize::from(cross) {
            let ours = (way..count).step_by(1 + usize::from(cross));
            let rates: Option<Vec<f64>> = ours.map(rate).collect();
            let rates = rates.expect("every file arrives");
            let index = jain(&rates);
            assert!(index >= 0.95, "{count} files: {index}, {rates:.0?}");
        }
    }
}

/// Flows that don't yield beside TCP: the queues see to it that everybody has the same.
#[test]
fn files_and_datagrams_have_equal_shares_of_chains_that_cross() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut loaded = Scenario::load(&root.join("scenarios/studies/hbh-fair.toml")).unwrap();
    for link in &mut loaded.links {
        link.channel.loss = Some(Share(0.05));
    }
    let way = |from: &str, to: &str| [from.to_owned(), to.to_owned()];
    for ways in [
        vec![way("ha", "hb")],
        vec![way("ha", "hb"), way("hc", "hd")],
    ] {
        let case = FairCase {
            flows: 5,
            ways,
            warm_up: Time(Duration::from_secs(20)),
        };
        let shares = fair::run(&loaded, &case, loaded.scenario.seed).unwrap();
        let all: Vec<usize> = (0..case.ways.len()).collect();
        let index = shares.jain(&all);
        assert!(index >= 0.95, "{index}, {:.0?}", shares.rates_bit_s);
        assert_eq!(shares.run.unexplained, 0);
    }
}
