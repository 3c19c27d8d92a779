//! Names looked up over a link between two gateways.
//!
//! [`Near`] is the side of those who ask: it answers from its cache, asks each question once across
//! the link, however many ask it, and keeps what comes late. [`Far`] is the side of the resolvers:
//! it asks these for its partners. Between them go [frames](frame), one for a question and one for
//! its answer.
//!
//! Messages of DNS are read and written by `hickory-proto` alone. There is no clock and no socket
//! here: time is an argument, and messages go in and out as octets.

#![no_std]

extern crate alloc;

pub mod ahead;
pub mod body;
pub mod cache;
mod crossing;
pub mod far;
pub mod frame;
pub mod gains;
mod meanings;
pub mod memory;
pub mod message;
pub mod name;
pub mod near;
mod partners;
mod replies;
pub mod rules;
pub mod saved;
pub mod watched;
mod watching;
mod way;

pub use body::{Body, Outcome};
pub use far::{Far, FarSettings, Wish};
pub use hickory_proto::rr::{Name, RecordType};
pub use meanings::Meant;
pub use near::{Client, LinkState, Near, NearSettings};
