//! Our TCP endpoint and this kernel's sockets, through a TUN: both roles, both families, without
//! and with loss, with each congestion control of the kernel, to each sort of end. Needs root.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod kernel;
mod ours;
mod plan;
mod reading;

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::thread;

use strait_core::time::Instant;
use strait_live::kernel::namespace::Namespace;
use strait_live::ports::PortIo;
use strait_live::ports::tun::{TunConfig, TunPort};
use strait_tcp::{TcpError, TcpEventKind};

use kernel::Kernel;
use ours::{Ours, Outcome};
use plan::{Case, Ending};

/// Runs one connection in a namespace of its own.
fn run(case: &Case) -> (Outcome, kernel::Outcome) {
    let namespace = Namespace::create("interop").unwrap();
    namespace.set("ipv4/tcp_ecn", "1").unwrap();
    let mut tun = TunPort::new(TunConfig {
        interface: "strait0".into(),
        addresses: vec![
            ("10.9.0.1".parse().unwrap(), 24),
            ("fd00:9::1".parse().unwrap(), 64),
        ],
        mtu: 1500,
    });
    namespace
        .enter(|| tun.open(Instant::ZERO))
        .unwrap()
        .unwrap();
    let end = |four: &str, six: &str| -> SocketAddr {
        if case.ipv4 { four } else { six }.parse().unwrap()
    };
    let theirs = end("10.9.0.1:7001", "[fd00:9::1]:7001");
    let mine = end("10.9.0.2:7002", "[fd00:9::2]:7002");
    let kernel = namespace.enter(|| Kernel::new(case, theirs, mine)).unwrap();
    let (tell, told) = channel();
    thread::scope(|scope| {
        let kernel = scope.spawn(move || {
            let outcome = kernel.run();
            let _ = tell.send(());
            outcome
        });
        let ours = Ours::new(case, tun, mine, theirs).run(&told);
        (ours, kernel.join().unwrap())
    })
}

fn check(case: &Case) {
    let (ours, kernel) = run(case);
    match case.ending {
        Ending::Both | Ending::Half => {
            assert_eq!(
                (ours.received, kernel.received),
                (case.octets(), case.octets()),
                "{case}"
            );
            assert_eq!((ours.error, kernel.error), (None, None), "{case}");
            let counters = ours.counters;
            assert_eq!(
                counters.octets_acked,
                case.octets() as u64 + 1,
                "{case}: {counters:?}"
            );
            if case.loss == 0.0 {
                // A busy machine may be late with an answer, but nothing is out of order.
                for kind in [TcpEventKind::RepeatedLoss, TcpEventKind::Gap] {
                    assert_eq!(counters.events.of(kind), 0, "{case}: {counters:?}");
                }
            }
        }
        Ending::WeReset => {
            let reset = Some(std::io::ErrorKind::ConnectionReset);
            assert_eq!((ours.error, kernel.error), (None, reset), "{case}");
        }
        Ending::KernelResets => assert_eq!(ours.error, Some(TcpError::Reset), "{case}"),
    }
}

fn case(number: u64, (profile, control): (&'static str, &'static str), ending: Ending) -> Case {
    let bit = |place: u32| number >> place & 1 == 1;
    Case {
        we_connect: bit(0),
        ipv4: bit(1),
        loss: if bit(2) { 0.05 } else { 0.0 },
        profile,
        control,
        ending,
        seed: number,
    }
}

fn cases() -> Vec<Case> {
    let pairs = [
        ("linux-cubic", "cubic"),
        ("linux-reno", "reno"),
        ("linux-bbr", "bbr"),
        ("ns3-2012", "cubic"),
        ("paper-hf", "reno"),
    ];
    let both = (0..8).flat_map(|number| pairs.map(|pair| case(number, pair, Ending::Both)));
    let endings = [Ending::Half, Ending::WeReset, Ending::KernelResets];
    let others = endings.map(|ending| (0..8).map(move |number| case(number, pairs[0], ending)));
    both.chain(others.into_iter().flatten()).collect()
}

fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("tcp interop: skipped, needs root");
    }
    root
}

#[test]
fn octets_arrive_intact_in_both_roles_both_families_and_to_any_end() {
    if !is_root() {
        return;
    }
    let mut cases = cases();
    cases.retain(|case| {
        let available = kernel::has(case.control);
        if !available {
            eprintln!("{case}: skipped, this kernel has no {}", case.control);
        }
        available
    });
    thread::scope(|scope| {
        for case in &cases {
            scope.spawn(move || check(case));
        }
    });
}

#[test]
fn all_options_are_agreed_and_tshark_finds_nothing_wrong() {
    if !is_root() {
        return;
    }
    // With loss, in both roles and both families.
    for number in 4..8 {
        let case = case(number, ("linux-cubic", "reno"), Ending::Both);
        let (ours, _) = run(&case);
        let frames = reading::read(&format!("tcp-interop-{number}"), &ours.capture);
        assert_eq!(frames.len(), ours.again.len());
        let mut told = [reading::Told::default(); 2];
        for (number, (frame, again)) in (1..).zip(frames.iter().zip(&ours.again)) {
            // Of what comes, tshark knows more: the numbers of mere acknowledgements tell it of
            // segments that we can't miss before others have come.
            let agrees = frame.again == *again || !frame.from_us && frame.again;
            assert!(agrees, "{case}: frame {number}, {again}: {frame:?}");
            told[usize::from(frame.from_us)].add(frame);
        }
        let all = reading::Told {
            permission: true,
            timestamps: true,
            scale: true,
            ecn: true,
            capable: true,
            sack: true,
        };
        assert_eq!(told, [all; 2], "{case}");
    }
}
