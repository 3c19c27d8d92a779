//! The part `hbh-fair` of the study `hbh`: what each of several flows gets of a chain of reliable
//! links, and how long a call takes beside them.

use strait_core::Instant;
use strait_core::units::Time;
use strait_scenario::{Loaded, Scenario};
use strait_traffic::{Kind, Side, TrafficConfig};

use crate::build::{BuildError, Built, build};
use crate::run::{Run, collect};

/// Flows that want all they can get, every second one by TCP, the others by datagrams.
#[derive(Clone, Debug, PartialEq)]
pub struct FairCase {
    /// How many.
    pub flows: usize,
    /// Between which hosts: flows take these in turn, two and two.
    pub ways: Vec<[String; 2]>,
    /// How long they run before they are counted.
    pub warm_up: Time,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Shares {
    /// The run.
    pub run: Run,
    /// Of each flow in their order, in bit/s of payload, while it was counted.
    pub rates_bit_s: Vec<f64>,
    /// Octets of payload that all flows received, from the beginning.
    pub received_octets: u64,
    /// Octets of frames on the links between gateways.
    pub link_octets: u64,
    /// Medians of how long each flow's datagrams took; a flow by TCP has none.
    pub delays_s: Vec<f64>,
    /// By way, the flows that took it.
    pub flows_of: Vec<Vec<usize>>,
}

impl Shares {
    /// Jain's index over the flows of some ways: 1 if all have the same, 1 ÷ their number if one
    /// has all.
    pub fn jain(&self, ways: &[usize]) -> f64 {
        let flows = ways.iter().filter_map(|way| self.flows_of.get(*way));
        let rates = flows
            .flatten()
            .filter_map(|flow| self.rates_bit_s.get(*flow));
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for rate in rates {
            count += 1.0;
            sum += rate;
            squares += rate * rate;
        }
        if squares > 0.0 {
            sum * sum / (count * squares)
        } else {
            0.0
        }
    }
}

impl FairCase {
    /// Which way a flow takes: the first of them, then two each in turn.
    fn way(&self, flow: usize) -> usize {
        flow.div_ceil(2) % self.ways.len().max(1)
    }

    fn traffic(&self, models: &[TrafficConfig]) -> Vec<TrafficConfig> {
        let kinds = [Kind::Tcp, Kind::Udp];
        let flow = |number: usize| {
            let model = models.iter().find(|it| it.kind == kinds[number % 2])?;
            let ends = self.ways.get(self.way(number))?.clone();
            let mut flow = model.clone();
            let renamed = flow.change(|keys| {
                keys.name = format!("f{number}");
                [keys.from, keys.to] = ends;
            });
            renamed.ok().map(|()| flow)
        };
        (0..self.flows).filter_map(flow).collect()
    }
}

/// Runs a scenario with the flows of a case, modelled on its own traffic of these kinds, in place
/// of that traffic.
///
/// # Errors
/// Why the scenario can't be built.
pub fn run(loaded: &Loaded, case: &FairCase, seed: u64) -> Result<Shares, BuildError> {
    let mut loaded = loaded.clone();
    loaded.scenario.traffic = case.traffic(&loaded.scenario.traffic);
    let mut built = build(&loaded, Scenario::BASE, seed)?;
    let (from, end) = (case.warm_up.0, loaded.scenario.duration.0);
    let received = |built: &Built| -> Vec<u64> {
        let traffic = loaded.scenario.traffic.iter();
        traffic.map(|config| octets(built, config)).collect()
    };
    built.world_mut().run_until(Instant::ZERO + from);
    let before = received(&built);
    built.world_mut().run_until(Instant::ZERO + end);
    built.world().check();
    let window_s = end.saturating_sub(from).as_secs_f64();
    let all = received(&built);
    let own = |name: &str| loaded.links.iter().any(|link| link.name == name);
    let between = built.world().links().filter(|(name, _)| own(name));
    let link_octets = between.flat_map(|(_, sides)| sides).map(|side| side.octets);
    let link_octets = link_octets.sum();
    let counted = before.iter().zip(&all);
    let rates_bit_s = counted.map(|(before, after)| (after - before) as f64 * 8.0 / window_s);
    let of_way = |way: usize| {
        (0..case.flows)
            .filter(|flow| case.way(*flow) == way)
            .collect()
    };
    let rates_bit_s = rates_bit_s.collect();
    let run = collect(&loaded, Scenario::BASE, seed, &mut built, Vec::new());
    let delays = (0..case.flows).map(|flow| run.metrics.get(&format!("f{flow}.delay_p50_s")));
    Ok(Shares {
        rates_bit_s,
        received_octets: all.iter().sum(),
        link_octets,
        delays_s: delays.flatten().copied().collect(),
        flows_of: (0..case.ways.len()).map(of_way).collect(),
        run,
    })
}

/// Octets of a flow that the other end has had so far.
fn octets(built: &Built, config: &TrafficConfig) -> u64 {
    let host = built.node(&config.to);
    let host = host.and_then(|node| built.world().host(node));
    let mut logs = host.into_iter().flat_map(|host| host.logs());
    let log = logs.find(|log| log.traffic == config.name && log.side == Side::To);
    log.map_or(0, |log| match &log.transfer {
        Some(transfer) => transfer.octets,
        None => log.received.iter().map(|mark| u64::from(mark.octets)).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::Duration;
    use strait_core::units::{BitRate, Octets};
    use strait_traffic::TrafficKeys;

    #[test]
    fn flows_alternate_in_kind_and_take_turns_in_pairs() {
        let pair = |from: &str, to: &str| [from.to_owned(), to.to_owned()];
        let case = FairCase {
            flows: 5,
            ways: vec![pair("ha", "hb"), pair("hc", "hd")],
            warm_up: Time(Duration::ZERO),
        };
        let models = [
            TrafficKeys {
                octets: Some(Octets(1)),
                ..TrafficKeys::plain("model", Kind::Tcp)
            },
            TrafficKeys {
                rate: Some(BitRate(1)),
                ..TrafficKeys::plain("model", Kind::Udp)
            },
        ]
        .map(|keys| TrafficConfig::try_from(keys).unwrap());
        let flows = case.traffic(&models);
        let told: Vec<_> = flows.iter().map(|it| (it.kind, it.from.as_str())).collect();
        let expected = [
            (Kind::Tcp, "ha"),
            (Kind::Udp, "hc"),
            (Kind::Tcp, "hc"),
            (Kind::Udp, "ha"),
            (Kind::Tcp, "ha"),
        ];
        assert_eq!(told, expected);
    }
}
