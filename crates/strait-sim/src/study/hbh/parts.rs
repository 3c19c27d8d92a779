//! The parts of the study `hbh` beside its chain: a slow link in the middle of a path, flows that
//! are alike, calls, and this kernel's own TCP.

use strait_channel::{LinkConfig, Side};
use strait_core::Duration;
use strait_core::units::Time;
use strait_scenario::{Link, Loaded, Scenario};
use toml::Value;

use super::super::fair::{self, FairCase};
use super::super::scenario::{self, Part, load};
use super::super::shown::Row;
use super::super::{Asked, Measured, StudyError, pressure, run_all};
use super::HbhLive;

/// The largest frame: a packet of 1500 octets and what stands around it.
const FRAME_OCTETS: f64 = 1_534.0;

/// The way's delay, and two of the largest frames ahead of a call's packet on each of its links.
fn call_max_s<'a>(links: impl Iterator<Item = &'a Link>) -> f64 {
    let hop_s = |link: &LinkConfig| {
        let rate = link.line_rate(Side::A).bit_s() as f64;
        let delay_s = link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
        delay_s + 2.0 * FRAME_OCTETS * 8.0 / rate
    };
    links.map(|link| hop_s(&link.channel)).sum()
}

/// Where packets wait, and where they are dropped, when a link in the middle of a path is slow.
pub(super) fn pressure(
    parts: &[Part],
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let places = Part::find(parts, "pressure")?.places()?;
    let runs = run_all(asked, "hbh-pressure", &places, |place| {
        pressure::run(
            &place.loaded,
            &place.variant,
            asked.seed(place.loaded.scenario.seed),
        )
    })?;
    measured.fold(runs.iter().map(|pressed| pressed.run.hash));
    let rows = places.iter().zip(&runs).map(|(place, pressed)| {
        let row = scenario::with_metrics(place.row.clone(), std::slice::from_ref(&pressed.run));
        row.with("dropped_before", pressed.dropped_before)
            .with("dropped_inside", pressed.dropped_inside)
            .with("aged_inside", pressed.aged_inside)
            .with("held_octets", pressed.held_octets_max)
            .with("call_max_s", call_max_s(place.loaded.links.iter()))
    });
    measured.parts.insert("pressure", rows.collect());
    Ok(())
}

const FLOWS: [usize; 3] = [2, 5, 10];

/// Links that each of them crosses.
const FLOW_LINKS: u64 = 4;

/// A name, the ways of the flows, and which of them meet on a link in one direction.
type Layout = (
    &'static str,
    &'static [[&'static str; 2]],
    &'static [&'static [usize]],
);
const LAYOUTS: [Layout; 3] = [
    ("one chain", &[["ha", "hb"]], &[&[0]]),
    (
        "one chain, both ways",
        &[["ha", "hb"], ["hb", "ha"]],
        &[&[0], &[1]],
    ),
    (
        "two chains that cross",
        &[["ha", "hb"], ["hc", "hd"]],
        &[&[0, 1]],
    ),
];
/// When TCP's windows have grown.
const WARM_UP: Time = Time(Duration::from_secs(20));

/// Flows that are alike, in each layout at each loss; then a call beside bulk.
pub(super) fn fair(
    parts: &[Part],
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let places = Part::find(parts, "fair")?.places()?;
    let mut jobs = Vec::new();
    for place in &places {
        for layout in LAYOUTS {
            jobs.extend(FLOWS.map(|flows| (place, layout, flows)));
        }
    }
    let runs = run_all(asked, "hbh-fair", &jobs, |(place, (_, ways, _), flows)| {
        let case = FairCase {
            flows: *flows,
            ways: ways.iter().map(|way| way.map(String::from)).collect(),
            warm_up: WARM_UP,
        };
        fair::run(&place.loaded, &case, asked.seed(place.loaded.scenario.seed))
    })?;
    measured.fold(runs.iter().map(|shares| shares.run.hash));
    let odd = runs.iter().map(|shares| shares.run.unexplained as f64);
    let mut all = vec![Row::default().with("unexplained", odd.collect::<Vec<f64>>())];
    let rows = jobs
        .iter()
        .zip(runs)
        .map(|((place, layout, flows), shares)| {
            // Of the flows that meet, where they are least alike.
            let indices = layout.2.iter().map(|ways| shares.jain(ways));
            let jain = indices.fold(1.0, f64::min);
            let row = place.row.clone();
            let delivered = (shares.received_octets * FLOW_LINKS) as f64;
            row.with("layout", layout.0)
                .with("delay_s", shares.delays_s)
                .with("sent_per_octet", shares.link_octets as f64 / delivered)
                .with("flows", *flows)
                .with("jain", jain)
                .with("rate_bit_s", shares.rates_bit_s)
                .with("check", format!("hbh-fair-{flows}"))
        });
    measured.parts.insert("fair", rows.collect());

    let places = Part::find(parts, "voice")?.places()?;
    let (rows, hashes) = scenario::run(asked, "hbh-voice", &places)?;
    measured.fold(hashes);
    let rows = rows.into_iter().zip(&places).map(|(row, place)| {
        let links = place.loaded.links.iter();
        row.with(
            "call_max_s",
            call_max_s(links.filter(|link| !link.name.contains('-'))),
        )
    });
    let rows: Vec<Row> = rows.collect();
    all.extend(rows.iter().cloned());
    measured.parts.insert("fair-runs", all);
    measured.parts.insert("voice", rows);
    Ok(())
}

/// How many packets a parity frame follows in a variant of `scenarios/lab/hbh-parity.toml`.
const PACKETS: [(&str, i32); 3] = [("five", 5), (Scenario::BASE, 3), ("two", 2)];

/// A call over a link whose round trip is longer than its packets are worth anything.
pub(super) fn parity(
    parts: &[Part],
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let places = Part::find(parts, "parity")?.places()?;
    let (rows, hashes) = scenario::run(asked, "hbh-parity", &places)?;
    measured.fold(hashes);
    let rows = rows.into_iter().map(|row| {
        let variant = row.word("variant").unwrap_or_default();
        let packets = PACKETS.iter().find(|it| it.0 == variant).map(|it| it.1);
        // If frames are lost by chance: a packet, and another of its group or its parity.
        let chance = row.median("loss").map(|loss| {
            let others = packets.map_or(1.0, |packets| 1.0 - (1.0 - loss).powi(packets));
            loss * others
        });
        row.with("packets", packets.map(f64::from))
            .with("by_chance", chance)
    });
    measured.parts.insert("parity", rows.collect());
    Ok(())
}

/// What carries the packets, with the scenario that says how.
const CARRIERS: [(&str, &str); 2] = [
    ("kernel", "studies/hbh-live-kernel.toml"),
    ("strait", "studies/hbh-live.toml"),
];

/// This kernel's own TCP over reliable links, and over this kernel's own routers, if all was asked
/// for.
pub(super) fn live(
    live: &HbhLive,
    asked: &Asked<'_>,
    measured: &mut Measured,
) -> Result<(), StudyError> {
    let mut rows = Vec::new();
    let mut labs: Vec<Loaded> = Vec::new();
    for loss in &live.losses {
        for endpoint in &live.endpoints {
            for (carrier, scenario) in CARRIERS {
                let point = vec![
                    ("link.*.loss".into(), Value::Float(loss.0)),
                    (
                        "traffic.file.endpoint".into(),
                        Value::String(endpoint.clone()),
                    ),
                ];
                labs.push(load(scenario)?.at(&point)?);
                let row = Row::default().with("loss", loss.0);
                rows.push(
                    row.with("endpoint", endpoint.as_str())
                        .with("carrier", carrier),
                );
            }
        }
    }
    let mut sent = Vec::new();
    if asked.live && asked.full {
        let all = (0..live.runs).flat_map(|run| {
            labs.iter().cloned().map(move |mut lab| {
                lab.scenario.seed += run;
                lab
            })
        });
        let together = live.together;
        sent = asked
            .outside
            .labs("hbh", all.collect(), together)
            .map_err(StudyError::Live)?;
    }
    let places = rows.len();
    let rows = rows.into_iter().enumerate().map(|(place, row)| {
        let own = || sent.iter().skip(place).step_by(places);
        let counts = |name: &str| -> Option<Vec<f64>> {
            own().map(|sent| sent.counts.get(name).copied()).collect()
        };
        let times: Vec<f64> = own().map(|sent| sent.time_s).collect();
        let [frames, octets] = ["frames", "octets"].map(counts);
        row.with("time_s", (!times.is_empty()).then_some(times))
            .with("frames", frames)
            .with("octets", octets)
    });
    measured.parts.insert("live", rows.collect());
    Ok(())
}
