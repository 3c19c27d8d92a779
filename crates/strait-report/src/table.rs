//! Results: tables to read, checks to judge by, and both as JSON.

use std::fmt::Write;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// A table of results. Values are in plain SI units; columns say which.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Its name, unique in a result.
    pub id: String,
    /// What stands in each column.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Unit of its numbers, empty where each row has its own or there is none.
    pub unit: String,
}

/// In JSON a column is its name, with the unit in brackets if it has one: `"delay [s]"`.
impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.title())
    }
}

impl Column {
    /// A column of numbers in `unit`, or of texts.
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
        }
    }

    fn title(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{} [{unit}]", self.name),
        }
    }
}

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Nothing was measured.
    Empty,
    /// A word.
    Text(String),
    /// A number in plain SI units.
    Number(f64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Empty, Self::Number)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Empty => "-".into(),
            Self::Text(text) => text.clone(),
            Self::Number(number) => significant(*number),
        }
    }

    /// Whether it is more than nothing: a word, or a number that isn't 0.
    fn says(&self) -> bool {
        match self {
            Self::Empty => false,
            Self::Text(text) => !matches!(text.as_str(), "" | "-"),
            Self::Number(number) => *number != 0.0,
        }
    }
}

/// A number as tables show it: four significant digits, no exponent, trailing zeros kept away.
pub fn significant(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let magnitude = number.abs().log10().floor() as i32;
    let decimals = (3 - magnitude).clamp(0, 12) as usize;
    let text = format!("{number:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

impl Table {
    /// A table without rows.
    pub fn new(id: impl Into<String>, columns: Vec<Column>) -> Self {
        Self {
            id: id.into(),
            columns,
            rows: Vec::new(),
        }
    }

    /// Appends a row; missing cells stay empty, surplus ones are left out.
    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.columns.len(), Cell::Empty);
        self.rows.push(row);
    }

    /// The table as aligned text: words to the left, numbers to the right, units in the head.
    pub fn to_text(&self) -> String {
        let columns: Vec<Laid> = (0..self.columns.len()).map(|it| self.lay(it)).collect();
        block(&columns.iter().collect::<Vec<_>>())
    }

    /// The same for a screen: without columns in which no row says anything, and where lines would
    /// have more than `width` characters, as blocks that each begin with the first column.
    pub fn to_text_within(&self, width: usize) -> String {
        let says = |index: &usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(*index));
            *index == 0 || cells.any(Cell::says)
        };
        let laid: Vec<Laid> = (0..self.columns.len())
            .filter(says)
            .map(|it| self.lay(it))
            .collect();
        let Some((first, others)) = laid.split_first() else {
            return String::new();
        };
        let mut blocks = vec![vec![first]];
        let mut used = first.width;
        for column in others {
            let here = GAP.len() + column.width;
            match blocks.last_mut() {
                Some(last) if used + here <= width || last.len() == 1 => last.push(column),
                _ => {
                    blocks.push(vec![first, column]);
                    used = first.width;
                }
            }
            used += here;
        }
        let blocks: Vec<String> = blocks.iter().map(|columns| block(columns)).collect();
        blocks.join("\n")
    }

    fn lay(&self, index: usize) -> Laid {
        let cells = || self.rows.iter().map(|row| row.get(index));
        let texts = cells().map(|cell| cell.map_or_else(String::new, Cell::text));
        let texts: Vec<String> = texts.collect();
        let title = self.columns.get(index).map(Column::title);
        let title = title.unwrap_or_default();
        let longest = texts.iter().chain([&title]).map(|it| it.chars().count());
        Laid {
            width: longest.max().unwrap_or(0),
            right: cells().any(|cell| matches!(cell, Some(Cell::Number(_)))),
            title,
            texts,
        }
    }
}

/// What stands between two columns.
const GAP: &str = "  ";

/// A column as text.
struct Laid {
    title: String,
    texts: Vec<String>,
    /// In characters.
    width: usize,
    right: bool,
}

impl Laid {
    fn put(&self, text: &str) -> String {
        let width = self.width;
        if self.right {
            format!("{text:>width$}")
        } else {
            format!("{text:<width$}")
        }
    }
}

fn block(columns: &[&Laid]) -> String {
    let mut text = String::new();
    let mut line = |cell: &dyn Fn(&Laid) -> String| {
        let cells: Vec<String> = columns.iter().map(|it| it.put(&cell(it))).collect();
        text.push_str(cells.join(GAP).trim_end());
        text.push('\n');
    };
    line(&|column| column.title.clone());
    line(&|column| "-".repeat(column.width));
    for row in 0..columns.first().map_or(0, |column| column.texts.len()) {
        line(&|column| column.texts.get(row).cloned().unwrap_or_default());
    }
    text
}

/// What a check's value has to satisfy.
#[derive(Clone, Debug, PartialEq)]
pub enum Bar {
    /// In words; whoever made the check judged it.
    Text(String),
    /// At least and at most, both included, where given.
    Range {
        /// The least value.
        min: Option<f64>,
        /// The greatest value.
        max: Option<f64>,
    },
}

impl Serialize for Bar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Range { min, max } => {
                let mut map = serializer.serialize_map(None)?;
                if let Some(min) = min {
                    map.serialize_entry("min", min)?;
                }
                if let Some(max) = max {
                    map.serialize_entry("max", max)?;
                }
                map.end()
            }
        }
    }
}

/// One number that a result is judged by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Its name.
    pub id: String,
    /// The value in `unit`; `None` if it couldn't be measured.
    pub value: Option<f64>,
    /// Plain SI unit.
    pub unit: String,
    /// What it has to satisfy.
    pub bar: Bar,
    /// Whether it does; `None` if there is nothing to judge, and then it doesn't count.
    pub ok: Option<bool>,
}

impl Check {
    /// A value judged by a range. Without a value there is no judgement; use [`Check::failed`]
    /// where the lack of a value is itself a failure.
    pub fn range(
        id: impl Into<String>,
        value: Option<f64>,
        unit: impl Into<String>,
        min: Option<f64>,
        max: Option<f64>,
    ) -> Self {
        let ok = value
            .map(|value| min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max));
        Self {
            id: id.into(),
            value,
            unit: unit.into(),
            bar: Bar::Range { min, max },
            ok,
        }
    }

    /// The same check, failed if it has no value: what should have happened didn't.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.ok.get_or_insert(false);
        self
    }
}

/// Everything that a result-giving command prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResultSet {
    /// The run hash in hexadecimal; `None` live.
    pub run_hash: Option<RunHashText>,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Checks.
    pub checks: Vec<Check>,
}

/// A run hash as results show it: 16 hexadecimal digits (JSON numbers hold 53 bits only).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunHashText(String);

impl From<u64> for RunHashText {
    fn from(value: u64) -> Self {
        Self(format!("{value:016x}"))
    }
}

impl ResultSet {
    /// The whole as one JSON object. A number that is none (infinite, undefined) becomes null.
    pub fn to_json(&self) -> String {
        // Nothing here has keys that aren't strings, the only thing that could fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Tables and checks as aligned text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            let _ = write!(text, "{}\n{}\n", table.id, table.to_text());
        }
        if !self.checks.is_empty() {
            text.push_str(&self.checks_table().to_text());
        }
        text
    }

    /// Whether a check failed.
    pub fn has_failed(&self) -> bool {
        self.checks.iter().any(|check| check.ok == Some(false))
    }

    fn checks_table(&self) -> Table {
        let columns = ["check", "value", "unit", "bar", "ok"].map(|name| Column::new(name, ""));
        let mut table = Table::new("checks", columns.into());
        for check in &self.checks {
            let ok = match check.ok {
                Some(true) => "ok",
                Some(false) => "FAILED",
                None => "-",
            };
            let bar = match &check.bar {
                Bar::Text(text) => text.clone(),
                Bar::Range { min, max } => {
                    let ends = [("≥", min), ("≤", max)];
                    let ends = ends.iter().filter_map(|(sign, end)| {
                        end.map(|end| format!("{sign} {}", significant(end)))
                    });
                    ends.collect::<Vec<_>>().join(", ")
                }
            };
            table.push(vec![
                check.id.as_str().into(),
                check.value.into(),
                check.unit.as_str().into(),
                bar.into(),
                ok.into(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ResultSet {
        let mut table = Table::new(
            "demo",
            vec![Column::new("row", ""), Column::new("fifo", "s")],
        );
        table.push(vec!["voice p99".into(), 2.5.into()]);
        table.push(vec!["page".into(), None.into(), "surplus".into()]);
        ResultSet {
            run_hash: Some(0xabc.into()),
            seeds: vec![1, 2],
            tables: vec![table],
            checks: vec![
                Check::range("p99", Some(0.25), "s", None, Some(0.25)),
                Check::range("late", Some(0.2501), "s", None, Some(0.25)),
                Check::range("none", None, "1", Some(1.0), None),
            ],
        }
    }

    #[test]
    fn a_screen_gets_blocks_without_columns_of_nothing() {
        let names = ["port", "rate", "lost", "in", "out"];
        let mut table = Table::new("ports", names.map(|name| Column::new(name, "")).into());
        let nothing = || Cell::from(0.0);
        table.push(vec![
            "a".into(),
            9600.0.into(),
            nothing(),
            1.0.into(),
            "x".into(),
        ]);
        table.push(vec![
            "b".into(),
            nothing(),
            Cell::Empty,
            nothing(),
            "-".into(),
        ]);
        let whole =
            "port  rate  in  out\n----  ----  --  ---\na     9600   1  x\nb        0   0  -\n";
        assert_eq!(table.to_text_within(19), whole);
        let cut = "port  rate  in\n----  ----  --\na     9600   1\nb        0   0\n\n\
                   port  out\n----  ---\na     x\nb     -\n";
        assert_eq!(table.to_text_within(18), cut);
        // What is wider than the screen stands alone.
        assert_eq!(table.to_text_within(1).matches("port").count(), 3);
    }

    #[test]
    fn json_has_the_agreed_shape() {
        let json: serde_json::Value = serde_json::from_str(&sample().to_json()).unwrap();
        let expected = serde_json::json!({
            "run_hash": "0000000000000abc",
            "seeds": [1, 2],
            "tables": [{
                "id": "demo",
                "columns": ["row", "fifo [s]"],
                "rows": [["voice p99", 2.5], ["page", null]],
            }],
            "checks": [
                {"id": "p99", "value": 0.25, "unit": "s", "bar": {"max": 0.25}, "ok": true},
                {"id": "late", "value": 0.2501, "unit": "s", "bar": {"max": 0.25}, "ok": false},
                {"id": "none", "value": null, "unit": "1", "bar": {"min": 1.0}, "ok": null},
            ],
        });
        assert_eq!(json, expected);
        assert!(sample().has_failed());
        let empty = ResultSet::default();
        assert!(empty.to_json().contains("\"run_hash\": null") && !empty.has_failed());
    }

    #[test]
    fn text_is_aligned() {
        let text =
            "row        fifo [s]\n---------  --------\nvoice p99       2.5\npage              -\n";
        assert_eq!(sample().tables[0].to_text(), text);
        assert!(
            sample()
                .to_text()
                .contains("late   0.2501  s     ≤ 0.25  FAILED")
        );
    }

    #[test]
    fn a_missing_value_can_count_as_a_failure() {
        assert_eq!(
            Check::range("x", None, "s", None, Some(1.0)).failed().ok,
            Some(false)
        );
        assert_eq!(
            Check::range("x", Some(1.0), "s", None, Some(1.0))
                .failed()
                .ok,
            Some(true)
        );
    }

    #[test]
    fn numbers_keep_four_significant_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.123456, "0.1235"),
            (12345.6, "12346"),
            (-0.00012, "-0.00012"),
            (9999.6, "10000"),
            (100.0, "100"),
            (1e-20, "0"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in cases {
            assert_eq!(significant(number), text);
        }
    }
}
