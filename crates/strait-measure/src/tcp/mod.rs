//! Measured transfers over real TCP sockets: the live half of [`strait_traffic::measure`].
//!
//! [`transfer`] makes one and gives its record, whatever happened; [`Listening`] serves them, on
//! the calling thread or, by [`Listening::spawn`], on one of its own. Sockets belong to the
//! network namespace of the thread that makes them, so use
//! [`Namespace::enter`](strait_live::kernel::namespace::Namespace::enter) around [`transfer`] and
//! [`Listening::bind`]; a server may then run anywhere.

mod client;
mod server;

pub use self::client::transfer;
pub use self::server::{Limits, Listening, Running, Tally};

/// Where servers listen if nothing else is said.
pub const PORT_DEFAULT: u16 = 5210;

#[cfg(test)]
mod tests;
