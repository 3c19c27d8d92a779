//! A brief as octets.
//!
//! ```text
//!   octet  0        1      2      3       4      5     6    7      8
//!       +---------+------+------+-------+------+-----+----+------+---------
//!       | version | life | time | cause | rate | out | in | lost | calls …
//!       +---------+------+------+-------+------+-----+----+------+---------
//! ```
//!
//! Behind the number of calls, if there are any, what they wait and lose. Then the number of
//! classes told of, five octets for each: place, octets waiting, rate, wait, loss; and of flows,
//! five for each: a tag of two octets, rate, wait, loss. Numbers take an octet, with three bits of
//! mantissa ([`small`]); times are in µs, shares in millionths.
//!
//! Where there is no room for classes and flows beside names that are due, 255 in place of their
//! number says that they are as before.
//!
//! To the end, names: an octet that says what is named, one with the length, and that many. A
//! reader skips those that it doesn't know. A name is told when it is new, and again each minute:
//! nobody acknowledges anything.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::stats::{Brief, BriefClass, BriefEnds, BriefFlow};
use strait_core::{Duration, Instant};

use super::{CLASSES_MAX, FLOWS_MAX};
use crate::why::Cause;

/// The most octets of a report.
pub const OCTETS_MAX: usize = 200;

const VERSION: u8 = 1;
/// Of calls that are told of.
const CALLS_MAX: u64 = 255;
/// The cause is none that the reader knows.
const OTHER_CAUSE: &str = "other";
/// After so long a name is told again.
const AGAIN: Duration = Duration::from_secs(60);
/// Octets of a name that are told, the first.
const NAME_MAX: usize = 16;
const CONCERNS_MAX: usize = 24;
/// Flows whose names a reader remembers.
const KNOWN_MAX: usize = 16;

/// Classes, or flows, are as before.
const SAME: u8 = 255;

/// What is named.
const NODE: u8 = 1;
const CONCERNS: u8 = 2;
const CLASS: u8 = 3;
const FLOW: u8 = 4;

/// A number in an octet: exact below 16, else low by at most a ninth.
pub(super) fn small(number: u64) -> u8 {
    if number < 8 {
        return number as u8;
    }
    let shift = number.ilog2() - 3;
    let code = (shift + 1) << 3 | (number >> shift) as u32 & 7;
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The middle of the numbers that an octet stands for, in two digits: more aren't known.
pub(super) const fn large(code: u8) -> u64 {
    if code < 8 {
        return code as u64;
    }
    let shift = (code >> 3) - 1;
    let middle = ((8 | code as u64 & 7) << shift) + (1 << shift >> 1);
    let mut unit = 1;
    while middle / unit >= 100 {
        unit *= 10;
    }
    (middle + unit / 2) / unit * unit
}

fn time(s: f64) -> u8 {
    small((s * 1e6) as u64)
}

fn time_s(code: u8) -> f64 {
    large(code) as f64 / 1e6
}

fn part(share: f64) -> u8 {
    small((share * 1e6) as u64)
}

fn share(code: u8) -> f64 {
    (large(code) as f64 / 1e6).min(1.0)
}

/// What is named, and which of these.
type Place = (u8, u16);
type Names = BTreeMap<Place, Vec<u8>>;

/// Tells a far end how a node is: figures in each report, names when they are new.
#[derive(Debug)]
pub struct Teller {
    /// Another number after each start: what places stand for may be another.
    life: u8,
    /// What was told when, by what it names.
    told: BTreeMap<Place, (Vec<u8>, Instant)>,
    /// There were no flows in the last report.
    was_short: bool,
}

impl Teller {
    /// After a start with this number.
    pub const fn new(life: u8) -> Self {
        Self {
            life,
            told: BTreeMap::new(),
            was_short: false,
        }
    }

    /// Octets of a report that leaves nothing out.
    pub fn whole(&self, now: Instant, brief: &Brief) -> usize {
        let names = names(brief);
        let due = self.due(now, &names);
        let names = due.iter().map(|it| 2 + names[it].len());
        let octets = self.head(brief).len() + classes(brief).len() + flows(brief).len();
        (octets + names.sum::<usize>()).min(OCTETS_MAX)
    }

    /// A report of `room` octets at most, but for the figures, which have 60 or so.
    pub fn write(&mut self, now: Instant, brief: &Brief, room: usize) -> Vec<u8> {
        // Every other time with names in place of figures, or they would never have room.
        self.was_short = !self.was_short && self.whole(now, brief) > room;
        let mut out = self.head(brief);
        if self.was_short {
            out.extend([SAME; 2]);
        } else {
            out.extend(classes(brief));
            out.extend(flows(brief));
        }
        let mut names = names(brief);
        self.told.retain(|what, _| names.contains_key(what));
        for what in self.due(now, &names) {
            let name = names.remove(&what).unwrap_or_default();
            if out.len() + 2 + name.len() > room.min(OCTETS_MAX) {
                continue;
            }
            out.extend([what.0, name.len() as u8]);
            out.extend(&name);
            self.told.insert(what, (name, now));
        }
        out
    }

    /// Names that are new, or weren't told for a while: those that were never told first.
    fn due(&self, now: Instant, names: &Names) -> Vec<Place> {
        let last_told = |what: &Place| {
            let told = self.told.get(what);
            told.filter(|told| told.0 == names[what]).map(|told| told.1)
        };
        let mut due: Vec<Place> = names.keys().copied().collect();
        due.retain(|what| last_told(what).is_none_or(|at| now.since(at) >= AGAIN));
        due.sort_by_key(last_told);
        due
    }

    fn head(&self, brief: &Brief) -> Vec<u8> {
        let mut out = Vec::from([
            VERSION,
            self.life,
            brief.at,
            cause_number(&brief.cause),
            small(brief.rate_bit_s),
            small(brief.out_bit_s),
            small(brief.in_bit_s),
            part(brief.lost_in),
            brief.calls.min(CALLS_MAX) as u8,
        ]);
        if brief.calls > 0 {
            out.extend([time(brief.calls_wait_s), part(brief.calls_lost)]);
        }
        out
    }
}

fn classes(brief: &Brief) -> Vec<u8> {
    let classes = (0..).zip(brief.classes.iter().take(CLASSES_MAX));
    let classes: Vec<(u8, &BriefClass)> = classes.filter(|(_, it)| lives(it)).collect();
    let mut out = Vec::from([classes.len() as u8]);
    for (place, class) in classes {
        let (queued, rate) = (small(class.queued_octets), small(class.out_bit_s));
        out.extend([place, queued, rate, time(class.wait_s), part(class.lost)]);
    }
    out
}

fn flows(brief: &Brief) -> Vec<u8> {
    let flows = brief.flows.iter().take(FLOWS_MAX);
    let mut out = Vec::from([flows.len() as u8]);
    for flow in flows {
        out.extend(tag(flow).to_be_bytes());
        let rate = small(flow.in_bit_s);
        out.extend([rate, time(flow.wait_s), part(flow.lost)]);
    }
    out
}

/// Whether anything passes or waits in a class.
fn lives(class: &BriefClass) -> bool {
    class.queued_octets > 0 || class.out_bit_s > 0 || class.lost > 0.0
}

/// What is named, by what and which it is.
fn names(brief: &Brief) -> Names {
    let mut all = BTreeMap::from([((NODE, 0), cut(&brief.name, NAME_MAX).into())]);
    if !brief.cause.is_empty() {
        let mut concerns = Vec::from([cause_number(&brief.cause)]);
        concerns.extend(cut(&brief.concerns, CONCERNS_MAX));
        all.insert((CONCERNS, 0), concerns);
    }
    let classes = (0..).zip(brief.classes.iter().take(CLASSES_MAX));
    for (place, class) in classes.filter(|(_, it)| lives(it)) {
        let mut name = Vec::from([place]);
        name.extend(cut(&class.name, NAME_MAX));
        all.insert((CLASS, u16::from(place)), name);
    }
    for flow in brief.flows.iter().take(FLOWS_MAX) {
        let Some(ends) = flow.ends else { continue };
        let mut name = Vec::from(tag(flow).to_be_bytes());
        name.extend(key(&ends));
        all.insert((FLOW, tag(flow)), name);
    }
    all
}

fn cut(text: &str, octets_max: usize) -> &[u8] {
    let end = (0..=octets_max.min(text.len())).rev();
    let end = end.into_iter().find(|at| text.is_char_boundary(*at));
    &text.as_bytes()[..end.unwrap_or(0)]
}

fn key(ends: &BriefEnds) -> Vec<u8> {
    let mut key = Vec::from([ends.protocol]);
    key.extend(ends.ports.0.to_be_bytes());
    key.extend(ends.ports.1.to_be_bytes());
    for address in [ends.src, ends.dst] {
        match address {
            IpAddr::V4(address) => key.extend(address.octets()),
            IpAddr::V6(address) => key.extend(address.octets()),
        }
    }
    key
}

/// Tells a flow from the few others in reports.
fn tag(flow: &BriefFlow) -> u16 {
    let key = flow.ends.as_ref().map_or_else(Vec::new, key);
    let hash = key.iter().fold(0x811c_9dc5_u32, |hash, octet| {
        (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193)
    });
    (hash ^ hash >> 16) as u16
}

/// Zero if all is well.
fn cause_number(name: &str) -> u8 {
    let place = Cause::ALL.iter().position(|it| it.name() == name);
    place.map_or(0, |place| place as u8 + 1)
}

fn cause_name(number: u8) -> &'static str {
    match usize::from(number).checked_sub(1) {
        None => "",
        Some(place) => Cause::ALL.get(place).map_or(OTHER_CAUSE, |it| it.name()),
    }
}

/// Reads what a far end tells of itself.
#[derive(Debug, Default)]
pub struct Hearer {
    life: Option<u8>,
    node: String,
    /// With the number of the cause that it goes with.
    concerns: (u8, String),
    classes: BTreeMap<u8, String>,
    /// The latest last.
    flows: Vec<(u16, BriefEnds)>,
    /// Figures of classes that were told of last, and of flows.
    last_classes: Vec<[u8; 5]>,
    last_flows: Vec<[u8; 5]>,
}

/// The octets of a report that aren't read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn name(&mut self) -> Option<(u8, &'a [u8])> {
        let [kind, length] = self.take()?;
        let (name, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        Some((kind, name))
    }
}

impl Hearer {
    /// The far end's life, once it was heard.
    pub const fn life(&self) -> Option<u8> {
        self.life
    }

    /// How the node at the far end is by a report. `None` if it is none that can be read.
    pub fn read(&mut self, report: &[u8]) -> Option<Brief> {
        let mut reader = Reader(report);
        let [version, life, at, cause, rate, out, arrived, lost, calls] = reader.take()?;
        if version != VERSION || report.len() > OCTETS_MAX {
            return None;
        }
        if self.life.replace(life) != Some(life) {
            *self = Self {
                life: Some(life),
                ..Self::default()
            };
        }
        let [calls_wait, calls_lost] = match calls {
            0 => [0; 2],
            _ => reader.take()?,
        };
        for last in [&mut self.last_classes, &mut self.last_flows] {
            let [number] = reader.take()?;
            if number != SAME {
                let each = (0..number).map(|_| reader.take());
                *last = each.collect::<Option<_>>()?;
            }
        }
        while let Some((kind, name)) = reader.name() {
            self.learn(kind, name);
        }
        let concerns = Some(&self.concerns).filter(|it| it.0 == cause && cause > 0);
        Some(Brief {
            name: self.node.clone(),
            at,
            rate_bit_s: large(rate),
            out_bit_s: large(out),
            in_bit_s: large(arrived),
            lost_in: share(lost),
            cause: cause_name(cause).into(),
            concerns: concerns.map_or_else(String::new, |it| it.1.clone()),
            calls: calls.into(),
            calls_wait_s: time_s(calls_wait),
            calls_lost: share(calls_lost),
            classes: self.last_classes.iter().map(|it| self.class(*it)).collect(),
            flows: self.last_flows.iter().map(|it| self.flow(*it)).collect(),
        })
    }

    fn class(&self, [place, queued, rate, wait, lost]: [u8; 5]) -> BriefClass {
        BriefClass {
            name: self.classes.get(&place).cloned().unwrap_or_default(),
            queued_octets: large(queued),
            out_bit_s: large(rate),
            wait_s: time_s(wait),
            lost: share(lost),
        }
    }

    fn flow(&self, [high, low, rate, wait, lost]: [u8; 5]) -> BriefFlow {
        let tag = u16::from_be_bytes([high, low]);
        let known = self.flows.iter().find(|it| it.0 == tag);
        BriefFlow {
            ends: known.map(|it| it.1),
            in_bit_s: large(rate),
            wait_s: time_s(wait),
            lost: share(lost),
        }
    }

    fn learn(&mut self, kind: u8, name: &[u8]) {
        match (kind, name) {
            (NODE, name) => self.node = text(name, NAME_MAX),
            (CONCERNS, [cause, name @ ..]) => self.concerns = (*cause, text(name, CONCERNS_MAX)),
            (CLASS, [place, name @ ..]) if usize::from(*place) < CLASSES_MAX => {
                self.classes.insert(*place, text(name, NAME_MAX));
            }
            (FLOW, [high, low, key @ ..]) => {
                let tag = u16::from_be_bytes([*high, *low]);
                if let Some(ends) = ends_of(key) {
                    self.flows.retain(|it| it.0 != tag);
                    let excess = (self.flows.len() + 1).saturating_sub(KNOWN_MAX);
                    self.flows.drain(..excess);
                    self.flows.push((tag, ends));
                }
            }
            _ => {}
        }
    }
}

/// What an operator's terminal may show of a name.
fn text(name: &[u8], octets_max: usize) -> String {
    let name = &name[..name.len().min(octets_max)];
    let name = String::from_utf8_lossy(name);
    name.chars().filter(|it| !it.is_control()).collect()
}

fn ends_of(key: &[u8]) -> Option<BriefEnds> {
    let (&[protocol, a, b, c, d], addresses) = key.split_first_chunk()?;
    let address = |octets: &[u8]| -> Option<IpAddr> {
        let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
        let v6 = <[u8; 16]>::try_from(octets).map(IpAddr::from);
        v4.or(v6).ok()
    };
    let (src, dst) = addresses.split_at(addresses.len() / 2);
    Some(BriefEnds {
        protocol,
        ports: (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        src: address(src)?,
        dst: address(dst)?,
    })
}
