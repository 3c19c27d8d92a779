//! Real time: the clock, the devices and the event loop that drive a node on a Linux host.
//!
//! One thread and one poll loop serve a node ([`node_loop`]). The loop uses `ppoll(2)`: with a
//! dozen descriptors, handing the whole interest set over in each call costs less than keeping a
//! kernel-side set in step with a node's back-pressure, and its timeout has nanoseconds.
//!
//! This is the only crate that may use `unsafe`, and only for system calls that have no safe
//! wrapper: `ioctl`s ([`tun`], [`serial`]), a socket option (`tcp_info`), the scheduler
//! ([`schedule`]), and the moment between `fork` and `exec` ([`namespace`]).

mod bench;
pub mod clock;
mod entropy;
pub mod error;
pub mod gateway;
pub mod gateway_ports;
pub mod gateway_status;
mod hf_modem;
mod host_networks;
mod host_routes;
pub mod journal_file;
mod kernel_routes;
pub mod kiss;
pub mod logs;
pub mod metrics;
pub mod modem_control;
pub mod modem_transfer;
pub mod namespace;
pub mod netlink;
mod no_medium;
pub mod node_loop;
mod own_file;
pub mod packets_file;
pub mod poll;
pub mod port_io;
pub mod pty;
pub mod raw_ip;
pub mod schedule;
pub mod serial;
pub mod server;
pub mod service;
pub mod signals;
pub mod sockets;
pub mod status;
pub mod storage;
pub mod taps;
pub mod tcp_info;
pub mod tcp_line;
pub mod tls;
pub mod tun;
pub mod udp;
mod worker;
mod workshop;

pub use clock::Clock;
pub use error::Error;
pub use node_loop::Runner;
pub use port_io::PortIo;
