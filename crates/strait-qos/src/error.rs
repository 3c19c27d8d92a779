//! Faults of a policy.

use alloc::string::String;

use crate::dscp::Dscp;

/// A fault of a policy. Rules count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The content of a file was never put in its place.
    #[error("policy file `{file}` was not read")]
    FileNotRead {
        /// The file's name.
        file: String,
    },
    /// No built-in policy has this name.
    #[error("no preset `{preset}`: write one of {presets}")]
    UnknownPreset {
        /// The name.
        preset: String,
        /// The names of the presets.
        presets: String,
    },
    /// A preset brings its own classes.
    #[error("preset `{preset}` has its own classes: leave out [[class]] or the preset")]
    PresetWithClasses {
        /// The preset's name.
        preset: String,
    },
    /// More than [`CLASSES_MAX`](crate::policy::CLASSES_MAX) or
    /// [`GROUPS_MAX`](crate::policy::GROUPS_MAX).
    #[error(
        "{leaves} classes that hold packets and {groups} above them: at most 64 and 63 are \
         possible, join some"
    )]
    TooManyClasses {
        /// Classes that hold packets.
        leaves: usize,
        /// Classes with others below.
        groups: usize,
    },
    /// A class's parent isn't among the classes.
    #[error("class `{class}`: `parent` names no class `{parent}`: write one of {classes}")]
    UnknownParent {
        /// The class.
        class: String,
        /// The name.
        parent: String,
        /// The names of the classes.
        classes: String,
    },
    /// A class is below itself, or under too many others.
    #[error(
        "class `{class}` is under too many others, or under itself: shorten its line of parents"
    )]
    TooDeep {
        /// The class.
        class: String,
    },
    /// A key that can't be there, can't have this value, or is missing; `root` is the policy.
    #[error("class `{class}`: `{key}` {problem}")]
    Key {
        /// The class.
        class: String,
        /// The key.
        key: &'static str,
        /// The fault and the remedy.
        problem: &'static str,
    },
    /// More than [`RULES_MAX`](crate::policy::RULES_MAX).
    #[error("{count} rules: at most 128 are possible, join some into lists")]
    TooManyRules {
        /// How many there are, the preset's included.
        count: usize,
    },
    /// More than [`PORTS_MAX`](crate::policy::PORTS_MAX).
    #[error("{count} names of ports in `untrusted` and `ingress`: at most 128 are possible")]
    TooManyPorts {
        /// How many there are.
        count: usize,
    },
    /// A name given twice, empty, or that of the port itself.
    #[error("class name `{class}` is empty, `root` or used twice: give each class its own")]
    ClassName {
        /// The name.
        class: String,
    },
    /// The weight is zero or above [`WEIGHT_MAX`](crate::policy::WEIGHT_MAX).
    #[error("class `{class}` has weight {weight}: write 1 to 1000")]
    Weight {
        /// The class.
        class: String,
        /// Its weight.
        weight: u16,
    },
    /// A limit of zero packets or octets, or an age limit of zero.
    #[error("class `{class}` could never hold a packet: raise `{key}` above zero")]
    NoRoom {
        /// The class.
        class: String,
        /// The key that is zero.
        key: &'static str,
    },
    /// An impossible or meaningless wait for others' turns.
    #[error("class `{class}`: `wait_max` must be 1 s to 120 s, the longest possible turn")]
    WaitMax {
        /// The class.
        class: String,
    },
    /// A key of a queue has a value that can't work.
    #[error("class `{class}`: its queue's `{key}` must be {bounds}")]
    Queue {
        /// The class.
        class: String,
        /// The key.
        key: &'static str,
        /// Its valid range.
        bounds: &'static str,
    },
    /// A key of a policer has a value that can't work.
    #[error("class `{class}`: its policer's `{key}` must be {bounds}")]
    Police {
        /// The class.
        class: String,
        /// The key.
        key: &'static str,
        /// Its valid range.
        bounds: &'static str,
    },
    /// A policer sends packets to a class that can't take them.
    #[error(
        "class `{class}`: `police` names class `{other}`, which {problem} (classes: {classes})"
    )]
    PoliceClass {
        /// The class.
        class: String,
        /// The other one.
        other: String,
        /// Its fault.
        problem: &'static str,
        /// Those that hold packets.
        classes: String,
    },
    /// Several classes, and none named as default.
    #[error("`default` is missing: name the class of packets that match no rule ({classes})")]
    NoDefault {
        /// The names of the classes.
        classes: String,
    },
    /// The default isn't among the classes.
    #[error("`default` names no class `{class}`: write one of {classes}")]
    UnknownDefault {
        /// The name.
        class: String,
        /// The names of the classes.
        classes: String,
    },
    /// The class for flows that behave like calls isn't among the classes.
    #[error(
        "`observed` names no class `{class}`: write one of {classes}, or \"\" so that only rules \
         decide what a call is"
    )]
    UnknownObserved {
        /// The name.
        class: String,
        /// The names of the classes.
        classes: String,
    },
    /// A rule's class isn't among the classes.
    #[error("rule {rule} names no class `{class}`: write one of {classes}")]
    UnknownClass {
        /// The rule.
        rule: usize,
        /// The name.
        class: String,
        /// The names of the classes.
        classes: String,
    },
    /// A rule with neither a class nor `filter`.
    #[error("rule {rule} does nothing: give it a `class` or `filter = true`")]
    NoAction {
        /// The rule.
        rule: usize,
    },
    /// No packet can meet all conditions of a rule.
    #[error("rule {rule} matches nothing: {remedy}")]
    NeverMatches {
        /// The rule.
        rule: usize,
        /// The necessary change.
        remedy: &'static str,
    },
}

/// Settings that are allowed but probably not meant. Rules count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyWarning {
    /// CS1 or LE are given a better class than best effort.
    #[error(
        "rule {rule} puts {dscp} before best effort, but other networks put it behind \
         (RFC 8622, RFC 8325): mark these packets AF21 or CS2 instead"
    )]
    LowerEffortFirst {
        /// The rule.
        rule: usize,
        /// The code point.
        dscp: Dscp,
    },
    /// A rule without any condition hides those after it.
    #[error("rule {rule} matches every packet: the rules after it never apply")]
    HidesLater {
        /// The rule.
        rule: usize,
    },
}
