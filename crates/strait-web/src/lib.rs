//! The page for operators: what gateways say of themselves, in a browser.
//!
//! It is a process of its own, which asks status sockets as `strait status` does: a browser that is
//! slow, stuck or hostile costs a gateway nothing. The same page can be one file with a recording
//! inside, which needs no server. Nothing in it comes from elsewhere.

mod feed;
mod guard;
mod hub;
pub mod page;
mod recording;
mod server;

pub use feed::snapshots;
pub use recording::{Clock, Recording};
pub use server::{Options, serve};
