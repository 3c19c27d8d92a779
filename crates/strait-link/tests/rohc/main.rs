//! Header compression between two ends, and with other implementations.

mod allocations;
mod beyond;
mod bursts;
mod damage;
mod loss;
mod order;
mod peer;
mod recovery;
mod standard;
mod streams;
mod time;
mod traffic;
mod tshark;
mod vectors;
