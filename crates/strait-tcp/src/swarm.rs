//! Many random paths: the stream arrives whole and in order, or its end is stated.
//!
//! `STRAIT_SWARM_SEED=n` runs one scenario, `STRAIT_SWARM_RUNS=n` so many.

use std::ops::Range;

use strait_core::chance::Stream;
use strait_core::time::{Duration, Instant};

use super::pipe::{End, Path, Way, content, ends};
use super::*;

/// Profiles of our own endpoint.
pub(super) const OURS: [&str; 9] = [
    "linux-cubic",
    "linux-reno",
    "linux-bbr",
    "ns3-2012",
    "ns3-sack",
    "ns3-3.37",
    "ns3-3.37-sack",
    "newreno-536",
    "paper-hf",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seeds to try: `runs` of them, unless the environment says otherwise.
pub(super) fn seeds(runs: u64) -> Range<u64> {
    let first = number("STRAIT_SWARM_SEED");
    let runs =
        number("STRAIT_SWARM_RUNS").unwrap_or_else(|| if first.is_some() { 1 } else { runs });
    let first = first.unwrap_or(0);
    first..first + runs
}

/// A way that loses, doubles and holds back at most the share `worst` of the packets, the last for
/// at most so long.
pub(super) fn way(draw: &mut Stream, worst: f64, hold_ms: u64) -> Way {
    let ms = |draw: &mut Stream, most| Duration::from_millis(draw.below(most));
    Way {
        loss: draw.unit() * worst,
        duplicate: draw.unit() * worst,
        reorder: draw.unit() * worst,
        hold: ms(draw, hold_ms),
        delay: ms(draw, 400),
        rate: 5_000 + draw.below(200_000),
        queue: 5 + draw.below(60) as usize,
    }
}

fn config(draw: &mut Stream, local: SocketAddr, remote: SocketAddr) -> TcpConfig {
    // Sequence numbers near their end: they wrap within the transfer.
    let wrap = (u64::from(u32::MAX) - draw.below(60_000)) << 32;
    TcpConfig {
        mtu: [1500, 576, 296, 1280][draw.below(4) as usize],
        send_octets: 2000 + draw.below(60_000) as usize,
        receive_octets: 2000 + draw.below(60_000) as usize,
        nagle: draw.happens(0.5),
        keep_alive: draw.happens(0.3),
        ecn: draw.happens(0.3),
        seed: wrap | draw.below(1 << 32),
        ..TcpConfig::new(local, remote)
    }
}

fn run(seed: u64) {
    let mut draw = Stream::new(seed, "swarm");
    let (near, far) = ends(if draw.happens(0.5) { 4 } else { 6 });
    let worst = [0.0, 0.05, 0.15, 0.3][draw.below(4) as usize];
    let ways = [(); 2].map(|()| way(&mut draw, worst, 300));
    let names = [(); 2].map(|()| OURS[draw.below(6) as usize]);
    let configs = [config(&mut draw, near, far), config(&mut draw, far, near)];
    let made = |at: usize| {
        let profile = Profile::named(names[at]).unwrap();
        Box::new(Endpoint::new(&configs[at], profile))
    };
    let octets = [draw.below(60_000) as usize, draw.below(3) as usize * 20_000];
    let mut path = Path::new(
        End::new(made(0), content(octets[0])),
        End::new(made(1), content(octets[1])),
        ways,
        seed,
    );
    if draw.happens(0.3) {
        path.b.reads = Some((1 + draw.below(3000) as usize, Duration::from_millis(100)));
    }
    // Some ends have no end of patience: they repeat their last words until a host answers.
    path.resets = true;
    path.open();
    let until = Instant::from_secs(200_000);
    while path.step(until) {
        path.a.tcp.check();
        path.b.tcp.check();
        let read = path.b.received.len() + path.a.received.len();
        if read == octets[0] + octets[1] && path.a.tcp.is_drained() && path.b.tcp.is_drained() {
            break;
        }
    }
    path.b.reads = None;
    path.run(until + Duration::from_secs(20_000));
    let label = format!("seed {seed}, {names:?}, {ways:?}");
    let error = path.a.tcp.error().or_else(|| path.b.tcp.error());
    for (from, to) in [(&path.a, &path.b), (&path.b, &path.a)] {
        assert!(from.to_send.starts_with(&to.received), "{label}");
        if error.is_none() {
            assert_eq!(to.received.len(), from.to_send.len(), "{label}");
        }
        assert_eq!(to.tcp.state(), TcpState::Closed, "{label}: {error:?}");
    }
    // Both directions are usable: only a lost last acknowledgement of the end may fail.
    if worst <= 0.05 {
        assert_eq!(path.a.received.len(), octets[1], "{label}: {error:?}");
        assert_eq!(path.b.received.len(), octets[0], "{label}: {error:?}");
    }
}

/// After a close from both sides at once, one end has waited long enough and is gone before its
/// last acknowledgement has come to the other, which repeats its FIN without end.
#[test]
fn who_has_no_end_of_patience_is_told_that_the_other_end_is_gone() {
    run(40_023_145);
}

#[test]
fn streams_arrive_whole_and_in_order_or_end_in_a_stated_error() {
    seeds(300).for_each(run);
}

#[test]
fn it_talks_to_the_second_opinion_in_both_roles() {
    for seed in 0..24 {
        let mut draw = Stream::new(seed, "interop");
        let (near, far) = ends(if seed % 2 == 0 { 4 } else { 6 });
        let loss = [0.0, 0.05][(seed / 2 % 2) as usize];
        let way = Way {
            loss,
            ..Way::clean(30_000, Duration::from_millis(30))
        };
        let ours = OURS[(seed % 6) as usize];
        let names = if draw.happens(0.5) {
            [ours, "smoltcp-reno"]
        } else {
            ["smoltcp-cubic", ours]
        };
        let made = |name: &str, config: TcpConfig| endpoint(name, &config).unwrap();
        let config = |local, remote| TcpConfig {
            give_up: Some(Duration::from_secs(900)),
            seed: seed << 32 | 7,
            ..TcpConfig::new(local, remote)
        };
        let mut path = Path::new(
            End::new(made(names[0], config(near, far)), content(100_000)),
            End::new(made(names[1], config(far, near)), content(30_000)),
            [way; 2],
            seed,
        );
        path.open();
        path.run(Instant::from_secs(3600));
        assert_eq!(
            (path.a.tcp.error(), path.b.tcp.error()),
            (None, None),
            "{names:?} {loss}"
        );
        assert!(path.b.received == path.a.to_send, "{names:?} {loss}");
        assert!(path.a.received == path.b.to_send, "{names:?} {loss}");
    }
}
