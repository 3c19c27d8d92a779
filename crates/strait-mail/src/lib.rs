//! A message switch: mail comes by SMTP, is stored before it is answered for, and goes on by a
//! connection for each precedence and next hop, or into a Maildir.
//!
//! [`Switch`] is a part of a node: its sockets, streams, storage and deliveries are effects, and
//! there is no clock here. [`Session`] is the side of SMTP that takes mail, [`Client`] the one that
//! sends it; both only see octets.
//!
//! Commands and replies are read here rather than by a library: none of those there are tells a
//! priority of 0 from none (RFC 6758 section 4), or pauses between chunks.

#![no_std]

extern crate alloc;

pub mod client;
pub mod command;
pub mod date;
pub mod header;
pub mod message;
pub mod pack;
pub mod precedence;
pub mod report;
pub mod session;
mod switch;
pub mod text;

pub use client::Client;
pub use precedence::Precedence;
pub use session::Session;
pub use switch::{
    Bearer, HopSettings, Hours, LaneSettings, Link, ListenSettings, OF_SESSION, RouteSettings,
    Settings, Step, Switch, TextFirst, Tls, UserSettings, Yields,
};
