//! The six figures of the paper on the published format, of our runs: its figure 4, (a) to (f).

use strait_report::scatter::{Figure, Marks};

use super::super::shown::{Parts, Row};

/// Where it stands, and its ends.
type Interval = (f64, [f64; 2]);

/// All of them, as SVG by file name. Times go up by powers of ten.
pub(super) fn all(parts: &Parts) -> Vec<(String, String)> {
    let rows = |part: &str| parts.get(part).map_or(&[][..], Vec::as_slice);
    let (seconds, frames) = ("time to the last octet [s]", "frames on all links");
    let over_losses = |of: &str, up: &str| Figure {
        title: format!("{up}, median, against loss"),
        across: "loss of each link, each way [%]".into(),
        up: up.into(),
        marks: losses(rows("cells"), of),
    };
    let over_values = |part: &str, title: &str, across: &str, of: &str, up: &str| Figure {
        title: title.into(),
        across: across.into(),
        up: up.into(),
        marks: values(rows(part), of),
    };
    let retried = over_values("retries", "R: retries", "R", "time_s", seconds);
    let windowed = over_values("window", "W: the window", "W", "time_s", seconds);
    let framed = over_values("window", "W: the window", "W", "frames", frames);
    let timed = over_values("rto", "RTO: the timeout", "RTO [s]", "time_s", seconds);
    let figures = [
        (
            "hbh-4a-delay",
            over_losses("time_s", seconds).to_svg_by_tens(),
        ),
        ("hbh-4b-usage", over_losses("frames", frames).to_svg()),
        ("hbh-4c-retries", retried.to_svg_by_tens()),
        ("hbh-4d-window-delay", windowed.to_svg_by_tens()),
        ("hbh-4e-window-frames", framed.to_svg()),
        ("hbh-4f-rto", timed.to_svg_by_tens()),
    ];
    let named = figures.map(|(name, svg)| (format!("{name}.svg"), svg));
    named.into()
}

/// Medians over the losses of all columns, and their intervals, without what never arrived: what
/// was sent until the end of the run means nothing.
fn losses(rows: &[Row], of: &str) -> Vec<Marks> {
    let named = rows.iter().filter_map(|row| {
        row.median("time_s")?;
        let at = row.median("loss")? * 100.0;
        let interval = row.median_interval(of).map(|ends| (at, ends));
        let corner = (at, row.median(of)?);
        Some((row.word("column")?.to_owned(), vec![corner], interval))
    });
    lines(named)
}

/// Medians over the values of one parameter, a line for each loss and way. What has no place across
/// is a line all along.
fn values(rows: &[Row], of: &str) -> Vec<Marks> {
    let places = rows.iter().filter_map(|row| row.median("value"));
    let end = places.fold(0.0, f64::max);
    lines(rows.iter().filter_map(|row| {
        let median = row.median(of)?;
        let name = format!("{} {} %", row.word("line")?, row.median("loss")? * 100.0);
        let corners = match row.median("value") {
            Some(at) => vec![(at, median)],
            None => vec![(0.0, median), (end, median)],
        };
        let interval = row.median("value").zip(row.median_interval(of));
        Some((name, corners, interval))
    }))
}

/// Corners and intervals by the names of their lines.
fn lines(named: impl Iterator<Item = (String, Vec<(f64, f64)>, Option<Interval>)>) -> Vec<Marks> {
    let mut marks: Vec<Marks> = Vec::new();
    for (name, line, interval) in named {
        let known = marks.iter().position(|it| it.name == name);
        let index = known.unwrap_or_else(|| {
            marks.push(Marks {
                name,
                ..Marks::default()
            });
            marks.len() - 1
        });
        marks[index].line.extend(line);
        marks[index].intervals.extend(interval);
    }
    marks
}
