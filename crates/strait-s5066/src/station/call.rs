//! How links are made and end, and what of the transfer under way goes on (Annex B).

use strait_core::Instant;

use super::Station;
use crate::arq::Numbering;
use crate::c_pdu::{BROADCAST_ONLY, CPdu, EXCLUSIVE_LINK, Ours, UNKNOWN_REASON};
use crate::d_pdu::Reset;
use crate::link::{State, Unheard};

impl<T> Station<T> {
    /// Keeps the link with one peer, serves no other and takes no other's call, until `None` is
    /// told. One that it `keeps` is renewed when it is idle, not broken.
    pub fn set_exclusive(&mut self, peer: Option<usize>, keeps: bool) {
        self.keeps = keeps;
        self.exclusive = peer.filter(|peer| *peer < self.listed().len());
        (0..self.peers.len()).for_each(|to| self.end_given_up(to));
    }

    /// Whether a peer may be served beside a link that is kept for one alone.
    /// One that asks for such a link as well is: the clients' side decides between the two (B.3).
    pub(super) fn serves(&self, number: usize) -> bool {
        let asks = |number: usize| self.peers[number].link.is_exclusive();
        self.exclusive
            .is_none_or(|only| only == number || asks(number))
    }

    /// Sees that there is a link to the peer that [`Station::set_exclusive`] named, which both ends
    /// keep for each other alone. Over one that they don't, it is asked for once that is empty.
    pub fn link_exclusive(&mut self, to: usize) {
        let Some(peer) = self.peers.get(to) else {
            return;
        };
        let idle = peer.send.held() + peer.expedited.held() == 0;
        let owes = peer.owes_ack || peer.expedited.owes_ack || peer.link.says.is_some();
        if peer.link.is_made() && !peer.link.has_exclusive() && idle && !owes {
            self.call(to);
        } else {
            self.link(to);
        }
    }

    /// Whether there is a link to a peer that isn't exclusive.
    #[must_use]
    pub fn is_linked_softly(&self, to: usize) -> bool {
        let peer = self.peers.get(to);
        peer.is_some_and(|peer| peer.link.is_kept() && !peer.link.has_exclusive())
    }

    /// Calls a peer, again if need be. If it is known to take data with the call, that begins anew
    /// with the first of a row of calls, unless it was given up and not heard since. The last of a
    /// row is as plain as the first to a stranger: the peer may have become another kind of
    /// station, unless it was heard meanwhile to use what only stations of ours know.
    pub(super) fn call(&mut self, number: usize) {
        let exclusive = self.exclusive == Some(number);
        let next = self.next_epoch();
        let tries = self.peers[number].link.tries();
        self.peers[number].seen_ours &= tries > 0;
        let last = tries > 0 && tries + 1 >= self.settings.calls_max;
        let last = last && !self.peers[number].seen_ours;
        let early = self.settings.early_data && !last;
        let (known, fresh) = (
            self.knows_ours(number),
            !self.peers[number].early.is_sending(),
        );
        let ours = known.then(|| {
            let early = early.then(|| self.peers[number].early.call(next)).flatten();
            if early.is_some() && fresh {
                self.send_anew(number, true);
            }
            early.unwrap_or_default()
        });
        let peer = &mut self.peers[number];
        peer.forget_warning();
        peer.link.call(ours, exclusive, !peer.silent);
    }

    /// A caller hasn't used its link in time: one of ours is asked for it, unless the link is to be
    /// another one.
    pub(super) fn ask_caller(&mut self, number: usize) -> bool {
        let ours = Ours {
            life: Some(self.life),
            epoch: None,
        };
        self.exclusive != Some(number) && self.peers[number].link.ask_caller(ours)
    }

    /// Whether what nodes of ours add is said to a peer, and heeded.
    pub(super) fn knows_ours(&self, number: usize) -> bool {
        let peer = &self.peers[number];
        let plain = peer.plain_until.is_some() || self.settings.edition_3.contains(&peer.address);
        // What strangers mean by the bits that Edition 3 reserves, nobody said.
        self.settings.long_numbers && !plain && number < self.listed
    }

    /// Sees that both ends of a link that something else makes count from zero before data goes: of
    /// a frame whose number the other end had before this station began, it would say that it came.
    /// If something has come by the link, what comes goes on.
    pub(super) fn link_given(&mut self, now: Instant, number: usize) {
        let heard = self.peers.get(number).is_some_and(|it| it.link.is_there());
        self.take_given(now, number);
        let Some(peer) = self.peers.get_mut(number).filter(|peer| peer.uneven) else {
            return;
        };
        peer.uneven = false;
        let reset = Reset {
            full: !heard,
            command: heard,
            ..Reset::default()
        };
        self.stats.resets += u64::from(peer.reset.begin(reset));
    }

    /// Takes the link with a peer for made, if something else makes it.
    pub(super) fn take_given(&mut self, now: Instant, number: usize) {
        let Some(peer) = self.peers.get(number) else {
            return;
        };
        let named = self.settings.without_calls.contains(&peer.address);
        let idle = peer.link.state == State::Idle && peer.link.says.is_none();
        if named && idle && !peer.doubtful && self.exclusive.is_none() {
            self.begin_anew(number, false);
            let peer = &mut self.peers[number];
            peer.begin_numbers();
            (peer.ours, peer.uneven) = (false, true);
            peer.link.give(now);
            self.stats.links_made += 1;
        }
    }

    /// An epoch that no frames went under yet.
    const fn next_epoch(&mut self) -> u16 {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    /// Whether a peer is one of ours, as far as its last call or answer said.
    #[must_use]
    pub fn is_ours(&self, number: usize) -> bool {
        self.peers.get(number).is_some_and(|peer| peer.ours)
    }

    /// Whether a peer has shown that it is one of ours, which says so whenever it calls.
    pub(super) fn is_known_as_ours(&self, number: usize) -> bool {
        let peer = &self.peers[number];
        self.knows_ours(number) && (peer.ours || peer.early.life.is_some())
    }

    /// A C_PDU of channel access came.
    pub(super) fn take_control(&mut self, now: Instant, number: usize, c_pdu: CPdu<'_>) {
        // A link that is kept for one alone, by us, or by its caller's wish.
        let kept = |peer: &super::Peer<T>| peer.link.keeps_others_out();
        let others = self.peers.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        let exclusive =
            |other: &(usize, &super::Peer<T>)| self.exclusive == Some(other.0) || kept(other.1);
        let taken = others.filter(exclusive).count();
        let request = matches!(c_pdu, CPdu::Request { .. });
        if request && self.settings.broadcast_only {
            return self.refuse_call(number, BROADCAST_ONLY);
        }
        // Whom the operator doesn't know keeps nobody out.
        if matches!(
            c_pdu,
            CPdu::Request {
                exclusive: true,
                ..
            }
        ) && number >= self.listed
        {
            return self.refuse_call(number, UNKNOWN_REASON);
        }
        // Two exclusive links may be: whose clients have the higher rank, is said by the second.
        if let CPdu::Request { exclusive, .. } = c_pdu
            && taken > usize::from(exclusive)
        {
            return self.refuse_call(number, EXCLUSIVE_LINK);
        }
        self.peers[number].answered = true;
        let state = self.peers[number].link.state;
        match (c_pdu, state) {
            (CPdu::Request { exclusive, ours }, _) => {
                self.take_call(now, number, exclusive, ours);
            }
            (CPdu::Accepted { ours }, State::Calling { .. }) => {
                self.take_acceptance(now, number, ours);
            }
            // It accepts what nobody asked for, or asked for long ago: what it has is no link of
            // ours. A call in our name may have come to it.
            (CPdu::Accepted { .. }, _) if self.peers[number].link.is_unasked(self.on_since) => {
                let peer = &mut self.peers[number];
                if peer.link.is_made() {
                    // Or this one is forged: what it says to an acknowledgement tells.
                    peer.owes_ack = true;
                } else {
                    if peer.link.is_there() {
                        self.lose_link(number);
                    }
                    self.peers[number].link.disown();
                }
            }
            (CPdu::Rejected(_), State::Calling { .. }) => {
                self.peers[number].link.forget();
                self.end_link(number, false);
                self.pause_refused(now, number);
            }
            // What is under way hasn't come. To a station of ours an acknowledgement says that the
            // link is still used: it takes it back.
            (CPdu::Break(_), State::Made { .. }) if self.is_in_use(number) => {
                let peer = &mut self.peers[number];
                peer.owes_ack = true;
                peer.send.end_answer();
            }
            (CPdu::Break(_), _) => {
                // It had a link until now, and may have taken as its own what left with our calls.
                // A rest between calls is as long as before, and comes as soon.
                let peer = &mut self.peers[number];
                let mut rest = peer.paused_until;
                if peer.link.tries() >= self.settings.calls_max {
                    peer.link.forget();
                    rest = Some(now + self.settings.call_pause);
                }
                peer.doubtful = true;
                peer.link.confirm_break();
                self.begin_anew(number, false);
                self.peers[number].paused_until = rest;
            }
            (CPdu::BreakConfirm, State::Breaking { .. }) => {
                self.peers[number].link.forget();
                self.peers[number].doubtful = true;
                self.end_link(number, true);
            }
            // It heard in our name that the link is over, or this is forged: what it says to an
            // acknowledgement tells, before data does.
            (CPdu::BreakConfirm, State::Made { .. }) => self.peers[number].owes_ack = true,
            _ => {}
        }
    }

    /// A peer refused a call: it is called again soon, and later if it refuses that, too.
    fn pause_refused(&mut self, now: Instant, number: usize) {
        let most = self.settings.call_pause;
        let peer = &self.peers[number];
        let pause = self.answer_time() * (2 << peer.refusals.min(4));
        let peer = &mut self.peers[number];
        peer.refusals += 1;
        peer.paused_until = Some(now + pause.min(most));
    }

    /// Who calls has no link any more: what we had of one is over, and a call of ours that met this
    /// one is made again.
    fn refuse_call(&mut self, number: usize, reason: u8) {
        match self.peers[number].link.state {
            State::Idle => {}
            State::Calling { .. } => {
                self.peers[number].link.forget();
                self.end_link(number, false);
            }
            State::Made { .. } | State::Breaking { .. } => self.forget_link(number),
        }
        self.peers[number].link.says = Some(CPdu::Rejected(reason));
    }

    /// Whether data is under way by a link with a station of ours.
    fn is_in_use(&self, number: usize) -> bool {
        let peer = &self.peers[number];
        peer.link.is_long() && peer.send.under_way() > 0
    }

    /// Whether what left with a call of ours is to be told of before a link is made: who calls
    /// itself and says nothing of that may have it, or may not.
    fn asks_back(&self, number: usize, exclusive: bool, ours: Option<Ours>) -> bool {
        let silent = ours.is_some_and(|ours| ours.epoch.is_none());
        silent && !exclusive && self.peers[number].link.called_with_data()
    }

    fn take_call(&mut self, now: Instant, number: usize, exclusive: bool, ours: Option<Ours>) {
        let ours = ours.filter(|_| self.knows_ours(number));
        if self.asks_back(number, exclusive, ours) {
            // It takes our call for its own link, and its answer tells.
            self.peers[number].seen_ours = true;
            if self.peers[number].link.says.is_none() {
                self.call(number);
            }
            return;
        }
        let known = ours.is_some() || self.is_known_as_ours(number);
        let (next, life) = (self.next_epoch(), self.life);
        let peer = &mut self.peers[number];
        peer.ours = ours.is_some();
        let linked = peer.link.is_there();
        // The same request once more, in one transmission.
        let again = matches!(peer.link.says, Some(CPdu::Accepted { .. }));
        let verdict = ours.map(|ours| peer.early.hear_call(ours, linked, life, next));
        let says = verdict.map(|verdict| verdict.says);
        let goes_on = verdict.is_some_and(|it| !it.receive_anew);
        match verdict {
            None => self.begin_anew(number, false),
            Some(verdict) => {
                if verdict.send_anew {
                    self.send_anew(number, true);
                }
                if verdict.receive_anew {
                    self.receive_anew(number, true);
                }
            }
        }
        // A caller whose data came knows what it waits for; another may not have heard us.
        let early = says.is_some_and(|says| says.epoch.is_some());
        // One that is claimed is renewed by its caller's word.
        let renewed = exclusive && self.peers[number].link.keeps_others_out();
        let data_comes = self.answer_time() * 2 + self.longest_wait();
        let until = match exclusive || known {
            true => data_comes,
            false => self.patience(),
        };
        // What others say in between isn't its caller's fault. One of ours is asked whether it has
        // the link, which takes nothing from it; or called, as a call that says nothing of ours
        // isn't its own.
        let latest = match known {
            true => until,
            false => until.max(self.patience_at_most()),
        };
        let unheard = (!renewed && !early).then(|| Unheard {
            until: now + until,
            latest: now + latest,
            asked: false,
        });
        let peer = &mut self.peers[number];
        peer.note_contact();
        peer.begin_numbers();
        peer.paused_until = None;
        peer.forget_warning();
        peer.link.accept(now, unheard, exclusive, says);
        self.stats.links_made += u64::from(!goes_on && !again);
    }

    fn take_acceptance(&mut self, now: Instant, number: usize, ours: Option<Ours>) {
        let ours = ours.filter(|_| self.knows_ours(number));
        let peer = &mut self.peers[number];
        peer.ours = ours.is_some();
        let early = peer.link.called_with_data();
        let same = |ours: &Ours| early && ours.epoch.is_some() && ours.life == peer.early.life;
        // Another kind of node knows no long numbers, but may have taken what is expedited. One of
        // ours takes nothing of a transmission whose call it refuses.
        let untouched = early && peer.early.called_once();
        let untouched = untouched && (ours.is_some() || !peer.expedited.is_open());
        match ours.filter(same) {
            Some(ours) => match peer.early.hear_answer(ours) {
                Some(true) => self.receive_anew(number, true),
                Some(false) => {}
                None => return self.lose_link(number),
            },
            None if untouched => {
                let numbering = self.numbering(ours.is_some());
                let peer = &mut self.peers[number];
                peer.send.restart(numbering, false);
                peer.expedited.restart(false);
                self.begin_anew(number, ours.is_some());
            }
            None => self.begin_anew(number, ours.is_some()),
        }
        let peer = &mut self.peers[number];
        peer.early.life = ours.and_then(|ours| ours.life);
        peer.refusals = 0;
        peer.note_contact();
        peer.begin_numbers();
        peer.paused_until = None;
        peer.link.make(now, ours.is_some());
        self.stats.links_made += 1;
    }

    /// There is no link any more. What left with calls that weren't answered may still go on with
    /// the next call, unless there was a link.
    fn end_link(&mut self, number: usize, made: bool) {
        if made || !self.peers[number].early.is_sending() {
            self.begin_anew(number, false);
        }
    }

    /// A link is taken for lost.
    pub(super) fn lose_link(&mut self, number: usize) {
        self.stats.links_lost += 1;
        self.forget_link(number);
    }

    /// A link is over without its other end's consent. Where there was none, nothing of the other
    /// end can have been taken by it, and what may have been before is as doubtful as it was.
    pub(super) fn forget_link(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        let doubt = peer.link.is_there() || peer.early.doubts();
        peer.link.forget();
        peer.doubtful = true;
        self.begin_anew(number, false);
        if doubt {
            self.peers[number].early.lose_link();
        }
    }

    /// Both directions of a link begin anew: what had left whole may have arrived and is over, the
    /// rest is sent by the next link.
    pub(super) fn begin_anew(&mut self, number: usize, long: bool) {
        let peer = &mut self.peers[number];
        peer.early.begin_anew();
        peer.note_contact();
        (peer.rests_until, peer.paused_until) = (None, None);
        self.send_anew(number, long);
        self.receive_anew(number, long);
    }

    fn numbering(&self, long: bool) -> Numbering {
        if long {
            Numbering::long()
        } else {
            Numbering::short(self.settings.window)
        }
    }

    fn send_anew(&mut self, number: usize, long: bool) {
        let numbering = self.numbering(long);
        let peer = &mut self.peers[number];
        peer.send.restart(numbering, true);
        peer.expedited.restart(true);
        peer.reset.open = None;
        self.collect(number);
    }

    fn receive_anew(&mut self, number: usize, long: bool) {
        let numbering = self.numbering(long);
        let peer = &mut self.peers[number];
        peer.receive.restart(numbering);
        peer.used_long = false;
        peer.expedited.forget_incoming();
        peer.owes_ack = false;
        self.take_whole(number);
    }
}
