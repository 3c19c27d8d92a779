//! The study `na` as pictures: calls over time, and pings against their size.

use strait_report::scatter::{Figure, Marks};

use super::rows::{Rows, WAIT_S, delays, line_through};
use super::{Data, NaCase};

/// What is drawn beside one call of the first vocoder.
const BESIDE: [Data; 4] = [Data::Ping(64), Data::Ping(1400), Data::Bulk, Data::TwoFiles];

/// All of them, as SVG by file name.
pub(super) fn all(rows: &Rows<'_>) -> Vec<(String, String)> {
    let figures = [("na-jitter.svg", jitter(rows)), ("na-ping.svg", ping(rows))];
    let named = figures.map(|(name, figure)| (name.into(), figure.to_svg()));
    named.into()
}

/// How much later than alone each packet of one side of a call is, over time.
fn jitter(rows: &Rows<'_>) -> Figure {
    let vocoder = rows.study.vocoders.first();
    let run = |data| rows.find(&NaCase::new(vocoder?, 1, data));
    let alone = run(Data::Nothing);
    let drawn = BESIDE.into_iter().filter_map(|data| {
        let (run, alone) = (run(data)?, alone?);
        let calls = run.calls.iter().zip(&alone.calls);
        let points = calls.flat_map(|(beside, alone)| {
            let same = delays(beside).zip(delays(alone));
            let one_side = same.filter(|(it, _)| it.0 == "delay" && it.1 >= run.settled_s);
            one_side.map(|(beside, alone)| (beside.1, (beside.2 - alone.2) * 1e3))
        });
        Some(Marks {
            name: data.name(),
            points: points.collect(),
            ..Marks::default()
        })
    });
    let mut marks: Vec<Marks> = drawn.collect();
    let end_s = rows.study.stop.0.as_secs_f64();
    marks.push(Marks {
        name: "two octets".into(),
        line: vec![(0.0, WAIT_S * 1e3), (end_s, WAIT_S * 1e3)],
        ..Marks::default()
    });
    Figure {
        title: format!(
            "how much later data makes the packets of a call, vocoder of {}",
            vocoder.map_or("", |it| &it.name)
        ),
        across: "sent [s]".into(),
        up: "later than alone [ms]".into(),
        marks,
    }
}

/// Ping time against size, with straight lines through the means.
fn ping(rows: &Rows<'_>) -> Figure {
    let marks = rows.slopes().map(|(name, run)| {
        let points = rows.ping_points(run);
        let line = line_through(&points).map_or_else(Vec::new, |(slope, _)| {
            let count = points.len() as f64;
            let [x, y] = points
                .iter()
                .fold([0.0; 2], |sum, it| [sum[0] + it.0, sum[1] + it.1])
                .map(|sum| sum / count);
            let most = points.iter().map(|it| it.0).fold(0.0, f64::max);
            let at = |size: f64| (size, y + slope * (size - x));
            vec![at(0.0), at(most)]
        });
        Marks {
            name,
            points,
            line,
            ..Marks::default()
        }
    });
    Figure {
        title: "ping time against size, 9600 baud 8N1".into(),
        across: "payload [octets]".into(),
        up: "time there and back [s]".into(),
        marks: marks.collect(),
    }
}
