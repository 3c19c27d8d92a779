//! Points and lines over something else than time, as a picture.

use std::fmt::Write;

use serde::Serialize;

use super::page::escape;
use crate::table::significant;

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// Its heading.
    pub title: String,
    /// What goes to the right, with its unit.
    pub across: String,
    /// What goes up, with its unit.
    pub up: String,
    /// What is drawn, each in a colour of its own.
    pub marks: Vec<Marks>,
}

/// Points, and a line through them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Marks {
    /// Their name.
    pub name: String,
    /// Each is drawn as a small circle.
    pub points: Vec<(f64, f64)>,
    /// Corners of the line; may be empty.
    pub line: Vec<(f64, f64)>,
    /// Where an interval stands, its lower and its upper end; may be empty.
    pub intervals: Vec<(f64, [f64; 2])>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 340.0;
/// Points drawn of one set: more than can be told apart.
const POINTS_MAX: usize = 2000;
const COLOURS: [&str; 8] = [
    "#3b74b9", "#c0504d", "#4f8f3a", "#8064a2", "#b8860b", "#2c8c99", "#b8336a", "#5c5c5c",
];
/// From one row of names to the next.
const NAMES: f64 = 16.0;

impl Figure {
    /// The picture as SVG. It begins at 0 both ways and ends above the largest value.
    pub fn to_svg(&self) -> String {
        let up = Axis::up_to(self.all().map(|point| point.1).fold(0.0, f64::max));
        self.draw(&up)
    }

    /// The same with values above 0 only that go up by powers of ten.
    pub fn to_svg_by_tens(&self) -> String {
        let values = || self.all().map(|point| point.1).filter(|value| *value > 0.0);
        let up = Axis::by_tens(
            values().fold(f64::MAX, f64::min),
            values().fold(0.0, f64::max),
        );
        self.draw(&up)
    }

    fn all(&self) -> impl Iterator<Item = (f64, f64)> {
        let each = self.marks.iter();
        each.flat_map(|marks| {
            let intervals = marks.intervals.iter();
            let ends = intervals.flat_map(|(x, ends)| ends.map(|end| (*x, end)));
            marks.points.iter().chain(&marks.line).copied().chain(ends)
        })
        .filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    fn draw(&self, up: &Axis) -> String {
        let across = Axis::up_to(self.all().map(|point| point.0).fold(0.0, f64::max));
        let place = |(x, y): (f64, f64)| {
            let x = LEFT + across.share(x) * (RIGHT - LEFT);
            (x, BOTTOM - up.share(y) * (BOTTOM - TOP))
        };
        let (_, height) = self.names();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{0}</text>\n",
            escape(&self.title)
        );
        self.grid(&across, up, &mut svg);
        for (marks, colour) in self.marks.iter().zip(COLOURS.iter().cycle()) {
            let step = marks.points.len().div_ceil(POINTS_MAX).max(1);
            for point in marks.points.iter().step_by(step) {
                let (x, y) = place(*point);
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\" \
                     fill-opacity=\"0.5\"/>"
                );
            }
            for (x, [low, high]) in &marks.intervals {
                let ((x, low), (_, high)) = (place((*x, *low)), place((*x, *high)));
                let _ = writeln!(
                    svg,
                    "<path d=\"M{x:.1} {low:.1} V{high:.1} m-3 0 h6 M{x:.1} {low:.1} m-3 0 h6\" \
                     stroke=\"{colour}\"/>"
                );
            }
            let corners = marks.line.iter().map(|corner| {
                let (x, y) = place(*corner);
                format!("{x:.1},{y:.1}")
            });
            let corners: Vec<String> = corners.collect();
            if !corners.is_empty() {
                let _ = writeln!(
                    svg,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>",
                    corners.join(" ")
                );
            }
        }
        self.legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn grid(&self, across: &Axis, up: &Axis, svg: &mut String) {
        for value in across.ticks() {
            let x = LEFT + across.share(value) * (RIGHT - LEFT);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {TOP} V{BOTTOM}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"356\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
                significant(value)
            );
        }
        for value in up.ticks() {
            let y = BOTTOM - up.share(value) * (BOTTOM - TOP);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1} H{RIGHT}\" stroke=\"#ddd\"/>\
                 <text x=\"62\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
                y + 4.0,
                significant(value)
            );
        }
        let (middle, height) = (f64::midpoint(LEFT, RIGHT), f64::midpoint(TOP, BOTTOM));
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"374\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(16 {height}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(&self.across),
            escape(&self.up)
        );
    }

    /// Where the name of each of the marks begins, and how far down the last one goes.
    fn names(&self) -> (Vec<(f64, f64)>, f64) {
        let (mut x, mut y) = (LEFT, HEIGHT - 11.0);
        let mut places = Vec::new();
        for marks in &self.marks {
            let width = 40.0 + 7.0 * marks.name.chars().count() as f64;
            if x > LEFT && x + width > WIDTH {
                (x, y) = (LEFT, y + NAMES);
            }
            places.push((x, y));
            x += width;
        }
        (places, y + 11.0)
    }

    fn legend(&self, svg: &mut String) {
        let (places, _) = self.names();
        let colours = COLOURS.iter().cycle();
        for ((marks, (x, y)), colour) in self.marks.iter().zip(places).zip(colours) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{y:.0}\" r=\"4\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                x + 4.0,
                x + 14.0,
                y + 4.0,
                escape(&marks.name)
            );
        }
    }
}

/// From 0 to a round number, or from one power of ten to another.
struct Axis {
    /// `None`: steps are equal.
    from: Option<f64>,
    end: f64,
    step: f64,
}

impl Axis {
    fn up_to(most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let ten = 10f64.powf((most / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * ten);
        // A whole number of steps may come out as a little more.
        let steps = |step: &f64| most / step - 1e-9;
        let step = step.into_iter().find(|step| steps(step) <= 7.0);
        let step = step.unwrap_or(most);
        Self {
            from: None,
            end: steps(&step).ceil().max(1.0) * step,
            step,
        }
    }

    fn by_tens(least: f64, most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let from = 10f64.powf(least.min(most).log10().floor());
        Self {
            from: Some(from),
            end: 10f64.powf(most.log10().ceil()).max(10.0 * from),
            step: 10.0,
        }
    }

    fn share(&self, value: f64) -> f64 {
        let share = match self.from {
            None => value / self.end,
            Some(from) => (value / from).ln() / (self.end / from).ln(),
        };
        // What has no upper end, such as an interval with runs that never ended, goes to the top.
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let count = match self.from {
            None => self.end / self.step,
            Some(from) => (self.end / from).log10(),
        };
        (0..=count.round() as i32).map(|tick| match self.from {
            None => f64::from(tick) * self.step,
            Some(from) => from * self.step.powi(tick),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [1400.0, 1.79, 0.07, 0.0, 7.0].map(|most| Axis::up_to(most).end);
        let expected = [1400.0, 2.0, 0.07, 1.0, 7.0];
        for (end, expected) in ends.into_iter().zip(expected) {
            assert!((end - expected).abs() < 1e-9, "{end} {expected}");
        }
        assert_eq!(Axis::up_to(1400.0).ticks().count(), 8);
    }

    #[test]
    fn powers_of_ten_are_as_far_apart_as_each_other() {
        let axis = Axis::by_tens(4.2, 1451.0);
        let ticks: Vec<f64> = axis.ticks().collect();
        assert_eq!(ticks.len(), 5);
        for ((tick, expected), share) in ticks.into_iter().zip([1.0, 10.0, 1e2, 1e3, 1e4]).zip(0..)
        {
            assert!((tick - expected).abs() < 1e-6 * expected, "{tick}");
            assert!((axis.share(tick) - f64::from(share) / 4.0).abs() < 1e-9);
        }
        for (value, share) in [
            (0.0, 0.0),
            (1e9, 1.0),
            (f64::INFINITY, 1.0),
            (f64::NAN, 0.0),
        ] {
            assert!((axis.share(value) - share).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn points_stand_where_they_belong_and_names_stay_text() {
        let figure = Figure {
            title: "a <b>".into(),
            marks: vec![Marks {
                name: "\"c\" & d".into(),
                points: vec![(0.0, 0.0), (7.0, 7.0), (3.5, f64::NAN)],
                line: vec![(0.0, 7.0), (7.0, 0.0)],
                intervals: vec![(3.5, [3.5, 7.0])],
            }],
            ..Figure::default()
        };
        let svg = figure.to_svg();
        assert!(svg.contains("<circle cx=\"70.0\" cy=\"340.0\""));
        assert!(svg.contains("<circle cx=\"700.0\" cy=\"40.0\""));
        assert!(svg.contains("points=\"70.0,40.0 700.0,340.0\""));
        assert!(svg.contains("<path d=\"M385.0 190.0 V40.0"));
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("&quot;c&quot; &amp; d"));
        assert_eq!(svg.matches("<circle").count(), 4);
    }
}
