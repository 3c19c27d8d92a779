//! The six figures of the paper on the published format, of our runs: its figure 4, (a) to (f).

use std::fs;
use std::path::Path;

use anyhow::Context;
use strait_report::scatter::{Figure, Marks};
use strait_sim::study::hbh::{Quantity, Varied};

use super::Cells;
use super::sweep::Cases;

/// Writes the figures into `folder`. Times go up by powers of ten.
pub(super) fn write(
    cells: &Cells<'_>,
    [retries, windows, timeouts]: &[Vec<Cases>; 3],
    folder: &Path,
) -> anyhow::Result<()> {
    let time = Quantity::Time;
    let frames = Quantity::Frames;
    let delay = over_losses(cells, time, "time to the last octet [s]");
    let usage = over_losses(cells, frames, "frames on all links");
    let seconds = "time to the last octet [s]";
    let retried = over_values("R: retries", "R", seconds, retries, time);
    let windowed = over_values("W: the window", "W", seconds, windows, time);
    let framed = over_values("W: the window", "W", "frames on all links", windows, frames);
    let timed = over_values("RTO: the timeout", "RTO [s]", seconds, timeouts, time);
    let figures = [
        ("hbh-4a-delay", delay.to_svg_by_tens()),
        ("hbh-4b-usage", usage.to_svg()),
        ("hbh-4c-retries", retried.to_svg_by_tens()),
        ("hbh-4d-window-delay", windowed.to_svg_by_tens()),
        ("hbh-4e-window-frames", framed.to_svg()),
        ("hbh-4f-rto", timed.to_svg_by_tens()),
    ];
    for (name, svg) in figures {
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Medians over the losses of all columns with the published format's endpoint, without what never
/// arrived.
fn over_losses(cells: &Cells<'_>, of: Quantity, up: &str) -> Figure {
    let losses = &cells.study.losses;
    let all = &cells.study.columns;
    let swept = all.iter().find(|it| it.name == cells.study.sweep.column);
    let endpoint = swept.map(|column| &column.endpoint);
    let columns = all.iter().enumerate();
    let columns = columns.filter(|(_, column)| Some(&column.endpoint) == endpoint);
    let marks = columns.map(|(column, entry)| {
        let at = |loss: usize| losses[loss].0 * 100.0;
        // Of what didn't arrive, what was sent until the end of the run means nothing.
        let arrived = |loss: &usize| cells.median(column, *loss, Quantity::Time).is_some();
        let there = (0..losses.len()).filter(arrived);
        let line = there.filter_map(|loss| Some((at(loss), cells.median(column, loss, of)?)));
        Marks {
            name: entry.name.clone(),
            points: Vec::new(),
            line: line.collect(),
        }
    });
    Figure {
        title: format!("{up}, median, against loss"),
        across: "loss of each link, each way [%]".into(),
        up: up.into(),
        marks: marks.collect(),
    }
}

/// Which of the lines of its figure a value belongs to, and where it stands there; `None` for one
/// that has no place across.
fn place(value: Varied) -> (&'static str, Option<f64>) {
    match value {
        Varied::Retries(retries, false) => ("link", Some(f64::from(retries))),
        Varied::Retries(retries, true) => ("path", Some(f64::from(retries))),
        Varied::Window(window, false) => ("fixed", Some(f64::from(window))),
        Varied::Window(window, true) => ("AIMD", Some(f64::from(window))),
        Varied::Timeout(Some(timeout)) => ("fixed", Some(timeout.0.as_secs_f64())),
        Varied::Timeout(None) => ("by RTT", None),
    }
}

/// Medians over the values of one parameter, a line for each loss and way. What has no place across
/// is a line all along.
fn over_values(title: &str, across: &str, up: &str, cases: &[Cases], of: Quantity) -> Figure {
    let mut marks: Vec<Marks> = Vec::new();
    let places = cases.iter().filter_map(|case| place(case.value).1);
    let end = places.fold(0.0, f64::max);
    for case in cases {
        let (way, at) = place(case.value);
        let name = format!("{way} {} %", case.loss * 100.0);
        let Some(median) = case.median(of) else {
            continue;
        };
        let corners = match at {
            Some(at) => vec![(at, median)],
            None => vec![(0.0, median), (end, median)],
        };
        match marks.iter_mut().find(|it| it.name == name) {
            Some(known) => known.line.extend(corners),
            None => marks.push(Marks {
                name,
                points: Vec::new(),
                line: corners,
            }),
        }
    }
    Figure {
        title: title.into(),
        across: across.into(),
        up: up.into(),
        marks,
    }
}
