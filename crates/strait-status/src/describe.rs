//! How a counter is described: once, beside the field that shows it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use strait_core::delay::{DelayPart, DelayParts};

/// A counter of `T`: what it is called, what it means, and how to read it.
#[derive(Debug)]
pub struct Counter<T> {
    /// Its name in `T`, and in JSON.
    pub name: &'static str,
    /// What it counts, as one sentence.
    pub help: &'static str,
    /// How it is shown.
    pub shape: Shape,
    /// Its value.
    pub value: fn(&T) -> Value<'_>,
}

/// Something whose counters are described.
pub trait Described: Sized + 'static {
    /// All of them, in the order in which tables show them.
    const COUNTERS: &'static [Counter<Self>];
}

/// Whether a number only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It starts at zero with the node, and grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// How a counter is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Whether it only grows.
    pub kind: Kind,
    /// Its name among the metrics, without prefix and suffix; empty if it isn't one.
    pub metric: &'static str,
    /// Its unit: `s`, `octets` or what is counted; empty where the name says it.
    pub unit: &'static str,
    /// The head of its column in tables; empty if it has none.
    pub head: &'static str,
    /// Where the value is by kind: the name of the metric's label, and those of its values that are
    /// shown even when nothing was counted.
    pub by: Option<(&'static str, &'static [&'static str])>,
    /// A label and its value that tell the metric from others of its name.
    pub of: Option<(&'static str, &'static str)>,
    /// The metric is so many times the value.
    pub scale: f64,
}

/// A number that only grows, as the metric `metric`.
pub(crate) const fn counter(metric: &'static str) -> Shape {
    Shape {
        kind: Kind::Counter,
        metric,
        unit: "",
        head: "",
        by: None,
        of: None,
        scale: 1.0,
    }
}

/// A number that goes up and down, as the metric `metric`.
pub(crate) const fn gauge(metric: &'static str) -> Shape {
    let mut shape = counter(metric);
    shape.kind = Kind::Gauge;
    shape
}

/// What stands in tables only, under `head`.
pub(crate) const fn column(head: &'static str) -> Shape {
    gauge("").head(head)
}

impl Shape {
    /// With a column in tables.
    pub const fn head(mut self, head: &'static str) -> Self {
        self.head = head;
        self
    }

    /// In this unit.
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// By kind.
    pub const fn by(mut self, label: &'static str, always: &'static [&'static str]) -> Self {
        self.by = Some((label, always));
        self
    }

    /// One of several of the same name.
    pub const fn of(mut self, label: &'static str, value: &'static str) -> Self {
        self.of = Some((label, value));
        self
    }

    /// Shown as so many times the value.
    pub const fn scale(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }
}

/// A number of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// So many.
    Count(u64),
    /// Seconds, or a share.
    Real(f64),
}

impl From<Number> for f64 {
    fn from(number: Number) -> Self {
        match number {
            Number::Count(count) => count as Self,
            Number::Real(real) => real,
        }
    }
}

/// What a described field holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing is known.
    None,
    /// A number.
    Number(Number),
    /// Words.
    Text(&'a str),
    /// Numbers by kind.
    By(Vec<(&'a str, Number)>),
}

/// A type of field that can be described.
pub trait Measure {
    /// What it holds.
    fn value(&self) -> Value<'_>;
}

macro_rules! counts {
    ($($type:ty),+) => {
        $(impl Measure for $type {
            fn value(&self) -> Value<'_> {
                Value::Number(Number::Count((*self).into()))
            }
        })+
    };
}

counts!(bool, u8, u32, u64);

impl Measure for f64 {
    fn value(&self) -> Value<'_> {
        Value::Number(Number::Real(*self))
    }
}

impl Measure for String {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<T: Measure> Measure for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::None, Measure::value)
    }
}

impl Measure for BTreeMap<String, u64> {
    fn value(&self) -> Value<'_> {
        let each = self.iter();
        Value::By(
            each.map(|(kind, count)| (kind.as_str(), Number::Count(*count)))
                .collect(),
        )
    }
}

impl Measure for DelayParts {
    fn value(&self) -> Value<'_> {
        let seconds = |part| Number::Real(crate::seconds(self.part_ns(part)));
        let all = DelayPart::ALL.into_iter();
        Value::By(all.map(|part| (part.name(), seconds(part))).collect())
    }
}

/// Declares a part of the snapshot: its fields, what each means and is filled from; behind `=>`,
/// how it is shown where it is a counter.
macro_rules! described {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident from $source:ident: $from:ty {
            $(
                #[doc = $help:literal]
                $(#[serde($($serde:tt)+)])*
                $field:ident: $type:ty = $fill:expr $(=> $shape:expr)?;
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $(
                #[doc = $help]
                $(#[serde($($serde)+)])*
                pub $field: $type,
            )+
        }

        impl $name {
            /// What is to be shown of this.
            pub fn new($source: $from) -> Self {
                Self { $($field: $fill,)+ }
            }
        }

        impl $crate::describe::Described for $name {
            const COUNTERS: &'static [$crate::describe::Counter<Self>] = &[
                $($($crate::describe::Counter {
                    name: stringify!($field),
                    help: $help,
                    shape: $shape,
                    value: |it| $crate::describe::Measure::value(&it.$field),
                },)?)+
            ];
        }
    };
}

pub(crate) use described;
