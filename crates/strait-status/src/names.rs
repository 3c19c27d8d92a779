//! What a node knows of names. They are for its operator's eyes: they are in no log.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::names::NameEntry;

use crate::{Dns, Snapshot};

/// Rows that are told: as many as anybody reads.
const ROWS_MAX: usize = 10_000;

/// What a node's DNS proxy knows and asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// The node's name.
    pub node: String,
    /// Since its start.
    pub uptime_s: f64,
    /// What it has counted; absent where there is no DNS proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
    /// Questions first, then by name.
    pub names: Vec<NameRow>,
    /// Those that aren't told.
    pub more: u64,
}

/// A name and a type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameRow {
    /// The name.
    pub name: String,
    /// The type, or several that are asked for together.
    #[serde(rename = "type")]
    pub kind: String,
    /// `asked`, `fresh`, `kept fresh` or `stale`.
    pub state: String,
    /// What is known; nothing of a question.
    pub said: String,
    /// How long it lives yet; how long a question is on its way.
    pub time_s: f64,
    /// Clients that wait for its answer.
    pub waiting: u64,
    /// How often it crossed.
    pub tries: u32,
}

impl Names {
    /// What a node with this snapshot knows.
    pub fn new(snapshot: &Snapshot, entries: Vec<NameEntry>) -> Self {
        let more = entries.len().saturating_sub(ROWS_MAX);
        let rows = entries.into_iter().take(ROWS_MAX).map(|entry| NameRow {
            name: entry.name,
            kind: entry.kind,
            state: entry.state.name().into(),
            said: entry.said,
            time_s: entry.time.as_secs_f64(),
            waiting: entry.waiting as u64,
            tries: entry.tries,
        });
        Self {
            node: snapshot.node.clone(),
            uptime_s: snapshot.uptime_s,
            dns: snapshot.dns.clone(),
            names: rows.collect(),
            more: more as u64,
        }
    }
}
