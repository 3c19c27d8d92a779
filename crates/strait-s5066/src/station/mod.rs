//! A station: the machines that share a radio, put together.
//!
//! `MediaAccess` says when it may begin. Each peer has separate machines: `Contact` knows whether
//! it is there, `Calls` make and break the link with it, `Transfer` has the data to and from it,
//! and `RateControl` the rate by which that goes. None of them knows another's contents.

mod access;
mod calls;
mod contact;
mod context;
mod exchange;
mod hearing;
mod identity;
mod inbox;
mod ladder;
mod peer;
mod peers;
mod plain;
mod rate_control;
mod settings;
mod transfer;
mod transmission;
mod write;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::chance::Stream;
use strait_core::node::{FrameMeta, PortState, Turn};
use strait_core::stats::{HfCounts, HfLink};
use strait_core::time::nanos;
use strait_core::{Duration, Instant, Room};

pub use self::access::{Access, Csma, Order, Slots};
use self::access::{Due, Ended, Heard, MediaAccess, Phase};
use self::context::Context;
pub use self::exchange::{Offer, Outcome, Received, Waiting};
use self::hearing::Hearing;
use self::identity::Identity;
use self::inbox::{Inbox, Source};
use self::ladder::Ladder;
pub use self::peer::Peer;
use self::peers::Peers;
pub use self::settings::Settings;
use self::transmission::Transmission;
use self::write::Writer;
use crate::address::Address;
use crate::c_pdu::{BROADCAST_ONLY, CPdu, EXCLUSIVE_LINK, UNKNOWN_REASON};
use crate::d_pdu::{Body, DPdu, Kind};

/// The only peer that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusive {
    /// Its number.
    pub peer: usize,
    /// The link with it is renewed when it is idle, not broken.
    pub keeps: bool,
}

/// A station with its peers, whose numbers are their places in its list.
#[derive(Debug)]
pub struct Station<T> {
    settings: Settings,
    access: MediaAccess,
    ladder: Ladder,
    peers: Peers<T>,
    exclusive: Option<Exclusive>,
    identity: Identity,
    on_air: Option<Transmission>,
    hearing: Hearing,
    inbox: Inbox,
    outcomes: VecDeque<Outcome<T>>,
    counts: HfCounts,
}

impl<T> Station<T> {
    /// A station that is off. `seed` differs from start to start.
    #[must_use]
    pub fn new(settings: Settings, peers: &[Address], seed: u64) -> Self {
        let mut chance = Stream::new(seed, "s5066");
        let identity = Identity::new(&mut chance, &mut Stream::new(seed, "s5066 lives"));
        let draws = [chance, Stream::new(seed, "s5066 silences")];
        let slots = settings.access.slots();
        Self {
            access: MediaAccess::new(&settings, peers, draws),
            ladder: Ladder::new(&settings),
            peers: Peers::new(&settings, peers),
            exclusive: None,
            identity,
            on_air: None,
            hearing: Hearing::default(),
            inbox: Inbox::new(slots.map_or(Duration::ZERO, |it| it.delivery)),
            outcomes: VecDeque::new(),
            counts: HfCounts::default(),
            settings,
        }
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> HfCounts {
        HfCounts {
            repeated: self.peers.repeated(),
            ..self.counts
        }
    }

    /// How the link with a peer stands.
    #[must_use]
    pub fn link_view(&self, number: usize) -> Option<HfLink> {
        self.peer(number).map(|peer| peer.view(&self.ladder))
    }

    /// C_PDUs offered whose outcome isn't known.
    #[must_use]
    pub fn held(&self) -> usize {
        let peers = self.peers.iter().map(|peer| peer.transfer.held_in_all());
        peers.sum::<usize>() + self.outcomes.len()
    }

    /// How many peers it has.
    #[must_use]
    pub const fn peers(&self) -> usize {
        self.peers.listed()
    }

    /// Peers, and places for strangers with links, whose numbers are behind theirs.
    #[must_use]
    pub const fn places(&self) -> usize {
        self.peers.places()
    }

    /// A peer, or the stranger at a place.
    #[must_use]
    pub fn peer(&self, number: usize) -> Option<&Peer<T>> {
        self.peers.at(number)
    }

    /// The peers, and the inputs of each from all others.
    fn split(&mut self) -> (&mut Peers<T>, Context<'_, T>) {
        let cx = Context {
            now: self.access.now(),
            settings: &self.settings,
            access: &self.access,
            ladder: &self.ladder,
            identity: &mut self.identity,
            inbox: &mut self.inbox,
            outcomes: &mut self.outcomes,
            counts: &mut self.counts,
            exclusive: self.exclusive.map(|it| it.peer),
        };
        (&mut self.peers, cx)
    }

    /// The medium is there.
    pub fn set_up(&mut self, now: Instant, state: PortState) {
        self.ladder.set_medium(Some(state));
        let slower = self.ladder.slower_block();
        self.access.set_up(now, &state, slower);
        let ladder = &self.ladder;
        self.peers.iter_mut().for_each(|it| it.rate.begin(ladder));
    }

    /// The medium is gone, and with it all links; data under way to them is over.
    pub fn set_down(&mut self) {
        self.ladder.set_medium(None);
        self.access.set_down();
        self.on_air = None;
        self.hearing.begin();
        let (peers, mut cx) = self.split();
        peers.iter_mut().for_each(|peer| peer.set_down(&mut cx));
    }

    /// Another's transmission was heard to begin or to end; its contents were reported before.
    pub fn hear_carrier(&mut self, now: Instant, on: bool) {
        self.advance(now);
        if on && self.access.hear_begin(now) {
            self.hearing.begin();
        } else if !on && matches!(self.access.phase(), Phase::Hearing(_)) {
            self.end_hearing(now);
        }
        self.advance(now);
    }

    /// The modem's knowledge of the next octets.
    pub fn measure(&mut self, meta: FrameMeta) {
        self.hearing.measure(meta);
    }

    /// Octets of a transmission, errors included.
    pub fn hear(&mut self, now: Instant, bytes: &[u8]) {
        self.advance(now);
        if matches!(self.access.phase(), Phase::Down | Phase::Keyed) {
            return;
        }
        let mut finder = self.hearing.finder();
        finder.feed(bytes, |d_pdu| self.take(now, d_pdu));
        self.hearing.go_on(finder);
    }

    /// This station's transmission has left.
    pub fn drained(&mut self, now: Instant) {
        self.advance(now);
        let Some(on_air) = self.on_air.take() else {
            return;
        };
        self.end_on_air(now);
        let several = self.peers.are_several();
        let Some(peer) = self.peers.at_mut(on_air.peer()) else {
            return;
        };
        peer.end_transmission(now.since(self.access.on_since()));
        let ended = Ended {
            to: peer.address(),
            plain: on_air.plain,
            only_plain: on_air.is_only_plain(),
            speaks: !self.settings.broadcast_only && !peer.address().is_group(),
            answers: on_air.answers,
            wants_answer: on_air.wants_answer,
            latency: self.ladder.latency_at(on_air.place()),
        };
        self.access.end(now, &ended, several);
        self.advance(now);
    }

    /// A transmission ended, from any station: no peer can have shown meanwhile that it knows of
    /// its link.
    fn end_on_air(&mut self, now: Instant) {
        let (since, patience) = (self.access.on_since(), self.access.patience());
        for peer in self.peers.iter_mut() {
            peer.calls.put_off(since, now, patience);
        }
    }

    /// The received transmission is over.
    fn end_hearing(&mut self, now: Instant) {
        let mut finder = self.hearing.finder();
        finder.end(|d_pdu| self.take(now, d_pdu));
        let over = self.hearing.end();
        let who = over.who;
        let lasted = now.since(self.access.on_since());
        let kept = self.access.is_understood_answer();
        let (peers, cx) = self.split();
        match who.speaker.and_then(|speaker| peers.at_mut(speaker)) {
            Some(peer) => peer.end_speaking(&cx, &over, lasted),
            None => cx.counts.others_ns += nanos(lasted),
        }
        self.end_on_air(now);
        self.counts.garbled += u64::from(!self.access.is_understood());
        let owes = |number: &usize| self.peer(*number).is_some_and(Peer::owes);
        let owed = who.spoke.filter(owes);
        let mut missed = None;
        let (peers, mut cx) = self.split();
        for (number, peer) in peers.iter_mut().enumerate() {
            if who.spoke.is_none() {
                // Other or unknown stations had the air since: a collision with them is past, too.
                peer.contact.rest(None);
            }
            let spoke = who.spoke == Some(number);
            let kept = kept && who.speaker != Some(number);
            if peer.end_answer(&mut cx, spoke, kept) {
                missed = Some(number);
            }
        }
        let to_us = who.spoke.is_some();
        let several = self.peers.are_several();
        let heard = Heard { to_us, owed };
        let mut wait = self.access.wait_after_hearing(now, heard, several);
        if let Some(number) = missed.filter(|_| owed.is_none()) {
            wait = self.wait_after_silence(now, number);
        }
        self.access.keep_quiet(now, wait);
    }

    /// The station that was to answer and didn't.
    fn miss_answers(&mut self, now: Instant) {
        for number in 0..=self.places() {
            let (peers, mut cx) = self.split();
            let Some(peer) = peers.at_mut(number) else {
                continue;
            };
            if peer.contact.end_waiting() {
                peer.miss_answer(&mut cx, false);
                let wait = self.wait_after_silence(now, number);
                self.access.keep_quiet(now, wait);
            }
        }
    }

    fn wait_after_silence(&mut self, now: Instant, number: usize) -> Duration {
        let several = self.peers.are_several();
        let (access, peer) = (&mut self.access, self.peers.at_mut(number));
        peer.map_or(Duration::ZERO, |peer| {
            peer.wait_after_silence(now, access, several)
        })
    }

    /// Brings the station up to this moment.
    pub fn advance(&mut self, now: Instant) {
        while let Some(due) = self.access.advance(now) {
            match due {
                Due::Unanswered => self.miss_answers(now),
                Due::Unended => self.end_hearing(now),
                Due::Free => self.peers.iter_mut().for_each(|it| it.calls.pass_turn()),
            }
        }
        let (peers, mut cx) = self.split();
        for peer in peers.iter_mut() {
            peer.end_rest(now, cx.access);
            peer.calls.advance(now);
            // One of `strait` is asked, or called, once there is data for it.
            let kept = peer.calls.link().is_kept_in_vain(now);
            if kept && !peer.calls.is_known_as_ours() {
                peer.lose_link(&mut cx);
            }
        }
        self.forget_vain_guests(now);
        self.inbox.advance(now);
        if self.access.is_free() {
            self.break_idle();
        }
    }

    /// A stranger that called and didn't continue in time is forgotten silently: it may never have
    /// existed.
    fn forget_vain_guests(&mut self, now: Instant) {
        let on_air = self.on_air.map(|it| it.peer());
        let (peers, mut cx) = self.split();
        for peer in peers.guests_mut() {
            let link = peer.calls.link();
            let vain = link.is_made() && link.wants_call(now);
            if vain && peer.gives_place(on_air, cx.outcomes) {
                peer.forget_link(&mut cx);
            }
        }
    }

    /// Breaks an unneeded link, one at a time: behind each, all others have their turn.
    fn break_idle(&mut self) {
        let exclusive = self.exclusive;
        let (peers, mut cx) = self.split();
        if peers.iter().any(|peer| peer.calls.link().is_leaving()) {
            return;
        }
        let due = |peer: &Peer<T>| peer.is_to_be_broken(cx.access, cx.settings.idle);
        let number = peers.iter().position(due);
        let Some(peer) = number.and_then(|number| peers.at_mut(number)) else {
            return;
        };
        // One that is kept for its peer alone stays, and so it is known that the peer does.
        let its = exclusive.is_some_and(|it| it.keeps && Some(it.peer) == number);
        if its && peer.calls.link().is_own_exclusive() {
            return peer.call(&mut cx);
        }
        peer.calls.break_off();
    }

    /// When [`Station::advance`] is to be called.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let now = self.access.now();
        let told = self.inbox.tells_at();
        if self.access.phase() == Phase::Down {
            return told.filter(|at| *at > now);
        }
        let peers = self.peers.iter().flat_map(|peer| {
            let (rests, paused) = (peer.contact.rests_until(), peer.calls.paused_until());
            let breaks_at = peer.breaks_at(&self.access, self.settings.idle);
            [rests, paused, peer.calls.link().calls_at(), breaks_at]
        });
        let again_from = self.on_air.map(|it| it.again_from);
        let others = [
            self.inbox.wake(),
            told,
            self.identity.free_at(now),
            again_from,
        ];
        let later = peers.chain(others).flatten().filter(|at| *at > now);
        later.chain(self.access.wake()).min()
    }

    /// The next outcome of an offer.
    pub fn poll_outcome(&mut self) -> Option<Outcome<T>> {
        self.outcomes.pop_front()
    }

    /// The next received C_PDU.
    pub fn poll_received(&mut self) -> Option<Received> {
        let received = self.inbox.poll(self.access.now())?;
        Some(Received {
            // A stranger may have lost its place since.
            from: self.peers.place_of(received.source),
            ..received
        })
    }

    /// Whether a peer may be served beside a link that is kept for one alone.
    /// One that asks for such a link as well is: the clients' side decides between the two (B.3).
    fn serves(&self, number: usize) -> bool {
        let asks = |peer: &Peer<T>| peer.calls.link().is_exclusive();
        let only = self.exclusive.map(|it| it.peer);
        only.is_none_or(|only| only == number || self.peer(number).is_some_and(asks))
    }

    /// Whether a transmission for the peer is under way that takes more, or could begin now.
    fn has_turn(&self, to: usize) -> bool {
        match (self.access.phase(), &self.on_air) {
            (Phase::Keyed, Some(on_air)) => {
                let slots = self.settings.access.slots();
                let ahead = slots.map(|it| self.ladder.time_ahead(it.committed_octets));
                on_air.peer() == to && on_air.is_open(self.access.now(), ahead)
            }
            (Phase::Free, _) => !self.peer(to).is_some_and(Peer::waits),
            _ => false,
        }
    }

    /// The peer, if data with ARQ may be offered to it, or would make the station call it.
    fn takes_arq(&self, to: usize) -> Option<&Peer<T>> {
        let peer = self.peer(to).filter(|_| self.serves(to))?;
        let may = !self.settings.broadcast_only && peer.takes_arq(&self.access);
        (may && self.has_turn(to)).then_some(peer)
    }

    /// Whether an offer of expedited data with ARQ to a peer would be accepted.
    #[must_use]
    pub fn takes_expedited(&self, to: usize) -> bool {
        let takes = |peer: &Peer<T>| peer.transfer.expedited.takes() && !peer.is_group();
        self.takes_arq(to).is_some_and(takes)
    }

    /// Whether an offer to a peer would be accepted, or would make the station call it.
    #[must_use]
    pub fn takes(&self, to: usize, arq: bool) -> bool {
        let now = self.access.now();
        let Some(peer) = self.peer(to) else {
            return false;
        };
        if arq && !peer.is_group() {
            let takes =
                |peer: &Peer<T>| peer.calls.link().wants_call(now) || peer.transfer.send.takes();
            return self.takes_arq(to).is_some_and(takes);
        }
        let free = !peer.transfer.has_plain() && self.identity.free_at(now).is_none();
        free && self.serves(to) && self.has_turn(to)
    }

    /// Takes an offer that [`Station::takes`] allowed. Offers with ARQ need a link:
    /// [`Station::link`] ensures that.
    pub fn offer(&mut self, offer: Offer<T>) {
        if let Some(on_air) = &mut self.on_air {
            on_air.take(offer.c_pdu.len());
        }
        if let Some(peer) = self.peers.at_mut(offer.to) {
            let arq = offer.arq && (offer.expedited || !peer.is_group());
            peer.transfer.offer(offer, arq);
        }
    }

    /// Gives up data that a peer hasn't acknowledged, or that hasn't left without ARQ, and whose
    /// tickets are `such`.
    pub fn give_up(&mut self, to: usize, such: impl Fn(&T) -> bool) {
        let serves = self.serves(to);
        let (peers, mut cx) = self.split();
        if let Some(peer) = peers.at_mut(to) {
            peer.transfer.give_up(such);
            peer.transfer.end_given_up(serves);
            cx.collect(to, &mut peer.transfer);
        }
    }

    /// Its owner has nothing for a peer: unanswered calls to it aren't repeated, and the next
    /// continues their series.
    pub fn end_calls(&mut self, number: usize) {
        let exclusive = self.exclusive.is_some_and(|it| it.peer == number);
        let on_air = self.on_air_to() == Some(number);
        let Some(peer) = self.peers.at_mut(number) else {
            return;
        };
        let needed = peer.transfer.held() > 0 || exclusive;
        let under_way = peer.contact.is_asked() || on_air;
        if peer.calls.link().is_calling() && !needed && !under_way {
            peer.calls.put_off_calls();
        }
    }

    /// Sees that there is a link to a peer; `true` if there is one that data can go by now.
    pub fn link(&mut self, to: usize) -> bool {
        if self.settings.broadcast_only || !self.serves(to) {
            return false;
        }
        let (peers, mut cx) = self.split();
        peers.at_mut(to).is_some_and(|peer| peer.link(&mut cx))
    }

    /// Keeps the link with one peer, serves no other and accepts no other's call, until `None` is
    /// set.
    pub fn set_exclusive(&mut self, exclusive: Option<Exclusive>) {
        self.exclusive = exclusive.filter(|it| self.peers.is_listed(it.peer));
        for number in 0..=self.places() {
            let serves = self.serves(number);
            if let Some(peer) = self.peers.at_mut(number) {
                peer.transfer.end_given_up(serves);
            }
        }
    }

    /// Sees that there is a link to the peer that [`Station::set_exclusive`] named, which both ends
    /// keep for each other alone. Over one that they don't, it is asked for once that is empty.
    pub fn link_exclusive(&mut self, to: usize) {
        let (peers, mut cx) = self.split();
        let Some(peer) = peers.at_mut(to) else {
            return;
        };
        let link = peer.calls.link();
        let owes = peer.transfer.has_unacknowledged() || link.has_to_say();
        let idle = peer.transfer.held() == 0 && !owes;
        if link.is_made() && !link.has_exclusive() && idle {
            peer.call(&mut cx);
        } else {
            self.link(to);
        }
    }

    /// Strangers for which their owner has something keep their places, all others may lose them.
    pub fn keep_guests(&mut self, wanted: impl Fn(Address) -> bool) {
        for peer in self.peers.guests_mut() {
            peer.wanted = wanted(peer.address());
        }
    }

    /// The number of the node that there is data for, until [`Station::keep_guests`] says that
    /// there is none any more; none while all places of strangers are in use by such.
    pub fn place(&mut self, address: Address) -> Option<usize> {
        let place = self.admit(address)?;
        self.peers.at_mut(place)?.wanted = true;
        Some(place)
    }

    /// The place of a stranger, if its former owner loses none of this station's data.
    fn admit(&mut self, address: Address) -> Option<usize> {
        let (on_air, outcomes) = (self.on_air.map(|it| it.peer()), &self.outcomes);
        let gives = |peer: &Peer<T>| peer.gives_place(on_air, outcomes);
        let (place, gone) = self.peers.admit(address, &self.settings, gives)?;
        if let Some(gone) = gone {
            self.counts.others_ns += nanos(gone.heard());
            self.hearing.forget(place);
            self.access.forget(place);
            self.peers.at_mut(place)?.rate.begin(&self.ladder);
        }
        Some(place)
    }

    /// Whether the station may transmit now.
    #[must_use]
    pub const fn may_transmit(&self) -> bool {
        matches!(self.access.phase(), Phase::Keyed | Phase::Free)
    }

    /// The peer for the next transmission: one that waits for an answer, otherwise the one with the
    /// oldest turn, of those with messages, or with data of its owner, which has it for `others`.
    /// Absent peers come behind all others.
    #[must_use]
    pub fn to_whom(&self, others: &[usize]) -> Option<usize> {
        let now = self.access.now();
        let has_to_say = |number: &usize| {
            let says = |peer: &Peer<T>| peer.has_to_say(now, self.serves(*number));
            self.peer(*number).is_some_and(says)
        };
        let answered = self.access.owed().filter(has_to_say);
        let has = |number: &usize| others.contains(number) || has_to_say(number);
        let waiting = self.peers.iter().enumerate();
        let waiting = waiting.filter(|(number, _)| has(number));
        let last =
            |(_, peer): &(usize, &Peer<T>)| (peer.gives_way(&self.access), peer.contact.turn_at());
        answered.or_else(|| waiting.min_by_key(last).map(|(number, _)| number))
    }

    /// Begins a transmission to a peer, if none is under way and it may. `waiting` is its owner's
    /// data for that peer.
    pub fn begin(&mut self, now: Instant, to: usize, room: Room, waiting: Waiting) -> bool {
        self.advance(now);
        let held = self.peer(to).map(|peer| peer.transfer.held());
        if !self.access.is_free() || held.is_none() {
            return false;
        }
        if held.is_some_and(|held| held > 0) {
            self.link(to);
        }
        let linked = self.peers.iter().filter(|it| it.calls.link().is_made());
        let told = linked.filter_map(|it| it.turn_told);
        self.ladder.tell_turn(told.min());
        let Some(peer) = self.peers.at_mut(to) else {
            return false;
        };
        let begun = self.access.begin(now, room.starts.since(now), to);
        let plan = peer.begin_turn(now, &self.settings, &self.ladder, begun, room, waiting);
        self.on_air = Some(Transmission::new(&plan));
        self.counts.turns += 1;
        true
    }

    /// The peer of this station's transmission under way.
    #[must_use]
    pub fn on_air_to(&self) -> Option<usize> {
        self.on_air.map(|on_air| on_air.peer())
    }

    /// Appends the next D_PDU of the transmission, if there is one that fits, and gives the
    /// medium's description of it.
    pub fn write(&mut self, room: Room, out: &mut Vec<u8>) -> Option<Turn> {
        let on_air = self.on_air?;
        let room = on_air.room(room);
        let before = out.len();
        let (peers, cx) = self.split();
        let peer = peers.at_mut(on_air.peer())?;
        let eow = peer.rate.order(cx.ladder);
        let space = on_air.space(peer.ends(), eow, room, out);
        let mut writer = Writer {
            on_air,
            peer,
            cx,
            space,
        };
        if !writer.write() && !on_air.begins() {
            return None;
        }
        let mut on_air = writer.on_air;
        let octets = out.len() - before;
        let turn = on_air.turn(room.octets - octets);
        self.on_air = Some(on_air);
        self.counts.d_pdus_out += u64::from(octets > 0);
        Some(turn)
    }

    /// The medium's description of a transmission that has no further octets.
    #[must_use]
    pub fn idle_turn(&self) -> Option<Turn> {
        self.on_air.map(|on_air| on_air.idle_turn())
    }

    /// Takes a D_PDU for any station.
    fn take(&mut self, now: Instant, d_pdu: &DPdu<'_>) {
        let kind = d_pdu.body.kind();
        self.counts.d_pdus_in += 1;
        self.access.hear(d_pdu.from, d_pdu.to, kind == Kind::NonArq);
        let damaged = d_pdu.body.segment().is_some_and(|segment| !segment.intact);
        self.counts.damaged += u64::from(damaged);
        let from = self.peers.place_of(d_pdu.from);
        self.hearing.note_speaker(from);
        let to_us = d_pdu.to == self.settings.own;
        let group = d_pdu.to == Address::BROADCAST || self.settings.groups.contains(&d_pdu.to);
        let (peers, mut cx) = self.split();
        let peer = from.and_then(|from| peers.at_mut(from));
        let is_peer = peer.is_some();
        if let Some(peer) = peer {
            if kind.is_long() {
                peer.calls.see_long();
            }
            if to_us || group {
                peer.hear(&mut cx, d_pdu, to_us);
            }
        }
        if let Some(number) = from.filter(|_| to_us) {
            self.hearing.note_spoke(number);
        }
        let for_us = to_us || group;
        if for_us && !is_peer {
            self.counts.strangers += 1;
            if !self.settings.strangers || d_pdu.from == self.settings.own {
                return;
            }
        }
        let Body::NonArq(piece) = &d_pdu.body else {
            return;
        };
        let listed = from.is_some_and(|number| self.peers.is_listed(number));
        let source = Source {
            address: d_pdu.from,
            listed,
        };
        let control = piece.control().filter(|_| to_us);
        if for_us && control.is_none() {
            self.inbox.take(now, source, d_pdu.to, piece);
        } else {
            self.inbox.pass(now, source, piece);
        }
        match (from, control) {
            (Some(number), Some(says)) => self.hear_control(number, says),
            (None, Some(CPdu::Request { exclusive, .. })) => {
                self.hear_stranger(now, d_pdu.from, exclusive);
            }
            _ => {}
        }
        self.inbox.advance(now);
    }

    /// A link message of a peer, or of a stranger with a place.
    fn hear_control(&mut self, number: usize, says: CPdu<'_>) {
        // An exclusive link, by this station, or by its caller's request.
        let only = self.exclusive.map(|it| it.peer);
        let others = self.peers.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        let kept = others
            .filter(|(other, peer)| only == Some(*other) || peer.calls.link().keeps_others_out());
        let taken = kept.count();
        let refusal = match says {
            CPdu::Request { .. } if self.settings.broadcast_only => Some(BROADCAST_ONLY),
            // Stations unknown to the operator exclude no others.
            CPdu::Request {
                exclusive: true, ..
            } if !self.peers.is_listed(number) => Some(UNKNOWN_REASON),
            // Two exclusive links are possible: messages on the second show whose rank is higher.
            CPdu::Request { exclusive, .. } if taken > usize::from(exclusive) => {
                Some(EXCLUSIVE_LINK)
            }
            _ => None,
        };
        let (peers, mut cx) = self.split();
        if let Some(peer) = peers.at_mut(number) {
            match refusal {
                Some(reason) => peer.refuse(&mut cx, reason),
                None => peer.hear_control(&mut cx, says),
            }
        }
    }

    /// A stranger calls. Stations unknown to the operator exclude no others.
    fn hear_stranger(&mut self, now: Instant, from: Address, exclusive: bool) {
        let takes = !exclusive && !self.settings.broadcast_only && self.peers.may_answer(now);
        let place = takes.then(|| self.admit(from)).flatten();
        let Some(place) = place else {
            return self.refuse_stranger(now, from);
        };
        self.peers.spend_answer(now);
        self.hearing.note_speaker(Some(place));
        self.hearing.note_spoke(place);
        let ours = None;
        self.hear_control(place, CPdu::Request { exclusive, ours });
    }

    /// Rejects the call of a stranger in the answer's slot (B.3.2.1).
    fn refuse_stranger(&mut self, now: Instant, from: Address) {
        let exclusive = |peer: &Peer<T>| peer.calls.link().is_exclusive();
        let kept = self.exclusive.is_some() || self.peers.iter().any(exclusive);
        let reason = match kept {
            _ if self.settings.broadcast_only => BROADCAST_ONLY,
            true => EXCLUSIVE_LINK,
            false => UNKNOWN_REASON,
        };
        if let Some(stranger) = self.peers.answer(now, from) {
            stranger.calls.reject(reason);
            self.hearing.note_spoke(self.peers.places());
        }
    }
}

#[cfg(test)]
#[path = "../station_tests.rs"]
mod tests;
