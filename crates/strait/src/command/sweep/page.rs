//! A sweep as a page: each metric over the first axis that has numbers.

use strait_report::Report;
use strait_report::estimate::mean_interval;
use strait_report::scatter::{Figure, Marks};
use strait_report::table::ResultSet;
use strait_scenario::sweep::{Axis, number_of};
use strait_scenario::{Loaded, unit_of};

use super::{Entry, heading, plain, unit};

/// Lines in one plot; more can't be told apart.
const LINES_MAX: usize = 12;
/// Plots in the page.
const FIGURES_MAX: usize = 60;

pub(super) fn report(
    loaded: &Loaded,
    axes: &[Axis],
    entries: &[Entry<'_>],
    wanted: &[String],
    result: &ResultSet,
) -> Report {
    let across = axes
        .iter()
        .position(|axis| unit(axis).is_some() && axis.values.len() > 1);
    let mut notes = Vec::new();
    let mut figures: Vec<Figure> = Vec::new();
    if let Some(across) = across {
        let each = wanted.iter();
        figures = each
            .map(|metric| figure(axes, across, entries, metric))
            .collect();
        figures.retain(|figure| !figure.marks.is_empty());
    } else {
        notes.push(
            "No axis has several numbers in one unit to draw over: the table has all results."
                .into(),
        );
    }
    if figures.len() > FIGURES_MAX {
        notes.push(format!(
            "{} metrics aren't drawn: --metric picks some.",
            figures.len() - FIGURES_MAX
        ));
        figures.truncate(FIGURES_MAX);
    }
    if figures.iter().any(|it| it.marks.len() > LINES_MAX) {
        notes.push(format!(
            "Only the first {LINES_MAX} lines of a plot are drawn: the table has all results."
        ));
        let each = figures.iter_mut();
        each.for_each(|it| it.marks.truncate(LINES_MAX));
    }
    Report {
        title: loaded.scenario.name.clone(),
        about: loaded.scenario.about.clone(),
        result: result.clone(),
        figures,
        notes,
        resolved: loaded.resolved_text(),
        ..Report::default()
    }
}

/// Means of one metric and their 95 % intervals; a line for each variant and value of the other
/// axes.
fn figure(axes: &[Axis], across: usize, entries: &[Entry<'_>], metric: &str) -> Figure {
    let mut marks: Vec<Marks> = Vec::new();
    let same =
        |a: &Entry<'_>, b: &Entry<'_>| std::ptr::eq(a.place, b.place) && a.variant == b.variant;
    for runs in entries.chunk_by(same) {
        let values = runs.iter().filter_map(|it| it.measured.metrics.get(metric));
        let values: Vec<f64> = values.copied().collect();
        let Some((first, mean)) = runs.first().zip(mean_interval(&values)) else {
            continue;
        };
        let Some((x, _)) = number_of(&first.place.point[across].1) else {
            continue;
        };
        let name = name(axes, across, first);
        let index = marks.iter().position(|it| it.name == name);
        let index = index.unwrap_or_else(|| {
            marks.push(Marks {
                name,
                ..Marks::default()
            });
            marks.len() - 1
        });
        let line = &mut marks[index];
        line.points.push((x, mean.mean));
        line.line.push((x, mean.mean));
        if let Some(half) = mean.half_width {
            let ends = [(mean.mean - half).max(0.0), mean.mean + half];
            line.intervals.push((x, ends));
        }
    }
    for line in &mut marks {
        line.line.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let up = match unit_of(metric) {
        "" => metric.to_owned(),
        unit => format!("{metric} [{unit}]"),
    };
    Figure {
        title: format!("{metric}: mean and 95 % interval"),
        across: heading(&axes[across]),
        up,
        marks,
    }
}

/// The variant, and the values of axes that are not drawn over.
fn name(axes: &[Axis], across: usize, entry: &Entry<'_>) -> String {
    let cells = entry.place.cells(axes).enumerate();
    let others = cells.filter(|(index, _)| *index != across);
    let others = others.map(|(index, cell)| format!(", {} {}", axes[index].key, plain(cell)));
    entry.variant.to_owned() + &others.collect::<String>()
}
