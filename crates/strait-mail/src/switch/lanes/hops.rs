//! What lanes tell of their next hops, and ask them: which are there, and what waits there.

use strait_core::{Duration, Instant};

use super::super::asks::Asks;
use super::super::queue::{Queue, Way};
use super::{LaneId, Lanes, answer_time, owed};

impl Lanes {
    /// Sees which next hops are there, where a route has several, and has messages go by these.
    pub(super) fn judge(&mut self, now: Instant, queue: &mut Queue, asks: &mut Asks) {
        for hop in 0..self.links.len() {
            if !queue.hops.has_others(hop) {
                continue;
            }
            let lanes = self.of_hop(hop);
            let link = self.link(hop);
            let missed = link.is_none() || lanes.iter().any(|id| self.misses(*id, queue));
            let lines = lanes
                .iter()
                .filter_map(|id| self.lanes.get(id)?.line.as_ref());
            let mut ready = lines.filter(|it| it.ready);
            let greeted = link.is_some() && ready.clone().next().is_some();
            if greeted && !missed && queue.hops.is_out(hop) {
                queue.hops.heard(now, hop);
            }
            let owing = ready.clone().any(|it| it.client.is_busy());
            let asked = ready.any(|it| it.client.awaits());
            let answer = answer_time(link) + link.filter(|_| asked).map_or(Duration::ZERO, owed);
            if queue.hops.judge(now, hop, missed, answer) {
                if greeted && owing {
                    queue.hops.doubt(now, hop);
                }
                for id in lanes {
                    if self.lanes.get(&id).is_some_and(|it| it.line.is_some()) {
                        self.lose(now, id, "no answer from there", queue, asks);
                    }
                }
            }
        }
        queue.choose_hops();
    }

    /// Whether a lane waits for its hop: for a connection, or for a reply.
    fn misses(&self, id: LaneId, queue: &Queue) -> bool {
        let Some(lane) = self.lanes.get(&id) else {
            return false;
        };
        match &lane.line {
            Some(line) => {
                // Others' switches may look at a message for minutes before they answer.
                let owes = line.client.awaits() && line.client.offers().resume;
                !line.ready || line.is_behind() || owes
            }
            None if id.2 > 0 => false,
            None => lane.failures > 0 || queue.first(Way::Hop(id.0), id.1).is_some(),
        }
    }

    /// Asks a hop for the messages that wait there, by the first connection that has time.
    pub(super) fn turn(&mut self, now: Instant, hop: usize, ids: &[LaneId], queue: &mut Queue) {
        if !queue.hops.is_to_be_asked(now, hop) {
            return;
        }
        let line_of = |id: &LaneId| self.lanes.get(id)?.line.as_ref().filter(|it| it.ready);
        if ids.iter().filter_map(line_of).any(|it| it.client.turns()) {
            return;
        }
        for id in ids {
            let Some(lane) = self.lanes.get_mut(id) else {
                continue;
            };
            let Some(line) = lane
                .line
                .as_mut()
                .filter(|it| it.ready && it.sending.is_none())
            else {
                continue;
            };
            if line.client.offers().turn {
                return line.client.turn();
            }
            // It knows nothing of that: who looks is told, and it is tried again as often.
            lane.failed = "it has no ETRN".into();
            return queue.hops.asked(now, hop);
        }
    }
}
