//! One gateway: the concrete composition of policy, queues, links and routes, and its
//! configuration.
//!
//! The same gateway runs live and in virtual time.
#![no_std]
extern crate alloc;

pub mod answers;
pub mod config;
pub mod config_text;
mod echo;
pub mod ethernet;
mod flows;
mod gateway;
mod hop_config;
pub mod journal;
mod proxy;
pub mod route;

pub use config::{InvalidConfig, NodeConfig};
pub use gateway::{Gateway, GatewayFactory, MAIL, Policies};
pub use route::{Hop, Prefix, Routes};
pub use strait_mail::Step as MailStep;
