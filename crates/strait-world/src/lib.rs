//! What simulation and lab share: scenarios and their topologies.
//!
//! Nothing here reads a clock, starts a thread or depends on the order of an unordered map.

pub mod scenario;
pub mod sweep;
pub mod topology;
