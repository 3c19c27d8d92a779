//! Described counters as tables.

use strait_status::{Described, Number, Value};

use crate::table::{Cell, Column, Table};

/// A table with a row for each `T`: what tells the rows apart, under the heads `lead`, and each
/// counter that has a column.
pub fn counter_table<'a, T: Described>(
    id: &str,
    lead: &[&str],
    rows: impl Iterator<Item = (Vec<Cell>, &'a T)>,
) -> Table {
    let shown = || T::COUNTERS.iter().filter(|it| !it.shape.head.is_empty());
    let lead = lead.iter().map(|head| Column::new(*head, ""));
    let counted = shown().map(|it| Column::new(it.shape.head, it.shape.unit));
    let mut table = Table::new(id, lead.chain(counted).collect());
    for (mut cells, row) in rows {
        cells.extend(shown().map(|it| cell((it.value)(row))));
        table.push(cells);
    }
    table
}

fn cell(value: Value<'_>) -> Cell {
    match value {
        Value::None => Cell::Empty,
        Value::Number(number) => f64::from(number).into(),
        Value::Text(text) => text.into(),
        Value::By(counts) => {
            let items = counts.iter().rev().map(|(kind, number)| match number {
                Number::Count(count) => format!("{kind}: {count}"),
                Number::Real(real) => format!("{kind}: {real}"),
            });
            items.collect::<Vec<_>>().join(", ").into()
        }
    }
}
