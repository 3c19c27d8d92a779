//! What a station on a radio counts, and how its links stand.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Priorities of STANAG 5066, 15 the most urgent.
pub const PRIORITIES: usize = 16;

/// What a station on a radio counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HfCounts {
    /// Transmissions.
    pub turns: u64,
    /// D_PDUs sent.
    pub d_pdus_out: u64,
    /// D_PDUs received, for this station or others.
    pub d_pdus_in: u64,
    /// Of these, with a wrong check of the segment.
    pub damaged: u64,
    /// D_PDUs for this station from stations that it doesn't know.
    pub strangers: u64,
    /// Frames sent again.
    pub repeated: u64,
    /// Transmissions that weren't answered.
    pub unanswered: u64,
    /// Transmissions of others of which nothing was understood: where others collide, and noise.
    pub garbled: u64,
    /// Links made, by either end.
    pub links_made: u64,
    /// Links taken for lost, and calls given up.
    pub links_lost: u64,
    /// Resets begun, by either end.
    pub resets: u64,
    /// Warnings sent.
    pub warnings_out: u64,
    /// Warnings received.
    pub warnings_in: u64,
    /// Management messages sent, repeats not counted.
    pub messages_out: u64,
    /// Management messages received, repeats not counted.
    pub messages_in: u64,
    /// Time on the air of stations that aren't neighbours, or couldn't be told, in nanoseconds.
    pub others_ns: u64,
}

/// What a station on a radio did, and has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HfStats {
    /// What it counted.
    pub counts: HfCounts,
    /// By priority: U_PDUs that wait, of the gateway and of clients.
    pub queued: [u64; PRIORITIES],
    /// Programs that use the station beside the gateway.
    pub clients: ClientStats,
    /// By neighbour, in the order of the configuration.
    pub peers: Vec<HfPeer>,
}

/// Clients of a station's subnetwork interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Clients that have an access point now.
    pub bound: u64,
    /// U_PDUs taken from clients.
    pub requests: u64,
    /// U_PDUs given to clients.
    pub indications: u64,
    /// U_PDUs that were confirmed to their clients.
    pub confirmed: u64,
    /// U_PDUs that were rejected.
    pub rejected: u64,
    /// U_PDUs that are with the other node, or have left without ARQ, and whose clients wanted no
    /// word of it.
    pub unasked: u64,
    /// U_PDUs whose clients left, or lost their access points, before an outcome was known.
    pub forgotten: u64,
    /// U_PDUs of clients that didn't stop when they were told to; dropped.
    pub flooded: u64,
    /// Words of the node's own about clients' U_PDUs for which there was no room; dropped.
    pub unsaid: u64,
    /// U_PDUs for access points that no client has.
    pub unbound: u64,
    /// U_PDUs that arrived after their time to die, of clients and of the gateway; dropped.
    pub expired: u64,
    /// U_PDUs whose time to die says that its sender's clock or calendar is another: they came more
    /// than an hour after it, or it is on a day that isn't near. They are delivered.
    pub misdated: u64,
    /// From the request to the confirmation of all that were confirmed, in nanoseconds.
    pub confirm_ns: u64,
    /// Primitives that made no sense.
    pub invalid: u64,
    /// Clients cut off: they didn't read, didn't answer, or sent what nobody understands.
    pub cut: u64,
}

/// A port whose station is somebody else's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HfClientStats {
    /// Its access points there.
    pub accesses: Vec<AccessStats>,
}

/// An access point at somebody else's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AccessStats {
    /// Its number.
    pub sap: u8,
    /// It is bound.
    pub bound: bool,
    /// The node takes no more for now.
    pub stopped: bool,
    /// U_PDUs that the node is to confirm.
    pub under_way: u64,
    /// The longest U_PDU, in octets; 0 while it isn't bound.
    pub mtu: u64,
    /// U_PDUs given to the node.
    pub requests: u64,
    /// U_PDUs that it confirmed.
    pub confirmed: u64,
    /// U_PDUs that it rejected, or said nothing about.
    pub rejected: u64,
    /// U_PDUs that it delivered.
    pub indications: u64,
    /// Times that it told its client to stop.
    pub stops: u64,
    /// Bindings that it refused.
    pub refused: u64,
    /// Bindings that were lost.
    pub lost: u64,
    /// Primitives of its that made no sense.
    pub invalid: u64,
}

/// A neighbour of a station.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HfPeer {
    /// The configuration's name for it.
    pub name: String,
    /// It stands for several stations, of which none answers.
    pub group: bool,
    /// The link with it.
    pub link: HfLink,
}

/// How a link with another station stands, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HfLink {
    /// There is a link.
    pub linked: bool,
    /// With frame numbers of 16 bits.
    pub long: bool,
    /// Frames from the lowest that isn't acknowledged to the last sent.
    pub under_way: u64,
    /// The most of them.
    pub window: u64,
    /// Octets of a new segment.
    pub segment_octets: u64,
    /// Of the frames sent last, the share that got lost.
    pub lost: f64,
    /// Time of our transmissions for it, in nanoseconds.
    pub sent_ns: u64,
    /// Time of its transmissions, whoever they were for, in nanoseconds.
    pub heard_ns: u64,
    /// How its data rate is chosen, if it changes.
    pub rate: Option<HfRate>,
}

/// The data rate towards another station, where it follows what arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HfRate {
    /// The rate in use, in bit/s.
    pub bit_s: u64,
    /// Changes to a higher rate.
    pub up: u64,
    /// Changes to a lower rate as too much was lost.
    pub down: u64,
    /// Changes to a lower rate as nothing was heard.
    pub silent: u64,
    /// Why it was changed last; empty if it never was.
    pub reason: &'static str,
    /// What the other station advises, in bit/s.
    pub advised_bit_s: Option<u64>,
    /// The rate of what it sent last, in bit/s, where the modem tells.
    pub heard_bit_s: Option<u32>,
    /// Signal-to-noise ratio of what it sends, in hundredths of a decibel, where the modem tells.
    pub snr_centi_db: Option<i16>,
}
