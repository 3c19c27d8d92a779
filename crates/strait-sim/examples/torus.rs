//! Writes the scenario of 200 gateways: `cargo run -p strait-sim --example torus > torus.toml`, and
//! then `strait sim torus.toml`.

#![allow(clippy::print_stdout, reason = "what it is for")]

use strait_sim::bench::Torus;

fn main() {
    print!("{}", Torus::TARGET.scenario());
}
