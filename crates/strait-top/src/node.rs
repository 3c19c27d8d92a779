//! What was heard of a gateway, and a recording that is played.

use std::collections::VecDeque;
use std::time::Duration;

use strait_status::why::{Watch, Why};
use strait_status::{Snapshot, Span};

/// What «now» means in rates.
const WINDOW_S: f64 = 10.0;

/// A gateway as it is now.
#[derive(Debug, Default)]
pub(crate) struct Node {
    name: String,
    /// Of the last ten seconds, without flows: what rates are made of.
    recent: VecDeque<Snapshot>,
    /// The oldest of these, and the present one.
    window: Vec<Snapshot>,
    watch: Watch,
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
        self.window.last().map_or(&self.name, |it| &it.node)
    }

    /// Takes what it says.
    pub(crate) fn hear(&mut self, snapshot: Snapshot) {
        self.gone = None;
        let bare = Snapshot {
            flows: Vec::new(),
            ..snapshot.clone()
        };
        self.watch.hear(&bare);
        let began_anew = self.recent.back().map(|it| it.uptime_s) >= Some(snapshot.uptime_s);
        if began_anew {
            self.recent.clear();
        }
        let age_s = |it: &Snapshot| snapshot.uptime_s - it.uptime_s;
        while self.recent.get(1).is_some_and(|it| age_s(it) >= WINDOW_S) {
            self.recent.pop_front();
        }
        self.window = self.recent.front().cloned().into_iter().collect();
        self.recent.push_back(bare);
        self.window.push(snapshot);
    }

    /// What passed in the last ten seconds, or since its start if nothing was heard before.
    pub(crate) fn span(&self) -> Option<Span<'_>> {
        Span::new(&self.window)
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
