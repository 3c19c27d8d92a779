//! The order of packets: the class of a packet, its mark, waiting packets, and the next one to
//! leave.
//!
//! Configuration files hold a [`PolicyConfig`]; [`Policy`] is its compiled form, which gives the
//! class of each packet; a [`Scheduler`] holds the packets of one port and names the next one.
#![no_std]
extern crate alloc;

mod classes;
pub mod config;
pub mod dscp;
mod error;
pub mod export;
pub mod leaf;
pub mod lint;
pub mod load;
pub mod matching;
pub mod plan;
pub mod police;
pub mod policy;
mod precedence;
mod preset;
mod rate;
mod repeat;
pub mod scheduler;
mod text;
mod tree;
mod tunnel;
pub mod wait;

pub use config::{ClassConfig, PolicyConfig, RuleConfig};
pub use dscp::Dscp;
pub use leaf::{Costs, Limits, QueueConfig, Site};
pub use matching::{List, PortRange, Prefix, Protocol};
pub use plan::{Discipline, Plan, Rate};
pub use police::{Colour, PoliceConfig, Policers};
pub use policy::{Class, Ingress, Policy, PolicyError, PolicyWarning, Verdict};
pub use precedence::Precedence;
pub use repeat::{repeats, same_flow};
pub use scheduler::{Eligibility, Head, Open, Queued, Refusal, Scheduler};
pub use tree::Tree;
