//! A STANAG 5066 node, Edition 3: D_PDUs on the air, channel access by soft links, data transfer
//! with and without ARQ, and turns on a half-duplex radio.
//!
//! Pure machines: octets, carriers and times come in, D_PDUs and outcomes go out. They don't decide
//! which client goes first; a caller hands over the next client data when there is room for it.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod arq;
pub mod c_pdu;
pub mod calendar;
pub mod check;
pub mod d_pdu;
mod delivered;
mod early;
pub mod eow;
mod link;
mod management;
mod non_arq;
mod quality;
pub mod rate;
mod reset;
pub mod s_pdu;
pub mod sis;
pub mod station;
pub mod stream;

pub use address::Address;
pub use rate::Adapt;
pub use station::{
    Access, Csma, Exclusive, Offer, Order, Outcome, Peer, Received, Settings, Slots, Station,
    Waiting,
};
