//! Runs as one picture in the terminal.

use std::io::IsTerminal;

use strait_report::picture::{Letters, Picture, Scene, Watched};
use strait_traffic::{FlowReport, Kind};

/// One variant's run.
pub(crate) struct Shown<'a> {
    pub(crate) name: &'a str,
    pub(crate) flows: &'a [FlowReport],
    pub(crate) watched: Watched,
}

/// Delays of the first call, or of what else has some, and the use of the link that is used most.
/// It ends a little later than the last transfer.
pub(crate) fn picture(shown: &[Shown<'_>], duration_s: f64) -> Picture {
    let flows = shown.iter().flat_map(|it| it.flows);
    let timed = |flow: &&FlowReport| flow.series.iter().any(|it| it.unit == "s");
    let calls = flows.clone().filter(|it| it.kind == Kind::Voice);
    let flow = calls.chain(flows.clone()).find(timed);
    let line = shown.iter().find_map(|it| it.watched.busiest());
    let line = line.unwrap_or_default();
    let series = flows.flat_map(|it| &it.series);
    let transfers = series.filter(|it| matches!(it.label, "progress" | "objects"));
    let ends = transfers.filter_map(|it| it.points.last());
    let last_s = ends.map(|it| it.0).fold(0.0, f64::max);
    let end_s = if last_s > 0.0 {
        last_s * 1.1
    } else {
        duration_s
    };
    let scene = |it: &Shown<'_>| {
        let own = it
            .flows
            .iter()
            .filter(|it| Some(&it.name) == flow.map(|it| &it.name));
        let timed = own.flat_map(|it| &it.series).find(|it| it.unit == "s");
        Scene {
            name: it.name.to_owned(),
            values: timed.map_or_else(Vec::new, |it| it.points.clone()),
            shares: it.watched.shares(line),
        }
    };
    let label = flow.and_then(|it| Some((it.series.iter().find(|it| it.unit == "s")?.label, it)));
    Picture {
        values: label.map_or_else(String::new, |(label, it)| format!("{label} of {}", it.name)),
        line: format!("{line}, by class"),
        end_s: end_s.min(duration_s),
        scenes: shown.iter().map(scene).collect(),
    }
}

/// All of it, below what was printed before.
pub(crate) fn whole(picture: &Picture) -> String {
    format!("\n{}", picture.text(picture.end_s, letters()))
}

/// Braille and blocks, but on a terminal that may not have them.
pub(crate) fn letters() -> Letters {
    let set = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    let term = set("TERM").unwrap_or_default();
    let small = term == "linux" || term == "dumb" || term.starts_with("vt");
    let knows = locale.contains("utf-8") || locale.contains("utf8");
    if std::io::stdout().is_terminal() && (small || !knows) {
        return Letters::Ascii;
    }
    Letters::Unicode
}
