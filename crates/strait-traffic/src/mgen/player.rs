//! A script, played.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strait_core::chance::Stream;
use strait_core::{Duration, Instant};

use super::capture::Cloned;
use super::pattern::{Gaps, Next, Rate};
use super::script::{Event, FlowOptions, Group, PortRange, Protocol, Script, What};

/// What its driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Flow number begins: [`Player::flow`] says how it is to be sent.
    On(u32),
    /// Options of a flow have changed.
    Changed(u32),
    /// A message of a flow is due.
    Send {
        /// Which flow.
        flow: u32,
        /// Its number in the flow.
        sequence: u32,
        /// Its octets.
        octets: u64,
        /// When it was due.
        due: Instant,
    },
    /// A flow has ended.
    Off(u32),
    /// Ports are to be listened to.
    Listen(Protocol, Vec<PortRange>),
    /// Ports are to be listened to no more.
    Ignore(Protocol, Vec<PortRange>),
    /// A group is to be joined.
    Join(Group),
    /// A group is to be left.
    Leave(Group),
}

/// A flow that is on.
#[derive(Clone, Debug)]
pub struct Flow {
    /// How it is sent now.
    pub options: FlowOptions,
    gaps: Gaps,
    /// The next message: when, and its octets.
    due: Option<(Instant, u64)>,
    /// Parts of a nanosecond that times have been rounded by.
    carry_ns: f64,
    /// Messages left to send; `None` without limit.
    left: Option<u64>,
}

impl Flow {
    /// Octets of its messages if it sends as fast as its transport takes them.
    pub fn unlimited(&self) -> Option<u64> {
        let pattern = self.options.pattern.as_ref()?;
        let unlimited = pattern.rate() == Some(Rate::Unlimited) && self.left != Some(0);
        pattern.octets().filter(|_| unlimited)
    }
}

/// A script that is played. Everything it does is a function of the script, the seed and the
/// name: the same in virtual time and live.
///
/// A flow's first message is due when the flow begins. A change of its pattern holds from the
/// message on that is due next. Numbers go on where they were when a flow begins once more, unless
/// the script gives one.
#[derive(Debug)]
pub struct Player {
    events: Vec<Event>,
    next: usize,
    defaults: FlowOptions,
    captures: BTreeMap<String, Arc<[Cloned]>>,
    /// When the script's time 0 is.
    zero: Instant,
    flows: BTreeMap<u32, Flow>,
    /// When which flow's next message is due.
    due: BTreeSet<(Instant, u32)>,
    /// By flow: its random stream and the number of its next message, also while it is off.
    lasting: BTreeMap<u32, (Stream, u32)>,
    seed: u64,
    name: String,
    /// A flow that has sent its last message.
    over: Vec<u32>,
}

impl Player {
    /// A script whose time 0 is `zero`. Random gaps are a function of `seed`, `name` and the
    /// flow's number.
    pub fn new(
        script: &Script,
        captures: BTreeMap<String, Arc<[Cloned]>>,
        zero: Instant,
        seed: u64,
        name: &str,
    ) -> Self {
        let mut player = Self {
            events: script.events.clone(),
            next: 0,
            defaults: script.globals.flows.clone(),
            captures,
            zero,
            flows: BTreeMap::new(),
            due: BTreeSet::new(),
            lasting: BTreeMap::new(),
            seed,
            name: name.into(),
            over: Vec::new(),
        };
        player.skip(script.globals.offset);
        player
    }

    /// Begins at a later time of the script: what happened before is in force, and the messages of
    /// that time are not sent.
    fn skip(&mut self, offset: Duration) {
        if offset.is_zero() {
            return;
        }
        for event in &mut self.events {
            event.at = event.at.saturating_sub(offset);
        }
    }

    /// When there is something to do; `None` when all is over but for flows without limit.
    pub fn wake(&self) -> Option<Instant> {
        if !self.over.is_empty() {
            return Some(Instant::ZERO);
        }
        let event = self.events.get(self.next).map(|event| self.zero + event.at);
        let message = self.due.first().map(|(at, _)| *at);
        event.into_iter().chain(message).min()
    }

    /// Whether no flow is on and nothing else will happen.
    pub fn is_over(&self) -> bool {
        self.flows.is_empty() && self.next >= self.events.len() && self.over.is_empty()
    }

    /// A flow that is on.
    pub fn flow(&self, flow: u32) -> Option<&Flow> {
        self.flows.get(&flow)
    }

    /// The flows that send as fast as their transport takes, and the octets of their messages.
    pub fn unlimited(&self) -> impl Iterator<Item = (u32, u64)> {
        let flows = self.flows.iter();
        flows.filter_map(|(id, flow)| Some((*id, flow.unlimited()?)))
    }

    /// The next thing to do at `now`, in the order of the times at which things are due; of those
    /// at the same time, what the script says before messages.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        loop {
            if let Some(flow) = self.over.pop() {
                self.remove(flow);
                return Some(Action::Off(flow));
            }
            let event = self.events.get(self.next).map(|event| self.zero + event.at);
            let message = self.due.first().copied();
            match (event, message) {
                (Some(at), other) if at <= now && other.is_none_or(|(due, _)| at <= due) => {
                    self.next += 1;
                    if let Some(action) = self.event(self.next - 1, at) {
                        return Some(action);
                    }
                }
                (_, Some((at, flow))) if at <= now => return self.send(flow),
                _ => return None,
            }
        }
    }

    /// One more message of a flow that sends as fast as its transport takes.
    pub fn poll_unlimited(&mut self, now: Instant, flow: u32) -> Option<Action> {
        let octets = self.flows.get(&flow)?.unlimited()?;
        self.number(flow, octets, now)
    }

    /// The last message of a flow couldn't be sent: its number goes to the next one.
    pub fn not_sent(&mut self, flow: u32) {
        if let Some((_, sequence)) = self.lasting.get_mut(&flow) {
            *sequence = sequence.wrapping_sub(1);
        }
    }

    fn event(&mut self, index: usize, at: Instant) -> Option<Action> {
        match self.events.get(index)?.what.clone() {
            What::On(flow, options) => self.begin(flow, &options, at),
            What::Mod(flow, options) => self.change(flow, &options, at),
            What::Off(flow) => self.remove(flow).then_some(Action::Off(flow)),
            What::Listen(protocol, ports) => Some(Action::Listen(protocol, ports)),
            What::Ignore(protocol, ports) => Some(Action::Ignore(protocol, ports)),
            What::Join(group) => Some(Action::Join(group)),
            What::Leave(group) => Some(Action::Leave(group)),
        }
    }

    fn begin(&mut self, id: u32, options: &FlowOptions, at: Instant) -> Option<Action> {
        if self.flows.contains_key(&id) {
            return None;
        }
        let mut all = self.defaults.clone();
        all.merge(options);
        let (seed, name) = (self.seed, &self.name);
        let lasting = self.lasting.entry(id);
        let (_, sequence) =
            lasting.or_insert_with(|| (Stream::new(seed, &format!("{name}.flow{id}")), 0));
        if let Some(first) = all.sequence {
            *sequence = first;
        }
        let flow = Flow {
            gaps: Gaps::new(all.pattern.as_ref()?, &self.captures),
            left: all.count.filter(|count| *count > 0),
            options: all,
            due: None,
            carry_ns: 0.0,
        };
        self.flows.insert(id, flow);
        self.plan(id, at);
        Some(Action::On(id))
    }

    fn change(&mut self, id: u32, options: &FlowOptions, at: Instant) -> Option<Action> {
        let flow = self.flows.get_mut(&id)?;
        flow.options.merge(options);
        if let Some(count) = options.count {
            flow.left = (count > 0).then_some(count);
        }
        if let (Some(first), Some((_, sequence))) = (options.sequence, self.lasting.get_mut(&id)) {
            *sequence = first;
        }
        if let Some(pattern) = &options.pattern {
            flow.gaps = Gaps::new(pattern, &self.captures);
            let next = flow.due.take().map(|(due, _)| due);
            if let Some(due) = next {
                self.due.remove(&(due, id));
            }
            self.plan(id, next.unwrap_or(at));
        }
        Some(Action::Changed(id))
    }

    fn remove(&mut self, id: u32) -> bool {
        let Some(flow) = self.flows.remove(&id) else {
            return false;
        };
        if let Some((at, _)) = flow.due {
            self.due.remove(&(at, id));
        }
        true
    }

    /// Sets the time of a flow's next message, counted from `last`.
    fn plan(&mut self, id: u32, last: Instant) {
        let (Some(flow), Some((chance, _))) = (self.flows.get_mut(&id), self.lasting.get_mut(&id))
        else {
            return;
        };
        let next = flow.gaps.next(chance);
        flow.due = next.map(|Next { gap_ns, octets }| {
            let exact_ns = gap_ns + flow.carry_ns;
            let whole_ns = libm::floor(exact_ns).max(0.0);
            flow.carry_ns = exact_ns - whole_ns;
            (last + Duration::from_nanos(whole_ns as u64), octets)
        });
        if let Some((at, _)) = flow.due {
            self.due.insert((at, id));
        }
    }

    fn send(&mut self, id: u32) -> Option<Action> {
        let (at, octets) = self.flows.get_mut(&id)?.due.take()?;
        self.due.remove(&(at, id));
        self.plan(id, at);
        self.number(id, octets, at)
    }

    fn number(&mut self, id: u32, octets: u64, due: Instant) -> Option<Action> {
        let (_, next) = self.lasting.get_mut(&id)?;
        let sequence = *next;
        *next = next.wrapping_add(1);
        let flow = self.flows.get_mut(&id)?;
        if let Some(left) = &mut flow.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.over.push(id);
            }
        }
        Some(Action::Send {
            flow: id,
            sequence,
            octets,
            due,
        })
    }
}
