//! Formats on the wire, as octets and as meaning.
//!
//! Parsers judge hostile octets and never panic; builders produce exactly what parsers accept.
#![no_std]
extern crate alloc;

pub mod ax25;
mod bytes;
pub mod check;
pub mod ethernet;
pub mod frame;
pub mod hash;
pub mod hbh;
pub mod hello;
pub mod ip;
pub mod kiss;
pub mod mgen;
pub mod modem_port;
pub mod octets;
pub mod pcap;
pub mod pcapng;
pub mod repair;
pub mod rtp;
pub mod segment;
pub mod urgent;
