//! Transfers by this kernel's TCP over emulated links. These make network namespaces, so they do
//! nothing without root.

#![cfg(test)]

#[path = "../../strait-live/tests/common/mod.rs"]
mod common;

use common::is_root;
use strait_channel::LinkConfig;
use strait_core::time::Duration;
use strait_core::units::Share;
use strait_lab::transfer::{TransferConfig, run_all};

fn config(congestion: &str) -> TransferConfig {
    TransferConfig {
        link: LinkConfig::frames(200_000, Duration::from_millis(100)),
        name: String::from("link0"),
        seed: 1,
        octets: 20_000,
        congestion: congestion.into(),
        start: Duration::from_millis(200),
        limit: Duration::from_secs(20),
    }
}

#[test]
fn a_transfer_takes_what_the_link_needs_under_the_control_asked_for() {
    if !is_root("a_transfer_takes_what_the_link_needs_under_the_control_asked_for") {
        return;
    }
    let mut slow = config("cubic");
    // The answer to a SYN comes after 3 s: the kernel asks again after 1 and after 2 s.
    slow.link = LinkConfig::frames(200_000, Duration::from_millis(1500));
    slow.octets = 1000;
    let ended = run_all(&[config("cubic"), config("reno"), slow], || {}).unwrap();
    let names: Vec<&str> = ended.iter().map(|it| &*it.congestion).collect();
    assert_eq!(names, ["cubic", "reno", "cubic"]);
    let [cubic, reno, slow] = &ended[..] else {
        panic!("three transfers");
    };
    for transfer in [cubic, reno] {
        // Handshake, one way, and the octets' own time.
        let least_s = 0.3 + 20_000.0 * 8.0 / 200_000.0;
        let time_s = transfer.time_s.unwrap();
        assert!(time_s > least_s && time_s < 2.0 * least_s, "{time_s}");
        assert_eq!((transfer.wrong_octets, transfer.counters.syns), (0, 1));
        assert_eq!(transfer.counters.retransmissions, 0);
    }
    assert!(slow.time_s.unwrap() > 4.5);
    assert_eq!(slow.counters.syns, 3);
    assert!(slow.counters.timeouts.is_none_or(|timeouts| timeouts >= 2));
}

#[test]
fn losses_show_in_the_counters_and_a_limit_ends_the_wait() {
    if !is_root("losses_show_in_the_counters_and_a_limit_ends_the_wait") {
        return;
    }
    let mut lossy = config("cubic");
    lossy.link.loss = Some(Share(0.2));
    let mut short = config("cubic");
    short.limit = Duration::from_millis(400);
    let ended = run_all(&[lossy, short], || {}).unwrap();
    assert!(ended[0].time_s.is_some() && ended[0].counters.retransmissions > 0);
    assert_eq!((ended[1].time_s, ended[1].wrong_octets), (None, 0));
}

#[test]
fn a_control_that_the_kernel_has_not_is_an_error() {
    if !is_root("a_control_that_the_kernel_has_not_is_an_error") {
        return;
    }
    let error = run_all(&[config("tahoe")], || {}).unwrap_err().to_string();
    assert!(error.contains("tahoe"), "{error}");
}
