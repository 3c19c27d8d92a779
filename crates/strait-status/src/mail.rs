//! What a node's message switch has. It is for its operator's eyes: it is in no log.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::mail::MailView;

use crate::{Mail, Snapshot};

/// Rows that are told: as many as anybody reads.
const ROWS_MAX: usize = 10_000;

/// What a node's message switch has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailQueue {
    /// The node's name.
    pub node: String,
    /// Since its start.
    pub uptime_s: f64,
    /// What it has counted; absent where there is no switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail: Option<Mail>,
    /// By way, and there the most urgent first; held ones last.
    pub messages: Vec<MailRow>,
    /// Those that aren't told, or haven't been read from storage since the start.
    pub more: u64,
    /// Next hops, in the order of the routes.
    pub hops: Vec<MailHopRow>,
    /// Connections to them, in the same order, the highest precedence first.
    pub lanes: Vec<MailLaneRow>,
}

/// A connection to a next hop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailLaneRow {
    /// The next hop's address.
    pub hop: String,
    /// The precedence.
    pub precedence: String,
    /// `proxy` if it is a stream of the TCP proxy's session, `tcp` otherwise.
    pub by: String,
    /// The next hop has greeted.
    pub ready: bool,
}

/// A next hop of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailHopRow {
    /// Its address.
    pub hop: String,
    /// The route's number, from 1.
    pub route: u64,
    /// The domains whose mail it may have.
    pub domains: String,
    /// `used` if it has the route's messages now, `out` if it is down or silent, `ready` otherwise.
    pub state: String,
    /// The next hop that an operator has in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// Messages that wait for it.
    pub waiting: u64,
}

/// A message and one of the ways by which it is to go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailRow {
    /// Its number.
    pub id: u64,
    /// Its precedence.
    pub precedence: String,
    /// Octets of its text.
    pub octets: u64,
    /// Since when it is here.
    pub age_s: f64,
    /// Its return path.
    pub sender: String,
    /// Those who are to get it this way.
    pub recipients: String,
    /// The next hop, `mailbox`, or `-` for one that is held.
    pub hop: String,
    /// The route's number, from 1, if it is a next hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<u64>,
    /// What it waits for.
    pub state: String,
    /// How often it was refused for now.
    pub tries: u32,
    /// What was said last.
    pub said: String,
    /// Octets that go before it by the same way, its own included.
    pub ahead_octets: u64,
    /// How long those take at the link's rate; absent where that isn't known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_s: Option<f64>,
    /// Seconds in which it is to be there, and what happens then (`120;R`); absent if its sender
    /// didn't say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The field `Received` that it goes on with.
    pub trace: String,
}

impl MailQueue {
    /// What a node with this snapshot has.
    pub fn new(snapshot: &Snapshot, view: MailView) -> Self {
        let entries = view.messages;
        let more = entries.len().saturating_sub(ROWS_MAX);
        let rows = entries.into_iter().take(ROWS_MAX).map(|entry| MailRow {
            id: entry.id,
            precedence: entry.precedence.into(),
            octets: entry.octets,
            age_s: entry.age.as_secs_f64(),
            sender: entry.sender,
            recipients: entry.recipients,
            hop: entry.hop,
            route: entry.route,
            state: entry.state.name().into(),
            tries: entry.tries,
            said: entry.said,
            ahead_octets: entry.ahead_octets,
            estimate_s: entry.estimate.map(|it| it.as_secs_f64()),
            by: entry.by,
            trace: entry.trace,
        });
        let hops = view.hops.into_iter().map(|hop| MailHopRow {
            hop: hop.hop.to_string(),
            route: hop.route,
            domains: hop.domains,
            state: match (hop.used, hop.out) {
                (_, true) => "out",
                (true, false) => "used",
                (false, false) => "ready",
            }
            .into(),
            instead: hop.instead.map(|it| it.to_string()),
            waiting: hop.waiting,
        });
        let lanes = view.lanes.into_iter().map(|lane| MailLaneRow {
            hop: lane.hop.to_string(),
            precedence: lane.precedence.into(),
            by: if lane.of_session { "proxy" } else { "tcp" }.into(),
            ready: lane.ready,
        });
        Self {
            node: snapshot.node.clone(),
            uptime_s: snapshot.uptime_s,
            mail: snapshot.mail.clone(),
            messages: rows.collect(),
            more: more as u64 + view.unread,
            hops: hops.collect(),
            lanes: lanes.collect(),
        }
    }
}
