//! How well live and simulated agree.

use strait_lab::Outcome;
use strait_report::estimate::{mean, percentile};
use strait_report::table::Check;
use strait_scenario::{Loaded, unit_of};
use strait_sim::Run;
use strait_traffic::{FlowReport, Traffic, TrafficConfig};

/// How far live and simulated may be apart: a share of the simulated one, and so many seconds for
/// what the host itself takes.
const AGREEMENT: (f64, f64) = (0.05, 0.005);
/// The same of what is reached once in twenty times: what the host takes then.
const TAIL_S: f64 = 0.01;

/// Simulated runs with consecutive seeds, the first with the scenario's own.
///
/// Where something is drawn, a run is one of many that could be. If the live run is one of them,
/// it is the lowest or the highest of all in two cases of N + 1, whatever the distribution.
pub(super) struct Simulated(Vec<Run>);

impl Simulated {
    pub(super) fn new(loaded: &Loaded, variant: &str, runs: u64) -> anyhow::Result<Self> {
        let seed = loaded.scenario.seed;
        let mut all = vec![strait_sim::run_once(loaded, variant, seed, false)?];
        let others: Vec<u64> = (1..runs).map(|more| seed.wrapping_add(more)).collect();
        all.extend(strait_sim::run_each(loaded, variant, &others)?);
        Ok(Self(all))
    }

    /// The run with the scenario's own seed.
    pub(super) fn first(&self) -> &Run {
        &self.0[0]
    }

    pub(super) fn seeds(&self) -> Vec<u64> {
        self.0.iter().map(|run| run.seed).collect()
    }

    /// The lowest and the highest value of all runs that have one, and whether all have.
    pub(super) fn range(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<([f64; 2], bool)> {
        let values: Vec<f64> = self.0.iter().filter_map(of).collect();
        let lowest = values.iter().copied().reduce(f64::min)?;
        let highest = values.iter().copied().reduce(f64::max)?;
        Some(([lowest, highest], values.len() == self.0.len()))
    }
}

/// How far the live run is from the nearest that simulated ones came to, figure by figure.
pub(super) fn agreement(loaded: &Loaded, live: &Outcome, simulated: &Simulated) -> Vec<Check> {
    // What waits for stable storage takes as long as this host's.
    let stores = |traffic: &TrafficConfig| {
        let to = loaded.nodes.iter().find(|node| traffic.to == node.name);
        let echo = to.and_then(|node| node.config.echo.as_ref());
        traffic.is_echo() && echo.is_some_and(|echo| echo.store)
    };
    let traffic = loaded.scenario.traffic.iter().filter(|it| !stores(it));
    let figures = traffic.flat_map(|traffic| compared(traffic, simulated.first()));
    let check = |figure: Figure| {
        let value = figure.of(&live.flows);
        let range = simulated.range(|run| figure.of(&run.flows));
        // What doesn't come to its end in each simulated run needn't live either.
        if value.is_none() && range.is_none_or(|(_, all)| !all) {
            return None;
        }
        let both = value.zip(range.map(|(range, _)| range));
        let near = both.map(|(live, [lowest, highest])| (live, live.clamp(lowest, highest)));
        let apart = near.map(|(live, near)| (live - near).abs());
        let max = near.map(|(_, near)| near * AGREEMENT.0 + figure.slack);
        let unit = unit_of(&figure.metric);
        Some(Check::range(figure.id, apart, unit, None, max).failed())
    };
    figures.filter_map(check).collect()
}

/// What is compared.
struct Figure {
    id: String,
    /// The flow, by the name of its report.
    flow: String,
    metric: String,
    /// How far apart they may be beside the share.
    slack: f64,
}

impl Figure {
    fn of(&self, flows: &[FlowReport]) -> Option<f64> {
        let flow = flows.iter().find(|flow| flow.name == self.flow)?;
        let delays = || {
            let series = flow.series.iter().find(|series| series.label == "delay");
            let points = series.into_iter().flat_map(|series| &series.points);
            points.map(|(_, delay_s)| *delay_s).collect::<Vec<_>>()
        };
        match self.metric.as_str() {
            "delay_mean_s" => mean(&delays()),
            "delay_p95_s" => percentile(&delays(), 0.95),
            metric => flow.metrics.get(metric).copied(),
        }
    }
}

/// By which figures live and simulated are compared.
fn compared(traffic: &TrafficConfig, run: &Run) -> Vec<Figure> {
    let figure = |flow: &str, word: &str, metric: &str, slack| Figure {
        id: format!("agree-{flow}-{word}"),
        flow: flow.to_owned(),
        metric: metric.to_owned(),
        slack,
    };
    let name = traffic.name.as_str();
    match &traffic.what {
        Traffic::EchoStream { .. } | Traffic::Page { .. } | Traffic::Mail { .. } => {
            vec![figure(name, "time", "time_s", AGREEMENT.1)]
        }
        Traffic::Ping { .. } | Traffic::Dns { .. } | Traffic::EchoDatagrams { .. } => vec![
            figure(name, "rtt", "rtt_p50_s", AGREEMENT.1),
            figure(name, "loss", "loss", 0.0),
        ],
        // `mgen` draws its gaps itself.
        Traffic::Udp { poisson: true, .. } => Vec::new(),
        Traffic::Udp { .. } | Traffic::Pair(_) => {
            vec![figure(name, "rate", "rate_bit_s", 0.0)]
        }
        Traffic::Mgen(_) => {
            let flows = run.flows.iter().map(|flow| flow.name.as_str());
            let own = flows.filter(|flow| flow.split_once('.').is_some_and(|(of, _)| of == name));
            let each = |flow| {
                vec![
                    figure(flow, "rate", "rate_bit_s", 0.0),
                    figure(flow, "loss", "loss", 0.0),
                    figure(flow, "mean", "delay_mean_s", AGREEMENT.1),
                    figure(flow, "p95", "delay_p95_s", TAIL_S),
                ]
            };
            own.flat_map(each).collect()
        }
        // Not the last octet's latency: how much a kernel's buffers hold is its own affair.
        Traffic::Measured { campaign, .. } => {
            let labels = campaign.labels().into_iter();
            let both = labels.flat_map(|label| {
                ["connect", "time"].map(|word| {
                    let metric = format!("{label}.{word}_s");
                    figure(name, &format!("{label}-{word}"), &metric, AGREEMENT.1)
                })
            });
            both.collect()
        }
        _ => Vec::new(),
    }
}
