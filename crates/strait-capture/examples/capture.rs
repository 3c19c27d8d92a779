//! Writes a made-up capture to stdout: `capture PACKETS [OCTETS_MAX [DELAY_NS]]`.
#![allow(clippy::unwrap_used, reason = "an example ends by a panic")]

use std::io::{BufWriter, copy, stdout};

use strait_capture::Synthetic;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let packets = numbers.next().unwrap_or(1000);
    let octets_max: u64 = numbers.next().unwrap_or(1500);
    let delay_ns = numbers.next().unwrap_or(0);
    let mut capture = Synthetic::new(1, packets, octets_max as usize, delay_ns);
    copy(&mut capture, &mut BufWriter::new(stdout())).unwrap();
}
