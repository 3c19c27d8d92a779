//! What simulation and lab share: scenarios and their topologies, and the hosts that applications
//! run on.
//!
//! Nothing here reads a clock, starts a thread or depends on the order of an unordered map.

pub mod host;
pub mod scenario;
pub mod sweep;
pub mod tls;
pub mod topology;
pub mod traffic;
