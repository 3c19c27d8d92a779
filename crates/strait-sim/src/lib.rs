//! Virtual time: the event queue, the links between nodes, baseline nodes, and scenarios run in it.
//!
//! One thread runs a world; many worlds run in parallel. The same seed gives the same history on
//! any machine, which [`World::hash`] shows.

pub mod bench;
mod build;
mod capture;
pub mod check;
mod event;
mod few;
mod host_table;
mod kernel;
mod outlets;
mod parallel;
mod path;
mod router;
mod routing;
mod run;
mod segment;
mod store;
pub mod study;
pub mod sweep;
mod workshop;
mod world;

pub use build::{BuildError, Built, build};
pub use host_table::TableChange;
pub use kernel::{Around, Cable, FurtherSide};
pub use path::{PathBook, PathTotals};
pub use router::Router;
pub use run::{
    Options, Outcome, Run, run_each, run_once, run_plain, run_scenario, run_told, run_watched,
};
pub use segment::{Seat, Segment, Survey};
pub use world::{Attach, Fault, LinkIndex, NodeIndex, World, delivered};
