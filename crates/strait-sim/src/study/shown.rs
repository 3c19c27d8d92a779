//! What a study's file makes of what was measured: tables of it, and checks.
//!
//! What was measured is rows of named values, part by part. A figure is the name of a value, by
//! itself or as an estimate of several: `loss`, `median(time_s)`, `max(delay_s) / bar_s`.

use std::collections::BTreeMap;

use serde::Deserialize;
use strait_node::config_text::{self, ConfigError};
use strait_report::estimate::{mean, mean_interval, median_interval, percentile};
use strait_report::table::{Cell, Check, Column, Table};
use toml::Value;

/// What one case came to: words and numbers by name, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row(Vec<(String, Entry)>);

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    /// It has none.
    Nothing,
    /// A word.
    Word(String),
    /// A number, or one of each run. What wasn't reached is infinite.
    Numbers(Vec<f64>),
}

macro_rules! entries {
    ($($from:ty: $value:ident => $entry:expr;)*) => {$(
        impl From<$from> for Entry {
            fn from($value: $from) -> Self {
                $entry
            }
        }
    )*};
}

entries! {
    &str: word => Self::Word(word.into());
    String: word => Self::Word(word);
    f64: number => Self::Numbers(vec![number]);
    u64: number => Self::Numbers(vec![number as f64]);
    usize: number => Self::Numbers(vec![number as f64]);
    Vec<f64>: numbers => Self::Numbers(numbers);
    Option<f64>: number => number.map_or(Self::Nothing, Self::from);
    Option<Vec<f64>>: numbers => numbers.map_or(Self::Nothing, Self::from);
    Option<String>: word => word.map_or(Self::Nothing, Self::from);
}

impl Row {
    /// The row with one value more.
    pub(super) fn with(mut self, name: impl Into<String>, entry: impl Into<Entry>) -> Self {
        self.0.push((name.into(), entry.into()));
        self
    }

    /// Its words and numbers, as a name.
    pub(super) fn name(&self) -> String {
        let words = self.0.iter().filter_map(|(_, entry)| match entry {
            Entry::Word(word) => Some(word.clone()),
            Entry::Numbers(numbers) => numbers.first().map(f64::to_string),
            Entry::Nothing => None,
        });
        words.collect::<Vec<_>>().join("-")
    }

    /// The median of its numbers, if that was reached.
    pub(super) fn median(&self, name: &str) -> Option<f64> {
        match self.find(name)? {
            Entry::Numbers(numbers) => Estimate::Percentile(0.5).of(numbers),
            _ => None,
        }
    }

    /// Ends of the 95 % interval of its median.
    pub(super) fn median_interval(&self, name: &str) -> Option<[f64; 2]> {
        match self.find(name)? {
            Entry::Numbers(numbers) => median_interval(numbers),
            _ => None,
        }
    }

    /// A word.
    pub(super) fn word(&self, name: &str) -> Option<&str> {
        match self.find(name)? {
            Entry::Word(word) => Some(word),
            _ => None,
        }
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        self.0.iter().find(|(own, _)| own == name).map(|it| &it.1)
    }

    fn is(&self, only: &Only) -> bool {
        only.iter().all(|(name, wanted)| {
            let equal = |wanted: &Value| match (self.find(name), wanted) {
                (Some(Entry::Word(own)), Value::String(word)) => own == word,
                (Some(Entry::Numbers(own)), Value::Float(number)) => own[..] == [*number],
                (Some(Entry::Numbers(own)), Value::Integer(number)) => own[..] == [*number as f64],
                _ => false,
            };
            match wanted {
                Value::Array(several) => several.iter().any(equal),
                one => equal(one),
            }
        })
    }
}

/// Values that rows have to have: each one, or one of several.
type Only = BTreeMap<String, Value>;

/// Rows by part.
pub(super) type Parts = BTreeMap<&'static str, Vec<Row>>;

/// What is told of several numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Estimate {
    Mean,
    HalfWidth,
    Percentile(f64),
    Interval(usize),
    Least,
    Most,
    Sum,
    Count,
    /// How many are infinite.
    Late,
}

impl Estimate {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "mean" => Self::Mean,
            "half" => Self::HalfWidth,
            "median" => Self::Percentile(0.5),
            "from" => Self::Interval(0),
            "to" => Self::Interval(1),
            "min" => Self::Least,
            "max" => Self::Most,
            "sum" => Self::Sum,
            "count" => Self::Count,
            "late" => Self::Late,
            _ => {
                let percent: u8 = word.strip_prefix('p')?.parse().ok()?;
                Self::Percentile(f64::from(percent.min(100)) / 100.0)
            }
        })
    }

    fn of(self, numbers: &[f64]) -> Option<f64> {
        let all = || numbers.iter().copied();
        let estimate = match self {
            Self::Mean => mean(numbers),
            Self::HalfWidth => mean_interval(numbers).and_then(|it| it.half_width),
            Self::Percentile(share) => percentile(numbers, share),
            Self::Interval(end) => median_interval(numbers).map(|ends| ends[end]),
            Self::Least => all().reduce(f64::min),
            Self::Most => all().reduce(f64::max),
            Self::Sum => all().reduce(|sum, it| sum + it),
            Self::Count => Some(numbers.len() as f64),
            Self::Late => Some(all().filter(|it| it.is_infinite()).count() as f64),
        };
        estimate.filter(|it| it.is_finite())
    }
}

/// A value's name, and what is told of its numbers.
#[derive(Clone, Debug, PartialEq)]
struct Term(String, Estimate);

/// A number of a row: `name`, `estimate(name)`, or one over another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Figure {
    term: Term,
    over: Option<Term>,
}

impl TryFrom<String> for Figure {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let term = |text: &str| match text.split_once('(') {
            None => Ok(Term(text.into(), Estimate::Mean)),
            Some((word, name)) => {
                let both = name.strip_suffix(')').zip(Estimate::named(word));
                both.map(|(name, it)| Term(name.into(), it)).ok_or_else(|| {
                    format!(
                        "`{text}` is no figure: write a value's name, or one of mean, half, median, \
                         from, to, min, max, sum, count, late and p0 to p100 of it: p99(delay_s)"
                    )
                })
            }
        };
        let (one, other) = match text.split_once(" / ") {
            Some((one, other)) => (one, Some(other)),
            None => (text.as_str(), None),
        };
        Ok(Self {
            term: term(one)?,
            over: other.map(term).transpose()?,
        })
    }
}

impl Figure {
    /// Of the numbers of all these rows, if each has some.
    fn of(&self, rows: &[&Row]) -> Option<f64> {
        let number = |term: &Term| {
            let numbers = rows.iter().map(|row| match row.find(&term.0) {
                Some(Entry::Numbers(numbers)) => Some(&numbers[..]),
                _ => None,
            });
            term.1.of(&numbers.collect::<Option<Vec<_>>>()?.concat())
        };
        let value = number(&self.term)?;
        let over = self.over.as_ref().map(number);
        let value = over.map_or(Some(value), |over| Some(value / over?));
        value.filter(|it| it.is_finite())
    }

    fn cell(&self, row: &Row) -> Cell {
        match row.find(&self.term.0) {
            Some(Entry::Word(word)) => word.as_str().into(),
            _ => self.of(&[row]).into(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [&self.term].into_iter().chain(&self.over).map(|it| &*it.0)
    }
}

/// A column: `title [unit] = figure`, or the figure alone. With a `*` in both it stands for all
/// values whose names have something in its place.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Shape {
    title: String,
    unit: String,
    figure: Figure,
}

impl TryFrom<String> for Shape {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (head, figure) = text.split_once(" = ").unwrap_or((&text, &text));
        let parts = head.strip_suffix(']').and_then(|it| it.rsplit_once(" ["));
        let (title, unit) = parts.unwrap_or((head, ""));
        Ok(Self {
            title: title.into(),
            unit: unit.into(),
            figure: figure.to_owned().try_into()?,
        })
    }
}

impl Shape {
    fn columns(&self, rows: &[&Row]) -> Vec<(Column, Figure)> {
        let column = |title: String, figure| (Column::new(title, self.unit.as_str()), figure);
        let Some((before, after)) = self.figure.term.0.split_once('*') else {
            return vec![column(self.title.clone(), self.figure.clone())];
        };
        let names = rows.first().map_or(&[][..], |row| &row.0);
        let columns = names.iter().filter_map(|(name, _)| {
            let star = name.strip_prefix(before)?.strip_suffix(after)?;
            let mut figure = self.figure.clone();
            figure.term.0.clone_from(name);
            Some(column(self.title.replace('*', star), figure))
        });
        columns.collect()
    }
}

/// A table of a part's rows; without that part there is no table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableShape {
    id: String,
    of: String,
    /// Which rows.
    #[serde(default)]
    only: Only,
    /// A value that one of them has to have: else there is no table.
    needs: Option<String>,
    columns: Vec<Shape>,
}

impl TableShape {
    fn table(&self, parts: &Parts) -> Option<Table> {
        let rows = parts.get(self.of.as_str())?.iter();
        let rows: Vec<&Row> = rows.filter(|row| row.is(&self.only)).collect();
        if is_lacking(self.needs.as_deref(), &rows) {
            return None;
        }
        let columns = self.columns.iter().flat_map(|shape| shape.columns(&rows));
        let (columns, figures): (_, Vec<Figure>) = columns.unzip();
        let mut table = Table::new(self.id.as_str(), columns);
        for row in rows {
            table.push(figures.iter().map(|figure| figure.cell(row)).collect());
        }
        Some(table)
    }

    /// Every name in it, and where it stands.
    fn names(&self) -> Vec<(String, &str)> {
        let columns = self.columns.iter().enumerate().flat_map(|(place, shape)| {
            let names = shape.figure.names().filter(|name| !name.contains('*'));
            names.map(move |name| (format!("columns.{place}"), name))
        });
        let only = self.only.keys().map(|key| (format!("only.{key}"), &**key));
        let needs = self.needs.iter().map(|key| ("needs".into(), &**key));
        columns.chain(only).chain(needs).collect()
    }
}

fn is_lacking(needed: Option<&str>, rows: &[&Row]) -> bool {
    let has = |name| move |row: &&Row| !matches!(row.find(name), None | Some(Entry::Nothing));
    needed.is_some_and(|name| !rows.iter().any(has(name)))
}

/// How the values of several rows become one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Take {
    /// The greatest, of all that should have one.
    Max,
    /// The least, of the same.
    Min,
    /// The figure of all their numbers together.
    All,
}

/// A number, or one of the rows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Bar {
    Number(f64),
    Figure(Figure),
}

/// What a figure of a part's rows has to be; without that part there is no check.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// The check's name. Without it there is a check for each name that rows have as `check`.
    id: Option<String>,
    of: String,
    /// Which rows.
    #[serde(default)]
    only: Only,
    value: Figure,
    /// Rows to whose value it is set in proportion; where they are several, so that it is worst.
    against: Option<Only>,
    /// The worst if absent: the least where there is only `min`, else the greatest.
    take: Option<Take>,
    #[serde(default)]
    pub(super) unit: String,
    min: Option<Bar>,
    max: Option<Bar>,
    /// A value that one of the rows has to have: else there is nothing to judge.
    pub(super) needs: Option<String>,
}

impl Expect {
    /// A bar for a median of those rows, or for the proportion of it to that of others.
    pub(super) fn median(
        [id, of, value]: [&str; 3],
        only_of: &[(&str, Value)],
        against: Option<&[(&str, Value)]>,
        max: f64,
    ) -> Self {
        let only = |keys: &[(&str, Value)]| {
            let keys = keys
                .iter()
                .map(|(key, value)| ((*key).into(), value.clone()));
            keys.collect()
        };
        Self {
            id: Some(id.into()),
            of: of.into(),
            only: only(only_of),
            value: Figure {
                term: Term(value.into(), Estimate::Percentile(0.5)),
                over: None,
            },
            against: against.map(only),
            take: None,
            unit: String::new(),
            min: None,
            max: Some(Bar::Number(max)),
            needs: None,
        }
    }

    pub(super) fn checks(&self, parts: &Parts) -> Vec<Check> {
        let Some(all) = parts.get(self.of.as_str()) else {
            return Vec::new();
        };
        let chosen = all.iter().filter(|row| row.is(&self.only));
        if let Some(id) = &self.id {
            return vec![self.check(id, &chosen.collect::<Vec<_>>(), all)];
        }
        let mut named: Vec<(&str, Vec<&Row>)> = Vec::new();
        for row in chosen {
            let Some(id) = row.word("check").filter(|id| !id.is_empty()) else {
                continue;
            };
            match named.iter_mut().find(|(name, _)| *name == id) {
                Some((_, rows)) => rows.push(row),
                None => named.push((id, vec![row])),
            }
        }
        let checks = named.iter().map(|(id, own)| self.check(id, own, all));
        checks.collect()
    }

    fn check(&self, id: &str, own: &[&Row], all: &[Row]) -> Check {
        let usual = match (&self.min, &self.max) {
            (Some(_), None) => Take::Min,
            _ => Take::Max,
        };
        let take = self.take.unwrap_or(usual);
        let mut value = self.value(own, take);
        if let Some(only) = &self.against {
            let others = all.iter().filter(|row| row.is(only));
            let take = match take {
                Take::Max => Take::Min,
                Take::Min => Take::Max,
                Take::All => Take::All,
            };
            let other = self.value(&others.collect::<Vec<_>>(), take);
            value = value.zip(other).map(|(own, other)| own / other);
        }
        // Of the bars of several rows, the strictest.
        let bar = |bar: &Option<Bar>, strictest: fn(f64, f64) -> f64| match bar.as_ref()? {
            Bar::Number(number) => Some(*number),
            Bar::Figure(figure) => {
                let bars = own.iter().filter_map(|row| figure.of(&[row]));
                bars.reduce(strictest)
            }
        };
        let (min, max) = (bar(&self.min, f64::max), bar(&self.max, f64::min));
        let lacking = is_lacking(self.needs.as_deref(), own);
        let value = value.filter(|it| it.is_finite() && !lacking);
        let check = Check::range(id, value, &*self.unit, min, max);
        if lacking { check } else { check.failed() }
    }

    fn value(&self, rows: &[&Row], take: Take) -> Option<f64> {
        let fold = match take {
            Take::Max => f64::max,
            Take::Min => f64::min,
            Take::All if rows.is_empty() => return None,
            Take::All => return self.value.of(rows),
        };
        let values = rows.iter().map(|row| self.value.of(&[row]));
        let values: Option<Vec<f64>> = values.collect();
        values?.into_iter().reduce(fold)
    }

    /// Every name in it, and where it stands.
    fn names(&self) -> Vec<(String, &str)> {
        let bars = [("min", &self.min), ("max", &self.max)];
        let bars = bars.into_iter().filter_map(|(key, bar)| match bar {
            Some(Bar::Figure(figure)) => Some((key, figure)),
            _ => None,
        });
        let figures = bars.chain([("value", &self.value)]);
        let figures =
            figures.flat_map(|(key, figure)| figure.names().map(move |it| (key.into(), it)));
        let only = self.only.keys().map(|key| (format!("only.{key}"), &**key));
        let against = self.against.iter().flat_map(BTreeMap::keys);
        let against = against.map(|key| (format!("against.{key}"), &**key));
        let needs = self.needs.iter().map(|key| ("needs".into(), &**key));
        figures.chain(only).chain(against).chain(needs).collect()
    }
}

/// What a file says of tables and checks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Shapes {
    pub(super) tables: Vec<TableShape>,
    pub(super) expect: Vec<Expect>,
}

/// Tables and checks of a study's file, which is named where something is wrong in it.
pub(super) struct Shown<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) shapes: Shapes,
}

impl Shown<'_> {
    /// Each part is one that the study has.
    ///
    /// # Errors
    /// One that isn't, with its place.
    pub(super) fn check_parts(&self, valid: &[&str]) -> Result<(), ConfigError> {
        let tables = self.shapes.tables.iter().map(|it| &it.of).enumerate();
        let expected = self.shapes.expect.iter().map(|it| &it.of).enumerate();
        let tables = tables.map(|it| ("tables", it));
        for (key, (place, of)) in tables.chain(expected.map(|it| ("expect", it))) {
            if !valid.contains(&of.as_str()) {
                let path = format!("shown.{key}.{place}.of");
                return Err(self.unknown(&path, "part", of, valid));
            }
        }
        Ok(())
    }

    /// All tables and checks, in the file's order.
    ///
    /// # Errors
    /// A name that no row has, with its place.
    pub(super) fn of(&self, parts: &Parts) -> Result<(Vec<Table>, Vec<Check>), ConfigError> {
        let tables = self.shapes.tables.iter().map(|it| (&it.of, it.names()));
        let expected = self.shapes.expect.iter().map(|it| (&it.of, it.names()));
        let tables = tables.enumerate().map(|it| ("tables", it));
        for (key, (place, (of, names))) in
            tables.chain(expected.enumerate().map(|it| ("expect", it)))
        {
            let rows = parts.get(of.as_str()).map_or(&[][..], Vec::as_slice);
            let known = |name| rows.iter().any(|row| row.find(name).is_some());
            let odd = names
                .iter()
                .find(|(_, name)| !rows.is_empty() && !known(name));
            if let Some((path, odd)) = odd {
                let mut valid: Vec<&str> = Vec::new();
                for (name, _) in rows.iter().flat_map(|row| &row.0) {
                    if !valid.contains(&&**name) {
                        valid.push(name);
                    }
                }
                return Err(self.unknown(
                    &format!("shown.{key}.{place}.{path}"),
                    "value",
                    odd,
                    &valid,
                ));
            }
        }
        let tables = self
            .shapes
            .tables
            .iter()
            .filter_map(|table| table.table(parts));
        let checks = self
            .shapes
            .expect
            .iter()
            .flat_map(|expect| expect.checks(parts));
        Ok((tables.collect(), checks.collect()))
    }

    fn unknown(&self, path: &str, what: &str, found: &str, valid: &[&str]) -> ConfigError {
        config_text::unknown_name(self.file, self.text, path, what, found, valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        shown: Shapes,
    }

    fn shown(text: &str) -> Result<(Vec<Table>, Vec<Check>), ConfigError> {
        let File { shown: shapes } = config_text::parse("x.toml", text)?;
        let shown = Shown {
            file: "x.toml",
            text,
            shapes,
        };
        shown.check_parts(&["cells", "none"])?;
        let row = |who: &str, check: &str, times: [f64; 3]| {
            let row = Row::default().with("who", who).with("check", check);
            let row = row
                .with("time_s", times.to_vec())
                .with("live_s", None::<f64>);
            row.with("bar_s", times[0] + 1.0)
                .with("at 9600", 1.0)
                .with("at 75", 2.0)
        };
        let rows = vec![
            row("a", "one", [1.0, 2.0, 3.0]),
            row("b", "two", [2.0, f64::INFINITY, 6.0]),
            row("c", "three", [5.5, 5.5, 5.5]),
            row("d", "three", [4.0, 4.0, 4.0]),
        ];
        shown.of(&Parts::from([("cells", rows)]))
    }

    #[test]
    fn a_table_has_the_figures_of_its_columns() {
        let (tables, _) = shown(
            "[[shown.tables]]\nid = \"t\"\nof = \"cells\"\ncolumns = [\"who\", \"± [s] = median(time_s)\", \
             \"late = late(time_s)\", \"ratio = p0(time_s) / bar_s\", \"* bit/s [s] = at *\", \
             \"live_s\"]\n[[shown.tables]]\nid = \"u\"\nof = \"cells\"\nneeds = \"live_s\"\ncolumns = []\n\
             [[shown.tables]]\nid = \"v\"\nof = \"none\"\ncolumns = []\n",
        )
        .unwrap();
        let text = "who  ± [s]  late   ratio  9600 bit/s [s]  75 bit/s [s]  live_s\n\
                    ---  -----  ----  ------  --------------  ------------  ------\n\
                    a        2     0     0.5               1             2  -\n\
                    b        6     1  0.6667               1             2  -\n\
                    c      5.5     0  0.8462               1             2  -\n\
                    d        4     0     0.8               1             2  -\n";
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].to_text(), text);
    }

    #[test]
    fn a_check_is_the_worst_of_its_rows_and_fails_without_a_value() {
        let expect = |more: &str| {
            let text = format!("[[shown.expect]]\nof = \"cells\"\nvalue = \"max(time_s)\"\n{more}");
            let checks = shown(&text).unwrap().1;
            let told = |it: &Check| (it.id.clone(), it.value, it.ok);
            checks.iter().map(told).collect::<Vec<_>>()
        };
        let a = "only = { who = \"a\" }\nid = \"x\"\n";
        let told = |value, ok| vec![("x".to_owned(), value, ok)];
        assert_eq!(expect(&format!("{a}max = 3")), told(Some(3.0), Some(true)));
        assert_eq!(
            expect(&format!("{a}max = \"bar_s\"")),
            told(Some(3.0), Some(false))
        );
        // Of the other there is an infinite one, so that there is no greatest.
        assert_eq!(expect("id = \"x\"\nmax = 9"), told(None, Some(false)));
        assert_eq!(expect("id = \"x\"\nneeds = \"live_s\""), told(None, None));
        let both = vec![
            ("one".into(), Some(3.0), Some(true)),
            ("two".into(), None, Some(false)),
            ("three".into(), Some(5.5), Some(false)),
        ];
        assert_eq!(expect("max = 3"), both);
        // Each row has to pass, and by its own bar.
        let third = |more| expect(more)[2].clone();
        let three = |value, ok| ("three".into(), Some(value), Some(ok));
        assert_eq!(third("max = \"bar_s\""), three(5.5, false));
        assert_eq!(third("max = 5.5"), three(5.5, true));
        assert_eq!(third("min = 4.5"), three(4.0, false));
        let least = "[[shown.expect]]\nid = \"x\"\nof = \"cells\"\nvalue = \"min(time_s)\"\n";
        let of = |more: &str| shown(&format!("{least}{more}")).unwrap().1[0].value;
        assert_eq!(of(""), Some(5.5));
        assert_eq!(of("min = 1"), Some(1.0));
        assert_eq!(of("only = { who = \"e\" }\ntake = \"all\""), None);
        assert_eq!(of("take = \"all\""), Some(1.0));
        assert_eq!(
            of("only = { who = \"b\" }\nagainst = { who = [\"a\", \"c\"] }"),
            Some(2.0)
        );
    }

    #[test]
    fn what_is_not_there_is_named_with_its_line() {
        for (text, place, what) in [
            (
                "id = \"t\"\nof = \"cels\"\ncolumns = []",
                "x.toml:3",
                "did you mean `cells`?",
            ),
            (
                "id = \"t\"\nof = \"cells\"\ncolumns = [\n\"who\",\n\"tme_s\"]",
                "x.toml:6",
                "`time_s`",
            ),
            (
                "id = \"t\"\nof = \"cells\"\ncolumns = [\"mode(time_s)\"]",
                "x.toml:4",
                "no figure",
            ),
            (
                "id = \"t\"\nof = \"cells\"\ncolumn = []",
                "x.toml:4",
                "`columns`",
            ),
        ] {
            let message = shown(&format!("[[shown.tables]]\n{text}"))
                .unwrap_err()
                .to_string();
            assert!(
                message.starts_with(place) && message.contains(what),
                "{message}"
            );
        }
        let text = "[[shown.expect]]\nid = \"x\"\nof = \"cells\"\nvalue = \"who\"\nmax = \"bars\"";
        let message = shown(text).unwrap_err().to_string();
        assert!(
            message.starts_with("x.toml:5") && message.contains("`bar_s`"),
            "{message}"
        );
    }
}
