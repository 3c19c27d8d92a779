//! A policy for the Linux kernel: rules as an nftables ruleset, classes as `tc` commands.
//!
//! All classes become one tree of HTB, the only discipline with classes that every kernel has;
//! strict bands beside token buckets become PRIO, if the kernel has it. nftables sets each packet's
//! class by its priority (`meta priority`), which HTB reads before any filter of its own, so that
//! no `tc filter` is needed and one ruleset serves both families. [`Export::notes`] lists the
//! differences of the kernel.

mod nft;
mod queue;
mod tc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use strait_core::units::BitRate;

use crate::config::PolicyConfig;
use crate::error::PolicyError;
use crate::plan::{NodeIndex, Plan};
use crate::policy::Policy;

/// Text for the kernel's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The interface that it is for.
    pub interface: String,
    /// The nftables table that holds all the rules, once in each of [`Export::FAMILIES`].
    pub table: String,
    /// For `nft -f -`.
    pub nft: String,
    /// For `tc -batch -`: one command a line.
    pub tc: String,
    /// Settings that the kernel lacks, or applies differently.
    pub notes: Vec<String>,
}

impl Export {
    /// The handle of the root queueing discipline, by which it is known again.
    pub const HANDLE: u16 = 0x57a1;
    /// The families of nftables with an exported table.
    pub const FAMILIES: [&str; 2] = ["inet", "arp"];
    /// The handle of the part below the root where that isn't the tree of classes.
    const BELOW: u16 = 0x57a2;
    /// The handle of the tree of classes below PRIO.
    const LOWEST: u16 = 0x57a3;

    /// The name of an interface's table, of letters, digits and underlines.
    #[must_use]
    pub fn table(interface: &str) -> String {
        let safe = |letter: char| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        };
        format!("strait_{}", interface.chars().map(safe).collect::<String>())
    }
}

/// Which queues the kernel's classes have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// The nearest to those of the policy.
    #[default]
    Near,
    /// First come, first served, and strict bands by PRIO.
    PlainBands,
    /// First come, first served, and bands as priorities of HTB: every kernel has that.
    Plain,
}

/// Why a policy can't be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The policy itself is wrong.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Nothing limits the kernel's tree, so it would never have to choose.
    #[error(
        "the line's rate isn't known: a kernel sends as fast as its interface takes, so its \
         queues must be the narrowest place; give the line's rate, or a `shape` in the policy"
    )]
    NoRate,
    /// The interface's name can't be one.
    #[error("`{name}` is no interface name: 1 to 15 octets without space, `/` and `\"`")]
    Interface {
        /// The name.
        name: String,
    },
}

/// Writes a policy for the kernel. `line` is the rate of the interface's line; without it the
/// policy's own `line` or `shape` has to name it.
///
/// # Errors
/// The policy is wrong, or the rate of the line is unknown.
pub fn export(
    config: &PolicyConfig,
    interface: &str,
    line: Option<BitRate>,
    queues: Queues,
) -> Result<Export, ExportError> {
    let wrong = |octet: u8| octet <= b' ' || octet >= 0x7f || b"/\"\\".contains(&octet);
    if interface.is_empty() || interface.len() > 15 || interface.bytes().any(wrong) {
        return Err(ExportError::Interface {
            name: interface.into(),
        });
    }
    let policy = Policy::compile(config)?;
    let config = config.expand()?;
    let line_bit_s = line_bit_s(&config, &policy, line)?;
    let mut notes = Vec::new();
    let tree = tc::Tree::new(&policy, line_bit_s, queues);
    let tc = tree.commands(interface, &mut notes);
    let table = Export::table(interface);
    let nft = nft::ruleset(&config, &policy, &tree, interface, &table, &mut notes);
    Ok(Export {
        interface: interface.into(),
        table,
        nft,
        tc,
        notes,
    })
}

/// The line rate of the tree: the user's, otherwise the policy's.
fn line_bit_s(
    config: &PolicyConfig,
    policy: &Policy,
    line: Option<BitRate>,
) -> Result<u64, ExportError> {
    let plan = policy.plan();
    if let Some(rate) = line.or(config.line) {
        return Ok(rate.0.max(1));
    }
    let root = plan.nodes.get(Plan::ROOT);
    let shaped = root.and_then(|root| root.shape).map(|shape| shape.rate);
    match shaped {
        Some(crate::plan::Rate::Fixed(bit_s)) => Ok(bit_s.max(1)),
        // Token buckets limit themselves, if all is written as rates.
        None if root.is_some_and(|root| root.discipline.is_htb()) && fixed(plan) => Ok(1),
        _ => Err(ExportError::NoRate),
    }
}

fn fixed(plan: &Plan) -> bool {
    let is_share = |rate| matches!(rate, Some(crate::plan::Rate::Share(_)));
    let mut nodes = plan.nodes.iter();
    !nodes.any(|node| is_share(node.rate) || is_share(node.ceil))
}

/// The minor number of a node's class; the major is its qdisc's handle. 0 is the qdisc itself.
fn minor(node: NodeIndex) -> u16 {
    u16::try_from(node + 1).unwrap_or(u16::MAX)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
