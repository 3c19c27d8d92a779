//! Results: how numbers are estimated ([`estimate`]), shown ([`table`], [`scatter`]) and judged
//! ([`table::Check`]), and the parts of a page that hold all of it.
//!
//! A [`Report`] is HTML that needs nothing else: tables, checks, plots, where the time went, and
//! the configuration to repeat it. Every text from outside is escaped.

pub mod bars;
mod counters;
mod delay;
mod downsample;
pub mod estimate;
mod page;
pub mod picture;
pub mod scatter;
mod stations;
mod status;
pub mod table;
pub mod tree;

/// The library that draws plots, for every page that has some.
pub mod uplot {
    /// Its program; it makes the global name `uPlot`.
    pub const JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
    /// How it looks.
    pub const CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
    /// Its licence, which stands wherever it does.
    pub const LICENCE: &str = include_str!("../assets/uplot/LICENSE");
}

use strait_core::stats::ClassStats;

use crate::table::ResultSet;

pub use counters::counter_table;
pub use delay::delay_table;
pub use stations::stations_of;
pub use status::{
    far_text, mail_text, names_of, names_text, status_text, why_text, wrapped_within,
};

/// What a report shows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its heading.
    pub title: String,
    /// What it is about, below the heading; may be empty.
    pub about: String,
    /// Tables, checks, seeds and run hash.
    pub result: ResultSet,
    /// Lines of the plots.
    pub series: Vec<Series>,
    /// Lines of plots over something else than time.
    pub curves: Vec<Curve>,
    /// Pictures of points.
    pub figures: Vec<scatter::Figure>,
    /// By variant, where the time of each class's packets went.
    pub delays: Vec<(String, Vec<ClassStats>)>,
    /// Remarks, one paragraph each.
    pub notes: Vec<String>,
    /// The resolved configuration.
    pub resolved: String,
}

/// A report's contents, to be looked at with [`STYLE`].
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// What is read.
    pub main: String,
    /// What draws the plots, behind [`uplot`]; empty where there are none.
    pub scripts: String,
}

/// How reports look.
pub const STYLE: &str = include_str!("../assets/report.css");

/// One line of a plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Heading of the plot it belongs to. Plots appear in the order of their first series.
    pub chart: String,
    /// Its name: usually the variant's. A name has the same colour in all plots.
    pub name: String,
    /// Unit of the values; the plot has that of its first series.
    pub unit: String,
    /// A value holds until the next point (a queue), rather than being one of many (a delay).
    pub held: bool,
    /// Time in seconds since the beginning of the run, in ascending order, and value.
    pub points: Vec<(f64, f64)>,
}

/// One line of a plot over something else than time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Heading of the plot it belongs to. Plots appear in the order of their first curve.
    pub chart: String,
    /// Its name; it has the same colour in all plots.
    pub name: String,
    /// What the plot is over, with its unit; that of its first curve counts.
    pub across: String,
    /// Unit of the values; the plot has that of its first curve.
    pub unit: String,
    /// Place and value, places in ascending order.
    pub points: Vec<(f64, f64)>,
}

impl Report {
    /// Points in all plots together. At most about 20 octets each, they keep a report well below
    /// a megabyte.
    pub const POINTS_MAX: usize = 24_000;
    /// Octets of resolved configuration in the page; a longer one is cut, and says so.
    pub const RESOLVED_MAX: usize = 200_000;

    /// What a page shows of it.
    pub fn parts(&self) -> Parts {
        page::parts(self)
    }
}
