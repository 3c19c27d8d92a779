//! Packet pairs over real UDP sockets: the live half of [`strait_traffic::pair`].
//!
//! [`probe`] sends the groups and gathers what the other end tells; [`Listening`] is that end.
//! When a packet came is what the kernel noted, so a busy host that reads it late changes nothing.

mod client;
mod server;

pub use self::client::{Outcome, probe};
pub use self::server::{Listening, Tally};

/// Where receivers listen if nothing else is said.
pub const PORT_DEFAULT: u16 = 5211;

#[cfg(test)]
mod tests;
