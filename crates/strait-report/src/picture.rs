//! A run as one picture of plain text, 80 columns wide: what took how long, and what the line
//! carried meanwhile, for each variant beside the others.

use std::collections::BTreeMap;

use strait_status::{Snapshot, Span};

/// Letters of a line.
const WIDTH: usize = 80;
/// Letters left of the plots, for their axis.
const AXIS: usize = 8;
/// Lines of the plot of values over time.
const HEIGHT: usize = 6;
/// Lines of the plot of the line's use.
const USE_HEIGHT: usize = 5;
/// Variants that stand side by side; of more, the first.
const COLUMNS_MAX: usize = 3;

/// What a class took of a line, from the moment before until this one: a time, and shares by the
/// class's name, the most urgent first.
pub type Shares = (f64, Vec<(String, f64)>);

/// One run, as far as the picture has it.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Of the variant.
    pub name: String,
    /// Moments of a run and what was measured of each, in s.
    pub values: Vec<(f64, f64)>,
    /// Of the line.
    pub shares: Vec<Shares>,
}

/// What a picture is of.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// What the values are: `delay of voice`.
    pub values: String,
    /// The line whose use it shows.
    pub line: String,
    /// Where its time ends.
    pub end_s: f64,
    /// Side by side.
    pub scenes: Vec<Scene>,
}

/// Letters for plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Dots of Braille, eight a letter, and blocks.
    Unicode,
    /// What every terminal has.
    Ascii,
}

impl Letters {
    /// Of classes, the one that used the line most first; the last is of all that come later.
    const fn areas(self) -> [char; 4] {
        match self {
            Self::Unicode => ['█', '▒', '░', '·'],
            Self::Ascii => ['#', '=', '-', '.'],
        }
    }

    /// Of a bar.
    pub(crate) const fn full(self) -> char {
        self.areas()[0]
    }

    /// Dots of a letter: across, and up.
    const fn dots(self) -> (usize, usize) {
        match self {
            Self::Unicode => (2, 4),
            Self::Ascii => (1, 1),
        }
    }
}

impl Picture {
    /// What is known `until_s`, as lines of text.
    pub fn text(&self, until_s: f64, letters: Letters) -> String {
        let scenes = &self.scenes[..self.scenes.len().min(COLUMNS_MAX)];
        let count = scenes.len().max(1);
        let width = (WIDTH - AXIS - 2 * (count - 1)) / count;
        let known = |it: &&(f64, f64)| it.0 <= until_s.min(self.end_s);
        let all = scenes.iter().flat_map(|scene| &scene.values);
        let high = round_up(all.map(|it| it.1).fold(0.0, f64::max));
        let mut text = String::new();
        let heads = scenes.iter().map(|it| it.name.clone());
        text += &row("", heads.map(|it| format!("{it:^width$}")));
        if high > 0.0 {
            text += &format!("{}:\n", self.values);
            let plots = scenes.iter().map(|scene| {
                let points = scene.values.iter().filter(known);
                let points = points.map(|(at_s, value)| (at_s / self.end_s, value / high));
                dotted(points, width, letters)
            });
            text += &rows(&plots.collect::<Vec<_>>(), &seconds(high), "0 s");
        }
        let classes = self.classes(letters);
        if !classes.is_empty() {
            text += &format!("use of {}:\n", self.line);
            let plots = scenes
                .iter()
                .map(|scene| self.areas(scene, &classes, (width, until_s)));
            text += &rows(&plots.collect::<Vec<_>>(), "100 %", "0 %");
        }
        let end = seconds(self.end_s);
        let axis = scenes
            .iter()
            .map(|_| format!("0 s{end:>width$}", width = width - 3));
        text += &row("", axis);
        let lone = |letter: char| classes.iter().filter(|it| it.1 == letter).count() == 1;
        let named = classes.iter().filter(|it| lone(it.1));
        let mut keys: Vec<String> = named.map(|it| format!("{} {}", it.1, it.0)).collect();
        let rest = classes.iter().find(|it| !lone(it.1));
        keys.extend(rest.map(|it| format!("{} others", it.1)));
        if !keys.is_empty() {
            text += &row("", [keys.join("   ")].into_iter());
        }
        text
    }

    /// Classes that ever sent, in the order of the nodes that have them, and their letters.
    fn classes(&self, letters: Letters) -> Vec<(&str, char)> {
        let mut sums: Vec<(&str, f64)> = Vec::new();
        let all = self.scenes.iter().flat_map(|it| &it.shares);
        for (name, share) in all.flat_map(|it| &it.1) {
            match sums.iter_mut().find(|it| it.0 == name) {
                Some(sum) => sum.1 += share,
                None => sums.push((name, *share)),
            }
        }
        sums.retain(|it| it.1 > 0.001);
        let letter = |sum: f64| {
            let larger = sums.iter().filter(|it| it.1 > sum).count();
            letters.areas()[larger.min(letters.areas().len() - 1)]
        };
        sums.iter().map(|it| (it.0, letter(it.1))).collect()
    }

    fn areas(
        &self,
        scene: &Scene,
        classes: &[(&str, char)],
        (width, until_s): (usize, f64),
    ) -> Vec<String> {
        let mut lines = vec![String::new(); USE_HEIGHT];
        let step_s = self.end_s / width as f64;
        for slot in 0..width {
            let (from_s, to_s) = (slot as f64 * step_s, (slot + 1) as f64 * step_s);
            let shares = scene.within(from_s, to_s);
            for (line, up) in lines.iter_mut().zip((0..USE_HEIGHT).rev()) {
                let middle = (up as f64 + 0.5) / USE_HEIGHT as f64;
                let mut below = 0.0;
                let found = classes.iter().find(|(class, _)| {
                    below += shares.get(class).copied().unwrap_or(0.0);
                    below > middle
                });
                let found = found.filter(|_| to_s <= until_s + step_s / 2.0);
                line.push(found.map_or(' ', |it| it.1));
            }
        }
        lines
    }
}

impl Scene {
    /// Mean shares between two moments.
    fn within(&self, from_s: f64, to_s: f64) -> BTreeMap<&str, f64> {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        let mut was_s = 0.0;
        for (at_s, shares) in &self.shares {
            let common_s = at_s.min(to_s) - f64::max(was_s, from_s);
            was_s = *at_s;
            if common_s > 0.0 {
                for (class, share) in shares {
                    *sums.entry(class).or_default() += share * common_s / (to_s - from_s);
                }
            }
        }
        sums
    }
}

/// Points of the unit square as letters, the upper line first.
fn dotted(points: impl Iterator<Item = (f64, f64)>, width: usize, letters: Letters) -> Vec<String> {
    let (across, up) = letters.dots();
    let mut cells = vec![vec![0u32; width]; HEIGHT];
    let place = |share: f64, dots: usize| ((share * dots as f64) as usize).min(dots - 1);
    for (x, y) in points {
        let (x, y) = (place(x, width * across), place(y, HEIGHT * up));
        let line = HEIGHT - 1 - y / up;
        // From the top, Braille has its dots 1 to 3 and 7 on the left, 4 to 6 and 8 on the right.
        let bits = [[6, 2, 1, 0], [7, 5, 4, 3]];
        cells[line][x / across] |= 1 << bits[x % across][y % up];
    }
    let letter = |dots: &u32| match (dots, letters) {
        (0, _) => ' ',
        (_, Letters::Ascii) => '*',
        (dots, Letters::Unicode) => char::from_u32(0x2800 + dots).unwrap_or('*'),
    };
    cells
        .iter()
        .map(|line| line.iter().map(letter).collect())
        .collect()
}

/// Lines of plots side by side, with what their upper and lower ends stand for.
fn rows(plots: &[Vec<String>], top: &str, bottom: &str) -> String {
    let height = plots.first().map_or(0, Vec::len);
    let line = |n: usize| {
        let label = match n {
            0 => top,
            n if n + 1 == height => bottom,
            _ => "",
        };
        row(label, plots.iter().map(|plot| plot[n].clone()))
    };
    (0..height).map(line).collect()
}

fn row(label: &str, parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    let text = format!("{label:>width$} {}", parts.join("  "), width = AXIS - 1);
    format!("{}\n", text.trim_end())
}

/// The next figure of one digit with zeros.
fn round_up(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 0.0;
    }
    let size = 10f64.powf(value.log10().floor());
    (value / size - 1e-9).ceil() * size
}

fn seconds(value: f64) -> String {
    match value {
        it if it < 0.1 => format!("{:.0} ms", it * 1e3),
        it if it < 1.0 => format!("{it:.1} s"),
        it => format!("{it:.0} s"),
    }
}

/// What gateways said of their links on the way, for [`Scene::shares`].
#[derive(Debug, Default)]
pub struct Watched {
    last: BTreeMap<String, Snapshot>,
    /// Of each link: for how long it sent, and shares over time.
    links: BTreeMap<String, (f64, Vec<Shares>)>,
}

impl Watched {
    /// A gateway says this at a moment of the run.
    pub fn hear(&mut self, at_s: f64, snapshot: &Snapshot) {
        let before = self.last.remove(&snapshot.node);
        let history: Vec<Snapshot> = before.into_iter().chain([snapshot.clone()]).collect();
        if let Some(span) = Span::new(&history) {
            let classes = span.classes();
            let sent: f64 = classes.iter().map(|it| it.sent_octets).sum();
            for link in &span.links {
                let part = |octets: f64| link.busy * octets / sent.max(1.0);
                let shares = classes
                    .iter()
                    .map(|it| (it.class.name.clone(), part(it.sent_octets)));
                let name = format!("{}.{}", snapshot.node, link.port.name);
                let (busy_s, all) = self.links.entry(name).or_default();
                *busy_s += link.busy * span.s;
                all.push((at_s, shares.collect()));
            }
        }
        self.last.insert(snapshot.node.clone(), snapshot.clone());
    }

    /// The link that sent for longest.
    pub fn busiest(&self) -> Option<&str> {
        let links = self.links.iter();
        let most = links.max_by(|one, other| one.1.0.total_cmp(&other.1.0));
        most.map(|(name, _)| name.as_str())
    }

    /// What classes took of a link.
    pub fn shares(&self, link: &str) -> Vec<Shares> {
        self.links
            .get(link)
            .map_or_else(Vec::new, |it| it.1.clone())
    }
}

#[cfg(test)]
mod tests {
    use strait_status::{Class, Port};

    use super::*;

    fn scene(name: &str, high: f64, shares: &[(&str, f64)]) -> Scene {
        let shares: Vec<(String, f64)> = shares
            .iter()
            .map(|(class, share)| ((*class).to_owned(), *share))
            .collect();
        Scene {
            name: name.into(),
            values: (0..100)
                .map(|at| (f64::from(at), high * f64::from(at) / 99.0))
                .collect(),
            shares: vec![(50.0, shares), (100.0, Vec::new())],
        }
    }

    fn both() -> Picture {
        Picture {
            values: "delay of voice".into(),
            line: "a.line".into(),
            end_s: 100.0,
            scenes: vec![
                scene("plain", 20.0, &[("all", 1.0)]),
                scene("strait", 0.04, &[("voice", 0.3), ("data", 0.4)]),
            ],
        }
    }

    #[test]
    fn a_picture_has_both_columns_and_the_same_scale() {
        let text = both().text(100.0, Letters::Ascii);
        let expected = "                       plain                               strait
delay of voice:
   20 s                              ******
                               ******
                         ******
                   *******
             *******
    0 s ******                               ***********************************
use of a.line:
  100 % #################
        #################
        #################                    =================
        ##################                   ==================
    0 % ##################                   ------------------
        0 s                           100 s  0 s                           100 s
        # all   - voice   = data
";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_are_no_longer_than_a_terminal_and_what_is_to_come_isnt_drawn() {
        for letters in [Letters::Ascii, Letters::Unicode] {
            for scenes in 0..5 {
                let mut picture = both();
                picture.scenes = vec![picture.scenes[0].clone(); scenes];
                let text = picture.text(100.0, letters);
                assert!(
                    text.lines().all(|line| line.chars().count() <= WIDTH),
                    "{text}"
                );
                assert!(text.is_ascii() || letters == Letters::Unicode);
            }
        }
        let part = both().text(25.0, Letters::Ascii);
        assert_eq!(
            part.lines().nth(7),
            Some("    0 s ******                               *********")
        );
        assert_eq!(part.lines().nth(9), Some("  100 % #########"));
    }

    #[test]
    fn nothing_measured_and_values_that_are_none_make_no_plot() {
        assert_eq!(
            Picture::default().text(1.0, Letters::Ascii).lines().count(),
            2
        );
        let mut picture = both();
        picture.scenes[0].values = vec![(0.0, f64::NAN), (f64::NAN, 1.0), (-5.0, 2.0)];
        picture.text(100.0, Letters::Unicode);
        assert_eq!(
            [0.04, 0.1, 19.8, 2.1, 1000.0].map(round_up),
            [0.04, 0.1, 20.0, 3.0, 1000.0]
        );
    }

    #[test]
    fn shares_are_what_a_line_was_busy_with() {
        let said = |at: u32| Snapshot {
            node: "a".into(),
            uptime_s: f64::from(at),
            ports: vec![Port {
                name: "line".into(),
                busy_s: f64::from(at) / 2.0,
                ..Port::default()
            }],
            classes: ["voice", "data"]
                .map(|name| Class {
                    name: name.into(),
                    sent_octets: if name == "data" {
                        300 * u64::from(at)
                    } else {
                        100 * u64::from(at)
                    },
                    ..Class::default()
                })
                .into(),
            ..Snapshot::default()
        };
        let mut watched = Watched::default();
        for at in [1, 3, 5] {
            watched.hear(f64::from(at), &said(at));
        }
        assert_eq!(watched.busiest(), Some("a.line"));
        let shares = watched.shares("a.line");
        assert_eq!(shares.len(), 3);
        let expected = vec![("voice".to_owned(), 0.125), ("data".to_owned(), 0.375)];
        assert_eq!(shares[1], (3.0, expected));
    }
}
