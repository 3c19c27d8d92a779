//! The TCP endpoint against independent measurements over a chain of four links, 300 kbit/s and
//! 50 ms each, with routers that hold a hundred packets: 100 kB, the time until the last octet and
//! the packets on all links.
//!
//! The references were measured with a network simulator (ns-3 3.37, 400 runs each where frames are
//! lost, 95 % intervals) and with a Linux kernel. Nothing here is fitted to them: the profiles hold
//! the constants of their set-up.

use strait_channel::LinkConfig;
use strait_core::Duration;
use strait_core::units::{Octets, Share};
use strait_sim::study::transfer::{self, Case, Ended};

#[derive(Default)]
struct Result {
    time_s: f64,
    packets: f64,
    /// Half of each mean's 95 % interval.
    time_half_s: f64,
    packets_half: f64,
}

/// So many transfers; one that fails or takes more than ten hours has no time.
fn transfers(endpoint: &str, loss: f64, seeds: u64) -> Vec<Ended> {
    let case = Case {
        link: LinkConfig::frames(300_000, Duration::from_millis(50)).with(|it| {
            it.loss = (loss > 0.0).then_some(Share(loss));
            it.queue = Some(100);
        }),
        links: 4,
        endpoint: endpoint.into(),
        octets: 100_000,
        buffer: Some(Octets(131_072)),
        start: Duration::ZERO,
        limit: Duration::from_secs(36_000),
        step: Duration::from_millis(1),
        seeds: 1..seeds + 1,
        gateways: None,
    };
    let runs = transfer::run(&[case], false, || {}).unwrap().remove(0);
    for run in &runs {
        assert_eq!((run.wrong_octets, run.unexplained), (0, 0));
    }
    runs
}

fn mean(endpoint: &str, loss: f64, seeds: u64) -> Result {
    let results: Vec<Result> = transfers(endpoint, loss, seeds)
        .iter()
        .map(|run| Result {
            time_s: run.time_s.unwrap(),
            packets: run.packets as f64,
            ..Result::default()
        })
        .collect();
    let count = results.len() as f64;
    let time_s = results.iter().map(|result| result.time_s).sum::<f64>() / count;
    let packets = results.iter().map(|result| result.packets).sum::<f64>() / count;
    let spread = |of: fn(&Result) -> f64, mean: f64| {
        let sum = results
            .iter()
            .map(|result| (of(result) - mean).powi(2))
            .sum::<f64>();
        1.96 * (sum / (count - 1.0).max(1.0) / count).sqrt()
    };
    let mean = Result {
        time_s,
        packets,
        time_half_s: spread(|result| result.time_s, time_s),
        packets_half: spread(|result| result.packets, packets),
    };
    println!(
        "{endpoint} at {loss}: {time_s:.2} ± {:.2} s, {packets:.0} ± {:.0} packets",
        mean.time_half_s, mean.packets_half,
    );
    mean
}

fn within(value: f64, middle: f64, half: f64) {
    assert!(
        (middle - half..=middle + half).contains(&value),
        "{value}, not {middle} ± {half}"
    );
}

#[test]
fn without_loss_it_takes_the_time_and_packets_that_others_need() {
    let plain = mean("ns3-2012", 0.0, 1);
    within(plain.time_s, 4.25, 0.02 * 4.25);
    within(plain.packets, 1127.0, 0.02 * 1127.0);
    for endpoint in ["ns3-sack", "linux-reno", "linux-cubic"] {
        let long = mean(endpoint, 0.0, 1);
        within(long.time_s, 3.67, 0.02 * 3.67);
        if endpoint == "ns3-sack" {
            within(long.packets, 429.0, 0.02 * 429.0);
        }
    }
}

/// Both means are of 400 runs: their 95 % intervals have to overlap.
#[test]
fn with_loss_the_intervals_of_the_means_overlap() {
    for (endpoint, loss, time_s, packets) in [
        ("ns3-3.37", 0.01, (19.55, 1.26), (1445.5, 18.3)),
        ("ns3-3.37", 0.02, (40.16, 1.72), (1509.7, 20.8)),
        ("ns3-3.37", 0.05, (171.49, 9.73), (1623.4, 12.3)),
        ("ns3-3.37-sack", 0.01, (7.91, 0.42), (502.4, 3.4)),
        ("ns3-3.37-sack", 0.02, (14.29, 0.76), (526.4, 2.5)),
        ("ns3-3.37-sack", 0.05, (74.45, 7.51), (591.4, 3.4)),
    ] {
        let result = mean(endpoint, loss, 400);
        within(result.time_s, time_s.0, time_s.1 + result.time_half_s);
        within(result.packets, packets.0, packets.1 + result.packets_half);
    }
}

/// A kernel over the same chain, 12 runs each: medians of 17.5 s with CUBIC, 22.6 s with NewReno
/// and 5.7 s with BBR.
#[test]
fn the_linux_profiles_recover_as_a_kernel_does() {
    for (endpoint, median_s) in [
        ("linux-cubic", 17.5),
        ("linux-reno", 22.6),
        ("linux-bbr", 5.7),
    ] {
        let mut times: Vec<f64> = transfers(endpoint, 0.05, 21)
            .iter()
            .filter_map(|run| run.time_s)
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!(
            "{endpoint}: median of {} {median:.1} s, a kernel's {median_s} s",
            times.len()
        );
        assert!(times.len() >= 20);
        assert!(
            (0.5..2.0).contains(&(median / median_s)),
            "{endpoint}: {median}"
        );
    }
}
