//! The message switch, the links by which its next hops are reached, and its lanes that are streams
//! of the proxy's sessions.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::node::SocketId;
use strait_core::{Duration, Effect, Input, Instant};
use strait_mail::{Bearer, Link, OF_SESSION, Switch};

use super::Stored;
use super::proxied::{Carriage, Proxied};
use super::services::{Around, MAIL};
use crate::config::{MailConfig, NodeConfig};

/// The way to a next hop of mail on this side of links: no line is slower.
const NEAR: Link = Link {
    bit_s: 1_000_000_000,
    turn: Duration::ZERO,
    bearer: Bearer::Tcp,
};

/// The switch.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) switch: Switch,
    /// By link port.
    carriages: Vec<Carriage>,
    /// What is to be done outside.
    effects: VecDeque<Effect>,
}

impl Mail {
    pub(super) fn new(
        mail: &MailConfig,
        config: &NodeConfig,
        seed: u64,
        stored: Stored<'_>,
    ) -> Self {
        Self {
            switch: Switch::new(MAIL, mail.settings(config), seed, stored),
            carriages: config.ports.iter().map(Carriage::of).collect(),
            effects: VecDeque::new(),
        }
    }

    /// Where other switches come.
    pub(super) fn listeners(mail: &MailConfig, config: &NodeConfig) -> Vec<(SocketAddr, SocketId)> {
        let listeners = (0..).zip(mail.settings(config).listeners);
        let lanes = listeners.filter(|(_, it)| it.lane);
        let named = lanes.map(|(n, it)| (it.address, SocketId { owner: MAIL, n }));
        named.collect()
    }

    pub(super) fn settle(
        &mut self,
        now: Instant,
        around: &mut Around<'_>,
        proxy: Option<&Proxied>,
    ) {
        let hops: Vec<IpAddr> = self.switch.hops().collect();
        let carriages = &self.carriages;
        let links = hops.into_iter().map(|address| {
            let Some(hop) = around.link_to(address) else {
                return Some(NEAR);
            };
            let there = around.ports[hop.port.index()].queue.reaches(hop.to);
            let link = Carriage::view(carriages, hop, around).filter(|_| there)?;
            Some(Link {
                bit_s: link.bit_s,
                turn: link.turn,
                bearer: proxy.map_or(Bearer::Tcp, |it| it.bearer(now, address)),
            })
        });
        self.switch.set_links(now, links);
        self.switch.settle(now);
        around.ledger.stats_mut().mail = Some(*self.switch.stats());
    }

    /// Tells the switch and the proxy what the other does with streams between them; whether there
    /// was anything.
    pub(super) fn exchange(&mut self, now: Instant, proxy: &mut Proxied) -> bool {
        let mut told = false;
        while let Some(effect) = self.switch.poll_effect() {
            match effect {
                Effect::Stream { id, op } if id.n & OF_SESSION != 0 => {
                    told = true;
                    proxy.operate_inner(now, id, &op);
                }
                effect => self.effects.push_back(effect),
            }
        }
        while let Some(effect) = proxy.poll_effect() {
            match proxy.happens(&effect) {
                Some((id, event)) => {
                    told = true;
                    self.switch.hear(now, &Input::Stream { id, event });
                }
                None => self.effects.push_back(effect),
            }
        }
        told
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        effect.or_else(|| self.switch.poll_effect())
    }
}
