//! Hard links: a client keeps a link for itself or for its node (Annex A.3.2.2).
//!
//! A node has one at most. The station makes the link itself; this machine knows the requesting
//! client, and the messages of the two nodes about it.

use strait_core::{Duration, Instant};

use super::Sis;
use super::primitive::{HardLink, NodeAddress, Primitive};
use crate::address::Address;
use crate::s_pdu;

/// How long hard links wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardSettings {
    /// For the link, and then for the other node's answer (A.3.2.2.2).
    pub answer: Duration,
    /// For a client here that another node's client asks for one.
    pub client: Duration,
    /// For the other node to know that one has ended (A.3.2.2.3).
    pub end: Duration,
    /// The rank of other nodes' clients, which isn't transmitted, for links without a client here.
    pub rank: u8,
}

impl Default for HardSettings {
    fn default() -> Self {
        let time = Duration::from_secs(180);
        Self {
            answer: time,
            client: time,
            end: time,
            rank: 0,
        }
    }
}

/// The status of a node that is well.
const OK: u8 = 1;

/// Reasons that both ends know.
const BUSY: u8 = 1;
const HIGHER_PRIORITY: u8 = 2;
const NO_RESPONSE: u8 = 3;
const NOT_BOUND: u8 = 4;
const LINK_BROKEN: u8 = 5;
const BY_REMOTE: u8 = 1;
const BY_CLIENT: u8 = 1;

/// The reason of a refusal that is none: there is a reservation, which serves as well.
const EXISTS: u8 = 5;

/// The first half octet of each S_PDU.
const REQUEST: u8 = s_pdu::HARD_LINK;
const CONFIRM: u8 = 4;
const REJECTED: u8 = 5;
const TERMINATE: u8 = 6;
const TERMINATE_CONFIRM: u8 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The link isn't there yet.
    Linking,
    /// The other node was asked.
    Asked,
    /// A client here was asked.
    Offered,
    /// It is there.
    Up,
    /// Its link is lost, and its requester has so long to restore that.
    Lost,
    /// The other node was informed that it is over.
    Ending,
}

/// A hard link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hard<C> {
    peer: usize,
    /// The other node's address, as the client here gave it.
    to: NodeAddress,
    /// With the other client's access point: for a called node, that of the client that asked.
    link: HardLink,
    /// The other node asked for it.
    called: bool,
    /// The client here that has it, or is asked; the node itself without one.
    owner: Option<C>,
    /// The client's access point.
    sap: u8,
    rank: u8,
    state: State,
    until: Instant,
    /// The other node was asked already: it has no more time for that by another link.
    asked: bool,
    /// It was there, and its link is made again: its client knows nothing of that.
    made: bool,
}

impl<C> Hard<C> {
    /// When it isn't waited for any longer.
    pub(super) fn until(&self) -> Option<Instant> {
        (self.state != State::Up).then_some(self.until)
    }

    /// The order of two with one node: rank, then priority, then kind.
    const fn precedence(&self) -> (u8, u8, u8) {
        (self.rank, self.link.priority, self.link.kind)
    }

    /// Whether data between these access points may go by it (A.1.1.2).
    const fn lets(&self, from_sap: u8, to_sap: u8) -> bool {
        match self.link.kind {
            0 => true,
            1 if self.called => to_sap == self.link.sap,
            1 => from_sap == self.sap,
            _ => from_sap == self.sap && to_sap == self.link.sap,
        }
    }
}

impl<C: Copy + Ord> Sis<C> {
    /// The peer that a link is to be kept with, and no other.
    #[must_use]
    pub fn exclusive(&self) -> Option<usize> {
        // A hard link without its client's agreement, or without a link, excludes no other.
        let keeps = |hard: &Hard<C>| !matches!(hard.state, State::Offered | State::Lost);
        self.hard.filter(keeps).map(|hard| hard.peer)
    }

    /// Whether that link is to be kept though it is idle: the requester of a hard link ensures that
    /// (A.1.1.2), and by it the other end sees that it is still needed.
    #[must_use]
    pub fn keeps(&self) -> bool {
        let up = |hard: &Hard<C>| hard.state == State::Up && !hard.called;
        self.hard.as_ref().is_some_and(up)
    }

    /// The peer that a link is to be made with, though nothing waits for it.
    #[must_use]
    pub fn calls(&self) -> Option<usize> {
        let linking = self.hard.filter(|hard| hard.state == State::Linking);
        linking.map(|hard| hard.peer)
    }

    /// Whether data may go to a peer, between these access points: a hard link keeps others out. A
    /// link that is there and is to become one is let run empty first.
    #[must_use]
    pub fn lets(&self, peer: usize, from_sap: u8, to_sap: u8) -> bool {
        let Some(hard) = &self.hard else { return true };
        let its = hard.peer == peer;
        match hard.state {
            State::Linking => its && !self.is_soft(peer),
            State::Up => its && hard.lets(from_sap, to_sap),
            State::Asked | State::Ending => its,
            State::Offered | State::Lost => true,
        }
    }

    /// A client wants a hard link.
    pub(super) fn want_hard_link(
        &mut self,
        id: C,
        (rank, sap): (u8, u8),
        link: HardLink,
        to: NodeAddress,
    ) {
        let node = to.address();
        let peer = self.settings.peers.iter().position(|peer| *peer == node);
        let peer = peer.filter(|_| !node.is_group() && self.up);
        let wanted = peer.map(|peer| Hard {
            peer,
            to,
            link,
            called: false,
            owner: Some(id),
            sap,
            rank,
            state: State::Linking,
            until: self.now,
            asked: false,
            made: false,
        });
        let refused = match &wanted {
            _ if link.kind > 2 || self.settings.broadcast_only => Some(BUSY),
            None => Some(NO_RESPONSE),
            Some(wanted) => self.rival(wanted).map(|old| {
                let exists = old.peer == wanted.peer && (old.link.kind, link.kind) == (0, 0);
                if exists { EXISTS } else { HIGHER_PRIORITY }
            }),
        };
        match (refused, wanted) {
            (None, Some(wanted)) => self.replace_hard_link(wanted),
            (reason, _) => {
                let reason = reason.unwrap_or(BUSY);
                self.say(id, &Primitive::HardLinkRejected(reason, link, to));
            }
        }
    }

    /// The hard link that a new one can't replace (A.3.2.2.1): the higher rank wins, then the
    /// higher priority; of two with the same node the higher kind; then the older. One that ends,
    /// or is lost, blocks no other, but one that waits for its end may.
    fn rival(&self, new: &Hard<C>) -> Option<Hard<C>> {
        let over = |hard: &Hard<C>| matches!(hard.state, State::Ending | State::Lost);
        let there = self.hard.filter(|hard| !over(hard));
        let old = self.next_hard.or(there)?;
        let kinds = |(rank, priority, kind): (u8, u8, u8)| {
            let kind = if old.peer == new.peer { kind } else { 0 };
            (rank, priority, kind)
        };
        let better = kinds(new.precedence()) > kinds(old.precedence());
        (!better).then_some(old)
    }

    /// A better hard link takes the place of the one that there is, once the other end of that
    /// knows.
    fn replace_hard_link(&mut self, new: Hard<C>) {
        if let Some(waits) = self.next_hard.take() {
            self.supersede(&waits);
        }
        match self.hard {
            Some(old) if old.state == State::Lost => {
                self.hard = None;
                self.tell_owner(&old, LINK_BROKEN);
            }
            Some(old) if matches!(old.state, State::Linking | State::Offered) => {
                self.hard = None;
                self.supersede(&old);
            }
            Some(old) if old.state != State::Ending => {
                self.tell_owner(&old, HIGHER_PRIORITY);
                self.end(old, HIGHER_PRIORITY);
                self.disown();
            }
            // A client that asks anew gets the report about that, not about the replaced one.
            Some(old) if old.owner == new.owner => self.disown(),
            _ => {}
        }
        self.next_hard = Some(new);
        self.tend_hard_link();
    }

    /// One that isn't made yet makes way for a better one.
    fn supersede(&mut self, hard: &Hard<C>) {
        if hard.called {
            self.say_to_peer(hard.peer, REJECTED, HIGHER_PRIORITY);
        }
        // Of called clients only the asked one knows of it.
        if !hard.called || hard.state == State::Offered {
            self.tell_owner(hard, HIGHER_PRIORITY);
        }
    }

    /// Its client hears that it hasn't got it, or has it no more.
    fn tell_owner(&mut self, hard: &Hard<C>, reason: u8) {
        let Some(id) = hard.owner else { return };
        let primitive = match hard.state {
            State::Linking | State::Asked if !hard.made => {
                Primitive::HardLinkRejected(reason, hard.link, hard.to)
            }
            _ => Primitive::HardLinkTerminated(reason, hard.link, hard.to),
        };
        self.say(id, &primitive);
    }

    /// There is no client here to inform.
    const fn disown(&mut self) {
        if let Some(hard) = &mut self.hard {
            hard.owner = None;
        }
    }

    fn say_to_peer(&mut self, peer: usize, kind: u8, reason: u8) {
        let to = (peer, self.settings.peers[peer]);
        self.send_own(to, true, 0, &[kind << 4 | reason & 15]);
    }

    /// A hard link with a node that doesn't answer, or refuses the link, isn't made.
    pub(super) fn give_up_calls(&mut self, silent: impl Fn(usize) -> bool) {
        let linking = self.hard.filter(|hard| hard.state == State::Linking);
        let Some(hard) = linking else { return };
        if self.refused.get(hard.peer) == Some(&true) {
            self.fail(&hard, BUSY);
        } else if silent(hard.peer) {
            self.fail(&hard, NO_RESPONSE);
        }
    }

    /// It isn't made, or not again.
    fn fail(&mut self, hard: &Hard<C>, reason: u8) {
        self.hard = None;
        self.tell_owner(hard, if hard.made { LINK_BROKEN } else { reason });
    }

    fn is_linked(&self, peer: usize) -> bool {
        self.linked.get(peer).copied().unwrap_or(false)
    }

    fn is_soft(&self, peer: usize) -> bool {
        self.soft.get(peer).copied().unwrap_or(false)
    }

    /// A client that asked for a hard link, and lost its link before another had ended, no longer
    /// needs it.
    pub(super) fn forget_lost_callers(&mut self) {
        let lost = |hard: &Hard<C>| hard.called && !self.is_linked(hard.peer);
        if self.next_hard.as_ref().is_some_and(lost) {
            self.next_hard = None;
        }
    }

    /// Continues if time or the link allow it.
    pub(super) fn tend_hard_link(&mut self) {
        self.go_on_with_hard_link();
        if self.hard.is_none()
            && let Some(next) = self.next_hard.take()
        {
            self.begin_hard_link(next);
        }
    }

    fn go_on_with_hard_link(&mut self) {
        let Some(hard) = self.hard else { return };
        let linked = self.is_linked(hard.peer);
        let over = hard.until <= self.now;
        match hard.state {
            State::Linking | State::Asked | State::Lost if over || !self.up => {
                self.fail(&hard, NO_RESPONSE);
            }
            State::Linking if linked && !self.is_soft(hard.peer) => {
                let first = REQUEST << 4 | hard.link.octet() >> 4;
                let saps = hard.sap << 4 | hard.link.sap & 15;
                let to = (hard.peer, hard.to.address());
                self.send_own(to, true, 0, &[first, saps]);
                let answer = match hard.asked {
                    true => hard.until.since(self.now),
                    false => self.settings.hard.answer,
                };
                self.set_state(State::Asked, answer);
                if let Some(hard) = &mut self.hard {
                    hard.asked = true;
                }
            }
            // By the next link it is asked for again.
            State::Asked if !linked => self.set_state(State::Linking, hard.until.since(self.now)),
            State::Up if !linked && self.up => self.lose_hard_link(hard),
            State::Up | State::Ending if !linked => {
                self.hard = None;
                self.tell_owner(&hard, LINK_BROKEN);
            }
            State::Lost if linked && !self.is_soft(hard.peer) => {
                self.set_state(State::Up, Duration::ZERO);
            }
            State::Offered if over => {
                self.hard = None;
                self.say_to_peer(hard.peer, REJECTED, NO_RESPONSE);
            }
            State::Ending if over => {
                self.hard = None;
                self.tell_owner(&hard, NO_RESPONSE);
            }
            _ => {}
        }
    }

    /// Its link is lost: whether for good, is known when its caller has called again
    /// (A.3.2.2.3 (7)).
    fn lose_hard_link(&mut self, hard: Hard<C>) {
        let state = if hard.called {
            State::Lost
        } else {
            State::Linking
        };
        self.set_state(state, self.settings.hard.answer);
        if let Some(hard) = &mut self.hard {
            (hard.asked, hard.made) = (false, true);
        }
    }

    fn set_state(&mut self, state: State, patience: Duration) {
        if let Some(hard) = &mut self.hard {
            hard.state = state;
            hard.until = self.now + patience;
        }
    }

    /// A hard link is no longer blocked.
    fn begin_hard_link(&mut self, hard: Hard<C>) {
        self.hard = Some(hard);
        if !hard.called {
            self.set_state(State::Linking, self.settings.hard.answer);
            return self.go_on_with_hard_link();
        }
        match hard.owner {
            Some(id) => {
                self.set_state(State::Offered, self.settings.hard.client);
                self.say(id, &Primitive::HardLinkIndication(OK, hard.link, hard.to));
            }
            None => {
                self.set_state(State::Up, Duration::ZERO);
                self.say_to_peer(hard.peer, CONFIRM, 0);
            }
        }
    }

    /// A client doesn't need its hard link any more. It may have ended meanwhile.
    pub(super) fn drop_hard_link(&mut self, id: C, to: NodeAddress) {
        let its = |hard: &Hard<C>| hard.owner == Some(id) && hard.to.address() == to.address();
        if self.next_hard.as_ref().is_some_and(its) {
            self.next_hard = None;
        }
        if let Some(hard) = self.hard.filter(its) {
            self.end(hard, BY_CLIENT);
        }
    }

    /// A client that had one is gone.
    pub(super) fn end_hard_link_of(&mut self, id: C) {
        let its = |hard: &Hard<C>| hard.owner == Some(id);
        if let Some(hard) = self.next_hard.take_if(|hard| its(hard))
            && hard.called
        {
            self.say_to_peer(hard.peer, REJECTED, NOT_BOUND);
        }
        if let Some(hard) = self.hard.filter(its) {
            self.end(hard, NOT_BOUND);
            self.disown();
        }
    }

    fn end(&mut self, hard: Hard<C>, reason: u8) {
        match hard.state {
            State::Linking | State::Lost => self.hard = None,
            State::Offered => {
                self.hard = None;
                self.say_to_peer(hard.peer, REJECTED, NOT_BOUND);
            }
            State::Asked | State::Up => {
                self.say_to_peer(hard.peer, TERMINATE, reason);
                self.set_state(State::Ending, self.settings.hard.end);
            }
            State::Ending => {}
        }
    }

    /// A client that was asked has decided.
    pub(super) fn decide_hard_link(&mut self, id: C, to: NodeAddress, rejected: Option<u8>) {
        let asked = |hard: &Hard<C>| {
            let about = hard.owner == Some(id) && hard.to.address() == to.address();
            about && hard.state == State::Offered
        };
        let Some(hard) = self.hard.filter(asked) else {
            return self.note_invalid(id);
        };
        match rejected {
            None => {
                self.say_to_peer(hard.peer, CONFIRM, 0);
                self.set_state(State::Up, Duration::ZERO);
            }
            Some(reason) => {
                self.hard = None;
                self.say_to_peer(hard.peer, REJECTED, reason);
            }
        }
    }

    /// A message of the other node about a hard link.
    pub(super) fn arrive_hard_link(&mut self, from: usize, source: Address, s_pdu: &[u8]) {
        let (kind, reason) = (s_pdu[0] >> 4, s_pdu[0] & 15);
        // A stranger keeps no peer out.
        if from >= self.settings.peers.len() {
            if kind == REQUEST {
                self.send_own((from, source), true, 0, &[REJECTED << 4 | BUSY]);
            }
            return;
        }
        if kind == REQUEST {
            if let [first, saps] = *s_pdu {
                self.offer_hard_link(from, HardLink::of(first << 4 | saps & 15), saps >> 4);
            }
            return;
        }
        let ours = self.hard.filter(|hard| hard.peer == from);
        match (kind, ours) {
            (CONFIRM, Some(hard)) if hard.state == State::Asked => {
                self.set_state(State::Up, Duration::ZERO);
                if let Some(id) = hard.owner.filter(|_| !hard.made) {
                    self.say(id, &Primitive::HardLinkEstablished(OK, hard.link, hard.to));
                }
            }
            // It was given up, and the other end doesn't know.
            (CONFIRM, None) => self.say_to_peer(from, TERMINATE, BY_CLIENT),
            (REJECTED, Some(hard)) if hard.state == State::Asked => self.fail(&hard, reason),
            (TERMINATE, ours) => {
                self.say_to_peer(from, TERMINATE_CONFIRM, 0);
                self.next_hard
                    .take_if(|hard| hard.called && hard.peer == from);
                if let Some(hard) = ours {
                    self.hard = None;
                    let told = if reason == BY_CLIENT {
                        BY_REMOTE
                    } else {
                        reason
                    };
                    self.tell_owner(&hard, told);
                }
            }
            (TERMINATE_CONFIRM, Some(hard)) => match hard.state {
                State::Ending => self.hard = None,
                // It answers another's word, and has it no more.
                State::Up | State::Lost => {
                    self.hard = None;
                    self.tell_owner(&hard, BY_REMOTE);
                }
                _ => {}
            },
            _ => {}
        }
        self.tend_hard_link();
    }

    /// Another node asks for a hard link with this one, or with a client of it.
    fn offer_hard_link(&mut self, from: usize, link: HardLink, asking: u8) {
        // A shareable link isn't for two nodes alone, and there are three kinds.
        if self.is_soft(from) || link.kind > 2 {
            return self.say_to_peer(from, REJECTED, BUSY);
        }
        let (sap, link) = (
            link.sap,
            HardLink {
                sap: asking,
                ..link
            },
        );
        if self.is_asked_again(from, link, sap) {
            return;
        }
        let owner = self.holder(sap).filter(|_| link.kind == 2);
        if link.kind == 2 && owner.is_none() {
            return self.say_to_peer(from, REJECTED, NOT_BOUND);
        }
        // Its client's rank isn't transmitted: that of the client here counts.
        let rank = owner.and_then(|id| self.binding(id)).map(|it| it.rank);
        let new = Hard {
            peer: from,
            to: self.settings.peers[from].into(),
            link,
            called: true,
            owner,
            sap,
            rank: rank.unwrap_or(self.settings.hard.rank),
            state: State::Linking,
            until: self.now,
            asked: false,
            made: false,
        };
        let Some(old) = self.rival(&new) else {
            return self.replace_hard_link(new);
        };
        let equal = (old.rank, old.link.priority) == (new.rank, link.priority);
        let reason = if equal { BUSY } else { HIGHER_PRIORITY };
        self.say_to_peer(from, REJECTED, reason);
    }

    /// A node that asks though it has one has lost it: a node has one at most. An equal request
    /// names the existing one.
    fn is_asked_again(&mut self, from: usize, link: HardLink, sap: u8) -> bool {
        let its = |old: &Hard<C>| old.called && old.peer == from && old.state != State::Ending;
        self.next_hard.take_if(|old| its(old));
        let Some(old) = self.hard.filter(its) else {
            return false;
        };
        if (old.link, old.sap) != (link, sap) {
            self.hard = None;
            self.tell_owner(&old, BY_REMOTE);
            return false;
        }
        if old.state != State::Offered {
            self.set_state(State::Up, Duration::ZERO);
            self.say_to_peer(from, CONFIRM, 0);
        }
        true
    }
}
