//! Packet pairs and trains between two hosts.

use std::net::SocketAddr;

use strait_core::Instant;
use strait_traffic::FlowLog;
use strait_traffic::pair::{PairCampaign, Prober, Receiver, header_octets};

use crate::host::{Application, Event, Stack};

/// Sends the groups.
pub(super) struct PairProber {
    log: FlowLog,
    ends: (SocketAddr, SocketAddr),
    dscp: u8,
    prober: Prober,
}

impl PairProber {
    pub(super) fn new(
        log: FlowLog,
        ends: (SocketAddr, SocketAddr),
        dscp: u8,
        campaign: &PairCampaign,
        start: Instant,
    ) -> Self {
        let prober = Prober::new(campaign, 1, header_octets(ends.1), start);
        Self {
            log,
            ends,
            dscp,
            prober,
        }
    }

    fn send(&mut self, now: Instant, stack: &mut Stack) {
        let mut payload = stack.buffer();
        while self.prober.poll_transmit(now, &mut payload) {
            if !stack.send_udp(now, self.ends.0, self.ends.1, self.dscp, &payload) {
                self.log.count("not_sent");
            }
            payload.clear();
        }
        stack.recycle(payload);
    }

    fn keep(&mut self) {
        let known = self.log.pairs.len();
        let fresh = self.prober.records().iter().skip(known);
        self.log.pairs.extend(fresh.cloned());
    }
}

impl Application for PairProber {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        if let Event::Datagram { from, payload, .. } = event
            && (from != self.ends.1 || !self.prober.handle(now, payload))
        {
            self.log.count("unusable");
        }
        self.send(now, stack);
        self.keep();
    }

    fn wake(&self) -> Option<Instant> {
        self.prober.wake()
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}

/// Hears the groups.
pub(super) struct PairReceiver {
    log: FlowLog,
    local: SocketAddr,
    dscp: u8,
    receiver: Receiver<SocketAddr>,
}

impl PairReceiver {
    pub(super) fn new(log: FlowLog, local: SocketAddr, dscp: u8) -> Self {
        Self {
            log,
            local,
            dscp,
            receiver: Receiver::default(),
        }
    }
}

impl Application for PairReceiver {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        let Event::Datagram { from, payload, .. } = event else {
            return;
        };
        let mut answer = stack.buffer();
        if self.receiver.handle(now, from, payload, &mut answer)
            && !stack.send_udp(now, self.local, from, self.dscp, &answer)
        {
            self.log.count("not_sent");
        }
        stack.recycle(answer);
    }

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}
