//! Cost of one frame on a link for frames: `room` and `transmit` together.
#![allow(clippy::print_stdout, reason = "a bench prints its result")]

use std::hint::black_box;
use std::time::Instant as Clock;

use strait_channel::{Channel, Line, LinkConfig, Side};
use strait_core::time::{Duration, Instant};
use strait_core::units::Share;

const FRAMES: u32 = 2_000_000;

fn main() {
    let plain = LinkConfig::frames(10_000_000, Duration::from_millis(50));
    let lossy = plain.clone().with(|it| {
        it.loss = Some(Share(0.01));
        it.bit_errors = Some(Share(1e-6));
    });
    for (name, config) in [("plain", plain), ("lossy", lossy)] {
        let Ok(mut line) = Line::new(&config, "bench", 1) else {
            continue;
        };
        let mut frame = [0u8; 1000];
        let mut now = Instant::ZERO;
        let began = Clock::now();
        for _ in 0..FRAMES {
            if line.room(now, Side::A).is_ok() {
                now = black_box(line.transmit(now, Side::A, &mut frame)).ends;
            }
        }
        let ns = began.elapsed().as_nanos() as f64 / f64::from(FRAMES);
        println!("{name}: {ns:.1} ns a frame");
    }
}
