//! What a node counts of each port.

use alloc::string::String;
use alloc::vec::Vec;

use strait_core::stats::{
    FlowStats, HopStats, NeighbourStats, PortStats, RepairStats, UrgentStats,
};
use strait_core::time::Instant;

use crate::describe::{column, counter, described, gauge};
use crate::hf::Station;
use crate::node::quantile_s;
use crate::seconds;

/// What a port's state is made of.
#[derive(Debug)]
pub struct PortSource<'a> {
    /// Its counters.
    pub stats: &'a PortStats,
    /// How long the node runs.
    pub uptime_s: f64,
    /// It is the host side, whose rate no line sets.
    pub is_host: bool,
}

impl PortSource<'_> {
    /// Share of the time in which it sent. What was pulled last is counted whole, and may not have
    /// left.
    fn busy_share(&self) -> f64 {
        (seconds(self.stats.busy_ns) / self.uptime_s.max(1e-9)).min(1.0)
    }

    /// How long ago something happened.
    fn since_s(&self, at: Option<Instant>) -> Option<f64> {
        Some((self.uptime_s - at?.as_secs_f64()).max(0.0))
    }

    fn rate_bit_s(&self) -> Option<u64> {
        let rate = self.stats.tx_rate.filter(|_| !self.is_host);
        rate.map(|rate| rate.bit_s())
    }
}

described! {
    /// A port.
    pub struct Port from port: &PortSource<'_> {
        /// The configuration's name for it
        name: String = port.stats.name.clone();
        /// Whether it is a host side
        host_side: bool = port.stats.presence.is_host || port.is_host => gauge("port_host_side");
        /// Whether the port can send
        up: bool = port.stats.up => gauge("port_up");
        /// The reason why it isn't up
        problem: Option<String> = None;
        /// Its modem's reports on the frames that it holds; null without a request
        found: Option<String> = None;
        /// Rate towards the neighbour, of several the first; null if no line sets one
        rate_bit_s: Option<u64> = port.rate_bit_s() => gauge("port_bit_rate");
        /// Recent rate of frames to the only neighbour; null if the medium doesn't report it
        measured_bit_s: Option<u64> = port.stats.presence.measured_bit_s => gauge("port_measured_bit_rate");
        /// Share of the time since the start in which it sent
        #[serde(rename = "use")]
        busy_share: f64 = port.busy_share();
        /// Time spent sending
        busy_s: f64 = seconds(port.stats.busy_ns) => counter("port_busy").unit("s");
        /// Time since it received anything; null if it never did
        heard_s: Option<f64> = port.since_s(port.stats.presence.heard) => gauge("port_heard").unit("s");
        /// Packets that came whole
        packets_in: u64 = port.stats.presence.packets_in => counter("port_packets_in");
        /// Frames received
        frames_in: u64 = port.stats.frames_in => counter("port_frames_in");
        /// Octets received
        octets_in: u64 = port.stats.octets_in => counter("port_octets_in");
        /// Recent rate of received octets; null if it isn't measured
        in_bit_s: Option<u64> = None;
        /// Recent rate of sent octets; null if it isn't measured
        out_bit_s: Option<u64> = None;
        /// Frames or segments sent
        frames_out: u64 = port.stats.frames_out => counter("port_frames_out");
        /// Octets sent
        octets_out: u64 = port.stats.octets_out => counter("port_octets_out");
        /// Frames that failed their check
        damaged: u64 = port.stats.damaged => counter("port_damaged");
        /// Frames with an impossible form
        invalid: u64 = port.stats.invalid => counter("port_invalid");
        /// Packets given up for a missing piece
        incomplete: u64 = port.stats.incomplete => counter("port_incomplete");
        /// Octets of packets before header compression
        plain_octets: u64 = port.stats.plain_octets => counter("port_plain_octets");
        /// Octets of packets after header compression
        compressed_octets: u64 = port.stats.compressed_octets => counter("port_compressed_octets");
        /// Octets before payload compression
        payload_plain_octets: u64 = port.stats.payload.plain_octets
            => counter("port_payload_plain_octets");
        /// Octets after payload compression
        payload_compressed_octets: u64 = port.stats.payload.compressed_octets
            => counter("port_payload_compressed_octets");
        /// Packets whose payloads didn't get shorter
        payload_raw: u64 = port.stats.payload.raw => counter("port_payload_raw");
        /// Packets that couldn't be decompressed
        undecompressed: u64 = port.stats.undecompressed => counter("port_undecompressed");
        /// The agreement of the ends of the link; empty if there was no negotiation
        agreement: String = port.stats.agreement.text();
        /// Frames from no neighbour
        strangers: u64 = port.stats.strangers => counter("port_strangers");
        /// Transmissions that failed
        tx_failed: u64 = port.stats.tx_failed => counter("port_tx_failed");
        /// Transmissions that its device refused, or gave no notice of
        refused: u64 = 0 => counter("port_refused");
        /// Times the port went down
        downs: u64 = port.stats.presence.downs => counter("port_downs");
        /// Each of several neighbours; absent if there is only one
        #[serde(skip_serializing_if = "Vec::is_empty")]
        neighbours: Vec<Neighbour> = neighbours(port);
        /// The flows that leave by it
        flows: PortFlows = PortFlows::new(&port.stats.flows);
        /// Real-time packets that go inside others; absent if there were none
        #[serde(skip_serializing_if = "Option::is_none")]
        urgent: Option<Urgent> = Urgent::of(&port.stats.urgent);
        /// Repairs of its octet stream; absent if there were none
        #[serde(skip_serializing_if = "Option::is_none")]
        repairs: Option<Repairs> = Repairs::of(&port.stats.repairs);
        /// Cost and state of repairs; null if nothing is repaired
        hop: Option<Hop> = Hop::of(&port.stats.hop);
        /// Its station on a radio, with its links; absent if there is none
        #[serde(skip_serializing_if = "Option::is_none")]
        hf: Option<Station> = Station::of(port.stats);
    }
}

fn neighbours(port: &PortSource<'_>) -> Vec<Neighbour> {
    let all = port.stats.neighbours.iter();
    all.map(|it| Neighbour::new((it, port))).collect()
}

described! {
    /// One of several neighbours on a port.
    pub struct Neighbour from neighbour: (&NeighbourStats, &PortSource<'_>) {
        /// The configuration's name for it
        name: String = neighbour.0.name.clone();
        /// Rate towards it; null before the port came up
        rate_bit_s: Option<u64> = neighbour.0.tx_rate.map(|rate| rate.bit_s())
            => gauge("port_neighbour_bit_rate").head("rate [bit/s]");
        /// Octets sent to it
        octets_out: u64 = neighbour.0.octets_out
            => counter("port_neighbour_octets_out").head("octets sent");
        /// Time since it was heard; null if it never was
        heard_s: Option<f64> = neighbour.1.since_s(neighbour.0.heard)
            => gauge("port_neighbour_heard").unit("s").head("heard [s ago]");
    }
}

described! {
    /// How a port's flows were foreseen.
    pub struct PortFlows from stats: &FlowStats {
        /// Gaps between a call's packets that were predicted
        gaps: u64 = stats.gaps.error.count() => counter("port_gaps").head("gaps");
        /// The predicted gap that half of them don't exceed
        gap_predicted_p50_s: Option<f64> = quantile_s(&stats.gaps.predicted, 0.5)
            => column("predicted p50").unit("s");
        /// The true gap that half of them don't exceed
        gap_actual_p50_s: Option<f64> = quantile_s(&stats.gaps.actual, 0.5)
            => column("true p50").unit("s");
        /// Error of predictions, that of 95 of 100
        gap_error_p95_s: Option<f64> = quantile_s(&stats.gaps.error, 0.95)
            => column("error p95").unit("s");
        /// Packets of calls without a prediction
        gaps_unforeseen: u64 = stats.gaps.unforeseen
            => counter("port_gaps_unforeseen").head("unforeseen");
        /// Segments of other packets made shorter to fit a gap
        segments_fitted: u64 = stats.gaps.fitted
            => counter("port_segments_fitted").head("pieces cut to fit");
        /// Segments of the least size, sent while a call's packet was due
        segments_least: u64 = stats.gaps.least
            => counter("port_segments_least").head("of least size");
        /// Times that the line rested because a call's packet was due at once
        rests: u64 = stats.gaps.rests => counter("port_rests");
        /// Times that a call was admitted
        calls_admitted: u64 = stats.admitted => counter("port_calls_admitted").head("admitted");
        /// Times that a call was refused
        calls_refused: u64 = stats.refused => counter("port_calls_refused").head("refused");
        /// Flows in the table
        known: u64 = stats.known => gauge("port_flows").head("flows");
        /// Flows replaced by new ones in a full table
        displaced: u64 = stats.displaced => counter("port_flows_displaced").head("displaced");
    }
}

described! {
    /// Urgent frames.
    pub struct Urgent from stats: &UrgentStats {
        /// Urgent frames sent
        frames_out: u64 = stats.frames => counter("port_urgent_frames_out").head("sent");
        /// Their octets on the line, mark and escapes included
        octets_out: u64 = stats.octets => counter("port_urgent_octets_out").head("their octets");
        /// Octets of the longest
        octets_max: u32 = stats.octets_max => gauge("port_urgent_octets_max").head("of the longest");
        /// Frames suspended by them
        suspended: u64 = stats.suspended => counter("port_urgent_suspended").head("inside others");
        /// Urgent frames received
        frames_in: u64 = stats.frames_in => counter("port_urgent_frames_in").head("received");
        /// Urgent frames that failed their check
        damaged: u64 = stats.damaged => counter("port_urgent_damaged").head("damaged");
        /// Suspended frames that came whole
        resumed: u64 = stats.resumed => counter("port_urgent_resumed").head("others resumed");
    }
}

impl Urgent {
    fn of(stats: &UrgentStats) -> Option<Self> {
        (*stats != UrgentStats::default()).then(|| Self::new(stats))
    }
}

described! {
    /// What of an octet stream is sent again where it was lost.
    pub struct Repairs from stats: &RepairStats {
        /// Whether it repeats segments that the other end misses
        sends: bool = stats.sends;
        /// Whether it has seen errors, and wants the other end to repeat
        wishes: bool = stats.wishes;
        /// Segments sent again
        repeated: u64 = stats.repeated => counter("port_repairs_repeated").head("sent again");
        /// Their octets
        repeated_octets: u64 = stats.repeated_octets
            => counter("port_repairs_repeated_octets").head("their octets");
        /// Segments received that can be asked for again
        segments_in: u64 = stats.segments_in => counter("port_repairs_segments_in").head("received");
        /// Segments received again
        duplicates: u64 = stats.duplicates => counter("port_repairs_duplicates").head("again");
        /// Segments refused for lack of room
        refused: u64 = stats.refused => counter("port_repairs_refused").head("refused");
        /// Missing segments given up
        skipped: u64 = stats.skipped => counter("port_repairs_skipped").head("given up");
        /// Notes about repairs sent
        notes: u64 = stats.notes => counter("port_repairs_notes").head("notes");
        /// Their octets
        notes_octets: u64 = stats.notes_octets
            => counter("port_repairs_notes_octets").head("octets of notes");
        /// Notes about segments that were never sent
        forged: u64 = stats.forged => counter("port_repairs_forged").head("forged");
        /// Octets of sent segments without an acknowledgement
        window_octets: u64 = stats.window_octets
            => gauge("port_repairs_window_octets").head("on their way");
        /// Octets of segments that wait for an earlier one
        held_octets: u64 = stats.held_octets => gauge("port_repairs_held_octets").head("waiting");
    }
}

impl Repairs {
    fn of(stats: &RepairStats) -> Option<Self> {
        (*stats != RepairStats::default()).then(|| Self::new(stats))
    }
}

described! {
    /// What links made reliable hop by hop cost a port, and hold.
    pub struct Hop from stats: &HopStats {
        /// Packets sent again
        repeated: u64 = stats.repeated => counter("port_hop_repeated");
        /// Of these, those that had arrived before
        needless: u64 = stats.needless => counter("port_hop_needless");
        /// Copies behind packets sent again
        copied: u64 = stats.copied => counter("port_hop_copied");
        /// Parity frames sent
        parities: u64 = stats.parities => counter("port_hop_parities");
        /// Lost packets restored by parity frames
        restored: u64 = stats.restored => counter("port_hop_restored");
        /// Frames sent without a packet
        control: u64 = stats.control => counter("port_hop_control");
        /// Packets received again
        duplicates: u64 = stats.duplicates => counter("port_hop_duplicates");
        /// Packets refused for lack of room; their sender repeats them
        refused: u64 = stats.refused => counter("port_hop_refused");
        /// Frames that were damaged, or belonged to another life of either end
        foreign: u64 = stats.foreign => counter("port_hop_foreign");
        /// Acknowledgements of packets that were never sent
        forged: u64 = stats.forged => counter("port_hop_forged");
        /// Packets handed on out of order, after waiting for an earlier one
        impatient: u64 = stats.impatient => counter("port_hop_impatient");
        /// Starts of a neighbour, including the first
        renewals: u64 = stats.renewals => counter("port_hop_renewals");
        /// Hellos of neighbours with another format: nothing is sent to them
        other_format: u64 = stats.other_format => counter("port_hop_other_format");
        /// Hellos of neighbours whose check is another: nothing is sent to them
        other_check: u64 = stats.other_check => counter("port_hop_other_check");
        /// The most sent packets without an acknowledgement
        window_packets_most: u64 = stats.window_packets_most
            => gauge("port_hop_window_packets_most");
        /// Octets of sent packets without an acknowledgement
        window_octets: u64 = stats.window_octets => gauge("port_hop_window_octets");
        /// Octets of packets that wait for an earlier one
        order_octets: u64 = stats.order_octets => gauge("port_hop_order_octets");
    }
}

impl Hop {
    fn of(stats: &HopStats) -> Option<Self> {
        (*stats != HopStats::default()).then(|| Self::new(stats))
    }
}
