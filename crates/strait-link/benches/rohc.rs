//! Cost of one packet of a call through header compression, each way, beside a copy of it with its
//! checksum verified.
#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use std::time::Instant as Clock;

use strait_link::load::{BATCH, Calls};

const ROUNDS: usize = 500;

fn main() {
    let mut calls = Calls::default();
    let mut spent = [0u128; 3];
    for _ in 0..ROUNDS {
        calls.prepare();
        let began = Clock::now();
        calls.compress();
        spent[0] += began.elapsed().as_nanos();
        let began = Clock::now();
        calls.decompress();
        spent[1] += began.elapsed().as_nanos();
        let began = Clock::now();
        calls.copy();
        spent[2] += began.elapsed().as_nanos();
        calls.hear();
    }
    for (what, spent) in ["compress", "decompress", "copy"].iter().zip(spent) {
        let packets = (ROUNDS * BATCH) as f64;
        println!("{what}: {:.1} ns a packet", spent as f64 / packets);
    }
}
