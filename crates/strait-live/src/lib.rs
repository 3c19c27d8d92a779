//! Real time: the clock, the devices and the event loop that drive a node on a Linux host.
//!
//! One thread and one poll loop serve a node ([`node_loop`]). The loop uses `ppoll(2)`: with a
//! dozen descriptors, handing the whole interest set over in each call costs less than keeping a
//! kernel-side set in step with a node's back-pressure, and its timeout has nanoseconds.
//!
//! This is the only crate that may use `unsafe`, and only for system calls that have no safe
//! wrapper: `ioctl`s ([`ports::tun`], [`ports::serial`]), options and notes of sockets
//! ([`sockets`]), the time zone ([`clock`]), the scheduler ([`kernel::schedule`]), and the moment
//! between `fork` and `exec` ([`kernel::namespace`]).
//!
//! A [`gateway`] is what a node file says, made of all others: the event loop ([`node_loop`]) with
//! its [`ports`], the node's own [`sockets`] and [`files`], what the [`kernel`] does for it, and
//! what an operator asks ([`status`], [`logs`]).

pub mod clock;
pub mod error;
pub mod fail_points;
pub mod files;
pub mod gateway;
pub mod kernel;
pub mod logs;
pub mod node_loop;
pub mod poll;
pub mod ports;
pub mod signals;
pub mod sockets;
pub mod status;
mod work;

pub use clock::Clock;
pub use error::Error;
pub use node_loop::Runner;
pub use ports::PortIo;
pub use strait_work::password;
