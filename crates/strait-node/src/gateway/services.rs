//! What a gateway does beside forwarding: its services, and what they see of it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::fate::{Fate, Ledger, Origin};
use strait_core::mail::{MailOrder, MailView};
use strait_core::names::NameEntry;
use strait_core::node::{Owner, StreamEvent, WallTime};
use strait_core::{DropCause, Effect, Input, Instant, NeighbourId, Packet, PortId};
use strait_qos::Policy;
use strait_wire::ip::protocol;

use super::Stored;
use super::dns::Dns;
use super::far::Far;
use super::mail::Mail;
use super::olsr::Olsr;
use super::port::Port;
use super::port_set::PortSet;
use super::proxied::Proxied;
use crate::config::NodeConfig;
use crate::echo::Echo;
use crate::route::{Hop, Prefix, Routes};

/// Whose the services' things are. Ports' numbers are below 256 ([`Owner::port`]); each service has
/// one from there on.
pub(super) const ECHO: Owner = Owner(256);
pub(super) const PROXY: Owner = Owner(257);
pub(super) const DNS: Owner = Owner(258);
/// The message switch.
pub const MAIL: Owner = Owner(259);

/// The services of a gateway.
#[derive(Debug)]
pub(super) struct Services {
    echo: Option<Box<Echo>>,
    proxy: Option<Box<Proxied>>,
    dns: Option<Box<Dns>>,
    mail: Option<Box<Mail>>,
    pub(super) olsr: Option<Box<Olsr>>,
    far: Option<Box<Far>>,
}

/// A gateway, as its services see it.
pub(super) struct Around<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) ports: &'a mut [Port],
    pub(super) busy: &'a mut PortSet,
    pub(super) hosts: PortSet,
    pub(super) routes: &'a Routes,
    pub(super) default: Option<Hop>,
    pub(super) policy: &'a Policy,
    pub(super) own: &'a [(Prefix, PortId)],
}

impl Around<'_> {
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|(own, _)| own.address == address)
    }

    /// The link that leads to somebody, if one does.
    pub(super) fn link_to(&self, address: IpAddr) -> Option<Hop> {
        let hop = self.routes.lookup(address).or(self.default);
        hop.filter(|hop| !self.hosts.contains(hop.port))
    }

    /// Who sent a datagram to this gateway's port, and what it says of that; or the packet, if it
    /// is none, or nothing, if it isn't a partner's: nobody else speaks for one, and what it says
    /// comes by the way that leads to it.
    pub(super) fn heard<P>(
        &mut self,
        now: Instant,
        (packet, from): (Packet, Hop),
        port: u16,
        find: impl FnOnce(IpAddr) -> Option<P>,
    ) -> Result<Option<(P, Vec<u8>)>, Packet> {
        let info = packet.info();
        let to = info.ports.map(|(_, to)| to);
        if info.protocol != protocol::UDP || to != Some(port) || !self.is_own(info.dst) {
            return Err(packet);
        }
        let src = info.src;
        let Some(partner) = find(src).filter(|_| self.link_to(src) == Some(from)) else {
            self.ledger.drop(now, packet, DropCause::WrongSource);
            return Ok(None);
        };
        Ok(Some((
            partner,
            self.ledger.close(now, packet, Fate::Absorbed),
        )))
    }

    /// Whether somebody lies at a host side, as far as routes tell.
    pub(super) fn is_near(&self, address: IpAddr) -> bool {
        let way = self.routes.lookup(address);
        way.is_none_or(|hop| self.hosts.contains(hop.port))
    }

    /// Queues a packet that a service made.
    pub(super) fn send(&mut self, now: Instant, bytes: Vec<u8>, hop: Hop) {
        let Ok(mut packet) = self.ledger.admit(now, bytes, Origin::Own) else {
            return;
        };
        packet.class = self.policy.classify(packet.info()).class;
        packet.to = hop.to;
        self.busy.insert(hop.port);
        self.ports[hop.port.index()].enqueue(now, packet, self.ledger);
    }
}

impl Services {
    pub(super) fn new(config: &NodeConfig, seed: u64, stored: Stored<'_>) -> Self {
        let mut services = Self {
            echo: config.echo.as_ref().map(|echo| {
                let keys = stored.iter().map(|(key, _)| &key[..]);
                Box::new(Echo::new(ECHO, echo, keys))
            }),
            proxy: config.proxy().map(|proxy| {
                let proxied = Proxied::new(PROXY, proxy, config, seed);
                Box::new(proxied)
            }),
            dns: config
                .dns()
                .map(|dns| Box::new(Dns::new(DNS, dns, config, seed, stored))),
            mail: config
                .mail()
                .map(|mail| Box::new(Mail::new(mail, config, seed, stored))),
            olsr: config
                .olsr
                .as_ref()
                .map(|olsr| Box::new(Olsr::new(olsr, config, seed))),
            far: config
                .far
                .as_ref()
                .filter(|far| far.enabled)
                .map(|far| Box::new(Far::new(far, config, seed))),
        };
        if let (Some(mail), Some(proxy)) = (config.mail(), &mut services.proxy) {
            proxy.adopt(Mail::listeners(mail, config));
        }
        services
    }

    /// Whether there is a proxy.
    pub(super) const fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Takes a packet that is for a service, or gives it back.
    pub(super) fn take(
        &mut self,
        now: Instant,
        packet: Packet,
        from: Hop,
        around: &mut Around<'_>,
    ) -> Option<Packet> {
        let packet = match &mut self.proxy {
            Some(proxy) => proxy.take(now, packet, from, around)?,
            None => packet,
        };
        let packet = match &mut self.far {
            Some(far) => far.take(now, packet, from, around)?,
            None => packet,
        };
        match &mut self.dns {
            Some(dns) => dns.take(now, packet, from, around),
            None => Some(packet),
        }
    }

    /// Whether a packet isn't to be forwarded, and its sender is to be told.
    pub(super) fn refuses(&mut self, packet: &Packet, from: Hop, around: &Around<'_>) -> bool {
        let gateway = self.gateway_of(packet.info().dst).flatten();
        let proxy = self.proxy.as_mut();
        proxy.is_some_and(|it| it.refuses(packet, from, gateway, around))
    }

    /// The gateway behind which the name is that an address stands for here: `Some(None)` if it
    /// stands for none.
    pub(super) fn gateway_of(&self, address: IpAddr) -> Option<Option<IpAddr>> {
        self.dns.as_ref()?.gateway_of(address)
    }

    /// A packet that waited until it was known for whom it is.
    pub(super) fn poll_translated(&mut self) -> Option<(Vec<u8>, Hop)> {
        self.dns.as_mut()?.poll_translated()
    }

    /// The medium could, or couldn't, deliver a frame.
    pub(super) fn tell(&mut self, now: Instant, port: PortId, to: NeighbourId, ok: bool) {
        let olsr = self.olsr.iter_mut();
        olsr.for_each(|it| it.tell(now, port, to, ok));
    }

    /// What time it is.
    pub(super) fn set_calendar(&mut self, now: Instant, wall: WallTime) {
        self.dns
            .iter_mut()
            .for_each(|it| it.set_calendar(now, wall));
        let mail = self.mail.iter_mut();
        mail.for_each(|it| it.switch.set_calendar(now, wall));
    }

    /// An operator's order about mail.
    pub(super) fn obey(&mut self, now: Instant, order: MailOrder) {
        let mail = self.mail.iter_mut();
        mail.for_each(|it| it.switch.obey(now, order));
    }

    /// What may be kept of an input: no passwords.
    pub(super) fn conceal<'a>(&self, input: Input<'a>, room: &'a mut Vec<u8>) -> Input<'a> {
        let owner = match &input {
            Input::Stream { id, .. } => id.owner,
            Input::Worked { ticket, .. } => ticket.owner,
            _ => return input,
        };
        match &self.mail {
            Some(mail) if owner == MAIL => mail.switch.conceal(input, room),
            _ => input,
        }
    }

    /// Something happened to something of this owner's; false if that is no service.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        owner: Owner,
        input: &Input<'_>,
        policy: &Policy,
    ) -> bool {
        match owner {
            ECHO => self.echo.iter_mut().for_each(|it| it.hear(now, input)),
            PROXY if self.is_for_dns(now, input) => {
                self.dns.iter_mut().for_each(|it| it.hear(now, input));
            }
            PROXY => {
                let dns = self.dns.as_deref();
                let gateway_of = |address| dns.and_then(|it| it.gateway_of(address)).flatten();
                let proxy = self.proxy.iter_mut();
                proxy.for_each(|it| it.hear(now, input, policy, gateway_of));
            }
            DNS => self.dns.iter_mut().for_each(|it| it.hear(now, input)),
            MAIL => {
                let mail = self.mail.iter_mut();
                mail.for_each(|it| it.switch.hear(now, input));
            }
            _ => return false,
        }
        true
    }

    /// Whether what happened to a client of the TCP proxy's is the DNS proxy's: it asks others for
    /// names, and is answered here.
    fn is_for_dns(&mut self, now: Instant, input: &Input<'_>) -> bool {
        let (Some(dns), Input::Stream { id, event }) = (&mut self.dns, input) else {
            return false;
        };
        if let StreamEvent::Asked { src, dst, .. } = event {
            dns.hurry(now, dst.ip());
            return dns.adopts(*id, *src, *dst);
        }
        dns.has_adopted(*id)
    }

    /// Has them do what is due, and tells of them.
    pub(super) fn settle(&mut self, now: Instant, mut around: Around<'_>) {
        let wishing = self.proxy.as_mut().filter(|it| it.has_wishes());
        if let Some(proxy) = wishing {
            let mut dns = self.dns.as_mut();
            let place_of = |by, name: &str| dns.as_mut()?.place_of(now, by, name);
            proxy.grant_wishes(now, &around, place_of);
        }
        if let Some(dns) = &mut self.dns {
            dns.settle(now, &mut around);
        }
        if let Some(mail) = &mut self.mail {
            mail.settle(now, &mut around, self.proxy.as_deref());
        }
        if let Some(olsr) = &mut self.olsr {
            olsr.settle(now, &mut around);
        }
        if let Some(far) = &mut self.far {
            far.settle(now, &mut around);
        }
        if let Some(proxy) = &mut self.proxy {
            let dns = self.dns.as_mut();
            let mut dns = dns.filter(|_| proxy.is_asked());
            let meant = |partner, address| dns.as_mut()?.meant(now, partner, address);
            proxy.connect(now, &around, meant);
            proxy.settle(now, &mut around);
            if let Some(mail) = &mut self.mail {
                while mail.exchange(now, proxy) {
                    mail.settle(now, &mut around, Some(proxy));
                    proxy.settle(now, &mut around);
                }
            }
        }
        let Some(echo) = &mut self.echo else { return };
        let ports = around.ledger.stats().ports.iter().zip(around.ports);
        let links = ports.filter(|(stats, port)| stats.up && !around.hosts.contains(port.id));
        let rates = links.flat_map(|(stats, _)| {
            let neighbours = stats.neighbours.iter().filter_map(|it| it.tx_rate);
            stats.tx_rate.into_iter().chain(neighbours)
        });
        echo.set_rate(rates.map(|rate| rate.payload_bit_s()).min());
        echo.send_due(now);
        around.ledger.stats_mut().echo = Some(*echo.stats());
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        let echoed = self.echo.as_mut().and_then(|it| it.poll_effect());
        let proxied = echoed.or_else(|| self.proxy.as_mut()?.poll_effect());
        let resolved = proxied.or_else(|| self.dns.as_mut()?.poll_effect());
        resolved.or_else(|| self.mail.as_mut()?.poll_effect())
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let echo = self.echo.as_ref().and_then(|it| it.wake());
        let proxy = self.proxy.as_ref().and_then(|it| it.wake());
        let dns = self.dns.as_ref().and_then(|it| it.wake());
        let mail = self.mail.as_ref().and_then(|it| it.switch.wake());
        let olsr = self.olsr.as_ref().and_then(|it| it.wake());
        let far = self.far.as_ref().and_then(|it| it.wake());
        let all = [echo, proxy, dns, mail, olsr, far];
        all.into_iter().flatten().min()
    }

    /// The names that are known or asked for.
    pub(super) fn names(&self, now: Instant) -> Vec<NameEntry> {
        self.dns.as_ref().map_or_else(Vec::new, |it| it.names(now))
    }

    /// What the message switch has.
    pub(super) fn mail(&self, now: Instant) -> MailView {
        let mail = self.mail.as_ref();
        mail.map_or_else(MailView::default, |it| it.switch.view(now))
    }

    pub(super) fn check(&self) {
        self.echo.iter().for_each(|echo| echo.check());
        self.proxy.iter().for_each(|proxy| proxy.check());
        self.dns.iter().for_each(|dns| dns.check());
        self.mail.iter().for_each(|mail| mail.switch.check());
    }
}
