//! Views of all that is counted: a row for each counter, by its description.

use strait_status::{Counter, Described, Kind, Snapshot, Span, Value};

use crate::table::{Cell, Column, Row, figures, words};
use strait_status::number::{short, time};

pub(crate) const COLUMNS: [Column; 4] = [
    words("part", 8, "its subject"),
    words("what", 40, "what is counted"),
    figures("now", 8, "since the start, or the present amount"),
    figures("a second", 8, "growth of late"),
];

/// Rows of some parts; what is nothing stands last.
struct Rows<'a> {
    rows: Vec<Row>,
    span: &'a Span<'a>,
}

impl<'a> Rows<'a> {
    const fn new(span: &'a Span<'a>) -> Self {
        Self {
            rows: Vec::new(),
            span,
        }
    }

    /// All counters of the part that `of` finds, which is called `name`.
    fn of<T: Described>(mut self, name: &str, of: impl Fn(&Snapshot) -> Option<&T>) -> Self {
        if let Some(now) = of(self.span.last) {
            self.add(name, now, of(self.span.first()));
        }
        self
    }

    fn add<T: Described>(&mut self, name: &str, now: &T, was: Option<&T>) {
        for counter in T::COUNTERS {
            let help = counter.help.trim();
            match (counter.value)(now) {
                Value::None => {}
                Value::Text(text) => self.text(name, help, text),
                Value::Number(number) => {
                    let was = was.and_then(|it| match (counter.value)(it) {
                        Value::Number(number) => Some(number.into()),
                        _ => None,
                    });
                    self.number(counter, (name, help), number.into(), was);
                }
                Value::By(kinds) => {
                    let was = was.map(|it| (counter.value)(it));
                    for (kind, number) in kinds {
                        let was = match &was {
                            Some(Value::By(kinds)) => kinds.iter().find(|it| it.0 == kind),
                            _ => None,
                        };
                        let what = format!("{help}: {kind}");
                        let was = was.map(|it| it.1.into());
                        self.number(counter, (name, &what), number.into(), was);
                    }
                }
            }
        }
    }

    fn text(&mut self, part: &str, what: &str, text: &str) {
        let cells = [part, what, text].map(Cell::words).into_iter();
        self.rows.push(Row {
            cells: cells.chain([Cell::number(None, short)]).collect(),
            worst: 0.0,
        });
    }

    fn number<T>(
        &mut self,
        counter: &Counter<T>,
        (part, what): (&str, &str),
        now: f64,
        was: Option<f64>,
    ) {
        let shown = if counter.shape.unit == "s" {
            time
        } else {
            short
        };
        let grows = counter.shape.kind == Kind::Counter;
        let growth = (now - was.unwrap_or(0.0)) / self.span.s;
        self.rows.push(Row {
            cells: vec![
                Cell::words(part),
                Cell::words(what),
                Cell::number(now, shown),
                Cell::number(Some(growth).filter(|it| grows && *it >= 0.0), short),
            ],
            worst: f64::from(now != 0.0),
        });
    }
}

pub(crate) fn names(span: &Span<'_>) -> Vec<Row> {
    Rows::new(span).of("names", |it| it.dns.as_ref()).rows
}

/// Lanes first, the most urgent of all at the top.
pub(crate) fn mail(span: &Span<'_>) -> Vec<Row> {
    let rows = Rows::new(span).of("mail", |it| it.mail.as_ref()).rows;
    let (mut lanes, others): (Vec<Row>, _) = rows
        .into_iter()
        .partition(|it| it.cells[1].text.ends_with("stored messages"));
    lanes.reverse();
    for lane in &mut lanes {
        lane.worst = 2.0;
    }
    lanes.into_iter().chain(others).collect()
}

pub(crate) fn routes(span: &Span<'_>) -> Vec<Row> {
    Rows::new(span).of("routes", |it| it.olsr.as_ref()).rows
}

pub(crate) fn all(span: &Span<'_>) -> Vec<Row> {
    let rows = Rows::new(span)
        .of("packets", |it| Some(&it.packets))
        .of("local", |it| Some(&it.local))
        .of("host", |it| Some(&it.host))
        .of("kernel", |it| it.led.as_ref())
        .of("proxy", |it| it.proxy.as_ref())
        .of("echo", |it| it.echo.as_ref())
        .of("names", |it| it.dns.as_ref())
        .of("mail", |it| it.mail.as_ref())
        .of("routes", |it| it.olsr.as_ref());
    let mut rows = rows;
    for (n, port) in span.last.ports.iter().enumerate() {
        let was = span.first().ports.get(n).filter(|it| it.name == port.name);
        let name = port.name.as_str();
        rows.add(name, port, was);
        rows.add(name, &port.flows, was.map(|it| &it.flows));
        if let Some(hop) = &port.hop {
            rows.add(name, hop, was.and_then(|it| it.hop.as_ref()));
        }
        if let Some(repairs) = &port.repairs {
            rows.add(name, repairs, was.and_then(|it| it.repairs.as_ref()));
        }
        if let Some(urgent) = &port.urgent {
            rows.add(name, urgent, was.and_then(|it| it.urgent.as_ref()));
        }
        if let Some(station) = &port.hf {
            rows.add(name, station, was.and_then(|it| it.hf.as_ref()));
        }
    }
    rows.rows
}
