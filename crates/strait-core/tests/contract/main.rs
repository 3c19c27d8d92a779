//! The contract between node and driver where no gateway has a port so far: contention for access,
//! and nodes and media that break its rules.
//!
//! A small node of its own runs under a driver in virtual time. What is proven is that the contract
//! can carry such a medium: the node is no product code. Octet streams, half-duplex turns and ports
//! of several neighbours have gateways that prove it.

mod contention;
mod driver;
mod medium;
mod parts;
mod rules;
