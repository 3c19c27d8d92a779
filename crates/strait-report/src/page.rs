//! The page's text.

use std::fmt::Write;

use serde::Serialize;

use super::delay::{delay_bars, delay_table};
use super::downsample::downsample;
use super::{Curve, Parts, Report, Series};
use crate::table::{Bar, Cell, Check, Column, Table, significant};

const PAGE_JS: &str = include_str!("../assets/report.js");

/// A text that means itself in HTML, also inside a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON that can stand in a script element: `<`, `>` and `&` occur only inside its strings, where
/// they have another spelling.
fn json_in_html(value: &impl Serialize) -> String {
    // Nothing here has keys that aren't strings, the only thing that could fail.
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

pub(super) fn parts(report: &Report) -> Parts {
    let title = escape(&report.title);
    let charts = charts(&report.series, &report.curves);
    let mut html = format!("<h1>{title}</h1>\n");
    paragraph(&report.about, "about", &mut html);
    origin(report, &mut html);
    if !report.result.checks.is_empty() {
        html.push_str("<h2>Checks</h2>\n");
        checks_html(&report.result.checks, &mut html);
    }
    if !charts.is_empty() {
        html.push_str(
            "<h2>Plots</h2>\n<p class=\"hint\">Drag over a plot to zoom all that share its axis, \
             double-click to see the whole again; click a name to hide its line.</p>\n\
             <noscript><p class=\"hint\">The plots need JavaScript.</p></noscript>\n\
             <div id=\"charts\"></div>\n",
        );
    }
    for figure in &report.figures {
        let _ = writeln!(html, "<figure>{}</figure>", figure.to_svg());
    }
    for table in &report.result.tables {
        let _ = writeln!(html, "<h2>{}</h2>", escape(&table.id));
        table_html(table, &mut html);
    }
    delays_html(report, &mut html);
    if !report.notes.is_empty() {
        html.push_str("<h2>Notes</h2>\n");
        report
            .notes
            .iter()
            .for_each(|note| paragraph(note, "note", &mut html));
    }
    resolved_html(&report.resolved, &mut html);
    let mut scripts = String::new();
    if !charts.is_empty() {
        let data = json_in_html(&charts);
        scripts = format!(
            "<script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script>{PAGE_JS}</script>\n"
        );
    }
    Parts {
        main: html,
        scripts,
    }
}

fn paragraph(text: &str, class: &str, html: &mut String) {
    if !text.is_empty() {
        let _ = writeln!(html, "<p class=\"{class}\">{}</p>", escape(text));
    }
}

/// What it takes to get the same result again.
fn origin(report: &Report, html: &mut String) {
    let seeds = &report.result.seeds;
    let mut parts = Vec::new();
    match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if seeds.len() > 1 => {
            parts.push(format!("{} runs, seeds {first} to {last}", seeds.len()));
        }
        (Some(seed), _) => parts.push(format!("seed {seed}")),
        _ => {}
    }
    if let Some(hash) = &report.result.run_hash {
        let hash = serde_json::to_value(hash).unwrap_or_default();
        let hash = escape(hash.as_str().unwrap_or_default());
        parts.push(format!("run hash <code>{hash}</code>"));
    }
    if !parts.is_empty() {
        let _ = writeln!(html, "<p class=\"origin\">{}</p>", parts.join(" · "));
    }
}

fn head(columns: &[Column], right: impl Fn(usize) -> bool, html: &mut String) {
    html.push_str("<thead><tr>");
    for (index, column) in columns.iter().enumerate() {
        let class = if right(index) {
            " class=\"number\""
        } else {
            ""
        };
        let unit = match column.unit.as_str() {
            "" => String::new(),
            unit => format!(" <span class=\"unit\">{}</span>", escape(unit)),
        };
        let _ = write!(html, "<th{class}>{}{unit}</th>", escape(&column.name));
    }
    html.push_str("</tr></thead>\n");
}

fn table_html(table: &Table, html: &mut String) {
    let is_number = |index: usize| {
        table
            .rows
            .iter()
            .any(|row| matches!(row.get(index), Some(Cell::Number(_))))
    };
    html.push_str("<div class=\"wide\"><table>\n");
    head(&table.columns, is_number, html);
    html.push_str("<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let class = if is_number(index) {
                " class=\"number\""
            } else {
                ""
            };
            let text = match cell {
                Cell::Empty => "–".into(),
                Cell::Text(text) => escape(text),
                Cell::Number(number) => significant(*number),
            };
            let _ = write!(html, "<td{class}>{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

fn checks_html(checks: &[Check], html: &mut String) {
    let columns = ["check", "value", "", "bar", ""].map(|name| Column::new(name, ""));
    html.push_str("<div class=\"wide\"><table>\n");
    head(&columns, |index| index == 1, html);
    html.push_str("<tbody>\n");
    for check in checks {
        let (class, verdict) = match check.ok {
            Some(true) => ("ok", "✓ ok"),
            Some(false) => ("failed", "✗ failed"),
            None => ("open", "not judged"),
        };
        let value = check.value.map_or_else(|| "–".into(), significant);
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"number\">{value}</td><td>{}</td><td>{}</td>\
             <td class=\"{class}\">{verdict}</td></tr>",
            escape(&check.id),
            escape(&check.unit),
            escape(&bar_text(&check.bar)),
        );
    }
    html.push_str("</tbody></table></div>\n");
}

fn bar_text(bar: &Bar) -> String {
    match bar {
        Bar::Text(text) => text.clone(),
        Bar::Range { min, max } => {
            let ends = [("≥", min), ("≤", max)].into_iter();
            let ends = ends
                .filter_map(|(sign, end)| end.map(|end| format!("{sign} {}", significant(end))));
            ends.collect::<Vec<_>>().join(", ")
        }
    }
}

fn delays_html(report: &Report, html: &mut String) {
    let bars = delay_bars(&report.delays);
    if bars.is_empty() {
        return;
    }
    let _ = write!(
        html,
        "<h2>Parts of the delay</h2>\n\
         <p class=\"hint\">Mean delay of a packet of each class, by its parts.</p>\n{bars}\n"
    );
    for (variant, classes) in &report.delays {
        let table = delay_table(classes);
        if !table.rows.is_empty() {
            let _ = writeln!(html, "<h3>{}</h3>", escape(variant));
            table_html(&table, html);
        }
    }
}

fn resolved_html(resolved: &str, html: &mut String) {
    if resolved.is_empty() {
        return;
    }
    let end = resolved.floor_char_boundary(Report::RESOLVED_MAX);
    let cut = if end < resolved.len() {
        "\n# cut here: too long for this page\n"
    } else {
        ""
    };
    let _ = writeln!(
        html,
        "<h2>Configuration</h2>\n<details><summary>Everything this result depends on, as one file\
         </summary>\n<pre>{}{cut}</pre></details>",
        escape(&resolved[..end]),
    );
}

/// A plot as the page's script reads it.
#[derive(Serialize)]
struct ChartData<'a> {
    title: &'a str,
    unit: &'a str,
    /// What it is over; time if absent.
    across: Option<&'a str>,
    lines: Vec<LineData<'a>>,
}

#[derive(Serialize)]
struct LineData<'a> {
    name: &'a str,
    colour: usize,
    held: bool,
    t_s: Vec<f64>,
    values: Vec<f64>,
}

fn charts<'a>(series: &'a [Series], curves: &'a [Curve]) -> Vec<ChartData<'a>> {
    let points_max = Report::POINTS_MAX / (series.len() + curves.len()).max(1);
    let mut names: Vec<&str> = Vec::new();
    let mut charts: Vec<ChartData<'_>> = Vec::new();
    let mut draw = |chart: ChartData<'a>, name: &'a str, held: bool, points: &[(f64, f64)]| {
        let known = names.iter().position(|one| *one == name);
        let colour = known.unwrap_or(names.len());
        if known.is_none() {
            names.push(name);
        }
        let points = downsample(points, points_max);
        let line = LineData {
            name,
            colour,
            held,
            t_s: points.iter().map(|point| rounded(point.0, 7)).collect(),
            values: points.iter().map(|point| rounded(point.1, 5)).collect(),
        };
        let place = charts.iter().position(|one| one.title == chart.title);
        let place = place.unwrap_or_else(|| {
            charts.push(chart);
            charts.len() - 1
        });
        charts[place].lines.push(line);
    };
    let empty = |title, unit, across| ChartData {
        title,
        unit,
        across,
        lines: Vec::new(),
    };
    for one in series {
        let chart = empty(&one.chart, &one.unit, None);
        draw(chart, &one.name, one.held, &one.points);
    }
    for one in curves {
        let chart = empty(&one.chart, &one.unit, Some(&one.across));
        draw(chart, &one.name, true, &one.points);
    }
    charts
}

/// A number with so many significant digits: more than a screen shows, and a short text.
fn rounded(number: f64, digits: usize) -> f64 {
    format!("{number:.*e}", digits - 1)
        .parse()
        .unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use strait_core::delay::{DelayPart, DelayParts};
    use strait_core::stats::ClassStats;

    use super::*;
    use crate::scatter::Figure;
    use crate::table::ResultSet;

    const HOSTILE: &str = "</script><img src=x onerror=\"alert('1')\">&\u{2028}";

    fn report(name: &str, points: usize) -> Report {
        let wave = |n: usize| {
            (
                n as f64 * 0.001,
                (n as f64 * 0.01).sin().abs() + 0.012_345_678,
            )
        };
        let mut table = Table::new(name, vec![Column::new(name, name), Column::new("x", "s")]);
        table.push(vec![name.into(), 1.5.into()]);
        let mut parts = DelayParts::default();
        parts.add(DelayPart::Line, 1_000_000);
        let class = ClassStats {
            name: name.into(),
            packets: 1,
            parts,
            ..ClassStats::default()
        };
        Report {
            title: name.into(),
            about: name.into(),
            result: ResultSet {
                run_hash: Some(0xabc.into()),
                seeds: vec![1, 2, 3],
                tables: vec![table],
                checks: vec![Check::range(name, Some(2.0), name, None, Some(1.0))],
            },
            series: vec![Series {
                chart: name.into(),
                name: name.into(),
                unit: name.into(),
                held: false,
                points: (0..points).map(wave).collect(),
            }],
            curves: vec![Curve {
                chart: format!("{name} by x"),
                name: name.into(),
                across: name.into(),
                points: (0..points.min(100)).map(wave).collect(),
                ..Curve::default()
            }],
            figures: vec![Figure {
                title: name.into(),
                ..Figure::default()
            }],
            delays: vec![(name.into(), vec![class])],
            notes: vec![name.into()],
            resolved: name.into(),
        }
    }

    fn text_of(report: &Report) -> String {
        let Parts { main, scripts } = parts(report);
        main + &scripts
    }

    #[test]
    fn hostile_names_stay_text() {
        let html = text_of(&report(HOSTILE, 5));
        assert!(!html.contains("<img") && !html.contains("onerror=\""));
        let plain = text_of(&report("plain", 5));
        assert_eq!(
            html.matches("<script").count(),
            plain.matches("<script").count()
        );
        assert_eq!(
            html.matches("</script").count(),
            plain.matches("</script").count()
        );
        assert!(html.contains("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)"));
    }

    #[test]
    fn the_data_reads_back() {
        let html = text_of(&report(HOSTILE, 5));
        let data = html
            .split("id=\"data\">")
            .nth(1)
            .unwrap()
            .split("</script>")
            .next()
            .unwrap();
        assert!(!data.contains(['<', '>', '&', '\u{2028}']), "{data}");
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data[0]["title"], HOSTILE);
        assert_eq!(data[0]["lines"][0]["name"], HOSTILE);
        assert_eq!(data[0]["lines"][0]["t_s"][1], 0.001);
        assert_eq!(data[0]["lines"][0]["values"][0], 0.012346);
        assert_eq!(data[0]["across"], serde_json::Value::Null);
        assert_eq!(data[1]["across"], HOSTILE);
        assert_eq!(data[1]["lines"][0]["colour"], 0);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let html = text_of(&report("plain", 5));
        for reference in ["src=", "href=", "@import", "url("] {
            assert!(!html.contains(reference), "{reference}");
        }
    }

    #[test]
    fn a_long_run_stays_below_a_megabyte() {
        let mut long = report("plain", 1_000_000);
        long.series = (0..12)
            .map(|n| Series {
                chart: format!("c{}", n / 2),
                ..long.series[0].clone()
            })
            .collect();
        long.resolved = "é".repeat(400_000);
        let html = text_of(&long);
        assert!(html.len() < 1_000_000, "{}", html.len());
        assert!(html.contains("# cut here"));
    }

    #[test]
    fn one_chart_for_each_quantity_and_one_colour_for_each_name() {
        let series = |chart: &str, name: &str| Series {
            chart: chart.into(),
            name: name.into(),
            points: vec![(0.0, 1.0)],
            ..Series::default()
        };
        let all = [
            series("delay", "fifo"),
            series("delay", "strait"),
            series("queue", "strait"),
            series("delay", "third"),
        ];
        let charts = charts(&all, &[]);
        let shape: Vec<_> = charts
            .iter()
            .flat_map(|chart| {
                chart
                    .lines
                    .iter()
                    .map(|line| (chart.title, line.name, line.colour))
            })
            .collect();
        assert_eq!(
            shape,
            [
                ("delay", "fifo", 0),
                ("delay", "strait", 1),
                ("delay", "third", 2),
                ("queue", "strait", 1)
            ]
        );
    }

    #[test]
    fn an_empty_report_has_no_script() {
        let html = text_of(&Report::default());
        assert!(html.starts_with("<h1>"));
        assert!(!html.contains("<script"));
    }
}
