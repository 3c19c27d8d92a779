//! Rows and columns of a view, whatever it shows.

use std::cmp::Ordering;

use strait_status::number::NONE;

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// What it means, for those who choose columns.
    pub(crate) help: &'static str,
    /// Letters that it has at least.
    pub(crate) width: u16,
    /// Words: they begin at the left, and get what room is left.
    pub(crate) words: bool,
}

/// A column of words.
pub(crate) const fn words(head: &'static str, width: u16, help: &'static str) -> Column {
    Column {
        head,
        help,
        width,
        words: true,
    }
}

/// A column of numbers.
pub(crate) const fn figures(head: &'static str, width: u16, help: &'static str) -> Column {
    Column {
        words: false,
        ..words(head, width, help)
    }
}

/// What stands in a column.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// By which it is sorted; words by themselves.
    order: Option<f64>,
    /// It needs attention.
    pub(crate) bad: bool,
}

impl Cell {
    /// Words, which may be anybody's: what moves cursors, or turns text around, is left out.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        let text: String = text.into();
        let harmless = |it: &char| !it.is_control() && !is_format(*it);
        let text = text.chars().filter(harmless).take(LETTERS_MAX).collect();
        Self {
            text,
            order: None,
            bad: false,
        }
    }

    /// A number, as `shown` shows it.
    pub(crate) fn number(value: impl Into<Option<f64>>, shown: fn(f64) -> String) -> Self {
        let value = value.into().filter(|it| it.is_finite());
        Self {
            text: value.map_or_else(|| NONE.into(), shown),
            order: Some(value.unwrap_or(f64::NEG_INFINITY)),
            bad: false,
        }
    }

    /// The same, shown as another text.
    pub(crate) fn reads(mut self, text: String) -> Self {
        self.text = text;
        self
    }

    pub(crate) const fn bad_if(mut self, bad: bool) -> Self {
        self.bad = bad;
        self
    }

    fn before(&self, other: &Self) -> Ordering {
        match (self.order, other.order) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            _ => self.text.cmp(&other.text),
        }
    }
}

/// Longest text of a cell: no screen is wider.
const LETTERS_MAX: usize = 500;

/// Letters without a shape, some of which turn text around.
const fn is_format(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{61c}')
}

/// A row: a cell for each column.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// How bad it is: the worst stands first until somebody sorts otherwise.
    pub(crate) worst: f64,
}

impl Row {
    /// Whether all of some words, in small letters, are in it.
    pub(crate) fn has(&self, words: &[String]) -> bool {
        let in_it = |word: &String| {
            let mut texts = self.cells.iter().map(|it| it.text.to_lowercase());
            texts.any(|text| text.contains(word))
        };
        words.iter().all(in_it)
    }
}

/// In which order rows stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort {
    /// By this column; if none, the worst first.
    pub(crate) column: Option<usize>,
    /// The other way round.
    pub(crate) turned: bool,
}

impl Sort {
    /// Numbers from the largest, words from A. Equal ones stay as they were.
    pub(crate) fn apply(self, rows: &mut [Row], columns: &[Column]) {
        rows.sort_by(|one, other| {
            let order = match self.column {
                None => other.worst.total_cmp(&one.worst),
                Some(n) => {
                    let order = one.cells[n].before(&other.cells[n]);
                    if columns[n].words {
                        order
                    } else {
                        order.reverse()
                    }
                }
            };
            if self.turned { order.reverse() } else { order }
        });
    }

    /// By the next column of `columns`, or the one before; beyond the last is «the worst first».
    pub(crate) fn step(&mut self, shown: &[usize], forward: bool) {
        let places = shown.len() + 1;
        let at = self
            .column
            .and_then(|it| shown.iter().position(|n| *n == it));
        let at = at.map_or(0, |it| it + 1);
        let next = (at + if forward { 1 } else { places - 1 }) % places;
        self.column = next.checked_sub(1).map(|it| shown[it]);
        self.turned = false;
    }
}
