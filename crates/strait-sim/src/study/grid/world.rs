//! One world: what was drawn, and the scenario that it is.

use std::collections::BTreeMap;
use std::path::Path;

use strait_core::chance::Stream;
use strait_core::units::{BitRate, Octets, Time};
use strait_node::config_text::ConfigError;
use strait_report::estimate::mean_interval;
use strait_scenario::{DiskFiles, Loaded, Scenario};
use toml::{Table, Value, toml};

use super::case::{Case, DATAGRAM_OCTETS};
use super::judge::Quantity;
use super::{Alternative, GridStudy, Kind, Line};

/// Octets of the longest frame, and of the longest packet on lines of frames: with the most that
/// any profile puts beside it, it is one frame.
const PACKET_OCTETS: u64 = 1500;
pub(super) const FRAME_MTU_OCTETS: u64 = 1466;
/// Octets of a call's packet with all its headers.
const CALL_OCTETS: f64 = 79.0;
/// What a line puts around it: a header, a check, flags.
const FRAMING_OCTETS: f64 = 7.0;
/// A call's packets, each so often.
const CALL_PAYLOAD: &str = "31 B";
const CALL_PERIOD_S: f64 = 0.2;
/// Calls take at most this share of a line, each and all together: what is too much isn't carried.
/// Without a mark, several are let go first up to a third of a line.
const CALL_SHARE: f64 = 0.45;
const CALLS_SHARE: f64 = 0.6;
const UNMARKED_CALLS_SHARE: f64 = 0.33;
/// Flows begin within this share of the time that the transfers take.
const SPREAD: f64 = 0.3;
/// Those of a case within this, so that equal transfers begin as good as together.
const CASE_SPREAD_S: f64 = 1.0;
/// Of a line, what a case's small datagrams have of it without their headers.
const SMALL_SHARE: f64 = 0.02;
/// A run ends after so many times that.
const RUN_TIMES: f64 = 8.0;
/// Packets slower than the percentile that is judged.
const SLOWEST: f64 = 0.01;
/// Frames of a burst of losses, on average.
const BURST_FRAMES: f64 = 4.0;

/// A world.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// Its number.
    pub(super) number: u64,
    line: usize,
    name: String,
    /// The line's rate as its file says it, and what it carries of octets.
    rate_bit_s: u64,
    carries_bit_s: f64,
    profile: String,
    delay_s: f64,
    loss: f64,
    bursts: bool,
    bit_errors: f64,
    marked: bool,
    flows: Vec<Flow>,
    span_s: f64,
    spread_s: f64,
}

#[derive(Clone, Debug)]
struct Flow {
    name: String,
    family: u8,
    back: bool,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Transfer { octets: u64, endpoint: String },
    Page { octets: u64, endpoint: String },
    Datagrams { octets: u64, bit_s: u64 },
    Call,
    Ping,
}

impl Flow {
    /// What a call is called in the other direction.
    fn name_back(&self) -> String {
        format!("{}-back", self.name)
    }
}

impl World {
    pub(super) fn draw(study: &GridStudy, number: u64) -> Self {
        let mut chance = Stream::new(study.seed, &format!("grid {number}"));
        let place = weighted(&mut chance, study.lines.iter().map(|line| line.weight));
        let line = &study.lines[place];
        let [least, most] = line.rate.map(|rate| rate.0 as f64);
        let rate_bit_s = logarithmic(&mut chance, least, most).round();
        let carries_bit_s = line.kind.carries(rate_bit_s);
        let [least, most] = study.delay.map(|delay| delay.0.as_secs_f64());
        let mut world = Self {
            number,
            line: place,
            name: line.name.clone(),
            rate_bit_s: rate_bit_s as u64,
            carries_bit_s,
            profile: pick(&mut chance, &line.profiles)
                .cloned()
                .unwrap_or_default(),
            delay_s: logarithmic(&mut chance, least, most),
            loss: pick(&mut chance, &line.losses).map_or(0.0, |loss| loss.0),
            bursts: chance.happens(line.bursts.0),
            bit_errors: pick(&mut chance, &line.bit_errors).map_or(0.0, |errors| errors.0),
            marked: chance.happens(study.marked.0),
            flows: Vec::new(),
            span_s: 0.0,
            spread_s: 0.0,
        };
        world.span_s = study.span_s(world.longest_s(), world.delay_s);
        world.spread_s = SPREAD * world.span_s;
        world.draw_flows(study, &mut chance);
        world
    }

    /// One of a case.
    pub(super) fn alike(
        study: &GridStudy,
        place: usize,
        (rate, delay): (BitRate, Time),
        case: &Case,
        endpoint: &str,
    ) -> Self {
        let line = &study.lines[place];
        let carries_bit_s = line.kind.carries(rate.0 as f64);
        let file = (0..case.transfers).map(|number| Flow {
            name: format!("file{number}"),
            family: 4,
            back: false,
            what: What::Transfer {
                octets: 1,
                endpoint: endpoint.into(),
            },
        });
        let small = [
            (
                "small",
                What::Datagrams {
                    octets: DATAGRAM_OCTETS,
                    bit_s: (carries_bit_s * SMALL_SHARE).ceil() as u64,
                },
            ),
            ("ping", What::Ping),
        ];
        let small = small.into_iter().filter(|_| case.small);
        let small = small.map(|(name, what)| Flow {
            name: name.into(),
            family: 4,
            back: false,
            what,
        });
        let mut world = Self {
            number: 0,
            line: place,
            name: line.name.clone(),
            rate_bit_s: rate.0,
            carries_bit_s,
            profile: line.profiles.first().cloned().unwrap_or_default(),
            delay_s: delay.0.as_secs_f64(),
            loss: 0.0,
            bursts: false,
            bit_errors: 0.0,
            marked: false,
            flows: file.chain(small).collect(),
            span_s: case.packets.map_or_else(
                || study.span_s(longest_s(carries_bit_s), delay.0.as_secs_f64()),
                |packets| packets as f64 * longest_s(carries_bit_s),
            ),
            spread_s: CASE_SPREAD_S,
        };
        world.share_line(study.octets_max);
        world
    }

    fn draw_flows(&mut self, study: &GridStudy, chance: &mut Stream) {
        let [least, most] = study.flows;
        let most = study.wait.map_or(most, |wait| {
            let waits = wait.0.as_secs_f64() / self.longest_s();
            most.min(waits as u64).max(least)
        });
        let count = least + chance.below(most - least + 1);
        let call = CALL_OCTETS * 8.0 / CALL_PERIOD_S / self.carries_bit_s;
        let mut calls = 0.0;
        let mixed = chance.happens(study.mixed.0);
        let common = pick(chance, &study.endpoints).cloned().unwrap_or_default();
        for number in 0..count {
            // Transfers, pages, datagrams, calls, pings; the first is a transfer.
            let kind = match number {
                0 => 0,
                _ => weighted(chance, [5, 1, 2, 2, 1].into_iter()),
            };
            let endpoint = match mixed {
                true => pick(chance, &study.endpoints).cloned().unwrap_or_default(),
                false => common.clone(),
            };
            let most = match (self.marked, calls > 0.0) {
                (true, _) => CALLS_SHARE,
                (false, true) => UNMARKED_CALLS_SHARE,
                (false, false) => CALL_SHARE,
            };
            let fits = call <= CALL_SHARE && calls + call <= most;
            let what = match kind {
                // Weights until all are known.
                0 => What::Transfer {
                    octets: 50 + chance.below(100),
                    endpoint,
                },
                1 => What::Page {
                    octets: 20 + chance.below(30),
                    endpoint,
                },
                3 if fits => What::Call,
                2 | 3 => What::Datagrams {
                    octets: [20, 40, 100, 400][chance.below(4) as usize],
                    bit_s: (self.carries_bit_s * (0.01 + 0.04 * chance.unit())).ceil() as u64,
                },
                _ => What::Ping,
            };
            if matches!(what, What::Call) {
                calls += call;
            }
            let name = match what {
                What::Transfer { .. } => "file",
                What::Page { .. } => "page",
                What::Datagrams { .. } => "small",
                What::Call => "call",
                What::Ping => "ping",
            };
            self.flows.push(Flow {
                name: format!("{name}{number}"),
                family: [4, 6][chance.below(2) as usize],
                back: chance.happens(0.2),
                what,
            });
        }
        self.share_line(study.octets_max);
    }

    /// Turns weights of transfers into octets: all together fill the line for the world's time.
    fn share_line(&mut self, octets_max: Option<Octets>) {
        let octets_max = octets_max.map_or(f64::MAX, |most| most.0 as f64);
        let line = (self.carries_bit_s / 8.0 * self.span_s).min(octets_max);
        let whole = self.octets();
        for flow in &mut self.flows {
            if let What::Transfer { octets, .. } | What::Page { octets, .. } = &mut flow.what {
                *octets = ((line * *octets as f64 / whole.max(1) as f64) as u64).max(2000);
            }
        }
    }

    /// How it is, in words.
    pub(super) fn about(&self) -> String {
        let mut about = format!(
            "{} {} bit/s, {:.0} ms, {}",
            self.name,
            self.rate_bit_s,
            self.delay_s * 1e3,
            self.profile
        );
        if self.loss > 0.0 {
            about += &format!(
                ", loses {} %{}",
                self.loss * 100.0,
                if self.bursts { " in bursts" } else { "" }
            );
        }
        if self.bit_errors > 0.0 {
            about += &format!(", bit errors {:e}", self.bit_errors);
        }
        if self.marked {
            about += ", marked";
        }
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for flow in &self.flows {
            *kinds
                .entry(flow.name.trim_end_matches(char::is_numeric))
                .or_default() += 1;
        }
        for (kind, count) in kinds {
            about += &format!(", {count} {kind}");
        }
        about
    }

    /// Seconds of the longest packet on the line.
    pub(super) fn longest_s(&self) -> f64 {
        longest_s(self.carries_bit_s)
    }

    pub(super) const fn carries_bit_s(&self) -> f64 {
        self.carries_bit_s
    }

    pub(super) const fn delay_s(&self) -> f64 {
        self.delay_s
    }

    /// Octets of all transfers.
    pub(super) fn octets(&self) -> u64 {
        let octets = self.flows.iter().map(|flow| match flow.what {
            What::Transfer { octets, .. } | What::Page { octets, .. } => octets,
            _ => 0,
        });
        octets.sum()
    }

    /// What sends the first transfer.
    pub(super) fn endpoint(&self) -> &str {
        let mut senders = self.flows.iter().filter_map(|flow| match &flow.what {
            What::Transfer { endpoint, .. } | What::Page { endpoint, .. } => Some(&**endpoint),
            _ => None,
        });
        senders.next().unwrap_or_default()
    }

    fn run_s(&self) -> f64 {
        60.0 + RUN_TIMES * self.span_s + 200.0 * self.delay_s
    }

    /// Share of a call's packets that the line loses by chance.
    pub(super) fn chance_loss(&self) -> f64 {
        let whole = (1.0 - self.bit_errors).powf((CALL_OCTETS + FRAMING_OCTETS) * 8.0);
        1.0 - (1.0 - self.loss) * whole
    }

    pub(super) fn may_have(&self, alternative: &Alternative) -> bool {
        let lines = alternative.lines.as_ref();
        lines.is_none_or(|lines| lines.contains(&self.name))
    }

    /// The scenario with the gateways' defaults or with an alternative.
    ///
    /// # Errors
    /// A key of the study's file that no node or traffic has.
    pub(super) fn scenario(
        &self,
        study: &GridStudy,
        alternative: Option<&Alternative>,
    ) -> Result<Loaded, ConfigError> {
        let text = self.text(study, alternative);
        let path = format!("world-{}.toml", self.number);
        Scenario::load_text(&DiskFiles, Path::new(&path), &text)
    }

    /// The text of the scenario file.
    pub(super) fn text(&self, study: &GridStudy, alternative: Option<&Alternative>) -> String {
        let line = &study.lines[self.line];
        let sides = [("a", 1, 2), ("b", 2, 1)];
        let nodes = sides.map(|(name, own, far)| {
            Value::Table(self.node(line, &study.node, alternative, (name, own, far)))
        });
        let hosts = sides.map(|(name, own, _)| {
            Value::Table(toml! {
                name = (format!("h{name}"))
                behind = (name)
                addresses = [(format!("10.{own}.0.2/24")), (format!("fd00:{own}::2/64"))]
                gateway_addresses = [(format!("10.{own}.0.1/24")), (format!("fd00:{own}::1/64"))]
            })
        });
        let traffic = self.flows.iter().flat_map(|flow| {
            let both = self.traffic(flow, alternative);
            both.into_iter().map(Value::Table)
        });
        let mut scenario = toml! {
            name = (format!("world-{}", self.number))
            about = (self.about())
            duration = (seconds(self.run_s()))
        };
        let channel = self.channel(line);
        let link = toml! { between = ["a.line", "b.line"] channel = (channel) };
        scenario.insert("node".into(), nodes.to_vec().into());
        scenario.insert("host".into(), hosts.to_vec().into());
        scenario.insert("link".into(), vec![Value::Table(link)].into());
        scenario.insert("traffic".into(), traffic.collect::<Vec<_>>().into());
        scenario.to_string()
    }

    fn channel(&self, line: &Line) -> Table {
        let delay = seconds(self.delay_s);
        let mut channel = match line.kind {
            Kind::Serial => {
                toml! { kind = "serial" baud = (self.rate_bit_s as i64) framing = "8N1" }
            }
            Kind::Frames => toml! {
                kind = "frames"
                rate = (format!("{} bit/s", self.rate_bit_s))
                frame_octets_max = (PACKET_OCTETS as i64)
            },
        };
        channel.insert("delay".into(), delay.into());
        if self.loss > 0.0 && self.bursts {
            let leave = 1.0 / BURST_FRAMES;
            let enter = leave * self.loss / (1.0 - self.loss);
            channel.insert(
                "burst_loss".into(),
                toml! { enter = (enter) leave = (leave) }.into(),
            );
        } else if self.loss > 0.0 {
            channel.insert("loss".into(), self.loss.into());
        }
        if self.bit_errors > 0.0 {
            channel.insert("bit_errors".into(), self.bit_errors.into());
        }
        channel
    }

    fn node(
        &self,
        line: &Line,
        own_keys: &Table,
        alternative: Option<&Alternative>,
        (name, own, far): (&str, u8, u8),
    ) -> Table {
        let mut port = match line.kind {
            Kind::Serial => toml! {
                kind = "serial"
                device = "/dev/ttyUSB0"
                baud = (self.rate_bit_s as i64)
                framing = "8N1"
            },
            Kind::Frames => toml! {
                kind = "udp"
                rate = (format!("{} bit/s", self.rate_bit_s))
                frame = (format!("{PACKET_OCTETS} B"))
                mtu = (format!("{FRAME_MTU_OCTETS} B"))
            },
        };
        let profile = match alternative {
            Some(other) if !other.keeps_link => "plain",
            _ => &self.profile,
        };
        port.insert("name".into(), "line".into());
        port.insert("profile".into(), profile.into());
        if matches!(profile, "adapter" | "segments") {
            port.insert("compression".into(), "rohc".into());
        }
        let mut config = toml! {
            name = (name)
            policy = { preset = "default" }
        };
        let host = toml! {
            addresses = [(format!("10.9.0.{own}/30")), (format!("fd00:9::{own}/64"))]
            routes = [(format!("10.{far}.0.0/24")), (format!("fd00:{far}::/64"))]
        };
        config.insert("host".into(), host.into());
        config.insert("port".into(), vec![Value::Table(port)].into());
        for (key, value) in alternative.map_or(own_keys, |it| &it.node) {
            config.insert(key.clone(), value.clone());
        }
        toml! { name = (name) config = (config) }
    }

    /// A flow as traffic; a call is one each way, judged apart.
    fn traffic(&self, flow: &Flow, alternative: Option<&Alternative>) -> Vec<Table> {
        let (from, to) = if flow.back {
            ("hb", "ha")
        } else {
            ("ha", "hb")
        };
        let mut traffic = toml! {
            name = (flow.name.as_str())
            from = (from)
            to = (to)
            family = (i64::from(flow.family))
            start = "1 s"
            start_spread = (seconds(self.spread_s))
        };
        let stop = seconds(1.0 + (1.0 + SPREAD) * self.span_s);
        let sender = |own: &str| -> Value {
            let other = alternative.and_then(|it| it.endpoint.as_deref());
            other.unwrap_or(own).into()
        };
        let (own, dscp) = match &flow.what {
            What::Transfer { octets, endpoint } => {
                let own =
                    toml! { kind = "tcp" octets = (*octets as i64) endpoint = (sender(endpoint)) };
                (own, None)
            }
            What::Page { octets, endpoint } => {
                let own = toml! { kind = "page" objects = 5 octets = (*octets as i64) endpoint = (sender(endpoint)) };
                (own, None)
            }
            What::Datagrams { octets, bit_s } => {
                let own = toml! {
                    kind = "udp"
                    payload = (format!("{octets} B"))
                    rate = (format!("{bit_s} bit/s"))
                    poisson = true
                    stop = (stop)
                };
                (own, Some("AF21"))
            }
            What::Call => {
                let own = toml! {
                    kind = "voice"
                    payload = (CALL_PAYLOAD)
                    period = (seconds(CALL_PERIOD_S))
                    stop = (stop)
                };
                (own, Some("EF"))
            }
            What::Ping => {
                let own = toml! { kind = "ping" payload = "56 B" period = "2 s" stop = (stop) };
                (own, None)
            }
        };
        traffic.extend(own);
        if let Some(dscp) = dscp.filter(|_| self.marked) {
            traffic.insert("dscp".into(), dscp.into());
        }
        let mut both = vec![traffic];
        if matches!(flow.what, What::Call) {
            let mut back = both[0].clone();
            back.insert("name".into(), flow.name_back().into());
            back.insert("from".into(), to.into());
            back.insert("to".into(), from.into());
            both.push(back);
        }
        both
    }

    #[cfg(test)]
    pub(super) fn assert_within(&self, study: &GridStudy) {
        let line = &study.lines[self.line];
        let [slowest, fastest] = line.rate.map(|rate| rate.0);
        assert!((slowest..=fastest).contains(&self.rate_bit_s), "{self:?}");
        let [shortest, longest] = study.delay.map(|delay| delay.0.as_secs_f64());
        assert!((shortest..=longest).contains(&self.delay_s), "{self:?}");
        let [fewest, most] = study.flows;
        assert!(
            (fewest..=most).contains(&(self.flows.len() as u64)),
            "{self:?}"
        );
        if let Some(wait) = study.wait {
            let waits_s = self.flows.len() as f64 * self.longest_s();
            let least_s = fewest as f64 * self.longest_s();
            assert!(waits_s <= wait.0.as_secs_f64().max(least_s), "{self:?}");
        }
        assert!(line.profiles.contains(&self.profile));
        let time_s = self.octets() as f64 * 8.0 / self.carries_bit_s;
        let short_files = 2000.0 * self.flows.len() as f64 * 8.0 / self.carries_bit_s;
        assert!(time_s <= self.span_s + short_files, "{time_s}: {self:?}");
    }

    /// What is judged of each flow: quantity and the metric's name.
    pub(super) fn quantities(&self) -> Vec<(Quantity, String)> {
        let of = |flow: &Flow| {
            let metric = |end: &str| format!("{}.{end}", flow.name);
            let back = |end: &str| format!("{}.{end}", flow.name_back());
            match flow.what {
                What::Transfer { .. } | What::Page { .. } => {
                    vec![(Quantity::Time, metric("time_s"))]
                }
                What::Datagrams { .. } => vec![
                    (Quantity::Delay, metric("delay_p99_s")),
                    (Quantity::Loss, metric("loss")),
                ],
                What::Call => vec![
                    (Quantity::Delay, metric("delay_p99_s")),
                    (Quantity::Loss, metric("loss")),
                    (Quantity::Delay, back("delay_p99_s")),
                    (Quantity::Loss, back("loss")),
                ],
                What::Ping => vec![
                    (Quantity::Delay, metric("rtt_p99_s")),
                    (Quantity::Loss, metric("loss")),
                ],
            }
        };
        self.flows.iter().flat_map(of).collect()
    }

    /// The values of [`World::quantities`] in a run. What didn't end took the whole run. Of packets
    /// of which more than the slowest hundredth were lost, that hundredth took twice what the
    /// slowest took that came: the losses themselves are a figure of their own.
    pub(super) fn figures(&self, metrics: &BTreeMap<String, f64>) -> Vec<f64> {
        let value = |name: &str| metrics.get(name).copied().filter(|it| it.is_finite());
        let figures = self.quantities().into_iter().map(|(quantity, name)| {
            let found = value(&name);
            let flow = name.split('.').next().unwrap_or_default();
            let loss = value(&format!("{flow}.loss")).unwrap_or(0.0);
            match quantity {
                Quantity::Delay if loss > SLOWEST => {
                    let slowest = value(&name.replace("_p99_", "_max_"));
                    slowest.map_or_else(|| self.run_s(), |slowest| 2.0 * slowest)
                }
                Quantity::Time | Quantity::Delay => found.unwrap_or_else(|| self.run_s()),
                Quantity::Loss => found.unwrap_or(0.0),
            }
        });
        figures.collect()
    }

    /// The greatest loss of a call, each way by itself, beyond the line's own: what its runs show
    /// for sure, the lower end of the mean's 95 % interval.
    pub(super) fn voice_loss(&self, runs: &[Vec<f64>]) -> Option<f64> {
        let quantities = self.quantities();
        let calls = quantities
            .iter()
            .enumerate()
            .filter(|(_, (quantity, name))| {
                *quantity == Quantity::Loss && name.starts_with("call")
            });
        let least = calls.filter_map(|(place, _)| {
            let losses: Vec<f64> = runs.iter().map(|run| run[place]).collect();
            let interval = mean_interval(&losses)?;
            Some(interval.mean - interval.half_width? - self.chance_loss())
        });
        least.reduce(f64::max)
    }
}

/// Seconds of the longest packet on a line.
fn longest_s(carries_bit_s: f64) -> f64 {
    PACKET_OCTETS as f64 * 8.0 / carries_bit_s
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.6} s")
}

fn logarithmic(chance: &mut Stream, least: f64, most: f64) -> f64 {
    (least.ln() + chance.unit() * (most / least).ln()).exp()
}

fn pick<'a, T>(chance: &mut Stream, of: &'a [T]) -> Option<&'a T> {
    let place = chance.below(of.len().max(1) as u64);
    of.get(place as usize)
}

/// A place, in proportion to the weights.
fn weighted(chance: &mut Stream, weights: impl Iterator<Item = u64> + Clone) -> usize {
    let mut left = chance.below(weights.clone().sum::<u64>().max(1));
    for (place, weight) in weights.enumerate() {
        if left < weight {
            return place;
        }
        left -= weight;
    }
    0
}
