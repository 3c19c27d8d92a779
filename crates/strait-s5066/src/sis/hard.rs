//! Hard links: a client keeps a link for itself or for its node (Annex A.3.2).
//!
//! A node has one at most. The link itself is made by the station; here stands who wants it, and
//! what the two nodes say to each other of it.

use strait_core::{Duration, Instant};

use super::Sis;
use super::primitive::{HardLink, Primitive};
use crate::address::Address;

/// How long the other node, or its client, may take to decide.
const PATIENCE: Duration = Duration::from_secs(180);

/// The status of a node that is well.
const OK: u8 = 1;

/// Reasons that both ends know.
const BUSY: u8 = 1;
const HIGHER_PRIORITY: u8 = 2;
const NO_RESPONSE: u8 = 3;
const NOT_BOUND: u8 = 4;
const LINK_BROKEN: u8 = 5;
const BY_REMOTE: u8 = 1;

/// The first half octet of each S_PDU.
const REQUEST: u8 = 3;
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
    /// The other node was told that it is over.
    Ending,
}

/// A hard link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hard {
    peer: usize,
    link: HardLink,
    /// The client here that has it, or is asked; the node itself without one.
    owner: Option<u64>,
    /// The client's access point.
    sap: u8,
    rank: u8,
    state: State,
    until: Instant,
}

impl Hard {
    /// When it isn't waited for any longer.
    pub(super) fn until(&self) -> Option<Instant> {
        (self.state != State::Up).then_some(self.until)
    }
}

impl Sis {
    /// The peer that a link is to be kept with, and no other.
    #[must_use]
    pub fn exclusive(&self) -> Option<usize> {
        self.hard.map(|hard| hard.peer)
    }

    /// The peer that a link is to be made with, though nothing waits for it.
    #[must_use]
    pub fn calls(&self) -> Option<usize> {
        let linking = self.hard.filter(|hard| hard.state == State::Linking);
        linking.map(|hard| hard.peer)
    }

    /// Whether one client has a link for itself: nobody else sends.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.hard_owner().is_some()
    }

    pub(super) fn hard_owner(&self) -> Option<(usize, u64)> {
        let hard = self.hard.filter(|hard| hard.state == State::Up)?;
        let owner = hard.owner.filter(|_| hard.link.kind == 2)?;
        Some((hard.peer, owner))
    }

    /// A client wants a hard link.
    pub(super) fn want_hard_link(
        &mut self,
        id: u64,
        rank: u8,
        sap: u8,
        link: HardLink,
        to: Address,
    ) {
        let peer = self.settings.peers.iter().position(|peer| *peer == to);
        let refused = match peer {
            _ if link.kind > 2 => Some(BUSY),
            None => Some(NO_RESPONSE),
            Some(_) if to.is_group() || !self.up => Some(NO_RESPONSE),
            Some(peer) => self.outranked(peer, rank, link),
        };
        if let Some(reason) = refused {
            return self.say(id, &Primitive::HardLinkRejected(reason, link, to));
        }
        self.give_way();
        self.hard = peer.map(|peer| Hard {
            peer,
            link,
            owner: Some(id),
            sap,
            rank,
            state: State::Linking,
            until: self.now + PATIENCE,
        });
        self.tend_hard_link();
    }

    /// Why a new hard link can't take the place of the one that there is: the higher rank wins,
    /// then the higher priority; of two with the same node the higher kind; then the older.
    fn outranked(&self, peer: usize, rank: u8, link: HardLink) -> Option<u8> {
        let old = self.hard?;
        if old.state == State::Ending {
            return Some(BUSY);
        }
        let same = old.peer == peer;
        let kinds = |kind: u8| if same { kind } else { 0 };
        let new = (rank, link.priority, kinds(link.kind));
        let held = (old.rank, old.link.priority, kinds(old.link.kind));
        if new > held {
            return None;
        }
        Some(match same && link.kind == 0 && old.link.kind == 0 {
            true => 5,
            false if new < held => HIGHER_PRIORITY,
            false => BUSY,
        })
    }

    /// The hard link that there is makes way for a better one.
    fn give_way(&mut self) {
        let Some(old) = self.hard.take() else { return };
        self.say_to_peer(old.peer, TERMINATE, HIGHER_PRIORITY);
        self.tell_owner(&old, HIGHER_PRIORITY);
    }

    /// Its client hears that it hasn't got it, or has it no more.
    fn tell_owner(&mut self, hard: &Hard, reason: u8) {
        let Some(id) = hard.owner else { return };
        let to = self.settings.peers[hard.peer];
        let primitive = match hard.state {
            State::Linking | State::Asked => Primitive::HardLinkRejected(reason, hard.link, to),
            _ => Primitive::HardLinkTerminated(reason, hard.link, to),
        };
        self.say(id, &primitive);
    }

    fn say_to_peer(&mut self, peer: usize, kind: u8, reason: u8) {
        self.send_own(peer, true, 0, &[kind << 4 | reason & 15]);
    }

    /// A hard link with a node that doesn't answer isn't made.
    pub(super) fn give_up_calls(&mut self, silent: impl Fn(usize) -> bool) {
        let lost = |hard: &Hard| hard.state == State::Linking && silent(hard.peer);
        if let Some(hard) = self.hard.filter(lost) {
            self.hard = None;
            self.tell_owner(&hard, NO_RESPONSE);
        }
    }

    /// Goes on where time or the link allow it.
    pub(super) fn tend_hard_link(&mut self) {
        let Some(hard) = self.hard else { return };
        let linked = self.linked.get(hard.peer).copied().unwrap_or(false);
        match hard.state {
            State::Linking if linked => {
                let first = REQUEST << 4 | hard.link.octet() >> 4;
                let saps = hard.sap << 4 | hard.link.sap & 15;
                self.send_own(hard.peer, true, 0, &[first, saps]);
                self.set_state(State::Asked);
            }
            State::Up if !linked => {
                self.hard = None;
                self.tell_owner(&hard, LINK_BROKEN);
            }
            State::Ending if !linked => self.hard = None,
            State::Offered if hard.until <= self.now => {
                self.hard = None;
                self.say_to_peer(hard.peer, REJECTED, NO_RESPONSE);
            }
            State::Linking | State::Asked if hard.until <= self.now || !self.up => {
                self.hard = None;
                self.tell_owner(&hard, NO_RESPONSE);
            }
            State::Ending if hard.until <= self.now => self.hard = None,
            _ => {}
        }
    }

    fn set_state(&mut self, state: State) {
        if let Some(hard) = &mut self.hard {
            hard.state = state;
            hard.until = self.now + PATIENCE;
        }
    }

    /// A client doesn't need its hard link any more.
    pub(super) fn drop_hard_link(&mut self, id: u64, to: Address) {
        let Some(hard) = self.hard.filter(|hard| hard.owner == Some(id)) else {
            return self.note_invalid(id);
        };
        if self.settings.peers[hard.peer] == to {
            self.end(hard, 1);
        }
    }

    /// A client that had one is gone.
    pub(super) fn end_hard_link_of(&mut self, id: u64) {
        if let Some(hard) = self.hard.filter(|hard| hard.owner == Some(id)) {
            self.end(hard, NOT_BOUND);
        }
    }

    fn end(&mut self, hard: Hard, reason: u8) {
        match hard.state {
            State::Linking => self.hard = None,
            State::Offered => {
                self.hard = None;
                self.say_to_peer(hard.peer, REJECTED, NOT_BOUND);
            }
            State::Asked | State::Up => {
                self.say_to_peer(hard.peer, TERMINATE, reason);
                if let Some(hard) = &mut self.hard {
                    hard.owner = None;
                }
                self.set_state(State::Ending);
            }
            State::Ending => {}
        }
    }

    /// A client that was asked has decided.
    pub(super) fn decide_hard_link(&mut self, id: u64, to: Address, rejected: Option<u8>) {
        let asked = |hard: &Hard| hard.state == State::Offered && hard.owner == Some(id);
        let Some(hard) = self.hard.filter(asked) else {
            return self.note_invalid(id);
        };
        if self.settings.peers[hard.peer] != to {
            return self.note_invalid(id);
        }
        match rejected {
            None => {
                self.say_to_peer(hard.peer, CONFIRM, 0);
                self.set_state(State::Up);
            }
            Some(reason) => {
                self.hard = None;
                self.say_to_peer(hard.peer, REJECTED, reason);
            }
        }
    }

    /// The other node says something of a hard link.
    pub(super) fn arrive_hard_link(&mut self, from: usize, s_pdu: &[u8]) {
        let (kind, reason) = (s_pdu[0] >> 4, s_pdu[0] & 15);
        if kind == REQUEST {
            if let [first, saps] = *s_pdu {
                self.offer_hard_link(from, HardLink::of(first << 4 | saps & 15), saps >> 4);
            }
            return;
        }
        let ours = self.hard.filter(|hard| hard.peer == from);
        match (kind, ours) {
            (CONFIRM, Some(hard)) if hard.state == State::Asked => {
                self.set_state(State::Up);
                if let Some(id) = hard.owner {
                    let to = self.settings.peers[from];
                    self.say(id, &Primitive::HardLinkEstablished(OK, hard.link, to));
                }
            }
            (REJECTED, Some(hard)) if hard.state == State::Asked => {
                self.hard = None;
                self.tell_owner(&hard, reason);
            }
            (TERMINATE, ours) => {
                self.say_to_peer(from, TERMINATE_CONFIRM, 0);
                if let Some(hard) = ours {
                    self.hard = None;
                    let told = if reason == 1 { BY_REMOTE } else { reason };
                    self.tell_owner(&hard, told);
                }
            }
            (TERMINATE_CONFIRM, Some(hard)) if hard.state == State::Ending => self.hard = None,
            _ => {}
        }
    }

    /// Another node asks for a hard link with this one, or with a client of it.
    fn offer_hard_link(&mut self, from: usize, link: HardLink, asking: u8) {
        // Its client's rank isn't told.
        if let Some(reason) = self.outranked(from, 0, link) {
            return self.say_to_peer(from, REJECTED, reason.min(HIGHER_PRIORITY));
        }
        let holder = self.holder(link.sap);
        if link.kind == 2 && holder.is_none() {
            return self.say_to_peer(from, REJECTED, NOT_BOUND);
        }
        self.give_way();
        let whole = link.kind == 2;
        self.hard = Some(Hard {
            peer: from,
            link: HardLink {
                sap: asking,
                ..link
            },
            owner: holder.filter(|_| whole),
            sap: link.sap,
            rank: 0,
            state: if whole { State::Offered } else { State::Up },
            until: self.now + PATIENCE,
        });
        let to = self.settings.peers[from];
        match (holder, whole) {
            (Some(id), true) => {
                let link = HardLink {
                    sap: asking,
                    ..link
                };
                self.say(id, &Primitive::HardLinkIndication(OK, link, to));
            }
            _ => self.say_to_peer(from, CONFIRM, 0),
        }
    }
}
