//! What nodes said over time, as the page reads it: lines of JSON, most of them with what changed.
//!
//! The first line is `{clock}`, with `places` if it is known where nodes are: by name, lists of a
//! time and two numbers of metres, between which they go straight. Each other one is of the node
//! `n` at the time `t`, with `full`, a snapshot, or `patch`, the changes since the line before of
//! that node; `says` is why it is slow, with words that find the packets which show it in `about`;
//! `gone` is why the node is silent.
//!
//! A snapshot has more here than a gateway says: `step` and `window`, figures of what passed since
//! the snapshot before and in the last ten seconds, `choices`, and in a call's flow `call`, how it
//! may sound. In place of its talkers stand `talks`, the flows that count most, by name, and
//! `ended`, the packets behind the numbers, by theirs.
//!
//! In a patch a scalar, or a list of one, replaces what was there; an empty list removes it; an
//! object has changes inside an object or, by index, inside a list.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};
use strait_status::quality::{Judged, Quality};
use strait_status::why::{Watch, Why};
use strait_status::{FlowRow, Recent, Snapshot, Span, behind, choices, figures, talks};

/// What times of a recording count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Seconds since 1970.
    Unix,
    /// Seconds since the run began.
    Run,
}

/// Snapshots of each node that are kept: an hour of one a second.
const LINES_MAX: usize = 3600;
/// Octets of all lines: what a browser opens without a wait.
const OCTETS_MAX: usize = 32 << 20;
/// Lines from one whole snapshot to the next.
const GROUP: usize = 60;
/// Flows in a snapshot that is kept; those that count most come first.
const FLOWS_MAX: usize = 64;
/// Calls that are judged.
const CALLS_MAX: usize = 500;

/// The last hour of some nodes.
#[derive(Debug)]
pub struct Recording {
    clock: Clock,
    places: BTreeMap<String, Vec<[f64; 3]>>,
    nodes: Vec<Track>,
    octets: usize,
}

#[derive(Debug, Default)]
struct Track {
    groups: VecDeque<Vec<(f64, String)>>,
    lines: usize,
    last: Value,
    recent: Recent,
    watch: Watch,
}

/// Why a node is slow, or that it isn't.
#[derive(Debug)]
pub(crate) struct Says {
    text: String,
    /// Words that find the packets which show it.
    about: Option<String>,
}

impl From<&Why> for Says {
    fn from(why: &Why) -> Self {
        Self {
            text: why.line(),
            about: why.about().map(str::to_owned),
        }
    }
}

impl Track {
    fn says(&mut self, snapshot: &Snapshot) -> Says {
        // Flows that ports know are many, and nobody is judged by them.
        let bare = Snapshot {
            flows: Vec::new(),
            ..snapshot.clone()
        };
        self.watch.hear(&bare).into()
    }
}

impl Recording {
    /// One without a line.
    pub const fn new(clock: Clock) -> Self {
        Self {
            clock,
            places: BTreeMap::new(),
            nodes: Vec::new(),
            octets: 0,
        }
    }

    /// A node goes this way: times, and places in metres.
    pub fn place(&mut self, node: String, way: Vec<[f64; 3]>) {
        self.places.insert(node, way);
    }

    /// What the node number `n` said at `at_s`, with what follows from it and from what it said
    /// before; all of that is given back, as a line. The oldest lines make way.
    pub fn add(&mut self, n: usize, at_s: f64, snapshot: &Snapshot) -> String {
        let says = self.track(n).says(snapshot);
        self.add_saying(n, at_s, snapshot, &says)
    }

    /// The same where it is known why the node is slow: of snapshots too far apart to tell.
    pub fn add_judged(&mut self, n: usize, at_s: f64, snapshot: &Snapshot, why: &Why) -> String {
        self.add_saying(n, at_s, snapshot, &why.into())
    }

    fn track(&mut self, n: usize) -> &mut Track {
        if self.nodes.len() <= n {
            self.nodes.resize_with(n + 1, Track::default);
        }
        &mut self.nodes[n]
    }

    fn add_saying(&mut self, n: usize, at_s: f64, snapshot: &Snapshot, says: &Says) -> String {
        self.track(n);
        let state = self.told(n, snapshot);
        self.add_json(n, at_s, &state, says);
        line(n, at_s, ("full", state), Some(says))
    }

    fn told(&mut self, n: usize, snapshot: &Snapshot) -> Value {
        let recent = &mut self.nodes[n].recent;
        recent.hear(snapshot.clone());
        let mut state = serde_json::to_value(snapshot).unwrap_or_default();
        // Hosts are for those who judge, talkers are told in figures.
        if let Value::Object(state) = &mut state {
            state.retain(|key, _| key != "hosts" && key != "talkers");
        }
        let packets = behind(snapshot).into_iter();
        let named = packets.map(|it| (it.packet.packet.clone(), it));
        state["ended"] = json!(named.collect::<BTreeMap<_, _>>());
        if let Some(span) = recent.span() {
            state["talks"] = json!(talks(&span));
            state["window"] = json!(figures(&span));
            state["choices"] = json!(choices(&span));
            calls(&span, &mut state["flows"]);
        }
        if let Some(span) = recent.step() {
            state["step"] = json!(figures(&span));
        }
        state
    }

    fn add_json(&mut self, n: usize, at_s: f64, snapshot: &Value, says: &Says) {
        let track = &mut self.nodes[n];
        let state = kept(snapshot);
        let whole = track.groups.back().is_none_or(|group| group.len() >= GROUP);
        let what = if whole {
            ("full", state.clone())
        } else {
            let changes = patch(&track.last, &state);
            ("patch", changes.unwrap_or_else(|| json!({})))
        };
        let text = line(n, at_s, what, Some(says));
        track.last = state;
        if whole {
            track.groups.push_back(Vec::new());
        }
        self.octets += text.len();
        track.lines += 1;
        if let Some(group) = track.groups.back_mut() {
            group.push((at_s, text));
        }
        self.make_room(n);
    }

    fn make_room(&mut self, n: usize) {
        while self.nodes[n].lines > LINES_MAX {
            self.forget(n);
        }
        while self.octets > OCTETS_MAX {
            let longest = self.nodes.iter().enumerate().max_by_key(|(_, it)| it.lines);
            let Some(longest) = longest.map(|(n, _)| n) else {
                return;
            };
            self.forget(longest);
        }
    }

    fn forget(&mut self, n: usize) {
        let group = self.nodes[n].groups.pop_front().unwrap_or_default();
        self.nodes[n].lines -= group.len();
        self.octets -= group.iter().map(|(_, text)| text.len()).sum::<usize>();
    }

    /// All lines, the oldest first.
    pub fn text(&self) -> String {
        let clock = match self.clock {
            Clock::Unix => "unix",
            Clock::Run => "run",
        };
        let groups = self.nodes.iter().flat_map(|track| &track.groups);
        let mut lines: Vec<&(f64, String)> = groups.flatten().collect();
        // Stable: lines of one node stay in their order.
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut head = json!({ "clock": clock });
        if !self.places.is_empty() {
            head["places"] = json!(self.places);
        }
        let head = head.to_string();
        let texts = lines.into_iter().map(|(_, text)| text.as_str());
        let all: Vec<&str> = [head.as_str()].into_iter().chain(texts).collect();
        all.join("\n") + "\n"
    }
}

/// Adds to each flow that is a call how it may sound.
fn calls(span: &Span<'_>, flows: &mut Value) {
    let rows = flows.as_array_mut().into_iter().flatten();
    let is_call = |it: &FlowRow| it.standing.is_some() || it.nature != "conventional";
    let calls = rows.zip(&span.last.flows).filter(|it| is_call(it.1));
    for (row, flow) in calls.take(CALLS_MAX) {
        let quality = Quality::new((&flow.class, &flow.port), flow.idle_s, span);
        row["call"] = quality.map_or_else(|| json!({}), |it| json!(Judged::from(it)));
    }
}

/// A snapshot without the flows that a recording has no room for; `cut` says how many those are.
fn kept(snapshot: &Value) -> Value {
    let Value::Object(fields) = snapshot else {
        return snapshot.clone();
    };
    let mut state = Map::new();
    for (key, value) in fields {
        let value = match value {
            Value::Array(flows) if key == "flows" && flows.len() > FLOWS_MAX => {
                state.insert("cut".into(), (flows.len() - FLOWS_MAX).into());
                flows[..FLOWS_MAX].into()
            }
            value => value.clone(),
        };
        state.insert(key.clone(), value);
    }
    state.into()
}

/// A line of the node `n`.
pub(crate) fn line(
    n: usize,
    at_s: f64,
    (what, value): (&str, Value),
    says: Option<&Says>,
) -> String {
    let at_s = (at_s * 1000.0).round() / 1000.0;
    let mut line = json!({ "n": n, "t": at_s });
    line[what] = value;
    if let Some(says) = says {
        line["says"] = json!({ "text": says.text, "about": says.about });
    }
    line.to_string()
}

/// What leads from one value to another; nothing where they are the same.
fn patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let whole = || Some(Value::Array(vec![new.clone()]));
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut changes = Map::new();
            for (key, value) in new {
                let change = match old.get(key) {
                    Some(old) => patch(old, value),
                    None => Some(Value::Array(vec![value.clone()])),
                };
                changes.extend(change.map(|change| (key.clone(), change)));
            }
            let gone = old.keys().filter(|key| !new.contains_key(*key));
            changes.extend(gone.map(|key| (key.clone(), Value::Array(Vec::new()))));
            Some(changes.into())
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let pairs = old.iter().zip(new).enumerate();
            let changes =
                pairs.filter_map(|(n, (old, new))| Some((n.to_string(), patch(old, new)?)));
            Some(changes.collect::<Map<_, _>>().into())
        }
        (_, Value::Object(_) | Value::Array(_)) => whole(),
        (_, scalar) => Some(scalar.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_status::Class;

    /// As the page does it.
    fn patched(old: &Value, patch: &Value) -> Value {
        match patch {
            Value::Array(whole) => whole[0].clone(),
            Value::Object(changes) => {
                let mut next = old.clone();
                for (key, change) in changes {
                    if let Value::Object(next) = &mut next
                        && change == &json!([])
                    {
                        next.remove(key);
                        continue;
                    }
                    let place = match &mut next {
                        Value::Array(list) => &mut list[key.parse::<usize>().unwrap()],
                        next => &mut next[key],
                    };
                    *place = patched(place, change);
                }
                next
            }
            scalar => scalar.clone(),
        }
    }

    #[test]
    fn a_patch_leads_from_each_value_to_each_other() {
        let values = [
            json!(null),
            json!(1),
            json!([]),
            json!({}),
            json!({"a": 1, "b": null}),
            json!({"a": {"c": [1, 2, {"d": null}]}}),
            json!({"a": {"c": [1, 3, {"d": [4]}]}}),
            json!({"a": {"c": [1, 3]}, "b": "x"}),
            json!({"b": []}),
            json!({"b": [[]]}),
        ];
        for old in &values {
            for new in &values {
                match patch(old, new) {
                    Some(patch) => assert_eq!(&patched(old, &patch), new, "{old} to {new}"),
                    None => assert_eq!(old, new),
                }
            }
        }
    }

    fn snapshot(at: u32) -> Snapshot {
        Snapshot {
            node: "a".into(),
            uptime_s: at.into(),
            classes: vec![Class {
                name: "voice".into(),
                packets: at.into(),
                ..Class::default()
            }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_recording_reads_back_and_says_only_what_changed() {
        let mut recording = Recording::new(Clock::Run);
        recording.place("a".into(), vec![[0.0, 10.0, 20.0]]);
        for at in 0..130 {
            recording.add(0, at.into(), &snapshot(at));
        }
        recording.add(1, 3.5, &snapshot(0));
        let text = recording.text();
        let mut lines = text.lines().map(|it| serde_json::from_str(it).unwrap());
        let head = json!({"clock": "run", "places": {"a": [[0.0, 10.0, 20.0]]}});
        assert_eq!(lines.next(), Some(head));
        let lines: Vec<Value> = lines.collect();
        let said = lines[4]["says"]["text"].as_str().unwrap();
        assert!(said.starts_with("All is well: no link"), "{said}");
        let mut state = Value::Null;
        let mut whole = 0;
        for (line, at) in lines.iter().filter(|line| line["n"] == 0).zip(0..) {
            whole += usize::from(line.get("full").is_some());
            state = match line.get("full") {
                Some(full) => full.clone(),
                None => patched(&state, &line["patch"]),
            };
            let read: Snapshot = serde_json::from_value(state.clone()).unwrap();
            assert_eq!(read, snapshot(at));
            // What passed since the line before stands beside it.
            let a_second = (at > 0).then_some(1.0);
            assert_eq!(state["step"]["class voice packets"].as_f64(), a_second);
        }
        assert_eq!(whole, 3);
        assert!(lines[3].to_string().len() < 300, "{}", lines[3]);
    }

    #[test]
    fn a_call_has_its_rating_and_what_was_chosen_its_row() {
        let flow = json!({"port": "line", "source": "10.0.0.1", "destination": "10.0.0.2",
            "protocol": 17, "nature": "voice", "standing": "admitted", "class": "voice", "dscp": 46,
            "ipsec": false, "packets": 1, "octets": 2, "idle_s": 0.0});
        let mut recording = Recording::new(Clock::Run);
        let mut state = json!(null);
        for at in [1, 2] {
            let mut said = snapshot(at);
            said.flows = vec![serde_json::from_value(flow.clone()).unwrap()];
            let line: Value = serde_json::from_str(&recording.add(0, at.into(), &said)).unwrap();
            state = line["full"].clone();
        }
        // Nothing waited and nothing was lost: G.729A alone, and 60 ms around it.
        let r = state["flows"][0]["call"]["r"].as_f64().unwrap();
        assert!((r - (93.2 - 11.0 - 0.024 * 60.0)).abs() < 0.01, "{r}");
        assert_eq!(state["choices"][0]["chose"], "admitted: call of 10.0.0.1");
    }

    #[test]
    fn an_hour_is_kept() {
        let mut recording = Recording::new(Clock::Unix);
        for at in 0..4000 {
            recording.add(0, at.into(), &snapshot(at));
        }
        let text = recording.text();
        let lines = text.lines().count() - 1;
        assert!((LINES_MAX - GROUP..=LINES_MAX).contains(&lines), "{lines}");
        let first: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert!(first.get("full").is_some(), "{first}");
        assert!(recording.octets < 1_000_000, "{}", recording.octets);
    }

    #[test]
    fn flows_of_a_recording_are_bounded() {
        let flow = json!({"port": "line", "source": "10.0.0.1", "destination": "10.0.0.2",
            "protocol": 6, "nature": "conventional", "class": "bulk", "dscp": 0, "ipsec": false,
            "packets": 1, "octets": 2, "idle_s": 0.0});
        let many = Snapshot {
            flows: vec![serde_json::from_value(flow).unwrap(); 100],
            ..Snapshot::default()
        };
        let state = kept(&serde_json::to_value(&many).unwrap());
        assert_eq!(
            (state["flows"].as_array().unwrap().len(), &state["cut"]),
            (64, &json!(36))
        );
    }
}
