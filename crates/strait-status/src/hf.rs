//! Stations on radios: who used the air, how links stand, what waits by priority.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use strait_core::stats::{
    AccessStats, ClientStats, HfPeer, HfRate, HfStats, PRIORITIES, PortStats,
};

use crate::describe::{column, counter, described, gauge};
use crate::node::Counts;
use crate::seconds;

const PRIORITY: [&str; PRIORITIES] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
];

fn queued(stats: &HfStats) -> Counts {
    let queued = PRIORITY.into_iter().zip(stats.queued);
    let queued = queued.filter(|(_, count)| *count > 0);
    queued.map(|(name, count)| (name.into(), count)).collect()
}

described! {
    /// A station on a radio.
    pub struct Station from stats: &HfStats {
        /// Transmissions of a station
        turns: u64 = stats.counts.turns => counter("hf_turns").head("turns");
        /// D_PDUs sent
        d_pdus_out: u64 = stats.counts.d_pdus_out => counter("hf_dpdus_out").head("D_PDUs out");
        /// D_PDUs received
        d_pdus_in: u64 = stats.counts.d_pdus_in => counter("hf_dpdus_in").head("D_PDUs in");
        /// Frames sent again
        repeated: u64 = stats.counts.repeated => counter("hf_repeated").head("repeats");
        /// Transmissions without an answer
        unanswered: u64 = stats.counts.unanswered
            => counter("hf_unanswered").unit("turns").head("unanswered");
        /// Transmissions that couldn't be decoded
        garbled: u64 = stats.counts.garbled => counter("hf_garbled").unit("turns").head("garbled");
        /// Links made, by either end
        links_made: u64 = stats.counts.links_made => counter("hf_links_made").head("links made");
        /// Lost links
        links_lost: u64 = stats.counts.links_lost => counter("hf_links_lost").head("links lost");
        /// Restarts of both ends
        resets: u64 = stats.counts.resets => counter("hf_resets").head("resets");
        /// Warnings sent and received
        warnings: u64 = stats.counts.warnings_in + stats.counts.warnings_out
            => counter("hf_warnings").head("warnings");
        /// Management messages sent and received
        messages: u64 = stats.counts.messages_in + stats.counts.messages_out
            => counter("hf_messages");
        /// U_PDUs that wait, by priority
        queued: Counts = queued(stats)
            => gauge("hf_queued").by("priority", &PRIORITY).head("queued by priority");
        /// Transmissions of stations that aren't neighbours
        others_s: f64 = seconds(stats.counts.others_ns)
            => counter("hf_air_others").unit("s").head("others on the air");
        /// Programs that use it beside the gateway
        clients: Clients = Clients::new(&stats.clients);
        /// Its links
        neighbours: Vec<Link> = stats.peers.iter().map(Link::new).collect();
        /// For another maker's node: the access points there
        #[serde(skip_serializing_if = "Vec::is_empty")]
        accesses: Vec<Access> = Vec::new();
    }
}

impl Station {
    /// What is to be told of a port's station, if it has one.
    pub fn of(port: &PortStats) -> Option<Self> {
        let accesses = port.client.accesses.iter().map(Access::new).collect();
        let none = port.hf.peers.is_empty() && port.client.accesses.is_empty();
        (!none).then(|| Self {
            accesses,
            ..Self::new(&port.hf)
        })
    }
}

/// From request to confirmation, mean of those that were confirmed.
fn confirm_s(stats: &ClientStats) -> Option<f64> {
    let confirmed = (stats.confirmed > 0).then_some(stats.confirmed as f64)?;
    Some(seconds(stats.confirm_ns) / confirmed)
}

described! {
    /// Clients of a station's subnetwork interface.
    pub struct Clients from stats: &ClientStats {
        /// Clients that have an access point
        bound: u64 = stats.bound => gauge("hf_client_bound").head("bound");
        /// U_PDUs taken from clients
        requests: u64 = stats.requests => counter("hf_client_requests").head("U_PDUs taken");
        /// U_PDUs given to clients
        indications: u64 = stats.indications => counter("hf_client_indications").head("given");
        /// U_PDUs confirmed to clients
        confirmed: u64 = stats.confirmed => counter("hf_client_confirmed").head("confirmed");
        /// U_PDUs of clients rejected
        rejected: u64 = stats.rejected => counter("hf_client_rejected").head("rejected");
        /// U_PDUs sent for clients without a report
        unasked: u64 = stats.unasked => counter("hf_client_unasked").head("unasked");
        /// U_PDUs whose clients left before the outcome
        forgotten: u64 = stats.forgotten => counter("hf_client_forgotten").head("forgotten");
        /// U_PDUs of clients dropped
        flooded: u64 = stats.flooded => counter("hf_client_flooded").head("too many");
        /// Reports to clients for which there was no room
        unsaid: u64 = stats.unsaid => counter("hf_client_unsaid").unit("words").head("unsaid");
        /// U_PDUs for access points that no client has
        unbound: u64 = stats.unbound => counter("hf_client_unbound").head("for nobody");
        /// U_PDUs that arrived after their time to die
        expired: u64 = stats.expired => counter("hf_client_expired").head("too late");
        /// U_PDUs with a time to die by another clock or calendar
        misdated: u64 = stats.misdated => counter("hf_client_misdated").head("other calendar");
        /// Invalid primitives
        invalid: u64 = stats.invalid
            => counter("hf_client_invalid").unit("primitives").head("invalid");
        /// Disconnected clients
        cut: u64 = stats.cut => counter("hf_client_cut").unit("clients").head("cut off");
        /// Time from request to confirmation, mean of the confirmed ones
        confirm_s: Option<f64> = confirm_s(stats) => column("confirmed after").unit("s");
    }
}

described! {
    /// A link between two stations.
    pub struct Link from peer: &HfPeer {
        /// The configuration's name for the other one
        name: String = peer.name.clone();
        /// Whether it stands for several stations, which don't answer
        group: bool = peer.group;
        /// Whether there is a link
        linked: bool = peer.link.linked => gauge("hf_linked");
        /// With frame numbers of 16 bits
        long: bool = peer.link.long;
        /// Frames of the window
        under_way: u64 = peer.link.under_way => gauge("hf_frames_under_way").head("frames under way");
        /// The most of them
        window: u64 = peer.link.window => column("window");
        /// Octets of a new segment
        segment_octets: u64 = peer.link.segment_octets
            => gauge("hf_segment_octets").unit("octets").head("segment");
        /// Share of the latest frames that was lost
        lost: f64 = peer.link.lost => gauge("hf_lost_per_million").scale(1e6).head("frames lost, share");
        /// Own transmissions, by neighbour
        sent_s: f64 = seconds(peer.link.sent_ns) => counter("hf_air_sent").unit("s").head("own air");
        /// Transmissions of a neighbour
        heard_s: f64 = seconds(peer.link.heard_ns) => counter("hf_air_heard").unit("s").head("its air");
        /// How its data rate is chosen, if it changes
        #[serde(skip_serializing_if = "Option::is_none")]
        rate: Option<Rate> = peer.link.rate.as_ref().map(Rate::new);
    }
}

described! {
    /// The data rate towards another station, where it follows what arrives.
    pub struct Rate from rate: &HfRate {
        /// Data rate towards a neighbour
        bit_s: u64 = rate.bit_s => gauge("hf_bit_rate").unit("bit/s").head("rate");
        /// Changes to a higher data rate
        up: u64 = rate.up => counter("hf_rate_up").head("changes up");
        /// Changes to a lower one by losses
        down: u64 = rate.down => counter("hf_rate_down").head("down by losses");
        /// Changes to a lower one by silence
        silent: u64 = rate.silent => counter("hf_rate_silent").head("down by silence");
        /// The reason of its last change; empty if it never changed
        reason: String = rate.reason.into() => column("last reason");
        /// The advice of the other station
        advised_bit_s: Option<u64> = rate.advised_bit_s => column("advised").unit("bit/s");
        /// The rate of its last transmission, if the modem reports it
        heard_bit_s: Option<u32> = rate.heard_bit_s => column("heard last").unit("bit/s");
        /// Signal-to-noise ratio of its transmissions, in decibels, if the modem reports it
        snr_db: Option<f64> = rate.snr_centi_db.map(|snr| f64::from(snr) / 100.0)
            => column("heard with").unit("dB");
    }
}

described! {
    /// An access point at somebody else's station.
    pub struct Access from stats: &AccessStats {
        /// Its number
        sap: u8 = stats.sap;
        /// Whether the access point is bound
        bound: bool = stats.bound => gauge("hf_access_bound");
        /// The node accepts no more for now
        stopped: bool = stats.stopped => gauge("hf_access_stopped");
        /// The longest U_PDU; 0 while it isn't bound
        mtu: u64 = stats.mtu => column("longest U_PDU").unit("octets");
        /// U_PDUs that wait for the node's confirmation
        under_way: u64 = stats.under_way
            => gauge("hf_access_under_way").unit("U_PDUs").head("under way");
        /// U_PDUs given to the node
        requests: u64 = stats.requests => counter("hf_access_requests").head("U_PDUs given");
        /// U_PDUs that it confirmed
        confirmed: u64 = stats.confirmed => counter("hf_access_confirmed").head("confirmed");
        /// U_PDUs that it rejected
        rejected: u64 = stats.rejected => counter("hf_access_rejected").head("rejected");
        /// U_PDUs that it delivered
        indications: u64 = stats.indications => counter("hf_access_indications").head("came");
        /// Stops that it sent to its client
        stops: u64 = stats.stops => counter("hf_access_stops").head("stops");
        /// Bindings that it refused
        refused: u64 = stats.refused => counter("hf_access_refused").head("bindings refused");
        /// Bindings that were lost
        lost: u64 = stats.lost => counter("hf_access_lost").head("lost");
        /// Its invalid primitives
        invalid: u64 = stats.invalid
            => counter("hf_access_invalid").unit("primitives").head("invalid");
    }
}

impl Access {
    /// Its number as a label.
    pub(crate) fn label(&self) -> String {
        self.sap.to_string()
    }
}
