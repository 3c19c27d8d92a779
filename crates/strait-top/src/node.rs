//! What was heard of a gateway, and a recording that is played.

use std::collections::VecDeque;
use std::time::Duration;

use strait_status::number::time;
use strait_status::why::{Cause, Watch, Why};
use strait_status::{Recent, Snapshot, Span};

/// Sentences that are kept.
const PAST_MAX: usize = 50;

/// A gateway as it is now.
#[derive(Debug, Default)]
pub(crate) struct Node {
    name: String,
    recent: Recent,
    watch: Watch,
    /// What was said before, the latest first, each with the time since the node's start.
    past: VecDeque<String>,
    worst: Option<Cause>,
    /// Why it is silent.
    pub(crate) gone: Option<String>,
}

impl Node {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.recent.now().map_or(&self.name, |it| &it.node)
    }

    /// Takes what it says.
    pub(crate) fn hear(&mut self, snapshot: Snapshot) {
        self.gone = None;
        let bare = Snapshot {
            flows: Vec::new(),
            ..snapshot.clone()
        };
        let why = self.watch.hear(&bare);
        let worst = why.findings.first().map(|it| it.cause);
        if worst != self.worst || self.past.is_empty() {
            self.worst = worst;
            self.past.truncate(PAST_MAX - 1);
            let at = time(snapshot.uptime_s);
            self.past.push_front(format!("{at}  {}", why.sentence));
        }
        self.recent.hear(snapshot);
    }

    /// What passed in the last ten seconds, or since its start if nothing was heard before.
    pub(crate) fn span(&self) -> Option<Span<'_>> {
        self.recent.span()
    }

    /// What was said over time: a line each time that something else was the worst.
    pub(crate) fn past(&self) -> String {
        let lines = self.past.iter().flat_map(|it| [it.as_str(), "\n"]);
        lines.collect()
    }

    pub(crate) const fn why(&self) -> &Why {
        self.watch.why()
    }
}

/// Snapshots of gateways at one moment of a recording.
pub type Moment = (f64, Vec<Snapshot>);

/// A recording that is played.
#[derive(Debug)]
pub(crate) struct Tape {
    moments: Vec<Moment>,
    /// Moments that were heard.
    heard: usize,
    /// Seconds of it that are to have been heard.
    at_s: f64,
    /// Its seconds in one of ours.
    pub(crate) speed: f64,
}

/// What is heard before a moment that is jumped to: as much as a diagnosis is about.
const BEFORE_S: f64 = strait_status::why::SPAN_S;

impl Tape {
    pub(crate) fn new(moments: Vec<Moment>, speed: f64) -> Self {
        let at_s = moments.first().map_or(0.0, |it| it.0);
        Self {
            moments,
            heard: 0,
            at_s,
            speed,
        }
    }

    fn end_s(&self) -> f64 {
        self.moments.last().map_or(0.0, |it| it.0)
    }

    /// Goes on, as `passed` went by here; whether something was heard.
    pub(crate) fn play(&mut self, passed: Duration, nodes: &mut Vec<Node>) -> bool {
        self.at_s = (self.at_s + passed.as_secs_f64() * self.speed).min(self.end_s());
        self.until_now(nodes)
    }

    /// Goes to a moment.
    pub(crate) fn seek(&mut self, at_s: f64, nodes: &mut Vec<Node>) {
        let first_s = self.moments.first().map_or(0.0, |it| it.0);
        self.at_s = at_s.clamp(first_s, self.end_s());
        let from_s = self.at_s - BEFORE_S;
        self.heard = self.moments.partition_point(|it| it.0 < from_s);
        for node in nodes.iter_mut() {
            *node = Node::new(node.name().to_owned());
        }
        self.until_now(nodes);
    }

    /// Goes on by so many of its seconds, or back.
    pub(crate) fn skip(&mut self, by_s: f64, nodes: &mut Vec<Node>) {
        self.seek(self.at_s + by_s, nodes);
    }

    fn until_now(&mut self, nodes: &mut Vec<Node>) -> bool {
        let before = self.heard;
        while let Some((at_s, snapshots)) = self.moments.get(self.heard)
            && *at_s <= self.at_s
        {
            for snapshot in snapshots {
                let place = nodes.iter().position(|it| it.name() == snapshot.node);
                let place = place.unwrap_or_else(|| {
                    nodes.push(Node::new(snapshot.node.clone()));
                    nodes.len() - 1
                });
                nodes[place].hear(snapshot.clone());
            }
            self.heard += 1;
        }
        self.heard > before
    }

    /// Where it is, in words.
    pub(crate) fn place(&self) -> String {
        let (at_s, end_s) = (self.at_s, self.end_s());
        format!("{at_s:.0} of {end_s:.0} s, speed {}", self.speed)
    }
}
