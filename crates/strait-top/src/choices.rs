//! What a gateway chose by itself: what, why, what held it back, and until when. `-` is what its
//! snapshot doesn't tell.

use strait_status::number::NONE;
use strait_status::{Choice, Span, choices};

use crate::table::{Cell, Column, Row, words};

pub(crate) const COLUMNS: [Column; 5] = [
    words("at", 9, "the port, the class or the service"),
    words("chose", 20, "what it does"),
    words("as", 21, "why"),
    words("held back by", 14, "the obstacle"),
    words("until", 11, "the end of the obstacle"),
];

pub(crate) fn rows(span: &Span<'_>) -> Vec<Row> {
    choices(span).into_iter().map(row).collect()
}

fn row(choice: Choice) -> Row {
    let or_none = |it: Option<String>| it.unwrap_or_else(|| NONE.into());
    let texts = [
        choice.at,
        choice.chose,
        choice.why,
        or_none(choice.held),
        or_none(choice.until),
    ];
    let mut cells = texts.map(Cell::words).to_vec();
    cells[1].bad = choice.costs;
    Row {
        cells,
        worst: f64::from(choice.costs),
    }
}
