//! The two things that the live bench compares both pass packets on. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../strait-live/tests/common/mod.rs"]
mod common;

use std::time::Duration;

use common::is_root;
use strait_lab::bench_tun::{Between, TunPath};
use strait_live::clock::Clock;

#[test]
fn gateways_and_a_bare_copy_pass_packets_and_lose_none() {
    if !is_root("live bench") {
        return;
    }
    let clock = Clock::start();
    for between in [Between::Copy, Between::Gateway] {
        let path = TunPath::open(between).unwrap();
        for _ in 0..2 {
            let passed = path.pass(&clock, Duration::from_millis(50)).unwrap();
            assert!(passed.received > 0, "{between:?}: {passed:?}");
            assert_eq!(passed.received, passed.sent, "{between:?}");
        }
    }
}
