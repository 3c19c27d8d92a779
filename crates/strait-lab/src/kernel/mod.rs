//! The kernel's own queues: a policy exported to it, traffic offered to them, and what came out;
//! and this kernel in place of gateways.

pub mod apply;
pub mod bench;
pub mod speed;
pub(crate) mod stations;

pub use apply::{Applied, apply, remove};
pub use bench::{Came, Offered, Pace, QueueBench};
pub use speed::QueueSpeed;
pub use stations::stands_in;
