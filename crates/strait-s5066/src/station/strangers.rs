//! Stations that aren't peers, and what they are told.

use strait_core::time::nanos;
use strait_core::{Duration, Instant};

use super::{Peer, Station};
use crate::address::Address;
use crate::arq::Numbering;
use crate::c_pdu::{BROADCAST_ONLY, CPdu, EXCLUSIVE_LINK, UNKNOWN_REASON};
use crate::d_pdu::{Body, DPdu};
use crate::non_arq::Assembler;

/// Answers to strangers in a row; one more may be given after each [`ANSWER_EVERY`].
const ANSWERS_MAX: u32 = 4;
const ANSWER_EVERY: Duration = Duration::from_secs(15);

impl<T> Station<T> {
    /// The peers that are listed.
    pub(super) fn listed(&self) -> &[Peer<T>] {
        &self.peers[..self.listed]
    }

    /// Peers, and places for strangers with links, whose numbers are behind theirs.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.listed + self.settings.guests
    }

    /// The number of a peer, or of the place of a stranger that has one.
    pub(super) fn place_of(&self, address: Address) -> Option<usize> {
        let mut places = self.peers[..self.places()].iter();
        let place = places.position(|peer| peer.address == address);
        place.filter(|_| address != self.settings.own)
    }

    /// What puts data without ARQ together: strangers' takes no room of peers'.
    pub(super) fn assembler_of(&mut self, from: Option<usize>) -> &mut Assembler {
        match from.is_some_and(|number| number < self.listed) {
            true => &mut self.assembler,
            false => &mut self.of_strangers,
        }
    }

    /// Strangers for which their owner has something keep their places, all others may lose them.
    pub fn keep_guests(&mut self, wanted: impl Fn(Address) -> bool) {
        let places = self.listed..self.places();
        for peer in &mut self.peers[places] {
            peer.wanted = wanted(peer.address);
        }
    }

    /// The number of the node that there is something for, until [`Station::keep_guests`] says that
    /// there is nothing any more; none while all places of strangers are taken by such.
    pub fn place(&mut self, address: Address) -> Option<usize> {
        let place = self.admit(address)?;
        self.peers[place].wanted = true;
        Some(place)
    }

    /// The place of a stranger: its own, or that of the stranger that has used it least. Who called
    /// and didn't go on gives way before who did.
    fn admit(&mut self, address: Address) -> Option<usize> {
        if address == self.settings.own {
            return None;
        }
        let known = self.place_of(address);
        let free = (self.listed..self.places()).filter(|place| self.gives_place(*place));
        let free = free.min_by_key(|place| self.peers[*place].link.standing());
        known.or_else(|| free.inspect(|place| self.put_guest(*place, address)))
    }

    /// Whether nothing of ours would be lost with a stranger's place.
    fn gives_place(&self, place: usize) -> bool {
        let peer = &self.peers[place];
        let idle = peer.send.held() + peer.expedited.held() == 0 && peer.outgoing.is_none();
        let on_air = self.on_air.is_some_and(|it| it.peer == place);
        let told = self.outcomes.iter().all(|outcome| outcome.to != place);
        idle && told && !on_air && !peer.wanted
    }

    fn put_guest(&mut self, place: usize, address: Address) {
        let numbering = Numbering::short(self.settings.window);
        let fresh = Peer::new(address, numbering, self.settings.segment_octets_max);
        let gone = core::mem::replace(&mut self.peers[place], fresh);
        self.repeated_before += gone.send.repeated();
        self.stats.others_ns += nanos(gone.air.1);
        for number in [&mut self.spoke, &mut self.speaker, &mut self.to_answer] {
            number.take_if(|number| *number == place);
        }
        if let Some(state) = self.state {
            self.begin_rate(place, state);
        }
    }

    /// A stranger that called and didn't go on in time is forgotten without a word: it may never
    /// have been there.
    pub(super) fn forget_vain_guests(&mut self, now: Instant) {
        for place in self.listed..self.places() {
            let link = &self.peers[place].link;
            if link.is_made() && link.wants_call(now) && self.gives_place(place) {
                self.forget_link(place);
            }
        }
    }

    /// A D_PDU came to us, or to a group of ours, from a station that isn't a peer.
    pub(super) fn take_stranger(&mut self, now: Instant, d_pdu: &DPdu<'_>) {
        self.stats.strangers += 1;
        if !self.settings.strangers || d_pdu.from == self.settings.own {
            return;
        }
        let Body::NonArq(piece) = &d_pdu.body else {
            return;
        };
        let own = d_pdu.to == self.settings.own;
        match piece.control().filter(|_| own) {
            Some(c_pdu) => {
                self.of_strangers.pass(now, d_pdu.from, piece);
                if let CPdu::Request { exclusive, .. } = c_pdu {
                    self.take_stranger_call(now, d_pdu.from, exclusive);
                }
            }
            None => self.of_strangers.take(now, d_pdu.from, d_pdu.to, piece),
        }
        self.receive_assembled(now);
    }

    /// A stranger calls. Whom the operator doesn't know keeps nobody out.
    fn take_stranger_call(&mut self, now: Instant, from: Address, exclusive: bool) {
        let takes = !exclusive && !self.settings.broadcast_only && self.may_answer(now);
        let place = takes.then(|| self.admit(from)).flatten();
        let Some(place) = place else {
            return self.refuse_stranger(now, from);
        };
        self.spend_answer(now);
        self.speaker = self.speaker.or(Some(place));
        self.spoke = Some(place);
        let call = CPdu::Request {
            exclusive,
            ours: None,
        };
        self.take_control(now, place, call);
    }

    /// Whether one more stranger is answered.
    fn may_answer(&self, now: Instant) -> bool {
        self.answers_spent <= now + ANSWER_EVERY * (ANSWERS_MAX - 1)
    }

    fn spend_answer(&mut self, now: Instant) {
        self.answers_spent = self.answers_spent.max(now) + ANSWER_EVERY;
    }

    /// Rejects the call of a stranger in the answer's slot (B.3.2.1). Whoever calls under ever more
    /// names doesn't keep us on the air.
    fn refuse_stranger(&mut self, now: Instant, from: Address) {
        let place = self.peers.len() - 1;
        let stranger = &self.peers[place];
        let again = stranger.address == from && stranger.link.says.is_some();
        if !again && !self.may_answer(now) {
            return;
        }
        let kept = self.exclusive.is_some() || self.peers.iter().any(|it| it.link.is_exclusive());
        let reason = match kept {
            _ if self.settings.broadcast_only => BROADCAST_ONLY,
            true => EXCLUSIVE_LINK,
            false => UNKNOWN_REASON,
        };
        if !again {
            self.spend_answer(now);
        }
        let stranger = &mut self.peers[place];
        stranger.address = from;
        stranger.link.says = Some(CPdu::Rejected(reason));
        self.spoke = Some(place);
    }
}
