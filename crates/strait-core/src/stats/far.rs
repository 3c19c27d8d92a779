//! What gateways at far ends say of themselves.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::time::{Duration, Instant};

/// A gateway at the far end of a link, and what passed between it and this one about themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct FarStats {
    /// Its address.
    pub address: IpAddr,
    /// Reports sent to it.
    pub reports_out: u64,
    /// Their octets, IP header included.
    pub octets_out: u64,
    /// Reports that came from it.
    pub reports_in: u64,
    /// Of these, the ones that couldn't be read.
    pub malformed: u64,
    /// When the last one left, as far as is known: how much longer than the fastest it took.
    pub as_of: Option<Instant>,
    /// The oldest that what is known here has been.
    pub age_max: Duration,
    /// What it said.
    pub brief: Brief,
}

/// How a gateway is, in as little as an operator needs. Figures are of its last half minute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Brief {
    /// Its name; empty while it hasn't come.
    pub name: String,
    /// When that was, by its clock, in quarters of a second; of these the low bits.
    pub at: u8,
    /// The rate of its side of the link, in bit/s.
    pub rate_bit_s: u64,
    /// What it sent by the link, in bit/s.
    pub out_bit_s: u64,
    /// What it received by it, in bit/s.
    pub in_bit_s: u64,
    /// The share of what came by it that was damaged.
    pub lost_in: f64,
    /// What is wrong, by its name; empty if all is well.
    pub cause: String,
    /// Whom or what that concerns.
    pub concerns: String,
    /// Calls under way there.
    pub calls: u64,
    /// The longest that packets of a call wait on average, in seconds.
    pub calls_wait_s: f64,
    /// The largest share of a call's packets that were dropped there.
    pub calls_lost: f64,
    /// Classes in which something passes or waits.
    pub classes: Vec<BriefClass>,
    /// The three flows that wait longest.
    pub flows: Vec<BriefFlow>,
}

/// A class of service of a gateway elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BriefClass {
    /// Its name there; empty while that hasn't come.
    pub name: String,
    /// Octets waiting.
    pub queued_octets: u64,
    /// What links sent of it, in bit/s.
    pub out_bit_s: u64,
    /// How long its packets waited on average, in seconds.
    pub wait_s: f64,
    /// The share of them that was dropped.
    pub lost: f64,
}

/// A flow at a gateway elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BriefFlow {
    /// Who sends it to whom, how; unknown while that hasn't come.
    pub ends: Option<BriefEnds>,
    /// What comes of it, in bit/s.
    pub in_bit_s: u64,
    /// How long its packets waited on average, in seconds.
    pub wait_s: f64,
    /// The share of them that was dropped.
    pub lost: f64,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefEnds {
    /// The transport protocol.
    pub protocol: u8,
    /// Ports of source and destination; zero where there are none.
    pub ports: (u16, u16),
    /// The sender.
    pub src: IpAddr,
    /// The receiver.
    pub dst: IpAddr,
}
