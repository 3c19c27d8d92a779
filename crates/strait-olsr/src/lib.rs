//! The Optimized Link State Routing protocol (RFC 3626), for IPv4 and, with longer addresses, for
//! IPv6: each gateway tells the others whom it hears, a few of them pass on who reaches whom, and
//! all find their routes by that.
//!
//! [`Router`] is the protocol as a part of a node: packets in and out, link failures that the
//! medium tells of, routes as they change, and no clock. One router has one family and one main
//! address, at all ports. [`message`] has the formats.

#![no_std]

extern crate alloc;

pub mod message;
mod neighbours;
mod router;
mod topology;

pub use self::router::{GROUP_V4, GROUP_V6, PORT, Router, Settings, Via};
pub use self::topology::Change;
