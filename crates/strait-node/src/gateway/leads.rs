//! What the host reaches by the gateway: the prefixes of its node file, as long as a way leads to
//! them, where it is set up so.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use strait_core::node::{Lead, RouteEvent, RouteOp};
use strait_core::stats::LedStats;
use strait_core::{Duration, Effect, Instant, PortId};

use super::Gateway;
use crate::config::HostConfig;
use crate::route::{Hop, Prefix, Routes};

/// A prefix that the host reaches by the gateway.
#[derive(Debug)]
struct Led {
    prefix: Prefix,
    /// By which host side.
    by: Lead,
    /// How long no way leads to it until the host isn't led there any more, if ever, and how long
    /// one has to until it is again: a link that comes and goes moves nobody to and fro.
    patience: Option<[Duration; 2]>,
    /// A router found it; else it is the node file's.
    found: bool,
    /// The host is led there.
    leads: bool,
    /// Its table says so.
    there: bool,
    /// Since when it should be otherwise.
    since: Option<Instant>,
}

/// All of them.
#[derive(Debug)]
#[repr(C)] // What each packet meets comes first.
pub(super) struct Leads {
    /// When a way that has gone, or come, is to be taken for lasting.
    due: Option<Instant>,
    asks: VecDeque<Effect>,
    all: Vec<Led>,
    /// The first side's, for what is found.
    metric: u32,
    stats: LedStats,
}

impl Leads {
    /// Those of a node file: the host is led to all. Addresses that stand for names are led to the
    /// first side for good.
    pub(super) fn new<'a>(
        sides: impl Iterator<Item = (PortId, &'a HostConfig)>,
        ahead: Option<Prefix>,
    ) -> Self {
        let mut known = BTreeSet::new();
        let mut all = Vec::new();
        let mut firsts = 0;
        for (port, host) in sides {
            let metric = host.metric.unwrap_or(0);
            if port == PortId::HOST {
                firsts = metric;
            }
            if let Some(prefix) = ahead.filter(|it| port == PortId::HOST && known.insert(*it)) {
                all.push(Led {
                    prefix,
                    by: Lead { port, metric },
                    patience: None,
                    found: false,
                    leads: true,
                    there: false,
                    since: None,
                });
            }
            let patience = host.withdraw_after.map(|after| {
                let back = host.restore_after.unwrap_or(after);
                [after.0, back.0]
            });
            let networks = host.routes.iter().map(|prefix| prefix.network());
            let new = networks.filter(|prefix| known.insert(*prefix));
            all.extend(new.map(|prefix| Led {
                prefix,
                by: Lead { port, metric },
                patience,
                found: false,
                leads: true,
                there: false,
                since: None,
            }));
        }
        let mut leads = Self {
            all,
            metric: firsts,
            asks: VecDeque::new(),
            due: None,
            stats: LedStats::default(),
        };
        for index in 0..leads.all.len() {
            leads.ask(index);
        }
        leads
    }

    fn ask(&mut self, index: usize) {
        let Led {
            prefix, by, leads, ..
        } = self.all[index];
        let op = if leads {
            RouteOp::Lead(by)
        } else {
            RouteOp::Withdraw
        };
        self.asks.push_back(Effect::Route { prefix, op });
    }

    /// A router found a way to a prefix, or none leads there any more. What the node file says of
    /// it goes before.
    pub(super) fn learn(&mut self, prefix: Prefix, there: bool) {
        let known = self.all.iter().position(|led| led.prefix == prefix);
        match (known, there) {
            (Some(index), _) if !self.all[index].found => {}
            (Some(_), true) => {}
            (Some(index), false) => {
                self.all[index].leads = false;
                self.ask(index);
                self.all.remove(index);
                self.stats.withdrawals += 1;
            }
            (None, true) if self.all.len() < Routes::ENTRIES_MAX => {
                let metric = self.metric;
                self.all.push(Led {
                    prefix,
                    by: Lead {
                        port: PortId::HOST,
                        metric,
                    },
                    patience: None,
                    found: true,
                    leads: true,
                    there: false,
                    since: None,
                });
                self.ask(self.all.len() - 1);
            }
            (None, _) => {}
        }
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.asks.pop_front()
    }

    /// When a way that has gone, or come, has to be taken for lasting.
    pub(super) const fn wake(&self) -> Option<Instant> {
        self.due
    }

    /// Takes note of whether a way leads to each, from the host side that leads there.
    fn look(&mut self, now: Instant, has_way: impl Fn(Prefix, PortId) -> bool) {
        self.due = None;
        for index in 0..self.all.len() {
            let led = &mut self.all[index];
            let Some([withdraw, restore]) = led.patience else {
                continue;
            };
            if has_way(led.prefix, led.by.port) == led.leads {
                led.since = None;
                continue;
            }
            let patience = if led.leads { withdraw } else { restore };
            let until = *led.since.get_or_insert(now) + patience;
            if now < until {
                self.due = Some(self.due.map_or(until, |due| due.min(until)));
                continue;
            }
            (led.leads, led.since) = (!led.leads, None);
            if !led.leads {
                led.there = false;
                self.stats.withdrawals += 1;
            }
            self.ask(index);
        }
    }

    /// What came of a prefix.
    fn hear(&mut self, prefix: Prefix, event: RouteEvent) {
        let mut all = self.all.iter_mut();
        let Some(led) = all.find(|led| led.prefix == prefix && led.leads) else {
            return;
        };
        led.there = event == RouteEvent::There;
        self.stats.refusals += u64::from(!led.there);
    }

    fn stats(&self) -> Option<LedStats> {
        let count = |is: fn(&Led) -> bool| self.all.iter().filter(|led| is(led)).count() as u64;
        (!self.all.is_empty()).then(|| LedStats {
            wanted: count(|led| led.leads),
            there: count(|led| led.there),
            ..self.stats
        })
    }
}

impl Gateway {
    /// Ways have come or gone, or it is time to decide about those that have.
    pub(super) fn look_for_ways(&mut self, now: Instant) {
        let (routes, default, ports) = (&self.routes, self.default, &self.ports);
        let hosts = self.hosts;
        self.leads.look(now, |prefix, side| {
            let reaches = |hop: Hop| {
                let port = ports.get(hop.port.index());
                port.is_some_and(|it| {
                    let carries = it.queue.carries_v6 || prefix.address.is_ipv4();
                    carries && it.queue.reaches(hop.to)
                })
            };
            // What another host side has of it says nothing of the rest.
            let ways = routes.ways(prefix).filter(|(to, hop)| {
                hop.port != side && (!hosts.contains(hop.port) || to.length <= prefix.length)
            });
            let mut ways = ways.map(|(_, hop)| hop).peekable();
            if ways.peek().is_none() {
                // Where nothing says what is beyond, the node file is believed.
                return default.is_none_or(reaches);
            }
            ways.any(reaches)
        });
        self.ledger.stats_mut().led = self.leads.stats();
    }

    /// The host's table has a prefix, or refuses it.
    pub(super) fn hear_routed(&mut self, prefix: Prefix, event: RouteEvent) {
        self.leads.hear(prefix, event);
        self.ledger.stats_mut().led = self.leads.stats();
    }
}
