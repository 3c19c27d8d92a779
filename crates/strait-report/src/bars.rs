//! Results as bars of plain text, 80 columns wide.

use crate::picture::Letters;
use crate::scatter::Figure;
use crate::table::{Bar, Check, significant};

/// Letters of a name.
const NAME: usize = 24;
/// Letters of a bar at most.
const LENGTH: usize = 36;
/// Where what is judged has its bound.
const BOUND: usize = 27;
/// Lines of a picture; behind them the table has all.
const LINES_MAX: usize = 40;

/// Each value that is judged by a bound: how far it is from nothing, on the way to the bound. Where
/// it mustn't be more than the bound its bar ends before the mark, else behind it.
pub fn checks(checks: &[Check], letters: Letters) -> String {
    let lines = checks.iter().filter_map(|check| {
        let Bar::Range { min, max } = check.bar else {
            return None;
        };
        let (value, bound) = (check.value?, max.or(min)?);
        let share = if bound > 0.0 { value / bound } else { value };
        let length = (share * BOUND as f64).clamp(0.0, LENGTH as f64) as usize;
        let bar = (0..LENGTH).map(|at| match at {
            BOUND => '|',
            at if at < length => letters.full(),
            _ => ' ',
        });
        let bar: String = bar.collect();
        let sign = if max.is_some() { "<=" } else { ">=" };
        let fails = if check.ok == Some(false) {
            " FAILS"
        } else {
            ""
        };
        let value = format!("{} {sign} {}", significant(value), significant(bound));
        Some(line(
            &check.id,
            &bar,
            &format!("{value} {}{fails}", check.unit),
        ))
    });
    whole("values, with their bounds (|)", lines)
}

/// Means of a figure: over each value that goes across, a bar for each line.
pub fn means(figure: &Figure, letters: Letters) -> String {
    let marks = || figure.marks.iter();
    let most = marks().flat_map(|it| &it.line).map(|it| it.1);
    let most = most.fold(0.0, f64::max);
    let mut across: Vec<f64> = marks().flat_map(|it| &it.line).map(|it| it.0).collect();
    across.sort_by(f64::total_cmp);
    across.dedup();
    let lines = across.iter().flat_map(|x| {
        marks().filter_map(move |mark| {
            let (_, mean) = mark.line.iter().find(|it| it.0 == *x)?;
            let share = if most > 0.0 { mean / most } else { 0.0 };
            let length = (share * LENGTH as f64).clamp(0.0, LENGTH as f64).round() as usize;
            let bar: String = (0..length).map(|_| letters.full()).collect();
            let ends = mark.intervals.iter().find(|it| it.0 == *x);
            let half = ends.map_or(0.0, |(_, ends)| (ends[1] - ends[0]) / 2.0);
            let spread = if half > 0.0 {
                format!(" ± {}", significant(half))
            } else {
                String::new()
            };
            let name = format!("{} {}", significant(*x), mark.name);
            Some(line(&name, &bar, &(significant(*mean) + &spread)))
        })
    });
    whole(&format!("{}, over {}", figure.up, figure.across), lines)
}

fn line(name: &str, bar: &str, text: &str) -> String {
    let name: String = match name.chars().count() {
        it if it > NAME => name.chars().take(NAME - 1).chain(['~']).collect(),
        _ => name.into(),
    };
    let line = format!("{name:NAME$} {bar:LENGTH$} {text}");
    line.trim_end().to_owned() + "\n"
}

fn whole(title: &str, lines: impl Iterator<Item = String>) -> String {
    let mut text = format!("{title}:\n");
    let mut lines = lines.fuse();
    text.extend(lines.by_ref().take(LINES_MAX));
    match lines.count() {
        0 => {}
        more => text += &format!("{more} more: the table has all\n"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scatter::Marks;

    #[test]
    fn a_bar_ends_before_its_bound_or_behind_it() {
        let check = |id: &str, value, min, max| Check::range(id, value, "s", min, max);
        let all = [
            check("at-most", Some(2.0), None, Some(4.0)),
            check("too-much", Some(50.0), None, Some(4.0)),
            check("at-least", Some(5.0), Some(4.0), None),
            check("nothing", Some(0.0), None, Some(0.0)),
            check("unknown", None, None, Some(4.0)),
        ];
        let text = checks(&all, Letters::Ascii);
        let expected = "values, with their bounds (|):
at-most                  #############              |         2 <= 4 s
too-much                 ###########################|######## 50 <= 4 s FAILS
at-least                 ###########################|#####    5 >= 4 s
nothing                                             |         0 <= 0 s
";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn means_have_one_scale_and_a_picture_has_an_end() {
        let marks = |name: &str, line: &[(f64, f64)], intervals: &[(f64, [f64; 2])]| Marks {
            name: name.into(),
            line: line.into(),
            intervals: intervals.into(),
            ..Marks::default()
        };
        let mut figure = Figure {
            up: "file.time_s [s]".into(),
            across: "loss".into(),
            marks: vec![
                marks("plain", &[(0.0, 4.0), (0.1, 8.0)], &[(0.1, [6.0, 10.0])]),
                marks("strait, and what its axis says", &[(0.1, 2.0)], &[]),
            ],
            ..Figure::default()
        };
        let text = means(&figure, Letters::Ascii);
        let expected = "file.time_s [s], over loss:
0 plain                  ##################                   4
0.1 plain                #################################### 8 ± 2
0.1 strait, and what it~ #########                            2
";
        assert_eq!(text, expected, "{text}");
        figure.marks[0].line = (0..100).map(|x| (f64::from(x), f64::NAN)).collect();
        let text = means(&figure, Letters::Unicode);
        assert_eq!(text.lines().count(), LINES_MAX + 2);
    }
}
