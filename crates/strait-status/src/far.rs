//! What gateways at far ends say of themselves. Addresses are for an operator's eyes: they are in
//! no log and no metrics.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;

use strait_core::stats::{Brief, BriefClass, BriefFlow, FarStats};
use strait_core::time::Instant;

use crate::describe::{column, counter, described, gauge};

/// A gateway at a far end with the present.
pub(crate) type FarSource<'a> = (&'a FarStats, Instant);

described! {
    /// A gateway at a far end, as it was when its last report left. Its figures are of half a
    /// minute, rounded to an eighth.
    pub struct Far from far: FarSource<'_> {
        /// Its name; its address until that has arrived
        name: String = name(far.0);
        /// Its address
        address: String = far.0.address.to_string();
        /// The age of its report; null without one
        age_s: Option<f64> = far.0.as_of.map(|at| far.1.since(at).as_secs_f64())
            => gauge("far_age").unit("s").head("age");
        /// The greatest age
        age_max_s: f64 = far.0.age_max.as_secs_f64() => gauge("far_age_max").unit("s");
        /// Reports sent to it
        reports_out: u64 = far.0.reports_out => counter("far_reports_out");
        /// Octets of reports sent to it, IP headers included
        octets_out: u64 = far.0.octets_out => counter("far_octets_out").unit("octets");
        /// Reports that came from it
        reports_in: u64 = far.0.reports_in => counter("far_reports_in");
        /// Its reports that couldn't be read
        malformed: u64 = far.0.malformed => counter("far_malformed");
        /// The rate of its side of the link
        rate_bit_s: u64 = far.0.brief.rate_bit_s => column("rate").unit("bit/s");
        /// Its rate of sending by the link
        out_bit_s: u64 = far.0.brief.out_bit_s => gauge("far_out_bit_rate").head("out [bit/s]");
        /// Its rate of receiving by the link
        in_bit_s: u64 = far.0.brief.in_bit_s => gauge("far_in_bit_rate").head("in [bit/s]");
        /// The damaged share of its received data
        lost_in: f64 = far.0.brief.lost_in => gauge("far_lost_in").head("damaged in");
        /// Calls under way there
        calls: u64 = far.0.brief.calls => gauge("far_calls").head("calls");
        /// The longest that packets of a call wait there on average
        calls_wait_s: f64 = far.0.brief.calls_wait_s => column("calls wait").unit("s");
        /// The largest share of a call's packets that were dropped there
        calls_lost: f64 = far.0.brief.calls_lost => column("calls lost");
        /// The finding there, and its subject; empty if all is well
        wrong: String = wrong(&far.0.brief) => column("finding");
        /// Classes with traffic
        classes: Vec<FarClass> = far.0.brief.classes.iter().map(FarClass::new).collect();
        /// The flows that wait longest
        flows: Vec<FarFlow> = far.0.brief.flows.iter().map(FarFlow::new).collect();
    }
}

described! {
    /// A class of a gateway at a far end.
    pub struct FarClass from class: &BriefClass {
        /// Its name there
        name: String = class.name.clone() => column("class");
        /// Octets waiting
        queued_octets: u64 = class.queued_octets => column("queued octets");
        /// Rate sent by links
        out_bit_s: u64 = class.out_bit_s => column("out [bit/s]");
        /// Mean wait of its packets
        wait_s: f64 = class.wait_s => column("wait").unit("s");
        /// Dropped share of its packets
        lost: f64 = class.lost => column("dropped");
    }
}

described! {
    /// A flow at a gateway at a far end.
    pub struct FarFlow from flow: &BriefFlow {
        /// Source and destination; empty until they have arrived
        flow: String = ends(flow) => column("flow");
        /// Rate received
        in_bit_s: u64 = flow.in_bit_s => column("in [bit/s]");
        /// Mean wait of its packets
        wait_s: f64 = flow.wait_s => column("wait").unit("s");
        /// Dropped share of its packets
        lost: f64 = flow.lost => column("dropped");
    }
}

fn ends(flow: &BriefFlow) -> String {
    let Some(ends) = flow.ends else {
        return String::new();
    };
    let protocol = match ends.protocol {
        1 | 58 => "ping".into(),
        6 => "TCP".into(),
        17 => "UDP".into(),
        other => format!("protocol {other}"),
    };
    let at = |host, port| match port {
        0 => format!("{host}"),
        port => SocketAddr::new(host, port).to_string(),
    };
    let (from, to) = (at(ends.src, ends.ports.0), at(ends.dst, ends.ports.1));
    format!("{protocol} {from} > {to}")
}

fn name(far: &FarStats) -> String {
    if far.brief.name.is_empty() {
        far.address.to_string()
    } else {
        far.brief.name.clone()
    }
}

fn wrong(brief: &Brief) -> String {
    match (brief.cause.as_str(), brief.concerns.as_str()) {
        (cause, "") => cause.into(),
        (cause, concerns) => format!("{cause}: {concerns}"),
    }
}
