//! Traffic between two hosts over real sockets, and what becomes of it: the live half of
//! [`strait_traffic`].
//!
//! A call ([`voice`]), the flows of an MGEN script ([`flows`]), measured transfers ([`tcp`]) and
//! packet pairs ([`pair`]). Each runs between any two hosts, with a gateway of ours in between or
//! without, and notes times by the kernel's clock.

pub mod flows;
pub mod pair;
mod stamped_udp;
pub mod tcp;
pub mod tcp_socket;
pub mod voice;
