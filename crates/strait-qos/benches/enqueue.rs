//! Cost of one packet through a port: parse, classify, enqueue, dequeue, with 1000 waiting in the
//! tree of the preset `insc-1b`, beside a bare queue of octets.
#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use std::hint::black_box;
use std::time::Instant as Clock;

use strait_qos::load::{BareQueue, Load};

const PACKETS: u64 = 2_000_000;

fn main() {
    let Ok(mut load) = Load::new() else {
        return;
    };
    let ns = |began: Clock| began.elapsed().as_nanos() as f64 / PACKETS as f64;
    let began = Clock::now();
    black_box(load.pass(PACKETS));
    println!("tree: {:.1} ns a packet", ns(began));
    let began = Clock::now();
    black_box(BareQueue::default().pass(PACKETS));
    println!("bare queue: {:.1} ns a packet", ns(began));
}
