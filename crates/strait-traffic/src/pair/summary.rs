//! What the groups tell: tables, metrics and a figure.

use std::collections::{BTreeMap, BTreeSet};

use strait_report::estimate::{mean_interval, percentile_of_sorted};
use strait_report::scatter::{Figure, Marks};
use strait_report::table::{Cell, Column, Table};

use super::PairRecord;
use super::fit::{Estimate, Fit};

/// The evaluated groups of one measurement.
#[derive(Clone, Debug)]
pub struct PairSummary {
    /// Octets and separation in s of each pair that came whole.
    pub pairs: Vec<(f64, f64)>,
    /// Octets and mean separation in s of each train that came whole.
    pub trains: Vec<(f64, f64)>,
    /// Groups sent.
    pub groups: usize,
    /// Groups of which a packet or the answer was missing, or the packets out of order.
    pub lost: usize,
    /// Groups that left no faster than they came: these tell about the sender, and don't count.
    pub sender_bound: usize,
    /// The line through the pairs.
    pub line: Option<Fit>,
    /// The same by least squares.
    pub least_squares: Option<Fit>,
    /// The largest size, in octets.
    pub octets_max: u32,
    sizes: BTreeMap<u32, Size>,
}

#[derive(Clone, Debug, Default)]
struct Size {
    sent: usize,
    separations: Vec<f64>,
}

/// A group left fast enough if its packets were closer together than this share of how they came.
const SENDER_SHARE_MAX: f64 = 0.9;

impl PairSummary {
    /// Evaluates groups.
    pub fn new(records: &[PairRecord]) -> Self {
        let mut summary = Self {
            pairs: Vec::new(),
            trains: Vec::new(),
            groups: records.len(),
            lost: 0,
            sender_bound: 0,
            line: None,
            least_squares: None,
            octets_max: records.iter().map(|it| it.octets).max().unwrap_or(0),
            sizes: BTreeMap::new(),
        };
        for record in records {
            summary.take(record);
        }
        summary.line = Fit::huber(&summary.pairs);
        summary.least_squares = Fit::least_squares(&summary.pairs);
        summary
    }

    fn take(&mut self, record: &PairRecord) {
        let is_pair = record.sent_ns.len() == 2;
        if is_pair {
            self.sizes.entry(record.octets).or_default().sent += 1;
        }
        let Some(separation_s) = record.separation_s() else {
            self.lost += 1;
            return;
        };
        if record.sent_separation_s() > separation_s * SENDER_SHARE_MAX {
            self.sender_bound += 1;
            return;
        }
        let point = (f64::from(record.octets), separation_s);
        if is_pair {
            self.pairs.push(point);
            let size = self.sizes.entry(record.octets).or_default();
            size.separations.push(separation_s);
        } else {
            self.trains.push(point);
        }
    }

    /// What is left for packets of the largest size, in bit/s of IP: what a sender gets that always
    /// has one of them to send.
    pub fn rate_bit_s(&self) -> Option<Estimate> {
        let octets = f64::from(self.octets_max);
        self.line?.at(octets).rate(octets * 8.0)
    }

    /// What one octet more in a packet costs, as a rate: without what each packet costs.
    pub fn gradient_bit_s(&self) -> Option<Estimate> {
        self.line?.slope().rate(8.0)
    }

    /// The gradient by least squares.
    pub fn least_squares_bit_s(&self) -> Option<Estimate> {
        self.least_squares?.slope().rate(8.0)
    }

    /// What the trains got.
    pub fn train_bit_s(&self) -> Option<Estimate> {
        let separations: Vec<f64> = self.trains.iter().map(|train| train.1).collect();
        let interval = mean_interval(&separations)?;
        let separation = Estimate {
            value: interval.mean,
            half_width: interval.half_width.unwrap_or(f64::NAN),
        };
        separation.rate(f64::from(self.octets_max) * 8.0)
    }

    /// Metrics by name.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut metrics = BTreeMap::new();
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                metrics.insert(name.to_owned(), value);
            }
        };
        let estimates = [
            ("rate", self.rate_bit_s()),
            ("gradient", self.gradient_bit_s()),
            ("least_squares", self.least_squares_bit_s()),
            ("train", self.train_bit_s()),
        ];
        for (name, estimate) in estimates {
            let estimate = estimate.as_ref();
            put(&format!("{name}_bit_s"), estimate.map(|it| it.value));
            put(
                &format!("{name}_half_width_bit_s"),
                estimate.map(|it| it.half_width),
            );
        }
        let least = self.sizes.values().map(|size| size.separations.len()).min();
        put("pairs_min", least.map(|least| least as f64));
        let loss = self.lost as f64 / self.groups.max(1) as f64;
        put("loss", (self.groups > 0).then_some(loss));
        metrics
    }

    /// Two tables: the estimates, and the separations of each size. `name` is part of their names
    /// if it isn't empty.
    pub fn tables(&self, name: &str) -> [Table; 2] {
        let title = |what: &str| match name {
            "" => String::from(what),
            name => format!("{what} of {name}"),
        };
        [
            self.estimates(title("available rate")),
            self.separations(title("separation")),
        ]
    }

    fn estimates(&self, id: String) -> Table {
        let columns = [
            ("estimate", ""),
            ("rate", "bit/s"),
            ("±", "bit/s"),
            ("gradient", "s/octet"),
            ("±", "s/octet"),
            ("groups", ""),
        ];
        let columns = columns.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new(id, columns.into());
        let octets = self.octets_max;
        let pairs = self.pairs.len();
        let slope = |fit: Option<Fit>| fit.map(|fit| fit.slope());
        let rows = [
            (
                format!("pairs, packets of {octets} B"),
                self.rate_bit_s(),
                None,
                pairs,
            ),
            (
                String::from("pairs, gradient"),
                self.gradient_bit_s(),
                slope(self.line),
                pairs,
            ),
            (
                String::from("pairs, gradient by least squares"),
                self.least_squares_bit_s(),
                slope(self.least_squares),
                pairs,
            ),
            (
                format!("trains, packets of {octets} B"),
                self.train_bit_s(),
                None,
                self.trains.len(),
            ),
        ];
        for (what, rate, slope, groups) in rows {
            if groups == 0 {
                continue;
            }
            let number = |value: Option<f64>| Cell::from(value.filter(|it| it.is_finite()));
            table.push(vec![
                what.into(),
                number(rate.map(|it| it.value)),
                number(rate.map(|it| it.half_width)),
                number(slope.map(|it| it.value)),
                number(slope.map(|it| it.half_width)),
                (groups as f64).into(),
            ]);
        }
        table
    }

    fn separations(&self, id: String) -> Table {
        let columns = [
            ("size", "B"),
            ("pairs", ""),
            ("lost", ""),
            ("least", "s"),
            ("median", "s"),
            ("most", "s"),
            ("line", "s"),
            ("rate at the line", "bit/s"),
        ];
        let columns = columns.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new(id, columns.into());
        for (octets, size) in &self.sizes {
            let mut sorted = size.separations.clone();
            sorted.sort_by(f64::total_cmp);
            let octets = f64::from(*octets);
            let at = self.line.map(|line| line.at(octets));
            table.push(vec![
                octets.into(),
                (sorted.len() as f64).into(),
                ((size.sent - sorted.len()) as f64).into(),
                sorted.first().copied().into(),
                percentile_of_sorted(&sorted, 0.5).into(),
                sorted.last().copied().into(),
                at.map(|at| at.value).into(),
                at.and_then(|at| at.rate(octets * 8.0))
                    .map(|rate| rate.value)
                    .into(),
            ]);
        }
        table
    }

    /// The pairs and their line, to be drawn.
    pub fn marks(&self, name: &str) -> Marks {
        let octets: BTreeSet<u32> = self.sizes.keys().copied().collect();
        let ends = octets.first().zip(octets.last());
        let line = ends.zip(self.line).map(|((first, last), line)| {
            [*first, *last].map(|octets| {
                let octets = f64::from(octets);
                (octets, line.at(octets).value)
            })
        });
        Marks {
            name: name.to_owned(),
            points: self.pairs.clone(),
            line: line.map_or_else(Vec::new, Vec::from),
            ..Marks::default()
        }
    }
}

/// Separation against size, for one measurement or several.
pub fn figure(title: &str, marks: Vec<Marks>) -> Figure {
    Figure {
        title: title.to_owned(),
        across: String::from("size of the IP packets in octets"),
        up: String::from("separation in s"),
        marks,
    }
}
