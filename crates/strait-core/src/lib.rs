//! What every node and both worlds agree on: time, chance, packets with one fate,
//! and the contract between a node and its driver.
//!
//! Nothing here reads a clock, draws an unnamed random number or touches a device.
#![no_std]
extern crate alloc;

pub mod asked;
pub mod chance;
pub mod delay;
pub mod drive;
pub mod error_limit;
pub mod fate;
pub mod flow;
pub mod framing;
pub mod hash;
pub mod host_routes;
pub mod id;
pub mod keys;
pub mod local;
pub mod mail;
pub mod names;
pub mod node;
pub mod packet;
pub mod prefix;
pub mod rate;
pub mod stats;
pub mod storage;
pub mod stream_ledger;
pub mod time;
pub mod timer;
pub mod tls;
pub mod units;
pub mod waveform;
pub mod work;

pub use fate::{DropCause, Fate, FateRecord, Ledger};
pub use id::{ClassId, NeighbourId, Neighbours, PortId};
pub use node::{Effect, Input, Node, Room, TxMeta, Wake, WakeReason, Want};
pub use packet::Packet;
pub use time::{Duration, Instant};
