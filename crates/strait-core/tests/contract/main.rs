//! The contract between node and driver, proven on four kinds of media: an octet stream, a
//! half-duplex turn, a port shared by several neighbours, and contention for access.
//!
//! Each medium has a small node of its own, and all run under one driver in virtual time. What is
//! proven is that the contract can carry such a medium: the nodes are no product code.

mod contention;
mod driver;
mod medium;
mod octets;
mod parts;
mod rules;
mod shared;
mod turn;
