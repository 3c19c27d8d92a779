//! The session between two gateways that carries the TCP streams of hosts behind them.
//!
//! Each stream ends at the gateway near its client and begins again at the one near its server.
//! Between them its octets go in [datagrams](codec) of one [`Session`], which repairs what was
//! lost, bounds what may wait by credit, and ends every stream when either gateway starts anew.
//!
//! There is no clock and no socket here: time is an argument, datagrams go in and out as octets,
//! and whoever drives a session decides when there is room for the next one.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod codec;
mod flights;
mod greeting;
pub mod handshake;
mod order;
pub mod pack;
mod ranges;
mod receipts;
mod rtt;
mod session;
mod silence;
mod stream;
mod table;

pub use codec::{Ends, Key};
pub use flights::Waits;
pub use session::{Event, Fault, Session, Settings};
pub use stream::Open;
