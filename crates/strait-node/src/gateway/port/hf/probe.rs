//! A station's own client: it sends short U_PDUs from time to time and counts their outcomes, like
//! any program by the same octets. It can watch a link that carries no IP.

use alloc::vec::Vec;

use strait_core::{Duration, Instant};
use strait_s5066::Address;
use strait_s5066::sis::{MODE_ARQ, MODE_NON_ARQ, Op, Primitive, Reader, Request, Service, Sis};

use crate::config::ProbeConfig;

use super::clients::Client;

/// The credit of a probe at a time.
const CREDIT: usize = 1 << 20;

/// U_PDUs of a probe that doesn't say so itself are worth sending for so long.
const TTL: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Probe {
    number: usize,
    config: ProbeConfig,
    to: Address,
    reader: Reader,
    sent: u64,
    next: Option<Instant>,
    stopped: bool,
}

impl Probe {
    /// The probes of a station; `addresses` are those of its neighbours by name.
    pub(super) fn all(configs: &[ProbeConfig], address: impl Fn(&str) -> Address) -> Vec<Self> {
        let probes = configs.iter().enumerate().map(|(number, config)| Self {
            number,
            to: address(&config.to),
            config: config.clone(),
            reader: Reader::default(),
            sent: 0,
            next: None,
            stopped: false,
        });
        probes.collect()
    }

    /// When it sends next.
    pub(super) const fn wake(&self) -> Option<Instant> {
        self.next
    }

    fn say(&self, now: Instant, sis: &mut Sis<Client>, primitive: &Primitive<'_>) {
        let mut octets = Vec::new();
        primitive.put(&mut octets);
        sis.hear(now, self.client(), &octets);
    }

    /// Begins, or sends the due octets.
    pub(super) fn tend(&mut self, now: Instant, sis: &mut Sis<Client>) {
        let period: Duration = self.config.period.0;
        let Some(next) = self.next else {
            sis.open(now, self.client(), None);
            sis.give_credit(self.client(), CREDIT);
            let bind = Primitive::BindRequest {
                sap: self.config.sap,
                rank: 0,
                service: self.service(),
            };
            self.say(now, sis, &bind);
            self.next = Some(now + period);
            return;
        };
        if next > now {
            return;
        }
        self.next = Some(next.max(now) + period);
        if self.stopped {
            return;
        }
        let mut u_pdu = Vec::from(self.sent.to_be_bytes());
        u_pdu.resize(u_pdu.len().max(self.config.octets.0 as usize), 0);
        self.sent += 1;
        let request = Request {
            priority: self.config.priority,
            sap: self.config.sap,
            to: self.to.into(),
            service: self.service(),
            // In units of 2 s.
            ttl: (self.config.ttl.map_or(TTL, |ttl| ttl.0).as_secs() / 2) as u32,
            u_pdu: &u_pdu,
        };
        self.say(
            now,
            sis,
            &Primitive::UnidataRequest(self.config.expedited, request),
        );
    }

    fn service(&self) -> Service {
        Service {
            mode: if self.config.arq {
                MODE_ARQ
            } else {
                MODE_NON_ARQ
            },
            // By the client at the other end: the whole way is looked at.
            confirmation: if self.config.arq { 2 } else { 0 },
            any_order: true,
            repeats: self.config.repeats,
            ..Service::default()
        }
    }

    const fn client(&self) -> Client {
        Client::Probe(self.number)
    }

    /// Takes an operation on its stream.
    pub(super) fn take(&mut self, op: &Op, sis: &mut Sis<Client>) {
        let Op::Send(octets) = op else { return };
        sis.give_credit(self.client(), octets.len());
        let stopped = &mut self.stopped;
        // Its own node speaks in order.
        let _ = self.reader.feed(octets, |body| {
            match Primitive::parse(body) {
                Some(Primitive::DataFlowOff) => *stopped = true,
                Some(Primitive::DataFlowOn) => *stopped = false,
                _ => {}
            }
            true
        });
    }
}
