//! The flows of an MGEN script as a traffic between two hosts of a scenario.

use std::collections::{BTreeMap, BTreeSet};

use crate::mgen::{Pattern, Protocol, Script, What};

/// The longest message in a datagram between hosts of a scenario: with its headers it fits 1500
/// octets, as simulated hosts don't fragment.
pub const DATAGRAM_OCTETS_MAX: u64 = 1452;
/// Flows without a source port of their own, for each of which there is one.
const UNNAMED_MAX: usize = 64;

/// A message's number in a [`FlowLog`](crate::FlowLog): that of its flow in the upper half, its own
/// in the lower.
pub const fn flow_key(flow: u32, sequence: u32) -> u64 {
    (flow as u64) << 32 | sequence as u64
}

/// The flow of a message in a [`FlowLog`](crate::FlowLog).
pub(crate) const fn flow_of(key: u64) -> u32 {
    (key >> 32) as u32
}

/// Why a script can't be traffic between two hosts of a scenario.
pub(super) fn playable(script: &Script) -> Result<(), String> {
    let mut unnamed = BTreeSet::new();
    for event in &script.events {
        let line = event.line;
        let (flow, options) = match &event.what {
            What::On(flow, options) => (*flow, script.with_defaults(options)),
            What::Mod(flow, options) => (*flow, options.clone()),
            What::Join(_) | What::Leave(_) => {
                return Err(format!(
                    "line {line}: a scenario has no multicast: remove JOIN"
                ));
            }
            What::Off(_) | What::Listen(..) | What::Ignore(..) => continue,
        };
        if options.protocol == Some(Protocol::Sink) {
            return Err(format!(
                "line {line}: a scenario has no SINK: use UDP or TCP"
            ));
        }
        if options.dst.is_some_and(|dst| dst.ip().is_multicast()) {
            return Err(format!(
                "line {line}: a scenario has no multicast: name a host's address"
            ));
        }
        let octets = options.pattern.as_ref().and_then(Pattern::octets);
        let udp = options.protocol == Some(Protocol::Udp);
        if udp && octets.is_some_and(|octets| octets > DATAGRAM_OCTETS_MAX) {
            return Err(format!(
                "line {line}: hosts of a scenario don't fragment: at most {DATAGRAM_OCTETS_MAX} \
                 octets over UDP"
            ));
        }
        if matches!(event.what, What::On(..)) && options.src.is_none() {
            unnamed.insert(flow);
        }
        if unnamed.len() > UNNAMED_MAX {
            return Err(format!(
                "line {line}: more than {UNNAMED_MAX} flows without SRC: give them ports"
            ));
        }
    }
    Ok(())
}

/// The port that each flow is sent from: the script's, or one from `first` on.
pub fn source_ports(script: &Script, first: u16) -> BTreeMap<u32, u16> {
    let mut ports = BTreeMap::new();
    let mut next = first;
    for (_, flow, options) in script.flows() {
        ports.entry(flow).or_insert_with(|| {
            options.src.unwrap_or_else(|| {
                let port = next;
                next = next.wrapping_add(1);
                port
            })
        });
    }
    ports
}
