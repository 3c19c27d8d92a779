//! Simulated hosts: sockets, TLS, and the programs that make traffic.
//!
//! A [`Host`] stands behind the same contract as a gateway. It has UDP and TCP in a [`Stack`] and
//! any number of [`Application`]s; [`install()`] puts those of a traffic on two hosts.

mod host;
mod programs;
pub mod tls;

pub use self::host::{
    AppId, Application, ConnectionId, Event, Host, HostConfig, HostCounters, Stack, quoted_ends,
};
pub use self::programs::{InstallError, install, install_echo, install_mail, install_mail_server};
