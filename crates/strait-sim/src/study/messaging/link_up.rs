//! Messages that wait until a link is there again, and then for as long as it stays.

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;
use strait_core::Duration;
use strait_core::units::{Octets, Time};
use strait_node::config_text::ConfigError;
use strait_qos::Dscp;
use strait_scenario::Scenario;
use strait_wire::ip::{PacketInfo, protocol};
use strait_wire::pcapng::{Block, Reader};

use super::super::shown::Row;
use super::super::{Asked, StudyError, run_all};
use super::world::{Case, Sent, System, world};
use super::{MessagingStudy, time_s};
use crate::run::{Run, run_once};

/// What waits, and for what.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkUp {
    pub(super) way: String,
    /// How many messages of all six precedences, one each second, the least urgent first.
    messages: usize,
    octets: Octets,
    /// When the link goes, for how long, and for how long it comes back.
    start: Time,
    away: Time,
    stays: Time,
}

/// Code points of the lanes, the least urgent first.
const LANES: [Dscp; 6] = [
    Dscp::LE,
    Dscp::DF,
    Dscp::af(2, 1),
    Dscp::cs(2),
    Dscp::cs(3),
    Dscp::cs(4),
];
/// Ports of the lanes.
const PORTS: std::ops::RangeInclusive<u16> = 4999..=5004;
/// The far gateway.
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const SECOND: Duration = Duration::from_secs(1);

impl LinkUp {
    fn returns(&self) -> Duration {
        self.start.0 + self.away.0
    }

    fn case(&self) -> Case {
        let sent = (0..self.messages).map(|at| {
            let begins = self.start.0 + SECOND.saturating_mul(at as u32 + 1);
            Sent::new(LANES[at % LANES.len()], self.octets, Time(begins))
        });
        Case {
            part: "link-up".into(),
            name: "link up".into(),
            way: self.way.clone(),
            regime: String::new(),
            load: None,
            messages: sent.collect(),
            limit: Time(self.returns() + self.stays.0),
            by: vec![System::Strait],
        }
    }

    /// The one row that there is.
    pub(super) fn rows(
        &self,
        study: &MessagingStudy,
        asked: &Asked<'_>,
        seed: u64,
    ) -> Result<Vec<Row>, StudyError> {
        let case = self.case();
        let seconds = |it: Duration| it.as_secs_f64();
        let fault = format!(
            "[[fault]]\nat = \"{} s\"\nkind = \"unplug\"\nlink = \"wan\"\nrestart_after = \"{} s\"\n",
            seconds(self.start.0),
            seconds(self.away.0)
        );
        let way = study.way(&self.way)?;
        let regime = study.regime.first().ok_or_else(|| {
            ConfigError::of_file("regime", "is needed: add [[regime]]".to_owned())
        })?;
        let loaded = world(way, regime, &case, System::Strait, &fault)?;
        let runs = run_all(asked, "link-up", &[seed], |seed| {
            run_once(&loaded, Scenario::BASE, *seed, true)
        })?;
        Ok(runs.iter().map(|run| self.row(&case, run)).collect())
    }

    fn row(&self, case: &Case, run: &Run) -> Row {
        let returns_s = self.returns().as_secs_f64();
        // When each came, since the link is there again, and how urgent it is.
        let came = case.messages.iter().enumerate().map(|(at, sent)| {
            let at_s = sent.start_s() + time_s(run, at) - returns_s;
            (at_s, LANES.iter().position(|it| *it == sent.dscp))
        });
        let mut came: Vec<_> = came.filter(|(at_s, _)| at_s.is_finite()).collect();
        came.sort_by(|one, other| one.0.total_cmp(&other.0));
        let wrong = came.windows(2).filter(|pair| pair[0].1 < pair[1].1);
        let last_s = came.last().map_or(f64::INFINITY, |it| it.0);
        Row::default()
            .with("way", self.way.as_str())
            .with("messages", self.messages)
            .with("first_s", first_s(run, self.returns()))
            .with("urgent_s", came.first().map(|it| it.0))
            .with("last_s", last_s)
            .with("came", came.len())
            .with("line_use", line_use(run, self.returns()))
            .with("wrong", wrong.count())
    }
}

/// How much of the line's time was used behind that, towards the far side.
fn line_use(run: &Run, returns: Duration) -> Option<f64> {
    let mut all = run.series.iter();
    let line = all.find(|it| it.chart == "use of wan, naples to act")?;
    let points = line.points.iter();
    let uses: Vec<f64> = points
        .filter(|(at_s, _)| *at_s >= returns.as_secs_f64())
        .map(|it| it.1)
        .collect();
    Some(uses.iter().sum::<f64>() / uses.len() as f64)
}

/// When the far gateway gives its host the first packet of any lane behind that, in s.
fn first_s(run: &Run, returns: Duration) -> f64 {
    let files = run.captures.iter();
    let files = files.filter(|(name, _)| name.contains("act") && !name.contains("kernel"));
    let since_s = |bytes: &[u8], at_ns: u64| {
        let info = PacketInfo::parse(bytes).ok()?;
        let comes = info.protocol == protocol::TCP && info.dst == FAR;
        let ports = info.ports.filter(|_| comes)?;
        let since = at_ns.checked_sub(returns.as_nanos() as u64)?;
        PORTS.contains(&ports.1).then_some(since as f64 / 1e9)
    };
    let blocks = files.flat_map(|(_, octets)| Reader::new(octets).flatten());
    let times = blocks.filter_map(|block| match block {
        Block::Packet(packet) => since_s(packet.bytes, packet.time_ns?),
        _ => None,
    });
    times.fold(f64::INFINITY, f64::min)
}
