//! From the classes as written to the compiled tree.

use alloc::string::String;
use alloc::vec::Vec;

use strait_core::ClassId;
use strait_core::units::Octets;

use crate::config::{ClassConfig, PolicyConfig, RateChange, ShapeConfig};
use crate::error::PolicyError;
use crate::plan::{Discipline, PACKET_OCTETS, Plan, PlanNode, R2Q_DEFAULT, Shape, ShapeKind};
use crate::policy::{CLASSES_MAX, Class, GROUPS_MAX, WEIGHT_MAX};

/// Levels of token buckets, as in Linux: a class below the top has level 7, a leaf has level 0.
pub(crate) const HTB_LEVELS: usize = 8;
/// Classes inside classes; more would be a mistake.
const DEPTH_MAX: usize = 8;
/// Priorities of token buckets, as in Linux.
const PRIO_MAX: u8 = 7;

/// Checks the classes of an expanded policy; those that hold packets in the order of the
/// configuration, and the tree.
pub(crate) fn compile(config: &PolicyConfig) -> Result<(Vec<Class>, Plan), PolicyError> {
    check_names(config)?;
    let mut plan = Plan {
        nodes: Vec::with_capacity(config.classes.len() + 1),
        scale_from: scale_from(config)?,
    };
    plan.nodes.push(PlanNode {
        discipline: config.discipline,
        r2q: r2q("root", config.r2q)?,
        shape: shape("root", config.shape.as_ref())?,
        ..PlanNode::root()
    });
    for class in &config.classes {
        plan.nodes.push(node(config, class)?);
    }
    connect(config, &mut plan)?;
    let classes = number_leaves(config, &mut plan)?;
    inherit(config, &mut plan)?;
    for (index, class) in config.classes.iter().enumerate() {
        check_place(class, &plan, index + 1)?;
    }
    Ok((assign_streams(classes, &plan), plan))
}

fn key(class: &str, key: &'static str, problem: &'static str) -> PolicyError {
    PolicyError::Key {
        class: class.into(),
        key,
        problem,
    }
}

fn check_names(config: &PolicyConfig) -> Result<(), PolicyError> {
    for (index, class) in config.classes.iter().enumerate() {
        let mut earlier = config.classes.iter().take(index);
        let taken = class.name == "root" || earlier.any(|other| other.name == class.name);
        if class.name.is_empty() || taken {
            return Err(PolicyError::ClassName {
                class: class.name.clone(),
            });
        }
    }
    Ok(())
}

fn scale_from(config: &PolicyConfig) -> Result<Option<u64>, PolicyError> {
    match (config.on_rate_change, config.line) {
        (RateChange::Keep, None) => Ok(None),
        (RateChange::Keep, Some(_)) => Err(key(
            "root",
            "line",
            "only matters with `on_rate_change = \"scale\"`: add that, or leave `line` out",
        )),
        (RateChange::Scale, Some(line)) => Ok(Some(line.0)),
        (RateChange::Scale, None) => Err(key(
            "root",
            "on_rate_change",
            "scales from a rate that isn't given: add `line`, the rate the others are written for",
        )),
    }
}

fn r2q(class: &str, given: Option<u32>) -> Result<u32, PolicyError> {
    match given {
        Some(0) => Err(key(class, "r2q", "divides rates: write 1 or more")),
        given => Ok(given.unwrap_or(R2Q_DEFAULT)),
    }
}

fn shape(class: &str, config: Option<&ShapeConfig>) -> Result<Option<Shape>, PolicyError> {
    let Some(config) = config else {
        return Ok(None);
    };
    let unused = |name, problem| Err(key(class, name, problem));
    if config.burst.is_some_and(|burst| burst.0 == 0) {
        return unused(
            "shape.burst",
            "holds nothing: raise it, or use kind \"virtual-clock\"",
        );
    }
    match config.kind {
        ShapeKind::VirtualClock if config.burst.is_some() => unused(
            "shape.burst",
            "is none of a virtual clock: leave it out, or use kind \"token-bucket\"",
        ),
        ShapeKind::VirtualClock | ShapeKind::TokenBucket if config.excess.is_some() => unused(
            "shape.excess",
            "is for kind \"average\" and \"peak\": leave it out",
        ),
        kind => Ok(Some(Shape {
            kind,
            rate: config.rate,
            burst: config.burst.map(octets),
            excess: config.excess.map(octets),
        })),
    }
}

/// Limits requests to values that arithmetic in bits can hold.
fn octets(octets: Octets) -> u64 {
    octets.0.min(1 << 48)
}

/// The node of a class, not yet connected.
fn node(config: &PolicyConfig, class: &ClassConfig) -> Result<PlanNode, PolicyError> {
    let name = class.name.as_str();
    if let Some(weight) = class.weight.filter(|it| !(1..=WEIGHT_MAX).contains(it)) {
        return Err(PolicyError::Weight {
            class: name.into(),
            weight,
        });
    }
    if class.prio.is_some_and(|prio| prio > PRIO_MAX) {
        return Err(key(name, "prio", "is 0 (first) to 7"));
    }
    if class.quantum.is_some_and(|quantum| quantum.0 == 0) {
        return Err(key(name, "quantum", "gives no turn: raise it above zero"));
    }
    let parent = match &class.parent {
        None => Plan::ROOT,
        Some(parent) => {
            let place = config.classes.iter().position(|it| it.name == *parent);
            place.ok_or_else(|| PolicyError::UnknownParent {
                class: name.into(),
                parent: parent.clone(),
                classes: all_names(config),
            })? + 1
        }
    };
    Ok(PlanNode {
        name: name.into(),
        parent: Some(parent),
        band: class.band.unwrap_or(1),
        weight: class.weight,
        rate: class.rate,
        ceil: class.ceil,
        burst: class.burst.map_or(PACKET_OCTETS, octets),
        cburst: class.cburst.map_or(PACKET_OCTETS, octets),
        prio: class.prio.unwrap_or(0),
        quantum: class
            .quantum
            .map(|quantum| u32::try_from(quantum.0).unwrap_or(u32::MAX)),
        r2q: r2q(name, class.r2q)?,
        direct: class.direct,
        shape: shape(name, class.shape.as_ref())?,
        ..PlanNode::root()
    })
}

fn all_names(config: &PolicyConfig) -> String {
    let names: Vec<_> = config.classes.iter().map(|it| it.name.as_str()).collect();
    names.join(", ")
}

/// Gives parents their children, and finds loops.
fn connect(config: &PolicyConfig, plan: &mut Plan) -> Result<(), PolicyError> {
    for index in 1..plan.nodes.len() {
        // A way up that doesn't end is a loop.
        if plan.up(index).nth(DEPTH_MAX + 1).is_some() {
            let class = config.classes.get(index - 1);
            return Err(PolicyError::TooDeep {
                class: class.map_or_else(String::new, |class| class.name.clone()),
            });
        }
        let parent = plan.nodes.get(index).and_then(|node| node.parent);
        if let Some(parent) = parent.and_then(|parent| plan.nodes.get_mut(parent)) {
            parent.children.push(index);
        }
    }
    Ok(())
}

/// Numbers the classes that hold packets and compiles them.
fn number_leaves(config: &PolicyConfig, plan: &mut Plan) -> Result<Vec<Class>, PolicyError> {
    let mut classes = Vec::new();
    for (class, node) in config.classes.iter().zip(plan.nodes.iter_mut().skip(1)) {
        if !node.children.is_empty() {
            continue;
        }
        let number = classes.len();
        classes.push(Class::compile(class)?);
        node.class = u8::try_from(number).ok().map(ClassId);
    }
    let groups = plan.nodes.len() - 1 - classes.len();
    if classes.len() > CLASSES_MAX || groups > GROUPS_MAX {
        return Err(PolicyError::TooManyClasses {
            leaves: classes.len(),
            groups,
        });
    }
    Ok(classes)
}

/// Gives inner classes their discipline: their own, else their token buckets', else wdrr.
fn inherit(config: &PolicyConfig, plan: &mut Plan) -> Result<(), PolicyError> {
    for index in plan.from_the_top().into_iter().skip(1) {
        let own = config.classes.get(index - 1).and_then(|it| it.discipline);
        let parent = plan.nodes.get(index).and_then(|node| node.parent);
        let above = parent.and_then(|parent| plan.nodes.get(parent));
        let above = above.map_or(Discipline::Wdrr, |parent| parent.discipline);
        let Some(node) = plan.nodes.get_mut(index) else {
            continue;
        };
        if node.class.is_some() {
            if own.is_some() {
                let problem = "is for classes with others below: leave it out";
                return Err(key(&node.name, "discipline", problem));
            }
            continue;
        }
        node.within_htb = above.is_htb() && own.is_none();
        let inherited = Some(above).filter(|above| above.is_htb());
        node.discipline = own.or(inherited).unwrap_or_default();
        if node.within_htb && node.shape.is_some() {
            let problem = "isn't possible inside a tree of token buckets: write `ceil`";
            return Err(key(&node.name, "shape", problem));
        }
    }
    check_levels(plan)
}

/// Token buckets have eight levels.
fn check_levels(plan: &Plan) -> Result<(), PolicyError> {
    for (index, node) in plan.nodes.iter().enumerate() {
        let levels = plan.up(index).take_while(|(_, it)| it.within_htb).count();
        if levels > HTB_LEVELS - 1 {
            return Err(PolicyError::TooDeep {
                class: node.name.clone(),
            });
        }
    }
    Ok(())
}

/// Whether the keys of a class mean something where it stands.
fn check_place(class: &ClassConfig, plan: &Plan, index: usize) -> Result<(), PolicyError> {
    let Some(node) = plan.nodes.get(index) else {
        return Ok(());
    };
    let above = node.parent.and_then(|parent| plan.nodes.get(parent));
    let htb = above.is_some_and(|parent| parent.discipline.is_htb());
    let refuse = |keys: &[(&'static str, bool)], problem| {
        let wrong = keys.iter().find(|(_, present)| *present);
        wrong.map_or(Ok(()), |(name, _)| Err(key(&class.name, name, problem)))
    };
    if htb {
        let shares = [
            ("band", class.band.is_some()),
            ("weight", class.weight.is_some()),
        ];
        refuse(
            &shares,
            "is for the children of wdrr and cbwfq: write `prio`, `rate` or `quantum`",
        )?;
        if node.rate.is_none() && !node.direct {
            return Err(key(
                &class.name,
                "rate",
                "is missing: every class of a tree of token buckets has one",
            ));
        }
    } else {
        let buckets = [
            ("ceil", class.ceil.is_some()),
            ("burst", class.burst.is_some()),
            ("cburst", class.cburst.is_some()),
            ("prio", class.prio.is_some()),
            ("quantum", class.quantum.is_some()),
            ("direct", class.direct),
        ];
        refuse(
            &buckets,
            "is for the children of htb: write `shape`, `band` or `weight`",
        )?;
        check_shares(node, plan)?;
    }
    if node.class.is_none() {
        refuse(
            &class.leaf_keys(),
            "is for classes that hold packets, and this one has others below: move it to them",
        )?;
        if node.within_htb {
            let leaf = [
                ("prio", class.prio.is_some()),
                ("quantum", class.quantum.is_some()),
                ("direct", class.direct),
            ];
            refuse(&leaf, "is for leaves of token buckets: move it to them")?;
        }
    }
    if !node.discipline.is_htb() || node.class.is_some() || node.within_htb {
        refuse(
            &[("r2q", class.r2q.is_some())],
            "is for the class with `discipline = \"htb\"`: move it there",
        )?;
    }
    Ok(())
}

/// In one band all shares are numbers, or rates. A class with neither beside rated ones shares the
/// rest, like a class without a reservation in a router's class-based fair queueing.
fn check_shares(node: &PlanNode, plan: &Plan) -> Result<(), PolicyError> {
    let Some(_) = node.weight else { return Ok(()) };
    if node.rate.is_some() {
        let problem = "and `rate` both give the share: leave one out";
        return Err(key(&node.name, "weight", problem));
    }
    let parent = node.parent.and_then(|parent| plan.nodes.get(parent));
    let siblings = parent.map_or(&[][..], |parent| &parent.children);
    let siblings = siblings.iter().filter_map(|child| plan.nodes.get(*child));
    let mut band = siblings.filter(|sibling| sibling.band == node.band);
    if band.any(|sibling| sibling.rate.is_some()) {
        let problem = "is a share beside those by `rate` in its band: give a `rate`, or leave it \
                       out to share what they leave";
        return Err(key(&node.name, "weight", problem));
    }
    Ok(())
}

/// Spreads the classes over the streams of a link.
///
/// Up to eight have a stream each. More are separated by strict rank first, so that a packet that
/// waits for the rest of another is never urgent: each rank gets its own streams as long as there
/// are enough, and the ranks with most classes share the rest.
fn assign_streams(mut classes: Vec<Class>, plan: &Plan) -> Vec<Class> {
    let mut ranks: Vec<Vec<u8>> = Vec::new();
    let mut leaves: Vec<(Vec<u8>, usize)> = Vec::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        if let Some(class) = node.class {
            let rank = plan.rank(index);
            ranks.push(rank.clone());
            leaves.push((rank, class.index()));
        }
    }
    ranks.sort();
    ranks.dedup();
    leaves.sort();
    let rank_of = |rank: &[u8]| ranks.partition_point(|other| other[..] < *rank);
    for (rank, class) in &leaves {
        if let Some(class) = classes.get_mut(*class) {
            class.rank = rank_of(rank) as u8;
        }
    }
    if classes.len() <= STREAMS {
        for (stream, class) in (0..).zip(&mut classes) {
            class.stream = stream;
        }
        return classes;
    }
    let mut sizes = alloc::vec![0usize; ranks.len().min(STREAMS)];
    let group_of = |class: &Class| usize::from(class.rank).min(STREAMS - 1);
    for class in &classes {
        if let Some(size) = sizes.get_mut(group_of(class)) {
            *size += 1;
        }
    }
    let streams = deal_streams(&sizes);
    let mut begun = alloc::vec![0usize; sizes.len()];
    for (_, class) in &leaves {
        let Some(class) = classes.get_mut(*class) else {
            continue;
        };
        let group = group_of(class);
        let first: usize = streams.iter().take(group).sum();
        let (Some(begun), Some(size), Some(own)) =
            (begun.get_mut(group), sizes.get(group), streams.get(group))
        else {
            continue;
        };
        class.stream = (first + *begun * own / size.max(&1)) as u8;
        *begun += 1;
    }
    classes
}

/// Streams of a link: a segment's header has three bits for them.
const STREAMS: usize = 8;

/// How many streams each group gets: one each, and the remaining ones one by one to the most
/// crowded.
fn deal_streams(sizes: &[usize]) -> Vec<usize> {
    let mut streams = alloc::vec![1usize; sizes.len()];
    for _ in sizes.len()..STREAMS {
        // The first among equals: the better rank.
        let crowd = |group: usize| {
            let size = sizes.get(group).copied().unwrap_or(0);
            size * 840 / streams.get(group).copied().unwrap_or(1)
        };
        let most = (0..sizes.len()).rev().max_by_key(|group| crowd(*group));
        if let Some(count) = most.and_then(|most| streams.get_mut(most)) {
            *count += 1;
        }
    }
    streams
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
