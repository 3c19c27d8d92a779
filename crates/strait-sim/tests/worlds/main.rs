//! Scenarios and small worlds, one behaviour a file.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod carried;
mod cells;
mod hop_fairness;
mod host_sides;
mod mail;
mod media;
mod radio;
mod raw_ip;
mod regressions;
mod s5066;
mod services;
mod tcp_chain;
mod world;
