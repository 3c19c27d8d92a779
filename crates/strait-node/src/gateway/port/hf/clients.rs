//! Programs that use a port's station beside the gateway: the clients of its subnetwork interface.

use strait_core::node::{
    Effect, Listen, Owner, Side, SocketId, SocketOp, StreamEvent, StreamId, StreamOp,
};
use strait_core::{Instant, Packet, PortId};
use strait_s5066::sis::{Arrived, Op};
use strait_s5066::{Offer, Received};

use super::Hf;

/// The station's ticket in an outcome.
#[derive(Debug)]
pub(super) enum Ticket {
    /// A packet of the gateway.
    Packet(Packet),
    /// The number of a client's data.
    Client(u64),
}

/// A client of the station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Client {
    /// A program, by the number of its stream.
    Program(u64),
    /// A probe of the node's own, by its place in the file.
    Probe(usize),
}

/// The error of a connection that is ended at once: ECONNABORTED.
const ABORTED: i32 = 103;

impl Hf {
    /// Informs the clients' side of links, and the station of the clients' exclusive ones.
    pub(super) fn tend_clients(&mut self, now: Instant) {
        for probe in &mut self.probes {
            probe.tend(now, &mut self.sis);
        }
        let is =
            |ticket: &Ticket, number: u64| matches!(ticket, Ticket::Client(of) if *of == number);
        self.sis.tend(now, &mut self.station, is);
    }

    /// Hands a client's data to the station if it precedes packets, of which `packets` says whether
    /// one could go now: the higher priority first, and of equals one after the other.
    pub(super) fn offer_of_clients(&mut self, packets: bool) -> bool {
        let Some(next) = self.sis.next_for(&self.station) else {
            return false;
        };
        let waiting = self.ip.queued.iter().rposition(|count| *count > 0);
        let best = waiting.filter(|_| packets && !next.expedited);
        let mine = usize::from(next.priority);
        if best.is_some_and(|best| best > mine || best == mine && self.client_last) {
            return false;
        }
        let Some(taken) = self.sis.take_next(next.number) else {
            return false;
        };
        self.client_last = true;
        self.station.offer(Offer {
            to: next.to,
            c_pdu: taken.c_pdu,
            arq: next.arq,
            expedited: next.expedited,
            urgent: false,
            in_order: taken.in_order,
            copies: taken.copies,
            ticket: Ticket::Client(next.number),
        });
        true
    }

    /// Client data, or a message about it, arrived.
    pub(super) fn arrive(&mut self, now: Instant, received: &Received, s_pdu: &[u8]) {
        let ahead = received.c_pdu.len() - s_pdu.len();
        let within = |blocks: &[(u16, u16)]| {
            let blocks = blocks.iter();
            blocks
                .map(|(offset, length)| (offset.saturating_sub(ahead as u16), *length))
                .collect::<alloc::vec::Vec<_>>()
        };
        self.sis.arrive(
            now,
            &Arrived {
                from: received.from,
                source: received.source,
                to: received.to,
                arq: received.arq,
                expedited: received.expedited,
                s_pdu,
                damaged: &within(&received.damaged),
                missing: &within(&received.missing),
            },
        );
    }

    /// Asserts that nothing of a client was lost uncounted.
    pub(super) fn check_clients(&self) {
        self.sis.check();
    }

    /// Something happened on a stream of a client.
    pub(super) fn hear_client(&mut self, now: Instant, id: StreamId, event: &StreamEvent<'_>) {
        let client = Client::Program(id.n);
        match *event {
            // Its listener doesn't ask, and nothing is secured.
            StreamEvent::Asked { .. } | StreamEvent::Secured { .. } => {}
            StreamEvent::Opened { src, .. } => self.sis.open(now, client, Some(src.ip())),
            StreamEvent::Data(bytes) => self.sis.hear(now, client, bytes),
            StreamEvent::Writable(octets) => self.sis.give_credit(client, octets as usize),
            StreamEvent::Fin => self.sis.finish(now, client),
            StreamEvent::Reset(_) => self.sis.close(now, client),
        }
    }

    /// The next thing to do to a client's stream, or for clients to come.
    pub(super) fn poll_client(&mut self, port: PortId) -> Option<Effect> {
        if let Some(address) = self.listens.take() {
            return Some(Effect::Socket {
                id: SocketId {
                    owner: Owner::port(port),
                    n: 0,
                },
                op: SocketOp::Listen(Listen::at(address)),
            });
        }
        let (id, op) = loop {
            match self.sis.poll()? {
                (Client::Program(id), op) => break (id, op),
                (Client::Probe(number), op) => {
                    if let Some(probe) = self.probes.get_mut(number) {
                        probe.take(&op, &mut self.sis);
                    }
                }
            }
        };
        let op = match op {
            Op::Send(octets) => StreamOp::Send(octets),
            Op::Credit(octets) => StreamOp::Credit(octets),
            Op::Finish => StreamOp::Fin,
            Op::Cut => StreamOp::Reset(ABORTED),
        };
        Some(Effect::Stream {
            id: StreamId {
                owner: Owner::port(port),
                side: Side::Client,
                n: id,
            },
            op,
        })
    }
}
