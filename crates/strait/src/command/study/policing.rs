//! The study `policing`: what packets of a class pay for its rate, by the way in which it is held.

use strait_core::time::Duration;
use strait_live::kernel::Came;
use strait_report::estimate::percentile;
use strait_report::table::{Check, Column, ResultSet, Table};
use strait_sim::study::policing::{Excess, Load, PolicingStudy, Way};
use strait_sim::study::shares::{self, Share};

use super::{Options, halves};

const NAME: &str = "policing";
/// How much of the wait behind a shaper may be left behind a policer.
const WAIT_LEFT_MAX: f64 = 0.25;

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let (file, text) = options.set_up(
        "scenarios/studies/policing.toml",
        include_str!("../../../../../scenarios/studies/policing.toml"),
    );
    let study = PolicingStudy::parse(file, text)?;
    let cases = study.cases(options.full);
    let (simulated, live) = halves::run(NAME, &cases, options)?;
    let rows = study.pairs().enumerate().map(|(index, (load, way))| Row {
        load,
        way,
        simulated: simulated
            .get(index)
            .and_then(|run| Got::simulated(&run.shares)),
        live: live
            .get(index)
            .and_then(|run| Got::live(run, cases.get(index)?.window)),
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let unexplained: u64 = simulated.iter().map(|run| run.unexplained).sum();
    Ok(ResultSet {
        run_hash: Some(shares::hash(&simulated).into()),
        seeds: vec![1],
        tables: vec![table(&rows)],
        checks: vec![
            wait_left("policing-wait", &rows, |row| row.simulated),
            wait_left("policing-kernel-wait", &rows, |row| row.live),
            Check::range(
                "policing-conserved",
                Some(unexplained as f64),
                "",
                None,
                Some(0.0),
            ),
        ],
    })
}

/// What came of the limited flow, and of the other.
#[derive(Clone, Copy)]
struct Got {
    rate_bit_s: f64,
    loss: f64,
    p50_s: f64,
    p99_s: f64,
    rest_bit_s: f64,
}

impl Got {
    fn simulated(shares: &[Share]) -> Option<Self> {
        let [limited, rest] = shares else {
            return None;
        };
        Some(Self {
            rate_bit_s: limited.rate_bit_s,
            loss: limited.loss(),
            p50_s: percentile(&limited.delays_s, 0.5)?,
            p99_s: percentile(&limited.delays_s, 0.99)?,
            rest_bit_s: rest.rate_bit_s,
        })
    }

    fn live(came: &[Came], window: Duration) -> Option<Self> {
        let [limited, rest] = came else {
            return None;
        };
        let delays = limited.delays_ns.iter().map(|delay| *delay as f64 / 1e9);
        let delays: Vec<f64> = delays.collect();
        Some(Self {
            rate_bit_s: limited.rate_bit_s(window),
            loss: limited.loss(),
            p50_s: percentile(&delays, 0.5)?,
            p99_s: percentile(&delays, 0.99)?,
            rest_bit_s: rest.rate_bit_s(window),
        })
    }
}

struct Row<'a> {
    load: &'a Load,
    way: &'a Way,
    simulated: Option<Got>,
    live: Option<Got>,
}

/// The longest median wait behind a policer, as a share of the shortest behind a shaper, where
/// more is offered than the class may send: there all packets wait behind one, and none need to
/// behind the other.
fn wait_left(id: &str, rows: &[Row<'_>], half: fn(&Row<'_>) -> Option<Got>) -> Check {
    let crowded = rows.last().map(|row| &row.load.name);
    let of = |excess: Excess| {
        let chosen = rows
            .iter()
            .filter(move |row| Some(&row.load.name) == crowded && row.way.excess() == excess);
        chosen.map(move |row| half(row).map(|got| got.p50_s))
    };
    let policed = of(Excess::IsDropped).collect::<Option<Vec<f64>>>();
    let shaped = of(Excess::Waits).collect::<Option<Vec<f64>>>();
    let longest = policed.and_then(|waits| waits.into_iter().reduce(f64::max));
    let shortest = shaped.and_then(|waits| waits.into_iter().reduce(f64::min));
    let left = longest
        .zip(shortest)
        .map(|(longest, shortest)| longest / shortest);
    Check::range(id, left, "", None, Some(WAIT_LEFT_MAX))
}

fn table(rows: &[Row<'_>]) -> Table {
    let columns = [
        ("EF offers", ""),
        ("EF is held by", ""),
        ("in", ""),
        ("EF", "bit/s"),
        ("EF loss", ""),
        ("EF delay p50", "s"),
        ("EF delay p99", "s"),
        ("rest", "bit/s"),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new(NAME, columns.into());
    for row in rows {
        for (world, got) in [("simulation", row.simulated), ("kernel", row.live)] {
            table.push(vec![
                row.load.name.as_str().into(),
                row.way.name.as_str().into(),
                world.into(),
                got.map(|got| got.rate_bit_s).into(),
                got.map(|got| got.loss).into(),
                got.map(|got| got.p50_s).into(),
                got.map(|got| got.p99_s).into(),
                got.map(|got| got.rest_bit_s).into(),
            ]);
        }
    }
    table
}
